//! `strata record`: asks the session, says what it says.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use strata_session::controls;
use strata_session::options::Options;
use strata_session::plan::LayerOf;
use strata_session::preload;
use strata_session::report::{Notice, Report};
use strata_session::stop::Stop;

use crate::flags::RecordFlags;
use crate::sessions::answer::Answer;
use crate::sessions::background::{self, SessionDesk, SessionOf};
use crate::talk;
use crate::talk::messages::{self, Message, Weight};
use crate::talk::progress::ProgressLine;

pub mod advised;

/// A command that ends sooner shows its own output only.
const PATIENCE: Duration = Duration::from_secs(1);

/// Record, and give the exit status.
pub fn run(flags: &RecordFlags) -> Result<u8> {
    let processes = flags.processes()?;
    let named = messages::found_by_name(&processes);
    let mut options = flags.options(processes.into_iter().map(|(_, pid)| pid).collect())?;
    if let Some(text) = flags.add_hypervisor(&mut options)?.filter(|_| !flags.quiet) {
        talk::message(&Message { weight: Weight::Talk, text });
    }
    if flags.auto {
        use_advised(&mut options, flags)?;
    }
    if let Some(text) = named.filter(|_| !flags.quiet) {
        talk::message(&Message { weight: Weight::Talk, text });
    }
    if let Some(text) = preload::hint(&options.command).filter(|_| !options.libc.is_empty()) {
        talk::message(&Message { weight: Weight::Warning, text: text.to_owned() });
    }
    let shared = !options.command.is_empty() && io::stdout().is_terminal();
    let line = (!flags.quiet && talk::is_live())
        .then(|| ProgressLine::new(if shared { PATIENCE } else { Duration::ZERO }));
    let stop = Stop::on_signals()?;
    stop.outlive_others()?;
    let (controls, orders) = controls();
    let desk = match &flags.background {
        Some(name) => {
            let of = SessionOf::Record { holds: options.hold };
            background::leave_terminal();
            let claim = background::claim(name)?;
            Some(SessionDesk::open(claim, of, controls, &stop, (flags.group.as_deref(), None))?)
        }
        None => None,
    };
    let answer = Answer::new(line, flags.quiet, &stop);
    let mut hear = |notice| {
        answer.hear(&notice);
        if let Some(desk) = &desk {
            desk.hear(&notice);
        }
        if let Some(text) = messages::notice(&notice) {
            // Where the terminal is the command's too, only what asks for patience is said.
            let waits =
                matches!(notice, Notice::WaitingForCommand { .. } | Notice::WaitingForDescendants);
            let weight = match notice {
                Notice::Failed { .. } | Notice::LayerFailed { .. } => Weight::Failure,
                Notice::NotRotated { .. } => Weight::Warning,
                // In time to stop and type it anew: the end may be hours away.
                Notice::NoSuchEvent(_) => Weight::Warning,
                // Said at the end.
                Notice::NoKernel(_) if !options.command.is_empty() && !options.everyone => return,
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
        // Without it nobody answers while the session is busy; it does what it is asked for nevertheless.
        let _ = thread::Builder::new().name("strata-talk".to_owned()).spawn_scoped(scope, talker);
        if let Some(desk) = &desk {
            let serve = || {
                // It answers for this user, and does nothing itself.
                strata_session::give_up_rights();
                desk.serve();
            };
            thread::Builder::new().name("strata-control".to_owned()).spawn_scoped(scope, serve)?;
        }
        let result = strata_session::record_with(&options, &stop, &orders, &mut hear);
        // Who asks now is told that it is over, and does not wait.
        drop(orders);
        answer.end();
        if let Some(desk) = &desk {
            desk.close();
        }
        Ok::<_, anyhow::Error>(result)
    });
    // Detaching goes on behind this program's end.
    let report = result??.report;
    advised::keep(flags.key(), &report);
    if let Some(desk) = &desk {
        desk.keep_verdict(&report);
    }
    say(&report, flags.quiet);
    Ok(messages::exit_status(&report, flags.strict))
}

/// Of each layer, those of its channel that needs most.
fn use_advised(options: &mut Options, flags: &RecordFlags) -> Result<()> {
    let all = advised::of(flags.key())?;
    let largest = |layer| {
        let of_layer = all.iter().filter(|one| one.layer == layer);
        of_layer.max_by_key(|one| one.subbuf_size.saturating_mul(one.num_subbuf.into()))
    };
    let user = largest(LayerOf::User).filter(|_| options.records_applications());
    let kernel = largest(LayerOf::Kernel).filter(|_| options.kernel.is_some());
    // Each layer has its own.
    let before = options.for_kernel();
    let of_kernel = kernel
        .map_or((before.subbuf_bytes, before.nr_subbufs), |one| (one.subbuf_size, one.num_subbuf));
    if let (true, Some(kernel)) = (user.is_some() || kernel.is_some(), &mut options.kernel) {
        (kernel.subbuf_bytes, kernel.nr_subbufs) = (Some(of_kernel.0), Some(of_kernel.1));
    }
    if let Some(one) = user {
        (options.subbuf_bytes, options.nr_subbufs) = (one.subbuf_size, one.num_subbuf);
        options.is_size_given = true;
    }
    if !flags.quiet {
        let text = advised::used(user.into_iter().chain(kernel));
        talk::message(&Message { weight: Weight::Talk, text });
    }
    Ok(())
}

/// What there is to say at the end.
pub fn say(report: &Report, quiet: bool) {
    for message in messages::summary(report) {
        if !quiet || message.weight != Weight::Talk {
            talk::message(&message);
        }
    }
    if let Some(next) = messages::next_command(report).filter(|_| !quiet) {
        talk::line(&next);
    }
}
