/* SPDX-License-Identifier: MIT */
/*
 * track.bpf.h - is the current process one that is tracked? Asked only where something is: see the switch of a program.
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

/* By its name, or the beginning of it. */
__attribute__((noinline)) int strata_is_name_tracked(uint32_t what)
{
	struct strata_abi_kernel_track key = { 0, 0, 0, 0, { 0, 0 } };
	uint64_t name[2] = { 0, 0 };
	uint32_t bytes, shift;

	bpf_probe_read_kernel_str(name, STRATA_TRACK_NAME_BYTES,
				  strata_current()->group_leader->comm);
	key.generation = (uint8_t)(what >> STRATA_ABI_KERNEL_TRACK_GENERATION);
	key.value[0] = name[0];
	key.value[1] = name[1];
	if (strata_track_has(&key, STRATA_ABI_KERNEL_TRACK_NAME))
		return 1;
	for (bytes = 1; bytes < STRATA_TRACK_NAME_BYTES; bytes++) {
		if (!(what >> (STRATA_ABI_KERNEL_TRACK_PREFIXES + bytes) & 1))
			continue;
		shift = (8 - bytes % 8) % 8 * 8;
		key.bytes = (uint8_t)bytes;
		key.value[0] = bytes < 8 ? name[0] << shift >> shift : name[0];
		key.value[1] = bytes > 8 ? name[1] << shift >> shift : 0;
		if (strata_track_has(&key, STRATA_ABI_KERNEL_TRACK_NAME))
			return 1;
	}
	return 0;
}

/* By the control group that it is in, or one above. */
__attribute__((noinline)) int strata_is_cgroup_tracked(uint32_t what)
{
	struct strata_abi_kernel_track key = { 0, 0, 0, 0, { 0, 0 } };
	uint32_t level;

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
