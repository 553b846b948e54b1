/* SPDX-License-Identifier: MIT */
/*
 * object.h - data that the tracepoint macros leave in an instrumented object, and the functions of libstrata that
 * they call. tracepoint.h has the macros; nobody else needs this.
 *
 * Stability: an object compiled with these headers works with any libstrata of the same soname that is not older. A
 * structure here is never changed; STRATA_USER_OBJECT_VERSION says which set of them an object has.
 */
#ifndef STRATA_USER_OBJECT_H
#define STRATA_USER_OBJECT_H

#include <strata/abi/user.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STRATA_USER_OBJECT_VERSION 2u

/*
 * The operand constraint for an address that is known to the assembler, in PIC too, and how operand N is
 * written. gcc -mcmodel=large takes no address for "i" in PIC, and none for %cN.
 */
#ifdef __aarch64__
#define STRATA_USER_SYMBOL	  "S"
#define STRATA_USER_SYMBOL_AT(nr) "%c" #nr
#elif defined(__code_model_large__) && !defined(__clang__)
#define STRATA_USER_SYMBOL	  "X"
#define STRATA_USER_SYMBOL_AT(nr) "%p" #nr
#else
#define STRATA_USER_SYMBOL	  "i"
#define STRATA_USER_SYMBOL_AT(nr) "%c" #nr
#endif

/* Room before a payload for the record's header and thread, and after it for its last word [byte]. */
#define STRATA_USER_HEADROOM 32u
#define STRATA_USER_TAILROOM 8u

/* One label of an enumeration, which stands for the values from..to. */
struct strata_label {
	const char *label;
	int64_t from;
	int64_t to;
	uint32_t automatic; /* 1: from and to are the end of the label before plus 1, or 0 */
};

struct strata_enumeration {
	const char *name;
	const struct strata_label *labels;
	uint32_t nr_labels;
};

/* A field of a tracepoint. The members have the same meaning as in a description (strata/abi/user.h). */
struct strata_field {
	const char *name;
	const struct strata_enumeration *enumeration; /* or NULL */
	uint32_t count;
	uint8_t type;
	uint8_t element;
	uint8_t bytes;
	uint8_t flags;
	uint8_t base; /* display: 2, 8, 10, 16 */
	uint8_t length_bytes;
	uint8_t reserved[2];
};

/* Bits of strata_tracepoint.level, for the two events of STRATA_SPAN(). */
#define STRATA_USER_SPAN_BEGINS 64u
#define STRATA_USER_SPAN_ENDS	128u
#define STRATA_USER_SPAN_ROLE	192u

/* A tracepoint, in static memory of its object. Members marked "libstrata" are filled in by that library. */
struct strata_tracepoint {
	const uint32_t
		*enabled; /* sessions; an object's constant 0 until libstrata has registered it */
	struct strata_abi_user_state *state; /* libstrata; NULL: not registered */
	const char *provider;
	const char *name;
	const char *file;
	const struct strata_field *fields;
	uint32_t line;
	uint16_t nr_fields;
	uint8_t level;			/* and STRATA_USER_SPAN_* */
	uint8_t filtered;		/* libstrata: strata_user_wants() may say no; only a hint */
	struct strata_tracepoint *next; /* libstrata: of the same object */
};

/*
 * One place in the code where a tracepoint is tested, in section "strata_sites". Both offsets are from
 * the member's own address. On x86-64 the code is the five bytes of STRATA_ABI_USER_SITE_*; elsewhere
 * .code is 0 and the code tests *enabled.
 */
struct strata_site {
	int32_t code;
	int32_t tracepoint;
};

/* One executable or shared object; a hidden symbol in it, shared by all its translation units. */
struct strata_object {
	uint32_t version;    /* STRATA_USER_OBJECT_VERSION */
	uint32_t registered; /* by how many translation units; the first one registers */
	const struct strata_site *sites;
	const struct strata_site *sites_end;
	struct strata_tracepoint *tracepoints; /* libstrata */
	struct strata_object *next;	       /* libstrata */
	const void *handle;		       /* libstrata */
};

/* Symbols of libstrata, which stay visible however the program hides its own. */
#pragma GCC visibility push(default)

/* Calls by way of the address that the linker leaves, not of a jump to it, which saves a jump for each record. */
#if defined(__has_attribute) && !defined(STRATA_USER_NO_PLT)
#if __has_attribute(noplt)
#define STRATA_USER_NO_PLT __attribute__((noplt))
#endif
#endif
#ifndef STRATA_USER_NO_PLT
#define STRATA_USER_NO_PLT
#endif

/** strata_object_register() - make the tracepoints of @object known. Context: constructor. */
void strata_object_register(struct strata_object *object);
/**
 * strata_object_unregister() - forget the object's tracepoints, before the object is unmapped. Context: destructor.
 */
void strata_object_unregister(struct strata_object *object);
/**
 * strata_user_look() - note which objects are loaded, for names of addresses; called when objects have come or will
 * go. Context: any; errno stays.
 */
void strata_user_look(void);

/**
 * strata_user_record() - write one event record to each session in which @tracepoint is on.
 * @payload: private memory, with STRATA_USER_HEADROOM bytes in front of it that are overwritten and
 *           STRATA_USER_TAILROOM behind that are read.
 *
 * What cannot be written is counted. errno stays what it is.
 * Context: any thread or signal handler; no lock. System calls only when a session's first record
 *          maps its channel.
 */
STRATA_USER_NO_PLT void strata_user_record(struct strata_tracepoint *tracepoint,
					   unsigned char *payload, uint32_t payload_bytes);

/**
 * strata_user_record_word() - record an event whose payload has 8 bytes and never needs to be in memory.
 * @word: the payload, in memory order.
 *
 * Context: as strata_user_record().
 */
STRATA_USER_NO_PLT void strata_user_record_word(struct strata_tracepoint *tracepoint,
						uint64_t word);

struct strata_user_part;

/**
 * strata_user_wants() - may a session want an event of these values? Asked before they are put together.
 *
 * Returns 0: none does, there is nothing to record. errno stays what it is.
 * Context: as strata_user_record(). NULL in a libstrata without filters.
 */
__attribute__((weak)) int strata_user_wants(struct strata_tracepoint *tracepoint,
					    const struct strata_user_part *parts, uint32_t nr);

/**
 * strata_user_stage() - memory for a payload too large for the stack; as strata_user_record() wants it.
 *
 * Returns NULL when there is none, or no record can be that large; counted as discarded. May change errno.
 */
unsigned char *strata_user_stage(struct strata_tracepoint *tracepoint, uint64_t payload_bytes);
void strata_user_unstage(unsigned char *payload, uint64_t payload_bytes);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* STRATA_USER_OBJECT_H */
