//! Lists running applications and their tracepoints for `strata list`.

use strata_model::{Array, Base, Element, Field, FieldClass, FieldOrder, Float, Integer, Sequence};
use strata_user::{find, held_of_user, lttng_of_processes, pids, Error, Lttng, Tracepoint, Who};

use crate::error::SessionError;
use crate::report::NotReached;

/// A field of a tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedField {
    /// The field's type, such as `u64`, `string`, `i32[4]`.
    pub class: String,
    pub name: String,
}

/// A tracepoint of a running application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTracepoint {
    pub provider: String,
    /// The tracepoint's name without its provider.
    pub event: String,
    /// The log level; 0 is the most severe.
    pub level: u8,
    /// The source file of the tracepoint.
    pub file: String,
    /// The line in the source file.
    pub line: u32,
    /// Number of sessions in which the tracepoint is enabled.
    pub sessions: u32,
    /// The fields that the tracepoint records.
    pub fields: Vec<ListedField>,
}

impl ListedTracepoint {
    /// Returns the full name: `provider:event`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.provider, self.event)
    }
}

/// A running process that can be recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedProcess {
    pub pid: u32,
    /// The kernel's short name of the process.
    pub name: String,
    /// The tracepoints, sorted by name.
    pub tracepoints: Vec<ListedTracepoint>,
}

/// Everything that `strata list` has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The processes, sorted by process id.
    pub processes: Vec<ListedProcess>,
    /// Processes with tracepoints that cannot be recorded, at least not by this user.
    pub not_reached: Vec<NotReached>,
    /// Processes with tracepoints for LTTng-UST; some may also have Strata's. The reason names the files.
    pub of_lttng: Vec<NotReached>,
}

/// Lists every process that this user may trace.
///
/// # Errors
/// /proc cannot be read.
pub fn list() -> Result<Listing, SessionError> {
    let own = rustix::process::geteuid().as_raw();
    let who = if own == 0 { Who::Everyone } else { Who::User(own) };
    let findings = find(&who)?;
    let mut listing = Listing::default();
    let unreached = |pid: u32, name: String, reason| NotReached { pid, name, reason };

    for application in &findings.applications {
        let (pid, name) = (application.pid(), application.name().to_owned());
        match application.tracepoints() {
            Ok(tracepoints) => {
                let mut tracepoints: Vec<ListedTracepoint> =
                    tracepoints.iter().filter(|found| found.present).map(listed).collect();
                tracepoints.sort_by(|a, b| {
                    (&a.provider, &a.event, &a.file, a.line).cmp(&(
                        &b.provider,
                        &b.event,
                        &b.file,
                        b.line,
                    ))
                });
                listing.processes.push(ListedProcess { pid, name, tracepoints });
            }
            Err(error) => listing.not_reached.push(unreached(pid, name, error.to_string())),
        }
    }
    for refused in findings.refused {
        listing.not_reached.push(unreached(refused.pid, refused.name, refused.reason));
    }
    for error in findings.errors.iter().filter(|error| !error.is_gone()) {
        let one = match error {
            // One entry covers all processes of the user.
            Error::UserHeld { uid, .. } => {
                unreached(0, format!("processes of user {uid}"), held_of_user(*uid))
            }
            error => unreached(error.pid().unwrap_or(0), String::new(), error.to_string()),
        };
        if !listing.not_reached.contains(&one) {
            listing.not_reached.push(one);
        }
    }
    listing.of_lttng = of_lttng(&pids(&who)?);
    listing.processes.sort_by_key(|process| process.pid);
    listing.not_reached.sort_by_key(|process| process.pid);
    Ok(listing)
}

/// Returns those of the processes that have loaded LTTng's library. LTTng's own tools can trace them.
pub(crate) fn of_lttng(pids: &[u32]) -> Vec<NotReached> {
    let told = |(pid, lttng): (u32, Lttng)| {
        let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
        NotReached { pid, name, reason: lttng.to_string() }
    };
    lttng_of_processes(pids).into_iter().map(told).collect()
}

fn listed(tracepoint: &Tracepoint) -> ListedTracepoint {
    let event = &tracepoint.event;
    let field =
        |field: &Field| ListedField { class: class_text(&field.class), name: field.name.clone() };
    ListedTracepoint {
        provider: event.provider.clone(),
        event: event.name.clone(),
        level: tracepoint.level(),
        file: tracepoint.file.clone(),
        line: tracepoint.line,
        sessions: tracepoint.enabled.count_ones(),
        fields: event.fields.iter().map(field).collect(),
    }
}

/// Returns a field's type as a short text: `u64`, `i32 hex`, `bool`, `enum color u8`, `string`, `f64`, `u8[16]`,
/// `char[16]`, or `u32[u16]` for a sequence with a length of 16 bits.
#[must_use]
pub fn class_text(class: &FieldClass) -> String {
    match class {
        FieldClass::Integer(integer) => integer_text(integer),
        FieldClass::Enumeration(enumeration) => {
            let name = match enumeration.name.as_str() {
                "" => String::new(),
                name => format!(" {name}"),
            };
            format!("enum{name} {}", integer_text(&enumeration.integer))
        }
        FieldClass::Float(float) => float_text(float),
        FieldClass::String => "string".to_owned(),
        FieldClass::Array(Array { element, count }) => element_text(element, &count.to_string()),
        FieldClass::Sequence(Sequence { element, length_bytes }) => {
            element_text(element, &format!("u{}", u32::from(*length_bytes) * 8))
        }
    }
}

fn element_text(element: &Element, count: &str) -> String {
    match element {
        Element::Integer(integer) => {
            let text = integer_text(integer);
            // The count follows the type, and the base follows the count: u8[16] hex.
            match text.split_once(' ') {
                Some((class, rest)) => format!("{class}[{count}] {rest}"),
                None => format!("{text}[{count}]"),
            }
        }
        Element::Float(float) => format!("{}[{count}]", float_text(float)),
        Element::Text => format!("char[{count}]"),
    }
}

fn integer_text(integer: &Integer) -> String {
    if integer.is_bool {
        return "bool".to_owned();
    }
    let sign = if integer.signed { 'i' } else { 'u' };
    let base = match integer.base {
        Base::Two => " binary",
        Base::Eight => " octal",
        Base::Ten => "",
        Base::Sixteen => " hex",
    };
    let bits = u32::from(integer.bytes) * 8;
    format!("{sign}{bits}{base}{}", order_text(integer.byte_order))
}

fn float_text(float: &Float) -> String {
    format!("f{}{}", u32::from(float.bytes) * 8, order_text(float.byte_order))
}

fn order_text(order: FieldOrder) -> &'static str {
    match order {
        FieldOrder::Native => "",
        FieldOrder::Big => " big-endian",
        FieldOrder::Little => " little-endian",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_model::{Enumeration, Label};

    #[test]
    fn class_of_every_kind_has_a_short_text() {
        let hex = Integer { base: Base::Sixteen, ..Integer::unsigned(1) };
        let network = Integer { byte_order: FieldOrder::Big, ..Integer::unsigned(2) };
        let label = Label { from: 0, to: 1, label: "x".into() };
        let color = |name: &str| Enumeration {
            integer: Integer::unsigned(1),
            name: name.into(),
            labels: vec![label.clone()],
            flags: None,
        };
        let double = Float { bytes: 8, byte_order: FieldOrder::Native };
        for (class, text) in [
            (FieldClass::Integer(Integer::signed(4)), "i32"),
            (FieldClass::Integer(hex), "u8 hex"),
            (FieldClass::Integer(network), "u16 big-endian"),
            (FieldClass::Integer(Integer { is_bool: true, ..Integer::unsigned(1) }), "bool"),
            (FieldClass::Enumeration(color("color")), "enum color u8"),
            (FieldClass::Enumeration(color("")), "enum u8"),
            (FieldClass::Float(double), "f64"),
            (FieldClass::String, "string"),
            (FieldClass::Array(Array { element: Element::Text, count: 16 }), "char[16]"),
            (FieldClass::Array(Array { element: Element::Integer(hex), count: 6 }), "u8[6] hex"),
            (FieldClass::Array(Array { element: Element::Float(double), count: 3 }), "f64[3]"),
            (
                FieldClass::Sequence(Sequence {
                    element: Element::Integer(Integer::unsigned(4)),
                    length_bytes: 2,
                }),
                "u32[u16]",
            ),
        ] {
            assert_eq!(class_text(&class), text);
        }
    }

    #[test]
    fn class_of_a_number_says_its_base_and_its_order_of_bytes() {
        let little = |bytes| Integer { byte_order: FieldOrder::Little, ..Integer::unsigned(bytes) };
        let base = |base| Integer { base, ..Integer::signed(8) };
        let float = |bytes, byte_order| Float { bytes, byte_order };
        let both =
            Integer { base: Base::Sixteen, byte_order: FieldOrder::Big, ..Integer::unsigned(4) };
        let array = |element| FieldClass::Array(Array { element, count: 0 });
        let sequence =
            |element, length_bytes| FieldClass::Sequence(Sequence { element, length_bytes });
        for (class, text) in [
            (FieldClass::Integer(little(8)), "u64 little-endian"),
            (FieldClass::Integer(base(Base::Two)), "i64 binary"),
            (FieldClass::Integer(base(Base::Eight)), "i64 octal"),
            (FieldClass::Integer(both), "u32 hex big-endian"),
            (FieldClass::Float(float(4, FieldOrder::Big)), "f32 big-endian"),
            // The number of elements stands behind the type, in front of all else.
            (array(Element::Integer(both)), "u32[0] hex big-endian"),
            (array(Element::Float(float(8, FieldOrder::Little))), "f64 little-endian[0]"),
            (sequence(Element::Text, 1), "char[u8]"),
            (sequence(Element::Integer(little(2)), 8), "u16[u64] little-endian"),
            (array(Element::Integer(Integer { is_bool: true, ..Integer::unsigned(1) })), "bool[0]"),
        ] {
            assert_eq!(class_text(&class), text);
        }
    }

    #[test]
    fn full_name_is_of_provider_and_event() {
        let tracepoint = ListedTracepoint {
            provider: "a".into(),
            event: "b".into(),
            level: 13,
            file: String::new(),
            line: 0,
            sessions: 0,
            fields: Vec::new(),
        };
        assert_eq!(tracepoint.full_name(), "a:b");
    }
}
