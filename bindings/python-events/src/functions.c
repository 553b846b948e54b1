/* SPDX-License-Identifier: MIT */
/*
 * functions.c - calls of Python functions as spans, by sys.monitoring of Python 3.12 and later.
 *
 * The interpreter calls the callbacks below. What is known of a function is kept with its code object: its span class, or
 * that it was not selected; then the interpreter is told not to report it again.
 */
#include "native.h"

#if PY_VERSION_HEX >= 0x030C0000

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* More functions than these share one class, with their name as a field. */
#define FUNCTIONS_MAX 4096

struct function {
	uint32_t selection; /* the one that selected it, or did not */
	bool is_selected;
	struct variant *variant; /* NULL: libstrata refuses the class */
	struct site *site;
	PyObject *name; /* value of the shared class' field, else NULL */
};

/* The calls of this thread that have begun. */
struct call {
	PyObject *code; /* address only: the call keeps it */
	struct strata_span *begun;
};

static __thread struct call *calls;
static __thread uint32_t nr_calls, room_for_calls;
static pthread_key_t calls_key; /* frees them at the end of the thread */

static Py_ssize_t extra_index = -1;
static PyObject *selector, *disable;
static struct site *shared;
static uint32_t nr_functions, selection;

static void function_free(void *data)
{
	struct function *function = data;

	/* The span class stays: it may be that of another function of this name. */
	if (function) {
		Py_XDECREF(function->name);
		PyMem_Free(function);
	}
}

/* Asks the selector for the name of the function whose frame is the current one. */
static struct function *function_new(PyObject *code)
{
	struct function *function = PyMem_Calloc(1, sizeof(*function));
	PyObject *name, *full;

	if (!function)
		return NULL;
	function->selection = selection;
	name = selector ? PyObject_CallOneArg(selector, code) : NULL;
	if (!name)
		PyErr_Clear();
	if (name && PyUnicode_Check(name)) {
		function->is_selected = true;
		if (nr_functions < FUNCTIONS_MAX) {
			full = PyUnicode_FromFormat("python:%U", name);
			function->site =
				full ? site_new(full, NULL, STRATA_DEBUG_FUNCTION, SITE_SPAN) :
				       NULL;
			Py_XDECREF(full);
			nr_functions++;
		} else {
			function->name = Py_NewRef(name);
			function->site = shared;
		}
		PyErr_Clear();
		if (function->site && !function->site->is_tried)
			site_begin(function->site, &function->name);
		if (function->site && function->site->nr_variants)
			function->variant = function->site->variants[0];
	}
	Py_XDECREF(name);
	if (PyUnstable_Code_SetExtra(code, extra_index, function)) {
		PyErr_Clear();
		function_free(function);
		return NULL;
	}
	return function;
}

static struct function *function_of(PyObject *code)
{
	struct function *function;
	void *extra = NULL;

	if (PyUnstable_Code_GetExtra(code, extra_index, &extra)) {
		PyErr_Clear();
		return NULL;
	}
	function = extra;
	return function && function->selection == selection ? function : function_new(code);
}

static struct strata_span *span_begin(struct function *function)
{
	struct values values;

	if (!function->variant || !__atomic_load_n(function->variant->enabled, __ATOMIC_RELAXED) ||
	    !values_set(&values, &function->name, function->site, function->variant))
		return NULL;
	if (strata->span_begin(function->variant->handle, values.words, values.nr) != 1)
		return NULL;
	return function->variant->handle;
}

/* A call begins, or goes on behind a yield. */
static PyObject *on_begin(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
	struct function *function = nargs ? function_of(args[0]) : NULL;

	(void)module;
	if (!function)
		Py_RETURN_NONE;
	if (!function->is_selected)
		return Py_NewRef(disable);
	if (nr_calls == room_for_calls) {
		uint32_t room = room_for_calls ? 2 * room_for_calls : 64;
		struct call *larger = realloc(calls, room * sizeof(*calls));

		if (!larger)
			Py_RETURN_NONE;
		calls = larger;
		room_for_calls = room;
		pthread_setspecific(calls_key, calls);
	}
	calls[nr_calls].code = args[0];
	calls[nr_calls++].begun = span_begin(function);
	Py_RETURN_NONE;
}

/* Ends the call of this code, and those above it, which cannot return any more. A call that began before is not known. */
static void calls_end(PyObject *code)
{
	uint32_t at = nr_calls;

	while (at && calls[at - 1].code != code)
		at--;
	if (!at)
		return;
	while (nr_calls >= at) {
		struct strata_span *begun = calls[--nr_calls].begun;

		if (begun)
			strata->span_end(begun);
	}
}

static PyObject *on_end(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
	struct function *function = nargs ? function_of(args[0]) : NULL;

	(void)module;
	if (function && !function->is_selected)
		return Py_NewRef(disable);
	if (function)
		calls_end(args[0]);
	Py_RETURN_NONE;
}

/* An exception enters a generator, or leaves a call: the interpreter reports these whether or not they are wanted. */
static PyObject *on_throw(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
	struct function *function = nargs ? function_of(args[0]) : NULL;

	if (!function || !function->is_selected)
		Py_RETURN_NONE;
	return on_begin(module, args, nargs);
}

static PyObject *on_unwind(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
	struct function *function = nargs ? function_of(args[0]) : NULL;

	(void)module;
	if (function && function->is_selected)
		calls_end(args[0]);
	Py_RETURN_NONE;
}

/* select_functions(selector, DISABLE): the callable returns the name of a code object's function, or None. */
static PyObject *select_functions(PyObject *module, PyObject *args)
{
	static const uint8_t kind = KIND_TEXT;
	PyObject *callable, *value;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO", &callable, &value))
		return NULL;
	if (extra_index < 0 && !pthread_key_create(&calls_key, free))
		extra_index = PyUnstable_Eval_RequestCodeExtraIndex(function_free);
	if (extra_index < 0)
		return PyErr_Format(PyExc_RuntimeError, "no place for data of code objects");
	if (!shared && strata) {
		PyObject *name = PyUnicode_FromString("python:function");
		PyObject *fields = name ? Py_BuildValue("(s)", "name") : NULL;

		shared = fields ? site_new(name, fields, STRATA_DEBUG_FUNCTION, SITE_SPAN) : NULL;
		Py_XDECREF(name);
		Py_XDECREF(fields);
		if (!shared)
			return NULL;
		shared->is_tried = true;
		site_register(shared, &kind, NULL);
	}
	selection++;
	Py_XSETREF(selector, Py_NewRef(callable));
	Py_XSETREF(disable, Py_NewRef(value));
	Py_RETURN_NONE;
}

#define CALLBACK(name)                                                        \
	{                                                                     \
#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL \
	}

static PyMethodDef functions[] = {
	CALLBACK(on_begin),
	CALLBACK(on_end),
	CALLBACK(on_throw),
	CALLBACK(on_unwind),
	{ "select_functions", select_functions, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

bool functions_init(PyObject *module)
{
	return !PyModule_AddFunctions(module, functions);
}

#else

bool functions_init(PyObject *module)
{
	(void)module;
	return true;
}

#endif
