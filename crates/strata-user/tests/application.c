/* SPDX-License-Identifier: MIT */
/*
 * application.c - an instrumented program that does what its standard input says, one letter a line:
 *   e  one event of each tracepoint       f  fork(); the child does an e, and ends
 *   c  close all descriptors but 0 and 1  q  end
 * and answers each with a line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <strata/tracepoint.h>

static void events(void)
{
	static unsigned count;

	STRATA_TRACE(real, tick, INFO, strata_int(count, count++));
	STRATA_TRACE(real, detail, DEBUG, strata_string(text, "word"));
}

int main(void)
{
	char line[16];
	int fd;
	pid_t child;

	setvbuf(stdout, NULL, _IOLBF, 0);
	events();
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		switch (line[0]) {
		case 'e':
			events();
			break;
		case 'f':
			child = fork();
			if (!child) {
				events();
				_exit(0);
			}
			waitpid(child, NULL, 0);
			break;
		case 'c':
			for (fd = 2; fd < 1024; fd++)
				close(fd);
			break;
		default:
			return 0;
		}
		puts("done");
	}
	return 0;
}
