//! Chooses how an answer is printed: for people, or as JSON.

use clap::{Args, ValueEnum};

/// Flags that choose how the answer is printed.
#[derive(Debug, Default, Args)]
pub struct AnswerFlags {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// The same as --json, or as none
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<AnswerFormat>,
}

/// `--format` of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AnswerFormat {
    /// A text for people
    Text,
    /// JSON for programs
    Json,
}

impl AnswerFlags {
    /// Returns true if the output is to be JSON.
    pub fn is_json(&self) -> bool {
        self.format.map_or(self.json, |format| format == AnswerFormat::Json)
    }
}
