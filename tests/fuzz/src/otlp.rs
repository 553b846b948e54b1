//! A trace's spans for OpenTelemetry, and what a receiver of spans answers.

use serde_json::Value;
use strata_ctf::read::{Message, Reader, TimeRange};
use strata_export::otlp::http::Answer;
use strata_export::otlp::{Encoding, Exporter, Options, States, Summary, TraceCollector};
use strata_timeline::{pass_on, span_roles, Asked, PairRule, Timeline};

use crate::files::{metadata_and_more, Files};
use crate::protobuf::Fields;

/// Metadata, a zero byte, two bytes of flags, bytes of one or two streams.
pub fn run(input: &[u8]) {
    let Some((metadata, [files_flag, flags, bytes @ ..])) = metadata_and_more(input) else {
        return;
    };
    let mut files = Files::new();
    files.add_streams(metadata, usize::from(files_flag & 1) + 1, bytes);
    let Ok(reader) = Reader::open(&[files.folder()]) else { return };
    let rules: &[&str] = if flags & 1 != 0 { &["*_open=*_close", "*a=*b:id"] } else { &[] };
    let pairs: Vec<PairRule> = rules.iter().map(|rule| rule.parse().expect("a pair")).collect();
    let has_states = flags & 2 != 0;
    let (json, written) = exported(&reader, &pairs, Encoding::Json, has_states);
    let (protobuf, summary) = exported(&reader, &pairs, Encoding::Protobuf, has_states);
    assert_eq!(Summary { bytes: 0, ..written }, Summary { bytes: 0, ..summary });
    assert_eq!(json.len() as u64, summary.requests);
    let mut spans = 0;
    for request in &json {
        let request: Value = serde_json::from_slice(request).expect("JSON");
        for process in request["resourceSpans"].as_array().expect("processes") {
            for span in process["scopeSpans"][0]["spans"].as_array().expect("spans") {
                let is_id = |key: &str, digits| {
                    let id = span[key].as_str().expect("an id");
                    id.len() == digits && id.bytes().any(|digit| digit != b'0')
                };
                assert!(is_id("traceId", 32) && is_id("spanId", 16), "{span}");
                let time = |key: &str| span[key].as_str().expect("a time").parse::<u64>();
                let length = time("endTimeUnixNano")
                    .expect("end")
                    .checked_sub(time("startTimeUnixNano").expect("begin"));
                assert!(length.is_some(), "{span}");
                spans += 1;
            }
        }
    }
    assert_eq!(spans, summary.spans);
    for request in &protobuf {
        assert!(Fields(request).all(|(number, _)| number == 1), "TracesData");
    }
    let roles = span_roles(&reader, &pairs);
    let timeline = Timeline::with_spans(&reader, roles.clone());
    let mut seen = TraceCollector::new(&reader, roles, TimeRange::ALL, None);
    let all = |_| true;
    pass_on(timeline, &reader, &Asked::default(), &mut seen, &all, &mut |_| {}).expect("all of it");
    let requests = seen.finish();
    for request in &requests.all {
        assert_eq!(request.tree().len(), request.spans.len());
    }
    let of_requests: usize = requests.all.iter().map(|request| request.spans.len()).sum();
    assert!(of_requests as u64 <= summary.spans, "{of_requests} of {summary:?}");
}

fn exported(
    reader: &Reader,
    pairs: &[PairRule],
    encoding: Encoding,
    has_states: bool,
) -> (Vec<Vec<u8>>, Summary) {
    let states = has_states.then(|| {
        let mut seen = States::pass(TimeRange::ALL);
        let timeline = States::timeline(reader, pairs);
        let passed =
            pass_on(timeline, reader, &Asked::default(), &mut seen, &|_| true, &mut |_| {});
        let world = passed.expect("all of it").timeline.world().clone();
        States::new(seen.0, world, |part| format!("{:?}", part.what))
    });
    let mut requests = Vec::new();
    let send = |request: &[u8]| {
        requests.push(request.to_vec());
        Ok(())
    };
    let options = Options { range: TimeRange::ALL, pairs: pairs.to_vec(), encoding, states };
    let mut exporter = Exporter::new(reader, options, send);
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) => exporter.event(&event, true).expect("memory"),
            Message::Packet(_) => (),
            Message::Discarded(it) => exporter.discarded(&it),
            Message::Damage(damage) => exporter.damage(reader.stream_of(damage)),
        }
    }
    let summary = exporter.finish().expect("memory");
    (requests, summary)
}

/// The bytes of an answer.
pub fn run_answer(input: &[u8]) {
    let whole = Answer::read(input, true);
    if let Ok(Some(answer)) = &whole {
        assert!(answer.text.len() < 1024, "{} bytes", answer.text.len());
        assert!(answer.is_accepted() || answer.rejected == 0, "{answer:?}");
    }
    assert!(!matches!(whole, Ok(None)), "nothing more comes, and it is not complete");
    // A part of it is not taken for another answer, if it is taken for one.
    let part = input.get(..input.len() / 2).unwrap_or_default();
    if let (Ok(Some(early)), Ok(Some(answer))) = (Answer::read(part, false), &whole) {
        assert_eq!(early.status, answer.status);
    }
}
