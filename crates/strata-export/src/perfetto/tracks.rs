//! Tracks: the places at which events are shown, and their names.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};

use super::proto::{CounterDescriptor, ProcessDescriptor, ThreadDescriptor, TrackDescriptor};
use super::slices::OpenSlices;
use super::writer::PacketWriter;
use strata_analyze::fast_hash::Mix;

/// The most places (threads, CPUs and the like) that have tracks at one time; each takes some 100 bytes.
/// Beyond the limit, places without open slices are forgotten.
const PLACES_MAX: usize = 1 << 17;
/// The number of refused places after which the known ones are searched again for some to forget.
const SWEEP_INTERVAL: usize = 1 << 14;
/// The most times that a place is renamed: programs may rename their threads with each request.
const RENAMES_MAX: u8 = 32;
/// The most bytes of a name.
const NAME_BYTES_MAX: usize = 256;
/// The number of bits for process ids of one machine, if there are several machines. Linux has 2^22 ids at most.
const PID_BITS: u32 = 23;
/// The bound of CPU numbers in the format.
const CPUS: u32 = 1024;
/// The bound of the first machine's CPU numbers, if there are several machines.
const CPUS_FIRST: u32 = 512;

/// The number of a machine, by the order in which machines appear in the traces.
pub(super) type MachineNumber = u8;

/// The place at which an event is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TrackPlace {
    /// A thread of a process; ids are above 0.
    Thread { machine: MachineNumber, pid: i32, tid: i32 },
    /// A thread of a process in another PID namespace. Its ids are valid only in that namespace.
    Inner { machine: MachineNumber, pid: i32, tid: i32 },
    /// A process, if the thread is not known.
    Process { machine: MachineNumber, pid: i32 },
    /// A CPU, if the thread is not known or idle.
    Cpu { machine: MachineNumber, cpu: u32 },
    /// A stream, if nothing else is known.
    Stream(u32),
    /// The track of all CPUs of a machine.
    Cpus { machine: MachineNumber },
}

impl Hash for TrackPlace {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.uuid());
    }
}

impl TrackPlace {
    /// Returns the id of the place's track, which no other place has.
    pub(super) fn uuid(self) -> u64 {
        const OTHER: u64 = 1 << 62;
        let number = |value: i32| u64::from(value.unsigned_abs() & (i32::MAX as u32));
        match self {
            TrackPlace::Thread { machine: _, pid, tid } => {
                3 << 62 | number(pid) << 31 | number(tid)
            }
            // Ids are above 0, so this is not 0.
            TrackPlace::Inner { machine: _, pid, tid } => number(pid) << 31 | number(tid),
            TrackPlace::Process { machine: _, pid } => OTHER | number(pid),
            TrackPlace::Cpu { machine, cpu } => {
                OTHER | 1 << 56 | u64::from(machine) << 32 | u64::from(cpu)
            }
            TrackPlace::Stream(stream) => OTHER | 2 << 56 | u64::from(stream),
            TrackPlace::Cpus { machine } => OTHER | 3 << 56 | u64::from(machine),
        }
    }
}

/// Returns the id of a track that has no place: a lane or a counter.
pub(super) fn extra_uuid(number: u64) -> u64 {
    2 << 62 | (number & (u64::MAX >> 2))
}

/// The names and open slices of a place.
#[derive(Debug, Default)]
struct KnownTrack {
    stack: OpenSlices,
    name: Option<String>,
    renames: u8,
}

/// All places that have tracks.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    known: HashMap<TrackPlace, KnownTrack, Mix>,
    machines: Vec<String>,
    cpus: HashMap<(MachineNumber, u32), u32>,
    streams: Vec<String>,
    /// The number of places that were refused since places without open slices were last searched.
    refused: usize,
    /// The number of times that places were forgotten.
    sweeps: u64,
}

impl Tracks {
    /// Makes an empty table for machines and streams with these names.
    pub(super) fn new(machines: Vec<String>, streams: Vec<String>) -> Tracks {
        Tracks { machines, streams, ..Tracks::default() }
    }

    /// Returns the exported number of a process or thread, which is different for each machine. Returns `None` if the
    /// number is invalid.
    pub(super) fn id(&self, machine: MachineNumber, id: i64) -> Option<i32> {
        let id = i32::try_from(id).ok().filter(|&id| id > 0)?;
        if self.machines.len() <= 1 {
            return Some(id);
        }
        if id >> PID_BITS != 0 {
            return None;
        }
        i32::from(machine).checked_mul(1 << PID_BITS)?.checked_add(id)
    }

    /// Returns the number under which a CPU's scheduling is exported; `None` if the format has no more numbers.
    pub(super) fn cpu(&mut self, machine: MachineNumber, cpu: u32) -> Option<u32> {
        if self.machines.len() <= 1 {
            return (cpu < CPUS).then_some(cpu);
        }
        if machine == 0 {
            return (cpu < CPUS_FIRST).then_some(cpu);
        }
        let next = CPUS_FIRST.saturating_add(u32::try_from(self.cpus.len()).unwrap_or(u32::MAX));
        if let Some(&number) = self.cpus.get(&(machine, cpu)) {
            return Some(number);
        }
        if next >= CPUS {
            return None;
        }
        self.cpus.insert((machine, cpu), next);
        Some(next)
    }

    /// Makes sure that a place has a track in the output, with this name if the name is known. Returns the place, or
    /// that of the stream if there are too many places.
    pub(super) fn describe<W: Write>(
        &mut self,
        writer: &mut PacketWriter<W>,
        place: TrackPlace,
        name: Option<&str>,
        stream: u32,
    ) -> io::Result<TrackPlace> {
        if let Some(known) = self.known.get(&place) {
            let same = name.is_none() || known.name.as_deref() == name;
            if same || known.renames >= RENAMES_MAX {
                return Ok(place);
            }
        } else if self.is_full() && !matches!(place, TrackPlace::Stream(_)) {
            return self.describe(writer, TrackPlace::Stream(stream), None, stream);
        }
        // A thread stands below its process, a CPU below all of them.
        match place {
            TrackPlace::Thread { machine, pid, tid } => {
                let name = if pid == tid { name } else { None };
                self.describe(writer, TrackPlace::Process { machine, pid }, name, stream)?;
            }
            TrackPlace::Inner { machine, pid, .. } => {
                self.describe(writer, TrackPlace::Process { machine, pid }, None, stream)?;
            }
            TrackPlace::Cpu { machine, .. } => {
                self.describe(writer, TrackPlace::Cpus { machine }, None, stream)?;
            }
            TrackPlace::Process { .. } | TrackPlace::Stream(_) | TrackPlace::Cpus { .. } => {}
        }
        let name = name.map(|name| cut(name).to_owned());
        writer.track(self.descriptor(place, name.as_deref()))?;
        let known = self.known.entry(place).or_default();
        if known.name.is_some() {
            known.renames += 1;
        }
        known.name = name.or_else(|| known.name.take());
        Ok(place)
    }

    /// Returns a number that changes when places are forgotten. While it is the same, a place still has its track.
    #[inline]
    pub(super) fn sweeps(&self) -> u64 {
        self.sweeps
    }

    /// Returns the open slices of a place.
    pub(super) fn stack(&mut self, place: TrackPlace) -> &mut OpenSlices {
        &mut self.known.entry(place).or_default().stack
    }

    /// Closes all slices at a place. Returns their number.
    pub(super) fn close_one(&mut self, place: TrackPlace) -> usize {
        self.known.get_mut(&place).map_or(0, |known| known.stack.close())
    }

    /// Closes all slices. Returns the places that had open ones, each with their number.
    pub(super) fn close(&mut self) -> Vec<(TrackPlace, usize)> {
        let known = self.known.iter_mut().map(|(&place, known)| (place, known.stack.close()));
        let mut open: Vec<_> = known.filter(|&(_, count)| count > 0).collect();
        open.sort_unstable();
        open
    }

    fn is_full(&mut self) -> bool {
        if self.known.len() < PLACES_MAX {
            return false;
        }
        // Looking through all of them each time would take the square of their number.
        if self.refused % SWEEP_INTERVAL == 0 {
            self.known.retain(|_, known| !known.stack.is_empty());
            self.sweeps += 1;
        }
        self.refused = self.refused.wrapping_add(1);
        self.known.len() >= PLACES_MAX
    }

    /// Returns a machine's name as ` (name)`, or nothing if there is only one machine.
    fn on(&self, machine: MachineNumber) -> String {
        match self.machines.get(usize::from(machine)) {
            Some(name) if self.machines.len() > 1 => format!(" ({})", cut(name)),
            _ => String::new(),
        }
    }

    fn descriptor(&self, place: TrackPlace, name: Option<&str>) -> TrackDescriptor {
        let track = TrackDescriptor { uuid: Some(place.uuid()), ..TrackDescriptor::default() };
        match place {
            TrackPlace::Thread { machine, pid, tid } => TrackDescriptor {
                parent_uuid: Some(TrackPlace::Process { machine, pid }.uuid()),
                thread: Some(ThreadDescriptor {
                    pid: Some(pid),
                    tid: Some(tid.into()),
                    thread_name: name.map(str::to_owned),
                }),
                ..track
            },
            TrackPlace::Inner { machine, pid, tid } => TrackDescriptor {
                parent_uuid: Some(TrackPlace::Process { machine, pid }.uuid()),
                name: Some(format!("{} {tid} (in its PID namespace)", name.unwrap_or("thread"))),
                ..track
            },
            TrackPlace::Process { machine, pid } => TrackDescriptor {
                process: Some(ProcessDescriptor {
                    pid: Some(pid),
                    process_name: name.map(|name| format!("{name}{}", self.on(machine))),
                }),
                ..track
            },
            TrackPlace::Cpu { machine, cpu } => TrackDescriptor {
                parent_uuid: Some(TrackPlace::Cpus { machine }.uuid()),
                name: Some(format!("CPU {cpu}{}", self.on(machine))),
                ..track
            },
            TrackPlace::Cpus { machine } => {
                TrackDescriptor { name: Some(format!("CPUs{}", self.on(machine))), ..track }
            }
            TrackPlace::Stream(stream) => {
                let found = usize::try_from(stream).ok().and_then(|at| self.streams.get(at));
                let name = found.map_or_else(|| format!("stream {stream}"), String::clone);
                TrackDescriptor { name: Some(name), ..track }
            }
        }
    }
}

/// Returns the description of a track for a lane or a counter.
pub(super) fn extra_track(uuid: u64, parent: u64, name: &str, counter: bool) -> TrackDescriptor {
    TrackDescriptor {
        uuid: Some(uuid),
        // 0 is no track.
        parent_uuid: (parent != 0).then_some(parent),
        name: Some(name.to_owned()),
        counter: counter.then(CounterDescriptor::default),
        ..TrackDescriptor::default()
    }
}

fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::proto::CLOCK_REALTIME;
    use crate::perfetto::slices::PairMatch;
    use std::collections::HashSet;

    fn tracks(machines: &[&str]) -> Tracks {
        let names = machines.iter().map(|name| (*name).to_owned()).collect();
        Tracks::new(names, vec!["channel0_0".into()])
    }

    const THREAD: TrackPlace = TrackPlace::Thread { machine: 0, pid: 10, tid: 11 };

    #[test]
    fn places_have_numbers_of_their_own() {
        let ids = [1, 2, 10, i32::MAX];
        let mut all = HashSet::new();
        let mut count = 0;
        let mut add = |uuid: u64| {
            all.insert(uuid);
            count += 1;
        };
        for pid in ids {
            add(TrackPlace::Process { machine: 0, pid }.uuid());
            for tid in ids {
                add(TrackPlace::Thread { machine: 0, pid, tid }.uuid());
                add(TrackPlace::Inner { machine: 0, pid, tid }.uuid());
            }
        }
        for machine in [0, 1, 255] {
            add(TrackPlace::Cpus { machine }.uuid());
            for cpu in [0, 1, u32::MAX] {
                add(TrackPlace::Cpu { machine, cpu }.uuid());
            }
        }
        for number in [0, 1, u32::MAX] {
            add(TrackPlace::Stream(number).uuid());
            add(extra_uuid(number.into()));
        }
        assert_eq!(all.len(), count);
        assert!(!all.contains(&0));
    }

    #[test]
    fn place_is_described_once_and_when_its_name_changes() {
        let mut tracks = tracks(&["box"]);
        let mut writer = PacketWriter::new(Vec::new(), CLOCK_REALTIME);
        let mut written = |name: Option<&str>| {
            let before = writer.bytes();
            assert_eq!(tracks.describe(&mut writer, THREAD, name, 0).unwrap(), THREAD);
            writer.bytes() > before
        };
        assert!(written(None));
        assert!(!written(None));
        assert!(written(Some("worker")));
        assert!(!written(Some("worker")));
        assert!(written(Some("other")));
        assert!(!written(None));
        for number in 0..1000 {
            written(Some(&number.to_string()));
        }
        assert!(!written(Some("too often")));
    }

    #[test]
    fn ids_of_two_machines_are_apart() {
        let tracks = tracks(&["one", "two"]);
        assert_eq!(tracks.id(0, 7), Some(7));
        assert_eq!(tracks.id(1, 7), Some((1 << 23) + 7));
        assert_eq!(tracks.id(1, 1 << 23), None);
        assert_eq!(
            tracks
                .descriptor(TrackPlace::Process { machine: 1, pid: 5 }, Some("x"))
                .process
                .unwrap()
                .process_name
                .unwrap(),
            "x (two)"
        );
    }

    #[test]
    fn malicious_ids_are_none() {
        let one = tracks(&["one"]);
        for id in [i64::MIN, -1, 0, i64::from(i32::MAX) + 1, i64::MAX] {
            assert_eq!(one.id(0, id), None, "{id}");
        }
        let many = tracks(&["x"; 255]);
        assert_eq!(many.id(254, 1), Some(254 * (1 << 23) + 1));
        assert_eq!(many.id(255, (1 << 23) - 1), Some(i32::MAX));
    }

    #[test]
    fn cpus_of_two_machines_are_apart_and_below_1024() {
        let mut two = tracks(&["one", "two"]);
        assert_eq!(two.cpu(0, 3), Some(3));
        assert_eq!(two.cpu(1, 3), Some(512));
        assert_eq!(two.cpu(1, 9), Some(513));
        assert_eq!(two.cpu(1, 3), Some(512));
        assert_eq!((0..10_000).filter_map(|cpu| two.cpu(1, cpu)).max(), Some(1023));
        assert_eq!(tracks(&["one"]).cpu(0, 1023), Some(1023));
        assert_eq!(tracks(&["one"]).cpu(0, 1024), None);
    }

    #[test]
    fn malicious_number_of_threads_is_bounded() {
        let mut tracks = tracks(&["box"]);
        let mut writer = PacketWriter::new(io::sink(), CLOCK_REALTIME);
        let mut elsewhere = 0;
        for tid in 1..300_000 {
            let place = TrackPlace::Thread { machine: 0, pid: 1, tid };
            let found = tracks.describe(&mut writer, place, None, 0).unwrap();
            tracks.stack(found).begin(1, false, PairMatch::default());
            elsewhere += u32::from(found == TrackPlace::Stream(0));
        }
        assert!(elsewhere > 100_000, "{elsewhere}");
        assert!(tracks.known.len() <= PLACES_MAX + 2, "{}", tracks.known.len());
    }

    #[test]
    fn malicious_name_is_cut_between_characters() {
        assert_eq!(cut(&"ü".repeat(1000)).len(), NAME_BYTES_MAX);
        assert_eq!(cut(&format!("a{}", "ü".repeat(1000))).len(), NAME_BYTES_MAX - 1);
        assert_eq!(cut("short"), "short");
    }
}
