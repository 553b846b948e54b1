//! How an answer is printed: for people, or as JSON.

use clap::{Args, ValueEnum};

/// How the answer is printed.
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
    /// For people
    Text,
    /// For programs
    Json,
}

impl AnswerFlags {
    /// Whether JSON is wanted.
    pub fn is_json(&self) -> bool {
        self.format.map_or(self.json, |format| format == AnswerFormat::Json)
    }
}
