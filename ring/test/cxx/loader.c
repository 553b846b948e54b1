/* SPDX-License-Identifier: MIT */
/*
 * loader.c - load a library that records, record, unload it, and go on: the kernel must find no
 * critical section in memory that is not there any more.
 *
 *   loader LIBRARY [commit]
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <strata/ring/client/logger.h>
#include <sys/time.h>

enum {
	ROUNDS = 300,
	RECORDS = 50
};

typedef int (*record_function)(const struct strata_ring_logger *ring, uint64_t number);
typedef void (*flush_function)(const struct strata_ring_logger *ring);

static const char *library;
static struct strata_ring_logger ring;
static uint64_t written;
static int failed;

static void tick(int signal_number)
{
	(void)signal_number;
}

/* Time: preemption and signals are what makes the kernel look: work, and be interrupted. */
static void be_interrupted(void)
{
	const struct timespec nap = { 0, 20000 };
	volatile unsigned n = 0;

	while (n < 20000)
		n = n + 1;
	nanosleep(&nap, NULL); /* Time: as above. */
}

static void *load_record_unload(void *argument)
{
	record_function record;
	flush_function flush;
	void *handle, *symbol;
	int i, n;

	(void)argument;
	for (i = 0; i < ROUNDS; i++) {
		handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
		if (!handle) {
			fprintf(stderr, "%s\n", dlerror());
			failed = 1;
			return NULL;
		}
		symbol = dlsym(handle, "library_record");
		memcpy(&record, &symbol, sizeof(record));
		symbol = dlsym(handle, "library_flush");
		memcpy(&flush, &symbol, sizeof(flush));
		for (n = 0; n < RECORDS; n++)
			if (!record(&ring, (uint64_t)n))
				__atomic_fetch_add(&written, 1, __ATOMIC_RELAXED);
		if (i % 50 == 0)
			flush(&ring);
		dlclose(handle);
		be_interrupted();
		/* This records from the program's own copy of the code. */
		if (!strata_ring_logger_record(&ring, 1, &written, sizeof(written)))
			__atomic_fetch_add(&written, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const struct itimerval often = { { 0, 200 }, { 0, 200 } };
	const struct strata_ring_view *view;
	struct strata_ring_merge merge;
	struct strata_ring_attr attr;
	uint64_t records = 0;
	pthread_t threads[3];
	unsigned i;

	if (argc < 2)
		return 2;
	library = argv[1];
	memset(&attr, 0, sizeof(attr));
	attr.subbuf_bytes = 65536;
	attr.nr_subbufs = 64;
	attr.no_rseq = argc > 2;
	if (strata_ring_logger_create(&ring, &attr, NULL))
		return 2;
	signal(SIGALRM, tick);
	setitimer(ITIMER_REAL, &often, NULL);
	for (i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, load_record_unload, NULL))
			return 2;
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	if (dlopen(library, RTLD_NOW | RTLD_NOLOAD)) {
		fprintf(stderr, "the library is still loaded\n");
		failed = 1;
	}
	if (strata_ring_logger_merge_init(&merge, &ring, STRATA_RING_REST))
		return 2;
	while (!strata_ring_merge_next(&merge, &view))
		records++;
	strata_ring_merge_end(&merge);
	printf("%llu records by %s, %llu read\n", (unsigned long long)written,
	       ring.channel.header.publish == STRATA_ABI_RING_BY_POSITION ? "position" : "commit",
	       (unsigned long long)records);
	strata_ring_logger_close(&ring);
	return failed || records != written || written != 3 * (uint64_t)ROUNDS * (RECORDS + 1);
}
