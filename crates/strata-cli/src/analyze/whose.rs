//! Of whom a report is: `--of` and `--mine`.

use anyhow::{bail, Result};
use clap::Args;
use strata_analyze::mine::{Mine, MineError, Processes};
use strata_analyze::pipeline;
use strata_analyze::reports::Label;
use strata_ctf::read::Reader;
use strata_session::stop::Stop;
use strata_timeline::World;

use crate::talk;
use crate::talk::messages::{Message, Weight};
use crate::talk::units::counted;

/// What selects instead of `--mine`, in reports that have `--of` for threads or processes.
pub const BY_OF: &str = "Select by --of NAME|NUMBER";
/// The same in others.
pub const ELSEWHERE: &str =
    "Reports of threads, such as `strata analyze threads`, select by --of NAME|NUMBER";

/// `--mine`.
#[derive(Debug, Args)]
pub struct MineFlags {
    /// Only the command that was recorded and what it started
    #[arg(long)]
    mine: bool,
}

impl MineFlags {
    /// Whether it is asked for.
    pub fn is_asked(&self) -> bool {
        self.mine
    }
}

/// Of whom a report is asked for.
#[derive(Debug)]
pub struct Whose<'f> {
    of: Option<&'f str>,
    mine: Option<Mine>,
}

/// The same, when all records were read.
#[derive(Debug)]
pub struct Wanted<'f> {
    of: Option<&'f str>,
    mine: Option<Processes>,
}

impl<'f> Whose<'f> {
    /// What the traces say of that.
    pub fn read(
        of: Option<&'f str>,
        flags: &MineFlags,
        reader: &Reader,
        (report, instead): (&str, &str),
        stop: &Stop,
    ) -> Result<Whose<'f>> {
        if !flags.mine {
            return Ok(Whose { of, mine: None });
        }
        let mine = match Mine::read(reader, pipeline::threads(), &|| stop.requests() > 0) {
            Ok(mine) => mine,
            // Not all was read: the pass over the records ends at once, too.
            Err(_) if stop.requests() > 0 => return Ok(Whose { of, mine: None }),
            Err(MineError::NotSaid) => bail!(
                "analyze {report}: --mine is about the command that was recorded, and none of these traces says which \
                 that was: those of `strata record -- COMMAND` do, and not those of sessions or of a whole machine. \
                 {instead}"
            ),
            Err(error) => bail!("analyze {report}: {error}. {instead}"),
        };
        if mine.unknown() > 0 {
            let traces = counted(mine.unknown() as u64, "trace");
            let text =
                format!("--mine: {traces} that do not say whom they are of are not in the report");
            talk::message(&Message { weight: Weight::Warning, text });
        }
        Ok(Whose { of, mine: Some(mine) })
    }

    /// Whether it is of some only.
    pub fn is_any(&self) -> bool {
        self.of.is_some() || self.mine.is_some()
    }

    /// Who that is.
    pub fn of(&self, world: &World) -> Wanted<'f> {
        Wanted { of: self.of, mine: self.mine.as_ref().map(|mine| mine.processes(world)) }
    }
}

impl Wanted<'_> {
    /// Whether a thread, or a process, is one of them.
    pub fn has(&self, label: &Label) -> bool {
        let is_mine = |mine: &Processes| label.home.is_some_and(|home| mine.has(home));
        self.mine.as_ref().is_none_or(is_mine) && is_wanted(self.of, label)
    }
}

/// `--of`: whether the words name a thread or its process; nobody asked: all.
pub fn is_wanted(of: Option<&str>, label: &Label) -> bool {
    of.is_none_or(|of| {
        let number = of.parse::<i32>().ok();
        label.process == of
            || label.thread.as_deref() == Some(of)
            || number.is_some() && (label.pid == number || label.tid == number)
    })
}
