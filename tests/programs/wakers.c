/* SPDX-License-Identifier: MIT */
/*
 * Waits of many kinds. Each is ended some times by another thread or process, or by a timer while other threads keep the CPUs
 * busy, so that the timer's interrupt finds one of them.
 *
 *   wakers FOLDER [KIND]...   for each kind a line: its name, the call that waits (or one of several, by libc), the
 *                             waiter's number, and who ends it: a number or "timer". A kind that this kernel refuses has a line of two words.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

enum {
	ROUNDS = 3,
	BUSY = 2,
	PAUSE_MS = 12,
	PAUSE_NS = PAUSE_MS * 1000000
};

/* What the present kind uses. `fds` are a pair to read from and to write to, or one of another kind. */
static int fds[2], timer_fd, epoll_fd, signal_fd, null_fd, ipc;
static uint32_t word;
static uint64_t value;
static mqd_t queue;
static sigset_t user_signal;
static char folder[200], path[300];
static pthread_barrier_t barrier;
static pid_t waiter_tid, ender_tid;
static volatile int is_over, nr_waited, present;

static void must(int is_done, const char *what)
{
	if (!is_done) {
		perror(what);
		exit(1);
	}
}

static void pause_for(long ns)
{
	struct timespec time = { 0, ns };

	nanosleep(&time, NULL);
}

/* An io_uring for one request at a time. */
static struct {
	int fd;
	unsigned *tail, *mask, *array, *head;
	struct io_uring_sqe *requests;
} ring;

static void *ring_part(size_t bytes, off_t at)
{
	void *part = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, at);

	must(part != MAP_FAILED, "mmap");
	return part;
}

static int ring_open(void)
{
	struct io_uring_params is = { 0 };
	char *asked, *done;

	ring.fd = (int)syscall(SYS_io_uring_setup, 4, &is);
	if (ring.fd < 0)
		return -1;
	asked = ring_part(is.sq_off.array + is.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
	done = ring_part(is.cq_off.cqes + is.cq_entries * sizeof(struct io_uring_cqe),
			 IORING_OFF_CQ_RING);
	ring.requests = ring_part(is.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	ring.tail = (unsigned *)(asked + is.sq_off.tail);
	ring.mask = (unsigned *)(asked + is.sq_off.ring_mask);
	ring.array = (unsigned *)(asked + is.sq_off.array);
	ring.head = (unsigned *)(done + is.cq_off.head);
	return 0;
}

static void ring_do(int operation, int fd, void *address)
{
	unsigned tail = *ring.tail, at = tail & *ring.mask;

	ring.requests[at] = (struct io_uring_sqe){
		.opcode = (uint8_t)operation, .fd = fd, .addr = (uintptr_t)address, .len = 1
	};
	ring.array[at] = at;
	__atomic_store_n(ring.tail, tail + 1, __ATOMIC_RELEASE);
	must(syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1,
	     "io_uring_enter");
	__atomic_store_n(ring.head, *ring.head + 1, __ATOMIC_RELEASE);
}

static void read_value(void)
{
	must(read(fds[0], &value, sizeof(value)) > 0, "read");
}

static void write_value(void)
{
	uint64_t one = 1;

	must(write(fds[1], &one, sizeof(one)) > 0, "write");
}

static void read_signal(void)
{
	struct signalfd_siginfo info;

	must(read(signal_fd, &info, sizeof(info)) > 0, "read");
}

static void send_signal(void)
{
	kill(getpid(), SIGUSR1);
}

static void wait_signal(void)
{
	must(sigtimedwait(&user_signal, NULL, NULL) == SIGUSR1, "sigtimedwait");
}

static void send_to_thread(void)
{
	syscall(SYS_tgkill, getpid(), waiter_tid, SIGUSR1);
}

static void read_events(void)
{
	char events[4096];

	must(read(fds[0], events, sizeof(events)) > 0, "read");
}

static void make_file(void)
{
	static int number;

	snprintf(path, sizeof(path), "%s/watched/%d", folder, number++);
	must(!close(open(path, O_CREAT | O_WRONLY, 0600)), path);
}

/* The kernel's struct futex_waitv, which older headers lack. */
struct one_futex {
	uint64_t value, address;
	uint32_t flags, reserved;
};

static void wait_for_word(const struct timespec *until)
{
	struct one_futex one = { 0, (uintptr_t)&word, 2, 0 };

	syscall(SYS_futex_waitv, &one, 1, 0, until, CLOCK_MONOTONIC);
}

static void wait_word(void)
{
	wait_for_word(NULL);
}

static void wait_word_until(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += PAUSE_NS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	wait_for_word(&until);
}

/* Until it has found the waiter, which may come late: the word stays the same, so that an early wake would do nothing. */
static void wake_word(void)
{
	while (nr_waited <= present && syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0) < 1)
		pause_for(PAUSE_NS);
}

static void wait_futex_until(void)
{
	struct timespec time = { 0, PAUSE_NS };

	syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time, NULL, 0);
}

static void ring_read(void)
{
	ring_do(IORING_OP_READ, fds[0], &value);
}

struct text {
	long type;
	char text[8];
};

static void receive_text(void)
{
	struct text text;

	must(msgrcv(ipc, &text, sizeof(text.text), 0, 0) >= 0, "msgrcv");
}

static void send_text(void)
{
	struct text text = { 1, "text" };

	must(!msgsnd(ipc, &text, sizeof(text.text), 0), "msgsnd");
}

static void step(short by)
{
	struct sembuf one = { 0, by, 0 };

	must(!semop(ipc, &one, 1), "semop");
}

static void down(void)
{
	step(-1);
}

static void up(void)
{
	step(1);
}

static void queue_receive(void)
{
	char text[8];

	must(mq_receive(queue, text, sizeof(text), NULL) >= 0, "mq_receive");
}

static void queue_send(void)
{
	must(!mq_send(queue, "x", 1, 0), "mq_send");
}

static void wait_epoll(void)
{
	struct epoll_event event;

	must(epoll_wait(epoll_fd, &event, 1, -1) == 1 && event.data.fd == fds[0], "epoll_wait");
	read_value();
}

static void wait_select(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fds[0], &set);
	must(select(fds[0] + 1, &set, NULL, NULL, NULL) == 1, "select");
	read_value();
}

static void move_bytes(void)
{
	must(splice(fds[0], NULL, null_fd, NULL, 8, 0) == 8, "splice");
}

static void set_timer(void)
{
	struct itimerspec time = { .it_value = { 0, PAUSE_NS } };

	must(!timerfd_settime(timer_fd, 0, &time, NULL), "timerfd_settime");
}

static void read_timer(void)
{
	must(read(timer_fd, &value, sizeof(value)) == sizeof(value), "read");
}

static void wait_timer(void)
{
	set_timer();
	read_timer();
}

static void epoll_timer(void)
{
	struct epoll_event events[4];

	set_timer();
	must(epoll_wait(epoll_fd, events, 4, -1) == 1, "epoll_wait");
	read_timer();
}

static void poll_timer(void)
{
	struct pollfd both[] = { { fds[0], POLLIN, 0 }, { timer_fd, POLLIN, 0 } };

	set_timer();
	must(poll(both, 2, -1) == 1, "poll");
	read_timer();
}

static void select_timer(void)
{
	fd_set set;

	set_timer();
	FD_ZERO(&set);
	FD_SET(fds[0], &set);
	FD_SET(timer_fd, &set);
	must(select((fds[0] > timer_fd ? fds[0] : timer_fd) + 1, &set, NULL, NULL, NULL) == 1,
	     "select");
	read_timer();
}

static void sleep_once(void)
{
	pause_for(PAUSE_NS);
}

static void poll_nothing(void)
{
	poll(NULL, 0, PAUSE_MS);
}

static void receive_until(void)
{
	char byte;

	must(recv(fds[0], &byte, 1, 0) < 0 && errno == EAGAIN, "recv");
}

static void as_eventfd(void)
{
	fds[0] = fds[1] = eventfd(0, 0);
}

static void as_pipe(void)
{
	must(!pipe(fds), "pipe");
}

static void as_socket(void)
{
	struct timeval limit = { 0, PAUSE_MS * 1000 };

	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
	must(!setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), "SO_RCVTIMEO");
}

static void as_inotify(void)
{
	snprintf(path, sizeof(path), "%s/watched", folder);
	must(!mkdir(path, 0700), path);
	fds[0] = inotify_init();
	must(inotify_add_watch(fds[0], path, IN_CREATE) >= 0, "inotify_add_watch");
}

static void as_user_signal(void)
{
	signal_fd = signalfd(-1, &user_signal, 0);
}

static void as_messages(void)
{
	ipc = msgget(IPC_PRIVATE, 0600);
}

static void as_semaphore(void)
{
	ipc = semget(IPC_PRIVATE, 1, 0600);
}

static void as_queue(void)
{
	struct mq_attr attr = { .mq_maxmsg = 4, .mq_msgsize = 8 };
	char name[40];

	snprintf(name, sizeof(name), "/strata-wakers-%d", getpid());
	queue = mq_open(name, O_CREAT | O_RDWR, 0600, &attr);
	must(queue >= 0, "mq_open");
	mq_unlink(name);
}

/* An epoll of an eventfd and a timer, each with its descriptor as what is returned. */
static void as_epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN };

	as_eventfd();
	epoll_fd = epoll_create1(0);
	event.data.fd = fds[0];
	must(!epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fds[0], &event), "epoll_ctl");
	event.data.fd = timer_fd;
	must(!epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &event), "epoll_ctl");
}

static void as_ring(void)
{
	as_pipe();
	must(ring_open() >= 0, "io_uring_setup");
}

/* A kind: its name, the call that waits, what makes its files, what the waiter does, and what ends that; none: a timer. */
struct kind {
	const char *name, *call;
	void (*make)(void), (*wait)(void), (*end)(void);
};

static const struct kind kinds[] = {
	{ "eventfd", "read", as_eventfd, read_value, write_value },
	{ "epoll", "epoll_wait", as_epoll, wait_epoll, write_value },
	{ "select", "select|pselect6", as_eventfd, wait_select, write_value },
	{ "signalfd", "read", as_user_signal, read_signal, send_signal },
	{ "sigwait", "rt_sigtimedwait", NULL, wait_signal, send_to_thread },
	{ "inotify", "read", as_inotify, read_events, make_file },
	{ "waitv", "futex_waitv", NULL, wait_word, wake_word },
	{ "uring", "io_uring_enter", as_ring, ring_read, write_value },
	{ "messages", "msgrcv", as_messages, receive_text, send_text },
	{ "semaphore", "semop|semtimedop", as_semaphore, down, up },
	{ "queue", "mq_timedreceive", as_queue, queue_receive, queue_send },
	{ "splice", "splice", as_pipe, move_bytes, write_value },
	{ "timer", "read", NULL, wait_timer, NULL },
	{ "timer_epoll", "epoll_wait", as_epoll, epoll_timer, NULL },
	{ "timer_poll", "poll", as_eventfd, poll_timer, NULL },
	{ "timer_select", "select|pselect6", as_eventfd, select_timer, NULL },
	{ "sleep", "clock_nanosleep|nanosleep", NULL, sleep_once, NULL },
	{ "poll_nothing", "poll", NULL, poll_nothing, NULL },
	{ "futex_until", "futex", NULL, wait_futex_until, NULL },
	{ "waitv_until", "futex_waitv", NULL, wait_word_until, NULL },
	{ "recv_until", "recvfrom", as_socket, receive_until, NULL },
};

static const struct kind *now;

static void *waits(void *nothing)
{
	waiter_tid = (pid_t)syscall(SYS_gettid);
	pthread_setname_np(pthread_self(), now->name);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&barrier);
		now->wait();
		nr_waited = round + 1;
	}
	return nothing;
}

static void *ends(void *nothing)
{
	ender_tid = (pid_t)syscall(SYS_gettid);
	pthread_setname_np(pthread_self(), "ender");
	for (int round = 0; round < ROUNDS; round++) {
		present = round;
		pthread_barrier_wait(&barrier);
		if (now->end) {
			pause_for(PAUSE_NS);
			now->end();
		}
	}
	return nothing;
}

static void *works(void *nothing)
{
	pthread_setname_np(pthread_self(), "stranger");
	while (!is_over) {
		for (volatile int turn = 0; turn < 200000; turn++)
			;
		syscall(SYS_getppid);
	}
	return nothing;
}

static void try_kind(void)
{
	pthread_t waiter, ender, busy[BUSY];

	if (now->make)
		now->make();
	is_over = nr_waited = 0;
	for (int at = 0; at < BUSY && !now->end; at++)
		must(!pthread_create(&busy[at], NULL, works, NULL), "pthread_create");
	pthread_barrier_init(&barrier, NULL, 2);
	must(!pthread_create(&waiter, NULL, waits, NULL), "pthread_create");
	must(!pthread_create(&ender, NULL, ends, NULL), "pthread_create");
	pthread_join(waiter, NULL);
	pthread_join(ender, NULL);
	is_over = 1;
	for (int at = 0; at < BUSY && !now->end; at++)
		pthread_join(busy[at], NULL);
	if (now->end)
		printf("%s %s %d %d\n", now->name, now->call, waiter_tid, ender_tid);
	else
		printf("%s %s %d timer\n", now->name, now->call, waiter_tid);
}

/* Waits for the end of a child, which sleeps first: by a descriptor of it, by wait4(), and by vfork() itself. */
static void try_children(void)
{
	for (int kind = 0; kind < 3; kind++) {
		static const char *const names[] = { "pidfd poll", "wait4 wait4", "vfork vfork" };
		pid_t child = kind == 2 ? vfork() : fork();

		if (!child) {
			pause_for(PAUSE_NS);
			_exit(0);
		}
		if (kind == 0) {
			struct pollfd one = { (int)syscall(SYS_pidfd_open, child, 0), POLLIN, 0 };

			must(poll(&one, 1, -1) == 1, "poll");
		}
		must(waitpid(child, NULL, 0) == child, "waitpid");
		printf("%s %d %d\n", names[kind], getpid(), child);
	}
}

int main(int count, char **words)
{
	int has_ring, is_wanted;

	must(count > 1 && strlen(words[1]) < sizeof(folder), "wakers FOLDER [KIND]...");
	strcpy(folder, words[1]);
	sigemptyset(&user_signal);
	sigaddset(&user_signal, SIGUSR1);
	sigprocmask(SIG_BLOCK, &user_signal, NULL);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, 0);
	null_fd = open("/dev/null", O_WRONLY);
	must(timer_fd >= 0 && null_fd >= 0, "timerfd_create");
	has_ring = ring_open() >= 0;
	for (now = kinds; now < kinds + sizeof(kinds) / sizeof(*kinds); now++) {
		is_wanted = count == 2;
		for (int at = 2; at < count; at++)
			is_wanted |= !strcmp(words[at], now->name);
		if (is_wanted && now->make == as_ring && !has_ring)
			printf("%s none\n", now->name);
		else if (is_wanted)
			try_kind();
	}
	if (count == 2)
		try_children();
	return 0;
}
