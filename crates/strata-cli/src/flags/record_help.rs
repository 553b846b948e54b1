//! The help of `strata record`: the flags that most people need with `-h`, every flag in one or two lines with
//! `--help`, and the complete texts in the man page.

use std::fmt::Write as _;

use anstyle::{Effects, Style};
use clap::{Arg, Command};

/// Groups of flags, by the names that clap has for the flags.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "What is recorded",
        &[
            "user",
            "kernel",
            "probe",
            "libc",
            "filter",
            "slower",
            "every",
            "at_most",
            "sample",
            "no_kernel",
            "hypervisor",
        ],
    ),
    (
        "Which processes",
        &["pid", "container", "unit", "all", "all_processes", "wait_descendants", "guest", "relay"],
    ),
    ("With each event", &["stack", "context", "kernel_context", "argv_bytes", "no_vtid"]),
    ("Until when", &["duration", "max_size", "min_free"]),
    (
        "The trace",
        &[
            "output",
            "to",
            "no_output",
            "ctf",
            "flush",
            "rotate_size",
            "rotate_time",
            "rotate_count",
            "lttng_env",
        ],
    ),
    (
        "Buffers",
        &[
            "mode",
            "subbuf_size",
            "num_subbuf",
            "kernel_subbuf_size",
            "kernel_num_subbuf",
            "max_memory",
        ],
    ),
    ("Sessions", &["background", "snapshot", "keep_count", "keep_size", "keep", "group"]),
    ("What is printed", &["live", "live_output", "json", "format", "strict", "quiet"]),
];

/// Flags that `-h` shows.
const FIRST: &[&str] = &[
    "user",
    "kernel",
    "probe",
    "libc",
    "filter",
    "slower",
    "sample",
    "stack",
    "output",
    "duration",
    "max_size",
    "pid",
    "all",
    "background",
    "snapshot",
];

/// The part of `--help` about rules.
const RULES: &str = "\
Without -u, -k and --probe: tracepoints of applications, system calls,
page faults and signals, and the machine's scheduling and interrupts.
With any of them: what they name, and nothing else.

Rules (-u PROVIDER:EVENT[@LEVEL], -k EVENT):
  -u 'myapp:*@warning'           warnings and worse of a provider
  -u 'myapp:*' -u '!myapp:poll*' all but some
  -k 'sched_*,openat,close'      a subsystem, and two system calls
  -k 'syscalls,!epoll*'          all system calls but some
  -k 'default,block_rq_*'        as without -k, and these
  strata list -k                 events of the kernel
  man strata-record              rules, probes, --libc and signals";

/// Width of the space before the text of a flag \[column\].
const INDENT: usize = 27;

/// Puts the flags of `record` into groups, and hides flags that few people need from `-h`.
pub fn with_groups(command: Command) -> Command {
    command.mut_subcommand("record", |record| {
        let grouped = record.mut_args(|arg| {
            let id = arg.get_id().as_str().to_owned();
            let group = GROUPS.iter().find(|(_, ids)| ids.contains(&id.as_str()));
            let is_first = FIRST.contains(&id.as_str()) || id == "command";
            let arg = match group {
                Some((heading, _)) => arg.help_heading(*heading),
                None => arg,
            };
            arg.hide_short_help(!is_first)
        });
        grouped.after_help(
            "`strata record --help` shows all flags, and `man strata-record` also\n\
             rules, probes and signals.",
        )
    })
}

/// Returns the `--help` of `record` for a terminal of `columns` columns; `after` follows the flags.
pub fn long_help(record: &Command, columns: usize, after: &str) -> String {
    let heading = Style::new().effects(Effects::BOLD.insert(Effects::UNDERLINE));
    let about = record.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!(
        "{about}\n\n{heading}Usage:{heading:#} strata record [OPTIONS] [-- COMMAND [ARGUMENT]...]\n"
    );
    let grouped = GROUPS.iter().map(|(heading, ids)| {
        let find = |id: &&str| record.get_arguments().find(|arg| arg.get_id().as_str() == *id);
        (*heading, ids.iter().filter_map(find).collect::<Vec<&Arg>>())
    });
    let others = record.get_arguments().filter(|arg| {
        let id = arg.get_id().as_str();
        GROUPS.iter().all(|(_, ids)| !ids.contains(&id))
    });
    for (title, args) in grouped.chain([("Others", others.collect())]) {
        let mut shown =
            args.into_iter().filter(|arg| !arg.is_hide_set() && !arg.is_positional()).peekable();
        if shown.peek().is_some() {
            let _ = write!(text, "\n{heading}{title}:{heading:#}\n");
        }
        shown.for_each(|arg| write_flag(&mut text, arg, columns));
    }
    let _ = write!(text, "\n{RULES}\n\n{after}");
    text
}

/// Writes a flag and its text.
fn write_flag(out: &mut String, arg: &Arg, columns: usize) {
    const BOLD: Style = Style::new().effects(Effects::BOLD);
    let short = arg.get_short().map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
    let long = arg.get_long().map(|long| format!("--{long}")).unwrap_or_default();
    let values: Vec<&str> =
        arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
    let takes = arg.get_action().takes_values();
    let value = match (takes, values.first()) {
        (true, Some(name)) if arg.is_require_equals_set() => format!("[=<{name}>]"),
        // The alternatives of a long value name are in the man page.
        (true, Some(name)) => format!(" <{}>", name.split('[').next().unwrap_or(name)),
        _ => String::new(),
    };
    let spec = format!("  {short}{long}{value}");
    let _ = write!(out, "  {BOLD}{short}{long}{BOLD:#}{value}");
    let mut column = spec.chars().count();
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let names = arg.get_possible_values();
    let names: Vec<&str> = names.iter().map(|value| value.get_name()).collect();
    if takes && !names.is_empty() && !arg.is_hide_possible_values_set() {
        let _ = write!(help, " [{}]", names.join(", "));
    }
    if let [default, ..] = arg.get_default_values() {
        let _ = write!(help, " [default: {}]", default.to_string_lossy());
    }
    if column + 2 > INDENT {
        out.push('\n');
        column = 0;
    }
    for word in help.split_whitespace() {
        if column > INDENT && column + 1 + word.chars().count() > columns {
            out.push('\n');
            column = 0;
        }
        let gap = if column < INDENT { INDENT - column } else { 1 };
        let _ = write!(out, "{:gap$}{word}", "");
        column += gap + word.chars().count();
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::flags::Flags;

    #[test]
    fn groups_name_flags_that_are_there_and_each_once() {
        let command = Flags::command();
        let record = command.find_subcommand("record").unwrap();
        let there: HashSet<&str> =
            record.get_arguments().map(|arg| arg.get_id().as_str()).collect();
        let mut seen = HashSet::new();
        for id in GROUPS.iter().flat_map(|(_, ids)| *ids) {
            assert!(there.contains(id) && seen.insert(*id), "{id}");
        }
        assert!(FIRST.iter().all(|id| seen.contains(id)));
    }

    #[test]
    fn help_of_record_is_short_and_fits_80_columns() {
        let mut command = with_groups(Flags::command()).term_width(80);
        command.build();
        let record = command.find_subcommand_mut("record").unwrap();
        let long = anstream::adapter::strip_str(&long_help(record, 80, "")).to_string();
        let shown = record.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional());
        for arg in shown {
            let flag = format!("--{}", arg.get_long().unwrap());
            assert!(long.split([' ', '\n', '[']).any(|word| word == flag), "{flag}");
        }
        let short = record.render_help().to_string();
        for (help, most) in [(&long, 150), (&short, 70)] {
            assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
            assert!(help.lines().count() <= most, "{}: {help}", help.lines().count());
        }
        assert!(short.contains("--duration") && !short.contains("--lttng-env"), "{short}");
    }
}
