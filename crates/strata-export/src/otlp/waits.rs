//! What a span's thread did and waited for, as attributes of the span.

use std::collections::BTreeMap;

use strata_analyze::reports::threads::Wait;
use strata_analyze::reports::wait::{History, PathPart, PathPartKind};
use strata_ctf::read::{Reader, TimeRange};
use strata_timeline::{span_roles, Observer, PairRule, ThreadId, Timeline, World};

use super::attributes::Attributes;
use super::proto::AnyValue;

/// The most kinds of waits that have an attribute of their own. All others share one attribute.
const KINDS_MAX: usize = 16;
/// The most parts of a critical path that are named.
const PARTS_MAX: usize = 8;
/// The most steps that the paths of all spans may take together. With nested spans, the same time is visited several
/// times.
const STEPS_MAX: u64 = 1 << 29;

/// An observer that requests every record and ignores them all.
#[derive(Debug)]
pub struct EachRecord;

impl Observer for EachRecord {
    const RECORDS: bool = true;
}

/// The states of threads, from which the critical paths of spans are made.
///
/// They are kept in a pass of their own, before the one that makes the spans. In both, threads get their numbers in the
/// order in which they are met, so that both must observe the same: [`States::pass`] and [`States::timeline`] do.
#[derive(Debug)]
pub struct States {
    history: History,
    /// The world at the end of the traces, which has all names.
    world: World,
    part_text: fn(&PathPart) -> String,
    steps_left: u64,
}

impl States {
    /// Returns the observer of the pass that keeps states within a range.
    #[must_use]
    pub fn pass(range: TimeRange) -> (History, EachRecord) {
        (History::new(range, None), EachRecord)
    }

    /// Returns the timeline for the pass that keeps states.
    #[must_use]
    pub fn timeline(reader: &Reader, pairs: &[PairRule]) -> Timeline {
        Timeline::with_spans(reader, span_roles(reader, pairs))
    }

    /// Takes the states of a pass over all records. `part_text`: function that describes a part of a path for
    /// people.
    #[must_use]
    pub fn new(history: History, world: World, part_text: fn(&PathPart) -> String) -> States {
        States { history, world, part_text, steps_left: STEPS_MAX }
    }

    /// Adds to `attributes` what a thread did between two times. Returns false if that would take too long.
    pub(super) fn add(
        &mut self,
        attributes: &mut Attributes,
        thread: ThreadId,
        (from, to): (i64, i64),
    ) -> bool {
        let left = &mut self.steps_left;
        let Some(path) = self.history.path_within(&self.world, thread, (from, to), left) else {
            return false;
        };
        add_sums(attributes, &path);
        let mut leaves = BTreeMap::new();
        path.parts.iter().for_each(|part| collect(part, self.part_text, &mut leaves));
        let mut leaves: Vec<(String, u64)> = leaves.into_iter().collect();
        leaves.sort_by_key(|&(_, nanos)| std::cmp::Reverse(nanos));
        leaves.truncate(PARTS_MAX);
        let is_known = path.parts.iter().any(|part| part.what != PathPartKind::Unknown);
        if is_known {
            let texts = leaves.into_iter().map(|(text, nanos)| {
                AnyValue::text(format!(
                    "{}.{:03} ms {text}",
                    nanos / 1_000_000,
                    nanos / 1_000 % 1_000
                ))
            });
            attributes.add("strata.critical_path", AnyValue::list(texts.collect()));
        }
        true
    }
}

/// Adds the time by state, and that of the waits by their kind.
fn add_sums(attributes: &mut Attributes, path: &PathPart) {
    let (mut running, mut interrupted, mut runnable, mut blocked) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut unknown = 0_u64;
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for part in &path.parts {
        let sum = match &part.what {
            PathPartKind::Running => &mut running,
            PathPartKind::Interrupt(_) => &mut interrupted,
            PathPartKind::Runnable { .. } => &mut runnable,
            PathPartKind::Blocked(wait) => {
                let mut kind = kind(wait);
                if kinds.len() >= KINDS_MAX && !kinds.contains_key(&kind) {
                    kind = "other".to_owned();
                }
                let sum = kinds.entry(kind).or_default();
                *sum = sum.saturating_add(part.nanos);
                &mut blocked
            }
            _ => &mut unknown,
        };
        *sum = sum.saturating_add(part.nanos);
    }
    if running == 0 && runnable == 0 && blocked == 0 {
        return;
    }
    for (key, nanos) in [
        ("strata.running_ns", running),
        ("strata.interrupted_ns", interrupted),
        ("strata.runnable_ns", runnable),
        ("strata.blocked_ns", blocked),
        ("strata.unknown_ns", unknown),
    ] {
        attributes.add(key, AnyValue::unsigned(nanos));
    }
    for (kind, nanos) in kinds {
        attributes.add(&format!("strata.waited_ns.{kind}"), AnyValue::unsigned(nanos));
    }
}

/// Returns the kind of a wait: the system call that blocked, or the cause of the sleep. Letters that are unusual in keys
/// become `_`.
fn kind(wait: &Wait) -> String {
    let text = match (wait.call.as_str(), wait.sleep) {
        ("", "") => "no_call",
        ("", sleep) => sleep,
        (call, _) => call,
    };
    let usual = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    text.chars().take(64).map(usual).collect()
}

/// Adds the times of the innermost parts of a path, which have no parts themselves.
fn collect(
    part: &PathPart,
    part_text: fn(&PathPart) -> String,
    leaves: &mut BTreeMap<String, u64>,
) {
    // Of a wait whose waker is known, but not what that did, the wait says more.
    let is_leaf = part.parts.iter().all(|below| below.what == PathPartKind::Unknown);
    if is_leaf {
        let sum = leaves.entry(part_text(part)).or_default();
        *sum = sum.saturating_add(part.nanos);
    } else {
        part.parts.iter().for_each(|below| collect(below, part_text, leaves));
    }
}
