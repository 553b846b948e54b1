//! Calls of malloc()'s family that were counted in the program (`libc_sum:calls`), by call site, function and size.

use std::cmp::Reverse;
use std::collections::HashMap;

use strata_ctf::read::{Event, EventClass, FieldRef, Scope, Value};
use strata_timeline::{ThreadId, World};

use super::frames::{FrameId, Frames};
use super::label::Label;

/// Rows that are told apart, of all processes; the rest is one of each process and function.
const SUMS_MAX: usize = 1 << 17;

/// By number, as the records have them.
const FUNCTIONS: [&str; 5] = ["malloc", "calloc", "realloc", "memalign", "free"];

/// Calls of one function from one place for sizes of one class.
#[derive(Clone, Debug)]
pub struct AllocationSum {
    /// The process.
    pub label: Label,
    /// The function and line, or the address, that called.
    pub site: String,
    /// What was called.
    pub function: &'static str,
    /// Sizes from here to there \[byte\]; `None`: of all classes that found no room.
    pub sizes: Option<(u64, u64)>,
    /// How many calls.
    pub count: u64,
    /// What they asked for and got \[byte\].
    pub bytes: u64,
    /// How many failed.
    pub failed: u64,
}

/// Where a record has it.
#[derive(Debug)]
pub(super) struct SumFields {
    caller: FieldRef,
    function: FieldRef,
    sizes: [FieldRef; 2],
    counts: [FieldRef; 3],
}

impl SumFields {
    /// `None`: it is none of those.
    pub(super) fn of(class: &EventClass) -> Option<SumFields> {
        if class.name() != "libc_sum:calls" {
            return None;
        }
        let find = |name: &str| class.find_in(Scope::Payload, name);
        Some(SumFields {
            caller: find("caller")?,
            function: find("function")?,
            sizes: [find("size_min")?, find("size_max")?],
            counts: [find("count")?, find("bytes")?, find("failed")?],
        })
    }
}

/// What is told apart: process, call site, function, sizes.
type SumKey = (ThreadId, FrameId, u64, Option<(u64, u64)>);

/// Adds them up.
#[derive(Debug, Default)]
pub(super) struct Sums {
    sums: HashMap<SumKey, [u64; 3]>,
}

impl Sums {
    /// Takes what a record says. Count, bytes and failures of allocations.
    pub(super) fn add(
        &mut self,
        event: &Event<'_>,
        fields: &SumFields,
        (process, pid): (ThreadId, i64),
        frames: &mut Frames,
    ) -> Option<[u64; 3]> {
        let number = |field: &FieldRef| match event.value(field)? {
            Value::Unsigned(value) => Some(value),
            Value::Signed(value) => Some(value as u64),
            _ => None,
        };
        let [count, bytes, failed] = &fields.counts;
        let counts = [number(count)?, number(bytes)?, number(failed)?];
        // Those that are not known are one.
        let function = number(&fields.function)?.min(FUNCTIONS.len() as u64);
        let sizes = (number(&fields.sizes[0])?, number(&fields.sizes[1])?);
        let mut key = (process, frames.site(pid, number(&fields.caller)?), function, Some(sizes));
        if self.sums.len() >= SUMS_MAX && !self.sums.contains_key(&key) {
            key = (process, 0, function, None);
        }
        let sum = self.sums.entry(key).or_default();
        for (sum, one) in sum.iter_mut().zip(counts) {
            *sum = sum.saturating_add(one);
        }
        (name(function) != "free").then_some(counts)
    }

    /// By falling bytes, then by falling count.
    pub(super) fn finish(self, world: &World, frames: &Frames) -> Vec<AllocationSum> {
        let sums = self.sums.into_iter();
        let mut sums: Vec<AllocationSum> = sums
            .map(|((process, frame, function, sizes), [count, bytes, failed])| AllocationSum {
                label: Label::process(world, process),
                site: frames.name(frame).to_owned(),
                function: name(function),
                sizes,
                count,
                bytes,
                failed,
            })
            .collect();
        sums.sort_by_cached_key(|sum| {
            let place = (sum.site.clone(), sum.function, sum.sizes, sum.label.clone());
            (Reverse((sum.bytes, sum.count)), place)
        });
        sums
    }
}

fn name(function: u64) -> &'static str {
    usize::try_from(function).ok().and_then(|at| FUNCTIONS.get(at).copied()).unwrap_or("?")
}
