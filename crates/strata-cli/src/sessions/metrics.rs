//! Metrics of sessions in the format of Prometheus for `strata status --metrics`, printed once or served by HTTP.

use std::net::ToSocketAddrs as _;

use anyhow::{Context as _, Result};
use serde_json::Value;
use strata_remote::{MetricKind, MetricsText, Page, PageServer, METRICS_CONTENT_TYPE};
use strata_session::stop::Stop;

use crate::sessions::status_fields::{number, objects, text, Facts};
use crate::sessions::{service, statuses};
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stdout;

/// Prints the metrics, or serves them at `address` until a signal ends this program.
pub fn run(name: Option<&str>, address: &str) -> Result<u8> {
    if address.is_empty() {
        stdout::text("status", &metrics(&statuses(name)?))?;
        return Ok(0);
    }
    let at = || format!("--metrics={address}");
    let found = address.to_socket_addrs().with_context(at)?.next().with_context(at)?;
    let pages = PageServer::listen(found).with_context(at)?;
    let stop = Stop::on_signals()?;
    let address = pages.address().with_context(at)?;
    // To ask a session, being its user is enough.
    strata_session::give_up_rights();
    let said = format!("metrics and health at http://{address}/metrics and /health; Ctrl-C stops");
    stderr::message(&Message { weight: Weight::Talk, text: said });
    service::is_ready();
    let page = |path: &str| answer(path, statuses(name).ok());
    pages.serve(&page, &|| stop.requests() > 0);
    Ok(0)
}

fn answer(path: &str, sessions: Option<Vec<Facts>>) -> Option<Page> {
    let plain =
        |status, body: &str| Page { status, content_type: "text/plain", body: body.to_owned() };
    match (path, sessions) {
        ("/metrics", Some(all)) => {
            Some(Page { status: 200, content_type: METRICS_CONTENT_TYPE, body: metrics(&all) })
        }
        ("/health", Some(all)) => {
            let is_bad = |one: &&Facts| {
                ["killed", "silent"].contains(&text(one, "state"))
                    || one.get("no_room").is_some_and(Value::is_object)
            };
            Some(match all.iter().find(is_bad) {
                None => plain(200, "all sessions record what they should\n"),
                Some(one) => {
                    plain(503, &format!("session '{}' does not record\n", text(one, "name")))
                }
            })
        }
        ("/metrics" | "/health", None) => Some(plain(503, "the sessions cannot be asked\n")),
        _ => None,
    }
}

/// Formats the status of sessions as metrics.
fn metrics(sessions: &[Facts]) -> String {
    use MetricKind::{Counter, Gauge};
    let mut out = MetricsText::default();
    out.single("strata_sessions", Gauge, "Sessions of this user.", sessions.len() as f64);
    out.family("strata_session_recording", Gauge, "1 if the session records.");
    for one in sessions {
        let records = f64::from(u8::from(text(one, "state") == "recording"));
        out.sample("strata_session_recording", &[("session", text(one, "name"))], records);
    }
    for (name, key, kind, help) in [
        ("strata_session_records_total", "records", Counter, "Event records so far."),
        ("strata_session_bytes_total", "bytes", Counter, "Bytes of the trace so far."),
        (
            "strata_session_overwritten_total",
            "overwritten",
            Counter,
            "Event records overwritten before they were read.",
        ),
        ("strata_session_processes", "processes", Gauge, "Programs that are recorded now."),
        ("strata_session_memory_bytes", "memory", Gauge, "Memory of the buffers."),
        ("strata_session_snapshots_total", "snapshots", Counter, "Snapshots that were written."),
        (
            "strata_session_programs_not_reached",
            "nr_not_reached",
            Gauge,
            "Programs that were not reached.",
        ),
    ] {
        out.family(name, kind, help);
        for one in sessions {
            if let Some(value) = one.get(key).and_then(Value::as_f64) {
                out.sample(name, &[("session", text(one, "name"))], value);
            }
        }
    }
    discards(&mut out, sessions);
    out.family(
        "strata_channel_fill_ratio",
        Gauge,
        "Fill of the fullest buffer before it was last read.",
    );
    for (one, channel) in channels(sessions) {
        if let Some(fill) = channel.get("fill").and_then(Value::as_f64) {
            let labels = labels(one, channel);
            out.sample("strata_channel_fill_ratio", &labels, fill / 100.0);
        }
    }
    for (name, key, help) in [
        (
            "strata_session_relay_waiting_bytes",
            "waiting_bytes",
            "Bytes that the relay has not acknowledged.",
        ),
        (
            "strata_session_relay_spooled_bytes",
            "spooled_bytes",
            "How much of that is in the spool on the disk.",
        ),
        (
            "strata_session_relay_quota_discarded_total",
            "quota_discarded",
            "Event records that the relay has discarded for want of room for this host.",
        ),
        ("strata_session_relay_breaks_total", "breaks", "Connections to the relay that broke."),
        (
            "strata_session_relay_away_seconds_total",
            "away_seconds",
            "Time without a connection to the relay.",
        ),
    ] {
        let kind = if name.ends_with("_total") { Counter } else { Gauge };
        out.family(name, kind, help);
        for one in sessions {
            let to = one.get("to").and_then(Value::as_object);
            if let Some(value) = to.and_then(|to| to.get(key)?.as_f64()) {
                out.sample(name, &[("session", text(one, "name"))], value);
            }
        }
    }
    out.family(
        "strata_session_relay_connected",
        Gauge,
        "1 if the session is connected to its relay.",
    );
    for one in sessions {
        let to = one.get("to").and_then(Value::as_object);
        if let Some(is_connected) = to.and_then(|to| to.get("is_connected")?.as_bool()) {
            let value = f64::from(u8::from(is_connected));
            out.sample("strata_session_relay_connected", &[("session", text(one, "name"))], value);
        }
    }
    out.finish()
}

/// Adds discarded records by reason; those without a reason in any channel have the reason `unknown`.
fn discards(out: &mut MetricsText, sessions: &[Facts]) {
    let name = "strata_session_discarded_total";
    out.family(name, MetricKind::Counter, "Event records that were discarded, by reason.");
    for one in sessions {
        let mut by_reason = std::collections::BTreeMap::<&str, u64>::new();
        for channel in objects(one, "channels") {
            for loss in objects(channel, "discards") {
                *by_reason.entry(text(loss, "reason")).or_default() += number(loss, "records");
            }
        }
        let known: u64 = by_reason.values().sum();
        let unknown = number(one, "discarded").saturating_sub(known);
        by_reason.insert("unknown", unknown);
        for (reason, records) in by_reason {
            out.sample(name, &[("session", text(one, "name")), ("reason", reason)], records as f64);
        }
    }
}

fn channels(sessions: &[Facts]) -> impl Iterator<Item = (&Facts, &Facts)> {
    sessions.iter().flat_map(|one| objects(one, "channels").map(move |channel| (one, channel)))
}

fn labels<'f>(session: &'f Facts, channel: &'f Facts) -> [(&'static str, &'f str); 3] {
    [
        ("session", text(session, "name")),
        ("layer", text(channel, "layer")),
        ("channel", text(channel, "channel")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn status_is_metrics_with_discards_by_reason() {
        let status = json!({
            "name": "web", "state": "recording", "records": 12, "bytes": 4096, "discarded": 5,
            "channels": [{ "layer": "user", "channel": "channel0", "fill": 25,
                "discards": [{ "cpu": 0, "reason": "full", "records": 2 }, { "cpu": 1, "reason": "full", "records": 1 }] }],
            "to": { "relay": "r:1", "is_connected": true, "waiting_bytes": 7, "breaks": 1, "away_seconds": 0.5 },
        });
        let all = vec![status.as_object().cloned().unwrap()];
        let text = metrics(&all);
        for line in [
            "strata_sessions 1",
            "strata_session_recording{session=\"web\"} 1",
            "strata_session_records_total{session=\"web\"} 12",
            "strata_session_discarded_total{session=\"web\",reason=\"full\"} 3",
            "strata_session_discarded_total{session=\"web\",reason=\"unknown\"} 2",
            "strata_channel_fill_ratio{session=\"web\",layer=\"user\",channel=\"channel0\"} 0.25",
            "strata_session_relay_waiting_bytes{session=\"web\"} 7",
            "strata_session_relay_connected{session=\"web\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(answer("/health", Some(all)).unwrap().status, 200);
        assert_eq!(answer("/health", None).unwrap().status, 503);
        assert!(answer("/x", None).is_none());
    }
}
