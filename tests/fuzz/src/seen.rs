//! What a reader says of a trace, in few bytes.

use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use strata_ctf::read::{Events, FieldInfo, Message, Scope, Visit};

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    pub kind: &'static str,
    pub time: Option<i64>,
    /// Of everything that it says.
    hash: u64,
}

/// More messages than any input has.
const MOST: usize = 200_000;

/// All messages, one behind the other.
pub fn all(mut events: Events<'_>) -> Vec<Seen> {
    let mut all = Vec::new();
    while let Some(message) = events.next() {
        all.push(seen(&message));
        assert!(all.len() < MOST, "there is no end of messages");
    }
    all
}

/// The same in the quick way, which is left for one message now and then.
pub fn all_by_run(mut events: Events<'_>) -> Vec<Seen> {
    let mut all = Vec::new();
    loop {
        let stop = events.run(|message| {
            all.push(seen(&message));
            assert!(all.len() < MOST, "there is no end of messages");
            match all.len() % 11 {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        if stop.is_continue() {
            return all;
        }
        let Some(message) = events.next() else { return all };
        all.push(seen(&message));
    }
}

fn seen(message: &Message<'_>) -> Seen {
    let mut hash = Fields(Mixed(0));
    let (kind, time) = match message {
        Message::Event(event) => {
            hash.0.write(event.class().name().as_bytes());
            event.class().index().hash(&mut hash.0);
            event.stream().index().hash(&mut hash.0);
            for scope in Scope::ALL {
                event.visit(scope, &mut hash);
            }
            ("event", event.time())
        }
        Message::Packet(packet) => {
            format!("{packet:?}").hash(&mut hash.0);
            ("packet", None)
        }
        Message::Discarded(it) => {
            (it.stream.index(), it.count).hash(&mut hash.0);
            format!("{:?}", it.kind).hash(&mut hash.0);
            ("discarded", None)
        }
        Message::Damage(damage) => {
            let text = damage.to_string();
            assert!(text.len() < 20_000, "{text}");
            text.hash(&mut hash.0);
            ("damage", None)
        }
    };
    Seen { kind, time, hash: hash.0.finish() }
}

/// Few instructions, and none that compares: the fuzzer looks at those.
struct Mixed(u64);

impl Mixed {
    #[inline(always)]
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        let words = bytes.chunks(8).map(|chunk| {
            chunk.iter().fold(chunk.len() as u64, |word, &byte| word << 7 ^ u64::from(byte))
        });
        words.for_each(|word| self.add(word));
    }

    fn write_i64(&mut self, value: i64) {
        self.add(value as u64);
    }

    fn write_u8(&mut self, value: u8) {
        self.add(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Every value of every field.
struct Fields(Mixed);

impl Fields {
    fn add(&mut self, kind: u8, field: &FieldInfo, value: impl Hash) {
        self.0.add((field.name().len() as u64) << 8 | u64::from(kind));
        value.hash(&mut self.0);
    }

    fn labels(&mut self, field: &FieldInfo, value: i128) {
        if field.labels.is_none() {
            return;
        }
        field.labels_of(value).for_each(|label| label.hash(&mut self.0));
        if let Some(mut flags) = field.flags_of(value) {
            flags.by_ref().for_each(|flag| flag.hash(&mut self.0));
            flags.rest().hash(&mut self.0);
        }
    }
}

impl Visit for Fields {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        self.add(0, field, value);
        self.labels(field, value.into());
    }

    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.add(1, field, value);
        self.labels(field, value.into());
    }

    fn real(&mut self, field: &FieldInfo, value: f64) {
        self.add(2, field, value.to_bits());
    }

    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.add(3, field, bytes);
    }

    fn blob(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.add(4, field, bytes);
    }

    fn begin_structure(&mut self, field: &FieldInfo) {
        self.add(5, field, 0);
    }

    fn end_structure(&mut self, field: &FieldInfo) {
        self.add(6, field, 0);
    }

    fn begin_array(&mut self, field: &FieldInfo, length: u64) {
        self.add(7, field, length);
    }

    fn end_array(&mut self, field: &FieldInfo) {
        self.add(8, field, 0);
    }

    fn begin_variant(&mut self, field: &FieldInfo, option: &str) {
        self.add(9, field, option);
    }

    fn end_variant(&mut self, field: &FieldInfo) {
        self.add(10, field, 0);
    }

    fn absent(&mut self, field: &FieldInfo) {
        self.add(11, field, 0);
    }
}
