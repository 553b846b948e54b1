/* SPDX-License-Identifier: MIT */
/*
 * record.c - strata_ring_record() by either way of publishing: what is written, what is counted, and
 * which bytes it touches.
 */
#include "sample.h"

enum {
	SUBBUF = 256,
	COUNT = 4,
	HEADER = 16
};

static struct strata_ring_channel create(const struct strata_ring_config *config,
					 uint32_t header_bytes, uint64_t start)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);

	attr.header_bytes = header_bytes;
	attr.start_position = start;
	return sample_create(config, &attr);
}

/* Read every delivered packet; the samples' numbers must grow. Returns how many there were. */
static uint64_t drain(const struct strata_ring_config *config, struct strata_ring_stream *s,
		      uint64_t *last)
{
	const struct strata_ring_view *view;
	struct strata_ring_iterator it;
	struct sample sample;
	uint64_t n = 0;

	CHECK(strata_ring_iterator_init(&it, config, s, STRATA_RING_CONSUME), ==, 0);
	for (; !strata_ring_next(&it, &view); n++) {
		CHECK(sample_read(&sample, view->payload, view->head.payload_bytes), ==, 1);
		CHECK(view->head.id, ==, sample.writer);
		CHECK(sample.number, >, *last);
		*last = sample.number;
	}
	CHECK(it.damaged, ==, 0);
	strata_ring_iterator_end(&it);
	return n;
}

static void record_when_no_free_subbuf_returns_enobufs_and_counts_one(void)
{
	struct strata_ring_channel channel = create(&sample_discard, 0, 0);
	struct strata_ring_stream *s = sample_stream(&channel);
	struct strata_ring_counters c;
	uint64_t written = 0, last = 0, n;

	while (!sample_record(&sample_discard, &channel, 1, written + 1))
		written++;
	CHECK(written, >, COUNT * 2);
	strata_ring_read_counters(s, &c);
	CHECK(c.discarded_full, ==, 1);
	CHECK(sample_record(&sample_discard, &channel, 1, 0), ==, -ENOBUFS);
	strata_ring_read_counters(s, &c);
	CHECK(c.discarded_full, ==, 2);
	CHECK(c.written, ==, written);
	n = drain(&sample_discard, s, &last);
	CHECK(n, ==, written);
	CHECK(sample_record(&sample_discard, &channel, 1, written + 1), ==, 0);
	strata_ring_channel_close(&channel);
}

static void record_when_too_big_returns_emsgsize_and_counts_one(void)
{
	static unsigned char payload[SUBBUF * 8];
	const uint32_t most =
		SUBBUF - HEADER - STRATA_ABI_RING_TAIL_BYTES - STRATA_RING_SIZED_BYTES;
	struct strata_ring_channel channel = create(&sample_overwrite, HEADER, 0);
	struct strata_ring_counters c;
	unsigned i;

	for (i = 1; i <= 2; i++) {
		CHECK(strata_ring_record(&sample_overwrite, &channel, 1, payload, most + 1), ==,
		      -EMSGSIZE);
		/* This one does not fit into the stack's staging memory either. */
		CHECK(strata_ring_record(&sample_overwrite, &channel, 1, payload, sizeof(payload)),
		      ==, -EMSGSIZE);
		CHECK(strata_ring_record(&sample_overwrite, &channel, 1, payload, most), ==, 0);
		strata_ring_read_counters(sample_stream(&channel), &c);
		CHECK(c.discarded_too_big, ==, 2 * i);
		CHECK(c.written, ==, i);
	}
	strata_ring_channel_close(&channel);
}

static void record_when_empty_and_without_header_returns_emsgsize(void)
{
	struct strata_ring_config config = sample_discard;
	const struct strata_ring_header none = STRATA_RING_HEADER_NONE;
	struct strata_ring_channel channel;
	struct strata_ring_counters c;

	config.header = none;
	channel = create(&config, 0, 0);
	CHECK(strata_ring_record(&config, &channel, 0, "", 0), ==, -EMSGSIZE);
	CHECK(strata_ring_record(&config, &channel, 0, "x", 1), ==, 0);
	CHECK(strata_ring_record(&config, &channel, 0, "", 0), ==, -EMSGSIZE);
	strata_ring_read_counters(sample_stream(&channel), &c);
	CHECK(c.discarded_too_big, ==, 2);
	CHECK(c.written, ==, 1);
	strata_ring_channel_close(&channel);
	/* A header alone is a record. */
	channel = create(&sample_discard, 0, 0);
	CHECK(strata_ring_record(&sample_discard, &channel, 0, "", 0), ==, 0);
	strata_ring_channel_close(&channel);
}

/* Around the size of the staging memory on the stack, and up to the sub-buffer's. */
static void record_when_payload_is_large_arrives_whole(void)
{
	static const uint32_t sizes[] = { 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 511, 512, 513, 4072 };
	static unsigned char payload[4096];
	struct strata_ring_attr attr = test_attr(4096, 16);
	const struct strata_ring_view *view;
	struct strata_ring_channel channel = sample_create(&sample_discard, &attr);
	struct strata_ring_iterator it;
	uint32_t i;

	for (i = 0; i < sizeof(payload); i++)
		payload[i] = (unsigned char)test_random(256);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		CHECK(strata_ring_record(&sample_discard, &channel, i, payload, sizes[i]), ==, 0);
	strata_ring_flush_current(&sample_discard, &channel);
	REQUIRE(strata_ring_iterator_init(&it, &sample_discard, sample_stream(&channel),
					  STRATA_RING_CONSUME),
		==, 0);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		REQUIRE(strata_ring_next(&it, &view), ==, 0);
		CHECK(view->head.id, ==, i);
		CHECK(view->head.payload_bytes, ==, sizes[i]);
		CHECK(memcmp(view->payload, payload, sizes[i]), ==, 0);
	}
	CHECK(strata_ring_next(&it, &view), ==, -EAGAIN);
	strata_ring_iterator_end(&it);
	strata_ring_channel_close(&channel);
}

static void record_when_alignment_is_any_begins_and_ends_aligned(void)
{
	unsigned char payload[100];
	/* Seven of 32 bytes at most fit into a sub-buffer. */
	uint32_t align, bytes, sizes[7];
	unsigned i, laps;

	memset(payload, 0x5a, sizeof(payload));
	for (align = 1; align <= 8; align *= 2) {
		struct strata_ring_config config = sample_discard;
		struct strata_ring_channel channel;
		struct strata_ring_reader reader;
		struct strata_ring_packet packet;
		struct strata_ring_parsed head;

		config.record_align = align;
		channel = create(&config, 8, 0);
		REQUIRE(strata_ring_reader_init(&reader, sample_stream(&channel)), ==, 0);
		for (laps = 0; laps < 50; laps++) {
			uint64_t offset = 8, expected = 8;

			for (i = 0; i < 7; i++) {
				sizes[i] = (uint32_t)test_random(12);
				CHECK(strata_ring_record(&config, &channel, i, payload, sizes[i]),
				      ==, 0);
				expected += (16u + sizes[i] + align - 1) / align * align;
			}
			strata_ring_flush_current(&config, &channel);
			REQUIRE(strata_ring_get_next(&reader, &packet), ==, 0);
			CHECK(packet.content_bytes, ==, expected);
			for (i = 0; i < 7; i++) {
				CHECK(offset % align, ==, 0);
				REQUIRE(strata_ring_sized_parse(packet.data + offset,
								packet.content_bytes - offset,
								&head),
					==, 0);
				CHECK(head.id, ==, i);
				CHECK(head.payload_bytes, ==, sizes[i]);
				CHECK(memcmp(packet.data + offset + 16, payload, sizes[i]), ==, 0);
				bytes = 16 + sizes[i];
				offset += (bytes + align - 1) / align * align;
			}
			CHECK(offset, ==, packet.content_bytes);
			strata_ring_put_next(&reader);
		}
		strata_ring_channel_close(&channel);
	}
}

/* The reserved bytes of every frame belong to the reader, and so does the memory of other streams. */
static void record_when_packet_header_is_reserved_leaves_it_to_the_reader(void)
{
	const struct strata_ring_config *configs[] = { &sample_discard, &sample_overwrite };
	unsigned char mine[HEADER];
	unsigned i, frame;

	for (i = 0; i < 2; i++) {
		struct strata_ring_channel channel = create(configs[i], HEADER, 0);
		struct strata_ring_stream *s = sample_stream(&channel);
		struct strata_ring_reader reader;
		struct strata_ring_packet packet;
		uint64_t n;

		REQUIRE(strata_ring_reader_init(&reader, s), ==, 0);
		for (frame = 0; frame <= COUNT; frame++)
			memset(s->data + frame * SUBBUF, 0xa0 + (int)frame, HEADER);
		for (n = 0; n < 200; n++) {
			sample_record(configs[i], &channel, 1, n);
			if (n % 3 || strata_ring_get_next(&reader, &packet))
				continue;
			CHECK(packet.header_bytes, ==, HEADER);
			frame = packet.data[0] - 0xa0u;
			CHECK(frame, <=, COUNT);
			memset(mine, 0xa0 + (int)frame, HEADER);
			CHECK(memcmp(packet.data, mine, HEADER), ==, 0);
			CHECK(packet.data - s->data, ==, frame * SUBBUF);
			memset(s->data + frame * SUBBUF, 0xa0 + (int)frame, HEADER);
			strata_ring_put_next(&reader);
		}
		for (frame = 0; frame <= COUNT; frame++) {
			memset(mine, 0xa0 + (int)frame, HEADER);
			CHECK(memcmp(s->data + frame * SUBBUF, mine, HEADER), ==, 0);
		}
		for (n = 0; n < channel.streams.nr; n++)
			if (&channel.streams.stream[n] != s)
				CHECK(channel.streams.stream[n].data[HEADER], ==, 0);
		strata_ring_channel_close(&channel);
	}
}

/* Records of random sizes, read now and then, from @start on: every one is accounted for. */
static void account(const struct strata_ring_config *config, uint64_t start, unsigned records)
{
	struct strata_ring_channel channel = create(config, HEADER, start);
	struct strata_ring_stream *s = sample_stream(&channel);
	uint64_t written = 0, discarded = 0, read = 0, last = 0, n;
	struct strata_ring_counters c;

	for (n = 1; n <= records; n++) {
		if (sample_record(config, &channel, (uint32_t)n % 4, n))
			discarded++;
		else
			written++;
		if (!test_random(30))
			strata_ring_flush_current(config, &channel);
		if (!test_random(config->loss_mode == STRATA_RING_DISCARD ? 15 : 60))
			read += drain(config, s, &last);
	}
	strata_ring_read_counters(s, &c);
	CHECK(c.written, ==, written);
	strata_ring_flush_current(config, &channel);
	read += drain(config, s, &last);
	strata_ring_read_counters(s, &c);
	CHECK(c.written, ==, written);
	CHECK(strata_ring_discarded(s), ==, discarded);
	CHECK(c.discarded_full, ==, discarded);
	CHECK(c.written + c.discarded_full, ==, records);
	CHECK(c.written - c.overwritten_records, ==, read);
	if (config->loss_mode == STRATA_RING_OVERWRITE) {
		CHECK(discarded, ==, 0);
		CHECK(c.overwritten_packets, >, 0);
		CHECK(last, ==, records);
	} else {
		CHECK(c.overwritten_records, ==, 0);
		CHECK(discarded, >, 0);
	}
	strata_ring_channel_close(&channel);
}

static void counters_when_records_are_read_now_and_then_account_for_every_record(void)
{
	unsigned i;

	for (i = 0; i < 5; i++) {
		account(&sample_discard, 0, 2000);
		account(&sample_overwrite, 0, 2000);
	}
}

static void wrap_counters_when_positions_pass_2_to_64_account_for_every_record(void)
{
	const uint64_t buffer = SUBBUF * COUNT;
	unsigned i;

	for (i = 1; i < 12; i++) {
		account(&sample_discard, 0 - i * buffer, 600);
		account(&sample_overwrite, 0 - i * buffer, 600);
		account(&sample_discard, (UINT64_C(1) << 63) - i * buffer, 600);
		account(&sample_overwrite, (UINT64_C(1) << 63) - i * buffer, 600);
	}
	/* The tag in the table of overwrite mode, cut to 47 bits, wraps here. */
	account(&sample_overwrite, (UINT64_C(1) << (47 + 8)) - 3 * buffer, 600);
}

static void record_when_cpu_has_no_stream_is_counted_on_stream_0(void)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);
	struct strata_ring_channel channel;
	struct strata_ring_counters c;
	int cpus[2];

	if (test_cpus(cpus, 2) < 2 || !cpus[1])
		return; /* this machine has one CPU */
	attr.nr_cpus = 1;
	channel = sample_create(&sample_discard, &attr);
	REQUIRE(test_pin(cpus[1]), ==, 1);
	if (test_by_position) {
		CHECK(sample_record(&sample_discard, &channel, 1, 1), ==, -ENXIO);
		CHECK(sample_record(&sample_discard, &channel, 1, 1), ==, -ENXIO);
		strata_ring_read_counters(&channel.streams.stream[0], &c);
		CHECK(c.discarded_no_stream, ==, 2);
		CHECK(strata_ring_discarded(&channel.streams.stream[0]), ==, 2);
		strata_ring_flush_current(&sample_discard, &channel);
	} else {
		/* By commit, any stream may be used. */
		CHECK(sample_record(&sample_discard, &channel, 1, 1), ==, 0);
		strata_ring_read_counters(&channel.streams.stream[0], &c);
		CHECK(c.written, ==, 1);
	}
	test_pin(test_cpu);
	strata_ring_channel_close(&channel);
}

static void flush_when_subbuf_is_empty_does_nothing(void)
{
	struct strata_ring_channel channel = create(&sample_discard, 0, 0);
	struct strata_ring_stream *s = sample_stream(&channel);
	uint64_t last = 0, i;

	strata_ring_flush_current(&sample_discard, &channel);
	CHECK(strata_load_relaxed(&s->shared->write_count), ==, 0);
	CHECK(sample_record(&sample_discard, &channel, 1, 1), ==, 0);
	for (i = 0; i < 3; i++)
		strata_ring_flush_current(&sample_discard, &channel);
	CHECK(strata_load_relaxed(&s->shared->write_count), ==, SUBBUF);
	i = drain(&sample_discard, s, &last);
	CHECK(i, ==, 1);
	strata_ring_channel_close(&channel);
}

/* The smallest sub-buffers there are: one record in each. */
static void record_when_subbuf_is_smallest_fills_it_alone(void)
{
	struct strata_ring_attr attr = test_attr(STRATA_ABI_RING_SUBBUF_BYTES_MIN, 2);
	struct strata_ring_channel channel = sample_create(&sample_overwrite, &attr);
	struct strata_ring_counters c;
	const uint64_t payload[2] = { 1, 2 };
	unsigned n;

	for (n = 0; n < 100; n++)
		CHECK(strata_ring_record(&sample_overwrite, &channel, 1, payload, 8), ==, 0);
	CHECK(strata_ring_record(&sample_overwrite, &channel, 1, payload, 9), ==, -EMSGSIZE);
	strata_ring_read_counters(sample_stream(&channel), &c);
	CHECK(c.written, ==, 100);
	CHECK(c.overwritten_records, ==, 98);
	CHECK(c.overwritten_packets, ==, 98);
	strata_ring_channel_close(&channel);
}

static const struct test tests[] = {
	BOTH(record_when_no_free_subbuf_returns_enobufs_and_counts_one),
	BOTH(record_when_too_big_returns_emsgsize_and_counts_one),
	BOTH(record_when_empty_and_without_header_returns_emsgsize),
	BOTH(record_when_payload_is_large_arrives_whole),
	BOTH(record_when_alignment_is_any_begins_and_ends_aligned),
	BOTH(record_when_packet_header_is_reserved_leaves_it_to_the_reader),
	BOTH(counters_when_records_are_read_now_and_then_account_for_every_record),
	BOTH(wrap_counters_when_positions_pass_2_to_64_account_for_every_record),
	BOTH(record_when_cpu_has_no_stream_is_counted_on_stream_0),
	BOTH(flush_when_subbuf_is_empty_does_nothing),
	BOTH(record_when_subbuf_is_smallest_fills_it_alone),
};
TEST_MAIN(tests)
