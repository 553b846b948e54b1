/* SPDX-License-Identifier: MIT */
/*
 * short_calls.c - system calls whose arguments and results do not differ from one run to the next, between two
 * getpgid(424242); what they were is for strace to say. `short_calls DIR`: an empty folder.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MARK 424242

static void child(void)
{
	syscall(102); /* getuid */
	_exit(7);
}

int main(int argc, char **argv)
{
	struct sockaddr_in nobody = { .sin_family = AF_INET, .sin_port = htons(1) };
	struct timespec moment = { .tv_nsec = 2000000 };
	char buffer[64] = "some text";
	int fd, other, status;
	pid_t pid;

	if (argc != 2 || chdir(argv[1]) != 0)
		return 2;
	getpgid(MARK);
	fd = open("new\n\"file\"\xc3\xbc", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	if (fd < 0)
		return 2;
	write(fd, buffer, 9);
	lseek(fd, -4, SEEK_END);
	read(fd, buffer, sizeof(buffer));
	read(fd, buffer, sizeof(buffer));
	read(-1, buffer, sizeof(buffer));
	open("absent", O_RDONLY | O_DIRECTORY);
	openat(fd, "below", O_WRONLY | O_APPEND);
	mkdir("folder", 0700);
	mkdir("folder", 0755);
	rename("folder", "other folder");
	access("other folder", R_OK | W_OK);
	unlink("other folder");
	rmdir("other folder");
	other = dup2(fd, 50);
	fcntl(other, F_GETFL);
	ftruncate(other, 3);
	close(other);
	close(other);
	munmap(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 8192);
	mprotect(buffer, 1, PROT_READ);
	other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	nobody.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	connect(other, (struct sockaddr *)&nobody, sizeof(nobody));
	shutdown(other, SHUT_RDWR);
	nanosleep(&moment, NULL);
	kill(getpid(), 0);
	pid = fork();
	if (pid == 0)
		child();
	waitpid(pid, &status, 0);
	getpgid(MARK);
	return 0;
}
