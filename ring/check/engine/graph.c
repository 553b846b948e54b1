/* SPDX-License-Identifier: MIT */
/*
 * graph.c - the set of distinct execution graphs that a search has met, as 64-bit hashes.
 *
 * A graph is: for each thread its operations, what each of them read and its choices; for each
 * object the order of its messages; for each chain the order of its operations. A reduced search
 * must meet the same graphs as one without reduction.
 */
#include <stdlib.h>

#include "internal.h"

static uint64_t *table; /* open addressing; 0 = empty */
static uint64_t capacity, count;

static void insert(uint64_t hash);

static void grow(void)
{
	uint64_t *old = table, old_capacity = capacity;

	capacity = capacity ? capacity * 2 : 1 << 12;
	table = calloc(capacity, sizeof(*table));
	if (!table)
		abort();
	count = 0;
	for (uint64_t i = 0; i < old_capacity; i++)
		if (old[i])
			insert(old[i]);
	free(old);
}

static void insert(uint64_t hash)
{
	uint64_t i;

	if (count * 2 >= capacity)
		grow();
	for (i = hash & (capacity - 1); table[i] && table[i] != hash;)
		i = (i + 1) & (capacity - 1);
	if (!table[i])
		count++;
	table[i] = hash;
}

void graph_reset(void)
{
	free(table);
	table = NULL;
	capacity = count = 0;
}

void graph_add_current(void)
{
	uint64_t h = 1;

	for (unsigned i = 1; i <= mc.nr_threads; i++)
		h = hash_mix(h, mc.threads[i].hash);
	for (unsigned l = 0; l < mc.nr_locations; l++)
		for (int i = 0; i < mc.locations[l].count; i++) {
			const struct message *m = &mc.locations[l].messages[i];

			h = hash_mix(h, (uint64_t)l << 48 | (uint64_t)m->context << 32 |
						(uint64_t)(uint16_t)m->index << 8 | m->part);
		}
	for (unsigned c = 0; c < CHAINS; c++)
		h = hash_mix(h, mc.chains[c].hash);
	insert(h ? h : 1);
}

uint64_t graph_count(void)
{
	return count;
}

uint64_t graph_sum(void)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < capacity; i++)
		sum += table[i];
	return sum;
}
