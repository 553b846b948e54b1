/* SPDX-License-Identifier: MIT */
/* ust-getcpu.h - not there; without this file a compiler would take LTTng's, where it is installed. */
#error "not in Strata: <lttng/ust-getcpu.h>. Records have the CPU that the kernel says, and no plug-in changes that. Leave the plug-in out."
