/* SPDX-License-Identifier: MIT */
/*
 * thread_names.c - a thread has a new name: a record of strata:thread_name in each session whose records have their thread.
 * The tracepoint is libstrata's own, and is there from the first name on: most programs give none.
 */
#include "thread.h"

#define COMM_BYTES 16u

static const struct strata_field fields[] = {
	{ .name = "tid",
	  .type = STRATA_ABI_USER_INTEGER,
	  .bytes = 4,
	  .flags = STRATA_ABI_USER_FIELD_SIGNED,
	  .base = 10 },
	{ .name = "name", .type = STRATA_ABI_USER_STRING },
};

struct strata_tracepoint strata_thread_name = {
	.provider = "strata",
	.name = "thread_name",
	.file = "",
	.fields = fields,
	.nr_fields = sizeof(fields) / sizeof(*fields),
	.level = 6, /* STRATA_LEVEL_INFO */
};

/* The kernel has taken @name, of which it keeps 15 bytes, for thread @id; 0: for this one. errno stays. */
void strata_thread_named(int32_t id, const char *name)
{
	unsigned char memory[STRATA_USER_HEADROOM + sizeof(id) + COMM_BYTES + STRATA_USER_TAILROOM];
	unsigned char *payload = memory + STRATA_USER_HEADROOM;
	size_t bytes = strnlen(name, COMM_BYTES - 1);
	int saved = errno;

	strata_tell();
	if (strata_runtime.memory && strata_objects_has_own(&strata_thread_name) &&
	    __atomic_load_n(strata_thread_name.enabled, __ATOMIC_RELAXED)) {
		/*
		 * The id is not asked for before the memory is this process' own: in a child, the
		 * one that is noted may be the parent's until then.
		 */
		if (!id)
			id = (int32_t)strata_thread_id();
		memset(memory, 0, sizeof(memory));
		memcpy(payload, &id, sizeof(id));
		memcpy(payload + sizeof(id), name, bytes);
		strata_user_record(&strata_thread_name, payload,
				   (uint32_t)(sizeof(id) + bytes + 1));
	}
	errno = saved;
}
