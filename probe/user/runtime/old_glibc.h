/* SPDX-License-Identifier: MIT */
/*
 * old_glibc.h - functions of libc in the versions that all glibcs have: an object that needs a newer
 * one than the program's libc has ends the program that it is preloaded into.
 *
 * Before glibc 2.34 they were in libdl and libpthread, which a program need not have: each is a null pointer then.
 */
#ifndef STRATA_RUNTIME_OLD_GLIBC_H
#define STRATA_RUNTIME_OLD_GLIBC_H

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* The first version of glibc for this processor, and that of dlinfo(). */
#if defined(__GLIBC__) && defined(__x86_64__) && !defined(__ILP32__)
#define STRATA_OLDER_FIRST  "GLIBC_2.2.5"
#define STRATA_OLDER_DLINFO "GLIBC_2.3.3"
#elif defined(__GLIBC__) && defined(__aarch64__)
#define STRATA_OLDER_FIRST  "GLIBC_2.17"
#define STRATA_OLDER_DLINFO "GLIBC_2.17"
#endif

/* An archive has no symbol versions. */
#if defined(STRATA_OLDER_FIRST) && !defined(STRATA_RUNTIME_ARCHIVE)
#define STRATA_OLDER(name, version)                         \
	extern __typeof__(name) name __attribute__((weak)); \
	__asm__(".symver " #name ", " #name "@" version);
#define STRATA_OLDER_HAS(name) (&(name) != NULL)

STRATA_OLDER(dladdr, STRATA_OLDER_FIRST)
STRATA_OLDER(dlerror, STRATA_OLDER_FIRST)
STRATA_OLDER(dlinfo, STRATA_OLDER_DLINFO)
#ifndef STRATA_LIBC_DL
STRATA_OLDER(dlsym, STRATA_OLDER_FIRST)
#endif
STRATA_OLDER(dlvsym, STRATA_OLDER_FIRST)
STRATA_OLDER(pthread_getcpuclockid, STRATA_OLDER_FIRST)
STRATA_OLDER(pthread_key_create, STRATA_OLDER_FIRST)
#ifndef STRATA_LIBC_PTHREAD
STRATA_OLDER(pthread_mutex_trylock, STRATA_OLDER_FIRST)
#endif
STRATA_OLDER(pthread_setspecific, STRATA_OLDER_FIRST)
#else
#define STRATA_OLDER_HAS(name) 1
#endif

/* A search for a function of this name, in the objects after the one that contains this address. */
struct strata_older_search {
	const char *name;
	uintptr_t before;
	int is_behind;
	uintptr_t found;
};

/* Addresses in PT_DYNAMIC are made absolute by glibc, but for the kernel's own object. */
static inline uintptr_t strata_older_at(const struct dl_phdr_info *info, const ElfW(Dyn) * entry)
{
	uintptr_t at = (uintptr_t)entry->d_un.d_ptr;

	return at < info->dlpi_addr ? at + info->dlpi_addr : at;
}

/* The newest function of the name in the symbols of one object, by the hash table that all linkers write; 0: none. */
static inline uintptr_t strata_older_in(const struct dl_phdr_info *info, const ElfW(Dyn) * entry,
					const char *name)
{
	const uint32_t *table = NULL, *buckets, *chains;
	const ElfW(Sym) *symbols = NULL;
	const ElfW(Half) *versions = NULL;
	const char *texts = NULL, *byte;
	uint32_t hash = 5381, i;

	for (; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_GNU_HASH)
			table = (const void *)strata_older_at(info, entry);
		else if (entry->d_tag == DT_SYMTAB)
			symbols = (const void *)strata_older_at(info, entry);
		else if (entry->d_tag == DT_STRTAB)
			texts = (const void *)strata_older_at(info, entry);
		else if (entry->d_tag == DT_VERSYM)
			versions = (const void *)strata_older_at(info, entry);
	}
	if (!table || !symbols || !texts || !table[0])
		return 0;
	for (byte = name; *byte; byte++)
		hash = hash * 33 + (unsigned char)*byte;
	/* The buckets follow the head and the filter. The filter is only there to save lookups. */
	buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(*table));
	chains = buckets + table[0];
	i = buckets[hash % table[0]];
	if (i < table[1])
		return 0;
	for (;; i++) {
		const ElfW(Sym) *symbol = &symbols[i];
		const uint32_t of_symbol = chains[i - table[1]];

		if ((of_symbol | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
		    (symbol->st_info & 15) == STT_FUNC && !(versions && versions[i] & 0x8000) &&
		    !strcmp(texts + symbol->st_name, name))
			return info->dlpi_addr + symbol->st_value;
		if (of_symbol & 1)
			return 0;
	}
}

static inline int strata_older_look_at(struct dl_phdr_info *info, size_t size, void *given)
{
	struct strata_older_search *search = given;
	const ElfW(Dyn) *entry = NULL;
	int is_own = 0, i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_DYNAMIC)
			entry = (const void *)begin;
		is_own |= segment->p_type == PT_LOAD && search->before - begin < segment->p_memsz;
	}
	if (is_own)
		search->is_behind = 1;
	else if (search->is_behind && entry)
		search->found = strata_older_in(info, entry, search->name);
	return search->found != 0;
}

/*
 * Returns what dlsym(RTLD_NEXT, name) returns to code at @before, in a program without dlsym().
 * NULL if there is no such function.
 */
static inline void *strata_older_next(const void *before, const char *name)
{
	struct strata_older_search search = { .name = name, .before = (uintptr_t)before };

	dl_iterate_phdr(strata_older_look_at, &search);
	return (void *)search.found;
}

#endif /* STRATA_RUNTIME_OLD_GLIBC_H */
