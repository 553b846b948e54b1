/* SPDX-License-Identifier: MIT */
/*
 * events_life.c - classes made at run time in the life of a process. How often each event was recorded is what the
 * program counts (count.h).
 *
 *   events_life threads   classes come and go in two threads while others record them, and one that stays
 *   events_life fork      a child records its parent's classes and one of its own, and executes "exec"
 *   events_life exec      two events
 *   events_life kill      killed behind the last event
 *   events_life many N    N classes, one event each; those that find no room are refused
 *   events_life wait      registers one class, waits until it is recorded, registers another one, records both, and waits
 *                         for SIGTERM
 */
#include <pthread.h>
#include <signal.h>
#include <strata/events.h>
#include <sys/wait.h>

#include "count.h"

#define TURNS 3000

static struct strata_provider *provider;
static const struct strata_event_field number = STRATA_FIELD("number", STRATA_U32);

static struct strata_event *make(const char *name)
{
	const struct strata_event_class made = STRATA_EVENT_CLASS(name, STRATA_INFO, &number, 1);
	struct strata_event *event;

	test_must(!strata_event_register(provider, &made, &event, NULL, 0));
	return event;
}

static void record(struct strata_event *event, uint32_t n)
{
	union strata_value value;
	uint32_t i;

	for (i = 0; i < n; i++) {
		value.u = i;
		test_must(strata_event_is_on(event));
		test_must(!strata_event_record(event, &value, 1));
	}
}

static struct strata_event *coming; /* of the class that comes and goes */
static int stop;

static void *come_and_go(void *arg)
{
	int i;

	for (i = 0; i < TURNS; i++) {
		struct strata_event *event = make("comes");

		/* Both threads get the same one, which never moves. */
		test_must(event == coming);
		strata_event_unregister(event);
	}
	return arg;
}

static void *record_what_comes(void *arg)
{
	const union strata_value value = strata_value_uint(7);

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		if (strata_event_is_on(coming))
			test_must(!strata_event_record(coming, &value, 1));
	return arg;
}

static void threads(void)
{
	struct strata_event *stays = make("stays");
	pthread_t thread[4];
	int i;

	coming = make("comes");
	strata_event_unregister(coming);
	for (i = 0; i < 4; i++)
		test_must(!pthread_create(&thread[i], NULL, i < 2 ? come_and_go : record_what_comes,
					  NULL));
	record(stays, 5000);
	for (i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (; i < 4; i++)
		pthread_join(thread[i], NULL);
	test_must(!strata_event_is_on(coming));
	test_count("events_life", 5000);
}

static void forks(char *self)
{
	struct strata_event *event = make("parents");
	int status;
	pid_t child;

	record(event, 100);
	child = fork();
	if (!child) {
		record(event, 200);
		record(make("childs"), 300);
		test_count("events_life", 500);
		execl(self, self, "exec", (char *)NULL);
		_exit(96);
	}
	test_must(waitpid(child, &status, 0) == child && !status);
	record(event, 100);
	test_count("events_life", 200);
}

static void many(uint32_t nr)
{
	struct strata_event_class made = STRATA_EVENT_CLASS(NULL, STRATA_INFO, &number, 1);
	struct strata_event *event;
	const union strata_value value = strata_value_uint(1);
	uint32_t i, refused = 0;
	char name[20];

	made.name = name;
	for (i = 0; i < nr; i++) {
		int code;

		snprintf(name, sizeof(name), "many_%u", i);
		code = strata_event_register(provider, &made, &event, NULL, 0);
		test_must(!code || (code == -ENOSPC && !event));
		refused += !event;
		test_must(!strata_event_record(event, &value, 1));
	}
	printf("refused %u\n", refused);
	test_count("events_life", nr - refused);
}

static volatile sig_atomic_t ended;

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static void waits(void)
{
	struct strata_event *before = make("before"), *later;

	signal(SIGTERM, end);
	printf("ready\n");
	fflush(stdout);
	while (!strata_event_is_on(before) && !ended)
		test_sleep_ms(1);
	later = make("later");
	while (!strata_event_is_on(later) && !ended)
		test_sleep_ms(1);
	if (!ended) {
		record(before, 10);
		record(later, 20);
		test_count("events_life", 30);
		printf("on\n");
		fflush(stdout);
	}
	while (!ended)
		test_sleep_ms(1);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	test_must(!strata_provider_register("life", &provider, NULL, 0));
	if (!strcmp(what, "threads")) {
		threads();
	} else if (!strcmp(what, "fork")) {
		forks(argv[0]);
	} else if (!strcmp(what, "exec")) {
		record(make("executed"), 2);
		test_count("events_life", 2);
	} else if (!strcmp(what, "kill")) {
		struct strata_event *event = make("killed");

		test_count("events_life", 1000);
		record(event, 1000);
		raise(SIGKILL);
	} else if (!strcmp(what, "many")) {
		many((uint32_t)test_number(argc, argv, 2, 100));
	} else if (!strcmp(what, "wait")) {
		waits();
	} else {
		return 2;
	}
	return 0;
}
