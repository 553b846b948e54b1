/* SPDX-License-Identifier: MIT */
/* print_count.c - print the layout of strata/abi/count.h: abi/golden/count.txt is its output. */
#include "layout.h"

#include <strata/abi/count.h>

int main(void)
{
	TITLE("count.h");
	CONSTANT(STRATA_ABI_COUNT_KEYS_MAX);
	CONSTANT(STRATA_ABI_COUNT_PART_BYTES);
	CONSTANT(STRATA_ABI_COUNT_NAME);
	CONSTANT(STRATA_ABI_COUNT_DURATION);
	CONSTANT(STRATA_ABI_COUNT_UID);
	CONSTANT(STRATA_ABI_COUNT_GID);
	CONSTANT(STRATA_ABI_COUNT_ABSENT);
	CONSTANT(STRATA_ABI_COUNT_PAIRED);
	CONSTANT(STRATA_ABI_COUNT_VALUE);
	CONSTANT(STRATA_ABI_COUNT_SPREAD);
	CONSTANT(STRATA_ABI_COUNT_SIGNED);
	CONSTANT(STRATA_ABI_COUNT_BUCKETS);
	STRUCT(strata_abi_count_part);
	FIELD(strata_abi_count_part, what);
	FIELD(strata_abi_count_part, at_exit);
	END(strata_abi_count_part);
	STRUCT(strata_abi_count);
	FIELD(strata_abi_count, nr_keys);
	FIELD(strata_abi_count, flags);
	FIELD(strata_abi_count, key);
	FIELD(strata_abi_count, value);
	END(strata_abi_count);
	STRUCT(strata_abi_count_key);
	FIELD(strata_abi_count_key, absent);
	FIELD(strata_abi_count_key, part);
	END(strata_abi_count_key);
	STRUCT(strata_abi_count_value);
	FIELD(strata_abi_count_value, count);
	FIELD(strata_abi_count_value, sum);
	FIELD(strata_abi_count_value, least);
	FIELD(strata_abi_count_value, most);
	FIELD(strata_abi_count_value, bucket);
	END(strata_abi_count_value);
	return status;
}
