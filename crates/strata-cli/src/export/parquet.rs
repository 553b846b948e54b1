//! Runs `strata-parquet`, which writes Parquet files. It is a separate program, since its dependencies take longer to
//! compile than this whole command.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{bail, Context, Result};
use strata_analyze::counters::CounterRule;
use strata_ctf::read::TimeRange;
use strata_filter::Filter;
use strata_timeline::PairRule;

/// Name of the program, which lies next to this one.
const PROGRAM: &str = "strata-parquet";

/// Parameters of an export to Parquet.
pub(super) struct ParquetRequest<'r> {
    /// Folder of the dataset.
    pub output: PathBuf,
    /// Name of the machine in the dataset.
    pub host: Option<&'r str>,
    /// Names of the tables to write.
    pub tables: &'r [String],
    /// True if a trace that the dataset already contains is replaced.
    pub force: bool,
    /// Time range, filter and process of the records to write.
    pub range: TimeRange,
    pub filter: Option<&'r Filter>,
    pub of: Option<&'r str>,
    /// True if only the time in which all streams are active is written; true if packets of other traces are read.
    pub stream_intersection: bool,
    pub ignore_uuid: bool,
    /// Rules for spans and counters, as the user has written them.
    pub pairs: &'r [PairRule],
    pub counters: &'r [CounterRule],
    /// True if functions get no names; true if names of C++ and Rust stay mangled.
    pub no_symbols: bool,
    pub mangled: bool,
    /// Folders of the traces.
    pub traces: Vec<PathBuf>,
}

/// Replaces this process by the program that writes Parquet files. Returns only on an error.
pub(super) fn run(request: ParquetRequest<'_>) -> Result<u8> {
    if request.output.as_os_str() == "-" {
        bail!("a dataset is a folder, which stdout is not. Use -o DIR");
    }
    let own = std::env::current_exe().context("find this program")?;
    let program = own.with_file_name(PROGRAM);
    let mut command = Command::new(&program);
    command.arg("--output").arg(&request.output);
    if let Some(host) = request.host {
        command.arg(format!("--host={host}"));
    }
    command.args(request.tables.iter().map(|name| format!("--table={name}")));
    command.args(request.force.then_some("--force"));
    if let Some(filter) = request.filter {
        command.arg(format!("--filter={}", filter.text()));
    }
    if let Some(of) = request.of {
        command.arg(format!("--of={of}"));
    }
    let TimeRange { from, to } = request.range;
    command.args((from > i64::MIN).then(|| format!("--from-ns={from}")));
    command.args((to < i64::MAX).then(|| format!("--until-ns={to}")));
    command.args(request.stream_intersection.then_some("--stream-intersection"));
    command.args(request.ignore_uuid.then_some("--ignore-uuid"));
    command.args(request.pairs.iter().map(|pair| format!("--pair={pair}")));
    command.args(request.counters.iter().map(|counter| format!("--counter={counter}")));
    command.args(request.no_symbols.then_some("--no-symbols"));
    command.args(request.mangled.then_some("--mangled"));
    command.arg("--").args(request.traces);
    let error = command.exec();
    match error.kind() {
        std::io::ErrorKind::NotFound => bail!(
            "export: there is no {}, which writes Parquet files. 'make install' installs it beside this program; in the \
             source tree, 'cargo build -p strata-parquet' builds it",
            program.display()
        ),
        _ => Err(error).with_context(|| format!("export: cannot run {}", program.display())),
    }
}
