/* SPDX-License-Identifier: MIT */
/* memory.c - payloads of every size, memory that changes while it is read, formatted text. C and C++. */
#include "capture.h"
#include "shared.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char line[70000], text[66000];

static void payloads_of_all_sizes_are_staged_above_the_stacks_size(void)
{
	capture_switch("app", "sized", 1);
	memset(text, 'x', sizeof(text));
	for (uint32_t length = 0; length < 66000; length += length < 1100 ? 1 : 9999) {
		const uint64_t staged = capture_staged;

		text[length] = 0;
		errno = ENOENT;
		STRATA_TRACE(app, sized, INFO, strata_int(before, (uint8_t)7),
			     strata_string(s, text), strata_int(after, (uint16_t)8));
		snprintf(line, sizeof(line), "app:sized[6] before=7 s=\"%s\" after=8\n", text);
		expect(line);
		check(errno == ENOENT);
		check(capture_staged - staged == (1u + length + 1 + 2 > STRATA_USER_STACK_BYTES));
		text[length] = 'x';
	}
	check(capture_staged && capture_staged == capture_unstaged && !capture_refused);
	text[0] = 0;
}

static void sequences_and_strings_of_all_sizes_around_what_the_site_stores_are_whole(void)
{
	const uint64_t staged = capture_staged;
	const uint16_t four[] = { 1, 2, 3, 4 };

	capture_switch("app", "mixed", 1);
	memset(text, 'x', sizeof(text));
	for (uint32_t length = 0; length < STRATA_USER_INLINE_BYTES + 40; length++) {
		const uint32_t some = length % 5;
		const int digits = some ? (int)(2 * some - 1) : 0;

		text[length] = 0;
		STRATA_TRACE(app, mixed, INFO, strata_int(before, (uint8_t)7),
			     strata_text_sequence(t, text, length), strata_array(a, four, 4),
			     strata_string(s, "end"), strata_sequence(q, four, some),
			     strata_string(n, (const char *)STRATA_USER_NULL),
			     strata_int(after, (uint16_t)8));
		STRATA_TRACE(app, mixed, INFO, strata_sequence(q, four, some),
			     strata_string(s, text), strata_int(after, (uint64_t)8),
			     strata_string(last, "last"));
		snprintf(line, sizeof(line),
			 "app:mixed[6] before=7 t='%.*s' a=[1,2,3,4] s=\"end\" q=[%.*s] "
			 "n=\"(null)\" after=8\n"
			 "app:mixed[6] q=[%.*s] s=\"%.*s\" after=8 last=\"last\"\n",
			 (int)length, text, digits, "1,2,3,4", digits, "1,2,3,4", (int)length,
			 text);
		expect(line);
		text[length] = 'x';
	}
	check(capture_staged == staged);
	text[0] = 0;
}

static void arrays_larger_than_the_stack_are_staged(void)
{
	static const uint8_t big[3000] = { 1 };
	const uint64_t staged = capture_staged;

	capture_switch("app", "big", 1);
	STRATA_TRACE(app, big, INFO, strata_array(big, big, 3000), strata_text(t, "short", 5));
	check(capture_staged == staged + 1);
	STRATA_TRACE(app, big, INFO, strata_array(big, big, STRATA_USER_INLINE_BYTES));
	STRATA_TRACE(app, big, INFO, strata_array(big, big, STRATA_USER_INLINE_BYTES + 1));
	check(capture_staged == staged + 1);
	line[0] = 0;
	for (int i = 0; i < 3; i++) {
		const int count[] = { 3000, STRATA_USER_INLINE_BYTES,
				      STRATA_USER_INLINE_BYTES + 1 };

		strcat(line, "app:big[6] big=[1");
		for (int j = 1; j < count[i]; j++)
			strcat(line, ",0");
		strcat(line, i ? "]\n" : "] t='short'\n");
	}
	expect(line);
}

static void sequence_of_impossible_length_is_left_to_libstrata_to_count(void)
{
	const uint64_t words[1] = { 1 };
	const uint64_t records = capture_records, refused = capture_refused;
	const uint64_t wraps = UINT64_MAX / 8 + 2; /* 8 bytes, in 64 bits */
	volatile int negative = -1;

	capture_switch("app", "huge", 1);
	for (int i = 0; i < 2; i++)
		STRATA_TRACE(app, huge, INFO,
			     strata_sequence(q, words, i ? wraps : (uint64_t)negative));
	STRATA_TRACE(app, huge, INFO, strata_sequence(q, words, negative));
	STRATA_TRACE(app, huge, INFO, strata_int(n, 1),
		     strata_sequence(q, words, UINT64_C(1) << 30));
	STRATA_TRACE(app, huge, INFO, strata_string(s, "s"), strata_sequence(q, words, wraps));
	STRATA_TRACE(app, huge, INFO, strata_blob(a, words, UINT32_MAX),
		     strata_blob(b, words, UINT32_MAX));
	check(capture_records == records && capture_refused == refused + 6);
	expect("");
}

/* Tests a text that became shorter after its length was taken. */
static void letters_of_every_length_have_no_nul_in_the_copy(void)
{
	unsigned char from[200], to[200];

	for (uint64_t length = 1; length < sizeof(from); length++) {
		for (uint64_t nul = 0; nul < length; nul++) {
			memset(from, 'a', sizeof(from));
			memset(to, 'z', sizeof(to));
			from[nul] = 0;
			strata_user_copy_letters(to, from, length);
			from[nul] = STRATA_USER_INNER_NUL;
			check(memcmp(from, to, length) == 0 && to[length] == 'z');
		}
	}
}

static volatile int stop;
static char changing[64], longer[400]; /* copied by words, and by the library */

/* Puts a NUL somewhere into each text, for a moment. */
static void *change(void *unused)
{
	for (uint32_t i = 1; !stop; i = i * 1664525u + 1013904223u) {
		volatile char *here = &changing[(i >> 8) % (sizeof(changing) - 1)];
		volatile char *there = &longer[(i >> 8) % (sizeof(longer) - 1)];

		*here = 0;
		*there = 0;
		*here = 'a';
		*there = 'a';
	}
	return unused;
}

/*
 * The stand-in reads every record to its last byte: a second NUL would end the program. On one CPU the
 * text may never change in the middle; so there is a time limit, and no failure if it did not.
 */
static void malicious_string_that_changes_meanwhile_stays_one_string(void)
{
	const time_t end = time(NULL) + 2;
	const uint64_t replaced = capture_replaced;
	pthread_t thread;

	memset(changing, 'a', sizeof(changing) - 1);
	memset(longer, 'a', sizeof(longer) - 1);
	capture_switch("app", "changing", 1);
	capture_switch("strata_tracef", "event", 1);
	capture_silence(1);
	check(pthread_create(&thread, NULL, change, NULL) == 0);
	while (capture_replaced < replaced + 500 && time(NULL) < end) {
		STRATA_TRACE(app, changing, INFO, strata_int(before, 1), strata_string(s, changing),
			     strata_text(t, changing, sizeof(changing)),
			     strata_string(longer, longer), strata_string(again, changing));
		strata_tracef("%1000s%s", "", changing);
	}
	stop = 1;
	pthread_join(thread, NULL);
	capture_silence(0);
	expect("");
}

static void format_is_recorded_whole_whatever_its_length(void)
{
	capture_switch("strata_tracef", "event", 1);
	capture_switch("strata_tracelog", "WARNING", 1);
	strata_tracef("plain");
	strata_tracef("%d of %s, %5.2f%%", 3, "four", 0.5);
	strata_tracelog(WARNING, "level %c", 'w');
	strata_tracelog(INFO, "off");
	expect("strata_tracef:event[14] msg=\"plain\"\nstrata_tracef:event[14] msg=\"3 of four,  0.50%\"\n"
	       "strata_tracelog:WARNING[4] msg=\"level w\"\n");
	for (int length = 990; length < 1010; length++) {
		strata_tracef("%0*d", length, 7);
		snprintf(line, sizeof(line), "strata_tracef:event[14] msg=\"%0*d\"\n", length, 7);
		expect(line);
	}
	strata_tracef("%60000s|%s", "right", "end");
	snprintf(line, sizeof(line), "strata_tracef:event[14] msg=\"%60000s|end\"\n", "right");
	expect(line);
	strata_tracef("a%cb%c", 0, 0);
	strata_tracef("%s", "");
	expect("strata_tracef:event[14] msg=\"a?b?\"\nstrata_tracef:event[14] msg=\"\"\n");
	check(capture_staged == capture_unstaged);
}

/* %m is glibc's, and not ISO C's. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat"
static void format_reads_and_leaves_errno(void)
{
	char message[200];

	errno = ENOENT;
	strata_tracef("%m");
	check(errno == ENOENT);
	strata_tracef("%2000s%m", "");
	check(errno == ENOENT);
	snprintf(message, sizeof(message), "strata_tracef:event[14] msg=\"%s\"\n",
		 strerror(ENOENT));
	snprintf(line, sizeof(line), "%sstrata_tracef:event[14] msg=\"%2000s%s\"\n", message, "",
		 strerror(ENOENT));
	expect(line);
}
#pragma GCC diagnostic pop

static void format_without_memory_is_left_to_libstrata_to_count(void)
{
	const uint64_t refused = capture_refused;

	capture_max_stage = 10;
	strata_tracef("%2000s", "");
	STRATA_TRACE(app, sized, INFO, strata_int(before, (uint8_t)7), strata_string(s, line),
		     strata_int(after, (uint16_t)8));
	capture_max_stage = 1 << 20;
	check(capture_refused == refused + 2);
	expect("");
}

int main(void)
{
	payloads_of_all_sizes_are_staged_above_the_stacks_size();
	sequences_and_strings_of_all_sizes_around_what_the_site_stores_are_whole();
	arrays_larger_than_the_stack_are_staged();
	sequence_of_impossible_length_is_left_to_libstrata_to_count();
	letters_of_every_length_have_no_nul_in_the_copy();
	malicious_string_that_changes_meanwhile_stays_one_string();
	format_is_recorded_whole_whatever_its_length();
	format_reads_and_leaves_errno();
	format_without_memory_is_left_to_libstrata_to_count();
	puts("memory: passed");
	return 0;
}
