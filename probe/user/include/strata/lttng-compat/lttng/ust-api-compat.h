/* SPDX-License-Identifier: MIT */
/*
 * ust-api-compat.h - which spellings of LTTng-UST's names there are: LTTNG_UST_COMPAT_API(0) is 1 while
 * those without the prefix (TRACEPOINT_EVENT, tracepoint, ctf_integer) are wanted, which is the default.
 */
#ifndef STRATA_LTTNG_COMPAT_UST_API_COMPAT_H
#define STRATA_LTTNG_COMPAT_UST_API_COMPAT_H

#ifndef LTTNG_UST_COMPAT_API_VERSION
#define LTTNG_UST_COMPAT_API_VERSION 0
#endif

#define LTTNG_UST_COMPAT_API(major) (LTTNG_UST_COMPAT_API_VERSION <= (major))

#endif /* STRATA_LTTNG_COMPAT_UST_API_COMPAT_H */
