/* SPDX-License-Identifier: MIT */
/*
 * stress.c - many threads on few CPUs, that migrate and are interrupted by a handler that writes records
 * too, and a reader at the same time: each record is there exactly once, whole, and in order.
 */
#include <pthread.h>
#include "sample.h"

enum {
	THREADS = 4,
	WRITERS = 2 * THREADS, /* each thread, and the handler that interrupts it */
	NUMBERS = 300000,      /* at most, of each writer */
	SUBBUF = 4096,
	COUNT = 8,
	STREAMS_MAX = 256,
	MILLISECONDS = 350,
	/* Records, where it takes longer. */
	ENOUGH = 100
};

typedef int (*write_function)(const struct strata_ring_channel *channel, uint32_t writer,
			      uint64_t number, int in_handler);

struct worker {
	pthread_t thread;
	uint32_t id;
	uint64_t next;	       /* number of the thread's next record */
	uint64_t handler_next; /* of the handler's */
};

static struct {
	const struct strata_ring_config *config;
	struct strata_ring_channel channel;
	write_function write;
	unsigned threads;
	int migrate;
	int cpus[16];
	int nr_cpus;
	int stop;
	uint64_t written; /* accepted; atomic, as the next two */
	uint64_t not_written;
	uint64_t cancelled;
	uint64_t read;
	unsigned char *accepted[WRITERS]; /* [NUMBERS]; of the writer */
	unsigned char *seen[WRITERS];	  /* [NUMBERS]; of the reader */
	struct worker workers[THREADS];
} run;

static __thread struct worker *self;

/* ---- writing: one function for each configuration, so that the compiler sees the constants ---- */

#define WRITER(name)                                                                        \
	static int write_##name(const struct strata_ring_channel *channel, uint32_t writer, \
				uint64_t number, int in_handler)                            \
	{                                                                                   \
		_Alignas(8) unsigned char                                                   \
			memory[STRATA_RING_HEADER_MAX + sizeof(struct sample) + 8];         \
		struct sample *sample =                                                     \
			(struct sample *)(void *)(memory + STRATA_RING_HEADER_MAX);         \
		const uint32_t bytes = sample_make(sample, writer, number);                 \
		const struct strata_ring_event event = { writer, bytes, in_handler };       \
		struct strata_ring_stream *s;                                               \
		struct strata_ring_slot slot;                                               \
		int error;                                                                  \
                                                                                            \
		if (channel->header.publish == STRATA_ABI_RING_BY_POSITION)                 \
			return strata_ring_publish(&name, &channel->streams, &event,        \
						   memory + STRATA_RING_HEADER_MAX);        \
		s = strata_ring_current_stream(&name, channel);                             \
		/* Now and then one that is given up. */                                    \
		if (number % 19 == 3 && !strata_ring_reserve(&name, s, &event, &slot) &&    \
		    strata_ring_cancel(&name, &slot) == 1)                                  \
			__atomic_fetch_add(&run.cancelled, 1, __ATOMIC_RELAXED);            \
		error = strata_ring_reserve(&name, s, &event, &slot);                       \
		if (error)                                                                  \
			return error;                                                       \
		strata_ring_write(&slot, sample, 16);                                       \
		strata_ring_write(&slot, (const unsigned char *)sample + 16, bytes - 16);   \
		strata_ring_commit(&name, &slot);                                           \
		return 0;                                                                   \
	}

#define CONFIG(name, loss, writers, buffers, clock, between)                        \
	static const struct strata_ring_config name = { loss,                       \
							writers,                    \
							buffers,                    \
							STRATA_RING_WAKE_BY_WRITER, \
							8,                          \
							clock,                      \
							STRATA_RING_HEADER_SIZED,   \
							between };                  \
	WRITER(name)

CONFIG(rseq_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ, STRATA_RING_PER_CPU,
       strata_clock_monotonic_ns, NULL)
CONFIG(rseq_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_RSEQ, STRATA_RING_PER_CPU,
       strata_clock_monotonic_ns, NULL)
/*
 * By commit, a thread may be on another CPU than its stream's: its handler, before it has a place.
 */
CONFIG(rseq_cycles, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ, STRATA_RING_PER_CPU,
       strata_clock_cycles, strata_clock_cycles_ordered)
CONFIG(smp_global_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_SMP, STRATA_RING_GLOBAL,
       strata_clock_monotonic_ns, NULL)
CONFIG(smp_global_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_SMP, STRATA_RING_GLOBAL,
       strata_clock_monotonic_ns, NULL)
CONFIG(smp_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_SMP, STRATA_RING_PER_CPU,
       strata_clock_monotonic_ns, NULL)
CONFIG(smp_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_SMP, STRATA_RING_PER_CPU,
       strata_clock_monotonic_ns, NULL)
CONFIG(smp_cycles, STRATA_RING_DISCARD, STRATA_RING_WRITERS_SMP, STRATA_RING_GLOBAL,
       strata_clock_cycles_ordered, NULL)
CONFIG(local_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_LOCAL, STRATA_RING_PER_CPU,
       strata_clock_monotonic_ns, NULL)
CONFIG(local_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_LOCAL, STRATA_RING_PER_CPU,
       strata_clock_monotonic_ns, NULL)

static void write_one(uint32_t writer, uint64_t *next, int in_handler)
{
	uint64_t number = *next;

	if (number >= NUMBERS)
		return;
	*next = number + 1;
	if (run.write(&run.channel, writer, number, in_handler)) {
		__atomic_fetch_add(&run.not_written, 1, __ATOMIC_RELAXED);
		return;
	}
	run.accepted[writer][number] = 1;
	__atomic_fetch_add(&run.written, 1, __ATOMIC_RELAXED);
}

static void handler(int signal_number)
{
	int saved = errno;

	(void)signal_number;
	if (self)
		write_one(THREADS + self->id, &self->handler_next, 1);
	errno = saved;
}

static void *work(void *argument)
{
	struct worker *worker = (struct worker *)argument;
	uint64_t random = test_seed + worker->id * 2;

	self = worker;
	while (!__atomic_load_n(&run.stop, __ATOMIC_RELAXED)) {
		if (run.migrate && !(worker->next % 64))
			test_pin(run.cpus[test_random_from(&random) % (unsigned)run.nr_cpus]);
		write_one(worker->id, &worker->next, 0);
		if (worker->next >= NUMBERS)
			sched_yield();
	}
	self = NULL;
	return NULL;
}

/* Interrupts the workers in turns; a signal may find a thread anywhere. */
static void *interrupt(void *argument)
{
	unsigned n = 0;

	(void)argument;
	while (!__atomic_load_n(&run.stop, __ATOMIC_RELAXED)) {
		pthread_kill(run.workers[n++ % run.threads].thread, SIGUSR1);
		test_sleep_us(20);
	}
	return NULL;
}

/* ---- reading ---- */

static struct {
	struct strata_ring_reader reader;
	uint64_t time;
	uint64_t next[WRITERS]; /* number + 1 of the last record seen of each writer */
} streams[STREAMS_MAX];

static void check_record(uint32_t stream, const struct strata_ring_parsed *head,
			 const unsigned char *payload)
{
	struct sample sample;

	CHECK(head->timestamp, >=, streams[stream].time);
	streams[stream].time = head->timestamp;
	if (!CHECK(sample_read(&sample, payload, head->payload_bytes), ==, 1) ||
	    !CHECK(sample.writer, <, WRITERS) || !CHECK(sample.number, <, NUMBERS))
		return;
	CHECK(head->id, ==, sample.writer);
	CHECK(sample.number, >=, streams[stream].next[sample.writer]);
	streams[stream].next[sample.writer] = sample.number + 1;
	CHECK(run.seen[sample.writer][sample.number], ==, 0);
	run.seen[sample.writer][sample.number] = 1;
	run.read++;
}

static void check_packet(uint32_t stream, const struct strata_ring_packet *packet)
{
	uint64_t offset = packet->header_bytes, records = 0;
	struct strata_ring_parsed head;

	CHECK(packet->timestamp_begin, >=, streams[stream].time);
	while (offset < packet->content_bytes) {
		if (!CHECK(strata_ring_sized_parse(packet->data + offset,
						   packet->content_bytes - offset, &head),
			   ==, 0))
			return;
		if (!head.padding) {
			check_record(stream, &head, packet->data + offset + 16);
			records++;
		}
		offset += (16 + (uint64_t)head.payload_bytes + 7) & ~UINT64_C(7);
	}
	CHECK(offset, ==, packet->content_bytes);
	CHECK(records, ==, packet->records);
	CHECK(packet->timestamp_end, >=, streams[stream].time);
}

/*
 * Reads the delivered packets of each stream, at most as many as it holds, so that writers cannot
 * keep it busy. Returns the number of packets.
 */
static unsigned drain(void)
{
	struct strata_ring_packet packet;
	unsigned packets = 0, n;
	uint32_t i;

	for (i = 0; i < run.channel.streams.nr; i++)
		for (n = 0; n < COUNT && !strata_ring_get_next(&streams[i].reader, &packet); n++) {
			check_packet(i, &packet);
			strata_ring_put_next(&streams[i].reader);
			packets++;
		}
	return packets;
}

static void flush_all(void)
{
	uint32_t i;
	int n;

	if (run.channel.header.publish == STRATA_ABI_RING_BY_COMMIT) {
		for (i = 0; i < run.channel.streams.nr; i++)
			strata_ring_flush(run.config, &run.channel.streams.stream[i]);
		return;
	}
	for (n = 0; n < run.nr_cpus; n++) {
		test_pin(run.cpus[n]);
		strata_ring_flush_current(run.config, &run.channel);
	}
	test_pin(test_cpu);
}

static void check_accounts(void)
{
	uint64_t written = 0, overwritten = 0, discarded = 0, cancelled = 0, unseen = 0, n;
	struct strata_ring_counters c;
	uint32_t i;

	for (i = 0; i < run.channel.streams.nr; i++) {
		strata_ring_read_counters(&run.channel.streams.stream[i], &c);
		written += c.written;
		overwritten += c.overwritten_records;
		cancelled += c.cancelled;
		discarded += strata_ring_discarded(&run.channel.streams.stream[i]);
	}
	for (i = 0; i < WRITERS; i++)
		for (n = 0; n < NUMBERS; n++) {
			unseen += run.accepted[i][n] && !run.seen[i][n];
			CHECK(run.seen[i][n], <=, run.accepted[i][n]);
		}
	printf("      %" PRIu64 " written, %" PRIu64 " discarded, %" PRIu64 " overwritten, %" PRIu64
	       " read, %" PRIu64 " cancelled\n",
	       written, discarded, overwritten, run.read, cancelled);
	CHECK(written, ==, run.written);
	CHECK(unseen, ==, overwritten);
	CHECK(written - overwritten, ==, run.read);
	/* A reservation that was to be cancelled may be discarded as well. */
	CHECK(discarded, >=, run.not_written);
	if (run.channel.header.publish == STRATA_ABI_RING_BY_POSITION)
		CHECK(discarded, ==, run.not_written);
	CHECK(cancelled, ==, run.cancelled);
	CHECK(run.written, >, ENOUGH);
}

static void stress_for(const struct strata_ring_config *config, write_function write, int no_rseq,
		       unsigned threads, int migrate)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);
	uint64_t end, limit, now;
	pthread_t interrupter;
	unsigned i;

	memset(&run, 0, sizeof(run));
	memset(streams, 0, sizeof(streams));
	run.config = config;
	run.write = write;
	run.threads = threads;
	run.migrate = migrate;
	run.nr_cpus = test_cpus(run.cpus, 16);
	attr.no_rseq = no_rseq;
	attr.header_bytes = 16;
	run.channel = sample_create(config, &attr);
	REQUIRE(run.channel.streams.nr, <=, STREAMS_MAX);
	for (i = 0; i < run.channel.streams.nr; i++)
		CHECK(strata_ring_reader_init(&streams[i].reader, &run.channel.streams.stream[i]),
		      ==, 0);
	for (i = 0; i < WRITERS; i++) {
		run.accepted[i] = (unsigned char *)calloc(1, NUMBERS);
		run.seen[i] = (unsigned char *)calloc(1, NUMBERS);
		REQUIRE(run.accepted[i] && run.seen[i], ==, 1);
	}
	signal(SIGUSR1, handler);
	/* Threads without a place of their own begin on all CPUs. */
	if (migrate)
		sched_setaffinity(0, sizeof(test_allowed), &test_allowed);
	for (i = 0; i < threads; i++) {
		run.workers[i].id = i;
		REQUIRE(pthread_create(&run.workers[i].thread, NULL, work, &run.workers[i]), ==, 0);
	}
	sched_setaffinity(0, sizeof(test_allowed), &test_allowed);
	REQUIRE(pthread_create(&interrupter, NULL, interrupt, NULL), ==, 0);
	end = test_now_ns() + UINT64_C(1000000) * MILLISECONDS;
	limit = end + UINT64_C(60000000000);
	while ((now = test_now_ns()) < end ||
	       (__atomic_load_n(&run.written, __ATOMIC_RELAXED) <= ENOUGH && now < limit))
		if (!drain())
			strata_ring_wait(&streams[0].reader, 100000);
	__atomic_store_n(&run.stop, 1, __ATOMIC_RELAXED);
	pthread_join(interrupter, NULL);
	for (i = 0; i < threads; i++)
		pthread_join(run.workers[i].thread, NULL);
	test_pin(test_cpu);
	flush_all();
	while (drain())
		;
	check_accounts();
	signal(SIGUSR1, SIG_DFL);
	for (i = 0; i < WRITERS; i++) {
		free(run.accepted[i]);
		free(run.seen[i]);
	}
	strata_ring_channel_close(&run.channel);
}

#define STRESS(config, no_rseq, threads, migrate) \
	stress_for(&config, write_##config, no_rseq, threads, migrate)

static void stress_per_cpu_discard_has_every_record_exactly_once(void)
{
	STRESS(rseq_discard, !test_by_position, THREADS, 1);
}

static void stress_per_cpu_overwrite_accounts_for_every_record(void)
{
	STRESS(rseq_overwrite, !test_by_position, THREADS, 1);
}

static void stress_per_cpu_with_cycle_clock_never_goes_back_in_time(void)
{
	STRESS(rseq_cycles, !test_by_position, THREADS, 1);
}

static void stress_smp_global_discard_has_every_record_exactly_once(void)
{
	STRESS(smp_global_discard, 0, THREADS, 1);
}

static void stress_smp_global_overwrite_accounts_for_every_record(void)
{
	STRESS(smp_global_overwrite, 0, THREADS, 1);
}

static void stress_smp_per_cpu_discard_has_every_record_exactly_once(void)
{
	STRESS(smp_discard, 0, THREADS, 1);
}

static void stress_smp_per_cpu_overwrite_accounts_for_every_record(void)
{
	STRESS(smp_overwrite, 0, THREADS, 1);
}

static void stress_smp_global_with_cycle_clock_never_goes_back_in_time(void)
{
	STRESS(smp_cycles, 0, THREADS, 1);
}

static void stress_local_writer_and_its_handler_have_every_record_exactly_once(void)
{
	STRESS(local_discard, 0, 1, 0);
	STRESS(local_overwrite, 0, 1, 0);
}

static const struct test tests[] = {
	BOTH(stress_per_cpu_discard_has_every_record_exactly_once),
	BOTH(stress_per_cpu_overwrite_accounts_for_every_record),
	BOTH(stress_per_cpu_with_cycle_clock_never_goes_back_in_time),
	ONCE(stress_smp_global_discard_has_every_record_exactly_once),
	ONCE(stress_smp_global_overwrite_accounts_for_every_record),
	ONCE(stress_smp_per_cpu_discard_has_every_record_exactly_once),
	ONCE(stress_smp_per_cpu_overwrite_accounts_for_every_record),
	ONCE(stress_smp_global_with_cycle_clock_never_goes_back_in_time),
	ONCE(stress_local_writer_and_its_handler_have_every_record_exactly_once),
};
TEST_MAIN(tests)
