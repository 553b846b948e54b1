//! Runs the command of the command line, explains mistakes in it, and sets the exit status.
//!
//! ```text
//! words ── Flags::of_command_line ─┬─ Action ── COMMAND::run(&flags) ─┬─ Ok(status)
//!                                  │                                  └─ Err(error) ── failed(): message, 2
//!                                  └─ clap::Error ── usage(): help and version are 0, a mistake is 2
//! ```
//!
//! A mistake is answered with what to type: the words of other tools in `stderr::messages::mistakes` and `lttng`, a
//! name that is nearly right by clap, and for `analyze wait` without a thread a list of the trace's threads. A panic
//! is printed as a message too, with its place in the source.

use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::Parser as _;
use strata_import::ImportError;
use strata_session::stop::latest_signal;

use crate::exit_status::{stopped_by, FAILED};
use crate::flags::{Action, Flags, ListFlags};
use crate::reading::imported_traces;
use crate::stderr::messages::{Message, Weight};
use crate::{
    analyze, boot, count, doctor, emit, export, flags, list, record, relayd, sessions, sql, stats,
    stderr, ui, view,
};

/// Limit on the threads that are listed if a command needs one and none was named.
const THREADS_SHOWN: &str = "12";

/// Runs the command of the command line. Returns the exit status.
#[must_use]
pub fn run() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| stderr::failure(&stderr::messages::broken(panic))));
    let flags = match Flags::of_command_line() {
        Ok(flags) => flags,
        Err(error) => {
            let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
            let words: Vec<String> = words.collect();
            let status = usage(&error, &words);
            if let Some(trace) = stderr::messages::wait_without_thread(&error, &words) {
                show_threads(trace);
            }
            return ExitCode::from(status);
        }
    };
    if let Some(text) = flags.remark() {
        stderr::message(&Message { weight: Weight::Talk, text: text.to_owned() });
    }
    let done = match flags.action {
        Action::Record(flags) => match flags.asks_for_contexts() {
            Some(layer) => list::contexts_of(&[layer]),
            None if flags.background.is_some() => sessions::record(&flags),
            None => record::run(&flags),
        },
        Action::Count(flags) => count::run(&flags),
        Action::Create(flags) => sessions::create(&flags),
        Action::Start(flags) => sessions::start(&flags),
        Action::Stop(flags) => sessions::stop(&flags),
        Action::Rotate(flags) => sessions::rotate(&flags),
        Action::EnableRotation(flags) => sessions::change(&flags.of, vec![flags.change()]),
        Action::DisableRotation(flags) => sessions::change(&flags.of, vec![flags.change()]),
        Action::Clear(flags) => sessions::clear(&flags),
        Action::Settle(flags) => boot::settle(&flags),
        Action::InstallBoot(flags) => boot::install(&flags),
        Action::BootInit(flags) => boot::init(&flags),
        Action::Destroy(flags) => sessions::destroy(&flags),
        Action::Status(flags) => match &flags.metrics {
            Some(address) => sessions::metrics::run(flags.name.as_deref(), address),
            None => sessions::status::run(flags.name.as_deref(), flags.strict, flags.is_json()),
        },
        Action::EnableChannel(flags) => sessions::change(&flags.of, flags.changes()),
        Action::DisableChannel(flags) => sessions::change(&flags.of, flags.changes()),
        Action::EnableEvent(flags) => sessions::enable_event(&flags),
        Action::DisableEvent(flags) => {
            flags.change().and_then(|change| sessions::change(&flags.of, vec![change]))
        }
        Action::AddContext(flags) if flags.list => {
            list::list_contexts(&flags.layers(), flags.of.answer.is_json())
        }
        Action::AddContext(flags) => sessions::change(&flags.of, vec![flags.change()]),
        Action::Track(flags) => sessions::track(&flags),
        Action::Untrack(flags) => sessions::change(&flags.of, flags.changes(&flags.cgroup, true)),
        Action::AddTrigger(flags) => sessions::triggers::add(&flags),
        Action::ListTriggers(of) => sessions::triggers::list(&of),
        Action::RemoveTrigger(flags) => sessions::triggers::remove(&flags),
        Action::Save(flags) => sessions::saved_plans::save(&flags),
        Action::Load(flags) => sessions::saved_plans::load(&flags),
        Action::Snapshot(flags) => sessions::snapshot(&flags),
        Action::Top(flags) => sessions::top::run(&sessions::top::TopOptions {
            name: flags.name.as_deref(),
            period: flags.period,
            times: flags.number,
            is_json: flags.answer.is_json(),
        }),
        Action::List(ref flags @ ListFlags { probes: Some(ref file), .. }) => {
            list::kernel_list::probes(file, flags.is_json())
        }
        Action::List(flags) if !flags.libc.is_empty() => {
            sessions::preload_advice::list(&flags.libc, flags.is_json())
        }
        Action::List(flags) if flags.kernel => list::kernel_list::run(&flags),
        Action::List(flags) if !flags.named.is_empty() => {
            match flags.session().filter(|name| sessions::can_be_asked(name)) {
                Some(name) => sessions::status::run(Some(name), false, flags.is_json()),
                None => flags
                    .traces()
                    .into_iter()
                    .map(imported_traces::readable)
                    .collect::<Result<Vec<_>, _>>()
                    .and_then(|traces| list::trace_list::run(&traces, flags.is_json())),
            }
        }
        Action::List(flags) => list::run(&flags),
        Action::Doctor(flags) => doctor::run(&flags),
        Action::View(flags) => view::run(&flags),
        Action::Stats(flags) => stats::run(&flags),
        Action::Analyze(flags) => analyze::run(&flags),
        Action::Export(flags) => export::run(&flags),
        Action::Sql(flags) => sql::run(flags),
        Action::Ui(flags) => ui::run(&flags),
        Action::Emit(flags) => emit::run(&flags),
        Action::Relayd(flags) => relayd::run(&flags),
        Action::Completions { shell } => flags::completions::completions(shell).map(|()| 0),
        Action::Man { folder } => flags::completions::man(folder.as_deref()).map(|()| 0),
    };
    imported_traces::remove_all();
    ExitCode::from(done.unwrap_or_else(|error| failed(&error)))
}

/// Prints help, the version, or a mistake in the command line. Returns the exit status.
fn usage(error: &clap::Error, words: &[String]) -> u8 {
    let status = u8::try_from(error.exit_code()).unwrap_or(FAILED);
    if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        stderr::line(&stderr::messages::usage(error, words));
    } else {
        // The reader of `strata --help | head` has seen enough.
        let _ = error.print();
    }
    status
}

/// Lists the threads of a trace, for a command line that should have named one.
fn show_threads(trace: &str) {
    let words = ["strata", "analyze", "threads", "--top", THREADS_SHOWN, "--", trace];
    if let Ok(Flags { action: Action::Analyze(flags) }) = Flags::try_parse_from(words) {
        // Problems of the trace are reported, and the exit status remains that of a wrong command line.
        if let Err(error) = analyze::run(&flags) {
            failed(&error);
        }
        imported_traces::remove_all();
    }
}

/// Reports why the command failed. Returns the exit status.
fn failed(error: &anyhow::Error) -> u8 {
    let broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    if let Some(ImportError::Stopped) = error.downcast_ref() {
        return stopped_by(latest_signal());
    }
    let of_session = error.downcast_ref::<strata_session::SessionError>();
    let is_of_control = error.is::<strata_control::ControlError>();
    // With `strata list | head`, or a pager that was closed, the reader has seen enough. But if the other end of a
    // socket is gone, that is a failure.
    if of_session.is_none() && !is_of_control && error.chain().any(broken_pipe) {
        return 0;
    }
    match of_session {
        Some(strata_session::SessionError::NothingSelected(rules)) => {
            stderr::messages::nothing_selected(rules).iter().for_each(|line| stderr::failure(line));
        }
        _ => stderr::failure(&stderr::messages::failure_line(error.chain())),
    }
    match of_session {
        Some(strata_session::SessionError::Command(error)) => error.exit_status(),
        Some(strata_session::SessionError::Stopped(signal)) => stopped_by(*signal),
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;
    use clap::CommandFactory as _;
    use strata_session::command::CommandError;
    use strata_session::SessionError;

    #[test]
    fn failure_to_write_to_a_closed_pipe_is_success_and_to_a_session_s_socket_is_not() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(failed(&Err::<(), _>(pipe()).context("stdout").unwrap_err()), 0);
        let (name, what, source) = ("s".into(), "ask it", pipe());
        let socket = strata_control::ControlError::System { name, what, source };
        assert_eq!(failed(&anyhow::Error::from(socket).context("status")), FAILED);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(failed(&Err::<(), _>(full).context("stdout").unwrap_err()), FAILED);
    }

    #[test]
    fn usage_errors_of_every_command_have_the_prefix_of_all_errors_and_status_2() {
        let commands = Flags::command();
        let names: Vec<&str> = commands.get_subcommands().map(|one| one.get_name()).collect();
        assert!(names.len() > 6);
        for name in names.into_iter().map(Some).chain([None]) {
            let words = ["strata"].into_iter().chain(name).chain(["--no-such-flag"]);
            let error = Flags::try_parse_from(words).unwrap_err();
            let text =
                anstream::adapter::strip_str(&stderr::messages::usage(&error, &[])).to_string();
            assert!(text.starts_with("strata: unexpected argument '--no-such-flag'"), "{text}");
            assert!(!text.contains("error:") && text.contains("--help"), "{text}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn words_of_lttng_that_are_not_here_are_answered_with_what_is() {
        for (words, instead) in [
            (&["regenerate", "metadata"][..], "strata rotate NAME"),
            (&["set-session", "fr"], "-s NAME"),
            (&["enable-channel", "-u", "big", "--switch-timer=100000"], "--flush 100ms"),
            (&["enable-channel", "-u", "big", "--tracefile-size", "1M"], "--rotate-size SIZE"),
            (&["track", "-u", "--pid", "1"], "leave it out"),
            (&["untrack", "--kernel", "--pid", "1"], "leave it out"),
            (&["track", "--vpid", "1"], "use --pid"),
            (&["track", "--vuid=1"], "use --uid"),
            (&["record", "--userspace-probe=elf:a:b"], "--probe 'uprobe:PATH:SYMBOL'"),
            (&["metadata", "regenerate"], "strata list DIR"),
            (&["create", "fr", "--live=1000000"], "strata view -s NAME"),
            (&["create", "fr", "--set-url=net://host"], "-o DIR"),
            (&["create", "fr", "-U", "file:///tmp"], "-o DIR"),
            (&["create", "fr", "--trace-format=ctf-2"], "--ctf=2"),
            (&["load", "fr", "--override-name", "other"], "strata load NAME --input FILE"),
            (&["load", "fr", "--override-url=file:///tmp"], "-o DIR"),
            (&["list", "--domain", "fr"], "strata status NAME"),
            (&["list", "-c", "big", "fr"], "strata status NAME"),
            (&["list", "-k", "--syscall"], "strata list -k 'syscalls:*'"),
            (&["view", "-e", "babeltrace2"], "babeltrace2 DIR"),
            (&["enable-event", "-k", "--function=f", "f"], "uprobe:PATH:SYMBOL"),
            (&["enable-event", "-j", "a"], "Java and Python"),
            (&["enable-event", "--log4j", "a"], "Java and Python"),
            (&["enable-event", "-p", "a"], "Java and Python"),
            (&["enable-channel", "-k", "big", "--output=mmap"], "leave it out"),
            (&["add-trigger", "--condition=event-rule-matches", "--action=notify"], "--event -u"),
            (&["add-trigger", "--action=snapshot-session", "fr"], "--snapshot"),
            (&["add-trigger", "--rate-policy=every:2"], "--pause TIME"),
            (&["crash", "/dev/shm/lttng"], "strata start NAME"),
            (&["reclaim-memory", "--older-than=1s"], "--max-memory SIZE"),
            (&["show-maps"], "strata stats"),
            (&["disable-event", "-k", "--function", "f"], "uprobe:PATH:SYMBOL"),
            (&["status", "--channel=big"], "strata status NAME"),
            (&["enable-rotation", "--timer=1000000"], "--time 1h"),
            (&["status", "--map-channel=m"], "strata count"),
            (&["list", "-M", "m"], "strata count"),
            (&["remove-trigger", "--owner-uid=0", "t"], "its user"),
            (&["add-trigger", "--threshold-ratio=0.5"], "--fill PERCENT"),
            (&["add-trigger", "--capture=a"], "as JSON"),
            (&["add-trigger", "--log-level=INFO"], "@warning"),
            (&["-n", "list"], "there is no daemon"),
            (&["--quiet", "create", "x"], "leave it out here"),
            (&["list", "--mi=xml"], "use --json"),
            (&["enable-channel", "-u", "big", "--buffer-ownership=user"], "buffers of its own"),
            (&["enable-channel", "-u", "big", "--buffer-allocation", "per-channel"], "each CPU"),
            (&["enable-channel", "-u", "big", "--watchdog-timer=0"], "leave it out"),
            (&["status", "--mem-usage=full"], "strata top"),
            (&["save", "--no-triggers"], "remove-trigger"),
        ] {
            let error = Flags::try_parse_from(["strata"].iter().chain(words)).unwrap_err();
            let text =
                anstream::adapter::strip_str(&stderr::messages::usage(&error, &[])).to_string();
            assert!(text.starts_with("strata: "), "{text}");
            assert!(text.contains("is a word of LTTng's") && text.contains(instead), "{text}");
            assert_eq!(error.exit_code(), 2);
        }
        for word in ["add-output", "list-output", "del-output"] {
            let text = stderr::messages::lttng::of_snapshot(word).unwrap();
            assert!(text.starts_with(&format!("snapshot {word} is a word of LTTng's")), "{text}");
        }
        assert_eq!(stderr::messages::lttng::of_snapshot("record"), None);
        // Elsewhere the same letter is another one's.
        let error = Flags::try_parse_from(["strata", "save", "-u"]).unwrap_err();
        assert!(!stderr::messages::usage(&error, &[]).contains("LTTng"));
        // These are known.
        for words in [
            &["snapshot"][..],
            &["snapshot", "record"],
            &["snapshot", "add-output", "-s", "fr", "file:///tmp"],
            &["add-context", "--list", "-u"],
            &["add-context", "--list"],
            &["stop", "fr", "--no-wait"],
            &["destroy", "--all", "-n"],
            &["start", "--all"],
            &["stop", "-a"],
            &["rotate", "fr", "-n"],
            &["save", "-a"],
            &["load", "-a", "-f"],
            &["load", "fr", "--force", "--input-path", "x"],
            &["view", "-t", "trace"],
            &["view", "--trace-path=trace"],
            &["list", "fr"],
            &["list", "-u", "--fields"],
            &["list", "--userspace"],
            &["enable-channel", "-u", "a,b"],
            &["disable-channel", "-k", "a,b"],
            &["disable-event", "-k", "--syscall", "openat"],
            &["disable-event", "-k", "--tracepoint", "sched_switch"],
        ] {
            Flags::try_parse_from(["strata"].iter().chain(words)).unwrap();
        }
    }

    #[test]
    fn help_has_each_command_once_in_a_group() {
        let commands = Flags::command();
        let help = commands.clone().render_help().to_string();
        let shown = commands.get_subcommands().filter(|one| !one.is_hide_set());
        for name in shown.map(|one| one.get_name()) {
            let lines = help.lines().filter(|line| {
                let words = line.strip_prefix("  ").filter(|rest| !rest.starts_with([' ', '-']));
                let words = words.map(|rest| rest.split("  ").next().unwrap_or_default());
                words.is_some_and(|words| words.split(", ").any(|word| word == name))
            });
            assert_eq!(lines.count(), 1, "{name}: {help}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }

    #[test]
    fn failure_to_start_the_command_is_that_of_a_shell() {
        let error = SessionError::from(CommandError::NotFound { name: "x".into() });
        assert_eq!(failed(&error.into()), 127);
    }

    #[test]
    fn stop_before_recording_began_is_the_signal_s() {
        for (signal, status) in [(None, 130), (Some(2), 130), (Some(15), 143), (Some(1), 129)] {
            assert_eq!(failed(&SessionError::Stopped(signal).into()), status);
        }
        assert_eq!(failed(&SessionError::NothingSelected(Vec::new()).into()), FAILED);
    }
}
