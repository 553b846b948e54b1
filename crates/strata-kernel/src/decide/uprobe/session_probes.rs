//! The probes of a session that stays. Probes can be added and removed while it records.

use crate::decide::uprobe::add_for;
use crate::decide::uprobe::error::ProbeError;
use crate::decide::uprobe::events::TakenNames;
use crate::decide::uprobe::resolved_probes::Probes;
use crate::decide::uprobe::spec::ProbeSpec;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Requested probes, by their text, each with its result. A probe is resolved when it is requested for the first
/// time: it keeps its file, even if the name later belongs to another file, and its event names, until it is no
/// longer requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownProbes {
    probes: HashMap<String, Arc<Probes>>,
    names: TakenNames,
    /// Processes whose loaded files are probed as well.
    pids: Vec<u32>,
}

impl KnownProbes {
    /// Creates an empty list of probes for a session that records these processes, or all if there are none. Other
    /// files that these processes have loaded under a probe's file name are probed as well.
    #[must_use]
    pub fn of_processes(pids: &[u32]) -> KnownProbes {
        KnownProbes { pids: pids.to_vec(), ..KnownProbes::default() }
    }

    /// Forgets all probes except `texts`, which are still requested.
    pub fn keep(&mut self, texts: &[&str]) {
        self.probes.retain(|text, _| texts.contains(&text.as_str()));
        let events = self.probes.values().flat_map(|one| &one.events);
        let used: HashSet<&str> = events.map(|event| event.name.as_str()).collect();
        self.names.retain(|name| used.contains(name));
    }

    /// Returns the result of a probe, if it was resolved before.
    pub fn get(&self, text: &str) -> Option<Arc<Probes>> {
        self.probes.get(text).map(Arc::clone)
    }

    /// Resolves the probe `text` and keeps the result. Returns the probes that it stands for.
    ///
    /// # Errors
    /// The text is no probe, or the file has no such place. Nothing has changed then.
    pub fn ask(&mut self, text: &str) -> Result<Arc<Probes>, ProbeError> {
        self.ask_as(text, text)
    }

    /// Resolves the probe `text` as a person has written it, in `typed`: an error quotes `typed`.
    ///
    /// # Errors
    /// As for [`KnownProbes::ask`].
    pub fn ask_as(&mut self, text: &str, typed: &str) -> Result<Arc<Probes>, ProbeError> {
        if let Some(known) = self.get(text) {
            return Ok(known);
        }
        let (mut probes, mut names) = (Probes::default(), self.names.clone());
        add_for(&ProbeSpec::parse(typed)?, &self.pids, &mut probes, &mut names)?;
        let probes = Arc::new(probes);
        self.probes.insert(text.to_owned(), Arc::clone(&probes));
        self.names = names;
        Ok(probes)
    }
}
