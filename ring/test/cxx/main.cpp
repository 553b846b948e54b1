/* SPDX-License-Identifier: MIT */
/*
 * main.cpp - records from two translation units by the same template, and reads them back.
 *
 *   main [commit]   commit: not by write position, even where that is possible
 */
#include "record.hpp"

#include <cstdio>
#include <cstring>

int main(int argc, char **)
{
	const int rounds = 1000;
	strata_ring_attr attr = {};
	test_ring ring;
	strata_ring_error error;
	strata_ring_merge merge;
	const strata_ring_view *view;
	int n, records = 0, wrong = 0;

	attr.subbuf_bytes = 4096;
	attr.nr_subbufs = 64;
	attr.no_rseq = argc > 1;
	if (test_ring_create(&ring, &attr, &error)) {
		std::fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	for (n = 0; n < rounds; n++)
		if (record<long long>(ring, n) || record<char>(ring, static_cast<char>(n)) ||
		    record_from_other_unit(ring, n))
			wrong++;
	if (test_ring_merge_init(&merge, &ring, STRATA_RING_REST))
		return 1;
	for (; !strata_ring_merge_next(&merge, &view); records++) {
		const int expected = records / 4;
		long long value = 0;
		char byte;

		if (records % 2) {
			std::memcpy(&byte, view->payload, 1);
			wrong += view->head.payload_bytes != 1 ||
				 byte != static_cast<char>(expected);
		} else {
			std::memcpy(&value, view->payload, sizeof(value));
			wrong += view->head.payload_bytes != sizeof(value) || value != expected;
		}
	}
	strata_ring_merge_end(&merge);
	std::printf("%d records by %s, %d wrong\n", records,
		    ring.channel.header.publish == STRATA_ABI_RING_BY_POSITION ? "position" :
										 "commit",
		    wrong);
	test_ring_close(&ring);
	return wrong || records != 4 * rounds;
}
