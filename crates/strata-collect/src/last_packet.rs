//! Finds the last packet of a stream's file, for a writer that continues where another one was killed.
//!
//! A file consists of whole packets at any time (`files.rs`). A writer that is killed while it appends a packet may
//! leave fillers after the last packet: empty packets without new information. The last packet is extended over them,
//! as padding.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{self, Mode, OFlags};
use strata_ctf::packet::{Header, HEADER_BYTES, PACKET_BITS_OFFSET};

use crate::directory::Directory;

/// The most headers that are read in one file: as many as there are packets of one page in 64 GiB.
const PACKETS_MAX: u64 = 1 << 24;

/// Finds the last packet that is no filler, and extends its padding to the end of the file. Returns the file's size,
/// and the packet's header and offset; `None` if the file has no packet.
///
/// # Errors
/// A system call failed; `InvalidData` if something in the file is no packet.
pub(crate) fn last_packet(
    directory: &Directory,
    name: &str,
) -> io::Result<Option<(u64, Header, u64)>> {
    let file = directory.read(OsStr::new(name))?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let bytes = about.len();
    let (mut at, mut last): (u64, Option<(Header, u64)>) = (0, None);
    for _ in 0..PACKETS_MAX {
        if at >= bytes {
            break;
        }
        let mut head = [0; HEADER_BYTES];
        file.read_exact_at(&mut head, at)?;
        let header = Header::decode(&head).ok_or(io::ErrorKind::InvalidData)?;
        let (content, packet) = (header.content_bits / 8, header.packet_bits / 8);
        let end = at.checked_add(packet).filter(|end| *end <= bytes);
        let end = end.filter(|_| (HEADER_BYTES as u64..=packet).contains(&content));
        let end = end.ok_or(io::ErrorKind::InvalidData)?;
        let tells_nothing = last.is_some_and(|(before, _)| {
            content == HEADER_BYTES as u64
                && header.discarded == before.discarded
                && header.timestamp_end == before.timestamp_end
        });
        if !tells_nothing {
            last = Some((header, at));
        }
        at = end;
    }
    if at < bytes {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let Some((header, at)) = last else { return Ok(None) };
    if at + header.packet_bits / 8 != bytes {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(directory, name, flags, Mode::empty())?;
        let bits = ((bytes - at) * 8).to_ne_bytes();
        strata_ring::write_both(file.as_fd(), at + PACKET_BITS_OFFSET, &bits, &[])?;
    }
    Ok(Some((bytes, header, at)))
}

/// Cuts off a stream's file before the first packet that is invalid or has the sequence number `from` or a later one:
/// after a loss of power, data that were not forced to the disk may be anything. With `None`, only invalid packets are
/// cut off. A file in which no packet remains is removed.
///
/// # Errors
/// A system call failed.
pub fn cut_packets(directory: &Directory, name: &str, from: Option<u64>) -> io::Result<()> {
    let file = directory.read(OsStr::new(name))?;
    let bytes = file.metadata()?.len();
    let mut at: u64 = 0;
    for _ in 0..PACKETS_MAX {
        let mut head = [0; HEADER_BYTES];
        if at >= bytes || file.read_exact_at(&mut head, at).is_err() {
            break;
        }
        let Some(header) = Header::decode(&head) else { break };
        let (content, packet) = (header.content_bits / 8, header.packet_bits / 8);
        let end = at.checked_add(packet).filter(|end| *end <= bytes);
        let Some(end) = end.filter(|_| (HEADER_BYTES as u64..=packet).contains(&content)) else {
            break;
        };
        if from.is_some_and(|from| header.sequence >= from) {
            break;
        }
        at = end;
    }
    if at == 0 {
        // A file without a packet is none.
        fs::unlinkat(directory, name, fs::AtFlags::empty())?;
    } else if at < bytes {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(directory, name, flags, Mode::empty())?;
        fs::ftruncate(&file, at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Files;
    use crate::sink::{Body, Sink};
    use std::path::{Path, PathBuf};
    use strata_model::Uuid;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("strata-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn header(sequence: u64, bytes: usize) -> Header {
        let header = Header { uuid: Uuid([7; 16]), sequence, ..Header::default() };
        let (timestamp_begin, timestamp_end) = (sequence * 10, sequence * 10 + 5);
        Header { timestamp_begin, timestamp_end, ..header }.with_content_bytes(bytes as u64)
    }

    fn append(files: &mut Files, sequence: u64, bytes: usize) {
        let body = vec![sequence as u8; bytes];
        files.append(0, header(sequence, bytes), &Body::Bytes(&body)).unwrap();
    }

    fn open(path: &Path) -> Directory {
        let parent = std::fs::File::open(path.parent().unwrap()).unwrap();
        Directory::open_in(parent.as_fd(), path.file_name().unwrap(), path).unwrap()
    }

    #[test]
    fn resumed_file_is_as_if_one_writer_had_written_it() {
        let scratch = Scratch::new("resume");
        let sizes = [100, 9000, 0, 1, 5000, 4096, 77];
        for kill_at in 1..sizes.len() {
            for (name, stops) in [("whole", false), ("killed", true)] {
                let path = scratch.0.join(name);
                std::fs::create_dir_all(&scratch.0).unwrap();
                let mut files = Files::new(Directory::create(&path).unwrap(), "channel0");
                for (sequence, bytes) in sizes.iter().enumerate() {
                    if stops && sequence == kill_at {
                        drop(files);
                        let (resumed, lasts) = Files::resume(open(&path), "channel0").unwrap();
                        assert_eq!(lasts.len(), 1);
                        assert_eq!(lasts[0].1.sequence + 1, sequence as u64);
                        files = resumed;
                    }
                    append(&mut files, sequence as u64, *bytes);
                }
            }
            let read = |name| std::fs::read(scratch.0.join(name).join("channel0_0")).unwrap();
            assert!(read("whole") == read("killed"), "{kill_at}");
            std::fs::remove_dir_all(&scratch.0).unwrap();
        }
    }

    #[test]
    fn fillers_of_a_killed_writer_are_padding_and_damage_is_an_error() {
        let scratch = Scratch::new("resume-fillers");
        std::fs::create_dir_all(&scratch.0).unwrap();
        let path = scratch.0.join("t");
        let mut files = Files::new(Directory::create(&path).unwrap(), "channel0");
        append(&mut files, 1, 300);
        drop(files);
        let name = path.join("channel0_0");
        let mut bytes = std::fs::read(&name).unwrap();
        let one = header(1, 300);
        for sequence in 2..5 {
            let filler = Header { timestamp_begin: one.timestamp_end, sequence, ..one };
            let filler = Header { packet_bits: 4096 * 8, ..filler.with_content_bytes(0) };
            bytes.extend_from_slice(&filler.encode());
            bytes.resize(bytes.len().next_multiple_of(4096), 0);
        }
        std::fs::write(&name, &bytes).unwrap();
        let (mut files, lasts) = Files::resume(open(&path), "channel0").unwrap();
        assert_eq!(lasts[0].1.sequence, 1);
        append(&mut files, 2, 300);
        let (_, lasts) = Files::resume(open(&path), "channel0").unwrap();
        assert_eq!((lasts.len(), lasts[0].1.sequence), (1, 2));
        for damage in [b"x".to_vec(), vec![0; 5000], bytes[..4000].to_vec()] {
            std::fs::write(&name, damage).unwrap();
            Files::resume(open(&path), "channel0").unwrap_err();
        }
    }
}
