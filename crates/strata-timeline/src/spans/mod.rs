//! Pairs the begins and the ends of spans.
//!
//! A span is the time between two records of a program, such as `shop:checkout_begin` and `shop:checkout_end`. Which
//! events begin and end spans is given as [`SpanRoles`]; this module finds which begin and which end belong together:
//!
//! | records have | pairing | rule in [`Paired`] |
//! |---|---|---|
//! | a key field | the end with the same key in the same process, else in any, in whichever threads | by key |
//! | a thread | spans of a thread are nested: the end belongs to the latest open begin of the same pair | by thread |
//! | neither | the latest begin of the process, that of the same CPU first | a guess, and reported as one |
//!
//! An end closes the spans that began within its own and have no end: these are reported as unpaired ([`UnpairedSpan`], with
//! the reason [`UnpairedReason`]), as are begins that are open when the trace ends and ends without a begin. After a loss of
//! records nothing is paired across the gap that could be wrong.
//!
//! A [`Span`] also has the time that its thread spent running, runnable and blocked meanwhile ([`Spent`]), from the
//! thread's states.
//!
//! Memory is bounded: spans without a thread's stack are limited in number, a stack in depth, and a text key to 256
//! bytes with a hash for the rest. What exceeds that is reported as unpaired, and never paired wrongly.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use strata_ctf::read::{Value, Wide};

use crate::ids::names::Name;
use crate::ids::thread_id::ThreadId;

/// The most open spans that are on no thread's stack; some 200 bytes each.
const OPEN_MAX: usize = 1 << 16;
/// The most nested spans of a thread.
pub(crate) const DEPTH_MAX: usize = 256;
/// The most bytes of a text key that are kept. A hash stands for the rest.
const KEY_BYTES: usize = 256;

/// The role of an event's records: to begin or to end spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanRole {
    /// The number of the pair. Events that begin and events that end the same spans have the same number.
    pub pair: u32,
    /// The name of the spans.
    pub name: String,
    /// True if the event begins a span, false if it ends one.
    pub begins: bool,
    /// The field with the key, which distinguishes overlapping spans.
    pub key: Option<String>,
    /// A field of both ends, which has the same value if they belong together. It is not used if there is a key.
    pub check: Option<String>,
    /// A field with the address of the span's object. An end belongs to the begin with the same address.
    pub address: Option<String>,
    /// A field of the begin with the number of the thread for which the span waits.
    pub owner: Option<String>,
    /// A field of the end with the return value of the span's call.
    pub result: Option<String>,
}

/// Roles by the event's name.
pub type SpanRoles = HashMap<String, SpanRole>;

/// The value of a key field, which distinguishes overlapping spans.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SpanKey {
    /// A number, signed or not.
    Number(i128),
    /// A floating-point number, by its bits.
    Real(u64),
    /// A text or bytes: the beginning, and the hash of all of it.
    Text(Box<[u8]>, u64),
}

impl SpanKey {
    /// Returns the value of a field as a key; `None` if it is a structure or an array.
    #[must_use]
    pub fn of(value: Value<'_>) -> Option<SpanKey> {
        KeyRef::of(value).map(KeyRef::keep)
    }
}

/// A key whose text is still in its record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyRef<'a> {
    Number(i128),
    Real(u64),
    Text(&'a [u8]),
    Wide(Wide<'a>),
}

/// Returns a hash of a field's value, to compare both ends of a span; `None` for a structure or an array.
#[must_use]
pub fn check_of(value: Value<'_>) -> Option<u64> {
    KeyRef::of(value).map(KeyRef::hash)
}

impl<'a> KeyRef<'a> {
    /// Returns a number, text or bytes as a key; `None` for a structure or an array.
    pub(crate) fn of(value: Value<'a>) -> Option<KeyRef<'a>> {
        match value {
            Value::Signed(value) => Some(KeyRef::Number(value.into())),
            Value::Unsigned(value) => Some(KeyRef::Number(value.into())),
            Value::Real(value) => Some(KeyRef::Real(value.to_bits())),
            Value::Text(bytes) | Value::Blob(bytes) => Some(KeyRef::Text(bytes)),
            Value::Wide(text) => Some(KeyRef::Wide(text)),
            Value::Compound => None,
        }
    }

    fn keep(self) -> SpanKey {
        match self {
            KeyRef::Number(value) => SpanKey::Number(value),
            KeyRef::Real(bits) => SpanKey::Real(bits),
            KeyRef::Wide(text) => KeyRef::Text(text.to_text().as_bytes()).keep(),
            KeyRef::Text(text) => {
                let kept = text.get(..KEY_BYTES).unwrap_or(text);
                SpanKey::Text(kept.into(), self.hash())
            }
        }
    }

    pub(crate) fn hash(self) -> u64 {
        let mut hasher = std::collections::hash_map::DefaultHasher::new();
        match self {
            KeyRef::Number(value) => value.hash(&mut hasher),
            KeyRef::Real(bits) => bits.hash(&mut hasher),
            KeyRef::Wide(text) => text.to_text().as_bytes().hash(&mut hasher),
            KeyRef::Text(text) => text.hash(&mut hasher),
        }
        hasher.finish()
    }
}

/// The rule by which the two ends of a span were paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Paired {
    /// Both ends are of one thread.
    Thread,
    /// Both ends have the same key.
    Key,
    /// One end lacks the key that it should have. Both ends are of one thread.
    NoKey,
    /// A guess, since no record says its thread: the latest begin of the process, if possible on the same CPU.
    Guess,
}

/// The reason for which a begin or an end of a span has no partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnpairedReason {
    /// An end whose begin is missing, or in another thread.
    NoBegin,
    /// A begin whose end is missing, or in another thread.
    NoEnd,
    /// A begin after which records were discarded.
    Gap,
    /// A begin that another begin with its key followed before an end.
    Again,
    /// A begin for which there was no room: too many spans were open.
    TooMany,
}

/// A thread's time by state \[ns\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The time on a CPU \[ns\].
    pub running: u64,
    /// The time of waiting for a CPU \[ns\].
    pub runnable: u64,
    /// The time of waiting for something else \[ns\].
    pub blocked: u64,
    /// The time for which the trace does not say the state \[ns\].
    pub unknown: u64,
}

impl Spent {
    /// Returns the time since `before`, which is `nanos` in total. The rest, without a known state, is counted as
    /// unknown.
    pub(crate) fn since(self, before: Spent, nanos: u64) -> Spent {
        let mut left = nanos;
        let mut part = |now: u64, before: u64| {
            let part = now.saturating_sub(before).min(left);
            left -= part;
            part
        };
        let running = part(self.running, before.running);
        let runnable = part(self.runnable, before.runnable);
        let blocked = part(self.blocked, before.blocked);
        Spent { running, runnable, blocked, unknown: left }
    }

    /// Returns true if the state was known at some time.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.running > 0 || self.runnable > 0 || self.blocked > 0
    }

    /// Returns the sum of two times, by state.
    #[must_use]
    pub fn plus(self, other: Spent) -> Spent {
        Spent {
            running: self.running.saturating_add(other.running),
            runnable: self.runnable.saturating_add(other.runnable),
            blocked: self.blocked.saturating_add(other.blocked),
            unknown: self.unknown.saturating_add(other.unknown),
        }
    }
}

/// A span that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The span's name.
    pub name: Name,
    /// The event that began the span.
    pub event: Name,
    /// The thread in which the span began; `None` if the trace does not say.
    pub begun_by: Option<ThreadId>,
    /// The thread in which the span ended.
    pub thread: Option<ThreadId>,
    /// The begin \[ns since 1970\].
    pub begin: i64,
    /// The end \[ns since 1970\].
    pub end: i64,
    /// The key that both ends have.
    pub key: Option<SpanKey>,
    /// The address of the object of the span, such as a lock.
    pub address: Option<u64>,
    /// The thread that held the lock when the span began, if the span is a wait for a lock and its begin says so.
    pub owner: Option<ThreadId>,
    /// The return value of the call that the span covers, if its end says so.
    pub result: Option<i64>,
    /// The rule by which the ends were paired.
    pub paired: Paired,
    /// True if the ends have different values of the field that should be the same.
    pub disagrees: bool,
    /// The thread's time by state; `None` if the ends are in two threads, in an unknown one, or if the begin was recorded
    /// at the end.
    pub spent: Option<Spent>,
    /// True if the record of the begin or that of the end was selected.
    pub selected: bool,
}

impl Span {
    /// Returns the length \[ns\].
    #[must_use]
    #[inline]
    pub fn nanos(&self) -> u64 {
        self.end.abs_diff(self.begin)
    }
}

/// A begin or an end of a span without its partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpairedSpan {
    /// The span's name.
    pub name: Name,
    /// The thread of the record.
    pub thread: Option<ThreadId>,
    /// The time of the record \[ns since 1970\].
    pub time: i64,
    /// The reason for which there is no partner.
    pub why: UnpairedReason,
    /// True if the record was selected.
    pub selected: bool,
}

/// A span that has begun.
#[derive(Clone, Debug)]
pub(crate) struct OpenSpan {
    pub pair: u32,
    pub name: Name,
    pub event: Name,
    pub begin: i64,
    pub thread: Option<ThreadId>,
    pub cpu: Option<u32>,
    pub home: Home,
    /// The number of gaps of the span's trace when the span began.
    pub gaps: u32,
    pub check: Option<u64>,
    pub address: Option<u64>,
    pub owner: Option<ThreadId>,
    /// The thread's time by state when the span began; `None` if the begin was recorded later.
    pub spent: Option<Spent>,
    pub selected: bool,
}

impl OpenSpan {
    pub(crate) fn unpaired(&self, why: UnpairedReason) -> UnpairedSpan {
        let OpenSpan { name, thread, begin: time, selected, .. } = *self;
        UnpairedSpan { name, thread, time, why, selected }
    }
}

/// The process of a record according to its trace: the trace, and the process' number if the trace is of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Home {
    pub trace: u32,
    pub pid: Option<i64>,
}

/// The key of open spans that are on no thread's stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SpanPlace {
    Key(u32, SpanKey),
    /// A thread that is known only by its number within its process.
    Thread(Home, i64),
    Process(Home),
}

/// Open spans that are on no thread's stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenSpans {
    open: HashMap<SpanPlace, Vec<OpenSpan>>,
    count: usize,
}

impl OpenSpans {
    /// Begins a span with a key. Reports an open span with the same key and process as unpaired.
    pub(crate) fn begin_key(
        &mut self,
        key: KeyRef<'_>,
        span: OpenSpan,
        unpaired: &mut dyn FnMut(UnpairedSpan),
    ) {
        let place = SpanPlace::Key(span.pair, key.keep());
        if let Some(before) = self.take(&place, |open| open.home == span.home) {
            unpaired(before.unpaired(UnpairedReason::Again));
        }
        self.push(place, span, unpaired);
    }

    /// Begins a span of a thread that is known only by its number in its process.
    pub(crate) fn begin_thread(
        &mut self,
        home: Home,
        number: i64,
        span: OpenSpan,
        unpaired: &mut dyn FnMut(UnpairedSpan),
    ) {
        self.push(SpanPlace::Thread(home, number), span, unpaired);
    }

    /// Begins a span of a process, if records do not say their thread.
    pub(crate) fn begin_process(&mut self, span: OpenSpan, unpaired: &mut dyn FnMut(UnpairedSpan)) {
        self.push(SpanPlace::Process(span.home), span, unpaired);
    }

    fn push(&mut self, place: SpanPlace, span: OpenSpan, unpaired: &mut dyn FnMut(UnpairedSpan)) {
        if self.count >= OPEN_MAX {
            return unpaired(span.unpaired(UnpairedReason::TooMany));
        }
        self.count += 1;
        self.open.entry(place).or_default().push(span);
    }

    /// Removes and returns the open span with a key: the one of the same process, or else of any process.
    pub(crate) fn end_key(
        &mut self,
        pair: u32,
        key: KeyRef<'_>,
        home: Home,
    ) -> Option<(OpenSpan, SpanKey)> {
        let key = key.keep();
        let place = SpanPlace::Key(pair, key.clone());
        let found = self.take(&place, |open| open.home == home);
        Some((found.or_else(|| self.take(&place, |_| true))?, key))
    }

    /// Removes and returns the open span of a thread that is known only by its number within its process. Reports the
    /// spans within it as unpaired.
    pub(crate) fn end_thread(
        &mut self,
        home: Home,
        number: i64,
        (pair, address): (u32, Option<u64>),
        unpaired: &mut dyn FnMut(UnpairedSpan),
    ) -> Option<OpenSpan> {
        let place = SpanPlace::Thread(home, number);
        let stack = self.open.get_mut(&place)?;
        let before = stack.len();
        let found = end(stack, (pair, address), unpaired);
        self.count -= before - stack.len();
        if stack.is_empty() {
            self.open.remove(&place);
        }
        found
    }

    /// Removes and returns the latest open span of a process: one of the same CPU, or else of any CPU.
    pub(crate) fn end_process(
        &mut self,
        home: Home,
        pair: u32,
        cpu: Option<u32>,
    ) -> Option<OpenSpan> {
        let place = SpanPlace::Process(home);
        let near = self.take(&place, |open| open.pair == pair && open.cpu == cpu);
        near.or_else(|| self.take(&place, |open| open.pair == pair))
    }

    /// Removes and returns the latest span that `wanted` accepts.
    fn take(&mut self, place: &SpanPlace, wanted: impl Fn(&OpenSpan) -> bool) -> Option<OpenSpan> {
        let open = self.open.get_mut(place)?;
        let at = open.iter().rposition(wanted)?;
        let span = open.remove(at);
        if open.is_empty() {
            self.open.remove(place);
        }
        self.count -= 1;
        Some(span)
    }

    /// Removes and returns all open spans, by time.
    pub(crate) fn finish(&mut self) -> Vec<OpenSpan> {
        self.count = 0;
        let mut left: Vec<OpenSpan> =
            std::mem::take(&mut self.open).into_values().flatten().collect();
        left.sort_by_key(|span| (span.begin, span.name));
        left
    }
}

/// Removes and returns the latest span of a stack with this pair and address. Reports the spans that began within it as
/// unpaired: the thread left them in some other way, such as an exception.
pub(crate) fn end(
    stack: &mut Vec<OpenSpan>,
    (pair, address): (u32, Option<u64>),
    unpaired: &mut dyn FnMut(UnpairedSpan),
) -> Option<OpenSpan> {
    let is_same = |of: Option<u64>| of.zip(address).is_none_or(|(begin, end)| begin == end);
    let at = stack.iter().rposition(|open| open.pair == pair && is_same(open.address))?;
    stack.drain(at + 1..).rev().for_each(|inner| unpaired(inner.unpaired(UnpairedReason::NoEnd)));
    stack.pop()
}

#[cfg(test)]
mod tests;
