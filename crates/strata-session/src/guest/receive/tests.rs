use std::path::Path;

use strata_ctf::packet::Header;
use strata_ctf::{metadata, read};
use strata_model::{ByteOrder, EnvValue, RecordHeader, StreamClass, Trace};

use super::*;
use crate::output::folder::TraceFolder;
use crate::scratch_tests::Scratch;

const UUID: Uuid = Uuid(*b"0123456789abcdef");
/// The guest's clock is this far behind the host's \[ns\].
const BEHIND: u64 = 7_000_000_000;

fn text() -> String {
    metadata::write(&Trace {
        uuid: UUID,
        byte_order: ByteOrder::NATIVE,
        environment: vec![("hostname".to_owned(), EnvValue::Text("box".to_owned()))],
        clock: ClockClass::monotonic(None, 99),
        streams: vec![StreamClass {
            id: 0,
            name: "s".into(),
            header: RecordHeader::Compact,
            context: Vec::new(),
            events: Vec::new(),
        }],
    })
}

fn hello() -> Hello {
    Hello {
        version: VERSION,
        is_of_our_order: true,
        recording: Uuid([1; 16]),
        boot: Uuid([2; 16]),
        hostname: "box".into(),
    }
}

/// Returns the exchange of a question that was answered at `at` on the guest's clock, which had stood still for `still`
/// before \[ns\].
fn exchange(at: u64, still: u64) -> Exchange {
    let host = at + BEHIND + still;
    Exchange { asked: host - 20_000, received: at, sent: at, answered: host + 20_000 }
}

/// Returns the receiver of a guest whose clock was measured, with a folder for its traces.
fn receiver(scratch: &Scratch, max_bytes: u64) -> Receiver {
    let folder = TraceFolder::create(&scratch.0.join("trace")).unwrap();
    let mut receiver = Receiver::new(Place {
        name: "vm".to_owned(),
        output: Arc::new(Mutex::new(folder)),
        clock: ClockClass::monotonic(Some(Uuid([3; 16])), 0),
        wall_ns: 1_700_000_000_000_000_000,
        max_bytes,
        memory: None,
    });
    receiver.take(FromGuest::Hello(hello())).unwrap();
    assert!(!receiver.learn(&exchange(1_000_000_000, 0)));
    receiver
}

fn header(cpu_id: u32, sequence: u64, begin: u64) -> Header {
    Header {
        uuid: UUID,
        cpu_id,
        stream_instance: cpu_id.into(),
        sequence,
        timestamp_begin: begin,
        timestamp_end: begin + 100,
        ..Header::default()
    }
    .with_content_bytes(8)
}

fn packet(header: Header) -> FromGuest<'static> {
    of_stream(header.cpu_id, header)
}

fn of_stream(stream: u32, header: Header) -> FromGuest<'static> {
    let packet = PacketBytes { header, body: &[0; 8] };
    FromGuest::Packet { id: 1, stream, upto: 0, packet }
}

fn begin(receiver: &mut Receiver) {
    receiver.take(FromGuest::Trace { id: 1, of: TraceOf::Kernel }).unwrap();
    let text = text();
    // In two pieces, as it grows.
    let (first, rest) = text.split_at(300);
    receiver.take(FromGuest::Metadata { id: 1, keep: 0, text: first }).unwrap();
    receiver.take(FromGuest::Metadata { id: 1, keep: 300, text: rest }).unwrap();
}

fn schema(folder: &Path) -> strata_model::schema::Schema {
    read::metadata::parse(&std::fs::read(folder.join("metadata")).unwrap()).unwrap()
}

#[test]
fn trace_of_a_guest_is_in_the_host_s_time_and_says_how_well_that_is_known() {
    let scratch = Scratch::new("guest");
    let mut receiver = receiver(&scratch, 1 << 20);
    begin(&mut receiver);
    receiver.entries.push(("virtual_cpu_0".to_owned(), 42));
    receiver.take(packet(header(0, 0, 1_000_000_000))).unwrap();
    receiver.take(packet(header(0, 1, 1_000_000_200))).unwrap();
    receiver.take(FromGuest::SetEnd { id: 1, stream: 0, end_ns: 1_000_000_900 }).unwrap();
    receiver.take(FromGuest::Counted { id: 1, records: 3, discarded: 4, overwritten: 5 }).unwrap();
    receiver.take(FromGuest::End).unwrap();
    assert!(receiver.is_complete);
    let (reports, problem) = receiver.finish(Ending::Ended);
    assert_eq!(problem, None);
    let [report] = &reports[..] else { panic!("{reports:?}") };
    let counts = &report.counts;
    assert_eq!((counts.records, counts.packets, counts.discarded.total()), (3, 2, 4));
    let folder = scratch.0.join("trace/vm/kernel");
    assert_eq!(report.folder.as_ref(), Some(&folder));
    let schema = schema(&folder);
    let [clock] = &schema.clocks[..] else { panic!("{:?}", schema.clocks) };
    let offset = i128::from(clock.offset_s) * 1_000_000_000 + i128::from(clock.offset_cycles);
    let error = offset - 1_700_000_000_000_000_000 - i128::from(BEHIND);
    let said = |name| match schema.environment(name) {
        Some(EnvValue::Integer(value)) => *value,
        other => panic!("{name}: {other:?}"),
    };
    let uncertainty = said("clock_uncertainty");
    assert!((20_000..20_010).contains(&uncertainty), "{uncertainty}");
    assert!(error.unsigned_abs() <= 20_000, "{error}");
    assert_eq!((said("virtual_cpu_0"), said("clock_epoch"), said("clock_exchanges")), (42, 1, 1));
    // The number is ours: a guest cannot give its trace that of another one.
    assert!(schema.uuid.is_some_and(|uuid| uuid != UUID));
    let bytes = std::fs::read(folder.join("channel0_0")).unwrap();
    assert_eq!(bytes[4..20], schema.uuid.unwrap().0);
}

#[test]
fn traces_of_a_guest_have_one_clock_whenever_each_was_recorded() {
    let scratch = Scratch::new("guest-one-clock");
    let mut receiver = receiver(&scratch, 1 << 20);
    // What is known is not in the middle, and the one after it is a second later.
    let (at, host) = (1_010_000_000, 1_010_000_000 + BEHIND);
    receiver.learn(&Exchange {
        asked: host - 9000,
        received: at,
        sent: at,
        answered: host + 30_000,
    });
    begin(&mut receiver);
    let of = TraceOf::Process { pid: 5, name: "app".into() };
    receiver.take(FromGuest::Trace { id: 2, of }).unwrap();
    receiver.take(FromGuest::Metadata { id: 2, keep: 0, text: &text() }).unwrap();
    receiver.take(packet(header(0, 0, 1_000_000_000))).unwrap();
    let packet = PacketBytes { header: header(0, 0, 2_000_000_000), body: &[0; 8] };
    receiver.take(FromGuest::Packet { id: 2, stream: 0, upto: 0, packet }).unwrap();
    let (reports, problem) = receiver.finish(Ending::Ended);
    assert_eq!(problem, None);
    let folders = reports.iter().map(|report| report.folder.clone().unwrap());
    let mut clocks = folders.map(|folder| {
        let schema = schema(&folder);
        (schema.clocks[0].clone(), schema.environment("clock_uncertainty").cloned())
    });
    let (kernel, app) = (clocks.next().unwrap(), clocks.next().unwrap());
    assert_eq!(kernel, app);
}

#[test]
fn guest_that_stood_still_has_a_trace_for_each_time() {
    let scratch = Scratch::new("guest-epochs");
    let mut receiver = receiver(&scratch, 1 << 20);
    begin(&mut receiver);
    receiver.take(packet(header(0, 0, 1_000_000_000))).unwrap();
    assert!(receiver.learn(&exchange(1_100_000_000, 5_000_000_000)));
    receiver.take(packet(header(0, 1, 1_100_000_500))).unwrap();
    let (reports, problem) = receiver.finish(Ending::Ended);
    assert_eq!((reports.len(), problem), (1, None));
    let clock = |folder: &str| schema(&scratch.0.join(folder)).clocks[0].clone();
    let (first, second) = (clock("trace/vm/kernel"), clock("trace/vm-epoch2/kernel"));
    assert_eq!(second.offset_s - first.offset_s, 5);
}

#[test]
fn guest_that_was_moved_has_a_trace_for_each_machine_with_its_own_virtual_cpus() {
    let scratch = Scratch::new("guest-moved");
    let mut receiver = receiver(&scratch, 1 << 20);
    begin(&mut receiver);
    receiver.entries = vec![("virtual_cpu_0".to_owned(), 42)];
    receiver.take(packet(header(0, 0, 1_000_000_000))).unwrap();
    receiver.moves(&Machines::default(), None).unwrap();
    receiver.entries = vec![("virtual_cpu_0".to_owned(), 77)];
    // Its clock is as it was.
    assert!(receiver.learn(&exchange(1_100_000_000, 0)));
    receiver.take(packet(header(0, 1, 1_100_000_500))).unwrap();
    let (reports, problem) = receiver.finish(Ending::Ended);
    assert_eq!((reports.len(), problem), (1, None));
    for (folder, thread) in [("vm", 42), ("vm-epoch2", 77)] {
        let schema = schema(&scratch.0.join("trace").join(folder).join("kernel"));
        assert_eq!(schema.environment("virtual_cpu_0"), Some(&EnvValue::Integer(thread)));
    }
}

const SYMBOLS: &[u8] = b"strata kernel symbols 1\n\x10\x01f";

#[test]
fn stream_of_no_cpu_and_names_of_functions_are_in_each_folder_of_the_kernel_s_trace() {
    let scratch = Scratch::new("guest-behind");
    let mut receiver = receiver(&scratch, 1 << 20);
    begin(&mut receiver);
    receiver.take(FromGuest::Symbols { id: 1, bytes: SYMBOLS }).unwrap();
    receiver.take(packet(header(0, 7, 1_000_000_000))).unwrap();
    // Before what CPU 0 has recorded, and with numbers of its own.
    let behind = Header { stream_instance: 3, ..header(0, 0, 999_999_000) };
    receiver.take(of_stream(3, behind)).unwrap();
    receiver.take(packet(header(0, 8, 1_000_000_200))).unwrap();
    assert!(receiver.learn(&exchange(1_100_000_000, 5_000_000_000)));
    receiver.take(packet(header(0, 9, 1_100_000_500))).unwrap();
    let (reports, problem) = receiver.finish(Ending::Ended);
    assert_eq!((reports[0].counts.packets, reports[0].counts.streams, problem), (4, 2, None));
    for folder in ["trace/vm/kernel", "trace/vm-epoch2/kernel"] {
        let file = scratch.0.join(folder).join(".strata-kernel-symbols");
        assert_eq!(std::fs::read(file).unwrap(), SYMBOLS);
    }
    let size =
        |name| std::fs::metadata(scratch.0.join("trace/vm/kernel").join(name)).unwrap().len();
    assert!(size("channel0_3") > 0 && size("channel0_0") > 0);
}

#[test]
fn malicious_symbols_are_refused_and_count_as_the_bytes_that_they_take() {
    let scratch = Scratch::new("guest-symbols");
    let mut one = receiver(&scratch, 5000);
    begin(&mut one);
    let of = TraceOf::Process { pid: 5, name: "app".into() };
    one.take(FromGuest::Trace { id: 2, of }).unwrap();
    let large = [SYMBOLS, &[0x10, 0x01, b'g'].repeat(2000)].concat();
    let said = |bytes, id| FromGuest::Symbols { id, bytes };
    let mut refused = |id, why: &str| {
        let found = one.take(said(&large, id)).map_err(|found| found.contains(why));
        assert_eq!(found, if why.is_empty() { Ok(()) } else { Err(true) }, "{why}");
    };
    refused(3, "trace 3");
    refused(2, "of a process");
    refused(1, "");
    let found = one.take(packet(header(0, 0, 1_000_000_000))).unwrap_err();
    assert!(found.contains("reached their limit of"), "{found}");
    // Behind the first packet, and others than before.
    let scratch = Scratch::new("guest-symbols-late");
    let mut late = receiver(&scratch, 9000);
    begin(&mut late);
    late.take(packet(header(0, 0, 1_000_000_000))).unwrap();
    for _ in 0..1000 {
        late.take(said(SYMBOLS, 1)).unwrap();
    }
    let file = scratch.0.join("trace/vm/kernel/.strata-kernel-symbols");
    assert_eq!(std::fs::read(&file).unwrap(), SYMBOLS);
    let found = late.take(said(&large, 1)).unwrap_err();
    assert!(found.contains("reached their limit of"), "{found}");
    assert_eq!(std::fs::read(&file).unwrap(), SYMBOLS);
}

#[test]
fn malicious_messages_end_the_guest_s_part_and_are_reported() {
    let scratch = Scratch::new("guest-hostile");
    let mut receiver = receiver(&scratch, 5000);
    // Nothing but a beginning is heard of who has not said hello.
    let mut silent = Receiver::new(Place {
        name: "x".to_owned(),
        output: Arc::clone(&receiver.place.output),
        clock: receiver.place.clock.clone(),
        wall_ns: 0,
        max_bytes: 0,
        memory: None,
    });
    assert_eq!(silent.take(FromGuest::Gone { id: 7 }), Ok(()));
    let other = Hello { recording: Uuid([9; 16]), ..hello() };
    let old = Hello { version: 99, ..hello() };
    assert!(silent.take(FromGuest::Hello(old)).unwrap_err().contains("version 99"));
    begin(&mut receiver);
    receiver.take(packet(header(0, 5, 1_000_000_000))).unwrap();
    for (said, why) in [
        (FromGuest::Hello(other), "another recorder"),
        (FromGuest::Gone { id: 7 }, "trace 7"),
        (FromGuest::Trace { id: 1, of: TraceOf::Process { pid: 1, name: "x".into() } }, "twice"),
        (FromGuest::Trace { id: 2, of: TraceOf::Kernel }, "two traces"),
        (FromGuest::Metadata { id: 1, keep: u64::MAX, text: "x" }, "behind their end"),
        (FromGuest::Metadata { id: 1, keep: 0, text: "event {};" }, "not Strata's"),
        (FromGuest::SetEnd { id: 1, stream: 77, end_ns: 0 }, "go back"),
        (packet(header(0, 5, 1_000_000_200)), "came twice"),
        (packet(header(4096, 0, 1_000_000_200)), "CPU 4096"),
        (of_stream(2, header(1, 0, 1_000_000_200)), "stream 2"),
        (packet(header(1, 0, 1_000_000_200)), "reached their limit of"),
    ] {
        let found = receiver.take(said.clone()).unwrap_err();
        assert!(found.contains(why), "{said:?}: {found}");
    }
}

#[test]
fn malicious_figures_of_a_guest_count_as_far_as_they_can_be() {
    let scratch = Scratch::new("guest-figures");
    let mut receiver = receiver(&scratch, 1 << 20);
    begin(&mut receiver);
    receiver.take(packet(header(0, 0, 1_000_000_000))).unwrap();
    let all = u64::MAX;
    let said = FromGuest::Counted { id: 1, records: all, discarded: all, overwritten: all };
    receiver.take(said).unwrap();
    assert_eq!(receiver.counts().records, (84 + 8) / 4);
    // A trace that never ends was not recorded to its end.
    let (reports, _) = receiver.finish(Ending::Failed);
    let folder = reports[0].folder.clone().unwrap();
    let mark = std::fs::read_to_string(folder.join(".strata-end")).unwrap();
    assert!(mark.contains("state failed"), "{mark}");
}
