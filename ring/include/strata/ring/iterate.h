/* SPDX-License-Identifier: MIT */
/*
 * iterate.h - record by record: over one stream, or over a channel merged by time.
 *
 * Needs a header format with .parse. A record's payload is read at its place in the packet, and is valid until the
 * next call.
 */
#ifndef STRATA_RING_ITERATE_H
#define STRATA_RING_ITERATE_H

#include <stdlib.h>
#include <strata/ring/channel.h>
#include <strata/ring/recover.h>
#include <strata/ring/scan.h>

enum strata_ring_source {
	STRATA_RING_CONSUME = 0, /* each record once; its space goes back to the producer */
	STRATA_RING_SCAN = 1,	 /* what is delivered now; nothing is consumed */
	STRATA_RING_REST = 2,	 /* what dead producers have left, partial packets included */
};

struct strata_ring_view {
	struct strata_ring_parsed head;
	const unsigned char *payload;
	uint32_t cpu;
};

struct strata_ring_iterator {
	struct strata_ring_reader reader;
	const struct strata_ring_config *config;
	enum strata_ring_source source;
	struct strata_ring_scan scan;
	struct strata_ring_packet packet;
	struct strata_ring_view view;
	int in_packet;
	int have_view;
	uint64_t offset;      /* of the next record in the packet */
	uint64_t damaged;     /* packets whose rest could not be decoded */
	uint64_t gone;	      /* scan: packets that could not be taken */
	uint64_t unpublished; /* rest: reserved, never committed [byte] */
	uint32_t heap_key;    /* channel iterator: stream's index */
};

/**
 * strata_ring_iterator_init() - begin at the oldest unread record of @s.
 *
 * Returns 0; -EINVAL: the header format cannot be parsed; -EPROTO: the stream is damaged.
 * Context: the consumer of @s, any CPU. REST: no producer of @s is alive.
 * Ordering: as strata_ring_reader_init(); SCAN: then as strata_ring_scan_begin().
 * Checked: test: iterate malicious; bpf.
 */
STRATA_FUNC int strata_ring_iterator_init(struct strata_ring_iterator *it,
					  const struct strata_ring_config *config,
					  struct strata_ring_stream *s,
					  enum strata_ring_source source)
{
	int error;

	memset(it, 0, sizeof(*it));
	if (!config->header.parse)
		return -EINVAL;
	it->config = config;
	it->source = source;
	it->heap_key = s->cpu;
	error = strata_ring_reader_init(&it->reader, s);
	if (!error && source == STRATA_RING_SCAN)
		strata_ring_scan_begin(&it->scan, &it->reader, STRATA_RING_OLDEST_FIRST);
	return error;
}

STRATA_INLINE void strata_ring_iterator_leave(struct strata_ring_iterator *it)
{
	if (it->in_packet && it->source == STRATA_RING_CONSUME)
		strata_ring_put_next(&it->reader);
	if (it->in_packet && it->source == STRATA_RING_SCAN)
		strata_ring_put_subbuf(&it->reader);
	it->in_packet = 0;
}

/*
 * Goes to the next packet. Returns 0; -EAGAIN if a consumer finds no delivered packet; -ENODATA if none can
 * follow.
 */
STRATA_FUNC int strata_ring_iterator_enter(struct strata_ring_iterator *it)
{
	uint32_t tries = it->reader.s->nr_subbufs;
	int error;

	for (;;) {
		if (it->source == STRATA_RING_CONSUME)
			error = strata_ring_get_next(&it->reader, &it->packet);
		else if (it->source == STRATA_RING_SCAN)
			error = strata_ring_scan_get(&it->scan, &it->packet);
		else
			error = strata_ring_get_rest(&it->reader, &it->packet);
		if (error == -ENODATA || (error == -EAGAIN && it->source == STRATA_RING_CONSUME))
			return error;
		if (error == -EAGAIN) {
			it->gone++;
			continue;
		}
		it->in_packet = 1;
		if (!error)
			break;
		it->damaged++;
		strata_ring_iterator_leave(it);
		/*
		 * There are more packets than the stream can hold: write_count is damaged, and following it could
		 * take years.
		 */
		if (!tries--)
			return it->source == STRATA_RING_CONSUME ? -EAGAIN : -ENODATA;
	}
	it->unpublished += it->packet.unpublished_bytes;
	it->offset = it->packet.header_bytes;
	it->view.head.timestamp = it->packet.timestamp_begin;
	it->view.cpu = it->reader.s->cpu;
	return 0;
}

/**
 * strata_ring_peek() - the next record, without going on: the same one until strata_ring_next().
 *
 * Returns 0; -EAGAIN: none delivered now (consume); -ENODATA: no more; -EPROTO never: a packet that
 * cannot be decoded is left at that point and counted in it->damaged.
 * Context: the consumer of the stream, any CPU. No lock, allocation or system call.
 * Ordering: as strata_ring_get_next() and strata_ring_put_next(); SCAN: as strata_ring_scan_get() and
 *           strata_ring_put_subbuf(); REST: as strata_ring_get_rest(). Records are read by plain loads between.
 * Checked: test: iterate.
 */
STRATA_FUNC int strata_ring_peek(struct strata_ring_iterator *it,
				 const struct strata_ring_view **view)
{
	uint64_t align = it->config->record_align, bytes, left;
	int error;

	while (!it->have_view) {
		if (!it->in_packet) {
			error = strata_ring_iterator_enter(it);
			if (error)
				return error;
		}
		left = it->packet.content_bytes - it->offset;
		if (!left) {
			strata_ring_iterator_leave(it);
			continue;
		}
		it->view.payload = it->packet.data + it->offset;
		error = it->config->header.parse(it->view.payload, left, &it->view.head);
		bytes = (uint64_t)it->view.head.header_bytes + it->view.head.payload_bytes;
		bytes = (bytes + align - 1) & ~(align - 1);
		if (error || !bytes || bytes > left) {
			it->damaged++;
			strata_ring_iterator_leave(it);
			continue;
		}
		it->view.payload += it->view.head.header_bytes;
		it->offset += bytes;
		it->have_view = !it->view.head.padding;
	}
	*view = &it->view;
	return 0;
}

/**
 * strata_ring_next() - the next record, and go on.
 *
 * Returns as strata_ring_peek().
 * Context: as strata_ring_peek().
 * Ordering: as strata_ring_peek().
 * Checked: test: iterate malicious; bpf.
 */
STRATA_FUNC int strata_ring_next(struct strata_ring_iterator *it,
				 const struct strata_ring_view **view)
{
	int error = strata_ring_peek(it, view);

	it->have_view = 0;
	return error;
}

/**
 * strata_ring_iterator_end() - gives back a packet that is being read; consume: its rest is
 * skipped.
 *
 * Context: as strata_ring_peek().
 * Ordering: as strata_ring_put_next(); SCAN: as strata_ring_put_subbuf(); REST: touches nothing shared.
 * Checked: test: iterate.
 */
STRATA_FUNC void strata_ring_iterator_end(struct strata_ring_iterator *it)
{
	strata_ring_iterator_leave(it);
	it->have_view = 0;
}

/* All streams of a channel, as one sequence in the order of time; records of the same time in the order of CPUs. */
struct strata_ring_merge {
	struct strata_ring_iterator *streams; /* [nr] */
	struct strata_ring_iterator **heap;   /* [live]: the one with the earliest record first */
	uint32_t nr;
	uint32_t live;
};

STRATA_INLINE int strata_ring_merge_before(const struct strata_ring_iterator *a,
					   const struct strata_ring_iterator *b)
{
	/*
	 * A stream without a record in view is asked first, before another is believed to be the earliest.
	 */
	if (a->have_view != b->have_view)
		return !a->have_view;
	if (a->have_view && a->view.head.timestamp != b->view.head.timestamp)
		return a->view.head.timestamp < b->view.head.timestamp;
	return a->heap_key < b->heap_key;
}

STRATA_FUNC void strata_ring_merge_sift(struct strata_ring_merge *m, uint32_t i)
{
	struct strata_ring_iterator *moved = m->heap[i];
	uint32_t child;

	while ((child = 2 * i + 1) < m->live) {
		if (child + 1 < m->live &&
		    strata_ring_merge_before(m->heap[child + 1], m->heap[child]))
			child++;
		if (!strata_ring_merge_before(m->heap[child], moved))
			break;
		m->heap[i] = m->heap[child];
		i = child;
	}
	m->heap[i] = moved;
}

/**
 * strata_ring_merge_end() - gives everything back.
 *
 * Context: as strata_ring_merge_init().
 * Ordering: as strata_ring_iterator_end(), for each stream.
 * Checked: test: iterate.
 */
STRATA_FUNC void strata_ring_merge_end(struct strata_ring_merge *m)
{
	uint32_t i;

	for (i = 0; i < m->nr; i++)
		strata_ring_iterator_end(&m->streams[i]);
	free(m->streams);
	free(m->heap);
	memset(m, 0, sizeof(*m));
}

/**
 * strata_ring_merge_init() - iterate over all streams of @c, merged by time.
 *
 * Returns 0, -ENOMEM, or as strata_ring_iterator_init().
 * Context: the consumer of all streams of @c; not a signal handler: it allocates.
 * Ordering: as strata_ring_iterator_init(), for each stream.
 * Checked: test: iterate.
 */
STRATA_FUNC int strata_ring_merge_init(struct strata_ring_merge *m,
				       const struct strata_ring_config *config,
				       const struct strata_ring_channel *c,
				       enum strata_ring_source source)
{
	uint32_t i;
	int error = 0;

	memset(m, 0, sizeof(*m));
	m->streams = (struct strata_ring_iterator *)calloc(c->streams.nr, sizeof(*m->streams));
	m->heap = (struct strata_ring_iterator **)calloc(c->streams.nr, sizeof(*m->heap));
	if (!m->streams || !m->heap)
		error = -ENOMEM;
	for (i = 0; !error && i < c->streams.nr; i++) {
		error = strata_ring_iterator_init(&m->streams[i], config, &c->streams.stream[i],
						  source);
		m->heap[i] = &m->streams[i];
		m->nr = m->live = i + 1;
	}
	if (error)
		strata_ring_merge_end(m);
	return error;
}

/**
 * strata_ring_merge_next() - the earliest record of all streams.
 *
 * Returns 0; -EAGAIN (consume): a stream that is not finalized has nothing delivered now, and could
 * still get an earlier record (also that of a CPU on which nobody runs: finalize it, flush it, or take
 * a scan); -ENODATA: no more in any stream.
 * Context: the consumer of all streams of the channel. No lock, allocation or system call.
 * Ordering: as strata_ring_peek(). A stream with nothing is asked once more behind the ACQUIRE of finalized
 *           in strata_ring_poll(), which its last packet comes before.
 * Checked: test: iterate.
 */
STRATA_FUNC int strata_ring_merge_next(struct strata_ring_merge *m,
				       const struct strata_ring_view **view)
{
	while (m->live) {
		struct strata_ring_iterator *first = m->heap[0];
		int error;

		if (first->have_view) {
			*view = &first->view;
			/*
			 * The view stays valid until the next call, which asks this stream for its
			 * next record before another stream's is believed to be the earliest.
			 */
			first->have_view = 0;
			strata_ring_merge_sift(m, 0);
			return 0;
		}
		error = strata_ring_peek(first, view);
		if (error == -EAGAIN && strata_ring_poll(&first->reader) != STRATA_RING_HANGUP)
			return error;
		/* Between peek and poll a last packet may have come: ask once more before leaving. */
		if (error == -EAGAIN)
			error = strata_ring_peek(first, view);
		if (error)
			m->heap[0] = m->heap[--m->live];
		if (m->live)
			strata_ring_merge_sift(m, 0);
	}
	return -ENODATA;
}

#endif /* STRATA_RING_ITERATE_H */
