//! What is said of records that are not in the trace: how many, why, and what helps.

use strata_session::options::Mode;
use strata_session::report::{Counts, ProcessReport, Report};

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
pub(super) fn full(mode: Mode, larger: &str) -> String {
    match mode {
        Mode::Discard => format!("Use {larger} or --mode=overwrite"),
        Mode::Overwrite => format!("Use {larger}"),
    }
}

/// On how many CPUs records were discarded.
pub(super) fn cpus(counts: &Counts) -> String {
    match counts.streams_discarding {
        0 => String::new(),
        some => format!(" on {some} of {}", counted(counts.streams.into(), "CPU")),
    }
}

/// Why records are in no file, and what helps.
pub(super) const UNWRITTEN: (&str, &str) =
    ("not written to a file", "The recording was stopped, as said above, before they could be");

/// What a process wrote and is not in the trace, by reason, and what helps.
pub(super) fn of(process: &ProcessReport, report: &Report) -> Vec<Message> {
    let (counts, discarded) = (&process.counts, &process.counts.discarded);
    let larger = larger(report.subbuf_bytes, report.nr_subbufs);
    let mut messages = Vec::new();
    let mut say = |number: u64, reason: &str, place: String, advice: String| {
        if number > 0 {
            messages.push(warning(format!(
                "{}: {} discarded ({reason}){place}. {advice}.",
                who(process),
                counted(number, "event record"),
            )));
        }
    };
    say(discarded.full, "full", cpus(counts), full(report.mode, &larger));
    say(
        discarded.too_big,
        "too big",
        String::new(),
        format!(
            "Use a --subbuf-size larger than its largest event record (now {})",
            flag_size(report.subbuf_bytes)
        ),
    );
    say(
        discarded.nested,
        "nested too deep",
        String::new(),
        "Its signal handlers interrupt each other deeper than Strata follows; \
         let fewer signals nest"
            .to_owned(),
    );
    say(
        discarded.no_stream,
        "CPU without a stream",
        String::new(),
        "A CPU was added while it was recorded; record again".to_owned(),
    );
    say(
        discarded.unmapped,
        "buffers not mapped",
        String::new(),
        format!(
            "Raise its address space limit (ulimit -v), or use --subbuf-size={}; a program \
             that shuts itself in (seccomp) is recorded when it is started by strata record",
            flag_size((report.subbuf_bytes / 4).max(4096))
        ),
    );
    say(
        discarded.unstaged,
        "no memory for the record",
        String::new(),
        "Raise its memory limit, or trace shorter arrays and strings".to_owned(),
    );
    say(
        discarded.no_clock,
        "no clock",
        String::new(),
        "Its thread has forbidden itself to read the CPU's counter (seccomp strict mode, or \
         PR_TSC_SIGSEGV), and is recorded until then only"
            .to_owned(),
    );
    say(discarded.unwritten, UNWRITTEN.0, String::new(), UNWRITTEN.1.to_owned());
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
