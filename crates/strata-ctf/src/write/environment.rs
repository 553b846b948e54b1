//! A trace's environment in LTTng's terms, by which readers choose their analyses.

use crate::end_mark;
use strata_model::{text_from_bytes, EnvValue};

/// The entry that says what happened when all sub-buffers were full: `discard` or `overwrite`. Without it
/// a reader cannot know which of both the packets' `events_discarded` counts.
pub const LOSS_MODE: &str = "strata_loss_mode";

/// Entries that begin so end with the id of a thread, in its process' PID namespace; the value is the name that it had
/// when recording began.
pub const THREAD_NAME_OF: &str = "thread_name_";

/// The entry that says which process has recorded: its id, where the kernel's records have those of the first PID
/// namespace.
pub const RECORDER: &str = "strata_recorder";

/// The entry that says who was recorded: [`RECORDED_COMMAND`], or [`RECORDED_EVERYONE`] while the command ran. The
/// command is what the recorder has started. Without it there was none.
pub const RECORDED: &str = "strata_recorded";

/// The entry that says how many of the system calls that give, copy and take away descriptors are recorded of those
/// who are: [`DescriptorCalls`] in words. Only with all of them a descriptor's number is known to mean what was opened
/// last.
pub const DESCRIPTOR_CALLS: &str = "strata_descriptor_calls";

/// The entry that says whether each switch of a CPU from one thread to another is recorded, from the trace's begin to its
/// end: [`SWITCHES_ALL`]. If not, or where there is no such entry, a switch that is not in the trace may have been left
/// out. With all, a thread that gets a CPU and is never seen to have one is one that the kernel hides.
pub const SWITCHES: &str = "strata_switches";

/// Each is.
pub const SWITCHES_ALL: &str = "all";

/// None is, or a filter leaves some out, or only those of some processes are recorded, or not all the time.
pub const SWITCHES_SOME: &str = "some";

/// What a trace has without an exception, from its begin to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    /// Of the system calls that give, copy and take away descriptors.
    pub descriptor_calls: DescriptorCalls,
    /// Each switch of a CPU from one thread to another.
    pub switches: bool,
}

/// How many of the system calls that give, copy and take away descriptors a trace has, from its begin to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DescriptorCalls {
    /// No records of them.
    #[default]
    None,
    /// Not all: rules leave some out, a filter may, or not all the time.
    Some,
    /// Both ends of all.
    All,
}

impl DescriptorCalls {
    /// As the environment says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DescriptorCalls::None => "none",
            DescriptorCalls::Some => "some",
            DescriptorCalls::All => "all",
        }
    }

    /// `None`: no such name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<DescriptorCalls> {
        let all = [DescriptorCalls::None, DescriptorCalls::Some, DescriptorCalls::All];
        all.into_iter().find(|one| one.name() == name)
    }
}

/// The command and what it has started.
pub const RECORDED_COMMAND: &str = "command";

/// Others as well.
pub const RECORDED_EVERYONE: &str = "everyone";

/// What the environment of a trace says if there was a command.
pub fn recorded(recorder: u32, is_command_only: bool) -> [(String, EnvValue); 2] {
    let whom = if is_command_only { RECORDED_COMMAND } else { RECORDED_EVERYONE };
    [(RECORDER.to_owned(), i64::from(recorder).into()), (RECORDED.to_owned(), whom.into())]
}

/// What the kernel knows of a process, and what the process says where the kernel does not bear it out. What
/// is not there is not known, or there is nothing to say.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessKnowledge<'a> {
    /// Its id in the PID namespace of who records.
    pub pid: Option<u32>,
    /// Its real user.
    pub uid: Option<u32>,
    /// Its real group.
    pub gid: Option<u32>,
    /// The name of its first thread.
    pub comm: Option<&'a [u8]>,
    /// The path of its program.
    pub exe: Option<&'a [u8]>,
    /// The id that it says itself.
    pub vpid_said: Option<u32>,
    /// The short name that it says itself.
    pub procname_said: Option<&'a [u8]>,
    /// The names of its threads when recording began, by their ids in its PID namespace; without those that have
    /// its first thread's.
    pub threads: &'a [(u32, String)],
}

/// What the environment of one process' trace says.
#[derive(Clone, Copy, Debug)]
pub struct UserProcess<'a> {
    /// The machine's name, as the kernel gives it.
    pub hostname: &'a [u8],
    /// The process' id in its own PID namespace.
    pub vpid: u32,
    /// Its short name; hostile.
    pub procname: &'a [u8],
    /// What else is known of it.
    pub known: ProcessKnowledge<'a>,
    /// When the trace was begun, ISO 8601; empty: not said.
    pub created: &'a str,
    /// Whether the oldest packets were overwritten when all sub-buffers were full.
    pub overwrites: bool,
}

/// The environment of one process' trace. Readers take it for one of LTTng-UST 2.13, which it is
/// like in all they look at; `strata_version` tells the truth.
///
/// Names and values are made such that [`strata_model::Trace::validate`] accepts them.
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

/// What the environment of the kernel's trace says.
#[derive(Clone, Copy, Debug)]
pub struct KernelHost<'a> {
    /// The machine's name, as the kernel gives it.
    pub hostname: &'a [u8],
    /// The kernel's release, "6.18.5"; as `uname` gives it.
    pub release: &'a [u8],
    /// Its version, "#1 SMP ..."; likewise.
    pub version: &'a [u8],
    /// What it runs on, "x86_64"; likewise.
    pub machine: &'a [u8],
    /// When the trace was begun, ISO 8601; empty: not said.
    pub created: &'a str,
    /// Whether the oldest packets were overwritten when all sub-buffers were full.
    pub overwrites: bool,
    /// Say that LTTng's modules have recorded it, for readers that give their kernel analyses only then.
    pub as_lttng: bool,
    /// What is recorded without an exception.
    pub whole: Whole,
}

/// The environment of the kernel's trace. `tracer_name` tells the truth unless `as_lttng` was asked for;
/// `strata_version` does in both.
///
/// Names and values are made such that [`strata_model::Trace::validate`] accepts them.
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

/// This crate's version: major, minor, patch level.
const VERSION: [&str; 3] = [
    env!("CARGO_PKG_VERSION_MAJOR"),
    env!("CARGO_PKG_VERSION_MINOR"),
    env!("CARGO_PKG_VERSION_PATCH"),
];

/// Readers want integers; a version's part is one.
fn number(part: &str) -> i64 {
    part.parse().unwrap_or(0)
}

/// What only Strata says.
fn strata(entries: &mut Vec<(&str, EnvValue)>, overwrites: bool) {
    entries.push(("strata_version", env!("CARGO_PKG_VERSION").into()));
    entries.push((LOSS_MODE, if overwrites { "overwrite" } else { "discard" }.into()));
    entries.push((end_mark::IN_ENVIRONMENT, end_mark::VERSION.into()));
}

fn named(entries: Vec<(&str, EnvValue)>) -> Vec<(String, EnvValue)> {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// At most 255 bytes, up to a NUL.
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
        // A process' trace has one: readers must not take this for one.
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
