/* SPDX-License-Identifier: MIT */
/* shared.h - tracepoints in a header of two translation units. */
#ifndef STRATA_TEST_SHARED_H
#define STRATA_TEST_SHARED_H

#include <strata/tracepoint.h>

#ifdef __cplusplus
#define HEADER_FUNCTION inline
extern "C" {
#else
#define HEADER_FUNCTION static inline
#endif

STRATA_ENUM(colour, strata_label(BLUE, -1), strata_label_range(WARM, 1, 5), strata_label_auto(NEXT),
	    strata_label_auto(LAST));

STRATA_CLASS(transfer, (int fd, const char *path, const uint16_t *ports, size_t n, float ratio),
	     strata_int(fd, fd), strata_string(path, path), strata_sequence(ports, ports, n),
	     strata_float(ratio, ratio), strata_array_hex(first, ports, 2), strata_bool(some, n),
	     strata_pointer(where, (void *)0), strata_text(short_path, path, 3),
	     strata_enum(colour, colour, (int8_t)fd), strata_blob(raw, path, 2),
	     strata_int(double_n, n + n));

STRATA_EVENT(app, sent, NOTICE, transfer);
STRATA_EVENT(app, received, DEBUG_LINE, transfer);

HEADER_FUNCTION void in_header(int n)
{
	STRATA_TRACE(app, in_header, INFO, strata_int(n, n));
}

void other_unit(int n);
int other_unit_enabled(void);

#ifdef __cplusplus
}
#endif

#endif /* STRATA_TEST_SHARED_H */
