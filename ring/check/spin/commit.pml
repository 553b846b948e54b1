/*
 * By-commit publication of the ring buffer, as a Promela model.
 *
 * Producers reserve by CAS on write_count, write, then add to the slot's commit word; the
 * add that completes a sub-buffer publishes it through seq. One reader runs concurrently.
 *
 * Each atomic {} below makes at most one access to memory that others can see, or several that
 * the real code makes with one instruction (a CAS, an add on a packed word). What else stands
 * in the same atomic {} is local, or is ghost state: written here only to state a claim. ON_CPU
 * holds a step back while a handler runs on top of it; steps on locals need no such care.
 *
 * Configuration (-D): OVERWRITE (else discard mode); SMP (two producers on two CPUs, else one
 * CPU whose interrupts nest up to DEPTH deep, NIRQ in all); NREC records per producer; WRAP
 * starts just below the wrap of positions; BIG makes every record fill a sub-buffer.
 * Mutants (MUT_) and stronger claims (CLAIM_): see README.md.
 *
 * Source: Desnoyers & Dagenais, "Lockless Multi-Core High-Throughput Buffering", section 4.
 * Differs from it: seq holds the end of the last published lap and not a byte count, and a
 * record never ends where its sub-buffer ends (no "exact fill").
 */
#ifndef NREC
#define NREC	4
#endif
#ifndef NIRQ
#define NIRQ	2
#endif
#ifndef DEPTH
#define DEPTH	1
#endif
#ifdef WRAP
#define START	248	/* the first lap ends at the wrap */
#define SEQ0	244	/* START + SB - BUF: as if a lap had been published */
#else
#define START	8
#define SEQ0	4
#endif

#define SB	4		/* sub-buffer size [byte] */
#define NSB	2		/* sub-buffers */
#define BUF	(SB * NSB)	/* buffer size [byte] */
#ifdef OVERWRITE
#define NPAGE	(NSB + 1)	/* one page more than slots: the reader's */
#else
#define NPAGE	NSB
#endif

/* Positions are 64-bit in the code and 8-bit here; both are subtracted modulo the word. */
#define W(x)		((x) & 255)
#define OFFSET(pos)	((pos) % SB)
#define SLOT(pos)	(((pos) / SB) % NSB)
#define BEGIN(pos)	((pos) - OFFSET(pos))
#define END(pos)	W(BEGIN(pos) + SB)
#define AT_OR_AFTER(a, b)	(W((a) - (b)) < 128)
#define TAG(pos)	((pos) / SB + 1)	/* sub-buffer number, never 0 */
#define NO_TAG		0			/* the page holds nothing unread */
#define STAMP(pos)	((pos) % 128 + 1)	/* payload byte of the record that begins at pos */
#define CELL(p, off)	cell[(p) * SB + (off)]

/* ---- Shared state, as in the real structures ---- */
byte write_count = START;	/* [byte position] everything below is reserved; never reduced */
byte read_count = START;	/* [byte position] everything below is released */
byte committed_count = START;	/* [byte position] watermark, for live reading */

byte commit_bytes[NSB];		/* commit word, one half: bytes committed in this lap */
byte commit_recs[NSB];		/* commit word, other half: records committed in this lap */
byte seq[NSB] = { SEQ0, START };	/* end position of the last published lap of this slot */

#ifdef OVERWRITE
byte entry_page[NSB] = { 0, 1 };	/* table entry {page, held, tag}: one word, always one access */
bit  entry_held[NSB];
byte entry_tag[NSB];
byte reader_page = NSB;		/* private to the reader */
#endif

byte open_tag[NPAGE];		/* open info, by the opener */
byte data_size[NPAGE];		/* close info, by the closer [byte] */
byte page_recs[NPAGE];		/* record count of the packet, by the publisher */
byte cell[NPAGE * SB];		/* payload */

byte written, discarded_full, discarded_nested;		/* [record] */
byte overwritten_recs, overwritten_packets;

/* ---- Ghost state ---- */
byte level;			/* interrupt level that runs; not used with SMP */
byte tried, delivered, delivered_packets, published_packets;
byte mask[NSB];			/* bit i: byte i of the slot's current lap is committed */
byte users[NPAGE];		/* writers between "page is mine to write" and their commit */
bit  reading;			/* the reader is between get and put ... */
byte reading_page;		/* ... on this page */
bit  stopped;			/* no producer starts anything new */
bit  done;			/* all producers have returned, and the last packet is flushed */
byte running = 2;		/* producers that have not returned (SMP) */

#ifdef SMP
#define ON_CPU	true
#else
#define ON_CPU	(level == me)
#endif

/* A writer that stores into a page shares it with no one but other writers. */
#define ASSERT_NOT_READ(p)	assert(!(reading && reading_page == (p)))
#define ASSERT_MINE(p)		assert(users[p] > 0); ASSERT_NOT_READ(p)

/* ---- Producer: overwrite mode's claim on the page ---- */

/*
 * own_page() - make sure that the table entry is held, then page is ours to write.
 *
 * Called after the reservation at pos, by every writer of it: the opener may have been
 * interrupted before it got here. Whoever flips the entry owes the loss count.
 * The page's record count may be read after the flip: the only one to store it is the next
 * publisher, and it waits for our commit. The opener must not clear it.
 */
inline own_page(pos) {
#ifdef OVERWRITE
#ifdef MUT_OPENER_ONLY_HOLDS
	if
	:: opener ->
#endif
	atomic { ON_CPU;
		taken = NO_TAG;
		if
		:: !entry_held[SLOT(pos)] ->
			taken = entry_tag[SLOT(pos)];
			entry_held[SLOT(pos)] = 1;
			entry_tag[SLOT(pos)] = NO_TAG
		:: else
		fi;
		page = entry_page[SLOT(pos)];
		users[page]++
	};
#ifdef MUT_OPENER_ONLY_HOLDS
	:: else -> atomic { ON_CPU -> taken = NO_TAG; page = entry_page[SLOT(pos)]; users[page]++ }
	fi;
#endif
	if
#ifdef MUT_COUNT_WITHOUT_TAG
	:: true ->
#else
	:: taken != NO_TAG ->
#endif
		atomic { ON_CPU -> overwritten_packets++; taken = page_recs[page] };
		atomic { ON_CPU -> overwritten_recs = overwritten_recs + taken; taken = NO_TAG }
	:: else
	fi
#else
	skip	/* discard mode: slot and page are the same, and the reservation gave it to us */
#endif
}

/* push_reader() - the opener of pos moves read_count out of the slot that it reuses. */
inline push_reader(pos) {
#if defined(OVERWRITE) && !defined(MUT_NO_PUSH)
	do
	:: atomic { ON_CPU && W(pos - read_count) >= BUF -> seen = read_count };
	   atomic { ON_CPU;
		if
		:: read_count == seen -> read_count = W(seen + SB)
		:: else
		fi;
		seen = 0
	   }
	:: atomic { ON_CPU && W(pos - read_count) < BUF -> break }
	od
#else
	skip
#endif
}

/* ---- Producer: commit and publication ---- */

/*
 * publish() - the slot's commit word has reached SB.
 *
 * From the add that yields SB until the store to seq this writer alone touches the slot: a
 * reservation in it needs that seq. So none of these stores is a CAS.
 */
inline publish(pos) {
#ifdef MUT_PUBLISH_BEFORE_RESET
	atomic { ON_CPU -> seq[SLOT(pos)] = END(pos); published_packets++ };
#endif
	atomic { ON_CPU -> ASSERT_NOT_READ(page); page_recs[page] = recs };
	atomic { ON_CPU -> commit_bytes[SLOT(pos)] = 0; commit_recs[SLOT(pos)] = 0 };
#ifdef MUT_SPLIT_COUNTER
	atomic { ON_CPU -> seen = written };
	atomic { ON_CPU -> written = seen + recs; seen = 0 };
#else
	atomic { ON_CPU -> written = written + recs };
#endif
#ifdef OVERWRITE
	/* Plain store: the entry is held, so neither the reader nor a writer changes it. */
	atomic { ON_CPU;
		assert(entry_held[SLOT(pos)] && entry_page[SLOT(pos)] == page);
		entry_held[SLOT(pos)] = 0;
		entry_tag[SLOT(pos)] = TAG(pos)
	};
#endif
#ifndef MUT_PUBLISH_BEFORE_RESET
	atomic { ON_CPU;
		/* RELEASE: pairs with the reader's and with the next opener's load of seq */
		assert(seq[SLOT(pos)] == W(END(pos) - BUF));
		seq[SLOT(pos)] = END(pos);
		published_packets++
	}
#endif
}
/* commit() - @n bytes and @r records, which begin at @pos, are in place. */
inline commit(pos, n, r) {
#ifdef MUT_WATERMARK_EARLY
	atomic { ON_CPU -> seen = write_count };
#endif
	atomic { ON_CPU;
		commit_bytes[SLOT(pos)] = commit_bytes[SLOT(pos)] + n;
		commit_recs[SLOT(pos)] = commit_recs[SLOT(pos)] + r;
		sum = commit_bytes[SLOT(pos)];
		recs = commit_recs[SLOT(pos)];
		assert(sum <= SB);
		users[page]--;
		mask[SLOT(pos)] = mask[SLOT(pos)] | (((1 << n) - 1) << OFFSET(pos))
	};
	/*
	 * Watermark. write_count is read after the add: equality then says that nothing was
	 * reserved here between the two, and nothing of this sub-buffer is outstanding.
	 */
	atomic { ON_CPU;
#ifndef MUT_WATERMARK_EARLY
		seen = write_count;
#endif
#ifdef MUT_WATERMARK_NO_TEST
		raise = (W(seen - BEGIN(pos)) <= SB)
#else
		raise = (W(seen - BEGIN(pos)) == sum)
#endif
	};
	if
	:: raise ->
		atomic { ON_CPU;
#ifdef WATERMARK_MAX
			/* a CAS loop which gives up when it finds a higher value; here one step */
			if
			:: AT_OR_AFTER(seen, committed_count) -> committed_count = seen
			:: else
			fi;
#else
#ifdef CLAIM_WATERMARK_MONOTONE
			assert(AT_OR_AFTER(seen, committed_count));
#endif
			committed_count = seen;
#endif
			/* all of this sub-buffer below the watermark is there; or it is history */
			assert(AT_OR_AFTER(seq[SLOT(pos)], END(pos))
			    || ((mask[SLOT(pos)] + 1) % (1 << W(seen - BEGIN(pos)))) == 0);
#ifdef CLAIM_WATERMARK_ABSOLUTE
			/* and so is the sub-buffer before it */
			assert(AT_OR_AFTER(seq[SLOT(W(BEGIN(pos) - SB))], BEGIN(pos)));
#endif
			raise = 0
		}
	:: else
	fi;
	seen = 0;
	if
	:: sum == SB -> publish(pos)
	:: else
	fi;
	atomic { sum = 0; recs = 0; page = 0 }
}


/* ---- Producer: reservation ---- */

/* What a successful CAS of write_count gives. In discard mode the slot is the page. */
#ifdef OVERWRITE
#define RESERVED(pos)	skip
#else
#define RESERVED(pos)	page = SLOT(pos); users[page]++; assert(!(reading && reading_page == page))
#endif

/*
 * close_step() - end the sub-buffer in which old lies, with at least one byte of padding.
 * A failed CAS means that another writer moved write_count; the caller looks again.
 */
inline close_step() {
	atomic { ON_CPU;
		won = 0;
		if
		:: write_count == old -> write_count = END(old); won = 1; RESERVED(old)
		:: else
		fi
	};
	if
	:: won ->
		own_page(old);
		atomic { ON_CPU -> ASSERT_MINE(page); data_size[page] = OFFSET(old) };
		commit(old, SB - OFFSET(old), 0);
		won = 0
	:: else
	fi
}

/* count_discard() - one record is discarded; why. */
inline count_discard(reason) {
#ifdef MUT_SPLIT_DISCARD
	atomic { ON_CPU -> seen = reason };
	atomic { ON_CPU -> reason = seen + 1; seen = 0; gave_up = 1 }
#else
	atomic { ON_CPU -> reason = reason + 1; gave_up = 1 }
#endif
}

/*
 * reserve() - on leaving: gave_up, or [old, old + size) is ours and opener says whether
 * it is the first in its sub-buffer.
 *
 * A refusal stands only if write_count is still what the refusal was computed from.
 */
inline reserve() {
	do
	:: atomic { ON_CPU -> old = write_count };
	   if
	   :: atomic { ON_CPU && OFFSET(old) != 0 && OFFSET(old) + size < SB ->
		if
		:: write_count == old -> write_count = old + size; won = 1; RESERVED(old)
		:: else
		fi };
		if
		:: won -> break
		:: else
		fi
	   :: OFFSET(old) != 0 && OFFSET(old) + size >= SB ->
		close_step()
	   :: atomic { ON_CPU && OFFSET(old) == 0 ->
#ifdef MUT_HOT_REOPEN
		ready = (commit_bytes[SLOT(old)] == 0) };
#else
		ready = (seq[SLOT(old)] == W(old + SB - BUF)) };
#endif
		if
		:: !ready ->
			atomic { ON_CPU;
#ifndef MUT_NO_REREAD
				if
				:: write_count != old -> refused = 0
				:: else -> refused = 1
				fi
#else
				refused = 1
#endif
			};
			if
			:: refused ->
#ifndef SMP
				/* level 0 interrupts nobody, so nobody owes it a commit */
				assert(level > 0);
#endif
				count_discard(discarded_nested);
				break
			:: else
			fi
		:: else ->
#ifndef OVERWRITE
			atomic { ON_CPU -> seen = W(old - read_count); ready = (seen < BUF) };
#endif
			if
			:: !ready ->
				atomic { ON_CPU;
#ifndef MUT_NO_REREAD
					if
					:: write_count != old -> refused = 0
					:: else -> refused = 1
					fi
#else
					refused = 1
#endif
				};
				if
				:: refused ->
					assert(seen == BUF);	/* full, and not a stale old */
					seen = 0;
					count_discard(discarded_full);
					break
				:: else -> seen = 0
				fi
			:: else ->
				atomic { ON_CPU;
					seen = 0;
					if
					:: write_count == old ->
						write_count = W(old + size);
						won = 1; opener = 1;
						mask[SLOT(old)] = 0;
#ifndef OVERWRITE
						assert(W(write_count - read_count) <= BUF);
#endif
						RESERVED(old)
					:: else
					fi
				};
				if
				:: won -> break
				:: else
				fi
			fi
		fi
	   fi
	od;
	atomic { won = 0; ready = 0; refused = 0 }
}

/* ---- Producer: the two operations ---- */

#ifdef BIG
#define ANY_SIZE	size = 3
#else
#define ANY_SIZE	if :: size = 1 :: size = 2 fi
#endif

/* record() - try to write one record of any size that the model allows. */
inline record() {
	atomic { ON_CPU -> tried++; ANY_SIZE };
	reserve();
	if
	:: gave_up
	:: else ->
		if
		:: opener -> push_reader(old)
		:: else
		fi;
		own_page(old);
		if
		:: opener -> atomic { ON_CPU;
			ASSERT_MINE(page);
			open_tag[page] = TAG(old);
#ifdef MUT_SIZE_AT_OPEN
			data_size[page] = 0;
#endif
#ifdef MUT_RECORDS_AT_OPEN
			page_recs[page] = 0;
#endif
			opener = 0 }
		:: else
		fi;
		atomic { ON_CPU;
			ASSERT_MINE(page);
			CELL(page, OFFSET(old)) = STAMP(old);
			if :: size > 1 -> CELL(page, OFFSET(old) + 1) = STAMP(old) :: else fi;
			if :: size > 2 -> CELL(page, OFFSET(old) + 2) = STAMP(old) :: else fi
		};
		commit(old, size, 1)
	fi;
	atomic { gave_up = 0; size = 0; old = 0 }
}

/* flush() - deliver what is there; nothing on an empty sub-buffer. */
inline flush() {
	do
	:: atomic { ON_CPU -> old = write_count };
	   if
	   :: OFFSET(old) == 0 -> break
	   :: OFFSET(old) != 0 -> close_step()
	   fi
	od;
	old = 0
}

#define PRODUCER_LOCALS \
	byte old, size, page, taken, seen, sum, recs, i; \
	bit won, ready, refused, opener, gave_up, raise

/* ---- Who runs ---- */

/* Nothing is outstanding: is the watermark up to date? */
#ifdef CLAIM_WATERMARK_COMPLETE
#define AT_REST	assert(OFFSET(write_count) == 0 || committed_count == write_count)
#else
#define AT_REST	skip
#endif

#ifdef SMP
active [2] proctype Producer() {
	PRODUCER_LOCALS;
	do
	:: i < NREC -> record(); i++
	:: else -> break
	od;
	atomic { i = 0; running-- };
	/* the last one out flushes */
	if
	:: atomic { running == 0 && !stopped -> stopped = 1; AT_REST };
	   flush();
	   done = 1
	:: stopped
	fi
}
#else
/* The thread. It runs only while no handler does. */
active proctype Producer() {
	byte me = 0;
	PRODUCER_LOCALS;
	do
	:: i < NREC -> record(); i++
	:: else -> break
	od;
	atomic { ON_CPU -> i = 0; stopped = 1; AT_REST };
	flush();
	done = 1
}

/* Handlers: one record or a timer's flush, then back to the level below. */
active proctype Handler1() {
	byte me = 1;
	PRODUCER_LOCALS;
end:	do
	:: record(); atomic { ON_CPU -> level = 0 }
	:: flush(); atomic { ON_CPU -> level = 0 }
	od
}
#if DEPTH > 1
active proctype Handler2() {
	byte me = 2;
	PRODUCER_LOCALS;
end:	do
	:: record(); atomic { ON_CPU -> level = 1 }
	:: flush(); atomic { ON_CPU -> level = 1 }
	od
}
#endif

/* Interrupts arrive between any two steps of what runs. */
active proctype Interrupts() {
	byte n;
end:	do
	:: atomic { n < NIRQ && level < DEPTH && !stopped -> n++; level++ }
	od
}
#endif

/* ---- Reader ---- */

/* read_packet() - what a consumer checks, on a page that it owns. Walks the records. */
inline read_packet(p) {
	d_step {
		assert(open_tag[p] == TAG(pos));
		assert(data_size[p] > 0 && data_size[p] < SB);
		off = 0; n = 0;
		do
		:: off < data_size[p] ->
			/* a record begins here, of this lap: neither a hole nor old content */
			assert(CELL(p, off) == STAMP(W(pos + off)));
			n++;
			stamp = CELL(p, off);
			do
			:: off < data_size[p] && CELL(p, off) == stamp -> off++
			:: else -> break
			od
		:: else -> break
		od;
		assert(n == page_recs[p]);
		delivered = delivered + n;
		delivered_packets++;
		/* ghost: forget the content; what is found here later was written later */
		off = 0;
		do
		:: off < SB -> CELL(p, off) = 0; off++
		:: else -> break
		od;
		open_tag[p] = NO_TAG; data_size[p] = 0; page_recs[p] = 0;
		off = 0; n = 0; stamp = 0
	}
}

#ifdef MUT_K42
/* as in K42: enough is reserved, and the byte count looks like a multiple of the size */
#define PUBLISHED(pos)	(W(write_count - (pos)) >= SB && commit_bytes[SLOT(pos)] == 0)
#else
#define PUBLISHED(pos)	(seq[SLOT(pos)] == W((pos) + SB))
#endif

#ifdef OVERWRITE
#ifdef MUT_TAKE_HELD
#define CAN_TAKE(pos)	(PUBLISHED(pos))
#else
#define CAN_TAKE(pos)	(!entry_held[SLOT(pos)] && entry_tag[SLOT(pos)] == TAG(pos))
#endif
#else
#define CAN_TAKE(pos)	true
#endif

/*
 * The reader polls. To keep the model finite it polls by waiting, so a reader that would
 * poll for ever shows as an invalid end state, and violates the claim drained.
 */
active proctype Reader() {
	byte pos, next = START, page, off, n, stamp;
	bit got;

	do
	:: atomic { done && read_count == write_count -> break }
	:: atomic { PUBLISHED(read_count) && CAN_TAKE(read_count) -> pos = read_count };
	   /* get: seq again, then the exchange; both may have changed since read_count was read */
	   got = PUBLISHED(pos);
	   if
	   :: got -> atomic {
#ifdef OVERWRITE
		if
		:: CAN_TAKE(pos) ->
			page = entry_page[SLOT(pos)];
			entry_page[SLOT(pos)] = reader_page;
			entry_tag[SLOT(pos)] = NO_TAG;
			reader_page = page
		:: else -> got = 0
		fi;
#else
		page = SLOT(pos);
#endif
		reading = got;
		reading_page = page }
	   :: else
	   fi;
	   if
	   :: got ->
		atomic {
			assert(users[page] == 0);
#ifdef OVERWRITE
			assert(AT_OR_AFTER(pos, next));
#else
			assert(pos == next);
#endif
			next = W(pos + SB);
			read_packet(page)
		};
		/* put: fails when a writer pushed read_count, which is fine */
		atomic {
			reading = 0; reading_page = 0;
			if
			:: read_count == pos -> read_count = W(pos + SB)
			:: else
#ifndef OVERWRITE
				-> assert(false)
#endif
			fi;
			page = 0; got = 0; pos = 0
		}
	   :: else -> pos = 0
	   fi
	od;
	/* End of the run: every packet and record has exactly one fate. */
	assert(tried == written + discarded_full + discarded_nested);
	assert(written == delivered + overwritten_recs);
	assert(published_packets == delivered_packets + overwritten_packets)
}

#ifdef CLAIMS
/* [] the page that the reader reads has no writer */
ltl exclusive { [] (reading -> (users[reading_page] == 0)) }

/* [] once the producers have returned, each record tried is written or counted as discarded */
ltl account { [] (done -> (tried == written + discarded_full + discarded_nested)) }

/* [] nothing is delivered that was not published, nor twice */
ltl once { [] (delivered_packets + overwritten_packets <= published_packets) }

/* <> under fairness the reader has everything that was not overwritten, and nothing is left */
ltl drained { <> (done && read_count == write_count
		&& written == delivered + overwritten_recs) }
#endif
