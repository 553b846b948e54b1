/* SPDX-License-Identifier: MIT */
/*
 * litmus.h - small programs with a known answer: what their files share.
 *
 * A test names an outcome (r[] at the end) and whether some execution has it, or a failure
 * that must be found.
 */
#ifndef STRATA_CHECK_LITMUS_H
#define STRATA_CHECK_LITMUS_H

#include <string.h>

#include "engine.h"

enum {
	RLX = __ATOMIC_RELAXED,
	ACQ = __ATOMIC_ACQUIRE,
	REL = __ATOMIC_RELEASE,
	AR = __ATOMIC_ACQ_REL,
	SC = __ATOMIC_SEQ_CST,
	ANY = -1, /* in an outcome: this register does not matter; in r[]: not set */
};

enum verdict {
	ALLOWED,   /* the outcome occurs, nothing fails */
	FORBIDDEN, /* it does not, nothing fails */
	FAILS,	   /* the run fails with this message */
};

struct litmus {
	const char *name;
	enum verdict expected;
	int outcome[7];	     /* the first 4 count; see R() */
	const char *message; /* part of it */
	void (*run[4])(void);
	int order[3];	       /* read by the programs */
	void (*handler)(void); /* of the first thread */
	unsigned handlers, depth, aborts, migrations;
	uint32_t cpu[4];
	void (*setup)(void); /* after the common one */
	void (*final)(void); /* before the outcome is compared */
	bool ipi;	     /* mc_config.ipi */
};

/* Outcome of up to 4 registers; those not given are ANY. */
#define R(...)                             \
	{                                  \
		__VA_ARGS__, ANY, ANY, ANY \
	}
#define ALLOWS(test_name, result, ...)                                                 \
	{                                                                              \
		.name = test_name, .expected = ALLOWED, .outcome = result, __VA_ARGS__ \
	}
#define FORBIDS(test_name, result, ...)                                                  \
	{                                                                                \
		.name = test_name, .expected = FORBIDDEN, .outcome = result, __VA_ARGS__ \
	}
#define FAILS_WITH(test_name, text, ...)                                           \
	{                                                                          \
		.name = test_name, .expected = FAILS, .message = text, __VA_ARGS__ \
	}

/* Each ends with a test without a name. */
extern const struct litmus memory_tests[], plain_tests[], rseq_tests[], limit_tests[],
	local_tests[];

/* State of the running test; reset before each execution. All objects are 0, as is the data. */
extern const struct litmus *test;
extern uint64_t x, y, cpu_position[2];
extern int r[4];
extern uint32_t data[4]; /* the one region */

static inline int load(uint64_t object, int order)
{
	return (int)mc_load(object, order);
}

static inline void write_data(int i, uint32_t value)
{
	mc_plain_write(&data[i], &value, sizeof(value));
}

static inline int read_data(int i)
{
	uint32_t value;

	mc_plain_read(&value, &data[i], sizeof(value));
	return (int)value;
}

/* Programs that several files use. */
void mp_reader(void);	       /* r[0] = y, r[1] = x */
void iriw_left(void);	       /* r[0] = x, r[1] = y */
void write_data_only(void);    /* data[0] */
void copy_then_validate(void); /* r[0] = data[1] was torn, r[1] = x, r[2] = copy */

#endif
