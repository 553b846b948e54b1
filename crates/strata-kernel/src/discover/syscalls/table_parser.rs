//! Parses the two texts of facts: the system calls with their arguments, and the names of arguments' values.

use strata_model::{Flags, Label};

/// A system call as a line of the table describes it.
#[derive(Debug)]
pub(super) struct SyscallLine {
    pub(super) number: u32,
    pub(super) name: &'static str,
    pub(super) kernel_name: &'static str,
    /// C type and name of each argument.
    pub(super) args: Vec<(&'static str, &'static str)>,
}

/// The names of values, for all arguments that have these values.
pub(super) struct Values {
    /// Arguments that have these values: the system call and the argument's name.
    pub(super) of: Vec<(&'static str, &'static str)>,
    pub(super) labels: Vec<Label>,
    /// Set if the values are flags.
    pub(super) flags: Option<Flags>,
}

/// Parses all lines except comments and blank ones; `None` stands for a malformed line.
pub(super) fn lines(
    text: &'static str,
) -> impl Iterator<Item = (&'static str, Option<SyscallLine>)> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| (line, parse_line(line)))
}

/// A line of a table of system calls. It has the arguments itself, or refers to a call of the same name in another
/// table.
#[derive(Debug)]
pub(super) enum CallLine {
    Own(SyscallLine),
    As { number: u32, name: &'static str, call: &'static str },
}

/// Parses all lines except comments and blank ones, each with or without arguments; `None` stands for a malformed
/// line.
pub(super) fn own_or_named(
    text: &'static str,
) -> impl Iterator<Item = (&'static str, Option<CallLine>)> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| (line, parse_own_or_named(line)))
}

fn parse_own_or_named(line: &'static str) -> Option<CallLine> {
    if line.contains('(') {
        return parse_line(line).map(CallLine::Own);
    }
    let (number, names) = line.split_once(' ')?;
    let (name, call) = names.split_once('=').unwrap_or((names, names));
    Some(CallLine::As { number: number.parse().ok()?, name, call })
}

pub(super) fn parse_line(line: &'static str) -> Option<SyscallLine> {
    let (number, rest) = line.split_once(' ')?;
    let (names, rest) = rest.split_once('(')?;
    let args = rest.strip_suffix(')')?;
    let (name, kernel_name) = names.split_once('=').unwrap_or((names, names));
    let args = match args {
        "" => Vec::new(),
        args => args.split(", ").map(parse_argument).collect::<Option<_>>()?,
    };
    (args.len() <= 6).then_some(())?;
    Some(SyscallLine { number: number.parse().ok()?, name, kernel_name, args })
}

/// Splits type and name: "const char *name" has the type "const char *".
fn parse_argument(argument: &'static str) -> Option<(&'static str, &'static str)> {
    let begin = argument.rfind([' ', '*'])? + 1;
    let (c_type, name) = argument.split_at(begin);
    (!name.is_empty()).then_some((c_type.trim_end(), name))
}

/// Parses all paragraphs of values; `None` stands for a malformed one.
///
/// `others`: names whose value differs on a machine; `None` if that machine does not have the name.
pub(super) fn values(
    text: &'static str,
    others: &'static [(&'static str, Option<i64>)],
) -> impl Iterator<Item = Option<Values>> {
    let mut paragraphs: Vec<Vec<&'static str>> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match paragraphs.last_mut() {
            Some(last) if line.starts_with(' ') => last.extend(line.split_whitespace()),
            _ => paragraphs.push(line.split_whitespace().collect()),
        }
    }
    paragraphs.into_iter().map(|words| parse_values(&words, others))
}

fn parse_values(words: &[&'static str], others: &[(&'static str, Option<i64>)]) -> Option<Values> {
    let parse = |word: &&str| {
        let value = parse_value(word);
        let name = value.as_ref().map(|(name, _)| name.as_str());
        match others.iter().find(|(other, _)| Some(*other) == name) {
            Some((_, None)) => None,
            Some((name, Some(other))) => Some(Some(((*name).to_owned(), *other))),
            None => Some(value),
        }
    };
    let head = words.iter().position(|word| word.ends_with(':'))? + 1;
    let (of, values) = words.split_at(head);
    let of = of
        .iter()
        .map(|word| word.trim_end_matches(':').split_once('.'))
        .collect::<Option<Vec<_>>>()?;
    let is_between = |word: &&str| *word == "|" || word.starts_with('+');
    let flags = values.iter().position(is_between).unwrap_or(values.len());
    let (values, flags) = values.split_at(flags);
    let values = values.iter().filter_map(parse).collect::<Option<Vec<_>>>()?;
    let low_bits = flags.first().and_then(|word| word.strip_prefix('+'));
    let flags = flags.iter().skip(1).filter_map(parse).collect::<Option<Vec<_>>>()?;
    let Some(low_bits) = low_bits else {
        return Some(Values { of, labels: with_flags(&values, &flags), flags: None });
    };
    let all = values.into_iter().chain(flags);
    let labels = all.map(|(label, value)| Label { from: value, to: value, label }).collect();
    Some(Values { of, labels, flags: Some(Flags { low_bits: low_bits.parse().ok()? }) })
}

fn parse_value(word: &str) -> Option<(String, i64)> {
    let (name, value) = word.split_once('=')?;
    let value = match value.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    Some((name.to_owned(), value.ok()?))
}

/// Returns the labels of all values, each also combined with every set of flags, in the order of the numbers.
fn with_flags(values: &[(String, i64)], flags: &[(String, i64)]) -> Vec<Label> {
    let mut all = values.to_vec();
    for (flag, bit) in flags {
        let with: Vec<_> =
            all.iter().map(|(name, value)| (format!("{name}|{flag}"), value | bit)).collect();
        all.extend(with);
    }
    all.sort_by_key(|(_, value)| *value);
    all.into_iter().map(|(label, value)| Label { from: value, to: value, label }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_with_an_alias_and_pointers_gives_names_and_types() {
        let line = parse_line("4 stat=newstat(const char *filename, int **list)").expect("a line");
        assert_eq!((line.number, line.name, line.kernel_name), (4, "stat", "newstat"));
        assert_eq!(line.args, [("const char *", "filename"), ("int **", "list")]);
    }

    #[test]
    fn line_that_is_no_system_call_gives_none() {
        for line in ["", "1", "x read()", "1 read", "1 read(int fd", "1 read(int)", "1 read(int *)"]
        {
            assert!(parse_line(line).is_none(), "{line}");
        }
        assert!(parse_line("1 f(int a, int b, int c, int d, int e, int f, int g)").is_none());
    }

    #[test]
    fn values_with_flags_have_every_set_of_them() {
        let text = "socket.type\n  pair.type: A=1 B=2 |\n  X=0x10 Y=32\n";
        let found: Vec<_> = values(text, &[]).map(|values| values.expect("values")).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].of, [("socket", "type"), ("pair", "type")]);
        let shown: Vec<_> =
            found[0].labels.iter().map(|label| format!("{} {}", label.from, label.label)).collect();
        assert_eq!(
            shown,
            ["1 A", "2 B", "17 A|X", "18 B|X", "33 A|Y", "34 B|Y", "49 A|X|Y", "50 B|X|Y"]
        );
    }

    #[test]
    fn values_in_front_of_flags_are_in_the_low_bits() {
        let text = "open.flags:\n RD=0 WR=1 +2 BOTH=12 A=4 B=8\n";
        let values = values(text, &[]).next().flatten().expect("values");
        assert_eq!(values.flags, Some(Flags { low_bits: 2 }));
        let labels = values.labels.iter().map(|label| (&*label.label, label.from));
        let expected = [("RD", 0), ("WR", 1), ("BOTH", 12), ("A", 4), ("B", 8)];
        assert_eq!(labels.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn values_of_another_machine_replace_those_of_their_names() {
        let text = "open.flags:\n RD=0 +2 BOTH=12 A=4 B=8\n";
        let others = &[("BOTH", Some(20)), ("B", None), ("A", Some(16))];
        let values = values(text, others).next().flatten().expect("values");
        let labels = values.labels.iter().map(|label| (&*label.label, label.from));
        assert_eq!(labels.collect::<Vec<_>>(), [("RD", 0), ("BOTH", 20), ("A", 16)]);
    }

    #[test]
    fn values_that_are_none_are_refused() {
        for text in ["socket.type A=1", "socket: A=1", "a.b: A", "a.b: A=x", "a.b: A=1 +x B=2"] {
            assert!(values(text, &[]).all(|values| values.is_none()), "{text}");
        }
    }
}
