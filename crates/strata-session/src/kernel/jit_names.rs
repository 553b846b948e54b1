//! Names of code that recorded processes generate: a thread of its own reads them, and the kernel's pump writes them.
//!
//! The names are records of a stream of the kernel's trace. All names are kept in
//! memory, since each further part of a trace and each snapshot begins with them.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use strata_collect::{Body, Error, Sink};
use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_kernel::jit_names::{code_name_records, CodeName, CodeNames, LeftOut};
use strata_kernel::Contexts;
use strata_model::{TimeSource, Uuid};

use crate::report::Counts;
use crate::session::lock::lock;

/// The period of reading the files in which processes name the code that they generate.
const PERIOD: Duration = Duration::from_secs(1);
/// The longest wait of a snapshot until the names of generated code are read.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most sightings of processes that wait for the reading thread.
const SIGHTINGS_MAX: usize = 1 << 16;
/// The most names of generated code in one packet.
const PACKET_NAMES: usize = 4096;

/// The trace and stream to which the names are written, with the id of the state dump's first event class.
#[derive(Clone, Debug)]
pub(crate) struct NamesPlace {
    pub(crate) uuid: Uuid,
    pub(crate) stream_id: u32,
    pub(crate) stream_instance: u64,
    pub(crate) first_id: u32,
    pub(crate) contexts: Contexts,
}

/// Something that was noticed about a process.
#[derive(Clone, Copy, Debug)]
enum Sighting {
    /// The process has code that it generated; `here` is its number in this program's PID namespace.
    Generates { here: u32, pid: i32 },
    /// The process began, or executes another program.
    Replaced { pid: i32 },
}

/// Names of generated code that one reading of the files found.
#[derive(Clone, Debug)]
struct Batch {
    time: u64,
    names: Arc<Vec<CodeName>>,
}

#[derive(Debug, Default)]
struct NamesState {
    sightings: Vec<Sighting>,
    /// The processes that were last seen with generated code, among the waiting sightings.
    generating: HashSet<i32>,
    /// Number of sightings for which there was no room.
    discarded: u64,
    batches: Vec<Batch>,
    /// Number of batches, and of packets, that were written to the present trace.
    written: usize,
    packets: u64,
    /// Time at which the present trace begins \[ns\].
    begin: u64,
    /// Numbers of readings that were requested, and that were made on request.
    asked: u64,
    answered: u64,
    has_ended: bool,
    left_out: LeftOut,
}

/// The names of generated code, shared by the thread that reads them and the threads that write them.
#[derive(Debug, Default)]
pub(crate) struct WatchedNames {
    state: Mutex<NamesState>,
    changed: Condvar,
}

impl NamesState {
    fn note(&mut self, sighting: Sighting) {
        if self.sightings.len() >= SIGHTINGS_MAX {
            self.discarded += 1;
            return;
        }
        let is_new = match sighting {
            Sighting::Generates { pid, .. } => self.generating.insert(pid),
            Sighting::Replaced { pid } => {
                self.generating.remove(&pid);
                true
            }
        };
        if is_new {
            self.sightings.push(sighting);
        }
    }
}

/// Decides when the files with names are read next.
struct ReadPeriod {
    time: TimeSource,
    last: Instant,
}

impl ReadPeriod {
    fn begin(time: &TimeSource) -> ReadPeriod {
        ReadPeriod { time: time.clone(), last: time.now() }
    }

    /// Returns the time until the next reading; zero if it is due.
    fn rest(&self) -> Duration {
        PERIOD.saturating_sub(self.time.elapsed(self.last))
    }

    /// Notes that a reading has ended now. The next period begins at its end, so that slow readings do not follow
    /// each other without a pause.
    fn was_read(&mut self) {
        self.last = self.time.now();
    }
}

impl WatchedNames {
    /// Notes a process with code that it generated.
    pub(crate) fn generates(&self, here: u32, pid: i32) {
        self.note(Sighting::Generates { here, pid });
    }

    /// Notes that a process began, or executes another program.
    pub(crate) fn replaced(&self, pid: i32) {
        self.note(Sighting::Replaced { pid });
    }

    fn note(&self, sighting: Sighting) {
        lock(&self.state).note(sighting);
        self.changed.notify_all();
    }

    /// Reads names until [`WatchedNames::end`] is called, and then once more.
    pub(crate) fn watch(&self, time: &TimeSource) {
        let mut names = CodeNames::default();
        let mut period = ReadPeriod::begin(time);
        loop {
            let rest = names.has_processes().then(|| period.rest());
            let (sightings, asked, is_last) = self.wait(rest);
            let mut is_due = asked.is_some() || is_last || period.rest().is_zero();
            for sighting in sightings {
                match sighting {
                    Sighting::Generates { here, pid } => is_due |= names.add(here, pid),
                    Sighting::Replaced { pid } => is_due |= names.replaced(pid),
                }
            }
            if is_due {
                let time = strata_user::Clock::monotonic_ns();
                let found = names.read(time);
                period.was_read();
                let mut state = lock(&self.state);
                if !found.is_empty() {
                    state.batches.push(Batch { time, names: Arc::new(found) });
                }
                state.left_out = names.left_out();
                state.answered = asked.unwrap_or(state.answered);
                drop(state);
                self.changed.notify_all();
            }
            if is_last {
                return;
            }
        }
    }

    /// Waits until there is something to do, at most for the time `rest`. Returns the new sightings, the number of
    /// the request to answer, and true if the reading must end.
    fn wait(&self, rest: Option<Duration>) -> (Vec<Sighting>, Option<u64>, bool) {
        let is_idle = |state: &mut NamesState| {
            state.sightings.is_empty() && state.asked == state.answered && !state.has_ended
        };
        let state = lock(&self.state);
        let waited = match rest {
            Some(rest) => {
                self.changed.wait_timeout_while(state, rest, is_idle).map(|(state, _)| state).ok()
            }
            None => self.changed.wait_while(state, is_idle).ok(),
        };
        let Some(mut state) = waited else { return (Vec::new(), None, true) };
        let asked = Some(state.asked).filter(|asked| *asked != state.answered);
        state.generating.clear();
        (std::mem::take(&mut state.sightings), asked, state.has_ended)
    }

    /// Ends the reading of names.
    pub(crate) fn end(&self) {
        lock(&self.state).has_ended = true;
        self.changed.notify_all();
    }

    /// Requests a reading of the names and waits for it, for a limited time.
    fn ask(&self) {
        let mut state = lock(&self.state);
        if state.has_ended {
            return;
        }
        state.asked += 1;
        let wanted = state.asked;
        self.changed.notify_all();
        let is_open = |state: &mut NamesState| state.answered < wanted && !state.has_ended;
        drop(self.changed.wait_timeout_while(state, PATIENCE, is_open));
    }

    /// Appends to the trace the names that it does not have yet. Returns the counts of what was written.
    ///
    /// # Errors
    /// The system's error on writing the file.
    pub(crate) fn append(&self, sink: &mut dyn Sink, place: &NamesPlace) -> Result<Counts, Error> {
        let mut all = Counts::default();
        loop {
            let (batch, from, packets) = {
                let state = lock(&self.state);
                let Some(batch) = state.batches.get(state.written) else { return Ok(all) };
                (batch.clone(), state.begin, state.packets)
            };
            let counts = write(sink, place, &batch, (from, packets))?;
            all.add(&counts);
            let mut state = lock(&self.state);
            state.written += 1;
            state.packets += counts.packets;
        }
    }

    /// Completes the present trace. The next trace gets all names again.
    pub(crate) fn cut(&self) {
        let mut state = lock(&self.state);
        (state.written, state.packets) = (0, 0);
        state.begin = strata_user::Clock::monotonic_ns();
    }

    /// Reads once more, and returns all names for a snapshot.
    pub(crate) fn save(&self) -> SavedNames {
        self.ask();
        SavedNames(lock(&self.state).batches.clone())
    }

    /// Returns remarks on names of generated code that were left out.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let (left_out, discarded) = {
            let state = lock(&self.state);
            (state.left_out, state.discarded)
        };
        let LeftOut { names, processes, foreign, unread, stuck } = left_out;
        let mut remarks = Vec::new();
        let mut say = |count: u64, text: &str| {
            if count > 0 {
                remarks.push(format!("{count} {text}"));
            }
        };
        say(names, "names of generated code found no space (8 MiB for each process, 32 MiB in all): that code has no names");
        say(
            processes,
            "processes that generate code were not looked at, as there were more than 256 at one time: their code has no names",
        );
        say(
            foreign,
            "processes have a /tmp/perf-PID.map that is another user's, or no regular file with one name: it was not read",
        );
        say(
            unread,
            "processes have a /tmp/perf-PID.map for which the last reading had no time (1 s, or 16 MiB): names that were \
             added last are missing",
        );
        say(
            stuck,
            "processes have a /tmp/perf-PID.map whose reading has not come to an end: their code may have no names, and \
             with 4 of them no other file was read",
        );
        say(
            discarded,
            "processes began or generated code faster than their /tmp/perf-PID.map could be looked at: names may be missing, \
             or those of a former program",
        );
        remarks
    }
}

/// All names of generated code, for a snapshot.
#[derive(Debug)]
pub(crate) struct SavedNames(Vec<Batch>);

impl SavedNames {
    /// Writes the names into a trace whose packets begin at `from`.
    ///
    /// # Errors
    /// The system's error on writing the file.
    pub(crate) fn write(
        &self,
        sink: &mut dyn Sink,
        place: &NamesPlace,
        from: u64,
    ) -> Result<(), Error> {
        let mut packets = 0;
        for batch in &self.0 {
            packets += write(sink, place, batch, (from, packets))?.packets;
        }
        Ok(())
    }
}

/// Writes the names of one reading. `from`: the begin of the trace, which is also the time of names that are older.
fn write(
    sink: &mut dyn Sink,
    place: &NamesPlace,
    batch: &Batch,
    (from, packets): (u64, u64),
) -> Result<Counts, Error> {
    let time = batch.time.max(from);
    let stream = u32::try_from(place.stream_instance).unwrap_or(u32::MAX);
    let mut counts = Counts::default();
    for names in batch.names.chunks(PACKET_NAMES) {
        let (body, records) = code_name_records(names, time, (place.first_id, &place.contexts));
        let header = Header {
            uuid: place.uuid,
            stream_id: place.stream_id,
            stream_instance: place.stream_instance,
            sequence: packets + counts.packets,
            timestamp_begin: time,
            timestamp_end: time,
            ..Header::default()
        };
        let header = header.with_content_bytes(body.len() as u64);
        sink.append_counted(stream, header, &Body::Bytes(&body), records)?;
        let bytes = (HEADER_BYTES + body.len()) as u64;
        let span = Some((time, time));
        counts.add(&Counts { records, packets: 1, bytes, span, ..Counts::default() });
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_when_a_period_has_passed_since_they_were_read_are_read_again() {
        let time = TimeSource::manual(0);
        let mut period = ReadPeriod::begin(&time);
        assert_eq!(period.rest(), PERIOD);
        time.pause(PERIOD / 4);
        assert_eq!(period.rest(), PERIOD * 3 / 4);
        time.pause(PERIOD);
        assert!(period.rest().is_zero());
        // They were read, which took five periods.
        time.pause(PERIOD * 5);
        period.was_read();
        assert_eq!(period.rest(), PERIOD);
    }

    #[test]
    fn malicious_news_of_processes_wait_once_each_and_are_counted_above_the_limit() {
        let mut state = NamesState::default();
        let generates = |pid| Sighting::Generates { here: 1, pid };
        for _ in 0..1000 {
            state.note(generates(7));
        }
        assert_eq!(state.sightings.len(), 1);
        // It executes another program, which generates code, too.
        state.note(Sighting::Replaced { pid: 7 });
        state.note(generates(7));
        state.note(generates(7));
        assert_eq!((state.sightings.len(), state.discarded), (3, 0));
        for pid in 0..SIGHTINGS_MAX as i32 {
            state.note(Sighting::Replaced { pid });
        }
        assert_eq!((state.sightings.len(), state.discarded), (SIGHTINGS_MAX, 3));
    }
}
