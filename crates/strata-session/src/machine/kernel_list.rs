//! Lists the events of this machine's kernel for `strata list --kernel`.

use strata_kernel::catalog::{Catalog, EventName};
use strata_kernel::event_rules::EventSelection;
use strata_kernel::{syscalls, KernelEvent};
use strata_model::{Element, Field, FieldClass, Flags, Label};

use crate::error::SessionError;
use crate::kernel::{catalog, recorded_names, rule_reports};
use crate::machine::listing::class_text;
use crate::report::KernelRuleReport;

/// An event that can be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEvent {
    /// Name under which the event is recorded; for a system call, the call's name.
    pub name: String,
    /// The subsystem of the kernel that defines the event, or `syscalls`.
    pub system: String,
    /// The kernel's name of the event.
    pub kernel_name: String,
    /// True for a system call, which is recorded as `syscall_entry_NAME` and `syscall_exit_NAME`. If NAME begins with
    /// `compat_`, it is a call of 32-bit programs, and its records begin with `compat_`.
    pub is_syscall: bool,
}

/// A field of an event, with the names of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedKernelField {
    pub name: String,
    /// The field's type, such as `u64`, `string`, `i32[4]`.
    pub class: String,
    /// Names of value ranges: first value, last value, name.
    pub labels: Vec<(i128, i128, String)>,
    /// Set if the labels are flags, which are never negative.
    pub flags: Option<Flags>,
}

/// An event with its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedEvent {
    /// The described event.
    pub event: ListedEvent,
    /// True if a recording of selected processes has the event only for these processes.
    pub is_followed: bool,
    /// Names of the records with the fields of each, or why they cannot be described.
    pub records: Result<Vec<(String, Vec<ListedKernelField>)>, String>,
}

/// Lists all events of this kernel, by system and name; system calls come last.
///
/// # Errors
/// The kernel's events cannot be read.
pub fn events() -> Result<Vec<ListedEvent>, SessionError> {
    let catalog = open()?;
    let mut events: Vec<ListedEvent> = catalog.names().map(listed).collect();
    let key = |event: &ListedEvent| (event.is_syscall, event.system.clone(), event.name.clone());
    events.sort_by_cached_key(key);
    Ok(events)
}

/// Lists all names that a rule can have, sorted, for completion.
///
/// # Errors
/// The kernel's events cannot be read.
pub fn names() -> Result<Vec<String>, SessionError> {
    let catalog = open()?;
    let mut names: Vec<String> = catalog.names().flat_map(recorded_names).collect();
    names.push("syscalls".to_owned());
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Returns the events that the rules select, with their fields, and the rules that select none.
///
/// # Errors
/// The kernel's events cannot be read, or a rule is invalid.
pub fn describe(
    rules: &[String],
) -> Result<(Vec<DescribedEvent>, Vec<KernelRuleReport>), SessionError> {
    let texts: Vec<&str> = rules.iter().map(String::as_str).collect();
    let selection = EventSelection::parse(&texts)?;
    let catalog = open()?;
    let selected = selection.apply(&catalog);
    let mut unmatched = rule_reports(selected.matched, &catalog);
    unmatched.retain(|rule| rule.matched == 0);
    let mut described = Vec::with_capacity(selected.events.len());
    for chosen in &selected.events {
        let event = catalog.describe(&chosen.event);
        described.push(DescribedEvent {
            event: listed(&chosen.event),
            is_followed: event.as_ref().is_ok_and(|event| event.is_followed),
            records: event
                .map(|event| records(&event, chosen.event.is_syscall, (chosen.entry, chosen.exit)))
                .map_err(|error| error.to_string()),
        });
    }
    Ok((described, unmatched))
}

fn open() -> Result<Catalog, SessionError> {
    catalog().map_err(|error| SessionError::KernelEvents(Box::new(error)))
}

fn listed(event: &EventName) -> ListedEvent {
    ListedEvent {
        name: event.name.clone(),
        system: event.system.clone(),
        kernel_name: event.kernel_name.clone(),
        is_syscall: event.is_syscall,
    }
}

/// Returns the records of an event with their fields. `ends`: whether the entry and the exit of a system call are
/// wanted.
fn records(
    event: &KernelEvent,
    is_syscall: bool,
    ends: (bool, bool),
) -> Vec<(String, Vec<ListedKernelField>)> {
    let fields = |fields: &[Field]| fields.iter().map(field).collect::<Vec<_>>();
    if !is_syscall {
        return vec![(event.name.clone(), fields(&event.fields))];
    }
    let mut records = Vec::new();
    let [entry, exit] = syscalls::recorded_names(&event.name);
    if ends.0 {
        records.push((entry, fields(&event.fields)));
    }
    if ends.1 {
        records.push((exit, fields(&event.exit_fields)));
    }
    records
}

fn field(field: &Field) -> ListedKernelField {
    let (class, labels, flags) = match &field.class {
        FieldClass::Enumeration(class) => {
            let patterns = 1i128 << (u32::from(class.integer.bytes) * 8).min(64);
            let range = |label: &Label| {
                let (from, to) = label.values(&class.integer);
                match class.flags {
                    Some(_) => {
                        (from.rem_euclid(patterns), to.rem_euclid(patterns), label.label.clone())
                    }
                    None => (from, to, label.label.clone()),
                }
            };
            let integer = class_text(&FieldClass::Integer(class.integer));
            (integer, class.labels.iter().map(range).collect(), class.flags)
        }
        // The record has a length before the text, but for readers it is a text.
        FieldClass::Sequence(sequence) if matches!(sequence.element, Element::Text) => {
            ("string".to_owned(), Vec::new(), None)
        }
        class => (class_text(class), Vec::new(), None),
    };
    ListedKernelField { name: field.name.clone(), class, labels, flags }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_kernel::Probe;
    use strata_model::{Enumeration, Integer, Sequence};

    fn event() -> KernelEvent {
        let labels = vec![Label { from: 1, to: 2, label: "S".into() }];
        let state =
            Enumeration { integer: Integer::signed(8), name: "s".into(), labels, flags: None };
        let text = Sequence { element: Element::Text, length_bytes: 2 };
        KernelEvent {
            name: "openat".into(),
            system: "syscalls".into(),
            kernel_name: "openat".into(),
            fields: vec![
                Field::new("state", FieldClass::Enumeration(state)),
                Field::new("filename", FieldClass::Sequence(text)),
            ],
            exit_fields: vec![Field::new("ret", FieldClass::Integer(Integer::signed(8)))],
            probe: Probe::Tracepoint { id: 0, parts: Vec::new() },
            is_followed: true,
            sources: Vec::new(),
            exit_sources: Vec::new(),
        }
    }

    #[test]
    fn records_of_a_system_call_are_those_of_the_ends_asked_for() {
        let names = |ends| {
            let records = records(&event(), true, ends);
            records.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names((true, true)), ["syscall_entry_openat", "syscall_exit_openat"]);
        assert_eq!(names((false, true)), ["syscall_exit_openat"]);
        assert_eq!(records(&event(), false, (true, true))[0].0, "openat");
    }

    #[test]
    fn fields_have_types_and_the_names_of_their_values() {
        let fields = records(&event(), true, (true, false)).remove(0).1;
        assert_eq!((fields[0].class.as_str(), fields[1].class.as_str()), ("i64", "string"));
        assert_eq!(fields[0].labels, [(1, 2, "S".to_owned())]);
    }

    #[test]
    fn flags_are_not_negative() {
        let labels = vec![Label { from: i32::MIN.into(), to: i32::MIN.into(), label: "T".into() }];
        let (integer, flags) = (Integer::signed(4), Some(Flags { low_bits: 0 }));
        let class = Enumeration { integer, name: String::new(), labels, flags };
        let listed = field(&Field::new("x", FieldClass::Enumeration(class)));
        assert_eq!(listed.labels, [(1 << 31, 1 << 31, "T".to_owned())]);
        assert_eq!(listed.flags, flags);
    }

    #[test]
    fn records_of_no_end_of_a_system_call_are_none_and_the_exit_has_its_own_fields() {
        assert!(records(&event(), true, (false, false)).is_empty());
        let [(name, fields)] = &records(&event(), true, (false, true))[..] else { panic!() };
        assert_eq!(name, "syscall_exit_openat");
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["ret"]);
        // One of 32-bit programs.
        let compat = KernelEvent { name: "compat_openat".into(), ..event() };
        let found = records(&compat, true, (true, true));
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["compat_syscall_entry_openat", "compat_syscall_exit_openat"]);
        // Any other event has one record, whatever was chosen of a system call.
        assert_eq!(records(&event(), false, (false, false)).len(), 1);
    }

    #[test]
    fn sequence_of_numbers_is_no_string_and_flags_of_all_bits_are_positive() {
        let bytes = Sequence { element: Element::Integer(Integer::unsigned(1)), length_bytes: 2 };
        let listed = field(&Field::new("x", FieldClass::Sequence(bytes)));
        assert_eq!((listed.class.as_str(), listed.flags), ("u8[u16]", None));
        for (bytes, from, wanted) in
            [(1, -1, 255), (2, -1, 65_535), (8, -1, u64::MAX.into()), (8, i64::MIN, 1i128 << 63)]
        {
            let labels = vec![Label { from, to: from, label: "A".into() }];
            let (integer, flags) = (Integer::signed(bytes), Some(Flags { low_bits: 0 }));
            let class = Enumeration { integer, name: String::new(), labels, flags };
            let listed = field(&Field::new("x", FieldClass::Enumeration(class)));
            assert_eq!(listed.labels, [(wanted, wanted, "A".to_owned())], "{bytes} {from}");
        }
    }
}
