/* SPDX-License-Identifier: MIT */
/*
 * kvm_machine.c - a machine of KVM, and what its hypervisor does for a recorder in it: hands its bytes on.
 *
 *   kvm_machine 0                     ends at once: whether KVM makes one
 *   kvm_machine CPUS                  waits until it is killed
 *   kvm_machine CPUS MS HOST GUEST    listens at these two unix sockets; what one of them says the other is told MS ms
 *                                     later; ends when one of them has gone
 *
 * Its virtual CPUs, each by a thread of its own, read their counter and halt. Of each it prints "CPU THREAD BEFORE COUNTER
 * BEHIND", the counter and that of the host before and behind it; then "ready". A machine's counter is the host's, if KVM
 * can have it so: who records beside it stands for a recorder in it.
 *
 * Exit status 77: KVM makes no machine, or none whose counter can be set.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define CPUS_MAX 16

static int kvm, vm;
static long run_bytes;
static pthread_barrier_t halted;
static struct {
	pthread_t thread;
	pid_t tid;
	int fd;
	uint64_t before, counter, behind;
} cpus[CPUS_MAX];

static void fail(const char *what)
{
	fprintf(stderr, "kvm_machine: %s: %s\n", what, strerror(errno));
	_exit(2);
}

/* rdtsc, hlt: where a CPU begins without a BIOS. */
static void *run(void *argument)
{
	uintptr_t at = (uintptr_t)argument;
	int fd = cpus[at].fd;
	int64_t offset = 0;
	struct kvm_device_attr attr = { .group = KVM_VCPU_TSC_CTRL,
					.attr = KVM_VCPU_TSC_OFFSET,
					.addr = (uintptr_t)&offset };
	struct kvm_regs regs = { .rflags = 2 };
	struct kvm_sregs sregs;
	struct kvm_run *state;

	state = mmap(NULL, run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ioctl(fd, KVM_SET_DEVICE_ATTR, &attr)) {
		fprintf(stderr, "kvm_machine: no counter that can be set: %s\n", strerror(errno));
		_exit(77);
	}
	if (state == MAP_FAILED || ioctl(fd, KVM_GET_SREGS, &sregs))
		fail("a virtual CPU");
	sregs.cs.base = sregs.cs.selector = 0;
	if (ioctl(fd, KVM_SET_SREGS, &sregs) || ioctl(fd, KVM_SET_REGS, &regs))
		fail("registers of a virtual CPU");
	cpus[at].tid = gettid();
	cpus[at].before = __rdtsc();
	if (ioctl(fd, KVM_RUN, 0))
		fail("running a virtual CPU");
	cpus[at].behind = __rdtsc();
	if (state->exit_reason != KVM_EXIT_HLT || ioctl(fd, KVM_GET_REGS, &regs)) {
		fprintf(stderr, "kvm_machine: exit reason %u\n", state->exit_reason);
		_exit(2);
	}
	cpus[at].counter = (regs.rdx << 32) | (uint32_t)regs.rax;
	pthread_barrier_wait(&halted);
	for (;;)
		pause();
}

static void make(uintptr_t nr)
{
	struct kvm_userspace_memory_region region = { .memory_size = 4096 };
	uint8_t *memory =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uintptr_t at;

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	vm = kvm < 0 ? -1 : ioctl(kvm, KVM_CREATE_VM, 0);
	if (vm < 0) {
		fprintf(stderr, "kvm_machine: no machine: %s\n", strerror(errno));
		exit(77);
	}
	if (memory == MAP_FAILED)
		fail("memory");
	memcpy(memory, "\x0f\x31\xf4", 3);
	region.userspace_addr = (uintptr_t)memory;
	/* Some processors need a place for what KVM keeps of theirs; others do not know of it. */
	ioctl(vm, KVM_SET_TSS_ADDR, 0xfffbd000UL);
	run_bytes = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (run_bytes < 0 || ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) ||
	    pthread_barrier_init(&halted, NULL, nr + 1))
		fail("the machine");
	/* All are there before the first one's counter is set. */
	for (at = 0; at < nr; at++) {
		cpus[at].fd = ioctl(vm, KVM_CREATE_VCPU, at);
		if (cpus[at].fd < 0)
			fail("a virtual CPU");
	}
	for (at = 0; at < nr; at++) {
		errno = pthread_create(&cpus[at].thread, NULL, run, (void *)at);
		if (errno)
			fail("a thread");
	}
	pthread_barrier_wait(&halted);
	for (at = 0; at < nr; at++)
		printf("%zu %d %llu %llu %llu\n", (size_t)at, cpus[at].tid,
		       (unsigned long long)cpus[at].before, (unsigned long long)cpus[at].counter,
		       (unsigned long long)cpus[at].behind);
}

static int listening(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1))
		fail(path);
	return fd;
}

/* Whether it has not gone. */
static int hand_on(int from, int to, const struct timespec *later)
{
	static char bytes[1 << 16];
	ssize_t got = read(from, bytes, sizeof(bytes)), at = 0, put;

	nanosleep(later, NULL);
	for (; at < got; at += put) {
		put = write(to, bytes + at, got - at);
		if (put <= 0)
			return 0;
	}
	return got > 0;
}

int main(int argc, char **argv)
{
	unsigned long nr = argc > 1 ? strtoul(argv[1], NULL, 10) : 0,
		      ms = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	struct timespec later = { ms / 1000, ms % 1000 * 1000000 };
	struct pollfd ends[2] = { { .events = POLLIN }, { .events = POLLIN } };
	int which;

	if (nr > CPUS_MAX || (argc != 2 && argc != 5))
		return fprintf(stderr, "kvm_machine CPUS [MS HOST GUEST]: at most %d CPUs\n",
			       CPUS_MAX),
		       2;
	make(nr ? nr : 1);
	for (which = 0; which < 2 && argc == 5; which++)
		ends[which].fd = listening(argv[3 + which]);
	puts("ready");
	fflush(stdout);
	while (nr && argc == 2)
		pause();
	for (which = 0; which < 2 && nr; which++) {
		ends[which].fd = accept(ends[which].fd, NULL, NULL);
		if (ends[which].fd < 0)
			fail("accept");
	}
	while (nr) {
		if (poll(ends, 2, -1) < 0)
			fail("poll");
		for (which = 0; which < 2; which++)
			if (ends[which].revents &&
			    !hand_on(ends[which].fd, ends[!which].fd, &later))
				return 0;
	}
	return 0;
}
