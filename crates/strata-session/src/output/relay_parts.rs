//! The output of a session whose trace goes to a relay: a recording there, or one after the other if the trace is split.
//!
//! ```text
//! begin() ─▶ one recording ─ begin_next() ─▶ next recording, over a connection of its own; the last one still gets packets
//!                                ▲                                │
//!                                └── look(): it is forgotten ◀── look(): it is closed once all of its traces are complete
//! ```
//!
//! A part is complete for the relay when its last message arrives there. No message may follow that one, so it is sent when
//! no trace of the part is written to any longer: a pump that found no room for a trace's end tries again later. Until
//! the relay has all of a part, the next one is not ended. So two parts at most wait in memory, however long the relay is
//! away. A part is begun at the relay with its first trace: parts in which nothing is recorded leave nothing there.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use strata_collect::{Counts, Error, Output, Sink};
use strata_ctf::end_mark::{Ending, Losses};
use strata_remote::{FromRecorder, Link, RemoteOutput};

use crate::report::{ChunkStatus, ChunksStatus};

/// The most parts of a trace that are listed one by one.
const SHOWN: usize = 20;

/// Function that begins to send the recording with this name to the relay. The flag is true for parts of a trace
/// after the first.
pub(crate) type BeginRecording = Box<dyn Fn(&str, bool) -> io::Result<RemoteOutput> + Send>;

/// The recordings at a relay into which a session's trace is split.
pub(crate) struct RelayParts {
    begin: BeginRecording,
    /// The common begin of the names of all recordings. The time of each recording follows.
    name: String,
    present: RelayPart,
    /// The previous part, until the relay has all of it.
    leaving: Option<RelayPart>,
    /// The latest of the parts before the present one.
    last: VecDeque<ChunkStatus>,
    complete: u64,
    /// Number of records and of bytes in parts that the relay has completely.
    gone: (u64, u64),
    /// Of the same parts, the number of broken connections, and the time without a connection.
    broken: (u64, Duration),
    /// Of the same parts, the number of event records that the relay has discarded because this host's share of its
    /// space was used up.
    quota: u64,
    error: Option<String>,
}

/// A part of the trace, which is a recording at the relay.
struct RelayPart {
    number: u64,
    name: String,
    output: RemoteOutput,
    /// Counts of records in the channels.
    counts: Counts,
    /// Counts of records outside of the channels, such as those of state dumps.
    besides: Counts,
    /// How the part ended; `None` until it is told to end.
    ending: Option<Ending>,
}

impl RelayPart {
    fn status(&self) -> ChunkStatus {
        let mut all = self.counts;
        all.add(&self.besides);
        let (records, bytes) = (Some(all.records), Some(all.bytes));
        ChunkStatus { number: self.number, folder: PathBuf::from(&self.name), records, bytes }
    }

    /// Sends the last message of the part, once none of its traces is written to. If there is no room for the
    /// message, a later call sends it.
    fn close(&self) {
        let Some(ending) = self.ending.filter(|_| !self.output.has_sinks()) else { return };
        let last = FromRecorder::Close { ending, losses: Losses::default() };
        // What fails for good is the link's failure.
        let _ = self.output.link().close(&last);
    }
}

impl RelayParts {
    /// Begins to send the first part. `stamp`: the time, as it appears in names.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn new(begin: BeginRecording, name: &str, stamp: &str) -> io::Result<RelayParts> {
        let present = Self::make(&begin, format!("{name}-{stamp}"), 1)?;
        Ok(RelayParts {
            begin,
            name: name.to_owned(),
            present,
            leaving: None,
            last: VecDeque::new(),
            complete: 0,
            gone: (0, 0),
            broken: (0, Duration::ZERO),
            quota: 0,
            error: None,
        })
    }

    fn make(begin: &BeginRecording, name: String, number: u64) -> io::Result<RelayPart> {
        let output = begin(&name, number > 1)?;
        let (counts, besides) = (Counts::default(), Counts::default());
        Ok(RelayPart { number, name, output, counts, besides, ending: None })
    }

    /// Returns the links of the parts that the relay does not have completely. The present part's link is the last.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.leaving.iter().chain([&self.present]).map(|part| part.output.link()).collect()
    }

    /// Returns the links of the parts that were begun at the relay, or wait for their turn there.
    pub(crate) fn started_links(&self) -> Vec<Arc<Link>> {
        let parts = self.leaving.iter().chain([&self.present]);
        parts.filter(|part| part.output.is_started()).map(|part| part.output.link()).collect()
    }

    /// Returns true if packets should stay in the ring buffers for now.
    pub(crate) fn is_full(&self) -> bool {
        self.leaving.iter().chain([&self.present]).any(|part| part.output.link().is_full())
    }

    /// Returns true if the relay has not received the previous part completely.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Begins a new part for traces that begin from now on. Does nothing if the present part has no records. `stamp`:
    /// the time, as it appears in names.
    ///
    /// # Errors
    /// The previous part waits for the relay, or the system refused something; nothing is changed.
    pub(crate) fn begin_next(&mut self, stamp: &str) -> Result<(), String> {
        self.look();
        let failed = |why: String| {
            format!("the trace is not rotated, and recording goes on in the same part: {why}")
        };
        if let Some(part) = &self.leaving {
            let look = part.output.link().look();
            let bytes = (look.bytes as u64).saturating_add(look.spooled);
            let why = match look.problem {
                Some(why) if !look.is_connected => format!(" ({why})"),
                _ => String::new(),
            };
            return Err(failed(format!(
                "{} messages with {bytes} bytes of the part before, '{}', did not reach the relay yet{why}",
                look.messages, part.name
            )));
        }
        if !self.present.output.has_begun() {
            return Ok(());
        }
        let number = self.present.number.saturating_add(1);
        let mut name = format!("{}-{stamp}", self.name);
        if self.present.name.starts_with(&name) {
            name = format!("{name}-{number}");
        }
        let next = Self::make(&self.begin, name, number);
        let next = next.map_err(|error| failed(format!("cannot begin to send: {error}")))?;
        self.leaving = Some(std::mem::replace(&mut self.present, next));
        Ok(())
    }

    /// Ends the previous part. Returns `None` if there is no such part or it was ended before.
    pub(crate) fn end_last(&mut self, ending: Ending) -> Option<ChunkStatus> {
        let part = self.leaving.as_mut().filter(|part| part.ending.is_none())?;
        part.ending = Some(ending);
        part.close();
        let status = part.status();
        self.complete += 1;
        self.last.push_back(status.clone());
        if self.last.len() > SHOWN {
            self.last.pop_front();
        }
        Some(status)
    }

    /// Closes the previous part if it is complete, and forgets it if the relay has all of it.
    pub(crate) fn look(&mut self) {
        let Some(part) = &self.leaving else { return };
        part.close();
        let link = part.output.link();
        if !link.is_done() {
            return;
        }
        let (look, Counts { records, bytes, .. }) = (link.look(), part.counts);
        self.gone = (self.gone.0.saturating_add(records), self.gone.1.saturating_add(bytes));
        self.quota = self.quota.saturating_add(look.quota.records);
        if look.breaks > 0 {
            self.broken.0 = self.broken.0.saturating_add(look.breaks);
            self.broken.1 = self.broken.1.saturating_add(look.away);
        }
        self.leaving = None;
    }

    /// Returns the number of broken connections, and the time without a connection, over the parts that the relay
    /// has.
    pub(crate) fn broken(&self) -> (u64, Duration) {
        self.broken
    }

    /// Returns the number of event records that the relay has discarded from the parts that it has.
    pub(crate) fn quota(&self) -> u64 {
        self.quota
    }

    /// Sets the error of the last rotation, or clears it.
    pub(crate) fn set_error(&mut self, error: Option<String>) {
        self.error = error;
    }

    /// Returns the name of the part that is being sent.
    pub(crate) fn present(&self) -> PathBuf {
        PathBuf::from(&self.present.name)
    }

    /// Returns the number of records and bytes in the present part, given those of the whole recording.
    pub(crate) fn in_present(&self, records: u64, bytes: u64) -> (u64, u64) {
        let leaving = self.leaving.as_ref().map(|part| part.counts).unwrap_or_default();
        (
            records.saturating_sub(self.gone.0).saturating_sub(leaving.records),
            bytes.saturating_sub(self.gone.1).saturating_sub(leaving.bytes),
        )
    }

    /// Returns the status of the parts; `None` if the trace was never rotated. `records` and `bytes`: those of the
    /// whole recording.
    pub(crate) fn status(&self, records: u64, bytes: u64) -> Option<ChunksStatus> {
        if self.complete == 0 && self.error.is_none() {
            return None;
        }
        let (records, bytes) = self.in_present(records, bytes);
        let (records, bytes) = (Some(records), Some(bytes));
        let present = ChunkStatus { records, bytes, ..self.present.status() };
        Some(ChunksStatus {
            present: self.present.output.has_begun().then_some(present),
            complete: self.complete,
            last: self.last.iter().cloned().collect(),
            removed: 0,
            removed_records: 0,
            removed_unknown: 0,
            error: self.error.clone(),
        })
    }

    fn of(&mut self, sink: &dyn Sink) -> &mut RelayPart {
        match &mut self.leaving {
            Some(part) if part.output.has(sink) => part,
            _ => &mut self.present,
        }
    }
}

impl Output for RelayParts {
    fn trace(
        &mut self,
        layer: &str,
        process: Option<(&[u8], u32)>,
    ) -> Result<Box<dyn Sink>, Error> {
        self.present.output.trace(layer, process)
    }

    fn remove(&mut self, layer: &str, sink: Box<dyn Sink>) {
        self.of(&*sink).output.remove(layer, sink);
    }

    fn is_present(&self, sink: &dyn Sink) -> bool {
        self.present.output.has(sink)
    }

    fn ended(&mut self, sink: &dyn Sink, counts: &Counts, besides: &Counts) {
        let part = self.of(sink);
        part.counts.add(counts);
        part.besides.add(besides);
        part.output.ended(sink, counts, besides);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_model::Uuid;
    use strata_remote::{CounterPair, Destination, Recording};

    /// Parts for a relay that is not there.
    fn parts() -> RelayParts {
        let target = Destination::parse("box@127.0.0.1:1").unwrap().target().unwrap();
        let begin = move |name: &str, is_later_part| {
            let recording = Recording {
                uuid: Uuid([7; 16]),
                boot: None,
                host: "box".to_owned(),
                session: name.to_owned(),
                pair: CounterPair::default,
                begin: || (),
                is_later_part,
            };
            match is_later_part {
                false => RemoteOutput::begin(target.clone(), recording),
                true => RemoteOutput::begin_with_first_trace(target.clone(), recording),
            }
        };
        RelayParts::new(Box::new(begin), "days", "1").unwrap()
    }

    #[test]
    fn part_without_traces_is_neither_begun_at_the_relay_nor_ended() {
        let mut parts = parts();
        assert_eq!(parts.started_links().len(), 1);
        // Nothing was recorded in the first one.
        assert_eq!(parts.begin_next("2"), Ok(()));
        assert_eq!(parts.end_last(Ending::Ended), None);
        assert_eq!(parts.present(), PathBuf::from("days-1"));
        let first = parts.trace("user", None).unwrap();
        assert_eq!(parts.begin_next("2"), Ok(()));
        assert_eq!(parts.present(), PathBuf::from("days-2"));
        assert_eq!(parts.end_last(Ending::Ended).map(|part| part.number), Some(1));
        // Only the first one is to be sent.
        assert_eq!((parts.started_links().len(), parts.links().len()), (1, 2));
        assert!(!parts.is_present(&*first));
        // It does not go away, and so no other one can be ended, whatever is in the present one.
        assert!(parts.begin_next("3").is_err());
        assert_eq!(parts.end_last(Ending::Ended), None);
        let second = parts.trace("user", None).unwrap();
        assert!(parts.is_present(&*second) && parts.started_links().len() == 2);
        assert!(parts.begin_next("3").is_err());
        assert_eq!(parts.present(), PathBuf::from("days-2"));
    }
}
