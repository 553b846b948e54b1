//! Examples and related commands of each command, for its help and its man page.
//!
//! Each command has a row. The examples stand at the end of its help, the related commands in "See also". A row is found by the words
//! of the command, so that a new command is a new row and nothing else:
//!
//! ```text
//! ALL: "record" ─┬─ text_of ──▶ help of `strata record`                     with_examples, when the flags are made
//!                └─ EXAMPLES, SEE ALSO ──▶ strata-record(1)                 completions.rs
//! ```
//!
//! `tests/e2e/examples` runs each line as it stands, with programs, sessions and traces of the names in it (`./app`,
//! `trace`, `web`), so an example with a flag that no longer exists fails a test. A unit test parses each line, and finds commands that
//! the help shows and that have no row.
//!
//! To write an example, begin with what most people want. The description says what it is for, not what the flags
//! mean. Lines have at most 70 characters, so that a man page has them on one line; three to five of them are enough.
//!
//! Hidden commands have no row. The table is data of the program, and is read when the command line is defined.
//!
//! A row is `(command, examples, related commands)`; each example is a command line and what it is for.

use clap::Command;

/// A command line and a description of its effect.
type Example = (&'static str, &'static str);

/// Examples of a command.
pub struct CommandExamples {
    /// The command as it is typed: `record`, `analyze wait`.
    path: &'static str,
    /// Command lines that work as they are, with names of programs, sessions and traces filled in.
    pub lines: &'static [Example],
    /// Commands that are typed before or after this one, or instead of it.
    pub related: &'static [&'static str],
}

const fn of(
    path: &'static str,
    lines: &'static [Example],
    related: &'static [&'static str],
) -> CommandExamples {
    CommandExamples { path, lines, related }
}

/// Examples of all commands that the help shows. Lines have at most 70 characters.
const ALL: &[CommandExamples] = &[
    of(
        "record",
        &[
            (
                "strata record -- ./server --port 80",
                "a program and all that it starts, from its first event",
            ),
            (
                "strata record -p nginx --duration 10s -o t",
                "what runs under this name, for ten seconds, into folder t",
            ),
            (
                "strata record -a --max-size 1G",
                "all programs and the kernel, until the trace has 1 GiB",
            ),
            (
                "strata record -k 'default,block_rq_*' -- make",
                "as without -k, and the disk's requests",
            ),
            (
                "strata record -k syscalls --slower 1ms -p redis-server",
                "only system calls that took a millisecond or more",
            ),
            (
                "strata record -k 'sched_*' --every 10 -- make",
                "a tenth of the scheduler's events, and a count of the others",
            ),
            (
                "strata record -u 'shop:*@warning'",
                "a program's own tracepoints, warnings and worse",
            ),
            (
                "strata record --sample 99 --no-kernel -- ./app",
                "call stacks, 99 times a second, for `analyze flame`",
            ),
            (
                "strata record --sample 99 --stack=dwarf --no-kernel -- ./app",
                "the same of a program without frame pointers",
            ),
            (
                "strata record --background web --snapshot",
                "a flight recorder, until `strata stop web`",
            ),
        ],
        &["view", "analyze", "create", "list", "doctor"],
    ),
    of(
        "count",
        &[
            ("strata count -k syscalls -- make", "system calls of a command by name"),
            (
                "strata count -k syscalls --by procname,name --hist duration",
                "how long they take, by program and call, until Ctrl-C",
            ),
            (
                "strata count -k read --by fd --sum ret -p nginx",
                "bytes that a program reads, by file descriptor",
            ),
            (
                "strata count -k 'sched_switch' --by cpu,next_comm --duration 10s",
                "who got which CPU how often, in ten seconds",
            ),
        ],
        &["record", "list", "analyze", "top"],
    ),
    of(
        "view",
        &[
            ("strata view t", "all events of the trace in folder t"),
            ("strata view -f 'duration > 50ms' t", "system calls and spans that took longer"),
            ("strata view -f 'comm == \"nginx\" && poll' t", "one system call of one program"),
            (
                "strata view --of nginx --from +1.5s --until +2s t",
                "what one program did in half a second",
            ),
            ("strata view --json --limit 10 t", "ten events for a program that reads JSON"),
            ("strata view -s web", "what the session web has written so far"),
        ],
        &["stats", "analyze", "export", "record"],
    ),
    of(
        "stats",
        &[
            ("strata stats t", "how many events of which kind, and what is missing"),
            ("strata stats --strict t", "exit with 1 if any record is missing"),
            ("strata stats --json t", "the same as one JSON object"),
        ],
        &["view", "analyze", "list"],
    ),
    of(
        "analyze",
        &[
            ("strata analyze summary t", "what to know first, and what to type next"),
            ("strata analyze wait nginx t", "what a thread waited for, through those who woke it"),
            ("strata analyze locks t", "who waited for which lock, and who held it"),
        ],
        &["record", "view", "stats", "export"],
    ),
    of(
        "analyze summary",
        &[
            ("strata analyze summary t", "where the time went, and which command shows more"),
            ("strata analyze summary --of nginx t", "of one program"),
        ],
        &["analyze threads", "analyze syscalls", "analyze wait"],
    ),
    of(
        "analyze syscalls",
        &[
            ("strata analyze syscalls t", "how many, how long, and the slowest"),
            ("strata analyze syscalls --of nginx --top 5 t", "the first five rows of one program"),
            ("strata analyze syscalls -f 'openat && ret < 0' t", "calls that failed"),
        ],
        &["analyze files", "analyze summary", "view"],
    ),
    of(
        "analyze threads",
        &[
            ("strata analyze threads t", "how long each ran, waited for a CPU, and was blocked"),
            ("strata analyze threads --of nginx t", "who had the CPU that nginx waited for"),
            (
                "strata analyze threads --by stack t",
                "the code in which they were blocked (record --stack)",
            ),
            (
                "strata analyze threads --by waker-stack t",
                "the code of others that ended their waits",
            ),
        ],
        &["analyze cpu", "analyze wait", "analyze locks"],
    ),
    of(
        "analyze wait",
        &[
            ("strata analyze wait nginx t", "the thread of this name that waited longest"),
            ("strata analyze wait 4711 --last 2s t", "thread 4711, in the last two seconds"),
            ("strata analyze wait shop:request t", "the longest span of this name"),
        ],
        &["analyze threads", "analyze spans", "analyze locks"],
    ),
    of(
        "analyze files",
        &[
            ("strata analyze files t", "files, sockets and pipes by the time in them"),
            ("strata analyze files --by process t", "which program read and wrote how much"),
            ("strata analyze files --of postgres t", "of one program"),
        ],
        &["analyze syscalls", "analyze memory", "analyze summary"],
    ),
    of(
        "analyze network",
        &[
            ("strata analyze network t", "connections in a trace of `record -a -k network`"),
            ("strata analyze network --by process t", "bytes and failures of each program"),
            (
                "strata analyze network --by connection --of nginx t",
                "each connection of one program",
            ),
        ],
        &["analyze files", "analyze wait", "record"],
    ),
    of(
        "analyze locks",
        &[
            ("strata analyze locks t", "who waited for which lock, and who ended that"),
            ("strata analyze locks --of server t", "of one program"),
        ],
        &["analyze wait", "analyze threads"],
    ),
    of(
        "analyze diff",
        &[
            ("strata analyze diff before after", "what became slower, and what that costs"),
            (
                "strata analyze diff --of shop --least 25 a b",
                "of one program, by a quarter or more",
            ),
            ("strata analyze diff --markdown a b", "as a table for a comment on a change"),
        ],
        &["analyze summary", "analyze syscalls", "analyze spans"],
    ),
    of(
        "analyze irq",
        &[
            ("strata analyze irq t", "interrupts and softirqs, and whom they interrupted"),
            ("strata analyze irq --json t", "the same as one JSON object"),
        ],
        &["analyze cpu", "analyze threads"],
    ),
    of(
        "analyze work",
        &[
            ("strata analyze work t", "work items, timers and softirqs, by function"),
            ("strata analyze work --by queue t", "workqueues"),
        ],
        &["analyze irq", "analyze cpu"],
    ),
    of(
        "analyze cpu",
        &[
            ("strata analyze cpu t", "who had the CPUs, and how long these were idle"),
            ("strata analyze cpu --by name t", "processes of one name together"),
        ],
        &["analyze threads", "analyze irq", "analyze flame"],
    ),
    of(
        "analyze spans",
        &[
            ("strata analyze spans t", "how many of each, how long, and the slowest"),
            (
                "strata analyze spans --pair request_in=request_out:id t",
                "between two events of one number",
            ),
        ],
        &["analyze wait", "analyze flame"],
    ),
    of(
        "analyze flame",
        &[
            ("strata analyze flame --format text t", "the functions that took most"),
            (
                "strata analyze flame --format folded t",
                "one line for each stack, for flamegraph.pl",
            ),
            ("strata analyze flame --format speedscope t", "a file for https://www.speedscope.app"),
        ],
        &["record", "analyze cpu", "analyze threads"],
    ),
    of(
        "analyze memory",
        &[
            ("strata analyze memory t", "page faults, mappings and allocations"),
            ("strata analyze memory --of server t", "of one program"),
        ],
        &["record", "analyze files"],
    ),
    of(
        "ui",
        &[
            ("strata ui trace", "a trace, in the browser that is there"),
            ("strata ui --no-open --port 8000 trace", "its address alone, for `ssh -L`"),
            (
                "strata ui --port 8001 --token-file t.token trace",
                "an address that stays, whenever it is started again",
            ),
            (
                "strata ui --no-cache trace",
                "a trace that is read again, and of which nothing is kept",
            ),
            ("strata ui --session always", "a flight recorder, with a button for snapshots"),
            ("strata ui --compare before after", "two traces side by side, and what became slower"),
            ("strata ui --save page.html --from +1s --until +2s trace", "a page to send"),
        ],
        &["view", "analyze", "export"],
    ),
    of(
        "relayd",
        &[
            ("strata relayd -o traces", "traces that this machine sends itself, without TLS"),
            (
                "strata relayd --make-certificates c relay.lan web1",
                "an authority, and certificates of the relay and of one host",
            ),
            (
                "strata relayd --listen 0.0.0.0 -o traces --certificates c/relay.lan",
                "traces of all hosts that have a certificate",
            ),
        ],
        &["record", "view"],
    ),
    of(
        "sql",
        &[
            ("strata sql t 'select * from sched_switch limit 5'", "the first records of one event"),
            (
                "strata sql t 'select percentile(duration_ns, 99) from calls'",
                "the time that one in a hundred system calls exceeds",
            ),
            (
                "strata sql t 'select * from calls where name = :n' --set n=read",
                "with a value for a parameter, as scripts do",
            ),
            ("strata sql t .tables", "what can be asked for"),
            ("strata sql t", "a prompt, on a terminal"),
        ],
        &["analyze", "stats", "export"],
    ),
    of(
        "export",
        &[
            ("strata export --to perfetto t", "t.perfetto-trace, for https://ui.perfetto.dev"),
            (
                "strata export --to csv -f sched_switch -o - t",
                "one event as a table, to standard output",
            ),
            ("strata export --to sqlite t", "t.sqlite, for questions in SQL"),
            ("strata export --to otlp t", "t.otlp.jsonl, spans for OpenTelemetry"),
            (
                "strata export --to ctf --from +1s --until +2s -o part t",
                "a second of it, as a trace of its own",
            ),
        ],
        &["view", "analyze", "stats"],
    ),
    of(
        "create",
        &[
            ("strata create web -o /var/traces/web", "a session that writes to this folder"),
            ("strata create web --snapshot", "a flight recorder: it holds the last records"),
            (
                "strata create web --keep-size 2G --rotate-size 200M",
                "parts of 200 MiB, of which 2 GiB are kept",
            ),
        ],
        &["enable-event", "track", "start", "destroy", "record"],
    ),
    of(
        "start",
        &[
            ("strata start web", "record, from now on or again"),
            ("strata start --all", "all sessions of this user"),
            ("strata start --glob 'web*'", "those of these names"),
        ],
        &["stop", "status", "create"],
    ),
    of(
        "stop",
        &[
            ("strata stop web", "record nothing, until `strata start web`"),
            ("strata stop --all", "all sessions of this user"),
        ],
        &["start", "destroy", "view"],
    ),
    of(
        "destroy",
        &[
            ("strata destroy web", "end it; the trace stays, and what is missing is said"),
            ("strata destroy --all", "all sessions of this user"),
            ("strata destroy --glob 'web*'", "those of these names"),
        ],
        &["stop", "view", "stats"],
    ),
    of(
        "status",
        &[
            ("strata status", "all sessions in a table"),
            ("strata status web", "channels, rules and losses of one"),
            (
                "strata status --strict --json",
                "for monitoring: exits with 1 if anything is missing",
            ),
        ],
        &["top", "list", "list-triggers"],
    ),
    of(
        "top",
        &[
            ("strata top", "rates of all sessions, each second, until Ctrl-C"),
            ("strata top web --period 5s -n 3", "three looks at one, every five seconds"),
        ],
        &["status", "stats"],
    ),
    of(
        "snapshot",
        &[
            ("strata snapshot web", "what the session holds, in a new folder here"),
            ("strata snapshot web --last 10s -o slow", "the last ten seconds, in the folder slow"),
            ("strata snapshot web -o -", "a tar file to standard output"),
        ],
        &["create", "add-trigger", "view", "analyze"],
    ),
    of(
        "rotate",
        &[("strata rotate web", "complete a part of the trace, and go on in a new one")],
        &["enable-rotation", "create", "view", "snapshot"],
    ),
    of(
        "enable-rotation",
        &[
            ("strata enable-rotation --size 500M -s web", "a new part whenever one has 500 MiB"),
            ("strata enable-rotation --time 1h --count 24 -s web", "the parts of a day"),
        ],
        &["disable-rotation", "rotate", "create"],
    ),
    of(
        "disable-rotation",
        &[("strata disable-rotation -s web", "new parts by `strata rotate` only")],
        &["enable-rotation", "rotate"],
    ),
    of(
        "clear",
        &[
            ("strata clear web", "remove what was recorded while the program warmed up"),
            ("strata clear --all", "all sessions of this user"),
        ],
        &["rotate", "snapshot", "destroy"],
    ),
    of(
        "settle",
        &[("strata settle boot", "write to the disk what was held in memory, and go on")],
        &["install-boot", "status"],
    ),
    of(
        "install-boot",
        &[
            ("strata install-boot boot", "record each boot, as `strata record` does by default"),
            ("strata install-boot boot -k 'sched_*,block_rq_*'", "other events"),
            ("strata install-boot boot --remove", "no more"),
        ],
        &["settle", "status", "destroy"],
    ),
    of(
        "enable-channel",
        &[
            (
                "strata enable-channel -k disk --subbuf-size 4M -s web",
                "buffers of their own for some events",
            ),
            (
                "strata enable-channel -u errors --overwrite -s web",
                "one that keeps the newest records",
            ),
        ],
        &["disable-channel", "enable-event", "status"],
    ),
    of(
        "disable-channel",
        &[("strata disable-channel -k disk -s web", "record nothing into it for now")],
        &["enable-channel", "disable-event"],
    ),
    of(
        "enable-event",
        &[
            ("strata enable-event -k sched_switch,openat -s web", "two events of the kernel"),
            ("strata enable-event -k syscalls --slower 1ms -s web", "slow system calls only"),
            (
                "strata enable-event -k futex --at-most 1000/s -s web",
                "at most a thousand of these calls a second; the rest is counted",
            ),
            (
                "strata enable-event -u 'shop:*' -f 'price > 100' -s web",
                "tracepoints of programs, by a filter",
            ),
            (
                "strata enable-event -k 'block_rq_*' -c disk -s web",
                "into a channel with buffers of its own",
            ),
        ],
        &["disable-event", "enable-channel", "add-context", "list"],
    ),
    of(
        "disable-event",
        &[
            ("strata disable-event -k openat -s web", "a rule as it was enabled"),
            ("strata disable-event -u --all -s web", "all rules for programs"),
        ],
        &["enable-event", "status"],
    ),
    of(
        "add-context",
        &[
            ("strata add-context --list", "all that there are"),
            (
                "strata add-context -k -t callstack_user -s web",
                "call stacks with events of the kernel",
            ),
            (
                "strata add-context -u -t procname -t vpid -s web",
                "name and process with those of programs",
            ),
        ],
        &["enable-event", "status"],
    ),
    of(
        "track",
        &[
            ("strata track --name nginx -s web", "only programs of this name"),
            ("strata track --pid 4711,4712 -s web", "only these two"),
            ("strata track --cgroup /system.slice/web.service -s web", "only those of a service"),
        ],
        &["untrack", "enable-event", "status"],
    ),
    of(
        "untrack",
        &[
            ("strata untrack --name nginx -s web", "these no more"),
            ("strata untrack --all pid -s web", "no process by its number"),
        ],
        &["track", "status"],
    ),
    of(
        "add-trigger",
        &[
            (
                "strata add-trigger --ended signal --snapshot -s web",
                "a snapshot when a program crashes",
            ),
            (
                "strata add-trigger --silence 5s -u 'shop:beat' --snapshot -s web",
                "one when an event stays away",
            ),
            (
                "strata add-trigger --event -k mark_victim --snapshot -s web",
                "one when memory is exhausted",
            ),
        ],
        &["list-triggers", "remove-trigger", "snapshot"],
    ),
    of(
        "list-triggers",
        &[("strata list-triggers -s web", "all of a session, and how often they have fired")],
        &["add-trigger", "remove-trigger"],
    ),
    of(
        "remove-trigger",
        &[("strata remove-trigger trigger0 -s web", "the one of this name")],
        &["add-trigger", "list-triggers"],
    ),
    of(
        "save",
        &[
            ("strata save web", "for `strata load web`, after a reboot"),
            ("strata save web -o web.json", "to a file"),
        ],
        &["load", "create"],
    ),
    of(
        "load",
        &[
            ("strata load web", "the session as it was saved"),
            ("strata load web -i web.json -o /var/traces/web", "from a file, with another folder"),
        ],
        &["save", "start"],
    ),
    of(
        "list",
        &[
            ("strata list", "sessions, and running programs with their tracepoints"),
            ("strata list -k 'sched_*'", "events of the kernel with their fields"),
            (
                "strata list --probes libc.so.6",
                "functions and USDT probes that `record --probe` takes",
            ),
            ("strata list t", "what a trace describes: clocks, streams, events"),
        ],
        &["record", "status", "view"],
    ),
    of(
        "emit",
        &[
            ("strata emit deploy:begin version=1.4.2", "a mark in the traces of what runs"),
            ("strata emit ci:step name=test seconds=12.5", "a step of a script, with a number"),
            (
                "strata emit backup:failed code=3 --level err",
                "for rules such as '*:*@err', from a cron job",
            ),
        ],
        &["record", "list"],
    ),
    of(
        "doctor",
        &[
            ("strata doctor", "what can be recorded here, and why not"),
            ("strata doctor --clean", "remove what ended sessions have left"),
        ],
        &["record", "list"],
    ),
    of(
        "completions",
        &[
            ("strata completions bash", "to standard output; `make install` installs it"),
            ("strata completions zsh", "the function _strata"),
            ("strata completions fish", "for ~/.config/fish/completions/strata.fish"),
        ],
        &["list"],
    ),
];

/// Returns the examples of a command, by its words.
pub fn examples_of(path: &str) -> Option<&'static CommandExamples> {
    ALL.iter().find(|one| one.path == path)
}

/// Returns the examples and the related commands as text for the help.
pub fn text_of(path: &str) -> String {
    let examples = examples_of(path);
    examples.map(|one| format!("{}\n\n{}", one.text(), one.related_text())).unwrap_or_default()
}

/// Returns the name of the man page of a command.
pub fn page_name(path: &str) -> String {
    format!("strata-{}", path.replace(' ', "-"))
}

/// Adds examples and related commands to the help of all commands.
pub fn with_examples(mut command: Command) -> Command {
    for one in ALL {
        let (verb, report) = match one.path.split_once(' ') {
            Some((verb, report)) => (verb, Some(report)),
            None => (one.path, None),
        };
        command = command.mut_subcommand(verb, |verb| match report {
            Some(report) => verb.mut_subcommand(report, |report| one.added_to(report)),
            None => one.added_to(verb),
        });
    }
    command
}

impl CommandExamples {
    /// Adds the examples to a command's help.
    fn added_to(&self, command: Command) -> Command {
        let own = |help: Option<&clap::builder::StyledStr>| {
            help.map(|help| format!("\n\n{}", help.to_string().trim_end())).unwrap_or_default()
        };
        let short = own(command.get_after_help());
        let long = match own(command.get_after_long_help()) {
            none if none.is_empty() => short.clone(),
            long => long,
        };
        let (examples, related) = (self.text(), self.related_text());
        command
            .after_help(format!("{examples}{short}\n\n{related}"))
            .after_long_help(format!("{examples}{long}\n\n{related}"))
    }

    fn text(&self) -> String {
        let mut text = "Examples:".to_owned();
        for (line, what) in self.lines {
            text.push_str(&format!("\n  {line}\n      {what}"));
        }
        text
    }

    fn related_text(&self) -> String {
        let mut text = "See also:".to_owned();
        let mut column = text.len();
        let commands: Vec<String> =
            self.related.iter().map(|path| format!("strata {path}")).collect();
        for (at, command) in commands.iter().enumerate() {
            let comma = if at + 1 < commands.len() { "," } else { "" };
            if column + command.len() + 2 > 72 {
                text.push_str("\n  ");
                column = 2;
            }
            text.push_str(&format!(" {command}{comma}"));
            column += command.len() + 2;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::flags::Flags;

    /// Returns the words of an example, as a shell would.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quoted) = (vec![String::new()], false);
        for one in line.chars() {
            match one {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                other => words.last_mut().unwrap().push(other),
            }
        }
        words
    }

    #[test]
    fn every_command_that_the_help_shows_has_examples_that_it_takes() {
        let all = Flags::command();
        let shown = |command: &Command| -> Vec<String> {
            let one = command.get_subcommands().filter(|one| !one.is_hide_set());
            one.map(|one| one.get_name().to_owned()).collect()
        };
        let mut paths = shown(&all);
        let reports = shown(all.find_subcommand("analyze").unwrap());
        paths.extend(reports.iter().map(|report| format!("analyze {report}")));
        for path in &paths {
            let examples = examples_of(path).unwrap_or_else(|| panic!("{path} has no examples"));
            for (line, what) in examples.lines {
                assert!(line.starts_with(&format!("strata {path}")), "{line}");
                assert!(line.len() <= 70 && what.len() <= 66, "{line}: {what}");
                let parsed = Flags::try_parse_from(words(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
            for other in examples.related {
                assert!(paths.iter().any(|path| path == other), "{path}: {other}");
            }
        }
        assert_eq!(paths.len(), ALL.len());
    }

    #[test]
    fn help_of_a_command_has_examples_before_its_exit_status() {
        let mut all = with_examples(Flags::command());
        let stats = all.find_subcommand_mut("stats").unwrap();
        for help in [stats.render_help(), stats.render_long_help()] {
            let help = help.to_string();
            let place = |what: &str| help.find(what).unwrap_or_else(|| panic!("{what}: {help}"));
            assert!(place("\nExamples:\n  strata stats t\n") < place("\nExit status:\n"));
            assert!(place("\nExit status:\n") < place("\nSee also: strata view, strata analyze,"));
        }
    }
}
