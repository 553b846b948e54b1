//! Tests of spans on no thread's stack, of keys, and of the time by state.

use super::*;

const HERE: Home = Home { trace: 0, pid: Some(5) };
const THERE: Home = Home { trace: 0, pid: Some(6) };

fn span(pair: u32, begin: i64, home: Home) -> OpenSpan {
    OpenSpan {
        pair,
        name: Name::NONE,
        event: Name::NONE,
        begin,
        thread: None,
        cpu: Some(0),
        home,
        gaps: 0,
        check: None,
        address: None,
        owner: None,
        spent: Some(Spent::default()),
        selected: true,
    }
}

fn none(unpaired: UnpairedSpan) {
    panic!("{unpaired:?}");
}

#[test]
fn end_of_a_key_is_of_the_same_process_before_it_is_of_any() {
    let mut spans = OpenSpans::default();
    let key = KeyRef::Number(7);
    spans.begin_key(key, span(1, 10, THERE), &mut none);
    spans.begin_key(key, span(1, 20, HERE), &mut none);
    spans.begin_key(key, span(2, 30, HERE), &mut none);
    let mut end = |pair, key, home| spans.end_key(pair, key, home).map(|(open, _)| open.begin);
    assert_eq!(end(1, KeyRef::Number(8), HERE), None);
    assert_eq!(end(1, key, HERE), Some(20));
    // Begun by another process: a request and who serves it.
    assert_eq!(end(1, key, HERE), Some(10));
    assert_eq!((end(1, key, HERE), end(2, key, THERE)), (None, Some(30)));
    assert_eq!(spans.count, 0);
}

#[test]
fn key_that_begins_again_is_another_span_and_the_first_is_unpaired() {
    let mut spans = OpenSpans::default();
    let mut unpaired = Vec::new();
    for begin in [10, 20] {
        spans.begin_key(KeyRef::Text(b"k"), span(1, begin, HERE), &mut |one| unpaired.push(one));
    }
    // Of another process it is another one.
    spans.begin_key(KeyRef::Text(b"k"), span(1, 30, THERE), &mut |one| unpaired.push(one));
    let told: Vec<_> = unpaired.iter().map(|one| (one.time, one.why)).collect();
    assert_eq!((told, spans.count), (vec![(10, UnpairedReason::Again)], 2));
    let (open, key) = spans.end_key(1, KeyRef::Text(b"k"), HERE).unwrap();
    let SpanKey::Text(text, _) = key else { panic!("{key:?}") };
    assert_eq!((open.begin, &*text), (20, &b"k"[..]));
}

#[test]
fn keys_of_any_length_are_distinguished_by_all_of_their_bytes() {
    let long = |last| [&[b'x'; 4000][..], &[last]].concat();
    let (a, b) = (long(b'a'), long(b'b'));
    let keep = |bytes: &[u8]| KeyRef::Text(bytes).keep();
    assert_ne!(keep(&a), keep(&b));
    assert_eq!(keep(&a), keep(&a.clone()));
    let SpanKey::Text(text, _) = keep(&a) else { panic!() };
    assert_eq!(text.len(), KEY_BYTES);
    // A number is no text of it; signed or not, it is the same one.
    assert_ne!(KeyRef::Number(7).keep(), keep(b"7"));
    let of = |value| SpanKey::of(value).unwrap();
    assert_eq!(of(Value::Blob(b"7")), of(Value::Text(b"7")));
    assert_eq!(of(Value::Unsigned(7)), of(Value::Signed(7)));
    assert_ne!(of(Value::Unsigned(7)), of(Value::Real(7.0)));
    assert_ne!(of(Value::Real(7.0)), of(Value::Real(7.5)));
    assert_eq!((SpanKey::of(Value::Compound), check_of(Value::Compound)), (None, None));
    assert_eq!(KeyRef::Number(i128::from(u64::MAX)).keep(), SpanKey::Number((1 << 64) - 1));
}

#[test]
fn malicious_number_of_open_spans_ends_at_the_limit() {
    let mut spans = OpenSpans::default();
    let mut too_many = 0;
    for number in 0..OPEN_MAX as i64 + 5 {
        let mut unpaired = |one: UnpairedSpan| {
            assert_eq!((one.why, one.time), (UnpairedReason::TooMany, number));
            too_many += 1;
        };
        match number % 3 {
            0 => {
                spans.begin_key(KeyRef::Number(number.into()), span(1, number, HERE), &mut unpaired)
            }
            1 => spans.begin_thread(HERE, number, span(1, number, HERE), &mut unpaired),
            _ => spans.begin_process(span(1, number, HERE), &mut unpaired),
        }
    }
    assert_eq!((too_many, spans.count), (5, OPEN_MAX));
    let left = spans.finish();
    assert!(left.is_sorted_by_key(|one| one.begin));
    assert_eq!((left.len(), spans.count), (OPEN_MAX, 0));
}

#[test]
fn end_of_a_thread_closes_what_began_in_it_and_counts_it_out() {
    let mut spans = OpenSpans::default();
    for (pair, begin) in [(1, 10), (2, 20), (2, 30)] {
        spans.begin_thread(HERE, 8, span(pair, begin, HERE), &mut none);
    }
    assert!(spans.end_thread(HERE, 9, (1, None), &mut none).is_none());
    assert!(spans.end_thread(HERE, 8, (3, None), &mut none).is_none());
    let mut unpaired = Vec::new();
    let open = spans.end_thread(HERE, 8, (1, None), &mut |one| unpaired.push((one.time, one.why)));
    assert_eq!(open.map(|open| open.begin), Some(10));
    assert_eq!(
        (unpaired, spans.count),
        (vec![(30, UnpairedReason::NoEnd), (20, UnpairedReason::NoEnd)], 0)
    );
}

#[test]
fn guess_is_the_latest_of_the_same_cpu_or_else_the_latest() {
    let mut spans = OpenSpans::default();
    for (begin, cpu) in [(10, 0), (20, 1), (30, 0), (40, 2)] {
        spans.begin_process(OpenSpan { cpu: Some(cpu), ..span(1, begin, HERE) }, &mut none);
    }
    let mut end = |home, pair, cpu| spans.end_process(home, pair, cpu).map(|open| open.begin);
    assert_eq!((end(THERE, 1, Some(0)), end(HERE, 2, Some(0))), (None, None));
    assert_eq!(end(HERE, 1, Some(0)), Some(30));
    assert_eq!(end(HERE, 1, Some(7)), Some(40));
    assert_eq!((end(HERE, 1, Some(1)), end(HERE, 1, None)), (Some(20), Some(10)));
    assert_eq!((end(HERE, 1, None), spans.count), (None, 0));
}

#[test]
fn spans_with_addresses_end_by_the_same_one_and_those_without_by_any() {
    let with = |begin, address| OpenSpan { address, ..span(1, begin, HERE) };
    let ended = |of| {
        let mut stack = vec![with(10, Some(1)), with(20, Some(2)), with(30, None)];
        let mut unpaired = 0;
        let found = end(&mut stack, (1, of), &mut |_| unpaired += 1);
        (found.map(|open| open.begin), unpaired, stack.len())
    };
    assert_eq!(ended(Some(1)), (Some(30), 0, 2), "it says none: any");
    assert_eq!(ended(None), (Some(30), 0, 2));
    let mut stack = vec![with(10, Some(1)), with(20, Some(2))];
    assert!(end(&mut stack, (1, Some(3)), &mut none).is_none());
    let mut unpaired = Vec::new();
    let found = end(&mut stack, (1, Some(1)), &mut |one| unpaired.push(one.time));
    assert_eq!((found.unwrap().begin, unpaired, stack.len()), (10, vec![20], 0));
}

#[test]
fn time_that_is_spent_adds_up_to_the_whole_whatever_the_states_say() {
    let spent = |running, runnable, blocked| Spent { running, runnable, blocked, unknown: 0 };
    for (before, now, nanos, wanted) in [
        (spent(0, 0, 0), spent(10, 20, 30), 60, Spent { unknown: 0, ..spent(10, 20, 30) }),
        (spent(5, 5, 5), spent(10, 20, 30), 60, Spent { unknown: 15, ..spent(5, 15, 25) }),
        // More than there was time for; and less than before.
        (spent(0, 0, 0), spent(100, 20, 30), 60, Spent { unknown: 0, ..spent(60, 0, 0) }),
        (spent(50, 0, 0), spent(10, 0, 0), 60, Spent { unknown: 60, ..spent(0, 0, 0) }),
        (spent(0, 0, 0), spent(u64::MAX, u64::MAX, 0), 0, Spent::default()),
    ] {
        let found = now.since(before, nanos);
        assert_eq!(found, wanted);
        let sum = found.running + found.runnable + found.blocked + found.unknown;
        assert_eq!(sum, nanos);
    }
    let most = spent(u64::MAX, 1, 0).plus(spent(1, 1, 1));
    assert_eq!((most.running, most.runnable, most.blocked), (u64::MAX, 2, 1));
    assert!(!Spent { unknown: 5, ..Spent::default() }.is_known() && spent(0, 0, 1).is_known());
}
