/* SPDX-License-Identifier: MIT */
/*
 * capture.h - a stand-in for libstrata: it switches tracepoints on and off in its own process, and keeps
 * each record as a line of text, decoded by the tracepoint's own field descriptors:
 *
 *   app:paid[6] number=42 customer="Ann" port=0x50 list=[1,2] colour=WARM(3)
 *
 * A payload that its descriptors do not explain to the last byte ends the program.
 */
#ifndef STRATA_TEST_CAPTURE_H
#define STRATA_TEST_CAPTURE_H

#include <stdint.h>
#include <strata/user/object.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every tracepoint "provider:event", in all objects; returns how many. */
unsigned capture_switch(const char *provider, const char *event, int on);
/* Returns the number of registered sites of a tracepoint. */
unsigned capture_sites(const char *provider, const char *event);
/* One tracepoint of this name, or NULL. */
const struct strata_tracepoint *capture_find(const char *provider, const char *event);

/* The records since the last call, a line each; ends the program unless they are @expected. */
void capture_expect(const char *file, int line, const char *expected);
#define expect(expected) capture_expect(__FILE__, __LINE__, expected)
void capture_check(const char *file, int line, int truth, const char *text);
#define check(condition) capture_check(__FILE__, __LINE__, !!(condition), #condition)

/* Discard what is recorded from now on, after decoding it; or keep it again. */
void capture_silence(int on);

extern uint64_t capture_records;   /* since the start */
extern uint64_t capture_staged;	   /* successful calls of strata_user_stage() */
extern uint64_t capture_unstaged;  /* of strata_user_unstage() */
extern uint64_t capture_refused;   /* of strata_user_stage() that found no memory */
extern uint64_t capture_max_stage; /* bytes that it gives at most */
extern uint64_t capture_replaced;  /* strings with a '?' */

#ifdef __cplusplus
}
#endif

#endif /* STRATA_TEST_CAPTURE_H */
