//! What processes have loaded, as LTTng-UST's events tell it.

use std::collections::{BTreeMap, HashMap};

use strata_ctf::read::{Event, EventClass, FieldRef, Value};

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
}

#[derive(Debug)]
struct Fields {
    begin: Option<FieldRef>,
    bytes: Option<FieldRef>,
    path: Option<FieldRef>,
    is_pic: Option<FieldRef>,
    build_id: Vec<FieldRef>,
    link: Option<FieldRef>,
}

impl Class {
    fn new(class: &EventClass) -> Class {
        let common = |name: &str| class.find_in(strata_ctf::read::Scope::CommonContext, name);
        let own = |name: &str| class.find_in(strata_ctf::read::Scope::Payload, name);
        let fields = || Fields {
            begin: own("baddr"),
            bytes: own("memsz"),
            path: own("path"),
            is_pic: own("is_pic"),
            build_id: (0..BUILD_ID).map_while(|n| own(&format!("build_id[{n}]"))).collect(),
            link: own("filename"),
        };
        let kind = Kind::of(class.name()).map(|kind| (kind, fields()));
        Class { vpid: common("vpid"), ip: common("ip"), kind }
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
    /// Records that have told something.
    version: u64,
}

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
        let class = self.classes.get_mut(index)?.get_or_insert_with(|| Class::new(event.class()));
        if class.ip.is_none() && class.kind.is_none() {
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
        Kind::Start => {}
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
