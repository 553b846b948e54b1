/* SPDX-License-Identifier: MIT */
/*
 * signals.c - events in signal handlers that interrupt events, three deep: a timer, another thread, and a
 * signal that the timer's handler raises. Runs until HANDLERS handlers ran.
 */
#include <strata/tracepoint.h>

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "count.h"

static unsigned long nr_main, nr_alarm, nr_other, nr_inner;
static pthread_t main_thread;
static int done;
static const char long_text[] =
	"a text of some length, so that a record takes a while to be put together";

static unsigned long next(unsigned long *number)
{
	return __atomic_fetch_add(number, 1, __ATOMIC_RELAXED);
}

static void on_alarm(int signal)
{
	unsigned long number = next(&nr_alarm);

	STRATA_TRACE(signals, alarm, INFO, strata_int(number, number),
		     strata_string(text, long_text));
	if (signal && number % 4 == 0)
		raise(SIGUSR1);
}

static void on_usr1(int signal)
{
	unsigned long number = next(&nr_inner);

	STRATA_TRACE(signals, inner, INFO, strata_int(number, number), strata_int(signal, signal));
}

static void on_usr2(int signal)
{
	unsigned long number = next(&nr_other);

	STRATA_TRACE(signals, other, INFO, strata_int(number, number), strata_int(signal, signal),
		     strata_text_sequence(text, long_text, sizeof(long_text) - 1));
}

static void *send(void *argument)
{
	(void)argument;
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
		pthread_kill(main_thread, SIGUSR2);
		/* Now and then as fast as possible. */
		if (__atomic_load_n(&nr_other, __ATOMIC_RELAXED) % 64 == 0)
			test_sleep_ms(1);
	}
	return NULL;
}

static void handle(int signal, void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };

	test_must(!sigaction(signal, &action, NULL));
}

int main(int argc, char **argv)
{
	const unsigned long wanted = test_number(argc, argv, 1, 2000);
	const struct itimerval period = { { 0, 100 }, { 0, 100 } }, never = { { 0, 0 }, { 0, 0 } };
	sigset_t all, before;
	pthread_t sender;

	main_thread = pthread_self();
	handle(SIGALRM, on_alarm);
	handle(SIGUSR1, on_usr1);
	handle(SIGUSR2, on_usr2);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	test_must(!pthread_create(&sender, NULL, send, NULL));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	test_must(!setitimer(ITIMER_REAL, &period, NULL));
	while (__atomic_load_n(&nr_alarm, __ATOMIC_RELAXED) < wanted / 2 ||
	       __atomic_load_n(&nr_other, __ATOMIC_RELAXED) < wanted / 2) {
		/* Bounded, so that nothing is discarded however slow signals are. */
		if (nr_main < 20000) {
			STRATA_TRACE(signals, step, INFO, strata_int(number, nr_main),
				     strata_string(text, long_text));
			nr_main++;
		} else {
			/*
			 * gcc's ThreadSanitizer delivers signals with the next call of libc, and leaves all of
			 * them blocked when that is in the handler of one that it has put off.
			 */
			pthread_sigmask(SIG_SETMASK, &before, NULL);
			test_sleep_ms(1);
		}
	}
	setitimer(ITIMER_REAL, &never, NULL);
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	pthread_join(sender, NULL);
	test_sleep_ms(2);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	test_count("signals", nr_main + nr_alarm + nr_other + nr_inner);
	printf("%lu %lu %lu %lu\n", nr_main, nr_alarm, nr_other, nr_inner);
	return 0;
}
