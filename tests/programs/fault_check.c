/* SPDX-License-Identifier: MIT */
/*
 * fault_check.c - checks a trace of fault_count processes.
 *
 *   babeltrace2 TRACE | fault_check [-o OVERWRITTEN] [-h | -l | -s | -r] FILE...
 *
 * Each FILE is that of one process. Every line that is a fault:step event must be whole (its checksum is
 * that of its other fields), of one of the processes, and there once. All records that were complete must
 * be there, and at most one more of each thread.
 *
 *   -o  so many in all are not there, because they were overwritten
 *   -h  what processes with several threads committed behind a hole may not be there
 *   -l  any may not be there
 *   -s  recording began while they ran: a thread's records may begin later than with 0
 *   -r  and stopped while they ran: they may also end sooner
 *
 * Prints how many records there were, and with -h, behind that, how many were not. Exit: 0 all right, 1 not.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "fault_count.h"

#define BAD_SHOWN 20u

struct seen {
	uint64_t records, first, last;
	uint8_t *bits;
	uint64_t bits_bytes;
};

struct process {
	struct fault_counts counts;
	const char *path;
	struct seen thread[FAULT_THREADS_MAX];
};

static struct process *processes;
static int nr_processes;
static unsigned bad;

static void __attribute__((format(printf, 1, 2))) complain(const char *format, ...)
{
	va_list list;

	if (bad++ >= BAD_SHOWN)
		return;
	va_start(list, format);
	fputs("fault_check: ", stderr);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
}

static struct process *process_of(uint64_t pid)
{
	static struct process *last;
	int i;

	if (last && last->counts.pid == pid)
		return last;
	for (i = 0; i < nr_processes; i++)
		if (processes[i].counts.pid == pid)
			return last = &processes[i];
	return NULL;
}

/* Returns 0 if record @k was there before. */
static int mark(struct seen *seen, uint64_t k)
{
	uint64_t bytes = seen->bits_bytes;

	if (k / 8 >= bytes) {
		bytes = (k / 8 + 1) * 2;
		seen->bits = realloc(seen->bits, bytes);
		if (!seen->bits)
			abort();
		memset(seen->bits + seen->bits_bytes, 0, bytes - seen->bits_bytes);
		seen->bits_bytes = bytes;
	}
	if (seen->bits[k / 8] >> k % 8 & 1)
		return 0;
	seen->bits[k / 8] = (uint8_t)(seen->bits[k / 8] | 1u << k % 8);
	if (!seen->records || k < seen->first)
		seen->first = k;
	if (!seen->records || k > seen->last)
		seen->last = k;
	seen->records++;
	return 1;
}

static void event(const char *line, const char *fields)
{
	uint64_t pid, thread, number, check;
	char text[FAULT_TEXT_MAX + 8], expected[FAULT_TEXT_MAX + 1];
	struct process *process;

	if (sscanf(fields,
		   " pid = %" SCNu64 ", thread = %" SCNu64 ", number = %" SCNu64
		   ", text = \"%66[a-z]\", check = %" SCNx64,
		   &pid, &thread, &number, text, &check) != 5) {
		complain("not as it was recorded: %s", line);
		return;
	}
	process = process_of(pid);
	if (!process || thread >= process->counts.threads || number > UINT64_C(1) << 36) {
		complain("of nobody: %s", line);
		return;
	}
	fault_text(expected, number);
	if (strcmp(expected, text) ||
	    check != fault_check((uint32_t)pid, (uint32_t)thread, number, text))
		complain("torn: %s", line);
	else if (!mark(&process->thread[thread], number))
		complain("twice: %s", line);
}

static uint64_t missing_of(const struct process *process, uint32_t thread, int late, int soon)
{
	const struct seen *seen = &process->thread[thread];
	uint64_t completed = process->counts.thread[thread].completed, missing;
	uint64_t first = late ? seen->first : 0,
		 end = soon && seen->records ? seen->last + 1 : completed;

	if (!seen->records)
		return completed;
	if (seen->last > completed)
		complain("process %" PRIu64 " thread %u: record %" PRIu64 " is there, %" PRIu64
			 " were complete",
			 process->counts.pid, thread, seen->last, completed);
	if (seen->last >= end)
		end = seen->last + 1;
	missing = end - first - seen->records;
	return missing;
}

int main(int argc, char **argv)
{
	uint64_t records = 0, missing = 0, overwritten = 0, one;
	int late = 0, soon = 0, holes = 0, loose = 0, option, i;
	char *line = NULL, *fields;
	size_t size = 0;
	uint32_t t;

	while ((option = getopt(argc, argv, "o:hlsr")) != -1)
		switch (option) {
		case 'o':
			overwritten = strtoull(optarg, NULL, 10);
			break;
		case 'h':
			holes = 1;
			break;
		case 'l':
			loose = 1;
			break;
		case 'r':
			soon = 1;
			__attribute__((fallthrough));
		case 's':
			late = 1;
			break;
		default:
			return 99;
		}
	nr_processes = argc - optind;
	processes = calloc((size_t)nr_processes, sizeof(*processes));
	for (i = 0; i < nr_processes; i++) {
		struct fault_counts *counts = fault_counts(argv[optind + i]);

		if (!counts)
			return 99;
		processes[i].counts = *counts;
		processes[i].path = argv[optind + i];
		munmap(counts, sizeof(*counts));
	}
	while (getline(&line, &size, stdin) > 0) {
		fields = strstr(line, " fault:step: { cpu_id = ");
		fields = fields ? strstr(fields, " }, { vtid = ") : NULL;
		fields = fields ? strstr(fields + 5, " }, {") : NULL;
		if (fields)
			event(line, fields + 5);
		else
			complain("not an event of ours: %s", line);
	}
	for (i = 0; i < nr_processes; i++)
		for (t = 0; t < processes[i].counts.threads && t < FAULT_THREADS_MAX; t++) {
			one = missing_of(&processes[i], t, late, soon);
			if (loose)
				one = 0;
			if (one && !overwritten && !(holes && processes[i].counts.threads > 1))
				complain("%s: process %" PRIu64 " thread %u: %" PRIu64
					 " not there of %" PRIu64 " (%" PRIu64 "..%" PRIu64 ")",
					 processes[i].path, processes[i].counts.pid, t, one,
					 processes[i].counts.thread[t].completed,
					 processes[i].thread[t].first, processes[i].thread[t].last);
			missing += one;
			records += processes[i].thread[t].records;
		}
	if (overwritten && missing != overwritten)
		complain("%" PRIu64 " are not there, %" PRIu64 " were overwritten", missing,
			 overwritten);
	if (!records)
		complain("no record at all");
	if (holes)
		printf("%" PRIu64 " %" PRIu64 "\n", records, missing);
	else
		printf("%" PRIu64 "\n", records);
	return bad != 0;
}
