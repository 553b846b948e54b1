/* SPDX-License-Identifier: MIT */
/* archive.c - its probes are in an archive, from which only the definition's reference gets them. */
#define TRACEPOINT_DEFINE
#include "old_names.h"

int main(void)
{
	tracepoint(compat_old, first_number, 1);
	return 0;
}
