//! A relay that is killed at any message, and had noted any number before, ends with the files of one that was not.

use std::collections::BTreeMap;
use std::path::Path;

use strata_collect::Directory;
use strata_ctf::end_mark::{EndMark, Ending, Losses};
use strata_ctf::metadata;
use strata_ctf::packet::Header;
use strata_ctf::progress_mark::ProgressMark;
use strata_model::{ByteOrder, ClockClass, RecordHeader, StreamClass, Trace, Uuid};
use strata_relay::{FromGuest, FromRecorder, PacketBytes};

use crate::recording_folder::problem::Problem;
use crate::recording_folder::recording_state::this_boot;
use crate::recording_folder::recording_writer::{
    host_folder, FilesState, RecordingWriter, OPEN_MAX,
};
use crate::testing::Scratch;

const UUID: Uuid = Uuid(*b"0123456789abcdef");
const RECORDING: Uuid = Uuid([9; 16]);

fn text(name: &str) -> String {
    text_of(name, None)
}

fn text_of(name: &str, boot: Option<Uuid>) -> String {
    metadata::write(&Trace {
        uuid: UUID,
        byte_order: ByteOrder::NATIVE,
        environment: boot.map(|_| ("hostname".into(), "box".into())).into_iter().collect(),
        clock: ClockClass::monotonic(boot, 99),
        streams: vec![StreamClass {
            id: 0,
            name: name.into(),
            header: RecordHeader::Compact,
            context: Vec::new(),
            events: Vec::new(),
        }],
    })
}

fn packet(stream: u32, sequence: u64, body: &[u8]) -> FromRecorder<'_> {
    packet_of(stream, sequence, body, 0)
}

fn packet_of(stream: u32, sequence: u64, body: &[u8], records: u64) -> FromRecorder<'_> {
    let header = Header {
        uuid: UUID,
        cpu_id: stream,
        stream_instance: stream.into(),
        sequence,
        timestamp_begin: sequence * 10,
        timestamp_end: sequence * 10 + 10,
        discarded: sequence / 2,
        ..Header::default()
    };
    let header = header.with_content_bytes(body.len() as u64);
    let packet = PacketBytes { header, body };
    FromRecorder::Data(FromGuest::Packet { id: 0, stream, upto: records, packet })
}

fn root(scratch: &Scratch) -> Directory {
    use std::os::fd::AsFd as _;
    let opened = std::fs::File::open(&scratch.0).unwrap();
    Directory::open_in(opened.as_fd(), std::ffi::OsStr::new("."), &scratch.0).unwrap()
}

fn open(scratch: &Scratch, session: &str) -> RecordingWriter {
    let host = host_folder(&root(scratch), "box").unwrap();
    RecordingWriter::open(&host, session, (RECORDING, 0), u64::MAX, FilesState::Written).unwrap()
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let name = |entry: &std::fs::DirEntry| entry.file_name().into_string().unwrap();
    entries.map(|entry| (name(&entry), std::fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn relay_that_is_killed_at_any_message_has_the_files_of_one_that_was_not() {
    let (first, second) = (text("a"), text("longer"));
    let body = vec![7; 5000];
    let losses = Losses { unwritten: 1, discarded: 2, unread: 3 };
    let mark = ProgressMark { upto: 50, flush_ns: 5 };
    let metadata = |text| FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 0, text });
    let all = [
        FromRecorder::Begin { id: 0, layer: "user".into(), process: Some((7, "app".into())) },
        metadata(&first),
        packet(0, 0, &body[..100]),
        packet(1, 0, &body),
        packet(0, 1, &body[..10]),
        // The packet ends before it was said to end, and the next one begins there.
        FromRecorder::SetEnd { id: 0, stream: 0, sequence: 1, end_ns: 15 },
        metadata(&second),
        packet(0, 2, &body[..4000]),
        packet(0, 3, &[]),
        FromRecorder::Progress { id: 0, mark },
        packet(1, 1, &body[..1]),
        FromRecorder::SetEnd { id: 0, stream: 1, sequence: 1, end_ns: 10 },
        FromRecorder::Data(FromGuest::Ended { id: 0, ending: Ending::Ended, losses }),
        FromRecorder::Close { ending: Ending::Ended, losses },
    ];
    let scratch = Scratch::new("received");
    let mut whole = open(&scratch, "whole");
    all.iter().for_each(|message| whole.take(message).unwrap());
    let wanted = files(&scratch.0.join("box/whole/user/app-7"));
    assert!(wanted["channel0_0"].len() >= 8192 && whole.is_closed());
    for killed in 0..=all.len() {
        for noted in 0..=killed {
            let session = format!("killed-{killed}-{noted}");
            let mut received = open(&scratch, &session);
            for (number, message) in all[..killed].iter().enumerate() {
                if number == noted {
                    received.note().unwrap();
                }
                received.take(message).unwrap();
            }
            if noted == killed {
                received.note().unwrap();
            }
            drop(received);
            // The next packet's file may have been made already.
            let folder = scratch.0.join("box").join(&session).join("user/app-7");
            let next = folder.join("channel0_1");
            if folder.join("metadata").exists() && !next.exists() {
                std::fs::write(next, "").unwrap();
            }
            let mut received = open(&scratch, &session);
            assert_eq!(received.next(), noted as u64);
            for message in &all[noted..] {
                let taken = received.take(message);
                assert_eq!(taken, Ok(()), "{killed} {noted}: {message:?}");
            }
            let found = files(&scratch.0.join("box").join(&session).join("user/app-7"));
            assert!(found == wanted, "{killed} {noted}: {:?}", found.keys());
        }
    }
}

#[test]
fn records_that_are_left_out_are_counted_once_wherever_the_relay_is_killed() {
    let (text, body) = (text("a"), vec![7; 4000]);
    let all: Vec<_> = [
        FromRecorder::Begin { id: 0, layer: "user".into(), process: None },
        FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 0, text: &text }),
    ]
    .into_iter()
    .chain((0..6).map(|sequence| packet_of(0, sequence, &body, 1 << sequence)))
    .collect();
    // Messages 4 to 6 come while there is no room.
    let is_full = |number: usize| (4..=6).contains(&number);
    let scratch = Scratch::new("received-quota");
    for killed in 0..=all.len() {
        // What is written behind what was left out is written once that is noted.
        let first = if killed > 7 { 7 } else { 0 };
        for noted in first..=killed {
            let session = format!("killed-{killed}-{noted}");
            let take = |received: &mut RecordingWriter, numbers: std::ops::Range<usize>, noted| {
                for number in numbers {
                    if number == noted {
                        received.note().unwrap();
                    }
                    received.set_full(is_full(number));
                    received.take(&all[number]).unwrap();
                }
            };
            let mut received = open(&scratch, &session);
            take(&mut received, 0..killed, noted);
            if noted == killed {
                received.note().unwrap();
            }
            drop(received);
            let mut received = open(&scratch, &session);
            assert_eq!(received.next(), noted as u64);
            take(&mut received, noted..all.len(), usize::MAX);
            let found = files(&scratch.0.join("box").join(&session).join("user"));
            assert_eq!((received.quota().0, killed, noted), (0b1_1100, killed, noted));
            assert!(
                found["channel0_0"].len() > 3 * 4000 && found["channel0_0"].len() < 4 * 4096 + 96
            );
        }
    }
}

#[test]
fn records_that_were_left_out_are_known_after_a_loss_of_power() {
    let (text, body) = (text("a"), vec![7; 400]);
    let all = [
        FromRecorder::Begin { id: 0, layer: "user".into(), process: None },
        FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 0, text: &text }),
        packet_of(0, 0, &body, 1),
        packet_of(0, 1, &body, 20),
        packet_of(0, 2, &body, 30),
    ];
    // How many were left out before each message.
    let left_out = [0, 0, 0, 0, 20, 50];
    let scratch = Scratch::new("received-quota-power");
    for durable in 3..=all.len() {
        // The recorder may have been told that all are there, when this was not yet in the file on the disk.
        for (told, case) in [(durable, "noted"), (all.len(), "told")] {
            let session = format!("power-{durable}-{case}");
            let mut received = open(&scratch, &session);
            for (number, before) in left_out.into_iter().enumerate() {
                if number == durable {
                    let is_new = received.set_durable(number as u64);
                    assert_eq!(is_new, before > 0);
                }
                received.set_full(number >= 3);
                if let Some(message) = all.get(number) {
                    received.take(message).unwrap();
                }
            }
            received.note_again().unwrap();
            drop(received);
            // Readers know it, should nobody go on.
            let mark = std::fs::read(scratch.0.join("box").join(&session).join(".strata-end"));
            let mark = EndMark::decode(&mark.unwrap()).unwrap();
            assert_eq!((mark.ending, mark.quota), (Ending::Recording, 50), "{session}");
            let noted = scratch.0.join("box").join(&session).join(".strata-relay-next");
            let of_now = std::fs::read_to_string(&noted).unwrap();
            let of_before = of_now.replace(&this_boot().to_string(), &Uuid([1; 16]).to_string());
            std::fs::write(&noted, of_before).unwrap();
            let host = host_folder(&root(&scratch), "box").unwrap();
            let opened = (RECORDING, told as u64);
            let mut received =
                RecordingWriter::open(&host, &session, opened, u64::MAX, FilesState::Written)
                    .unwrap();
            assert_eq!((received.next(), received.quota().0), (told as u64, left_out[told]));
            // What comes again was counted.
            assert_eq!(received.counts(), (5, 50), "{session}");
            received.set_full(true);
            all[told..].iter().for_each(|message| received.take(message).unwrap());
            assert_eq!(received.quota().0, 50, "{session}");
            assert_eq!(received.counts(), (5, 50), "{session}");
            received.take(&packet_of(0, 3, &body, 4)).unwrap();
            assert_eq!(received.counts(), (6, 54), "{session}");
        }
    }
}

#[test]
fn discarded_records_of_packets_that_come_again_count_once() {
    let (text, body) = (text("a"), vec![7; 400]);
    let mut all = vec![
        FromRecorder::Begin { id: 0, layer: "user".into(), process: None },
        FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 0, text: &text }),
    ];
    // Of these the relay is told 0, 0, 1, 1, 2 and 2 discarded records.
    all.extend((0..6).map(|sequence| packet_of(0, sequence, &body, 1)));
    let scratch = Scratch::new("received-again");
    for (kept, durable) in
        [(FilesState::Durable, 3), (FilesState::Doubted, 3), (FilesState::Doubted, 6)]
    {
        let session = format!("{kept:?}-{durable}");
        let mut received = open(&scratch, &session);
        for (number, message) in all.iter().enumerate().take(7) {
            if number == durable {
                received.set_durable(durable as u64);
            }
            received.take(message).unwrap();
        }
        assert_eq!(received.discarded(), 2);
        received.note_again().unwrap();
        let again = received.park().reopen((RECORDING, 0), kept).unwrap();
        let mut received = again.unwrap();
        assert_eq!((received.next(), received.counts().0), (durable as u64, 7), "{session}");
        all[durable..].iter().for_each(|message| received.take(message).unwrap());
        // It counts from its opening on, and the last one is new.
        assert_eq!(received.discarded(), 0, "{session}");
        assert_eq!(received.counts().0, 8, "{session}");
        received.take(&packet_of(0, 6, &body, 1)).unwrap();
        assert_eq!(received.discarded(), 1, "{session}");
    }
}

/// Notes what a relay notes that has forced everything before `durable` to the disk, in another boot.
fn note_in_other_boot(folder: &Path, next: u64, durable: u64) {
    let path = folder.join(".strata-relay-next");
    let text = format!(
        "strata relay next 2\nnext {next}\ndurable {durable}\nboot {}\nagain {next} {durable}\n",
        Uuid([1; 16])
    );
    std::fs::write(path, format!("{text}{}", "\n".repeat(192 - text.len()))).unwrap();
}

#[test]
fn files_after_a_loss_of_power_are_cut_where_they_come_again() {
    let body: Vec<u8> = (0..9000u32).map(|at| at as u8).collect();
    let text = text("a");
    let all = [
        FromRecorder::Begin { id: 0, layer: "user".into(), process: None },
        FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 0, text: &text }),
        packet(0, 0, &body[..5000]),
        packet(1, 0, &body[..100]),
        packet(0, 1, &body[..6000]),
        FromRecorder::SetEnd { id: 0, stream: 0, sequence: 1, end_ns: 15 },
        packet(0, 2, &body[..7000]),
        packet(1, 1, &body[..10]),
        packet(0, 3, &body),
    ];
    let scratch = Scratch::new("received-power");
    let mut whole = open(&scratch, "whole");
    all.iter().for_each(|message| whole.take(message).unwrap());
    let wanted = files(&scratch.0.join("box/whole/user"));
    // Sizes of the two files after each message: all behind the durable ones is anything.
    for durable in 3..=all.len() {
        for (fill, extra) in [(0u8, 0), (0, 4096), (0xff, 100)] {
            for acknowledged in [0, durable as u64] {
                let session = format!("power-{durable}-{fill}-{extra}-{acknowledged}");
                let mut received = open(&scratch, &session);
                let folder = scratch.0.join("box").join(&session).join("user");
                let mut kept = BTreeMap::new();
                for (number, message) in all.iter().enumerate() {
                    if number == durable {
                        kept = files(&folder);
                    }
                    received.take(message).unwrap();
                }
                received.note().unwrap();
                drop(received);
                for (name, bytes) in files(&folder) {
                    if !name.starts_with("channel") || durable == all.len() {
                        continue;
                    }
                    let safe = kept.get(&name).map_or(0, Vec::len);
                    let mut torn = bytes;
                    torn[safe..].fill(fill);
                    torn.resize(torn.len() + extra, fill);
                    std::fs::write(folder.join(&name), torn).unwrap();
                }
                // The number may be on the disk although what is before it is not.
                let noted = if acknowledged == 0 { durable } else { durable - 1 };
                note_in_other_boot(folder.parent().unwrap(), all.len() as u64, noted as u64);
                let again = || {
                    let host = host_folder(&root(&scratch), "box").unwrap();
                    let opened = (RECORDING, acknowledged);
                    RecordingWriter::open(&host, &session, opened, u64::MAX, FilesState::Written)
                        .unwrap()
                };
                // The connection breaks before all has come again.
                let mut received = again();
                for message in all[durable..].iter().take(1) {
                    assert_eq!(received.take(message), Ok(()), "{session}: {message:?}");
                }
                received.note().unwrap();
                drop(received);
                let mut received = again();
                assert_eq!(received.next(), durable as u64, "{session}");
                for message in &all[durable..] {
                    assert_eq!(received.take(message), Ok(()), "{session}: {message:?}");
                }
                let found = files(&folder);
                for (name, bytes) in &wanted {
                    assert!(found[name] == *bytes, "{session}: {name}");
                }
            }
        }
    }
}

#[test]
fn what_is_not_known_to_be_on_the_disk_is_wanted_again() {
    let text = text("a");
    let all = [
        FromRecorder::Begin { id: 0, layer: "user".into(), process: None },
        FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 0, text: &text }),
        packet(0, 0, b"first"),
        packet(1, 0, b"other"),
        packet(0, 1, b"second"),
    ];
    let scratch = Scratch::new("received-durable");
    let host = host_folder(&root(&scratch), "box").unwrap();
    let mut whole = open(&scratch, "whole");
    all.iter().for_each(|message| whole.take(message).unwrap());
    let wanted = files(&scratch.0.join("box/whole/user"));
    for durable in 0..=all.len() {
        for acknowledged in 0..=durable as u64 {
            for kept in [FilesState::Durable, FilesState::Doubted] {
                let session = format!("{durable}-{acknowledged}-{kept:?}");
                let mut received = open(&scratch, &session);
                for (number, message) in all.iter().enumerate() {
                    if number == durable && kept == FilesState::Durable {
                        received.set_durable(durable as u64);
                    }
                    received.take(message).unwrap();
                }
                received.note().unwrap();
                let folder = scratch.0.join("box").join(&session).join("user");
                drop(received);
                let opened = (RECORDING, acknowledged);
                let mut received =
                    RecordingWriter::open(&host, &session, opened, u64::MAX, kept).unwrap();
                let next = match kept == FilesState::Durable && durable < all.len() {
                    true => durable as u64,
                    false => acknowledged,
                };
                assert_eq!(received.next(), next, "{session}");
                if kept == FilesState::Doubted && next <= 2 {
                    // What the disk has in place of the last packet.
                    let mut torn = std::fs::read(folder.join("channel0_0")).unwrap();
                    let size = torn.len();
                    torn[size - 6..].fill(0);
                    std::fs::write(folder.join("channel0_0"), torn).unwrap();
                }
                for message in &all[next as usize..] {
                    assert_eq!(received.take(message), Ok(()), "{session}: {message:?}");
                }
                let found = files(&folder);
                for (name, bytes) in &wanted {
                    assert!(found[name] == *bytes, "{session}: {name}");
                }
            }
        }
    }
}

#[test]
fn empty_files_after_a_loss_of_power_are_written_again() {
    let text = text("a");
    let all = [
        FromRecorder::Begin { id: 0, layer: "user".into(), process: None },
        FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 0, text: &text }),
        packet(0, 0, b"body"),
    ];
    let scratch = Scratch::new("received-empty");
    let mut received = open(&scratch, "s");
    all.iter().for_each(|message| received.take(message).unwrap());
    let folder = scratch.0.join("box/s");
    let wanted = files(&folder.join("user"));
    drop(received);
    for empty in ["user/metadata", "user/channel0_0", ".strata-relay-next"] {
        std::fs::write(folder.join(empty), "").unwrap();
    }
    let mut received = open(&scratch, "s");
    assert_eq!((received.path(), received.next()), (folder.as_path(), 0));
    all.iter().for_each(|message| received.take(message).unwrap());
    assert!(files(&folder.join("user")) == wanted);
    drop(received);
    // It is not known of which recording that folder is: another has it no more, and this one goes on in the next.
    std::fs::write(folder.join(".strata-relay"), "").unwrap();
    assert_eq!(open(&scratch, "s").path(), scratch.0.join("box/s-2"));
}

#[test]
fn malicious_messages_are_refused_and_change_nothing() {
    let scratch = Scratch::new("received-hostile");
    let mut received = open(&scratch, "s");
    let text = text("a");
    received.take(&FromRecorder::Begin { id: 0, layer: "kernel".into(), process: None }).unwrap();
    let early = packet(0, 0, b"x");
    assert!(received.take(&early).unwrap_err().why.contains("before the metadata"));
    let metadata = FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 0, text: &text });
    received.take(&metadata).unwrap();
    received.take(&packet(0, 5, b"x")).unwrap();
    let folder = scratch.0.join("box/s/kernel");
    let (before, next) = (files(&folder), received.next());
    let other = text.replace("30313233", "40313233");
    let begin = |id, layer: &str| FromRecorder::Begin { id, layer: layer.into(), process: None };
    for (bad, why) in [
        (begin(1, "../x"), "no layer's folder"),
        (begin(1, "kernel"), "two traces"),
        (packet(0, 5, b"y"), "go back"),
        (packet(5000, 6, b"y"), "CPU 5000"),
        (FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 0, text: &other }), "UUID"),
        (FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 1, text: &text }), "in pieces"),
        (FromRecorder::Data(FromGuest::Gone { id: 0 }), "that has packets"),
        (FromRecorder::Data(FromGuest::Gone { id: 7 }), "trace 7"),
        (FromRecorder::Data(FromGuest::End), "only guests"),
        (FromRecorder::SetEnd { id: 0, stream: 0, sequence: 4, end_ns: 1 }, "not the last"),
        (FromRecorder::SetEnd { id: 0, stream: 0, sequence: 5, end_ns: 1 }, "go back"),
    ] {
        let found = received.take(&bad).unwrap_err();
        assert!(found.why.contains(why), "{bad:?}: {found:?}");
        assert!(files(&folder) == before && received.next() == next, "{bad:?}");
    }
    received.take(&packet(0, 6, b"y")).unwrap();
}

#[test]
fn recording_of_the_same_name_has_another_folder() {
    let scratch = Scratch::new("received-names");
    let host = host_folder(&root(&scratch), "box").unwrap();
    let one = RecordingWriter::open(&host, "s", (RECORDING, 0), 5, FilesState::Written).unwrap();
    let other =
        RecordingWriter::open(&host, "s", (Uuid([8; 16]), 0), 5, FilesState::Written).unwrap();
    assert_eq!(one.path(), scratch.0.join("box/s"));
    assert_eq!(other.path(), scratch.0.join("box/s-2"));
    drop(one);
    // What is no recording of a relay is left alone.
    std::fs::create_dir(scratch.0.join("box/t")).unwrap();
    let third = RecordingWriter::open(&host, "t", (RECORDING, 0), 5, FilesState::Written).unwrap();
    assert_eq!(third.path(), scratch.0.join("box/t-2"));
    // Another user could have put a link in its place.
    std::os::unix::fs::symlink("/", scratch.0.join("box/u")).unwrap();
    assert!(RecordingWriter::open(&host, "u", (RECORDING, 0), 5, FilesState::Written).is_err());
    // As many folders as the host may have, the link among them; one that is there goes on.
    assert_eq!(std::fs::read_dir(host.path()).unwrap().count(), 5);
    assert!(RecordingWriter::open(&host, "v", (RECORDING, 0), 5, FilesState::Written)
        .unwrap_err()
        .why
        .contains("may have 5"));
    drop(other);
    assert!(RecordingWriter::open(&host, "s", (Uuid([8; 16]), 0), 5, FilesState::Written).is_ok());
}

#[test]
fn traces_that_take_turns_go_on_without_being_read_again() {
    let scratch = Scratch::new("received-turns");
    let mut received = open(&scratch, "s");
    let text = text("a");
    let traces: u32 = 3 * OPEN_MAX as u32 / 2;
    let of = |id: u32, sequence: u64| {
        let header = Header {
            uuid: UUID,
            sequence,
            timestamp_begin: sequence * 10,
            timestamp_end: sequence * 10 + 10,
            ..Header::default()
        };
        let packet = PacketBytes { header: header.with_content_bytes(100), body: &[7; 100] };
        FromRecorder::Data(FromGuest::Packet { id, stream: 0, upto: 0, packet })
    };
    for id in 0..traces {
        let process = Some((id, "app".to_owned()));
        received.take(&FromRecorder::Begin { id, layer: "user".into(), process }).unwrap();
        received
            .take(&FromRecorder::Data(FromGuest::Metadata { id, keep: 0, text: &text }))
            .unwrap();
        received.take(&of(id, 0)).unwrap();
        received.take(&of(id, 1)).unwrap();
    }
    let path = scratch.0.join("box/s/user/app-0/channel0_0");
    let good = std::fs::read(&path).unwrap();
    // Who reads the headers again stumbles over the first one.
    std::fs::write(&path, [&[0; 64], &good[64..]].concat()).unwrap();
    for sequence in 2..4 {
        (0..traces).for_each(|id| received.take(&of(id, sequence)).unwrap());
    }
    let found = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&good[..64], &found[64..]].concat()).unwrap();
    let other = files(&scratch.0.join("box/s/user/app-1"));
    assert!(files(&scratch.0.join("box/s/user/app-0"))["channel0_0"] == other["channel0_0"]);
    // What was sent is there, and comes again without harm.
    received.note().unwrap();
    drop(received);
    let mut received = open(&scratch, "s");
    (0..traces).for_each(|id| received.take(&of(id, 3)).unwrap());
    assert!(files(&scratch.0.join("box/s/user/app-0"))["channel0_0"] == other["channel0_0"]);
}

#[test]
fn parked_recording_stays_locked_and_goes_on() {
    use strata_ctf::read::Follow;
    let scratch = Scratch::new("received-parked");
    let mut received = open(&scratch, "s");
    let text = text("a");
    let begin =
        FromRecorder::Begin { id: 0, layer: "user".into(), process: Some((7, "app".into())) };
    received.take(&begin).unwrap();
    received
        .take(&FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 0, text: &text }))
        .unwrap();
    received.take(&packet(0, 0, &[7; 100])).unwrap();
    received.note().unwrap();
    let folder = scratch.0.join("box/s");
    let is_locked =
        || Follow::is_recorded(&folder) && Follow::is_recorded(&folder.join("user/app-7"));
    let parked = received.park();
    assert!(is_locked());
    let mut received = parked.reopen((RECORDING, 0), FilesState::Written).unwrap().unwrap();
    assert_eq!((received.next(), is_locked()), (3, true));
    received.take(&packet(0, 1, &[7; 100])).unwrap();
    assert!(is_locked());
    let parked = received.park();
    assert!(parked.reopen((Uuid([1; 16]), 0), FilesState::Written).unwrap().is_none());
    assert!(!is_locked());
    // Another folder has the name now.
    let parked = open(&scratch, "s").park();
    std::fs::rename(&folder, scratch.0.join("box/moved")).unwrap();
    std::fs::create_dir(&folder).unwrap();
    assert!(parked.reopen((RECORDING, 0), FilesState::Written).unwrap().is_none());
}

#[test]
fn problem_of_a_machine_without_space_or_descriptors_is_passing() {
    let of = |errno: rustix::io::Errno| Problem::from(std::io::Error::from(errno)).is_passing;
    assert!(of(rustix::io::Errno::MFILE) && of(rustix::io::Errno::NOSPC));
    assert!(!of(rustix::io::Errno::LOOP) && !of(rustix::io::Errno::ROFS));
    let source = || std::io::Error::from(rustix::io::Errno::NOSPC);
    let path = || std::path::PathBuf::from("x");
    assert!(
        Problem::from(strata_collect::Error::NoSpace { path: path(), source: source() }).is_passing
    );
    assert!(
        Problem::from(strata_collect::Error::Write { path: path(), source: source() }).is_passing
    );
    assert!(
        !Problem::from(strata_collect::Error::Gone { path: path(), source: source() }).is_passing
    );
    assert!(!Problem::from("it opens a second recording").is_passing);
}

#[test]
fn folder_that_is_read_as_messages_while_it_grows_becomes_the_same_folder_elsewhere() {
    use crate::recording_folder::folder_messages::{FolderMessages, Looked, Seen};
    let (first, second) = (text("a"), text("longer"));
    let body = vec![7; 5000];
    let losses = Losses { unwritten: 1, discarded: 2, unread: 3 };
    let mark = ProgressMark { upto: 50, flush_ns: 5 };
    let metadata = |text| FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 0, text });
    let dump = Header { uuid: UUID, ..Header::default() }.with_content_bytes(5);
    let dump = PacketBytes { header: dump, body: b"state" };
    let all = [
        FromRecorder::Begin { id: 0, layer: "user".into(), process: Some((7, "my-app".into())) },
        metadata(&first),
        FromRecorder::Data(FromGuest::Stream { id: 0, name: "statedump_0", packet: dump }),
        packet(0, 0, &body[..100]),
        packet(1, 0, &body),
        packet(0, 1, &body[..10]),
        FromRecorder::SetEnd { id: 0, stream: 0, sequence: 1, end_ns: 15 },
        metadata(&second),
        packet(0, 2, &body[..4000]),
        packet(0, 3, &[]),
        FromRecorder::Progress { id: 0, mark },
        packet(1, 1, &body[..1]),
        FromRecorder::SetEnd { id: 0, stream: 1, sequence: 1, end_ns: 10 },
        FromRecorder::Begin { id: 1, layer: "kernel".into(), process: None },
        FromRecorder::Data(FromGuest::Gone { id: 1 }),
        FromRecorder::Data(FromGuest::Ended { id: 0, ending: Ending::Ended, losses }),
        FromRecorder::Close { ending: Ending::Ended, losses },
    ];
    // A viewer that looks after each message, one whose connection breaks each time, and one that comes at the end.
    for (name, looks, breaks) in
        [("each", true, false), ("broken", true, true), ("late", false, false)]
    {
        let (here, there) =
            (Scratch::new(&format!("here-{name}")), Scratch::new(&format!("there-{name}")));
        let (mut from, mut to) = (open(&here, "s"), open(&there, "s"));
        let folder = || {
            let host = host_folder(&root(&here), "box").unwrap();
            let path = host.path().join("s");
            use std::os::fd::AsFd as _;
            Directory::open_in(host.as_fd(), std::ffi::OsStr::new("s"), &path).unwrap()
        };
        let mut messages = FolderMessages::new(&folder(), Seen::new());
        for (number, message) in all.iter().enumerate() {
            from.take(message).unwrap();
            let is_last = number + 1 == all.len();
            if !looks && !is_last {
                continue;
            }
            if breaks {
                let seen = to.last_packets().into_iter();
                let seen = seen.map(|(id, stream, sequence)| ((id, stream), sequence)).collect();
                messages = FolderMessages::new(&folder(), seen);
            }
            // A change within the tick of the file system's clock is found as well.
            let looked = messages.look(true, &mut |message| {
                to.take(message).map_err(|problem| std::io::Error::other(problem.why))
            });
            let wanted = Looked { is_recorded: !is_last, has_more: false };
            assert_eq!(looked.map_err(|error| error.to_string()), Ok(wanted), "{name} {number}");
        }
        assert!(to.is_closed());
        let below = |scratch: &Scratch, folder: &str| files(&scratch.0.join("box/s").join(folder));
        assert_eq!(below(&there, "user/my-app-7"), below(&here, "user/my-app-7"), "{name}");
        let end = |scratch: &Scratch| std::fs::read(scratch.0.join("box/s/.strata-end")).unwrap();
        assert_eq!(end(&there), end(&here));
        assert!(!there.0.join("box/s/kernel").exists());
    }
}

#[test]
fn recording_that_goes_on_after_its_end_is_not_marked_as_ended() {
    let scratch = Scratch::new("received-end");
    let losses = Losses::default();
    let close = FromRecorder::Close { ending: Ending::Ended, losses };
    let mut received = open(&scratch, "s");
    received.take(&close).unwrap();
    received.note().unwrap();
    drop(received);
    let is_ended =
        || crate::recording_folder::recording_writer::has_ended(&scratch.0.join("box/s"));
    // Its last acknowledgement did not arrive.
    let mut received = open(&scratch, "s");
    assert!(is_ended());
    received.take(&close).unwrap();
    drop(received);
    let mut received = open(&scratch, "s");
    let begin = FromRecorder::Begin { id: 0, layer: "user".into(), process: None };
    received.take(&begin).unwrap();
    assert!(!is_ended());
    received.take(&close).unwrap();
    assert!(is_ended());
}

#[test]
fn trace_that_was_closed_in_favour_of_others_gets_what_is_known_of_the_clock_meanwhile() {
    let scratch = Scratch::new("received-clock");
    let boot = Uuid([3; 16]);
    let text = text_of("a", Some(boot));
    let mut received = open(&scratch, "s");
    received.translate_times(boot, 1_700_000_000_000_000_000);
    let many = OPEN_MAX as u32 + 4;
    for id in 0..many {
        let process = Some((id, "app".to_owned()));
        received.take(&FromRecorder::Begin { id, layer: "user".into(), process }).unwrap();
        let metadata = FromGuest::Metadata { id, keep: 0, text: &text };
        received.take(&FromRecorder::Data(metadata)).unwrap();
    }
    let described = |id: u32| {
        let path = scratch.0.join(format!("box/s/user/app-{id}/metadata"));
        std::fs::read_to_string(path).unwrap().contains("clock_uncertainty")
    };
    assert!(!described(0) && !described(many - 1));
    let clock = received.clock().unwrap();
    let number = clock.ask(1_000_000_000);
    clock.take(number, (500, 501), 1_000_100_000);
    received.write_clock(true);
    assert!(!described(0) && described(many - 1));
    let mark = ProgressMark { upto: 50, flush_ns: 5 };
    received.take(&FromRecorder::Progress { id: 0, mark }).unwrap();
    assert!(described(0) && !described(1));
}
