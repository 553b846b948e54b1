//! Keys that identify programs.

use crate::attach::bpf_objects::Object;
use crate::attach::program::AttachPoint;
use strata_abi::kernel::Event;

/// Properties by which two programs are the same, so that a running one can be used again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProgramKey {
    pub(crate) object: Object,
    pub(crate) programs: Vec<String>,
    /// Constants of the event, without its switch.
    pub(crate) event: Event,
    /// Constants of the payload; see [`crate::decide::program_plan::Constant`].
    pub(crate) payload: Option<(u32, u32)>,
    pub(crate) target: AttachPoint,
}
