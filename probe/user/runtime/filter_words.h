/* SPDX-License-Identifier: MIT */
/*
 * filter_words.h - names that a filter may have for what a program knows of itself: contexts of records, and the words of
 * every filter. Included by filter.h alone.
 */
#ifndef STRATA_RUNTIME_FILTER_WORDS_H
#define STRATA_RUNTIME_FILTER_WORDS_H

#ifndef STRATA_RUNTIME_FILTER_H
#error "filter_words.h is included by filter.h"
#endif

/*
 * Number of the context "duration", the time between the ends of a span: an event that begins a
 * span has it when the span has ended.
 */
#define STRATA_FILTER_DURATION 28u

/* The contexts that a filter knows: bit STRATA_ABI_USER_CTX_*, and for the record's thread bit 0. */
STRATA_FILTER_INLINE const char *strata_filter_context_name(uint32_t nr)
{
	static const char names[][11] = {
		[0] = "vtid",
		[STRATA_ABI_USER_CTX_VPID] = "vpid",
		[STRATA_ABI_USER_CTX_PROCNAME] = "procname",
		[STRATA_ABI_USER_CTX_THREADNAME] = "threadname",
		[STRATA_ABI_USER_CTX_VUID] = "vuid",
		"veuid",
		"vsuid",
		"vgid",
		"vegid",
		"vsgid",
		[STRATA_ABI_USER_CTX_CGROUP_NS] = "cgroup_ns",
		"ipc_ns",
		"mnt_ns",
		"net_ns",
		"pid_ns",
		"time_ns",
		"user_ns",
		"uts_ns",
		[STRATA_ABI_USER_CTX_CGROUP] = "cgroup_id",
		[STRATA_FILTER_DURATION] = "duration",
	};

	return nr < sizeof(names) / sizeof(*names) ? names[nr] : "";
}

#define STRATA_FILTER_NO_CONTEXT UINT32_MAX

/* A word of every filter, and the context that is its value in a program. */
struct strata_filter_word {
	char name[10];
	uint32_t context;
};

/*
 * Returns the context that a word of every filter means, whether records have it or not. Processes, threads and control
 * groups have the numbers that the program sees.
 */
STRATA_FILTER_FUNCTION uint32_t strata_filter_find_word(const char *wanted, uint32_t bytes)
{
	static const struct strata_filter_word words[] = {
		{ "tid", 0 },
		{ "pid", STRATA_ABI_USER_CTX_VPID },
		{ "comm", STRATA_ABI_USER_CTX_THREADNAME },
		{ "cgroup", STRATA_ABI_USER_CTX_CGROUP },
		{ "container", STRATA_ABI_USER_CTX_CGROUP },
	};
	uint32_t i, n;

	for (i = 0; i < sizeof(words) / sizeof(*words); i++) {
		for (n = 0;
		     n < bytes && n < sizeof(words[i].name) - 1 && words[i].name[n] == wanted[n];)
			n++;
		if (n == bytes && !words[i].name[n])
			return words[i].context;
	}
	return STRATA_FILTER_NO_CONTEXT;
}

#endif /* STRATA_RUNTIME_FILTER_WORDS_H */
