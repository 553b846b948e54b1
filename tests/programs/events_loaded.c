/* SPDX-License-Identifier: MIT */
/*
 * events_loaded.c - as a binding of another language does: not linked with libstrata, which it loads if it is there.
 *
 *   events_loaded LIBRARY
 */
#include <dlfcn.h>
#include <strata/events.h>

#include "count.h"

#define FUNCTION(name) __typeof__(name) *name##_ = (__typeof__(name) *)dlsym(library, #name)

int main(int argc, char **argv)
{
	const struct strata_event_field fields[] = { STRATA_FIELD("number", STRATA_U64),
						     STRATA_FIELD("text", STRATA_STRING) };
	const struct strata_event_class made = STRATA_EVENT_CLASS("loaded", STRATA_INFO, fields, 2);
	struct strata_provider *provider;
	struct strata_event *event;
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	uint64_t i;

	if (!library) {
		printf("no library\n");
		return 0;
	}
	FUNCTION(strata_events_version);
	FUNCTION(strata_provider_register);
	FUNCTION(strata_event_register);
	FUNCTION(strata_event_record);
	test_must(strata_events_version_() >= 1);
	test_must(!strata_provider_register_("loaded", &provider, NULL, 0));
	test_must(!strata_event_register_(provider, &made, &event, NULL, 0));
	for (i = 0; i < 50; i++) {
		const union strata_value values[] = { strata_value_uint(i),
						      strata_value_data("of a binding") };

		test_must(strata_event_is_on(event) && !strata_event_record_(event, values, 2));
	}
	test_count("events_loaded", 50);
	return 0;
}
