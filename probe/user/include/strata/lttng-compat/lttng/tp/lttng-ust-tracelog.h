/* SPDX-License-Identifier: MIT */
/* lttng-ust-tracelog.h - not there; without this file a compiler would take LTTng's, where it is installed. */
#error "not in Strata: <lttng/tp/lttng-ust-tracelog.h>. Include <lttng/tracelog.h>."
