//! perf.data, the file of `perf record`.

mod classes;
mod compressed;
mod head;
mod ordered;
mod record;
mod records;

use std::fs::File;
use std::io;
use std::path::Path;

use strata_model::Uuid;

use crate::error::{ImportError, Problem};
use crate::imported::Imported;
use crate::trace_writer::TraceWriter;
use classes::Classes;
use head::{part, PerfFile, MAGIC};
use ordered::Ordered;
use record::PerfRecord;
use records::{Next, Records};

/// The most tracepoints that a remark names.
const NAMES_SHOWN: usize = 3;

/// Returns whether the first bytes of a file are those of perf's files, in any byte order.
pub(crate) fn is_one(begin: &[u8; 8]) -> bool {
    begin == MAGIC || begin.iter().eq(MAGIC.iter().rev())
}

/// Converts a file of perf to a trace in `folder`.
pub(crate) fn convert(
    path: &Path,
    folder: &Path,
    uuid: Uuid,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Imported, ImportError> {
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
    let records = Records::new(&mut file, about.data);
    let mut records = records.map_err(|error| of_file(error.into()))?;
    let damage = loop {
        if is_stopped() {
            return Err(ImportError::Stopped);
        }
        match records.next(0).map_err(|error| of_file(error.into()))? {
            Next::Record(kind, misc) => {
                let record = PerfRecord::parse((kind, misc), &records.body, &about);
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
            "{} samples are damaged (too short, at no possible time, or of an event that the file does not describe) and count as discarded",
            counts.unread
        ));
    }
    if counts.late > 0 {
        remarks.push(format!(
            "{} records came later than perf's rounds say, and have the time of the record before them",
            counts.late
        ));
    }
    Ok(Imported {
        samples: counts.samples,
        discarded: counts.discarded,
        remarks,
        kernel_symbol: counts.kernel_symbol,
        kernel_release: about.release,
    })
}

/// Returns remarks that users should know about the whole file.
fn remarks(about: &PerfFile, classes: &Classes) -> Vec<String> {
    let mut remarks = Vec::new();
    if about.is_unfinished {
        remarks.push(
            "perf record has not ended the file: it was killed, or still records. What it had written is shown"
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

#[cfg(test)]
mod tests;
