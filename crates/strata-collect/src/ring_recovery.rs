//! Recovers the records that a guest's recorder had not handed over when it ended unexpectedly, from the rings in the
//! guest's memory.
//!
//! ```text
//! memory of the guest (a file on the host) ── a copy of its rings ── packets(): unread ones, by CPU
//!    ── each checked: records readable, times possible, not handed over before ── Found ── appended to the guest's trace
//! ```
//!
//! The rings are a copy, and are read like those of any producer that has died. The guest may have written anything
//! there, or continued and reused the pages: a packet is taken only if all its records are readable and have possible
//! times.
//!
//! A packet that was handed over in part, while it was being filled, is continued where the host's copy ends.
//! [`Tail`] says how many records were recovered, up to which time, and the first error.
//!
//! # Callers
//! `strata_session::guest::receive` calls [`packets`] once for each trace of a guest whose recorder ended without
//! a goodbye. It writes the packets behind those that were handed over, and reports the tail. Checking a packet
//! reads it by `strata_ctf::read` as any trace, in a folder that only this user can open and that is removed when
//! the check ends: the reader that judges a recovered packet is the one that will read it later.
//!
//! Numbers in the ring decide how much is read, so each has a limit that holds for any value (`PACKETS_MAX` and
//! the size of the copy).

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use strata_ctf::packet::Header;
use strata_ctf::read::{Message, Reader, TimeRange};
use strata_model::Uuid;
use strata_relay::Last;
use strata_ring::{Channel, Error, Info, Publish};

/// The most attempts to find a free folder name.
const FOLDERS_MAX: u64 = 1000;
/// The most packets that are read from one CPU's ring, whatever the ring claims.
const PACKETS_MAX: usize = 1 << 16;

/// Summary of the recovered records.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    /// Number of recovered event records.
    pub records: u64,
    /// Time of the last recovered record, by the guest's clock \[ns\].
    pub last_ns: u64,
    /// Description of the first error that was found.
    pub damage: Option<String>,
}

/// A packet that was found in a CPU's ring.
#[derive(Debug)]
pub struct Found {
    /// Header of the packet.
    pub header: Header,
    /// Records of the packet.
    pub body: Vec<u8>,
    /// New end time of the packet before, if this one begins earlier \[ns\].
    pub mend: Option<u64>,
}

/// The trace to which recovered records belong, as its guest describes it.
#[allow(missing_debug_implementations, reason = "it has a function")]
pub struct Of<'t> {
    /// UUID of the trace.
    pub uuid: Uuid,
    /// Metadata of the trace.
    pub text: &'t str,
    /// Time after which no record can be, by the guest's clock \[ns\].
    pub until: u64,
    /// Returns the state of a CPU's stream after its last packet.
    pub last: &'t dyn Fn(u32) -> Option<Last>,
    /// Returns the position up to which a CPU's ring was handed over, if the guest reported it \[byte since its
    /// creation\]. As everything in the ring, it is a claim of the producer.
    pub upto: &'t dyn Fn(u32) -> u64,
}

/// Returns all packets in the rings that were not handed over, in order within each CPU.
pub fn packets(channel: &mut Channel, of: &Of<'_>) -> (Vec<Found>, Tail) {
    let (mut all, mut tail) = (Vec::new(), Tail::default());
    let checked = match Checked::begin(of) {
        Ok(checked) => checked,
        Err(problem) => {
            tail.damage = Some(problem);
            return (all, tail);
        }
    };
    let publish = channel.publish();
    for cpu in 0..channel.nr_streams() {
        let mut last = (of.last)(cpu);
        for one in left(channel, cpu) {
            let taken = one.and_then(|(info, body)| {
                let found = match publish {
                    Publish::ByCommit => follow(of, cpu, &info, body, last)?,
                    Publish::ByPosition => go_on(of, cpu, &info, body, last)?,
                };
                let Some(found) = found else { return Ok(None) };
                let (records, last_ns) = checked.records(&found)?;
                let header = Header { timestamp_end: last_ns, ..found.header };
                Ok(Some((Found { header, ..found }, records)))
            });
            match taken {
                Ok(Some((found, records))) => {
                    let Header { timestamp_begin: begin, timestamp_end: end, .. } = found.header;
                    let (sequence, discarded) = (found.header.sequence, found.header.discarded);
                    last = Some(Last { begin, end, sequence, discarded });
                    tail.records += records;
                    tail.last_ns = tail.last_ns.max(end);
                    all.push(found);
                }
                Ok(None) => {}
                Err(problem) => {
                    tail.damage.get_or_insert_with(|| format!("CPU {cpu}: {problem}"));
                }
            }
        }
    }
    (all, tail)
}

type LeftInRing = Result<(Info, Vec<u8>), String>;

/// Reads the unread packets of a ring: the whole ones, and the beginning of the packet that was being filled.
fn left(channel: &mut Channel, cpu: u32) -> Vec<LeftInRing> {
    let mut all: Vec<LeftInRing> = Vec::new();
    let most = (channel.nr_subbufs() as usize + 1).min(PACKETS_MAX);
    let mut stream = match channel.stream(cpu) {
        Ok(stream) => stream,
        Err(error) => return vec![Err(error.to_string())],
    };
    let copied = |packet: &strata_ring::Packet<'_>| {
        let (info, mut body) = (*packet.info(), Vec::new());
        let copied = packet.copy_to(info.header_bytes, &mut body);
        copied.map(|()| (info, body)).map_err(|error| error.to_string())
    };
    let text = |error: Error| Err(error.to_string());
    for _ in 0..most {
        match stream.next() {
            Ok(None) => break,
            Ok(Some(packet)) => {
                all.push(copied(&packet));
                packet.put();
            }
            Err(error) => all.push(text(error)),
        }
    }
    for _ in 0..most {
        match stream.rest() {
            Ok(None) => break,
            Ok(Some(packet)) => all.push(copied(&packet)),
            Err(error) => all.push(text(error)),
        }
    }
    all
}

/// Makes the packet that follows the last one of its CPU; `None` if it is empty or was handed over.
fn follow(
    of: &Of<'_>,
    cpu: u32,
    info: &Info,
    body: Vec<u8>,
    last: Option<Last>,
) -> Result<Option<Found>, String> {
    let begin = info.timestamp_begin;
    // Handed over, and its place not given back yet: that is done next.
    if body.is_empty() || last.is_some_and(|last| last.begin == begin && last.end > begin) {
        return Ok(None);
    }
    // No clock says 0: these are zeros, which look like records.
    if begin == 0 || begin > of.until || last.is_some_and(|last| begin < last.begin) {
        return Err(format!("a packet begins at {begin} ns of its time, which cannot be"));
    }
    // A packet that was closed from outside says a later end than its last record's.
    let mend = last.filter(|last| last.end > begin).map(|_| begin);
    Ok(Some(Found { header: header(of, cpu, info, begin, last, &body), body, mend }))
}

/// Continues a ring that is published by position. Such packets are handed over in parts while they are filled; this
/// returns the part after the last one.
fn go_on(
    of: &Of<'_>,
    cpu: u32,
    info: &Info,
    mut body: Vec<u8>,
    last: Option<Last>,
) -> Result<Option<Found>, String> {
    let records_at = info.position.wrapping_add(info.header_bytes);
    let handed = (of.upto)(cpu).wrapping_sub(records_at);
    let is_begun = handed as i64 > 0;
    if is_begun {
        let handed = usize::try_from(handed).unwrap_or(usize::MAX).min(body.len());
        body.drain(..handed);
    }
    if body.is_empty() {
        return Ok(None);
    }
    let begin = match (is_begun, last) {
        // Its first record's time is completed from that of the last one that was handed over.
        (true, Some(last)) => last.end,
        (true, None) => return Err("no packet of it has come, and it says that one has".to_owned()),
        (false, _) => info.timestamp_begin,
    };
    if begin == 0 || begin > of.until || last.is_some_and(|last| begin < last.end) {
        return Err(format!("a packet begins at {begin} ns of its time, which cannot be"));
    }
    let header = header(of, cpu, info, begin, last, &body);
    Ok(Some(Found { header, body, mend: None }))
}

/// Makes the header of a packet with these records.
fn header(
    of: &Of<'_>,
    cpu: u32,
    info: &Info,
    begin: u64,
    last: Option<Last>,
    body: &[u8],
) -> Header {
    let header = Header {
        uuid: of.uuid,
        stream_id: 0,
        stream_instance: u64::from(cpu),
        timestamp_begin: begin,
        timestamp_end: of.until,
        sequence: last.map_or(0, |last| last.sequence.saturating_add(1)),
        discarded: info.discarded.max(last.map_or(0, |last| last.discarded)),
        cpu_id: cpu,
        ..Header::default()
    };
    header.with_content_bytes(body.len() as u64)
}

/// A trace of one packet, which is made to check the packet's records.
struct Checked<'o> {
    folder: PathBuf,
    of: &'o Of<'o>,
}

impl Drop for Checked<'_> {
    fn drop(&mut self) {
        // What is left of it is in nobody's way.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Creates a folder with a new name that only this user can open.
fn new_folder() -> std::io::Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("strata-tail-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        match DirBuilder::new().mode(0o700).create(&folder) {
            // Of a process that had this number before.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < FOLDERS_MAX => {}
            made => return made.map(|()| folder),
        }
    }
}

impl<'o> Checked<'o> {
    fn begin(of: &'o Of<'o>) -> Result<Checked<'o>, String> {
        let failed = |error: std::io::Error| format!("a folder to check it in: {error}");
        let folder = new_folder().map_err(failed)?;
        let checked = Checked { folder, of };
        fs::write(checked.folder.join("metadata"), of.text).map_err(failed)?;
        Ok(checked)
    }

    /// Counts the records in the packet, and returns the time of the last one.
    fn records(&self, found: &Found) -> Result<(u64, u64), String> {
        let bytes = [&found.header.encode()[..], &found.body].concat();
        let file = self.folder.join("channel0_0");
        fs::write(file, bytes).map_err(|error| format!("a file to check it in: {error}"))?;
        let reader = Reader::open(&[&self.folder]).map_err(|error| error.to_string())?;
        let begin = found.header.timestamp_begin;
        let (mut records, mut last) = (0, begin);
        let mut events = reader.events(TimeRange::ALL);
        while let Some(message) = events.next() {
            match message {
                Message::Event(event) => {
                    let at = event.cycles().unwrap_or(u64::MAX);
                    if !(last..=self.of.until).contains(&at) {
                        return Err(format!("a record is of {at} ns, which cannot be"));
                    }
                    (records, last) = (records + 1, at);
                }
                Message::Damage(damage) if !damage.is_remark() => return Err(damage.to_string()),
                Message::Damage(_) | Message::Packet(_) | Message::Discarded(_) => {}
            }
        }
        Ok((records, last))
    }
}

#[cfg(test)]
mod tests;
