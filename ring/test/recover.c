/* SPDX-License-Identifier: MIT */
/*
 * recover.c - what strata_ring_get_rest() makes of each state in which a producer can be killed. The states
 * are made by hand; kill.c comes upon them by chance.
 */
#include "sample.h"

enum {
	SUBBUF = 256,
	COUNT = 4,
	HEADER = 8
};

#define CONFIG(name, loss, writers) \
	SAMPLE_CONFIG(name, loss, writers, STRATA_RING_PER_CPU, STRATA_RING_WAKE_NONE)

CONFIG(local_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_LOCAL);
CONFIG(local_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_LOCAL);
CONFIG(smp_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_SMP);

static const struct strata_ring_config *const locals[] = { &local_discard, &local_overwrite };
static const struct strata_ring_config *const both_ways[] = { &sample_discard, &sample_overwrite };

struct fixture {
	const struct strata_ring_config *config;
	struct strata_ring_channel channel;
	struct strata_ring_stream *s;
	uint64_t position; /* of the packet that is being filled */
	uint64_t first;	   /* number of its first record */
	uint64_t next;
	uint64_t bytes; /* its content */
};

static void record(struct fixture *f)
{
	CHECK(sample_record(f->config, &f->channel, 1, f->next), ==, 0);
	f->bytes += sample_slot_bytes(1, f->next++);
}

/* @packets delivered ones of a record each, then three records in one that is not closed. */
static struct fixture begin(const struct strata_ring_config *config, unsigned packets)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);
	struct fixture f;
	unsigned i;

	memset(&f, 0, sizeof(f));
	attr.header_bytes = HEADER;
	if (config->writers == STRATA_RING_WRITERS_LOCAL)
		attr.nr_cpus = 1;
	f.config = config;
	f.channel = sample_create(config, &attr);
	f.s = sample_stream(&f.channel);
	for (i = 0; i < packets; i++) {
		record(&f);
		strata_ring_flush_current(config, &f.channel);
	}
	f.position = strata_load_relaxed(&f.s->shared->write_count);
	CHECK(f.position, ==, (uint64_t)packets * SUBBUF);
	f.first = f.next;
	f.bytes = HEADER;
	for (i = 0; i < 3; i++)
		record(&f);
	CHECK(f.s->shared->write_count, ==, f.position + f.bytes);
	return f;
}

static void end(struct fixture *f)
{
	strata_ring_channel_close(&f->channel);
}

static struct strata_abi_ring_subbuf *subbuf(const struct fixture *f)
{
	return strata_ring_subbuf(f->s, f->position);
}

static struct strata_abi_ring_frame *frame(const struct fixture *f)
{
	return &f->s->frames[f->config->loss_mode == STRATA_RING_OVERWRITE ?
				     strata_ring_entry_frame(subbuf(f)->entry) :
				     f->position / SUBBUF % COUNT];
}

/* Numbers first..next-1 are left, and no others; at most @unpublished bytes are not. */
static void check_rest(struct fixture *f, uint64_t first, uint64_t next, uint64_t unpublished)
{
	const struct strata_ring_view *view;
	struct strata_ring_iterator it;
	struct sample sample;

	REQUIRE(strata_ring_iterator_init(&it, f->config, f->s, STRATA_RING_REST), ==, 0);
	for (; first < next; first++) {
		REQUIRE(strata_ring_next(&it, &view), ==, 0);
		CHECK(sample_read(&sample, view->payload, view->head.payload_bytes), ==, 1);
		CHECK(sample.number, ==, first);
	}
	CHECK(strata_ring_next(&it, &view), ==, -ENODATA);
	CHECK(it.unpublished, ==, unpublished);
	CHECK(it.damaged, ==, 0);
	strata_ring_iterator_end(&it);
}

static void rest_when_killed_between_records_has_all_of_them(void)
{
	unsigned i, packets;

	for (i = 0; i < 2; i++)
		for (packets = 0; packets < COUNT; packets++) {
			struct fixture f = begin(both_ways[i], packets);

			check_rest(&f, 0, f.next, 0);
			end(&f);
		}
}

/* By position: stops at each store of close, up to the one that counts. */
static void rest_when_killed_inside_close_by_position_has_all_records(void)
{
	unsigned i, stores, packets;

	if (!test_by_position)
		return;
	for (i = 0; i < 2; i++)
		for (packets = 0; packets < COUNT; packets++)
			for (stores = 1; stores <= 6; stores++) {
				struct fixture f = begin(both_ways[i], packets);

				if (stores >= 1) /* not of now: what the reader must not believe */
					frame(&f)->content_bytes = HEADER;
				if (stores >= 2)
					frame(&f)->timestamp_end = 0;
				if (stores >= 3)
					frame(&f)->discarded = 0;
				if (stores >= 4)
					frame(&f)->records = 1;
				if (stores >= 5)
					frame(&f)->position = f.position;
				if (stores >= 6 && i)
					subbuf(&f)->entry = strata_ring_entry(
						strata_ring_entry_frame(subbuf(&f)->entry),
						strata_ring_tag(f.s, f.position));
				check_rest(&f, 0, f.next, 0);
				end(&f);
			}
}

/* A copy that was cut off, behind the last record: nobody knows of it. */
static void rest_when_killed_inside_a_copy_does_not_see_it(void)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct fixture f = begin(both_ways[i], 1);

		memset(f.s->data + ((uint64_t)(frame(&f) - f.s->frames) << f.s->subbuf_shift) +
			       f.bytes,
		       0x77, SUBBUF - f.bytes);
		check_rest(&f, 0, f.next, 0);
		end(&f);
	}
}

/* By commit: a reserved slot hides the record behind it; both are seen as bytes. */
static void rest_when_killed_before_commit_has_what_is_in_front(void)
{
	const struct strata_ring_event event = { 1, 24, 0 };
	struct strata_ring_slot slot;
	unsigned i, packets;

	for (i = 0; i < 2; i++)
		/* In the packet of the records before, and as the first of the next one. */
		for (packets = 0; packets < 2; packets++) {
			struct fixture f = begin(locals[i], packets);

			REQUIRE(strata_ring_reserve(f.config, f.s, &event, &slot), ==, 0);
			CHECK(slot.opened, ==, packets);
			check_rest(&f, 0, f.next, 40);
			end(&f);
		}
}

/* The add to the commit word was made, the hint for live readers was not. */
static void rest_when_killed_before_committed_is_stored_has_the_record(void)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct fixture f = begin(locals[i], 1);

		strata_ring_subbuf(f.s, f.position)->committed -= sample_slot_bytes(1, f.next - 1);
		check_rest(&f, 0, f.next, 0);
		strata_ring_subbuf(f.s, f.position)->committed = f.position;
		check_rest(&f, 0, f.next, 0);
		end(&f);
	}
}

static void rest_when_killed_after_close_has_the_committed_prefix(void)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct fixture f = begin(locals[i], 1);

		/* The write count says closed; the packet's size is not written yet. */
		f.s->shared->write_count = f.position + SUBBUF;
		check_rest(&f, 0, f.next, SUBBUF - f.bytes);
		/* The size is written, the padding is not committed. */
		frame(&f)->content_bytes = f.bytes;
		check_rest(&f, 0, f.next, SUBBUF - f.bytes);
		/* All bytes are committed, the packet is not sealed. */
		subbuf(&f)->commit += SUBBUF - f.bytes;
		check_rest(&f, 0, f.next, 0);
		strata_ring_subbuf(f.s, f.position)->committed = f.position;
		check_rest(&f, 0, f.next, 0);
		/* The sub-buffer is sealed and not cleared. */
		frame(&f)->records = 3;
		frame(&f)->position = f.position;
		check_rest(&f, 0, f.next, 0);
		/* The sub-buffer is cleared and not published. */
		subbuf(&f)->commit = 0;
		check_rest(&f, 0, f.next, 0);
		end(&f);
	}
}

/* The last packet was closed by one thread while another one's slot in it was open. */
static void rest_when_a_slot_of_a_closed_packet_is_open_counts_what_it_hides(void)
{
	const struct strata_ring_event event = { 1, 24, 0 };
	struct fixture f = begin(&smp_discard, 0);
	struct strata_ring_slot slot;

	REQUIRE(strata_ring_reserve(f.config, f.s, &event, &slot), ==, 0);
	CHECK(slot.begin, ==, f.bytes);
	strata_ring_flush(f.config, f.s);
	check_rest(&f, 0, 3, SUBBUF - f.bytes);
	/* The next packet is not hidden by it, and does not hide what is in front of the hole. */
	CHECK(sample_record(f.config, &f.channel, 1, 3), ==, 0);
	check_rest(&f, 0, 4, SUBBUF - f.bytes);
	end(&f);
}

/*
 * Overwrite by commit: the new sub-buffer is reserved, the reader not pushed, the frame not held.
 */
static void rest_when_killed_while_opening_has_what_is_not_overwritten(void)
{
	struct fixture f = begin(&local_overwrite, COUNT - 1);
	uint64_t oldest = 1;

	strata_ring_flush(f.config, f.s);
	CHECK(f.s->shared->write_count, ==, COUNT * SUBBUF);
	check_rest(&f, 0, f.next, 0);
	f.s->shared->write_count += HEADER + 40;
	check_rest(&f, oldest, f.next, 40);
	/* The reader was pushed. */
	f.s->shared->read_count += SUBBUF;
	check_rest(&f, oldest, f.next, 40);
	/* The frame is held. */
	f.s->subbufs[0].entry |= STRATA_ABI_RING_ENTRY_HELD;
	check_rest(&f, oldest, f.next, 40);
	end(&f);
}

static void rest_when_nothing_was_written_is_empty(void)
{
	const struct strata_ring_config *configs[] = { &sample_discard, &sample_overwrite };
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);
	struct strata_ring_packet packet;
	struct strata_ring_reader reader;
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct strata_ring_channel channel = sample_create(configs[i], &attr);

		REQUIRE(strata_ring_reader_init(&reader, sample_stream(&channel)), ==, 0);
		CHECK(strata_ring_get_rest(&reader, &packet), ==, -ENODATA);
		CHECK(strata_ring_get_rest(&reader, &packet), ==, -ENODATA);
		strata_ring_channel_close(&channel);
	}
}

static void malicious_frame_makes_rest_return_eproto_and_go_on(void)
{
	static const uint64_t sizes[] = { SUBBUF - 7, SUBBUF, UINT64_MAX - 7, UINT64_MAX };
	struct strata_ring_packet packet;
	struct strata_ring_reader reader;
	unsigned i, j;

	for (i = 0; i < 2; i++)
		for (j = 0; j < 6; j++) {
			struct fixture f = begin(both_ways[i], 2);

			if (j == 4)
				f.s->frames[0].position = SUBBUF;
			else if (j == 5)
				f.s->subbufs[0].entry |= 0xfff0;
			else
				f.s->frames[0].content_bytes = sizes[j];
			if (j == 5 && !i) {
				end(&f); /* discard mode has no table */
				continue;
			}
			if (j == 5) {
				/* A table that is damaged before is refused; this was damaged after. */
				f.s->subbufs[0].entry ^= 0xfff0;
				REQUIRE(strata_ring_reader_init(&reader, f.s), ==, 0);
				f.s->subbufs[0].entry |= 0xfff0;
			} else {
				REQUIRE(strata_ring_reader_init(&reader, f.s), ==, 0);
			}
			CHECK(strata_ring_get_rest(&reader, &packet), ==, -EPROTO);
			CHECK(packet.content_bytes, ==, HEADER);
			CHECK(strata_ring_get_rest(&reader, &packet), ==, 0);
			CHECK(packet.position, ==, SUBBUF);
			CHECK(strata_ring_get_rest(&reader, &packet), ==, 0);
			CHECK(packet.content_bytes, ==, f.bytes);
			CHECK(strata_ring_get_rest(&reader, &packet), ==, -ENODATA);
			end(&f);
		}
}

static const struct test tests[] = {
	BOTH(rest_when_killed_between_records_has_all_of_them),
	BOTH(rest_when_killed_inside_close_by_position_has_all_records),
	BOTH(rest_when_killed_inside_a_copy_does_not_see_it),
	ONCE(rest_when_killed_before_commit_has_what_is_in_front),
	ONCE(rest_when_killed_before_committed_is_stored_has_the_record),
	ONCE(rest_when_killed_after_close_has_the_committed_prefix),
	ONCE(rest_when_a_slot_of_a_closed_packet_is_open_counts_what_it_hides),
	ONCE(rest_when_killed_while_opening_has_what_is_not_overwritten),
	BOTH(rest_when_nothing_was_written_is_empty),
	BOTH(malicious_frame_makes_rest_return_eproto_and_go_on),
};
TEST_MAIN(tests)
