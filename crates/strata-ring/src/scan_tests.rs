//! Tests of scans: beside a writing producer, after a killed one, on random rings, and on hostile ones.

use crate::producer::{stamp, HeaderFormat, Producer};
use crate::tests::{attr, create, modes, pin_to, pinned, place, random, COUNT, SUBBUF};
use crate::{Attr, Channel, Error, Info, LossMode, Order, Overwritten, Publish};
use std::time::{Duration, Instant};

/// Packets and records of one scan, in the order of time.
#[derive(Debug, Default)]
struct Scanned {
    packets: Vec<(Info, Vec<u64>)>,
    gone: u64,
    unfinished: u64,
    before: Option<Overwritten>,
}

impl Scanned {
    fn numbers(&self) -> Vec<u64> {
        self.packets.iter().flat_map(|(_, numbers)| numbers).copied().collect()
    }
}

/// Numbers of compact records of `words` words each, all of which say the same number.
fn numbers(content: &[u8], words: u32) -> Vec<u64> {
    let (mut at, mut found) = (0, Vec::new());
    while at < content.len() {
        at += if content[at] & 31 == 31 { 13 } else { 4 };
        let word = |i: u64| {
            let at = at + 8 * i as usize;
            u64::from_ne_bytes(content[at..at + 8].try_into().unwrap())
        };
        let number = word(0);
        for i in 1..u64::from(words) {
            assert_eq!(word(i), number.wrapping_mul(2 * i + 1), "torn at {at}");
        }
        found.push(number);
        at += 8 * words as usize;
    }
    assert_eq!(at, content.len(), "the last record is cut");
    found
}

/// Scans, and checks all that holds whoever writes meanwhile.
fn scan(channel: &mut Channel, stream: u32, order: Order, words: u32) -> Scanned {
    let (mut buffer, mut scanned) = (Vec::new(), Scanned::default());
    let subbuf = channel.subbuf_bytes();
    let most = u64::from(channel.nr_subbufs()) + 1;
    let mut stream = channel.stream(stream).unwrap();
    let mut scan = stream.scan(order);
    while let Some(info) = scan.next(&mut buffer).unwrap() {
        assert_eq!(info.content_bytes, buffer.len() as u64);
        let found = numbers(&buffer[info.header_bytes as usize..], words);
        assert!(info.records.is_none_or(|n| n == found.len() as u64), "{info:?}");
        assert!(info.timestamp_end.is_none_or(|end| info.timestamp_begin <= end), "{info:?}");
        scanned.packets.push((info, found));
    }
    assert!(scan.next(&mut buffer).unwrap().is_none());
    (scanned.gone, scanned.unfinished) = (scan.gone(), scan.unfinished());
    scanned.before = scan.overwritten_before();
    if order == Order::NewestFirst {
        scanned.packets.reverse();
    }
    let nr = scanned.packets.len() as u64;
    assert!(nr + scanned.gone + scanned.unfinished <= most);
    let mut gaps = 0;
    for pair in scanned.packets.windows(2) {
        let ((a, before), (b, after)) = (&pair[0], &pair[1]);
        let packets = b.position.wrapping_sub(a.position) / subbuf;
        gaps += packets.wrapping_sub(1);
        assert!((1..most).contains(&packets) && before.last() < after.first());
        if packets == 1 {
            assert_eq!(before.last().unwrap() + 1, after[0], "{a:?} {b:?}");
        }
    }
    assert!(gaps <= if order == Order::NewestFirst { 0 } else { scanned.gone });
    for (_, numbers) in &scanned.packets {
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
    }
    if let (Some(before), Some(first)) = (scanned.before, scanned.numbers().first()) {
        assert!(before.at_least <= *first && *first <= before.at_most, "{first} {before:?}");
    }
    scanned
}

/// A producer at full speed on this CPU, and this thread on another one if there is one.
fn racing(
    round: u64,
    publish: Publish,
    loss_mode: LossMode,
    scans: impl FnOnce(&mut Channel, u32, u32, &dyn Fn() -> u64),
) -> (Channel, u64, u32, u32) {
    let words = 1 + (round % 5) as u32;
    let subbuf_bytes = 256 << (round % 6);
    let nr_subbufs = 2 << (round % 4);
    pinned(|cpu| {
        let attr = Attr { subbuf_bytes, nr_subbufs, ..attr(publish, loss_mode) };
        let mut channel = create(&attr);
        let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
        let child = producer.spawn_words(u64::MAX, words).unwrap();
        let _ = pin_to(cpu + 1);
        while child.published() == 0 {
            std::thread::yield_now();
        }
        scans(&mut channel, cpu, words, &|| child.published());
        let published = child.kill();
        (channel, published, cpu, words)
    })
}

#[test]
fn scan_while_a_producer_writes_has_whole_packets_in_order_and_so_after_it_was_killed() {
    let (mut seen, mut gone, mut unfinished, mut exact, mut first_scans) = (0, 0, 0, 0, 0);
    for round in 0..6 {
        for (publish, loss_mode) in modes() {
            let overwrite = loss_mode == LossMode::Overwrite;
            let (mut channel, published, cpu, words) =
                racing(round, publish, loss_mode, |channel, cpu, words, published| {
                    let end = Instant::now() + Duration::from_secs(120);
                    let mut laps = 0;
                    // Until the ring was lapped while we scanned, several times.
                    while laps < 2 && Instant::now() < end {
                        let since = published();
                        for order in [Order::OldestFirst, Order::NewestFirst] {
                            let scanned = scan(channel, cpu, order, words);
                            let numbers = scanned.numbers();
                            seen += numbers.len();
                            gone += scanned.gone;
                            unfinished += scanned.unfinished;
                            if let Some(before) = scanned.before {
                                first_scans += 1;
                                exact += u32::from(before.at_least == before.at_most);
                            }
                        }
                        laps += u32::from(!overwrite || published() - since > 10);
                    }
                });
            let counters = channel.stream(cpu).unwrap().counters();
            let scanned = scan(&mut channel, cpu, Order::OldestFirst, words);
            let numbers = scanned.numbers();
            // By commit it may have been killed behind the reservation that opened the last packet.
            let unfinished = u64::from(publish == Publish::ByCommit);
            assert!(scanned.gone == 0 && scanned.unfinished <= unfinished, "{scanned:?}");
            let end = numbers.last().unwrap() + 1;
            assert!(end == published || end == published + 1, "{end} of {published}");
            assert_eq!(numbers, (numbers[0]..end).collect::<Vec<_>>());
            if overwrite {
                assert!(counters.overwritten_records <= numbers[0]);
            } else {
                assert_eq!(numbers[0], 0);
            }
            let again = scan(&mut channel, cpu, Order::NewestFirst, words);
            assert_eq!(again.numbers(), numbers);
            // Nothing of it was consumed.
            assert_eq!(channel.stream(cpu).unwrap().counters(), counters);
        }
    }
    println!("{seen} records, {gone} packets gone, {unfinished} unfinished, {exact} of {first_scans} scans exact");
    assert!(seen > 0 && exact > 0);
}

#[test]
fn scan_of_random_rings_is_what_was_written_and_consumes_nothing() {
    let mut random = random();
    let mut random = move |below: u64| random() % below;
    pinned(|cpu| {
        for round in 0..400 {
            let modes = modes();
            let (publish, loss_mode) = modes[round % modes.len()];
            let (subbuf_bytes, nr_subbufs) = (64 << random(8), 2 << random(4));
            let start_position = 0u64.wrapping_sub(subbuf_bytes * nr_subbufs * random(3));
            let attr =
                Attr { subbuf_bytes, nr_subbufs, start_position, ..attr(publish, loss_mode) };
            let mut channel = create(&attr);
            let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
            let words = 1 + random((subbuf_bytes - 24) / 8).min(5) as u32;
            let (mut written, room) = (0u64, subbuf_bytes * nr_subbufs / (8 * u64::from(words)));
            let records = random(3 * room);
            for _ in 0..records {
                let payload: Vec<u8> = (0..u64::from(words))
                    .flat_map(|i| written.wrapping_mul(2 * i + 1).to_ne_bytes())
                    .collect();
                written += u64::from(producer.record(0, &payload));
                if random(room) == 0 {
                    producer.flush();
                }
            }
            let counters = channel.stream(cpu).unwrap().counters();
            let scanned = scan(&mut channel, cpu, Order::OldestFirst, words);
            let numbers = scanned.numbers();
            assert_eq!((scanned.gone, scanned.unfinished), (0, 0));
            assert_eq!(numbers, (counters.overwritten_records..written).collect::<Vec<_>>());
            if let Some(before) = scanned.before {
                let (at_least, at_most) = (numbers[0], numbers[0]);
                assert_eq!(before, Overwritten { at_least, at_most });
            }
            let again = scan(&mut channel, cpu, Order::NewestFirst, words);
            assert_eq!(again.numbers(), numbers);
            assert_eq!(again.before, scanned.before);
            assert_eq!(channel.stream(cpu).unwrap().counters(), counters);
            producer.flush();
            let mut read = Vec::new();
            let mut stream = channel.stream(cpu).unwrap();
            while let Some(packet) = stream.next().unwrap() {
                let mut content = Vec::new();
                packet.copy_to(0, &mut content).unwrap();
                read.extend(self::numbers(&content, words));
                packet.put();
            }
            assert_eq!(read, numbers);
            assert!(scan(&mut channel, cpu, Order::OldestFirst, words).packets.is_empty());
        }
    });
}

#[test]
fn scan_after_some_packets_were_read_has_the_others_and_says_what_it_does_not_know() {
    pinned(|cpu| {
        // All at one time: of short headers it is known how many fill a packet.
        stamp(1_000_000);
        for (publish, loss_mode) in modes() {
            let mut channel = create(&attr(publish, loss_mode));
            let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
            for n in 0u64..200 {
                assert!(producer.record(0, &n.to_ne_bytes()));
            }
            channel.stream(cpu).unwrap().next().unwrap().unwrap().put();
            let scanned = scan(&mut channel, cpu, Order::OldestFirst, 1);
            let first = (SUBBUF - 8) / 12;
            assert_eq!(scanned.numbers(), (first..200).collect::<Vec<_>>());
            let before = scanned.before.unwrap();
            let at_most = if publish == Publish::ByPosition { first } else { SUBBUF };
            assert_eq!(before, Overwritten { at_least: 0, at_most });
        }
    });
}

/// An uncommitted slot hides the rest of its packet from a reader by commit. Other packets stay readable.
#[test]
fn scan_past_a_slot_never_committed_has_the_prefix_before_it_and_goes_on() {
    for loss_mode in [LossMode::Discard, LossMode::Overwrite] {
        for before in [0u64, 3] {
            let (producer, mut channel) = crate::tests::one_stream(loss_mode);
            let mut written = 0u64..;
            let mut record = || producer.record(0, &written.next().unwrap().to_ne_bytes());
            for _ in 0..before {
                assert!(record());
            }
            assert!(producer.abandon(8));
            for _ in 0..100 {
                assert!(record());
            }
            let mut found = Vec::new();
            let mut buffer = Vec::new();
            let mut stream = channel.stream(0).unwrap();
            let mut scan = stream.scan(Order::OldestFirst);
            while let Some(info) = scan.next(&mut buffer).unwrap() {
                found.push((info.position, numbers(&buffer, 1), info.unpublished_bytes));
            }
            assert_eq!(scan.unfinished(), u64::from(before == 0));
            let in_first = (SUBBUF - 8) / 12 - 1;
            let second = (SUBBUF, (in_first..100 + before).collect(), 0);
            if before == 0 {
                assert_eq!(found, [second]);
            } else {
                let first = (0, (0..before).collect(), SUBBUF - 12 * before);
                assert_eq!(found, [first, second]);
            }
        }
    }
}

#[test]
fn malicious_packet_ends_no_scan_and_is_named() {
    for content in [SUBBUF, SUBBUF - 7, u64::MAX, 1 << 40] {
        for order in [Order::OldestFirst, Order::NewestFirst] {
            let (producer, mut channel) = crate::tests::one_stream(LossMode::Discard);
            for n in 0u64..200 {
                assert!(producer.record(0, &n.to_ne_bytes()));
            }
            producer.scribble(place::CONTENT_BYTES, &content.to_ne_bytes());
            let mut stream = channel.stream(0).unwrap();
            let mut scan = stream.scan(order);
            let (mut buffer, mut found, mut damaged) = (Vec::new(), 0, 0);
            loop {
                match scan.next(&mut buffer) {
                    Ok(None) => break,
                    Ok(Some(_)) => found += numbers(&buffer, 1).len(),
                    Err(Error::Packet { stream: 0, position: 0 }) => damaged += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!((found, damaged), (200 - 84, 1));
        }
    }
}

#[test]
fn malicious_bytes_anywhere_keep_a_scan_inside_of_the_memory_and_let_it_end() {
    let mut random = random();
    pinned(|cpu| {
        for round in 0..2000u64 {
            let modes = modes();
            let (publish, loss_mode) = modes[(round % modes.len() as u64) as usize];
            let nr_cpus = cpu + 1;
            let mut channel = create(&Attr { nr_cpus, ..attr(publish, loss_mode) });
            let stride = (channel.mapped_bytes() - place::WRITE_COUNT) / u64::from(nr_cpus);
            let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
            for n in 0..random() % 500 {
                producer.record(0, &n.to_ne_bytes());
            }
            assert!(channel.stream(cpu).is_ok());
            let control = place::DATA - place::WRITE_COUNT;
            for _ in 0..1 + random() % 20 {
                let at =
                    place::WRITE_COUNT + u64::from(cpu) * stride + random() % (control / 8) * 8;
                let value = match random() % 4 {
                    0 => random() << 33 | random(),
                    1 => random() % (SUBBUF * COUNT * 2),
                    2 => u64::MAX - random() % SUBBUF,
                    _ => random() % 70000,
                };
                producer.scribble(at, &value.to_ne_bytes());
            }
            for order in [Order::OldestFirst, Order::NewestFirst] {
                let (mut buffer, mut visits) = (Vec::new(), 0);
                let mut stream = channel.stream(cpu).unwrap();
                let mut scan = stream.scan(order);
                loop {
                    match scan.next(&mut buffer) {
                        Ok(None) => break,
                        Ok(Some(info)) => assert!(info.content_bytes < SUBBUF),
                        Err(error) => assert!(matches!(error, Error::Packet { .. })),
                    }
                    visits += 1;
                    assert!(visits <= COUNT + 1);
                }
            }
        }
    });
}

/// In position mode, the entry is given to the reader before write_count closes the packet. A producer may be killed or
/// preempted between the two.
#[test]
fn scan_of_a_packet_half_closed_has_its_records() {
    let (publish, loss_mode) = (Publish::ByPosition, LossMode::Overwrite);
    if !modes().contains(&(publish, loss_mode)) {
        return;
    }
    pinned(|cpu| {
        let nr_cpus = cpu + 1;
        let mut channel = create(&Attr { nr_cpus, ..attr(publish, loss_mode) });
        let stride = (channel.mapped_bytes() - place::WRITE_COUNT) / u64::from(nr_cpus);
        let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
        for n in 0u64..3 {
            assert!(producer.record(0, &n.to_ne_bytes()));
        }
        // Packet 0 in frame 0, unread, held by nobody.
        let entry = 1u64 << 63;
        producer.scribble(place::ENTRY + u64::from(cpu) * stride, &entry.to_ne_bytes());
        for order in [Order::OldestFirst, Order::NewestFirst] {
            let scanned = scan(&mut channel, cpu, order, 1);
            assert_eq!((scanned.numbers(), scanned.unfinished), (vec![0, 1, 2], 0));
        }
        let mut buffer = Vec::new();
        let info = channel.stream(cpu).unwrap().partial(&mut buffer).unwrap().unwrap();
        assert_eq!((numbers(&buffer, 1), info.records), (vec![0, 1, 2], Some(3)));
    });
}

#[test]
fn view_gives_what_the_channel_holds_and_says_of_what_is_seen_whether_it_was_overwritten() {
    pinned(|cpu| {
        for publish in [Publish::ByPosition, Publish::ByCommit] {
            let mut channel = create(&attr(publish, LossMode::Overwrite));
            let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
            let mut next = 0u64;
            let mut write = |n: u64| {
                for _ in 0..n {
                    assert!(producer.record(0, &next.to_ne_bytes()));
                    next += 1;
                }
            };
            write(1000);
            let scanned = scan(&mut channel, cpu, Order::OldestFirst, 1);
            let mut view = channel.view().unwrap();
            assert!(matches!(
                view.scan(u32::MAX, Order::OldestFirst),
                Err(Error::NoStream { stream: u32::MAX, .. })
            ));
            let (mut passed, mut copied, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
            let (mut of_view, counters) = view.scan(cpu, Order::OldestFirst).unwrap();
            assert_eq!(counters, channel.stream(cpu).unwrap().counters());
            loop {
                let Some(seen) = of_view.look() else { break };
                let (info, mut body) = (*seen.packet().info(), Vec::new());
                seen.packet().copy_to(info.header_bytes, &mut body).unwrap();
                assert!(seen.is_there());
                drop(seen);
                passed.push((info, numbers(&body, 1)));
                of_view.pass();
            }
            // What is being filled is only copied.
            while let Some(info) = of_view.next(&mut buffer).unwrap() {
                copied.push((info, numbers(&buffer[info.header_bytes as usize..], 1)));
            }
            assert!(!passed.is_empty() && copied.len() <= 1, "{} {}", passed.len(), copied.len());
            passed.extend(copied);
            assert_eq!(passed, scanned.packets);
            // The one that is looked at is overwritten meanwhile; the channel may be gone.
            let (mut of_view, _) = view.scan(cpu, Order::OldestFirst).unwrap();
            let seen = of_view.look().unwrap();
            assert!(seen.is_there());
            write(1000);
            assert!(!seen.is_there());
            drop(channel);
            assert!(!seen.is_there());
            drop(seen);
            assert!(of_view.look().is_none());
        }
    });
}
