/* SPDX-License-Identifier: MIT */
/*
 * syscalls.bpf.c - records the entry and the exit of system calls.
 *
 * Two programs run at each call of the machine, so most of this file is about doing as little as possible; of calls that are
 * wanted only if they waited, none does (waited_calls.bpf.h). The tracer fills
 * `syscalls`: for each call, by its number, which ends are recorded, with which ids, and what each argument is.
 *
 *   strata_sys_enter ─ early tests ─┬─ record_entry: numbers go from the registers into the ring
 *                                   ├─ the same, assembled: an argument is a text, an address or a structure
 *                                   └─ begin_slow: nothing is written; the call's begin is noted with the task
 *   strata_sys_exit  ─ early tests ─┬─ record_exit, with the outputs of the call
 *                                   ├─ record_unread: arguments that were not in memory at the entry
 *                                   └─ record_slow: both ends, if the call took long enough
 *
 * If all arguments are numbers, the record's size is known and it is written in place. Otherwise a subprogram puts the
 * payload together in memory of this CPU, since the size is known only then. Neither program is run inside itself, and
 * none is preempted, so that this memory has one user at a time. Many calls have one such argument, of a known size or a
 * NULL; these are written in place, too: calls_in_place.bpf.h.
 *
 * Memory of a program may not be present at the entry: a program of this kind may not wait for a page. The argument is then
 * noted with its task (`unread`), read at the exit, when the kernel itself has touched it, and recorded before the exit as
 * a `syscall_text`, `syscall_address` or `syscall_memory`. What cannot be read then, either, is counted.
 *
 * Numbers of calls are those of the machine. A 32-bit program's call has its own table, at COMPAT; x32 calls and unknown ones
 * share the last place. At an exit the number is the kernel's, which has set that of rt_sigreturn to -1.
 *
 * The verifier limits how this is written. Functions that are not inlined have stacks of their own, and the chain of calls
 * down to the ring's reservation has as many frames as there may be. Bounds are put on numbers of 64 bits, by masks.
 */
#define STRATA_SAMPLES_CALLS 1
#include "record.bpf.h"
#include "core.bpf.h"
#include "user_memory.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* The tracer adds calls while programs run. */
volatile struct strata_abi_kernel_syscall
	syscalls[STRATA_ABI_KERNEL_SYSCALLS] SEC(".data.syscalls");

#define UNKNOWN	  STRATA_ABI_KERNEL_UNKNOWN
#define COMPAT	  STRATA_ABI_KERNEL_COMPAT
#define MAX_ERRNO 4095
#define NO_CALL	  (-38) /* ENOSYS */

#define INTERRUPTED (-4)   /* EINTR */
#define RESTARTED   (-516) /* ERESTART_RESTARTBLOCK: what a program sees as EINTR, or not at all */

#define COMPAT_EXECVE	(COMPAT + STRATA_ARCH_COMPAT_EXECVE)
#define COMPAT_EXECVEAT (COMPAT + STRATA_ARCH_COMPAT_EXECVEAT)

/*
 * Arguments of each task's present call that could not be read at its entry. They are read again
 * when the call returns: the kernel has touched their memory since.
 */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct strata_unread);
} unread SEC(".maps");

/* One system call, in the form that the programs for entry and exit share. */
struct call {
	const volatile struct strata_abi_kernel_syscall *syscall;
	uint64_t pid_tgid;
	uint32_t nr;
};

STRATA_INLINE int is_compat(void)
{
	return STRATA_ARCH_IS_COMPAT(strata_current());
}

STRATA_INLINE uint64_t place_of_compat(uint32_t nr)
{
	uint64_t place = strata_opaque((uint64_t)nr + COMPAT);

	return place < STRATA_ABI_KERNEL_COMPAT_UNKNOWN ? place : STRATA_ABI_KERNEL_COMPAT_UNKNOWN;
}

/* Returns the place of a call in `syscalls` by its number, as find() does. */
STRATA_INLINE uint32_t place_of(uint32_t nr)
{
	if (is_compat())
		return (uint32_t)place_of_compat(nr);
	return nr < COMPAT ? nr : UNKNOWN;
}

STRATA_INLINE const volatile struct strata_abi_kernel_syscall *call_at(uint32_t place)
{
	return &syscalls[strata_opaque(place) & UNKNOWN];
}

/*
 * Finds the call in `syscalls`. Calls of 32-bit programs have numbers of their own. The last place
 * is that of unknown calls. @returns: 1 at the exit of a call, at which the kernel has set the
 * number of rt_sigreturn to -1.
 */
STRATA_INLINE void find(struct call *call, uint64_t nr, int returns)
{
	const struct task_struct *task = strata_current();
	uint64_t index = nr & 0xffffffff;

	call->pid_tgid = (uint64_t)(uint32_t)task->tgid << 32 | (uint32_t)task->pid;
	call->nr = (uint32_t)nr;
	if (STRATA_ARCH_IS_COMPAT(task)) {
		index = place_of_compat(call->nr);
	} else if (index >= COMPAT) {
		index = UNKNOWN;
		if (returns && call->nr == UINT32_MAX) {
			call->nr = STRATA_ARCH_RT_SIGRETURN;
			index = STRATA_ARCH_RT_SIGRETURN;
		}
	}
	call->syscall = &syscalls[index];
}

/* Finds the call at whose exit this is. */
STRATA_INLINE void find_returning(struct call *call, const unsigned long long *context)
{
	const struct pt_regs *regs = (const struct pt_regs *)context[0];
	uint64_t nr = (uint64_t)strata_arch_call(regs);
	int compat = is_compat();

	if (!context[1] && strata_arch_has_executed(regs, compat))
		nr = compat ? STRATA_ARCH_COMPAT_EXECVE : STRATA_ARCH_EXECVE;
	find(call, nr, (int64_t)context[1] != NO_CALL);
}

/*
 * Tests the switches for the present call, as strata_is_on_now() does for an event. @which: 0 at
 * its entry, 1 at its exit.
 */
static __attribute__((noinline)) int is_on_now(const unsigned long long *context, uint32_t on,
					       uint32_t which)
{
	const uint32_t wanted = which ? STRATA_ABI_KERNEL_CALL_EXIT |
						STRATA_ABI_KERNEL_CALL_MEMORY :
					STRATA_ABI_KERNEL_CALL_ENTRY;
	struct call call;

	if (which)
		find_returning(&call, context);
	else
		find(&call, context[1], 0);
	if (!(call.syscall->flags & STRATA_ABI_KERNEL_CALL_MOVES))
		on &= ~(STRATA_ABI_KERNEL_ON_TELLS | STRATA_ABI_KERNEL_ON_ASKS);
	/* Calls that are not recorded need no test whether their process is tracked. */
	if (!STRATA_HAS_TURNS(on) && !(call.syscall->flags & wanted))
		return 0;
	return on && strata_is_on_now(on);
}

STRATA_INLINE int is_on(const unsigned long long *context, uint32_t which)
{
	uint32_t on = strata_switch();

	return on == STRATA_ABI_KERNEL_ON || on && is_on_now(context, on, which);
}

/* Notes that a call is rejected: see strata_rejected(). */
STRATA_INLINE void rejected(const unsigned long long *context, uint32_t which)
{
	uint32_t on;

	if (!STRATA_IS_EARLY || !STRATA_ONCE(uint16_t, control.changing))
		return;
	on = strata_switch();
	if (STRATA_HAS_TURNS(on))
		is_on_now(context, on, which);
}

/* Reads the arguments of a call. Those of a 32-bit program have 32 bits, and may be in other registers. */
STRATA_INLINE void read_arguments(const struct pt_regs *regs, uint64_t argument[6])
{
	uint64_t i;

	if (is_compat()) {
#pragma clang loop unroll(full)
		for (i = 0; i < 6; i++)
			argument[i] = strata_arch_compat_argument(regs, i);
		return;
	}
#pragma clang loop unroll(full)
	for (i = 0; i < 6; i++)
		argument[i] = strata_arch_argument(regs, i);
}

STRATA_INLINE void write_number(unsigned char *to,
				const volatile struct strata_abi_kernel_syscall *s, uint32_t i,
				uint64_t argument)
{
	if (s->kind[i] == STRATA_ABI_KERNEL_ARG_U64)
		*(volatile uint64_t *)(void *)(to + s->offset[i]) = argument;
	else if (s->kind[i] == STRATA_ABI_KERNEL_ARG_U32)
		*(volatile uint32_t *)(void *)(to + s->offset[i]) = (uint32_t)argument;
}

/* Writes the payload of a call that has only numbers as arguments; nothing after the last argument is read. */
STRATA_INLINE void write_numbers(unsigned char *to,
				 const volatile struct strata_abi_kernel_syscall *s,
				 const struct pt_regs *regs)
{
	uint32_t n = s->nr_args;

	if (n < 1)
		return;
	write_number(to, s, 0, strata_arch_argument(regs, 0));
	if (n < 2)
		return;
	write_number(to, s, 1, strata_arch_argument(regs, 1));
	if (n < 3)
		return;
	write_number(to, s, 2, strata_arch_argument(regs, 2));
	if (n < 4)
		return;
	write_number(to, s, 3, strata_arch_argument(regs, 3));
	if (n < 5)
		return;
	write_number(to, s, 4, strata_arch_argument(regs, 4));
	if (n < 6)
		return;
	write_number(to, s, 5, strata_arch_argument(regs, 5));
}

/* Writes the number and the interface of an unknown call before its arguments. */
STRATA_INLINE unsigned char *write_unknown(unsigned char *to, uint32_t nr)
{
	uint32_t abi = is_compat() ? STRATA_ARCH_ABI_COMPAT : STRATA_ARCH_ABI(nr);

	*(volatile uint32_t *)(void *)to = nr;
	*(volatile uint32_t *)(void *)(to + 4) = abi;
	return to + 8;
}

/* Records the payload that was assembled in the CPU's memory. Returns 1 if it was recorded. */
STRATA_GLOBAL int record_assembled(uint32_t id)
{
	struct strata_scratch *scratch = strata_scratch();
	struct strata_record r;
	unsigned char *to;
	uint64_t bytes;

	if (!scratch)
		return 0;
	/*
	 * A number of 64 bits: verifiers before 5.16 forget the bounds of shorter ones that are on
	 * the stack meanwhile.
	 */
	bytes = strata_opaque(scratch->at);
	if (bytes > STRATA_SCRATCH_MAX)
		return 0;
	to = strata_record_begin(&r, id, bpf_get_current_pid_tgid(), (uint32_t)bytes);
	if (!to)
		return 0;
	bpf_probe_read_kernel(to, (uint32_t)bytes, scratch->bytes);
	strata_record_end_here(&r);
	return 1;
}

STRATA_INLINE void count_unread(uint64_t n)
{
	__sync_fetch_and_add(&control.unreadable, n);
}

/*
 * Takes the mark of a call with arguments that were not read from its task. Returns their number.
 */
STRATA_INLINE uint32_t take_mark(struct strata_unread *mark)
{
	uint32_t n = mark->nr_arguments;

	mark->nr_arguments = 0;
	if (n)
		__sync_fetch_and_add(&control.unread, -(uint64_t)n);
	return n;
}

/*
 * Remembers, for the exit of the call whose entry was just recorded, the arguments that were not
 * read. The mark of a call without an exit is replaced.
 */
static __attribute__((noinline)) int remember_unread(uint32_t nr)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct strata_scratch *scratch = strata_scratch();
	struct strata_unread *mark;
	uint64_t n;

	if (!scratch)
		return 0;
	n = scratch->unread.nr_arguments;
	if (!n && !STRATA_ONCE(uint64_t, control.unread))
		return 0;
	mark = (struct strata_unread *)bpf_task_storage_get(&unread, task, NULL,
							    n ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
	if (!mark) {
		if (n)
			count_unread(n);
		return 0;
	}
	if (mark->nr_arguments)
		count_unread(take_mark(mark));
	if (!n)
		return 0;
	*mark = scratch->unread;
	mark->place = place_of(nr);
	__sync_fetch_and_add(&control.unread, n);
	return 0;
}

STRATA_INLINE void begin_scratch(struct strata_scratch *scratch, const struct pt_regs *regs)
{
	scratch->at = 0;
	scratch->has_unread = 0;
	scratch->is_compat = (uint32_t)is_compat();
	read_arguments(regs, scratch->argument);
	scratch->argument[6] = 0;
}

static __attribute__((noinline)) int assemble_entry(const struct pt_regs *regs, uint32_t nr)
{
	const volatile struct strata_abi_kernel_syscall *s = call_at(place_of(nr));
	struct strata_scratch *scratch = strata_scratch();
	uint32_t i;

	if (!scratch)
		return 0;
	begin_scratch(scratch, regs);
	scratch->unread.nr_arguments = 0;
	if (s->flags & STRATA_ABI_KERNEL_CALL_UNKNOWN) {
		write_unknown(scratch->bytes, nr);
		scratch->at = 8;
	}
	for (i = 0; i < 6 && i < s->nr_args; i++) {
		strata_scratch_argument(s->kind[i], scratch->argument[i], scratch->argument[i + 1]);
		if (STRATA_ONCE(uint32_t, scratch->has_unread)) {
			uint32_t n = scratch->unread.nr_arguments++ & 3;

			scratch->unread.argument[n] = i;
			scratch->unread.address[n] = scratch->argument[i];
			scratch->has_unread = 0;
		}
	}
	return 0;
}

/* Finds the texts of an execve() that succeeded, where the kernel has put them for the new program. */
STRATA_INLINE void find_executed(struct strata_user_memory *text, uint64_t *end)
{
	struct task_struct___memory *task =
		(struct task_struct___memory *)bpf_get_current_task_btf();
	struct mm_struct *memory = task->mm;

	text->address = 0;
	if (!memory)
		return;
	if (text->kind == STRATA_ABI_KERNEL_ARG_STRINGS) {
		text->address = memory->arg_start;
		*end = memory->arg_end;
	} else {
		text->address = memory->env_end;
	}
}

STRATA_INLINE int is_execve(uint32_t place)
{
	return place == STRATA_ARCH_EXECVE || place == STRATA_ARCH_EXECVEAT ||
	       place == COMPAT_EXECVE || place == COMPAT_EXECVEAT;
}

/*
 * Returns whether a return at @end is that of the call at @place. An execveat that succeeds returns as execve, by the
 * interface of the new program.
 */
STRATA_INLINE int is_end_of(uint32_t place, uint32_t end)
{
	return place == end ||
	       ((end == STRATA_ARCH_EXECVE || end == COMPAT_EXECVE) && is_execve(place));
}

/* Takes the arguments of the call that its entry's record lacks. Returns their number. */
static __attribute__((noinline)) int find_unread(const struct pt_regs *regs, uint32_t nr)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct strata_scratch *scratch = strata_scratch();
	struct strata_unread *mark;

	if (!scratch || !STRATA_ONCE(uint64_t, control.unread))
		return 0;
	mark = (struct strata_unread *)bpf_task_storage_get(&unread, task, NULL, 0);
	if (!mark || !mark->nr_arguments)
		return 0;
	scratch->unread = *mark;
	take_mark(mark);
	if (!is_end_of(scratch->unread.place, place_of(nr))) {
		count_unread(scratch->unread.nr_arguments);
		return 0;
	}
	begin_scratch(scratch, regs);
	return (int)scratch->unread.nr_arguments;
}

/* Reads an argument again, and returns which of the three records it belongs to. */
STRATA_INLINE uint32_t assemble_again(struct strata_scratch *scratch,
				      struct strata_user_memory *memory, uint64_t end)
{
	unsigned char *to = scratch->bytes + 5;

	switch (memory->kind) {
	case STRATA_ABI_KERNEL_ARG_STRINGS:
		strata_scratch_join(memory->address, end);
		to = strata_scratch_end(scratch);
		if (to)
			*to = 0;
		scratch->at++;
		return 0;
	case STRATA_ABI_KERNEL_ARG_PATH:
		strata_scratch_path(memory->address, STRATA_ABI_KERNEL_TEXT_MAX);
		return 0;
	case STRATA_ABI_KERNEL_ARG_NAME:
		strata_scratch_path(memory->address, STRATA_ABI_KERNEL_NAME_MAX);
		return 0;
	case STRATA_ABI_KERNEL_ARG_MESSAGE:
		strata_find_name(scratch, memory);
		strata_scratch_address(memory->address, memory->size);
		return 1;
	case STRATA_ABI_KERNEL_ARG_SOCKADDR:
		strata_scratch_address(memory->address, memory->size);
		return 1;
	case STRATA_ABI_KERNEL_ARG_TIMEOUT:
		memory->kind = 16;
		break;
	case STRATA_ABI_KERNEL_ARG_TIMEOUT_NARROW:
		memory->kind = 8;
		break;
	default:
		memory->kind &= STRATA_ABI_KERNEL_ARG_MEMORY - 1;
	}
	*to = (unsigned char)(memory->kind / 4);
	scratch->at++;
	strata_scratch_memory(memory->address, memory->kind);
	return 2;
}

/*
 * Reads argument @n of those that were missing. Returns the number of its record, from 1, if it is
 * in memory now; else counts it.
 */
STRATA_GLOBAL int assemble_unread(uint32_t n, int64_t ret)
{
	struct strata_scratch *scratch = strata_scratch();
	struct strata_user_memory memory = { 0, 0, 0 };
	uint32_t place, i, which;
	uint64_t end = 0;

	if (!scratch)
		return 0;
	place = scratch->unread.place;
	i = scratch->unread.argument[n & 3];
	if (i > 5)
		return 0;
	memory.kind = call_at(place)->kind[i];
	memory.address = scratch->argument[i];
	memory.size = scratch->argument[i + 1];
	/*
	 * After an execve() that succeeded the registers are the new program's. They are another call's if the exit
	 * of this call was not seen.
	 */
	if (!ret && is_execve(place)) {
		find_executed(&memory, &end);
	} else if (memory.address != scratch->unread.address[n & 3]) {
		count_unread(1);
		return 0;
	}
	*(uint32_t *)(void *)scratch->bytes = place;
	scratch->bytes[4] = (unsigned char)i;
	scratch->at = 5;
	scratch->has_unread = !memory.address;
	which = assemble_again(scratch, &memory, end);
	if (STRATA_ONCE(uint32_t, scratch->has_unread)) {
		strata_count_unreadable();
		return 0;
	}
	return (int)which + 1;
}

/*
 * Records the missing arguments before the exit's record, if there is one. There are such arguments
 * only if the entry was recorded.
 */
STRATA_INLINE void record_unread(const struct pt_regs *regs, uint32_t nr, int64_t ret)
{
	int n = find_unread(regs, nr), which;
	uint32_t i;

	for (i = 0; i < 4 && (int)i < n; i++) {
		which = assemble_unread(i, ret);
		if (which > 0)
			record_assembled(event.id + (uint32_t)which - 1);
	}
}

/*
 * Reads one output of a call. @length: the place of the number of bytes of a socket's address,
 * behind the pointer to that.
 */
STRATA_GLOBAL int assemble_output(uint32_t kind, uint64_t address, uint64_t length, int64_t ret)
{
	struct strata_scratch *scratch;
	uint32_t bytes = 0;

	if (kind == STRATA_ABI_KERNEL_ARG_NONE)
		return 0;
	scratch = strata_scratch();
	if (!scratch)
		return 0;
	if (kind == STRATA_ABI_KERNEL_ARG_PATH) {
		strata_scratch_output(address, (uint64_t)ret);
	} else if (kind == STRATA_ABI_KERNEL_ARG_EVENTS) {
		strata_scratch_events(address, (uint64_t)ret);
	} else if (kind == STRATA_ABI_KERNEL_ARG_POLL) {
		strata_scratch_poll(address, length, 1);
	} else {
		if ((kind == STRATA_ABI_KERNEL_ARG_SOCKADDR ||
		     kind == STRATA_ABI_KERNEL_ARG_OPTION) &&
		    address && length)
			bpf_probe_read_user(&bytes, sizeof(bytes), (void *)length);
		strata_scratch_argument(kind, address, bytes);
	}
	if (STRATA_ONCE(uint32_t, scratch->has_unread)) {
		strata_count_unreadable();
		scratch->has_unread = 0;
	}
	return 0;
}

/* Returns whether the call has filled its outputs: if it did not fail, or as its flags say. */
STRATA_INLINE int has_outputs(uint32_t flags, int64_t ret)
{
	if (flags & STRATA_ABI_KERNEL_CALL_INTERRUPTED)
		return ret == INTERRUPTED || ret == RESTARTED;
	if (flags & STRATA_ABI_KERNEL_CALL_NOT_ZERO && !ret)
		return 0;
	return ret >= 0 || ret < -MAX_ERRNO;
}

static __attribute__((noinline)) int assemble_exit(const struct pt_regs *regs, uint32_t nr,
						   int64_t ret)
{
	const volatile struct strata_abi_kernel_syscall *s = call_at(place_of(nr));
	struct strata_scratch *scratch = strata_scratch();
	int is_there = has_outputs(s->flags, ret);
	uint32_t i;

	if (!scratch)
		return 0;
	begin_scratch(scratch, regs);
	*(int64_t *)(void *)scratch->bytes = ret;
	scratch->at = sizeof(ret);
	for (i = 0; i < 6 && i < s->nr_args; i++)
		assemble_output(s->exit_kind[i], is_there ? scratch->argument[i] : 0,
				scratch->argument[i + 1], ret);
	return 0;
}

STRATA_INLINE uint64_t entry_register(const struct pt_regs *regs, uint64_t index, int compat)
{
#define ENTRY_REGISTER(i) \
	(compat ? strata_arch_compat_argument(regs, i) : strata_arch_argument(regs, i))
	switch (index) {
	case 0:
		return ENTRY_REGISTER(0);
	case 1:
		return ENTRY_REGISTER(1);
	case 2:
		return ENTRY_REGISTER(2);
	case 3:
		return ENTRY_REGISTER(3);
	case 4:
		return ENTRY_REGISTER(4);
	default:
		return ENTRY_REGISTER(5);
	}
#undef ENTRY_REGISTER
}

/* Reads one argument of a call's entry, as read_arguments() reads all. */
STRATA_INLINE uint64_t entry_argument(const unsigned long long *context, uint64_t index)
{
	const struct pt_regs *regs = (const struct pt_regs *)context[0];

	if (is_compat())
		return entry_register(regs, index, 1);
	return entry_register(regs, index, 0);
}

STRATA_INLINE uint64_t exit_argument(const unsigned long long *context, uint64_t index)
{
	return context[1];
}

/* Returns 1 if there are tests that are not made early. @which: 0 for the entry, 1 for the exit. */
STRATA_INLINE int has_tests(uint32_t which)
{
	return event.filter[which].nr_tests != event.filter[which].nr_early;
}

/* Tests the filter of an entry. A function of its own, for its variables on the stack. */
static __attribute__((noinline)) int passes_entry(const struct pt_regs *regs, uint64_t pid_tgid)
{
	uint64_t argument[6];
	struct strata_source source = { argument, STRATA_SOURCE_DIRECT, pid_tgid,
					bpf_get_smp_processor_id() };

	read_arguments(regs, argument);
	return strata_passes(&source, 0);
}

static __attribute__((noinline)) int passes_exit(int64_t ret, uint64_t pid_tgid)
{
	struct strata_source source = { &ret, STRATA_SOURCE_DIRECT, pid_tgid,
					bpf_get_smp_processor_id() };

	return strata_passes(&source, 1);
}

/* Records an entry in the general case, and entries of unknown calls. */
static __attribute__((noinline)) int
record_numbers(const struct pt_regs *regs, uint32_t nr,
	       const volatile struct strata_abi_kernel_syscall *s)
{
	int is_unknown = s->flags & STRATA_ABI_KERNEL_CALL_UNKNOWN;
	struct strata_record r;
	unsigned char *to;

	to = strata_record_begin(&r, s->entry_id, bpf_get_current_pid_tgid(),
				 s->fixed_bytes + (is_unknown ? 8 : 0));
	if (!to)
		return 0;
	if (is_unknown)
		to = write_unknown(to, nr);
	write_numbers(to, s, regs);
	strata_record_end(&r);
	return 0;
}

static __attribute__((noinline)) int
record_return(int64_t ret, uint32_t nr, const volatile struct strata_abi_kernel_syscall *s)
{
	int is_unknown = s->flags & STRATA_ABI_KERNEL_CALL_UNKNOWN;
	struct strata_record r;
	unsigned char *to;

	to = strata_record_begin(&r, s->exit_id, bpf_get_current_pid_tgid(),
				 sizeof(ret) + (is_unknown ? 8 : 0));
	if (!to)
		return 0;
	*(volatile int64_t *)(void *)to = ret;
	if (is_unknown)
		write_unknown(to + sizeof(ret), nr);
	strata_record_end(&r);
	return 0;
}

#include "calls_in_place.bpf.h"
#include "calls_at_exit.bpf.h"

#ifdef STRATA_KERNEL_WAITED
#include "waited_calls.bpf.h"
#else

/* Counts a call at its entry. A function of its own, for its variables on the stack. */
static __attribute__((noinline)) int count_entry(const unsigned long long *context, uint64_t name)
{
	uint64_t argument[6];

	read_arguments((const struct pt_regs *)context[0], argument);
	return strata_count(argument, STRATA_SOURCE_DIRECT, name, 0, 0);
}

/*
 * The functions for entry and exit read what they need from memory each time instead of keeping it: there are few
 * registers, and a program with 64 bytes or more on the stack gets a stack of its own, which costs at each call.
 */
STRATA_BODY int record_entry(const unsigned long long *context)
{
	int error = -EAGAIN;
	struct strata_record r;
	struct call call;

	if (!is_on(context, 0))
		return 0;
	find(&call, context[1], 0);
	if (!(call.syscall->flags & STRATA_ABI_KERNEL_CALL_ENTRY) ||
	    !strata_is_followed(call.pid_tgid))
		return 0;
	if (has_tests(0) && !passes_entry((const struct pt_regs *)context[0], call.pid_tgid))
		return 0;
	if (STRATA_COUNTS)
		return count_entry(context, call.syscall->entry_id);
	if (call.syscall->flags & STRATA_ABI_KERNEL_CALL_READS &&
	    record_entry_in_place((const struct pt_regs *)context[0], call.syscall, call.pid_tgid))
		return 0;
	if (call.syscall->flags & STRATA_ABI_KERNEL_CALL_READS ||
	    !call.syscall->fixed_bytes && call.syscall->nr_args) {
		assemble_entry((const struct pt_regs *)context[0], (uint32_t)context[1]);
		if (record_assembled(call.syscall->entry_id))
			remember_unread((uint32_t)context[1]);
		return 0;
	}
	if (!(call.syscall->flags & STRATA_ABI_KERNEL_CALL_UNKNOWN))
		error = strata_record_begin_part(&r, STRATA_RECORD_FAST, call.syscall->entry_id,
						 call.pid_tgid, call.syscall->fixed_bytes);
	if (!error) {
		write_numbers(r.slot.cursor, call.syscall, (const struct pt_regs *)context[0]);
		strata_record_end(&r);
	} else if (error == -EAGAIN) {
		record_numbers((const struct pt_regs *)context[0], (uint32_t)context[1],
			       call.syscall);
	}
	return 0;
}

/* Finds the call that returns. What its entry lacks is recorded, whatever becomes of the exit. */
STRATA_INLINE void find_exit(struct call *call, const unsigned long long *context)
{
	find_returning(call, context);
	if (call->syscall->flags & STRATA_ABI_KERNEL_CALL_MEMORY &&
	    STRATA_ONCE(uint64_t, control.unread))
		record_unread((const struct pt_regs *)context[0], call->nr, (int64_t)context[1]);
}

STRATA_BODY int record_exit(const unsigned long long *context)
{
	int error = -EAGAIN;
	struct strata_record r;
	struct call call;

	if (!is_on(context, 1))
		return 0;
	find_exit(&call, context);
	if (!(call.syscall->flags & STRATA_ABI_KERNEL_CALL_EXIT) ||
	    !strata_is_followed(call.pid_tgid))
		return 0;
	if (has_tests(1) && !passes_exit((int64_t)context[1], call.pid_tgid))
		return 0;
	if (*(const volatile uint16_t *)(const volatile void *)&call.syscall->exit_kind[0] |
	    *(const volatile uint32_t *)(const volatile void *)&call.syscall->exit_kind[2]) {
		if (call.syscall->flags & STRATA_ABI_KERNEL_CALL_GIVES &&
		    record_exit_in_place(context, call.syscall, call.pid_tgid))
			return 0;
		assemble_exit((const struct pt_regs *)context[0], call.nr, (int64_t)context[1]);
		record_assembled(call.syscall->exit_id);
		return 0;
	}
	if (!(call.syscall->flags & STRATA_ABI_KERNEL_CALL_UNKNOWN))
		error = strata_record_begin_part(&r, STRATA_RECORD_FAST, call.syscall->exit_id,
						 call.pid_tgid, sizeof(int64_t));
	if (!error) {
		*(volatile int64_t *)(void *)r.slot.cursor = (int64_t)context[1];
		strata_record_end(&r);
	} else if (error == -EAGAIN) {
		record_return((int64_t)context[1], call.nr, call.syscall);
	}
	return 0;
}

/*
 * Records the missing arguments of a call whose exit is rejected at once: its entry may have
 * passed, and then they are stored with the task.
 */
static __attribute__((noinline)) int record_unread_only(const unsigned long long *context)
{
	struct call call;

	if (is_on(context, 1))
		find_exit(&call, context);
	return 0;
}

/*
 * A sample of calls is taken where they begin, if all that decides about them is known then: so those that are left out cost
 * little. Both ends of a call are recorded or none.
 */
#define TAKES_SAMPLE_AT_ENTRY \
	(event.slower == STRATA_ABI_KERNEL_SLOWER_NONE && !event.filter[1].nr_tests)

/*
 * Begins a call of which nothing is recorded before it returns. Forgets the task's previous call in any case: the
 * exit of a call that is not wanted must not find it.
 */
static __attribute__((noinline)) int begin_slow(const unsigned long long *context,
						uint32_t is_wanted)
{
	const struct pt_regs *regs = (const struct pt_regs *)context[0];
	struct begun_call *mark;
	struct call call;

	if (!is_on(context, 0))
		is_wanted = 0;
	find(&call, context[1], 0);
	if (!(call.syscall->flags & STRATA_ABI_KERNEL_CALL_ENTRY) ||
	    !strata_is_followed(call.pid_tgid) ||
	    (has_tests(0) && is_wanted && !passes_entry(regs, call.pid_tgid)))
		is_wanted = 0;
	if (STRATA_IS_SAMPLED && TAKES_SAMPLE_AT_ENTRY && is_wanted &&
	    strata_is_left_out(place_of((uint32_t)context[1])))
		is_wanted = 0;
	if (!is_wanted) {
		mark = strata_current()->bpf_storage ? begun_here(0) : NULL;
		if (mark)
			mark->time = 0;
		return 0;
	}
	mark = begun_here(BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!mark)
		return lose_begun();
	read_arguments(regs, mark->argument);
	mark->nr = (uint32_t)context[1];
	mark->place = place_of(mark->nr);
	mark->time = bpf_ktime_get_ns();
	return 0;
}

/* Returns how long the call has taken, if that is long enough to be recorded [ns]; else 0. */
static __attribute__((noinline)) uint64_t slow_nanoseconds(void)
{
	struct begun_call *mark = begun_here(0);
	uint64_t begin, elapsed;

	if (!mark)
		return 0;
	begin = mark->time;
	if (!begin)
		return 0;
	mark->time = 0;
	elapsed = bpf_ktime_get_ns() - begin;
	if (event.slower == STRATA_ABI_KERNEL_SLOWER_NONE)
		return elapsed + !elapsed;
	return elapsed >= SLOWER_NS ? elapsed : 0;
}

/* Returns 1 if the call that returns is left out of the sample. */
static __attribute__((noinline)) int is_begun_left_out(void)
{
	struct begun_call *mark = begun_here(0);

	return mark && strata_is_left_out(mark->place & UNKNOWN);
}

/* Returns how long the call has taken, if it is to be recorded [ns]; else 0. */
static __attribute__((noinline)) uint64_t end_slow(const unsigned long long *context,
						   uint32_t is_wanted)
{
	uint64_t elapsed = strata_current()->bpf_storage ? slow_nanoseconds() : 0, pid_tgid;

	/* While programs are replaced, each exit tells which of two programs records it. */
	if (!elapsed && !STRATA_ONCE(uint16_t, control.changing))
		return 0;
	if (!is_on(context, 1) || !elapsed || !is_wanted)
		return 0;
	pid_tgid = bpf_get_current_pid_tgid();
	if (!strata_is_followed(pid_tgid) ||
	    (has_tests(1) && !passes_exit((int64_t)context[1], pid_tgid)))
		return 0;
	if (STRATA_IS_SAMPLED && !TAKES_SAMPLE_AT_ENTRY && is_begun_left_out())
		return 0;
	return elapsed;
}

/* Counts a call that returns, with the arguments that it began with. */
static __attribute__((noinline)) int count_begun(uint64_t elapsed, int64_t ret)
{
	struct begun_call *mark = begun_here(0);

	if (!mark)
		return 0;
	return strata_count(mark->argument, STRATA_SOURCE_DIRECT, call_at(mark->place)->entry_id,
			    ret, elapsed);
}

SEC("tp_btf/sys_enter")
int strata_sys_enter(unsigned long long *context)
{
	uint32_t passes = strata_passes_early(0, entry_argument, context);

	if (HOLDS_BEGUN)
		begin_slow(context, passes);
	else if (passes)
		record_entry(context);
	else
		rejected(context, 0);
	return 0;
}

SEC("tp_btf/sys_exit")
int strata_sys_exit(unsigned long long *context)
{
	uint32_t passes = strata_passes_early(1, exit_argument, context);
	uint64_t elapsed;

	if (HOLDS_BEGUN) {
		elapsed = end_slow(context, passes);
		if (elapsed && STRATA_COUNTS)
			count_begun(elapsed, (int64_t)context[1]);
		else if (elapsed)
			record_slow((const struct pt_regs *)context[0], elapsed,
				    (int64_t)context[1]);
	} else if (passes) {
		record_exit(context);
	} else if (event.reads_again && strata_current()->bpf_storage) {
		record_unread_only(context);
	} else {
		rejected(context, 1);
	}
	return 0;
}
#endif /* STRATA_KERNEL_WAITED */
