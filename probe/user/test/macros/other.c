/* SPDX-License-Identifier: MIT */
/* other.c - the second translation unit; also the inside of a shared object. */
#ifdef __cplusplus
extern "C" { /* as some do around headers that they take for C's */
#endif
#include "shared.h"
#ifdef __cplusplus
}
#endif

void other_unit(int n)
{
	const uint16_t ports[2] = { 1, 2 };

	in_header(n);
	STRATA_TRACE_EVENT(app, sent, n, "other", ports, 1, 0.5f);
}

int other_unit_enabled(void)
{
	return STRATA_ENABLED(app, sent);
}
