//! Writes fields in babeltrace2's text format: `x = 1, s = "abc", a = [ [0] = 1 ]`.

use strata_ctf::read::{FieldInfo, FlagsOf, Visit};
use strata_model::Base;

use super::escape::{c_quoted, hex};
use super::line::{Lines, TextPiece, TextSink};
use super::number;

/// The control sequences for colours on a terminal; all are empty if colours are off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Colours {
    /// The colour of an event's name.
    pub event: &'static str,
    /// The colour of a field's name.
    pub name: &'static str,
    /// The colour of a value.
    pub value: &'static str,
    /// The colour of a value for which an enumeration has no label.
    pub unknown: &'static str,
    /// The sequence that ends any colour.
    pub end: &'static str,
}

impl Colours {
    /// The colours that babeltrace2 uses.
    pub const ON: Colours = Colours {
        event: "\x1b[1;35m",
        name: "\x1b[36m",
        value: "\x1b[1m",
        unknown: "\x1b[1;31m",
        end: "\x1b[0m",
    };
}

/// The texts that precede the values of a structure's members: `{ name = ` before the first, `, name = ` before
/// others.
#[derive(Clone, Debug, Default)]
pub struct Leads(Vec<TextPiece>);

impl Leads {
    /// Returns the texts for members of these names.
    pub fn new(names: &[&str], colours: &Colours) -> Leads {
        let lead = |(index, name): (usize, &&str)| {
            let before = if index == 0 { "{ " } else { ", " };
            TextPiece::new([before, colours.name, name, colours.end, " = "].concat().as_bytes())
        };
        Leads(names.iter().enumerate().map(lead).collect())
    }
}

/// Writes the fields of one part.
pub struct ValueWriter<'a, const COLOUR: bool> {
    out: &'a mut Lines,
    leads: &'a Leads,
    /// For each open array, the index of its next element.
    elements: &'a mut Vec<u64>,
    /// The index of the part's next member.
    member: usize,
    /// The depth of open structures, arrays and variants.
    depth: usize,
    /// True if nothing was written before the next field.
    first: bool,
    /// True if the next field is the option of a variant, whose name is not shown.
    bare: bool,
}

impl<'a, const COLOUR: bool> ValueWriter<'a, COLOUR> {
    /// Returns a writer for the fields of one part.
    pub fn new(out: &'a mut Lines, leads: &'a Leads, elements: &'a mut Vec<u64>) -> Self {
        ValueWriter { out, leads, elements, member: 0, depth: 0, first: true, bare: false }
    }

    /// Writes the end of the part.
    #[inline]
    pub fn finish(self) {
        match self.member {
            0 => self.out.put(b"{ }", 3),
            _ => self.out.put(b" }", 2),
        }
    }

    /// Writes the text before a value.
    #[inline]
    fn lead(&mut self, field: &FieldInfo) {
        if self.depth > 0 {
            return self.inner_lead(field);
        }
        if let Some(lead) = self.leads.0.get(self.member) {
            lead.add_to(self.out);
        }
        self.member += 1;
        self.first = false;
    }

    fn inner_lead(&mut self, field: &FieldInfo) {
        if std::mem::take(&mut self.bare) {
            return;
        }
        if !std::mem::take(&mut self.first) {
            self.out.extend_from_slice(b", ");
        }
        if field.is_element() {
            if let Some(index) = self.elements.last_mut() {
                self.out.push(b'[');
                number::unsigned(self.out, *index);
                self.out.extend_from_slice(b"] = ");
                *index = index.wrapping_add(1);
            }
            return;
        }
        self.colour(Colours::ON.name);
        self.out.extend_from_slice(field.name().as_bytes());
        self.colour(Colours::ON.end);
        self.out.extend_from_slice(b" = ");
    }

    #[inline]
    fn colour(&mut self, colour: &str) {
        if COLOUR {
            self.out.extend_from_slice(colour.as_bytes());
        }
    }

    #[inline]
    fn begin(&mut self, field: &FieldInfo, with: &[u8]) {
        self.lead(field);
        self.out.extend_from_slice(with);
        self.depth += 1;
        self.first = true;
    }

    #[inline]
    fn end(&mut self, with: &[u8]) {
        // "{ " and "}" if there was nothing between them.
        if !self.first && !self.bare {
            self.out.push(b' ');
        }
        self.out.extend_from_slice(with);
        self.depth = self.depth.saturating_sub(1);
        self.first = false;
        self.bare = false;
    }

    /// Writes `( "A", "B" : container = 5 )`, for flags `( "A" | "B" | 0x8 : container = 0xB )`.
    fn labels(&mut self, field: &FieldInfo, value: i128) {
        self.out.extend_from_slice(b"( ");
        if let Some(flags) = field.flags_of(value) {
            return self.flags(flags);
        }
        let mut any = false;
        for label in field.labels_of(value) {
            if std::mem::replace(&mut any, true) {
                self.out.extend_from_slice(b", ");
            }
            self.colour(Colours::ON.value);
            c_quoted(self.out, label.as_bytes());
            self.colour(Colours::ON.end);
        }
        if !any {
            self.colour(Colours::ON.unknown);
            self.out.extend_from_slice(b"<unknown>");
            self.colour(Colours::ON.end);
        }
        self.out.extend_from_slice(b" : container = ");
    }

    /// Writes ` { "A", "B" }` after a number: the labels of its bits.
    #[cold]
    fn bits(&mut self, field: &FieldInfo, value: u64) {
        let mut first = true;
        for label in field.labels_of(i128::from(value)) {
            let before: &[u8] = if std::mem::take(&mut first) { b" { " } else { b", " };
            self.out.extend_from_slice(before);
            self.colour(Colours::ON.value);
            c_quoted(self.out, label.as_bytes());
            self.colour(Colours::ON.end);
        }
        if !first {
            self.out.extend_from_slice(b" }");
        }
    }

    fn flags(&mut self, mut flags: FlagsOf<'_>) {
        let mut first = true;
        for label in &mut flags {
            if !std::mem::take(&mut first) {
                self.out.extend_from_slice(b" | ");
            }
            self.colour(Colours::ON.value);
            c_quoted(self.out, label.as_bytes());
            self.colour(Colours::ON.end);
        }
        if flags.rest() != 0 {
            self.out.extend_from_slice(b" | ");
            self.colour(Colours::ON.unknown);
            number::in_base(self.out, Base::Sixteen, flags.rest(), 64, false);
            self.colour(Colours::ON.end);
        }
        self.out.extend_from_slice(b" : container = ");
    }
}

impl<const COLOUR: bool> Visit for ValueWriter<'_, COLOUR> {
    #[inline]
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        self.lead(field);
        let is_enumeration = field.labels.is_some() && !field.is_bit_map;
        if is_enumeration {
            self.labels(field, i128::from(value));
        }
        self.colour(Colours::ON.value);
        if field.is_bool {
            self.out.extend_from_slice(if value == 0 { b"false" } else { b"true" });
        } else if field.base == Base::Ten {
            number::unsigned(self.out, value);
        } else {
            number::in_base(self.out, field.base, value, field.bits, false);
        }
        self.colour(Colours::ON.end);
        if is_enumeration {
            self.out.extend_from_slice(b" )");
        }
        if field.is_bit_map {
            self.bits(field, value);
        }
    }

    #[inline]
    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.lead(field);
        if field.labels.is_some() {
            self.labels(field, i128::from(value));
        }
        self.colour(Colours::ON.value);
        if field.base == Base::Ten {
            number::signed(self.out, value);
        } else {
            number::in_base(self.out, field.base, value as u64, field.bits, true);
        }
        self.colour(Colours::ON.end);
        if field.labels.is_some() {
            self.out.extend_from_slice(b" )");
        }
    }

    fn real(&mut self, field: &FieldInfo, value: f64) {
        self.lead(field);
        self.colour(Colours::ON.value);
        number::general(self.out, value);
        self.colour(Colours::ON.end);
    }

    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.lead(field);
        self.colour(Colours::ON.value);
        c_quoted(self.out, bytes);
        self.colour(Colours::ON.end);
    }

    fn blob(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.lead(field);
        self.out.extend_from_slice(b"{ ");
        self.colour(Colours::ON.value);
        for byte in bytes {
            hex(self.out, &[*byte]);
            self.out.push(b' ');
        }
        self.colour(Colours::ON.end);
        self.out.push(b'}');
    }

    fn begin_structure(&mut self, field: &FieldInfo) {
        self.begin(field, b"{ ");
    }

    fn end_structure(&mut self, _field: &FieldInfo) {
        self.end(b"}");
    }

    fn begin_array(&mut self, field: &FieldInfo, _length: u64) {
        self.begin(field, b"[ ");
        self.elements.push(0);
    }

    fn end_array(&mut self, _field: &FieldInfo) {
        self.elements.pop();
        self.end(b"]");
    }

    fn begin_variant(&mut self, field: &FieldInfo, _option: &str) {
        self.begin(field, b"{ ");
        self.first = false;
        self.bare = true;
    }

    fn end_variant(&mut self, _field: &FieldInfo) {
        self.end(b"}");
    }

    fn begin_optional(&mut self, field: &FieldInfo) {
        self.begin(field, b"{ ");
        self.first = false;
        self.bare = true;
    }

    fn end_optional(&mut self, _field: &FieldInfo) {
        self.end(b"}");
    }

    fn absent(&mut self, field: &FieldInfo) {
        self.lead(field);
        self.out.extend_from_slice(b"<none>");
    }

    fn unread(&mut self, field: &FieldInfo) {
        self.lead(field);
        self.out.push(b'?');
    }
}
