/* SPDX-License-Identifier: MIT */
/*
 * ring.h - the generic ring buffer library, whole.
 *
 *   config.h    what a client chooses at compile time      client/  ready-made choices
 *   channel.h   memory: create, open, close
 *   record.h     write one record, either way               reserve.h, publish.h  the two ways
 *   read.h      poll, get, put, counters                   wait.h    sleep until there is something
 *   live.h      the packet still being filled
 *   snapshot.h  delivered packets in either direction      recover.h what dead producers left
 *   iterate.h   record by record, merged by time
 */
#ifndef STRATA_RING_RING_H
#define STRATA_RING_RING_H

#include <strata/ring/at_once.h>
#include <strata/ring/channel.h>
#include <strata/ring/clock.h>
#include <strata/ring/config.h>
#include <strata/ring/record.h>
#include <strata/ring/header.h>
#include <strata/ring/iterate.h>
#include <strata/ring/live.h>
#include <strata/ring/publish.h>
#include <strata/ring/read.h>
#include <strata/ring/recover.h>
#include <strata/ring/reserve.h>
#include <strata/ring/snapshot.h>
#include <strata/ring/wait.h>

#endif /* STRATA_RING_RING_H */
