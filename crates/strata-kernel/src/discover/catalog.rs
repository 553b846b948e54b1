//! The catalog of all events that can be recorded, by name. An event's description is read only when it is
//! needed.
//!
//! ```text
//! tracefs: available_events ──▶ Catalog::load ──▶ EventName: recorded name, system, kernel's name
//! syscalls::table ───────────────┘                    └─ describe() ──▶ KernelEvent: fields, and how they are recorded
//!                                                          reads events/SYSTEM/NAME/format (format.rs)
//! ```
//!
//! The recorded names are LTTng's where it has the event (`event_names.rs`). No two events have the same recorded
//! name: if two would, the system is put before it. A name that only system calls or the tracer's own records may
//! have is given to no tracepoint.
//!
//! Events of some systems are left out on purpose, such as `raw_syscalls`, since system calls have names of their
//! own here; [`Catalog::excluded`] has the reason, for a rule that matches nothing else.
//!
//! A catalog is what the kernel listed at one moment. Modules may be loaded and unloaded later:
//! [`Catalog::describe`] then fails with [`Error::NoEvent`]. A session loads a catalog when it begins and again
//! for each change of its rules, so that a rule can name an event of a module that was loaded meanwhile.
//! [`EventSelection::apply`](crate::event_rules::EventSelection::apply) matches rules against it, and `strata
//! list -k` prints it.

mod enumerators;

use crate::discover::event_names;
use crate::discover::format::EventFormat;
use crate::discover::syscalls::{self, compat, Syscall};
use crate::discover::tracefs::Tracefs;
use crate::{Error, KernelEvent, Probe};
use std::collections::HashMap;
use strata_model::EventClass;

/// Name of the subsystem under which all system calls are listed.
pub const SYSCALLS: &str = "syscalls";

/// Names of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventName {
    /// The recorded name; for a system call the call's name (openat, compat_openat), see
    /// [`crate::discover::syscalls::recorded_names`].
    pub name: String,
    /// The subsystem, such as "sched"; [`SYSCALLS`] for system calls.
    pub system: String,
    /// The kernel's name of the event. For a system call, it is `name` without the `compat_` of 32-bit programs.
    pub kernel_name: String,
    pub is_syscall: bool,
}

/// The list of all events of this kernel that can be recorded.
#[derive(Clone, Debug)]
pub struct Catalog {
    tracefs: Tracefs,
    events: Vec<EventName>,
}

impl Catalog {
    /// Reads the names of all tracepoints. No two events get the same recorded name.
    ///
    /// # Errors
    /// tracefs cannot be read.
    pub fn load(tracefs: &Tracefs) -> Result<Catalog, Error> {
        let found = tracefs.events()?;
        let found = found.into_iter().filter(|(system, _)| excluded_system(system).is_none());
        let mut events = distinct(found.collect());
        events.sort_by(|a, b| (&a.system, &a.kernel_name).cmp(&(&b.system, &b.kernel_name)));
        events.extend(system_calls());
        Ok(Catalog { tracefs: tracefs.clone(), events })
    }

    /// Returns the names of all events: tracepoints in the order of system and name, then system calls.
    pub fn names(&self) -> impl Iterator<Item = &EventName> {
        self.events.iter()
    }

    /// Finds the event by the kernel's name for it; system calls of 32-bit programs are not found.
    pub fn find(&self, system: &str, kernel_name: &str) -> Option<&EventName> {
        self.events.iter().find(|event| event.system == system && event.kernel_name == kernel_name)
    }

    pub(crate) fn events(&self) -> &[EventName] {
        &self.events
    }

    /// Describes the fields of an event and how it is recorded.
    ///
    /// # Errors
    /// [`Error::NoEvent`] if the event does not exist (any more), [`Error::Format`] if its fields cannot be recorded,
    /// and the errors of tracefs.
    pub fn describe(&self, event: &EventName) -> Result<KernelEvent, Error> {
        if event.is_syscall {
            return system_call(&event.name).ok_or_else(|| Error::NoEvent {
                system: event.system.clone(),
                name: event.kernel_name.clone(),
            });
        }
        let text = self.tracefs.format(&event.system, &event.kernel_name)?;
        describe(event, &text)
    }

    /// Returns the reason if `rule` names a subsystem whose events are left out of the catalog on purpose.
    /// `rule`: a rule of an [`crate::decide::event_rules::EventSelection`].
    pub fn excluded(&self, rule: &str) -> Option<&'static str> {
        let rule = rule.trim_start_matches('!').trim_start();
        let (system, name) = rule.split_once(':').unwrap_or(("", rule));
        // The names that the kernel has for them, within its systems or alone.
        let is_raw = name.starts_with("sys_enter") || name.starts_with("sys_exit");
        match system {
            "" | SYSCALLS => is_raw.then(|| excluded_system(SYSCALLS)).flatten(),
            _ => excluded_system(system),
        }
    }
}

/// Returns why a system's events are not in the catalog; `None` if they are.
fn excluded_system(system: &str) -> Option<&'static str> {
    match system {
        "ftrace" => Some("these are the formats of ftrace's own records, no tracepoints"),
        "raw_syscalls" | SYSCALLS => {
            Some("system calls are recorded by name: `syscalls` for all, or openat, read and so on")
        }
        _ => None,
    }
}

/// Gives each event its recorded name: that of [`event_names::event_name`], or, if two events would have the same name, with
/// the system before it.
fn distinct(found: Vec<(String, String)>) -> Vec<EventName> {
    let mut count: HashMap<String, u32> = HashMap::new();
    for (system, kernel_name) in &found {
        *count.entry(event_names::event_name(system, kernel_name)).or_default() += 1;
    }
    let mut taken: HashMap<String, u32> = HashMap::new();
    let mut events = Vec::with_capacity(found.len());
    for (system, kernel_name) in found {
        let name = event_names::event_name(&system, &kernel_name);
        let is_shared = count.get(&name).is_some_and(|count| *count > 1) || is_reserved(&name);
        let name = if is_shared { format!("{system}_{kernel_name}") } else { name };
        let again = taken.entry(name.clone()).or_default();
        *again += 1;
        events.push(EventName { name, system, kernel_name, is_syscall: false });
    }
    // Two systems such as `a` and `a_b` can still meet; then the kernel's full name has no equal.
    for event in &mut events {
        if taken.get(&event.name).is_some_and(|count| *count > 1) {
            event.name = format!("{}:{}", event.system, event.kernel_name);
        }
    }
    events
}

/// Returns whether the name is reserved for system calls, or for records of the tracer itself.
fn is_reserved(name: &str) -> bool {
    ["syscall_", "compat_syscall_", "lttng_statedump_"].iter().any(|begin| name.starts_with(begin))
}

/// Returns whether a recording of selected processes has the events of this subsystem only for those processes.
fn is_followed(system: &str) -> bool {
    matches!(system, "exceptions" | "signal")
}

fn describe(event: &EventName, text: &str) -> Result<KernelEvent, Error> {
    let refused = |error| Error::Format {
        system: event.system.clone(),
        name: event.kernel_name.clone(),
        error,
    };
    let format = EventFormat::parse_with(text, &enumerators::value).map_err(refused)?;
    if let Some(mut found) = hot(event, &format) {
        found.name.clone_from(&event.name);
        found.is_followed = is_followed(&event.system);
        if let Probe::Hot { fallback, .. } = &mut found.probe {
            *fallback = generic(event, &format).ok().map(Box::new);
        }
        return Ok(found);
    }
    generic(event, &format)
}

/// Describes an event for the program that records any tracepoint.
fn generic(event: &EventName, format: &EventFormat) -> Result<KernelEvent, Error> {
    let refused = |error| Error::Format {
        system: event.system.clone(),
        name: event.kernel_name.clone(),
        error,
    };
    let layout = format
        .layout(|field| {
            let name = event_names::field_name(&event.system, &field.name);
            // Two fields of one name are worse than a name that an analysis does not know.
            let is_taken = name != field.name && format.field(name).is_some();
            if is_taken {
                field.name.clone()
            } else {
                name.to_owned()
            }
        })
        .map_err(refused)?;
    let class = EventClass {
        id: 0,
        provider: String::new(),
        name: event.name.clone(),
        loglevel: None,
        emf_uri: None,
        context: Vec::new(),
        fields: layout.fields,
    };
    class.validate().map_err(|error| refused(error.into()))?;
    Ok(KernelEvent {
        name: class.name,
        system: event.system.clone(),
        kernel_name: event.kernel_name.clone(),
        fields: class.fields,
        exit_fields: Vec::new(),
        probe: Probe::Tracepoint { id: format.id, parts: layout.parts },
        is_followed: is_followed(&event.system),
        sources: layout.sources,
        exit_sources: Vec::new(),
    })
}

fn hot(event: &EventName, format: &EventFormat) -> Option<KernelEvent> {
    crate::decide::frequent_events::find(&event.system, &event.kernel_name, Some(format))
}

fn system_calls() -> Vec<EventName> {
    let unknown = syscalls::unknown();
    let compat: &[Syscall] = match compat::are_there() {
        true => compat::table(),
        false => &[],
    };
    let name = |name: String, kernel_name: &str| EventName {
        name,
        system: SYSCALLS.into(),
        kernel_name: kernel_name.into(),
        is_syscall: true,
    };
    let known = syscalls::table().iter().chain(compat);
    let known = known.map(|call| name(call.event_name(), call.name));
    known.chain([name(unknown.name.clone(), &unknown.name)]).collect()
}

fn system_call(name: &str) -> Option<KernelEvent> {
    if let Some(call) = compat::find(name).or_else(|| syscalls::find(name)) {
        return Some(syscalls::event(call));
    }
    let unknown = syscalls::unknown();
    (unknown.name == name).then_some(unknown)
}

#[cfg(test)]
mod tests;
