//! Pairs of events by their names: the events that begin a slice, and those that end it.

use std::collections::{HashMap, HashSet};

use strata_model::schema::{EventClass, FieldClass};
use thiserror::Error;

use crate::records::tracer_names::{kernel_name, CallEnd};
use crate::span_rules::glob::Glob;

/// The number of a pair.
pub type PairIndex = u32;

/// Suffixes of names of events that begin something, each with the suffixes of those that end it.
const SUFFIXES: [(&str, &[&str]); 5] = [
    ("begin", &["end", "done"]),
    ("start", &["stop", "end", "done", "finish"]),
    ("entry", &["exit", "return"]),
    ("enter", &["leave", "exit", "return"]),
    ("acquire", &["release"]),
];

/// A pair that the user defines: `BEGIN=END` or `BEGIN=END:KEYFIELD`. Each name may have one `*`, which stands for the
/// same text in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairRule {
    begin: Glob,
    end: Glob,
    key: Option<String>,
}

/// The error for a text that does not define a pair.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PairRuleError {
    /// The text is not `BEGIN=END`.
    #[error(
        "'{0}' is no pair; write BEGIN=END or BEGIN=END:KEYFIELD, as in 'db:query=db:result:id'"
    )]
    NoPair(String),
    /// A name has more than one `*`.
    #[error("'{0}' has more than one '*'; a name in a pair has one at most")]
    TooManyStars(String),
    /// The begin has a `*` and the end has none, or the other way round.
    #[error("'{0}': '*' is in one name only; it stands for the same text in both")]
    OneStar(String),
    /// Begin and end of the pair are the same.
    #[error("'{0}': begin and end are the same event")]
    Same(String),
}

impl std::fmt::Display for PairRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.begin.with("*"), self.end.with("*"))?;
        self.key.as_ref().map_or(Ok(()), |key| write!(f, ":{key}"))
    }
}

impl std::str::FromStr for PairRule {
    type Err = PairRuleError;

    fn from_str(text: &str) -> Result<PairRule, PairRuleError> {
        let bad = || PairRuleError::NoPair(text.to_owned());
        let (begin, rest) = text.split_once('=').ok_or_else(bad)?;
        // A name has as many ':' as the other one; what is behind one more is the key.
        let colons = begin.matches(':').count();
        let (end, key) = match rest.match_indices(':').nth(colons) {
            Some((at, _)) => (rest.get(..at), rest.get(at + 1..)),
            None => (Some(rest), None),
        };
        let end = end.ok_or_else(bad)?;
        if begin.is_empty() || end.is_empty() || key == Some("") {
            return Err(bad());
        }
        if begin == end {
            return Err(PairRuleError::Same(text.to_owned()));
        }
        let (begin, end) = (Glob::new(begin), Glob::new(end));
        if begin.stars() > 1 || end.stars() > 1 {
            return Err(PairRuleError::TooManyStars(text.to_owned()));
        }
        if begin.stars() != end.stars() {
            return Err(PairRuleError::OneStar(text.to_owned()));
        }
        Ok(PairRule { begin, end, key: key.map(str::to_owned) })
    }
}

/// The role of an event in a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairRole {
    /// The pair.
    pub pair: PairIndex,
    /// True for the begin, false for the end.
    pub begins: bool,
    /// True for a system call.
    pub syscall: bool,
    /// The field that distinguishes overlapping slices.
    pub key: Option<String>,
    /// The name of the slice between the two ends.
    pub name: String,
}

/// All pairs of all traces.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    roles: HashMap<String, PairRole>,
    by_rule: bool,
    checks: HashMap<PairIndex, String>,
}

impl Pairs {
    /// Makes pairs from the names of all events. A pair needs both of its ends among them, unless it is a system call.
    pub fn new<'n>(
        names: impl Iterator<Item = &'n str>,
        rules: &[PairRule],
        automatic: bool,
    ) -> Pairs {
        let mut builder = PairsBuilder::default();
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.dedup();
        for rule in rules {
            builder.rule(rule, &names);
        }
        let by_rule = !builder.roles.is_empty();
        for name in &names {
            builder.syscall(name);
        }
        if automatic {
            let known: std::collections::HashSet<&str> = names.iter().copied().collect();
            for name in &names {
                builder.automatic(name, |other| known.contains(other));
            }
        }
        Pairs { roles: builder.roles, by_rule, checks: HashMap::new() }
    }

    /// Gives pairs by name the key that their events have in the field [`SPAN_KEY`].
    pub fn find_keys(&mut self, classes: &HashMap<&str, &EventClass>) {
        let plain = self.roles.iter().filter(|(_, role)| !role.syscall && role.key.is_none());
        let keyed = keyed(plain.map(|(name, role)| (name.as_str(), role.pair)), classes);
        for role in self.roles.values_mut().filter(|role| keyed.contains(&role.pair)) {
            role.key = Some(SPAN_KEY.to_owned());
        }
    }

    /// Looks for fields that distinguish slices of a pair although no rule names them as the key.
    pub fn find_checks(&mut self, classes: &HashMap<&str, &EventClass>) {
        let plain = self.roles.iter().filter(|(_, role)| !role.syscall && role.key.is_none());
        self.checks = checks(plain.map(|(name, role)| (name.as_str(), role.pair)), classes);
    }

    /// Returns the field that has the same value at both ends of a slice, if a pair has one.
    #[must_use]
    pub fn check(&self, pair: PairIndex) -> Option<&str> {
        self.checks.get(&pair).map(String::as_str)
    }

    /// Returns true if no rule has made a pair.
    #[must_use]
    pub fn is_without_rules(&self) -> bool {
        !self.by_rule
    }

    /// Returns the role of an event; `None` if it has none.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&PairRole> {
        self.roles.get(name)
    }

    /// Returns the events that begin this pair or, with `begins` false, those that end it.
    pub fn events_of(&self, pair: PairIndex, begins: bool) -> impl Iterator<Item = &str> {
        let is_one = move |role: &PairRole| role.pair == pair && role.begins == begins;
        let found = self.roles.iter().filter(move |(_, role)| is_one(role));
        found.map(|(name, _)| name.as_str())
    }
}

#[derive(Default)]
struct PairsBuilder {
    roles: HashMap<String, PairRole>,
    pairs: PairIndex,
    syscalls: HashMap<String, PairIndex>,
}

impl PairsBuilder {
    fn next(&mut self) -> PairIndex {
        self.pairs = self.pairs.saturating_add(1);
        self.pairs
    }

    fn add(&mut self, event: &str, role: PairRole) {
        self.roles.entry(event.to_owned()).or_insert(role);
    }

    fn rule(&mut self, rule: &PairRule, names: &[&str]) {
        for begin in names {
            let Some(text) = rule.begin.capture(begin) else { continue };
            let end = rule.end.with(text);
            // The sorted names: a rule for thousands of names must not take the square of that.
            if names.binary_search(&end.as_str()).is_err() || self.roles.contains_key(*begin) {
                continue;
            }
            let pair = self.next();
            let name = slice_name(begin).map_or_else(|| (*begin).to_owned(), str::to_owned);
            let role = PairRole { pair, begins: true, syscall: false, key: rule.key.clone(), name };
            self.add(&end, PairRole { begins: false, ..role.clone() });
            self.add(begin, role);
        }
    }

    fn syscall(&mut self, event: &str) {
        let found = CallEnd::of(event).map(|end| (end.name, end.begins));
        // Not named each, but with a number.
        let found = found.or(match kernel_name(event) {
            "sys_enter" => Some(("syscall", true)),
            "sys_exit" => Some(("syscall", false)),
            _ => None,
        });
        // The end of any call is of one pair with all begins.
        let is_of_any = CallEnd::is_of_any(event);
        let found = found.or(is_of_any.then_some(("syscall", false)));
        let Some((name, begins)) = found else { return };
        let ends = match is_of_any || CallEnd::is_ended_by_any(event) {
            true => "exit_syscall",
            false => name,
        };
        let pair = match self.syscalls.get(ends) {
            Some(&pair) => pair,
            None => {
                let pair = self.next();
                self.syscalls.insert(ends.to_owned(), pair);
                pair
            }
        };
        let role = PairRole { pair, begins, syscall: true, key: None, name: name.to_owned() };
        self.add(event, role);
    }

    fn automatic(&mut self, begin: &str, known: impl Fn(&str) -> bool) {
        if self.roles.contains_key(begin) {
            return;
        }
        for (suffix, ends) in SUFFIXES {
            let Some(stem) = begin.strip_suffix(suffix) else { continue };
            // Whole words only: not 'restart', nor 'reentry'.
            if !(stem.is_empty() || stem.ends_with(['_', ':', '-', '.'])) {
                continue;
            }
            let mut pair = None;
            for end in ends.iter().map(|end| format!("{stem}{end}")) {
                if !known(&end) || self.roles.contains_key(&end) {
                    continue;
                }
                let pair = *pair.get_or_insert_with(|| self.next());
                let name = slice_name(begin).unwrap_or(begin).to_owned();
                let role = PairRole { pair, begins: true, syscall: false, key: None, name };
                self.add(&end, PairRole { begins: false, ..role.clone() });
                self.add(begin, role);
            }
        }
    }
}

/// The field by which programs tell overlapping spans of one name apart: `strata_span_begin_key()` records it.
pub const SPAN_KEY: &str = "span_key";

/// Returns the pairs of which all events have the field [`SPAN_KEY`].
#[must_use]
pub fn keyed<'r>(
    roles: impl Iterator<Item = (&'r str, PairIndex)>,
    classes: &HashMap<&str, &EventClass>,
) -> HashSet<PairIndex> {
    let mut found: HashMap<PairIndex, bool> = HashMap::new();
    for (name, pair) in roles {
        let payload = classes.get(name).and_then(|class| class.payload.as_ref());
        let members = payload.into_iter().flat_map(|payload| &payload.members);
        let has_key = members.into_iter().any(|member| member.name == SPAN_KEY);
        *found.entry(pair).or_insert(true) &= has_key;
    }
    found.into_iter().filter_map(|(pair, has_key)| has_key.then_some(pair)).collect()
}

/// Returns, for each pair, the integer or text field of both ends that seems to identify a slice among overlapping
/// ones.
#[must_use]
pub fn checks<'r>(
    roles: impl Iterator<Item = (&'r str, PairIndex)>,
    classes: &HashMap<&str, &EventClass>,
) -> HashMap<PairIndex, String> {
    let of = |name: &str| -> Vec<String> {
        let payload = classes.get(name).and_then(|class| class.payload.as_ref());
        let members = payload.into_iter().flat_map(|payload| &payload.members);
        let is_value =
            |class: &FieldClass| matches!(class, FieldClass::Integer(_) | FieldClass::String);
        let members = members.filter(|member| is_value(&member.class) && is_id(&member.name));
        members.map(|member| member.name.clone()).collect()
    };
    let mut common: HashMap<PairIndex, Vec<Vec<String>>> = HashMap::new();
    for (name, pair) in roles {
        common.entry(pair).or_default().push(of(name));
    }
    let first = |fields: Vec<Vec<String>>| {
        let (one, others) = fields.split_first()?;
        one.iter().find(|field| others.iter().all(|other| other.contains(field))).cloned()
    };
    common.into_iter().filter_map(|(pair, fields)| Some((pair, first(fields)?))).collect()
}

/// Prefixes of events that are about a function, each with the field of the function's address.
const ADDRESSES: [(&str, &str); 2] =
    [("functions:", "function"), ("lttng_ust_cyg_profile", "addr")];

/// Returns the field with the address of the object that an event's slice is about. Both ends of a slice have the same
/// address.
#[must_use]
pub fn address_of(event: &str) -> Option<&'static str> {
    ADDRESSES.iter().find(|(begin, _)| event.starts_with(begin)).map(|&(_, field)| field)
}

fn is_id(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "id" || name.ends_with("_id") || ["key", "cookie", "seq", "request"].contains(&&*name)
}

/// Returns the name of a slice from that of its begin: `provider:work` for `provider:work_begin`, and `provider` for
/// `provider:begin`.
fn slice_name(begin: &str) -> Option<&str> {
    SUFFIXES.iter().find_map(|(suffix, _)| {
        let stem = begin.strip_suffix(suffix)?;
        let name = stem.strip_suffix(['_', ':', '-', '.'])?;
        (!name.is_empty()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(names: &[&str], rules: &[&str]) -> Pairs {
        let rules: Vec<PairRule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Pairs::new(names.iter().copied(), &rules, true)
    }

    /// Returns the name of the pair that begins and ends with these events.
    fn pair<'p>(pairs: &'p Pairs, begin: &str, end: &str) -> Option<&'p str> {
        let (begin, end) = (pairs.role(begin)?, pairs.role(end)?);
        (begin.pair == end.pair && begin.begins && !end.begins).then_some(begin.name.as_str())
    }

    #[test]
    fn pairs_by_suffix_are_found_where_both_ends_are() {
        for (begin, end, name) in [
            ("a:work_begin", "a:work_end", "a:work"),
            ("a:io_start", "a:io_stop", "a:io"),
            ("a:io_start", "a:io_end", "a:io"),
            ("a:io_start", "a:io_done", "a:io"),
            ("func_entry", "func_exit", "func"),
            ("a:f_enter", "a:f_leave", "a:f"),
            ("a:f_enter", "a:f_exit", "a:f"),
            ("a:begin", "a:end", "a"),
            ("begin", "end", "begin"),
        ] {
            let found = pairs(&[begin, end, "other:thing"], &[]);
            assert_eq!(pair(&found, begin, end), Some(name), "{begin} {end}");
            let alone = pairs(&[begin], &[]);
            assert_eq!(alone.role(begin), None, "{begin} alone");
            let alone = pairs(&[end], &[]);
            assert_eq!(alone.role(end), None, "{end} alone");
        }
    }

    #[test]
    fn pairs_of_names_that_only_look_alike_are_none() {
        let found = pairs(&["a:restart", "a:restop", "a:x_begin", "b:x_end", "a:y_entry"], &[]);
        assert!(found.roles.is_empty(), "{found:?}");
    }

    #[test]
    fn pair_with_two_kinds_of_ends_ends_with_either() {
        let found = pairs(&["a:io_start", "a:io_stop", "a:io_done"], &[]);
        assert_eq!(pair(&found, "a:io_start", "a:io_stop"), Some("a:io"));
        assert_eq!(pair(&found, "a:io_start", "a:io_done"), Some("a:io"));
    }

    #[test]
    fn pairs_not_wanted_are_not_made_but_system_calls_are() {
        let names = ["a:x_begin", "a:x_end", "syscall_entry_read", "syscall_exit_read"];
        let found = Pairs::new(names.into_iter(), &[], false);
        assert_eq!(found.role("a:x_begin"), None);
        assert_eq!(pair(&found, "syscall_entry_read", "syscall_exit_read"), Some("read"));
    }

    #[test]
    fn system_calls_in_each_tracers_spelling_are_pairs() {
        for (begin, end, name) in [
            ("syscall_entry_openat", "syscall_exit_openat", "openat"),
            ("compat_syscall_entry_openat", "compat_syscall_exit_openat", "openat"),
            ("syscalls:sys_enter_openat", "syscalls:sys_exit_openat", "openat"),
            ("sys_enter_openat", "sys_exit_openat", "openat"),
            ("raw_syscalls:sys_enter", "raw_syscalls:sys_exit", "syscall"),
        ] {
            let found = pairs(&[begin, end], &[]);
            assert_eq!(pair(&found, begin, end), Some(name));
            assert!(found.role(begin).unwrap().syscall);
            // Its exits may all have been discarded.
            assert!(pairs(&[begin], &[]).role(begin).is_some());
        }
        assert_eq!(pairs(&["syscall_entry_"], &[]).role("syscall_entry_"), None);
    }

    #[test]
    fn pair_rule_has_its_key_behind_one_more_colon() {
        let found = pairs(&["db:query", "db:result"], &["db:query=db:result:id"]);
        assert_eq!(pair(&found, "db:query", "db:result"), Some("db:query"));
        assert_eq!(found.role("db:query").unwrap().key.as_deref(), Some("id"));
        let rule: PairRule = "a:*_go=a:*_ok:id".parse().unwrap();
        assert_eq!(rule.to_string(), "a:*_go=a:*_ok:id");
        let found = pairs(&["db:query", "db:result"], &["db:query=db:result"]);
        assert_eq!(found.role("db:query").unwrap().key, None);
        let found = pairs(&["rq_issue", "rq_complete"], &["rq_issue=rq_complete:sector"]);
        assert_eq!(found.role("rq_complete").unwrap().key.as_deref(), Some("sector"));
    }

    #[test]
    fn pair_rule_with_stars_means_the_same_text() {
        let names = ["a:one_go", "a:one_ok", "a:two_go", "a:six_ok"];
        let found = pairs(&names, &["a:*_go=a:*_ok"]);
        assert_eq!(pair(&found, "a:one_go", "a:one_ok"), Some("a:one_go"));
        assert_eq!(found.role("a:two_go"), None);
        assert_eq!(found.role("a:six_ok"), None);
    }

    #[test]
    fn pair_rule_goes_before_what_names_say() {
        let names = ["a:x_begin", "a:x_end", "a:x_commit"];
        let found = pairs(&names, &["a:x_begin=a:x_commit"]);
        assert_eq!(pair(&found, "a:x_begin", "a:x_commit"), Some("a:x"));
        assert_eq!(found.role("a:x_end"), None);
    }

    #[test]
    fn pair_rule_that_is_none_says_how_to_write_it() {
        let error = |text: &str| text.parse::<PairRule>().unwrap_err();
        for text in ["", "a", "=", "a=", "=b", "a:b=a:c:"] {
            assert_eq!(error(text), PairRuleError::NoPair(text.into()));
        }
        assert!(error("a").to_string().contains("BEGIN=END"));
        assert_eq!(error("a**b=c"), PairRuleError::TooManyStars("a**b=c".into()));
        assert_eq!(error("a*=b"), PairRuleError::OneStar("a*=b".into()));
        assert_eq!(error("a=a"), PairRuleError::Same("a=a".into()));
    }

    #[test]
    fn pair_whose_events_all_have_the_key_of_spans_is_keyed() {
        use strata_model::schema::{Member, Structure};
        let class = |name: &str, fields: &[&str]| {
            let member =
                |field: &&str| Member { name: (*field).to_owned(), class: FieldClass::String };
            let payload = Structure { align: 1, members: fields.iter().map(member).collect() };
            EventClass { name: name.to_owned(), payload: Some(payload), ..EventClass::default() }
        };
        let all = [
            class("a:x_begin", &["span_key", "n"]),
            class("a:x_end", &["span_key"]),
            class("a:y_begin", &["span_key"]),
            class("a:y_end", &["n"]),
        ];
        let classes = all.iter().map(|class| (class.name.as_str(), class)).collect();
        let mut found = pairs(&["a:x_begin", "a:x_end", "a:y_begin", "a:y_end"], &[]);
        found.find_keys(&classes);
        let key = |name: &str| found.role(name).unwrap().key.as_deref();
        assert_eq!((key("a:x_begin"), key("a:x_end")), (Some("span_key"), Some("span_key")));
        assert_eq!((key("a:y_begin"), key("a:y_end")), (None, None));
    }
}
