//! The command `strata record` in the foreground: runs the session, and prints its messages.
//!
//! ```text
//! flags ── RecordFlags::planned() ── Plan ── strata_session::record(), in the main thread ── Report ── say(), exit status
//!                                                 │ Notice: begun, waiting, failed, progress ...
//!                                                 ▼
//!                         Answer (sessions/busy_line.rs), thread "strata-talk": prints them, answers Ctrl-C with what is waited for
//!                         Live (record/live.rs), a thread: shows events while they are recorded (--live)
//! ```
//!
//! The session does all the recording; nothing here knows a layer. A notice becomes a text in `stderr::messages`, and
//! this file decides whether it is printed now: a command that has the terminal is disturbed only by warnings and by
//! what the user has to wait for, and `--quiet` leaves out all but warnings.
//!
//! Both helper threads give up their rights. Without them the recording works as well, only silently.
//!
//! `strata record --background` is in `sessions.rs`. The exit status is the command's; without one it says whether
//! something was recorded and, with `--strict`, whether anything is missing.
//!
//! All messages go to stderr, and stdout belongs to the command and to `--live`. To change what a recording says,
//! change the text in `stderr::messages`; to change what it does, change `strata_session`.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use strata_session::report::{Notice, Report};
use strata_session::some_are_there;
use strata_session::stop::Stop;

use crate::flags::record_plan::Planned;
use crate::flags::RecordFlags;
use crate::sessions::busy_line::Answer;
use crate::stderr;
use crate::stderr::messages::{self, Message, Weight};
use crate::stderr::progress::ProgressLine;
use crate::stdout;
use live::{Live, Unkept};

mod live;

/// Duration below which a command shows only its own output.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs `strata record`, and returns the exit status.
pub fn run(flags: &RecordFlags) -> Result<u8> {
    let processes = flags.processes()?;
    let pids: Vec<u32> = processes.iter().map(|(_, pid)| *pid).collect();
    some_are_there(&pids)?;
    let named = messages::found_by_name(&processes);
    let Planned { mut plan, may_lack_kernel, hypervisor, no_preload, groups, .. } =
        flags.planned(pids)?;
    let made = plan.output.as_deref().and_then(messages::folders_made);
    let texts = [hypervisor, made, named].into_iter().flatten().chain(groups);
    for text in texts.filter(|_| !flags.quiet) {
        stderr::message(&Message { weight: Weight::Talk, text });
    }
    if let Some(text) = no_preload {
        stderr::message(&Message { weight: Weight::Warning, text });
    }
    let unkept = flags.live.no_output.then(Unkept::new).transpose()?;
    if let Some(unkept) = &unkept {
        plan.output = Some(unkept.trace());
    }
    let (has_command, is_everyone) = (flags.has_command(), plan.transient.everyone);
    let shared = has_command && stdout::is_terminal();
    let line = (!flags.quiet && stderr::is_live() && !flags.live.live)
        .then(|| ProgressLine::new(if shared { PATIENCE } else { Duration::ZERO }));
    let stop = Stop::on_signals()?;
    stop.outlive_others()?;
    let live = Live::open(&flags.live, &stop)?;
    let answer = Answer::new(line, flags.quiet, &stop);
    let mut hear = |notice| {
        answer.hear(&notice);
        if let (Some(live), Notice::Started { output: Some(folder), .. }) = (&live, &notice) {
            live.begin(folder);
        }
        if let Some(text) = messages::notice(&notice) {
            // If the command shares the terminal, print only messages that ask the user to wait.
            let waits =
                matches!(notice, Notice::WaitingForCommand { .. } | Notice::WaitingForDescendants);
            let weight = match notice {
                Notice::Failed { .. } | Notice::LayerFailed { .. } => Weight::Failure,
                Notice::NotRotated { .. } => Weight::Warning,
                // Early enough for the user to stop and correct the command line: the end may be hours away.
                Notice::NoSuchEvent(_) | Notice::Remote(_) => Weight::Warning,
                // Printed at the end instead.
                Notice::NoKernel(_) if has_command && !is_everyone => return,
                Notice::NoKernel(ref reason) => messages::weight_of_no_kernel(reason),
                _ => Weight::Talk,
            };
            if weight != Weight::Talk || ((waits || !shared) && !flags.quiet) {
                answer.say(&Message { weight, text });
            }
        }
    };
    let result = thread::scope(|scope| {
        let talker = || {
            strata_session::give_up_rights();
            answer.run();
        };
        // Without this thread, nobody answers the user while the session is busy, but it still follows requests.
        let _ = thread::Builder::new().name("strata-talk".to_owned()).spawn_scoped(scope, talker);
        let shown = live.as_ref().map(|live| {
            scope.spawn(move || {
                strata_session::give_up_rights();
                live.run()
            })
        });
        let result = strata_session::record(plan, may_lack_kernel, &stop, &mut hear);
        if let Some(live) = &live {
            live.end();
        }
        if let Some(message) = shown.and_then(|shown| shown.join().ok()).flatten() {
            answer.say(&message);
        }
        answer.end();
        result
    });
    // Detaching continues after the end of this program.
    let mut report = result?.report;
    if let Some(text) = ended_meanwhile(&mut report, &processes).filter(|_| !flags.quiet) {
        stderr::message(&Message { weight: Weight::Talk, text });
    }
    say(&report, flags.quiet || unkept.is_some());
    if flags.answer.is_json() {
        let facts = serde_json::json!({ "state": "ended", "report": report.verdict() });
        stdout::json("record", &facts)?;
    }
    Ok(messages::exit_status(&report, flags.strict))
}

/// Takes processes out of those that were not reached that were found by a name and had ended before they were asked, if
/// another of that name was there. Servers end processes all the time; who gives their name means those that there are.
/// Returns a text that names them.
fn ended_meanwhile(report: &mut Report, found: &[(Option<&str>, u32)]) -> Option<String> {
    let is_gone = |pid: u32| report.not_reached.iter().any(|one| one.pid == pid && one.is_gone());
    let mut ended = Vec::new();
    for same in found.chunk_by(|a, b| a.0 == b.0).filter(|same| same[0].0.is_some()) {
        let (gone, there): (Vec<u32>, Vec<u32>) =
            same.iter().map(|(_, pid)| *pid).partition(|pid| is_gone(*pid));
        if !there.is_empty() {
            ended.extend(gone);
        }
    }
    report.not_reached.retain(|one| !(one.is_gone() && ended.contains(&one.pid)));
    messages::ended_meanwhile(&ended)
}

/// Prints the messages at the end of a recording.
pub fn say(report: &Report, quiet: bool) {
    for message in messages::summary(report) {
        if !quiet || message.weight != Weight::Talk {
            stderr::message(&message);
        }
    }
    if let Some(next) = messages::next_command(report).filter(|_| !quiet) {
        stderr::line(&next);
    }
}

#[cfg(test)]
mod tests {
    use strata_session::report::NotReached;

    use super::*;

    #[test]
    fn processes_found_by_name_may_end_before_they_are_asked_unless_all_of_the_name_do() {
        let gone = |pid| NotReached {
            pid,
            name: String::new(),
            reason: format!("process {pid}: is not there"),
        };
        let refused = NotReached { pid: 3, name: "web".into(), reason: "of another user".into() };
        let found =
            [(Some("web"), 1), (Some("web"), 2), (Some("web"), 3), (Some("db"), 4), (None, 5)];
        let mut report = Report {
            not_reached: vec![gone(2), refused.clone(), gone(4), gone(5)],
            ..Report::default()
        };
        let text = ended_meanwhile(&mut report, &found).unwrap();
        assert_eq!(text, "1 process that was found by its name had ended before it was asked: 2");
        assert_eq!(report.not_reached, [refused, gone(4), gone(5)]);
        assert_eq!(ended_meanwhile(&mut report, &found), None);
    }
}
