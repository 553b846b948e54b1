//! Of whom a report is: `--of` and `--mine`.

use anyhow::{bail, Result};
use clap::Args;
use strata_analyze::mine::{Mine, MineError, Processes};
use strata_analyze::pipeline;
use strata_analyze::reports::{Kept, Label};
use strata_ctf::read::Reader;
use strata_session::stop::Stop;
use strata_timeline::World;

use crate::talk;
use crate::talk::messages::{Message, Weight};
use crate::talk::units::{count, counted};

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

/// Of whom a report is asked for.
#[derive(Debug)]
pub struct Whose<'f> {
    of: Option<&'f str>,
    mine: Option<Mine>,
}

/// The same, when all records were read.
#[derive(Debug)]
pub struct WantedProcesses<'f> {
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

    /// How many of the longest are kept, where so many are shown, and not more than `most`.
    pub fn kept(&self, shown: usize, most: usize) -> Kept {
        match self.is_any() {
            true => Kept::of_each_thread(shown, most),
            false => Kept::of_all(shown.min(most)),
        }
    }

    /// Say it if fewer of the longest were `found` than are shown, though there are so many `of_them`. `what`: as they are
    /// asked for.
    pub fn say_fewer(&self, found: usize, shown: usize, most: usize, of_them: u64, what: &str) {
        let text = fewer(found, shown.min(most), most, of_them, what);
        if let Some(text) = text.filter(|_| self.is_any()) {
            talk::message(&Message { weight: Weight::Warning, text });
        }
    }

    /// Who that is.
    pub fn of(&self, world: &World) -> WantedProcesses<'f> {
        WantedProcesses { of: self.of, mine: self.mine.as_ref().map(|mine| mine.processes(world)) }
    }
}

impl WantedProcesses<'_> {
    /// Whether a thread, or a process, is one of them.
    pub fn has(&self, label: &Label) -> bool {
        let is_mine = |mine: &Processes| label.home.is_some_and(|home| mine.has(home));
        self.mine.as_ref().is_none_or(is_mine) && is_wanted(self.of, label)
    }
}

fn fewer(found: usize, shown: usize, most: usize, of_them: u64, what: &str) -> Option<String> {
    let there = u64::try_from(shown).unwrap_or(u64::MAX).min(of_them);
    let found = u64::try_from(found).unwrap_or(u64::MAX);
    (found < there).then(|| {
        let known = match found {
            0 => format!("none of the {what} is known"),
            1 => format!("only the first of the {what} is known"),
            found => format!("only the first {} of the {what} are known", count(found)),
        };
        format!(
            "{known}, of {} that are shown: while the trace is read, not more than {} are kept of all threads, and others had \
             longer ones. Take less time, by --from and --until",
            count(there),
            count(most as u64),
        )
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_of_the_longest_than_are_shown_and_there_are_is_said() {
        for (found, shown, of_them) in [(10, 10, 500), (3, 10, 3), (0, 0, 500), (0, 10, 0)] {
            assert_eq!(fewer(found, shown, 100, of_them, "slowest"), None);
        }
        let text = fewer(3, 10, 10_000, 500, "slowest").unwrap();
        assert!(
            text.starts_with("only the first 3 of the slowest are known, of 10 that"),
            "{text}"
        );
        assert!(text.contains("not more than 10,000 are kept"), "{text}");
        let text = fewer(0, 10, 100, 4, "slowest").unwrap();
        assert!(text.starts_with("none of the slowest is known, of 4 that"), "{text}");
    }

    #[test]
    fn longest_are_kept_of_each_thread_where_only_some_are_shown() {
        let of_some = Whose { of: Some("shop"), mine: None };
        assert_eq!(of_some.kept(10, 100), Kept::of_each_thread(10, 100));
        let of_all = Whose { of: None, mine: None };
        assert_eq!(of_all.kept(10, 100), Kept::of_all(10));
        assert_eq!(of_all.kept(1000, 100), Kept::of_all(100));
    }
}
