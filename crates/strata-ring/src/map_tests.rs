//! Channels whose streams lie in the values of a map: a file in its place, and a BPF map where this
//! process may make one.

use crate::producer::{stamp, HeaderFormat, Producer};
use crate::tests::{memory, numbers, pin_to, read_all};
use crate::{channel_bytes, stream_layout, Attr, Channel, Error, LossMode, Mapping, Publish};
use crate::{Poll, StreamLayout};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use strata_abi::ring::PAGE;
use strata_random::Random;

const SUBBUF: u64 = 4096;
const COUNT: u64 = 4;
/// Behind each stream in its value.
const SLACK: u64 = 4096;
/// Fill byte of the slack, which no producer may change.
const UNTOUCHED: u8 = 0xee;

const MODES: [LossMode; 2] = [LossMode::Discard, LossMode::Overwrite];

fn attr(loss_mode: LossMode) -> Attr {
    let (publish, subbuf_bytes, nr_subbufs) = (Publish::ByCommit, SUBBUF, COUNT);
    Attr { loss_mode, publish, subbuf_bytes, nr_subbufs, nr_cpus: 0, start_position: 0 }
}

/// Makes a file like a map of so many values. Returns it with the size of a value.
fn values(layout: &StreamLayout) -> (File, u64) {
    let value_bytes = layout.stride_bytes + SLACK;
    let file = memory(value_bytes * u64::from(layout.nr_streams));
    for i in 0..u64::from(layout.nr_streams) {
        let slack = [UNTOUCHED; SLACK as usize];
        file.write_all_at(&slack, i * value_bytes + layout.stride_bytes).unwrap();
    }
    (file, value_bytes)
}

fn create(attr: &Attr) -> (Channel, File, StreamLayout, u64) {
    let layout = stream_layout(attr).unwrap();
    let (file, value_bytes) = values(&layout);
    let mapping = Mapping::of_streams(file.as_fd(), &layout, value_bytes).unwrap();
    (Channel::format(mapping, attr).unwrap(), file, layout, value_bytes)
}

fn bytes_at(file: &File, at: u64, bytes: u64) -> Vec<u8> {
    let mut found = vec![0; bytes as usize];
    file.read_exact_at(&mut found, at).unwrap();
    found
}

/// CPUs that this process may run on and the channel has.
fn cpus(channel: &Channel) -> Vec<u32> {
    let all = 0..channel.nr_streams();
    all.filter(|cpu| std::thread::scope(|s| s.spawn(|| pin_to(*cpu)).join().unwrap())).collect()
}

#[test]
fn stream_layout_is_that_of_the_channel() {
    for loss_mode in MODES {
        for nr_cpus in [1, 3, 64] {
            let attr = Attr { nr_cpus, ..attr(loss_mode) };
            let layout = stream_layout(&attr).unwrap();
            let streams = layout.stride_bytes * u64::from(nr_cpus);
            assert_eq!(u64::from(PAGE) + streams, channel_bytes(&attr).unwrap());
            assert_eq!(layout.nr_streams, nr_cpus);
            assert_eq!((layout.stride_bytes % 4096, layout.data_offset % 4096), (0, 0));
            assert!(layout.frames_offset + 64 * (COUNT + 1) <= layout.data_offset);
            assert_eq!(layout.data_offset + (COUNT + 1) * SUBBUF, layout.stride_bytes);
        }
    }
}

#[test]
fn stream_layout_of_impossible_sizes_says_value_and_limit() {
    let error = stream_layout(&Attr { subbuf_bytes: 1000, ..attr(LossMode::Discard) }).unwrap_err();
    assert!(matches!(error, Error::Attr(_)));
    assert!(error.to_string().contains("1000 bytes is not a power of two"), "{error}");
}

#[test]
fn mapping_of_streams_that_are_no_pages_or_do_not_fit_is_refused() {
    let good = stream_layout(&attr(LossMode::Discard)).unwrap();
    let (file, value_bytes) = values(&good);
    let map = |layout: &StreamLayout, value| Mapping::of_streams(file.as_fd(), layout, value);
    for (layout, value) in [
        (good, value_bytes + 8),
        (good, 0),
        (StreamLayout { stride_bytes: good.stride_bytes - 1, ..good }, value_bytes),
        (StreamLayout { stride_bytes: 0, ..good }, value_bytes),
        (StreamLayout { nr_streams: 0, ..good }, value_bytes),
        (StreamLayout { nr_streams: u32::MAX, ..good }, 1 << 50),
        (good, u64::MAX - 4095),
    ] {
        let error = map(&layout, value).unwrap_err();
        assert!(matches!(error, Error::Range { page: 4096, .. }), "{layout:?} {value}: {error}");
    }
    let error = map(&good, good.stride_bytes - 4096).unwrap_err();
    assert!(matches!(error, Error::Value { .. }));
    let (stream, value) = (good.stride_bytes, good.stride_bytes - 4096);
    let text = format!("channel: a stream needs {stream} bytes, a value of its map has {value}");
    assert_eq!(error.to_string(), text);
    let error = map(&StreamLayout { nr_streams: 1 << 30, ..good }, 1 << 31).unwrap_err();
    assert!(matches!(error, Error::Map { .. }), "{error}");
    let folder = File::open("/proc/self").unwrap();
    let error = Mapping::of_streams(folder.as_fd(), &good, value_bytes).unwrap_err();
    assert!(matches!(error, Error::Map { .. }), "{error}");
}

#[test]
fn channel_larger_than_its_streams_is_refused() {
    let attr = Attr { nr_cpus: 2, ..attr(LossMode::Discard) };
    let layout = StreamLayout { nr_streams: 1, ..stream_layout(&attr).unwrap() };
    let (file, value_bytes) = values(&layout);
    let mapping = Mapping::of_streams(file.as_fd(), &layout, value_bytes).unwrap();
    assert!(matches!(Channel::format(mapping, &attr).unwrap_err(), Error::NoRoom(_)));
}

#[test]
fn records_of_each_cpu_are_in_its_value_and_nothing_is_in_the_slack() {
    for loss_mode in MODES {
        let (mut channel, file, layout, value_bytes) = create(&attr(loss_mode));
        let producer = Producer::new(&channel, HeaderFormat::Large).unwrap();
        let cpus = cpus(&channel);
        for cpu in &cpus {
            let write = || {
                assert!(pin_to(*cpu));
                // All at one time: the headers are short.
                stamp(1_000_000);
                for n in 0..100u64 {
                    assert!(producer.record(7, &(u64::from(*cpu) << 32 | n).to_ne_bytes()));
                }
            };
            std::thread::scope(|scope| scope.spawn(write).join().unwrap());
        }
        for cpu in cpus {
            let value = u64::from(cpu) * value_bytes;
            assert_eq!(bytes_at(&file, value, 8), 1400u64.to_ne_bytes());
            let data = bytes_at(&file, value + layout.data_offset, 14);
            assert_eq!(
                (&data[..2], &data[6..]),
                (&7u16.to_ne_bytes()[..], &(u64::from(cpu) << 32).to_ne_bytes()[..])
            );
            let mut stream = channel.stream(cpu).unwrap();
            assert_eq!(stream.backlog(), 1400);
            stream.flush().unwrap();
            let packet = stream.next().unwrap().unwrap();
            let mut content = Vec::new();
            packet.copy_to(0, &mut content).unwrap();
            packet.put();
            let expected = (0..100).map(|n| u64::from(cpu) << 32 | n);
            assert_eq!(numbers(&content, HeaderFormat::Large), expected.collect::<Vec<_>>());
        }
        for i in 0..u64::from(layout.nr_streams) {
            let slack = bytes_at(&file, i * value_bytes + layout.stride_bytes, SLACK);
            assert!(slack.iter().all(|byte| *byte == UNTOUCHED));
        }
    }
}

#[test]
fn records_of_many_laps_are_read_and_those_discarded_or_overwritten_counted() {
    for loss_mode in MODES {
        let (mut channel, file, layout, value_bytes) = create(&attr(loss_mode));
        let producer = Producer::new(&channel, HeaderFormat::Large).unwrap();
        let cpu = *cpus(&channel).last().unwrap();
        let mut found = Vec::new();
        let mut written = Vec::new();
        std::thread::scope(|scope| {
            let body = || {
                assert!(pin_to(cpu));
                for n in 0..20_000u64 {
                    if producer.record(0, &n.to_ne_bytes()) {
                        written.push(n);
                    }
                    // Now and then the reader is late.
                    if n % 500 == 0 && n % 5000 < 3000 {
                        found.extend(read_all(&mut channel, HeaderFormat::Large));
                    }
                }
            };
            scope.spawn(body).join().unwrap();
        });
        channel.stream(cpu).unwrap().flush().unwrap();
        found.extend(read_all(&mut channel, HeaderFormat::Large));
        let stream = channel.stream(cpu).unwrap();
        let counters = stream.counters();
        assert_eq!((stream.poll(), stream.backlog()), (Poll::Nothing, 0));
        assert_eq!(counters.written, written.len() as u64);
        assert!(found.windows(2).all(|pair| pair[0] < pair[1]));
        match loss_mode {
            LossMode::Discard => {
                assert_eq!(found, written);
                assert_eq!(counters.discarded_full, 20_000 - counters.written);
                assert!(counters.discarded_full > 0);
            }
            LossMode::Overwrite => {
                assert_eq!(found.len() as u64 + counters.overwritten_records, 20_000);
                assert!(counters.overwritten_records > 0);
                assert_eq!(found.last(), Some(&19_999));
            }
        }
        for i in 0..u64::from(layout.nr_streams) {
            let slack = bytes_at(&file, i * value_bytes + layout.stride_bytes, SLACK);
            assert!(slack.iter().all(|byte| *byte == UNTOUCHED));
        }
    }
}

#[test]
fn rest_of_a_map_ends_before_a_slot_never_committed() {
    for loss_mode in MODES {
        let (mut channel, ..) = create(&Attr { nr_cpus: 1, ..attr(loss_mode) });
        let producer = Producer::new(&channel, HeaderFormat::Large).unwrap();
        for n in 0u64..5 {
            assert!(producer.record(0, &n.to_ne_bytes()));
        }
        assert!(producer.abandon(8));
        assert!(producer.record(0, &5u64.to_ne_bytes()));
        let mut stream = channel.stream(0).unwrap();
        let mut partial = Vec::new();
        assert!(stream.partial(&mut partial).unwrap().is_some());
        assert_eq!(numbers(&partial, HeaderFormat::Large), [0, 1, 2, 3, 4]);
        stream.flush().unwrap();
        assert!(stream.next().unwrap().is_none());
        let packet = stream.rest().unwrap().unwrap();
        let mut content = Vec::new();
        packet.copy_to(0, &mut content).unwrap();
        assert_eq!(numbers(&content, HeaderFormat::Large), [0, 1, 2, 3, 4]);
        drop(packet);
        assert!(stream.rest().unwrap().is_none());
    }
}

#[test]
fn malicious_frame_numbers_in_the_last_value_keep_a_flush_inside_its_memory() {
    let mut random = Random::from_seed(1);
    for _ in 0..500 {
        let (mut channel, _file, layout, _) =
            create(&Attr { nr_cpus: 1, ..attr(LossMode::Overwrite) });
        let producer = Producer::new(&channel, HeaderFormat::Large).unwrap();
        assert!(producer.record(0, &[0; 8]));
        let mut stream = channel.stream(0).unwrap();
        let entries = u64::from(PAGE) + layout.frames_offset - 32 * COUNT + 16;
        for i in 0..COUNT {
            let entry = random.below(0x1_0000_u64) | 0x1_0000 | random.next() << 17;
            producer.scribble(entries + 32 * i, &entry.to_ne_bytes());
        }
        let _ = stream.flush();
        let _ = stream.next().map(|packet| packet.map(|packet| packet.put()));
    }
}

extern "C" {
    fn syscall(number: std::ffi::c_long, ...) -> std::ffi::c_long;
}

#[cfg(target_arch = "x86_64")]
const SYS_BPF: std::ffi::c_long = 321;
#[cfg(not(target_arch = "x86_64"))]
const SYS_BPF: std::ffi::c_long = 280;
const BPF_MAP_CREATE: std::ffi::c_long = 0;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_F_MMAPABLE: u32 = 1 << 10;

/// A BPF array that can be mapped.
fn bpf_map(values: u32, value_bytes: u64) -> io::Result<OwnedFd> {
    let mut attr = [0u32; 32];
    attr[..5].copy_from_slice(&[BPF_MAP_TYPE_ARRAY, 4, value_bytes as u32, values, BPF_F_MMAPABLE]);
    let bytes = std::mem::size_of_val(&attr);
    // SAFETY: the kernel reads a local variable of this size.
    let fd = unsafe { syscall(SYS_BPF, BPF_MAP_CREATE, attr.as_ptr(), bytes) };
    match i32::try_from(fd) {
        // SAFETY: a new file descriptor that nobody else has.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[test]
fn channel_in_a_bpf_map_has_the_records_after_its_descriptor_is_closed() {
    for loss_mode in MODES {
        let attr = attr(loss_mode);
        let layout = stream_layout(&attr).unwrap();
        let value_bytes = layout.stride_bytes + SLACK;
        let map = match bpf_map(layout.nr_streams, value_bytes) {
            Ok(map) => map,
            Err(error) => return eprintln!("skip: no BPF map can be made: {error}"),
        };
        let more = StreamLayout { nr_streams: layout.nr_streams + 1, ..layout };
        let error = Mapping::of_streams(map.as_fd(), &more, value_bytes).unwrap_err();
        assert!(matches!(error, Error::Map { .. }), "{error}");
        let mapping = Mapping::of_streams(map.as_fd(), &layout, value_bytes).unwrap();
        drop(map);
        let mut channel = Channel::format(mapping, &attr).unwrap();
        let producer = Producer::new(&channel, HeaderFormat::Large).unwrap();
        let mut found = Vec::new();
        std::thread::scope(|scope| {
            let body = || {
                assert!(pin_to(*cpus(&channel).last().unwrap()));
                for n in 0..5000u64 {
                    assert!(producer.record(0, &n.to_ne_bytes()));
                    if n % 100 == 0 {
                        found.extend(read_all(&mut channel, HeaderFormat::Large));
                    }
                }
            };
            scope.spawn(body).join().unwrap();
        });
        for stream in 0..channel.nr_streams() {
            channel.stream(stream).unwrap().flush().unwrap();
        }
        found.extend(read_all(&mut channel, HeaderFormat::Large));
        assert_eq!(found, (0..5000).collect::<Vec<_>>());
    }
}
