/* SPDX-License-Identifier: MIT */
/*
 * timestamp.c - short and whole timestamps: a decoder that knows the formats only, and not the library,
 * must find every record's time again.
 */
#include "sample.h"

static uint64_t now_value;

static uint64_t fake_clock(void)
{
	return now_value;
}

#define CONFIG(name, loss, writers, align, header)                                              \
	static const struct strata_ring_config name = {                                         \
		loss,	writers, STRATA_RING_PER_CPU, STRATA_RING_WAKE_NONE, align, fake_clock, \
		header, NULL                                                                    \
	}

CONFIG(compact, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ, 1, STRATA_RING_HEADER_COMPACT);
CONFIG(compact_8, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ, 8, STRATA_RING_HEADER_COMPACT);
CONFIG(large, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ, 1, STRATA_RING_HEADER_LARGE);
CONFIG(large_8, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ, 8, STRATA_RING_HEADER_LARGE);
CONFIG(compact_local, STRATA_RING_DISCARD, STRATA_RING_WRITERS_LOCAL, 1,
       STRATA_RING_HEADER_COMPACT);
CONFIG(large_smp, STRATA_RING_DISCARD, STRATA_RING_WRITERS_SMP, 1, STRATA_RING_HEADER_LARGE);

/* ---- the decoder: CTF 1.8, see header.h ---- */

struct decoded {
	uint32_t id;
	uint32_t header_bytes;
	uint64_t time;
	int whole;
};

static uint64_t bytes_of(const unsigned char *p, unsigned n)
{
	uint64_t v = 0;
	unsigned i;

	for (i = 0; i < n; i++)
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
		v = v << 8 | p[i];
#else
		v |= (uint64_t)p[i] << 8 * i;
#endif
	return v;
}

/* The time before plus what the low @bits have advanced, at most one wrap. */
static uint64_t advance(uint64_t before, uint64_t low, unsigned bits)
{
	const uint64_t range = UINT64_C(1) << bits;

	return before + ((low - before) & (range - 1));
}

static struct decoded decode(const struct strata_ring_config *config, const unsigned char *p,
			     uint64_t before)
{
	struct decoded d = { 0, 0, 0, 0 };

	if (config->header.timestamp_bits == 27) {
		uint32_t word = (uint32_t)bytes_of(p, 4);
		uint32_t low;

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
		d.id = word >> 27;
		low = word & 0x7ffffff;
#else
		d.id = word & 31;
		low = word >> 5;
#endif
		d.header_bytes = 4;
		d.whole = d.id == 31;
		d.time = advance(before, low, 27);
	} else {
		d.id = (uint32_t)bytes_of(p, 2);
		d.header_bytes = 6;
		d.whole = d.id == 65535;
		d.time = advance(before, bytes_of(p + 2, 4), 32);
	}
	if (d.whole) {
		p += config->header.timestamp_bits == 27 ? 1 : 2;
		d.id = (uint32_t)bytes_of(p, 4);
		d.time = bytes_of(p + 4, 8);
		d.header_bytes = config->header.timestamp_bits == 27 ? 13 : 14;
	}
	return d;
}

/* ---- what was written, in the order of the stream ---- */

enum {
	RECORDS_MAX = 4000
};

static struct {
	uint64_t time;
	uint32_t id;
} expected[RECORDS_MAX];
static uint32_t nr_expected, nr_decoded, nr_whole;

static void expect(uint32_t id)
{
	expected[nr_expected].time = now_value;
	expected[nr_expected++].id = id;
}

/* Decodes packets whose payload is the record's index in expected[], 4 bytes. */
static void decode_packets(const struct strata_ring_config *config,
			   struct strata_ring_reader *reader)
{
	struct strata_ring_packet packet;
	uint32_t index;

	while (!strata_ring_get_next(reader, &packet)) {
		uint64_t offset = packet.header_bytes, time = packet.timestamp_begin, bytes;

		CHECK(packet.timestamp_end - packet.timestamp_begin, >=, 0);
		while (offset < packet.content_bytes) {
			struct decoded d = decode(config, packet.data + offset, time);

			index = (uint32_t)bytes_of(packet.data + offset + d.header_bytes, 4);
			CHECK(index, ==, nr_decoded);
			REQUIRE(index, <, nr_expected);
			CHECK(d.id, ==, expected[index].id);
			CHECK(d.time, ==, expected[index].time);
			time = d.time;
			nr_whole += (uint32_t)d.whole;
			nr_decoded++;
			bytes = d.header_bytes + 4 + config->record_align - 1;
			offset += bytes / config->record_align * config->record_align;
		}
		CHECK(offset, ==, packet.content_bytes);
		CHECK(packet.timestamp_end - time, >=, 0);
		strata_ring_put_next(reader);
	}
}

static const uint64_t deltas[] = {
	0,
	1,
	100000,
	(UINT64_C(1) << 26) + 1,
	(UINT64_C(1) << 27) - 1,
	UINT64_C(1) << 27,
	(UINT64_C(1) << 27) + 1,
	UINT64_C(1) << 28,
	(UINT64_C(1) << 31) + 5,
	(UINT64_C(1) << 32) - 1,
	UINT64_C(1) << 32,
	(UINT64_C(1) << 32) + 1,
	UINT64_C(1) << 33,
	UINT64_C(1) << 40,
};

static void random_times(const struct strata_ring_config *config, uint64_t first)
{
	static const uint32_t ids[] = { 0, 3, 30, 31, 32, 65534, 65535, 65536, UINT32_MAX };
	const unsigned nr_deltas = sizeof(deltas) / sizeof(deltas[0]);
	struct strata_ring_attr attr = test_attr(512, 4);
	struct strata_ring_channel channel = sample_create(config, &attr);
	struct strata_ring_reader reader;
	uint32_t i, id;

	now_value = first;
	nr_expected = nr_decoded = nr_whole = 0;
	REQUIRE(strata_ring_reader_init(&reader, sample_stream(&channel)), ==, 0);
	for (i = 0; i < RECORDS_MAX; i++) {
		/*
		 * Steps of time are mostly small; each large one comes after every other one, more
		 * than once.
		 */
		now_value += i % 3 ? test_random(1000) : deltas[test_random(nr_deltas)];
		id = ids[i % 5 ? i % 3 : test_random(sizeof(ids) / sizeof(ids[0]))];
		/* Large headers have 16 bits for it, or 32. */
		CHECK(strata_ring_record(config, &channel, id, &nr_expected, 4), ==, 0);
		expect(id);
		if (!test_random(100))
			strata_ring_flush_current(config, &channel);
		decode_packets(config, &reader);
	}
	strata_ring_flush_current(config, &channel);
	decode_packets(config, &reader);
	CHECK(nr_decoded, ==, RECORDS_MAX);
	CHECK(nr_whole, >, 0);
	CHECK(nr_whole, <, nr_decoded);
	strata_ring_channel_close(&channel);
}

static const struct strata_ring_config *const both_ways[] = { &compact, &compact_8, &large,
							      &large_8 };

static void timestamp_when_steps_are_any_is_found_again_by_a_decoder(void)
{
	unsigned i;

	for (i = 0; i < 4; i++) {
		random_times(both_ways[i], 0);
		random_times(both_ways[i], UINT64_C(0x123456789abcdef));
	}
}

static void wrap_timestamp_when_clock_passes_2_to_63_is_found_again_by_a_decoder(void)
{
	unsigned i;

	for (i = 0; i < 4; i++)
		random_times(both_ways[i], (UINT64_C(1) << 63) - 5000000000);
}

/* Exactly at the limit: one below is short, the limit itself is whole, and begins a new range. */
static void timestamp_when_step_is_at_the_limit_changes_the_header_there(void)
{
	static const struct {
		uint64_t step; /* limit plus this */
		uint32_t whole;
	} steps[] = { { (uint64_t)-1, 0 }, { 0, 1 }, { 1, 1 } };
	unsigned i, j;

	for (i = 0; i < 4; i++)
		for (j = 0; j < 3; j++) {
			const struct strata_ring_config *config = both_ways[i];
			const uint64_t limit = UINT64_C(1) << config->header.timestamp_bits;
			struct strata_ring_attr attr = test_attr(512, 4);
			struct strata_ring_channel channel = sample_create(config, &attr);
			struct strata_ring_reader reader;
			uint64_t times[4];
			uint32_t n;

			/* The last one is short if the third made the range begin anew. */
			times[0] = 12345;
			times[1] = times[0] + 1000;
			times[2] = times[0] + limit + steps[j].step;
			times[3] = times[2] + (steps[j].whole ? limit - 1 : 0);
			nr_expected = nr_decoded = nr_whole = 0;
			REQUIRE(strata_ring_reader_init(&reader, sample_stream(&channel)), ==, 0);
			for (n = 0; n < 4; n++) {
				now_value = times[n];
				CHECK(strata_ring_record(config, &channel, 1, &nr_expected, 4), ==,
				      0);
				expect(1);
			}
			strata_ring_flush_current(config, &channel);
			decode_packets(config, &reader);
			CHECK(nr_decoded, ==, 4);
			CHECK(nr_whole, ==, steps[j].whole);
			strata_ring_channel_close(&channel);
		}
}

static int reserve(const struct strata_ring_config *config, struct strata_ring_stream *s,
		   struct strata_ring_slot *slot)
{
	struct strata_ring_event event;

	memset(&event, 0, sizeof(event));
	event.id = 2;
	event.payload_bytes = 4;
	return strata_ring_reserve(config, s, &event, slot);
}

/*
 * A slot with a whole timestamp that is taken back, or that a nested record comes behind before it is
 * committed: the ones after it must not count from it.
 */
static void timestamp_when_whole_one_is_cancelled_or_open_does_not_count(void)
{
	static const struct strata_ring_config *const configs[] = { &compact_local, &large_smp };
	unsigned i, cancel;

	for (i = 0; i < 2; i++)
		for (cancel = 0; cancel < 2; cancel++) {
			const struct strata_ring_config *config = configs[i];
			const uint64_t limit = UINT64_C(1) << config->header.timestamp_bits;
			struct strata_ring_attr attr = test_attr(512, 4);
			struct strata_ring_slot slot, nested;
			struct strata_ring_reader reader;
			struct strata_ring_channel channel;
			struct strata_ring_stream *s;

			/* Large headers have no padding, and SMP writers with a clock no way back. */
			if (cancel && config->writers != STRATA_RING_WRITERS_LOCAL)
				continue;
			attr.nr_cpus = 1;
			channel = sample_create(config, &attr);
			s = &channel.streams.stream[0];
			now_value = 1000;
			nr_expected = nr_decoded = nr_whole = 0;
			REQUIRE(strata_ring_reader_init(&reader, s), ==, 0);
			CHECK(strata_ring_record(config, &channel, 2, &nr_expected, 4), ==, 0);
			expect(2);
			now_value += limit;
			REQUIRE(reserve(config, s, &slot), ==, 0);
			CHECK(slot.full_timestamp, ==, 1);
			if (cancel) {
				CHECK(strata_ring_cancel(config, &slot), ==, 0);
			} else {
				strata_ring_write(&slot, &nr_expected, 4);
				expect(2);
				now_value += 5;
				REQUIRE(reserve(config, s, &nested), ==, 0);
				CHECK(nested.full_timestamp, ==, 1);
				strata_ring_write(&nested, &nr_expected, 4);
				expect(2);
				strata_ring_commit(config, &nested);
				strata_ring_commit(config, &slot);
			}
			now_value += limit - 1;
			CHECK(strata_ring_record(config, &channel, 2, &nr_expected, 4), ==, 0);
			expect(2);
			now_value += 10;
			CHECK(strata_ring_record(config, &channel, 2, &nr_expected, 4), ==, 0);
			expect(2);
			strata_ring_flush(config, s);
			decode_packets(config, &reader);
			CHECK(nr_decoded, ==, nr_expected);
			strata_ring_channel_close(&channel);
		}
}

/*
 * Continues a file that was written before a reboot: the clock begins anew, last_timestamp does
 * not.
 */
static void time_when_clock_is_behind_last_timestamp_still_writes_and_does_not_go_back(void)
{
	struct strata_ring_attr attr = test_attr(4096, 2);
	struct strata_ring_channel channel;
	struct strata_ring_packet packet;
	struct strata_ring_reader reader;
	const uint64_t last = UINT64_C(1) << 60, value = 7;
	uint32_t i;

	REQUIRE(strata_ring_channel_create(&compact, &attr, &channel, NULL), ==, 0);
	for (i = 0; i < channel.streams.nr; i++)
		channel.streams.stream[i].shared->last_timestamp = last;
	now_value = 1000;
	CHECK(strata_ring_record(&compact, &channel, 3, &value, sizeof(value)), ==, 0);
	CHECK(strata_ring_record(&compact, &channel, 3, &value, sizeof(value)), ==, 0);
	strata_ring_flush_current(&compact, &channel);
	i = channel.streams.nr > 1 ? (uint32_t)test_cpu : 0;
	CHECK(strata_ring_reader_init(&reader, &channel.streams.stream[i]), ==, 0);
	if (CHECK(strata_ring_get_next(&reader, &packet), ==, 0)) {
		CHECK(packet.records, ==, 2);
		CHECK(packet.timestamp_end, >=, packet.timestamp_begin);
		if (channel.header.publish == STRATA_ABI_RING_BY_POSITION)
			CHECK(packet.timestamp_begin, ==, last);
		strata_ring_put_next(&reader);
	}
	strata_ring_channel_close(&channel);
}

static const struct test tests[] = {
	BOTH(timestamp_when_steps_are_any_is_found_again_by_a_decoder),
	BOTH(wrap_timestamp_when_clock_passes_2_to_63_is_found_again_by_a_decoder),
	BOTH(timestamp_when_step_is_at_the_limit_changes_the_header_there),
	ONCE(timestamp_when_whole_one_is_cancelled_or_open_does_not_count),
	ONCE(time_when_clock_is_behind_last_timestamp_still_writes_and_does_not_go_back),
};
TEST_MAIN(tests)
