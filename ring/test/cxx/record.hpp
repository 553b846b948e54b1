/* SPDX-License-Identifier: MIT */
/* record.hpp - an inline function template that records: the linker keeps one copy of it, of many. */
#ifndef STRATA_RING_TEST_RECORD_HPP
#define STRATA_RING_TEST_RECORD_HPP

#include <strata/ring/client.h>

STRATA_RING_CLIENT(test_ring, STRATA_RING_DISCARD, STRATA_RING_WRITERS_RSEQ, STRATA_RING_PER_CPU,
		   STRATA_RING_WAKE_BY_WRITER, 8, strata_clock_monotonic_ns,
		   STRATA_RING_HEADER_SIZED, NULL);

template <typename T> __attribute__((noinline)) int record(const test_ring &ring, T value)
{
	return test_ring_record(&ring, static_cast<uint32_t>(sizeof(T)), &value, sizeof(T));
}

int record_from_other_unit(const test_ring &ring, int n);

#endif /* STRATA_RING_TEST_RECORD_HPP */
