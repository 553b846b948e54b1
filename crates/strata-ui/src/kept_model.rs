//! A model as a file, so that a trace is read once and shown often.
//!
//! ```text
//! head: magic, offset, length and check sum of the index │ blocks of lanes │ index: identity, model, places of blocks
//! ```
//!
//! The head is written last: a file whose writer has ended too early has none. The index is read and checked at once,
//! blocks when a tile needs them, each with its own check sum. What is wrong in any way is as good as no file.

use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::Hasher;
use std::io;
use std::os::unix::fs::FileExt;

use strata_timeline::{CounterPlace, Name, ThreadId, ThreadSummary, World, WorldSummary};

use crate::model::item_coding::put_varint;
use crate::model::item_store::BlockStore;
use crate::model::lane::{Lane, LaneStore};
use crate::model::lane_builder::{Maker, TimedOut, Track, TrackKind, TRACKS_MAX};
use crate::model::name_table::NameTable;
use crate::model::overview::{Gaps, Overview};
use crate::model::stored_bytes::{put_bytes, put_option, put_signed, StoredBytes};
use crate::model::{KeptModel, Model, DAMAGE_MAX};

/// Version of the layout, and of what is told as known.
pub const FORMAT: u32 = 2;
const MAGIC: [u8; 8] = *b"strataui";
/// Size of the head \[byte\].
const HEAD: u64 = 32;
/// Size of one write \[byte\].
const CHUNK: usize = 1 << 20;
/// The largest index \[byte\].
const INDEX_MAX: u64 = 256 << 20;

/// Writes a model, whose trace was read to its end and whose lanes are settled. `may_grow` is asked before the file has
/// so many bytes.
///
/// # Errors
/// The blocks cannot be read, or the file not be written.
pub fn keep(
    model: &Model,
    identity: &str,
    file: &File,
    may_grow: &dyn Fn(u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut written = HEAD;
    let mut waiting = Vec::new();
    let mut keep = |block: &[u8]| {
        let offset = written + waiting.len() as u64;
        waiting.extend_from_slice(block);
        if waiting.len() >= CHUNK {
            may_grow(written + waiting.len() as u64)?;
            file.write_all_at(&waiting, written)?;
            written += waiting.len() as u64;
            waiting.clear();
        }
        Ok(offset)
    };
    let index = index_of(model, identity, &mut keep)?;
    if index.len() as u64 > INDEX_MAX {
        // It would not be read again.
        return Err(io::ErrorKind::StorageFull.into());
    }
    waiting.extend_from_slice(&index);
    may_grow(written + waiting.len() as u64)?;
    file.write_all_at(&waiting, written)?;
    let begin = written + (waiting.len() - index.len()) as u64;
    let mut head = MAGIC.to_vec();
    for number in [begin, index.len() as u64, check(&index)] {
        head.extend(number.to_le_bytes());
    }
    file.write_all_at(&head, 0)
}

/// Reads what [`keep`] has written of this trace; `None` if the file is of another one, or not whole.
///
/// # Errors
/// The file cannot be read.
pub fn kept(file: File, identity: &str) -> io::Result<Option<KeptModel>> {
    let bytes = file.metadata()?.len();
    let mut head = [0; HEAD as usize];
    if bytes < HEAD {
        return Ok(None);
    }
    file.read_exact_at(&mut head, 0)?;
    let number = |at: usize| {
        let eight = head.get(at..at + 8).and_then(|eight| eight.try_into().ok());
        u64::from_le_bytes(eight.unwrap_or_default())
    };
    let (begin, len) = (number(8), number(16));
    let is_whole = head.starts_with(&MAGIC) && begin.checked_add(len) == Some(bytes);
    if !is_whole || begin < HEAD || len > INDEX_MAX {
        return Ok(None);
    }
    let mut index = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    file.read_exact_at(&mut index, begin)?;
    if check(&index) != number(24) {
        return Ok(None);
    }
    Ok(model_of(&index, identity, BlockStore::of_file(file, begin)))
}

fn check(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn index_of(
    model: &Model,
    identity: &str,
    keep: &mut dyn FnMut(&[u8]) -> io::Result<u64>,
) -> io::Result<Vec<u8>> {
    let Model {
        maker, overview, gaps, damage, damages, records, discarded, packets, bytes, ..
    } = model;
    let world = model.timeline.world();
    let mut out = Vec::new();
    put_bytes(&mut out, identity.as_bytes());
    for number in [damages, records, discarded, packets, bytes, &maker.left_out] {
        put_varint(&mut out, *number);
    }
    put_list(&mut out, damage, |out, text| put_bytes(out, text.as_bytes()));
    put_world(&mut out, &world.summary());
    let names: Vec<&str> = maker.names.after(0, usize::MAX).collect();
    put_list(&mut out, &names, |out, text| put_bytes(out, text.as_bytes()));
    overview.keep(&mut out);
    gaps.keep(&mut out);
    put_list(&mut out, &maker.timed_out(), |out, (thread, from)| {
        put_varint(out, thread.index() as u64);
        put_signed(out, *from);
    });
    put_varint(&mut out, maker.tracks.len() as u64);
    for track in &maker.tracks {
        put_kind(&mut out, track.kind, world);
        track.lane.keep(&maker.store, &mut out, keep)?;
    }
    Ok(out)
}

fn put_list<T>(out: &mut Vec<u8>, all: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    put_varint(out, all.len() as u64);
    all.iter().for_each(|one| put(out, one));
}

fn model_of(index: &[u8], identity: &str, blocks: BlockStore) -> Option<KeptModel> {
    let bytes = &mut StoredBytes(index);
    if bytes.text()? != identity {
        return None;
    }
    let mut numbers = [0; 6];
    for number in &mut numbers {
        *number = bytes.number()?;
    }
    let [damages, records, discarded, packets, all_bytes, left_out] = numbers;
    let damage = bytes.list(|bytes| bytes.text().map(str::to_owned))?;
    let mut world = World::from_summary(&world_of(bytes)?)?;
    let names = NameTable::of_texts(bytes.list(|bytes| bytes.text().map(Box::from))?)?;
    let (overview, gaps) = (Overview::kept(bytes)?, Gaps::kept(bytes)?);
    let ids = std::iter::once(ThreadId::IDLE).chain(world.threads.iter().map(|(id, _)| id));
    let ids: Vec<ThreadId> = ids.collect();
    let timed_out = bytes.list(|bytes| {
        let thread = ids.get(bytes.small::<usize>()?)?;
        Some((*thread, bytes.signed()?))
    })?;
    let timed_out: TimedOut = timed_out.into_iter().collect();
    let tracks = bytes.list(|bytes| {
        Some(Track { kind: kind_of(bytes, &ids, &mut world)?, lane: Lane::kept(bytes)? })
    })?;
    if !bytes.0.is_empty() || tracks.len() > TRACKS_MAX || damage.len() > DAMAGE_MAX {
        return None;
    }
    let store = LaneStore::of(blocks);
    let maker = Maker::made(tracks, store, names, left_out, timed_out);
    let bytes = all_bytes;
    Some(KeptModel {
        world,
        maker,
        overview,
        gaps,
        damage,
        damages,
        records,
        discarded,
        packets,
        bytes,
    })
}

fn put_world(out: &mut Vec<u8>, world: &WorldSummary) {
    let WorldSummary { machines, begin, now, threads, disks } = world;
    put_list(out, machines, |out, name| put_bytes(out, name.as_bytes()));
    out.push(begin.is_some().into());
    put_signed(out, begin.unwrap_or(0));
    put_signed(out, *now);
    put_list(out, threads, |out, thread| {
        out.push(thread.machine);
        put_signed(out, thread.tid.into());
        put_bytes(out, &thread.name);
        put_option(out, thread.main);
        put_option(out, thread.parent);
        out.push(thread.born.is_some().into());
        put_signed(out, thread.born.unwrap_or(0));
    });
    put_list(out, disks, |out, (machine, device, name)| {
        out.push(*machine);
        put_varint(out, (*device).into());
        put_bytes(out, name);
    });
}

fn world_of(bytes: &mut StoredBytes<'_>) -> Option<WorldSummary> {
    let machines = bytes.list(|bytes| bytes.text().map(str::to_owned))?;
    let has_begin = bytes.byte()? != 0;
    let (begin, now) = (Some(bytes.signed()?).filter(|_| has_begin), bytes.signed()?);
    let threads = bytes.list(|bytes| {
        Some(ThreadSummary {
            machine: bytes.byte()?,
            tid: i32::try_from(bytes.signed()?).ok()?,
            name: bytes.bytes()?.to_vec(),
            main: bytes.option()?,
            parent: bytes.option()?,
            born: match bytes.byte()? {
                0 => bytes.signed().map(|_| None)?,
                _ => Some(bytes.signed()?),
            },
        })
    })?;
    let disks =
        bytes.list(|bytes| Some((bytes.byte()?, bytes.small()?, bytes.bytes()?.to_vec())))?;
    Some(WorldSummary { machines, begin, now, threads, disks })
}

/// Appends the kind of a track. Names are kept as texts, since their numbers are those of one pass.
fn put_kind(out: &mut Vec<u8>, kind: TrackKind, world: &World) {
    let mut put = |tag: u8, numbers: &[u64], name: Option<Name>| {
        out.push(tag);
        numbers.iter().for_each(|&number| put_varint(out, number));
        if let Some(name) = name {
            put_bytes(out, world.names.bytes(name));
        }
    };
    let of = |thread: ThreadId| thread.index() as u64;
    match kind {
        TrackKind::Cpu(machine, cpu) => put(0, &[machine.into(), cpu.into()], None),
        TrackKind::Interrupts(machine, cpu) => put(1, &[machine.into(), cpu.into()], None),
        TrackKind::Softirqs(machine, cpu) => put(2, &[machine.into(), cpu.into()], None),
        TrackKind::States(thread) => put(3, &[of(thread)], None),
        TrackKind::Calls(thread) => put(4, &[of(thread)], None),
        TrackKind::Spans(thread, depth) => put(5, &[of(thread), depth.into()], None),
        TrackKind::Samples(thread) => put(6, &[of(thread)], None),
        TrackKind::Disk(machine, device, depth) => {
            put(7, &[machine.into(), device.into(), depth.into()], None);
        }
        TrackKind::Keyed(name, process, depth) => {
            let process = process.map_or(0, |process| of(process) + 1);
            put(8, &[process, depth.into()], Some(name));
        }
        TrackKind::Counter(name, place) => match place {
            CounterPlace::Process(process) => put(9, &[of(process)], Some(name)),
            CounterPlace::Cpu { machine, cpu } => {
                put(10, &[machine.into(), cpu.into()], Some(name))
            }
            CounterPlace::Stream(stream) => put(11, &[stream.into()], Some(name)),
        },
    }
}

fn kind_of(bytes: &mut StoredBytes<'_>, ids: &[ThreadId], world: &mut World) -> Option<TrackKind> {
    let tag = bytes.byte()?;
    let thread = |bytes: &mut StoredBytes<'_>| ids.get(bytes.small::<usize>()?).copied();
    let mut name = |bytes: &mut StoredBytes<'_>| Some(world.names.of(bytes.bytes()?));
    Some(match tag {
        0 => TrackKind::Cpu(bytes.small()?, bytes.small()?),
        1 => TrackKind::Interrupts(bytes.small()?, bytes.small()?),
        2 => TrackKind::Softirqs(bytes.small()?, bytes.small()?),
        3 => TrackKind::States(thread(bytes)?),
        4 => TrackKind::Calls(thread(bytes)?),
        5 => TrackKind::Spans(thread(bytes)?, bytes.small()?),
        6 => TrackKind::Samples(thread(bytes)?),
        7 => TrackKind::Disk(bytes.small()?, bytes.small()?, bytes.small()?),
        8 => {
            let process = match bytes.small::<usize>()? {
                0 => None,
                more => Some(*ids.get(more - 1)?),
            };
            let depth = bytes.small()?;
            TrackKind::Keyed(name(bytes)?, process, depth)
        }
        9 => {
            let process = CounterPlace::Process(thread(bytes)?);
            TrackKind::Counter(name(bytes)?, process)
        }
        10 => {
            let place = CounterPlace::Cpu { machine: bytes.small()?, cpu: bytes.small()? };
            TrackKind::Counter(name(bytes)?, place)
        }
        11 => {
            let place = CounterPlace::Stream(bytes.small()?);
            TrackKind::Counter(name(bytes)?, place)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::item_store::BlockPlace;
    use crate::model::overview::Gap;
    use crate::testing::slices;
    use strata_ctf::read::Reader;
    use strata_random::Random;

    fn file() -> File {
        let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        File::from(rustix::fs::openat(rustix::fs::CWD, std::env::temp_dir(), flags, mode).unwrap())
    }

    /// A model of which no trace was read.
    fn made(reader: &Reader, tracks: usize, count: usize) -> Model {
        let mut summary = WorldSummary {
            machines: vec!["host".into(), "guest".into()],
            ..WorldSummary::default()
        };
        (summary.begin, summary.now) = (Some(-5000), 9_000_000);
        for n in 1..=20_u32 {
            summary.threads.push(ThreadSummary {
                machine: (n % 2) as u8,
                tid: 100 + n as i32,
                name: format!("thread {n}\u{fffd}").into_bytes(),
                main: (n % 3 == 0).then_some(n / 3),
                parent: (n > 4).then(|| n - 4),
                born: (n % 2 == 0).then_some(-i64::from(n)),
            });
        }
        summary.disks.push((0, 259 << 20, b"nvme0n1".to_vec()));
        let mut world = World::from_summary(&summary).unwrap();
        assert_eq!(world.summary(), summary);
        let ids: Vec<ThreadId> = world.threads.iter().map(|(id, _)| id).collect();
        let name = world.names.of(b"span");
        let mut random = Random::from_seed(11);
        let (mut store, mut all) = (LaneStore::default(), Vec::new());
        for n in 0..tracks as u32 {
            let thread = ids[n as usize % ids.len()];
            let kind = match n % 12 {
                0 => TrackKind::Cpu(1, n),
                1 => TrackKind::Interrupts(0, n),
                2 => TrackKind::Softirqs(0, n),
                3 => TrackKind::States(thread),
                4 => TrackKind::Calls(thread),
                5 => TrackKind::Spans(thread, n),
                6 => TrackKind::Samples(thread),
                7 => TrackKind::Disk(0, 259 << 20, n),
                8 => TrackKind::Keyed(name, (n > 12).then_some(thread), n),
                9 => TrackKind::Counter(name, CounterPlace::Process(thread)),
                10 => TrackKind::Counter(name, CounterPlace::Cpu { machine: 1, cpu: n }),
                _ => TrackKind::Counter(name, CounterPlace::Stream(n)),
            };
            let mut lane = match kind {
                TrackKind::Counter(..) => Lane::of_counter(),
                _ => Lane::default(),
            };
            for slice in slices(&mut random, count * (n as usize % 5)) {
                lane.push(slice, &mut store).unwrap();
            }
            lane.settle(&mut store).unwrap();
            all.push(Track { kind, lane });
        }
        let mut names = NameTable::default();
        names.of("read /etc/passwd");
        let mut overview = Overview::default();
        let mut gaps = Gaps::default();
        for n in 0..3000 {
            overview.add(n * 5_000_000);
            if n % 1000 == 0 {
                gaps.add(Gap {
                    from: n,
                    to: n + 7,
                    count: 3,
                    is_packets: n > 0,
                    stream: 2,
                    cpu: (n > 1000).then_some(1),
                });
            }
        }
        let timed_out = ids.iter().map(|&id| (id, 77)).collect();
        let maker = Maker::made(all, store, names, 3, timed_out);
        let kept = KeptModel {
            world,
            maker,
            overview,
            gaps,
            damage: vec!["a place".into()],
            damages: 5,
            records: 12,
            discarded: 4,
            packets: 1,
            bytes: 1 << 40,
        };
        Model::read_before(reader, &[], kept)
    }

    /// A reader of a trace without a stream.
    fn reader() -> Reader {
        let folder = std::env::temp_dir().join(format!(
            "strata-ui-kept-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(
            folder.join("metadata"),
            "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; };\n",
        )
        .unwrap();
        let reader = Reader::open(&[&folder]).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        reader
    }

    fn all_of(model: &Model) -> (Vec<u8>, Vec<u8>) {
        let mut blocks = Vec::new();
        let mut keep = |block: &[u8]| {
            blocks.extend_from_slice(block);
            Ok(blocks.len() as u64)
        };
        let index = index_of(model, "", &mut keep).unwrap();
        (index, blocks)
    }

    #[test]
    fn model_is_the_same_after_it_was_kept_at_every_level() {
        let reader = reader();
        let model = made(&reader, 30, 700);
        let file = file();
        keep(&model, "identity", &file, &|_| Ok(())).unwrap();
        assert!(kept(file.try_clone().unwrap(), "another").unwrap().is_none());
        let again = kept(file, "identity").unwrap().unwrap();
        let again = Model::read_before(&reader, &[], again);
        assert_eq!(all_of(&model), all_of(&again));
        assert_eq!((again.records, again.damages, again.maker.left_out), (12, 5, 3));
        assert_eq!(again.gaps.end(), model.gaps.end());
        for (one, other) in model.maker.tracks.iter().zip(&again.maker.tracks) {
            assert_eq!(one.kind, other.kind);
            for level in [0, 9, 10, 15, 22, 40] {
                let range = (i64::MIN, i64::MAX);
                let items = |model: &Model, track: &Track| {
                    track.lane.items(&model.maker.store, level, range).unwrap()
                };
                assert_eq!(items(&model, one), items(&again, other), "{:?} {level}", one.kind);
            }
            let number = again.maker.find(one.kind).unwrap();
            assert_eq!(again.maker.tracks[number as usize].kind, one.kind);
        }
    }

    #[test]
    fn file_that_is_cut_or_changed_anywhere_is_none_or_has_blocks_that_are_refused() {
        let reader = reader();
        let model = made(&reader, 24, 40);
        let whole = file();
        keep(&model, "identity", &whole, &|_| Ok(())).unwrap();
        let len = whole.metadata().unwrap().len();
        let mut bytes = vec![0; len as usize];
        whole.read_exact_at(&mut bytes, 0).unwrap();
        let begin = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
        for at in (0..bytes.len()).step_by(bytes.len() / 100 + 1) {
            let cut = file();
            cut.write_all_at(&bytes[..at], 0).unwrap();
            assert!(kept(cut, "identity").unwrap().is_none(), "cut at {at}");
            let changed = file();
            bytes[at] ^= 0x55;
            changed.write_all_at(&bytes, 0).unwrap();
            bytes[at] ^= 0x55;
            let Some(read) = kept(changed, "identity").unwrap() else { continue };
            // A change between the head and the index is one of a block, or of no account.
            assert!((at as u64) >= HEAD && (at as u64) < begin, "changed at {at}");
            let read = Model::read_before(&reader, &[], read);
            let range = (i64::MIN, i64::MAX);
            let tracks = read.maker.tracks.iter();
            let refused = tracks
                .flat_map(|track| {
                    [0, 10, 14, 18, 22, 26, 30, 34, 38, 42]
                        .map(|level| track.lane.items(&read.maker.store, level, range))
                })
                .any(|items| items.is_err());
            assert!(refused, "changed at {at}");
        }
    }

    #[test]
    fn index_of_any_bytes_is_read_without_end_or_much_memory() {
        let reader = reader();
        let model = made(&reader, 24, 40);
        let (index, _) = all_of(&model);
        let mut random = Random::from_seed(5);
        let mut read = 0;
        for _ in 0..500 {
            let mut bytes = index.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(256) as u8;
            }
            bytes.truncate(random.below(2 * bytes.len() as u64) as usize);
            // Who can write a right check sum can have any places of blocks.
            if let Some(found) = model_of(&bytes, "", BlockStore::of_file(file(), 1 << 20)) {
                read += 1;
                for track in &found.maker.tracks {
                    let _ = track.lane.items(&found.maker.store, 12, (i64::MIN, i64::MAX));
                }
            }
        }
        assert!(read > 2, "{read}");
        let store = BlockStore::of_file(file(), u64::MAX);
        let place = BlockPlace { offset: u64::MAX - 1, len: u32::MAX, check: None };
        assert!(store.get(place).is_err());
    }
}
