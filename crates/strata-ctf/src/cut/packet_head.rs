//! Copies a packet's header and context, and changes numbers in the copy.

use std::collections::HashSet;

use super::field_copy::{Copier, FieldWithoutEnd, KnownValues, Meant, PacketSource, Time};
use super::writer::{set, set_leb, PacketBuilder};
use crate::model::schema::{Location, Role, Schema, Scope};
use crate::read::{later, low_bits};

/// The head of a packet that is being written.
#[derive(Debug, Default)]
pub(super) struct PacketHead {
    meant: Vec<Meant>,
    /// The timestamps of the packet context in their order.
    times: Vec<Time>,
    /// Index in `times` of the time that is the packet's begin.
    begin: Option<usize>,
}

impl PacketHead {
    /// Copies a packet's head to `out`. `class` is the stream class that the header gives.
    pub fn copy(
        &mut self,
        schema: &Schema,
        needed: &HashSet<Location>,
        known: &mut KnownValues,
        bytes: &[u8],
        out: &mut PacketBuilder,
        class: impl Fn(Option<u64>) -> Option<usize>,
    ) -> Result<usize, FieldWithoutEnd> {
        self.meant.clear();
        self.times.clear();
        known.begin_packet();
        let mut copier = Copier {
            source: PacketSource { bytes, origin: 0 },
            at: 0,
            out,
            known,
            needed,
            clock: None,
            times: &mut self.times,
            meant: Some(&mut self.meant),
            place: Location::at(Scope::PacketHeader, Vec::new()),
        };
        copier.part(Scope::PacketHeader, schema.packet_header.as_ref())?;
        let id = copier.meant.as_ref().and_then(|meant| {
            meant.iter().rev().find(|it| it.role == Some(Role::StreamClassId)).map(|it| it.value)
        });
        let class = class(id).ok_or(FieldWithoutEnd)?;
        let stream = schema.streams.get(class).ok_or(FieldWithoutEnd)?;
        copier.clock = stream.clock;
        copier.part(Scope::PacketContext, stream.packet_context.as_ref())?;
        let times = || self.meant.iter().filter(|it| it.time.is_some());
        let begin = times().find(|it| it.is_begin).or_else(|| times().next_back());
        self.begin = begin.and_then(|it| it.time).map(|(index, _)| index);
        Ok(class)
    }

    fn has(&self, role: Role) -> bool {
        self.meant.iter().any(|it| it.role == Some(role))
    }

    /// Returns whether the head has a field for the packet's size, so that other packets may follow in the file.
    pub fn has_size(&self) -> bool {
        self.has(Role::PacketTotalLength) || self.has(Role::PacketContentLength)
    }

    /// Returns whether the head has a field for the size of the content, which may then end within a byte.
    pub fn has_content(&self) -> bool {
        self.has(Role::PacketContentLength)
    }

    /// Returns whether the head has the stream's id, so that packets of one stream may be in several files.
    pub fn has_stream(&self) -> bool {
        self.has(Role::StreamId)
    }

    /// Returns the width of the packet's begin time \[bit\].
    pub fn begin_bits(&self) -> Option<u8> {
        self.times.get(self.begin?).map(|&(_, bits)| bits)
    }

    /// Computes the time after the head of a packet that begins at `begin`, given the `time` before it.
    pub fn time(&self, time: u64, begin: u64) -> u64 {
        self.times.iter().enumerate().fold(time, |time, (index, &(value, bits))| {
            let value = if Some(index) == self.begin { begin } else { value };
            later(time, value, low_bits(bits))
        })
    }

    /// Sets the packet's begin time.
    pub fn set_begin(&self, bytes: &mut [u8], begin: u64) {
        let is_begin = |it: &&Meant| it.time.is_some_and(|(index, _)| Some(index) == self.begin);
        self.meant.iter().filter(is_begin).for_each(|it| it.set(bytes, begin));
    }

    /// Replaces the value of the integer with this role, if the head has one.
    pub fn set(&self, bytes: &mut [u8], role: Role, value: u64) {
        let is = |it: &&Meant| it.role == Some(role);
        self.meant.iter().filter(is).for_each(|it| it.set(bytes, value));
    }
}

impl Meant {
    fn set(&self, bytes: &mut [u8], value: u64) {
        let Some(width) = self.width else { return set_leb(bytes, self.at, value) };
        let unused = 64 - u32::from(width.clamp(1, 64));
        let value = if self.is_reversed { value.reverse_bits() >> unused } else { value };
        set(bytes, self.at, value, width, self.big);
    }
}
