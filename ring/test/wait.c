/* SPDX-License-Identifier: MIT */
/*
 * wait.c - a reader that sleeps: woken by delivery through futex and eventfd, by the end, or by time; not
 * from a signal handler; in another process, too.
 */
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include "sample.h"

#define MS 1000000
/* The time for which a reader sleeps if nobody wakes it; the watchdog comes later. */
#define FOREVER (UINT64_C(60) * 1000 * MS)

SAMPLE_CONFIG(waking, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ, STRATA_RING_PER_CPU,
	      STRATA_RING_WAKE_BY_WRITER);
SAMPLE_CONFIG(waking_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_RSEQ,
	      STRATA_RING_PER_CPU, STRATA_RING_WAKE_BY_WRITER);
SAMPLE_CONFIG(silent, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ, STRATA_RING_PER_CPU,
	      STRATA_RING_WAKE_NONE);

struct fixture {
	const struct strata_ring_config *config;
	struct strata_ring_channel channel;
	struct strata_ring_stream *s;
	struct strata_ring_reader reader;
	uint64_t delay_us; /* of the thread that does something */
	int in_handler;
	int stop;
	int is_over; /* the reader sleeps no more */
	uint64_t next;
	uint64_t woken; /* for nothing */
};

static struct fixture begin(const struct strata_ring_config *config)
{
	struct strata_ring_attr attr = test_attr(256, 4);
	struct fixture f;

	memset(&f, 0, sizeof(f));
	attr.memory = STRATA_RING_MEMFD;
	f.config = config;
	f.channel = sample_create(config, &attr);
	f.s = sample_stream(&f.channel);
	CHECK(strata_ring_reader_init(&f.reader, f.s), ==, 0);
	return f;
}

static void end(struct fixture *f)
{
	strata_ring_channel_close(&f->channel);
}

static void deliver(struct fixture *f)
{
	sample_record(f->config, &f->channel, 1, f->next++);
	strata_ring_flush_current(f->config, &f->channel);
}

/* Fill until a packet is delivered because the next record finds no room, as in a handler. */
static void deliver_by_filling(struct fixture *f)
{
	uint64_t subbuf = f->s->subbuf_bytes;
	unsigned char memory[STRATA_RING_HEADER_MAX + 64 + 8] = { 0 };
	const struct strata_ring_event event = { 1, 64, f->in_handler };
	uint64_t packet = strata_ring_begin(f->s, strata_load_relaxed(&f->s->shared->write_count));

	while (strata_load_relaxed(&f->s->shared->write_count) <= packet + subbuf) {
		struct strata_ring_slot slot;

		if (f->channel.header.publish == STRATA_ABI_RING_BY_POSITION) {
			CHECK(strata_ring_publish(f->config, &f->channel.streams, &event,
						  memory + STRATA_RING_HEADER_MAX),
			      ==, 0);
			continue;
		}
		REQUIRE(strata_ring_reserve(f->config, f->s, &event, &slot), ==, 0);
		strata_ring_commit(f->config, &slot);
	}
}

static void take(struct fixture *f)
{
	struct strata_ring_packet packet;

	if (CHECK(strata_ring_get_next(&f->reader, &packet), ==, 0))
		strata_ring_put_next(&f->reader);
}

static void wait_when_nothing_comes_returns_nothing_after_the_time(void)
{
	struct fixture f = begin(&waking);
	uint64_t before = test_now_ns(), took;

	CHECK(strata_ring_wait(&f.reader, 50 * MS), ==, STRATA_RING_NOTHING);
	took = test_now_ns() - before;
	CHECK(took, >=, 50 * MS);
	CHECK(took, <, FOREVER);
	CHECK(f.s->shared->waiting, ==, 0);
	CHECK(strata_ring_wait(&f.reader, 0), ==, STRATA_RING_NOTHING);
	end(&f);
}

static void wait_when_something_is_there_returns_at_once(void)
{
	struct fixture f = begin(&waking);
	uint64_t before = test_now_ns();

	deliver(&f);
	CHECK(strata_ring_wait(&f.reader, FOREVER), ==, STRATA_RING_READABLE);
	take(&f);
	strata_ring_finalize(f.s);
	CHECK(strata_ring_wait(&f.reader, FOREVER), ==, STRATA_RING_HANGUP);
	CHECK(test_now_ns() - before, <, FOREVER);
	end(&f);
}

/* Waits until the reader says that it sleeps, and some time more, or until its time is up. */
static void let_it_sleep(struct fixture *f)
{
	unsigned i;

	for (i = 0; i < 20000 && !strata_load_relaxed(&f->s->shared->waiting) &&
		    !__atomic_load_n(&f->is_over, __ATOMIC_RELAXED);
	     i++)
		test_sleep_us(1000);
	CHECK(i, <, 20000);
	test_sleep_us(f->delay_us); /* Time: it sleeps for longer. */
}

static void *deliver_later(void *argument)
{
	struct fixture *f = (struct fixture *)argument;

	test_pin(test_cpu);
	let_it_sleep(f);
	deliver(f);
	return NULL;
}

static void *finalize_later(void *argument)
{
	struct fixture *f = (struct fixture *)argument;

	let_it_sleep(f);
	strata_ring_finalize(f->s);
	return NULL;
}

static void *fill_later(void *argument)
{
	struct fixture *f = (struct fixture *)argument;

	test_pin(test_cpu);
	let_it_sleep(f);
	deliver_by_filling(f);
	return NULL;
}

/* Sleep while @other runs; returns what wait said, and in @took how long it was. */
static enum strata_ring_poll sleep_while(struct fixture *f, void *(*other)(void *),
					 uint64_t timeout_ns, uint64_t *took)
{
	uint64_t before = test_now_ns();
	enum strata_ring_poll state;
	pthread_t thread;

	f->is_over = 0;
	if (!CHECK(pthread_create(&thread, NULL, other, f), ==, 0))
		return STRATA_RING_NOTHING;
	state = strata_ring_wait(&f->reader, timeout_ns);
	*took = test_now_ns() - before;
	__atomic_store_n(&f->is_over, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	return state;
}

/*
 * Sleep as long as @timeout_ns while @other delivers and does not wake. On a busy machine it may come too late:
 * again then, with more time. Or too early, while the reader is still on its way from saying that it sleeps to
 * sleeping: again then, and later. Who is woken does not sleep for so long at any time.
 */
static void sleep_through(struct fixture *f, void *(*other)(void *), uint64_t timeout_ns)
{
	enum strata_ring_poll state;
	unsigned early = 0;
	uint64_t took;

	for (;;) {
		state = sleep_while(f, other, timeout_ns, &took);
		if (state == STRATA_RING_READABLE && took < timeout_ns && early < 10) {
			f->delay_us = 2000u * ++early;
		} else {
			CHECK(took, >=, timeout_ns);
			if (state != STRATA_RING_NOTHING || timeout_ns > FOREVER / 4)
				break;
			timeout_ns *= 2;
		}
		while (strata_ring_poll(&f->reader) != STRATA_RING_NOTHING)
			take(f);
	}
	CHECK(state, ==, STRATA_RING_READABLE);
}

static void wait_when_a_packet_is_delivered_is_woken(void)
{
	const struct strata_ring_config *configs[] = { &waking, &waking_overwrite };
	uint64_t took;
	unsigned i, j;

	for (i = 0; i < 2; i++) {
		struct fixture f = begin(configs[i]);

		for (j = 0; j < 5; j++) {
			f.delay_us = 1000 * j;
			CHECK(sleep_while(&f, j % 2 ? deliver_later : fill_later, FOREVER, &took),
			      ==, STRATA_RING_READABLE);
			CHECK(took, <, FOREVER);
			take(&f);
			/* Delivers the rest that filling has left. */
			strata_ring_flush_current(f.config, &f.channel);
			while (strata_ring_poll(&f.reader) != STRATA_RING_NOTHING)
				take(&f);
		}
		end(&f);
	}
}

static void wait_when_stream_is_finalized_is_woken_with_hangup(void)
{
	struct fixture f = begin(&waking);
	uint64_t took;

	CHECK(sleep_while(&f, finalize_later, FOREVER, &took), ==, STRATA_RING_HANGUP);
	CHECK(took, <, FOREVER);
	end(&f);
}

static uint64_t signals(int fd)
{
	uint64_t count = 0;

	return read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count) ? count : 0;
}

static void eventfd_counts_deliveries(void)
{
	struct fixture f = begin(&waking);
	struct pollfd waiting;
	uint64_t n, i;

	f.s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	REQUIRE(f.s->wake_fd, >=, 0);
	waiting.fd = f.s->wake_fd;
	waiting.events = POLLIN;
	CHECK(poll(&waiting, 1, 0), ==, 0);
	for (i = 1; i <= 3; i++)
		deliver(&f);
	CHECK(poll(&waiting, 1, 0), ==, 1);
	n = signals(f.s->wake_fd);
	CHECK(n, ==, 3);
	while (strata_ring_poll(&f.reader) != STRATA_RING_NOTHING)
		take(&f);
	deliver_by_filling(&f);
	n = signals(f.s->wake_fd);
	CHECK(n, ==, 1);
	/* A counter at its maximum changes neither errno nor anything else. */
	n = UINT64_MAX - 1;
	CHECK(write(f.s->wake_fd, &n, sizeof(n)), ==, sizeof(n));
	errno = 0;
	strata_ring_flush_current(f.config, &f.channel);
	CHECK(errno, ==, 0);
	n = f.next;
	CHECK(strata_ring_poll(&f.reader), ==, STRATA_RING_READABLE);
	close(f.s->wake_fd);
	end(&f);
}

/* The reader finds the packet when its time is up, and not before. */
static void wait_when_delivered_in_a_handler_is_not_woken(void)
{
	struct fixture f = begin(&waking);
	uint64_t n;

	f.in_handler = 1;
	f.s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	REQUIRE(f.s->wake_fd, >=, 0);
	sleep_through(&f, fill_later, UINT64_C(300) * MS);
	n = signals(f.s->wake_fd);
	CHECK(n, ==, 0);
	/* A record between looking and sleeping keeps the reader awake. */
	CHECK(f.s->shared->wake_sequence, >=, 1);
	close(f.s->wake_fd);
	end(&f);
}

static void wait_when_writers_do_not_wake_is_not_woken(void)
{
	struct fixture f = begin(&silent);

	sleep_through(&f, deliver_later, UINT64_C(200) * MS);
	CHECK(f.s->shared->wake_sequence, ==, 0);
	end(&f);
}

static void *wake_for_nothing(void *argument)
{
	struct fixture *f = (struct fixture *)argument;
	unsigned i;

	for (i = 0; i < 5; i++) {
		let_it_sleep(f);
		if (__atomic_load_n(&f->is_over, __ATOMIC_RELAXED))
			break;
		strata_ring_wake(f->s, 0);
		f->woken++;
	}
	return NULL;
}

/* A delivery's wake-up can come after the reader has found and read the packet. */
static void wait_when_woken_for_nothing_sleeps_on(void)
{
	uint64_t timeout = UINT64_C(200) * MS, took;
	struct fixture f = begin(&waking);

	f.delay_us = 2000;
	/* Waits with longer timeouts until the reader was woken at least once. */
	for (; !f.woken && timeout < FOREVER; timeout *= 2) {
		CHECK(sleep_while(&f, wake_for_nothing, timeout, &took), ==, STRATA_RING_NOTHING);
		CHECK(took, >=, timeout);
	}
	CHECK(f.woken, >, 0);
	CHECK(f.s->shared->waiting, ==, 0);
	end(&f);
}

/* ---- in turns: a wake-up that does not come is a time-out, and is seen ---- */

enum {
	TURNS = 2000
};

static void *deliver_in_turns(void *argument)
{
	struct fixture *f = (struct fixture *)argument;
	uint64_t n;

	test_pin(test_cpu);
	for (n = 0; n < TURNS; n++) {
		if (n % 3)
			deliver(f);
		else
			deliver_by_filling(f);
		strata_ring_flush_current(f->config, &f->channel);
		while (strata_load_acquire(&f->s->shared->read_count) !=
		       strata_load_relaxed(&f->s->shared->write_count)) {
			if (__atomic_load_n(&f->stop, __ATOMIC_RELAXED))
				return NULL;
			sched_yield();
		}
	}
	strata_ring_finalize(f->s);
	return NULL;
}

static void wait_in_turns_with_the_producer_is_woken_each_time(void)
{
	struct fixture f = begin(&waking);
	enum strata_ring_poll state;
	unsigned packets = 0;
	pthread_t thread;
	int cpus[2];

	if (test_cpus(cpus, 2) == 2)
		test_pin(cpus[1]);
	REQUIRE(pthread_create(&thread, NULL, deliver_in_turns, &f), ==, 0);
	while ((state = strata_ring_wait(&f.reader, FOREVER)) != STRATA_RING_HANGUP) {
		/* The reader was not woken, which is a failure; the test must end all the same. */
		if (!CHECK(state, !=, STRATA_RING_NOTHING))
			__atomic_store_n(&f.stop, 1, __ATOMIC_RELAXED);
		if (f.stop)
			break;
		take(&f);
		packets++;
	}
	pthread_join(thread, NULL);
	test_pin(test_cpu);
	CHECK(packets, >=, TURNS);
	end(&f);
}

/* ---- two processes ---- */

static void child_produces(int fd, struct fixture *f)
{
	struct strata_ring_channel channel;
	int pin = test_pin(test_cpu);

	if (strata_ring_channel_open(fd, 1, &channel, NULL) || !pin)
		_exit(2);
	f->channel = channel;
	f->s = sample_stream(&f->channel);
	let_it_sleep(f);
	deliver(f);
	let_it_sleep(f);
	strata_ring_finalize(f->s);
	_exit(test_failures != 0);
}

static void wait_when_another_process_delivers_is_woken(void)
{
	struct fixture f = begin(&waking), child = f;
	uint64_t before = test_now_ns();
	int status = -1;
	pid_t pid = fork();

	REQUIRE(pid, >=, 0);
	if (!pid)
		child_produces(f.channel.fd, &child);
	CHECK(strata_ring_wait(&f.reader, FOREVER), ==, STRATA_RING_READABLE);
	take(&f);
	CHECK(strata_ring_wait(&f.reader, FOREVER), ==, STRATA_RING_HANGUP);
	CHECK(test_now_ns() - before, <, FOREVER);
	CHECK(waitpid(pid, &status, 0), ==, pid);
	CHECK(status, ==, 0);
	end(&f);
}

static const struct test tests[] = {
	BOTH(wait_when_nothing_comes_returns_nothing_after_the_time),
	BOTH(wait_when_something_is_there_returns_at_once),
	BOTH(wait_when_a_packet_is_delivered_is_woken),
	BOTH(wait_when_stream_is_finalized_is_woken_with_hangup),
	BOTH(eventfd_counts_deliveries),
	BOTH(wait_when_delivered_in_a_handler_is_not_woken),
	BOTH(wait_when_writers_do_not_wake_is_not_woken),
	BOTH(wait_when_woken_for_nothing_sleeps_on),
	BOTH(wait_in_turns_with_the_producer_is_woken_each_time),
	BOTH(wait_when_another_process_delivers_is_woken),
};
TEST_MAIN(tests)
