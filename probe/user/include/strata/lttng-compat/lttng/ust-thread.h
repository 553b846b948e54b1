/* SPDX-License-Identifier: MIT */
/* ust-thread.h - refuses LTTng's header of this name, which a compiler would take where LTTng is installed. */
#error "not in Strata: <lttng/ust-thread.h>. Threads need no preparation. Leave the line and lttng_ust_init_thread() out."
