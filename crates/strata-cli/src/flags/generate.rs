//! Completions and man pages, from the one definition of the flags.

use std::fs;
use std::io::{self, Write};
use std::iter;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::flags::Flags;

/// A completion script to stdout.
pub fn completions(shell: Shell) -> Result<()> {
    let script = script(shell);
    io::stdout().write_all(script.as_bytes()).context("completions: cannot write to stdout")
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown(), "strata", &mut script);
    with_event_names(shell, &String::from_utf8_lossy(&script))
}

/// The command line without what `strata --help` does not show: scripts would offer it.
fn shown() -> Command {
    let all = Flags::command();
    let commands = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("strata").version(env!("CARGO_PKG_VERSION")).subcommands(commands)
}

/// The script, with the names of this kernel's events behind `record -k` and `list -k`: asked of the
/// `strata` on the command line when they are wanted, and none where they cannot be read.
fn with_event_names(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => format!("{script}\n{BASH_EVENT_NAMES}"),
        Shell::Fish => format!("{script}\n{FISH_EVENT_NAMES}"),
        Shell::Zsh => {
            let mut script = script.to_owned();
            // What clap has for a value of which it knows nothing.
            script = script.replace(":RULES:_default", ":RULES:_strata_events");
            script =
                script.replace("`strata record -k`:_files -/", "`strata record -k`:_strata_named");
            script.replacen("\n_strata() {", &format!("\n{ZSH_EVENT_NAMES}\n_strata() {{"), 1)
        }
        _ => script.to_owned(),
    }
}

/// Rules are separated by commas: it is the last one that is completed.
const BASH_EVENT_NAMES: &str = r#"_strata_events() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} in=${COMP_WORDS[1]} i
    local asked=
    if [[ $in == record && ( $before == -k || $before == --kernel ) ]]; then
        asked=1
    elif [[ $in == list && $word != -* ]]; then
        for ((i = 2; i < COMP_CWORD; i++)); do
            [[ ${COMP_WORDS[i]} != -k && ${COMP_WORDS[i]} != --kernel ]] || asked=1
        done
    fi
    [[ -n $asked ]] || return 1
    local front= last=${word##*,}
    [[ $word != *,* ]] || front=${word%,*},
    if [[ $last == !* ]]; then
        front+=!
        last=${last#!}
    fi
    mapfile -t COMPREPLY < <(compgen -P "$front" -W "$("${COMP_WORDS[0]}" list -k --names 2>/dev/null)" -- "$last")
}

_strata_or_events() {
    _strata_events || _strata "$@"
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _strata_or_events -o nosort -o bashdefault -o default strata
else
    complete -F _strata_or_events -o bashdefault -o default strata
fi
"#;

const ZSH_EVENT_NAMES: &str = r#"(( $+functions[_strata_events] )) ||
_strata_events() {
    local -a names
    names=(${(f)"$(${words[1]} list -k --names 2>/dev/null)"})
    compset -P '*,'
    compset -P '!'
    compadd -a names
}
(( $+functions[_strata_named] )) ||
_strata_named() {
    if (( ${words[(I)-k]} || ${words[(I)--kernel]} )); then _strata_events; else _files -/; fi
}
"#;

const FISH_EVENT_NAMES: &str = r#"function __strata_events
    set -l word (commandline -ct)
    set -l front (string match -r '^(?:.*,)?!?' -- $word)
    for name in (strata list -k --names 2>/dev/null)
        echo $front$name
    end
end
complete -c strata -n "__fish_seen_subcommand_from record" -s k -l kernel -x -a "(__strata_events)"
complete -c strata -n "__fish_seen_subcommand_from list; and __fish_contains_opt -s k kernel" -f -a "(__strata_events)"
"#;

/// strata(1) to stdout, or a page for each subcommand into `folder`.
pub fn man(folder: Option<&Path>) -> Result<()> {
    let mut command = Flags::command().disable_help_subcommand(true);
    // Names such as `strata-view` are made by it.
    command.build();
    let Some(folder) = folder else {
        let (_, page) = page(&command)?;
        return io::stdout().write_all(page.as_bytes()).context("man page: cannot write to stdout");
    };
    fs::create_dir_all(folder)
        .with_context(|| format!("man pages: cannot make folder '{}'", folder.display()))?;
    for command in iter::once(&command).chain(with_pages(&command)) {
        let (name, page) = page(command)?;
        fs::write(folder.join(name), page)
            .with_context(|| format!("man pages: cannot write to '{}'", folder.display()))?;
    }
    Ok(())
}

/// All commands that have a page: those that the help shows, and what these do in several ways.
fn with_pages(command: &Command) -> Vec<&Command> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.flat_map(|command| iter::once(command).chain(with_pages(command))).collect()
}

/// A man page and its file's name.
fn page(command: &Command) -> Result<(String, String)> {
    let source = concat!("strata ", env!("CARGO_PKG_VERSION"));
    let page = clap_mangen::Man::new(command.clone()).source(source);
    let mut text = Vec::new();
    page.render(&mut text).context("man page: cannot be made")?;
    let text = String::from_utf8_lossy(&text);
    // What stands below the flags is laid out already.
    Ok((page.get_filename(), text.replace(".SH EXTRA\n", ".SH NOTES\n.nf\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_of_each_shell_ask_for_the_kernel_s_events() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            assert!(script.contains("list -k --names"), "{shell}");
            assert!(script.matches("strata_events").count() >= 2, "{shell}");
        }
        assert_eq!(script(Shell::Zsh).matches(":_strata_events").count(), 4);
        assert_eq!(script(Shell::Zsh).matches(":_strata_named").count(), 1);
        assert!(!script(Shell::Elvish).contains("strata_events"));
    }

    #[test]
    fn completions_offer_what_the_help_shows_and_nothing_else() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for flag in ["lttng-env", "probes", "no-delta", "version"] {
                assert!(script.contains(flag), "{shell}: {flag}");
            }
            assert!(!script.contains("man pages"), "{shell}");
        }
        assert!(!script(Shell::Bash).contains("strata__man"));
    }

    #[test]
    fn man_pages_and_help_fit_a_terminal_of_80_columns() {
        let mut command = Flags::command().disable_help_subcommand(true);
        command.build();
        let (mut nr_pages, mut nr_lines) = (0, 0);
        for command in with_pages(&command) {
            let (name, text) = page(command).unwrap();
            assert_eq!(name, format!("{}.1", command.get_display_name().unwrap()));
            assert!(text.contains("\"strata 0.1.0\""), "{name}: {text}");
            assert!(!text.contains(".SH EXTRA"), "{name}");
            for line in command.get_after_long_help().iter().flat_map(|help| {
                help.to_string().lines().map(str::to_owned).collect::<Vec<String>>()
            }) {
                assert!(line.chars().count() <= 72, "{name}: {line}");
                nr_lines += 1;
            }
            // The reports of analyze are counted by themselves.
            nr_pages += u32::from(!name.starts_with("strata-analyze-"));
        }
        assert_eq!(nr_pages, 30);
        for report in [
            "cpu", "files", "irq", "locks", "memory", "spans", "summary", "syscalls", "threads",
            "wait",
        ] {
            let of = with_pages(&command);
            let found = of.iter().find(|command| {
                command.get_display_name() == Some(format!("strata-analyze-{report}").as_str())
            });
            let (_, text) = page(found.unwrap()).unwrap();
            assert!(text.contains(r"\-\-from") && text.contains(r"\-\-format"), "{report}: {text}");
        }
        assert!(nr_lines > 100, "{nr_lines}");
    }
}
