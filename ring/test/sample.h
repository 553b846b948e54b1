/* SPDX-License-Identifier: MIT */
/*
 * sample.h - records that a test recognises: who wrote it, its number, and a hash over all of it.
 */
#ifndef STRATA_RING_TEST_SAMPLE_H
#define STRATA_RING_TEST_SAMPLE_H

#include "test.h"

#define SAMPLE_BYTES_MAX 80u

struct sample {
	uint64_t hash; /* of everything behind it */
	uint64_t number;
	uint32_t writer;
	uint32_t bytes;
	unsigned char fill[SAMPLE_BYTES_MAX - 24];
};

static uint64_t sample_hash(const unsigned char *p, size_t n)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	while (n--)
		h = (h ^ *p++) * UINT64_C(0x100000001b3);
	return h;
}

/* 24 to 80 bytes, different from number to number. */
static uint32_t sample_bytes(uint32_t writer, uint64_t number)
{
	return 24 + (uint32_t)((number * 13 + writer * 5) % 57);
}

__attribute__((unused)) static uint32_t sample_make(struct sample *sample, uint32_t writer,
						    uint64_t number)
{
	uint32_t bytes = sample_bytes(writer, number);

	sample->number = number;
	sample->writer = writer;
	sample->bytes = bytes;
	memset(sample->fill, (int)(number * 31 + writer), bytes - 24);
	sample->hash = sample_hash((const unsigned char *)sample + 8, bytes - 8);
	return bytes;
}

/* Copies the record and says whether it is whole. */
__attribute__((unused)) static int sample_read(struct sample *sample, const unsigned char *payload,
					       uint32_t bytes)
{
	if (bytes < 24 || bytes > SAMPLE_BYTES_MAX)
		return 0;
	memcpy(sample, payload, bytes);
	return sample->bytes == bytes && bytes == sample_bytes(sample->writer, sample->number) &&
	       sample->hash == sample_hash((const unsigned char *)sample + 8, bytes - 8);
}

__attribute__((unused)) static int sample_record(const struct strata_ring_config *config,
						 const struct strata_ring_channel *channel,
						 uint32_t writer, uint64_t number)
{
	struct sample sample;
	uint32_t bytes = sample_make(&sample, writer, number);

	return strata_ring_record(config, channel, writer, &sample, bytes);
}

/* The size of its slot with the sized header and 8-byte alignment. */
__attribute__((unused)) static uint64_t sample_slot_bytes(uint32_t writer, uint64_t number)
{
	return (STRATA_RING_SIZED_BYTES + (uint64_t)sample_bytes(writer, number) + 7) &
	       ~UINT64_C(7);
}

/* The stream that main() writes to. */
__attribute__((unused)) static struct strata_ring_stream *
sample_stream(const struct strata_ring_channel *channel)
{
	return &channel->streams.stream[channel->streams.nr > 1 ? (uint32_t)test_cpu : 0];
}

#define SAMPLE_CONFIG(name, loss, writers, buffers, wakeup)            \
	static const struct strata_ring_config name                    \
		__attribute__((unused)) = { loss,                      \
					    writers,                   \
					    buffers,                   \
					    wakeup,                    \
					    8,                         \
					    strata_clock_monotonic_ns, \
					    STRATA_RING_HEADER_SIZED,  \
					    NULL }

SAMPLE_CONFIG(sample_discard, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ, STRATA_RING_PER_CPU,
	      STRATA_RING_WAKE_NONE);
SAMPLE_CONFIG(sample_overwrite, STRATA_RING_OVERWRITE, STRATA_RING_WRITERS_RSEQ,
	      STRATA_RING_PER_CPU, STRATA_RING_WAKE_NONE);

/* Create a channel or end the test program: everything behind it would be meaningless. */
__attribute__((unused)) static struct strata_ring_channel
sample_create(const struct strata_ring_config *config, const struct strata_ring_attr *attr)
{
	struct strata_ring_channel channel;
	struct strata_ring_error error;

	if (strata_ring_channel_create(config, attr, &channel, &error)) {
		fprintf(stderr, "cannot create a channel: %s\n", error.text);
		exit(1);
	}
	return channel;
}

#endif /* STRATA_RING_TEST_SAMPLE_H */
