/* SPDX-License-Identifier: MIT */
/*
 * memory.c - the kinds of memory: anonymous shared with a child, a memfd opened by another process, a
 * file that is opened again.
 */
#include <sys/wait.h>
#include "sample.h"

enum {
	SUBBUF = 512,
	COUNT = 8
};

/* Records first..next-1, in order, are what dead producers (or living ones) have left. */
static void check_rest(const struct strata_ring_config *config, struct strata_ring_channel *channel,
		       uint64_t first, uint64_t next)
{
	const struct strata_ring_view *view;
	struct strata_ring_merge merge;
	struct sample sample;

	REQUIRE(strata_ring_merge_init(&merge, config, channel, STRATA_RING_REST), ==, 0);
	for (; first < next; first++) {
		REQUIRE(strata_ring_merge_next(&merge, &view), ==, 0);
		CHECK(sample_read(&sample, view->payload, view->head.payload_bytes), ==, 1);
		CHECK(sample.number, ==, first);
	}
	CHECK(strata_ring_merge_next(&merge, &view), ==, -ENODATA);
	strata_ring_merge_end(&merge);
}

static void record_all(const struct strata_ring_config *config, struct strata_ring_channel *channel,
		       uint64_t first, uint64_t next)
{
	for (; first < next; first++)
		CHECK(sample_record(config, channel, 1, first), ==, 0);
}

/* Runs @child in a process of its own. */
static void in_a_child(void (*child)(const struct strata_ring_config *config,
				     struct strata_ring_channel *channel),
		       const struct strata_ring_config *config, struct strata_ring_channel *channel)
{
	int status = -1;
	pid_t pid = fork();

	REQUIRE(pid, >=, 0);
	if (!pid) {
		child(config, channel);
		_exit(test_failures != 0);
	}
	CHECK(waitpid(pid, &status, 0), ==, pid);
	CHECK(status, ==, 0);
}

static void child_goes_on(const struct strata_ring_config *config,
			  struct strata_ring_channel *channel)
{
	check_rest(config, channel, 0, 10);
	record_all(config, channel, 10, 20);
}

/* Opens the channel from its descriptor alone, as if received through a socket. */
static void child_opens(const struct strata_ring_config *config,
			struct strata_ring_channel *channel)
{
	struct strata_ring_channel opened;
	int fd = dup(channel->fd);

	strata_ring_channel_close(channel);
	REQUIRE(strata_ring_channel_open(fd, 1, &opened, NULL), ==, 0);
	close(fd);
	child_goes_on(config, &opened);
	strata_ring_channel_close(&opened);
}

static void shared(const struct strata_ring_config *config, enum strata_ring_memory memory)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);
	struct strata_ring_channel channel;

	attr.memory = memory;
	channel = sample_create(config, &attr);
	record_all(config, &channel, 0, 10);
	in_a_child(memory == STRATA_RING_MEMFD ? child_opens : child_goes_on, config, &channel);
	check_rest(config, &channel, 0, 20);
	record_all(config, &channel, 20, 25);
	check_rest(config, &channel, 0, 25);
	strata_ring_channel_close(&channel);
}

static void memory_anonymous_is_shared_with_a_child(void)
{
	shared(&sample_discard, STRATA_RING_ANONYMOUS);
	shared(&sample_overwrite, STRATA_RING_ANONYMOUS);
}

static void memory_memfd_is_shared_with_whoever_opens_it(void)
{
	shared(&sample_discard, STRATA_RING_MEMFD);
	shared(&sample_overwrite, STRATA_RING_MEMFD);
}

static void reopen(const struct strata_ring_config *config)
{
	char folder[] = "/tmp/strata-memory-XXXXXX", path[64];
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);
	struct strata_ring_channel channel;
	struct strata_ring_packet packet;
	struct strata_ring_reader reader;
	struct stat status;
	uint64_t n;
	int fd;

	REQUIRE(mkdtemp(folder) != NULL, ==, 1);
	snprintf(path, sizeof(path), "%s/ring", folder);
	attr.memory = STRATA_RING_FILE;
	attr.path = path;
	channel = sample_create(config, &attr);
	record_all(config, &channel, 0, 10);
	/* All of it is there from the begin: a full disk is no surprise for a producer. */
	CHECK(fstat(channel.fd, &status), ==, 0);
	CHECK(status.st_size, ==, channel.header.total_bytes);
	CHECK(status.st_blocks * 512, >=, channel.header.total_bytes);
	CHECK(status.st_mode & 0777, ==, 0600);
	strata_ring_channel_close(&channel);
	CHECK(channel.fd, ==, -1);
	CHECK(channel.memory == NULL, ==, 1);

	for (n = 1; n <= 3; n++) {
		fd = open(path, O_RDWR | O_CLOEXEC);
		REQUIRE(fd, >=, 0);
		REQUIRE(strata_ring_channel_open(fd, 0, &channel, NULL), ==, 0);
		close(fd);
		CHECK(channel.header.loss_mode, ==, config->loss_mode);
		check_rest(config, &channel, 0, 10 * n);
		/* The channel works like any other. */
		record_all(config, &channel, 10 * n, 10 * n + 10);
		check_rest(config, &channel, 0, 10 * n + 10);
		strata_ring_channel_close(&channel);
	}
	/* Packets that one reader has consumed are gone for the next. */
	fd = open(path, O_RDWR | O_CLOEXEC);
	REQUIRE(strata_ring_channel_open(fd, 0, &channel, NULL), ==, 0);
	REQUIRE(strata_ring_reader_init(&reader, sample_stream(&channel)), ==, 0);
	REQUIRE(strata_ring_get_next(&reader, &packet), ==, 0);
	n = packet.records;
	strata_ring_put_next(&reader);
	strata_ring_channel_close(&channel);
	REQUIRE(strata_ring_channel_open(fd, 0, &channel, NULL), ==, 0);
	check_rest(config, &channel, n, 40);
	strata_ring_channel_close(&channel);
	close(fd);
	unlink(path);
	rmdir(folder);
}

static void memory_file_has_all_records_when_opened_again(void)
{
	reopen(&sample_discard);
	reopen(&sample_overwrite);
}

/* Streams that nobody writes to cost addresses, not memory. */
static void memory_of_a_stream_without_records_is_not_touched(void)
{
	struct strata_ring_attr attr = test_attr(1 << 20, 16);
	struct strata_ring_channel channel;
	unsigned char resident[64];
	uint64_t i, pages = 0;

	attr.nr_cpus = 64;
	channel = sample_create(&sample_discard, &attr);
	for (i = 0; i < 64; i++) {
		if (mincore(channel.streams.stream[i].data, 64 * 4096, resident)) {
			/* Some emulators do not have it. */
			CHECK(errno, ==, ENOSYS);
			break;
		}
		pages += resident[0] & 1;
	}
	CHECK(pages, ==, 0);
	strata_ring_channel_close(&channel);
}

static const struct test tests[] = {
	BOTH(memory_anonymous_is_shared_with_a_child),
	BOTH(memory_memfd_is_shared_with_whoever_opens_it),
	BOTH(memory_file_has_all_records_when_opened_again),
	BOTH(memory_of_a_stream_without_records_is_not_touched),
};
TEST_MAIN(tests)
