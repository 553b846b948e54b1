//! A trace as `strata view` shows it, in every layout.

use std::sync::Arc;

use crate::files::{metadata_and_more, Files};
use crate::shown;
use std::ops::ControlFlow;
use strata_analyze::pipeline::{self, Job, PipelineOutput, PipelineSummary};
use strata_analyze::render::{
    ClockStyle, Clocks, FieldList, Format, Head, Options, ThreadNames, TimeZone,
};
use strata_analyze::stats;
use strata_ctf::model::schema::Structure;
use strata_ctf::read::{DamageKind, Message, Reader, TimeRange};

/// What an input says beside its bytes.
struct Flags {
    files: u8,
    layout: u8,
    clock: u8,
}

impl Flags {
    fn options(&self, reader: &Reader) -> Options {
        use ClockStyle::{Cycles, Date, Iso, None, Seconds, Time};
        let styles = [Time, Date, Iso, Seconds, Cycles, None];
        let summer = || TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3");
        Options {
            format: match self.files & 4 {
                0 => [Format::Text, Format::Json, Format::Csv, Format::Text]
                    [usize::from(self.layout & 3)],
                _ => Format::Short,
            },
            all: self.files & 8 != 0,
            width: (self.files & 16 != 0).then_some(usize::from(self.clock)),
            colours: self.layout & 3 == 3,
            tame: self.layout & 4 != 0,
            delta: self.layout & 8 == 0,
            fields: (self.layout & 16 != 0).then(|| some_fields(reader)),
            losses: self.files & 36 == 36,
            thread_names: (self.clock & 0x20 != 0)
                .then(|| Arc::new(ThreadNames::read(reader, 1, &|| false))),
            source: Option::None,
            functions: Option::None,
            clocks: Clocks::of(reader),
            head: Head::split(if self.clock & 0x40 != 0 { &["all"][..] } else { &[] }).0,
            clock: styles.get(usize::from(self.clock % 7)).copied(),
            zone: match self.clock & 0x80 {
                0 => TimeZone::UTC,
                _ => summer().expect("a time zone"),
            },
        }
    }

    /// Three quarters of the trace, or all of it.
    fn range(&self, reader: &Reader) -> TimeRange {
        match reader.span() {
            Some(span) if self.layout & 32 != 0 => {
                let eighth = span.to.saturating_sub(span.from) / 8;
                TimeRange {
                    from: span.from.saturating_add(eighth),
                    to: span.to.saturating_sub(eighth),
                }
            }
            _ => TimeRange::ALL,
        }
    }
}

/// Of each kind of event record the first two, in one of the spellings; and a part.
fn some_fields(reader: &Reader) -> FieldList {
    let mut names = vec!["packet".to_owned()];
    let streams = reader.traces().iter().flat_map(|trace| &trace.schema().streams);
    for event in streams.flat_map(|stream| &stream.events).take(8) {
        for part in [&event.specific_context, &event.payload] {
            let members = part.as_ref().map_or(&[][..], |part: &Structure| &part.members);
            names.extend(members.iter().take(2).map(|member| member.name.clone()));
        }
        if let Some(last) = event.payload.as_ref().and_then(|payload| payload.members.last()) {
            names.push(format!("payload.{}", last.name));
        }
    }
    FieldList::new(&names)
}

/// As many packets as a stream of this size has \[byte\].
const LONG: usize = 256 << 10;

/// Text that is looked at \[byte\]. It is collected here, and nobody else holds all of it: names of kilobytes, once in
/// each of many records, would be more than the reader may take.
const TEXT_MAX: usize = 16 << 20;

/// Metadata, a zero byte, three bytes of flags, bytes of one or two streams; they may be there many times.
pub fn run(input: &[u8]) {
    let Some((metadata, [files, layout, clock, bytes @ ..])) = metadata_and_more(input) else {
        return;
    };
    let flags = Flags { files: *files, layout: *layout, clock: *clock };
    let mut files = Files::new();
    let times = if flags.files & 2 == 0 { 1 } else { LONG / bytes.len().max(1) };
    files.add_streams(metadata, usize::from(flags.files & 1) + 1, &bytes.repeat(times.max(1)));
    let Ok(reader) = Reader::open(&[files.folder()]) else { return };
    let (options, range) = (flags.options(&reader), flags.range(&reader));
    let job = |threads| Job {
        reader: &reader,
        range,
        options: options.clone(),
        filter: None,
        mine: None,
        limit: u64::MAX,
        threads,
        stop: &|| false,
    };
    let Some(one) = rendered(&job(1)) else { return };
    let events = events(&reader, range);
    let is_short = options.format == Format::Short;
    match is_short {
        // Two ends of a call are one line.
        true => assert!(one.summary.events <= events.len() as u64, "lines"),
        false => assert_eq!(one.summary.events, events.len() as u64, "event records"),
    }
    shown::check(&options, &one.text, &events);
    // Where records say who runs, and it is not true, or some are not there, nobody can know whose others are.
    let is_sure = || {
        let says = |(name, _): &(String, _)| name.ends_with("sched_switch");
        !is_short || one.remarks.is_empty() && !events.iter().any(says)
    };
    if flags.layout & 64 != 0 && is_sure() {
        let two = rendered(&job(2)).expect("no more than with one thread");
        assert!(one.text == two.text, "with two threads:\n{}", String::from_utf8_lossy(&two.text));
        assert_eq!((one.summary, one.remarks), (two.summary, two.remarks), "with two threads");
    }
    if flags.layout & 128 != 0 && (range == TimeRange::ALL || !goes_back(&reader)) {
        counted(&reader, range, events.len() as u64);
    }
}

/// Whether times of a stream go back: behind the end of a time range, nothing more of it is looked for.
fn goes_back(reader: &Reader) -> bool {
    use DamageKind::{PacketOrder, PacketTimes, TimeBack, TimeBeforePacket, TimeBehindPacket};
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        let Message::Damage(damage) = message else { continue };
        match damage.what {
            PacketOrder { .. }
            | PacketTimes { .. }
            | TimeBack { .. }
            | TimeBeforePacket { .. }
            | TimeBehindPacket { .. } => return true,
            _ => {}
        }
    }
    false
}

/// `strata stats` finds as many.
fn counted(reader: &Reader, range: TimeRange, expected: u64) {
    let options = stats::Options { range, ..stats::Options::default() };
    let stats = stats::count(reader, &options, &|_| true).expect("nobody stops it");
    let found = |counts: &mut dyn Iterator<Item = u64>| counts.sum::<u64>();
    let by_name = found(&mut stats.events.iter().map(|event| event.count.records));
    let by_stream = found(&mut stats.streams.iter().map(|stream| stream.sum.count.records));
    assert_eq!((by_name, by_stream), (expected, expected), "{stats:?}");
}

/// What a sink was given.
struct Rendered {
    text: Vec<u8>,
    remarks: Vec<String>,
    summary: PipelineSummary,
}

/// `None`: it is more than [`TEXT_MAX`].
fn rendered(job: &Job<'_>) -> Option<Rendered> {
    let (mut text, mut remarks) = (Vec::new(), Vec::new());
    let mut is_all = true;
    let summary = pipeline::run(job, &mut |output| {
        match output {
            PipelineOutput::Text(more) if text.len() + more.len() > TEXT_MAX => {
                is_all = false;
                return ControlFlow::Break(());
            }
            PipelineOutput::Text(more) => text.extend_from_slice(more),
            PipelineOutput::Remark(remark) => remarks.push(format!("{remark:?}")),
            PipelineOutput::Read(_) => (),
        }
        ControlFlow::Continue(())
    });
    is_all.then_some(Rendered { text, remarks, summary })
}

/// Name of each event record, and its time, if that is a date.
fn events(reader: &Reader, range: TimeRange) -> Vec<(String, Option<i64>)> {
    let mut found = Vec::new();
    let mut events = reader.events(range);
    while let Some(message) = events.next() {
        if let Message::Event(event) = message {
            // What has none is shown with the name that babeltrace2 gives it.
            let name = Some(event.class().name()).filter(|name| !name.is_empty());
            found.push((name.unwrap_or("<unknown>").to_owned(), event.date()));
        }
    }
    found
}
