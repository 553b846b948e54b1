/* SPDX-License-Identifier: MIT */
/*
 * open.h - map a channel that another process, or a former one, has created: what it says is
 * hostile.
 */
#ifndef STRATA_RING_OPEN_H
#define STRATA_RING_OPEN_H

#include <strata/ring/channel.h>

#define STRATA_RING_F_GET_SEALS 1034

/**
 * strata_ring_channel_open() - map a channel that another process, or a former one, has created.
 * @fd:     memfd or file; duplicated, stays the caller's.
 * @sealed: 1: refuse memory that its owner could shrink under us (a memfd without F_SEAL_SHRINK).
 *
 * The channel's header is hostile: it is copied, and the copy checked.
 *
 * Returns 0; -EPROTO: not a channel, or of another version or byte order; -EINVAL: a value outside
 * its limits; -EACCES: not sealed; others: what the system said.
 * Context: not a signal handler.
 * Ordering: no ACQUIRE: the header is copied by pread(). Who hands @fd on does so after
 *           strata_ring_channel_create(), and orders it.
 * Checked: test: open memory kill.
 */
STRATA_FUNC int strata_ring_channel_open(int fd, int sealed, struct strata_ring_channel *c,
					 struct strata_ring_error *error)
{
	struct strata_abi_ring_channel *h = &c->header;
	struct stat status;
	int code, seals;
	ssize_t got;

	memset(c, 0, sizeof(*c));
	c->fd = -1;
	seals = fcntl(fd, STRATA_RING_F_GET_SEALS);
	if (sealed && (seals < 0 || !(seals & STRATA_RING_F_SEAL_SHRINK)))
		return STRATA_RING_REFUSE(error, EACCES,
					  "channel: the memory is not sealed against shrinking");
	got = fstat(fd, &status) ? -1 : pread(fd, h, sizeof(*h), 0);
	if (got < 0)
		return STRATA_RING_REFUSE(error, errno,
					  "channel: cannot read file descriptor %d: %s", fd,
					  strerror(errno));
	if (got != (ssize_t)sizeof(*h))
		return STRATA_RING_REFUSE(
			error, EPROTO, "channel: shorter than its header of %zu bytes", sizeof(*h));
	if (h->magic != STRATA_ABI_RING_MAGIC)
		return STRATA_RING_REFUSE(error, EPROTO,
					  "channel: magic number is 0x%016llx, not 0x%016llx%s",
					  (unsigned long long)h->magic,
					  (unsigned long long)STRATA_ABI_RING_MAGIC,
					  h->magic == __builtin_bswap64(STRATA_ABI_RING_MAGIC) ?
						  " (other byte order)" :
						  "");
	if (h->version != STRATA_ABI_RING_VERSION)
		return STRATA_RING_REFUSE(error, EPROTO,
					  "channel: layout version %u, this library reads %u",
					  h->version, STRATA_ABI_RING_VERSION);
	code = strata_ring_header_check(h, error);
	if (code)
		return code;
	if ((uint64_t)status.st_size < h->total_bytes)
		return STRATA_RING_REFUSE(error, EPROTO,
					  "channel: %lld bytes, but its header says %llu",
					  (long long)status.st_size,
					  (unsigned long long)h->total_bytes);
	c->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (c->fd < 0)
		return STRATA_RING_REFUSE(error, errno,
					  "channel: cannot keep file descriptor %d: %s", fd,
					  strerror(errno));
	c->memory = mmap(NULL, (size_t)h->total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (c->memory == MAP_FAILED) {
		code = errno;
		c->memory = NULL;
		strata_ring_channel_close(c);
		return STRATA_RING_REFUSE(error, code, "channel: cannot map it: %s",
					  strerror(code));
	}
	code = strata_ring_channel_attach(c, error);
	if (code)
		strata_ring_channel_close(c);
	return code;
}

/**
 * strata_ring_channel_check_producer() - may this process write to an opened channel with @config?
 *
 * Returns 0, or -EINVAL: the channel was created for another way of writing, and records would be
 * discarded or, worse, be believed to be there. A producer trusts the channel's memory from here
 * on.
 * Context: any; a signal handler with @error NULL.
 * Ordering: none: private memory.
 * Checked: test: client.
 */
STRATA_FUNC int strata_ring_channel_check_producer(const struct strata_ring_config *config,
						   const struct strata_ring_channel *c,
						   struct strata_ring_error *error)
{
	const struct strata_abi_ring_channel *h = &c->header;

	if (h->publish == STRATA_ABI_RING_BY_POSITION &&
	    (config->writers != STRATA_RING_WRITERS_RSEQ || !strata_rseq_available()))
		return STRATA_RING_REFUSE(
			error, EINVAL,
			"channel: published by write position, which needs writers RSEQ "
			"(now %d) and a libc that registers rseq (now %s)",
			(int)config->writers, strata_rseq_available() ? "yes" : "no");
	if (h->loss_mode != (uint32_t)config->loss_mode ||
	    h->record_align != config->record_align ||
	    h->global != (config->buffers == STRATA_RING_GLOBAL))
		return STRATA_RING_REFUSE(
			error, EINVAL,
			"channel: loss mode %u, alignment %u, global %u; the configuration says %d, %u, %d",
			h->loss_mode, h->record_align, h->global, (int)config->loss_mode,
			config->record_align, config->buffers == STRATA_RING_GLOBAL);
	return 0;
}

/**
 * strata_ring_channel_open_producer() - strata_ring_channel_open(), for a process that writes with
 * @config.
 *
 * Returns as strata_ring_channel_open(), then as strata_ring_channel_check_producer(); @c is closed
 * if it fails.
 * Context: not a signal handler.
 * Ordering: as strata_ring_channel_open().
 * Checked: test: client.
 */
STRATA_FUNC int strata_ring_channel_open_producer(const struct strata_ring_config *config, int fd,
						  int sealed, struct strata_ring_channel *c,
						  struct strata_ring_error *error)
{
	int code = strata_ring_channel_open(fd, sealed, c, error);

	if (code)
		return code;
	code = strata_ring_channel_check_producer(config, c, error);
	if (code)
		strata_ring_channel_close(c);
	return code;
}

#endif /* STRATA_RING_OPEN_H */
