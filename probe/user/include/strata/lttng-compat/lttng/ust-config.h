/* SPDX-License-Identifier: MIT */
/* ust-config.h - how LTTng-UST was built. Build systems look for this file; there is nothing to say in it. */
#ifndef STRATA_LTTNG_COMPAT_UST_CONFIG_H
#define STRATA_LTTNG_COMPAT_UST_CONFIG_H

#endif /* STRATA_LTTNG_COMPAT_UST_CONFIG_H */
