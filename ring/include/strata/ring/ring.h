/* SPDX-License-Identifier: MIT */
/*
 * ring.h - the generic ring buffer library, whole. A client begins with client.h, which includes
 * this.
 *
 *   client.h    one macro makes a client's types and functions     client/  ready-made clients
 *   config.h    what a client chooses at compile time     header.h, clock.h  record headers, clocks
 *   channel.h   memory: create, close                     open.h     somebody else's channel
 *   record.h    write one record, either way              limits.h   which channels are possible
 *   reserve.h, publish.h, at_once.h  the ways to write    slot.h     a reserved slot and its
 *   payload
 *   read.h      poll, get, put                            wait.h     sleep until there is something
 *   live.h      the packet still being filled             counters.h how many records went where
 *   snapshot.h  delivered packets in either direction     recover.h  what dead producers left
 *   iterate.h   record by record, merged by time          stream.h   one buffer in a client's own
 *   memory
 *   rseq.h      is there a way to publish without atomics?
 *
 * A function with a comment that begins with two stars is public: the comment says what it returns,
 * the
 * context it may be called from, its ordering, and by what it is checked (tools/gate/ring_api
 * looks). All other functions are private, though they are seen: they may change with every
 * version. atomic.h,
 * switch.h, wakeup.h and the parts of rseq.h and at_once.h have private ones only. Who replaces macros of switch.h,
 * as probe/kernel does, uses private ones and goes with the version.
 */
#ifndef STRATA_RING_RING_H
#define STRATA_RING_RING_H

#include <strata/ring/at_once.h>
#include <strata/ring/channel.h>
#include <strata/ring/clock.h>
#include <strata/ring/config.h>
#include <strata/ring/counters.h>
#include <strata/ring/header.h>
#include <strata/ring/iterate.h>
#include <strata/ring/live.h>
#include <strata/ring/open.h>
#include <strata/ring/publish.h>
#include <strata/ring/read.h>
#include <strata/ring/record.h>
#include <strata/ring/recover.h>
#include <strata/ring/reserve.h>
#include <strata/ring/snapshot.h>
#include <strata/ring/wait.h>

#endif /* STRATA_RING_RING_H */
