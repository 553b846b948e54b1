//! Errors that prevent a session, or end one.

use std::io;
use std::path::PathBuf;

use crate::options::OptionsError;
use crate::output::folder::FolderError;
use crate::record::command::CommandError;
use crate::session::disk::LowSpace;

/// Why a session cannot begin. Nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The options contradict each other or are out of range.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The trace's folder cannot be created or used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The disk has less free space than the recording must leave.
    #[error("output folder '{}': {low}, so that nothing would be recorded. Free some, use -o with a folder on another \
             file system, or --min-free 0 to record until it is full", .path.display())]
    Space {
        /// The folder of the traces.
        path: PathBuf,
        /// The free space that was found, and the limit below which nothing is recorded.
        low: LowSpace,
    },
    /// The command could not be started.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A library to preload is missing, or not safe.
    #[error(transparent)]
    Preload(#[from] crate::record::preload::PreloadError),
    /// Applications cannot be found or traced.
    #[error(transparent)]
    User(#[from] strata_user::Error),
    /// The kernel cannot be recorded.
    #[error("{cause}{}", without(.cause, .asked))]
    Kernel {
        /// The error of `strata-kernel`.
        #[source]
        cause: Box<strata_kernel::Error>,
        /// The flags that request the kernel.
        asked: String,
    },
    /// The kernel's events cannot be listed.
    #[error(transparent)]
    KernelEvents(Box<strata_kernel::Error>),
    /// The BPF file system, in which programs must be pinned so that they record on when the session is killed,
    /// cannot be used.
    #[error(transparent)]
    Pins(Box<strata_kernel::Error>),
    /// A rule for the kernel's events is not well formed.
    #[error(transparent)]
    KernelRules(#[from] strata_kernel::event_rules::SelectionError),
    /// A probe of a program or library is invalid, or its target does not exist.
    #[error(transparent)]
    Probe(Box<strata_kernel::uprobe::ProbeError>),
    /// No recorded event can pass the kernel's filter or a part of it. The message has several lines.
    #[error(transparent)]
    KernelFilter(#[from] strata_kernel::filter::Slips),
    /// The filter uses the duration in a way that only readers of traces support.
    #[error(transparent)]
    Duration(#[from] strata_filter::DurationError),
    /// The filter tests the duration, and the selected events have no duration.
    #[error(
        "'duration' is how long a system call took, and {rule} selects no system call. Use a rule such as \
         'syscalls' or 'openat', or leave it out of the filter"
    )]
    NoCalls {
        /// The rule without such events, preceded by the word "rule"; or "what is recorded" for all rules.
        rule: String,
    },
    /// The filter of a rule is wrong.
    #[error("rule '{rule}': {cause}")]
    OfRule {
        /// The rule as it was written.
        rule: String,
        /// The error of the filter.
        #[source]
        cause: Box<SessionError>,
    },
    /// A rule or filter of a channel is wrong.
    #[error("{layer} channel '{channel}': {cause}")]
    OfChannel {
        /// The channel's layer.
        layer: &'static str,
        /// The channel's name.
        channel: String,
        /// The error of the rule or filter.
        #[source]
        cause: Box<SessionError>,
    },
    /// The filters of several rules cannot be combined.
    #[error("the filters of the rules, together: {0}")]
    Filters(Box<strata_filter::ParseError>),
    /// The filter cannot be evaluated in applications.
    #[error(transparent)]
    Filter(#[from] strata_user::FilterError),
    /// No event can pass the filter.
    #[error(
        "filter: no event of any application can pass it: each part is true of some, or of none"
    )]
    NothingPasses,
    /// The plan is invalid.
    #[error(transparent)]
    Plan(#[from] crate::plan::PlanError),
    /// A request would change the buffers of a channel that was started.
    #[error(
        "{layer} channel '{channel}': its loss mode, its sub-buffers and its flush period cannot be changed once it has been started. \
         Make another channel: strata enable-channel"
    )]
    HasBuffers {
        /// The name of the layer.
        layer: &'static str,
        /// The channel's name.
        channel: String,
    },
    /// A request adds a channel to a session whose command runs already.
    #[error(
        "{layer} channel '{channel}': it is new, and the session's command is recorded only by channels that it had when the \
         command started. Enable the events in one of those"
    )]
    CommandRuns {
        /// The name of the layer.
        layer: &'static str,
        /// The channel's name.
        channel: String,
    },
    /// The trace of the kernel cannot be described.
    #[error("kernel trace: {0}. Please report this, with the output of `strata list -k`")]
    KernelTrace(#[from] strata_model::TraceError),
    /// The rules select no event of this kernel. Has a report for each rule.
    #[error("the rules for the kernel select no event")]
    NothingSelected(Vec<crate::report::KernelRuleReport>),
    /// The kernel has refused all selected events.
    #[error("no event of the kernel can be recorded: {why}")]
    NothingAttached {
        /// The reason for the first event.
        why: String,
    },
    /// The user asked to stop before the session began. Has the number of the signal, if a signal asked.
    #[error("stopped before recording began. There is no trace")]
    Stopped(Option<i32>),
    /// The kernel's rings need more memory than allowed.
    #[error("the kernel: {why}")]
    Memory {
        /// The amount of memory that is needed, with advice.
        why: String,
    },
    /// The host's recorder cannot be reached, or refuses this guest.
    #[error("the host's recorder, by {channel}: {source}. On the host: strata record --guest NAME=CHANNEL; see docs/guide/guests.md")]
    Relay {
        /// The channel to the host.
        channel: String,
        /// The error of the system or of the host.
        source: io::Error,
    },
    /// The relay on another host cannot be reached, or refuses the recording.
    #[error("--to {relay}: {why}{advice}; see docs/guide/network.md")]
    Remote {
        /// The relay's address.
        relay: String,
        /// Why the relay cannot be used.
        why: String,
        /// What to do if the relay does not answer; otherwise empty.
        advice: &'static str,
    },
    /// This machine has no certificate for the relay on another host.
    #[error(transparent)]
    Destination(#[from] strata_remote::DestinationError),
    /// The session's name is in use or invalid, or its control folder cannot be used.
    #[error(transparent)]
    Control(#[from] strata_control::ControlError),
    /// A session that was to start at once did not.
    #[error("session '{name}': {why}")]
    NotStarted {
        /// The session's name.
        name: String,
        /// Why it did not start, as a sentence.
        why: String,
    },
    /// An earlier session left the memory of more programs than this process may open.
    #[error(
        "session '{name}': its strata-fdstore holds the memory of more programs than this process may have open ({limit} \
         files). Raise that limit (ulimit -H -n), or give them up: strata destroy {name}"
    )]
    FdStore {
        /// The session's name.
        name: String,
        /// The most files that a process may have open.
        limit: u64,
    },
    /// A request would change a layer that can only be changed while it does not record.
    #[error(
        "{layer}: what is recorded cannot be changed while it is recorded. Stop the session first"
    )]
    Unchangeable {
        /// The name of the layer.
        layer: &'static str,
    },
    /// A call of the system failed.
    #[error("session: cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The error code of the system.
        source: io::Error,
    },
}

impl SessionError {
    /// Adds the layer and the channel's name to an error about rules or filters. Returns other errors unchanged.
    pub(crate) fn of_channel(self, layer: &'static str, channel: &str) -> SessionError {
        match self {
            SessionError::KernelFilter(_)
            | SessionError::Filter(_)
            | SessionError::Filters(_)
            | SessionError::NothingPasses
            | SessionError::Duration(_)
            | SessionError::NoCalls { .. }
            | SessionError::OfRule { .. } => SessionError::OfChannel {
                layer,
                channel: channel.to_owned(),
                cause: Box::new(self),
            },
            other => other,
        }
    }

    /// Returns whether the error is about the selected events or programs, which may appear and disappear. Other
    /// errors are about the recorder.
    pub(crate) fn is_of_what_is_there(&self) -> bool {
        use strata_kernel::Error as E;
        match self {
            SessionError::OfChannel { cause, .. } => cause.is_of_what_is_there(),
            SessionError::NothingSelected(_)
            | SessionError::OfRule { .. }
            | SessionError::KernelFilter(_)
            | SessionError::Probe(_) => true,
            SessionError::Kernel { cause, .. } => matches!(
                **cause,
                E::Filter(_) | E::Refused { .. } | E::NoEvent { .. } | E::TrackedGroup { .. }
            ),
            _ => false,
        }
    }

    /// Returns the message as one line. Suggestions, which otherwise stand on lines of their own, follow the problem.
    pub(crate) fn in_a_line(&self) -> String {
        let text = self.to_string();
        let line = text.lines().next().unwrap_or_default();
        let mut cause = self;
        while let SessionError::OfRule { cause: inner, .. }
        | SessionError::OfChannel { cause: inner, .. } = cause
        {
            cause = inner;
        }
        let first = match cause {
            SessionError::KernelFilter(slips) => slips.0.first(),
            _ => None,
        };
        let near = first.map(|hint| hint.what.similar()).unwrap_or_default();
        let near: Vec<String> = near.iter().map(|name| format!("'{name}'")).collect();
        match near.is_empty() {
            true => line.to_owned(),
            false => format!("{}. Did you mean {}?", line.trim_end_matches('.'), near.join(" or ")),
        }
    }
}

/// Returns advice on recording without the kernel; empty if the request itself is wrong. `asked`: the flags that
/// request the kernel.
fn without(cause: &strata_kernel::Error, asked: &str) -> String {
    use strata_kernel::Error as E;
    match cause {
        E::Filter(_)
        | E::TooLarge { .. }
        | E::TooManyEvents { .. }
        | E::Counter { .. }
        | E::TooManyCounters { .. } => String::new(),
        _ => format!(". Applications can be recorded without it: leave out {asked}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::KernelOptions;
    use std::path::PathBuf;

    #[test]
    fn failure_of_the_kernel_names_the_flags_that_asked_for_it_unless_these_are_wrong() {
        use strata_kernel::Error as E;
        let said = |cause: E| {
            let kernel = KernelOptions {
                probes: vec!["uprobe:a:b".into()],
                as_lttng: true,
                ..KernelOptions::default()
            };
            SessionError::Kernel { cause: Box::new(cause), asked: kernel.flags() }.to_string()
        };
        let text = said(E::Rights { missing: "CAP_BPF".into() });
        assert!(text.ends_with("without it: leave out --probe and --lttng-env"), "{text}");
        let text = said(E::TooManyEvents { found: 2, limit: 1 });
        assert!(text.ends_with("Select fewer events"), "{text}");
        let text = said(E::TooManyCounters { found: 9 });
        assert!(text.contains("limit 8") && text.ends_with("a second session"), "{text}");
    }

    #[test]
    fn slip_in_a_filter_names_the_channel_and_the_rule_and_what_was_meant() {
        use strata_filter::{Class, ClassField, ClassFieldKind, Filter, Root};
        let (root, path, kind) = (Root::Payload, "next_prio".to_owned(), ClassFieldKind::INTEGER);
        let fields = vec![ClassField { root, path, kind }];
        let class = Class { name: "sched_switch".into(), fields, ..Class::default() };
        let filter = Filter::parse("nxt_prio == 3").unwrap();
        let slips = strata_kernel::filter::Slips(filter.check(&[class]));
        let cause = Box::new(SessionError::KernelFilter(slips));
        let error = SessionError::OfRule { rule: "sched_switch".into(), cause };
        let error = error.of_channel("kernel", "big");
        let line = error.in_a_line();
        let begin = "kernel channel 'big': rule 'sched_switch': filter, column 1: ";
        assert!(line.starts_with(begin) && line.ends_with("Did you mean 'next_prio'?"), "{line}");
        assert!(!line.contains('\n'), "{line}");
        let other = SessionError::Stopped(None);
        assert!(matches!(other.of_channel("kernel", "big"), SessionError::Stopped(None)));
    }

    #[test]
    fn failure_of_one_process_memory_is_not_the_session_s() {
        let ring = |source| strata_collect::Error::Ring { path: PathBuf::new(), source };
        assert!(ring(strata_ring::Error::Table { stream: 3 }).is_of_the_source());
        assert!(!ring(strata_ring::Error::NoMemory("x".into())).is_of_the_source());
    }

    #[test]
    fn failure_of_the_kernel_that_other_events_would_not_have_is_not_reported_to_be_the_flag_s() {
        use strata_kernel::Error as E;
        for (cause, has_advice) in [
            (E::NoBtf, true),
            (E::Machine { machine: "riscv64" }, true),
            (E::TooLarge { found: 2, limit: 1 }, false),
            (E::TooManyEvents { found: 2, limit: 1 }, false),
        ] {
            let text = cause.to_string();
            let asked = "--kernel".to_owned();
            let said = SessionError::Kernel { cause: Box::new(cause), asked }.to_string();
            let more = match has_advice {
                true => ". Applications can be recorded without it: leave out --kernel",
                false => "",
            };
            assert_eq!(said, format!("{text}{more}"));
        }
        let kernel = SessionError::KernelEvents(Box::new(E::NoBtf));
        assert_eq!(kernel.to_string(), E::NoBtf.to_string());
    }
}
