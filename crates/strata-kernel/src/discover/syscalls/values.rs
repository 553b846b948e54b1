//! Names of the values that arguments can have.

use super::table_parser;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use strata_model::{Flags, Label};

pub(super) const VALUES: &str = include_str!("values.txt");

/// Labels by system call and argument.
type Labels = HashMap<(&'static str, &'static str), (Arc<[Label]>, Option<Flags>)>;

/// Returns the names of an argument's values; empty if the argument is a plain number.
pub(super) fn labels(
    call: &'static str,
    argument: &'static str,
) -> (&'static [Label], Option<Flags>) {
    static ALL: OnceLock<Labels> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let each = |values: table_parser::Values| {
            let labels: Arc<[Label]> = values.labels.into();
            values.of.into_iter().map(move |of| (of, (labels.clone(), values.flags)))
        };
        table_parser::values(VALUES).flatten().flat_map(each).collect()
    });
    all.get(&(call, argument)).map_or((&[], None), |(labels, flags)| (labels, *flags))
}
