//! Tests of whole event records as text, JSON and CSV, with traces written by hand.

use strata_ctf::read::{Message, TimeRange};

use std::sync::Arc;

use super::{ClockStyle, FieldList, Format, Head, Lines, Options, Renderer, ThreadNames, TimeZone};
use crate::hand_tests::V::{Text, U32, U64};
use crate::hand_tests::{metadata, Hand, Packets, ORIGIN};

const APPLICATION: &str = "hostname = \"box\"; domain = \"ust\"; procname = \"app\"; vpid = 7;";

/// Makes a trace of two packets with a loss between them.
fn hand() -> Hand {
    let text = metadata(APPLICATION, "u32 vtid;", &[("a:x", "u64 n;"), ("a:\"t\"", "string t;")]);
    let text = text.replace("name = \"a:x\";", "name = \"a:x\"; loglevel = 4;");
    let stream = Packets::new(3)
        .packet(&[(0, 10, &[U32(8), U64(1)]), (1, 1_000_000_010, &[U32(8), Text("a,\"b\"")])])
        .discards(2)
        .packet(&[(0, 1_000_000_010, &[U32(9), U64(2)])]);
    let hand = Hand::new();
    hand.trace("t", &text.replace("\"a:\"t\"\"", "\"a:\\\"t\\\"\""), &[stream]);
    hand
}

fn rendered(hand: &Hand, options: &Options) -> String {
    let reader = hand.reader();
    let mut renderer = Renderer::new(options);
    let mut head = Vec::new();
    renderer.head(&mut head);
    let mut out = Lines::default();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) => renderer.event_of_many(&event, &mut out),
            Message::Discarded(discarded) => renderer.discarded(&discarded, &mut out),
            Message::Damage(damage) => panic!("{damage}"),
            Message::Packet(_) => {}
        }
    }
    String::from_utf8([&head[..], out.as_bytes()].concat()).unwrap()
}

fn fields(names: &[&str]) -> Option<FieldList> {
    Some(FieldList::new(names))
}

#[test]
fn text_has_the_time_the_delta_the_head_and_all_parts() {
    let hand = hand();
    assert_eq!(
        rendered(&hand, &Options::default()),
        "[22:13:20.000000010] (+?.?????????) box:app:(7) a:x: { cpu_id = 3 }, { vtid = 8 }, { n = 1 }\n\
         [22:13:21.000000010] (+1.000000000) box:app:(7) a:\"t\": { cpu_id = 3 }, { vtid = 8 }, \
         { t = \"a,\\\"b\\\"\" }\n\
         [22:13:21.000000010] (+0.000000000) box:app:(7) a:x: { cpu_id = 3 }, { vtid = 9 }, { n = 2 }\n"
    );
}

#[test]
fn text_without_delta_or_time_and_of_some_fields_has_no_more_than_that() {
    let hand = hand();
    let options = Options { delta: false, fields: fields(&["n"]), ..Options::default() };
    for (clock, first) in [
        (ClockStyle::None, "box:app:(7) a:x: { n = 1 }"),
        (ClockStyle::Cycles, "[00000000000000000010] box:app:(7) a:x: { n = 1 }"),
        (ClockStyle::Seconds, "[1700000000.000000010] box:app:(7) a:x: { n = 1 }"),
    ] {
        let text = rendered(&hand, &Options { clock: Some(clock), ..options.clone() });
        assert_eq!(text.lines().next().unwrap(), first, "{clock:?}");
        assert_eq!(text.lines().count(), 3);
        // No field of this name: nothing but the name.
        assert!(text.lines().nth(1).unwrap().ends_with("a:\"t\": "), "{text}");
    }
    let zone = TimeZone::posix("IST-5:30").unwrap();
    let text = rendered(&hand, &Options { zone, ..options });
    assert!(text.starts_with("[03:43:20.000000010] "), "{text}");
}

#[test]
fn head_that_was_asked_for_is_in_its_order_in_each_format() {
    let hand = hand();
    let (head, rest) = Head::split(&["trace:domain", "loglevel", "trace:vpid", "n"]);
    let options = Options {
        head,
        fields: Some(FieldList::new(&rest)),
        clock: Some(ClockStyle::None),
        ..Options::default()
    };
    let text = rendered(&hand, &options);
    assert!(text.starts_with("ust:(7):TRACE_WARNING (4) a:x: { n = 1 }\nust:(7) a:"), "{text}");
    let json = rendered(&hand, &Options { format: Format::Json, ..options.clone() });
    let first = "{\"domain\":\"ust\",\"vpid\":7,\"loglevel\":4,\"cpu\":3,\"name\":\"a:x\",\
                 \"payload\":{\"n\":1}}";
    assert_eq!(json.lines().next().unwrap(), first);
    assert!(!json.lines().nth(1).unwrap().contains("loglevel"), "{json}");
    let csv = rendered(&hand, &Options { format: Format::Csv, ..options });
    let mut rows = csv.split("\r\n");
    assert_eq!(rows.next(), Some("host,process,vpid,domain,loglevel,cpu,name,n"));
    assert_eq!(rows.next(), Some(",,7,ust,4,3,a:x,1"));
    assert_eq!(rows.next(), Some(",,7,ust,,3,\"a:\"\"t\"\"\","));
}

#[test]
fn json_has_numbers_dates_and_names_that_are_read_back_as_they_are() {
    let hand = hand();
    let options = Options { format: Format::Json, fields: fields(&["t"]), ..Options::default() };
    let json = rendered(&hand, &options);
    let mut lines = json.lines();
    assert_eq!(
        lines.next().unwrap(),
        format!(
            "{{\"time\":{},\"date\":\"2023-11-14T22:13:20.000000010Z\",\"host\":\"box\",\
             \"process\":\"app\",\"vpid\":7,\"cpu\":3,\"name\":\"a:x\"}}",
            ORIGIN + 10
        )
    );
    let second = lines.next().unwrap();
    let wanted = "\"name\":\"a:\\\"t\\\"\",\"payload\":{\"t\":\"a,\\\"b\\\"\"}}";
    assert!(second.ends_with(wanted), "{second}");
    // Times that are not wanted are not there; cycles are, in place of them or beside them.
    for (clock, has_time, has_cycles) in
        [(ClockStyle::None, false, false), (ClockStyle::Cycles, true, true)]
    {
        let json = rendered(&hand, &Options { clock: Some(clock), ..options.clone() });
        assert_eq!(json.contains("\"time\":"), has_time, "{clock:?}: {json}");
        assert_eq!(json.contains("\"cycles\":10,"), has_cycles, "{clock:?}: {json}");
    }
}

#[test]
fn csv_without_a_list_has_all_fields_in_one_column_of_json() {
    let hand = hand();
    let options = Options { format: Format::Csv, ..Options::default() };
    let csv = rendered(&hand, &options);
    let mut rows = csv.split("\r\n");
    assert_eq!(rows.next(), Some("time,host,process,vpid,cpu,name,fields"));
    let first = rows.next().unwrap();
    assert!(
        first.starts_with("1700000000.000000010,box,app,7,3,a:x,\"{\"\"packet\"\":{"),
        "{first}"
    );
    assert!(
        first.ends_with("\"\"common\"\":{\"\"vtid\"\":8},\"\"payload\"\":{\"\"n\"\":1}}\""),
        "{first}"
    );
    // Nothing that was asked for: an empty column for each.
    let list = fields(&["no", "payload.no"]);
    let csv = rendered(&hand, &Options { fields: list, clock: Some(ClockStyle::None), ..options });
    assert_eq!(csv.split("\r\n").nth(1), Some("box,app,7,3,a:x,,"));
}

#[test]
fn loss_is_a_line_of_its_own_in_text_where_it_is_wanted_and_nowhere_else() {
    let hand = hand();
    let with = |losses, format, colours, clock| {
        let options = Options { losses, format, colours, clock, ..Options::default() };
        rendered(&hand, &options)
    };
    let marks = |text: &str| text.lines().filter(|line| line.contains("discarded")).count();
    let text = with(true, Format::Text, false, None);
    assert_eq!(marks(&text), 1);
    let wanted =
        "--- 2 event records discarded between 22:13:21.000000010 and 22:13:21.000000010, \
                  stream 's0' ---\n";
    assert!(text.contains(wanted), "{text}");
    // Where records have no time, a loss still has one.
    for clock in [ClockStyle::None, ClockStyle::Cycles] {
        assert!(with(true, Format::Text, false, Some(clock)).contains(wanted), "{clock:?}");
    }
    let coloured = with(true, Format::Text, true, None);
    assert!(coloured.contains(&format!("\x1b[1;31m{}\x1b[0m\n", wanted.trim_end())), "{coloured}");
    for (losses, format) in [(false, Format::Text), (true, Format::Json), (true, Format::Csv)] {
        assert_eq!(marks(&with(losses, format, false, None)), 0, "{format:?}");
    }
}

#[test]
fn delta_that_is_not_known_is_left_out_and_filled_in_later() {
    let hand = hand();
    let reader = hand.reader();
    let options = Options { fields: fields(&["n"]), ..Options::default() };
    let whole = rendered(&hand, &options);
    let mut renderer = Renderer::new(&options);
    let mut out = b"before ".to_vec();
    let before = out.len();
    renderer.begin_slice();
    assert_eq!((renderer.take_gap(), renderer.last()), (None, None));
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        if let Message::Event(event) = message {
            renderer.event(&event, &mut out);
        }
    }
    // One gap, of the first record, wherever the text stands.
    let gap = renderer.take_gap().unwrap();
    assert_eq!((renderer.take_gap(), gap.stamp.ns), (None, ORIGIN + 10));
    let mut delta = Vec::new();
    renderer.fill(&gap, None, &mut delta);
    out.splice(gap.at..gap.at, delta);
    assert_eq!(String::from_utf8(out.split_off(before)).unwrap(), whole);
    assert_eq!(renderer.last().unwrap().ns, ORIGIN + 1_000_000_010);
}

#[test]
fn malicious_names_in_the_environment_command_no_terminal() {
    let hand = Hand::new();
    let environment = "hostname = \"b\\x1b[2Jx\"; procname = \"p,\\x07\"; vpid = -1;";
    let text = metadata(environment, "", &[("a:x", "u64 n;")]);
    hand.trace("t", &text, &[Packets::new(0).packet(&[(0, 10, &[U64(1)])])]);
    for format in [Format::Text, Format::Json, Format::Csv] {
        let options = Options { format, tame: true, ..Options::default() };
        let text = rendered(&hand, &options);
        let commands = text.chars().filter(|one| one.is_control() && !"\r\n".contains(*one));
        assert_eq!(commands.count(), 0, "{text:?}");
        assert!(text.contains("-1"), "{text}");
    }
    let bare = rendered(&hand, &Options { format: Format::Json, ..Options::default() });
    assert!(bare.contains("\"b\\u001b[2Jx\"") && bare.contains("\"p,\\u0007\""), "{bare}");
}

#[test]
fn thread_names_are_those_of_the_time_and_of_the_trace_whichever_stream_tells_them() {
    let events = [("a:x", "u64 n;"), ("strata:thread_name", "u32 tid; string name;")];
    let environment = format!("{APPLICATION} thread_name_9 = \"before\";");
    let text = metadata(&environment, "u32 vtid;", &events);
    let named = |at, tid, name| (1, at, vec![U32(tid), U32(tid), Text(name)]);
    let told = [named(10, 8, "one"), named(30, 8, "tw\"o"), named(50, 9, "")];
    let told: Vec<_> = told.iter().map(|(id, at, fields)| (*id, *at, &fields[..])).collect();
    let shown = [5, 20, 40, 60].map(|at| (at, [U32(8), U64(at)], [U32(9), U64(at)]));
    let shown: Vec<_> =
        shown.iter().flat_map(|(at, a, b)| [(0, *at, &a[..]), (0, *at, &b[..])]).collect();
    let hand = Hand::new();
    hand.trace("t", &text, &[Packets::new(0).packet(&told), Packets::new(1).packet(&shown)]);
    // Of another trace no name is known, though it has threads of the same numbers.
    hand.trace(
        "u",
        &metadata(APPLICATION, "u32 vtid;", &events),
        &[Packets::new(1).packet(&shown)],
    );
    let reader = hand.reader();
    let names = |threads| Some(Arc::new(ThreadNames::read(&reader, threads, &|| false)));
    for threads in [1, 3] {
        let options = Options {
            format: Format::Csv,
            clock: Some(ClockStyle::None),
            fields: fields(&["vtid", "n", "thread_name"]),
            thread_names: names(threads),
            ..Options::default()
        };
        let rows = rendered(&hand, &options);
        let found: Vec<_> = rows.lines().filter(|row| row.contains(",a:x,")).collect();
        let found: Vec<_> = found.iter().map(|row| row.split(",a:x,").nth(1).unwrap()).collect();
        let of_t =
            ["8,5,", "9,5,before", "8,20,one", "9,20,before", "8,40,\"tw\"\"o\"", "9,40,before"];
        let mut wanted = [&of_t[..], &["8,60,\"tw\"\"o\"", "9,60,"]].concat();
        wanted.extend(["8,5,", "9,5,", "8,20,", "9,20,", "8,40,", "9,40,", "8,60,", "9,60,"]);
        let sorted = |mut rows: Vec<&str>| {
            rows.sort_unstable();
            rows.join(" ")
        };
        assert_eq!(sorted(found), sorted(wanted));
    }
    let options =
        Options { clock: Some(ClockStyle::None), thread_names: names(2), ..Options::default() };
    let text = rendered(&hand, &options);
    assert!(text.contains("{ vtid = 8, thread_name = \"tw\\\"o\" }, { n = 60 }"), "{text}");
    assert!(text.contains("{ vtid = 9 }, { n = 60 }"), "{text}");
    let json = rendered(&hand, &Options { format: Format::Json, ..options });
    assert!(
        json.contains(r#""common":{"vtid":8,"thread_name":"tw\"o"},"payload":{"n":60}"#),
        "{json}"
    );
}

#[test]
fn thread_names_of_a_kernel_trace_are_those_of_its_switches() {
    let events =
        [("sched_switch", "string prev_comm; u32 prev_tid; string next_comm; u32 next_tid;")];
    let text = metadata("domain = \"kernel\";", "u32 tid;", &events);
    let switch = [U32(1), Text("one"), U32(1), Text("two"), U32(2)];
    let back = [U32(2), Text("new"), U32(2), Text("one"), U32(1)];
    let hand = Hand::new();
    hand.trace("k", &text, &[Packets::new(0).packet(&[(0, 10, &switch), (0, 20, &back)])]);
    let names = Arc::new(ThreadNames::read(&hand.reader(), 1, &|| false));
    let text = rendered(&hand, &Options { thread_names: Some(names), ..Options::default() });
    assert!(text.contains("{ tid = 1, thread_name = \"one\" }, { prev_comm = \"one\""), "{text}");
    assert!(text.contains("{ tid = 2, thread_name = \"new\" }, { prev_comm = \"new\""), "{text}");
}
