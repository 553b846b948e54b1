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

#include <fcntl.h>
#include <strata/ring/describe.h>
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

STRATA_INLINE int strata_ring_memfd(const char *name)
{
	return (int)syscall(SYS_memfd_create, name,
			    STRATA_RING_MFD_CLOEXEC | STRATA_RING_MFD_ALLOW_SEALING);
}

/**
 * strata_ring_channel_close() - unmap the channel. Its file, and others' mappings, stay.
 *
 * Context: not a signal handler; no thread of this process uses the channel any more.
 * Ordering: none: private memory; what is mapped is neither read nor written. The caller has the
 *           other threads' last accesses before it.
 * Checked: test: memory config.
 */
STRATA_FUNC void strata_ring_channel_close(struct strata_ring_channel *c)
{
	if (c->memory)
		munmap(c->memory, (size_t)c->header.total_bytes);
	if (c->fd >= 0)
		close(c->fd);
	STRATA_RING_FREE(c->streams.stream);
	memset(c, 0, sizeof(*c));
	c->fd = -1;
}

/* Allocates @c->header.total_bytes bytes of zeros; sets memory and fd. */
STRATA_FUNC int strata_ring_channel_allocate(struct strata_ring_channel *c,
					     const struct strata_ring_attr *attr,
					     struct strata_ring_error *error)
{
	unsigned long long total = (unsigned long long)c->header.total_bytes;
	const char *what = attr->memory == STRATA_RING_FILE ? attr->path : "memfd";
	int flags = MAP_SHARED, code = 0;
	void *probe;

	if (attr->memory == STRATA_RING_MEMFD) {
		/*
		 * Pages of a shared mapping count when they are touched; as many private ones are refused
		 * at once.
		 */
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
 * strata_ring_channel_create() - allocate a channel and make it empty.
 * @config: the client's constant configuration.
 * @attr:   sizes and memory.
 * @c:      out; closed (and @error filled) if it fails.
 * @error:  out, may be NULL: which value was refused, and the limit.
 *
 * Returns 0; -EINVAL: a value outside its limits; -ENOMEM, -EEXIST, -ENOSPC, ...: what the system said.
 * Context: not a signal handler.
 * Ordering: as strata_ring_channel_format().
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

#endif /* STRATA_RING_CHANNEL_H */
