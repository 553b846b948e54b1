/* SPDX-License-Identifier: MIT */
/* other.cpp - the second translation unit. */
#include "record.hpp"

int record_from_other_unit(const strata_ring_channel &channel, int n)
{
	return record<long long>(channel, n) | record<char>(channel, static_cast<char>(n));
}
