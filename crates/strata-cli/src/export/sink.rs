//! Where what is read goes, whichever the format.

use std::io;

use strata_analyze::perfetto;
use strata_analyze::sql;
use strata_ctf::read::{Damage, Discarded, Event, Stream};

/// What was written.
#[derive(Debug, Clone, Default)]
pub(super) struct WrittenExport {
    pub events: u64,
    pub bytes: u64,
    pub perfetto: Option<perfetto::Summary>,
    pub database: Option<sql::Summary>,
}

/// Where event records go.
pub(super) trait EventSink {
    /// Whether it is told what is before the time that is asked for, too.
    const BEFORE: bool = false;

    fn event(&mut self, event: &Event<'_>) -> io::Result<()>;
    /// What is not asked for; `is_selected`: by its time only.
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
