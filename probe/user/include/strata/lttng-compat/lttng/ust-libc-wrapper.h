/* SPDX-License-Identifier: MIT */
/* ust-libc-wrapper.h - not there; without this file a compiler would take LTTng's, where it is installed. */
#error "not in Strata: <lttng/ust-libc-wrapper.h>. There is no wrapper of malloc(). Record it by strata record --probe 'uprobe:libc.so.6:malloc'."
