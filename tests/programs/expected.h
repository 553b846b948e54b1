/* SPDX-License-Identifier: MIT */
/* expected.h - the system calls that a program made, as lines "NAME|FIELDS|RETURNED", for a test to compare. */
#ifndef STRATA_TEST_EXPECTED_H
#define STRATA_TEST_EXPECTED_H

#include <stdarg.h>
#include <stdio.h>

static char expected[1 << 16];
static size_t expected_size;

/* Kept until nothing more is recorded that is compared: printing is system calls too. */
static void __attribute__((format(printf, 3, 4)))
expect(long ret, const char *name, const char *fields, ...)
{
	size_t left = sizeof(expected) - expected_size;
	char *to = expected + expected_size;
	va_list list;
	int n = snprintf(to, left, "%s|", name);

	va_start(list, fields);
	n += vsnprintf(to + n, left - (size_t)n, fields, list);
	va_end(list);
	n += snprintf(to + n, left - (size_t)n, "|%ld\n", ret);
	expected_size += (size_t)n;
}

#endif /* STRATA_TEST_EXPECTED_H */
