//! Tests of filters on arguments that are recorded after the entry.

use std::path::PathBuf;

use strata_filter::Filter;

use super::*;
use crate::read::Selection;

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 16; align = 8; byte_order = be; } := u16be;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; signed = true; } := i64;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le; };
stream {
    packet.context := struct { u64 content_size; u64 packet_size; u64 events_discarded; };
    event.header := struct { u8 id; };
    event.context := struct { u32 tid; };
};
event { name = "syscall_entry_openat"; id = 0; fields := struct { u32 dfd; string filename; }; };
event { name = "syscall_exit_openat"; id = 1; fields := struct { i64 ret; }; };
event {
    name = "syscall_entry_connect"; id = 2;
    fields := struct {
        u32 fd; u32 addr_family; u16be addr_port; u8 _addr_addr_length; u8 addr_addr[_addr_addr_length]; u32 addrlen;
    };
};
event { name = "syscall_entry_nanosleep"; id = 3; fields := struct { i64 rqtp_sec; i64 rqtp_nsec; u64 rmtp; }; };
event {
    name = "syscall_text"; id = 4;
    fields := struct { enum : u32 { openat = 1, unlink = 2 } call; u8 argument; string text; };
};
event {
    name = "syscall_address"; id = 5;
    fields := struct {
        enum : u32 { connect = 3 } call; u8 argument; u32 address_family; u16be address_port;
        u8 _address_addr_length; u8 address_addr[_address_addr_length];
    };
};
event {
    name = "syscall_memory"; id = 6;
    fields := struct {
        enum : u32 { nanosleep = 4 } call; u8 argument; u8 _words_length; u32 words[_words_length];
    };
};
"#;

const OPENAT: u32 = 1;
const UNLINK: u32 = 2;

/// Makes a record from the bytes after its id and thread.
fn record(id: u8, tid: u32, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![id];
    bytes.extend(tid.to_le_bytes());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

fn openat(tid: u32, name: &str) -> Vec<u8> {
    record(0, tid, &[&5_u32.to_le_bytes(), name.as_bytes(), b"\0"])
}

fn opened(tid: u32) -> Vec<u8> {
    record(1, tid, &[&3_i64.to_le_bytes()])
}

fn text(tid: u32, call: u32, argument: u8, text: &str) -> Vec<u8> {
    record(4, tid, &[&call.to_le_bytes(), &[argument], text.as_bytes(), b"\0"])
}

fn connect(tid: u32) -> Vec<u8> {
    record(2, tid, &[&3_u32.to_le_bytes(), &[0; 4], &[0; 2], &[0], &16_u32.to_le_bytes()])
}

fn address(tid: u32) -> Vec<u8> {
    let [call, family] = [3_u32, 2].map(u32::to_le_bytes);
    record(5, tid, &[&call, &[1], &family, &80_u16.to_be_bytes(), &[4, 127, 0, 0, 1]])
}

fn nanosleep(tid: u32) -> Vec<u8> {
    record(3, tid, &[&[0; 24]])
}

fn memory(tid: u32) -> Vec<u8> {
    let words: Vec<u8> = [0_u32, 0, 7000, 0].into_iter().flat_map(u32::to_le_bytes).collect();
    record(6, tid, &[&4_u32.to_le_bytes(), &[0, 4], &words])
}

/// Returns the indexes of the records that a filter selects. Each of `packets` has its count of discarded records and
/// its records.
fn selected(packets: &[(u64, Vec<Vec<u8>>)], filter: &str) -> Vec<usize> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("strata-later-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let folder = Folder(folder);
    std::fs::write(folder.0.join("metadata"), METADATA).expect("the metadata");
    let mut bytes = Vec::new();
    for (discarded, records) in packets {
        let body = records.concat();
        let bits = (24 + body.len() as u64) * 8;
        [bits, bits, *discarded].iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        bytes.extend(body);
    }
    std::fs::write(folder.0.join("stream"), bytes).expect("a stream");
    let reader = Reader::open(&[&folder.0]).expect("a trace");
    let filter = Filter::parse(filter).unwrap_or_else(|error| panic!("{}", error.caret()));
    let mut selection = Selection::of_time(&filter, &reader, TimeRange::ALL, &|| false);
    let (mut events, mut at, mut found) = (reader.events(TimeRange::ALL), 0, Vec::new());
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) => {
                if selection.accepts(&event) {
                    found.push(at);
                }
                at += 1;
            }
            Message::Damage(damage) => panic!("{damage}"),
            _ => {}
        }
    }
    found
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn filter_finds_the_entry_whose_argument_came_later() {
    let records = vec![
        openat(7, "0x5580"),
        openat(8, "/etc/hostname"),
        text(7, OPENAT, 1, "/etc/hostname"),
        opened(7),
        opened(8),
        connect(7),
        address(7),
        nanosleep(8),
        memory(8),
        nanosleep(7),
    ];
    let packets = [(0, records)];
    for (filter, wanted) in [
        ("filename == \"/etc/hostname\"", &[0, 1][..]),
        ("filename == \"/etc/*\" && tid == 7", &[0]),
        ("filename == \"0x*\"", &[]),
        ("filename != \"/etc/hostname\"", &[]),
        ("syscall_entry_openat && filename in {\"/etc/hostname\", \"/x\"}", &[0, 1]),
        ("addr_port == 80", &[5]),
        ("addr_family == 2 && addr_addr[0] == 127 && addr_addr[3] == 1", &[5]),
        ("addr_addr[4] == 1", &[]),
        ("addr_port == 0", &[]),
        ("addr_port > fd", &[5]),
        ("rqtp_nsec >= 7000", &[7]),
        ("rqtp_nsec == 0", &[9]),
        // Conditions on the later records themselves.
        ("text == \"/etc/hostname\"", &[2]),
        ("fd == 3", &[5]),
    ] {
        assert_eq!(selected(&packets, filter), wanted, "{filter}");
    }
}

#[test]
fn argument_of_another_call_or_thread_is_not_the_entry_s() {
    let hostname = "filename == \"/etc/hostname\"";
    let of = |records: Vec<Vec<u8>>| selected(&[(0, records)], hostname);
    let later = || text(7, OPENAT, 1, "/etc/hostname");
    assert_eq!(of(vec![openat(7, "0x1"), opened(7), later()]), [0; 0]);
    assert_eq!(of(vec![openat(8, "0x1"), later()]), [0; 0]);
    assert_eq!(of(vec![openat(7, "0x1"), text(7, UNLINK, 1, "/etc/hostname")]), [0; 0]);
    assert_eq!(of(vec![openat(7, "0x1"), text(7, OPENAT, 0, "/etc/hostname")]), [0; 0]);
    assert_eq!(of(vec![openat(7, "/a"), openat(7, "0x1"), later()]), [1]);
    // Among the discarded records may have been the call's exit and another entry.
    let packets = [(0, vec![openat(7, "0x1")]), (2, vec![later(), openat(7, "0x2"), later()])];
    assert_eq!(selected(&packets, hostname), [2]);
}
