/* SPDX-License-Identifier: MIT */
/* ust-getcpu.h - refuses LTTng's header of this name, which a compiler would take where LTTng is installed. */
#error "not in Strata: <lttng/ust-getcpu.h>. Records have the CPU that the kernel says, and no plug-in changes that. Leave the plug-in out."
