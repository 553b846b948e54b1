/* SPDX-License-Identifier: MIT */
/*
 * client.h - a client of the ring as one line: a type of its own for its channels, and the
 * functions that use them.
 *
 *   STRATA_RING_CLIENT(my_ring, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ, STRATA_RING_PER_CPU,
 *                      STRATA_RING_WAKE_NONE, 8, strata_clock_monotonic_ns,
 *                      STRATA_RING_HEADER_SIZED, NULL);
 *
 * What follows the name are the members of struct strata_ring_config, in their order. This defines
 * my_ring_config, struct my_ring, struct my_ring_slot, and functions: each is the one on the right
 * with the configuration filled in; what that one says of Returns, Context and Ordering holds.
 *
 *   my_ring_create(ring, attr, error)           strata_ring_channel_create()
 *   my_ring_open(ring, fd, sealed, error)       strata_ring_channel_open_producer()
 *   my_ring_close(ring)                         strata_ring_channel_close()
 *   my_ring_record(ring, id, payload, bytes)    strata_ring_record()
 *   my_ring_record_event(ring, event, payload)  strata_ring_record_event()
 *   my_ring_flush(ring)                         strata_ring_flush_current()
 *   my_ring_reserve(ring, event, slot)          strata_ring_reserve() of the current CPU's stream
 *   my_ring_write(slot, src, n)                 strata_ring_write()
 *   my_ring_commit(slot), my_ring_cancel(slot)  strata_ring_commit(), strata_ring_cancel()
 *   my_ring_reader_init(reader, ring, cpu)      strata_ring_reader_init(); -EINVAL: no such CPU
 *   my_ring_iterator_init(it, ring, cpu, from)  strata_ring_iterator_init(); -EINVAL: no such CPU
 *   my_ring_merge_init(merge, ring, from)       strata_ring_merge_init()
 *
 * my_ring_reserve() returns -EOPNOTSUPP where the channel publishes by write position: nothing is
 * reserved there. my_ring_record() writes either way.
 *
 * So a channel cannot be used with the configuration of another client: their types differ, and the
 * mistake does not compile. What is the same for all clients takes ring->channel, such as
 * strata_ring_channel_stream(), or a reader, a merge or a stream. A consumer that never writes, and
 * may lack what a producer needs, opens ring->channel with strata_ring_channel_open().
 *
 * Checked: ring/test/client.c; ring/test/linking.sh: what must not compile, and that the instructions
 * are the same as by hand.
 */
#ifndef STRATA_RING_CLIENT_H
#define STRATA_RING_CLIENT_H

#include <strata/ring/ring.h>

#if !defined(__cplusplus)
/*
 * The warning is an error in C++, and in C from gcc 14 on; elsewhere another client's channel would only be
 * a warning.
 */
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#endif

/* Makes one object for all files of a C++ program, so that inline functions and templates are the same in each. */
#if defined(__cplusplus)
#define STRATA_RING_CLIENT_CONFIG inline constexpr
#else
#define STRATA_RING_CLIENT_CONFIG static const
#endif

/* Only programs read: a kernel module creates its channels, and programs read them. */
#ifdef __KERNEL__
#define STRATA_RING_CLIENT_READS(name)
#else
#define STRATA_RING_CLIENT_READS(name)                                                           \
	STRATA_FUNC int name##_open(struct name *ring, int fd, int sealed,                       \
				    struct strata_ring_error *error)                             \
	{                                                                                        \
		return strata_ring_channel_open_producer(&name##_config, fd, sealed,             \
							 &ring->channel, error);                 \
	}                                                                                        \
	STRATA_FUNC int name##_reader_init(struct strata_ring_reader *reader,                    \
					   const struct name *ring, int cpu)                     \
	{                                                                                        \
		struct strata_ring_stream *s =                                                   \
			strata_ring_channel_stream(&ring->channel, cpu, NULL);                   \
                                                                                                 \
		return s ? strata_ring_reader_init(reader, s) : -EINVAL;                         \
	}                                                                                        \
	STRATA_FUNC int name##_iterator_init(struct strata_ring_iterator *it,                    \
					     const struct name *ring, int cpu,                   \
					     enum strata_ring_source from)                       \
	{                                                                                        \
		struct strata_ring_stream *s =                                                   \
			strata_ring_channel_stream(&ring->channel, cpu, NULL);                   \
                                                                                                 \
		return s ? strata_ring_iterator_init(it, &name##_config, s, from) : -EINVAL;     \
	}                                                                                        \
	STRATA_FUNC int name##_merge_init(struct strata_ring_merge *merge,                       \
					  const struct name *ring, enum strata_ring_source from) \
	{                                                                                        \
		return strata_ring_merge_init(merge, &name##_config, &ring->channel, from);      \
	}
#endif

#define STRATA_RING_CLIENT(name, ...)                                                              \
	STRATA_RING_CLIENT_CONFIG struct strata_ring_config name##_config                          \
		__attribute__((unused)) = { __VA_ARGS__ };                                         \
	struct name {                                                                              \
		struct strata_ring_channel channel;                                                \
	};                                                                                         \
	struct name##_slot {                                                                       \
		struct strata_ring_slot slot;                                                      \
	};                                                                                         \
	STRATA_FUNC int name##_create(struct name *ring, const struct strata_ring_attr *attr,      \
				      struct strata_ring_error *error)                             \
	{                                                                                          \
		return strata_ring_channel_create(&name##_config, attr, &ring->channel, error);    \
	}                                                                                          \
	STRATA_FUNC void name##_close(struct name *ring)                                           \
	{                                                                                          \
		strata_ring_channel_close(&ring->channel);                                         \
	}                                                                                          \
	STRATA_INLINE int name##_record(const struct name *ring, uint32_t id, const void *payload, \
					uint32_t payload_bytes)                                    \
	{                                                                                          \
		return strata_ring_record(&name##_config, &ring->channel, id, payload,             \
					  payload_bytes);                                          \
	}                                                                                          \
	STRATA_INLINE int name##_record_event(const struct name *ring,                             \
					      const struct strata_ring_event *event,               \
					      const void *payload)                                 \
	{                                                                                          \
		return strata_ring_record_event(&name##_config, &ring->channel, event, payload);   \
	}                                                                                          \
	STRATA_INLINE void name##_flush(const struct name *ring)                                   \
	{                                                                                          \
		strata_ring_flush_current(&name##_config, &ring->channel);                         \
	}                                                                                          \
	STRATA_INLINE int name##_reserve(const struct name *ring,                                  \
					 const struct strata_ring_event *event,                    \
					 struct name##_slot *slot)                                 \
	{                                                                                          \
		if (name##_config.writers == STRATA_RING_WRITERS_RSEQ &&                           \
		    ring->channel.header.publish == STRATA_ABI_RING_BY_POSITION)                   \
			return -EOPNOTSUPP;                                                        \
		return strata_ring_reserve(&name##_config,                                         \
					   strata_ring_current_stream(&name##_config,              \
								      &ring->channel),             \
					   event, &slot->slot);                                    \
	}                                                                                          \
	STRATA_INLINE void name##_write(struct name##_slot *slot, const void *src, size_t n)       \
	{                                                                                          \
		strata_ring_write(&slot->slot, src, n);                                            \
	}                                                                                          \
	STRATA_INLINE void name##_commit(struct name##_slot *slot)                                 \
	{                                                                                          \
		strata_ring_commit(&name##_config, &slot->slot);                                   \
	}                                                                                          \
	STRATA_INLINE int name##_cancel(struct name##_slot *slot)                                  \
	{                                                                                          \
		return strata_ring_cancel(&name##_config, &slot->slot);                            \
	}                                                                                          \
	STRATA_RING_CLIENT_READS(name)                                                             \
	/* Takes the semicolon behind the macro. */                                                \
	struct name

#endif /* STRATA_RING_CLIENT_H */
