/* SPDX-License-Identifier: MIT */
/*
 * lttng_event.h - data that the headers in strata/lttng-compat leave in an object: events, if it has call sites, and
 * providers, if it has the probes. Both find each other here, also across objects.
 *
 *   call site ──▶ struct strata_lttng_event      one for each event and object
 *                       │ bound while the provider is loaded
 *                       ▼
 *                 struct strata_lttng_probe      fields, level, and the function that makes the record
 *
 * An event's sites are an object of their own for libstrata, registered from binding to unloading. So
 * nothing is listed that could not be recorded, and an object without probes needs no libstrata.
 *
 * Decision: docs/decisions/0007-lttng-provider-objects.md
 */
#ifndef STRATA_USER_LTTNG_EVENT_H
#define STRATA_USER_LTTNG_EVENT_H

/* LTTng's headers lie where compilers do not warn about expanded macros; these headers do not. */
#pragma GCC system_header

#include <elf.h>
#include <string.h>

#include <strata/user/object.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the structures below. Objects with different versions do not find each other. */
#define STRATA_LTTNG_VERSION 1

#define STRATA_LTTNG_HIDDEN __attribute__((weak, visibility("hidden")))

#define STRATA_LTTNG_LEVEL_DEFAULT 13
#define STRATA_LTTNG_LEVEL_MAX	   14

struct strata_lttng_provider;

/* An event in an object with call sites; zero-initialised but for names and sites. */
struct strata_lttng_event {
	struct strata_tracepoint point; /* not ".tracepoint": LTTng has a macro of that name */
	const char *signature;		/* types and names of the arguments */
	struct strata_object object;	/* the event's sites */
	void (*call)(void);		/* the bound probe's */
	const struct strata_lttng_provider *provider; /* NULL: not bound */
	uint32_t off; /* always 0: what .point.enabled points to while it is not bound */
};

/* A provider's description of one event. */
struct strata_lttng_probe {
	const char *name;
	const char *signature;
	struct strata_lttng_event *event; /* the one of the provider's own object */
	const struct strata_field *fields;
	void (*call)(void); /* of type void (struct strata_tracepoint *, arguments...) */
	const int *level;   /* NULL: the default */
	const char *file;
	uint32_t line;
	uint32_t nr_fields;
};

/*
 * A provider of events. The functions are those of the libstrata that the probes call: if several objects have
 * libstrata built in, a tracepoint must be registered with the one that records it.
 */
struct strata_lttng_provider {
	const char *name;
	const struct strata_lttng_probe *probes;
	uint32_t nr_probes;
	void (*load)(struct strata_object *);
	void (*unload)(struct strata_object *);
};

/* An executable or shared object that has events or probes. */
struct strata_lttng_object {
	uint32_t registered; /* translation units whose constructor has run */
	const int32_t *uses; /* for each call site, how far its event's tracepoint is from here */
	const int32_t *uses_end;
	const struct strata_lttng_provider *const *providers;
	const struct strata_lttng_provider *const *providers_end;
	struct strata_lttng_object *found; /* while another one is looking for them: the next */
};

/* Lists a provider by a pointer to it in this section. */
#define STRATA_LTTNG_LISTED \
	__attribute__((section("strata_lttng_providers"), used)) STRATA_LTTNG_UNPADDED
#define STRATA_LTTNG_UNPADDED
#ifdef __clang__
#if __has_feature(address_sanitizer)
#undef STRATA_LTTNG_UNPADDED
#define STRATA_LTTNG_UNPADDED __attribute__((no_sanitize("address")))
#endif
#endif

extern const int32_t __start_strata_lttng_uses[] STRATA_LTTNG_HIDDEN;
extern const int32_t __stop_strata_lttng_uses[] STRATA_LTTNG_HIDDEN;
extern const struct strata_lttng_provider
	*const __start_strata_lttng_providers[] STRATA_LTTNG_HIDDEN;
extern const struct strata_lttng_provider *const __stop_strata_lttng_providers[] STRATA_LTTNG_HIDDEN;

STRATA_LTTNG_HIDDEN struct strata_lttng_object strata_lttng_this_object = {
	0,
	__start_strata_lttng_uses,
	__stop_strata_lttng_uses,
	__start_strata_lttng_providers,
	__stop_strata_lttng_providers,
	0
};

/* ---- binding ---- */

static inline struct strata_lttng_event *strata_lttng_event_of(const int32_t *use)
{
	/* The tracepoint is the first member. */
	return (struct strata_lttng_event *)((uintptr_t)use + (uintptr_t)(intptr_t)*use);
}

static inline void strata_lttng_bind(struct strata_lttng_event *event,
				     const struct strata_lttng_provider *provider,
				     const struct strata_lttng_probe *probe)
{
	struct strata_tracepoint *t = &event->point;
	int level = probe->level ? *probe->level : STRATA_LTTNG_LEVEL_DEFAULT;

	/*
	 * Compared as numbers, since both addresses are 0 if the object has no site of the event.
	 */
	if (event->provider || (uintptr_t)event->object.sites == (uintptr_t)event->object.sites_end)
		return;
	event->provider = provider;
	t->state = 0;
	t->next = 0;
	t->file = probe->file;
	t->line = probe->line;
	t->fields = probe->fields;
	t->nr_fields = (uint16_t)probe->nr_fields;
	t->level = level < 0			  ? 0 :
		   level > STRATA_LTTNG_LEVEL_MAX ? STRATA_LTTNG_LEVEL_MAX :
						    (uint8_t)level;
	__atomic_store_n(&event->call, probe->call, __ATOMIC_RELEASE);
	event->object.registered = 1;
	provider->load(&event->object);
}

static inline void strata_lttng_unbind(struct strata_lttng_event *event)
{
	if (!event->provider)
		return;
	event->provider->unload(&event->object);
	event->object.registered = 0;
	/* The member .state stays: another thread may still be in libstrata with it. */
	__atomic_store_n(&event->point.enabled, &event->off, __ATOMIC_RELEASE);
	__atomic_store_n(&event->call, (void (*)(void))0, __ATOMIC_RELAXED);
	event->provider = 0;
}

/* Binds an event to the probe of the same name, if the probe takes the arguments that the call sites give. */
static inline void strata_lttng_bind_by_name(struct strata_lttng_event *event,
					     const struct strata_lttng_provider *provider)
{
	uint32_t i;

	if (event->provider || strcmp(event->point.provider, provider->name))
		return;
	for (i = 0; i < provider->nr_probes; i++)
		if (!strcmp(event->point.name, provider->probes[i].name) &&
		    !strcmp(event->signature, provider->probes[i].signature)) {
			strata_lttng_bind(event, provider, &provider->probes[i]);
			return;
		}
}

static inline void strata_lttng_meet(const struct strata_lttng_object *user,
				     const struct strata_lttng_object *source)
{
	const struct strata_lttng_provider *const *p;
	const int32_t *use;

	for (p = source->providers; p != source->providers_end; p++)
		for (use = user->uses; use != user->uses_end; use++)
			strata_lttng_bind_by_name(strata_lttng_event_of(use), *p);
}

/* ---- the other objects of the process ---- */

#if __SIZEOF_POINTER__ == 8
typedef Elf64_Phdr strata_lttng_segment;
#else
typedef Elf32_Phdr strata_lttng_segment;
#endif

/* The first members of struct dl_phdr_info, which <link.h> defines only with _GNU_SOURCE. */
struct strata_lttng_module {
	uintptr_t base;
	const char *name;
	const strata_lttng_segment *segments;
	uint16_t nr_segments;
};

int strata_lttng_each_module(int (*)(struct strata_lttng_module *, size_t, void *),
			     void *) __asm__("dl_iterate_phdr");

/*
 * Returns the object of an ELF note (name "strata", type STRATA_LTTNG_VERSION), which has the distance from its
 * content to the object's struct strata_lttng_object. Notes can be found even in an object that was loaded
 * RTLD_LOCAL, or that exports no symbol.
 */
static inline struct strata_lttng_object *strata_lttng_note(uintptr_t note, uintptr_t end,
							    uintptr_t align)
{
	while (end - note >= sizeof(Elf64_Nhdr)) {
		const Elf64_Nhdr *header = (const Elf64_Nhdr *)note;
		uintptr_t name = note + sizeof(*header);
		uintptr_t content = (name + header->n_namesz + align - 1) & ~(align - 1);

		if (header->n_type == STRATA_LTTNG_VERSION && header->n_namesz == 7 &&
		    header->n_descsz == 4 && !memcmp((const void *)name, "strata", 7))
			return (struct strata_lttng_object *)(content +
							      (uintptr_t)(intptr_t) *
								      (const int32_t *)content);
		note = (content + header->n_descsz + align - 1) & ~(align - 1);
		if (note > end)
			break;
	}
	return 0;
}

/* Puts the module's object at the begin of the list at @list, unless its constructors have not run. */
static inline int strata_lttng_find(struct strata_lttng_module *module, size_t bytes, void *list)
{
	struct strata_lttng_object *object = 0, **first = (struct strata_lttng_object **)list;
	uint16_t i;

	(void)bytes;
	for (i = 0; i < module->nr_segments && !object; i++) {
		const strata_lttng_segment *s = &module->segments[i];
		uintptr_t begin = module->base + (uintptr_t)s->p_vaddr;

		if (s->p_type == PT_NOTE)
			object = strata_lttng_note(begin, begin + (uintptr_t)s->p_memsz,
						   s->p_align == 8 ? 8 : 4);
	}
	if (object && object->registered) {
		object->found = *first;
		*first = object;
	}
	return 0;
}

/* ---- loading and unloading; the dynamic linker lets one thread at a time do it ---- */

/*
 * Binds events and probes of this object, then with those of others loaded before; objects that are loaded later do
 * the same with this one.
 */
STRATA_LTTNG_HIDDEN void strata_lttng_load(void)
{
	struct strata_lttng_object *self = &strata_lttng_this_object, *others = 0;
	const struct strata_lttng_provider *const *p;
	const int32_t *use;
	int look = self->providers != self->providers_end;
	uint32_t i;

	for (p = self->providers; p != self->providers_end; p++)
		for (i = 0; i < (*p)->nr_probes; i++)
			strata_lttng_bind((*p)->probes[i].event, *p, &(*p)->probes[i]);
	for (use = self->uses; use != self->uses_end; use++)
		look |= !strata_lttng_event_of(use)->provider;
	if (look)
		strata_lttng_each_module(strata_lttng_find, &others);
	for (; others; others = others->found)
		if (others != self) {
			strata_lttng_meet(self, others);
			strata_lttng_meet(others, self);
		}
}

STRATA_LTTNG_HIDDEN void strata_lttng_unload(void)
{
	struct strata_lttng_object *self = &strata_lttng_this_object, *others = 0;
	const struct strata_lttng_provider *const *p;
	const int32_t *use;

	for (use = self->uses; use != self->uses_end; use++)
		strata_lttng_unbind(strata_lttng_event_of(use));
	if (self->providers == self->providers_end)
		return;
	strata_lttng_each_module(strata_lttng_find, &others);
	for (; others; others = others->found)
		for (p = self->providers; p != self->providers_end; p++)
			for (use = others->uses; use != others->uses_end; use++)
				if (strata_lttng_event_of(use)->provider == *p)
					strata_lttng_unbind(strata_lttng_event_of(use));
}

/* Registers the unit before the constructors of the program run, so that their events are recorded, too. */
__attribute__((constructor(101), unused)) static void strata_lttng_load_unit(void)
{
	/* Emits a note and no instruction: an assembler knows the address only at this place. */
	__asm__ volatile(".pushsection .note.strata.lttng, \"a?\", %%note\n\t"
			 ".balign 4\n\t"
			 ".long 7, 4, %c1\n\t"
			 ".asciz \"strata\"\n\t"
			 ".balign 4\n\t"
			 ".long " STRATA_USER_SYMBOL_AT(0) " - .\n\t"
							   ".popsection"
			 :
			 : STRATA_USER_SYMBOL(&strata_lttng_this_object),
			   "i"(STRATA_LTTNG_VERSION));
	if (!strata_lttng_this_object.registered++)
		strata_lttng_load();
}

__attribute__((destructor(101), unused)) static void strata_lttng_unload_unit(void)
{
	if (!--strata_lttng_this_object.registered)
		strata_lttng_unload();
}

#ifdef __cplusplus
}
#endif

#endif /* STRATA_USER_LTTNG_EVENT_H */
