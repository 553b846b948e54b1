//! What a recording of `strata record` has that no plan holds: layers that exist before the engine does, a command, named
//! processes, the connection to a host's recorder.

use std::io;
use std::time::Instant;

use strata_kernel::Inside;

use crate::guest::guest_recorder::Relayed;
use crate::options::Options;
use crate::record::command::Running;
use crate::record::unpreloaded::Unpreloaded;
use crate::record::watched::Watched;
use crate::report::{EndReason, NotReached, Report};
use crate::session::layer::LayerEnd;
use crate::session::recording::Recording;
use crate::session::resources::Resources;
use crate::session::watch::Watch;

/// A recording that was asked for as a whole by `strata record`, with what began before its engine. Its layers are not
/// made from a plan. It ends with its command or its processes, and when its disk is nearly full.
pub(crate) struct Fixed {
    pub(crate) options: Options,
    pub(crate) running: Option<Running>,
    /// Processes named by process id, if no layer notices their end.
    pub(crate) watched: Option<Watched>,
    /// The time when recording began, before the command started.
    pub(crate) since: Instant,
    pub(crate) relayed: Option<Relayed>,
    /// The part of the report that is known from the beginning: why the kernel is not recorded, if it would have been by
    /// default.
    pub(crate) own: Report,
    /// Processes that were requested and do not exist.
    pub(crate) absent: Vec<NotReached>,
    /// The observer of descendants of the command that have preloaded nothing, or why it cannot work.
    pub(crate) unpreloaded: Option<io::Result<Unpreloaded>>,
    /// Restrictions of this process's view of the machine, such as those of a container, if there are any.
    pub(crate) inside: Option<Inside>,
}

impl Fixed {
    /// Returns the final report of the recording, whose layers have ended.
    pub(super) fn report(
        self,
        resources: &Resources,
        watch: &Watch<'_>,
        end: EndReason,
        ended: Vec<LayerEnd>,
    ) -> Recording {
        let mut recording =
            resources.report(&self.options, watch, end, ended, (self.absent, self.own));
        let report = &mut recording.report;
        let (records, wants) = (report.kernel.is_some(), self.options.kernel.is_some());
        match self.unpreloaded {
            Some(Ok(unpreloaded)) => {
                let (programs, remarks) = unpreloaded.finish();
                report.unpreloaded.extend(programs);
                report.remarks.extend(remarks);
            }
            Some(Err(why)) => report.remarks.push(format!(
                "which programs have preloaded nothing is not known: the kernel does not tell it ({why}). As root, or with \
                 kernel.perf_event_paranoid at 2 or less, they are named"
            )),
            None => {}
        }
        report.remarks.extend(self.inside.as_ref().map(|inside| inside.remark(records, wants)));
        recording
    }
}
