/* SPDX-License-Identifier: MIT */
/* print_user.c - print the layout of strata/abi/user.h: abi/golden/user.txt is its output. */
#include "layout.h"

#include <strata/abi/user.h>

static void constants(void)
{
	CONSTANT(STRATA_ABI_USER_MAGIC);
	CONSTANT(STRATA_ABI_USER_NR_SESSIONS);
	CONSTANT(STRATA_ABI_USER_NR_STATES);
	CONSTANT(STRATA_ABI_USER_SESSIONS_OFFSET);
	CONSTANT(STRATA_ABI_USER_STATES_OFFSET);
	CONSTANT(STRATA_ABI_USER_DESCRIPTIONS_OFFSET);
	CONSTANT(STRATA_ABI_USER_FILTERS_OFFSET);
	CONSTANT(STRATA_ABI_USER_RULES_OFFSET);
	CONSTANT(STRATA_ABI_USER_CHANNELS_OFFSET);
	CONSTANT(STRATA_ABI_USER_DESCRIPTIONS_BYTES);
	CONSTANT(STRATA_ABI_USER_RULES_BYTES);
	CONSTANT(STRATA_ABI_USER_NAME_BYTES);
	TEXT(STRATA_ABI_USER_MEMFD);
	TEXT(STRATA_ABI_USER_MEMFD_REFUSED);
	TEXT(STRATA_ABI_USER_SOCKETS_ROOT);
	TEXT(STRATA_ABI_USER_SOCKETS_USER);
	TEXT(STRATA_ABI_USER_SOCKETS_TMP);
	TEXT(STRATA_ABI_USER_ENVIRONMENT);
	TEXT(STRATA_ABI_USER_SOCKET_END);
	TEXT(STRATA_ABI_USER_REQUEST);
	CONSTANT(STRATA_ABI_USER_REQUEST_BYTES);
	CONSTANT(STRATA_ABI_USER_NO_SESSION_NO_REQUEST);
	CONSTANT(STRATA_ABI_USER_NO_SESSION_SECURE);
	CONSTANT(STRATA_ABI_USER_NO_SESSION_UNKNOWN);
	CONSTANT(STRATA_ABI_USER_NO_SESSION_SOCKET);
	CONSTANT(STRATA_ABI_USER_CLOCK_VDSO);
	CONSTANT(STRATA_ABI_USER_CLOCK_TSC);
	CONSTANT(STRATA_ABI_USER_NR_CLOCK_SLOTS);
	CONSTANT(STRATA_ABI_USER_SESSION_FREE);
	CONSTANT(STRATA_ABI_USER_SESSION_SETUP);
	CONSTANT(STRATA_ABI_USER_SESSION_ACTIVE);
	CONSTANT(STRATA_ABI_USER_SESSION_ENDING);
	CONSTANT(STRATA_ABI_USER_DEAD_NS);
	CONSTANT(STRATA_ABI_USER_SESSION_INHERIT);
	CONSTANT(STRATA_ABI_USER_SESSION_LARGE_HEADER);
	CONSTANT(STRATA_ABI_USER_SESSION_OVERWRITE);
	CONSTANT(STRATA_ABI_USER_SESSION_VTID);
	CONSTANT(STRATA_ABI_USER_SESSION_SPANS);
	CONSTANT(STRATA_ABI_USER_CONTEXTS_MAX);
	CONSTANT(STRATA_ABI_USER_CTX_VPID);
	CONSTANT(STRATA_ABI_USER_CTX_PROCNAME);
	CONSTANT(STRATA_ABI_USER_CTX_THREADNAME);
	CONSTANT(STRATA_ABI_USER_CTX_PTHREAD_ID);
	CONSTANT(STRATA_ABI_USER_CTX_CPU_ID);
	CONSTANT(STRATA_ABI_USER_CTX_VUID);
	CONSTANT(STRATA_ABI_USER_CTX_VSGID);
	CONSTANT(STRATA_ABI_USER_CTX_IP);
	CONSTANT(STRATA_ABI_USER_CTX_CALLSTACK);
	CONSTANT(STRATA_ABI_USER_CTX_CGROUP_NS);
	CONSTANT(STRATA_ABI_USER_CTX_UTS_NS);
	CONSTANT(STRATA_ABI_USER_CTX_PAGE_FAULT);
	CONSTANT(STRATA_ABI_USER_CTX_MINOR);
	CONSTANT(STRATA_ABI_USER_CTX_MAJOR);
	CONSTANT(STRATA_ABI_USER_CTX_SWITCHES);
	CONSTANT(STRATA_ABI_USER_CTX_TASK_CLOCK);
	CONSTANT(STRATA_ABI_USER_CTX_CGROUP);
	CONSTANT(STRATA_ABI_USER_CALLSTACK_MAX);
	CONSTANT(STRATA_ABI_USER_COMM_BYTES);
	CONSTANT(STRATA_ABI_USER_STATE_PRESENT);
	CONSTANT(STRATA_ABI_USER_STATE_FLAG);
	CONSTANT(STRATA_ABI_USER_NO_ID);
	CONSTANT(STRATA_ABI_USER_SITE_DORMANT);
	CONSTANT(STRATA_ABI_USER_SITE_ON);
	CONSTANT(STRATA_ABI_USER_INTEGER);
	CONSTANT(STRATA_ABI_USER_FLOAT);
	CONSTANT(STRATA_ABI_USER_STRING);
	CONSTANT(STRATA_ABI_USER_ARRAY);
	CONSTANT(STRATA_ABI_USER_SEQUENCE);
	CONSTANT(STRATA_ABI_USER_TEXT);
	CONSTANT(STRATA_ABI_USER_FIELD_SIGNED);
	CONSTANT(STRATA_ABI_USER_FIELD_NETWORK);
	CONSTANT(STRATA_ABI_USER_FIELD_BOOL);
	CONSTANT(STRATA_ABI_USER_FIELDS_MAX);
	CONSTANT(STRATA_ABI_USER_NAME_MAX);
	CONSTANT(STRATA_ABI_USER_LEVEL_MAX);
}

static void clock_slot(void)
{
	STRUCT(strata_abi_user_clock_slot);
	FIELD(strata_abi_user_clock_slot, base_cycles);
	FIELD(strata_abi_user_clock_slot, multiplier);
	FIELD(strata_abi_user_clock_slot, base_ns);
	FIELD(strata_abi_user_clock_slot, index);
	END(strata_abi_user_clock_slot);
}

static void control(void)
{
	STRUCT(strata_abi_user_control);
	FIELD(strata_abi_user_control, magic);
	FIELD(strata_abi_user_control, version);
	FIELD(strata_abi_user_control, pid);
	FIELD(strata_abi_user_control, publish);
	FIELD(strata_abi_user_control, nr_cpus);
	FIELD(strata_abi_user_control, nr_states);
	FIELD(strata_abi_user_control, descriptions_bytes);
	FIELD(strata_abi_user_control, generation);
	FIELD(strata_abi_user_control, started_ns);
	FIELD(strata_abi_user_control, refused);
	FIELD(strata_abi_user_control, patch_errno);
	FIELD(strata_abi_user_control, clock_kind);
	FIELD(strata_abi_user_control, parent_pid);
	FIELD(strata_abi_user_control, name);
	FIELD(strata_abi_user_control, clock_index);
	FIELD(strata_abi_user_control, claimed_sessions);
	FIELD(strata_abi_user_control, without_clock);
	FIELD(strata_abi_user_control, objects);
	FIELD(strata_abi_user_control, objects_refused);
	FIELD(strata_abi_user_control, objects_unseen);
	FIELD(strata_abi_user_control, no_session);
	FIELD(strata_abi_user_control, no_session_errno);
	FIELD(strata_abi_user_control, reserved);
	FIELD(strata_abi_user_control, clock);
	END(strata_abi_user_control);
}

static void session(void)
{
	STRUCT(strata_abi_user_session);
	FIELD(strata_abi_user_session, status);
	FIELD(strata_abi_user_session, flags);
	FIELD(strata_abi_user_session, generation);
	FIELD(strata_abi_user_session, heartbeat_ns);
	FIELD(strata_abi_user_session, channel_offset);
	FIELD(strata_abi_user_session, channel_bytes);
	FIELD(strata_abi_user_session, subbuf_bytes);
	FIELD(strata_abi_user_session, nr_subbufs);
	FIELD(strata_abi_user_session, next_id);
	FIELD(strata_abi_user_session, discarded_unmapped);
	FIELD(strata_abi_user_session, discarded_unstaged);
	FIELD(strata_abi_user_session, self_stopped);
	FIELD(strata_abi_user_session, rules_bytes);
	FIELD(strata_abi_user_session, create_errno);
	FIELD(strata_abi_user_session, discarded_no_clock);
	FIELD(strata_abi_user_session, filter_bytes);
	FIELD(strata_abi_user_session, rules_version);
	FIELD(strata_abi_user_session, other_rules_bytes);
	FIELD(strata_abi_user_session, nr_contexts);
	FIELD(strata_abi_user_session, replaces);
	FIELD(strata_abi_user_session, contexts);
	FIELD(strata_abi_user_session, reserved);
	FIELD(strata_abi_user_session, cgroup_id);
	FIELD(strata_abi_user_session, rules);
	END(strata_abi_user_session);
}

static void state(void)
{
	STRUCT(strata_abi_user_state);
	FIELD(strata_abi_user_state, enabled);
	FIELD(strata_abi_user_state, flags);
	FIELD(strata_abi_user_state, description);
	FIELD(strata_abi_user_state, description_bytes);
	FIELD(strata_abi_user_state, sites);
	FIELD(strata_abi_user_state, nr_sites);
	FIELD(strata_abi_user_state, reserved);
	FIELD(strata_abi_user_state, ids);
	END(strata_abi_user_state);
}

static void site(void)
{
	STRUCT(strata_abi_user_site);
	FIELD(strata_abi_user_site, address);
	FIELD(strata_abi_user_site, displacement);
	FIELD(strata_abi_user_site, reserved);
	END(strata_abi_user_site);
}

static void announcement(void)
{
	STRUCT(strata_abi_user_announcement);
	FIELD(strata_abi_user_announcement, magic);
	FIELD(strata_abi_user_announcement, version);
	FIELD(strata_abi_user_announcement, pid);
	END(strata_abi_user_announcement);
	STRUCT(strata_abi_user_absence);
	FIELD(strata_abi_user_absence, magic);
	FIELD(strata_abi_user_absence, version);
	FIELD(strata_abi_user_absence, error);
	FIELD(strata_abi_user_absence, generation);
	END(strata_abi_user_absence);
}

int main(void)
{
	TITLE("user.h");
	printf("version %u\n", STRATA_ABI_USER_VERSION);
	constants();
	clock_slot();
	control();
	session();
	state();
	site();
	announcement();
	return status;
}
