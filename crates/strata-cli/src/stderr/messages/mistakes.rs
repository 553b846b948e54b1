//! Answers to command lines with words of other tools, or guessed ones: they name the command to type instead.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::units::{clean, shell_word};

/// Words that people type in place of a command, each with what to type instead.
const VERBS: &[(&[&str], &str)] = &[
    (&["report", "summarize", "why"], "`strata analyze summary TRACE` says where the time went, and which report says more"),
    (&["script", "show", "dump", "print", "read", "cat", "open"], "`strata view TRACE` shows the events of a trace"),
    (&["trace", "run", "exec", "capture", "sample"], "`strata record -- COMMAND` records a command, and `strata record -p NAME` what runs already"),
    (&["attach"], "`strata record -p PID|NAME` records what runs already"),
    (
        &["rm", "del", "delete", "remove", "kill", "end"],
        "`strata destroy NAME` ends a session. A trace is a folder: remove it as any other",
    ),
    (&["new", "add", "session"], "`strata create NAME` makes a session"),
    (&["resume", "continue"], "`strata start NAME` goes on with a session"),
    (&["pause", "suspend"], "`strata stop NAME` has a session record nothing for now"),
    (&["restart"], "`strata stop NAME`, then `strata start NAME`"),
    (&["dump-buffers", "flush"], "`strata snapshot NAME` saves what a session holds in its buffers"),
    (&["ls", "ps", "sessions", "events"], "`strata list` shows sessions and tracepoints, `strata list -k` the kernel's events"),
    (&["info", "describe", "metadata"], "`strata list TRACE` shows what a trace describes, `strata stats TRACE` how much is in it"),
    (&["convert", "import"], "`strata export --to FORMAT TRACE` writes a trace for other tools"),
    (&["stat"], "`strata stats TRACE` counts what is in a trace, and `strata status` shows how sessions are"),
    (&["check", "test", "verify"], "`strata doctor` says what this machine can record, `strata stats --strict TRACE` whether a trace is whole"),
    (&["probe", "uprobe", "usdt"], "`strata record --probe PROBE` records a function of a program, and `strata list --probes FILE` shows which there are"),
    (&["profile"], "`strata record --sample 99 -- COMMAND`, then `strata analyze flame TRACE`"),
    (&["upgrade", "update", "config"], "it is not there. `strata --help` shows what is"),
];

/// Words that people type in place of a report of `strata analyze`, each with the report that they mean.
const REPORTS: &[(&[&str], &str)] = &[
    (&["latency", "lat", "delay", "delays", "slow", "calls", "syscall", "strace"], "syscalls"),
    (&["sched", "timehist", "runqueue", "thread", "off-cpu", "blocked", "waits"], "threads"),
    (&["top", "hot", "cpus", "utilization", "process", "processes"], "cpu"),
    (&["lock", "mutex", "mutexes", "futex", "contention"], "locks"),
    (&["disk", "file"], "files"),
    (&["net", "sockets", "socket", "connections", "retransmits", "drops"], "network"),
    (&["mem", "alloc", "malloc", "heap", "faults"], "memory"),
    (&["stack", "stacks", "flamegraph", "callgraph", "functions"], "flame"),
    (&["interrupt", "interrupts", "softirq", "irqs"], "irq"),
    (&["span", "requests", "histogram"], "spans"),
    (&["workqueue", "kwork", "timers", "timer", "hrtimers"], "work"),
    (&["compare", "comparison", "regression", "regressions"], "diff"),
    (&["report", "stats", "overview", "all", "why"], "summary"),
    (&["critical-path", "path", "critical", "wakeup"], "wait"),
];

const DURATION: &str = "it is --duration, as in `strata record --duration 10s`";
const RULES: &str =
    "it is -k for events of the kernel, as in `-k 'sched_*'`, and -u for tracepoints of programs, as in `-u 'shop:*'`";
const BUFFERS: &str = "it is --subbuf-size, as in `--subbuf-size 2M`, and --num-subbuf";
const BY_DURATION: &str = "it is a filter, as in `-f 'duration > 1ms'`";
const OF: &str = "it is --of NAME|NUMBER, of a process or a thread";
const TRACE_LAST: &str = "leave it out: the trace stands last, as it is";
const READERS: &[&str] = &["view", "stats", "export", "analyze"];

/// Flags that a command does not have, each with what to type instead.
const FLAGS: &[(&[&str], &[&str], &str)] = &[
    (&["record"], &["-d", "-t", "-T", "--time", "--timeout", "--seconds"], DURATION),
    (
        &["record"],
        &["-c", "--cmd", "--command", "--exec"],
        "the command stands last, as in `strata record -- COMMAND ARGUMENT...`",
    ),
    (&["record", "create"], &["-e", "--event", "--events", "--tracepoint"], RULES),
    (
        &["record"],
        &["-F", "--freq", "--frequency"],
        "it is --sample, as in `strata record --sample 99`",
    ),
    (
        &["record"],
        &["-g", "--call-graph", "--callgraph", "--backtrace"],
        "it is --stack, or --stack=dwarf for programs without frame pointers",
    ),
    (&["record", "create"], &["-m", "--mmap-pages", "-b", "--buffer-size", "--buffer"], BUFFERS),
    (
        &["record"],
        &["--tid", "-P", "--name", "--comm", "--process", "--attach"],
        "it is -p, which takes numbers and names",
    ),
    (
        &["record"],
        &["--size", "--limit", "--max", "-s"],
        "it is --max-size, as in `--max-size 500M`",
    ),
    (
        &["record"],
        &["--latency", "--min-duration", "--threshold", "--slow"],
        "what took longer is found in the trace, as in `strata view -f 'duration > 1ms' TRACE`",
    ),
    (
        &["record"],
        &["--cgroup", "--container", "--uid", "--user-id"],
        "`strata create` makes a session, and `strata track` sets which processes it records",
    ),
    (READERS, &["-p", "--pid", "-t", "--tid", "--comm", "--process", "--thread", "--name"], OF),
    (
        READERS,
        &["-d", "--duration", "--slower", "--min-duration", "--longer", "--threshold"],
        BY_DURATION,
    ),
    (READERS, &["-e", "--event", "--events"], "it is a filter, as in `-f 'sched_*'`"),
    (READERS, &["-i", "--input", "--trace", "--file"], TRACE_LAST),
    (&["view"], &["-n", "--lines", "--number", "--head", "--top", "--count"], "it is --limit N"),
    (&["analyze"], &["-n", "--lines", "--number", "--head", "--limit", "--count"], "it is --top N"),
    (READERS, &["--since", "--after", "--start", "--begin"], "it is --from TIME"),
    (READERS, &["--before", "--end"], "it is --until TIME"),
    (
        &["view"],
        &["--follow", "--tail"],
        "`strata view -s SESSION` shows what has been written so far",
    ),
    (
        &["export"],
        &["--format", "--type", "--json", "--csv"],
        "it is --to FORMAT, as in `--to json`",
    ),
    (
        &["list"],
        &["-e", "--event", "--events"],
        "`strata list -k` shows the kernel's events, and `strata list -u` tracepoints",
    ),
];

/// Returns the answer to a wrong command line if the mistake is a known one. `words` is the whole command line.
pub fn hint(error: &clap::Error, words: &[String]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand)?;
            match usage_verb(error).as_str() {
                "analyze" => of_report(word),
                _ => of_verb(word),
            }
        }
        ErrorKind::UnknownArgument => {
            let flag = text(ContextKind::InvalidArg)?;
            of_negative(flag, words).or_else(|| of_flag(&usage_verb(error), flag))
        }
        ErrorKind::MissingRequiredArgument => of_wait(error, words),
        _ => None,
    }
}

/// Returns the trace of `strata analyze wait TRACE`, in which the trace was taken for the thread.
pub fn wait_without_thread<'w>(error: &clap::Error, words: &'w [String]) -> Option<&'w str> {
    let missing = error.get(ContextKind::InvalidArg);
    let misses_trace = matches!(missing, Some(ContextValue::Strings(all)) if all.iter().any(|one| one.starts_with("<TRACE>")));
    let is_wait = words.get(1..3).is_some_and(|two| two == ["analyze", "wait"]);
    let trace = words.iter().skip(3).find(|word| is_folder(word))?;
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument && misses_trace && is_wait;
    is_missing.then_some(trace.as_str())
}

fn of_wait(error: &clap::Error, words: &[String]) -> Option<String> {
    let trace = shell_word(&clean(wait_without_thread(error, words)?));
    Some(format!(
        "analyze wait: the thread or span is missing that waited, as in `strata analyze wait NAME {trace}`. \
         `strata analyze threads {trace}` shows the threads, `strata analyze spans {trace}` the spans"
    ))
}

/// Returns the command in an error's usage, such as `analyze` of `Usage: strata analyze <COMMAND>`; empty if there is
/// none.
fn usage_verb(error: &clap::Error) -> String {
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    let mut words = usage.split_whitespace().skip_while(|word| *word != "strata").skip(1);
    words.next().unwrap_or_default().to_owned()
}

fn told(what: &str, word: &str, instead: &str) -> String {
    format!("'{}' is no {what}: {instead}", clean(word))
}

fn has_report(word: &str) -> Option<&'static str> {
    const OWN: [&str; 14] = [
        "syscalls", "threads", "wait", "files", "network", "locks", "irq", "cpu", "spans", "flame",
        "memory", "summary", "diff", "work",
    ];
    let own = OWN.into_iter().find(|one| *one == word);
    own.or_else(|| REPORTS.iter().find(|(all, _)| all.contains(&word)).map(|(_, report)| *report))
}

/// Returns the command line of a report.
fn of_analyze(report: &str) -> String {
    let thread = if report == "wait" { "THREAD " } else { "" };
    format!("`strata analyze {report} {thread}TRACE`")
}

fn of_verb(word: &str) -> Option<String> {
    let verb = VERBS.iter().find(|(all, _)| all.contains(&word));
    if let Some((_, instead)) = verb {
        return Some(told("command", word, instead));
    }
    if let Some(report) = has_report(word) {
        return Some(told("command", word, &format!("use {}", of_analyze(report))));
    }
    is_folder(word).then(|| {
        let trace = shell_word(&clean(word));
        told("command", word, &format!("`strata analyze summary {trace}` says what is in a trace, and `strata view {trace}` shows it"))
    })
}

fn of_report(word: &str) -> Option<String> {
    if let Some(report) = has_report(word) {
        return Some(told("report", word, &format!("use {}", of_analyze(report))));
    }
    let is_trace = is_folder(word) || word.contains('/');
    is_trace.then(|| {
        let trace = shell_word(&clean(word));
        told("report", word, &format!("use `strata analyze summary {trace}`"))
    })
}

fn is_folder(word: &str) -> bool {
    Path::new(word).is_dir()
}

/// Explains a negative value such as `--duration -1s`, which clap takes for a flag.
fn of_negative(flag: &str, words: &[String]) -> Option<String> {
    let is_negative = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let at = words.iter().position(|word| is_negative(flag) && word.starts_with(flag))?;
    let before = words.get(at.checked_sub(1)?).filter(|before| before.starts_with('-'))?;
    Some(format!("{before} {}: the value is negative, and has to be 0 or more", clean(&words[at])))
}

fn of_flag(verb: &str, flag: &str) -> Option<String> {
    let fits = |(verbs, flags, _): &&(&[&str], &[&str], &str)| {
        verbs.contains(&verb) && flags.contains(&flag)
    };
    let (_, _, instead) = FLAGS.iter().find(fits)?;
    Some(told(&format!("flag of `strata {verb}`"), flag, instead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;
    use crate::stderr::messages::usage;
    use clap::Parser as _;

    /// Returns the message on a wrong command line, without colours.
    fn said(line: &str) -> String {
        let words: Vec<String> =
            ["strata"].into_iter().chain(line.split(' ')).map(str::to_owned).collect();
        let error = Flags::try_parse_from(&words).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        anstream::adapter::strip_str(&usage(&error, &words)).to_string()
    }

    #[test]
    fn natural_mistakes_are_answered_with_what_is_typed_instead() {
        let folder = std::env::temp_dir().join(format!("strata-mistakes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let trace = folder.to_str().unwrap();
        for (line, instead) in [
            ("record -p redis -d 1s", "--duration 10s"),
            ("record -p redis -t 1s", "--duration 10s"),
            ("record --timeout=3 ls", "--duration 10s"),
            ("record -c ls", "strata record -- COMMAND"),
            ("record -e sched_switch", "-k 'sched_*'"),
            ("record -F 99 ls", "--sample 99"),
            ("record -g ls", "--stack"),
            ("record --tid 3", "numbers and names"),
            ("record --duration -1s", "--duration -1s: the value is negative"),
            ("record --flush -200ms", "--flush -200ms: the value is negative"),
            ("view --limit -3 x", "--limit -3: the value is negative"),
            ("snapshot s --last -5m", "--last -5m: the value is negative"),
            ("analyze latency", "strata analyze syscalls TRACE"),
            ("analyze top t", "strata analyze cpu TRACE"),
            ("analyze mutex", "strata analyze locks TRACE"),
            ("analyze critical-path", "strata analyze wait THREAD TRACE"),
            (&format!("analyze {trace}"), &format!("use `strata analyze summary {trace}`")),
            (&format!("analyze wait {trace}"), &format!("`strata analyze wait NAME {trace}`")),
            ("analyze ./t", "use `strata analyze summary ./t`"),
            (trace, &format!("`strata view {trace}` shows it")),
            ("report", "strata analyze summary TRACE"),
            ("script", "strata view TRACE"),
            ("trace ls", "strata record -- COMMAND"),
            ("rm web", "strata destroy NAME"),
            ("delete", "strata destroy NAME"),
            ("locks t", "use `strata analyze locks TRACE`"),
            ("flamegraph t", "use `strata analyze flame TRACE`"),
            ("summary t", "use `strata analyze summary TRACE`"),
            ("ls", "strata list"),
            ("attach 3", "strata record -p"),
            ("convert t", "strata export --to"),
            ("view -p 3 t", "--of NAME|NUMBER"),
            ("analyze syscalls --pid=3 t", "--of NAME|NUMBER"),
            ("view --slower 3ms t", "'duration > 1ms'"),
            ("view -i t", "the trace stands last"),
            ("view -n 3 t", "--limit N"),
            ("analyze cpu -n 3 t", "--top N"),
            ("analyze cpu --since 3 t", "--from TIME"),
        ] {
            let text = said(line);
            assert!(text.starts_with("strata: ") && text.contains(instead), "{line}: {text}");
            assert!(!text.contains("as a value"), "{line}: {text}");
        }
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn answers_name_commands_flags_and_reports_that_are_there() {
        use clap::CommandFactory as _;
        let commands = Flags::command();
        let names: Vec<&str> = commands.get_subcommands().map(|one| one.get_name()).collect();
        let analyze = commands.find_subcommand("analyze").unwrap();
        for (words, instead) in VERBS {
            for word in *words {
                let is_new = !names.contains(word) || *word == "test";
                assert!(is_new && has_report(word).is_none_or(|of| of == "summary"), "{word}");
            }
            for verb in instead.split("`strata ").skip(1) {
                let verb = verb.split([' ', '`']).next().unwrap();
                assert!(verb == "--help" || commands.find_subcommand(verb).is_some(), "{instead}");
            }
        }
        for (words, report) in REPORTS {
            assert!(analyze.find_subcommand(report).is_some(), "{report}");
            for word in *words {
                assert!(analyze.find_subcommand(word).is_none(), "{word}");
            }
        }
        for report in analyze.get_subcommands() {
            assert_eq!(has_report(report.get_name()), Some(report.get_name()));
        }
        for (verbs, flags, _) in FLAGS {
            for flag in *flags {
                let has_it = verbs.iter().any(|verb| {
                    let command = commands.find_subcommand(verb).unwrap();
                    command.get_arguments().any(|one| {
                        one.get_long().is_some_and(|long| *flag == format!("--{long}"))
                            || one.get_short().is_some_and(|short| *flag == format!("-{short}"))
                    })
                });
                let all_have = verbs.iter().all(|verb| {
                    commands.find_subcommand(verb).unwrap().get_arguments().any(|one| {
                        one.get_short().is_some_and(|short| *flag == format!("-{short}"))
                    })
                });
                assert!(!has_it || !all_have, "{verbs:?} {flag}");
            }
        }
    }

    #[test]
    fn unknown_flag_is_never_reported_to_be_a_value() {
        for line in ["record -Z", "view -Z", "status --nothing", "analyze cpu -Z t"] {
            let text = said(line);
            assert!(text.starts_with("strata: unexpected argument"), "{text}");
            assert!(!text.contains("-- -"), "{text}");
        }
    }
}
