//! Values of a timeline as words for columns.

use strata_ctf::read::{Event, Scope};
use strata_timeline::{Name, Object, Paired, Unpaired, UnpairedReason, World};

use super::batch::{Batch, SqlCell, TooLong};
use super::json_field::record_json;
use strata_analyze::reports::files::name_of;

/// Returns cells with the kind and the text of an object of a call.
pub(super) fn object(batch: &mut Batch, world: &World, object: Object) -> (SqlCell, SqlCell) {
    match object {
        Object::None | Object::Fault => (SqlCell::Null, SqlCell::Null),
        Object::File(name) => (name_of(world, object).0.into(), named(batch, world, name)),
        Object::Descriptor(number) => {
            ("descriptor".into(), batch.text(format!("descriptor {number}").as_bytes()))
        }
        Object::Address(at) => ("address".into(), address(batch, at)),
    }
}

/// Returns a cell with an address, which may be greater than the numbers of the database.
pub(super) fn address(batch: &mut Batch, address: u64) -> SqlCell {
    batch.text(format!("{address:#x}").as_bytes())
}

/// Returns a cell with a name; NULL if there is none.
pub(super) fn named(batch: &mut Batch, world: &World, name: Name) -> SqlCell {
    batch.some_text(world.names.bytes(name))
}

/// Returns a cell with the fields of these parts of a record as one JSON object; NULL if there are none.
pub(super) fn fields(
    batch: &mut Batch,
    event: &Event<'_>,
    scopes: &[Scope],
    bytes_max: usize,
) -> Result<Option<SqlCell>, TooLong> {
    batch.written(bytes_max, |out| {
        record_json(out, event, scopes);
    })
}

pub(super) fn why_unpaired(why: Unpaired) -> &'static str {
    match why {
        Unpaired::NoBegin => "no begin",
        Unpaired::NoEnd => "no end",
        Unpaired::Gap => "discarded",
    }
}

pub(super) fn why_alone(why: UnpairedReason) -> &'static str {
    match why {
        UnpairedReason::NoBegin => "no begin",
        UnpairedReason::NoEnd => "no end",
        UnpairedReason::Gap => "discarded",
        UnpairedReason::Again => "begun again",
        UnpairedReason::TooMany => "too many",
    }
}

pub(super) fn paired_by(paired: Paired) -> &'static str {
    match paired {
        Paired::Thread => "thread",
        Paired::Key => "key",
        Paired::NoKey => "thread, no key",
        Paired::Guess => "guess",
    }
}
