//! Cgroups in filters of programs: a program knows only the number of its cgroup, and people write paths and names.

use strata_filter::{
    Comparison, Expr, Filter, Item, Literal, Number, Op, Operand, Path, PathStep, Root, Subject,
    Term,
};
use strata_kernel::filter::cgroup;

/// Replaces the paths and names of cgroups in a filter by their present numbers. An event's own field of the same
/// name takes precedence. A comparison with a cgroup that does not exist is never true.
pub(crate) fn with_group_numbers(filter: &Filter) -> Filter {
    if texts(filter.expr()).is_empty() {
        return filter.clone();
    }
    let text = numbered(filter.expr()).to_string();
    // The result is valid, but may exceed the limit on a filter's length. The original filter is used then.
    Filter::parse(&text).unwrap_or_else(|_| filter.clone())
}

/// Lists the paths and names of cgroups in a filter.
pub(crate) fn texts(expr: &Expr) -> Vec<String> {
    let text = |literal: &Literal| match literal {
        Literal::Text(pattern) => {
            pattern.exact().map(|text| String::from_utf8_lossy(text).into_owned())
        }
        Literal::Number(_) => None,
    };
    match expr {
        Expr::And(parts) | Expr::Or(parts) => parts.iter().flat_map(texts).collect(),
        Expr::Not(inner) => texts(inner),
        Expr::Compare(Comparison { left, right: Operand::Literal(literal), .. })
            if is_group(left) =>
        {
            text(literal).into_iter().collect()
        }
        Expr::In(term, items) if is_group(term) => {
            let literals = items.iter().filter_map(|item| match item {
                Item::One(literal) => text(literal),
                Item::Range(..) => None,
            });
            literals.collect()
        }
        Expr::Compare(_) | Expr::In(..) | Expr::Has(_) => Vec::new(),
    }
}

fn numbered(expr: &Expr) -> Expr {
    match expr {
        Expr::And(parts) => Expr::And(parts.iter().map(numbered).collect()),
        Expr::Or(parts) => Expr::Or(parts.iter().map(numbered).collect()),
        Expr::Not(inner) => Expr::Not(Box::new(numbered(inner))),
        Expr::Compare(comparison) => {
            compared(comparison).unwrap_or_else(|| Expr::Compare(comparison.clone()))
        }
        Expr::In(term, items) if is_group(term) && items.len() > 1 => {
            let one = |item: &Item| numbered(&Expr::In(term.clone(), vec![item.clone()]));
            Expr::Or(items.iter().map(one).collect())
        }
        Expr::In(term, items) => match &items[..] {
            [Item::One(literal)] if is_group(term) => {
                let right = Operand::Literal(literal.clone());
                numbered(&Expr::Compare(Comparison { left: term.clone(), op: Op::Equal, right }))
            }
            _ => expr.clone(),
        },
        Expr::Has(_) => expr.clone(),
    }
}

/// Converts a comparison with a cgroup's path or name to one with its number; `None` for any other comparison.
fn compared(Comparison { left, op, right }: &Comparison) -> Option<Expr> {
    let Operand::Literal(Literal::Text(pattern)) = right else { return None };
    let Subject::Field(Path { root, steps }) = &left.subject else { return None };
    let name = pattern.exact().filter(|_| is_group(left))?;
    // No cgroup has the number 0.
    let number = Number::Integer(cgroup::number_of(name).unwrap_or(0).into());
    let at = |root| Path { root, steps: steps.clone() };
    let with = |root, right| {
        let left = Term { subject: Subject::Field(at(root)), mask: left.mask };
        Expr::Compare(Comparison { left, op: *op, right })
    };
    let by_number = with(Root::Context, Operand::Literal(Literal::Number(number)));
    if *root == Root::Context {
        return Some(by_number);
    }
    let has = Expr::Has(at(Root::Payload));
    Some(Expr::Or(vec![
        Expr::And(vec![has.clone(), with(Root::Payload, right.clone())]),
        Expr::And(vec![Expr::Not(Box::new(has)), by_number]),
    ]))
}

fn is_group(term: &Term) -> bool {
    let Subject::Field(Path { root: Root::Any | Root::Context, steps }) = &term.subject else {
        return false;
    };
    matches!(
        steps.as_slice(),
        [PathStep::Member(name)] if ["cgroup", "container"].contains(&name.as_str())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> String {
        with_group_numbers(&Filter::parse(text).unwrap()).text().to_owned()
    }

    #[test]
    fn groups_become_numbers_and_fields_of_that_name_stay_texts() {
        // No such group is on any machine.
        assert_eq!(
            numbers("a == 1 && cgroup == \"/no such group\""),
            "a == 1 && ((has(payload.cgroup) && payload.cgroup == \"/no such group\") || \
             (!has(payload.cgroup) && context.cgroup == 0))"
        );
        assert_eq!(
            numbers("!(context.container in {\"/no such group\", 7})"),
            "!(context.container == 0 || context.container == 7)"
        );
        for same in ["payload.cgroup == \"/a\"", "cgroup == 7", "cgroup == \"/a*\"", "a==1||b ==2"]
        {
            assert_eq!(numbers(same), same);
        }
    }
}
