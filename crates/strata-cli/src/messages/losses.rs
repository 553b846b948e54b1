//! What is said of records that are not in the trace: how many, why, and what helps.

use strata_session::report::{Counts, LossMode, ProcessReport, Reason, Report};

use crate::units::{count, counted, flag_size};

use super::{talk, warning, who, Message};

/// Largest sub-buffer that is recommended \[byte\].
const SUBBUF_BYTES_ADVISED_MAX: u64 = 64 << 20;

/// Buffers twice as large as these.
pub(super) fn larger(subbuf_bytes: u64, nr_subbufs: u32) -> String {
    match subbuf_bytes.saturating_mul(2) <= SUBBUF_BYTES_ADVISED_MAX {
        true => format!(
            "--subbuf-size={} (now {})",
            flag_size(subbuf_bytes * 2),
            flag_size(subbuf_bytes)
        ),
        false => format!("--num-subbuf={} (now {nr_subbufs})", nr_subbufs.saturating_mul(2)),
    }
}

/// What helps where buffers were full, and `larger` ones would not have been.
pub(super) fn full(mode: LossMode, larger: &str) -> String {
    match mode {
        LossMode::Discard => format!("Use {larger} or --mode=overwrite"),
        LossMode::Overwrite => format!("Use {larger}"),
    }
}

/// On how many CPUs records were discarded.
pub(super) fn cpus(counts: &Counts) -> String {
    match counts.streams_discarding {
        0 => String::new(),
        some => format!(" on {some} of {}", counted(counts.streams.into(), "CPU")),
    }
}

/// Of records that are in no file.
pub(super) const UNWRITTEN: &str = "The recording was stopped, as said above, before they could be";

/// What helps against this, in an application.
fn advice(reason: Reason, report: &Report, larger: &str) -> String {
    match reason {
        Reason::Full => full(report.mode, larger),
        Reason::TooBig => format!(
            "Use a --subbuf-size larger than its largest event record (now {})",
            flag_size(report.subbuf_bytes)
        ),
        Reason::Nested => format!(
            "A thread was interrupted, preempted or killed within a record while others filled all \
             of the CPU's buffers. Use {larger}; if it has many signal handlers, let fewer nest"
        ),
        Reason::NoStream => "A CPU was added while it was recorded; record again".to_owned(),
        Reason::NotRun => "Please report this, with the output of `strata doctor`".to_owned(),
        Reason::Unmapped => format!(
            "Raise its address space limit (ulimit -v), or use --subbuf-size={}; a program \
             that shuts itself in (seccomp) is recorded when it is started by strata record",
            flag_size((report.subbuf_bytes / 4).max(4096))
        ),
        Reason::Unstaged => {
            "Raise its memory limit, or trace shorter arrays and strings".to_owned()
        }
        Reason::NoClock => "Its thread has forbidden itself to read the CPU's counter (seccomp \
                            strict mode, or PR_TSC_SIGSEGV), and is recorded until then only"
            .to_owned(),
        Reason::Unwritten => UNWRITTEN.to_owned(),
    }
}

/// What a process wrote and is not in the trace, by reason, and what helps.
pub(super) fn of(process: &ProcessReport, report: &Report) -> Vec<Message> {
    let (counts, discarded) = (&process.counts, &process.counts.discarded);
    let larger = larger(report.subbuf_bytes, report.nr_subbufs);
    let mut messages = Vec::new();
    for (reason, number) in discarded.each().filter(|(_, number)| *number > 0) {
        let place = match reason {
            Reason::Full => cpus(counts),
            _ => String::new(),
        };
        messages.push(warning(format!(
            "{}: {} discarded ({}){place}. {}.",
            who(process),
            counted(number, "event record"),
            reason.name(),
            advice(reason, report, &larger),
        )));
    }
    if counts.overwritten > 0 {
        messages.push(talk(format!(
            "{}: {} overwritten (the oldest go first). For a longer past use {larger}.",
            who(process),
            counted(counts.overwritten, "event record"),
        )));
    }
    // Where there are none nothing is absent: who is killed within a record has not recorded it.
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
            "{}: {} of it found no room in its control page, {} did. Load fewer instrumented libraries \
             in one process.",
            who(process),
            counted(process.refused, "tracepoint"),
            count(process.tracepoints),
        )));
    }
    messages
}
