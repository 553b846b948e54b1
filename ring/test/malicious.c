/* SPDX-License-Identifier: MIT */
/*
 * malicious.c - a consumer of shared memory in which a producer writes what it likes: it never leaves
 * the sub-buffer that it reads, every call returns, and damage is said.
 *
 * The memory lies between two pages that cannot be touched, and each packet and record that is handed
 * out is compared with the sub-buffers' borders. A call that does not return is killed by the watchdog.
 */
#include <pthread.h>
#include "sample.h"

enum {
	SUBBUF = 1024,
	COUNT = 4,
	HEADER = 8
};

struct victim {
	struct strata_abi_ring_channel header;
	struct strata_ring_stream s;
	unsigned char *mapping;
	size_t mapping_bytes;
	unsigned char *memory; /* of the stream, up to the second forbidden page */
	unsigned char *good;   /* as real producers have left it */
	size_t bytes;
	const struct strata_ring_config *config;
};

/* A stream as @config writes it, copied to between two forbidden pages. */
static int victim_make(struct victim *v, const struct strata_ring_config *config)
{
	struct strata_ring_attr attr = test_attr(SUBBUF, COUNT);
	struct strata_ring_channel channel;
	size_t inner;
	uint64_t n;

	memset(v, 0, sizeof(*v));
	attr.header_bytes = HEADER;
	channel = sample_create(config, &attr);
	for (n = 0; n < (config->loss_mode == STRATA_RING_DISCARD ? 40 : 200); n++)
		sample_record(config, &channel, 1, n);
	v->config = config;
	v->header = channel.header;
	v->bytes = (size_t)strata_ring_layout(SUBBUF, COUNT).data_offset + (COUNT + 1) * SUBBUF;
	inner = (v->bytes + 4095) & ~(size_t)4095;
	v->mapping_bytes = inner + 2 * 4096;
	v->good = (unsigned char *)malloc(v->bytes);
	v->mapping = (unsigned char *)mmap(NULL, v->mapping_bytes, PROT_NONE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!v->good || v->mapping == MAP_FAILED ||
	    mprotect(v->mapping + 4096, inner, PROT_READ | PROT_WRITE)) {
		strata_ring_channel_close(&channel);
		return CHECK(0, ==, 1);
	}
	v->memory = v->mapping + 4096 + inner - v->bytes;
	memcpy(v->good, sample_stream(&channel)->shared, v->bytes);
	strata_ring_channel_close(&channel);
	memcpy(v->memory, v->good, v->bytes);
	strata_ring_stream_attach(&v->s, v->memory, &v->header, 0);
	return 1;
}

static void victim_free(struct victim *v)
{
	munmap(v->mapping, v->mapping_bytes);
	free(v->good);
}

/* ---- what the producer may do ---- */

static uint64_t nasty_value(const struct victim *v, uint64_t *random)
{
	const uint64_t write = *(volatile uint64_t *)&v->s.shared->write_count;
	uint64_t r = test_random_from(random);

	switch (r >> 60) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX - (r & 15);
	case 2:
		return r & 0xff;
	case 3:
		return write + (r & 3) * SUBBUF - SUBBUF;
	case 4:
		return write + (r & 0xfff) - 2048;
	case 5:
		return UINT64_C(1) << (r & 63);
	case 6:
		return (write & ~(uint64_t)(SUBBUF - 1)) + ((r & 15) - 8) * SUBBUF;
	case 7:
		/*
		 * This makes an entry: some frame, held or not, with a packet number near the
		 * present one.
		 */
		return (r & 7) | (r >> 10 & 1) << 16 |
		       (write / SUBBUF + (r >> 20 & 7) - 4) << STRATA_ABI_RING_ENTRY_TAG_SHIFT;
	case 8:
		return SUBBUF - (r & 31);
	case 9:
		return (UINT64_C(1) << 62) + (r & 0xfff) * SUBBUF;
	default:
		return r;
	}
}

static uint64_t nasty_position(const struct victim *v, uint64_t *random)
{
	return nasty_value(v, random) & ~(uint64_t)(SUBBUF - 1);
}

static void store_nasty(const struct victim *v, uint64_t *random)
{
	uint64_t r = test_random_from(random), value = nasty_value(v, random), bytes = v->bytes;

	/* Mostly the control area: stream, table, frames. */
	if (r & 3)
		bytes = (uint64_t)(v->s.data - v->memory);
	if (r >> 8 & 7)
		*(volatile uint64_t *)(v->memory + (r >> 16) % (bytes / 8) * 8) = value;
	else
		*(volatile uint32_t *)(v->memory + (r >> 16) % (bytes / 4) * 4) = (uint32_t)value;
}

/* ---- what the consumer does with it ---- */

static uint64_t views, packets, errors;

static void check_inside(const struct victim *v, const unsigned char *p, uint64_t bytes)
{
	const uint64_t at = (uint64_t)(p - v->s.data);

	CHECK(p >= v->s.data, ==, 1);
	CHECK(at, <=, (COUNT + 1) * SUBBUF);
	CHECK(bytes, <=, SUBBUF);
	/* One sub-buffer, from its begin to its end. */
	CHECK(at % SUBBUF + bytes, <=, SUBBUF);
}

static unsigned char touched;

static void touch(const unsigned char *p, uint64_t bytes)
{
	while (bytes--)
		touched = (unsigned char)(touched ^ *(const volatile unsigned char *)p++);
}

static void check_packet(const struct victim *v, const struct strata_ring_packet *packet)
{
	packets++;
	CHECK((packet->data - v->s.data) % SUBBUF, ==, 0);
	CHECK(packet->header_bytes, ==, HEADER);
	CHECK(packet->content_bytes, >=, HEADER);
	CHECK(packet->unpublished_bytes, <=, SUBBUF);
	check_inside(v, packet->data, packet->content_bytes);
	if (!test_failures)
		touch(packet->data, packet->content_bytes);
}

static void iterate(struct victim *v, enum strata_ring_source source)
{
	const struct strata_ring_view *view;
	struct strata_ring_iterator it;
	unsigned n;

	if (strata_ring_iterator_init(&it, v->config, &v->s, source)) {
		errors++;
		return;
	}
	/* A header alone is the shortest record. */
	for (n = 0; n < 4 * COUNT * SUBBUF / STRATA_RING_SIZED_BYTES; n++) {
		if (strata_ring_next(&it, &view))
			break;
		views++;
		check_inside(v, view->payload, view->head.payload_bytes);
		if (!test_failures)
			touch(view->payload, view->head.payload_bytes);
	}
	errors += it.damaged;
	strata_ring_iterator_end(&it);
}

static void get_and_put(struct victim *v, struct strata_ring_reader *reader, uint64_t *random)
{
	struct strata_ring_packet packet;
	unsigned n;
	int error;

	for (n = 0; n < 2 * COUNT; n++) {
		if (test_random_from(random) & 1)
			error = strata_ring_get_next(reader, &packet);
		else
			error = strata_ring_get_subbuf(reader, nasty_position(v, random), &packet);
		if (!error)
			check_packet(v, &packet);
		errors += error && error != -EAGAIN;
		if (test_random_from(random) & 1)
			strata_ring_put_next(reader);
		else
			strata_ring_put_subbuf(reader);
	}
}

static void look(struct victim *v, uint64_t *random)
{
	struct strata_ring_reader reader;
	struct strata_ring_scan scan;
	struct strata_ring_packet packet;
	struct strata_ring_counters counters;
	unsigned char copy[SUBBUF];
	unsigned n;
	int error;

	if (strata_ring_reader_init(&reader, &v->s)) {
		errors++;
		return;
	}
	error = (int)strata_ring_poll(&reader);
	CHECK(error, >=, 0);
	CHECK(error, <=, STRATA_RING_HANGUP);
	strata_ring_read_counters(&v->s, &counters);
	if (!strata_ring_get_available(&reader, &packet))
		check_packet(v, &packet);
	error = strata_ring_copy_available(&reader, nasty_position(v, random), copy, sizeof(copy),
					   &packet);
	if (!error)
		CHECK(packet.content_bytes, <=, SUBBUF);
	strata_ring_scan_begin(&scan, &reader,
			       (enum strata_ring_direction)(test_random_from(random) & 1));
	for (n = 0; (error = strata_ring_scan_get(&scan, &packet)) != -ENODATA; n++) {
		if (!CHECK(n, <=, COUNT))
			break;
		if (!error)
			check_packet(v, &packet);
		strata_ring_put_subbuf(&reader);
	}
	strata_ring_scan_begin(&scan, &reader,
			       (enum strata_ring_direction)(test_random_from(random) & 1));
	for (n = 0; (error = strata_ring_scan_copy(&scan, copy, sizeof(copy), &packet)) != -ENODATA;
	     n++) {
		if (!CHECK(n, <=, COUNT))
			break;
		if (!error)
			CHECK(packet.content_bytes, <=, SUBBUF);
	}
	for (n = 0; (error = strata_ring_get_rest(&reader, &packet)) != -ENODATA; n++) {
		if (!CHECK(n, <=, COUNT))
			break;
		if (!error)
			check_packet(v, &packet);
	}
	get_and_put(v, &reader, random);
}

static void consume_everything(struct victim *v, uint64_t *random)
{
	iterate(v, STRATA_RING_SCAN);
	iterate(v, STRATA_RING_REST);
	look(v, random);
	iterate(v, STRATA_RING_CONSUME);
}

static void attack(const struct strata_ring_config *config, uint64_t ms)
{
	uint64_t random = test_state, end = test_now_ns() + ms * 1000000, rounds;
	struct victim v;
	unsigned stores;

	if (!victim_make(&v, config))
		return;
	views = packets = errors = 0;
	for (rounds = 0;
	     rounds < 1000000 && (rounds <= 50 || test_now_ns() < end) && !test_failures;
	     rounds++) {
		/* Something true under the lies, mostly. */
		if (test_random_from(&random) % 4)
			memcpy(v.memory, v.good, v.bytes);
		alarm(TEST_SECONDS);
		for (stores = (unsigned)(test_random_from(&random) % 8) + 1; stores; stores--)
			store_nasty(&v, &random);
		consume_everything(&v, &random);
	}
	printf("      %" PRIu64 " rounds: %" PRIu64 " packets, %" PRIu64 " records, %" PRIu64
	       " refused\n",
	       rounds, packets, views, errors);
	CHECK(errors, >, 0);
	victim_free(&v);
}

static void malicious_memory_before_the_call_never_leads_out_of_a_subbuf(void)
{
	attack(&sample_discard, 700);
	attack(&sample_overwrite, 700);
}

/* ---- while the consumer reads ---- */

static struct {
	const struct victim *v;
	uint64_t random;
	int stop;
} attacker;

static void *attack_always(void *argument)
{
	int cpus[2];

	(void)argument;
	if (test_cpus(cpus, 2) == 2)
		test_pin(cpus[1]);
	while (!__atomic_load_n(&attacker.stop, __ATOMIC_RELAXED))
		store_nasty(attacker.v, &attacker.random);
	return NULL;
}

/* Believable positions that never stand still: what makes a consumer go on. */
static void *run_always(void *argument)
{
	struct strata_abi_ring_stream *shared = attacker.v->s.shared;
	uint64_t n = 0;
	int cpus[2];

	(void)argument;
	if (test_cpus(cpus, 2) == 2)
		test_pin(cpus[1]);
	while (!__atomic_load_n(&attacker.stop, __ATOMIC_RELAXED)) {
		n += SUBBUF;
		*(volatile uint64_t *)&shared->write_count = n + SUBBUF * COUNT;
		*(volatile uint64_t *)&shared->read_count = n;
		*(volatile uint64_t *)&attacker.v->s.subbufs[n / SUBBUF % COUNT].published =
			n + SUBBUF;
	}
	return NULL;
}

static void attack_meanwhile(const struct strata_ring_config *config, void *(*run)(void *),
			     uint64_t ms)
{
	uint64_t random = test_state, end = test_now_ns() + ms * 1000000, rounds;
	pthread_t thread;
	struct victim v;

	if (!victim_make(&v, config))
		return;
	views = packets = errors = 0;
	attacker.v = &v;
	attacker.random = test_state + 2;
	attacker.stop = 0;
	if (!CHECK(pthread_create(&thread, NULL, run, NULL), ==, 0))
		return;
	for (rounds = 0; rounds < 1000000 && (rounds <= 5 || test_now_ns() < end) && !test_failures;
	     rounds++) {
		if (test_random_from(&random) % 2)
			memcpy(v.memory, v.good, v.bytes);
		alarm(TEST_SECONDS);
		consume_everything(&v, &random);
	}
	__atomic_store_n(&attacker.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	printf("      %" PRIu64 " rounds: %" PRIu64 " packets, %" PRIu64 " records, %" PRIu64
	       " refused\n",
	       rounds, packets, views, errors);
	victim_free(&v);
}

static void malicious_memory_during_the_call_never_leads_out_of_a_subbuf(void)
{
	attack_meanwhile(&sample_discard, attack_always, 500);
	attack_meanwhile(&sample_overwrite, attack_always, 500);
}

static void malicious_positions_that_run_away_never_keep_the_consumer(void)
{
	attack_meanwhile(&sample_discard, run_always, 300);
	attack_meanwhile(&sample_overwrite, run_always, 300);
}

/* A hostile write count promises more packets than anybody will live to see. */
static void malicious_write_count_far_ahead_never_keeps_the_consumer(void)
{
	const struct strata_ring_config *configs[] = { &sample_discard, &sample_overwrite };
	unsigned i, shift, j;

	for (i = 0; i < 2; i++)
		for (shift = 12; shift < 64; shift++) {
			uint64_t random = test_state;
			struct victim v;

			if (!victim_make(&v, configs[i]))
				return;
			for (j = 0; j < 2; j++) {
				v.s.shared->write_count += UINT64_C(1) << shift;
				strata_ring_subbuf(&v.s, v.s.shared->write_count)->committed =
					v.s.shared->write_count;
				consume_everything(&v, &random);
				/* A consumer that stays behind for ever, and is sent back, too. */
				v.s.shared->read_count = 0;
			}
			victim_free(&v);
		}
}

static const struct test tests[] = {
	BOTH(malicious_write_count_far_ahead_never_keeps_the_consumer),
	BOTH(malicious_memory_before_the_call_never_leads_out_of_a_subbuf),
	BOTH(malicious_memory_during_the_call_never_leads_out_of_a_subbuf),
	BOTH(malicious_positions_that_run_away_never_keep_the_consumer),
};
TEST_MAIN(tests)
