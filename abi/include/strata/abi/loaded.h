/* SPDX-License-Identifier: MIT */
/*
 * loaded.h - the objects that a process has loaded, as it notes them: they give addresses of code a meaning.
 *
 * Objects are noted between the descriptions of user.h, at multiples of 8, and so is the path of an object's file,
 * without a NUL, followed by its build id. strata_abi_user_control.objects has the place of the latest note, and
 * .older that of the note before: 8 * (place - 1) is its offset from STRATA_ABI_USER_DESCRIPTIONS_OFFSET [byte], 0:
 * there is none. A later note has a higher place. An object that is loaded again is noted again, unless there is no
 * more room: then it counts as loaded all the time. All members but .unloaded_ns and .look stay as they are.
 *
 * The process looks before its first record, and when an object with tracepoints comes or goes. One without that was not
 * there at the last look is noted as loaded directly behind that; what is gone, as unloaded at the look that finds it, or
 * directly behind the last one, if something else has come to its addresses. What comes and goes between two looks is not
 * noted, but counted in strata_abi_user_control.objects_unseen, where the loader says how often objects came and went.
 */
#ifndef STRATA_ABI_LOADED_H
#define STRATA_ABI_LOADED_H

#include <strata/abi/ring.h>

#define STRATA_ABI_LOADED_PIC	  1u /* addresses in its file count from .address */
#define STRATA_ABI_LOADED_PROGRAM 2u /* the main program */

#define STRATA_ABI_LOADED_NR_MAX       4096u /* notes of a process */
#define STRATA_ABI_LOADED_PATH_MAX     4096u
#define STRATA_ABI_LOADED_BUILD_ID_MAX 32u

/*
 * offset  size  field           unit   written by
 *      0     8  address                process; lowest address of its segments
 *      8     8  bytes           byte   process; from there to the end of the last one
 *     16     8  loaded_ns       ns     process; CLOCK_MONOTONIC
 *     24     8  unloaded_ns     ns     process; atomic, release; 0: it is there
 *     32     4  older                  process
 *     36     4  look                   process, for itself
 *     40     2  path_bytes      byte   process; 0: it does not know
 *     42     1  build_id_bytes  byte   process
 *     43     1  flags                  process; STRATA_ABI_LOADED_PIC, STRATA_ABI_LOADED_PROGRAM
 *     44     4  text            byte   process; where the path is, from DESCRIPTIONS_OFFSET
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
	uint32_t text;
};
STRATA_ABI_ASSERT(sizeof(struct strata_abi_loaded) == 48, "size of what is loaded");

#endif /* STRATA_ABI_LOADED_H */
