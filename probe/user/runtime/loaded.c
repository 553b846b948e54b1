/* SPDX-License-Identifier: MIT */
/*
 * loaded.c - which objects are loaded, where, and of which file: noted in the process' memory, since a short program is
 * gone before anybody could ask the kernel, and addresses of code in records mean nothing without it.
 *
 * No system call but one, at the begin: what the main program is called.
 */
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <strata/abi/loaded.h>

#include "runtime.h"

#define NT_BUILD_ID 3u

/* One look at all of them. */
struct look {
	uint64_t now;
	uint32_t number;
	int is_program; /* the next one is */
};

/* What the loader says of one. */
struct found {
	uint64_t address;
	uint64_t bytes;
	const char *path;
	size_t path_bytes;
	const unsigned char *build_id;
	size_t build_id_bytes;
	uint8_t flags;
};

/* Of the loader, at the last look: objects that have come and gone since the process began. */
static unsigned long long nr_come, nr_gone;
static uint32_t nr_looks;
static uint32_t nr_noted;

static struct strata_abi_loaded *object_at(uint32_t place)
{
	return (struct strata_abi_loaded *)(void *)(strata_runtime.memory +
						    STRATA_ABI_USER_DESCRIPTIONS_OFFSET +
						    (uint64_t)(place - 1) * 8);
}

static char *path_of(struct strata_abi_loaded *object)
{
	return (char *)(object + 1);
}

/* Is all of [begin, +bytes) in a segment of the object that can be read? Its file may say anything. */
static int is_mapped(const struct dl_phdr_info *info, uint64_t begin, uint64_t bytes)
{
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_R &&
		    begin >= segment->p_vaddr && begin - segment->p_vaddr <= segment->p_filesz &&
		    bytes <= segment->p_filesz - (begin - segment->p_vaddr))
			return 1;
	}
	return 0;
}

static void find_build_id(const struct dl_phdr_info *info, const ElfW(Phdr) * notes,
			  struct found *found)
{
	const uint64_t align = notes->p_align == 8 ? 8 : 4;
	const unsigned char *all = (const unsigned char *)(info->dlpi_addr + notes->p_vaddr);
	uint64_t at = 0, size = notes->p_filesz;
	ElfW(Nhdr) head;

	if (!is_mapped(info, notes->p_vaddr, size))
		return;
	while (size - at >= sizeof(head)) {
		uint64_t name, value, next;

		memcpy(&head, all + at, sizeof(head));
		name = at + sizeof(head);
		value = name + ((head.n_namesz + align - 1) & ~(align - 1));
		next = value + ((head.n_descsz + align - 1) & ~(align - 1));
		if (value > size || head.n_descsz > size - value)
			return;
		if (head.n_type == NT_BUILD_ID && head.n_namesz == 4 &&
		    !memcmp(all + name, "GNU", 4) &&
		    head.n_descsz <= STRATA_ABI_LOADED_BUILD_ID_MAX) {
			found->build_id = all + value;
			found->build_id_bytes = head.n_descsz;
			return;
		}
		if (next > size)
			return;
		at = next;
	}
}

/* Returns 0 if it is none that has a file. */
static int find(const struct dl_phdr_info *info, struct found *found)
{
	uint64_t low = UINT64_MAX, high = 0, end;
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD)
			continue;
		end = segment->p_vaddr + segment->p_memsz;
		low = segment->p_vaddr < low ? segment->p_vaddr : low;
		high = end > high ? end : high;
	}
	if (low >= high)
		return 0;
	found->address = info->dlpi_addr + low;
	found->bytes = high - low;
	if (!low)
		found->flags |= STRATA_ABI_LOADED_PIC;
	found->path = info->dlpi_name ? info->dlpi_name : "";
	found->path_bytes = strlen(found->path);
	/* Of the kernel's own there is no file. */
	if (!(found->flags & STRATA_ABI_LOADED_PROGRAM) && !strchr(found->path, '/'))
		return 0;
	return found->path_bytes <= STRATA_ABI_LOADED_PATH_MAX;
}

/* One of these is it: of those that are there, or of those that are gone. */
static struct strata_abi_loaded *noted(const struct found *found, int is_gone)
{
	uint32_t place = strata_runtime.control->objects;
	struct strata_abi_loaded *object;

	for (; place; place = object->older) {
		object = object_at(place);
		/* The name of the main program is not the loader's. */
		if (object->address == found->address && object->bytes == found->bytes &&
		    !object->unloaded_ns == !is_gone &&
		    (found->flags & STRATA_ABI_LOADED_PROGRAM ||
		     (object->path_bytes == found->path_bytes &&
		      !memcmp(path_of(object), found->path, found->path_bytes))))
			return object;
	}
	return NULL;
}

static int has_same_build_id(struct strata_abi_loaded *object, const struct found *found)
{
	return object->build_id_bytes == found->build_id_bytes &&
	       (!found->build_id_bytes || !memcmp(path_of(object) + object->path_bytes,
						  found->build_id, found->build_id_bytes));
}

/* Behind the descriptions that there are. */
static void note(const struct found *found, const struct look *look)
{
	struct strata_abi_user_control *control = strata_runtime.control;
	uint64_t begin = (control->descriptions_bytes + 7) & ~UINT64_C(7);
	struct strata_abi_loaded *object;
	uint64_t end = begin + sizeof(*object) + found->path_bytes + found->build_id_bytes;

	if (end > STRATA_ABI_USER_DESCRIPTIONS_BYTES || nr_noted == STRATA_ABI_LOADED_NR_MAX) {
		control->objects_refused++;
		return;
	}
	nr_noted++;
	object = object_at((uint32_t)(begin / 8) + 1);
	object->address = found->address;
	object->bytes = found->bytes;
	object->loaded_ns = look->now;
	object->look = look->number;
	object->older = control->objects;
	object->path_bytes = (uint16_t)found->path_bytes;
	object->build_id_bytes = (uint8_t)found->build_id_bytes;
	object->flags = found->flags;
	memcpy(path_of(object), found->path, found->path_bytes);
	if (found->build_id_bytes)
		memcpy(path_of(object) + found->path_bytes, found->build_id, found->build_id_bytes);
	control->descriptions_bytes = (uint32_t)end;
	/* RELEASE: it is there. */
	__atomic_store_n(&control->objects, (uint32_t)(begin / 8) + 1, __ATOMIC_RELEASE);
}

/* What the main program is called; nothing where the kernel does not say, or may not be asked. */
static size_t path_of_program(char *path, size_t size)
{
	long n;

	if (strata_sandboxed())
		return 0;
	n = strata_syscall(SYS_readlinkat, -1, "/proc/self/exe", path, (long)size, 0);
	return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

static void note_new(const struct dl_phdr_info *info, struct found *found, const struct look *look)
{
	static char path[STRATA_ABI_LOADED_PATH_MAX];
	struct strata_abi_loaded *object;
	int i;

	for (i = 0; i < info->dlpi_phnum && !found->build_id; i++)
		if (info->dlpi_phdr[i].p_type == PT_NOTE)
			find_build_id(info, &info->dlpi_phdr[i], found);
	if (found->flags & STRATA_ABI_LOADED_PROGRAM) {
		found->path = path;
		found->path_bytes = path_of_program(path, sizeof(path));
	}
	object = noted(found, 1);
	if (!object || !has_same_build_id(object, found)) {
		note(found, look);
		return;
	}
	/* It is back, where it was: a program that loads and unloads it for ever has room for it. */
	object->look = look->number;
	__atomic_store_n(&object->loaded_ns, look->now, __ATOMIC_RELAXED);
	__atomic_store_n(&object->unloaded_ns, 0, __ATOMIC_RELEASE);
}

static int look_at(struct dl_phdr_info *info, size_t size, void *given)
{
	struct look *look = given;
	struct strata_abi_loaded *object;
	struct found found = { .flags = 0 };

	if (look->is_program) {
		found.flags = STRATA_ABI_LOADED_PROGRAM;
		look->is_program = 0;
		if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs)) {
			/* As at the last look. */
			if (look->number > 1 && info->dlpi_adds == nr_come &&
			    info->dlpi_subs == nr_gone)
				return 1;
			nr_come = info->dlpi_adds;
			nr_gone = info->dlpi_subs;
		}
	}
	if (!find(info, &found))
		return 0;
	object = noted(&found, 0);
	if (object)
		object->look = look->number;
	else
		note_new(info, &found, look);
	return 0;
}

/* Look at what is loaded. Under the lock of the objects, in memory of this process' own. */
void strata_loaded_look(void)
{
	struct look look = { .number = ++nr_looks, .is_program = 1 };
	uint32_t place;

	look.now = strata_now_ns();
	if (dl_iterate_phdr(look_at, &look))
		return;
	for (place = strata_runtime.control->objects; place; place = object_at(place)->older) {
		struct strata_abi_loaded *object = object_at(place);

		if (object->look != look.number && !object->unloaded_ns)
			__atomic_store_n(&object->unloaded_ns, look.now, __ATOMIC_RELEASE);
	}
}
