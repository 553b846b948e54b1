/* SPDX-License-Identifier: MIT */
/*
 * events.c - providers, event classes and spans that a program makes at run time: strata/events.h. values.c records
 * them.
 *
 *   register ── check_class(): names, types, labels ── copy_class(): one piece of memory ── add_event(), under the lock of
 *               the objects: is it there already? else described, and on where sessions want it, as the tracepoints of an
 *               object that is loaded
 *   unregister ── the last use: the tracepoint's state stays, as not present; so does the memory of the class, since other
 *               threads may be recording it. Who registers the same class again gets both back.
 *
 * All that a program gives is compared with the limits of strata/abi/user.h and of the readers before anything is
 * made of it: a description that readers refuse would cost the process its other events. What is wrong is written as
 * a sentence into the caller's buffer, and the return value is a negative errno.
 *
 * A class that exists already with the same fields is used again, with one more use; one with other fields is
 * refused. A span is two classes, NAME_begin and NAME_end, with a key that both records have.
 *
 * What registers or unregisters may be called from any thread, but not from a signal handler: it allocates and takes the
 * lock. Recording (values.c) does neither.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "event.h"

#define NAME_BYTES_MAX	255u
#define LABELS_MAX	4096u
#define ARRAY_BYTES_MAX (UINT32_C(1) << 20)
#define SPAN_KEY	"span_key"

struct strata_provider {
	char *name;
	uint32_t uses;
	struct strata_span *spans;
	struct strata_provider *next;
};

/* All that have ever been registered, under the lock of the objects. */
static struct strata_provider *providers;
#define NR_HASHES 1024u
static struct strata_event_made *events[NR_HASHES];

uint32_t strata_events_live;

uint32_t strata_events_version(void)
{
	return STRATA_EVENTS_VERSION;
}

/* ---- what is wrong ---- */

/* A buffer of the caller for a sentence that says why a call was refused. */
struct why {
	char *text;
	size_t bytes;
};

__attribute__((format(printf, 3, 4))) static int refuse(const struct why *why, int code,
							const char *format, ...)
{
	va_list arguments;

	if (why->text && why->bytes) {
		va_start(arguments, format);
		vsnprintf(why->text, why->bytes, format, arguments);
		va_end(arguments);
	}
	return code;
}

/* The first characters of a name, for a message, with '?' for each that a terminal might obey. */
struct shown {
	char text[48];
};

static struct shown show(const char *name)
{
	struct shown shown;
	size_t i;

	for (i = 0; name && name[i] && i < sizeof(shown.text) - 4; i++)
		shown.text[i] = (char)(name[i] < ' ' || name[i] == 127 ? '?' : name[i]);
	memcpy(shown.text + i, name && name[i] ? "..." : "", name && name[i] ? 4 : 1);
	return shown;
}

/* ---- checks ---- */

/*
 * Returns the bytes of the character of UTF-8 at @text, and the character; 0: there is none.
 */
static unsigned character_at(const unsigned char *text, uint32_t *character)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned bytes, i;

	if (*text < 0x80) {
		*character = *text;
		return 1;
	}
	bytes = *text >= 0xf0 ? 4 : *text >= 0xe0 ? 3 : 2;
	if (*text < 0xc0 || *text > 0xf7)
		return 0;
	*character = *text & (0x7fu >> bytes);
	for (i = 1; i < bytes; i++) {
		/* A NUL is no continuation byte, so nothing after the text is read. */
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		*character = *character << 6 | (text[i] & 0x3f);
	}
	if (*character < least[bytes] || *character > 0x10ffff ||
	    (*character >= 0xd800 && *character <= 0xdfff))
		return 0;
	return bytes;
}

/*
 * Checks that this text can be a name. Returns 0, or -EINVAL. @limit: the most bytes. @what: the
 * thing that has the name, for the message.
 */
static int check_name(const struct why *why, const char *what, const char *name, size_t limit)
{
	const unsigned char *at = (const unsigned char *)name;
	uint32_t character;
	unsigned bytes;

	if (!name || !*name)
		return refuse(why, -EINVAL, "%s has no name", what);
	if (strnlen(name, limit + 1) > limit)
		return refuse(why, -EINVAL, "%s: its name, '%s', has more than %zu bytes", what,
			      show(name).text, limit);
	for (; *at; at += bytes) {
		bytes = character_at(at, &character);
		if (!bytes)
			return refuse(why, -EINVAL, "%s: its name is not UTF-8 at byte %zu", what,
				      (size_t)(at - (const unsigned char *)name));
		if (character < 0x20 || (character >= 0x7f && character < 0xa0))
			return refuse(why, -EINVAL,
				      "%s: its name, '%s', has a control character (U+%04X)", what,
				      show(name).text, (unsigned)character);
	}
	return 0;
}

/* The bytes of one number of each type, and whether it has a sign; STRING and CHAR are 1. */
static const struct {
	uint8_t bytes;
	uint8_t type; /* STRATA_ABI_USER_* */
	uint8_t flags;
} types[] = {
	[STRATA_I8] = { 1, STRATA_ABI_USER_INTEGER, STRATA_ABI_USER_FIELD_SIGNED },
	[STRATA_I16] = { 2, STRATA_ABI_USER_INTEGER, STRATA_ABI_USER_FIELD_SIGNED },
	[STRATA_I32] = { 4, STRATA_ABI_USER_INTEGER, STRATA_ABI_USER_FIELD_SIGNED },
	[STRATA_I64] = { 8, STRATA_ABI_USER_INTEGER, STRATA_ABI_USER_FIELD_SIGNED },
	[STRATA_U8] = { 1, STRATA_ABI_USER_INTEGER, 0 },
	[STRATA_U16] = { 2, STRATA_ABI_USER_INTEGER, 0 },
	[STRATA_U32] = { 4, STRATA_ABI_USER_INTEGER, 0 },
	[STRATA_U64] = { 8, STRATA_ABI_USER_INTEGER, 0 },
	[STRATA_F32] = { 4, STRATA_ABI_USER_FLOAT, 0 },
	[STRATA_F64] = { 8, STRATA_ABI_USER_FLOAT, 0 },
	[STRATA_BOOL] = { 1, STRATA_ABI_USER_INTEGER, STRATA_ABI_USER_FIELD_BOOL },
	[STRATA_STRING] = { 1, STRATA_ABI_USER_STRING, 0 },
	[STRATA_CHAR] = { 1, STRATA_ABI_USER_TEXT, 0 },
};

static int check_labels(const struct why *why, const char *what,
			const struct strata_event_field *field)
{
	const struct strata_event_enumeration *e = field->enumeration;
	char label_what[176];
	uint32_t i;
	int code;

	if (types[field->type].type != STRATA_ABI_USER_INTEGER || field->type == STRATA_BOOL ||
	    field->shape != STRATA_SCALAR)
		return refuse(why, -EINVAL, "%s has labels, and is not one integer", what);
	if (!e->labels || !e->nr_labels || e->nr_labels > LABELS_MAX)
		return refuse(why, -EINVAL, "%s has %u labels; an enumeration has 1 to %u", what,
			      e->labels ? e->nr_labels : 0, LABELS_MAX);
	if (e->name && *e->name) {
		snprintf(label_what, sizeof(label_what), "%s: its enumeration", what);
		code = check_name(why, label_what, e->name, NAME_BYTES_MAX);
		if (code)
			return code;
	}
	for (i = 0; i < e->nr_labels; i++) {
		snprintf(label_what, sizeof(label_what), "%s: label %u", what, i + 1);
		code = check_name(why, label_what, e->labels[i].name, NAME_BYTES_MAX);
		if (code)
			return code;
		if (field->type == STRATA_U64 ?
			    (uint64_t)e->labels[i].from > (uint64_t)e->labels[i].to :
			    e->labels[i].from > e->labels[i].to)
			return refuse(why, -EINVAL, "%s is for %lld to %lld, which is no value",
				      label_what, (long long)e->labels[i].from,
				      (long long)e->labels[i].to);
	}
	return 0;
}

static int check_field(const struct why *why, const char *event,
		       const struct strata_event_field *field, uint32_t nr)
{
	char what[128];
	int code;

	snprintf(what, sizeof(what), "event '%s': field %u", show(event).text, nr + 1);
	code = check_name(why, what, field->name, NAME_BYTES_MAX);
	if (code)
		return code;
	snprintf(what, sizeof(what), "event '%s': field '%s'", show(event).text,
		 show(field->name).text);
	if (field->type < STRATA_I8 || field->type > STRATA_CHAR)
		return refuse(why, -EINVAL, "%s has type %u; there are 1 to %u", what, field->type,
			      STRATA_CHAR);
	if (field->shape > STRATA_SEQUENCE)
		return refuse(why, -EINVAL, "%s has shape %u; there are 0 to %u", what,
			      field->shape, STRATA_SEQUENCE);
	if (field->base && field->base != 2 && field->base != 8 && field->base != 10 &&
	    field->base != 16)
		return refuse(why, -EINVAL, "%s has base %u; there are 2, 8, 10 and 16", what,
			      field->base);
	if (field->reserved)
		return refuse(why, -EINVAL, "%s: reserved is %u; it must be 0", what,
			      field->reserved);
	if (field->shape == STRATA_SCALAR ?
		    field->type == STRATA_CHAR :
		    field->type == STRATA_STRING || field->type == STRATA_BOOL)
		return refuse(why, -EINVAL,
			      "%s: STRATA_CHAR is for arrays and sequences, STRATA_STRING and "
			      "STRATA_BOOL are for neither",
			      what);
	if (field->shape == STRATA_ARRAY &&
	    (!field->count || field->count > ARRAY_BYTES_MAX / types[field->type].bytes))
		return refuse(why, -EINVAL, "%s has %u elements; an array has 1 to %u of this type",
			      what, field->count, ARRAY_BYTES_MAX / types[field->type].bytes);
	return field->enumeration ? check_labels(why, what, field) : 0;
}

/* Returns whether a structure of a later version has only zeros in the members that this version does not know. */
static int is_known(const void *structure, uint32_t bytes, size_t known)
{
	const unsigned char *at = (const unsigned char *)structure;
	size_t i;

	for (i = known; i < bytes; i++)
		if (at[i])
			return 0;
	return 1;
}

static const struct strata_event_field *field_of(const struct strata_event_class *c, uint32_t nr)
{
	return (const struct strata_event_field *)(const void *)((const char *)c->fields +
								 (size_t)nr * c->field_bytes);
}

static int check_class(const struct why *why, const char *provider,
		       const struct strata_event_class *c)
{
	const size_t prefix = strlen(provider) + 1;
	uint32_t i, j;
	int code;

	if (c->bytes < sizeof(*c) || c->field_bytes < sizeof(struct strata_event_field) ||
	    c->bytes > 4096 || c->field_bytes > 4096 || c->field_bytes % 8)
		return refuse(why, -EINVAL,
			      "the class says that structures have %u and %u bytes; they have %zu "
			      "and %zu",
			      c->bytes, c->field_bytes, sizeof(*c),
			      sizeof(struct strata_event_field));
	if (!is_known(c, c->bytes, sizeof(*c)))
		return refuse(why, -E2BIG, "the class is of a newer version than this libstrata");
	code = check_name(why, "the event", c->name, NAME_BYTES_MAX - prefix);
	if (code)
		return code;
	if (c->level > STRATA_DEBUG)
		return refuse(why, -EINVAL, "event '%s' has level %u; there are 0 to %u",
			      show(c->name).text, c->level, STRATA_DEBUG);
	if (c->reserved)
		return refuse(why, -EINVAL, "event '%s': reserved is %u; it must be 0",
			      show(c->name).text, c->reserved);
	if (c->nr_fields > STRATA_ABI_USER_FIELDS_MAX || (c->nr_fields && !c->fields))
		return refuse(why, -EINVAL, "event '%s' has %u fields%s; the limit is %u",
			      show(c->name).text, c->nr_fields, c->fields ? "" : " at no address",
			      STRATA_ABI_USER_FIELDS_MAX);
	if (c->file && *c->file) {
		code = check_name(why, "the event's file", c->file, 4095);
		if (code)
			return code;
	}
	for (i = 0; i < c->nr_fields; i++) {
		if (!is_known(field_of(c, i), c->field_bytes, sizeof(struct strata_event_field)))
			return refuse(why, -E2BIG,
				      "field %u of event '%s' is of a newer version than this "
				      "libstrata",
				      i + 1, show(c->name).text);
		code = check_field(why, c->name, field_of(c, i), i);
		if (code)
			return code;
		for (j = 0; j < i; j++)
			if (!strcmp(field_of(c, j)->name, field_of(c, i)->name))
				return refuse(why, -EINVAL, "event '%s' has two fields '%s'",
					      show(c->name).text, show(field_of(c, i)->name).text);
	}
	return 0;
}

/* ---- one class ---- */

/* Memory that is handed out from its begin, in multiples of 8 bytes. If .at is NULL, sizes are only added up. */
struct memory {
	unsigned char *at;
	size_t bytes;
};

static void *take(struct memory *memory, size_t bytes)
{
	void *taken = memory->at ? memory->at + memory->bytes : NULL;

	memory->bytes += (bytes + 7) & ~(size_t)7;
	return taken;
}

static const char *take_text(struct memory *memory, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *taken = (char *)take(memory, bytes);

	return taken ? (const char *)memcpy(taken, text, bytes) : NULL;
}

static const struct strata_enumeration *
take_enumeration(struct memory *memory, const struct strata_event_enumeration *from)
{
	struct strata_enumeration *e = (struct strata_enumeration *)take(memory, sizeof(*e));
	struct strata_label *labels =
		(struct strata_label *)take(memory, from->nr_labels * sizeof(*labels));
	const char *name = take_text(memory, from->name ? from->name : ""), *label;
	uint32_t i;

	for (i = 0; i < from->nr_labels; i++) {
		label = take_text(memory, from->labels[i].name);
		if (e)
			labels[i] = (struct strata_label){ label, from->labels[i].from,
							   from->labels[i].to, 0 };
	}
	if (e)
		*e = (struct strata_enumeration){ name, labels, from->nr_labels };
	return e;
}

static void make_field(struct strata_field *to, const struct strata_event_field *from)
{
	const uint8_t type = types[from->type].type;

	to->type = from->shape == STRATA_ARRAY	  ? STRATA_ABI_USER_ARRAY :
		   from->shape == STRATA_SEQUENCE ? STRATA_ABI_USER_SEQUENCE :
						    type;
	to->element = from->shape == STRATA_SCALAR ? 0 : type;
	to->bytes = types[from->type].bytes;
	to->flags = types[from->type].flags;
	to->base = from->base ? from->base : 10;
	to->count = from->shape == STRATA_ARRAY ? from->count : 0;
	to->length_bytes = from->shape == STRATA_SEQUENCE ? 4 : 0;
}

static void make_step(struct strata_step *to, const struct strata_event_field *from)
{
	to->size = types[from->type].bytes;
	to->count = from->shape == STRATA_ARRAY ? from->count : 1;
	if (from->shape == STRATA_SEQUENCE)
		to->kind = STRATA_STEP_SEQUENCE;
	else if (from->shape == STRATA_ARRAY)
		to->kind = from->type == STRATA_CHAR ? STRATA_STEP_TEXT : STRATA_STEP_ARRAY;
	else
		to->kind = from->type == STRATA_STRING ? STRATA_STEP_STRING :
			   from->type == STRATA_F32    ? STRATA_STEP_SINGLE :
			   from->type == STRATA_BOOL   ? STRATA_STEP_TRUTH :
							 STRATA_STEP_NUMBER;
}

/* Decides how payloads of the class are put together. */
static void plan(struct strata_event_made *event, struct strata_step *steps, uint32_t nr)
{
	uint64_t bytes = 0;
	int is_fixed = 1;
	uint32_t i;

	for (i = 0; i < nr; i++) {
		/* Only the offsets up to the first field that is no plain number are used. */
		steps[i].offset = (uint16_t)bytes;
		if (event->nr_plain == i && steps[i].kind == STRATA_STEP_NUMBER)
			event->nr_plain = i + 1;
		is_fixed &= steps[i].kind != STRATA_STEP_STRING &&
			    steps[i].kind != STRATA_STEP_SEQUENCE;
		event->nr_values += steps[i].kind == STRATA_STEP_SEQUENCE ? 2 : 1;
		bytes += (uint64_t)steps[i].size * steps[i].count;
	}
	event->steps = steps;
	event->fixed_bytes = is_fixed ? (uint32_t)bytes : UINT32_MAX;
	event->is_word = nr == 1 && steps[0].kind == STRATA_STEP_NUMBER && bytes == 8;
}

/* Copies a class that was checked into @memory, or only measures what it needs. */
static struct strata_event_made *copy_class(struct memory *memory, struct strata_provider *provider,
					    const struct strata_event_class *c)
{
	const uint32_t nr = c->nr_fields;
	struct strata_event_made *event = (struct strata_event_made *)take(memory, sizeof(*event));
	struct strata_field *fields = (struct strata_field *)take(memory, nr * sizeof(*fields));
	struct strata_step *steps = (struct strata_step *)take(memory, nr * sizeof(*steps));
	const char *name = take_text(memory, c->name);
	const char *file = take_text(memory, c->file ? c->file : "");
	uint32_t i;

	for (i = 0; i < nr; i++) {
		const struct strata_event_field *from = field_of(c, i);
		const char *field_name = take_text(memory, from->name);
		const struct strata_enumeration *labels =
			from->enumeration ? take_enumeration(memory, from->enumeration) : NULL;

		if (!event)
			continue;
		fields[i].name = field_name;
		fields[i].enumeration = labels;
		make_field(&fields[i], from);
		make_step(&steps[i], from);
	}
	if (!event)
		return NULL;
	event->provider = provider;
	event->tracepoint.provider = provider->name;
	event->tracepoint.name = name;
	event->tracepoint.file = file;
	event->tracepoint.line = c->line;
	event->tracepoint.level = (uint8_t)c->level;
	event->tracepoint.fields = fields;
	event->tracepoint.nr_fields = (uint16_t)nr;
	plan(event, steps, nr);
	return event;
}

static uint32_t hash_of(const char *provider, const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *provider; provider++)
		hash = (hash ^ (unsigned char)*provider) * 16777619u;
	for (hash = (hash ^ ':') * 16777619u; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return (hash ^ hash >> 16) % NR_HASHES;
}

/* Copies a checked class to its own piece of memory, which is in no list yet. NULL: no memory. */
static struct strata_event_made *make_event(struct strata_provider *provider,
					    const struct strata_event_class *c)
{
	struct memory memory = { NULL, 0 };
	struct strata_event_made *event;

	copy_class(&memory, provider, c);
	memory.at = (unsigned char *)calloc(1, memory.bytes);
	memory.bytes = 0;
	if (!memory.at)
		return NULL;
	event = copy_class(&memory, provider, c);
	event->hash = hash_of(provider->name, event->tracepoint.name);
	return event;
}

static int is_same_enumeration(const struct strata_enumeration *a,
			       const struct strata_enumeration *b)
{
	uint32_t i;

	if (!a || !b)
		return a == b;
	if (a->nr_labels != b->nr_labels || strcmp(a->name, b->name))
		return 0;
	for (i = 0; i < a->nr_labels; i++)
		if (a->labels[i].from != b->labels[i].from || a->labels[i].to != b->labels[i].to ||
		    strcmp(a->labels[i].label, b->labels[i].label))
			return 0;
	return 1;
}

/*
 * Returns whether two classes are the same: a class may be registered in several places, and the first one stays.
 */
static int is_same(const struct strata_tracepoint *a, const struct strata_tracepoint *b)
{
	uint32_t i;

	if (a->level != b->level || a->nr_fields != b->nr_fields)
		return 0;
	for (i = 0; i < a->nr_fields; i++) {
		const struct strata_field *x = &a->fields[i], *y = &b->fields[i];

		if (x->type != y->type || x->element != y->element || x->bytes != y->bytes ||
		    x->flags != y->flags || x->base != y->base || x->count != y->count ||
		    strcmp(x->name, y->name) ||
		    !is_same_enumeration(x->enumeration, y->enumeration))
			return 0;
	}
	return 1;
}

/*
 * Registers @made, or counts one more use if the same class is registered already; the caller holds
 * the lock. Returns the registered one, or NULL and an error: -EEXIST, -ENOSPC.
 */
static struct strata_event_made *add_event(struct strata_event_made *made, int *error)
{
	struct strata_event_made *found, *old = NULL;

	for (found = events[made->hash]; found; found = found->next) {
		if (found->provider != made->provider ||
		    strcmp(found->tracepoint.name, made->tracepoint.name))
			continue;
		if (is_same(&found->tracepoint, &made->tracepoint)) {
			if (found->uses) {
				found->uses++;
				return found;
			}
			/* An object that was loaded meanwhile may have its state. */
			if (!(found->state->flags & STRATA_ABI_USER_STATE_PRESENT))
				old = found;
		} else if (found->uses) {
			*error = -EEXIST;
			return NULL;
		}
	}
	if (old) {
		strata_objects_add_again(&old->tracepoint, old->state);
		made = old;
	} else {
		if (!strata_objects_add(&made->tracepoint)) {
			*error = -ENOSPC;
			return NULL;
		}
		made->state = made->tracepoint.state;
		made->handle.enabled = &made->state->enabled;
		made->next = events[made->hash];
		events[made->hash] = made;
	}
	made->uses = 1;
	strata_events_live++;
	return made;
}

/* Releases one use of a class, or all of them; the caller holds the lock. */
static void drop_event(struct strata_event_made *event, uint32_t uses)
{
	if (!event->uses)
		return;
	event->uses -= uses < event->uses ? uses : event->uses;
	if (event->uses)
		return;
	strata_events_live--;
	if (strata_runtime.memory && strata_memory_own())
		strata_objects_remove(&event->tracepoint);
}

static int refuse_event(const struct why *why, int code, const struct strata_provider *provider,
			const char *name)
{
	switch (code) {
	case -EEXIST:
		return refuse(why, code,
			      "%s:%s is there already, with other fields or another level: take "
			      "another name",
			      show(provider->name).text, show(name).text);
	case -ENOSPC:
		return refuse(why, code,
			      "%s:%s finds no room: a process has %u classes and %u bytes of "
			      "descriptions",
			      show(provider->name).text, show(name).text, STRATA_ABI_USER_NR_STATES,
			      STRATA_ABI_USER_DESCRIPTIONS_BYTES);
	case -ENODEV:
		return refuse(why, code,
			      "this process has no memory that it can share with a "
			      "recorder");
	default:
		return refuse(why, code, "no memory");
	}
}

/* ---- the interface ---- */

static struct strata_provider *find_provider(const char *name)
{
	struct strata_provider *provider;

	for (provider = providers; provider && strcmp(provider->name, name);
	     provider = provider->next)
		;
	return provider;
}

int strata_provider_register(const char *name, struct strata_provider **provider, char *text,
			     size_t text_bytes)
{
	const struct why why = { text, text_bytes };
	struct strata_provider *made, *found;
	int code;

	*provider = NULL;
	code = check_name(&why, "the provider", name, NAME_BYTES_MAX - 2);
	if (code)
		return code;
	if (strchr(name, ':'))
		return refuse(&why, -EINVAL, "the provider '%s' has a ':', which ends its name",
			      show(name).text);
	made = (struct strata_provider *)calloc(1, sizeof(*made) + strlen(name) + 1);
	if (!made)
		return refuse(&why, -ENOMEM, "no memory");
	made->name = (char *)(made + 1);
	memcpy(made->name, name, strlen(name) + 1);
	strata_objects_lock();
	found = find_provider(name);
	if (!found) {
		made->next = providers;
		providers = made;
	}
	*provider = found ? found : made;
	(*provider)->uses++;
	strata_objects_unlock();
	if (found)
		free(made);
	return 0;
}

void strata_provider_unregister(struct strata_provider *provider)
{
	struct strata_event_made *event;
	struct strata_span *span;
	uint32_t i;

	if (!provider)
		return;
	strata_objects_lock();
	if (provider->uses && !--provider->uses) {
		for (i = 0; i < NR_HASHES; i++)
			for (event = events[i]; event; event = event->next)
				if (event->provider == provider)
					drop_event(event, UINT32_MAX);
		for (span = provider->spans; span; span = span->next)
			span->uses = 0;
	}
	strata_objects_unlock();
}

/*
 * Registers the classes of @made, one or the two of a span, or none of them. A class that is registered already takes
 * the place of the new one.
 */
static int add_events(struct strata_event_made **made, uint32_t nr)
{
	struct strata_event_made *added;
	int code = 0;
	uint32_t i;

	if (!strata_objects_begin())
		return -ENODEV;
	for (i = 0; i < nr; i++) {
		added = add_event(made[i], &code);
		if (!added) {
			while (i--)
				drop_event(made[i], 1);
			return code;
		}
		made[i] = added;
	}
	return 0;
}

int strata_event_register(struct strata_provider *provider, const struct strata_event_class *c,
			  struct strata_event **event, char *text, size_t text_bytes)
{
	const struct why why = { text, text_bytes };
	struct strata_event_made *made, *added;
	int code, saved = errno;

	*event = NULL;
	if (!provider)
		return refuse(&why, -EINVAL, "there is no provider");
	code = check_class(&why, provider->name, c);
	if (code)
		return code;
	added = made = make_event(provider, c);
	if (!made)
		return refuse_event(&why, -ENOMEM, provider, c->name);
	strata_objects_lock();
	code = add_events(&added, 1);
	strata_objects_unlock();
	/* The copy is in no list if there was one already, or no room. */
	if (!made->state)
		free(made);
	if (!code)
		*event = &added->handle;
	errno = saved;
	return code ? refuse_event(&why, code, provider, c->name) : 0;
}

void strata_event_unregister(struct strata_event *handle)
{
	if (!handle)
		return;
	strata_objects_lock();
	drop_event((struct strata_event_made *)(void *)handle, 1);
	strata_objects_unlock();
}

/* Returns the span of these two classes, and makes it unless it exists; the caller holds the lock. */
static struct strata_span *add_span(struct strata_span *made, struct strata_provider *provider)
{
	struct strata_span *span;

	for (span = provider->spans; span; span = span->next)
		if (span->begin == made->begin && span->end == made->end &&
		    span->is_keyed == made->is_keyed)
			break;
	if (!span) {
		span = made;
		span->next = provider->spans;
		provider->spans = span;
	}
	span->uses++;
	return span;
}

/* Registers both events of a span. @c is checked but for what is added to it here. */
static int register_span(const struct why *why, struct strata_provider *provider,
			 struct strata_event_class *begin, struct strata_event_class *end,
			 struct strata_span **span)
{
	struct strata_span *made = (struct strata_span *)calloc(1, sizeof(*made));
	struct strata_event_made *own[2], *added[2];
	uint32_t i;
	int code;

	own[0] = make_event(provider, begin);
	own[1] = make_event(provider, end);
	code = made && own[0] && own[1] ? 0 : -ENOMEM;
	memcpy(added, own, sizeof(added));
	strata_objects_lock();
	if (!code)
		code = add_events(added, 2);
	if (!code) {
		made->begin = added[0];
		made->end = added[1];
		made->is_keyed = end->nr_fields;
		*span = add_span(made, provider);
	}
	strata_objects_unlock();
	for (i = 0; i < 2; i++)
		if (own[i] && !own[i]->state)
			free(own[i]);
	if (code || *span != made)
		free(made);
	return code ? refuse_event(why, code, provider, begin->name) : 0;
}

int strata_span_register(struct strata_provider *provider, const struct strata_event_class *c,
			 uint32_t flags, struct strata_span **span, char *text, size_t text_bytes)
{
	const struct strata_event_field key = STRATA_FIELD_HEX(SPAN_KEY, STRATA_U64);
	const uint32_t keyed = flags & STRATA_SPAN_KEYED;
	const struct why why = { text, text_bytes };
	struct strata_event_field fields[STRATA_ABI_USER_FIELDS_MAX];
	char begin_name[NAME_BYTES_MAX + 8], end_name[NAME_BYTES_MAX + 8];
	struct strata_event_class begin, end;
	uint32_t i;
	int code, saved = errno;

	*span = NULL;
	if (!provider)
		return refuse(&why, -EINVAL, "there is no provider");
	if (flags & ~STRATA_SPAN_KEYED)
		return refuse(&why, -EINVAL, "a span has flags %#x; there is %#x", flags,
			      STRATA_SPAN_KEYED);
	code = check_class(&why, provider->name, c);
	if (code)
		return code;
	if (c->nr_fields + keyed > STRATA_ABI_USER_FIELDS_MAX)
		return refuse(&why, -EINVAL, "span '%s' has %u fields; the limit is %u",
			      show(c->name).text, c->nr_fields, STRATA_ABI_USER_FIELDS_MAX - keyed);
	snprintf(begin_name, sizeof(begin_name), "%s_begin", c->name);
	snprintf(end_name, sizeof(end_name), "%s_end", c->name);
	begin = end = *c;
	begin.bytes = end.bytes = sizeof(begin);
	begin.field_bytes = end.field_bytes = sizeof(*fields);
	begin.name = begin_name;
	end.name = end_name;
	fields[0] = key;
	for (i = 0; i < c->nr_fields; i++)
		fields[i + keyed] = *field_of(c, i);
	begin.fields = end.fields = fields;
	begin.nr_fields = c->nr_fields + keyed;
	end.nr_fields = keyed;
	/* The longer name, and a field of the key's name, may be too much. */
	code = check_class(&why, provider->name, &begin);
	if (!code)
		code = register_span(&why, provider, &begin, &end, span);
	errno = saved;
	return code;
}

void strata_span_unregister(struct strata_span *span)
{
	if (!span)
		return;
	strata_objects_lock();
	if (span->uses) {
		span->uses--;
		drop_event(span->begin, 1);
		drop_event(span->end, 1);
	}
	strata_objects_unlock();
}

const uint32_t *strata_span_enabled(const struct strata_span *span)
{
	static const uint32_t off;

	return span ? span->begin->handle.enabled : &off;
}
