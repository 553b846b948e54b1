/* SPDX-License-Identifier: MIT */
/*
 * filter.h - a session's filter as a program sees it: tests that lead forwards only, to "pass" or "reject".
 *
 * The tracer makes a filter from an expression once, for all tracepoints, which it need not know: fields are named.
 * The program copies the filter out of the shared memory (user.h), checks the copy, and binds it to each tracepoint
 * that it records, whose fields it knows from its own code. A test of something that an event does not have never
 * holds, with or without NEGATED: it leads to .no.
 *
 *   struct strata_abi_filter
 *   struct strata_abi_filter_test [nr_tests]     the first one is asked first
 *   text                                         names and patterns, up to .bytes
 *
 * Bounds: a test leads to a later one, so that at most nr_tests are made; offsets and sizes lie inside of .bytes. Any
 * other filter is refused as a whole, and the session records nothing in that process.
 */
#ifndef STRATA_ABI_FILTER_H
#define STRATA_ABI_FILTER_H

#include <strata/abi/ring.h>

#define STRATA_ABI_FILTER_MAGIC	   0x544c4953u /* "SILT" */
#define STRATA_ABI_FILTER_VERSION  1u
#define STRATA_ABI_FILTER_BYTES	   16384u /* of one filter */
#define STRATA_ABI_FILTER_TEXT_MAX 4096u  /* of one name or pattern */

/* Values of strata_abi_filter_test.yes and .no, besides the number of a later test. */
#define STRATA_ABI_FILTER_PASS	 0xffffu
#define STRATA_ABI_FILTER_REJECT 0xfffeu

/*
 * Values of strata_abi_filter_test.kind
 *
 *   NUMBER  .left is one of .least..greatest (what is signed), .from..to (what is not, or has a mask), or
 *           .low..high (floating-point numbers); none of them where the first is greater than the last
 *   TEXT    .left is like a pattern: '*' any bytes, '?' one character, '\' takes the next byte literally. What has
 *           labels: one of the labels of its value is
 *   HAS     .left is there
 *   PAIR    .left OP .right
 */
#define STRATA_ABI_FILTER_NUMBER 1u
#define STRATA_ABI_FILTER_TEXT	 2u
#define STRATA_ABI_FILTER_HAS	 3u
#define STRATA_ABI_FILTER_PAIR	 4u

/* Values of strata_abi_filter_test.op */
#define STRATA_ABI_FILTER_EQUAL		   0u
#define STRATA_ABI_FILTER_NOT_EQUAL	   1u
#define STRATA_ABI_FILTER_LESS		   2u
#define STRATA_ABI_FILTER_LESS_OR_EQUAL	   3u
#define STRATA_ABI_FILTER_GREATER	   4u
#define STRATA_ABI_FILTER_GREATER_OR_EQUAL 5u

/* Values of strata_abi_filter_test.flags */
#define STRATA_ABI_FILTER_NEGATED 1u

/*
 * Values of strata_abi_filter_term.subject. FIELD is a field of the payload, or, if there is none of this name, what
 * CONTEXT is: "vtid", the thread's id, and others by their names, if the session's records have them; but none that
 * have changed a moment later (addresses, counters, the CPU).
 */
#define STRATA_ABI_FILTER_NAME	   1u /* "provider:name" */
#define STRATA_ABI_FILTER_LOGLEVEL 2u
#define STRATA_ABI_FILTER_CPU	   3u /* on which the filter is asked */
#define STRATA_ABI_FILTER_FIELD	   4u
#define STRATA_ABI_FILTER_PAYLOAD  5u /* a field of the payload only */
#define STRATA_ABI_FILTER_CONTEXT  6u /* not of the payload */

#define STRATA_ABI_FILTER_WHOLE UINT64_MAX /* strata_abi_filter_term.index: no element of it */

/*
 * One side of a test, which has a value.
 *
 * offset  size  field       unit
 *      0     2  subject
 *      2     2  text_bytes  byte   of a field's name; of a pattern, where nothing else is here
 *      4     4  text        byte   from the start of the filter
 *      8     8  index              of an array's or sequence's element
 *     16     8  mask               only these bits, as an unsigned integer; 0: all of it
 */
struct strata_abi_filter_term {
	uint16_t subject;
	uint16_t text_bytes;
	uint32_t text;
	uint64_t index;
	uint64_t mask;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_filter_term) == 24, "filter term size");

/*
 * offset  size  field
 *      0     1  kind
 *      1     1  op
 *      2     2  flags
 *      4     2  yes       where it leads if it holds
 *      6     2  no        and if not
 *      8    24  left
 *     32    24  right     PAIR; TEXT: its pattern
 *     56    48            NUMBER
 */
struct strata_abi_filter_test {
	uint8_t kind;
	uint8_t op;
	uint16_t flags;
	uint16_t yes;
	uint16_t no;
	struct strata_abi_filter_term left;
	struct strata_abi_filter_term right;
	int64_t least;
	int64_t greatest;
	uint64_t from;
	uint64_t to;
	double low;
	double high;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_filter_test) == 104, "filter test size");

/*
 * offset  size  field      unit
 *      0     4  magic
 *      4     4  version
 *      8     4  bytes      byte   of all of it
 *     12     4  nr_tests          at least 1
 */
struct strata_abi_filter {
	uint32_t magic;
	uint32_t version;
	uint32_t bytes;
	uint32_t nr_tests;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_filter) == 16, "filter size");

#define STRATA_ABI_FILTER_TESTS_MAX 157u /* that fit, without any text */

#endif /* STRATA_ABI_FILTER_H */
