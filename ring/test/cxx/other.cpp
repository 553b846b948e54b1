/* SPDX-License-Identifier: MIT */
/* other.cpp - the second translation unit. */
#include "record.hpp"

int record_from_other_unit(const test_ring &ring, int n)
{
	return record<long long>(ring, n) | record<char>(ring, static_cast<char>(n));
}
