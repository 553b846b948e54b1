//! Keys that identify programs.

use crate::attach::AttachPoint;
use crate::object::Object;
use strata_abi::kernel::Event;

/// Properties by which two programs are the same, so that a running one can be used again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProgramKey {
    pub(crate) object: Object,
    pub(crate) programs: Vec<String>,
    /// Constants of the event, without its switch.
    pub(crate) event: Event,
    /// Constants of the payload; see [`crate::plan::Constant`].
    pub(crate) payload: Option<(u32, u32)>,
    pub(crate) target: AttachPoint,
}
