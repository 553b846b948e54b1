/* SPDX-License-Identifier: MIT */
/*
 * one_section.c - records published in one section with the clock inside: every size, both header formats, the
 * slow path where the clock's conversion has changed, the condition, and threads that move between CPUs.
 *
 * Where there is no such section, the same records go the way of publish.h: all but the last counts hold.
 */
#include <pthread.h>
#include "../emulation/fake_rseq.h"
#include "test.h"

enum {
	SUBBUF = 4096,
	SIZES = 130, /* of payloads, from 0 */
	THREADS = 4,
	RECORDS = 200000, /* of each thread */
	CONTEXT = 0x01020304,
};

#define CONFIG(name, loss, header)                                                \
	static const struct strata_ring_config name = { STRATA_RING_##loss,       \
							STRATA_RING_WRITERS_RSEQ, \
							STRATA_RING_PER_CPU,      \
							STRATA_RING_WAKE_NONE,    \
							1,                        \
							counter_clock,            \
							header,                   \
							NULL }

/* Times are the counter itself: a multiplier of one. */
static struct strata_ring_conversion conversion = { 0, UINT64_C(1) << 32, 0, 0 };
static uint64_t conversion_index, epoch = 5;
static uint64_t clock_calls; /* atomic: how often the slow path has asked */
static uint64_t clock_offset;

static uint64_t counter_clock(void)
{
	__atomic_fetch_add(&clock_calls, 1, __ATOMIC_RELAXED);
	return strata_clock_cycles() + clock_offset;
}

CONFIG(compact_discard, DISCARD, STRATA_RING_HEADER_COMPACT);
CONFIG(compact_overwrite, OVERWRITE, STRATA_RING_HEADER_COMPACT);
CONFIG(large_discard, DISCARD, STRATA_RING_HEADER_LARGE);

static struct strata_ring_channel create(const struct strata_ring_config *config, uint64_t nr)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, nr);
	struct strata_ring_channel channel;
	struct strata_ring_error error;

	attr.no_rseq = 0;
	if (strata_ring_channel_create(config, &attr, &channel, &error)) {
		fprintf(stderr, "cannot create a channel: %s\n", error.text);
		exit(1);
	}
	return channel;
}

static int publish(const struct strata_ring_config *config,
		   const struct strata_ring_channel *channel, uint32_t id, uint32_t context_bytes,
		   uint32_t payload_bytes, unsigned char *staging)
{
	const struct strata_ring_event event = { id, payload_bytes, 0 };
	struct strata_ring_once once;
	uint64_t word;

	strata_ring_once_init(&once, config, &channel->streams, context_bytes, &epoch, 5,
			      &conversion_index);
	memcpy(&word, staging, sizeof(word));
	/*
	 * Every other record passes its word in a register, the others pass it as any other
	 * payload.
	 */
	if (payload_bytes == 8 && id & 1 &&
	    !strata_ring_publish_word_in_one_section(&once, id, CONTEXT, &conversion, word))
		return 0;
	if (!strata_ring_publish_in_one_section(config, &once, id, CONTEXT, &conversion, staging,
						payload_bytes))
		return 0;
	return strata_ring_publish_long(config, &once, &channel->streams, &event, CONTEXT, staging);
}

/*
 * Decodes the header at @p: returns its size, and sets the id and whether the timestamp is whole.
 */
static uint32_t header_at(const struct strata_ring_config *config, const unsigned char *p,
			  uint32_t *id)
{
	const int large = config->header.short_bytes == 6;
	uint32_t word = 0;

	memcpy(&word, p, large ? 2 : 4);
	*id = large ? word : word & 31;
	if (*id != (large ? STRATA_RING_LARGE_EXTENDED : STRATA_RING_COMPACT_EXTENDED))
		return large ? 6 : 4;
	memcpy(id, p + (large ? 2 : 1), 4);
	return large ? 14 : 13;
}

static void sizes(const struct strata_ring_config *config, uint32_t context_bytes, uint32_t id)
{
	struct strata_ring_channel channel = create(config, 16);
	unsigned char memory[STRATA_RING_HEADER_MAX + 4 + SIZES + 8];
	unsigned char *staging = memory + STRATA_RING_HEADER_MAX + 4;
	struct strata_ring_packet packet;
	struct strata_ring_reader reader;
	uint32_t n, i, read_id, context;
	const unsigned char *p;

	REQUIRE(strata_ring_reader_init(&reader, &channel.streams.stream[test_cpu]), ==, 0);
	for (n = 0; n < SIZES; n++) {
		for (i = 0; i < n; i++)
			staging[i] = (unsigned char)(n * 7 + i);
		memset(staging + n, 0xee, 8);
		CHECK(publish(config, &channel, id, context_bytes, n, staging), ==, 0);
	}
	strata_ring_flush_on_cpu(config, &channel.streams);
	n = 0;
	while (!strata_ring_get_next(&reader, &packet)) {
		for (p = packet.data; p < packet.data + packet.content_bytes; n++) {
			p += header_at(config, p, &read_id);
			CHECK(read_id, ==, id);
			memcpy(&context, p, 4);
			CHECK(!context_bytes || context == CONTEXT, ==, 1);
			p += context_bytes;
			for (i = 0; i < n; i++, p++)
				REQUIRE(*p, ==, (unsigned char)(n * 7 + i));
		}
		CHECK((uintptr_t)p, ==, (uintptr_t)(packet.data + packet.content_bytes));
		strata_ring_put_next(&reader);
	}
	CHECK(n, ==, SIZES);
	strata_ring_channel_close(&channel);
}

static void payload_of_every_size_is_whole(void)
{
	if (!strata_rseq_available())
		return;
	sizes(&compact_discard, 4, 7);
	sizes(&compact_discard, 0, 0);
	sizes(&compact_overwrite, 4, 30);
	sizes(&large_discard, 4, 4711);
	/* Ids that have a long header. */
	sizes(&compact_discard, 4, 31);
	sizes(&compact_discard, 0, 1000);
	sizes(&large_discard, 4, 65535);
}

static void condition_that_does_not_hold_writes_nothing(void)
{
	struct strata_ring_channel channel;
	unsigned char memory[64] = { 0 };
	const struct strata_abi_ring_stream *shared;

	if (!strata_rseq_available())
		return;
	channel = create(&compact_discard, 4);
	shared = channel.streams.stream[test_cpu].shared;
	CHECK(publish(&compact_discard, &channel, 1, 4, 8, memory + 20), ==, 0);
	epoch = 6;
	CHECK(publish(&compact_discard, &channel, 1, 4, 8, memory + 20), ==, -ESTALE);
	epoch = 5;
	CHECK(shared->records, ==, 1);
	CHECK(strata_ring_discarded(&channel.streams.stream[test_cpu]), ==, 0);
	strata_ring_channel_close(&channel);
}

/*
 * A clock's slot counts only while its index is its own. Odd values of @id are written as a word in
 * a register.
 */
static void clock_that_has_changed(uint32_t id)
{
	struct strata_ring_channel channel = create(&compact_discard, 4);
	unsigned char memory[64] = { 0 };
	uint64_t before;

	CHECK(publish(&compact_discard, &channel, id, 4, 8, memory + 20), ==, 0);
	before = clock_calls;
	conversion_index = 1;
	CHECK(publish(&compact_discard, &channel, id, 4, 8, memory + 20), ==, 0);
	conversion_index = 0;
	CHECK(clock_calls, >, before);
	/* A counter behind the conversion's. */
	before = clock_calls;
	conversion.base_cycles = strata_clock_cycles() + (UINT64_C(1) << 50);
	CHECK(publish(&compact_discard, &channel, id, 4, 8, memory + 20), ==, 0);
	conversion.base_cycles = 0;
	CHECK(clock_calls, >, before);
	CHECK(channel.streams.stream[test_cpu].shared->records, ==, 3);
	strata_ring_channel_close(&channel);
}

static void clock_that_has_changed_is_asked_again(void)
{
	if (!strata_rseq_available())
		return;
	clock_that_has_changed(1);
	clock_that_has_changed(2);
}

/* Shared memory that says where to write: the section stays inside of the channel. */
static void malicious_line_leads_nowhere_else(void)
{
	const uint64_t frames[] = { UINT64_C(1) << 40, UINT64_MAX / 2, (uint64_t)-1000000 };
	struct strata_ring_channel channel;
	unsigned char memory[64] = { 0 };
	struct strata_abi_ring_stream *shared;
	size_t i;

	if (!strata_rseq_available())
		return;
	for (i = 0; i < 2 * (sizeof(frames) / sizeof(frames[0])); i++) {
		const uint32_t id = 1 + (i & 1);

		channel = create(&compact_overwrite, 4);
		shared = channel.streams.stream[test_cpu].shared;
		CHECK(publish(&compact_overwrite, &channel, id, 4, 8, memory + 20), ==, 0);
		shared->frame = frames[i / 2];
		shared->limit = UINT64_MAX / 2;
		CHECK(publish(&compact_overwrite, &channel, id, 4, 8, memory + 20), ==, 0);
		CHECK(shared->records, ==, 2);
		strata_ring_channel_close(&channel);
	}
}

/* A conversion that is behind the one before: the record has the time of the last one. */
static void clock_that_goes_back_does_not_show(void)
{
	struct strata_ring_channel channel;
	unsigned char memory[64] = { 0 };
	const struct strata_abi_ring_stream *shared;
	uint64_t time;

	if (!strata_rseq_available())
		return;
	channel = create(&compact_discard, 4);
	shared = channel.streams.stream[test_cpu].shared;
	conversion.base_ns = 1000000;
	clock_offset = 1000000;
	CHECK(publish(&compact_discard, &channel, 1, 4, 8, memory + 20), ==, 0);
	CHECK(publish(&compact_discard, &channel, 1, 4, 8, memory + 20), ==, 0);
	time = shared->last_timestamp;
	conversion.base_ns = 0;
	clock_offset = 0;
	CHECK(publish(&compact_discard, &channel, 1, 4, 8, memory + 20), ==, 0);
	CHECK(shared->last_timestamp, >=, time);
	CHECK(shared->records, ==, 3);
	strata_ring_channel_close(&channel);
}

/* The fast path is taken: after the first record of a sub-buffer nobody asks the clock in C. */
static void record_in_an_open_sub_buffer_takes_one_section(void)
{
	struct strata_ring_channel channel;
	unsigned char memory[64] = { 0 };
	int i;

	if (!strata_rseq_available())
		return;
	channel = create(&compact_overwrite, 4);
	clock_calls = 0;
	for (i = 0; i < 16000; i++)
		CHECK(publish(&compact_overwrite, &channel, 1, 4, 8, memory + 20), ==, 0);
#ifdef STRATA_RSEQ_HAS_AT_ONCE
	/* 255 records fill a sub-buffer; preemption, and a slow machine's time, cost some more. */
	CHECK(clock_calls, <, 8000);
#endif
	strata_ring_channel_close(&channel);
}

/* ---- threads ---- */

static struct {
	const struct strata_ring_config *config;
	struct strata_ring_channel channel;
	uint64_t discarded[THREADS];
	int done; /* atomic */
} run;

static void *write_records(void *data)
{
	const uint64_t thread = *(const uint64_t *)data;
	uint64_t memory[8] = { 0 }, i;
	int cpus[2] = { 0, 0 }, nr = test_cpus(cpus, 2);

	for (i = 0; i < RECORDS; i++) {
		if (nr == 2 && i % 500 == 0)
			test_pin(cpus[i / 500 & 1]);
		memory[4] = thread << 32 | i;
		if (publish(run.config, &run.channel, (uint32_t)(1 + thread), 4, 8,
			    (unsigned char *)&memory[4]))
			run.discarded[thread]++;
	}
	__atomic_fetch_add(&run.done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/*
 * Checks all packets: records are whole, and numbers and times of each CPU increase. Returns the
 * number of records.
 */
static uint64_t read_records(struct strata_ring_reader *reader, uint64_t *last, uint64_t *time)
{
	struct strata_ring_packet packet;
	uint64_t records = 0, value;
	const unsigned char *p;
	uint32_t id, bytes, context, word;

	while (!strata_ring_get_next(reader, &packet)) {
		CHECK(packet.timestamp_begin, >=, *time);
		*time = packet.timestamp_begin;
		for (p = packet.data; p < packet.data + packet.content_bytes; records++) {
			bytes = header_at(run.config, p, &id);
			memcpy(&word, p, 4);
			if (bytes == 4) {
				*time += ((word >> 5) - *time) & 0x7ffffff;
			} else {
				memcpy(&value, p + 5, 8);
				CHECK(value, >=, *time);
				*time = value;
			}
			memcpy(&context, p + bytes, 4);
			memcpy(&value, p + bytes + 4, 8);
			CHECK(context, ==, CONTEXT);
			if (!CHECK(value >> 32, ==, id - 1))
				return records;
			/* A thread comes back to a CPU with a later record. */
			CHECK((uint32_t)value + 1, >, last[id - 1]);
			last[id - 1] = (uint32_t)value + 1;
			p += bytes + 12;
		}
		CHECK(packet.timestamp_end, >=, *time);
		strata_ring_put_next(reader);
	}
	return records;
}

static void threads(const struct strata_ring_config *config)
{
	static uint64_t last[1024][THREADS], time[1024];
	static struct strata_ring_reader reader[1024];
	const uint64_t number[THREADS] = { 0, 1, 2, 3 };
	uint64_t records = 0, discarded = 0, overwritten = 0;
	struct strata_ring_counters counters;
	pthread_t thread[THREADS];
	uint32_t i, nr;

	run.config = config;
	run.channel = create(config, 8);
	run.done = 0;
	memset(run.discarded, 0, sizeof(run.discarded));
	memset(last, 0, sizeof(last));
	memset(time, 0, sizeof(time));
	nr = run.channel.streams.nr < 1024 ? run.channel.streams.nr : 1024;
	for (i = 0; i < nr; i++)
		REQUIRE(strata_ring_reader_init(&reader[i], &run.channel.streams.stream[i]), ==, 0);
	for (i = 0; i < THREADS; i++)
		REQUIRE(pthread_create(&thread[i], NULL, write_records,
				       (void *)(uintptr_t)&number[i]),
			==, 0);
	while (__atomic_load_n(&run.done, __ATOMIC_ACQUIRE) < THREADS)
		for (i = 0; i < nr; i++)
			records += read_records(&reader[i], last[i], &time[i]);
	for (i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		discarded += run.discarded[i];
	}
	/* Close what is open, on each CPU, and read the rest. */
	for (i = 0; i < nr; i++) {
		if (!test_pin((int)i))
			continue;
		strata_ring_flush_on_cpu(config, &run.channel.streams);
		records += read_records(&reader[i], last[i], &time[i]);
	}
	test_pin(test_cpu);
	for (i = 0; i < nr; i++) {
		strata_ring_read_counters(&run.channel.streams.stream[i], &counters);
		overwritten += counters.overwritten_records;
	}
	CHECK(records + discarded + overwritten, ==, (uint64_t)THREADS * RECORDS);
	CHECK(discarded == 0 || config->loss_mode == STRATA_RING_DISCARD, ==, 1);
	strata_ring_channel_close(&run.channel);
}

static void threads_that_move_between_cpus_lose_and_reorder_nothing(void)
{
	/* Threads would not abort each other. */
	if (!strata_rseq_available() || fake_rseq)
		return;
	threads(&compact_discard);
	threads(&compact_overwrite);
}

static const struct test tests[] = {
	ONCE(payload_of_every_size_is_whole),
	ONCE(condition_that_does_not_hold_writes_nothing),
	ONCE(clock_that_has_changed_is_asked_again),
	ONCE(malicious_line_leads_nowhere_else),
	ONCE(clock_that_goes_back_does_not_show),
	ONCE(record_in_an_open_sub_buffer_takes_one_section),
	ONCE(threads_that_move_between_cpus_lose_and_reorder_nothing),
};

int main(int argc, char **argv)
{
	fake_rseq_begin();
	return test_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
