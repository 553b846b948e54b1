/* SPDX-License-Identifier: MIT */
/*
 * track.bpf.h - decide whether the current process is tracked. Asked only where something is: see the switch of a
 * program.
 *
 * A global function: the verifier goes through it once for each program, whoever calls it.
 */
#ifndef STRATA_KERNEL_TRACK_BPF_H
#define STRATA_KERNEL_TRACK_BPF_H

#include "maps.bpf.h"
#include "core.bpf.h"

#define STRATA_TRACK_NAME_BYTES 16u

STRATA_INLINE int strata_track_has(struct strata_abi_kernel_track *key, uint32_t kind)
{
	key->kind = (uint16_t)kind;
	return bpf_map_lookup_elem(&tracked, key) != NULL;
}

/*
 * Reads @field of the kernel's structure at @from into @to. A load from a pointer to a task costs the verifier a search
 * through all types of the kernel, in each program.
 */
#define STRATA_TRACK_READ(to, from, field) \
	strata_read_kernel(&(to), sizeof(to), __builtin_preserve_access_index(&(from)->field))

/*
 * Returns the address of a name of the current process: 0 that of its first thread, 1 of the current thread, 2 of its
 * program's file, which may be NULL, such as of a thread of the kernel.
 */
STRATA_INLINE const void *strata_track_name(uint64_t which)
{
	const struct task_struct *task = strata_current(), *leader = NULL;
	const struct task_struct___memory *with_memory = (const struct task_struct___memory *)task;
	const struct mm_struct *memory = NULL;
	const struct file *file = NULL;
	const struct dentry *entry = NULL;
	const unsigned char *name = NULL;

	if (which == 1)
		return task->comm;
	if (which == 0) {
		STRATA_TRACK_READ(leader, task, group_leader);
		return __builtin_preserve_access_index(&leader->comm);
	}
	STRATA_TRACK_READ(memory, with_memory, mm);
	STRATA_TRACK_READ(file, memory, exe_file);
	STRATA_TRACK_READ(entry, file, f_path.dentry);
	STRATA_TRACK_READ(name, entry, d_name.name);
	return name;
}

/* Tests whether the first @bytes of a name, which is in @first and @second, are the beginning of one that is tracked. */
__attribute__((noinline)) int strata_is_prefix_tracked(uint64_t first, uint64_t second,
						       uint64_t bytes, uint32_t what)
{
	struct strata_abi_kernel_track key = { 0, 0, 0, 0, { 0, 0 } };
	uint64_t shift = (8 - bytes % 8) % 8 * 8;

	key.generation = (uint8_t)(what >> STRATA_ABI_KERNEL_TRACK_GENERATION);
	key.bytes = (uint8_t)bytes;
	key.value[0] = bytes < 8 ? first << shift >> shift : first;
	key.value[1] = bytes > 8 ? second << shift >> shift : 0;
	return strata_track_has(&key, STRATA_ABI_KERNEL_TRACK_NAME);
}

/*
 * Tests whether name @which of the current process is tracked, or the beginning of it: see strata_track_name(). A
 * function of its own, as is that of a beginning: the verifier goes through it once, not in each round of a loop.
 */
__attribute__((noinline)) int strata_is_one_name_tracked(uint64_t which, uint32_t what)
{
	struct strata_abi_kernel_track key = { 0, 0, 0, 0, { 0, 0 } };
	/*
	 * Numbers of 64 bits: of shorter ones that are on the stack meanwhile, verifiers before
	 * 5.16 forget the bounds, so that the loop would have no end.
	 */
	uint64_t name[2] = { 0, 0 }, bytes;

	key.generation = (uint8_t)(what >> STRATA_ABI_KERNEL_TRACK_GENERATION);
	bpf_probe_read_kernel_str(name, STRATA_TRACK_NAME_BYTES, strata_track_name(which));
	key.value[0] = name[0];
	key.value[1] = name[1];
	if (strata_track_has(&key, STRATA_ABI_KERNEL_TRACK_NAME))
		return 1;
	for (bytes = 1; bytes < STRATA_TRACK_NAME_BYTES; bytes++)
		if (what >> (STRATA_ABI_KERNEL_TRACK_PREFIXES + bytes) & 1 &&
		    strata_is_prefix_tracked(name[0], name[1], bytes, what))
			return 1;
	return 0;
}

/*
 * Tests whether a process is tracked by the name of its first thread, of the current thread, or of
 * its program's file, or by the beginning of a name. The tracer looks for names of other threads
 * and of scripts: their processes are in the map by number.
 */
__attribute__((noinline)) int strata_is_name_tracked(uint32_t what)
{
	struct strata_abi_kernel_track key = { 0, 0, 0, 0, { 0, 0 } };

	key.generation = (uint8_t)(what >> STRATA_ABI_KERNEL_TRACK_GENERATION);
	key.value[0] = bpf_get_current_pid_tgid() >> 32;
	if (what & 1u << STRATA_ABI_KERNEL_TRACK_NAMED &&
	    strata_track_has(&key, STRATA_ABI_KERNEL_TRACK_NAMED))
		return 1;
	return strata_is_one_name_tracked(0, what) || strata_is_one_name_tracked(1, what) ||
	       strata_is_one_name_tracked(2, what);
}

/* Tests whether a process is tracked by its control group, or by one above that. */
__attribute__((noinline)) int strata_is_cgroup_tracked(uint32_t what)
{
	struct strata_abi_kernel_track key = { 0, 0, 0, 0, { 0, 0 } };
	uint64_t level;

	key.generation = (uint8_t)(what >> STRATA_ABI_KERNEL_TRACK_GENERATION);
	for (level = 0; level < STRATA_ABI_KERNEL_TRACK_LEVELS; level++) {
		key.value[0] = bpf_get_current_ancestor_cgroup_id((int)level);
		if (!key.value[0])
			break;
		if (strata_track_has(&key, STRATA_ABI_KERNEL_TRACK_CGROUP))
			return 1;
	}
	return 0;
}

__attribute__((noinline)) int strata_is_tracked(void)
{
	uint32_t what = STRATA_ONCE(uint32_t, control.tracked);
	struct strata_abi_kernel_track key = { 0, 0, 0, 0, { 0, 0 } };
	uint64_t uid_gid = bpf_get_current_uid_gid();

	key.generation = (uint8_t)(what >> STRATA_ABI_KERNEL_TRACK_GENERATION);
	key.value[0] = bpf_get_current_pid_tgid() >> 32;
	if (what & 1u << STRATA_ABI_KERNEL_TRACK_PID &&
	    !strata_track_has(&key, STRATA_ABI_KERNEL_TRACK_PID))
		return 0;
	key.value[0] = (uint32_t)uid_gid;
	if (what & 1u << STRATA_ABI_KERNEL_TRACK_UID &&
	    !strata_track_has(&key, STRATA_ABI_KERNEL_TRACK_UID))
		return 0;
	key.value[0] = uid_gid >> 32;
	if (what & 1u << STRATA_ABI_KERNEL_TRACK_GID &&
	    !strata_track_has(&key, STRATA_ABI_KERNEL_TRACK_GID))
		return 0;
	if (what & 1u << STRATA_ABI_KERNEL_TRACK_NAME && !strata_is_name_tracked(what))
		return 0;
	return !(what & 1u << STRATA_ABI_KERNEL_TRACK_CGROUP) || strata_is_cgroup_tracked(what);
}

#endif /* STRATA_KERNEL_TRACK_BPF_H */
