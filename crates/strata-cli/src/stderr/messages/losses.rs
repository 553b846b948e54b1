//! Messages on records that are not in the trace: their number, the reason, and a remedy.

use std::time::Duration;

use strata_analyze::render::{time_text, ClockStyle};
use strata_session::report::advice::{advise, TooMuch};
use strata_session::report::{
    Buffers, Counts, Demand, DiscardReason, Discarded, LayerReport, LossMode, LossTimes,
    ProcessReport, StreamLoss,
};

use crate::time_zone;
use crate::units::{count, counted, flag_size, size, time};

use super::message::{talk, warning, who, Message};

/// Limit on the CPUs that are named one by one.
const CPUS_SHOWN: usize = 8;

/// Returns flags for buffers twice as large, which hold a longer past; the need was not measured.
pub(super) fn larger(buffers: &Buffers) -> String {
    let counts = Discarded { nested: 1, ..Discarded::default() };
    let counts = Counts { discarded: counts, ..Counts::default() };
    sizes(&counts, buffers).unwrap_or_else(|| select_less(&counts, buffers))
}

/// Returns the remedy if larger buffers are not possible.
fn select_less(counts: &Counts, buffers: &Buffers) -> String {
    let too_much = advise(counts, buffers).and_then(|advice| advice.too_much);
    let why = match (buffers.are_largest, too_much) {
        (true, _) => "this kernel holds no larger buffers".to_owned(),
        (false, Some(TooMuch { needed_bytes, room_bytes, memory_bytes })) => {
            needs(needed_bytes, room_bytes, memory_bytes)
        }
        (false, None) => "no buffers of a size that can be recommended would hold it".to_owned(),
    };
    format!("rules or a --filter that select less ({why})")
}

/// Formats why there is not enough memory for buffers that would have been large enough.
pub fn needs(needed_bytes: u64, room_bytes: u64, memory_bytes: u64) -> String {
    format!(
        "buffers that hold it need {} for all programs together, and may take {} of the {} of memory that are the limit here",
        size(needed_bytes),
        size(room_bytes),
        size(memory_bytes)
    )
}

/// Returns the flags for buffers that would have been large enough; `None` if there are none.
fn sizes(counts: &Counts, buffers: &Buffers) -> Option<String> {
    let sizes = advise(counts, buffers)?.sizes?;
    let mut flags = Vec::new();
    if sizes.subbuf_size != buffers.subbuf_bytes {
        let (new, now) = (flag_size(sizes.subbuf_size), flag_size(buffers.subbuf_bytes));
        flags.push(format!("--subbuf-size={new} (now {now})"));
    }
    if sizes.num_subbuf != buffers.nr_subbufs {
        flags.push(format!("--num-subbuf={} (now {})", sizes.num_subbuf, buffers.nr_subbufs));
    }
    (!flags.is_empty()).then(|| flags.join(" "))
}

/// Returns the remedy for full buffers, with the measurements on which the estimate is based.
pub(super) fn full(counts: &Counts, buffers: &Buffers) -> String {
    let larger = sizes(counts, buffers).unwrap_or_else(|| select_less(counts, buffers));
    let by = match counts.demand {
        Demand { bytes: 0, .. } => String::new(),
        Demand { bytes, late_ns } => format!(
            " (an estimate: {} came for one CPU within {}, in which not all was taken)",
            size(bytes),
            time(Duration::from_nanos(late_ns)),
        ),
    };
    let other = match buffers.mode {
        LossMode::Discard => " or --mode=overwrite",
        LossMode::Overwrite => "",
    };
    format!("Use {larger}{by}{other}")
}

/// Formats on which CPUs and when records were discarded, as far as it is known: `: 1,200 on CPU 0, 3 on CPU 4, from
/// 14:03:01.214 to 14:03:04.871`.
pub(super) fn place_and_time(reason: DiscardReason, losses: &[StreamLoss], wall_ns: i64) -> String {
    let of_reason = || losses.iter().filter(|one| one.discarded.of(reason) > 0);
    let mut cpus: Vec<(u64, u32)> =
        of_reason().map(|one| (one.discarded.of(reason), one.cpu)).collect();
    if cpus.is_empty() {
        return String::new();
    }
    cpus.sort_by_key(|&(number, cpu)| (std::cmp::Reverse(number), cpu));
    let mut parts: Vec<String> = cpus
        .iter()
        .take(CPUS_SHOWN)
        .map(|(number, cpu)| format!("{} on CPU {cpu}", count(*number)))
        .collect();
    if cpus.len() > CPUS_SHOWN {
        parts.push(format!("the rest on {} more", cpus.len() - CPUS_SHOWN));
    }
    let mut times = LossTimes::default();
    of_reason().for_each(|one| times.add(&one.times));
    let span = times.of(reason).map_or_else(String::new, |(first, last)| {
        let wall = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX).saturating_add(wall_ns);
        format!(", {}", span_text(wall(first), wall(last)))
    });
    format!(": {}{span}", parts.join(", "))
}

/// Formats a range of time in the user's time zone: `from 14:03:01.214 to 14:03:04.871`. Times are since 1970 \[ns\].
pub fn span_text(first: i64, last: i64) -> String {
    let zone = time_zone::local();
    let text = |ns: i64| {
        let text = time_text(ClockStyle::Time, &zone, ns);
        // Times that are known from packets are no more exact than milliseconds.
        text.split_once('.').map_or(text.clone(), |(whole, part)| {
            format!("{whole}.{}", part.get(..3).unwrap_or(part))
        })
    };
    format!("from {} to {}", text(first), text(last))
}

/// Formats on how many CPUs records were discarded.
pub(super) fn cpus(counts: &Counts) -> String {
    match counts.streams_discarding {
        0 => String::new(),
        some => format!(" on {some} of {}", counted(counts.streams.into(), "CPU")),
    }
}

/// Explanation of records that were written to no file.
pub(super) const UNWRITTEN: &str =
    "There was no room for them, or the recording was stopped, as said above, before they could be";

/// Returns the remedy for discarded records of this reason in an application.
fn advice(reason: DiscardReason, counts: &Counts, buffers: &Buffers) -> String {
    match reason {
        DiscardReason::Full => full(counts, buffers),
        DiscardReason::TooBig => format!(
            "Use a --subbuf-size larger than its largest event record (now {})",
            flag_size(buffers.subbuf_bytes)
        ),
        DiscardReason::Nested => format!(
            "A thread was interrupted, preempted or killed within a record while others filled all \
             of the CPU's buffers. Use {}; if it has many signal handlers, let fewer nest",
            larger(buffers)
        ),
        DiscardReason::NoStream => "A CPU was added while it was recorded; record again".to_owned(),
        DiscardReason::NotRun => {
            "Please report this, with the output of `strata doctor`".to_owned()
        }
        DiscardReason::Unmapped => format!(
            "Raise its address space limit (ulimit -v), or use --subbuf-size={}; a program \
             that shuts itself in (seccomp) is recorded when it is started by strata record",
            flag_size((buffers.subbuf_bytes / 4).max(4096))
        ),
        DiscardReason::Unstaged => {
            "Raise its memory limit, or trace shorter arrays and strings".to_owned()
        }
        DiscardReason::NoClock => {
            "Its thread has forbidden itself to read the CPU's counter (seccomp \
                            strict mode, or PR_TSC_SIGSEGV), and is recorded until then only"
                .to_owned()
        }
        DiscardReason::Unwritten => UNWRITTEN.to_owned(),
    }
}

/// Returns messages on the losses of a process, by reason, with remedies.
pub(super) fn of(process: &ProcessReport, layer: &LayerReport, wall_ns: i64) -> Vec<Message> {
    let (counts, discarded) = (&process.counts, &process.counts.discarded);
    let mut messages = Vec::new();
    for (reason, number) in discarded.each().filter(|(_, number)| *number > 0) {
        let place = match reason {
            DiscardReason::Full => cpus(counts),
            _ => String::new(),
        };
        messages.push(warning(format!(
            "{}: {} discarded ({}){place}{}. {}.",
            who(process),
            counted(number, "event record"),
            reason.name(),
            place_and_time(reason, &process.losses, wall_ns),
            advice(reason, counts, &layer.buffers),
        )));
    }
    if counts.overwritten > 0 {
        messages.push(talk(format!(
            "{}: {} overwritten (the oldest go first). For a longer past use {}.",
            who(process),
            counted(counts.overwritten, "event record"),
            larger(&layer.buffers),
        )));
    }
    // If no record is unreadable, none is missing: a process that is killed while it writes a record has not recorded
    // it.
    if counts.unread_records > 0 {
        let how = if process.is_alive { "a thread stood still" } else { "killed" };
        messages.push(warning(format!(
            "{}: {how} while up to {} bytes were being written; {} behind them could not be read.",
            who(process),
            count(counts.unpublished_bytes),
            counted(counts.unread_records, "event record"),
        )));
    }
    if counts.damaged_packets > 0 {
        messages.push(warning(format!(
            "{}: {} not well formed. Skipped; {} are intact.",
            who(process),
            counted(counts.damaged_packets, "packet"),
            count(counts.packets),
        )));
    }
    if process.refused > 0 {
        messages.push(warning(format!(
            "{}: {} of it found no room in its control page, {} did. Load fewer instrumented libraries, \
             or register fewer event classes, in one process.",
            who(process),
            counted(process.refused, "tracepoint"),
            count(process.tracepoints),
        )));
    }
    messages
}
