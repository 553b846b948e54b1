/* SPDX-License-Identifier: MIT */
/*
 * report.c - failures, and the trace of a failed execution.
 *
 * Nothing is recorded while searching: a failed execution is replayed with mc.tracing set, and then
 * each operation prints itself.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

enum {
	TRACE_DATA_BYTES = 32 /* plain data shown of one access */
};

static void note_failure(const char *format, va_list args)
{
	vsnprintf(mc.message, sizeof(mc.message), format, args);
	mc.failed = true;
}

/*
 * Records a failure on the scheduler's own stack; code that runs in a context uses engine_fail().
 */
void engine_note_failure(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	note_failure(format, args);
	va_end(args);
}

void engine_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	note_failure(format, args);
	va_end(args);
	coroutine_yield();
	abort(); /* a failed context is never resumed */
}

const char *context_name(unsigned context)
{
	static const char *const names[] = { "T0", "T1", "T2", "T3", "T4" };

	_Static_assert(sizeof(names) / sizeof(names[0]) == MC_MAX_THREADS,
		       "a name for each thread");
	if (!context)
		return mc.threads_started ? "final" : "setup";
	return names[context - 1];
}

const char *order_name(int order)
{
	switch (order) {
	case __ATOMIC_RELAXED:
		return "relaxed";
	case __ATOMIC_CONSUME:
		return "consume";
	case __ATOMIC_ACQUIRE:
		return "acquire";
	case __ATOMIC_RELEASE:
		return "release";
	case __ATOMIC_ACQ_REL:
		return "acq_rel";
	case __ATOMIC_SEQ_CST:
		return "seq_cst";
	}
	return "unknown order";
}

/* Prints the thread and its nesting; setup is left out. Returns false if the line is not wanted. */
static bool trace_prefix(void)
{
	if (!mc.tracing || !mc.threads_started)
		return false;
	fprintf(stderr, "  %-5s  ", context_name(mc.self));
	for (unsigned i = 0; i < current_thread()->depth; i++)
		fputs("|  ", stderr);
	return true;
}

void trace(const char *format, ...)
{
	va_list args;

	if (!trace_prefix())
		return;
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

void trace_bytes(const char *what, const char *region, size_t offset, const void *bytes, size_t n)
{
	const unsigned char *b = bytes;

	if (!trace_prefix())
		return;
	fprintf(stderr, "%s '%s' + %zu, %zu bytes:", what, region, offset, n);
	for (size_t i = 0; i < n && i < TRACE_DATA_BYTES; i++)
		fprintf(stderr, "%s%02x", i % 4 ? "" : " ", b[i]);
	fputs(n > TRACE_DATA_BYTES ? " ...\n" : "\n", stderr);
}

void trace_begin(const struct mc_result *result)
{
	fprintf(stderr, "%s: failed after %" PRIu64 " executions: %s\n", mc.config->name,
		result->executions + result->pruned, result->message);
}

void trace_end(const struct mc_result *result, bool same)
{
	if (same)
		fprintf(stderr, "  %-5s  ^ %s\n", context_name(mc.self), result->message);
	else
		fprintf(stderr,
			"  the replay ended differently (%s): setup does not reset all state\n",
			mc.failed ? mc.message : "no failure");
}

void mc_print_result(const struct mc_config *config, const struct mc_result *result)
{
	uint64_t runs = result->executions + result->pruned;

	printf("%s %s: %" PRIu64 " executions", result->passed ? "ok  " : "FAIL", config->name,
	       result->executions);
	if (result->pruned)
		printf(" + %" PRIu64 " pruned", result->pruned);
	if (config->graphs)
		printf(", %" PRIu64 " graphs", result->graphs);
	printf(", %.2f s (%.0f/s)", result->seconds,
	       (double)runs / (result->seconds > 0 ? result->seconds : 1e-9));
	if (result->limit_hit)
		printf(", INCOMPLETE: stopped at the limit of %" PRIu64, config->max_executions);
	if (!result->passed)
		printf(": %s", result->message);
	putchar('\n');
}
