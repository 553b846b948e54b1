//! Metrics of a relay for monitors, and whether the relay is healthy.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::shared_state::{Host, Registry, Shared};
use super::{Relayd, FAILED, FREE_MIN};
use crate::monitor::prometheus::{MetricKind, MetricsText};

/// Longest duration of a sync that is no problem.
const SYNC_MAX: Duration = Duration::from_secs(60);

impl Relayd {
    /// Returns the metrics in the format of Prometheus.
    #[must_use]
    pub fn metrics(&self) -> String {
        use MetricKind::{Counter, Gauge};
        let mut text = MetricsText::default();
        let shared = &self.shared;
        let of = |number: u64| number as f64;
        let connections = shared.connections.load(Ordering::Relaxed);
        text.single("strata_relay_connections", Gauge, "Connections now.", of(connections));
        text.single(
            "strata_relay_connections_max",
            Gauge,
            "Connections that are accepted at most.",
            of(shared.limits.connections),
        );
        let refused = shared.refused.load(Ordering::Relaxed);
        text.single("strata_relay_refused_total", Counter, "Connections refused.", of(refused));
        let (free, waiting) = shared.memory.look();
        text.single(
            "strata_relay_memory_free_bytes",
            Gauge,
            "Memory for large messages that nobody uses.",
            of(free),
        );
        text.single(
            "strata_relay_memory_waiting",
            Gauge,
            "Connections that wait for memory.",
            of(waiting as u64),
        );
        if let Some(sync) = self.sync_figures() {
            text.single("strata_relay_syncs_total", Counter, "Calls of syncfs().", of(sync.calls));
            text.single(
                "strata_relay_sync_seconds_total",
                Counter,
                "Time that syncfs() took.",
                sync.took.as_secs_f64(),
            );
            text.single(
                "strata_relay_sync_seconds_max",
                Gauge,
                "Longest time that syncfs() took.",
                sync.longest.as_secs_f64(),
            );
        }
        if let Some(free) = free_bytes(shared) {
            text.single(
                "strata_relay_disk_free_bytes",
                Gauge,
                "Free space where traces are written.",
                of(free),
            );
        }
        let kept = *shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, kind, help, value) in [
            (
                "strata_relay_parts_waiting",
                Gauge,
                "Recordings that --on-part has not taken.",
                kept.waiting,
            ),
            (
                "strata_relay_parts_delivered_total",
                Counter,
                "Recordings that --on-part has taken.",
                kept.delivered,
            ),
            (
                "strata_relay_parts_failed_total",
                Counter,
                "Attempts of --on-part that failed.",
                kept.failed,
            ),
            (
                "strata_relay_removed_total",
                Counter,
                "Recordings removed by age or size.",
                kept.removed,
            ),
            (
                "strata_relay_removed_bytes_total",
                Counter,
                "Bytes removed by age or size.",
                kept.removed_bytes,
            ),
        ] {
            text.single(name, kind, help, of(value));
        }
        type Figure = (&'static str, MetricKind, &'static str, fn(&Host) -> Option<f64>);
        let families: [Figure; 8] = [
            (
                "strata_relay_host_recorders",
                Gauge,
                "Recorders of the host that are connected.",
                |host| Some(host.connections as f64),
            ),
            ("strata_relay_host_bytes", Gauge, "Bytes of the host's recordings.", |host| {
                Some(host.bytes as f64)
            }),
            (
                "strata_relay_host_written_bytes_total",
                Counter,
                "Bytes written for the host.",
                |host| Some(host.written as f64),
            ),
            (
                "strata_relay_host_messages_total",
                Counter,
                "Messages taken from the host.",
                |host| Some(host.messages as f64),
            ),
            (
                "strata_relay_host_discarded_total",
                Counter,
                "Event records that the host's recorders have discarded, as packets say.",
                |host| Some(host.discarded as f64),
            ),
            (
                "strata_relay_host_quota_discarded_total",
                Counter,
                "Event records left out, since the host has as many bytes as it may have.",
                |host| Some(host.left_out as f64),
            ),
            ("strata_relay_host_silent_seconds", Gauge, "Time since a message came.", |host| {
                Some(host.heard?.elapsed().as_secs_f64())
            }),
            (
                "strata_relay_host_breaks_total",
                Counter,
                "Connections that ended before their recording did.",
                |host| Some(host.breaks as f64),
            ),
        ];
        let registry = shared.registry();
        for (name, kind, help, figure) in families {
            text.family(name, kind, help);
            for (host, about) in &registry.hosts {
                if let Some(value) = figure(about) {
                    text.sample(name, &[("host", host)], value);
                }
            }
        }
        let lag = "strata_relay_host_unacknowledged_seconds";
        text.family(lag, Gauge, "Age of the oldest message that is not acknowledged.");
        let waits = lags(&registry, Instant::now());
        for host in registry.hosts.keys() {
            let wait = waits.get(host.as_str()).copied().unwrap_or_default();
            text.sample(lag, &[("host", host)], wait.as_secs_f64());
        }
        drop(registry);
        text.single(
            "strata_relay_host_bytes_max",
            Gauge,
            "Bytes that the recordings of one host may have.",
            of(shared.limits.host_bytes),
        );
        text.finish()
    }

    /// Checks that the relay is able to take recordings.
    ///
    /// # Errors
    /// Why it does not.
    pub fn health(&self) -> Result<(), String> {
        if self.shared.is_stopping.load(Ordering::Acquire) {
            return Err("it is being stopped".to_owned());
        }
        let connections = self.shared.connections.load(Ordering::Relaxed);
        if connections >= self.shared.limits.connections {
            return Err(format!("there are {connections} connections, as many as there may be"));
        }
        if let Some(free) = free_bytes(&self.shared).filter(|free| *free < FREE_MIN) {
            let path = self.shared.root.path().display();
            return Err(format!(
                "{path}: {free} bytes of its file system are free, fewer than {FREE_MIN}"
            ));
        }
        let failed = self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, why)) = failed.as_ref().filter(|(when, _)| when.elapsed() < FAILED) {
            return Err(why.clone());
        }
        drop(failed);
        let Some(durable) = &self.shared.durable else { return Ok(()) };
        match durable.trouble(SYNC_MAX) {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }
}

/// Returns the free space of the relay's file system \[byte\].
fn free_bytes(shared: &Shared) -> Option<u64> {
    let disk = rustix::fs::fstatvfs(&shared.root).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Returns for each host the age of the oldest message that is not acknowledged.
pub(super) fn lags(registry: &Registry, now: Instant) -> HashMap<&str, Duration> {
    let mut lags: HashMap<&str, Duration> = HashMap::new();
    for ((host, _), recorder) in &registry.recorders {
        let Some(since) = recorder.waiting_since else { continue };
        let lag = lags.entry(host).or_default();
        *lag = (*lag).max(now.saturating_duration_since(since));
    }
    lags
}
