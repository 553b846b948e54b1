//! The decoder of one trace: all its plans, and the decoding of packet headers.

use std::collections::HashSet;
use std::sync::Arc;

use super::compile::{compile, is_mixed, Surroundings};
use super::plan::DecodingPlan;
use super::registers::Registers;
use super::state::DecodeState;
use super::stop_reason::NoRecord;
use super::stream::{part, DecoderParts, StreamDecoder};
use super::window::Window;
use crate::model::schema::{Role, Schema, Scope};
use crate::model::Uuid;

/// The decoded fields of a packet header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketHeader {
    pub magic: Option<u64>,
    pub uuid: Option<Uuid>,
    /// Id of the stream class.
    pub stream_class: Option<u64>,
    /// Id of the stream.
    pub stream: Option<u64>,
    /// End of the header \[bit of the packet\].
    pub end: u64,
}

/// Decodes packets of one trace. It is compiled once and shared by all readers of the trace.
#[derive(Debug)]
pub(crate) struct Decoder {
    schema: Arc<Schema>,
    packet_header: Option<Arc<DecodingPlan>>,
    streams: Vec<StreamDecoder>,
    registers: u32,
    classes: usize,
}

impl Decoder {
    /// Compiles the decoding plans of a trace's schema. `first_class` is the index of its first event record class,
    /// over all traces.
    pub fn new(schema: Arc<Schema>, first_class: usize) -> Decoder {
        let registers = Registers::of_trace(&schema);
        let mut defined = HashSet::new();
        let mixed = is_mixed(&schema);
        let packet_header = schema.packet_header.as_ref().map(|structure| {
            let scope = Scope::PacketHeader;
            let uuid = schema.packet_uuid;
            let (registers, defined) = (&registers, &mut defined);
            let place = Surroundings { scope, clock: None, registers, uuid, defined, mixed };
            Arc::new(compile(structure, place))
        });
        let mut classes = 0;
        let mut streams = Vec::with_capacity(schema.streams.len());
        for (index, class) in schema.streams.iter().enumerate() {
            let trace = DecoderParts {
                schema: &schema,
                packet_header: &packet_header,
                registers: &registers,
                defined: &defined,
                mixed,
                first_class: first_class + classes,
            };
            streams.push(StreamDecoder::new(&trace, index, class));
            classes += class.events.len();
        }
        let of_streams = streams.iter().map(|stream| stream.registers);
        let registers = of_streams.fold(registers.count(), u32::max);
        Decoder { schema, packet_header, streams, registers, classes }
    }

    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the number of event record classes of the trace.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Makes the state for decoding one stream.
    pub fn state(&self) -> DecodeState {
        DecodeState { registers: vec![0; self.registers as usize], ..DecodeState::default() }
    }

    /// Returns the decoder of a stream class, by the class's index in the schema.
    pub fn stream(&self, index: usize) -> Option<&StreamDecoder> {
        self.streams.get(index)
    }

    /// Returns the index of the stream class with this id. For a packet header without an id, it is the only class or
    /// the class with id 0. Returns `None` if there is no such class, or if it is unknown because a part of the
    /// metadata could not be read.
    pub fn find_stream(&self, id: Option<u64>) -> Option<usize> {
        let is_unknown = self.schema.is_stream_unread && id.is_none();
        if is_unknown || self.schema.is_packet_header_unread {
            return None;
        }
        match (id, self.schema.streams.as_slice()) {
            (None, [_]) => Some(0),
            (id, streams) => streams.iter().position(|class| class.id == id.unwrap_or(0)),
        }
    }

    /// Decodes the header of a new packet and resets the decoder's state for it.
    pub fn packet_header(
        &self,
        window: &Window<'_>,
        state: &mut DecodeState,
    ) -> Result<PacketHeader, NoRecord> {
        state.reset();
        let Some(plan) = &self.packet_header else {
            return Ok(PacketHeader::default());
        };
        let (_, end) = part(window, state, plan, 0, None)?;
        let found = &state.found;
        Ok(PacketHeader {
            magic: found.role(Role::PacketMagic),
            uuid: found.uuid.map(Uuid),
            stream_class: found.role(Role::StreamClassId),
            stream: found.role(Role::StreamId),
            end,
        })
    }
}
