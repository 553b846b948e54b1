//! The call stacks of a record, in whatever part of it, and the process that they belong to.

use std::collections::HashMap;

use strata_ctf::read::{Event, EventClass, FieldInfo, FieldRef, Scope, Value, Visit};
use strata_model::EnvValue;

use crate::stack_copy;

/// The names of arrays of addresses, in traces of LTTng and of Strata.
const NAMES: [&str; 2] = ["callstack_kernel", "callstack_user"];
/// The most numbers that are read of a copy of registers or stack.
const COPIED: usize = 8192;

/// The most addresses of a stack that are read.
const FRAMES: usize = 1 << 10;

/// The most threads for which the process is kept.
const THREADS: usize = 1 << 20;

/// The parts of a record in which call stacks are searched.
const SCOPES: [Scope; 3] = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

/// The addresses of a stack, the innermost first.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// The kernel's stack and the program's; `None`: the record has no such stack.
    pub stacks: [Option<Vec<u64>>; 2],
    /// The registers of the program, and the copy of its stack; empty if the record has none.
    pub copies: [Vec<u64>; 2],
    /// True if copies of registers and stack are to be read.
    takes_copies: bool,
    /// The array that is being visited.
    current: Option<Current>,
}

/// The array of a record that is being read: a call stack, or a copy, by its index in `stacks` or `copies`.
#[derive(Clone, Copy, Debug)]
enum Current {
    Stack(usize),
    Copy(usize),
}

/// The fields by which the stacks and the process of a class' records are found.
#[derive(Debug)]
pub(super) struct StackFields {
    scopes: Vec<Scope>,
    has_copies: bool,
    pid: Option<FieldRef>,
    tid: Option<FieldRef>,
    /// The process, if the whole trace is of one process.
    vpid: Option<i64>,
}

impl StackFields {
    /// Finds the fields in a class; `None` if it has no stacks.
    pub fn of(class: &EventClass, event: &Event<'_>) -> Option<StackFields> {
        let schema = event.stream().trace().schema();
        let (has_copies, is_program) =
            (stack_copy::may_be_in(schema), stack_copy::is_of_program(schema));
        let has = |scope: &Scope| {
            // An array is found by its first element, too; its name alone is enough.
            let copies = stack_copy::NAMES.iter().filter(|_| has_copies);
            let mut names = NAMES.iter().chain(copies);
            !(is_program && *scope == Scope::Payload)
                && names.any(|name| class.find_in(*scope, name).is_some())
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
        let vpid = match schema.environment("vpid") {
            Some(&EnvValue::Integer(vpid)) => Some(vpid),
            _ => None,
        };
        let pid = context(&["pid", "vpid"]).or_else(sampled);
        let tid = context(&["tid", "vtid"]);
        Some(StackFields { pid, tid, vpid, scopes, has_copies })
    }

    /// Returns the process of a record, if it is known.
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

    /// Reads the stacks of a record.
    pub fn read(&self, event: &Event<'_>) -> Addresses {
        let mut found = Addresses { takes_copies: self.has_copies, ..Addresses::default() };
        for scope in &self.scopes {
            event.visit(*scope, &mut found);
        }
        found
    }
}

impl Visit for Addresses {
    fn unsigned(&mut self, _field: &FieldInfo, value: u64) {
        let (array, most) = match self.current {
            Some(Current::Stack(at)) => (self.stacks[at].as_mut(), FRAMES),
            Some(Current::Copy(at)) => (Some(&mut self.copies[at]), COPIED),
            None => return,
        };
        if let Some(array) = array.filter(|array| array.len() < most) {
            array.push(value);
        }
    }

    fn signed(&mut self, _field: &FieldInfo, _value: i64) {}

    fn real(&mut self, _field: &FieldInfo, _value: f64) {}

    fn text(&mut self, _field: &FieldInfo, _bytes: &[u8]) {}

    fn begin_array(&mut self, field: &FieldInfo, _length: u64) {
        let find = |names: &[&str]| names.iter().position(|name| field.name() == *name);
        let stack = find(&NAMES).map(Current::Stack);
        let copy = || find(&stack_copy::NAMES).filter(|_| self.takes_copies).map(Current::Copy);
        self.current = stack.or_else(copy);
        match self.current {
            Some(Current::Stack(at)) => self.stacks[at] = Some(Vec::new()),
            Some(Current::Copy(at)) => self.copies[at].clear(),
            None => {}
        }
    }

    fn end_array(&mut self, _field: &FieldInfo) {
        self.current = None;
    }
}

/// The process of each thread, by trace and thread.
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
