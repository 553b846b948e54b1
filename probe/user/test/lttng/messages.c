/* SPDX-License-Identifier: MIT */
/* messages.c - tracef and tracelog, in both spellings; also compiled as C++. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <lttng/tracef.h>
#include <lttng/tracelog.h>

static int evaluated;

static int count(int value)
{
	evaluated++;
	return value;
}

static void __attribute__((format(printf, 1, 2))) message(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	lttng_ust_vtracef(format, arguments);
	va_end(arguments);
	va_start(arguments, format);
	lttng_ust_vtracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE, format, arguments);
	va_end(arguments);
}

int main(void)
{
	static char large[5001];

	memset(large, 'y', sizeof(large) - 1);
	errno = 77;
	lttng_ust_tracef("no argument");
	tracef("%d and %s", count(1), "two");
	if (evaluated > 2)
		tracef("else %d", 1);
	else
		lttng_ust_tracef("%s", large);
	message("%s-%d", "three", 4);
	message("%.507s", large);
	message("%.508s", large);
	message("%.509s", large);
	lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG, "emergency");
	tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG, "%d%%", count(5));
	lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO, "%s", large);
#ifndef COMPAT_REAL_LTTNG /* 2.13 does not have these */
	tracelog(TRACE_WARNING, "old %s", "level");
#endif
	printf("evaluated %d, errno %d\n", evaluated, errno);
	return 0;
}
