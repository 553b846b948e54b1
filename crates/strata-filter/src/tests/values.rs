//! Tests of the records for which filters are true.

use std::collections::HashMap;

use crate::{Fields, Filter, Path, Pattern, Value};

/// A record whose fields are found by the spelling of their paths.
#[derive(Default)]
struct Record {
    name: &'static str,
    cpu: Option<u64>,
    loglevel: Option<i64>,
    fields: HashMap<&'static str, Value<'static>>,
    labels: HashMap<i128, &'static [&'static str]>,
}

impl Fields for Record {
    fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn cpu(&self) -> Option<u64> {
        self.cpu
    }

    fn loglevel(&self) -> Option<i64> {
        self.loglevel
    }

    fn field(&self, path: &Path) -> Option<Value<'_>> {
        self.fields.get(path.to_string().as_str()).copied()
    }

    fn label(&self, path: &Path, value: i128, pattern: &Pattern) -> Option<bool> {
        let labels = self.labels.get(&value).copied().unwrap_or_default();
        (path.to_string() == "state")
            .then(|| labels.iter().any(|label| pattern.matches(label.as_bytes())))
    }
}

fn record() -> Record {
    Record {
        name: "sched:switch",
        cpu: Some(3),
        loglevel: Some(-1),
        fields: HashMap::from([
            ("len", Value::Integer(4096)),
            ("big", Value::Integer(u64::MAX.into())),
            ("neg", Value::Integer(-1)),
            ("real", Value::Real(2.5)),
            ("nan", Value::Real(f64::NAN)),
            ("comm", Value::Text(b"nginx")),
            ("other", Value::Text(b"nginx")),
            ("raw", Value::Text(b"\xff\xfe")),
            ("array", Value::Other),
            ("array[1]", Value::Integer(7)),
            ("state", Value::Integer(1)),
            ("payload.name", Value::Text(b"eth0")),
        ]),
        labels: HashMap::from([(1, &["RUNNING", "ALIVE"][..])]),
    }
}

#[track_caller]
fn is(text: &str, wanted: Option<bool>) {
    let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{}", error.caret()));
    assert_eq!(filter.evaluate(&record()), wanted, "{text}");
}

fn is_true(text: &str) {
    is(text, Some(true));
}

fn is_false(text: &str) {
    is(text, Some(false));
}

fn is_unknown(text: &str) {
    is(text, None);
}

#[test]
fn integers_compare_by_value() {
    is_true("len == 4096 && len != 1 && len > 4095 && len >= 4096 && len < 4097 && len <= 4096");
    is_false("len == 1 || len != 4096 || len > 4096 || len >= 4097 || len < 4096 || len <= 4095");
    is_true("big > -1 && neg < 0 && neg < big && big == 18446744073709551615");
    is_false("neg == big || neg == 18446744073709551615");
    is_true("real > 2 && real < 3 && len > real && real == 2.5 && len == 4096.0");
    is_true("big < 18446744073709551616.0");
}

#[test]
fn nan_differs_from_all_numbers() {
    is_true("nan != nan && nan != 1");
    is_false("nan == nan || nan < 1 || nan > 1 || nan <= nan || nan in {-1e300 ... 1e300}");
}

#[test]
fn text_compares_with_patterns() {
    is_true("comm == \"nginx\" && comm == \"ng*\" && comm != \"ng\" && comm == other");
    is_false("comm == \"ng\" || comm != \"n?inx\" || comm != other");
    is_true("raw == \"\\xff\\xfe\" && raw == \"\\xff?\"");
    is_true("name == \"sched:*\" && sched:switch && !sched");
    is_true("payload.name == \"eth0\"");
}

#[test]
fn bits_are_tested_in_twos_complement() {
    is_true("len & 0x1000 && !(len & 1) && neg & 0x8000000000000000 && big & 1");
    is_true("(neg & 0xff) == 255 && (cpu & 2) == 2");
    is_unknown("comm & 1");
    is_unknown("real & 1");
}

#[test]
fn labels_compare_with_text() {
    is_true("state == \"RUNNING\" && state == \"AL*\" && state != \"DEAD\" && state == 1");
    is_false("state == \"DEAD\" || state != \"ALIVE\"");
    is_true("state in {\"DEAD\", \"RUNNING\"}");
    is_unknown("len == \"RUNNING\"");
}

#[test]
fn sets_and_ranges_are_comparisons_with_or() {
    is_true("len in {1, 4096} && len in {4096 ... 5000} && len in {1.5 ... 4096}");
    is_false("len in {1, 2} || len in {4097 ... 5000} || real in {3}");
    is_true("name in {\"a\", \"sched*\"} && cpu in {0 ... 3}");
    is_true("len in {\"x\", 4096}");
    is_unknown("len in {\"x\", 1}");
    is_unknown("absent in {1}");
}

#[test]
fn absent_fields_and_other_kinds_are_unknown() {
    for text in [
        "absent == 1",
        "absent != 1",
        "len == absent",
        "comm == 3",
        "comm != 3",
        "len == \"x\"",
        "comm == len",
        "comm < other",
        "array == 1",
        "array == array",
        "raw == len",
    ] {
        is_unknown(text);
        is_unknown(&format!("!({text})"));
    }
}

#[test]
fn unknown_is_neither_true_nor_false_in_conditions() {
    is_unknown("absent == 1 && len == 4096");
    is_false("absent == 1 && len == 1");
    is_false("len == 1 && absent == 1");
    is_true("absent == 1 || len == 4096");
    is_unknown("absent == 1 || len == 1");
    is_unknown("!(absent == 1) && !(absent == 2)");
}

#[test]
fn has_is_never_unknown() {
    is_true("has(len) && has(array) && has(array[1]) && !has(absent)");
    is_false("has(array[2])");
}

#[test]
fn specials_of_the_record() {
    is_true("cpu == 3 && loglevel < 0 && array[1] == 7");
    let filter = Filter::parse("cpu == 3 || loglevel == 3").unwrap();
    assert_eq!(filter.evaluate(&Record::default()), None);
}

#[test]
fn evaluation_stops_when_the_value_is_certain() {
    struct Never;
    impl Fields for Never {
        fn name(&self) -> &[u8] {
            b"a"
        }
        fn field(&self, path: &Path) -> Option<Value<'_>> {
            panic!("{path} was asked for")
        }
    }
    assert_eq!(Filter::parse("b && x == 1").unwrap().evaluate(&Never), Some(false));
    assert_eq!(Filter::parse("a || x == 1").unwrap().evaluate(&Never), Some(true));
    assert_eq!(Filter::parse("name in {\"a\", \"b\"}").unwrap().evaluate(&Never), Some(true));
}
