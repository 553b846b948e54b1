//! Names that there are, and those that were perhaps meant.

use strata_filter::distance_within;
use strata_kernel::Contexts;
use strata_user::EventContexts;

use super::{at_most, Channel, LayerOf, PlanError};

/// Contexts of a channel.
const CONTEXTS_MAX: usize = 32;

pub(super) fn check_contexts(channel: &Channel) -> Result<(), PlanError> {
    at_most("contexts of a channel", channel.contexts.len(), CONTEXTS_MAX)?;
    for (index, name) in channel.contexts.iter().enumerate() {
        let known = match channel.layer {
            LayerOf::User => {
                EventContexts::parse(&[name]).map(drop).map_err(|error| error.to_string())
            }
            LayerOf::Kernel => {
                Contexts::parse(&[name]).map(drop).map_err(|error| error.to_string())
            }
        };
        known.map_err(PlanError::NoContext)?;
        if channel.contexts[..index].contains(name) {
            return Err(PlanError::Nothing {
                what: "add-context",
                why: "the channel has this context",
            });
        }
    }
    Ok(())
}

/// What was perhaps meant, as the end of a message.
pub(super) fn near<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> String {
    let word: String = word.chars().take(128).collect();
    let limit = (word.chars().count() / 3).max(1);
    let mut found: Vec<(usize, &str)> = names
        .filter(|name| name.len() <= 128)
        .filter_map(|name| Some((distance_within(&word, name, limit)?, name)))
        .collect();
    found.sort_unstable();
    found.dedup();
    match found.iter().take(3).map(|(_, name)| format!("'{name}'")).collect::<Vec<_>>() {
        names if names.is_empty() => String::new(),
        names => format!(". Did you mean {}?", names.join(" or ")),
    }
}
