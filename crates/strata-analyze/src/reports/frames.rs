//! Frames of call stacks: names of functions for the addresses in records.

use std::collections::HashMap;
use std::rc::Rc;

use strata_ctf::read::{Event, FieldInfo, Scope, Visit};
use strata_timeline::{ThreadId, World};

use super::wait_starts;
use crate::debug_info::recorder_frames::{frames_of_recorder, is_sample};
use crate::debug_info::{Source, UnwoundStack, ANONYMOUS, NO_FRAME_POINTER};
use crate::stack_copy;

/// The most addresses of one stack that are read.
const DEPTH_MAX: usize = 512;
/// The most frames that are distinguished. Further frames are [`OTHERS`].
const FRAMES_MAX: usize = 1 << 20;
/// The name of the first frame, which stands for all frames beyond the limit.
pub const OTHERS: &str = "[others]";
/// The most bytes of all frames' names together.
const BYTES_MAX: usize = 64 << 20;
/// The most addresses whose frames are remembered.
const KNOWN_MAX: usize = 1 << 18;

/// The suffix of the names of kernel frames.
const OF_KERNEL: &str = "_[k]";
/// The most frames in a stack's short text: of the program, of the kernel above the program's, and of the kernel if the
/// stack has no others.
const SHORT: [usize; 3] = [4, 1, 4];

/// A frame, by its number in [`Frames`].
pub type FrameId = u32;

/// The table of all frames, with their names and the addresses to which they belong.
#[derive(Debug)]
pub struct Frames {
    names: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, FrameId>,
    /// The size of all names \[byte\].
    bytes: usize,
    source: Source,
    version: u64,
    /// The frames of addresses, by process, address, and whether it is a return address.
    known: HashMap<(i64, u64, bool), FrameId>,
    /// The functions that are inlined at addresses, the innermost first. Addresses without such functions are absent.
    inlined: HashMap<(i64, u64), Box<[FrameId]>>,
}

impl Frames {
    /// Creates a table with the frame `[others]` only. `source` finds the names of further frames.
    #[must_use]
    pub fn new(source: Source) -> Frames {
        let mut frames = Frames {
            names: Vec::new(),
            numbers: HashMap::new(),
            bytes: 0,
            source,
            version: 0,
            known: HashMap::new(),
            inlined: HashMap::new(),
        };
        frames.of(OTHERS);
        frames
    }

    /// Learns from a record which programs and libraries a process has loaded. All records must be passed.
    pub fn learn(&mut self, event: &Event<'_>) {
        self.source.learn(event);
        if self.source.version() != self.version {
            self.version = self.source.version();
            self.forget();
        }
    }

    /// Forgets which frames belong to which addresses; the frames themselves stay.
    fn forget(&mut self) {
        self.known.clear();
        self.inlined.clear();
    }

    /// Returns the number of a thread's process, to which the addresses of the thread's stacks belong. It is known even
    /// if the trace says it only after this event.
    #[must_use]
    pub fn process(&self, world: &World, event: &Event<'_>, who: ThreadId) -> Option<i64> {
        let number = |id| world.threads.get(id).map(|thread| thread.tid.into());
        match world.threads.get(who)?.main {
            Some(main) => number(main),
            None => number(who).map(|tid| self.source.process_of(event, tid).unwrap_or(tid)),
        }
    }

    /// Returns the frame with this name, which is added if there is room, or else `[others]`.
    pub fn of(&mut self, name: &str) -> FrameId {
        if let Some(&id) = self.numbers.get(name) {
            return id;
        }
        match u32::try_from(self.names.len()) {
            Ok(id) if self.names.len() < FRAMES_MAX && self.bytes + name.len() <= BYTES_MAX => {
                let name: Rc<str> = name.into();
                self.bytes += name.len();
                self.names.push(Rc::clone(&name));
                self.numbers.insert(name, id);
                id
            }
            // `[others]`, which is always there.
            _ => 0,
        }
    }

    /// Returns the name of a frame; empty if there is no such frame.
    #[must_use]
    pub fn name(&self, id: FrameId) -> &str {
        let at = usize::try_from(id).ok();
        at.and_then(|at| self.names.get(at)).map_or("", |name| name)
    }

    /// Returns the name of a frame as a shared string.
    #[must_use]
    pub fn shared(&self, id: FrameId) -> Rc<str> {
        let at = usize::try_from(id).ok();
        at.and_then(|at| self.names.get(at)).map_or_else(|| "".into(), Rc::clone)
    }

    /// Returns the frame at an address of a process. `is_caller`: true if `address` is a return address.
    pub fn user(&mut self, pid: i64, address: u64, is_caller: bool) -> FrameId {
        let at = address.saturating_sub(u64::from(is_caller));
        let key = (pid, address, is_caller);
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let name = match is_caller && self.source.is_outside(pid, at) {
            true => NO_FRAME_POINTER.to_owned(),
            false => self.user_name(pid, at, address),
        };
        let id = self.of(&name);
        if self.known.len() >= KNOWN_MAX {
            self.forget();
        }
        self.known.insert(key, id);
        let place = self.source.place_of(pid, at).filter(|place| !place.inlined.is_empty());
        if let Some(place) = place {
            let names = place.inlined.iter().map(|it| String::from_utf8_lossy(&it.function));
            let ids = names.map(|name| self.of(&name)).collect();
            self.inlined.insert((pid, at), ids);
        }
        id
    }

    fn user_name(&mut self, pid: i64, at: u64, address: u64) -> String {
        let Some(place) = self.source.place_of(pid, at) else {
            return match self.source.is_outside(pid, at) {
                true => "[unknown]".to_owned(),
                false => format!("{address:#x}"),
            };
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let function = text(&place.function);
        match function.rsplit_once('+') {
            Some((name, _)) if !name.is_empty() => name.to_owned(),
            _ => unnamed(&text(&place.binary)),
        }
    }

    /// Returns the call site before a return address of a process, with its line: `main at shop.c:12`.
    pub fn site(&mut self, pid: i64, address: u64) -> FrameId {
        let key = (-1 - pid, address, true);
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let at = address.saturating_sub(1);
        let mut name = self.user_name(pid, at, address);
        let place = self.source.place_of(pid, at);
        if let Some(place) = place.filter(|place| !place.source.is_empty()) {
            name.push_str(" at ");
            name.push_str(&String::from_utf8_lossy(&place.source));
        } else if name.starts_with('[') {
            // In an object without names: where in it.
            let place = self.source.place_of(pid, address);
            name = place.map_or(name, |it| String::from_utf8_lossy(&it.binary).into_owned());
        }
        let id = self.of(&name);
        if self.known.len() >= KNOWN_MAX {
            self.forget();
        }
        self.known.insert(key, id);
        id
    }

    /// Returns the frame at an address of the kernel whose trace has this event. `is_caller`: true if `address` is a
    /// return address.
    pub fn kernel(&mut self, event: &Event<'_>, address: u64, is_caller: bool) -> FrameId {
        let at = address.saturating_sub(u64::from(is_caller));
        // No process has the kernel's addresses.
        let trace = i64::try_from(event.stream().trace().index()).unwrap_or(i64::MAX);
        let key = (i64::MIN.saturating_add(trace), address, is_caller);
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let name = match self.source.kernel_function(event, at) {
            Some((name, _)) => format!("{}{OF_KERNEL}", String::from_utf8_lossy(&name)),
            None => format!("{address:#x}{OF_KERNEL}"),
        };
        let id = self.of(&name);
        if self.known.len() >= KNOWN_MAX {
            self.forget();
        }
        self.known.insert(key, id);
        id
    }

    /// Returns the frame that stands for a stack without an address.
    pub fn no_stack(&mut self) -> FrameId {
        self.of("[no stack]")
    }

    /// Returns the call stack of a record of process `pid`, the outermost frame first, and true if it has an address.
    pub fn stack(
        &mut self,
        event: &Event<'_>,
        scopes: StackScopes,
        pid: Option<i64>,
    ) -> (Box<[FrameId]>, bool) {
        let (mut user, kernel) = scopes.read(event);
        let unwound = pid.filter(|_| scopes.has_copy).and_then(|_| self.source.unwound(event));
        let mark = unwound.as_ref().and_then(UnwoundStack::mark);
        let mut are_callers = Vec::new();
        if let Some(unwound) = unwound {
            (user, are_callers) = (unwound.addresses, unwound.are_callers);
        }
        let mut frames = Vec::with_capacity(user.len() + kernel.len());
        for (depth, &address) in user.iter().enumerate() {
            let is_caller = are_callers.get(depth).copied().unwrap_or(depth > 0);
            let frame = match pid {
                Some(pid) => self.user(pid, address, is_caller),
                None => self.of(&format!("{address:#x}")),
            };
            let at = address.saturating_sub(u64::from(is_caller));
            let inlined = pid.and_then(|pid| self.inlined.get(&(pid, at)));
            frames.extend(inlined.into_iter().flatten());
            frames.push(frame);
            // Behind that there are no callers, but what else was on the stack.
            if self.name(frame) == NO_FRAME_POINTER {
                break;
            }
        }
        if let Some(mark) = mark {
            let mark = self.of(mark);
            frames.push(mark);
        }
        frames.reverse();
        let of_recorder = match is_sample(event.class().name()) {
            true => 0,
            false => frames_of_recorder(kernel.len(), &mut |depth| {
                let frame = self.kernel(event, *kernel.get(depth)?, depth > 0);
                let name = self.name(frame).strip_suffix(OF_KERNEL)?;
                Some(name.to_owned()).filter(|name| !name.starts_with("0x"))
            }),
        };
        for (depth, &address) in kernel.iter().enumerate().skip(of_recorder).rev() {
            frames.push(self.kernel(event, address, depth > 0));
        }
        let is_any = !frames.is_empty();
        if !is_any {
            frames.push(self.no_stack());
        }
        (frames.into(), is_any)
    }
}

/// Returns the frame of code in a binary, such as `libc.so.6+0x2a10`, whose function is not known. The suffix that
/// the kernel adds to the name of a removed file is left out.
fn unnamed(binary: &str) -> String {
    match binary.rsplit_once(['+', '@']).map_or(binary, |(name, _)| name) {
        "" => ANONYMOUS.to_owned(),
        // It is not a file, and has brackets of its own.
        name if name.starts_with('[') => name.to_owned(),
        name => format!("[{}]", name.strip_suffix(" (deleted)").unwrap_or(name)),
    }
}

/// Returns true for the kernel's functions that switch to another thread. Each stack with which a thread left its CPU
/// has them.
fn is_switch(name: &str) -> bool {
    const BEGINS: [&str; 3] = ["__schedule", "schedule", "preempt_schedule"];
    name.ends_with(OF_KERNEL) && BEGINS.iter().any(|begin| name.starts_with(begin))
}

/// Returns true for a frame of the kernel.
#[must_use]
pub fn is_of_kernel(name: &str) -> bool {
    name.ends_with(OF_KERNEL)
}

/// Returns a few frames of a stack as text, the innermost first: the program's, and a few of the kernel before them.
#[must_use]
pub fn short<T: AsRef<str>>(frames: &[T]) -> String {
    let switches = frames.iter().take_while(|name| is_switch(name.as_ref())).count();
    // Of a stack in which there is nothing else, that.
    let frames = frames.get(switches..).filter(|rest| !rest.is_empty()).unwrap_or(frames);
    let kernel = frames.iter().take_while(|name| name.as_ref().ends_with(OF_KERNEL)).count();
    let (kernel, user) = frames.split_at(kernel);
    let [of_user, before, alone] = SHORT;
    let most = if user.is_empty() { alone } else { before };
    let mut texts: Vec<&str> = Vec::new();
    for (part, most) in [(kernel, most), (user, of_user)] {
        texts.extend(part.iter().take(most).map(AsRef::as_ref));
        if part.len() > most {
            texts.push("…");
        }
    }
    texts.join(" < ")
}

/// The scopes in which the records of a class have call stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackScopes {
    user: Option<Scope>,
    kernel: Option<Scope>,
    /// True if the records have a copy of the program's stack.
    has_copy: bool,
}

const SCOPES: [Scope; 3] = [Scope::SpecificContext, Scope::CommonContext, Scope::Payload];

impl StackScopes {
    /// Finds the call stacks in the fields of a class.
    #[must_use]
    pub fn of(event: &Event<'_>) -> StackScopes {
        let (class, schema) = (event.class(), event.stream().trace().schema());
        let is_program = stack_copy::is_of_program(schema);
        let find = |name: &str| {
            let mut scopes = SCOPES.into_iter().filter(|it| !(is_program && *it == Scope::Payload));
            scopes.find(|&scope| class.fields(scope).any(|field| field.name() == name))
        };
        StackScopes {
            user: find("callstack_user"),
            kernel: find("callstack_kernel"),
            has_copy: stack_copy::may_be_in(schema) && find("user_stack").is_some(),
        }
    }

    /// Returns true if the class has a call stack.
    #[must_use]
    pub fn is_any(self) -> bool {
        self.user.is_some() || self.kernel.is_some()
    }

    /// Returns the places of the kernel's stack only.
    #[must_use]
    pub fn of_kernel(self) -> StackScopes {
        StackScopes { user: None, has_copy: false, ..self }
    }

    /// Returns the addresses of a record's stacks, the innermost first: first the program's, then the kernel's.
    #[must_use]
    pub fn read(self, event: &Event<'_>) -> (Vec<u64>, Vec<u64>) {
        let mut stacks = StackAddresses::default();
        let second = self.kernel.filter(|_| self.kernel != self.user);
        for scope in self.user.into_iter().chain(second) {
            event.visit(scope, &mut stacks);
        }
        if self.user.is_none() {
            stacks.user.clear();
        }
        // The outermost caller of a walk by frame pointers may be none.
        for stack in [&mut stacks.user, &mut stacks.kernel] {
            while stack.len() > 1 && stack.last() == Some(&0) {
                stack.pop();
            }
        }
        (stacks.user, stacks.kernel)
    }
}

/// The properties of a class whose records have call stacks.
#[derive(Clone, Debug)]
pub struct StackClass {
    pub scopes: StackScopes,
    /// True for the event by which a thread leaves its CPU.
    pub is_switch: bool,
    /// True for samples. If a trace has samples, other stacks are not counted.
    pub is_sample: bool,
    /// True for records of a state dump, which describe a state and not an event.
    pub is_description: bool,
    pub name: String,
}

/// The classes of the records seen so far, by their indexes.
#[derive(Debug, Default)]
pub struct StackClasses(Vec<Option<StackClass>>);

impl StackClasses {
    /// Returns the class of a record.
    pub fn of(&mut self, event: &Event<'_>) -> Option<&StackClass> {
        let index = event.class().index();
        if self.0.len() <= index {
            self.0.resize(index + 1, None);
        }
        Some(self.0.get_mut(index)?.get_or_insert_with(|| {
            let name = event.class().name();
            let short = name.rsplit(':').next().unwrap_or(name);
            StackClass {
                scopes: StackScopes::of(event),
                is_switch: wait_starts::is_switch(name),
                is_sample: is_sample(name),
                is_description: short.starts_with("lttng_statedump_"),
                name: name.to_owned(),
            }
        }))
    }

    /// Returns the class with this index, if a record of it was seen.
    pub fn get(&self, index: usize) -> Option<&StackClass> {
        self.0.get(index).and_then(Option::as_ref)
    }
}

#[derive(Default)]
struct StackAddresses {
    user: Vec<u64>,
    kernel: Vec<u64>,
    /// The number of open arrays and structures.
    depth: usize,
    within: Option<bool>,
}

impl Visit for StackAddresses {
    fn unsigned(&mut self, _: &FieldInfo, value: u64) {
        let stack = match self.within {
            Some(true) => &mut self.kernel,
            Some(false) => &mut self.user,
            None => return,
        };
        if stack.len() < DEPTH_MAX {
            stack.push(value);
        }
    }

    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.unsigned(field, value as u64);
    }

    fn real(&mut self, _: &FieldInfo, _: f64) {}

    fn text(&mut self, _: &FieldInfo, _: &[u8]) {}

    fn begin_array(&mut self, field: &FieldInfo, _: u64) {
        self.depth += 1;
        if self.depth == 1 {
            self.within = match field.name() {
                "callstack_kernel" => Some(true),
                "callstack_user" => Some(false),
                _ => None,
            };
        }
    }

    fn end_array(&mut self, _: &FieldInfo) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 {
            self.within = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_without_a_name_has_its_own_address_whichever_came_first() {
        let all = [(0, false), (1, true), (0, true), (7, true), (6, false), (8, true)];
        let forward: Vec<usize> = (0..all.len()).collect();
        let backward: Vec<usize> = forward.iter().rev().copied().collect();
        for order in [forward, backward] {
            let mut frames = Frames::new(Source::default());
            for index in order {
                let (address, is_caller) = all[index];
                let frame = frames.user(42, address, is_caller);
                assert_eq!(frames.name(frame), format!("{address:#x}"), "{is_caller}");
            }
        }
    }

    #[test]
    fn unnamed_code_has_the_name_of_its_file_also_once_that_is_removed() {
        for (binary, wanted) in [
            ("libc.so.6+0x2a10", "[libc.so.6]"),
            ("shop (deleted)+0x10", "[shop]"),
            ("memfd:my app (deleted)@0x7f00", "[memfd:my app]"),
            ("[vdso]+0x4", "[vdso]"),
            ("", ANONYMOUS),
        ] {
            assert_eq!(unnamed(binary), wanted, "{binary}");
        }
    }
}
