/* SPDX-License-Identifier: MIT */
/*
 * fault_scarce.c - starts a program that is short of what it needs to announce itself.
 *
 *   fault_scarce FREE keep|close WHAT COMMAND...
 *
 * FREE: so many descriptors are free when it begins; keep: what its starter has open stays open, close: only the first three
 * do. WHAT: plain; or seccomp: its sandbox refuses memfd_create().
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int limit_descriptors(unsigned long nr_free)
{
	struct rlimit limit;
	int fd;

	for (fd = 3; nr_free; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			nr_free--;
	limit.rlim_cur = limit.rlim_max = (rlim_t)fd;
	return setrlimit(RLIMIT_NOFILE, &limit);
}

static int refuse_memfd(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	if (!strcmp(argv[2], "close"))
		close_range(3, ~0u, 0);
	if (limit_descriptors(strtoul(argv[1], NULL, 10)) ||
	    (!strcmp(argv[3], "seccomp") && refuse_memfd())) {
		perror("fault_scarce");
		return 2;
	}
	execv(argv[4], argv + 4);
	perror(argv[4]);
	return 2;
}
