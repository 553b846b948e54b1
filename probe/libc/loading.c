/* SPDX-License-Identifier: MIT */
/*
 * loading.c - dlopen() and dlclose(), where dl.c is not preloaded: libstrata looks at what has come, and at what goes before
 * it does, or the addresses of its code would have no names.
 *
 * Where a search depends on the caller (dl.c), libc's function is jumped to, and the next look is another one's.
 */
#include "dlopen_paths.h"

STRATA_LIBC_NEXT_IS(dlopen)
STRATA_LIBC_NEXT_IS(dlclose)

/*
 * Returns 1 if the result of dlopen() depends on its caller, or may. For a path with '/', only the
 * object's own needs are searched for.
 */
STRATA_LIBC_COLD static int depends_on_caller(const char *path, const void *caller)
{
	struct strata_libc_search search = { .caller = caller };

	if (!path || !strchr(path, '/') || strchr(path, '$'))
		return 1;
	dl_iterate_phdr(strata_libc_search_in, &search);
	return search.has_dl || search.has_rpath || !search.is_known;
}

STRATA_LIBC_COLD static void *open_and_look(const char *path, int flags)
{
	void *handle = STRATA_LIBC_NEXT(dlopen)(path, flags);

	strata_libc_look();
	return handle;
}

STRATA_LIBC_EXPORT void *dlopen(const char *path, int flags)
{
	if (!depends_on_caller(path, STRATA_LIBC_CALLER))
		return open_and_look(path, flags);
	return STRATA_LIBC_NEXT(dlopen)(path, flags);
}

/* Calls libc's function by a jump, as dlopen() does. */
STRATA_LIBC_EXPORT int dlclose(void *handle)
{
	strata_libc_look();
	return STRATA_LIBC_NEXT(dlclose)(handle);
}
