/* SPDX-License-Identifier: MIT */
/*
 * strata_loader.h - loads libstrata while a program runs, for the bindings of other languages.
 *
 * A binding includes this header in one file and calls strata_loader_open() once. Without the library the program goes on:
 * strata_loader_open() returns NULL and a sentence that says why. Where the environment has STRATA_VERBOSE, the sentence
 * is also printed, once; not by a binding that prints it itself (STRATA_LOADER_SILENT).
 *
 * STRATA_LIBRARY in the environment names another file than "libstrata.so.0". Both variables are ignored in programs that
 * have more rights than their caller.
 */
#ifndef STRATA_LOADER_H
#define STRATA_LOADER_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <strata/events.h>

/* The functions of strata/events.h that bindings call. */
struct strata_loader {
	__typeof__(strata_provider_register) *provider_register;
	__typeof__(strata_event_register) *event_register;
	__typeof__(strata_event_record) *event_record;
	__typeof__(strata_event_record_payload) *event_record_payload;
	__typeof__(strata_span_register) *span_register;
	__typeof__(strata_span_enabled) *span_enabled;
	__typeof__(strata_span_begin) *span_begin;
	__typeof__(strata_span_end) *span_end;
	__typeof__(strata_span_begin_key) *span_begin_key;
	__typeof__(strata_span_end_key) *span_end_key;
	__typeof__(strata_span_new_key) *span_new_key;
};

static int strata_loader_find(void *handle, const char *name, void *function, char *why,
			      size_t why_bytes)
{
	void *found = dlsym(handle, name);

	if (!found)
		snprintf(why, why_bytes, "libstrata is too old: it has no %s", name);
	/* A pointer to a function is stored as one to an object, as POSIX has it for dlsym(). */
	*(void **)function = found;
	return found ? 0 : -1;
}

/**
 * strata_loader_open() - loads the library, if it is there.
 * @loader: out: its functions; untouched on failure.
 * @why:    out: why it cannot be loaded, as text.
 *
 * Returns @loader, or NULL. The library is never unloaded.
 */
static inline const struct strata_loader *strata_loader_open(struct strata_loader *loader,
							     char *why, size_t why_bytes)
{
	const char *file = secure_getenv("STRATA_LIBRARY");
	const char *verbose = secure_getenv("STRATA_VERBOSE");
	struct strata_loader found;
	void *handle = dlopen(file && *file ? file : "libstrata.so.0", RTLD_NOW | RTLD_LOCAL);
	int failed = 0;

	if (!handle) {
		const char *said = dlerror();

		snprintf(why, why_bytes, "%s", said ? said : "libstrata.so.0 cannot be loaded");
		failed = 1;
	}
#define STRATA_LOADER_FIND(member, name) \
	(failed = failed || strata_loader_find(handle, name, &found.member, why, why_bytes))
	STRATA_LOADER_FIND(provider_register, "strata_provider_register");
	STRATA_LOADER_FIND(event_register, "strata_event_register");
	STRATA_LOADER_FIND(event_record, "strata_event_record");
	STRATA_LOADER_FIND(event_record_payload, "strata_event_record_payload");
	STRATA_LOADER_FIND(span_register, "strata_span_register");
	STRATA_LOADER_FIND(span_enabled, "strata_span_enabled");
	STRATA_LOADER_FIND(span_begin, "strata_span_begin");
	STRATA_LOADER_FIND(span_end, "strata_span_end");
	STRATA_LOADER_FIND(span_begin_key, "strata_span_begin_key");
	STRATA_LOADER_FIND(span_end_key, "strata_span_end_key");
	STRATA_LOADER_FIND(span_new_key, "strata_span_new_key");
#undef STRATA_LOADER_FIND
	if (failed) {
#ifdef STRATA_LOADER_SILENT
		verbose = NULL;
#endif
		if (verbose && *verbose)
			fprintf(stderr, "strata: events of this program are not recorded: %s\n",
				why);
		return NULL;
	}
	*loader = found;
	return loader;
}

#endif /* STRATA_LOADER_H */
