/* SPDX-License-Identifier: MIT */
/*
 * client.c - a client made by STRATA_RING_CLIENT(): each of its functions on its own channel, and another
 * client's channel refused where only the memory tells. That types differ: ring/test/linking.sh.
 */
#include <strata/ring/client.h>

#include "test.h"

STRATA_RING_CLIENT(plain_ring, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ, STRATA_RING_PER_CPU,
		   STRATA_RING_WAKE_NONE, 8, strata_clock_monotonic_ns, STRATA_RING_HEADER_SIZED,
		   NULL);
STRATA_RING_CLIENT(other_ring, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_RSEQ, STRATA_RING_PER_CPU,
		   STRATA_RING_WAKE_NONE, 8, strata_clock_monotonic_ns, STRATA_RING_HEADER_SIZED,
		   NULL);
STRATA_RING_CLIENT(local_ring, STRATA_RING_DISCARD, STRATA_RING_WRITERS_LOCAL, STRATA_RING_PER_CPU,
		   STRATA_RING_WAKE_NONE, 8, strata_clock_monotonic_ns, STRATA_RING_HEADER_SIZED,
		   NULL);

/* Records of the packets that @reader gets. */
static uint64_t drain(struct strata_ring_reader *reader)
{
	struct strata_ring_packet packet;
	uint64_t records = 0;

	while (!strata_ring_get_next(reader, &packet)) {
		records += packet.records;
		strata_ring_put_next(reader);
	}
	return records;
}

static void client_records_and_reads_back(void)
{
	const struct strata_ring_event event = { 2, 3, 1 };
	const struct strata_ring_view *view;
	struct strata_ring_iterator it;
	struct strata_ring_reader reader;
	struct strata_ring_merge merge;
	struct strata_ring_attr attr = test_attr(4096, 4);
	struct plain_ring ring;

	if (!CHECK(plain_ring_create(&ring, &attr, NULL), ==, 0))
		return;
	CHECK(plain_ring_record(&ring, 1, "one", 3), ==, 0);
	CHECK(plain_ring_record_event(&ring, &event, "two"), ==, 0);
	if (CHECK(plain_ring_merge_init(&merge, &ring, STRATA_RING_REST), ==, 0)) {
		CHECK(strata_ring_merge_next(&merge, &view), ==, 0);
		CHECK(view->head.id, ==, 1);
		CHECK(memcmp(view->payload, "one", 3), ==, 0);
		CHECK(strata_ring_merge_next(&merge, &view), ==, 0);
		CHECK(view->head.id, ==, 2);
		CHECK(strata_ring_merge_next(&merge, &view), ==, -ENODATA);
		strata_ring_merge_end(&merge);
	}
	plain_ring_flush(&ring);
	CHECK(plain_ring_iterator_init(&it, &ring, test_cpu, STRATA_RING_SCAN), ==, 0);
	CHECK(strata_ring_next(&it, &view), ==, 0);
	CHECK(view->head.payload_bytes, ==, 3);
	strata_ring_iterator_end(&it);
	CHECK(plain_ring_reader_init(&reader, &ring, test_cpu), ==, 0);
	CHECK(drain(&reader), ==, 2);
	plain_ring_close(&ring);
}

static void client_when_cpu_is_not_in_the_channel_returns_einval(void)
{
	struct strata_ring_iterator it;
	struct strata_ring_reader reader;
	struct strata_ring_attr attr = test_attr(4096, 4);
	struct plain_ring ring;
	int nr;

	if (!CHECK(plain_ring_create(&ring, &attr, NULL), ==, 0))
		return;
	nr = (int)ring.channel.streams.nr;
	CHECK(plain_ring_reader_init(&reader, &ring, nr), ==, -EINVAL);
	CHECK(plain_ring_reader_init(&reader, &ring, -1), ==, -EINVAL);
	CHECK(plain_ring_iterator_init(&it, &ring, nr, STRATA_RING_REST), ==, -EINVAL);
	CHECK(plain_ring_reader_init(&reader, &ring, nr - 1), ==, 0);
	plain_ring_close(&ring);
}

static void client_slot_is_committed_or_cancelled(void)
{
	const struct strata_ring_event event = { 1, 4, 0 };
	struct strata_ring_counters counters;
	struct strata_ring_attr attr = test_attr(4096, 4);
	struct local_ring_slot slot;
	struct local_ring ring;

	if (!CHECK(local_ring_create(&ring, &attr, NULL), ==, 0))
		return;
	if (!CHECK(local_ring_reserve(&ring, &event, &slot), ==, 0))
		return;
	local_ring_write(&slot, "four", 4);
	local_ring_commit(&slot);
	if (!CHECK(local_ring_reserve(&ring, &event, &slot), ==, 0))
		return;
	CHECK(local_ring_cancel(&slot), ==, 0);
	strata_ring_read_counters(slot.slot.stream, &counters);
	CHECK(counters.written, ==, 1);
	local_ring_close(&ring);
}

/* By write position, a reader would take a reserved slot for a record, whatever it holds. */
static void client_reserves_by_commit_only(void)
{
	const struct strata_ring_event event = { 1, 4, 0 };
	struct strata_ring_attr attr = test_attr(4096, 4);
	struct plain_ring_slot slot;
	struct plain_ring ring;
	uint64_t before;

	if (!CHECK(plain_ring_create(&ring, &attr, NULL), ==, 0))
		return;
	before = ring.channel.streams.stream[test_cpu].shared->write_count;
	if (test_by_position) {
		CHECK(plain_ring_reserve(&ring, &event, &slot), ==, -EOPNOTSUPP);
		CHECK(ring.channel.streams.stream[test_cpu].shared->write_count, ==, before);
	} else if (CHECK(plain_ring_reserve(&ring, &event, &slot), ==, 0)) {
		plain_ring_write(&slot, "four", 4);
		plain_ring_commit(&slot);
		CHECK(ring.channel.streams.stream[test_cpu].shared->write_count, >, before);
	}
	plain_ring_close(&ring);
}

static void open_when_channel_is_another_clients_is_refused_and_leaves_nothing(void)
{
	struct strata_ring_error error = { "" };
	struct strata_ring_attr attr = test_attr(4096, 4);
	struct plain_ring ring, same;
	struct other_ring other;

	attr.memory = STRATA_RING_MEMFD;
	if (!CHECK(plain_ring_create(&ring, &attr, NULL), ==, 0))
		return;
	CHECK(other_ring_open(&other, ring.channel.fd, 1, &error), ==, -EINVAL);
	CHECK(strstr(error.text, "loss mode 0") != NULL, ==, 1);
	CHECK(other.channel.fd, ==, -1);
	CHECK(other.channel.memory == NULL, ==, 1);
	if (CHECK(plain_ring_open(&same, ring.channel.fd, 1, &error), ==, 0)) {
		CHECK(plain_ring_record(&same, 1, "four", 4), ==, 0);
		plain_ring_close(&same);
	}
	CHECK(plain_ring_open(&same, -1, 0, &error), ==, -EBADF);
	plain_ring_close(&ring);
}

static const struct test tests[] = {
	BOTH(client_records_and_reads_back),
	ONCE(client_when_cpu_is_not_in_the_channel_returns_einval),
	ONCE(client_slot_is_committed_or_cancelled),
	BOTH(client_reserves_by_commit_only),
	BOTH(open_when_channel_is_another_clients_is_refused_and_leaves_nothing),
};

TEST_MAIN(tests)
