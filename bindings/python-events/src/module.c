/* SPDX-License-Identifier: MIT */
/* module.c - the extension strata_events._native. */
#include "native.h"

const struct strata_loader *strata;

static struct strata_loader loader;
static char why_not[512];

/* availability() returns None, or why events of this process cannot be recorded. */
static PyObject *availability(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	if (strata)
		Py_RETURN_NONE;
	return PyUnicode_DecodeLocale(why_not, "surrogateescape");
}

static PyMethodDef functions[] = {
	{ "event", (PyCFunction)(void (*)(void))native_event, METH_FASTCALL | METH_KEYWORDS,
	  "event(name, level=INFO, /, **fields)\n--\n\nRecords an event with these fields." },
	{ "span", (PyCFunction)(void (*)(void))native_span, METH_FASTCALL | METH_KEYWORDS,
	  "span(name, level=INFO, /, **fields)\n--\n\n"
	  "Returns a context manager that is a span of this thread, or without fields a decorator." },
	{ "async_span", (PyCFunction)(void (*)(void))native_async_span,
	  METH_FASTCALL | METH_KEYWORDS,
	  "async_span(name, level=INFO, /, **fields)\n--\n\n"
	  "Returns a context manager that is a span which may overlap others and end in any thread." },
	{ "availability", availability, METH_NOARGS,
	  "availability()\n--\n\n"
	  "Returns None, or a sentence that says why events of this program cannot be recorded." },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "strata_events._native",
	.m_size = -1,
	.m_methods = functions,
};

static bool add_kinds(PyObject *module)
{
	static const struct {
		const char *name;
		int kind;
	} kinds[] = {
		{ "INT", KIND_INT },
		{ "UINT", KIND_UINT },
		{ "HEX", KIND_HEX },
		{ "FLOAT", KIND_FLOAT },
		{ "BOOL", KIND_BOOL },
		{ "TEXT", KIND_TEXT },
		{ "BYTES", KIND_BUFFER + STRATA_U8 },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (PyModule_AddIntConstant(module, kinds[i].name, kinds[i].kind))
			return false;
	return true;
}

static bool add_type(PyObject *module, const char *name, PyTypeObject *type)
{
	Py_INCREF(type);
	return !PyModule_AddObject(module, name, (PyObject *)type);
}

PyMODINIT_FUNC PyInit__native(void)
{
	PyObject *module = PyModule_Create(&definition);

	if (!module)
		return NULL;
	strata = strata_loader_open(&loader, why_not, sizeof(why_not));
	if (PyType_Ready(&event_type) || !spans_init(module) || !functions_init(module) ||
	    !add_kinds(module) || !add_type(module, "Event", &event_type) ||
	    !add_type(module, "Traced", &traced_type)) {
		Py_DECREF(module);
		return NULL;
	}
	return module;
}
