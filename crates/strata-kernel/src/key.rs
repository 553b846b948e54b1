//! How programs are told from others.

use crate::attach::AttachPoint;
use crate::object::Object;
use strata_abi::kernel::Event;

/// What makes programs the same: who wants such a thing needs no new one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProgramKey {
    pub(crate) object: Object,
    pub(crate) programs: Vec<String>,
    /// Without its switch.
    pub(crate) event: Event,
    /// Of a payload; see [`crate::plan::Constant`].
    pub(crate) payload: Option<(u32, u32)>,
    pub(crate) target: AttachPoint,
}
