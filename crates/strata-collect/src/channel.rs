//! Sends the traces of a guest to the recorder on its host, over a channel of bytes. Each trace is a sink, as a folder
//! is, and the host's recorder writes the folders.
//!
//! ```text
//! pumps              sinks: whole messages, one at a time                     Channel
//! strata-relay       what the host says: what time it is asked, and to stop   Relay::listen
//! ```
//!
//! The guest cannot wait for the host, and the host must not wait for the guest: what the host does not accept stays in
//! the buffers, until these are full and discard records. A host that accepts nothing for [`PATIENCE`] counts as gone.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use strata_ctf::end_mark::{Ending, Losses};
use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_model::{Counts, Uuid};
use strata_relay::{
    CounterPair, Frames, FromGuest, Hello, PacketBytes, Place, ToGuest, TraceOf, Wire,
    FRAME_BYTES_MAX, PAGE_BYTES, VERSION,
};
use strata_ring::{Channel as Ring, Pin};

use crate::collector::now_ns;
use crate::error::Error;
use crate::output::Output;
use crate::physical_addresses::Memory;
use crate::sink::{Body, MemoryReader, Sink};

/// The longest time for which the host may accept nothing. Time in which a virtual machine is paused does not count.
const PATIENCE: Duration = Duration::from_secs(20);
/// The least number of checks within [`PATIENCE`], so that a guest that its host does not run does not count as
/// waiting.
const LOOKS: u32 = 100;
/// The longest time without a peer at a device: when another hypervisor takes over the guest, the host's recorder needs
/// some time to return.
const AWAY: Duration = Duration::from_secs(2);
/// The longest time that the host may be silent at the end.
const PATIENCE_AT_END: Duration = Duration::from_secs(5);
/// The most bytes of the kernel's function names, which are sent in one message \[byte\].
const SYMBOLS_BYTES_MAX: usize = FRAME_BYTES_MAX - 4;
/// Period of the first message until the host answers.
const HELLO_PERIOD: Duration = Duration::from_millis(500);
/// Period at which the threads look for stop requests.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// The connection to the host, shared by the threads that write to it.
#[derive(Debug)]
struct Link {
    wire: Wire,
    path: PathBuf,
    /// Locked while one message is written, so that messages are not mixed.
    writing: Mutex<()>,
    /// True after the channel has failed; nothing can be written any more.
    is_broken: AtomicBool,
    /// True once the recording is ending, so that no more questions are answered.
    is_over: AtomicBool,
    /// Addresses of the buffers, if the host can read the guest's memory.
    memory: OnceLock<Memory>,
    /// Function that reads the CPU's counter and the clock.
    pair: fn() -> CounterPair,
}

impl Link {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let _one = lock(&self.writing);
        self.write_one(bytes)
    }

    /// Writes one message; the caller holds `writing`.
    fn write_one(&self, bytes: &[u8]) -> io::Result<()> {
        if self.is_broken.load(Ordering::Acquire) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let since = Instant::now();
        let mut looks = 0;
        let written = self.wire.write_all(bytes, &mut || {
            looks += 1;
            looks > LOOKS && since.elapsed() > PATIENCE
        });
        if written.is_err() {
            // A part of it may be written: nothing behind it would be understood.
            self.is_broken.store(true, Ordering::Release);
        }
        written
    }

    fn say(&self, message: &FromGuest<'_>) -> Result<(), Error> {
        self.write(&message.encode()).map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> Error {
        Error::Write { path: self.path.clone(), source }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The output of a recorder in a guest: sends all traces to the host.
#[derive(Debug)]
pub struct Relay {
    link: Arc<Link>,
    next: u32,
    /// Numbers of the traces in messages, by folder.
    ids: HashMap<PathBuf, u32>,
}

/// Receives the host's messages in a thread of its own.
#[derive(Debug)]
pub struct Listener {
    link: Arc<Link>,
    frames: Frames,
}

/// Description of a guest in its first message.
#[derive(Clone, Debug)]
pub struct Guest {
    /// UUID of this recording, new for each one.
    pub recording: Uuid,
    /// UUID of the guest's boot, whose clock the traces use; absent if the guest does not report it.
    pub boot: Option<Uuid>,
    /// The guest's name for itself.
    pub hostname: String,
    /// Function that reads the CPU's counter and the clock at one moment.
    pub pair: fn() -> CounterPair,
}

impl Relay {
    /// Waits until a host's recorder answers, or until `is_over` returns true.
    ///
    /// # Errors
    /// `Interrupted` if `is_over` returned true. Otherwise `place` is no channel, or the host refuses this kind of
    /// guest.
    pub fn meet(
        place: &Place,
        guest: &Guest,
        is_over: &mut dyn FnMut() -> bool,
    ) -> io::Result<(Relay, Listener)> {
        let wire = open(place, is_over)?;
        let hello = Hello {
            version: VERSION,
            is_of_our_order: true,
            recording: guest.recording,
            boot: guest.boot.unwrap_or(Uuid([0; 16])),
            hostname: guest.hostname.clone(),
        };
        let hello = FromGuest::Hello(hello).encode();
        let link = Arc::new(Link {
            wire,
            path: PathBuf::from(place.to_string()),
            writing: Mutex::new(()),
            is_broken: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            memory: OnceLock::new(),
            pair: guest.pair,
        });
        let (mut frames, mut buffer) = (Frames::default(), [0; 4096]);
        let mut next = Instant::now();
        loop {
            if is_over() {
                return Err(ErrorKind::Interrupted.into());
            }
            if Instant::now() >= next {
                // Nobody may be there who takes it, yet.
                match link.wire.write_all(&hello, is_over) {
                    Err(error) if error.kind() == ErrorKind::TimedOut => continue,
                    written => written?,
                }
                next = Instant::now() + HELLO_PERIOD;
            }
            match link.wire.read(&mut buffer, LOOK_PERIOD)? {
                Some(0) if link.wire.is_device() => std::thread::sleep(LOOK_PERIOD), // Time: between two looks.
                Some(0) => return Err(ErrorKind::ConnectionAborted.into()),
                Some(bytes) => frames.push(buffer.get(..bytes).unwrap_or_default()),
                None => {}
            }
            // What is there may have been said to a recorder that is not there any more.
            while let Some(said) = next_said(&mut frames) {
                match said {
                    ToGuest::Welcome { version, recording, reads_memory }
                        if recording == guest.recording =>
                    {
                        if version != VERSION {
                            return Err(io::Error::other(format!(
                                "the host's recorder speaks version {version} of the protocol, this one {VERSION}"
                            )));
                        }
                        // While this has all of its rights.
                        let memory = reads_memory.then(|| Memory::open(guest.recording)).flatten();
                        if let Some(memory) = memory {
                            let _ = link.memory.set(memory);
                        }
                        let relay = Relay { link: Arc::clone(&link), next: 0, ids: HashMap::new() };
                        return Ok((relay, Listener { link, frames }));
                    }
                    ToGuest::Ping { number } => answer(&link, number)?,
                    ToGuest::Refused => {
                        return Err(io::Error::other(
                            "the host's recorder does not take this guest",
                        ))
                    }
                    ToGuest::Welcome { .. } | ToGuest::Stop => {}
                }
            }
        }
    }

    /// Announces a new trace of this layer or process to the host and returns its sink.
    fn begin(&mut self, of: TraceOf) -> Result<Channel, Error> {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        let path = self.link.path.join(id.to_string());
        let is_of_kernel = of == TraceOf::Kernel;
        self.link.say(&FromGuest::Trace { id, of })?;
        self.ids.insert(path.clone(), id);
        Ok(Channel {
            link: Arc::clone(&self.link),
            id,
            path,
            text: String::new(),
            bytes: HashMap::new(),
            upto: HashMap::new(),
            is_of_kernel,
            pin: None,
        })
    }

    /// Reports to the host that everything was recorded, and waits until it has received what is in flight.
    ///
    /// # Errors
    /// The host does not accept the message.
    pub fn end(&self) -> Result<(), Error> {
        // Who has heard it may be gone before this goes on.
        self.link.is_over.store(true, Ordering::Release);
        self.link.say(&FromGuest::End)
    }
}

impl Listener {
    /// Answers the host's messages until the recording is over. `stop` is called when the host's recording ends.
    ///
    /// # Errors
    /// The host is gone, or has sent an invalid message.
    pub fn listen(mut self, stop: &mut dyn FnMut()) -> io::Result<()> {
        let (mut buffer, mut silent) = ([0; 4096], Instant::now());
        let (mut away, mut returned): (Option<Instant>, Option<Instant>) = (None, None);
        loop {
            let is_over = self.link.is_over.load(Ordering::Acquire);
            // Another recorder of the host, which knows nothing of this one, asks nothing.
            if returned.is_some_and(|since| since.elapsed() > PATIENCE_AT_END) {
                self.link.is_broken.store(true, Ordering::Release);
                return Err(ErrorKind::ConnectionAborted.into());
            }
            match self.link.wire.read(&mut buffer, LOOK_PERIOD)? {
                // The host has all of it, or is gone.
                Some(0) if is_over => return Ok(()),
                Some(0)
                    if self.link.wire.is_device()
                        && away.get_or_insert_with(Instant::now).elapsed() < AWAY =>
                {
                    std::thread::sleep(LOOK_PERIOD); // Time: between two looks.
                    continue;
                }
                Some(0) => {
                    self.link.is_broken.store(true, Ordering::Release);
                    return Err(ErrorKind::ConnectionAborted.into());
                }
                Some(bytes) => {
                    silent = Instant::now();
                    returned = returned.or(away.take().map(|_| silent));
                    self.frames.push(buffer.get(..bytes).unwrap_or_default());
                }
                None if is_over && silent.elapsed() > PATIENCE_AT_END => return Ok(()),
                None => returned = returned.or(away.take().map(|_| Instant::now())),
            }
            while let Some((kind, payload)) = self.frames.next_frame().map_err(nonsense)? {
                match ToGuest::decode(kind, payload).map_err(nonsense)? {
                    ToGuest::Ping { number } => {
                        returned = None;
                        answer(&self.link, number)?;
                    }
                    ToGuest::Stop if is_over => return Ok(()),
                    ToGuest::Stop => stop(),
                    ToGuest::Refused => {
                        self.link.is_broken.store(true, Ordering::Release);
                        return Err(io::Error::other("the host's recorder takes nothing any more"));
                    }
                    ToGuest::Welcome { .. } => {}
                }
            }
        }
    }
}

fn nonsense(problem: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("the host's recorder: {problem}"))
}

/// Returns the next message, and skips invalid ones.
fn next_said(frames: &mut Frames) -> Option<ToGuest> {
    loop {
        match frames.next_frame() {
            Ok(None) => return None,
            Ok(Some((kind, payload))) => {
                if let Ok(said) = ToGuest::decode(kind, payload) {
                    return Some(said);
                }
            }
            Err(_) => drop(frames.pass()),
        }
    }
}

/// Sends the times at which the host's question arrived and at which it is answered, while no other thread writes.
/// Sends nothing at the end of the recording, when the host may have ended and the write might never return.
fn answer(link: &Link, number: u64) -> io::Result<()> {
    let received_ns = now_ns();
    let _one = lock(&link.writing);
    if link.is_over.load(Ordering::Acquire) {
        return Ok(());
    }
    let pair = (link.pair)();
    let sent_ns = now_ns();
    link.write_one(&FromGuest::Pong { number, received_ns, sent_ns, pair }.encode())
}

/// Opens the channel, and waits for a socket that does not exist yet.
fn open(place: &Place, is_over: &mut dyn FnMut() -> bool) -> io::Result<Wire> {
    loop {
        match Wire::open(place) {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
            {
                if is_over() {
                    return Err(ErrorKind::Interrupted.into());
                }
                std::thread::sleep(LOOK_PERIOD); // Time: between two looks.
            }
            opened => return opened,
        }
    }
}

impl Output for Relay {
    fn trace(
        &mut self,
        _layer: &str,
        process: Option<(&[u8], u32)>,
    ) -> Result<Box<dyn Sink>, Error> {
        let of = match process {
            None => TraceOf::Kernel,
            Some((name, pid)) => {
                TraceOf::Process { pid, name: String::from_utf8_lossy(name).into_owned() }
            }
        };
        Ok(Box::new(self.begin(of)?))
    }

    fn remove(&mut self, _layer: &str, sink: Box<dyn Sink>) {
        if let Some(id) = self.ids.remove(sink.path()) {
            // Else nothing is heard of anything.
            let _ = self.link.say(&FromGuest::Gone { id });
        }
    }

    fn ended(&mut self, sink: &dyn Sink, counts: &Counts, besides: &Counts) {
        let Some(id) = self.ids.remove(sink.path()) else { return };
        let mut all = *counts;
        all.add(besides);
        let (discarded, overwritten) = (all.discarded.total(), all.overwritten);
        let said = FromGuest::Counted { id, records: all.records, discarded, overwritten };
        let _ = self.link.say(&said);
    }
}

/// The sink of one trace of a guest.
#[derive(Debug)]
struct Channel {
    link: Arc<Link>,
    id: u32,
    path: PathBuf,
    text: String,
    bytes: HashMap<u32, u64>,
    /// For each CPU, the position in its ring up to which packets were sent \[byte since stream creation\].
    upto: HashMap<u32, u64>,
    is_of_kernel: bool,
    /// Pin that keeps the buffers at their physical addresses; `None` if they may move.
    pin: Option<Pin>,
}

impl Sink for Channel {
    fn path(&self) -> &Path {
        &self.path
    }

    /// Sends only the changed end of the metadata, since most changes append.
    fn set_metadata(&mut self, text: &str) -> Result<(), Error> {
        let keep = match text.starts_with(&self.text) {
            true => self.text.len(),
            false => 0,
        };
        let rest = text.get(keep..).unwrap_or_default();
        self.link.say(&FromGuest::Metadata { id: self.id, keep: keep as u64, text: rest })?;
        text.clone_into(&mut self.text);
        Ok(())
    }

    fn metadata_bytes(&self) -> u64 {
        self.text.len() as u64
    }

    fn append(&mut self, stream: u32, header: Header, body: &Body<'_>) -> Result<(), Error> {
        let mut copied = Vec::new();
        let body = body.in_memory(&mut copied);
        let body = body.map_err(|source| Error::Ring { path: self.path.clone(), source })?;
        // What is copied is what is said, whatever its producer does meanwhile.
        let header = header.with_content_bytes(body.len() as u64);
        let packet = PacketBytes { header, body };
        let upto = self.upto.get(&stream).copied().unwrap_or(0);
        self.link.say(&FromGuest::Packet { id: self.id, stream, upto, packet })?;
        *self.bytes.entry(stream).or_default() += header.content_bits / 8;
        Ok(())
    }

    fn set_end(&mut self, stream: u32, end: u64) -> Result<(), Error> {
        self.link.say(&FromGuest::SetEnd { id: self.id, stream, end_ns: end })
    }

    fn stream_bytes(&self, cpu: u32) -> u64 {
        self.bytes.get(&cpu).copied().unwrap_or(0)
    }

    fn set_stream(&mut self, name: &str, header: &[u8], body: &[u8]) -> Result<(), Error> {
        let header = header.first_chunk::<HEADER_BYTES>().and_then(Header::decode);
        let header = header.ok_or_else(|| self.link.error(ErrorKind::InvalidData.into()))?;
        let packet = PacketBytes { header, body };
        self.link.say(&FromGuest::Stream { id: self.id, name, packet })
    }

    fn set_symbols(&mut self, symbols: &[u8]) -> Result<(), Error> {
        if symbols.len() > SYMBOLS_BYTES_MAX {
            let (bytes, most) = (symbols.len(), SYMBOLS_BYTES_MAX);
            let problem = format!("names of the kernel's functions have {bytes} bytes, at most {most} can be handed over");
            return Err(self.link.error(io::Error::other(problem)));
        }
        self.link.say(&FromGuest::Symbols { id: self.id, bytes: symbols })
    }

    fn check(&self) -> Result<(), Error> {
        match self.link.is_broken.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(self.link.error(ErrorKind::BrokenPipe.into())),
        }
    }

    fn end(&mut self, ending: Ending, losses: Losses) -> Result<(), Error> {
        self.link.say(&FromGuest::Ended { id: self.id, ending, losses })
    }

    fn memory_reader(&mut self) -> Option<&mut dyn MemoryReader> {
        self.link.memory.get().is_some().then_some(self as &mut dyn MemoryReader)
    }
}

impl MemoryReader for Channel {
    fn lies_in(&mut self, channel: &Ring) -> Result<(), Error> {
        let Some(memory) = self.link.memory.get() else { return Ok(()) };
        let pages = channel.mapped_bytes() as usize / PAGE_BYTES;
        if pages < 2 {
            return Ok(());
        }
        // The kernel's maps do not move. Files in memory may: what is told of those must stay true.
        if !self.is_of_kernel && self.pin.is_none() {
            let Some(pin) = memory.pin(channel) else { return Ok(()) };
            self.pin = Some(pin);
        }
        // Without addresses it is as without memory that the host can read.
        let all = memory.addresses(channel.address() + PAGE_BYTES, pages - 1);
        let (Ok(all), Some(marker)) = (all, memory.marker()) else { return Ok(()) };
        let pages: Vec<u8> = all.into_iter().flat_map(u64::to_le_bytes).collect();
        let first = &channel.first_page()[..];
        self.link.say(&FromGuest::Memory { id: self.id, marker, first, pages: &pages })
    }

    fn goes_upto(&mut self, cpu: u32, position: u64) {
        self.upto.insert(cpu, position);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn ping_is_answered_until_the_recording_is_over() {
        for is_over in [false, true] {
            let (guest, mut host) = UnixStream::pair().unwrap();
            let link = Link {
                wire: Wire::of(guest.into()).unwrap(),
                path: PathBuf::new(),
                writing: Mutex::new(()),
                is_broken: AtomicBool::new(false),
                is_over: AtomicBool::new(is_over),
                memory: OnceLock::new(),
                pair: || CounterPair { before: 1, at_ns: 2, behind: 3 },
            };
            let link = Arc::new(link);
            let listener = Listener { link: Arc::clone(&link), frames: Frames::default() };
            host.write_all(&ToGuest::Ping { number: 7 }.encode()).unwrap();
            host.write_all(&ToGuest::Stop.encode()).unwrap();
            host.shutdown(Shutdown::Write).unwrap();
            // That the host has gone is no failure once all is over.
            listener.listen(&mut || link.is_over.store(true, Ordering::Release)).unwrap();
            drop(link);
            let mut said = Vec::new();
            host.read_to_end(&mut said).unwrap();
            assert_eq!(said.is_empty(), is_over, "{said:?}");
        }
    }
}
