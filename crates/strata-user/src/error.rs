//! Why an application cannot be traced, or not wholly.

use std::fmt;
use std::io;
use std::path::PathBuf;

use strata_abi::user;
use strata_model::printable;

use crate::description::DescriptionError;
use crate::lttng::Lttng;
use crate::rules::RuleError;

/// What failed, in which process, the value found, and what can be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The list of processes cannot be read.
    #[error("/proc: cannot be read: {source}. Processes are found there; mount it")]
    Proc {
        /// What the system said.
        source: io::Error,
    },
    /// The process has ended, or never was.
    #[error("process {pid}: is not there")]
    Gone {
        /// The process.
        pid: u32,
    },
    /// The process holds no memory of Strata's.
    #[error("process {pid} ({name}): {}", not_instrumented(lttng.as_ref()))]
    NotInstrumented {
        /// The process.
        pid: u32,
        /// Its short name.
        name: String,
        /// It is instrumented for LTTng-UST.
        lttng: Option<Lttng>,
    },
    /// The process itself says that it cannot be traced.
    #[error("process {pid}{}: cannot be traced: {reason}", in_parentheses(name))]
    Refused {
        /// The process.
        pid: u32,
        /// Its short name; empty if it has ended.
        name: String,
        /// What it said.
        reason: String,
    },
    /// The system does not let us.
    #[error("process {pid}: {what}: not allowed: {denial}")]
    Denied {
        /// The process.
        pid: u32,
        /// What was tried.
        what: &'static str,
        /// Why, as far as is known.
        denial: Denial,
    },
    /// It has announced itself with memory that is not its own, or that lies about whose it is.
    #[error(
        "process {pid}: announced itself with memory that is not its own: of process {said} and user \
         {owner}, while it is process {inner} in its namespace, of user {uid}. Ignored it"
    )]
    NotItsOwn {
        /// The process.
        pid: u32,
        /// Its number in its own namespace.
        inner: u32,
        /// The number that its memory says.
        said: u32,
        /// Whose file its memory is.
        owner: u32,
        /// Its user.
        uid: u32,
    },
    /// What was handed over is not a memfd.
    #[error("process {pid}: what it shares is not memory of a memfd; ignored it")]
    NotMemory {
        /// The process.
        pid: u32,
    },
    /// The memory could be shortened under us.
    #[error(
        "process {pid}: its shared memory is not sealed against shrinking (seals {found:#x}, needed \
         {needed:#x}); not mapped"
    )]
    NotSealed {
        /// The process.
        pid: u32,
        /// Seals that are there.
        found: u32,
        /// The one that is needed.
        needed: u32,
    },
    /// The memory is too small for the layout.
    #[error("process {pid}: its shared memory has {found} bytes; the layout needs {limit}")]
    TooSmall {
        /// The process.
        pid: u32,
        /// Size \[byte\].
        found: u64,
        /// The least that is needed \[byte\].
        limit: u64,
    },
    /// The process is still filling the memory in.
    #[error("process {pid}: is just starting; its tracepoints are not there yet. Try again")]
    NotReady {
        /// The process.
        pid: u32,
    },
    /// The memory is something else, or of another byte order.
    #[error(
        "process {pid}: its shared memory begins with {found:#018x}, not {:#018x}",
        user::MAGIC
    )]
    Magic {
        /// The process.
        pid: u32,
        /// What was found.
        found: u64,
    },
    /// The process has another version of libstrata.
    #[error(
        "process {pid}: shares memory of layout version {found}; this program knows {}. Use the \
         tracer that came with its libstrata",
        user::VERSION
    )]
    Version {
        /// The process.
        pid: u32,
        /// What was found.
        found: u32,
    },
    /// A value in the control page, a state or a slot is impossible.
    #[error(
        "process {pid}: {what} is {found}; the limit is {limit}. Its shared memory is damaged"
    )]
    Value {
        /// The process.
        pid: u32,
        /// Which value.
        what: &'static str,
        /// What was found.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A tracepoint's description makes no sense.
    #[error("process {pid}: tracepoint {index}: {source}. Its shared memory is damaged")]
    Description {
        /// The process.
        pid: u32,
        /// The tracepoint's number.
        index: u32,
        /// What is wrong with it.
        source: DescriptionError,
    },
    /// Another tracer, or the process, does not let go of the memory.
    #[error(
        "process {pid}: its shared memory stayed locked for {waited_ms} ms. If another tracer holds \
         it, try again"
    )]
    Locked {
        /// The process.
        pid: u32,
        /// How long we waited \[ms\].
        waited_ms: u64,
    },
    /// All session slots are taken.
    #[error(
        "process {pid}: {} sessions trace it already, which is the limit. End one",
        user::NR_SESSIONS
    )]
    NoSlot {
        /// The process.
        pid: u32,
    },
    /// The memory cannot grow any more.
    #[error("process {pid}: no place for a channel of {bytes} bytes at byte {offset} of its shared memory")]
    NoPlace {
        /// The process.
        pid: u32,
        /// Size of the channel \[byte\].
        bytes: u64,
        /// Where it was to begin \[byte\].
        offset: u64,
    },
    /// Our own limit on the size of files.
    #[error(
        "process {pid}: its shared memory must grow to {needed} bytes; this program's file size \
         limit is {limit}. Raise it (ulimit -f) or use smaller buffers"
    )]
    FileSizeLimit {
        /// The process.
        pid: u32,
        /// Size \[byte\].
        needed: u64,
        /// The limit \[byte\].
        limit: u64,
    },
    /// The channel cannot be made, or is not one.
    #[error("process {pid}: {source}")]
    Channel {
        /// The process.
        pid: u32,
        /// What is wrong with it.
        source: strata_ring::Error,
    },
    /// The process was not started for this session, or has left it.
    #[error("process {pid}: has no session of generation {generation}")]
    NotArmed {
        /// The process.
        pid: u32,
        /// The generation looked for.
        generation: u64,
    },
    /// The process could not make the channel of the session that it was started for.
    #[error(
        "process {pid}: could not make its buffers when it began: {}. Raise its limits (file size: \
         ulimit -f, memory: ulimit -v), or use a smaller --subbuf-size. Not recorded from its begin",
        io::Error::from_raw_os_error(i32::try_from(*.code).unwrap_or(0))
    )]
    NoBuffers {
        /// The process.
        pid: u32,
        /// The `errno` that it left.
        code: u32,
    },
    /// Threads of it are in seccomp's strict mode, and libstrata was not told.
    #[error(
        "process {pid}: {found} of its threads are in seccomp's strict mode, which {known} of them had told \
         libstrata; the first record of the others would be their end. Enter the mode by prctl() or syscall() \
         of libc. Not recorded"
    )]
    Strict {
        /// The process.
        pid: u32,
        /// Threads in that mode.
        found: u32,
        /// How many of them the process knows of.
        known: u32,
    },
    /// Another tracer has taken the slot: we have not moved for too long.
    #[error(
        "process {pid}: session slot {slot} is no longer ours (generation {found}, ours is \
         {wanted}){}", why_taken(*silent_ms)
    )]
    SlotTaken {
        /// The process.
        pid: u32,
        /// The slot.
        slot: u32,
        /// The generation that is there.
        found: u64,
        /// Ours.
        wanted: u64,
        /// How long we had given no sign of life \[ms\].
        silent_ms: u64,
    },
    /// The code is not what the description says.
    #[error(
        "process {pid}: tracepoint {}: at {address:#x} there is {found:02x?}, not opcode {:#x} or {:#x} and \
         displacement {displacement}. Left it alone; this tracepoint stays off",
        printable(.tracepoint), user::SITE_DORMANT, user::SITE_ON
    )]
    Site {
        /// The process.
        pid: u32,
        /// `provider:name`.
        tracepoint: String,
        /// Where, in the process.
        address: u64,
        /// The bytes that are there.
        found: [u8; 5],
        /// What the description says.
        displacement: i32,
    },
    /// The code cannot be read or written.
    #[error("process {pid}: tracepoint {}: the code at {address:#x} cannot be changed: {source}",
            printable(.tracepoint))]
    Code {
        /// The process.
        pid: u32,
        /// `provider:name`.
        tracepoint: String,
        /// Where, in the process.
        address: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The process does not let its memory be read.
    #[error(
        "process {pid}: its code does not answer (it may be mapped from a file system that hangs). Its \
         tracepoints stayed as they were"
    )]
    Stuck {
        /// The process.
        pid: u32,
    },
    /// The kernel does not say what it is asked of it, because of a lock that the process holds.
    #[error(
        "process {pid}: the kernel does not answer what is asked of it: a file system holds it, most likely \
         in the middle of execve(). Left it alone until that is over"
    )]
    Held {
        /// The process.
        pid: u32,
    },
    /// The kernel does not answer for others of its user.
    #[error(
        "process {pid}: {}",
        held_of_user(*uid)
    )]
    UserHeld {
        /// The process.
        pid: u32,
        /// Its user.
        uid: u32,
    },
    /// The kernel does not answer for others of many users.
    #[error(
        "process {pid}: the kernel does not answer what is asked of {limit} other processes, which is the \
         limit of all users. Left it alone until one of them is answered for; end those that are named"
    )]
    AllHeld {
        /// The process.
        pid: u32,
        /// How many others.
        limit: usize,
    },
    /// Its user's processes take as much of this program as they may.
    #[error(
        "process {pid}: user {uid} has {found} {what}; the limit is {limit}. Record fewer of that user's \
         processes at once"
    )]
    Crowded {
        /// The process.
        pid: u32,
        /// Who owns its memory.
        uid: u32,
        /// What there is too much of.
        what: &'static str,
        /// How much there would be.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// Our own limit on open files.
    #[error(
        "process {pid}: {what}: this program has as many files open as it may ({limit}). Raise the \
         limit (ulimit -n), or record fewer processes"
    )]
    Descriptors {
        /// The process.
        pid: u32,
        /// What was tried.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// Something else that the system refused.
    #[error("process {pid}: {what}: {source}")]
    System {
        /// The process.
        pid: u32,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The rules.
    #[error(transparent)]
    Rules(#[from] RuleError),
    /// A socket.
    #[error("socket for announcements: {what}: {source}")]
    Socket {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The folder for sockets.
    #[error("folder {}: {reason}. New processes cannot announce themselves", .path.display())]
    Folder {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// The process that it is about.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match self {
            Error::Proc { .. } | Error::Rules(_) | Error::Socket { .. } | Error::Folder { .. } => {
                None
            }
            Error::Gone { pid }
            | Error::NotInstrumented { pid, .. }
            | Error::Refused { pid, .. }
            | Error::Denied { pid, .. }
            | Error::NotItsOwn { pid, .. }
            | Error::NotMemory { pid }
            | Error::NotSealed { pid, .. }
            | Error::TooSmall { pid, .. }
            | Error::NotReady { pid }
            | Error::Magic { pid, .. }
            | Error::Version { pid, .. }
            | Error::Value { pid, .. }
            | Error::Description { pid, .. }
            | Error::Locked { pid, .. }
            | Error::NoSlot { pid }
            | Error::NoPlace { pid, .. }
            | Error::FileSizeLimit { pid, .. }
            | Error::Channel { pid, .. }
            | Error::NotArmed { pid, .. }
            | Error::NoBuffers { pid, .. }
            | Error::Strict { pid, .. }
            | Error::SlotTaken { pid, .. }
            | Error::Site { pid, .. }
            | Error::Code { pid, .. }
            | Error::Stuck { pid }
            | Error::Held { pid }
            | Error::UserHeld { pid, .. }
            | Error::AllHeld { pid, .. }
            | Error::Crowded { pid, .. }
            | Error::Descriptors { pid, .. }
            | Error::System { pid, .. } => Some(*pid),
        }
    }

    /// The process has ended meanwhile: nothing to warn about.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Error::Gone { .. })
    }

    /// The kernel does not answer for it, or for others of its user: try again later.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self, Error::Held { .. } | Error::UserHeld { .. } | Error::AllHeld { .. })
    }

    /// Nothing is wrong with the process or its memory: what was lacking may be there another time.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        use strata_ring::Error as Ring;
        match self {
            Error::Crowded { .. }
            | Error::Descriptors { .. }
            | Error::Locked { .. }
            | Error::System { .. } => true,
            Error::Channel { source, .. } => {
                matches!(source, Ring::Map { .. } | Ring::NoMemory(_))
            }
            error => error.is_held(),
        }
    }

    /// The system does not let us.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Error::Denied { .. })
    }
}

/// Why nothing of a process can be recorded that shares nothing.
fn not_instrumented(lttng: Option<&Lttng>) -> String {
    lttng.map_or_else(
        || {
            "has no tracepoints of Strata's. Link it with libstrata, or check the process id"
                .to_owned()
        },
        Lttng::to_string,
    )
}

/// Why nothing is asked of a user's processes.
#[must_use]
pub fn held_of_user(uid: u32) -> String {
    format!(
        "the kernel does not answer, or too slowly, what is asked of other processes of user {uid}. Left alone \
         until it does"
    )
}

/// ` (name)`, or nothing.
fn in_parentheses(name: &str) -> String {
    match name {
        "" => String::new(),
        name => format!(" ({name})"),
    }
}

/// A slot is taken from who gives no sign of life; from others only by damage.
fn why_taken(silent_ms: u64) -> String {
    match silent_ms {
        silent if silent < user::DEAD_NS / 2_000_000 => ". Its shared memory is damaged".to_owned(),
        silent => format!(": this tracer had not moved for {} s", silent / 1000),
    }
}

/// Why the system does not let us look into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// It runs as somebody else.
    OtherUser {
        /// Its user.
        theirs: u32,
        /// Ours.
        ours: u32,
    },
    /// It hides from its own user, as programs that change user do.
    NotDumpable,
    /// Root does for a process only what its user may do, and the kernel does not let that user.
    NotItsUser {
        /// Who owns what it shares.
        uid: u32,
    },
    /// Yama allows only what it allows.
    PtraceScope {
        /// Content of `/proc/sys/kernel/yama/ptrace_scope`.
        value: u32,
    },
    /// It has closed its descriptor of the shared memory, and only root can reach that otherwise.
    Closed,
    /// Nothing that we know of.
    Unknown {
        /// What the system said.
        code: i32,
    },
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denial::OtherUser { theirs, ours } => {
                write!(f, "it runs as user {theirs}, this program as {ours}. Run as root")
            }
            Denial::NotDumpable => f.write_str(
                "it is protected from its own user (it has changed user, or has capabilities). Run \
                 as root",
            ),
            Denial::NotItsUser { uid } => write!(
                f,
                "not even user {uid}, who owns what it shares, may look into it: it has other rights \
                 than its user, or hides, and nothing is done for a process that its user may not do. \
                 Start it with 'strata record -- COMMAND'"
            ),
            Denial::PtraceScope { value } => write!(
                f,
                "/proc/sys/kernel/yama/ptrace_scope is {value}. Start it with 'strata record -- \
                 COMMAND', run as root, or write 0 there"
            ),
            Denial::Closed => f.write_str(
                "it has closed its descriptor of the shared memory. Run as root, or start it with \
                 'strata record -- COMMAND'",
            ),
            Denial::Unknown { code } => {
                write!(f, "{}. Run as root", io::Error::from_raw_os_error(*code))
            }
        }
    }
}
