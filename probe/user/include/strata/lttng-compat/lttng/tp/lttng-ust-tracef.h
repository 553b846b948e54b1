/* SPDX-License-Identifier: MIT */
/* lttng-ust-tracef.h - not there; without this file a compiler would take LTTng's, where it is installed. */
#error "not in Strata: <lttng/tp/lttng-ust-tracef.h>. Include <lttng/tracef.h>."
