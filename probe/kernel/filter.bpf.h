/* SPDX-License-Identifier: MIT */
/*
 * filter.bpf.h - decide whether an event is recorded, by the tests of abi/include/strata/abi/kernel.h.
 *
 * No interpreter is left when a program runs. The tests are constants of .rodata, frozen before the
 * program is loaded: on every path the verifier knows which test comes next and what it asks for, and
 * removes all branches for the rest. Nothing is looked up that no test asks for.
 *
 * Kernel 5.15 is enough. What that asks for: a local that is to stay known is 64 bits wide (a spill of
 * 4 bytes forgets its value before 5.16), and the context is read by the helper, not through a pointer
 * moved away from its beginning.
 */
#ifndef STRATA_PROBE_KERNEL_FILTER_BPF_H
#define STRATA_PROBE_KERNEL_FILTER_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>
#include <stdint.h>
#include <strata/abi/kernel.h>

#include "core.bpf.h"
#include "filter_values.bpf.h"

/*
 * The tests are volatile: otherwise clang takes the initializer's zeroes for the values that the program will have.
 */
typedef const volatile struct strata_abi_kernel_test strata_filter_test;

#define STRATA_FILTER_INLINE static inline __attribute__((always_inline))

/*
 * Hides the origin of a value from clang, which otherwise copies the following code for each place that the value may
 * come from.
 */
#define STRATA_FILTER_OPAQUE(value) __asm__ volatile("" : "+r"(value))

STRATA_FILTER_INLINE uint64_t strata_filter_field(strata_filter_test *test,
						  const struct strata_source *source,
						  uint64_t *memory)
{
	uint64_t offset = test->offset, bytes = test->bytes, value, unused_bits;
	const unsigned char *at = (const unsigned char *)source->base + offset;

	/* The stack is read in aligned words only, whatever the processor can do. */
	if (source->kind != STRATA_SOURCE_DIRECT || offset & (bytes - 1)) {
		*memory = 0;
		bpf_probe_read_kernel(memory, (uint32_t)bytes, at);
		value = *memory;
	} else if (bytes == 8) {
		value = *(const volatile uint64_t *)(const void *)at;
	} else if (bytes == 4) {
		value = *(const volatile uint32_t *)(const void *)at;
	} else if (bytes == 2) {
		value = *(const volatile uint16_t *)(const void *)at;
	} else {
		value = *(const volatile uint8_t *)at;
	}
	if (test->is_signed) {
		unused_bits = 64 - bytes * 8;
		value = (uint64_t)((int64_t)(value << unused_bits) >> unused_bits);
	}
	return value;
}

STRATA_FILTER_INLINE void strata_filter_chars(strata_filter_test *test,
					      const struct strata_source *source, uint64_t text[2])
{
	uint64_t offset = test->offset;
	const unsigned char *at = (const unsigned char *)source->base + offset;
	const volatile uint32_t *halves = (const void *)at;

	if (source->kind != STRATA_SOURCE_DIRECT || offset & 3) {
		bpf_probe_read_kernel(text, 16, at);
		return;
	}
	/*
	 * A load of 8 bytes would need an alignment that the stack lacks if the structure has no member of 8 bytes.
	 */
	text[0] = halves[0] | (uint64_t)halves[1] << 32;
	text[1] = halves[2] | (uint64_t)halves[3] << 32;
}

STRATA_FILTER_INLINE bool strata_filter_compare(strata_filter_test *test, uint64_t operand)
{
	uint64_t comparison = test->comparison, value;

	operand &= test->mask;
	value = test->value;
	if (comparison == STRATA_ABI_KERNEL_EQUAL)
		return operand == value;
	if (comparison == STRATA_ABI_KERNEL_LESS)
		return operand < value;
	if (comparison == STRATA_ABI_KERNEL_LESS_OR_EQUAL)
		return operand <= value;
	if (comparison == STRATA_ABI_KERNEL_LESS_SIGNED)
		return (int64_t)operand < (int64_t)value;
	return (int64_t)operand <= (int64_t)value;
}

/* The value that is compared as a number. */
STRATA_FILTER_INLINE uint64_t strata_filter_number(strata_filter_test *test,
						   const struct strata_source *source,
						   uint64_t *memory)
{
	uint64_t operand = test->operand;

	if (operand == STRATA_ABI_KERNEL_FIELD)
		return strata_filter_field(test, source, memory);
	if (operand == STRATA_ABI_KERNEL_CPU)
		return source->cpu;
	if (operand == STRATA_ABI_KERNEL_CGROUP)
		return bpf_get_current_cgroup_id();
	if (operand == STRATA_ABI_KERNEL_TID)
		return (uint32_t)source->pid_tgid;
	return source->pid_tgid >> 32;
}

STRATA_FILTER_INLINE bool strata_filter_text(strata_filter_test *test,
					     const struct strata_source *source, uint64_t text[2])
{
	if (test->operand == STRATA_ABI_KERNEL_COMM)
		bpf_get_current_comm(text, 16);
	else
		strata_filter_chars(test, source, text);
	if ((text[0] & test->mask) != test->value)
		return false;
	return (text[1] & test->mask_high) == test->value_high;
}

STRATA_FILTER_INLINE bool strata_filter_test_is(strata_filter_test *test,
						const struct strata_source *source,
						uint64_t memory[2])
{
	uint64_t number;

	if (test->operand >= STRATA_ABI_KERNEL_COMM)
		return strata_filter_text(test, source, memory);
	number = strata_filter_number(test, source, memory);
	STRATA_FILTER_OPAQUE(number);
	return strata_filter_compare(test, number);
}

/**
 * strata_filter() - return whether an event is to be recorded.
 * @filter: in frozen .rodata, each test leading to later ones only; volatile as
 *          strata_filter_test is.
 * @source: where its fields are; kind is a constant when clang compiles.
 *
 * Returns true if @filter has no tests but those that strata_filter_early() makes.
 * Context: any BPF program that may call bpf_probe_read_kernel(). For each test 40 to 65 instructions
 *          are verified, and 30 to 50 are left.
 * Checked: crates/strata-kernel/src/decide/filter/tests/bpf.rs
 */
STRATA_FILTER_INLINE bool strata_filter(const volatile struct strata_abi_kernel_filter *filter,
					const struct strata_source *source)
{
	strata_filter_test *test;
	/* All tests share one variable, since the stack has 512 bytes. */
	uint64_t memory[2] = { 0, 0 }, next = filter->nr_early, i;

	if (filter->nr_tests == next)
		return true;
#pragma clang loop unroll(full)
	for (i = 0; i < STRATA_ABI_KERNEL_TESTS_MAX; i++) {
		if (next != i)
			continue;
		test = &filter->test[i];
		STRATA_FILTER_OPAQUE(test);
		next = strata_filter_test_is(test, source, memory) ? test->yes : test->no;
		if (next >= STRATA_ABI_KERNEL_PASS)
			break;
	}
	return next == STRATA_ABI_KERNEL_PASS;
}

/* An argument of the system call at hand, which early tests may ask for; NULL: there is none. */
typedef uint64_t strata_filter_argument(const unsigned long long *context, uint64_t index);

STRATA_FILTER_INLINE uint64_t strata_filter_extend(strata_filter_test *test, uint64_t value)
{
	uint64_t bytes = test->bytes, unused_bits;

	if (bytes == 8)
		return value;
	unused_bits = 64 - bytes * 8;
	value <<= unused_bits;
	if (test->is_signed)
		return (uint64_t)((int64_t)value >> unused_bits);
	return value >> unused_bits;
}

STRATA_FILTER_INLINE uint64_t strata_filter_early_number(strata_filter_test *test,
							 strata_filter_argument *argument,
							 const unsigned long long *context)
{
	uint64_t operand = test->operand;

	if (operand == STRATA_ABI_KERNEL_PID)
		return (uint32_t)strata_current()->tgid;
	if (operand == STRATA_ABI_KERNEL_TID)
		return (uint32_t)strata_current()->pid;
	if (operand == STRATA_ABI_KERNEL_CPU)
		return bpf_get_smp_processor_id();
	if (operand == STRATA_ABI_KERNEL_CGROUP)
		return bpf_get_current_cgroup_id();
	if (!argument)
		return 0;
	return strata_filter_extend(test, argument(context, test->offset / 8));
}

STRATA_FILTER_INLINE bool strata_filter_early_comm(strata_filter_test *test)
{
	const uint64_t *comm = (const uint64_t *)(const void *)strata_current()->comm;

	/* Computes the test's address again, which costs less than a register that is kept, here and below. */
	STRATA_FILTER_OPAQUE(test);
	if ((comm[0] & test->mask) != test->value)
		return false;
	return !test->mask_high || (comm[1] & test->mask_high) == test->value_high;
}

/* Makes test @i if it is the @next one. Returns the number of the next test. */
STRATA_FILTER_INLINE uint64_t strata_filter_early_step(
	const volatile struct strata_abi_kernel_filter *filter, strata_filter_argument *argument,
	const unsigned long long *context, uint64_t i, uint64_t next)
{
	strata_filter_test *asked = &filter->test[i], *test = asked;
	uint64_t number;
	bool is;

	if (next != i)
		return next;
	if (asked->operand == STRATA_ABI_KERNEL_COMM) {
		is = strata_filter_early_comm(test);
	} else {
		number = strata_filter_early_number(asked, argument, context);
		STRATA_FILTER_OPAQUE(number);
		STRATA_FILTER_OPAQUE(test);
		is = strata_filter_compare(test, number);
	}
	test = asked;
	STRATA_FILTER_OPAQUE(test);
	return is ? test->yes : test->no;
}

/**
 * strata_filter_early() - decide as far as possible whether an event is recorded, before its fields
 * are copied.
 * @filter:   as of strata_filter(), which makes the other tests.
 * @argument: what FIELD is; a constant when clang compiles.
 *
 * Most of what filters are for is rejected here, by a few loads: nothing is copied or on the stack, one register is
 * saved, and the only call is the one for the task. Each test is a step of its own: clang does not unroll a loop
 * whose end depends on what is loaded.
 *
 * Returns false if the event is rejected.
 * Context: as strata_filter().
 * Checked: crates/strata-kernel/src/decide/filter/tests/bpf.rs
 */
STRATA_FILTER_INLINE bool
strata_filter_early(const volatile struct strata_abi_kernel_filter *filter,
		    strata_filter_argument *argument, const unsigned long long *context)
{
	uint64_t next;

	if (!filter->nr_early)
		return true;
	next = strata_filter_early_step(filter, argument, context, 0, 0);
	if (next >= STRATA_ABI_KERNEL_PASS)
		return next == STRATA_ABI_KERNEL_PASS;
	next = strata_filter_early_step(filter, argument, context, 1, next);
	if (next >= STRATA_ABI_KERNEL_PASS)
		return next == STRATA_ABI_KERNEL_PASS;
	next = strata_filter_early_step(filter, argument, context, 2, next);
	if (next >= STRATA_ABI_KERNEL_PASS)
		return next == STRATA_ABI_KERNEL_PASS;
	next = strata_filter_early_step(filter, argument, context, 3, next);
	return next == STRATA_ABI_KERNEL_PASS;
}
STRATA_ABI_ASSERT(STRATA_ABI_KERNEL_EARLY_MAX == 4, "a step for each");

#endif /* STRATA_PROBE_KERNEL_FILTER_BPF_H */
