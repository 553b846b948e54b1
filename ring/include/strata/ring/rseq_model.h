/* SPDX-License-Identifier: MIT */
/*
 * rseq_model.h - the critical sections of rseq.h as the model checker sees them. Included by rseq.h
 * only.
 *
 * mc_rseq() is one step for the threads of the same CPU: it checks CPU and guard, may be aborted
 * after the plain writes, and otherwise makes the stores, each visible to other CPUs on its own.
 */
#ifndef STRATA_RING_RSEQ_MODEL_H
#define STRATA_RING_RSEQ_MODEL_H

/* The checker's own header has the same declarations. */
#ifndef STRATA_CHECK_ENGINE_H
#ifdef __cplusplus
extern "C" {
#endif
uint32_t mc_rseq_cpu(void);
struct mc_rseq_write {
	void *dst;
	const void *src;
	size_t n;
};
int mc_rseq(uint32_t cpu, uint64_t guard_id, uint64_t expect, const struct mc_rseq_write *w,
	    unsigned nw, const uint64_t *store_ids, const uint64_t *store_values,
	    const int *store_orders, unsigned nstores);
#ifdef __cplusplus
}
#endif
#endif

/* Order of the store that publishes; the mutants of ring/check weaken it. */
#ifndef STRATA_RSEQ_MODEL_ORDER
#define STRATA_RSEQ_MODEL_ORDER __ATOMIC_RELEASE
#endif

STRATA_INLINE int strata_rseq_available(void)
{
	return 1;
}

STRATA_INLINE uint32_t strata_rseq_cpu(void)
{
	return mc_rseq_cpu();
}

STRATA_INLINE int strata_rseq_store_plain(uint32_t cpu, const uint64_t *guard, uint64_t expect,
					  uint64_t *dst, uint64_t value)
{
	struct mc_rseq_write w = { dst, &value, sizeof(value) };

	return mc_rseq(cpu, *guard, expect, &w, 1, NULL, NULL, NULL, 0);
}

STRATA_INLINE int strata_rseq_store_release(uint32_t cpu, const uint64_t *guard, uint64_t expect,
					    uint64_t *dst, uint64_t value)
{
	const int order = STRATA_RSEQ_MODEL_ORDER;

	return mc_rseq(cpu, *guard, expect, NULL, 0, dst, &value, &order, 1);
}

STRATA_INLINE int strata_rseq_publish(uint32_t cpu, struct strata_abi_ring_stream *shared,
				      uint64_t expect, uint64_t bytes, uint64_t records,
				      uint64_t now, const struct strata_rseq_copy *copy)
{
	const uint64_t header = copy->header;
	const struct mc_rseq_write w[2] = {
		{ copy->dst, &header, copy->header_bytes },
		{ copy->dst + copy->header_bytes, copy->payload, copy->payload_bytes },
	};
	const uint64_t ids[3] = { shared->last_timestamp, shared->records, shared->write_count };
	/* Stored with write_count only: if that still is @expect, this is its value. */
	const uint64_t values[3] = { now, strata_load_relaxed(&shared->records) + records,
				     expect + bytes };
	const int orders[3] = { __ATOMIC_RELAXED, __ATOMIC_RELAXED, STRATA_RSEQ_MODEL_ORDER };

	return mc_rseq(cpu, shared->write_count, expect, w, 2, ids, values, orders, 3);
}

STRATA_INLINE int strata_rseq_publish_first(uint32_t cpu, struct strata_abi_ring_stream *shared,
					    uint64_t expect, uint64_t bytes, uint64_t now,
					    const struct strata_rseq_first *first)
{
	const struct mc_rseq_write w[2] = {
		{ first->begin, &now, sizeof(now) },
		{ first->dst, first->src, first->src_bytes },
	};
	const uint64_t ids[4] = { shared->full_timestamp, shared->last_timestamp, shared->records,
				  shared->write_count };
	const uint64_t values[4] = { now, now, strata_load_relaxed(&shared->records) + 1,
				     expect + bytes };
	const int orders[4] = { __ATOMIC_RELAXED, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
				STRATA_RSEQ_MODEL_ORDER };

	return mc_rseq(cpu, shared->write_count, expect, w, 2, ids, values, orders, 4);
}

#endif /* STRATA_RING_RSEQ_MODEL_H */
