/* SPDX-License-Identifier: MIT */
/*
 * ping.c - how long do echo requests to a host take, there and back? As `ping` without pauses, with the longest ones. As root.
 *
 *   ping ADDRESS COUNT    prints "mean", "deviation", "p50", "p99", "p999" and "longest" with their values [us]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BYTES 56 /* of payload, as ping has */

static void fail(const char *what)
{
	fprintf(stderr, "ping: %s: %s\n", what, strerror(errno));
	exit(2);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* The checksum of RFC 1071, of an even number of bytes. */
static uint16_t checksum(const void *data, size_t bytes)
{
	const unsigned char *at = (const unsigned char *)data;
	uint32_t sum = 0;

	for (; bytes; bytes -= 2, at += 2)
		sum += (uint32_t)at[0] | (uint32_t)at[1] << 8;
	sum = (sum >> 16) + (sum & 0xffff);
	return (uint16_t) ~(sum + (sum >> 16));
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Waits for the answer to request @sequence; others' packets are skipped. */
static void wait_for(int fd, uint16_t id, uint16_t sequence)
{
	unsigned char packet[1024];
	struct icmphdr head;
	ssize_t bytes;
	size_t ip;

	for (;;) {
		bytes = recv(fd, packet, sizeof(packet), 0);
		if (bytes < 0)
			fail("no answer");
		ip = (size_t)(packet[0] & 15) * 4;
		if ((size_t)bytes < ip + sizeof(head))
			continue;
		memcpy(&head, packet + ip, sizeof(head));
		if (head.type == ICMP_ECHOREPLY && head.un.echo.id == id &&
		    head.un.echo.sequence == sequence)
			return;
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	const struct timeval limit = { .tv_sec = 5 };
	struct {
		struct icmphdr head;
		char payload[BYTES];
	} request;
	unsigned count = argc == 3 ? (unsigned)atoi(argv[2]) : 0, i;
	double *us, begin, sum = 0, squares = 0, mean;
	uint16_t id = htons((uint16_t)getpid());
	int fd;

	if (!count || count > 10000000 || !inet_aton(argv[1], &to.sin_addr)) {
		fprintf(stderr, "usage: ping ADDRESS COUNT, 1 to 10000000\n");
		return 2;
	}
	us = (double *)calloc(count, sizeof(*us));
	fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	if (!us || fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ||
	    connect(fd, (const struct sockaddr *)&to, sizeof(to)))
		fail(argv[1]);
	memset(&request, 'x', sizeof(request));
	for (i = 0; i < count + count / 10; i++) {
		memset(&request.head, 0, sizeof(request.head));
		request.head.type = ICMP_ECHO;
		request.head.un.echo.id = id;
		request.head.un.echo.sequence = (uint16_t)i;
		request.head.checksum = checksum(&request, sizeof(request));
		begin = now_us();
		if (send(fd, &request, sizeof(request), 0) != sizeof(request))
			fail("send");
		wait_for(fd, id, (uint16_t)i);
		/* The first tenth makes everything warm. */
		if (i >= count / 10)
			us[i - count / 10] = now_us() - begin;
	}
	for (i = 0; i < count; i++)
		sum += us[i];
	mean = sum / count;
	for (i = 0; i < count; i++)
		squares += (us[i] - mean) * (us[i] - mean);
	qsort(us, count, sizeof(*us), compare);
	printf("mean %.3f\ndeviation %.3f\np50 %.3f\np99 %.3f\np999 %.3f\nlongest %.3f\n", mean,
	       sqrt(squares / count), us[count / 2], us[(size_t)count * 99 / 100],
	       us[(size_t)count * 999 / 1000], us[count - 1]);
	return 0;
}
