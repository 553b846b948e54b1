/* SPDX-License-Identifier: MIT */
/*
 * values.c - records event classes that were made at run time, from values or from a payload: strata/events.h.
 *
 *   strata_event_record()          one number of 8 bytes   -> record_word()
 *      ├── put_plain(), put_rest() up to 1,000 bytes, on the stack
 *      └── record_large()          measured, put together in staged memory
 *   strata_event_record_payload()  copied, and the copy is compared with the fields
 *
 * All take the fast path of fast_path.h, or end in record.c, as the tracepoints of macros do. What a pointer points to may change at any time:
 * it is read once, and only the copy is looked at.
 */
#include <strata/user/assemble.h>

#include "fast_path.h"
#include "event.h"

STRATA_INLINE void record_payload(struct strata_event_made *event, unsigned char *payload,
				  uint32_t bytes, const struct strata_caller *caller)
{
	if (strata_user_record_short(&event->tracepoint, payload, bytes))
		strata_user_record_otherwise(&event->tracepoint, payload, bytes, caller);
}

/* A payload of 8 bytes which the fast path does not take. */
STRATA_SLOW void record_word_otherwise(struct strata_event_made *event, uint64_t word,
				       const struct strata_caller *caller)
{
	unsigned char memory[STRATA_USER_HEADROOM + sizeof(word) + STRATA_USER_TAILROOM]
		__attribute__((aligned(8)));
	unsigned char *payload = memory + STRATA_USER_HEADROOM;

	memcpy(payload, &word, sizeof(word));
	memset(payload + sizeof(word), 0, STRATA_USER_TAILROOM);
	record_payload(event, payload, sizeof(word), caller);
}

STRATA_INLINE void record_word(struct strata_event_made *event, uint64_t word,
			       const struct strata_caller *caller)
{
	struct strata_abi_user_state *state =
		__atomic_load_n(&event->tracepoint.state, __ATOMIC_RELAXED);
	struct strata_user_channel *channel = common_channel(state);

	if (strata_likely(channel && !record_word_in_one_section(channel, state, word)))
		return;
	record_word_otherwise(event, word, caller);
}

/* Returns a number of @size bytes as a word that begins with these bytes in memory. */
STRATA_INLINE uint64_t number_bytes(uint64_t number, uint32_t size)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return number << (64 - 8 * size);
#else
	(void)size;
	return number;
#endif
}

/* The bytes of a value that has no pointer. */
STRATA_INLINE uint64_t scalar_bytes(const struct strata_step *step, const union strata_value *value)
{
	uint64_t word = value->u;
	uint32_t bits;
	float single;

	if (step->kind == STRATA_STEP_SINGLE) {
		single = (float)value->f;
		memcpy(&bits, &single, sizeof(bits));
		word = bits;
	} else if (step->kind == STRATA_STEP_TRUTH) {
		word = word != 0;
	}
	return number_bytes(word, step->size);
}

/* The value as the part of a payload that the macros' functions know. */
static void part_of(struct strata_user_part *part, const struct strata_step *step,
		    const union strata_value *value)
{
	static const uint8_t kinds[] = {
		[STRATA_STEP_STRING] = STRATA_USER_PART_STRING,
		[STRATA_STEP_ARRAY] = STRATA_USER_PART_ARRAY,
		[STRATA_STEP_TEXT] = STRATA_USER_PART_TEXT,
		[STRATA_STEP_SEQUENCE] = STRATA_USER_PART_SEQUENCE,
	};
	uint64_t word;

	if (step->kind < STRATA_STEP_STRING) {
		word = scalar_bytes(step, value);
		strata_user_part_value(part, &word, step->size);
		return;
	}
	strata_user_part_data(part, kinds[step->kind], value->data,
			      step->kind == STRATA_STEP_SEQUENCE ? value[1].u : step->count,
			      step->size);
}

static void parts_of(struct strata_user_part *parts, const struct strata_event_made *event,
		     const union strata_value *values)
{
	uint32_t i;

	for (i = 0; i < event->tracepoint.nr_fields; i++) {
		part_of(&parts[i], &event->steps[i], values);
		values += event->steps[i].kind == STRATA_STEP_SEQUENCE ? 2 : 1;
	}
}

/*
 * Writes a record of any size. Its payload is measured before it is assembled, in memory that may have to be mapped.
 */
STRATA_SLOW void record_large(struct strata_event_made *event, const union strata_value *values,
			      const struct strata_caller *caller)
{
	struct strata_user_part parts[STRATA_ABI_USER_FIELDS_MAX];
	const uint32_t nr = event->tracepoint.nr_fields;
	const int saved = errno;
	unsigned char *payload;
	uint64_t bytes = 0;
	uint32_t i;

	parts_of(parts, event, values);
	for (i = 0; i < nr; i++)
		if (__builtin_add_overflow(bytes, strata_user_part_bytes(&parts[i]), &bytes) ||
		    bytes > UINT32_MAX) {
			bytes = UINT64_MAX;
			break;
		}
	payload = strata_user_stage(&event->tracepoint, bytes);
	if (payload) {
		strata_user_put_parts(payload, parts, nr);
		record_payload(event, payload, (uint32_t)bytes, caller);
		strata_user_unstage(payload, bytes);
	}
	errno = saved;
}

/*
 * Returns whether a session may want an event with these values. Only called where a filter has rejected values
 * before.
 */
STRATA_SLOW int is_wanted(struct strata_event_made *event, const union strata_value *values)
{
	struct strata_user_part parts[STRATA_ABI_USER_FIELDS_MAX];

	parts_of(parts, event, values);
	return strata_user_wants(&event->tracepoint, parts, event->tracepoint.nr_fields);
}

/*
 * Writes the fields from @i on at @to, up to @end, for a payload that begins at @payload. Returns the payload's size;
 * 0: there is no room.
 */
STRATA_INLINE uint32_t put_rest(const struct strata_event_made *event,
				const union strata_value *values, uint32_t i,
				unsigned char *payload, unsigned char *to, unsigned char *end)
{
	const union strata_value *value = values + i;

	for (; i < event->tracepoint.nr_fields; i++, value++) {
		const struct strata_step *step = &event->steps[i];
		uint64_t bytes = (uint64_t)step->count * step->size, word;

		switch (step->kind) {
		case STRATA_STEP_STRING:
			to = strata_user_add_string(to, end, value->data);
			break;
		case STRATA_STEP_SEQUENCE:
			to = strata_user_add_sequence(to, end, value->data, value[1].u, step->size);
			value++;
			break;
		case STRATA_STEP_ARRAY:
		case STRATA_STEP_TEXT:
			if (to >= end || bytes > (uint64_t)(end - to))
				return 0;
			if (step->kind == STRATA_STEP_TEXT)
				strata_user_copy_text(to, value->data, bytes);
			else
				strata_user_copy(to, value->data, bytes);
			to += bytes;
			break;
		default:
			if (to >= end)
				return 0;
			word = scalar_bytes(step, value);
			memcpy(to, &word, sizeof(word));
			to += step->size;
		}
		if (!to)
			return 0;
	}
	if (to > end)
		return 0;
	/*
	 * The last word of the record is copied as a whole, so its unused bytes are set to zero: nothing private may
	 * be in them.
	 */
	memset(to, 0, STRATA_USER_TAILROOM);
	return (uint32_t)(to - payload);
}

/*
 * Stores the numbers at the begin of the payload at their known offsets; each overwrites the bytes that the one
 * before had too many.
 */
STRATA_INLINE void put_plain(const struct strata_event_made *event,
			     const union strata_value *values, unsigned char *payload)
{
	uint32_t i;

	for (i = 0; i < event->nr_plain; i++) {
		const uint64_t word = number_bytes(values[i].u, event->steps[i].size);

		memcpy(payload + event->steps[i].offset, &word, sizeof(word));
	}
}

STRATA_INLINE int record_values(struct strata_event_made *event, const union strata_value *values,
				uint32_t nr, const struct strata_caller *caller)
{
	unsigned char stack[STRATA_USER_HEADROOM + STRATA_USER_STACK_BYTES + STRATA_USER_STACK_SLACK]
		__attribute__((aligned(8)));
	unsigned char *payload = stack + STRATA_USER_HEADROOM;
	uint32_t bytes = event->fixed_bytes;

	if (strata_unlikely(nr != event->nr_values))
		return -EINVAL;
	if (event->is_word) {
		record_word(event, values->u, caller);
		return 0;
	}
	if (strata_unlikely(event->tracepoint.filtered) && !is_wanted(event, values))
		return 0;
	put_plain(event, values, payload);
	if (event->nr_plain < event->tracepoint.nr_fields) {
		unsigned char *rest = payload + event->steps[event->nr_plain].offset;

		bytes = put_rest(event, values, event->nr_plain, payload, rest,
				 payload + STRATA_USER_STACK_BYTES);
		if (strata_unlikely(!bytes)) {
			record_large(event, values, caller);
			return 0;
		}
	} else {
		memset(payload + bytes, 0, STRATA_USER_TAILROOM);
	}
	record_payload(event, payload, bytes, caller);
	return 0;
}

int strata_event_record(struct strata_event *handle, const union strata_value *values, uint32_t nr)
{
	struct strata_event_made *event = (struct strata_event_made *)(void *)handle;

	if (!event || !strata_event_made_is_on(event))
		return 0;
	return record_values(event, values, nr, STRATA_CALLER);
}

/* ---- payloads ---- */

/* Returns whether the bytes [at, end) are a payload as the fields describe it. */
static int is_payload(const struct strata_event_made *event, const unsigned char *at,
		      const unsigned char *end)
{
	const unsigned char *nul;
	uint32_t i, count;
	uint64_t bytes;

	for (i = 0; i < event->tracepoint.nr_fields; i++) {
		const struct strata_step *step = &event->steps[i];

		bytes = (uint64_t)step->count * step->size;
		if (step->kind == STRATA_STEP_STRING) {
			nul = (const unsigned char *)memchr(at, 0, (size_t)(end - at));
			if (!nul)
				return 0;
			bytes = (uint64_t)(nul - at) + 1;
		} else if (step->kind == STRATA_STEP_SEQUENCE) {
			if (end - at < (ptrdiff_t)sizeof(count))
				return 0;
			memcpy(&count, at, sizeof(count));
			bytes = sizeof(count) + (uint64_t)count * step->size;
		}
		if (bytes > (uint64_t)(end - at))
			return 0;
		at += bytes;
	}
	return at == end;
}

/* Copies a payload to @to and records the copy. Returns -EINVAL if it is none. */
STRATA_INLINE int record_copy(struct strata_event_made *event, unsigned char *to,
			      const void *payload, uint32_t bytes,
			      const struct strata_caller *caller)
{
	memcpy(to, payload, bytes);
	memset(to + bytes, 0, STRATA_USER_TAILROOM);
	if (event->fixed_bytes == UINT32_MAX && !is_payload(event, to, to + bytes))
		return -EINVAL;
	record_payload(event, to, bytes, caller);
	return 0;
}

STRATA_SLOW int record_large_payload(struct strata_event_made *event, const void *payload,
				     uint32_t bytes, const struct strata_caller *caller)
{
	const int saved = errno;
	unsigned char *to = strata_user_stage(&event->tracepoint, bytes);
	int code = 0;

	if (to) {
		code = record_copy(event, to, payload, bytes, caller);
		strata_user_unstage(to, bytes);
	}
	errno = saved;
	return code;
}

int strata_event_record_payload(struct strata_event *handle, const void *payload, uint32_t bytes)
{
	struct strata_event_made *event = (struct strata_event_made *)(void *)handle;
	unsigned char stack[STRATA_USER_HEADROOM + STRATA_USER_STACK_BYTES + STRATA_USER_TAILROOM]
		__attribute__((aligned(8)));
	uint64_t word;

	if (!event || !strata_event_made_is_on(event))
		return 0;
	if (event->fixed_bytes != UINT32_MAX && bytes != event->fixed_bytes)
		return -EINVAL;
	if (event->is_word) {
		memcpy(&word, payload, sizeof(word));
		record_word(event, word, STRATA_CALLER);
		return 0;
	}
	if (strata_unlikely(bytes > STRATA_USER_STACK_BYTES))
		return record_large_payload(event, payload, bytes, STRATA_CALLER);
	return record_copy(event, stack + STRATA_USER_HEADROOM, payload, bytes, STRATA_CALLER);
}

/* ---- spans ---- */

int strata_span_begin(struct strata_span *span, const union strata_value *values, uint32_t nr)
{
	int code;

	if (!span || !strata_event_made_is_on(span->begin))
		return 0;
	if (span->is_keyed)
		return -EINVAL;
	code = record_values(span->begin, values, nr, STRATA_CALLER);
	return code ? code : 1;
}

int strata_span_end(struct strata_span *span)
{
	if (!span || !strata_event_made_is_on(span->end))
		return 0;
	if (span->is_keyed)
		return -EINVAL;
	return record_values(span->end, NULL, 0, STRATA_CALLER);
}

int strata_span_begin_key(struct strata_span *span, uint64_t key, const union strata_value *values,
			  uint32_t nr)
{
	union strata_value all[2 * STRATA_ABI_USER_FIELDS_MAX];
	int code;

	if (!span || !strata_event_made_is_on(span->begin))
		return 0;
	if (!span->is_keyed || nr >= 2 * STRATA_ABI_USER_FIELDS_MAX)
		return -EINVAL;
	all[0].u = key;
	if (nr)
		memcpy(all + 1, values, nr * sizeof(*values));
	code = record_values(span->begin, all, nr + 1, STRATA_CALLER);
	return code ? code : 1;
}

int strata_span_end_key(struct strata_span *span, uint64_t key)
{
	const union strata_value value = { .u = key };

	if (!span || !strata_event_made_is_on(span->end))
		return 0;
	if (!span->is_keyed)
		return -EINVAL;
	return record_values(span->end, &value, 1, STRATA_CALLER);
}

/*
 * A key has the process' number in it, so that an end whose begin is not in the trace finds no span of another process, but
 * for one in another container that has the same number there.
 */
uint64_t strata_span_new_key(void)
{
	static uint64_t last;
	uint64_t pid = strata_runtime.control ? strata_runtime.control->pid : 0;

	return pid << 40 |
	       (__atomic_add_fetch(&last, 1, __ATOMIC_RELAXED) & ((UINT64_C(1) << 40) - 1));
}
