/* SPDX-License-Identifier: MIT */
/*
 * sample.bpf.c - samples of what a CPU does, taken by a timer: the interrupted instruction and its call stack.
 *
 * A program of type perf_event, attached to each CPU's timer. The stacks begin where the timer has interrupted: those of
 * context.bpf.h would begin with the tracer's own frames. They are read before the record is reserved, into a place of the
 * CPU: the timer does not interrupt itself.
 */
#include "maps.bpf.h"

#define SAMPLE_STACK_BYTES (STRATA_ABI_KERNEL_STACK_FRAMES * 8u)

/* The layout of a stack in a record: u32 n, then n addresses of 64 bits. */
struct sample_stack {
	uint64_t bytes; /* of the addresses */
	uint64_t address[STRATA_ABI_KERNEL_STACK_FRAMES];
};

struct sample_place {
	uint64_t last; /* when the timer came last [ns] */
	struct sample_stack stack[2];
};

/* Memory for the stacks of a sample, one for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct sample_place);
} samples SEC(".maps");

STRATA_INLINE struct sample_place *sample_place(void)
{
	uint32_t key = 0;

	return (struct sample_place *)bpf_map_lookup_elem(&samples, &key);
}

/* Copies the addresses of a stack that read_stack() has read. Returns their size [byte]. */
STRATA_INLINE long sample_stack(void *to, uint64_t flags)
{
	struct sample_place *place = sample_place();
	struct sample_stack *stack;
	uint64_t n;

	if (!place)
		return 0;
	stack = &place->stack[flags == BPF_F_USER_STACK];
	n = stack->bytes;
	if (n > SAMPLE_STACK_BYTES)
		return 0;
	bpf_probe_read_kernel(to, (uint32_t)n, stack->address);
	return (long)n;
}

#define STRATA_CONTEXT_WALK(to, flags) sample_stack(to, flags)
#include "record.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Layout of struct bpf_perf_event_data, whose registers have other names in the kernel's own headers. */
struct sample_context {
	uint64_t before[STRATA_ARCH_SAMPLE_BEFORE];
	uint64_t ip;
	uint64_t behind[STRATA_ARCH_SAMPLE_BEHIND];
	uint64_t period;
	uint64_t address;
};

struct sample_payload {
	uint64_t ip;
	uint64_t period;
	uint64_t unasked;
	uint32_t pid;
};

/* All that its records have. */
#define CONTEXTS (event.contexts | event.contexts >> STRATA_ABI_KERNEL_CONTEXT_OWN)

/* The payload's size without the padding that the compiler adds behind its last member. */
#define SAMPLE_PAYLOAD_BYTES 28u

STRATA_INLINE void read_stack(struct sample_context *context, struct sample_stack *stack,
			      uint64_t flags)
{
	long n = bpf_get_stack(context, stack->address, SAMPLE_STACK_BYTES, flags);

	stack->bytes = n < 0 ? 0 : (uint64_t)n;
}

/* Returns the size of a stack's addresses, with bounds that the verifier knows. */
STRATA_INLINE uint32_t stack_bytes(const struct sample_stack *stack)
{
	uint64_t n = *(const volatile uint64_t *)&stack->bytes;

	return n > SAMPLE_STACK_BYTES ? 0 : (uint32_t)n & ~7u;
}

/* Writes a call stack at @at, and returns where the next context begins. */
STRATA_INLINE uint32_t write_stack(unsigned char *to, uint32_t at, const struct sample_stack *stack,
				   uint32_t n)
{
	if (at > SAMPLE_PAYLOAD_BYTES + 4 + SAMPLE_STACK_BYTES || n > SAMPLE_STACK_BYTES)
		return at;
	*(volatile uint32_t *)(void *)(to + at) = n / 8;
	bpf_probe_read_kernel(to + at + 4, n, stack->address);
	return at + 4 + n;
}

/* Returns how often the timer did not come since the last sample, though it should have. */
STRATA_INLINE uint64_t unasked(struct sample_place *place, uint64_t period)
{
	uint64_t now = bpf_ktime_get_ns(), last = place->last, periods;

	place->last = now;
	if (!last || !period)
		return 0;
	periods = (now - last + period / 2) / period;
	return periods ? periods - 1 : 0;
}

SEC("perf_event")
int strata_sample(struct sample_context *context)
{
	struct sample_place *place = sample_place();
	struct sample_payload payload;
	struct strata_source source;
	struct strata_record r;
	uint32_t kernel = 0, user = 0, bytes = SAMPLE_PAYLOAD_BYTES, at = SAMPLE_PAYLOAD_BYTES;
	unsigned char *to;

	if (!place)
		return 0;
	payload.period = context->period;
	payload.unasked = unasked(place, payload.period);
	/* A sample of the idle task is not recorded. */
	if (!strata_source_begin(&source) || !(uint32_t)source.pid_tgid)
		return 0;
	payload.ip = context->ip;
	payload.pid = (uint32_t)(source.pid_tgid >> 32);
	source.base = &payload;
	source.kind = STRATA_SOURCE_DIRECT;
	if (!strata_passes(&source, 0))
		return 0;
	read_stack(context, &place->stack[0], 0);
	read_stack(context, &place->stack[1], BPF_F_USER_STACK);
	/* A stack that is among the contexts is not repeated in the payload. */
	if (!STRATA_HAS_CONTEXT(CONTEXTS, STACK)) {
		kernel = stack_bytes(&place->stack[0]);
		bytes += 4 + kernel;
	}
	if (!STRATA_HAS_CONTEXT(CONTEXTS, USER_STACK)) {
		user = stack_bytes(&place->stack[1]);
		bytes += 4 + user;
	}
	to = strata_record_begin(&r, event.id, source.pid_tgid, bytes);
	if (!to)
		return 0;
	bpf_probe_read_kernel(to, SAMPLE_PAYLOAD_BYTES, &payload);
	if (!STRATA_HAS_CONTEXT(CONTEXTS, STACK))
		at = write_stack(to, at, &place->stack[0], kernel);
	if (!STRATA_HAS_CONTEXT(CONTEXTS, USER_STACK))
		write_stack(to, at, &place->stack[1], user);
	strata_record_end(&r);
	return 0;
}
