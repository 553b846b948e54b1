/* SPDX-License-Identifier: MIT */
/*
 * stress.c - load stress.bpf.o, make events on every CPU, and read what it writes with the library's own
 * consumer.
 *
 *   stress OBJECT discard|overwrite SUBBUF_BYTES NR_SUBBUFS SECONDS
 *
 * Checked: each payload follows from its record's time; time never goes back within a stream; every
 * call of the program is a record that was read, or counted as discarded, overwritten, or as a nested
 * call that the kernel did not run.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <strata/ring/ring.h>

#include "stress.h"

STRATA_CALLBACK uint64_t no_clock(void)
{
	return 0;
}

/* The configuration of stress.bpf.c without its clock, which a consumer does not read. */
static struct strata_ring_config config = {
	STRATA_RING_DISCARD,
	STRATA_RING_WRITERS_SMP,
	STRATA_RING_PER_CPU,
	STRATA_RING_WAKE_NONE,
	8,
	no_clock,
	STRATA_RING_HEADER_SIZED,
	NULL,
};

static struct strata_ring_channel channel = { .fd = -1 };
static uint64_t *calls;

struct read_counts {
	uint64_t records;
	uint64_t wrong;
	uint64_t back;
	uint64_t last;
};

static void fail(const char *what, long found)
{
	fprintf(stderr, "stress: %s: %ld (%s)\n", what, found, strerror(errno));
	exit(2);
}

static struct bpf_map *map_named(struct bpf_object *object, const char *end)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, object)
	{
		const char *name = bpf_map__name(map);
		size_t n = strlen(name), m = strlen(end);

		if (n >= m && !strcmp(name + n - m, end))
			return map;
	}
	fail("no map", 0);
	return NULL;
}

/* Sizes into .rodata, in the order of stress.bpf.c. */
static void set_sizes(struct bpf_object *object)
{
	const struct strata_abi_ring_channel *h = &channel.header;
	struct strata_ring_parts l = strata_ring_layout(h->subbuf_bytes, h->nr_subbufs);
	struct bpf_map *map = map_named(object, ".rodata");
	uint64_t values[4] = { (uint64_t)__builtin_ctzll(h->subbuf_bytes),
			       h->subbuf_bytes * h->nr_subbufs, l.frames_offset, l.data_offset };
	size_t bytes;
	const unsigned char *now = (const unsigned char *)bpf_map__initial_value(map, &bytes);
	unsigned char *copy = (unsigned char *)malloc(bytes);

	if (!now || !copy || bytes < sizeof(values))
		fail(".rodata has too few bytes", (long)bytes);
	memcpy(copy, now, bytes);
	memcpy(copy, values, sizeof(values));
	if (bpf_map__set_initial_value(map, copy, bytes))
		fail("cannot set .rodata", (long)bytes);
	free(copy);
}

/*
 * Maps the channel's memory: a page of our own for its header, then a stream of each of the map's
 * values. A value is larger than a stream: the verifier does not know that a record ends in its
 * sub-buffer.
 */
static void map_channel(int fd)
{
	const struct strata_abi_ring_channel *h = &channel.header;
	unsigned char *memory = (unsigned char *)mmap(NULL, h->total_bytes, PROT_READ | PROT_WRITE,
						      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t i;

	if (memory == MAP_FAILED)
		fail("no memory", (long)h->total_bytes);
	channel.memory = memory;
	memory += STRATA_ABI_RING_PAGE;
	for (i = 0; i < h->nr_streams; i++, memory += h->stream_stride)
		if (mmap(memory, h->stream_stride, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 fd, (off_t)(i * (h->stream_stride + STRESS_SLACK))) == MAP_FAILED)
			fail("cannot map the ring of CPU", i);
	if (strata_ring_channel_attach(&channel, NULL))
		fail("no memory", 0);
	strata_ring_channel_format(&channel);
}

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

static struct bpf_object *load(const char *path)
{
	struct bpf_object *object;
	struct bpf_map *rings;

	libbpf_set_print(quiet);
	object = bpf_object__open_file(path, NULL);
	if (!object)
		fail(path, -errno);
	rings = map_named(object, "rings");
	set_sizes(object);
	if (bpf_map__set_max_entries(rings, channel.header.nr_streams) ||
	    bpf_map__set_value_size(rings, (uint32_t)channel.header.stream_stride + STRESS_SLACK) ||
	    bpf_object__load(object))
		fail("cannot load", -errno);
	map_channel(bpf_map__fd(rings));
	calls = (uint64_t *)mmap(NULL, STRESS_CPUS * 8, PROT_READ, MAP_SHARED,
				 bpf_map__fd(map_named(object, ".bss")), 0);
	if (calls == MAP_FAILED)
		fail("cannot map .bss", 0);
	return object;
}

/* Returns how often a program was skipped because an interrupt called it while it ran. */
static uint64_t recursion_misses(struct bpf_object *object)
{
	struct bpf_program *program;
	uint64_t sum = 0;

	bpf_object__for_each_program(program, object)
	{
		struct bpf_prog_info info = { 0 };
		uint32_t bytes = sizeof(info);

		if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &bytes))
			fail("cannot ask for a program", 0);
		sum += info.recursion_misses;
	}
	return sum;
}

static void look(const struct strata_ring_view *view, struct read_counts *counts)
{
	uint32_t i, words = view->head.payload_bytes / 8;
	uint64_t word;

	counts->records++;
	if (view->head.timestamp < counts->last)
		counts->back++;
	counts->last = view->head.timestamp;
	if (view->head.payload_bytes % 8 || words > 31 || view->head.id < 1 || view->head.id > 15)
		counts->wrong++;
	for (i = 0; i < words; i++) {
		memcpy(&word, view->payload + i * 8, 8);
		if (word != stress_word(view->head.timestamp, view->head.id, i)) {
			counts->wrong++;
			return;
		}
	}
}

static void drain(struct strata_ring_iterator *its, struct read_counts *counts)
{
	const struct strata_ring_view *view;
	uint32_t cpu;

	for (cpu = 0; cpu < channel.streams.nr; cpu++)
		while (!strata_ring_next(&its[cpu], &view))
			look(view, &counts[cpu]);
}

/* System calls, page faults, switches, timers; until killed. */
static void work(void)
{
	struct timespec nap = { 0, 50000 };
	unsigned i, n;

	for (n = 0;; n++) {
		for (i = 0; i < 500; i++)
			(void)syscall(SYS_getppid);
		volatile unsigned char *p = (volatile unsigned char *)mmap(
			NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (i = 0; i < 16 && p != MAP_FAILED; i++)
			p[i * 4096] = 1;
		munmap((void *)(uintptr_t)p, 65536);
		if (n % 8 == 0)
			nanosleep(&nap, NULL); /* Time: switches and timers are events. */
	}
}

static uint64_t seconds_now(void)
{
	return strata_clock_monotonic_ns() / UINT64_C(1000000000);
}

int main(int argc, char **argv)
{
	struct strata_ring_attr attr = { 0 };
	struct strata_ring_error error = { "" };
	struct strata_ring_counters counters;
	struct strata_ring_iterator *its, *rest;
	struct read_counts *counts;
	struct bpf_object *object;
	struct bpf_program *program;
	uint64_t end, made = 0, read = 0, wrong = 0, back = 0, discarded = 0, overwritten = 0,
		      nested;
	struct bpf_link *links[32];
	pid_t workers[64];
	int nr_links = 0, nr_workers = 0;
	uint32_t cpu;

	if (argc != 6)
		return fprintf(stderr,
			       "usage: stress OBJECT discard|overwrite SUBBUF_BYTES NR_SUBBUFS SECONDS\n"),
		       2;
	if (!strcmp(argv[2], "overwrite"))
		config.loss_mode = STRATA_RING_OVERWRITE;
	attr.subbuf_bytes = strtoull(argv[3], NULL, 0);
	attr.nr_subbufs = strtoull(argv[4], NULL, 0);
	if (strata_ring_channel_describe(&config, &attr, &channel.header, &error))
		return fprintf(stderr, "stress: %s\n", error.text), 2;
	object = load(argv[1]);
	its = (struct strata_ring_iterator *)calloc(channel.streams.nr, sizeof(*its));
	rest = (struct strata_ring_iterator *)calloc(channel.streams.nr, sizeof(*rest));
	counts = (struct read_counts *)calloc(channel.streams.nr, sizeof(*counts));
	if (!its || !rest || !counts)
		fail("no memory", 0);
	for (cpu = 0; cpu < channel.streams.nr; cpu++)
		strata_ring_iterator_init(&its[cpu], &config, &channel.streams.stream[cpu],
					  STRATA_RING_CONSUME);
	for (; nr_workers < (int)channel.streams.nr + 1 && nr_workers < 64; nr_workers++) {
		workers[nr_workers] = fork();
		if (!workers[nr_workers])
			work();
	}
	bpf_object__for_each_program(program, object)
	{
		links[nr_links] = bpf_program__attach(program);
		if (!links[nr_links++])
			fail(bpf_program__name(program), -errno);
	}
	end = seconds_now() + strtoull(argv[5], NULL, 0);
	while (seconds_now() < end)
		drain(its, counts);
	while (nr_links)
		bpf_link__destroy(links[--nr_links]);
	nested = recursion_misses(object);
	while (nr_workers) {
		kill(workers[--nr_workers], SIGKILL);
		waitpid(workers[nr_workers], NULL, 0);
	}
	/* A program may still be at its end on another CPU: until all have left what RCU protects. */
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		fail("membarrier", -errno);
	drain(its, counts);
	for (cpu = 0; cpu < channel.streams.nr; cpu++) {
		const struct strata_ring_view *view;

		strata_ring_iterator_leave(&its[cpu]);
		strata_ring_iterator_init(&rest[cpu], &config, &channel.streams.stream[cpu],
					  STRATA_RING_REST);
		while (!strata_ring_next(&rest[cpu], &view))
			look(view, &counts[cpu]);
		strata_ring_read_counters(&channel.streams.stream[cpu], &counters);
		made += calls[cpu % STRESS_CPUS];
		read += counts[cpu].records;
		wrong += counts[cpu].wrong + its[cpu].damaged + rest[cpu].damaged;
		back += counts[cpu].back;
		discarded += counters.discarded_full + counters.discarded_too_big +
			     counters.discarded_nested;
		overwritten += counters.overwritten_records;
	}
	printf("%-9s %7llu x %llu: %9llu calls = %llu read + %llu discarded + %llu overwritten; "
	       "%llu nested in themselves, %llu wrong, %llu back in time\n",
	       argv[2], (unsigned long long)attr.subbuf_bytes, (unsigned long long)attr.nr_subbufs,
	       (unsigned long long)made, (unsigned long long)read, (unsigned long long)discarded,
	       (unsigned long long)overwritten, (unsigned long long)nested,
	       (unsigned long long)wrong, (unsigned long long)back);
	return !made || wrong || back || made != read + discarded + overwritten;
}
