//! Parser of field names.

use crate::error::{quoted, Problem};
use crate::expr::{Path, PathStep, Root, Subject};

use super::parse_result::Result;

/// Parses the word, at byte `base` of the text, as the source of a value.
pub(super) fn subject(word: &str, base: usize) -> Result<Subject> {
    let path = path(word, base)?;
    let special = match (path.root, path.steps.as_slice()) {
        (Root::Any, [PathStep::Member(name)]) => name.as_str(),
        _ => "",
    };
    Ok(match special {
        "name" => Subject::Name,
        "cpu" => Subject::Cpu,
        "loglevel" => Subject::LogLevel,
        _ => Subject::Field(path),
    })
}

fn path(word: &str, base: usize) -> Result<Path> {
    let bad = |why, from: usize, to: usize| {
        Err((Problem::BadPath { text: quoted(word), why }, base + from..base + to))
    };
    let (root, below) = split_root(word);
    if below.starts_with('$') {
        return bad("only $ctx.NAME begins with '$'", 0, word.len());
    }
    let mut steps = Vec::new();
    let mut at = word.len() - below.len();
    loop {
        let rest = word.get(at..).unwrap_or_default();
        let name = rest.split(['.', '[']).next().unwrap_or_default();
        if name.contains(['*', '?', ':']) {
            return Err((Problem::PatternAsField(quoted(word)), base..base + word.len()));
        }
        if name.is_empty() {
            return bad("a name stands on both sides of '.'", at.saturating_sub(1), at.max(1));
        }
        steps.push(PathStep::Member(name.to_string()));
        at += name.len();
        while let Some(inner) = word.get(at..).and_then(|rest| rest.strip_prefix('[')) {
            let Some((index, _)) = inner.split_once(']') else {
                let problem = Problem::Unclosed { opening: '[', closing: ']' };
                return Err((problem, base + at..base + at + 1));
            };
            let end = at + index.len() + 2;
            let digits = !index.is_empty() && index.chars().all(|char| char.is_ascii_digit());
            match index.parse() {
                Ok(index) if digits => steps.push(PathStep::Index(index)),
                _ => return bad("an element's index is a number from 0, as in a[3]", at, end),
            }
            at = end;
        }
        match word.get(at..).unwrap_or_default() {
            "" => return Ok(Path { root, steps }),
            rest if rest.starts_with('.') => at += 1,
            _ if word.contains(['*', '?', ':']) => {
                return Err((Problem::PatternAsField(quoted(word)), base..base + word.len()));
            }
            _ => return bad("'.' or '[' follows ']'", at, word.len()),
        }
    }
}

fn split_root(word: &str) -> (Root, &str) {
    for (prefix, root) in [
        ("payload.", Root::Payload),
        ("context.", Root::Context),
        ("$ctx.", Root::Context),
        ("packet.", Root::Packet),
        ("header.", Root::Header),
    ] {
        if let Some(below) = word.strip_prefix(prefix) {
            return (root, below);
        }
    }
    (Root::Any, word)
}
