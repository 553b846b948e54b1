/* SPDX-License-Identifier: MIT */
/*
 * attack_held.c - processes that a user's own file system (FUSE) holds in the middle of execve().
 *
 *   attack_held FOLDER UID PROCESSES PROGRAM [ARGUMENT...]
 *
 * Begun as root, as fusermount is: mounts a file system of user UID on FOLDER, becomes that user, and serves one
 * file there. So many traced processes, which have announced themselves, open it to be closed by execve(), and
 * execute PROGRAM. The kernel then asks the file system whether it minds that the file is closed ("flush"), and is
 * never answered: it holds the lock by which it says what a process has open and mapped. Says "ready PID..." when
 * all are held. SIGUSR1 lets those go that are held, and those that come afterwards; SIGTERM ends all of them.
 *
 * The bytes are those of the kernel's linux/fuse.h, without a library.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <strata/tracepoint.h>

STRATA_CLASS(one, (int number), strata_int(number, number));
STRATA_EVENT(held, one, INFO, one);

enum {
	PROCESSES_MAX = 1000,
	/* The root folder has number 1. */
	FILE_NODE = 2,
	REQUEST_BYTES = 1 << 16
};

static volatile sig_atomic_t asked_to_end, asked_to_let_go;
static pid_t children[PROCESSES_MAX];
static uint64_t held[PROCESSES_MAX];
static int nr_children, nr_held, is_letting_go, device;
static uid_t uid;

static void on_signal(int signal)
{
	if (signal == SIGTERM)
		asked_to_end = 1;
	else
		asked_to_let_go = 1;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void answer(uint64_t unique, int error, const void *data, size_t bytes)
{
	struct fuse_out_header header = { .len = sizeof(header) + bytes,
					  .error = -error,
					  .unique = unique };
	struct iovec parts[] = { { &header, sizeof(header) }, { (void *)data, bytes } };

	/* Whose process was killed waits no more. */
	if (writev(device, parts, 2) < 0 && errno != ENOENT)
		die("answer");
}

static struct fuse_attr attributes(uint64_t node)
{
	struct fuse_attr attr = { .ino = node, .nlink = 1, .uid = uid, .gid = uid, .blksize = 4096 };

	attr.mode = node == FILE_NODE ? S_IFREG | 0644 : S_IFDIR | 0755;
	return attr;
}

static void let_go(void)
{
	is_letting_go = 1;
	while (nr_held)
		answer(held[--nr_held], 0, NULL, 0);
}

static void serve(const struct fuse_in_header *in)
{
	switch (in->opcode) {
	case FUSE_INIT: {
		struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION,
					     .minor = 31,
					     .max_write = 4096,
					     .max_background = 16 };
		answer(in->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_GETATTR: {
		struct fuse_attr_out out = { .attr_valid = 3600, .attr = attributes(in->nodeid) };
		answer(in->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_LOOKUP: {
		struct fuse_entry_out out = { .nodeid = FILE_NODE,
					      .entry_valid = 3600,
					      .attr_valid = 3600,
					      .attr = attributes(FILE_NODE) };
		answer(in->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_OPEN: {
		struct fuse_open_out out = { .fh = 1 };
		answer(in->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_FLUSH:
		if (is_letting_go)
			answer(in->unique, 0, NULL, 0);
		else if (nr_held < PROCESSES_MAX)
			held[nr_held++] = in->unique;
		break;
	case FUSE_RELEASE:
		answer(in->unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		answer(in->unique, ENOSYS, NULL, 0);
	}
}

/* Handles what the kernel asks, for at most a moment. */
static void serve_once(void)
{
	static char request[REQUEST_BYTES] __attribute__((aligned(8)));
	struct pollfd ready = { .fd = device, .events = POLLIN };

	if (poll(&ready, 1, 100) > 0 && read(device, request, sizeof(request)) > 0)
		serve((struct fuse_in_header *)request);
}

static void mount_on(const char *folder)
{
	char options[128];

	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (device < 0)
		die("/dev/fuse");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", device,
		 uid, uid);
	if (mount("attack", folder, "fuse", MS_NOSUID | MS_NODEV, options))
		die("mount");
}

/* Traced, as its own program: attack_held within FILE PROGRAM [ARGUMENT...] */
static int within(char **argv)
{
	STRATA_TRACE_EVENT(held, one, 1);
	if (open(argv[2], O_RDWR | O_CLOEXEC) < 0)
		die(argv[2]);
	execv(argv[3], argv + 3);
	die(argv[3]);
	return 1;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	const char *folder = argv[1];
	char file[4096];
	int i, wanted;

	if (argc >= 4 && !strcmp(argv[1], "within"))
		return within(argv);
	if (argc < 5 || (wanted = atoi(argv[3])) < 1 || wanted > PROCESSES_MAX)
		return 2;
	uid = strtoul(argv[2], NULL, 10);
	snprintf(file, sizeof(file), "%s/file", folder);
	mount_on(folder);
	if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		die("becoming the user");
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (nr_children = 0; nr_children < wanted; nr_children++) {
		pid_t child = fork();

		if (child < 0)
			die("fork");
		if (!child) {
			signal(SIGTERM, SIG_DFL);
			signal(SIGUSR1, SIG_DFL);
			argv[2] = "within";
			argv[3] = file;
			execv("/proc/self/exe", argv + 1);
			die(argv[0]);
		}
		children[nr_children] = child;
	}
	while (nr_held < nr_children && !asked_to_end)
		serve_once();
	printf("ready");
	for (i = 0; i < nr_children; i++)
		printf(" %d", children[i]);
	puts("");
	fflush(stdout);
	while (!asked_to_end) {
		if (asked_to_let_go && !is_letting_go)
			let_go();
		serve_once();
	}
	for (i = 0; i < nr_children; i++)
		kill(children[i], SIGKILL);
	return 0;
}
