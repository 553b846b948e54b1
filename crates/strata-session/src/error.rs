//! Why a session cannot begin, and what stops one.

use std::io;

use crate::options::OptionsError;
use crate::output::folder::FolderError;
use crate::record::command::CommandError;

/// Why a session cannot begin. Nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// It was asked for something that cannot be.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// There is no folder for the trace.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The command could not be started.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// What the command is to be started with is not there, or not safe.
    #[error(transparent)]
    Preload(#[from] crate::record::preload::PreloadError),
    /// Applications cannot be found or told.
    #[error(transparent)]
    User(#[from] strata_user::Error),
    /// The kernel cannot be recorded.
    #[error("{cause}{}", without(.cause, .asked))]
    Kernel {
        /// What `strata-kernel` failed in.
        #[source]
        cause: Box<strata_kernel::Error>,
        /// The flags that ask for it.
        asked: String,
    },
    /// What the kernel has to offer cannot be found out.
    #[error(transparent)]
    KernelEvents(Box<strata_kernel::Error>),
    /// A rule for the kernel's events is not well formed.
    #[error(transparent)]
    KernelRules(#[from] strata_kernel::selection::SelectionError),
    /// A probe of a program or library cannot be made.
    #[error(transparent)]
    Probe(Box<strata_kernel::uprobe::ProbeError>),
    /// No event that is recorded can pass the filter, or a part of it. Several lines.
    #[error(transparent)]
    KernelFilter(#[from] strata_kernel::filter::Slips),
    /// What is wrong with the filter of a rule.
    #[error("rule '{rule}': {cause}")]
    OfRule {
        /// As it was written.
        rule: String,
        /// What it is.
        #[source]
        cause: Box<SessionError>,
    },
    /// What is wrong with a channel of a session.
    #[error("{layer} channel '{channel}': {cause}")]
    OfChannel {
        /// Its layer.
        layer: &'static str,
        /// Its name.
        channel: String,
        /// What it is.
        #[source]
        cause: Box<SessionError>,
    },
    /// The filters of several rules cannot be one.
    #[error("the filters of the rules, together: {0}")]
    Filters(Box<strata_filter::ParseError>),
    /// The filter cannot be asked in applications.
    #[error(transparent)]
    Filter(#[from] strata_user::FilterError),
    /// Nothing can pass the filter.
    #[error(
        "filter: no event of any application can pass it: each part is true of some, or of none"
    )]
    NothingPasses,
    /// What is to be recorded makes no sense.
    #[error(transparent)]
    Plan(#[from] crate::plan::PlanError),
    /// What nobody can record of a layer.
    #[error("{layer}: {what} cannot be recorded")]
    Missing {
        /// Which layer.
        layer: &'static str,
        /// What was asked for, in words for people.
        what: String,
    },
    /// The trace of the kernel cannot be described.
    #[error("kernel trace: {0}. Please report this, with the output of `strata list -k`")]
    KernelTrace(#[from] strata_model::TraceError),
    /// The rules select none of the kernel's events.
    #[error("the rules for the kernel select no event")]
    NothingSelected(Vec<crate::report::KernelRuleReport>),
    /// Somebody asked to stop before it began, by this signal if it was one.
    #[error("stopped before recording began. There is no trace")]
    Stopped(Option<i32>),
    /// The kernel's rings are larger than what is allowed.
    #[error("the kernel: {why}")]
    Memory {
        /// How much, and what to do.
        why: String,
    },
    /// The host's recorder cannot be reached, or does not take this guest.
    #[error("the host's recorder, by {channel}: {source}. On the host: strata record --guest NAME=CHANNEL; see docs/guide/guests.md")]
    Relay {
        /// The channel.
        channel: String,
        /// What the system said, or the host.
        source: io::Error,
    },
    /// What is recorded of a layer stays as it is.
    #[error(
        "{layer}: what is recorded cannot be changed while it is recorded. Stop the session first"
    )]
    Unchangeable {
        /// Its name.
        layer: &'static str,
    },
    /// The system refused.
    #[error("session: cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl SessionError {
    /// What is wrong with the rules and filters of a channel names it; what else there is, is of no channel.
    pub(crate) fn of_channel(self, layer: &'static str, channel: &str) -> SessionError {
        match self {
            SessionError::KernelFilter(_)
            | SessionError::Filter(_)
            | SessionError::Filters(_)
            | SessionError::NothingPasses
            | SessionError::OfRule { .. } => SessionError::OfChannel {
                layer,
                channel: channel.to_owned(),
                cause: Box::new(self),
            },
            SessionError::Missing { layer, what } => {
                SessionError::Missing { layer, what: format!("channel '{channel}': {what}") }
            }
            other => other,
        }
    }

    /// Is it of what there is to be recorded, which may go and come, and not of who records or how?
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

    /// In one line: what is similar to a word of a filter stands below its place otherwise.
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

/// What still works without the kernel, where it is not what was asked for that is wrong.
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
    fn failure_of_the_kernel_that_other_events_would_not_have_is_not_said_to_be_the_flag_s() {
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
