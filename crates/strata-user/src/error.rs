//! Errors: why a process cannot be traced, or only in part.

use std::fmt;
use std::io;
use std::path::PathBuf;

use strata_abi::user;
use strata_model::printable;

use crate::decide::event_rules::RuleError;
use crate::discover::lttng::Lttng;
use crate::read::description_parser::DescriptionError;

/// Errors that name the process, the failed step, the value found, and a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The list of processes cannot be read.
    #[error("/proc: cannot be read: {source}. Processes are found there; mount it")]
    Proc { source: io::Error },
    /// The process has ended, or never existed.
    #[error("process {pid}: is not there")]
    Gone { pid: u32 },
    /// The process shares no memory with Strata.
    #[error("process {pid} ({name}): {}", not_instrumented(lttng.as_ref()))]
    NotInstrumented {
        pid: u32,
        name: String,
        /// LTTng-UST in the process, if it is instrumented for that.
        lttng: Option<Lttng>,
    },
    /// The process itself refuses to be traced.
    #[error("process {pid}{}: cannot be traced: {reason}", in_parentheses(name))]
    Refused {
        pid: u32,
        name: String,
        /// Reason that the process gave.
        reason: String,
    },
    /// The system refused access to the process.
    #[error("process {pid}: {what}: not allowed: {denial}")]
    Denied {
        pid: u32,
        /// Step that failed.
        what: &'static str,
        /// Reason for the refusal, if it is known.
        denial: Denial,
    },
    /// The process has announced itself with memory that belongs to another process, or claims to.
    #[error(
        "process {pid}: announced itself with memory that is not its own: of process {said} and user \
         {owner}, while it is process {inner} in its namespace, of user {uid}. Ignored it"
    )]
    NotItsOwn {
        pid: u32,
        /// Process id that the process has in its own namespace.
        inner: u32,
        /// Process id that the memory claims.
        said: u32,
        /// Owner of the memory's file.
        owner: u32,
        uid: u32,
    },
    /// The file that was handed over is not a memfd.
    #[error("process {pid}: its shared memory is not a memfd; ignored it")]
    NotMemory { pid: u32 },
    /// The memory is not sealed against shrinking, so that it could be shortened while it is mapped.
    #[error(
        "process {pid}: its shared memory is not sealed against shrinking (seals {found:#x}, needed \
         {needed:#x}); not mapped"
    )]
    NotSealed {
        pid: u32,
        /// Seals that the memory has.
        found: u32,
        /// The seal that is needed.
        needed: u32,
    },
    /// The memory is too small for the layout.
    #[error("process {pid}: its shared memory has {found} bytes; the layout needs {limit}")]
    TooSmall {
        pid: u32,
        found: u64,
        /// The least size that is needed \[byte\].
        limit: u64,
    },
    /// The process has not finished initialising its memory.
    #[error("process {pid}: is just starting; its tracepoints are not there yet. Try again")]
    NotReady { pid: u32 },
    /// The memory does not begin with the magic number: it is something else, or of another byte order.
    #[error(
        "process {pid}: its shared memory begins with {found:#018x}, not {:#018x}",
        user::MAGIC
    )]
    Magic { pid: u32, found: u64 },
    /// The process has another version of libstrata.
    #[error(
        "process {pid}: shares memory of layout version {found}; this program knows {}. Use the \
         tracer that came with its libstrata",
        user::VERSION
    )]
    Version { pid: u32, found: u32 },
    /// A value in the control page, a state or a slot is impossible.
    #[error(
        "process {pid}: {what} is {found}; the limit is {limit}. Its shared memory is damaged"
    )]
    Value { pid: u32, what: &'static str, found: u64, limit: u64 },
    /// A tracepoint's description makes no sense.
    #[error("process {pid}: tracepoint {index}: {source}. Its shared memory is damaged")]
    Description { pid: u32, index: u32, source: DescriptionError },
    /// The memory stays locked, by another tracer or the process.
    #[error(
        "process {pid}: its shared memory stayed locked for {waited_ms} ms. If another tracer holds \
         it, try again"
    )]
    Locked {
        pid: u32,
        /// Time spent waiting for the lock \[ms\].
        waited_ms: u64,
    },
    /// All session slots are taken.
    #[error(
        "process {pid}: {} sessions trace it already, which is the limit. End one",
        user::NR_SESSIONS
    )]
    NoSlot { pid: u32 },
    /// The memory cannot grow any more.
    #[error("process {pid}: no place for a channel of {bytes} bytes at byte {offset} of its shared memory")]
    NoPlace {
        pid: u32,
        /// Size of the channel \[byte\].
        bytes: u64,
        /// Requested offset of the channel \[byte\].
        offset: u64,
    },
    /// The memory would have to grow beyond this program's own limit on the size of files.
    #[error(
        "process {pid}: its shared memory must grow to {needed} bytes; this program's file size \
         limit is {limit}. Raise it (ulimit -f) or use smaller buffers"
    )]
    FileSizeLimit { pid: u32, needed: u64, limit: u64 },
    /// The channel cannot be made, or the memory holds none.
    #[error("process {pid}: {source}")]
    Channel { pid: u32, source: strata_ring::Error },
    /// The process was not started for this session, or has left it.
    #[error("process {pid}: has no session of generation {generation}")]
    NotEnabled {
        pid: u32,
        /// Generation of the session that was looked for.
        generation: u64,
    },
    /// The process could not make the channel of the session that it was started for.
    #[error(
        "process {pid}: could not make its buffers when it began: {}. Raise its limits (file size: \
         ulimit -f, memory: ulimit -v), or use a smaller --subbuf-size. Not recorded from its begin",
        io::Error::from_raw_os_error(i32::try_from(*.code).unwrap_or(0))
    )]
    NoBuffers {
        pid: u32,
        /// The `errno` that the process wrote to its memory.
        code: u32,
    },
    /// Threads of the process are in seccomp's strict mode without the knowledge of libstrata.
    #[error(
        "process {pid}: {found} of its threads are in seccomp's strict mode, which {known} of them had told \
         libstrata; the first record of the others would be their end. Enter the mode by prctl() or syscall() \
         of libc. Not recorded"
    )]
    Strict {
        pid: u32,
        /// Number of threads in that mode.
        found: u32,
        /// Number of threads in that mode that libstrata knows of.
        known: u32,
    },
    /// Another tracer has taken the slot, since this tracer wrote no heartbeat for too long.
    #[error(
        "process {pid}: session slot {slot} is no longer ours (generation {found}, ours is \
         {wanted}){}", why_taken(*silent_ms)
    )]
    SlotTaken {
        pid: u32,
        slot: u32,
        /// Generation of the session that has the slot now.
        found: u64,
        /// Generation of this session.
        wanted: u64,
        /// Time since this tracer's last heartbeat \[ms\].
        silent_ms: u64,
    },
    /// The code at a tracepoint's site differs from its description.
    #[error(
        "process {pid}: tracepoint {}: at {address:#x} there is {found:02x?}, not opcode {:#x} or {:#x} and \
         displacement {displacement}. Left it alone; this tracepoint stays off",
        printable(.tracepoint), user::SITE_DORMANT, user::SITE_ON
    )]
    Site {
        pid: u32,
        /// The tracepoint, as `provider:name`.
        tracepoint: String,
        /// Address of the site in the process.
        address: u64,
        /// Bytes that were found at the site.
        found: [u8; 5],
        /// Displacement that the description gives.
        displacement: i32,
    },
    /// The code cannot be read or written.
    #[error("process {pid}: tracepoint {}: the code at {address:#x} cannot be changed: {source}",
            printable(.tracepoint))]
    Code {
        pid: u32,
        /// The tracepoint, as `provider:name`.
        tracepoint: String,
        /// Address of the site in the process.
        address: u64,
        source: io::Error,
    },
    /// The process' code does not answer, perhaps because it is mapped from a file system that hangs.
    #[error(
        "process {pid}: its code does not answer (it may be mapped from a file system that hangs). Its \
         tracepoints stayed as they were"
    )]
    Stuck { pid: u32 },
    /// The kernel does not answer questions about the process, because of a lock that the process holds.
    #[error(
        "process {pid}: the kernel does not answer what is asked of it: a file system holds it, most likely \
         in the middle of execve(). Left it alone until that is over"
    )]
    Held { pid: u32 },
    /// The kernel does not answer questions about other processes of this user, so that none is asked about this one.
    #[error(
        "process {pid}: {}",
        held_of_user(*uid)
    )]
    UserHeld { pid: u32, uid: u32 },
    /// The kernel does not answer questions about other processes of many users.
    #[error(
        "process {pid}: the kernel does not answer what is asked of {limit} other processes, which is the \
         limit of all users. Left it alone until one of them is answered for; end those that are named"
    )]
    AllHeld {
        pid: u32,
        /// Limit on the processes for which an answer is missing.
        limit: usize,
    },
    /// The processes of this user already take the largest share of this program's resources that one user may have.
    #[error(
        "process {pid}: user {uid} has {found} {what}; the limit is {limit}. Record fewer of that user's \
         processes at once"
    )]
    Crowded {
        pid: u32,
        /// User who owns the memory.
        uid: u32,
        /// Kind of resource that is exhausted.
        what: &'static str,
        found: u64,
        limit: u64,
    },
    /// This program has as many files open as it may.
    #[error(
        "process {pid}: {what}: this program has as many files open as it may ({limit}). Raise the \
         limit (ulimit -n), or record fewer processes"
    )]
    Descriptors {
        pid: u32,
        /// Step that failed.
        what: &'static str,
        limit: u64,
    },
    /// A system call failed.
    #[error("process {pid}: {what}: {source}")]
    System {
        pid: u32,
        /// Step that failed.
        what: &'static str,
        source: io::Error,
    },
    /// The rules are not valid.
    #[error(transparent)]
    Rules(#[from] RuleError),
    /// A socket could not be used.
    #[error("socket for announcements: {what}: {source}")]
    Socket {
        /// Step that failed.
        what: &'static str,
        source: io::Error,
    },
    /// The folder for sockets cannot be used.
    #[error("folder {}: {reason}. New processes cannot announce themselves", .path.display())]
    Folder { path: PathBuf, reason: String },
}

impl Error {
    /// Process id of the process that the error is about; `None` if it is about no process.
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
            | Error::NotEnabled { pid, .. }
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

    /// Returns true if the process has ended, which is nothing to warn about.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Error::Gone { .. })
    }

    /// Returns whether the error is that the kernel does not answer questions about this process or others. A later
    /// attempt may succeed.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self, Error::Held { .. } | Error::UserHeld { .. } | Error::AllHeld { .. })
    }

    /// Returns whether a later attempt may succeed, because the error is not a fault of the process or its memory.
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

    /// Returns true if the system denied access to the process.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Error::Denied { .. })
    }
}

/// Returns the reason why a process that shares no memory cannot be recorded.
fn not_instrumented(lttng: Option<&Lttng>) -> String {
    lttng.map_or_else(
        || {
            "has no tracepoints of Strata's. Link it with libstrata, or check the process id"
                .to_owned()
        },
        Lttng::to_string,
    )
}

/// Returns a text that says why processes of this user are not examined.
#[must_use]
pub fn held_of_user(uid: u32) -> String {
    format!(
        "the kernel does not answer, or too slowly, what is asked of other processes of user {uid}. Left alone \
         until it does"
    )
}

/// Returns ` (name)`, or an empty string if there is no name.
fn in_parentheses(name: &str) -> String {
    match name {
        "" => String::new(),
        name => format!(" ({name})"),
    }
}

/// Returns the reason for which a slot was taken: its tracer was silent, or the memory is damaged.
fn why_taken(silent_ms: u64) -> String {
    match silent_ms {
        silent if silent < user::DEAD_NS / 2_000_000 => ". Its shared memory is damaged".to_owned(),
        silent => format!(": this tracer had not moved for {} s", silent / 1000),
    }
}

/// Why the system denies access to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// The process runs as another user.
    OtherUser {
        /// User id of the process.
        theirs: u32,
        /// User id of this program.
        ours: u32,
    },
    /// The process is protected from its own user, as programs are that change user.
    NotDumpable,
    /// The kernel denies access to the process's own user, and root accesses processes only with the rights of their
    /// user.
    NotItsUser {
        /// User who owns the shared memory.
        uid: u32,
    },
    /// Yama's `ptrace_scope` forbids it.
    PtraceScope {
        /// Content of `/proc/sys/kernel/yama/ptrace_scope`.
        value: u32,
    },
    /// The process has closed its descriptor of the shared memory, so that only root can reach the memory.
    Closed,
    /// The reason is unknown.
    Unknown { code: i32 },
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
                "not even user {uid}, who owns its shared memory, may inspect it: it has other rights \
                 than its user, or is not dumpable, and Strata does for a process only what its user may do. \
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
