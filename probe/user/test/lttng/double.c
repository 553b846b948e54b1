/* SPDX-License-Identifier: MIT */
/*
 * double.c - stands in for libstrata in the tests of the LTTng headers: prints what is registered, and
 * each record decoded by its tracepoint's fields. With STRATA_DOUBLE=on everything is on from the start.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <strata/user/object.h>

static uint32_t on = 5; /* sessions 0 and 2 */
static struct strata_abi_user_state state;

static struct strata_tracepoint *tracepoint_of(const struct strata_site *site)
{
	return (struct strata_tracepoint *)((uintptr_t)&site->tracepoint +
					    (uintptr_t)(intptr_t)site->tracepoint);
}

static int wanted(void)
{
	const char *value = getenv("STRATA_DOUBLE");

	return value && !strcmp(value, "on");
}

static void fail(const char *what)
{
	printf("double: %s\n", what);
	fflush(stdout);
	abort();
}

static void switch_on(const struct strata_site *site)
{
	unsigned char *code = (unsigned char *)&site->code + site->code;
	uintptr_t page = (uintptr_t)code & ~(uintptr_t)4095;

	if (!site->code)
		return;
	if (*code != STRATA_ABI_USER_SITE_DORMANT && *code != STRATA_ABI_USER_SITE_ON)
		fail("no site there");
	if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) &&
	    mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
		fail("mprotect");
	*code = STRATA_ABI_USER_SITE_ON;
}

static void print_field(const struct strata_field *f)
{
	static const char *const types[] = { "?", "int", "float", "string", "array", "seq", "text" };
	uint32_t i;

	printf(" %s:%s", f->name, types[f->type]);
	if (f->element)
		printf("/%s", types[f->element]);
	printf("%s%d", f->flags & STRATA_ABI_USER_FIELD_SIGNED ? "s" : "", f->bytes * 8);
	if (f->flags & STRATA_ABI_USER_FIELD_NETWORK)
		printf("be");
	if (f->base == 16)
		printf("x");
	if (f->count)
		printf("[%" PRIu32 "]", f->count);
	if (f->length_bytes)
		printf("(%d)", f->length_bytes * 8);
	if (!f->enumeration)
		return;
	printf("<%s", f->enumeration->name);
	for (i = 0; i < f->enumeration->nr_labels; i++) {
		const struct strata_label *l = &f->enumeration->labels[i];

		if (l->automatic)
			printf(" %s", l->label);
		else if (l->from == l->to)
			printf(" %s=%" PRId64, l->label, l->from);
		else
			printf(" %s=%" PRId64 "..%" PRId64, l->label, l->from, l->to);
	}
	printf(">");
}

static void print_tracepoint(const char *what, const struct strata_tracepoint *t)
{
	const char *file = t->file ? strrchr(t->file, '/') : NULL;
	uint32_t i;

	printf("%s %s:%s @%d %s", what, t->provider, t->name, t->level,
	       file ? file + 1 : (t->file ? t->file : "nowhere"));
	for (i = 0; i < t->nr_fields; i++)
		print_field(&t->fields[i]);
	printf("\n");
	fflush(stdout);
}

void strata_object_register(struct strata_object *object)
{
	const struct strata_site *site;

	if (object->version != STRATA_USER_OBJECT_VERSION)
		fail("version");
	object->tracepoints = NULL;
	for (site = object->sites; site < object->sites_end; site++) {
		struct strata_tracepoint *t = tracepoint_of(site);

		if (*t->enabled)
			fail("on before it is registered");
		if (!t->state) {
			t->state = &state;
			t->next = object->tracepoints;
			object->tracepoints = t;
			print_tracepoint("+", t);
		}
	}
	for (site = object->sites; site < object->sites_end && wanted(); site++)
		switch_on(site);
	for (struct strata_tracepoint *t = object->tracepoints; t && wanted(); t = t->next)
		t->enabled = &on;
}

void strata_object_unregister(struct strata_object *object)
{
	struct strata_tracepoint *t;

	for (t = object->tracepoints; t; t = t->next)
		printf("- %s:%s\n", t->provider, t->name);
	fflush(stdout);
}

static uint64_t load(const unsigned char *p, unsigned int bytes, int big)
{
	uint64_t value = 0;
	unsigned int i;

	for (i = 0; i < bytes; i++)
		value |= (uint64_t)p[big ? bytes - 1 - i : i] << 8 * i;
	return value;
}

static void print_value(const struct strata_field *f, uint8_t type, const unsigned char *p)
{
	uint64_t raw = load(p, f->bytes, f->flags & STRATA_ABI_USER_FIELD_NETWORK);
	float f32;
	double f64;

	if (type == STRATA_ABI_USER_FLOAT && f->bytes == 4) {
		memcpy(&f32, p, 4);
		printf("%g", (double)f32);
	} else if (type == STRATA_ABI_USER_FLOAT) {
		memcpy(&f64, p, 8);
		printf("%g", f64);
	} else if (f->base == 16) {
		printf("0x%" PRIx64, raw);
	} else if (f->flags & STRATA_ABI_USER_FIELD_SIGNED) {
		printf("%" PRId64, (int64_t)(raw << (64 - 8 * f->bytes)) >> (64 - 8 * f->bytes));
	} else {
		printf("%" PRIu64, raw);
	}
}

static const unsigned char *print_elements(const struct strata_field *f, uint64_t count,
					   const unsigned char *p, const unsigned char *end)
{
	uint64_t i;

	if (count > (uint64_t)(end - p) / f->bytes)
		fail("elements end behind the payload");
	if (f->element == STRATA_ABI_USER_TEXT) {
		printf("\"");
		for (i = 0; i < count; i++)
			if (count <= 64 || i < 8)
				printf(p[i] ? "%c" : ".", p[i]);
		printf(count > 64 ? "...%" PRIu64 "\"" : "\"", count);
		return p + count;
	}
	printf("[");
	for (i = 0; i < count; i++, p += f->bytes)
		if (count <= 64 || i < 8) {
			printf(i ? " " : "");
			print_value(f, f->element, p);
		}
	printf(count > 64 ? " ...%" PRIu64 "]" : "]", count);
	return p;
}

void strata_user_record(struct strata_tracepoint *t, unsigned char *payload, uint32_t bytes)
{
	const unsigned char *p = payload, *end = payload + bytes;
	unsigned char headroom[STRATA_USER_HEADROOM], tailroom[STRATA_USER_TAILROOM];
	size_t n;
	uint32_t i;

	if (*t->enabled == 0)
		return;
	memset(payload - sizeof(headroom), 0xee, sizeof(headroom));
	memcpy(tailroom, end, sizeof(tailroom));
	printf("%s:%s {", t->provider, t->name);
	for (i = 0; i < t->nr_fields; i++) {
		const struct strata_field *f = &t->fields[i];
		uint64_t count = f->count;

		printf("%s %s = ", i ? "," : "", f->name);
		switch (f->type) {
		case STRATA_ABI_USER_STRING:
			n = strnlen((const char *)p, (size_t)(end - p));
			if (n == (size_t)(end - p))
				fail("a string has no end");
			printf(n > 64 ? "\"%.8s...%zu\"" : "\"%s\"", (const char *)p, n);
			p += n + 1;
			break;
		case STRATA_ABI_USER_SEQUENCE:
			count = load(p, f->length_bytes, 0);
			p += f->length_bytes;
			/* fall through */
		case STRATA_ABI_USER_ARRAY:
			p = print_elements(f, count, p, end);
			break;
		default:
			print_value(f, f->type, p);
			p += f->bytes;
		}
	}
	printf(" }\n");
	fflush(stdout);
	if (p != end)
		fail("payload and fields are of different length");
}

unsigned char *strata_user_stage(struct strata_tracepoint *t, uint64_t bytes)
{
	unsigned char *memory = bytes > (1 << 28) ?
					NULL :
					malloc(bytes + STRATA_USER_HEADROOM + STRATA_USER_TAILROOM);

	printf("%s:%s %s\n", t->provider, t->name, memory ? "staged" : "discarded");
	return memory ? memory + STRATA_USER_HEADROOM : NULL;
}

void strata_user_unstage(unsigned char *payload, uint64_t bytes)
{
	(void)bytes;
	free(payload - STRATA_USER_HEADROOM);
}
