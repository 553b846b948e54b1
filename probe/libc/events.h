/* SPDX-License-Identifier: MIT */
/*
 * events.h - what the objects that `strata record --libc` preloads record: names and fields, which the reports rely on.
 *
 *   libc      calls of malloc()'s family; a free is recorded before it is done, an allocation behind it, so that an
 *             address is never given away twice in the order of time. realloc() is two events, for the same reason:
 *             from realloc_begin on .in_ptr is nobody's; it is again if realloc_end has no .ptr and a .size
 *   libc_sum  the same counted, by call site and class of sizes: each record says what came since the last one
 *   pthread   what was waited for: a lock that another thread had, a condition
 *   pthread_all  each call, with its result
 *   io        begin and end of calls that move bytes; .result as the function's, .error is errno where that failed
 *   io_all    each character that is written to a stream, or read from it
 *   dl        objects that are loaded and given back
 *   functions code compiled with -finstrument-functions
 *
 * .caller is where the call returns to. Names of fields are those of LTTng's wrappers, where they have them.
 */
#ifndef STRATA_LIBC_EVENTS_H
#define STRATA_LIBC_EVENTS_H

#include <stddef.h>
#include <sys/types.h>

#include <strata/tracepoint.h>

#ifdef STRATA_LIBC_MALLOC
STRATA_CLASS(libc_malloc, (size_t size, const void *ptr, const void *caller),
	     strata_int(size, size), strata_pointer(ptr, ptr), strata_pointer(caller, caller));
STRATA_CLASS(libc_calloc, (size_t nmemb, size_t size, const void *ptr, const void *caller),
	     strata_int(nmemb, nmemb), strata_int(size, size), strata_pointer(ptr, ptr),
	     strata_pointer(caller, caller));
STRATA_CLASS(libc_memalign, (size_t alignment, size_t size, const void *ptr, const void *caller),
	     strata_int(alignment, alignment), strata_int(size, size), strata_pointer(ptr, ptr),
	     strata_pointer(caller, caller));
STRATA_CLASS(libc_posix_memalign,
	     (size_t alignment, size_t size, const void *ptr, int result, const void *caller),
	     strata_int(alignment, alignment), strata_int(size, size), strata_pointer(ptr, ptr),
	     strata_int(result, result), strata_pointer(caller, caller));
STRATA_CLASS(libc_realloc_begin, (const void *in_ptr, size_t size, const void *caller),
	     strata_pointer(in_ptr, in_ptr), strata_int(size, size),
	     strata_pointer(caller, caller));
STRATA_CLASS(libc_realloc_end,
	     (const void *in_ptr, size_t size, const void *ptr, const void *caller),
	     strata_pointer(in_ptr, in_ptr), strata_int(size, size), strata_pointer(ptr, ptr),
	     strata_pointer(caller, caller));
STRATA_CLASS(libc_free, (const void *ptr, const void *caller), strata_pointer(ptr, ptr),
	     strata_pointer(caller, caller));

STRATA_EVENT(libc, malloc, INFO, libc_malloc);
STRATA_EVENT(libc, calloc, INFO, libc_calloc);
STRATA_EVENT(libc, realloc_begin, INFO, libc_realloc_begin); /* reallocarray() too */
STRATA_EVENT(libc, realloc_end, INFO, libc_realloc_end);
STRATA_EVENT(libc, memalign, INFO, libc_memalign);
STRATA_EVENT(libc, aligned_alloc, INFO, libc_memalign);
STRATA_EVENT(libc, valloc, INFO, libc_malloc);
STRATA_EVENT(libc, pvalloc, INFO, libc_malloc);
STRATA_EVENT(libc, posix_memalign, INFO, libc_posix_memalign);
STRATA_EVENT(libc, free, INFO, libc_free);

/* Calls of .function from .caller for .size_min to .size_max bytes (of free: 0), since this thread's last record of them. */
STRATA_ENUM(libc_function, strata_label(malloc, 0), strata_label(calloc, 1),
	    strata_label(realloc, 2), strata_label(memalign, 3), strata_label(free, 4));
STRATA_CLASS(libc_sum,
	     (const void *caller, unsigned char function, size_t size_min, size_t size_max,
	      unsigned long count, unsigned long bytes, unsigned long failed),
	     strata_pointer(caller, caller), strata_enum(function, libc_function, function),
	     strata_int(size_min, size_min), strata_int(size_max, size_max),
	     strata_int(count, count), strata_int(bytes, bytes), strata_int(failed, failed));
STRATA_EVENT(libc_sum, calls, INFO, libc_sum);
#endif

#ifdef STRATA_LIBC_PTHREAD
/*
 * The field `owner` is the id of the thread that has the lock, as libc notes it; 0 if it is not
 * known.
 */
STRATA_CLASS(pthread_lock_begin, (const void *lock, int owner, const void *caller),
	     strata_pointer(lock, lock), strata_int(owner, owner), strata_pointer(caller, caller));
STRATA_CLASS(pthread_lock_end, (const void *lock, int result), strata_pointer(lock, lock),
	     strata_int(result, result));
STRATA_CLASS(pthread_cond_begin, (const void *cond, const void *lock, const void *caller),
	     strata_pointer(cond, cond), strata_pointer(lock, lock),
	     strata_pointer(caller, caller));
STRATA_CLASS(pthread_cond_end, (const void *cond, const void *lock, int result),
	     strata_pointer(cond, cond), strata_pointer(lock, lock), strata_int(result, result));
STRATA_CLASS(pthread_call, (const void *lock, int result, const void *caller),
	     strata_pointer(lock, lock), strata_int(result, result),
	     strata_pointer(caller, caller));

/* Events of locks that are recorded only if the thread has to wait. */
STRATA_EVENT(pthread, mutex_lock_begin, INFO, pthread_lock_begin);
STRATA_EVENT(pthread, mutex_lock_end, INFO, pthread_lock_end);
STRATA_EVENT(pthread, rwlock_rdlock_begin, INFO, pthread_lock_begin);
STRATA_EVENT(pthread, rwlock_rdlock_end, INFO, pthread_lock_end);
STRATA_EVENT(pthread, rwlock_wrlock_begin, INFO, pthread_lock_begin);
STRATA_EVENT(pthread, rwlock_wrlock_end, INFO, pthread_lock_end);
STRATA_EVENT(pthread, cond_wait_begin, INFO, pthread_cond_begin);
STRATA_EVENT(pthread, cond_wait_end, INFO, pthread_cond_end);

/* Events of each call: of a lock when the thread has got it, of an unlock before it is done. */
STRATA_EVENT(pthread_all, mutex_lock, INFO, pthread_call);
STRATA_EVENT(pthread_all, mutex_trylock, INFO, pthread_call);
STRATA_EVENT(pthread_all, mutex_unlock, INFO, pthread_call);
STRATA_EVENT(pthread_all, rwlock_rdlock, INFO, pthread_call);
STRATA_EVENT(pthread_all, rwlock_wrlock, INFO, pthread_call);
STRATA_EVENT(pthread_all, rwlock_tryrdlock, INFO, pthread_call);
STRATA_EVENT(pthread_all, rwlock_trywrlock, INFO, pthread_call);
STRATA_EVENT(pthread_all, rwlock_unlock, INFO, pthread_call);
STRATA_EVENT(pthread_all, cond_signal, INFO, pthread_call);
STRATA_EVENT(pthread_all, cond_broadcast, INFO, pthread_call);
#endif

#if defined(STRATA_LIBC_IO) || defined(STRATA_LIBC_STDIO)
STRATA_CLASS(io_fd, (int fd, const void *caller), strata_int(fd, fd),
	     strata_pointer(caller, caller));
STRATA_CLASS(io_end, (ssize_t result, int error), strata_int(result, result),
	     strata_int(error, error));
#endif

#ifdef STRATA_LIBC_IO
#include "address.h"

STRATA_ENUM(io_family, strata_label(AF_UNSPEC, 0), strata_label(AF_UNIX, 1),
	    strata_label(AF_INET, 2), strata_label(AF_INET6, 10), strata_label(AF_NETLINK, 16),
	    strata_label(AF_PACKET, 17), strata_label(AF_CAN, 29), strata_label(AF_BLUETOOTH, 31),
	    strata_label(AF_ALG, 38), strata_label(AF_VSOCK, 40), strata_label(AF_XDP, 44));
/*
 * Paths and addresses are recorded at the end: before the kernel has read one, nobody knows whether
 * it can be read.
 */
STRATA_CLASS(io_open, (int flags, const void *caller), strata_hex(flags, flags),
	     strata_pointer(caller, caller));
STRATA_CLASS(io_open_end, (const char *path, int result, int error), strata_string(path, path),
	     strata_int(result, result), strata_int(error, error));
STRATA_CLASS(io_bytes, (int fd, size_t size, const void *caller), strata_int(fd, fd),
	     strata_int(size, size), strata_pointer(caller, caller));
STRATA_CLASS(io_vector, (int fd, int iovcnt, const void *caller), strata_int(fd, fd),
	     strata_int(iovcnt, iovcnt), strata_pointer(caller, caller));
STRATA_CLASS(io_packet, (int fd, size_t size, int flags, const void *caller), strata_int(fd, fd),
	     strata_int(size, size), strata_hex(flags, flags), strata_pointer(caller, caller));
STRATA_CLASS(io_message, (int fd, int flags, const void *caller), strata_int(fd, fd),
	     strata_hex(flags, flags), strata_pointer(caller, caller));
STRATA_CLASS(io_addressed_end,
	     (ssize_t result, int error, const struct strata_libc_address *address),
	     strata_int(result, result), strata_int(error, error),
	     strata_enum(family, io_family, address->family),
	     strata_string(address, address->text));
STRATA_CLASS(io_messages, (int fd, unsigned int vlen, int flags, const void *caller),
	     strata_int(fd, fd), strata_int(vlen, vlen), strata_hex(flags, flags),
	     strata_pointer(caller, caller));
STRATA_CLASS(io_messages_end, (int result, int error, size_t bytes), strata_int(result, result),
	     strata_int(error, error), strata_int(bytes, bytes));

/* open() and its variants, also creat(); read, write: pread() and pwrite(), too. */
STRATA_EVENT(io, open_begin, INFO, io_open);
STRATA_EVENT(io, open_end, INFO, io_open_end); /* .result: the descriptor */
STRATA_EVENT(io, read_begin, INFO, io_bytes);
STRATA_EVENT(io, read_end, INFO, io_end);
STRATA_EVENT(io, write_begin, INFO, io_bytes);
STRATA_EVENT(io, write_end, INFO, io_end);
/* The size is not recorded, since it is in memory that libc has not read yet. */
STRATA_EVENT(io, readv_begin, INFO, io_vector); /* preadv(), preadv2(), too */
STRATA_EVENT(io, readv_end, INFO, io_end);
STRATA_EVENT(io, writev_begin, INFO, io_vector);
STRATA_EVENT(io, writev_end, INFO, io_end);
STRATA_EVENT(io, send_begin, INFO, io_packet); /* sendto(), too */
STRATA_EVENT(io, send_end, INFO, io_addressed_end);
STRATA_EVENT(io, recv_begin, INFO, io_packet); /* recvfrom(), too */
STRATA_EVENT(io, recv_end, INFO, io_addressed_end);
STRATA_EVENT(io, sendmsg_begin, INFO, io_message);
STRATA_EVENT(io, sendmsg_end, INFO, io_end);
STRATA_EVENT(io, recvmsg_begin, INFO, io_message);
STRATA_EVENT(io, recvmsg_end, INFO, io_end);
STRATA_EVENT(io, sendmmsg_begin, INFO, io_messages);
STRATA_EVENT(io, sendmmsg_end, INFO, io_messages_end); /* .result: messages */
STRATA_EVENT(io, recvmmsg_begin, INFO, io_messages);
STRATA_EVENT(io, recvmmsg_end, INFO, io_messages_end);
STRATA_EVENT(io, connect_begin, INFO, io_fd);
STRATA_EVENT(io, connect_end, INFO, io_addressed_end);
STRATA_EVENT(io, accept_begin, INFO, io_fd);	      /* accept4(), too */
STRATA_EVENT(io, accept_end, INFO, io_addressed_end); /* .result: the descriptor */
STRATA_EVENT(io, close_begin, INFO, io_fd);
STRATA_EVENT(io, close_end, INFO, io_end);
#endif

#ifdef STRATA_LIBC_STDIO
STRATA_CLASS(io_fopen, (const void *caller), strata_pointer(caller, caller));
STRATA_CLASS(io_fopen_end,
	     (const char *path, const char *mode, const void *file, int fd, int error),
	     strata_string(path, path), strata_text(mode, mode, 7), strata_pointer(file, file),
	     strata_int(fd, fd), strata_int(error, error));
STRATA_CLASS(io_file, (const void *file, const void *caller), strata_pointer(file, file),
	     strata_pointer(caller, caller));
STRATA_CLASS(io_file_size, (const void *file, size_t size, const void *caller),
	     strata_pointer(file, file), strata_int(size, size), strata_pointer(caller, caller));
STRATA_CLASS(io_character, (const void *file, int result, int error, const void *caller),
	     strata_pointer(file, file), strata_int(result, result), strata_int(error, error),
	     strata_pointer(caller, caller));
STRATA_CLASS(io_file_bytes, (const void *file, size_t size, size_t nmemb, const void *caller),
	     strata_pointer(file, file), strata_int(size, size), strata_int(nmemb, nmemb),
	     strata_pointer(caller, caller));

STRATA_EVENT(io, fopen_begin, INFO, io_fopen);
STRATA_EVENT(io, fopen_end, INFO, io_fopen_end);
STRATA_EVENT(io, fread_begin, INFO, io_file_bytes);
STRATA_EVENT(io, fread_end, INFO, io_end); /* .result: elements */
STRATA_EVENT(io, fwrite_begin, INFO, io_file_bytes);
STRATA_EVENT(io, fwrite_end, INFO, io_end);
STRATA_EVENT(io, fclose_begin, INFO, io_file);
STRATA_EVENT(io, fclose_end, INFO, io_end);
STRATA_EVENT(io, fflush_begin, INFO, io_file); /* .file 0: of all */
STRATA_EVENT(io, fflush_end, INFO, io_end);
STRATA_EVENT(io, printf_begin, INFO, io_file); /* fprintf(), vprintf(), ..., too */
STRATA_EVENT(io, printf_end, INFO, io_end);    /* .result: bytes */
STRATA_EVENT(io, dprintf_begin, INFO, io_fd);
STRATA_EVENT(io, dprintf_end, INFO, io_end);
STRATA_EVENT(io, fputs_begin, INFO, io_file_size); /* puts(), too, with its newline */
STRATA_EVENT(io, fputs_end, INFO, io_end);
STRATA_EVENT(io, fgets_begin, INFO, io_file_size);
STRATA_EVENT(io, fgets_end, INFO, io_end); /* .result: bytes in front of the first zero; -1: none */
STRATA_EVENT(io, getline_begin, INFO, io_file); /* getdelim(), too */
STRATA_EVENT(io, getline_end, INFO, io_end);

/*
 * Events of each call, recorded after it. The field `result` is 1, or -1 if the call failed or
 * there was no character.
 */
STRATA_EVENT(io_all, fputc, INFO, io_character); /* putc(), putchar(), too */
STRATA_EVENT(io_all, fgetc, INFO, io_character);
#endif

#ifdef STRATA_LIBC_DL
STRATA_CLASS(dl_open_begin, (const char *path, int flags, const void *caller),
	     strata_string(path, path), strata_hex(flags, flags), strata_pointer(caller, caller));
STRATA_CLASS(dl_open_end, (const void *handle, const void *base, const char *path),
	     strata_pointer(handle, handle), strata_pointer(base, base), strata_string(path, path));
STRATA_CLASS(dl_close_begin,
	     (const void *handle, const void *base, const char *path, const void *caller),
	     strata_pointer(handle, handle), strata_pointer(base, base), strata_string(path, path),
	     strata_pointer(caller, caller));
STRATA_CLASS(dl_close_end, (const void *handle, int result), strata_pointer(handle, handle),
	     strata_int(result, result));
STRATA_CLASS(dl_sym_begin, (const void *handle, const char *name, const void *caller),
	     strata_pointer(handle, handle), strata_string(name, name),
	     strata_pointer(caller, caller));
STRATA_CLASS(dl_sym_end, (const void *handle, const void *ptr), strata_pointer(handle, handle),
	     strata_pointer(ptr, ptr));

STRATA_EVENT(dl, open_begin, INFO, dl_open_begin);
STRATA_EVENT(dl, open_end, INFO,
	     dl_open_end); /* .path: of the object's file; .handle 0: it failed */
STRATA_EVENT(dl, close_begin, INFO, dl_close_begin);
STRATA_EVENT(dl, close_end, INFO, dl_close_end);
STRATA_EVENT(dl, sym_begin, INFO, dl_sym_begin);
STRATA_EVENT(dl, sym_end, INFO, dl_sym_end); /* .ptr 0: it was not found, or is 0 */
#endif

#ifdef STRATA_LIBC_FUNCTIONS
STRATA_CLASS(functions_call, (const void *function, const void *caller),
	     strata_pointer(function, function), strata_pointer(caller, caller));
STRATA_EVENT(functions, entry, DEBUG_FUNCTION, functions_call);
STRATA_EVENT(functions, exit, DEBUG_FUNCTION, functions_call);
#endif

#endif /* STRATA_LIBC_EVENTS_H */
