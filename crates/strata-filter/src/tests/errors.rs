//! Tests of each message, and the place that it points to.

use crate::{Filter, MAX_DEPTH, MAX_LENGTH};

/// Returns the error's column, its message without "filter, column N: ", and the line of carets.
fn error(text: &str) -> (usize, String, String) {
    let error = Filter::parse(text).expect_err(text);
    let shown = error.to_string();
    assert!(!shown.contains('\n'), "one line: {shown}");
    let column = error.column();
    let message = shown.strip_prefix(&format!("filter, column {column}: ")).expect("its column");
    let caret = error.caret();
    let (line, carets) = caret.split_once('\n').expect("two lines");
    assert_eq!(line, text);
    (column, message.to_string(), carets.to_string())
}

#[track_caller]
fn wrong(text: &str, message: &str, carets: &str) {
    let (column, found, shown) = error(text);
    assert_eq!(found, message, "{text}");
    assert_eq!(shown, carets, "{text}");
    assert_eq!(column, carets.find('^').unwrap() + 1, "{text}");
}

#[test]
fn empty_filter_says_so() {
    for text in ["", "  "] {
        wrong(
            text,
            "the filter is empty. Write an event's name or a comparison, or leave it out",
            "^ expected an event's name or a comparison",
        );
    }
}

#[test]
fn too_long_filter_names_both_lengths() {
    let text = format!("{}é", "a".repeat(MAX_LENGTH - 1));
    let error = Filter::parse(&text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "filter, column 16384: the filter has 16385 bytes, limit 16384. Use a pattern for similar names"
    );
    assert!(error.caret().ends_with("^ at most 16384 bytes"), "{}", error.caret());
    assert!(error.caret().len() < 300, "not the whole text");
}

#[test]
fn longest_filter_is_read() {
    assert!(Filter::parse(&"a".repeat(MAX_LENGTH)).is_ok());
}

#[test]
fn nesting_is_limited() {
    let nested = |open: &str, close: &str, count: usize| {
        Filter::parse(&format!("{}a{}", open.repeat(count), close.repeat(count)))
    };
    assert!(nested("(", ")", 2 * MAX_DEPTH).is_ok());
    let error = nested("(", ")", 2 * MAX_DEPTH + 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "filter, column 129: nested deeper than 64 levels. Remove parentheses and '!' that change nothing"
    );
    assert!(error.caret().ends_with("^ at most 64 levels"));
    assert!(nested("!", "", MAX_DEPTH).is_ok());
    assert!(nested("!", "", MAX_DEPTH + 1).is_err());
    assert!(nested("a && (b || ", ")", MAX_DEPTH / 2).is_ok());
    assert!(nested("a && (b || ", ")", MAX_DEPTH / 2 + 1).is_err());
}

#[test]
fn parts_of_one_level_are_not_nested() {
    let text = vec!["a && b"; 1000].join(" || ");
    assert!(Filter::parse(&text).is_ok());
    assert!(Filter::parse(&"(a && b) && ".repeat(1000)).is_err(), "an operand is missing");
}

#[test]
fn missing_operand_says_what_could_be_there() {
    let condition = "an event's name, a field, '!' or '('";
    let operand = "a number, text in double quotes or a field";
    for (text, expected, found, place) in [
        ("a &&", condition, "the end", 4),
        ("a && || b", condition, "'||'", 5),
        ("a and or b", condition, "'or'", 6),
        ("&& a", condition, "'&&'", 0),
        ("()", condition, "')'", 1),
        ("!", condition, "the end", 1),
        ("== 3", condition, "'=='", 0),
        ("in {1}", condition, "'in'", 0),
        (".5 < x", condition, "'.'", 0),
        ("len >", operand, "the end", 5),
        ("len > && a", operand, "'&&'", 6),
        ("len == !a", operand, "'!'", 7),
        ("len == -x", operand, "'-'", 7),
        ("has()", "a field", "')'", 4),
        ("has(3)", "a field", "'3'", 4),
        ("has(a b)", "')'", "'b'", 6),
        ("len in 3", "'{'", "'3'", 7),
        ("len in (1, 2)", "'{'", "'('", 7),
        ("len in {1 2}", "',' or '}'", "'2'", 10),
        ("len in {x}", "a number or text in double quotes", "'x'", 8),
        ("len in {1,}", "a number or text in double quotes", "'}'", 10),
        ("len == (3 4)", "')'", "'4'", 10),
    ] {
        let width = found.trim_matches('\'').len();
        let carets = "^".repeat(if found == "the end" { 1 } else { width });
        wrong(
            text,
            &format!("expected {expected}, found {found}"),
            &format!("{}{carets} expected {expected}", " ".repeat(place)),
        );
    }
}

#[test]
fn something_behind_a_condition() {
    wrong(
        "a b",
        "'b' behind a complete expression. Write '&&' or '||' between two conditions",
        "  ^ expected '&&', '||' or the end",
    );
    wrong(
        "(len == 3 foo)",
        "'foo' behind a complete expression. Write '&&' or '||' between two conditions",
        "          ^^^ expected '&&', '||' or ')'",
    );
    wrong(
        "a [3] == 1",
        "'[' behind a complete expression. Write '&&' or '||' between two conditions",
        "  ^ expected '&&', '||' or the end",
    );
}

#[test]
fn operators_of_other_languages_are_translated() {
    for (text, found, instead, place) in [
        ("len = 4096", "=", "==", 4),
        ("(len = 4096)", "=", "==", 5),
        ("len === 4096", "===", "==", 4),
        ("len !== 4096", "!==", "!=", 4),
        ("len <> 4096", "<>", "!=", 4),
        ("len => 4096", "=>", ">=", 4),
        ("len =< 4096", "=<", "<=", 4),
        ("a | b", "|", "||", 2),
        ("len == 1 | b", "|", "||", 9),
        ("a AND b", "AND", "&&", 2),
        ("a Or b", "Or", "||", 2),
        ("len in {1 .. 5}", "..", "...", 10),
        ("(flags & 1) = 1", "=", "==", 12),
    ] {
        wrong(
            text,
            &format!("'{found}' is not an operator here. Write '{instead}'"),
            &format!("{}{} expected '{instead}'", " ".repeat(place), "^".repeat(found.len())),
        );
    }
}

#[test]
fn regular_expressions_and_arithmetic_are_refused() {
    wrong(
        "comm =~ \"ng.*\"",
        "'=~': no regular expressions. Use '==' with '*' and '?' in the text",
        "     ^^ expected '==' or '!='",
    );
    wrong(
        "comm !~ \"ng.*\"",
        "'!~': no regular expressions. Use '==' with '*' and '?' in the text",
        "     ^^ expected '==' or '!='",
    );
    for (text, sign, place, width) in [
        ("len + 1 == 3", '+', 4, 1),
        ("len - 1 == 3", '-', 4, 1),
        ("len / 2 == 3", '/', 4, 1),
        ("len % 2 == 3", '%', 4, 1),
        ("len ^ 2 == 3", '^', 4, 1),
        ("len << 2 == 3", '<', 4, 2),
        ("len >> 2 == 3", '>', 4, 2),
        ("3 == len + 1", '+', 9, 1),
    ] {
        wrong(
            text,
            &format!("'{sign}': no arithmetic. Compare a field with a number or another field"),
            &format!(
                "{}{} expected a comparison, '&&', '||' or the end",
                " ".repeat(place),
                "^".repeat(width)
            ),
        );
    }
}

#[test]
fn single_and_is_a_bit_test_only_with_a_number() {
    for (text, place) in [("a & b", 2), ("len == 1 & b", 9), ("flags &", 6), ("has(a) & b", 7)] {
        wrong(
            text,
            "'&' tests bits and needs a number: field & 0x4. For two conditions write '&&'",
            &format!("{}^ expected '&&', or a number behind '&'", " ".repeat(place)),
        );
    }
    for (mask, width) in [("0", 1), ("-1", 2), ("1.5", 3)] {
        wrong(
            &format!("flags & {mask}"),
            &format!("'{mask}' is no mask. Write the bits to test as a positive integer"),
            &format!("        {} expected a positive integer", "^".repeat(width)),
        );
    }
    wrong(
        "4 & 3 == flags",
        "bits can be tested of a field or 'cpu' only. Write field & 0x4",
        "^ expected a field in front of '&'",
    );
    wrong(
        "name & 3",
        "bits can be tested of a field or 'cpu' only. Write field & 0x4",
        "^^^^ expected a field in front of '&'",
    );
    wrong(
        "flags & 1 == \"x\"",
        "bits are a number and never equal text. Compare the field without '&'",
        "             ^^^ expected a number",
    );
}

#[test]
fn quotes_are_double_and_closed() {
    wrong(
        "comm == 'nginx'",
        "' does not enclose text. Write \"text\" in double quotes",
        "        ^ expected '\"'",
    );
    wrong(
        "comm == “nginx”",
        "“ does not enclose text. Write \"text\" in double quotes",
        "        ^ expected '\"'",
    );
    for text in ["comm == \"nginx", "comm == \"nginx\\", "comm == \"nginx\\\""] {
        wrong(
            text,
            "the text has no closing '\"'. Add it, or write a quote in the text as '\\\"'",
            "        ^ expected '\"' at the end",
        );
    }
}

#[test]
fn escapes_are_those_of_c() {
    let note = "expected one of \\\\ \\\" \\* \\? \\n \\t \\r \\a \\b \\f \\v \\xHH \\OOO";
    for (escape, shown) in [("\\q", "\\q"), ("\\x4", "\\x"), ("\\xgg", "\\x"), ("\\777", "\\777")] {
        wrong(
            &format!("c == \"{escape}\""),
            &format!("'{shown}' is no escape. Write '\\\\' for a backslash"),
            &format!("      {} {note}", "^".repeat(shown.len())),
        );
    }
    for escape in ["\\0", "\\x00", "\\000"] {
        wrong(
            &format!("c == \"{escape}\""),
            &format!("'{escape}': text never has a zero byte. Remove it"),
            &format!("      {} {note}", "^".repeat(escape.len())),
        );
    }
}

#[test]
fn zero_byte_itself_is_refused_as_its_escape_is() {
    let error = Filter::parse("c == \"a\0\"").unwrap_err();
    assert_eq!(error.to_string(), "filter, column 8: '\\0': text never has a zero byte. Remove it");
    assert!(error.caret().starts_with("c == \"a \"\n       ^ "), "{}", error.caret());
}

#[test]
fn what_is_opened_is_closed() {
    wrong("(a && b", "'(' has no ')'. Close it", "^ expected ')' behind it");
    wrong("a && (b || (c)", "'(' has no ')'. Close it", "     ^ expected ')' behind it");
    wrong("len == (3", "'(' has no ')'. Close it", "       ^ expected ')' behind it");
    wrong("has(a", "'(' has no ')'. Close it", "   ^ expected ')' behind it");
    wrong("a[3 == 1", "'[' has no ']'. Close it", " ^ expected ']' behind it");
    wrong("x in {1, 2", "'{' has no '}'. Close it", "     ^ expected '}' behind it");
    for (text, place, closing) in [("a)", 1, ')'), ("(a) && b)", 8, ')'), ("a}", 1, '}')] {
        wrong(
            text,
            &format!("'{closing}' closes nothing. Remove it, or open it in front"),
            &format!("{}^ expected '&&', '||' or the end", " ".repeat(place)),
        );
    }
}

#[test]
fn bad_numbers_say_why() {
    for (number, why) in [
        ("0x", "behind '0x' are only 0 to 9 and a to f"),
        ("0xfg", "behind '0x' are only 0 to 9 and a to f"),
        ("0o8", "behind '0o' are only 0 to 7"),
        ("0b2", "behind '0b' are only 0 and 1"),
        ("017", "a 0 in front is octal elsewhere: write 0o17, or leave it out"),
        ("1_000", "it has no '_' in it, and names that begin with a digit are quoted"),
        ("1.ms", "a unit stands behind digits, with one point among them or none: 1.5ms"),
        ("1.2.3s", "a unit stands behind digits, with one point among them or none: 1.5ms"),
        ("1.", "digits follow the point"),
        ("1.2.3", "digits follow the point"),
        ("1e", "a whole number follows the 'e'"),
        ("1e+", "a whole number follows the 'e'"),
        ("1e1.5", "a whole number follows the 'e'"),
    ] {
        wrong(
            &format!("len > {number}"),
            &format!("'{number}' is not a number: {why}"),
            &format!("      {} {why}", "^".repeat(number.len())),
        );
    }
}

#[test]
fn units_that_are_none_or_stand_apart_say_how_they_are_written() {
    let known = "Units are ns, us, ms, s, min, h, d and B, KiB, MiB, GiB, TiB, without a blank in front; names that begin \
                 with a digit are quoted";
    wrong(
        "len > 5msec",
        &format!("'5msec' has no known unit: 'msec' (similar: 'ms'). {known}"),
        "      ^^^^^ perhaps 'ms'",
    );
    wrong(
        "len > 5parsec",
        &format!("'5parsec' has no known unit: 'parsec'. {known}"),
        "      ^^^^^^^ expected a unit such as ms or KiB",
    );
    wrong(
        "len > 5 ms",
        "'ms' is a unit, and stands apart from its number. Write it right behind the number, without a blank",
        "        ^^ expected no blank in front of the unit",
    );
    wrong(
        "len > 99999999TiB",
        "the number 99999999TiB is out of range, limit 18446744073709551615. No field can have it",
        "      ^^^^^^^^^^^ limit 18446744073709551615",
    );
}

#[test]
fn numbers_out_of_range_name_value_and_limit() {
    for (number, limit) in [
        ("18446744073709551616", "18446744073709551615"),
        ("0x10000000000000000", "18446744073709551615"),
        ("-9223372036854775809", "-9223372036854775808"),
        ("999999999999999999999999999999999999999999", "18446744073709551615"),
        ("1e999", "1.7976931348623157e308"),
        ("-1e999", "-1.7976931348623157e308"),
    ] {
        wrong(
            &format!("len > {number}"),
            &format!("the number {number} is out of range, limit {limit}. No field can have it"),
            &format!("      {} limit {limit}", "^".repeat(number.len())),
        );
    }
}

#[test]
fn sets_and_ranges_have_values() {
    wrong(
        "x in {}",
        "no value in '{}'. Write at least one: {1, 2, 10 ... 20}",
        "     ^^ expected a value",
    );
    wrong(
        "x in {5 ... 1}",
        "the range 5 ... 1 has no value. Write the lesser number first",
        "      ^^^^^^^ expected a greater number behind '...'",
    );
    wrong(
        "x in {\"a\" ... \"b\"}",
        "a range is of numbers: {10 ... 20}, both included",
        "      ^^^^^^^^^^^ expected numbers",
    );
}

#[test]
fn fields_have_names_without_wildcards() {
    wrong(
        "sched_* == 3",
        "'sched_*' is not a field: its name has no '*', '?' or ':'. Quote text: \"sched_*\"",
        "^^^^^^^ expected a field's name",
    );
    wrong(
        "comm == ngin?",
        "'ngin?' is not a field: its name has no '*', '?' or ':'. Quote text: \"ngin?\"",
        "        ^^^^^ expected a field's name",
    );
    for (path, place, width, why) in [
        ("a..b", 1, 1, "a name stands on both sides of '.'"),
        ("a.", 1, 1, "a name stands on both sides of '.'"),
        ("payload.", 7, 1, "a name stands on both sides of '.'"),
        ("a[]", 1, 2, "an element's index is a number from 0, as in a[3]"),
        ("a[-1]", 1, 4, "an element's index is a number from 0, as in a[3]"),
        ("a[b && c]", 1, 8, "an element's index is a number from 0, as in a[3]"),
        ("a[3]b", 4, 1, "'.' or '[' follows ']'"),
        ("$app.x", 0, 6, "only $ctx.NAME begins with '$'"),
    ] {
        wrong(
            &format!("{path} == 1"),
            &format!("'{path}' is not a field: {why}"),
            &format!("{}{} {why}", " ".repeat(place), "^".repeat(width)),
        );
    }
}

#[test]
fn constants_and_fields_alone_are_no_conditions() {
    wrong(
        "a && 3",
        "3 alone is no condition. Compare it with a field",
        "     ^ expected a comparison with it",
    );
    wrong(
        "\"a b\"",
        "text alone is no condition. For an event's name write name == \"a b\"",
        "^^^^^ expected 'name ==' in front",
    );
    for field in ["a[3]", "context.pid", "$ctx.pid", "payload.len"] {
        wrong(
            field,
            &format!("'{field}' alone is no condition. Compare it, or write has({field})"),
            &format!("{} expected a comparison with it", "^".repeat(field.len())),
        );
    }
    wrong(
        "1 == 2",
        "two constants are compared. One side must be a field",
        "^^^^^^ expected a field on one side",
    );
    wrong(
        "1 in {1}",
        "two constants are compared. One side must be a field",
        "^ expected a field on one side",
    );
}

#[test]
fn specials_are_compared_with_what_they_are() {
    wrong(
        "a || cpu",
        "'cpu' alone is no condition. Compare it: cpu == 0",
        "     ^^^ expected a comparison with it",
    );
    wrong(
        "name",
        "'name' alone is no condition. Compare it: name == \"sched_*\"",
        "^^^^ expected a comparison with it",
    );
    wrong(
        "!loglevel",
        "'loglevel' alone is no condition. Compare it: loglevel == 6",
        " ^^^^^^^^ expected a comparison with it",
    );
    wrong(
        "name == 3",
        "'name' is text and never equals a number. For a field of that name write payload.name",
        "        ^ expected text",
    );
    wrong(
        "\"x\" == cpu",
        "'cpu' is a number and never equals text. For a field of that name write payload.cpu",
        "^^^ expected a number",
    );
    wrong(
        "loglevel in {\"x\"}",
        "'loglevel' is a number and never equals text. For a field of that name write payload.loglevel",
        "             ^^^ expected a number",
    );
    wrong(
        "name in {1 ... 2}",
        "'name' is text and never equals a number. For a field of that name write payload.name",
        "         ^^^^^^^ expected text",
    );
    for special in ["name", "cpu", "loglevel"] {
        wrong(
            &format!("has({special})"),
            &format!(
                "'{special}' is not a field. For a field of that name write has(payload.{special})"
            ),
            &format!("    {} expected a field", "^".repeat(special.len())),
        );
    }
}

#[test]
fn text_has_no_order_and_comparisons_no_chain() {
    for op in ["<", "<=", ">", ">="] {
        wrong(
            &format!("comm {op} \"a\""),
            &format!("'{op}' does not compare text. Use '==' or '!='"),
            &format!("     {} expected '==' or '!='", "^".repeat(op.len())),
        );
    }
    for text in ["1 < x < 5", "a == b == c"] {
        let place = text.rfind(['<', '=']).unwrap() - usize::from(text.contains("=="));
        wrong(
            text,
            "comparisons cannot be chained. Write a < x && x < b, or x in {a ... b}",
            &format!(
                "{}{} expected '&&', '||' or the end",
                " ".repeat(place),
                if text.contains("==") { "^^" } else { "^" }
            ),
        );
    }
}

#[test]
fn functions_and_dashed_names_are_explained() {
    wrong(
        "strlen(comm) > 3",
        "'strlen' is not a function; 'has' is the only one. Write has(FIELD)",
        "^^^^^^ expected has(FIELD)",
    );
    wrong(
        "a || my-app:re-q*",
        "'-' is not part of a bare word. Quote the name: name == \"my-app:re-q*\"",
        "       ^ expected '&&', '||' or the end",
    );
}

#[test]
fn carets_of_other_scripts_stand_below_the_place() {
    let error = Filter::parse("comm == \"磁気\" && len = 1").unwrap_err();
    assert_eq!(error.caret(), "comm == \"磁気\" && len = 1\n                      ^ expected '=='");
    let error = Filter::parse("größe = 1").unwrap_err();
    assert_eq!(error.caret(), "größe = 1\n      ^ expected '=='");
    assert_eq!(error.span(), 8..9, "bytes");
    assert_eq!(error.column(), 7);
}

#[test]
fn malicious_words_do_not_reach_the_terminal() {
    let error = Filter::parse("a \u{1b}[2J").unwrap_err();
    assert!(!error.to_string().contains('\u{1b}') && !error.caret().contains('\u{1b}'));
    let error = Filter::parse(&format!("{}..b == 1", "a".repeat(5000))).unwrap_err();
    assert!(error.to_string().chars().count() < 200 && error.caret().chars().count() < 300);
}

#[test]
fn character_classes_are_no_patterns() {
    wrong(
        "sched_[ab]*",
        "'sched_[ab]*' is not a field: an element's index is a number from 0, as in a[3]",
        "      ^^^^ an element's index is a number from 0, as in a[3]",
    );
}
