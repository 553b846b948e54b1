/* SPDX-License-Identifier: MIT */
/*
 * reader.c - what trace-cmd does for one CPU: the pages of ftrace's buffer go to a file by splice(), as many at a
 * time as the kernel hands out, until SIGTERM; then the rest of them.
 *
 *   reader TRACE_PIPE_RAW FILE
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PIPE_BYTES (64 * 4096)

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static int fail(const char *what)
{
	fprintf(stderr, "reader: %s: %s\n", what, strerror(errno));
	return 2;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	int from, to, through[2];
	ssize_t bytes, n;

	if (argc != 3)
		return 2;
	sigaction(SIGTERM, &action, NULL);
	from = open(argv[1], O_RDONLY | O_CLOEXEC);
	to = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (from < 0 || to < 0 || pipe(through))
		return fail(argv[from < 0 ? 1 : 2]);
	fcntl(through[0], F_SETPIPE_SZ, PIPE_BYTES);
	for (;;) {
		bytes = splice(from, NULL, through[1], NULL, PIPE_BYTES,
			       stop ? SPLICE_F_NONBLOCK : 0);
		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes < 0 && errno != EAGAIN)
			return fail(argv[1]);
		if (bytes <= 0 && stop)
			return 0;
		for (; bytes > 0; bytes -= n) {
			n = splice(through[0], NULL, to, NULL, (size_t)bytes, SPLICE_F_MOVE);
			if (n <= 0)
				return fail(argv[2]);
		}
	}
}
