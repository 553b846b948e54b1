/* SPDX-License-Identifier: MIT */
/* other_unit.c - call sites in a unit that neither defines the tracepoints nor has their probes. */
#include "all_fields.h"

#ifdef __cplusplus
extern "C"
#endif
	void
	compat_other_unit(void);

void compat_other_unit(void)
{
	int i;

	for (i = 0; i < 2; i++)
		lttng_ust_tracepoint(compat_all, begin_pair, i, "other unit");
	if (lttng_ust_tracepoint_enabled(compat_all, empty))
		lttng_ust_do_tracepoint(compat_all, empty);
}
