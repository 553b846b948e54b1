/* SPDX-License-Identifier: MIT */
/* ust-libc-wrapper.h - refuses LTTng's header of this name, which a compiler would take where LTTng is installed. */
#error "not in Strata: <lttng/ust-libc-wrapper.h>. There is no wrapper of malloc(). Record it by strata record --probe 'uprobe:libc.so.6:malloc'."
