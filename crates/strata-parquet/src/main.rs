//! The program `strata-parquet`, which `strata export --to parquet` runs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use strata_ctf::read::{OpenOptions, Reader, TimeRange};
use strata_filter::Filter;
use strata_parquet::{Export, Part};
use strata_session::stop::Stop;
use strata_sql::{CounterRule, Database, Options, PairRule, SourceOptions, SqlError};

/// Traces as Parquet files: what `strata export --to parquet` runs.
#[derive(Debug, Parser)]
#[command(version)]
struct Flags {
    /// The dataset's folder
    #[arg(long, value_name = "DIR")]
    output: PathBuf,

    /// The machine's name in the dataset [default: as the trace says]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    /// Write this table [default: events, and what the timeline tells]
    #[arg(long = "table", value_name = "NAME")]
    tables: Vec<String>,

    /// Replace the trace if it is in the dataset
    #[arg(long)]
    force: bool,

    /// Open no file that the trace names: functions of programs have no names
    #[arg(long)]
    no_symbols: bool,

    /// Names of C++ and Rust as compilers have made them
    #[arg(long)]
    mangled: bool,

    /// Write only records that EXPRESSION selects
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<Filter>,

    /// Write only records of this process or thread
    #[arg(long, value_name = "NAME|NUMBER")]
    of: Option<String>,

    /// The first time of what is written [ns since 1970]
    #[arg(long, value_name = "NS", default_value_t = i64::MIN, allow_negative_numbers = true)]
    from_ns: i64,

    /// The last time of what is written [ns since 1970]
    #[arg(long, value_name = "NS", default_value_t = i64::MAX, allow_negative_numbers = true)]
    until_ns: i64,

    /// Of each trace, only the time in which all of its streams are active
    #[arg(long)]
    stream_intersection: bool,

    /// Read packets of other traces in the same files as well
    #[arg(long)]
    ignore_uuid: bool,

    /// Events that are the ends of a span
    #[arg(long = "pair", value_name = "BEGIN=END[:KEYFIELD]")]
    pairs: Vec<PairRule>,

    /// Fields whose values are rows of the table counter
    #[arg(long = "counter", value_name = "[EVENT.]FIELD")]
    counters: Vec<CounterRule>,

    /// The folders of the traces
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match run(Flags::parse()) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("strata: export: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(flags: Flags) -> Result<u8> {
    let begin = Instant::now();
    let stop = Stop::on_signals().context("cannot handle signals")?;
    let open = OpenOptions { ignore_uuid: flags.ignore_uuid, ..OpenOptions::default() };
    let mut reader = Reader::open_with(&flags.traces, open)?;
    if flags.stream_intersection {
        reader.intersect_streams()?;
    }
    let options = Options {
        names: SourceOptions {
            no_symbols: flags.no_symbols,
            mangled: flags.mangled,
            ..SourceOptions::default()
        },
        range: TimeRange { from: flags.from_ns, to: flags.until_ns },
        filter: flags.filter,
        of: flags.of,
        pairs: flags.pairs,
        counters: flags.counters,
    };
    let part = Part::of(&options, flags.stream_intersection);
    let Flags { output, host, tables, force, .. } = flags;
    let export = Export { folder: output.clone(), host, tables, force, part };
    let asked = stop.clone();
    let stop_check = Arc::new(move || asked.requests() > 0);
    let interrupted =
        || stop.signal().map_or(130, |signal| u8::try_from(128 + signal).unwrap_or(130));
    let mut database = match Database::with_options(reader, options, stop_check) {
        Err(SqlError::Stopped) => return Ok(interrupted()),
        made => made?,
    };
    let written = match export.run(&mut database) {
        Ok(written) => written,
        Err(error) if matches!(error.downcast_ref(), Some(SqlError::Stopped)) => {
            return Ok(interrupted());
        }
        Err(error) => return Err(error),
    };
    if written.nothing {
        eprintln!(
            "strata: nothing to export: no event is selected. `strata stats` says which events there are, and when"
        );
    }
    let found = database.found();
    for text in &found.damage {
        eprintln!("strata: {}", text.escape_debug());
    }
    if found.records > 0 || found.packets > 0 {
        eprintln!(
            "strata: {} event records and {} packets discarded by the tracer: counts and sums are too low there. The \
             table 'gaps' says when",
            found.records, found.packets
        );
    }
    for text in &found.left_out {
        eprintln!("strata: {}", text.escape_debug());
    }
    if !written.nothing {
        eprintln!(
            "strata: wrote {} rows in {} tables to {}, {} ({:.1} MiB) in {:.3} s",
            written.rows,
            written.tables,
            output.display(),
            written.partition,
            written.bytes as f64 / f64::from(1 << 20),
            begin.elapsed().as_secs_f64()
        );
    }
    Ok(match found.damages {
        0 => u8::from(written.nothing),
        _ => 2,
    })
}
