/* SPDX-License-Identifier: MIT */
/* ust-clock.h - not there; without this file a compiler would take LTTng's, where it is installed. */
#error "not in Strata: <lttng/ust-clock.h>. Records have the time of CLOCK_MONOTONIC, and no plug-in changes that. Leave the plug-in out."
