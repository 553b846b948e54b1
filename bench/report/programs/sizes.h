/* SPDX-License-Identifier: MIT */
/* sizes.h - the loop of sizes.c, which may be in the program, in a library, or in one that is loaded while it runs. */
#ifndef BENCH_REPORT_SIZES_H
#define BENCH_REPORT_SIZES_H

/* Records @n events with @bytes bytes of text each. */
void emit_sizes(unsigned long n, unsigned bytes);

#endif /* BENCH_REPORT_SIZES_H */
