//! Deferred arguments: those that were not in memory at their call's entry and are recorded before it returns.

use std::sync::Arc;

use strata_ctf::read::{DeferredArgument, DeferredClass, DeferredField, EventClass, Scope};
use strata_model::schema::Structure;
use strata_model::syscalls::{arguments, ArgumentKind};
use strata_model::ByteOrder;

use super::deferrable_fields::{DeferrableField, Unread};
use super::values::{quoted, socket_address, ShortValues};
use crate::render::line::Lines;

/// The fields of a call's entry that may be recorded later.
#[derive(Clone, Debug)]
pub(super) struct Deferrable {
    payload: Structure,
    pub(super) fields: Vec<DeferrableField>,
}

impl Deferrable {
    /// Finds the fields of a call's entry that records of the classes `deferred` may hold; `None` if there are none.
    pub(super) fn new(
        class: &EventClass,
        call: &str,
        deferred: &[DeferredClass],
    ) -> Option<Deferrable> {
        let payload = class.schema().payload.as_ref()?;
        let of_call: Vec<&DeferredClass> =
            deferred.iter().filter(|of| of.may_be_of(call)).collect();
        let mut fields = Vec::new();
        for (argument, found) in arguments(payload).into_iter().enumerate() {
            // A number alone is as a rule no structure: 0 is its value.
            let is_one = found.kind != ArgumentKind::Single
                && of_call.iter().any(|of| of.may_have(found.kind));
            let Ok(argument) = u8::try_from(argument) else { break };
            let members = found.members.iter().filter_map(|&at| payload.members.get(at));
            for member in members.filter(|_| is_one) {
                let field = class.find_in(Scope::Payload, &member.name)?;
                let info = field.info().clone();
                fields.push(DeferrableField { info, argument, kind: found.kind });
            }
        }
        Some(Deferrable { payload: payload.clone(), fields }).filter(|it| !it.fields.is_empty())
    }

    /// Returns the fields that an argument stands for: each field's name, and its value for display.
    pub(super) fn shown(
        &self,
        argument: &DeferredArgument,
        order: ByteOrder,
    ) -> Vec<(Arc<str>, Vec<u8>)> {
        let fields = argument.fields(&self.payload, order);
        let family = fields.iter().find_map(|(name, value)| match value {
            DeferredField::Unsigned(family) if name.ends_with("_family") => Some(*family),
            _ => None,
        });
        let shown = |(name, value): &(&str, DeferredField)| {
            let of = self.fields.iter().find(|field| field.info.name() == *name)?;
            let mut out = Lines::default();
            match value {
                DeferredField::Text(text) => quoted(&mut out, text),
                DeferredField::Bytes(bytes) => socket_address(&mut out, family, bytes),
                DeferredField::Unsigned(value) => {
                    ShortValues::new(&mut out, true).number(&of.info, i128::from(*value));
                }
                DeferredField::Signed(value) => {
                    ShortValues::new(&mut out, true).number(&of.info, i128::from(*value));
                }
            }
            Some((of.info.name.clone(), out.as_bytes().to_vec()))
        };
        fields.iter().filter_map(shown).collect()
    }
}

/// Puts a field's value in its place in a line, and moves the places after it. Returns false if the field was not
/// absent.
pub(super) fn put(
    bytes: &mut Vec<u8>,
    unread: &mut Vec<Unread>,
    name: &str,
    text: &[u8],
    paths: &mut [(usize, i32)],
) -> bool {
    let Some(at) = unread.iter().position(|one| *one.name == *name) else { return false };
    let place = unread.remove(at).place;
    if bytes.get(place.clone()).is_none() {
        return false;
    }
    let moved = |at: usize| at - place.len() + text.len();
    for one in unread.iter_mut().filter(|one| one.place.start >= place.end) {
        one.place = moved(one.place.start)..moved(one.place.end);
    }
    for (at, _) in paths.iter_mut().filter(|(at, _)| *at >= place.end) {
        *at = moved(*at);
    }
    bytes.splice(place, text.iter().copied());
    true
}

/// Puts `?` for each value that was not recorded. Where the address of a text is shown, it stays.
pub(super) fn put_unknown(
    bytes: &mut Vec<u8>,
    unread: &mut Vec<Unread>,
    paths: &mut [(usize, i32)],
) {
    unread.retain(|one| !one.is_text);
    while let Some(name) = unread.first().map(|one| one.name.clone()) {
        put(bytes, unread, &name, b"?", paths);
    }
}

/// A call with one argument, a text of this name.
#[cfg(test)]
pub(super) fn deferrable_text(name: &str) -> Deferrable {
    use strata_ctf::read::{FieldInfo, FieldKind};
    use strata_model::schema::{FieldClass, Member};
    let member = Member { name: name.to_owned(), class: FieldClass::String };
    let info = FieldInfo {
        name: name.into(),
        kind: FieldKind::Text,
        is_element: false,
        base: strata_model::Base::Ten,
        is_bool: false,
        signed: false,
        bits: 0,
        labels: None,
        flags: None,
        is_bit_map: false,
    };
    let fields = vec![DeferrableField { info, argument: 0, kind: ArgumentKind::Text }];
    Deferrable { payload: Structure { align: 1, members: vec![member] }, fields }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_takes_its_address_place_and_others_stay_where_they_are() {
        let mut bytes = b"rename(old=\"0x1\", new=\"0x22\"".to_vec();
        let absent = |name: &str, place, is_text| Unread { name: name.into(), place, is_text };
        let mut unread = vec![absent("old", 11..16, true), absent("new", 22..28, true)];
        let mut paths = [(10, 1), (28, 2)];
        let mut put_it =
            |name: &str, text: &[u8]| put(&mut bytes, &mut unread, name, text, &mut paths);
        assert!(!put_it("other", b"\"z\""));
        assert!(put_it("old", b"\"/a/long/name\""));
        assert!(put_it("new", b"\"b\""));
        assert!(!put_it("new", b"\"c\""));
        assert_eq!(String::from_utf8(bytes).unwrap(), "rename(old=\"/a/long/name\", new=\"b\"");
        assert_eq!(paths, [(10, 1), (34, 2)]);
        let mut outside = vec![absent("old", 5..9, true)];
        assert!(!put(&mut Vec::new(), &mut outside, "old", b"x", &mut []));
        let mut bytes = b"a=0x1, b=0, c=[]".to_vec();
        let mut unread =
            vec![absent("a", 2..5, true), absent("b", 9..10, false), absent("c", 14..16, false)];
        put_unknown(&mut bytes, &mut unread, &mut []);
        assert_eq!(String::from_utf8(bytes).unwrap(), "a=0x1, b=?, c=?");
    }
}
