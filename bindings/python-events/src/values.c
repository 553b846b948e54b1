/* SPDX-License-Identifier: MIT */
/* values.c - values of Python as those of fields. */
#include "native.h"

#include <string.h>

/* Returns the kind of a buffer's elements, or KIND_OBJECT if it is none of one dimension with known elements. */
static uint8_t kind_of_buffer(PyObject *value)
{
	uint8_t kind = KIND_OBJECT;
	Py_buffer view;

	if (PyObject_GetBuffer(value, &view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)) {
		PyErr_Clear();
		return KIND_OBJECT;
	}
	if (view.ndim == 1 && view.format && strlen(view.format) == 1) {
		static const uint8_t signed_of[] = {
			[1] = STRATA_I8, [2] = STRATA_I16, [4] = STRATA_I32, [8] = STRATA_I64
		};
		bool is_known = view.itemsize == 1 || view.itemsize == 2 || view.itemsize == 4 ||
				view.itemsize == 8;

		if (is_known && strchr("bhilqn", *view.format))
			kind = KIND_BUFFER + signed_of[view.itemsize];
		else if (is_known && strchr("BHILQN", *view.format))
			kind = KIND_BUFFER + signed_of[view.itemsize] + STRATA_U8 - STRATA_I8;
		else if (*view.format == 'f' && view.itemsize == 4)
			kind = KIND_BUFFER + STRATA_F32;
		else if (*view.format == 'd' && view.itemsize == 8)
			kind = KIND_BUFFER + STRATA_F64;
	}
	PyBuffer_Release(&view);
	return kind;
}

static uint8_t kind_of_list(PyObject *value)
{
	Py_ssize_t nr = PySequence_Fast_GET_SIZE(value);
	bool has_float = false;

	for (Py_ssize_t i = 0; i < nr; i++) {
		PyObject *item = PySequence_Fast_GET_ITEM(value, i);

		if (PyFloat_Check(item)) {
			has_float = true;
		} else if (PyLong_Check(item)) {
			int overflow;

			PyLong_AsLongLongAndOverflow(item, &overflow);
			if (overflow)
				return KIND_OBJECT;
		} else {
			return KIND_OBJECT;
		}
	}
	return has_float ? KIND_FLOATS : KIND_INTS;
}

/* Returns the kind of field that keeps a value without loss. */
uint8_t kind_of(PyObject *value)
{
	if (PyBool_Check(value))
		return KIND_BOOL;
	if (PyLong_Check(value)) {
		int overflow;

		PyLong_AsLongLongAndOverflow(value, &overflow);
		if (!overflow)
			return KIND_INT;
		if (overflow < 0)
			return KIND_OBJECT;
		PyLong_AsUnsignedLongLong(value);
		if (!PyErr_Occurred())
			return KIND_UINT;
		PyErr_Clear();
		return KIND_OBJECT;
	}
	if (PyFloat_Check(value))
		return KIND_FLOAT;
	if (PyUnicode_Check(value))
		return KIND_TEXT;
	if (PyBytes_Check(value))
		return KIND_BUFFER + STRATA_U8;
	if (PyList_Check(value) || PyTuple_Check(value))
		return kind_of_list(value);
	if (PyObject_CheckBuffer(value))
		return kind_of_buffer(value);
	return KIND_OBJECT;
}

void describe_field(uint8_t kind, const char *name, struct strata_event_field *field)
{
	memset(field, 0, sizeof(*field));
	field->name = name;
	switch (kind) {
	case KIND_INT:
		field->type = STRATA_I64;
		break;
	case KIND_HEX:
		field->base = 16;
		/* fall through */
	case KIND_UINT:
		field->type = STRATA_U64;
		break;
	case KIND_FLOAT:
		field->type = STRATA_F64;
		break;
	case KIND_BOOL:
		field->type = STRATA_BOOL;
		break;
	case KIND_TEXT:
	case KIND_OBJECT:
	case KIND_ANY:
		field->type = STRATA_CHAR;
		field->shape = STRATA_SEQUENCE;
		break;
	case KIND_INTS:
		field->type = STRATA_I64;
		field->shape = STRATA_SEQUENCE;
		break;
	case KIND_FLOATS:
		field->type = STRATA_F64;
		field->shape = STRATA_SEQUENCE;
		break;
	default:
		field->type = kind - KIND_BUFFER;
		field->shape = STRATA_SEQUENCE;
	}
}

static void put_sequence(struct values *values, const void *data, uint64_t nr)
{
	values->words[values->nr++].data = data;
	values->words[values->nr++].u = nr;
}

static void hold(struct values *values, PyObject *object)
{
	values->held[values->nr_held++] = object;
}

static void put_text(struct values *values, PyObject *text)
{
	Py_ssize_t bytes;
	const char *data = PyUnicode_AsUTF8AndSize(text, &bytes);
	PyObject *encoded;

	if (data) {
		put_sequence(values, data, bytes);
		return;
	}
	/* Lone surrogates have no UTF-8. */
	PyErr_Clear();
	encoded = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
	if (!encoded) {
		PyErr_Clear();
		put_sequence(values, "", 0);
		return;
	}
	hold(values, encoded);
	put_sequence(values, PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded));
}

/* An object whose str() raises an exception is recorded as the name of its type. */
static void put_object(struct values *values, PyObject *value)
{
	PyObject *text = PyObject_Str(value);

	if (!text) {
		PyErr_Clear();
		text = PyUnicode_FromFormat("<%s without str()>", Py_TYPE(value)->tp_name);
	}
	if (!text) {
		PyErr_Clear();
		put_sequence(values, "", 0);
		return;
	}
	hold(values, text);
	put_text(values, text);
}

/* Copies the numbers of a list. Other threads change it only while this one calls Python code, which it does not. */
static bool put_list(struct values *values, PyObject *list, bool is_float)
{
	Py_ssize_t nr, i;
	PyObject *bytes;
	char *to;

	if (!PyList_Check(list) && !PyTuple_Check(list))
		return false;
	nr = PySequence_Fast_GET_SIZE(list);
	bytes = PyBytes_FromStringAndSize(NULL, nr * 8);
	if (!bytes) {
		PyErr_Clear();
		return false;
	}
	to = PyBytes_AS_STRING(bytes);
	for (i = 0; i < nr; i++) {
		PyObject *item = PySequence_Fast_GET_ITEM(list, i);
		union strata_value word;
		int overflow = 0;

		if (is_float && PyFloat_Check(item))
			word.f = PyFloat_AS_DOUBLE(item);
		else if (is_float && PyLong_Check(item))
			word.f = PyLong_AsDouble(item);
		else if (!is_float && PyLong_Check(item))
			word.i = PyLong_AsLongLongAndOverflow(item, &overflow);
		else
			break;
		if (overflow || PyErr_Occurred())
			break;
		memcpy(to + i * 8, &word, 8);
	}
	if (i < nr) {
		PyErr_Clear();
		Py_DECREF(bytes);
		return false;
	}
	hold(values, bytes);
	put_sequence(values, to, nr);
	return true;
}

static bool put_buffer(struct values *values, PyObject *value, uint8_t kind)
{
	PyObject *view;
	Py_buffer *buffer;

	if (PyBytes_Check(value)) {
		if (kind != KIND_BUFFER + STRATA_U8)
			return false;
		put_sequence(values, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
		return true;
	}
	if (!PyObject_CheckBuffer(value) || kind_of_buffer(value) != kind)
		return false;
	view = PyMemoryView_FromObject(value);
	if (!view) {
		PyErr_Clear();
		return false;
	}
	hold(values, view);
	buffer = PyMemoryView_GET_BUFFER(view);
	put_sequence(values, buffer->buf, buffer->len / buffer->itemsize);
	return true;
}

/* Adds a value to the record. Returns false if a field of this kind does not take it. */
static inline bool put(struct values *values, PyObject *value, uint8_t kind)
{
	union strata_value *word = &values->words[values->nr];
	int overflow;

	switch (kind) {
	case KIND_INT:
		if (!PyLong_Check(value))
			return false;
		word->i = PyLong_AsLongLongAndOverflow(value, &overflow);
		values->nr++;
		return !overflow;
	case KIND_UINT:
	case KIND_HEX:
		if (!PyLong_Check(value))
			return false;
		word->u = PyLong_AsUnsignedLongLong(value);
		if (word->u == UINT64_MAX && PyErr_Occurred()) {
			PyErr_Clear();
			return false;
		}
		values->nr++;
		return true;
	case KIND_FLOAT:
		if (PyFloat_Check(value)) {
			word->f = PyFloat_AS_DOUBLE(value);
		} else if (PyLong_Check(value) && !PyBool_Check(value)) {
			long long number = PyLong_AsLongLongAndOverflow(value, &overflow);

			/* A larger one may have no double. */
			if (overflow || number > 1LL << 53 || number < -(1LL << 53))
				return false;
			word->f = (double)number;
		} else {
			return false;
		}
		values->nr++;
		return true;
	case KIND_BOOL:
		if (!PyBool_Check(value))
			return false;
		word->u = value == Py_True;
		values->nr++;
		return true;
	case KIND_TEXT:
		if (!PyUnicode_Check(value))
			return false;
		put_text(values, value);
		return true;
	case KIND_OBJECT:
		if (kind_of(value) != KIND_OBJECT)
			return false;
		/* fall through */
	case KIND_ANY:
		put_object(values, value);
		return true;
	case KIND_INTS:
	case KIND_FLOATS:
		return put_list(values, value, kind == KIND_FLOATS);
	default:
		return put_buffer(values, value, kind);
	}
}

/* Adds what is nearest to a value in a field of a declared type: 0, or nothing, if it has no such value. */
static void put_converted(struct values *values, PyObject *value, uint8_t kind)
{
	PyObject *converted = NULL;
	uint32_t nr = values->nr;

	switch (kind) {
	case KIND_INT:
	case KIND_UINT:
	case KIND_HEX:
		converted = PyNumber_Long(value);
		break;
	case KIND_FLOAT:
		converted = PyNumber_Float(value);
		break;
	case KIND_BOOL:
		converted = PyBool_FromLong(PyObject_IsTrue(value) == 1);
		break;
	case KIND_TEXT:
		put_object(values, value);
		PyErr_Clear();
		return;
	default:
		break;
	}
	PyErr_Clear();
	if (converted && put(values, converted, kind)) {
		Py_DECREF(converted);
		return;
	}
	Py_XDECREF(converted);
	values->nr = nr;
	if (kind >= KIND_INTS)
		put_sequence(values, "", 0);
	else
		values->words[values->nr++].u = 0;
}

/* Sets the values of all fields. Returns false, and holds nothing, if one has another type than its field. */
bool values_set(struct values *values, PyObject *const *objects, const struct site *site,
		const struct variant *variant)
{
	values->nr = 0;
	values->nr_held = 0;
	for (uint32_t i = 0; i < site->nr_fields; i++) {
		uint32_t nr = values->nr;

		if (put(values, objects[i], variant->kinds[i]))
			continue;
		values->nr = nr;
		if (!site->is_declared) {
			values_release(values);
			return false;
		}
		put_converted(values, objects[i], variant->kinds[i]);
	}
	return true;
}

void values_release(struct values *values)
{
	while (values->nr_held)
		Py_DECREF(values->held[--values->nr_held]);
}
