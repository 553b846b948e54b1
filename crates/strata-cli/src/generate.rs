//! Completions and man pages, from the one definition of the flags.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::flags::Flags;

/// A completion script to stdout.
pub fn completions(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Flags::command(), "strata", &mut script);
    io::stdout().write_all(&script).context("completions: cannot write to stdout")
}

/// strata(1) to stdout, or a page for each subcommand into `folder`.
pub fn man(folder: Option<&Path>) -> Result<()> {
    let command = Flags::command();

    match folder {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            io::stdout().write_all(&page).context("man page: cannot write to stdout")
        }
        Some(folder) => {
            fs::create_dir_all(folder)
                .with_context(|| format!("man pages: cannot make folder '{}'", folder.display()))?;
            clap_mangen::generate_to(command, folder)
                .with_context(|| format!("man pages: cannot write to '{}'", folder.display()))
        }
    }
}
