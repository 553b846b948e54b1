/* SPDX-License-Identifier: MIT */
/*
 * dl.c - dlopen(), dlmopen(), dlsym() and dlclose().
 *
 * dlopen() looks who has called it: where a name without '/' is searched depends on the paths that the caller's object
 * has (DT_RUNPATH, or DT_RPATH), and so does $ORIGIN. Where it may depend on that, libc's function is jumped to, so that
 * it finds its true caller; what it says is then not recorded. So it is with dlsym() without a handle.
 */
#define STRATA_LIBC_DL
#include "dlopen_paths.h"
#include "events.h"
#include "replaced_function.h"

STRATA_LIBC_NEXT_IS(dlopen)
STRATA_LIBC_NEXT_IS(dlmopen)
STRATA_LIBC_NEXT_IS(dlclose)

#define IS_JUMP ((void *)-1l)

/*
 * Returns whether the object that is found for @path depends on whose code @caller is. A caller
 * that is in no known object counts as yes.
 */
static int depends_on_caller(const char *path, const void *caller)
{
	struct strata_libc_search search = { .caller = caller };

	if (!path || !*path)
		return 0;
	if (strchr(path, '$'))
		return 1;
	if (strchr(path, '/'))
		return 0;
	dl_iterate_phdr(strata_libc_search_in, &search);
	return search.has_runpath || search.has_rpath || !search.is_known;
}

/* A value for a list of objects: dlopen() uses that of its caller. */
#define LIST_OF_CALLER ((Lmid_t)-2)

/*
 * Opens the object, and returns what dlopen() is to return. IS_JUMP: the real dlopen() is to be jumped to, with the
 * caller's stack.
 */
STRATA_LIBC_COLD static void *open_recorded(Lmid_t list, const char *path, int flags,
					    const void *caller)
{
	struct link_map *map = NULL;
	void *handle;
	int saved;

	STRATA_TRACE_EVENT(dl, open_begin, path, flags, caller);
	if (depends_on_caller(path, caller))
		return IS_JUMP;
	handle = list == LIST_OF_CALLER ? STRATA_LIBC_NEXT(dlopen)(path, flags) :
					  STRATA_LIBC_NEXT(dlmopen)(list, path, flags);
	saved = errno;
	strata_libc_look();
	if (!handle || !STRATA_OLDER_HAS(dlinfo) || dlinfo(handle, RTLD_DI_LINKMAP, &map))
		map = NULL;
	STRATA_TRACE_EVENT(dl, open_end, handle, map ? (const void *)map->l_addr : NULL,
			   map ? map->l_name : NULL);
	errno = saved;
	return handle;
}

STRATA_LIBC_EXPORT void *dlopen(const char *path, int flags)
{
	if (__builtin_expect(STRATA_ENABLED(dl, open_begin) | STRATA_ENABLED(dl, open_end), 0)) {
		void *handle = open_recorded(LIST_OF_CALLER, path, flags, STRATA_LIBC_CALLER);

		if (handle != IS_JUMP)
			return handle;
	}
	return STRATA_LIBC_NEXT(dlopen)(path, flags);
}

STRATA_LIBC_EXPORT void *dlmopen(Lmid_t list, const char *path, int flags)
{
	if (__builtin_expect(STRATA_ENABLED(dl, open_begin) | STRATA_ENABLED(dl, open_end), 0)) {
		void *handle = open_recorded(list, path, flags, STRATA_LIBC_CALLER);

		if (handle != IS_JUMP)
			return handle;
	}
	return STRATA_LIBC_NEXT(dlmopen)(list, path, flags);
}

/* libc's own, which strata_libc_find() cannot ask for by the name that is this object's. */
static void *(*next_dlsym(void))(void *restrict, const char *restrict)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17",
						"GLIBC_2.27" };
	static void *(*next)(void *restrict, const char *restrict);
	void *(*found)(void *restrict, const char *restrict) =
		__atomic_load_n(&next, __ATOMIC_RELAXED);
	size_t i;

	for (i = 0; !found && STRATA_OLDER_HAS(dlvsym) && i < sizeof(versions) / sizeof(*versions);
	     i++) {
		int saved = errno;

		found = (void *(*)(void *restrict, const char *restrict))(
			uintptr_t)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
		if (!found && STRATA_OLDER_HAS(dlerror))
			dlerror();
		errno = saved;
	}
	if (!found)
		found = (void *(*)(void *restrict, const char *restrict))(
			uintptr_t)strata_older_next((const void *)(uintptr_t)next_dlsym, "dlsym");
	__atomic_store_n(&next, found, __ATOMIC_RELAXED);
	return found;
}

static int strata_libc_has_dlsym(void)
{
	return next_dlsym() != NULL;
}

STRATA_LIBC_COLD static void *sym_recorded(void *handle, const char *name, const void *caller)
{
	void *found;
	int saved;

	STRATA_TRACE_EVENT(dl, sym_begin, handle, name, caller);
	if (handle == RTLD_DEFAULT)
		return IS_JUMP;
	found = next_dlsym()(handle, name);
	saved = errno;
	STRATA_TRACE_EVENT(dl, sym_end, handle, found);
	errno = saved;
	return found;
}

/* Code that interposes libc, such as these objects, asks for RTLD_NEXT. */
STRATA_LIBC_EXPORT void *dlsym(void *restrict handle, const char *restrict name)
{
	if (__builtin_expect(STRATA_ENABLED(dl, sym_begin) | STRATA_ENABLED(dl, sym_end), 0) &&
	    handle != RTLD_NEXT) {
		void *found = sym_recorded(handle, name, STRATA_LIBC_CALLER);

		if (found != IS_JUMP)
			return found;
	}
	/* In a program without libdl only libstrata asks, which is behind this object. */
	if (!next_dlsym())
		return handle == RTLD_NEXT ? strata_older_next(STRATA_LIBC_CALLER, name) : NULL;
	return next_dlsym()(handle, name);
}

/* The object's map is read first, since it goes with the object. */
STRATA_LIBC_COLD static int close_recorded(void *handle, const void *caller)
{
	struct link_map *map = NULL;
	int result, saved;

	if (!handle || !STRATA_OLDER_HAS(dlinfo) || dlinfo(handle, RTLD_DI_LINKMAP, &map))
		map = NULL;
	STRATA_TRACE_EVENT(dl, close_begin, handle, map ? (const void *)map->l_addr : NULL,
			   map ? map->l_name : NULL, caller);
	result = STRATA_LIBC_NEXT(dlclose)(handle);
	saved = errno;
	STRATA_TRACE_EVENT(dl, close_end, handle, result);
	errno = saved;
	return result;
}

STRATA_LIBC_EXPORT int dlclose(void *handle)
{
	/* Looks for new objects before the call, as loading.c does. */
	strata_libc_look();
	if (__builtin_expect(STRATA_ENABLED(dl, close_begin) | STRATA_ENABLED(dl, close_end), 0))
		return close_recorded(handle, STRATA_LIBC_CALLER);
	return STRATA_LIBC_NEXT(dlclose)(handle);
}

/* Finds the next dlsym() early, as replaced_function.h does for the other functions. */
__attribute__((constructor)) static void begin(void)
{
	next_dlsym();
}
