//! Finds the places in the source code of addresses, such as an event's instruction pointer.

use std::collections::HashMap;
use std::io::Write as _;
use std::rc::Rc;
use std::sync::Arc;

use strata_ctf::kernel_symbols::FUNCTION_BYTES_MAX;
use strata_ctf::read::{Event, Reader};

use super::files::SourceOptions;
use super::functions::{KernelFunctions, NamedFunction};
use super::objects::{Objects, RecordStacks};
use super::recorder_frames::{frames_of_recorder, is_sample};
use super::stack_fields::{FileNumber, MappedObject};
use super::unwind::{StackCopy, StackEnd, TableAt, Unwinder, UnwoundStack};

/// The most memory for remembered places, and the memory of each in addition to its texts \[byte\].
const PLACES_BYTES: usize = 64 << 20;
const PLACE_BYTES: usize = 192;

/// A place in the source code. Unknown parts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedPlace {
    /// The object and the offset in it, `messages+0x1450`; or an address, `messages@0x401450`, if the program is not
    /// relocatable.
    pub binary: Vec<u8>,
    /// The function and offset, such as `main+0x100`.
    pub function: Vec<u8>,
    /// The file and line, such as `main.c:12`.
    pub source: Vec<u8>,
    /// The functions that the compiler has inlined at this place, the innermost first.
    pub inlined: Vec<InlinedFunction>,
}

/// A function that the compiler has inlined into another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InlinedFunction {
    /// The function's name.
    pub function: Vec<u8>,
    /// The file and line in the function.
    pub source: Vec<u8>,
}

/// A frame of a call stack: an address and its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackFrame {
    /// The address as recorded. For callers, it is the return address.
    pub address: u64,
    /// The place in the source code; for callers, that of the call.
    pub place: Rc<ResolvedPlace>,
}

impl StackFrame {
    /// Returns the frame as text, `pay+0x7e (shop.c:18)`. If the function is not known, the text has the object and
    /// offset, or else the address.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        let mut text = match (&self.place.function[..], &self.place.binary[..]) {
            ([], []) => format!("{:#x}", self.address).into_bytes(),
            ([], binary) => binary.to_vec(),
            (function, _) => function.to_vec(),
        };
        if !self.place.source.is_empty() {
            text = [&text[..], b" (", &self.place.source, b")"].concat();
        }
        text
    }

    /// Returns the frames of the functions that are inlined at the address, the innermost first, and then this frame.
    /// Names of inlined functions have no offset.
    pub fn expanded(&self) -> impl Iterator<Item = StackFrame> + '_ {
        let frame = |inlined: &InlinedFunction| StackFrame {
            address: self.address,
            place: Rc::new(ResolvedPlace {
                binary: self.place.binary.clone(),
                function: inlined.function.clone(),
                source: inlined.source.clone(),
                inlined: Vec::new(),
            }),
        };
        self.place.inlined.iter().map(frame).chain(std::iter::once(self.clone()))
    }
}

/// The name of a stack's last frame if the next return address is not in code. The function before it does not keep the
/// frame pointer, so its caller is unknown.
pub(crate) const NO_FRAME_POINTER: &str = "[no frame pointer]";

/// The name of code that belongs to no file: code that a program has generated.
pub const ANONYMOUS: &str = "[anonymous]";

/// The call stacks of an event, the innermost frame first; `None` if the event does not have that stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// The kernel's frames, without the recorder's own.
    pub kernel: Option<Vec<StackFrame>>,
    /// The program's frames.
    pub user: Option<Vec<StackFrame>>,
    /// The number of the recorder's frames that were removed before the first of `kernel`.
    pub of_recorder: usize,
}

/// A file, an address in it, and the begin of the object if it has no file.
type PlaceKey = (FileNumber, u64, u64);

/// Finds the places in the source code for addresses in traces.
pub struct Source {
    options: SourceOptions,
    objects: Objects,
    places: HashMap<PlaceKey, Rc<ResolvedPlace>>,
    places_bytes: usize,
    kernels: KernelFunctions,
    unwinder: Unwinder,
}

impl Default for Source {
    fn default() -> Source {
        let options = SourceOptions::default();
        let budget = &options.files.budget;
        Source {
            objects: Objects::new(budget),
            kernels: KernelFunctions::in_folders(std::iter::empty(), budget),
            options,
            places: HashMap::new(),
            places_bytes: 0,
            unwinder: Unwinder::default(),
        }
    }
}

impl Source {
    /// Prepares the lookup for these traces. Reads the objects (programs and libraries) that existed before their
    /// first events.
    #[must_use]
    pub fn new(reader: &Reader, options: &SourceOptions) -> Source {
        let objects = Objects::begin(reader, &options.files.budget);
        let folders = reader.traces().iter().map(|trace| trace.path().to_path_buf());
        let kernels = KernelFunctions::in_folders(folders, &options.files.budget);
        Source { options: options.clone(), objects, kernels, ..Source::default() }
    }

    /// Updates the mapped objects by an event. All events must be passed, in the order of time.
    pub fn learn(&mut self, event: &Event<'_>) {
        let _ = self.objects.event(event);
    }

    /// Returns the place where the event was recorded; `None` if it has no instruction pointer.
    pub fn place(&mut self, event: &Event<'_>) -> Option<Rc<ResolvedPlace>> {
        let (ip, object) = self.objects.event(event)?;
        let Some(object) = object.copied() else { return Some(Rc::default()) };
        Some(self.of_object(&object, ip))
    }

    /// Returns the place of an address of a process, from any trace; `None` if no object is known there.
    pub fn place_of(&mut self, pid: i64, address: u64) -> Option<Rc<ResolvedPlace>> {
        let found = self.objects.find_in(pid, address).map(|(trace, object)| (trace, *object));
        let trace = found.map(|(trace, _)| trace);
        let object = found.map(|(_, object)| object);
        if let Some(place) = self.generated(trace, pid, object.as_ref(), address) {
            return Some(place);
        }
        Some(self.of_object(&object?, address))
    }

    /// Returns true if a process certainly has no code at an address, since a trace reports all of its code.
    #[must_use]
    pub fn is_outside(&self, pid: i64, address: u64) -> bool {
        self.objects.is_outside(pid, address)
    }

    /// Returns the process of a thread, according to the event's trace; `None` if it is not known.
    #[must_use]
    pub fn process_of(&self, event: &Event<'_>, tid: i64) -> Option<i64> {
        self.objects.process_of(event.stream().trace().index(), tid)
    }

    /// Returns a number that changes whenever objects change, since addresses may then have other places.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.objects.version()
    }

    /// Returns the function at an address of the kernel whose trace has this event, and the distance from the
    /// function's begin.
    pub fn kernel_function(&mut self, event: &Event<'_>, address: u64) -> Option<(Vec<u8>, u64)> {
        let trace = event.stream().trace();
        let symbols = self.kernels.of_trace(trace.index(), trace.path());
        let (name, offset) = symbols.find(address)?;
        (offset < FUNCTION_BYTES_MAX).then(|| (name.to_vec(), offset))
    }

    /// Returns the function at an address of the kernel, from the first trace that has one there.
    pub fn kernel_name(&mut self, address: u64) -> Option<Vec<u8>> {
        self.kernels.first_at(address)
    }

    /// Returns the kernel's functions whose addresses are in fields of an event.
    pub fn functions(&mut self, event: &Event<'_>) -> Vec<NamedFunction> {
        if self.options.no_symbols {
            return Vec::new();
        }
        self.kernels.named(event)
    }

    /// Returns true if an event that was passed to [`Source::learn`] has a call stack with an address in it.
    #[must_use]
    pub fn has_calls(&self, event: &Event<'_>) -> bool {
        let stacks = self.objects.stacks(event).map(|it| it.stacks);
        stacks.iter().flatten().flatten().any(|stack| !stack.is_empty())
    }

    /// Returns the call stacks of an event that was passed to [`Source::learn`]; `None` if it has none.
    pub fn stacks(&mut self, event: &Event<'_>) -> Option<Stacks> {
        let RecordStacks { stacks: [kernel, mut user], copy, pid } = self.objects.stacks(event)?;
        let unwound = self.unwind(event, pid, copy.as_ref(), user.as_deref());
        let mark = unwound.as_ref().and_then(UnwoundStack::mark);
        let mut are_callers = Vec::new();
        if let Some(unwound) = unwound {
            (user, are_callers) = (Some(unwound.addresses), unwound.are_callers);
        }
        let trace = event.stream().trace();
        let symbols = match kernel.as_ref().is_some_and(|stack| !stack.is_empty()) {
            true => self.kernels.of_trace(trace.index(), trace.path()),
            false => Arc::default(),
        };
        let mut in_kernel = |(at, address): (usize, u64)| {
            // A caller goes on behind its call, which may be the last that it does.
            let found = symbols.find(address.saturating_sub(u64::from(at > 0)));
            let found = found.filter(|(_, offset)| *offset < FUNCTION_BYTES_MAX);
            let mut place = ResolvedPlace::default();
            if let Some((name, offset)) = found {
                place.function = name.to_vec();
                let _ = write!(place.function, "+{:#x}", offset + u64::from(at > 0));
            }
            StackFrame { address, place: Rc::new(place) }
        };
        let mut of_recorder = 0;
        let kernel = kernel.map(|stack| {
            let mut frames: Vec<StackFrame> =
                stack.into_iter().enumerate().map(&mut in_kernel).collect();
            let mut name = |at: usize| {
                let function = &frames.get(at)?.place.function;
                let name = String::from_utf8_lossy(function);
                name.rsplit_once('+').map(|(name, _)| name.to_owned())
            };
            if !is_sample(event.class().name()) {
                of_recorder = frames_of_recorder(frames.len(), &mut name);
                frames.drain(..of_recorder);
            }
            frames
        });
        let end = user.as_ref().and_then(|stack| end_of(&self.objects, pid, stack));
        let mut in_program = |(at, address): (usize, u64)| {
            let is_caller = are_callers.get(at).copied().unwrap_or(at > 0);
            let inside = address.saturating_sub(u64::from(is_caller));
            let index = trace.index();
            let object = pid.and_then(|pid| self.objects.at(index, pid, inside)).copied();
            let generated =
                pid.and_then(|pid| self.generated(Some(index), pid, object.as_ref(), inside));
            if let Some(place) = generated {
                return StackFrame { address, place };
            }
            let place = object.map(|object| self.of_object(&object, inside)).unwrap_or_default();
            StackFrame { address, place }
        };
        let user = user.map(|stack| {
            let code = stack.iter().copied().take(end.unwrap_or(stack.len())).enumerate();
            let mut frames: Vec<StackFrame> = code.map(&mut in_program).collect();
            frames.extend(end.and_then(|end| stack.get(end)).map(|&address| {
                let function = NO_FRAME_POINTER.as_bytes().to_vec();
                let place = ResolvedPlace { function, ..ResolvedPlace::default() };
                StackFrame { address, place: Rc::new(place) }
            }));
            frames.extend(mark.filter(|_| end.is_none()).map(|mark| {
                let function = mark.as_bytes().to_vec();
                let place = ResolvedPlace { function, ..ResolvedPlace::default() };
                StackFrame { address: 0, place: Rc::new(place) }
            }));
            frames
        });
        Some(Stacks { kernel, user, of_recorder })
    }

    /// Returns the program's stack of an event that was passed to [`Source::learn`], unwound from the copy in its record;
    /// `None` if it has no copy, or if the stack by frame pointers reaches further.
    pub(crate) fn unwound(&mut self, event: &Event<'_>) -> Option<UnwoundStack> {
        let RecordStacks { stacks: [_, user], copy, pid } = self.objects.stacks(event)?;
        self.unwind(event, pid, copy.as_ref(), user.as_deref())
    }

    fn unwind(
        &mut self,
        event: &Event<'_>,
        pid: Option<i64>,
        copy: Option<&StackCopy>,
        user: Option<&[u64]>,
    ) -> Option<UnwoundStack> {
        let (copy, pid) = (copy?, pid?);
        let trace = event.stream().trace().index();
        let Source { objects, options, unwinder, .. } = self;
        let mut table_at = |address: u64| {
            let Some(object) = objects.at(trace, pid, address) else {
                return match objects.is_outside(pid, address) {
                    true => TableAt::NoCode,
                    false => TableAt::NoTable,
                };
            };
            let file = objects.files.get(object.file);
            let Some(table) = options.files.unwind_table(options, file) else {
                return TableAt::NoTable;
            };
            let behind = address - object.begin;
            let place = match object.offset {
                Some(offset) => table.address_of(behind.saturating_add(offset)),
                None if object.is_pic => Some(behind),
                None => Some(address),
            };
            place.map_or(TableAt::NoTable, |place| TableAt::Table(table, object.file, place))
        };
        let unwound = unwinder.unwind(copy, &mut table_at);
        // The walk by frame pointers is not limited to the copied part.
        let is_longer = user.is_some_and(|user| {
            user.len() > unwound.addresses.len() && user.starts_with(&unwound.addresses)
        });
        (unwound.end == StackEnd::Whole || !is_longer).then_some(unwound)
    }

    /// Returns the place of an address in code that a process has generated and named. `object`: the object that is
    /// mapped there, if known. The result is not remembered, since names of generated code change.
    fn generated(
        &self,
        trace: Option<usize>,
        pid: i64,
        object: Option<&MappedObject>,
        address: u64,
    ) -> Option<Rc<ResolvedPlace>> {
        let path = object.map(|object| &*self.objects.files.get(object.file).path);
        if self.options.no_symbols || !path.is_none_or(is_generated) {
            return None;
        }
        let (name, offset) = self.objects.generated_by(trace, pid, address)?;
        let mut place = ResolvedPlace { function: name.to_vec(), ..ResolvedPlace::default() };
        let _ = match offset {
            0 => write!(place.function, "+0"),
            offset => write!(place.function, "+{offset:#x}"),
        };
        let begin = object.map_or(0, |object| object.begin);
        let _ = write!(place.binary, "{ANONYMOUS}+{:#x}", address.wrapping_sub(begin));
        Some(Rc::new(place))
    }

    fn of_object(&mut self, object: &MappedObject, ip: u64) -> Rc<ResolvedPlace> {
        let behind = ip - object.begin;
        let is_anonymous = is_anonymous(&self.objects.files.get(object.file).path);
        let address = match object.offset.filter(|_| !is_anonymous) {
            Some(offset) => behind.saturating_add(offset),
            None if object.is_pic => behind,
            None => ip,
        };
        // Of what has no file, the place is where it is in memory.
        let key = (object.file, address, if is_anonymous { object.begin } else { 0 });
        if let Some(place) = self.places.get(&key) {
            return Rc::clone(place);
        }
        let place = Rc::new(self.look(object, address));
        let inlined =
            place.inlined.iter().map(|it| PLACE_BYTES + it.function.len() + it.source.len());
        let bytes = PLACE_BYTES
            + place.binary.len()
            + place.function.len()
            + place.source.len()
            + inlined.sum::<usize>();
        if self.places_bytes + bytes > PLACES_BYTES {
            self.places.clear();
            self.places_bytes = 0;
        }
        self.places_bytes += bytes;
        self.places.insert(key, Rc::clone(&place));
        place
    }

    fn look(&self, object: &MappedObject, address: u64) -> ResolvedPlace {
        let file = self.objects.files.get(object.file);
        let files = &self.options.files;
        let (address, known) = files.find(&self.options, file, address, object.offset.is_some());
        let mut place =
            ResolvedPlace { binary: self.named(&file.path), ..ResolvedPlace::default() };
        let sign = if object.is_pic { '+' } else { '@' };
        // Writing to memory does not fail.
        let _ = write!(place.binary, "{sign}{address:#x}");
        if let Some((name, offset)) = known.function {
            place.function = name;
            let _ = match offset {
                0 => write!(place.function, "+0"),
                offset => write!(place.function, "+{offset:#x}"),
            };
        }
        let source = |line: Option<(Vec<u8>, u32)>| {
            let mut text = Vec::new();
            if let Some((path, line)) = line {
                text = self.named(&path);
                let _ = write!(text, ":{line}");
            }
            text
        };
        place.source = source(known.line);
        let inlined = known.inlined.into_iter();
        let inlined =
            inlined.map(|(function, line)| InlinedFunction { function, source: source(line) });
        place.inlined = inlined.collect();
        place
    }

    fn named(&self, path: &[u8]) -> Vec<u8> {
        if path.starts_with(b"//") {
            return ANONYMOUS.as_bytes().to_vec();
        }
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        if self.options.full_path { path } else { name }.to_vec()
    }
}

/// Returns the index of the first return address in a stack that is not in code.
fn end_of(objects: &Objects, pid: Option<i64>, stack: &[u64]) -> Option<usize> {
    let pid = pid?;
    // The outermost function's caller is none, which is no address.
    let zeros = stack.iter().rev().take_while(|address| **address == 0).count();
    let stack = stack.get(..stack.len() - zeros)?;
    let is_outside = |address: u64| objects.is_outside(pid, address.saturating_sub(1));
    let mut callers = stack.iter().enumerate().skip(1);
    callers.find(|(_, address)| is_outside(**address)).map(|(end, _)| end)
}

/// Returns true if code belongs to no file, judging by the path that the kernel gives.
fn is_anonymous(path: &[u8]) -> bool {
    path.is_empty() || path.starts_with(b"//")
}

/// Returns true if a program may have generated the code of a mapping with this path: it is in memory without a name, or
/// in a file in memory, as .NET has it.
fn is_generated(path: &[u8]) -> bool {
    const BEGINS: [&[u8]; 3] = [b"/memfd:", b"/dev/zero", b"[anon"];
    is_anonymous(path) || path == b"[heap]" || BEGINS.iter().any(|begin| path.starts_with(begin))
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("options", &self.options).finish_non_exhaustive()
    }
}
