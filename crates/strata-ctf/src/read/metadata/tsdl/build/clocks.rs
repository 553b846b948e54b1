//! Builds clocks, and finds the fields that count them.

use crate::read::metadata::error::{Fault, MetadataProblem};
use crate::read::metadata::tsdl::syntax::{Attribute, Statement};
use crate::read::metadata::tsdl::values::{
    attributes, boolean, number, ranged, text, uuid, SeenNames, TsdlResult,
};
use strata_model::schema::{FieldClass, Scope, Structure};
use strata_model::ClockClass;

/// Builds a clock class from its block.
pub(super) fn clock(at: u32, statements: &[Statement<'_>]) -> TsdlResult<ClockClass> {
    let mut clock = default_clock();
    let mut name = None;
    let mut cycles = 0;
    let mut seen = SeenNames::default();
    for statement in statements {
        seen.check(statement)?;
    }
    for Attribute { name: attribute, value, .. } in attributes(statements) {
        match attribute.as_ref() {
            "name" => name = Some(text(value, "a clock's name")?),
            "uuid" => clock.uuid = Some(uuid(value)?),
            "description" => clock.description = text(value, "a clock's description")?,
            "freq" => {
                let (to, expected) = (u64::MAX.into(), "1 to 18446744073709551615 Hz");
                clock.frequency = ranged(value, "a clock's frequency", 1, to, expected)? as u64;
            }
            "precision" => clock.precision = number(value, "a clock's precision")?,
            "offset_s" => {
                let (from, to) = (i64::MIN.into(), i64::MAX.into());
                clock.offset_s = ranged(value, "a clock's offset_s", from, to, "64 bits")? as i64;
            }
            "offset" => {
                let (from, to) = (i64::MIN.into(), u64::MAX.into());
                cycles = ranged(value, "a clock's offset", from, to, "64 bits")?;
            }
            "absolute" => clock.absolute = boolean(value)?,
            _ => (),
        }
    }
    let missing = MetadataProblem::Missing { what: "name", of: "the clock" };
    clock.name = name.ok_or(Fault::new(at, missing))?;
    // Whole seconds of the cycles are added to the seconds, so that less than a second is left in cycles.
    let frequency = i128::from(clock.frequency);
    let seconds = i128::from(clock.offset_s) + cycles.div_euclid(frequency);
    let of = "a clock's offset";
    clock.offset_s = i64::try_from(seconds)
        .map_err(|_| Fault::value(at, of, format!("{seconds} s"), "seconds of 64 bits"))?;
    clock.offset_cycles = cycles.rem_euclid(frequency) as u64; // less than the frequency
    Ok(clock)
}

/// Returns the clock of a stream whose metadata has no clock block.
fn default_clock() -> ClockClass {
    ClockClass {
        name: "default".to_owned(),
        uuid: None,
        description: String::new(),
        frequency: 1_000_000_000,
        precision: 0,
        offset_s: 0,
        offset_cycles: 0,
        absolute: false,
    }
}

/// The clocks that a stream's fields count.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamClocks {
    first: Option<usize>,
    other: Option<usize>,
}

impl StreamClocks {
    /// Collects the clocks that the fields of a structure count.
    pub fn look(&mut self, structure: &Structure) {
        structure.members.iter().for_each(|member| self.look_at(&member.class));
    }

    fn look_at(&mut self, class: &FieldClass) {
        match class {
            FieldClass::Integer(integer) => match (integer.clock, self.first) {
                (Some(found), Some(first)) if found != first => self.other = Some(found),
                (Some(found), None) => self.first = Some(found),
                _ => (),
            },
            FieldClass::Structure(structure) => self.look(structure),
            FieldClass::Array(array) => self.look_at(&array.element),
            FieldClass::Variant(variant) => {
                variant.options.iter().for_each(|option| self.look_at(&option.class));
            }
            FieldClass::Optional(optional) => self.look_at(&optional.class),
            FieldClass::Real(_)
            | FieldClass::String
            | FieldClass::Text { .. }
            | FieldClass::Wide { .. }
            | FieldClass::Blob { .. } => (),
        }
    }

    /// Returns the only clock of the stream. It is a fault if there are several.
    pub fn only(&self, at: u32, stream: u64, clocks: &[ClockClass]) -> TsdlResult<Option<usize>> {
        let (Some(first), Some(other)) = (self.first, self.other) else { return Ok(self.first) };
        let name = |index| {
            clocks.get(index).map_or(String::new(), |clock: &ClockClass| clock.name.clone())
        };
        let (first, second) = (name(first), name(other));
        Err(Fault::new(at, MetadataProblem::TwoClocks { stream, first, second }))
    }
}

/// Sets the trace's only clock for timestamps that name no clock. A trace without clocks gets a clock that counts
/// nanoseconds from an unknown time. With `is_unread`, some clocks could not be read, so that the clock of such
/// timestamps stays unknown.
pub(super) fn map_timestamps(
    structure: &mut Structure,
    scope: Scope,
    clocks: &mut Vec<ClockClass>,
    is_unread: bool,
    at: u32,
) -> TsdlResult<()> {
    let names: &[&str] = match scope {
        Scope::PacketContext => &["timestamp_begin", "timestamp_end"],
        _ => &["timestamp"],
    };
    let mut mapper = Mapper { names, clocks, is_unread, at };
    structure
        .members
        .iter_mut()
        .try_for_each(|member| mapper.field(&member.name, &mut member.class))
}

struct Mapper<'a> {
    names: &'a [&'a str],
    clocks: &'a mut Vec<ClockClass>,
    is_unread: bool,
    at: u32,
}

impl Mapper<'_> {
    fn field(&mut self, name: &str, class: &mut FieldClass) -> TsdlResult<()> {
        match class {
            FieldClass::Integer(integer)
                if integer.clock.is_none() && self.names.contains(&name) =>
            {
                if self.is_unread {
                    let what = "the clock of a time without a map, or another clock, whose block";
                    return Err(Fault::new(self.at, MetadataProblem::NotRead { what }));
                }
                if self.clocks.is_empty() {
                    self.clocks.push(default_clock());
                }
                if self.clocks.len() > 1 {
                    let (of, found) = ("a time without a map", name.to_owned());
                    return Err(Fault::value(
                        self.at,
                        of,
                        found,
                        "map = clock.NAME.value, as there are several clocks",
                    ));
                }
                integer.clock = Some(0);
                Ok(())
            }
            FieldClass::Structure(structure) => structure
                .members
                .iter_mut()
                .try_for_each(|member| self.field(&member.name, &mut member.class)),
            FieldClass::Variant(variant) => variant
                .options
                .iter_mut()
                .try_for_each(|option| self.field(&option.name, &mut option.class)),
            _ => Ok(()),
        }
    }
}
