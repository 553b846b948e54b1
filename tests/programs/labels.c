// Calls with flags that the test knows. Prints nothing; a call that fails ends it with its line.
//
//   labels FOLDER
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define CALL(call)                                              \
	do {                                                    \
		if ((long)(call) < 0) {                         \
			fprintf(stderr, "line %d: ", __LINE__); \
			perror(#call);                          \
			return 1;                               \
		}                                               \
	} while (0)

int main(int argc, char **argv)
{
	char path[4096];
	int fd, plain, pair[2];
	void *memory;

	if (argc != 2)
		return 2;
	snprintf(path, sizeof(path), "%s/labels", argv[1]);
	CALL(fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	CALL(ftruncate(fd, 4096));
	CALL(plain = open(path, O_RDONLY));
	CALL(open(path, O_WRONLY | O_SYNC | O_APPEND));
	CALL(open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
	CALL(lseek(plain, 0, SEEK_END));
	CALL(fcntl(plain, F_SETFD, FD_CLOEXEC));
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (memory == MAP_FAILED)
		return 1;
	CALL(madvise(memory, 4096, MADV_DONTNEED));
	CALL(mprotect(memory, 4096, PROT_NONE));
	CALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	CALL(send(pair[0], "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
	CALL(faccessat(AT_FDCWD, path, R_OK | W_OK, 0));
	CALL(unlink(path));
	return 0;
}
