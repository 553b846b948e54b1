//! Packets and metadata of the trace.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use strata_ctf::metadata;
use strata_ctf::packet::Header;
use strata_model::{Trace, Uuid};

/// Size at which a packet is written to the file \[byte\].
const PACKET_BYTES: usize = 128 << 10;
/// The most bytes of all packets that are not written yet \[byte\]: with many streams, their packets are smaller.
const UNWRITTEN_MAX: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };
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
    /// Bytes of records in all streams that are not written yet.
    unwritten: usize,
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
    /// Writes the metadata. Without `has_cpus`, the CPUs of records are not known, and all records are in one stream.
    pub fn begin(folder: &Path, trace: &Trace, has_cpus: bool) -> io::Result<TraceWriter> {
        let text = match has_cpus {
            true => metadata::write(trace),
            false => metadata::write_without_cpus(trace),
        };
        fs::write(folder.join("metadata"), text)?;
        let (folder, streams) = (folder.to_owned(), BTreeMap::new());
        Ok(TraceWriter { folder, uuid: trace.uuid, streams, unwritten: 0 })
    }

    /// Appends a record. Returns true if it is earlier than the previous record of its CPU; it then gets that
    /// record's time.
    pub fn write(&mut self, cpu: u32, time: u64, id: u32, parts: &[&[u8]]) -> io::Result<bool> {
        let cpu = cpu.min(STREAMS_MAX - 1);
        let stream = self.streams.entry(cpu).or_default();
        let is_late = time < stream.end;
        let time = time.max(stream.end);
        if stream.records.is_empty() {
            (stream.begin, stream.end) = (time, time);
        }
        let before = stream.records.len();
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
        let bytes = stream.records.len();
        self.unwritten += bytes - before;
        if bytes >= PACKET_BYTES {
            self.unwritten -= bytes;
            stream.flush(cpu, &self.folder, self.uuid)?;
        } else if self.unwritten > UNWRITTEN_MAX {
            self.flush_all()?;
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
            self.unwritten -= stream.records.len();
            stream.flush(cpu, &self.folder, self.uuid)?;
        }
        stream.end = stream.end.max(time);
        stream.discarded = stream.discarded.saturating_add(records);
        Ok(())
    }

    fn flush_all(&mut self) -> io::Result<()> {
        for (cpu, stream) in &mut self.streams {
            if !stream.records.is_empty() {
                stream.flush(*cpu, &self.folder, self.uuid)?;
            }
        }
        self.unwritten = 0;
        Ok(())
    }

    /// Writes the packets that are not written yet, and closes the files.
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
        // Its memory goes, too: there may be many streams.
        self.records = Vec::new();
        self.sequence += 1;
        self.told = self.discarded;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_many_cpus_take_bounded_memory() {
        let folder = std::env::temp_dir().join(format!("strata-streams-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let streams = BTreeMap::new();
        let mut writer =
            TraceWriter { folder: folder.clone(), uuid: Uuid([1; 16]), streams, unwritten: 0 };
        let (cpus, record) = (300, [7; 7000]);
        for at in 0..2 * cpus {
            writer.write(at % cpus, u64::from(at), 0, &[&record]).unwrap();
            if at % 7 == 0 {
                writer.discard(at % cpus, u64::from(at), 1).unwrap();
            }
            let bytes = writer.streams.values().map(|stream| stream.records.len()).sum::<usize>();
            let memory = writer.streams.values().map(|stream| stream.records.capacity());
            assert!(memory.sum::<usize>() <= 2 * UNWRITTEN_MAX && bytes == writer.unwritten);
        }
        writer.finish().unwrap();
        let files = fs::read_dir(&folder).unwrap().flatten();
        let bytes: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
        fs::remove_dir_all(&folder).unwrap();
        assert!(bytes > u64::from(2 * cpus) * record.len() as u64, "{bytes}");
    }
}
