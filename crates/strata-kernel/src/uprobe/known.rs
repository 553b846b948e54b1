//! Probes of a session that stays, which come and go while it records.

use crate::uprobe::add;
use crate::uprobe::error::ProbeError;
use crate::uprobe::events::TakenNames;
use crate::uprobe::probes::Probes;
use crate::uprobe::spec::ProbeSpec;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Probes that are asked for, by how they are written, each with what it came to. That is decided when it comes: it goes on
/// being this file, whatever the file's name leads to later, with these names, until nobody asks for it any more.
#[derive(Clone, Debug, Default)]
pub struct KnownProbes {
    probes: HashMap<String, Arc<Probes>>,
    names: TakenNames,
}

impl KnownProbes {
    /// Nobody asks for others than these any more.
    pub fn keep(&mut self, texts: &[&str]) {
        self.probes.retain(|text, _| texts.contains(&text.as_str()));
        let events = self.probes.values().flat_map(|one| &one.events);
        let used: HashSet<&str> = events.map(|event| event.name.as_str()).collect();
        self.names.retain(|name| used.contains(name));
    }

    /// What this one came to, if it is asked for.
    pub fn get(&self, text: &str) -> Option<Arc<Probes>> {
        self.probes.get(text).map(Arc::clone)
    }

    /// Asks for this one, too. Returns what it came to, and whether that was not known.
    ///
    /// # Errors
    /// It is no probe, or there is none such in the file; nothing has changed.
    pub fn ask(&mut self, text: &str) -> Result<(Arc<Probes>, bool), ProbeError> {
        if let Some(known) = self.get(text) {
            return Ok((known, false));
        }
        let (mut probes, mut names) = (Probes::default(), self.names.clone());
        add(&ProbeSpec::parse(text)?, &mut probes, &mut names)?;
        let probes = Arc::new(probes);
        self.probes.insert(text.to_owned(), Arc::clone(&probes));
        self.names = names;
        Ok((probes, true))
    }
}
