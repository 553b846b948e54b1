/* SPDX-License-Identifier: MIT */
/* ust-cancelstate.h - refuses LTTng's header of this name, which a compiler would take where LTTng is installed. */
#error "not in Strata: <lttng/ust-cancelstate.h>. It is a part of LTTng's inside. Leave the line out: <lttng/tracepoint.h> is all that call sites and providers need."
