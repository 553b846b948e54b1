//! Tests with random expressions and random texts.

use std::time::{Duration, Instant};

use crate::{
    Class, ClassField, ClassFieldKind, Comparison, Expr, Fields, Filter, Item, Literal, Number, Op,
    Operand, Path, PathStep, Pattern, PatternPart, Root, Subject, Term, Value, GREATEST, LEAST,
};
use strata_random::Random;

const MEMBERS: [&str; 8] = ["a", "len", "x_1", "été", "name", "and", "payload", "cpu"];

fn number(random: &mut Random) -> Number {
    match random.below(6) {
        0 => Number::Integer(random.pick(&[LEAST, GREATEST, 0, 1, -1])),
        1 | 2 => Number::Integer(random.below(100) as i128 - 50),
        3 => Number::Integer(i128::from(random.next())),
        4 => Number::Integer(i128::from(random.next() as i64)),
        _ => loop {
            let real = f64::from_bits(random.next());
            if real.is_finite() {
                return Number::Real(real);
            }
        },
    }
}

fn pattern(random: &mut Random) -> Pattern {
    let mut pattern = Pattern::default();
    for _ in 0..random.below(5) {
        pattern.push(match random.below(5) {
            0 => PatternPart::Any,
            1 => PatternPart::One,
            2 => PatternPart::Text(vec![1 + random.below(255) as u8]),
            _ => PatternPart::Text(
                random.pick(&["sched_", "é", "a b", "\"", "\\", "*", "x"]).as_bytes().to_vec(),
            ),
        });
    }
    pattern
}

fn path(random: &mut Random) -> Path {
    let roots = [Root::Any, Root::Payload, Root::Context, Root::Packet, Root::Header];
    let root = random.pick(&roots);
    // A path without a root may begin only with some of the names.
    let first = if root == Root::Any { 4 } else { MEMBERS.len() };
    let mut steps = vec![PathStep::Member(MEMBERS[random.below(first)].to_string())];
    for _ in 0..random.below(3) {
        steps.push(match random.below(3) {
            0 => PathStep::Index(random.next() >> random.below(64)),
            _ => PathStep::Member(random.pick(&MEMBERS).to_string()),
        });
    }
    Path { root, steps }
}

fn term(random: &mut Random) -> Term {
    let subject = match random.below(8) {
        0 => Subject::Name,
        1 => Subject::Cpu,
        2 => Subject::LogLevel,
        _ => Subject::Field(path(random)),
    };
    let masked = subject != Subject::Name && random.below(4) == 0;
    let mask = masked.then(|| (random.next() >> random.below(64)).max(1));
    Term { subject, mask }
}

/// Makes a constant with which the term can be compared.
fn literal(random: &mut Random, term: &Term) -> Literal {
    let number_only =
        term.mask.is_some() || matches!(term.subject, Subject::Cpu | Subject::LogLevel);
    match number_only || (term.subject != Subject::Name && random.below(2) == 0) {
        true => Literal::Number(number(random)),
        false => Literal::Text(pattern(random)),
    }
}

fn leaf(random: &mut Random) -> Expr {
    let ops = [Op::Equal, Op::NotEqual, Op::Less, Op::LessOrEqual, Op::Greater, Op::GreaterOrEqual];
    match random.below(6) {
        0 => Expr::Has(path(random)),
        1 => {
            let term = term(random);
            let mut items = Vec::new();
            for _ in 0..1 + random.below(3) {
                items.push(match literal(random, &term) {
                    Literal::Number(from) if random.below(2) == 0 => match number(random) {
                        to if from.order(to).is_some_and(|order| order.is_le()) => {
                            Item::Range(from, to)
                        }
                        _ => Item::Range(from, from),
                    },
                    other => Item::One(other),
                });
            }
            Expr::In(term, items)
        }
        2 => {
            let op = random.pick(&ops);
            Expr::Compare(Comparison { left: term(random), op, right: Operand::Term(term(random)) })
        }
        _ => {
            let left = term(random);
            let right = literal(random, &left);
            let op = match right {
                Literal::Text(_) => random.pick(&ops[..2]),
                Literal::Number(_) => random.pick(&ops),
            };
            Expr::Compare(Comparison { left, op, right: Operand::Literal(right) })
        }
    }
}

fn expr(random: &mut Random, depth: usize) -> Expr {
    if depth == 0 {
        return leaf(random);
    }
    let parts = |random: &mut Random, and: bool| {
        let mut parts = Vec::new();
        while parts.len() < 2 {
            match (expr(random, depth - 1), and) {
                (Expr::And(inner), true) | (Expr::Or(inner), false) => parts.extend(inner),
                (other, _) => parts.push(other),
            }
        }
        parts
    };
    match random.below(4) {
        0 => Expr::And(parts(random, true)),
        1 => Expr::Or(parts(random, false)),
        2 => Expr::Not(Box::new(expr(random, depth - 1))),
        _ => leaf(random),
    }
}

#[test]
fn random_expressions_are_printed_and_read_again() {
    let mut random = Random::new();
    for _ in 0..20_000 {
        let depth = random.below(6);
        let expr = expr(&mut random, depth);
        let text = expr.to_string();
        let filter =
            Filter::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}\n{expr:?}"));
        assert_eq!(filter.expr(), &expr, "{text}");
        assert_eq!(filter.to_string(), text);
    }
}

#[test]
fn deepest_expressions_are_printed_and_read_again() {
    for level in ["!(a && ", "!(", "a && (b || ", "!!(a || "] {
        let levels = level.matches(['!', '&', '|']).count().max(1);
        let mut deepest = None;
        for count in 1..=2 * crate::MAX_DEPTH {
            let close = ")".repeat(count * level.matches('(').count());
            if let Ok(filter) = Filter::parse(&format!("{}x == 1{close}", level.repeat(count))) {
                let again = Filter::parse(&filter.to_string()).expect("the canonical spelling");
                assert_eq!(again, filter);
                deepest = Some(count);
            }
        }
        assert!(deepest.is_some_and(|count| count >= crate::MAX_DEPTH / 3 / levels), "{level}");
    }
}

/// A record that has every field of up to three steps. The number of steps decides the kind of the value.
struct Anything;

impl Fields for Anything {
    fn name(&self) -> &[u8] {
        b"sched_switch"
    }

    fn field(&self, path: &Path) -> Option<Value<'_>> {
        Some(match path.steps.len() {
            1 => Value::Integer(3),
            2 => Value::Text(b"a\xff"),
            3 => Value::Real(f64::NAN),
            _ => return None,
        })
    }
}

fn exercise(text: &str) -> bool {
    let class = Class {
        name: "sched_switch".to_string(),
        fields: vec![ClassField {
            root: Root::Payload,
            path: "a".to_string(),
            kind: ClassFieldKind::INTEGER,
        }],
        ..Class::default()
    };
    match Filter::parse(text) {
        Ok(filter) => {
            filter.evaluate(&Anything);
            for hint in filter.check(&[class]) {
                assert!(!hint.to_string().contains('\n') && hint.caret().lines().count() == 2);
            }
            let again = Filter::parse(&filter.to_string())
                .unwrap_or_else(|error| panic!("{text}\n{error}"));
            assert_eq!(again, filter, "{text}");
            true
        }
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            assert_eq!(error.caret().matches('\n').count(), 1, "{text:?}");
            assert!(error.span().end <= text.len());
            false
        }
    }
}

const TOKENS: [&str; 46] = [
    "a", "len", "name", "cpu", "loglevel", "has", "(", ")", "[", "]", "{", "}", "==", "!=", "<",
    "<=", ">", ">=", "=", "!", "&&", "||", "&", "|", "and", "or", "not", "in", ",", "...", "..",
    ".", "3", "-1", "0x4", "1.5", "1e", "\"x*\"", "\"", "'", "\\", "$ctx.", "payload.", "sched_*",
    "é磁", " ",
];

#[test]
fn malicious_texts_of_random_tokens_never_panic() {
    let mut random = Random::new();
    let end = Instant::now() + Duration::from_secs(60);
    let mut parsed = 0;
    for _ in 0..100_000 {
        let count = random.below(14);
        let blank = random.pick(&["", " "]);
        let tokens: Vec<&str> = (0..count).map(|_| random.pick(&TOKENS)).collect();
        parsed += usize::from(exercise(&tokens.join(blank)));
        assert!(Instant::now() < end, "too slow");
    }
    assert!(parsed > 100, "only {parsed} of 100,000 were filters");
}

#[test]
fn malicious_texts_of_random_bytes_never_panic() {
    let mut random = Random::new();
    let end = Instant::now() + Duration::from_secs(60);
    for _ in 0..100_000 {
        let bytes: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
        exercise(&String::from_utf8_lossy(&bytes));
        assert!(Instant::now() < end, "too slow");
    }
}

#[test]
fn malicious_changes_of_a_filter_never_panic() {
    let mut random = Random::new();
    let good = r#"sched_* && !(next_comm == "ng\x41*" || a.b[3] & 0x4) && x in {1, 2.5 ... 9} or has($ctx.p)"#;
    let good: Vec<char> = good.chars().collect();
    for _ in 0..20_000 {
        let mut text = good.clone();
        for _ in 0..1 + random.below(3) {
            let at = random.below(text.len().max(1));
            match random.below(3) {
                0 if !text.is_empty() => drop(text.remove(at)),
                1 => text.insert(at, random.pick(&['(', '"', '\\', '&', '磁', '\0', '[', '.'])),
                _ => text.truncate(at.max(1)),
            }
        }
        exercise(&text.into_iter().collect::<String>());
    }
}

#[test]
fn malicious_repetitions_take_no_time() {
    let start = Instant::now();
    for token in
        TOKENS.iter().chain(&["a && ", "!a||", "(a)==", "a[3].", "((a & 1", "x in {1,", "x==("])
    {
        exercise(&token.repeat(crate::MAX_LENGTH / token.len()));
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}
