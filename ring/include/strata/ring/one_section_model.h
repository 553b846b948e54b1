/* SPDX-License-Identifier: MIT */
/*
 * one_section_model.h - the critical section of one_section.h in the form that the model checker executes. Included by
 * one_section.h only.
 *
 * One step for the threads of the same CPU, in which it reads, decides and stores, as the section does: what it
 * reads is the latest, unless it is aborted. The clock is the atomic object *index, which each reading moves on by
 * the conversion's index.
 */
#ifndef STRATA_RING_AT_ONCE_MODEL_H
#define STRATA_RING_AT_ONCE_MODEL_H

#define STRATA_RSEQ_HAS_AT_ONCE 1

struct strata_rseq_model_in_one_section {
	const struct strata_ring_config *config;
	const struct strata_ring_once *once;
	const unsigned char *payload;
	uint64_t payload_bytes, bytes, step;
	uint32_t id, context;
	struct strata_ring_header_bytes header;
};

STRATA_FUNC void strata_rseq_model_touches(void *data, uint32_t cpu, struct mc_rseq_outcome *may)
{
	const struct strata_rseq_model_in_one_section *m =
		(const struct strata_rseq_model_in_one_section *)data;
	const struct strata_ring_once *once = m->once;
	const struct strata_ring_stream *s = &once->streams->stream[cpu < once->nr ? cpu : 0];
	const struct strata_abi_ring_stream *line = s->shared;
	/*
	 * Objects that the section touches. Without a clock, CPUs share none of them; nobody changes the
	 * epoch here.
	 */
	const uint64_t ids[] = { line->write_count, line->records,	  line->limit,
				 line->frame,	    line->full_timestamp, line->last_timestamp,
				 *once->index };
	const unsigned nr = m->config->clock ? 7 : 4;

	if (cpu >= once->nr)
		return;
	for (; may->nr_stores < nr; may->nr_stores++)
		may->store_ids[may->nr_stores] = ids[may->nr_stores];
	may->writes[0].dst = s->data;
	may->writes[0].n = (s->nr_subbufs + 1) * s->subbuf_bytes;
	may->nr_writes = 1;
}

STRATA_FUNC void strata_rseq_model_store(struct mc_rseq_outcome *does, uint64_t id, uint64_t value,
					 int order)
{
	does->store_ids[does->nr_stores] = id;
	does->store_values[does->nr_stores] = value;
	does->store_orders[does->nr_stores++] = order;
}

STRATA_FUNC int strata_rseq_model_compute(void *data, uint32_t cpu, struct mc_rseq_outcome *does)
{
	struct strata_rseq_model_in_one_section *m =
		(struct strata_rseq_model_in_one_section *)data;
	const struct strata_ring_once *once = m->once;
	const uint32_t short_bytes = m->config->header.short_bytes;
	const struct strata_abi_ring_stream *line;
	uint64_t old, now = 0;
	unsigned char *dst;

	if (cpu >= once->nr)
		return 0;
	line = once->streams->stream[cpu].shared;
	old = mc_rseq_read(line->write_count);
	if ((int64_t)(mc_rseq_read(line->limit) - old) < (int64_t)m->bytes ||
	    mc_rseq_read(*once->epoch) != once->while_epoch)
		return 0;
	if (m->config->clock) {
		now = mc_rseq_read(*once->index) + m->step;
		if (strata_ring_needs_full(m->config, now, mc_rseq_read(line->full_timestamp)))
			return 0;
		strata_rseq_model_store(does, *once->index, now, __ATOMIC_RELAXED);
		strata_rseq_model_store(does, line->last_timestamp, now, __ATOMIC_RELAXED);
	}
	dst = once->first + mc_rseq_read(line->frame) + old;
	m->header = m->config->header.make(m->id, (uint32_t)m->payload_bytes + once->context_bytes,
					   now, 0);
	does->writes[0] = (struct mc_rseq_write){ dst, &m->header, short_bytes };
	does->writes[1] =
		(struct mc_rseq_write){ dst + short_bytes, &m->context, once->context_bytes };
	does->writes[2] =
		(struct mc_rseq_write){ dst + once->prefix_bytes, m->payload, m->payload_bytes };
	does->nr_writes = 3;
	strata_rseq_model_store(does, line->records, mc_rseq_read(line->records) + 1,
				__ATOMIC_RELAXED);
	strata_rseq_model_store(does, line->write_count, old + m->bytes, STRATA_RSEQ_MODEL_ORDER);
	return 1;
}

STRATA_INLINE int strata_rseq_model_in_one_section(struct strata_rseq_model_in_one_section *m)
{
	const struct mc_rseq_section section = { strata_rseq_model_touches,
						 strata_rseq_model_compute, m, *m->once->index };

	return mc_rseq_section(&section);
}

STRATA_INLINE int strata_rseq_publish_in_one_section(const struct strata_ring_config *config,
						     const struct strata_ring_once *once,
						     uint32_t id, uint32_t context,
						     const struct strata_ring_conversion *clock,
						     const unsigned char *payload, uint64_t n)
{
	struct strata_rseq_model_in_one_section m = {
		config,	      once, payload, n,	      once->prefix_bytes + n,
		clock->index, id,   context, { 0, 0 }
	};

	return strata_rseq_model_in_one_section(&m);
}

/* Publishes a record whose sizes are those of @once. */
STRATA_INLINE int strata_rseq_compact_16(const struct strata_ring_once *once,
					 uint64_t id_and_context,
					 const struct strata_ring_conversion *clock, uint64_t word)
{
	struct strata_rseq_model_in_one_section m = { once->config,
						      once,
						      (const unsigned char *)&word,
						      sizeof(word),
						      once->bytes_16,
						      clock->index,
						      (uint32_t)id_and_context,
						      (uint32_t)(id_and_context >> 32),
						      { 0, 0 } };

	return strata_rseq_model_in_one_section(&m);
}

#endif /* STRATA_RING_AT_ONCE_MODEL_H */
