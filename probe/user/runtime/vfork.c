/* SPDX-License-Identifier: MIT */
/*
 * vfork.c - records between vfork() and exec. The child has its parent's memory, and with it the parent's struct rseq,
 * where the kernel has registered none for the child. Were the child registered there, the kernel might not say
 * again, once the parent goes on, on which CPU that is: it need not have changed for the parent. So the
 * child registers an area of its own. It lies beside the parent's, at the same distance from the thread pointer
 * in all threads, and nobody else ever uses it.
 */
#include <stddef.h>

#if defined(__x86_64__) && !defined(__ILP32__)

#include "thread_memory.h"

/* The smallest size and alignment that the kernel accepts for an area. */
struct strata_vforked_area {
	_Alignas(32) unsigned char bytes[32];
};

static STRATA_OF_THREAD struct strata_vforked_area area;

#define STRATA_RSEQ_OFFSET ((const char *)&area - (const char *)__builtin_thread_pointer())

#include <sys/syscall.h>

#include "thread.h"
#include "write.h"

/* The word that must precede an abort handler: see rseq_x86_64.h. */
#define RSEQ_SIGNATURE 0x53053053

/*
 * Registers the area for this child, and asks each time: what the area says may have been said for another child. Not
 * for a child's child, which would leave its own CPU there, and not where a system call may be the child's end. Returns
 * 0, or -ESTALE: this is the parent, in a handler just before or after vfork(), and libc's registration holds.
 */
static int register_area(void)
{
#ifdef STRATA_RSEQ_NATIVE
	int saved = errno, code = 0;

	if (strata_thread_noted() != STRATA_THREAD_VFORKED ||
	    __atomic_load_n(&strata_runtime.shut_in, __ATOMIC_RELAXED))
		return -ENXIO;
	/* A child may have died within a section; what it left in rseq_cs has no meaning for this child. */
	memset(area.bytes + 8, 0, 8);
	if (strata_syscall(SYS_rseq, &area, sizeof(area), 0, RSEQ_SIGNATURE) && errno != EBUSY)
		code = errno == EINVAL ? -ESTALE : -ENXIO;
	errno = saved;
	return code;
#else
	return -ESTALE;
#endif
}

/*
 * Writes a record by strata_user_write(), with an area of the child's own. A record that it cannot
 * write is counted.
 */
int strata_vforked_write(const struct strata_user_channel *channel,
			 const struct strata_ring_event *event, unsigned char *payload)
{
	int code = 0;

	if (channel->ring.header.publish == STRATA_ABI_RING_BY_POSITION)
		code = register_area();
	if (!code)
		code = strata_user_write(channel, event, payload);
	else if (code == -ENXIO)
		strata_add_relaxed(&strata_runtime.sessions[channel->slot].discarded_unmapped, 1);
	return code;
}

#endif
