/* SPDX-License-Identifier: MIT */
/*
 * add.c - reads files and adds up their bytes as words: what a reader has to do at least.
 *
 *   add FILE...
 *
 * Prints the sum. Exit: 1 if a file cannot be read.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	WINDOW_BYTES = 256 << 10
};

static int add(const char *path, char *window, uint64_t *sum)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t at = 0;
	ssize_t bytes;

	if (fd < 0)
		return -1;
	while ((bytes = pread(fd, window, WINDOW_BYTES, at)) > 0) {
		for (ssize_t i = 0; i + 8 <= bytes; i += 8) {
			uint64_t word;

			memcpy(&word, window + i, sizeof(word));
			*sum += word;
		}
		at += bytes;
	}
	close(fd);
	return bytes < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
	char *window = malloc(WINDOW_BYTES);
	uint64_t sum = 0;

	if (!window)
		return 1;
	for (int i = 1; i < argc; i++) {
		if (add(argv[i], window, &sum)) {
			perror(argv[i]);
			return 1;
		}
	}
	printf("%#llx\n", (unsigned long long)sum);
	free(window);
	return 0;
}
