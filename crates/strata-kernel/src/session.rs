//! A recording of the kernel's events: begun, started, stopped, taken down.

use crate::attach::{attach, Attached};
use crate::capability::{Capabilities, Capability};
use crate::error::{Error, Reason};
use crate::event::KernelEvent;
use crate::follow::{self, Follow};
use crate::limits::{fit_buffers, holds_twice, Limits};
use crate::load::{bytes_of, quiet, Loader};
use crate::plan::{plan, Constant, Fallback, Plan, Unit};
use crate::syscalls;
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Mutex};
use strata_abi::kernel::{Control, Event};
use strata_model::StreamClass;
use strata_ring::{stream_layout, Attr, Channel, LossMode, Mapping, Publish};

/// One event, and what of it is recorded.
#[derive(Clone, Debug)]
pub struct SelectedEvent {
    /// The event.
    pub event: KernelEvent,
    /// Of a system call: its entry. True of every other event.
    pub entry: bool,
    /// Of a system call: its exit.
    pub exit: bool,
    /// Which of its records.
    pub filter: Option<strata_filter::Filter>,
}

/// What is to be recorded.
#[derive(Clone, Debug)]
pub struct Spec {
    /// When the buffers are full.
    pub loss_mode: LossMode,
    /// Size of a sub-buffer, a power of two \[byte\].
    pub subbuf_bytes: u64,
    /// Sub-buffers of each CPU, a power of two, at least 2.
    pub nr_subbufs: u64,
    /// Which events.
    pub events: Vec<SelectedEvent>,
    /// Of which processes.
    pub follow: Follow,
}

/// How far attaching has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Programs that are done with, refused ones included.
    pub attached: usize,
    /// All of them.
    pub total: usize,
}

/// An event that is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its name; of system calls, all that one program records.
    pub event: String,
    /// Why.
    pub reason: String,
}

/// What is in the records but for a flaw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Fields in user memory that could not be read: texts are their addresses, others zeroes.
    pub unreadable: u64,
    /// Texts that were longer than a record holds.
    pub cut: u64,
}

/// The buffers as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Size of a sub-buffer \[byte\].
    pub subbuf_bytes: u64,
    /// Sub-buffers of each CPU.
    pub nr_subbufs: u32,
    /// The kernel's maps hold none that are twice as large together.
    pub are_largest: bool,
}

/// The map `control`, mapped.
#[derive(Debug)]
struct ControlMap(NonNull<Control>);

// SAFETY: all its fields that change are atomic, and the mapping belongs to the process.
unsafe impl Send for ControlMap {}
// SAFETY: as above.
unsafe impl Sync for ControlMap {}

const PAGE: usize = 4096;

impl ControlMap {
    fn new(fd: BorrowedFd<'_>) -> Result<ControlMap, Error> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: at a free address; the map has a page, and cannot be truncated.
        let memory = unsafe { mmap(std::ptr::null_mut(), PAGE, prot, MapFlags::SHARED, fd, 0) };
        let memory = memory.map_err(|error| Error::Load {
            what: "the session",
            reason: Reason(format!("its control map cannot be mapped: {error}")),
        })?;
        NonNull::new(memory.cast()).map(ControlMap).ok_or(Error::Load {
            what: "the session",
            reason: Reason("its control map was mapped at address 0".into()),
        })
    }

    fn get(&self) -> &Control {
        // SAFETY: mapped, aligned to a page, and as long as self; what changes in it is atomic.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for ControlMap {
    fn drop(&mut self) {
        // SAFETY: what was mapped in new(), and nobody has a reference any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), PAGE) };
    }
}

/// A recording of the kernel's events.
#[derive(Debug)]
pub struct KernelSession {
    control: ControlMap,
    channel: Option<Channel>,
    stream_class: StreamClass,
    problems: Vec<Problem>,
    remark: Option<String>,
    attr: Attr,
    attached: Vec<Attached>,
    nr_events: u64,
    /// Of all programs, when the session was started, and when it was stopped.
    nested_before: u64,
    nested_at_stop: Option<u64>,
}

impl KernelSession {
    /// Loads and attaches everything; nothing is recorded before [`KernelSession::start`].
    ///
    /// An event that the kernel refuses is one of [`KernelSession::problems`]. When `progress` breaks, the
    /// session has what was attached by then.
    ///
    /// # Errors
    /// What makes recording impossible altogether, or a filter that cannot be compiled.
    pub fn begin(
        spec: Spec,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<KernelSession, Error> {
        check()?;
        quiet();
        let attr = Attr {
            loss_mode: spec.loss_mode,
            publish: Publish::ByCommit,
            subbuf_bytes: spec.subbuf_bytes,
            nr_subbufs: spec.nr_subbufs,
            nr_cpus: 0,
            start_position: 0,
        };
        let Plan { mut units, mut stream_class, mut problems } = plan(spec.events)?;
        problems.extend(absent(&spec.follow));
        let limits = Limits::raise(units.len());
        let (attr, remark) = fit_buffers(&attr)?;
        let layout = stream_layout(&attr)?;
        let (mut loader, mut channel) = (Loader::new(&attr, &layout)?, None);
        let explained = |error| match error {
            Error::Load { what, reason } => Error::Load { what, reason: limits.explain(reason) },
            other => other,
        };
        let walker = follow::begin(&mut loader, &spec.follow).map_err(explained)?;
        let control = match loader.shared(".data.control") {
            Some(fd) => ControlMap::new(fd)?,
            None => return Err(no_map(".data.control")),
        };
        let following = u32::from(spec.follow != Follow::Everyone);
        control.get().following.store(following, Ordering::Relaxed);
        control.get().tracer.store(std::process::id(), Ordering::Relaxed);
        let attached = follow::attach_and_walk(&walker).map_err(explained)?;
        let total = units.len();
        let refused = Vec::new();
        let flow = ControlFlow::Continue(());
        let (nr_events, done, limits) = (0, 0, &limits);
        let mut all =
            All { attached, problems, nr_events, refused, done, total, limits, flow, progress };
        // The first unit of each object that is loaded makes the maps that the others share.
        let mut loaded = Vec::new();
        while !units.is_empty() && all.flow.is_continue() {
            let mut others = Vec::new();
            for unit in units {
                if loaded.contains(&unit.object) || all.flow.is_break() {
                    others.push(unit);
                    continue;
                }
                let outcome = prepare(&loader, &unit).and_then(|open| loader.load_first(open));
                if outcome.is_ok() {
                    loaded.push(unit.object);
                    if channel.is_none() {
                        // Before anything is attached: what is written into a buffer that is none stays so.
                        channel = Some(make_channel(&loader, &attr)?);
                    }
                }
                let outcome = outcome.and_then(|object| attach(&object, &unit.target));
                all.add(unit, outcome);
            }
            attach_others(&loader, others, &mut all);
            units = fall_back(std::mem::take(&mut all.refused), &mut stream_class);
        }
        let All { attached, problems, nr_events, .. } = all;
        Ok(KernelSession {
            control,
            channel,
            stream_class,
            problems,
            remark,
            attr,
            attached,
            nr_events,
            nested_before: 0,
            nested_at_stop: None,
        })
    }

    /// Records from now on: one store.
    pub fn start(&mut self) {
        self.nested_before = self.all_nested();
        self.nested_at_stop = None;
        self.control.get().active.store(1, Ordering::SeqCst);
    }

    /// Records no more: one store. A program that runs meanwhile ends its record.
    pub fn stop(&mut self) {
        self.control.get().active.store(0, Ordering::SeqCst);
        if self.nested_at_stop.is_none() {
            self.nested_at_stop = Some(self.all_nested());
        }
    }

    /// The buffers, once; `None` also if no event could be attached.
    pub fn take_channel(&mut self) -> Option<Channel> {
        self.channel.take()
    }

    /// What the records are.
    pub fn stream_class(&self) -> &StreamClass {
        &self.stream_class
    }

    /// Events that are not recorded.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// What of it is less than was asked for, a whole message.
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// The buffers: those asked for, or what [`KernelSession::remark`] says.
    pub fn buffers(&self) -> Buffers {
        Buffers {
            subbuf_bytes: self.attr.subbuf_bytes,
            nr_subbufs: u32::try_from(self.attr.nr_subbufs).unwrap_or(u32::MAX),
            are_largest: !holds_twice(&self.attr),
        }
    }

    /// How many events are recorded; both ends of a system call are two.
    pub fn attached(&self) -> u64 {
        self.nr_events
    }

    /// How many programs are attached.
    pub fn programs(&self) -> usize {
        self.attached.len()
    }

    /// Calls of programs that the kernel did not make while the session was started, because one was
    /// running on that CPU already: events discarded before they reached a buffer.
    pub fn nested(&self) -> u64 {
        let now = self.nested_at_stop.unwrap_or_else(|| self.all_nested());
        now.saturating_sub(self.nested_before)
    }

    fn all_nested(&self) -> u64 {
        self.attached.iter().map(Attached::nested).sum()
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let control = self.control.get();
        // Once nothing is recorded any more, what has not been read by now never is.
        let is_stopped = control.active.load(Ordering::Relaxed) == 0;
        let unread = if is_stopped { control.unread.load(Ordering::Relaxed) } else { 0 };
        Counts {
            unreadable: control.unreadable.load(Ordering::Relaxed).wrapping_add(unread),
            cut: control.cut.load(Ordering::Relaxed),
        }
    }

    /// Detaches everything, and returns when that is done.
    pub fn teardown(mut self) {
        self.detach();
    }

    /// One by one: more threads are no faster, the kernel does it under one lock.
    fn detach(&mut self) {
        self.control.get().active.store(0, Ordering::SeqCst);
        self.attached.clear();
    }
}

impl Drop for KernelSession {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Processes to be followed that are not there.
fn absent(follow: &Follow) -> Vec<Problem> {
    let Follow::Processes(all) = follow else { return vec![] };
    let is_absent = |pid: &&u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    all.iter()
        .filter(is_absent)
        .map(|pid| Problem {
            event: format!("process {pid}"),
            reason: "there is none with this id (any more)".into(),
        })
        .collect()
}

/// What has become of the units so far.
struct All<'p> {
    attached: Vec<Attached>,
    problems: Vec<Problem>,
    nr_events: u64,
    refused: Vec<Fallback>,
    done: usize,
    total: usize,
    limits: &'p Limits,
    flow: ControlFlow<()>,
    progress: &'p mut dyn FnMut(Progress) -> ControlFlow<()>,
}

impl All<'_> {
    fn add(&mut self, mut unit: Unit, outcome: Result<Vec<Attached>, Reason>) {
        match (outcome, unit.fallback.take()) {
            (Ok(attached), _) => {
                self.attached.extend(attached);
                self.nr_events += unit.events.len() as u64;
            }
            (Err(_), Some(fallback)) => {
                self.total += 1;
                self.refused.push(*fallback);
            }
            (Err(reason), None) => {
                let reason = self.limits.explain(reason).to_string();
                let problem =
                    |event: &String| Problem { event: event.clone(), reason: reason.clone() };
                self.problems.extend(unit.events.iter().map(problem));
            }
        }
        self.done += 1;
        if self.flow.is_continue() {
            self.flow = (self.progress)(Progress { attached: self.done, total: self.total });
        }
    }
}

/// The units for events whose own programs were refused; their records are other ones then.
fn fall_back(refused: Vec<Fallback>, stream_class: &mut StreamClass) -> Vec<Unit> {
    let mut units = Vec::with_capacity(refused.len());
    for Fallback { unit, fields } in refused {
        if let Some(class) = stream_class.events.iter_mut().find(|class| class.id == unit.event.id)
        {
            class.fields = fields;
        }
        units.push(unit);
    }
    units
}

/// The verifier takes most of the time: one thread for each CPU.
fn attach_others(loader: &Loader, mut others: Vec<Unit>, all: &mut All<'_>) {
    if all.flow.is_break() {
        return;
    }
    others.reverse();
    let (queue, is_over) = (Mutex::new(others), AtomicBool::new(false));
    let next = || queue.lock().ok().and_then(|mut queue| queue.pop());
    let work = |done: mpsc::Sender<_>| {
        while let Some(unit) = next() {
            let outcome = prepare(loader, &unit).and_then(|open| loader.load(open));
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let outcome = outcome.and_then(|object| attach(&object, &unit.target));
            if done.send((unit, outcome)).is_err() {
                break;
            }
        }
    };
    let nr_threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..nr_threads {
            let sender = sender.clone();
            let work = &work;
            // If there is no thread, what is left is done below.
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || work(sender));
        }
        drop(sender);
        for (unit, outcome) in receiver {
            all.add(unit, outcome);
            if all.flow.is_break() {
                // Nothing more is begun; what is being attached comes yet.
                is_over.store(true, Ordering::Relaxed);
                queue.lock().iter_mut().for_each(|queue| queue.clear());
            }
        }
    });
    while let Some(unit) = next() {
        let outcome = prepare(loader, &unit)
            .and_then(|open| loader.load(open))
            .and_then(|object| attach(&object, &unit.target));
        all.add(unit, outcome);
    }
}

fn prepare(loader: &Loader, unit: &Unit) -> Result<libbpf_rs::OpenObject, Reason> {
    let event: &Event = &unit.event;
    let layouts = syscalls::layouts();
    // SAFETY: integers only, without padding.
    let mut constants = vec![(".rodata.event", unsafe { bytes_of(event) })];
    match &unit.constant {
        Constant::None => {}
        Constant::Payload { fixed, nr_strings } => {
            // SAFETY: one integer.
            constants.push((".rodata.fixed", unsafe { bytes_of(fixed) }));
            // SAFETY: one integer.
            constants.push((".rodata.strings", unsafe { bytes_of(nr_strings) }));
        }
        Constant::Syscalls(table) => {
            // SAFETY: an array of structures of integers without padding.
            constants.push((".rodata.syscalls", unsafe { bytes_of(&**table) }));
            // SAFETY: likewise.
            constants.push((".rodata.layouts", unsafe { bytes_of(&layouts) }));
        }
    }
    loader.open(unit.object, &unit.programs, &constants)
}

fn make_channel(loader: &Loader, attr: &Attr) -> Result<Channel, Error> {
    let fd = loader.shared("rings").ok_or_else(|| no_map("rings"))?;
    let value_bytes = u64::from(loader.value_bytes());
    let mapping = Mapping::of_streams(fd.as_fd(), &stream_layout(attr)?, value_bytes)?;
    Ok(Channel::format(mapping, attr)?)
}

fn no_map(name: &str) -> Error {
    Error::Load { what: "the session", reason: Reason(format!("they have no map {name}")) }
}

/// Whether this process may record anything of this kernel.
///
/// # Errors
/// [`Error::Machine`], [`Error::Rights`], [`Error::NoBtf`].
pub fn check() -> Result<(), Error> {
    check_machine()?;
    check_rights()
}

fn check_machine() -> Result<(), Error> {
    if cfg!(target_arch = "x86_64") {
        Ok(())
    } else {
        Err(Error::Machine { machine: std::env::consts::ARCH })
    }
}

/// The right to load, and what programs are fitted to the kernel by.
fn check_rights() -> Result<(), Error> {
    let missing: Vec<&str> = Capabilities::of_this_process()
        .missing_to_record()
        .into_iter()
        .map(Capability::name)
        .collect();
    if !missing.is_empty() {
        return Err(Error::Rights { missing: missing.join(", ") });
    }
    if std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        Ok(())
    } else {
        Err(Error::NoBtf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::event::Probe;
    use crate::tracefs::Tracefs;

    #[test]
    fn session_with_a_refused_program_has_the_event_of_the_generic_one() {
        let catalog = match Tracefs::find().and_then(|tracefs| Catalog::load(&tracefs)) {
            Ok(catalog) => catalog,
            Err(error) => return eprintln!("skip: {error}"),
        };
        let mut event = catalog
            .find("sched", "sched_switch")
            .and_then(|name| catalog.describe(name).ok())
            .expect("the kernel has sched_switch");
        let Probe::Hot { program, fallback: Some(generic) } = &mut event.probe else {
            return eprintln!("skip: no program of its own for sched_switch here");
        };
        *program = "refused";
        // Else both may be the same.
        generic.fields.pop();
        let fields = generic.fields.clone();
        let selected = SelectedEvent { event, entry: true, exit: true, filter: None };
        let spec = Spec {
            loss_mode: LossMode::Discard,
            subbuf_bytes: 1 << 16,
            nr_subbufs: 4,
            events: vec![selected],
            follow: Follow::Everyone,
        };
        let session = match KernelSession::begin(spec, &mut |_| ControlFlow::Continue(())) {
            Ok(session) => session,
            Err(error @ Error::Rights { .. }) => return eprintln!("skip: {error}"),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(session.problems(), []);
        assert_eq!(session.attached(), 1);
        let classes = &session.stream_class().events;
        assert_eq!(classes.iter().map(|class| &class.fields).collect::<Vec<_>>(), [&fields]);
    }
}
