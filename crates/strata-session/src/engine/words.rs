//! Errors of a session as one line, for whoever asked.

use crate::error::SessionError;

/// Replaces an error by its message, for the requester.
pub(super) fn said(done: Result<(), SessionError>) -> Result<(), String> {
    done.map_err(|error| in_words(&error))
}

pub(crate) fn in_words(error: &SessionError) -> String {
    match error {
        SessionError::NothingSelected(rules) => {
            let rules = rules.iter().filter(|rule| rule.matched == 0).map(|rule| {
                let names: Vec<String> =
                    rule.similar.iter().take(3).map(|name| format!("'{name}'")).collect();
                let near = match (&rule.excluded, names.is_empty()) {
                    (Some(why), _) => format!(": {why}"),
                    (None, true) => String::new(),
                    (None, false) => format!(". Did you mean {}?", names.join(" or ")),
                };
                format!("rule '{}' selects no event of this kernel{near}", rule.rule)
            });
            let rules: Vec<String> = rules.collect();
            match rules.is_empty() {
                true => error.to_string(),
                false => rules.join("; "),
            }
        }
        // A message is one line; further lines of the error only show the position in the text.
        _ => error.in_a_line(),
    }
}
