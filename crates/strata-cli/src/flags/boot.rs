//! The command line of sessions that begin at boot.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueHint};
use strata_analyze::duration_text::parse_duration;
use strata_kernel::CallStacks;
use strata_session::plan::{Change, EnableEvents, LayerOf, Plan, Settle, SETTLE_BYTES_MIN};
use strata_session::DEFAULT_KERNEL_RULES;

use super::output_format::AnswerFlags;
use super::rules::{parse_kernel_rules, parse_rules};
use super::sessions::{checked_filter, split, RetentionFlags, RotateFlags};
use crate::units::parse_size;

/// Default size of the trace that is held in memory \[byte\].
const SIZE: u64 = 64 << 20;

/// Folder of the session until it continues on the disk, which is not mounted when the session begins.
const EARLY: &str = "/run/strata-boot";

/// `strata install-boot`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Where there is no systemd, or to begin before it: install with --init,
and add to the kernel's command line
  init=/usr/bin/strata -- boot-init NAME
which starts the session and then executes /sbin/init. Once the disks
are mounted, `strata settle NAME` writes what was held in memory to DIR.
")]
pub struct InstallBootFlags {
    /// Name of the session
    pub name: String,

    /// Record the kernel's events that RULES select; may be repeated [default: as of `strata record`, of all processes;
    /// none with --user]
    #[arg(short, long = "kernel", value_name = "RULES", value_parser = parse_kernel_rules)]
    kernel: Vec<String>,

    /// Record the tracepoints of applications that RULE selects; may be repeated
    #[arg(short, long = "user", value_name = "RULE", value_parser = parse_rules)]
    user: Vec<String>,

    /// Only those events that EXPRESSION selects
    #[arg(short, long, value_name = "EXPRESSION", value_parser = checked_filter)]
    filter: Option<String>,

    /// Limit the trace in memory (/run) until the disk is mounted, such as 256M. Further records stay in the buffers, and
    /// are discarded and counted when these are full
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value_t = SIZE, hide_default_value = true)]
    size: u64,

    /// Make a folder for each boot's trace in DIR, strata-trace-DATE-TIME
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "/var/lib/strata/boot")]
    pub output: PathBuf,

    /// Size of a sub-buffer, a power of two such as 512K or 2M [default: 1M, less with many CPUs or little memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    subbuf_size: Option<u64>,

    /// Sub-buffers for each CPU, a power of two [default: 8, fewer with very many CPUs]
    #[arg(long, value_name = "N")]
    num_subbuf: Option<u32>,

    #[command(flatten)]
    rotate: RotateFlags,

    #[command(flatten)]
    keep_last: RetentionFlags,

    /// Path of strata at boot [default: this program]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub program: Option<PathBuf>,

    /// Install into the system whose root folder is DIR, such as an image
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,

    /// Let the kernel's command line start the session, by `strata boot-init`, instead of a unit
    #[arg(long)]
    pub init: bool,

    /// Remove what was installed under this name
    #[arg(long, conflicts_with_all = ["kernel", "user", "filter", "init", "program"])]
    pub remove: bool,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

impl InstallBootFlags {
    /// Makes the session's plan from the flags.
    ///
    /// # Errors
    /// The flags or their rules are not valid.
    pub fn plan(&self) -> Result<Plan> {
        let mut plan = Plan::new(false, Some(PathBuf::from(EARLY).join(&self.name)));
        let size = self.size;
        anyhow::ensure!(size >= SETTLE_BYTES_MIN, "--size: {size} bytes, at least 1M");
        plan.settle = Some(Settle { folder: self.output.clone(), size });
        (plan.rotation, plan.retention) = (self.rotate.rotation(), self.keep_last.retention());
        (plan.subbuf_size, plan.num_subbuf) = (self.subbuf_size, self.num_subbuf);
        let default: Vec<String> = DEFAULT_KERNEL_RULES.map(str::to_owned).to_vec();
        let kernel = match (self.kernel.is_empty(), self.user.is_empty()) {
            (true, true) => &default,
            _ => &self.kernel,
        };
        for (layer, texts) in [(LayerOf::Kernel, kernel), (LayerOf::User, &self.user)] {
            if texts.is_empty() {
                continue;
            }
            let rules = split(layer, texts)?;
            let (excluding, selecting): (Vec<String>, Vec<String>) =
                rules.into_iter().partition(|rule| rule.starts_with('!'));
            for (rules, filter) in [(excluding, None), (selecting, self.filter.clone())] {
                if !rules.is_empty() {
                    let (channel, exclude) = (None, Vec::new());
                    let change = EnableEvents {
                        layer,
                        channel,
                        rules,
                        filter,
                        exclude,
                        sample: None,
                        stack: CallStacks::None,
                        probe: false,
                        slower_ns: None,
                        every: None,
                        at_most: None,
                    };
                    plan = plan.changed(&Change::EnableEvent(change))?;
                }
            }
        }
        plan.check()?;
        Ok(plan)
    }
}

/// `strata settle`.
#[derive(Debug, Args)]
pub struct SettleFlags {
    /// Name of the session [default: the only one there is]
    pub name: Option<String>,

    /// Make the trace's folder in DIR, strata-trace-DATE-TIME [default: the folder in its plan]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `strata boot-init`.
#[derive(Debug, Args)]
pub struct BootInitFlags {
    /// Go on with the boot after TIME, if the session does not record by then
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "20s")]
    pub timeout: Duration,

    /// The session that was installed under this name
    pub name: String,

    /// The program that runs then, and its arguments [default: /sbin/init]
    #[arg(value_name = "INIT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub init: Vec<std::ffi::OsString>,
}
