//! A prompt for queries: lines with a history, and completion of tables, columns and keywords.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};
use strata_sql::{ends_statement, Tables};

/// Limit on the statements that the history keeps.
const LINES: usize = 1000;

/// Words that are completed besides names of tables and columns.
const WORDS: [&str; 42] = [
    ".format",
    ".help",
    ".quit",
    ".schema",
    ".tables",
    "and",
    "as",
    "asc",
    "at",
    "avg",
    "between",
    "bucket",
    "by",
    "case",
    "count",
    "desc",
    "distinct",
    "exists",
    "from",
    "group",
    "having",
    "histogram",
    "is",
    "join",
    "json_extract",
    "left",
    "like",
    "limit",
    "max",
    "median",
    "min",
    "not",
    "null",
    "order",
    "overlap",
    "percentile",
    "select",
    "span_join",
    "sum",
    "symbol",
    "where",
    "with",
];

/// Names that are used to complete a line.
#[derive(Debug)]
pub(super) struct Names {
    tables: Vec<Tables>,
}

impl Names {
    pub(super) fn new(tables: Vec<Tables>) -> Names {
        Names { tables }
    }

    /// Returns where the last word of a text begins, and its completions: tables, columns of the tables that the text
    /// names (of all tables if it names none), and words of SQL.
    fn complete(&self, text: &str) -> (usize, Vec<String>) {
        let is_of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '"');
        let begin = text.char_indices().rev().take_while(|(_, c)| is_of_word(*c)).last();
        let begin = begin.map_or(text.len(), |(index, _)| index);
        let (before, word) = text.split_at(begin);
        let wanted = word.trim_start_matches('"').to_ascii_lowercase();
        if wanted.is_empty() {
            return (begin, Vec::new());
        }
        let words: BTreeSet<&str> =
            before.split(|c| !is_of_word(c)).map(|word| word.trim_matches('"')).collect();
        let is_named = |table: &&Tables| words.contains(table.name.as_str());
        let any = self.tables.iter().any(|table| is_named(&table));
        let of_columns = self.tables.iter().filter(|table| !any || is_named(table));
        let columns =
            of_columns.flat_map(|table| table.columns.iter().map(|(name, _)| name.as_str()));
        let tables = self.tables.iter().map(|table| table.name.as_str());
        let all: BTreeSet<&str> = tables.chain(columns).chain(WORDS).collect();
        let fits = all.into_iter().filter(|name| name.to_ascii_lowercase().starts_with(&wanted));
        (begin, fits.map(identifier).collect())
    }
}

/// Returns a name as it is written in a statement, in quotes if it needs them.
fn identifier(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))
        && !name.starts_with(|c: char| c.is_ascii_digit());
    match is_plain && !name.trim_start_matches('.').contains('.') {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

impl Completer for Names {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let (begin, mut found) = self.complete(line.get(..position).unwrap_or(line));
        // Names from a trace must not act on the terminal.
        found.retain(|name| !name.chars().any(char::is_control));
        Ok((begin, found))
    }
}

impl Hinter for Names {
    type Hint = String;
}
impl Highlighter for Names {}
impl Validator for Names {}
impl Helper for Names {}

/// Returns the path of the file with the lines of earlier prompts, in the user's folder for state.
fn history_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|path| Path::new(path).is_absolute());
    let state = set("XDG_STATE_HOME").map(PathBuf::from);
    let state =
        state.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".local/state")))?;
    Some(state.join("strata").join("sql_history"))
}

/// Opens the folder of the history, after making it if necessary. Returns it with the path of the history that leads
/// through the open folder.
///
/// Returns `None`, so that no history is kept, if the folder or the file is a link or belongs to another user. Root's
/// home may be another user's, as with sudo, and a user who can change the folder could make root write to any file. As
/// the path leads through the open folder, nobody can replace the folder.
fn own_history() -> Option<(OwnedFd, PathBuf)> {
    let file = history_file()?;
    let folder = file.parent()?;
    let own = rustix::process::geteuid().as_raw();
    let existing = folder.ancestors().find_map(|folder| fs::metadata(folder).ok())?;
    if existing.uid() != own {
        return None;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty()).ok()?;
    let of_folder = rustix::fs::fstat(&folder).ok()?;
    if of_folder.st_uid != own || of_folder.st_mode & 0o022 != 0 {
        return None;
    }
    let name = file.file_name()?;
    match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => {
            let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
            if !is_file || found.st_uid != own {
                return None;
            }
        }
        Err(Errno::NOENT) => {}
        Err(_) => return None,
    }
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    Some((folder, path))
}

/// Terminal from which statements are read.
///
/// The prompt handles SIGINT from its creation on: to receive the signal, install a handler afterwards.
pub(super) struct Prompt(Editor<Names, FileHistory>);

impl Prompt {
    /// Makes the line editor.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(super) fn new() -> Result<Prompt> {
        let config = Config::builder().max_history_size(LINES)?.build();
        Ok(Prompt(Editor::with_config(config).context("sql: cannot use the terminal")?))
    }

    /// Passes each statement to `run`, until the user ends the prompt with Ctrl-D.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub(super) fn run(self, names: Names, run: impl FnMut(&str)) -> Result<()> {
        statements(self.0, names, run)
    }
}

fn statements(
    mut editor: Editor<Names, FileHistory>,
    names: Names,
    mut run: impl FnMut(&str),
) -> Result<()> {
    editor.set_helper(Some(names));
    let history = own_history();
    if let Some((_, file)) = &history {
        // At first there is no history.
        let _ = editor.load_history(file);
    }
    let mut text = String::new();
    loop {
        let prompt = if text.is_empty() { "strata> " } else { "   ...> " };
        match editor.readline(prompt) {
            Ok(line) => {
                let line = line.trim_end();
                if text.is_empty() && (line.trim().is_empty() || line.trim_start().starts_with('.'))
                {
                    if matches!(line.trim(), ".quit" | ".exit") {
                        break;
                    }
                    if !line.trim().is_empty() {
                        keep(&mut editor, line);
                        run(line);
                    }
                    continue;
                }
                text.push_str(line);
                text.push('\n');
                if ends_statement(&text) {
                    keep(&mut editor, &text);
                    run(&text);
                    text.clear();
                }
            }
            // Ctrl-C cancels the present statement, whose lines the history keeps.
            Err(ReadlineError::Interrupted) => {
                keep(&mut editor, &text);
                text.clear();
            }
            Err(ReadlineError::Eof) => break,
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("sql: cannot read the terminal"),
        }
    }
    if let Some((_, file)) = &history {
        // If the history cannot be saved, the next prompt begins without it.
        let _ = editor.save_history(file);
    }
    Ok(())
}

/// Adds a statement to the history, as one entry whatever number of lines it has.
fn keep(editor: &mut Editor<Names, FileHistory>, text: &str) {
    // The history refuses the same again, and lines that begin with a space.
    let _ = editor.add_history_entry(text.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let table = |name: &str, columns: &[&str]| Tables {
            name: name.to_owned(),
            columns: columns.iter().map(|&name| (name.to_owned(), "TEXT".to_owned())).collect(),
            is_of_events: false,
        };
        Names::new(vec![
            table("events", &["time_ns", "name"]),
            table("sched_switch", &["time_ns", "prev_comm", "prev_tid"]),
            table("my:event", &["a b"]),
        ])
    }

    #[test]
    fn words_become_tables_columns_of_the_named_tables_and_words_of_sql() {
        for (text, begin, found) in [
            ("sel", 0, &["select"][..]),
            ("select * from sched", 14, &["sched_switch"]),
            ("select * from sched_switch where prev", 33, &["prev_comm", "prev_tid"]),
            ("select * from events where prev", 27, &[]),
            ("select PREV_C", 7, &["prev_comm"]),
            ("select * from my", 14, &["\"my:event\""]),
            ("select * from \"my:e", 14, &["\"my:event\""]),
            (".t", 0, &[".tables"]),
            ("select ", 7, &[]),
            ("", 0, &[]),
        ] {
            let found: Vec<String> = found.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(names().complete(text), (begin, found), "{text}");
        }
    }
}
