/* SPDX-License-Identifier: MIT */
/*
 * cost.c - the same record by a client's functions, or with BY_HAND by the ring's with a configuration: the
 * instructions must be the same.
 */
#include <strata/ring/client/smp.h>
#include <strata/ring/client/tracer.h>

#ifdef __cplusplus
extern "C" {
#endif
int record(const struct strata_ring_tracer_discard *ring, const uint64_t *payload);
int slot(const struct strata_ring_smp *ring, const uint64_t *payload);
#ifdef __cplusplus
}
#endif

int record(const struct strata_ring_tracer_discard *ring, const uint64_t *payload)
{
#ifdef BY_HAND
	return strata_ring_record(&strata_ring_tracer_discard_config, &ring->channel, 7, payload,
				  sizeof(*payload));
#else
	return strata_ring_tracer_discard_record(ring, 7, payload, sizeof(*payload));
#endif
}

int slot(const struct strata_ring_smp *ring, const uint64_t *payload)
{
	const struct strata_ring_event event = { 7, sizeof(*payload), 0 };
#ifdef BY_HAND
	struct strata_ring_slot s;
	int error = strata_ring_reserve(
		&strata_ring_smp_config,
		strata_ring_current_stream(&strata_ring_smp_config, &ring->channel), &event, &s);
	if (error)
		return error;
	strata_ring_write(&s, payload, sizeof(*payload));
	strata_ring_commit(&strata_ring_smp_config, &s);
#else
	struct strata_ring_smp_slot s;
	int error = strata_ring_smp_reserve(ring, &event, &s);
	if (error)
		return error;
	strata_ring_smp_write(&s, payload, sizeof(*payload));
	strata_ring_smp_commit(&s);
#endif
	return 0;
}
