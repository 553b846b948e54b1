/* SPDX-License-Identifier: MIT */
/* lttng-ust-tracef.h - refuses LTTng's header of this name, which a compiler would take where LTTng is installed. */
#error "not in Strata: <lttng/tp/lttng-ust-tracef.h>. Include <lttng/tracef.h>."
