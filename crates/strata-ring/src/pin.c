/* SPDX-License-Identifier: MIT */
/*
 * pin.c - memory that stays where it is. A page of a file in memory may be swapped out, and be moved to make room for
 * large ones, locked (mlock()) or not; one that is a registered buffer of io_uring may not.
 */
#include "shim.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The kernel takes no larger buffer. */
#define PIN_BYTES_MAX (1ull << 30)

static int pin_register(int fd, unsigned opcode, const void *arg, unsigned bytes)
{
	return syscall(SYS_io_uring_register, fd, opcode, arg, bytes) < 0 ? -errno : 0;
}

/* A descriptor that can hold so many buffers; none of them is there yet. */
int strata_shim_pins(uint32_t slots)
{
	struct io_uring_params params;
	struct io_uring_rsrc_register table;
	int fd, code;

	memset(&params, 0, sizeof(params));
	memset(&table, 0, sizeof(table));
	fd = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (fd < 0)
		return -errno;
	table.nr = slots;
	table.flags = IORING_RSRC_REGISTER_SPARSE;
	code = pin_register(fd, IORING_REGISTER_BUFFERS2, &table, sizeof(table));
	if (code) {
		close(fd);
		return code;
	}
	return fd;
}

/* With @bytes 0 the slot releases the memory that it pinned. */
int strata_shim_pin(int fd, uint32_t slot, void *address, uint64_t bytes)
{
	struct iovec buffer = { bytes ? address : NULL, (size_t)bytes };
	struct io_uring_rsrc_update2 update;
	uint64_t tag = 0;
	long n;

	if (bytes > PIN_BYTES_MAX)
		return -EFBIG;
	memset(&update, 0, sizeof(update));
	update.offset = slot;
	update.data = (uint64_t)(uintptr_t)&buffer;
	update.tags = (uint64_t)(uintptr_t)&tag;
	update.nr = 1;
	n = syscall(SYS_io_uring_register, fd, IORING_REGISTER_BUFFERS_UPDATE, &update,
		    sizeof(update));
	return n == 1 ? 0 : n < 0 ? -errno : -EINVAL;
}

void strata_shim_pins_close(int fd)
{
	close(fd);
}
