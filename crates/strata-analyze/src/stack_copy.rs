//! The fields with a copy of a program's registers and stack, from which its call stack is unwound.

use strata_model::schema::{FieldClass, Schema, Structure};
use strata_model::EnvValue;

/// The names of the fields with the registers of a program, and with the copy of its stack.
pub const NAMES: [&str; 2] = ["user_registers", "user_stack"];

/// Returns true for a trace in which such fields may be a copy: one of a kernel that Strata has recorded. Whatever other
/// traces have by these names is their own.
#[must_use]
pub fn may_be_in(schema: &Schema) -> bool {
    schema.environment("domain") == Some(&EnvValue::from("kernel"))
        && schema.environment("strata_version").is_some()
}

/// Returns true if records with this part have a copy. Strata writes both arrays, or none.
#[must_use]
pub fn is_in(structure: &Structure, schema: &Schema) -> bool {
    let is_array = |name: &str| {
        let mut members = structure.members.iter();
        members.any(|it| it.name == name && matches!(it.class, FieldClass::Array(_)))
    };
    NAMES.iter().all(|name| is_array(name)) && may_be_in(schema)
}

/// Returns true for the name of one of the fields.
#[must_use]
pub fn is_name(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns true if the payload of a trace's records is all a program's own, whatever its fields are called.
#[must_use]
pub fn is_of_program(schema: &Schema) -> bool {
    schema.environment("domain") == Some(&EnvValue::from("ust"))
}
