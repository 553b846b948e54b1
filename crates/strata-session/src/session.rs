//! A session from begin to end.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use strata_ctf::end_mark::{EndMark, Losses};
use strata_user::{
    new_generation, Clock, ClockKind, HeaderChoice, Launch, Listener, LossMode, Program, Rules,
    SessionSpec, ENVIRONMENT,
};

use crate::command::{Inherited, Running};
use crate::default;
use crate::describe::Machine;
use crate::detach::Detaching;
use crate::disk::DiskLimit;
use crate::error::SessionError;
use crate::filtered::{self, Filtered};
use crate::folder::{TimeStamp, TraceFolder};
use crate::keeper::{Keeper, KeeperParts, Target};
use crate::kernel::{self, KernelLayer, LayerEnd, Watched};
use crate::known::Reasons;
use crate::lttng::{self, OfCommand};
use crate::memory;
use crate::mover::{Mover, Moves};
use crate::options::{Mode, Options};
use crate::report::{
    Asked, EndReason, LayerReport, NoKernel, NotReached, Notice, ProcessReport, Report, RuleReport,
    KERNEL, USER,
};
use crate::shared::{Layer, Shared};
use crate::stop::Stop;
use crate::traced::{lock, Place};
use crate::watch::{Moved, Watch};

/// Without so much memory this does not begin: threads that find none for their stacks end the program.
/// \[byte\]
const MEMORY_MIN: usize = 32 << 20;

/// A recording that has ended.
#[derive(Debug)]
pub struct Recording {
    /// What there is to say of it.
    pub report: Report,
    /// What is still to be done in the kernel.
    pub detaching: Detaching,
}

/// Record, as `options` say, until the command ends, the time is over, or somebody asks to stop.
///
/// `notify` is called from this thread. Whatever was recorded when something fails later is kept, and
/// the report says what failed. This thread gives up, for good, the capabilities that recording does not need.
///
/// # Errors
/// [`SessionError`]: it could not begin, and nothing is left of it.
pub fn record(
    options: &Options,
    stop: &Stop,
    notify: &mut dyn FnMut(Notice),
) -> Result<Recording, SessionError> {
    options.check()?;
    let system = |what| move |source| SessionError::System { what, source };
    memory::reserve(MEMORY_MIN).map_err(|_| SessionError::System {
        what: "reserve 32 MiB of memory (ulimit -v)",
        source: io::ErrorKind::OutOfMemory.into(),
    })?;
    let inherited = Inherited::prepare().map_err(system("prepare this program"))?;
    let rules = match &options.rules {
        Some(rules) => rules.clone(),
        None => Rules::parse(&["*:*"]).map_err(strata_user::Error::from)?,
    };
    let filter = filtered::program(options)?;
    let stamp = TimeStamp::now().map_err(system("tell the time"))?;
    let shared = Shared::new().map_err(system("make an eventfd"))?;
    let folder = match &options.output {
        Some(path) => TraceFolder::create(path)?,
        None => TraceFolder::create_by_time(Path::new(""), &stamp.name)?,
    };
    let machine = Machine::new(options.mode, options.version);
    let (spec, clock) = (spec(options, rules, filter), Clock::new());
    let filtered = Filtered::new(options);
    let setup = Setup { options, spec, stamp, inherited, machine, clock, shared, stop, filtered };
    if let Err(error) = folder.begin() {
        folder.remove_if_empty();
        return Err(error.into());
    }
    let begun = setup.begin_kernel(notify).and_then(|(mut kernel, no_kernel)| {
        if stop.flow().is_break() {
            return Err(SessionError::Stopped(stop.signal()));
        }
        let begun = setup.begin(kernel.as_mut())?;
        Ok((Begun { no_kernel, ..begun }, kernel))
    });
    match begun {
        Ok((begun, kernel)) => Ok(setup.run(begun, kernel, folder, notify)),
        Err(error) => {
            folder.remove_if_empty();
            Err(error)
        }
    }
}

/// What is there before anything runs.
struct Setup<'a> {
    options: &'a Options,
    spec: SessionSpec,
    stamp: TimeStamp,
    inherited: Inherited,
    machine: Machine,
    clock: Clock,
    shared: Shared,
    stop: &'a Stop,
    filtered: Filtered,
}

/// Who is recorded, and the command if there is one.
struct Begun {
    /// Applications that are recorded; `None`: none are.
    target: Option<Target>,
    listener: Option<Listener>,
    /// Processes by number, if the kernel is recorded.
    watched: Option<Watched>,
    /// Why the kernel is not recorded, if it is by default.
    no_kernel: Option<NoKernel>,
    /// Processes asked for that are not there.
    absent: Vec<NotReached>,
    running: Option<Running>,
    /// When recording began: the command's start is in it.
    since: Instant,
    remarks: Vec<String>,
    /// The command, if it may not be looked into.
    hidden: Vec<NotReached>,
    /// See [`Report::of_lttng`].
    of_lttng: Vec<String>,
    command_of_lttng: Option<OfCommand>,
}

/// What the session wants of each process.
fn spec(options: &Options, rules: Rules, filter: Option<Program>) -> SessionSpec {
    SessionSpec {
        rules,
        filter,
        loss_mode: match options.mode {
            Mode::Discard => LossMode::Discard,
            Mode::Overwrite => LossMode::Overwrite,
        },
        subbuf_bytes: options.subbuf_bytes,
        nr_subbufs: u64::from(options.nr_subbufs),
        header: HeaderChoice::Auto,
        vtid: options.vtid,
        inherit: true,
    }
}

impl Begun {
    fn new(target: Option<Target>, since: Instant) -> Begun {
        Begun {
            target,
            listener: None,
            watched: None,
            no_kernel: None,
            absent: Vec::new(),
            running: None,
            since,
            remarks: Vec::new(),
            hidden: Vec::new(),
            of_lttng: Vec::new(),
            command_of_lttng: None,
        }
    }
}

impl Setup<'_> {
    fn run(
        &self,
        begun: Begun,
        kernel: Option<KernelLayer>,
        mut folder: TraceFolder,
        notify: &mut dyn FnMut(Notice),
    ) -> Recording {
        let (spec, shared) = (&self.spec, &self.shared);
        let begin = begun.since;
        let (root, path) = (folder.handle(), folder.path().to_owned());
        let (not_reached, hidden) =
            (Mutex::new(begun.absent.into()), Mutex::new(begun.hidden.into()));
        let (holders, remarks) = (Mutex::new(Vec::new()), Mutex::new(begun.remarks));
        let (arrivals, arriving) = channel();
        let listener = begun.listener;
        let now_ns = Clock::monotonic_ns();
        let passed_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let begun_ns = now_ns.saturating_sub(passed_ns);
        let keeper = begun.target.map(|target| {
            Keeper::new(KeeperParts {
                target,
                listener,
                spec,
                clock: &self.clock,
                begun_ns,
                shared,
                arrivals,
                not_reached: &not_reached,
                hidden: &hidden,
                holders: &holders,
                remarks: &remarks,
                plain_too: kernel.as_ref().is_some_and(KernelLayer::is_default),
            })
        });
        let has_applications = keeper.is_some();
        let place = Place {
            folder: &mut folder,
            machine: &self.machine,
            created: &self.stamp.iso,
            shared,
            filtered: &self.filtered,
        };
        let mover = Mover::new(place, &spec.rules, shared, arriving, self.options.flush);
        let mut watch = Watch {
            shared,
            stop: self.stop,
            running: begun.running,
            kernel,
            has_applications,
            watched: begun.watched,
            deadline: self.options.duration.and_then(|time| begin.checked_add(time)),
            limit: self.options.max_bytes.map(|max| (max, DiskLimit::new(max, &path))),
            has_told_of_descendants: false,
            has_told_of_layer: false,
            begin,
            next_progress: Instant::now(),
            asked: 0,
            elapsed: Duration::ZERO,
        };
        let applications = keeper.map(|keeper| (keeper, mover));
        let flush = self.options.flush;
        let Moved { end, moves, recorded } = watch.run(applications, (root, &path), flush, notify);
        let kernel = watch.kernel.take().map(|layer| layer.end(recorded));
        let taken = |list: &Mutex<Reasons>| lock(list).take();
        let found = Found {
            moves,
            not_reached: taken(&not_reached),
            hidden: taken(&hidden),
            holders: std::mem::take(&mut *lock(&holders)),
            remarks: std::mem::take(&mut *lock(&remarks)),
            no_kernel: begun.no_kernel,
            of_lttng: begun.command_of_lttng.map_or(begun.of_lttng, OfCommand::end),
        };
        self.report(&watch, end, found, kernel, &folder)
    }

    /// What there is to say at the end.
    fn report(
        &self,
        watch: &Watch<'_>,
        end: EndReason,
        found: Found,
        kernel: Option<LayerEnd>,
        folder: &TraceFolder,
    ) -> Recording {
        let Found { moves, mut not_reached, hidden, holders, mut remarks, no_kernel, of_lttng } =
            found;
        let rules = match watch.has_applications {
            true => rule_reports(&self.spec.rules, &moves),
            false => Vec::new(),
        };
        match moves.processes.is_empty() {
            // It may be for them that there is nothing.
            true => not_reached.extend(hidden),
            false => remarks.extend(hidden.into_iter().map(|one| one.reason)),
        }
        let left_running = match self.options.everyone {
            true => Vec::new(),
            false => left_running(watch, &moves),
        };
        if end == EndReason::Command && left_running.is_empty() {
            remarks.extend(holders.iter().map(|holder| {
                format!(
                    "{holder} runs on and is not recorded: recording ends with the command. `strata \
                     list` shows it if it has tracepoints."
                )
            }));
        }
        remarks.extend(self.filtered.remarks());
        remarks.extend(folder.remark());
        let mut layers = Vec::new();
        if watch.has_applications {
            layers.push(LayerReport { layer: USER, processes: moves.processes });
        }
        let (mut of_kernel, mut detaching) = (None, Detaching::default());
        if let Some(ended) = kernel {
            layers.push(LayerReport { layer: KERNEL, processes: vec![ended.kernel] });
            remarks.extend(ended.remarks);
            (of_kernel, detaching) = (Some(ended.report), ended.detaching);
            remarks.extend(detaching.remark());
        }
        let is_recorded =
            layers.iter().flat_map(|one| &one.processes).any(|process| process.folder.is_some());
        if is_recorded || !folder.remove_if_empty() {
            self.mark(folder, &layers, is_recorded);
        }
        let failure = self.shared.failure();
        let failed_layer = self.shared.layer_that_failed().map(Layer::name);
        let path = folder.path();
        let report = Report {
            output: (is_recorded && path.is_dir()).then(|| path.to_owned()),
            asked: match (self.options.command.is_empty(), self.options.pids.is_empty()) {
                _ if self.options.everyone => Asked::Everyone,
                (false, _) => Asked::Command,
                (true, false) => Asked::Processes,
                (true, true) => Asked::Everyone,
            },
            elapsed: watch.elapsed,
            end: match failure.is_some() && failed_layer.is_none() {
                true => EndReason::Failure,
                false => end,
            },
            rules,
            kernel: of_kernel,
            no_kernel,
            layers,
            not_reached,
            left_running,
            command: watch.running.as_ref().map(Running::end),
            failure,
            failed_layer,
            remarks,
            of_lttng,
            subbuf_bytes: self.options.subbuf_bytes,
            nr_subbufs: self.options.nr_subbufs,
            mode: self.options.mode,
        };
        Recording { report, detaching }
    }

    /// Say in the folder how the recording ended, and what of it no trace in it says.
    fn mark(&self, folder: &TraceFolder, layers: &[LayerReport], is_recorded: bool) {
        let processes = layers.iter().flat_map(|layer| &layer.processes);
        let unwritten = processes.fold(0, |sum: u64, one| sum.saturating_add(one.unmarked));
        if !is_recorded && unwritten == 0 && self.shared.failure().is_none() {
            return;
        }
        let losses = Losses { unwritten, ..Losses::default() };
        let mark = EndMark { ending: self.shared.ending_of_all(), losses, ..EndMark::default() };
        if let Err(error) = folder.end(&mark) {
            for layer in [Layer::User, Layer::Kernel] {
                self.shared.fail_to_write(layer, &error);
            }
        }
    }

    /// Make the kernel ready to record, if it shall; or say why it is not, if that was nobody's wish.
    fn begin_kernel(
        &self,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(Option<KernelLayer>, Option<NoKernel>), SessionError> {
        let Some(asked) = &self.options.kernel else { return Ok((None, None)) };
        if asked.is_default() && !default::is_wanted(self.options) {
            return Ok((None, None));
        }
        let is_default = asked.is_default();
        let asked = kernel::Asked {
            options: self.options,
            kernel: asked,
            machine: &self.machine,
            created: &self.stamp.iso,
            stop: self.stop,
        };
        let begun = match is_default {
            true => default::begin(&asked, notify)?,
            false => Ok(KernelLayer::begin(&asked, notify)?),
        };
        Ok(match begun {
            Ok(layer) => (Some(layer), None),
            Err(why) => {
                notify(Notice::NoKernel(why.clone()));
                (None, Some(why))
            }
        })
    }

    /// Start the command, or begin to listen; with the kernel's layer on from there.
    fn begin(&self, kernel: Option<&mut KernelLayer>) -> Result<Begun, SessionError> {
        let options = self.options;
        let has_kernel = kernel.is_some();
        let start = || {
            let since = Instant::now();
            kernel.into_iter().for_each(KernelLayer::start);
            since
        };
        if !options.records_applications() {
            return self.begin_without_applications(start);
        }
        let mut remarks = Vec::new();
        if let ClockKind::Vdso(why) = self.clock.kind() {
            remarks.push(format!(
                "time stamps come from clock_gettime() and cost more than usual: {why}"
            ));
        }
        if options.command.is_empty() || options.everyone {
            let target = match options.pids.is_empty() {
                true => Target::Everyone,
                false => Target::Processes(options.pids.clone()),
            };
            let listener = Listener::new();
            // Processes are then found by searching only: a second later, and not from their begin.
            if let Err(error) = &listener {
                remarks.push(error.to_string());
            }
            // Who is not there is said by the keeper.
            let watched =
                (has_kernel && !options.pids.is_empty()).then(|| Watched::new(&options.pids).0);
            let since = start();
            let listener = listener.ok();
            let of_lttng = lttng::of_processes(&options.pids);
            let running = match options.command.is_empty() {
                true => None,
                false => Some(self.command(&[], &[])?),
            };
            let begun = Begun::new(Some(target), since);
            return Ok(Begun { listener, remarks, watched, of_lttng, running, ..begun });
        }
        // For those who close all descriptors, or whose environment is cleared; most need it not.
        let listener = Listener::new().ok();
        let launch = Launch::new()?;
        let generation = new_generation();
        let environment = launch.environment(generation, &self.spec, &self.clock);
        let since = start();
        let running =
            self.command(&[(ENVIRONMENT.into(), environment.into())], &[launch.child_fd()])?;
        let announcements = Some(launch.started());
        let target = Target::Command { generation, pid: running.pid(), announcements };
        let hidden = running.protection().map(|reason| NotReached {
            pid: running.pid(),
            name: String::new(),
            reason: format!("process {}: {reason}", running.pid()),
        });
        let hidden = hidden.into_iter().collect();
        let command_of_lttng = Some(OfCommand::begin(&options.command, running.pid()));
        let running = Some(running);
        let begun = Begun::new(Some(target), since);
        Ok(Begun { listener, running, remarks, hidden, command_of_lttng, ..begun })
    }

    /// Start the command.
    fn command(
        &self,
        environment: &[(OsString, OsString)],
        keep_open: &[BorrowedFd<'_>],
    ) -> Result<Running, SessionError> {
        let with_descendants = self.options.wait_descendants;
        if with_descendants {
            let what = "become the parent of what the command leaves behind (prctl)";
            Running::adopt_descendants().map_err(|source| SessionError::System { what, source })?;
        }
        let command = &self.options.command;
        let running = Running::start(command, environment, keep_open, &self.inherited)?;
        Ok(running.with_descendants(with_descendants))
    }

    /// The command as it is, or nobody but the kernel.
    fn begin_without_applications(
        &self,
        start: impl FnOnce() -> Instant,
    ) -> Result<Begun, SessionError> {
        let options = self.options;
        let watched = (!options.pids.is_empty()).then(|| Watched::new(&options.pids));
        let mut begun = Begun::new(None, start());
        if let Some((watched, absent)) = watched {
            (begun.watched, begun.absent) = (Some(watched), absent);
        }
        if !options.command.is_empty() {
            begun.running = Some(self.command(&[], &[])?);
        }
        Ok(begun)
    }
}

/// What was found of applications.
struct Found {
    moves: Moves,
    not_reached: Vec<NotReached>,
    hidden: Vec<NotReached>,
    holders: Vec<String>,
    remarks: Vec<String>,
    no_kernel: Option<NoKernel>,
    of_lttng: Vec<String>,
}

/// Processes of the command that run on.
fn left_running(watch: &Watch<'_>, moves: &Moves) -> Vec<u32> {
    let Some(command) = watch.running.as_ref().map(Running::pid) else { return Vec::new() };
    let left = |process: &&ProcessReport| {
        process.is_alive && process.selected > 0 && process.pid != command
    };
    moves.processes.iter().filter(left).map(|one| one.pid).collect()
}

fn rule_reports(rules: &Rules, moves: &Moves) -> Vec<RuleReport> {
    rules
        .rules()
        .iter()
        .enumerate()
        .map(|(number, rule)| RuleReport {
            rule: rule.text().to_owned(),
            matched: moves.matched.get(number).copied().unwrap_or(0),
        })
        .collect()
}

#[cfg(test)]
mod tests;
