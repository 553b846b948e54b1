//! What is the same for all event records of a class, and of a packet; made once.

use strata_ctf::read::{Event, FieldRef, Stream};
use strata_model::schema::Structure;

use super::format::Format;
use super::head::RecordedBy;
use super::line::{Lines, TextPiece};
use super::options::Options;
use super::shown::{RecordPart, ShownPart};
use super::threads::thread_of;
use super::value::{Colours, Leads};

/// Things by a small number, made when they are first asked for.
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

/// How a part is shown.
#[derive(Debug)]
pub struct PartPlan {
    pub shown: ShownPart,
    pub leads: Leads,
}

impl PartPlan {
    fn new(structure: Option<&Structure>, part: RecordPart, options: &Options) -> PartPlan {
        let shown = ShownPart::of(structure, part, options.fields.as_ref());
        let names = structure.map(|structure| shown.names(structure)).unwrap_or_default();
        PartPlan { leads: Leads::new(&names, &colours(options)), shown }
    }
}

/// How event records of a class are shown.
#[derive(Debug)]
pub struct ClassPlan {
    /// Text: `host:process:(vpid) name: `; else who recorded it.
    pub head: TextPiece,
    /// JSON and CSV: the event's name.
    pub name: Vec<u8>,
    pub parts: [(RecordPart, PartPlan); 3],
    /// Which field says the thread, where names of threads are shown.
    thread: Option<(RecordPart, FieldRef)>,
}

impl ClassPlan {
    pub fn new(event: &Event<'_>, options: &Options) -> ClassPlan {
        let schema = event.class().schema();
        let plan = |part, structure| (part, PartPlan::new(structure, part, options));
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

    /// What the thread is called, if this part says which one it is.
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

    /// The part that says the thread, if any does.
    pub fn thread_part(&self) -> RecordPart {
        self.thread.as_ref().map_or(RecordPart::Common, |(part, _)| *part)
    }
}

/// A packet's context, as it is shown with each of its event records.
#[derive(Debug)]
pub struct PacketPlan {
    /// Number and offset of the packet that the texts are of.
    packet: Option<(u64, u64)>,
    pub text: Lines,
    pub piece: TextPiece,
    pub json: Vec<u8>,
    pub part: PartPlan,
}

impl PacketPlan {
    pub fn new(stream: &Stream, options: &Options) -> PacketPlan {
        let structure = stream.class().packet_context.as_ref();
        let part = PartPlan::new(structure, RecordPart::Packet, options);
        PacketPlan {
            packet: None,
            text: Lines::default(),
            piece: TextPiece::new(b""),
            json: Vec::new(),
            part,
        }
    }

    /// Whether the text is of the event record's packet; afterwards it should be.
    #[inline]
    pub fn is_of(&mut self, event: &Event<'_>) -> bool {
        let packet = event.packet();
        let now = Some((packet.number, packet.offset));
        let same = self.packet == now;
        self.packet = now;
        same
    }
}
