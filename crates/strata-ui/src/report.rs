//! Reports of `strata analyze` for a range of time: the page shows the output of the command itself.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{mpsc, Mutex};
use std::time::Duration;

/// Reports that can be requested.
pub const REPORTS: [&str; 10] =
    ["summary", "threads", "syscalls", "files", "locks", "spans", "irq", "cpu", "memory", "flame"];
/// Limit on the time for one report.
const PATIENCE: Duration = Duration::from_secs(120);
/// Limit on the size of one report \[byte\].
const BYTES_MAX: u64 = 1 << 20;

/// Returns a report for a range of time, as the command prints it.
///
/// # Errors
/// The report cannot be made; the text is shown instead.
pub fn report(name: &str, traces: &[PathBuf], range: (i64, i64)) -> Result<String, String> {
    let Some(name) = REPORTS.iter().find(|known| **known == name) else {
        return Err(format!("there is no such report. There are {}", REPORTS.join(", ")));
    };
    // One at a time, since the same few threads also answer with tiles.
    static ONE: Mutex<()> = Mutex::new(());
    let Ok(_one) = ONE.try_lock() else {
        return Err("another report is being made: ask again when it is there".to_owned());
    };
    let mut command = Command::new("/proc/self/exe");
    command.arg("analyze").arg(name).args(bounds(range));
    command.arg("--").args(traces);
    command.env("COLUMNS", "160").env("NO_COLOR", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("strata analyze {name}: {error}"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (sender, texts) = mpsc::channel();
    let said = std::thread::spawn(move || read(err));
    std::thread::spawn(move || sender.send(read(out)));
    let text = texts.recv_timeout(PATIENCE);
    // The command has ended, has printed more than is shown, or takes too long.
    let _ = child.kill();
    let _ = child.wait();
    let said = said.join().unwrap_or_default();
    match text {
        Err(_) => {
            Err(format!("strata analyze {name} has taken more than {} s", PATIENCE.as_secs()))
        }
        Ok(text) if text.is_empty() => Err(said),
        Ok(text) => Ok(text),
    }
}

/// Returns the flags that select a range of time.
#[must_use]
pub fn bounds((from, to): (i64, i64)) -> [String; 4] {
    let seconds = |time: i64| {
        let sign = if time < 0 { "-" } else { "" };
        let time = time.unsigned_abs();
        format!("@{sign}{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
    };
    ["--from".into(), seconds(from), "--until".into(), seconds(to)]
}

fn read(from: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        let _ = from.take(BYTES_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
