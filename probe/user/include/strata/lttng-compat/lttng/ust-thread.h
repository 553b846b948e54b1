/* SPDX-License-Identifier: MIT */
/* ust-thread.h - not there; without this file a compiler would take LTTng's, where it is installed. */
#error "not in Strata: <lttng/ust-thread.h>. Threads need no preparation. Leave the line and lttng_ust_init_thread() out."
