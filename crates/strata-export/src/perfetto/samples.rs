//! Samples, which are call stacks taken at the times of a timer, and call stacks of other records. Each share of an
//! export writes them in a sequence of its own, so it need not know what other shares write.

use std::collections::HashMap;
use std::hash::Hash;

use strata_ctf::read::{Event, Reader};

use super::proto::{
    Callstack, InternedData, InternedFrame, InternedMapping, InternedString, PerfSample,
    INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE,
};
use strata_analyze::debug_info::is_sample;
use strata_analyze::debug_info::{
    NamedFunction, Source, SourceOptions, StackFrame, Stacks, ANONYMOUS,
};

/// The most names, frames and stacks, of each kind, that have numbers at one time.
const KNOWN_MAX: usize = 1 << 18;
/// The most bytes of names and stacks. Beyond it, the numbers start over.
const BYTES_MAX: usize = 16 << 20;
/// The name of the mapping of the kernel's functions, as in perf.
const KERNEL: &[u8] = b"[kernel.kallsyms]";
/// The mapping of a process' code whose file is unknown.
const UNKNOWN: &[u8] = b"[unknown]";

/// The values of `Profiling.CpuMode`.
const MODE_KERNEL: i32 = 1;
const MODE_USER: i32 = 2;

/// Values that are numbered in the order in which they were added.
#[derive(Debug)]
struct NumberedSet<T>(HashMap<T, u64>);

impl<T: Eq + Hash> NumberedSet<T> {
    /// Returns the number of a value, and true if it is new.
    fn of(&mut self, what: T) -> (u64, bool) {
        let next = self.0.len() as u64 + 1;
        let number = *self.0.entry(what).or_insert(next);
        (number, number == next)
    }
}

impl<T> Default for NumberedSet<T> {
    fn default() -> NumberedSet<T> {
        NumberedSet(HashMap::new())
    }
}

#[derive(Debug, Default)]
struct InternedStacks {
    /// The size of all names and stacks \[byte\].
    bytes: usize,
    functions: NumberedSet<Vec<u8>>,
    paths: NumberedSet<Vec<u8>>,
    frames: NumberedSet<(u64, u64, u64)>,
    stacks: NumberedSet<Vec<u64>>,
}

/// The CPU, process and thread of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleOf {
    pub cpu: Option<u32>,
    pub pid: i32,
    pub tid: i32,
}

/// Makes samples of records, and names the addresses in call stacks.
#[derive(Debug)]
pub(super) struct Samples {
    source: Source,
    known: InternedStacks,
    /// True if a packet was made, so that the sequence has begun.
    begun: bool,
    /// True for classes of samples, by the class' index.
    classes: Vec<Option<bool>>,
}

/// An encoded sample: the sample, the names that occur first in it, and the flags of its packet.
pub(super) type EncodedSample = (PerfSample, InternedData, u32);

impl Samples {
    pub(super) fn new(reader: &Reader, options: &SourceOptions) -> Samples {
        let source = Source::new(reader, options);
        Samples { source, known: InternedStacks::default(), begun: false, classes: Vec::new() }
    }

    /// Takes from a record which objects a process has loaded. All records must be passed.
    pub(super) fn learn(&mut self, event: &Event<'_>) {
        self.source.learn(event);
    }

    /// Returns true if a record that was passed to [`Samples::learn`] has a call stack.
    pub(super) fn has_calls(&self, event: &Event<'_>) -> bool {
        self.source.has_calls(event)
    }

    /// Returns the call stacks of a record that was passed to [`Samples::learn`]; `None` if it has none, or they are
    /// empty.
    pub(super) fn stacks(&mut self, event: &Event<'_>) -> Option<Stacks> {
        let stacks = self.source.stacks(event)?;
        let is_any =
            |stack: &Option<Vec<StackFrame>>| stack.as_ref().is_some_and(|it| !it.is_empty());
        (is_any(&stacks.kernel) || is_any(&stacks.user)).then_some(stacks)
    }

    /// Returns the kernel's functions whose addresses are in fields of a record.
    pub(super) fn functions(&mut self, event: &Event<'_>) -> Vec<NamedFunction> {
        self.source.functions(event)
    }

    /// Returns true if a record is a sample.
    pub(super) fn is_one(&mut self, event: &Event<'_>) -> bool {
        let index = event.class().index();
        if self.classes.len() <= index {
            self.classes.resize(index + 1, None);
        }
        let is_one = || is_sample(event.class().name());
        self.classes.get_mut(index).is_some_and(|slot| *slot.get_or_insert_with(is_one))
    }

    /// Makes a sample of a record that was passed to [`Samples::learn`]; `None` if it has no call stack.
    /// `is_muted`: true if another share of the work writes the sample.
    pub(super) fn make(
        &mut self,
        event: &Event<'_>,
        of: SampleOf,
        is_muted: bool,
    ) -> Option<Option<EncodedSample>> {
        let stacks = self.stacks(event)?;
        let (kernel, user) = (stacks.kernel.unwrap_or_default(), stacks.user.unwrap_or_default());
        if is_muted {
            return Some(None);
        }
        let known = &self.known;
        let most = known.functions.0.len().max(known.frames.0.len()).max(known.stacks.0.len());
        let is_first = !self.begun || most >= KNOWN_MAX || known.bytes >= BYTES_MAX;
        if is_first {
            self.begun = true;
            self.known = InternedStacks::default();
        }
        let mut new = InternedData::default();
        // The outermost first.
        let user: Vec<StackFrame> = user.iter().flat_map(StackFrame::expanded).collect();
        let frames = user.iter().rev().map(|frame| (frame, false));
        let frames = frames.chain(kernel.iter().rev().map(|frame| (frame, true)));
        let frames = frames.map(|(frame, is_kernel)| self.frame(frame, is_kernel, &mut new));
        let frame_ids: Vec<u64> = frames.collect();
        let (stack, is_new) = self.known.stacks.of(frame_ids.clone());
        if is_new {
            self.known.bytes += 8 * frame_ids.len();
            new.callstacks.push(Callstack { iid: Some(stack), frame_ids });
        }
        let id = |id: i32| u32::try_from(id).ok();
        let sample = PerfSample {
            cpu: of.cpu,
            pid: id(of.pid),
            tid: id(of.tid),
            callstack_iid: Some(stack),
            cpu_mode: Some(if kernel.is_empty() { MODE_USER } else { MODE_KERNEL }),
        };
        let flags = if is_first { INCREMENTAL_STATE_CLEARED } else { 0 } | NEEDS_INCREMENTAL_STATE;
        Some(Some((sample, new, flags)))
    }

    fn frame(&mut self, frame: &StackFrame, is_kernel: bool, new: &mut InternedData) -> u64 {
        let place = &frame.place;
        let (object, offset) = match is_kernel {
            true => (KERNEL, None),
            false => in_object(&place.binary),
        };
        let name = function(&place.function);
        let name = match (name.is_empty(), object == ANONYMOUS.as_bytes()) {
            (false, _) => name,
            // All code that a program has made is one function, as far as anybody knows.
            (true, true) => object.to_vec(),
            (true, false) => format!("{:#x}", frame.address).into_bytes(),
        };
        let string = |iid, str: &[u8]| InternedString { iid: Some(iid), str: Some(str.to_vec()) };
        let (function, is_new) = self.known.functions.of(name.clone());
        if is_new {
            self.known.bytes += name.len();
            new.function_names.push(string(function, &name));
        }
        let (path, is_new) = self.known.paths.of(object.to_vec());
        if is_new {
            self.known.bytes += object.len();
            new.mapping_paths.push(string(path, object));
            // A file is one mapping here, by the number of its path.
            new.mappings.push(InternedMapping { iid: Some(path), path_string_ids: vec![path] });
        }
        let rel_pc = offset.unwrap_or(frame.address);
        let (number, is_new) = self.known.frames.of((function, path, rel_pc));
        if is_new {
            new.frames.push(InternedFrame {
                iid: Some(number),
                function_name_id: Some(function),
                mapping_id: Some(path),
                rel_pc: Some(rel_pc),
            });
        }
        number
    }
}

/// Returns the function in a text such as `pay+0x7e`: `pay`. An inlined function has no offset.
fn function(text: &[u8]) -> Vec<u8> {
    let is_offset = |rest: &[u8]| rest.starts_with(b"+0");
    let end = text.iter().rposition(|&byte| byte == b'+').unwrap_or(text.len());
    let end = if text.get(end..).is_some_and(is_offset) { end } else { text.len() };
    text.get(..end).unwrap_or_default().to_vec()
}

/// Returns the object and the offset in a text such as `shop+0x1450` or `shop@0x401450`: `shop` and 0x1450, if it has
/// an offset.
pub(super) fn in_object(text: &[u8]) -> (&[u8], Option<u64>) {
    let Some(at) = text.iter().rposition(|byte| b"+@".contains(byte)) else {
        return (if text.is_empty() { UNKNOWN } else { text }, None);
    };
    let (object, offset) = text.split_at(at);
    let offset = std::str::from_utf8(offset).ok().and_then(|it| it.get(3..));
    (object, offset.and_then(|digits| u64::from_str_radix(digits, 16).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions_and_objects_are_without_their_offsets() {
        assert_eq!(function(b"pay+0x7e"), b"pay");
        assert_eq!(function(b"operator++0x1"), b"operator+");
        assert_eq!(function(b"pay"), b"pay");
        assert_eq!(in_object(b"shop+0x1450"), (&b"shop"[..], Some(0x1450)));
        assert_eq!(in_object(b"libstdc++.so@0x10"), (&b"libstdc++.so"[..], Some(0x10)));
        assert_eq!(in_object(b"shop"), (&b"shop"[..], None));
        assert_eq!(in_object(b""), (UNKNOWN, None));
    }

    #[test]
    fn what_has_a_number_keeps_it() {
        let mut numbers = NumberedSet::default();
        assert_eq!(
            [numbers.of("a"), numbers.of("b"), numbers.of("a")],
            [(1, true), (2, true), (1, false)]
        );
    }
}
