/* SPDX-License-Identifier: MIT */
/*
 * uprobe.bpf.c - records a hit of any instruction of a program or library, as its constant `event` says.
 *
 * The tracer loads one copy of this program for each probe (tracepoint.bpf.c is made in the same way). Before loading it sets
 * constants, which the verifier then treats as such: the parts of the record (`event.part`), each with its kind and the
 * register or address it comes from; how many parts are strings; and for a jump, which hits leave the function (`guard`).
 *
 *   hit ─ is it on? ─ guard ─ filter ─ lengths of strings ─ reserve ─ write parts ─ commit
 *
 * The length of a string is known only when it was read, and a record can be reserved only when all lengths are known. And
 * the kernel may preempt this program, so memory of a CPU could have two users. So strings are read into a slot that is
 * taken and given back.
 *
 * User memory may be in no page yet. Compiled for STRATA_KERNEL_SLEEPABLE, the program waits for the page, which Linux 6.0
 * and later allow; the other variant is for older kernels. It waits for disks and swap only, and not for another process,
 * which may never answer: see look_at_memory(). A text that cannot be read is recorded as its address.
 */
#include "record.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Total size of the payload without the bytes of its strings, but with their lengths [byte]. */
const volatile uint32_t fixed_bytes SEC(".rodata.fixed");
const volatile uint32_t nr_strings SEC(".rodata.strings");

/*
 * Hits of a jump that count: those that leave the function.
 *   guard[0]   GUARD_*; 0: all count
 *   guard[1]   CONDITION: as strata_arch_is_taken() has it; else the register with the target, or with
 *              the base of its address
 *   guard[2-4] MEMORY: index, scale (0: there is no index), addend
 *   guard[5-]  what the function consists of: begin and end of each piece, relative to the jump
 */
#define GUARD_CONDITION 1u
#define GUARD_REGISTER	2u
#define GUARD_MEMORY	3u
#define GUARD_PIECES	4u
const volatile uint64_t guard[5 + 2 * GUARD_PIECES] SEC(".rodata.guard");

#define NR_SLOTS   64u
#define SLOT_TRIES 8u

/* "0x", 16 digits, NUL [byte] */
#define ADDRESS_TEXT 19u
/* The longest text [byte], as one with its NUL has STRATA_ABI_KERNEL_TEXT_MAX. */
#define TEXT_BYTES_MAX (STRATA_ABI_KERNEL_TEXT_MAX - 1)
/* Stands for the size of a text that ends at its NUL. */
#define TO_NUL	   (~0ull)
#define UNREADABLE (~1ull)
/* Limit on all texts of a record together, so that no field begins after TEXT_BEGIN_MAX [byte]. */
#define TEXTS_MAX 2800u
STRATA_ABI_ASSERT(TEXTS_MAX + 10 * STRATA_ABI_KERNEL_PARTS_MAX <= STRATA_TEXT_BEGIN_MAX,
		  "a length and up to 8 bytes of each part");

/*
 * Mask for the begin of a part in a record. A mask and no comparison: the compiler keeps copies of a number, and
 * Linux 5.15 knows no bounds of copies that it has not compared.
 */
#define PLACE_MASK 4095u
STRATA_ABI_ASSERT(STRATA_TEXT_BEGIN_MAX <= PLACE_MASK, "no place changes by the mask");

struct slot {
	uint32_t is_taken;
	uint32_t reserved;
	char bytes[PLACE_MASK + 1 + STRATA_ABI_KERNEL_TEXT_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_SLOTS);
	__type(key, uint32_t);
	__type(value, struct slot);
} slots SEC(".maps");

STRATA_INLINE struct slot *slot_at(uint64_t slot)
{
	uint32_t key = (uint32_t)slot;

	return (struct slot *)bpf_map_lookup_elem(&slots, &key);
}

/* Takes a free slot of the CPU. Returns its number, or NR_SLOTS if none is free. */
STRATA_INLINE uint64_t take_slot(uint32_t cpu)
{
	struct slot *slot;
	uint32_t i, key;

	for (i = 0; i < SLOT_TRIES; i++) {
		key = (cpu + i) & (NR_SLOTS - 1);
		slot = slot_at(key);
		if (slot && !__sync_lock_test_and_set(&slot->is_taken, 1))
			return key;
	}
	return NR_SLOTS;
}

STRATA_INLINE void give_slot(uint64_t number)
{
	struct slot *slot = number < NR_SLOTS ? slot_at(number) : NULL;

	if (!slot)
		return;
	/* Another CPU may take it next: what was read there has been read. */
	STRATA_ATOMIC_FENCE(__ATOMIC_RELEASE);
	*(volatile uint32_t *)&slot->is_taken = 0;
}

/* The format of an address that replaces a text which cannot be read, as in strace. */
const char address_format[] SEC(".rodata.format") = "0x%llx";
const char whole_address_format[] SEC(".rodata.whole") = "0x%016llx";

STRATA_INLINE int is_string(uint64_t kind)
{
	return kind == STRATA_ABI_KERNEL_STRING || kind == STRATA_ABI_KERNEL_STRING_AT;
}

STRATA_INLINE uint64_t read_register(const char *registers, uint64_t offset)
{
	uint64_t value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), registers + offset);
	return value;
}

STRATA_INLINE void count_unreadable(void)
{
	__sync_fetch_and_add(&control.unreadable, 1);
}

/* Returns the address that parts of the kinds MEMORY and STRING_AT read. */
STRATA_INLINE uint64_t memory_address(const char *registers, uint32_t i)
{
	uint64_t address = (uint64_t)event.part[i].addend;

	if (event.part[i].offset != STRATA_ABI_KERNEL_NO_REGISTER)
		address += read_register(registers, event.part[i].offset);
	if (event.part[i].scale)
		address += event.part[i].scale * read_register(registers, event.part[i].index);
	return address;
}

#ifdef STRATA_KERNEL_SLEEPABLE
#define FUSE_MAGIC 0x65735546u /* FUSE_SUPER_MAGIC */
#define SHM_MAGIC  0x01021994u /* TMPFS_MAGIC */

/* The result of look_at_memory(): 1 if the kernel fills the memory without another process. */
struct page_source {
	uint64_t is_kernel;
};

/*
 * Finds out whether the kernel itself fills this memory. Memory that a process has to fill may take for ever, and is
 * not read.
 */
static long look_at_memory(struct task_struct *task, struct vm_area_struct *memory,
			   struct page_source *source)
{
	const struct file *file = memory->vm_file;
	const struct super_block *block;

	if (bpf_core_field_exists(memory->vm_userfaultfd_ctx.ctx) && memory->vm_userfaultfd_ctx.ctx)
		return 0;
	if (!file) {
		source->is_kernel = 1;
		return 0;
	}
	block = file->f_inode->i_sb;
	source->is_kernel = block->s_magic == SHM_MAGIC ||
			    (block->s_bdev && block->s_magic != FUSE_MAGIC);
	return 0;
}

/*
 * Returns 1 if the program may wait for the page at @address. While it waits, the kernel cannot detach probes. So it waits
 * for disks and swap, and for no other process: not for userfaultfd, FUSE, or a server of files.
 */
static __attribute__((noinline)) int may_wait_for(uint64_t address)
{
	struct page_source source = { 0 };
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	bpf_find_vma(task, address, look_at_memory, &source, 0);
	return source.is_kernel != 0;
}
#endif

/*
 * Brings the page at @address into memory. Returns 0 if it is there.
 *
 * The process waits as if it had read the page itself.
 */
STRATA_INLINE int fetch_page(uint64_t address)
{
#ifdef STRATA_KERNEL_SLEEPABLE
	char byte;

	return !may_wait_for(address) || bpf_copy_from_user(&byte, 1, (const void *)address);
#else
	return 1;
#endif
}

STRATA_INLINE int read_user(void *to, uint64_t n, uint64_t address)
{
	uint64_t page = address, i;

	/* At most TEXT_MAX bytes, in two pages. */
	for (i = 0; i < 3; i++) {
		if (!strata_read_user(to, n, (const void *)address))
			return 0;
		if (i == 2 || fetch_page(page))
			break;
		page = address + n - 1;
	}
	return 1;
}

/*
 * Finds the address of a string. Returns 1 if that could not be read; @address is then the place of
 * the address.
 */
STRATA_INLINE int string_address(const char *registers, uint32_t i, uint64_t *address)
{
	uint64_t value = 0;

	if (event.part[i].kind == STRATA_ABI_KERNEL_STRING) {
		*address = read_register(registers, event.part[i].offset);
		return 0;
	}
	*address = memory_address(registers, i);
	if (read_user(&value, sizeof(value), *address))
		return 1;
	*address = value;
	return 0;
}

/*
 * Reads a text that ends with a NUL and lies in at most two pages. Returns its bytes with the NUL, or a negative
 * errno.
 */
static __attribute__((noinline)) long read_to_nul(char *to, uint64_t address)
{
	uint64_t page = address, i;
	long n = 0;

	for (i = 0; i < 3; i++) {
		n = bpf_probe_read_user_str(to, STRATA_ABI_KERNEL_TEXT_MAX, (const void *)address);
		if (n > 0 || i == 2 || fetch_page(page))
			break;
		page = (address | 4095) + 1;
	}
	return n;
}

/*
 * Reads the number in part @i, which may be the length of a text. Returns 1 if it is no length:
 * there is no number, it cannot be read, or it is negative.
 */
STRATA_INLINE int read_length(const char *registers, uint32_t i, uint64_t is_signed, uint64_t *to)
{
	uint64_t n = event.part[i].bytes, unused_bits = 64 - 8 * n;
	uint64_t value = 0;

	if (event.part[i].kind == STRATA_ABI_KERNEL_CONSTANT) {
		value = (uint64_t)event.part[i].addend;
	} else if (!n || n > 8) {
		return 1;
	} else if (event.part[i].kind == STRATA_ABI_KERNEL_REGISTER) {
		strata_read_kernel(&value, n, registers + event.part[i].offset);
	} else if (read_user(&value, n, memory_address(registers, i))) {
		return 1;
	}
	if (is_signed && n < 8)
		value = (uint64_t)((int64_t)(value << unused_bits) >> unused_bits);
	*to = value;
	return is_signed && (int64_t)value < 0;
}

/* Returns the number of bytes of part @i's text, or TO_NUL, or UNREADABLE. */
STRATA_INLINE uint64_t text_length(const char *registers, uint32_t i)
{
	uint64_t length = event.part[i].bytes, at = (length - 1) & STRATA_ABI_KERNEL_LENGTH_PART;
	uint64_t n = length & STRATA_ABI_KERNEL_LENGTH_PART;

	if (!length)
		return TO_NUL;
	if (!(length & STRATA_ABI_KERNEL_LENGTH_NUMBER) &&
	    (at >= STRATA_ABI_KERNEL_PARTS_MAX ||
	     read_length(registers, at, length & STRATA_ABI_KERNEL_LENGTH_SIGNED, &n)))
		return UNREADABLE;
	return n > TEXT_BYTES_MAX ? TEXT_BYTES_MAX + 1 : n;
}

/* Reads a text of @n bytes. Returns the number of bytes that were read; -1 if it cannot be read. */
STRATA_INLINE long read_sized(char *to, uint64_t n, uint64_t address)
{
	if (n > TEXT_BYTES_MAX) {
		__sync_fetch_and_add(&control.cut, 1);
		n = TEXT_BYTES_MAX;
	}
	/* Makes the compiler bound the register that is used. */
	__asm__ volatile("" : "+r"(n));
	n &= STRATA_ABI_KERNEL_TEXT_MAX - 1;
	return n && read_user(to, n, address) ? -1 : (long)n;
}

/* Writes the address of a text that cannot be read, in place of the text. Returns the number of bytes. */
static __attribute__((noinline)) long write_address(char *to, uint64_t address)
{
	__u64 data = address;
	long n = bpf_snprintf(to, ADDRESS_TEXT, address_format, &data, sizeof(data));

	return n > 1 && n <= (long)ADDRESS_TEXT ? n - 1 : 0;
}

/*
 * Writes the text at @address, without a NUL, or that address, into a slot from @at; at most @room bytes. @length: see
 * text_length(). Returns its length [byte].
 *
 * Not static, so that the verifier looks at it once, and not once more for each way through the texts before.
 */
__attribute__((noinline)) uint64_t strata_uprobe_text(uint64_t slot, uint64_t at, uint64_t room,
						      uint64_t address, uint64_t length)
{
	struct slot *texts = slot_at(slot);
	long n = -1;
	char *to;

	if (!texts)
		return 0;
	to = texts->bytes + (at & PLACE_MASK);
	if (length != UNREADABLE) {
		if (length != TO_NUL)
			n = read_sized(to, length, address);
		else if (address)
			n = read_to_nul(to, address) - 1;
		if (n == TEXT_BYTES_MAX && length == TO_NUL || n > (long)room)
			__sync_fetch_and_add(&control.cut, 1);
	}
	if (n < 0) {
		/* No string is at address 0. */
		if (address)
			count_unreadable();
		n = write_address(to, address);
	}
	return n > (long)room ? room : (uint64_t)n;
}

/* Reads the text of part @i into the slot from @at. Returns its length; without a slot, that of an address with all digits. */
STRATA_INLINE uint64_t read_text(const char *registers, uint32_t i, uint64_t slot, uint64_t at,
				 uint64_t room)
{
	uint64_t address = 0, length;

	if (slot >= NR_SLOTS) {
		count_unreadable();
		return ADDRESS_TEXT - 1;
	}
	length = text_length(registers, i);
	if (string_address(registers, i, &address))
		length = UNREADABLE;
	return strata_uprobe_text(slot, at, room, address, length) &
	       (STRATA_ABI_KERNEL_TEXT_MAX - 1);
}

/* Writes the address of the text of part @i if no slot was free to read the text into. */
STRATA_INLINE void write_whole_address(const char *registers, uint32_t i, unsigned char *to)
{
	uint64_t address = 0;
	__u64 data;

	string_address(registers, i, &address);
	data = address;
	bpf_snprintf((char *)to, ADDRESS_TEXT, whole_address_format, &data, sizeof(data));
}

/* Returns whether the payload's last part has the bits of fields that could not be read (UNREAD). */
STRATA_INLINE int has_unread(void)
{
	uint32_t last = (uint32_t)event.nr_parts - 1;

	return last < STRATA_ABI_KERNEL_PARTS_MAX &&
	       event.part[last].kind == STRATA_ABI_KERNEL_UNREAD;
}

/*
 * Returns the last part of a record whose payload has @bytes. The bits are kept in the record itself, where the
 * verifier does not follow them.
 */
STRATA_INLINE volatile uint32_t *unread_in(unsigned char *payload, uint64_t bytes)
{
	return (volatile uint32_t *)(void *)(payload + ((bytes - sizeof(uint32_t)) & PLACE_MASK));
}

/* Writes the value of part @i, which is no string. Returns 1 if it could not be read; then it is 0. */
STRATA_INLINE int write_value(unsigned char *to, const char *registers, uint32_t i, uint64_t n)
{
	uint64_t kind = event.part[i].kind, value;

	if (kind == STRATA_ABI_KERNEL_UNREAD)
		return 0;
	if (kind == STRATA_ABI_KERNEL_CONSTANT) {
		value = (uint64_t)event.part[i].addend;
		__asm__ volatile("" : : "r"(&value) : "memory");
		strata_read_kernel(to, n, &value);
		return 0;
	}
	if (kind == STRATA_ABI_KERNEL_REGISTER) {
		strata_read_kernel(to, n, registers + event.part[i].offset);
		return 0;
	}
	value = memory_address(registers, i);
	if (!read_user(to, n, value))
		return 0;
	count_unreadable();
	return 1;
}

/* Returns whether the jump leaves the function. A jump whose target cannot be read counts as one that does. */
STRATA_INLINE int leaves_function(const char *registers)
{
	uint64_t target, relative, i;

	if (!guard[0])
		return 1;
	if (guard[0] == GUARD_CONDITION)
		return strata_arch_is_taken(read_register(registers, STRATA_ARCH_FLAGS_AT),
					    guard[1]);
	target = guard[1] == STRATA_ABI_KERNEL_NO_REGISTER ? 0 : read_register(registers, guard[1]);
	if (guard[0] == GUARD_MEMORY) {
		target += guard[4];
		if (guard[3])
			target += guard[3] * read_register(registers, guard[2]);
		if (read_user(&target, sizeof(target), target)) {
			count_unreadable();
			return 1;
		}
	}
	relative = target - read_register(registers, STRATA_ARCH_IP_AT);
#pragma clang loop unroll(full)
	for (i = 0; i < GUARD_PIECES; i++) {
		if (relative - guard[5 + 2 * i] < guard[6 + 2 * i] - guard[5 + 2 * i])
			return 0;
	}
	return 1;
}

#ifdef STRATA_KERNEL_SLEEPABLE
SEC("uprobe.s")
#else
SEC("uprobe")
#endif
int strata_uprobe(const char *registers)
{
	/* Kept in memory, since there are too few registers. */
	volatile uint16_t lengths[STRATA_ABI_KERNEL_PARTS_MAX];
	struct strata_source source;
	struct strata_record r;
	uint64_t bytes = 0, at = 0, from = 0, left = nr_strings, slot = NR_SLOTS, n, room;
	struct slot *texts;
	uint32_t i;
	unsigned char *to;

	if (!strata_source_begin(&source))
		return 0;
	source.base = registers;
	source.kind = STRATA_SOURCE_CONTEXT;
	/* What does not leave its function is no event, of which a sample could be taken. */
	if (!leaves_function(registers) || !strata_passes(&source, 0))
		return 0;
	if (STRATA_COUNTS)
		return strata_count(registers, STRATA_SOURCE_CONTEXT, event.id, 0, 0);
	if (nr_strings)
		slot = take_slot(source.cpu);
#pragma clang loop unroll(full)
	for (i = 0; i < STRATA_ABI_KERNEL_PARTS_MAX; i++) {
		if (i >= event.nr_parts)
			break;
		if (!is_string(event.part[i].kind))
			continue;
		/* Leaves room for the addresses of the texts that follow. */
		left--;
		room = TEXTS_MAX - (ADDRESS_TEXT - 1) * left;
		room = bytes < room ? room - bytes : 0;
		n = read_text(registers, i, slot, bytes, room);
		lengths[i] = (uint16_t)n;
		bytes += n;
	}
	to = strata_record_begin(&r, event.id, source.pid_tgid, fixed_bytes + bytes);
	if (!to) {
		give_slot(slot);
		return 0;
	}
	if (has_unread())
		*unread_in(to, fixed_bytes + bytes) = 0;
#pragma clang loop unroll(full)
	for (i = 0; i < STRATA_ABI_KERNEL_PARTS_MAX; i++) {
		if (i >= event.nr_parts)
			break;
		at &= PLACE_MASK;
		if (!is_string(event.part[i].kind)) {
			n = event.part[i].bytes;
			if (n > 8)
				break;
			if (write_value(to + at, registers, i, n) && has_unread())
				*unread_in(to, fixed_bytes + bytes) |= 1u << i;
			at += n;
			continue;
		}
		/* No text is longer. A mask, see PLACE_MASK: Linux 5.15 compares a copy, and forgets the other. */
		n = lengths[i] & (STRATA_ABI_KERNEL_TEXT_MAX - 1);
		*(volatile uint16_t *)(void *)(to + at) = (uint16_t)n;
		texts = slot_at(slot);
		if (!texts)
			write_whole_address(registers, i, to + at + 2);
		else
			strata_read_kernel(to + at + 2, n, texts->bytes + (from & PLACE_MASK));
		at += n + 2;
		from += n;
	}
	strata_record_end(&r);
	give_slot(slot);
	return 0;
}
