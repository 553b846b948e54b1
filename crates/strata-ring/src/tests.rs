//! A producer and a consumer in one process, or the producer in another one, or in its grave.

use crate::producer::{has_rseq, stamp, HeaderFormat, Producer};
use crate::{channel_bytes, Attr, Channel, Error, LossMode, Mapping, Poll, Publish};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use strata_abi::ring;
use strata_random::Random;

pub(crate) const SUBBUF: u64 = 1024;
pub(crate) const COUNT: u64 = 4;

pub(crate) fn attr(publish: Publish, loss_mode: LossMode) -> Attr {
    let (subbuf_bytes, nr_subbufs) = (SUBBUF, COUNT);
    Attr { loss_mode, publish, subbuf_bytes, nr_subbufs, nr_cpus: 0, start_position: 0 }
}

/// The ways of publishing that this machine has.
fn ways() -> Vec<Publish> {
    let mut ways = vec![Publish::ByCommit];
    if has_rseq() {
        ways.push(Publish::ByPosition);
    }
    ways
}

pub(crate) fn modes() -> Vec<(Publish, LossMode)> {
    let both = [LossMode::Discard, LossMode::Overwrite];
    ways().into_iter().flat_map(|way| both.map(|loss| (way, loss))).collect()
}

/// Makes a file without a name, of so many zeros.
pub(crate) fn memory(bytes: u64) -> File {
    let path = std::env::temp_dir().join(format!(
        "strata-ring-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(bytes).unwrap();
    file
}

fn map(bytes: u64) -> Mapping {
    Mapping::new(memory(bytes).as_fd(), 0, bytes).unwrap()
}

pub(crate) fn create(attr: &Attr) -> Channel {
    Channel::format(map(channel_bytes(attr).unwrap()), attr).unwrap()
}

/// A channel of one stream that this thread's records land in, wherever it runs: by commit. All at one time: headers
/// are short however long the thread has no CPU between two records.
pub(crate) fn one_stream(loss_mode: LossMode) -> (Producer, Channel) {
    stamp(1_000_000);
    let channel = create(&Attr { nr_cpus: 1, ..attr(Publish::ByCommit, loss_mode) });
    (Producer::new(&channel, HeaderFormat::Compact).unwrap(), channel)
}

/// Stays on the CPU that it is on, as far as tests need it: one stream has all of `n` records.
pub(crate) fn pinned<T>(body: impl FnOnce(u32) -> T) -> T {
    let mut set = [0u8; 128];
    // SAFETY: the thread's own affinity, into a local variable of that size.
    let n = unsafe { sched_getaffinity(0, set.len(), set.as_mut_ptr()) };
    assert!(n >= 0);
    let cpu = (0..1024).find(|cpu| set[cpu / 8] & 1 << (cpu % 8) != 0).unwrap();
    assert!(pin_to(cpu as u32));
    body(cpu as u32)
}

/// Keeps this thread on that CPU; false: it may not run there.
pub(crate) fn pin_to(cpu: u32) -> bool {
    let mut set = [0u8; 1024];
    set[cpu as usize / 8] |= 1 << (cpu % 8);
    // SAFETY: reads a local variable of that size.
    let n = unsafe { sched_setaffinity(0, set.len(), set.as_ptr()) };
    n == 0
}

extern "C" {
    fn sched_getaffinity(pid: i32, bytes: usize, set: *mut u8) -> i32;
    fn sched_setaffinity(pid: i32, bytes: usize, set: *const u8) -> i32;
}

/// Numbers of records with a u64 as payload.
pub(crate) fn numbers(content: &[u8], header: HeaderFormat) -> Vec<u64> {
    let (mut at, mut found) = (0, Vec::new());
    while at < content.len() {
        at += match header {
            HeaderFormat::Compact if content[at] & 31 == 31 => 13,
            HeaderFormat::Compact => 4,
            HeaderFormat::Large if content[at..at + 2] == [0xff, 0xff] => 14,
            HeaderFormat::Large => 6,
        };
        found.push(u64::from_ne_bytes(content[at..at + 8].try_into().unwrap()));
        at += 8;
    }
    found
}

/// Everything that `next` gives of all streams.
pub(crate) fn read_all(channel: &mut Channel, header: HeaderFormat) -> Vec<u64> {
    let mut found = Vec::new();
    for i in 0..channel.nr_streams() {
        let mut stream = channel.stream(i).unwrap();
        while let Some(packet) = stream.next().unwrap() {
            let mut content = Vec::new();
            packet.copy_to(packet.info().header_bytes, &mut content).unwrap();
            let here = numbers(&content, header);
            assert_eq!(packet.info().records, Some(here.len() as u64));
            found.extend(here);
            packet.put();
        }
    }
    found
}

fn text(error: Error) -> String {
    error.to_string()
}

#[test]
fn mapping_of_part_of_a_page_is_refused() {
    let file = memory(8192);
    for (offset, bytes) in [(0, 0), (100, 4096), (0, 100), (u64::MAX - 4095, 4096)] {
        let error = Mapping::new(file.as_fd(), offset, bytes).unwrap_err();
        assert!(matches!(error, Error::Range { page: 4096, .. }), "{error}");
    }
}

#[test]
fn mapping_beyond_the_end_of_the_file_is_refused() {
    let error = Mapping::new(memory(8192).as_fd(), 4096, 8192).unwrap_err();
    assert!(matches!(error, Error::FileTooShort { end: 12288, size: 8192 }), "{error}");
}

#[test]
fn mapping_of_what_cannot_be_mapped_says_what_the_system_reports() {
    let folder = File::open("/proc/self").unwrap();
    assert!(Mapping::new(folder.as_fd(), 0, 4096).is_err());
    let mut exe = File::open(std::env::current_exe().unwrap()).unwrap();
    let error = Mapping::new(exe.as_fd(), 0, 4096).unwrap_err();
    assert!(matches!(error, Error::Map { .. }), "{error}");
    exe.read_exact(&mut [0; 4]).unwrap();
}

#[test]
fn channel_bytes_of_impossible_sizes_says_value_and_limit() {
    let good = attr(Publish::ByCommit, LossMode::Discard);
    assert_eq!(channel_bytes(&good).unwrap() % 4096, 0);
    for (bad, part) in [
        (Attr { subbuf_bytes: 1000, ..good }, "1000 bytes is not a power of two"),
        (Attr { nr_subbufs: 1, ..good }, "1 is not a power of two from 2"),
        (Attr { nr_subbufs: 1 << 40, ..good }, "1099511627776"),
        (Attr { nr_cpus: 9000, ..good }, "9000 is not from 1 to 8192"),
        (Attr { start_position: 8, ..good }, "8 is not a multiple of the buffer"),
    ] {
        let error = channel_bytes(&bad).unwrap_err();
        assert!(matches!(error, Error::Attr(_)));
        assert!(text(error).contains(part), "{part}");
    }
}

#[test]
fn format_in_too_little_memory_is_refused() {
    let attr = attr(Publish::ByCommit, LossMode::Discard);
    let error = Channel::format(map(4096), &attr).unwrap_err();
    assert!(matches!(error, Error::NoRoom(_)), "{error}");
    assert!(text(error).contains("has 4096"));
}

#[test]
fn open_of_a_formatted_channel_finds_what_was_asked_for() {
    for (publish, loss_mode) in modes() {
        let attr = Attr { nr_cpus: 3, ..attr(publish, loss_mode) };
        let bytes = channel_bytes(&attr).unwrap();
        let file = memory(bytes + 4096);
        let there = || Mapping::new(file.as_fd(), 4096, bytes).unwrap();
        drop(Channel::format(there(), &attr).unwrap());
        let channel = Channel::open(there()).unwrap();
        assert_eq!((channel.publish(), channel.loss_mode()), (publish, loss_mode));
        assert_eq!((channel.subbuf_bytes(), channel.nr_subbufs()), (SUBBUF, COUNT as u32));
        assert_eq!((channel.nr_streams(), channel.mapped_bytes()), (3, bytes));
    }
}

#[test]
fn malicious_headers_are_refused_whatever_field_lies() {
    let attr = attr(Publish::ByCommit, LossMode::Discard);
    let bytes = channel_bytes(&attr).unwrap();
    let mut file = memory(bytes);
    let there = || Mapping::new(file.as_fd(), 0, bytes).unwrap();
    drop(Channel::format(there(), &attr).unwrap());
    let mut good = [0u8; 72];
    file.read_exact(&mut good).unwrap();
    let mut refused = 0;
    for at in 0..good.len() {
        for value in [0u8, 1, 2, 3, 0x7f, 0x80, 0xff, good[at].wrapping_add(1)] {
            let mut bad = good;
            bad[at] = value;
            file.rewind().unwrap();
            file.write_all(&bad).unwrap();
            let there = || Mapping::new(file.as_fd(), 0, bytes).unwrap();
            match Channel::open(there()) {
                Err(Error::Header(_) | Error::NoRoom(_)) => refused += 1,
                Err(error) => panic!("byte {at} = {value}: {error}"),
                // Another loss mode, alignment or start can be right; sizes and counts cannot.
                Ok(channel) => {
                    assert!(
                        bad == good
                            || [12, 16, 36, 37, 38, 56, 60, 61, 62, 63].contains(&at)
                            || at >= 64,
                        "byte {at} = {value}"
                    );
                    assert_eq!(channel.subbuf_bytes(), SUBBUF);
                }
            }
        }
    }
    assert!(refused > 300, "{refused}");
}

#[test]
fn open_of_a_channel_larger_than_its_mapping_is_refused() {
    let attr = attr(Publish::ByCommit, LossMode::Discard);
    let bytes = channel_bytes(&attr).unwrap();
    let file = memory(bytes);
    drop(Channel::format(Mapping::new(file.as_fd(), 0, bytes).unwrap(), &attr).unwrap());
    let less = Mapping::new(file.as_fd(), 0, bytes - 4096).unwrap();
    assert!(matches!(Channel::open(less).unwrap_err(), Error::NoRoom(_)));
    assert!(matches!(Channel::open(map(4096)).unwrap_err(), Error::Header(_)));
}

#[test]
fn stream_beyond_the_last_is_refused() {
    let (_producer, mut channel) = one_stream(LossMode::Discard);
    let error = channel.stream(1).unwrap_err();
    assert!(matches!(error, Error::NoStream { stream: 1, nr_streams: 1 }), "{error}");
}

#[test]
fn next_of_all_modes_and_headers_has_every_record_in_order() {
    pinned(|_| {
        for (publish, loss_mode) in modes() {
            for header in [HeaderFormat::Compact, HeaderFormat::Large] {
                let mut channel = create(&attr(publish, loss_mode));
                let producer = Producer::new(&channel, header).unwrap();
                let mut found = Vec::new();
                for n in 0u64..2000 {
                    assert!(producer.record(0, &n.to_ne_bytes()));
                    if n % 100 == 0 {
                        found.extend(read_all(&mut channel, header));
                    }
                }
                producer.flush();
                found.extend(read_all(&mut channel, header));
                assert_eq!(found, (0..2000).collect::<Vec<_>>());
            }
        }
    });
}

#[test]
fn record_with_compact_header_and_u64_takes_12_bytes() {
    let (producer, mut channel) = one_stream(LossMode::Discard);
    assert!(producer.record(0, &[0; 8]));
    producer.flush();
    let mut stream = channel.stream(0).unwrap();
    let packet = stream.next().unwrap().unwrap();
    assert_eq!((packet.info().content_bytes, packet.info().header_bytes), (12, 0));
}

#[test]
fn next_near_the_end_of_all_positions_goes_on_behind_it() {
    let start_position = 0u64.wrapping_sub(SUBBUF * COUNT);
    pinned(|_| {
        for (publish, loss_mode) in modes() {
            let mut channel = create(&Attr { start_position, ..attr(publish, loss_mode) });
            let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
            let mut found = Vec::new();
            for n in 0u64..2000 {
                assert!(producer.record(0, &n.to_ne_bytes()));
                found.extend(read_all(&mut channel, HeaderFormat::Compact));
            }
            producer.flush();
            found.extend(read_all(&mut channel, HeaderFormat::Compact));
            assert_eq!(found, (0..2000).collect::<Vec<_>>());
        }
    });
}

#[test]
fn loss_in_discard_mode_keeps_the_oldest_and_counts_the_others() {
    pinned(|cpu| {
        for publish in ways() {
            let mut channel = create(&attr(publish, LossMode::Discard));
            let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
            let written = (0u64..2000).filter(|n| producer.record(0, &n.to_ne_bytes())).count();
            assert!(!producer.record(0, &[0; 2000]));
            let counters = channel.stream(cpu).unwrap().counters();
            assert_eq!(counters.written, written as u64);
            assert_eq!(
                (counters.discarded_full, counters.discarded_too_big),
                (2000 - counters.written, 1)
            );
            assert_eq!(counters.discarded(), 2001 - counters.written);
            assert_eq!(channel.stream(cpu).unwrap().poll(), Poll::Urgent);
            let found = read_all(&mut channel, HeaderFormat::Compact);
            assert_eq!(found, (0..written as u64).collect::<Vec<_>>());
        }
    });
}

#[test]
fn loss_in_overwrite_mode_keeps_the_newest_and_counts_the_others() {
    pinned(|cpu| {
        for publish in ways() {
            let mut channel = create(&attr(publish, LossMode::Overwrite));
            let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
            for n in 0u64..2000 {
                assert!(producer.record(0, &n.to_ne_bytes()));
            }
            producer.flush();
            let found = read_all(&mut channel, HeaderFormat::Compact);
            let counters = channel.stream(cpu).unwrap().counters();
            assert_eq!(counters.written, 2000);
            assert_eq!(counters.overwritten_records, 2000 - found.len() as u64);
            assert!(found.len() >= 3 * 80);
            assert_eq!(found, (2000 - found.len() as u64..2000).collect::<Vec<_>>());
        }
    });
}

#[test]
fn packet_that_is_not_put_stays_unread() {
    for loss_mode in [LossMode::Discard, LossMode::Overwrite] {
        let (producer, mut channel) = one_stream(loss_mode);
        assert!(producer.record(0, &7u64.to_ne_bytes()));
        producer.flush();
        let mut stream = channel.stream(0).unwrap();
        assert_eq!(stream.poll(), Poll::Readable);
        for _ in 0..3 {
            assert_eq!(stream.next().unwrap().unwrap().info().records, Some(1));
        }
        stream.next().unwrap().unwrap().put();
        assert!(stream.next().unwrap().is_none());
        assert_eq!((stream.poll(), stream.backlog()), (Poll::Nothing, 0));
    }
}

#[test]
fn write_to_puts_header_and_content_at_the_offset() {
    let (producer, mut channel) = one_stream(LossMode::Discard);
    for n in 0u64..20 {
        assert!(producer.record(0, &n.to_ne_bytes()));
    }
    producer.flush();
    let mut file = memory(0);
    let mut stream = channel.stream(0).unwrap();
    let packet = stream.next().unwrap().unwrap();
    assert_eq!(packet.write_to(file.as_fd(), 5, b"head", 12).unwrap(), 4 + 19 * 12);
    let (mut written, mut copied) = (Vec::new(), Vec::new());
    file.rewind().unwrap();
    file.read_to_end(&mut written).unwrap();
    packet.copy_to(12, &mut copied).unwrap();
    assert_eq!(&written[..9], b"\0\0\0\0\0head");
    assert_eq!(&written[9..], &copied[..]);
    assert_eq!(numbers(&copied, HeaderFormat::Compact), (1..20).collect::<Vec<_>>());
    assert_eq!(packet.write_to(file.as_fd(), 0, b"", u64::MAX).unwrap(), 0);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert_eq!(packet.write_to(full.as_fd(), 0, b"head", 0).unwrap_err().raw_os_error(), Some(28));
}

#[test]
fn partial_by_position_grows_and_knows_records_and_times() {
    pinned(|cpu| {
        if !has_rseq() {
            return println!("skip: restartable sequences are not registered");
        }
        for loss_mode in [LossMode::Discard, LossMode::Overwrite] {
            let mut channel = create(&attr(Publish::ByPosition, loss_mode));
            let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
            let mut buffer = Vec::new();
            assert_eq!(channel.stream(cpu).unwrap().partial(&mut buffer).unwrap(), None);
            let start = 1_000_000;
            for n in 0u64..300 {
                stamp(start + n * 10);
                assert!(producer.record(0, &n.to_ne_bytes()));
                read_all(&mut channel, HeaderFormat::Compact);
                let info = channel.stream(cpu).unwrap().partial(&mut buffer).unwrap().unwrap();
                let found = numbers(&buffer, HeaderFormat::Compact);
                let first = n + 1 - found.len() as u64;
                assert_eq!(found, (first..=n).collect::<Vec<_>>());
                assert_eq!(info.records, Some(found.len() as u64));
                assert_eq!(info.content_bytes, buffer.len() as u64);
                assert_eq!(info.timestamp_begin, start + first * 10);
                assert_eq!(info.timestamp_end, Some(start + n * 10));
            }
            stamp(0);
            producer.flush();
            assert_eq!(channel.stream(cpu).unwrap().partial(&mut buffer).unwrap(), None);
        }
    });
}

#[test]
fn partial_by_commit_has_records_but_neither_their_number_nor_end() {
    let (producer, mut channel) = one_stream(LossMode::Discard);
    let mut buffer = Vec::new();
    for n in 0u64..3 {
        assert!(producer.record(0, &n.to_ne_bytes()));
    }
    let info = channel.stream(0).unwrap().partial(&mut buffer).unwrap().unwrap();
    assert_eq!((info.records, info.timestamp_end), (None, None));
    assert_eq!(numbers(&buffer, HeaderFormat::Compact), [0, 1, 2]);
}

/// Run by the next test, with less address space than the channel and a copy of a packet need.
#[test]
#[ignore = "run by partial_without_memory_is_an_error"]
fn child_partial_without_memory() {
    let attr = Attr {
        subbuf_bytes: 1 << 28,
        nr_subbufs: 2,
        nr_cpus: 1,
        ..attr(Publish::ByCommit, LossMode::Discard)
    };
    let mut channel = create(&attr);
    let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
    assert!(producer.record(0, &[0; 8]));
    let error = channel.stream(0).unwrap().partial(&mut Vec::new()).unwrap_err();
    assert!(matches!(error, Error::NoMemory(_)), "{error}");
    println!("refused: {error}");
}

#[test]
fn partial_without_memory_is_an_error() {
    let exe = std::env::current_exe().unwrap();
    let command = "ulimit -v 1000000; exec \"$0\" --exact --ignored --nocapture \
                   tests::child_partial_without_memory";
    let output = std::process::Command::new("sh").args(["-c", command]).arg(exe).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("refused: stream 0: no memory"), "{text}");
}

#[test]
fn flush_by_commit_delivers_from_outside() {
    for loss_mode in [LossMode::Discard, LossMode::Overwrite] {
        let (producer, mut channel) = one_stream(loss_mode);
        let mut stream = channel.stream(0).unwrap();
        stream.flush().unwrap();
        assert!(stream.next().unwrap().is_none());
        for n in 0u64..3 {
            assert!(producer.record(0, &n.to_ne_bytes()));
        }
        assert_eq!(stream.backlog(), 3 * 12);
        stream.flush().unwrap();
        stream.flush().unwrap();
        assert!(producer.record(0, &3u64.to_ne_bytes()));
        assert_eq!(read_all(&mut channel, HeaderFormat::Compact), [0, 1, 2]);
        channel.stream(0).unwrap().flush().unwrap();
        assert_eq!(read_all(&mut channel, HeaderFormat::Compact), [3]);
    }
}

#[test]
fn flush_by_position_is_refused() {
    let mut channel = create(&attr(Publish::ByPosition, LossMode::Discard));
    let error = channel.stream(0).unwrap().flush().unwrap_err();
    assert!(matches!(error, Error::NotFlushable { stream: 0 }), "{error}");
}

/// Offsets of the parts of the only stream.
pub(crate) mod place {
    use super::{ring, COUNT};
    pub const WRITE_COUNT: u64 = ring::PAGE as u64;
    pub const READ_COUNT: u64 = WRITE_COUNT + 128;
    pub const SUBBUFS: u64 = WRITE_COUNT + 192;
    pub const ENTRY: u64 = SUBBUFS + 16;
    pub const FRAMES: u64 = SUBBUFS + 32 * COUNT;
    pub const CONTENT_BYTES: u64 = FRAMES + 24;
    pub const DATA: u64 = 2 * ring::PAGE as u64;
}

#[test]
fn malicious_producer_that_never_stops_writing_does_not_keep_a_flush() {
    let (producer, mut channel) = one_stream(LossMode::Discard);
    let (end, stop) =
        (Instant::now() + Duration::from_secs(3), std::sync::atomic::AtomicBool::new(false));
    let busy = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0u8;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                n = n % 100 + 1;
                producer.scribble(place::WRITE_COUNT, &[n]);
            }
        });
        let mut stream = channel.stream(0).unwrap();
        let mut busy = false;
        while !busy && Instant::now() < end {
            busy = matches!(stream.flush(), Err(Error::FlushBusy { stream: 0 }));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        busy
    });
    // Each call has come to its end. That all its tries found another position, needs two CPUs at once for a while.
    if !busy {
        eprintln!("no flush was refused: this machine had no second CPU for us");
    }
}

#[test]
fn malicious_content_size_skips_its_packet_and_names_it() {
    for content in [SUBBUF, SUBBUF - 7, u64::MAX, 1 << 40] {
        let (producer, mut channel) = one_stream(LossMode::Discard);
        for n in 0u64..200 {
            assert!(producer.record(0, &n.to_ne_bytes()));
        }
        producer.scribble(place::CONTENT_BYTES, &content.to_ne_bytes());
        let error = channel.stream(0).unwrap().next().unwrap_err();
        assert!(matches!(error, Error::Packet { stream: 0, position: 0 }), "{error}");
        let found = read_all(&mut channel, HeaderFormat::Compact);
        assert_eq!(found.first(), Some(&((SUBBUF - u64::from(ring::TAIL_BYTES)) / 12)));
    }
}

#[test]
fn malicious_table_in_overwrite_mode_is_an_error_at_begin() {
    let (producer, mut channel) = one_stream(LossMode::Overwrite);
    producer.scribble(place::ENTRY, &0xffffu64.to_ne_bytes());
    let error = channel.stream(0).unwrap_err();
    assert!(matches!(error, Error::Table { stream: 0 }), "{error}");
    let (producer, mut channel) = one_stream(LossMode::Overwrite);
    let mut stream = channel.stream(0).unwrap();
    producer.scribble(place::ENTRY, &0xffffu64.to_ne_bytes());
    assert!(matches!(stream.rest_again().unwrap_err(), Error::Table { stream: 0 }));
}

#[test]
fn malicious_frame_numbers_keep_a_flush_inside_its_memory() {
    // One stream: the last one, behind whose mapping there is nothing of the channel.
    let mut random = Random::from_seed(1);
    for _ in 0..2000 {
        let (producer, mut channel) = one_stream(LossMode::Overwrite);
        assert!(producer.record(0, &[0; 8]));
        let mut stream = channel.stream(0).unwrap();
        for i in 0..COUNT {
            let entry = random.below(0x1_0000_u64) | 0x1_0000 | random.next() << 17;
            producer.scribble(place::ENTRY + 32 * i, &entry.to_ne_bytes());
        }
        let _ = stream.flush();
        let _ = stream.next().map(|packet| packet.map(|packet| packet.put()));
    }
}

/// Returns random numbers below 2^31, whose seed is printed.
pub(crate) fn random() -> impl FnMut() -> u64 {
    let mut random = Random::new();
    move || random.next() >> 33
}

#[test]
fn malicious_bytes_anywhere_never_lead_outside_of_the_memory() {
    let mut random = random();
    pinned(|cpu| {
        for round in 0..3000u64 {
            let modes = modes();
            let (publish, loss_mode) = modes[(round % modes.len() as u64) as usize];
            let nr_cpus = if publish == Publish::ByCommit { 1 } else { 0 };
            let mut channel = create(&Attr { nr_cpus, ..attr(publish, loss_mode) });
            let mine = if nr_cpus == 1 { 0 } else { cpu };
            let stride =
                (channel.mapped_bytes() - place::WRITE_COUNT) / u64::from(channel.nr_streams());
            let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
            for n in 0..random() % 500 {
                producer.record(0, &n.to_ne_bytes());
            }
            let begun = random() % 2 == 0 && channel.stream(mine).is_ok();
            let control = place::DATA - place::WRITE_COUNT;
            for _ in 0..1 + random() % 20 {
                let at =
                    place::WRITE_COUNT + u64::from(mine) * stride + random() % (control / 8) * 8;
                let value = match random() % 4 {
                    0 => random() << 33 | random(),
                    1 => random() % (SUBBUF * COUNT * 2),
                    2 => u64::MAX - random() % SUBBUF,
                    _ => random() % 70000,
                };
                producer.scribble(at, &value.to_ne_bytes());
            }
            let Ok(mut stream) = channel.stream(mine) else {
                assert!(!begun);
                continue;
            };
            let mut copy = Vec::new();
            for _ in 0..2 * COUNT + 2 {
                copy.clear();
                match stream.next() {
                    Ok(None) => break,
                    Err(error) => assert!(matches!(error, Error::Packet { .. })),
                    Ok(Some(packet)) => {
                        assert!(packet.info().content_bytes < SUBBUF);
                        packet.copy_to(0, &mut copy).unwrap();
                        if random() % 4 > 0 {
                            packet.put();
                        }
                    }
                }
            }
            stream.partial(&mut copy).unwrap();
            assert!(copy.len() < SUBBUF as usize);
            if publish == Publish::ByCommit {
                let _ = stream.flush();
            }
            let mut rest = 0;
            loop {
                match stream.rest() {
                    Ok(None) => break,
                    Err(error) => assert!(matches!(error, Error::Packet { .. })),
                    Ok(Some(packet)) => packet.copy_to(0, &mut copy).unwrap(),
                }
                rest += 1;
                assert!(rest <= COUNT + 1);
            }
            assert!(stream.backlog() <= SUBBUF * COUNT);
        }
    });
}

#[test]
fn malicious_read_count_that_goes_back_gives_old_packets_only() {
    let (producer, mut channel) = one_stream(LossMode::Discard);
    for n in 0u64..200 {
        assert!(producer.record(0, &n.to_ne_bytes()));
    }
    assert!(!read_all(&mut channel, HeaderFormat::Compact).is_empty());
    producer.scribble(place::READ_COUNT, &5u64.to_ne_bytes());
    let mut stream = channel.stream(0).unwrap();
    assert_eq!(stream.next().unwrap().map(|packet| packet.info().position), Some(0));
}

#[test]
fn rest_behind_a_slot_never_committed_ends_before_it() {
    let (producer, mut channel) = one_stream(LossMode::Discard);
    for n in 0u64..5 {
        assert!(producer.record(0, &n.to_ne_bytes()));
    }
    assert!(producer.abandon(8));
    assert!(producer.record(0, &5u64.to_ne_bytes()));
    let mut stream = channel.stream(0).unwrap();
    assert!(stream.next().unwrap().is_none());
    let packet = stream.rest().unwrap().unwrap();
    let mut content = Vec::new();
    packet.copy_to(0, &mut content).unwrap();
    assert_eq!(numbers(&content, HeaderFormat::Compact), (0..5).collect::<Vec<_>>());
    assert_eq!((packet.info().records, packet.info().timestamp_end), (None, None));
    assert_eq!(packet.info().unpublished_bytes, 24);
    drop(packet);
    assert!(stream.rest().unwrap().is_none());
}

#[test]
fn rest_of_a_packet_that_was_being_filled_knows_its_records() {
    pinned(|cpu| {
        for (publish, loss_mode) in modes() {
            let mut channel = create(&attr(publish, loss_mode));
            let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
            for n in 0u64..200 {
                assert!(producer.record(0, &n.to_ne_bytes()));
            }
            let read = read_all(&mut channel, HeaderFormat::Compact).len() as u64;
            let mut stream = channel.stream(cpu).unwrap();
            let packet = stream.rest().unwrap().unwrap();
            assert_eq!(packet.info().records, Some(200 - read));
            assert_eq!(packet.info().timestamp_end.is_some(), publish == Publish::ByPosition);
            drop(packet);
            assert!(stream.rest().unwrap().is_none());
            stream.rest_again().unwrap();
            assert_eq!(stream.rest().unwrap().unwrap().info().records, Some(200 - read));
        }
    });
}

/// Everything that is left of a dead producer's channel, and how many of them `next` gave.
fn exhume(channel: &mut Channel) -> Vec<u64> {
    let mut found = read_all(channel, HeaderFormat::Compact);
    for i in 0..channel.nr_streams() {
        let mut stream = channel.stream(i).unwrap();
        while let Some(packet) = stream.rest().unwrap() {
            let mut content = Vec::new();
            packet.copy_to(0, &mut content).unwrap();
            let here = numbers(&content, HeaderFormat::Compact);
            assert!(packet.info().records.is_none_or(|n| n == here.len() as u64));
            found.extend(here);
        }
    }
    found
}

#[test]
fn killed_producer_leaves_every_record_that_it_published() {
    pinned(|cpu| {
        for (publish, loss_mode) in modes() {
            for round in 0..25u64 {
                let mut channel = create(&attr(publish, loss_mode));
                let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
                let child = producer.spawn(u64::MAX).unwrap();
                while child.published() < 1 + round * 13 % 300 {
                    std::thread::yield_now();
                }
                let published = child.kill();
                let found = exhume(&mut channel);
                let counters = channel.stream(cpu).unwrap().counters();
                let first = found.first().copied().unwrap_or(0);
                let end = first + found.len() as u64;
                assert_eq!(found, (first..end).collect::<Vec<_>>());
                assert!(end == published || end == published + 1, "{end} of {published}");
                if loss_mode == LossMode::Discard {
                    assert_eq!(first, 0);
                } else {
                    assert!(counters.overwritten_records <= first);
                }
            }
        }
    });
}
