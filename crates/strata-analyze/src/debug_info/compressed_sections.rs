//! Sections with debug information, which compilers and linkers may have compressed: by zlib or Zstandard with a header
//! as the ELF standard has it, or by zlib in a section `.zdebug_*`, as linkers wrote before.

use miniz_oxide::inflate::core::{decompress, inflate_flags, DecompressorOxide};
use miniz_oxide::inflate::TINFLStatus;

use super::elf::{ElfFile, Section};
use super::lookup_limits::{size, Budget, Charge, BYTES_MAX};

/// The greatest ratio of a section's uncompressed to its compressed size. Debug information has 2 to 8. Small
/// sections may have any ratio.
const RATIO_MAX: u64 = 64;
const SMALL: u64 = 1 << 20;
/// The steps of the time budget that each compressed byte costs.
const STEPS: u64 = 4;
/// The steps of the time budget that each block of zlib costs, since the decoder fills tables for it.
const BLOCK_STEPS: u64 = 256;
/// The most blocks that a section of zlib may have, in addition to one for each few compressed bytes. Compressors
/// make blocks of thousands of bytes, and an empty one takes ten bits.
const BLOCKS: u64 = 64;
const BLOCK_BYTES: u64 = 16;
/// The kinds of compression, as numbered in ELF.
const ZLIB: u64 = 1;
const ZSTD: u64 = 2;

/// The contents of the header of a compressed section.
struct Compressed {
    kind: u64,
    /// The size of the header.
    head: u64,
    bytes: u64,
}

/// Returns the section with this name, such as `.debug_info`, or under the older name for a compressed one, such as
/// `.zdebug_info`.
fn find<'l>(file: &'l ElfFile, name: &str) -> Option<&'l Section> {
    let older = || file.section(&format!(".z{}", name.strip_prefix('.')?));
    file.section(name).or_else(older)
}

/// Returns true if the file has a section with this name, compressed or not.
pub(super) fn has(file: &ElfFile, name: &str) -> bool {
    find(file, name).is_some()
}

/// Reads a section of debug information, and decompresses it. The result is empty if the file does not have the
/// section. Its memory is added to `charge`.
///
/// # Errors
/// Why it cannot be read, for a person.
pub(super) fn read(file: &ElfFile, name: &str, charge: &mut Charge) -> Result<Vec<u8>, String> {
    let Some(section) = find(file, name) else { return Ok(Vec::new()) };
    if file.check(section.offset, section.bytes).is_err() {
        return Ok(Vec::new());
    }
    let Some(compressed) = compressed(file, section)? else {
        take(charge, section.bytes)?;
        return Ok(file.read(section.offset, section.bytes, BYTES_MAX).unwrap_or_default());
    };
    let found = of(section);
    let packed = section.bytes.saturating_sub(compressed.head);
    if compressed.bytes > SMALL && compressed.bytes / RATIO_MAX > packed {
        return Err(format!(
            "its section {found} says that its {} are {} when they are decompressed, and at most {RATIO_MAX} times as many are read",
            size(packed),
            size(compressed.bytes)
        ));
    }
    take(charge, compressed.bytes)?;
    let mut while_reading = Charge::new(charge.budget());
    take(&mut while_reading, packed)?;
    let offset = section.offset.saturating_add(compressed.head);
    let content = file.read(offset, packed, BYTES_MAX);
    let content =
        content.map_err(|error| format!("its section {found} cannot be read: {error}"))?;
    // Memory that is not written to is not taken.
    let bytes = usize::try_from(compressed.bytes).map_err(|error| error.to_string())?;
    let mut out = vec![0; bytes];
    unpack(compressed.kind, &content, &mut out, charge.budget())
        .map_err(|why| format!("its section {found} cannot be decompressed: {why}"))?;
    Ok(out)
}

fn of(section: &Section) -> String {
    String::from_utf8_lossy(&section.name).into_owned()
}

fn take(charge: &mut Charge, bytes: u64) -> Result<(), String> {
    charge.add(bytes).then_some(()).ok_or_else(|| {
        format!(
            "its debug information has {} or more, and {} may be taken for that of all files and processes",
            size(charge.bytes().saturating_add(bytes)),
            size(BYTES_MAX)
        )
    })
}

/// Reads the header of a compressed section; `None` if the section is not compressed.
fn compressed(file: &ElfFile, section: &Section) -> Result<Option<Compressed>, String> {
    let is_older = section.name.starts_with(b".z");
    if !section.is_compressed && !is_older {
        return Ok(None);
    }
    let mut head = [0; 24];
    let head_bytes = if is_older { 12 } else { file.compression_header_bytes() };
    let head = &mut head[..head_bytes as usize];
    let is_read = section.bytes >= head_bytes && file.read_into(head, section.offset).is_ok();
    let odd = |what: &str| format!("its section {} {what}", of(section));
    if !is_read {
        return Err(odd("is too short to be compressed"));
    }
    let (kind, bytes) = match (is_older, head.strip_prefix(b"ZLIB")) {
        (true, Some(bytes)) => {
            (ZLIB, bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
        }
        (true, None) => return Err(odd("has no header of compressed content")),
        (false, _) => file.compression_header(head),
    };
    if !matches!(kind, ZLIB | ZSTD) {
        return Err(odd(&format!(
            "is compressed in the way of number {kind}, and only zlib ({ZLIB}) and zstd ({ZSTD}) are known"
        )));
    }
    Ok(Some(Compressed { kind, head: head_bytes, bytes }))
}

/// Decompresses `packed` into `out`. It is an error if the result does not fill `out`.
fn unpack(kind: u64, packed: &[u8], out: &mut [u8], budget: &Budget) -> Result<(), &'static str> {
    const LONG: &str = "unpacking all files takes too long";
    if !budget.steps(packed.len() as u64 * STEPS) {
        return Err(LONG);
    }
    let bytes = match kind {
        ZSTD => strata_zstd::unpack(packed, out, &mut |entries| budget.steps(entries / 4 + 1))?,
        _ => {
            let mut blocks = BLOCKS + packed.len() as u64 / BLOCK_BYTES;
            inflate(packed, out, &mut || {
                blocks = blocks.checked_sub(1).ok_or("its blocks are too many for its size")?;
                budget.steps(BLOCK_STEPS).then_some(()).ok_or(LONG)
            })?
        }
    };
    match bytes == out.len() {
        true => Ok(()),
        false => Err("it has fewer bytes than it says"),
    }
}

/// Decompresses streams of zlib that follow each other. Returns the number of bytes written. `begin_block` is called
/// before each block, and fails if no more are allowed. Checksums are not compared, since they do not protect against
/// manipulation.
fn inflate(
    mut packed: &[u8],
    out: &mut [u8],
    begin_block: &mut dyn FnMut() -> Result<(), &'static str>,
) -> Result<usize, &'static str> {
    const FLAGS: u32 = inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER
        | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF
        | inflate_flags::TINFL_FLAG_IGNORE_ADLER32
        | inflate_flags::TINFL_FLAG_STOP_ON_BLOCK_BOUNDARY;
    let mut at = 0;
    // Linkers that join files put their streams behind each other.
    while at < out.len() {
        let mut decoder = Box::<DecompressorOxide>::default();
        // A match cannot be before the begin of its stream.
        let rest = out.get_mut(at..).unwrap_or_default();
        let (mut read, mut written) = (0, 0);
        let status = loop {
            begin_block()?;
            let input = packed.get(read..).unwrap_or_default();
            let (status, more_read, more) = decompress(&mut decoder, input, rest, written, FLAGS);
            (read, written) = (read + more_read, written + more);
            if status != TINFLStatus::BlockBoundary {
                break status;
            }
        };
        at += written;
        packed = packed.get(read..).unwrap_or_default();
        match status {
            TINFLStatus::Done if read > 0 && written > 0 && !packed.is_empty() => {}
            TINFLStatus::Done => break,
            TINFLStatus::HasMoreOutput => return Err("it has more bytes than it says"),
            TINFLStatus::NeedsMoreInput | TINFLStatus::FailedCannotMakeProgress => {
                return Err("it is cut off")
            }
            _ => return Err("it is damaged"),
        }
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hand_tests::Hand;
    use std::sync::Arc;

    /// Returns what is read of a section of this name, flags and content, in a file that has nothing else; and the bytes
    /// that it keeps of the budget.
    fn read_of(name: &str, flags: u64, content: &[u8]) -> (Result<Vec<u8>, String>, u64) {
        read_with(&Arc::new(Budget::default()), name, flags, content)
    }

    fn read_with(
        budget: &Arc<Budget>,
        name: &str,
        flags: u64,
        content: &[u8],
    ) -> (Result<Vec<u8>, String>, u64) {
        let hand = Hand::new();
        let path = hand.0.join("file");
        let names = [b"\0", name.as_bytes(), b"\0"].concat();
        let section = |name: u32, kind: u32, flags: u64, at: usize, bytes: usize| {
            let words = [flags, 0, at as u64, bytes as u64].map(u64::to_le_bytes).concat();
            [&[name, kind].map(u32::to_le_bytes).concat()[..], &words, &[0; 24]].concat()
        };
        let (names_at, table_at) = (64 + content.len(), 64 + content.len() + names.len());
        let mut head = [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 57]].concat();
        head[40..48].copy_from_slice(&(table_at as u64).to_le_bytes());
        head[58..64].copy_from_slice(&[64, 0, 3, 0, 2, 0]);
        let all = [
            head,
            content.to_vec(),
            names.clone(),
            section(0, 0, 0, 0, 0),
            section(1, 1, flags, 64, content.len()),
            section(0, 3, 0, names_at, names.len()),
        ];
        std::fs::write(&path, all.concat()).unwrap();
        let mut charge = Charge::new(budget);
        let found = read(&ElfFile::open(&path).unwrap(), ".debug_line", &mut charge);
        (found, charge.bytes())
    }

    fn with_header(kind: u32, bytes: u64, packed: &[u8]) -> Vec<u8> {
        let head = [kind.to_le_bytes(), [0; 4]].concat();
        [&head[..], &bytes.to_le_bytes(), &[1, 0, 0, 0, 0, 0, 0, 0], packed].concat()
    }

    /// Returns a stream of zlib whose content is stored as it is.
    fn stored(content: &[u8]) -> Vec<u8> {
        let bytes = content.len() as u16;
        let lengths = [bytes, !bytes].map(u16::to_le_bytes).concat();
        [&[0x78, 1, 1][..], &lengths, content, &[0; 4]].concat()
    }

    #[test]
    fn read_gives_what_is_in_a_section_of_each_kind() {
        const COMPRESSED: u64 = 1 << 11;
        let text = b"lines".to_vec();
        let older = [b"ZLIB".as_slice(), &5u64.to_be_bytes(), &stored(&text)].concat();
        assert_eq!(read_of(".debug_line", 0, &text), (Ok(text.clone()), 5));
        assert_eq!(read_of(".zdebug_line", 0, &older), (Ok(text.clone()), 5));
        let zlib = with_header(1, 5, &stored(&text));
        assert_eq!(read_of(".debug_line", COMPRESSED, &zlib), (Ok(text.clone()), 5));
        // Streams behind each other, as of files that were joined.
        let two = with_header(1, 10, &[stored(&text), stored(&text)].concat());
        assert_eq!(read_of(".debug_line", COMPRESSED, &two), (Ok(text.repeat(2)), 10));
        assert_eq!(read_of(".other", 0, &text), (Ok(Vec::new()), 0));
    }

    #[test]
    fn malicious_sections_are_refused_with_the_reason() {
        const COMPRESSED: u64 = 1 << 11;
        let text = b"lines";
        for (content, wanted) in [
            (
                with_header(1, 6, &stored(text)),
                "cannot be decompressed: it has fewer bytes than it says",
            ),
            (
                with_header(1, 4, &stored(text)),
                "cannot be decompressed: it has more bytes than it says",
            ),
            (with_header(1, 5, b"none"), "cannot be decompressed: it is damaged"),
            (with_header(2, 5, b"none"), "cannot be decompressed: it has no frame of zstd"),
            (with_header(3, 5, &stored(text)), "compressed in the way of number 3"),
            (with_header(1, 5, b"")[..20].to_vec(), "too short to be compressed"),
            (with_header(1, 400 << 20, &stored(text)), "at most 64 times as many are read"),
            (with_header(1, u64::MAX, &stored(text)), "at most 64 times as many are read"),
            (with_header(1, 600 << 20, &vec![0; 12 << 20]), "512.0 MiB may be taken"),
        ] {
            let (found, _) = read_of(".debug_line", COMPRESSED, &content);
            let why = found.unwrap_err();
            assert!(
                why.contains(wanted) && why.contains(".debug_line") || why.contains("512.0"),
                "{why}"
            );
        }
        let (found, _) = read_of(".zdebug_line", 0, b"twelve bytes, and more");
        assert!(found.unwrap_err().contains("no header of compressed content"));
    }

    /// Returns a stream of zlib with `blocks` empty blocks of ten bits, and then the content as it is.
    fn behind_empty_blocks(blocks: usize, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0u8; (blocks * 10 + 3).div_ceil(8)];
        for at in 0..blocks {
            // The second bit of a block says that its codes are those of the standard; all others are 0.
            bytes[(at * 10 + 1) / 8] |= 1 << ((at * 10 + 1) % 8);
        }
        // The last block: the bit that says so, and two that say that it is stored.
        bytes[blocks * 10 / 8] |= 1 << (blocks * 10 % 8);
        [&[0x78, 1][..], &bytes, &stored(content)[3..]].concat()
    }

    #[test]
    fn malicious_empty_blocks_cost_steps_in_proportion_to_the_bytes_and_many_are_refused() {
        const COMPRESSED: u64 = 1 << 11;
        let text = [b'l'; 200];
        let all = 1 << 29;
        let read = |packed: &[u8], steps| {
            let budget = Arc::new(Budget::of(1 << 20, steps));
            let content = with_header(1, 200, packed);
            let (found, _) = read_with(&budget, ".debug_line", COMPRESSED, &content);
            (found, steps - budget.steps_left())
        };
        for blocks in [0, 1, 7, 60] {
            let packed = behind_empty_blocks(blocks, &text);
            let wanted = packed.len() as u64 * STEPS + (blocks as u64 + 1) * BLOCK_STEPS;
            assert_eq!(read(&packed, all), (Ok(text.to_vec()), wanted), "{blocks}");
            let (found, _) = read(&packed, wanted - 1);
            assert!(found.unwrap_err().contains("takes too long"), "{blocks}");
        }
        for blocks in [1_000, 100_000] {
            let packed = behind_empty_blocks(blocks, &text);
            let (found, steps) = read(&packed, all);
            assert!(found.unwrap_err().contains("blocks are too many for its size"), "{blocks}");
            let most =
                BLOCKS * BLOCK_STEPS + packed.len() as u64 * (STEPS + BLOCK_STEPS / BLOCK_BYTES);
            assert!(steps <= most, "{steps} of {most} for {} bytes", packed.len());
        }
        // The begin of each of several streams costs as much.
        let streams = with_header(1, 1000, &stored(b"l").repeat(1000));
        let budget = Arc::new(Budget::default());
        let (found, _) = read_with(&budget, ".debug_line", COMPRESSED, &streams);
        assert!(found.unwrap_err().contains("blocks are too many for its size"));
    }
}
