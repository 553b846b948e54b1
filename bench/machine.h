/* SPDX-License-Identifier: MIT */
/* machine.h - what a benchmark says of the machine that it runs on, and on which of its CPUs it runs. */
#ifndef STRATA_BENCH_MACHINE_H
#define STRATA_BENCH_MACHINE_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#define BENCH_FUNC static __attribute__((unused))

BENCH_FUNC void bench_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		fprintf(stderr, "bench: cannot run on CPU %d: %s\n", cpu, strerror(errno));
		exit(2);
	}
}

/* First line that @command prints, or @otherwise; overwritten by the next call. */
BENCH_FUNC const char *bench_ask(const char *command, const char *otherwise)
{
	static char line[256];
	FILE *f = popen(command, "re");
	const char *answer = f ? fgets(line, sizeof(line), f) : NULL;

	if (f)
		pclose(f);
	if (!answer || line[0] == '\n' || !line[0])
		return otherwise;
	line[strcspn(line, "\n")] = 0;
	return line;
}

/* On standard output; the benchmark runs on the first @nr_cpus of @cpu. */
BENCH_FUNC void bench_describe(const int *cpu, int nr_cpus, const char *question)
{
	struct utsname name;
	double load = 0;
	char date[32];
	time_t now = time(NULL);

	if (uname(&name))
		memset(&name, 0, sizeof(name));
	strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", gmtime(&now));
	printf("%s\n", question);
	/* One at a time: bench_ask() has one buffer. */
	printf("cpu      %s",
	       bench_ask("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo", "unknown"));
	printf("%s\n",
	       bench_ask("grep '^flags.* hypervisor' /proc/cpuinfo", "")[0] ? ", virtual" : "");
	printf("cpus     %s, used here: %d", bench_ask("nproc", "?"), cpu[0]);
	printf(nr_cpus > 1 ? " and %d\n" : "\n", cpu[1]);
	printf("kernel   %s %s\n", name.sysname, name.release);
#ifdef __clang__
	printf("compiler %s\n", __VERSION__);
#else
	printf("compiler gcc %s\n", __VERSION__);
#endif
	printf("commit   %s\n",
	       bench_ask("git describe --always --dirty --abbrev=12 2>/dev/null", "none"));
	if (getloadavg(&load, 1) != 1)
		load = 0;
	printf("date     %s, load average %.2f%s\n", date, load,
	       load > 0.5 ? " (busy: believe the ratios, not the nanoseconds)" : "");
}

#endif /* STRATA_BENCH_MACHINE_H */
