//! Reads event records from packets: traces of any tracer and any size, several at once.
//!
//! ```text
//! Reader ── Trace ── Stream: files of packets
//!   └─ Events: of all streams, by time ── Message ── Event, Packet, Discarded, Damage
//! ```
//!
//! A [`Reader`] opens traces without reading their packets, and lends [`Events`]. These read packets as the caller
//! takes messages, and hold one window of each stream in memory.
//!
//! Every byte of a file may be wrong. The reader skips what it cannot decode, and a [`Damage`] among the messages
//! reports the place, the fault and the number of skipped bytes. Everything else is shown.
//!
//! # Open, iterate
//! ```
//! # use strata_ctf::{metadata, packet};
//! # use strata_model::{ClockClass, EventClass, Field, FieldClass, Integer, RecordHeader, StreamClass};
//! # use strata_model::{ByteOrder, Trace as Written, Uuid};
//! # let uuid = Uuid(*b"sixteen bytes...");
//! # let fields = vec![Field::new("len", FieldClass::Integer(Integer::unsigned(8)))];
//! # let event = EventClass { id: 0, provider: "net".into(), name: "send".into(), loglevel: None,
//! #     emf_uri: None, context: Vec::new(), fields };
//! # let class = StreamClass { id: 0, name: "channel".into(), header: RecordHeader::Compact,
//! #     context: Vec::new(), events: vec![event] };
//! # let trace = Written { uuid, byte_order: ByteOrder::NATIVE, environment: Vec::new(),
//! #     clock: ClockClass::monotonic(None, 0), streams: vec![class] };
//! # let folder = std::env::temp_dir().join(format!("strata-ctf-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! # std::fs::write(folder.join("metadata"), metadata::write(&trace)).unwrap();
//! # let mut records = Vec::new();
//! # for (time, len) in [(1000_u32, 10_u64), (2000, 5000), (3000, 20)] {
//! #     let word = if cfg!(target_endian = "big") { time } else { time << 5 };
//! #     records.extend(word.to_ne_bytes());
//! #     records.extend(len.to_ne_bytes());
//! # }
//! # let header = packet::Header { uuid, timestamp_begin: 1000, timestamp_end: 3000,
//! #     ..packet::Header::default() }.with_content_bytes(records.len() as u64);
//! # let mut file = header.encode().to_vec();
//! # file.extend(records);
//! # std::fs::write(folder.join("channel_0"), file).unwrap();
//! use strata_ctf::read::{Message, Reader, TimeRange, Value};
//!
//! let reader = Reader::open(&[&folder])?;
//! let mut events = reader.events(TimeRange::ALL);
//! let mut lengths = Vec::new();
//! while let Some(message) = events.next() {
//!     match message {
//!         Message::Event(event) => {
//!             // Finds a field by its name. Do this once for each class if speed matters.
//!             let len = event.class().find("len").and_then(|field| event.value(&field));
//!             if let Some(Value::Unsigned(len)) = len {
//!                 lengths.push((event.time(), len));
//!             }
//!         }
//!         Message::Packet(_) => {}
//!         Message::Discarded(discarded) => println!("{} discarded", discarded.count),
//!         Message::Damage(damage) => eprintln!("{damage}"),
//!     }
//! }
//! assert_eq!(lengths, [(Some(1000), 10), (Some(2000), 5000), (Some(3000), 20)]);
//!
//! // From a time on: what is before it is not read.
//! let mut events = reader.events(TimeRange { from: 2500, to: i64::MAX });
//! let last = std::iter::from_fn(|| match events.next()? {
//!     Message::Event(event) => Some(event.time()),
//!     _ => Some(None),
//! });
//! assert_eq!(last.flatten().collect::<Vec<_>>(), [3000]);
//!
//! // Several threads: consecutive slices of time, of about a megabyte each.
//! let slices: Vec<_> = reader.slices(TimeRange::ALL, 1 << 20).collect();
//! let counts = std::thread::scope(|scope| {
//!     let reader = &reader;
//!     let threads = slices.iter().map(|slice| {
//!         scope.spawn(move || {
//!             let (mut events, mut count) = (reader.events_of(slice), 0);
//!             while let Some(message) = events.next() {
//!                 count += u32::from(matches!(message, Message::Event(_)));
//!             }
//!             count
//!         })
//!     });
//!     let threads: Vec<_> = threads.collect();
//!     threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>()
//! });
//! assert_eq!(counts, 3);
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), strata_ctf::read::OpenError>(())
//! ```

mod clock_offset;
mod completeness;
mod current_packet;
mod cursor;
mod damage;
mod decode;
mod deferred_arguments;
mod event;
mod event_class;
mod events;
mod field;
mod file_writers;
mod files;
mod find_traces;
mod follow;
mod framing;
mod index;
mod lttng;
pub mod metadata;
mod open;
mod packet_places;
mod packet_skip;
mod reader;
mod resync;
mod select;
mod slices;
mod stream;
mod time;
mod unread_fields;
mod value;
mod visit;
mod window;
mod wrapped_files;

pub use crate::model::schema::Scope;
pub use clock_offset::ClockOffset;
pub use completeness::{FolderEnd, Missing, RecordingEnd};
pub use cursor::Message;
pub use damage::{Damage, DamageKind, HeaderDamage, NoteKey, OpenError};
pub(crate) use decode::{align_up, find_nul, later, leb128, low_bits, read_bits, Leb};
pub use decode::{Bad, BadKind};
pub use deferred_arguments::{
    DeferredArgument, DeferredClass, DeferredField, DeferredKind, DeferredValue,
};
pub use event::Event;
pub use event_class::EventClass;
pub use events::Events;
pub use field::FieldRef;
pub(crate) use files::StoredFiles;
pub use find_traces::find;
pub use follow::{Follow, IDLE};
pub use open::OpenOptions;
pub use reader::Reader;
pub use select::{AskedWords, DerivedValue, DerivedValues, DerivedWord, Selection};
pub use slices::{Parts, Slice, Slices, StreamPart};
pub use stream::{Discarded, DiscardedKind, Packet, Stream, Trace};
pub use time::{Clock, TimeRange};
pub use value::{Value, Wide};
pub use visit::{FieldInfo, FieldKind, FlagsOf, Visit};
