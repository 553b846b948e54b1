/* SPDX-License-Identifier: MIT */
/* spans.c - spans as context managers, and functions whose calls are spans. */
#include "native.h"

#include <string.h>

#include <structmember.h>

/*
 * The context manager. It has the values of its fields until it is entered. While nobody records its class, all calls get the
 * class' one span without values, whose methods do nothing.
 */
struct span {
	PyObject_VAR_HEAD struct site *site;
	const struct variant *begun; /* variant whose end is to be recorded */
	uint64_t key;
	PyObject *values[];
};

static PyObject *decorate;   /* strata_events._decorate() */
static PyObject *no_library; /* span of a program without libstrata */

static struct span *span_make(struct site *site, PyObject *const *values, uint32_t nr)
{
	struct span *span = PyObject_NewVar(struct span, &span_type, nr);

	if (!span)
		return NULL;
	span->site = site;
	span->begun = NULL;
	span->key = 0;
	for (uint32_t i = 0; i < nr; i++) {
		Py_INCREF(values[i]);
		span->values[i] = values[i];
	}
	return span;
}

static PyObject *span_of(const char *function, PyObject *const *args, Py_ssize_t nargs,
			 PyObject *kwnames, enum site_kind kind)
{
	struct site *site;

	if (!strata) {
		if (!no_library)
			no_library = (PyObject *)span_make(NULL, NULL, 0);
		Py_XINCREF(no_library);
		return no_library;
	}
	site = site_of_call(function, args, nargs, kwnames, kind);
	if (!site)
		return NULL;
	if (!site->idle) {
		site->idle = (PyObject *)span_make(site, NULL, 0);
		if (!site->idle)
			return NULL;
	}
	/* Without fields it may be a decorator, which knows by the function whether the class has keys. */
	if (site->nr_fields)
		site_begin(site, args + nargs);
	if (site->is_tried && !site_is_on(site)) {
		Py_INCREF(site->idle);
		return site->idle;
	}
	return (PyObject *)span_make(site, args + nargs, site->nr_fields);
}

PyObject *native_span(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
	(void)module;
	return span_of("span", args, nargs, kwnames, SITE_SPAN);
}

PyObject *native_async_span(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
			    PyObject *kwnames)
{
	(void)module;
	return span_of("async_span", args, nargs, kwnames, SITE_KEYED);
}

/* Begins a span. Returns its variant if the end is to be recorded. */
static const struct variant *begin(struct site *site, PyObject *const *objects, uint64_t *key)
{
	struct values values;
	const struct variant *variant = site_values(site, objects, &values);
	int rc;

	if (!variant)
		return NULL;
	if (site->kind == SITE_KEYED) {
		*key = strata->span_new_key();
		rc = strata->span_begin_key(variant->handle, *key, values.words, values.nr);
	} else {
		rc = strata->span_begin(variant->handle, values.words, values.nr);
	}
	values_release(&values);
	return rc == 1 ? variant : NULL;
}

static void end(const struct site *site, const struct variant *variant, uint64_t key)
{
	if (site->kind == SITE_KEYED)
		strata->span_end_key(variant->handle, key);
	else
		strata->span_end(variant->handle);
}

static PyObject *span_enter(PyObject *self, PyObject *unused)
{
	struct span *span = (struct span *)self;

	(void)unused;
	if (span->site && self != span->site->idle && !span->begun &&
	    (uint32_t)Py_SIZE(span) == span->site->nr_fields)
		span->begun = begin(span->site, span->values, &span->key);
	Py_INCREF(self);
	return self;
}

static PyObject *span_exit(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
	struct span *span = (struct span *)self;
	const struct variant *begun = span->begun;

	(void)args;
	(void)nargs;
	if (begun) {
		span->begun = NULL;
		end(span->site, begun, span->key);
	}
	Py_RETURN_FALSE;
}

static void span_dealloc(PyObject *self)
{
	struct span *span = (struct span *)self;

	/* A coroutine that is thrown away does not leave its "with": the span of a key ends here. */
	if (span->begun && span->site->kind == SITE_KEYED)
		end(span->site, span->begun, span->key);
	for (Py_ssize_t i = 0; i < Py_SIZE(span); i++)
		Py_DECREF(span->values[i]);
	PyObject_Del(self);
}

static PyObject *span_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
	struct span *span = (struct span *)self;
	PyObject *function;

	if (kwargs || !PyArg_ParseTuple(args, "O", &function))
		return NULL;
	if (!span->site) {
		Py_INCREF(function);
		return function;
	}
	if (span->site->nr_fields) {
		PyErr_Format(PyExc_TypeError,
			     "span '%U': a span with fields cannot decorate a function",
			     span->site->name);
		return NULL;
	}
	if (!decorate) {
		PyObject *package = PyImport_ImportModule("strata_events");

		decorate = package ? PyObject_GetAttrString(package, "_decorate") : NULL;
		Py_XDECREF(package);
		if (!decorate)
			return NULL;
	}
	return PyObject_CallFunction(decorate, "OliO", span->site->name, (long)span->site->level,
				     span->site->kind == SITE_KEYED, function);
}

static PyMethodDef span_methods[] = {
	{ "__enter__", span_enter, METH_NOARGS, "Begins the span." },
	{ "__exit__", (PyCFunction)(void (*)(void))span_exit, METH_FASTCALL, "Ends the span." },
	{ NULL, NULL, 0, NULL },
};

PyTypeObject span_type = {
	PyVarObject_HEAD_INIT(NULL, 0).tp_name = "strata_events.Span",
	.tp_doc = "A span: a context manager, and without fields a decorator of functions.",
	.tp_basicsize = sizeof(struct span),
	.tp_itemsize = sizeof(PyObject *),
	.tp_flags = Py_TPFLAGS_DEFAULT,
	.tp_dealloc = span_dealloc,
	.tp_call = span_call,
	.tp_methods = span_methods,
};

/* ---- decorated functions ---- */

struct traced {
	PyObject_HEAD vectorcallfunc call;
	PyObject *function;
	PyObject *dictionary;
	PyObject *weak_references;
	struct site *site;
};

static PyObject *traced_call(PyObject *self, PyObject *const *args, size_t nargsf,
			     PyObject *kwnames)
{
	struct traced *traced = (struct traced *)self;
	const struct variant *begun = NULL;
	struct site *site = traced->site;
	PyObject *result, *function = traced->function;

	if (site_is_on(site))
		begun = begin(site, NULL, NULL);
	Py_INCREF(function);
	result = PyObject_Vectorcall(function, args, nargsf, kwnames);
	Py_DECREF(function);
	if (begun)
		end(site, begun, 0);
	return result;
}

/* _native.Traced(function, name, level): see _decorate(). */
static PyObject *traced_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	PyObject *function, *name;
	struct traced *traced;
	PyObject *call[2];

	if (kwargs || !PyArg_ParseTuple(args, "OUO!", &function, &name, &PyLong_Type, &call[1]))
		return NULL;
	traced = (struct traced *)type->tp_alloc(type, 0);
	if (!traced)
		return NULL;
	call[0] = name;
	traced->call = traced_call;
	Py_INCREF(function);
	traced->function = function;
	traced->site = site_of_call("span", call, 2, NULL, SITE_SPAN);
	if (!traced->site) {
		Py_DECREF(traced);
		return NULL;
	}
	site_begin(traced->site, NULL);
	return (PyObject *)traced;
}

static int traced_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(((struct traced *)self)->function);
	Py_VISIT(((struct traced *)self)->dictionary);
	return 0;
}

static int traced_clear(PyObject *self)
{
	Py_CLEAR(((struct traced *)self)->function);
	Py_CLEAR(((struct traced *)self)->dictionary);
	return 0;
}

static void traced_dealloc(PyObject *self)
{
	PyObject_GC_UnTrack(self);
	if (((struct traced *)self)->weak_references)
		PyObject_ClearWeakRefs(self);
	traced_clear(self);
	Py_TYPE(self)->tp_free(self);
}

/* A function of a class is bound to the object, as functions are. */
static PyObject *traced_get(PyObject *self, PyObject *object, PyObject *type)
{
	(void)type;
	if (object && object != Py_None)
		return PyMethod_New(self, object);
	Py_INCREF(self);
	return self;
}

static PyGetSetDef traced_properties[] = {
	{ "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

PyTypeObject traced_type = {
	PyVarObject_HEAD_INIT(NULL, 0).tp_name = "strata_events.Traced",
	.tp_doc = "A function whose calls are spans.",
	.tp_basicsize = sizeof(struct traced),
	.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC |
		    Py_TPFLAGS_METHOD_DESCRIPTOR,
	.tp_new = traced_new,
	.tp_dealloc = traced_dealloc,
	.tp_traverse = traced_traverse,
	.tp_clear = traced_clear,
	.tp_call = PyVectorcall_Call,
	.tp_vectorcall_offset = offsetof(struct traced, call),
	.tp_descr_get = traced_get,
	.tp_dictoffset = offsetof(struct traced, dictionary),
	.tp_weaklistoffset = offsetof(struct traced, weak_references),
	.tp_getset = traced_properties,
};

bool spans_init(PyObject *module)
{
	(void)module;
	return !PyType_Ready(&span_type) && !PyType_Ready(&traced_type);
}
