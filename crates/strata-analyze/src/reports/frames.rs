//! Frames of call stacks: addresses of a record as names of functions.

use std::collections::HashMap;

use strata_ctf::read::{Event, EventClass, FieldInfo, Scope, Visit};
use strata_timeline::{ThreadId, World};

use crate::debug_info::recorder::{frames_of_recorder, is_sample};
use crate::debug_info::Source;

/// Addresses of one stack that are looked at.
const DEPTH_MAX: usize = 512;
/// Frames that are told apart; what is more has one name.
const FRAMES_MAX: usize = 1 << 20;
/// Addresses whose frames are remembered.
const KNOWN_MAX: usize = 1 << 18;

/// What the name of a frame of the kernel ends in.
const OF_KERNEL: &str = "_[k]";
/// Frames of a stack's short text: of a program, of the kernel in front of these, and of the kernel alone.
const SHORT: [usize; 3] = [4, 1, 4];

/// A frame, by its number in [`Frames`].
pub type FrameId = u32;

/// Names of frames, and what addresses they are.
#[derive(Debug)]
pub struct Frames {
    names: Vec<Box<str>>,
    numbers: HashMap<Box<str>, FrameId>,
    source: Source,
    version: u64,
    known: HashMap<(i64, u64), FrameId>,
}

impl Frames {
    /// By what is found so.
    #[must_use]
    pub fn new(source: Source) -> Frames {
        let (names, numbers, known) = (Vec::new(), HashMap::new(), HashMap::new());
        Frames { names, numbers, source, version: 0, known }
    }

    /// All records are to be told: some say what a process has loaded.
    pub fn learn(&mut self, event: &Event<'_>) {
        self.source.learn(event);
        if self.source.version() != self.version {
            self.version = self.source.version();
            self.known.clear();
        }
    }

    /// The number of a thread's process, whose addresses those of its stacks are: also where that is said only behind the
    /// event.
    #[must_use]
    pub fn process(&self, world: &World, event: &Event<'_>, who: ThreadId) -> Option<i64> {
        let number = |id| world.threads.get(id).map(|thread| thread.tid.into());
        match world.threads.get(who)?.main {
            Some(main) => number(main),
            None => number(who).map(|tid| self.source.process_of(event, tid).unwrap_or(tid)),
        }
    }

    /// The frame of this name.
    pub fn of(&mut self, name: &str) -> FrameId {
        if let Some(&id) = self.numbers.get(name) {
            return id;
        }
        match u32::try_from(self.names.len()) {
            Ok(id) if self.names.len() < FRAMES_MAX => {
                self.names.push(name.into());
                self.numbers.insert(name.into(), id);
                id
            }
            // The first one is always there.
            _ => 0,
        }
    }

    /// The name of a frame.
    #[must_use]
    pub fn name(&self, id: FrameId) -> &str {
        let at = usize::try_from(id).ok();
        at.and_then(|at| self.names.get(at)).map_or("", |name| name)
    }

    /// What a process has at this address; `is_caller`: it is where a call returns to.
    pub fn user(&mut self, pid: i64, address: u64, is_caller: bool) -> FrameId {
        let at = address.saturating_sub(u64::from(is_caller));
        if let Some(&id) = self.known.get(&(pid, at)) {
            return id;
        }
        let name = self.user_name(pid, at, address);
        let id = self.of(&name);
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert((pid, at), id);
        id
    }

    fn user_name(&mut self, pid: i64, at: u64, address: u64) -> String {
        let Some(place) = self.source.place_of(pid, at) else { return format!("{address:#x}") };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let function = text(&place.function);
        match function.rsplit_once('+') {
            Some((name, _)) if !name.is_empty() => name.to_owned(),
            _ => {
                let binary = text(&place.binary);
                let name = binary.rsplit_once(['+', '@']).map_or(&*binary, |(name, _)| name);
                format!("[{name}]")
            }
        }
    }

    /// Where a process' call returns to, with the line: `main at shop.c:12`.
    pub fn site(&mut self, pid: i64, address: u64) -> FrameId {
        let key = (-1 - pid, address);
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
            self.known.clear();
        }
        self.known.insert(key, id);
        id
    }

    /// What the kernel, in whose trace this event is, has at an address; `is_caller`: it is where a call returns to.
    pub fn kernel(&mut self, event: &Event<'_>, address: u64, is_caller: bool) -> FrameId {
        let at = address.saturating_sub(u64::from(is_caller));
        // No process has the kernel's addresses.
        let trace = i64::try_from(event.stream().trace().index()).unwrap_or(i64::MAX);
        let key = (i64::MIN.saturating_add(trace), at);
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let name = match self.source.kernel_function(event, at) {
            Some((name, _)) => format!("{}{OF_KERNEL}", String::from_utf8_lossy(&name)),
            None => format!("{address:#x}{OF_KERNEL}"),
        };
        let id = self.of(&name);
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(key, id);
        id
    }

    /// The only frame of a stack without an address.
    pub fn no_stack(&mut self) -> FrameId {
        self.of("[no stack]")
    }

    /// The call stack of a record of this process, the outermost frame first, and whether an address is in it.
    pub fn stack(
        &mut self,
        event: &Event<'_>,
        scopes: StackScopes,
        pid: Option<i64>,
    ) -> (Box<[FrameId]>, bool) {
        let (user, kernel) = scopes.read(event);
        let mut frames = Vec::with_capacity(user.len() + kernel.len());
        for (depth, &address) in user.iter().enumerate().rev() {
            frames.push(match pid {
                Some(pid) => self.user(pid, address, depth > 0),
                None => self.of(&format!("{address:#x}")),
            });
        }
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

/// Whether a frame of the kernel is how it switches from a thread to another: it is in each stack with which a thread left
/// its CPU.
fn is_switch(name: &str) -> bool {
    const BEGINS: [&str; 3] = ["__schedule", "schedule", "preempt_schedule"];
    name.ends_with(OF_KERNEL) && BEGINS.iter().any(|begin| name.starts_with(begin))
}

/// A few frames of a stack, the innermost first, as a text: those of the program, and the kernel's in front of them.
#[must_use]
pub fn short(frames: &[String]) -> String {
    let switches = frames.iter().take_while(|name| is_switch(name)).count();
    // Of a stack in which there is nothing else, that.
    let frames = frames.get(switches..).filter(|rest| !rest.is_empty()).unwrap_or(frames);
    let kernel = frames.iter().take_while(|name| name.ends_with(OF_KERNEL)).count();
    let (kernel, user) = frames.split_at(kernel);
    let [of_user, before, alone] = SHORT;
    let most = if user.is_empty() { alone } else { before };
    let mut texts: Vec<&str> = Vec::new();
    for (part, most) in [(kernel, most), (user, of_user)] {
        texts.extend(part.iter().take(most).map(String::as_str));
        if part.len() > most {
            texts.push("…");
        }
    }
    texts.join(" < ")
}

/// Where a class' records have call stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackScopes {
    user: Option<Scope>,
    kernel: Option<Scope>,
}

const SCOPES: [Scope; 3] = [Scope::SpecificContext, Scope::CommonContext, Scope::Payload];

impl StackScopes {
    /// Of a class.
    #[must_use]
    pub fn of(class: &EventClass) -> StackScopes {
        let find = |name: &str| {
            SCOPES.into_iter().find(|&scope| class.fields(scope).any(|field| field.name() == name))
        };
        StackScopes { user: find("callstack_user"), kernel: find("callstack_kernel") }
    }

    /// Whether there is any.
    #[must_use]
    pub fn is_any(self) -> bool {
        self.user.is_some() || self.kernel.is_some()
    }

    /// The addresses of a record, the innermost first: the program's, and the kernel's.
    #[must_use]
    pub fn read(self, event: &Event<'_>) -> (Vec<u64>, Vec<u64>) {
        let mut stacks = StackAddresses::default();
        let second = self.kernel.filter(|_| self.kernel != self.user);
        for scope in self.user.into_iter().chain(second) {
            event.visit(scope, &mut stacks);
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

#[derive(Default)]
struct StackAddresses {
    user: Vec<u64>,
    kernel: Vec<u64>,
    /// Arrays and structures that are open, and whether the first is a stack of the kernel's.
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
