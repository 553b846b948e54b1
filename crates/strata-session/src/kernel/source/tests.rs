//! Tests of the kernel's trace after errors.

use std::sync::mpsc::{channel as queue, Sender};
use std::time::Duration;

use strata_collect::{Arrival, Keep, Pump, PumpOrder};
use strata_ctf::end_mark::{EndMark, Ending, FILE};
use strata_model::{ByteOrder, RecordHeader, StreamClass, TimeSource};

use super::*;
use crate::output::describe::new_uuid;
use crate::output::folder::TraceFolder;
use crate::report::EndReason;
use crate::scratch_tests::{channel, context, Nowhere, Scratch};

fn kinds(class: StreamClass) -> Kinds {
    assert_eq!(ByteOrder::NATIVE, ByteOrder::Little);
    Kinds::new("x".into(), class, |_, _| (), |_| Vec::new()).unwrap()
}

/// Creates a source of an empty channel with `streams` streams, for a pump.
fn source(
    context: &Arc<Context>,
    streams: u32,
    not_run: u64,
) -> (Pump<'static, KernelSource>, Sender<PumpOrder<KernelSource>>, Arc<Mutex<RecordedByKernel>>) {
    let class = StreamClass {
        id: 0,
        name: "channel0".into(),
        header: RecordHeader::Compact,
        context: Vec::new(),
        events: Vec::new(),
    };
    let voice = context.shared.add_layer(KERNEL);
    let recorded = Arc::new(Mutex::new(RecordedByKernel::default()));
    let uuid = new_uuid().unwrap();
    let source = KernelSource {
        context: Arc::clone(context),
        voice: voice.clone(),
        kinds: Some(kinds(class.clone())),
        trace: KernelTraceIdentity {
            uuid,
            classes: Classes::new(class),
            of_dump: 0..0,
            contexts: Contexts::default(),
            as_lttng: false,
            whole: complete_events::RecordedWhole::default(),
            sampled: SampledEvents::default(),
        },
        said: Said::default(),
        span_from: None,
        told: Vec::new(),
        left_out_before: LeftOutBefore::new(),
        not_run: Arc::new(AtomicU64::new(not_run)),
        dump_stream: streams.into(),
        dumped: Dump::default(),
        around: Arc::default(),
        behind: Behind::default(),
        snapshot_uuid: uuid,
        recorded: Arc::clone(&recorded),
    };
    let (arrivals, arriving) = queue();
    arrivals.send(PumpOrder::Take(Arrival { source, channel: channel(streams).0 })).unwrap();
    let keep = Keep::Write { flush: Duration::ZERO };
    let pump = Pump::new(arriving, Box::leak(Box::new(voice)), keep, TimeSource::machine());
    (pump, arrivals, recorded)
}

/// Returns the context of layers with an output in a folder of its own.
fn in_folder(scratch: &Scratch) -> Arc<Context> {
    context(TraceFolder::create(&scratch.0.join("t")).unwrap())
}

/// Runs the pump from the source's arrival to its end.
fn run(
    pump: Pump<'_, KernelSource>,
    arrivals: Sender<PumpOrder<KernelSource>>,
    end: impl FnOnce(),
) {
    std::thread::scope(|scope| {
        let pumping = scope.spawn(|| pump.run());
        assert!(!pumping.is_finished());
        end();
        drop(arrivals);
        pumping.join().unwrap();
    });
}

#[test]
fn trace_to_which_nothing_happened_leaves_no_folder() {
    let scratch = Scratch::new("kernel-empty");
    let context = in_folder(&scratch);
    let (pump, arrivals, recorded) = source(&context, 2, 0);
    let folder = scratch.0.join("t").join(KERNEL);
    run(pump, arrivals, || {
        while !folder.join("metadata").exists() {
            std::thread::yield_now();
        }
        std::fs::write(folder.join(strata_ctf::state_dump::FILE), "x").unwrap();
        context.shared.stop(EndReason::Duration);
    });
    let recorded = lock(&recorded);
    assert_eq!((recorded.folder.as_ref(), recorded.unmarked), (None, 0));
    assert_eq!((recorded.counts.packets, recorded.counts.streams), (0, 2));
    assert!(!folder.exists());
}

#[test]
fn events_that_no_program_ran_for_are_reported_in_the_trace() {
    let scratch = Scratch::new("kernel-nested");
    let context = in_folder(&scratch);
    let (pump, arrivals, recorded) = source(&context, 2, 9);
    run(pump, arrivals, || context.shared.stop(EndReason::Asked(None)));
    let (recorded, folder) = (lock(&recorded), scratch.0.join("t").join(KERNEL));
    assert_eq!(recorded.folder, Some(folder.clone()));
    assert_eq!((recorded.counts.discarded.not_run, recorded.unmarked), (9, 0));
    assert_eq!(context.shared.counts().2, 9);
    let mark = EndMark::decode(&std::fs::read(folder.join(FILE)).unwrap()).unwrap();
    assert_eq!(mark.ending, Ending::Stopped);
    // Either a packet counts them, or the mark does.
    assert_eq!(recorded.counts.told + mark.losses.total(), 9);
}

#[test]
fn layer_that_failed_writes_no_more_and_counts_what_is_not_marked() {
    let scratch = Scratch::new("kernel-failed");
    let context = in_folder(&scratch);
    let (pump, arrivals, recorded) = source(&context, 2, 4);
    run(pump, arrivals, || {
        while !scratch.0.join("t").join(KERNEL).join("metadata").exists() {
            std::thread::yield_now();
        }
        let source = std::io::Error::from_raw_os_error(libc::ENOSPC);
        let error = Error::NoSpace { path: "x".into(), source };
        // Of the layer there is one voice; it says so to all.
        context.shared.fail_to_write(&error);
        context.shared.stop(EndReason::Failure);
    });
    let recorded = lock(&recorded);
    assert_eq!(recorded.counts.discarded.not_run, 4);
    assert_eq!((recorded.counts.packets, recorded.unmarked), (0, 4));
}

#[test]
fn layer_without_a_folder_waits_for_the_end_and_counts_what_would_be_in_it() {
    let context = context(Nowhere);
    let (pump, arrivals, recorded) = source(&context, 3, 6);
    run(pump, arrivals, || context.shared.stop(EndReason::Failure));
    let recorded = lock(&recorded);
    assert_eq!((recorded.folder.as_ref(), recorded.unmarked), (None, 6));
    assert_eq!((recorded.counts.streams, recorded.counts.discarded.not_run), (3, 6));
    assert!(context.shared.failure().unwrap().contains("no space left"));
}
