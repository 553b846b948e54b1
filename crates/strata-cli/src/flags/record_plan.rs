//! The plan of `strata record`, in the foreground and with `--background NAME`. In the background the session can be
//! changed, and a killed one is made again from its plan, unless a flag ends with the process.

use std::time::Duration;

use anyhow::bail;
use strata_kernel::{uprobe, CallStacks};
use strata_session::options::FLUSH;
use strata_session::plan::{
    Change, ContextChange, EnableEvents, LayerOf, Loss, Plan, Transient, Until,
};
use strata_session::report::{NoKernel, EVERY_TRACEPOINT};
use strata_session::{
    kernel_by_default, preload, wants_default_kernel, MinFree, Retention, DEFAULT_KERNEL_RULES,
};

use super::probes::for_session;
use super::sampling::SamplingFlags;
use super::sessions::{sampling, split};
use super::{CtfFlag, ModeFlag, RecordFlags};

/// The event of a thread that leaves its CPU.
const SWITCH: &str = "sched_switch";

/// The plan of a recording, with remarks.
#[derive(Debug)]
pub struct Planned {
    /// The plan of the session.
    pub plan: Plan,
    /// True if the user did not request the kernel, so that the session may continue without it.
    pub may_lack_kernel: bool,
    /// Why the kernel is not recorded, if that is known.
    pub no_kernel: Option<NoKernel>,
    /// Functions of the hypervisor that cannot be recorded.
    pub hypervisor: Option<String>,
    /// Why `--libc` records nothing of the command, if that is known.
    pub no_preload: Option<String>,
    /// Probes of which a part is not recorded.
    pub probes: Vec<String>,
    /// The control groups that were found by name.
    pub groups: Vec<String>,
}

impl RecordFlags {
    /// Makes the plan from these flags, for the running processes `pids` that they name.
    ///
    /// # Errors
    /// The flags contradict each other, or a rule, filter or probe is wrong.
    pub fn planned(&self, pids: Vec<u32>) -> anyhow::Result<Planned> {
        if let Some((flag, why)) = self.first_that_ends() {
            if self.keep {
                bail!("--keep and {flag}: {why}");
            }
            if !self.retention().is_none() {
                bail!(
                    "--keep-count, --keep-size and {flag}: these limit what a session leaves that is made again after a kill, and this \
                     one is not. Use --rotate-count for parts of its trace"
                );
            }
        }
        let of_end =
            [("--duration", self.duration.is_some()), ("--max-size", self.max_size.is_some())];
        if let Some((flag, _)) = of_end.into_iter().find(|(_, is_given)| self.keep && *is_given) {
            bail!(
                "--keep and {flag}: a session that was killed does not know its end. Use `strata destroy NAME`, or --rotate-size with --rotate-count"
            );
        }
        let of_programs =
            [("--probe", !self.probe.is_empty()), ("--hypervisor", self.hypervisor.is_some())];
        match of_programs.into_iter().find(|(_, is_given)| self.keep && *is_given) {
            Some((flag, _)) => {
                bail!("--keep and {flag}: probes of programs end with the session's process. Leave one of them out")
            }
            None => self.plan(pids),
        }
    }

    /// Returns the limits on what a session's earlier runs and snapshots leave behind.
    pub(super) fn retention(&self) -> Retention {
        Retention { count: self.keep_count, size: self.keep_size }
    }

    fn plan(&self, pids: Vec<u32>) -> anyhow::Result<Planned> {
        let mut options = self.options(pids.clone())?;
        let hypervisor = self.add_hypervisor(&mut options)?;
        options.check()?;
        let kernel = options.kernel.as_ref();
        let asked = kernel.map(|kernel| &kernel.probes[..]).unwrap_or_default();
        // Report a probe that cannot be made before there is a session.
        let probes = for_session(asked)?;
        let (known_probes, remarks) = strata_session::resolve_probes(&probes, asked, &pids)?;
        let by_default = kernel.filter(|kernel| kernel.is_default());
        let may_lack_kernel = by_default.is_some_and(|kernel| !kernel.is_required()) && !self.keep;
        let is_samples_only = kernel.is_some_and(|kernel| kernel.samples_only);
        let mut no_kernel = None;
        let rules = match (kernel, by_default) {
            (_, Some(_)) if !wants_default_kernel(&pids) => Vec::new(),
            (_, Some(_)) => match kernel_by_default(&options) {
                Ok(rules) => rules,
                Err(why) if may_lack_kernel => {
                    no_kernel = Some(why);
                    Vec::new()
                }
                Err(_) => split(LayerOf::Kernel, &DEFAULT_KERNEL_RULES.map(str::to_owned))?,
            },
            (Some(kernel), None) if !kernel.rules.is_empty() => {
                split(LayerOf::Kernel, &kernel.rules)?
            }
            _ => Vec::new(),
        };
        let mut plan = Plan::new(self.snapshot, self.output.clone());
        plan.transient = Transient {
            is_foreground: self.background.is_none(),
            command: self.command.clone(),
            duration: self.duration,
            everyone: self.all,
            all_processes: self.all_processes,
            libc: self.libc.clone(),
            wait_descendants: self.wait_descendants,
            kernel_by_default: by_default.is_some() || is_samples_only && options.rules.is_none(),
            kernel_flags: kernel.map(|kernel| kernel.flags()).unwrap_or_default(),
            no_kernel: no_kernel.clone().filter(|_| self.ends_with_process().is_some()),
            probes: self.background.is_none().then_some(known_probes),
            has_places: self.has_places(),
            guests: self.guest.clone(),
            relay: self.relay.relay.clone(),
            pids,
        };
        self.add_settings(&mut plan)?;
        let is_default = by_default.is_some();
        let mut changes =
            self.changes(options.records_applications(), (rules, is_default), probes)?;
        let (tracked, groups) = self.groups.tracked()?.unzip();
        changes.extend(tracked);
        let mut plan = plan.changed(&Change::Several(changes))?;
        let flush = self.live.flush(self.flush);
        for channel in &mut plan.channels {
            let overwrites = matches!(self.mode, ModeFlag::Overwrite) && !self.snapshot;
            channel.mode = overwrites.then_some(Loss::Overwrite);
            channel.flush_ms = (flush != FLUSH).then(|| milliseconds(flush));
            if channel.layer == LayerOf::Kernel {
                channel.subbuf_size = self.kernel_subbuf_size;
                channel.num_subbuf = self.kernel_num_subbuf;
            }
        }
        plan.check()?;
        let has_preload = self.has_command() && !self.libc.is_empty();
        let no_preload = has_preload.then(|| preload::hint(&self.command, &self.libc)).flatten();
        let groups = groups.unwrap_or_default();
        let probes = remarks;
        Ok(Planned { plan, may_lack_kernel, no_kernel, hypervisor, no_preload, probes, groups })
    }

    /// Sets what does not depend on rules.
    ///
    /// # Errors
    /// The spool is too small.
    fn add_settings(&self, plan: &mut Plan) -> anyhow::Result<()> {
        (plan.keep, plan.stack) = (self.keep, self.stack.unwrap_or_default().without_copy());
        (plan.argv_bytes, plan.to) = (self.argv_bytes, self.relay.to()?);
        plan.ctf2 = matches!(self.ctf, CtfFlag::Two);
        (plan.no_vtid, plan.lttng_env) = (self.no_vtid, self.lttng_env);
        (plan.subbuf_size, plan.num_subbuf) = (self.subbuf_size, self.num_subbuf);
        (plan.rotation, plan.max_memory) = (self.rotate.rotation(), self.max_memory);
        plan.retention = self.retention();
        plan.until =
            Until { duration_ms: self.duration.map(milliseconds), max_bytes: self.max_size };
        plan.min_free = (self.min_free != MinFree::default()).then_some(self.min_free);
        Ok(())
    }

    /// Returns the rules, probes and contexts as changes of an empty plan.
    fn changes(
        &self,
        records_applications: bool,
        (kernel, is_default): (Vec<String>, bool),
        probes: Vec<String>,
    ) -> anyhow::Result<Vec<Change>> {
        let named = [self.user.clone(), preload::selecting(&self.libc)].concat();
        if let Some(flag) = self.sampling.first().filter(|_| !self.names_kernel()) {
            bail!("{flag}: samples are of the kernel's events. Name them with -k or --probe, such as -k 'sched_*'");
        }
        let user = match (records_applications, named.is_empty()) {
            (false, _) => Vec::new(),
            (true, true) => split(LayerOf::User, &[EVERY_TRACEPOINT.to_owned()])?,
            (true, false) => split(LayerOf::User, &named)?,
        };
        let left_out = preload::left_out(&self.libc, &self.user);
        let filter = self.filter.as_ref().map(|filter| filter.text().to_owned());
        let stack = self.stack.unwrap_or_default();
        // Of the default events only one has the copy, as docs/guide/stacks.md says.
        let stack_of = |layer, rules: &[String]| match layer {
            LayerOf::User => CallStacks::None,
            LayerOf::Kernel if is_default && rules != [SWITCH] => stack.without_copy(),
            LayerOf::Kernel => stack,
        };
        let events = |layer, rules: Vec<String>, filter, exclude, probe: bool| {
            let is_slow = !probe && !rules.iter().any(|rule| rule.starts_with('!'));
            let sampling = match layer {
                // Flags are for the kernel's rules, of which there are some.
                LayerOf::Kernel if !rules.iter().any(|rule| rule.starts_with('!')) => self.sampling,
                _ => SamplingFlags::default(),
            };
            Change::EnableEvent(EnableEvents {
                layer,
                channel: None,
                filter,
                exclude,
                stack: stack_of(layer, &rules),
                sample: None,
                probe,
                slower_ns: self.slower.filter(|_| is_slow),
                every: sampling.every,
                at_most: sampling.at_most,
                rules,
            })
        };
        let mut changes = Vec::new();
        for (layer, rules, contexts) in
            [(LayerOf::User, user, &self.context), (LayerOf::Kernel, kernel, &self.kernel_context)]
        {
            let (excluding, mut selecting): (Vec<String>, Vec<String>) =
                rules.into_iter().partition(|rule| rule.starts_with('!'));
            // Exclusions alone exclude from what is recorded without rules. A session adds later rules to these.
            if layer == LayerOf::User && selecting.is_empty() && !excluding.is_empty() {
                selecting.push(EVERY_TRACEPOINT.to_owned());
            }
            let exclude = if layer == LayerOf::User { left_out.clone() } else { Vec::new() };
            for (rules, filter, exclude) in
                [(selecting, filter.clone(), exclude), (excluding, None, Vec::new())]
            {
                let (switch, others): (Vec<String>, Vec<String>) =
                    rules.into_iter().partition(|rule| layer == LayerOf::Kernel && rule == SWITCH);
                for rules in [others, switch].into_iter().filter(|rules| !rules.is_empty()) {
                    changes.push(events(layer, rules, filter.clone(), exclude.clone(), false));
                }
            }
            if layer == LayerOf::Kernel && !probes.is_empty() {
                changes.push(events(layer, probes.clone(), filter.clone(), Vec::new(), true));
            }
            if let (LayerOf::Kernel, Some(rate)) = (layer, self.sample) {
                changes.push(sampling(rate, None, stack, filter.clone()));
            }
            if !contexts.is_empty() {
                let mut names: Vec<String> = Vec::new();
                for name in contexts.iter().flat_map(|list| list.split(',')).map(str::trim) {
                    if !names.iter().any(|one| one == name) {
                        names.push(name.to_owned());
                    }
                }
                let contexts = names;
                changes.push(Change::AddContext(ContextChange { layer, channel: None, contexts }));
            }
        }
        Ok(changes)
    }

    /// Returns what ends with the session's process, if anything does: a session with it is not made again after a kill.
    pub fn ends_with_process(&self) -> Option<&'static str> {
        let foreground = self.background.is_none().then_some("no --background");
        foreground.or(self.first_that_ends().map(|(flag, _)| flag))
    }

    fn has_places(&self) -> bool {
        self.probe.iter().any(|text| uprobe::is_within(text))
    }

    /// Returns the first flag that ends with the session's process, and why `--keep` is not possible with it.
    fn first_that_ends(&self) -> Option<(&'static str, &'static str)> {
        let no_other = "another machine's recorder does not wait for a session that was killed. Leave one of them out";
        let all = [
            (
                "a COMMAND",
                !self.command.is_empty(),
                "a session that is made again has no command. Leave it out, and start it by itself: all programs are recorded",
            ),
            (
                "--pid",
                !self.pid.is_empty(),
                "its number may be another process' by then. Leave it out, and choose processes with `strata track`: by name, user or \
                 cgroup",
            ),
            (
                "--probe with an OFFSET or address",
                self.has_places(),
                "its file may be another one when the session is made again. Name a function",
            ),
            ("--guest", !self.guest.is_empty(), no_other),
            ("--relay", self.relay.relay.is_some(), no_other),
        ];
        let first = all.into_iter().find(|(_, is_given, _)| *is_given);
        first.map(|(flag, _, why)| (flag, why))
    }
}

/// Converts a time to milliseconds, rounded up.
fn milliseconds(time: Duration) -> u64 {
    let ms = time.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::flags::{Action, Flags};

    fn plan(words: &[&str]) -> Result<Plan, String> {
        planned(&[&["--keep"], words].concat()).map(|planned| planned.plan)
    }

    fn planned(words: &[&str]) -> Result<Planned, String> {
        let all = [&["strata", "record", "--background", "b"], words].concat();
        let flags = Flags::try_parse_from(all).map_err(|error| error.to_string())?;
        let Action::Record(flags) = flags.action else { return Err("another one".into()) };
        let pids = flags.processes().map_err(|error| error.to_string())?;
        let pids = pids.into_iter().map(|(_, pid)| pid).collect();
        flags.planned(pids).map_err(|error| error.to_string())
    }

    /// Returns each channel's layer and rules.
    fn rules(words: &[&str]) -> Vec<(LayerOf, Vec<String>)> {
        let plan = plan(words).unwrap();
        let of = |events: Vec<strata_session::plan::EventRule>| {
            events.into_iter().map(|event| event.rule).collect()
        };
        plan.channels.into_iter().map(|one| (one.layer, of(one.events))).collect()
    }

    #[test]
    fn what_is_kept_is_what_record_would_record() {
        let user = |rules: &[&str]| {
            (LayerOf::User, rules.iter().map(|&rule| rule.to_owned()).collect::<Vec<_>>())
        };
        let kernel = |rules: &[&str]| (LayerOf::Kernel, user(rules).1);
        assert_eq!(rules(&["-k", "read,!write"]), [kernel(&["read", "!write"])]);
        assert_eq!(rules(&["-u", "a:*,b:c", "-u", "!a:x"]), [user(&["a:*", "b:c", "!a:x"])]);
        assert_eq!(rules(&["--no-kernel"]), [user(&["*:*"])]);
        assert_eq!(rules(&["-u", "!a:*"]), [user(&["*:*", "!a:*"])]);
        let but_read = rules(&["-k", "!read"]);
        assert_eq!(but_read[1], kernel(&["default", "!read"]), "{but_read:?}");
        let both = rules(&["-u", "a:*", "-k", "sched_switch"]);
        assert_eq!(both, [user(&["a:*"]), kernel(&["sched_switch"])]);
        let default = rules(&[]);
        assert_eq!(default[0], user(&["*:*"]));
        assert!(default[1].1.iter().any(|rule| rule == "sched_switch"), "{default:?}");
    }

    #[test]
    fn flags_of_every_kind_reach_the_plan() {
        let asked = plan(&[
            "-k",
            "read",
            "-u",
            "a:*",
            "-f",
            "ret < 0",
            "--kernel-context",
            "pid,procname",
            "--context",
            "ip",
            "--mode=overwrite",
            "--flush=100ms",
            "--subbuf-size=64K",
            "--num-subbuf=4",
            "--kernel-subbuf-size=128K",
            "--max-memory=1G",
            "--rotate-size=1M",
            "--sample=99",
            "-o",
            "/tmp/x",
        ])
        .unwrap();
        assert!(asked.keep && !asked.snapshot && asked.output == Some("/tmp/x".into()));
        assert_eq!((asked.subbuf_size, asked.num_subbuf), (Some(64 << 10), Some(4)));
        assert_eq!((asked.max_memory, asked.rotation.size), (Some(1 << 30), Some(1 << 20)));
        for channel in &asked.channels {
            assert_eq!((channel.mode, channel.flush_ms), (Some(Loss::Overwrite), Some(100)));
            assert_eq!(channel.events[0].filter.as_deref(), Some("ret < 0"));
        }
        let [user, kernel] = &asked.channels[..] else { panic!("{asked:?}") };
        let sizes = [user, kernel].map(|channel| (channel.subbuf_size, channel.num_subbuf));
        assert_eq!(sizes, [(None, None), (Some(128 << 10), None)]);
        assert_eq!(user.contexts, ["ip"]);
        assert_eq!(kernel.contexts[..2], ["pid", "procname"]);
        assert!(kernel.events.iter().any(|event| event.sample == Some(99)));
        let until = planned(&["-k", "read", "--duration=2m", "--max-size=1M"]).unwrap().plan.until;
        assert_eq!((until.duration_ms, until.max_bytes), (Some(120_000), Some(1 << 20)));
        let form = plan(&["-k", "read", "--ctf=2", "--no-vtid", "--lttng-env"]).unwrap();
        assert!(form.ctf2 && form.no_vtid && form.lttng_env);
        let held = plan(&["-k", "read", "--snapshot", "--stack"]).unwrap();
        assert!(held.snapshot && held.stack.is_any() && held.channels[0].mode.is_none());
    }

    #[test]
    fn what_cannot_be_kept_is_refused_by_name() {
        for (words, said) in [
            (&["--", "true"][..], "--keep and a COMMAND"),
            (&["-p", "1"], "strata track"),
            (&["--probe", "usdt:a:b:c"], "--keep and --probe"),
            (&["--hypervisor"], "--keep and --hypervisor"),
            (&["--duration=1s"], "strata destroy"),
            (&["--max-size=1M"], "--keep and --max-size"),
            (&["--probe", "uprobe:c:malloc+4"], "Name a function"),
            (&["-k", "read", "--context", "ip"], "--context"),
        ] {
            let text = plan(words).unwrap_err();
            assert!(text.contains(said), "{words:?}: {text}");
        }
        // Without --keep it is recorded all the same, and not made again after a kill.
        for words in [
            &["--probe", "uprobe:c:malloc+4"][..],
            &["--relay", "tcp:host:1"],
            &["--guest", "web=tcp:host:1"],
            &["-p", "1", "--probe", "uprobe:c:malloc"],
        ] {
            assert!(!planned(words).unwrap().plan.transient.is_none(), "{words:?}");
        }
        assert!(planned(&["--probe", "uprobe:c:malloc"]).unwrap().plan.transient.is_none());
        let alone = Flags::try_parse_from(["strata", "record", "--keep"]).unwrap_err().to_string();
        assert!(alone.contains("--background"), "{alone}");
    }

    #[test]
    fn probes_and_what_programs_do_in_libc_are_of_the_plan() {
        let of = |words: &[&str]| planned(words).unwrap().plan;
        let rules = |plan: &Plan| {
            let events = plan.channels.iter().flat_map(|one| {
                one.events.iter().map(|event| (one.layer, event.rule.clone(), event.probe))
            });
            events.collect::<Vec<_>>()
        };
        let probe = "uprobe:c:malloc(size:u64, b:str)";
        let plan = of(&["--probe", probe, "-k", "read", "-f", "size > 3", "--snapshot"]);
        let wanted = [
            (LayerOf::Kernel, "read".to_owned(), false),
            (LayerOf::Kernel, probe.to_owned(), true),
        ];
        assert_eq!(rules(&plan), wanted);
        assert_eq!(plan.channels[0].events[1].filter.as_deref(), Some("size > 3"));
        let alone = of(&["--probe", probe]);
        assert_eq!(rules(&alone), [(LayerOf::Kernel, probe.to_owned(), true)]);
        let text = planned(&["--probe", "uprobe:./no-such-program:f"]).unwrap_err();
        assert!(text.contains("/no-such-program: No such file"), "{text}");
        let libc = of(&["--libc", "malloc:sum,io", "-u", "*:*"]);
        let wanted = ["*:*", "libc_sum:*", "io:*"].map(str::to_owned);
        let found: Vec<String> = rules(&libc).into_iter().map(|(_, rule, _)| rule).collect();
        assert_eq!(found, wanted);
        // What they leave out, rules that come later do not.
        assert!(libc.channels[0].events.iter().all(|one| one.exclude == ["libc:*", "io_all:*"]));
        let alone = of(&["--libc", "malloc"]);
        assert_eq!(rules(&alone), [(LayerOf::User, "libc:*".to_owned(), false)]);
        let of = of(&["--no-kernel", "--libc", "malloc", "--", "true"]).transient;
        assert_eq!((of.command, of.libc.len()), (vec!["true".into()], 1));
        assert!(!of.kernel_by_default);
        let by_default = |words: &[&str]| planned(words).unwrap().plan.transient.kernel_by_default;
        assert!(by_default(&["--", "true"]) && by_default(&["--sample=99", "--no-kernel"]));
        assert!(!by_default(&["-k", "read"]) && !by_default(&["--sample=99", "-u", "a:*"]));
    }

    #[test]
    fn kernel_that_nobody_asked_for_may_be_missing_and_one_that_is_named_may_not() {
        for (words, may_lack) in [
            (&[][..], true),
            (&["-f", "ret < 0"], true),
            (&["-k", "read"], false),
            (&["--no-kernel"], false),
            (&["-u", "a:*"], false),
            (&["--sample=99"], false),
            (&["--keep"], false),
        ] {
            let planned = planned(words).unwrap();
            assert_eq!(planned.may_lack_kernel, may_lack, "{words:?}");
            let has_kernel = planned.plan.channels.iter().any(|one| one.layer == LayerOf::Kernel);
            // Either there is a channel of it, or it is said why not.
            assert_eq!(planned.no_kernel.is_some(), may_lack && !has_kernel, "{words:?}");
            assert_eq!(planned.plan.keep, words == ["--keep"]);
        }
    }
}
