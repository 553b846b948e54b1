//! The program `strata`.

use std::process::ExitCode;

fn main() -> ExitCode {
    strata_cli::run()
}
