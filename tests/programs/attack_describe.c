/* SPDX-License-Identifier: MIT */
/*
 * attack_describe.c - a traced program that wants its tracer's memory: it describes more than there is.
 *
 *   attack_describe WAY MILLISECONDS FILE
 *
 * WAY: "anew": one description of 3.5 MB after the other, each owned by another tracepoint, the one before by
 * none; "change": rewrites what it has described; "same": many tracepoints that own the same bytes; "ids": one
 * id after the other for one tracepoint of 3.5 MB; "crowd": 80 children, each with a description of 3.5 MB. Appends
 * "WAY PID ROUNDS" to FILE at the end.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <strata/tracepoint.h>

#include "announce.h"

enum {
	NR_FIELDS = 48,
	NR_CHILDREN = 80,
	ROUND_MS = 130
};

static struct strata_abi_user_control *control;
static struct strata_abi_user_state *states;
static unsigned char *descriptions;

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void pause_ms(unsigned ms)
{
	const struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&t, NULL);
}

static int find_memory(void)
{
	unsigned char *memory = mmap(NULL, STRATA_ABI_USER_CHANNELS_OFFSET, PROT_READ | PROT_WRITE,
				     MAP_SHARED, announce_own_memory(), 0);

	if (memory == MAP_FAILED)
		return -1;
	control = (void *)memory;
	states = (void *)(memory + STRATA_ABI_USER_STATES_OFFSET);
	descriptions = memory + STRATA_ABI_USER_DESCRIPTIONS_OFFSET;
	return 0;
}

static unsigned char *put(unsigned char *at, const void *bytes, size_t n)
{
	memcpy(at, bytes, n);
	return at + n;
}

static unsigned char *put_text(unsigned char *at, const char *text)
{
	const uint16_t n = (uint16_t)strlen(text);

	return put(put(at, &n, 2), text, n);
}

/* A tracepoint big:NAME whose labels fill all bytes from @begin on. Returns its size. */
static uint32_t describe(uint32_t begin, const char *name)
{
	const uint32_t room = STRATA_ABI_USER_DESCRIPTIONS_BYTES - begin - 4096;
	const uint16_t nr_fields = NR_FIELDS, nr_labels = (uint16_t)(room / NR_FIELDS / 18);
	const unsigned char level[2] = { 4, 0 };
	const uint32_t line = 1, count = 0;
	unsigned char *at = descriptions + begin;
	char text[16];
	int64_t value;
	int i;

	at = put(at, level, 2);
	at = put(at, &nr_fields, 2);
	at = put(at, &line, 4);
	at = put_text(at, "big");
	at = put_text(at, name);
	at = put_text(at, "big.c");
	for (i = 0; i < NR_FIELDS; i++) {
		const unsigned char fixed[6] = { STRATA_ABI_USER_INTEGER, 0, 4, 0, 10, 0 };

		at = put(at, fixed, 6);
		at = put(at, &nr_labels, 2);
		at = put(at, &count, 4);
		snprintf(text, sizeof(text), "f%d", i);
		at = put_text(at, text);
		at = put_text(at, "");
		for (value = 0; value < nr_labels; value++)
			at = put_text(put(put(at, &value, 8), &value, 8), "");
	}
	return (uint32_t)(at - descriptions) - begin;
}

/* State @i owns these bytes, and is there. */
static void own(uint32_t i, uint32_t begin, uint32_t bytes)
{
	memset(&states[i], 0, sizeof(states[i]));
	memset(states[i].ids, 0xff, sizeof(states[i].ids));
	states[i].description = begin;
	states[i].description_bytes = bytes;
	states[i].flags = STRATA_ABI_USER_STATE_PRESENT | STRATA_ABI_USER_STATE_FLAG;
	if (control->nr_states <= i)
		__atomic_store_n(&control->nr_states, i + 1, __ATOMIC_RELEASE);
}

static void record(unsigned n)
{
	STRATA_TRACE(attack, round, INFO, strata_int(number, n));
}

/* The first time, and then each. */
static void attack(const char *way, uint32_t first, uint32_t round)
{
	const uint32_t begin = way[0] == 'a' ? 0 : states[0].description_bytes + 64;
	static uint32_t bytes;

	if (!round) {
		bytes = describe(begin, "one");
		control->descriptions_bytes = STRATA_ABI_USER_DESCRIPTIONS_BYTES;
	}
	if (!strcmp(way, "anew")) {
		states[first + round - 1].description_bytes = 0;
		own(first + round, begin, bytes);
	} else if (!strcmp(way, "change")) {
		if (!round)
			own(first, begin, bytes);
		else
			descriptions[begin + 8 + 2 + 3 + 2] = (unsigned char)('a' + round % 26);
	} else if (!strcmp(way, "same")) {
		bytes = round ? bytes : (uint32_t)describe(begin, "one") / 4096;
		own(first + round, 0, states[0].description_bytes);
	} else if (!strcmp(way, "ids")) {
		if (!round)
			own(first, begin, bytes);
		states[first].ids[0] = (uint16_t)(1000 + round);
	} else if (!round) {
		own(first, begin, bytes);
	}
	__atomic_fetch_add(&control->generation, 1, __ATOMIC_RELEASE);
}

/* Children with what their parent has described, in memory of their own; they live as long as it does. */
static void crowd(void)
{
	int i;

	for (i = 0; i < NR_CHILDREN; i++)
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;) {
				record(1);
				pause_ms(100);
			}
		}
}

int main(int argc, char **argv)
{
	const char *way = argc == 4 ? argv[1] : "";
	uint64_t end = now_ms() + strtoull(argc == 4 ? argv[2] : "0", NULL, 10);
	uint32_t round, first;
	FILE *file;

	if (!*way)
		return 99;
	record(0);
	if (find_memory())
		return 98;
	/* It shall be recorded, and known as it was. */
	pause_ms(600);
	first = control->nr_states;
	for (round = 0; now_ms() < end && first + round < STRATA_ABI_USER_NR_STATES; round++) {
		attack(way, first, round);
		record(round);
		if (!round && !strcmp(way, "crowd"))
			crowd();
		pause_ms(ROUND_MS);
	}
	file = fopen(argv[3], "a");
	if (!file)
		return 97;
	fprintf(file, "%s %d %u\n", way, (int)getpid(), round);
	return fclose(file) ? 96 : 0;
}
