//! The environment of a trace in LTTng's terms, which readers use to choose their analyses.

use crate::end_mark;
use strata_model::{text_from_bytes, EnvValue};

/// Name of the entry with the loss mode, `discard` or `overwrite`. Readers need it to know whether the packets'
/// `events_discarded` counts discarded or overwritten records.
pub const LOSS_MODE: &str = "strata_loss_mode";

/// First part of the name of an entry for a thread. The second part is the thread's id in the PID namespace of its
/// process; the value is the thread's name when recording began.
pub const THREAD_NAME_OF: &str = "thread_name_";

/// Name of the entry with the process id of the recorder. The id is of the first PID namespace if ids in kernel records
/// are.
pub const RECORDER: &str = "strata_recorder";

/// Name of the entry with the recorded processes: [`RECORDED_COMMAND`], or [`RECORDED_EVERYONE`] if others were
/// recorded while the recorder's command ran. Traces that were recorded without a command do not have it.
pub const RECORDED: &str = "strata_recorded";

/// Name of the entry with the completeness of the system calls that create, copy and close descriptors; its value is a
/// name of [`DescriptorCalls`]. Only if all are recorded, a descriptor certainly leads to the file that was opened
/// last.
pub const DESCRIPTOR_CALLS: &str = "strata_descriptor_calls";

/// Name of the entry with the completeness of context switches. [`SWITCHES_ALL`]: every switch from the trace's begin
/// to its end is recorded. With another value, or without the entry, a missing switch may have been left out. With all
/// switches, a thread that gets a CPU and is never seen to run must be hidden by the kernel.
pub const SWITCHES: &str = "strata_switches";

/// Value of [`SWITCHES`] for a trace that has all context switches.
pub const SWITCHES_ALL: &str = "all";

/// Value of [`SWITCHES`] for a trace in which some context switches are missing: a filter leaves some out, only some
/// processes are recorded, or recording is interrupted.
pub const SWITCHES_SOME: &str = "some";

/// Name of the entry with the events of which only a sample is recorded: `NAME every=10 at_most=100 left_out=900`, separated by
/// `; `. Of the last three there is what was asked for, and the number of events that were left out once the trace is complete.
/// Where there are too many events, the text ends with `; N more`. A system call is one event. Traces of all events lack it.
pub const SAMPLED: &str = "strata_sampled";

/// Name of the entry with the number of events that were left out of samples. They are not among the discarded ones. A trace
/// that was not recorded to its end lacks it.
pub const LEFT_OUT: &str = "strata_left_out";

/// Completeness of some kinds of events, from a trace's begin to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    /// Completeness of the system calls that create, copy and close descriptors.
    pub descriptor_calls: DescriptorCalls,
    /// True if every context switch is recorded.
    pub switches: bool,
}

/// Completeness of the system calls that create, copy and close descriptors, from a trace's begin to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DescriptorCalls {
    /// The trace has no records of such system calls.
    #[default]
    None,
    /// Some system calls may be missing: rules or a filter leave some out, or recording is interrupted.
    Some,
    /// The trace has the begin and the end of every such system call.
    All,
}

impl DescriptorCalls {
    /// Returns the name that the environment uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DescriptorCalls::None => "none",
            DescriptorCalls::Some => "some",
            DescriptorCalls::All => "all",
        }
    }

    /// Parses a name of the environment; `None` for other names.
    #[must_use]
    pub fn from_name(name: &str) -> Option<DescriptorCalls> {
        let all = [DescriptorCalls::None, DescriptorCalls::Some, DescriptorCalls::All];
        all.into_iter().find(|one| one.name() == name)
    }
}

/// Value of [`RECORDED`]: only the command and the processes that it started are recorded.
pub const RECORDED_COMMAND: &str = "command";

/// Value of [`RECORDED`]: processes other than the command's are recorded as well.
pub const RECORDED_EVERYONE: &str = "everyone";

/// Makes the entries for a recording of a command.
pub fn recorded(recorder: u32, is_command_only: bool) -> [(String, EnvValue); 2] {
    let whom = if is_command_only { RECORDED_COMMAND } else { RECORDED_EVERYONE };
    [(RECORDER.to_owned(), i64::from(recorder).into()), (RECORDED.to_owned(), whom.into())]
}

/// Properties of a process, as the kernel gives them or as the process claims them. A property is `None` if it is
/// unknown or need not be mentioned.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessKnowledge<'a> {
    /// The process' id in the PID namespace of the recorder.
    pub pid: Option<u32>,
    /// The real user id.
    pub uid: Option<u32>,
    /// The real group id.
    pub gid: Option<u32>,
    /// The name of the process' first thread.
    pub comm: Option<&'a [u8]>,
    /// The path of the process' program.
    pub exe: Option<&'a [u8]>,
    /// The process id that the process claims.
    pub vpid_said: Option<u32>,
    /// The short name that the process claims.
    pub procname_said: Option<&'a [u8]>,
    /// The names of the process' threads when recording began, with their ids in the process' PID namespace. Threads
    /// with the first thread's name are left out.
    pub threads: &'a [(u32, String)],
}

/// Values for the environment of a process' trace.
#[derive(Clone, Copy, Debug)]
pub struct UserProcess<'a> {
    /// Name of the machine, as the kernel gives it.
    pub hostname: &'a [u8],
    /// The process' id in its own PID namespace.
    pub vpid: u32,
    /// Short name of the process. It comes from the process and may hold anything.
    pub procname: &'a [u8],
    /// Other properties of the process.
    pub known: ProcessKnowledge<'a>,
    /// Time at which the trace was begun, ISO 8601; empty if unknown.
    pub created: &'a str,
    /// True if the oldest packets were overwritten when all sub-buffers were full.
    pub overwrites: bool,
}

/// Makes the environment of one process' trace. It claims that LTTng-UST 2.13 recorded the trace, which is alike in
/// everything that readers use; `strata_version` names the real recorder.
///
/// Names and values satisfy [`strata_model::Trace::validate`].
pub fn user_environment(process: &UserProcess<'_>) -> Vec<(String, EnvValue)> {
    let mut entries: Vec<(&str, EnvValue)> = vec![
        ("hostname", text(process.hostname).into()),
        ("domain", "ust".into()),
        ("tracer_name", "lttng-ust".into()),
        ("tracer_major", 2.into()),
        ("tracer_minor", 13.into()),
        ("tracer_buffering_scheme", "pid".into()),
        ("tracer_buffering_id", i64::from(process.vpid).into()),
        ("architecture_bit_width", i64::from(usize::BITS).into()),
        ("vpid", i64::from(process.vpid).into()),
        ("procname", text(process.procname).into()),
    ];
    let known = &process.known;
    for (name, number) in
        [("pid", known.pid), ("uid", known.uid), ("gid", known.gid), ("vpid_said", known.vpid_said)]
    {
        entries.extend(number.map(|number| (name, i64::from(number).into())));
    }
    for (name, bytes) in
        [("comm", known.comm), ("exe", known.exe), ("procname_said", known.procname_said)]
    {
        entries.extend(bytes.map(|bytes| (name, text(bytes).into())));
    }
    if !process.created.is_empty() {
        entries.push(("trace_creation_datetime", text(process.created.as_bytes()).into()));
    }
    strata(&mut entries, process.overwrites);
    let mut entries = named(entries);
    entries.extend(
        known
            .threads
            .iter()
            .map(|(id, name)| (format!("{THREAD_NAME_OF}{id}"), text(name.as_bytes()).into())),
    );
    entries
}

/// Values for the environment of the kernel's trace.
#[derive(Clone, Copy, Debug)]
pub struct KernelHost<'a> {
    /// Name of the machine, as the kernel gives it.
    pub hostname: &'a [u8],
    /// The kernel's release, "6.18.5"; as `uname` gives it.
    pub release: &'a [u8],
    /// Version of the kernel, "#1 SMP ...", as `uname` gives it.
    pub version: &'a [u8],
    /// Architecture of the machine, "x86_64", as `uname` gives it.
    pub machine: &'a [u8],
    /// Time at which the trace was begun, ISO 8601; empty if unknown.
    pub created: &'a str,
    /// True if the oldest packets were overwritten when all sub-buffers were full.
    pub overwrites: bool,
    /// True if the trace shall claim that LTTng's modules recorded it, for readers that offer their kernel analyses
    /// only for such traces.
    pub as_lttng: bool,
    /// Completeness of some kinds of events.
    pub whole: Whole,
}

/// Makes the environment of the kernel's trace. `tracer_name` names Strata unless `as_lttng` is set; `strata_version`
/// always does.
///
/// Names and values satisfy [`strata_model::Trace::validate`].
pub fn kernel_environment(host: &KernelHost<'_>) -> Vec<(String, EnvValue)> {
    let (tracer, version) = match host.as_lttng {
        true => ("lttng-modules", [2, 13, 0]),
        false => ("strata", VERSION.map(number)),
    };
    let mut entries: Vec<(&str, EnvValue)> = vec![
        ("hostname", text(host.hostname).into()),
        ("domain", "kernel".into()),
        ("sysname", "Linux".into()),
        ("kernel_release", text(host.release).into()),
        ("kernel_version", text(host.version).into()),
        ("machine", text(host.machine).into()),
        ("tracer_name", tracer.into()),
        ("tracer_major", version[0].into()),
        ("tracer_minor", version[1].into()),
        ("tracer_patchlevel", version[2].into()),
        ("tracer_buffering_scheme", "global".into()),
        ("architecture_bit_width", i64::from(usize::BITS).into()),
    ];
    if !host.created.is_empty() {
        entries.push(("trace_creation_datetime", text(host.created.as_bytes()).into()));
    }
    strata(&mut entries, host.overwrites);
    entries.push((DESCRIPTOR_CALLS, host.whole.descriptor_calls.name().into()));
    let switches = if host.whole.switches { SWITCHES_ALL } else { SWITCHES_SOME };
    entries.push((SWITCHES, switches.into()));
    named(entries)
}

/// Version of this crate: major, minor, patch level.
const VERSION: [&str; 3] = [
    env!("CARGO_PKG_VERSION_MAJOR"),
    env!("CARGO_PKG_VERSION_MINOR"),
    env!("CARGO_PKG_VERSION_PATCH"),
];

/// Parses a part of a version into a number, since readers expect integers.
fn number(part: &str) -> i64 {
    part.parse().unwrap_or(0)
}

/// Adds the entries that only Strata writes.
fn strata(entries: &mut Vec<(&str, EnvValue)>, overwrites: bool) {
    entries.push(("strata_version", env!("CARGO_PKG_VERSION").into()));
    entries.push((LOSS_MODE, if overwrites { "overwrite" } else { "discard" }.into()));
    entries.push((end_mark::IN_ENVIRONMENT, end_mark::VERSION.into()));
}

fn named(entries: Vec<(&str, EnvValue)>) -> Vec<(String, EnvValue)> {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Converts the first 255 bytes, up to a NUL, to text.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().take(255).position(|&byte| byte == 0).unwrap_or(bytes.len().min(255));
    text_from_bytes(&bytes[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(process: &UserProcess<'_>, name: &str) -> Option<EnvValue> {
        user_environment(process).into_iter().find(|(found, _)| found == name).map(|(_, v)| v)
    }

    const PROCESS: UserProcess<'static> = UserProcess {
        hostname: b"box",
        vpid: 42,
        procname: b"app\0garbage",
        known: ProcessKnowledge {
            pid: Some(4711),
            uid: Some(1000),
            gid: None,
            comm: Some(b"app"),
            exe: Some(b"/usr/bin/app"),
            vpid_said: None,
            procname_said: None,
            threads: &[],
        },
        created: "2024-05-06T07:08:09+00:00",
        overwrites: false,
    };

    #[test]
    fn user_environment_says_what_readers_look_for() {
        assert_eq!(value(&PROCESS, "domain"), Some("ust".into()));
        assert_eq!(value(&PROCESS, "tracer_name"), Some("lttng-ust".into()));
        assert_eq!(value(&PROCESS, "tracer_major"), Some(2.into()));
        assert_eq!(value(&PROCESS, "tracer_minor"), Some(13.into()));
        assert_eq!(value(&PROCESS, "tracer_buffering_scheme"), Some("pid".into()));
        assert_eq!(value(&PROCESS, "hostname"), Some("box".into()));
        assert_eq!(value(&PROCESS, "vpid"), Some(42.into()));
        assert_eq!(value(&PROCESS, "strata_version"), Some(env!("CARGO_PKG_VERSION").into()));
    }

    #[test]
    fn user_environment_says_what_threads_were_called() {
        let threads = [(43, "worker".to_owned()), (44, "\0cut".to_owned())];
        let process = UserProcess {
            known: ProcessKnowledge { threads: &threads, ..PROCESS.known },
            ..PROCESS
        };
        assert_eq!(value(&process, "thread_name_43"), Some("worker".into()));
        assert_eq!(value(&process, "thread_name_44"), Some("".into()));
        assert_eq!(value(&PROCESS, "thread_name_43"), None);
    }

    #[test]
    fn user_environment_says_what_the_count_of_discarded_records_means() {
        assert_eq!(value(&PROCESS, "strata_loss_mode"), Some("discard".into()));
        let process = UserProcess { overwrites: true, ..PROCESS };
        assert_eq!(value(&process, "strata_loss_mode"), Some("overwrite".into()));
    }

    #[test]
    fn environment_says_that_there_is_an_end_mark() {
        assert_eq!(value(&PROCESS, "strata_end_mark"), Some(1.into()));
        assert_eq!(of_kernel(&HOST, "strata_end_mark"), Some(1.into()));
    }

    #[test]
    fn user_environment_says_what_the_kernel_knows_and_nothing_for_what_it_does_not() {
        assert_eq!(value(&PROCESS, "pid"), Some(4711.into()));
        assert_eq!(value(&PROCESS, "uid"), Some(1000.into()));
        assert_eq!(value(&PROCESS, "comm"), Some("app".into()));
        assert_eq!(value(&PROCESS, "exe"), Some("/usr/bin/app".into()));
        for name in ["gid", "vpid_said", "procname_said"] {
            assert_eq!(value(&PROCESS, name), None);
        }
        let known =
            ProcessKnowledge { vpid_said: Some(1), procname_said: Some(b"sshd"), ..PROCESS.known };
        let liar = UserProcess { known, ..PROCESS };
        assert_eq!(value(&liar, "vpid_said"), Some(1.into()));
        assert_eq!(value(&liar, "procname_said"), Some("sshd".into()));
        assert_eq!(value(&liar, "vpid"), Some(42.into()));
    }

    #[test]
    fn user_environment_with_nul_in_a_name_ends_it_there() {
        assert_eq!(value(&PROCESS, "procname"), Some("app".into()));
    }

    #[test]
    fn user_environment_with_a_long_name_cuts_it() {
        let process = UserProcess { procname: &[b'x'; 9000], ..PROCESS };
        assert_eq!(value(&process, "procname"), Some("x".repeat(255).into()));
    }

    #[test]
    fn user_environment_without_a_date_has_no_entry() {
        let process = UserProcess { created: "", ..PROCESS };
        assert_eq!(value(&process, "trace_creation_datetime"), None);
    }

    const HOST: KernelHost<'static> = KernelHost {
        hostname: b"box",
        release: b"6.18.5-amd64",
        version: b"#1 SMP PREEMPT_DYNAMIC\0garbage",
        machine: b"x86_64",
        created: "2024-05-06T07:08:09+00:00",
        overwrites: false,
        as_lttng: false,
        whole: Whole { descriptor_calls: DescriptorCalls::Some, switches: false },
    };

    fn of_kernel(host: &KernelHost<'_>, name: &str) -> Option<EnvValue> {
        kernel_environment(host).into_iter().find(|(found, _)| found == name).map(|(_, v)| v)
    }

    #[test]
    fn kernel_environment_says_what_readers_look_for() {
        let value = |name| of_kernel(&HOST, name);
        assert_eq!(value("domain"), Some("kernel".into()));
        assert_eq!(value("hostname"), Some("box".into()));
        assert_eq!(value("sysname"), Some("Linux".into()));
        assert_eq!(value("kernel_release"), Some("6.18.5-amd64".into()));
        assert_eq!(value("kernel_version"), Some("#1 SMP PREEMPT_DYNAMIC".into()));
        assert_eq!(value("machine"), Some("x86_64".into()));
        assert_eq!(value("tracer_buffering_scheme"), Some("global".into()));
        assert_eq!(value("architecture_bit_width"), Some(i64::from(usize::BITS).into()));
        assert_eq!(value("trace_creation_datetime"), Some(HOST.created.into()));
        // Traces of processes have this entry; readers must not take the kernel's trace for one of them.
        assert_eq!(value("vpid"), None);
    }

    #[test]
    fn kernel_environment_names_strata_with_its_version_in_integers() {
        let value = |name| of_kernel(&HOST, name);
        assert_eq!(value("tracer_name"), Some("strata".into()));
        let version: Vec<String> = ["tracer_major", "tracer_minor", "tracer_patchlevel"]
            .iter()
            .map(|name| match value(name) {
                Some(EnvValue::Integer(number)) => number.to_string(),
                other => panic!("{name}: {other:?}"),
            })
            .collect();
        assert_eq!(version.join("."), env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn kernel_environment_as_lttng_names_its_modules_and_still_tells_the_truth() {
        let value = |name| of_kernel(&KernelHost { as_lttng: true, ..HOST }, name);
        assert_eq!(value("tracer_name"), Some("lttng-modules".into()));
        assert_eq!(value("tracer_major"), Some(2.into()));
        assert_eq!(value("tracer_minor"), Some(13.into()));
        assert_eq!(value("tracer_patchlevel"), Some(0.into()));
        assert_eq!(value("strata_version"), Some(env!("CARGO_PKG_VERSION").into()));
    }

    #[test]
    fn kernel_environment_says_what_the_count_of_discarded_records_means() {
        assert_eq!(of_kernel(&HOST, LOSS_MODE), Some("discard".into()));
        let host = KernelHost { overwrites: true, ..HOST };
        assert_eq!(of_kernel(&host, LOSS_MODE), Some("overwrite".into()));
    }

    #[test]
    fn kernel_environment_says_which_calls_of_descriptors_are_recorded() {
        for calls in [DescriptorCalls::None, DescriptorCalls::Some, DescriptorCalls::All] {
            let whole = Whole { descriptor_calls: calls, ..HOST.whole };
            let host = KernelHost { whole, ..HOST };
            assert_eq!(of_kernel(&host, DESCRIPTOR_CALLS), Some(calls.name().into()));
            assert_eq!(DescriptorCalls::from_name(calls.name()), Some(calls));
        }
        assert_eq!(DescriptorCalls::from_name("ALL"), None);
        assert_eq!(value(&PROCESS, DESCRIPTOR_CALLS), None);
    }

    #[test]
    fn kernel_environment_says_whether_each_switch_is_recorded() {
        for (switches, said) in [(false, "some"), (true, "all")] {
            let host = KernelHost { whole: Whole { switches, ..HOST.whole }, ..HOST };
            assert_eq!(of_kernel(&host, "strata_switches"), Some(said.into()));
        }
        assert_eq!(value(&PROCESS, SWITCHES), None);
    }

    #[test]
    fn kernel_environment_without_a_date_has_no_entry() {
        let host = KernelHost { created: "", ..HOST };
        assert_eq!(of_kernel(&host, "trace_creation_datetime"), None);
    }
}
