/* SPDX-License-Identifier: MIT */
/*
 * open.c - strata_ring_channel_open() on memory that somebody else has made, or spoilt.
 */
#include <sys/syscall.h>
#include "sample.h"

enum {
	SUBBUF = 256,
	COUNT = 4
};

/* Two, or more where main() runs on another CPU than the first two: its records are in that CPU's stream. */
static uint32_t nr_streams(void)
{
	return test_cpu < 2 ? 2 : (uint32_t)test_cpu + 1;
}

/* A good channel in a memfd, with a few records; its header is copied to @header. */
static struct strata_ring_channel good(struct strata_abi_ring_channel *header)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);
	struct strata_ring_channel channel;
	uint64_t i;

	SAMPLE_CONFIG(local, STRATA_RING_DISCARD, STRATA_RING_WRITERS_LOCAL, STRATA_RING_PER_CPU,
		      STRATA_RING_WAKE_NONE);
	attr.memory = STRATA_RING_MEMFD;
	attr.nr_cpus = nr_streams();
	attr.header_bytes = 8;
	channel = sample_create(&local, &attr);
	for (i = 0; i < 6; i++)
		sample_record(&local, &channel, 0, i);
	*header = channel.header;
	return channel;
}

static int open_with(const struct strata_ring_channel *channel,
		     const struct strata_abi_ring_channel *header, struct strata_ring_error *error)
{
	struct strata_ring_channel opened;
	int code;

	memset(&opened, 0xa5, sizeof(opened));
	memcpy(channel->memory, header, sizeof(*header));
	code = strata_ring_channel_open(channel->fd, 1, &opened, error);
	if (!code) {
		strata_ring_channel_close(&opened);
	} else {
		CHECK(opened.memory == NULL, ==, 1);
		CHECK(opened.fd, ==, -1);
		CHECK(opened.streams.stream == NULL, ==, 1);
	}
	return code;
}

static void open_when_channel_is_good_has_its_sizes_and_records(void)
{
	struct strata_abi_ring_channel header;
	struct strata_ring_channel channel = good(&header), opened;
	struct strata_ring_error error;
	struct strata_ring_counters counters;

	REQUIRE(strata_ring_channel_open(channel.fd, 1, &opened, &error), ==, 0);
	CHECK(opened.fd, !=, channel.fd);
	CHECK(memcmp(&opened.header, &header, sizeof(header)), ==, 0);
	CHECK(opened.streams.nr, ==, nr_streams());
	CHECK(opened.streams.stream[0].subbuf_bytes, ==, SUBBUF);
	CHECK(opened.streams.stream[0].nr_subbufs, ==, COUNT);
	CHECK(opened.streams.stream[1].header_bytes, ==, 8);
	CHECK(opened.streams.stream[1].cpu, ==, 1);
	strata_ring_read_counters(sample_stream(&opened), &counters);
	CHECK(counters.written, ==, 6);
	/* The file descriptor was duplicated. */
	strata_ring_channel_close(&channel);
	CHECK(*(const uint64_t *)opened.memory, ==, STRATA_ABI_RING_MAGIC);
	strata_ring_channel_close(&opened);
}

static void open_when_magic_is_wrong_returns_eproto_with_both_numbers(void)
{
	struct strata_abi_ring_channel header;
	struct strata_ring_channel channel = good(&header);
	struct strata_ring_error error;

	header.magic = 1;
	CHECK(open_with(&channel, &header, &error), ==, -EPROTO);
	CHECK_TEXT(error.text,
		   "channel: magic number is 0x0000000000000001, not 0x53545241544152ff");
	header.magic = 0;
	CHECK(open_with(&channel, &header, NULL), ==, -EPROTO);
	header.magic = __builtin_bswap64(STRATA_ABI_RING_MAGIC);
	CHECK(open_with(&channel, &header, &error), ==, -EPROTO);
	CHECK_TEXT(
		error.text,
		"channel: magic number is 0xff52415441525453, not 0x53545241544152ff (other byte order)");
	strata_ring_channel_close(&channel);
}

static void open_when_version_is_wrong_returns_eproto_with_both_versions(void)
{
	struct strata_abi_ring_channel header;
	struct strata_ring_channel channel = good(&header);
	struct strata_ring_error error;

	header.version = 7;
	CHECK(open_with(&channel, &header, &error), ==, -EPROTO);
	CHECK_TEXT(error.text, "channel: layout version 7, this library reads 1");
	strata_ring_channel_close(&channel);
}

/* Each field that lies is found; the text names the field. */
static void malicious_header_that_lies_is_refused_and_named(void)
{
	struct strata_abi_ring_channel header, lie;
	struct strata_ring_channel channel = good(&header);
	struct strata_ring_error error;
	struct strata_ring_parts parts;
	char fewer[32], more[32];

	snprintf(fewer, sizeof(fewer), "layout: %u streams ", nr_streams() - 1);
	snprintf(more, sizeof(more), "layout: %u streams ", nr_streams() + 1);
#define LIE(field, value, begins)                                      \
	do {                                                           \
		lie = header;                                          \
		lie.field = (value);                                   \
		CHECK(open_with(&channel, &lie, &error), ==, -EINVAL); \
		if (strncmp(error.text, begins, strlen(begins)))       \
			CHECK_TEXT(error.text, begins);                \
	} while (0)

	LIE(loss_mode, 2, "loss mode: 2 ");
	LIE(publish, 2, "publication: 2 ");
	LIE(nr_streams, 0, "number of streams: 0 ");
	LIE(nr_streams, 8193, "number of streams: 8193 ");
	LIE(nr_streams, nr_streams() - 1, fewer);
	LIE(nr_streams, nr_streams() + 1, more);
	LIE(subbuf_bytes, 0, "sub-buffer size: 0 ");
	LIE(subbuf_bytes, SUBBUF + 1, "sub-buffer size: 257 ");
	LIE(subbuf_bytes, SUBBUF * 64, "layout: ");
	LIE(subbuf_bytes, UINT64_C(1) << 63, "sub-buffer size: ");
	LIE(nr_subbufs, 0, "sub-buffer count: 0 ");
	LIE(nr_subbufs, 1u << 31, "sub-buffer count: 2147483648 ");
	LIE(nr_subbufs, COUNT * 32, "layout: ");
	LIE(header_bytes, 7, "packet header: 7 ");
	LIE(header_bytes, SUBBUF, "packet header: 256 ");
	LIE(stream_stride, header.stream_stride * 2, "layout: ");
	LIE(stream_stride, 0, "layout: ");
	LIE(total_bytes, 0, "layout: ");
	LIE(total_bytes, UINT64_MAX, "layout: ");
	LIE(record_align, 0, "record alignment: 0 ");
	LIE(record_align, 1u << 31, "record alignment: 2147483648 ");
	LIE(start_position, 8, "start position: 8 ");
#undef LIE

	/* A lie that is consistent is longer than the memory. */
	lie = header;
	lie.nr_streams = 1000;
	lie.total_bytes = 4096 + 1000 * lie.stream_stride;
	CHECK(open_with(&channel, &lie, &error), ==, -EPROTO);
	if (!strstr(error.text, "but its header says"))
		CHECK_TEXT(error.text, "but its header says");
	lie = header;
	lie.subbuf_bytes = STRATA_ABI_RING_SUBBUF_BYTES_MAX;
	lie.nr_subbufs = STRATA_ABI_RING_NR_SUBBUFS_MAX;
	lie.nr_streams = STRATA_ABI_RING_NR_STREAMS_MAX;
	parts = strata_ring_layout(lie.subbuf_bytes, lie.nr_subbufs);
	lie.stream_stride = parts.stride;
	lie.total_bytes = 4096 + lie.nr_streams * lie.stream_stride;
	CHECK(open_with(&channel, &lie, &error), ==, -EPROTO);
	strata_ring_channel_close(&channel);
}

static void open_when_memory_is_too_short_returns_eproto_with_both_sizes(void)
{
	struct strata_abi_ring_channel header;
	struct strata_ring_channel channel = good(&header), opened;
	struct strata_ring_error error;
	char text[128];
	int fd = (int)syscall(SYS_memfd_create, "short", 2);

	REQUIRE(fd, >=, 0);
	REQUIRE(write(fd, &header, 71), ==, 71);
	CHECK(strata_ring_channel_open(fd, 0, &opened, &error), ==, -EPROTO);
	CHECK_TEXT(error.text, "channel: shorter than its header of 72 bytes");
	REQUIRE(pwrite(fd, &header, sizeof(header), 0), ==, sizeof(header));
	CHECK(strata_ring_channel_open(fd, 0, &opened, &error), ==, -EPROTO);
	snprintf(text, sizeof(text), "channel: 72 bytes, but its header says %" PRIu64,
		 header.total_bytes);
	CHECK_TEXT(error.text, text);
	REQUIRE(ftruncate(fd, (off_t)header.total_bytes - 1), ==, 0);
	CHECK(strata_ring_channel_open(fd, 0, &opened, &error), ==, -EPROTO);
	REQUIRE(ftruncate(fd, (off_t)header.total_bytes), ==, 0);
	CHECK(strata_ring_channel_open(fd, 0, &opened, &error), ==, 0);
	strata_ring_channel_close(&opened);
	strata_ring_channel_close(&channel);
	close(fd);
}

static void open_when_memory_is_not_sealed_but_must_be_returns_eacces(void)
{
	struct strata_abi_ring_channel header;
	struct strata_ring_channel channel = good(&header), opened;
	struct strata_ring_error error;
	FILE *file = tmpfile();
	int fd = (int)syscall(SYS_memfd_create, "open", 2);

	REQUIRE(fd >= 0 && file, ==, 1);
	REQUIRE(ftruncate(fd, (off_t)header.total_bytes), ==, 0);
	REQUIRE(pwrite(fd, &header, sizeof(header), 0), ==, sizeof(header));
	CHECK(strata_ring_channel_open(fd, 1, &opened, &error), ==, -EACCES);
	CHECK_TEXT(error.text, "channel: the memory is not sealed against shrinking");
	CHECK(strata_ring_channel_open(fileno(file), 1, &opened, &error), ==, -EACCES);
	CHECK(strata_ring_channel_open(fd, 0, &opened, &error), ==, 0);
	strata_ring_channel_close(&opened);
	/* Nobody can shrink the memory that create() makes. */
	CHECK(ftruncate(channel.fd, 4096), ==, -1);
	strata_ring_channel_close(&channel);
	fclose(file);
	close(fd);
}

static void open_when_descriptor_is_unusable_returns_error(void)
{
	struct strata_ring_channel opened;
	struct strata_ring_error error = { "" };
	int ends[2];

	CHECK(strata_ring_channel_open(-1, 0, &opened, &error), <, 0);
	CHECK(error.text[0] != '\0', ==, 1);
	CHECK(strata_ring_channel_open(-1, 1, &opened, &error), ==, -EACCES);
	REQUIRE(pipe(ends), ==, 0);
	CHECK(strata_ring_channel_open(ends[0], 0, &opened, &error), <, 0);
	close(ends[0]);
	close(ends[1]);
}

/* Read whatever a channel with a spoilt header, but the right size, gives. */
static void read_all(struct strata_ring_channel *channel)
{
	static const enum strata_ring_source sources[] = { STRATA_RING_SCAN, STRATA_RING_REST,
							   STRATA_RING_CONSUME };
	const struct strata_ring_view *view;
	struct strata_ring_merge merge;
	volatile unsigned char sum = 0;
	uint32_t j;
	size_t i;
	int records;

	for (i = 0; i < 3; i++) {
		if (strata_ring_merge_init(&merge, &sample_discard, channel, sources[i]))
			continue;
		for (records = 0; records < 10000 && !strata_ring_merge_next(&merge, &view);
		     records++)
			for (j = 0; j < view->head.payload_bytes; j++)
				sum = (unsigned char)(sum + view->payload[j]);
		CHECK(records, <, 10000);
		strata_ring_merge_end(&merge);
	}
}

static void malicious_header_of_random_bytes_never_crashes(void)
{
	struct strata_abi_ring_channel header, spoilt;
	struct strata_ring_channel channel = good(&header), opened;
	uint64_t end = test_now_ns() + UINT64_C(1000000000);
	unsigned char *bytes = (unsigned char *)&spoilt;
	unsigned rounds, accepted = 0, i;

	for (rounds = 0; rounds < 100000 && (rounds <= 100 || test_now_ns() < end); rounds++) {
		spoilt = header;
		/* One to four bytes, mostly behind the magic number. */
		for (i = 0; i <= rounds % 4; i++) {
			size_t at = test_random(sizeof(spoilt));

			if (at < 12 && test_random(8))
				at += 12;
			bytes[at] = test_random(2) ? (unsigned char)(1u << test_random(8)) :
						     (unsigned char)test_random(256);
		}
		memcpy(channel.memory, &spoilt, sizeof(spoilt));
		if (strata_ring_channel_open(channel.fd, 1, &opened, NULL))
			continue;
		accepted++;
		/* Less may be a whole channel, too; never more than there is. */
		CHECK(opened.header.total_bytes, <=, header.total_bytes);
		read_all(&opened);
		strata_ring_channel_close(&opened);
	}
	printf("      %u headers, %u of them harmless\n", rounds, accepted);
	strata_ring_channel_close(&channel);
}

static const struct test tests[] = {
	ONCE(open_when_channel_is_good_has_its_sizes_and_records),
	ONCE(open_when_magic_is_wrong_returns_eproto_with_both_numbers),
	ONCE(open_when_version_is_wrong_returns_eproto_with_both_versions),
	ONCE(malicious_header_that_lies_is_refused_and_named),
	ONCE(open_when_memory_is_too_short_returns_eproto_with_both_sizes),
	ONCE(open_when_memory_is_not_sealed_but_must_be_returns_eacces),
	ONCE(open_when_descriptor_is_unusable_returns_error),
	ONCE(malicious_header_of_random_bytes_never_crashes),
};
TEST_MAIN(tests)
