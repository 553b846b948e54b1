//! The objects of processes: those that LTTng-UST's events report as loaded, and those that the kernel's report as
//! mapped.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use strata_ctf::read::{Event, FieldRef, Reader, Trace, Value};

use super::generated::GeneratedCode;
use super::kernel::{map, ProcessChange, ProcessNews, OBJECTS};
use super::lookup_limits::Budget;
use super::objects_before_dump::ObjectsBefore;
use super::process_objects::ProcessObjects;
use super::stack_fields::{
    number, CodeEventClass, CodeEventFields, CodeEventKind, CodeFile, CodeFiles, MappedObject,
    DUMP_END,
};
use super::stacks;
use super::unwind::StackCopy;

/// The most processes that are kept, since traces are not trusted.
const PROCESSES: usize = 1 << 14;

/// The objects (programs and libraries) that the processes of all traces have mapped, at the present time of reading.
#[derive(Debug)]
pub(super) struct Objects {
    pub files: CodeFiles,
    classes: Vec<Option<CodeEventClass>>,
    processes: HashMap<(usize, i64), ProcessObjects>,
    /// The traces that have objects of a process, by the process' number.
    of_pid: HashMap<i64, Vec<usize>>,
    /// The traces that, from the present time on, report all mapped code of all processes.
    complete: HashSet<usize>,
    /// The traces whose state dump has not ended yet.
    dumped: HashSet<usize>,
    /// The processes that have executed a program since recording began, so that all of their objects are known.
    whole: HashSet<(usize, i64)>,
    threads: stacks::ThreadProcesses,
    /// The traces of kernels, which may report objects of processes that have traces of their own.
    kernels: Vec<usize>,
    /// For each trace, the objects that its processes had when it began; removed once they are used.
    before: Vec<Option<ObjectsBefore>>,
    /// For each trace, the names of code that its processes have generated.
    generated: Vec<GeneratedCode>,
    /// The number of records that have changed the objects.
    version: u64,
}

/// The call stacks of a record.
#[derive(Debug)]
pub(super) struct RecordStacks {
    /// The addresses of the kernel's stack, and of the program's.
    pub stacks: [Option<Vec<u64>>; 2],
    /// The copy from which the program's stack can be unwound.
    pub copy: Option<StackCopy>,
    /// The number of the process that made the record.
    pub pid: Option<i64>,
}

impl Objects {
    /// Reads the objects that the processes of these traces had before any event reports them.
    pub fn begin(reader: &Reader, budget: &Arc<Budget>) -> Objects {
        let mut objects = Objects::new(budget);
        let files = &mut objects.files;
        let traces = reader.traces().iter();
        let before = traces.map(|trace| Some(ObjectsBefore::read(reader, trace, files)));
        objects.before = before.collect();
        let traces = reader.traces().iter();
        objects.generated =
            traces.map(|trace| GeneratedCode::read(reader, trace, budget)).collect();
        let ends = |trace: &&Arc<Trace>| {
            let mut events = trace.schema().streams.iter().flat_map(|stream| &stream.events);
            events.any(|event| event.name == DUMP_END)
        };
        objects.dumped = reader.traces().iter().filter(ends).map(|trace| trace.index()).collect();
        objects
    }

    /// Returns an empty table.
    pub fn new(budget: &Arc<Budget>) -> Objects {
        Objects {
            files: CodeFiles::new(budget),
            classes: Vec::new(),
            processes: HashMap::new(),
            of_pid: HashMap::new(),
            complete: HashSet::new(),
            dumped: HashSet::new(),
            whole: HashSet::new(),
            threads: stacks::ThreadProcesses::default(),
            kernels: Vec::new(),
            before: Vec::new(),
            generated: Vec::new(),
            version: 0,
        }
    }

    /// Adds the objects that a trace's processes had before their state dump, at the first event for which these are
    /// known.
    fn begin_trace(&mut self, trace: usize, time: Option<i64>) {
        let Some(slot) = self.before.get_mut(trace) else { return };
        let (Some(before), Some(time)) = (&*slot, time) else { return };
        let Some(is_known) = before.is_known(time) else { return };
        let Some(mut before) = slot.take().filter(|_| is_known) else { return };
        before.threads().for_each(|(tid, pid)| self.threads.set(trace, tid, pid));
        for (pid, had) in before.processes() {
            let key = (trace, pid);
            if self.processes.len() < PROCESSES || self.processes.contains_key(&key) {
                self.put(key, had);
                self.version += 1;
            }
            if !self.kernels.contains(&trace) {
                self.kernels.push(trace);
            }
        }
    }

    /// Updates the objects by an event. Returns the event's instruction pointer, and the object at that
    /// address.
    ///
    /// Returns `None` if the event has no such pointer, and `None` as the object if none is known there.
    pub fn event(&mut self, event: &Event<'_>) -> Option<(u64, Option<&MappedObject>)> {
        let trace = event.stream().trace().index();
        if self.before.get(trace).is_some_and(Option::is_some) {
            self.begin_trace(trace, event.time());
        }
        if let (Some(code), Some(time)) = (self.generated.get_mut(trace), event.time()) {
            self.version += u64::from(code.advance(time));
        }
        let index = event.class().index();
        if index >= self.classes.len() {
            self.classes.resize_with(index + 1, || None);
        }
        let class = self
            .classes
            .get_mut(index)?
            .get_or_insert_with(|| CodeEventClass::new(event.class(), event));
        if class.ends_dump {
            self.dumped.remove(&trace);
            self.complete.insert(trace);
        }
        if class.ip.is_none() && class.kind.is_none() {
            return None;
        }
        if let Some((
            kind @ (CodeEventKind::Mapped
            | CodeEventKind::Executed
            | CodeEventKind::Forked
            | CodeEventKind::Thread),
            fields,
        )) = &class.kind
        {
            if *kind == CodeEventKind::Mapped
                && fields.path.is_some()
                && !self.dumped.contains(&trace)
            {
                self.complete.insert(trace);
            }
            let news = ProcessNews::of(*kind, fields, event, &mut self.files);
            self.version += u64::from(*kind != CodeEventKind::Thread);
            self.learn(trace, news);
            return None;
        }
        let value = |field: &Option<FieldRef>| event.value(field.as_ref()?);
        let vpid = number(value(&class.vpid))? as i64;
        let key = (trace, vpid);
        let ip = number(value(&class.ip));
        if let Some((kind, fields)) = &class.kind {
            self.version += 1;
            if !self.processes.contains_key(&key) && self.processes.len() < PROCESSES {
                let none = ProcessObjects::new(self.files.budget());
                put(&mut self.processes, &mut self.of_pid, key, none);
            }
            if let Some(process) = self.processes.get_mut(&key) {
                learn(process, *kind, fields, event, &mut self.files);
            }
        }
        let ip = ip?;
        Some((ip, self.processes.get(&key).and_then(|process| at(process, ip))))
    }

    /// Applies what a kernel's record reports about a process.
    fn learn(&mut self, trace: usize, news: Option<ProcessNews>) {
        if !self.kernels.contains(&trace) {
            self.kernels.push(trace);
        }
        let Some(ProcessNews { pid, tid, what }) = news else { return };
        if let Some(tid) = tid {
            self.threads.set(trace, tid, pid);
        }
        let key = (trace, pid);
        let has_room = self.processes.len() < PROCESSES;
        match what {
            ProcessChange::Executed => {
                self.take(key);
                if let Some(code) = self.generated.get_mut(trace) {
                    code.executed(pid);
                }
                if self.whole.len() < PROCESSES {
                    self.whole.insert(key);
                }
            }
            ProcessChange::Forked { parent } => {
                if let Some(code) = self.generated.get_mut(trace) {
                    code.forked(parent, pid);
                }
                let process = self.processes.get(&(trace, parent)).cloned();
                // It may have the number of one that is gone.
                let had = self.take(key);
                if self.whole.contains(&(trace, parent)) && self.whole.len() < PROCESSES {
                    self.whole.insert(key);
                }
                if let Some(process) = process.filter(|_| has_room || had.is_some()) {
                    self.put(key, process);
                }
            }
            ProcessChange::Mapped(object) if has_room || self.processes.contains_key(&key) => {
                let mut process = self
                    .processes
                    .remove(&key)
                    .unwrap_or_else(|| ProcessObjects::new(self.files.budget()));
                map(&mut process, object);
                self.processes.insert(key, process);
                let traces = self.of_pid.entry(pid).or_default();
                if !traces.contains(&trace) {
                    traces.push(trace);
                }
            }
            _ => {}
        }
    }

    /// Returns the object at an address of a process; if several traces have one there, that of the first trace.
    pub fn find(&self, pid: i64, address: u64) -> Option<&MappedObject> {
        self.find_in(pid, address).map(|(_, object)| object)
    }

    /// Returns the object at an address of a process as [`Objects::find`] does, and the trace that has it.
    pub fn find_in(&self, pid: i64, address: u64) -> Option<(usize, &MappedObject)> {
        let traces = self.of_pid.get(&pid)?.iter();
        traces
            .filter_map(|trace| Some((trace, at(self.processes.get(&(*trace, pid))?, address)?)))
            .min_by_key(|(trace, _)| *trace)
            .map(|(trace, object)| (*trace, object))
    }

    /// Returns the objects of a process, from all traces that have objects of this process.
    pub fn of_process(&self, pid: i64) -> impl Iterator<Item = &MappedObject> + '_ {
        let traces = self.of_pid.get(&pid).into_iter().flatten();
        traces.filter_map(move |trace| self.processes.get(&(*trace, pid))).flat_map(|it| it.from(0))
    }

    /// Returns whether a process certainly has no code at an address, because a trace that reports all of its code
    /// has none there.
    pub fn is_outside(&self, pid: i64, address: u64) -> bool {
        let traces = self.of_pid.get(&pid).map_or(&[][..], Vec::as_slice);
        let complete = |trace: &usize| {
            let process = self.processes.get(&(*trace, pid));
            let is_told = self.complete.contains(trace) || self.whole.contains(&(*trace, pid));
            is_told && process.is_some_and(|process| !process.is_empty())
        };
        traces.iter().any(complete)
            && self.find(pid, address).is_none()
            && self.generated_by(None, pid, address).is_none()
    }

    /// Returns the name of code that a process has generated, and the distance of an address from the code's begin:
    /// from this trace, or else from the kernel's trace if there is exactly one.
    pub fn generated_by(
        &self,
        trace: Option<usize>,
        pid: i64,
        address: u64,
    ) -> Option<(&[u8], u64)> {
        let find = |trace: usize| self.generated.get(trace)?.find(pid, address);
        trace.and_then(find).or_else(|| {
            let mut of_kernels = self.generated.iter().filter(|code| !code.is_empty());
            let code = of_kernels.next()?;
            of_kernels.next().is_none().then(|| code.find(pid, address))?
        })
    }

    fn put(&mut self, key: (usize, i64), process: ProcessObjects) {
        put(&mut self.processes, &mut self.of_pid, key, process);
    }

    fn take(&mut self, key: (usize, i64)) -> Option<ProcessObjects> {
        self.whole.remove(&key);
        let process = self.processes.remove(&key)?;
        if let Some(traces) = self.of_pid.get_mut(&key.1) {
            traces.retain(|trace| *trace != key.0);
            if traces.is_empty() {
                self.of_pid.remove(&key.1);
            }
        }
        Some(process)
    }

    /// Returns the process of a thread according to a trace.
    pub fn process_of(&self, trace: usize, tid: i64) -> Option<i64> {
        self.threads.process_of(trace, tid)
    }

    /// Returns a number that changes whenever objects change.
    pub fn version(&self) -> u64 {
        self.version
    }
}

fn put(
    processes: &mut HashMap<(usize, i64), ProcessObjects>,
    of_pid: &mut HashMap<i64, Vec<usize>>,
    key: (usize, i64),
    process: ProcessObjects,
) {
    if processes.insert(key, process).is_none() {
        of_pid.entry(key.1).or_default().push(key.0);
    }
}

fn at(process: &ProcessObjects, address: u64) -> Option<&MappedObject> {
    let object = process.before(address)?;
    (address - object.begin < object.bytes).then_some(object)
}

impl Objects {
    /// Returns the call stacks of an event that was passed to [`Objects::event`] before; `None` if it has none.
    pub fn stacks(&self, event: &Event<'_>) -> Option<RecordStacks> {
        let class = self.classes.get(event.class().index())?.as_ref()?;
        let place = class.stacks.as_ref()?;
        let stacks::Addresses { stacks, copies: [registers, memory], .. } = place.read(event);
        let copy = StackCopy::new(&registers, memory);
        Some(RecordStacks { stacks, copy, pid: place.process(event, &self.threads) })
    }

    /// Returns the object at an address of a process, from this trace, or else from the kernel's trace if there is
    /// exactly one.
    pub fn at(&self, trace: usize, pid: i64, address: u64) -> Option<&MappedObject> {
        let find = |trace| at(self.processes.get(&(trace, pid))?, address);
        find(trace).or_else(|| match self.kernels[..] {
            [kernel] => find(kernel),
            _ => None,
        })
    }
}

fn learn(
    process: &mut ProcessObjects,
    kind: CodeEventKind,
    fields: &CodeEventFields,
    event: &Event<'_>,
    files: &mut CodeFiles,
) {
    let value = |field: &Option<FieldRef>| event.value(field.as_ref()?);
    let text = |field: &Option<FieldRef>| match value(field) {
        Some(Value::Text(bytes)) => bytes,
        _ => &[],
    };
    if kind == CodeEventKind::Start {
        *process = ProcessObjects::new(files.budget());
        return;
    }
    let Some(begin) = number(value(&fields.begin)) else { return };
    match kind {
        CodeEventKind::Start
        | CodeEventKind::Mapped
        | CodeEventKind::Executed
        | CodeEventKind::Forked
        | CodeEventKind::Thread => {}
        CodeEventKind::Unloaded => {
            process.remove(begin);
        }
        CodeEventKind::Loaded => {
            let bytes = number(value(&fields.bytes)).unwrap_or(0);
            // The kernel's own object has no file.
            let is_there = process.get(begin).is_some();
            if bytes > 0 && process.len() < OBJECTS && !is_there {
                let file = CodeFile { path: text(&fields.path).into(), ..CodeFile::default() };
                process.insert(MappedObject {
                    begin,
                    bytes,
                    file: files.number(file),
                    is_pic: fields.is_pic.is_none() || number(value(&fields.is_pic)) != Some(0),
                    offset: None,
                });
            }
        }
        CodeEventKind::BuildId => {
            let bytes = fields.build_id.iter().map_while(|field| number(event.value(field)));
            let build_id: Vec<u8> = bytes.map(|byte| byte as u8).collect();
            say(process, begin, files, &|file| file.build_id = build_id.as_slice().into());
        }
        CodeEventKind::DebugLink => {
            let link = text(&fields.link);
            say(process, begin, files, &|file| file.debug_link = link.into());
        }
    }
}

/// Changes the description of the file of the object that begins at `begin` in a process.
fn say(
    process: &mut ProcessObjects,
    begin: u64,
    files: &mut CodeFiles,
    change: &dyn Fn(&mut CodeFile),
) {
    let Some(object) = process.get(begin).copied() else { return };
    let mut file = files.get(object.file).clone();
    change(&mut file);
    process.insert(MappedObject { file: files.number(file), ..object });
}
