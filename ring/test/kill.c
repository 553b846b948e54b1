/* SPDX-License-Identifier: MIT */
/*
 * kill.c - a process that writes into a file is killed at a random moment: the file opens again and has
 * every record whose publication had returned, none twice and none torn.
 *
 * The child says in a shared page how far it has come, after each record. A record more than that may be
 * there, one less may not.
 */
#include <pthread.h>
#include <sys/wait.h>
#include "sample.h"

enum {
	SUBBUF = 4096,
	COUNT = 32,
	ROUNDS = 100,
	NUMBERS = 200000, /* at most, of each thread */
	MICROSECONDS = 1200
};

struct progress {
	uint64_t done[2];  /* of each thread: records 0..done-1 are published */
	uint64_t consumed; /* records 0..consumed-1 may be gone: the child's reader has them */
	uint64_t begun;
};

struct variant {
	const struct strata_ring_config *config;
	unsigned threads;
	int with_reader; /* the child reads as well, and dies perhaps with a packet in hand */
	int pinned;
};

static struct progress *progress; /* shared with the child */
static const struct variant *variant;
static struct strata_ring_channel channel;
static char path[64];

#define CONFIG(name, loss, writers, buffers) \
	SAMPLE_CONFIG(name, loss, writers, buffers, STRATA_RING_WAKE_NONE)

CONFIG(local_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_LOCAL, STRATA_RING_PER_CPU);
CONFIG(local_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_LOCAL, STRATA_RING_PER_CPU);
CONFIG(smp_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_SMP, STRATA_RING_GLOBAL);
CONFIG(smp_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_SMP, STRATA_RING_GLOBAL);

/* ---- the child ---- */

static void *write_until_killed(void *argument)
{
	uint32_t writer = (uint32_t)(uintptr_t)argument;
	uint64_t n = 0;

	while (n < NUMBERS) {
		if (sample_record(variant->config, &channel, writer, n)) {
			/* The buffer is full: what it holds must stay. */
			if (!variant->with_reader)
				break;
			continue;
		}
		__atomic_store_n(&progress->done[writer], ++n, __ATOMIC_RELEASE);
		__atomic_store_n(&progress->begun, 1, __ATOMIC_RELAXED);
	}
	for (;;)
		pause();
	return NULL;
}

static void *read_until_killed(void *argument)
{
	struct strata_ring_stream *s = sample_stream(&channel);
	struct strata_ring_packet packet;
	struct strata_ring_reader reader;
	struct strata_ring_parsed head;
	struct sample sample;
	uint64_t offset;

	(void)argument;
	if (strata_ring_reader_init(&reader, s))
		_exit(3);
	for (;;) {
		if (strata_ring_get_next(&reader, &packet))
			continue;
		offset = packet.header_bytes;
		while (offset < packet.content_bytes) {
			if (strata_ring_sized_parse(packet.data + offset,
						    packet.content_bytes - offset, &head) ||
			    !sample_read(&sample, packet.data + offset + 16, head.payload_bytes))
				_exit(3);
			offset += sample_slot_bytes(sample.writer, sample.number);
		}
		__atomic_store_n(&progress->consumed, sample.number + 1, __ATOMIC_RELEASE);
		strata_ring_put_next(&reader);
	}
	return NULL;
}

static void child(void)
{
	pthread_t thread;

	if (variant->pinned)
		test_pin(test_cpu);
	else
		sched_setaffinity(0, sizeof(test_allowed), &test_allowed);
	if (variant->threads == 2 &&
	    pthread_create(&thread, NULL, write_until_killed, (void *)(uintptr_t)1))
		_exit(2);
	if (variant->with_reader) {
		sched_setaffinity(0, sizeof(test_allowed), &test_allowed);
		if (pthread_create(&thread, NULL, read_until_killed, NULL))
			_exit(2);
		test_pin(test_cpu);
	}
	write_until_killed(NULL);
}

/* ---- the parent ---- */

static unsigned char seen[2][NUMBERS + 1];

struct found {
	uint64_t records;
	uint64_t bytes; /* of their slots */
	uint64_t unpublished;
	uint64_t low, high; /* numbers of writer 0 */
};

/* Read what is left, stream by stream. */
static void read_rest(struct found *found)
{
	const struct strata_ring_view *view;
	struct strata_ring_iterator it;
	struct sample sample;
	uint32_t i;

	memset(seen, 0, sizeof(seen));
	memset(found, 0, sizeof(*found));
	found->low = UINT64_MAX;
	for (i = 0; i < channel.streams.nr; i++) {
		uint64_t next[2] = { 0, 0 }, time = 0;

		if (!CHECK(strata_ring_iterator_init(&it, variant->config,
						     &channel.streams.stream[i], STRATA_RING_REST),
			   ==, 0))
			continue;
		while (!strata_ring_next(&it, &view)) {
			if (!CHECK(sample_read(&sample, view->payload, view->head.payload_bytes),
				   ==, 1) ||
			    !CHECK(sample.writer, <, variant->threads) ||
			    !CHECK(sample.number, <=, NUMBERS))
				continue;
			CHECK(seen[sample.writer][sample.number], ==, 0);
			seen[sample.writer][sample.number] = 1;
			CHECK(sample.number, >=, next[sample.writer]);
			next[sample.writer] = sample.number + 1;
			CHECK(view->head.timestamp, >=, time);
			time = view->head.timestamp;
			found->records++;
			found->bytes += sample_slot_bytes(sample.writer, sample.number);
			if (sample.writer)
				continue;
			found->low = sample.number < found->low ? sample.number : found->low;
			found->high = sample.number > found->high ? sample.number : found->high;
		}
		CHECK(it.damaged, ==, 0);
		found->unpublished += it.unpublished;
		strata_ring_iterator_end(&it);
	}
}

/* One thread, discard mode: nothing that was published is absent. */
static void check_all_there(void)
{
	uint64_t n;

	for (n = progress->consumed; n < progress->done[0]; n++)
		if (!CHECK(seen[0][n], ==, 1)) {
			fprintf(stderr, "number %" PRIu64 " of %" PRIu64 ", consumed %" PRIu64 "\n",
				n, progress->done[0], progress->consumed);
			break;
		}
}

/* One thread on one CPU, overwrite mode: the newest, without a hole, almost a buffer full of them. */
static void check_newest_there(const struct found *found)
{
	const uint64_t packet =
		SUBBUF - STRATA_ABI_RING_TAIL_BYTES - 2 * (uint64_t)SAMPLE_BYTES_MAX;
	uint64_t done = progress->done[0], n;

	if (!found->records) {
		CHECK(done, <=, progress->consumed);
		return;
	}
	CHECK(found->high + 1, >=, done);
	for (n = found->low; n <= found->high; n++)
		if (!CHECK(seen[0][n], ==, 1)) {
			fprintf(stderr,
				"number %" PRIu64 " from %" PRIu64 " to %" PRIu64 " of %" PRIu64
				"\n",
				n, found->low, found->high, done);
			break;
		}
	if (found->low > progress->consumed)
		CHECK(found->bytes, >=, (COUNT - 2) * packet);
}

/*
 * Two threads by commit: a slot that was never committed hides those behind it in its packet, and the
 * bytes say how many at most.
 */
static void check_absent_are_accounted(const struct found *found)
{
	const uint64_t packet =
		SUBBUF - STRATA_ABI_RING_TAIL_BYTES - 2 * (uint64_t)SAMPLE_BYTES_MAX;
	uint64_t written = 0, absent = 0, n;
	uint32_t i;

	for (i = 0; i < 2; i++)
		for (n = 0; n < progress->done[i]; n++) {
			written += sample_slot_bytes(i, n);
			if (!seen[i][n])
				absent += sample_slot_bytes(i, n);
		}
	if (variant->config->loss_mode == STRATA_RING_DISCARD || written < (COUNT - 2) * packet)
		CHECK(absent, <=, found->unpublished);
	else
		CHECK(found->bytes + found->unpublished, >=, (COUNT - 2) * packet);
}

static int one_round(void)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);
	uint64_t begin, delay;
	struct found found;
	int status, fd;
	pid_t pid;

	attr.memory = STRATA_RING_FILE;
	attr.path = path;
	channel = sample_create(variant->config, &attr);
	memset(progress, 0, sizeof(*progress));
	pid = fork();
	if (!pid)
		child();
	strata_ring_channel_close(&channel);
	if (!CHECK(pid, >, 0))
		return 0;
	begin = test_now_ns();
	while (!__atomic_load_n(&progress->begun, __ATOMIC_RELAXED) &&
	       test_now_ns() - begin < UINT64_C(20000000000))
		sched_yield();
	delay = test_random(MICROSECONDS * 1000);
	begin = test_now_ns();
	while (test_now_ns() - begin < delay)
		;
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &status, 0), ==, pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, ==, 1);

	fd = open(path, O_RDWR | O_CLOEXEC);
	if (!CHECK(fd, >=, 0) || !CHECK(strata_ring_channel_open(fd, 0, &channel, NULL), ==, 0))
		return 0;
	close(fd);
	read_rest(&found);
	if (variant->threads == 2)
		check_absent_are_accounted(&found);
	else if (variant->config->loss_mode == STRATA_RING_DISCARD)
		check_all_there();
	else
		check_newest_there(&found);
	strata_ring_channel_close(&channel);
	unlink(path);
	return !test_failures;
}

static void rounds(const struct strata_ring_config *config, unsigned threads, int with_reader,
		   int pinned)
{
	const struct variant this = { config, threads, with_reader, pinned };
	char folder[] = "/tmp/strata-kill-XXXXXX";
	uint64_t end = test_now_ns() + UINT64_C(800000000), records = 0;
	int cpus[2], round;

	variant = &this;
	progress = (struct progress *)mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(progress != MAP_FAILED, ==, 1);
	REQUIRE(mkdtemp(folder) != NULL, ==, 1);
	snprintf(path, sizeof(path), "%s/ring", folder);
	for (round = 0; round < ROUNDS && (round < 3 || test_now_ns() < end); round++) {
		/* The killer elsewhere, so that the child runs until then. */
		if (test_cpus(cpus, 2) == 2)
			test_pin(cpus[1]);
		if (!one_round())
			break;
		records += progress->done[0] + progress->done[1];
	}
	test_pin(test_cpu);
	printf("      %d rounds, %" PRIu64 " records in each\n", round,
	       records / (uint64_t)(round ? round : 1));
	unlink(path);
	rmdir(folder);
	munmap(progress, 4096);
}

static void kill_per_cpu_discard_has_every_published_record(void)
{
	rounds(&sample_discard, 1, 0, 0);
}

static void kill_per_cpu_overwrite_has_the_newest_records(void)
{
	rounds(&sample_overwrite, 1, 0, 1);
}

static void kill_with_a_reader_has_every_record_that_it_has_not_consumed(void)
{
	rounds(&sample_discard, 1, 1, 1);
	rounds(&sample_overwrite, 1, 1, 1);
}

static void kill_local_has_every_published_record(void)
{
	rounds(&local_discard, 1, 0, 1);
	rounds(&local_overwrite, 1, 0, 1);
}

static void kill_smp_discard_has_all_but_what_an_open_slot_hides(void)
{
	rounds(&smp_discard, 2, 0, 0);
}

static void kill_smp_overwrite_has_the_newest_but_what_an_open_slot_hides(void)
{
	rounds(&smp_overwrite, 2, 0, 0);
}

static const struct test tests[] = {
	BOTH(kill_per_cpu_discard_has_every_published_record),
	BOTH(kill_per_cpu_overwrite_has_the_newest_records),
	BOTH(kill_with_a_reader_has_every_record_that_it_has_not_consumed),
	ONCE(kill_local_has_every_published_record),
	ONCE(kill_smp_discard_has_all_but_what_an_open_slot_hides),
	ONCE(kill_smp_overwrite_has_the_newest_but_what_an_open_slot_hides),
};
TEST_MAIN(tests)
