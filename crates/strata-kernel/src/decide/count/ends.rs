//! Divides a filter on system calls between the entry and the exit of a call.

use crate::decide::count::CountError;
use crate::decide::event::KernelEvent;
use crate::decide::filter::{has_field, SyscallEnd};
use strata_filter::{Expr, Filter, Operand, Path, Subject, Term};

/// A filter divided into the conditions that the entry of a system call decides, and those that its exit decides. A
/// call must meet both.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SplitFilter {
    pub(crate) entry: Option<Filter>,
    pub(crate) exit: Option<Filter>,
}

/// Divides the conditions of `filter` between the ends of `call`: the exit decides those that name a field which only
/// the exit has.
///
/// # Errors
/// [`CountError::BothEnds`], [`CountError::End`].
pub(crate) fn split_ends(filter: &Filter, call: &KernelEvent) -> Result<SplitFilter, CountError> {
    let parts = match filter.expr() {
        Expr::And(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let (mut entry, mut exit) = (Vec::new(), Vec::new());
    for part in parts {
        let mut paths = Vec::new();
        collect(part, &mut paths);
        let has = |path: &Path, end| has_field(path, call, end);
        let is_of = |path: &Path, one, other| has(path, one) && !has(path, other);
        let of_exit = paths.iter().any(|path| is_of(path, SyscallEnd::Exit, SyscallEnd::Entry));
        let of_entry = paths.iter().any(|path| is_of(path, SyscallEnd::Entry, SyscallEnd::Exit));
        match (of_entry, of_exit) {
            (true, true) => {
                let (part, event) = (part.to_string(), call.name.clone());
                return Err(CountError::BothEnds { part, event });
            }
            (false, true) => exit.push(part.clone()),
            _ => entry.push(part.clone()),
        }
    }
    Ok(SplitFilter { entry: joined(entry, call)?, exit: joined(exit, call)? })
}

/// Returns the conjunction of the parts; `None` without parts.
fn joined(mut parts: Vec<Expr>, call: &KernelEvent) -> Result<Option<Filter>, CountError> {
    let expr = match parts.len() {
        0 => return Ok(None),
        1 => parts.remove(0),
        _ => Expr::And(parts),
    };
    // The printed text may be longer than the text that was parsed, and then than the limit.
    match Filter::parse(&expr.to_string()) {
        Ok(filter) => Ok(Some(filter)),
        Err(error) => Err(CountError::End { event: call.name.clone(), reason: error.to_string() }),
    }
}

/// Collects the paths of all fields in an expression.
fn collect<'e>(expr: &'e Expr, paths: &mut Vec<&'e Path>) {
    match expr {
        Expr::And(parts) | Expr::Or(parts) => parts.iter().for_each(|part| collect(part, paths)),
        Expr::Not(part) => collect(part, paths),
        Expr::Has(path) => paths.push(path),
        Expr::Compare(comparison) => {
            of_term(&comparison.left, paths);
            if let Operand::Term(right) = &comparison.right {
                of_term(right, paths);
            }
        }
        Expr::In(term, _) => of_term(term, paths),
    }
}

fn of_term<'e>(term: &'e Term, paths: &mut Vec<&'e Path>) {
    if let Subject::Field(path) = &term.subject {
        paths.push(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::syscalls;

    fn split(call: &str, text: &str) -> Result<SplitFilter, CountError> {
        let call = syscalls::event(syscalls::find(call).expect("a known call"));
        split_ends(&Filter::parse(text).expect("a filter"), &call)
    }

    fn texts(split: SplitFilter) -> [String; 2] {
        [split.entry, split.exit].map(|one| one.map_or_else(String::new, |one| one.to_string()))
    }

    #[test]
    fn conditions_go_to_the_end_that_has_their_fields() {
        for (text, entry, exit) in [
            ("fd == 3", "fd == 3", ""),
            ("ret < 0", "", "ret < 0"),
            ("ret < 0 && fd == 3 && pid == 7", "fd == 3 && pid == 7", "ret < 0"),
            ("!(ret == 0) && has(fd)", "has(fd)", "!(ret == 0)"),
            ("ret == 1 || ret == 2", "", "ret == 1 || ret == 2"),
            ("comm == \"a*\" || nothing == 1", "comm == \"a*\" || nothing == 1", ""),
        ] {
            let found = texts(split("read", text).unwrap());
            let again = |text: &str| match text {
                "" => String::new(),
                text => Filter::parse(text).unwrap().to_string(),
            };
            assert_eq!(found, [again(entry), again(exit)], "{text}");
        }
    }

    #[test]
    fn conditions_that_are_too_long_when_printed_are_refused() {
        // Printed with spaces, it is longer than a filter can be.
        let error = split("read", &["fd==3"; 2300].join("&&")).unwrap_err();
        assert!(matches!(error, CountError::End { .. }), "{error}");
    }

    #[test]
    fn a_condition_on_both_ends_is_refused() {
        let error = split("read", "pid == 7 && (fd == 3 || ret < 0)").unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, CountError::BothEnds { .. }), "{text}");
        assert!(text.contains("'fd == 3 || ret < 0'") && text.contains("'read'"), "{text}");
    }
}
