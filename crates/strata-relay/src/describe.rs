//! The metadata of a guest's trace, as the host writes them: the guest's text, with its clock in the host's time and
//! what the host knows of it.
//!
//! The text is the guest's, and may be anything. So what is put in its place is looked for as the guest's recorder
//! writes it, and the result is read again: the trace has the clock that was meant and no other one, and what the
//! environment says of it is ours, or the text is refused. What else it says is the guest's affair; readers take any text.

use std::fmt;
use std::fmt::Write as _;

use strata_ctf::tsdl;
use strata_model::{ClockClass, EnvValue, Uuid};

/// Largest metadata of one trace [byte].
pub const METADATA_BYTES_MAX: usize = 8 << 20;

const BEGIN: &str = "/* CTF 1.8 */\n\ntrace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"";
const UUID_BYTES: usize = 36;
const ENVIRONMENT: &str = "\nenv {\n";
const CLOCK: &str = "\nclock {\n";
const END: &str = "\n};\n";

/// What the host says in the environment: a number by a name.
pub type Entry = (String, i64);

/// Why it cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescribeProblem {
    /// It is not as Strata's recorder writes it, for this reason.
    Foreign(&'static str),
    /// It is no metadata.
    Metadata(String),
}

impl fmt::Display for DescribeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DescribeProblem::Foreign(why) => write!(f, "its metadata are not Strata's: {why}"),
            DescribeProblem::Metadata(why) => write!(f, "its metadata cannot be read: {why}"),
        }
    }
}

/// The number that the trace has in the guest.
///
/// # Errors
/// The text does not begin as Strata's do.
pub fn uuid_of(text: &str) -> Result<Uuid, DescribeProblem> {
    let number = text.strip_prefix(BEGIN).and_then(|rest| rest.get(..UUID_BYTES));
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or(DescribeProblem::Foreign("they do not begin so"))
}

/// The same trace with the number `uuid`, whose clock is `clock`, with these entries in its environment.
///
/// # Errors
/// The text is nothing that can be written so.
pub fn in_host_time(
    text: &str,
    uuid: Uuid,
    clock: &ClockClass,
    entries: &[Entry],
) -> Result<String, DescribeProblem> {
    let foreign = DescribeProblem::Foreign;
    uuid_of(text)?;
    let environment = text.find(ENVIRONMENT).ok_or(foreign("there is no environment"))?;
    let environment = environment + ENVIRONMENT.len();
    let begin = text.find(CLOCK).ok_or(foreign("there is no clock"))? + 1;
    let length = text[begin..].find(END).ok_or(foreign("its clock has no end"))? + END.len();
    if begin < environment {
        return Err(foreign("its clock is not behind its environment"));
    }
    let mut out = String::with_capacity(text.len() + 1024);
    let _ = write!(out, "{BEGIN}{uuid}");
    // Behind the number, which is there.
    out.push_str(text.get(BEGIN.len() + UUID_BYTES..environment).unwrap_or_default());
    for (name, value) in entries {
        // A String takes everything.
        let _ = writeln!(out, "\t{name} = {value};");
    }
    out.push_str(&text[environment..begin]);
    out.push_str(&clock_block(clock));
    out.push_str(&text[begin + length..]);

    let schema = tsdl::parse(out.as_bytes());
    let schema = schema.map_err(|error| DescribeProblem::Metadata(error.to_string()))?;
    let [found] = &schema.clocks[..] else { return Err(foreign("it has more than one clock")) };
    if found != clock {
        return Err(foreign("its clock is described in two places"));
    }
    for (name, value) in entries {
        let mut all = schema.environment.iter().filter(|(found, _)| found == name);
        if all.next().map(|(_, found)| found) != Some(&EnvValue::Integer(*value))
            || all.next().is_some()
        {
            return Err(foreign("its environment says what the host's recorder says"));
        }
    }
    match schema.uuid == Some(uuid) {
        true => Ok(out),
        false => Err(foreign("it has two numbers")),
    }
}

/// As `strata_ctf` writes a clock, but for seconds and cycles of its offset: some readers count both in doubles.
fn clock_block(clock: &ClockClass) -> String {
    let uuid = clock.uuid.map_or_else(String::new, |uuid| format!("\tuuid = \"{uuid}\";\n"));
    format!(
        "clock {{\n\tname = \"{}\";\n{uuid}\tdescription = \"{}\";\n\tfreq = {};\n\tprecision = {};\n\
         \toffset_s = {};\n\toffset = {};\n\tabsolute = TRUE;\n}};\n",
        clock.name,
        clock.description,
        clock.frequency,
        clock.precision,
        clock.offset_s,
        clock.offset_cycles
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_ctf::metadata;
    use strata_model::{ByteOrder, RecordHeader, StreamClass, Trace};

    fn clock() -> ClockClass {
        ClockClass {
            precision: 70_000,
            frequency: 1_000_000_012,
            description: "of a guest".into(),
            ..ClockClass::monotonic(Some(Uuid([7; 16])), 1_700_000_000_123_456_789)
        }
    }

    fn trace(environment: Vec<(String, EnvValue)>) -> Trace {
        Trace {
            uuid: Uuid(*b"0123456789abcdef"),
            byte_order: ByteOrder::NATIVE,
            environment,
            clock: ClockClass::monotonic(Some(Uuid([1; 16])), 99),
            streams: vec![StreamClass {
                id: 0,
                name: "s".into(),
                header: RecordHeader::Compact,
                context: Vec::new(),
                events: Vec::new(),
            }],
        }
    }

    fn entries() -> Vec<Entry> {
        vec![("clock_uncertainty".into(), 70_000), ("virtual_cpu_0".into(), 1234)]
    }

    fn text(environment: &[(&str, &str)]) -> String {
        let entry = |(name, value): &(&str, &str)| {
            ((*name).to_owned(), EnvValue::Text((*value).to_owned()))
        };
        metadata::write(&trace(environment.iter().map(entry).collect()))
    }

    #[test]
    fn metadata_get_the_clock_of_the_host_and_keep_everything_else() {
        let text = text(&[("hostname", "box")]);
        assert_eq!(uuid_of(&text), Ok(trace(Vec::new()).uuid));
        let out = in_host_time(&text, Uuid([3; 16]), &clock(), &entries()).unwrap();
        let (before, after) = (tsdl::parse(text.as_bytes()), tsdl::parse(out.as_bytes()));
        let (before, after) = (before.unwrap(), after.unwrap());
        assert_eq!(after.clocks, [clock()]);
        assert_eq!(after.streams, before.streams);
        assert_eq!(
            (after.uuid, &after.packet_header),
            (Some(Uuid([3; 16])), &before.packet_header)
        );
        assert_eq!(after.environment("hostname"), Some(&"box".into()));
        assert_eq!(after.environment("clock_uncertainty"), Some(&70_000.into()));
        assert_eq!(after.environment("virtual_cpu_0"), Some(&1234.into()));
    }

    #[test]
    fn malicious_metadata_do_not_keep_a_clock_or_an_entry_of_the_guest() {
        let good = text(&[("hostname", "box")]);
        let clock_of_guest = "clock {\n\tname = \"monotonic\";\n\tfreq = 1000000000;\n};\n";
        let other = "clock {\n\tname = \"other\";\n\tfreq = 1000000000;\n};\n";
        for (bad, why) in [
            (good.replace("\nenv {", "\nenv{"), "environment"),
            (good.replace("\nclock {", "\nclock{"), "clock"),
            (good.clone() + clock_of_guest, "second time"),
            (good.clone() + other, "more than one"),
            (text(&[("clock_uncertainty", "0")]), "environment"),
            // What is looked for stands in a comment, so that what is put there does, too.
            (good.replace("/* CTF 1.8 */\n", "/* CTF 1.8 \nenv {\n \nclock {\n\n};\n*/\n"), ""),
            (good.replace("env {\n", "env {\n clock_uncertainty = 1;\n"), ""),
            ("\nenv {\n\nclock {\n\n};\n".to_owned(), ""),
            (String::new(), "begin"),
        ] {
            let error =
                in_host_time(&bad, Uuid([3; 16]), &clock(), &entries()).unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}: {bad}");
        }
    }
}
