/* SPDX-License-Identifier: MIT */
/*
 * events.h - event classes that a program makes at run time, for C11 and C++14, and for the bindings of other languages.
 *
 * Where an event is known when the program is compiled, <strata/tracepoint.h> is shorter and costs less while nobody
 * records. This interface is for fields that only a running program knows: of a plug-in, a script, a logging library.
 *
 *   static const struct strata_event_field fields[] = {
 *           STRATA_FIELD("number", STRATA_I32), STRATA_FIELD("customer", STRATA_STRING) };
 *   static const struct strata_event_class class = STRATA_EVENT_CLASS("sold", STRATA_INFO, fields, 2);
 *   struct strata_provider *shop;
 *   struct strata_event *sold;
 *
 *   strata_provider_register("shop", &shop, NULL, 0);
 *   strata_event_register(shop, &class, &sold, NULL, 0);
 *   ...
 *   if (strata_event_is_on(sold)) {
 *           const union strata_value values[] = { strata_value_int(number), strata_value_data(customer) };
 *           strata_event_record(sold, values, 2);
 *   }
 *
 * These classes are listed, selected by rules, filtered, counted and read as those of the macros are. A class may be
 * registered before or while a session runs. A child by fork() has its parent's classes.
 *
 * Errors are negative errno. Functions that register also write a sentence that says what is wrong, and where.
 * A program goes on without a handle: all functions take NULL for one, and do nothing then.
 *
 * Limits: 64 fields, 4,096 labels of an enumeration, an array of 1 MiB; names of fields, enumerations and labels 255 bytes
 * each, "provider:event" 255 together. Of all classes of a process 16,384 and 3.5 MB of descriptions, those that are no
 * longer registered included. A record is at most as large as a sub-buffer. Names are UTF-8 without control characters; a
 * provider has no ':'. There are no structures: give each member a field, "address.city".
 *
 * Context: functions that register or unregister take a lock and allocate memory: not in a signal handler, nor between
 * vfork() and exec, nor in pthread_atfork() handlers. All others are for any thread and signal handler, take no lock, and leave errno as it is.
 *
 * Stability: an object compiled with this header works with any libstrata of the same soname that is not older. Structures
 * grow at their end only, and say how large they are. strata_events_version() is for callers by dlopen("libstrata.so.0").
 */
#ifndef STRATA_EVENTS_H
#define STRATA_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. It grows when something is added; see strata_events_version(). */
#define STRATA_EVENTS_VERSION 1u

/* Levels of a class, the most severe first. */
#define STRATA_EMERG	      0u
#define STRATA_ALERT	      1u
#define STRATA_CRIT	      2u
#define STRATA_ERR	      3u
#define STRATA_WARNING	      4u
#define STRATA_NOTICE	      5u
#define STRATA_INFO	      6u
#define STRATA_DEBUG_SYSTEM   7u
#define STRATA_DEBUG_PROGRAM  8u
#define STRATA_DEBUG_PROCESS  9u
#define STRATA_DEBUG_MODULE   10u
#define STRATA_DEBUG_UNIT     11u
#define STRATA_DEBUG_FUNCTION 12u
#define STRATA_DEBUG_LINE     13u
#define STRATA_DEBUG	      14u

/*
 * Types of a field, or of its elements, and where a union strata_value has the value.
 *
 *   type              value     in a payload
 *   STRATA_I8 .. U64  .i, .u    1, 2, 4, 8 bytes, of which .u has more the low ones are taken
 *   STRATA_F32, F64   .f        4, 8 bytes
 *   STRATA_BOOL       .u        1 byte, 0 or 1
 *   STRATA_STRING     .data     the bytes of a text up to a NUL, and the NUL. A null pointer is "(null)"
 *   STRATA_CHAR       .data     only as an array, or a sequence: characters. An array's behind a NUL are recorded as NULs, but
 *                               for those of a payload; a sequence's are recorded as they are
 *
 * Arrays and sequences of the other types have their elements at .data, in the machine's byte order. A sequence takes two
 * values: .data, and the number of elements in .u. In a payload it is a uint32_t and so many elements. Nothing is aligned.
 */
#define STRATA_I8     1u
#define STRATA_I16    2u
#define STRATA_I32    3u
#define STRATA_I64    4u
#define STRATA_U8     5u
#define STRATA_U16    6u
#define STRATA_U32    7u
#define STRATA_U64    8u
#define STRATA_F32    9u
#define STRATA_F64    10u
#define STRATA_BOOL   11u
#define STRATA_STRING 12u
#define STRATA_CHAR   13u

/* Values of strata_event_field.shape */
#define STRATA_SCALAR	0u
#define STRATA_ARRAY	1u /* .count elements */
#define STRATA_SEQUENCE 2u /* as many as the value says */

/* The name of the values from..to of an integer. Labels may overlap; those of STRATA_U64 are bit patterns. */
struct strata_event_label {
	const char *name;
	int64_t from;
	int64_t to;
};

struct strata_event_enumeration {
	const char *name; /* "" or NULL: none */
	const struct strata_event_label *labels;
	uint32_t nr_labels;
};

struct strata_event_field {
	const char *name;
	const struct strata_event_enumeration
		*enumeration; /* of an integer that is no array; or NULL */
	uint32_t count;	      /* of an array */
	uint8_t type;
	uint8_t shape;
	uint8_t base; /* in which numbers are shown: 2, 8, 10, 16; 0 is 10 */
	uint8_t reserved;
};

/* The description of an event class. Members that are not used are 0; all is copied when the class is registered. */
struct strata_event_class {
	uint32_t bytes;	      /* sizeof(struct strata_event_class) */
	uint32_t field_bytes; /* sizeof(struct strata_event_field) */
	const char *name;
	const struct strata_event_field *fields;
	uint32_t nr_fields;
	uint32_t level;	  /* STRATA_EMERG .. STRATA_DEBUG */
	const char *file; /* the place in the source, as readers show it; or NULL and 0 */
	uint32_t line;
	uint32_t reserved;
};

#define STRATA_FIELD(name, type)                         \
	{                                                \
		name, NULL, 0, type, STRATA_SCALAR, 0, 0 \
	}
#define STRATA_FIELD_HEX(name, type)                      \
	{                                                 \
		name, NULL, 0, type, STRATA_SCALAR, 16, 0 \
	}
#define STRATA_FIELD_ENUM(name, type, labels)              \
	{                                                  \
		name, labels, 0, type, STRATA_SCALAR, 0, 0 \
	}
#define STRATA_FIELD_ARRAY(name, type, count)               \
	{                                                   \
		name, NULL, count, type, STRATA_ARRAY, 0, 0 \
	}
#define STRATA_FIELD_SEQUENCE(name, type)                  \
	{                                                  \
		name, NULL, 0, type, STRATA_SEQUENCE, 0, 0 \
	}
#define STRATA_EVENT_CLASS(name, level, fields, nr)                                         \
	{                                                                                   \
		sizeof(struct strata_event_class), sizeof(struct strata_event_field), name, \
			fields, nr, level, NULL, 0, 0                                       \
	}

/* The value of a field, or one of the two of a sequence. */
union strata_value {
	uint64_t u;
	int64_t i;
	double f;
	const void *data;
};

/* A class that is registered. It stays in memory until the process ends, so that a thread may use it at any time. */
struct strata_event {
	const uint32_t *enabled; /* not 0: somebody records it. The address never changes */
};

struct strata_provider;
struct strata_span;

/* Symbols of libstrata, which stay visible however the program hides its own. */
#pragma GCC visibility push(default)

/** strata_events_version() - returns the STRATA_EVENTS_VERSION of the library. */
uint32_t strata_events_version(void);

/**
 * strata_provider_register() - name a group of events, which are then called "provider:event".
 * @name:     1 to 253 bytes.
 * @provider: out: the handle, or NULL. Who gives a name that is registered gets the same one: unregister it as often.
 * @why:      out: what is wrong, as text; NULL: nobody wants to know. @why_bytes: its size.
 *
 * Returns 0, or
 *   -EINVAL  @name cannot be one
 *   -ENOMEM  no memory
 */
int strata_provider_register(const char *name, struct strata_provider **provider, char *why,
			     size_t why_bytes);

/**
 * strata_provider_unregister() - give the provider back. The last one unregisters all events and spans of it, however
 * often each was registered.
 */
void strata_provider_unregister(struct strata_provider *provider);

/**
 * strata_event_register() - make an event class known to recorders.
 * @event: out: the handle, or NULL. Who registers a class of the same name, level and fields gets the same one:
 *         unregister it as often.
 *
 * Returns 0, or
 *   -EINVAL  a name, a type, a number is not allowed, or two fields have one name
 *   -E2BIG   a structure is larger than this library knows, and what it does not know is not 0
 *   -EEXIST  @provider has another class of this name
 *   -ENOSPC  there is no room for more classes or descriptions
 *   -ENOMEM  no memory
 *   -ENODEV  this process cannot be recorded: it has no shared memory (`strata list` may say why)
 */
int strata_event_register(struct strata_provider *provider, const struct strata_event_class *class_,
			  struct strata_event **event, char *why, size_t why_bytes);

/**
 * strata_event_unregister() - give the event class back. After the last one no record is written. Other threads may
 * be recording it.
 */
void strata_event_unregister(struct strata_event *event);

/**
 * strata_event_record() - write one record to each session that wants the event.
 * @values: of all fields, in their order; @nr of them: one for each field, two for a sequence. What they point to may be
 *          read several times, and not after the return.
 *
 * Returns 0: it is written, or counted as discarded, or nobody wants it; -EINVAL: @nr is another number.
 */
int strata_event_record(struct strata_event *event, const union strata_value *values, uint32_t nr);

/**
 * strata_event_record_payload() - record an event whose fields are in memory as a record has them (see the types,
 * above).
 *
 * Returns 0, or -EINVAL if the bytes are not what the fields say: nothing is recorded.
 */
int strata_event_record_payload(struct strata_event *event, const void *payload, uint32_t bytes);

/* The flags that strata_span_register() takes. */
#define STRATA_SPAN_KEYED \
	1u /* each span has a key: it may end in another thread, and overlap others */

/**
 * strata_span_register() - make the two events of a span known: @class's name and "_begin", which has the fields, and
 * "_end". With STRATA_SPAN_KEYED both have a field "span_key" in front.
 *
 * Returns as strata_event_register().
 */
int strata_span_register(struct strata_provider *provider, const struct strata_event_class *class_,
			 uint32_t flags, struct strata_span **span, char *why, size_t why_bytes);
void strata_span_unregister(struct strata_span *span);

/** strata_span_enabled() - returns the address of a number that is not 0 while somebody records begins; never NULL. */
const uint32_t *strata_span_enabled(const struct strata_span *span);

/**
 * strata_span_begin() - begin a span in this thread.
 *
 * Returns 1: call strata_span_end(), in the same thread and innermost first. 0: nobody records it, and an end would be
 * without its begin. -EINVAL: as strata_event_record(), or the span is keyed.
 */
int strata_span_begin(struct strata_span *span, const union strata_value *values, uint32_t nr);
int strata_span_end(struct strata_span *span);

/**
 * strata_span_begin_key() - begin a span that is identified by @key. Its end may be in any thread.
 * @key: of this process' spans of this class that have not ended no other one has it.
 *
 * Returns as strata_span_begin(). -EINVAL also where the span is not keyed.
 */
int strata_span_begin_key(struct strata_span *span, uint64_t key, const union strata_value *values,
			  uint32_t nr);
int strata_span_end_key(struct strata_span *span, uint64_t key);

/**
 * strata_span_new_key() - returns a key that this process has not been given before; never 0. Processes that run at a time
 * in one PID namespace have different keys. Those of two containers may have the same.
 */
uint64_t strata_span_new_key(void);

#pragma GCC visibility pop

/** strata_event_is_on() - return whether some session records the event. Two loads. */
static inline int strata_event_is_on(const struct strata_event *event)
{
	return event && __builtin_expect(__atomic_load_n(event->enabled, __ATOMIC_RELAXED) != 0, 0);
}

static inline union strata_value strata_value_int(int64_t number)
{
	union strata_value value;

	value.i = number;
	return value;
}

static inline union strata_value strata_value_uint(uint64_t number)
{
	union strata_value value;

	value.u = number;
	return value;
}

static inline union strata_value strata_value_float(double number)
{
	union strata_value value;

	value.f = number;
	return value;
}

/** strata_value_data() - returns the value of a text, of an array, or the first one of a sequence. */
static inline union strata_value strata_value_data(const void *data)
{
	union strata_value value;

	value.data = data;
	return value;
}

#ifdef __cplusplus
}
#endif

#endif /* STRATA_EVENTS_H */
