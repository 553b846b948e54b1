/* SPDX-License-Identifier: MIT */
/*
 * reserve.c - reserve, write, commit, cancel and flush on one stream, by LOCAL and by SMP writers.
 */
#include "sample.h"

enum {
	SUBBUF = 128,
	COUNT = 4,
	/* sized header and 24 bytes of payload: three of them fill a sub-buffer but for its tail */
	PAYLOAD = 24,
	SLOT = 40,
	PER_PACKET = 3
};

static uint64_t now_value;

static uint64_t counting_clock(void)
{
	return ++now_value;
}

#define CONFIG(name, loss, writers)                                                    \
	static const struct strata_ring_config name = {                                \
		loss, writers,	      STRATA_RING_PER_CPU,	STRATA_RING_WAKE_NONE, \
		8,    counting_clock, STRATA_RING_HEADER_SIZED, NULL                   \
	}

CONFIG(local_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_LOCAL);
CONFIG(local_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_LOCAL);
CONFIG(smp_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_SMP);
CONFIG(smp_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_SMP);

static const struct strata_ring_config *const configs[] = { &local_discard, &local_overwrite,
							    &smp_discard, &smp_overwrite };

struct fixture {
	const struct strata_ring_config *config;
	struct strata_ring_channel channel;
	struct strata_ring_stream *s;
	struct strata_ring_reader reader;
	struct strata_ring_packet packet;
};

static struct fixture begin_at(const struct strata_ring_config *config, uint32_t nr_subbufs,
			       uint64_t start)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, nr_subbufs);
	struct fixture f;

	memset(&f, 0, sizeof(f));
	attr.nr_cpus = 1;
	attr.start_position = start;
	f.config = config;
	f.channel = sample_create(config, &attr);
	/* The structure is copied; what the stream pointer points to is not. */
	f.s = &f.channel.streams.stream[0];
	CHECK(strata_ring_reader_init(&f.reader, f.s), ==, 0);
	return f;
}

static struct fixture begin(const struct strata_ring_config *config)
{
	return begin_at(config, COUNT, 0);
}

static void end(struct fixture *f)
{
	strata_ring_channel_close(&f->channel);
}

static int reserve_bytes(struct fixture *f, struct strata_ring_slot *slot, uint32_t bytes)
{
	struct strata_ring_event event;

	memset(&event, 0, sizeof(event));
	event.id = 1;
	event.payload_bytes = bytes;
	return strata_ring_reserve(f->config, f->s, &event, slot);
}

static int reserve(struct fixture *f, struct strata_ring_slot *slot)
{
	return reserve_bytes(f, slot, PAYLOAD);
}

static void commit(struct fixture *f, struct strata_ring_slot *slot, uint64_t number)
{
	const uint64_t payload[PAYLOAD / 8] = { number, ~number, number * 3 };

	strata_ring_write(slot, payload, 8);
	strata_ring_write(slot, payload + 1, sizeof(payload) - 8);
	strata_ring_commit(f->config, slot);
}

static int record(struct fixture *f, uint64_t number)
{
	struct strata_ring_slot slot;
	int error = reserve(f, &slot);

	if (!error)
		commit(f, &slot, number);
	return error;
}

static struct strata_ring_counters counters(const struct fixture *f)
{
	struct strata_ring_counters c;

	strata_ring_read_counters(f->s, &c);
	return c;
}

static uint64_t write_count(const struct fixture *f)
{
	return strata_load_relaxed(&f->s->shared->write_count);
}

/* The number in the record at @index of the packet that is got. */
static uint64_t number_at(const struct fixture *f, unsigned index)
{
	uint64_t payload[PAYLOAD / 8];

	memcpy(payload, f->packet.data + index * SLOT + STRATA_RING_SIZED_BYTES, sizeof(payload));
	CHECK(payload[1], ==, ~payload[0]);
	CHECK(payload[2], ==, payload[0] * 3);
	return payload[0];
}

static void reserve_when_no_free_subbuf_returns_enobufs_and_counts_one(void)
{
	unsigned i, n;

	for (i = 0; i < 4; i += 2) {
		struct fixture f = begin(configs[i]);
		struct strata_ring_slot slot;

		for (n = 0; n < COUNT * PER_PACKET; n++)
			CHECK(record(&f, n), ==, 0);
		for (n = 1; n <= 3; n++) {
			CHECK(reserve(&f, &slot), ==, -ENOBUFS);
			CHECK(counters(&f).discarded_full, ==, n);
		}
		CHECK(counters(&f).written, ==, COUNT * PER_PACKET);
		/* A packet that is read makes room for one. */
		REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
		CHECK(record(&f, n), ==, -ENOBUFS);
		strata_ring_put_next(&f.reader);
		CHECK(record(&f, n), ==, 0);
		CHECK(counters(&f).discarded_full, ==, 4);
		CHECK(strata_ring_discarded(f.s), ==, 4);
		end(&f);
	}
}

static void reserve_when_record_does_not_fit_a_subbuf_returns_emsgsize_and_counts_one(void)
{
	const uint32_t most = SUBBUF - STRATA_ABI_RING_TAIL_BYTES - STRATA_RING_SIZED_BYTES;
	struct strata_ring_slot slot;
	unsigned i;

	for (i = 0; i < 4; i++) {
		struct fixture f = begin(configs[i]);

		CHECK(reserve_bytes(&f, &slot, most + 1), ==, -EMSGSIZE);
		CHECK(reserve_bytes(&f, &slot, SUBBUF), ==, -EMSGSIZE);
		CHECK(reserve_bytes(&f, &slot, UINT32_MAX), ==, -EMSGSIZE);
		CHECK(counters(&f).discarded_too_big, ==, 3);
		CHECK(write_count(&f), ==, 0);
		CHECK(reserve_bytes(&f, &slot, most), ==, 0);
		strata_ring_commit(f.config, &slot);
		CHECK(reserve_bytes(&f, &slot, most + 1), ==, -EMSGSIZE);
		CHECK(counters(&f).discarded_too_big, ==, 4);
		CHECK(counters(&f).written, ==, 1);
		end(&f);
	}
}

static void reserve_when_record_is_empty_returns_emsgsize_and_counts_one(void)
{
	struct strata_ring_config config = local_discard;
	const struct strata_ring_header none = STRATA_RING_HEADER_NONE;
	struct strata_ring_slot slot;
	struct fixture f;

	config.header = none;
	f = begin(&config);
	CHECK(reserve_bytes(&f, &slot, 0), ==, -EMSGSIZE);
	CHECK(reserve_bytes(&f, &slot, 8), ==, 0);
	strata_ring_commit(&config, &slot);
	/* A size of 0 is refused inside of a sub-buffer, too. */
	CHECK(reserve_bytes(&f, &slot, 0), ==, -EMSGSIZE);
	CHECK(counters(&f).discarded_too_big, ==, 2);
	end(&f);
}

static void discard_nested_when_producer_gives_up_counts_one_and_the_packet_says_it(void)
{
	unsigned i, n;

	for (i = 0; i < 4; i++) {
		struct fixture f = begin_at(configs[i], COUNT, 0);

		CHECK(record(&f, 0), ==, 0);
		for (n = 1; n <= 3; n++) {
			strata_ring_discard_nested(f.config, f.s);
			CHECK(counters(&f).discarded_nested, ==, n);
		}
		CHECK(counters(&f).written, ==, 1);
		CHECK(counters(&f).discarded_full + counters(&f).discarded_too_big, ==, 0);
		strata_ring_flush(f.config, f.s);
		REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
		CHECK(f.packet.records, ==, 1);
		CHECK(f.packet.discarded, ==, 3);
		strata_ring_put_next(&f.reader);
		strata_ring_channel_close(&f.channel);
	}
}

/* A slot stays open while its sub-buffer's turn comes again: the writer does not wait, it counts. */
static void loss_when_slot_of_last_lap_is_open_returns_ebusy_and_counts_one(void)
{
	struct strata_ring_slot open, slot;
	unsigned i, n;

	for (i = 1; i < 4; i += 2) {
		struct fixture f = begin_at(configs[i], 2, 0);

		REQUIRE(record(&f, 0), ==, 0);
		REQUIRE(reserve(&f, &open), ==, 0);
		for (n = 2; n < 2 * PER_PACKET; n++)
			CHECK(record(&f, n), ==, 0);
		for (n = 1; n <= 3; n++) {
			CHECK(reserve(&f, &slot), ==, -EBUSY);
			CHECK(counters(&f).discarded_nested, ==, n);
		}
		/* Its packet is not delivered, hence the reader gets nothing in front of it. */
		CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_NOTHING);
		CHECK(counters(&f).written, ==, 5);
		commit(&f, &open, 1);
		CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_READABLE);
		CHECK(record(&f, 6), ==, 0);
		CHECK(counters(&f).overwritten_packets, ==, 1);
		CHECK(counters(&f).overwritten_records, ==, 3);
		CHECK(counters(&f).written, ==, 7);
		REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
		for (n = 0; n < PER_PACKET; n++)
			CHECK(number_at(&f, n), ==, 3 + n);
		end(&f);
	}
}

/* The same in discard mode, where the reader has freed all behind the open slot's packet but that. */
static void loss_when_slot_of_last_lap_is_open_and_buffer_full_counts_each_record_once(void)
{
	struct strata_ring_slot open, slot;
	unsigned i, n;

	for (i = 0; i < 4; i += 2) {
		struct fixture f = begin_at(configs[i], 2, 0);

		REQUIRE(reserve(&f, &open), ==, 0);
		for (n = 1; n < 2 * PER_PACKET; n++)
			CHECK(record(&f, n), ==, 0);
		CHECK(reserve(&f, &slot), <, 0);
		CHECK(strata_ring_discarded(f.s), ==, 1);
		CHECK(strata_ring_get_next(&f.reader, &f.packet), ==, -EAGAIN);
		commit(&f, &open, 0);
		REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
		CHECK(number_at(&f, 0), ==, 0);
		strata_ring_put_next(&f.reader);
		CHECK(record(&f, n), ==, 0);
		end(&f);
	}
}

static void commit_when_out_of_order_delivers_once_and_in_order_of_reservation(void)
{
	static const unsigned orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
					      { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
	struct strata_ring_slot slots[3];
	unsigned i, order, n;

	for (i = 0; i < 4; i++)
		for (order = 0; order < 6; order++) {
			struct fixture f = begin(configs[i]);

			for (n = 0; n < 3; n++)
				CHECK(reserve(&f, &slots[n]), ==, 0);
			/* There is no room: this closes the packet, which waits for its commits. */
			REQUIRE(record(&f, 3), ==, 0);
			for (n = 0; n < 3; n++) {
				CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_NOTHING);
				commit(&f, &slots[orders[order][n]], orders[order][n]);
			}
			CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_READABLE);
			REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
			CHECK(f.packet.records, ==, 3);
			CHECK(f.packet.content_bytes, ==, 3 * SLOT);
			for (n = 0; n < 3; n++)
				CHECK(number_at(&f, n), ==, n);
			strata_ring_put_next(&f.reader);
			CHECK(strata_ring_get_next(&f.reader, &f.packet), ==, -EAGAIN);
			CHECK(counters(&f).written, ==, 4);
			end(&f);
		}
}

static void cancel_when_slot_is_last_gives_its_space_back(void)
{
	struct strata_ring_config smp_no_clock = smp_discard;
	const struct strata_ring_config *able[] = { &local_discard, &local_overwrite,
						    &smp_no_clock };
	struct strata_ring_slot slot;
	unsigned i;

	smp_no_clock.clock = NULL;
	for (i = 0; i < 3; i++) {
		struct fixture f = begin(able[i]);

		REQUIRE(record(&f, 0), ==, 0);
		REQUIRE(reserve(&f, &slot), ==, 0);
		CHECK(write_count(&f), ==, 2 * SLOT);
		CHECK(strata_ring_cancel(f.config, &slot), ==, 0);
		CHECK(write_count(&f), ==, SLOT);
		REQUIRE(record(&f, 1), ==, 0);
		CHECK(counters(&f).cancelled, ==, 0);
		CHECK(counters(&f).written, ==, 2);
		strata_ring_flush(f.config, f.s);
		REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
		CHECK(f.packet.records, ==, 2);
		CHECK(number_at(&f, 1), ==, 1);
		end(&f);
	}
}

/* Slots 0 (it opened the sub-buffer), 1 (not the last) or 2 (the last) of three. */
static void cancel_when_slot_must_stay_leaves_padding_that_iterators_skip(void)
{
	const struct strata_ring_view *view;
	struct strata_ring_iterator it;
	struct strata_ring_slot slots[3];
	unsigned i, n, victim;

	for (i = 0; i < 4; i++)
		for (victim = 0; victim < 3; victim++) {
			struct fixture f = begin(configs[i]);
			int local = configs[i]->writers == STRATA_RING_WRITERS_LOCAL;
			int stays = victim < 2 || !local;

			for (n = 0; n < 3; n++)
				REQUIRE(reserve(&f, &slots[n]), ==, 0);
			CHECK(strata_ring_cancel(f.config, &slots[victim]), ==, stays);
			for (n = 0; n < 3; n++)
				if (n != victim)
					commit(&f, &slots[n], n);
			CHECK(counters(&f).cancelled, ==, stays);
			CHECK(counters(&f).written, ==, 2);
			strata_ring_flush(f.config, f.s);
			REQUIRE(strata_ring_iterator_init(&it, f.config, f.s, STRATA_RING_CONSUME),
				==, 0);
			for (n = 0; n < 3; n++) {
				uint64_t number;

				if (n == victim)
					continue;
				REQUIRE(strata_ring_next(&it, &view), ==, 0);
				memcpy(&number, view->payload, 8);
				CHECK(number, ==, n);
				CHECK(view->head.timestamp, ==, slots[n].timestamp);
			}
			CHECK(strata_ring_next(&it, &view), ==, -EAGAIN);
			CHECK(it.damaged, ==, 0);
			strata_ring_iterator_end(&it);
			end(&f);
		}
}

static void cancel_when_all_of_a_packet_is_cancelled_delivers_a_packet_of_no_records(void)
{
	const struct strata_ring_view *view;
	struct strata_ring_iterator it;
	struct strata_ring_slot slot;
	unsigned i;

	for (i = 0; i < 4; i++) {
		struct fixture f = begin(configs[i]);

		REQUIRE(reserve(&f, &slot), ==, 0);
		CHECK(strata_ring_cancel(f.config, &slot), ==, 1);
		strata_ring_flush(f.config, f.s);
		CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_READABLE);
		REQUIRE(strata_ring_iterator_init(&it, f.config, f.s, STRATA_RING_CONSUME), ==, 0);
		CHECK(strata_ring_next(&it, &view), ==, -EAGAIN);
		strata_ring_iterator_end(&it);
		CHECK(counters(&f).written, ==, 0);
		CHECK(counters(&f).cancelled, ==, 1);
		end(&f);
	}
}

static void cancel_when_format_has_no_padding_returns_ebusy_and_slot_can_be_committed(void)
{
	const struct strata_ring_header compact = STRATA_RING_HEADER_COMPACT;
	struct strata_ring_config config = smp_discard;
	struct strata_ring_slot slot;
	struct fixture f;

	config.header = compact;
	f = begin(&config);
	REQUIRE(reserve(&f, &slot), ==, 0);
	CHECK(strata_ring_cancel(&config, &slot), ==, -EBUSY);
	CHECK(counters(&f).cancelled, ==, 0);
	commit(&f, &slot, 1);
	CHECK(counters(&f).written, ==, 1);
	strata_ring_flush(&config, f.s);
	CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_READABLE);
	end(&f);
}

static void flush_when_subbuf_is_empty_does_nothing(void)
{
	unsigned i, n;

	for (i = 0; i < 4; i++) {
		struct fixture f = begin(configs[i]);

		strata_ring_flush(f.config, f.s);
		CHECK(write_count(&f), ==, 0);
		CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_NOTHING);
		REQUIRE(record(&f, 0), ==, 0);
		for (n = 0; n < 3; n++)
			strata_ring_flush(f.config, f.s);
		CHECK(write_count(&f), ==, SUBBUF);
		REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
		CHECK(f.packet.content_bytes, ==, SLOT);
		strata_ring_put_next(&f.reader);
		CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_NOTHING);
		end(&f);
	}
}

static void flush_when_slot_is_open_closes_and_the_commit_delivers(void)
{
	struct strata_ring_slot slot;
	unsigned i;

	for (i = 0; i < 4; i++) {
		struct fixture f = begin(configs[i]);

		REQUIRE(reserve(&f, &slot), ==, 0);
		strata_ring_flush(f.config, f.s);
		CHECK(write_count(&f), ==, SUBBUF);
		CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_NOTHING);
		REQUIRE(record(&f, 1), ==, 0);
		CHECK(write_count(&f), ==, SUBBUF + SLOT);
		commit(&f, &slot, 0);
		REQUIRE(strata_ring_get_next(&f.reader, &f.packet), ==, 0);
		CHECK(number_at(&f, 0), ==, 0);
		end(&f);
	}
}

enum {
	OPEN_MAX = 5
};

/* The results of the random operations below, to be compared with the counters. */
struct account {
	uint64_t tried;
	uint64_t committed;
	uint64_t cancelled_padding;
	uint64_t cancelled_back;
	uint64_t read;
	uint64_t last_number; /* of the record read last */
};

static void read_packet(struct fixture *f, struct account *a)
{
	uint64_t offset, number;
	struct strata_ring_parsed head;

	if (strata_ring_get_next(&f->reader, &f->packet))
		return;
	for (offset = f->packet.header_bytes; offset < f->packet.content_bytes;) {
		if (!CHECK(f->config->header.parse(f->packet.data + offset,
						   f->packet.content_bytes - offset, &head),
			   ==, 0))
			break;
		if (!head.padding) {
			memcpy(&number, f->packet.data + offset + head.header_bytes, 8);
			CHECK(number, >, a->last_number);
			CHECK(number, ==, head.timestamp);
			a->last_number = number;
			a->read++;
		}
		offset += (head.header_bytes + (uint64_t)head.payload_bytes + 7) & ~UINT64_C(7);
	}
	strata_ring_put_next(&f->reader);
}

static void one_operation(struct fixture *f, struct account *a, struct strata_ring_slot *open,
			  unsigned *nr_open)
{
	struct strata_ring_slot *slot;
	unsigned n;
	int result;

	switch (test_random(8)) {
	case 0:
		strata_ring_flush(f->config, f->s);
		return;
	case 1:
		if (f->config->loss_mode == STRATA_RING_DISCARD || !test_random(4))
			read_packet(f, a);
		return;
	case 2:
	case 3:
	case 4:
		if (*nr_open == OPEN_MAX)
			return;
		a->tried++;
		result = reserve_bytes(f, &open[*nr_open], 8 + (uint32_t)test_random(100));
		*nr_open += !result;
		return;
	default:
		if (!*nr_open)
			return;
	}
	/* End any of the open slots. */
	n = (unsigned)test_random(*nr_open);
	slot = &open[n];
	if (!test_random(4)) {
		result = strata_ring_cancel(f->config, slot);
		CHECK(result, >=, 0);
		a->cancelled_padding += result == 1;
		a->cancelled_back += result == 0;
	} else {
		strata_ring_write(slot, &slot->timestamp, 8);
		strata_ring_commit(f->config, slot);
		a->committed++;
	}
	open[n] = open[--*nr_open];
}

static void account_once(const struct strata_ring_config *config, uint64_t start)
{
	struct fixture f = begin_at(config, COUNT, start);
	struct strata_ring_slot open[OPEN_MAX];
	struct strata_ring_counters c;
	struct account a = { 0, 0, 0, 0, 0, 0 };
	unsigned nr_open = 0, i;

	for (i = 0; i < 3000; i++)
		one_operation(&f, &a, open, &nr_open);
	while (nr_open) {
		nr_open--;
		strata_ring_write(&open[nr_open], &open[nr_open].timestamp, 8);
		strata_ring_commit(config, &open[nr_open]);
		a.committed++;
	}
	c = counters(&f);
	CHECK(c.written, ==, a.committed);
	CHECK(c.cancelled, ==, a.cancelled_padding);
	CHECK(c.written + strata_ring_discarded(f.s) + c.cancelled + a.cancelled_back, ==, a.tried);
	strata_ring_flush(config, f.s);
	for (i = 0; i < 2 * COUNT; i++)
		read_packet(&f, &a);
	c = counters(&f);
	CHECK(c.written, ==, a.committed);
	CHECK(c.written - c.overwritten_records, ==, a.read);
	if (config->loss_mode == STRATA_RING_DISCARD)
		CHECK(c.overwritten_records, ==, 0);
	end(&f);
}

static void counters_when_operations_are_random_account_for_every_record(void)
{
	unsigned i, n;

	for (n = 0; n < 20; n++)
		for (i = 0; i < 4; i++)
			account_once(configs[i], 0);
}

static void wrap_counters_when_positions_pass_2_to_64_account_for_every_record(void)
{
	const uint64_t buffer = SUBBUF * COUNT;
	unsigned i, n;

	for (n = 1; n <= 20; n++)
		for (i = 0; i < 4; i++)
			account_once(configs[i], 0 - n * buffer);
	/* Positions that are negative as a signed number from the middle on. */
	for (i = 0; i < 4; i++)
		account_once(configs[i], (UINT64_C(1) << 63) - 3 * buffer);
}

static const struct test tests[] = {
	ONCE(reserve_when_no_free_subbuf_returns_enobufs_and_counts_one),
	ONCE(reserve_when_record_does_not_fit_a_subbuf_returns_emsgsize_and_counts_one),
	ONCE(reserve_when_record_is_empty_returns_emsgsize_and_counts_one),
	ONCE(discard_nested_when_producer_gives_up_counts_one_and_the_packet_says_it),
	ONCE(loss_when_slot_of_last_lap_is_open_returns_ebusy_and_counts_one),
	ONCE(loss_when_slot_of_last_lap_is_open_and_buffer_full_counts_each_record_once),
	ONCE(commit_when_out_of_order_delivers_once_and_in_order_of_reservation),
	ONCE(cancel_when_slot_is_last_gives_its_space_back),
	ONCE(cancel_when_slot_must_stay_leaves_padding_that_iterators_skip),
	ONCE(cancel_when_all_of_a_packet_is_cancelled_delivers_a_packet_of_no_records),
	ONCE(cancel_when_format_has_no_padding_returns_ebusy_and_slot_can_be_committed),
	ONCE(flush_when_subbuf_is_empty_does_nothing),
	ONCE(flush_when_slot_is_open_closes_and_the_commit_delivers),
	ONCE(counters_when_operations_are_random_account_for_every_record),
	ONCE(wrap_counters_when_positions_pass_2_to_64_account_for_every_record),
};
TEST_MAIN(tests)
