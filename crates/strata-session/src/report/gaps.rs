//! Finds the parts of a request that are missing from the traces, in the same way for a running session and for one
//! that has ended, as data for programs. `--strict` depends on this alone.

use std::cmp::Reverse;

use serde::Serialize;

use crate::report::advice::{advise, Advice};
use crate::report::{
    Counts, FilterReport, FilterSlip, LayerReport, NotReached, Report, RuleReport, StreamLoss,
    TriggerReport, EVERY_TRACEPOINT, KERNEL,
};

/// The most losses and programs that are listed one by one.
const SHOWN_MAX: usize = 200;
/// Reason of a loss at a relay whose space for this host is used up, and the name of the layer under which it is
/// reported.
const RELAY: &str = "relay";
const QUOTA: &str = "quota";
/// The longest text of another program that is kept \[character\].
const TEXT_CHARS: usize = 300;

/// A kind of gap in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gap {
    /// A rule has matched no event.
    Rules,
    /// No selected event has passed a filter or a part of it.
    Filters,
    /// A trigger could not fire: its rule has matched nothing, or nothing can cause its condition.
    Triggers,
    /// A program or an event could not be recorded.
    NotReached,
    /// The beginning of a program was not recorded.
    Late,
    /// Some records were discarded.
    Discarded,
    /// Records were overwritten before they were written to files. Overwriting in a flight recorder is no gap.
    Overwritten,
    /// Records cannot be read or are not credible.
    Damaged,
}

/// The gaps that were found, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FoundGaps {
    pub(crate) rules: bool,
    pub(crate) filters: bool,
    pub(crate) triggers: bool,
    pub(crate) not_reached: bool,
    pub(crate) late: bool,
    pub(crate) discarded: bool,
    pub(crate) overwritten: bool,
    pub(crate) damaged: bool,
}

impl FoundGaps {
    pub(crate) fn gaps(self) -> Vec<Gap> {
        let all = [
            (self.rules, Gap::Rules),
            (self.filters, Gap::Filters),
            (self.triggers, Gap::Triggers),
            (self.not_reached, Gap::NotReached),
            (self.late, Gap::Late),
            (self.discarded, Gap::Discarded),
            (self.overwritten, Gap::Overwritten),
            (self.damaged, Gap::Damaged),
        ];
        all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, gap)| gap).collect()
    }
}

/// A loss: the records of one CPU's streams that were discarded for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuLoss {
    /// The CPU; `None` if it is not known, or if the loss belongs to no CPU.
    pub cpu: Option<u32>,
    /// Why the records were discarded.
    pub reason: &'static str,
    /// Number of event records that were discarded.
    pub records: u64,
    /// Time of the first loss \[ns since 1970\]; `None` if it is not known.
    pub first_ns: Option<i64>,
    /// Time of the last loss \[ns since 1970\]; `None` if it is not known.
    pub last_ns: Option<i64>,
}

/// A channel's losses, and advice on preventing them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelLoss {
    /// The channel's layer.
    pub layer: &'static str,
    /// The channel's name; empty for the only channel of a layer.
    pub channel: String,
    /// Losses by CPU and reason.
    pub discards: Vec<CpuLoss>,
    /// Advice on buffers; `None` if no other sizes would have helped.
    pub advice: Option<Advice>,
}

/// Converts a time of `CLOCK_MONOTONIC` to a time since 1970 \[ns\]. `wall_ns`: see [`Report::wall_ns`].
pub(crate) fn since_1970(ns: u64, wall_ns: i64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX).saturating_add(wall_ns)
}

/// A program that was recorded late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Late {
    pub pid: u32,
    /// Name of the process.
    pub name: String,
    /// Time from the program's start, or from the request, to its attachment \[ns\].
    pub late_ns: u64,
    /// Time of the attachment \[ns since 1970\].
    pub since_ns: i64,
}

/// A program or event that could not be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreached {
    /// Process id; 0 for an event.
    pub pid: u32,
    /// Name of the program or of the event.
    pub name: String,
    /// Why it could not be recorded.
    pub reason: String,
}

/// The verdict on a session that has ended: the parts of what was requested that its traces lack.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The kinds of gaps; empty if nothing is missing.
    pub gaps: Vec<Gap>,
    /// Number of records in the traces.
    pub records: u64,
    /// Number of records that were discarded.
    pub discarded: u64,
    /// Number of records that were overwritten.
    pub overwritten: u64,
    /// Rules that have matched no event.
    pub rules: Vec<String>,
    /// Filters with a part that no event passes; at most 200.
    pub filters: Vec<FilterReport>,
    /// Triggers that could not fire.
    pub triggers: Vec<TriggerReport>,
    /// Programs and events that could not be recorded; at most 200.
    pub not_reached: Vec<Unreached>,
    /// Programs that were attached late; at most 200.
    pub late: Vec<Late>,
    /// Channels that have discarded records.
    pub channels: Vec<ChannelLoss>,
}

/// Returns the losses by CPU and reason, at most `most` entries. The last entry sums up losses that belong to no CPU or
/// are not listed. `wall_ns`: see [`Report::wall_ns`].
pub(crate) fn losses(
    counts: &Counts,
    streams: &[StreamLoss],
    wall_ns: i64,
    most: usize,
) -> Vec<CpuLoss> {
    let wall = |ns: u64| i64::try_from(ns).ok().and_then(|ns| ns.checked_add(wall_ns));
    let of_stream = |one: &StreamLoss| {
        let (cpu, times) = (one.cpu, one.times);
        let some = one.discarded.each().filter(|(_, records)| *records > 0);
        some.map(move |(reason, records)| (reason, records, cpu, times.of(reason)))
            .collect::<Vec<_>>()
    };
    let mut of_streams: Vec<_> = streams.iter().flat_map(of_stream).collect();
    of_streams.sort_by_key(|&(_, records, cpu, _)| (Reverse(records), cpu));
    of_streams.truncate(most);
    let mut rest = counts.discarded;
    let mut all = Vec::new();
    for (reason, records, cpu, times) in of_streams {
        rest.take(reason, records);
        all.push(CpuLoss {
            cpu: Some(cpu),
            reason: reason.name(),
            records,
            first_ns: times.and_then(|(first, _)| wall(first)),
            last_ns: times.and_then(|(_, last)| wall(last)),
        });
    }
    for (reason, records) in rest.each().filter(|(_, records)| *records > 0) {
        let reason = reason.name();
        all.push(CpuLoss { cpu: None, reason, records, first_ns: None, last_ns: None });
    }
    all
}

impl LayerReport {
    /// Returns the layer's losses by stream, summed over all processes.
    #[must_use]
    pub fn losses(&self) -> Vec<StreamLoss> {
        let mut all = Vec::new();
        let losses = self.processes.iter().flat_map(|process| &process.losses);
        losses.for_each(|one| one.add_to(&mut all));
        all
    }

    /// Returns the buffer sizes that would have prevented the layer's losses; `None` if none would have.
    #[must_use]
    pub fn advice(&self) -> Option<Advice> {
        advise(&self.counts(), &self.buffers)
    }
}

/// Returns the beginning of a text from another program.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS).collect()
}

/// The most mistakes that are shown for a filter.
const SLIPS_SHOWN: usize = 3;
/// The most rules that are named for a filter.
const RULES_SHOWN: usize = 16;

impl FilterReport {
    pub(crate) fn cut(&self) -> FilterReport {
        let slip = |one: &FilterSlip| FilterSlip { column: one.column, text: cut(&one.text) };
        FilterReport {
            rules: self.rules.iter().map(|rule| cut(rule)).take(RULES_SHOWN).collect(),
            filter: cut(&self.filter),
            slips: self.slips.iter().map(slip).take(SLIPS_SHOWN).collect(),
            is_never: self.is_never,
        }
    }
}

impl TriggerReport {
    pub(crate) fn cut(&self) -> TriggerReport {
        TriggerReport {
            name: cut(&self.name),
            rule: self.rule.as_deref().map(cut),
            similar: self.similar.iter().map(|name| cut(name)).collect(),
            filter: self.filter.as_ref().map(FilterReport::cut),
            lacks: self.lacks.as_deref().map(cut),
        }
    }
}

impl From<&NotReached> for Unreached {
    fn from(one: &NotReached) -> Unreached {
        Unreached { pid: one.pid, name: cut(&one.name), reason: cut(&one.reason) }
    }
}

impl Report {
    /// Returns the kinds of gaps.
    #[must_use]
    pub fn gaps(&self) -> Vec<Gap> {
        let counts = self.counts();
        let problems = self.kernel.iter().any(|kernel| !kernel.problems.is_empty());
        let is_refused = self.processes().any(|process| process.refused > 0);
        // Unidentified programs may be the reason why the command's programs are missing.
        let is_unsure = self.unseen > 0 && self.applications().next().is_none();
        FoundGaps {
            rules: self.unmatched().next().is_some(),
            filters: self.filters.iter().any(|one| one.is_never),
            triggers: !self.triggers.is_empty(),
            not_reached: !(self.not_reached.is_empty() && self.unpreloaded.is_empty())
                || problems
                || is_refused
                || is_unsure,
            late: self.processes().any(|process| process.late_ns.is_some()),
            discarded: counts.discarded.total() > 0 || self.quota_discarded > 0,
            overwritten: counts.overwritten > 0 && self.snapshots.is_none(),
            damaged: counts.unread_records > 0
                || counts.damaged_packets > 0
                || self.processes().any(|process| process.problem.is_some()),
        }
        .gaps()
    }

    /// Iterates over the user's rules that have matched no event. Default rules are left out.
    pub fn unmatched(&self) -> impl Iterator<Item = &str> {
        // By default, nobody named a tracepoint.
        let by_default = self.has_applications_by_default();
        let user = self.rules.iter().filter(move |rule: &&RuleReport| {
            rule.matched == 0 && rule.rule != EVERY_TRACEPOINT && !by_default
        });
        let kernel = self.kernel.iter().filter(|kernel| !kernel.is_default);
        let kernel = kernel.flat_map(|kernel| &kernel.rules).filter(|rule| rule.matched == 0);
        user.map(|rule| &*rule.rule).chain(kernel.map(|rule| &*rule.rule))
    }

    /// Returns the loss at a relay whose space for this host was used up; `None` if there was none.
    fn quota_loss(&self) -> Option<ChannelLoss> {
        let records = self.quota_discarded;
        let loss = CpuLoss { cpu: None, reason: QUOTA, records, first_ns: None, last_ns: None };
        let (layer, channel) = (RELAY, String::new());
        (records > 0).then(|| ChannelLoss { layer, channel, discards: vec![loss], advice: None })
    }

    /// Returns the verdict, as data for programs.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let counts = self.counts();
        let events = self.kernel.iter().flat_map(|kernel| &kernel.problems).map(|one| Unreached {
            pid: 0,
            name: cut(&one.event),
            reason: cut(&one.reason),
        });
        let late = self.processes().filter_map(|process| {
            let late_ns = process.late_ns?;
            let since_ns = since_1970(process.reached_ns, self.wall_ns);
            Some(Late { pid: process.pid, name: cut(&process.name), late_ns, since_ns })
        });
        let lossy = self.layers.iter().filter(|layer| layer.counts().discarded.total() > 0);
        Verdict {
            gaps: self.gaps(),
            records: counts.records,
            discarded: counts.discarded.total().saturating_add(self.quota_discarded),
            overwritten: counts.overwritten,
            rules: self.unmatched().map(cut).take(SHOWN_MAX).collect(),
            filters: self.filters.iter().map(FilterReport::cut).take(SHOWN_MAX).collect(),
            triggers: self.triggers.iter().map(TriggerReport::cut).take(SHOWN_MAX).collect(),
            not_reached: self
                .not_reached
                .iter()
                .chain(&self.unpreloaded)
                .map(Unreached::from)
                .chain(events)
                .take(SHOWN_MAX)
                .collect(),
            late: late.take(SHOWN_MAX).collect(),
            channels: lossy
                .map(|layer| ChannelLoss {
                    layer: layer.layer,
                    channel: layer.channel.clone(),
                    discards: losses(&layer.counts(), &layer.losses(), self.wall_ns, SHOWN_MAX),
                    advice: layer.advice(),
                })
                .chain(self.quota_loss())
                .collect(),
        }
    }

    /// Iterates over the reports of the kernel's channels.
    pub fn kernel_layers(&self) -> impl Iterator<Item = &LayerReport> {
        self.layers.iter().filter(|layer| layer.layer == KERNEL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Discarded, KernelReport, KernelRuleReport, ProcessReport, USER};

    fn report() -> Report {
        let process = ProcessReport {
            pid: 7,
            counts: Counts { records: 10, ..Counts::default() },
            ..ProcessReport::default()
        };
        let layer = LayerReport { layer: USER, processes: vec![process], ..LayerReport::default() };
        let rules = vec![RuleReport { rule: "a:*".into(), matched: 1, similar: Vec::new() }];
        Report { layers: vec![layer], rules, ..Report::default() }
    }

    #[test]
    fn each_gap_is_found_alone_and_a_complete_recording_has_none() {
        assert_eq!(report().gaps(), []);
        let changed = |change: fn(&mut Report)| {
            let mut report = report();
            change(&mut report);
            report.gaps()
        };
        assert_eq!(changed(|one| one.rules[0].matched = 0), [Gap::Rules]);
        // They may be why there is nothing; where there is something of a program, they may be anybody's.
        assert_eq!(changed(|one| one.unseen = 1), []);
        let nothing = |one: &mut Report| (one.unseen, one.layers[0].processes) = (1, Vec::new());
        assert_eq!(changed(nothing), [Gap::NotReached]);
        assert_eq!(
            changed(|one| one.not_reached.push(NotReached {
                pid: 1,
                name: "n".into(),
                reason: "r".into()
            })),
            [Gap::NotReached]
        );
        assert_eq!(changed(|one| one.layers[0].processes[0].refused = 1), [Gap::NotReached]);
        assert_eq!(changed(|one| one.quota_discarded = 1), [Gap::Discarded]);
        assert_eq!(changed(|one| one.layers[0].processes[0].late_ns = Some(1)), [Gap::Late]);
        assert_eq!(
            changed(|one| one.layers[0].processes[0].counts.discarded.full = 1),
            [Gap::Discarded]
        );
        assert_eq!(
            changed(|one| one.layers[0].processes[0].counts.overwritten = 1),
            [Gap::Overwritten]
        );
        // That is what a flight recorder is for.
        let held = |one: &mut Report| {
            one.layers[0].processes[0].counts.overwritten = 1;
            one.snapshots = Some(0);
        };
        assert_eq!(changed(held), []);
        let of_part = |one: &mut Report| one.filters.push(FilterReport::default());
        assert_eq!(changed(of_part), []);
        let never = FilterReport { is_never: true, ..FilterReport::default() };
        assert_eq!(Report { filters: vec![never], ..report() }.gaps(), [Gap::Filters]);
        assert_eq!(changed(|one| one.triggers.push(TriggerReport::default())), [Gap::Triggers]);
        assert_eq!(
            changed(|one| one.layers[0].processes[0].counts.unread_records = 1),
            [Gap::Damaged]
        );
        assert_eq!(
            changed(|one| one.layers[0].processes[0].problem = Some("p".into())),
            [Gap::Damaged]
        );
        let mut of_all = report();
        (of_all.rules[0].rule, of_all.rules[0].matched) = (EVERY_TRACEPOINT.to_owned(), 0);
        assert_eq!(of_all.gaps(), []);
        let rule = KernelRuleReport { rule: "sched_x".into(), ..KernelRuleReport::default() };
        let kernel = KernelReport { rules: vec![rule], ..KernelReport::default() };
        let mut of_kernel = Report { kernel: Some(kernel.clone()), ..report() };
        assert_eq!(of_kernel.gaps(), [Gap::Rules]);
        assert_eq!(of_kernel.unmatched().collect::<Vec<_>>(), ["sched_x"]);
        // Nobody has named these.
        of_kernel.kernel = Some(KernelReport { is_default: true, ..kernel });
        of_kernel.rules[0].matched = 0;
        assert_eq!(of_kernel.gaps(), []);
    }

    #[test]
    fn verdict_has_losses_by_cpu_and_reason_with_times_and_the_sizes_that_help() {
        let mut report = Report { wall_ns: 1000, ..report() };
        let layer = &mut report.layers[0];
        layer.channel = "big".into();
        (layer.buffers.subbuf_bytes, layer.buffers.nr_subbufs) = (4096, 2);
        let discarded = Discarded { full: 3, unmapped: 2, ..Discarded::default() };
        let on_cpu = Discarded { full: 3, ..Discarded::default() };
        let mut one = StreamLoss { cpu: 5, discarded: on_cpu, ..StreamLoss::default() };
        one.times.grow(&Discarded::default(), &on_cpu, (20, 30));
        layer.processes[0].counts.discarded = discarded;
        layer.processes[0].losses = vec![one];
        let verdict = serde_json::to_value(report.verdict()).unwrap();
        assert_eq!(verdict["gaps"], serde_json::json!(["discarded"]));
        let channel = &verdict["channels"][0];
        assert_eq!(channel["channel"], "big");
        assert_eq!(
            channel["discards"],
            serde_json::json!([
                { "cpu": 5, "reason": "full", "records": 3, "first_ns": 1020, "last_ns": 1030 },
                { "cpu": null, "reason": "buffers not mapped", "records": 2, "first_ns": null, "last_ns": null },
            ])
        );
        assert_eq!(
            (&channel["advice"]["subbuf_size"], &channel["advice"]["num_subbuf"]),
            (&8192.into(), &2.into())
        );
        // What is not shown by its CPU is there all the same.
        let few = losses(&report.counts(), &report.layers[0].losses(), 0, 0);
        assert_eq!(
            few.iter().map(|one| (one.cpu, one.records)).collect::<Vec<_>>(),
            [(None, 3), (None, 2)]
        );
    }

    #[test]
    fn losses_of_one_cpu_are_one_of_all_processes_and_those_not_shown_are_of_no_cpu() {
        let loss = |cpu, full| {
            let discarded = Discarded { full, ..Discarded::default() };
            let mut one = StreamLoss { cpu, discarded, ..StreamLoss::default() };
            one.times.grow(&Discarded::default(), &discarded, (full, full + 1));
            one
        };
        let process = |losses: Vec<StreamLoss>| {
            let mut counts = Counts::default();
            losses.iter().for_each(|one| counts.discarded.add(&one.discarded));
            ProcessReport { counts, losses, ..ProcessReport::default() }
        };
        let processes = vec![process(vec![loss(1, 5), loss(3, 9)]), process(vec![loss(1, 6)])];
        let layer = LayerReport { layer: USER, processes, ..LayerReport::default() };
        let found = losses(&layer.counts(), &layer.losses(), i64::MAX, 1);
        let found: Vec<_> = found.iter().map(|one| (one.cpu, one.records, one.first_ns)).collect();
        // A time beyond what there is is not known.
        assert_eq!(found, [(Some(1), 11, None), (None, 9, None)]);
        let times = losses(&layer.counts(), &layer.losses(), 0, 9);
        let times: Vec<_> = times.iter().map(|one| (one.first_ns, one.last_ns)).collect();
        assert_eq!(times, [(Some(5), Some(7)), (Some(9), Some(10))]);
    }

    #[test]
    fn malicious_texts_and_numbers_of_a_verdict_are_cut() {
        let long = "\u{e9}".repeat(1000);
        let mut report = report();
        report.rules =
            vec![RuleReport { rule: long.clone(), matched: 0, similar: Vec::new() }; 300];
        let filter = FilterReport {
            rules: vec![long.clone(); 20],
            filter: long.clone(),
            slips: vec![FilterSlip { column: 1, text: long.clone() }; 9],
            is_never: false,
        };
        let (rule, name, similar) = (Some(long.clone()), long.clone(), vec![long.clone()]);
        report.filters = vec![filter.clone(); 300];
        let filter = Some(filter);
        report.triggers = vec![TriggerReport { name, rule, similar, filter, lacks: None }];
        let one = NotReached { pid: 1, name: long.clone(), reason: long.clone() };
        report.not_reached = vec![one; 150];
        let problem = crate::report::EventProblem { event: long.clone(), reason: long.clone() };
        let problems = vec![problem; 150];
        report.kernel = Some(KernelReport { problems, ..KernelReport::default() });
        let late = ProcessReport {
            late_ns: Some(1),
            reached_ns: 7,
            name: long,
            ..ProcessReport::default()
        };
        report.wall_ns = 1000;
        report.layers[0].processes = vec![late; 300];
        let verdict = report.verdict();
        assert_eq!(verdict.gaps, [Gap::Rules, Gap::Triggers, Gap::NotReached, Gap::Late]);
        assert_eq!(
            (verdict.rules.len(), verdict.not_reached.len(), verdict.late.len()),
            (SHOWN_MAX, SHOWN_MAX, SHOWN_MAX)
        );
        assert_eq!((verdict.late[0].late_ns, verdict.late[0].since_ns), (1, 1007));
        let (first, last) = (&verdict.not_reached[0], &verdict.not_reached[SHOWN_MAX - 1]);
        assert_eq!((first.pid, last.pid), (1, 0));
        let (filter, trigger) = (&verdict.filters[0], &verdict.triggers[0]);
        assert_eq!((filter.rules.len(), filter.slips.len()), (RULES_SHOWN, SLIPS_SHOWN));
        let of_trigger = trigger.filter.as_ref().unwrap();
        let texts = [&filter.rules[0], &filter.filter, &filter.slips[0].text, &of_trigger.filter];
        assert!(texts.iter().all(|text| text.chars().count() == TEXT_CHARS), "{texts:?}");
        let texts = [&first.name, &last.reason, &verdict.rules[0], &verdict.late[0].name];
        assert!(texts.iter().all(|text| text.chars().count() == TEXT_CHARS), "{texts:?}");
    }

    #[test]
    fn two_channels_of_the_kernel_are_one_report() {
        let rule =
            |rule: &str| KernelRuleReport { rule: rule.into(), ..KernelRuleReport::default() };
        let one = KernelReport {
            is_default: true,
            rules: vec![rule("a")],
            unreadable: u64::MAX,
            uncounted: 4,
            cut: 2,
            ..KernelReport::default()
        };
        let other = KernelReport {
            rules: vec![rule("b")],
            is_filtered: true,
            unreadable: 1,
            uncounted: 2,
            cut: 3,
            ..KernelReport::default()
        };
        assert_eq!(KernelReport::both(None, None), None);
        for (left, right) in [(Some(one.clone()), None), (None, Some(one.clone()))] {
            assert_eq!(KernelReport::both(left, right), Some(one.clone()));
        }
        let both = KernelReport::both(Some(one), Some(other)).unwrap();
        let rules: Vec<_> = both.rules.iter().map(|rule| rule.rule.as_str()).collect();
        assert_eq!((rules, both.is_default, both.is_filtered), (vec!["a", "b"], false, true));
        assert_eq!((both.unreadable, both.uncounted, both.cut), (u64::MAX, 6, 5));
    }
}
