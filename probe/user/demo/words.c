/* SPDX-License-Identifier: MIT */
/*
 * words.c - the most frequent words in the files of a folder, counted by four threads; with tracepoints
 * that show who did what, and for how long.
 *
 *   words FOLDER
 *   strata record -- words FOLDER
 *
 * The main thread walks through the folder and puts files into a queue. Each worker takes one, counts its
 * words in a table of its own, and adds that to the common table, under a lock: "waited_ns" of words:merge
 * shows what the lock costs.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <strata/tracepoint.h>

#define WORKERS	   4
#define TABLE_SIZE 65536u /* entries; a power of two */
#define QUEUE_SIZE 64u
#define WORD_MAX   63

struct entry {
	char word[WORD_MAX + 1];
	unsigned long count;
};

struct table {
	struct entry entries[TABLE_SIZE];
	size_t used;
};

STRATA_ENUM(outcome, strata_label(counted, 0), strata_label(unreadable, 1),
	    strata_label(binary, 2));

static struct {
	pthread_mutex_t lock;
	pthread_cond_t not_empty, not_full;
	char *paths[QUEUE_SIZE];
	unsigned head, tail;
	int closed;
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER,
	    .not_empty = PTHREAD_COND_INITIALIZER,
	    .not_full = PTHREAD_COND_INITIALIZER };

static struct table all;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned long)t.tv_sec * 1000000000ul + (unsigned long)t.tv_nsec;
}

static void add(struct table *table, const char *word, unsigned long n)
{
	size_t i = 5381;
	const char *p;

	for (p = word; *p; p++)
		i = i * 33 + (unsigned char)*p;
	for (i %= TABLE_SIZE; table->entries[i].count; i = (i + 1) % TABLE_SIZE)
		if (!strcmp(table->entries[i].word, word)) {
			table->entries[i].count += n;
			return;
		}
	if (table->used >= TABLE_SIZE * 3 / 4)
		return; /* a demonstration: further words are not counted */
	strcpy(table->entries[i].word, word);
	table->entries[i].count = n;
	table->used++;
}

/* Returns the number of words, or -1 if the file is no text file. */
static long count_file(FILE *file, struct table *table)
{
	char word[WORD_MAX + 1];
	size_t length = 0;
	long words = 0;
	int c;

	while ((c = getc_unlocked(file)) != EOF) {
		if (!c)
			return -1;
		if (isalpha(c)) {
			if (length < WORD_MAX)
				word[length++] = (char)tolower(c);
			continue;
		}
		if (length > 3) {
			word[length] = '\0';
			add(table, word, 1);
			words++;
		}
		length = 0;
	}
	return words;
}

static void merge(const struct table *table, int worker)
{
	unsigned long begin = now_ns(), locked;
	size_t i;

	pthread_mutex_lock(&all_lock);
	locked = now_ns();
	for (i = 0; i < TABLE_SIZE; i++)
		if (table->entries[i].count)
			add(&all, table->entries[i].word, table->entries[i].count);
	pthread_mutex_unlock(&all_lock);
	STRATA_TRACE(words, merge, INFO, strata_int(worker, worker),
		     strata_int(different, table->used), strata_int(waited_ns, locked - begin));
}

static char *take_path(void)
{
	char *path = NULL;

	pthread_mutex_lock(&queue.lock);
	while (queue.head == queue.tail && !queue.closed)
		pthread_cond_wait(&queue.not_empty, &queue.lock);
	if (queue.head != queue.tail)
		path = queue.paths[queue.head++ % QUEUE_SIZE];
	pthread_cond_signal(&queue.not_full);
	pthread_mutex_unlock(&queue.lock);
	return path;
}

static void *work(void *number)
{
	int worker = *(const int *)number;
	struct table *table = calloc(1, sizeof(*table));
	char *path;

	if (!table)
		exit(2);
	while ((path = take_path())) {
		FILE *file = fopen(path, "re");
		long words = -1;
		int outcome = 1;

		STRATA_TRACE(words, file_begin, DEBUG, strata_int(worker, worker),
			     strata_string(path, path));
		if (file) {
			words = count_file(file, table);
			outcome = words < 0 ? 2 : 0;
			fclose(file);
		}
		STRATA_TRACE(words, file_end, DEBUG, strata_int(worker, worker),
			     strata_int(words, words), strata_enum(outcome, outcome, outcome));
		if (outcome == 1)
			STRATA_TRACE(words, unreadable, WARNING, strata_string(path, path),
				     strata_int(error, errno));
		free(path);
	}
	merge(table, worker);
	free(table);
	return NULL;
}

static int enqueue(const char *path, const struct stat *status, int type, struct FTW *at)
{
	char *copy;

	(void)at;
	if (type != FTW_F || !S_ISREG(status->st_mode))
		return 0;
	copy = strdup(path);
	if (!copy)
		exit(2);
	pthread_mutex_lock(&queue.lock);
	while (queue.tail - queue.head == QUEUE_SIZE)
		pthread_cond_wait(&queue.not_full, &queue.lock);
	queue.paths[queue.tail++ % QUEUE_SIZE] = copy;
	STRATA_TRACE(words, queued, DEBUG, strata_int(waiting, queue.tail - queue.head),
		     strata_int(bytes, status->st_size));
	pthread_cond_signal(&queue.not_empty);
	pthread_mutex_unlock(&queue.lock);
	return 0;
}

static int by_count(const void *a, const void *b)
{
	unsigned long m = ((const struct entry *)a)->count, n = ((const struct entry *)b)->count;

	return m < n ? 1 : m > n ? -1 : 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[WORKERS];
	int numbers[WORKERS], i;

	if (argc != 2) {
		fprintf(stderr, "usage: words FOLDER\n");
		return 2;
	}
	STRATA_TRACE(words, start, NOTICE, strata_string(folder, argv[1]),
		     strata_int(workers, WORKERS));
	for (i = 0; i < WORKERS; i++) {
		numbers[i] = i;
		if (pthread_create(&threads[i], NULL, work, &numbers[i]))
			return 2;
	}
	if (nftw(argv[1], enqueue, 16, FTW_PHYS)) {
		fprintf(stderr, "words: cannot read folder '%s': %s\n", argv[1], strerror(errno));
		return 2;
	}
	pthread_mutex_lock(&queue.lock);
	queue.closed = 1;
	pthread_cond_broadcast(&queue.not_empty);
	pthread_mutex_unlock(&queue.lock);
	for (i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	qsort(all.entries, TABLE_SIZE, sizeof(all.entries[0]), by_count);
	for (i = 0; i < 5 && all.entries[i].count; i++) {
		printf("%7lu %s\n", all.entries[i].count, all.entries[i].word);
		STRATA_TRACE(words, result, NOTICE, strata_string(word, all.entries[i].word),
			     strata_int(count, all.entries[i].count));
	}
	return 0;
}
