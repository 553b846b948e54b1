/* SPDX-License-Identifier: MIT */
/* capture.c - see capture.h. Not thread-safe but for strata_user_record() of silenced records. */
#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_SITES 4096

struct known_site {
	const struct strata_object *object;
	struct strata_tracepoint *tracepoint;
	unsigned char *code; /* NULL: the site looks at .enabled */
};

static struct known_site sites[MAX_SITES];
static unsigned nr_sites;
static const uint32_t off = 0;
static const uint32_t on_in_session_3 = 1u << 3;

static char records[1 << 20];
static size_t used;
static int silent;

uint64_t capture_records, capture_staged, capture_unstaged, capture_refused, capture_replaced;
uint64_t capture_max_stage = 1 << 20;

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("capture: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(1);
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list arguments;
	int length;

	if (silent)
		return;
	va_start(arguments, format);
	length = vsnprintf(records + used, sizeof(records) - used, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= sizeof(records) - used)
		fail("more than %zu bytes of records", sizeof(records));
	used += (size_t)length;
}

static void check_code(const unsigned char *code)
{
	if (code && *code != STRATA_ABI_USER_SITE_DORMANT && *code != STRATA_ABI_USER_SITE_ON)
		fail("site %p: opcode 0x%x is neither dormant nor on", (const void *)code, *code);
}

void strata_object_register(struct strata_object *object)
{
	if (object->version != STRATA_USER_OBJECT_VERSION)
		fail("object version %u", object->version);
	for (const struct strata_site *site = object->sites; site != object->sites_end; site++) {
		struct known_site *known = &sites[nr_sites++];

		if (nr_sites > MAX_SITES)
			fail("more than %d sites", MAX_SITES);
		known->object = object;
		known->tracepoint = (struct strata_tracepoint *)((uintptr_t)&site->tracepoint +
								 (uintptr_t)site->tracepoint);
		known->code = site->code ? (unsigned char *)((uintptr_t)&site->code +
							     (uintptr_t)site->code) :
					   NULL;
		check_code(known->code);
		known->tracepoint->enabled = &off;
	}
}

void strata_object_unregister(struct strata_object *object)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < nr_sites; i++) {
		if (sites[i].object != object)
			sites[kept++] = sites[i];
	}
	nr_sites = kept;
}

static int is_called(const struct strata_tracepoint *tracepoint, const char *provider,
		     const char *event)
{
	return !strcmp(tracepoint->provider, provider) && !strcmp(tracepoint->name, event);
}

static void write_opcode(unsigned char *code, unsigned char opcode)
{
	int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	check_code(code);
	if (memory < 0 || pwrite(memory, &opcode, 1, (off_t)(uintptr_t)code) != 1)
		fail("/proc/self/mem: %s", strerror(errno));
	close(memory);
}

unsigned capture_switch(const char *provider, const char *event, int on)
{
	unsigned found = 0;

	for (unsigned i = 0; i < nr_sites; i++) {
		if (!is_called(sites[i].tracepoint, provider, event))
			continue;
		found++;
		__atomic_store_n(&sites[i].tracepoint->enabled, on ? &on_in_session_3 : &off,
				 __ATOMIC_RELAXED);
		if (sites[i].code)
			write_opcode(sites[i].code,
				     on ? STRATA_ABI_USER_SITE_ON : STRATA_ABI_USER_SITE_DORMANT);
	}
	return found;
}

unsigned capture_sites(const char *provider, const char *event)
{
	unsigned found = 0;

	for (unsigned i = 0; i < nr_sites; i++)
		found += (unsigned)is_called(sites[i].tracepoint, provider, event);
	return found;
}

const struct strata_tracepoint *capture_find(const char *provider, const char *event)
{
	for (unsigned i = 0; i < nr_sites; i++) {
		if (is_called(sites[i].tracepoint, provider, event))
			return sites[i].tracepoint;
	}
	return NULL;
}

struct reader {
	const unsigned char *at;
	const unsigned char *end;
	const char *field;
};

static const unsigned char *take(struct reader *reader, size_t bytes)
{
	const unsigned char *here = reader->at;

	if ((size_t)(reader->end - here) < bytes)
		fail("field '%s' needs %zu bytes; the payload has %td left", reader->field, bytes,
		     reader->end - here);
	reader->at += bytes;
	return here;
}

static uint64_t take_integer(struct reader *reader, const struct strata_field *field)
{
	const unsigned char *from = take(reader, field->bytes);
	uint64_t value = 0;

	for (unsigned i = 0; i < field->bytes; i++) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		const int from_the_end = !(field->flags & STRATA_ABI_USER_FIELD_NETWORK);
#else
		const int from_the_end = 0;
#endif
		value = value << 8 | from[from_the_end ? field->bytes - 1u - i : i];
	}
	if (field->flags & STRATA_ABI_USER_FIELD_SIGNED && field->bytes < 8 &&
	    value >> (field->bytes * 8 - 1))
		value |= UINT64_MAX << (field->bytes * 8);
	return value;
}

static void say_label(const struct strata_enumeration *enumeration, int64_t value)
{
	int64_t next = 0;

	for (uint32_t i = 0; i < enumeration->nr_labels; i++) {
		const struct strata_label *label = &enumeration->labels[i];
		const int64_t from = label->automatic ? next : label->from;
		const int64_t to = label->automatic ? next : label->to;

		next = to + 1;
		if (from <= value && value <= to) {
			say("%s:%s(%" PRId64 ")", enumeration->name, label->label, value);
			return;
		}
	}
	say("%s:?(%" PRId64 ")", enumeration->name, value);
}

static void say_integer(struct reader *reader, const struct strata_field *field)
{
	const uint64_t value = take_integer(reader, field);

	if (field->enumeration) {
		say_label(field->enumeration, (int64_t)value);
	} else if (field->flags & STRATA_ABI_USER_FIELD_BOOL) {
		if (value > 1)
			fail("field '%s': truth value %" PRIu64, field->name, value);
		say("%s", value ? "true" : "false");
	} else if (field->base == 16) {
		say("0x%" PRIx64, value);
	} else if (field->base == 8) {
		say("0%" PRIo64, value);
	} else if (field->base == 2) {
		say("0b");
		for (int bit = field->bytes * 8; bit--;)
			say("%d", (int)(value >> bit & 1));
	} else if (field->flags & STRATA_ABI_USER_FIELD_SIGNED) {
		say("%" PRId64, (int64_t)value);
	} else {
		say("%" PRIu64, value);
	}
}

static void say_number(struct reader *reader, const struct strata_field *field, uint8_t type)
{
	if (type == STRATA_ABI_USER_FLOAT) {
		float single = 0;
		double real = 0;

		if (field->bytes == sizeof(single)) {
			memcpy(&single, take(reader, sizeof(single)), sizeof(single));
			real = (double)single;
		} else if (field->bytes == sizeof(real)) {
			memcpy(&real, take(reader, sizeof(real)), sizeof(real));
		} else {
			fail("field '%s': a float of %u bytes", field->name, field->bytes);
		}
		say("%g", real);
	} else if (type == STRATA_ABI_USER_INTEGER) {
		say_integer(reader, field);
	} else {
		fail("field '%s': type %u", field->name, type);
	}
}

static void say_elements(struct reader *reader, const struct strata_field *field, uint32_t count)
{
	if (field->element == STRATA_ABI_USER_TEXT) {
		const char *text = (const char *)take(reader, count);
		const size_t length = strnlen(text, count);

		for (size_t i = length; i < count; i++) {
			if (text[i] && field->type == STRATA_ABI_USER_ARRAY)
				fail("field '%s': text behind a NUL", field->name);
		}
		say("'%.*s'", (int)length, text);
		return;
	}
	say("[");
	for (uint32_t i = 0; i < count; i++) {
		say("%s", i ? "," : "");
		say_number(reader, field, field->element);
	}
	say("]");
}

static void say_field(struct reader *reader, const struct strata_field *field)
{
	uint32_t count = field->count;

	reader->field = field->name;
	say(" %s=", field->name);
	switch (field->type) {
	case STRATA_ABI_USER_STRING: {
		const void *end = memchr(reader->at, 0, (size_t)(reader->end - reader->at));

		if (!end)
			fail("field '%s': no NUL", field->name);
		say("\"%s\"", (const char *)reader->at);
		capture_replaced += strchr((const char *)reader->at, '?') != NULL;
		reader->at = (const unsigned char *)end + 1;
		break;
	}
	case STRATA_ABI_USER_SEQUENCE:
		if (field->length_bytes != sizeof(count))
			fail("field '%s': length of %u bytes", field->name, field->length_bytes);
		memcpy(&count, take(reader, sizeof(count)), sizeof(count));
		__attribute__((fallthrough));
	case STRATA_ABI_USER_ARRAY:
		say_elements(reader, field, count);
		break;
	default:
		say_number(reader, field, field->type);
	}
}

void strata_user_record(struct strata_tracepoint *tracepoint, unsigned char *payload,
			uint32_t payload_bytes)
{
	struct reader reader = { payload, payload + payload_bytes, "" };

	/* Writes into the headroom and reads the tailroom, as libstrata may. */
	memset(payload - STRATA_USER_HEADROOM, 0xa5, STRATA_USER_HEADROOM);
	for (unsigned i = 0; i < STRATA_USER_TAILROOM; i++) {
		if (payload[payload_bytes + i])
			fail("%s:%s: byte %u of the tailroom is not 0", tracepoint->provider,
			     tracepoint->name, i);
	}
	__atomic_fetch_add(&capture_records, 1, __ATOMIC_RELAXED);
	say("%s:%s[%u]", tracepoint->provider, tracepoint->name,
	    tracepoint->level & (uint8_t)~STRATA_USER_SPAN_ROLE);
	for (unsigned i = 0; i < tracepoint->nr_fields; i++)
		say_field(&reader, &tracepoint->fields[i]);
	if (reader.at != reader.end)
		fail("%s:%s: %td bytes behind the last field", tracepoint->provider,
		     tracepoint->name, reader.end - reader.at);
	say("\n");
}

void strata_user_record_word(struct strata_tracepoint *tracepoint, uint64_t word)
{
	unsigned char memory[STRATA_USER_HEADROOM + sizeof(word) + STRATA_USER_TAILROOM] = { 0 };

	memcpy(memory + STRATA_USER_HEADROOM, &word, sizeof(word));
	strata_user_record(tracepoint, memory + STRATA_USER_HEADROOM, sizeof(word));
}

unsigned char *strata_user_stage(struct strata_tracepoint *tracepoint, uint64_t payload_bytes)
{
	unsigned char *memory;

	(void)tracepoint;
	errno = ENOMEM; /* libstrata makes no promise */
	if (payload_bytes > capture_max_stage) {
		capture_refused++;
		return NULL;
	}
	memory = (unsigned char *)malloc(STRATA_USER_HEADROOM + (size_t)payload_bytes +
					 STRATA_USER_TAILROOM + sizeof(payload_bytes));
	if (!memory)
		fail("no memory");
	memset(memory, 0xa5, STRATA_USER_HEADROOM + (size_t)payload_bytes + STRATA_USER_TAILROOM);
	memcpy(memory + STRATA_USER_HEADROOM + payload_bytes + STRATA_USER_TAILROOM, &payload_bytes,
	       sizeof(payload_bytes));
	capture_staged++;
	return memory + STRATA_USER_HEADROOM;
}

void strata_user_unstage(unsigned char *payload, uint64_t payload_bytes)
{
	if (memcmp(payload + payload_bytes + STRATA_USER_TAILROOM, &payload_bytes,
		   sizeof(payload_bytes)) != 0)
		fail("unstaged %" PRIu64 " bytes, which is not what was staged, or overrun",
		     payload_bytes);
	capture_unstaged++;
	errno = EINVAL; /* nor here */
	free(payload - STRATA_USER_HEADROOM);
}

void capture_silence(int on)
{
	silent = on;
}

void capture_expect(const char *file, int line, const char *expected)
{
	records[used] = 0;
	used = 0;
	if (!strcmp(records, expected))
		return;
	fprintf(stderr, "%s:%d: expected\n%s%s:%d: recorded\n%s", file, line, expected, file, line,
		records);
	exit(1);
}

void capture_check(const char *file, int line, int truth, const char *text)
{
	if (truth)
		return;
	fprintf(stderr, "%s:%d: not true: %s\n", file, line, text);
	exit(1);
}
