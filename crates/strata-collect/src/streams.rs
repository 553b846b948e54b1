//! Read state of a channel: the position in each of its streams, and counts of its records. It outlives a trace, since
//! a rotated recording writes several traces one after the other.

use strata_model::Counts;
use strata_ring::{Channel, Info, Publish};

use crate::adopted_buffers::LeftFiles;
use crate::stats::{counts_of, discarded_of, StreamStats};
use crate::stream_file::StreamTrack;

/// The streams of a channel.
#[derive(Debug)]
pub struct Streams {
    pub(crate) channel: Channel,
    pub(crate) tracks: Vec<StreamTrack>,
    /// Number of discarded records that no stream counts; see [`Streams::add_discarded`].
    not_run: u64,
    given_up: bool,
    has_traces: bool,
    may_repeat: bool,
}

impl Streams {
    /// Makes the state of a channel from which nothing was read yet.
    #[must_use]
    pub fn new(channel: Channel) -> Streams {
        let outside = channel.publish() == Publish::ByCommit;
        let track = |cpu| StreamTrack::new(cpu, channel.subbuf_bytes(), outside);
        let tracks = (0..channel.nr_streams()).map(track).collect();
        Streams {
            channel,
            tracks,
            not_run: 0,
            given_up: false,
            has_traces: false,
            may_repeat: false,
        }
    }

    /// Makes the state of a channel that a killed recorder has read. Records that are already in the killed recorder's
    /// files are skipped.
    #[must_use]
    pub fn left(channel: Channel, left: &LeftFiles) -> Streams {
        let mut streams = Streams::new(channel);
        let Streams { channel, tracks, may_repeat, .. } = &mut streams;
        let (publish, subbuf_bytes) = (channel.publish(), channel.subbuf_bytes());
        let nr_subbufs = channel.nr_subbufs();
        let Some(mut search) = left.search(subbuf_bytes) else { return streams };
        for track in tracks {
            let Ok(mut stream) = channel.stream(track.stats.cpu) else { continue };
            let mut held = Vec::new();
            // A packet that is not put stays unread.
            let mut found = match stream.next() {
                Ok(packet) => packet
                    .and_then(|packet| packet.copy_to(0, &mut held).ok().map(|()| *packet.info())),
                Err(error) => {
                    track.damaged(error.to_string());
                    continue;
                }
            };
            // By commit, what is filled is delivered before it is written.
            if found.is_none() && publish == Publish::ByPosition && stream.backlog() > 0 {
                found = stream.partial(&mut held).ok().flatten();
            }
            let mut pass = |track: &mut StreamTrack, info: &Info, held: &[u8]| {
                let records = held.get(info.header_bytes as usize..).unwrap_or_default();
                let passed = search.passed(track.stats.cpu, (info.timestamp_begin, records));
                if let Some(passed) = &passed {
                    track.go_on_within(info.position, info.header_bytes, passed);
                }
                passed.is_some()
            };
            match found {
                Some(info) => {
                    pass(track, &info, &held);
                }
                // What dead producers have left stays there when it is written: all of it may be.
                None if publish == Publish::ByCommit && stream.backlog() > 0 => {
                    for _ in 0..=nr_subbufs {
                        let Ok(Some(packet)) = stream.rest() else { break };
                        let info = *packet.info();
                        held.clear();
                        if packet.copy_to(0, &mut held).is_ok() && pass(track, &info, &held) {
                            break;
                        }
                    }
                    let _ = stream.rest_again();
                }
                None => {}
            }
        }
        *may_repeat = search.is_over();
        streams
    }

    /// Returns true, the first time, if the search through files of a killed recorder was cut short: some of their
    /// records may be written again.
    pub fn take_may_repeat(&mut self) -> bool {
        std::mem::take(&mut self.may_repeat)
    }

    /// Completes the present trace and begins another one.
    pub(crate) fn cut(&mut self) {
        self.tracks.iter_mut().for_each(StreamTrack::cut);
        self.has_traces = true;
    }

    /// Returns whether a completed trace has records of the channel.
    pub(crate) fn has_traces(&self) -> bool {
        self.has_traces
    }

    /// Returns whether there are records or discards that are in no trace yet.
    pub(crate) fn has_something(&mut self) -> bool {
        let Streams { channel, tracks, .. } = self;
        tracks.iter().any(|track| match channel.stream(track.stats.cpu) {
            Ok(stream) => {
                let counters = stream.counters();
                let absent = counters.discarded().saturating_add(track.overwritten(&counters));
                stream.backlog() > track.cut_bytes() || absent > track.discarded()
            }
            // The collector says what is wrong with it, once.
            Err(_) => track.all().damaged == 0,
        })
    }

    /// Returns the unread bytes of a stream, without those that are already written of the packet being filled
    /// \[byte\].
    pub(crate) fn backlog(&mut self, number: u32) -> u64 {
        let track = &self.tracks[number as usize];
        self.channel.stream(number).map_or(0, |s| s.backlog()).saturating_sub(track.cut_bytes())
    }

    /// Returns the size of the buffer of one stream \[byte\].
    pub(crate) fn stream_bytes(&self) -> u64 {
        u64::from(self.channel.nr_subbufs()).saturating_mul(self.channel.subbuf_bytes())
    }

    /// Returns the unread share of the fullest stream's buffer \[%\].
    pub(crate) fn fill(&mut self) -> u8 {
        let whole = self.stream_bytes();
        let most = (0..self.channel.nr_streams()).map(|number| self.backlog(number)).max();
        let percent = most.unwrap_or(0).min(whole).saturating_mul(100) / whole.max(1);
        u8::try_from(percent).unwrap_or(100)
    }

    /// Adds `n` records that were not written because a program of the same event was already running on that CPU. The
    /// kernel counts them for all CPUs together, so they are added to the first stream.
    pub fn add_discarded(&mut self, n: u64) {
        self.not_run = self.not_run.saturating_add(n);
    }

    /// Returns the part of [`Streams::add_discarded`] that this stream reports.
    pub(crate) fn not_run(&self, stream: u32) -> u64 {
        match stream {
            0 => self.not_run,
            _ => 0,
        }
    }

    /// Counts everything unread as discarded. Producers must write no more.
    pub(crate) fn give_up(&mut self) {
        self.given_up = true;
    }

    /// Returns the counts of each stream's records in all traces, without streams that were never used.
    pub(crate) fn stats(&mut self) -> Vec<StreamStats> {
        let mut all = Vec::new();
        let held_bytes_max =
            (u64::from(self.channel.nr_subbufs()) + 1).saturating_mul(self.channel.subbuf_bytes());
        for track in &self.tracks {
            let mut stats = track.all();
            stats.discarded.not_run = self.not_run(stats.cpu);
            stats.told = track.discarded();
            if let Ok(stream) = self.channel.stream(stats.cpu) {
                let counters = stream.counters();
                stats.discarded.add(&discarded_of(&counters));
                if self.given_up {
                    stats.discarded.unwritten = track.unwritten(&counters, held_bytes_max);
                }
                stats.overwritten = track.overwritten(&counters);
                stats.overwritten_packets = counters.overwritten_packets;
            }
            if stats != (StreamStats { cpu: stats.cpu, ..StreamStats::default() }) {
                all.push(stats);
            }
        }
        all
    }

    /// Returns the counts of the trace being written. Discards are not among them: they are reported for all traces
    /// together.
    pub(crate) fn counts_of_trace(&self) -> Counts {
        let of_trace: Vec<StreamStats> = self.tracks.iter().map(|one| one.stats.clone()).collect();
        counts_of(&of_trace, self.channel.nr_streams())
    }
}
