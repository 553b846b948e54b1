//! The meaning of a system call's argument beyond its C type: a path, an address, a file descriptor.
//!
//! Contents of buffers are never recorded: they may be secrets of anyone, and their size has no bound. The same is true
//! of the environment of execve, values of extended attributes, keys, and options of mount. A socket option is recorded
//! if it can be no key.

use super::number::*;
use super::structure::KernelStructure;
use crate::arch::Machine;
use std::collections::HashMap;
use std::sync::OnceLock;
use strata_model::Base;

/// The meaning of a system call's argument, which decides what is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The value of the register itself.
    Number(RegisterNumber),
    /// The string to which the argument points.
    Path,
    /// The strings of the array to which the argument points.
    Strings,
    /// A short text to which the argument points.
    Name,
    /// A text that the call fills; the call's result is its length.
    PathOut,
    /// The socket address to which the argument points; the next argument is its length.
    Address,
    /// A socket address that the call fills; the next argument points to its length.
    AddressOut,
    /// The address in the `struct msghdr` to which the argument points.
    Message,
    /// A `struct msghdr` that the call fills.
    MessageOut,
    /// The first `struct mmsghdr` that the call fills, with the message's length.
    MessagesOut,
    /// An array of `struct mmsghdr`: before the call, the address in the first one; after the call, how much of that
    /// message was sent.
    Messages(KernelStructure),
    /// The structure to which the argument points.
    Memory(StructureLayout),
    /// A structure that the call fills.
    MemoryOut(StructureLayout),
    /// A structure that the call fills, of which the wanted members are recorded after the call.
    StructureOut(KernelStructure),
    /// An argument of futex that is a number or, for some commands, a pointer to a time.
    TimeOut(StructureLayout),
    /// The value of a socket option; its length is in the next argument.
    Option,
    /// The value of a socket option that the call fills in; the next argument points to its length.
    OptionOut,
    /// An array of `struct pollfd`: descriptors with the requested events, and after the call those that are ready.
    Poll,
    /// A set of descriptors (`fd_set`), recorded before and after the call.
    Set,
    /// The events that an epoll call returns.
    EventsOut,
}

/// Members of a structure: the suffix of each field's name, which follows the argument's name, and its number.
type Members = &'static [(&'static str, RegisterNumber)];

/// The layout of a structure, or of its begin: whole words of 4 bytes, in order and without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StructureLayout {
    members: Members,
    /// The layout of the same structure in 32-bit programs.
    narrow: Narrow,
    /// True if the calling program has 32-bit pointers.
    is_narrow: bool,
}

/// The layout of a structure in a 32-bit program, compared with that in a 64-bit program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Narrow {
    /// The layout is that of a 64-bit program.
    Same,
    /// The structure of a 32-bit program: the same members, and those of 8 bytes have 4.
    Halved,
    /// The structure has other members.
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
/// The structure epoll_event, packed as on x86-64, for programs of 64 and of 32 bits.
const EPOLL_EVENT: StructureLayout = fixed(&[("_events", FLAGS), ("_data", FLAGS_LONG)]);
/// The structure epoll_event on machines where it is not packed.
const PADDED_EPOLL_EVENT: StructureLayout =
    fixed(&[("_events", FLAGS), ("_padding", FLAGS), ("_data", FLAGS_LONG)]);
const OPEN_HOW: StructureLayout = fixed(&[
    ("_flags", FLAGS_LONG),
    ("_mode", number(8, false, Base::Eight)),
    ("_resolve", FLAGS_LONG),
]);
/// The structure clone_args in its first version.
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
/// The structure sigaction. The handler 0 is SIG_DFL, 1 is SIG_IGN; the bit of signal N in the mask is N - 1.
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
/// The structure statfs64, which only 32-bit programs have.
const STATFS64: StructureLayout = fixed(&[
    ("_type", FLAGS),
    ("_bsize", UNSIGNED),
    ("_blocks", UNSIGNED_LONG),
    ("_bfree", UNSIGNED_LONG),
    ("_bavail", UNSIGNED_LONG),
    ("_files", UNSIGNED_LONG),
    ("_ffree", UNSIGNED_LONG),
]);
/// The structure tms, in clock ticks.
const TMS: StructureLayout =
    native(&[("_utime", LONG), ("_stime", LONG), ("_cutime", LONG), ("_cstime", LONG)]);
const PRIORITY: StructureLayout = fixed(&[("_priority", INT)]);
const IN_HEXADECIMAL: StructureLayout = fixed(&[("", FLAGS)]);
const UNSIGNED_OUT: StructureLayout = fixed(&[("", UNSIGNED)]);
const INT_OUT: StructureLayout = fixed(&[("", INT)]);

impl RegisterNumber {
    /// Returns the number with the size that it has in a 32-bit program.
    pub(super) const fn narrow(self) -> RegisterNumber {
        RegisterNumber { bytes: if self.bytes > 4 { 4 } else { self.bytes }, ..self }
    }
}

impl StructureLayout {
    /// Returns each member's suffix of the field name, and its number.
    pub(super) fn members(self) -> impl Iterator<Item = (&'static str, RegisterNumber)> {
        let narrow =
            move |number: RegisterNumber| if self.is_narrow { number.narrow() } else { number };
        self.members.iter().map(move |(name, number)| (*name, narrow(*number)))
    }

    /// Returns the size of the structure \[byte\].
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
    /// Returns the meaning of this argument on a machine.
    pub(super) fn on(self, machine: &Machine) -> Meaning {
        match self {
            Meaning::Memory(EPOLL_EVENT) if !machine.is_epoll_packed => {
                Meaning::Memory(PADDED_EPOLL_EVENT)
            }
            same => same,
        }
    }

    /// Returns the meaning of this argument in a 32-bit program's call of that name. With `has_long_times`, times in
    /// structures have 64 bits as in 64-bit programs.
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

/// Names of arguments that are paths, if their type is one of [`TEXT_TYPES`].
const PATHS: &[&str] = &["filename", "pathname", "path", "oldname", "newname"];
const TEXT_TYPES: &[&str] = &["const char *", "char *"];

/// Names of arguments that are shown in hexadecimal, if they are integers.
const HEXADECIMAL: &[&str] = &[
    "addr arg arg2 arg3 arg4 arg5 attr brk data dev entry init_val ioprio magic1 magic2 mask",
    "new_addr newsp options personality start tls val3",
];
const HEXADECIMAL_ENDS: &[&str] = &["flags", "flag", "flg"];

/// Names of file descriptors that the kernel declares as unsigned; they are signed here, so that -1 is shown as -1.
const DESCRIPTORS: &[&str] = &["fd", "fildes", "oldfd", "newfd"];

/// Meanings of particular arguments, each list given as "CALL.ARGUMENT CALL.ARGUMENT ...".
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

/// Returns the meaning of an argument of the system call `call`.
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

/// Returns every system call and argument for which there is a rule of its own, with the meaning.
pub(super) fn named() -> impl Iterator<Item = ((&'static str, &'static str), Meaning)> {
    let words = |(list, meaning): &(&'static str, Meaning)| {
        let meaning = *meaning;
        list.split_whitespace().filter_map(move |word| Some((word.split_once('.')?, meaning)))
    };
    SINGLE.iter().flat_map(words)
}

/// Returns how a register of this C type is read; for types that are not listed, as the whole register.
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
