/* SPDX-License-Identifier: MIT */
/*
 * loaded_objects.c - which objects are loaded, where, and of which file: noted in the process' memory, since a short program is
 * gone before anybody could ask the kernel, and addresses of code in records mean nothing without it.
 *
 * No system call but where a path is not the loader's: of the main program, and where that has loaded another one by a
 * path that depends on its folder.
 */
#include <link.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <strata/abi/loaded.h>

#include "runtime.h"

#define NT_BUILD_ID 3u

/*
 * A value of strata_abi_loaded.look: the object is about to be unloaded. An object that a later
 * look finds in its place has been loaded since.
 */
#define GOES UINT32_MAX

/* Objects that are not noted, since they have no file. */
#define WITHOUT_FILE_MAX 2

/* State of one pass over all loaded objects. */
struct look {
	uint64_t now;
	uint64_t last; /* the look before */
	uint32_t number;
	uint32_t refused; /* objects without room */
	/*
	 * Objects that the loader has loaded and unloaded since the last look, less those that this
	 * look finds. An object too many on both sides was loaded and unloaded between the looks.
	 */
	long long came, went;
	long long went_max; /* what was there, and what came */
	int is_first;	    /* the next one is */
	const void *self;   /* in the object that has just come */
};

/* The loader's description of an object. */
struct found {
	uint64_t address;
	uint64_t bytes;
	const char *path;
	size_t path_bytes;
	const unsigned char *build_id;
	size_t build_id_bytes;
	uint8_t flags;
};

/* The loader's counts at the last look: objects loaded and unloaded since the process began. */
static unsigned long long nr_come, nr_gone;
static uint32_t nr_looks;
static uint64_t last_look;
static uint32_t nr_noted;
static uint64_t noted_bytes;

/*
 * Places of the notes of objects that are loaded, and the most of them; further ones are not noted.
 */
#define LIVE_MAX 2048u
static uint32_t live[LIVE_MAX];
static uint32_t nr_live;

/* Most bytes for notes of objects; the rest of the memory is for descriptions. */
#define NOTED_BYTES_MAX (STRATA_ABI_USER_DESCRIPTIONS_BYTES / 4)

static struct strata_abi_loaded *object_at(uint32_t place)
{
	return (struct strata_abi_loaded *)(void *)(strata_runtime.memory +
						    STRATA_ABI_USER_DESCRIPTIONS_OFFSET +
						    (uint64_t)(place - 1) * 8);
}

static char *path_of(const struct strata_abi_loaded *object)
{
	return (char *)strata_runtime.memory + STRATA_ABI_USER_DESCRIPTIONS_OFFSET + object->text;
}

static int holds(uint64_t address, uint64_t bytes, const void *place)
{
	return (uint64_t)(uintptr_t)place - address < bytes;
}

/*
 * Returns whether all of [begin, +bytes) lies in a segment of the object that can be read. The object's file may
 * contain anything.
 */
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
	/* Objects of the kernel, such as the vDSO, have no file. */
	if (!(found->flags & STRATA_ABI_LOADED_PROGRAM) && !strchr(found->path, '/'))
		return 0;
	return found->path_bytes <= STRATA_ABI_LOADED_PATH_MAX;
}

/* Returns 1 if the noted path is the found one, or ends with the found one: see path_of_relative(). */
static int has_path(const struct strata_abi_loaded *object, const struct found *found)
{
	size_t more = object->path_bytes - found->path_bytes;

	if (object->path_bytes < found->path_bytes || (more && *found->path == '/'))
		return 0;
	return !memcmp(path_of(object) + more, found->path, found->path_bytes);
}

/* Returns the note of an object that is loaded; with @goes, of one that was about to be unloaded. */
static struct strata_abi_loaded *noted(const struct found *found, int goes)
{
	struct strata_abi_loaded *object;
	uint32_t i;

	for (i = 0; i < nr_live; i++) {
		object = object_at(live[i]);
		/* The name of the main program is not the loader's. */
		if ((object->look == GOES) == goes && object->address == found->address &&
		    object->bytes == found->bytes &&
		    (found->flags & STRATA_ABI_LOADED_PROGRAM || has_path(object, found)))
			return object;
	}
	return NULL;
}

static void is_there(const struct strata_abi_loaded *object)
{
	const unsigned char *all = strata_runtime.memory + STRATA_ABI_USER_DESCRIPTIONS_OFFSET;

	live[nr_live++] = (uint32_t)(((const unsigned char *)object - all) / 8) + 1;
}

static int has_text(const struct strata_abi_loaded *object, const struct found *found)
{
	return object->path_bytes == found->path_bytes &&
	       object->build_id_bytes == found->build_id_bytes &&
	       !memcmp(path_of(object), found->path, found->path_bytes) &&
	       (!found->build_id_bytes || !memcmp(path_of(object) + object->path_bytes,
						  found->build_id, found->build_id_bytes));
}

/* Returns the earlier note of the same file; with @there, of the same addresses as well. */
static struct strata_abi_loaded *noted_before(const struct found *found, int there)
{
	uint32_t place = strata_runtime.control->objects;
	struct strata_abi_loaded *object;

	for (; place; place = object->older) {
		object = object_at(place);
		if (has_text(object, found) &&
		    (!there || (object->address == found->address && object->unloaded_ns)))
			return object;
	}
	return NULL;
}

/* Notes an object after the existing descriptions. Returns 0 if there is no room. */
static int note(const struct found *found, const struct look *look)
{
	struct strata_abi_user_control *control = strata_runtime.control;
	const struct strata_abi_loaded *before = noted_before(found, 0);
	uint64_t begin = (control->descriptions_bytes + 7) & ~UINT64_C(7);
	struct strata_abi_loaded *object;
	uint64_t text = begin + sizeof(*object), end = text;

	if (!before)
		end += found->path_bytes + found->build_id_bytes;
	if (nr_live == LIVE_MAX || nr_noted == STRATA_ABI_LOADED_NR_MAX ||
	    noted_bytes + end - begin > NOTED_BYTES_MAX || end > STRATA_ABI_USER_DESCRIPTIONS_BYTES)
		return 0;
	nr_noted++;
	noted_bytes += end - begin;
	object = object_at((uint32_t)(begin / 8) + 1);
	object->address = found->address;
	object->bytes = found->bytes;
	/* A description that was not needed may have been here. */
	object->unloaded_ns = 0;
	/* The addresses were free at the last pass, so the object may have been there since then. */
	object->loaded_ns = look->number == 1 || holds(found->address, found->bytes, look->self) ?
				    look->now :
				    look->last + 1;
	object->look = look->number;
	object->older = control->objects;
	object->path_bytes = (uint16_t)found->path_bytes;
	object->build_id_bytes = (uint8_t)found->build_id_bytes;
	object->flags = found->flags;
	object->text = before ? before->text : (uint32_t)text;
	if (!before) {
		memcpy(path_of(object), found->path, found->path_bytes);
		if (found->build_id_bytes)
			memcpy(path_of(object) + found->path_bytes, found->build_id,
			       found->build_id_bytes);
	}
	control->descriptions_bytes = (uint32_t)end;
	/* RELEASE publishes the note. */
	__atomic_store_n(&control->objects, (uint32_t)(begin / 8) + 1, __ATOMIC_RELEASE);
	is_there(object);
	return 1;
}

/* Writes the main program's path; nothing if the kernel does not say it, or may not be asked. */
static size_t path_of_program(char *path, size_t size)
{
	long n;

	if (strata_sandboxed())
		return 0;
	n = strata_syscall(SYS_readlinkat, -1, "/proc/self/exe", path, (long)size, 0);
	return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

/*
 * Makes the whole path of an object whose path is relative to the current folder. Returns its
 * bytes; 0 if it cannot be made. The folder may have been another one when the object was loaded:
 * who opens the path compares the build id.
 */
static size_t path_of_relative(const char *given, size_t bytes, char *path, size_t size)
{
	long n;

	if (strata_sandboxed())
		return 0;
	n = strata_syscall(SYS_getcwd, path, (long)size);
	/* The length counts the NUL. For a folder that cannot be reached, the result is no path. */
	if (n < 2 || *path != '/' || (size_t)n + bytes > size)
		return 0;
	path[n - 1] = '/';
	memcpy(path + n, given, bytes);
	return (size_t)n + bytes;
}

static void note_new(const struct dl_phdr_info *info, struct found *found, struct look *look)
{
	static char path[STRATA_ABI_LOADED_PATH_MAX];
	struct strata_abi_loaded *object;
	size_t bytes = 0;
	int i;

	look->came--;
	for (i = 0; i < info->dlpi_phnum && !found->build_id; i++)
		if (info->dlpi_phdr[i].p_type == PT_NOTE)
			find_build_id(info, &info->dlpi_phdr[i], found);
	if (found->flags & STRATA_ABI_LOADED_PROGRAM)
		bytes = path_of_program(path, sizeof(path));
	else if (*found->path != '/')
		bytes = path_of_relative(found->path, found->path_bytes, path, sizeof(path));
	if (bytes || found->flags & STRATA_ABI_LOADED_PROGRAM) {
		found->path = path;
		found->path_bytes = bytes;
	}
	if (note(found, look))
		return;
	object = noted(found, 1);
	if (object) {
		object->look = look->number;
		return;
	}
	object = nr_live < LIVE_MAX ? noted_before(found, 1) : NULL;
	if (object) {
		object->look = look->number;
		is_there(object);
		__atomic_store_n(&object->unloaded_ns, 0, __ATOMIC_RELEASE);
	} else {
		look->refused++;
	}
}

static int look_at(struct dl_phdr_info *info, size_t size, void *given)
{
	struct look *look = given;
	struct strata_abi_loaded *object;
	struct found found = { .flags = 0 };

	/* The first object of another list of the loader (dlmopen()) is no program. */
	if ((uintptr_t)info->dlpi_phdr == getauxval(AT_PHDR))
		found.flags = STRATA_ABI_LOADED_PROGRAM;
	if (look->is_first) {
		look->is_first = 0;
		if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs)) {
			/*
			 * The loader's counts are those of the last look, so nothing has changed.
			 */
			if (look->number > 1 && info->dlpi_adds == nr_come &&
			    info->dlpi_subs == nr_gone)
				return 1;
			if (look->number > 1) {
				look->came = (long long)(info->dlpi_adds - nr_come);
				look->went = (long long)(info->dlpi_subs - nr_gone);
				look->went_max = nr_live + WITHOUT_FILE_MAX + look->came;
			}
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

/* Returns whether another object was found at the object's addresses by this pass. */
static int is_replaced(const struct strata_abi_loaded *object, const struct look *look)
{
	const struct strata_abi_loaded *other;
	uint32_t i;

	for (i = 0; i < nr_live; i++) {
		other = object_at(live[i]);
		if (other->look == look->number &&
		    (other->address - object->address < object->bytes ||
		     object->address - other->address < other->bytes))
			return 1;
	}
	return 0;
}

/* The object that @self is in is about to go. Its destructors run: it is there as yet. */
void strata_loaded_goes(const void *self)
{
	struct strata_abi_loaded *object;
	uint32_t i;

	for (i = 0; i < nr_live; i++) {
		object = object_at(live[i]);
		if (holds(object->address, object->bytes, self))
			object->look = GOES;
	}
}

/*
 * Notes which objects are loaded, since the object that @self is in has come, or, if @self is NULL, since one goes.
 * Under the lock of the objects, in memory of this process' own. Returns 0: nothing has come or gone since the last
 * look.
 */
int strata_loaded_look(const void *self)
{
	struct look look = { .last = last_look, .number = ++nr_looks, .is_first = 1 };
	struct strata_abi_user_control *control = strata_runtime.control;
	uint32_t nr = 0, i;

	look.self = self;
	look.now = strata_now_ns();
	last_look = look.now;
	if (dl_iterate_phdr(look_at, &look))
		return 0;
	for (i = 0; i < nr_live; i++) {
		struct strata_abi_loaded *object = object_at(live[i]);

		if (object->look == look.number)
			continue;
		look.went--;
		__atomic_store_n(&object->unloaded_ns,
				 is_replaced(object, &look) ? look.last + 1 : look.now,
				 __ATOMIC_RELEASE);
	}
	for (i = 0; i < nr_live; i++)
		if (!object_at(live[i])->unloaded_ns)
			live[nr++] = live[i];
	nr_live = nr;
	if (look.refused > control->objects_refused)
		control->objects_refused = look.refused;
	/*
	 * The loader's counts do not agree if it has other lists (dlmopen()). Fewer objects are
	 * reported then, and no wrong ones.
	 */
	if (look.came > 0 && look.went > 0 && look.went <= look.went_max)
		control->objects_unseen +=
			(uint32_t)(look.came < look.went ? look.came : look.went);
	return 1;
}
