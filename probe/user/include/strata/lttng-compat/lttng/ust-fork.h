/* SPDX-License-Identifier: MIT */
/*
 * ust-fork.h - what LTTng-UST wants to be called around fork(), and after changes of namespaces and users.
 * Nothing of it is needed here: a child begins with memory of its own.
 */
#ifndef STRATA_LTTNG_COMPAT_UST_FORK_H
#define STRATA_LTTNG_COMPAT_UST_FORK_H

#pragma GCC system_header

#include <signal.h>

#define STRATA_LTTNG_NOTHING(name)                            \
	static inline __attribute__((unused)) void name(void) \
	{                                                     \
	}
#define STRATA_LTTNG_NOTHING_OF_SIGNALS(name)                              \
	static inline __attribute__((unused)) void name(sigset_t *signals) \
	{                                                                  \
		(void)signals;                                             \
	}

STRATA_LTTNG_NOTHING_OF_SIGNALS(lttng_ust_before_fork)
STRATA_LTTNG_NOTHING_OF_SIGNALS(lttng_ust_after_fork_parent)
STRATA_LTTNG_NOTHING_OF_SIGNALS(lttng_ust_after_fork_child)
STRATA_LTTNG_NOTHING(lttng_ust_after_setns)
STRATA_LTTNG_NOTHING(lttng_ust_after_unshare)
STRATA_LTTNG_NOTHING(lttng_ust_after_setuid)
STRATA_LTTNG_NOTHING(lttng_ust_after_setgid)
STRATA_LTTNG_NOTHING(lttng_ust_after_seteuid)
STRATA_LTTNG_NOTHING(lttng_ust_after_setegid)
STRATA_LTTNG_NOTHING(lttng_ust_after_setreuid)
STRATA_LTTNG_NOTHING(lttng_ust_after_setregid)
STRATA_LTTNG_NOTHING(lttng_ust_after_setresuid)
STRATA_LTTNG_NOTHING(lttng_ust_after_setresgid)

#undef STRATA_LTTNG_NOTHING
#undef STRATA_LTTNG_NOTHING_OF_SIGNALS

#endif /* STRATA_LTTNG_COMPAT_UST_FORK_H */
