/* SPDX-License-Identifier: MIT */
/*
 * fields.h - the passes of the tracepoint macros over an event's fields.
 *
 * A field is one of six tuples, whose last element is an expression of the user's:
 *
 *   (_scalar,   "name", kind, flags, base, enumeration, expression)
 *   (_string,   "name", expression)
 *   (_array,    "name", kind, flags, base, pointer, count)        kind: _number
 *   (_text,     "name", pointer, count)
 *   (_sequence, "name", kind, flags, base, pointer, count)        kind: _number, _text, _blob
 *   (_lacking,  "name", "what")                                   of which only TYPES makes something
 *
 * and a pass is a macro for each of them, PASS##_scalar(context, id, "name", ...) and so on, where id is "_of_" and the
 * field's number, counted from the end. In a block:
 *
 *   TYPES     a type and a type code for each field, and what is asserted of it
 *   DESCRIBE  its struct strata_field; context: what the type codes' names begin with
 *   BYTES     "+ bytes", or more than STRATA_USER_INLINE_BYTES if they are not constant
 *   VALUES    the expressions' values, evaluated once
 *   PUT       copy them to strata_user_to
 *   LEAST     "+ bytes" of what has a constant size, lengths of sequences too
 *   ADD       as PUT, for those without a constant size, too; a break if there is no room up to strata_user_end
 *   PART      add them to strata_user_part
 *
 * An expression stands in TYPES, unevaluated, and in VALUES.
 */
#ifndef STRATA_USER_FIELDS_H
#define STRATA_USER_FIELDS_H

#include <strata/user/assemble.h>
#include <strata/user/foreach.h>
#include <strata/user/types.h>

/* Makes the tuple of a field, depending on the number of arguments after its name. */
#define STRATA_USER_VALUED(given)	       STRATA_USER_PASTE(STRATA_USER_VALUED_, given)
#define STRATA_USER_VALUED_0(shape, name, ...) (_lacking, name, "its value is not given")
#define STRATA_USER_VALUED_1(...)	       (__VA_ARGS__)
#define STRATA_USER_VALUED_2(...)	       (__VA_ARGS__)
#define STRATA_USER_LABELLED(given)	       STRATA_USER_PASTE(STRATA_USER_LABELLED_, given)
#define STRATA_USER_LABELLED_0(shape, name, ...) \
	(_lacking, name, "its enumeration and value are not given")
#define STRATA_USER_LABELLED_1(shape, name, ...) (_lacking, name, "its value is not given")
#define STRATA_USER_LABELLED_2(...)		 (__VA_ARGS__)
#define STRATA_USER_COUNTED(given)		 STRATA_USER_PASTE(STRATA_USER_COUNTED_, given)
#define STRATA_USER_COUNTED_0(shape, name, ...) \
	(_lacking, name, "its pointer and number of elements are not given")
#define STRATA_USER_COUNTED_1(shape, name, ...) \
	(_lacking, name, "its number of elements is not given")
#define STRATA_USER_COUNTED_2(...) (__VA_ARGS__)

/* Asserts what holds for the name of any field. */
#define STRATA_USER_FIELD_NAME_ASSERT(name)                                          \
	STRATA_USER_IDENTIFIER_ASSERT("field", name);                                \
	STRATA_USER_FIELD_ASSERT(name, sizeof(name) <= STRATA_ABI_USER_NAME_MAX + 1, \
				 "its name has more than 255 bytes");
#define STRATA_USER_FIELD_ASSERT(name, condition, text) \
	STRATA_USER_ASSERT(condition, "strata: field " name ": " text)

#define STRATA_USER_COUNT_ASSERT(name, count)                                                 \
	STRATA_USER_FIELD_ASSERT(name, __builtin_constant_p(count),                           \
				 "its number of elements is not a constant; use a sequence"); \
	STRATA_USER_FIELD_ASSERT(name, (count) > 0, "its number of elements is not above 0"); \
	STRATA_USER_FIELD_ASSERT(name, (count) <= 0x10000000,                                 \
				 "it has more than 0x10000000 elements");

/*
 * Properties of the kinds of scalars: the test of the type, the stored type, the type code, and the
 * conversion.
 */
#define STRATA_USER_ASSERT_integer(name, type)                       \
	STRATA_USER_FIELD_ASSERT(name, STRATA_USER_IS_INTEGER(type), \
				 "its value is not an integer of 1, 2, 4 or 8 bytes")
#define STRATA_USER_ASSERT_boolean(name, type)                       \
	STRATA_USER_FIELD_ASSERT(name, STRATA_USER_IS_INTEGER(type), \
				 "its value is not a truth value or an integer")
#define STRATA_USER_ASSERT_real(name, type)                        \
	STRATA_USER_FIELD_ASSERT(name, STRATA_USER_IS_FLOAT(type), \
				 "its value is not a float or a double")
#define STRATA_USER_ASSERT_address(name, type) \
	STRATA_USER_FIELD_ASSERT(name, STRATA_USER_IS_POINTER(type), "its value is not a pointer")

#define STRATA_USER_STORED_integer(type) STRATA_USER_STORED(type)
#define STRATA_USER_STORED_boolean(type) uint8_t
#define STRATA_USER_STORED_real(type)	 type
#define STRATA_USER_STORED_address(type) uintptr_t

#define STRATA_USER_VALUE_integer(type, ...) STRATA_USER_TO_STORED(type, __VA_ARGS__)
#define STRATA_USER_VALUE_boolean(type, ...) STRATA_USER_CAST(type, (__VA_ARGS__) ? 1 : 0)
#define STRATA_USER_VALUE_real(type, ...)    (__VA_ARGS__)
#define STRATA_USER_VALUE_address(type, ...) STRATA_USER_ADDRESS(type, __VA_ARGS__)

/*
 * Returns the type code of an expression. In a function's declaration types have no names, so codes are taken from
 * expressions too.
 */
#define STRATA_USER_CODE_integer(...) STRATA_USER_CODE(STRATA_USER_TYPE(__VA_ARGS__))
#define STRATA_USER_CODE_boolean(...) 0
#define STRATA_USER_CODE_real(...)    STRATA_USER_CODE(STRATA_USER_TYPE(__VA_ARGS__))
#define STRATA_USER_CODE_address(...) STRATA_USER_CODE_UNSIGNED(sizeof(void *))

/* Properties of the kinds of elements in arrays and sequences. */
#define STRATA_USER_ASSERT_number(name, type)                       \
	STRATA_USER_FIELD_ASSERT(name, STRATA_USER_IS_NUMBER(type), \
				 "its elements are not integers, floats or doubles")
#define STRATA_USER_ASSERT_text(name, type)                                               \
	STRATA_USER_FIELD_ASSERT(name, STRATA_USER_IS_INTEGER(type) && sizeof(type) == 1, \
				 "its elements are not characters")
#define STRATA_USER_ASSERT_blob(name, type)

#define STRATA_USER_CODE_number(...) STRATA_USER_CODE(STRATA_USER_ELEMENT(__VA_ARGS__))
#define STRATA_USER_CODE_text(...)   0
#define STRATA_USER_CODE_blob(...)   0

#define STRATA_USER_ELEMENT_number STRATA_ABI_USER_INTEGER
#define STRATA_USER_ELEMENT_text   STRATA_ABI_USER_TEXT
#define STRATA_USER_ELEMENT_blob   STRATA_ABI_USER_INTEGER

#define STRATA_USER_UNUSED __attribute__((unused))

/* The pass TYPES defines a field's given and stored types, and tests them. */
#define STRATA_USER_TYPES_scalar(context, id, name, kind, flags, base, enumeration, ...) \
	STRATA_USER_FIELD_NAME_ASSERT(name)                                              \
	typedef STRATA_USER_TYPE(__VA_ARGS__) strata_type##id STRATA_USER_UNUSED;        \
	STRATA_USER_ASSERT##kind(name, strata_type##id);                                 \
	typedef STRATA_USER_STORED##kind(strata_type##id) strata_stored##id STRATA_USER_UNUSED;
#define STRATA_USER_TYPES_string(context, id, name, ...)                          \
	STRATA_USER_FIELD_NAME_ASSERT(name)                                       \
	typedef STRATA_USER_TYPE(__VA_ARGS__) strata_type##id STRATA_USER_UNUSED; \
	STRATA_USER_FIELD_ASSERT(name, STRATA_USER_IS_STRING(strata_type##id),    \
				 "its value is not a const char *");
#define STRATA_USER_TYPES_POINTER(id, name, pointer)                          \
	STRATA_USER_FIELD_NAME_ASSERT(name)                                   \
	typedef STRATA_USER_TYPE(pointer) strata_type##id STRATA_USER_UNUSED; \
	STRATA_USER_FIELD_ASSERT(name, STRATA_USER_IS_POINTER(strata_type##id), "it is no pointer");
#define STRATA_USER_TYPES_ELEMENT(id, name, kind, pointer)                          \
	STRATA_USER_TYPES_POINTER(id, name, pointer)                                \
	typedef STRATA_USER_ELEMENT(pointer) strata_element##id STRATA_USER_UNUSED; \
	STRATA_USER_ASSERT##kind(name, strata_element##id);
#define STRATA_USER_TYPES_array(context, id, name, kind, flags, base, pointer, ...) \
	STRATA_USER_TYPES_ELEMENT(id, name, kind, pointer)                          \
	STRATA_USER_COUNT_ASSERT(name, (__VA_ARGS__))
#define STRATA_USER_TYPES_text(context, id, name, pointer, ...) \
	STRATA_USER_TYPES_ELEMENT(id, name, _text, pointer)     \
	STRATA_USER_COUNT_ASSERT(name, (__VA_ARGS__))
#define STRATA_USER_TYPES_sequence(context, id, name, kind, flags, base, pointer, ...)            \
	STRATA_USER_TYPES_SEQUENCE##kind(id, name, pointer) typedef STRATA_USER_TYPE(__VA_ARGS__) \
		strata_length##id STRATA_USER_UNUSED;                                             \
	STRATA_USER_FIELD_ASSERT(name, STRATA_USER_IS_INTEGER(strata_length##id),                 \
				 "its number of elements is not an integer");
#define STRATA_USER_TYPES_SEQUENCE_number(id, name, pointer) \
	STRATA_USER_TYPES_ELEMENT(id, name, _number, pointer)
#define STRATA_USER_TYPES_SEQUENCE_text(id, name, pointer) \
	STRATA_USER_TYPES_ELEMENT(id, name, _text, pointer)
#define STRATA_USER_TYPES_SEQUENCE_blob(id, name, pointer) \
	STRATA_USER_TYPES_POINTER(id, name, pointer)       \
	typedef unsigned char strata_element##id STRATA_USER_UNUSED;

#define STRATA_USER_TYPES_lacking(context, id, name, what) STRATA_USER_FIELD_ASSERT(name, 0, what);
#define STRATA_USER_CODES_lacking(...)
#define STRATA_USER_ASK_lacking(...)
#define STRATA_USER_DESCRIBE_lacking(...)
#define STRATA_USER_BYTES_lacking(...)
#define STRATA_USER_VALUES_lacking(...)
#define STRATA_USER_PUT_lacking(...)
#define STRATA_USER_LEAST_lacking(...)
#define STRATA_USER_ADD_lacking(...)
#define STRATA_USER_PART_lacking(...)

/* The pass CODES, after TYPES, defines an enumerator for each field, context##id. */
#define STRATA_USER_CODES_scalar(context, id, name, kind, flags, base, enumeration, ...) \
	enum {                                                                           \
		context##id = STRATA_USER_CODES##kind(strata_type##id)                   \
	};
#define STRATA_USER_CODES_string(context, id, name, ...)
#define STRATA_USER_CODES_array(context, id, name, kind, flags, base, ...) \
	enum {                                                             \
		context##id = STRATA_USER_CODE(strata_element##id)         \
	};
#define STRATA_USER_CODES_text(context, id, name, ...)
#define STRATA_USER_CODES_sequence(context, id, name, kind, flags, base, ...) \
	enum {                                                                \
		context##id = STRATA_USER_CODE(strata_element##id)            \
	};
#define STRATA_USER_CODES_integer(type) STRATA_USER_CODE(type)
#define STRATA_USER_CODES_boolean(type) 0
#define STRATA_USER_CODES_real(type)	STRATA_USER_CODE(type)
#define STRATA_USER_CODES_address(type) STRATA_USER_CODE_UNSIGNED(sizeof(void *))

/* The pass DESCRIBE makes the constant description of a field. */
#define STRATA_USER_FIELD(name, enumeration, count, type, element, code, flags, base,        \
			  length_bytes)                                                      \
	{                                                                                    \
		name, enumeration, STRATA_USER_CAST(uint32_t, count),                        \
			STRATA_USER_CAST(uint8_t, type), STRATA_USER_CAST(uint8_t, element), \
			STRATA_USER_CAST(uint8_t, 1 << ((code)&3)),                          \
			STRATA_USER_CAST(uint8_t,                                            \
					 (flags) | ((code)&STRATA_USER_CODE_SIGNED ?         \
							    STRATA_ABI_USER_FIELD_SIGNED :   \
							    0)),                             \
			base, length_bytes,                                                  \
		{                                                                            \
			0, 0                                                                 \
		}                                                                            \
	}
#define STRATA_USER_NUMBER(code, otherwise) \
	((code)&STRATA_USER_CODE_FLOAT ? STRATA_ABI_USER_FLOAT : otherwise)

#define STRATA_USER_DESCRIBE_scalar(context, id, name, kind, flags, base, enumeration, ...) \
	STRATA_USER_FIELD(name, enumeration, 0,                                             \
			  STRATA_USER_NUMBER(context##id, STRATA_ABI_USER_INTEGER), 0,      \
			  context##id, flags, base, 0),
#define STRATA_USER_DESCRIBE_string(context, id, name, ...) \
	STRATA_USER_FIELD(name, STRATA_USER_NULL, 0, STRATA_ABI_USER_STRING, 0, 0, 0, 10, 0),
#define STRATA_USER_DESCRIBE_array(context, id, name, kind, flags, base, pointer, ...)             \
	STRATA_USER_FIELD(name, STRATA_USER_NULL, (__VA_ARGS__), STRATA_ABI_USER_ARRAY,            \
			  STRATA_USER_NUMBER(context##id, STRATA_USER_ELEMENT##kind), context##id, \
			  flags, base, 0),
#define STRATA_USER_DESCRIBE_text(context, id, name, pointer, ...)                      \
	STRATA_USER_FIELD(name, STRATA_USER_NULL, (__VA_ARGS__), STRATA_ABI_USER_ARRAY, \
			  STRATA_ABI_USER_TEXT, 0, 0, 10, 0),
#define STRATA_USER_DESCRIBE_sequence(context, id, name, kind, flags, base, ...)                   \
	STRATA_USER_FIELD(name, STRATA_USER_NULL, 0, STRATA_ABI_USER_SEQUENCE,                     \
			  STRATA_USER_NUMBER(context##id, STRATA_USER_ELEMENT##kind), context##id, \
			  flags, base, sizeof(uint32_t)),
/* Ends the array of fields, which is never empty then. */
#define STRATA_USER_FIELD_END \
	STRATA_USER_FIELD(STRATA_USER_NULL, STRATA_USER_NULL, 0, 0, 0, 0, 0, 0, 0)

/* The pass BYTES adds a field's size, or more than STRATA_USER_INLINE_BYTES if it is not constant. */
#define STRATA_USER_BYTES_scalar(context, id, ...) +sizeof(strata_stored##id)
#define STRATA_USER_BYTES_string(context, id, ...) +STRATA_USER_INLINE_BYTES + 1
#define STRATA_USER_BYTES_array(context, id, name, kind, flags, base, pointer, ...) \
	+STRATA_USER_CAST(uint64_t, __VA_ARGS__) * sizeof(strata_element##id)
#define STRATA_USER_BYTES_text(context, id, name, pointer, ...) \
	+STRATA_USER_CAST(uint64_t, __VA_ARGS__)
#define STRATA_USER_BYTES_sequence(context, id, ...) +STRATA_USER_INLINE_BYTES + 1

/* The pass VALUES evaluates a field's expressions once, into variables. */
#define STRATA_USER_VALUES_scalar(context, id, name, kind, flags, base, enumeration, ...) \
	const strata_stored##id strata_value##id =                                        \
		STRATA_USER_VALUE##kind(strata_stored##id, __VA_ARGS__);
#define STRATA_USER_VALUES_string(context, id, name, ...) \
	const char *const strata_value##id = (__VA_ARGS__);
#define STRATA_USER_VALUES_array(context, id, name, kind, flags, base, pointer, ...) \
	const volatile void *const strata_value##id = (pointer);
#define STRATA_USER_VALUES_text(context, id, name, pointer, ...) \
	const volatile void *const strata_value##id = (pointer);
#define STRATA_USER_VALUES_sequence(context, id, name, kind, flags, base, pointer, ...) \
	const volatile void *const strata_value##id = (pointer);                        \
	const uint64_t strata_count##id = STRATA_USER_CAST(uint64_t, __VA_ARGS__);

/* The pass PUT writes a field of constant size to the payload. */
#define STRATA_USER_PUT_scalar(context, id, ...) \
	strata_user_to =                         \
		strata_user_put(strata_user_to, &strata_value##id, sizeof(strata_stored##id));
#define STRATA_USER_PUT_string(context, id, ...)
#define STRATA_USER_PUT_array(context, id, name, kind, flags, base, pointer, ...)        \
	strata_user_to = strata_user_put_array(strata_user_to, strata_value##id,         \
					       STRATA_USER_CAST(uint64_t, __VA_ARGS__) * \
						       sizeof(strata_element##id));
#define STRATA_USER_PUT_text(context, id, name, pointer, ...)                   \
	strata_user_to = strata_user_put_text(strata_user_to, strata_value##id, \
					      STRATA_USER_CAST(uint64_t, __VA_ARGS__));
#define STRATA_USER_PUT_sequence(context, id, ...)

/* The pass LEAST adds the constant part of a field's size. */
#define STRATA_USER_LEAST_scalar(context, id, ...) +sizeof(strata_stored##id)
#define STRATA_USER_LEAST_string(context, id, ...)
#define STRATA_USER_LEAST_array			     STRATA_USER_BYTES_array
#define STRATA_USER_LEAST_text			     STRATA_USER_BYTES_text
#define STRATA_USER_LEAST_sequence(context, id, ...) +sizeof(uint32_t)

/* The pass ADD writes a field of any size, if there is room for it. */
#define STRATA_USER_ADD_scalar STRATA_USER_PUT_scalar
#define STRATA_USER_ADD_array  STRATA_USER_PUT_array
#define STRATA_USER_ADD_text   STRATA_USER_PUT_text
#define STRATA_USER_ADD_string(context, id, ...)                                           \
	strata_user_to =                                                                   \
		strata_user_add_string(strata_user_to, strata_user_end, strata_value##id); \
	if (!strata_user_to)                                                               \
		break;
#define STRATA_USER_ADD_sequence(context, id, ...)                                    \
	strata_user_to = strata_user_add_sequence(strata_user_to, strata_user_end,    \
						  strata_value##id, strata_count##id, \
						  sizeof(strata_element##id));        \
	if (!strata_user_to)                                                          \
		break;

/* The pass PART describes a field to libstrata, which puts the payload together. */
#define STRATA_USER_PART_scalar(context, id, ...)                                      \
	strata_user_part = strata_user_part_value(strata_user_part, &strata_value##id, \
						  sizeof(strata_stored##id));
#define STRATA_USER_PART_string(context, id, ...)                                           \
	strata_user_part = strata_user_part_data(strata_user_part, STRATA_USER_PART_STRING, \
						 strata_value##id, 0, 1);
#define STRATA_USER_PART_array(context, id, name, kind, flags, base, pointer, ...)         \
	strata_user_part = strata_user_part_data(strata_user_part, STRATA_USER_PART_ARRAY, \
						 strata_value##id,                         \
						 STRATA_USER_CAST(uint64_t, __VA_ARGS__),  \
						 sizeof(strata_element##id));
#define STRATA_USER_PART_text(context, id, name, pointer, ...)                            \
	strata_user_part = strata_user_part_data(strata_user_part, STRATA_USER_PART_TEXT, \
						 strata_value##id,                        \
						 STRATA_USER_CAST(uint64_t, __VA_ARGS__), 1);
#define STRATA_USER_PART_sequence(context, id, ...)                                           \
	strata_user_part = strata_user_part_data(strata_user_part, STRATA_USER_PART_SEQUENCE, \
						 strata_value##id, strata_count##id,          \
						 sizeof(strata_element##id));

/* Evaluate the fields of a list, and record them; after TYPES. */
#define STRATA_USER_WRITE(tracepoint, ...)                                                           \
	STRATA_USER_FOREACH(STRATA_USER_VALUES, ~, __VA_ARGS__)                                      \
	typedef unsigned char                                                                        \
		strata_user_size[1 STRATA_USER_FOREACH(STRATA_USER_BYTES, ~, __VA_ARGS__)];          \
	typedef unsigned char                                                                        \
		strata_user_least[1 STRATA_USER_FOREACH(STRATA_USER_LEAST, ~, __VA_ARGS__)];         \
	enum {                                                                                       \
		strata_user_fixed = sizeof(strata_user_size) <= STRATA_USER_INLINE_BYTES + 1,        \
		strata_user_bytes = strata_user_fixed ? sizeof(strata_user_size) - 1 : 0,            \
		strata_user_small = sizeof(strata_user_least) <= STRATA_USER_INLINE_BYTES + 1,       \
		strata_user_constant = strata_user_small ? sizeof(strata_user_least) - 1 : 0,        \
		strata_user_nr = STRATA_USER_COUNT(__VA_ARGS__)                                      \
	};                                                                                           \
	if (strata_user_fixed) {                                                                     \
		unsigned char strata_user_memory[STRATA_USER_HEADROOM + strata_user_bytes +          \
						 STRATA_USER_TAILROOM]                               \
			__attribute__((aligned(8)));                                                 \
		unsigned char *strata_user_to = strata_user_memory + STRATA_USER_HEADROOM;           \
		STRATA_USER_FOREACH(STRATA_USER_PUT, ~, __VA_ARGS__)                                 \
		if (strata_user_bytes == 8) {                                                        \
			uint64_t strata_user_word;                                                   \
			__builtin_memcpy(&strata_user_word,                                          \
					 strata_user_memory + STRATA_USER_HEADROOM, 8);              \
			strata_user_record_word(tracepoint, strata_user_word);                       \
		} else {                                                                             \
			__builtin_memset(strata_user_to, 0, STRATA_USER_TAILROOM);                   \
			strata_user_record(tracepoint, strata_user_memory + STRATA_USER_HEADROOM,    \
					   strata_user_bytes);                                       \
		}                                                                                    \
	} else {                                                                                     \
		int strata_user_done = 0;                                                            \
		if (strata_user_small && !__builtin_expect((tracepoint)->filtered, 0)) {             \
			unsigned char                                                                \
				strata_user_memory[STRATA_USER_HEADROOM + STRATA_USER_INLINE_BYTES + \
						   strata_user_constant + STRATA_USER_STACK_SLACK]   \
				__attribute__((aligned(8)));                                         \
			unsigned char *strata_user_to = strata_user_memory + STRATA_USER_HEADROOM;   \
			unsigned char *const strata_user_end =                                       \
				strata_user_to + STRATA_USER_INLINE_BYTES;                           \
			do {                                                                         \
				STRATA_USER_FOREACH(STRATA_USER_ADD, ~, __VA_ARGS__)                 \
				__builtin_memset(strata_user_to, 0, STRATA_USER_TAILROOM);           \
				strata_user_record(                                                  \
					tracepoint, strata_user_memory + STRATA_USER_HEADROOM,       \
					STRATA_USER_CAST(uint32_t,                                   \
							 strata_user_to -                            \
								 (strata_user_memory +               \
								  STRATA_USER_HEADROOM)));           \
				strata_user_done = 1;                                                \
			} while (0);                                                                 \
			(void)strata_user_end;                                                       \
		}                                                                                    \
		if (!strata_user_done) {                                                             \
			struct strata_user_part strata_user_parts[strata_user_nr + 1];               \
			struct strata_user_part *strata_user_part = strata_user_parts;               \
			STRATA_USER_FOREACH(STRATA_USER_PART, ~, __VA_ARGS__)                        \
			(void)strata_user_part;                                                      \
			strata_user_assemble(tracepoint, strata_user_parts, strata_user_nr);         \
		}                                                                                    \
	}

#endif /* STRATA_USER_FIELDS_H */
