//! Writes fields in few characters: `fd=3, flags=O_RDONLY|O_CLOEXEC, comm="cat"`.
//!
//! ```text
//! Event::visit ─▶ ShortValues: Visit ─▶ text in `Lines`
//!                   └─ places in this text: arguments not recorded yet (`unread`), descriptors (`descriptors`)
//! ```
//!
//! | field | text |
//! |---|---|
//! | integer | in the base that its class prefers |
//! | flags, enumeration | the labels: `O_RDONLY\|O_CLOEXEC`; bits without a label as one number behind them |
//! | text, bytes | in quotes with escapes; `0x` and digits |
//! | structure, array | braces or brackets without the structure's name; an empty part is left out |
//! | variant, optional | the chosen option without its name; `none` |
//! | socket's address | `127.0.0.1:80`, by the family that was visited before it |
//!
//! Two things are not known when an entry is written: arguments that a later record has, and the files of
//! descriptors. For them, the places in the text are kept, and `lines.rs` and `join.rs` put the text there later.
//! An argument was not in memory if its value is one that stands for that, such as an address in the place of a
//! path; only fields that a later record can have ([`DeferrableField`]) are looked at.
//!
//! Values come from the trace and may be anything. Texts are escaped here, so that no control character reaches a
//! terminal.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use strata_ctf::read::{FieldInfo, Visit};
use strata_model::syscalls::ArgumentKind;
use strata_model::Base;
use strata_timeline::is_descriptor;

use super::deferrable_fields::{DeferrableField, Unread};
use crate::render::escape::{c_quoted, hex, tame_text};
use crate::render::line::{Lines, TextSink};
use crate::render::number;

/// The value of a directory's descriptor that stands for the working directory.
const AT_FDCWD: i64 = -100;

/// The families of sockets whose addresses are shown in their usual form.
const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;

/// Writes fields in the short format.
pub(super) struct ShortValues<'a> {
    out: &'a mut Lines,
    /// True before the first field.
    first: bool,
    /// True if the next field is the option of a variant, whose name is not shown.
    bare: bool,
    /// The family of a socket's address, which comes before the address.
    family: Option<u64>,
    /// The bytes of an address of which some have been visited.
    address: Option<Vec<u8>>,
    /// True if the fields are arguments of a system call.
    of_call: bool,
    /// The fields that may be recorded later.
    deferrable: &'a [DeferrableField],
    /// The places of arguments that have not been recorded yet.
    pub(super) unread: Vec<Unread>,
    /// The arguments of which some field was recorded, a bit for each.
    read: u64,
    /// The begin of the present field's value.
    value: usize,
    /// The descriptors, each with the place after it.
    pub(super) descriptors: Vec<(usize, i32)>,
    depth: usize,
    member: usize,
}

impl<'a> ShortValues<'a> {
    pub(super) fn new(out: &'a mut Lines, of_call: bool) -> ShortValues<'a> {
        ShortValues {
            out,
            first: true,
            bare: false,
            family: None,
            address: None,
            of_call,
            deferrable: &[],
            unread: Vec::new(),
            read: 0,
            value: 0,
            descriptors: Vec::new(),
            depth: 0,
            member: 0,
        }
    }

    /// Makes the writer for an entry, some of whose fields may be recorded later.
    pub(super) fn of_entry(
        out: &'a mut Lines,
        deferrable: &'a [DeferrableField],
    ) -> ShortValues<'a> {
        ShortValues { deferrable, ..ShortValues::new(out, true) }
    }

    /// Returns and removes the places of arguments that the last entry lacks.
    pub(super) fn take_unread(&mut self) -> Vec<Unread> {
        let mut unread = std::mem::take(&mut self.unread);
        let of = |name: &str| self.deferrable.iter().find(|field| field.info.name() == name);
        unread.retain(|one| {
            let argument = of(&one.name).map_or(u8::MAX, |field| field.argument);
            self.read.checked_shr(argument.into()).unwrap_or(0) & 1 == 0
        });
        unread
    }

    /// Notes that the present field's value was written. `is_absent` says that the value may stand for one that was not
    /// in memory.
    #[inline]
    fn told(&mut self, field: &FieldInfo, is_absent: bool) {
        if !self.deferrable.is_empty() && self.depth == 0 {
            self.note(field, is_absent);
        }
    }

    fn note(&mut self, field: &FieldInfo, is_absent: bool) {
        let found = self.deferrable.iter().find(|one| one.info.name() == field.name());
        let Some(found) = found else { return };
        if !is_absent {
            self.read |= 1_u64.checked_shl(found.argument.into()).unwrap_or(0);
            return;
        }
        self.unread.push(Unread {
            name: found.info.name.clone(),
            place: self.value..self.out.len(),
            is_text: found.kind == ArgumentKind::Text,
        });
    }

    /// Returns true if no field was written.
    pub(super) fn is_empty(&self) -> bool {
        self.member == 0
    }

    #[inline]
    fn lead(&mut self, field: &FieldInfo) {
        if self.depth == 0 {
            self.member += 1;
        }
        if std::mem::take(&mut self.bare) {
            return;
        }
        if !std::mem::take(&mut self.first) {
            self.out.put(b", ", 2);
        }
        if !field.is_element() {
            plain(self.out, field.name());
            self.out.push(b'=');
        }
        if self.depth == 0 {
            self.value = self.out.len();
        }
    }

    /// Writes an integer.
    pub(super) fn number(&mut self, field: &FieldInfo, value: i128) {
        let bits = value as u64;
        if self.of_call && field.name().ends_with("fd") && is_working_directory(bits) {
            return self.out.extend_from_slice(b"AT_FDCWD");
        }
        if field.is_bool {
            return self.out.extend_from_slice(if value == 0 { b"false" } else { b"true" });
        }
        if field.labels.is_some() && self.labels(field, value) {
            return;
        }
        if self.of_call && self.depth == 0 && is_descriptor(field.name()) {
            number::signed(self.out, value as i64);
            if let Some(descriptor) = i32::try_from(value).ok().filter(|it| *it >= 0) {
                self.descriptors.push((self.out.len(), descriptor));
            }
            return;
        }
        match field.base {
            Base::Ten if value < 0 => number::signed(self.out, value as i64),
            Base::Ten => number::unsigned(self.out, bits),
            Base::Eight if value == 0 => self.out.push(b'0'),
            Base::Sixteen => lower_hex(self.out, narrowed(field, bits)),
            base => number::in_base(self.out, base, bits, field.bits, field.signed),
        }
    }

    /// Writes the labels of a value, such as `A|B|0x10`. Returns false, and writes nothing, if it has none.
    fn labels(&mut self, field: &FieldInfo, value: i128) -> bool {
        let mut any = false;
        let mut add = |out: &mut Lines, label: &str| {
            if std::mem::replace(&mut any, true) {
                out.push(b'|');
            }
            plain(out, label);
        };
        if let Some(mut flags) = field.flags_of(value) {
            for label in &mut flags {
                add(self.out, label);
            }
            if flags.rest() != 0 {
                self.out.push(b'|');
                lower_hex(self.out, flags.rest());
            }
            return true;
        }
        let most = if field.is_bit_map { usize::MAX } else { 1 };
        for label in field.labels_of(value).take(most) {
            add(self.out, label);
        }
        any
    }

    fn begin(&mut self, field: &FieldInfo, with: &[u8]) {
        self.lead(field);
        self.out.extend_from_slice(with);
        self.depth += 1;
        self.first = true;
    }

    fn end(&mut self, with: &[u8]) {
        self.out.extend_from_slice(with);
        self.depth = self.depth.saturating_sub(1);
        self.first = false;
        self.bare = false;
    }
}

/// Returns true for -100 as a number of 32 or 64 bits, signed or unsigned.
pub(crate) fn is_working_directory(value: u64) -> bool {
    value == AT_FDCWD as u64 || value == u64::from(AT_FDCWD as u32)
}

/// Returns a value without the bits beyond the width of its field.
fn narrowed(field: &FieldInfo, value: u64) -> u64 {
    match field.bits {
        1..=63 => value & ((1 << field.bits) - 1),
        _ => value,
    }
}

pub(super) fn lower_hex(out: &mut impl TextSink, value: u64) {
    let digits = (64 - value.leading_zeros()).div_ceil(4).max(1);
    let mut text = [b'0'; 18];
    text[1] = b'x';
    for place in 0..digits {
        let digit = (value >> (4 * (digits - 1 - place)) & 15) as u8;
        text[2 + place as usize] = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
    }
    out.put(&text, 2 + digits as usize);
}

/// Writes a name from the metadata, which may be any text.
fn plain(out: &mut Lines, name: &str) {
    if name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return out.extend_from_slice(name.as_bytes());
    }
    let mut tamed = Vec::new();
    tame_text(&mut tamed, name.as_bytes());
    out.extend_from_slice(&tamed);
}

/// Writes a text in quotes. Bytes that are not UTF-8 are written as `\xff`.
pub(super) fn quoted(out: &mut Lines, bytes: &[u8]) {
    if bytes.is_ascii() {
        return c_quoted(out, bytes);
    }
    let (mut inside, mut tamed) = (Lines::default(), Vec::new());
    c_quoted(&mut inside, bytes);
    tame_text(&mut tamed, inside.as_bytes());
    out.extend_from_slice(&tamed);
}

/// Writes the address of a socket of this family; as plain bytes if the family's form is not known.
pub(crate) fn socket_address(out: &mut Lines, family: Option<u64>, bytes: &[u8]) {
    let mut text = String::new();
    let written = match (family, bytes.len()) {
        (Some(AF_UNIX), _) => return quoted(out, bytes),
        (Some(AF_INET), 4) => {
            let [a, b, c, d] = *bytes else { return };
            write!(text, "{}", Ipv4Addr::new(a, b, c, d))
        }
        (Some(AF_INET6), 16) => {
            let Ok(address) = <[u8; 16]>::try_from(bytes) else { return };
            write!(text, "{}", Ipv6Addr::from(address))
        }
        _ => Err(std::fmt::Error),
    };
    match written {
        Ok(()) => out.extend_from_slice(text.as_bytes()),
        Err(_) if bytes.is_empty() => out.extend_from_slice(b"[]"),
        Err(_) => {
            out.extend_from_slice(b"0x");
            hex(out, bytes);
        }
    }
}

impl Visit for ShortValues<'_> {
    #[inline]
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        if let (Some(address), true) = (&mut self.address, field.is_element()) {
            return address.push(value as u8);
        }
        self.lead(field);
        if field.name().ends_with("family") {
            self.family = Some(value);
        }
        self.number(field, i128::from(value));
        self.told(field, value == 0);
    }

    #[inline]
    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.lead(field);
        self.number(field, i128::from(value));
        self.told(field, value == 0);
    }

    fn real(&mut self, field: &FieldInfo, value: f64) {
        self.lead(field);
        number::general(self.out, value);
    }

    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.lead(field);
        quoted(self.out, bytes);
        self.told(field, bytes.starts_with(b"0x"));
    }

    fn blob(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.lead(field);
        self.out.extend_from_slice(b"0x");
        hex(self.out, bytes);
    }

    fn begin_structure(&mut self, field: &FieldInfo) {
        self.begin(field, b"{");
    }

    fn end_structure(&mut self, _field: &FieldInfo) {
        self.end(b"}");
    }

    fn begin_array(&mut self, field: &FieldInfo, _length: u64) {
        if self.family.is_some() && self.depth == 0 && field.name().ends_with("addr") {
            self.lead(field);
            self.address = Some(Vec::new());
            self.depth += 1;
            return;
        }
        self.begin(field, b"[");
    }

    fn end_array(&mut self, field: &FieldInfo) {
        if let Some(bytes) = self.address.take() {
            socket_address(self.out, self.family.take(), &bytes);
            self.end(b"");
            return self.told(field, bytes.is_empty());
        }
        self.end(b"]");
    }

    fn begin_variant(&mut self, field: &FieldInfo, _option: &str) {
        self.begin(field, b"");
        self.bare = true;
    }

    fn end_variant(&mut self, _field: &FieldInfo) {
        self.end(b"");
    }

    fn begin_optional(&mut self, field: &FieldInfo) {
        self.begin(field, b"");
        self.bare = true;
    }

    fn end_optional(&mut self, _field: &FieldInfo) {
        self.end(b"");
    }

    fn absent(&mut self, field: &FieldInfo) {
        self.lead(field);
        self.out.extend_from_slice(b"none");
    }

    fn unread(&mut self, field: &FieldInfo) {
        self.lead(field);
        self.out.push(b'?');
    }
}

#[cfg(test)]
mod tests;
