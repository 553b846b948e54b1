//! What is known, as the words that columns have.

use strata_ctf::read::{Event, Scope};
use strata_timeline::{Alone, Name, Object, Paired, Unpaired, World};

use super::batch::{Batch, SqlCell, TooLong};
use crate::render::json::JsonFields;
use crate::reports::files::name_of;

/// The kind and the text of what a call is about.
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

/// An address, which may be above what a number of the database can be.
pub(super) fn address(batch: &mut Batch, address: u64) -> SqlCell {
    batch.text(format!("{address:#x}").as_bytes())
}

/// A name that is known; none if there is none.
pub(super) fn named(batch: &mut Batch, world: &World, name: Name) -> SqlCell {
    batch.some_text(world.names.bytes(name))
}

/// The fields of these parts of a record as one JSON object; none if there are none.
pub(super) fn fields(
    batch: &mut Batch,
    event: &Event<'_>,
    scopes: &[Scope],
    bytes_max: usize,
) -> Result<Option<SqlCell>, TooLong> {
    if !scopes.iter().any(|&scope| event.class().has(scope)) {
        return Ok(None);
    }
    batch.written(bytes_max, |out| {
        out.push(b'{');
        let mut json = JsonFields::of_i64(out);
        for &scope in scopes {
            event.visit(scope, &mut json);
        }
        out.push(b'}');
    })
}

pub(super) fn why_unpaired(why: Unpaired) -> &'static str {
    match why {
        Unpaired::NoBegin => "no begin",
        Unpaired::NoEnd => "no end",
        Unpaired::Gap => "discarded",
    }
}

pub(super) fn why_alone(why: Alone) -> &'static str {
    match why {
        Alone::NoBegin => "no begin",
        Alone::NoEnd => "no end",
        Alone::Gap => "discarded",
        Alone::Again => "begun again",
        Alone::TooMany => "too many",
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
