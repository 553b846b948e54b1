//! Event rules on the command line, of one recording and of a session that begins at boot.

use strata_kernel::event_rules::{EventSelection, SelectionError};
use strata_session::{RuleError, Rules};

/// Checks a rule for applications, so that a mistake is reported with its flag.
pub fn parse_rules(text: &str) -> Result<String, RuleError> {
    Rules::parse(&[text]).map(|_| text.to_owned())
}

/// Checks a rule for the kernel, so that a mistake is reported with its flag.
pub fn parse_kernel_rules(text: &str) -> Result<String, SelectionError> {
    EventSelection::parse(&[text]).map(|_| text.to_owned())
}
