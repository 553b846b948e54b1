/* SPDX-License-Identifier: MIT */
/*
 * session.c - a session's channel: made by the process itself when a tracer has started it, else only
 * mapped, when the first record of the session is about to be written.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "context.h"
#include "filter_select.h"
#include "spans.h"

/* The memfd from its start to @end, mapped once more. NULL: it could not be. */
static struct strata_user_channel *mapping_that_holds(uint64_t end, unsigned char **all,
						      uint64_t *all_bytes)
{
	struct strata_user_channel *largest =
		__atomic_load_n(&strata_runtime.largest, __ATOMIC_ACQUIRE);
	void *memory;

	if (largest && largest->all_bytes >= end) {
		*all = largest->all;
		*all_bytes = largest->all_bytes;
		return largest;
	}
	/*
	 * The call mremap() with an old size of 0 makes a second mapping of the same memfd, which may be
	 * longer. It needs no descriptor: the program may have closed that, or may not be able to
	 * open it any more.
	 */
	memory = strata_mremap(strata_runtime.memory, 0, end, MREMAP_MAYMOVE, NULL);
	*all = memory == MAP_FAILED ? NULL : (unsigned char *)memory;
	*all_bytes = end;
	return largest;
}

/* The process' description of the channel at @memory; mmap'ed, because malloc() may be our caller. */
static struct strata_user_channel *describe(unsigned char *memory,
					    const struct strata_abi_ring_channel *header)
{
	uint64_t bytes = sizeof(struct strata_user_channel) +
			 header->nr_streams * sizeof(struct strata_ring_stream);
	struct strata_user_channel *channel;
	uint32_t i;
	void *p;

	p = strata_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (p == MAP_FAILED)
		return NULL;
	channel = (struct strata_user_channel *)p;
	if (strata_syscall(SYS_madvise, &channel->one_section, STRATA_ABI_RING_PAGE,
			   MADV_WIPEONFORK)) {
		strata_munmap(p, bytes);
		return NULL;
	}
	channel->ring.header = *header;
	channel->ring.memory = memory;
	channel->ring.fd = -1;
	channel->ring.streams.nr = header->nr_streams;
	channel->ring.streams.first = memory + STRATA_ABI_RING_PAGE;
	channel->ring.streams.stride = header->stream_stride;
	channel->ring.streams.stream = (struct strata_ring_stream *)(channel + 1);
	for (i = 0; i < header->nr_streams; i++)
		strata_ring_stream_attach(&channel->ring.streams.stream[i],
					  channel->ring.streams.first + i * header->stream_stride,
					  header, i);
	return channel;
}

/*
 * Maps the filter and the contexts of a channel, which the record path needs besides the ring.
 * Returns 0, or a negative errno if one cannot be used.
 */
static int complete(struct strata_user_channel *channel, uint32_t slot, uint64_t generation)
{
	int code = strata_contexts_map(&strata_runtime.sessions[slot], &channel->contexts);

	if (!code)
		code = strata_filter_map(slot, &channel->contexts, &channel->filter);
	if (!code && channel->filter && channel->filter->asks_duration)
		code = strata_spans_map(&channel->spans);
	if (code)
		return code;
	channel->careful = channel->spans || channel->contexts.nr;
	channel->slot = slot;
	channel->session_bit = UINT32_C(1) << slot;
	channel->session = &strata_runtime.sessions[slot];
	channel->generation = generation;
	channel->large_header = !!(channel->session->flags & STRATA_ABI_USER_SESSION_LARGE_HEADER);
	channel->config = strata_user_config(channel->ring.header.loss_mode, channel->large_header);
	strata_ring_once_init(&channel->once, channel->config, &channel->ring.streams,
			      channel->session->flags & STRATA_ABI_USER_SESSION_VTID ? 4 : 0,
			      &channel->session->generation, generation,
			      &strata_runtime.control->clock_index);
	channel->one_section.once = channel->once;
	channel->one_section.id_at =
		(uint32_t)(offsetof(struct strata_abi_user_state, ids) + slot * sizeof(uint16_t));
	channel->one_section.session_bit = channel->session_bit;
	return 0;
}

/*
 * @channel is in its slot: let the fast path to it be taken, unless a thread is without its clock, or does
 * so now. RELEASE pairs with strata_user_record().
 */
static void make_common(struct strata_user_channel *channel)
{
	struct strata_user_channel *now = __atomic_load_n(&strata_mapped.common, __ATOMIC_ACQUIRE);

	if (channel->filter || channel->contexts.nr) {
		__atomic_store_n(&strata_mapped.asked, channel, __ATOMIC_RELEASE);
		return;
	}
	if (channel->ring.header.publish != STRATA_ABI_RING_BY_POSITION)
		return;
	while (now != &strata_no_channel &&
	       !__atomic_compare_exchange_n(&strata_mapped.common, &now, channel, 0,
					    __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
		;
}

/* Notes that @channel has a mapping of its own: other sessions may use it, and a child does not keep it. */
static void note_mapping(struct strata_user_channel *channel)
{
	struct strata_user_channel *largest =
		__atomic_load_n(&strata_runtime.largest, __ATOMIC_ACQUIRE);

	do {
		channel->mapped_before = largest;
	} while (!__atomic_compare_exchange_n(&strata_runtime.largest, &largest, channel, 0,
					      __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
}

static void forget(struct strata_user_channel *channel)
{
	if (channel->filter)
		strata_filter_forget(channel->filter);
	if (channel->spans)
		strata_spans_forget(channel->spans);
	strata_munmap(channel, sizeof(*channel) + channel->ring.streams.nr *
							  sizeof(struct strata_ring_stream));
}

/*
 * Returns whether this is the header of a channel in the session's place that this process can
 * write to.
 */
static int usable(const struct strata_abi_user_session *session,
		  const struct strata_abi_ring_channel *header)
{
	uint32_t overwrite = session->flags & STRATA_ABI_USER_SESSION_OVERWRITE;

	return header->magic == STRATA_ABI_RING_MAGIC &&
	       header->version == STRATA_ABI_RING_VERSION &&
	       !strata_ring_header_check(header, NULL) &&
	       header->total_bytes <= session->channel_bytes && header->record_align == 1 &&
	       !header->global &&
	       header->loss_mode ==
		       (overwrite ? STRATA_ABI_RING_OVERWRITE : STRATA_ABI_RING_DISCARD) &&
	       header->publish == strata_runtime.control->publish;
}

/* Map the channel of a session that is active. Returns NULL if that is impossible. */
static struct strata_user_channel *map_channel(uint32_t slot, uint64_t generation,
					       struct strata_user_channel *before)
{
	const struct strata_abi_user_session *session = &strata_runtime.sessions[slot];
	uint64_t all_bytes = 0;
	uint64_t begin = session->channel_offset, end = begin + session->channel_bytes;
	struct strata_user_channel *channel, *largest;
	struct strata_abi_ring_channel header;
	unsigned char *all = NULL;

	if (begin < STRATA_ABI_USER_CHANNELS_OFFSET || begin % STRATA_ABI_RING_PAGE ||
	    end < begin + STRATA_ABI_RING_PAGE)
		return NULL;
	largest = mapping_that_holds(end, &all, &all_bytes);
	if (!all)
		return NULL;
	memcpy(&header, all + begin, sizeof(header));
	channel = usable(session, &header) ? describe(all + begin, &header) : NULL;
	if (channel && complete(channel, slot, generation)) {
		forget(channel);
		channel = NULL;
	}
	if (channel) {
		channel->all = all;
		channel->all_bytes = all_bytes;
		/* RELEASE pairs with the ACQUIRE in strata_user_channel_of(). */
		if (__atomic_compare_exchange_n(&strata_mapped.channel[slot], &before, channel, 0,
						__ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
			if (!largest || largest->all != all)
				note_mapping(channel);
			make_common(channel);
			return channel;
		}
		/* Another thread, or a signal handler of this thread, has mapped the channel first. */
		forget(channel);
		channel = before;
	}
	if (!largest || largest->all != all)
		strata_munmap(all, all_bytes);
	return channel;
}

/*
 * The channel of session @slot for this process, mapped if it is not. NULL: it cannot be, or the session
 * has ended; what was to be written is counted if it should have been.
 */
struct strata_user_channel *strata_session_map(uint32_t slot)
{
	struct strata_abi_user_session *session = &strata_runtime.sessions[slot];
	struct strata_user_channel *channel = NULL, *before;
	int saved = errno;
	uint64_t generation;

	if (!strata_memory_own())
		return NULL;
	/* Loaded before everything else of the slot: what we map then is valid for this generation, or for none. */
	generation = strata_load_acquire(&session->generation);
	/* The slot is between two sessions. */
	if (!generation)
		return NULL;
	/* ACQUIRE pairs with the RELEASE of whoever made the session active. */
	if (__atomic_load_n(&session->status, __ATOMIC_ACQUIRE) != STRATA_ABI_USER_SESSION_ACTIVE)
		return NULL;
	before = __atomic_load_n(&strata_mapped.channel[slot], __ATOMIC_ACQUIRE);
	if (!strata_sandboxed())
		channel = map_channel(slot, generation, before);
	strata_fence_acquire();
	if (strata_load_relaxed(&session->generation) != generation)
		channel = NULL; /* the session has just ended */
	else if (!channel || channel->generation != generation)
		strata_add_relaxed(&session->discarded_unmapped, 1);
	if (channel && channel->generation != generation)
		channel = NULL;
	errno = saved;
	return channel;
}

/* Map the channel of session @slot before its first record. */
void strata_session_prepare(uint32_t slot)
{
	const struct strata_user_channel *channel =
		__atomic_load_n(&strata_mapped.channel[slot], __ATOMIC_ACQUIRE);

	if (!channel ||
	    channel->generation != strata_load_relaxed(&strata_runtime.sessions[slot].generation))
		strata_session_map(slot);
}

/* Returns the offset for the next channel of the process: behind all others. */
static uint64_t end_of_channels(void)
{
	uint64_t end = STRATA_ABI_USER_CHANNELS_OFFSET;
	uint32_t claimed = strata_sessions_claimed();

	for (; claimed; claimed &= claimed - 1) {
		const struct strata_abi_user_session *s =
			&strata_runtime.sessions[__builtin_ctz(claimed)];

		if (s->channel_offset + s->channel_bytes > end)
			end = s->channel_offset + s->channel_bytes;
	}
	return end;
}

/*
 * Creates a channel for session slot @slot, whose sizes, flags, rules and generation are set, and makes the session
 * active. Before anybody else knows the memfd.
 */
static int create(uint32_t slot)
{
	struct strata_abi_user_session *session = &strata_runtime.sessions[slot];
	const uint32_t flags = session->flags;
	const struct strata_ring_config *config = strata_user_config(
		flags & STRATA_ABI_USER_SESSION_OVERWRITE ? STRATA_ABI_RING_OVERWRITE :
							    STRATA_ABI_RING_DISCARD,
		!!(flags & STRATA_ABI_USER_SESSION_LARGE_HEADER));
	struct strata_ring_attr attr;
	struct strata_abi_ring_channel header;
	struct strata_user_channel *channel, *largest;
	uint64_t begin = end_of_channels(), bytes, all_bytes;
	unsigned char *all;
	struct rlimit limit;
	int code;

	memset(&attr, 0, sizeof(attr));
	attr.subbuf_bytes = session->subbuf_bytes;
	attr.nr_subbufs = session->nr_subbufs;
	attr.nr_cpus = strata_runtime.control->nr_cpus;
	attr.no_rseq = strata_runtime.control->publish == STRATA_ABI_RING_BY_COMMIT;
	code = strata_ring_channel_describe(config, &attr, &header, NULL);
	if (code)
		return code;
	bytes = (header.total_bytes + STRATA_ABI_RING_PAGE - 1) &
		~(uint64_t)(STRATA_ABI_RING_PAGE - 1);
	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < begin + bytes)
		return -EFBIG; /* ftruncate() would raise SIGXFSZ */
	if (ftruncate(strata_runtime.fd, (off_t)(begin + bytes)))
		return -errno;
	session->channel_offset = begin;
	session->channel_bytes = bytes;
	largest = mapping_that_holds(begin + bytes, &all, &all_bytes);
	channel = all ? describe(all + begin, &header) : NULL;
	if (!channel) {
		if (all && (!largest || largest->all != all))
			strata_munmap(all, all_bytes);
		return -ENOMEM;
	}
	channel->all = all;
	channel->all_bytes = all_bytes;
	code = complete(channel, slot, strata_load_relaxed(&session->generation));
	if (code) {
		forget(channel);
		if (!largest || largest->all != all)
			strata_munmap(all, all_bytes);
		return code;
	}
	strata_ring_channel_format(&channel->ring);
	if (!largest || largest->all != channel->all)
		note_mapping(channel);
	__atomic_store_n(&strata_mapped.channel[slot], channel, __ATOMIC_RELEASE);
	make_common(channel);
	__atomic_fetch_or(&strata_runtime.control->claimed_sessions, UINT32_C(1) << slot,
			  __ATOMIC_SEQ_CST);
	__atomic_store_n(&session->status, STRATA_ABI_USER_SESSION_ACTIVE, __ATOMIC_SEQ_CST);
	return 0;
}

/* Begins the session of a slot. Returns 0; on failure a negative errno, and the slot is free and has the reason. */
int strata_session_create(uint32_t slot)
{
	int code = create(slot);

	if (code)
		strata_runtime.sessions[slot].create_errno = (uint32_t)-code;
	return code;
}

/* Frees a slot whose session this process has made, and that no tracer wants. */
void strata_session_free(uint32_t slot)
{
	__atomic_store_n(&strata_runtime.sessions[slot].status, STRATA_ABI_USER_SESSION_FREE,
			 __ATOMIC_SEQ_CST);
	__atomic_fetch_and(&strata_runtime.control->claimed_sessions, ~(UINT32_C(1) << slot),
			   __ATOMIC_SEQ_CST);
}
