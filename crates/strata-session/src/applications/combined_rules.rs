//! Combines rules that have their own filters for programs, which support one set of rules with a single filter.

use strata_filter::{Filter, Pattern, PatternPart};
use strata_user::Rules;

use crate::applications::filter_check::with_slower;
use crate::plan::PlanError;
use crate::session::layer::{LayerRule, Wanted};

/// Converts what the user wants to record to the rules for programs and one filter on all selected
/// events. The filter is `None` if all of them are recorded.
///
/// # Errors
/// A rule is invalid, or the filters are too long when combined.
pub(crate) fn lowered(wanted: &Wanted) -> Result<(Rules, Option<Filter>), PlanError> {
    if wanted.rules.is_empty() {
        return Ok((Rules::none(), None));
    }
    let texts: Vec<&str> = wanted.rules.iter().map(|rule| rule.text.as_str()).collect();
    let rules = Rules::parse(&texts)?;
    // Excluded events are never selected, whatever other rules say.
    let selecting: Vec<&LayerRule> =
        wanted.rules.iter().filter(|one| !one.text.starts_with('!')).collect();
    let whole = |one: &&LayerRule| with_slower(one.filter.as_ref(), one.slower.unwrap_or(0));
    let filters: Vec<Option<Filter>> = selecting.iter().map(whole).collect::<Result<_, _>>()?;
    let Some(first) = filters.iter().find_map(Option::as_ref) else {
        return Ok((rules, None));
    };
    if filters.iter().all(|one| one.as_ref() == Some(first)) {
        return Ok((rules, Some(first.clone())));
    }
    let mut text = String::new();
    for (rule, filter) in selecting.iter().zip(&filters) {
        // One text may have several rules.
        for one in Rules::parse(&[&rule.text])?.rules() {
            if !text.is_empty() {
                text.push_str(" || ");
            }
            text.push_str(&asked(one, filter.as_ref()));
        }
    }
    Ok((rules, Some(Filter::parse(&text)?)))
}

/// Converts a rule to a condition of the filter language.
pub(crate) fn asked(rule: &strata_user::Rule, filter: Option<&Filter>) -> String {
    let (pattern, level) = rule.parts();
    let mut name = Pattern::default();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '*' => name.push(PatternPart::Any),
            '?' => name.push(PatternPart::One),
            '\\' => name.push(text(letters.next().unwrap_or('\\'))),
            _ => name.push(text(letter)),
        }
    }
    let mut all = format!("name == {name}");
    if let Some((exactly, level)) = level {
        let op = if exactly { "==" } else { "<=" };
        all.push_str(&format!(" && loglevel {op} {level}"));
    }
    match filter {
        Some(filter) => format!("({all} && ({}))", filter.text()),
        None => format!("({all})"),
    }
}

fn text(letter: char) -> PatternPart {
    PatternPart::Text(letter.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(rules: &[(&str, Option<&str>)]) -> Wanted {
        let rule = |(text, filter): &(&str, Option<&str>)| LayerRule {
            text: (*text).to_owned(),
            filter: filter.map(|filter| Filter::parse(filter).unwrap()),
            ..LayerRule::default()
        };
        Wanted { rules: rules.iter().map(rule).collect(), ..Wanted::default() }
    }

    fn filter(rules: &[(&str, Option<&str>)]) -> Option<String> {
        lowered(&wanted(rules)).unwrap().1.map(|filter| filter.text().to_owned())
    }

    #[test]
    fn lowered_rules_have_a_filter_only_if_one_of_them_has() {
        assert_eq!(lowered(&Wanted::default()).unwrap().0, Rules::none());
        let (rules, none) = lowered(&wanted(&[("a:*", None), ("!a:b", None)])).unwrap();
        assert_eq!((rules.as_str(), none), ("a:*,!a:b", None));
        assert_eq!(filter(&[("a:*", Some("x > 3")), ("!a:b", None)]).unwrap(), "x > 3");
        assert_eq!(filter(&[("a", Some("x > 3")), ("b", Some("x > 3"))]).unwrap(), "x > 3");
    }

    #[test]
    fn lowered_filters_ask_each_rule_by_its_name_and_level() {
        let text = filter(&[
            ("shop:*@=6", Some("price > 3 || x == 1")),
            ("bank,a\\*:?@info", None),
            ("!bank:x", None),
        ]);
        let wanted = r#"(name == "shop:*" && loglevel == 6 && (price > 3 || x == 1)) || (name == "bank:*") || (name == "a\*:?" && loglevel <= 6)"#;
        assert_eq!(text.unwrap(), wanted);
    }

    #[test]
    fn lowered_bound_on_spans_is_that_of_its_rule() {
        let rule = |text: &str, slower| LayerRule {
            text: text.to_owned(),
            slower,
            ..LayerRule::default()
        };
        let rules = vec![rule("a:*", Some(1_000_000)), rule("b:*", None)];
        let (_, filter) = lowered(&Wanted { rules, ..Wanted::default() }).unwrap();
        let filter = filter.unwrap();
        let wanted = "(name == \"a:*\" && ((!has(context.duration) || context.duration >= 1000000))) || (name == \"b:*\")";
        assert_eq!(filter.text(), wanted);
        assert!(filter.asks_for_duration());
    }

    #[test]
    fn lowered_rules_that_are_none_say_so() {
        assert!(lowered(&wanted(&[("a:*@loud", None)])).is_err());
        let long = "x == 1 || ".repeat(1_636) + "x == 1";
        let error = lowered(&wanted(&[("a:*", None), ("b:*", Some(&long))]));
        assert!(error.is_err());
    }
}
