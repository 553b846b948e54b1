/* SPDX-License-Identifier: MIT */
/*
 * stress.c - threads and their signal handlers write, a reader reads; for the sanitizers.
 *
 * The reader consumes, scans the ring in both directions, and looks at the packet being filled.
 * Each record holds its writer, a number that counts up, and bytes that follow from both. Verified: no
 * record torn, none twice, those of each writer in order in each stream; time and the discarded
 * count of a packet never go back; written - overwritten == read, tried == written + discarded.
 *
 * Under ThreadSanitizer restartable sequences are off (rseq.h), and everything is by commit with SMP
 * atomics. It sees no fences: what is copied first and validated afterwards is a race to it. Those
 * copies, and nothing else, are made by strata_plain_peek(), which is suppressed below.
 *
 *   stress [RECORDS]     of each thread in each configuration; exit: 0 all hold; 1 one does not
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <strata/ring/ring.h>

enum {
	THREADS = 4,
	WRITERS = 2 * THREADS, /* a thread, and its signal handler */
	STREAMS_MAX = 1024,
	PAYLOAD_MAX = 256,
	SIGNAL_EVERY_US = 50,
	ERRNO_MARK = 99,
	HANG_SECONDS = 360,
};

#if defined(__SANITIZE_THREAD__)
const char *__tsan_default_suppressions(void);

/*
 * Copies that may be torn, and are thrown away if they were: live.h, strata_ring_hold(). And looking
 * up whether a race is suppressed changes errno, which is laid to the handler that it happens in.
 */
const char *__tsan_default_suppressions(void)
{
	return "race:strata_plain_peek\nsignal:on_signal\n";
}
#endif

#define CONFIG(name, mode, kind, place, wake)                                           \
	static const struct strata_ring_config name = {                                 \
		.loss_mode = STRATA_RING_##mode,                                        \
		.writers = STRATA_RING_WRITERS_##kind,                                  \
		.buffers = STRATA_RING_##place,                                         \
		.wakeup = STRATA_RING_WAKE_##wake,                                      \
		.record_align = 8,                                                      \
		.clock = strata_clock_monotonic_ns,                                     \
		.header = STRATA_RING_HEADER_SIZED,                                     \
	};                                                                              \
	static int write_##name(struct strata_ring_channel *c, uint32_t id,             \
				unsigned char *staging, uint32_t bytes, int in_handler) \
	{                                                                               \
		const struct strata_ring_event event = { id, bytes, in_handler };       \
                                                                                        \
		return write_record(&name, c, &event, staging);                         \
	}

static pthread_barrier_t barrier;

/* Records as strata_ring_record() does, which cannot be told that it runs in a handler. */
STRATA_INLINE int write_record(const struct strata_ring_config *config,
			       struct strata_ring_channel *c, const struct strata_ring_event *event,
			       unsigned char *staging)
{
	struct strata_ring_slot slot;
	int error;

	if (config->writers == STRATA_RING_WRITERS_RSEQ &&
	    c->header.publish == STRATA_ABI_RING_BY_POSITION)
		return strata_ring_publish(config, &c->streams, event, staging);
	error = strata_ring_reserve(config, strata_ring_current_stream(config, c), event, &slot);
	if (error)
		return error;
	strata_ring_write(&slot, staging, event->payload_bytes);
	strata_ring_commit(config, &slot);
	return 0;
}

CONFIG(global_discard, DISCARD, SMP, GLOBAL, BY_WRITER)
CONFIG(global_overwrite, OVERWRITE, SMP, GLOBAL, NONE)
CONFIG(per_cpu_discard, DISCARD, SMP, PER_CPU, NONE)
CONFIG(per_cpu_overwrite, OVERWRITE, SMP, PER_CPU, NONE)
CONFIG(rseq_discard, DISCARD, RSEQ, PER_CPU, BY_WRITER)
CONFIG(rseq_overwrite, OVERWRITE, RSEQ, PER_CPU, NONE)

static const struct client {
	const char *name;
	const struct strata_ring_config *config;
	int (*write)(struct strata_ring_channel *c, uint32_t id, unsigned char *staging,
		     uint32_t bytes, int in_handler);
} clients[] = {
	{ "global, discard", &global_discard, write_global_discard },
	{ "global, overwrite", &global_overwrite, write_global_overwrite },
	{ "per CPU, discard", &per_cpu_discard, write_per_cpu_discard },
	{ "per CPU, overwrite", &per_cpu_overwrite, write_per_cpu_overwrite },
	{ "rseq, discard", &rseq_discard, write_rseq_discard },
	{ "rseq, overwrite", &rseq_overwrite, write_rseq_overwrite },
};

/* Each is written by one thread or handler, and read after it has ended. */
static struct writer {
	uint64_t tried;
	uint64_t written;
	uint64_t discarded;
} writers[WRITERS];

struct stream_state {
	uint64_t last[WRITERS]; /* number of the record read last */
	uint64_t position;	/* of the next packet, at least */
	uint64_t time;
	uint64_t discarded;
};

static const struct client *client;
static struct strata_ring_channel channel;
static uint64_t records_each;
static int writers_done;  /* atomic */
static int errno_changed; /* atomic; 1: writing in a signal handler did */
static __thread int thread_index = -1;
static int failed;

/* State of each stream that belongs to the reader. */
static struct stream_state streams[STREAMS_MAX];
static uint64_t consumed[WRITERS], scanned, prefixes;

static void wrong(const char *format, ...)
{
	va_list arguments;

	if (!failed) {
		va_start(arguments, format);
		vprintf(format, arguments);
		va_end(arguments);
		printf("\n");
	}
	failed = 1;
}

static unsigned char pattern(uint64_t number, uint32_t writer, uint32_t i)
{
	return (unsigned char)(number * 31 + writer * 7 + i);
}

/* ---- writers ---- */

static void write_one(uint32_t id, int in_handler)
{
	/* The way by position reads up to 7 bytes behind the payload. */
	unsigned char staging[STRATA_RING_HEADER_MAX + PAYLOAD_MAX + 8] = { 0 }, *payload;
	struct writer *w = &writers[id];
	uint64_t number = ++w->tried;
	uint32_t bytes = 8 + (uint32_t)(number * 13 % (PAYLOAD_MAX - 8)), i;

	payload = staging + STRATA_RING_HEADER_MAX;
	memcpy(payload, &number, sizeof(number));
	for (i = 8; i < bytes; i++)
		payload[i] = pattern(number, id, i);
	if (client->write(&channel, id, payload, bytes, in_handler))
		w->discarded++;
	else
		w->written++;
}

static void on_signal(int sig)
{
	int saved = errno;

	(void)sig;
	if (thread_index < 0)
		return;
	errno = ERRNO_MARK;
	write_one((uint32_t)thread_index + THREADS, 1);
#if !defined(__SANITIZE_THREAD__)
	if (errno != ERRNO_MARK)
		__atomic_store_n(&errno_changed, 1, __ATOMIC_RELAXED);
#endif
	errno = saved;
}

static void *write_many(void *argument)
{
	uint64_t i;

	thread_index = (int)(intptr_t)argument;
	pthread_barrier_wait(&barrier);
	for (i = 0; i < records_each; i++) {
		write_one((uint32_t)thread_index, 0);
		/*
		 * With fewer CPUs than threads, the threads that run first would finish before the
		 * others start.
		 */
		if (i % 64 == 0)
			sched_yield();
	}
	/* The handler records nothing from here on: its counts are read after the join. */
	thread_index = -1;
	return NULL;
}

/* ---- reader ---- */

/* Scan over a packet, whole or the prefix of one. @consume: account for it. Returns the records. */
static uint64_t scan(const struct strata_ring_packet *packet, uint32_t cpu, int consume)
{
	uint64_t offset = packet->header_bytes, number, count = 0;
	struct stream_state *s = &streams[cpu];
	struct strata_ring_parsed parsed;
	const unsigned char *p;
	uint32_t i;

	for (; offset < packet->content_bytes;
	     offset += (parsed.header_bytes + parsed.payload_bytes + 7u) & ~7u, count++) {
		p = packet->data + offset;
		if (strata_ring_sized_parse(p, packet->content_bytes - offset, &parsed) ||
		    parsed.id >= WRITERS || parsed.payload_bytes < 8) {
			wrong("stream %u: damaged at offset %d", cpu, (int)offset);
			return 0;
		}
		p += parsed.header_bytes;
		memcpy(&number, p, sizeof(number));
		for (i = 8; i < parsed.payload_bytes; i++)
			if (p[i] != pattern(number, parsed.id, i)) {
				wrong("stream %u: torn at offset %d", cpu, (int)offset);
				return 0;
			}
		if (!consume)
			continue;
		if (number <= s->last[parsed.id])
			wrong("stream %u: record %d of writer %u after %d", cpu, (int)number,
			      parsed.id, (int)s->last[parsed.id]);
		if (parsed.timestamp < s->time)
			wrong("stream %u: time goes back", cpu);
		s->last[parsed.id] = number;
		s->time = parsed.timestamp;
		consumed[parsed.id]++;
	}
	return count;
}

static void consume(struct strata_ring_reader *r)
{
	struct stream_state *s = &streams[r->s->cpu];
	struct strata_ring_packet packet;
	int error = strata_ring_get_next(r, &packet);

	if (error == -EAGAIN)
		return;
	if (error) {
		wrong("stream %u: packet cannot be read: %d", r->s->cpu, error);
		strata_ring_put_next(r);
		return;
	}
	if (packet.position < s->position)
		wrong("stream %u: packet out of order", r->s->cpu);
	if (packet.timestamp_begin < s->time || packet.timestamp_end < packet.timestamp_begin)
		wrong("stream %u: time of a packet goes back", r->s->cpu);
	if (packet.discarded < s->discarded)
		wrong("stream %u: discarded count of a packet goes back", r->s->cpu);
	s->time = packet.timestamp_begin;
	if (scan(&packet, r->s->cpu, 1) != packet.records)
		wrong("stream %u: packet does not have its %d records", r->s->cpu,
		      (int)packet.records);
	if (packet.timestamp_end < s->time)
		wrong("stream %u: packet ends before its last record", r->s->cpu);
	s->time = packet.timestamp_end;
	s->discarded = packet.discarded;
	s->position = packet.position + r->s->subbuf_bytes;
	strata_ring_put_next(r);
}

static void scan_ring(struct strata_ring_reader *r, enum strata_ring_direction direction)
{
	static unsigned char copy[4096];
	struct strata_ring_scan ring_scan;
	struct strata_ring_packet packet;
	int error;

	strata_ring_scan_begin(&ring_scan, r, direction);
	while ((error = strata_ring_scan_get(&ring_scan, &packet)) != -ENODATA) {
		if (error == -EAGAIN)
			continue;
		if (error)
			wrong("stream %u: scan: %d", r->s->cpu, error);
		else if (scan(&packet, r->s->cpu, 0) != packet.records)
			wrong("stream %u: scan: records", r->s->cpu);
		scanned++;
		strata_ring_put_subbuf(r);
	}
	strata_ring_scan_begin(&ring_scan, r, direction);
	while ((error = strata_ring_scan_copy(&ring_scan, copy, sizeof(copy), &packet)) !=
	       -ENODATA) {
		if (error && error != -EAGAIN && error != -EBUSY)
			wrong("stream %u: scan by copies: %d", r->s->cpu, error);
		if (error)
			continue;
		if (scan(&packet, r->s->cpu, 0) != packet.records && ring_scan.whole)
			wrong("stream %u: scan by copies: records", r->s->cpu);
		scanned++;
	}
}

/* The packet being filled, those behind it, and some that are gone. */
static void prefix(struct strata_ring_reader *r)
{
	static unsigned char copy[4096];
	struct strata_ring_packet packet;
	uint64_t end = strata_ring_begin(r->s, strata_load_relaxed(&r->s->shared->write_count)) +
		       r->s->subbuf_bytes;
	uint64_t position = end > 2 * r->s->buffer_bytes ? end - 2 * r->s->buffer_bytes : 0;

	if (!strata_ring_get_available(r, &packet)) {
		scan(&packet, r->s->cpu, 0);
		prefixes++;
	}
	for (; position != end; position += r->s->subbuf_bytes)
		if (!strata_ring_copy_available(r, position, copy, sizeof(copy), &packet)) {
			scan(&packet, r->s->cpu, 0);
			prefixes++;
		}
}

static void *read_all(void *argument)
{
	struct strata_ring_reader *readers = (struct strata_ring_reader *)argument;
	uint64_t round;
	uint32_t i, nr = channel.streams.nr;
	int done = 0, idle = 0;

	for (round = 0; !done || !idle; round++) {
		done = __atomic_load_n(&writers_done, __ATOMIC_ACQUIRE);
		idle = 1;
		for (i = 0; i < nr; i++) {
			if (nr == 1 && !done)
				strata_ring_wait(&readers[i], 1000000);
			idle &= strata_ring_poll(&readers[i]) == STRATA_RING_NOTHING;
			consume(&readers[i]);
			if (!done)
				prefix(&readers[i]);
			if (!done && round % 4 == 0)
				scan_ring(&readers[i], round % 8 ? STRATA_RING_OLDEST_FIRST :
								   STRATA_RING_NEWEST_FIRST);
		}
	}
	return NULL;
}

/* ---- a run ---- */

static void flush_all(void)
{
	cpu_set_t before, one;
	uint32_t i;

	if (channel.header.publish == STRATA_ABI_RING_BY_COMMIT) {
		for (i = 0; i < channel.streams.nr; i++)
			strata_ring_flush(client->config, &channel.streams.stream[i]);
		return;
	}
	sched_getaffinity(0, sizeof(before), &before);
	for (i = 0; i < channel.streams.nr; i++) {
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		/* A CPU that cannot be had has no records. */
		if (CPU_ISSET(i, &before) && !sched_setaffinity(0, sizeof(one), &one))
			strata_ring_flush_on_cpu(client->config, &channel.streams);
	}
	sched_setaffinity(0, sizeof(before), &before);
}

static void account(double since)
{
	uint64_t tried = 0, written = 0, discarded = 0, read = 0, overwritten = 0, refused = 0,
		 from_handlers = 0, counted = 0;
	struct strata_ring_counters c;
	uint32_t i;

	for (i = 0; i < WRITERS; i++) {
		tried += writers[i].tried;
		written += writers[i].written;
		discarded += writers[i].discarded;
		read += consumed[i];
		from_handlers += i >= THREADS ? writers[i].written : 0;
		if (client->config->loss_mode == STRATA_RING_DISCARD &&
		    consumed[i] != writers[i].written)
			wrong("writer %u: %d records written, %d read", i, (int)writers[i].written,
			      (int)consumed[i]);
	}
	for (i = 0; i < channel.streams.nr; i++) {
		strata_ring_read_counters(&channel.streams.stream[i], &c);
		counted += c.written;
		overwritten += c.overwritten_records;
		refused += strata_ring_discarded(&channel.streams.stream[i]);
	}
	if (counted != written || refused != discarded || tried != written + discarded)
		wrong("%d tried, %d written, %d discarded; counted %d and %d", (int)tried,
		      (int)written, (int)discarded, (int)counted, (int)refused);
	if (__atomic_load_n(&errno_changed, __ATOMIC_RELAXED))
		wrong("errno changed in a signal handler");
	if (written != read + overwritten)
		wrong("%d written, %d overwritten, %d read", (int)written, (int)overwritten,
		      (int)read);
	printf("  %-19s %-8s %8llu %9llu %9llu %11llu %8llu %9llu %8llu %5.2f  %s\n", client->name,
	       channel.header.publish == STRATA_ABI_RING_BY_COMMIT ? "commit" : "position",
	       (unsigned long long)written, (unsigned long long)from_handlers,
	       (unsigned long long)discarded, (unsigned long long)overwritten,
	       (unsigned long long)read, (unsigned long long)scanned, (unsigned long long)prefixes,
	       (double)strata_clock_monotonic_ns() / 1e9 - since, failed ? "FAILED" : "ok");
	fflush(stdout);
}

static int check(const struct client *c)
{
	static struct strata_ring_reader readers[STREAMS_MAX];
	double since = (double)strata_clock_monotonic_ns() / 1e9;
	pthread_t threads[THREADS], reader;
	struct strata_ring_attr attr;
	struct strata_ring_error error;
	const struct timespec pause = { 0, SIGNAL_EVERY_US * 1000 };
	uint32_t i, alive;

	client = c;
	memset(&attr, 0, sizeof(attr));
	attr.subbuf_bytes = 4096;
	attr.nr_subbufs = 4;
	if (strata_ring_channel_create(c->config, &attr, &channel, &error)) {
		fprintf(stderr, "stress: %s\n", error.text);
		exit(2);
	}
	memset(writers, 0, sizeof(writers));
	memset(streams, 0, sizeof(streams));
	memset(consumed, 0, sizeof(consumed));
	scanned = prefixes = 0;
	writers_done = 0;
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (i = 0; i < channel.streams.nr && i < STREAMS_MAX; i++)
		if (strata_ring_reader_init(&readers[i], &channel.streams.stream[i]))
			wrong("stream %u: no reader", i);
	if (channel.streams.nr > STREAMS_MAX || pthread_create(&reader, NULL, read_all, readers))
		exit(2);
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, write_many, (void *)(intptr_t)i))
			exit(2);
	pthread_barrier_wait(&barrier);
	/* A thread that has ended is not joined yet, so that its identity stays good. */
	for (alive = THREADS; alive;) {
		nanosleep(&pause, NULL); /* Time: between two signals. */
		for (i = 0; i < THREADS; i++)
			if (threads[i])
				pthread_kill(threads[i], SIGUSR1);
		for (i = 0; i < THREADS; i++)
			if (threads[i] && !pthread_tryjoin_np(threads[i], NULL)) {
				threads[i] = 0;
				alive--;
			}
	}
	flush_all();
	__atomic_store_n(&writers_done, 1, __ATOMIC_RELEASE);
	pthread_join(reader, NULL);
	account(since);
	pthread_barrier_destroy(&barrier);
	strata_ring_channel_close(&channel);
	return failed;
}

int main(int argc, char **argv)
{
	struct sigaction action;
	uint32_t i;
	int status = 0;

	records_each = argc > 1 ? strtoull(argv[1], NULL, 0) : 20000;
	memset(&action, 0, sizeof(action));
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &action, NULL);
	alarm(HANG_SECONDS);
	printf("  %-19s %-8s %8s %9s %9s %11s %8s %9s %8s %5s  %s\n", "buffers, mode", "way",
	       "written", "handlers'", "discarded", "overwritten", "read", "scanned", "prefixes",
	       "s", "result");
	for (i = 0; i < sizeof(clients) / sizeof(clients[0]) && !status; i++)
		status = check(&clients[i]);
	return status;
}
