/* SPDX-License-Identifier: MIT */
/*
 * header.h - record header formats for clients that have none of their own.
 *
 *   none      0 bytes. Fixed-size records of a driver; no time, no iterator.
 *   fixed     0 bytes, one payload size: defined with STRATA_RING_HEADER_FIXED(), has an iterator.
 *   sized    16 bytes: u32 payload bytes, u32 id, u64 timestamp. Describes itself.
 *   compact   4 bytes: 5 bits id, 27 bits timestamp; or 13: 5 bits of 31, u32 id, u64 timestamp.
 *   large     6 bytes: u16 id, u32 timestamp; or 14: u16 65535, u32 id, u64 timestamp.
 *
 * The last two are CTF 1.8's, with byte alignment; bit fields begin at the least significant bit on a
 * little-endian machine and at the most significant one on a big-endian machine. Only the trace's
 * metadata know their records' lengths, so they have no .parse.
 */
#ifndef STRATA_RING_HEADER_H
#define STRATA_RING_HEADER_H

#include <strata/ring/config.h>

#define STRATA_RING_HEADER_NONE                 \
	{                                       \
		0, NULL, NULL, NULL, NULL, 0, 0 \
	}

/* The first bytes of memory are the low half of a word on one kind of machine, the high on the other. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define STRATA_RING_WORD32(first, second) ((uint64_t)(first) << 32 | (second))
#else
#define STRATA_RING_WORD32(first, second) ((uint64_t)(second) << 32 | (first))
#endif

/* ---- sized ---- */

#define STRATA_RING_SIZED_BYTES	  16u
#define STRATA_RING_SIZED_PADDING UINT32_MAX /* id of a cancelled slot */

STRATA_CALLBACK uint32_t strata_ring_sized_bytes(uint32_t id, int full)
{
	(void)id;
	(void)full;
	return STRATA_RING_SIZED_BYTES;
}

STRATA_CALLBACK struct strata_ring_header_bytes
strata_ring_sized_make(uint32_t id, uint32_t payload_bytes, uint64_t timestamp, int full)
{
	struct strata_ring_header_bytes h = { STRATA_RING_WORD32(payload_bytes, id), timestamp };

	(void)full;
	return h;
}

STRATA_CALLBACK struct strata_ring_header_bytes strata_ring_sized_pad(uint32_t slot_bytes,
								      uint64_t timestamp)
{
	return strata_ring_sized_make(STRATA_RING_SIZED_PADDING,
				      slot_bytes - STRATA_RING_SIZED_BYTES, timestamp, 0);
}

STRATA_FUNC int strata_ring_sized_parse(const unsigned char *src, uint64_t available,
					struct strata_ring_parsed *out)
{
	if (available < STRATA_RING_SIZED_BYTES)
		return -EPROTO;
	__builtin_memcpy(&out->payload_bytes, src, 4);
	__builtin_memcpy(&out->id, src + 4, 4);
	__builtin_memcpy(&out->timestamp, src + 8, 8);
	out->header_bytes = STRATA_RING_SIZED_BYTES;
	out->padding = out->id == STRATA_RING_SIZED_PADDING;
	return out->payload_bytes > available - STRATA_RING_SIZED_BYTES ? -EPROTO : 0;
}

#define STRATA_RING_HEADER_SIZED                                                            \
	{                                                                                   \
		64, strata_ring_sized_bytes, strata_ring_sized_make, strata_ring_sized_pad, \
			strata_ring_sized_parse, 0, 0                                       \
	}

/* ---- compact (CTF) ---- */

#define STRATA_RING_COMPACT_EXTENDED 31u

STRATA_CALLBACK uint32_t strata_ring_compact_bytes(uint32_t id, int full)
{
	return id < STRATA_RING_COMPACT_EXTENDED && !full ? 4 : 13;
}

STRATA_SLOW_HEADER struct strata_ring_header_bytes strata_ring_compact_extended(uint32_t id,
										uint64_t timestamp)
{
	unsigned char bytes[STRATA_RING_HEADER_MAX] = { 0 };
	struct strata_ring_header_bytes h;

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	bytes[0] = STRATA_RING_COMPACT_EXTENDED << 3;
#else
	bytes[0] = STRATA_RING_COMPACT_EXTENDED;
#endif
	__builtin_memcpy(bytes + 1, &id, 4);
	__builtin_memcpy(bytes + 5, &timestamp, 8);
	__builtin_memcpy(&h, bytes, sizeof(h));
	return h;
}

STRATA_CALLBACK struct strata_ring_header_bytes
strata_ring_compact_make(uint32_t id, uint32_t payload_bytes, uint64_t timestamp, int full)
{
	struct strata_ring_header_bytes h = { 0, 0 };
	uint32_t low = (uint32_t)timestamp;

	(void)payload_bytes;
	if (id >= STRATA_RING_COMPACT_EXTENDED || full)
		return strata_ring_compact_extended(id, timestamp);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	h.first = STRATA_RING_WORD32(id << 27 | (low & 0x7ffffff), 0u);
#else
	h.first = STRATA_RING_WORD32(id | low << 5, 0u);
#endif
	return h;
}

#define STRATA_RING_HEADER_COMPACT                                                      \
	{                                                                               \
		27, strata_ring_compact_bytes, strata_ring_compact_make, NULL, NULL, 4, \
			STRATA_RING_COMPACT_EXTENDED                                    \
	}

/* ---- large (CTF) ---- */

#define STRATA_RING_LARGE_EXTENDED 65535u

STRATA_CALLBACK uint32_t strata_ring_large_bytes(uint32_t id, int full)
{
	return id < STRATA_RING_LARGE_EXTENDED && !full ? 6 : 14;
}

STRATA_SLOW_HEADER struct strata_ring_header_bytes strata_ring_large_extended(uint32_t id,
									      uint64_t timestamp)
{
	unsigned char bytes[STRATA_RING_HEADER_MAX] = { 0xff, 0xff };
	struct strata_ring_header_bytes h;

	__builtin_memcpy(bytes + 2, &id, 4);
	__builtin_memcpy(bytes + 6, &timestamp, 8);
	__builtin_memcpy(&h, bytes, sizeof(h));
	return h;
}

STRATA_CALLBACK struct strata_ring_header_bytes
strata_ring_large_make(uint32_t id, uint32_t payload_bytes, uint64_t timestamp, int full)
{
	struct strata_ring_header_bytes h = { 0, 0 };
	uint32_t low = (uint32_t)timestamp;

	(void)payload_bytes;
	if (id >= STRATA_RING_LARGE_EXTENDED || full)
		return strata_ring_large_extended(id, timestamp);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	h.first = (uint64_t)id << 48 | (uint64_t)low << 16;
#else
	h.first = id | (uint64_t)low << 16;
#endif
	return h;
}

#define STRATA_RING_HEADER_LARGE                                                    \
	{                                                                           \
		32, strata_ring_large_bytes, strata_ring_large_make, NULL, NULL, 6, \
			STRATA_RING_LARGE_EXTENDED                                  \
	}

/* ---- fixed: define NAME_parse for records of SIZE bytes and no header ---- */

#define STRATA_RING_HEADER_FIXED(name, size)                                       \
	STRATA_FUNC int name##_parse(const unsigned char *src, uint64_t available, \
				     struct strata_ring_parsed *out)               \
	{                                                                          \
		(void)src;                                                         \
		out->id = 0;                                                       \
		out->header_bytes = 0;                                             \
		out->payload_bytes = (size);                                       \
		out->padding = 0;                                                  \
		return available < (size) ? -EPROTO : 0;                           \
	}

#endif /* STRATA_RING_HEADER_H */
