//! The output of a recorder whose traces are sent to a relay.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_collect::{Body, Error, Output, Sink};
use strata_ctf::end_mark::{Ending, Losses};
use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_ctf::progress_mark::ProgressMark;
use strata_model::{temporary_folder, Counts, Uuid};
use strata_relay::{
    packet_frame, CounterPair, FromGuest, FromRecorder, Open, PacketBytes, FRAME_BYTES_MAX,
    METADATA_BYTES_MAX, REMOTE_VERSION,
};

use crate::recorder::relay_link::Link;
use crate::recorder::sender::Sender;
use crate::transport::target::Target;

/// Description of a recording in its first message.
#[derive(Clone, Debug)]
pub struct Recording {
    /// UUID of the recording, new for each recording.
    pub uuid: Uuid,
    /// UUID of the boot whose clock the traces have; `None` if it is unknown.
    pub boot: Option<Uuid>,
    /// Name of this host.
    pub host: String,
    /// Requested name of the recording's folder.
    pub session: String,
    /// Function that reads the CPU's counter and the clock at one moment.
    pub pair: fn() -> CounterPair,
    /// Function that the sending thread calls first, to give up rights.
    pub begin: fn(),
    /// True if the relay has taken an earlier part of the same session. A refusal is then temporary, for example for
    /// lack of space, and the recording is offered again later.
    pub is_later_part: bool,
}

/// The output that makes a sink for each trace of a recording.
#[derive(Debug)]
pub struct RemoteOutput {
    link: Arc<Link>,
    next: u32,
    /// Numbers of the traces in messages, by path.
    ids: HashMap<PathBuf, u32>,
    /// A counter of the sinks, each of which holds a clone.
    sinks: Arc<()>,
    /// The sender, and the function that its thread calls first; `None` once the thread runs.
    waiting: Option<(Sender, fn())>,
}

impl RemoteOutput {
    /// Starts a thread that talks to the relay. Does not wait for the connection; until then, packets stay in memory.
    ///
    /// # Errors
    /// A system call failed.
    pub fn begin(target: Target, recording: Recording) -> io::Result<RemoteOutput> {
        let mut output = RemoteOutput::begin_with_first_trace(target, recording)?;
        output.start()?;
        Ok(output)
    }

    /// Makes an output that connects to the relay when its first trace begins: an output without traces leaves
    /// nothing at the relay.
    ///
    /// # Errors
    /// A system call failed.
    pub fn begin_with_first_trace(
        target: Target,
        recording: Recording,
    ) -> io::Result<RemoteOutput> {
        let link = Arc::new(Link::new(&format!("{}/{}", target.address, recording.session))?);
        if let Some(most) = target.spool {
            let folder = temporary_folder();
            let spool = link.set_spool(&folder, most);
            spool.map_err(|error| {
                let why = format!("no spool in {}: {error}", folder.display());
                io::Error::new(error.kind(), why)
            })?;
        }
        let open = Open {
            version: REMOTE_VERSION,
            is_of_our_order: true,
            recording: recording.uuid,
            boot: recording.boot.unwrap_or(Uuid([0; 16])),
            first: 0,
            host: recording.host,
            session: recording.session,
        };
        let Recording { pair, begin, is_later_part, .. } = recording;
        let sender = Sender { link: Arc::clone(&link), target, open, pair, is_later_part };
        let waiting = Some((sender, begin));
        Ok(RemoteOutput { link, next: 0, ids: HashMap::new(), sinks: Arc::new(()), waiting })
    }

    /// Starts the thread that talks to the relay, unless it runs.
    ///
    /// # Errors
    /// A system call failed.
    fn start(&mut self) -> io::Result<()> {
        let Some((sender, begin)) = self.waiting.take() else { return Ok(()) };
        self.link.begin_to_connect();
        let thread = std::thread::Builder::new().name("strata-remote".to_owned());
        // The thread ends by itself once nobody waits for it.
        let started = thread.spawn(move || {
            begin();
            sender.run();
        });
        started.map(drop).inspect_err(|error| {
            self.link.fail(format!("no thread that sends: {error}"));
        })
    }

    /// Returns true if there is a thread that talks to the relay.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.waiting.is_none()
    }

    /// Returns true if sinks of this output exist, which may still write.
    #[must_use]
    pub fn has_sinks(&self) -> bool {
        Arc::strong_count(&self.sinks) > 1
    }

    /// Returns true if a trace was begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.next > 0
    }

    /// Returns whether the sink belongs to a trace of this output.
    #[must_use]
    pub fn has(&self, sink: &dyn Sink) -> bool {
        sink.path().starts_with(self.link.path())
    }

    /// Returns the link, which has the state of the connection.
    #[must_use]
    pub fn link(&self) -> Arc<Link> {
        Arc::clone(&self.link)
    }
}

impl Output for RemoteOutput {
    fn trace(
        &mut self,
        layer: &str,
        process: Option<(&[u8], u32)>,
    ) -> Result<Box<dyn Sink>, Error> {
        let started = self.start();
        started.map_err(|source| self.link.error(source))?;
        let id = self.next;
        let process = process.map(|(name, pid)| (pid, String::from_utf8_lossy(name).into_owned()));
        self.link.say(&FromRecorder::Begin { id, layer: layer.to_owned(), process })?;
        self.next = id.wrapping_add(1);
        let path = self.link.path().join(id.to_string());
        self.ids.insert(path.clone(), id);
        let (link, of) = (Arc::clone(&self.link), Arc::clone(&self.sinks));
        let (metadata_bytes, streams) = (0, HashMap::new());
        Ok(Box::new(RemoteTrace { link, _of: of, id, path, metadata_bytes, streams }))
    }

    fn remove(&mut self, _layer: &str, sink: Box<dyn Sink>) {
        if let Some(id) = self.ids.remove(sink.path()) {
            // A relay that does not get this message keeps an empty trace.
            let _ = self.link.say(&FromRecorder::Data(FromGuest::Gone { id }));
        }
    }

    fn ended(&mut self, sink: &dyn Sink, counts: &Counts, besides: &Counts) {
        let Some(id) = self.ids.remove(sink.path()) else { return };
        let mut all = *counts;
        all.add(besides);
        let (discarded, overwritten) = (all.discarded.total(), all.overwritten);
        let said = FromGuest::Counted { id, records: all.records, discarded, overwritten };
        // The end mark of the trace has the important numbers.
        let _ = self.link.say(&FromRecorder::Data(said));
    }
}

/// A sink that sends its trace to a relay.
#[derive(Debug)]
struct RemoteTrace {
    link: Arc<Link>,
    _of: Arc<()>,
    id: u32,
    path: PathBuf,
    metadata_bytes: u64,
    /// Size of each stream so far \[byte\], and the number of its last packet.
    streams: HashMap<u32, (u64, u64)>,
}

impl RemoteTrace {
    fn say(&self, message: FromGuest<'_>) -> Result<(), Error> {
        self.link.say(&FromRecorder::Data(message))
    }

    /// Makes the error for data that are larger than a message may be.
    fn too_large(&self, what: &str, bytes: usize, most: usize) -> Error {
        self.link.error(io::Error::other(format!(
            "{what} has {bytes} bytes, at most {most} can be sent to a relay"
        )))
    }
}

impl Sink for RemoteTrace {
    fn path(&self) -> &Path {
        &self.path
    }

    /// Sends the metadata as a whole each time, since a relay that was started again may not have the previous
    /// ones.
    fn set_metadata(&mut self, text: &str) -> Result<(), Error> {
        if text.len() > METADATA_BYTES_MAX {
            return Err(self.too_large("the metadata of a trace", text.len(), METADATA_BYTES_MAX));
        }
        self.say(FromGuest::Metadata { id: self.id, keep: 0, text })?;
        self.metadata_bytes = text.len() as u64;
        Ok(())
    }

    fn metadata_bytes(&self) -> u64 {
        self.metadata_bytes
    }

    fn append(&mut self, stream: u32, header: Header, body: &Body<'_>) -> Result<(), Error> {
        self.append_counted(stream, header, body, 0)
    }

    fn append_counted(
        &mut self,
        stream: u32,
        header: Header,
        body: &Body<'_>,
        records: u64,
    ) -> Result<(), Error> {
        let path = &self.path;
        let mut bytes = 0;
        // The header is made for the bytes that were copied, whatever the producer writes at the same time.
        self.link.say_packet(|buffer| {
            packet_frame(buffer, (self.id, stream, records), header, |out| {
                let before = out.len();
                let copied = body.copy_to(out);
                copied.map_err(|source| Error::Ring { path: path.clone(), source })?;
                bytes = (out.len() - before) as u64;
                Ok(())
            })
        })?;
        let (sent, last) = self.streams.entry(stream).or_default();
        *sent += HEADER_BYTES as u64 + bytes;
        *last = header.sequence;
        Ok(())
    }

    fn set_end(&mut self, stream: u32, end_ns: u64) -> Result<(), Error> {
        let Some((_, sequence)) = self.streams.get(&stream).copied() else { return Ok(()) };
        self.link.say(&FromRecorder::SetEnd { id: self.id, stream, sequence, end_ns })
    }

    fn stream_bytes(&self, stream: u32) -> u64 {
        self.streams.get(&stream).map_or(0, |(bytes, _)| *bytes)
    }

    fn set_stream(&mut self, name: &str, header: &[u8], body: &[u8]) -> Result<(), Error> {
        let most = FRAME_BYTES_MAX - HEADER_BYTES - 64;
        if body.len() > most {
            return Err(self.too_large("a state dump", body.len(), most));
        }
        let header = header.first_chunk::<HEADER_BYTES>().and_then(Header::decode);
        let header = header.ok_or_else(|| self.link.error(ErrorKind::InvalidData.into()))?;
        self.say(FromGuest::Stream { id: self.id, name, packet: PacketBytes { header, body } })
    }

    fn set_symbols(&mut self, symbols: &[u8]) -> Result<(), Error> {
        let most = FRAME_BYTES_MAX - 4;
        if symbols.len() > most {
            return Err(self.too_large("the table of kernel functions", symbols.len(), most));
        }
        self.say(FromGuest::Symbols { id: self.id, bytes: symbols })
    }

    fn set_progress(&mut self, mark: &ProgressMark) -> Result<(), Error> {
        // The next progress message replaces this one, so it is not worth waiting for.
        let _ = self.link.say(&FromRecorder::Progress { id: self.id, mark: *mark });
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        match self.link.failure() {
            None => Ok(()),
            Some(why) => Err(self.link.error(io::Error::other(why))),
        }
    }

    fn end(&mut self, ending: Ending, losses: Losses) -> Result<(), Error> {
        self.say(FromGuest::Ended { id: self.id, ending, losses })
    }
}
