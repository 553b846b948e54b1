//! The receiver of exported records, for all formats.

use std::io;

use strata_ctf::read::{Damage, Discarded, Event, Stream};
use strata_export::otlp;
use strata_export::perfetto;
use strata_export::sql;

/// Size of a finished export, and its summary.
#[derive(Debug, Clone, Default)]
pub(super) struct WrittenExport {
    /// The number of event records; for OpenTelemetry, the number of spans.
    pub events: u64,
    pub bytes: u64,
    pub perfetto: Option<perfetto::Summary>,
    pub database: Option<sql::Summary>,
    pub otlp: Option<otlp::Summary>,
    /// The number of spans that a receiver has refused.
    pub rejected: u64,
}

/// Receiver of the event records of an export.
pub(super) trait EventSink {
    /// True if the receiver also needs the records before the selected time.
    const BEFORE: bool = false;

    fn event(&mut self, event: &Event<'_>) -> io::Result<()>;
    /// Receives a record that is not exported. `is_selected`: true if the record is in the selected time, and only
    /// the filter has left it out.
    fn skip(&mut self, _event: &Event<'_>, _is_selected: bool) -> io::Result<()> {
        Ok(())
    }
    fn discarded(&mut self, _discarded: &Discarded<'_>) -> io::Result<()> {
        Ok(())
    }
    fn damage(&mut self, _damage: &Damage, _stream: Option<&Stream>) -> io::Result<()> {
        Ok(())
    }
    fn finish(self) -> io::Result<WrittenExport>;
}
