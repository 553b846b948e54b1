//! What processes have loaded, as LTTng-UST's events tell it, and mapped, as the kernel's do.

use std::collections::HashMap;

use strata_ctf::read::{Event, FieldRef, Reader, Value};

use super::before::ObjectsBefore;
use super::classes::{
    number, CodeEventClass, CodeEventFields, CodeEventKind, MappedObject, ProcessObjects,
};
use super::kernel::{map, ProcessChange, ProcessNews, OBJECTS};
use super::stacks;

/// More processes are not remembered: a trace may say anything.
const PROCESSES: usize = 1 << 14;

/// All processes of all traces.
#[derive(Debug, Default)]
pub(super) struct Objects {
    classes: Vec<Option<CodeEventClass>>,
    processes: HashMap<(usize, i64), ProcessObjects>,
    threads: stacks::ThreadProcesses,
    /// Traces of kernels, in which the code of processes of other traces may be.
    kernels: Vec<usize>,
    /// By trace, what its processes had before any event tells it, until there is an event of when it was so.
    before: Vec<Option<ObjectsBefore>>,
    /// Records that have told something.
    version: u64,
}

/// The stacks of a record, and the process.
pub(super) type RecordStacks = ([Option<Vec<u64>>; 2], Option<i64>);

impl Objects {
    /// With what the processes of these traces had before any event tells it.
    pub fn begin(reader: &Reader) -> Objects {
        let before = reader.traces().iter().map(|trace| Some(ObjectsBefore::read(reader, trace)));
        Objects { before: before.collect(), ..Objects::default() }
    }

    /// At an event of a trace: what its processes had, if that is of this time.
    fn begin_trace(&mut self, trace: usize, time: Option<i64>) {
        let Some(slot) = self.before.get_mut(trace) else { return };
        let (Some(before), Some(time)) = (&*slot, time) else { return };
        let Some(is_known) = before.is_known(time) else { return };
        let Some(mut before) = slot.take().filter(|_| is_known) else { return };
        before.threads().for_each(|(tid, pid)| self.threads.set(trace, tid, pid));
        for (pid, had) in before.processes() {
            let key = (trace, pid);
            if self.processes.len() < PROCESSES || self.processes.contains_key(&key) {
                self.processes.insert(key, had);
                self.version += 1;
            }
            if !self.kernels.contains(&trace) {
                self.kernels.push(trace);
            }
        }
    }

    /// Learns what an event tells, and says in which object its instruction pointer is.
    ///
    /// `None`: the event has no such pointer. `Some(None)`: in none that is known.
    pub fn event(&mut self, event: &Event<'_>) -> Option<(u64, Option<&MappedObject>)> {
        let trace = event.stream().trace().index();
        if self.before.get(trace).is_some_and(Option::is_some) {
            self.begin_trace(trace, event.time());
        }
        let index = event.class().index();
        if index >= self.classes.len() {
            self.classes.resize_with(index + 1, || None);
        }
        let class = self
            .classes
            .get_mut(index)?
            .get_or_insert_with(|| CodeEventClass::new(event.class(), event));
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
            let news = ProcessNews::of(*kind, fields, event);
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
                self.processes.insert(key, ProcessObjects::new());
            }
            if let Some(process) = self.processes.get_mut(&key) {
                learn(process, *kind, fields, event);
            }
        }
        let ip = ip?;
        Some((ip, self.processes.get(&key).and_then(|process| at(process, ip))))
    }

    /// What a record of a kernel's trace says.
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
            ProcessChange::Executed => drop(self.processes.remove(&key)),
            ProcessChange::Forked { parent } => {
                let process = self.processes.get(&(trace, parent)).cloned();
                // It may have the number of one that is gone.
                let had = self.processes.remove(&key);
                if let Some(process) = process.filter(|_| has_room || had.is_some()) {
                    self.processes.insert(key, process);
                }
            }
            ProcessChange::Mapped(object) if has_room || self.processes.contains_key(&key) => {
                map(self.processes.entry(key).or_default(), object);
            }
            _ => {}
        }
    }

    /// The object that an address of a process is in, by the trace that tells of it; of several, one in which it is.
    pub fn find(&self, pid: i64, address: u64) -> Option<&MappedObject> {
        let of = self.processes.iter().filter(|((_, vpid), _)| *vpid == pid);
        of.filter_map(|(key, process)| Some((key.0, at(process, address)?)))
            .min_by_key(|(trace, _)| *trace)
            .map(|(_, object)| object)
    }

    /// The process of a thread.
    pub fn process_of(&self, trace: usize, tid: i64) -> Option<i64> {
        self.threads.process_of(trace, tid)
    }

    /// Another number than before when something was learned.
    pub fn version(&self) -> u64 {
        self.version
    }
}

fn at(process: &ProcessObjects, address: u64) -> Option<&MappedObject> {
    let (_, object) = process.range(..=address).next_back()?;
    (address - object.begin < object.bytes).then_some(object)
}

impl Objects {
    /// The stacks of an event of which everything is learnt; `None`: it has none.
    pub fn stacks(&self, event: &Event<'_>) -> Option<RecordStacks> {
        let class = self.classes.get(event.class().index())?.as_ref()?;
        let place = class.stacks.as_ref()?;
        Some((place.read(event).stacks, place.process(event, &self.threads)))
    }

    /// What a process of this trace has at an address; or what the kernel's trace says of it, if there is one.
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
) {
    let value = |field: &Option<FieldRef>| event.value(field.as_ref()?);
    let text = |field: &Option<FieldRef>| match value(field) {
        Some(Value::Text(bytes)) => bytes.to_vec(),
        _ => Vec::new(),
    };
    if kind == CodeEventKind::Start {
        return process.clear();
    }
    let Some(begin) = number(value(&fields.begin)) else { return };
    match kind {
        CodeEventKind::Start
        | CodeEventKind::Mapped
        | CodeEventKind::Executed
        | CodeEventKind::Forked
        | CodeEventKind::Thread => {}
        CodeEventKind::Unloaded => {
            process.remove(&begin);
        }
        CodeEventKind::Loaded => {
            let bytes = number(value(&fields.bytes)).unwrap_or(0);
            // The kernel's own object has no file.
            if bytes > 0 && process.len() < OBJECTS {
                process.entry(begin).or_insert_with(|| MappedObject {
                    begin,
                    bytes,
                    path: text(&fields.path),
                    is_pic: fields.is_pic.is_none() || number(value(&fields.is_pic)) != Some(0),
                    ..MappedObject::default()
                });
            }
        }
        CodeEventKind::BuildId => {
            if let Some(object) = process.get_mut(&begin) {
                let bytes = fields.build_id.iter().map_while(|field| number(event.value(field)));
                object.build_id = bytes.map(|byte| byte as u8).collect();
            }
        }
        CodeEventKind::DebugLink => {
            if let Some(object) = process.get_mut(&begin) {
                object.debug_link = text(&fields.link);
            }
        }
    }
}
