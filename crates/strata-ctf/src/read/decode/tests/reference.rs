//! A decoder for comparison that is as simple as possible: it reads bit by bit from the schema itself.

use std::collections::HashMap;

use super::show::{value, Shown};
use crate::model::schema::{
    Encoding, EventClass, FieldClass, Integer, Length, Location, Range, Role, Scope, StreamClass,
    Structure, Width,
};
use crate::model::ByteOrder;
use crate::read::value::Value;

pub struct Reference<'b> {
    pub bytes: &'b [u8],
    /// Number of bits that may be read.
    pub content: u64,
    pub at: u64,
    pub time: u64,
    pub id: u64,
    clock: Option<usize>,
    scope: Scope,
    path: Vec<u32>,
    seen: HashMap<(Scope, Vec<u32>), i128>,
    pub shown: Vec<Shown>,
}

/// A record as the reference decoder sees it.
pub struct Seen {
    pub class: usize,
    pub time: u64,
    pub end: u64,
    pub parts: Vec<(Scope, Vec<Shown>)>,
}

fn align(at: u64, align: u64) -> u64 {
    at.div_ceil(align) * align
}

impl<'b> Reference<'b> {
    pub fn new(bytes: &'b [u8], clock: Option<usize>) -> Reference<'b> {
        Reference {
            bytes,
            content: bytes.len() as u64 * 8,
            at: 0,
            time: 0,
            id: 0,
            clock,
            scope: Scope::PacketHeader,
            path: Vec::new(),
            seen: HashMap::new(),
            shown: Vec::new(),
        }
    }

    /// Sets the clock whose times are followed from now on.
    pub fn set_clock(&mut self, clock: Option<usize>) {
        self.clock = clock;
    }

    /// Returns the fields of a part; `None` if the part is incomplete.
    pub fn part(&mut self, scope: Scope, structure: &Structure) -> Option<Vec<Shown>> {
        self.scope = scope;
        self.shown.clear();
        self.at = align(self.at, structure.align());
        for (index, member) in structure.members.iter().enumerate() {
            self.path.push(index as u32);
            self.field(&member.class, &member.name)?;
            self.path.pop();
        }
        (self.at <= self.content).then(|| std::mem::take(&mut self.shown))
    }

    pub fn record(&mut self, stream: &StreamClass) -> Option<Seen> {
        let begin = self.at;
        self.id = 0;
        let mut parts = Vec::new();
        if let Some(header) = &stream.event_header {
            parts.push((Scope::EventHeader, self.part(Scope::EventHeader, header)?));
        }
        let time = self.time;
        let class = stream.events.iter().position(|event| event.id == self.id)?;
        let event: &EventClass = &stream.events[class];
        let behind = [
            (Scope::CommonContext, &stream.event_common_context),
            (Scope::SpecificContext, &event.specific_context),
            (Scope::Payload, &event.payload),
        ];
        for (scope, structure) in behind {
            if let Some(structure) = structure {
                parts.push((scope, self.part(scope, structure)?));
            }
        }
        (self.at > begin).then_some(Seen { class, time, end: self.at, parts })
    }

    fn bits(&mut self, width: u64, big: bool) -> Option<u64> {
        if self.at + width > self.content {
            return None;
        }
        let mut value = 0u64;
        for index in 0..width {
            let at = self.at + index;
            let byte = self.bytes[(at / 8) as usize];
            if big {
                value = value << 1 | u64::from(byte >> (7 - at % 8) & 1);
            } else {
                value |= u64::from(byte >> (at % 8) & 1) << index;
            }
        }
        self.at += width;
        Some(value)
    }

    fn show(&mut self, path: &str, what: String) {
        self.shown.push(Shown { path: path.to_string(), what });
    }

    fn integer(&mut self, integer: &Integer) -> Option<i128> {
        let big = integer.byte_order == ByteOrder::Big;
        self.at = align(self.at, u64::from(integer.align));
        let (value, width) = match integer.width {
            Width::Bits(width) => {
                let mut bits = self.bits(u64::from(width), big)?;
                if integer.is_reversed {
                    bits = bits.reverse_bits() >> (64 - width);
                }
                let value = i128::from(bits);
                let sign = integer.signed && value >> (width - 1) & 1 == 1;
                (if sign { value - (1 << width) } else { value }, width)
            }
            Width::Variable => (self.leb(integer.signed)?, 64),
        };
        self.seen.insert((self.scope, self.path.clone()), value);
        let in_head =
            matches!(self.scope, Scope::PacketHeader | Scope::PacketContext | Scope::EventHeader);
        let role = integer.role.filter(|_| in_head);
        if role == Some(Role::EventClassId) {
            self.id = value as u64;
        }
        let is_time = integer.clock.is_some() && integer.clock == self.clock;
        if is_time && role != Some(Role::PacketEndTimestamp) {
            let value = value as u64;
            // The next time with these lowest bits follows.
            self.time = match width {
                64 => value,
                _ => {
                    let cycle = 1u64 << width;
                    let value = value & (cycle - 1);
                    let base = self.time - self.time % cycle;
                    let next =
                        if value >= self.time % cycle { base } else { base.wrapping_add(cycle) };
                    next.wrapping_add(value)
                }
            };
        }
        Some(value)
    }

    fn leb(&mut self, signed: bool) -> Option<i128> {
        self.at = align(self.at, 8);
        let (mut value, mut shift) = (0i128, 0);
        loop {
            let byte = self.bits(8, false)?;
            if shift >= 112 {
                return None;
            }
            value |= i128::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                if signed && byte & 64 != 0 {
                    value -= 1 << shift;
                }
                break;
            }
        }
        let fits = match signed {
            true => i64::try_from(value).is_ok(),
            false => u64::try_from(value).is_ok(),
        };
        fits.then_some(value)
    }

    /// Forgets the values of an option or an optional field before it is decoded again.
    fn forget(&mut self) {
        let (scope, path) = (self.scope, &self.path);
        self.seen.retain(|(of, at), _| *of != scope || !at.starts_with(path));
    }

    fn find(&self, location: &Location) -> Option<i128> {
        location.paths().find_map(|path| self.seen.get(&(location.scope, path.to_vec())).copied())
    }

    fn length(&self, length: &Length) -> Option<u64> {
        match length {
            Length::Static(length) => Some(*length),
            Length::Dynamic(location) => self.find(location)?.try_into().ok(),
        }
    }

    fn take(&mut self, bytes: u64) -> Option<&'b [u8]> {
        self.at = align(self.at, 8);
        let end = self.at + bytes.checked_mul(8)?;
        let all = self.bytes;
        let found = all.get((self.at / 8) as usize..(end / 8) as usize);
        self.at = end;
        found.filter(|_| end <= self.content)
    }

    fn field(&mut self, class: &FieldClass, path: &str) -> Option<()> {
        match class {
            FieldClass::Integer(integer) => {
                let found = self.integer(integer)?;
                let found = match integer.signed {
                    true => Value::Signed(found as i64),
                    false => Value::Unsigned(found as u64),
                };
                self.show(path, value(found));
            }
            FieldClass::Real(real) => {
                self.at = align(self.at, u64::from(real.align));
                let big = real.byte_order == ByteOrder::Big;
                let mut bits = self.bits(u64::from(real.bits), big)?;
                if real.is_reversed {
                    bits = bits.reverse_bits() >> (64 - real.bits);
                }
                let found = match real.bits {
                    16 => half(bits as u16),
                    32 => f64::from(f32::from_bits(bits as u32)),
                    _ => f64::from_bits(bits),
                };
                self.show(path, value(Value::Real(found)));
            }
            FieldClass::String => {
                let mut text = Vec::new();
                loop {
                    match self.take(1)? {
                        [0] => break,
                        byte => text.extend_from_slice(byte),
                    }
                }
                self.show(path, value(Value::Text(&text)));
            }
            FieldClass::Text { length } => {
                let bytes = self.length(length)?;
                let text = self.take(bytes)?;
                let text = text.split(|&byte| byte == 0).next().unwrap_or(&[]);
                self.show(path, value(Value::Text(text)));
            }
            FieldClass::Wide { length, encoding } => {
                let unit = encoding.unit();
                let mut units: Vec<&[u8]> = Vec::new();
                match length {
                    Some(length) => {
                        let bytes = self.length(length)?;
                        units.extend(self.take(bytes)?.chunks(unit));
                    }
                    None => loop {
                        units.push(self.take(unit as u64)?);
                        if units.last().is_some_and(|last| last.iter().all(|&byte| byte == 0)) {
                            break;
                        }
                    },
                }
                let is_nul = |unit: &&[u8]| unit.iter().all(|&byte| byte == 0);
                let is_whole = |one: &&[u8]| one.len() == unit;
                let end = units.iter().position(|unit| is_whole(unit) && is_nul(unit));
                units.truncate(end.unwrap_or(units.len()));
                let text = wide(&units, *encoding);
                self.show(path, value(Value::Text(text.as_bytes())));
            }
            FieldClass::Blob { align: bits, length } => {
                self.at = align(self.at, u64::from(*bits));
                let bytes = self.length(length)?;
                let blob = self.take(bytes)?;
                self.show(path, value(Value::Blob(blob)));
            }
            FieldClass::Structure(structure) => {
                self.at = align(self.at, structure.align());
                self.show(path, "{".into());
                for (index, member) in structure.members.iter().enumerate() {
                    self.path.push(index as u32);
                    self.field(&member.class, &format!("{path}.{}", member.name))?;
                    self.path.pop();
                }
                self.show(path, "}".into());
            }
            FieldClass::Array(array) => {
                self.at = align(self.at, class.align());
                let length = self.length(&array.length)?;
                self.show(path, format!("[{length}"));
                self.path.push(0);
                for index in 0..length {
                    self.field(&array.element, &format!("{path}[{index}]"))?;
                }
                self.path.pop();
                self.show(path, "]".into());
            }
            FieldClass::Variant(variant) => {
                let selector = self.find(&variant.selector)?;
                self.forget();
                let has = |ranges: &[Range]| ranges.iter().any(|range| range.contains(selector));
                let index = variant.options.iter().position(|option| has(&option.ranges))?;
                let option = &variant.options[index];
                self.show(path, format!("({}", option.name));
                self.path.push(index as u32);
                self.field(&option.class, &format!("{path}.{}", option.name))?;
                self.path.pop();
                self.show(path, ")".into());
            }
            FieldClass::Optional(optional) => {
                let selector = self.find(&optional.selector)?;
                self.forget();
                let listed = optional.ranges.iter().any(|range| range.contains(selector));
                let is_there = if optional.ranges.is_empty() { selector != 0 } else { listed };
                if !is_there {
                    self.show(path, "absent".into());
                    return Some(());
                }
                self.path.push(0);
                self.field(&optional.class, path)?;
                self.path.pop();
            }
        }
        // A field that ends after the content cannot be shown.
        (self.at <= self.content).then_some(())
    }
}

/// Decodes a text of wide characters, one by one.
fn wide(units: &[&[u8]], encoding: Encoding) -> String {
    let number = |unit: &[u8], order: ByteOrder| {
        let add = |sum: u32, byte: &u8| sum << 8 | u32::from(*byte);
        match order {
            ByteOrder::Big => unit.iter().fold(0, add),
            ByteOrder::Little => unit.iter().rev().fold(0, add),
        }
    };
    let (mut text, mut at) = (String::new(), 0);
    while let Some(unit) = units.get(at) {
        at += 1;
        let made = match encoding {
            _ if unit.len() < encoding.unit() => None,
            Encoding::Utf32(order) => char::from_u32(number(unit, order)),
            Encoding::Utf16(order) => {
                let high = number(unit, order);
                let low = units.get(at).filter(|low| low.len() == 2).map(|low| number(low, order));
                match (high, low) {
                    (0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) => {
                        at += 1;
                        char::from_u32(0x10000 + (high - 0xd800) * 0x400 + (low - 0xdc00))
                    }
                    _ => char::from_u32(high),
                }
            }
        };
        text.push(made.unwrap_or('\u{fffd}'));
    }
    text
}

/// Converts a 16-bit float by way of 32 bits.
fn half(bits: u16) -> f64 {
    let (sign, exponent) = (u32::from(bits >> 15), u32::from(bits >> 10 & 31));
    let fraction = u32::from(bits & 0x3ff);
    match (exponent, fraction) {
        // The value is a multiple of the smallest positive number of 16 bits.
        (0, _) => f64::from(fraction) * 2f64.powi(-24) * if sign == 1 { -1.0 } else { 1.0 },
        (31, 0) => f64::from(f32::from_bits(sign << 31 | 0x7f80_0000)),
        // All NaNs count as equal.
        (31, _) => [f64::NAN, -f64::NAN][sign as usize],
        _ => f64::from(f32::from_bits(sign << 31 | (exponent + 112) << 23 | fraction << 13)),
    }
}
