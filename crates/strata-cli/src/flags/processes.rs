//! The flag `--pid`: processes by number or name.

use strata_session::{processes_of, NameError};

/// The largest process id that can exist: `pid_t` is signed.
const PID_MAX: u32 = i32::MAX as u32;

/// The value of `--pid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedProcess {
    /// A process by its process id.
    Number(u32),
    /// All processes of this name.
    Name(String),
}

/// Parses a value of `--pid`: a process id, or a name, which does not consist of digits only. 0 is not allowed.
pub fn parse_process(text: &str) -> Result<AskedProcess, String> {
    if !text.is_empty() && !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(AskedProcess::Name(text.to_owned()));
    }
    let pid = text.parse().ok().filter(|pid| (1..=PID_MAX).contains(pid));
    pid.map(AskedProcess::Number).ok_or_else(|| {
        format!("'{text}' is no number of a process, 1 to {PID_MAX}, and no name of one")
    })
}

/// Returns the requested processes, each once, with the name for those that were given by name.
///
/// # Errors
/// No process has one of the names.
pub fn found(asked: &[AskedProcess]) -> Result<Vec<(Option<&str>, u32)>, NameError> {
    let mut found: Vec<(Option<&str>, u32)> = Vec::new();
    for asked in asked {
        let of_it = match asked {
            AskedProcess::Number(pid) => vec![(None, *pid)],
            AskedProcess::Name(name) => {
                let pids = processes_of(name)?;
                pids.into_iter().map(|pid| (Some(name.as_str()), pid)).collect()
            }
        };
        for one in of_it {
            if found.iter().all(|(_, pid)| *pid != one.1) {
                found.push(one);
            }
        }
    }
    Ok(found)
}
