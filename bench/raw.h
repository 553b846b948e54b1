/* SPDX-License-Identifier: MIT */
/*
 * raw.h - all rounds of a benchmark, for bench/report: a line "HEADING\tCASE\tROUND\tNS\tCONTROL" each, at the end of the file
 * that the variable STRATA_BENCH_RAW names. CONTROL is that of control.h, 0 where a benchmark has none.
 */
#ifndef STRATA_BENCH_RAW_H
#define STRATA_BENCH_RAW_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends @rounds rounds of one case; @control may be NULL. Does nothing without the variable. */
static __attribute__((unused)) void bench_raw(const char *heading, const char *name,
					      const double *ns, const double *control,
					      unsigned rounds)
{
	const char *path = getenv("STRATA_BENCH_RAW");
	FILE *file;
	unsigned i;

	if (!path)
		return;
	file = fopen(path, "ae");
	for (i = 0; file && i < rounds; i++)
		fprintf(file, "%s\t%s\t%u\t%.4f\t%.5f\n", heading, name, i, ns[i],
			control ? control[i] : 0);
	if (!file || fclose(file)) {
		fprintf(stderr, "bench: %s (STRATA_BENCH_RAW): %s\n", path, strerror(errno));
		exit(2);
	}
}

#endif /* STRATA_BENCH_RAW_H */
