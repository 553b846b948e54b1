//! The tables, indexes and views of the database. docs/guide/export-sqlite.md explains their meaning.
//!
//! ```text
//! TABLES    what rows are inserted into, by InsertStatement: a name, and columns with SQLite's types
//! INDEXES   filled after all rows, since that is faster
//! VIEWS     what people query: names instead of numbers, durations, sums by thread
//! ```
//!
//! All of it is data, in the form that both users need: the exporter lays out the cells of each
//! [`InsertStatement`] as a row, and `strata sql` makes the tables of a timeline in a temporary file ([`empty_timeline`]) but
//! reads event records itself.
//!
//! Times are nanoseconds since 1970. `begin_ns` and `end_ns` may be null where the trace does not have that end. A
//! state, call or span refers to its thread by `thread.id`, not by number: numbers of threads are used again.
//!
//! A change that a query could notice increases [`VERSION`]. The tables of docs/guide/export-sqlite.md are compared with the
//! columns here by a test.
//!
//! To add a column: the table here, the cell in `rows` at the same place, the line in
//! docs/guide/export-sqlite.md, and a greater [`VERSION`]. Programs of users depend on names and units, so
//! nothing is renamed for taste.

use strata_analyze::reports::lock_waits::LOCK_BYTES;

/// The version of the schema (`PRAGMA user_version`). It is increased when a table, a column or a view is added,
/// renamed or removed.
pub const VERSION: u32 = 3;

/// The SQL statement that is executed with the cells of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InsertStatement {
    /// Statements that add a row to the table of this name.
    Machine,
    Trace,
    Thread,
    State,
    CpuRun,
    Syscall,
    Interrupt,
    Request,
    Span,
    Counter,
    Unpaired,
    Discarded,
    Damage,
    Event,
    /// Adds a disk, or an interrupt of a device, with its last name.
    Device,
    LockWait,
    /// Statements that add a call stack, its frames, and a record that has it.
    Stack,
    Frame,
    StackRecord,
    /// Marks the wait with this `id` as ended by a timer, instead of the waker that was reported.
    TimedOut,
    /// Marks a wait as ended by a completed request. The cells are the `id` of the request and that of the wait.
    WaitedFor,
    /// Statements that give requests to disks, and interrupts, their last names.
    NameRequests,
    NameInterrupts,
    /// Statements that remove waits for futexes within libc's locks, since the program's own events report these waits.
    /// They use an index that is made for them.
    NameLockProcesses,
    IndexLocks,
    LeaveOutFutexes,
}

/// A table of the database.
#[derive(Debug)]
pub(super) struct SqlTable {
    pub name: &'static str,
    /// The columns for which a row has cells, each with its type.
    pub columns: &'static [(&'static str, &'static str)],
    /// True if there is a computed column `duration_ns`.
    pub lasts: bool,
}

const INTEGER: &str = "INTEGER";
const TEXT: &str = "TEXT";
const TIME: &str = "INTEGER NOT NULL";
const KEY: &str = "INTEGER PRIMARY KEY";
const NAME: &str = "TEXT NOT NULL";
const FLAG: &str = "INTEGER NOT NULL";
const THREAD: &str = "INTEGER REFERENCES thread (id)";
const TRACE: &str = "INTEGER NOT NULL REFERENCES trace (id)";
const STACK: &str = "INTEGER REFERENCES stack (id)";
const MACHINE: &str = "INTEGER NOT NULL REFERENCES machine (id)";

/// The tables, by [`InsertStatement`]. A table without a column `id` gets one from the database.
pub(super) const TABLES: [SqlTable; 19] = [
    SqlTable { name: "machine", columns: &[("id", KEY), ("name", NAME)], lasts: false },
    SqlTable {
        name: "trace",
        columns: &[
            ("id", KEY),
            ("name", NAME),
            ("path", NAME),
            ("machine", MACHINE),
            ("is_kernel", FLAG),
            ("pid", INTEGER),
            ("process_name", TEXT),
            ("tracer", TEXT),
            ("clock", TEXT),
            ("begin_ns", INTEGER),
            ("end_ns", INTEGER),
            ("records", FLAG),
            ("ending", TEXT),
            ("is_complete", INTEGER),
            ("uncounted_records", INTEGER),
            ("environment", NAME),
        ],
        lasts: false,
    },
    SqlTable {
        name: "thread",
        columns: &[
            ("id", KEY),
            ("machine", MACHINE),
            ("tid", INTEGER),
            ("pid", INTEGER),
            ("thread_name", NAME),
            ("process_name", NAME),
            ("process", THREAD),
            ("parent", THREAD),
            ("is_kernel", FLAG),
            ("born_ns", INTEGER),
            ("exit_ns", INTEGER),
        ],
        lasts: false,
    },
    SqlTable {
        name: "state",
        columns: &[
            ("id", KEY),
            ("thread", THREAD),
            ("begin_ns", TIME),
            ("end_ns", TIME),
            ("state", NAME),
            ("cpu", INTEGER),
            ("was_woken", INTEGER),
            ("sleep", TEXT),
            ("call", TEXT),
            ("object_kind", TEXT),
            ("object", TEXT),
            ("ended_by", TEXT),
            ("waker", THREAD),
            ("is_sure", INTEGER),
            ("interrupt", INTEGER),
            ("request", "INTEGER REFERENCES request (id)"),
            ("stack", STACK),
        ],
        lasts: true,
    },
    SqlTable {
        name: "cpu_run",
        columns: &[
            ("machine", MACHINE),
            ("cpu", TIME),
            ("thread", THREAD),
            ("begin_ns", TIME),
            ("end_ns", TIME),
            ("is_switch", FLAG),
        ],
        lasts: true,
    },
    SqlTable {
        name: "syscall",
        columns: &[
            ("thread", THREAD),
            ("name", NAME),
            ("begin_ns", TIME),
            ("end_ns", TIME),
            ("result", INTEGER),
            ("error", TEXT),
            ("object_kind", TEXT),
            ("object", TEXT),
            ("target", TEXT),
        ],
        lasts: true,
    },
    SqlTable {
        name: "interrupt",
        columns: &[
            ("machine", MACHINE),
            ("cpu", TIME),
            ("thread", THREAD),
            ("kind", NAME),
            ("number", TIME),
            ("name", TEXT),
            ("begin_ns", TIME),
            ("end_ns", TIME),
        ],
        lasts: true,
    },
    SqlTable {
        name: "request",
        columns: &[
            ("id", KEY),
            ("machine", MACHINE),
            ("device", NAME),
            ("kind", NAME),
            ("sector", INTEGER),
            ("bytes", INTEGER),
            ("thread", THREAD),
            ("queued_ns", INTEGER),
            ("begin_ns", TIME),
            ("end_ns", TIME),
            ("is_error", FLAG),
        ],
        lasts: true,
    },
    SqlTable {
        name: "span",
        columns: &[
            ("name", NAME),
            ("begin_event", NAME),
            ("begin_thread", THREAD),
            ("end_thread", THREAD),
            ("begin_ns", TIME),
            ("end_ns", TIME),
            ("key", TEXT),
            ("address", TEXT),
            ("owner", THREAD),
            ("result", INTEGER),
            ("paired_by", NAME),
            ("disagrees", FLAG),
        ],
        lasts: true,
    },
    SqlTable {
        name: "counter",
        columns: &[
            ("name", NAME),
            ("machine", MACHINE),
            ("process", THREAD),
            ("cpu", INTEGER),
            ("begin_ns", TIME),
            ("end_ns", TIME),
            ("value", "NUMERIC"),
        ],
        lasts: true,
    },
    SqlTable {
        name: "unpaired",
        columns: &[
            ("kind", NAME),
            ("thread", THREAD),
            ("name", NAME),
            ("time_ns", TIME),
            ("why", NAME),
        ],
        lasts: false,
    },
    SqlTable {
        name: "discarded",
        columns: &[
            ("trace", TRACE),
            ("stream", NAME),
            ("cpu", INTEGER),
            ("kind", NAME),
            ("count", INTEGER),
            ("from_ns", INTEGER),
            ("to_ns", INTEGER),
            ("at_begin", FLAG),
        ],
        lasts: false,
    },
    SqlTable {
        name: "damage",
        columns: &[("trace", "INTEGER REFERENCES trace (id)"), ("stream", TEXT), ("text", NAME)],
        lasts: false,
    },
    SqlTable {
        name: "event",
        columns: &[
            ("time_ns", INTEGER),
            ("trace", TRACE),
            ("cpu", INTEGER),
            ("thread", THREAD),
            ("name", NAME),
            ("fields", TEXT),
            ("context", TEXT),
            ("functions", TEXT),
        ],
        lasts: false,
    },
    SqlTable {
        name: "device",
        columns: &[
            ("machine", MACHINE),
            ("kind", NAME),
            ("number", NAME),
            ("name", "TEXT NOT NULL, UNIQUE (machine, kind, number)"),
        ],
        lasts: false,
    },
    SqlTable {
        name: "lock_wait",
        columns: &[
            ("thread", THREAD),
            ("process", THREAD),
            ("kind", NAME),
            ("address", FLAG),
            ("begin_ns", TIME),
            ("end_ns", TIME),
            ("ended_by", TEXT),
            ("waker", THREAD),
            ("is_sure", INTEGER),
        ],
        lasts: true,
    },
    SqlTable {
        name: "stack",
        columns: &[("id", KEY), ("depth", FLAG), ("function", NAME), ("frames", NAME)],
        lasts: false,
    },
    SqlTable {
        name: "frame",
        columns: &[("stack", STACK), ("depth", FLAG), ("function", NAME)],
        lasts: false,
    },
    SqlTable {
        name: "stack_record",
        columns: &[
            ("time_ns", INTEGER),
            ("trace", TRACE),
            ("cpu", INTEGER),
            ("thread", THREAD),
            ("name", NAME),
            ("is_sample", FLAG),
            ("stack", STACK),
            ("address", TEXT),
            ("period_ns", INTEGER),
            ("unasked", INTEGER),
        ],
        lasts: false,
    },
];

/// The indexes, which are filled after all rows, since that is faster.
pub(super) const INDEXES: [(&str, &str); 13] = [
    ("state_of_thread", "state (thread, begin_ns)"),
    ("cpu_run_of_cpu", "cpu_run (cpu, begin_ns)"),
    ("syscall_of_thread", "syscall (thread, begin_ns)"),
    ("syscall_of_name", "syscall (name)"),
    ("interrupt_of_thread", "interrupt (thread, begin_ns)"),
    ("span_of_name", "span (name)"),
    ("counter_of_name", "counter (name, begin_ns)"),
    ("lock_wait_of_thread", "lock_wait (thread, begin_ns)"),
    ("frame_of_stack", "frame (stack)"),
    ("stack_record_of_stack", "stack_record (stack)"),
    ("event_of_time", "event (time_ns)"),
    ("event_of_thread", "event (thread)"),
    ("event_of_name", "event (name, trace)"),
];

/// Views, which are what people query.
pub(super) const VIEWS: [(&str, &str); 20] = [
    (
        "slow_calls",
        "SELECT syscall.duration_ns, thread.process_name AS process, thread.pid, thread.thread_name AS thread, thread.tid, \
         syscall.name, syscall.result, syscall.error, syscall.object, syscall.begin_ns, syscall.id AS syscall \
         FROM syscall LEFT JOIN thread ON thread.id = syscall.thread \
         ORDER BY syscall.duration_ns DESC",
    ),
    (
        "calls_by_process",
        "SELECT thread.process_name AS process, thread.pid, calls.name, sum(calls.count) AS count, \
         sum(calls.errors) AS errors, sum(calls.total_ns) AS total_ns, min(calls.min_ns) AS min_ns, \
         sum(calls.total_ns) / sum(calls.count) AS mean_ns, max(calls.max_ns) AS max_ns \
         FROM (SELECT thread, name, count(*) AS count, count(error) AS errors, sum(duration_ns) AS total_ns, \
         min(duration_ns) AS min_ns, max(duration_ns) AS max_ns FROM syscall GROUP BY thread, name) AS calls \
         JOIN thread ON thread.id = calls.thread \
         GROUP BY thread.process, calls.name ORDER BY total_ns DESC",
    ),
    (
        "thread_times",
        "SELECT thread.process_name AS process, thread.pid, thread.thread_name AS thread, thread.tid, times.running_ns, \
         times.runnable_ns, times.blocked_ns, times.unknown_ns, times.runs \
         FROM (SELECT thread, sum(CASE state WHEN 'running' THEN duration_ns ELSE 0 END) AS running_ns, \
         sum(CASE state WHEN 'runnable' THEN duration_ns ELSE 0 END) AS runnable_ns, \
         sum(CASE state WHEN 'blocked' THEN duration_ns ELSE 0 END) AS blocked_ns, \
         sum(CASE state WHEN 'unknown' THEN duration_ns ELSE 0 END) AS unknown_ns, \
         count(CASE state WHEN 'running' THEN 1 END) AS runs FROM state GROUP BY thread) AS times \
         JOIN thread ON thread.id = times.thread ORDER BY times.running_ns DESC",
    ),
    (
        "waits",
        "SELECT thread.process_name AS process, thread.pid, thread.thread_name AS thread, thread.tid, waits.call, \
         waits.object, waits.sleep, waits.ended_by, other.thread_name AS waker, other.tid AS waker_tid, waits.count, \
         waits.total_ns, waits.max_ns \
         FROM (SELECT thread, call, object, sleep, ended_by, waker, count(*) AS count, \
         sum(duration_ns) AS total_ns, max(duration_ns) AS max_ns FROM state WHERE state = 'blocked' \
         GROUP BY thread, call, object, sleep, ended_by, waker) AS waits \
         JOIN thread ON thread.id = waits.thread LEFT JOIN thread AS other ON other.id = waits.waker \
         ORDER BY waits.total_ns DESC",
    ),
    (
        "files",
        "SELECT thread.process_name AS process, thread.pid, calls.object_kind, calls.object, \
         sum(calls.count) AS count, sum(calls.errors) AS errors, sum(calls.total_ns) AS total_ns, \
         max(calls.max_ns) AS max_ns \
         FROM (SELECT thread, object_kind, object, count(*) AS count, count(error) AS errors, \
         sum(duration_ns) AS total_ns, max(duration_ns) AS max_ns FROM syscall \
         WHERE object_kind IS NOT NULL AND object_kind <> 'address' GROUP BY thread, object_kind, object) AS calls \
         JOIN thread ON thread.id = calls.thread \
         GROUP BY thread.process, calls.object_kind, calls.object ORDER BY total_ns DESC",
    ),
    (
        "cpu_times",
        "SELECT machine.name AS machine, cpu_run.cpu, \
         sum(CASE WHEN cpu_run.thread > 0 THEN cpu_run.duration_ns ELSE 0 END) AS busy_ns, \
         sum(CASE WHEN cpu_run.thread = 0 THEN cpu_run.duration_ns ELSE 0 END) AS idle_ns, \
         sum(CASE WHEN cpu_run.thread IS NULL THEN cpu_run.duration_ns ELSE 0 END) AS unknown_ns, \
         sum(cpu_run.is_switch) AS switches \
         FROM cpu_run JOIN machine ON machine.id = cpu_run.machine GROUP BY cpu_run.machine, cpu_run.cpu",
    ),
    (
        "interrupts_by_name",
        "SELECT machine.name AS machine, interrupt.kind, interrupt.number, interrupt.name, count(*) AS count, \
         sum(interrupt.duration_ns) AS total_ns, max(interrupt.duration_ns) AS max_ns \
         FROM interrupt JOIN machine ON machine.id = interrupt.machine \
         GROUP BY interrupt.machine, interrupt.kind, interrupt.number ORDER BY total_ns DESC",
    ),
    (
        "spans_by_name",
        "SELECT name, count(*) AS count, sum(duration_ns) AS total_ns, min(duration_ns) AS min_ns, \
         sum(duration_ns) / count(*) AS mean_ns, max(duration_ns) AS max_ns \
         FROM span GROUP BY name ORDER BY total_ns DESC",
    ),
    (
        "counters_by_name",
        "SELECT counter.name, machine.name AS machine, counter.cpu, thread.process_name AS process, thread.pid, \
         count(*) AS count, min(counter.value) AS min, max(counter.value) AS max, \
         sum(1.0 * counter.value * counter.duration_ns) / \
         sum(CASE WHEN counter.value IS NOT NULL THEN counter.duration_ns END) AS mean, \
         sum(CASE WHEN counter.value IS NOT NULL THEN counter.duration_ns END) AS known_ns \
         FROM counter JOIN machine ON machine.id = counter.machine LEFT JOIN thread ON thread.id = counter.process \
         GROUP BY counter.name, counter.machine, counter.cpu, counter.process \
         ORDER BY counter.name, counter.machine, counter.cpu, counter.process",
    ),
    (
        "events_by_name",
        "SELECT events.name, trace.name AS trace, events.records \
         FROM (SELECT name, trace, count(*) AS records FROM event GROUP BY name, trace) AS events \
         JOIN trace ON trace.id = events.trace ORDER BY events.records DESC",
    ),
    (
        "calls",
        "SELECT syscall.begin_ns, syscall.end_ns, syscall.duration_ns, thread.process_name AS process, thread.pid, \
         thread.thread_name AS thread, thread.tid, syscall.name, syscall.result, syscall.error, syscall.object_kind, \
         syscall.object, syscall.target \
         FROM syscall LEFT JOIN thread ON thread.id = syscall.thread",
    ),
    (
        "states",
        "SELECT state.begin_ns, state.end_ns, state.duration_ns, thread.process_name AS process, thread.pid, \
         thread.thread_name AS thread, thread.tid, state.state, state.cpu, state.sleep, state.call, state.object, \
         state.ended_by, state.stack \
         FROM state LEFT JOIN thread ON thread.id = state.thread",
    ),
    (
        "spans",
        "SELECT span.begin_ns, span.end_ns, span.duration_ns, thread.process_name AS process, thread.pid, \
         thread.thread_name AS thread, thread.tid, span.name, span.key, span.address, span.result \
         FROM span LEFT JOIN thread ON thread.id = span.begin_thread",
    ),
    (
        "wakeups",
        "SELECT state.end_ns AS time_ns, state.duration_ns AS waited_ns, waker.process_name AS waker_process, \
         waker.thread_name AS waker, waker.tid AS waker_tid, thread.process_name AS process, \
         thread.thread_name AS thread, thread.tid, state.call, state.object, state.ended_by, state.is_sure \
         FROM state LEFT JOIN thread ON thread.id = state.thread LEFT JOIN thread AS waker ON waker.id = state.waker \
         WHERE state.state = 'blocked' AND state.ended_by IS NOT NULL",
    ),
    (
        "locks",
        "SELECT lock_wait.begin_ns, lock_wait.end_ns, lock_wait.duration_ns, thread.process_name AS process, thread.pid, \
         thread.thread_name AS thread, thread.tid, lock_wait.kind, printf('0x%x', lock_wait.address) AS address, \
         lock_wait.ended_by, waker.thread_name AS waker, waker.tid AS waker_tid, lock_wait.is_sure \
         FROM lock_wait LEFT JOIN thread ON thread.id = lock_wait.thread LEFT JOIN thread AS waker ON waker.id = lock_wait.waker",
    ),
    (
        "samples",
        "SELECT stack_record.time_ns, stack_record.cpu, thread.process_name AS process, thread.pid, \
         thread.thread_name AS thread, thread.tid, stack.function, stack_record.address, stack_record.period_ns, \
         stack_record.unasked, stack_record.stack, stack.frames \
         FROM stack_record LEFT JOIN thread ON thread.id = stack_record.thread LEFT JOIN stack ON stack.id = stack_record.stack \
         WHERE stack_record.is_sample = 1",
    ),
    (
        "stacks",
        "SELECT process.process_name AS process, process.tid AS pid, records.name, records.is_sample, records.count, \
         records.period_ns, stack.function, stack.depth, stack.frames, stack.id AS stack \
         FROM (SELECT thread.process, stack_record.name, stack_record.is_sample, stack_record.stack, count(*) AS count, \
         sum(stack_record.period_ns) AS period_ns \
         FROM stack_record LEFT JOIN thread ON thread.id = stack_record.thread \
         GROUP BY thread.process, stack_record.name, stack_record.stack) AS records \
         LEFT JOIN thread AS process ON process.id = records.process JOIN stack ON stack.id = records.stack \
         ORDER BY records.count DESC",
    ),
    (
        "threads",
        "SELECT machine.name AS machine, thread.process_name AS process, thread.pid, thread.thread_name AS thread, \
         thread.tid, thread.is_kernel, thread.born_ns, thread.exit_ns \
         FROM thread JOIN machine ON machine.id = thread.machine",
    ),
    (
        "processes",
        "SELECT machine.name AS machine, thread.process_name AS process, thread.pid, count(*) AS threads, \
         min(thread.born_ns) AS born_ns, max(thread.exit_ns) AS exit_ns \
         FROM thread JOIN machine ON machine.id = thread.machine \
         WHERE thread.is_kernel = 0 GROUP BY thread.process",
    ),
    (
        "gaps",
        "SELECT 'discarded' AS kind, discarded.from_ns, discarded.to_ns, trace.name AS trace, discarded.stream, \
         discarded.cpu, discarded.count, discarded.kind AS what \
         FROM discarded JOIN trace ON trace.id = discarded.trace \
         UNION ALL \
         SELECT 'damage', NULL, NULL, trace.name, damage.stream, NULL, NULL, damage.text \
         FROM damage LEFT JOIN trace ON trace.id = damage.trace",
    ),
];

/// The tables and views of event records. Programs that read the records themselves make their own.
const OF_EVENTS: [&str; 2] = ["event", "events_by_name"];

/// The names of tables and views that a timeline fills.
#[derive(Clone, Copy, Debug)]
pub struct TimelineNames;

impl TimelineNames {
    /// Returns the names of all tables and views.
    pub fn all() -> impl Iterator<Item = &'static str> {
        let tables = TABLES.iter().map(|table| table.name);
        let all = tables.chain(VIEWS.iter().map(|(name, _)| *name));
        all.filter(|name| !OF_EVENTS.contains(name))
    }

    /// Returns true for the name of a table, and false for that of a view.
    #[must_use]
    pub fn has_table(name: &str) -> bool {
        !OF_EVENTS.contains(&name) && TABLES.iter().any(|table| table.name == name)
    }
}

/// Returns statements that make the tables and views of a timeline, without rows.
#[must_use]
pub fn empty_timeline() -> Vec<String> {
    let tables = TABLES.iter().filter(|table| !OF_EVENTS.contains(&table.name));
    let views = VIEWS.iter().filter(|(name, _)| !OF_EVENTS.contains(name));
    let views = views.map(|(name, query)| format!("CREATE VIEW {name} AS {query}"));
    tables.map(SqlTable::create).chain(views).collect()
}

/// Returns the statements that remove event records from a database.
#[must_use]
pub fn of_event_table() -> [&'static str; 2] {
    ["DROP VIEW events_by_name", "DROP TABLE event"]
}

impl InsertStatement {
    /// All statements: those that add rows, in the order of [`TABLES`], and then those that change rows.
    #[cfg(test)]
    pub(super) const ALL: [InsertStatement; 26] = [
        InsertStatement::Machine,
        InsertStatement::Trace,
        InsertStatement::Thread,
        InsertStatement::State,
        InsertStatement::CpuRun,
        InsertStatement::Syscall,
        InsertStatement::Interrupt,
        InsertStatement::Request,
        InsertStatement::Span,
        InsertStatement::Counter,
        InsertStatement::Unpaired,
        InsertStatement::Discarded,
        InsertStatement::Damage,
        InsertStatement::Event,
        InsertStatement::Device,
        InsertStatement::LockWait,
        InsertStatement::Stack,
        InsertStatement::Frame,
        InsertStatement::StackRecord,
        InsertStatement::TimedOut,
        InsertStatement::WaitedFor,
        InsertStatement::NameRequests,
        InsertStatement::NameInterrupts,
        InsertStatement::NameLockProcesses,
        InsertStatement::IndexLocks,
        InsertStatement::LeaveOutFutexes,
    ];

    /// Returns the statement's text.
    pub(super) fn sql(self) -> String {
        match self {
            InsertStatement::TimedOut => {
                "UPDATE state SET ended_by = 'timer', waker = NULL, is_sure = NULL, interrupt = NULL, \
                 request = NULL WHERE id = ?1"
                    .to_owned()
            }
            InsertStatement::WaitedFor => "UPDATE state SET request = ?1 WHERE id = ?2".to_owned(),
            InsertStatement::NameRequests => name_by("request", "device", "request.device", "disk"),
            InsertStatement::NameInterrupts => {
                name_by("interrupt", "name", "CAST(interrupt.number AS TEXT)", "irq")
            }
            InsertStatement::NameLockProcesses => {
                "UPDATE lock_wait SET process = (SELECT process FROM thread WHERE thread.id = lock_wait.thread)".to_owned()
            }
            InsertStatement::IndexLocks => {
                "CREATE INDEX lock_wait_of_program ON lock_wait (process, address) WHERE kind <> 'futex'".to_owned()
            }
            InsertStatement::LeaveOutFutexes => {
                let before = LOCK_BYTES - 1;
                format!(
                    "DELETE FROM lock_wait WHERE kind = 'futex' AND EXISTS (SELECT 1 FROM lock_wait AS own \
                     WHERE own.kind <> 'futex' AND own.process = lock_wait.process \
                     AND own.address BETWEEN lock_wait.address - {before} AND lock_wait.address)"
                )
            }
            _ => self.table().map(SqlTable::insert).unwrap_or_default(),
        }
    }

    /// Returns the table to which the statement adds a row; `None` if it changes rows.
    pub(super) fn table(self) -> Option<&'static SqlTable> {
        TABLES.get(self as usize)
    }

    /// Returns the number of cells that the statement takes.
    pub(super) fn cells(self) -> usize {
        match self {
            InsertStatement::TimedOut => 1,
            InsertStatement::WaitedFor => 2,
            InsertStatement::NameRequests
            | InsertStatement::NameInterrupts
            | InsertStatement::NameLockProcesses
            | InsertStatement::IndexLocks
            | InsertStatement::LeaveOutFutexes => 0,
            _ => self.table().map_or(0, |table| table.columns.len()),
        }
    }
}

/// Returns a statement that sets a column to the names of devices of a kind. `number` is the column with the device's
/// number.
fn name_by(table: &str, column: &str, number: &str, kind: &str) -> String {
    let of = format!(
        "FROM device WHERE device.machine = {table}.machine AND device.kind = '{kind}' AND device.number = {number}"
    );
    let is_kind = if table == "interrupt" { "interrupt.kind = 'irq' AND " } else { "" };
    format!(
        "UPDATE {table} SET {column} = (SELECT device.name {of}) WHERE {is_kind}EXISTS (SELECT 1 {of})"
    )
}

impl SqlTable {
    /// Returns the text that creates the table.
    pub(super) fn create(&self) -> String {
        let mut columns: Vec<String> = Vec::new();
        if !self.columns.iter().any(|(name, _)| *name == "id") {
            columns.push(format!("id {KEY}"));
        }
        for (name, of) in self.columns {
            columns.push(format!("{name} {of}"));
            if self.lasts && *name == "end_ns" {
                columns.push("duration_ns INTEGER AS (end_ns - begin_ns)".to_owned());
            }
        }
        format!("CREATE TABLE {} (\n  {}\n)", self.name, columns.join(",\n  "))
    }

    fn insert(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        let cells = vec!["?"; names.len()];
        format!("INSERT INTO {} ({}) VALUES ({})", self.name, names.join(", "), cells.join(", "))
    }
}
