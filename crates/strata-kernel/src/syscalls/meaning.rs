//! What an argument is, beyond its C type: a path, an address, a file descriptor.
//!
//! Contents of buffers are never recorded: they may be anyone's secrets, and nothing bounds their cost.
//! That holds for the environment of execve, values of extended attributes, keys, and options of mount.

use std::collections::HashMap;
use std::sync::OnceLock;
use strata_model::Base;

/// How a register is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) bytes: u8,
    pub(super) is_signed: bool,
    pub(super) base: Base,
}

const fn number(bytes: u8, is_signed: bool, base: Base) -> Number {
    Number { bytes, is_signed, base }
}

pub(super) const POINTER: Number = number(8, false, Base::Sixteen);
const INT: Number = number(4, true, Base::Ten);
const UNSIGNED: Number = number(4, false, Base::Ten);
const LONG: Number = number(8, true, Base::Ten);
const UNSIGNED_LONG: Number = number(8, false, Base::Ten);

/// What is recorded of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The register.
    Number(Number),
    /// The string that it points to.
    Path,
    /// The strings of the array that it points to.
    Strings,
    /// The socket's address that it points to; its length is in the next argument.
    Address,
    /// The same once the call has returned; its length is where the next argument points to.
    AddressOut,
    /// `struct timespec`.
    Time,
    /// `struct timespec` once the call has returned.
    TimeOut,
    /// `struct timeval`: as [`Meaning::Time`], with microseconds.
    TimeMicro,
    /// `struct timeval` once the call has returned.
    TimeMicroOut,
    /// The 4 bytes that it points to once the call has returned.
    NumberOut(Number),
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
         fsconfig._key move_mount.from_pathname move_mount.to_pathname add_key._type \
         add_key._description request_key._type request_key._description",
        Meaning::Path,
    ),
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
        Meaning::Time,
    ),
    ("clock_gettime.tp clock_getres.tp sched_rr_get_interval.interval", Meaning::TimeOut),
    ("select.tvp settimeofday.tv", Meaning::TimeMicro),
    ("gettimeofday.tv", Meaning::TimeMicroOut),
    (
        "getresuid.ruidp getresuid.euidp getresuid.suidp getresgid.rgidp getresgid.egidp \
         getresgid.sgidp getcpu.cpup getcpu.nodep",
        Meaning::NumberOut(UNSIGNED),
    ),
    ("timer_create.created_timer_id getsockopt.optlen", Meaning::NumberOut(INT)),
    ("wait4.stat_addr", Meaning::NumberOut(number(4, false, Base::Sixteen))),
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
pub(super) fn of_type(c_type: &str) -> Number {
    match c_type.strip_prefix("const ").unwrap_or(c_type) {
        "int" | "pid_t" | "key_t" | "timer_t" | "mqd_t" | "clockid_t" | "key_serial_t"
        | "__s32" => INT,
        "unsigned int" | "unsigned" | "u32" | "__u32" | "uid_t" | "gid_t" | "qid_t" => UNSIGNED,
        "enum landlock_rule_type" => UNSIGNED,
        "umode_t" => number(4, false, Base::Eight),
        "rwf_t" => number(4, false, Base::Sixteen),
        "long" | "off_t" | "loff_t" => LONG,
        "unsigned long" | "size_t" | "u64" | "__u64" => UNSIGNED_LONG,
        _ => POINTER,
    }
}
