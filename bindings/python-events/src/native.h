/* SPDX-License-Identifier: MIT */
/*
 * native.h - what the files of the extension share. All of it runs with the interpreter's lock held.
 *
 * A site is a name with field names, as a program writes them in one call. Its variants are event classes, one for each
 * combination of types that its values have had. A class of declared types is a site with one variant.
 */
#ifndef STRATA_PYTHON_NATIVE_H
#define STRATA_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include <strata/events.h>

#include "../../loader/strata_loader.h"

/* libstrata, or NULL where it is not installed. */
extern const struct strata_loader *strata;

/* The most fields of a class: 64, less the one that is the key of a span. */
#define FIELDS_MAX   63
#define WORDS_MAX    (2 * FIELDS_MAX)
#define VARIANTS_MAX 8

/* Types of a field, and what values it takes. */
enum kind {
	KIND_INT,    /* int that fits, and bool */
	KIND_UINT,   /* int from 0 */
	KIND_HEX,    /* as KIND_UINT, shown in base 16 */
	KIND_FLOAT,  /* float, and int */
	KIND_BOOL,   /* bool */
	KIND_TEXT,   /* str */
	KIND_OBJECT, /* what no other kind takes, as str() of it */
	KIND_ANY,    /* all, as str() of it */
	KIND_INTS,   /* list or tuple of KIND_INT */
	KIND_FLOATS, /* list or tuple of KIND_FLOAT */
	/* A buffer of one dimension: KIND_BUFFER + STRATA_I8 .. STRATA_F64 */
	KIND_BUFFER = 32,
};

enum site_kind {
	SITE_EVENT,
	SITE_SPAN,
	SITE_KEYED
};

struct variant {
	const uint32_t *enabled;
	void *handle; /* struct strata_event or struct strata_span */
	uint8_t kinds[FIELDS_MAX];
};

struct site {
	PyObject *name;	  /* "provider:event" */
	PyObject *fields; /* tuple of the names, or NULL */
	uint32_t nr_fields;
	uint32_t level;
	enum site_kind kind;
	bool is_declared; /* its one variant takes all values, converted */
	bool is_tried;	  /* its first variant is there, or is refused */
	bool is_refused;  /* what libstrata refuses once is not tried again */
	uint32_t nr_variants;
	struct variant *variants[VARIANTS_MAX];
	PyObject *idle; /* of spans: what is returned while nobody records */
};

/* Values of a record, and the objects that keep what they point to. */
struct values {
	union strata_value words[WORDS_MAX];
	PyObject *held[2 * FIELDS_MAX];
	uint32_t nr;
	uint32_t nr_held;
};

/* values.c */
uint8_t kind_of(PyObject *value);
bool values_set(struct values *values, PyObject *const *objects, const struct site *site,
		const struct variant *variant);
void values_release(struct values *values);
void describe_field(uint8_t kind, const char *name, struct strata_event_field *field);

/* sites.c */
struct site *site_new(PyObject *name, PyObject *fields, long level, enum site_kind kind);
void site_free(struct site *site);
/* Registers a class of these types. Returns false, with no exception, if libstrata refuses it. */
bool site_register(struct site *site, const uint8_t *kinds,
		   const struct strata_event_enumeration *const *enumerations);
/* Registers the class of these types, the first time. */
void site_begin(struct site *site, PyObject *const *objects);
/* Sets @values to what the site's matching variant takes. Returns NULL if nobody records that one. */
const struct variant *site_values(struct site *site, PyObject *const *objects,
				  struct values *values);
struct site *site_of_call(const char *function, PyObject *const *args, Py_ssize_t nargs,
			  PyObject *kwnames, enum site_kind kind);
void complain(const char *name, const char *why);
extern PyTypeObject event_type;
PyObject *native_event(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
		       PyObject *kwnames);

static inline bool site_is_on(const struct site *site)
{
	for (uint32_t i = 0; i < site->nr_variants; i++)
		if (__atomic_load_n(site->variants[i]->enabled, __ATOMIC_RELAXED))
			return true;
	return false;
}

/* spans.c */
extern PyTypeObject span_type, traced_type;
PyObject *native_span(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *native_async_span(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
			    PyObject *kwnames);
bool spans_init(PyObject *module);

/* functions.c */
bool functions_init(PyObject *module);

#endif /* STRATA_PYTHON_NATIVE_H */
