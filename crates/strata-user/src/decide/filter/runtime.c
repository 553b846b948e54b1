/* SPDX-License-Identifier: MIT */
/* runtime.c - what libstrata does with a session's filter, for the tests of filter.rs: the same headers. */
#include <string.h>

#include <filter_test.h>

int strata_user_filter_check(const void *filter, uint32_t bytes);
int strata_user_filter_ask(const void *filter, const struct strata_tracepoint *tracepoint,
			   const unsigned char *payload, uint64_t bytes, uint32_t contexts,
			   struct strata_filter_program *program, int is_whole);
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

/* Context values of the traces of event.rs. */
uint64_t strata_filter_ask_context(const void *of, uint32_t nr, char *text)
{
	(void)of;
	if (text)
		memcpy(text, "busy\0\0\0\0\0\0\0\0\0\0\0\0", STRATA_ABI_USER_COMM_BYTES);
	return nr == STRATA_ABI_USER_CTX_VPID ? (uint64_t)-2 : UINT32_MAX;
}

int strata_user_filter_check(const void *filter, uint32_t bytes)
{
	return strata_filter_check((const struct strata_abi_filter *)filter, bytes);
}

uint64_t strata_user_filter_program_bytes(const void *filter)
{
	return strata_filter_program_bytes((const struct strata_abi_filter *)filter);
}

/* The values of a payload as its site has them before it puts them together. */
static void take_apart(const struct strata_filter_event *event, struct strata_user_part *parts)
{
	uint64_t at;
	uint16_t i;

	for (i = 0; i < event->tracepoint->nr_fields; i++) {
		const struct strata_field *field = &event->tracepoint->fields[i];

		at = strata_filter_locate(event->tracepoint, i, event->payload, event->bytes);
		memset(&parts[i], 0, sizeof(parts[i]));
		parts[i].from.data = event->payload + at;
		parts[i].kind = STRATA_USER_PART_ARRAY;
		if (field->type == STRATA_ABI_USER_STRING)
			parts[i].kind = STRATA_USER_PART_STRING;
		if (strata_filter_is_number(field)) {
			parts[i].kind = STRATA_USER_PART_VALUE;
			memset(parts[i].from.value, 0, 8);
			memcpy(parts[i].from.value, event->payload + at, field->bytes);
		}
	}
}

/* The five ways of asking: 1, 0, or -1 if they do not agree. Only of a whole payload there are values. */
int strata_user_filter_ask(const void *filter, const struct strata_tracepoint *tracepoint,
			   const unsigned char *payload, uint64_t bytes, uint32_t contexts,
			   struct strata_filter_program *program, int is_whole)
{
	const struct strata_filter_event event = { (const struct strata_abi_filter *)filter,
						   tracepoint,
						   payload,
						   bytes,
						   { contexts, NULL } };
	int unbound = strata_filter_ask_unbound(&event), bound;
	struct strata_user_part values[16];
	uint32_t words, parts = STRATA_FILTER_UNDECIDED, word = STRATA_FILTER_UNDECIDED;
	uint64_t in_register;

	strata_filter_bind(program, &event);
	bound = strata_filter_ask(program, &event);
	words = strata_filter_ask_words(event.filter, program, payload, bytes);
	if (bytes == sizeof(in_register)) {
		memcpy(&in_register, payload, sizeof(in_register));
		word = strata_filter_ask_word(program, in_register);
	}
	if (is_whole && tracepoint->nr_fields <= 16) {
		take_apart(&event, values);
		parts = strata_filter_ask_parts(event.filter, program, values);
	}
	if (bound != unbound || (words != STRATA_FILTER_UNDECIDED && (int)words != bound) ||
	    (word != STRATA_FILTER_UNDECIDED && (int)word != bound) ||
	    (parts != STRATA_FILTER_UNDECIDED && (int)parts != bound))
		return -1;
	return bound;
}

int strata_user_glob(const char *pattern, size_t pattern_bytes, const char *text, size_t text_bytes)
{
	return strata_abi_glob(pattern, pattern + pattern_bytes, text, text + text_bytes);
}
