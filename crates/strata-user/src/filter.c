/* SPDX-License-Identifier: MIT */
/* filter.c - what libstrata does with a session's filter, for the tests of filter.rs: the same headers. */
#include <ask.h>

int strata_user_filter_check(const void *filter, uint32_t bytes);
int strata_user_filter_ask(const void *filter, const struct strata_tracepoint *tracepoint,
			   const unsigned char *payload, uint64_t bytes, int has_vtid,
			   struct strata_filter_program *program);
uint64_t strata_user_filter_program_bytes(const void *filter);
int strata_user_glob(const char *pattern, size_t pattern_bytes, const char *text,
		     size_t text_bytes);

int32_t strata_filter_thread(void)
{
	return 77;
}

uint32_t strata_filter_cpu(void)
{
	return 3;
}

int strata_user_filter_check(const void *filter, uint32_t bytes)
{
	return strata_filter_check((const struct strata_abi_filter *)filter, bytes);
}

uint64_t strata_user_filter_program_bytes(const void *filter)
{
	return strata_filter_program_bytes((const struct strata_abi_filter *)filter);
}

/* The three ways of asking: 1, 0, or -1 if they do not agree. */
int strata_user_filter_ask(const void *filter, const struct strata_tracepoint *tracepoint,
			   const unsigned char *payload, uint64_t bytes, int has_vtid,
			   struct strata_filter_program *program)
{
	const struct strata_filter_event event = { (const struct strata_abi_filter *)filter,
						   tracepoint, payload, bytes, has_vtid };
	int unbound = strata_filter_ask_unbound(&event), bound;
	uint32_t words;

	strata_filter_bind(program, &event);
	bound = strata_filter_ask(program, &event);
	words = strata_filter_ask_words(program, payload, bytes);
	if (bound != unbound || (words != STRATA_FILTER_UNDECIDED && (int)words != bound))
		return -1;
	return bound;
}

int strata_user_glob(const char *pattern, size_t pattern_bytes, const char *text, size_t text_bytes)
{
	return strata_abi_glob(pattern, pattern + pattern_bytes, text, text + text_bytes);
}
