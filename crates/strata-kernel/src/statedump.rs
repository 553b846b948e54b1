//! What was there before the first event: all threads, for readers that name and place them.
//!
//! The tracer writes it, not a program in the kernel, as events of LTTng's names and fields: so its readers
//! find in it what they look for.

mod proc;
#[cfg(test)]
mod tests;

pub(crate) use proc::namespace_of;
pub use proc::{numbers_of_processes, process, states, Process};

use strata_model::{Array, Element, EventClass, Field, FieldClass, Integer};

/// Bytes of a thread's name, with its NUL (`TASK_COMM_LEN`).
pub const NAME_BYTES: usize = 16;

/// Event record classes that [`event_classes`] makes.
pub const NR_CLASSES: u32 = 3;

/// The header's id that says: the id and the whole time follow.
const EXTENDED: u16 = u16::MAX;

/// `lttng_thread_type`.
const KERNEL_THREAD: i32 = 1;

/// `LTTNG_MODE_UNKNOWN` and `LTTNG_UNKNOWN`: where in its code a thread is, /proc does not say.
const MODE_UNKNOWN: i32 = 5;
const SUBMODE_UNKNOWN: i32 = 1;

/// How a thread was; the numbers are LTTng's `lttng_process_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Status {
    /// Stopped, traced, or in a state that has no number here.
    Unnamed = 0,
    /// Runs, or could run.
    WaitCpu = 2,
    /// Ended; its parent has not asked yet.
    Zombie = 4,
    /// Sleeps.
    Wait = 5,
    /// Being taken away.
    Dead = 7,
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessState {
    /// Its number, as all records of the kernel's trace have it.
    pub tid: i32,
    /// Its number in its own PID namespace.
    pub vtid: i32,
    /// Its process.
    pub pid: i32,
    /// Likewise, in its own PID namespace.
    pub vpid: i32,
    /// Its process' parent; 0: none.
    pub ppid: i32,
    /// Likewise, in the thread's PID namespace; 0: it is outside of it.
    pub vppid: i32,
    /// As the kernel has it, NUL behind it.
    pub name: [u8; NAME_BYTES],
    /// A thread of the kernel.
    pub is_kernel: bool,
    /// What it did.
    pub status: Status,
    /// How deep its PID namespace lies below the one that /proc shows.
    pub ns_level: i32,
    /// Its PID namespace; 0: not allowed to know.
    pub ns_inum: u32,
    /// Where it ran last.
    pub cpu: u32,
}

/// What all records of a dump have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp<'c> {
    /// CLOCK_MONOTONIC, when /proc was read \[ns\].
    pub now_ns: u64,
    /// The thread that writes them: their context.
    pub tid: u32,
    /// What is behind it; see [`crate::Contexts::of_this_process`].
    pub contexts: &'c [u8],
    /// Of [`event_classes`].
    pub first_id: u32,
}

fn integer(bytes: u8, signed: bool) -> FieldClass {
    FieldClass::Integer(Integer { signed, ..Integer::unsigned(bytes) })
}

/// In the order of a record.
fn fields() -> Vec<Field> {
    let int = || integer(4, true);
    let name = FieldClass::Array(Array { element: Element::Text, count: NAME_BYTES as u32 });
    let all = [
        ("tid", int()),
        ("vtid", int()),
        ("pid", int()),
        ("vpid", int()),
        ("ppid", int()),
        ("vppid", int()),
        ("name", name),
        ("type", int()),
        ("mode", int()),
        ("submode", int()),
        ("status", int()),
        ("ns_level", int()),
        ("ns_inum", integer(4, false)),
        ("cpu", integer(4, false)),
    ];
    all.into_iter().map(|(name, class)| Field::new(name, class)).collect()
}

/// The kinds of records of a dump, with the ids `first_id`, and the next two.
pub fn event_classes(first_id: u32) -> Vec<EventClass> {
    let class = |id, name: &str, fields| EventClass {
        id,
        provider: String::new(),
        name: format!("lttng_statedump_{name}"),
        loglevel: None,
        emf_uri: None,
        fields,
    };
    vec![
        class(first_id, "start", Vec::new()),
        class(first_id.saturating_add(1), "process_state", fields()),
        class(first_id.saturating_add(2), "end", Vec::new()),
    ]
}

/// The records of a dump, for a packet of the kernel's stream class: each a header of the "large" kind, the
/// context (u32 tid, and what the stamp has), and the payload. In native byte order; all of one time.
pub fn records(states: &[ProcessState], stamp: &Stamp<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity((states.len() + 2) * 96);
    begin(&mut out, stamp, 0);
    for state in states {
        begin(&mut out, stamp, 1);
        put(&mut out, state);
    }
    begin(&mut out, stamp, 2);
    out
}

/// Header and context.
fn begin(out: &mut Vec<u8>, stamp: &Stamp<'_>, which: u32) {
    let id = stamp.first_id.saturating_add(which);
    match u16::try_from(id) {
        Ok(id) if id != EXTENDED => {
            out.extend(id.to_ne_bytes());
            // The packet begins at this time: its low half tells all of it.
            out.extend((stamp.now_ns as u32).to_ne_bytes());
        }
        _ => {
            out.extend(EXTENDED.to_ne_bytes());
            out.extend(id.to_ne_bytes());
            out.extend(stamp.now_ns.to_ne_bytes());
        }
    }
    out.extend(stamp.tid.to_ne_bytes());
    out.extend(stamp.contexts);
}

fn put(out: &mut Vec<u8>, state: &ProcessState) {
    let ids = [state.tid, state.vtid, state.pid, state.vpid, state.ppid, state.vppid];
    out.extend(ids.into_iter().flat_map(i32::to_ne_bytes));
    out.extend(state.name);
    let kind = if state.is_kernel { KERNEL_THREAD } else { 0 };
    let how = [kind, MODE_UNKNOWN, SUBMODE_UNKNOWN, state.status as i32, state.ns_level];
    out.extend(how.into_iter().flat_map(i32::to_ne_bytes));
    out.extend([state.ns_inum, state.cpu].into_iter().flat_map(u32::to_ne_bytes));
}
