/* SPDX-License-Identifier: MIT */
/*
 * scan.c - packets in either direction, more than once, with the producer going on.
 */
#include <pthread.h>
#include "sample.h"

enum {
	SUBBUF = 256,
	COUNT = 8,
	PER_PACKET = 2
};

struct fixture {
	const struct strata_ring_config *config;
	struct strata_ring_channel channel;
	struct strata_ring_stream *s;
	struct strata_ring_reader reader;
	struct strata_ring_scan scan;
	uint64_t next;
};

static struct fixture begin(const struct strata_ring_config *config, uint64_t start)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);
	struct fixture f;

	memset(&f, 0, sizeof(f));
	attr.start_position = start;
	f.config = config;
	f.channel = sample_create(config, &attr);
	f.s = sample_stream(&f.channel);
	CHECK(strata_ring_reader_init(&f.reader, f.s), ==, 0);
	return f;
}

static void packets(struct fixture *f, unsigned n)
{
	while (n--) {
		CHECK(sample_record(f->config, &f->channel, 1, f->next++), ==, 0);
		CHECK(sample_record(f->config, &f->channel, 1, f->next++), ==, 0);
		strata_ring_flush_current(f->config, &f->channel);
	}
}

/* The number of the packet's first record; its records are whole. */
static uint64_t first_number(const struct strata_ring_packet *packet)
{
	struct strata_ring_parsed head;
	struct sample sample;
	uint64_t offset = packet->header_bytes, first = 0, n;

	for (n = 0; offset < packet->content_bytes; n++) {
		if (!CHECK(strata_ring_sized_parse(packet->data + offset,
						   packet->content_bytes - offset, &head),
			   ==, 0) ||
		    !CHECK(sample_read(&sample, packet->data + offset + 16, head.payload_bytes), ==,
			   1))
			break;
		first = n ? first : sample.number;
		CHECK(sample.number, ==, first + n);
		offset += sample_slot_bytes(1, sample.number);
	}
	return first;
}

/* The scan has exactly the packets of records [@first, @next), in its direction. */
static void check_scan(struct fixture *f, uint64_t first, uint64_t next)
{
	struct strata_ring_packet packet;
	uint64_t n, number;

	for (n = 0; n < (next - first) / PER_PACKET; n++) {
		REQUIRE(strata_ring_scan_get(&f->scan, &packet), ==, 0);
		number = first_number(&packet);
		CHECK(number, ==,
		      f->scan.direction == STRATA_RING_OLDEST_FIRST ? first + PER_PACKET * n :
								      next - PER_PACKET * (n + 1));
		strata_ring_put_subbuf(&f->reader);
	}
	CHECK(strata_ring_scan_get(&f->scan, &packet), ==, -ENODATA);
	CHECK(strata_ring_scan_get(&f->scan, &packet), ==, -ENODATA);
}

static void packets_of(const struct strata_ring_config *config, uint64_t start, unsigned nr)
{
	struct fixture f = begin(config, start);
	struct strata_ring_packet packet;
	uint64_t first, read_count, n;
	int direction, again;

	packets(&f, nr);
	first = nr > COUNT ? f.next - PER_PACKET * COUNT : 0;
	/* A record that is not delivered does not belong to it. */
	if (nr < COUNT || config->loss_mode == STRATA_RING_OVERWRITE)
		CHECK(sample_record(config, &f.channel, 1, f.next), ==, 0);
	if (nr >= COUNT && config->loss_mode == STRATA_RING_OVERWRITE)
		first += PER_PACKET; /* it has opened the oldest packet's sub-buffer */
	read_count = f.s->shared->read_count;
	for (direction = 0; direction < 2; direction++) {
		strata_ring_scan_begin(&f.scan, &f.reader, (enum strata_ring_direction)direction);
		for (again = 0; again < 3; again++) {
			check_scan(&f, first, f.next);
			strata_ring_scan_rewind(&f.scan);
		}
	}
	CHECK(f.s->shared->read_count, ==, read_count);
	/* Scanning has consumed nothing. */
	for (n = first; n < f.next; n += PER_PACKET) {
		REQUIRE(strata_ring_get_next(&f.reader, &packet), ==, 0);
		read_count = first_number(&packet);
		CHECK(read_count, ==, n);
		strata_ring_put_next(&f.reader);
	}
	CHECK(strata_ring_get_next(&f.reader, &packet), ==, -EAGAIN);
	strata_ring_channel_close(&f.channel);
}

static void scan_in_either_direction_is_the_same_packets_each_time(void)
{
	unsigned nr;

	for (nr = 0; nr <= 3 * COUNT; nr++) {
		if (nr <= COUNT)
			packets_of(&sample_discard, 0, nr);
		packets_of(&sample_overwrite, 0, nr);
	}
}

static void wrap_scan_when_positions_pass_2_to_64_is_the_same_packets_each_time(void)
{
	unsigned nr;

	for (nr = 0; nr <= 3 * COUNT; nr++)
		packets_of(&sample_overwrite, 0 - (uint64_t)SUBBUF * COUNT, nr);
}

/* Copies have all records from @first on, the packet being filled included; oldest first, each in its order. */
static void check_copies(struct fixture *f, uint64_t first, uint64_t next)
{
	unsigned char copy[SUBBUF];
	struct strata_ring_packet packet;
	uint64_t before = first, n = 0, number, records;
	int error;

	while ((error = strata_ring_scan_copy(&f->scan, copy, sizeof(copy), &packet)) != -ENODATA) {
		if (!CHECK(error, ==, 0))
			return;
		number = first_number(&packet);
		records = next - number < PER_PACKET ? next - number : PER_PACKET;
		if (f->scan.whole)
			CHECK(packet.records, ==, PER_PACKET);
		if (f->scan.direction == STRATA_RING_OLDEST_FIRST)
			CHECK(number, ==, before);
		else
			CHECK(number + records + n, ==, next);
		before = number + records;
		n += records;
		CHECK(f->scan.overwritten_records, <=, number);
		if (number == first)
			CHECK(f->scan.overwritten_records, ==, first);
	}
	CHECK(n, ==, next - first);
}

static void scan_copy_in_either_direction_has_the_packet_being_filled_and_writes_nothing(void)
{
	static unsigned char before[1 << 16];
	unsigned nr, direction, again;

	for (nr = 0; nr <= 3 * COUNT; nr++) {
		struct fixture f = begin(&sample_overwrite, 0);
		uint64_t first = nr < COUNT ? 0 : f.next + PER_PACKET * (nr + 1 - COUNT);
		size_t bytes = strata_ring_layout(SUBBUF, COUNT).stride;

		packets(&f, nr);
		CHECK(sample_record(&sample_overwrite, &f.channel, 1, f.next++), ==, 0);
		REQUIRE(bytes <= sizeof(before), ==, 1);
		memcpy(before, f.s->shared, bytes);
		for (direction = 0; direction < 2; direction++) {
			strata_ring_scan_begin(&f.scan, &f.reader,
					       (enum strata_ring_direction)direction);
			for (again = 0; again < 2; again++) {
				check_copies(&f, first, f.next);
				strata_ring_scan_rewind(&f.scan);
			}
		}
		CHECK(memcmp(before, f.s->shared, bytes), ==, 0);
		strata_ring_channel_close(&f.channel);
	}
}

/* Packets that the writer reclaims behind the scan's back are not to be had; the others are. */
static void loss_scan_when_writer_goes_on_returns_eagain_for_what_is_gone(void)
{
	struct strata_ring_packet packet;
	unsigned more, n;
	int direction;

	for (direction = 0; direction < 2; direction++)
		for (more = 0; more <= COUNT + 2; more++) {
			struct fixture f = begin(&sample_overwrite, 0);
			unsigned got = 0, gone = 0;
			int error;

			packets(&f, COUNT);
			strata_ring_scan_begin(&f.scan, &f.reader,
					       (enum strata_ring_direction)direction);
			packets(&f, more);
			for (n = 0; n < COUNT; n++) {
				error = strata_ring_scan_get(&f.scan, &packet);
				got += !error;
				if (error) {
					CHECK(error, ==, -EAGAIN);
					gone++;
				}
				strata_ring_put_subbuf(&f.reader);
			}
			CHECK(strata_ring_scan_get(&f.scan, &packet), ==, -ENODATA);
			CHECK(gone, ==, more < COUNT ? more : COUNT);
			CHECK(got, ==, COUNT - gone);
			strata_ring_channel_close(&f.channel);
		}
}

/* A packet that the scan has while the writer passes is whole, and counted as overwritten after. */
static void loss_scan_when_writer_passes_a_packet_it_has_keeps_it_whole(void)
{
	struct fixture f = begin(&sample_overwrite, 0);
	struct strata_ring_counters c;
	struct strata_ring_packet packet;
	uint64_t first, n = 0;

	packets(&f, 3);
	strata_ring_scan_begin(&f.scan, &f.reader, STRATA_RING_NEWEST_FIRST);
	REQUIRE(strata_ring_scan_get(&f.scan, &packet), ==, 0);
	packets(&f, 2 * COUNT);
	first = first_number(&packet);
	CHECK(first, ==, 2 * PER_PACKET);
	strata_ring_put_subbuf(&f.reader);
	while (!strata_ring_get_next(&f.reader, &packet)) {
		n += packet.records;
		strata_ring_put_next(&f.reader);
	}
	strata_ring_read_counters(f.s, &c);
	CHECK(n, ==, COUNT * PER_PACKET);
	CHECK(c.written - c.overwritten_records, ==, n);
	strata_ring_channel_close(&f.channel);
}

static int stop;

static void *produce(void *argument)
{
	struct fixture *f = (struct fixture *)argument;

	test_pin(test_cpu);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		packets(f, 1);
	return NULL;
}

static void scan_while_the_producer_goes_on_has_whole_packets_in_order(void)
{
	struct fixture f = begin(&sample_overwrite, 0);
	uint64_t end = test_now_ns() + 300000000, limit = end + UINT64_C(60000000000), got = 0,
		 gone = 0, read = 0, now;
	struct strata_ring_counters c;
	struct strata_ring_packet packet;
	pthread_t thread;
	int cpus[2], error, direction = 0;

	if (test_cpus(cpus, 2) == 2)
		test_pin(cpus[1]);
	stop = 0;
	REQUIRE(pthread_create(&thread, NULL, produce, &f), ==, 0);
	while (((now = test_now_ns()) < end || (!got && now < limit)) && !test_failures) {
		uint64_t before = 0, first;

		direction = !direction;
		strata_ring_scan_begin(&f.scan, &f.reader, (enum strata_ring_direction)direction);
		while ((error = strata_ring_scan_get(&f.scan, &packet)) != -ENODATA) {
			if (error) {
				CHECK(error, ==, -EAGAIN);
				gone++;
				continue;
			}
			first = first_number(&packet);
			if (before)
				CHECK(first > before, ==, direction == STRATA_RING_OLDEST_FIRST);
			before = first + 1;
			got++;
			strata_ring_put_subbuf(&f.reader);
		}
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	test_pin(test_cpu);
	printf("      %" PRIu64 " packets, %" PRIu64 " came too late\n", got, gone);
	CHECK(got, >, 0);
	while (!strata_ring_get_next(&f.reader, &packet)) {
		read += packet.records;
		strata_ring_put_next(&f.reader);
	}
	/* Records that were overwritten while the scan had their packet are counted, too. */
	strata_ring_read_counters(f.s, &c);
	CHECK(c.written, ==, f.next);
	CHECK(c.written - c.overwritten_records, ==, read);
	strata_ring_channel_close(&f.channel);
}

/* Each packet where it lies is what a copy of it is; one whose memory a producer has taken is not held any more. */
static void scan_look_when_producer_comes_by_does_not_hold(void)
{
	struct fixture f = begin(&sample_overwrite, 0);
	struct strata_ring_packet packet;
	uint64_t n;

	packets(&f, COUNT / 2);
	strata_ring_scan_begin(&f.scan, &f.reader, STRATA_RING_OLDEST_FIRST);
	for (n = 0; n < COUNT / 2; n++) {
		REQUIRE(strata_ring_scan_look(&f.scan, &packet), ==, 0);
		CHECK(packet.position, ==, n * SUBBUF);
		CHECK(packet.records, ==, PER_PACKET);
		CHECK(first_number(&packet), ==, n * PER_PACKET);
		CHECK(strata_ring_scan_holds(&f.scan), ==, 1);
		/* Without passing on, the scan returns the same packet again. */
		CHECK(strata_ring_scan_look(&f.scan, &packet), ==, 0);
		CHECK(packet.position, ==, n * SUBBUF);
		strata_ring_scan_pass(&f.scan);
	}
	CHECK(strata_ring_scan_look(&f.scan, &packet), ==, -EAGAIN);
	strata_ring_scan_rewind(&f.scan);
	REQUIRE(strata_ring_scan_look(&f.scan, &packet), ==, 0);
	packets(&f, COUNT);
	CHECK(strata_ring_scan_holds(&f.scan), ==, 0);
	CHECK(strata_ring_scan_look(&f.scan, &packet), ==, -EAGAIN);
	strata_ring_scan_begin(&f.scan, &f.reader, STRATA_RING_NEWEST_FIRST);
	CHECK(strata_ring_scan_look(&f.scan, &packet), ==, -EAGAIN);
	strata_ring_channel_close(&f.channel);
}

static const struct test tests[] = {
	BOTH(scan_in_either_direction_is_the_same_packets_each_time),
	BOTH(wrap_scan_when_positions_pass_2_to_64_is_the_same_packets_each_time),
	BOTH(scan_copy_in_either_direction_has_the_packet_being_filled_and_writes_nothing),
	BOTH(loss_scan_when_writer_goes_on_returns_eagain_for_what_is_gone),
	BOTH(loss_scan_when_writer_passes_a_packet_it_has_keeps_it_whole),
	BOTH(scan_look_when_producer_comes_by_does_not_hold),
	BOTH(scan_while_the_producer_goes_on_has_whole_packets_in_order),
};
TEST_MAIN(tests)
