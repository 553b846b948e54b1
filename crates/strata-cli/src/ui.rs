//! The command `strata ui`: the timeline in a browser.
//!
//! ```text
//! traces, or a session ─▶ Traces / Awaited / SnapshotTaker ─▶ strata_ui::Server ─ ready() ─▶ address on stdout ─▶ browser
//!                                                                  └─ serves until a signal
//! --save FILE ─▶ strata_ui::SavedPage: one file, and no server
//! ```
//!
//! - Two traces with `--compare` are shown side by side. Several traces without it are one.
//! - A trace that is being recorded is followed; without an event yet, the page waits for the first one.
//! - A session that is a flight recorder has no trace: `recorder` takes a snapshot when the page asks. It runs as a
//!   process of its own, since the server gives up the rights that a snapshot needs.
//!
//! As root, the server gives up root's rights, except those to read, before it accepts a connection, and does not
//! open a browser. The address has a token. A browser is given it in a file that only this user can read, since all
//! users can see the arguments of a program.
//!
//! # Threads
//! The server's threads are in `strata_ui`; this file prepares what they share and waits for the end. Rights are
//! given up before anything of a trace is interpreted, because traces and requests come from others. `--save`
//! does the same in a thread of its own and then ends.
//!
//! The page keeps working when the server is started again: with `--token-file` the token stays, and `--port` is
//! the same.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use clap::{Args, ValueHint};
use strata_analyze::counters::CounterRule;
use strata_analyze::pipeline;
use strata_analyze::render::When;
use strata_ctf::read::{Follow, OpenError, OpenOptions, Reader, TimeRange};
use strata_ui::{Awaited, Opener, SavedPage, Server, Source, TileCache, Traces};

use crate::reading::traces::TracesFlags;
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stdout;
use crate::units::{self, parse_size};

mod recorder;

const SEE_ALSO: &str = "\
The address has a token: only who knows it is answered, and only on this
machine. From another one, over SSH:
  ssh -L PORT:127.0.0.1:PORT HOST

Exit status:
  2    nothing can be read, or the port cannot be had
  130  ended by Ctrl-C";

/// Flags of `strata ui`.
#[derive(Debug, Args)]
#[command(after_help = SEE_ALSO)]
pub struct UiFlags {
    #[command(flatten)]
    traces: TracesFlags,

    /// Show two traces side by side: the one before, and the one after a change
    #[arg(long, conflicts_with = "save")]
    compare: bool,

    /// Listen on this port of 127.0.0.1 [default: one that is free]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Take the token of the address from FILE, which is made if there is none: a page that is open goes on when the
    /// server is started again on its port
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "save")]
    token_file: Option<PathBuf>,

    /// Draw a numeric field as a counter, such as 'myapp:queue.length'; '*' is any text
    #[arg(long = "counter", value_name = "[EVENT.]FIELD")]
    counters: Vec<CounterRule>,

    /// Write a page with what is between --from and --until to FILE, and serve nothing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    save: Option<PathBuf>,

    /// With --save: from TIME on, such as 12:00:01.5, +1.5s since the trace begins, @SECONDS since 1970
    #[arg(long, value_name = "TIME", value_parser = When::parse, allow_hyphen_values = true, requires = "save")]
    from: Option<When>,

    /// With --save: up to TIME, as in --from
    #[arg(long, value_name = "TIME", value_parser = When::parse, allow_hyphen_values = true, requires = "save")]
    until: Option<When>,

    /// With --save: at most SIZE of slices. If there are more, the page has the finest cells that fit
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "16M", requires = "save")]
    save_size: u64,

    /// Read the trace even if it was shown before, and keep nothing of it in $XDG_CACHE_HOME/strata/ui
    #[arg(long, conflicts_with = "save")]
    no_cache: bool,

    /// Only print the address
    #[arg(long)]
    no_open: bool,

    /// Take a snapshot of the session for each line that is read
    #[arg(long = "takes-snapshots", hide = true)]
    takes_snapshots: bool,
}

/// Runs `strata ui`: serves the page until a signal ends it.
pub fn run(flags: &UiFlags) -> Result<u8> {
    if flags.takes_snapshots {
        return recorder::serve(flags.traces.only_session().unwrap_or_default());
    }
    let (traces, snapshots, awaited) = match recorder::flight_recorder(flags.traces.only_session())
    {
        Some(of) if flags.save.is_none() && !flags.compare => {
            let mut snapshots = recorder::snapshots_of(of.name)?;
            if of.holds_records {
                let first = snapshots.take().map_err(anyhow::Error::msg)?;
                say(format!("snapshot of session '{}': {}", of.name, first.typed));
                (vec![first], Some(snapshots), None)
            } else {
                let text = recorder::nothing_yet(of.name);
                say(format!("{text}. The page waits for the first one"));
                let awaited = Awaited { title: of.name.to_owned(), text, opener: None };
                (Vec::new(), Some(snapshots), Some(awaited))
            }
        }
        _ => {
            let paths = flags.traces.paths()?;
            let absolute =
                |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let paths: Vec<PathBuf> = paths.iter().map(absolute).collect();
            if let Some(file) = &flags.save {
                return save(flags, file, &paths);
            }
            match awaited_traces(flags, &paths) {
                Some(awaited) => {
                    say(format!("{}. The page waits for the first one", awaited.text));
                    (Vec::new(), None, Some(awaited))
                }
                None => (traces_of(flags.compare, paths)?, None, None),
            }
        }
    };
    let was_root = rustix::process::geteuid().is_root();
    let mut server = Server::new(traces, flags.port, flags.counters.clone())?;
    if !flags.no_cache && snapshots.is_none() && awaited.is_none() {
        match TileCache::open() {
            Ok(cache) => server = server.with_cache(cache),
            Err(error) => say(format!("the trace is read anew each time: {error}")),
        }
    }
    if let Some(snapshots) = snapshots {
        server = server.with_snapshots(snapshots);
    }
    if let Some(awaited) = awaited {
        server = server.with_awaited(awaited);
    }
    if let Some(file) = &flags.token_file {
        let token = strata_ui::token_of(file);
        let context = || format!("ui: --token-file {}", file.display());
        server = server.with_token(token.with_context(context)?);
    }
    let ready = server.ready()?;
    let address = ready.address();
    let mut out = stdout::raw();
    writeln!(out, "{address}").and_then(|()| out.flush()).context("ui: cannot write to stdout")?;
    let is_remote = std::env::var_os("SSH_CONNECTION").is_some();
    if is_remote {
        let port = ready.port();
        say(format!(
            "this machine is reached by SSH: on yours, type `ssh -L {port}:127.0.0.1:{port} HOST`, then open the address"
        ));
    }
    if ready.has_given_up_root {
        say("root's rights are given up, but for reading".to_owned());
    }
    let has_display =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let opens = !flags.no_open && !was_root && !is_remote && has_display;
    if opens && !open(&address) {
        say("no browser was found (xdg-open): open the address".to_owned());
    }
    say("Ctrl-C ends it".to_owned());
    ready.serve()?;
    Ok(0)
}

/// Opens what is shown: all traces as one, or two of them beside each other.
fn traces_of(compares: bool, paths: Vec<PathBuf>) -> Result<Vec<Traces>> {
    let open = |paths: Vec<PathBuf>| {
        let typed = paths.iter().map(|path| units::typed(path)).collect::<Vec<_>>().join(" ");
        Ok(Traces { source: open_source(&paths)?, paths, typed })
    };
    if !compares {
        return Ok(vec![open(paths)?]);
    }
    if paths.len() != 2 {
        bail!(
            "ui --compare: {} given, and two are compared. Type: strata ui --compare BEFORE AFTER",
            units::counted(paths.len() as u64, "trace")
        );
    }
    paths.into_iter().map(|path| open(vec![path])).collect()
}

/// Writes a page of a time range to a new file.
fn save(flags: &UiFlags, file: &Path, paths: &[PathBuf]) -> Result<u8> {
    let name = file.display();
    let context = || format!("ui: cannot write {name}");
    // Reading the traces may take long.
    if file.symlink_metadata().is_ok() {
        return Err(std::io::Error::from(rustix::io::Errno::EXIST)).with_context(context);
    }
    // A thread of its own, which has no rights of root but to read, as the server.
    let page = std::thread::scope(|scope| {
        let make = || {
            strata_ui::give_up_root().context("ui: cannot give up root's rights")?;
            saved_page(flags, paths)
        };
        let thread = std::thread::Builder::new().name("page".to_owned());
        let thread = thread.spawn_scoped(scope, make).context("ui: cannot make a thread")?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    // Its readers are chosen by the user: those of the trace may be few.
    let made = new_file(file);
    let written = made.and_then(|mut made| {
        let written = made.write_all(page.html.as_bytes());
        written.inspect_err(|_| drop(std::fs::remove_file(file)))
    });
    written.with_context(context)?;
    let what = match page.level {
        0 => "every slice".to_owned(),
        level => format!(
            "cells of {}: a shorter time has finer ones",
            units::time(Duration::from_nanos(1 << level))
        ),
    };
    say(format!("{name} ({}) has {what}", units::size(page.html.len() as u64)));
    Ok(0)
}

/// Makes a file that nobody else can read, unless there is one.
fn new_file(file: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)
}

/// Makes the page of a time of the traces.
fn saved_page(flags: &UiFlags, paths: &[PathBuf]) -> Result<SavedPage> {
    let reader = Reader::open(paths)?;
    let span = pipeline::span_of_records(&reader);
    let zone = crate::time_zone::local();
    let mut range = TimeRange::ALL;
    if let Some(from) = &flags.from {
        range.from = from.resolve(span, &zone)?;
    }
    if let Some(until) = &flags.until {
        range.to = until.resolve(span, &zone)?;
    }
    if range.from > range.to {
        bail!("ui: --from is later than --until, so nothing is between them. Exchange them");
    }
    let typed = paths.iter().map(|path| units::typed(path)).collect::<Vec<_>>().join(" ");
    let bytes = usize::try_from(flags.save_size).unwrap_or(usize::MAX);
    let of = (strata_ui::title_of(paths), typed);
    let page = strata_ui::save(&reader, (&of.0, &of.1), range, bytes, &flags.counters);
    let Some(page) = page.context("ui: cannot make the page")? else {
        bail!(
            "ui: the slices between --from and --until take more than {}, even at the coarsest level. Give a shorter \
             time, or a greater --save-size",
            units::size(flags.save_size)
        );
    };
    Ok(page)
}

/// Opens the traces; they are followed if one of them is being recorded.
fn open_source(paths: &[PathBuf]) -> Result<Source> {
    if paths.iter().any(|path| Follow::is_recorded(path)) {
        return Ok(Source::Growing(Box::new(Follow::open(paths, OpenOptions::default())?)));
    }
    let reader = Reader::open(paths)?;
    match reader.traces().iter().any(|trace| Follow::is_recorded(trace.path())) {
        true => Ok(Source::Growing(Box::new(Follow::open(paths, OpenOptions::default())?))),
        false => Ok(Source::Whole(Box::new(reader))),
    }
}

/// Returns what is to be waited for, if one of the traces is being recorded and has no event yet.
fn awaited_traces(flags: &UiFlags, paths: &[PathBuf]) -> Option<Awaited> {
    let has_nothing = |paths: &[PathBuf]| {
        let opened = Follow::open(paths, OpenOptions::default());
        matches!(opened, Err(OpenError::NoTrace { .. }))
            && paths.iter().any(|path| Follow::is_recorded(path))
    };
    let awaits = match flags.compare {
        true => paths.len() == 2 && paths.chunks(1).any(has_nothing),
        false => has_nothing(paths),
    };
    if !awaits {
        return None;
    }
    let names = paths.iter().filter_map(|path| path.file_name());
    let title: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
    let (compares, paths) = (flags.compare, paths.to_vec());
    let opener: Opener = Box::new(move || match traces_of(compares, paths.clone()) {
        Ok(traces) => Ok(Some(traces)),
        Err(error) => match error.downcast_ref::<OpenError>() {
            Some(OpenError::NoTrace { .. })
                if paths.iter().any(|path| Follow::is_recorded(path)) =>
            {
                Ok(None)
            }
            _ => Err(format!("{error:#}")),
        },
    });
    let text = "no event is recorded yet".to_owned();
    Some(Awaited { title: title.join(", "), text, opener: Some(opener) })
}

fn say(text: String) {
    stderr::message(&Message { weight: Weight::Talk, text });
}

/// Longest time that a browser may take to read the file with the address.
const OPENING: Duration = Duration::from_secs(60);
const PREFIX: &str = "strata-ui-";
const SUFFIX: &str = ".html";

/// Starts the desktop's browser. Returns true if that succeeded. The address is passed in a file that only this user
/// can read, since all users can see a program's arguments.
fn open(address: &str) -> bool {
    let Some(folder) = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) else { return false };
    remove_old(&folder);
    let file = folder.join(format!("{PREFIX}{}{SUFFIX}", std::process::id()));
    let text = format!(
        "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0;url={address}\"><a href=\"{address}\">strata ui</a>\n"
    );
    let made = new_file(&file);
    if made.and_then(|mut made| made.write_all(text.as_bytes())).is_err() {
        return false;
    }
    let mut command = Command::new("xdg-open");
    command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if command.spawn().is_err() {
        let _ = std::fs::remove_file(&file);
        return false;
    }
    std::thread::spawn(move || {
        std::thread::sleep(OPENING);
        let _ = std::fs::remove_file(&file);
    });
    true
}

/// Removes files of servers that a signal ended before they could remove them.
fn remove_old(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let pid = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
        let pid = pid.and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_addresses_of_servers_that_have_ended_are_removed_and_no_others() {
        let folder = std::env::temp_dir().join(format!("strata-ui-old-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let own = format!("strata-ui-{}.html", std::process::id());
        // The kernel's greatest number of a process is 4,194,304.
        let names = ["strata-ui-4294967.html", own.as_str(), "strata-ui-x.html", "4294967.html"];
        names.iter().for_each(|name| std::fs::write(folder.join(name), "").unwrap());
        remove_old(&folder);
        let is_there: Vec<bool> = names.iter().map(|name| folder.join(name).exists()).collect();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(is_there, [false, true, true, true]);
    }
}
