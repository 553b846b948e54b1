//! Every message as it is read, and every exit status.

use std::path::PathBuf;
use std::time::Duration;

use strata_session::listing::{ListedProcess, Listing};
use strata_session::report::{Buffers, Demand, Discarded, LossMode, RuleReport, StreamLoss};

use super::*;
use strata_session::report::{EventProblem, KernelReport, KernelRuleReport, NoKernel};

fn process(name: &str, pid: u32, records: u64) -> ProcessReport {
    ProcessReport {
        pid,
        name: name.to_owned(),
        folder: Some(PathBuf::from(format!("trace/user/{name}-{pid}"))),
        tracepoints: 3,
        selected: 2,
        counts: Counts {
            records,
            packets: 14,
            bytes: 14_903_412,
            span: Some((1_000_000_000, 2_998_000_000)),
            streams: 8,
            ..Counts::default()
        },
        ..ProcessReport::default()
    }
}

fn layer(layer: &'static str, subbuf_bytes: u64, processes: Vec<ProcessReport>) -> LayerReport {
    let buffers = Buffers { subbuf_bytes, nr_subbufs: 8, ..Buffers::default() };
    LayerReport { layer, buffers, processes, ..LayerReport::default() }
}

fn report(processes: Vec<ProcessReport>) -> Report {
    Report {
        output: Some(PathBuf::from("my trace")),
        elapsed: Duration::from_millis(2_030),
        layers: vec![layer("user", 512 << 10, processes)],
        rules: vec![RuleReport { rule: "demo:*".into(), matched: 2, similar: Vec::new() }],
        ..Report::default()
    }
}

fn texts(report: &Report) -> Vec<String> {
    summary(report).into_iter().map(|message| message.text).collect()
}

/// The only message of the summary that has `part`.
fn text_with(report: &Report, part: &str) -> String {
    let texts: Vec<String> = texts(report).into_iter().filter(|text| text.contains(part)).collect();
    assert_eq!(texts.len(), 1, "{part}: {texts:?}");
    texts[0].clone()
}

#[test]
fn summary_of_a_good_recording_is_a_headline_a_table_and_the_next_command() {
    let report = report(vec![process("demo", 4242, 1_204_331), process("x", 7, 0)]);
    assert_eq!(
        texts(&report),
        [
            "1,204,331 event records of 2 processes in 2.030 s: 'my trace' (28.4 MiB)",
            concat!(
                "  layer  process        records      size  packets     span  discarded\n",
                "  user   demo (4242)  1,204,331  14.2 MiB       14  1.998 s          0\n",
                "  user   x (7)                0  14.2 MiB       14  1.998 s          0\n",
                "  user   2 processes  1,204,331  28.4 MiB       28  1.998 s          0"
            ),
        ]
    );
    assert_eq!(
        next_command(&report).unwrap(),
        "Next: strata view 'my trace'; where the time went: strata analyze summary 'my trace'"
    );
    assert_eq!(exit_status(&report, true), 0);
}

#[test]
fn summary_of_many_processes_shows_the_largest_and_counts_the_others() {
    let processes = (1..=30).map(|pid| process("p", pid, pid.into())).collect();
    let table = text_with(&report(processes), "layer");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 1 + PROCESSES_SHOWN + 2);
    assert!(lines[1].contains("p (30)"), "{table}");
    assert!(lines[21].contains("10 others") && lines[21].contains("  55  "), "{table}");
    assert!(lines[22].contains("30 processes") && lines[22].contains("  465  "), "{table}");
}

#[test]
fn loss_by_each_reason_is_reported_with_what_helps() {
    let mut one = process("demo", 4242, 10);
    one.counts.discarded = Discarded {
        full: 18_204,
        too_big: 1,
        nested: 2,
        no_stream: 3,
        not_run: 0,
        unmapped: 4,
        unstaged: 5,
        no_clock: 7,
        unwritten: 6,
    };
    one.counts.streams_discarding = 3;
    one.counts.overwritten = 77;
    let mut report = report(vec![one]);
    assert_eq!(
        text_with(&report, "(full)"),
        "demo (4242): 18,204 event records discarded (full) on 3 of 8 CPUs. \
         Use --subbuf-size=2M (now 512K) or --mode=overwrite."
    );
    assert_eq!(
        text_with(&report, "too big"),
        "demo (4242): 1 event record discarded (too big). Use a --subbuf-size larger than its \
         largest event record (now 512K)."
    );
    assert!(text_with(&report, "sub-buffer still being written").contains("2 event records"));
    assert!(text_with(&report, "CPU without a stream").contains("record again"));
    assert_eq!(
        text_with(&report, "not written"),
        "demo (4242): 6 event records discarded (not written to a file). There was no room for them, or the recording was stopped, \
         as said above, before they could be."
    );
    assert!(text_with(&report, "buffers not mapped").contains("or use --subbuf-size=128K"));
    assert!(text_with(&report, "no memory for the record").contains("5 event records"));
    assert!(text_with(&report, "no clock").contains("7 event records"));
    assert!(text_with(&report, "77 event records overwritten").contains("For a longer past"));
    assert!(text_with(&report, "layer").contains("18,232           77"));
    assert_eq!((exit_status(&report, false), exit_status(&report, true)), (0, 1));

    let buffers = &mut report.layers[0].buffers;
    (buffers.mode, buffers.subbuf_bytes) = (LossMode::Overwrite, 64 << 20);
    assert!(text_with(&report, "(full)").ends_with("CPUs. Use --num-subbuf=16 (now 8)."));
}

#[test]
fn loss_is_reported_with_its_cpus_its_times_and_the_sizes_that_would_have_held_it() {
    let mut one = process("demo", 4242, 10);
    one.counts.discarded.full = 1_203;
    one.counts.demand = Demand { bytes: 20 << 20, late_ns: 230_000_000 };
    one.counts.streams_discarding = 2;
    for (cpu, full, times) in [(0, 3, (1_000_000, 6_000_000)), (3, 1_200, (5_000_000, 9_000_000))] {
        let discarded = Discarded { full, ..Discarded::default() };
        let mut losses = StreamLoss { cpu, discarded, ..StreamLoss::default() };
        losses.times.grow(&Discarded::default(), &discarded, times);
        one.losses.push(losses);
    }
    let mut of = report(vec![one.clone()]);
    of.wall_ns = 500_000_000;
    assert_eq!(
        text_with(&of, "(full)"),
        format!(
            "demo (4242): 1,203 event records discarded (full) on 2 of 8 CPUs: 1,200 on CPU 3, 3 on CPU 0, {}. Use \
             --subbuf-size=4M (now 512K) (an estimate: 20.0 MiB came for one CPU within 230.000 ms, in which not all was \
             taken) or --mode=overwrite.",
            span_text(501_000_000, 509_000_000)
        )
    );
    assert!(span_text(501_000_000, 509_000_000).ends_with(".509"));
    // More than buffers are to hold.
    of.layers[0].processes[0].counts.demand.bytes = 1 << 40;
    assert!(
        text_with(&of, "(full)").contains("Use rules or a --filter that select less (no buffers")
    );
}

#[test]
fn process_that_was_reached_late_is_talk_and_is_1_if_strict_only() {
    let mut one = process("demo", 1, 10);
    one.late_ns = Some(1_500_000_000);
    let of = report(vec![one]);
    assert_eq!(
        text_with(&of, "reached"),
        "demo (1): reached 1.500 s after its start or the request, and recorded from then on."
    );
    assert_eq!((exit_status(&of, false), exit_status(&of, true)), (0, 1));
}

#[test]
fn process_with_two_traces_is_one_and_none_of_it_is_absent() {
    let part = |pid, is_part, folder: bool| {
        let mut one = process("demo", pid, 10);
        (one.memory, one.is_part) = (77, is_part);
        one.folder = one.folder.filter(|_| folder);
        one
    };
    let of = report(vec![part(4, true, true), part(4, false, false), process("x", 9, 1)]);
    let texts = texts(&of);
    assert!(texts[0].contains("21 event records of 2 processes in"), "{texts:?}");
    assert!(texts[1].contains("user   2 processes"), "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains("not in the trace")), "{texts:?}");
}

#[test]
fn process_that_was_given_up_or_had_no_room_is_reported_and_is_1() {
    let mut one = process("bad\x1b[2J", 1, 10);
    one.problem = Some("its buffers were overwritten by itself".into());
    let given_up = report(vec![one]);
    assert_eq!(
        text_with(&given_up, "by itself"),
        "bad\\u{1b}[2J (1): its buffers were overwritten by itself."
    );
    assert_eq!(exit_status(&given_up, false), 1);

    let mut one = process("bad", 2, 0);
    (one.folder, one.set_aside) = (None, Some("t/user/bad-2".into()));
    one.problem = Some("its shared memory is damaged".into());
    one.warnings = vec!["tracepoint a:b stays off".into()];
    let damaged = report(vec![process("good", 1, 10), one]);
    assert_eq!(
        text_with(&damaged, "is damaged"),
        "bad (2): its shared memory is damaged. It is not in the trace; what it wrote is kept in \
         t/user/bad-2, with metadata.damaged."
    );
    assert_eq!(text_with(&damaged, "stays off"), "bad (2): tracepoint a:b stays off.");
    assert_eq!(exit_status(&damaged, false), 1);

    let mut one = process("unpatched", 1, 10);
    one.warnings = vec!["tracepoint a:b stays off".into()];
    assert_eq!(exit_status(&report(vec![one]), false), 1);

    let mut one = process("big", 1, 10);
    one.refused = 12;
    let no_room = report(vec![one]);
    assert!(text_with(&no_room, "12 tracepoints").contains("3 did"));
    assert_eq!(exit_status(&no_room, false), 1);

    let mut one = process("torn", 1, 10);
    one.counts.damaged_packets = 1;
    let damaged = report(vec![one]);
    assert_eq!(
        text_with(&damaged, "well formed"),
        "torn (1): 1 packet not well formed. Skipped; 14 are intact."
    );
    assert_eq!(exit_status(&damaged, false), 1);
}

#[test]
fn records_behind_a_hole_are_reported_and_are_1_if_strict() {
    let mut one = process("demo", 1, 10);
    one.counts.unpublished_bytes = 24;
    assert_eq!(texts(&report(vec![one.clone()])).len(), 2, "a hole alone is nothing");
    one.counts.unread_records = 3;
    let killed = report(vec![one.clone()]);
    assert_eq!(
        text_with(&killed, "killed"),
        "demo (1): killed while up to 24 bytes were being written; 3 event records behind them could \
         not be read."
    );
    assert_eq!((exit_status(&killed, false), exit_status(&killed, true)), (0, 1));
    one.is_alive = true;
    text_with(&report(vec![one]), "a thread stood still while");
}

#[test]
fn nothing_recorded_since_all_was_discarded_does_not_say_that_nothing_came() {
    let mut one = process("demo", 1, 0);
    one.counts.discarded.unmapped = 17_216;
    let report = report(vec![one]);
    assert!(text_with(&report, "nothing recorded").ends_with("were discarded; see above."));
}

#[test]
fn rule_that_matched_nothing_is_reported_and_is_1() {
    let mut report = report(vec![process("demo", 1, 10)]);
    report.rules.push(RuleReport { rule: "foo:*".into(), matched: 0, similar: Vec::new() });
    assert_eq!(
        text_with(&report, "foo"),
        "event rule 'foo:*': matched no tracepoint. `strata list` shows those of running \
         applications."
    );
    report.rules[1].similar = vec!["food:*".into(), "\u{1b}f:x".into()];
    let text = text_with(&report, "foo");
    assert!(text.contains("'foo:*': matched no tracepoint. Similar: 'food:*', '"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    assert_eq!(exit_status(&report, false), 1);
}

#[test]
fn process_that_was_not_reached_is_reported_and_is_1() {
    let mut report = report(vec![process("demo", 1, 10)]);
    let unreached = |pid, name: &str, reason: &str| NotReached {
        pid,
        name: name.into(),
        reason: reason.into(),
    };
    report.not_reached = vec![
        unreached(17, "sshd", "of another user. Run as root."),
        unreached(18, "", "process 18: is not there"),
        unreached(0, "", "sent no memfd"),
    ];
    assert_eq!(
        text_with(&report, "another user"),
        "not reached: sshd (17): of another user. Run as root."
    );
    assert_eq!(text_with(&report, "18"), "not reached: process 18: is not there.");
    assert_eq!(text_with(&report, "memfd"), "not reached: a process: sent no memfd.");
    assert_eq!(exit_status(&report, false), 1);

    report.not_reached = (0..50).map(|pid| unreached(pid, &format!("p{pid}"), "why")).collect();
    assert_eq!(text_with(&report, "more such"), "and 30 more such processes.");
}

/// A script that starts twenty programs is one line.
#[test]
fn many_processes_of_a_name_of_which_the_same_is_reported_are_one_line() {
    let mut report = report((1..=20).map(|pid| process("child", pid, 10)).collect());
    report.layers[0].processes.iter_mut().for_each(|one| one.warnings = vec!["late".into()]);
    assert_eq!(
        text_with(&report, "late"),
        "20 processes of 'child' (1, 2, 3, 4, 5, 15 more): late."
    );
    let unreached =
        |pid, reason: &str| NotReached { pid, name: "child".into(), reason: reason.into() };
    report.not_reached = vec![unreached(7, "why"), unreached(8, "why"), unreached(9, "other")];
    assert_eq!(text_with(&report, "why"), "not reached: 2 processes of 'child' (7, 8): why.");
    assert_eq!(text_with(&report, "other"), "not reached: child (9): other.");
}

#[test]
fn nothing_recorded_says_why_and_is_1() {
    let mut none = report(Vec::new());
    none.output = None;
    assert_eq!(texts(&none)[0], "nothing recorded in 2.030 s; there is no trace");
    assert!(text_with(&none, "no running process has tracepoints, or none")
        .contains("strata record -- COMMAND"));
    assert_eq!((exit_status(&none, false), next_command(&none)), (1, None));
    none.asked = RecordingTarget::Command;
    none.command = Some(CommandEnd::Exited(0));
    assert!(text_with(&none, "neither the command").contains("libstrata"));
    assert_eq!(exit_status(&none, false), 1);

    let mut empty = process("demo", 1, 0);
    (empty.tracepoints, empty.selected, empty.folder) = (0, 0, None);
    assert!(text_with(&report(vec![empty.clone()]), "without a tracepoint").contains("1 process"));

    empty.tracepoints = 5;
    let mut unselected = report(vec![empty.clone()]);
    unselected.rules[0].matched = 0;
    assert!(text_with(&unselected, "no rule selects").ends_with("one of 5 tracepoints."));

    empty.selected = 2;
    let mut on = report(vec![empty]);
    assert!(text_with(&on, "2 tracepoints were enabled").contains("reached none"));
    // Functions of libc, all of which a program can do without.
    let mut of_libc = report(vec![on.layers[0].processes[0].clone()]);
    of_libc.rules.truncate(1);
    of_libc.rules[0].rule = "io:*".into();
    let text = text_with(&of_libc, "2 tracepoints were enabled");
    assert!(text.contains("none of libc's functions") && text.contains("-k syscalls"), "{text}");
    let reason = "its own malloc()".to_owned();
    of_libc.unpreloaded.push(NotReached { pid: 1, name: "demo".into(), reason });
    let text = text_with(&of_libc, "2 tracepoints were enabled");
    assert!(text.ends_with("See above for what was not reached."), "{text}");
    of_libc.rules[0].rule = "shop:*".into();
    assert!(text_with(&of_libc, "2 tracepoints were enabled").contains("reached none"));
    // Whether they came by it is not known then.
    on.layers[0].is_filtered = true;
    let filtered = text_with(&on, "2 tracepoints were enabled");
    assert!(
        filtered.ends_with("enabled, and nothing happened that the filter selects."),
        "{filtered}"
    );
    on.layers[0].processes[0].selected = 1;
    assert!(text_with(&on, "the filter selects").contains("1 tracepoint was enabled, and nothing"));
}

#[test]
fn nothing_recorded_of_unreached_processes_does_not_say_that_there_are_none() {
    let mut none = report(Vec::new());
    none.output = None;
    none.asked = RecordingTarget::Processes;
    none.not_reached.push(NotReached { pid: 5, name: "a".into(), reason: "why".into() });
    assert!(text_with(&none, "nothing recorded: ").ends_with("no process was reached."));
}

#[test]
fn flight_recorder_counts_whom_it_recorded_and_misses_nobody_in_a_trace() {
    let held = |pid| ProcessReport { folder: None, selected: 2, ..process("held", pid, 10) };
    let mut flight = report(vec![held(1), held(2)]);
    (flight.output, flight.snapshots) = (None, Some(0));
    let said = texts(&flight);
    assert_eq!(said[0], "flight recorder of 2 processes ended after 2.030 s: 0 snapshots saved");
    assert!(!said.iter().any(|text| text.contains("not in the trace")), "{said:?}");
}

#[test]
fn process_that_is_not_in_the_trace_is_reported_with_why() {
    let quiet = |pid, selected| ProcessReport { folder: None, selected, ..process("q", pid, 0) };
    let mut processes = vec![process("demo", 1, 10), quiet(2, 0)];
    processes.extend((10..17).map(|pid| quiet(pid, 1)));
    let mut report = report(processes);
    assert_eq!(
        text_with(&report, "came by"),
        "not in the trace, came by no tracepoint that was on: q (10), q (11), q (12), q (13), \
         q (14), 2 more."
    );
    report.layers[0].is_filtered = true;
    let text = text_with(&report, "the filter selects: q (10)");
    assert!(text.starts_with("not in the trace, nothing happened in it that the filter"), "{text}");
    assert_eq!(
        text_with(&report, "no rule selects"),
        "not in the trace, no rule selects a tracepoint: q (2)."
    );
    assert_eq!(exit_status(&report, true), 0);
}

#[test]
fn failure_with_causes_says_each_once() {
    let inner = std::io::Error::other("inner");
    let error = anyhow::Error::new(inner).context("outer: inner").context("all");
    assert_eq!(failure_line(error.chain()), "all: outer: inner");
}

#[test]
fn failure_of_the_recording_is_reported_and_is_2_whatever_the_command_did() {
    let mut report = report(vec![process("demo", 1, 10)]);
    report.failure = Some("cannot write 'x': No space left on device. Make room.".into());
    report.end = EndReason::Failure;
    report.command = Some(CommandEnd::Exited(3));
    assert_eq!(
        text_with(&report, "No space"),
        "recording stopped: cannot write 'x': No space left on device. Make room. What was \
         recorded until then is kept and can be read."
    );
    assert_eq!(summary(&report)[2].weight, Weight::Failure);
    assert_eq!(exit_status(&report, false), 2);
    report.output = None;
    assert!(text_with(&report, "No space").ends_with("Make room."));
    assert_eq!(texts(&report)[0], "10 event records in 2.030 s, and the trace is gone");
    assert_eq!(next_command(&report), None);
}

#[test]
fn command_s_own_status_is_passed_on_before_ours() {
    let mut report = report(Vec::new());
    for (end, status, part) in [
        (CommandEnd::Exited(0), 1, None),
        (CommandEnd::Exited(42), 42, Some("status 42")),
        (CommandEnd::Exited(255), 255, Some("status 255")),
        (CommandEnd::Signalled(9), 137, Some("signal 9")),
        (CommandEnd::Signalled(15), 143, Some("signal 15")),
    ] {
        report.command = Some(end);
        assert_eq!(exit_status(&report, false), status, "{end:?}");
        if let Some(part) = part {
            text_with(&report, part);
        }
    }
}

#[test]
fn command_that_runs_on_is_reported_and_gives_the_signal_or_ours() {
    let mut report = report(vec![process("demo", 1, 10)]);
    report.command = Some(CommandEnd::Running { pid: 99 });
    report.end = EndReason::Duration;
    assert_eq!(
        text_with(&report, "process 99"),
        "the time is over; the command (process 99) runs on."
    );
    assert_eq!(exit_status(&report, false), 0);
    report.end = EndReason::Asked(Some(2));
    assert!(text_with(&report, "process 99").starts_with("recording has stopped"));
    assert_eq!(exit_status(&report, false), 130);
}

#[test]
fn recording_that_reached_its_size_says_so_and_is_no_failure() {
    let mut report = report(vec![process("demo", 1, 10)]);
    report.end = EndReason::Size { max_bytes: 10 << 20 };
    report.command = Some(CommandEnd::Running { pid: 99 });
    assert_eq!(
        text_with(&report, "--max-size"),
        "recording ended: the trace has reached --max-size=10M."
    );
    assert!(text_with(&report, "process 99").ends_with("runs on."));
    assert_eq!(exit_status(&report, true), 0);
}

#[test]
fn processes_found_by_name_are_reported_and_many_are_counted() {
    assert_eq!(found_by_name(&[(None, 7), (None, 8)]), None);
    let found = [(Some("nginx"), 3), (Some("nginx"), 5), (None, 7), (Some("a\x1b"), 9)];
    assert_eq!(
        found_by_name(&found).unwrap(),
        "--pid=nginx: 2 processes: 3, 5; --pid=a\\u{1b}: 1 process: 9"
    );
    let many: Vec<_> = (1..=30).map(|pid| (Some("x"), pid)).collect();
    assert!(found_by_name(&many).unwrap().ends_with("19, 20, 10 more"));
}

#[test]
fn descendants_that_run_on_are_reported_with_the_next_command() {
    let processes = [process("demo", 1, 10), process("daemon", 7, 10), process("worker", 8, 5)];
    let mut report = report(processes.to_vec());
    report.command = Some(CommandEnd::Exited(0));
    report.left_running = vec![7];
    assert_eq!(
        text_with(&report, "run"),
        "daemon (7) runs on and is no longer recorded: recording ends with the command, unless \
         --wait-descendants is given. To go on: strata record -p 7"
    );
    report.left_running = vec![7, 8];
    assert!(text_with(&report, "run on and are").ends_with("strata record -p 7,8"));
    assert!(text_with(&report, "run on and are").starts_with("daemon (7), worker (8) run on"));
    report.left_running = (1..=7).collect();
    assert!(text_with(&report, "run on and are").contains("process 5, 2 more run on"));
    // The command has ended, and was recorded to its end.
    assert_eq!(exit_status(&report, false), 0);
}

#[test]
fn remark_of_the_session_is_reported_at_the_end() {
    let mut report = report(vec![process("demo", 1, 10)]);
    report.remarks.push("clock: by system call".into());
    assert_eq!(texts(&report).last().unwrap(), "clock: by system call");
    assert_eq!(exit_status(&report, true), 0);
}

#[test]
fn progress_line_has_time_rate_size_and_losses() {
    let mut state = Progress {
        elapsed: Duration::from_secs(67),
        records: 1,
        bytes: 3 << 20,
        memory: 0,
        processes: Some(2),
        ..Progress::default()
    };
    assert_eq!(
        progress(&state, 1_234_567.0),
        "1:07  1.23 M events/s  3.0 MiB  2 processes  0 discarded"
    );
    state.elapsed = Duration::from_secs(3_723);
    (state.discarded, state.overwritten) = (1_000, 2_000);
    assert_eq!(
        progress(&state, 0.0),
        "1:02:03  0 events/s  3.0 MiB  2 processes  1,000 discarded  2,000 overwritten"
    );
    (state.processes, state.overwritten) = (None, 0);
    assert_eq!(progress(&state, 0.0), "1:02:03  0 events/s  3.0 MiB  1,000 discarded");
}

#[test]
fn notice_of_each_kind_is_reported_or_drawn() {
    let output = PathBuf::from("out");
    let started = |command, processes, events| {
        let output = output.clone();
        let (memory, max_memory) = (3 << 20, None);
        notice(&Notice::Started {
            output: Some(output),
            relay: None,
            remote: None,
            command,
            processes,
            events,
            memory,
            max_memory,
        })
        .unwrap()
    };
    assert_eq!(started(Some(5), 0, None), "recording command 5 to out");
    let limited = |relay: Option<&str>| Notice::Started {
        output: None,
        relay: relay.map(str::to_owned),
        remote: None,
        command: None,
        processes: 2,
        events: None,
        memory: 3 << 20,
        max_memory: Some(1 << 30),
    };
    assert_eq!(
        notice(&limited(None)).unwrap(),
        "recording 2 processes to memory, which `strata snapshot` saves; Ctrl-C stops. Buffers take 3.0 MiB, \
         and at most 1.0 GiB"
    );
    let relayed = notice(&limited(Some("/dev/vport1p1"))).unwrap();
    let to_host = "recording 2 processes to the host's recorder, by /dev/vport1p1; Ctrl-C stops.";
    assert!(relayed.starts_with(to_host), "{relayed}");
    assert!(started(None, 0, None).contains("no process has tracepoints yet"));
    assert_eq!(started(None, 3, None), "recording 3 processes to out; Ctrl-C stops");
    assert_eq!(started(Some(5), 1, Some(9)), "recording command 5 and 9 kernel events to out");
    assert_eq!(started(None, 0, Some(1)), "recording 1 kernel event to out; Ctrl-C stops");
    assert_eq!(
        started(None, 2, Some(9)),
        "recording 2 processes and 9 kernel events to out; Ctrl-C stops"
    );
    assert_eq!(notice(&Notice::Attaching { attached: 1, total: 2 }), None);
    let told = Notice::Attaching { attached: 312, total: 500 };
    let text = doing(Doing::Beginning(&told), Duration::from_secs(7));
    assert_eq!(text, "0:07  attaching 312 of 500 events");
    let text = stopping(Doing::Beginning(&told));
    assert_eq!(text, "stopping, when this step ends: attaching 312 of 500 events");
    let told = Notice::Admitting { pid: 17, admitted: 3, total: 9 };
    let text = doing(Doing::Beginning(&told), Duration::from_secs(61));
    assert_eq!(text, "1:01  attaching to process 17, 3 of 9 processes done");
    assert_eq!(stopping(Doing::Writing), "stopping: writing what is in the buffers");
    let waiting = |passed_on| notice(&Notice::WaitingForCommand { pid: 5, passed_on }).unwrap();
    assert!(waiting(None).contains("the command (process 5) to end."));
    assert!(waiting(Some(Ok(15))).contains("(process 5), which got signal 15, too, to end."));
    let refused = waiting(Some(Err("Operation not permitted".into())));
    assert!(refused.contains("(process 5), which could not be told (Operation"), "{refused}");
    assert_eq!(
        notice(&Notice::Failed { why: "disk full".into(), command: 5 }).unwrap(),
        "recording stopped: disk full. Waiting for the command (process 5) to end"
    );
    assert_eq!(notice(&Notice::Progress(Progress::default())), None);
}

#[test]
fn list_of_nothing_says_how_to_begin() {
    let mut listing = Listing::default();
    assert!(list_remarks(&listing)[0].contains("strata record -- COMMAND"));
    listing.processes.push(ListedProcess { pid: 1, name: "a".into(), tracepoints: Vec::new() });
    assert_eq!(list_remarks(&listing), Vec::<String>::new());
    listing.not_reached.push(NotReached { pid: 2, name: "b".into(), reason: "why".into() });
    assert_eq!(list_remarks(&listing), ["not reached: b (2): why."]);
}

/// A report of the kernel's layer alone.
fn kernel_report(records: u64) -> Report {
    let mut kernel = process("kernel", 0, records);
    (kernel.tracepoints, kernel.selected) = (350, 349);
    kernel.counts.streams = 2;
    let rule =
        |rule: &str| KernelRuleReport { rule: rule.into(), matched: 7, ..Default::default() };
    Report {
        layers: vec![layer(KERNEL, 256 << 10, vec![kernel])],
        rules: Vec::new(),
        kernel: Some(KernelReport { rules: vec![rule("sched_*")], ..KernelReport::default() }),
        ..report(Vec::new())
    }
}

#[test]
fn summary_of_the_kernel_alone_says_nothing_of_applications() {
    let report = kernel_report(1_000);
    assert_eq!(
        texts(&report),
        [
            "1,000 event records of the kernel in 2.030 s: 'my trace' (14.2 MiB)",
            concat!(
                "  layer   process  records      size  packets     span  discarded\n",
                "  kernel  all        1,000  14.2 MiB       14  1.998 s          0"
            ),
        ]
    );
    assert_eq!(exit_status(&report, true), 0);
}

#[test]
fn summary_of_both_layers_has_one_table() {
    let mut both = kernel_report(1_000);
    both.layers.insert(0, layer(USER, 1 << 20, vec![process("demo", 4, 10)]));
    let texts = texts(&both);
    assert!(
        texts[0].starts_with("1,010 event records of the kernel and 1 process in"),
        "{texts:?}"
    );
    let lines: Vec<&str> = texts[1].lines().collect();
    assert!(lines[1].contains("demo (4)") && lines[2].contains("kernel  all"), "{lines:?}");
    assert_eq!((lines.len(), texts.len(), exit_status(&both, true)), (3, 2, 0));

    both.layers[0].processes.clear();
    both.asked = RecordingTarget::Command;
    let text = text_with(&both, "nothing recorded");
    assert!(text.starts_with("nothing recorded of applications: neither the command"), "{text}");
    assert_eq!(exit_status(&both, false), 1);
}

#[test]
fn rows_of_several_channels_of_a_layer_have_their_names() {
    let mut report = kernel_report(1_000);
    let mut other = report.layers[0].clone();
    report.layers[0].channel = "channel0".into();
    other.channel = "fast".into();
    let user = LayerReport {
        channel: "channel0".into(),
        ..layer(USER, 1 << 20, vec![process("demo", 4, 10)])
    };
    report.layers.extend([other, user]);
    let texts = texts(&report);
    let firsts: Vec<&str> =
        texts[1].lines().map(|line| line.get(2..23).unwrap_or_default().trim_end()).collect();
    assert_eq!(
        firsts,
        [
            "layer            proc",
            "kernel channel0  all",
            "kernel fast      all",
            "user             demo"
        ],
        "{texts:?}"
    );
}

#[test]
fn kernel_by_default_without_tracepoints_is_no_fault() {
    let mut report = kernel_report(1_000);
    report.kernel = Some(KernelReport { is_default: true, ..KernelReport::default() });
    report.layers.insert(0, layer(USER, 1 << 20, Vec::new()));
    report.rules = vec![RuleReport { rule: "*:*".into(), matched: 0, similar: Vec::new() }];
    report.asked = RecordingTarget::Command;
    let said = summary(&report);
    assert!(said.iter().all(|message| message.weight == Weight::Talk), "{said:?}");
    assert!(said[0].text.starts_with("1,000 event records of the kernel in"), "{said:?}");
    let next = next_command(&report).unwrap();
    let wanted = "; as a picture: strata ui 'my trace'; where the time went: strata \
                  analyze summary 'my trace'";
    assert!(next.ends_with(wanted), "{next}");
    let text = text_with(&report, "tracepoints");
    assert!(text.starts_with("the command has no tracepoints of its own"), "{text}");
    assert_eq!(exit_status(&report, true), 0);

    let mut silent = process("demo", 4, 0);
    silent.folder = None;
    report.layers[0].processes.push(silent);
    let text = text_with(&report, "of applications nothing");
    assert!(text.ends_with("2 tracepoints were enabled, and the program reached none of them."));
    assert_eq!(exit_status(&report, false), 0);

    report.kernel.as_mut().unwrap().problems =
        vec![EventProblem { event: "a".into(), reason: "no room".into() }];
    assert!(text_with(&report, "'a'").ends_with("no room."));
    assert_eq!(exit_status(&report, false), 0);
    report.not_reached = vec![NotReached { pid: 9, name: "x".into(), reason: "it is busy".into() }];
    assert_eq!(exit_status(&report, false), 1);
}

#[test]
fn kernel_that_is_not_recorded_by_default_is_one_line_and_no_fault() {
    let mut report = report(vec![process("demo", 4242, 10)]);
    let mut reason = NoKernel { why: "only root may".into(), is_failure: false };
    report.asked = RecordingTarget::Command;
    report.no_kernel = Some(reason.clone());
    let text = "kernel not recorded: only root may. `strata doctor` says more.";
    assert_eq!(text_with(&report, "kernel"), text);
    assert!(summary(&report).iter().all(|message| message.weight == Weight::Talk));
    assert_eq!(exit_status(&report, true), 0);
    assert_eq!(notice(&Notice::NoKernel(reason.clone())), Some(text.to_owned()));
    reason.is_failure = true;
    assert_eq!(weight_of_no_kernel(&reason), Weight::Warning);
    // It was said when recording began.
    report.asked = RecordingTarget::Everyone;
    assert!(!texts(&report).iter().any(|text| text.contains("kernel")));
}

#[test]
fn kernel_rule_that_matched_nothing_is_reported_with_what_was_perhaps_meant_and_is_1() {
    let mut report = kernel_report(1_000);
    let kernel = report.kernel.as_mut().unwrap();
    let rule = |rule: &str, similar: &[&str], excluded: Option<&str>| KernelRuleReport {
        rule: rule.into(),
        matched: 0,
        similar: similar.iter().map(|&name| name.to_owned()).collect(),
        excluded: excluded.map(str::to_owned),
    };
    kernel.rules.push(rule("sched_swich", &["sched_switch", "b"], None));
    kernel.rules.push(rule("xyz", &[], None));
    kernel.rules.push(rule("ftrace:*", &[], Some("it is not an event")));
    // It was said when recording began, 2 s ago.
    assert!(!texts(&report).iter().any(|text| text.contains("kernel rule")));
    assert_eq!(exit_status(&report, false), 1);
    report.elapsed = Duration::from_secs(10);
    assert_eq!(
        text_with(&report, "swich"),
        "kernel rule 'sched_swich': matched no event. Similar: 'sched_switch', 'b'."
    );
    assert!(text_with(&report, "xyz").ends_with("`strata list -k` shows all."));
    assert!(text_with(&report, "ftrace").ends_with("matched no event. it is not an event."));
    // Of a probe that cannot be made it is said once.
    let reason = "probe, column 8: /x: No such file or directory".to_owned();
    let kernel = report.kernel.as_mut().unwrap();
    kernel.rules.push(rule("uprobe:/x:f", &[], Some(&reason)));
    kernel.problems.push(EventProblem { event: "uprobe:/x:f".into(), reason });
    let of_probe = texts(&report).into_iter().filter(|text| text.contains("uprobe:/x:f"));
    let of_probe: Vec<String> = of_probe.collect();
    assert_eq!(of_probe.len(), 1, "{of_probe:?}");
    assert!(of_probe[0].starts_with("kernel event 'uprobe:/x:f': not recorded: "), "{of_probe:?}");
    assert_eq!(exit_status(&report, false), 1);
}

#[test]
fn kernel_rules_that_select_nothing_are_named() {
    let rule = |rule: &str, matched: u64, similar: &[&str]| KernelRuleReport {
        rule: rule.into(),
        matched,
        similar: similar.iter().map(|&name| name.to_owned()).collect(),
        excluded: None,
    };
    let last = "nothing to record: the rules for the kernel select no event.";
    assert_eq!(
        nothing_selected(&[rule("redd", 0, &["read"])]),
        ["kernel rule 'redd': matched no event. Similar: 'read'.", last]
    );
    assert_eq!(
        nothing_selected(&[rule("a", 1, &[]), rule("b*", 2, &[]), rule("!*", 9, &[])]),
        ["kernel rules: nothing is left of 'a', 'b*' without '!*'. Leave out less.", last]
    );
    // What is left out is not to blame.
    assert_eq!(
        nothing_selected(&[rule("a", 0, &[]), rule("!b", 1, &[])]),
        ["kernel rule 'a': matched no event. `strata list -k` shows all.", last]
    );
    assert_eq!(
        nothing_selected(&[rule("!*", 9, &[])])[0],
        "kernel rules: nothing is left of every event of the kernel without '!*'. Leave out less."
    );
}

#[test]
fn kernel_losses_are_reported_by_reason_with_what_helps() {
    let mut report = kernel_report(1_000);
    report.layers[0].processes[0].counts.discarded =
        Discarded { full: 5, nested: 1, not_run: 12, unwritten: 7, ..Discarded::default() };
    report.layers[0].processes[0].counts.streams_discarding = 1;
    let kernel = report.kernel.as_mut().unwrap();
    (kernel.unreadable, kernel.uncounted, kernel.cut) = (3, 2, 1);
    assert_eq!(
        text_with(&report, "(full)"),
        "kernel: 5 event records discarded (full) on 1 of 2 CPUs. Use --subbuf-size=512K (now 256K) or \
         --mode=overwrite."
    );
    assert!(text_with(&report, "program already running").starts_with("kernel: 12 event records"));
    assert!(text_with(&report, "sub-buffer still being written").contains("Use --subbuf-size=512K"));
    assert!(text_with(&report, "not written").starts_with("kernel: 7 event records discarded"));
    assert!(text_with(&report, "3 fields could not be read").starts_with("kernel: "));
    assert!(text_with(&report, "2 counters could not be read").contains("recorded as 0"));
    assert!(text_with(&report, "1 text longer")
        .contains("cut after 1,023 bytes. For the arguments of programs, set --argv-bytes"));
    assert_eq!((exit_status(&report, false), exit_status(&report, true)), (0, 1));

    // Those of an old kernel: there are none to be had.
    report.layers[0].buffers.are_largest = true;
    report.layers[0].processes[0].counts.overwritten = 7;
    let part = "rules or a --filter that select less (this kernel holds no larger buffers)";
    assert!(text_with(&report, "(full)").ends_with(&format!("Use {part} or --mode=overwrite.")));
    assert!(text_with(&report, "7 event records overwritten")
        .ends_with(&format!("a longer past use {part}.")));
    assert!(!texts(&report).iter().any(|text| text.contains("--subbuf")), "{:?}", texts(&report));
}

#[test]
fn kernel_event_that_could_not_be_recorded_is_reported_and_is_1() {
    let mut report = kernel_report(1_000);
    let problem =
        |event: &str, reason: &str| EventProblem { event: event.into(), reason: reason.into() };
    let problems = vec![problem("a", "no room"), problem("b", "kernel event x:b: it is odd")];
    report.kernel.as_mut().unwrap().problems = problems;
    assert_eq!(text_with(&report, "'a'"), "kernel event 'a': not recorded: no room.");
    assert_eq!(text_with(&report, "odd"), "kernel event x:b: it is odd.");
    assert_eq!(exit_status(&report, false), 1);

    let problems = (0..9).map(|number| problem(&format!("e{number}"), "no room")).collect();
    report.kernel.as_mut().unwrap().problems = problems;
    assert_eq!(
        text_with(&report, "'e0'"),
        "kernel events 'e0', 'e1', 'e2', 'e3', 'e4', 4 more: not recorded: no room."
    );
}

#[test]
fn nothing_recorded_of_the_kernel_says_why_and_is_1() {
    let mut none = kernel_report(0);
    none.output = None;
    assert!(text_with(&none, "nothing recorded of")
        .ends_with("349 events were enabled, and none of them happened."));
    none.kernel.as_mut().unwrap().is_filtered = true;
    assert!(text_with(&none, "nothing recorded of")
        .ends_with("349 events were enabled, and nothing happened that the filter selects."));
    assert_eq!(exit_status(&none, false), 1);
    none.layers[0].processes[0].selected = 0;
    assert!(text_with(&none, "nothing recorded of").contains("could be switched on"));
    none.layers[0].processes[0].tracepoints = 0;
    assert!(text_with(&none, "nothing recorded of").contains("no rule selects an event"));
}

#[test]
fn folders_above_a_trace_that_are_made_are_reported_by_the_first_of_them() {
    let here = std::env::temp_dir();
    assert_eq!(folders_made(&here.join("strata-no-such-trace")), None);
    assert_eq!(folders_made(std::path::Path::new("t")), None);
    let text = folders_made(&here.join("strata-no-such/b/t")).unwrap();
    let first = here.join("strata-no-such");
    assert_eq!(
        text,
        format!(
            "the folder {} does not exist, and is made for {}",
            first.display(),
            first.join("b/t").display()
        )
    );
}
