//! Finds the fields that a reader needs in headers and packet contexts by their names, as other readers do. Only direct
//! members of a part count, except in a record's header, where members at any depth count.

use crate::read::metadata::error::Fault;
use crate::read::metadata::tsdl::values::TsdlResult;
use strata_model::schema::{FieldClass, Integer, Length, Role, Structure, Width};

pub(super) fn packet_header(structure: &mut Structure, at: u32) -> TsdlResult<()> {
    let roles = [
        ("magic", Role::PacketMagic),
        ("stream_id", Role::StreamClassId),
        ("stream_instance_id", Role::StreamId),
    ];
    members(structure, &roles, at)
}

pub(super) fn packet_context(structure: &mut Structure, at: u32) -> TsdlResult<()> {
    let roles = [
        ("packet_size", Role::PacketTotalLength),
        ("content_size", Role::PacketContentLength),
        ("timestamp_end", Role::PacketEndTimestamp),
        ("events_discarded", Role::DiscardedEvents),
        ("packet_seq_num", Role::PacketSequenceNumber),
    ];
    members(structure, &roles, at)
}

pub(super) fn event_header(structure: &mut Structure, at: u32) -> TsdlResult<()> {
    let roles = [("id", Role::EventClassId)];
    members(structure, &roles, at)?;
    structure.members.iter_mut().try_for_each(|member| inside(&mut member.class, &roles, at))
}

fn members(structure: &mut Structure, roles: &[(&str, Role)], at: u32) -> TsdlResult<()> {
    structure.members.iter_mut().try_for_each(|member| match &mut member.class {
        FieldClass::Integer(integer) => named(&member.name, integer, roles, at),
        _ => Ok(()),
    })
}

/// Sets roles in structures and in the options of variants at any depth, but not in arrays.
fn inside(class: &mut FieldClass, roles: &[(&str, Role)], at: u32) -> TsdlResult<()> {
    match class {
        FieldClass::Structure(structure) => {
            members(structure, roles, at)?;
            structure.members.iter_mut().try_for_each(|member| inside(&mut member.class, roles, at))
        }
        FieldClass::Variant(variant) => {
            variant.options.iter_mut().try_for_each(|option| inside(&mut option.class, roles, at))
        }
        _ => Ok(()),
    }
}

fn named(name: &str, integer: &mut Integer, roles: &[(&str, Role)], at: u32) -> TsdlResult<()> {
    let Some((_, role)) = roles.iter().find(|(candidate, _)| *candidate == name) else {
        return Ok(());
    };
    if integer.signed {
        let of = "a field that readers need";
        return Err(Fault::value(at, of, format!("signed: {name}"), "an unsigned integer"));
    }
    integer.role = Some(*role);
    Ok(())
}

/// Returns the index of the packet header's member that is the trace's UUID.
pub(super) fn uuid(header: &Structure) -> Option<u32> {
    let is_it = |class: &FieldClass| match class {
        FieldClass::Array(array) => {
            let is_byte = match &*array.element {
                FieldClass::Integer(byte) => byte.width == Width::Bits(8) && byte.align <= 8,
                _ => false,
            };
            is_byte && array.length == Length::Static(16)
        }
        _ => false,
    };
    let index = header.members.iter().position(|m| m.name == "uuid" && is_it(&m.class))?;
    u32::try_from(index).ok()
}
