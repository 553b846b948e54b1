//! Random tracepoints: as a program has them, as a trace describes them, and records of them.

use std::ffi::{c_char, c_void, CString};
use std::fmt;
use std::ptr::null;

use strata_abi::user;
use strata_ctf::{metadata, packet};
use strata_model::{
    Array, Base, ByteOrder, ClockClass, Element, Enumeration, EventClass, Field, FieldClass,
    FieldOrder, Float, Integer, Label, RecordHeader, Sequence, StreamClass, Trace, Uuid,
};

use strata_random::Random;

/// Mirrors `struct strata_label` of libstrata.
#[repr(C)]
struct CLabel {
    label: *const c_char,
    from: i64,
    to: i64,
    automatic: u32,
}

/// Mirrors `struct strata_enumeration` of libstrata.
#[repr(C)]
struct CEnumeration {
    name: *const c_char,
    labels: *const CLabel,
    nr_labels: u32,
}

/// Mirrors `struct strata_field` of libstrata.
#[repr(C)]
struct CField {
    name: *const c_char,
    enumeration: *const CEnumeration,
    count: u32,
    kind: u8,
    element: u8,
    bytes: u8,
    flags: u8,
    base: u8,
    length_bytes: u8,
    reserved: [u8; 2],
}

/// Mirrors `struct strata_tracepoint` of libstrata.
#[repr(C)]
pub struct Tracepoint {
    enabled: *const u32,
    state: *const c_void,
    provider: *const c_char,
    name: *const c_char,
    file: *const c_char,
    fields: *const CField,
    line: u32,
    nr_fields: u16,
    level: u8,
    reserved: u8,
    next: *const c_void,
}

/// A tracepoint, and all that it points to.
pub struct Event {
    class: EventClass,
    raw: Vec<[u8; 5]>,
    tracepoint: Tracepoint,
    _fields: Vec<CField>,
    _names: Vec<CString>,
    _labels: Vec<Box<[CLabel]>>,
    _enumerations: Vec<Box<[CEnumeration]>>,
}

/// Text of few letters, often as long as what one load compares, or nearly.
pub fn text(random: &mut Random, most: usize) -> String {
    match random.below(3) {
        0 if most >= 10 => "abababababa"[..7 + random.below(4)].to_owned(),
        _ => (0..random.below(most + 1)).map(|_| random.pick(&['a', 'b', 'é'])).collect(),
    }
}

/// from, to, label; automatic: behind the one before.
const LABELS: [(i64, i64, &str, bool); 5] = [
    (0, 0, "idle", true),
    (0, 0, "busy", true),
    (2, 5, "bad", false),
    (-3, -1, "below", false),
    (0xffff_ffff, 0xffff_ffff, "ALL", false),
];

/// Labels that an integer can have, as a tracer describes them.
fn labels(integer: Integer) -> Vec<Label> {
    let Ok((low, high)) = integer.range() else { return Vec::new() };
    let wide = |value: i64| match integer.bytes == 8 && !integer.signed {
        true => i128::from(value as u64),
        false => i128::from(value),
    };
    let values = [(0, 0), (1, 1), (2, 5), (-3, -1), (0xffff_ffff, 0xffff_ffff)];
    let each = values.into_iter().zip(LABELS).filter_map(|((from, to), (_, _, label, _))| {
        let (from, to) = (wide(from).max(low), wide(to).min(high));
        (from <= to).then(|| Label { from: from as i64, to: to as i64, label: label.to_owned() })
    });
    each.collect()
}

impl Event {
    pub fn random(id: u32, random: &mut Random) -> Event {
        let mut names = Vec::new();
        let mut fields = Vec::new();
        let (mut raw, mut described) = (Vec::new(), Vec::new());
        let (mut all_labels, mut enumerations) = (Vec::new(), Vec::new());
        let mut name = |text: &str| {
            names.push(CString::new(text).unwrap());
            names.last().unwrap().as_ptr()
        };
        for nr in 0..random.below(7) {
            let called = match random.below(20) {
                0 => "vtid".to_owned(),
                _ => format!("f{nr}"),
            };
            let bytes = random.pick(&[1_u8, 2, 4, 8]);
            let signed = random.below(2) == 0;
            let network = bytes > 1 && random.below(4) == 0;
            let byte_order = if network { FieldOrder::Big } else { FieldOrder::Native };
            let integer = Integer { signed, byte_order, ..Integer::unsigned(bytes) };
            let integer = Integer { base: Base::Ten, ..integer };
            let float = Float { bytes: if bytes < 8 { 4 } else { 8 }, byte_order };
            let kind = random.pick(&[1_u8, 1, 1, 2, 3, 3, 4, 5, 7]);
            let is_text = random.below(2) == 0;
            let (count, length_bytes) = (3, random.pick(&[1_u8, 2, 4]));
            let mut field = CField {
                name: name(&called),
                enumeration: null(),
                count: 0,
                kind,
                element: 0,
                bytes,
                flags: if signed { user::FIELD_SIGNED } else { 0 }
                    | if network { user::FIELD_NETWORK } else { 0 },
                base: 10,
                length_bytes: 0,
                reserved: [0; 2],
            };
            let element = match is_text {
                true => Element::Text,
                false => Element::Integer(integer),
            };
            if is_text && (kind == 4 || kind == 5) {
                (field.bytes, field.flags) = (1, 0);
            }
            let class = match kind {
                1 => FieldClass::Integer(integer),
                2 => {
                    field.bytes = float.bytes;
                    field.flags &= user::FIELD_NETWORK;
                    FieldClass::Float(float)
                }
                3 => {
                    (field.bytes, field.flags) = (1, 0);
                    FieldClass::String
                }
                4 => {
                    field.element = if is_text { user::TEXT } else { user::INTEGER };
                    field.count = count;
                    FieldClass::Array(Array { element, count })
                }
                5 => {
                    field.element = if is_text { user::TEXT } else { user::INTEGER };
                    field.length_bytes = length_bytes;
                    FieldClass::Sequence(Sequence { element, length_bytes })
                }
                // An enumeration.
                _ => {
                    field.kind = user::INTEGER;
                    let c_labels = LABELS.map(|(from, to, label, automatic)| CLabel {
                        label: name(label),
                        from,
                        to,
                        automatic: automatic.into(),
                    });
                    all_labels.push(Box::from(c_labels) as Box<[CLabel]>);
                    let labels_at = all_labels.last().unwrap();
                    enumerations.push(Box::from([CEnumeration {
                        name: name("states"),
                        labels: labels_at.as_ptr(),
                        nr_labels: labels_at.len() as u32,
                    }]) as Box<[CEnumeration]>);
                    field.enumeration = enumerations.last().unwrap().as_ptr();
                    let labels = labels(integer);
                    let name = "states".to_owned();
                    FieldClass::Enumeration(Enumeration { integer, name, labels, flags: None })
                }
            };
            let of = [field.kind, field.element, field.bytes, field.flags, field.length_bytes];
            raw.push(of);
            described.push(Field::new(called, class));
            fields.push(field);
        }
        let level = random.below(15) as u8;
        let (provider, event) = ("app".to_owned(), format!("e{id}"));
        let tracepoint = Tracepoint {
            enabled: null(),
            state: null(),
            provider: name(&provider),
            name: name(&event),
            file: null(),
            fields: fields.as_ptr(),
            line: 0,
            nr_fields: fields.len() as u16,
            level,
            reserved: 0,
            next: null(),
        };
        let loglevel = Some(level);
        let class = EventClass {
            id,
            provider,
            name: event,
            loglevel,
            emf_uri: None,
            context: Vec::new(),
            fields: described,
        };
        Event {
            class,
            raw,
            tracepoint,
            _fields: fields,
            _names: names,
            _labels: all_labels,
            _enumerations: enumerations,
        }
    }

    pub fn tracepoint(&self) -> &Tracepoint {
        &self.tracepoint
    }

    pub fn name_of(&self, random: &mut Random) -> String {
        match self.class.fields.as_slice() {
            [] => "f0".to_owned(),
            fields => fields[random.below(fields.len())].name.clone(),
        }
    }

    /// Makes a record as the tracepoint's site stores it.
    pub fn payload(&self, random: &mut Random) -> Vec<u8> {
        let mut out = Vec::new();
        for [kind, element, bytes, flags, length_bytes] in &self.raw {
            let of = |random: &mut Random, kind: u8| number(random, kind, *bytes, *flags);
            let is_text = *element == user::TEXT;
            match *kind {
                user::STRING => {
                    out.extend(text(random, 10).bytes());
                    out.push(0);
                }
                user::ARRAY if is_text => {
                    let mut letters = text(random, 1).into_bytes();
                    letters.resize(3, 0);
                    out.extend(letters);
                }
                user::ARRAY => (0..3).for_each(|_| out.extend(of(random, *element))),
                user::SEQUENCE => {
                    let letters = text(random, 4).into_bytes();
                    let count = if is_text { letters.len() } else { random.below(5) };
                    out.extend(&(count as u32).to_le_bytes()[..usize::from(*length_bytes)]);
                    match is_text {
                        true => out.extend(letters),
                        false => (0..count).for_each(|_| out.extend(of(random, *element))),
                    }
                }
                _ => out.extend(of(random, *kind)),
            }
        }
        out
    }
}

fn number(random: &mut Random, kind: u8, bytes: u8, flags: u8) -> Vec<u8> {
    let mut value = if kind == user::FLOAT {
        let real = random.pick(&[
            0.0,
            1.0,
            2.5,
            -0.5,
            1.5,
            0.5,
            -1.5,
            -2.5,
            -1.0,
            1e300,
            f64::NAN,
            f64::INFINITY,
            3.0,
            9007199254740993.0,
        ]);
        match bytes {
            4 => (real as f32).to_le_bytes().to_vec(),
            _ => real.to_le_bytes().to_vec(),
        }
    } else {
        let value = match random.below(3) {
            0 => random.next(),
            1 => random.pick(&[
                i64::MIN as u64,
                u64::MAX,
                i64::MAX as u64,
                9_007_199_254_740_993,
                0xffff_ffff,
            ]),
            _ => (random.below(9) as u64).wrapping_sub(4),
        };
        value.to_le_bytes()[..usize::from(bytes)].to_vec()
    };
    if flags & user::FIELD_NETWORK != 0 {
        value.reverse();
    }
    value
}

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.class)
    }
}

/// The contexts of these records, as the runtime has them: bit 0 is the thread.
pub const CONTEXTS: u32 = 1 | 1 << user::CTX_VPID | 1 << user::CTX_PROCNAME | 1 << user::CTX_VUID;

/// The metadata of these events, and one packet of records, on CPU 3; each with the thread 77, process -2, named
/// "busy", of the user 2^32 - 1, or with none of these.
pub fn trace(events: &[Event], records: &[(usize, Vec<u8>)], has_vtid: bool) -> (String, Vec<u8>) {
    let integer = |name, integer| Field::new(name, FieldClass::Integer(integer));
    let name = Array { element: Element::Text, count: user::COMM_BYTES };
    let context = vec![
        integer("vtid", Integer::signed(4)),
        integer("vpid", Integer::signed(4)),
        Field::new("procname", FieldClass::Array(name)),
        integer("vuid", Integer::unsigned(4)),
    ];
    let stream = StreamClass {
        id: 0,
        name: "channel0".to_owned(),
        header: RecordHeader::Compact,
        context: if has_vtid { context } else { Vec::new() },
        events: events.iter().map(|event| event.class.clone()).collect(),
    };
    let uuid = Uuid([7; 16]);
    let trace = Trace {
        uuid,
        byte_order: ByteOrder::NATIVE,
        environment: Vec::new(),
        clock: ClockClass::monotonic(None, 0),
        streams: vec![stream],
    };
    let mut content = Vec::new();
    for (number, (id, payload)) in (1_u32..).zip(records) {
        content.extend((number << 5 | *id as u32).to_ne_bytes());
        if has_vtid {
            content.extend([77_i32, -2].map(i32::to_ne_bytes).as_flattened());
            content.extend(b"busy\0\0\0\0\0\0\0\0\0\0\0\0\0");
            content.extend(u32::MAX.to_ne_bytes());
        }
        content.extend(payload);
    }
    let header = packet::Header { uuid, timestamp_end: 1000, cpu_id: 3, ..Default::default() };
    let mut packet = header.with_content_bytes(content.len() as u64).encode().to_vec();
    packet.extend(content);
    (metadata::write(&trace), packet)
}
