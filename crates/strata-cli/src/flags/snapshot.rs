//! The command line of `strata snapshot`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use strata_analyze::duration_text::parse_duration;
use strata_remote::Destination;

use super::output_format::AnswerFlags;

/// `strata snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotFlags {
    /// Name of the session [default: the only one there is]
    pub name: Option<String>,

    /// The same, as `lttng snapshot record -s SESSION` has it
    #[arg(short, long, value_name = "SESSION", hide = true)]
    pub session: Option<String>,

    /// Words that LTTng's command line has here
    #[arg(hide = true)]
    pub more: Vec<String>,

    /// Write the snapshot to DIR, which must be new or empty [default: strata-snapshot-NAME-DATE-TIME]; -: as a
    /// tar file to the standard output
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,

    /// Send the snapshot to `strata relayd` on HOST, as record --to does [default: that of create --to]
    #[arg(long, value_name = "HOST[:PORT][,certificates=DIR]", value_parser = Destination::parse, conflicts_with = "output")]
    pub to: Option<Destination>,

    /// Save only the last TIME, such as 10s: packets that end before are left out, all others are whole
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub last: Option<Duration>,

    #[command(flatten)]
    pub answer: AnswerFlags,
}
