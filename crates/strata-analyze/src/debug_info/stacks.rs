//! The call stacks of a record, whatever part of it they are in, and whose they are.

use std::collections::HashMap;

use strata_ctf::read::{Event, EventClass, FieldInfo, FieldRef, Scope, Value, Visit};
use strata_model::EnvValue;

/// Names that arrays of addresses have, in LTTng's traces and in Strata's.
const NAMES: [&str; 2] = ["callstack_kernel", "callstack_user"];

/// Addresses of a stack that are looked at.
const FRAMES: usize = 1 << 10;

/// Threads whose processes are remembered.
const THREADS: usize = 1 << 20;

/// Where it is looked for.
const SCOPES: [Scope; 3] = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

/// The innermost first.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// In the kernel, and in the program; `None`: the record has no such stack.
    pub stacks: [Option<Vec<u64>>; 2],
    /// The one that is being told.
    current: Option<usize>,
}

/// Where records of a class have them.
#[derive(Debug)]
pub(super) struct StackFields {
    scopes: Vec<Scope>,
    pid: Option<FieldRef>,
    tid: Option<FieldRef>,
    /// Of the trace, if that is a process'.
    vpid: Option<i64>,
}

impl StackFields {
    /// `None`: they have none.
    pub fn of(class: &EventClass, event: &Event<'_>) -> Option<StackFields> {
        let has = |scope: &Scope| {
            // An array is found by its first element, too; its name alone is enough.
            NAMES.iter().any(|name| class.find_in(*scope, name).is_some())
        };
        let scopes: Vec<Scope> = SCOPES.into_iter().filter(has).collect();
        if scopes.is_empty() {
            return None;
        }
        let context = |names: &[&str]| {
            let contexts = [Scope::SpecificContext, Scope::CommonContext];
            names.iter().find_map(|name| contexts.iter().find_map(|&it| class.find_in(it, name)))
        };
        // A payload's pid is another one's, but of a sample.
        let sampled = || match scopes.contains(&Scope::Payload) || class.name() == "cpu_clock" {
            true => class.find_in(Scope::Payload, "pid"),
            false => None,
        };
        let vpid = match event.stream().trace().schema().environment("vpid") {
            Some(&EnvValue::Integer(vpid)) => Some(vpid),
            _ => None,
        };
        let pid = context(&["pid", "vpid"]).or_else(sampled);
        Some(StackFields { pid, tid: context(&["tid", "vtid"]), vpid, scopes })
    }

    /// Whose it is, as far as is known.
    pub fn process(&self, event: &Event<'_>, threads: &ThreadProcesses) -> Option<i64> {
        let number = |field: &Option<FieldRef>| match event.value(field.as_ref()?)? {
            Value::Unsigned(value) => i64::try_from(value).ok(),
            Value::Signed(value) => Some(value),
            _ => None,
        };
        number(&self.pid).or(self.vpid).or_else(|| {
            let tid = number(&self.tid)?;
            Some(threads.process_of(event.stream().trace().index(), tid).unwrap_or(tid))
        })
    }

    /// The stacks.
    pub fn read(&self, event: &Event<'_>) -> Addresses {
        let mut found = Addresses::default();
        for scope in &self.scopes {
            event.visit(*scope, &mut found);
        }
        found
    }
}

impl Visit for Addresses {
    fn unsigned(&mut self, _field: &FieldInfo, value: u64) {
        if let Some(stack) = self.current.and_then(|at| self.stacks[at].as_mut()) {
            if stack.len() < FRAMES {
                stack.push(value);
            }
        }
    }

    fn signed(&mut self, _field: &FieldInfo, _value: i64) {}

    fn real(&mut self, _field: &FieldInfo, _value: f64) {}

    fn text(&mut self, _field: &FieldInfo, _bytes: &[u8]) {}

    fn begin_array(&mut self, field: &FieldInfo, _length: u64) {
        self.current = NAMES.iter().position(|name| field.name() == *name);
        if let Some(at) = self.current {
            self.stacks[at] = Some(Vec::new());
        }
    }

    fn end_array(&mut self, _field: &FieldInfo) {
        self.current = None;
    }
}

/// Processes of threads, by trace.
#[derive(Debug, Default)]
pub(super) struct ThreadProcesses(HashMap<(usize, i64), i64>);

impl ThreadProcesses {
    pub fn set(&mut self, trace: usize, tid: i64, pid: i64) {
        if self.0.len() < THREADS || self.0.contains_key(&(trace, tid)) {
            self.0.insert((trace, tid), pid);
        }
    }

    pub fn process_of(&self, trace: usize, tid: i64) -> Option<i64> {
        self.0.get(&(trace, tid)).copied()
    }
}
