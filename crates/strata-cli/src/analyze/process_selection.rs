//! Selects the processes of a report: `--of` and `--mine`.

use anyhow::{bail, Result};
use clap::Args;
use strata_analyze::command_descendants::{Mine, MineError, Processes};
use strata_analyze::pipeline;
use strata_analyze::reports::{Label, LongestLimit};
use strata_ctf::read::Reader;
use strata_filter::means_process;
use strata_session::stop::Stop;
use strata_timeline::World;

use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::units::{count, counted};

/// Advice to use `--of` instead of `--mine`, for reports that have `--of` for threads or processes.
pub const BY_OF: &str = "Select by --of NAME|NUMBER";
/// The help text of `--of` in reports on processes.
pub const OF_PROCESSES: &str = "Only processes of this name or number";

/// The flag `--mine`.
#[derive(Debug, Args)]
pub struct MineFlags {
    /// Only the command that was recorded and what it started
    #[arg(long)]
    mine: bool,
}

impl MineFlags {
    /// Returns true if the flag is given.
    pub fn is_any(&self) -> bool {
        self.mine
    }
}

/// The flags `--of` and `--mine`. A report in which `--of` selects something else has a help text of its own for it
/// (`mut_arg`).
#[derive(Debug, Args)]
pub struct WhoseFlags {
    /// Only threads of this name or number, and those of processes of this name or number
    #[arg(long, value_name = "NAME|NUMBER")]
    of: Option<String>,

    #[command(flatten)]
    mine: MineFlags,
}

impl WhoseFlags {
    /// Reads from the traces which processes are wanted.
    pub fn read(&self, reader: &Reader, report: &str, stop: &Stop) -> Result<Whose<'_>> {
        Whose::read(self.of.as_deref(), &self.mine, reader, (report, BY_OF), stop)
    }

    /// Returns true if `--of` is given.
    pub fn has_of(&self) -> bool {
        self.of.is_some()
    }
}

/// The processes that a report is limited to.
#[derive(Debug)]
pub struct Whose<'f> {
    of: Option<&'f str>,
    mine: Option<Mine>,
}

/// The wanted processes, after all records were read.
#[derive(Debug)]
pub struct WantedProcesses<'f> {
    of: Option<&'f str>,
    mine: Option<Processes>,
}

impl<'f> Whose<'f> {
    /// Reads from the traces which processes are wanted.
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
            // The reading was stopped; the pass over the records ends at once as well.
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
            let text = format!(
                "--mine: {traces} that do not say which process they are of are not in the report"
            );
            stderr::message(&Message { weight: Weight::Warning, text });
        }
        Ok(Whose { of, mine: Some(mine) })
    }

    /// Returns true if only some processes are wanted.
    pub fn is_any(&self) -> bool {
        self.of.is_some() || self.mine.is_some()
    }

    /// Returns how many of the longest entries to keep so that `shown` can be shown; at most `most`.
    pub fn kept(&self, shown: usize, most: usize) -> LongestLimit {
        match self.is_any() {
            true => LongestLimit::of_each_thread(shown, most),
            false => LongestLimit::of_all(shown.min(most)),
        }
    }

    /// Warns if fewer of the longest entries were `found` than `shown`, although `of_them` exist, because at most
    /// `most` were kept. `what`: their name.
    pub fn say_fewer(&self, found: usize, shown: usize, most: usize, of_them: u64, what: &str) {
        let text = fewer(found, shown.min(most), most, of_them, what);
        if let Some(text) = text.filter(|_| self.is_any()) {
            stderr::message(&Message { weight: Weight::Warning, text });
        }
    }

    /// Returns the wanted processes of a timeline.
    pub fn of(&self, world: &World) -> WantedProcesses<'f> {
        WantedProcesses { of: self.of, mine: self.mine.as_ref().map(|mine| mine.processes(world)) }
    }
}

impl WantedProcesses<'_> {
    /// Returns whether the report wants the thread or process of a label.
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

/// Returns true if `of` names the thread, its process or its process' program. Without `of`, all are wanted.
pub fn is_wanted(of: Option<&str>, label: &Label) -> bool {
    of.is_none_or(|of| label.is_of(of))
}

/// Returns true if `of` names something that is called `name`, as far as the name is known.
pub fn is_named(of: &str, name: &str) -> bool {
    !name.is_empty() && means_process(of, name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_report_means_what_it_means_to_record() {
        let label = Label {
            process: "shopmain".into(),
            program: "shop".into(),
            thread: Some("fifteen-letters".into()),
            pid: Some(7),
            tid: Some(8),
            ..Label::default()
        };
        for (of, wanted) in [
            ("shopmain", true),
            ("shop", true),
            ("shop*", true),
            ("fifteen-letters-and-more", true),
            ("7", true),
            ("8", true),
            ("sho", false),
            ("9", false),
        ] {
            assert_eq!(is_wanted(Some(of), &label), wanted, "{of}");
        }
        assert!(is_wanted(None, &label) && !is_wanted(Some("*"), &Label::default()));
    }

    #[test]
    fn fewer_of_the_longest_than_are_shown_and_there_are_is_reported() {
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
        assert_eq!(of_some.kept(10, 100), LongestLimit::of_each_thread(10, 100));
        let of_all = Whose { of: None, mine: None };
        assert_eq!(of_all.kept(10, 100), LongestLimit::of_all(10));
        assert_eq!(of_all.kept(1000, 100), LongestLimit::of_all(100));
    }
}
