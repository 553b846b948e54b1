//! Event rules on the command line, of one recording and of a session that begins at boot.

use strata_kernel::selection::{EventSelection, SelectionError};
use strata_session::{RuleError, Rules};

/// Refuse a rule that is not well formed where it stands.
pub fn parse_rules(text: &str) -> Result<String, RuleError> {
    Rules::parse(&[text]).map(|_| text.to_owned())
}

/// The same, of rules for the kernel.
pub fn parse_kernel_rules(text: &str) -> Result<String, SelectionError> {
    EventSelection::parse(&[text]).map(|_| text.to_owned())
}
