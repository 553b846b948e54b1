//! Messages about the kernel's layer.

use std::time::Duration;

use strata_session::report::{
    Buffers, Counts, DiscardReason, KernelRuleReport, LayerReport, NoKernel, ProcessReport,
    RecordingTarget, Report,
};

use crate::units::{clean, count, counted};

use super::losses::{cpus, full, larger, place_and_time, UNWRITTEN};
use super::message::{sentence, talk, warning, Message, Weight, NAMES_SHOWN};

/// Time after which messages from the begin of a recording may have scrolled out of sight.
const OUT_OF_SIGHT: Duration = Duration::from_secs(10);

/// Returns messages on records that the kernel's layer discarded, by reason, with remedies.
pub(super) fn losses(report: &Report) -> Vec<Message> {
    let Some(of) = &report.kernel else { return Vec::new() };
    let mut messages: Vec<Message> =
        report.kernel_layers().flat_map(|layer| of_channel(layer, report.wall_ns)).collect();
    if of.unreadable > 0 {
        messages.push(talk(format!(
            "kernel: {} could not be read: the memory of the process was not mapped, or not in RAM at that moment.",
            counted(of.unreadable, "field"),
        )));
    }
    if of.uncounted > 0 {
        messages.push(talk(format!(
            "kernel: {} could not be read and recorded as 0: the CPU had just come online, or others use its counters, too.",
            counted(of.uncounted, "counter"),
        )));
    }
    if of.cut > 0 {
        messages.push(talk(format!(
            "kernel: {} longer than a field holds: cut after {} bytes. For the arguments of programs, set --argv-bytes.",
            counted(of.cut, "text"),
            count(u64::from(strata_session::KERNEL_TEXT_MAX) - 1),
        )));
    }
    messages
}

/// Returns the messages on losses of one channel.
fn of_channel(layer: &LayerReport, wall_ns: i64) -> Vec<Message> {
    let Some(kernel) = layer.processes.first() else { return Vec::new() };
    let mut messages = discarded(kernel, &layer.buffers, wall_ns);
    if kernel.counts.overwritten > 0 {
        messages.push(talk(format!(
            "kernel: {} overwritten (the oldest go first). For a longer past use {}.",
            counted(kernel.counts.overwritten, "event record"),
            larger(&layer.buffers),
        )));
    }
    if kernel.counts.damaged_packets > 0 {
        messages.push(warning(format!(
            "kernel: {} not well formed. Skipped; {} are intact.",
            counted(kernel.counts.damaged_packets, "packet"),
            count(kernel.counts.packets),
        )));
    }
    messages
}

fn discarded(kernel: &ProcessReport, buffers: &Buffers, wall_ns: i64) -> Vec<Message> {
    let counts = &kernel.counts;
    let some = counts.discarded.each().filter(|(_, number)| *number > 0);
    some.map(|(reason, number)| {
        let place = match reason {
            DiscardReason::Full => cpus(counts),
            _ => String::new(),
        };
        let when = place_and_time(reason, &kernel.losses, wall_ns);
        let (records, advice) = (counted(number, "event record"), advice(reason, counts, buffers));
        warning(format!("kernel: {records} discarded ({}){place}{when}. {advice}.", reason.name()))
    })
    .collect()
}

/// Returns the remedy for discarded records of this reason in the kernel's layer.
fn advice(reason: DiscardReason, counts: &Counts, buffers: &Buffers) -> String {
    match reason {
        DiscardReason::Full => full(counts, buffers),
        DiscardReason::TooBig => "Use a larger --subbuf-size".to_owned(),
        DiscardReason::Nested => {
            format!("Interrupts filled all of a CPU's buffers. Use {}", larger(buffers))
        }
        DiscardReason::NotRun => {
            "The kernel runs no such program in an interrupt of another one; record \
                           fewer events of interrupts"
                .to_owned()
        }
        DiscardReason::Unwritten => UNWRITTEN.to_owned(),
        DiscardReason::NoStream
        | DiscardReason::Unmapped
        | DiscardReason::Unstaged
        | DiscardReason::NoClock => {
            "Please report this, with the output of `strata doctor`".to_owned()
        }
    }
}

/// Returns warnings about events that could not be recorded, one for each reason.
pub(super) fn problems(report: &Report) -> Vec<Message> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for problem in report.kernel.iter().flat_map(|kernel| &kernel.problems) {
        match reasons.iter_mut().find(|(reason, _)| *reason == problem.reason) {
            Some((_, events)) => events.push(&problem.event),
            None => reasons.push((&problem.reason, vec![&problem.event])),
        }
    }
    let text = |(reason, events): &(&str, Vec<&str>)| {
        // A reason that is a whole message names the event itself.
        if reason.starts_with("kernel event") {
            return warning(sentence(reason));
        }
        let mut names: Vec<String> =
            events.iter().take(NAMES_SHOWN).map(|event| format!("'{}'", clean(event))).collect();
        if events.len() > NAMES_SHOWN {
            names.push(format!("{} more", count((events.len() - NAMES_SHOWN) as u64)));
        }
        let what = if events.len() == 1 { "kernel event" } else { "kernel events" };
        warning(format!("{what} {}: not recorded: {}", names.join(", "), sentence(reason)))
    };
    reasons.iter().map(text).collect()
}

/// Returns warnings about rules that select no event, unless [`no_such_event()`] was printed a moment ago.
pub(super) fn nothing_matched(report: &Report) -> Vec<Message> {
    if report.elapsed < OUT_OF_SIGHT {
        return Vec::new();
    }
    let Some(kernel) = &report.kernel else { return Vec::new() };
    // A probe that could not be made has a message as an event.
    let is_told =
        |rule: &&KernelRuleReport| kernel.problems.iter().any(|one| one.event == rule.rule);
    let rules = kernel.rules.iter().filter(|rule| rule.matched == 0 && !is_told(rule));
    rules.map(|rule| warning(no_such_event(rule))).collect()
}

/// Formats similar names: `Similar: 'a', 'b'.`
pub(super) fn similar_names(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("'{}'", clean(name))).collect();
    format!("Similar: {}.", names.join(", "))
}

/// CPU time that it takes to attach a program, nearly all of which the kernel needs to check it: 11.4 s for 1,583 of them
/// \[s\].
const ATTACHING_SECONDS: f64 = 0.0072;
/// The number of times longer that it took beside 16 other threads on two CPUs.
const ATTACHING_BUSY: f64 = 4.0;
/// Time that it takes to detach a program: a grace period of RCU \[s\].
const DETACHING_SECONDS: f64 = 0.07;

/// Returns the message on what it costs to record so many events, before that begins.
pub fn many_programs(programs: u64) -> String {
    let seconds = |each: f64| count((programs as f64 * each).ceil() as u64);
    format!(
        "the kernel attaches {} events one by one: some {} s before recording begins, or {} s on a busy machine, and at its end \
         some {} s to detach them, by a process of its own. Fewer begin sooner, such as -k 'syscalls,sched_*,block_*'",
        count(programs),
        seconds(ATTACHING_SECONDS),
        seconds(ATTACHING_SECONDS * ATTACHING_BUSY),
        seconds(DETACHING_SECONDS),
    )
}

/// Returns the message on a rule that selects no event.
pub fn no_such_event(rule: &KernelRuleReport) -> String {
    let advice = match (&rule.excluded, rule.similar.as_slice()) {
        (Some(why), _) => sentence(why),
        (None, []) => "`strata list -k` shows all.".to_owned(),
        (None, similar) => similar_names(similar),
    };
    format!("kernel rule '{}': matched no event. {advice}", clean(&rule.rule))
}

/// Returns the messages on rules that together select nothing, so that there is nothing to record.
pub fn nothing_selected(rules: &[KernelRuleReport]) -> Vec<String> {
    let mut lines: Vec<String> =
        rules.iter().filter(|rule| rule.matched == 0).map(no_such_event).collect();
    let named = |is_exclusion: bool| {
        let is_one = |rule: &&KernelRuleReport| {
            rule.matched > 0 && rule.rule.starts_with('!') == is_exclusion
        };
        let names: Vec<String> =
            rules.iter().filter(is_one).map(|rule| format!("'{}'", clean(&rule.rule))).collect();
        names.join(", ")
    };
    let (selecting, leaving_out) = (named(false), named(true));
    let has_selecting = rules.iter().any(|rule| !rule.rule.starts_with('!'));
    if !leaving_out.is_empty() && (!selecting.is_empty() || !has_selecting) {
        let selecting =
            if has_selecting { selecting } else { "every event of the kernel".to_owned() };
        lines.push(format!(
            "kernel rules: nothing is left of {selecting} without {leaving_out}. Leave out less."
        ));
    }
    lines.push("nothing to record: the rules for the kernel select no event.".to_owned());
    lines
}

/// Returns the reason why the kernel has no record, if there is none.
pub(super) fn nothing_recorded(report: &Report) -> Option<Message> {
    let kernel = report.of_kernel()?;
    if kernel.counts.records > 0 || report.failure.is_some() {
        return None;
    }
    let why = match (kernel.tracepoints, kernel.selected) {
        (0, _) => "no rule selects an event. `strata list -k` shows all.".to_owned(),
        (_, 0) => "none of the events could be switched on; see above.".to_owned(),
        _ if kernel.counts.discarded.total() > 0 => {
            "all event records were discarded; see above.".to_owned()
        }
        (_, events) if report.kernel.as_ref().is_some_and(|kernel| kernel.is_filtered) => {
            format!("{} enabled, and nothing happened that the filter selects.", are(events))
        }
        (_, events) => format!("{} enabled, and none of them happened.", are(events)),
    };
    Some(warning(format!("nothing recorded of the kernel: {why}")))
}

fn are(events: u64) -> String {
    let verb = if events == 1 { "was" } else { "were" };
    format!("{} {verb}", counted(events, "event"))
}

/// Returns the message that the kernel is not recorded, in one line.
pub fn not_recorded(reason: &NoKernel) -> String {
    format!("kernel not recorded: {} `strata doctor` says more.", sentence(&reason.why))
}

/// Returns the weight of the message of [`not_recorded`]: having no permission to record the kernel is no fault.
pub fn weight_of_no_kernel(reason: &NoKernel) -> Weight {
    match reason.is_failure {
        true => Weight::Warning,
        false => Weight::Talk,
    }
}

/// Returns the message that the kernel was not recorded. Without a command, it was printed at the begin.
pub(super) fn no_kernel(report: &Report) -> Option<Message> {
    let reason = report.no_kernel.as_ref().filter(|_| report.asked == RecordingTarget::Command)?;
    Some(Message { weight: weight_of_no_kernel(reason), text: not_recorded(reason) })
}

/// Returns true if less of the kernel was recorded than was requested.
pub(super) fn is_incomplete(report: &Report) -> bool {
    let Some(kernel) = report.kernel.as_ref().filter(|kernel| !kernel.is_default) else {
        return false;
    };
    report.of_kernel().is_some_and(|kernel| kernel.counts.records == 0)
        || kernel.rules.iter().any(|rule| rule.matched == 0)
        || !kernel.problems.is_empty()
}
