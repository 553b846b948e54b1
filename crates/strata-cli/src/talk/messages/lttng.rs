//! LTTng's words that Strata has not: what is typed here instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};

const VERBS: [(&str, &str); 6] = [
    (
        "clear",
        "snapshots take nothing away, and what is written stays: `strata rotate NAME` goes on in a new part, and parts \
         can be removed one by one; `strata create --rotate-count N` keeps the last N",
    ),
    (
        "regenerate",
        "each trace, each part of one and each snapshot has its metadata, and what was there before it began. \
         `strata rotate NAME` begins a new part",
    ),
    ("set-session", "there is no current session. Use -s NAME, or leave it out where there is only one"),
    (
        "enable-rotation",
        "`strata create NAME --rotate-size 500M --rotate-time 1h` says it when the session is made; `strata rotate NAME` \
         goes on in a new part now",
    ),
    (
        "disable-rotation",
        "a session is rotated as `strata create` was told: leave out --rotate-size and --rotate-time there",
    ),
    ("version", "`strata --version` says it"),
];

const FLAGS: [(&str, &str); 15] = [
    ("--switch-timer", "use --flush with a unit: 100000 there is `--flush 100ms` here"),
    ("--read-timer", "leave it out: the session knows when to read. --flush says how late that may be"),
    ("--monitor-timer", "leave it out: `strata top` shows how full buffers are"),
    ("--blocking-timeout", "no program ever waits here. Use larger buffers: --subbuf-size, --num-subbuf"),
    ("--buffers-uid", "leave it out: each process has buffers of its own"),
    ("--buffers-pid", "leave it out: each process has buffers of its own"),
    ("--buffers-global", "leave it out: the kernel has buffers for each CPU"),
    ("--tracefile-size", "use `strata create NAME --rotate-size SIZE`: parts of the whole session"),
    ("--tracefile-count", "use `strata create NAME --rotate-count N`: parts of the whole session"),
    ("--shm-path", "leave it out: programs hold their buffers, and `strata start NAME` finds them if the session was killed"),
    ("--no-output", "use --snapshot"),
    ("--userspace-probe", "use --probe 'uprobe:PATH:SYMBOL' or --probe 'usdt:PATH:PROVIDER:NAME'"),
    ("--vpid", "use --pid, with the number that the process has where strata runs"),
    ("--vuid", "use --uid"),
    ("--vgid", "use --gid"),
];

/// Of `track` and `untrack`.
const DOMAINS: [&str; 4] = ["-u", "--userspace", "-k", "--kernel"];

/// What is to be said of a command line that has such a word.
pub fn hint(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let of = |all: &[(&'static str, &'static str)], word: &str| {
        all.iter().find(|(one, _)| *one == word).map(|(_, instead)| *instead)
    };
    let (word, instead) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand)?;
            (word, of(&VERBS, word)?)
        }
        ErrorKind::UnknownArgument => {
            let word = text(ContextKind::InvalidArg)?;
            let tracks = || {
                let usage = match error.get(ContextKind::Usage) {
                    Some(ContextValue::StyledStr(usage)) => usage.to_string(),
                    _ => String::new(),
                };
                let is_one = usage.contains("strata track") || usage.contains("strata untrack");
                (is_one && DOMAINS.contains(&word))
                    .then_some("leave it out: who is tracked is so for programs and the kernel")
            };
            (word, of(&FLAGS, word).or_else(tracks)?)
        }
        _ => return None,
    };
    Some(format!("{word} is a word of LTTng's: {instead}"))
}
