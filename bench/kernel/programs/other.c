/* SPDX-License-Identifier: MIT */
/*
 * other.c - one program of other.bpf.c, attached until SIGTERM; what is in its ring goes to a file.
 *
 *   other OBJECT PROGRAM FILE    prints "ready", and in the end how many records there were, and were discarded
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop;

static char kept[1 << 20];
static size_t kept_bytes;
static uint64_t records;
static int file;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static void write_kept(void)
{
	if (write(file, kept, kept_bytes) != (ssize_t)kept_bytes)
		perror("other: write");
	kept_bytes = 0;
}

static int keep(void *context, void *data, size_t bytes)
{
	(void)context;
	if (kept_bytes + bytes > sizeof(kept))
		write_kept();
	memcpy(kept + kept_bytes, data, bytes);
	kept_bytes += bytes;
	records++;
	return 0;
}

static int fail(const char *what)
{
	fprintf(stderr, "other: %s: %s\n", what, strerror(errno));
	return 2;
}

int main(int argc, char **argv)
{
	struct bpf_program *program, *wanted = NULL;
	struct bpf_object *object;
	struct ring_buffer *ring;
	const uint64_t *discarded;
	size_t bytes;

	if (argc != 4)
		return 2;
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	file = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	object = bpf_object__open_file(argv[1], NULL);
	if (file < 0 || libbpf_get_error(object))
		return fail("open");
	bpf_object__for_each_program(program, object)
	{
		bpf_program__set_autoload(program, !strcmp(bpf_program__name(program), argv[2]));
		if (bpf_program__autoload(program))
			wanted = program;
	}
	if (!wanted || bpf_object__load(object))
		return fail("load");
	ring = ring_buffer__new(bpf_object__find_map_fd_by_name(object, "ring"), keep, NULL, NULL);
	discarded = bpf_map__initial_value(bpf_object__find_map_by_name(object, ".bss"), &bytes);
	if (libbpf_get_error(ring) || libbpf_get_error(bpf_program__attach(wanted)))
		return fail("attach");
	puts("ready");
	fflush(stdout);
	while (!stop) {
		ring_buffer__consume(ring);
		usleep(2000);
	}
	ring_buffer__consume(ring);
	write_kept();
	printf("%llu %llu\n", (unsigned long long)records, (unsigned long long)*discarded);
	return 0;
}
