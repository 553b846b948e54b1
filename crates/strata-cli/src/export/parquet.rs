//! Runs `strata-parquet`, which writes Parquet files. It is a separate program, since its dependencies take longer to
//! compile than this whole command.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{bail, Context, Result};

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
