/* SPDX-License-Identifier: MIT */
/* ust-clock.h - refuses LTTng's header of this name, which a compiler would take where LTTng is installed. */
#error "not in Strata: <lttng/ust-clock.h>. Records have the time of CLOCK_MONOTONIC, and no plug-in changes that. Leave the plug-in out."
