/* SPDX-License-Identifier: MIT */
/*
 * arch.bpf.h - what differs between the machines of the kernel layer: registers, numbers of system calls, 32-bit programs.
 *
 * One file of arch/ for each, with the same names; nothing else in this folder knows a machine. docs/design/machines.md
 * has what a new one takes. Part of core.bpf.h.
 */
#ifndef STRATA_KERNEL_ARCH_BPF_H
#define STRATA_KERNEL_ARCH_BPF_H

#define STRATA_ARCH_INLINE static inline __attribute__((always_inline, unused))

#if defined(__TARGET_ARCH_x86)
#include "arch/x86_64.bpf.h"
#elif defined(__TARGET_ARCH_arm64)
#include "arch/aarch64.bpf.h"
#else
#error "no machine: compile with -D__TARGET_ARCH_x86 or -D__TARGET_ARCH_arm64"
#endif

#endif /* STRATA_KERNEL_ARCH_BPF_H */
