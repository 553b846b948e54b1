/* SPDX-License-Identifier: MIT */
/*
 * thread_memory.h - memory of each thread that exists from the thread's begin, since a signal handler may be the first to
 * use it. glibc has little of it for libraries that are loaded later, and does not get back all of what one had that
 * is unloaded (with 144 bytes each, loading two in turn failed at the tenth). So the archive, which may be part of
 * such a library, has descriptors where the compiler knows them: they lead to that memory while there is any. In a
 * program the linker makes one instruction of them.
 */
#ifndef STRATA_RUNTIME_THREAD_MEMORY_H
#define STRATA_RUNTIME_THREAD_MEMORY_H

#ifdef STRATA_TLS_DESCRIPTORS
#define STRATA_OF_THREAD __thread
#else
#define STRATA_OF_THREAD __thread __attribute__((tls_model("initial-exec")))
#endif

#endif /* STRATA_RUNTIME_THREAD_MEMORY_H */
