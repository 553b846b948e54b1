//! Tests that no hint calls a filter impossible that can select: random filters, on all records that a class can have.

use crate::{Class, ClassField, ClassFieldKind, Fields, Filter, Path, Root, Value};
use strata_random::Random;

struct Record([Value<'static>; 4]);

const NAMES: [&str; 4] = ["a", "b", "r", "t"];

impl Fields for Record {
    fn name(&self) -> &[u8] {
        b"e"
    }

    fn field(&self, path: &Path) -> Option<Value<'_>> {
        let index = NAMES.iter().position(|name| *name == path.to_string())?;
        Some(self.0[index])
    }
}

fn class() -> Class {
    let kinds = [
        ClassFieldKind::Integer((0, 5)),
        ClassFieldKind::Integer((-2, 2)),
        ClassFieldKind::Real,
        ClassFieldKind::Text,
    ];
    let field = |(path, kind): (&&str, ClassFieldKind)| ClassField {
        root: Root::Payload,
        path: (*path).to_string(),
        kind,
    };
    let fields = NAMES.iter().zip(kinds).map(field).collect();
    Class { name: "e".to_string(), fields, ..Class::default() }
}

fn records() -> Vec<Record> {
    let mut all = Vec::new();
    for a in 0..=5 {
        for b in -2..=2 {
            for r in [-1.0, 0.5, 2.0, f64::NAN] {
                for t in ["x", "xy", "z"] {
                    let text = Value::Text(t.as_bytes());
                    all.push(Record([Value::Integer(a), Value::Integer(b), Value::Real(r), text]));
                }
            }
        }
    }
    all
}

fn leaf(random: &mut Random) -> String {
    let op = random.pick(&["==", "!=", "<", "<=", ">", ">="]);
    let number = random.pick(&["-3", "-1", "0", "1", "2", "3", "5", "6", "0.5", "2.5"]);
    match random.below(8) {
        0 | 1 => format!("a {op} {number}"),
        2 => format!("b {op} {number}"),
        3 => format!("r {op} {number}"),
        4 => {
            format!("t {} \"{}\"", random.pick(&["==", "!="]), random.pick(&["x", "x*", "z", "q"]))
        }
        5 => format!("a & {} {op} {}", random.pick(&["1", "5", "6"]), random.below(7)),
        6 => format!("a in {{{}, {} ... 4}}", random.below(8), random.below(4)),
        _ => format!("b {op} a"),
    }
}

fn text(random: &mut Random, depth: usize) -> String {
    if depth == 0 || random.below(4) == 0 {
        return leaf(random);
    }
    let parts: Vec<String> = (0..2 + random.below(2)).map(|_| text(random, depth - 1)).collect();
    match random.below(5) {
        0 => format!("!({})", parts[0]),
        1 | 2 => format!("({})", parts.join(" || ")),
        _ => format!("({})", parts.join(" && ")),
    }
}

#[test]
fn filter_that_selects_a_record_is_never_reported_to_select_none() {
    let mut random = Random::new();
    let (class, records) = (class(), records());
    let (mut never, mut found) = (0, 0);
    for _ in 0..3_000 {
        let text = text(&mut random, 3);
        let filter = Filter::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let selects = records.iter().any(|record| filter.evaluate(record) == Some(true));
        let can = filter.can_select(&class);
        assert!(can || !selects, "{text}");
        never += u32::from(!selects);
        found += u32::from(!can);
    }
    println!("of {never} that select nothing, {found} are known to");
    assert!(found * 2 > never, "{found} of {never}");
}
