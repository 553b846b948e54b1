/* SPDX-License-Identifier: MIT */
/*
 * read.c - one consumer: poll, get, put, counters; a consumer that dies; a table or frame that is damaged.
 */
#include <pthread.h>
#include "sample.h"

enum {
	SUBBUF = 256,
	COUNT = 4
};

struct fixture {
	const struct strata_ring_config *config;
	struct strata_ring_channel channel;
	struct strata_ring_stream *s;
	struct strata_ring_reader reader;
	struct strata_ring_packet packet;
	uint64_t next; /* number of the next record */
};

static struct fixture begin(const struct strata_ring_config *config)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);
	struct fixture f;

	memset(&f, 0, sizeof(f));
	attr.header_bytes = 8;
	f.config = config;
	f.channel = sample_create(config, &attr);
	f.s = sample_stream(&f.channel);
	CHECK(strata_ring_reader_init(&f.reader, f.s), ==, 0);
	return f;
}

static void end(struct fixture *f)
{
	strata_ring_channel_close(&f->channel);
}

/* One delivered packet of two records: numbers next, next + 1. */
static void packet(struct fixture *f)
{
	unsigned i;

	for (i = 0; i < 2; i++)
		CHECK(sample_record(f->config, &f->channel, 1, f->next++), ==, 0);
	strata_ring_flush_current(f->config, &f->channel);
}

/* The numbers in the packet are @first and the one after it. */
static void check_packet(const struct fixture *f, uint64_t first)
{
	uint64_t offset = f->packet.header_bytes;
	struct strata_ring_parsed head;
	struct sample sample;
	unsigned i;

	for (i = 0; i < 2; i++) {
		REQUIRE(strata_ring_sized_parse(f->packet.data + offset,
						f->packet.content_bytes - offset, &head),
			==, 0);
		CHECK(sample_read(&sample, f->packet.data + offset + 16, head.payload_bytes), ==,
		      1);
		CHECK(sample.number, ==, first + i);
		offset += sample_slot_bytes(1, first + i);
	}
	CHECK(offset, ==, f->packet.content_bytes);
	CHECK(f->packet.records, ==, 2);
	CHECK(f->packet.unpublished_bytes, ==, 0);
}

static void poll_says_nothing_readable_urgent_and_hangup(void)
{
	struct fixture f = begin(&sample_discard);

	CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_NOTHING);
	CHECK(sample_record(f.config, &f.channel, 1, f.next++), ==, 0);
	CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_NOTHING);
	strata_ring_flush_current(f.config, &f.channel);
	CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_READABLE);
	packet(&f);
	packet(&f);
	/* Three of four are full: the producer is not in the last one before it writes there. */
	CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_READABLE);
	CHECK(sample_record(f.config, &f.channel, 1, f.next++), ==, 0);
	CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_URGENT);
	strata_ring_flush_current(f.config, &f.channel);
	CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_URGENT);
	REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
	strata_ring_put_next(&f.reader);
	CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_READABLE);
	strata_ring_finalize(f.s);
	while (!strata_ring_get_next(&f.reader, &f.packet)) {
		CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_READABLE);
		strata_ring_put_next(&f.reader);
	}
	CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_HANGUP);
	end(&f);
}

static void poll_when_mode_is_overwrite_is_never_urgent(void)
{
	struct fixture f = begin(&sample_overwrite);
	unsigned i;

	for (i = 0; i < 3 * COUNT; i++) {
		packet(&f);
		CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_READABLE);
	}
	strata_ring_finalize(f.s);
	while (!strata_ring_get_next(&f.reader, &f.packet))
		strata_ring_put_next(&f.reader);
	CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_HANGUP);
	end(&f);
}

static void both_modes(void (*run)(const struct strata_ring_config *config))
{
	run(&sample_discard);
	run(&sample_overwrite);
}

static void packet_information(const struct strata_ring_config *config)
{
	struct fixture f = begin(config);
	uint64_t before = strata_clock_monotonic_ns(), after;

	CHECK(strata_ring_record(config, &f.channel, 1, &f, SUBBUF), ==, -EMSGSIZE);
	packet(&f);
	after = strata_clock_monotonic_ns();
	REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
	check_packet(&f, 0);
	CHECK(f.packet.position, ==, 0);
	CHECK(f.packet.header_bytes, ==, 8);
	CHECK(f.packet.content_bytes, ==, 8 + sample_slot_bytes(1, 0) + sample_slot_bytes(1, 1));
	CHECK(f.packet.timestamp_begin, >=, before);
	CHECK(f.packet.timestamp_end, >=, f.packet.timestamp_begin);
	CHECK(f.packet.timestamp_end, <=, after);
	CHECK(f.packet.discarded, ==, 1);
	strata_ring_put_next(&f.reader);
	CHECK(strata_ring_get_subbuf(&f.reader, 0, &f.packet), ==, -EAGAIN);
	end(&f);
}

static void get_packet_has_its_information(void)
{
	both_modes(packet_information);
}

static void get_twice(const struct strata_ring_config *config)
{
	struct fixture f = begin(config);
	struct strata_ring_packet second;

	CHECK(strata_ring_get_next(&f.reader, &f.packet), ==, -EAGAIN);
	packet(&f);
	packet(&f);
	REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
	CHECK(strata_ring_get_next(&f.reader, &second), ==, -EBUSY);
	CHECK(strata_ring_get_subbuf(&f.reader, SUBBUF, &second), ==, -EBUSY);
	check_packet(&f, 0);
	strata_ring_put_next(&f.reader);
	/* A second put has nothing to put. */
	strata_ring_put_next(&f.reader);
	strata_ring_put_subbuf(&f.reader);
	REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
	check_packet(&f, 2);
	strata_ring_put_next(&f.reader);
	end(&f);
}

static void get_when_packet_is_not_put_back_returns_ebusy(void)
{
	both_modes(get_twice);
}

static void put_back(const struct strata_ring_config *config)
{
	struct fixture f = begin(config);
	unsigned i;

	packet(&f);
	packet(&f);
	for (i = 0; i < 2 * COUNT; i++) {
		REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
		check_packet(&f, 0);
		strata_ring_put_subbuf(&f.reader);
	}
	/* The packets are got in any order. */
	REQUIRE(strata_ring_get_subbuf(&f.reader, SUBBUF, &f.packet), ==, 0);
	check_packet(&f, 2);
	strata_ring_put_subbuf(&f.reader);
	CHECK(strata_ring_get_subbuf(&f.reader, 2 * SUBBUF, &f.packet), ==, -EAGAIN);
	for (i = 0; i < 2; i++) {
		REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
		check_packet(&f, 2 * i);
		strata_ring_put_next(&f.reader);
	}
	CHECK(strata_ring_get_next(&f.reader, &f.packet), ==, -EAGAIN);
	end(&f);
}

static void put_subbuf_when_got_again_is_the_same_packet(void)
{
	both_modes(put_back);
}

/* The writer goes round many times: what the reader holds does not change, and is not counted. */
static void loss_when_writer_passes_a_held_packet_leaves_it_whole(void)
{
	struct fixture f = begin(&sample_overwrite);
	struct strata_ring_counters c;
	uint64_t read = 0, first;
	unsigned i;

	for (i = 0; i < COUNT; i++)
		packet(&f);
	REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
	for (i = 0; i < 5 * COUNT; i++) {
		packet(&f);
		check_packet(&f, 0);
	}
	strata_ring_put_next(&f.reader);
	read += 2;
	/* The oldest that is left, and no packet twice. */
	first = f.next - 2 * COUNT;
	while (!strata_ring_get_next(&f.reader, &f.packet)) {
		check_packet(&f, first);
		strata_ring_put_next(&f.reader);
		first += 2;
		read += 2;
	}
	CHECK(first, ==, f.next);
	strata_ring_read_counters(f.s, &c);
	CHECK(c.written, ==, f.next);
	CHECK(c.written - c.overwritten_records, ==, read);
	end(&f);
}

/* It was the reader's when the writer came round: gone, and what is there now is undisturbed. */
static void put_subbuf_when_writer_has_passed_is_gone(void)
{
	struct fixture f = begin(&sample_overwrite);
	uint64_t first;
	unsigned i;

	packet(&f);
	REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
	for (i = 0; i < COUNT + 1; i++)
		packet(&f);
	strata_ring_put_subbuf(&f.reader);
	first = f.next - 2 * COUNT;
	while (!strata_ring_get_next(&f.reader, &f.packet)) {
		check_packet(&f, first);
		strata_ring_put_next(&f.reader);
		first += 2;
	}
	CHECK(first, ==, f.next);
	end(&f);
}

static void get_when_packet_was_overwritten_returns_eagain(void)
{
	struct fixture f = begin(&sample_overwrite);
	unsigned i;

	for (i = 0; i < COUNT + 2; i++)
		packet(&f);
	CHECK(strata_ring_get_subbuf(&f.reader, 0, &f.packet), ==, -EAGAIN);
	/*
	 * The packet is unread, but the writer is opening it: the flag is set before another
	 * producer pushes the reader.
	 */
	f.s->subbufs[3].entry |= STRATA_ABI_RING_ENTRY_HELD;
	CHECK(strata_ring_get_subbuf(&f.reader, 3 * SUBBUF, &f.packet), ==, -EAGAIN);
	f.s->subbufs[3].entry &= ~(uint64_t)STRATA_ABI_RING_ENTRY_HELD;
	CHECK(strata_ring_get_subbuf(&f.reader, 3 * SUBBUF, &f.packet), ==, 0);
	strata_ring_put_subbuf(&f.reader);
	end(&f);
}

static void *read_elsewhere(void *argument)
{
	struct fixture *f = (struct fixture *)argument;
	int cpus[2];

	if (test_cpus(cpus, 2) == 2)
		test_pin(cpus[1]);
	if (!CHECK(strata_ring_get_next(&f->reader, &f->packet), ==, 0))
		return NULL;
	check_packet(f, f->packet.position / SUBBUF * 2);
	return NULL;
}

static void other_thread(const struct strata_ring_config *config)
{
	struct fixture f = begin(config);
	pthread_t thread;
	unsigned i;

	for (i = 0; i < 3 * COUNT; i++) {
		packet(&f);
		REQUIRE(pthread_create(&thread, NULL, read_elsewhere, &f), ==, 0);
		pthread_join(thread, NULL);
		CHECK(f.packet.position, ==, (uint64_t)i * SUBBUF);
		/* Got there, put here. */
		strata_ring_put_next(&f.reader);
	}
	end(&f);
}

static void get_when_called_by_another_thread_on_another_cpu_has_the_packet(void)
{
	both_modes(other_thread);
}

/* A reader that dies while it holds packet @held of four unread ones; the next one reads all four. */
static void die_holding(const struct strata_ring_config *config, unsigned held)
{
	struct fixture f = begin(config);
	unsigned i;

	for (i = 0; i < 4; i++)
		packet(&f);
	REQUIRE(strata_ring_get_subbuf(&f.reader, held * SUBBUF, &f.packet), ==, 0);
	REQUIRE(strata_ring_reader_init(&f.reader, f.s), ==, 0);
	for (i = 0; i < 4; i++) {
		CHECK(strata_ring_poll(&f.reader), !=, STRATA_RING_NOTHING);
		if (!CHECK(strata_ring_get_next(&f.reader, &f.packet), ==, 0))
			break;
		check_packet(&f, 2 * i);
		strata_ring_put_next(&f.reader);
	}
	CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_NOTHING);
	end(&f);
}

static void reader_dies_while_it_holds_the_oldest_packet_the_next_one_gets_all(void)
{
	die_holding(&sample_discard, 0);
	die_holding(&sample_overwrite, 0);
}

static void reader_dies_while_it_holds_a_later_packet_the_next_one_gets_all(void)
{
	die_holding(&sample_discard, 2);
	die_holding(&sample_overwrite, 2);
}

/* The same with the writer going on meanwhile: each of the newest packets once, none of the old ones. */
static void reader_dies_while_it_holds_and_the_writer_passes_the_next_one_gets_the_newest(void)
{
	unsigned passed, i;

	for (passed = 1; passed < 3 * COUNT; passed++) {
		struct fixture f = begin(&sample_overwrite);
		uint64_t first;

		packet(&f);
		REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
		for (i = 0; i < passed; i++)
			packet(&f);
		REQUIRE(strata_ring_reader_init(&f.reader, f.s), ==, 0);
		first = passed < COUNT ? 0 : f.next - 2 * COUNT;
		while (!strata_ring_get_next(&f.reader, &f.packet)) {
			check_packet(&f, first);
			strata_ring_put_next(&f.reader);
			first += 2;
		}
		CHECK(first, ==, f.next);
		/* And the channel is as good as before. */
		for (i = 0; i < 2 * COUNT; i++) {
			packet(&f);
			REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
			check_packet(&f, f.next - 2);
			strata_ring_put_next(&f.reader);
		}
		end(&f);
	}
}

static void reader_begins_anew_between_packets_and_goes_on(void)
{
	const struct strata_ring_config *configs[] = { &sample_discard, &sample_overwrite };
	unsigned i, j;

	for (i = 0; i < 2; i++) {
		struct fixture f = begin(configs[i]);

		for (j = 0; j < 5 * COUNT; j++) {
			packet(&f);
			REQUIRE(strata_ring_reader_init(&f.reader, f.s), ==, 0);
			REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
			check_packet(&f, f.next - 2);
			strata_ring_put_next(&f.reader);
		}
		end(&f);
	}
}

/* Checks sizes that a hostile frame may claim, and which of them are believed. */
static void malicious_frame(const struct strata_ring_config *config)
{
	static const uint64_t sizes[] = { 0,
					  7,
					  SUBBUF - 7,
					  SUBBUF,
					  SUBBUF + 1,
					  1u << 31,
					  UINT64_C(1) << 63,
					  UINT64_MAX - 8,
					  UINT64_MAX - 7,
					  UINT64_MAX - 1,
					  UINT64_MAX };
	unsigned i;

	for (i = 0; i <= sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct fixture f = begin(config);

		packet(&f);
		packet(&f);
		if (i < sizeof(sizes) / sizeof(sizes[0]))
			f.s->frames[0].content_bytes = sizes[i];
		else
			f.s->frames[0].position = SUBBUF;
		CHECK(strata_ring_get_next(&f.reader, &f.packet), ==, -EPROTO);
		CHECK(f.packet.content_bytes, <=, 8);
		strata_ring_put_next(&f.reader);
		/* The next packet is not harmed. */
		REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
		check_packet(&f, 2);
		strata_ring_put_next(&f.reader);
		end(&f);
	}
}

static void malicious_frame_returns_eproto_and_put_next_skips_it(void)
{
	both_modes(malicious_frame);
}

static void malicious_entry_returns_eproto_and_put_next_skips_it(void)
{
	struct fixture f = begin(&sample_overwrite);

	packet(&f);
	packet(&f);
	f.s->subbufs[0].entry |= 0xfff0;
	CHECK(strata_ring_get_next(&f.reader, &f.packet), ==, -EPROTO);
	strata_ring_put_next(&f.reader);
	REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
	check_packet(&f, 2);
	strata_ring_put_next(&f.reader);
	end(&f);
}

static void malicious_table_is_refused_at_init(void)
{
	struct fixture f = begin(&sample_overwrite);

	f.s->subbufs[1].entry = 0xffff;
	CHECK(strata_ring_reader_init(&f.reader, f.s), ==, -EPROTO);
	/* Every frame in the table twice: the sum leaves none for the reader. */
	f.s->subbufs[0].entry = f.s->subbufs[1].entry = 0;
	f.s->subbufs[2].entry = f.s->subbufs[3].entry = 0;
	CHECK(strata_ring_reader_init(&f.reader, f.s), ==, -EPROTO);
	end(&f);
}

static void malicious_read_count_is_used_as_the_begin_of_a_subbuf(void)
{
	struct fixture f = begin(&sample_discard);

	packet(&f);
	packet(&f);
	f.s->shared->read_count = SUBBUF + 13;
	CHECK(strata_ring_read_position(&f.reader), ==, SUBBUF);
	REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
	check_packet(&f, 2);
	end(&f);
}

static const struct test tests[] = {
	BOTH(poll_says_nothing_readable_urgent_and_hangup),
	BOTH(poll_when_mode_is_overwrite_is_never_urgent),
	BOTH(get_packet_has_its_information),
	BOTH(get_when_packet_is_not_put_back_returns_ebusy),
	BOTH(put_subbuf_when_got_again_is_the_same_packet),
	BOTH(loss_when_writer_passes_a_held_packet_leaves_it_whole),
	BOTH(put_subbuf_when_writer_has_passed_is_gone),
	BOTH(get_when_packet_was_overwritten_returns_eagain),
	BOTH(get_when_called_by_another_thread_on_another_cpu_has_the_packet),
	BOTH(reader_dies_while_it_holds_the_oldest_packet_the_next_one_gets_all),
	BOTH(reader_dies_while_it_holds_a_later_packet_the_next_one_gets_all),
	BOTH(reader_dies_while_it_holds_and_the_writer_passes_the_next_one_gets_the_newest),
	BOTH(reader_begins_anew_between_packets_and_goes_on),
	BOTH(malicious_frame_returns_eproto_and_put_next_skips_it),
	BOTH(malicious_entry_returns_eproto_and_put_next_skips_it),
	BOTH(malicious_table_is_refused_at_init),
	BOTH(malicious_read_count_is_used_as_the_begin_of_a_subbuf),
};
TEST_MAIN(tests)
