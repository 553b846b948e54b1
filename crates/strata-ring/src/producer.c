/* SPDX-License-Identifier: MIT */
/*
 * producer.c - writes event records as an application does, for the tests of who reads them. Linked only
 * where a test calls it.
 */
#include "shim.h"

#include <signal.h>
#include <strata/ring/clock.h>
#include <strata/ring/header.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#define STRATA_PRODUCER_WORDS 16u /* mirrored in producer.rs */

struct strata_producer {
	struct strata_ring_channel channel;
	const struct strata_ring_config *config;
};

/* Timestamp of this thread's next records; 0 takes CLOCK_MONOTONIC. */
static _Thread_local uint64_t producer_now;

static uint64_t producer_clock(void)
{
	return producer_now ? producer_now : strata_clock_monotonic_ns();
}

#define PRODUCER_CONFIG(loss, header)                                                          \
	{                                                                                      \
		loss, STRATA_RING_WRITERS_RSEQ, STRATA_RING_PER_CPU, STRATA_RING_WAKE_NONE, 1, \
			producer_clock, header, NULL                                           \
	}

static const struct strata_ring_config producer_config[2][2] = {
	{ PRODUCER_CONFIG(STRATA_RING_DISCARD, STRATA_RING_HEADER_COMPACT),
	  PRODUCER_CONFIG(STRATA_RING_DISCARD, STRATA_RING_HEADER_LARGE) },
	{ PRODUCER_CONFIG(STRATA_RING_OVERWRITE, STRATA_RING_HEADER_COMPACT),
	  PRODUCER_CONFIG(STRATA_RING_OVERWRITE, STRATA_RING_HEADER_LARGE) },
};

int strata_producer_has_rseq(void)
{
	return strata_rseq_available();
}

/* A producer of the channel in @memory, which a consumer in this process has formatted. */
struct strata_producer *strata_producer_open(void *memory, int large)
{
	struct strata_producer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	memcpy(&p->channel.header, memory, sizeof(p->channel.header));
	p->channel.memory = memory;
	p->channel.fd = -1;
	if (strata_ring_channel_attach(&p->channel, NULL)) {
		free(p);
		return NULL;
	}
	p->config = &producer_config[p->channel.header.loss_mode][large];
	return p;
}

void strata_producer_close(struct strata_producer *p)
{
	free(p->channel.streams.stream);
	free(p);
}

void strata_producer_stamp(uint64_t now)
{
	producer_now = now;
}

int strata_producer_record(const struct strata_producer *p, uint32_t id, const void *payload,
			   uint32_t bytes)
{
	return strata_ring_record(p->config, &p->channel, id, payload, bytes);
}

void strata_producer_flush(const struct strata_producer *p)
{
	strata_ring_flush_current(p->config, &p->channel);
}

/* Reserves a slot by commit and never commits it, as a thread that is killed there does. */
int strata_producer_abandon(const struct strata_producer *p, uint32_t bytes)
{
	const struct strata_ring_event event = { 0, bytes, 0 };
	struct strata_ring_slot slot;

	return strata_ring_reserve(p->config, strata_ring_current_stream(p->config, &p->channel),
				   &event, &slot);
}

/*
 * A process that writes records of id 0, whose payload is their number (u64), @words times, each time times
 * the next odd number, until it is killed; or until @nr are written, and then waits to be killed.
 * @progress: out, how many it has published, shared.
 */
int strata_producer_spawn(const struct strata_producer *p, uint64_t nr, uint32_t words,
			  uint64_t **progress)
{
	uint64_t payload[STRATA_PRODUCER_WORDS], i;
	uint64_t *shared = mmap(NULL, STRATA_ABI_RING_PAGE, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t n;
	pid_t pid;

	if (shared == MAP_FAILED)
		return -errno;
	*progress = shared;
	pid = fork();
	if (pid > 0)
		return pid;
	if (pid < 0) {
		munmap(shared, STRATA_ABI_RING_PAGE);
		return -errno;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (n = 0; n < nr;) {
		for (i = 0; i < words; i++)
			payload[i] = n * (2 * i + 1);
		if (!strata_producer_record(p, 0, payload, words * (uint32_t)sizeof(n)))
			__atomic_store_n(shared, ++n, __ATOMIC_RELEASE);
	}
	for (;;)
		pause();
}

uint64_t strata_producer_published(const uint64_t *progress)
{
	return __atomic_load_n(progress, __ATOMIC_ACQUIRE);
}

/* Ends such a process: it writes nothing any more when this returns. */
void strata_producer_stop(int pid)
{
	siginfo_t info;

	kill(pid, SIGKILL);
	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
}

/* Ends such a process as strata_producer_stop() does, reaps it, and unmaps its shared page. */
void strata_producer_free(int pid, uint64_t *progress)
{
	strata_producer_stop(pid);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	munmap(progress, STRATA_ABI_RING_PAGE);
}
