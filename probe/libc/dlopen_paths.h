/* SPDX-License-Identifier: MIT */
/* dlopen_paths.h - for dlopen() and dlclose(): which paths of who calls count when an object is searched for; a look behind it. */
#ifndef STRATA_LIBC_DLOPEN_PATHS_H
#define STRATA_LIBC_DLOPEN_PATHS_H

#include <link.h>
#include <stdint.h>

#include <strata/user/object.h>

#include "replaced_function.h"

/* A program may bring an older libstrata. */
extern __typeof__(strata_user_look) strata_user_look __attribute__((weak));

static inline void strata_libc_look(void)
{
	if (strata_user_look)
		strata_user_look();
}

/* The state of a search through the loaded objects, which is made with the loader's lock. */
struct strata_libc_search {
	const void *caller;
	int nr_seen;
	int is_known;	 /* the caller is in one of them */
	int has_runpath; /* that one has DT_RUNPATH: for names without '/' */
	int has_dl;	 /* dl.c is there, which records who calls */
	int has_rpath; /* one that is not the program has DT_RPATH: for what it loads, and what that loads */
};

static int strata_libc_search_in(struct dl_phdr_info *info, size_t size, void *given)
{
	struct strata_libc_search *search = given;
	const ElfW(Dyn) *entry = NULL;
	int is_caller = 0, is_program = !search->nr_seen++, i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_DYNAMIC)
			entry = (const void *)begin;
		if (segment->p_type == PT_LOAD &&
		    (uintptr_t)search->caller - begin < segment->p_memsz)
			is_caller = 1;
	}
	search->is_known |= is_caller;
	search->has_dl |= strata_libc_is_called(info, "/libstrata-libc-dl.so");
	/* DT_RPATH of the program counts for all. */
	for (; entry && entry->d_tag != DT_NULL; entry++) {
		search->has_runpath |= entry->d_tag == DT_RUNPATH && is_caller;
		search->has_rpath |= entry->d_tag == DT_RPATH && !is_program;
	}
	return 0;
}

#endif /* STRATA_LIBC_DLOPEN_PATHS_H */
