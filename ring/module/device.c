// SPDX-License-Identifier: MIT
/*
 * device.c - the ring in a kernel module: one channel for each loss mode, as a device that a reader maps.
 *
 *   /dev/strata-ring-discard, /dev/strata-ring-overwrite     mode 0600, and CAP_SYS_ADMIN to open
 *
 *   mmap(stride bytes, shared, at cpu * stride)   the stream of a CPU, as strata-ring reads it
 *   ioctl(STRATA_RING_MODULE_BARRIER, cpu)        a full barrier on that CPU, by an interrupt: in front of each packet
 *   read()                                        sizes, what was tried on each CPU, costs: lines of names and numbers
 *   write()                                       one command:
 *     load N       write N records in this thread; every 16th is interrupted while its slot is reserved
 *     timer US     a record on each CPU each US microseconds, from 50 on, in an interrupt; 0: no more
 *     events 0|1   a record for each sched_switch
 *     flush CPU    deliver what that CPU is filling
 *     bench N      measure: see bench.c
 *
 * A reader has the producers' words mapped, too, and can make its records nonsense. No address follows from such a
 * word without being bounded, and no loop of a producer waits for one.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>

#include "module.h"

#define STRATA_RING_MODULE_BARRIER _IO('S', 1)

static unsigned int subbuf_bytes = 16384;
module_param(subbuf_bytes, uint, 0444);
MODULE_PARM_DESC(subbuf_bytes, "size of a sub-buffer, a power of two");
static unsigned int nr_subbufs = 8;
module_param(nr_subbufs, uint, 0444);
MODULE_PARM_DESC(nr_subbufs, "sub-buffers of each CPU, a power of two");

/* Ids of the event record classes. */
enum {
	OF_THREAD = 1,
	OF_TIMER = 2,
	OF_NESTED = 3,
	OF_SWITCH = 4,
};

/* The payload of all records. @check follows from all else, the record's time included. */
struct payload {
	u64 sequence; /* of its CPU: 0, 1, 2, ... of all that was tried */
	u64 value;
	u64 check;
};

struct of_cpu {
	u64 tried; /* local operations */
	u64 nested;
	struct irq_work work;
	struct hrtimer timer;
	struct ring_device *device;
};

struct ring_device {
	struct miscdevice misc;
	bool overwrite;
	union {
		struct module_discard discard;
		struct module_overwrite newest;
		struct strata_ring_channel channel; /* the first member of both */
	};
	struct of_cpu __percpu *cpus;
	struct mutex commands;
	u64 period_ns;
	bool events;
	struct module_cost costs[MODULE_COSTS];
};

/* ---- records ---- */

static u64 check_of(const struct payload *p, u32 id, u64 timestamp)
{
	return (p->sequence * 0x9e3779b97f4a7c15ull) ^
	       ((p->value + timestamp) * 0xff51afd7ed558ccdull) ^ id;
}

/* Raise an interrupt on this CPU, and see it come, while a slot is reserved. */
static void interrupt_me(struct of_cpu *c)
{
	u64 before = READ_ONCE(c->nested);
	u32 i;

	if (irqs_disabled() || !irq_work_queue(&c->work))
		return;
	for (i = 0; i < 1000000 && READ_ONCE(c->nested) == before; i++)
		cpu_relax();
}

#define PUT(name)                                                                                  \
	static __always_inline int name##_put(const struct name *ring, u32 id,                     \
					      struct payload *payload, struct of_cpu *inter)       \
	{                                                                                          \
		const struct strata_ring_event event = { id, sizeof(*payload), 1 };                \
		struct name##_slot slot;                                                           \
		int error = name##_reserve(ring, &event, &slot);                                   \
                                                                                                   \
		if (error)                                                                         \
			return error;                                                              \
		payload->check = check_of(payload, id, slot.slot.timestamp);                       \
		name##_write(&slot, payload, sizeof(*payload) / 2);                                \
		if (inter)                                                                         \
			interrupt_me(inter);                                                       \
		name##_write(&slot, (char *)payload + sizeof(*payload) / 2, sizeof(*payload) / 2); \
		name##_commit(&slot);                                                              \
		return 0;                                                                          \
	}
PUT(module_discard)
PUT(module_overwrite)

static notrace void put(struct ring_device *d, u32 id, u64 value, bool interrupted)
{
	struct payload payload = { .value = value };
	struct of_cpu *c;

	preempt_disable_notrace();
	c = this_cpu_ptr(d->cpus);
	payload.sequence = strata_local_add(&c->tried, 1);
	if (d->overwrite)
		module_overwrite_put(&d->newest, id, &payload, interrupted ? c : NULL);
	else
		module_discard_put(&d->discard, id, &payload, interrupted ? c : NULL);
	preempt_enable_notrace();
}

static void on_irq_work(struct irq_work *work)
{
	struct of_cpu *c = container_of(work, struct of_cpu, work);

	put(c->device, OF_NESTED, c->nested, false);
	WRITE_ONCE(c->nested, c->nested + 1);
}

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	struct of_cpu *c = container_of(timer, struct of_cpu, timer);

	put(c->device, OF_TIMER, 0, false);
	hrtimer_forward_now(timer, ns_to_ktime(c->device->period_ns));
	return HRTIMER_RESTART;
}

static void on_switch(void *data, bool preempt, struct task_struct *prev, struct task_struct *next,
		      unsigned int prev_state)
{
	put(data, OF_SWITCH, (u64)next->pid, false);
}

/* ---- sources ---- */

static void start_timer(void *data)
{
	struct ring_device *d = data;

	hrtimer_start(&this_cpu_ptr(d->cpus)->timer, ns_to_ktime(d->period_ns),
		      HRTIMER_MODE_REL_PINNED_HARD);
}

static int set_timer(struct ring_device *d, unsigned int period_us)
{
	int cpu;

	if (period_us && (period_us < 50 || period_us > 1000000))
		return -EINVAL;
	for_each_possible_cpu(cpu) hrtimer_cancel(&per_cpu_ptr(d->cpus, cpu)->timer);
	d->period_ns = (u64)period_us * 1000;
	if (period_us)
		on_each_cpu(start_timer, d, 1);
	return 0;
}

static struct tracepoint *sched_switch;

static void find_tracepoint(struct tracepoint *tp, void *data)
{
	if (!strcmp(tp->name, "sched_switch"))
		sched_switch = tp;
}

static int set_events(struct ring_device *d, unsigned int on)
{
	int error;

	if (on > 1)
		return -EINVAL;
	if (d->events == on)
		return 0;
	if (!sched_switch)
		return -ENOENT;
	error = on ? tracepoint_probe_register(sched_switch, on_switch, d) :
		     tracepoint_probe_unregister(sched_switch, on_switch, d);
	if (!error)
		d->events = on;
	return error;
}

static int load(struct ring_device *d, unsigned int records)
{
	unsigned int i;

	for (i = 0; i < records; i++) {
		put(d, OF_THREAD, i, i % 16 == 15);
		if (i % 1024 == 1023) {
			if (signal_pending(current))
				return -EINTR;
			cond_resched();
		}
	}
	return 0;
}

/* ---- the reader's ---- */

static void flush_here(void *data)
{
	struct ring_device *d = data;

	if (d->overwrite)
		module_overwrite_flush(&d->newest);
	else
		module_discard_flush(&d->discard);
}

static void barrier_here(void *data)
{
	smp_mb();
}

static struct ring_device *device_of(struct file *file)
{
	return ((struct seq_file *)file->private_data)->private;
}

/*
 * Follows lines 3 to 5 of the lockless algorithm 6. A CPU that is offline, or goes offline meanwhile, has a barrier on
 * its way there.
 */
static long module_ioctl(struct file *file, unsigned int command, unsigned long cpu)
{
	struct ring_device *d = device_of(file);

	if (command != STRATA_RING_MODULE_BARRIER)
		return -ENOTTY;
	if (cpu >= d->channel.header.nr_streams)
		return -EINVAL;
	smp_mb();
	if (cpu_online(cpu))
		smp_call_function_single(cpu, barrier_here, NULL, 1);
	smp_mb();
	return 0;
}

/* Maps one whole stream at a time: the memory before and after it belongs to other CPUs. */
static int module_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct ring_device *d = device_of(file);
	const struct strata_abi_ring_channel *h = &d->channel.header;
	unsigned long pages = h->stream_stride >> PAGE_SHIFT;

	BUILD_BUG_ON(PAGE_SIZE != STRATA_ABI_RING_PAGE);
	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC)
		return -EINVAL;
	if (vma->vm_pgoff % pages || vma->vm_pgoff / pages >= h->nr_streams ||
	    vma_pages(vma) != pages)
		return -EINVAL;
	return remap_vmalloc_range(vma, d->channel.memory, vma->vm_pgoff + 1);
}

static int show(struct seq_file *m, void *unused)
{
	struct ring_device *d = m->private;
	const struct strata_abi_ring_channel *h = &d->channel.header;
	int cpu, i;

	seq_printf(m,
		   "overwrite %d\nsubbuf_bytes %llu\nnr_subbufs %u\nnr_streams %u\nstride %llu\n",
		   d->overwrite, h->subbuf_bytes, h->nr_subbufs, h->nr_streams, h->stream_stride);
	for_each_possible_cpu(cpu) seq_printf(m, "tried %d %llu\nnested %d %llu\n", cpu,
					      READ_ONCE(per_cpu_ptr(d->cpus, cpu)->tried), cpu,
					      READ_ONCE(per_cpu_ptr(d->cpus, cpu)->nested));
	mutex_lock(&d->commands);
	for (i = 0; i < MODULE_COSTS && d->costs[i].what; i++)
		seq_printf(m, "cost %s %llu %u %u\n", d->costs[i].what, d->costs[i].ticks,
			   d->costs[i].records, d->costs[i].discarded);
	mutex_unlock(&d->commands);
	return 0;
}

static int module_open(struct inode *inode, struct file *file)
{
	struct ring_device *d = container_of(file->private_data, struct ring_device, misc);

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	/* private_data is the seq_file from here on: device_of() relies on it. */
	file->private_data = NULL;
	return single_open(file, show, d);
}

static int command(struct ring_device *d, const char *text)
{
	unsigned int n;
	char rest;

	if (sscanf(text, "load %u%c", &n, &rest) == 1)
		return load(d, n);
	if (sscanf(text, "timer %u%c", &n, &rest) == 1)
		return set_timer(d, n);
	if (sscanf(text, "events %u%c", &n, &rest) == 1)
		return set_events(d, n);
	if (sscanf(text, "bench %u%c", &n, &rest) == 1)
		return module_bench(n, d->costs);
	if (sscanf(text, "flush %u%c", &n, &rest) == 1)
		return n < d->channel.header.nr_streams ?
			       smp_call_function_single(n, flush_here, d, 1) :
			       -EINVAL;
	return -EINVAL;
}

static ssize_t module_write(struct file *file, const char __user *from, size_t n, loff_t *at)
{
	struct ring_device *d = device_of(file);
	char text[32];
	int error;

	if (!n || n >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, n))
		return -EFAULT;
	text[n - (text[n - 1] == '\n')] = 0;
	text[n] = 0;
	/* Several threads write records at the same time. */
	if (!strncmp(text, "load ", 5)) {
		error = command(d, text);
	} else {
		mutex_lock(&d->commands);
		error = command(d, text);
		mutex_unlock(&d->commands);
	}
	return error ? error : (ssize_t)n;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = module_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.write = module_write,
	.mmap = module_mmap,
	.unlocked_ioctl = module_ioctl,
	.release = single_release,
};

/* ---- begin and end ---- */

static struct ring_device devices[] = {
	{ .misc = { .minor = MISC_DYNAMIC_MINOR,
		    .name = "strata-ring-discard",
		    .fops = &operations,
		    .mode = 0600 } },
	{ .misc = { .minor = MISC_DYNAMIC_MINOR,
		    .name = "strata-ring-overwrite",
		    .fops = &operations,
		    .mode = 0600 },
	  .overwrite = true },
};

/* Frees a ring whose misc device is gone: nobody has it open or mapped. */
static void take_down(struct ring_device *d)
{
	int cpu;

	if (d->cpus) {
		set_events(d, 0);
		tracepoint_synchronize_unregister();
		set_timer(d, 0);
		for_each_possible_cpu(cpu) irq_work_sync(&per_cpu_ptr(d->cpus, cpu)->work);
	}
	free_percpu(d->cpus);
	if (d->channel.memory)
		strata_ring_channel_close(&d->channel);
}

static int set_up(struct ring_device *d)
{
	const struct strata_ring_attr attr = { .subbuf_bytes = subbuf_bytes,
					       .nr_subbufs = nr_subbufs };
	struct strata_ring_error said = { "" };
	struct of_cpu *c;
	int cpu, error;

	mutex_init(&d->commands);
	error = d->overwrite ? module_overwrite_create(&d->newest, &attr, &said) :
			       module_discard_create(&d->discard, &attr, &said);
	if (error) {
		pr_err("strata_ring: %s\n", said.text);
		return error;
	}
	d->cpus = alloc_percpu(struct of_cpu);
	if (!d->cpus)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
	{
		c = per_cpu_ptr(d->cpus, cpu);
		c->device = d;
		init_irq_work(&c->work, on_irq_work);
		hrtimer_init(&c->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
		c->timer.function = on_timer;
	}
	return misc_register(&d->misc);
}

static void __exit module_end(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(devices); i++) {
		misc_deregister(&devices[i].misc);
		take_down(&devices[i]);
	}
}

static int __init module_begin(void)
{
	unsigned int i;
	int error;

	for_each_kernel_tracepoint(find_tracepoint, NULL);
	for (i = 0; i < ARRAY_SIZE(devices); i++) {
		error = set_up(&devices[i]);
		if (error)
			break;
	}
	if (i == ARRAY_SIZE(devices))
		return 0;
	take_down(&devices[i]);
	while (i--) {
		misc_deregister(&devices[i].misc);
		take_down(&devices[i]);
	}
	return error;
}

module_init(module_begin);
module_exit(module_end);
/* The headers are MIT's; what exports the kernel's ring buffer and tracepoints wants this said. */
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("The ring buffer library of Strata in a kernel module");
