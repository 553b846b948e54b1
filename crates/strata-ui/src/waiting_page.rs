//! What is shown of a recording that has no event yet: the page is there, and waits for the first one.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::server::App;
use crate::shown_trace::{pass, Shown, Traces};

/// Opens the traces; returns `None` as long as there is nothing to open, or the reason for which they cannot be opened.
pub type Opener = Box<dyn FnMut() -> Result<Option<Vec<Traces>>, String> + Send>;

/// Period at which a recording is checked for its first event.
const PERIOD: Duration = Duration::from_millis(100);
/// Period at which a flight recorder is asked for a first snapshot.
const SNAPSHOT_PERIOD: Duration = Duration::from_secs(1);

/// Traces that do not exist yet.
pub struct Awaited {
    /// Title of the page.
    pub title: String,
    /// Text that says what is waited for.
    pub text: String,
    /// Opens the traces; `None` for a flight recorder, whose first snapshot is waited for.
    pub opener: Option<Opener>,
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Awaited").field("title", &self.title).finish_non_exhaustive()
    }
}

/// Waits for the traces in a thread of its own, and shows them as soon as they are there.
///
/// # Errors
/// No thread can be made.
pub fn await_in_thread(app: Arc<App>, mut awaited: Awaited) -> io::Result<()> {
    let wait = move || loop {
        let (opened, period) = match &mut awaited.opener {
            Some(opener) => (opener(), PERIOD),
            None => (app.first_snapshot(), SNAPSHOT_PERIOD),
        };
        // The user may have taken a snapshot meanwhile.
        if !app.is_awaiting() {
            return;
        }
        match opened {
            Ok(Some(traces)) => match show(&app, traces) {
                Ok(()) => return,
                Err(error) => app.awaits(&error.to_string()),
            },
            Ok(None) => app.awaits(&awaited.text),
            Err(text) => app.awaits(&text),
        }
        thread::sleep(period);
    };
    thread::Builder::new().name("await".into()).spawn(wait).map(drop)
}

fn show(app: &App, traces: Vec<Traces>) -> io::Result<()> {
    let mut all = Vec::new();
    for (place, traces) in traces.into_iter().enumerate() {
        let (shown, follow) = Shown::new(traces, app.counters(), place, None)?;
        let shown = Arc::new(shown);
        pass(Arc::clone(&shown), follow)?;
        all.push(shown);
    }
    app.show(all);
    Ok(())
}
