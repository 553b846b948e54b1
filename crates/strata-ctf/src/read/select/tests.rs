//! Tests that selections of event records follow the rules of the filter language.

use std::collections::HashMap;
use std::path::PathBuf;
use strata_random::Random;

use strata_filter::evaluate::Value as Seen;

use super::*;
use crate::model::schema::{self, FieldClass, Schema, Structure};
use crate::read::{Message, TimeRange, Visit};

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := u8;
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 64; align = 8; signed = false; } := u64;
typealias integer { size = 64; align = 8; signed = true; } := i64;
typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := f64;
trace {
    major = 1; minor = 8; byte_order = le;
    packet.header := struct { u32 magic; u32 stream_id; };
};
stream {
    id = 0;
    packet.context := struct { u64 content_size; u64 packet_size; u32 cpu_id; };
    event.header := struct { u8 id; };
    event.context := struct { u32 _vpid; };
};
event {
    name = "net:send"; id = 0; stream_id = 0; loglevel = 6;
    fields := struct {
        u64 _len; i64 _delta; f64 _load;
        enum : u8 { RUNNING = 0, WAITING = 1 ... 3, ALIVE = 0 ... 1, BUSY = 9 } _state;
        struct { u8 _port; } _head;
        string _comm; string _peer;
        u8 __data_length; u32 _data[__data_length];
        enum : u8 { NUMBER = 0, TEXT = 1 } _tag;
        variant <_tag> { u32 NUMBER; string TEXT; } _v;
    };
};
event {
    name = "net:name"; id = 1; stream_id = 0;
    fields := struct { string _name; u32 _cpu; };
};
event { name = "empty"; id = 2; stream_id = 0; };
event {
    name = "file:open"; id = 3; stream_id = 0;
    fields := struct {
        enum flags2__mode : u8 { RDONLY = 0, WRONLY = 1, RDWR = 2, SYNC = 12, DSYNC = 4, EXCL = 16 } _mode;
        enum flags0__bits : i64 { none = 0, A = 1, TOP = -9223372036854775808 } _bits;
    };
};
"#;

/// A record with one value of each kind.
struct Send<'a> {
    len: u64,
    delta: i64,
    load: f64,
    state: u8,
    port: u8,
    comm: &'a str,
    peer: &'a str,
    data: &'a [u32],
    number: Option<u32>,
}

const SEND: Send<'static> = Send {
    len: 4096,
    delta: -5,
    load: 2.5,
    state: 1,
    port: 80,
    comm: "nginx",
    peer: "nginx",
    data: &[7, 8],
    number: Some(3),
};

fn send(out: &mut Vec<u8>, vpid: u32, send: &Send<'_>) {
    out.push(0);
    out.extend(vpid.to_le_bytes());
    out.extend(send.len.to_le_bytes());
    out.extend(send.delta.to_le_bytes());
    out.extend(send.load.to_le_bytes());
    out.extend([send.state, send.port]);
    for text in [send.comm, send.peer] {
        out.extend(text.as_bytes());
        out.push(0);
    }
    out.push(send.data.len() as u8);
    send.data.iter().for_each(|element| out.extend(element.to_le_bytes()));
    match send.number {
        Some(number) => {
            out.push(0);
            out.extend(number.to_le_bytes());
        }
        None => out.extend(b"\x01text\0"),
    }
}

fn name(out: &mut Vec<u8>, vpid: u32, name: &str, cpu: u32) {
    out.push(1);
    out.extend(vpid.to_le_bytes());
    out.extend(name.as_bytes());
    out.push(0);
    out.extend(cpu.to_le_bytes());
}

fn empty(out: &mut Vec<u8>, vpid: u32) {
    out.push(2);
    out.extend(vpid.to_le_bytes());
}

fn open(out: &mut Vec<u8>, mode: u8, bits: i64) {
    out.push(3);
    out.extend(7_u32.to_le_bytes());
    out.push(mode);
    out.extend(bits.to_le_bytes());
}

#[test]
fn flags_select_what_has_them_and_other_flags() {
    let mut records = Vec::new();
    for (mode, bits) in [(0, 0), (1, 1), (2, -1), (4, i64::MIN), (14, 2), (17, 3), (3, 1)] {
        open(&mut records, mode, bits);
    }
    empty(&mut records, 1);
    let trace = TestTrace::new("flags", &records);
    let reader = trace.reader();
    for (filter, expected) in [
        ("mode == \"RDONLY\"", &[0, 3][..]),
        ("mode == \"RDWR\"", &[2, 4]),
        ("mode == \"DSYNC\"", &[3, 4]),
        ("mode == \"SYNC\"", &[4]),
        ("mode == \"*SYNC\" && mode != \"SYNC\"", &[3]),
        ("mode != \"RDONLY\"", &[1, 2, 4, 5, 6]),
        ("!(mode in {\"RDONLY\", \"WRONLY\"})", &[2, 4, 6]),
        ("mode in {\"EXCL\", 3, 4}", &[3, 5, 6]),
        ("mode == \"NOTHING\"", &[]),
        ("mode & 4 == 4", &[3, 4]),
        ("bits == \"A\"", &[1, 2, 5, 6]),
        ("bits == \"none\"", &[0]),
        ("bits == \"TOP\"", &[2, 3]),
        ("bits != \"*\"", &[4]),
    ] {
        assert_eq!(selected(&reader, filter), expected, "{filter}");
    }
}

/// A trace of one packet of CPU 3, in a folder that is removed at the end.
struct TestTrace(PathBuf);

impl TestTrace {
    fn new(test: &str, records: &[u8]) -> TestTrace {
        let folder = std::env::temp_dir().join(format!("strata-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("metadata"), METADATA).expect("the metadata");
        let mut packet = Vec::new();
        packet.extend(0xc1fc_1fc1_u32.to_le_bytes());
        packet.extend(0_u32.to_le_bytes());
        let bits = (28 + records.len() as u64) * 8;
        packet.extend(bits.to_le_bytes());
        packet.extend(bits.to_le_bytes());
        packet.extend(3_u32.to_le_bytes());
        packet.extend(records);
        std::fs::write(folder.join("stream"), packet).expect("a stream");
        TestTrace(folder)
    }

    fn reader(&self) -> Reader {
        Reader::open(&[&self.0]).expect("a trace")
    }
}

impl Drop for TestTrace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the numbers of the records that the filter selects.
fn selected(reader: &Reader, filter: &str) -> Vec<usize> {
    let filter = Filter::parse(filter).unwrap_or_else(|error| panic!("{}", error.caret()));
    let mut selection = Selection::new(&filter);
    let mut selected = Vec::new();
    each(reader, |number, event| {
        if selection.accepts(&event) {
            selected.push(number);
        }
    });
    selected
}

fn each(reader: &Reader, mut look: impl FnMut(usize, Event<'_>)) -> usize {
    let mut events = reader.events(TimeRange::ALL);
    let mut number = 0;
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) => {
                look(number, event);
                number += 1;
            }
            Message::Damage(damage) => panic!("{damage}"),
            _ => (),
        }
    }
    number
}

fn three() -> Vec<u8> {
    let mut records = Vec::new();
    send(&mut records, 100, &SEND);
    name(&mut records, 200, "eth0", 9);
    empty(&mut records, 300);
    records
}

#[test]
fn selection_by_names_is_constant() {
    let trace = TestTrace::new("select-names", &three());
    let reader = trace.reader();
    assert_eq!(selected(&reader, "net:*"), [0, 1]);
    assert_eq!(selected(&reader, "!net:*"), [2]);
    assert_eq!(selected(&reader, "name in {\"empty\", \"net:name\"}"), [1, 2]);
    assert_eq!(selected(&reader, "loglevel == 6"), [0]);
    assert_eq!(selected(&reader, "!(loglevel == 7)"), [0], "no log level: unknown");
    assert_eq!(selected(&reader, "loglevel & 4 && loglevel in {1 ... 10}"), [0]);
}

#[test]
fn selection_by_fields_of_all_kinds() {
    let trace = TestTrace::new("select-fields", &three());
    let reader = trace.reader();
    for filter in [
        "len > 4095 && len == 4096.0 && len & 0x1000 && !(len < 4096)",
        "delta < 0 && delta == -5 && delta in {-6 ... -4} && delta < len && delta & 0x8000000000000000",
        "load == 2.5 && load > 2 && load != 3 && load in {1 ... 2.5} && load < len",
        "state == \"WAITING\" && state == \"ALIVE\" && state != \"BUSY\" && state == 1",
        "state in {\"BUSY\", \"WAIT*\"} && !(state in {\"BUSY\", 7})",
        "head.port == 80 && has(head) && has(data[1]) && !has(data[2]) && data[1] == 8",
        "comm == \"ngin?\" && comm == peer && comm != \"x\" && payload.comm == \"*x\"",
        "v.NUMBER == 3 && !has(v.TEXT) && has(v)",
        "$ctx.vpid == 100 && context.vpid != 7 && vpid in {1, 100}",
        "name != comm && net:send",
    ] {
        assert_eq!(selected(&reader, filter), [0], "{filter}");
    }
    assert_eq!(selected(&reader, "payload.name == \"eth*\" && payload.cpu == 9"), [1]);
    assert_eq!(selected(&reader, "cpu == 3 && packet.cpu_id == 3 && header.magic > 5"), [0, 1, 2]);
    assert_eq!(selected(&reader, "header.id == 2"), [2]);
    assert_eq!(selected(&reader, "cpu & 4 || cpu in {1, 5 ... 9}"), [0usize; 0]);
    assert_eq!(selected(&reader, "cpu < payload.cpu"), [1]);
}

#[test]
fn selection_of_what_is_unknown_is_empty() {
    let trace = TestTrace::new("select-unknown", &three());
    let reader = trace.reader();
    for filter in [
        "absent == 1",
        "!(absent == 1)",
        "comm == 4096",
        "comm != 4096",
        "len == \"x\"",
        "len != \"x\"",
        "comm & 1",
        "comm < peer",
        "comm == len",
        "head == 1",
        "head == head",
        "!(data == 1)",
        "data[2] == 1",
        "data[2] != 1",
        "!(v.TEXT == \"a\")",
        "net:send && !(len in {\"x\", 1})",
        "context.len == 1 || payload.vpid == 1",
        "has(absent)",
    ] {
        assert_eq!(selected(&reader, filter), [0usize; 0], "{filter}");
    }
    assert_eq!(selected(&reader, "len in {\"x\", 4096}"), [0]);
}

#[test]
fn plan_of_a_class_that_cannot_match_is_never() {
    let trace = TestTrace::new("select-never", &three());
    let reader = trace.reader();
    let plans = |filter: &str| {
        let mut selection = Selection::new(&Filter::parse(filter).expect("a filter"));
        let mut plans = Vec::new();
        each(&reader, |_, event| {
            selection.accepts(&event);
            let plan = selection.plans[event.class().index()].clone();
            assert_eq!(selection.may_accept(event.class()), !matches!(plan, ClassSelection::Never));
            plans.push(match plan {
                ClassSelection::Never => "never",
                ClassSelection::Always => "always",
                ClassSelection::Ask(_) => "ask",
                ClassSelection::NotYet => "not yet",
            });
        });
        plans
    };
    assert_eq!(plans("net:send && len > 3"), ["ask", "never", "never"]);
    assert_eq!(plans("len > 3 || empty"), ["ask", "never", "always"]);
    assert_eq!(plans("!(net:* && len > 3)"), ["ask", "never", "always"]);
    assert_eq!(plans("net:send || net:name || loglevel == 6"), ["always", "always", "never"]);
    let mut fresh = Selection::new(&Filter::parse("net:send").expect("a filter"));
    let mut may = Vec::new();
    each(&reader, |_, event| may.push(fresh.may_accept(event.class())));
    assert_eq!(may, [true, false, false]);
    assert_eq!(plans("comm == 3 || has(absent) || state == comm"), ["never"; 3]);
}

#[test]
fn check_names_what_no_event_has() {
    let trace = TestTrace::new("select-check", &three());
    let reader = trace.reader();
    let hints = |filter: &str| -> Vec<String> {
        let filter = Filter::parse(filter).expect("a filter");
        Selection::check(&filter, &reader, &|_, _, _| false)
            .iter()
            .map(|hint| hint.what.to_string())
            .collect()
    };
    for good in [
        "net:* && len > 3 && data[3] == 1 && v.TEXT == \"x\" && head.port == 1",
        "vpid == 1 && context.vpid == 1 && packet.cpu_id == 3 && header.id == 1 && cpu == 3",
        "state == \"BUSY\" || loglevel == 6 || payload.name == \"x\"",
    ] {
        assert_eq!(hints(good), [""; 0], "{good}");
    }
    assert_eq!(
        hints("net:send && lenn == 3"),
        ["no event of these traces has a field 'lenn'; similar: 'len'"]
    );
    assert_eq!(hints("len > 3 && len < 2 && net:send").len(), 1);
    assert_eq!(
        hints("state == \"BUZY\""),
        ["'state' has no label 'BUZY' in these traces; similar: 'BUSY'"]
    );
    assert_eq!(
        hints("comm == 3"),
        ["'comm' is text in these traces; compared with a number it is never true"]
    );
}

#[test]
fn malicious_number_of_names_gives_no_hints_and_ends() {
    let integer = schema::Integer {
        width: schema::Width::Bits(8),
        align: 8,
        signed: false,
        byte_order: crate::model::ByteOrder::Little,
        base: crate::model::Base::Ten,
        is_bool: false,
        clock: None,
        role: None,
        labels: None,
        flags: None,
        is_bit_map: false,
        is_reversed: false,
    };
    let class = FieldClass::Integer(integer);
    let member = |index: usize| schema::Member { name: format!("f{index}"), class: class.clone() };
    let context = Structure { align: 1, members: (0..20_000).map(member).collect() };
    let stream = schema::StreamClass {
        event_common_context: Some(context),
        events: vec![schema::EventClass::default(); 20_000],
        ..schema::StreamClass::default()
    };
    let schema = Schema { streams: vec![stream], ..Schema::default() };
    let mut known = KnownClasses::default();
    assert!(!known.add(&schema, &|_, _, _| false));
    assert!(known.classes.len() < 100, "{} classes", known.classes.len());
}

#[test]
fn malicious_names_in_front_of_each_other_give_no_hints_and_take_little() {
    let member = |name: String, class| schema::Member { name, class };
    let leaves = (0..20_000).map(|index| member(format!("f{index}"), FieldClass::String));
    let mut structure = Structure { align: 1, members: leaves.collect() };
    for _ in 0..60 {
        let inside = member("x".repeat(1000), FieldClass::Structure(structure));
        structure = Structure { align: 1, members: vec![inside] };
    }
    let event = schema::EventClass { payload: Some(structure), ..schema::EventClass::default() };
    let stream = schema::StreamClass { events: vec![event], ..schema::StreamClass::default() };
    let mut known = KnownClasses::default();
    assert!(!known.add(&Schema { streams: vec![stream], ..Schema::default() }, &|_, _, _| false));
    let bytes: usize = known.classes[0].fields.iter().map(|field| field.path.len()).sum();
    assert!(bytes < 64 << 20, "{bytes} bytes of names");
}

/// A record as a visitor sees it, for comparison with the selection.
#[derive(Default)]
struct Visited {
    name: String,
    cpu: Option<u64>,
    loglevel: Option<i64>,
    fields: HashMap<(&'static str, String), (Owned, Vec<String>)>,
    root: &'static str,
    above: Vec<(String, u64)>,
    wrapped: usize,
}

enum Owned {
    Integer(i128),
    Real(f64),
    Text(Vec<u8>),
    Other,
}

impl Visited {
    fn new(event: &Event<'_>) -> Visited {
        let mut visited = Visited {
            name: event.class().name().to_string(),
            cpu: event.packet().cpu,
            loglevel: event.class().loglevel(),
            ..Visited::default()
        };
        for (root, scope) in [
            ("payload", Scope::Payload),
            ("context", Scope::SpecificContext),
            ("context", Scope::CommonContext),
            ("packet", Scope::PacketContext),
            ("header", Scope::EventHeader),
            ("header", Scope::PacketHeader),
        ] {
            visited.root = root;
            event.visit(scope, &mut visited);
        }
        visited
    }

    /// Returns the path of the field that is being visited.
    fn path(&mut self, field: &FieldInfo) -> String {
        let above = self.above.last_mut();
        match above {
            Some((above, next)) if field.is_element() => {
                *next += 1;
                format!("{above}[{}]", *next - 1)
            }
            Some((above, _)) => format!("{above}.{}", field.name()),
            None => field.name().to_string(),
        }
    }

    fn add(&mut self, field: &FieldInfo, value: Owned) {
        let labels = match value {
            Owned::Integer(value) => field.labels_of(value).map(String::from).collect(),
            _ => Vec::new(),
        };
        let path = self.path(field);
        self.fields.entry((self.root, path)).or_insert((value, labels));
    }

    fn open(&mut self, field: &FieldInfo) {
        self.wrapped += 1;
        let path = self.path(field);
        self.fields.entry((self.root, path.clone())).or_insert((Owned::Other, Vec::new()));
        self.above.push((path, 0));
    }
}

impl Visit for Visited {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        self.add(field, Owned::Integer(value.into()));
    }
    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.add(field, Owned::Integer(value.into()));
    }
    fn real(&mut self, field: &FieldInfo, value: f64) {
        self.add(field, Owned::Real(value));
    }
    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.add(field, Owned::Text(bytes.to_vec()));
    }
    fn begin_structure(&mut self, field: &FieldInfo) {
        self.open(field);
    }
    fn end_structure(&mut self, _: &FieldInfo) {
        self.above.pop();
    }
    fn begin_array(&mut self, field: &FieldInfo, _: u64) {
        self.open(field);
    }
    fn end_array(&mut self, _: &FieldInfo) {
        self.above.pop();
    }
    fn begin_variant(&mut self, field: &FieldInfo, _: &str) {
        self.open(field);
    }
    fn end_variant(&mut self, _: &FieldInfo) {
        self.above.pop();
    }
}

impl Visited {
    fn get(&self, path: &Path) -> Option<&(Owned, Vec<String>)> {
        let roots: &[&'static str] = match path.root {
            Root::Any => &["payload", "context", "packet", "header"],
            Root::Payload => &["payload"],
            Root::Context => &["context"],
            Root::Packet => &["packet"],
            Root::Header => &["header"],
        };
        roots.iter().find_map(|root| self.fields.get(&(*root, below_root(path))))
    }
}

impl Fields for Visited {
    fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }
    fn cpu(&self) -> Option<u64> {
        self.cpu
    }
    fn loglevel(&self) -> Option<i64> {
        self.loglevel
    }
    fn field(&self, path: &Path) -> Option<Seen<'_>> {
        Some(match &self.get(path)?.0 {
            Owned::Integer(value) => Seen::Integer(*value),
            Owned::Real(value) => Seen::Real(*value),
            Owned::Text(text) => Seen::Text(text),
            Owned::Other => Seen::Other,
        })
    }
    fn label(&self, path: &Path, _: i128, pattern: &Pattern) -> Option<bool> {
        let text = path.to_string();
        let labels = &self.get(path)?.1;
        (text.ends_with("state") || text.ends_with("tag"))
            .then(|| labels.iter().any(|label| pattern.matches(label.as_bytes())))
    }
}

const TERMS: [&str; 24] = [
    "len",
    "len",
    "delta",
    "delta",
    "load",
    "load",
    "state",
    "state",
    "head.port",
    "comm",
    "peer",
    "data",
    "data[0]",
    "data[2]",
    "tag",
    "v.NUMBER",
    "v.TEXT",
    "vpid",
    "cpu",
    "loglevel",
    "name",
    "payload.cpu",
    "header.id",
    "absent",
];
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "2",
    "3",
    "80",
    "-1",
    "-5",
    "2.5",
    "2.0",
    "1e30",
    "-1e30",
    "18446744073709551615",
    "-9223372036854775808",
    "9223372036854775808",
    "1.8446744073709552e19",
    "-0.5",
];
const TEXTS: [&str; 8] =
    ["\"nginx\"", "\"n*\"", "\"*\"", "\"WAITING\"", "\"*ING\"", "\"NUMBER\"", "\"net:*\"", "\"\""];

/// Makes any condition that can be parsed, including terms and constants that do not fit each other.
fn condition(random: &mut Random, depth: usize) -> String {
    if depth > 0 && random.pick(&[true, true, false]) {
        let (left, right) = (condition(random, depth - 1), condition(random, depth - 1));
        return match random.pick(&[0, 1, 2]) {
            0 => format!("({left} && {right})"),
            1 => format!("({left} || {right})"),
            _ => format!("!({left})"),
        };
    }
    let text = loop {
        let term = random.pick(&TERMS);
        let op = random.pick(&["==", "!=", "<", "<=", ">", ">="]);
        let (number, text) = (random.pick(&NUMBERS), random.pick(&TEXTS));
        let text = match random.pick(&[0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7]) {
            0 => format!("{term} {op} {number}"),
            1 => format!("{term} {op} {text}"),
            2 => format!("{term} {op} {}", random.pick(&TERMS)),
            3 => format!(
                "{term} & {} {op} {number}",
                random.pick(&["1", "0x1000", "0xffffffffffffffff"])
            ),
            4 => format!("{term} in {{{number}, {}}}", random.pick(&NUMBERS)),
            5 => format!("{term} in {{{number} ... {}, {text}}}", random.pick(&NUMBERS)),
            6 => format!("has({term})"),
            _ => random.pick(&["net:*", "net:send", "empty", "net:nam?"]).to_string(),
        };
        if Filter::parse(&text).is_ok() {
            break text;
        }
    };
    text
}

#[test]
fn random_filters_select_what_the_rules_say() {
    let mut random = Random::new();
    let mut records = Vec::new();
    for _ in 0..60 {
        let vpid = random.pick(&[0, 1, 2, 80]);
        match random.pick(&[0, 0, 0, 1, 2]) {
            0 => {
                let record = Send {
                    len: random.pick(&[0, 1, 2, 3, 4096, u64::MAX, 1 << 63]),
                    delta: random.pick(&[0, 1, 2, -1, -5, i64::MIN, i64::MAX]),
                    load: random.pick(&[0.0, 2.0, 2.5, -0.5, f64::NAN, f64::INFINITY, 1e30]),
                    state: random.pick(&[0, 1, 2, 3, 4, 9]),
                    port: random.pick(&[1, 80]),
                    comm: random.pick(&["nginx", "", "n", "WAITING"]),
                    peer: random.pick(&["nginx", "", "n"]),
                    data: random.pick(&[&[][..], &[1], &[1, 2, 3]]),
                    number: random.pick(&[None, Some(3), Some(80)]),
                };
                send(&mut records, vpid, &record);
            }
            1 => name(&mut records, vpid, random.pick(&["nginx", ""]), random.pick(&[1, 3, 80])),
            _ => empty(&mut records, vpid),
        }
    }
    let trace = TestTrace::new("select-random", &records);
    let reader = trace.reader();
    let mut visited = Vec::new();
    each(&reader, |_, event| visited.push(Visited::new(&event)));
    assert_eq!(visited.len(), 60);
    assert!(visited.iter().any(|record| record.wrapped > 0));

    let (mut selections, mut hits) = (0, 0);
    for _ in 0..3000 {
        let depth = random.pick(&[0, 1, 2, 3]);
        let text = condition(&mut random, depth);
        let filter = Filter::parse(&text).unwrap_or_else(|error| panic!("{}", error.caret()));
        let wanted: Vec<usize> =
            (0..60).filter(|&number| filter.evaluate(&visited[number]) == Some(true)).collect();
        assert_eq!(selected(&reader, &text), wanted, "{text}");
        selections += 1;
        hits += usize::from(!wanted.is_empty() && wanted.len() < 60);
    }
    assert!(hits * 5 > selections, "only {hits} of {selections} select some records and not all");
}
