//! Tests of the export of traces written by hand, read back as protobuf.

use prost::Message as _;
use strata_ctf::read::{Message, Reader, TimeRange};

use super::proto::{
    AnyValueKind, KeyValue, Span, TracesData, KIND_INTERNAL, KIND_SERVER, STATUS_ERROR,
};
use super::{Encoding, Exporter, Options, States, Summary};
use crate::hand_tests::V::{Text, I64, U32, U64};
use crate::hand_tests::{metadata, Hand, Packets, Record, ORIGIN};
use strata_analyze::reports::wait::PathPart;
use strata_timeline::{pass_on, Asked};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const ENVIRONMENT: &str =
    "domain = \"ust\"; hostname = \"box\"; vpid = 5; procname = \"shop\"; pid = 5;";

/// The spans of all requests with their services, and the counts.
struct Exported {
    requests: Vec<TracesData>,
    summary: Summary,
}

impl Exported {
    fn spans(&self) -> Vec<&Span> {
        let resources = self.requests.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|it| &it.scope_spans).flat_map(|it| &it.spans).collect()
    }

    fn span(&self, name: &str) -> &Span {
        let found: Vec<_> = self.spans().into_iter().filter(|span| span.name == name).collect();
        assert_eq!(found.len(), 1, "{name}");
        found[0]
    }
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|it| it.key == key)?.value.as_ref()?.value.as_ref()?;
    Some(match value {
        AnyValueKind::Text(text) => text.clone(),
        AnyValueKind::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

fn exported(reader: &Reader, range: TimeRange, states: Option<States>) -> Exported {
    let mut requests = Vec::new();
    let mut send = |bytes: &[u8]| {
        requests.push(TracesData::decode(bytes).unwrap());
        Ok(())
    };
    let (pairs, encoding) = (Vec::new(), Encoding::Protobuf);
    let options = Options { range, pairs, encoding, states };
    let mut exporter = Exporter::new(reader, options, &mut send);
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) => exporter.event(&event, true).unwrap(),
            Message::Discarded(discarded) => exporter.discarded(&discarded),
            Message::Packet(_) | Message::Damage(_) => {}
        }
    }
    let summary = exporter.finish().unwrap();
    let exported = Exported { requests, summary };
    assert_eq!(exported.spans().len() as u64, summary.spans);
    assert_eq!(exported.requests.len() as u64, summary.requests);
    exported
}

/// Exports the records of a process, each with the thread's number before its fields.
fn of_process(events: &[(&str, &str)], records: &[Record<'_>]) -> Exported {
    let hand = Hand::new();
    let packets = Packets::new(0).packet(records);
    hand.trace("u", &metadata(ENVIRONMENT, "u32 vtid;", events), &[packets]);
    exported(&hand.reader(), TimeRange::ALL, None)
}

const OTEL: [(&str, &str); 7] = [
    (
        "otel:GET_begin",
        "u64 span_key; string name; string trace_id; string span_id; string parent_id; string kind; string path;",
    ),
    ("otel:GET_end", "u64 span_key; u64 size;"),
    ("otel:error", "string name; string trace_id; string span_id; string description;"),
    ("shop:lookup_begin", "u64 number;"),
    ("shop:lookup_end", "u64 number; i64 found;"),
    ("shop:paid", "string trace_id; string span_id; u64 cents;"),
    ("shop:plain", "u64 number;"),
];

fn get(key: u64, span: &'static str, parent: &'static str) -> [crate::hand_tests::V; 8] {
    let (name, kind) = (Text("GET /orders"), Text("server"));
    [U32(5), U64(key), name, Text(TRACE), Text(span), Text(parent), kind, Text("/orders/7")]
}

#[test]
fn spans_of_opentelemetry_keep_their_ids_names_and_errors() {
    let records: [Record<'_>; 8] = [
        (0, 10, &get(1, "00000000000000aa", "00000000000000ee")),
        (3, 20, &[U32(5), U64(7)]),
        (5, 25, &[U32(6), Text(TRACE), Text("00000000000000aa"), U64(999)]),
        (5, 26, &[U32(6), Text(TRACE), Text("00000000000000ab"), U64(1)]),
        (6, 27, &[U32(5), U64(3)]),
        (4, 30, &[U32(5), U64(7), I64(-2)]),
        (2, 35, &[U32(6), Text("x"), Text(TRACE), Text("00000000000000aa"), Text("no order")]),
        (1, 40, &[U32(6), U64(1), U64(512)]),
    ];
    let found = of_process(&OTEL, &records);
    assert_eq!(found.summary.spans, 2);
    let get = found.span("GET /orders");
    assert_eq!(get.trace_id, u128::from_str_radix(TRACE, 16).unwrap().to_be_bytes());
    assert_eq!(
        (&*get.span_id, &*get.parent_span_id),
        (&[0, 0, 0, 0, 0, 0, 0, 0xaa][..], &[0, 0, 0, 0, 0, 0, 0, 0xee][..])
    );
    assert_eq!(get.kind, KIND_SERVER);
    let times = (get.start_time_unix_nano, get.end_time_unix_nano);
    assert_eq!(times, (ORIGIN as u64 + 10, ORIGIN as u64 + 40));
    let keys: Vec<&str> = get.attributes.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(keys, ["path", "size", "thread.id", "strata.span"]);
    assert_eq!(text(&get.attributes, "thread.id").as_deref(), Some("6"));
    let status = get.status.as_ref().unwrap();
    assert_eq!((status.code, &*status.message), (STATUS_ERROR, "no order"));
    let events: Vec<_> = get.events.iter().map(|it| (&*it.name, it.time_unix_nano)).collect();
    assert_eq!(events, [("shop:paid", ORIGIN as u64 + 25)]);
    assert_eq!(text(&get.events[0].attributes, "cents").as_deref(), Some("999"));
    // A span of the program itself is a part of the request that its thread has begun.
    let lookup = found.span("shop:lookup");
    assert_eq!((&lookup.trace_id, &lookup.parent_span_id), (&get.trace_id, &get.span_id));
    assert_eq!((lookup.kind, &lookup.status), (KIND_INTERNAL, &None));
    let shown = |key| text(&lookup.attributes, key);
    assert_eq!((shown("number").as_deref(), shown("found").as_deref()), (Some("7"), Some("-2")));
    let resource = found.requests[0].resource_spans[0].resource.as_ref().unwrap();
    let of = |key| text(&resource.attributes, key);
    assert_eq!(of("service.name").as_deref(), Some("shop"));
    assert_eq!(
        (of("host.name").as_deref(), of("process.pid").as_deref()),
        (Some("box"), Some("5"))
    );
}

#[test]
fn ids_are_made_where_there_are_none_and_always_the_same() {
    let wrong = get(1, "00000000000000zz", "");
    let records: [Record<'_>; 8] = [
        (3, 10, &[U32(5), U64(1)]),
        (3, 20, &[U32(5), U64(2)]),
        (4, 30, &[U32(5), U64(2), I64(0)]),
        (4, 40, &[U32(5), U64(1), I64(0)]),
        (3, 40, &[U32(6), U64(3)]),
        (4, 50, &[U32(6), U64(3), I64(0)]),
        (0, 60, &wrong),
        (1, 70, &[U32(5), U64(1), U64(0)]),
    ];
    let (found, again) = (of_process(&OTEL, &records), of_process(&OTEL, &records));
    assert_eq!(found.requests, again.requests);
    let of = |number: &str| {
        let spans = found.spans();
        let is = |span: &&Span| text(&span.attributes, "number").as_deref() == Some(number);
        spans.into_iter().find(is).unwrap().clone()
    };
    let (outer, inner, other) = (of("1"), of("2"), of("3"));
    assert_eq!((&inner.trace_id, &inner.parent_span_id), (&outer.trace_id, &outer.span_id));
    assert!(outer.parent_span_id.is_empty() && other.parent_span_id.is_empty());
    assert!(other.trace_id != outer.trace_id && inner.span_id != outer.span_id);
    // An id that is none is what it is, a text.
    let odd = found.span("otel:GET");
    assert_eq!(text(&odd.attributes, "span_id").as_deref(), Some("00000000000000zz"));
    assert_eq!((odd.span_id.len(), odd.trace_id.len(), odd.kind), (8, 16, KIND_INTERNAL));
}

#[test]
fn span_of_a_thread_with_several_requests_is_a_part_of_none() {
    let second = "00000000000000bb";
    let told = |parent| {
        let records: [Record<'_>; 6] = [
            (0, 10, &get(1, "00000000000000aa", "")),
            (0, 11, &get(2, second, parent)),
            (3, 20, &[U32(5), U64(7)]),
            (4, 30, &[U32(5), U64(7), I64(0)]),
            (1, 40, &[U32(5), U64(1), U64(0)]),
            (1, 41, &[U32(5), U64(2), U64(0)]),
        ];
        of_process(&OTEL, &records).span("shop:lookup").parent_span_id.clone()
    };
    assert!(told("").is_empty());
    assert_eq!(told("00000000000000aa"), [0, 0, 0, 0, 0, 0, 0, 0xbb]);
}

#[test]
fn what_has_no_end_or_is_out_of_the_time_is_not_exported_and_forgotten() {
    let mut records: Vec<(u8, u64, Vec<crate::hand_tests::V>)> = Vec::new();
    for number in 0..1500 {
        records.push((3, 10 * number, vec![U32(5), U64(number)]));
        // Every third has no end.
        if number % 3 > 0 {
            records.push((4, 10 * number + 5, vec![U32(5), U64(number), I64(0)]));
        }
    }
    let records: Vec<Record<'_>> = records.iter().map(|(id, at, v)| (*id, *at, &v[..])).collect();
    let found = of_process(&OTEL, &records);
    assert_eq!((found.summary.spans, found.summary.unpaired), (1000, 500));
    let counts: Vec<usize> = found
        .requests
        .iter()
        .map(|it| it.resource_spans.iter().map(|it| it.scope_spans[0].spans.len()).sum())
        .collect();
    assert_eq!(counts, [512, 488]);
    // What is around them is open until the end of the trace, or thought so; each is nested in those at most.
    let hand = Hand::new();
    let packets = Packets::new(0).packet(&records);
    hand.trace("u", &metadata(ENVIRONMENT, "u32 vtid;", &OTEL), &[packets]);
    let range = TimeRange { from: ORIGIN + 10, to: ORIGIN + 30 };
    assert_eq!(exported(&hand.reader(), range, None).summary.spans, 2);
}

#[test]
fn what_a_span_waited_for_is_an_attribute_of_it() {
    let hand = Hand::new();
    let kernel = [
        (
            "sched_switch",
            "string prev_comm; u32 prev_tid; i64 prev_state; string next_comm; u32 next_tid;",
        ),
        ("sched_waking", "string comm; u32 tid;"),
        ("syscall_entry_read", "u32 fd; u64 count;"),
        ("syscall_exit_read", "i64 ret;"),
    ];
    let (shop, disk) = (Text("shop"), Text("db"));
    let switches: [Record<'_>; 6] = [
        (0, 1, &[U32(0), Text("swapper"), U32(0), I64(0), shop, U32(5)]),
        (2, 20, &[U32(5), U32(3), U64(1)]),
        (0, 30, &[U32(5), shop, U32(5), I64(1), disk, U32(9)]),
        (1, 70, &[U32(9), shop, U32(5)]),
        (0, 80, &[U32(9), disk, U32(9), I64(1), shop, U32(5)]),
        (3, 85, &[U32(5), I64(1)]),
    ];
    // Threads that only these records have, so that threads would get other numbers if one pass looked at fewer.
    let plain: [Record<'_>; 2] = [(6, 2, &[U32(77), U64(0)]), (6, 3, &[U32(78), U64(0)])];
    let plain = Packets::new(1).packet(&plain);
    let packets = Packets::new(0).packet(&switches);
    let environment = "domain = \"kernel\"; hostname = \"box\";";
    hand.trace("k", &metadata(environment, "u32 tid;", &kernel), &[packets]);
    let records: [Record<'_>; 2] =
        [(3, 10, &[U32(5), U64(7)]), (4, 100, &[U32(5), U64(7), I64(0)])];
    let packets = Packets::new(0).packet(&records);
    hand.trace("u", &metadata(ENVIRONMENT, "u32 vtid;", &OTEL), &[packets, plain]);
    let reader = hand.reader();
    let mut seen = States::pass(TimeRange::ALL);
    let timeline = States::timeline(&reader, &[]);
    let asked = Asked::default();
    let passed = pass_on(timeline, &reader, &asked, &mut seen, &|_| true, &mut |_| {}).unwrap();
    let history = seen.0;
    let world = passed.timeline.world().clone();
    let words = |part: &PathPart| format!("{:?}", part.label.tid);
    let states = States::new(history, world, words);
    let found = exported(&reader, TimeRange::ALL, Some(states));
    let span = found.span("shop:lookup");
    let of = |key: &str| text(&span.attributes, key);
    assert_eq!(of("strata.blocked_ns").as_deref(), Some("40"), "{span:?}");
    assert_eq!(of("strata.waited_ns.read").as_deref(), Some("40"));
    assert_eq!(of("strata.runnable_ns").as_deref(), Some("10"));
    let known = ["running", "runnable", "blocked", "interrupted", "unknown"];
    let known = known.map(|key| of(&format!("strata.{key}_ns")).unwrap().parse::<u64>().unwrap());
    assert_eq!(known.iter().sum::<u64>(), 90);
    assert!(of("strata.critical_path").unwrap().contains("0.000 ms Some(9)"), "{span:?}");
}
