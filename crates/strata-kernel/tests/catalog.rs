//! The events of the kernel that this runs on.

use std::collections::HashSet;
use std::time::Duration;

use rustix::time::{clock_gettime, ClockId};
use strata_abi::kernel::{self, Part};
use strata_kernel::catalog::{Catalog, EventName};
use strata_kernel::event_rules::EventSelection;
use strata_kernel::format::EventFormat;
use strata_kernel::tracefs::Tracefs;
use strata_kernel::{syscalls, Error, KernelEvent, Probe};
use strata_model::{
    limits, ByteOrder, ClockClass, EventClass, FieldClass, RecordHeader, StreamClass, Trace, Uuid,
};

/// Finds the kernel's tracefs; `None`, with a message, if it may not be read.
fn tracefs() -> Option<Tracefs> {
    match Tracefs::find() {
        Ok(tracefs) => Some(tracefs),
        Err(error @ (Error::NoTracefs { .. } | Error::TracefsRights { .. })) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn tracepoints(catalog: &Catalog) -> Vec<EventName> {
    catalog.names().filter(|event| !event.is_syscall).cloned().collect()
}

#[test]
fn names_of_the_running_kernel_are_unique() {
    let Some(tracefs) = tracefs() else { return };
    let catalog = Catalog::load(&tracefs).expect("tracefs can be read");
    let mut recorded = HashSet::new();
    for event in catalog.names() {
        let names = match event.is_syscall {
            true => syscalls::recorded_names(&event.name).to_vec(),
            false => vec![event.name.clone()],
        };
        for name in names {
            assert!(recorded.insert(name.clone()), "two events are called {name}");
        }
        // A 32-bit program's call is found as that of the others.
        if !event.name.starts_with("compat_") {
            assert_eq!(catalog.find(&event.system, &event.kernel_name), Some(event));
        }
    }
    assert!(tracepoints(&catalog).len() > 100, "{} tracepoints", tracepoints(&catalog).len());
}

#[test]
fn catalog_of_the_running_kernel_has_every_tracepoint_that_the_kernel_lists() {
    let Some(tracefs) = tracefs() else { return };
    let catalog = Catalog::load(&tracefs).expect("tracefs can be read");
    let known: HashSet<(&str, &str)> =
        catalog.names().map(|event| (event.system.as_str(), event.kernel_name.as_str())).collect();
    let listed = tracefs.read("available_events").expect("the list");
    let excluded = ["ftrace", "raw_syscalls", "syscalls", "kprobes", "uprobes", "synthetic"];
    for line in listed.lines() {
        let (system, name) = line.split_once(':').expect("SYSTEM:NAME");
        assert!(
            known.contains(&(system, name)) || excluded.contains(&system),
            "{line} is not there"
        );
    }
}

#[test]
fn describe_of_every_event_of_the_running_kernel_keeps_what_a_record_promises() {
    let Some(tracefs) = tracefs() else { return };
    let catalog = Catalog::load(&tracefs).expect("tracefs can be read");
    let (mut described, mut refused, mut classes) = (0, Vec::new(), Vec::new());
    for name in tracepoints(&catalog) {
        let event = match catalog.describe(&name) {
            Ok(event) => event,
            // A module may be unloaded meanwhile.
            Err(Error::NoEvent { .. }) => continue,
            Err(error) => {
                refused.push(error.to_string());
                continue;
            }
        };
        described += 1;
        assert_eq!(event.name, name.name);
        let text = tracefs.format(&name.system, &name.kernel_name).expect("it was there");
        let format = EventFormat::parse(&text).expect("it was understood");
        if let Probe::Tracepoint { parts, .. } = &event.probe {
            check_parts(&event, parts, &text);
        }
        for source in &event.sources {
            assert!(event.fields.iter().any(|field| field.name == source.field), "{source:?}");
        }
        assert_eq!(format.name, name.kernel_name);
        classes.push(EventClass {
            id: described,
            provider: String::new(),
            name: event.name,
            loglevel: None,
            emf_uri: None,
            context: Vec::new(),
            fields: event.fields,
        });
    }
    println!("{described} events described, {} not", refused.len());
    assert!(refused.is_empty(), "{refused:#?}");
    for class in &classes {
        class.validate().unwrap_or_else(|error| panic!("{}: {error}", class.name));
    }
}

/// Field lines as the kernel wrote them, apart from the crate's own reading: (offset, bytes, dynamic?).
fn field_lines(text: &str) -> Vec<(u16, u16, bool)> {
    let number = |line: &str, key: &str| -> u16 {
        let (_, rest) = line.split_once(key).expect(key);
        rest.split(';').next().and_then(|digits| digits.parse().ok()).expect(key)
    };
    let lines =
        text.lines().filter(|line| line.starts_with("\tfield:") && !line.contains(" common_"));
    let mut fields: Vec<_> = lines
        .map(|line| {
            let is_dynamic = line.contains("__data_loc") || line.contains("__rel_loc");
            (number(line, "offset:"), number(line, "size:"), is_dynamic)
        })
        .collect();
    fields.sort_by_key(|(offset, ..)| *offset);
    fields
}

/// The parts are the bytes of all fields in order, nothing else, and as many as the fields say.
fn check_parts(event: &KernelEvent, parts: &[Part], text: &str) {
    let name = &event.name;
    assert!(parts.len() <= kernel::PARTS_MAX, "{name}: {} parts", parts.len());
    let mut wanted = Vec::new();
    for (offset, bytes, is_dynamic) in field_lines(text) {
        wanted.extend((offset..offset + bytes).map(|at| (at, is_dynamic)));
    }
    let mut made = Vec::new();
    for part in parts {
        assert!(part.offset >= 8, "{name}: {part:?}");
        let is_dynamic = part.kind != kernel::COPY;
        made.extend((part.offset..part.offset + part.bytes).map(|at| (at, is_dynamic)));
    }
    assert_eq!(made, wanted, "{name}");
    let copied: u64 = parts
        .iter()
        .filter(|part| part.kind == kernel::COPY)
        .map(|part| u64::from(part.bytes))
        .sum();
    let is_sequence = |class: &FieldClass| matches!(class, FieldClass::Sequence(_));
    let fixed = event.fields.iter().filter(|field| !is_sequence(&field.class));
    assert_eq!(copied, fixed.map(|field| field.min_bytes()).sum::<u64>(), "{name}");
    let dynamic = event.fields.iter().filter(|field| is_sequence(&field.class)).count();
    assert_eq!(
        parts.len() - parts.iter().filter(|part| part.kind == kernel::COPY).count(),
        dynamic
    );
}

#[test]
fn metadata_of_all_events_of_the_running_kernel_is_written_and_read() {
    let Some(tracefs) = tracefs() else { return };
    let catalog = Catalog::load(&tracefs).expect("tracefs can be read");
    let selected = EventSelection::parse(&["*"]).expect("a rule").apply(&catalog);
    assert_eq!(selected.events.len(), catalog.names().count());
    let mut stream = StreamClass {
        id: 0,
        name: "channel0".into(),
        header: RecordHeader::Large,
        context: Vec::new(),
        events: Vec::new(),
    };
    for chosen in selected.events {
        let event = match catalog.describe(&chosen.event) {
            Ok(event) => event,
            Err(Error::NoEvent { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let ends = match chosen.event.is_syscall {
            true => {
                let names = syscalls::recorded_names(&event.name);
                names.into_iter().zip([event.fields, event.exit_fields]).collect()
            }
            false => vec![(event.name, event.fields)],
        };
        for (name, fields) in ends {
            let id = stream.events.len() as u32;
            let provider = String::new();
            stream.events.push(EventClass {
                id,
                provider,
                name,
                loglevel: None,
                emf_uri: None,
                context: Vec::new(),
                fields,
            });
        }
    }
    let text: usize = stream.events.iter().map(EventClass::text_bytes).sum();
    assert!(text < limits::TRACE_TEXT_BYTES / 2, "{text} bytes of names");
    check_metadata(stream);
}

#[test]
fn load_and_describe_of_the_running_kernel_are_fast() {
    let Some(tracefs) = tracefs() else { return };
    // What this thread itself takes: another program may have the CPU. The best of five, for the caches.
    let cpu_time =
        || -> Duration { clock_gettime(ClockId::ThreadCPUTime).try_into().expect("a time") };
    let best = |run: &dyn Fn()| -> Duration {
        let times = (0..5).map(|_| {
            let begin = cpu_time();
            run();
            cpu_time() - begin
        });
        times.min().unwrap_or_default()
    };
    let load = best(&|| drop(Catalog::load(&tracefs).expect("tracefs can be read")));
    let catalog = Catalog::load(&tracefs).expect("tracefs can be read");
    let events = tracepoints(&catalog);
    let some: Vec<_> = events.iter().step_by((events.len() / 500).max(1)).take(500).collect();
    let describe = best(&|| some.iter().for_each(|event| drop(catalog.describe(event))));
    println!("load {load:?}, describe {} events {describe:?}", some.len());
    // Without optimization it takes several times as long.
    let slack = if cfg!(debug_assertions) { 8 } else { 1 };
    assert!(load < slack * Duration::from_millis(30), "load: {load:?}");
    assert!(describe < slack * Duration::from_millis(150), "describe: {describe:?}");
}

/// Writes a stream's metadata and reads it again: each event must have its fields.
fn check_metadata(stream: StreamClass) {
    let expected: Vec<_> =
        stream.events.iter().map(|event| (event.name.clone(), event.fields.len())).collect();
    let trace = Trace {
        uuid: Uuid([7; 16]),
        byte_order: ByteOrder::NATIVE,
        environment: Vec::new(),
        clock: ClockClass::monotonic(None, 0),
        streams: vec![stream],
    };
    trace.validate().expect("all event record classes together");
    let text = strata_ctf::metadata::write(&trace);
    println!("{} event record classes, {} bytes of metadata", expected.len(), text.len());
    let schema = strata_ctf::read::metadata::parse(text.as_bytes()).expect("our own metadata");
    let stream = schema.streams.first().expect("one stream");
    assert_eq!(stream.events.len(), expected.len());
    for (event, (name, nr_fields)) in stream.events.iter().zip(&expected) {
        assert_eq!(&event.name, name);
        // A sequence has a field in front that is its length.
        let found = event.payload.as_ref().map_or(0, |payload| payload.members.len());
        assert!(found >= *nr_fields, "{name}: {found} fields");
    }
}
