/* SPDX-License-Identifier: MIT */
/*
 * iterate.c - record by record, over one stream and over a channel merged by time.
 */
#include "sample.h"

enum {
	SUBBUF = 256,
	COUNT = 8
};

static uint64_t now_value;

static uint64_t fake_clock(void)
{
	return now_value;
}

#define CONFIG(name, loss, writers)                                                \
	static const struct strata_ring_config name = {                            \
		loss, writers,	  STRATA_RING_PER_CPU,	    STRATA_RING_WAKE_NONE, \
		8,    fake_clock, STRATA_RING_HEADER_SIZED, NULL                   \
	}

CONFIG(discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ);
CONFIG(overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_RSEQ);
CONFIG(smp, STRATA_RING_DISCARD, STRATA_RING_WRITERS_SMP);

static struct strata_ring_channel create(const struct strata_ring_config *config, uint32_t nr_cpus)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);

	attr.header_bytes = 8;
	attr.nr_cpus = nr_cpus;
	now_value = 100;
	return sample_create(config, &attr);
}

/* Records of numbers first..next-1 and their times come out, then @last. */
static void check_all(const struct strata_ring_config *config, struct strata_ring_stream *s,
		      enum strata_ring_source source, uint64_t first, uint64_t next, int last)
{
	const struct strata_ring_view *view, *peeked;
	struct strata_ring_iterator it;
	struct sample sample;
	uint64_t n;

	REQUIRE(strata_ring_iterator_init(&it, config, s, source), ==, 0);
	for (n = first; n < next; n++) {
		REQUIRE(strata_ring_peek(&it, &peeked), ==, 0);
		REQUIRE(strata_ring_peek(&it, &peeked), ==, 0);
		REQUIRE(strata_ring_next(&it, &view), ==, 0);
		CHECK(view == peeked, ==, 1);
		CHECK(sample_read(&sample, view->payload, view->head.payload_bytes), ==, 1);
		CHECK(sample.number, ==, n);
		CHECK(view->head.id, ==, 1);
		CHECK(view->head.timestamp, ==, 100 + n);
		CHECK(view->cpu, ==, s->cpu);
	}
	CHECK(strata_ring_peek(&it, &view), ==, last);
	CHECK(strata_ring_next(&it, &view), ==, last);
	CHECK(it.damaged, ==, 0);
	CHECK(it.gone, ==, 0);
	CHECK(it.unpublished, ==, 0);
	strata_ring_iterator_end(&it);
}

static void all_sources(const struct strata_ring_config *config)
{
	struct strata_ring_channel channel = create(config, 0);
	struct strata_ring_stream *s = sample_stream(&channel);
	uint64_t delivered = 0, next;
	int again;

	for (next = 0; next < 20; next++) {
		CHECK(sample_record(config, &channel, 1, next), ==, 0);
		now_value++;
		if (next % 7 == 6) {
			strata_ring_flush_current(config, &channel);
			delivered = next + 1;
		}
	}
	/* The second time, the packet was delivered since it had filled up. */
	for (again = 0; again < 2; again++) {
		check_all(config, s, STRATA_RING_REST, 0, next, -ENODATA);
		strata_ring_flush_current(config, &channel);
		check_all(config, s, STRATA_RING_SCAN, 0, next, -ENODATA);
	}
	CHECK(delivered, <, next);
	check_all(config, s, STRATA_RING_CONSUME, 0, next, -EAGAIN);
	check_all(config, s, STRATA_RING_CONSUME, 0, 0, -EAGAIN);
	check_all(config, s, STRATA_RING_SCAN, 0, 0, -ENODATA);
	check_all(config, s, STRATA_RING_REST, 0, 0, -ENODATA);
	strata_ring_channel_close(&channel);
}

static void iterator_of_each_source_has_every_record_once_in_order(void)
{
	all_sources(&discard);
	all_sources(&overwrite);
}

/* A record that was read is not what a dead producer left. */
static void iterator_of_rest_begins_behind_what_was_read(void)
{
	const struct strata_ring_config *configs[] = { &discard, &overwrite };
	struct strata_ring_reader reader;
	struct strata_ring_packet packet;
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct strata_ring_channel channel = create(configs[i], 0);
		struct strata_ring_stream *s = sample_stream(&channel);
		uint64_t n;

		for (n = 0; n < 5; n++) {
			CHECK(sample_record(configs[i], &channel, 1, n), ==, 0);
			now_value++;
			if (n < 3)
				strata_ring_flush_current(configs[i], &channel);
		}
		REQUIRE(strata_ring_reader_init(&reader, s), ==, 0);
		for (n = 0; n < 2; n++) {
			REQUIRE(strata_ring_get_next(&reader, &packet), ==, 0);
			strata_ring_put_next(&reader);
		}
		check_all(configs[i], s, STRATA_RING_REST, 2, 5, -ENODATA);
		/* A reader that died with packet 2 in hand does not take it along. */
		REQUIRE(strata_ring_get_next(&reader, &packet), ==, 0);
		check_all(configs[i], s, STRATA_RING_REST, 2, 5, -ENODATA);
		check_all(configs[i], s, STRATA_RING_CONSUME, 2, 3, -EAGAIN);
		strata_ring_channel_close(&channel);
	}
}

static void iterator_when_ended_in_a_packet_gives_it_back(void)
{
	const struct strata_ring_config *configs[] = { &discard, &overwrite };
	const struct strata_ring_view *view;
	struct strata_ring_iterator it;
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct strata_ring_channel channel = create(configs[i], 0);
		struct strata_ring_stream *s = sample_stream(&channel);
		uint64_t n;

		for (n = 0; n < 4; n++) {
			CHECK(sample_record(configs[i], &channel, 1, n), ==, 0);
			now_value++;
			if (n == 2)
				strata_ring_flush_current(configs[i], &channel);
		}
		strata_ring_flush_current(configs[i], &channel);
		REQUIRE(strata_ring_iterator_init(&it, configs[i], s, STRATA_RING_SCAN), ==, 0);
		CHECK(strata_ring_next(&it, &view), ==, 0);
		strata_ring_iterator_end(&it);
		check_all(configs[i], s, STRATA_RING_SCAN, 0, 4, -ENODATA);
		/* The first configuration consumes: the rest of the packet is skipped. */
		REQUIRE(strata_ring_iterator_init(&it, configs[i], s, STRATA_RING_CONSUME), ==, 0);
		CHECK(strata_ring_next(&it, &view), ==, 0);
		strata_ring_iterator_end(&it);
		check_all(configs[i], s, STRATA_RING_CONSUME, 3, 4, -EAGAIN);
		strata_ring_channel_close(&channel);
	}
}

static void iterator_when_format_cannot_be_parsed_returns_einval(void)
{
	const struct strata_ring_header compact = STRATA_RING_HEADER_COMPACT;
	struct strata_ring_config config = discard;
	struct strata_ring_channel channel = create(&config, 0);
	struct strata_ring_iterator it;
	struct strata_ring_merge merge;

	config.header = compact;
	CHECK(strata_ring_iterator_init(&it, &config, sample_stream(&channel), STRATA_RING_CONSUME),
	      ==, -EINVAL);
	CHECK(strata_ring_merge_init(&merge, &config, &channel, STRATA_RING_CONSUME), ==, -EINVAL);
	strata_ring_channel_close(&channel);
}

static void malicious_table_is_refused_by_iterator_and_merge(void)
{
	struct strata_ring_channel channel = create(&overwrite, 0);
	struct strata_ring_iterator it;
	struct strata_ring_merge merge;

	channel.streams.stream[0].subbufs[0].entry = 0xffff;
	CHECK(strata_ring_iterator_init(&it, &overwrite, &channel.streams.stream[0],
					STRATA_RING_CONSUME),
	      ==, -EPROTO);
	CHECK(strata_ring_merge_init(&merge, &overwrite, &channel, STRATA_RING_REST), ==, -EPROTO);
	strata_ring_channel_close(&channel);
}

/* The second of three packets claims a payload behind its end; or its frame is nonsense. */
static void malicious_packet_is_counted_and_the_others_are_read(void)
{
	static const enum strata_ring_source sources[] = { STRATA_RING_SCAN, STRATA_RING_REST,
							   STRATA_RING_CONSUME };
	const struct strata_ring_config *configs[] = { &discard, &overwrite };
	const struct strata_ring_view *view;
	struct strata_ring_iterator it;
	struct sample sample;
	unsigned i, j, frame;

	for (i = 0; i < 6; i++)
		for (frame = 0; frame < 2; frame++) {
			const struct strata_ring_config *config = configs[i % 2];
			struct strata_ring_channel channel = create(config, 0);
			struct strata_ring_stream *s = sample_stream(&channel);
			uint32_t huge = UINT32_MAX - 20;

			for (j = 0; j < 9; j++) {
				CHECK(sample_record(config, &channel, 1, j), ==, 0);
				if (j % 3 == 2)
					strata_ring_flush_current(config, &channel);
			}
			if (frame)
				s->frames[1].content_bytes = UINT64_MAX;
			else
				memcpy(s->data + SUBBUF + 8 + sample_slot_bytes(1, 3), &huge, 4);
			REQUIRE(strata_ring_iterator_init(&it, config, s, sources[i / 2]), ==, 0);
			for (j = 0; j < 9; j++) {
				if (frame && j == 3)
					j = 6;
				if (!frame && j == 4)
					j = 6;
				REQUIRE(strata_ring_next(&it, &view), ==, 0);
				CHECK(sample_read(&sample, view->payload, view->head.payload_bytes),
				      ==, 1);
				CHECK(sample.number, ==, j);
			}
			CHECK(strata_ring_next(&it, &view), ==,
			      sources[i / 2] == STRATA_RING_CONSUME ? -EAGAIN : -ENODATA);
			CHECK(it.damaged, ==, 1);
			strata_ring_iterator_end(&it);
			strata_ring_channel_close(&channel);
		}
}

static void rest_when_slots_are_not_committed_counts_their_bytes(void)
{
	const struct strata_ring_event event = { 1, 24, 0 };
	const struct strata_ring_view *view;
	struct strata_ring_slot slot;
	struct strata_ring_iterator it;
	struct strata_ring_channel channel = create(&smp, 1);
	struct strata_ring_stream *s = &channel.streams.stream[0];

	CHECK(sample_record(&smp, &channel, 1, 0), ==, 0);
	REQUIRE(strata_ring_reserve(&smp, s, &event, &slot), ==, 0);
	/* The iterator also sees records behind it and in the next packet. */
	CHECK(sample_record(&smp, &channel, 1, 1), ==, 0);
	REQUIRE(strata_ring_iterator_init(&it, &smp, s, STRATA_RING_REST), ==, 0);
	CHECK(strata_ring_next(&it, &view), ==, 0);
	CHECK(strata_ring_next(&it, &view), ==, -ENODATA);
	CHECK(it.unpublished, ==, 40 + sample_slot_bytes(1, 1));
	strata_ring_iterator_end(&it);
	strata_ring_channel_close(&channel);
}

/* ---- merged ---- */

/*
 * Random times, equal ones among them, on @nr streams, by commit: the fake clock goes on for all of
 * them, and any writer may use any stream.
 */
static uint64_t spread(struct strata_ring_channel *channel, uint64_t records)
{
	const struct strata_ring_event event = { 1, 8, 0 };
	struct strata_ring_slot slot;
	uint64_t n, written = 0;

	for (n = 0; n < records; n++) {
		struct strata_ring_stream *s =
			&channel->streams.stream[test_random(channel->streams.nr)];

		now_value += test_random(3);
		if (strata_ring_reserve(&smp, s, &event, &slot))
			continue;
		strata_ring_write(&slot, &now_value, 8);
		strata_ring_commit(&smp, &slot);
		written++;
	}
	return written;
}

static void flush_all(struct strata_ring_channel *channel)
{
	uint32_t i;

	for (i = 0; i < channel->streams.nr; i++)
		strata_ring_flush(&smp, &channel->streams.stream[i]);
}

static uint64_t check_sorted(struct strata_ring_merge *merge, uint64_t *time, uint32_t *cpu,
			     int last)
{
	const struct strata_ring_view *view;
	uint64_t n = 0, payload;
	int error;

	while (!(error = strata_ring_merge_next(merge, &view))) {
		memcpy(&payload, view->payload, 8);
		CHECK(view->head.timestamp, ==, payload);
		CHECK(view->head.timestamp, >=, *time);
		/*
		 * Records of equal times come in the order of the CPUs, or are later records of the
		 * same CPU.
		 */
		if (view->head.timestamp == *time)
			CHECK(view->cpu, >=, *cpu);
		*time = view->head.timestamp;
		*cpu = view->cpu;
		n++;
	}
	CHECK(error, ==, last);
	return n;
}

static void merge_of_each_source_is_sorted_by_time_then_cpu(void)
{
	uint32_t nr;

	for (nr = 1; nr <= 9; nr++) {
		struct strata_ring_channel channel = create(&smp, nr);
		struct strata_ring_merge merge;
		uint64_t written = spread(&channel, 30 * nr), n, time = 0;
		uint32_t cpu = 0, i;

		REQUIRE(strata_ring_merge_init(&merge, &smp, &channel, STRATA_RING_REST), ==, 0);
		n = check_sorted(&merge, &time, &cpu, -ENODATA);
		CHECK(n, ==, written);
		strata_ring_merge_end(&merge);
		flush_all(&channel);
		time = 0;
		REQUIRE(strata_ring_merge_init(&merge, &smp, &channel, STRATA_RING_SCAN), ==, 0);
		n = check_sorted(&merge, &time, &cpu, -ENODATA);
		CHECK(n, ==, written);
		strata_ring_merge_end(&merge);
		for (i = 0; i < nr; i++)
			strata_ring_finalize(&channel.streams.stream[i]);
		time = 0;
		REQUIRE(strata_ring_merge_init(&merge, &smp, &channel, STRATA_RING_CONSUME), ==, 0);
		n = check_sorted(&merge, &time, &cpu, -ENODATA);
		CHECK(n, ==, written);
		strata_ring_merge_end(&merge);
		strata_ring_channel_close(&channel);
	}
}

/* A stream with nothing delivered may still get an earlier record: nothing goes past it. */
static void merge_when_a_stream_is_empty_returns_eagain_until_it_is_finalized(void)
{
	const struct strata_ring_event event = { 1, 8, 0 };
	struct strata_ring_channel channel = create(&smp, 3);
	struct strata_ring_merge merge;
	struct strata_ring_slot slot;
	uint64_t time = 0, n, i;
	uint32_t cpu = 0;

	REQUIRE(strata_ring_merge_init(&merge, &smp, &channel, STRATA_RING_CONSUME), ==, 0);
	for (i = 0; i < 2; i++) {
		now_value += 10;
		REQUIRE(strata_ring_reserve(&smp, &channel.streams.stream[i], &event, &slot), ==,
			0);
		strata_ring_write(&slot, &now_value, 8);
		strata_ring_commit(&smp, &slot);
	}
	flush_all(&channel);
	n = check_sorted(&merge, &time, &cpu, -EAGAIN);
	CHECK(n, ==, 0);
	n = check_sorted(&merge, &time, &cpu, -EAGAIN);
	CHECK(n, ==, 0);
	strata_ring_finalize(&channel.streams.stream[2]);
	/* The first one's record, and then it is the empty one. */
	n = check_sorted(&merge, &time, &cpu, -EAGAIN);
	CHECK(n, ==, 1);
	CHECK(time, ==, 110);
	REQUIRE(strata_ring_reserve(&smp, &channel.streams.stream[0], &event, &slot), ==, 0);
	strata_ring_write(&slot, &now_value, 8);
	strata_ring_commit(&smp, &slot);
	flush_all(&channel);
	/* Streams of equal times: stream 0 comes first, and is empty again. */
	n = check_sorted(&merge, &time, &cpu, -EAGAIN);
	CHECK(n, ==, 1);
	strata_ring_finalize(&channel.streams.stream[0]);
	n = check_sorted(&merge, &time, &cpu, -EAGAIN);
	CHECK(n, ==, 1);
	strata_ring_finalize(&channel.streams.stream[1]);
	n = check_sorted(&merge, &time, &cpu, -ENODATA);
	CHECK(n, ==, 0);
	strata_ring_merge_end(&merge);
	strata_ring_channel_close(&channel);
}

/* One thread that goes from CPU to CPU leaves one sequence in many streams. */
static void merge_when_a_thread_migrates_has_its_records_in_order(void)
{
	struct strata_ring_channel channel = create(&discard, 0);
	const struct strata_ring_view *view;
	struct strata_ring_merge merge;
	struct sample sample;
	int cpus[8], nr = test_cpus(cpus, 8);
	uint64_t n;

	for (n = 0; n < 40; n++) {
		test_pin(cpus[n / 3 % (unsigned)nr]);
		now_value++;
		if (sample_record(&discard, &channel, 1, n))
			break;
	}
	test_pin(test_cpu);
	CHECK(n, >, 20);
	REQUIRE(strata_ring_merge_init(&merge, &discard, &channel, STRATA_RING_REST), ==, 0);
	for (; !strata_ring_merge_next(&merge, &view); n -= 1) {
		static uint64_t expected;

		if (view->head.timestamp == 101)
			expected = 0;
		CHECK(sample_read(&sample, view->payload, view->head.payload_bytes), ==, 1);
		CHECK(sample.number, ==, expected++);
	}
	CHECK(n, ==, 0);
	strata_ring_merge_end(&merge);
	strata_ring_channel_close(&channel);
}

static const struct test tests[] = {
	BOTH(iterator_of_each_source_has_every_record_once_in_order),
	BOTH(iterator_of_rest_begins_behind_what_was_read),
	BOTH(iterator_when_ended_in_a_packet_gives_it_back),
	ONCE(iterator_when_format_cannot_be_parsed_returns_einval),
	ONCE(malicious_table_is_refused_by_iterator_and_merge),
	BOTH(malicious_packet_is_counted_and_the_others_are_read),
	ONCE(rest_when_slots_are_not_committed_counts_their_bytes),
	ONCE(merge_of_each_source_is_sorted_by_time_then_cpu),
	ONCE(merge_when_a_stream_is_empty_returns_eagain_until_it_is_finalized),
	BOTH(merge_when_a_thread_migrates_has_its_records_in_order),
};
TEST_MAIN(tests)
