//! The command `strata list -k`: the kernel's events and their fields.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{json, Value};
use strata_ctf::model::Flags;
use strata_kernel::uprobe::ProbeListing;
use strata_session::kernel_list::{
    describe, events, names, DescribedEvent, ListedEvent, ListedKernelField,
};

use crate::flags::ListFlags;
use crate::stderr;
use crate::stderr::messages::{self, Message, Weight};
use crate::stdout;
use crate::units::{clean, count};

/// Limit on the names of values that are shown for one field; `--json` shows all.
const LABELS_SHOWN: usize = 24;

/// Runs `strata list -k`. Returns the exit status: 1 if a name matches nothing.
pub fn run(flags: &ListFlags) -> Result<u8> {
    if flags.names {
        let mut text = names()?.join("\n");
        text.push('\n');
        print(&text)?;
        return Ok(0);
    }
    let rules = flags.rules()?;
    if rules.is_empty() {
        let events = events()?;
        match (flags.is_json(), stdout::is_terminal()) {
            (true, _) => stdout::json_lines("list", &all_to_json(&events)),
            (false, true) => print(&grouped(&events)),
            (false, false) => stdout::columns("list", &plain(&events)),
        }?;
        return Ok(u8::from(events.is_empty()));
    }
    let (described, unmatched) = describe(&rules)?;
    match flags.is_json() {
        true => stdout::json_lines("list", &to_json(&described))?,
        false => print(&to_text(&described))?,
    }
    for rule in &unmatched {
        let text = messages::no_such_event(rule);
        stderr::message(&Message { weight: Weight::Warning, text });
    }
    Ok(u8::from(!unmatched.is_empty() || described.is_empty()))
}

/// Lists what can be probed in a file. Returns the exit status: 1 if there is nothing.
pub fn probes(file: &str, json: bool) -> Result<u8> {
    let listing = strata_kernel::uprobe::list(file)?;
    match json {
        true => stdout::json_lines("list", &probes_to_json(&listing)),
        false => print(&probes_to_text(&listing, file)),
    }?;
    Ok(u8::from(listing.functions.is_empty() && listing.usdt.is_empty()))
}

/// Formats probes as lines that `--probe` accepts.
fn probes_to_text(listing: &ProbeListing, file: &str) -> String {
    let file = clean(file);
    let mut text = String::new();
    for probe in &listing.usdt {
        let (provider, name) = (clean(&probe.provider), clean(&probe.name));
        let arguments = clean(&probe.arguments.join(", "));
        let _ = writeln!(text, "usdt:{file}:{provider}:{name}  ({arguments})");
    }
    for function in &listing.functions {
        let _ = writeln!(text, "uprobe:{file}:{}", clean(function));
    }
    text
}

fn probes_to_json(listing: &ProbeListing) -> Value {
    let usdt = listing.usdt.iter().map(|probe| {
        json!({
            "provider": probe.provider,
            "name": probe.name,
            "locations": probe.locations,
            "arguments": probe.arguments,
            "semaphore": probe.has_semaphore,
        })
    });
    json!({
        "file": listing.binary.display().to_string(),
        "usdt": usdt.collect::<Vec<_>>(),
        "functions": listing.functions,
    })
}

fn print(text: &str) -> Result<()> {
    stdout::paged("list", text, true)
}

/// Lists events for people, grouped by subsystem.
fn grouped(events: &[ListedEvent]) -> String {
    let mut text = String::new();
    for group in events.chunk_by(|a, b| a.system == b.system) {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "{} ({})", clean(&group[0].system), count(group.len() as u64));
        for event in group {
            let _ = writeln!(text, "  {}{}", clean(&event.name), original(event));
        }
    }
    text
}

/// Returns the kernel's name of an event, if it differs from the recorded one.
fn original(event: &ListedEvent) -> String {
    match event.name == event.kernel_name {
        true => String::new(),
        false => format!("  ({}:{})", clean(&event.system), clean(&event.kernel_name)),
    }
}

/// Lists events for scripts: name and subsystem.
fn plain(events: &[ListedEvent]) -> String {
    let mut text = String::new();
    for event in events {
        let _ = writeln!(text, "{}\t{}", clean(&event.name), clean(&event.system));
    }
    text
}

/// Formats each record's name, and below it its fields.
fn to_text(described: &[DescribedEvent]) -> String {
    let mut text = String::new();
    for one in described {
        let event = &one.event;
        let of = match event.is_syscall {
            true => String::new(),
            false => format!(" ({}:{})", clean(&event.system), clean(&event.kernel_name)),
        };
        match &one.records {
            Err(why) => {
                let _ = writeln!(text, "{}{of}\n  {}", clean(&event.name), clean(why));
            }
            Ok(records) => {
                for (name, fields) in records {
                    let _ = writeln!(text, "{}{of}", clean(name));
                    add_fields(&mut text, fields);
                }
            }
        }
    }
    text
}

fn add_fields(text: &mut String, fields: &[ListedKernelField]) {
    let width = fields.iter().map(|field| field.class.chars().count()).max().unwrap_or(0);
    for field in fields {
        let line = format!("  {:width$}  {}", clean(&field.class), clean(&field.name));
        let _ = writeln!(text, "{line}{}", labels(&field.labels, field.flags));
    }
}

/// Formats the names of values: `  { 0 = a, 1...3 = b }`, or for flags `  { 0x0 = a, 0x1 = b | 0x10 = c | 0x20 = d }`.
fn labels(labels: &[(i128, i128, String)], flags: Option<Flags>) -> String {
    let value = |(from, to, name): &(i128, i128, String)| match (from == to, flags) {
        (true, Some(_)) => format!("{from:#x} = {}", clean(name)),
        (true, None) => format!("{from} = {}", clean(name)),
        (false, _) => format!("{from}...{to} = {}", clean(name)),
    };
    // A bit that is set or not, independent of the others.
    let is_bit = |bits: i128| flags.is_some_and(|flags| bits as u64 & !flags.number() != 0);
    let mut text = String::new();
    for label in labels.iter().take(LABELS_SHOWN) {
        text += match (text.is_empty(), is_bit(label.0)) {
            (true, _) => "",
            (false, true) => " | ",
            (false, false) => ", ",
        };
        text += &value(label);
    }
    if labels.len() > LABELS_SHOWN {
        let more = count((labels.len() - LABELS_SHOWN) as u64);
        text += &format!("{}{more} more", if flags.is_some() { " | " } else { ", " });
    }
    match text.is_empty() {
        true => text,
        false => format!("  {{ {text} }}"),
    }
}

fn event_to_json(event: &ListedEvent) -> Value {
    json!({
        "name": event.name,
        "system": event.system,
        "kernel_name": event.kernel_name,
        "syscall": event.is_syscall,
    })
}

fn all_to_json(events: &[ListedEvent]) -> Value {
    json!({ "events": events.iter().map(event_to_json).collect::<Vec<_>>() })
}

fn to_json(described: &[DescribedEvent]) -> Value {
    let label = |(from, to, name): &(i128, i128, String)| {
        // Values have at most 64 bits.
        json!({ "from": *from as i64, "to": *to as i64, "label": name })
    };
    let field = |field: &ListedKernelField| {
        let mut value = json!({ "name": field.name, "type": field.class });
        if !field.labels.is_empty() {
            value["labels"] = field.labels.iter().map(label).collect();
        }
        if let Some(flags) = field.flags {
            value["flags"] = json!({ "low_bits": flags.low_bits });
        }
        value
    };
    let event = |one: &DescribedEvent| {
        let mut value = event_to_json(&one.event);
        value["followed"] = one.is_followed.into();
        match &one.records {
            Err(why) => value["problem"] = why.as_str().into(),
            Ok(records) => {
                let record = |(name, fields): &(String, Vec<ListedKernelField>)| {
                    let fields = fields.iter().map(field).collect::<Vec<_>>();
                    json!({ "name": name, "fields": fields })
                };
                value["records"] = records.iter().map(record).collect();
            }
        }
        value
    };
    json!({ "events": described.iter().map(event).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, system: &str, kernel_name: &str) -> ListedEvent {
        let is_syscall = system == "syscalls";
        let (name, system) = (name.to_owned(), system.to_owned());
        ListedEvent { name, system, kernel_name: kernel_name.into(), is_syscall }
    }

    fn described() -> Vec<DescribedEvent> {
        let field = |name: &str, class: &str, labels| ListedKernelField {
            name: name.into(),
            class: class.into(),
            labels,
            flags: None,
        };
        let labels = vec![(0, 0, "R".to_owned()), (1, 3, "S".to_owned())];
        let fields = vec![field("tid", "i32", Vec::new()), field("state", "i64", labels)];
        vec![
            DescribedEvent {
                event: event("kmem_kfree", "kmem", "kfree"),
                is_followed: false,
                records: Ok(vec![("kmem_kfree".to_owned(), fields)]),
            },
            DescribedEvent {
                event: event("bad", "x", "bad"),
                is_followed: false,
                records: Err("why".to_owned()),
            },
        ]
    }

    #[test]
    fn events_are_grouped_for_people_and_plain_in_a_pipe() {
        let events = [
            event("irq_softirq_entry", "irq", "softirq_entry"),
            event("sched_switch", "sched", "sched_switch"),
            event("read", "syscalls", "read"),
        ];
        assert_eq!(
            grouped(&events),
            "irq (1)\n  irq_softirq_entry  (irq:softirq_entry)\n\nsched (1)\n  sched_switch\n\n\
             syscalls (1)\n  read\n"
        );
        assert_eq!(plain(&events), "irq_softirq_entry\tirq\nsched_switch\tsched\nread\tsyscalls\n");
        assert_eq!(all_to_json(&events)["events"][2]["syscall"], true);
    }

    #[test]
    fn fields_are_shown_with_types_and_names_of_values() {
        assert_eq!(
            to_text(&described()),
            "kmem_kfree (kmem:kfree)\n  i32  tid\n  i64  state  { 0 = R, 1...3 = S }\n\
             bad (x:bad)\n  why\n"
        );
        let value = to_json(&described());
        assert_eq!(value["events"][0]["records"][0]["fields"][1]["labels"][1]["to"], 3);
        assert_eq!(value["events"][1]["problem"], "why");
    }

    #[test]
    fn probes_are_listed_as_they_are_asked_for() {
        let listing = ProbeListing {
            binary: "/bin/x".into(),
            functions: vec!["main".into()],
            usdt: vec![strata_kernel::usdt::Listed {
                provider: "p".into(),
                name: "n".into(),
                locations: 2,
                arguments: vec!["u32".into(), "u64".into()],
                has_semaphore: false,
            }],
        };
        assert_eq!(probes_to_text(&listing, "x"), "usdt:x:p:n  (u32, u64)\nuprobe:x:main\n");
        assert_eq!(probes_to_json(&listing)["usdt"][0]["locations"], 2);
    }

    #[test]
    fn labels_of_flags_are_hexadecimal_with_bars_between_them() {
        let flags = Some(Flags { low_bits: 2 });
        let all = [(0, "RD"), (2, "RW"), (0x101000, "SYNC"), (0x1000, "DSYNC")];
        let all = all.map(|(bits, name)| (bits, bits, name.to_owned()));
        let expected = "  { 0x0 = RD, 0x2 = RW | 0x101000 = SYNC | 0x1000 = DSYNC }";
        assert_eq!(labels(&all, flags), expected);
    }

    #[test]
    fn labels_that_are_many_are_counted() {
        let many: Vec<_> = (0..30).map(|value| (value, value, "x".to_owned())).collect();
        assert!(labels(&many, None).ends_with(", 6 more }"));
    }
}
