// SPDX-License-Identifier: MIT
/*
 * bench.c - compare the cost of a record of 8 bytes in the ring and in the kernel's own ring
 * buffer: by the same clock, on the same CPU, one after the other; in a thread, and in an interrupt
 * of a thread that has a slot reserved.
 *
 * In discard mode all records fit. Ticks are the CPU's counter: who emulates one says what they are.
 */
#include <linux/irq_work.h>
#include <linux/ring_buffer.h>
#include <linux/timex.h>

#include "module.h"

enum {
	BENCH_SUBBUF = 256 << 10,
	BENCH_SUBBUFS = 16,
	BENCH_BYTES = BENCH_SUBBUF * BENCH_SUBBUFS,
	BENCH_SMALL = 64, /* times smaller in overwrite mode, so that it is lapped */
};

/* One way to write records: a loop of records, and a record around the work of an interrupt. */
struct bench_way {
	const char *what, *nested;
	int overwrite;
	void *(*create)(int small);
	void (*destroy)(void *buffer);
	u32 (*loop)(void *buffer, u32 records);
	int (*around)(void *buffer, void (*inside)(void *), void *data);
};

#define BENCH_RING(name)                                                                 \
	static void *name##_bench_create(int small)                                      \
	{                                                                                \
		const struct strata_ring_attr attr = {                                   \
			.subbuf_bytes = BENCH_SUBBUF / (small ? BENCH_SMALL : 1),        \
			.nr_subbufs = BENCH_SUBBUFS,                                     \
		};                                                                       \
		struct name *ring = kzalloc(sizeof(*ring), GFP_KERNEL);                  \
                                                                                         \
		if (ring && name##_create(ring, &attr, NULL)) {                          \
			kfree(ring);                                                     \
			ring = NULL;                                                     \
		}                                                                        \
		return ring;                                                             \
	}                                                                                \
	static void name##_bench_destroy(void *buffer)                                   \
	{                                                                                \
		name##_close(buffer);                                                    \
		kfree(buffer);                                                           \
	}                                                                                \
	static u32 name##_bench_loop(void *buffer, u32 records)                          \
	{                                                                                \
		const struct name *ring = buffer;                                        \
		u32 discarded = 0;                                                       \
		u64 i;                                                                   \
                                                                                         \
		for (i = 0; i < records; i++) {                                          \
			preempt_disable_notrace();                                       \
			discarded += name##_record(ring, 1, &i, sizeof(i)) != 0;         \
			preempt_enable_notrace();                                        \
		}                                                                        \
		return discarded;                                                        \
	}                                                                                \
	static int name##_bench_around(void *buffer, void (*inside)(void *), void *data) \
	{                                                                                \
		const struct strata_ring_event event = { 1, 8, 0 };                      \
		const u64 value = ~0ull;                                                 \
		struct name##_slot slot;                                                 \
		int error;                                                               \
                                                                                         \
		preempt_disable();                                                       \
		error = name##_reserve(buffer, &event, &slot);                           \
		if (!error) {                                                            \
			inside(data);                                                    \
			name##_write(&slot, &value, sizeof(value));                      \
			name##_commit(&slot);                                            \
		}                                                                        \
		preempt_enable();                                                        \
		return error;                                                            \
	}
BENCH_RING(module_discard)
BENCH_RING(module_overwrite)

static void *kernel_create(int small)
{
	return ring_buffer_alloc(small ? BENCH_BYTES / BENCH_SMALL : BENCH_BYTES, 0);
}

static void *kernel_create_overwrite(int small)
{
	return ring_buffer_alloc(small ? BENCH_BYTES / BENCH_SMALL : BENCH_BYTES, RB_FL_OVERWRITE);
}

static void kernel_destroy(void *buffer)
{
	ring_buffer_free(buffer);
}

static u32 kernel_loop(void *buffer, u32 records)
{
	struct ring_buffer_event *event;
	u32 discarded = 0;
	u64 i;

	for (i = 0; i < records; i++) {
		event = ring_buffer_lock_reserve(buffer, sizeof(i));
		if (!event) {
			discarded++;
			continue;
		}
		memcpy(ring_buffer_event_data(event), &i, sizeof(i));
		ring_buffer_unlock_commit(buffer, event);
	}
	return discarded;
}

static int kernel_around(void *buffer, void (*inside)(void *), void *data)
{
	struct ring_buffer_event *event = ring_buffer_lock_reserve(buffer, sizeof(u64));
	const u64 value = ~0ull;

	if (!event)
		return -ENOBUFS;
	inside(data);
	memcpy(ring_buffer_event_data(event), &value, sizeof(value));
	ring_buffer_unlock_commit(buffer, event);
	return 0;
}

static const struct bench_way ways[] = {
	{ "ring discard thread", "ring discard interrupt", 0, module_discard_bench_create,
	  module_discard_bench_destroy, module_discard_bench_loop, module_discard_bench_around },
	{ "kernel discard thread", "kernel discard interrupt", 0, kernel_create, kernel_destroy,
	  kernel_loop, kernel_around },
	{ "ring overwrite thread", "ring overwrite interrupt", 1, module_overwrite_bench_create,
	  module_overwrite_bench_destroy, module_overwrite_bench_loop,
	  module_overwrite_bench_around },
	{ "kernel overwrite thread", "kernel overwrite interrupt", 1, kernel_create_overwrite,
	  kernel_destroy, kernel_loop, kernel_around },
};

/* ---- in an interrupt ---- */

struct bench_work {
	struct irq_work work;
	const struct bench_way *way;
	void *buffer;
	struct module_cost *cost;
	int done;
};

static void measure(const struct bench_way *way, void *buffer, struct module_cost *cost)
{
	u64 begin = get_cycles();

	cost->discarded = way->loop(buffer, cost->records);
	cost->ticks = get_cycles() - begin;
}

static void in_interrupt_now(struct irq_work *work)
{
	struct bench_work *w = container_of(work, struct bench_work, work);

	measure(w->way, w->buffer, w->cost);
	smp_store_release(&w->done, 1);
}

static void raise(void *data)
{
	struct bench_work *w = data;

	irq_work_queue(&w->work);
	while (!smp_load_acquire(&w->done))
		cpu_relax();
}

int module_bench(u32 records, struct module_cost costs[MODULE_COSTS])
{
	struct bench_work work;
	const struct bench_way *way;
	unsigned int i;
	void *buffer;
	int error;

	BUILD_BUG_ON(2 * ARRAY_SIZE(ways) != MODULE_COSTS);
	/* Limits the number to what fits in discard mode: 12 bytes each, and the kernel's own bytes in its pages. */
	if (!records || records > BENCH_BYTES / 16)
		return -EINVAL;
	for (i = 0; i < MODULE_COSTS; i++) {
		way = &ways[i / 2];
		costs[i] = (struct module_cost){ i % 2 ? way->nested : way->what, 0, records, 0 };
		/*
		 * A record written by an interrupt must not wrap around to the slot that it
		 * interrupts.
		 */
		buffer = way->create(way->overwrite && !(i % 2));
		if (!buffer)
			return -ENOMEM;
		error = 0;
		if (i % 2) {
			work = (struct bench_work){ .way = way,
						    .buffer = buffer,
						    .cost = &costs[i] };
			init_irq_work(&work.work, in_interrupt_now);
			error = way->around(buffer, raise, &work);
			irq_work_sync(&work.work);
		} else {
			measure(way, buffer, &costs[i]);
		}
		way->destroy(buffer);
		if (error)
			return error;
		cond_resched();
	}
	return 0;
}
