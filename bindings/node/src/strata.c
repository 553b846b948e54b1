/* SPDX-License-Identifier: MIT */
/*
 * strata.c - the functions of libstrata for JavaScript, by Node-API.
 *
 * The fields of a record are written by JavaScript into memory that memory() has named; record() and begin() get their length. Classes
 * are numbers, in a table that all threads of the process share.
 */
#define _GNU_SOURCE
#define NAPI_VERSION 6
#include <errno.h>
#include <node_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "../../loader/strata_loader.h"

#define CLASSES_MAX 16384
#define FIELDS_MAX  63
#define NAME_BYTES  256

struct class_ {
	void *handle;
	char kinds[FIELDS_MAX + 1]; /* a letter for each field: i, f, b or s */
};

/* The memory of one thread's JavaScript. */
struct of_thread {
	napi_ref buffer;
	char *data;
	size_t bytes;
};

static struct strata_loader loader;
static const struct strata_loader *strata;
static char why_not[512];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct class_ classes[CLASSES_MAX];
static uint32_t nr_classes;

static void load(void)
{
	strata = strata_loader_open(&loader, why_not, sizeof(why_not));
}

static napi_value text(napi_env env, const char *value)
{
	napi_value result = NULL;

	napi_create_string_utf8(env, value, NAPI_AUTO_LENGTH, &result);
	return result;
}

/* open(): null, or why libstrata is not there. */
static napi_value on_open(napi_env env, napi_callback_info info)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	napi_value result = NULL;

	(void)info;
	pthread_once(&once, load);
	if (!strata)
		return text(env, why_not);
	napi_get_null(env, &result);
	return result;
}

static int class_register(const char *group, struct strata_event_class *class_, bool is_span,
			  void **handle, const uint32_t **enabled, char *why, size_t why_bytes)
{
	struct strata_provider *provider;
	int rc = strata->provider_register(group, &provider, why, why_bytes);

	if (rc)
		return rc;
	if (is_span) {
		struct strata_span *span;

		rc = strata->span_register(provider, class_, STRATA_SPAN_KEYED, &span, why,
					   why_bytes);
		*handle = span;
		*enabled = rc ? NULL : strata->span_enabled(span);
	} else {
		struct strata_event *event;

		rc = strata->event_register(provider, class_, &event, why, why_bytes);
		*handle = event;
		*enabled = rc ? NULL : event->enabled;
	}
	return rc;
}

/* Reads a string of fewer than NAME_BYTES bytes that has no NUL. */
static bool name_of(napi_env env, napi_value value, char *name)
{
	size_t bytes = 0;

	return napi_get_value_string_utf8(env, value, name, NAME_BYTES, &bytes) == napi_ok &&
	       bytes < NAME_BYTES - 1 && strlen(name) == bytes;
}

static uint32_t describe(napi_env env, napi_value list, const char *kinds,
			 struct strata_event_field *fields, char (*names)[NAME_BYTES])
{
	uint32_t nr = 0;

	memset(fields, 0, FIELDS_MAX * sizeof(*fields));
	for (; kinds[nr]; nr++) {
		napi_value name;

		if (napi_get_element(env, list, nr, &name) != napi_ok ||
		    !name_of(env, name, names[nr]))
			return UINT32_MAX;
		fields[nr].name = names[nr];
		switch (kinds[nr]) {
		case 'i':
			fields[nr].type = STRATA_I64;
			break;
		case 'f':
			fields[nr].type = STRATA_F64;
			break;
		case 'b':
			fields[nr].type = STRATA_BOOL;
			break;
		default:
			fields[nr].type = STRATA_CHAR;
			fields[nr].shape = STRATA_SEQUENCE;
		}
	}
	return nr;
}

/*
 * register(group, name, level, kinds, [field], is span): {id, enabled}, where enabled is an ArrayBuffer of the word that is not 0
 * while somebody records the class; or a text that says what is wrong.
 */
static napi_value on_register(napi_env env, napi_callback_info info)
{
	struct strata_event_field fields[FIELDS_MAX];
	struct strata_event_class class_ = STRATA_EVENT_CLASS(NULL, 0, fields, 0);
	char group[NAME_BYTES], name[NAME_BYTES], kinds[NAME_BYTES], why[256] = "";
	char names[FIELDS_MAX][NAME_BYTES];
	const uint32_t *enabled = NULL;
	napi_value arguments[6], result, word, number;
	size_t nr = 6;
	bool is_span = false;
	void *handle = NULL;
	uint32_t id;
	int rc;

	if (!strata || napi_get_cb_info(env, info, &nr, arguments, NULL, NULL) != napi_ok || nr < 6)
		return text(env, "register(group, name, level, kinds, fields, is span)");
	if (!name_of(env, arguments[0], group) || !name_of(env, arguments[1], name) ||
	    !name_of(env, arguments[3], kinds) || strlen(kinds) > FIELDS_MAX ||
	    napi_get_value_uint32(env, arguments[2], &class_.level) != napi_ok ||
	    napi_get_value_bool(env, arguments[5], &is_span) != napi_ok)
		return text(
			env,
			"a name has a NUL or more than 254 bytes, or there are more than 63 fields");
	class_.name = name;
	class_.nr_fields = describe(env, arguments[4], kinds, fields, names);
	if (class_.nr_fields == UINT32_MAX)
		return text(env, "the name of a field has a NUL or more than 254 bytes");
	rc = class_register(group, &class_, is_span, &handle, &enabled, why, sizeof(why));
	if (rc == -EEXIST)
		return text(env, "another class has this name");
	if (rc)
		return text(env, why);
	pthread_mutex_lock(&lock);
	for (id = 0; id < nr_classes && classes[id].handle != handle; id++)
		;
	if (id == nr_classes && id < CLASSES_MAX) {
		classes[id].handle = handle;
		memcpy(classes[id].kinds, kinds, strlen(kinds) + 1);
		__atomic_store_n(&nr_classes, id + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
	if (id == CLASSES_MAX)
		return text(env, "there are too many classes");
	if (napi_create_object(env, &result) != napi_ok ||
	    napi_create_external_arraybuffer(env, (void *)enabled, 4, NULL, NULL, &word) != napi_ok)
		return text(env, "this JavaScript has no memory outside of its own");
	napi_create_uint32(env, id, &number);
	napi_set_named_property(env, result, "id", number);
	napi_set_named_property(env, result, "enabled", word);
	return result;
}

/* memory(Buffer): where this thread writes the fields of records. It must not be detached. */
static napi_value on_memory(napi_env env, napi_callback_info info)
{
	struct of_thread *own = NULL;
	napi_value buffer;
	size_t nr = 1;
	void *data;

	if (napi_get_cb_info(env, info, &nr, &buffer, NULL, (void **)&own) != napi_ok || nr != 1 ||
	    napi_get_instance_data(env, (void **)&own) != napi_ok || !own)
		return NULL;
	own->bytes = 0;
	if (own->buffer)
		napi_delete_reference(env, own->buffer);
	own->buffer = NULL;
	if (napi_get_buffer_info(env, buffer, &data, &nr) != napi_ok ||
	    napi_create_reference(env, buffer, 1, &own->buffer) != napi_ok)
		return NULL;
	own->data = data;
	own->bytes = nr;
	return NULL;
}

/* Reads the arguments (class, length), and what they name. Returns NULL if they name nothing. */
static const struct class_ *arguments_of(napi_env env, napi_callback_info info,
					 struct of_thread **own, uint32_t *length)
{
	napi_value arguments[2];
	size_t nr = 2;
	uint32_t id;

	if (napi_get_cb_info(env, info, &nr, arguments, NULL, NULL) != napi_ok || nr != 2 ||
	    napi_get_value_uint32(env, arguments[0], &id) != napi_ok ||
	    napi_get_value_uint32(env, arguments[1], length) != napi_ok ||
	    napi_get_instance_data(env, (void **)own) != napi_ok ||
	    id >= __atomic_load_n(&nr_classes, __ATOMIC_ACQUIRE) || *length > (*own)->bytes)
		return NULL;
	return &classes[id];
}

/* record(class, length) */
static napi_value on_record(napi_env env, napi_callback_info info)
{
	struct of_thread *own;
	uint32_t length;
	const struct class_ *class_ = arguments_of(env, info, &own, &length);

	if (class_)
		strata->event_record_payload(class_->handle, own->data, length);
	return NULL;
}

/* begin(class, length): the key of the span as a BigInt, or undefined if its end is not to be recorded. */
static napi_value on_begin(napi_env env, napi_callback_info info)
{
	union strata_value words[2 * FIELDS_MAX];
	struct of_thread *own;
	uint32_t length, at = 0, nr = 0;
	const struct class_ *class_ = arguments_of(env, info, &own, &length);
	napi_value result = NULL;
	uint64_t key;

	if (!class_)
		return NULL;
	for (const char *kind = class_->kinds; *kind; kind++) {
		uint32_t bytes = *kind == 'b' ? 1 : *kind == 's' ? 4 : 8;

		if (bytes > length - at)
			return NULL;
		words[nr].u = 0;
		if (*kind == 's') {
			uint32_t of_text;

			memcpy(&of_text, own->data + at, 4);
			at += 4;
			if (of_text > length - at)
				return NULL;
			words[nr++].data = own->data + at;
			words[nr++].u = of_text;
			at += of_text;
			continue;
		}
		if (*kind == 'b')
			words[nr].u = own->data[at] != 0;
		else
			memcpy(&words[nr], own->data + at, 8);
		nr++;
		at += bytes;
	}
	key = strata->span_new_key();
	if (strata->span_begin_key(class_->handle, key, words, nr) == 1)
		napi_create_bigint_uint64(env, key, &result);
	return result;
}

/* end(class, key) */
static napi_value on_end(napi_env env, napi_callback_info info)
{
	napi_value arguments[2];
	bool is_exact;
	size_t nr = 2;
	uint64_t key;
	uint32_t id;

	if (napi_get_cb_info(env, info, &nr, arguments, NULL, NULL) == napi_ok && nr == 2 &&
	    napi_get_value_uint32(env, arguments[0], &id) == napi_ok &&
	    id < __atomic_load_n(&nr_classes, __ATOMIC_ACQUIRE) &&
	    napi_get_value_bigint_uint64(env, arguments[1], &key, &is_exact) == napi_ok)
		strata->span_end_key(classes[id].handle, key);
	return NULL;
}

static void forget(napi_env env, void *data, void *hint)
{
	(void)env;
	(void)hint;
	free(data);
}

NAPI_MODULE_INIT()
{
	const napi_property_descriptor functions[] = {
		{ "open", NULL, on_open, NULL, NULL, NULL, napi_default, NULL },
		{ "register", NULL, on_register, NULL, NULL, NULL, napi_default, NULL },
		{ "memory", NULL, on_memory, NULL, NULL, NULL, napi_default, NULL },
		{ "record", NULL, on_record, NULL, NULL, NULL, napi_default, NULL },
		{ "begin", NULL, on_begin, NULL, NULL, NULL, napi_default, NULL },
		{ "end", NULL, on_end, NULL, NULL, NULL, napi_default, NULL },
	};
	struct of_thread *own = calloc(1, sizeof(*own));

	if (!own || napi_set_instance_data(env, own, forget, NULL) != napi_ok ||
	    napi_define_properties(env, exports, sizeof(functions) / sizeof(*functions),
				   functions) != napi_ok)
		return NULL;
	return exports;
}
