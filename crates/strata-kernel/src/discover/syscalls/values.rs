//! Names of the values that arguments can have.

use super::table_parser;
use crate::arch::{self, Machine};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use strata_model::{Flags, Label};

pub(super) const VALUES: &str = include_str!("values.txt");

/// Labels by machine, system call and argument.
type Labels = HashMap<(&'static str, &'static str, &'static str), (Arc<[Label]>, Option<Flags>)>;

/// Returns the names of an argument's values; empty if the argument is a plain number.
pub(super) fn labels(
    machine: &'static Machine,
    call: &'static str,
    argument: &'static str,
) -> (&'static [Label], Option<Flags>) {
    static ALL: OnceLock<Labels> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let of_machine = |machine: &'static Machine| {
            let each = move |values: table_parser::Values| {
                let labels: Arc<[Label]> = values.labels.into();
                let keys = values.of.into_iter().map(|(call, name)| (machine.name, call, name));
                keys.map(move |of| (of, (labels.clone(), values.flags)))
            };
            table_parser::values(VALUES, machine.values).flatten().flat_map(each)
        };
        arch::ALL.into_iter().flat_map(of_machine).collect()
    });
    all.get(&(machine.name, call, argument)).map_or((&[], None), |(labels, flags)| (labels, *flags))
}
