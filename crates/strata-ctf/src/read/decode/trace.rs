//! The decoder of one trace: all its plans, and what is in front of each packet.

use std::collections::HashSet;
use std::sync::Arc;

use super::compile::{compile, is_mixed, Surroundings};
use super::plan::DecodingPlan;
use super::registers::Registers;
use super::state::DecodeState;
use super::stop::NoRecord;
use super::stream::{part, DecoderParts, StreamDecoder};
use super::window::Window;
use crate::model::schema::{Role, Schema, Scope};
use crate::model::Uuid;

/// What a packet's header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketHeader {
    pub magic: Option<u64>,
    pub uuid: Option<Uuid>,
    /// Id of the stream class.
    pub stream_class: Option<u64>,
    /// Id of the stream.
    pub stream: Option<u64>,
    /// Where it ends \[bit of the packet\].
    pub end: u64,
}

/// Decodes packets of one trace. Compiled once; shared by all who read.
#[derive(Debug)]
pub(crate) struct Decoder {
    schema: Arc<Schema>,
    packet_header: Option<Arc<DecodingPlan>>,
    streams: Vec<StreamDecoder>,
    registers: u32,
    classes: usize,
}

impl Decoder {
    /// `first_class`: the index that the first event record class gets, over all traces.
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

    /// How many event record classes there are.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// What is needed to go through one stream.
    pub fn state(&self) -> DecodeState {
        DecodeState { registers: vec![0; self.registers as usize], ..DecodeState::default() }
    }

    /// The decoder of a stream class, by its index in the schema.
    pub fn stream(&self, index: usize) -> Option<&StreamDecoder> {
        self.streams.get(index)
    }

    /// The index of the stream class of this id; where a packet's header has none, of the only one, or
    /// the one of id 0.
    pub fn find_stream(&self, id: Option<u64>) -> Option<usize> {
        match (id, self.schema.streams.as_slice()) {
            (None, [_]) => Some(0),
            (id, streams) => streams.iter().position(|class| class.id == id.unwrap_or(0)),
        }
    }

    /// Begins a packet: reads its header, where there is one.
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
