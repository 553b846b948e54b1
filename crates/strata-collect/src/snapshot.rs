//! A snapshot: what a channel holds at one moment, as a trace of its own. Nothing is consumed and no writer is
//! disturbed: the same records can be in the next one.

use strata_ctf::end_mark::{Ending, Losses};
use strata_model::{Counts, LossMode};
use strata_ring::{Channel, Order, Publish};

use crate::collector::{Classes as Kept, Writer};
use crate::error::Error;
use crate::source::{Opened, Source};
use crate::stats::{counts_of, discarded_of};
use crate::track::Track;

/// Writes what `channel` holds into the trace that `source` makes for it. Returns the counts of that trace.
pub(crate) fn write<S: Source>(
    source: &mut S,
    channel: &mut Channel,
    opened: Opened,
) -> Result<Counts, Error> {
    let Opened { mut sink, identity, classes, mut kinds, metadata, .. } = opened;
    sink.set_metadata(kinds.as_ref().map_or(&metadata, |kinds| kinds.text()))?;
    if let Some(kinds) = &mut kinds {
        kinds.set_written();
    }
    source.begin_snapshot(&mut *sink)?;
    let (streams, subbuf_bytes) = (channel.nr_streams(), channel.subbuf_bytes());
    let outside = channel.publish() == Publish::ByCommit;
    let (mut classes, mut stats, mut buffer) = (Kept(classes), Vec::new(), Vec::new());
    for number in 0..streams {
        let mut track = Track::of_snapshot(number, subbuf_bytes, outside);
        let mut described = true;
        let mut writer = Writer {
            sink: &mut *sink,
            identity: &identity,
            described: &mut described,
            describe: &mut || None,
            classes: Some(&mut classes),
            kinds: kinds.as_mut(),
            track: &mut track,
            packets: 0,
        };
        let done = walk(channel, number, &mut writer, &mut buffer);
        sink.pause();
        done?;
        if track.stats.packets > 0 || track.stats.damaged > 0 {
            stats.push(track.stats);
        }
    }
    sink.end(Ending::Ended, Losses::default())?;
    let mut counts = counts_of(&stats, streams);
    counts.metadata_bytes = sink.metadata_bytes();
    Ok(counts)
}

/// Writes the packets of one stream, the oldest first.
fn walk(
    channel: &mut Channel,
    number: u32,
    writer: &mut Writer<'_>,
    buffer: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut stream = match channel.stream(number) {
        Ok(stream) => stream,
        Err(error) => {
            writer.track.damaged(error.to_string());
            return Ok(());
        }
    };
    let counters = stream.counters();
    let mut walk = stream.walk(Order::OldestFirst);
    loop {
        match walk.next(buffer) {
            Ok(Some(info)) => writer.copied(&info, buffer, true, || counters)?,
            Ok(None) => return Ok(()),
            Err(source @ strata_ring::Error::NoMemory(_)) => {
                let path = writer.sink.path().to_owned();
                return Err(Error::Ring { path, source });
            }
            Err(error) => writer.track.damaged(error.to_string()),
        }
    }
}

/// What a channel holds of which nothing is written.
pub(crate) fn held(channel: &mut Channel) -> Counts {
    let mut counts = Counts { streams: channel.nr_streams(), ..Counts::default() };
    let overwrites = channel.loss_mode() == LossMode::Overwrite;
    for number in 0..channel.nr_streams() {
        let Ok(stream) = channel.stream(number) else { continue };
        let of = stream.counters();
        let discarded = discarded_of(&of);
        counts.add(&Counts {
            records: of.written.saturating_sub(of.overwritten_records),
            bytes: stream.backlog(),
            streams_discarding: u32::from(discarded.total() > 0),
            discarded,
            overwritten: if overwrites { of.overwritten_records } else { 0 },
            ..Counts::default()
        });
    }
    counts
}
