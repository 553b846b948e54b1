/* SPDX-License-Identifier: MIT */
/*
 * context.c - the values of contexts: what a record says of its thread and process besides the payload.
 *
 * A question to the kernel takes longer than a whole record, so answers are kept with the thread. They hold until libstrata is
 * told of a change, by the functions of libc that it replaces, or the tracer changes the clock's slot (see NEVER below).
 *
 * A process that has shut itself in might be ended by a question to the kernel. Its records have the values of the time at
 * which their channel was mapped.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>

#include "context.h"

#define NR_IDS	      STRATA_USER_CONTEXT_IDS
#define NR_NAMESPACES STRATA_USER_CONTEXT_NAMESPACES

static const char namespaces[NR_NAMESPACES][7] = { "cgroup", "ipc",  "mnt",  "net",
						   "pid",    "time", "user", "uts" };

/*
 * The greatest size of each context, by STRATA_ABI_USER_CTX_* [byte]; 0 if there is no such
 * context.
 */
static const uint8_t bytes_of[] = {
	[STRATA_ABI_USER_CTX_VPID] = 4,
	[STRATA_ABI_USER_CTX_PROCNAME] = STRATA_ABI_USER_COMM_BYTES,
	[STRATA_ABI_USER_CTX_THREADNAME] = STRATA_ABI_USER_COMM_BYTES,
	[STRATA_ABI_USER_CTX_PTHREAD_ID] = 8,
	[STRATA_ABI_USER_CTX_CPU_ID] = 4,
	[STRATA_ABI_USER_CTX_VUID... STRATA_ABI_USER_CTX_VSGID] = 4,
	[STRATA_ABI_USER_CTX_IP] = 8,
	[STRATA_ABI_USER_CTX_CALLSTACK] = 4 + 8 * STRATA_ABI_USER_CALLSTACK_MAX,
	[STRATA_ABI_USER_CTX_CGROUP_NS... STRATA_ABI_USER_CTX_TASK_CLOCK] = 8,
	[STRATA_ABI_USER_CTX_CGROUP] = 8,
};

_Static_assert(sizeof(bytes_of) <= 32, "a context is a bit of a word");
_Static_assert(STRATA_ABI_USER_CTX_VSGID - STRATA_ABI_USER_CTX_VUID + 1 == NR_IDS, "ids");
_Static_assert(STRATA_ABI_USER_CTX_UTS_NS - STRATA_ABI_USER_CTX_CGROUP_NS + 1 == NR_NAMESPACES,
	       "namespaces");

static int may_ask(void)
{
	return !__atomic_load_n(&strata_runtime.shut_in, __ATOMIC_RELAXED);
}

/* Real, effective and saved: SYS_getresuid or SYS_getresgid. */
static void ask_ids(long call, uint32_t ids[3])
{
	if (strata_syscall(call, &ids[0], &ids[1], &ids[2]))
		memset(ids, 0, 3 * sizeof(ids[0]));
}

/*
 * Asks the kernel for the inode of a namespace of this thread. Returns 0 if it does not say. This
 * is slow, and done for each record only in a process that has called unshare() or setns(), which
 * change one thread.
 */
static uint64_t ask_namespace(uint32_t nr)
{
	char path[sizeof("/proc/thread-self/ns/cgroup")] = "/proc/thread-self/ns/";
	struct stat status;

	memcpy(path + strlen(path), namespaces[nr], strlen(namespaces[nr]) + 1);
	if (strata_syscall(SYS_newfstatat, AT_FDCWD, (long)path, (long)&status, 0))
		return 0;
	return status.st_ino;
}

static void ask_thread_name(char name[STRATA_ABI_USER_COMM_BYTES])
{
	memset(name, 0, STRATA_ABI_USER_COMM_BYTES);
	strata_syscall(SYS_prctl, PR_GET_NAME, (long)name, 0, 0, 0);
}

static uint32_t ask_pid(void)
{
	return (uint32_t)strata_syscall(SYS_getpid);
}

/* The name of the first thread, which is thread @pid. */
static void ask_process_name(char name[STRATA_ABI_USER_COMM_BYTES], uint32_t pid)
{
	long fd, n;

	if (strata_thread_id() == pid) {
		ask_thread_name(name);
		return;
	}
	memset(name, 0, STRATA_ABI_USER_COMM_BYTES);
	fd = strata_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/comm", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return;
	n = strata_syscall(SYS_read, fd, (long)name, STRATA_ABI_USER_COMM_BYTES - 1);
	strata_syscall(SYS_close, fd);
	if (n > 0 && name[n - 1] == '\n')
		name[n - 1] = '\0';
}

/* The folders in which control groups of version 2 may be mounted: alone, or beside version 1. */
static const char group_roots[][23] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

#define GROUPS_BYTES (16u << 10) /* of all that /proc says of them; a path is at most 4 KiB */

/* Reads what is in the file at @path, at most @room bytes. Returns how many. */
static uint64_t read_file(const char *path, char *to, uint64_t room)
{
	long fd = strata_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0), n;
	uint64_t bytes = 0;

	if (fd < 0)
		return 0;
	while ((n = strata_syscall(SYS_read, fd, (long)(to + bytes), room - bytes)) > 0)
		bytes += (uint64_t)n;
	strata_syscall(SYS_close, fd);
	return bytes;
}

/*
 * Finds the path of the group of version 2 in the @bytes of /proc/self/cgroup at @text, and ends it with a NUL. NULL:
 * there is none, or the group is outside of what this process sees.
 */
static char *path_of_group(char *text, uint64_t bytes)
{
	char *line = text, *end;

	for (; (end = (char *)memchr(line, '\n', bytes)); line = end + 1) {
		bytes -= (uint64_t)(end + 1 - line);
		*end = '\0';
		if (strncmp(line, "0::/", 4) != 0)
			continue;
		line += 3;
		return strcmp(line, "/..") != 0 && strncmp(line, "/../", 4) != 0 ? line : NULL;
	}
	return NULL;
}

/*
 * Returns the control group as bpf_get_current_cgroup_id() does: the inode of the group's folder; 0 if the process
 * does not see the folder.
 */
static uint64_t ask_cgroup(void)
{
	const uint64_t front = sizeof(group_roots[0]);
	struct statfs system;
	struct stat status;
	uint64_t found = 0;
	size_t i, length;
	char *text, *path;

	text = (char *)strata_mmap(NULL, GROUPS_BYTES, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (text == MAP_FAILED)
		return 0;
	path = path_of_group(text + front,
			     read_file("/proc/self/cgroup", text + front, GROUPS_BYTES - front));
	for (i = 0; path && !found && i < sizeof(group_roots) / sizeof(*group_roots); i++) {
		/* Puts the folder before the path, over text that is not needed any more. */
		length = strlen(group_roots[i]);
		memcpy(path - length, group_roots[i], length);
		if (!strata_syscall(SYS_statfs, (long)(path - length), (long)&system) &&
		    system.f_type == CGROUP2_SUPER_MAGIC &&
		    !strata_syscall(SYS_newfstatat, AT_FDCWD, (long)(path - length), (long)&status,
				    0))
			found = status.st_ino;
	}
	strata_munmap(text, GROUPS_BYTES);
	return found;
}

/*
 * The contexts of @session, checked. Returns 0, or -EINVAL: one of them is unknown, or there twice, and records that
 * its tracer can read cannot be written. errno may change.
 */
int strata_contexts_map(const struct strata_abi_user_session *session,
			struct strata_user_contexts *contexts)
{
	const uint32_t nr = __atomic_load_n(&session->nr_contexts, __ATOMIC_RELAXED);
	uint32_t i, kind, seen = 0;
	/* A filter may ask for names and ids that records have not. */
	const uint32_t is_asked = __atomic_load_n(&session->filter_bytes, __ATOMIC_RELAXED);

	contexts->nr = contexts->bytes_max = 0;
	if (!nr && !is_asked)
		return 0;
	if (nr > STRATA_ABI_USER_CONTEXTS_MAX)
		return -EINVAL;
	for (i = 0; i < nr; i++) {
		kind = __atomic_load_n(&session->contexts[i], __ATOMIC_RELAXED);
		if (kind >= sizeof(bytes_of) || !bytes_of[kind] || seen >> kind & 1)
			return -EINVAL;
		seen |= UINT32_C(1) << kind;
		contexts->kind[i] = (uint8_t)kind;
		contexts->bytes_max += bytes_of[kind];
		if (kind >= STRATA_ABI_USER_CTX_CGROUP_NS && kind <= STRATA_ABI_USER_CTX_UTS_NS)
			contexts->namespace[kind - STRATA_ABI_USER_CTX_CGROUP_NS] =
				ask_namespace(kind - STRATA_ABI_USER_CTX_CGROUP_NS);
	}
	if (is_asked || seen >> STRATA_ABI_USER_CTX_CGROUP & 1) {
		contexts->cgroup_told = &session->cgroup_id;
		contexts->cgroup = strata_load_relaxed(contexts->cgroup_told);
		/* Made by this process itself, or by a tracer that does not see it. */
		if (!contexts->cgroup)
			contexts->cgroup = ask_cgroup();
	}
	contexts->nr = nr;
	contexts->pid = ask_pid();
	contexts->told_of_names = strata_is_told_of_names();
	contexts->told_of_ids = strata_is_told_of_ids();
	ask_ids(SYS_getresuid, contexts->ids);
	ask_ids(SYS_getresgid, contexts->ids + 3);
	ask_process_name(contexts->process_name, contexts->pid);
	return 0;
}

/*
 * Values of names_at and ids_at below, in place of a moment(). The kernel's answers to a thread hold
 * until libstrata is told of a change, or the tracer changes the clock's slot, as it does at least
 * four times a second. So changes of which nobody tells are seen by then, such as a name that
 * another program has given. A signal handler that interrupts the asking asks for itself.
 */
#define NEVER  UINT64_C(0)
#define ASKING UINT64_C(1)

struct said {
	uint64_t names_at;
	uint64_t ids_at;
	char thread[STRATA_ABI_USER_COMM_BYTES];
	char process[STRATA_ABI_USER_COMM_BYTES];
	uint32_t ids[NR_IDS];
};

static STRATA_OF_THREAD struct said said;

/* Neither NEVER nor ASKING. */
static uint64_t moment(void)
{
	return strata_load_relaxed(&strata_runtime.control->clock_index) << 32 |
	       __atomic_load_n(&strata_told, __ATOMIC_RELAXED);
}

/*
 * Returns whether what the kernel tells this thread now may be kept for later records. @at:
 * names_at or ids_at of what is kept. Not while an interrupted function asks for the same, nor in
 * memory that is shared with the parent of a vfork().
 */
static int may_remember(const uint64_t *at)
{
	return strata_load_relaxed(&strata_runtime.control->clock_index) &&
	       __atomic_load_n(at, __ATOMIC_RELAXED) != ASKING && !strata_thread_is_vforked();
}

/* Values that were fetched for one record, so that contexts which need the same value fetch it once. */
struct values {
	const struct strata_user_contexts *mapped;
	uint64_t site;
	int may_ask;
	int has_moved;
	int has_users;
	int has_groups;
	int has_usage;
	uint32_t ids[NR_IDS];
	struct rusage usage;
};

/* Returns the address of the site, which is known if the tracepoint has only one. */
static uint64_t site_of(const struct strata_abi_user_state *state,
			const struct strata_caller *caller)
{
	const uint64_t at = state->sites;
	struct strata_abi_user_site site;

	if (state->nr_sites != 1 || at + sizeof(site) > STRATA_ABI_USER_DESCRIPTIONS_BYTES)
		return caller->address;
	memcpy(&site, strata_runtime.memory + STRATA_ABI_USER_DESCRIPTIONS_OFFSET + at,
	       sizeof(site));
	return site.address;
}

static uint32_t cpu_now(void)
{
	unsigned cpu = 0;

	/* libc would return the CPU of the child's parent. */
	if (!strata_thread_is_vforked())
		return (uint32_t)strata_ring_sched_getcpu();
	if (may_ask())
		strata_syscall(SYS_getcpu, &cpu, NULL, NULL);
	return cpu;
}

static uint64_t usage_of(struct values *values, uint32_t kind)
{
	const struct rusage *usage = &values->usage;
	struct timespec time = { 0, 0 };

	if (!values->may_ask)
		return 0;
	if (kind == STRATA_ABI_USER_CTX_TASK_CLOCK) {
		strata_syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &time);
		return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
	}
	if (!values->has_usage) {
		memset(&values->usage, 0, sizeof(values->usage));
		strata_syscall(SYS_getrusage, RUSAGE_THREAD, &values->usage);
		values->has_usage = 1;
	}
	switch (kind) {
	case STRATA_ABI_USER_CTX_MINOR:
		return (uint64_t)usage->ru_minflt;
	case STRATA_ABI_USER_CTX_MAJOR:
		return (uint64_t)usage->ru_majflt;
	case STRATA_ABI_USER_CTX_SWITCHES:
		return (uint64_t)usage->ru_nvcsw + (uint64_t)usage->ru_nivcsw;
	default:
		return (uint64_t)usage->ru_minflt + (uint64_t)usage->ru_majflt;
	}
}

static void remember_ids(void)
{
	const uint64_t now = moment();

	if (strata_likely(__atomic_load_n(&said.ids_at, __ATOMIC_RELAXED) == now))
		return;
	__atomic_store_n(&said.ids_at, ASKING, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	ask_ids(SYS_getresuid, said.ids);
	ask_ids(SYS_getresgid, said.ids + 3);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&said.ids_at, now, __ATOMIC_RELAXED);
}

static uint32_t id_of(struct values *values, uint32_t nr)
{
	if (!values->may_ask)
		return values->mapped->ids[nr];
	if (values->mapped->told_of_ids && may_remember(&said.ids_at)) {
		remember_ids();
		return said.ids[nr];
	}
	if (nr < 3 && !values->has_users) {
		ask_ids(SYS_getresuid, values->ids);
		values->has_users = 1;
	} else if (nr >= 3 && !values->has_groups) {
		ask_ids(SYS_getresgid, values->ids + 3);
		values->has_groups = 1;
	}
	return values->ids[nr];
}

/* The tracer follows where the process is moved to. */
static uint64_t cgroup_of(const struct values *values)
{
	const uint64_t told = strata_load_relaxed(values->mapped->cgroup_told);

	return told ? told : values->mapped->cgroup;
}

/* Between vfork() and exec the child has its parent's memory. */
static uint32_t pid_of(const struct values *values)
{
	return strata_thread_is_vforked() && values->may_ask ? ask_pid() : values->mapped->pid;
}

static void remember_names(uint32_t pid)
{
	const uint64_t now = moment();

	if (strata_likely(__atomic_load_n(&said.names_at, __ATOMIC_RELAXED) == now))
		return;
	__atomic_store_n(&said.names_at, ASKING, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	ask_thread_name(said.thread);
	if (strata_thread_id() == pid)
		memcpy(said.process, said.thread, sizeof(said.process));
	else
		ask_process_name(said.process, pid);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&said.names_at, now, __ATOMIC_RELAXED);
}

static unsigned char *put_names(const struct values *values, uint32_t kind, unsigned char *to)
{
	char name[STRATA_ABI_USER_COMM_BYTES];

	if (values->may_ask && values->mapped->told_of_names && may_remember(&said.names_at)) {
		remember_names(values->mapped->pid);
		memcpy(to, kind == STRATA_ABI_USER_CTX_PROCNAME ? said.process : said.thread,
		       sizeof(name));
		return to + sizeof(name);
	}
	if (kind == STRATA_ABI_USER_CTX_PROCNAME && !values->may_ask) {
		memcpy(name, values->mapped->process_name, sizeof(name));
	} else if (!values->may_ask) {
		memset(name, 0, sizeof(name));
	} else if (kind == STRATA_ABI_USER_CTX_PROCNAME) {
		ask_process_name(name, values->mapped->pid);
	} else {
		ask_thread_name(name);
	}
	memcpy(to, name, sizeof(name));
	return to + sizeof(name);
}

static unsigned char *put_callstack(const struct values *values, const struct strata_caller *caller,
				    unsigned char *to)
{
	uint64_t addresses[1 + STRATA_ABI_USER_CALLSTACK_MAX];
	uint32_t nr = 1;

	addresses[0] = values->site;
	nr += strata_callstack(addresses + 1, caller);
	if (nr > STRATA_ABI_USER_CALLSTACK_MAX)
		nr = STRATA_ABI_USER_CALLSTACK_MAX;
	memcpy(to, &nr, sizeof(nr));
	memcpy(to + sizeof(nr), addresses, nr * sizeof(addresses[0]));
	return to + sizeof(nr) + nr * sizeof(addresses[0]);
}

static unsigned char *put_four(unsigned char *to, uint32_t value)
{
	memcpy(to, &value, sizeof(value));
	return to + sizeof(value);
}

static unsigned char *put_eight(unsigned char *to, uint64_t value)
{
	memcpy(to, &value, sizeof(value));
	return to + sizeof(value);
}

static unsigned char *put_one(struct values *values, uint32_t kind, unsigned char *to,
			      const struct strata_caller *caller)
{
	const uint32_t namespace = kind - STRATA_ABI_USER_CTX_CGROUP_NS;

	switch (kind) {
	case STRATA_ABI_USER_CTX_VPID:
		return put_four(to, pid_of(values));
	case STRATA_ABI_USER_CTX_PROCNAME:
	case STRATA_ABI_USER_CTX_THREADNAME:
		return put_names(values, kind, to);
	case STRATA_ABI_USER_CTX_PTHREAD_ID:
		return put_eight(to, (uint64_t)(uintptr_t)__builtin_thread_pointer());
	case STRATA_ABI_USER_CTX_CPU_ID:
		return put_four(to, cpu_now());
	case STRATA_ABI_USER_CTX_IP:
		return put_eight(to, values->site);
	case STRATA_ABI_USER_CTX_CALLSTACK:
		return put_callstack(values, caller, to);
	case STRATA_ABI_USER_CTX_CGROUP:
		return put_eight(to, cgroup_of(values));
	default:
		break;
	}
	if (kind >= STRATA_ABI_USER_CTX_VUID && kind <= STRATA_ABI_USER_CTX_VSGID)
		return put_four(to, id_of(values, kind - STRATA_ABI_USER_CTX_VUID));
	if (namespace < NR_NAMESPACES)
		return put_eight(to, values->may_ask && values->has_moved ?
					     ask_namespace(namespace) :
					     values->mapped->namespace[namespace]);
	return put_eight(to, usage_of(values, kind));
}

static void begin(struct values *values, const struct strata_user_contexts *contexts)
{
	values->mapped = contexts;
	values->site = 0;
	values->may_ask = may_ask();
	values->has_moved = !!__atomic_load_n(&strata_runtime.moved, __ATOMIC_RELAXED);
	values->has_users = values->has_groups = values->has_usage = 0;
}

/*
 * Returns a context for a filter: a number, or the length of a name whose bytes are written to
 * @text. Keeps errno.
 */
uint64_t strata_contexts_ask(const struct strata_user_contexts *contexts, uint32_t kind, char *text)
{
	static const struct strata_caller nobody;
	unsigned char bytes[4 + 8 * STRATA_ABI_USER_CALLSTACK_MAX];
	int saved = errno;
	struct values values;
	uint64_t eight = 0;
	uint32_t four;

	begin(&values, contexts);
	put_one(&values, kind, bytes, &nobody);
	errno = saved;
	if (text) {
		memcpy(text, bytes, STRATA_ABI_USER_COMM_BYTES);
	} else if (bytes_of[kind] == 4) {
		memcpy(&four, bytes, sizeof(four));
		eight = kind == STRATA_ABI_USER_CTX_VPID ? (uint64_t)(int64_t)(int32_t)four : four;
	} else {
		memcpy(&eight, bytes, sizeof(eight));
	}
	return eight;
}

/* The values at @to, where there is room for .bytes_max. Returns their end. errno stays. */
unsigned char *strata_contexts_put(const struct strata_user_contexts *contexts, unsigned char *to,
				   const struct strata_abi_user_state *state,
				   const struct strata_caller *caller)
{
	struct values values;
	int saved = errno;
	uint32_t i;

	begin(&values, contexts);
	values.site = site_of(state, caller);
	for (i = 0; i < contexts->nr; i++)
		to = put_one(&values, contexts->kind[i], to, caller);
	errno = saved;
	return to;
}
