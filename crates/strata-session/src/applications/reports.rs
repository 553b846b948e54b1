//! The reports of processes that have ended. They are kept one by one up to a limit, and the rest is summed up, so that
//! any number of processes can come and go in one recording.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::report::{ProcessReport, Summed};

/// The most processes without problems that are reported one by one.
const PLAIN_MAX: usize = 10_000;

/// The most processes with problems that are reported one by one. They have a limit of their own, so that they do not
/// displace others.
const TROUBLED_MAX: usize = 1_000;

/// The reports on all processes so far.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    told: Vec<ProcessReport>,
    plain: usize,
    troubled: usize,
    /// Memories of processes that have several reports.
    parts: HashSet<u64>,
    /// The report on processes that are not reported one by one.
    rest: Option<RestOfProcesses>,
}

/// The sum over processes that are not reported one by one.
#[derive(Debug, Default)]
struct RestOfProcesses {
    sum: ProcessReport,
    summed: Summed,
    /// Memories of processes of which a first part was counted and the last part was not.
    parts: HashSet<u64>,
    problems: u64,
    warned: u64,
}

impl Reports {
    /// Adds the report of a process that has ended.
    pub(crate) fn add(&mut self, report: ProcessReport) {
        let troubled = report.problem.is_some()
            || !report.warnings.is_empty()
            || report.refused > 0
            || report.late_ns.is_some();
        let (number, most) = match troubled {
            true => (&mut self.troubled, TROUBLED_MAX),
            false => (&mut self.plain, PLAIN_MAX),
        };
        if *number < most || self.parts.contains(&report.memory) {
            *number += 1;
            match report.is_part {
                true => self.parts.insert(report.memory),
                false => self.parts.remove(&report.memory),
            };
            self.told.push(report);
        } else {
            self.rest.get_or_insert_default().add(&report);
        }
    }

    /// Adds the report of a process that is still recorded at the end. Such a report is always kept separately, since
    /// their number is limited by the processes that can be recorded at once.
    pub(crate) fn add_last(&mut self, report: ProcessReport) {
        self.told.push(report);
    }

    /// Returns all reports. The last one is the sum of the rest.
    pub(crate) fn into_all(mut self) -> Vec<ProcessReport> {
        self.told.extend(self.rest.map(RestOfProcesses::into_report));
        self.told
    }
}

impl RestOfProcesses {
    fn add(&mut self, report: &ProcessReport) {
        let sum = &mut self.sum;
        sum.counts.add(&report.counts);
        sum.objects = sum.objects.saturating_add(report.objects);
        sum.tracepoints = sum.tracepoints.saturating_add(report.tracepoints);
        sum.selected = sum.selected.saturating_add(report.selected);
        sum.refused = sum.refused.saturating_add(report.refused);
        sum.unmarked = sum.unmarked.saturating_add(report.unmarked);
        self.summed.processes += u64::from(!report.is_part);
        if report.is_part {
            if report.folder.is_some() {
                self.parts.insert(report.memory);
            }
        } else if self.parts.remove(&report.memory) || report.folder.is_some() {
            self.summed.in_trace += 1;
        }
        report.losses.iter().for_each(|one| one.add_to(&mut sum.losses));
        if report.late_ns > sum.late_ns {
            (sum.late_ns, sum.reached_ns) = (report.late_ns, report.reached_ns);
        }
        if let Some(folder) = &report.folder {
            // This is the folder of all processes of the layer.
            let layer = || folder.parent().map_or_else(PathBuf::new, PathBuf::from);
            sum.folder.get_or_insert_with(layer);
        }
        self.problems += u64::from(report.problem.is_some());
        self.warned += u64::from(!report.warnings.is_empty());
    }

    fn into_report(self) -> ProcessReport {
        let RestOfProcesses { mut sum, summed, problems, warned, .. } = self;
        sum.name = format!("{} further processes", summed.processes);
        let first =
            format!("The reasons of the first {TROUBLED_MAX} processes are listed one by one");
        if problems > 0 {
            sum.problem =
                Some(format!("{problems} of them were not recorded to their end. {first}"));
        }
        if warned > 0 {
            sum.warnings.push(format!("something is to be said of {warned} of them. {first}"));
        }
        sum.summed = Some(summed);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{nr_in_trace, nr_processes, Counts};

    fn report(pid: u32) -> ProcessReport {
        ProcessReport {
            pid,
            folder: Some(PathBuf::from(format!("t/user/x-{pid}"))),
            tracepoints: 3,
            selected: 2,
            counts: Counts { records: 5, ..Counts::default() },
            ..ProcessReport::default()
        }
    }

    #[test]
    fn reports_of_a_hundred_thousand_processes_are_reported_or_summed_up() {
        let mut reports = Reports::default();
        for pid in 1..=100_000 {
            reports.add(report(pid));
        }
        reports.add_last(ProcessReport { is_alive: true, ..report(7) });
        let all = reports.into_all();
        assert_eq!(all.len(), PLAIN_MAX + 2);
        let (last, rest) = (&all[PLAIN_MAX], &all[PLAIN_MAX + 1]);
        assert!(last.is_alive);
        assert_eq!(rest.name, "90000 further processes");
        assert_eq!(rest.summed, Some(Summed { processes: 90_000, in_trace: 90_000 }));
        assert_eq!((rest.tracepoints, rest.selected), (270_000, 180_000));
        assert_eq!(rest.folder.as_deref(), Some(std::path::Path::new("t/user")));
        let records: u64 = all.iter().map(|one| one.counts.records).sum();
        let processes = nr_processes(&all);
        assert_eq!((records, processes), (500_005, 100_001));
        assert_eq!((&rest.problem, rest.warnings.len()), (&None, 0));
    }

    #[test]
    fn reports_of_many_damaged_processes_do_not_hide_others_and_are_counted() {
        let mut reports = Reports::default();
        for pid in 1..=3000 {
            reports.add(ProcessReport {
                problem: Some("damaged".into()),
                warnings: vec!["w".into(); (pid % 2) as usize],
                folder: None,
                ..report(pid)
            });
        }
        reports.add(report(9999));
        let all = reports.into_all();
        assert_eq!(all.len(), TROUBLED_MAX + 2);
        assert_eq!(all[TROUBLED_MAX].pid, 9999);
        let rest = &all[TROUBLED_MAX + 1];
        assert_eq!(rest.summed, Some(Summed { processes: 2000, in_trace: 0 }));
        assert!(rest.problem.as_ref().unwrap().starts_with("2000 of them"), "{rest:?}");
        assert!(rest.warnings[0].contains("of 1000 of them"), "{rest:?}");
        assert_eq!(rest.folder, None);
    }

    #[test]
    fn process_with_anything_wrong_is_reported_beyond_those_with_nothing_wrong() {
        let troubles: [fn(&mut ProcessReport); 3] = [
            |report| report.problem = Some("x".into()),
            |report| report.warnings.push("x".into()),
            |report| report.refused = 1,
        ];
        let mut reports = Reports::default();
        (0..PLAIN_MAX as u32 + 5).for_each(|pid| reports.add(report(pid)));
        for (number, trouble) in troubles.into_iter().enumerate() {
            let mut one = report(1_000_000 + number as u32);
            trouble(&mut one);
            reports.add(one);
        }
        let all = reports.into_all();
        let told: Vec<u32> =
            all.iter().map(|one| one.pid).filter(|&pid| pid >= 1_000_000).collect();
        assert_eq!(told, [1_000_000, 1_000_001, 1_000_002]);
        assert_eq!(all.last().unwrap().summed, Some(Summed { processes: 5, in_trace: 5 }));
    }

    #[test]
    fn malicious_figures_of_processes_that_are_summed_up_stop_at_the_largest() {
        let mut reports = Reports::default();
        (0..PLAIN_MAX as u32).for_each(|pid| reports.add(report(pid)));
        for folder in [None, Some(PathBuf::from("t/user/first-1")), Some(PathBuf::from("/"))] {
            reports.add(ProcessReport {
                folder,
                tracepoints: u64::MAX,
                selected: u64::MAX,
                unmarked: u64::MAX,
                counts: Counts { records: u64::MAX, ..Counts::default() },
                ..report(1)
            });
        }
        let rest = reports.into_all().pop().unwrap();
        assert_eq!(
            (rest.tracepoints, rest.selected, rest.unmarked),
            (u64::MAX, u64::MAX, u64::MAX)
        );
        assert_eq!((rest.counts.records, rest.refused), (u64::MAX, 0));
        // The layer's folder: that of the first that has one.
        assert_eq!(rest.folder.as_deref(), Some(std::path::Path::new("t/user")));
        assert_eq!((nr_processes([&rest]), nr_in_trace([&rest])), (3, 2));
        assert_eq!((nr_processes([&report(1)]), nr_in_trace([&report(1)])), (1, 1));
        assert_eq!(nr_in_trace([&ProcessReport { folder: None, ..report(1) }]), 0);
    }

    #[test]
    fn parts_of_a_process_are_one_process_among_those_reported_and_among_the_rest() {
        let part = |memory, is_part| ProcessReport { memory, is_part, ..report(1) };
        let mut reports = Reports::default();
        (1..PLAIN_MAX as u64).for_each(|memory| reports.add(part(memory, false)));
        // The last one that is told: so are all parts of it.
        reports.add(part(1_000_000, true));
        reports.add(part(1_000_000, true));
        // Of the rest, one with three parts, of which the last one is not in the trace.
        reports.add(part(2_000_000, true));
        reports.add(part(2_000_000, true));
        reports.add(ProcessReport { folder: None, ..part(2_000_000, false) });
        reports.add(part(1_000_000, false));
        let all = reports.into_all();
        let expected = PLAIN_MAX as u64 + 1;
        assert_eq!((nr_processes(&all), nr_in_trace(&all)), (expected, expected));
        assert_eq!(all.last().unwrap().summed, Some(Summed { processes: 1, in_trace: 1 }));
    }
}
