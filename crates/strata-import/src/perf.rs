//! perf.data, the file of `perf record`.

mod classes;
mod head;
mod ordered;
mod record;

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use strata_model::Uuid;

use crate::error::{ImportError, Problem};
use crate::imported::Imported;
use crate::trace_writer::TraceWriter;
use classes::Classes;
use head::{part, PerfFile, MAGIC};
use ordered::Ordered;
use record::{PerfRecord, RECORD_BYTES};

/// The most tracepoints that a remark names.
const NAMES_SHOWN: usize = 3;

/// Returns true if a file begins as those of perf, in whatever byte order.
pub(crate) fn is_one(begin: &[u8; 8]) -> bool {
    begin == MAGIC || begin.iter().eq(MAGIC.iter().rev())
}

/// Writes what is in the file to `folder`.
pub(crate) fn convert(path: &Path, folder: &Path, uuid: Uuid) -> Result<Imported, ImportError> {
    let of_file = |problem: Problem| problem.of(path);
    let of_trace = |source: io::Error| Problem::System(source).of(folder);
    let mut file = File::open(path).map_err(|error| of_file(error.into()))?;
    let about = PerfFile::read(&mut file).map_err(of_file)?;
    let classes = Classes::new(&about);
    let trace = classes.trace(&about, uuid);
    trace.validate().map_err(|error| of_file(error.to_string().into()))?;
    let mut remarks = remarks(&about, &classes);
    let has_cpus = about.events.iter().any(|event| event.has(part::CPU));
    let writer = TraceWriter::begin(folder, &trace, has_cpus).map_err(of_trace)?;
    let mut ordered = Ordered::new(classes, writer);
    file.seek(SeekFrom::Start(about.data.0)).map_err(|error| of_file(error.into()))?;
    let mut records = Records {
        data: BufReader::with_capacity(1 << 20, file.take(about.data.1)),
        body: Vec::with_capacity(RECORD_BYTES),
        bytes: 0,
    };
    let damage = loop {
        match records.next().map_err(|error| of_file(error.into()))? {
            Next::Record(kind, misc) => {
                let record = PerfRecord::parse((kind, misc), &records.body, &about);
                let record = record.map_err(|why| of_file(why.into()))?;
                ordered.take(record).map_err(of_trace)?;
            }
            Next::End if records.bytes < about.data.1 && !about.is_unfinished => {
                let (found, wanted) = (records.bytes, about.data.1);
                break Some(format!("its records have {wanted} bytes, and {found} are there"));
            }
            Next::End => break None,
            Next::Damage(why) => break Some(why),
        }
    };
    let counts = ordered.finish().map_err(of_trace)?;
    if let Some(why) = damage {
        let place = about.data.0.saturating_add(records.bytes);
        remarks.push(format!("damaged at byte {place}: {why}. What is in front of that is shown"));
    }
    if counts.unread > 0 {
        remarks.push(format!(
            "{} samples are damaged (too short, or of an event that the file does not describe) and count as discarded",
            counts.unread
        ));
    }
    if counts.late > 0 {
        remarks.push(format!(
            "{} records came later than perf's rounds say, and have the time of the record before them",
            counts.late
        ));
    }
    let kernel_symbol = counts.kernel_symbol;
    Ok(Imported { samples: counts.samples, discarded: counts.discarded, remarks, kernel_symbol })
}

/// Returns what readers should know of the whole file.
fn remarks(about: &PerfFile, classes: &Classes) -> Vec<String> {
    let mut remarks = Vec::new();
    if about.is_unfinished {
        remarks.push(
            "perf record was killed before it had ended the file: what it had written is shown"
                .to_owned(),
        );
    }
    let unknown: Vec<&str> = classes.without_format(about).collect();
    if !unknown.is_empty() {
        let named = unknown.get(..NAMES_SHOWN).unwrap_or(&unknown).join(", ");
        remarks.push(format!(
            "the file does not describe the fields of {} tracepoints ({named}{}): their records have none",
            unknown.len(),
            if unknown.len() > NAMES_SHOWN { ", …" } else { "" }
        ));
    }
    if about.events.iter().all(|event| !event.has(part::TIME)) {
        remarks.push("perf was told to record no times: all records have the time 0".to_owned());
    }
    remarks
}

/// The records of a file, one after the other.
struct Records {
    data: BufReader<io::Take<File>>,
    /// The bytes behind the head of the last record.
    body: Vec<u8>,
    /// Bytes of whole records so far.
    bytes: u64,
}

/// The result of reading a record.
enum Next {
    /// A record of this kind, with these flags.
    Record(u32, u16),
    End,
    Damage(String),
}

impl Records {
    /// Reads the next record.
    fn next(&mut self) -> io::Result<Next> {
        let mut header = [0; 8];
        match self.fill(&mut header)? {
            0 => return Ok(Next::End),
            8 => {}
            _ => return Ok(Next::Damage("it ends within a record".to_owned())),
        }
        let [a, b, c, d, e, f, g, h] = header;
        let (kind, misc) = (u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes([e, f]));
        let size = u16::from_ne_bytes([g, h]);
        let Some(bytes) = usize::from(size).checked_sub(8) else {
            return Ok(Next::Damage(format!(
                "a record of kind {kind} has {size} bytes, and at least 8 are possible"
            )));
        };
        let mut body = std::mem::take(&mut self.body);
        body.resize(bytes, 0);
        let found = self.fill(&mut body);
        self.body = body;
        if found? < bytes {
            return Ok(Next::Damage("it ends within a record".to_owned()));
        }
        // Tables of a processor's own trace stand behind their records.
        let behind = record::bytes_behind(kind, &self.body).unwrap_or(0);
        let skipped = io::copy(&mut (&mut self.data).take(behind), &mut io::sink())?;
        self.bytes += u64::from(size) + skipped;
        Ok(Next::Record(kind, misc))
    }

    /// Reads until the buffer is full or the data ends. Returns the bytes that were read.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut have = 0;
        while let Some(rest) = buffer.get_mut(have..).filter(|rest| !rest.is_empty()) {
            match self.data.read(rest) {
                Ok(0) => break,
                Ok(bytes) => have += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(have)
    }
}

#[cfg(test)]
mod tests;
