/* SPDX-License-Identifier: MIT */
/*
 * first.c - write records from two threads, read them in the order of time, and print what happened.
 *
 * Built by "make demo"; or by hand, with the library installed:
 *   cc first.c $(pkg-config --cflags strata-ring) -pthread -o first && ./first
 */
#include <pthread.h>
#include <stdio.h>
#include <strata/ring/client/logger.h>

enum {
	RECORDS = 5
};

struct worker {
	struct strata_ring_logger *ring;
	uint32_t id;
};

static void *work(void *argument)
{
	const struct worker *worker = (const struct worker *)argument;
	char text[32];
	int i, n;

	for (i = 1; i <= RECORDS; i++) {
		n = snprintf(text, sizeof(text), "step %d of worker %u", i, worker->id);
		/*
		 * A record that is not written was discarded and counted; there is nothing else to
		 * do here.
		 */
		strata_ring_logger_record(worker->ring, worker->id, text, (uint32_t)n);
	}
	return NULL;
}

/* Prints everything that was published, including packets that are still open; the writers have ended. */
static void print_records(const struct strata_ring_logger *ring)
{
	const struct strata_ring_view *view;
	struct strata_ring_merge merge;
	uint64_t first = 0;

	if (strata_ring_logger_merge_init(&merge, ring, STRATA_RING_REST))
		return;
	while (!strata_ring_merge_next(&merge, &view)) {
		if (!first)
			first = view->head.timestamp;
		printf("  +%6llu ns  cpu %u  id %u  \"%.*s\"\n",
		       (unsigned long long)(view->head.timestamp - first), view->cpu, view->head.id,
		       (int)view->head.payload_bytes, (const char *)view->payload);
	}
	strata_ring_merge_end(&merge);
}

int main(void)
{
	struct strata_ring_attr attr;
	struct strata_ring_logger ring;
	struct strata_ring_counters counters;
	struct strata_ring_error error;
	struct worker workers[2] = { { &ring, 1 }, { &ring, 2 } };
	uint64_t written = 0, discarded = 0;
	pthread_t threads[2];
	uint32_t i;

	memset(&attr, 0, sizeof(attr));
	attr.subbuf_bytes = 4096;
	attr.nr_subbufs = 4;
	if (strata_ring_logger_create(&ring, &attr, &error)) {
		fprintf(stderr, "first: %s\n", error.text);
		return 2;
	}
	printf("%u buffers of %llu sub-buffers of %llu bytes, published by %s\n",
	       ring.channel.streams.nr, (unsigned long long)attr.nr_subbufs,
	       (unsigned long long)attr.subbuf_bytes,
	       ring.channel.header.publish == STRATA_ABI_RING_BY_POSITION ?
		       "write position (rseq)" :
		       "commit");
	for (i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, work, &workers[i]))
			return 2;
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	print_records(&ring);
	for (i = 0; i < ring.channel.streams.nr; i++) {
		strata_ring_read_counters(&ring.channel.streams.stream[i], &counters);
		written += counters.written;
		discarded += strata_ring_discarded(&ring.channel.streams.stream[i]);
	}
	printf("%llu records written, %llu discarded\n", (unsigned long long)written,
	       (unsigned long long)discarded);
	strata_ring_logger_close(&ring);
	return written == 2 * RECORDS ? 0 : 1;
}
