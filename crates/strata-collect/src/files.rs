//! The files of one trace in its folder, which hold whole packets at any time.
//!
//! [`Files`] is the [`Sink`] of a folder: one file for each stream, by the CPU's number. A file is opened for each
//! batch of packets and closed again, since a session has more streams than a process may have open files.
//!
//! Readers may read while this program writes, and this program may be killed between any two instructions. So there is
//! no moment at which a file ends within a packet: `StreamFile` explains the four steps by which a packet is appended
//! in the padding of the last one. Each step is one system call, or one word of a header.
//!
//! ```text
//! new()       a file gets its name with its first packet; before, it is hidden
//! gathered()  each file is hidden until HiddenStreams::show(), so that a packet can still be taken back
//! resume()    continues the files of a killed recorder, after the last whole packet (last_packet.rs)
//! close()     keeps sizes and last headers as ClosedFiles, so that a trace can be moved and opened again
//! ```
//!
//! After an error the file is as it was before the call, and the same call can be repeated: the disk may have space
//! again. SIGXFSZ is handled, so that a write beyond the file size limit is an error and does not end the program.
//!
//! Only the pump's thread calls a [`Files`], through its collector. [`ClosedFiles`] may be handed to another
//! thread, which moves or finishes the trace after a rotation. Nothing is forced to the disk here: what a system
//! crash takes is said by the end mark that is missing.

use crate::directory::{file_mode, Directory};
use crate::error::Error;
use crate::last_packet;
use crate::sink::{Body, HiddenStreams, Sink};
use rustix::fs::{self, FallocateFlags, OFlags, RenameFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use strata_ctf::end_mark::{Ending, Losses};
use strata_ctf::kernel_symbols;
use strata_ctf::packet::{Header, HEADER_BYTES, PACKET_BITS_OFFSET, TIMESTAMP_END_OFFSET};
use strata_ctf::progress_mark::ProgressMark;

/// Size of the steps in which a file grows: a page, which every file system and every page size can take as a whole
/// \[byte\].
const PAGE: u64 = 4096;

/// Alignment of packets in a file, so that no word of a packet's header lies in two pages \[byte\].
pub(crate) const ALIGN: u64 = 8;

/// The most pages that one system call adds.
const FILLERS: u64 = 16;

/// Size from which on blocks of a file are reserved ahead, and the most that are reserved \[byte\].
const RESERVED_MAX: u64 = 1 << 20;

/// The share of a file that is reserved ahead.
const RESERVED_SHARE: u64 = 8;

/// The type of file systems on which it is known to help to reserve blocks: ext4, as statfs() has it. XFS does so by itself, and
/// Btrfs would not compress what is reserved.
const EXT4: u64 = 0xef53;

/// One stream's file. It is open only while packets are moved: a session has more streams than a
/// process may have open files, and a file that was removed is noticed when it is opened again.
///
/// The file consists of whole packets after each system call, and in the middle of one: if this program is killed at
/// any moment, it leaves a file that readers accept. A kill stops a write between two pages, never within one. So the
/// last packet L is padded up to the end of the file, which is the end of a page, and a packet P is appended like this:
///
/// ```text
///                       ... L ~~~~|                            ~ padding, | end of a page
/// 1 fillers             ... L ~~~~|f~~~|f~~~|                  each page is an empty packet
/// 2 L.packet_size       ... L ~~~~~~~~~~~~~~|                  one word: L takes the fillers in
/// 3 P, in L's padding   ... L ~~PPPPPPPPPP~~|                  nobody looks there
/// 4 L.packet_size       ... L |PPPPPPPPPPP~~|                  one word: P is there
/// ```
///
/// If P fits into the padding that is there, steps 1 and 2 are left out. The first packet is written under a hidden
/// name.
///
/// So a new page is written twice to the system's memory, and once to the disk: of 19.2 MB that a relay received, its
/// system calls wrote 37.4 MB, and the disk 19.3 MB. With less a file could not consist of whole packets at any moment: only what
/// lies within one page changes at once, the size of a file and the size of a packet in it do not, and what is grown
/// without being written is zeros, which are no packet. To reserve blocks behind the file's end, which changes no size, saves as
/// much time as the second writing takes (docs/decisions/0117).
#[derive(Debug)]
pub(crate) struct StreamFile {
    name: String,
    /// Size of the whole packets in the file \[byte\].
    bytes: u64,
    /// The last packet; `None` while the file does not exist.
    last: Option<LastInFile>,
    /// The packet before the last one, if packets are gathered.
    before: Option<LastInFile>,
    /// True if packets are gathered before the file is shown; see [`Files::gathered`].
    is_gathered: bool,
    /// Blocks of the file that are reserved behind its end.
    reserved: Reserved,
}

/// Blocks that a file has behind its end, so that the file system need not find some for each page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reserved {
    /// Up to this offset \[byte\]. Another writer may have left more.
    UpTo(u64),
    /// The file system is another one, or has refused it.
    Never,
}

/// The last packet of a file.
#[derive(Clone, Copy, Debug)]
struct LastInFile {
    /// Header of the packet; its sizes are not kept up to date.
    header: Header,
    /// Offset of the packet \[byte\].
    at: u64,
    /// Offset at which the next packet can begin \[byte\].
    next: u64,
}

fn round_up(bytes: u64, to: u64) -> u64 {
    // Sizes of files and packets: far from the end of the numbers.
    bytes.div_ceil(to) * to
}

impl StreamFile {
    pub(crate) fn new(name: String, is_gathered: bool) -> Self {
        let reserved = Reserved::UpTo(0);
        Self { name, bytes: 0, last: None, before: None, is_gathered, reserved }
    }

    /// Makes the state of a file that another writer has left, from its size and the header and offset of its last
    /// packet.
    pub(crate) fn resumed(name: String, bytes: u64, header: Header, at: u64) -> Self {
        let next = at + round_up(header.content_bits / 8, ALIGN);
        let last = Some(LastInFile { header, at, next });
        // One more than the file: what the other writer has reserved is given back at the end.
        let reserved = Reserved::UpTo(bytes + 1);
        Self { bytes, last, reserved, ..Self::new(name, false) }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn hidden(&self) -> String {
        format!(".{}", self.name)
    }

    /// Creates the file, hidden until it has a packet, or opens it again.
    pub(crate) fn open(&self, directory: &Directory) -> Result<OwnedFd, Error> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match self.last {
            Some(_) if self.is_gathered => fs::openat(directory, self.hidden(), flags, file_mode()),
            Some(_) => fs::openat(directory, &*self.name, flags, file_mode()),
            None => directory.create_file(&self.hidden()),
        };
        opened.map_err(|e| self.error(directory, e.into()))
    }

    /// Appends a packet, wholly or not at all. The content size in `header` must be set; `write` writes the packet at
    /// the offset and with the encoded header that it receives.
    pub(crate) fn append(
        &mut self,
        directory: &Directory,
        fd: &OwnedFd,
        header: Header,
        write: impl FnOnce(BorrowedFd<'_>, u64, &[u8]) -> io::Result<u64>,
    ) -> Result<(), Error> {
        let done = match self.last {
            _ if self.is_gathered => self.gather(fd, header, write),
            None => self.create(directory, fd, header, write),
            Some(last) => self.append_behind(fd, last, header, write),
        };
        done.map_err(|e| self.error(directory, e))
    }

    fn create(
        &mut self,
        directory: &Directory,
        fd: &OwnedFd,
        header: Header,
        write: impl FnOnce(BorrowedFd<'_>, u64, &[u8]) -> io::Result<u64>,
    ) -> io::Result<()> {
        let next = round_up(header.content_bits / 8, ALIGN);
        let bytes = round_up(next, PAGE);
        let header = Header { packet_bits: bytes * 8, ..header };
        let done = write(fd.as_fd(), 0, &header.encode())
            .and_then(|_| fs::ftruncate(fd, bytes).map_err(io::Error::from))
            .and_then(|()| self.show(directory));
        match done {
            Ok(()) => {
                self.bytes = bytes;
                self.last = Some(LastInFile { header, at: 0, next });
            }
            Err(_) => {
                // The error that matters is the one above.
                let _ = fs::unlinkat(directory, self.hidden(), fs::AtFlags::empty());
            }
        }
        done
    }

    /// Appends a packet to a file that no reader sees yet. Bytes after the last packet are cut off before the file is
    /// shown.
    fn gather(
        &mut self,
        fd: &OwnedFd,
        header: Header,
        write: impl FnOnce(BorrowedFd<'_>, u64, &[u8]) -> io::Result<u64>,
    ) -> io::Result<()> {
        let at = self.last.map_or(0, |last| last.next);
        let bytes = round_up(header.content_bits / 8, ALIGN);
        let header = Header { packet_bits: bytes * 8, ..header };
        write(fd.as_fd(), at, &header.encode())?;
        self.before = self.last.replace(LastInFile { header, at, next: at + bytes });
        self.bytes = at + bytes;
        Ok(())
    }

    /// Removes the packet that was gathered last, since it was found to be invalid.
    fn take_back(&mut self) {
        self.last = self.before.take();
        self.bytes = self.last.map_or(0, |last| last.next);
    }

    /// Gives the gathered file its final name, so that readers see it.
    fn show_gathered(&mut self, directory: &Directory) -> Result<(), Error> {
        if !self.is_gathered || self.last.is_none() {
            return Ok(());
        }
        let fd = self.open(directory)?;
        let done = fs::ftruncate(&fd, self.bytes).map_err(io::Error::from);
        done.and_then(|()| self.show(directory)).map_err(|e| self.error(directory, e))?;
        self.is_gathered = false;
        Ok(())
    }

    /// Gives the file its name. Fails if something else has that name.
    fn show(&self, directory: &Directory) -> io::Result<()> {
        let old = self.hidden();
        match fs::renameat_with(directory, &*old, directory, &*self.name, RenameFlags::NOREPLACE) {
            // Not every file system knows that. The folder is ours, so nobody comes in between.
            Err(Errno::INVAL | Errno::NOSYS) => {
                match fs::statat(directory, &*self.name, fs::AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) => fs::renameat(directory, &*old, directory, &*self.name)?,
                    Ok(_) => return Err(Errno::EXIST.into()),
                    Err(e) => return Err(e.into()),
                }
            }
            other => other?,
        }
        Ok(())
    }

    fn append_behind(
        &mut self,
        fd: &OwnedFd,
        last: LastInFile,
        header: Header,
        write: impl FnOnce(BorrowedFd<'_>, u64, &[u8]) -> io::Result<u64>,
    ) -> io::Result<()> {
        let at = last.next;
        let next = at + round_up(header.content_bits / 8, ALIGN);
        let bytes = round_up(next, PAGE);
        if bytes > self.bytes {
            self.reserve(fd, bytes);
            let grown = fill(fd, &last.header, self.bytes, bytes)
                .and_then(|()| set_packet_bytes(fd, &last, bytes - last.at));
            if grown.is_err() {
                // What is behind the last packet is empty ones: cut or not, the file is whole.
                let _ = fs::ftruncate(fd, self.bytes);
                self.reserved = Reserved::UpTo(0);
                return grown;
            }
            self.bytes = bytes;
        }
        // Should this fail, what was written is padding.
        let header = Header { packet_bits: (self.bytes - at) * 8, ..header };
        write(fd.as_fd(), at, &header.encode())?;
        set_packet_bytes(fd, &last, at - last.at)?;
        self.last = Some(LastInFile { header, at, next });
        Ok(())
    }

    /// Reserves blocks for the file to grow to `bytes` and further, which changes nothing that readers see. Without them each page
    /// takes its block by itself, which is a quarter of the time of writing.
    fn reserve(&mut self, fd: &OwnedFd, bytes: u64) {
        let Reserved::UpTo(until) = self.reserved else { return };
        if bytes <= until || bytes < RESERVED_MAX {
            return;
        }
        let more = round_up((bytes / RESERVED_SHARE).min(RESERVED_MAX), PAGE);
        let from = self.bytes.max(until);
        let is_ext4 = fs::fstatfs(fd).is_ok_and(|about| about.f_type as u64 == EXT4);
        let reserved = is_ext4
            && fs::fallocate(fd, FallocateFlags::KEEP_SIZE, from, bytes + more - from).is_ok();
        // A disk without space says so when pages are written.
        self.reserved = if reserved { Reserved::UpTo(bytes + more) } else { Reserved::Never };
    }

    /// Gives back the blocks behind the end of the file, which gets no more packets.
    fn trim(&mut self, directory: &Directory) {
        let is_longer = matches!(self.reserved, Reserved::UpTo(until) if until > self.bytes);
        if is_longer && self.last.is_some() && !self.is_gathered {
            // On an error some blocks stay, which only take space. A file of which somebody has taken a part is not made
            // longer.
            let _ = self.open(directory).map(|fd| {
                let is_whole = fs::fstat(&fd).is_ok_and(|about| about.st_size as u64 == self.bytes);
                is_whole.then(|| fs::ftruncate(&fd, self.bytes))
            });
        }
        self.reserved = Reserved::UpTo(0);
    }

    /// Changes the end time of the last packet.
    pub(crate) fn set_end(
        &mut self,
        directory: &Directory,
        fd: &OwnedFd,
        end: u64,
    ) -> Result<(), Error> {
        let Some(last) = &mut self.last else { return Ok(()) };
        let at = last.at + TIMESTAMP_END_OFFSET;
        match strata_ring::write_both(fd.as_fd(), at, &end.to_ne_bytes(), &[]) {
            Ok(_) => {
                last.header.timestamp_end = end;
                Ok(())
            }
            Err(e) => Err(self.error(directory, e)),
        }
    }

    fn error(&self, directory: &Directory, e: io::Error) -> Error {
        Error::new(directory.path().join(&self.name), self.bytes, e)
    }
}

/// The files of one trace in its folder: a [`Sink`].
#[derive(Debug)]
pub struct Files {
    directory: Directory,
    /// Name of the channel's files, which are called `NAME_CPU`.
    name: String,
    /// Files of the streams that were written to, by CPU.
    streams: Vec<Option<StreamFile>>,
    open: Option<(u32, OwnedFd)>,
    is_gathered: bool,
}

impl Files {
    /// Makes a sink for the streams called `name` in the folder. No file is created yet.
    #[must_use]
    pub fn new(directory: Directory, name: &str) -> Files {
        keep_sigxfsz_away();
        let (name, streams) = (name.to_owned(), Vec::new());
        Files { directory, name, streams, open: None, is_gathered: false }
    }

    /// Makes a sink for streams that nobody reads before they are complete. Each is written under a hidden name, with
    /// one system call for a packet, and gets its own name by [`HiddenStreams::show`]. A kill leaves the streams that were
    /// shown.
    #[must_use]
    pub fn gathered(directory: Directory, name: &str) -> Files {
        Files { is_gathered: true, ..Files::new(directory, name) }
    }

    /// Continues the streams in the folder whose files are called `name` and a number. Returns the header of the last
    /// packet of each, not counting packets without content that a killed writer has left.
    ///
    /// # Errors
    /// A system call failed, or a file does not consist of whole packets.
    pub fn resume(directory: Directory, name: &str) -> Result<(Files, Vec<(u32, Header)>), Error> {
        let mut files = Files::new(directory, name);
        let (mut found, mut lasts) = (Vec::new(), Vec::new());
        let path = files.directory.path().to_owned();
        let error = |source: io::Error| Error::new(path.clone(), 0, source);
        for entry in files.directory.names().map_err(error)? {
            let number = entry.to_str().and_then(|entry| entry.strip_prefix(name));
            let number = number.and_then(|rest| rest.strip_prefix('_')?.parse::<u16>().ok());
            let number = number.map(u32::from);
            let Some(number) = number else { continue };
            let file = format!("{name}_{number}");
            if let Some((bytes, header, at)) =
                last_packet::last_packet(&files.directory, &file).map_err(error)?
            {
                found.push((number, StreamFile::resumed(file, bytes, header, at)));
                lasts.push((number, header));
            }
        }
        for (number, file) in found {
            let index = number as usize;
            if files.streams.len() <= index {
                files.streams.resize_with(index + 1, || None);
            }
            files.streams[index] = Some(file);
        }
        Ok((files, lasts))
    }

    /// Closes the files. Returns their state, and the folder, which stays locked as long as its descriptor is open.
    #[must_use]
    pub fn close(self) -> (Directory, ClosedFiles) {
        let Files { directory, name, streams, is_gathered, .. } = self;
        (directory, ClosedFiles { name, streams, is_gathered })
    }

    /// Returns the stream's file, opened at its first use.
    fn file(&mut self, cpu: u32) -> Result<(&Directory, &mut StreamFile, &OwnedFd), Error> {
        let index = cpu as usize;
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, || None);
        }
        let (name, is_gathered) = (&self.name, self.is_gathered);
        let file = self.streams[index]
            .get_or_insert_with(|| StreamFile::new(format!("{name}_{cpu}"), is_gathered));
        let fd = match self.open.take().filter(|(open, _)| *open == cpu) {
            Some((_, fd)) => fd,
            None => file.open(&self.directory)?,
        };
        let (_, fd) = self.open.insert((cpu, fd));
        Ok((&self.directory, file, fd))
    }
}

/// Sizes and last packets of a trace's files, without any descriptor: a writer with more traces than descriptors continues
/// files without reading them again. Nobody else may write to the folder meanwhile.
#[derive(Debug)]
pub struct ClosedFiles {
    name: String,
    streams: Vec<Option<StreamFile>>,
    is_gathered: bool,
}

impl ClosedFiles {
    /// Continues the files in their folder, which was opened again.
    #[must_use]
    pub fn open(self, directory: Directory) -> Files {
        let ClosedFiles { name, streams, is_gathered } = self;
        Files { directory, name, streams, open: None, is_gathered }
    }
}

impl Sink for Files {
    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn set_metadata(&mut self, text: &str) -> Result<(), Error> {
        self.directory.set_metadata(text)
    }

    fn metadata_bytes(&self) -> u64 {
        self.directory.metadata_bytes()
    }

    fn append(&mut self, cpu: u32, header: Header, body: &Body<'_>) -> Result<(), Error> {
        let (directory, file, fd) = self.file(cpu)?;
        file.append(directory, fd, header, |fd, at, header| body.write_to(fd, at, header))
    }

    fn set_end(&mut self, cpu: u32, end: u64) -> Result<(), Error> {
        let (directory, file, fd) = self.file(cpu)?;
        file.set_end(directory, fd, end)
    }

    fn stream_bytes(&self, cpu: u32) -> u64 {
        self.streams.get(cpu as usize).and_then(Option::as_ref).map_or(0, StreamFile::bytes)
    }

    fn pause(&mut self) {
        self.open = None;
    }

    fn set_stream(&mut self, name: &str, header: &[u8], body: &[u8]) -> Result<(), Error> {
        self.directory.set_stream(name, header, body)
    }

    fn set_symbols(&mut self, symbols: &[u8]) -> Result<(), Error> {
        self.directory.set_stream(kernel_symbols::FILE, &[], symbols)
    }

    fn set_progress(&mut self, mark: &ProgressMark) -> Result<(), Error> {
        self.directory.set_progress(mark)
    }

    fn check(&self) -> Result<(), Error> {
        self.directory.check()
    }

    fn end(&mut self, ending: Ending, losses: Losses) -> Result<(), Error> {
        for file in self.streams.iter_mut().flatten() {
            file.trim(&self.directory);
        }
        self.directory.end(ending, losses)
    }

    fn directory(&self) -> Option<&Directory> {
        Some(&self.directory)
    }

    fn hidden_streams(&mut self) -> Option<&mut dyn HiddenStreams> {
        self.is_gathered.then_some(self as &mut dyn HiddenStreams)
    }
}

impl HiddenStreams for Files {
    fn take_back(&mut self, cpu: u32) {
        if let Some(Some(file)) = self.streams.get_mut(cpu as usize) {
            file.take_back();
        }
    }

    fn show(&mut self, cpu: u32) -> Result<(), Error> {
        self.open = None;
        match self.streams.get_mut(cpu as usize) {
            Some(Some(file)) => file.show_gathered(&self.directory),
            _ => Ok(()),
        }
    }
}

/// Installs a handler that does nothing for SIGXFSZ, so that a write beyond RLIMIT_FSIZE is an error and does not kill
/// this program. SIG_IGN would be inherited by programs that are started from here.
fn keep_sigxfsz_away() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails only for signals that cannot be caught.
        let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    });
}

/// Replaces the last packet's size in the file, atomically for readers.
fn set_packet_bytes(fd: &OwnedFd, last: &LastInFile, bytes: u64) -> io::Result<()> {
    let at = last.at + PACKET_BITS_OFFSET;
    strata_ring::write_both(fd.as_fd(), at, &(bytes * 8).to_ne_bytes(), &[]).map(|_| ())
}

/// Makes each page between `from` and `to` an empty packet that continues `last`.
fn fill(fd: &OwnedFd, last: &Header, from: u64, to: u64) -> io::Result<()> {
    let mut pages = vec![0; ((to - from).min(FILLERS * PAGE)) as usize];
    let header = Header { timestamp_begin: last.timestamp_end, ..*last }.with_content_bytes(0);
    let (mut at, mut sequence) = (from, last.sequence);
    while at < to {
        let bytes = (to - at).min(pages.len() as u64);
        let pages = &mut pages[..bytes as usize];
        for page in pages.chunks_exact_mut(PAGE as usize) {
            sequence += 1;
            let header = Header { packet_bits: PAGE * 8, sequence, ..header };
            page[..HEADER_BYTES].copy_from_slice(&header.encode());
        }
        strata_ring::write_both(fd.as_fd(), at, pages, &[])?;
        at += bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use strata_ctf::end_mark::EndMark;
    use strata_model::{ByteOrder, ClockClass, RecordHeader, StreamClass, Trace, Uuid};

    const UUID: Uuid = Uuid(*b"0123456789abcdef");

    /// Makes a header whose times are all 0.
    fn header(sequence: u64, body_bytes: u64) -> Header {
        Header { uuid: UUID, sequence, ..Header::default() }.with_content_bytes(body_bytes)
    }

    /// A folder with a trace's metadata; records of class 0 are 4 zeros.
    fn folder(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("strata-files-{name}-{}", std::process::id()));
        let directory = Directory::create(&path).unwrap();
        let event = strata_model::EventClass {
            id: 0,
            provider: String::new(),
            name: "e".into(),
            loglevel: None,
            emf_uri: None,
            context: Vec::new(),
            fields: Vec::new(),
        };
        let trace = Trace {
            uuid: UUID,
            byte_order: ByteOrder::NATIVE,
            environment: Vec::new(),
            clock: ClockClass::monotonic(None, 0),
            streams: vec![StreamClass {
                id: 0,
                name: "s".into(),
                header: RecordHeader::Compact,
                context: Vec::new(),
                events: vec![event],
            }],
        };
        directory.set_metadata(&strata_ctf::metadata::write(&trace)).unwrap();
        directory
    }

    /// Checks that so many records are read from so many packets, without damage.
    fn check(directory: &Directory, packets: usize, records: usize) {
        let bytes = std::fs::read(directory.path().join("s_0")).unwrap();
        let (mut at, mut found) = (0, 0);
        while at < bytes.len() {
            assert_eq!(bytes[at + 4..at + 20], UUID.0);
            let size = &bytes[at + PACKET_BITS_OFFSET as usize..][..8];
            at += u64::from_ne_bytes(size.try_into().unwrap()) as usize / 8;
            found += 1;
        }
        assert_eq!((at, found), (bytes.len(), packets));
        match Command::new("babeltrace2").arg(directory.path()).output() {
            Ok(output) => {
                let talk = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success() && talk.is_empty(), "{talk}");
                assert_eq!(output.stdout.split(|b| *b == b'\n').count() - 1, records);
            }
            Err(error) => {
                assert!(std::env::var("CI").as_deref() != Ok("true"), "babeltrace2: {error}");
                println!("skip: missing tool: babeltrace2: {error}");
            }
        }
    }

    fn append(file: &mut StreamFile, directory: &Directory, sequence: u64, records: usize) {
        let fd = file.open(directory).unwrap();
        let body = vec![0; records * 4];
        let header = header(sequence, body.len() as u64);
        file.append(directory, &fd, header, |fd, at, header| {
            strata_ring::write_both(fd, at, header, &body)
        })
        .unwrap();
    }

    #[test]
    fn file_between_any_two_steps_of_an_append_is_whole_packets() {
        let directory = folder("steps");
        let mut file = StreamFile::new("s_0".into(), false);
        append(&mut file, &directory, 0, 3);
        append(&mut file, &directory, 1, 1000);
        check(&directory, 2, 1003);
        let (fd, last) = (file.open(&directory).unwrap(), file.last.unwrap());
        // 1 to 3, and whoever comes next is killed there.
        fill(&fd, &last.header, file.bytes, file.bytes + 40 * PAGE).unwrap();
        check(&directory, 42, 1003);
        set_packet_bytes(&fd, &last, file.bytes + 40 * PAGE - last.at).unwrap();
        check(&directory, 2, 1003);
        strata_ring::write_both(fd.as_fd(), last.next, &[0xee; 30 * PAGE as usize], &[]).unwrap();
        check(&directory, 2, 1003);
        // Back, and all of it.
        set_packet_bytes(&fd, &last, file.bytes - last.at).unwrap();
        fs::ftruncate(&fd, file.bytes).unwrap();
        append(&mut file, &directory, 2, 40_000);
        check(&directory, 3, 41_003);
        std::fs::remove_dir_all(directory.path()).unwrap();
    }

    #[test]
    fn blocks_behind_a_growing_file_are_given_back_at_its_end_also_by_who_goes_on() {
        use std::os::unix::fs::MetadataExt as _;
        let directory = folder("reserved");
        directory.begin().unwrap();
        let path = directory.path().join("s_0");
        let behind = || {
            std::fs::File::open(&path).unwrap().sync_all().unwrap();
            let about = std::fs::metadata(&path).unwrap();
            (about.blocks() * 512).saturating_sub(about.len())
        };
        // As by another writer that was killed.
        let leave_more = |bytes: u64| {
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            fs::fallocate(&file, FallocateFlags::KEEP_SIZE, bytes, RESERVED_MAX).is_ok()
        };
        let mut files = Files::new(directory, "s");
        let body = vec![0; 40_000];
        let write = |files: &mut Files, from: u64| {
            for sequence in from..from + 40 {
                let header = header(sequence, body.len() as u64);
                files.append(0, header, &Body::Bytes(&body)).unwrap();
            }
        };
        write(&mut files, 0);
        let is_ext4 = fs::statfs(&path).is_ok_and(|about| about.f_type as u64 == EXT4);
        let reserved = files.streams[0].as_ref().unwrap().reserved;
        assert_eq!(is_ext4, reserved != Reserved::Never, "{reserved:?}");
        assert!(!is_ext4 || behind() > 64 << 10, "{}", behind());
        let most = (1 << 20) + RESERVED_MAX / RESERVED_SHARE;
        assert!(behind() <= most, "{}", behind());
        let (directory, _) = files.close();
        check(&directory, 40, 400_000);
        let (mut files, _) = Files::resume(directory, "s").unwrap();
        let can_reserve = leave_more(files.stream_bytes(0));
        assert!(!can_reserve || behind() >= RESERVED_MAX);
        files.end(Ending::Ended, Losses::default()).unwrap();
        // Blocks of the file system's own for a file's extents.
        assert!(behind() <= 4 * PAGE, "{}", behind());
        write(&mut files, 40);
        files.end(Ending::Ended, Losses::default()).unwrap();
        assert!(behind() <= 4 * PAGE, "{}", behind());
        let (directory, _) = files.close();
        check(&directory, 80, 800_000);
        std::fs::remove_dir_all(directory.path()).unwrap();
    }

    #[test]
    fn end_mark_of_a_folder_is_read_as_running_and_then_as_it_ended() {
        use strata_ctf::read::{Reader, RecordingEnd};
        let directory = folder("mark");
        // As the environment says that there is one.
        let text = std::fs::read_to_string(directory.path().join("metadata")).unwrap();
        directory
            .set_metadata(&text.replace("clock {", "env { strata_end_mark = 1; }; clock {"))
            .unwrap();
        let end = || {
            let reader = Reader::open(&[directory.path()]).unwrap();
            let [end] = reader.ends() else { panic!("{:?}", reader.ends()) };
            (end.end.clone(), end.is_complete())
        };
        assert_eq!(end(), (RecordingEnd::Absent, false));
        directory.begin().unwrap();
        let mut file = StreamFile::new("s_0".into(), false);
        append(&mut file, &directory, 0, 3);
        assert_eq!(end(), (RecordingEnd::Running, true));
        let losses = Losses { unwritten: 7, ..Losses::default() };
        directory.end(Ending::NoSpace, losses).unwrap();
        let mark = EndMark {
            ending: Ending::NoSpace,
            losses,
            files: 1,
            bytes: 4096,
            ..EndMark::default()
        };
        assert_eq!(end(), (RecordingEnd::Marked(mark), false));
        directory.end(Ending::Ended, Losses::default()).unwrap();
        assert!(end().1);
        check(&directory, 1, 3);
        directory.remove(strata_ctf::end_mark::FILE).unwrap();
        let gone = directory.end(Ending::Ended, Losses::default());
        assert!(matches!(gone, Err(Error::Gone { .. })), "{gone:?}");
        std::fs::remove_dir_all(directory.path()).unwrap();
    }

    #[test]
    fn append_that_fails_in_the_middle_leaves_what_was_there_and_can_be_tried_again() {
        let directory = folder("middle");
        let mut file = StreamFile::new("s_0".into(), false);
        for (sequence, packets, records) in [(0, 0, 0), (1, 1, 3000)] {
            let fd = file.open(&directory).unwrap();
            let error = file.append(&directory, &fd, header(sequence, 12_000), |fd, at, header| {
                strata_ring::write_both(fd, at, header, &[0xee; 5000])?;
                Err(Errno::NOSPC.into())
            });
            assert!(matches!(error, Err(Error::NoSpace { .. })), "{error:?}");
            assert!(!directory.path().join(".s_0").exists());
            if packets > 0 {
                check(&directory, packets, records);
            }
            append(&mut file, &directory, sequence, 3000);
            check(&directory, packets + 1, records + 3000);
        }
        std::fs::remove_dir_all(directory.path()).unwrap();
    }
}
