/* SPDX-License-Identifier: MIT */
/*
 * stdio.c - calls of libc's streams, and dprintf(). What is written to a stream is written to its file later: the events are
 * of what the program says, and of the flush that it asks for.
 *
 * What headers make a part of the program (getc_unlocked(), putchar_unlocked()) is not seen.
 */
#define STRATA_LIBC_STDIO
/* These must be libc's functions, and not the replacements that headers define. */
#undef _FORTIFY_SOURCE
#ifndef __NO_INLINE__
#define __NO_INLINE__ 1
#endif

#include <stdarg.h>
#include <stdio.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "io.h"

/* ---- files ---- */

#define FOPENS(name)                                                                           \
	STRATA_LIBC_NEXT_IS(name)                                                              \
	STRATA_LIBC_EXPORT FILE *name(const char *path, const char *mode)                      \
	{                                                                                      \
		FILE *file;                                                                    \
		int saved;                                                                     \
                                                                                               \
		if (!WANTS(fopen))                                                             \
			return STRATA_LIBC_NEXT(name)(path, mode);                             \
		STRATA_TRACE_EVENT(io, fopen_begin, STRATA_LIBC_CALLER);                       \
		file = STRATA_LIBC_NEXT(name)(path, mode);                                     \
		saved = errno;                                                                 \
		STRATA_TRACE_EVENT(io, fopen_end, is_read(file ? 0 : -1, saved) ? path : NULL, \
				   is_read(file ? 0 : -1, saved) ? mode : NULL, file,          \
				   file ? fileno(file) : -1, file ? 0 : saved);                \
		errno = saved;                                                                 \
		return file;                                                                   \
	}

FOPENS(fopen)
FOPENS(fopen64)
CALLS(int, fclose, fclose, (FILE * file), (file), file)

/* Headers define macros with these names. */
#undef fread_unlocked
#undef fwrite_unlocked
#undef fflush_unlocked

CALLS(int, fflush, fflush, (FILE * file), (file), file)
CALLS(int, fflush, fflush_unlocked, (FILE * file), (file), file)

/* ---- elements, lines ---- */

#define FMOVES(event, name, parameters, ...)                            \
	RECORDS(size_t, event, name, parameters, , (file, size, nmemb), \
		((ssize_t)result, result < nmemb && ferror(file) ? errno : 0), __VA_ARGS__)

FMOVES(fread, fread, (void *to, size_t size, size_t nmemb, FILE *file), to, size, nmemb, file)
FMOVES(fread, __fread_chk, (void *to, size_t room, size_t size, size_t nmemb, FILE *file), to, room,
       size, nmemb, file)
FMOVES(fwrite, fwrite, (const void *from, size_t size, size_t nmemb, FILE *file), from, size, nmemb,
       file)
FMOVES(fread, fread_unlocked, (void *to, size_t size, size_t nmemb, FILE *file), to, size, nmemb,
       file)
FMOVES(fread, __fread_unlocked_chk, (void *to, size_t room, size_t size, size_t nmemb, FILE *file),
       to, room, size, nmemb, file)
FMOVES(fwrite, fwrite_unlocked, (const void *from, size_t size, size_t nmemb, FILE *file), from,
       size, nmemb, file)

#undef fputs_unlocked
#undef fgets_unlocked

/* libc itself computes the length of the text first. */
CALLS(int, fputs, fputs, (const char *text, FILE *file), (file, strlen(text)), text, file)
CALLS(int, fputs, fputs_unlocked, (const char *text, FILE *file), (file, strlen(text)), text, file)
CALLS(int, fputs, puts, (const char *text), (stdout, strlen(text) + 1), text)

/* Defines fgets(). The length of a line ends at its first zero, since fgets() does not say more. */
#define LINES(name, parameters, ...)                                                          \
	RECORDS(char *, fgets, name, parameters, , (file, n > 0 ? (size_t)n : 0),             \
		(result ? (ssize_t)strlen(result) : -1, !result && ferror(file) ? errno : 0), \
		__VA_ARGS__)

LINES(fgets, (char *to, int n, FILE *file), to, n, file)
LINES(fgets_unlocked, (char *to, int n, FILE *file), to, n, file)
LINES(__fgets_chk, (char *to, size_t room, int n, FILE *file), to, room, n, file)
LINES(__fgets_unlocked_chk, (char *to, size_t room, int n, FILE *file), to, room, n, file)

#define LONG_LINES(name, parameters, ...)                     \
	RECORDS(ssize_t, getline, name, parameters, , (file), \
		(result, result < 0 && !feof(file) ? errno : 0), __VA_ARGS__)

LONG_LINES(getline, (char **to, size_t *room, FILE *file), to, room, file)
LONG_LINES(getdelim, (char **to, size_t *room, int end, FILE *file), to, room, end, file)
LONG_LINES(__getdelim, (char **to, size_t *room, int end, FILE *file), to, room, end, file)

/* ---- printf ---- */

CALLS(int, printf, vprintf, (const char *format, va_list list), (stdout), format, list)
CALLS(int, printf, vfprintf, (FILE * file, const char *format, va_list list), (file), file, format,
      list)
CALLS(int, dprintf, vdprintf, (int fd, const char *format, va_list list), (fd), fd, format, list)
CALLS(int, printf, __vprintf_chk, (int flag, const char *format, va_list list), (stdout), flag,
      format, list)
CALLS(int, printf, __vfprintf_chk, (FILE * file, int flag, const char *format, va_list list),
      (file), file, flag, format, list)
CALLS(int, dprintf, __vdprintf_chk, (int fd, int flag, const char *format, va_list list), (fd), fd,
      flag, format, list)

/*
 * Defines functions with `...`. They cannot be called with the arguments that they got, only their
 * variants with a list, which are the same in libc and nowhere else: a function that another object
 * has put in their place is jumped to, and not recorded. So the function is a jump to one of these
 * two. Processors look for a landing pad where an indirect call may lead: hint 34 is `bti c`, which
 * not every assembler knows.
 */
#if defined(__GLIBC__) && defined(__x86_64__)
#define JUMP(name)    \
	"endbr64\n\t" \
	"jmp *go_" #name "(%rip)\n\t"
#elif defined(__GLIBC__) && defined(__aarch64__)
#define JUMP(name)                                \
	"hint #34\n\t"                            \
	"adrp x16, go_" #name "\n\t"              \
	"ldr x16, [x16, #:lo12:go_" #name "]\n\t" \
	"br x16\n\t"
#endif

#ifdef JUMP
static int is_of_libc(const void *function)
{
	Dl_info libc, found;

	return function && STRATA_OLDER_HAS(dladdr) &&
	       dladdr((const void *)(uintptr_t)gnu_get_libc_version, &libc) &&
	       dladdr(function, &found) && libc.dli_fbase == found.dli_fbase;
}

#define PRINTS(event, name, list_name, parameters, said, last, ...)                           \
	int name parameters;                                                                  \
	STRATA_LIBC_NEXT_IS(name)                                                             \
	static int recorded_##name parameters                                                 \
	{                                                                                     \
		const _Bool is_wanted = WANTS(event);                                         \
		va_list list;                                                                 \
		int result;                                                                   \
                                                                                              \
		if (is_wanted)                                                                \
			STRATA_TRACE_EVENT(io, event##_begin, OPEN said, STRATA_LIBC_CALLER); \
		va_start(list, last);                                                         \
		result = STRATA_LIBC_NEXT(list_name)(__VA_ARGS__, list);                      \
		va_end(list);                                                                 \
		if (is_wanted)                                                                \
			STRATA_TRACE_EVENT(io, event##_end, result, ERROR(result));           \
		return result;                                                                \
	}                                                                                     \
	__attribute__((used)) static __typeof__(name) *go_##name = recorded_##name;           \
	__attribute__((constructor)) static void choose_##name(void)                          \
	{                                                                                     \
		if (!is_of_libc((const void *)(uintptr_t)strata_next_##name()) ||             \
		    !is_of_libc((const void *)(uintptr_t)strata_next_##list_name()))          \
			__atomic_store_n(&go_##name, strata_next_##name(), __ATOMIC_RELAXED); \
	}                                                                                     \
	__asm__(".pushsection .text." #name ", \"ax\", %progbits\n\t"                         \
		".balign 16\n\t"                                                              \
		".globl " #name "\n\t"                                                        \
		".type " #name ", %function\n" #name ":\n\t"                                  \
		".cfi_startproc\n\t" JUMP(name) ".cfi_endproc\n\t"                            \
						".size " #name ", . - " #name "\n\t"          \
						".popsection");

PRINTS(printf, printf, vprintf, (const char *format, ...), (stdout), format, format)
PRINTS(printf, fprintf, vfprintf, (FILE * file, const char *format, ...), (file), format, file,
       format)
PRINTS(dprintf, dprintf, vdprintf, (int fd, const char *format, ...), (fd), format, fd, format)
PRINTS(printf, __printf_chk, __vprintf_chk, (int flag, const char *format, ...), (stdout), format,
       flag, format)
PRINTS(printf, __fprintf_chk, __vfprintf_chk, (FILE * file, int flag, const char *format, ...),
       (file), format, file, flag, format)
PRINTS(dprintf, __dprintf_chk, __vdprintf_chk, (int fd, int flag, const char *format, ...), (fd),
       format, fd, flag, format)
#endif

/* ---- characters ---- */

#undef getc
#undef getchar
#undef fgetc_unlocked
#undef getc_unlocked
#undef getchar_unlocked
#undef putc
#undef putchar
#undef fputc_unlocked
#undef putc_unlocked
#undef putchar_unlocked

#define WANTS_EACH(event)                                                                          \
	__builtin_expect(STRATA_ENABLED(io_all, event) && !strata_libc_is_own(STRATA_LIBC_CALLER), \
			 0)

/*
 * Defines functions for one character, with one event after each call. The character itself is not
 * recorded.
 */
#define CHARACTERS(event, name, parameters, file, ...)                                          \
	STRATA_LIBC_EXPORT int name parameters;                                                 \
	STRATA_LIBC_NEXT_IS(name)                                                               \
	STRATA_LIBC_EXPORT int name parameters                                                  \
	{                                                                                       \
		int result;                                                                     \
                                                                                                \
		if (!WANTS_EACH(event))                                                         \
			return STRATA_LIBC_NEXT(name)(__VA_ARGS__);                             \
		result = STRATA_LIBC_NEXT(name)(__VA_ARGS__);                                   \
		STRATA_TRACE_EVENT(io_all, event, file, result < 0 ? -1 : 1,                    \
				   result < 0 && ferror(file) ? errno : 0, STRATA_LIBC_CALLER); \
		return result;                                                                  \
	}

CHARACTERS(fputc, fputc, (int character, FILE *file), file, character, file)
CHARACTERS(fputc, putc, (int character, FILE *file), file, character, file)
CHARACTERS(fputc, _IO_putc, (int character, FILE *file), file, character, file)
CHARACTERS(fputc, putchar, (int character), stdout, character)
CHARACTERS(fputc, fputc_unlocked, (int character, FILE *file), file, character, file)
CHARACTERS(fputc, putc_unlocked, (int character, FILE *file), file, character, file)
CHARACTERS(fputc, putchar_unlocked, (int character), stdout, character)
CHARACTERS(fgetc, fgetc, (FILE * file), file, file)
CHARACTERS(fgetc, getc, (FILE * file), file, file)
CHARACTERS(fgetc, _IO_getc, (FILE * file), file, file)
CHARACTERS(fgetc, fgetc_unlocked, (FILE * file), file, file)
CHARACTERS(fgetc, getc_unlocked, (FILE * file), file, file)
CHARACTERS(fgetc, getchar, (void), stdin)
CHARACTERS(fgetc, getchar_unlocked, (void), stdin)

__attribute__((constructor)) static void begin(void)
{
	strata_libc_find_own();
}
