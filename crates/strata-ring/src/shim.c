/* SPDX-License-Identifier: MIT */
/*
 * shim.c - the ring library's consumer side as plain functions; see shim.h.
 */
#include "shim.h"

#include <strata/ring/clock.h>
#include <strata/ring/header.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

struct strata_shim {
	struct strata_ring_channel channel;
	int barrier_fd; /* -1: none is needed */
	unsigned long barrier_request;
	struct strata_ring_scan scan;	    /* one at a time */
	struct strata_ring_reader reader[]; /* [nr_streams] */
};

/* Offset that the time namespace of this process adds to the machine's CLOCK_MONOTONIC, which records have [ns]. */
static _Thread_local int64_t shim_clock_adds;

/*
 * The clock for a flush from here. A producer that converts a cycle counter may be a little ahead of it:
 * the packet must not end before its records. Who reads puts the end right when the next one begins.
 */
static uint64_t shim_flush_clock(void)
{
	return strata_clock_monotonic_ns() - (uint64_t)shim_clock_adds + STRATA_SHIM_AHEAD_NS;
}

/*
 * Configuration of applications' channels (probe/user), which is close enough to that of BPF
 * programs (probe/kernel: writers SMP, large headers). writers SMP, large headers). Here it says
 * how to describe a channel and how to flush by commit: that uses the atomic operations of all
 * writers but LOCAL, the loss mode and the clock. The header format is not in a channel and no
 * consumer needs it. /
 */
#define SHIM_CONFIG(loss)                                                                      \
	{                                                                                      \
		loss, STRATA_RING_WRITERS_RSEQ, STRATA_RING_PER_CPU, STRATA_RING_WAKE_NONE, 1, \
			shim_flush_clock, STRATA_RING_HEADER_COMPACT, NULL                     \
	}

static const struct strata_ring_config shim_config[] = {
	[STRATA_ABI_RING_DISCARD] = SHIM_CONFIG(STRATA_RING_DISCARD),
	[STRATA_ABI_RING_OVERWRITE] = SHIM_CONFIG(STRATA_RING_OVERWRITE),
};

/* Attempts at an operation that a quick producer can spoil. */
enum {
	FLUSH_TRIES = 100,
	PARTIAL_TRIES = 20
};

/* Reserves addresses for so many bytes and a guard after them, without memory behind them. */
static void *shim_reserve(uint64_t bytes)
{
	return mmap(NULL, (size_t)(bytes + STRATA_SHIM_GUARD_BYTES), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

int strata_shim_map(int fd, uint64_t offset, uint64_t bytes, void **memory)
{
	void *reserved = shim_reserve(bytes);
	int code;

	if (reserved == MAP_FAILED)
		return -errno;
	*memory = mmap(reserved, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		       (off_t)offset);
	if (*memory != MAP_FAILED)
		return 0;
	code = -errno;
	munmap(reserved, (size_t)(bytes + STRATA_SHIM_GUARD_BYTES));
	return code;
}

/*
 * The channel's header in a page of our own, then the first @layout->stride_bytes of each of the file's
 * values: how a channel lies in memory, whatever is between its streams where they come from.
 */
int strata_shim_map_streams(int fd, const struct strata_shim_layout *layout, uint64_t value_bytes,
			    void **memory)
{
	uint64_t bytes = STRATA_ABI_RING_PAGE + layout->nr_streams * layout->stride_bytes, i;
	unsigned char *stream = shim_reserve(bytes);
	int code;

	if (stream == MAP_FAILED)
		return -errno;
	*memory = stream;
	stream += STRATA_ABI_RING_PAGE;
	for (i = 0; i < layout->nr_streams; i++, stream += layout->stride_bytes) {
		if (mmap(stream, (size_t)layout->stride_bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, fd, (off_t)(i * value_bytes)) != MAP_FAILED)
			continue;
		code = -errno;
		strata_shim_unmap(*memory, bytes);
		return code;
	}
	return 0;
}

void strata_shim_unmap(void *memory, uint64_t bytes)
{
	munmap(memory, (size_t)(bytes + STRATA_SHIM_GUARD_BYTES));
}

static int shim_describe(const struct strata_shim_attr *attr, struct strata_abi_ring_channel *h,
			 struct strata_ring_error *error)
{
	const struct strata_ring_attr ring = {
		.subbuf_bytes = attr->subbuf_bytes,
		.nr_subbufs = attr->nr_subbufs,
		.nr_cpus = attr->nr_cpus,
		.no_rseq = attr->publish == STRATA_ABI_RING_BY_COMMIT,
		.rseq_elsewhere = 1,
		.start_position = attr->start_position,
	};

	return strata_ring_channel_describe(&shim_config[attr->loss_mode], &ring, h, error);
}

int strata_shim_channel_bytes(const struct strata_shim_attr *attr, uint64_t *bytes,
			      struct strata_ring_error *error)
{
	struct strata_abi_ring_channel h;
	int code = shim_describe(attr, &h, error);

	*bytes = code ? 0 : h.total_bytes;
	return code;
}

int strata_shim_layout_of(const struct strata_shim_attr *attr, struct strata_shim_layout *layout,
			  struct strata_ring_error *error)
{
	struct strata_abi_ring_channel h;
	struct strata_ring_parts parts;
	int code = shim_describe(attr, &h, error);

	if (code)
		return code;
	parts = strata_ring_layout(h.subbuf_bytes, h.nr_subbufs);
	layout->stride_bytes = parts.stride;
	layout->frames_offset = parts.frames_offset;
	layout->data_offset = parts.data_offset;
	layout->nr_streams = h.nr_streams;
	return 0;
}

/* A description of the channel at @memory, whose header @h was checked and whose size is there. */
static int shim_attach(void *memory, const struct strata_abi_ring_channel *h,
		       struct strata_shim **out, struct strata_ring_error *error)
{
	struct strata_shim *shim =
		calloc(1, sizeof(*shim) + h->nr_streams * sizeof(struct strata_ring_reader));
	int code;

	if (!shim)
		return STRATA_RING_REFUSE(error, ENOMEM, "channel: no memory to read %u streams",
					  h->nr_streams);
	shim->channel.memory = memory;
	shim->channel.header = *h;
	shim->channel.fd = -1;
	shim->barrier_fd = -1;
	code = strata_ring_channel_attach(&shim->channel, error);
	if (code)
		free(shim);
	else
		*out = shim;
	return code;
}

static int shim_room(const struct strata_abi_ring_channel *h, uint64_t bytes,
		     struct strata_ring_error *error)
{
	if (h->total_bytes <= bytes)
		return 0;
	return STRATA_RING_REFUSE(error, ENOSPC, "channel: needs %llu bytes, its memory has %llu",
				  (unsigned long long)h->total_bytes, (unsigned long long)bytes);
}

int strata_shim_format(const struct strata_shim_attr *attr, void *memory, uint64_t bytes,
		       struct strata_shim **out, struct strata_ring_error *error)
{
	struct strata_abi_ring_channel h;
	int code = shim_describe(attr, &h, error);

	if (!code)
		code = shim_room(&h, bytes, error);
	if (!code)
		code = shim_attach(memory, &h, out, error);
	if (!code)
		strata_ring_channel_format(&(*out)->channel);
	return code;
}

/*
 * Adopts a channel whose streams another process has left. Only the header, which is in this process' own memory, is
 * written.
 */
int strata_shim_adopt(const struct strata_shim_attr *attr, void *memory, uint64_t bytes,
		      struct strata_shim **out, struct strata_ring_error *error)
{
	struct strata_abi_ring_channel h;
	int code = shim_describe(attr, &h, error);

	if (!code)
		code = shim_room(&h, bytes, error);
	if (code)
		return code;
	h.magic = STRATA_ABI_RING_MAGIC;
	strata_plain_write(memory, &h, sizeof(h));
	return shim_attach(memory, &h, out, error);
}

int strata_shim_open(void *memory, uint64_t bytes, struct strata_shim **out,
		     struct strata_ring_error *error)
{
	struct strata_abi_ring_channel h;
	int code;

	if (bytes < STRATA_ABI_RING_PAGE)
		return STRATA_RING_REFUSE(error, ENOSPC,
					  "channel: its header needs %u bytes, its memory has %llu",
					  STRATA_ABI_RING_PAGE, (unsigned long long)bytes);
	/* ACQUIRE pairs with the RELEASE of the magic number in strata_ring_channel_format(). */
	h.magic = strata_load_acquire((const uint64_t *)memory);
	strata_plain_peek((unsigned char *)&h + sizeof(h.magic),
			  (const unsigned char *)memory + sizeof(h.magic),
			  sizeof(h) - sizeof(h.magic));
	if (h.magic != STRATA_ABI_RING_MAGIC)
		return STRATA_RING_REFUSE(error, EPROTO,
					  "channel: magic number is 0x%016llx, not 0x%016llx",
					  (unsigned long long)h.magic,
					  (unsigned long long)STRATA_ABI_RING_MAGIC);
	if (h.version != STRATA_ABI_RING_VERSION)
		return STRATA_RING_REFUSE(error, EPROTO,
					  "channel: layout version %u, this library reads %u",
					  h.version, STRATA_ABI_RING_VERSION);
	code = strata_ring_header_check(&h, error);
	if (!code)
		code = shim_room(&h, bytes, error);
	return code ? code : shim_attach(memory, &h, out, error);
}

int strata_shim_again(const struct strata_shim *shim, struct strata_shim **out,
		      struct strata_ring_error *error)
{
	int code = shim_attach(shim->channel.memory, &shim->channel.header, out, error);

	/* A scan through a stream that needs this barrier is refused, so nothing calls the barrier there. */
	if (!code)
		strata_shim_set_barrier(*out, shim->barrier_fd, shim->barrier_request);
	return code;
}

void strata_shim_close(struct strata_shim *shim)
{
	free(shim->channel.streams.stream);
	free(shim);
}

void strata_shim_header(const struct strata_shim *shim, struct strata_abi_ring_channel *header)
{
	*header = shim->channel.header;
}

static struct strata_ring_stream *shim_stream(const struct strata_shim *shim, uint32_t stream)
{
	return &shim->channel.streams.stream[stream];
}

void strata_shim_set_barrier(struct strata_shim *shim, int fd, uint64_t request)
{
	shim->barrier_fd = fd;
	shim->barrier_request = (unsigned long)request;
}

static int shim_barrier(void *of, uint32_t stream)
{
	const struct strata_shim *shim = of;

	if (!ioctl(shim->barrier_fd, shim->barrier_request, (unsigned long)stream))
		return 0;
	/*
	 * EAGAIN and EPROTO are errors of the device here; as results of strata_ring_get_next() they mean something
	 * else.
	 */
	return errno == EAGAIN || errno == EPROTO ? -EIO : -errno;
}

static void shim_order(struct strata_shim *shim, uint32_t stream)
{
	if (shim->barrier_fd >= 0)
		strata_ring_reader_set_barrier(&shim->reader[stream], shim_barrier, shim);
}

int strata_shim_begin(struct strata_shim *shim, uint32_t stream)
{
	int code = strata_ring_reader_init(&shim->reader[stream], shim_stream(shim, stream));

	shim_order(shim, stream);
	return code;
}

/*
 * Attaches to a stream for scans and counters only: it writes nothing, since the consumer is
 * somebody else.
 */
void strata_shim_view(struct strata_shim *shim, uint32_t stream)
{
	struct strata_ring_reader *reader = &shim->reader[stream];

	memset(reader, 0, sizeof(*reader));
	reader->s = shim_stream(shim, stream);
	shim_order(shim, stream);
}

int strata_shim_poll(const struct strata_shim *shim, uint32_t stream)
{
	return (int)strata_ring_poll(&shim->reader[stream]);
}

/* Bytes between the reader's position and the producers'; whatever the shared memory says, no more than a buffer. */
uint64_t strata_shim_backlog(const struct strata_shim *shim, uint32_t stream)
{
	const struct strata_ring_stream *s = shim_stream(shim, stream);
	int64_t n = (int64_t)(strata_load_relaxed(&s->shared->write_count) -
			      strata_ring_read_position(&shim->reader[stream]));

	if (n <= 0)
		return 0;
	return (uint64_t)n < s->buffer_bytes ? (uint64_t)n : s->buffer_bytes;
}

static void shim_packet(struct strata_shim_packet *out, const struct strata_ring_packet *packet,
			uint64_t known)
{
	out->data = packet->data;
	out->position = packet->position;
	out->header_bytes = packet->header_bytes;
	out->content_bytes = packet->content_bytes;
	out->timestamp_begin = packet->timestamp_begin;
	out->timestamp_end = packet->timestamp_end;
	out->records = packet->records;
	out->discarded = packet->discarded;
	out->unpublished_bytes = packet->unpublished_bytes;
	out->known = known;
}

int strata_shim_next(struct strata_shim *shim, uint32_t stream, struct strata_shim_packet *packet)
{
	struct strata_ring_packet p;
	int code;

	memset(&p, 0, sizeof(p));
	p.position = strata_ring_read_position(&shim->reader[stream]);
	code = strata_ring_get_next(&shim->reader[stream], &p);
	shim_packet(packet, &p, STRATA_SHIM_RECORDS | STRATA_SHIM_END);
	return code;
}

void strata_shim_put(struct strata_shim *shim, uint32_t stream)
{
	strata_ring_put_next(&shim->reader[stream]);
}

void strata_shim_put_back(struct strata_shim *shim, uint32_t stream)
{
	strata_ring_put_subbuf(&shim->reader[stream]);
}

int strata_shim_partial(struct strata_shim *shim, uint32_t stream, unsigned char *dst,
			uint64_t bytes, struct strata_shim_packet *packet)
{
	struct strata_ring_reader *reader = &shim->reader[stream];
	struct strata_ring_packet p;
	int tries = PARTIAL_TRIES, code;

	do {
		code = strata_ring_copy_available(reader, strata_ring_read_position(reader), dst,
						  bytes, &p);
	} while (code == -EAGAIN && strata_shim_backlog(shim, stream) && --tries);
	shim_packet(packet, &p,
		    reader->s->publish == STRATA_ABI_RING_BY_POSITION ?
			    STRATA_SHIM_RECORDS | STRATA_SHIM_END :
			    0);
	return code;
}

/*
 * strata_ring_flush() with an end: a producer that never stops to write there cannot keep us. Its frame's
 * index comes from shared memory; STRATA_SHIM_GUARD_BYTES.
 */
int strata_shim_flush(struct strata_shim *shim, uint32_t stream, int64_t clock_adds)
{
	struct strata_ring_stream *s = shim_stream(shim, stream);
	const struct strata_ring_config *config = &shim_config[s->loss_mode];
	int tries = FLUSH_TRIES;

	if (s->publish != STRATA_ABI_RING_BY_COMMIT || shim->barrier_fd >= 0)
		return -EINVAL;
	shim_clock_adds = clock_adds;
	while (tries--)
		if (strata_ring_flush_try(config, s))
			return 0;
	return -EAGAIN;
}

/*
 * Completes the description of the packet that was being filled when the producers died, beyond
 * what strata_ring_get_rest() fills in.
 */
static void shim_rest_open(const struct strata_ring_stream *s, struct strata_shim_packet *packet)
{
	const struct strata_abi_ring_frame *frame;
	uint64_t commit, reserved = packet->content_bytes + packet->unpublished_bytes;

	packet->known = 0;
	packet->timestamp_end = 0;
	packet->records = 0;
	if (s->publish == STRATA_ABI_RING_BY_POSITION) {
		frame = &s->frames[(uint64_t)(packet->data - s->data) >> s->subbuf_shift];
		packet->timestamp_end = strata_load_relaxed(&s->shared->last_timestamp);
		packet->records = strata_load_relaxed(&s->shared->records) -
				  strata_plain_read_u64(&frame->records_before);
		packet->known = STRATA_SHIM_RECORDS | STRATA_SHIM_END;
		return;
	}
	commit = strata_load_acquire(&strata_ring_subbuf(s, packet->position)->commit);
	if ((uint32_t)commit == reserved && !packet->unpublished_bytes) {
		packet->records = commit >> 32;
		packet->known = STRATA_SHIM_RECORDS;
	}
}

int strata_shim_rest(struct strata_shim *shim, uint32_t stream, struct strata_shim_packet *packet)
{
	struct strata_ring_reader *reader = &shim->reader[stream];
	struct strata_ring_packet p;
	int code;

	memset(&p, 0, sizeof(p));
	code = strata_ring_get_rest(reader, &p);
	shim_packet(packet, &p, STRATA_SHIM_RECORDS | STRATA_SHIM_END);
	if (code)
		return code;
	if (reader->rest_end - p.position < reader->s->subbuf_bytes)
		shim_rest_open(reader->s, packet);
	else if (p.unpublished_bytes)
		/* Closed, with a slot in it that nobody will commit. */
		packet->known = 0;
	return 0;
}

void strata_shim_scan(struct strata_shim *shim, uint32_t stream, int newest_first)
{
	strata_ring_scan_begin(&shim->scan, &shim->reader[stream],
			       newest_first ? STRATA_RING_NEWEST_FIRST : STRATA_RING_OLDEST_FIRST);
}

/* The next packet of the scan begun last. Whatever the memory says, there is an end: see strata_ring_scan_begin(). */
int strata_shim_scan_copy(struct strata_shim *shim, unsigned char *dst, uint64_t bytes,
			  struct strata_shim_packet *packet, struct strata_shim_before *before)
{
	const struct strata_ring_scan *scan = &shim->scan;
	struct strata_ring_packet p;
	int code;

	memset(&p, 0, sizeof(p));
	code = strata_ring_scan_copy(&shim->scan, dst, bytes, &p);
	shim_packet(packet, &p,
		    scan->whole || scan->reader->s->publish == STRATA_ABI_RING_BY_POSITION ?
			    STRATA_SHIM_RECORDS | STRATA_SHIM_END :
			    0);
	before->packets = (p.position - shim->channel.header.start_position) >>
			  scan->reader->s->subbuf_shift;
	before->overwritten_packets = scan->overwritten_packets;
	before->overwritten_records = scan->overwritten_records;
	before->records = p.records_before;
	return code;
}

/* Describes a packet in place, in shared memory: see strata_ring_scan_look(). */
int strata_shim_scan_look(struct strata_shim *shim, struct strata_shim_packet *packet)
{
	struct strata_ring_packet p;
	int code = strata_ring_scan_look(&shim->scan, &p);

	if (!code)
		shim_packet(packet, &p, STRATA_SHIM_RECORDS | STRATA_SHIM_END);
	return code;
}

int strata_shim_scan_holds(const struct strata_shim *shim)
{
	return strata_ring_scan_holds(&shim->scan);
}

void strata_shim_scan_pass(struct strata_shim *shim)
{
	strata_ring_scan_pass(&shim->scan);
}

void strata_shim_counters(const struct strata_shim *shim, uint32_t stream,
			  struct strata_ring_counters *counters)
{
	strata_ring_read_counters(shim_stream(shim, stream), counters);
}

void strata_shim_copy(unsigned char *dst, const unsigned char *src, uint64_t bytes)
{
	strata_plain_peek(dst, src, (size_t)bytes);
}

/* Writes both parts at @at of @fd: in one system call if it takes all of them, otherwise in several. */
int strata_shim_write(int fd, uint64_t at, const unsigned char *header, uint64_t header_bytes,
		      const unsigned char *body, uint64_t body_bytes)
{
	struct iovec part[2] = { { (void *)header, (size_t)header_bytes },
				 { (void *)body, (size_t)body_bytes } };
	ssize_t n;
	int i;

	while (part[0].iov_len || part[1].iov_len) {
		n = pwritev(fd, part, 2, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		at += (uint64_t)n;
		for (i = 0; i < 2; i++) {
			size_t taken = (size_t)n < part[i].iov_len ? (size_t)n : part[i].iov_len;

			part[i].iov_base = (char *)part[i].iov_base + taken;
			part[i].iov_len -= taken;
			n -= (ssize_t)taken;
		}
	}
	return 0;
}
