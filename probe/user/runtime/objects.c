/* SPDX-License-Identifier: MIT */
/*
 * objects.c - the tracepoints of executables and shared objects, as the loader loads and unloads them.
 *
 * Each object with tracepoints registers itself in a constructor, and unregisters in a destructor. Between these:
 *
 *   register ── describe: a state and a description in the shared memory ── present: sites are enabled if the tracepoint is on
 *   rules    ── matched here with a tracepoint that comes; those that are there the tracer switches on and off by itself
 *   fork()   ── the lock is held across it, so that a child copies nothing half done
 *   unregister ── the tracepoint's state stays, as not present: another object may have the same tracepoint later
 *
 * The first object makes the shared memory, begins the session that the environment asks for, and announces the process to
 * the tracer. All objects share one lock, under which threads are not cancelled. A handler that has interrupted a thread at
 * the objects does not wait for it: it does without, or gives up after some tries.
 *
 * strata_object_register() and strata_object_unregister() are called by constructors and destructors; strata_objects_add() and
 * strata_objects_remove() by event classes that are made at run time (events.c), from any thread but no signal handler. What a
 * record needs of a tracepoint is in its state, so recording takes no lock and calls nothing here.
 *
 * A state has bits of sessions in `enabled`, which the record path tests first. The event's id in a session is set before
 * the session's bit, and the bit before the sites are patched. So no record is made with an id that is not there yet.
 */
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <strata/abi/rule.h>

#include "event.h"
#include "old_glibc.h"
#include "spans.h"
#include "thread.h"

/* Guards the lists of objects; fork() takes it too, so that no child has a half-written list. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * The cancel state of the thread before it took the lock. Threads are not cancelled while they hold
 * it, since open() and others are cancellation points.
 */
static int cancel_state; /* of the thread that holds it */

static void lock_objects(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&lock);
	cancel_state = state;
}

/*
 * Takes the lock if it is free. In libcs without pthread_mutex_trylock() the lock counts as taken, since a handler
 * may have interrupted the thread that holds it.
 */
static int try_lock_objects(void)
{
	return STRATA_OLDER_HAS(pthread_mutex_trylock) ? pthread_mutex_trylock(&lock) : EBUSY;
}

static void unlock_objects(void)
{
	int state = cancel_state;

	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(state, NULL);
}

static void after_fork_in_child(void)
{
	int saved = errno;

	if (strata_runtime.memory)
		strata_memory_after_fork();
	errno = saved;
	unlock_objects();
}

static int forks_code; /* of pthread_atfork(): 0, or what is wrong */

/*
 * Lets a fork() wait for the lock, so that it is free in the child. This is a constructor, since no thread may have the lock
 * before. A constructor that registers something may be even earlier, so the lock's users call it, too.
 */
__attribute__((constructor)) static void handle_forks(void)
{
	static int is_done;

	if (!__atomic_exchange_n(&is_done, 1, __ATOMIC_ACQ_REL))
		__atomic_store_n(&forks_code,
				 pthread_atfork(lock_objects, unlock_objects, after_fork_in_child),
				 __ATOMIC_RELEASE);
}

/* ---- descriptions ---- */

/*
 * The end of a description that is being written. @full: something had no room, or was too large.
 */
struct description {
	unsigned char *at;
	unsigned char *end;
	int full;
};

static void put(struct description *d, const void *bytes, size_t n)
{
	if (n > (size_t)(d->end - d->at)) {
		d->full = 1;
		return;
	}
	memcpy(d->at, bytes, n);
	d->at += n;
}

static void put_u8(struct description *d, uint8_t x)
{
	put(d, &x, 1);
}

static void put_u16(struct description *d, size_t x)
{
	uint16_t value = (uint16_t)x;

	if (x > UINT16_MAX)
		d->full = 1;
	put(d, &value, 2);
}

static void put_u32(struct description *d, uint32_t x)
{
	put(d, &x, 4);
}

static void put_string(struct description *d, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	put_u16(d, n);
	put(d, text ? text : "", n);
}

static void put_labels(struct description *d, const struct strata_enumeration *e)
{
	int64_t next = 0;
	uint32_t i;

	put_string(d, e->name);
	for (i = 0; i < e->nr_labels; i++) {
		const struct strata_label *label = &e->labels[i];
		int64_t from = label->automatic ? next : label->from;
		int64_t to = label->automatic ? next : label->to;

		put(d, &from, 8);
		put(d, &to, 8);
		put_string(d, label->label);
		next = (int64_t)((uint64_t)to + 1);
	}
}

static void put_field(struct description *d, const struct strata_field *f)
{
	put_u8(d, f->type);
	put_u8(d, f->element);
	put_u8(d, f->bytes);
	put_u8(d, f->flags);
	put_u8(d, f->base);
	put_u8(d, f->length_bytes);
	put_u16(d, f->enumeration ? f->enumeration->nr_labels : 0);
	put_u32(d, f->count);
	put_string(d, f->name);
	if (f->enumeration)
		put_labels(d, f->enumeration);
}

/* Appends a description of @t to the descriptions. Returns its size; 0 if there is no room. */
static uint32_t describe(const struct strata_tracepoint *t)
{
	unsigned char *all = strata_runtime.memory + STRATA_ABI_USER_DESCRIPTIONS_OFFSET;
	struct description d;
	uint32_t used = strata_runtime.control->descriptions_bytes, i;

	d.at = all + used;
	d.end = all + STRATA_ABI_USER_DESCRIPTIONS_BYTES;
	d.full = t->nr_fields > STRATA_ABI_USER_FIELDS_MAX;
	put_u8(&d, t->level & (uint8_t)~STRATA_USER_SPAN_ROLE);
	put_u8(&d, t->level / STRATA_USER_SPAN_BEGINS);
	put_u16(&d, t->nr_fields);
	put_u32(&d, t->line);
	put_string(&d, t->provider);
	put_string(&d, t->name);
	put_string(&d, t->file);
	for (i = 0; i < t->nr_fields && !d.full; i++)
		put_field(&d, &t->fields[i]);
	return d.full ? 0 : (uint32_t)(d.at - (all + used));
}

/*
 * Hash table of states by their descriptions, for programs with thousands: number + 1 of the last state of each hash,
 * and of the one made before it. Under the lock.
 */
#define STATE_HASHES 4096u
static uint16_t last_of_hash[STATE_HASHES], made_before[STRATA_ABI_USER_NR_STATES];
STRATA_ABI_ASSERT(STRATA_ABI_USER_NR_STATES < UINT16_MAX, "numbers of states");

/* Returns the FNV-1a hash of some bytes. */
static uint32_t hash_of(const unsigned char *bytes, uint32_t nr)
{
	uint32_t hash = 2166136261u, i;

	for (i = 0; i < nr; i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return (hash ^ hash >> 16) % STATE_HASHES;
}

/* The state of a tracepoint of an unloaded object with this same description: the object is back. */
static struct strata_abi_user_state *state_of_old(uint32_t description, uint32_t bytes,
						  uint32_t hash)
{
	const unsigned char *all = strata_runtime.memory + STRATA_ABI_USER_DESCRIPTIONS_OFFSET;
	uint32_t i;

	for (i = last_of_hash[hash]; i; i = made_before[i - 1]) {
		struct strata_abi_user_state *s = &strata_runtime.states[i - 1];

		if (!(s->flags & STRATA_ABI_USER_STATE_PRESENT) && s->description_bytes == bytes &&
		    s->description <= STRATA_ABI_USER_DESCRIPTIONS_BYTES - bytes &&
		    !memcmp(all + s->description, all + description, bytes))
			return s;
	}
	return NULL;
}

/* Find or make the state of @t; not yet PRESENT. NULL: no room, counted. */
static struct strata_abi_user_state *make_state(struct strata_tracepoint *t)
{
	struct strata_abi_user_control *control = strata_runtime.control;
	struct strata_abi_user_state *state;
	uint32_t bytes = describe(t), hash;

	if (!bytes) {
		control->refused++;
		return NULL;
	}
	hash = hash_of(strata_runtime.memory + STRATA_ABI_USER_DESCRIPTIONS_OFFSET +
			       control->descriptions_bytes,
		       bytes);
	state = state_of_old(control->descriptions_bytes, bytes, hash);
	if (!state) {
		if (control->nr_states >= STRATA_ABI_USER_NR_STATES) {
			control->refused++;
			return NULL;
		}
		state = &strata_runtime.states[control->nr_states];
		state->description = control->descriptions_bytes;
		state->description_bytes = bytes;
		memset(state->ids, 0xff, sizeof(state->ids));
		control->descriptions_bytes += bytes;
		made_before[control->nr_states] = last_of_hash[hash];
		last_of_hash[hash] = (uint16_t)(control->nr_states + 1);
		/* RELEASE publishes the description. */
		__atomic_store_n(&control->nr_states, control->nr_states + 1, __ATOMIC_RELEASE);
	}
	state->nr_sites = 0;
	__atomic_store_n(&strata_span_keys[state - strata_runtime.states], strata_span_key_of(t),
			 __ATOMIC_RELAXED);
	return state;
}

/* ---- sites ---- */

static struct strata_tracepoint *tracepoint_of(const struct strata_site *site)
{
	return (struct strata_tracepoint *)((uintptr_t)&site->tracepoint +
					    (uintptr_t)(intptr_t)site->tracepoint);
}

static struct strata_abi_user_site *sites_of(const struct strata_abi_user_state *state)
{
	return (struct strata_abi_user_site *)(void *)(strata_runtime.memory +
						       STRATA_ABI_USER_DESCRIPTIONS_OFFSET +
						       state->sites);
}

/*
 * Room for the sites of a new or returning state; its nr_sites says how many. reserved[1] is how many fit
 * where .sites is: a library that comes back uses the same place.
 */
static void make_room_for_sites(struct strata_abi_user_state *state)
{
	struct strata_abi_user_control *control = strata_runtime.control;
	uint64_t begin = (control->descriptions_bytes + 7) & ~UINT64_C(7);
	uint64_t end = begin + state->nr_sites * sizeof(struct strata_abi_user_site);

	if (state->nr_sites <= state->reserved[1])
		return;
	if (end > STRATA_ABI_USER_DESCRIPTIONS_BYTES) {
		control->refused++;
		state->nr_sites = 0;
		return;
	}
	state->sites = (uint32_t)begin;
	state->reserved[1] = state->nr_sites;
	control->descriptions_bytes = (uint32_t)end;
}

/*
 * Note where the sites of the object's tracepoints are. First they are counted; then .reserved[0] is the
 * number of those noted so far.
 */
static void note_sites(const struct strata_object *object)
{
	const struct strata_site *site;
	struct strata_tracepoint *t;

	for (site = object->sites; site < object->sites_end; site++)
		if (site->code && tracepoint_of(site)->state)
			tracepoint_of(site)->state->nr_sites++;
	/* Tracepoints with the same description, as of a header's inline function, share one state. */
	for (t = object->tracepoints; t; t = t->next) {
		t->state->reserved[0] = 0;
		make_room_for_sites(t->state);
	}
	for (site = object->sites; site < object->sites_end; site++) {
		struct strata_abi_user_state *state = tracepoint_of(site)->state;
		uintptr_t code = (uintptr_t)&site->code + (uintptr_t)(intptr_t)site->code;
		struct strata_abi_user_site *to;

		if (!site->code || !state || state->reserved[0] >= state->nr_sites)
			continue;
		to = &sites_of(state)[state->reserved[0]++];
		to->address = code;
		memcpy(&to->displacement, (const void *)(code + 1), sizeof(to->displacement));
	}
}

static void enable_sites(const struct strata_abi_user_state *state, int memory,
			 unsigned char opcode)
{
	uint32_t i;
	int code;

	for (i = 0; i < state->nr_sites; i++) {
		code = strata_patch_site(memory, &sites_of(state)[i], opcode);
		if (code)
			strata_runtime.control->patch_errno = (uint32_t)-code;
	}
}

/* ---- rules ---- */

/* Returns whether session @slot records @t, by this version of its rules. */
static int selects(uint32_t slot, uint32_t version, const struct strata_tracepoint *t)
{
	const struct strata_abi_user_session *session = &strata_runtime.sessions[slot];
	const char *rules = version & 1 ? strata_other_rules(strata_runtime.memory, slot) :
					  session->rules;
	uint32_t bytes = version & 1 ? session->other_rules_bytes : session->rules_bytes;
	struct strata_abi_rule_subject subject;

	/*
	 * The thread names' tracepoint is selected by the session's flags: a session without rules
	 * selects no event.
	 */
	if (t == &strata_thread_name)
		return bytes && session->flags & STRATA_ABI_USER_SESSION_VTID;
	subject.provider = t->provider;
	subject.provider_bytes = strlen(t->provider);
	subject.name = t->name;
	subject.name_bytes = strlen(t->name);
	subject.level = t->level & (uint8_t)~STRATA_USER_SPAN_ROLE;
	return bytes <= STRATA_ABI_USER_RULES_BYTES &&
	       strata_abi_rules_select(rules, bytes, &subject);
}

static int is_active(const struct strata_abi_user_session *session)
{
	return __atomic_load_n(&session->status, __ATOMIC_SEQ_CST) ==
	       STRATA_ABI_USER_SESSION_ACTIVE;
}

/* Returns the active session that replaces the one of @generation; NR_SESSIONS if there is none. */
static uint32_t successor(uint64_t generation)
{
	uint32_t claimed = generation ? strata_sessions_claimed() : 0, slot;

	for (; claimed; claimed &= claimed - 1) {
		slot = (uint32_t)__builtin_ctz(claimed);
		if (is_active(&strata_runtime.sessions[slot]) &&
		    strata_load_relaxed(&strata_runtime.sessions[slot].replaces) == generation)
			return slot;
	}
	return STRATA_ABI_USER_NR_SESSIONS;
}

/* The id of @t in session @slot. The tracer may be giving one, too. Returns 0 if there are no more. */
static int has_id(const struct strata_tracepoint *t, uint32_t slot)
{
	uint16_t none = STRATA_ABI_USER_NO_ID;
	uint32_t id;

	if (__atomic_load_n(&t->state->ids[slot], __ATOMIC_ACQUIRE) != STRATA_ABI_USER_NO_ID)
		return 1;
	id = __atomic_fetch_add(&strata_runtime.sessions[slot].next_id, 1, __ATOMIC_RELAXED);
	if (id >= STRATA_ABI_USER_NO_ID)
		return 0;
	__atomic_compare_exchange_n(&t->state->ids[slot], &none, (uint16_t)id, 0, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
	return 1;
}

/* Moves @t from session @from to session @to at one moment. Either may be none. */
static void hand_over(const struct strata_tracepoint *t, uint32_t from, uint32_t to)
{
	uint32_t enabled = __atomic_load_n(&t->state->enabled, __ATOMIC_SEQ_CST);

	while (!__atomic_compare_exchange_n(&t->state->enabled, &enabled, (enabled & ~from) | to, 0,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

/*
 * Switch @t on or off in session @slot, as its rules say, if that is active; @before: the bit of the session in whose
 * place it is. Returns 0 if something has changed meanwhile: look again.
 */
static int apply_rules_once(const struct strata_tracepoint *t, uint32_t slot, uint32_t before)
{
	struct strata_abi_user_session *session = &strata_runtime.sessions[slot];
	const uint32_t bit = UINT32_C(1) << slot;
	uint64_t generation = strata_load_acquire(&session->generation);
	uint32_t version = __atomic_load_n(&session->rules_version, __ATOMIC_SEQ_CST);
	int selected;

	if (!is_active(session))
		return 1;
	selected = selects(slot, version, t) && has_id(t, slot);
	hand_over(t, before | (selected ? 0 : bit), selected ? bit : 0);
	/* The session may have ended meanwhile, and have looked before we switched on. */
	if (!is_active(session) || strata_load_relaxed(&session->generation) != generation) {
		__atomic_fetch_and(&t->state->enabled, ~bit, __ATOMIC_SEQ_CST);
		__atomic_store_n(&t->state->ids[slot], STRATA_ABI_USER_NO_ID, __ATOMIC_RELEASE);
		return 1;
	}
	return __atomic_load_n(&session->rules_version, __ATOMIC_SEQ_CST) == version;
}

/* The number of times that rules or filters may change while they are read. */
#define APPLY_TRIES 100

static void apply_rules(const struct strata_tracepoint *t, uint32_t slot)
{
	uint32_t next, before;
	int tries = APPLY_TRIES;

	do {
		before = 0;
		/* Sessions may have been replaced several times. */
		while ((next = successor(
				strata_load_acquire(&strata_runtime.sessions[slot].generation))) <
		       STRATA_ABI_USER_NR_SESSIONS) {
			before |= UINT32_C(1) << slot;
			slot = next;
			if (!tries--)
				return;
		}
	} while ((!apply_rules_once(t, slot, before) ||
		  successor(strata_load_acquire(&strata_runtime.sessions[slot].generation)) <
			  STRATA_ABI_USER_NR_SESSIONS) &&
		 tries-- > 0);
}

/* ---- objects ---- */

static int note_main_program(struct dl_phdr_info *info, size_t size, void *data)
{
	const struct strata_object *object = *(const struct strata_object **)data;
	uintptr_t address = (uintptr_t)object;
	int i;

	(void)size;
	/* The first object of another list of the loader (dlmopen()) is a library. */
	if ((uintptr_t)info->dlpi_phdr != getauxval(AT_PHDR))
		return 1;
	for (i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
		    address - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr <
			    info->dlpi_phdr[i].p_memsz)
			*(const struct strata_object **)data = NULL;
	return 1; /* the first one, where it is the main program, is all that we want to see */
}

/*
 * A tracer may write to the code of the main program, which is never unmapped. A library may be gone, and
 * something else in its place, between the tracer's look and its write: its sites test the flag.
 */
static int in_main_program(const struct strata_object *object)
{
	const struct strata_object *found = object;

	dl_iterate_phdr(note_main_program, (void *)&found);
	return !found;
}

static void describe_object(struct strata_object *object)
{
	const struct strata_site *site;

	object->tracepoints = NULL;
	for (site = object->sites; site < object->sites_end; site++) {
		struct strata_tracepoint *t = tracepoint_of(site);

		if (t->state)
			continue;
		t->state = make_state(t);
		if (!t->state)
			continue;
		t->next = object->tracepoints;
		object->tracepoints = t;
	}
	note_sites(object);
}

static void present_object(struct strata_object *object)
{
	const uint32_t by_flag = strata_runtime.sites_by_flag || !in_main_program(object) ?
					 STRATA_ABI_USER_STATE_FLAG :
					 0;
	struct strata_tracepoint *t;
	int memory = -2;
	uint32_t claimed;

	for (t = object->tracepoints; t; t = t->next) {
		__atomic_store_n(&t->enabled, &t->state->enabled, __ATOMIC_RELEASE);
		/* Sequentially consistent, as the tracer's: one of us sees what the other did. */
		__atomic_store_n(&t->state->flags, STRATA_ABI_USER_STATE_PRESENT | by_flag,
				 __ATOMIC_SEQ_CST);
	}
	for (t = object->tracepoints; t; t = t->next) {
		for (claimed = strata_sessions_claimed(); claimed; claimed &= claimed - 1)
			apply_rules(t, (uint32_t)__builtin_ctz(claimed));
		if (!t->state->nr_sites || (!by_flag && !t->state->enabled))
			continue;
		if (memory == -2)
			memory = strata_patch_begin();
		enable_sites(t->state, memory, STRATA_ABI_USER_SITE_ON);
	}
	strata_patch_end(memory);
}

#ifdef STRATA_USER_COUNTER
/*
 * The first clock slot, until the tracer does it better. The best of several tries: the first reading of
 * the clock in a process faults its page in, and all times would be ahead by that.
 */
static void begin_clock(struct strata_abi_user_clock_slot *clock, uint64_t multiplier)
{
	uint64_t before, ns, width, narrowest = UINT64_MAX;
	int tries = 8;

	while (tries--) {
		before = strata_clock_cycles_ordered();
		ns = strata_machine_ns();
		width = strata_clock_cycles_ordered() - before;
		if (width < narrowest) {
			narrowest = width;
			clock->base_cycles = before + width / 2;
			clock->base_ns = ns;
		}
	}
	clock->multiplier = multiplier;
	/* The index is the slot's own, so the slot may be used. */
	clock->index = 0;
}
#endif

/*
 * Returns how many ids the tracepoints of @object will need in the session of this slot, before any
 * has one. A state has one id, however many tracepoints share it.
 */
static uint32_t ids_wanted(uint32_t slot, const struct strata_object *object)
{
	const struct strata_tracepoint *t;
	uint32_t nr = 0;

	if (!object)
		return 0;
	for (t = object->tracepoints; t; t = t->next)
		if (t->state->ids[slot] == STRATA_ABI_USER_NO_ID && selects(slot, 0, t))
			t->state->ids[slot] = (uint16_t)nr++;
	for (t = object->tracepoints; t; t = t->next)
		t->state->ids[slot] = STRATA_ABI_USER_NO_ID;
	return nr;
}

/* Sessions that tracers want before anybody knows of this process. */
struct beginning {
	const struct strata_object
		*object; /* the first one; NULL: a class made at run time is before it */
	uint32_t slot;	 /* the next one's */
};

/*
 * Begins a session that a tracer requests from the begin: the one that started this program, or one that listens. Ids
 * that have no short header, because more objects come, are recorded on the slow path. Returns its slot, or -1.
 */
static int begin_requested_session(const struct strata_user_request *request, void *context)
{
	struct beginning *beginning = (struct beginning *)context;
	const uint32_t slot = beginning->slot;
	struct strata_abi_user_session *session = &strata_runtime.sessions[slot];

	if (slot == STRATA_ABI_USER_NR_SESSIONS)
		return -1;
	beginning->slot++;
#ifdef STRATA_USER_COUNTER
	/* The memory has no reader yet. */
	if (strata_runtime.control->clock_kind != STRATA_ABI_USER_CLOCK_TSC &&
	    request->clock_multiplier && !strata_without_clock()) {
		begin_clock(&strata_runtime.control->clock[0], request->clock_multiplier);
		strata_runtime.control->clock_kind = STRATA_ABI_USER_CLOCK_TSC;
	}
#endif
	session->generation = request->generation;
	session->flags = request->flags;
	session->subbuf_bytes = request->subbuf_bytes;
	session->nr_subbufs = request->nr_subbufs;
	session->rules_bytes = (uint32_t)request->rules_bytes;
	memcpy(session->rules, request->rules, request->rules_bytes);
	if (ids_wanted(slot, beginning->object) > STRATA_RING_COMPACT_EXTENDED)
		session->flags |= STRATA_ABI_USER_SESSION_LARGE_HEADER;
	session->filter_bytes = (uint32_t)request->filter_bytes;
	strata_environment_bytes(request->filter, request->filter_bytes,
				 strata_runtime.memory + STRATA_ABI_USER_FILTERS_OFFSET +
					 (uint64_t)slot * STRATA_ABI_FILTER_BYTES);
	session->nr_contexts = (uint32_t)request->nr_contexts;
	strata_environment_bytes(request->contexts, request->nr_contexts, session->contexts);
	return strata_session_create(slot) ? -1 : (int)slot;
}

/*
 * Starts the runtime with its first object, or without one: makes the memory, begins the sessions that are asked for, and
 * announces the process.
 */
static void begin(struct strata_object *object)
{
	struct beginning beginning = { object, 0 };
	struct strata_user_listeners listeners;
	struct strata_user_request request;
	struct strata_user_way way;
	uint32_t no_session;
	int slot = -1, code;

	no_session = strata_environment_request(&request, &strata_runtime.starter);
	code = strata_starter_find(&way);
	if (!no_session && code)
		no_session = STRATA_ABI_USER_NO_SESSION_SOCKET;
	if (strata_memory_create(&way) || __atomic_load_n(&forks_code, __ATOMIC_ACQUIRE)) {
		strata_announce_to_starter(&way);
		strata_listeners_find(&listeners, !code, NULL, NULL);
		strata_announce_to_listeners(&listeners);
		return;
	}
	strata_runtime.control->no_session = no_session;
	if (no_session == STRATA_ABI_USER_NO_SESSION_SOCKET)
		strata_runtime.control->no_session_errno = (uint32_t)code;
	if (object)
		describe_object(object);
	strata_loaded_look(object);
	if (!no_session)
		slot = begin_requested_session(&request, &beginning);
	strata_listeners_find(&listeners, !code, begin_requested_session, &beginning);
	/* RELEASE publishes the memory: a tracer that sees the magic number sees everything above. */
	__atomic_store_n(&strata_runtime.control->magic, STRATA_ABI_USER_MAGIC, __ATOMIC_RELEASE);
	if (!strata_announce_to_starter(&way) && slot >= 0)
		strata_session_free((uint32_t)slot);
	strata_announce_to_listeners(&listeners);
}

/*
 * Lets the sites of all objects test a flag, since soon they may not be patched from outside. A
 * tracer looks at STATE_FLAG before it writes, and again after it has switched one off. If another
 * thread is at the objects, or this is a handler that interrupted one, the sites stay as they are.
 */
void strata_objects_by_flag(void)
{
	const struct strata_object *object;
	struct strata_tracepoint *t;
	int memory, state;

	if (strata_sandboxed())
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (try_lock_objects()) {
		pthread_setcancelstate(state, NULL);
		return;
	}
	memory = strata_runtime.sites_by_flag ? -1 : strata_patch_begin();
	if (!strata_runtime.sites_by_flag && strata_memory_own()) {
		for (object = strata_runtime.objects; object; object = object->next)
			for (t = object->tracepoints; t; t = t->next) {
				__atomic_fetch_or(&t->state->flags, STRATA_ABI_USER_STATE_FLAG,
						  __ATOMIC_SEQ_CST);
				enable_sites(t->state, memory, STRATA_ABI_USER_SITE_ON);
			}
		strata_runtime.sites_by_flag = 1;
	}
	strata_patch_end(memory);
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(state, NULL);
}

static void change_generation(void)
{
	__atomic_fetch_add(&strata_runtime.control->generation, 1, __ATOMIC_RELEASE);
}

/* The number of times that the lock is tried before a thread gives up. */
#define OWN_TRIES 1000

/* Switches a tracepoint without sites, which @state is of, on where it is wanted. Under the lock. */
void strata_objects_add_again(struct strata_tracepoint *t, struct strata_abi_user_state *state)
{
	uint32_t claimed;

	state->nr_sites = 0;
	__atomic_store_n(&t->enabled, &state->enabled, __ATOMIC_RELAXED);
	__atomic_store_n(&t->state, state, __ATOMIC_RELEASE);
	/* Sequentially consistent, as in present_object(). */
	__atomic_store_n(&t->state->flags,
			 STRATA_ABI_USER_STATE_PRESENT | STRATA_ABI_USER_STATE_FLAG,
			 __ATOMIC_SEQ_CST);
	for (claimed = strata_sessions_claimed(); claimed; claimed &= claimed - 1)
		apply_rules(t, (uint32_t)__builtin_ctz(claimed));
	change_generation();
}

/* Describes a tracepoint without sites, and switches it on where it is wanted. Under the lock. Returns 0: no room. */
int strata_objects_add(struct strata_tracepoint *t)
{
	struct strata_abi_user_state *state = make_state(t);

	if (!state)
		return 0;
	strata_objects_add_again(t, state);
	return 1;
}

/*
 * Marks the state of a tracepoint that is no longer there. The caller holds the lock. Its state stays; what records
 * it now writes nothing.
 */
void strata_objects_remove(struct strata_tracepoint *t)
{
	struct strata_abi_user_state *state = t->state;

	__atomic_fetch_and(&state->flags, ~STRATA_ABI_USER_STATE_PRESENT, __ATOMIC_SEQ_CST);
	__atomic_store_n(&t->state, NULL, __ATOMIC_RELEASE);
	/*
	 * A tracer that has seen the tracepoint as present may still set a bit, so the pointer to the state is
	 * cleared too.
	 */
	__atomic_store_n(&state->enabled, 0, __ATOMIC_SEQ_CST);
	change_generation();
}

/*
 * Returns whether libstrata's own tracepoint @t is described. It has no site and never goes. Who interrupted somebody
 * at the objects, in a handler, waits in vain, and finds none.
 */
int strata_objects_has_own(struct strata_tracepoint *t)
{
	static int has; /* -1: there is no room */
	int tries = OWN_TRIES, state;

	if (!strata_memory_own())
		return 0;
	while (!__atomic_load_n(&has, __ATOMIC_ACQUIRE) && tries--) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		if (!try_lock_objects()) {
			if (!has)
				/* RELEASE publishes the state: a thread that sees the value may use the tracepoint. */
				__atomic_store_n(&has, strata_objects_add(t) ? 1 : -1,
						 __ATOMIC_RELEASE);
			pthread_mutex_unlock(&lock);
		} else if (!__atomic_load_n(&strata_runtime.shut_in, __ATOMIC_RELAXED)) {
			sched_yield();
		}
		pthread_setcancelstate(state, NULL);
	}
	return __atomic_load_n(&has, __ATOMIC_ACQUIRE) > 0;
}

static int begun;

/*
 * Takes the lock of the objects; any thread may call it at any time. A caller that also needs the loader's lock (dlopen(),
 * dl_iterate_phdr()) must take that one first: a constructor in another thread holds the loader's lock while it waits
 * for this one.
 */
void strata_objects_lock(void)
{
	handle_forks();
	strata_interpose_begin();
	lock_objects();
}

void strata_objects_unlock(void)
{
	unlock_objects();
}

/* Starts the runtime without an object, unless it runs. Under the lock. Returns 0: this process has no memory to share. */
int strata_objects_begin(void)
{
	if (!begun)
		begin(NULL);
	begun = 1;
	return strata_runtime.memory && strata_memory_own();
}

void strata_object_register(struct strata_object *object)
{
	int saved = errno;

	if (object->version != STRATA_USER_OBJECT_VERSION || object->sites >= object->sites_end)
		return;
	strata_objects_lock();
	if (!begun) {
		begin(object);
	} else if (strata_runtime.memory && strata_memory_own()) {
		describe_object(object);
		strata_loaded_look(object);
	}
	begun = 1;
	if (strata_runtime.memory && strata_memory_own()) {
		present_object(object);
		object->next = strata_runtime.objects;
		strata_runtime.objects = object;
		change_generation();
	}
	unlock_objects();
	errno = saved;
}

/*
 * Waits a limited time for another thread that holds the lock: a signal handler that has interrupted the holder would
 * wait for ever.
 */
void strata_user_look(void)
{
	int saved = errno, tries = OWN_TRIES, state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	while (try_lock_objects()) {
		if (!tries-- || __atomic_load_n(&strata_runtime.shut_in, __ATOMIC_RELAXED))
			goto out;
		sched_yield();
	}
	if (strata_runtime.memory && strata_memory_own() && strata_loaded_look(NULL))
		change_generation();
	pthread_mutex_unlock(&lock);
out:
	pthread_setcancelstate(state, NULL);
	errno = saved;
}

void strata_object_unregister(struct strata_object *object)
{
	struct strata_object **link;
	struct strata_tracepoint *t;

	lock_objects();
	for (link = &strata_runtime.objects; *link && *link != object; link = &(*link)->next)
		;
	/* A child that could not make memory of its own must not write to its parent's. */
	if (*link && strata_memory_own()) {
		*link = object->next;
		for (t = object->tracepoints; t; t = t->next) {
			__atomic_fetch_and(&t->state->flags, ~STRATA_ABI_USER_STATE_PRESENT,
					   __ATOMIC_RELEASE);
			/* The object may register again; a thread that is recording has its own copy. */
			__atomic_store_n(&t->state, NULL, __ATOMIC_RELAXED);
		}
		/*
		 * The last pass for objects without tracepoints, also at the end of the program. Not in the child of
		 * a fork: who had the loader's lock then may not be there, and it is not made anew.
		 */
		if (!strata_runtime.control->parent_pid)
			strata_loaded_look(NULL);
		strata_loaded_goes(object);
		change_generation();
	}
#ifdef STRATA_RUNTIME_ARCHIVE
	/*
	 * The runtime may go with the object; what it has open and mapped would be more with each dlopen().
	 * A main program goes with the process.
	 */
	if (!strata_runtime.objects && !strata_events_live && strata_runtime.memory &&
	    !strata_without_clock() && !strata_sandboxed() && !in_main_program(object))
		strata_memory_leave();
#endif
	unlock_objects();
}
