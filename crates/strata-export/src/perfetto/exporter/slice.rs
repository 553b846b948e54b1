//! Event records that begin or end slices.

use std::io::{self, Write};
use std::rc::Rc;

use strata_ctf::read::Event;
use strata_model::syscalls::name_of;
use strata_timeline::slice_pairs::PairIndex;
use strata_timeline::{check_of, SpanKey};

use super::{EventSpot, Exporter, Extent, ShownEvent, UNFINISHED};
use crate::perfetto::classes::{of_name, EventPlan, SlicePlan};
use crate::perfetto::encode;
use crate::perfetto::fields::Annotations;
use crate::perfetto::proto::{track_event, EventType};
use crate::perfetto::slices::{PairMatch, SliceLane, SliceOrigin};
use crate::perfetto::tracks::{extra_track, TrackPlace};
use crate::perfetto::Overlap;
use strata_analyze::render::line::TextPiece;

/// The remark on an end whose begin was not found.
const UNBEGUN: &str = "its begin is not in the trace";

/// The most tracks for which the time of the latest slice is kept.
const LATEST_MAX: usize = 1 << 18;

impl<W: Write> Exporter<W> {
    /// Begins or ends a slice.
    pub(super) fn slice(
        &mut self,
        event: &Event<'_>,
        plan: &EventPlan,
        slice: &SlicePlan,
        spot: EventSpot,
    ) -> io::Result<()> {
        let pair = slice.role.pair;
        // A process' threads that are not told apart overlap, as does what has a key.
        let overlaps = slice.role.key.is_some() || matches!(spot.place, TrackPlace::Process { .. });
        if overlaps {
            return self.overlapping(event, plan, slice, spot);
        }
        let track = spot.place.uuid();
        let check = slice.check.as_ref().and_then(|check| event.value(check)).and_then(check_of);
        let address = slice.address.as_ref().and_then(|address| event.integer(address));
        let number = slice.call.as_ref().and_then(|call| event.integer(call));
        // Of two calls, too, the number says that they are not the same; but not where the end has none any more.
        let address = address.or(number.filter(|&number| number >= 0));
        let of = PairMatch { check, address: address.map(|address| address as u64) };
        if slice.role.begins {
            let begin = self.tracks.stack(spot.place).begin(pair, slice.role.syscall, of);
            self.close(spot.time, track, begin.closed, UNFINISHED)?;
            if check.is_some() {
                self.overlap(pair).begins_alone += 1;
            }
            if begin.begun {
                return self.begin(event, plan, slice, (spot, track));
            }
            self.summary.too_many_open += 1;
            return self.instant(event, plan, spot, Some("too many slices are open here"));
        }
        let stack = self.tracks.stack(spot.place);
        let ended = stack.end(pair, of);
        if let Some(check) = check {
            let overlap = self.overlap(pair);
            match ended {
                Some((_, begun)) => {
                    overlap.slices += 1;
                    overlap.disagree += u64::from(begun.is_some_and(|begun| begun != check));
                    overlap.begins_alone = overlap.begins_alone.saturating_sub(1);
                }
                None => overlap.ends_alone += 1,
            }
        }
        match ended {
            Some((inside, _)) => {
                self.close(spot.time, track, inside, UNFINISHED)?;
                self.end(event, slice, (spot, track))
            }
            None => self.unbegun(event, plan, spot),
        }
    }

    /// Returns the counts of a pair whose slices may overlap.
    fn overlap(&mut self, pair: PairIndex) -> &mut Overlap {
        let pairs = &self.pairs;
        self.overlaps.entry(pair).or_insert_with(|| {
            let begin = pairs.events_of(pair, true).min().unwrap_or_default();
            let end = pairs.events_of(pair, false).min().unwrap_or_default();
            let key = pairs.check(pair).unwrap_or_default();
            Overlap { rule: format!("{begin}={end}:{key}"), ..Overlap::default() }
        })
    }

    fn overlapping(
        &mut self,
        event: &Event<'_>,
        plan: &EventPlan,
        slice: &SlicePlan,
        spot: EventSpot,
    ) -> io::Result<()> {
        let pair = slice.role.pair;
        let key = slice.key.as_ref().and_then(|key| event.value(key));
        let key = key.and_then(SpanKey::of);
        let parent = match spot.place {
            TrackPlace::Thread { machine, pid, .. }
            | TrackPlace::Inner { machine, pid, .. }
            | TrackPlace::Process { machine, pid }
                if !self.is_kernel(event) =>
            {
                TrackPlace::Process { machine, pid }.uuid()
            }
            // A request of the kernel is nobody's.
            _ => 0,
        };
        let origin = SliceOrigin { parent, cpu: spot.cpu.map(u64::from) };
        if slice.role.begins {
            self.summary.guessed += u64::from(slice.role.key.is_none());
            let begin = self.lanes.begin(pair, key, origin);
            if let Some(closed) = begin.closed {
                let track = self.lane_track(closed, slice)?;
                self.close(spot.time, track, 1, UNFINISHED)?;
            }
            let Some(lane) = begin.lane else {
                self.summary.too_many_open += 1;
                return self.instant(event, plan, spot, Some("too many slices are open"));
            };
            let track = self.lane_track(lane, slice)?;
            return self.begin(event, plan, slice, (spot, track));
        }
        match self.lanes.end(pair, &key, origin) {
            Some(lane) => {
                let track = self.lane_track(lane, slice)?;
                self.end(event, slice, (spot, track))
            }
            None => self.unbegun(event, plan, spot),
        }
    }

    /// Returns the track of a lane, which is described first if it is new.
    fn lane_track(&mut self, lane: SliceLane, slice: &SlicePlan) -> io::Result<u64> {
        if let Some(&track) = self.lane_tracks.get(&lane.number) {
            return Ok(track);
        }
        let track = self.extra();
        self.lane_tracks.insert(lane.number, track);
        self.writer.track(extra_track(track, lane.parent, &slice.role.name, false))?;
        Ok(track)
    }

    fn begin(
        &mut self,
        event: &Event<'_>,
        plan: &EventPlan,
        slice: &SlicePlan,
        (spot, track): (EventSpot, u64),
    ) -> io::Result<()> {
        self.summary.begins += 1;
        self.summary.exits += u64::from(slice.is_alone);
        if !self.deferred.is_empty() {
            // Of a slice that had no end.
            self.deferred.remove(&track);
        }
        let call = self.call(event, slice);
        let elapsed = slice.elapsed.as_ref().and_then(|field| event.integer(field));
        let ago = elapsed.and_then(|found| u64::try_from(found).ok()).unwrap_or(0);
        let shown = ShownEvent {
            // Spans that are recorded at their end come innermost first; who reads the slices sorts them.
            time: match ago {
                1.. if !slice.role.syscall => spot.time.saturating_sub(ago),
                _ => self.forward(track, spot.time.saturating_sub(ago)),
            },
            track,
            categories: Some(&plan.categories),
            kind: Some(call.as_deref().unwrap_or(&slice.begin)),
            extent: Extent::All(&plan.twice, None),
        };
        self.put(event, spot, &shown)
    }

    /// Returns the encoded begin of a system call that is recorded by number. All shares give its name the same number.
    fn call(&mut self, event: &Event<'_>, slice: &SlicePlan) -> Option<Rc<TextPiece>> {
        let number = event.integer(slice.call.as_ref()?)?;
        let architecture = self.streams.get(event.stream().index())?.source.architecture;
        if let Some(known) = self.calls.get(&(architecture, number)) {
            return Some(Rc::clone(known));
        }
        let name = name_of(architecture, number, true)?;
        let piece = Rc::new(of_name(EventType::SliceBegin, self.writer.name(&name)));
        self.calls.insert((architecture, number), Rc::clone(&piece));
        Some(piece)
    }

    fn end(
        &mut self,
        event: &Event<'_>,
        slice: &SlicePlan,
        (spot, track): (EventSpot, u64),
    ) -> io::Result<()> {
        self.summary.ends += 1;
        let time = self.forward(track, spot.time);
        let deferred = match self.deferred.is_empty() {
            true => Vec::new(),
            false => self.deferred.remove(&track).unwrap_or_default(),
        };
        let extent = Extent::End(slice, &deferred);
        self.put(event, spot, &ShownEvent { time, track, categories: None, kind: None, extent })
    }

    /// Returns a time that is not before the latest slice of the track. Readers sort by time, so if a damaged trace
    /// goes back in time, an end could otherwise be taken for that of another slice.
    fn forward(&mut self, track: u64, time: u64) -> u64 {
        if self.latest.len() >= LATEST_MAX {
            self.latest.clear();
        }
        let latest = self.latest.entry(track).or_insert(time);
        *latest = time.max(*latest);
        *latest
    }

    fn unbegun(&mut self, event: &Event<'_>, plan: &EventPlan, spot: EventSpot) -> io::Result<()> {
        self.summary.ends_without_begin += 1;
        let is_birth = plan.slice.as_ref().is_some_and(|slice| slice.is_alone);
        self.summary.ends_of_births += u64::from(is_birth);
        self.show(event, plan, spot, Some(UNBEGUN))
    }

    /// Closes slices that have no end.
    pub(super) fn close(
        &mut self,
        time: u64,
        track: u64,
        count: usize,
        why: &str,
    ) -> io::Result<()> {
        let time = if count > 0 { self.forward(track, time) } else { time };
        for _ in 0..count {
            self.summary.unfinished += 1;
            if self.writer.is_muted() {
                continue;
            }
            let begun = self.writer.begin_event();
            let mut annotations = Annotations::new(&mut self.writer);
            annotations.add_text("unfinished", why);
            annotations.finish();
            let out = &mut self.writer.buffer;
            encode::number(out, track_event::TYPE, EventType::SliceEnd as u64);
            encode::number(out, track_event::TRACK, track);
            self.writer.end_event(begun, time)?;
        }
        Ok(())
    }
}
