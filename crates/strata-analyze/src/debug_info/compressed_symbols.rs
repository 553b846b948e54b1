//! Symbols that a stripped file keeps compressed: an ELF file in xz format in the section `.gnu_debugdata`, as Fedora
//! and related systems have it. It has the functions that the file does not export.

use std::fs::File;
use std::io::{self, Read, Write as _};

use lzma_rust2::Lzma2Reader;
use rustix::fs::{memfd_create, MemfdFlags};

use super::elf::ElfFile;
use super::lookup_limits::{size, Charge};

/// The greatest compressed size of a section with symbols \[byte\].
const PACKED_MAX: u64 = 16 << 20;
const UNPACKED_MAX: u64 = 64 << 20;
/// The greatest size of the decoder's dictionary \[byte\]; `xz -9` needs as much.
const DICTIONARY_MAX: u32 = 64 << 20;
/// The memory of the decoder in addition to its dictionary \[KiB\].
const DECODER_KIB: u32 = 256;
/// The steps of the time budget that each compressed byte costs, since a few bytes may make the decoder fill its
/// tables again.
const STEPS: u64 = 8;
/// The number of bytes that are decompressed at once.
const AT_ONCE: usize = 64 << 10;

/// The first bytes of a stream of xz. Two bytes of flags follow, and four bytes with the checksum of the flags.
const MAGIC: &[u8] = b"\xfd7zXZ\0";
const STREAM_HEADER: usize = 12;
/// The id of the filter LZMA2, which has one byte of properties: the size of its dictionary.
const LZMA2: u8 = 0x21;

/// Returns the ELF file in the section `.gnu_debugdata` of `file`; `None` if there is none. `charge` counts its
/// bytes while it is open. If it cannot be decompressed, a remark is kept.
pub(super) fn unpack(file: &ElfFile, charge: &mut Charge) -> Option<ElfFile> {
    let section = file.section(".gnu_debugdata")?;
    let remark = |charge: &Charge, why: &str| {
        let path = file.path.display();
        charge.budget().remark(format!("{path}: its section .gnu_debugdata {why}: not used"));
    };
    if section.bytes > PACKED_MAX {
        let (found, limit) = (size(section.bytes), size(PACKED_MAX));
        remark(charge, &format!("has {found}, and at most {limit} are read"));
        return None;
    }
    if !charge.add(section.bytes) {
        remark(charge, "takes more memory than is left for all files and processes");
        return None;
    }
    let packed = match file.read(section.offset, section.bytes, PACKED_MAX) {
        Ok(packed) => packed,
        Err(error) => {
            remark(charge, &format!("cannot be read: {error}"));
            return None;
        }
    };
    let unpacked = content(&packed, charge);
    charge.give(section.bytes);
    let found = unpacked.and_then(|unpacked| {
        let metadata = unpacked.metadata()?;
        ElfFile::of_file(&file.path, unpacked, &metadata)
    });
    match found {
        Ok(found) => Some(found),
        Err(error) => {
            remark(charge, &format!("cannot be unpacked: {error}"));
            None
        }
    }
}

fn odd(what: &str) -> io::Error {
    io::Error::other(what.to_owned())
}

/// Decompresses the first block of a stream of xz to memory. Checksums are not compared, since they do not protect
/// against manipulation.
fn content(packed: &[u8], charge: &mut Charge) -> io::Result<File> {
    let block = packed.strip_prefix(MAGIC).and_then(|_| packed.get(STREAM_HEADER..));
    let block = block.ok_or_else(|| odd("it is no stream of xz"))?;
    let (dictionary, data) =
        block_header(block).ok_or_else(|| odd("it has other filters than LZMA2"))?;
    if !charge.budget().steps(packed.len() as u64 * STEPS) {
        return Err(odd("unpacking all files takes too long"));
    }
    if dictionary > DICTIONARY_MAX || !charge.add(dictionary.into()) {
        return Err(odd("its dictionary takes too much memory"));
    }
    let limit = dictionary / 1024 + DECODER_KIB;
    let reader =
        Lzma2Reader::new_mem_limit(data, dictionary, limit, None).map_err(io::Error::other);
    let unpacked = reader.and_then(|reader| copy(reader, charge));
    charge.give(dictionary.into());
    unpacked
}

/// Copies decompressed bytes to a file in memory.
fn copy(mut reader: impl Read, charge: &mut Charge) -> io::Result<File> {
    let mut to = File::from(memfd_create("strata-symbols", MemfdFlags::CLOEXEC)?);
    let mut buffer = vec![0; AT_ONCE];
    let mut bytes = 0;
    loop {
        let part = reader.read(&mut buffer)?;
        let Some(read) = buffer.get(..part).filter(|read| !read.is_empty()) else { return Ok(to) };
        bytes += part as u64;
        if bytes > UNPACKED_MAX {
            return Err(odd(&format!("it has more than {}", size(UNPACKED_MAX))));
        }
        if !charge.add(part as u64) {
            return Err(odd("it takes more memory than is left for all files and processes"));
        }
        to.write_all(read)?;
    }
}

/// Returns the size of a block's dictionary, and the block's data; `None` if it is compressed in another way.
fn block_header(block: &[u8]) -> Option<(u32, &[u8])> {
    let bytes = usize::from(*block.first()?).checked_add(1)?.checked_mul(4)?;
    let (header, data) = block.split_at_checked(bytes)?;
    let flags = *header.get(1)?;
    // The lowest two bits are the number of filters less one; two others say which sizes follow.
    if flags & 0x3 != 0 {
        return None;
    }
    let mut rest = header.get(2..)?;
    for _ in 0..(flags & 0x40).count_ones() + (flags & 0x80).count_ones() {
        let end = rest.iter().position(|byte| byte & 0x80 == 0)?;
        rest = rest.get(end + 1..)?;
    }
    let [LZMA2, 1, dictionary @ 0..=40, ..] = *rest else { return None };
    let dictionary = match dictionary {
        40 => u32::MAX,
        bits => (2 | u32::from(bits & 1)) << (bits / 2 + 11),
    };
    Some((dictionary, data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debug_info::lookup_limits::Budget;
    use std::process::{Command, Stdio};
    use std::sync::Arc;

    fn packed(bytes: &[u8], how: &[&str]) -> Vec<u8> {
        let mut xz = Command::new("xz")
            .args(how)
            .arg("-c")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut to, bytes) = (xz.stdin.take().unwrap(), bytes.to_vec());
        let writer = std::thread::spawn(move || to.write_all(&bytes).unwrap());
        let out = xz.wait_with_output().unwrap();
        writer.join().unwrap();
        out.stdout
    }

    fn unpacked(packed: &[u8], budget: u64) -> Result<Vec<u8>, String> {
        let budget = Arc::new(Budget::of(budget, u64::MAX));
        let mut charge = Charge::new(&budget);
        let file = content(packed, &mut charge).map_err(|error| error.to_string())?;
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
        Ok(bytes)
    }

    #[test]
    fn content_is_what_xz_has_packed_in_each_of_its_ways() {
        let bytes: Vec<u8> =
            (0..300_000u32).flat_map(|at| ((at / 7) ^ (at << 3)).to_le_bytes()).collect();
        let budget = 256 << 20;
        for how in [&["-0"][..], &["-6"], &["-9e"], &["--check=crc32"], &["--check=none"]] {
            assert!(unpacked(&packed(&bytes, how), budget) == Ok(bytes.clone()), "{how:?}");
        }
        assert_eq!(
            unpacked(&packed(b"", &[]), budget),
            Err("it has other filters than LZMA2".into())
        );
        let filtered = packed(&bytes, &["--x86", "--lzma2"]);
        assert_eq!(unpacked(&filtered, budget), Err("it has other filters than LZMA2".into()));
        assert_eq!(unpacked(b"ELF", budget), Err("it is no stream of xz".into()));
    }

    #[test]
    fn malicious_content_ends_at_the_limits() {
        // Some ten thousand times smaller than what is in it.
        let bomb = packed(&vec![0; UNPACKED_MAX as usize + 1], &["-0"]);
        assert!(bomb.len() < 32 << 10, "{}", bomb.len());
        assert_eq!(unpacked(&bomb, 512 << 20), Err("it has more than 64.0 MiB".into()));
        let why = unpacked(&bomb, 8 << 20).unwrap_err();
        assert!(why.contains("left for all files"), "{why}");
        // A dictionary of 4 GiB, and one that is more than what is left.
        let mut large = packed(b"text", &[]);
        let at = large.windows(2).position(|two| two == [LZMA2, 1]).unwrap() + 2;
        for (bits, budget) in [(40, 512 << 20), (39, 512 << 20), (28, 512 << 10)] {
            large[at] = bits;
            let why = unpacked(&large, budget).unwrap_err();
            assert!(why.contains("dictionary"), "{bits}: {why}");
        }
        // Each compressed byte costs steps, whatever is in it.
        let budget = Arc::new(Budget::of(512 << 20, bomb.len() as u64 * STEPS - 1));
        let why = content(&bomb, &mut Charge::new(&budget)).unwrap_err().to_string();
        assert!(why.contains("takes too long"), "{why}");
        // Anything else is damaged, and ends.
        let whole = packed(&[7; 5000], &[]);
        for end in 0..whole.len() {
            let _ = unpacked(&whole[..end], 64 << 20);
            let mut other = whole.clone();
            other[end] ^= 0x55;
            let _ = unpacked(&other, 64 << 20);
        }
    }
}
