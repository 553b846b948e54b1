/* SPDX-License-Identifier: MIT */
/* sites.c - the names that a program records, and their event classes. */
#include "native.h"

#include <string.h>

#include <structmember.h>

/* Prints what cannot be recorded, if the environment has STRATA_VERBOSE. */
void complain(const char *name, const char *why)
{
	const char *verbose = secure_getenv("STRATA_VERBOSE");

	if (verbose && *verbose)
		fprintf(stderr, "strata: '%s' is not recorded: %s\n", name, why);
}

struct site *site_new(PyObject *name, PyObject *fields, long level, enum site_kind kind)
{
	struct site *site = PyMem_Calloc(1, sizeof(*site));

	if (!site) {
		PyErr_NoMemory();
		return NULL;
	}
	Py_INCREF(name);
	Py_XINCREF(fields);
	site->name = name;
	site->fields = fields;
	site->nr_fields = fields ? PyTuple_GET_SIZE(fields) : 0;
	site->level = level;
	site->kind = kind;
	return site;
}

void site_free(struct site *site)
{
	if (!site)
		return;
	Py_CLEAR(site->name);
	Py_CLEAR(site->fields);
	Py_CLEAR(site->idle);
	for (uint32_t i = 0; i < site->nr_variants; i++)
		PyMem_Free(site->variants[i]);
	PyMem_Free(site);
}

/* Registers @class_, whose name may be that of another class: then it gets a number, "sold/2". */
static bool variant_register(struct site *site, struct strata_provider *provider,
			     struct strata_event_class *class_, struct variant *variant)
{
	const char *name = class_->name;
	char numbered[300], why[256];

	for (int number = 1; number <= 2 * VARIANTS_MAX; number++) {
		int rc;

		if (number > 1) {
			snprintf(numbered, sizeof(numbered), "%s/%d", name, number);
			class_->name = numbered;
		}
		if (site->kind == SITE_EVENT) {
			struct strata_event *event;

			rc = strata->event_register(provider, class_, &event, why, sizeof(why));
			variant->handle = event;
			variant->enabled = event ? event->enabled : NULL;
		} else {
			struct strata_span *span;
			uint32_t flags = site->kind == SITE_KEYED ? STRATA_SPAN_KEYED : 0;

			rc = strata->span_register(provider, class_, flags, &span, why,
						   sizeof(why));
			variant->handle = span;
			variant->enabled = span ? strata->span_enabled(span) : NULL;
		}
		if (!rc)
			return true;
		if (rc != -EEXIST)
			break;
	}
	complain(name, why);
	return false;
}

bool site_register(struct site *site, const uint8_t *kinds,
		   const struct strata_event_enumeration *const *enumerations)
{
	struct strata_event_field fields[FIELDS_MAX];
	struct strata_event_class class_ = STRATA_EVENT_CLASS(NULL, site->level, fields, 0);
	struct strata_provider *provider = NULL;
	const char *name = PyUnicode_AsUTF8(site->name);
	PyFrameObject *frame = PyEval_GetFrame();
	PyObject *place = NULL;
	PyCodeObject *code = NULL;
	struct variant *variant;
	char group[256], why[256];
	const char *colon;
	bool done = false;

	if (!name || site->nr_variants == VARIANTS_MAX) {
		PyErr_Clear();
		return false;
	}
	colon = strchr(name, ':');
	snprintf(group, sizeof(group), "%.*s", colon ? (int)(colon - name) : 6,
		 colon ? name : "python");
	class_.name = colon ? colon + 1 : name;
	for (uint32_t i = 0; i < site->nr_fields; i++) {
		const char *field = PyUnicode_AsUTF8(PyTuple_GET_ITEM(site->fields, i));

		if (!field) {
			PyErr_Clear();
			return false;
		}
		describe_field(kinds[i], field, &fields[i]);
		if (enumerations)
			fields[i].enumeration = enumerations[i];
	}
	class_.nr_fields = site->nr_fields;
	if (frame) {
		code = PyFrame_GetCode(frame);
		place = code->co_filename;
		class_.file = PyUnicode_AsUTF8(place);
		class_.line = class_.file ? PyFrame_GetLineNumber(frame) : 0;
		PyErr_Clear();
	}
	variant = PyMem_Calloc(1, sizeof(*variant));
	if (!variant) {
		complain(name, "no memory");
	} else if (strata->provider_register(group, &provider, why, sizeof(why))) {
		complain(name, why);
	} else if (variant_register(site, provider, &class_, variant)) {
		memcpy(variant->kinds, kinds, site->nr_fields);
		site->variants[site->nr_variants++] = variant;
		done = true;
	}
	if (!done)
		PyMem_Free(variant);
	Py_XDECREF(code);
	return done;
}

/* Adds a variant that takes these values; the last one takes all. */
static struct variant *site_extend(struct site *site, PyObject *const *objects)
{
	uint8_t kinds[FIELDS_MAX];
	bool is_last = site->nr_variants == VARIANTS_MAX - 1;

	if (site->is_refused)
		return NULL;
	site->is_tried = true;
	for (uint32_t i = 0; i < site->nr_fields; i++)
		kinds[i] = is_last ? KIND_ANY : kind_of(objects[i]);
	if (!site_register(site, kinds, NULL)) {
		site->is_refused = true;
		return NULL;
	}
	return site->variants[site->nr_variants - 1];
}

void site_begin(struct site *site, PyObject *const *objects)
{
	if (!site->is_tried)
		site_extend(site, objects);
}

const struct variant *site_values(struct site *site, PyObject *const *objects,
				  struct values *values)
{
	struct variant *variant;

	for (uint32_t i = 0; i < site->nr_variants; i++) {
		variant = site->variants[i];
		if (!values_set(values, objects, site, variant))
			continue;
		if (__atomic_load_n(variant->enabled, __ATOMIC_RELAXED))
			return variant;
		values_release(values);
		return NULL;
	}
	variant = site_extend(site, objects);
	if (!variant || !__atomic_load_n(variant->enabled, __ATOMIC_RELAXED) ||
	    !values_set(values, objects, site, variant))
		return NULL;
	return variant;
}

/*
 * The sites of calls. A program's code has its constants once, so that the addresses of the name and of the tuple of field
 * names find the site; where they were made anew, a dictionary does. An entry owns what its addresses are of.
 */
#define CACHE_ENTRIES 2048u

struct entry {
	PyObject *name;
	PyObject *kwnames;
	PyObject *level;
	struct site *site;
};

static struct entry cache[3][CACHE_ENTRIES];
static PyObject *known_sites; /* (name, field names, level, kind): address of the site */

static struct site *site_find(PyObject *name, PyObject *kwnames, PyObject *level,
			      enum site_kind kind)
{
	long number = level ? PyLong_AsLong(level) : STRATA_INFO;
	PyObject *key, *known;
	struct site *site = NULL;

	if (number == -1 && PyErr_Occurred())
		return NULL;
	if (number < (long)STRATA_EMERG || number > (long)STRATA_DEBUG) {
		PyErr_Format(PyExc_ValueError, "level %ld: there are 0 to 14", number);
		return NULL;
	}
	if (!known_sites && !(known_sites = PyDict_New()))
		return NULL;
	key = Py_BuildValue("(OOli)", name, kwnames ? kwnames : Py_None, number, kind);
	if (!key)
		return NULL;
	known = PyDict_GetItemWithError(known_sites, key);
	if (known) {
		site = PyLong_AsVoidPtr(known);
	} else if (!PyErr_Occurred()) {
		site = site_new(name, kwnames, number, kind);
		known = site ? PyLong_FromVoidPtr(site) : NULL;
		if (!known || PyDict_SetItem(known_sites, key, known)) {
			site_free(site);
			site = NULL;
		}
		Py_XDECREF(known);
	}
	Py_DECREF(key);
	return site;
}

/*
 * Returns the site of a call FUNCTION(name[, level], field=value...). An exception is set if it cannot be called so.
 */
struct site *site_of_call(const char *function, PyObject *const *args, Py_ssize_t nargs,
			  PyObject *kwnames, enum site_kind kind)
{
	PyObject *name, *level;
	struct entry *entry;
	struct site *site;
	uintptr_t hash;

	if (nargs < 1 || nargs > 2) {
		PyErr_Format(PyExc_TypeError,
			     "%s() takes a name, a level, and fields by name: %zd given", function,
			     nargs);
		return NULL;
	}
	name = args[0];
	level = nargs == 2 ? args[1] : NULL;
	hash = ((uintptr_t)name >> 4) * 31 + ((uintptr_t)kwnames >> 4) +
	       ((uintptr_t)level >> 4) * 7;
	entry = &cache[kind][(hash ^ hash >> 11) % CACHE_ENTRIES];
	if (entry->name == name && entry->kwnames == kwnames && entry->level == level)
		return entry->site;
	if (!PyUnicode_CheckExact(name)) {
		PyErr_Format(PyExc_TypeError, "%s(): the name is a str, not %s", function,
			     Py_TYPE(name)->tp_name);
		return NULL;
	}
	if (kwnames && PyTuple_GET_SIZE(kwnames) > FIELDS_MAX) {
		PyErr_Format(PyExc_TypeError, "%s(): %zd fields; there are at most %d", function,
			     PyTuple_GET_SIZE(kwnames), FIELDS_MAX);
		return NULL;
	}
	site = site_find(name, kwnames, level, kind);
	if (!site)
		return NULL;
	{
		struct entry old = *entry;

		Py_INCREF(name);
		Py_XINCREF(kwnames);
		Py_XINCREF(level);
		*entry = (struct entry){ name, kwnames, level, site };
		Py_XDECREF(old.name);
		Py_XDECREF(old.kwnames);
		Py_XDECREF(old.level);
	}
	return site;
}

static void record(struct site *site, PyObject *const *objects)
{
	struct values values;
	const struct variant *variant = site_values(site, objects, &values);

	if (!variant)
		return;
	strata->event_record(variant->handle, values.words, values.nr);
	values_release(&values);
}

/* event(name[, level], **fields) */
PyObject *native_event(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
	struct site *site;

	(void)module;
	if (!strata)
		Py_RETURN_NONE;
	site = site_of_call("event", args, nargs, kwnames, SITE_EVENT);
	if (!site)
		return NULL;
	site_begin(site, args + nargs);
	if (site_is_on(site))
		record(site, args + nargs);
	Py_RETURN_NONE;
}

/* ---- classes of declared types ---- */

struct event {
	PyObject_HEAD vectorcallfunc call;
	struct site *site;
	const uint32_t *enabled;
};

static const uint32_t never;

static PyObject *event_call_by_name(struct event *event, PyObject *const *args, Py_ssize_t nargs,
				    PyObject *kwnames)
{
	PyObject *ordered[FIELDS_MAX] = { NULL };
	uint32_t i;

	for (i = 0; i < (uint32_t)nargs; i++)
		ordered[i] = args[i];
	for (; i < event->site->nr_fields; i++) {
		PyObject *name = PyTuple_GET_ITEM(kwnames, i - nargs);
		Py_ssize_t at = PySequence_Index(event->site->fields, name);

		if (at < 0 || ordered[at]) {
			PyErr_Format(PyExc_TypeError,
				     at < 0 ? "event '%U' has no field '%U'" :
					      "event '%U': field '%U' has two values",
				     event->site->name, name);
			return NULL;
		}
		ordered[at] = args[i];
	}
	record(event->site, ordered);
	Py_RETURN_NONE;
}

static PyObject *event_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
	struct event *event = (struct event *)self;
	Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);

	if (nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0) != event->site->nr_fields) {
		PyErr_Format(PyExc_TypeError, "event '%U' has %u fields, and %zd values were given",
			     event->site->name, event->site->nr_fields,
			     nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
		return NULL;
	}
	if (!__atomic_load_n(event->enabled, __ATOMIC_RELAXED))
		Py_RETURN_NONE;
	if (kwnames)
		return event_call_by_name(event, args, nargs, kwnames);
	record(event->site, args);
	Py_RETURN_NONE;
}

/* Reads [(name, value), ...], the labels of an enumeration. */
static bool labels_of(PyObject *list, struct strata_event_enumeration *enumeration)
{
	Py_ssize_t nr = PyList_GET_SIZE(list);
	struct strata_event_label *labels = PyMem_Calloc(nr ? nr : 1, sizeof(*labels));

	enumeration->name = "";
	enumeration->labels = labels;
	enumeration->nr_labels = nr;
	if (!labels) {
		PyErr_NoMemory();
		return false;
	}
	for (Py_ssize_t i = 0; i < nr; i++) {
		long long value;

		if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "sL", &labels[i].name, &value))
			return false;
		labels[i].from = value;
		labels[i].to = value;
	}
	return true;
}

/* _native.Event(name, level, field names, kinds, [labels or None]): see Event() of the package. */
static PyObject *event_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct strata_event_enumeration enumerations[FIELDS_MAX] = { { 0 } };
	const struct strata_event_enumeration *of_fields[FIELDS_MAX] = { NULL };
	PyObject *name, *fields, *labels, *result = NULL;
	struct event *event;
	Py_buffer kinds;
	uint32_t i;
	long level;

	if (!PyArg_ParseTuple(args, "UlO!y*O!", &name, &level, &PyTuple_Type, &fields, &kinds,
			      &PyList_Type, &labels))
		return NULL;
	if (kwargs || PyTuple_GET_SIZE(fields) > FIELDS_MAX ||
	    kinds.len != PyTuple_GET_SIZE(fields) || PyList_GET_SIZE(labels) != kinds.len) {
		PyErr_Format(PyExc_ValueError, "event '%U': %zd fields; there are at most %d", name,
			     PyTuple_GET_SIZE(fields), FIELDS_MAX);
		PyBuffer_Release(&kinds);
		return NULL;
	}
	event = (struct event *)type->tp_alloc(type, 0);
	if (!event)
		goto out;
	event->call = event_call;
	event->enabled = &never;
	event->site = site_new(name, fields, level, SITE_EVENT);
	if (!event->site)
		goto out;
	event->site->is_declared = true;
	for (i = 0; i < kinds.len; i++) {
		PyObject *list = PyList_GET_ITEM(labels, i);

		if (!PyList_Check(list))
			continue;
		if (!labels_of(list, &enumerations[i]))
			goto out;
		of_fields[i] = &enumerations[i];
	}
	if (strata && site_register(event->site, kinds.buf, of_fields))
		event->enabled = event->site->variants[0]->enabled;
	result = (PyObject *)event;
out:
	for (i = 0; i < FIELDS_MAX; i++)
		PyMem_Free((void *)enumerations[i].labels);
	PyBuffer_Release(&kinds);
	if (!result)
		Py_XDECREF(event);
	return result;
}

static void event_dealloc(PyObject *self)
{
	site_free(((struct event *)self)->site);
	Py_TYPE(self)->tp_free(self);
}

static PyObject *event_enabled(PyObject *self, void *closure)
{
	(void)closure;
	return PyBool_FromLong(__atomic_load_n(((struct event *)self)->enabled, __ATOMIC_RELAXED) !=
			       0);
}

static PyObject *event_repr(PyObject *self)
{
	return PyUnicode_FromFormat("<strata_events.Event %U>", ((struct event *)self)->site->name);
}

static PyGetSetDef event_properties[] = {
	{ "enabled", event_enabled, NULL, "True while somebody records the event.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

PyTypeObject event_type = {
	PyVarObject_HEAD_INIT(NULL, 0).tp_name = "strata_events.Event",
	.tp_doc =
		"An event class with fields of declared types. Call it with one value for each field.",
	.tp_basicsize = sizeof(struct event),
	.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
	.tp_new = event_new,
	.tp_dealloc = event_dealloc,
	.tp_repr = event_repr,
	.tp_call = PyVectorcall_Call,
	.tp_vectorcall_offset = offsetof(struct event, call),
	.tp_getset = event_properties,
};
