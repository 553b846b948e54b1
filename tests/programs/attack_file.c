// What the owner of a file does to who reads it.
//
//   swap FILE OTHER   when somebody opens FILE, give its name to OTHER at once; then "swapped"
//   lease FILE        hold a write lease: who opens it waits for it
//   change FILE       cut the file to half of its size and back, and turn its bytes round, without end
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void need(int is_true, const char *what)
{
	if (!is_true) {
		perror(what);
		exit(2);
	}
}

static void swap(const char *file, const char *other)
{
	char events[4096];
	int fd = inotify_init1(IN_CLOEXEC);

	need(inotify_add_watch(fd, file, IN_OPEN) >= 0, "inotify_add_watch");
	ready();
	need(read(fd, events, sizeof(events)) > 0, "read");
	need(rename(other, file) == 0, "rename");
	puts("swapped");
	fflush(stdout);
}

static void lease(const char *file)
{
	int fd = open(file, O_RDWR | O_CLOEXEC);

	need(fd >= 0, "open");
	// It is not given up when somebody wants it.
	signal(SIGIO, SIG_IGN);
	need(fcntl(fd, F_SETLEASE, F_WRLCK) == 0, "F_SETLEASE");
	ready();
	for (;;)
		pause();
}

static void change(const char *file)
{
	static unsigned char first[1 << 20], other[1 << 20];
	int fd = open(file, O_RDWR | O_CLOEXEC);
	ssize_t size = read(fd, first, sizeof(first));

	need(size > 64, "read");
	for (ssize_t i = 0; i < size; i++)
		other[i] = i < 64 ? first[i] : (unsigned char)~first[i];
	ready();
	for (;;) {
		need(pwrite(fd, other, (size_t)size, 0) == size, "pwrite");
		need(ftruncate(fd, size / 2) == 0, "ftruncate");
		need(pwrite(fd, first, (size_t)size, 0) == size, "pwrite");
	}
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "swap"))
		swap(argv[2], argv[3]);
	else if (argc == 3 && !strcmp(argv[1], "lease"))
		lease(argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "change"))
		change(argv[2]);
	else
		return 2;
	return 0;
}
