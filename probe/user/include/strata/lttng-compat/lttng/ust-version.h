/* SPDX-License-Identifier: MIT */
/* ust-version.h - the version of LTTng-UST whose source interface these headers have. */
#ifndef STRATA_LTTNG_COMPAT_UST_VERSION_H
#define STRATA_LTTNG_COMPAT_UST_VERSION_H

#define LTTNG_UST_MAJOR_VERSION	     2
#define LTTNG_UST_MINOR_VERSION	     13
#define LTTNG_UST_PATCHLEVEL_VERSION 0
#define LTTNG_UST_VERSION	     "2.13.0"

#endif /* STRATA_LTTNG_COMPAT_UST_VERSION_H */
