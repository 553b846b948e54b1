//! `print fmt` of a `format` file: how the kernel shows an event's fields as text.
//!
//! The text is C after the preprocessor: a format of printf and its arguments. Parts that are not understood are
//! skipped; a field is then shown as a plain number.

use super::declaration::type_bytes;
use super::{expression, Enumerators, FieldShape, FormatField};
use std::collections::HashMap;
use strata_model::{limits, Base, Flags, Integer, Label};

/// The parsed `print fmt` of an event, which says how the kernel prints each field.
#[derive(Debug, Default)]
pub(super) struct Print {
    shown: HashMap<String, PrintedField>,
}

/// The use of one field in `print fmt`.
#[derive(Debug, Default)]
struct PrintedField {
    /// The conversion of printf for the field itself, without the `%`. If the field is printed several times, the
    /// first one.
    conversion: Option<String>,
    /// True if the field is an argument of `__print_flags`.
    is_flags: bool,
    /// Tables of `__print_flags`: pairs of bits and a name.
    flag_tables: Vec<LabelTable>,
    /// The text that is shown if none of the bits is set.
    zero: Option<String>,
    /// Bits that the format prints separately, outside of `flag_tables`, with their names.
    more: LabelTable,
    /// Mask of the bits that are passed to `__print_flags`; -1 for the whole field.
    bits: Option<i128>,
    /// Tables of `__print_symbolic`: pairs of a value and a name.
    tables: Vec<LabelTable>,
    /// Size to which a cast narrows the field before it is looked up in a table \[byte\]: the table's labels are for
    /// the narrowed values.
    narrowed_to: Option<u8>,
    /// True if only a part of the field is looked up in a table, so that the table has no names for whole values.
    is_in_parts: bool,
}

type LabelTable = Vec<(i128, String)>;

impl Print {
    /// Parses the text after `print fmt:`.
    pub(super) fn parse(text: &str, enumerator: Enumerators<'_>) -> Print {
        let mut print = Print::default();
        let arguments = split(text, b',');
        let Some((format, arguments)) = arguments.split_first() else { return print };
        for (conversion, argument) in conversions(&literal(format)).iter().zip(arguments) {
            let Some(field) = conversion.as_ref().and_then(|_| plain_field(argument)) else {
                continue;
            };
            let shown = print.shown.entry(field.name.to_owned()).or_default();
            if shown.conversion.is_none() {
                shown.conversion.clone_from(conversion);
            }
        }
        for argument in arguments {
            print.calls(argument, enumerator);
            print.otherwise(argument, enumerator);
        }
        print
    }

    /// Parses all `__print_symbolic(...)` and `__print_flags(...)` in an expression.
    fn calls(&mut self, text: &str, enumerator: Enumerators<'_>) {
        let mut rest = text;
        while let Some(at) = rest.find("__print_") {
            rest = &rest[at + "__print_".len()..];
            let Some((function, behind)) = rest.split_once('(') else { return };
            let is_flags = match function.trim() {
                "symbolic" | "symbolic_u64" => false,
                "flags" | "flags_u64" => true,
                _ => continue,
            };
            let Some(inside) = until_closed(behind) else { return };
            let arguments = split(inside, b',');
            let Some(first) = arguments.first() else { continue };
            let entries = || arguments.iter().skip(1).filter_map(|item| entry(item, enumerator));
            if is_flags {
                self.flags(first, entries().collect(), enumerator);
                continue;
            }
            let Some(field) = plain_field(first) else {
                for name in mentioned(first) {
                    let shown = self.shown.entry(name.to_owned()).or_default();
                    shown.is_in_parts = true;
                }
                continue;
            };
            let shown = self.shown.entry(field.name.to_owned()).or_default();
            let table: LabelTable = entries().collect();
            shown.narrowed_to = shown.narrowed_to.or(field.narrowed_to);
            if !shown.tables.contains(&table) {
                shown.tables.push(table);
            }
        }
    }

    /// Parses the arguments of `__print_flags(FIELD, ...)` or `__print_flags(FIELD & BITS, ...)`.
    fn flags(&mut self, argument: &str, mut table: LabelTable, enumerator: Enumerators<'_>) {
        let (field, bits) = match split(argument, b'&').as_slice() {
            [field, bits] => (plain_field(field), expression::value(bits, enumerator)),
            _ => (plain_field(argument), Some(-1)),
        };
        let (Some(field), Some(bits)) = (field, bits) else { return };
        table.retain(|(value, _)| value & bits == *value);
        let shown = self.shown.entry(field.name.to_owned()).or_default();
        shown.is_flags = true;
        shown.bits = Some(bits);
        shown.narrowed_to = shown.narrowed_to.or(field.narrowed_to);
        if !shown.flag_tables.contains(&table) {
            shown.flag_tables.push(table);
        }
    }

    /// Parses `FIELD ? __print_flags(FIELD, ...) : "none"`, or `FIELD & BITS ? "name" : ""`.
    fn otherwise(&mut self, argument: &str, enumerator: Enumerators<'_>) {
        let parts = split(argument, b'?');
        let [condition, parts] = parts.as_slice() else { return };
        let parts = split(parts, b':');
        let [call, text] = parts.as_slice() else { return };
        let (call, text) = (call.trim(), text.trim());
        if let ([field, bits], true) = (split(condition, b'&').as_slice(), call.starts_with('"')) {
            let (field, bits) = (plain_field(field), expression::value(bits, enumerator));
            if let (Some(field), Some(bits), r#""""#) = (field, bits, text) {
                let shown = self.shown.entry(field.name.to_owned()).or_default();
                shown.more.push((bits, literal(call)));
            }
            return;
        }
        let inside = call.strip_prefix("__print_flags(").and_then(until_closed);
        let Some(first) = inside.and_then(|inside| split(inside, b',').first().copied()) else {
            return;
        };
        let is_same = without_parentheses(condition) == without_parentheses(first);
        let mut fields = mentioned(first);
        let (Some(field), None) = (fields.next(), fields.next()) else { return };
        if is_same && text.starts_with('"') {
            self.shown.entry(field.to_owned()).or_default().zero = Some(literal(text));
        }
    }

    /// Sets the base and the labels of `field` as the format prints that field.
    pub(super) fn apply(&self, field: &mut FormatField) {
        let Some(shown) = self.shown.get(&field.name) else { return };
        match field.shape {
            FieldShape::Integer | FieldShape::Bool => {
                let is_narrowed =
                    shown.narrowed_to.is_some_and(|bytes| u16::from(bytes) < field.bytes);
                let is_other = is_narrowed || shown.is_in_parts;
                // Two tables: which one is meant depends on another field.
                match (shown.tables.as_slice(), shown.flag_tables.as_slice()) {
                    _ if is_other => (),
                    ([table], []) => field.labels = labels(table, field),
                    ([], [table]) => shown.flags(table, field),
                    _ => (),
                }
                if let Some(base) = shown.conversion.as_deref().and_then(base_of) {
                    field.base = base;
                } else if shown.is_flags && field.flags.is_none_or(|flags| flags.low_bits == 0) {
                    field.base = Base::Sixteen;
                }
            }
            // %pI4 is a dotted address; %pM, %pU and the like are digits of base 16.
            FieldShape::Array { .. } => match shown.conversion.as_deref() {
                Some(conversion) if conversion.starts_with("pI4") => (),
                Some(conversion) if conversion.starts_with('p') => field.base = Base::Sixteen,
                _ => (),
            },
            FieldShape::Text | FieldShape::Dynamic { .. } => (),
        }
    }
}

impl PrintedField {
    /// Labels the field with the flags of a table that it can have, and with the text that is shown if no flag is set.
    fn flags(&self, table: &[(i128, String)], field: &mut FormatField) {
        let told = table.iter().fold(0, |told, (bits, _)| told | bits);
        // One bit of a number, or none: the number is what matters.
        let is_part = self.bits != Some(-1) && self.zero.is_none();
        if told == 0 || is_part && table.len() < 2 {
            return;
        }
        let highest = 1i128 << (u32::from(field.bytes) * 8).clamp(1, 64).saturating_sub(1);
        let value = |bits: i128| match field.is_signed && (highest..2 * highest).contains(&bits) {
            true => bits - 2 * highest,
            false => bits,
        };
        let more = self.more.iter().filter(|(bits, _)| bits & told == 0);
        let zero = (0, self.zero.as_deref().unwrap_or("none").to_owned());
        let has_zero = table.iter().any(|(bits, _)| *bits == 0);
        let all = (!has_zero).then_some(&zero).into_iter().chain(table).chain(more);
        let all: LabelTable = all.map(|(bits, name)| (value(*bits), name.clone())).collect();
        field.labels = labels(&all, field);
        field.flags = (!field.labels.is_empty()).then_some(Flags { low_bits: self.low_bits() });
    }

    /// Returns the number of low bits that are a state rather than flags, as in `R` and `R+`: if none of these bits
    /// is set, the kernel prints a name for that.
    fn low_bits(&self) -> u8 {
        let Some(bits) = self.bits.filter(|_| self.zero.is_some()) else { return 0 };
        let is_low = bits > 0 && bits & (bits + 1) == 0;
        let low_bits = u8::try_from(bits.count_ones()).ok();
        low_bits.filter(|count| is_low && *count < 64).unwrap_or(0)
    }
}

/// Returns the entries of a table whose values the field can have. Of several entries for one value, the first is
/// used, as in the kernel.
fn labels(table: &[(i128, String)], field: &FormatField) -> Vec<Label> {
    let Ok(bytes) = u8::try_from(field.bytes) else { return Vec::new() };
    let integer = Integer { signed: field.is_signed, ..Integer::unsigned(bytes) };
    let Ok((lowest, highest)) = integer.range() else { return Vec::new() };
    let mut labels: Vec<Label> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (value, label) in table {
        // Of 8 bytes -1 and 2^64 - 1 are one value.
        let value = match (bytes, field.is_signed) {
            (8, false) if *value < 0 => value + (1i128 << 64),
            (8, true) if *value > highest => value - (1i128 << 64),
            _ => *value,
        };
        let is_fit = (lowest..=highest).contains(&value) && label.len() <= limits::LABEL_BYTES;
        if is_fit && labels.len() < limits::LABELS && seen.insert(value) {
            let bits = value as i64;
            labels.push(Label { from: bits, to: bits, label: label.clone() });
        }
    }
    labels
}

/// Returns the base in which a conversion such as `%x` shows an integer; `None` if it is decimal or no integer.
fn base_of(conversion: &str) -> Option<Base> {
    match conversion.bytes().next()? {
        b'x' | b'X' | b'p' => Some(Base::Sixteen),
        b'o' => Some(Base::Eight),
        _ => None,
    }
}

/// Returns the conversions of a format of printf, each without the `%`; `None` stands for a `*`, which takes an
/// argument of its own.
fn conversions(format: &str) -> Vec<Option<String>> {
    let mut found = Vec::new();
    let mut rest = format;
    while let Some((_, behind)) = rest.split_once('%') {
        rest = behind;
        if let Some(behind) = rest.strip_prefix('%') {
            rest = behind;
            continue;
        }
        let Some(at) = rest.find(|letter: char| !"#0- +'.123456789*lhzjtLq".contains(letter))
        else {
            break;
        };
        found.extend(rest[..at].matches('*').map(|_| None));
        rest = &rest[at..];
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        // Of `%px`, all letters; of `%dB` the first.
        let letters = if rest.starts_with('p') { end } else { end.min(1) };
        found.push(Some(rest[..letters].to_owned()));
    }
    found
}

/// An argument of printf that is a field and nothing else, except for casts.
struct Plain<'a> {
    name: &'a str,
    /// Size of the smallest type to which the field is cast \[byte\].
    narrowed_to: Option<u8>,
}

/// Parses `REC->name`, perhaps in parentheses or with casts before it.
fn plain_field(text: &str) -> Option<Plain<'_>> {
    let mut narrowed_to: Option<u8> = None;
    let mut rest = text.trim();
    loop {
        if let Some(name) = rest.strip_prefix("REC->") {
            let name = name.trim();
            let is_name =
                !name.is_empty() && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
            return is_name.then_some(Plain { name, narrowed_to });
        }
        let behind = rest.strip_prefix('(')?;
        let inside = until_closed(behind)?;
        let after = behind.get(inside.len() + 1..)?.trim();
        if after.is_empty() {
            rest = inside.trim();
            continue;
        }
        let words = inside.trim();
        let is_type = !words.is_empty()
            && words.chars().all(|c| c.is_ascii_alphanumeric() || "_ *".contains(c));
        if !is_type {
            return None;
        }
        let bytes = if words.ends_with('*') {
            Some(8)
        } else {
            type_bytes(&super::declaration::base_type(words))
        };
        // Of an unknown type nothing is known: as if nothing were left of it.
        narrowed_to = Some(narrowed_to.unwrap_or(u8::MAX).min(bytes.unwrap_or(0)));
        rest = after;
    }
}

/// Returns the text without blanks and without parentheses that enclose all of it.
fn without_parentheses(text: &str) -> String {
    let mut rest = text.trim();
    while let Some(inside) = rest.strip_prefix('(').and_then(until_closed) {
        if inside.len() + 2 != rest.len() {
            break;
        }
        rest = inside.trim();
    }
    rest.split_whitespace().collect()
}

/// Returns all fields in an expression.
fn mentioned(text: &str) -> impl Iterator<Item = &str> {
    text.split("REC->").skip(1).map(|rest| {
        let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
        rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
    })
}

/// Parses an entry of a table: `{ value, "label" }`.
fn entry(text: &str, enumerator: Enumerators<'_>) -> Option<(i128, String)> {
    let inside = text.trim().strip_prefix('{')?.trim_end().strip_suffix('}')?;
    let items = split(inside, b',');
    let [value, label] = items.as_slice() else { return None };
    if !label.trim_start().starts_with('"') {
        return None;
    }
    Some((expression::value(value, enumerator)?, literal(label)))
}

/// Returns the text before the parenthesis that closes one opened before `text`.
fn until_closed(text: &str) -> Option<&str> {
    let mut depth = 0usize;
    for (at, byte) in outside_of_strings(text) {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 0 => return text.get(..at),
            b')' => depth -= 1,
            _ => (),
        }
    }
    None
}

/// Splits a text at separators that are outside of strings, parentheses, braces and brackets.
fn split(text: &str, separator: u8) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0i32);
    for (at, byte) in outside_of_strings(text) {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => depth -= 1,
            _ if byte == separator && depth == 0 => {
                parts.extend(text.get(begin..at));
                begin = at + 1;
            }
            _ => (),
        }
    }
    parts.extend(text.get(begin..));
    parts
}

/// Returns the bytes outside of string and character literals, with their positions.
fn outside_of_strings(text: &str) -> impl Iterator<Item = (usize, u8)> + '_ {
    let (mut quote, mut is_escaped) = (None, false);
    text.bytes().enumerate().filter(move |(_, byte)| match quote {
        Some(_) if is_escaped => {
            is_escaped = false;
            false
        }
        Some(_) if *byte == b'\\' => {
            is_escaped = true;
            false
        }
        Some(open) => {
            if *byte == open {
                quote = None;
            }
            false
        }
        None if matches!(byte, b'"' | b'\'') => {
            quote = Some(*byte);
            false
        }
        None => true,
    })
}

/// Returns the text of adjacent string literals, which C joins. Control characters become spaces.
fn literal(text: &str) -> String {
    let mut out = String::new();
    let mut is_inside = false;
    let mut chars = text.chars();
    while let Some(found) = chars.next() {
        match found {
            '"' => is_inside = !is_inside,
            '\\' if is_inside => match chars.next() {
                Some('n' | 't' | 'r') => out.push(' '),
                Some(escaped) if !escaped.is_control() => out.push(escaped),
                _ => (),
            },
            found if is_inside && found.is_control() => out.push(' '),
            found if is_inside => out.push(found),
            _ => (),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_of_a_format_are_found_with_the_argument_of_a_star() {
        let found = conversions("%% a=%-8.3lx %*pbl %d%s %pI4c:%hu %#llx %zuB%");
        let found: Vec<_> = found.iter().map(Option::as_deref).collect();
        let expected = ["x", "", "pbl", "d", "s", "pI4c", "u", "x", "u"];
        let expected: Vec<_> =
            expected.iter().map(|letter| (!letter.is_empty()).then_some(*letter)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn plain_field_in_parentheses_and_casts_is_found() {
        for text in ["REC->x", " (REC->x) ", "((unsigned long)REC->x)", "(void *) (REC->x)"] {
            assert_eq!(plain_field(text).map(|field| field.name), Some("x"), "{text}");
        }
    }

    #[test]
    fn plain_field_of_another_expression_is_none() {
        for text in
            ["REC->x & 1", "REC->x->y", "(u8)REC->x >> 2", "f(REC->x)", "(REC->x", "((u8)", ""]
        {
            assert!(plain_field(text).is_none(), "{text}");
        }
    }

    #[test]
    fn literal_of_strings_side_by_side_is_one_text() {
        assert_eq!(literal(r#" "a\"b" "c\\d\n" "#), r#"a"bc\d "#);
    }

    #[test]
    fn split_passes_over_strings_and_braces() {
        let parts = split(r#" "a,b", f(c, d), { 1, "}" }, ',' , e"#, b',');
        assert_eq!(parts, [r#" "a,b""#, " f(c, d)", r#" { 1, "}" }"#, " ',' ", " e"]);
    }
}
