/* SPDX-License-Identifier: MIT */
/*
 * ring.h - the generic ring buffer library, whole. A client begins with client.h, which has this.
 *
 *   client.h    one macro makes a client's functions      client/    ready-made clients
 *   config.h    what a client chooses at compile time     header.h, clock.h  the choices there are
 *   channel.h   memory: create, close                     open.h     somebody else's channel
 *   record.h    write one record, either way              limits.h   which channels are possible
 *   reserve.h, publish.h, one_section.h  the ways to write    slot.h     a reserved slot, its payload
 *   read.h      poll, get, put                            wait.h     sleep until something is there
 *   live.h      the packet still being filled             counters.h how many records went where
 *   scan.h      packets without consuming them            recover.h  what dead producers left
 *   iterate.h   record by record, merged by time          stream.h   a buffer in a client's memory
 *   rseq.h      is there a way to publish without atomics?
 *   describe.h  sizes of a channel                        kernel.h   memory of a kernel module
 *   platform.h  what the library needs around it
 *
 * A function whose comment begins with two stars is public. The comment says what it returns, the
 * context from which it may be called, its ordering, and what checks it; tools/gate/ring_api holds
 * it to that. All other functions are private, though they are seen, and may change with every
 * version. atomic.h, switch.h, wakeup.h and the parts of rseq.h and one_section.h have private ones only.
 * Those of atomic.h are plain names of machine operations; Strata's own clients use them for memory of
 * their own. One client replaces the macros of switch.h, and calls the private functions that say "Also
 * called by": probe/kernel/ring_client.bpf.h, because of BPF's verifier (docs/design/ring.md).
 */
#ifndef STRATA_RING_RING_H
#define STRATA_RING_RING_H

#include <strata/ring/config.h>
#include <strata/ring/counters.h>
#include <strata/ring/header.h>
#include <strata/ring/record.h>
#include <strata/ring/reserve.h>

/* A kernel module includes the writers only; its reader is a program, which includes all of it. */
#ifndef __KERNEL__
#include <strata/ring/one_section.h>
#include <strata/ring/channel.h>
#include <strata/ring/clock.h>
#include <strata/ring/iterate.h>
#include <strata/ring/live.h>
#include <strata/ring/open.h>
#include <strata/ring/publish.h>
#include <strata/ring/read.h>
#include <strata/ring/recover.h>
#include <strata/ring/wait.h>
#include <strata/ring/scan.h>
#endif

#endif /* STRATA_RING_RING_H */
