/* SPDX-License-Identifier: MIT */
/*
 * channel.h - memory of a channel: create it, close it. open.h opens somebody else's.
 *
 * Three kinds of memory: anonymous (this process and its threads), a sealed memfd (other processes can
 * map it), a file (is still there after the process, and after the machine if its file system is). A
 * BPF map or a driver's memory is the client's: strata_ring_stream_attach().
 *
 * Pages are touched as records are written: a CPU that never writes costs address space only (not
 * with a file, whose blocks are allocated at once, so that a full disk is an error here and not a
 * SIGBUS in a producer).
 */
#ifndef STRATA_RING_CHANNEL_H
#define STRATA_RING_CHANNEL_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strata/ring/limits.h>
#include <strata/ring/publish.h>
#include <strata/ring/stream.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux, for when the program was not compiled with _GNU_SOURCE. */
#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS 0x20
#endif
#define STRATA_RING_MFD_CLOEXEC	      1u
#define STRATA_RING_MFD_ALLOW_SEALING 2u
#define STRATA_RING_F_ADD_SEALS	      1033
#define STRATA_RING_F_SEAL_SHRINK     2

enum strata_ring_memory {
	STRATA_RING_ANONYMOUS = 0,
	STRATA_RING_MEMFD = 1,
	STRATA_RING_FILE = 2,
};

/* What is chosen at run time. Zero means the default, but for the sizes. */
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
 * strata_ring_possible_cpus() - how many CPUs the machine may ever have, offline ones included.
 *
 * Returns the largest number that the kernel may give, plus 1; at least 1.
 * Context: not a signal handler.
 * Checked: test: config.
 */
STRATA_FUNC uint32_t strata_ring_possible_cpus(void)
{
	FILE *f = fopen("/sys/devices/system/cpu/possible", "re");
	unsigned last = 0, n;
	long configured;
	int c;

	if (f) {
		/* "0-3,8-11": the largest number is the last. */
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
}

STRATA_INLINE int strata_ring_memfd(const char *name)
{
	return (int)syscall(SYS_memfd_create, name,
			    STRATA_RING_MFD_CLOEXEC | STRATA_RING_MFD_ALLOW_SEALING);
}

/**
 * strata_ring_channel_attach() - describe the streams of mapped memory.
 * @c: memory and header are set, and the header was checked (strata_ring_header_check()).
 *
 * Returns 0; -ENOMEM with @error filled. What it allocates is freed with @c->streams.stream.
 * Context: not a signal handler.
 * Checked: test: config open memory; bpf.
 */
STRATA_FUNC int strata_ring_channel_attach(struct strata_ring_channel *c,
					   struct strata_ring_error *error)
{
	uint32_t i;

	c->streams.nr = c->header.nr_streams;
	c->streams.first = (unsigned char *)c->memory + STRATA_ABI_RING_PAGE;
	c->streams.stride = c->header.stream_stride;
	c->streams.stream = (struct strata_ring_stream *)calloc(c->header.nr_streams,
								sizeof(*c->streams.stream));
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
 * strata_ring_channel_close() - unmap the channel. Its file, and others' mappings, stay.
 *
 * Context: not a signal handler; no thread of this process uses the channel any more.
 * Checked: test: memory config.
 */
STRATA_FUNC void strata_ring_channel_close(struct strata_ring_channel *c)
{
	if (c->memory)
		munmap(c->memory, (size_t)c->header.total_bytes);
	if (c->fd >= 0)
		close(c->fd);
	free(c->streams.stream);
	memset(c, 0, sizeof(*c));
	c->fd = -1;
}

/* Memory for @c->header.total_bytes of zeros; sets memory and fd. */
STRATA_FUNC int strata_ring_channel_allocate(struct strata_ring_channel *c,
					     const struct strata_ring_attr *attr,
					     struct strata_ring_error *error)
{
	unsigned long long total = (unsigned long long)c->header.total_bytes;
	const char *what = attr->memory == STRATA_RING_FILE ? attr->path : "memfd";
	int flags = MAP_SHARED, code = 0;
	void *probe;

	if (attr->memory == STRATA_RING_MEMFD) {
		/* Its pages count when they are touched; as many private ones are refused at once. */
		probe = mmap(NULL, (size_t)total, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (probe == MAP_FAILED || munmap(probe, (size_t)total))
			return STRATA_RING_REFUSE(error, ENOMEM,
						  "channel: no memory for %llu bytes", total);
	}
	if (attr->memory == STRATA_RING_ANONYMOUS) {
		flags |= MAP_ANONYMOUS;
	} else {
		c->fd = attr->memory == STRATA_RING_MEMFD ?
				strata_ring_memfd("strata-ring") :
				open(attr->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (c->fd < 0)
			return STRATA_RING_REFUSE(error, errno, "channel: cannot create %s: %s",
						  what, strerror(errno));
		if (attr->memory == STRATA_RING_FILE)
			do {
				code = posix_fallocate(c->fd, 0, (off_t)total);
			} while (code == EINTR);
		else if (ftruncate(c->fd, (off_t)total) ||
			 fcntl(c->fd, STRATA_RING_F_ADD_SEALS, STRATA_RING_F_SEAL_SHRINK))
			code = errno;
		if (code)
			return STRATA_RING_REFUSE(error, code,
						  "channel: cannot make %s %llu bytes long: %s",
						  what, total, strerror(code));
	}
	c->memory = mmap(NULL, (size_t)total, PROT_READ | PROT_WRITE, flags, c->fd, 0);
	if (c->memory == MAP_FAILED) {
		code = errno;
		c->memory = NULL;
		return STRATA_RING_REFUSE(error, code, "channel: cannot map %llu bytes: %s", total,
					  strerror(code));
	}
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
	if ((unsigned)config->writers > STRATA_RING_WRITERS_SMP ||
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
 * strata_ring_channel_create() - allocate a channel and make it empty.
 * @config: the client's constant configuration.
 * @attr:   sizes and memory.
 * @c:      out; closed (and @error filled) if it fails.
 * @error:  out, may be NULL: which value was refused, and the limit.
 *
 * Returns 0; -EINVAL: a value outside its limits; -ENOMEM, -EEXIST, -ENOSPC, ...: what the system said.
 * Context: not a signal handler.
 * Checked: test: config memory.
 */
STRATA_FUNC int strata_ring_channel_create(const struct strata_ring_config *config,
					   const struct strata_ring_attr *attr,
					   struct strata_ring_channel *c,
					   struct strata_ring_error *error)
{
	int code;

	memset(c, 0, sizeof(*c));
	c->fd = -1;
	if ((unsigned)attr->memory > STRATA_RING_FILE ||
	    (attr->memory == STRATA_RING_FILE && !attr->path))
		return STRATA_RING_REFUSE(error, EINVAL,
					  "memory: kind %d is unknown, or a file without a path",
					  (int)attr->memory);
	code = strata_ring_channel_describe(config, attr, &c->header, error);
	if (!code)
		code = strata_ring_channel_allocate(c, attr, error);
	if (!code)
		code = strata_ring_channel_attach(c, error);
	if (code) {
		if (attr->memory == STRATA_RING_FILE && c->fd >= 0)
			unlink(attr->path);
		strata_ring_channel_close(c);
		return code;
	}
	strata_ring_channel_format(c);
	return 0;
}

/**
 * strata_ring_channel_stream() - the stream of @cpu (0 for a global buffer).
 *
 * Returns NULL, with the range in @error, for a number that is negative or too large.
 * Context: any; a signal handler with @error NULL.
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

#endif /* STRATA_RING_CHANNEL_H */
