//! The program `strata-parquet`, which `strata export --to parquet` runs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use strata_ctf::read::Reader;
use strata_parquet::Export;
use strata_session::stop::Stop;
use strata_sql::{Database, Options, SourceOptions, SqlError};

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
    let reader = Reader::open(&flags.traces)?;
    let asked = stop.clone();
    let Flags { output, host, tables, force, no_symbols, mangled, .. } = flags;
    let names = SourceOptions { no_symbols, mangled, ..SourceOptions::default() };
    let stop_check = Arc::new(move || asked.requests() > 0);
    let mut database =
        Database::with_options(reader, Options { names, ..Options::default() }, stop_check)?;
    let export = Export { folder: output.clone(), host, tables, force };
    let written = match export.run(&mut database) {
        Ok(written) => written,
        Err(error) if matches!(error.downcast_ref(), Some(SqlError::Stopped)) => {
            return Ok(stop
                .signal()
                .map_or(130, |signal| u8::try_from(128 + signal).unwrap_or(130)));
        }
        Err(error) => return Err(error),
    };
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
    eprintln!(
        "strata: wrote {} rows in {} tables to {}, {} ({:.1} MiB) in {:.3} s",
        written.rows,
        written.tables,
        output.display(),
        written.partition,
        written.bytes as f64 / f64::from(1 << 20),
        begin.elapsed().as_secs_f64()
    );
    Ok(if found.damages > 0 { 2 } else { 0 })
}
