//! Decodes headers of event records: usual headers by code of their own, all others by their plan.

use super::bits::{mask, Bits};
use super::plan::{DecodingPlan, IntegerSink, PlanStepKind};
use super::skip_part::later;
use super::window::Window;
use crate::model::schema::{FieldClass, Integer, Location, Range, Role, Scope, Structure};
use crate::model::schema::{Variant, Width};
use crate::model::ByteOrder;

/// Kind of a record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderKind {
    /// Header of LTTng for few classes: 5 bits of id and 27 bits of time; id 31 is followed by the full id and time.
    CompactLe,
    CompactBe,
    /// Header of LTTng for many classes: 16 bits of id and 32 bits of time; id 65535 is followed by the full id and
    /// time.
    LargeLe,
    LargeBe,
    /// Integers of fixed size.
    Flat(Flat),
    /// Any other header, or no header.
    Other,
}

/// Places of id and time in integers of fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flat {
    id: Option<Bits>,
    time: Option<Bits>,
    /// Size of the header \[bit\].
    bits: u64,
}

/// The fields of a record header that decoding needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DecodedHead {
    pub id: u64,
    /// The clock after the header \[cycle\].
    pub time: u64,
    /// End of the header \[bit of the packet\].
    pub end: u64,
}

impl HeaderKind {
    /// Returns the kind of a stream class's header. `needed` is true if later fields depend on integers in the header.
    pub fn of(
        structure: Option<&Structure>,
        plan: Option<&DecodingPlan>,
        clock: Option<usize>,
        needed: bool,
    ) -> HeaderKind {
        let (Some(structure), Some(plan)) = (structure, plan) else {
            return HeaderKind::Other;
        };
        if needed {
            return HeaderKind::Other;
        }
        if let Some(header) = split(structure, clock) {
            return header;
        }
        flat(plan).map_or(HeaderKind::Other, HeaderKind::Flat)
    }
}

/// The short form of LTTng's headers in little-endian order, as masks, with which no choice between the two headers
/// is needed for each record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShortHeader {
    /// The number of bits of the id, which comes first, and (`id`) its mask. The greatest id is followed by the full id
    /// and time.
    pub id_bits: u32,
    pub id: u64,
    /// Mask of the time.
    pub time: u64,
}

impl ShortHeader {
    /// Makes the short form of a header. A header of another kind gets a form with a single id, which selects the
    /// slow path.
    pub fn of(header: HeaderKind) -> ShortHeader {
        let (id_bits, time_bits) = match header {
            HeaderKind::CompactLe => (5, 27),
            HeaderKind::LargeLe => (16, 32),
            _ => return ShortHeader::default(),
        };
        ShortHeader { id_bits: id_bits.into(), id: mask(id_bits), time: mask(time_bits) }
    }

    /// Returns the size of id and time together \[bit\].
    pub fn bits(&self) -> u64 {
        u64::from(self.id_bits + self.time.count_ones())
    }
}

/// A kind of header with a fast decoder.
pub(super) trait Quick: Copy {
    /// Decodes the header that begins at bit `begin`, with `time` as the clock before it. Returns `None` if the header
    /// is incomplete.
    fn head(self, window: &Window<'_>, begin: u64, time: u64) -> Option<DecodedHead>;
}

/// [`HeaderKind::CompactLe`], or the big-endian form if `BIG` is set.
#[derive(Clone, Copy)]
pub(super) struct Compact<const BIG: bool>;

impl<const BIG: bool> Quick for Compact<BIG> {
    #[inline(always)]
    fn head(self, window: &Window<'_>, begin: u64, time: u64) -> Option<DecodedHead> {
        let bytes = window.take(begin)?;
        let (id, bits) = match BIG {
            false => {
                let word = u32::from_le_bytes(bytes);
                (word & 31, word >> 5)
            }
            true => {
                let word = u32::from_be_bytes(bytes);
                (word >> 27, word & 0x7ff_ffff)
            }
        };
        if id == 31 {
            return extended(window, begin.wrapping_add(8), BIG);
        }
        let time = later(time, u64::from(bits), mask(27));
        Some(DecodedHead { id: u64::from(id), time, end: begin.wrapping_add(32) })
    }
}

/// [`HeaderKind::LargeLe`], or the big-endian form if `BIG` is set.
#[derive(Clone, Copy)]
pub(super) struct Large<const BIG: bool>;

impl<const BIG: bool> Quick for Large<BIG> {
    #[inline(always)]
    fn head(self, window: &Window<'_>, begin: u64, time: u64) -> Option<DecodedHead> {
        let [a, b, c, d, e, f] = window.take(begin)?;
        let (id, bits) = match BIG {
            false => (u16::from_le_bytes([a, b]), u32::from_le_bytes([c, d, e, f])),
            true => (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f])),
        };
        if id == u16::MAX {
            return extended(window, begin.wrapping_add(16), BIG);
        }
        let time = later(time, u64::from(bits), mask(32));
        Some(DecodedHead { id: u64::from(id), time, end: begin.wrapping_add(48) })
    }
}

impl Quick for Flat {
    #[inline]
    fn head(self, window: &Window<'_>, begin: u64, time: u64) -> Option<DecodedHead> {
        let bytes = window.from(begin)?;
        let read = |bits: Bits| bits.read(bytes, begin % 8);
        let id = match self.id {
            Some(bits) => read(bits)?,
            None => 0,
        };
        let time = match self.time {
            Some(bits) => later(time, read(bits)?, mask(bits.width)),
            None => time,
        };
        Some(DecodedHead { id, time, end: begin.wrapping_add(self.bits) })
    }
}

/// Decodes the full id and time, which begin at bit `at`.
#[inline(always)]
fn extended(window: &Window<'_>, at: u64, big: bool) -> Option<DecodedHead> {
    let (id, time) = (window.take(at)?, window.take(at.wrapping_add(32))?);
    let (id, time) = match big {
        true => (u32::from_be_bytes(id), u64::from_be_bytes(time)),
        false => (u32::from_le_bytes(id), u64::from_le_bytes(time)),
    };
    Some(DecodedHead { id: u64::from(id), time, end: at.wrapping_add(96) })
}

/// Returns the places of id and time if the header has only integers of fixed size, at most one of them an id and at
/// most one a time.
fn flat(plan: &DecodingPlan) -> Option<Flat> {
    let (mut id, mut time) = (None, None);
    for step in &plan.steps {
        let place = match step.what {
            PlanStepKind::Load { bits, sink: IntegerSink::Role(Role::EventClassId) } => {
                (&mut id, bits)
            }
            PlanStepKind::Load { bits, sink: IntegerSink::Clock(_) } => (&mut time, bits),
            _ => return None,
        };
        if place.0.replace(place.1).is_some() {
            return None;
        }
    }
    Some(Flat { id, time, bits: plan.tail })
}

/// Recognizes LTTng's two headers, as written on machines that do not align fields.
fn split(structure: &Structure, clock: Option<usize>) -> Option<HeaderKind> {
    let [tag, choice] = structure.members.as_slice() else {
        return None;
    };
    let FieldClass::Variant(variant) = &choice.class else {
        return None;
    };
    let order = integer(&tag.class)?.byte_order;
    let expected = Expected { order, clock: Some(clock?) };
    let is = |bits, stamp, last| {
        let selector = Location::at(Scope::EventHeader, vec![0]);
        let starts_byte = structure.align() >= 8 && align_divides(&tag.class, 8);
        starts_byte
            && variant.selector == selector
            && expected.is_id(&tag.class, bits)
            && expected.options(variant, u64::from(bits), stamp, last)
    };
    let big = order == ByteOrder::Big;
    match (is(5, 27, 31), is(16, 32, 65535), big) {
        (true, _, false) => Some(HeaderKind::CompactLe),
        (true, _, true) => Some(HeaderKind::CompactBe),
        (_, true, false) => Some(HeaderKind::LargeLe),
        (_, true, true) => Some(HeaderKind::LargeBe),
        _ => None,
    }
}

/// Returns whether a field that begins at a multiple of `bits` needs no padding.
fn align_divides(class: &FieldClass, bits: u64) -> bool {
    bits % class.align().next_power_of_two() == 0
}

fn integer(class: &FieldClass) -> Option<&Integer> {
    match class {
        FieldClass::Integer(integer) => Some(integer),
        _ => None,
    }
}

struct Expected {
    order: ByteOrder,
    clock: Option<usize>,
}

impl Expected {
    fn is(&self, class: &FieldClass, bits: u8) -> bool {
        integer(class).is_some_and(|integer| {
            integer.width == Width::Bits(bits)
                && !integer.signed
                && integer.byte_order == self.order
        })
    }

    fn is_id(&self, class: &FieldClass, bits: u8) -> bool {
        self.is(class, bits)
            && integer(class)
                .is_some_and(|id| id.role == Some(Role::EventClassId) && id.clock.is_none())
    }

    fn is_time(&self, class: &FieldClass, bits: u8) -> bool {
        self.is(class, bits)
            && integer(class).is_some_and(|time| time.clock == self.clock && time.role.is_none())
    }

    /// Returns whether the options of a variant are those of LTTng's headers. `at` is their begin \[bit of the
    /// header\].
    fn options(&self, variant: &Variant, at: u64, stamp: u8, last: i128) -> bool {
        let [short, long] = variant.options.as_slice() else {
            return false;
        };
        let (FieldClass::Structure(now), FieldClass::Structure(full)) = (&short.class, &long.class)
        else {
            return false;
        };
        let ([time], [id, whole]) = (now.members.as_slice(), full.members.as_slice()) else {
            return false;
        };
        let full_at = at.next_multiple_of(8);
        short.ranges == [Range { from: 0, to: last - 1 }]
            && long.ranges == [Range { from: last, to: last }]
            && align_divides(&short.class, at)
            && align_divides(&long.class, full_at)
            && (full_at == at || long.class.align() >= 8)
            && align_divides(&whole.class, full_at + 32)
            && self.is_time(&time.class, stamp)
            && self.is_id(&id.class, 32)
            && self.is_time(&whole.class, 64)
    }
}
