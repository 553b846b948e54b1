/* SPDX-License-Identifier: MIT */
/* print_kernel.c - print the layout of strata/abi/kernel.h: abi/golden/kernel.txt is its output. */
#include "layout.h"

#include <strata/abi/kernel.h>

static void constants(void)
{
	CONSTANT(STRATA_ABI_KERNEL_SLACK);
	CONSTANT(STRATA_ABI_KERNEL_PAYLOAD_MAX);
	CONSTANT(STRATA_ABI_KERNEL_TEXT_MAX);
	CONSTANT(STRATA_ABI_KERNEL_ARGV_MAX);
	CONSTANT(STRATA_ABI_KERNEL_PARTS_MAX);
	CONSTANT(STRATA_ABI_KERNEL_TESTS_MAX);
	CONSTANT(STRATA_ABI_KERNEL_EARLY_MAX);
	CONSTANT(STRATA_ABI_KERNEL_SYSCALLS);
	CONSTANT(STRATA_ABI_KERNEL_COMPAT);
	CONSTANT(STRATA_ABI_KERNEL_COMPAT_UNKNOWN);
	CONSTANT(STRATA_ABI_KERNEL_UNKNOWN);
	CONSTANT(STRATA_ABI_KERNEL_SWITCHES);
	CONSTANT(STRATA_ABI_KERNEL_ON);
	CONSTANT(STRATA_ABI_KERNEL_ON_TRACKED);
	CONSTANT(STRATA_ABI_KERNEL_ON_TELLS);
	CONSTANT(STRATA_ABI_KERNEL_ON_ASKS);
	CONSTANT(STRATA_ABI_KERNEL_TOLD_WORDS);
	CONSTANT(STRATA_ABI_KERNEL_TRACK_PID);
	CONSTANT(STRATA_ABI_KERNEL_TRACK_UID);
	CONSTANT(STRATA_ABI_KERNEL_TRACK_GID);
	CONSTANT(STRATA_ABI_KERNEL_TRACK_NAME);
	CONSTANT(STRATA_ABI_KERNEL_TRACK_CGROUP);
	CONSTANT(STRATA_ABI_KERNEL_TRACK_NAMED);
	CONSTANT(STRATA_ABI_KERNEL_TRACK_PREFIXES);
	CONSTANT(STRATA_ABI_KERNEL_TRACK_FOLLOWED);
	CONSTANT(STRATA_ABI_KERNEL_TRACK_GENERATION);
	CONSTANT(STRATA_ABI_KERNEL_TRACK_MAX);
	CONSTANT(STRATA_ABI_KERNEL_TRACK_LEVELS);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_PID);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_PPID);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_PROCNAME);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_UID);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_GID);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_PRIO);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_CGROUP);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_VPID);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_VTID);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_VPPID);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_CGROUP_NS);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_IPC_NS);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_MNT_NS);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_NET_NS);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_PID_NS);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_TIME_NS);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_USER_NS);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_UTS_NS);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_COUNTER);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_STACK);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_USER_STACK);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_OWN);
	CONSTANT(STRATA_ABI_KERNEL_COUNTERS);
	CONSTANT(STRATA_ABI_KERNEL_STACK_FRAMES);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_MAX);
	CONSTANT(STRATA_ABI_KERNEL_CONTEXT_STACK_COPY);
	CONSTANT(STRATA_ABI_KERNEL_COPY_UNIT);
	CONSTANT(STRATA_ABI_KERNEL_COPY_MAX);
	CONSTANT(STRATA_ABI_KERNEL_COPY_REGISTERS);
	CONSTANT(STRATA_ABI_KERNEL_COPY_SLACK);
	CONSTANT(STRATA_ABI_KERNEL_FOLLOW_TASKS);
	CONSTANT(STRATA_ABI_KERNEL_FOLLOW_NONE);
	CONSTANT(STRATA_ABI_KERNEL_FOLLOW_AT_EXEC);
	CONSTANT(STRATA_ABI_KERNEL_FOLLOW_ALL);
	CONSTANT(STRATA_ABI_KERNEL_COPY);
	CONSTANT(STRATA_ABI_KERNEL_TEXT);
	CONSTANT(STRATA_ABI_KERNEL_TEXT_REL);
	CONSTANT(STRATA_ABI_KERNEL_BYTES);
	CONSTANT(STRATA_ABI_KERNEL_BYTES_REL);
	CONSTANT(STRATA_ABI_KERNEL_REGISTER);
	CONSTANT(STRATA_ABI_KERNEL_MEMORY);
	CONSTANT(STRATA_ABI_KERNEL_CONSTANT);
	CONSTANT(STRATA_ABI_KERNEL_STRING);
	CONSTANT(STRATA_ABI_KERNEL_STRING_AT);
	CONSTANT(STRATA_ABI_KERNEL_UNREAD);
	CONSTANT(STRATA_ABI_KERNEL_LENGTH_NUMBER);
	CONSTANT(STRATA_ABI_KERNEL_LENGTH_SIGNED);
	CONSTANT(STRATA_ABI_KERNEL_LENGTH_PART);
	CONSTANT(STRATA_ABI_KERNEL_NO_REGISTER);
	CONSTANT(STRATA_ABI_KERNEL_SLOWER_NONE);
	CONSTANT(STRATA_ABI_KERNEL_FIELD);
	CONSTANT(STRATA_ABI_KERNEL_PID);
	CONSTANT(STRATA_ABI_KERNEL_TID);
	CONSTANT(STRATA_ABI_KERNEL_CPU);
	CONSTANT(STRATA_ABI_KERNEL_CGROUP);
	CONSTANT(STRATA_ABI_KERNEL_COMM);
	CONSTANT(STRATA_ABI_KERNEL_CHARS);
	CONSTANT(STRATA_ABI_KERNEL_EQUAL);
	CONSTANT(STRATA_ABI_KERNEL_LESS);
	CONSTANT(STRATA_ABI_KERNEL_LESS_OR_EQUAL);
	CONSTANT(STRATA_ABI_KERNEL_LESS_SIGNED);
	CONSTANT(STRATA_ABI_KERNEL_LESS_EQ_SIGNED);
	CONSTANT(STRATA_ABI_KERNEL_PASS);
	CONSTANT(STRATA_ABI_KERNEL_REJECT);
	CONSTANT(STRATA_ABI_KERNEL_ARG_NONE);
	CONSTANT(STRATA_ABI_KERNEL_ARG_U32);
	CONSTANT(STRATA_ABI_KERNEL_ARG_U64);
	CONSTANT(STRATA_ABI_KERNEL_ARG_PATH);
	CONSTANT(STRATA_ABI_KERNEL_ARG_SOCKADDR);
	CONSTANT(STRATA_ABI_KERNEL_ARG_MESSAGE);
	CONSTANT(STRATA_ABI_KERNEL_ARG_STRINGS);
	CONSTANT(STRATA_ABI_KERNEL_ARG_NAME);
	CONSTANT(STRATA_ABI_KERNEL_ARG_TIMEOUT);
	CONSTANT(STRATA_ABI_KERNEL_ARG_TIMEOUT_NARROW);
	CONSTANT(STRATA_ABI_KERNEL_ARG_OPTION);
	CONSTANT(STRATA_ABI_KERNEL_ARG_POLL);
	CONSTANT(STRATA_ABI_KERNEL_ARG_SET);
	CONSTANT(STRATA_ABI_KERNEL_ARG_EVENTS);
	CONSTANT(STRATA_ABI_KERNEL_ARG_MESSAGES);
	CONSTANT(STRATA_ABI_KERNEL_ARG_LAYOUT);
	CONSTANT(STRATA_ABI_KERNEL_ARG_MEMORY);
	CONSTANT(STRATA_ABI_KERNEL_MEMORY_MAX);
	CONSTANT(STRATA_ABI_KERNEL_NAME_MAX);
	CONSTANT(STRATA_ABI_KERNEL_ELEMENTS_MAX);
	CONSTANT(STRATA_ABI_KERNEL_POLL_MAX);
	CONSTANT(STRATA_ABI_KERNEL_OPTION_MAX);
	CONSTANT(STRATA_ABI_KERNEL_LAYOUTS);
	CONSTANT(STRATA_ABI_KERNEL_PIECES_MAX);
	CONSTANT(STRATA_ABI_KERNEL_PIECE_MAX);
	CONSTANT(STRATA_ABI_KERNEL_CALL_UNKNOWN);
	CONSTANT(STRATA_ABI_KERNEL_CALL_MEMORY);
	CONSTANT(STRATA_ABI_KERNEL_CALL_INTERRUPTED);
	CONSTANT(STRATA_ABI_KERNEL_CALL_NOT_ZERO);
	CONSTANT(STRATA_ABI_KERNEL_CALL_ENTRY);
	CONSTANT(STRATA_ABI_KERNEL_CALL_EXIT);
	CONSTANT(STRATA_ABI_KERNEL_CALL_MOVES);
	CONSTANT(STRATA_ABI_KERNEL_CALL_READS);
	CONSTANT(STRATA_ABI_KERNEL_CALL_GIVES);
	CONSTANT(STRATA_ABI_KERNEL_CALL_GIVES_AT);
	CONSTANT(STRATA_ABI_KERNEL_READS_MAX);
	CONSTANT(STRATA_ABI_KERNEL_NO_ID);
}

static void control(void)
{
	STRUCT(strata_abi_kernel_track);
	FIELD(strata_abi_kernel_track, kind);
	FIELD(strata_abi_kernel_track, generation);
	FIELD(strata_abi_kernel_track, bytes);
	FIELD(strata_abi_kernel_track, reserved);
	FIELD(strata_abi_kernel_track, value);
	END(strata_abi_kernel_track);
	STRUCT(strata_abi_kernel_control);
	FIELD(strata_abi_kernel_control, tracked);
	FIELD(strata_abi_kernel_control, following);
	FIELD(strata_abi_kernel_control, tracer);
	FIELD(strata_abi_kernel_control, changing);
	FIELD(strata_abi_kernel_control, turn);
	FIELD(strata_abi_kernel_control, unreadable);
	FIELD(strata_abi_kernel_control, cut);
	FIELD(strata_abi_kernel_control, unread);
	FIELD(strata_abi_kernel_control, uncounted);
	FIELD(strata_abi_kernel_control, full);
	FIELD(strata_abi_kernel_control, busy);
	FIELD(strata_abi_kernel_control, on);
	END(strata_abi_kernel_control);
}

static void part(void)
{
	STRUCT(strata_abi_kernel_part);
	FIELD(strata_abi_kernel_part, kind);
	FIELD(strata_abi_kernel_part, scale);
	FIELD(strata_abi_kernel_part, offset);
	FIELD(strata_abi_kernel_part, bytes);
	FIELD(strata_abi_kernel_part, index);
	FIELD(strata_abi_kernel_part, addend);
	END(strata_abi_kernel_part);
}

static void test(void)
{
	STRUCT(strata_abi_kernel_test);
	FIELD(strata_abi_kernel_test, operand);
	FIELD(strata_abi_kernel_test, comparison);
	FIELD(strata_abi_kernel_test, bytes);
	FIELD(strata_abi_kernel_test, is_signed);
	FIELD(strata_abi_kernel_test, offset);
	FIELD(strata_abi_kernel_test, yes);
	FIELD(strata_abi_kernel_test, no);
	FIELD(strata_abi_kernel_test, mask);
	FIELD(strata_abi_kernel_test, value);
	FIELD(strata_abi_kernel_test, mask_high);
	FIELD(strata_abi_kernel_test, value_high);
	END(strata_abi_kernel_test);
}

static void filter(void)
{
	STRUCT(strata_abi_kernel_filter);
	FIELD(strata_abi_kernel_filter, nr_tests);
	FIELD(strata_abi_kernel_filter, nr_early);
	FIELD(strata_abi_kernel_filter, test);
	END(strata_abi_kernel_filter);
}

static void event(void)
{
	STRUCT(strata_abi_kernel_event);
	FIELD(strata_abi_kernel_event, id);
	FIELD(strata_abi_kernel_event, followed);
	FIELD(strata_abi_kernel_event, nr_parts);
	FIELD(strata_abi_kernel_event, reads_again);
	FIELD(strata_abi_kernel_event, reserved);
	FIELD(strata_abi_kernel_event, contexts);
	FIELD(strata_abi_kernel_event, switch_at);
	FIELD(strata_abi_kernel_event, slower);
	FIELD(strata_abi_kernel_event, every);
	FIELD(strata_abi_kernel_event, at_most);
	FIELD(strata_abi_kernel_event, part);
	FIELD(strata_abi_kernel_event, filter);
	END(strata_abi_kernel_event);
}

static void sampled(void)
{
	STRUCT(strata_abi_kernel_sampled);
	FIELD(strata_abi_kernel_sampled, seen);
	FIELD(strata_abi_kernel_sampled, left_out);
	END(strata_abi_kernel_sampled);
}

static void syscall(void)
{
	STRUCT(strata_abi_kernel_syscall);
	FIELD(strata_abi_kernel_syscall, entry_id);
	FIELD(strata_abi_kernel_syscall, exit_id);
	FIELD(strata_abi_kernel_syscall, kind);
	FIELD(strata_abi_kernel_syscall, exit_kind);
	FIELD(strata_abi_kernel_syscall, fixed_bytes);
	FIELD(strata_abi_kernel_syscall, nr_args);
	FIELD(strata_abi_kernel_syscall, offset);
	FIELD(strata_abi_kernel_syscall, flags);
	END(strata_abi_kernel_syscall);
}

static void layout(void)
{
	STRUCT(strata_abi_kernel_piece);
	FIELD(strata_abi_kernel_piece, offset);
	FIELD(strata_abi_kernel_piece, bytes);
	END(strata_abi_kernel_piece);
	STRUCT(strata_abi_kernel_layout);
	FIELD(strata_abi_kernel_layout, nr_pieces);
	FIELD(strata_abi_kernel_layout, bytes);
	FIELD(strata_abi_kernel_layout, piece);
	END(strata_abi_kernel_layout);
}

int main(void)
{
	TITLE("kernel.h");
	constants();
	control();
	part();
	test();
	filter();
	event();
	sampled();
	syscall();
	layout();
	return status;
}
