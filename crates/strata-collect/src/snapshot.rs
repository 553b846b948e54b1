//! A snapshot: traces of what the channels hold at one moment. Nothing is consumed and no writer is disturbed, so the
//! next snapshot may have the same records.
//!
//! Each layer's pump makes the traces, which takes the time to create a few files; the thread that requested the
//! snapshot writes the packets. The moment is a time of the traces' clock after all traces were made: the streams of
//! all layers end at it, in whatever order and however slowly they are written. Metadata are updated again after the
//! packets.

use std::fmt;

use strata_ctf::end_mark::{Ending, Losses};
use strata_ctf::packet_records::RecordScanner;
use strata_model::{ByteOrder, Counts};
use strata_ring::{Info, Order, Publish, View};

use crate::collector::{now_ns, ClassTeller, StreamWriting};
use crate::error::Error;
use crate::source::{OpenedTrace, Source, WriteBefore};
use crate::stats::counts_of;
use crate::stream_file::StreamTrack;

/// The most scans over a stream, if all its packets are overwritten before they are copied.
const SCANS: usize = 100;

/// Time range of the records in a snapshot, by the traces' clock \[ns\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSpan {
    /// Time before which packets must not end, or they are left out.
    pub from: u64,
    /// Time before which records are left out.
    pub since: u64,
    /// Time after which records are left out.
    pub until: u64,
}

impl SnapshotSpan {
    /// Makes a range that ends now and begins `last` earlier \[ns\], or with the oldest record if `last` is absent.
    #[must_use]
    pub fn until_now(last: Option<u64>) -> SnapshotSpan {
        let until = now_ns();
        let from = last.map_or(0, |last| until.saturating_sub(last));
        SnapshotSpan { from, since: 0, until }
    }

    /// Leaves out records before `since`.
    #[must_use]
    pub fn without_before(self, since: u64) -> SnapshotSpan {
        SnapshotSpan { since, ..self }
    }

    /// Returns whether a packet that ended at this time has nothing that belongs to the range.
    fn is_after(&self, end: Option<u64>) -> bool {
        end.is_some_and(|end| end < self.from.max(self.since))
    }
}

/// A source's records at one moment, and the trace into which [`HeldTrace::write`] writes them.
pub struct HeldTrace {
    opened: OpenedTrace,
    view: View,
    before: Option<WriteBefore>,
}

impl fmt::Debug for HeldTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("path", &self.opened.sink.path()).finish_non_exhaustive()
    }
}

/// Makes the trace for what `view` shows of the source's channel, and describes its records.
pub(crate) fn begin<S: Source>(
    source: &mut S,
    view: View,
    mut opened: OpenedTrace,
) -> Result<HeldTrace, Error> {
    let OpenedTrace { sink, kinds, metadata, .. } = &mut opened;
    sink.set_metadata(kinds.as_ref().map_or(metadata, |kinds| kinds.text()))?;
    if let Some(kinds) = kinds {
        kinds.set_written();
    }
    let before = source.begin_snapshot(&mut **sink)?;
    Ok(HeldTrace { opened, view, before })
}

impl HeldTrace {
    /// Writes the packets while producers continue. Returns the counts of the trace.
    ///
    /// # Errors
    /// A system call failed; a part is written then, and can be read.
    pub fn write(self, span: SnapshotSpan) -> Result<Counts, Error> {
        let HeldTrace { opened, mut view, before } = self;
        let OpenedTrace { mut sink, identity, classes, mut kinds, mut grown, .. } = opened;
        let (streams, subbuf_bytes) = (view.nr_streams(), view.subbuf_bytes());
        let outside = view.publish() == Publish::ByCommit;
        let (mut classes, mut stats, mut buffer) = (ClassTeller(classes), Vec::new(), Vec::new());
        let mut failed = None;
        for number in 0..streams {
            let mut track = StreamTrack::of_snapshot(number, subbuf_bytes, outside);
            let mut described = true;
            let mut writer = StreamWriting {
                sink: &mut *sink,
                identity: &identity,
                described: &mut described,
                untold: &mut None,
                describe: &mut || None,
                classes: Some(&mut classes),
                kinds: kinds.as_mut(),
                track: &mut track,
                packets: 0,
            };
            let done = scan(&mut view, number, span, &mut writer, &mut buffer);
            sink.pause();
            failed = done.err();
            if track.stats.packets > 0 || track.stats.damaged > 0 {
                stats.push(track.stats);
            }
            if failed.is_some() {
                break;
            }
        }
        // Kinds of records that came between the first description and the moment.
        if let Some(text) = grown.as_mut().and_then(|grown| grown()) {
            sink.set_metadata(&text)?;
        }
        for one in &stats {
            if let Some(hidden) = sink.hidden_streams() {
                hidden.show(one.cpu)?;
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let mut counts = counts_of(&stats, streams);
        if let (Some(before), Some((from, _))) = (before, counts.span) {
            before(&mut *sink, from)?;
        }
        sink.end(Ending::Ended, Losses::default())?;
        counts.metadata_bytes = sink.metadata_bytes();
        Ok(counts)
    }
}

/// Writes the packets of one stream, the oldest first.
///
/// If a stream is so fast that all of it was overwritten since the moment of the snapshot, its trace has only later
/// records. All packets that a scan has found can be overwritten before the first byte is copied, if this thread gets
/// no CPU; the stream is then scanned again.
fn scan(
    view: &mut View,
    number: u32,
    mut span: SnapshotSpan,
    writer: &mut StreamWriting<'_>,
    buffer: &mut Vec<u8>,
) -> Result<(), Error> {
    for _ in 0..SCANS {
        let is_overwritten = scan_once(view, number, span, writer, buffer)?;
        let stats = &writer.track.stats;
        // What is damaged is counted once.
        if !is_overwritten || stats.packets > 0 || stats.damaged > 0 {
            break;
        }
        span.until = u64::MAX;
    }
    Ok(())
}

/// Scans over the stream once. Returns whether all packets that were found had been overwritten.
fn scan_once(
    view: &mut View,
    number: u32,
    span: SnapshotSpan,
    writer: &mut StreamWriting<'_>,
    buffer: &mut Vec<u8>,
) -> Result<bool, Error> {
    let (mut scan, counters) = match view.scan(number, Order::OldestFirst) {
        Ok(begun) => begun,
        Err(error) => {
            writer.track.damaged(error.to_string());
            return Ok(false);
        }
    };
    let is_early = |info: &Info| span.is_after(info.timestamp_end);
    let mut has_early = false;
    loop {
        let is_done = match scan.look() {
            Some(seen) => {
                let info = seen.packet().info();
                let is_late = info.timestamp_end.is_none_or(|end| end > span.until);
                let is_whole = !is_late && info.timestamp_begin >= span.since;
                let straight = is_whole && writer.sink.hidden_streams().is_some();
                has_early |= is_early(info);
                is_early(info) || (straight && writer.seen(&seen)?)
            }
            None => false,
        };
        if is_done {
            scan.pass();
            continue;
        }
        match scan.next(buffer) {
            Ok(Some(info)) if is_early(&info) => has_early = true,
            Ok(Some(mut info)) => {
                let is_cut = cut_begin(&mut info, buffer, span.since, writer);
                let is_last = cut(&mut info, buffer, span.until, writer);
                let is_empty = (is_last || is_cut) && info.content_bytes <= info.header_bytes;
                // Its end may be known only now.
                if !is_empty && !is_early(&info) {
                    writer.copied(&info, buffer, true, || counters)?;
                }
                if is_last {
                    break;
                }
            }
            Ok(None) => break,
            Err(source @ strata_ring::Error::NoMemory(_)) => {
                let path = writer.sink.path().to_owned();
                return Err(Error::Ring { path, source });
            }
            Err(error) => writer.track.damaged(error.to_string()),
        }
    }
    Ok(!has_early && (scan.gone() > 0 || counters.overwritten_packets > 0))
}

/// Removes the records before `since`. Returns whether the packet has records of before, or may have.
fn cut_begin(
    info: &mut Info,
    buffer: &mut Vec<u8>,
    since: u64,
    writer: &mut StreamWriting<'_>,
) -> bool {
    if info.timestamp_begin >= since {
        return false;
    }
    let header = info.header_bytes as usize;
    let body = buffer.get(header..).unwrap_or(&[]);
    let class = writer.classes.as_mut().and_then(|classes| (classes.0)());
    let scanner = class.and_then(|class| RecordScanner::new(&class, ByteOrder::NATIVE).ok());
    let mut records = scanner.as_ref().map(|all| all.records(body, info.timestamp_begin));
    let (mut before, mut first) = (0, None);
    // Without classes its records are not known one by one, and behind a damaged one neither: all of them are left out.
    while let Some(Ok(record)) = records.as_mut().and_then(Iterator::next) {
        if record.timestamp >= since {
            first = Some((record.offset, record.timestamp));
            break;
        }
        before += 1;
    }
    let (offset, begin) = first.unwrap_or((body.len() as u64, since));
    let offset = offset.min(body.len() as u64);
    buffer.drain(header..header + offset as usize);
    info.content_bytes = info.content_bytes.saturating_sub(offset).max(info.header_bytes);
    info.timestamp_begin = begin;
    info.records = match first {
        Some(_) => info.records.map(|all| all.saturating_sub(before)),
        None => Some(0),
    };
    true
}

/// Removes the records later than `until`. Returns whether there were any: packets after this one then have only later
/// records.
fn cut(info: &mut Info, buffer: &mut Vec<u8>, until: u64, writer: &mut StreamWriting<'_>) -> bool {
    if info.timestamp_end.is_some_and(|end| end <= until) {
        return false;
    }
    let body = buffer.get(info.header_bytes as usize..).unwrap_or(&[]);
    let class = writer.classes.as_mut().and_then(|classes| (classes.0)());
    let scanner = class.and_then(|class| RecordScanner::new(&class, ByteOrder::NATIVE).ok());
    // Without classes its records are not known one by one: all of it is there, or nothing.
    let Some(scanner) = scanner else {
        let is_late = info.timestamp_begin > until;
        info.content_bytes = if is_late { info.header_bytes } else { info.content_bytes };
        return is_late;
    };
    let (mut records, mut last) = (0, info.timestamp_begin);
    for record in scanner.records(body, info.timestamp_begin) {
        // What cannot be followed is found, and said, where its records are counted.
        let Ok(record) = record else { return false };
        if record.timestamp > until {
            info.content_bytes = info.header_bytes + record.offset;
            info.records = Some(records);
            info.timestamp_end = Some(last);
            buffer.truncate(info.content_bytes as usize);
            return true;
        }
        (records, last) = (records + 1, record.timestamp);
    }
    (info.records, info.timestamp_end) = (Some(records), Some(last));
    false
}

/// Returns whether the channel holds anything that would be in the snapshot.
pub(crate) fn has_any(view: &mut View, span: SnapshotSpan) -> bool {
    let mut buffer = Vec::new();
    (0..view.nr_streams()).any(|number| {
        let Ok((mut scan, counters)) = view.scan(number, Order::NewestFirst) else { return true };
        match scan.next(&mut buffer) {
            Ok(Some(info)) => !span.is_after(info.timestamp_end),
            // Of what was discarded there is something to tell, unless it may be long ago.
            // What was overwritten just now has another one behind it.
            Ok(None) => {
                scan.gone() > 0 || (span.from == 0 && span.since == 0 && counters.discarded() > 0)
            }
            // What is wrong with it is said where it is written.
            Err(_) => true,
        }
    })
}
