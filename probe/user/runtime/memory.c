/* SPDX-License-Identifier: MIT */
/*
 * memory.c - the memory that a process shares with its tracer: a memfd, made before main(), and anew after fork().
 *
 * The memory begins with struct strata_abi_user_control. Behind it are the sessions, the states of tracepoints, the
 * descriptions of tracepoints and loaded objects, the filters and the rules, at the offsets of strata/abi/user.h. Channels
 * come last, one for each session. The magic number is written last: a tracer that sees it may read all the rest.
 *
 *   process begins ── strata_memory_create() ── first object described ── magic ── announced to the tracer
 *   fork() ── child: strata_memory_after_fork() ── sessions and states copied ── magic ── announced
 *   last object unloaded ── strata_memory_leave()
 *
 * strata_mapped.alive says whose the memory is: 1 if it is this process', 0 in a child that has none of its own yet, 2 while
 * it is being made or if that has failed. The kernel itself sets it to 0 in a child (MADV_WIPEONFORK), so it is right
 * even if the program has called the bare system call, and a child never writes to its parent's channels.
 *
 * A child puts its memory in the place of its parent's, so that all pointers to it stay right. If it can have none, zeros take
 * that place: no tracepoint is on in them. All of this may run in a signal handler, at the first record of the child, and
 * uses only what is safe there. A process that has shut itself in (seccomp) makes no system call for it.
 */
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "thread.h"

struct strata_user_mapped strata_mapped;
ptrdiff_t strata_rseq_offset;
struct strata_runtime strata_runtime = { .fd = -1, .starter = { .socket = -1 } };

/* Lowest number for the memfd's descriptor, so that programs which expect small numbers get them [fd]. */
#define STRATA_USER_FD_MIN 60

#define STRATA_USER_MFD_NOEXEC_SEAL 8u /* Linux 6.3 */

int strata_memory_is(int fd, uint64_t inode)
{
	struct stat status;

	return fd >= 0 && !strata_syscall(SYS_fstat, fd, (long)&status) && status.st_ino == inode;
}

/* The memfd's descriptor, or -1 if the program has closed it. */
int strata_memory_fd(void)
{
	return strata_memory_is(strata_runtime.fd, strata_runtime.inode) ? strata_runtime.fd : -1;
}

static int make_memfd(const char *name)
{
	const unsigned flags = STRATA_RING_MFD_CLOEXEC | STRATA_RING_MFD_ALLOW_SEALING;
	int fd = (int)strata_syscall(SYS_memfd_create, name, flags | STRATA_USER_MFD_NOEXEC_SEAL),
	    high;

	if (fd < 0 && errno == EINVAL)
		fd = (int)strata_syscall(SYS_memfd_create, name, flags);
	if (fd < 0)
		return -1;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STRATA_USER_FD_MIN);
	if (high < 0)
		return fd;
	close(fd);
	return high;
}

/* ftruncate() beyond the limit would raise SIGXFSZ. */
static int may_be_long(uint64_t bytes)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur >= bytes;
}

/*
 * Returns a memfd that stays open and whose name tells the tracer why there is no memory. -1: the tracer is told
 * @code.
 */
static int make_refusal(const char *name, int code)
{
	strata_runtime.memory_errno = code;
	return make_memfd(name);
}

/* Makes a memfd of the size that everything except channels needs, and maps it. Returns its address, or NULL. */
static unsigned char *make_memory(int *fd, uint64_t *inode)
{
	struct stat status;
	void *memory;

	if (!may_be_long(STRATA_ABI_USER_CHANNELS_OFFSET)) {
		*fd = make_refusal(STRATA_ABI_USER_MEMFD_REFUSED "file size limit (ulimit -f)",
				   EFBIG);
		return NULL;
	}
	*fd = make_memfd(STRATA_ABI_USER_MEMFD);
	strata_runtime.memory_errno = *fd < 0 ? errno : 0;
	if (*fd < 0)
		return NULL;
	if (!ftruncate(*fd, STRATA_ABI_USER_CHANNELS_OFFSET) &&
	    !fcntl(*fd, STRATA_RING_F_ADD_SEALS, STRATA_RING_F_SEAL_SHRINK) &&
	    !strata_syscall(SYS_fstat, *fd, (long)&status)) {
		memory = strata_mmap(NULL, STRATA_ABI_USER_CHANNELS_OFFSET, PROT_READ | PROT_WRITE,
				     MAP_SHARED, *fd);
		if (memory != MAP_FAILED) {
			*inode = status.st_ino;
			return (unsigned char *)memory;
		}
	}
	close(*fd);
	*fd = make_refusal(STRATA_ABI_USER_MEMFD_REFUSED "no memory (ulimit -v)", ENOMEM);
	return NULL;
}

/*
 * Opens a file of /proc or /sys. Uses system calls: libc's functions are cancellation points, and a thread that is to
 * be cancelled may hold a lock of its program where it records.
 */
static int open_to_read(const char *path)
{
	return (int)strata_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0);
}

static size_t read_some(int fd, char *text, size_t size)
{
	long n = fd < 0 ? -1 : strata_syscall(SYS_read, fd, (long)text, (long)size, 0, 0);

	return n > 0 ? (size_t)n : 0;
}

static void close_read(int fd)
{
	if (fd >= 0)
		strata_syscall(SYS_close, fd, 0, 0, 0, 0);
}

/*
 * Reads the begin of a file whose first line is all that matters, at most @size - 1 bytes, and adds
 * a NUL. Returns the number of bytes; 0 if the file cannot be read.
 */
static size_t read_line(const char *path, char *text, size_t size)
{
	int fd = open_to_read(path);
	size_t n = read_some(fd, text, size - 1);

	close_read(fd);
	text[n] = '\0';
	return n;
}

/* Returns the largest CPU number that the kernel may give (the last of "0-3,8-11"), plus 1. */
static uint32_t possible_cpus(void)
{
	char text[256];
	size_t n = read_line("/sys/devices/system/cpu/possible", text, sizeof(text));
	cpu_set_t set;
	uint32_t last = 0;
	int i;

	if (n) {
		while (n && (text[n - 1] < '0' || text[n - 1] > '9'))
			n--;
		while (n && text[n - 1] >= '0' && text[n - 1] <= '9')
			n--;
		for (; text[n] >= '0' && text[n] <= '9' && last < STRATA_ABI_RING_NR_STREAMS_MAX;
		     n++)
			last = last * 10 + (uint32_t)(text[n] - '0');
		return last < STRATA_ABI_RING_NR_STREAMS_MAX ? last + 1 : last;
	}
	/*
	 * The process' own CPUs are taken if there is no /sys. A CPU with a higher number is counted in
	 * discarded_no_stream.
	 */
	if (!sched_getaffinity(0, sizeof(set), &set))
		for (i = 0; i < CPU_SETSIZE; i++)
			if (CPU_ISSET((size_t)i, &set))
				last = (uint32_t)i;
	return last + 1;
}

/*
 * Returns whether another process of our user, which has not started this one, may write to our /proc/PID/mem, as a tracer
 * does to switch tracepoints on. It may not if this is a set-user-ID program or the like, or if Yama forbids it.
 */
static int others_may_patch(void)
{
	char text[16];

	if (getauxval(AT_SECURE) || strata_syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0) != 1)
		return 0;
	return !read_line("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text)) ||
	       text[0] == '0';
}

int64_t strata_time_namespace_ns;

/* The inode number of the first time namespace, in which nothing is added (PROC_TIME_INIT_INO). */
#define STRATA_USER_FIRST_TIME_NAMESPACE 0xeffffffau

/*
 * Reads what this process' time namespace adds to the clock. /proc says it of the namespace of the
 * process' children, which is the same unless the process has called unshare() itself. Nothing is
 * added without /proc, or without time namespaces.
 */
void strata_time_namespace_look(void)
{
	static const char key[] = "monotonic";
	struct stat own, of_children;
	int saved = errno, fd;
	int64_t seconds, ns = 0;
	char text[160], *at;

	if (!strata_syscall(SYS_newfstatat, AT_FDCWD, (long)"/proc/self/ns/time", (long)&own, 0) &&
	    own.st_ino != STRATA_USER_FIRST_TIME_NAMESPACE) {
		if (strata_syscall(SYS_newfstatat, AT_FDCWD,
				   (long)"/proc/self/ns/time_for_children", (long)&of_children,
				   0) ||
		    of_children.st_ino != own.st_ino)
			goto out;
		fd = open_to_read("/proc/self/timens_offsets");
		text[read_some(fd, text, sizeof(text) - 1)] = '\0';
		close_read(fd);
		if (!strncmp(text, key, sizeof(key) - 1)) {
			seconds = strtoll(text + sizeof(key) - 1, &at, 10);
			ns = seconds * INT64_C(1000000000) + strtoll(at, NULL, 10);
		}
	}
	__atomic_store_n(&strata_time_namespace_ns, ns, __ATOMIC_RELAXED);
out:
	errno = saved;
}

static void use_memory(unsigned char *memory)
{
	strata_runtime.memory = memory;
	strata_runtime.control = (struct strata_abi_user_control *)(void *)memory;
	strata_runtime.sessions =
		(struct strata_abi_user_session *)(void *)(memory +
							   STRATA_ABI_USER_SESSIONS_OFFSET);
	strata_runtime.states =
		(struct strata_abi_user_state *)(void *)(memory + STRATA_ABI_USER_STATES_OFFSET);
}

/* "\nSeccomp_filters:\tNUMBER\n" is not longer. */
#define SECCOMP_LINE_BYTES 40u

/*
 * Returns the number of seccomp filters, which the kernel says in /proc only. Reads in pieces: a
 * signal handler that records may have a small stack.
 */
static int seccomp_filters(void)
{
	static const char key[] = "\nSeccomp_filters:";
	char text[256];
	size_t kept = 0, n;
	const char *at;
	int fd = open_to_read("/proc/self/status"), filters = 0;

	while ((n = read_some(fd, text + kept, sizeof(text) - 1 - kept))) {
		n += kept;
		text[n] = '\0';
		at = strstr(text, key);
		if (at && strchr(at + 1, '\n')) {
			filters = atoi(at + sizeof(key) - 1);
			break;
		}
		kept = n < SECCOMP_LINE_BYTES ? n : SECCOMP_LINE_BYTES;
		memmove(text, text + n - kept, kept);
	}
	close_read(fd);
	return filters;
}

/*
 * Returns whether the program has installed a seccomp filter since it began. System calls that it does not expect
 * could then be its end. A filter that was there from the start, as in a container, has let ours through; another one
 * may have come on top of it.
 */
int strata_sandboxed(void)
{
	static int filters = -1;
	int mode;

	/* The question itself could end the program then. */
	if (__atomic_load_n(&strata_runtime.shut_in, __ATOMIC_RELAXED))
		return 1;
	mode = (int)strata_syscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0);
	if (mode <= 0 || strata_runtime.seccomp <= 0)
		return mode > 0;
	if (filters < 0) {
		filters = seccomp_filters();
		return 0;
	}
	return seccomp_filters() != filters;
}

/* Returns whether making the memory has failed because no descriptor was free. */
static int lacks_descriptors(void)
{
	return strata_runtime.memory_errno == EMFILE || strata_runtime.memory_errno == ENFILE;
}

/*
 * Makes the memory by the one descriptor that is free, after the tracer that started this program has heard through it that
 * the memory is made next.
 */
static unsigned char *make_memory_last(struct strata_user_way *way, int *fd, uint64_t *inode)
{
	strata_runtime.fd = -1;
	strata_runtime.memory_errno = 0;
	way->is_told = strata_announce_to_starter(way);
	return make_memory(fd, inode);
}

/*
 * Makes the memory, without its magic number. If @way has taken the last descriptor, it is let go. Returns 0, or -1: tracing
 * stays off in this process.
 */
int strata_memory_create(struct strata_user_way *way)
{
	struct strata_abi_user_control *control;
	unsigned char *memory;

	memory = make_memory(&strata_runtime.fd, &strata_runtime.inode);
	if (!memory && lacks_descriptors() && way->is_connected) {
		memory = make_memory_last(way, &strata_runtime.fd, &strata_runtime.inode);
		if (!memory)
			strata_starter_find(way);
	}
	if (!memory)
		return -1;
	if (madvise(&strata_mapped, sizeof(strata_mapped), MADV_WIPEONFORK)) {
		strata_runtime.memory_errno = errno;
		strata_munmap(memory, STRATA_ABI_USER_CHANNELS_OFFSET);
		close(strata_runtime.fd);
		strata_runtime.fd = -1;
		return -1;
	}
	strata_mapped.alive = 1;
	strata_modes_begin();
	strata_threads_begin();
	strata_sandboxed(); /* notes how many filters there are */
#ifdef STRATA_RSEQ_NATIVE
	if (strata_rseq_available())
		strata_rseq_offset = __rseq_offset;
#endif
	use_memory(memory);
	control = strata_runtime.control;
	control->version = STRATA_ABI_USER_VERSION;
	control->pid = (uint32_t)getpid();
	/* The slot has no conversion yet. UINT64_MAX is the value of no clock_index. */
	control->clock[0].index = UINT64_MAX;
	control->publish = strata_rseq_available() &&
					   !strata_environment_says("STRATA_PUBLISH", "commit") ?
				   STRATA_ABI_RING_BY_POSITION :
				   STRATA_ABI_RING_BY_COMMIT;
	control->nr_cpus = possible_cpus();
	strata_time_namespace_look();
	control->started_ns = strata_now_ns();
	strncpy(control->name, program_invocation_short_name, sizeof(control->name) - 1);
	if (strata_environment_says("STRATA_ARM", "flag"))
		strata_runtime.sites_by_flag = 1;
	else if (!strata_environment_says("STRATA_ARM", "patch"))
		strata_runtime.sites_by_flag = !others_may_patch();
	return 0;
}

static uint64_t filter_at(uint32_t slot)
{
	return STRATA_ABI_USER_FILTERS_OFFSET + (uint64_t)slot * STRATA_ABI_FILTER_BYTES;
}

/* The number of times that the tracer may change rules while they are copied. */
#define RULES_TRIES 100

/*
 * Copies the rules of a session, which its tracer may be changing: the place that is in use stays until the change
 * after the next one.
 */
static void copy_rules(unsigned char *memory, struct strata_abi_user_session *to, uint32_t slot)
{
	const struct strata_abi_user_session *from = &strata_runtime.sessions[slot];
	uint32_t version = __atomic_load_n(&from->rules_version, __ATOMIC_ACQUIRE), now;
	int tries = RULES_TRIES;

	for (;;) {
		to->rules_version = version;
		to->rules_bytes = from->rules_bytes;
		to->other_rules_bytes = from->other_rules_bytes;
		if (version & 1)
			memcpy(strata_other_rules(memory, slot),
			       strata_other_rules(strata_runtime.memory, slot),
			       STRATA_ABI_USER_RULES_BYTES);
		else
			memcpy(to->rules, from->rules, sizeof(to->rules));
		now = __atomic_load_n(&from->rules_version, __ATOMIC_SEQ_CST);
		if (now == version || !tries--)
			return;
		version = now;
	}
}

/* Returns the active sessions, as bits. */
static uint32_t active_sessions(void)
{
	uint32_t claimed = strata_sessions_claimed(), active = 0, i;

	for (; claimed; claimed &= claimed - 1) {
		i = (uint32_t)__builtin_ctz(claimed);
		if (__atomic_load_n(&strata_runtime.sessions[i].status, __ATOMIC_SEQ_CST) ==
		    STRATA_ABI_USER_SESSION_ACTIVE)
			active |= UINT32_C(1) << i;
	}
	return active;
}

/*
 * Returns the one of the @active sessions that replaces @slot's; NR_SESSIONS if there is none. A
 * child gets only that one.
 */
static uint32_t replaced_by(uint32_t slot, uint32_t active)
{
	const struct strata_abi_user_session *sessions = strata_runtime.sessions;
	uint32_t i;

	for (; active; active &= active - 1) {
		i = (uint32_t)__builtin_ctz(active);
		if (sessions[i].replaces && sessions[i].replaces == sessions[slot].generation)
			return i;
	}
	return STRATA_ABI_USER_NR_SESSIONS;
}

/*
 * Copies the sessions that a child gets as well, and returns them as bits. Their slots are copied, their channels are
 * not.
 */
static uint32_t copy_sessions(unsigned char *memory)
{
	struct strata_abi_user_session *to =
		(struct strata_abi_user_session *)(void *)(memory +
							   STRATA_ABI_USER_SESSIONS_OFFSET);
	const struct strata_abi_user_session *from = strata_runtime.sessions;
	uint32_t active = active_sessions(), inherited = 0, i;

	for (; active; active &= active - 1) {
		i = (uint32_t)__builtin_ctz(active);
		if (!(from[i].flags & STRATA_ABI_USER_SESSION_INHERIT) ||
		    replaced_by(i, active_sessions()) < STRATA_ABI_USER_NR_SESSIONS)
			continue;
		memcpy(&to[i], &from[i], sizeof(to[i]));
		to[i].status = STRATA_ABI_USER_SESSION_FREE;
		to[i].heartbeat_ns = 0;
		to[i].channel_offset = 0;
		to[i].channel_bytes = 0;
		to[i].discarded_unmapped = 0;
		to[i].discarded_unstaged = 0;
		to[i].discarded_no_clock = 0;
		/* A child may begin in another group (CLONE_INTO_CGROUP). */
		to[i].cgroup_id = 0;
		copy_rules(memory, &to[i], i);
		/* A filter that is larger than this is refused when it is mapped. */
		if (from[i].filter_bytes)
			memcpy(memory + filter_at(i), strata_runtime.memory + filter_at(i),
			       STRATA_ABI_FILTER_BYTES);
		inherited |= UINT32_C(1) << i;
	}
	return inherited;
}

static void copy_states(unsigned char *memory, uint32_t inherited)
{
	struct strata_abi_user_state *to =
		(struct strata_abi_user_state *)(void *)(memory + STRATA_ABI_USER_STATES_OFFSET);
	uint32_t nr = strata_runtime.control->nr_states, i, s, next;

	if (nr > STRATA_ABI_USER_NR_STATES)
		nr = STRATA_ABI_USER_NR_STATES;
	for (i = 0; i < nr; i++) {
		memcpy(&to[i], &strata_runtime.states[i], sizeof(to[i]));
		/* The tracer may be about to give the tracepoint to the session that the child gets. */
		for (s = 0; to[i].enabled >> s && s < STRATA_ABI_USER_NR_SESSIONS; s++) {
			if (!(to[i].enabled >> s & 1) || inherited >> s & 1)
				continue;
			next = replaced_by(s, inherited);
			if (next < STRATA_ABI_USER_NR_SESSIONS &&
			    to[i].ids[next] != STRATA_ABI_USER_NO_ID)
				to[i].enabled |= UINT32_C(1) << next;
		}
		to[i].enabled &= inherited;
		for (s = 0; s < STRATA_ABI_USER_NR_SESSIONS; s++)
			if (!(inherited >> s & 1))
				to[i].ids[s] = STRATA_ABI_USER_NO_ID;
	}
}

/*
 * Returns whether this descriptor is also one of process @pid, so that both share all descriptors (CLONE_FILES).
 */
static int shared_with(uint32_t pid, int fd, uint64_t inode)
{
	struct stat status;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%u/fd/%d", pid, fd);
	return !strata_syscall(SYS_newfstatat, AT_FDCWD, (long)path, (long)&status, 0) &&
	       status.st_ino == inode;
}

/*
 * The child's descriptor takes the place of that of its parent @pid, which the child does not need; not in
 * the parent itself.
 */
static void replace_fd(int fd, uint64_t inode, uint32_t pid)
{
	int parents = strata_memory_fd();

	strata_runtime.fd = fd;
	strata_runtime.inode = inode;
	if (parents < 0 || shared_with(pid, fd, inode))
		return;
	if (dup3(fd, parents, O_CLOEXEC) == parents) {
		strata_runtime.fd = parents;
		close(fd);
	}
}

/*
 * Maps zeros in place of what is mapped there; shared zeros count in no limit of the process' data. Returns 0 if
 * there are none to be had: the kernel maps nothing more for a process that has more than its RLIMIT_AS already, not
 * even in the place of something else.
 */
static int put_zeros(void *at, uint64_t bytes)
{
	const int flags = MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, both = PROT_READ | PROT_WRITE;

	return strata_mmap(at, bytes, both, MAP_PRIVATE | flags, -1) != MAP_FAILED ||
	       strata_mmap(at, bytes, both, MAP_SHARED | flags, -1) != MAP_FAILED;
}

/*
 * Zeros, mapped from the start, for the part of the memory that the sites of a child continue to
 * test. Nothing touches them before they are moved there, so no page of memory is behind them.
 */
static _Alignas(STRATA_ABI_RING_PAGE) unsigned char zeros[STRATA_ABI_USER_DESCRIPTIONS_OFFSET];

/* Moves zeros over the memory. These two system calls ask for no more memory than there was. */
static void move_zeros(unsigned char *to)
{
	if (strata_mremap(zeros, sizeof(zeros), sizeof(zeros), MREMAP_MAYMOVE | MREMAP_FIXED, to) !=
	    MAP_FAILED)
		strata_munmap(to + sizeof(zeros), STRATA_ABI_USER_CHANNELS_OFFSET - sizeof(zeros));
}

/*
 * Replaces the mappings of the parent's channels, each of which begins with the parent's memory, by
 * zeros, since a record may be in the middle there; unmaps them if there are no zeros.
 */
static void leave_channels(void)
{
	struct strata_user_channel *channel = strata_runtime.largest;

	strata_runtime.largest = NULL;
	for (; channel; channel = channel->mapped_before)
		if (!put_zeros(channel->all, channel->all_bytes))
			strata_munmap(channel->all, channel->all_bytes);
}

/*
 * Returns whether this child shares its descriptors with its parent @pid, whose memory is behind @fd. Where the
 * kernel cannot be asked, a copy of it is then the parent's, too; where there is no room for one either, nobody can
 * tell. A program in a sandbox is not to be asked for calls that it does not expect.
 */
static int shares_descriptors(uint32_t pid, int fd)
{
	struct stat status;
	int copy, shares;
	long order;

	if (strata_sandboxed())
		return 0;
	order = strata_syscall(SYS_kcmp, getpid(), pid, KCMP_FILES, 0, 0);
	if (order >= 0)
		return !order;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, fd);
	if (copy < 0)
		return 0;
	shares = !strata_syscall(SYS_fstat, copy, (long)&status) &&
		 shared_with(pid, copy, status.st_ino);
	close(copy);
	return shares;
}

/*
 * Leaves a child without memory: puts zeros in the place of its parent's, in which nothing is on,
 * and closes the parent's descriptor, unless both share that. If @fd is there, whose name says why
 * there is no memory, it takes the descriptor's place.
 */
static void leave_parents_memory(int fd)
{
	struct stat status;
	uint32_t pid = strata_runtime.control->pid;
	int parents = strata_memory_fd();

	strata_runtime.without_memory = 1;
	if (!put_zeros(strata_runtime.memory, STRATA_ABI_USER_CHANNELS_OFFSET))
		move_zeros(strata_runtime.memory);
	if (fd >= 0 && !strata_syscall(SYS_fstat, fd, (long)&status)) {
		replace_fd(fd, status.st_ino, pid);
		return;
	}
	strata_runtime.fd = -1;
	if (parents >= 0 && !shares_descriptors(pid, parents))
		close(parents);
}

/*
 * Lets go of the memory when the runtime goes with its last object. Zeros take its place, in which
 * nothing is on, since threads of a program that ends may still test it. The kernel makes one
 * mapping of neighbouring zeros, however often the object comes and goes.
 */
void strata_memory_leave(void)
{
	int fd = strata_memory_fd();

	leave_channels();
	put_zeros(strata_runtime.memory, STRATA_ABI_USER_CHANNELS_OFFSET);
	strata_runtime.fd = -1;
	if (fd >= 0)
		close(fd);
	/* If the runtime stays after all, later events are not traced, nor are forks. */
	strata_runtime.without_memory = 1;
	__atomic_store_n(&strata_mapped.alive, 2, __ATOMIC_RELEASE);
}

/* Returns whether the memory is this process' own. After a fork, makes it so if that is possible. */
int strata_memory_own(void)
{
	int saved = errno;

	if (strata_unlikely(!__atomic_load_n(&strata_mapped.alive, __ATOMIC_ACQUIRE)))
		strata_memory_after_fork();
	errno = saved;
	return __atomic_load_n(&strata_mapped.alive, __ATOMIC_ACQUIRE) == 1;
}

/*
 * Makes the memory of a child in which no descriptor is free by that of its parent @pid, which the
 * child has as well and has no use for, unless both share their descriptors.
 */
static unsigned char *make_memory_by_parents(uint32_t pid, int *fd, uint64_t *inode)
{
	const int parents = strata_memory_fd();
	struct strata_user_way way;

	if (parents < 0 || shares_descriptors(pid, parents))
		return NULL;
	close(parents);
	strata_starter_find(&way);
	if (way.is_connected)
		return make_memory_last(&way, fd, inode);
	strata_runtime.fd = -1;
	return make_memory(fd, inode);
}

/* Announces this child to its tracers, with its memory, or with the reason why it has none. */
static void announce_child(void)
{
	struct strata_user_listeners listeners;
	struct strata_user_way way;

	strata_starter_find(&way);
	strata_listeners_find(&listeners, strata_announce_to_starter(&way), NULL, NULL);
	strata_announce_to_listeners(&listeners);
}

/*
 * Makes memory for the child of a fork() in the place of its parent's, so that all pointers to it stay valid. Until
 * then the child has no channel, and writes nothing. Calls that are safe in a signal handler only: it may be the
 * first record there that finds out.
 */
void strata_memory_after_fork(void)
{
	struct strata_abi_user_control *control;
	const uint32_t parent_pid = strata_runtime.control ? strata_runtime.control->pid : 0;
	uint32_t inherited, i, bytes;
	unsigned char *memory = NULL;
	uint64_t inode, dead = 0;
	int fd = -1, is_shut_in;

	/* A value other than 0 says that a thread is making the memory, or that this has failed. */
	if (!__atomic_compare_exchange_n(&strata_mapped.alive, &dead, 2, 0, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return;
	strata_modes_after_fork();
	strata_runtime.moved = 0;
	/* The parent had no memory, so the pages are zeros and no other process' memory. */
	if (strata_runtime.without_memory)
		return;
	leave_channels();
	is_shut_in = strata_sandboxed();
	if (!is_shut_in)
		memory = make_memory(&fd, &inode);
	if (!memory && !is_shut_in && lacks_descriptors())
		memory = make_memory_by_parents(parent_pid, &fd, &inode);
	if (!memory) {
		leave_parents_memory(fd);
		if (!is_shut_in)
			announce_child();
		return;
	}
	control = (struct strata_abi_user_control *)(void *)memory;
	memcpy(control, strata_runtime.control, sizeof(*control));
	/*
	 * ACQUIRE orders the reads, since the parent may go on meanwhile. The size is read last, so that it covers all
	 * that the copied numbers refer to.
	 */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	bytes = __atomic_load_n(&strata_runtime.control->descriptions_bytes, __ATOMIC_RELAXED);
	control->descriptions_bytes = bytes;
	control->magic = 0;
	control->claimed_sessions = 0;
	control->objects_unseen = 0;
	control->without_clock = strata_clock_for == STRATA_CLOCK_FOR_NOBODY ? UINT32_MAX : 0;
	control->parent_pid = control->pid;
	control->pid = (uint32_t)getpid();
	strata_time_namespace_look();
	control->started_ns = strata_now_ns();
	inherited = copy_sessions(memory);
	copy_states(memory, inherited);
	if (bytes > STRATA_ABI_USER_DESCRIPTIONS_BYTES)
		bytes = STRATA_ABI_USER_DESCRIPTIONS_BYTES;
	memcpy(memory + STRATA_ABI_USER_DESCRIPTIONS_OFFSET,
	       strata_runtime.memory + STRATA_ABI_USER_DESCRIPTIONS_OFFSET, bytes);
	if (strata_mremap(memory, STRATA_ABI_USER_CHANNELS_OFFSET, STRATA_ABI_USER_CHANNELS_OFFSET,
			  MREMAP_MAYMOVE | MREMAP_FIXED, strata_runtime.memory) == MAP_FAILED) {
		strata_munmap(memory, STRATA_ABI_USER_CHANNELS_OFFSET);
		close(fd);
		strata_runtime.memory_errno = ENOMEM;
		leave_parents_memory(-1);
		announce_child();
		return;
	}
	replace_fd(fd, inode, strata_runtime.control->parent_pid);
	strata_thread_after_fork();
	__atomic_store_n(&strata_mapped.alive, 1, __ATOMIC_RELEASE);
	for (i = 0; i < STRATA_ABI_USER_NR_SESSIONS; i++)
		if (inherited >> i & 1)
			strata_session_create(i);
	/* RELEASE publishes the memory: a tracer that sees the magic number sees everything above. */
	__atomic_store_n(&strata_runtime.control->magic, STRATA_ABI_USER_MAGIC, __ATOMIC_RELEASE);
	announce_child();
}
