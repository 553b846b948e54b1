//! Reports of `strata analyze` for a range of time: the page shows the output of the command itself.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{mpsc, Mutex};
use std::time::Duration;

use serde_json::Value;

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
    let mut arguments: Vec<OsString> = vec!["analyze".into(), (*name).into()];
    arguments.extend(bounds(range).map(OsString::from));
    arguments.push("--".into());
    arguments.extend(traces.iter().map(OsString::from));
    run(name, &arguments)
}

/// The most changes of a comparison that the page lists.
const CHANGES: &str = "200";

/// Compares a range of time of the first trace with the one of the second trace that is `shift` ns later.
///
/// # Errors
/// The report cannot be made; the text is shown instead.
pub fn compare(traces: &[PathBuf], range: (i64, i64), shift: i64) -> Result<Value, String> {
    let words = ["analyze", "diff", "--json", "--top", CHANGES];
    let mut arguments: Vec<OsString> = words.map(OsString::from).to_vec();
    arguments.extend(bounds(range).map(OsString::from));
    arguments.extend([OsString::from("--shift"), length(shift).into(), "--".into()]);
    arguments.extend(traces.iter().map(OsString::from));
    let text = run("diff", &arguments)?;
    serde_json::from_str(&text).map_err(|_| text)
}

/// Returns the command that a person types for the same comparison.
#[must_use]
pub fn compare_command(range: (i64, i64), shift: i64, [before, after]: [&str; 2]) -> String {
    let bounds = bounds(range).join(" ");
    format!("strata analyze diff {bounds} --shift {} {before} {after}", length(shift))
}

/// Formats a length that may be negative, as `--shift` reads it.
fn length(nanos: i64) -> String {
    format!("{}{}ns", if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs())
}

/// Runs this program, and returns what it prints.
fn run(name: &str, arguments: &[OsString]) -> Result<String, String> {
    // One at a time, since the same few threads also answer with tiles.
    static ONE: Mutex<()> = Mutex::new(());
    let Ok(_one) = ONE.try_lock() else {
        return Err("another report is being made: ask again when it is there".to_owned());
    };
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_of_a_comparison_names_the_time_of_the_first_trace_and_how_much_later_the_second_is()
    {
        let command =
            |shift| compare_command((1_000_000_001, 2_500_000_000), shift, ["a", "'b c'"]);
        assert_eq!(
            command(-12),
            "strata analyze diff --from @1.000000001 --until @2.500000000 --shift -12ns a 'b c'"
        );
        assert!(command(i64::MIN).contains("--shift -9223372036854775808ns "));
        assert!(command(3_000_000_000).contains("--shift 3000000000ns "));
    }
}
