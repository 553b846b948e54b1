/* SPDX-License-Identifier: MIT */
/*
 * replaced_function.h - code that the preloaded objects share: finding the function that each of theirs replaces, and the caller.
 *
 * Nothing here may end or change the program: what is not there is not called, errno stays.
 */
#ifndef STRATA_LIBC_REPLACED_FUNCTION_H
#define STRATA_LIBC_REPLACED_FUNCTION_H

#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#include "../user/runtime/old_glibc.h"

#define STRATA_LIBC_EXPORT    __attribute__((visibility("default")))
#define STRATA_LIBC_COLD      __attribute__((noinline, cold))
#define STRATA_LIBC_CALLER    __builtin_return_address(0)
#define STRATA_LIBC_LIKELY(x) __builtin_expect(!!(x), 1)

/* Addresses of libstrata's code, whose own calls are not recorded. While they are 0, all calls count as its own. */
static uintptr_t strata_libc_own_begin, strata_libc_own_end;

/* Returns 1 if an object's path ends with this name. */
static inline int strata_libc_is_called(const struct dl_phdr_info *info, const char *name)
{
	size_t bytes = strlen(name), all = info->dlpi_name ? strlen(info->dlpi_name) : 0;

	return all >= bytes && !memcmp(info->dlpi_name + all - bytes, name, bytes);
}

static int strata_libc_look_at(struct dl_phdr_info *info, size_t size, void *unused)
{
	size_t i;

	(void)size;
	(void)unused;
	if (!strata_libc_is_called(info, "/libstrata.so.0"))
		return 0;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X)) {
			strata_libc_own_begin = info->dlpi_addr + segment->p_vaddr;
			strata_libc_own_end = strata_libc_own_begin + segment->p_memsz;
		}
	}
	return 1;
}

__attribute__((unused)) static void strata_libc_find_own(void)
{
	strata_libc_own_begin = strata_libc_own_end = 1;
	dl_iterate_phdr(strata_libc_look_at, NULL);
}

__attribute__((unused)) static inline int strata_libc_is_own(const void *caller)
{
	return !strata_libc_own_end || (uintptr_t)caller - strata_libc_own_begin <
					       strata_libc_own_end - strata_libc_own_begin;
}

/*
 * True if dlsym() can be called. In dl.c, which replaces dlsym(), the next one must have been
 * found.
 */
#ifdef STRATA_LIBC_DL
static int strata_libc_has_dlsym(void);
#else
__attribute__((unused)) static inline int strata_libc_has_dlsym(void)
{
	return STRATA_OLDER_HAS(dlsym);
}
#endif

/*
 * The function of this name behind ours, which may be that of another preloaded object. Of one that has changed its
 * arguments since, @version is the newest.
 */
__attribute__((unused)) static void *strata_libc_find(const char *name, const char *version)
{
	int saved = errno;
	void *found = version && STRATA_OLDER_HAS(dlvsym) ? dlvsym(RTLD_NEXT, name, version) : NULL;

	if (!found && strata_libc_has_dlsym())
		found = dlsym(RTLD_NEXT, name);
	/* The program must not see an error of this search, which it has not asked for. */
	if ((!found || version) && STRATA_OLDER_HAS(dlerror))
		dlerror();
	if (!found)
		found = strata_older_next((const void *)(uintptr_t)strata_libc_find, name);
	errno = saved;
	return found;
}

/*
 * STRATA_LIBC_NEXT(name) - as a function, NULL if there is none. Threads that look at once find the same. All are looked
 * up while the program is loaded: later, that would take the loader's lock, which a thread in dlopen() may have that
 * waits for this one, and the error from the program that dlerror() has for it.
 */
#define STRATA_LIBC_NEXT_OF(name, version)                                                       \
	static __typeof__(name) *strata_next_##name(void)                                        \
	{                                                                                        \
		static __typeof__(name) *next;                                                   \
		__typeof__(name) *found = __atomic_load_n(&next, __ATOMIC_RELAXED);              \
                                                                                                 \
		if (__builtin_expect(!found, 0)) {                                               \
			found = (__typeof__(name) *)(uintptr_t)strata_libc_find(#name, version); \
			__atomic_store_n(&next, found, __ATOMIC_RELAXED);                        \
		}                                                                                \
		return found;                                                                    \
	}                                                                                        \
	__attribute__((constructor)) static void strata_look_up_##name(void)                     \
	{                                                                                        \
		strata_next_##name();                                                            \
	}
#define STRATA_LIBC_NEXT_IS(name) STRATA_LIBC_NEXT_OF(name, NULL)
#define STRATA_LIBC_NEXT(name)	  (*strata_next_##name())

#endif /* STRATA_LIBC_REPLACED_FUNCTION_H */
