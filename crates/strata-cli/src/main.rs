//! The entry point of the program `strata`.

use std::process::ExitCode;

fn main() -> ExitCode {
    strata_cli::run()
}
