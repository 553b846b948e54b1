/* SPDX-License-Identifier: MIT */
/*
 * kernel.h - a channel in a kernel's memory, and the stream of the CPU that runs: what channel.h and record.h are
 * to programs. For modules; the headers are otherwise the same. Included by record.h only.
 *
 * The memory is vmalloc_user()'s: zeros, and whole pages that a device's mmap() may give to a reader, each stream at
 * STRATA_ABI_RING_PAGE + cpu * stride. Who writes, with writers LOCAL or UNORDERED, does so between preempt_disable()
 * and preempt_enable(), or in an interrupt.
 */
#ifndef STRATA_RING_KERNEL_H
#define STRATA_RING_KERNEL_H

#include <linux/smp.h>
#include <strata/ring/describe.h>

/**
 * strata_ring_channel_close() - free the channel.
 *
 * Context: a thread; nobody writes any more, and nobody has it mapped.
 * Ordering: none: private memory; the caller has the others' last accesses before it.
 * Checked: module.
 */
STRATA_FUNC void strata_ring_channel_close(struct strata_ring_channel *c)
{
	vfree(c->memory);
	STRATA_RING_FREE(c->streams.stream);
	memset(c, 0, sizeof(*c));
	c->fd = -1;
}

/**
 * strata_ring_channel_create() - allocate a channel and make it empty.
 * @attr: sizes; its kind of memory is not looked at.
 *
 * Returns 0; -EINVAL: a value outside its limits; -ENOMEM.
 * Context: a thread.
 * Ordering: as strata_ring_channel_format().
 * Checked: module.
 */
STRATA_FUNC int strata_ring_channel_create(const struct strata_ring_config *config,
					   const struct strata_ring_attr *attr,
					   struct strata_ring_channel *c,
					   struct strata_ring_error *error)
{
	int code;

	memset(c, 0, sizeof(*c));
	c->fd = -1;
	code = strata_ring_channel_describe(config, attr, &c->header, error);
	if (code)
		return code;
	c->memory = vmalloc_user(c->header.total_bytes);
	if (!c->memory)
		return STRATA_RING_REFUSE(error, ENOMEM, "channel: no memory for %llu bytes",
					  (unsigned long long)c->header.total_bytes);
	code = strata_ring_channel_attach(c, error);
	if (code)
		strata_ring_channel_close(c);
	else
		strata_ring_channel_format(c);
	return code;
}

/**
 * strata_ring_current_stream() - the stream of this CPU.
 *
 * Returns a stream of @c, never NULL: it has one for each possible CPU.
 * Context: the CPU does not change until the record is committed.
 * Ordering: none: private memory; what the stream points to is not looked at.
 * Checked: module.
 */
STRATA_INLINE struct strata_ring_stream *
strata_ring_current_stream(const struct strata_ring_config *config,
			   const struct strata_ring_channel *c)
{
	uint32_t cpu = config->buffers == STRATA_RING_GLOBAL ? 0 : (uint32_t)smp_processor_id();

	return &c->streams.stream[strata_likely(cpu < c->streams.nr) ? cpu : 0];
}

#endif /* STRATA_RING_KERNEL_H */
