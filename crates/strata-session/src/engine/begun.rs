//! The command and the named processes of a session that records them, and what their report adds.

use std::io;

use strata_kernel::Inside;

use crate::options::Options;
use crate::record::command::Running;
use crate::record::unpreloaded::Unpreloaded;
use crate::record::watched::Watched;
use crate::report::{EndReason, NotReached, Report};
use crate::session::layer::LayerEnd;
use crate::session::recording_result::Recording;
use crate::session::resources::Resources;
use crate::session::wait_for_end::Watch;

/// What has begun with the layers: the command, and those who watch it.
#[derive(Default)]
pub(crate) struct Begun {
    /// The command, until its end is waited for.
    pub(crate) running: Option<Running>,
    /// Processes named by process id, if no layer notices their end.
    pub(crate) watched: Option<Watched>,
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

impl Begun {
    /// Returns the final report of a session, whose layers have ended. `wants_kernel`: true if the kernel was requested.
    pub(super) fn report(
        self,
        (options, wants_kernel): (&Options, bool),
        resources: &Resources,
        (watch, end): (&Watch<'_>, EndReason),
        ended: Vec<LayerEnd>,
    ) -> Recording {
        let mut recording = resources.report(options, watch, end, ended, (self.absent, self.own));
        let report = &mut recording.report;
        let records = report.kernel.is_some();
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
        report.remarks.extend(self.inside.as_ref().map(|it| it.remark(records, wants_kernel)));
        recording
    }
}
