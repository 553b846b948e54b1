//! Plans for rendering: text that is the same for all records of a class or of a packet, and is made once.

use strata_ctf::read::{Event, FieldRef, Stream};
use strata_model::schema::{Schema, Structure};

use super::field_selection::{RecordPart, ShownPart};
use super::format::Format;
use super::line::{Lines, TextPiece};
use super::line_head::RecordedBy;
use super::options::Options;
use super::threads::thread_of;
use super::value::{Colours, Leads};

/// A table of values by small numbers. Each value is computed at its first use.
#[derive(Debug)]
pub struct LazyTable<T>(Vec<Option<T>>);

impl<T> Default for LazyTable<T> {
    fn default() -> Self {
        LazyTable(Vec::new())
    }
}

impl<T> LazyTable<T> {
    #[inline]
    pub fn get(&mut self, index: usize, make: impl FnOnce() -> T) -> &mut T {
        if index >= self.0.len() {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index].get_or_insert_with(make)
    }
}

fn colours(options: &Options) -> Colours {
    if options.colours {
        Colours::ON
    } else {
        Colours::default()
    }
}

/// The plan for rendering one part of a record.
#[derive(Debug)]
pub struct PartPlan {
    pub shown: ShownPart,
    pub leads: Leads,
}

impl PartPlan {
    fn new(
        structure: Option<&Structure>,
        part: RecordPart,
        options: &Options,
        trace: &Schema,
    ) -> PartPlan {
        let shown = ShownPart::of(structure, part, options.fields.as_ref(), trace);
        let names = structure.map(|structure| shown.names(structure)).unwrap_or_default();
        PartPlan { leads: Leads::new(&names, &colours(options)), shown }
    }
}

/// The plan for rendering the records of a class.
#[derive(Debug)]
pub struct ClassPlan {
    /// The text before the event: in text format `host:process:(vpid) name: `, in others the same facts as members or
    /// columns.
    pub head: TextPiece,
    /// The event's name, for JSON and CSV.
    pub name: Vec<u8>,
    pub parts: [(RecordPart, PartPlan); 3],
    /// The field with the id of the thread, if names of threads are shown.
    thread: Option<(RecordPart, FieldRef)>,
}

impl ClassPlan {
    pub fn new(event: &Event<'_>, options: &Options) -> ClassPlan {
        let schema = event.class().schema();
        let trace = event.stream().trace().schema();
        let plan = |part, structure| (part, PartPlan::new(structure, part, options, trace));
        let common = event.stream().class().event_common_context.as_ref();
        let parts = [
            plan(RecordPart::Common, common),
            plan(RecordPart::Context, schema.specific_context.as_ref()),
            plan(RecordPart::Payload, schema.payload.as_ref()),
        ];
        let who = RecordedBy::new(event, &options.head);
        let Colours { event: begin, end, .. } = colours(options);
        let (head, name) = match options.format {
            Format::Text | Format::Short => (who.text(options.tame, (begin, end)), Vec::new()),
            Format::Json => who.json(),
            Format::Csv => who.csv(),
        };
        let thread = options.thread_names.as_ref().and_then(|_| thread_of(event.class()));
        ClassPlan { head: TextPiece::new(&head), name, parts, thread }
    }

    /// Returns the name of the record's thread, if the field with the thread is in this part.
    #[inline]
    pub fn thread_name<'o>(
        &self,
        event: &Event<'_>,
        part: RecordPart,
        options: &'o Options,
    ) -> Option<&'o [u8]> {
        let (of, tid) = self.thread.as_ref()?;
        let names = options.thread_names.as_ref().filter(|_| *of == part)?;
        names.of(event, tid)
    }

    /// Returns the part of the record with the id of the thread; the common context if no field has it.
    pub fn thread_part(&self) -> RecordPart {
        self.thread.as_ref().map_or(RecordPart::Common, |(part, _)| *part)
    }
}

/// The text of a packet's context, which is shown with each of the packet's event records.
#[derive(Debug)]
pub struct PacketPlan {
    /// The number and offset of the packet whose text this is.
    packet: Option<(u64, u64)>,
    pub text: Lines,
    pub piece: TextPiece,
    pub json: Vec<u8>,
    pub part: PartPlan,
}

impl PacketPlan {
    pub fn new(stream: &Stream, options: &Options) -> PacketPlan {
        let structure = stream.class().packet_context.as_ref();
        let trace = stream.trace().schema();
        let part = PartPlan::new(structure, RecordPart::Packet, options, trace);
        PacketPlan {
            packet: None,
            text: Lines::default(),
            piece: TextPiece::new(b""),
            json: Vec::new(),
            part,
        }
    }

    /// Returns true if the text belongs to the record's packet. If it returns false, the caller must renew the text.
    #[inline]
    pub fn is_of(&mut self, event: &Event<'_>) -> bool {
        let packet = event.packet();
        let now = Some((packet.number, packet.offset));
        let same = self.packet == now;
        self.packet = now;
        same
    }
}
