//! The fields of one part of an event record as JSON.

use strata_ctf::read::Event;

use super::field_selection::{scope, Masked, RecordPart, ShownPart};
use super::json::JsonFields;

/// Writes the fields of a part, as `"a":1,"b":2`.
pub(super) fn part_fields(
    event: &Event<'_>,
    part: RecordPart,
    shown: &ShownPart,
    out: &mut Vec<u8>,
) {
    let mut fields = JsonFields::new(out);
    match shown {
        ShownPart::Some(node) => event.visit(scope(part), &mut Masked::new(node, &mut fields)),
        _ => event.visit(scope(part), &mut fields),
    };
}
