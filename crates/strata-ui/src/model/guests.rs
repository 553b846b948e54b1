//! Guests of the trace: how exactly their clocks are known, and which threads of the host are their virtual CPUs.

use serde_json::{json, Value};
use strata_ctf::read::Reader;
use strata_model::schema::Schema;
use strata_model::EnvValue;
use strata_timeline::Sources;

/// The most virtual CPUs of a guest that are shown.
const CPUS_MAX: usize = 4096;

/// A machine whose clock is known only within limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    machine: u8,
    /// The greatest error of its times \[ns\].
    uncertainty: u64,
    /// Numbers of its virtual CPUs, with the threads of the host that run them.
    cpus: Vec<(u32, i32)>,
}

/// Finds the guests that the descriptions of traces name.
#[must_use]
pub fn guests_of(reader: &Reader) -> Vec<Guest> {
    let sources = Sources::new(reader);
    let streams = reader.streams().iter().zip(&sources.streams);
    let mut guests: Vec<Guest> = Vec::new();
    for (stream, source) in streams {
        add(&mut guests, source.machine, stream.trace().schema());
    }
    guests
}

fn add(guests: &mut Vec<Guest>, machine: u8, schema: &Schema) {
    let uncertainty = match schema.environment("clock_uncertainty") {
        Some(&EnvValue::Integer(nanos)) => u64::try_from(nanos).ok(),
        _ => None,
    };
    let Some(uncertainty) = uncertainty else { return };
    let at = guests.iter().position(|guest| guest.machine == machine);
    let at = at.unwrap_or_else(|| {
        guests.push(Guest { machine, ..Guest::default() });
        guests.len() - 1
    });
    let Some(guest) = guests.get_mut(at) else { return };
    guest.uncertainty = guest.uncertainty.max(uncertainty);
    for (name, value) in &schema.environment {
        let cpu = name.strip_prefix("virtual_cpu_").and_then(|cpu| cpu.parse().ok());
        let EnvValue::Integer(tid) = value else { continue };
        let (Some(cpu), Ok(tid)) = (cpu, i32::try_from(*tid)) else { continue };
        if guest.cpus.len() < CPUS_MAX && !guest.cpus.contains(&(cpu, tid)) {
            guest.cpus.push((cpu, tid));
        }
    }
}

/// Returns the guests as the page requests them.
#[must_use]
pub fn as_json(guests: &[Guest]) -> Value {
    let guests = guests.iter().map(|guest| {
        let Guest { machine, uncertainty, cpus } = guest;
        json!({ "machine": machine, "uncertainty": uncertainty, "cpus": cpus })
    });
    guests.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_has_the_greatest_error_of_its_traces_and_each_virtual_cpu_once() {
        let env = |entries: &[(&str, EnvValue)]| Schema {
            environment: entries.iter().map(|(name, of)| ((*name).into(), of.clone())).collect(),
            ..Schema::default()
        };
        let number = EnvValue::Integer;
        let mut guests = Vec::new();
        add(&mut guests, 0, &env(&[("virtual_cpu_0", number(7))]));
        assert!(guests.is_empty());
        let first = env(&[
            ("clock_uncertainty", number(300)),
            ("virtual_cpu_0", number(42)),
            ("virtual_cpu_x", number(43)),
            ("virtual_cpu_1", EnvValue::Text("44".into())),
            ("virtual_cpu_2", number(1 << 40)),
        ]);
        add(&mut guests, 3, &first);
        let second = [("clock_uncertainty", number(500)), ("virtual_cpu_0", number(42))];
        add(&mut guests, 3, &env(&second));
        add(&mut guests, 4, &env(&[("clock_uncertainty", number(-1))]));
        let wanted = Guest { machine: 3, uncertainty: 500, cpus: vec![(0, 42)] };
        assert_eq!(guests, [wanted]);
        assert_eq!(as_json(&guests)[0]["cpus"], json!([[0, 42]]));
    }
}
