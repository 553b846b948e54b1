/* SPDX-License-Identifier: MIT */
/* pointer.h - not there; without this file a compiler would take LTTng's, where it is installed. */
#error "not in Strata: <lttng/urcu/pointer.h>. It is a part of LTTng's inside. Leave the line out: <lttng/tracepoint.h> is all that call sites and providers need."
