/*
 * Publication by write position (restartable sequences), as a Promela model.
 *
 * Two threads share one CPU's ring. A thread copies its record beyond the write position and
 * then stores the new position: that store is the commit. Whenever the other thread gets the
 * CPU, or a signal arrives, the kernel sends an interrupted critical section to its abort
 * address, so its next store never happens. The reader runs on another CPU and trusts one
 * rule: everything below the write position is there.
 *
 * ON_CPU keeps the two threads from running at once. One atomic {} is one access that others
 * can see, plus locals and ghost state.
 *
 * Discard mode. Configuration (-D): NREC records per thread; WRAP as in commit.pml.
 * Mutants: see README.md.
 */
#ifndef NREC
#define NREC	3
#endif
#ifdef WRAP
#define START	248
#else
#define START	8
#endif
#ifndef NSWITCH
#define NSWITCH	3	/* preemptions, signals and migrations that come at a bad moment */
#endif

#define SB	4
#define NSB	2
#define BUF	(SB * NSB)

#define W(x)		((x) & 255)
#define OFFSET(pos)	((pos) % SB)
#define SLOT(pos)	(((pos) / SB) % NSB)
#define BEGIN(pos)	((pos) - OFFSET(pos))
#define END(pos)	W(BEGIN(pos) + SB)
#define TAG(pos)	((pos) / SB + 1)
#define STAMP(pos)	((pos) % 128 + 1)
/* Open, room and size are one comparison: signed, as positions go round. */
#define ROOM(pos, n)	(W(room_end - (pos)) < 128 && W(room_end - (pos)) >= (n))
#define CELL(s, off)	cell[(s) * SB + (off)]

byte write_count = START;	/* [byte position] everything below is there */
byte read_count = START;	/* [byte position] everything below is released */
byte room_end = START;		/* [byte position] where records may end, or less: the limit */
byte open_tag[NSB], data_size[NSB];
byte cell[BUF];
byte written, discarded;	/* [record] */

/* ---- Ghost state, and the kernel ---- */
bit  cpu;			/* which thread runs */
bit  in_section[2];		/* an abort address is armed */
bit  aborted[2];		/* control continues at the abort address */
byte tried, elsewhere, delivered, nswitch;
byte returned;			/* threads that have finished */

#define ON_CPU		(cpu == me)

/* A store inside the critical section: it happens before an abort, or not at all. */
#define STORE(what) \
	if \
	:: atomic { ON_CPU && !aborted[me] -> what } \
	:: atomic { ON_CPU && aborted[me] -> goto aborted_here } \
	fi

/* A mutant: the same store as plain code, which the kernel does not restart. */
#define UNGUARDED(what)	atomic { ON_CPU -> what }

#ifdef MUT_UNGUARDED_PUBLISH
#define STORE_POSITION	UNGUARDED
#else
#define STORE_POSITION	STORE
#endif
#ifdef MUT_UNGUARDED_CLOSE
#define STORE_BOUNDARY	UNGUARDED
#else
#define STORE_BOUNDARY	STORE
#endif

/* Ends the section: the position's store is its last instruction. */
#define COMMIT(pos)	write_count = (pos); in_section[me] = 0; aborted[me] = 0

/*
 * Two threads. size 0 stands for a flush, which is the packet switch alone; each thread
 * ends with one.
 */
active [2] proctype Thread() {
	byte me = _pid, old, size, i;
	bit no_room;

next_record:
	if
	:: atomic { ON_CPU && i < NREC -> i++; tried++; if :: size = 1 :: size = 2 fi }
	:: atomic { ON_CPU && i == NREC -> i++; size = 0 }
	:: atomic { ON_CPU && i > NREC -> i = 0; returned++; cpu = 1 - me; goto out }
	fi;

restart:
	atomic { ON_CPU -> in_section[me] = 1; aborted[me] = 0; old = write_count };
	if
	:: size != 0 && ROOM(old, size)
	:: OFFSET(old) == 0 && size == 0 ->
		/* nothing to flush */
		atomic { ON_CPU -> in_section[me] = 0; aborted[me] = 0; old = 0; goto next_record }
	:: OFFSET(old) != 0 && (size == 0 || OFFSET(old) + size >= SB) && !(size != 0 && ROOM(old, size)) ->
		/* packet switch: close info, then the boundary, which publishes the padding */
#ifdef MUT_SIZE_AFTER_BOUNDARY
		STORE_BOUNDARY(COMMIT(END(old)));
		atomic { ON_CPU -> data_size[SLOT(old)] = OFFSET(old) };
#else
		STORE(data_size[SLOT(old)] = OFFSET(old));
		STORE_BOUNDARY(COMMIT(END(old)));
#endif
		goto restart
	:: OFFSET(old) == 0 && size != 0 && !ROOM(old, size) ->
		/* ACQUIRE: pairs with the reader's release of the slot */
		atomic { ON_CPU -> no_room = (W(old - read_count) >= BUF) };
		if
		:: no_room ->
			/* the count is the section's last store */
			STORE(discarded++; in_section[me] = 0);
			atomic { no_room = 0; old = 0; goto next_record }
		:: else
		fi;
#ifdef MUT_LIMIT_BEFORE_OPEN
		STORE(room_end = W(END(old) - 1));
#endif
		STORE(open_tag[SLOT(old)] = TAG(old))
	:: OFFSET(old) != 0 && size != 0 && OFFSET(old) + size < SB && !ROOM(old, size) ->
		/* whoever finds it too low raises it */
#ifdef MUT_LIMIT_TOO_HIGH
		STORE(room_end = W(END(old) + 1))
#else
		STORE(room_end = W(END(old) - 1))
#endif
	fi;
#ifdef MUT_POSITION_FIRST
	STORE(write_count = W(old + size); written++);
#endif
	STORE(CELL(SLOT(old), OFFSET(old)) = STAMP(old));
	if
	:: size == 2 -> STORE(CELL(SLOT(old), OFFSET(old) + 1) = STAMP(old))
	:: else
	fi;
	/* RELEASE: pairs with the reader's load of write_count */
#ifdef MUT_POSITION_FIRST
	STORE(in_section[me] = 0);
#else
	STORE_POSITION(COMMIT(W(old + size)); written++);
#endif
	atomic { old = 0; goto next_record }

aborted_here:
	/* On this CPU again: try again. Or migrated: the record goes to another CPU's ring. */
	atomic { in_section[me] = 0; aborted[me] = 0; no_room = 0; old = 0 };
	if
	:: goto restart
	:: atomic { size != 0 -> elsewhere++; goto next_record }
	fi;
out:
	skip
}

/* The kernel aborts a section when it delivers a signal, or runs the other thread. */
active proctype Kernel() {
end:	do
	:: atomic { nswitch < NSWITCH && returned < 2 ->
		nswitch++;
		aborted[cpu] = in_section[cpu];
		if
		:: returned == 0 -> cpu = 1 - cpu
		:: true
		fi }
	od
}

/*
 * Reads live: from pos to the write position, or to the end of the packet's data when the
 * position is beyond the packet. Waits instead of polling, as in commit.pml.
 */
active proctype Reader() {
	byte pos = START, seen, limit, off, stamp;

	do
	:: atomic { returned == 2 && read_count == write_count -> break }
	:: atomic { write_count != pos -> seen = write_count };
	   d_step {
		assert(W(seen - read_count) <= BUF);	/* the position never goes back */
		assert(open_tag[SLOT(pos)] == TAG(pos));
		if
		:: W(seen - BEGIN(pos)) >= SB -> limit = data_size[SLOT(pos)]
		:: else -> limit = OFFSET(seen)
		fi;
		assert(OFFSET(pos) <= limit);
		off = OFFSET(pos);
		do
		:: off < limit ->
			assert(CELL(SLOT(pos), off) == STAMP(W(BEGIN(pos) + off)));
			delivered++;
			stamp = CELL(SLOT(pos), off);
			do
			:: off < limit && CELL(SLOT(pos), off) == stamp -> off++
			:: else -> break
			od
		:: else -> break
		od;
		off = 0; stamp = 0
	   };
	   if
	   :: W(seen - BEGIN(pos)) >= SB ->
		/* RELEASE of the slot */
		atomic { pos = END(pos); read_count = pos; seen = 0; limit = 0 }
	   :: else ->
		atomic { pos = W(BEGIN(pos) + limit); seen = 0; limit = 0 }
	   fi
	od;
	assert(delivered == written);
	assert(tried == written + discarded + elsewhere)
}

#ifdef CLAIMS
/* <> everything published is delivered, whatever was aborted on the way */
ltl drained { <> (returned == 2 && read_count == write_count && delivered == written) }

/* [] nothing is delivered before its position was stored */
ltl committed { [] (delivered <= written) }
#endif
