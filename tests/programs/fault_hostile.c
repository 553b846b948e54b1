/* SPDX-License-Identifier: MIT */
/*
 * fault_hostile.c - a traced program that does what it can to harm its tracer.
 *
 *   fault_hostile WAY SEED MILLISECONDS
 *
 * WAY is one of those in ways[]. All work on the program's own shared memory, mapped again through
 * /proc/self/fd, while the program goes on to record. What becomes of the program itself does not matter:
 * a fault is caught, and at the latest an alarm ends it. Prints "WAY PID ROUNDS".
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <strata/tracepoint.h>

static uint64_t state, rounds;
static unsigned char *memory;
static uint64_t memory_bytes;
static int memfd = -1, starter = -1;
static const char *way_name;
static sigjmp_buf again;

static struct strata_abi_user_control *control;
static struct strata_abi_user_session *sessions;
static struct strata_abi_user_state *states;

static uint64_t any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t below(uint64_t n)
{
	return n ? (any() >> 8) % n : 0;
}

/* A number that is often one at which something ends. */
static uint64_t number(void)
{
	static const uint64_t edges[] = {
		0, 1, 2, 7, 8, 31, 32, 255, 4095, 4096, 4097, 65535, 65536
	};

	switch (below(6)) {
	case 0:
		return edges[below(sizeof(edges) / sizeof(*edges))];
	case 1:
		return ~edges[below(sizeof(edges) / sizeof(*edges))];
	case 2:
		return UINT64_C(1) << below(64);
	case 3:
		return (UINT64_C(1) << below(64)) - 1;
	case 4:
		return below(memory_bytes * 2);
	default:
		return any();
	}
}

static void scribble(uint64_t begin, uint64_t end)
{
	static const uint64_t sizes[] = { 1, 2, 4, 8, 8, 64 };
	uint64_t size = sizes[below(6)], at, value = number(), i;

	if (end > memory_bytes)
		end = memory_bytes;
	if (end < begin + 64)
		return;
	at = (begin + below(end - begin - 64)) & ~(size - 1);
	if (at < begin)
		at = begin;
	for (i = 0; i < size; i += 8)
		memcpy(memory + at + i, &value, size < 8 ? size : 8);
}

static void way_control(void)
{
	scribble(0, 512);
}

static void way_sessions(void)
{
	uint64_t slot = below(4) ? below(2) : below(STRATA_ABI_USER_NR_SESSIONS);
	uint64_t begin = STRATA_ABI_USER_SESSIONS_OFFSET + slot * 4096;

	scribble(begin, begin + (below(8) ? 192 : 4096));
}

static void way_states(void)
{
	uint64_t n = below(4) ? 4 : STRATA_ABI_USER_NR_STATES;

	scribble(STRATA_ABI_USER_STATES_OFFSET, STRATA_ABI_USER_STATES_OFFSET + n * 128);
}

static void way_descriptions(void)
{
	scribble(STRATA_ABI_USER_DESCRIPTIONS_OFFSET, STRATA_ABI_USER_DESCRIPTIONS_OFFSET + 1024);
}

static void way_channels(void)
{
	uint64_t begin = STRATA_ABI_USER_CHANNELS_OFFSET;

	/* Half of it where headers, positions and tables are. */
	scribble(begin, below(2) ? begin + 4096 * (1 + below(16)) : memory_bytes);
}

static void way_everything(void)
{
	static void (*const parts[])(void) = { way_control, way_sessions, way_states,
					       way_descriptions, way_channels };

	parts[below(5)]();
}

/* Lies that are well aimed: one field at a time. */
static void way_lies(void)
{
	struct strata_abi_user_session *session = &sessions[below(2)];
	struct strata_abi_user_state *one = &states[below(4)];
	uint64_t value = number();

	switch (below(24)) {
	case 0:
		control->nr_states = (uint32_t)value;
		break;
	case 1:
		control->descriptions_bytes = (uint32_t)value;
		break;
	case 2:
		control->nr_cpus = (uint32_t)value;
		break;
	case 3:
		control->publish = (uint32_t)value;
		break;
	case 4:
		control->generation = value;
		break;
	case 5:
		control->pid = (uint32_t)value;
		break;
	case 6:
		control->clock_index = value;
		break;
	case 7:
		control->claimed_sessions = (uint32_t)value;
		break;
	case 8:
		session->channel_offset = value;
		break;
	case 9:
		session->channel_bytes = value;
		break;
	case 10:
		session->next_id = (uint32_t)value;
		break;
	case 11:
		session->status = (uint32_t)below(5);
		break;
	case 12:
		session->flags = (uint32_t)value;
		break;
	case 13:
		session->rules_bytes = (uint32_t)value;
		break;
	case 14:
		session->discarded_unmapped = value;
		break;
	case 15:
		session->heartbeat_ns = value;
		break;
	case 16:
		one->description = (uint32_t)value;
		break;
	case 17:
		one->description_bytes = (uint32_t)value;
		break;
	case 18:
		one->sites = (uint32_t)value;
		break;
	case 19:
		one->nr_sites = (uint32_t)value;
		break;
	case 20:
		one->flags = (uint32_t)below(8);
		break;
	case 21:
		one->ids[below(2)] = (uint16_t)value;
		break;
	case 22:
		control->started_ns = value;
		break;
	default:
		memset(control->name, (int)(27 + below(200)), sizeof(control->name));
		break;
	}
}

static void way_holes(void)
{
	uint64_t begin = below(memory_bytes), bytes = 1 + below(1 << below(24));

	fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)begin, (off_t)bytes);
}

static void way_file(void)
{
	struct stat status;

	switch (below(7)) {
	case 0:
		if (ftruncate(memfd, (off_t)below(memory_bytes)))
			break;
		break;
	case 1:
		fchmod(memfd, (mode_t)below(512));
		break;
	case 2:
		fcntl(memfd, F_ADD_SEALS, 1 << below(5));
		break;
	case 3:
		if (fchown(memfd, 65534, 65534))
			break;
		break;
	case 4:
		if (!fstat(memfd, &status) &&
		    ftruncate(memfd, status.st_size + (off_t)below(1 << 30)))
			break;
		break;
	case 5:
		fcntl(memfd, F_SETFL, O_NONBLOCK | O_APPEND);
		break;
	default:
		unlink("/memfd:strata");
		break;
	}
}

static void way_seals(void)
{
	fcntl(memfd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL);
	fcntl(memfd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	way_file();
	usleep(1000);
}

static void way_close(void)
{
	close(memfd);
	usleep(1000);
}

/* On a file description of its own, for ever. */
static void way_lock(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
	if (rounds < 4)
		flock(open(path, O_RDWR), LOCK_EX | LOCK_NB);
	usleep(1000);
}

/* Any number of descriptors, of any kind, with any text. */
static void send_garbage(int to)
{
	struct strata_abi_user_announcement hello = { STRATA_ABI_USER_MAGIC,
						      STRATA_ABI_USER_VERSION, (uint32_t)getpid() };
	unsigned char text[4096] = { 0 };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(64 * sizeof(int))];
	} ancillary;
	struct iovec part = { text, sizeof(hello) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	int fds[64], pipes[2] = { -1, -1 }, other[3] = { -1, -1, -1 }, n, i;
	struct cmsghdr *head;

	memcpy(text, &hello, sizeof(hello));
	if (!below(3))
		part.iov_len = below(sizeof(text));
	if (!below(3))
		((uint64_t *)(void *)text)[below(2)] = number();
	if (pipe2(pipes, O_CLOEXEC))
		return;
	other[0] = memfd_create("strata", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	other[1] = memfd_create("strata", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	other[2] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (other[0] >= 0 && below(2) && !ftruncate(other[0], (off_t)below(2 * memory_bytes)) &&
	    below(2))
		fcntl(other[0], F_ADD_SEALS, F_SEAL_SHRINK);
	n = (int)(below(4) ? 1 : below(64));
	for (i = 0; i < n; i++) {
		const int all[] = { memfd, pipes[0], pipes[1], other[0], other[1], other[2], to, 0 };

		fds[i] = all[below(8)];
		if (fds[i] < 0)
			fds[i] = memfd;
	}
	if (n) {
		memset(&ancillary, 0, sizeof(ancillary));
		message.msg_control = ancillary.bytes;
		message.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
		memcpy(CMSG_DATA(head), fds, (size_t)n * sizeof(int));
	}
	sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	for (i = 0; i < 3; i++)
		if (other[i] >= 0)
			close(other[i]);
	close(pipes[0]);
	close(pipes[1]);
}

/* To every socket in which a tracer may be listening. */
static void each_listener(unsigned messages)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct dirent *entry;
	unsigned i;
	DIR *dir = opendir(STRATA_ABI_USER_SOCKETS_ROOT);
	int to;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(address.sun_path, sizeof(address.sun_path),
			 STRATA_ABI_USER_SOCKETS_ROOT "/%.60s", entry->d_name);
		to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (to >= 0 && !connect(to, (struct sockaddr *)&address, sizeof(address)))
			for (i = 0; i < messages; i++)
				send_garbage(to);
		if (to >= 0)
			close(to);
	}
	if (dir)
		closedir(dir);
}

static void way_announce(void)
{
	if (starter >= 0)
		send_garbage(starter);
	each_listener((unsigned)below(3));
	usleep(200);
}

static void way_flood(void)
{
	int i;

	for (i = 0; i < 64 && starter >= 0; i++)
		send_garbage(starter);
	each_listener(16);
}

static const struct way {
	const char *name;
	void (*once)(void);
} ways[] = {
	{ "control", way_control },   { "sessions", way_sessions },
	{ "states", way_states },     { "descriptions", way_descriptions },
	{ "channels", way_channels }, { "everything", way_everything },
	{ "lies", way_lies },	      { "holes", way_holes },
	{ "file", way_file },	      { "seals", way_seals },
	{ "close", way_close },	      { "lock", way_lock },
	{ "announce", way_announce }, { "flood", way_flood },
};

static void finish(void)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "%s %d %lu\n", way_name, (int)getpid(),
			 (unsigned long)rounds);

	if (write(1, text, (size_t)n) != n)
		_exit(1);
	_exit(0);
}

static void on_alarm(int signal)
{
	(void)signal;
	finish();
}

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(again, 1);
}

static int find_memory(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	struct stat status;
	char path[300], link[128];
	ssize_t n;

	while (dir && memfd < 0 && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%.200s", entry->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		if (!strcmp(link, "/memfd:" STRATA_ABI_USER_MEMFD " (deleted)"))
			memfd = atoi(entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (memfd < 0 || fstat(memfd, &status))
		return -1;
	memory_bytes = (uint64_t)status.st_size;
	memory = mmap(NULL, memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	control = (void *)memory;
	sessions = (void *)(memory + STRATA_ABI_USER_SESSIONS_OFFSET);
	states = (void *)(memory + STRATA_ABI_USER_STATES_OFFSET);
	return memory == MAP_FAILED ? -1 : 0;
}

static void record(void)
{
	STRATA_TRACE(evil, one, INFO, strata_int(round, rounds), strata_string(way, way_name));
	STRATA_TRACE(evil, two, DEBUG, strata_sequence(bytes, (const uint8_t *)&state, 8));
	STRATA_TRACE(evil, three, WARNING, strata_hex(state, state));
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	static char stack[65536];
	const stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction fault = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK | SA_NODEFER };
	static const struct way *way;
	const char *environment = getenv(STRATA_ABI_USER_ENVIRONMENT);
	volatile uint64_t end;
	size_t i;

	for (i = 0; argc == 4 && i < sizeof(ways) / sizeof(*ways); i++)
		if (!strcmp(argv[1], ways[i].name))
			way = &ways[i];
	if (!way)
		return 99;
	way_name = way->name;
	state = strtoull(argv[2], NULL, 10) * 2654435769u + 88172645463325252u;
	end = now_ms() + strtoull(argv[3], NULL, 10);
	if (environment)
		sscanf(environment, "%*d:socket=%d", &starter);
	signal(SIGALRM, on_alarm);
	alarm((unsigned)(strtoul(argv[3], NULL, 10) / 1000 + 2));
	sigaltstack(&other, NULL);
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGBUS, &fault, NULL);
	sigaction(SIGFPE, &fault, NULL);
	sigaction(SIGILL, &fault, NULL);
	signal(SIGXFSZ, SIG_IGN);
	record();
	/* Often after the tracer has come, sometimes before. */
	usleep((useconds_t)below(200000));
	if (find_memory())
		return 98;
	for (;;) {
		if (sigsetjmp(again, 1)) {
			rounds++;
			continue; /* the record faulted: on with the next round */
		}
		while (now_ms() < end) {
			way->once();
			rounds++;
			if (rounds % 4 == 0)
				record();
			if (rounds % 256 == 0)
				usleep(500); /* the tracer shall see each of them */
		}
		finish();
	}
}
