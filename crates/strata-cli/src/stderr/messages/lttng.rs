//! Answers to words of LTTng's command line that Strata lacks: they name what to type instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};

const VERBS: [(&str, &str); 12] = [
    (
        "crash",
        "nothing has to be extracted: what a program that crashed had recorded is in the trace, or in the next snapshot; and \
         `strata start NAME` makes a session that was killed again, with what programs and the kernel still hold",
    ),
    ("reclaim-memory", "the buffers of a program are given back when it ends. `--max-memory SIZE` bounds those of all"),
    ("calibrate", "nothing has to be calibrated"),
    ("enable-consumer", "there is no consumer: a session writes its traces itself"),
    ("disable-consumer", "there is no consumer: a session writes its traces itself"),
    ("add-map-channel", NO_MAPS),
    ("show-maps", NO_MAPS),
    ("export-maps", NO_MAPS),
    (
        "regenerate",
        "each trace, each part of one and each snapshot has its metadata, and what was there before it began. \
         `strata rotate NAME` begins a new part",
    ),
    (
        "metadata",
        "each trace, each part of one and each snapshot has its metadata, and needs no other. `strata list DIR` shows what \
         they describe",
    ),
    ("set-session", "there is no current session. Use -s NAME, or leave it out where there is only one"),
    ("version", "`strata --version` says it"),
];

const NO_MAPS: &str =
    "there are no maps in sessions. `strata count` counts in the kernel by keys, `strata stats` and `strata analyze` count what was recorded, and `--libc malloc:sum` counts in the program";
const FLAGS: [(&str, &str); 30] = [
    ("--sessiond-path", NO_DAEMON),
    ("--relayd-path", NO_DAEMON),
    ("--no-sessiond", NO_DAEMON),
    ("--mi", "use --json"),
    ("--list-commands", "`strata --help` lists them"),
    ("--list-options", "`strata COMMAND --help` lists them"),
    ("--no-truncate", "leave it out: nothing is cut"),
    ("--style", "leave it out, or use --json"),
    ("--mem-usage", "`strata status NAME` and `strata top` say how much memory buffers take"),
    ("--no-triggers", "a plan that is saved has the session's triggers: `strata remove-trigger` takes one away"),
    ("--buffer-ownership", "leave it out: each process has buffers of its own, and the kernel has some for each CPU"),
    ("--buffer-allocation", "leave it out: there are buffers for each CPU"),
    ("--buffer-preallocation", "leave it out: memory is taken when it is first written to"),
    ("--auto-reclaim-memory", "leave it out: the buffers of a program are given back when it ends"),
    ("--watchdog-timer", "leave it out: no program can stall the buffers of another one"),
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

const NO_DAEMON: &str =
    "leave it out: there is no daemon to be started, each session is a process of its own";
const NO_AGENT: &str =
    "there are no agents for Java and Python. What these call of C libraries is recorded by -u, and by -k --probe";
const OF_EVENTS: &[&str] = &[
    "add-context",
    "disable-channel",
    "disable-event",
    "enable-channel",
    "enable-event",
    "list",
    "status",
];
const OF_ANYBODY: &str = "leave it out: who is tracked is so for programs and the kernel";
const TRACKING: &[&str] = &["track", "untrack"];
const NOWHERE_ELSE: &str =
    "use -o DIR: traces are written to a folder of this machine, and `strata snapshot NAME -o -` writes a tar file to a pipe";
const ACTIONS: &str = "--snapshot, --rotate, --start, --stop and --run COMMAND are the actions";

/// Words that Strata uses for something else in other commands, each with the commands that it is answered for.
const FLAGS_OF: [(&[&str], &[&str], &str); 30] = [
    (&["<COMMAND>"], &["-n"], NO_DAEMON),
    (&["<COMMAND>"], &["-q", "--quiet", "-v", "--verbose"], "leave it out here: some commands have -q behind their own word"),
    (TRACKING, &["-u", "--userspace", "-k", "--kernel"], OF_ANYBODY),
    (OF_EVENTS, &["-j", "--jul", "-l", "--log4j", "--log4j2", "-p", "--python"], NO_AGENT),
    (
        &["create"],
        &["--live"],
        "leave it out: `strata view -s NAME --follow` shows the events of any session as they come",
    ),
    (
        &["create", "load", "snapshot"],
        &["-U", "--set-url", "-C", "--ctrl-url", "-D", "--data-url"],
        NOWHERE_ELSE,
    ),
    (&["snapshot"], &["-m", "--max-size"], "use --last LENGTH, as in `--last 10s`"),
    (&["snapshot"], &["-n", "--name"], "use -o DIR: the folder's name is the snapshot's"),
    (&["create"], &["--trace-format"], "leave it out: sessions write CTF 1.8. `strata record --ctf=2` writes CTF 2"),
    (
        &["enable-rotation", "disable-rotation"],
        &["--timer"],
        "use --time with a unit: 3600000000 there is `--time 1h` here",
    ),
    (&["load"], &["--override-url"], "use -o DIR"),
    (&["load"], &["--override-name"], "use `strata load NAME --input FILE`"),
    (&["list"], &["-d", "--domain", "-c", "--channel"], "use `strata status NAME`: it has channels and rules of both"),
    (
        &["status"],
        &["-c", "--channel", "-u", "--userspace", "-k", "--kernel", "-d", "--domain"],
        "leave it out: `strata status NAME` has channels and rules of both",
    ),
    (&["list", "status"], &["-M", "--map-channel"], NO_MAPS),
    (&["list"], &["--syscall"], "use `strata list -k 'syscalls:*'`"),
    (&["view"], &["-e", "--viewer"], "start it with the trace's folder, as in `babeltrace2 DIR`"),
    (
        &["enable-event", "disable-event"],
        &["--function"],
        "the kernel's functions are no events here. `strata list -k` shows its tracepoints and system calls; functions of \
         programs are recorded by --probe 'uprobe:PATH:SYMBOL'",
    ),
    (&["enable-channel"], &["--output"], "leave it out: the session knows how to read the buffers"),
    (
        &["add-trigger"],
        &["--condition"],
        "the conditions are --event -u 'shop:*' --filter 'price > 100', --silence, --ended, --signal, and of the whole session --fill PERCENT, --written SIZE and --part",
    ),
    (&["add-trigger"], &["--action"], ACTIONS),
    (&["add-trigger"], &["--type"], "-u 'shop:*' is a rule of programs, and -k openat one of the kernel"),
    (&["add-trigger"], &["--id"], "use --name"),
    (
        &["add-trigger"],
        &["--threshold-ratio", "--threshold-size", "--channel", "--domain", "-t"],
        "these are parts of --condition. The conditions are --event -u 'shop:*' --filter 'price > 100', --silence, --ended, --signal, and of the whole session --fill PERCENT, --written SIZE and --part",
    ),
    (
        &["add-trigger"],
        &["--path", "--url", "--ctrl-url", "--data-url", "--max-size"],
        "--snapshot DIR says where a trigger saves; `strata create NAME --snapshot --to HOST` sends snapshots to a relay",
    ),
    (
        &["add-trigger"],
        &["--capture"],
        "leave it out: the command of --run reads the event with all its fields from its stdin, as JSON",
    ),
    (&["add-trigger"], &["--log-level", "-l"], "the rule says it, as in -u 'shop:*@warning'"),
    (&["add-trigger"], &["--key", "--update-policy"], NO_MAPS),
    (
        &["add-trigger", "remove-trigger", "list-triggers"],
        &["--owner-uid"],
        "leave it out: a trigger belongs to its session, and that to its user",
    ),
    (&["add-trigger"], &["--rate-policy"], "use --pause TIME and --times N"),
];

/// Second words of LTTng's `snapshot`.
const OF_SNAPSHOT: [(&str, &str); 3] = [
    ("add-output", "no output is kept: `strata snapshot NAME -o DIR` says it each time, and `strata add-trigger --snapshot DIR` once"),
    ("list-output", "no output is kept: `strata list-triggers` shows where triggers save"),
    ("del-output", "no output is kept: `strata snapshot NAME -o DIR` says it each time"),
];

/// Options of LTTng's triggers, which would become arguments of the command after `--run`.
const OF_TRIGGERS: [&str; 5] =
    ["--rate-policy", "--condition", "--action", "--owner-uid", "--capture"];

/// Returns a hint if a command after `--run` has an option of LTTng's triggers among its words.
pub fn of_run(command: &[String]) -> Option<String> {
    let name = |word: &&String| word.split('=').next().unwrap_or_default().to_owned();
    let word = command.iter().find(|word| OF_TRIGGERS.contains(&name(word).as_str()))?;
    Some(format!(
        "--run: all words behind it are the command's, and {word} is a word of LTTng's triggers. Use --pause TIME and --times N, in \
         front of --run; if the command has such an option, give it to a shell: --run sh -c '…'"
    ))
}

/// Returns a hint on `strata snapshot WORD` if no session has this name.
pub fn of_snapshot(word: &str) -> Option<String> {
    let found = OF_SNAPSHOT.iter().find(|(one, _)| *one == word);
    found.map(|(word, instead)| told(&format!("snapshot {word}"), instead))
}

fn told(word: &str, instead: &str) -> String {
    format!("{word} is a word of LTTng's: {instead}")
}

/// Returns a hint if the error is about a word of LTTng's.
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
            let usage = match error.get(ContextKind::Usage) {
                Some(ContextValue::StyledStr(usage)) => usage.to_string(),
                _ => String::new(),
            };
            // The usage is `Usage: strata VERB [OPTIONS]`.
            let mut words = usage.split_whitespace().skip_while(|word| *word != "strata").skip(1);
            let verb = words.next().unwrap_or_default();
            let is_it = |(verbs, words, _): &&(&[&str], &[&str], &str)| {
                verbs.contains(&verb) && words.contains(&word)
            };
            let of_verb = || FLAGS_OF.iter().find(is_it).map(|(_, _, instead)| *instead);
            (word, of(&FLAGS, word).or_else(of_verb)?)
        }
        _ => return None,
    };
    Some(told(word, instead))
}
