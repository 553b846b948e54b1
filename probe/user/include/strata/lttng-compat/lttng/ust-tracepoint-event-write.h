/* SPDX-License-Identifier: MIT */
/* ust-tracepoint-event-write.h - not there; without this file a compiler would take LTTng's, where it is installed. */
#error "not in Strata: <lttng/ust-tracepoint-event-write.h>. It is a part of LTTng's inside. Leave the line out: <lttng/tracepoint.h> is all that call sites and providers need."
