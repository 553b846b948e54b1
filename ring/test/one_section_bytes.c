/* SPDX-License-Identifier: MIT */
/*
 * one_section_bytes.c - the section of one_section.h against the way of publish.h: the same records, at times that are
 * given, leave the same bytes and the same accounts; and what the section refuses, it has not begun to store.
 *
 * On AArch64 under emulation, too (fake_rseq.h). Without restartable sequences there is nothing to compare: skipped.
 */
#include "../emulation/fake_rseq.h"
#include "test.h"

enum {
	SUBBUF = 4096,
	SUBBUFS = 4,
	SIZE_MAX_TRIED = 200,
	RECORDS = 6000,
	STAGING = STRATA_RING_HEADER_MAX + 4 + SIZE_MAX_TRIED + 8,
};

static struct strata_ring_conversion conversion;
static uint64_t conversion_index, epoch = 5;

/* However far the counter goes on: see time_begins(). */
static uint64_t given_clock(void)
{
	return conversion.base_ns;
}

#define CONFIG(name, loss, header)                                                \
	static const struct strata_ring_config name = { STRATA_RING_##loss,       \
							STRATA_RING_WRITERS_RSEQ, \
							STRATA_RING_PER_CPU,      \
							STRATA_RING_WAKE_NONE,    \
							1,                        \
							given_clock,              \
							header,                   \
							NULL }

CONFIG(compact_discard, DISCARD, STRATA_RING_HEADER_COMPACT);
CONFIG(compact_overwrite, OVERWRITE, STRATA_RING_HEADER_COMPACT);
CONFIG(large_discard, DISCARD, STRATA_RING_HEADER_LARGE);
CONFIG(large_overwrite, OVERWRITE, STRATA_RING_HEADER_LARGE);

/* One of the two channels: its stream of this CPU. */
struct side {
	struct strata_ring_channel channel;
	struct strata_ring_stream *s;
	struct strata_ring_reader reader;
};

/* Returns 0 if it cannot be made. */
static int side_create(struct side *side, const struct strata_ring_config *config)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, SUBBUFS);
	struct strata_ring_error error;

	attr.no_rseq = 0;
	if (!CHECK(strata_ring_channel_create(config, &attr, &side->channel, &error), ==, 0))
		return 0;
	side->s = &side->channel.streams.stream[test_cpu];
	return CHECK(strata_ring_reader_init(&side->reader, side->s), ==, 0);
}

/*
 * The memory of a stream that a section may change: its accounts, and one frame more than it has
 * sub-buffers.
 */
struct image {
	struct strata_abi_ring_stream line;
	struct strata_abi_ring_frame frames[SUBBUFS + 1];
	unsigned char data[(SUBBUFS + 1) * SUBBUF];
};

static void image_take(struct image *to, const struct side *side)
{
	const size_t nr = SUBBUFS + (side->channel.header.loss_mode == STRATA_ABI_RING_OVERWRITE);

	memset(to, 0, sizeof(*to));
	to->line = *side->s->shared;
	memcpy(to->frames, side->s->frames, nr * sizeof(to->frames[0]));
	memcpy(to->data, side->s->data, nr * SUBBUF);
}

/* The counter goes on, but no time passes, however long the thread has no CPU: a cycle takes none. */
static void time_begins(uint64_t ns)
{
	conversion.base_ns = ns;
	conversion.multiplier = 0;
	conversion.base_cycles = strata_clock_cycles();
}

static int publish(const struct strata_ring_config *config, const struct side *side,
		   const struct strata_ring_once *once, uint32_t id, uint32_t context,
		   unsigned char *payload, uint32_t n, uint64_t *one_section)
{
	const struct strata_ring_event event = { id, n, 0 };
	uint64_t word;

	memcpy(&word, payload, sizeof(word));
	/*
	 * Every other record passes its word in a register, the others pass it as any other
	 * payload.
	 */
	if ((n == 8 && id & 1 &&
	     !strata_ring_publish_word_in_one_section(once, id, context, &conversion, word)) ||
	    !strata_ring_publish_in_one_section(config, once, id, context, &conversion, payload,
						n)) {
		++*one_section;
		return 0;
	}
	return strata_ring_publish_long(config, once, &side->channel.streams, &event, context,
					payload);
}

/* Both have the same, but for what only one_section.h needs; of data, what is written of the open sub-buffer. */
static int compare(const struct strata_ring_config *config, const struct side *a,
		   const struct side *b)
{
	const uint64_t position = a->s->shared->write_count;
	const uint64_t begin = strata_ring_begin(a->s, position);
	struct image image[2];
	uint64_t index;
	int i;

	image_take(&image[0], a);
	image_take(&image[1], b);
	for (i = 0; i < 2; i++)
		image[i].line.limit = image[i].line.frame = 0;
	if (!CHECK(memcmp(&image[0].line, &image[1].line, sizeof(image[0].line)), ==, 0) ||
	    !CHECK(memcmp(image[0].frames, image[1].frames, sizeof(image[0].frames)), ==, 0))
		return 0;
	if (position == begin)
		return 1;
	index = strata_ring_frame_on_cpu(config, a->s, position) << a->s->subbuf_shift;
	return CHECK(memcmp(image[0].data + index, image[1].data + index, position - begin), ==, 0);
}

/* All packets that there are, the same in both. */
static void drain(struct side *a, struct side *b)
{
	struct strata_ring_packet packet[2];

	while (!strata_ring_get_next(&a->reader, &packet[0])) {
		REQUIRE(strata_ring_get_next(&b->reader, &packet[1]), ==, 0);
		REQUIRE(packet[0].content_bytes, ==, packet[1].content_bytes);
		CHECK(packet[0].timestamp_begin, ==, packet[1].timestamp_begin);
		CHECK(packet[0].timestamp_end, ==, packet[1].timestamp_end);
		CHECK(packet[0].records, ==, packet[1].records);
		CHECK(memcmp(packet[0].data, packet[1].data, packet[0].content_bytes), ==, 0);
		strata_ring_put_next(&a->reader);
		strata_ring_put_next(&b->reader);
	}
	CHECK(strata_ring_get_next(&b->reader, &packet[1]), ==, -EAGAIN);
}

static void records(const struct strata_ring_config *config, uint32_t context_bytes)
{
	const uint64_t wrap = UINT64_C(1) << config->header.timestamp_bits;
	unsigned char memory[STAGING], copy[STAGING];
	unsigned char *payload = memory + STRATA_RING_HEADER_MAX + 4;
	unsigned char *reference = copy + STRATA_RING_HEADER_MAX;
	struct strata_ring_event event;
	struct strata_ring_once once;
	uint64_t now = UINT64_C(1) << 40, one_section = 0;
	uint32_t i, n, context, full = 0;
	struct side a, b;
	int found;

	if (!side_create(&a, config) || !side_create(&b, config))
		return;
	strata_ring_once_init(&once, config, &a.channel.streams, context_bytes, &epoch, 5,
			      &conversion_index);
	for (i = 0; i < RECORDS; i++) {
		/* Each size is tried first; then sizes are random, small ones more often. */
		n = i < SIZE_MAX_TRIED ? i : (uint32_t)test_random(i & 1 ? 40 : SIZE_MAX_TRIED);
		event.id = (uint32_t)test_random(i % 50 ? config->header.short_ids :
							  2 * config->header.short_ids);
		event.in_handler = 0;
		for (context = 0; context < sizeof(memory); context++)
			memory[context] = (unsigned char)test_random(256);
		context = (uint32_t)test_random(UINT64_C(1) << 32);
		event.payload_bytes = n + context_bytes;
		memcpy(reference, &context, context_bytes);
		memcpy(reference + context_bytes, payload, n + 8);
		now += i % 70 == 69 ? wrap - 1 + test_random(3) : test_random(1000);
		time_begins(now);
		found = publish(config, &a, &once, event.id, context, payload, n, &one_section);
		CHECK(found, ==,
		      strata_ring_publish(config, &b.channel.streams, &event, reference));
		full += found == -ENOBUFS;
		if (!compare(config, &a, &b))
			break;
		if (i % 700 == 699) {
			strata_ring_flush_on_cpu(config, &a.channel.streams);
			strata_ring_flush_on_cpu(config, &b.channel.streams);
			drain(&a, &b);
		}
	}
#ifdef STRATA_RSEQ_HAS_AT_ONCE
	/*
	 * The others take the slow path: the first of a sub-buffer, and those with whole ids and
	 * times.
	 */
	CHECK(one_section + full, >, RECORDS / 2);
#endif
	CHECK(full > 0 || config->loss_mode == STRATA_RING_OVERWRITE, ==, 1);
	strata_ring_channel_close(&a.channel);
	strata_ring_channel_close(&b.channel);
}

static void bytes_and_accounts_are_those_of_the_other_way(void)
{
	const struct strata_ring_config *const configs[] = { &compact_discard, &compact_overwrite,
							     &large_discard, &large_overwrite };
	size_t i;

	for (i = 0; i < 8 && !test_failures; i++)
		records(configs[i / 2], i & 1 ? 4 : 0);
}

#ifdef STRATA_RSEQ_HAS_AT_ONCE

static uint64_t converted(void)
{
	return conversion.base_ns +
	       (uint64_t)((unsigned __int128)(strata_clock_cycles() - conversion.base_cycles) *
				  conversion.multiplier >>
			  32);
}

/* One attempt with @n bytes of payload, 12 or 8; of 8 in a register. */
static int try_once(const struct strata_ring_once *once, uint32_t n)
{
	unsigned char payload[12 + 8] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
	uint64_t word;

	memcpy(&word, payload, sizeof(word));
	return n == 8 ? strata_ring_publish_word_in_one_section(once, 3, 0x55aa55aa, &conversion,
								word) :
			strata_ring_publish_in_one_section(&compact_discard, once, 3, 0x55aa55aa,
							   &conversion, payload, n);
}

/* Whatever the thread suffers meanwhile, it is written in the end. */
static int comes_through(const struct strata_ring_once *once, uint32_t n)
{
	int tries;

	for (tries = 0; tries < 1000; tries++)
		if (!try_once(once, n))
			return 1;
	return 0;
}

enum cause {
	CPU,
	LIMIT,
	GENERATION,
	INDEX,
	BEHIND,
	WRAP,
	BEFORE_LAST,
	AHEAD,
	NOWHERE,
	OUTSIDE,
	END
};

/* Records a payload of @n bytes that the section must refuse. */
static void refused(enum cause cause, uint32_t n)
{
	const uint64_t now = UINT64_C(1) << 40, bytes = 4 + 4 + n;
	static struct image before, after;
	struct strata_ring_once once, good;
	struct strata_abi_ring_stream *line;
	struct side a;

	if (!side_create(&a, &compact_discard))
		return;
	line = a.s->shared;
	strata_ring_once_init(&once, &compact_discard, &a.channel.streams, 4, &epoch, 5,
			      &conversion_index);
	good = once;
	time_begins(now);
	{
		unsigned char memory[STAGING] = { 0 };
		uint64_t ignored = 0;

		REQUIRE(publish(&compact_discard, &a, &once, 3, 1,
				memory + STRATA_RING_HEADER_MAX + 4, 12, &ignored),
			==, 0);
	}
	/* A preempted thread may have left it as it was. */
	while (!line->limit)
		strata_ring_raise_limit(&compact_discard, &a.channel.streams);
	/* One byte less would be too few. */
	line->limit = line->write_count + bytes;
	time_begins(now + 1);
	CHECK(comes_through(&once, n), ==, 1);
	line->limit = line->write_count + bytes;
	time_begins(now + 2);
	switch (cause) {
	case CPU:
		once.nr = (uint32_t)test_cpu;
		break;
	case LIMIT:
		line->limit--;
		break;
	case GENERATION:
		epoch++;
		break;
	case INDEX:
		conversion.index++;
		break;
	case BEHIND:
		conversion.base_cycles += UINT64_C(1) << 50;
		break;
	case WRAP:
		line->full_timestamp = now + 2 - (1 << 27);
		break;
	case BEFORE_LAST:
		line->last_timestamp = now + 3;
		break;
	case AHEAD:
		line->full_timestamp = now + 3;
		break;
	case NOWHERE:
		line->frame = once.room - line->write_count - (n - 1);
		break;
	case OUTSIDE:
		/* Even a record without a payload would not fit. */
		line->frame = once.room - line->write_count + 1;
		break;
	case END:
		break;
	}
	image_take(&before, &a);
	CHECK(try_once(&once, n), ==, -EAGAIN);
	image_take(&after, &a);
	/*
	 * That alone may be there already, where nobody was preempted in front of it: the next one comes through
	 * all the same.
	 */
	if ((cause == NOWHERE || cause == OUTSIDE) && after.line.last_timestamp == now + 2)
		before.line.last_timestamp = now + 2;
	if (!CHECK(memcmp(&before, &after, sizeof(before)), ==, 0))
		fprintf(stderr, "  %u bytes refused by cause %d\n", n, cause);
	/* One step back, and it is written. */
	switch (cause) {
	case LIMIT:
		line->limit++;
		break;
	case GENERATION:
		epoch--;
		break;
	case INDEX:
		conversion.index--;
		break;
	case WRAP:
		line->full_timestamp++;
		break;
	case BEFORE_LAST:
		line->last_timestamp--;
		break;
	case AHEAD:
		line->full_timestamp--;
		break;
	case NOWHERE:
	case OUTSIDE:
		line->frame = once.room - line->write_count - n;
		break;
	default:
		break;
	}
	time_begins(now + 2);
	CHECK(comes_through(&good, n), ==, 1);
	CHECK(line->records, ==, 3);
	strata_ring_channel_close(&a.channel);
}

static void what_is_refused_has_stored_nothing(void)
{
	int cause;

	for (cause = CPU; cause < END; cause++) {
		refused((enum cause)cause, 12);
		refused((enum cause)cause, 8);
	}
}

/* Counters from 1 MHz to 4 GHz, long ago and just now: as 128 bits have it, and not before or after the call. */
static void time_is_what_the_conversion_says(void)
{
	static const uint64_t frequencies[] = { 1000000, 24000000, 62500000, 1000000000,
						3999999999 };
	const uint64_t passed[] = { 0, UINT64_C(1) << 24, UINT64_C(1) << 40, UINT64_C(1) << 52 };
	struct strata_ring_once once;
	uint64_t before, after, i;
	struct side a;
	int tries;

	if (!side_create(&a, &compact_discard))
		return;
	strata_ring_once_init(&once, &compact_discard, &a.channel.streams, 4, &epoch, 5,
			      &conversion_index);
	for (i = 0; i < 20; i++) {
		struct strata_abi_ring_stream *line = a.s->shared;
		unsigned char memory[STAGING] = { 0 };
		uint64_t ignored = 0;

		time_begins(1);
		REQUIRE(publish(&compact_discard, &a, &once, 3, 1,
				memory + STRATA_RING_HEADER_MAX + 4, 12, &ignored),
			==, 0);
		while (!line->limit)
			strata_ring_raise_limit(&compact_discard, &a.channel.streams);
		conversion.multiplier = (UINT64_C(1000000000) << 32) / frequencies[i / 4];
		/* A machine that has just begun has not counted so far. */
		conversion.base_cycles -= passed[i % 4] < conversion.base_cycles / 2 ?
						  passed[i % 4] :
						  conversion.base_cycles / 2;
		conversion.base_ns = UINT64_C(1) << 41;
		for (tries = 0; tries < 1000; tries++) {
			before = converted();
			line->full_timestamp = line->last_timestamp = before;
			if (!try_once(&once, 0))
				break;
		}
		after = converted();
		REQUIRE(tries, <, 1000);
		CHECK(line->last_timestamp, >=, before);
		CHECK(line->last_timestamp, <=, after);
		line->full_timestamp = line->last_timestamp = 0;
	}
	strata_ring_channel_close(&a.channel);
}

/* The line is the one of the CPU that the thread is on, not of the one that it was on. */
static void record_goes_to_the_stream_of_its_cpu(void)
{
	int cpus[2] = { 0, 1 }, i;
	struct strata_ring_once once;
	struct side a;

	if ((!fake_rseq && test_cpus(cpus, 2) < 2) || !side_create(&a, &compact_discard))
		return;
	if (a.channel.streams.nr > 1) {
		strata_ring_once_init(&once, &compact_discard, &a.channel.streams, 4, &epoch, 5,
				      &conversion_index);
		for (i = 0; i < 6; i++) {
			unsigned char memory[STAGING] = { 0 };
			uint64_t ignored = 0;

			if (fake_rseq)
				fake_rseq_move((uint32_t)cpus[i & 1]);
			else
				test_pin(cpus[i & 1]);
			time_begins((UINT64_C(1) << 40) + (uint64_t)i);
			CHECK(publish(&compact_discard, &a, &once, 3, 1,
				      memory + STRATA_RING_HEADER_MAX + 4, 12, &ignored),
			      ==, 0);
			CHECK(a.channel.streams.stream[cpus[i & 1]].shared->records, ==, i / 2 + 1);
		}
		if (fake_rseq)
			fake_rseq_move((uint32_t)test_cpu);
		else
			test_pin(test_cpu);
	}
	strata_ring_channel_close(&a.channel);
}

#endif

static const struct test tests[] = {
	ONCE(bytes_and_accounts_are_those_of_the_other_way),
#ifdef STRATA_RSEQ_HAS_AT_ONCE
	ONCE(what_is_refused_has_stored_nothing),
	ONCE(time_is_what_the_conversion_says),
	ONCE(record_goes_to_the_stream_of_its_cpu),
#endif
};

int main(int argc, char **argv)
{
	fake_rseq_begin();
	if (!strata_rseq_available()) {
		puts("skip: no restartable sequences here: libc registers none, or the ring has none");
		return 77;
	}
	return test_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
