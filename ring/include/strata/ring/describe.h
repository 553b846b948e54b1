/* SPDX-License-Identifier: MIT */
/*
 * describe.h - description of a channel, wherever its memory comes from: sizes are chosen and checked, streams
 * attached, memory made an empty channel. channel.h has memory of user space, kernel.h that of a kernel.
 */
#ifndef STRATA_RING_DESCRIBE_H
#define STRATA_RING_DESCRIBE_H

#include <strata/ring/limits.h>
#include <strata/ring/publish.h>
#include <strata/ring/stream.h>
#ifndef __KERNEL__
#include <unistd.h>
#endif

enum strata_ring_memory {
	STRATA_RING_ANONYMOUS = 0,
	STRATA_RING_MEMFD = 1,
	STRATA_RING_FILE = 2,
};

/* Attributes that are chosen at run time. Zero means the default, except for the sizes. */
struct strata_ring_attr {
	uint64_t subbuf_bytes; /* power of two */
	uint64_t nr_subbufs;   /* power of two, at least 2 */
	uint32_t header_bytes; /* multiple of 8; for the reader's packet header */
	uint32_t nr_cpus;      /* 0: all possible CPUs of the machine */
	enum strata_ring_memory memory;
	const char *path;	 /* STRATA_RING_FILE: must not exist */
	int no_rseq;		 /* 1: by commit, even where restartable sequences are registered */
	int rseq_elsewhere;	 /* 1: another process will write, which has them registered */
	uint64_t start_position; /* multiple of the buffer's size; for tests */
};

struct strata_ring_channel {
	struct strata_ring_streams streams; /* first: the fast path needs only this */
	struct strata_abi_ring_channel header;
	void *memory;
	int fd; /* memfd or file; -1: anonymous */
};

/**
 * strata_ring_possible_cpus() - return how many CPUs the machine may ever have, including offline ones.
 *
 * Returns the largest number that the kernel may give, plus 1; at least 1.
 * Context: not a signal handler.
 * Ordering: none: private memory.
 * Checked: test: config.
 */
STRATA_FUNC uint32_t strata_ring_possible_cpus(void)
{
#ifdef __KERNEL__
	return nr_cpu_ids;
#else
	FILE *f = fopen("/sys/devices/system/cpu/possible", "re");
	unsigned last = 0, n;
	long configured;
	int c;

	if (f) {
		/* In a list such as "0-3,8-11" the largest number is the last. */
		while (fscanf(f, "%u", &n) == 1) {
			last = n;
			c = fgetc(f);
			if (c != '-' && c != ',')
				break;
		}
		fclose(f);
	}
	configured = sysconf(_SC_NPROCESSORS_CONF);
	if (configured > (long)last + 1)
		return (uint32_t)configured;
	return last + 1;
#endif
}

/**
 * strata_ring_channel_attach() - describe the streams of mapped memory.
 * @c: memory and header are set, and the header was checked (strata_ring_header_check()).
 *
 * Returns 0; -ENOMEM with @error filled. What it allocates is freed with @c->streams.stream.
 * Context: not a signal handler.
 * Ordering: none: private memory; what is mapped is neither read nor written.
 * Checked: test: config open memory; bpf.
 */
STRATA_FUNC int strata_ring_channel_attach(struct strata_ring_channel *c,
					   struct strata_ring_error *error)
{
	uint32_t i;

	c->streams.nr = c->header.nr_streams;
	c->streams.first = (unsigned char *)c->memory + STRATA_ABI_RING_PAGE;
	c->streams.stride = c->header.stream_stride;
	c->streams.stream = (struct strata_ring_stream *)STRATA_RING_CALLOC(
		c->header.nr_streams, sizeof(*c->streams.stream));
	if (!c->streams.stream)
		return STRATA_RING_REFUSE(error, ENOMEM,
					  "channel: no memory to describe %u streams",
					  c->header.nr_streams);
	for (i = 0; i < c->header.nr_streams; i++)
		strata_ring_stream_attach(&c->streams.stream[i],
					  c->streams.first + i * c->streams.stride, &c->header, i);
	return 0;
}

/**
 * strata_ring_channel_describe() - choose the layout of a channel, and check it.
 * @h: out; everything but the magic number.
 *
 * The way of publishing is chosen here, once: by position if the configuration says rseq and the
 * producing process' libc has registered it, else by commit.
 *
 * Returns 0, or -EINVAL or -ENOMEM with @error filled.
 * Context: any; a signal handler with @error NULL and @attr->nr_cpus given.
 * Ordering: none: private memory.
 * Checked: test: config.
 */
STRATA_FUNC int strata_ring_channel_describe(const struct strata_ring_config *config,
					     const struct strata_ring_attr *attr,
					     struct strata_abi_ring_channel *h,
					     struct strata_ring_error *error)
{
	struct strata_ring_parts l;

	memset(h, 0, sizeof(*h));
	if (attr->nr_subbufs > STRATA_ABI_RING_NR_SUBBUFS_MAX)
		return STRATA_RING_REFUSE(
			error, EINVAL, "sub-buffer count: %llu is not a power of two from %u to %u",
			(unsigned long long)attr->nr_subbufs, STRATA_ABI_RING_NR_SUBBUFS_MIN,
			STRATA_ABI_RING_NR_SUBBUFS_MAX);
	if ((unsigned)config->writers > STRATA_RING_WRITERS_UNORDERED ||
	    (unsigned)config->buffers > STRATA_RING_GLOBAL ||
	    (unsigned)config->wakeup > STRATA_RING_WAKE_BY_WRITER)
		return STRATA_RING_REFUSE(
			error, EINVAL,
			"configuration: writers %d, buffers %d or wake-up %d is unknown",
			(int)config->writers, (int)config->buffers, (int)config->wakeup);
	h->version = STRATA_ABI_RING_VERSION;
	h->loss_mode = config->loss_mode;
	h->publish = config->writers == STRATA_RING_WRITERS_RSEQ &&
				     config->buffers == STRATA_RING_PER_CPU && !attr->no_rseq &&
				     (attr->rseq_elsewhere || strata_rseq_available()) ?
			     STRATA_ABI_RING_BY_POSITION :
			     STRATA_ABI_RING_BY_COMMIT;
	h->global = config->buffers == STRATA_RING_GLOBAL;
	h->nr_streams = h->global ? 1 : attr->nr_cpus ? attr->nr_cpus : strata_ring_possible_cpus();
	h->subbuf_bytes = attr->subbuf_bytes;
	h->nr_subbufs = (uint32_t)attr->nr_subbufs;
	h->header_bytes = attr->header_bytes;
	h->record_align = config->record_align;
	h->start_position = attr->start_position;
	if (h->subbuf_bytes <= STRATA_ABI_RING_SUBBUF_BYTES_MAX) {
		l = strata_ring_layout(h->subbuf_bytes, h->nr_subbufs);
		h->stream_stride = l.stride;
		h->total_bytes = STRATA_ABI_RING_PAGE + h->nr_streams * l.stride;
	}
	return strata_ring_header_check(h, error);
}

/**
 * strata_ring_channel_format() - make the channel in @c->memory, described by @c->header and attached,
 * empty. The memory holds zeros.
 *
 * Context: any, before another process or thread uses the channel.
 * Ordering: the magic number is stored last, with RELEASE, for who finds the memory by itself.
 * Checked: test: memory open; bpf.
 */
STRATA_FUNC void strata_ring_channel_format(struct strata_ring_channel *c)
{
	uint32_t i;

	for (i = 0; i < c->header.nr_streams; i++)
		strata_ring_stream_init(&c->streams.stream[i], c->header.start_position);
	memcpy(c->memory, &c->header, sizeof(c->header));
	/* The magic number last: who finds it finds a whole channel. */
	c->header.magic = STRATA_ABI_RING_MAGIC;
	__atomic_store_n((uint64_t *)c->memory, c->header.magic, __ATOMIC_RELEASE);
}

/**
 * strata_ring_channel_stream() - the stream of @cpu (0 for a global buffer).
 *
 * Returns NULL, with the range in @error, for a number that is negative or too large.
 * Context: any; a signal handler with @error NULL.
 * Ordering: none: private memory; what the stream points to is not looked at.
 * Checked: test: config.
 */
STRATA_FUNC struct strata_ring_stream *
strata_ring_channel_stream(const struct strata_ring_channel *c, int cpu,
			   struct strata_ring_error *error)
{
	if (cpu < 0 || (uint32_t)cpu >= c->streams.nr) {
		(void)STRATA_RING_REFUSE(error, EINVAL, "CPU number: %d is not from 0 to %u", cpu,
					 c->streams.nr - 1);
		return NULL;
	}
	return &c->streams.stream[cpu];
}

#endif /* STRATA_RING_DESCRIBE_H */
