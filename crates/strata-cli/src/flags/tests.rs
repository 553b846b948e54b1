//! Tests of what flags mean, and of refused ones.

use super::*;

fn record(arguments: &[&str]) -> Result<Options, String> {
    let arguments = [&["strata", "record"], arguments].concat();
    match Flags::try_parse_from(arguments).map_err(|error| error.to_string())?.action {
        Action::Record(flags) => {
            let pids = flags.processes().map_err(|error| error.to_string())?;
            let pids = pids.into_iter().map(|(_, pid)| pid).collect();
            flags.options(pids).map_err(|error| error.to_string())
        }
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn flags_are_consistent() {
    Flags::command().debug_assert();
}

#[test]
fn flags_when_none_are_given_ask_for_the_session_s_defaults_and_the_kernel() {
    let asked = record(&[]).unwrap();
    let kernel = Some(KernelOptions::default());
    let default = Options { kernel, ..Options::default() };
    assert_eq!(format!("{asked:?}"), format!("{default:?}"));
    assert!(asked.records_applications());
}

#[test]
fn flags_that_name_something_record_that_only() {
    for (arguments, has_applications, has_kernel) in [
        (&["cmd"][..], true, true),
        (&["--mode", "overwrite", "cmd"], true, true),
        (&["--filter", "ret < 0", "cmd"], true, true),
        (&["-u", "*:*", "cmd"], true, false),
        (&["--no-kernel", "cmd"], true, false),
        (&["--no-kernel", "-u", "a:*", "cmd"], true, false),
        (&["-k", "read", "cmd"], false, true),
        (&["--probe", "usdt:a:b:c", "cmd"], false, true),
        (&["-u", "a:*", "-k", "read", "cmd"], true, true),
        (&["--libc", "malloc,io", "cmd"], true, false),
        (&["--libc", "malloc:sum", "-k", "read", "cmd"], true, true),
    ] {
        let asked = record(arguments).unwrap();
        let found = (asked.records_applications(), asked.kernel.is_some());
        assert_eq!(found, (has_applications, has_kernel), "{arguments:?}");
    }
    let asked = |arguments: &[&str]| record(arguments).unwrap().kernel.unwrap();
    assert!(asked(&["cmd"]).is_default() && !asked(&["cmd"]).is_required());
    // A filter is for whatever is recorded.
    assert!(asked(&["-f", "ret < 0"]).is_default() && !asked(&["-f", "ret < 0"]).is_required());
    for arguments in [&["--all-processes"][..], &["--lttng-env"]] {
        assert!(asked(arguments).is_default() && asked(arguments).is_required());
    }
}

#[test]
fn flags_of_every_kind_reach_the_session() {
    let asked = record(&[
        "-u",
        "a:*,b:*@info",
        "--user",
        "!a:x",
        "-o",
        "out",
        "--mode",
        "overwrite",
        "--subbuf-size",
        "512K",
        "--num-subbuf=4",
        "--flush",
        "0.25",
        "--duration",
        "2m",
        "--strict",
        "--",
        "cmd",
        "-p",
        "--mode",
    ])
    .unwrap();
    assert_eq!(asked.rules.unwrap().as_str(), "a:*,b:*@6,!a:x");
    assert_eq!(asked.output, Some("out".into()));
    assert_eq!(asked.mode, LossMode::Overwrite);
    assert_eq!((asked.subbuf_bytes, asked.nr_subbufs), (512 << 10, 4));
    for (flags, is_given) in [
        (&["x"][..], false),
        (&["--num-subbuf=8"], true),
        (&["--subbufs=8"], true),
        (&["--subbuf-size=1M"], true),
    ] {
        let asked = record(flags).unwrap();
        // As the help says.
        assert_eq!((asked.subbuf_bytes, asked.nr_subbufs), (1 << 20, 8));
        assert_eq!(asked.is_size_given, is_given, "{flags:?}");
    }
    let kernel = record(&["--kernel-subbuf-size=64K", "--kernel-num-subbuf=4"]).unwrap();
    assert_eq!((kernel.subbuf_bytes, kernel.nr_subbufs), (1 << 20, 8));
    let kernel = kernel.kernel.unwrap();
    assert_eq!((kernel.subbuf_bytes, kernel.nr_subbufs), (Some(64 << 10), Some(4)));
    assert!(kernel.is_default() && !kernel.is_required());
    let none = record(&["-u", "a:*", "--kernel-num-subbuf=4"]).unwrap_err();
    assert!(none.starts_with("--kernel-num-subbuf: no event of the kernel"), "{none}");
    assert_eq!(asked.flush, Duration::from_millis(250));
    assert_eq!(asked.duration, Some(Duration::from_secs(120)));
    assert_eq!(asked.command, ["cmd", "-p", "--mode"]);
    assert_eq!(record(&["-p", "1,2", "--pid", "3"]).unwrap().pids, [1, 2, 3]);
    assert_eq!(record(&["-p", "1", "-p", "2,1"]).unwrap().pids, [1, 2]);
    for arguments in [&["-a"][..], &["--all", "cmd"]] {
        let asked = record(arguments).unwrap();
        assert!(asked.everyone && asked.records_applications() && asked.kernel.is_some());
    }
    let asked = record(&["--max-size=2M", "--wait-descendants", "cmd"]).unwrap();
    assert_eq!((asked.max_bytes, asked.wait_descendants), (Some(2 << 20), true));
    assert_eq!(record(&["--strict", "cmd", "-p", "x"]).unwrap().command, ["cmd", "-p", "x"]);
}

#[test]
fn lengths_of_time_are_read_and_refused_alike_by_every_flag() {
    for (flags, text) in [
        (&["record", "--flush=5x"][..], "'5x'"),
        (&["record", "--duration=5x"], "'5x'"),
        (&["view", "--last=5x", "t"], "'5x'"),
        (&["view", "--from=+5x", "t"], "'5x'"),
        (&["stats", "--until=-5x", "t"], "'5x'"),
        (&["export", "--to=csv", "--clock-offset=t=-5x", "t"], "'5x'"),
    ] {
        let error = Flags::try_parse_from([&["strata"], flags].concat()).unwrap_err();
        let text =
            format!("{text} is no length of time; write a number with ns, us, ms, s, m or h");
        assert!(error.to_string().contains(&text), "{flags:?}: {error}");
    }
    for (text, nanos) in [("250ns", 250), ("0.5us", 500), ("100ms", 100_000_000), ("0", 0)] {
        let asked = record(&["--flush", text]).unwrap();
        assert_eq!(asked.flush, Duration::from_nanos(nanos), "{text}");
    }
}

#[test]
fn flags_of_the_kernel_reach_the_session() {
    let arguments = ["-k", "sched_*,read", "-k", "syscalls", "-f", "ret < 0", "--lttng-env", "x"];
    let asked = record(&arguments).unwrap();
    assert!(asked.rules.is_none() && !asked.records_applications());
    let kernel = asked.kernel.unwrap();
    assert_eq!(kernel.rules, ["sched_*,read", "syscalls"]);
    assert_eq!(kernel.filter.unwrap().to_string(), "ret < 0");
    assert_eq!((kernel.all_processes, kernel.as_lttng), (false, true));
    assert!(record(&["-k", "read", "--all-processes"]).unwrap().kernel.unwrap().all_processes);
    let probes = ["--probe", "uprobe:a:b(c:u32, d:str)", "--probe", "usdt:a:b:c", "-f", "d == 1"];
    let kernel = record(&probes).unwrap().kernel.unwrap();
    assert_eq!(kernel.probes, ["uprobe:a:b(c:u32, d:str)", "usdt:a:b:c"]);
    assert!(kernel.rules.is_empty() && kernel.filter.is_some());
}

#[test]
fn flags_of_list_show_the_kernel_s_events_only_when_asked() {
    let parse = |arguments: &[&str]| {
        Flags::try_parse_from([&["strata", "list"], arguments].concat()).map(|_| ())
    };
    for arguments in [&["-k"][..], &["-k", "sched_switch", "irq_*"], &["-k", "--names"]] {
        parse(arguments).unwrap();
    }
    parse(&["--libc", "malloc,io", "--json"]).unwrap();
    for arguments in [
        &["--names"][..],
        &["-k", "--names", "--json"],
        &["--probes=x", "trace"],
        &["--libc", "malloc", "trace"],
        &["--libc", "none"],
    ] {
        assert!(parse(arguments).is_err(), "{arguments:?}");
    }
}

#[test]
fn flags_that_contradict_or_make_no_sense_are_refused_by_name() {
    for (arguments, part) in [
        (&["-p", "1", "--", "cmd"][..], "--pid"),
        (&["-u", "a:b@loud"], "debug_line"),
        (&["--subbuf-size", "big"], "512K"),
        (&["--duration", "soon"], "500ms"),
        (&["--mode", "drop"], "overwrite"),
        (&["-p", "strata-nobody"], "--pid=strata-nobody: no running process has this name"),
        (&["-p", ""], "'' is no number of a process"),
        (&["-a", "-p", "1"], "--pid"),
        (&["--wait-descendants"], "COMMAND"),
        (&["--libc", "malloc"], "--background"),
        (&["--max-size", "big", "cmd"], "512K"),
        (&["-p", "17,0"], "'0' is no number of a process"),
        (&["-p", "99999999999"], "1 to 2147483647"),
        (&["--no-kernel", "-k", "read"], "--no-kernel"),
        (&["-k", "read", "--filter", "ret ="], "^"),
        (&["-u", "a:*", "--all-processes"], "--kernel"),
        (&["-u", "a:*", "--lttng-env"], "--lttng-env"),
        (&["-k", ""], "--kernel"),
        (&["--context", "ip,vpdi"], "'vpid'"),
        (&["--context", "perf:thread:cycles"], "perf:thread:page-fault"),
        (&["--kernel-context", "perf:cpu:cycels"], "'perf:cpu:cycles'"),
    ] {
        let text = record(arguments).unwrap_err();
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
}

#[test]
fn commands_with_json_take_json_and_format_json_alike() {
    fn look(command: &clap::Command, path: &str, seen: &mut usize) {
        let has = |name: &str| command.get_arguments().any(|one| one.get_long() == Some(name));
        let format = command.get_arguments().find(|one| one.get_long() == Some("format"));
        let names = format.map(|one| one.get_possible_values()).unwrap_or_default();
        let takes = names.iter().any(|value| value.get_name() == "json");
        assert_eq!(has("json"), takes, "{path}");
        *seen += usize::from(takes);
        for one in command.get_subcommands() {
            look(one, &format!("{path} {}", one.get_name()), seen);
        }
    }
    let mut seen = 0;
    look(&Flags::command(), "strata", &mut seen);
    assert!(seen > 30, "{seen}");
    assert!(Flags::try_parse_from(["strata", "view", "--json", "--format", "csv", "t"]).is_err());
}

#[test]
fn flag_auto_of_earlier_versions_is_accepted_with_a_remark_and_not_shown() {
    let parsed = |words: &[&str]| Flags::try_parse_from(["strata"].iter().chain(words)).unwrap();
    for words in [
        &["record", "--auto", "--", "ls"][..],
        &["record", "--auto", "--background", "web"],
        &["create", "web", "--auto"],
        &["start", "--auto", "web"],
    ] {
        let text = parsed(words).remark().unwrap();
        assert!(text.contains("--subbuf-size and --num-subbuf"), "{words:?}: {text}");
        let of_session: Vec<&str> =
            [words[0], "--of-session"].into_iter().chain(words[1..].iter().copied()).collect();
        if !of_session.contains(&"--") {
            assert_eq!(parsed(&of_session).remark(), None, "{words:?}");
        }
        let without: Vec<&str> = words.iter().copied().filter(|word| *word != "--auto").collect();
        assert_eq!(parsed(&without).remark(), None, "{words:?}");
    }
    assert_eq!(parsed(&["record", "--auto", "-q", "ls"]).remark(), None);
    // After the command's name it is the command's.
    assert_eq!(parsed(&["record", "ls", "--auto"]).remark(), None);
    let mut commands = Flags::command();
    for name in ["record", "create", "start"] {
        let help = commands.find_subcommand_mut(name).unwrap().render_long_help().to_string();
        assert!(!help.contains("--auto"), "{help}");
    }
}

#[test]
fn help_of_a_command_without_follow_names_no_flag_follow() {
    fn look(command: &clap::Command, path: &str, seen: &mut (usize, usize)) {
        let traces = command.get_arguments().find(|one| one.get_id() == "traces");
        if let Some(help) = traces.map(|one| one.get_help().unwrap_or_default().to_string()) {
            let follows = command.get_arguments().any(|one| one.get_long() == Some("follow"));
            assert_eq!(help.contains("--follow"), follows, "{path}: {help}");
            assert_eq!(help.contains("net://RELAY/HOST"), follows, "{path}: {help}");
            seen.0 += usize::from(follows);
            seen.1 += usize::from(!follows);
        }
        for one in command.get_subcommands() {
            look(one, &format!("{path} {}", one.get_name()), seen);
        }
    }
    let mut seen = (0, 0);
    look(&Flags::command(), "strata", &mut seen);
    assert!(seen.0 == 2 && seen.1 > 8, "{seen:?}");
}
