//! Keys that identify programs.

use crate::attach::bpf_objects::Object;
use crate::attach::program::AttachPoint;
use strata_abi::kernel::Event;

/// The properties that make two programs interchangeable, so that a running program can be used again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProgramKey {
    pub(crate) object: Object,
    pub(crate) programs: Vec<String>,
    /// The program's constants about the event, without the index of its switch.
    pub(crate) event: Event,
    /// The program's constants about the payload; see [`crate::decide::program_plan::Constant`].
    pub(crate) payload: Option<(u32, u32)>,
    pub(crate) target: AttachPoint,
}
