/* SPDX-License-Identifier: MIT */
/*
 * runtime.h - declarations that the files of libstrata share. The way of the data:
 *
 *   objects.c        an object is loaded: its tracepoints are described in the process' memory
 *   loaded_objects.c what is loaded besides is noted there, too
 *   memory.c         that memory: one sealed memfd, also after fork()
 *   environment.c    a tracer started this program: what it wants
 *   patch_sites.c    opcodes of call sites, changed from inside
 *   announce.c       the memfd is handed to whoever listens
 *   session.c        a session's channel: made, or mapped at the first record
 *   filter.c         what a session's filter selects: filter.h checks it, filter_bind.h binds it to a tracepoint,
 *                    filter_test.h tests an event by filter_compare.h, filter_select.h is what records ask
 *   context.c        what records say of their moment, callstack.c who has called
 *   spans.c          begins of spans that are recorded at their end
 *   record.c         a record is written; fast_path.h is the short way of most
 *   events.c         classes that a program makes at run time, values.c their records
 *   vfork.c          the same between vfork() and exec
 *   thread.c         by which thread
 *   thread_names.c   threads are named
 *   modes.c          threads that may not read the clock, processes that shut themselves in
 *   interpose.c      prctl(), syscall(), vfork(), unshare(), setuid() and the like, which tell these
 *
 * The runtime is passive: no thread, nothing open but the memfd, no system call once a session's
 * channel is mapped. Nothing here ends, blocks or slows down the program it is in: what fails is
 * counted or noted in the shared memory, and tracing stays off.
 */
#ifndef STRATA_RUNTIME_H
#define STRATA_RUNTIME_H

#include <stddef.h>

#define STRATA_HIDDEN __attribute__((visibility("hidden")))

/* A copy of libc's __rseq_offset that is quicker to reach. vfork.c has another one. */
extern ptrdiff_t strata_rseq_offset STRATA_HIDDEN;
#ifndef STRATA_RSEQ_OFFSET
#define STRATA_RSEQ_OFFSET strata_rseq_offset
#endif

#include <strata/ring/one_section.h>
#include <strata/ring/ring.h>
#include <strata/user/object.h>

/*
 * The data that the fast path of a record reads. The kernel wipes it in a child, as all of
 * strata_user_mapped. So a child that was made by the bare system call, in a handler within its
 * parent's record, finds no stream when it goes on, and takes the slow path.
 */
struct strata_user_short {
	struct strata_ring_once once; /* its context is the record's thread, see thread.h */
	uint32_t id_at;	      /* of the session's id in struct strata_abi_user_state [byte] */
	uint32_t session_bit; /* 1 << slot */
};

/*
 * Counts the changes that interpose.c has reported to libstrata, after which contexts are fetched again. Never 0 or
 * 1.
 */
extern uint32_t strata_told STRATA_HIDDEN;
STRATA_HIDDEN int strata_is_told_of_names(void);
STRATA_HIDDEN int strata_is_told_of_ids(void);
STRATA_HIDDEN void strata_interpose_begin(void);

STRATA_INLINE void strata_tell(void)
{
	__atomic_fetch_add(&strata_told, 1, __ATOMIC_SEQ_CST);
}

#define STRATA_USER_CONTEXT_IDS	       6u
#define STRATA_USER_CONTEXT_NAMESPACES 8u

/*
 * The contexts of a session, and the values that were valid when the session's channel was mapped;
 * see context.c.
 */
struct strata_user_contexts {
	uint32_t nr;
	uint32_t bytes_max; /* of a record's contexts */
	uint8_t kind[STRATA_ABI_USER_CONTEXTS_MAX];
	uint32_t pid;
	int told_of_names; /* libstrata is, of what changes them */
	int told_of_ids;
	uint32_t ids[STRATA_USER_CONTEXT_IDS];
	uint64_t namespace[STRATA_USER_CONTEXT_NAMESPACES];
	const uint64_t *cgroup_told; /* what the tracer says, while it does; 0: nothing */
	uint64_t cgroup;
	char process_name[STRATA_ABI_USER_COMM_BYTES];
};

/*
 * A session's channel as this process has mapped it. Never changed or freed once others can see it:
 * threads may be using it at any time.
 */
struct strata_user_channel {
	_Alignas(STRATA_ABI_RING_PAGE) struct strata_user_short one_section;
	/* Data for the slow path, which a child may be in the middle of. */
	_Alignas(STRATA_ABI_RING_PAGE) struct strata_ring_channel ring;
	struct strata_ring_once once;		 /* as .one_section has it */
	uint64_t generation;			 /* of the session slot */
	int large_header;			 /* record headers are "large" */
	const struct strata_ring_config *config; /* one of strata_user_configs */
	uint32_t slot;
	uint32_t session_bit;
	const struct strata_abi_user_session *session;
	struct strata_user_filter *filter; /* NULL: all events are recorded; see filter_select.h */
	struct strata_user_spans *spans;   /* if the filter asks for the duration; see spans.h */
	uint32_t careful;		   /* 1: there are spans or contexts */
	struct strata_user_contexts contexts;
	uint64_t discarded; /* since a look at the tracer's heartbeat; only a hint */
	unsigned char *all; /* the mapping that it lies in: the memfd from its start */
	uint64_t all_bytes;
	struct strata_user_channel *mapped_before; /* which brought the mapping before this one's */
};

/*
 * Pointers to channels, which fork() must not copy. The page is wiped in the child
 * (MADV_WIPEONFORK), so that even a child made by the bare system call never writes to its parent's
 * buffers.
 */
struct strata_user_mapped {
	_Alignas(STRATA_ABI_RING_PAGE)
		uint64_t alive; /* 1; 0 in a child that has not made its own memory yet */
	/*
	 * The channel with publication by write position that was mapped last, which has the fast path; and the last
	 * one with a filter or contexts.
	 */
	struct strata_user_channel *common;
	struct strata_user_channel *asked;
	struct strata_user_channel *channel[STRATA_ABI_USER_NR_SESSIONS];
};

/* sockaddr_un.sun_path has room for so many, with a NUL. */
#define STRATA_USER_SOCKET_NAME_BYTES 108u

/* The sockets of the tracer that has started this program; all the same to it. */
struct strata_user_starter {
	int socket;	/* inherited, unless another inode is there; -1: nobody has started us */
	uint64_t inode; /* of .socket */
	char path[STRATA_USER_SOCKET_NAME_BYTES]; /* "": none */
	char name[STRATA_USER_SOCKET_NAME_BYTES]; /* abstract; "": none */
	uint64_t generation;			  /* of the session that it wants; 0: none */
};

struct strata_runtime {
	unsigned char *memory; /* the memfd from its start; NULL: tracing is off in this process */
	struct strata_abi_user_control *control;
	struct strata_abi_user_session *sessions;
	struct strata_abi_user_state *states;
	struct strata_user_channel *largest; /* atomic; who brought the last mapping */
	int fd;				     /* may have been closed by the program: see .inode */
	uint64_t inode;
	int memory_errno; /* of the last try to make the memory */
	int seccomp;	  /* the mode in which the process began, or -1 */
	uint32_t moved;	  /* 1: a thread of it may be in other namespaces than it began in */
	uint32_t shut_in; /* seccomp filters that it has asked for since, as far as is known */
	int without_memory; /* a fork that could not make its own, one that has left it, or a fork of these */
	uint32_t sites_by_flag; /* 1: all sites test .enabled: nobody may patch us later */
	struct strata_user_starter starter;
	struct strata_object *objects;
};

extern struct strata_runtime strata_runtime STRATA_HIDDEN;
extern struct strata_user_mapped strata_mapped STRATA_HIDDEN;

/* The session slots that may be in use, as bits. */
STRATA_INLINE uint32_t strata_sessions_claimed(void)
{
	return __atomic_load_n(&strata_runtime.control->claimed_sessions, __ATOMIC_SEQ_CST);
}

/* Returns the second place for the rules of a session. */
STRATA_INLINE char *strata_other_rules(unsigned char *memory, uint32_t slot)
{
	return (char *)memory + STRATA_ABI_USER_RULES_OFFSET + (uint64_t)slot * 4096;
}

/* A tracer's request for a session: see STRATA_ABI_USER_ENVIRONMENT and STRATA_ABI_USER_REQUEST. */
struct strata_user_request {
	uint64_t generation;
	uint64_t subbuf_bytes;
	uint32_t nr_subbufs;
	uint32_t flags; /* STRATA_ABI_USER_SESSION_* */
	uint64_t clock_multiplier;
	const char *filter; /* in hexadecimal */
	size_t filter_bytes;
	const char *contexts; /* likewise */
	size_t nr_contexts;
	const char *rules;
	size_t rules_bytes;
};

/* To the tracer that has started this program. */
struct strata_user_way {
	int socket;	  /* -1: there is none */
	int is_connected; /* by us, and is closed behind the announcement */
	int is_told;	  /* the tracer has heard already, and looks for the memory */
};

/* Most listening tracers that wait to be told of this process; further ones find it by searching. */
#define STRATA_USER_LISTENERS_MAX 64
struct strata_user_listeners {
	int nr;
	struct {
		int socket;
		int slot; /* of the session that it wanted from the begin; -1: none */
	} of[STRATA_USER_LISTENERS_MAX];
};

/*
 * Makes a session that a listener wants. Returns its slot; -1: it could not be made.
 */
typedef int strata_user_request_fn(const struct strata_user_request *request, void *context);

/* Functions of memory.c */
STRATA_HIDDEN int strata_memory_create(struct strata_user_way *way);
STRATA_HIDDEN void strata_memory_after_fork(void);
STRATA_HIDDEN int strata_memory_own(void);
STRATA_HIDDEN void strata_memory_leave(void);
STRATA_HIDDEN int strata_sandboxed(void);
STRATA_HIDDEN int strata_memory_fd(void);
STRATA_HIDDEN int strata_memory_is(int fd, uint64_t inode);

/*
 * The time that the process' time namespace adds to the machine's CLOCK_MONOTONIC [ns]; mostly 0.
 * Records have the machine's time, as those of the kernel and of all other programs.
 */
extern int64_t strata_time_namespace_ns STRATA_HIDDEN;
STRATA_HIDDEN void strata_time_namespace_look(void);

/* The machine's CLOCK_MONOTONIC [ns], where the thread may read the clock. */
STRATA_INLINE uint64_t strata_machine_ns(void)
{
	return strata_clock_monotonic_ns() -
	       (uint64_t)__atomic_load_n(&strata_time_namespace_ns, __ATOMIC_RELAXED);
}

/*
 * modes.c - what a program does to itself that a record does not survive: a thread in seccomp's strict
 * mode, or with PR_TSC_SIGSEGV, may not read the CPU's counter, and the former may call nothing.
 */
#define STRATA_CLOCK_FOR_ALL	 0u
#define STRATA_CLOCK_NOT_FOR_ALL 1u /* not for the threads that are noted in modes.c */
#define STRATA_CLOCK_FOR_NOBODY	 2u

extern uint32_t strata_clock_for STRATA_HIDDEN;
extern struct strata_user_channel strata_no_channel STRATA_HIDDEN;

STRATA_HIDDEN void strata_modes_begin(void);
STRATA_HIDDEN void strata_modes_after_fork(void);
STRATA_HIDDEN int strata_thread_without_clock(void);
STRATA_HIDDEN void strata_count_without_clock(uint32_t sessions);
STRATA_HIDDEN uint64_t strata_now_ns(void);
STRATA_HIDDEN long strata_noted_call(long call, long a, long b, long c, long d, long e);

/* Returns whether this thread may not read the clock. Costs one load if all threads may. */
STRATA_INLINE int strata_without_clock(void)
{
	return strata_unlikely(__atomic_load_n(&strata_clock_for, __ATOMIC_RELAXED)) &&
	       strata_thread_without_clock();
}

/* Functions of objects.c */
STRATA_HIDDEN void strata_objects_by_flag(void);
STRATA_HIDDEN int strata_objects_has_own(struct strata_tracepoint *t);

/* Functions of loaded_objects.c */
STRATA_HIDDEN int strata_loaded_look(const void *self);
STRATA_HIDDEN void strata_loaded_goes(const void *self);

/* Calls libc's syscall() by interpose.c, whatever function of that name the program has. */
#if defined(__x86_64__) && !defined(__ILP32__)
STRATA_HIDDEN long strata_syscall(long call, ...);
#else
#define strata_syscall syscall
#endif

/*
 * Maps memory without libc's function, since a program may have its own, with tracepoints in it.
 * Sets errno, as that does.
 */
STRATA_INLINE void *strata_mmap(void *at, uint64_t bytes, int protection, int flags, int fd)
{
	return (void *)strata_syscall(SYS_mmap, at, bytes, protection, flags, fd, 0);
}

STRATA_INLINE int strata_munmap(void *at, uint64_t bytes)
{
	return (int)strata_syscall(SYS_munmap, at, bytes);
}

STRATA_INLINE void *strata_mremap(void *at, uint64_t old_bytes, uint64_t bytes, int flags, void *to)
{
	return (void *)strata_syscall(SYS_mremap, at, old_bytes, bytes, flags, to);
}

/* Functions of environment.c */
STRATA_HIDDEN uint32_t strata_environment_request(struct strata_user_request *request,
						  struct strata_user_starter *starter);
STRATA_HIDDEN int strata_environment_request_of(const char *text,
						struct strata_user_request *request);
STRATA_HIDDEN void strata_environment_bytes(const char *text, size_t nr, unsigned char *to);
STRATA_HIDDEN int strata_environment_says(const char *name, const char *value);

/* Functions of patch_sites.c */
STRATA_HIDDEN int strata_patch_begin(void);
STRATA_HIDDEN int strata_patch_site(int memory, const struct strata_abi_user_site *site,
				    unsigned char opcode);
STRATA_HIDDEN void strata_patch_end(int memory);

/* Functions of announce.c */
STRATA_HIDDEN int strata_starter_find(struct strata_user_way *way);
STRATA_HIDDEN int strata_announce_to_starter(struct strata_user_way *way);
STRATA_HIDDEN void strata_listeners_find(struct strata_user_listeners *listeners, int knows_starter,
					 strata_user_request_fn *make, void *context);
STRATA_HIDDEN void strata_announce_to_listeners(struct strata_user_listeners *listeners);

/* Functions of session.c */
STRATA_HIDDEN int strata_session_create(uint32_t slot);
STRATA_HIDDEN void strata_session_free(uint32_t slot);
STRATA_HIDDEN struct strata_user_channel *strata_session_map(uint32_t slot);
STRATA_HIDDEN void strata_session_prepare(uint32_t slot);

/* Functions of record.c */
STRATA_HIDDEN extern const struct strata_ring_config strata_user_configs[4];

STRATA_INLINE const struct strata_ring_config *strata_user_config(uint32_t loss_mode, int large)
{
	return &strata_user_configs[(loss_mode == STRATA_ABI_RING_OVERWRITE ? 2 : 0) +
				    (large ? 1 : 0)];
}

#endif /* STRATA_RUNTIME_H */
