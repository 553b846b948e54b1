//! What an argument is, beyond its C type: a path, an address, a file descriptor.
//!
//! Contents of buffers are never recorded: they may be anyone's secrets, and nothing bounds their cost.
//! That holds for the environment of execve, values of extended attributes, keys, and options of mount. An
//! option of a socket is recorded where it can be no key.

use super::number::*;
use super::structure::KernelStructure;
use std::collections::HashMap;
use std::sync::OnceLock;
use strata_model::Base;

/// What is recorded of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The register.
    Number(RegisterNumber),
    /// The string that it points to.
    Path,
    /// The strings of the array that it points to.
    Strings,
    /// The same, if it is short.
    Name,
    /// The text that it points to once the call has returned, as long as what is returned.
    PathOut,
    /// The socket's address that it points to; its length is in the next argument.
    Address,
    /// The same once the call has returned; its length is where the next argument points to.
    AddressOut,
    /// The address in the `struct msghdr` that it points to.
    Message,
    /// The same once the call has returned.
    MessageOut,
    /// The same of the first `struct mmsghdr`, and how long the message was.
    MessagesOut,
    /// The address in the first `struct mmsghdr`; how much of that message was sent once the call has returned.
    Messages(KernelStructure),
    /// The structure that it points to.
    Memory(StructureLayout),
    /// The same once the call has returned.
    MemoryOut(StructureLayout),
    /// Of the structure that it points to what is wanted, once the call has returned.
    StructureOut(KernelStructure),
    /// futex's: a number, or by the command the time that it points to.
    TimeOut(StructureLayout),
    /// A socket's option; its length is in the next argument.
    Option,
    /// The same once the call has returned; its length is where the next argument points to.
    OptionOut,
    /// Descriptors with what is asked of them; those that are ready once the call has returned.
    Poll,
    /// A set of descriptors, before and after.
    Set,
    /// What epoll has to say once the call has returned.
    EventsOut,
}

/// What each field's name has behind the argument's, and what it is.
type Members = &'static [(&'static str, RegisterNumber)];

/// A structure, or how it begins: whole words of 4 bytes, in order and without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StructureLayout {
    members: Members,
    /// Where the program has 32-bit pointers.
    narrow: Narrow,
    /// Whether the calling program has 32-bit pointers.
    is_narrow: bool,
}

/// How the structure is laid out in a 32-bit program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Narrow {
    /// As in a 64-bit program.
    Same,
    /// The same members, where each of 8 bytes has 4 bytes instead.
    Halved,
    /// Other members.
    Other(Members),
}

const fn fixed(members: Members) -> StructureLayout {
    StructureLayout { members, narrow: Narrow::Same, is_narrow: false }
}

const fn native(members: Members) -> StructureLayout {
    StructureLayout { members, narrow: Narrow::Halved, is_narrow: false }
}

const TIMESPEC: StructureLayout = native(&[("_sec", LONG), ("_nsec", LONG)]);
const TIMEVAL: StructureLayout = native(&[("_sec", LONG), ("_usec", LONG)]);
const TIMESPECS: StructureLayout =
    native(&[("_0_sec", LONG), ("_0_nsec", LONG), ("_1_sec", LONG), ("_1_nsec", LONG)]);
const TIMEVALS: StructureLayout =
    native(&[("_0_sec", LONG), ("_0_usec", LONG), ("_1_sec", LONG), ("_1_usec", LONG)]);
const ITIMERSPEC: StructureLayout = native(&[
    ("_interval_sec", LONG),
    ("_interval_nsec", LONG),
    ("_value_sec", LONG),
    ("_value_nsec", LONG),
]);
const ITIMERVAL: StructureLayout = native(&[
    ("_interval_sec", LONG),
    ("_interval_usec", LONG),
    ("_value_sec", LONG),
    ("_value_usec", LONG),
]);
const UTIMBUF: StructureLayout = native(&[("_actime", LONG), ("_modtime", LONG)]);
const RLIMIT: StructureLayout = native(&[("_cur", UNSIGNED_LONG), ("_max", UNSIGNED_LONG)]);
const RLIMIT64: StructureLayout = fixed(&[("_cur", UNSIGNED_LONG), ("_max", UNSIGNED_LONG)]);
const OFFSET64: StructureLayout = fixed(&[("", LONG)]);
const DESCRIPTOR_PAIR: StructureLayout = fixed(&[("_0", INT), ("_1", INT)]);
/// Packed on x86-64: as 32-bit programs have it.
const EPOLL_EVENT: StructureLayout = fixed(&[("_events", FLAGS), ("_data", FLAGS_LONG)]);
const OPEN_HOW: StructureLayout = fixed(&[
    ("_flags", FLAGS_LONG),
    ("_mode", number(8, false, Base::Eight)),
    ("_resolve", FLAGS_LONG),
]);
/// As its first version was.
const CLONE_ARGS: StructureLayout = fixed(&[
    ("_flags", FLAGS_LONG),
    ("_pidfd", POINTER),
    ("_child_tid", POINTER),
    ("_parent_tid", POINTER),
    ("_exit_signal", UNSIGNED_LONG),
    ("_stack", POINTER),
    ("_stack_size", UNSIGNED_LONG),
    ("_tls", POINTER),
]);
const SCHED_ATTR: StructureLayout = fixed(&[
    ("_size", UNSIGNED),
    ("_policy", UNSIGNED),
    ("_flags", FLAGS_LONG),
    ("_nice", INT),
    ("_priority", UNSIGNED),
    ("_runtime", UNSIGNED_LONG),
    ("_deadline", UNSIGNED_LONG),
    ("_period", UNSIGNED_LONG),
]);
/// A handler: 0 is SIG_DFL, 1 SIG_IGN. A signal's bit in the mask is its number less 1.
const SIGACTION: StructureLayout = StructureLayout {
    members: &[
        ("_handler", POINTER),
        ("_flags", FLAGS_LONG),
        ("_restorer", POINTER),
        ("_mask", FLAGS_LONG),
    ],
    narrow: Narrow::Other(&[
        ("_handler", FLAGS),
        ("_flags", FLAGS),
        ("_restorer", FLAGS),
        ("_mask", FLAGS_LONG),
    ]),
    is_narrow: false,
};
const STATFS: StructureLayout = native(&[
    ("_type", FLAGS_LONG),
    ("_bsize", UNSIGNED_LONG),
    ("_blocks", UNSIGNED_LONG),
    ("_bfree", UNSIGNED_LONG),
    ("_bavail", UNSIGNED_LONG),
    ("_files", UNSIGNED_LONG),
    ("_ffree", UNSIGNED_LONG),
]);
/// Of 32-bit programs only.
const STATFS64: StructureLayout = fixed(&[
    ("_type", FLAGS),
    ("_bsize", UNSIGNED),
    ("_blocks", UNSIGNED_LONG),
    ("_bfree", UNSIGNED_LONG),
    ("_bavail", UNSIGNED_LONG),
    ("_files", UNSIGNED_LONG),
    ("_ffree", UNSIGNED_LONG),
]);
/// In clock ticks.
const TMS: StructureLayout =
    native(&[("_utime", LONG), ("_stime", LONG), ("_cutime", LONG), ("_cstime", LONG)]);
const PRIORITY: StructureLayout = fixed(&[("_priority", INT)]);
const IN_HEXADECIMAL: StructureLayout = fixed(&[("", FLAGS)]);
const UNSIGNED_OUT: StructureLayout = fixed(&[("", UNSIGNED)]);
const INT_OUT: StructureLayout = fixed(&[("", INT)]);

impl RegisterNumber {
    /// As a 32-bit program has it.
    pub(super) const fn narrow(self) -> RegisterNumber {
        RegisterNumber { bytes: if self.bytes > 4 { 4 } else { self.bytes }, ..self }
    }
}

impl StructureLayout {
    /// What follows the argument's name in the field's, and what the field is.
    pub(super) fn members(self) -> impl Iterator<Item = (&'static str, RegisterNumber)> {
        let narrow =
            move |number: RegisterNumber| if self.is_narrow { number.narrow() } else { number };
        self.members.iter().map(move |(name, number)| (*name, narrow(*number)))
    }

    /// \[byte\]
    pub(super) fn bytes(self) -> u8 {
        self.members().map(|(_, number)| number.bytes).sum()
    }

    fn narrow(self) -> StructureLayout {
        match self.narrow {
            Narrow::Same => self,
            Narrow::Halved => StructureLayout { is_narrow: true, ..self },
            Narrow::Other(members) => StructureLayout { members, ..self },
        }
    }
}

impl Meaning {
    /// As a 32-bit program has it in the call of that name. `has_long_times`: its native structures are those
    /// of 64-bit programs.
    pub(super) fn compat(self, call: &str, has_long_times: bool) -> Meaning {
        match self {
            Meaning::Number(number) => Meaning::Number(number.narrow()),
            Meaning::StructureOut(structure) => match structure.compat(call) {
                Some(structure) => Meaning::StructureOut(structure),
                None => Meaning::Number(POINTER.narrow()),
            },
            Meaning::Messages(length) => {
                Meaning::Messages(length.compat(call).unwrap_or(KernelStructure::MessageLength))
            }
            Meaning::TimeOut(layout) if !has_long_times => Meaning::TimeOut(layout.narrow()),
            Meaning::Memory(layout) if !has_long_times => Meaning::Memory(layout.narrow()),
            Meaning::MemoryOut(layout) if !has_long_times => Meaning::MemoryOut(layout.narrow()),
            other => other,
        }
    }
}

/// Strings by their names, wherever their type is one of [`TEXT_TYPES`].
const PATHS: &[&str] = &["filename", "pathname", "path", "oldname", "newname"];
const TEXT_TYPES: &[&str] = &["const char *", "char *"];

/// Base 16 by their names, wherever they are integers.
const HEXADECIMAL: &[&str] = &[
    "addr arg arg2 arg3 arg4 arg5 attr brk data dev entry init_val ioprio magic1 magic2 mask",
    "new_addr newsp options personality start tls val3",
];
const HEXADECIMAL_ENDS: &[&str] = &["flags", "flag", "flg"];

/// File descriptors that the kernel takes as unsigned: -1 is to be seen as -1.
const DESCRIPTORS: &[&str] = &["fd", "fildes", "oldfd", "newfd"];

/// Single arguments: "CALL.ARGUMENT ...".
const SINGLE: &[(&str, Meaning)] = &[
    (
        "acct.name setxattr.name lsetxattr.name fsetxattr.name getxattr.name lgetxattr.name \
         fgetxattr.name removexattr.name lremovexattr.name fremovexattr.name setxattrat.name \
         getxattrat.name removexattrat.name name_to_handle_at.name swapon.specialfile \
         swapoff.specialfile pivot_root.new_root pivot_root.put_old uselib.library umount2.name \
         mount.dev_name mount.dir_name init_module.uargs finit_module.uargs delete_module.name_user \
         quotactl.special mq_open.u_name mq_unlink.u_name memfd_create.uname fsopen._fs_name \
         oldumount.name fsconfig._key move_mount.from_pathname move_mount.to_pathname add_key._type \
         add_key._description request_key._type request_key._description",
        Meaning::Path,
    ),
    ("mount.type", Meaning::Name),
    ("getcwd.buf readlink.buf readlinkat.buf", Meaning::PathOut),
    ("execve.argv execveat.argv", Meaning::Strings),
    ("bind.umyaddr connect.uservaddr sendto.addr", Meaning::Address),
    (
        "accept.upeer_sockaddr accept4.upeer_sockaddr getsockname.usockaddr getpeername.usockaddr \
         recvfrom.addr",
        Meaning::AddressOut,
    ),
    (
        "nanosleep.rqtp clock_nanosleep.rqtp clock_settime.tp ppoll.tsp pselect6.tsp \
         semtimedop.timeout mq_timedsend.u_abs_timeout mq_timedreceive.u_abs_timeout \
         rt_sigtimedwait.uts io_getevents.timeout io_pgetevents.timeout recvmmsg.timeout \
         epoll_pwait2.timeout futex_wait.timeout futex_waitv.timeout",
        Meaning::Memory(TIMESPEC),
    ),
    (
        "clock_gettime.tp clock_getres.tp sched_rr_get_interval.interval nanosleep.rmtp \
         clock_nanosleep.rmtp",
        Meaning::MemoryOut(TIMESPEC),
    ),
    ("futex.utime", Meaning::TimeOut(TIMESPEC)),
    ("select.tvp settimeofday.tv", Meaning::Memory(TIMEVAL)),
    ("gettimeofday.tv", Meaning::MemoryOut(TIMEVAL)),
    ("utimensat.utimes", Meaning::Memory(TIMESPECS)),
    ("utimes.utimes futimesat.utimes", Meaning::Memory(TIMEVALS)),
    ("utime.times", Meaning::Memory(UTIMBUF)),
    ("timer_settime.new_setting timerfd_settime.utmr", Meaning::Memory(ITIMERSPEC)),
    ("timer_gettime.setting timerfd_gettime.otmr", Meaning::MemoryOut(ITIMERSPEC)),
    ("setitimer.value", Meaning::Memory(ITIMERVAL)),
    ("getitimer.value", Meaning::MemoryOut(ITIMERVAL)),
    ("setrlimit.rlim", Meaning::Memory(RLIMIT)),
    ("getrlimit.rlim old_getrlimit.rlim", Meaning::MemoryOut(RLIMIT)),
    ("prlimit64.new_rlim", Meaning::Memory(RLIMIT64)),
    ("prlimit64.old_rlim", Meaning::MemoryOut(RLIMIT64)),
    ("sendmsg.msg", Meaning::Message),
    ("recvmsg.msg", Meaning::MessageOut),
    ("recvmmsg.mmsg", Meaning::MessagesOut),
    ("sendmmsg.mmsg", Meaning::Messages(KernelStructure::MessageLength)),
    ("setsockopt.optval", Meaning::Option),
    ("getsockopt.optval", Meaning::OptionOut),
    ("poll.ufds ppoll.ufds", Meaning::Poll),
    ("select.inp select.outp select.exp pselect6.inp pselect6.outp pselect6.exp", Meaning::Set),
    ("epoll_wait.events epoll_pwait.events epoll_pwait2.events", Meaning::EventsOut),
    ("rt_sigaction.act", Meaning::Memory(SIGACTION)),
    ("rt_sigaction.oact", Meaning::MemoryOut(SIGACTION)),
    (
        "stat.statbuf fstat.statbuf lstat.statbuf newfstatat.statbuf",
        Meaning::StructureOut(KernelStructure::Stat),
    ),
    ("statx.buffer", Meaning::StructureOut(KernelStructure::Statx)),
    ("statfs.buf fstatfs.buf", Meaning::MemoryOut(STATFS)),
    ("statfs64.buf fstatfs64.buf", Meaning::MemoryOut(STATFS64)),
    ("waitid.infop", Meaning::StructureOut(KernelStructure::Siginfo)),
    ("wait4.ru waitid.ru getrusage.ru", Meaning::StructureOut(KernelStructure::Rusage)),
    ("sysinfo.info", Meaning::StructureOut(KernelStructure::Sysinfo)),
    ("uname.name", Meaning::StructureOut(KernelStructure::Utsname)),
    ("times.tbuf", Meaning::MemoryOut(TMS)),
    ("pipe.fildes pipe2.fildes socketpair.usockvec", Meaning::MemoryOut(DESCRIPTOR_PAIR)),
    ("epoll_ctl.event", Meaning::Memory(EPOLL_EVENT)),
    ("openat2.how", Meaning::Memory(OPEN_HOW)),
    ("clone3.uargs", Meaning::Memory(CLONE_ARGS)),
    ("sched_setattr.uattr", Meaning::Memory(SCHED_ATTR)),
    ("sched_setparam.param sched_setscheduler.param", Meaning::Memory(PRIORITY)),
    ("sched_getparam.param", Meaning::MemoryOut(PRIORITY)),
    ("llseek.result", Meaning::MemoryOut(OFFSET64)),
    (
        "getresuid.ruidp getresuid.euidp getresuid.suidp getresgid.rgidp getresgid.egidp \
         getresgid.sgidp getcpu.cpup getcpu.nodep",
        Meaning::MemoryOut(UNSIGNED_OUT),
    ),
    ("timer_create.created_timer_id getsockopt.optlen", Meaning::MemoryOut(INT_OUT)),
    ("wait4.stat_addr waitpid.stat_addr", Meaning::MemoryOut(IN_HEXADECIMAL)),
    ("access.mode faccessat.mode faccessat2.mode umask.mask", octal()),
    (
        "ioctl.cmd reboot.cmd quotactl.cmd quotactl_fd.cmd fallocate.mode set_mempolicy.mode \
         rseq.sig",
        Meaning::Number(number(4, false, Base::Sixteen)),
    ),
    ("mbind.mode", Meaning::Number(POINTER)),
    ("close_range.fd", Meaning::Number(UNSIGNED)),
];

const fn octal() -> Meaning {
    Meaning::Number(number(4, false, Base::Eight))
}

/// What is recorded of an argument of the system call `call`.
pub(super) fn of(call: &str, argument: &str, c_type: &str) -> Meaning {
    static ALL: OnceLock<HashMap<(&str, &str), Meaning>> = OnceLock::new();
    let single = ALL.get_or_init(|| named().collect());
    if let Some(meaning) = single.get(&(call, argument)) {
        return *meaning;
    }
    if TEXT_TYPES.contains(&c_type) && PATHS.contains(&argument) {
        return Meaning::Path;
    }
    let register = of_type(c_type);
    if c_type.contains('*') {
        return Meaning::Number(register);
    }
    if DESCRIPTORS.contains(&argument) {
        return Meaning::Number(INT);
    }
    let is_hexadecimal =
        HEXADECIMAL.iter().any(|line| line.split(' ').any(|name| name == argument))
            || HEXADECIMAL_ENDS.iter().any(|end| argument.ends_with(end));
    Meaning::Number(match is_hexadecimal {
        true => number(register.bytes, false, Base::Sixteen),
        false => register,
    })
}

/// Every system call and argument that the rules for single arguments name.
pub(super) fn named() -> impl Iterator<Item = ((&'static str, &'static str), Meaning)> {
    let words = |(list, meaning): &(&'static str, Meaning)| {
        let meaning = *meaning;
        list.split_whitespace().filter_map(move |word| Some((word.split_once('.')?, meaning)))
    };
    SINGLE.iter().flat_map(words)
}

/// By the C type alone; of types that are not here, the register.
pub(super) fn of_type(c_type: &str) -> RegisterNumber {
    match c_type.strip_prefix("const ").unwrap_or(c_type) {
        "int" | "pid_t" | "key_t" | "timer_t" | "mqd_t" | "clockid_t" | "key_serial_t"
        | "__s32" => INT,
        "old_uid_t" | "old_gid_t" | "compat_size_t" => UNSIGNED,
        "compat_uptr_t" | "compat_old_sigset_t" => FLAGS,
        "unsigned int" | "unsigned" | "u32" | "__u32" | "uid_t" | "gid_t" | "qid_t" => UNSIGNED,
        "enum landlock_rule_type" => UNSIGNED,
        "umode_t" => number(4, false, Base::Eight),
        "rwf_t" => number(4, false, Base::Sixteen),
        "long" | "off_t" | "loff_t" => LONG,
        "unsigned long" | "size_t" | "u64" | "__u64" => UNSIGNED_LONG,
        _ => POINTER,
    }
}
