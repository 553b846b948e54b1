/* SPDX-License-Identifier: MIT */
/*
 * loaded.h - what a process says that it has loaded: what its addresses of code mean.
 *
 * Objects are noted between the descriptions of user.h, at multiples of 8. The path of an object's file and its build id
 * are behind it, and no NUL. strata_abi_user_control.objects has the place of the last one, and .older that of the one that
 * was noted before: 8 * (place - 1) is how far it is from STRATA_ABI_USER_DESCRIPTIONS_OFFSET [byte], 0: there is none. A
 * place is lower than that of any that was noted later. All but .unloaded_ns, and .loaded_ns of one that comes back, stays
 * as it is.
 *
 * Notes are made before the first record, and when an object with tracepoints comes: one without may have come before, and
 * what is gone is noted as late.
 */
#ifndef STRATA_ABI_LOADED_H
#define STRATA_ABI_LOADED_H

#include <strata/abi/ring.h>

#define STRATA_ABI_LOADED_PIC	  1u /* addresses in its file count from .address */
#define STRATA_ABI_LOADED_PROGRAM 2u /* the main program */

#define STRATA_ABI_LOADED_NR_MAX       4096u /* objects of a process */
#define STRATA_ABI_LOADED_PATH_MAX     4096u
#define STRATA_ABI_LOADED_BUILD_ID_MAX 32u

/*
 * offset  size  field           unit   written by
 *      0     8  address                process; lowest address of its segments
 *      8     8  bytes           byte   process; from there to the end of the last one
 *     16     8  loaded_ns       ns     process; atomic; CLOCK_MONOTONIC, when it was seen
 *     24     8  unloaded_ns     ns     process; atomic, release; when it was not there any more. 0: it is
 *     32     4  older                  process
 *     36     4  look                   process, for itself
 *     40     2  path_bytes      byte   process; 0: it does not know
 *     42     1  build_id_bytes  byte   process
 *     43     1  flags                  process; STRATA_ABI_LOADED_PIC, STRATA_ABI_LOADED_PROGRAM
 *     44     4  reserved
 */
struct strata_abi_loaded {
	uint64_t address;
	uint64_t bytes;
	uint64_t loaded_ns;
	uint64_t unloaded_ns;
	uint32_t older;
	uint32_t look;
	uint16_t path_bytes;
	uint8_t build_id_bytes;
	uint8_t flags;
	uint32_t reserved;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_loaded) == 48, "size of what is loaded");

#endif /* STRATA_ABI_LOADED_H */
