//! Collects damage and discarded records, which the rows of a query do not show.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use strata_analyze::stats::Stats;
use strata_ctf::read::{Damage, Discarded, DiscardedKind};
use strata_export::sql::Summary;

/// The most damages whose texts are kept.
const DAMAGE_KEPT: usize = 20;
/// The most gaps that are distinguished; the counts of further ones are not added.
const GAPS_KEPT: usize = 1 << 20;

/// Damage and gaps in the packets that queries have read, each counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Texts of the first damages.
    pub damage: Vec<String>,
    /// Number of all damages.
    pub damages: u64,
    /// Number of event records that the tracer discarded.
    pub records: u64,
    /// Number of missing packets, each with an unknown number of records.
    pub packets: u64,
    /// Remarks on parts of the timeline, and of files with names, that were left out because of limits.
    pub left_out: Vec<String>,
}

/// Returns remarks on what the tables of a timeline lack, since there is too much of it in the traces.
fn texts(summary: &Summary) -> Vec<String> {
    let all = [
        (
            summary.threads_left_out,
            "there are more threads than are distinguished: what another one did belongs to no thread",
        ),
        (summary.names_left_out, "there are more names than are kept: a thread or file with another one has no name"),
        (
            summary.counters_left_out,
            "there are more counters than are distinguished: a value of another one is in no row",
        ),
        (
            summary.stacks_left_out,
            "a record had a call stack more than are kept: its 'stack' is NULL",
        ),
    ];
    let all = all.into_iter().filter(|(count, _)| *count > 0);
    all.map(|(count, text)| format!("{count}×, {text}")).collect()
}

#[derive(Debug, Default)]
struct Seen {
    found: Found,
    damage: HashSet<String>,
    /// What counting event records has found, which distinguishes nothing.
    counted: Found,
    /// The gaps that were counted, by stream, number of the packet that reports the gap, and whether that packet
    /// counts records.
    gaps: HashMap<(usize, u64, bool), ()>,
}

/// Collects the findings of several scans, some of which read the same packets.
#[derive(Debug, Default)]
pub(crate) struct Findings(Mutex<Seen>);

impl Findings {
    pub(crate) fn damage(&self, damage: &Damage) {
        if damage.is_note() || damage.is_remark() {
            return;
        }
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = damage.to_string();
        if seen.damage.len() >= GAPS_KEPT || !seen.damage.insert(text.clone()) {
            return;
        }
        seen.found.damages += 1;
        if seen.found.damage.len() < DAMAGE_KEPT {
            seen.found.damage.push(text);
        }
    }

    pub(crate) fn discarded(&self, discarded: &Discarded<'_>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_records = discarded.kind == DiscardedKind::Records;
        let key = (discarded.stream.index(), discarded.packet.number, is_records);
        if seen.gaps.len() >= GAPS_KEPT || seen.gaps.insert(key, ()).is_some() {
            return;
        }
        let count = match is_records {
            true => &mut seen.found.records,
            false => &mut seen.found.packets,
        };
        *count = count.saturating_add(discarded.count);
    }

    /// Adds remarks on what one pass for the timeline has left out.
    pub(crate) fn summary(&self, summary: &Summary) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.found.left_out = texts(summary);
    }

    /// Adds the damage and the losses that counting all event records has found.
    pub(crate) fn counted(&self, stats: &Stats) {
        let mut counted = Found { damages: stats.damage_found, ..Found::default() };
        let texts = stats.damage.iter().take(DAMAGE_KEPT);
        counted.damage = texts.map(|damaged| damaged.message.clone()).collect();
        for trace in &stats.traces {
            counted.records = counted.records.saturating_add(trace.sum.absent_records);
            counted.packets = counted.packets.saturating_add(trace.sum.absent_packets);
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).counted = counted;
    }

    /// Returns all findings so far. What scans and counts have found is the same, of more or fewer packets.
    pub(crate) fn found(&self) -> Found {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (found, counted) = (&seen.found, &seen.counted);
        Found {
            damage: match found.damage.is_empty() {
                true => counted.damage.clone(),
                false => found.damage.clone(),
            },
            damages: found.damages.max(counted.damages),
            records: found.records.max(counted.records),
            packets: found.packets.max(counted.packets),
            left_out: found.left_out.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_timeline_leaves_out_is_reported_with_how_often() {
        let findings = Findings::default();
        findings.summary(&Summary::default());
        assert_eq!(findings.found(), Found::default());
        findings.summary(&Summary {
            threads_left_out: 2,
            stacks_left_out: 3,
            ..Summary::default()
        });
        assert_eq!(
            findings.found().left_out,
            [
                "2×, there are more threads than are distinguished: what another one did belongs to no thread",
                "3×, a record had a call stack more than are kept: its 'stack' is NULL",
            ]
        );
    }
}
