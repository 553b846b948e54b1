//! Figures in the text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

/// Content type of a text of metrics.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A text of metrics, to which families are appended.
#[derive(Debug, Default)]
pub struct MetricsText(String);

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows while the process lives.
    Counter,
    /// A number that goes up and down.
    Gauge,
}

impl MetricsText {
    /// Begins a family of metrics; its samples follow.
    pub fn family(&mut self, name: &str, kind: MetricKind, help: &str) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a String cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Adds a sample of the family with these labels.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        let mut before = '{';
        for (label, text) in labels {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{before}{label}=\"{text}\"");
            before = ',';
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    /// Adds a family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: MetricKind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Returns the text.
    #[must_use]
    pub fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_help_are_escaped() {
        let mut text = MetricsText::default();
        text.family("a_total", MetricKind::Counter, "one\ntwo\\");
        text.sample("a_total", &[("host", "x\"y\\z\n"), ("b", "c")], 3.0);
        text.single("up", MetricKind::Gauge, "It is up.", 0.5);
        assert_eq!(
            text.finish(),
            "# HELP a_total one\\ntwo\\\\\n# TYPE a_total counter\na_total{host=\"x\\\"y\\\\z\\n\",b=\"c\"} 3\n\
             # HELP up It is up.\n# TYPE up gauge\nup 0.5\n"
        );
    }
}
