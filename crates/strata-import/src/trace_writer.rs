//! Packets and metadata of the trace.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use strata_ctf::metadata;
use strata_ctf::packet::Header;
use strata_model::{Trace, Uuid};

/// Size of a packet from which on it is written \[byte\].
const PACKET_BYTES: usize = 128 << 10;
/// The greatest number of streams; more CPUs share the last one.
const STREAMS_MAX: u32 = 4096;
/// Id that says that the whole id and time follow.
const EXTENDED: u16 = 65535;

/// The files of the trace.
#[derive(Debug)]
pub(crate) struct TraceWriter {
    folder: PathBuf,
    uuid: Uuid,
    streams: BTreeMap<u32, StreamWriter>,
}

/// The stream of a CPU.
#[derive(Debug, Default)]
struct StreamWriter {
    records: Vec<u8>,
    begin: u64,
    end: u64,
    sequence: u64,
    /// Discarded records so far, and as the last packet says.
    discarded: u64,
    told: u64,
}

impl TraceWriter {
    /// Writes the metadata. Without `has_cpus`, nobody knows on which CPUs records were made, and all are of one stream.
    pub fn begin(folder: &Path, trace: &Trace, has_cpus: bool) -> io::Result<TraceWriter> {
        let text = match has_cpus {
            true => metadata::write(trace),
            false => metadata::write_without_cpus(trace),
        };
        fs::write(folder.join("metadata"), text)?;
        let (folder, streams) = (folder.to_owned(), BTreeMap::new());
        Ok(TraceWriter { folder, uuid: trace.uuid, streams })
    }

    /// Appends a record. Returns true if it is earlier than the one before of its CPU, whose time it then has.
    pub fn write(&mut self, cpu: u32, time: u64, id: u32, parts: &[&[u8]]) -> io::Result<bool> {
        let cpu = cpu.min(STREAMS_MAX - 1);
        let stream = self.streams.entry(cpu).or_default();
        let is_late = time < stream.end;
        let time = time.max(stream.end);
        if stream.records.is_empty() {
            (stream.begin, stream.end) = (time, time);
        }
        let compact = u16::try_from(id).ok().filter(|id| *id < EXTENDED);
        match compact.filter(|_| time - stream.end < 1 << 32) {
            Some(id) => {
                stream.records.extend(id.to_ne_bytes());
                stream.records.extend((time as u32).to_ne_bytes());
            }
            None => {
                stream.records.extend(EXTENDED.to_ne_bytes());
                stream.records.extend(id.to_ne_bytes());
                stream.records.extend(time.to_ne_bytes());
            }
        }
        parts.iter().for_each(|part| stream.records.extend_from_slice(part));
        stream.end = time;
        if stream.records.len() >= PACKET_BYTES {
            stream.flush(cpu, &self.folder, self.uuid)?;
        }
        Ok(is_late)
    }

    /// Counts records that are not there, between the CPU's record before and its next one.
    pub fn discard(&mut self, cpu: u32, time: u64, records: u64) -> io::Result<()> {
        let cpu = cpu.min(STREAMS_MAX - 1);
        let stream = self.streams.entry(cpu).or_default();
        let is_first = stream.sequence == 0 && stream.records.is_empty();
        if is_first {
            (stream.begin, stream.end) = (time, time);
        }
        // Of what the first packet of a stream counts, readers do not know whether it was discarded in front of the trace.
        if is_first || !stream.records.is_empty() {
            stream.flush(cpu, &self.folder, self.uuid)?;
        }
        stream.end = stream.end.max(time);
        stream.discarded = stream.discarded.saturating_add(records);
        Ok(())
    }

    /// Writes what is left.
    pub fn finish(mut self) -> io::Result<()> {
        for (cpu, stream) in &mut self.streams {
            if !stream.records.is_empty() || stream.discarded > stream.told {
                stream.flush(*cpu, &self.folder, self.uuid)?;
            }
        }
        Ok(())
    }
}

impl StreamWriter {
    fn flush(&mut self, cpu: u32, folder: &Path, uuid: Uuid) -> io::Result<()> {
        let header = Header {
            uuid,
            stream_instance: u64::from(cpu),
            timestamp_begin: if self.records.is_empty() { self.end } else { self.begin },
            timestamp_end: self.end,
            sequence: self.sequence,
            discarded: self.discarded,
            cpu_id: cpu,
            ..Header::default()
        };
        let header = header.with_content_bytes(self.records.len() as u64);
        let path = folder.join(format!("channel0_{cpu}"));
        // It is opened for each packet: there may be more CPUs than files may be open.
        let mut file = File::options().append(true).create(true).open(path)?;
        file.write_all(&header.encode())?;
        file.write_all(&self.records)?;
        self.records.clear();
        self.sequence += 1;
        self.told = self.discarded;
        Ok(())
    }
}
