//! Files of perf that are made here, byte by byte, read as traces.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use strata_ctf::read::{Message, Reader, Scope, TimeRange, Value};

use super::*;

/// Parts of each sample, in this order: identifier, ip, thread, time, CPU, period, callchain, raw.
const PARTS: u64 = 1 << 16 | 1 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 5 | 1 << 10;
const CLOCK: u64 = 11;
const SWITCH: u64 = 22;
const FORMAT: &str = "name: sched_switch\nID: 316\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n\
    \tfield:char next_comm[8];\toffset:12;\tsize:8;\tsigned:0;\n";

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("strata-import-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("trace")).unwrap();
        Folder(path)
    }

    fn convert(&self, bytes: &[u8]) -> Result<Imported, ImportError> {
        let (file, trace) = (self.0.join("perf.data"), self.0.join("trace"));
        fs::write(&file, bytes).unwrap();
        fs::remove_dir_all(&trace).unwrap();
        fs::create_dir(&trace).unwrap();
        convert(&file, &trace, Uuid([7; 16]), &|| false)
    }

    /// Returns time, thread, name and fields of each event, and what was discarded.
    fn read(&self) -> (Vec<String>, u64) {
        let reader = Reader::open(&[self.0.join("trace")]).unwrap();
        let (mut lines, mut discarded) = (Vec::new(), 0);
        let mut events = reader.events(TimeRange::ALL);
        while let Some(message) = events.next() {
            match message {
                Message::Event(event) => {
                    let of = |scope, name: &str| {
                        let field = event.class().find_in(scope, name)?;
                        Some(match event.value(&field)? {
                            Value::Unsigned(value) => value.to_string(),
                            Value::Signed(value) => value.to_string(),
                            Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
                            _ => String::new(),
                        })
                    };
                    let common = |name| of(Scope::CommonContext, name).unwrap();
                    let own = ["name", "path", "prev_pid", "next_comm", "period"];
                    let own: Vec<_> =
                        own.iter().filter_map(|name| of(Scope::Payload, name)).collect();
                    lines.push(format!(
                        "{} {}:{} {} {}",
                        event.time().unwrap(),
                        common("procname"),
                        common("tid"),
                        event.class().name(),
                        own.join(" ")
                    ));
                }
                Message::Discarded(found) => discarded += found.count,
                Message::Packet(_) => {}
                Message::Damage(damage) => panic!("{damage}"),
            }
        }
        (lines, discarded)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn halves(halves: &[u32]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_ne_bytes()).collect()
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(body.len() + 8).unwrap();
    [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes(), body].concat()
}

/// Makes the end of records that are no samples: thread, time, CPU, event.
fn behind(tid: u32, time: u64, cpu: u32) -> Vec<u8> {
    [halves(&[tid, tid]), words(&[time]), halves(&[cpu, 0]), words(&[CLOCK])].concat()
}

fn sample(event: u64, (tid, time, cpu): (u32, u64, u32), stack: &[u64], raw: &[u8]) -> Vec<u8> {
    let body = [
        words(&[event, 0x1234]),
        halves(&[tid, tid]),
        words(&[time]),
        halves(&[cpu, 0]),
        words(&[99, stack.len() as u64]),
        words(stack),
        halves(&[raw.len() as u32]),
        raw.to_vec(),
    ];
    record(9, 1, &body.concat())
}

fn text(text: &str) -> Vec<u8> {
    let mut text = text.as_bytes().to_vec();
    text.resize((text.len() / 8 + 1) * 8, 0);
    text
}

fn comm(misc: u16, tid: u32, time: u64, name: &str) -> Vec<u8> {
    record(3, misc, &[halves(&[tid, tid]), text(name), behind(tid, time, 0)].concat())
}

fn round() -> Vec<u8> {
    record(68, 0, &[])
}

fn switch(prev: i32, next: &[u8; 8]) -> Vec<u8> {
    [&[0; 8][..], &prev.to_ne_bytes(), next].concat()
}

fn tracing_data() -> Vec<u8> {
    let mut bytes = b"\x17\x08Dtracing0.6\0".to_vec();
    bytes.extend([0; 6]);
    for name in ["header_page\0", "header_event\0"] {
        bytes.extend([name.as_bytes(), &words(&[0])].concat());
    }
    bytes.extend(halves(&[0, 1]));
    bytes.extend(b"sched\0");
    bytes.extend(halves(&[1]));
    bytes.extend(words(&[FORMAT.len() as u64]));
    bytes.extend(FORMAT.as_bytes());
    bytes
}

/// A file with two events, the clock and a tracepoint, and these records.
fn file(records: &[Vec<u8>]) -> Vec<u8> {
    const ATTR: usize = 128 + 16;
    let (attrs, ids) = (104, 104 + 2 * ATTR);
    let data = ids + 16;
    let records = records.concat();
    let table = data + records.len();
    let features = [tracing_data(), [halves(&[8]), b"6.1.0\0\0\0".to_vec()].concat()];
    let mut head = [b"PERFILE2".to_vec(), words(&[104, ATTR as u64])].concat();
    head.extend(words(&[attrs as u64, 2 * ATTR as u64, data as u64, records.len() as u64]));
    // Tracing data, and the release of the kernel.
    head.extend(words(&[0, 0, 1 << 1 | 1 << 4, 0, 0, 0]));
    for (kind, config, at) in [(1u32, 0u64, ids), (2, 316, ids + 8)] {
        let mut attr = [halves(&[kind, 128]), words(&[config, 0, PARTS, 0, 1 << 18])].concat();
        attr.resize(128, 0);
        head.extend(attr);
        head.extend(words(&[at as u64, 8]));
    }
    head.extend(words(&[CLOCK, SWITCH]));
    head.extend(records);
    let mut at = table + 32;
    for feature in &features {
        head.extend(words(&[at as u64, feature.len() as u64]));
        at += feature.len();
    }
    head.extend(features.concat());
    head
}

const KERNEL: u64 = -128i64 as u64;
const USER: u64 = -512i64 as u64;

fn records() -> Vec<Vec<u8>> {
    let map = [
        halves(&[5, 5]),
        words(&[0x40_0000, 0x1000, 0, 0, 0, 0]),
        halves(&[4, 0]),
        text("/bin/app"),
        behind(5, 0, 0),
    ];
    let symbol =
        [halves(&[u32::MAX, 0]), words(&[1, 2, 0xffff_8000]), text("[kernel.kallsyms]_text")];
    vec![
        comm(0, 5, 0, "app"),
        record(10, 2, &map.concat()),
        record(1, 1, &[symbol.concat(), behind(0, 0, 0)].concat()),
        sample(CLOCK, (5, 2000, 1), &[KERNEL, 0xff10, 0xff20, USER, 0x40_0010], &[]),
        round(),
        // CPU 0 was read later than CPU 1, in the same round.
        sample(SWITCH, (5, 1000, 0), &[], &switch(5, b"next\0\0\0\0")),
        record(7, 0, &[halves(&[6, 5, 6, 5]), words(&[2100]), behind(5, 2100, 0)].concat()),
        comm(1 << 13, 6, 2200, "child"),
        round(),
        record(2, 0, &[words(&[CLOCK, 3]), behind(5, 2300, 1)].concat()),
        sample(CLOCK, (6, 2400, 1), &[USER, 0x40_0020], &[]),
        // The same losses again, and two others.
        record(13, 0, &[words(&[5]), behind(0, 0, 0)].concat()),
        round(),
    ]
}

#[test]
fn records_are_in_the_order_of_time_with_names_and_fields() {
    let folder = Folder::new();
    let imported = folder.convert(&file(&records())).unwrap();
    let kernel = Some(("_text".to_owned(), 0xffff_8000));
    assert_eq!((imported.samples, imported.discarded, imported.kernel_symbol), (3, 5, kernel));
    assert_eq!(imported.remarks, [""; 0]);
    assert_eq!(imported.kernel_release.as_deref(), Some("6.1.0"));
    let (lines, discarded) = folder.read();
    let wanted = [
        "1000 app:5 lttng_statedump_process_state app",
        "1000 app:5 lttng_statedump_vm_map /bin/app",
        "1000 app:5 sched_switch 5 next",
        "2000 app:5 cpu_clock 99",
        "2100 app:6 lttng_statedump_vm_fork ",
        "2100 app:6 lttng_statedump_process_state app",
        "2200 child:6 lttng_statedump_vm_exec child",
        "2400 child:6 cpu_clock 99",
    ];
    assert_eq!(lines, wanted);
    assert_eq!(discarded, 5);
}

#[test]
fn stacks_are_those_of_the_kernel_and_of_the_program() {
    let folder = Folder::new();
    folder.convert(&file(&records())).unwrap();
    let reader = Reader::open(&[folder.0.join("trace")]).unwrap();
    let mut events = reader.events(TimeRange::ALL);
    let mut stacks = Vec::new();
    while let Some(message) = events.next() {
        let Message::Event(event) = message else { continue };
        for name in ["callstack_kernel[1]", "callstack_user[0]"] {
            let field = event.class().find_in(Scope::CommonContext, name);
            stacks.extend(field.and_then(|field| event.integer(&field)));
        }
    }
    assert_eq!(stacks, [0xff20, 0x40_0010, 0x40_0020]);
    let schema = reader.traces()[0].schema();
    assert_eq!(schema.environment("kernel_release"), Some(&"6.1.0".into()));
}

/// The same as perf writes it to a pipe: what a file has in its head are records.
fn pipe() -> Vec<u8> {
    let attr = |kind: u32, config: u64, id: u64| {
        let mut attr = [halves(&[kind, 128]), words(&[config, 0, PARTS, 0, 1 << 18])].concat();
        attr.resize(128, 0);
        record(64, 0, &[attr, words(&[id])].concat())
    };
    let mut tracing = tracing_data();
    let begin = record(66, 0, &halves(&[tracing.len() as u32]));
    tracing.resize(tracing.len().next_multiple_of(8), 0);
    let release = [words(&[4]), halves(&[8]), b"6.1.0\0\0\0".to_vec()].concat();
    let head = [b"PERFILE2".to_vec(), words(&[16]), attr(1, 0, CLOCK), attr(2, 316, SWITCH)];
    [head.concat(), record(80, 0, &release), begin, tracing, records().concat()].concat()
}

#[test]
fn what_perf_wrote_to_a_pipe_is_the_same_as_a_file() {
    let folder = Folder::new();
    let of_file = folder.convert(&file(&records())).unwrap();
    let read = folder.read();
    assert_eq!(folder.convert(&pipe()).unwrap(), of_file);
    assert_eq!(folder.read(), read);
    let whole = pipe();
    for end in (0..whole.len()).step_by(7) {
        if folder.convert(&whole[..end]).is_ok() {
            folder.read();
        }
    }
}

#[test]
fn samples_that_are_damaged_count_as_discarded_and_the_others_are_there() {
    let folder = Folder::new();
    let mut all = records();
    // Too short for its fields, of no event, and cut off.
    all.push(sample(SWITCH, (5, 2500, 0), &[], &switch(5, b"next\0\0\0\0")[..19]));
    all.push(sample(33, (5, 2500, 0), &[], &[]));
    all.push(record(9, 0, &words(&[CLOCK, 1])));
    // At a time that is none; the name is one nevertheless.
    all.push(sample(CLOCK, (5, u64::MAX - 5, 0), &[], &[]));
    all.push(comm(0, 6, u64::MAX, "late"));
    all.push(sample(CLOCK, (6, 2600, 0), &[], &[]));
    let imported = folder.convert(&file(&all)).unwrap();
    assert_eq!(imported.samples, 4);
    assert!(imported.remarks[0].starts_with("4 samples are damaged"), "{:?}", imported.remarks);
    let (lines, discarded) = folder.read();
    assert_eq!((lines.len(), discarded), (10, 9));
}

#[test]
fn file_of_a_perf_that_was_killed_has_what_it_had_written() {
    let folder = Folder::new();
    let whole = file(&records());
    let records: usize = records().iter().map(Vec::len).sum();
    let begin = 104 + 2 * 144 + 16;
    let mut bytes = whole[..begin + records].to_vec();
    bytes[48..56].fill(0);
    let imported = folder.convert(&bytes).unwrap();
    assert_eq!(imported.samples, 3);
    assert!(imported.remarks[0].contains("was killed"), "{:?}", imported.remarks);
    // The formats of tracepoints would have followed.
    assert!(imported.remarks[1].contains("event_2_13c"), "{:?}", imported.remarks);
    assert_eq!(folder.read().0.len(), 8);
}

#[test]
fn file_that_is_cut_off_anywhere_is_read_up_to_there_or_refused() {
    let folder = Folder::new();
    let whole = file(&records());
    let records: usize = records().iter().map(Vec::len).sum();
    let begin = 104 + 2 * 144 + 16;
    for end in (0..whole.len()).step_by(7) {
        match folder.convert(&whole[..end]) {
            Ok(imported) => {
                assert!(end >= begin, "{end}");
                let is_remarked = imported.remarks.iter().any(|text| text.starts_with("damaged"));
                assert_eq!(is_remarked, end < begin + records, "{end}: {:?}", imported.remarks);
                folder.read();
            }
            Err(error) => {
                assert!(end < begin && error.to_string().contains("perf.data: "), "{error}")
            }
        }
    }
}

#[test]
fn files_of_other_kinds_are_refused_with_what_to_do() {
    let folder = Folder::new();
    let whole = file(&records());
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        folder.convert(&bytes).unwrap_err().to_string()
    };
    let text = refused(&|bytes| bytes[..8].reverse());
    assert!(text.contains("another byte order"), "{text}");
    let text = refused(&|bytes| bytes[8..16].copy_from_slice(&words(&[16])));
    assert!(text.contains("describes no event"), "{text}");
    let text = refused(&|bytes| bytes[8..16].copy_from_slice(&words(&[17])));
    assert!(text.contains("17 bytes"), "{text}");
    let text = refused(&|bytes| bytes[16..24].copy_from_slice(&words(&[u64::MAX])));
    assert!(text.contains("18446744073709551615 bytes"), "{text}");
    let text = refused(&|bytes| bytes[32..40].copy_from_slice(&words(&[u64::MAX])));
    assert!(text.contains("events, and 1 to 4096"), "{text}");
}

/// Compresses by the reference implementation.
fn zstd(bytes: &[u8], level: &str) -> Vec<u8> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let input = std::env::temp_dir().join(format!("strata-zstd-{}-{number}", std::process::id()));
    fs::write(&input, bytes).unwrap();
    let found = std::process::Command::new("zstd").args(["-q", "-c", level]).arg(&input).output();
    fs::remove_file(&input).unwrap();
    found.unwrap().stdout
}

#[test]
fn compressed_records_are_those_that_were_compressed() {
    let folder = Folder::new();
    let plain = records();
    let imported = folder.convert(&file(&plain)).unwrap();
    let (events, samples) = (folder.read(), imported.samples);
    let packed = zstd(&plain.concat(), "-1");
    for size in [1, 7, packed.len()] {
        // perf does not end the frame: the checksum is not there.
        for end in [packed.len(), packed.len() - 4] {
            let pieces = packed[..end].chunks(size);
            let first: Vec<_> = pieces.clone().map(|piece| record(81, 0, piece)).collect();
            let second = pieces.map(|piece| {
                let zeros = vec![0; piece.len().next_multiple_of(8) - piece.len()];
                record(83, 0, &[&words(&[piece.len() as u64]), piece, &zeros].concat())
            });
            for pieces in [first, second.collect()] {
                let imported = folder.convert(&file(&pieces)).unwrap();
                assert_eq!((imported.samples, imported.remarks), (samples, Vec::new()));
                assert_eq!(folder.read(), events);
            }
        }
    }
}

#[test]
fn damaged_compressed_records_are_said_and_what_is_before_them_is_shown() {
    let folder = Folder::new();
    let remark = |pieces: &[Vec<u8>]| {
        let imported = folder.convert(&file(pieces)).unwrap();
        folder.read();
        (imported.samples, imported.remarks.concat())
    };
    let plain = records();
    let packed = zstd(&plain.concat(), "-1");
    let all = [plain.clone(), vec![record(81, 0, b"no frame of zstd")]].concat();
    let (samples, text) = remark(&all);
    assert!(samples == 3 && text.contains("it has no frame of zstd"), "{text}");
    let (_, text) = remark(&[record(83, 0, &words(&[9]))]);
    assert!(text.contains("a compressed record is too short"), "{text}");
    let nested = zstd(&record(81, 0, &packed), "-1");
    let (_, text) = remark(&[record(81, 0, &nested)]);
    assert!(text.contains("compressed again"), "{text}");
    let (_, text) = remark(&[record(81, 0, &zstd(&[9, 0, 0, 0, 0, 0, 7, 0], "-1"))]);
    assert!(text.contains("has 7 bytes, and at least 8"), "{text}");
    let cut = &plain.concat()[..plain.concat().len() - 3];
    let (samples, text) = remark(&[record(81, 0, &zstd(cut, "-1"))]);
    assert!(samples > 0 && text.contains("end within one"), "{text}");
    // Some kilobytes that become gigabytes of empty records.
    let empty = record(12, 0, &[]).repeat(3 << 20);
    let (_, text) = remark(&[record(81, 0, &zstd(&empty, "-19"))]);
    assert!(text.contains("more than 1024 times as many bytes"), "{text}");
    for at in 0..packed.len() {
        let mut other = packed.clone();
        other[at] ^= 0x55;
        remark(&[record(81, 0, &other)]);
    }
}

#[test]
fn bytes_behind_a_record_are_passed_over_without_reading_them() {
    let folder = Folder::new();
    let aux = |bytes: u64| record(71, 0, &[words(&[bytes]), vec![0; 32]].concat());
    let mut all = records();
    all.insert(4, [aux(16), vec![0xff; 16]].concat());
    let imported = folder.convert(&file(&all)).unwrap();
    assert_eq!((imported.samples, imported.remarks), (3, Vec::new()));
    // More than the file has, of any size.
    for bytes in [1 << 20, 1 << 62, u64::MAX] {
        let mut all = records();
        all.push(aux(bytes));
        let imported = folder.convert(&file(&all)).unwrap();
        let remark = imported.remarks.first().map_or("", String::as_str);
        assert!(imported.samples == 3 && remark.contains("behind a record of kind 71"), "{remark}");
    }
    // A hole of 1 TiB takes no time.
    let hole = 1u64 << 40;
    let mut all = records();
    all.push(aux(hole));
    let mut bytes = file(&all);
    let data = u64::from_ne_bytes(*bytes[48..].first_chunk().unwrap());
    bytes[48..56].copy_from_slice(&words(&[data + hole]));
    bytes.truncate((104 + 2 * 144 + 16 + data) as usize);
    let (path, trace) = (folder.0.join("sparse"), folder.0.join("of-sparse"));
    fs::write(&path, &bytes).unwrap();
    let sparse = File::options().write(true).open(&path).unwrap();
    if sparse.set_len(bytes.len() as u64 + hole).is_ok() {
        fs::create_dir(&trace).unwrap();
        let imported = convert(&path, &trace, Uuid([7; 16]), &|| false).unwrap();
        assert_eq!((imported.samples, imported.remarks.len()), (3, 1), "{:?}", imported.remarks);
    }
}

#[test]
fn conversion_that_is_stopped_ends() {
    let folder = Folder::new();
    folder.convert(&file(&records())).unwrap();
    let (path, trace) = (folder.0.join("perf.data"), folder.0.join("stopped"));
    fs::create_dir(&trace).unwrap();
    let stopped = convert(&path, &trace, Uuid([7; 16]), &|| true);
    assert!(matches!(stopped, Err(ImportError::Stopped)), "{stopped:?}");
}

#[test]
fn numbers_of_a_file_take_no_memory_that_it_does_not_have() {
    let folder = Folder::new();
    let whole = file(&records());
    // Each word of the head and of the events' descriptions, as large as can be.
    for at in (16..104 + 2 * 144).step_by(8) {
        for value in [u64::MAX, 1 << 20] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&words(&[value]));
            if folder.convert(&bytes).is_ok() {
                folder.read();
            }
        }
    }
}
