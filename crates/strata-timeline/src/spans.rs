//! Spans: which end belongs to which begin.
//!
//! Without a key, those of one thread are in each other. With one, an end belongs to the begin of the same key, in
//! whichever threads they are. Where records do not say their thread, the latest begin of the process is a guess, and
//! told as one.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use strata_ctf::read::{Value, Wide};

use crate::id::ThreadId;
use crate::names::Name;

/// Spans that are open at once and not on a thread's stack; some 200 bytes each.
const OPEN_MAX: usize = 1 << 16;
/// Spans in each other.
pub(crate) const DEPTH_MAX: usize = 256;
/// Bytes of a key that are kept; of the rest, a hash.
const KEY_BYTES: usize = 256;

/// What the records of an event do to spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanRole {
    /// Which spans: the same for those that begin and those that end them.
    pub pair: u32,
    /// What the spans are called.
    pub name: String,
    /// Whether it begins one.
    pub begins: bool,
    /// The field that tells apart those that overlap.
    pub key: Option<String>,
    /// A field of both ends, which is the same in both if they belong together; of no meaning with a key.
    pub check: Option<String>,
    /// A field with the address of what the span is of: an end belongs to the begin of the same one.
    pub address: Option<String>,
    /// A field of the begin with the number of the thread that it waits for.
    pub owner: Option<String>,
    /// A field of the end with what its call has returned.
    pub result: Option<String>,
}

/// By event.
pub type SpanRoles = HashMap<String, SpanRole>;

/// What tells a span from others that overlap it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SpanKey {
    /// A number, signed or not.
    Number(i128),
    /// A number with a fraction, by its bits.
    Real(u64),
    /// A text or bytes: the beginning, and the hash of all of it.
    Text(Box<[u8]>, u64),
}

impl SpanKey {
    /// What is in the key's field; `None`: it has parts, and is no key.
    #[must_use]
    pub fn of(value: Value<'_>) -> Option<SpanKey> {
        KeyRef::of(value).map(KeyRef::keep)
    }
}

/// The same, in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyRef<'a> {
    Number(i128),
    Real(u64),
    Text(&'a [u8]),
    Wide(Wide<'a>),
}

/// What is the same of two numbers, or texts, that are the same: to compare a field of a span's ends. What has parts has
/// none.
#[must_use]
pub fn check_of(value: Value<'_>) -> Option<u64> {
    KeyRef::of(value).map(KeyRef::hash)
}

impl<'a> KeyRef<'a> {
    /// A number, a text, or bytes.
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

/// By what the ends of a span were put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Paired {
    /// Both are of one thread.
    Thread,
    /// They have the same key.
    Key,
    /// They should have a key, and one has none: by the thread.
    NoKey,
    /// Nothing says of which thread they are: the latest begin of the process, of the same CPU if there is one.
    Guess,
}

/// Why an end of a span is alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alone {
    /// It is an end whose begin is not in the trace, or in another thread.
    NoBegin,
    /// It is a begin whose end is not in the trace, or in another thread.
    NoEnd,
    /// It is a begin, and records were discarded since.
    Gap,
    /// It is a begin, and another one of its key came before its end.
    Again,
    /// It is a begin, and too many were open.
    TooMany,
}

/// What a thread's time went to \[ns\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// It had a CPU.
    pub running: u64,
    /// It wanted one.
    pub runnable: u64,
    /// It waited for something else.
    pub blocked: u64,
    /// The trace does not say.
    pub unknown: u64,
}

impl Spent {
    /// What was spent since `before`, in so many nanoseconds: what is not known to be something is unknown.
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

    /// Whether anything is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.running > 0 || self.runnable > 0 || self.blocked > 0
    }

    /// This and that.
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
    /// What it is called.
    pub name: Name,
    /// The event that began it.
    pub event: Name,
    /// Which thread it began in; `None`: nothing says.
    pub begun_by: Option<ThreadId>,
    /// Which thread it ended in.
    pub thread: Option<ThreadId>,
    /// When it began \[ns since 1970\].
    pub begin: i64,
    /// When it was over.
    pub end: i64,
    /// What tells it from others.
    pub key: Option<SpanKey>,
    /// The address of what it is of.
    pub address: Option<u64>,
    /// Who had it when it began, if it is a wait for a lock and its begin says so.
    pub owner: Option<ThreadId>,
    /// What the call that it is has returned, if its end says so.
    pub result: Option<i64>,
    /// How its ends were found.
    pub paired: Paired,
    /// The field that should be the same in both ends is not.
    pub disagrees: bool,
    /// What its thread's time went to; `None`: it is in two threads, or none that is known.
    pub spent: Option<Spent>,
    /// Whether the record of its begin or that of its end was selected.
    pub selected: bool,
}

impl Span {
    /// How long it took \[ns\].
    #[must_use]
    #[inline]
    pub fn nanos(&self) -> u64 {
        self.end.abs_diff(self.begin)
    }
}

/// An end of a span that is alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AloneSpan {
    /// What the span is called.
    pub name: Name,
    /// Which thread it is of.
    pub thread: Option<ThreadId>,
    /// When the record was \[ns since 1970\].
    pub time: i64,
    /// Why it is alone.
    pub why: Alone,
    /// Whether the record was selected.
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
    /// Records of its trace that were discarded up to then.
    pub gaps: u32,
    pub check: Option<u64>,
    pub address: Option<u64>,
    pub owner: Option<ThreadId>,
    pub spent: Spent,
    pub selected: bool,
}

impl OpenSpan {
    pub(crate) fn alone(&self, why: Alone) -> AloneSpan {
        let OpenSpan { name, thread, begin: time, selected, .. } = *self;
        AloneSpan { name, thread, time, why, selected }
    }
}

/// Which process a record is of, as its trace says: by the trace, and by number where a trace is of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Home {
    pub trace: u32,
    pub pid: Option<i64>,
}

/// Where those are looked for that are on no thread's stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SpanPlace {
    Key(u32, SpanKey),
    /// A thread by the number that only its process knows it by.
    Thread(Home, i64),
    Process(Home),
}

/// What is open and on no thread's stack.
#[derive(Debug, Default)]
pub(crate) struct OpenSpans {
    open: HashMap<SpanPlace, Vec<OpenSpan>>,
    count: usize,
}

impl OpenSpans {
    /// Begin one with a key. Those that are alone now are told.
    pub(crate) fn begin_key(
        &mut self,
        key: KeyRef<'_>,
        span: OpenSpan,
        alone: &mut dyn FnMut(AloneSpan),
    ) {
        let place = SpanPlace::Key(span.pair, key.keep());
        if let Some(before) = self.take(&place, |open| open.home == span.home) {
            alone(before.alone(Alone::Again));
        }
        self.push(place, span, alone);
    }

    /// Begin one of a thread that has a number in its process only.
    pub(crate) fn begin_thread(
        &mut self,
        home: Home,
        number: i64,
        span: OpenSpan,
        alone: &mut dyn FnMut(AloneSpan),
    ) {
        self.push(SpanPlace::Thread(home, number), span, alone);
    }

    /// Begin one of any thread of a process.
    pub(crate) fn begin_process(&mut self, span: OpenSpan, alone: &mut dyn FnMut(AloneSpan)) {
        self.push(SpanPlace::Process(span.home), span, alone);
    }

    fn push(&mut self, place: SpanPlace, span: OpenSpan, alone: &mut dyn FnMut(AloneSpan)) {
        if self.count >= OPEN_MAX {
            return alone(span.alone(Alone::TooMany));
        }
        self.count += 1;
        self.open.entry(place).or_default().push(span);
    }

    /// The one of this key that ends: of the same process, or else of any.
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

    /// The one of a thread that has a number in its process only; what was begun in it is told.
    pub(crate) fn end_thread(
        &mut self,
        home: Home,
        number: i64,
        (pair, address): (u32, Option<u64>),
        alone: &mut dyn FnMut(AloneSpan),
    ) -> Option<OpenSpan> {
        let place = SpanPlace::Thread(home, number);
        let stack = self.open.get_mut(&place)?;
        let before = stack.len();
        let found = end(stack, (pair, address), alone);
        self.count -= before - stack.len();
        if stack.is_empty() {
            self.open.remove(&place);
        }
        found
    }

    /// The latest of a process, of the same CPU if there is one.
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

    /// The latest that is wanted, and no longer open.
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

    /// All of them, by time: nothing ends any more.
    pub(crate) fn finish(&mut self) -> Vec<OpenSpan> {
        self.count = 0;
        let mut left: Vec<OpenSpan> =
            std::mem::take(&mut self.open).into_values().flatten().collect();
        left.sort_by_key(|span| (span.begin, span.name));
        left
    }
}

/// The latest of a stack; what was begun in it and has no end was left in some other way.
pub(crate) fn end(
    stack: &mut Vec<OpenSpan>,
    (pair, address): (u32, Option<u64>),
    alone: &mut dyn FnMut(AloneSpan),
) -> Option<OpenSpan> {
    let is_same = |of: Option<u64>| of.zip(address).is_none_or(|(begin, end)| begin == end);
    let at = stack.iter().rposition(|open| open.pair == pair && is_same(open.address))?;
    stack.drain(at + 1..).rev().for_each(|inner| alone(inner.alone(Alone::NoEnd)));
    stack.pop()
}

#[cfg(test)]
mod tests;
