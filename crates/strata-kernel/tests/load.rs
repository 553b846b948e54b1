//! Every kind of program is taken by this kernel's verifier, in both modes. Needs root, or CAP_BPF and
//! CAP_PERFMON.

use strata_abi::kernel::Part;
use strata_abi::kernel::{CONSTANT, MEMORY, REGISTER, STRING, STRING_AT};
use strata_kernel::catalog::Catalog;
use strata_kernel::elf::Binary;
use strata_kernel::tracefs::Tracefs;
use strata_kernel::{
    syscalls, Contexts, Follow, KernelEvent, KernelSession, Probe, RecordingSpec, SelectedEvent,
};
use strata_model::{Array, Element, Field, FieldClass, Integer, Sequence};
use strata_ring::LossMode;

mod sessions;

use sessions::begin;

/// The last one with all contexts, which need most stack where the ring does.
const MODES: [(LossMode, bool); 3] =
    [(LossMode::Discard, false), (LossMode::Overwrite, false), (LossMode::Overwrite, true)];

fn session(
    (loss_mode, has_contexts): (LossMode, bool),
    events: Vec<KernelEvent>,
) -> Option<KernelSession> {
    let events = events.into_iter().map(SelectedEvent::all_records).collect();
    let follow = Follow::Children;
    let names: Vec<&str> = Contexts::all().filter(|_| has_contexts).map(|(name, _)| name).collect();
    let spec = RecordingSpec {
        argv_bytes: strata_kernel::ARGV_BYTES,
        loss_mode,
        subbuf_bytes: 1 << 16,
        nr_subbufs: 4,
        events,
        follow,
        contexts: Contexts::parse(&names).unwrap(),
    };
    begin(spec)
}

fn catalog() -> Option<Catalog> {
    match Tracefs::find().and_then(|tracefs| Catalog::load(&tracefs)) {
        Ok(catalog) => Some(catalog),
        Err(error) => {
            eprintln!("skip: {error}");
            None
        }
    }
}

#[test]
fn hot_programs_are_all_accepted() {
    let Some(catalog) = catalog() else { return };
    for mode in MODES {
        let events: Vec<KernelEvent> = catalog
            .names()
            .filter(|name| {
                matches!(name.system.as_str(), "sched" | "irq" | "timer" | "exceptions" | "kmem")
            })
            .filter_map(|name| catalog.describe(name).ok())
            .filter(|event| matches!(event.probe, Probe::Hot { .. }))
            .collect();
        assert!(events.len() > 10);
        let nr = events.len() as u64;
        let Some(session) = session(mode, events) else { return };
        assert_eq!(session.attached(), nr);
    }
}

#[test]
fn system_calls_are_all_accepted() {
    for mode in MODES {
        let all = syscalls::table().iter().chain(syscalls::compat::table());
        let events = all.map(syscalls::event).chain([syscalls::unknown()]).collect();
        if session(mode, events).is_none() {
            return;
        }
    }
}

#[test]
fn tracepoints_of_every_shape_are_accepted() {
    let Some(catalog) = catalog() else { return };
    for mode in MODES {
        // One in twelve, with contexts in 240; another start for each mode.
        let step = if mode.1 { 240 } else { 12 };
        let events: Vec<KernelEvent> = catalog
            .names()
            .filter(|name| !name.is_syscall)
            .skip(mode.0 as usize * 5)
            .step_by(step)
            .filter_map(|name| catalog.describe(name).ok())
            .collect();
        let nr = events.len();
        let begun = std::time::Instant::now();
        let Some(session) = session(mode, events) else { return };
        eprintln!("{nr} events attached in {:?}", begun.elapsed());
        let begun = std::time::Instant::now();
        session.teardown();
        eprintln!("{nr} events detached in {:?}", begun.elapsed());
    }
}

#[test]
fn uprobe_with_parts_of_all_kinds_is_accepted() {
    let part = |kind, bytes| Part { kind, offset: 112, bytes, addend: 8, ..Part::default() };
    let text = FieldClass::Sequence(Sequence { element: Element::Text, length_bytes: 2 });
    let bytes =
        FieldClass::Array(Array { element: Element::Integer(Integer::unsigned(1)), count: 16 });
    for mode in MODES {
        let event = KernelEvent {
            name: "probe".into(),
            system: "uprobes".into(),
            kernel_name: "probe".into(),
            fields: vec![
                Field::new("values", bytes.clone()),
                Field::new("one", text.clone()),
                Field::new("other", text.clone()),
            ],
            exit_fields: vec![],
            probe: Probe::Uprobe {
                binary: Binary::open("/bin/true".as_ref()).unwrap(),
                offsets: vec![0x2000],
                guard: None,
                semaphore: None,
                parts: vec![
                    part(REGISTER, 4),
                    part(MEMORY, 8),
                    part(CONSTANT, 4),
                    part(STRING, 0),
                    part(STRING_AT, 0),
                ],
            },
            is_followed: true,
            sources: vec![],
            exit_sources: vec![],
        };
        if session(mode, vec![event]).is_none() {
            return;
        }
    }
}
