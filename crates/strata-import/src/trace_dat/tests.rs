//! Files of trace-cmd that are made here, byte by byte, read as traces.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use strata_ctf::read::{Message, Reader, Scope, TimeRange, Value};

use super::*;

const PAGE: usize = 256;
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:240;\tsigned:1;\n";
const FORMAT: &str = "name: sched_switch\nID: 316\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:int prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n";

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("strata-trace-dat-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn convert(&self, bytes: &[u8]) -> Result<Imported, ImportError> {
        let (file, trace) = (self.0.join("trace.dat"), self.0.join("trace"));
        fs::write(&file, bytes).unwrap();
        let _ = fs::remove_dir_all(&trace);
        fs::create_dir(&trace).unwrap();
        convert(&file, &trace, Uuid([7; 16]), &|| false)
    }

    /// Returns time, CPU, thread, its name and the field of each event, and the number of discarded ones.
    fn read(&self) -> (Vec<String>, u64) {
        let reader = Reader::open(&[self.0.join("trace")]).unwrap();
        let (mut lines, mut discarded) = (Vec::new(), 0);
        let mut events = reader.events(TimeRange::ALL);
        while let Some(message) = events.next() {
            match message {
                Message::Event(event) => {
                    let of = |scope, name: &str| {
                        let field = event.class().find_in(scope, name);
                        // A damaged description may have another name.
                        let Some(field) = field else { return String::new() };
                        match event.value(&field).unwrap() {
                            Value::Signed(value) => value.to_string(),
                            Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
                            other => format!("{other:?}"),
                        }
                    };
                    let common = |name| of(Scope::CommonContext, name);
                    lines.push(format!(
                        "{} {} {} {}",
                        event.time().unwrap(),
                        common("procname"),
                        common("tid"),
                        of(Scope::Payload, "prev_pid")
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

/// Returns an event of a tracepoint with this number.
fn event(number: u16, delta: u32, tid: i32, value: i32) -> Vec<u8> {
    let words = 3;
    let head = if cfg!(target_endian = "big") { words << 27 | delta } else { words | delta << 5 };
    let parts = [&head.to_ne_bytes()[..], &number.to_ne_bytes(), &[0; 2], &tid.to_ne_bytes()];
    [&parts.concat()[..], &value.to_ne_bytes()].concat()
}

fn page(time: u64, flags: u64, events: &[Vec<u8>]) -> Vec<u8> {
    let content = events.concat();
    let commit = content.len() as u64 | flags;
    let mut page = [&time.to_ne_bytes()[..], &commit.to_ne_bytes(), &content].concat();
    page.resize(PAGE, 0);
    page
}

fn sized(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_ne_bytes()[..], text.as_bytes()].concat()
}

fn start(version: &str) -> Vec<u8> {
    let order = u8::from(cfg!(target_endian = "big"));
    let page = (PAGE as u32).to_ne_bytes();
    [b"\x17\x08Dtracing", version.as_bytes(), &[0, order, 8], &page].concat()
}

fn headers() -> Vec<u8> {
    [b"header_page\0".to_vec(), sized(HEADER_PAGE), b"header_event\0".to_vec(), sized("x")].concat()
}

fn formats() -> Vec<u8> {
    let one = 1u32.to_ne_bytes();
    [&one[..], b"sched\0", &one, &sized(FORMAT)].concat()
}

const NAMES: &str = "5 five\n6 a name of more than 16 bytes\n";
const KALLSYMS: &str = "ffffffff81000000 T _stext\n";
const STATS: &str = "CPU: 1\nentries: 0\noverrun: 9\ndropped events: 1\n";

/// Returns pages of two CPUs.
fn cpus() -> [Vec<u8>; 2] {
    let missing = 1 << 31 | 1 << 30;
    let mut second = page(2000, missing, &[event(316, 3, 6, 8)]);
    // The number of events that are missing, behind the content.
    second[16 + 16..16 + 24].copy_from_slice(&4u64.to_ne_bytes());
    [
        [
            page(1000, 0, &[event(316, 5, 5, 7), event(9, 1, 5, 0)]),
            page(1500, 0, &[event(316, 0, 0, 9)]),
        ]
        .concat(),
        second,
    ]
}

/// Makes a file of version 6.
fn version_6() -> Vec<u8> {
    let mut file = [start("6"), headers(), 0u32.to_ne_bytes().to_vec(), formats()].concat();
    file.extend((KALLSYMS.len() as u32).to_ne_bytes());
    file.extend([KALLSYMS.as_bytes(), &0u32.to_ne_bytes(), &sized(NAMES)].concat());
    file.extend([&2u32.to_ne_bytes()[..], b"options  \0"].concat());
    for (id, text) in [(2u16, STATS), (5, "Linux box 6.1.0 x86_64"), (1, "0x10")] {
        let text = format!("{text}\0");
        file.extend(
            [&id.to_ne_bytes()[..], &(text.len() as u32).to_ne_bytes(), text.as_bytes()].concat(),
        );
    }
    file.extend([&[0; 2][..], b"flyrecord\0"].concat());
    let mut at = (file.len() + 32).next_multiple_of(PAGE) as u64;
    let begin = at as usize;
    for pages in cpus() {
        file.extend([at.to_ne_bytes(), (pages.len() as u64).to_ne_bytes()].concat());
        at += pages.len() as u64;
    }
    file.resize(begin, 0);
    [file, cpus().concat()].concat()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("strata-trace-dat-zstd-{}-{number}", std::process::id());
    let input = std::env::temp_dir().join(name);
    fs::write(&input, bytes).unwrap();
    let found = Command::new("zstd").args(["-q", "-c", "-3"]).arg(&input).output().unwrap();
    fs::remove_file(&input).unwrap();
    found.stdout
}

/// Makes a file of version 7.
fn version_7(is_compressed: bool) -> Vec<u8> {
    let name: &[u8] = if is_compressed { b"zstd\x001.5\0" } else { b"none\0\0" };
    let mut file = [&start("7")[..], name].concat();
    let first = file.len();
    file.extend([0; 8]);
    let flags = u16::from(is_compressed);
    let section = |file: &mut Vec<u8>, id: u16, flags: u16, content: &[u8]| {
        let at = file.len() as u64;
        let content = match flags {
            1 => {
                let packed = zstd(content);
                let sizes = [packed.len() as u32, content.len() as u32].map(u32::to_ne_bytes);
                [&sizes.concat()[..], &packed].concat()
            }
            _ => content.to_vec(),
        };
        let head = [id.to_ne_bytes(), flags.to_ne_bytes()].concat();
        file.extend([&head[..], &[0; 4], &(content.len() as u64).to_ne_bytes(), &content].concat());
        at
    };
    let kallsyms = [&(KALLSYMS.len() as u32).to_ne_bytes()[..], KALLSYMS.as_bytes()].concat();
    let places = [
        (16u16, section(&mut file, 16, flags, &headers())),
        (18, section(&mut file, 18, flags, &formats())),
        (19, section(&mut file, 19, flags, &kallsyms)),
        (21, section(&mut file, 21, flags, &sized(NAMES))),
    ];
    let buffer = section(&mut file, 3, 0, &[]);
    file[buffer as usize + 2..buffer as usize + 4].copy_from_slice(&flags.to_ne_bytes());
    let mut data =
        [&buffer.to_ne_bytes()[..], b"\0mono\0", &(PAGE as u32).to_ne_bytes(), &2u32.to_ne_bytes()]
            .concat();
    for (cpu, pages) in (0u32..).zip(cpus()) {
        let at = file.len() as u64;
        let mut bytes = pages.len() as u64;
        match is_compressed {
            true => {
                // A chunk for each page.
                let chunks: Vec<_> = pages.chunks(PAGE).map(zstd).collect();
                file.extend((chunks.len() as u32).to_ne_bytes());
                for chunk in &chunks {
                    let sizes = [chunk.len() as u32, PAGE as u32].map(u32::to_ne_bytes).concat();
                    file.extend([&sizes[..], chunk].concat());
                }
                bytes = chunks.iter().map(|chunk| chunk.len() as u64 + 8).sum();
            }
            false => file.extend(pages),
        }
        data.extend([&cpu.to_ne_bytes()[..], &at.to_ne_bytes(), &bytes.to_ne_bytes()].concat());
    }
    let option = |id: u16, data: &[u8]| {
        [&id.to_ne_bytes()[..], &(data.len() as u32).to_ne_bytes(), data].concat()
    };
    // The second section of options has the buffer.
    let last = [option(3, &data), option(0, &0u64.to_ne_bytes())].concat();
    let last = section(&mut file, 0, 0, &last);
    let mut options: Vec<u8> =
        places.iter().flat_map(|(id, at)| option(*id, &at.to_ne_bytes())).collect();
    options.extend(
        [option(2, format!("{STATS}\0").as_bytes()), option(0, &last.to_ne_bytes())].concat(),
    );
    let options = section(&mut file, 0, 0, &options);
    file[first..first + 8].copy_from_slice(&options.to_ne_bytes());
    file
}

#[test]
fn files_of_both_versions_become_traces() {
    let folder = Folder::new();
    for (file, base) in [(version_6(), 16_000), (version_7(false), 0), (version_7(true), 0)] {
        let imported = folder.convert(&file).unwrap();
        // Of 10 events that the kernel has overwritten or discarded, the pages say 4.
        assert_eq!((imported.samples, imported.discarded), (3, 10));
        let [remark] = &imported.remarks[..] else { panic!("{:?}", imported.remarks) };
        assert!(remark.starts_with("1 events are not of tracepoints"), "{remark}");
        let (lines, discarded) = folder.read();
        let wanted = [
            format!("{} five 5 7", base + 1005),
            format!("{} swapper 0 9", base + 1500),
            format!("{} a name of more  6 8", base + 2003),
        ];
        assert_eq!((lines, discarded), (wanted.to_vec(), 10));
        assert!(folder.0.join("trace").join(kernel_symbols::FILE).exists());
    }
}

#[test]
fn what_is_not_read_is_refused_with_what_to_do() {
    let folder = Folder::new();
    let refused = |bytes: &[u8]| folder.convert(bytes).unwrap_err().to_string();
    let text = refused(&start("8"));
    assert!(text.contains("version '8'"), "{text}");
    let mut other = start("6");
    other[12] ^= 1;
    assert!(refused(&other).contains("another byte order"));
    let mut pages = start("6");
    pages[14..18].copy_from_slice(&7u32.to_ne_bytes());
    assert!(refused(&pages).contains("pages have 7 bytes"));
    let text = refused(&[&start("7")[..], b"lzma\x001\0", &[0; 8]].concat());
    assert!(text.contains("compressed by 'lzma'"), "{text}");
    let whole = version_6();
    let at = whole.windows(10).position(|part| part == b"flyrecord\0").unwrap();
    let latency = [&whole[..at], b"latency  \0"].concat();
    assert!(refused(&latency).contains("latency tracer"));
}

#[test]
fn file_that_is_cut_off_or_damaged_is_read_as_far_as_it_goes_or_refused() {
    let folder = Folder::new();
    for whole in [version_6(), version_7(false), version_7(true)] {
        for end in (0..whole.len()).step_by(11).chain(whole.len() - 300..whole.len()) {
            if folder.convert(&whole[..end]).is_ok() {
                folder.read();
            }
        }
        for at in (0..whole.len()).step_by(5) {
            let mut other = whole.clone();
            other[at] ^= 0x41;
            if folder.convert(&other).is_ok() {
                folder.read();
            }
        }
    }
    // Of pages that are cut off, those of the other CPU are there.
    let whole = version_6();
    let imported = folder.convert(&whole[..whole.len() - 1]).unwrap();
    assert_eq!(imported.samples, 2);
    assert!(imported.remarks[0].starts_with("damaged: CPU 1: "), "{:?}", imported.remarks);
}
