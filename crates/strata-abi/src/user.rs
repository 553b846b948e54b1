//! `strata/abi/user.h`: what a traced process and its tracers share, one sealed memfd per process.
//!
//! Fields that several programs access while they run are atomics. The others belong to a program
//! that is not trusted and may change at any time: copy a struct out through a raw pointer, then
//! validate the copy. All values are in the byte order of the machine.

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// First field of a control page.
pub const MAGIC: u64 = 0x5354_5241_5441_55ff;
/// Version of the whole layout; any other is refused.
pub const VERSION: u32 = 6;

pub const NR_SESSIONS: u32 = 32;
pub const NR_STATES: u32 = 16384;
pub const SESSIONS_OFFSET: u32 = 4096;
pub const STATES_OFFSET: u32 = 135_168;
pub const DESCRIPTIONS_OFFSET: u32 = 2_232_320;
/// Offset of the sessions' filters, each [`filter::BYTES`](crate::filter::BYTES) long \[byte\].
pub const FILTERS_OFFSET: u32 = 5_767_168;
/// Offset of the second copy of each session's rules, one page each \[byte\].
pub const RULES_OFFSET: u32 = 6_291_456;
pub const CHANNELS_OFFSET: u32 = 6_422_528;
/// Room for descriptions \[byte\].
pub const DESCRIPTIONS_BYTES: u32 = FILTERS_OFFSET - DESCRIPTIONS_OFFSET;
/// Room for the rule text of one session \[byte\].
pub const RULES_BYTES: u32 = 3840;
/// Room for the short name of a process \[byte\].
pub const NAME_BYTES: u32 = 64;

/// Name of the memfd.
pub const MEMFD: &str = "strata";
/// Beginning of the memfd's name in a process that cannot be traced; the reason follows.
pub const MEMFD_REFUSED: &str = "strata-refused:";

/// Folder of the sockets on which root's tracers listen.
pub const SOCKETS_ROOT: &str = "/run/strata";
/// Folder of the sockets on which a user's tracers listen; `%u`: user id.
pub const SOCKETS_USER: &str = "/run/user/%u/strata";
/// The folder of sockets where there is no `/run/user`.
pub const SOCKETS_TMP: &str = "/tmp/strata-%u";

/// Environment variable that makes a launched command record.
pub const ENVIRONMENT: &str = "STRATA_SESSION";
/// Suffix of a listening socket's name.
pub const SOCKET_END: &str = ".sock";
/// Suffix of the file beside a tracer's socket that holds the tracer's request to every process that begins.
pub const REQUEST: &str = ".request";
/// Most bytes of such a request file \[byte\].
pub const REQUEST_BYTES: u32 = 40_960;

/// [`Control::clock_kind`]: `clock_gettime()`.
pub const CLOCK_VDSO: u32 = 0;
/// [`Control::clock_kind`]: the cycle counter and [`Control::clock`].
pub const CLOCK_TSC: u32 = 1;
/// [`Control::no_session`]: the process's environment has no variable [`ENVIRONMENT`].
pub const NO_SESSION_NO_REQUEST: u32 = 1;
/// [`Control::no_session`]: the process has other rights than its user, and ignores its environment.
pub const NO_SESSION_SECURE: u32 = 2;
/// The environment's request has another version, or cannot be parsed.
pub const NO_SESSION_UNKNOWN: u32 = 3;
/// The process reached no tracer socket that it may trust.
pub const NO_SESSION_SOCKET: u32 = 4;
pub const NR_CLOCK_SLOTS: u32 = 8;

/// [`Session::status`]: the slot is free.
pub const SESSION_FREE: u32 = 0;
/// [`Session::status`]: a tracer prepares the session.
pub const SESSION_SETUP: u32 = 1;
/// [`Session::status`]: the process writes records to the session.
pub const SESSION_ACTIVE: u32 = 2;
/// [`Session::status`]: recording has ended, and the tracer reads the rest.
pub const SESSION_ENDING: u32 = 3;
/// Age of a heartbeat after which a tracer counts as dead \[ns\].
pub const DEAD_NS: u64 = 10_000_000_000;

/// [`Session::flags`]: children by `fork()` get it too.
pub const SESSION_INHERIT: u32 = 1;
/// [`Session::flags`]: record headers are large, else compact.
pub const SESSION_LARGE_HEADER: u32 = 2;
/// [`Session::flags`]: the channel's loss mode.
pub const SESSION_OVERWRITE: u32 = 4;
/// [`Session::flags`]: a record's payload has its thread's id in front of it, 4 bytes.
pub const SESSION_VTID: u32 = 8;
/// [`Session::flags`]: the filter asks for the duration, so both ends of a span are recorded when it ends, or none.
pub const SESSION_SPANS: u32 = 16;

/// Contexts of a session at most.
pub const CONTEXTS_MAX: u32 = 28;
/// [`Session::contexts`]: the process' id in its namespace, 4 bytes, signed.
pub const CTX_VPID: u32 = 1;
/// [`Session::contexts`]: the process' name.
pub const CTX_PROCNAME: u32 = 2;
/// [`Session::contexts`]: the thread's name.
pub const CTX_THREADNAME: u32 = 3;
/// [`Session::contexts`]: what `pthread_self()` says, 8 bytes.
pub const CTX_PTHREAD_ID: u32 = 4;
/// [`Session::contexts`]: the CPU, 4 bytes, signed.
pub const CTX_CPU_ID: u32 = 5;
/// [`Session::contexts`]: real user id, 4 bytes; the next numbers are effective and saved user id, real and effective group id.
pub const CTX_VUID: u32 = 6;
/// [`Session::contexts`]: saved group id, 4 bytes.
pub const CTX_VSGID: u32 = 11;
/// [`Session::contexts`]: the site's address, 8 bytes.
pub const CTX_IP: u32 = 12;
/// [`Session::contexts`]: a length of 4 bytes, and addresses.
pub const CTX_CALLSTACK: u32 = 13;
/// [`Session::contexts`]: inode of the cgroup namespace, 8 bytes; the next six numbers are ipc, mnt, net, pid, time and user.
pub const CTX_CGROUP_NS: u32 = 14;
/// [`Session::contexts`]: inode of the UTS namespace, 8 bytes.
pub const CTX_UTS_NS: u32 = 21;
/// [`Session::contexts`]: the thread's page faults, 8 bytes.
pub const CTX_PAGE_FAULT: u32 = 22;
/// [`Session::contexts`]: those without input.
pub const CTX_MINOR: u32 = 23;
/// [`Session::contexts`]: those with input.
pub const CTX_MAJOR: u32 = 24;
/// [`Session::contexts`]: the thread's context switches, 8 bytes.
pub const CTX_SWITCHES: u32 = 25;
/// [`Session::contexts`]: the thread's CPU time \[ns\], 8 bytes.
pub const CTX_TASK_CLOCK: u32 = 26;
/// [`Session::contexts`]: number of the process' control group of version 2, 8 bytes.
pub const CTX_CGROUP: u32 = 27;
/// Addresses of a call stack at most.
pub const CALLSTACK_MAX: u32 = 16;
/// Size of a name \[byte\].
pub const COMM_BYTES: u32 = 17;

/// [`State::flags`]: described, and its object is loaded.
pub const STATE_PRESENT: u32 = 1;
/// [`State::flags`]: its sites test [`State::enabled`]; never write to its code.
pub const STATE_FLAG: u32 = 2;
/// [`State::ids`]: none.
pub const NO_ID: u16 = 0xffff;

/// Opcode of a dormant site.
pub const SITE_DORMANT: u8 = 0xa9;
/// Opcode of a site that is on.
pub const SITE_ON: u8 = 0xe9;

/// Type of a field: integer.
pub const INTEGER: u8 = 1;
/// Type of a field: IEEE 754.
pub const FLOAT: u8 = 2;
/// Type of a field: bytes up to a NUL.
pub const STRING: u8 = 3;
/// Type of a field: as many elements as the description says.
pub const ARRAY: u8 = 4;
/// Type of a field: as many elements as the record says.
pub const SEQUENCE: u8 = 5;
/// Type of an element: text.
pub const TEXT: u8 = 6;

/// Flag of a field: signed.
pub const FIELD_SIGNED: u8 = 1;
/// Flag of a field: big-endian, whatever the machine is.
pub const FIELD_NETWORK: u8 = 2;
/// Flag of a field: an integer that is 0 or 1.
pub const FIELD_BOOL: u8 = 4;

/// Most fields of a tracepoint.
pub const FIELDS_MAX: u32 = 64;
/// Longest `provider:name` \[byte\].
pub const NAME_MAX: u32 = 255;
/// Least severe log level; 0 is the most severe.
pub const LEVEL_MAX: u32 = 14;

/// `struct strata_abi_user_clock_slot`: how the cycle counter becomes `CLOCK_MONOTONIC`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ClockSlot {
    /// Cycle count at which the conversion begins \[cycle\].
    pub base_cycles: AtomicU64,
    /// Nanoseconds of a cycle, times 2^32; 0: unusable.
    pub multiplier: AtomicU64,
    /// The time at `base_cycles` \[ns\].
    pub base_ns: AtomicU64,
    /// The `clock_index` that it is for, stored last (release).
    pub index: AtomicU64,
}

/// `struct strata_abi_user_control`, at offset 0 of the memfd.
#[repr(C)]
#[derive(Debug)]
pub struct Control {
    /// [`MAGIC`], written last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// Process id in the process' own PID namespace.
    pub pid: AtomicU32,
    /// [`crate::ring::BY_COMMIT`] or [`crate::ring::BY_POSITION`].
    pub publish: AtomicU32,
    /// Streams that a channel needs.
    pub nr_cpus: AtomicU32,
    /// States below it are described.
    pub nr_states: AtomicU32,
    /// Used size of the descriptions \[byte\].
    pub descriptions_bytes: AtomicU32,
    /// Changes with every loaded and unloaded object.
    pub generation: AtomicU64,
    /// When the process began \[ns\].
    pub started_ns: AtomicU64,
    /// Tracepoints that found no room.
    pub refused: AtomicU32,
    /// Error number with which the process failed to patch its own sites; 0 if it could.
    pub patch_errno: AtomicU32,
    /// [`CLOCK_VDSO`] or [`CLOCK_TSC`].
    pub clock_kind: AtomicU32,
    /// PID of the parent if the process is a fork, in its own namespace; otherwise 0.
    pub parent_pid: AtomicU32,
    pub name: [u8; NAME_BYTES as usize],
    /// The clock slot in use is the remainder by [`NR_CLOCK_SLOTS`].
    pub clock_index: AtomicU64,
    /// Bit s is set while slot s may be in use.
    pub claimed_sessions: AtomicU32,
    /// Threads that may not read the counter and have told libstrata; `!0`: all.
    pub without_clock: AtomicU32,
    /// The place of the [`Loaded`](crate::loaded::Loaded) that was noted last; 0: none.
    pub objects: AtomicU32,
    /// Objects that found no room.
    pub objects_refused: AtomicU32,
    /// Objects that were loaded and unloaded between two scans.
    pub objects_unseen: AtomicU32,
    /// An `NO_SESSION_*` reason that the environment's session was not joined; 0 if it was, or if that is unknown.
    pub no_session: AtomicU32,
    /// The errno of the failed connection, with [`NO_SESSION_SOCKET`].
    pub no_session_errno: AtomicU32,
    pub reserved: [u32; 7],
    pub clock: [ClockSlot; NR_CLOCK_SLOTS as usize],
}

impl Default for Control {
    fn default() -> Self {
        Self {
            magic: AtomicU64::default(),
            version: AtomicU32::default(),
            pid: AtomicU32::default(),
            publish: AtomicU32::default(),
            nr_cpus: AtomicU32::default(),
            nr_states: AtomicU32::default(),
            descriptions_bytes: AtomicU32::default(),
            generation: AtomicU64::default(),
            started_ns: AtomicU64::default(),
            refused: AtomicU32::default(),
            patch_errno: AtomicU32::default(),
            clock_kind: AtomicU32::default(),
            parent_pid: AtomicU32::default(),
            name: [0; NAME_BYTES as usize],
            clock_index: AtomicU64::default(),
            claimed_sessions: AtomicU32::default(),
            without_clock: AtomicU32::default(),
            objects: AtomicU32::default(),
            objects_refused: AtomicU32::default(),
            objects_unseen: AtomicU32::default(),
            no_session: AtomicU32::default(),
            no_session_errno: AtomicU32::default(),
            reserved: [0; 7],
            clock: Default::default(),
        }
    }
}

/// `struct strata_abi_user_session`: one session slot of a process.
#[repr(C)]
#[derive(Debug)]
pub struct Session {
    /// [`SESSION_FREE`] to [`SESSION_ENDING`].
    pub status: AtomicU32,
    /// [`SESSION_INHERIT`], [`SESSION_LARGE_HEADER`], [`SESSION_OVERWRITE`], [`SESSION_VTID`],
    /// [`SESSION_SPANS`].
    pub flags: AtomicU32,
    /// Unlike that of any session before.
    pub generation: AtomicU64,
    /// Time at which the tracer last showed that it is alive \[ns\]; 0: no tracer yet.
    pub heartbeat_ns: AtomicU64,
    /// Offset of the channel from the start of the memfd \[byte\].
    pub channel_offset: AtomicU64,
    /// Size of the channel \[byte\].
    pub channel_bytes: AtomicU64,
    /// Size of a sub-buffer \[byte\].
    pub subbuf_bytes: AtomicU64,
    /// Sub-buffers of each stream.
    pub nr_subbufs: AtomicU32,
    /// The next id of event records.
    pub next_id: AtomicU32,
    /// Records discarded because the channel could not be mapped.
    pub discarded_unmapped: AtomicU64,
    /// Records discarded because there was no memory to assemble them in.
    pub discarded_unstaged: AtomicU64,
    /// If 1, the process has left the session because its tracer died.
    pub self_stopped: AtomicU64,
    /// Size of the rule text \[byte\].
    pub rules_bytes: AtomicU32,
    /// In a free slot with the generation that was asked for: why the process could not make the channel.
    pub create_errno: AtomicU32,
    /// Records discarded because the thread may not read the clock.
    pub discarded_no_clock: AtomicU64,
    /// Size of the filter; 0: all events are recorded \[byte\].
    pub filter_bytes: AtomicU32,
    /// Version of the rules. Even: [`Session::rules`] holds them; odd: the copy at [`RULES_OFFSET`].
    pub rules_version: AtomicU32,
    /// Size of the rule text of the second place \[byte\].
    pub other_rules_bytes: AtomicU32,
    pub nr_contexts: AtomicU32,
    /// Generation of the session that this one replaces; 0 if it replaces none.
    pub replaces: AtomicU64,
    /// [`CTX_VPID`] to [`CTX_CGROUP`], in the order in which records have them.
    pub contexts: [u8; CONTEXTS_MAX as usize],
    pub reserved: [u32; 25],
    /// [`CTX_CGROUP`], as the tracer sees it; 0: it does not say.
    pub cgroup_id: AtomicU64,
    /// Rule text, see `strata/abi/rule.h`.
    pub rules: [u8; RULES_BYTES as usize],
}

impl Default for Session {
    fn default() -> Self {
        Self {
            status: AtomicU32::default(),
            flags: AtomicU32::default(),
            generation: AtomicU64::default(),
            heartbeat_ns: AtomicU64::default(),
            channel_offset: AtomicU64::default(),
            channel_bytes: AtomicU64::default(),
            subbuf_bytes: AtomicU64::default(),
            nr_subbufs: AtomicU32::default(),
            next_id: AtomicU32::default(),
            discarded_unmapped: AtomicU64::default(),
            discarded_unstaged: AtomicU64::default(),
            self_stopped: AtomicU64::default(),
            rules_bytes: AtomicU32::default(),
            create_errno: AtomicU32::default(),
            discarded_no_clock: AtomicU64::default(),
            filter_bytes: AtomicU32::new(0),
            rules_version: AtomicU32::default(),
            other_rules_bytes: AtomicU32::default(),
            nr_contexts: AtomicU32::default(),
            replaces: AtomicU64::default(),
            contexts: [0; CONTEXTS_MAX as usize],
            reserved: [0; 25],
            cgroup_id: AtomicU64::default(),
            rules: [0; RULES_BYTES as usize],
        }
    }
}

/// `struct strata_abi_user_state`: the state of one tracepoint.
#[repr(C)]
#[derive(Debug, Default)]
pub struct State {
    /// Bit s is set while the tracepoint is enabled for the session in slot s.
    pub enabled: AtomicU32,
    /// [`STATE_PRESENT`], [`STATE_FLAG`].
    pub flags: AtomicU32,
    /// Offset of the description from [`DESCRIPTIONS_OFFSET`] \[byte\].
    pub description: AtomicU32,
    /// Size of the description \[byte\].
    pub description_bytes: AtomicU32,
    /// Offset of the sites from [`DESCRIPTIONS_OFFSET`], a multiple of 8 \[byte\].
    pub sites: AtomicU32,
    pub nr_sites: AtomicU32,
    pub reserved: [u32; 10],
    /// Event record id in each session; [`NO_ID`]: none.
    pub ids: [AtomicU16; NR_SESSIONS as usize],
}

/// `struct strata_abi_user_site`: the place of a tracepoint in the process' code.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Site {
    /// Address of the site in the process.
    pub address: u64,
    /// Operand of the opcode.
    pub displacement: i32,
    pub reserved: u32,
}

/// `struct strata_abi_user_announcement`: the message with which a process offers its memfd.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Announcement {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// Process id in the process' own PID namespace.
    pub pid: u32,
}

/// `STRATA_ABI_USER_ABSENCE_MAGIC`.
pub const ABSENCE_MAGIC: u64 = 0x5354_5241_5441_55fe;

/// `struct strata_abi_user_absence`: the message of a process that has tracepoints and no memory to share.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Absence {
    /// [`ABSENCE_MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// The errno of making the memory; 0 if the memory is made next.
    pub error: u32,
    /// The generation in the process' environment; 0 if there was none.
    pub generation: u64,
}
