//! Shows the events of `strata record --live` while they are recorded. It reads the files that the recorder writes, as
//! `strata view --follow` does, so that the recorder never waits for a terminal.

use std::fs::{self, DirBuilder, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use strata_analyze::pipeline::{FollowRenderer, PipelineOutput};
use strata_analyze::render::{Format, Options};
use strata_ctf::read::{Follow, OpenOptions};
use strata_session::stop::Stop;

use crate::flags::live::LiveFlags;
use crate::stderr::messages::{Message, Weight};
use crate::time_zone;
use crate::units::{clean, counted};

/// Longest wait for events after the end of a recording that has left no end mark.
const PATIENCE: Duration = Duration::from_secs(2);

/// A folder for a trace that is not kept; it is removed with its content.
pub struct Unkept(PathBuf);

impl Unkept {
    /// Makes the folder among temporary files, for this user only.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new() -> Result<Unkept> {
        let name = format!("strata-live-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("--no-output: cannot make the folder {}", path.display()))?;
        Ok(Unkept(path))
    }

    /// Path of the trace, valid as long as this value lives.
    pub fn trace(&self) -> PathBuf {
        self.0.join("trace")
    }
}

impl Drop for Unkept {
    fn drop(&mut self) {
        // Content that cannot be removed stays among the temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Shows the events of one recording.
pub struct Live {
    out: File,
    options: Options,
    folder: OnceLock<PathBuf>,
    is_over: AtomicBool,
    stop: Stop,
}

impl Live {
    /// Opens the destination that the flags name; `None` if they do not ask for live events. After two requests to
    /// `stop`, nothing more is shown.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(flags: &LiveFlags, stop: &Stop) -> Result<Option<Live>> {
        if !flags.live {
            return Ok(None);
        }
        let out = match &flags.live_output {
            Some(path) => {
                let opened = File::options().create(true).append(true).open(path);
                opened.with_context(|| format!("--live-output: cannot open {}", path.display()))?
            }
            None => File::from(io::stderr().as_fd().try_clone_to_owned()?),
        };
        let is_terminal = out.is_terminal();
        let asked_not = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let width = rustix::termios::tcgetwinsize(&out).ok().map(|size| usize::from(size.ws_col));
        let options = Options {
            format: Format::Short,
            zone: time_zone::local(),
            colours: is_terminal && !asked_not && !is_dumb,
            tame: is_terminal,
            losses: true,
            width: width.filter(|columns| is_terminal && *columns > 0),
            ..Options::default()
        };
        let (folder, is_over, stop) = (OnceLock::new(), AtomicBool::new(false), stop.clone());
        Ok(Some(Live { out, options, folder, is_over, stop }))
    }

    /// Begins to show the recording in this folder, which has begun.
    pub fn begin(&self, folder: &Path) {
        // The folder is set only once.
        let _ = self.folder.set(folder.to_owned());
    }

    /// Shows the remaining events, now that the recording has ended.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Shows the recording's events until it has ended. Returns a message if something went wrong.
    pub fn run(&self) -> Option<Message> {
        let mut over_since = None;
        let mut is_left = || match self.is_over.load(Ordering::Acquire) {
            true => over_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE,
            false => false,
        };
        let mut follow = loop {
            let is_over = self.is_over.load(Ordering::Acquire);
            let open = |folder| Follow::open(&[folder], OpenOptions::default()).ok();
            match self.folder.get().and_then(open) {
                Some(follow) => break follow,
                // Nothing was recorded, which the recorder reports.
                None if is_over => return None,
                // Nothing was recorded so far.
                None => thread::sleep(FollowRenderer::PERIOD),
            }
        };
        let mut renderer = FollowRenderer::new(&self.options, follow.reader(), None, u64::MAX);
        let mut written = Ok(());
        let mut sink = |output: PipelineOutput<'_>| {
            if let PipelineOutput::Text(text) = output {
                written = (&self.out).write_all(text);
                if written.is_err() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        };
        let stopped = || self.stop.requests() > 1;
        let mut done = ControlFlow::Continue(());
        while done.is_continue() && !stopped() {
            follow.look();
            done = renderer.look(
                &mut follow.events(),
                follow.lent(),
                follow.upto(),
                &stopped,
                &mut sink,
            );
            if follow.has_ended() || is_left() {
                break;
            }
            thread::sleep(FollowRenderer::PERIOD);
        }
        if done.is_continue() {
            // An error means that nobody reads the output any more.
            let _ = renderer.end(&mut sink);
        }
        let text = match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return None,
            Err(error) => {
                format!(
                    "--live: cannot write: {}; nothing was shown from then on",
                    clean(&error.to_string())
                )
            }
            Ok(()) if renderer.late() > 0 => format!(
                "--live: {} written late, and shown behind others with a later time",
                counted(renderer.late(), "event")
            ),
            Ok(()) => return None,
        };
        Some(Message { weight: Weight::Warning, text })
    }
}
