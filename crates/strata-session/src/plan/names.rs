//! Names that there are, and those that were perhaps meant.

use strata_filter::distance_within;

use super::{at_most, Channel, LayerOf, PlanError};

/// What records can have besides their fields, and in which layers: programs', the kernel's. A name that ends with ':'
/// begins others.
const CONTEXTS: [(&str, bool, bool); 31] = [
    ("vtid", true, false),
    ("vpid", true, false),
    ("tid", false, true),
    ("pid", false, true),
    ("ppid", false, true),
    ("procname", true, true),
    ("threadname", true, false),
    ("pthread_id", true, false),
    ("cpu_id", true, true),
    ("ip", true, false),
    ("callstack_user", true, true),
    ("callstack_kernel", false, true),
    ("uid", false, true),
    ("gid", false, true),
    ("vuid", true, false),
    ("veuid", true, false),
    ("vsuid", true, false),
    ("vgid", true, false),
    ("vegid", true, false),
    ("vsgid", true, false),
    ("prio", false, true),
    ("cgroup", false, true),
    ("cgroup_ns", true, false),
    ("ipc_ns", true, false),
    ("mnt_ns", true, false),
    ("net_ns", true, false),
    ("pid_ns", true, false),
    ("time_ns", true, false),
    ("user_ns", true, false),
    ("uts_ns", true, false),
    ("perf:thread:", true, false),
];

/// Contexts of a channel.
const CONTEXTS_MAX: usize = 32;

pub(super) fn check_contexts(channel: &Channel) -> Result<(), PlanError> {
    at_most("contexts of a channel", channel.contexts.len(), CONTEXTS_MAX)?;
    for (index, name) in channel.contexts.iter().enumerate() {
        let known = || {
            CONTEXTS.iter().filter(|(_, user, kernel)| match channel.layer {
                LayerOf::User => *user,
                LayerOf::Kernel => *kernel,
            })
        };
        let is_it = |of: &str| match of.ends_with(':') {
            true => name.len() > of.len() && name.len() <= 256 && name.starts_with(of),
            false => name == of,
        };
        if !known().any(|(of, ..)| is_it(of)) {
            let near = near(name, known().map(|(of, ..)| *of));
            let all = || {
                let all: Vec<&str> = known().map(|(of, ..)| *of).collect();
                format!(". It has {}", all.join(", "))
            };
            return Err(PlanError::NoContext {
                name: name.escape_debug().take(100).collect(),
                layer: channel.layer.name(),
                near: if near.is_empty() { all() } else { near },
            });
        }
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
