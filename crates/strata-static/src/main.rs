//! The program `strata`, as one file: a package of its own, so that nothing but this is compiled for it.

use std::process::ExitCode;

fn main() -> ExitCode {
    strata_cli::run()
}
