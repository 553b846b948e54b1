//! Calls of malloc() and its relatives that were counted in the program (`libc_sum:calls`), by call site, function and
//! size.

use std::cmp::Reverse;
use std::collections::HashMap;

use strata_ctf::read::{Event, EventClass, FieldRef, Scope, Value};
use strata_timeline::{ThreadId, World};

use super::frames::{FrameId, Frames};
use strata_report::Label;

/// The most sums that are kept separately, over all processes. Further calls are summed up by process and function.
const SUMS_MAX: usize = 1 << 17;

/// The names of functions, by their numbers in records.
const FUNCTIONS: [&str; 5] = ["malloc", "calloc", "realloc", "memalign", "free"];

/// Calls of one function from one call site, for sizes of one class.
#[derive(Clone, Debug)]
pub struct AllocationSum {
    pub label: Label,
    /// The function and line of the call, or the address.
    pub site: String,
    /// The function that was called.
    pub function: &'static str,
    /// The least and the greatest size of the class \[byte\]; `None`: a sum over all classes for which there was no
    /// room.
    pub sizes: Option<(u64, u64)>,
    /// The number of calls.
    pub count: u64,
    /// The bytes that the calls asked for and got.
    pub bytes: u64,
    /// The number of calls that failed.
    pub failed: u64,
}

/// The fields of a record of sums.
#[derive(Debug)]
pub(super) struct SumFields {
    caller: FieldRef,
    function: FieldRef,
    sizes: [FieldRef; 2],
    counts: [FieldRef; 3],
}

impl SumFields {
    /// Finds the fields in a class; `None` if its records are not sums of allocations.
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

/// The key of a sum: process, call site, function and class of sizes.
type SumKey = (ThreadId, FrameId, u64, Option<(u64, u64)>);

/// Adds up the sums of allocations that records contain.
#[derive(Debug, Default)]
pub(super) struct Sums {
    sums: HashMap<SumKey, [u64; 3]>,
}

impl Sums {
    /// Adds the sums of a record. Returns the number of allocations, their bytes, and the number that failed.
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

    /// Returns the sums by falling bytes, then by falling count.
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
