/* SPDX-License-Identifier: MIT */
/*
 * attack_cancel.c - a thread that is to be cancelled makes a call that is no cancellation point, hides from its
 * user, and is cancelled only behind it; then the program forks. Prints "hidden" and "done"; an alarm ends it
 * where it does not come so far.
 */
#include <strata/tracepoint.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int is_cancelled;

static void *body(void *unused)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	while (!atomic_load(&is_cancelled))
		;
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
	prctl(PR_SET_DUMPABLE, 0);
	/* A plain system call: libc's functions may be points where the thread ends. */
	syscall(SYS_write, 1, "hidden\n", 7);
	pthread_testcancel();
	return unused;
}

int main(void)
{
	pthread_t thread;
	pid_t child;

	alarm(20);
	STRATA_TRACE(attack_cancel, begun, INFO, strata_int(zero, 0));
	if (pthread_create(&thread, NULL, body, NULL))
		return 2;
	pthread_cancel(thread);
	atomic_store(&is_cancelled, 1);
	pthread_join(thread, NULL);
	child = fork();
	if (!child)
		_exit(0);
	if (child < 0 || waitpid(child, NULL, 0) != child)
		return 2;
	puts("done");
	return 0;
}
