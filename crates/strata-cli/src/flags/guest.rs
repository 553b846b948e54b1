//! Parses `--guest`, a virtual machine that is recorded together with this one.

use std::path::PathBuf;

use strata_session::options::{GuestOptions, Place, GUEST_BYTES_MAX};

use crate::units::parse_size;

/// Parses `--guest`. Parts after a comma have names, so that a path may contain commas.
pub fn parse_guest(text: &str) -> Result<GuestOptions, String> {
    let (name, rest) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' names no channel; write NAME=CHANNEL"))?;
    let (mut channel, mut pid) = (rest, None);
    let (mut qmp, mut memory, mut max_bytes) = (None, None, GUEST_BYTES_MAX);
    while let Some((before, last)) = channel.rsplit_once(',') {
        match last.split_once('=') {
            Some(("pid", number)) => pid = Some(parse_pid(number)?),
            Some(("qmp", path)) if !path.is_empty() => qmp = Some(PathBuf::from(path)),
            Some(("memory", path)) if !path.is_empty() => memory = Some(PathBuf::from(path)),
            Some(("max-size", size)) => {
                max_bytes = parse_size(size).map_err(|error| error.to_string())?;
            }
            _ => break,
        }
        channel = before;
    }
    let channel = Place::parse(channel).map_err(|problem| problem.to_string())?;
    Ok(GuestOptions { name: name.to_owned(), channel, pid, qmp, memory, max_bytes })
}

fn parse_pid(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=i32::MAX as u32).contains(number));
    number.ok_or_else(|| {
        format!("'pid={text}' names no process; write the number of the one that runs the machine, as ps shows it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_has_a_channel_and_what_is_named_behind_it() {
        let plain = parse_guest("web=/run/web,1.strata").unwrap();
        assert_eq!(
            (plain.name.as_str(), plain.channel.to_string().as_str()),
            ("web", "/run/web,1.strata")
        );
        assert_eq!(
            (plain.pid, plain.qmp, plain.memory, plain.max_bytes),
            (None, None, None, GUEST_BYTES_MAX)
        );
        let all = parse_guest("web=tcp:host:7,max-size=1M,memory=/m,qmp=/q,pid=4711").unwrap();
        assert_eq!(all.channel, Place::Tcp("host:7".to_owned()));
        let paths = (all.qmp.as_deref(), all.memory.as_deref());
        assert_eq!(paths, (Some("/q".as_ref()), Some("/m".as_ref())));
        assert_eq!((all.pid, all.max_bytes), (Some(4711), 1 << 20));
    }

    #[test]
    fn guest_of_a_process_that_cannot_be_is_refused() {
        for pid in ["", "0", "-1", "x", "2147483648", "99999999999"] {
            let problem = parse_guest(&format!("web=/run/web,pid={pid}")).unwrap_err();
            assert!(problem.contains(&format!("'pid={pid}' names no process")), "{problem}");
        }
        assert!(parse_guest("/run/web").unwrap_err().contains("names no channel"));
    }
}
