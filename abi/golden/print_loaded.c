/* SPDX-License-Identifier: MIT */
/* print_loaded.c - print the layout of strata/abi/loaded.h: abi/golden/loaded.txt is its output. */
#include "layout.h"

#include <strata/abi/loaded.h>

int main(void)
{
	TITLE("loaded.h");
	CONSTANT(STRATA_ABI_LOADED_PIC);
	CONSTANT(STRATA_ABI_LOADED_PROGRAM);
	CONSTANT(STRATA_ABI_LOADED_NR_MAX);
	CONSTANT(STRATA_ABI_LOADED_PATH_MAX);
	CONSTANT(STRATA_ABI_LOADED_BUILD_ID_MAX);
	STRUCT(strata_abi_loaded);
	FIELD(strata_abi_loaded, address);
	FIELD(strata_abi_loaded, bytes);
	FIELD(strata_abi_loaded, loaded_ns);
	FIELD(strata_abi_loaded, unloaded_ns);
	FIELD(strata_abi_loaded, older);
	FIELD(strata_abi_loaded, look);
	FIELD(strata_abi_loaded, path_bytes);
	FIELD(strata_abi_loaded, build_id_bytes);
	FIELD(strata_abi_loaded, flags);
	FIELD(strata_abi_loaded, text);
	END(strata_abi_loaded);
	return status;
}
