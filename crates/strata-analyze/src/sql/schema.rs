//! Tables, indexes and views. What they mean for people is in docs/guide/export.md.

/// Changes when a table, a column or a view is renamed or gone, not when there is a new one: `PRAGMA user_version`.
pub(super) const VERSION: u32 = 1;

/// What is done with the cells of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InsertStatement {
    /// A new row of the table.
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
    /// A wait was ended by its timer, and not by who was told: its `id`.
    TimedOut,
    /// A wait was ended by a request that is done: the request's `id`, and the wait's.
    WaitedFor,
}

/// A table.
#[derive(Debug)]
pub(super) struct SqlTable {
    pub name: &'static str,
    /// Those that a row has cells for.
    pub columns: &'static [(&'static str, &'static str)],
    /// Whether there is a `duration_ns`, which is computed.
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
const MACHINE: &str = "INTEGER NOT NULL REFERENCES machine (id)";

/// By [`InsertStatement`]. Where `id` is not among the columns, there is one that the database gives.
pub(super) const TABLES: [SqlTable; 14] = [
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
        ],
        lasts: false,
    },
];

/// Made when all rows are there: that is quicker.
pub(super) const INDEXES: [(&str, &str); 10] = [
    ("state_of_thread", "state (thread, begin_ns)"),
    ("cpu_run_of_cpu", "cpu_run (cpu, begin_ns)"),
    ("syscall_of_thread", "syscall (thread, begin_ns)"),
    ("syscall_of_name", "syscall (name)"),
    ("interrupt_of_thread", "interrupt (thread, begin_ns)"),
    ("span_of_name", "span (name)"),
    ("counter_of_name", "counter (name, begin_ns)"),
    ("event_of_time", "event (time_ns)"),
    ("event_of_thread", "event (thread)"),
    ("event_of_name", "event (name, trace)"),
];

/// What people type.
pub(super) const VIEWS: [(&str, &str); 10] = [
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
];

impl InsertStatement {
    /// Those that make a row, in the order of [`TABLES`], and those that change one.
    pub(super) const ALL: [InsertStatement; 16] = [
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
        InsertStatement::TimedOut,
        InsertStatement::WaitedFor,
    ];

    /// Its text.
    pub(super) fn sql(self) -> String {
        match self {
            InsertStatement::TimedOut => {
                "UPDATE state SET ended_by = 'timer', waker = NULL, is_sure = NULL, interrupt = NULL WHERE id = ?1"
                    .to_owned()
            }
            InsertStatement::WaitedFor => "UPDATE state SET request = ?1 WHERE id = ?2".to_owned(),
            _ => TABLES.get(self as usize).map(SqlTable::insert).unwrap_or_default(),
        }
    }

    /// How many cells it has.
    pub(super) fn cells(self) -> usize {
        match self {
            InsertStatement::TimedOut => 1,
            InsertStatement::WaitedFor => 2,
            _ => TABLES.get(self as usize).map_or(0, |table| table.columns.len()),
        }
    }
}

impl SqlTable {
    /// The text that makes it.
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
