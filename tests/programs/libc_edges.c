/* SPDX-License-Identifier: MIT */
/*
 * libc_edges.c - what functions of libc say at their edges: with objects of --libc in front of them they say the same.
 *
 *   libc_edges PLUGIN-NAME    which is found by this program's DT_RUNPATH only
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile size_t huge = PTRDIFF_MAX;
static void *volatile kept;

#define SAY(what, ...)                                             \
	do {                                                       \
		long said_;                                        \
		errno = 77;                                        \
		said_ = (long)(__VA_ARGS__);                       \
		printf("%s: %ld, errno %d\n", what, said_, errno); \
	} while (0)
#define IS(what, ...) SAY(what, (__VA_ARGS__) != 0)

static void allocator(void)
{
	void *out = &out;
	char *ptr;

	SAY("free nothing", (free(NULL), 0));
	IS("malloc of nothing", kept = malloc(0));
	SAY("free", (free(kept), 0));
	IS("malloc", kept = malloc(100));
	IS("usable", malloc_usable_size(kept) >= 100);
	SAY("realloc to nothing", realloc(kept, 0));
	IS("realloc of nothing", kept = realloc(NULL, 10));
	SAY("realloc, too much", realloc(kept, huge));
	free(kept);
	SAY("malloc, too much", malloc(huge));
	SAY("malloc, most", malloc(huge * 2 + 1));
	SAY("calloc, too much", calloc(huge, 3));
	SAY("calloc, an overflow to little", calloc((size_t)1 << 63, 2));
	IS("calloc of nothing", kept = calloc(0, 5));
	free(kept);
	ptr = calloc(1000, 10);
	IS("calloc is zeros", ptr && !ptr[0] && !memcmp(ptr, ptr + 1, 9999));
	SAY("reallocarray, an overflow", reallocarray(ptr, (size_t)1 << 63, 2));
	IS("reallocarray", kept = reallocarray(ptr, 10, 10));
	free(kept);
	for (size_t bytes = 16; bytes <= 1 << 20; bytes *= 4) {
		kept = memalign(bytes, 10);
		SAY("memalign", (uintptr_t)kept % bytes);
		free(kept);
		kept = aligned_alloc(bytes, bytes);
		SAY("aligned_alloc", (uintptr_t)kept % bytes);
		free(kept);
		SAY("posix_memalign", posix_memalign(&out, bytes, 10));
		SAY("its alignment", (uintptr_t)out % bytes);
		free(out);
	}
	out = NULL;
	SAY("posix_memalign, no power of two", posix_memalign(&out, 24, 10));
	SAY("posix_memalign, too much", posix_memalign(&out, 64, huge));
	IS("... leaves it", !out);
	SAY("memalign, too much", memalign(64, huge));
	SAY("aligned_alloc, too much", aligned_alloc(64, huge));
	SAY("valloc, too much", valloc(huge));
	SAY("pvalloc, too much", pvalloc(huge));
	kept = valloc(10);
	SAY("valloc", (uintptr_t)kept % 4096);
	free(kept);
	kept = pvalloc(10);
	IS("pvalloc is pages", malloc_usable_size(kept) >= 4096);
	free(kept);
}

/* ---- locks ---- */

static pthread_mutex_t mutex;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int has_cleaned;

static const struct timespec *soon(clockid_t clock)
{
	static struct timespec time;

	clock_gettime(clock, &time);
	time.tv_nsec += 1000000;
	if (time.tv_nsec >= 1000000000) {
		time.tv_nsec -= 1000000000;
		time.tv_sec++;
	}
	return &time;
}

static void kind(int type, int robust)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, type);
	if (robust)
		pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&mutex, &attr);
}

static void *try_it(void *unused)
{
	(void)unused;
	SAY("trylock of another's", pthread_mutex_trylock(&mutex));
	SAY("unlock of another's", pthread_mutex_unlock(&mutex));
	SAY("timedlock of another's", pthread_mutex_timedlock(&mutex, soon(CLOCK_REALTIME)));
	SAY("clocklock of another's",
	    pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, soon(CLOCK_MONOTONIC)));
	return NULL;
}

static void *die_with_it(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&mutex);
	return NULL;
}

static void clean(void *unused)
{
	(void)unused;
	/* The lock is this thread's again. */
	has_cleaned = 1 + pthread_mutex_unlock(&mutex);
}

static void *wait_for_ever(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(clean, NULL);
	for (;;)
		pthread_cond_wait(&cond, &mutex);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *read_for_ever(void *fd)
{
	char byte;

	(void)!read((int)(intptr_t)fd, &byte, 1);
	return NULL;
}

static void run(void *(*function)(void *), void *argument, int cancel)
{
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, function, argument);
	if (cancel)
		pthread_cancel(thread);
	pthread_join(thread, &result);
	if (cancel)
		IS("cancelled", result == PTHREAD_CANCELED);
}

static void locks(void)
{
	pthread_condattr_t attr;
	pthread_cond_t own;
	int pipe_fds[2];

	kind(PTHREAD_MUTEX_RECURSIVE, 0);
	SAY("recursive", pthread_mutex_lock(&mutex));
	SAY("recursive, once more", pthread_mutex_lock(&mutex));
	SAY("recursive, a try", pthread_mutex_trylock(&mutex));
	run(try_it, NULL, 0);
	SAY("unlock", pthread_mutex_unlock(&mutex) + pthread_mutex_unlock(&mutex) +
			      pthread_mutex_unlock(&mutex));
	SAY("unlock too often", pthread_mutex_unlock(&mutex));
	kind(PTHREAD_MUTEX_ERRORCHECK, 0);
	SAY("errorcheck", pthread_mutex_lock(&mutex));
	SAY("errorcheck, once more", pthread_mutex_lock(&mutex));
	SAY("errorcheck, in time", pthread_mutex_timedlock(&mutex, soon(CLOCK_REALTIME)));
	run(try_it, NULL, 0);
	pthread_mutex_unlock(&mutex);
	kind(PTHREAD_MUTEX_NORMAL, 1);
	run(die_with_it, NULL, 0);
	SAY("robust, of a dead owner", pthread_mutex_lock(&mutex));
	SAY("unlock without repair", pthread_mutex_unlock(&mutex));
	SAY("robust, not to be had", pthread_mutex_lock(&mutex));
	kind(PTHREAD_MUTEX_NORMAL, 1);
	run(die_with_it, NULL, 0);
	SAY("robust, of a dead owner, a try", pthread_mutex_trylock(&mutex));
	SAY("repair", pthread_mutex_consistent(&mutex) + pthread_mutex_unlock(&mutex));
	SAY("robust, repaired", pthread_mutex_lock(&mutex));
	pthread_mutex_unlock(&mutex);

	SAY("rwlock, read", pthread_rwlock_rdlock(&rwlock));
	SAY("rwlock, read again", pthread_rwlock_rdlock(&rwlock));
	SAY("rwlock, a try to write", pthread_rwlock_trywrlock(&rwlock));
	SAY("rwlock, write in time", pthread_rwlock_timedwrlock(&rwlock, soon(CLOCK_REALTIME)));
	SAY("rwlock, unlock", pthread_rwlock_unlock(&rwlock) + pthread_rwlock_unlock(&rwlock));
	SAY("rwlock, write", pthread_rwlock_wrlock(&rwlock));
	SAY("rwlock, write again", pthread_rwlock_wrlock(&rwlock));
	SAY("rwlock, read what is written", pthread_rwlock_rdlock(&rwlock));
	SAY("rwlock, a try to read", pthread_rwlock_tryrdlock(&rwlock));
	SAY("rwlock, unlock", pthread_rwlock_unlock(&rwlock));

	kind(PTHREAD_MUTEX_ERRORCHECK, 0);
	pthread_mutex_lock(&mutex);
	SAY("condition, in time", pthread_cond_timedwait(&cond, &mutex, soon(CLOCK_REALTIME)));
	SAY("condition, by another clock",
	    pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, soon(CLOCK_MONOTONIC)));
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&own, &attr);
	SAY("condition of that clock", pthread_cond_timedwait(&own, &mutex, soon(CLOCK_MONOTONIC)));
	SAY("signal of it", pthread_cond_signal(&own) + pthread_cond_broadcast(&own));
	SAY("signal", pthread_cond_signal(&cond) + pthread_cond_broadcast(&cond));
	SAY("the lock is ours", pthread_mutex_unlock(&mutex));
	SAY("condition without its lock", pthread_cond_wait(&cond, &mutex));
	run(wait_for_ever, NULL, 1);
	SAY("who was cancelled had the lock", has_cleaned);
	if (pipe(pipe_fds))
		abort();
	run(read_for_ever, (void *)(intptr_t)pipe_fds[0], 1);
}

/* ---- files ---- */

static void files(void)
{
	char bytes[16], path[] = "/tmp/strata-edges-XXXXXX";
	const char *volatile no_path = (const char *)8;
	char *line = NULL, **volatile no_line = NULL;
	size_t room = 0;
	FILE *file;
	int fd = mkstemp(path);

	/* Through open(), and read(): with fortified headers, __open_2() and __read_chk(). */
	SAY("open, no address", open(no_path, O_RDONLY));
	SAY("open, no address and no flags", open(no_path, O_RDONLY | O_TMPFILE));
	SAY("openat, no address", openat(-1, no_path, O_RDONLY));
	SAY("open, not there", open("/nowhere/at all", O_RDONLY));
	SAY("open, nothing", open("", O_RDONLY));
	IS("open to write", (fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0640)) > 2);
	SAY("write", write(fd, "0123456789", 10));
	SAY("pwrite", pwrite(fd, "ab", 2, 3));
	SAY("pread", pread(fd, bytes, 5, 2));
	printf("%.5s\n", bytes);
	SAY("read at the end", read(fd, bytes, 5));
	SAY("write, no address", write(fd, no_path, 5));
	SAY("read, no file", read(-1, bytes, 5));
	SAY("close", close(fd));
	SAY("close again", close(fd));
	SAY("creat", close(creat(path, 0600)));
	IS("fopen", file = fopen(path, "w+"));
	SAY("fwrite", fwrite("abcd", 2, 2, file));
	rewind(file);
	SAY("fread", fread(bytes, 3, 5, file));
	SAY("fclose", fclose(file));
	IS("fopen, once more", file = fopen(path, "w+"));
	SAY("fprintf", fprintf(file, "%d %s %.2f %c %ld %x %.3Lf %d %d\n", 1, "two", 3.5, '4', 5L,
			       6, 7.25L, 8, 9));
	SAY("fputs", fputs("line\n", file));
	SAY("fputc", fputc('c', file));
	SAY("putc", putc('\n', file));
	SAY("dprintf", dprintf(fileno(file), "%s", "") + dprintf(-1, "%d", 1));
	SAY("fflush", fflush(file));
	rewind(file);
	IS("fgets", fgets(bytes, sizeof(bytes), file) == bytes);
	printf("%s|\n", bytes);
	SAY("getline", getline(&line, &room, file));
	printf("%s|\n", line);
	SAY("getdelim", getdelim(&line, &room, 'n', file));
	SAY("fgetc", fgetc(file));
	SAY("fread of the rest", fread(bytes, 1, 16, file));
	SAY("fgetc at the end", fgetc(file));
	SAY("getc at the end", getc(file));
	SAY("fgets at the end", fgets(bytes, sizeof(bytes), file));
	SAY("getline at the end", getline(&line, &room, file));
	SAY("getline, no place", getline(no_line, &room, file));
	SAY("fgets of nothing", fgets(bytes, 0, file));
	free(line);
	SAY("fclose", fclose(file));
	/* What it was before is what it prints. */
	SAY("printf of the error", printf("%m\n"));
	SAY("puts", puts("puts"));
	SAY("putchar", putchar('\n'));
	IS("fopen of what is full", file = fopen("/dev/full", "w"));
	SAY("fprintf to it", fprintf(file, "%d", 1));
	SAY("fflush of it", fflush(file));
	SAY("fclose of it", fclose(file));
	SAY("fopen, not there", fopen("/nowhere/at all", "r"));
	SAY("fopen, no mode", fopen(path, "x"));
	SAY("fopen, no address", fopen(no_path, "r"));
	IS("fopen to read", file = fopen(path, "r"));
	SAY("fwrite to it", fwrite("abcd", 2, 2, file));
	SAY("fprintf to it", fprintf(file, "%d", 1));
	SAY("fputs to it", fputs("abc", file));
	SAY("fputc to it", fputc('a', file));
	SAY("fclose of it", fclose(file));
	unlink(path);
}

static void objects(const char *plugin)
{
	void *handle;

	SAY("dlopen, not there", dlopen("/nowhere/at all.so", RTLD_NOW));
	printf("%s\n", dlerror());
	IS("dlopen of the program", handle = dlopen(NULL, RTLD_NOW));
	SAY("dlclose of the program", dlclose(handle));
	IS("dlopen, not loaded", dlopen(plugin, RTLD_NOW | RTLD_NOLOAD));
	IS("dlopen, by the program's path", handle = dlopen(plugin, RTLD_NOW));
	if (!handle) {
		printf("%s\n", dlerror());
		return;
	}
	SAY("dlsym", *(int *)dlsym(handle, "strata_test_plugin"));
	SAY("dlclose", dlclose(handle));
	IS("dlopen of libc", handle = dlopen("libm.so.6", RTLD_NOW));
	SAY("dlclose of libc", dlclose(handle));
	IS("no error is left", !dlerror());
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	allocator();
	locks();
	files();
	objects(argc > 1 ? argv[1] : "");
	return 0;
}
