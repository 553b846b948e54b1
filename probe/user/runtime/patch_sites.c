/* SPDX-License-Identifier: MIT */
/*
 * patch_sites.c - change the opcodes of the process' own call sites: before main() for a session that it was
 * started with, and for objects whose sites test a flag. Everybody else is patched by the tracer.
 *
 * /proc/self/mem writes to a private copy of the page without ever making code writable; where that is
 * refused or there is no /proc, mprotect() is tried.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime.h"

int strata_patch_begin(void)
{
	return open("/proc/self/mem", O_RDWR | O_CLOEXEC);
}

void strata_patch_end(int memory)
{
	if (memory >= 0)
		close(memory);
}

static int patch_by_mprotect(unsigned char *code, unsigned char opcode)
{
	void *page = code - ((uintptr_t)code % STRATA_ABI_RING_PAGE);

	if (mprotect(page, STRATA_ABI_RING_PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
		return -errno;
	__atomic_store_n(code, opcode, __ATOMIC_RELAXED);
	/* If this fails the page stays as it is: the program goes on. */
	return mprotect(page, STRATA_ABI_RING_PAGE, PROT_READ | PROT_EXEC) ? -errno : 0;
}

int strata_patch_site(int memory, const struct strata_abi_user_site *site, unsigned char opcode)
{
	unsigned char *code = (unsigned char *)(uintptr_t)site->address;

	if (*code == opcode)
		return 0;
	if (memory >= 0 && pwrite(memory, &opcode, 1, (off_t)site->address) == 1)
		return 0;
	return patch_by_mprotect(code, opcode);
}
