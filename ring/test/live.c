/* SPDX-License-Identifier: MIT */
/*
 * live.c - the committed prefix of the packet that is still being filled, seen without disturbing it.
 */
#include <pthread.h>
#include "sample.h"

enum {
	SUBBUF = 1024,
	COUNT = 4,
	HEADER = 8
};

static struct strata_ring_channel create(const struct strata_ring_config *config)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);

	attr.header_bytes = HEADER;
	return sample_create(config, &attr);
}

static uint64_t packet_position(const struct strata_ring_stream *s)
{
	return strata_ring_begin(s, strata_load_relaxed(&s->shared->write_count));
}

/* Every record in the packet is whole and one more than the one before. Returns how many there are. */
static uint64_t check_records(const struct strata_ring_packet *packet, uint64_t first)
{
	uint64_t offset = packet->header_bytes, time = packet->timestamp_begin, n = 0;
	struct strata_ring_parsed head;
	struct sample sample;

	while (offset < packet->content_bytes) {
		if (!CHECK(strata_ring_sized_parse(packet->data + offset,
						   packet->content_bytes - offset, &head),
			   ==, 0) ||
		    !CHECK(sample_read(&sample, packet->data + offset + 16, head.payload_bytes), ==,
			   1))
			break;
		if (first != UINT64_MAX || n)
			CHECK(sample.number, ==, first + n);
		else
			first = sample.number;
		CHECK(head.timestamp, >=, time);
		time = head.timestamp;
		offset += sample_slot_bytes(sample.writer, sample.number);
		n++;
	}
	CHECK(offset, ==, packet->content_bytes);
	if (packet->timestamp_end)
		CHECK(packet->timestamp_end, >=, time);
	return n;
}

static void available_grows_with_each_record_and_changes_no_shared_byte(void)
{
	struct strata_ring_channel channel = create(&sample_discard);
	struct strata_ring_stream *s = sample_stream(&channel);
	unsigned char *before = malloc((size_t)channel.header.total_bytes), copy[SUBBUF];
	struct strata_ring_packet packet, copied;
	struct strata_ring_reader reader;
	uint64_t bytes = HEADER, i, n;

	REQUIRE(before != NULL, ==, 1);
	REQUIRE(strata_ring_reader_init(&reader, s), ==, 0);
	CHECK(strata_ring_get_available(&reader, &packet), ==, -EAGAIN);
	CHECK(strata_ring_copy_available(&reader, 0, copy, sizeof(copy), &copied), ==, -EAGAIN);
	for (i = 0; i < 8; i++) {
		CHECK(sample_record(&sample_discard, &channel, 1, i), ==, 0);
		bytes += sample_slot_bytes(1, i);
		memcpy(before, channel.memory, (size_t)channel.header.total_bytes);
		CHECK(strata_ring_available(s, 0), ==, bytes);
		REQUIRE(strata_ring_get_available(&reader, &packet), ==, 0);
		CHECK(packet.position, ==, 0);
		CHECK(packet.header_bytes, ==, HEADER);
		CHECK(packet.content_bytes, ==, bytes);
		n = check_records(&packet, 0);
		CHECK(n, ==, i + 1);
		REQUIRE(strata_ring_copy_available(&reader, 0, copy, sizeof(copy), &copied), ==, 0);
		CHECK(copied.data == copy, ==, 1);
		CHECK(copied.content_bytes, ==, bytes);
		CHECK(copied.timestamp_begin, ==, packet.timestamp_begin);
		CHECK(memcmp(copy + HEADER, packet.data + HEADER, bytes - HEADER), ==, 0);
		CHECK(strata_ring_copy_available(&reader, 0, copy, bytes - 1, &copied), ==,
		      -ENOSPC);
		CHECK(memcmp(before, channel.memory, (size_t)channel.header.total_bytes), ==, 0);
	}
	/* A delivered packet is got, not looked at. */
	strata_ring_flush_current(&sample_discard, &channel);
	CHECK(strata_ring_get_available(&reader, &packet), ==, -EAGAIN);
	CHECK(strata_ring_copy_available(&reader, 0, copy, sizeof(copy), &copied), ==, -EAGAIN);
	free(before);
	strata_ring_channel_close(&channel);
}

static void copy_available_in_overwrite_mode_grows_and_changes_no_shared_byte(void)
{
	struct strata_ring_channel channel = create(&sample_overwrite);
	struct strata_ring_stream *s = sample_stream(&channel);
	unsigned char *before = malloc((size_t)channel.header.total_bytes), copy[SUBBUF];
	struct strata_ring_packet packet;
	struct strata_ring_reader reader;
	uint64_t i, n;

	REQUIRE(before != NULL, ==, 1);
	REQUIRE(strata_ring_reader_init(&reader, s), ==, 0);
	for (i = 0; i < 300; i++) {
		uint64_t position;

		CHECK(sample_record(&sample_overwrite, &channel, 1, i), ==, 0);
		position = packet_position(s);
		memcpy(before, channel.memory, (size_t)channel.header.total_bytes);
		CHECK(strata_ring_get_available(&reader, &packet), ==, -EINVAL);
		REQUIRE(strata_ring_copy_available(&reader, position, copy, sizeof(copy), &packet),
			==, 0);
		CHECK(packet.position, ==, position);
		n = check_records(&packet, UINT64_MAX);
		CHECK(n, >, 0);
		/* Positions that are not being filled. */
		CHECK(strata_ring_copy_available(&reader, position - SUBBUF, copy, sizeof(copy),
						 &packet),
		      ==, -EAGAIN);
		CHECK(strata_ring_copy_available(&reader, position + SUBBUF, copy, sizeof(copy),
						 &packet),
		      ==, -EAGAIN);
		CHECK(memcmp(before, channel.memory, (size_t)channel.header.total_bytes), ==, 0);
	}
	free(before);
	strata_ring_channel_close(&channel);
}

static void available_when_slot_is_open_ends_before_it(void)
{
	const struct strata_ring_event event = { 1, 24, 0 };
	struct strata_ring_slot first, second;
	struct strata_ring_channel channel = create(&sample_discard);
	struct strata_ring_stream *s = sample_stream(&channel);
	const uint64_t payload[3] = { 1, 2, 3 };

	REQUIRE(strata_ring_reserve(&sample_discard, s, &event, &first), ==, 0);
	CHECK(strata_ring_available(s, 0), ==, 0);
	strata_ring_write(&first, payload, 24);
	strata_ring_commit(&sample_discard, &first);
	CHECK(strata_ring_available(s, 0), ==, HEADER + 40);
	REQUIRE(strata_ring_reserve(&sample_discard, s, &event, &first), ==, 0);
	REQUIRE(strata_ring_reserve(&sample_discard, s, &event, &second), ==, 0);
	strata_ring_write(&second, payload, 24);
	strata_ring_commit(&sample_discard, &second);
	CHECK(strata_ring_available(s, 0), ==, HEADER + 40);
	strata_ring_write(&first, payload, 24);
	strata_ring_commit(&sample_discard, &first);
	CHECK(strata_ring_available(s, 0), ==, HEADER + 3 * 40);
	strata_ring_channel_close(&channel);
}

/* ---- while a producer goes on ---- */

enum {
	/* More records than the ring has room for, at times. */
	BURST = 64,
	/* So many looks and copies that saw something new; on a machine too slow for that, so few. */
	ENOUGH = 4000,
	FEW = 40
};

/*
 * The time after which the machine is too slow, and the limit for the few checks that are done
 * then.
 */
static const uint64_t SLOW_NS = UINT64_C(30000000000), LIMIT_NS = UINT64_C(60000000000);

struct producer {
	const struct strata_ring_config *config;
	struct strata_ring_channel *channel;
	uint64_t rounds; /* of the reader */
	int stop;
};

/*
 * At most one burst in each round of the reader: on a busy machine, or with one CPU, the ring would be full
 * whenever the reader has its turn, and no packet would be there that is still being filled.
 */
static void *produce(void *argument)
{
	struct producer *p = (struct producer *)argument;
	uint64_t n = 0, burst, round, state = test_seed;

	test_pin(test_cpu);
	while (!__atomic_load_n(&p->stop, __ATOMIC_RELAXED)) {
		round = __atomic_load_n(&p->rounds, __ATOMIC_RELAXED);
		for (burst = 1 + (test_random_from(&state) >> 11) % BURST; burst; burst--)
			if (!sample_record(p->config, p->channel, 1, n))
				n++;
		while (__atomic_load_n(&p->rounds, __ATOMIC_RELAXED) == round &&
		       !__atomic_load_n(&p->stop, __ATOMIC_RELAXED))
			sched_yield();
	}
	return NULL;
}

/* Is this another prefix than the one that was seen last? */
static int is_new(const struct strata_ring_packet *packet, uint64_t *seen)
{
	uint64_t end = packet->position + packet->content_bytes;
	int new = end != *seen;

	*seen = end;
	return new;
}

static void look_while_a_producer_runs(const struct strata_ring_config *config)
{
	struct strata_ring_channel channel = create(config);
	struct strata_ring_stream *s = sample_stream(&channel);
	struct producer producer = { config, &channel, 0, 0 };
	const int has_looks = config == &sample_discard;
	uint64_t looks = 0, copies = 0, gone = 0, looked = 0, copied = 0, written = 0, before;
	uint64_t begin = test_now_ns(), passed = 0, wanted = ENOUGH;
	unsigned char copy[SUBBUF];
	struct strata_ring_packet packet;
	struct strata_ring_reader reader;
	pthread_t thread;
	int cpus[2], error;

	REQUIRE(strata_ring_reader_init(&reader, s), ==, 0);
	if (test_cpus(cpus, 2) == 2)
		test_pin(cpus[1]);
	REQUIRE(pthread_create(&thread, NULL, produce, &producer), ==, 0);
	while (((has_looks && looks < wanted) || copies < wanted) && passed < LIMIT_NS &&
	       !test_failures) {
		before = written;
		written = strata_load_relaxed(&s->shared->write_count);
		__atomic_fetch_add(&producer.rounds, 1, __ATOMIC_RELAXED);
		/* On a machine with one CPU, the producer gets no other turn. */
		if (written == before)
			sched_yield();
		error = strata_ring_copy_available(&reader, packet_position(s), copy, sizeof(copy),
						   &packet);
		if (!error) {
			copies += (uint64_t)is_new(&packet, &copied);
			check_records(&packet, UINT64_MAX);
		} else {
			CHECK(error, ==, -EAGAIN);
			gone++;
		}
		if (!strata_ring_get_available(&reader, &packet)) {
			looks += (uint64_t)is_new(&packet, &looked);
			check_records(&packet, UINT64_MAX);
		}
		/* Everything that is delivered: what follows is being filled. */
		if (!test_random(8))
			while (!strata_ring_get_next(&reader, &packet)) {
				check_records(&packet, UINT64_MAX);
				strata_ring_put_next(&reader);
			}
		passed = test_now_ns() - begin;
		wanted = (uint64_t)(passed < SLOW_NS ? ENOUGH : FEW);
	}
	__atomic_store_n(&producer.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	test_pin(test_cpu);
	printf("      %" PRIu64 " looks, %" PRIu64 " copies, %" PRIu64 " came too late\n", looks,
	       copies, gone);
	CHECK(looks, >=, has_looks ? FEW : 0);
	CHECK(copies, >=, FEW);
	strata_ring_channel_close(&channel);
}

static void available_while_the_producer_goes_on_has_whole_records_only(void)
{
	look_while_a_producer_runs(&sample_discard);
	look_while_a_producer_runs(&sample_overwrite);
}

static const struct test tests[] = {
	BOTH(available_grows_with_each_record_and_changes_no_shared_byte),
	BOTH(copy_available_in_overwrite_mode_grows_and_changes_no_shared_byte),
	ONCE(available_when_slot_is_open_ends_before_it),
	BOTH(available_while_the_producer_goes_on_has_whole_records_only),
};
TEST_MAIN(tests)
