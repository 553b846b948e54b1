//! What processes have loaded, as LTTng-UST's events tell it.

use std::collections::{BTreeMap, HashMap};

use strata_ctf::read::{Event, EventClass, FieldRef, Value};

use super::stacks;

/// More processes, and more objects of each, are not remembered: a trace may say anything.
const PROCESSES: usize = 1 << 14;
const OBJECTS: usize = 1 << 12;

/// A program or a library in a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    pub begin: u64,
    pub bytes: u64,
    pub path: Vec<u8>,
    /// Addresses in its file count from its begin.
    pub is_pic: bool,
    pub build_id: Vec<u8>,
    pub debug_link: Vec<u8>,
    /// Where `begin` is in the file; `None`: addresses in the file are meant, and nothing is known of its parts.
    pub offset: Option<u64>,
}

/// What an event of such a class says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Of this process, all is told anew.
    Start,
    Loaded,
    Unloaded,
    BuildId,
    DebugLink,
    /// Of the kernel's traces: code that a process has mapped, what it had is gone, it has what its parent had, a
    /// thread of it.
    Mapped,
    Executed,
    Forked,
    Thread,
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        Some(match name {
            "lttng_ust_statedump:start" => Kind::Start,
            "lttng_ust_statedump:bin_info" | "lttng_ust_dl:dlopen" | "lttng_ust_lib:load" => {
                Kind::Loaded
            }
            "lttng_ust_lib:unload" => Kind::Unloaded,
            "lttng_ust_statedump:build_id" | "lttng_ust_lib:build_id" => Kind::BuildId,
            "lttng_ust_statedump:debug_link" | "lttng_ust_lib:debug_link" => Kind::DebugLink,
            "lttng_statedump_vm_map" => Kind::Mapped,
            "lttng_statedump_vm_exec" => Kind::Executed,
            "lttng_statedump_vm_fork" | "sched_process_fork" => Kind::Forked,
            "lttng_statedump_process_state" => Kind::Thread,
            _ => return None,
        })
    }
}

/// What is wanted of a class's records.
#[derive(Debug)]
struct Class {
    vpid: Option<FieldRef>,
    ip: Option<FieldRef>,
    kind: Option<(Kind, Fields)>,
    stacks: Option<stacks::Place>,
}

#[derive(Debug)]
struct Fields {
    begin: Option<FieldRef>,
    bytes: Option<FieldRef>,
    path: Option<FieldRef>,
    is_pic: Option<FieldRef>,
    build_id: Vec<FieldRef>,
    link: Option<FieldRef>,
    /// Of the kernel's: process and thread; those of the parent; end, place in the file, and build id as text.
    ids: [Option<FieldRef>; 2],
    parents: [Option<FieldRef>; 2],
    end: Option<FieldRef>,
    offset: Option<FieldRef>,
    text_id: Option<FieldRef>,
}

impl Class {
    fn new(class: &EventClass, event: &Event<'_>) -> Class {
        let common = |name: &str| class.find_in(strata_ctf::read::Scope::CommonContext, name);
        let own = |name: &str| class.find_in(strata_ctf::read::Scope::Payload, name);
        let fields = || Fields {
            begin: own("baddr").or_else(|| own("start")),
            bytes: own("memsz"),
            path: own("path"),
            is_pic: own("is_pic"),
            build_id: (0..BUILD_ID).map_while(|n| own(&format!("build_id[{n}]"))).collect(),
            link: own("filename"),
            ids: [own("child_pid").or_else(|| own("pid")), own("child_tid").or_else(|| own("tid"))],
            parents: [own("parent_pid"), own("parent_tid")],
            end: own("end"),
            offset: own("offset"),
            text_id: own("build_id"),
        };
        let kind = Kind::of(class.name()).map(|kind| (kind, fields()));
        let stacks = stacks::Place::of(class, event);
        Class { vpid: common("vpid"), ip: common("ip"), kind, stacks }
    }
}

/// Bytes of a build id that are read; the usual ones have 20.
const BUILD_ID: usize = 32;

type Process = BTreeMap<u64, Object>;

/// All processes of all traces.
#[derive(Debug, Default)]
pub(super) struct Objects {
    classes: Vec<Option<Class>>,
    processes: HashMap<(usize, i64), Process>,
    threads: stacks::Threads,
    /// Traces of kernels, in which the code of processes of other traces may be.
    kernels: Vec<usize>,
    /// Records that have told something.
    version: u64,
}

/// The stacks of a record, and the process.
pub(super) type Stacks = ([Option<Vec<u64>>; 2], Option<i64>);

fn number(value: Option<Value<'_>>) -> Option<u64> {
    match value? {
        Value::Unsigned(value) => Some(value),
        Value::Signed(value) => Some(value as u64),
        _ => None,
    }
}

impl Objects {
    /// Learns what an event tells, and says in which object its instruction pointer is.
    ///
    /// `None`: the event has no such pointer. `Some(None)`: in none that is known.
    pub fn event(&mut self, event: &Event<'_>) -> Option<(u64, Option<&Object>)> {
        let index = event.class().index();
        if index >= self.classes.len() {
            self.classes.resize_with(index + 1, || None);
        }
        let class =
            self.classes.get_mut(index)?.get_or_insert_with(|| Class::new(event.class(), event));
        if class.ip.is_none() && class.kind.is_none() {
            return None;
        }
        if let Some((
            kind @ (Kind::Mapped | Kind::Executed | Kind::Forked | Kind::Thread),
            fields,
        )) = &class.kind
        {
            let trace = event.stream().trace().index();
            let mut kernel =
                Kernel { processes: &mut self.processes, threads: &mut self.threads, trace };
            kernel.learn(*kind, fields, event);
            self.version += u64::from(*kind != Kind::Thread);
            if !self.kernels.contains(&trace) {
                self.kernels.push(trace);
            }
            return None;
        }
        let value = |field: &Option<FieldRef>| event.value(field.as_ref()?);
        let vpid = number(value(&class.vpid))? as i64;
        let key = (event.stream().trace().index(), vpid);
        let ip = number(value(&class.ip));
        if let Some((kind, fields)) = &class.kind {
            self.version += 1;
            if !self.processes.contains_key(&key) && self.processes.len() < PROCESSES {
                self.processes.insert(key, Process::new());
            }
            if let Some(process) = self.processes.get_mut(&key) {
                learn(process, *kind, fields, event);
            }
        }
        let ip = ip?;
        Some((ip, self.processes.get(&key).and_then(|process| at(process, ip))))
    }

    /// The object that an address of a process is in, by the trace that tells of it; of several, one in which it is.
    pub fn find(&self, pid: i64, address: u64) -> Option<&Object> {
        let of = self.processes.iter().filter(|((_, vpid), _)| *vpid == pid);
        of.filter_map(|(key, process)| Some((key.0, at(process, address)?)))
            .min_by_key(|(trace, _)| *trace)
            .map(|(_, object)| object)
    }

    /// Another number than before when something was learned.
    pub fn version(&self) -> u64 {
        self.version
    }
}

fn at(process: &Process, address: u64) -> Option<&Object> {
    let (_, object) = process.range(..=address).next_back()?;
    (address - object.begin < object.bytes).then_some(object)
}

impl Objects {
    /// The stacks of an event of which everything is learnt; `None`: it has none.
    pub fn stacks(&self, event: &Event<'_>) -> Option<Stacks> {
        let class = self.classes.get(event.class().index())?.as_ref()?;
        let place = class.stacks.as_ref()?;
        Some((place.read(event).stacks, place.process(event, &self.threads)))
    }

    /// What a process of this trace has at an address; or what the kernel's trace says of it, if there is one.
    pub fn at(&self, trace: usize, pid: i64, address: u64) -> Option<&Object> {
        let find = |trace| {
            let process = self.processes.get(&(trace, pid))?;
            let (_, object) = process.range(..=address).next_back()?;
            Some(object).filter(|object| address - object.begin < object.bytes)
        };
        find(trace).or_else(|| match self.kernels[..] {
            [kernel] => find(kernel),
            _ => None,
        })
    }
}

/// What is known of the processes of a kernel's trace.
struct Kernel<'o> {
    processes: &'o mut HashMap<(usize, i64), Process>,
    threads: &'o mut stacks::Threads,
    trace: usize,
}

impl Kernel<'_> {
    fn learn(&mut self, kind: Kind, fields: &Fields, event: &Event<'_>) {
        let ask = |field: &Option<FieldRef>| number(event.value(field.as_ref()?));
        let Some(pid) = ask(&fields.ids[0]).map(|pid| pid as i64) else { return };
        if let Some(tid) = ask(&fields.ids[1]) {
            self.threads.set(self.trace, tid as i64, pid);
        }
        let key = (self.trace, pid);
        match kind {
            Kind::Executed => drop(self.processes.remove(&key)),
            Kind::Forked => {
                // The kernel's own event has the parent's process, or only its thread.
                let parent = ask(&fields.parents[0]).or_else(|| ask(&fields.parents[1]));
                let parent = parent.map_or(pid, |parent| parent as i64);
                if parent != pid && self.processes.len() < PROCESSES {
                    if let Some(process) = self.processes.get(&(self.trace, parent)).cloned() {
                        self.processes.insert(key, process);
                    }
                }
            }
            Kind::Mapped => {
                let (Some(begin), Some(end)) = (ask(&fields.begin), ask(&fields.end)) else {
                    return;
                };
                if end > begin
                    && (self.processes.contains_key(&key) || self.processes.len() < PROCESSES)
                {
                    let text = |field: &Option<FieldRef>| match event.value(field.as_ref()?)? {
                        Value::Text(bytes) => Some(bytes.to_vec()),
                        _ => None,
                    };
                    let object = Object {
                        begin,
                        bytes: end - begin,
                        path: text(&fields.path).unwrap_or_default(),
                        is_pic: true,
                        build_id: unhex(&text(&fields.text_id).unwrap_or_default()),
                        offset: ask(&fields.offset),
                        ..Object::default()
                    };
                    map(self.processes.entry(key).or_default(), object);
                }
            }
            _ => {}
        }
    }
}

/// What was there at its addresses is there no more; of one that it covers in part, nothing is known any more.
fn map(process: &mut Process, object: Object) {
    let end = object.begin.saturating_add(object.bytes);
    let is_under = |other: &Object| other.begin.saturating_add(other.bytes) > object.begin;
    let before = process.range(..object.begin).next_back().filter(|(_, it)| is_under(it));
    let first = before.map_or(object.begin, |(begin, _)| *begin);
    let gone: Vec<u64> = process.range(first..end).map(|(begin, _)| *begin).collect();
    gone.iter().for_each(|begin| drop(process.remove(begin)));
    if process.len() < OBJECTS {
        process.insert(object.begin, object);
    }
}

fn unhex(text: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pair = |pair: &[u8]| Some((digit(pair.first()?)? << 4 | digit(pair.get(1)?)?) as u8);
    text.chunks(2).take(BUILD_ID).map_while(pair).collect()
}

fn learn(process: &mut Process, kind: Kind, fields: &Fields, event: &Event<'_>) {
    let value = |field: &Option<FieldRef>| event.value(field.as_ref()?);
    let text = |field: &Option<FieldRef>| match value(field) {
        Some(Value::Text(bytes)) => bytes.to_vec(),
        _ => Vec::new(),
    };
    if kind == Kind::Start {
        return process.clear();
    }
    let Some(begin) = number(value(&fields.begin)) else { return };
    match kind {
        Kind::Start | Kind::Mapped | Kind::Executed | Kind::Forked | Kind::Thread => {}
        Kind::Unloaded => {
            process.remove(&begin);
        }
        Kind::Loaded => {
            let bytes = number(value(&fields.bytes)).unwrap_or(0);
            // The kernel's own object has no file.
            if bytes > 0 && process.len() < OBJECTS {
                process.entry(begin).or_insert_with(|| Object {
                    begin,
                    bytes,
                    path: text(&fields.path),
                    is_pic: fields.is_pic.is_none() || number(value(&fields.is_pic)) != Some(0),
                    ..Object::default()
                });
            }
        }
        Kind::BuildId => {
            if let Some(object) = process.get_mut(&begin) {
                let bytes = fields.build_id.iter().map_while(|field| number(event.value(field)));
                object.build_id = bytes.map(|byte| byte as u8).collect();
            }
        }
        Kind::DebugLink => {
            if let Some(object) = process.get_mut(&begin) {
                object.debug_link = text(&fields.link);
            }
        }
    }
}
