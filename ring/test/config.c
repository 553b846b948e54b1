/* SPDX-License-Identifier: MIT */
/*
 * config.c - each bad configuration is refused with the value and the limit; each good one takes and
 * gives back a record.
 */
#include <limits.h>
#include <sys/resource.h>
#include "test.h"

static uint64_t clock_now;

static uint64_t fake_clock(void)
{
	return ++clock_now;
}

static const struct strata_ring_config plain = { STRATA_RING_DISCARD,
						 STRATA_RING_WRITERS_LOCAL,
						 STRATA_RING_PER_CPU,
						 STRATA_RING_WAKE_NONE,
						 8,
						 fake_clock,
						 STRATA_RING_HEADER_SIZED,
						 NULL };

static void refused_by(const struct strata_ring_config *config, const struct strata_ring_attr *attr,
		       int code, const char *text)
{
	struct strata_ring_channel channel;
	struct strata_ring_error error = { "" };

	memset(&channel, 0xa5, sizeof(channel));
	CHECK(strata_ring_channel_create(config, attr, &channel, &error), ==, -code);
	CHECK_TEXT(error.text, text);
	CHECK(channel.memory == NULL, ==, 1);
	CHECK(channel.fd, ==, -1);
	CHECK(channel.streams.stream == NULL, ==, 1);
	CHECK(strata_ring_channel_create(config, attr, &channel, NULL), ==, -code);
}

static void refused_sizes(uint64_t subbuf_bytes, uint64_t nr_subbufs, const char *text)
{
	struct strata_ring_attr attr = test_attr(subbuf_bytes, nr_subbufs);

	refused_by(&plain, &attr, EINVAL, text);
}

static void config_when_subbuf_size_is_wrong_returns_einval_with_value_and_limit(void)
{
	refused_sizes(0, 4, "sub-buffer size: 0 bytes is not a power of two from 32 to 1073741824");
	refused_sizes(16, 4,
		      "sub-buffer size: 16 bytes is not a power of two from 32 to 1073741824");
	refused_sizes(3000, 4,
		      "sub-buffer size: 3000 bytes is not a power of two from 32 to 1073741824");
	refused_sizes(
		UINT64_C(1) << 31, 4,
		"sub-buffer size: 2147483648 bytes is not a power of two from 32 to 1073741824");
	refused_sizes(
		UINT64_MAX, 4,
		"sub-buffer size: 18446744073709551615 bytes is not a power of two from 32 to 1073741824");
}

static void config_when_subbuf_count_is_wrong_returns_einval_with_value_and_limit(void)
{
	refused_sizes(4096, 0, "sub-buffer count: 0 is not a power of two from 2 to 32768");
	refused_sizes(4096, 1, "sub-buffer count: 1 is not a power of two from 2 to 32768");
	refused_sizes(4096, 3, "sub-buffer count: 3 is not a power of two from 2 to 32768");
	refused_sizes(4096, 65536, "sub-buffer count: 65536 is not a power of two from 2 to 32768");
	/* Cut to 32 bits it would be 2. */
	refused_sizes(4096, (UINT64_C(1) << 32) + 2,
		      "sub-buffer count: 4294967298 is not a power of two from 2 to 32768");
}

static void config_when_packet_header_is_wrong_returns_einval_with_value_and_limit(void)
{
	struct strata_ring_attr attr = test_attr(64, 2);
	struct strata_ring_channel channel;

	attr.header_bytes = 4;
	refused_by(
		&plain, &attr, EINVAL,
		"packet header: 4 bytes is not a multiple of 8 that leaves room in a sub-buffer of 64");
	attr.header_bytes = 56;
	refused_by(
		&plain, &attr, EINVAL,
		"packet header: 56 bytes is not a multiple of 8 that leaves room in a sub-buffer of 64");
	attr.header_bytes = UINT32_MAX - 7;
	refused_by(
		&plain, &attr, EINVAL,
		"packet header: 4294967288 bytes is not a multiple of 8 that leaves room in a sub-buffer of 64");
	attr.header_bytes = 48;
	CHECK(strata_ring_channel_create(&plain, &attr, &channel, NULL), ==, 0);
	CHECK(strata_ring_slot_max(&channel.streams.stream[0]), ==, 8);
	strata_ring_channel_close(&channel);
}

static void config_when_record_alignment_is_wrong_returns_einval_with_value_and_limit(void)
{
	struct strata_ring_attr attr = test_attr(4096, 2);
	struct strata_ring_config config = plain;

	config.record_align = 0;
	refused_by(&config, &attr, EINVAL, "record alignment: 0 is not 1, 2, 4 or 8");
	config.record_align = 3;
	refused_by(&config, &attr, EINVAL, "record alignment: 3 is not 1, 2, 4 or 8");
	config.record_align = 16;
	refused_by(&config, &attr, EINVAL, "record alignment: 16 is not 1, 2, 4 or 8");
}

static void config_when_loss_mode_is_unknown_returns_einval_with_value(void)
{
	struct strata_ring_attr attr = test_attr(4096, 2);
	struct strata_ring_config config = plain;

	config.loss_mode = (enum strata_ring_loss_mode)2;
	refused_by(&config, &attr, EINVAL, "loss mode: 2 is neither discard (0) nor overwrite (1)");
}

static void config_when_cpu_count_is_wrong_returns_einval_with_value_and_limit(void)
{
	struct strata_ring_attr attr = test_attr(4096, 2);

	attr.nr_cpus = 8193;
	refused_by(&plain, &attr, EINVAL, "number of streams: 8193 is not from 1 to 8192");
	attr.nr_cpus = (uint32_t)-1;
	refused_by(&plain, &attr, EINVAL, "number of streams: 4294967295 is not from 1 to 8192");
}

static void config_when_start_position_is_wrong_returns_einval_with_value_and_limit(void)
{
	struct strata_ring_attr attr = test_attr(4096, 2);

	attr.start_position = 4096;
	refused_by(&plain, &attr, EINVAL,
		   "start position: 4096 is not a multiple of the buffer's 8192 bytes");
	attr.start_position = UINT64_MAX;
	refused_by(
		&plain, &attr, EINVAL,
		"start position: 18446744073709551615 is not a multiple of the buffer's 8192 bytes");
}

static void config_when_memory_kind_is_unknown_returns_einval_with_value(void)
{
	struct strata_ring_attr attr = test_attr(4096, 2);

	attr.memory = (enum strata_ring_memory)3;
	refused_by(&plain, &attr, EINVAL, "memory: kind 3 is unknown, or a file without a path");
	attr.memory = (enum strata_ring_memory) - 1;
	refused_by(&plain, &attr, EINVAL, "memory: kind -1 is unknown, or a file without a path");
	attr.memory = STRATA_RING_FILE;
	refused_by(&plain, &attr, EINVAL, "memory: kind 2 is unknown, or a file without a path");
}

/*
 * Returns 1 if the kernel grants any size (/proc/sys/vm/overcommit_memory), so that a fault is the
 * answer.
 */
static int overcommit(void)
{
	FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
	int mode = 0;

	if (file) {
		if (fscanf(file, "%d", &mode) != 1)
			mode = 0;
		fclose(file);
	}
	return mode == 1;
}

/* More than any machine's memory, and more than any address space. */
static void config_when_memory_cannot_be_allocated_returns_error_with_size(void)
{
	static const enum strata_ring_memory kinds[] = { STRATA_RING_ANONYMOUS, STRATA_RING_MEMFD,
							 STRATA_RING_FILE };
	struct strata_ring_attr attr = test_attr(UINT64_C(1) << 30, 32768);
	char folder[] = "/tmp/strata-config-XXXXXX", path[64];
	struct strata_ring_channel channel;
	struct strata_ring_error error;
	struct strata_ring_parts parts;
	struct rlimit limit, small;
	char size[32];
	size_t i, j;
	int code;

	REQUIRE(mkdtemp(folder) != NULL, ==, 1);
	snprintf(path, sizeof(path), "%s/ring", folder);
	attr.path = path;
	parts = strata_ring_layout(attr.subbuf_bytes, (uint32_t)attr.nr_subbufs);
	CHECK(parts.stride, >, UINT64_C(32769) << 30);
	getrlimit(RLIMIT_FSIZE, &limit);
	small = limit;
	small.rlim_cur = 1 << 30;
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		for (j = 0; j < 2; j++) {
			if (!j && kinds[i] != STRATA_RING_FILE && overcommit())
				continue;
			attr.memory = kinds[i];
			attr.nr_cpus = j ? 8192 : 1;
			snprintf(size, sizeof(size), " %" PRIu64 " bytes",
				 4096 + attr.nr_cpus * parts.stride);
			error.text[0] = '\0';
			/* Some file systems allocate until the disk is full. */
			if (kinds[i] == STRATA_RING_FILE)
				setrlimit(RLIMIT_FSIZE, &small);
			code = strata_ring_channel_create(&plain, &attr, &channel, &error);
			setrlimit(RLIMIT_FSIZE, &limit);
			if (!CHECK(code, <, 0)) {
				fprintf(stderr, "memory kind %d,%s\n", (int)kinds[i], size);
				strata_ring_channel_close(&channel);
				unlink(path);
			} else if (!strstr(error.text, size)) {
				CHECK_TEXT(error.text, size);
			}
			CHECK(access(path, F_OK), ==, -1);
		}
	rmdir(folder);
}

static void config_when_file_cannot_be_created_returns_what_the_system_said(void)
{
	char folder[] = "/tmp/strata-config-XXXXXX", path[64], text[128];
	struct strata_ring_attr attr = test_attr(4096, 2);
	struct rlimit limit, small;
	FILE *file;

	REQUIRE(mkdtemp(folder) != NULL, ==, 1);
	attr.memory = STRATA_RING_FILE;
	attr.path = path;
	attr.nr_cpus = 1;

	snprintf(path, sizeof(path), "%s/ring", folder);
	snprintf(text, sizeof(text), "channel: cannot create %s: File exists", path);
	file = fopen(path, "w");
	REQUIRE(file != NULL, ==, 1);
	fputs("somebody's", file);
	fclose(file);
	refused_by(&plain, &attr, EEXIST, text);
	file = fopen(path, "r");
	REQUIRE(file != NULL, ==, 1);
	text[0] = '\0';
	CHECK(fgets(text, sizeof(text), file) != NULL, ==, 1);
	CHECK_TEXT(text, "somebody's");
	fclose(file);
	unlink(path);

	/* A file that cannot be made as long as needed is removed again. */
	getrlimit(RLIMIT_FSIZE, &limit);
	small = limit;
	small.rlim_cur = 4096;
	if (!setrlimit(RLIMIT_FSIZE, &small)) {
		struct strata_ring_channel channel;
		struct strata_ring_error error = { "" };
		int code = strata_ring_channel_create(&plain, &attr, &channel, &error);

		/* Some emulators apply no such limit. */
		if (code) {
			CHECK(code, ==, -EFBIG);
			snprintf(text, sizeof(text),
				 "channel: cannot make %s 20480 bytes long: File too large", path);
			CHECK_TEXT(error.text, text);
		} else {
			strata_ring_channel_close(&channel);
			unlink(path);
		}
		CHECK(access(path, F_OK), ==, -1);
		setrlimit(RLIMIT_FSIZE, &limit);
	}

	snprintf(path, sizeof(path), "%s/no/ring", folder);
	snprintf(text, sizeof(text), "channel: cannot create %s: No such file or directory", path);
	refused_by(&plain, &attr, ENOENT, text);
	rmdir(folder);
}

static void config_when_cpu_number_is_wrong_has_no_stream_and_says_the_range(void)
{
	static const struct {
		int cpu;
		const char *text;
	} wrong[] = {
		{ -1, "CPU number: -1 is not from 0 to 2" },
		{ 3, "CPU number: 3 is not from 0 to 2" },
		{ INT_MAX, "CPU number: 2147483647 is not from 0 to 2" },
		{ INT_MIN, "CPU number: -2147483648 is not from 0 to 2" },
	};
	struct strata_ring_attr attr = test_attr(4096, 2);
	struct strata_ring_channel channel;
	struct strata_ring_error error;
	size_t i;

	attr.nr_cpus = 3;
	REQUIRE(strata_ring_channel_create(&plain, &attr, &channel, NULL), ==, 0);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK(strata_ring_channel_stream(&channel, wrong[i].cpu, &error) == NULL, ==, 1);
		CHECK_TEXT(error.text, wrong[i].text);
		CHECK(strata_ring_channel_stream(&channel, wrong[i].cpu, NULL) == NULL, ==, 1);
	}
	for (i = 0; i < 3; i++)
		CHECK(strata_ring_channel_stream(&channel, (int)i, NULL) ==
			      &channel.streams.stream[i],
		      ==, 1);
	strata_ring_channel_close(&channel);
}

static void config_when_writers_or_buffers_are_unknown_returns_einval_with_values(void)
{
	struct strata_ring_attr attr = test_attr(4096, 2);
	struct strata_ring_config config = plain;

	config.writers = (enum strata_ring_writers)4;
	refused_by(&config, &attr, EINVAL,
		   "configuration: writers 4, buffers 0 or wake-up 0 is unknown");
	config.writers = STRATA_RING_WRITERS_SMP;
	config.wakeup = (enum strata_ring_wakeup)7;
	refused_by(&config, &attr, EINVAL,
		   "configuration: writers 2, buffers 0 or wake-up 7 is unknown");
}

static void config_when_writers_are_not_rseq_publishes_by_commit(void)
{
	const uint32_t by_position = strata_rseq_available() ? STRATA_ABI_RING_BY_POSITION :
							       STRATA_ABI_RING_BY_COMMIT;
	struct strata_ring_attr attr = test_attr(4096, 2);
	struct strata_ring_config config = plain;
	int writers, buffers, no_rseq;

	for (writers = 0; writers < 4; writers++)
		for (buffers = 0; buffers < 2; buffers++)
			for (no_rseq = 0; no_rseq < 2; no_rseq++) {
				struct strata_ring_channel channel;

				config.writers = (enum strata_ring_writers)writers;
				config.buffers = (enum strata_ring_buffers)buffers;
				attr.no_rseq = no_rseq;
				REQUIRE(strata_ring_channel_create(&config, &attr, &channel, NULL),
					==, 0);
				CHECK(channel.header.publish, ==,
				      writers == STRATA_RING_WRITERS_RSEQ && !buffers && !no_rseq ?
					      by_position :
					      STRATA_ABI_RING_BY_COMMIT);
				CHECK(channel.header.global, ==, buffers);
				CHECK(channel.streams.nr, ==,
				      buffers ? 1 : strata_ring_possible_cpus());
				strata_ring_channel_close(&channel);
			}
}

STRATA_RING_HEADER_FIXED(fixed_eight, 8)

static const struct strata_ring_header headers[] = {
	STRATA_RING_HEADER_SIZED,
	STRATA_RING_HEADER_COMPACT,
	STRATA_RING_HEADER_LARGE,
	STRATA_RING_HEADER_NONE,
	{ 0, NULL, NULL, NULL, fixed_eight_parse, 0, 0 },
};

/* One record of 8 bytes goes in and comes out. */
static void one_record(const struct strata_ring_config *config, const struct strata_ring_attr *attr)
{
	const uint64_t payload = UINT64_C(0x0123456789abcdef);
	struct strata_ring_channel channel;
	struct strata_ring_packet packet;
	struct strata_ring_counters counters;
	struct strata_ring_reader reader;
	struct strata_ring_stream *s;
	uint32_t header = strata_ring_record_header_bytes(config, 3, 0);

	REQUIRE(strata_ring_channel_create(config, attr, &channel, NULL), ==, 0);
	s = &channel.streams.stream[channel.streams.nr > 1 ? test_cpu : 0];
	CHECK(strata_ring_record(config, &channel, 3, &payload, sizeof(payload)), ==, 0);
	strata_ring_flush_current(config, &channel);
	CHECK(strata_ring_reader_init(&reader, s), ==, 0);
	CHECK(strata_ring_poll(&reader), ==, STRATA_RING_READABLE);
	if (CHECK(strata_ring_get_next(&reader, &packet), ==, 0)) {
		CHECK(packet.records, ==, 1);
		CHECK(packet.content_bytes, >=, header + 8);
		CHECK(memcmp(packet.data + header, &payload, 8), ==, 0);
		strata_ring_put_next(&reader);
	}
	strata_ring_read_counters(s, &counters);
	CHECK(counters.written, ==, 1);
	strata_ring_channel_close(&channel);
}

static void config_when_good_on_every_axis_takes_and_gives_back_a_record(void)
{
	char folder[] = "/tmp/strata-config-XXXXXX", path[64];
	struct strata_ring_attr attr = test_attr(4096, 2);
	struct strata_ring_config config;
	unsigned n;

	memset(&config, 0, sizeof(config));
	REQUIRE(mkdtemp(folder) != NULL, ==, 1);
	snprintf(path, sizeof(path), "%s/ring", folder);
	attr.path = path;
	/*
	 * The digits of n are: loss 2, writers 4, buffers 2, wake-up 2, alignment 4, clock 2,
	 * header 5, memory 3.
	 */
	for (n = 0; n < 2 * 4 * 2 * 2 * 4 * 2 * 5 * 3; n++) {
		unsigned left = n;

		config.loss_mode = (enum strata_ring_loss_mode)(left % 2), left /= 2;
		config.writers = (enum strata_ring_writers)(left % 4), left /= 4;
		config.buffers = (enum strata_ring_buffers)(left % 2), left /= 2;
		config.wakeup = (enum strata_ring_wakeup)(left % 2), left /= 2;
		config.record_align = 1u << left % 4, left /= 4;
		config.clock = left % 2 ? fake_clock : NULL, left /= 2;
		config.header = headers[left % 5], left /= 5;
		attr.memory = (enum strata_ring_memory)left;
		/* Files are slow to make: some of the combinations. */
		if (attr.memory == STRATA_RING_FILE && n % 23)
			continue;
		one_record(&config, &attr);
		if (attr.memory == STRATA_RING_FILE)
			unlink(path);
	}
	rmdir(folder);
}

static const struct test tests[] = {
	ONCE(config_when_subbuf_size_is_wrong_returns_einval_with_value_and_limit),
	ONCE(config_when_subbuf_count_is_wrong_returns_einval_with_value_and_limit),
	ONCE(config_when_packet_header_is_wrong_returns_einval_with_value_and_limit),
	ONCE(config_when_record_alignment_is_wrong_returns_einval_with_value_and_limit),
	ONCE(config_when_loss_mode_is_unknown_returns_einval_with_value),
	ONCE(config_when_cpu_count_is_wrong_returns_einval_with_value_and_limit),
	ONCE(config_when_start_position_is_wrong_returns_einval_with_value_and_limit),
	ONCE(config_when_memory_kind_is_unknown_returns_einval_with_value),
	ONCE(config_when_memory_cannot_be_allocated_returns_error_with_size),
	ONCE(config_when_file_cannot_be_created_returns_what_the_system_said),
	ONCE(config_when_cpu_number_is_wrong_has_no_stream_and_says_the_range),
	ONCE(config_when_writers_or_buffers_are_unknown_returns_einval_with_values),
	ONCE(config_when_writers_are_not_rseq_publishes_by_commit),
	BOTH(config_when_good_on_every_axis_takes_and_gives_back_a_record),
};
TEST_MAIN(tests)
