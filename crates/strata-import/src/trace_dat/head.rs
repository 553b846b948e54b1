//! The head of a trace.dat file, in its versions 6 and 7: descriptions of events, names of threads, and the places of the buffers.
//!
//! ```text
//! both    0x17 0x08 'D' "tracing", version, byte order, size of a long, size of a page
//! 6       descriptions of the ring buffer, of ftrace's events and of tracepoints; functions of the kernel; names of threads;
//!         number of CPUs; options; "flyrecord", and for each CPU offset and size of its pages
//! 7       name and version of the compression; offset of the first section of options, which lead to all else:
//!         section  id, flags (1: compressed), description, size, and the same descriptions as in version 6
//! ```
//!
//! Compressed sections begin with their compressed and whole sizes. Sources: trace-cmd.dat.v6(5), trace-cmd.dat.v7(5).

use std::collections::HashMap;
use std::fs::File;

use crate::bytes::{read_at, until_nul, Bytes};
use crate::error::Problem;
use crate::formats::{self, TracepointFormat};

/// The first bytes of a file.
pub(crate) const MAGIC: &[u8; 10] = b"\x17\x08Dtracing";

/// The largest part of the head that is read, and the largest that it is decompressed to \[byte\].
const PART_BYTES_MAX: u64 = 64 << 20;
/// The most sections of options, CPUs of all buffers, and threads with a name.
const SECTIONS_MAX: usize = 1024;
const CPUS_MAX: usize = 1 << 16;
const NAMES_MAX: usize = 1 << 20;
/// The possible sizes of a page of the ring buffer \[byte\].
const PAGE_BYTES: std::ops::RangeInclusive<u32> = 64..=1 << 20;

/// Options, with the same numbers in both versions.
mod option {
    pub const DATE: u16 = 1;
    pub const CPUSTAT: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const TRACECLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const OFFSET: u16 = 7;
    pub const TSC2NSEC: u16 = 14;
    pub const HEADERS: u16 = 16;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const CMDLINES: u16 = 21;
}

/// The pages of a CPU in one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuPages {
    pub cpu: u32,
    /// Offset and size in the file \[byte\].
    pub place: (u64, u64),
    pub page_bytes: u32,
    pub is_compressed: bool,
}

/// Conversion of the processor's counter to nanoseconds: `cycles * multiplier >> shift`. The file also has an offset, which
/// trace-cmd does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CyclesToNs {
    pub multiplier: u32,
    pub shift: u32,
}

/// The head of a file.
#[derive(Debug, Default)]
pub(crate) struct TraceDat {
    pub formats: Vec<TracepointFormat>,
    pub pages: Vec<CpuPages>,
    /// Names of threads, by their ids.
    pub names: HashMap<i32, Vec<u8>>,
    /// The system's name, host, release and machine, as `uname` shows them.
    pub uname: Vec<String>,
    /// Name of the clock, such as `local`.
    pub clock: String,
    pub cycles: Option<CyclesToNs>,
    /// Time from 1970 to 0 of the clock \[ns\], if the file has it, and what is to be added to all times \[ns\].
    pub date_ns: Option<i64>,
    pub offset_ns: i64,
    /// For each CPU, the number of events that the kernel has overwritten or discarded.
    pub overruns: HashMap<u32, u64>,
    /// The text of /proc/kallsyms.
    pub kallsyms: Vec<u8>,
    /// Offset of the events in a page of the ring buffer: behind the time and the size of the content \[byte\].
    pub page_head: usize,
    page_bytes: u32,
    compression: Option<String>,
}

/// Decompresses `packed` to `bytes` bytes.
pub(super) fn decompress(packed: &[u8], bytes: usize) -> Result<Vec<u8>, Problem> {
    let mut out = vec![0; bytes];
    let found = strata_zstd::unpack(packed, &mut out, &mut |_| true);
    let found =
        found.map_err(|why| Problem::Bad(format!("a part of it cannot be decompressed: {why}")))?;
    out.truncate(found);
    Ok(out)
}

const CUT: &str = "it is cut off within its head";

impl TraceDat {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or of a kind that is not read.
    pub fn read(file: &mut File) -> Result<TraceDat, Problem> {
        let whole = file.metadata()?.len();
        let begin = read_at(file, 0, whole.min(1 << 10))?;
        let mut from = Bytes(&begin);
        let head = (|| {
            (from.array::<10>()? == *MAGIC).then_some(())?;
            let version = from.line()?.to_vec();
            let [order, _] = from.array::<2>()?;
            Some((version, order, from.u32()?))
        })();
        let (version, order, page_bytes) = head.ok_or(CUT)?;
        let is_own_order = (order == 1) == cfg!(target_endian = "big");
        if !is_own_order {
            return Err("it was written on a machine of another byte order. Read it there".into());
        }
        let mut all =
            TraceDat { page_bytes: usable(page_bytes)?, page_head: 16, ..TraceDat::default() };
        match &*version {
            b"6" => {
                let at = (begin.len() - from.0.len()) as u64;
                let head = read_at(file, at, (whole - at).min(PART_BYTES_MAX))?;
                all.version_6(&head).ok_or(CUT)??;
            }
            b"7" => {
                let compression = (|| {
                    let name = String::from_utf8_lossy(from.line()?).into_owned();
                    from.line()?;
                    Some((name, from.u64()?))
                })();
                let (name, options) = compression.ok_or(CUT)?;
                match &*name {
                    "none" => {}
                    "zstd" => all.compression = Some(name),
                    _ => {
                        return Err(Problem::Bad(format!(
                            "it is compressed by '{name}', and zstd alone is read. \
                             `trace-cmd convert --compression none -i FILE -o OTHER` makes one that is not"
                        )))
                    }
                }
                all.version_7(file, options)?;
            }
            other => {
                let found = String::from_utf8_lossy(other).into_owned();
                return Err(Problem::Bad(format!(
                    "it is of version '{found}' of trace-cmd's format, and 6 and 7 are read"
                )));
            }
        }
        Ok(all)
    }

    /// Reads all behind the size of a page. Returns `None` if the head is cut off.
    fn version_6(&mut self, head: &[u8]) -> Option<Result<(), Problem>> {
        let mut from = Bytes(head);
        self.ring_buffer(&mut from)?;
        for _ in 0..from.u32()? {
            sized(&mut from)?;
        }
        self.formats = formats::all(&mut from)?;
        let bytes = from.u32()?;
        self.kallsyms = from.take(usize::try_from(bytes).ok()?)?.to_vec();
        // Formats of trace_printk().
        let bytes = from.u32()?;
        from.take(usize::try_from(bytes).ok()?)?;
        let names = sized(&mut from)?;
        self.take_names(names);
        let cpus = from.u32()?;
        if cpus as usize > CPUS_MAX {
            return Some(Err(too_many(cpus)));
        }
        let mut part = from.take(10)?;
        if part == b"options  \0" {
            loop {
                let id = u16::from_ne_bytes(from.array()?);
                if id == 0 {
                    break;
                }
                let bytes = from.u32()?;
                let data = from.take(usize::try_from(bytes).ok()?)?;
                self.option(id, data);
            }
            part = from.take(10)?;
        }
        if part != b"flyrecord\0" {
            let why = "it has the text of a latency tracer and no events: it is text already";
            return Some(Err(why.into()));
        }
        for cpu in 0..cpus {
            let place = (from.u64()?, from.u64()?);
            self.pages.push(CpuPages {
                cpu,
                place,
                page_bytes: self.page_bytes,
                is_compressed: false,
            });
        }
        Some(Ok(()))
    }

    /// Reads the sections of options, and those to which they lead.
    fn version_7(&mut self, file: &mut File, options: u64) -> Result<(), Problem> {
        let mut next = options;
        for _ in 0..SECTIONS_MAX {
            if next == 0 {
                return Ok(());
            }
            let section = self.section(file, next)?;
            next = 0;
            let mut from = Bytes(&section);
            while let Some(id) = from.array().map(u16::from_ne_bytes) {
                let data = from.u32().and_then(|bytes| from.take(bytes as usize)).ok_or(CUT)?;
                let place = Bytes(data).u64().unwrap_or(0);
                match id {
                    0 => {
                        next = place;
                        break;
                    }
                    option::HEADERS => {
                        let found = self.section(file, place)?;
                        self.ring_buffer(&mut Bytes(&found)).ok_or(CUT)?;
                    }
                    option::EVENT_FORMATS => {
                        let found = self.section(file, place)?;
                        self.formats = formats::all(&mut Bytes(&found)).ok_or(CUT)?;
                    }
                    option::KALLSYMS => {
                        let found = self.section(file, place)?;
                        self.kallsyms = found.get(4..).unwrap_or_default().to_vec();
                    }
                    option::CMDLINES => {
                        let found = self.section(file, place)?;
                        self.take_names(found.get(8..).unwrap_or_default());
                    }
                    option::BUFFER => self.buffer(file, data)?,
                    _ => self.option(id, data),
                }
            }
        }
        match next {
            0 => Ok(()),
            _ => Err("its sections of options do not end".into()),
        }
    }

    /// Reads the content of a section.
    fn section(&self, file: &mut File, at: u64) -> Result<Vec<u8>, Problem> {
        let (flags, bytes) = section_head(file, at)?;
        if bytes > PART_BYTES_MAX {
            return Err(Problem::Bad(format!(
                "a section of it has {bytes} bytes, and {PART_BYTES_MAX} are read at most"
            )));
        }
        let data = read_at(file, at + SECTION_HEAD, bytes)?;
        if flags & COMPRESSED == 0 || self.compression.is_none() {
            return Ok(data);
        }
        let mut from = Bytes(&data);
        let sizes = from.u32().zip(from.u32());
        let (packed, whole) = sizes.ok_or(CUT)?;
        let packed = from.take(packed as usize).ok_or(CUT)?;
        if u64::from(whole) > PART_BYTES_MAX {
            return Err(Problem::Bad(format!(
                "a section of it has {whole} bytes, and {PART_BYTES_MAX} are read at most"
            )));
        }
        decompress(packed, whole as usize)
    }

    /// Takes the description of a buffer of version 7: its clock, and the places of its CPUs' pages.
    fn buffer(&mut self, file: &mut File, data: &[u8]) -> Result<(), Problem> {
        let mut from = Bytes(data);
        let head = (|| {
            let at = from.u64()?;
            from.line()?;
            let clock = String::from_utf8_lossy(from.line()?).into_owned();
            Some((at, clock, from.u32()?, from.u32()?))
        })();
        let (at, clock, page_bytes, cpus) = head.ok_or(CUT)?;
        let page_bytes = usable(page_bytes)?;
        if self.pages.len() + cpus as usize > CPUS_MAX {
            return Err(too_many(cpus));
        }
        let (flags, _) = section_head(file, at)?;
        let is_compressed = flags & COMPRESSED != 0 && self.compression.is_some();
        if self.clock.is_empty() {
            self.clock = clock;
        }
        for _ in 0..cpus {
            let place = (|| Some((from.u32()?, (from.u64()?, from.u64()?))))();
            let (cpu, place) = place.ok_or(CUT)?;
            self.pages.push(CpuPages { cpu, place, page_bytes, is_compressed });
        }
        Ok(())
    }

    /// Takes an option that both versions have. What is damaged says nothing.
    fn option(&mut self, id: u16, data: &[u8]) {
        let text = String::from_utf8_lossy(until_nul(data)).into_owned();
        match id {
            option::DATE => self.date_ns = number(&text).and_then(|us| us.checked_mul(1000)),
            option::OFFSET => self.offset_ns = number(&text).unwrap_or(0),
            option::CPUSTAT => {
                let of = |name: &str| {
                    let found = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
                    found.trim().parse::<u64>().ok()
                };
                let cpu = of("CPU:").and_then(|cpu| u32::try_from(cpu).ok());
                if let Some(cpu) = cpu.filter(|_| self.overruns.len() < CPUS_MAX) {
                    // word-ok: the text is the kernel's.
                    let all = ["overrun:", "dropped events:"].map(|name| of(name).unwrap_or(0));
                    let sum = self.overruns.entry(cpu).or_default();
                    *sum = all.iter().fold(*sum, |sum, one| sum.saturating_add(*one));
                }
            }
            option::TRACECLOCK if self.clock.is_empty() => {
                let chosen = text.split('[').nth(1).and_then(|rest| rest.split(']').next());
                self.clock = chosen.unwrap_or_default().to_owned();
            }
            option::UNAME => self.uname = text.split_whitespace().map(str::to_owned).collect(),
            option::TSC2NSEC => {
                let mut from = Bytes(data);
                self.cycles = (|| {
                    let (multiplier, shift) = (from.u32()?, from.u32()?);
                    (shift < 64).then_some(CyclesToNs { multiplier, shift })
                })();
            }
            _ => {}
        }
    }

    /// Takes the text of `saved_cmdlines`: a thread's id and name in each line.
    fn take_names(&mut self, text: &[u8]) {
        for line in text.split(|byte| *byte == b'\n').take(NAMES_MAX) {
            let Some(blank) = line.iter().position(|byte| *byte == b' ') else { continue };
            let (id, name) = line.split_at(blank);
            let id = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
            if let Some(id) = id {
                self.names.insert(id, name.get(1..).unwrap_or_default().to_vec());
            }
        }
    }

    /// Reads the descriptions of a page and of an event in the ring buffer. Returns `None` if they are cut off.
    fn ring_buffer(&mut self, from: &mut Bytes<'_>) -> Option<()> {
        from.line()?;
        let page = String::from_utf8_lossy(sized(from)?).into_owned();
        from.line()?;
        sized(from)?;
        // The size of the content is a word of the kernel: 4 bytes, or 8.
        let offset = page.lines().find_map(|line| {
            let (_, behind) =
                line.trim().strip_prefix("field: char data;")?.split_once("offset:")?;
            behind.split(';').next()?.trim().parse::<usize>().ok()
        });
        self.page_head = offset.filter(|offset| matches!(offset, 12 | 16)).unwrap_or(16);
        Some(())
    }
}

/// Flags of a section: it is compressed.
const COMPRESSED: u16 = 1;
/// Size of the head of a section \[byte\].
pub(super) const SECTION_HEAD: u64 = 16;

/// Reads the head of a section. Returns its flags, and the size of what follows \[byte\].
fn section_head(file: &mut File, at: u64) -> Result<(u16, u64), Problem> {
    let head = read_at(file, at, SECTION_HEAD)?;
    let mut from = Bytes(&head);
    let found = (|| {
        from.take(2)?;
        let flags = u16::from_ne_bytes(from.array()?);
        from.take(4)?;
        Some((flags, from.u64()?))
    })();
    found.ok_or_else(|| CUT.into())
}

fn sized<'b>(from: &mut Bytes<'b>) -> Option<&'b [u8]> {
    let bytes = usize::try_from(from.u64()?).ok()?;
    from.take(bytes)
}

/// Returns the size of a page if it is possible.
fn usable(bytes: u32) -> Result<u32, Problem> {
    let range = &PAGE_BYTES;
    range.contains(&bytes).then_some(bytes).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        Problem::Bad(format!("its pages have {bytes} bytes, and {least} to {most} are possible"))
    })
}

fn too_many(cpus: u32) -> Problem {
    Problem::Bad(format!("it has {cpus} CPUs, and {CPUS_MAX} are read at most"))
}

/// Parses a number in decimal, or with `0x` in front in hexadecimal digits.
fn number(text: &str) -> Option<i64> {
    let (text, is_negative) = match text.trim().strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (text.trim(), false),
    };
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    Some(if is_negative { -value } else { value })
}
