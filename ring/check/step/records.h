/* SPDX-License-Identifier: MIT */
/*
 * records.h - what step.c and abort.c have in common: failures, and the records that they write.
 *
 * Each byte of a record's payload is its id, so that a torn one shows.
 */
#ifndef STRATA_RING_CHECK_RECORDS_H
#define STRATA_RING_CHECK_RECORDS_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strata/ring/ring.h>

#define RECORDS	     24			 /* at most, of one run */
#define QUARTER_WRAP (UINT64_C(1) << 25) /* of the 27 bits of time in a compact header */
#define MOST_OF_WRAP (3 * QUARTER_WRAP)	 /* two steps are more than one wrap */

/* The first thing that did not hold. */
static int failed;
static char failure[256];

/* Prints a message and returns -1. */
static int wrong(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (!failed)
		vsnprintf(failure, sizeof(failure), format, arguments);
	va_end(arguments);
	failed = 1;
	return -1;
}

STRATA_RING_HEADER_FIXED(fixed4, 4)
STRATA_RING_HEADER_FIXED(fixed8, 8)

#define NO_HEADER(size)                                        \
	{                                                      \
		0, NULL, NULL, NULL, fixed##size##_parse, 0, 0 \
	}

/*
 * Parses a record as strata_ring_header.parse does, for CTF's compact header and 4 bytes of
 * payload.
 */
static int parse_compact(const unsigned char *src, uint64_t left, struct strata_ring_parsed *out)
{
	const uint64_t mask = (UINT64_C(1) << 27) - 1;
	uint32_t word;

	out->payload_bytes = 4;
	out->padding = 0;
	if (left < 4)
		return -EPROTO;
	memcpy(&word, src, 4);
	out->id = word & 31;
	out->header_bytes = 4;
	if (out->id == STRATA_RING_COMPACT_EXTENDED) {
		if (left < 13)
			return -EPROTO;
		memcpy(&out->id, src + 1, 4);
		memcpy(&out->timestamp, src + 5, 8);
		out->header_bytes = 13;
		return 0;
	}
	out->timestamp += ((word >> 5) - out->timestamp) & mask;
	return 0;
}

/*
 * The record at @offset of a packet. @parsed: in, the time before; out, this record; id and padding
 * tell what it is. Returns its size, or 0 if it is damaged.
 */
static uint64_t record_at(const struct strata_ring_config *config,
			  const struct strata_ring_packet *packet, uint64_t offset,
			  struct strata_ring_parsed *parsed)
{
	uint64_t left = packet->content_bytes - offset, align = config->record_align, bytes, i;
	const unsigned char *p = packet->data + offset;
	int error = config->header.parse ? config->header.parse(p, left, parsed) :
					   parse_compact(p, left, parsed);

	bytes = ((uint64_t)parsed->header_bytes + parsed->payload_bytes + align - 1) & ~(align - 1);
	if (error || bytes > left || !bytes) {
		wrong("record at offset %d cannot be parsed", (int)offset);
		return 0;
	}
	if (parsed->padding)
		return bytes;
	p += parsed->header_bytes;
	if (!config->header.make)
		parsed->id = p[0];
	for (i = 0; i < parsed->payload_bytes; i++)
		if (p[i] != parsed->id) {
			wrong("record %u at offset %d is torn", parsed->id, (int)offset);
			return 0;
		}
	if (!parsed->id || parsed->id >= RECORDS) {
		wrong("no such record: %u", parsed->id);
		return 0;
	}
	return bytes;
}

static inline double seconds(void)
{
	return (double)strata_clock_monotonic_ns() / 1e9;
}

/* Reports on SIGALRM that the code under test hangs. */
static void hang(int sig)
{
	static const char text[] = "  the code under test does not come to an end\n";

	(void)sig;
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

struct options {
	double budget;	  /* about how many runs of each kind */
	const char *only; /* clients whose name contains this */
	unsigned int part, parts;
	int uprobe;
};

/*
 * [--budget N] [--only NAME] [--part I/N], of the clients every N-th one from the I-th on
 * [--uprobe 1], what else is in the process
 */
static inline void options_read(struct options *options, int argc, char **argv)
{
	int i;

	for (i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--budget"))
			options->budget = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--only"))
			options->only = argv[i + 1];
		else if (!strcmp(argv[i], "--uprobe"))
			options->uprobe = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--part") &&
			 (sscanf(argv[i + 1], "%u/%u", &options->part, &options->parts) != 2 ||
			  !options->parts))
			exit(2);
	}
}

/* Leaves about @budget of @all. Odd, because code repeats in even steps. */
static inline uint32_t stride_for(double all, double budget)
{
	return budget > 0 && all > budget ? (uint32_t)(all / budget) | 1 : 1;
}

#endif /* STRATA_RING_CHECK_RECORDS_H */
