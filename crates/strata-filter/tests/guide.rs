//! Tests that the guide's statements about filters are true.

use strata_filter::{Class, ClassField, ClassFieldKind, Filter, Root, MAX_DEPTH, MAX_LENGTH};

const GUIDE: &str = include_str!("../../../docs/guide/filter.md");

fn section(title: &str) -> &'static str {
    let (_, section) = GUIDE.split_once(&format!("## {title}\n")).expect("the section");
    section.split("\n## ").next().expect("its text")
}

/// Returns the texts in backquotes.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn guide_examples_are_filters() {
    let rows: Vec<&str> =
        section("By example").lines().filter(|row| row.starts_with("| `")).collect();
    let cells = rows.iter().filter_map(|row| row.split(" | ").next());
    let examples: Vec<&str> = cells.flat_map(code).collect();
    assert!(examples.len() >= 15, "{examples:?}");
    for example in examples {
        Filter::parse(example).unwrap_or_else(|error| panic!("{error}\n{}", error.caret()));
    }
}

#[test]
fn guide_shell_lines_are_filters() {
    let quoted =
        |text: &str| text.trim().strip_prefix('\'')?.strip_suffix('\'').map(str::to_string);
    let shell = section("In a shell");
    let lines = shell.lines().filter_map(quoted);
    let inline = code(shell).filter(|code| code.len() > 2).filter_map(quoted);
    // The shell puts the value of the variable there.
    let filters: Vec<String> =
        lines.chain(inline).map(|text| text.replace("'\"$comm\"'", "nginx")).collect();
    assert!(filters.len() >= 4, "{filters:?}");
    for filter in filters {
        Filter::parse(&filter).unwrap_or_else(|error| panic!("{error}\n{}", error.caret()));
    }
}

#[test]
fn guide_shows_messages_as_they_are() {
    let blocks: Vec<&str> = GUIDE.split("\n```").skip(1).step_by(2).map(str::trim).collect();
    let shown: Vec<&&str> = blocks.iter().filter(|block| block.contains('^')).collect();
    let class = Class {
        name: "net:send".to_string(),
        fields: vec![ClassField {
            root: Root::Payload,
            path: "len".to_string(),
            kind: ClassFieldKind::INTEGER,
        }],
        ..Class::default()
    };
    assert_eq!(shown.len(), 2);
    for block in shown {
        let text = block.lines().next().expect("the filter");
        let caret = match Filter::parse(text) {
            Ok(filter) => filter.check(std::slice::from_ref(&class))[0].caret(),
            Err(error) => error.caret(),
        };
        assert_eq!(&caret, *block);
    }
}

#[test]
fn guide_says_what_operators_bind() {
    for (text, same) in [
        ("flags & 6 == 6", "(flags & 6) == 6"),
        ("!len == 3", "!(len == 3)"),
        ("a || b && c", "a || (b && c)"),
    ] {
        assert_eq!(Filter::parse(text).expect(text), Filter::parse(same).expect(same));
    }
    assert!(GUIDE.contains("`flags & 6 == 6` is `(flags & 6) == 6`"));
    assert!(GUIDE.contains("`!len == 3` is `!(len == 3)`"));
}

#[test]
fn guide_has_the_limits() {
    assert_eq!(MAX_LENGTH, 16_384);
    assert_eq!(MAX_DEPTH, 64);
    assert!(section("Limits").contains("16,384 bytes and 64 levels"));
}
