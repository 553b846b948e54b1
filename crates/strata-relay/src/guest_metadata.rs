//! Rewrites the metadata of a guest's trace for the host: the guest's text, with a clock in the host's time, and with
//! what the host knows of the guest.
//!
//! The text is the guest's, and may be anything. So the parts to be replaced must have the form in which the guest's
//! recorder writes them, and the result is parsed again: the text is refused unless the trace has the intended clock
//! and no other one, and the environment's entries are those of the host. The rest of the text may be anything that
//! readers accept.

use std::fmt;
use std::fmt::Write as _;

use strata_ctf::read::metadata;
use strata_model::{ClockClass, EnvValue, Uuid};

/// Largest size of the metadata of one trace \[byte\].
pub const METADATA_BYTES_MAX: usize = 8 << 20;

const BEGIN: &str = "/* CTF 1.8 */\n\ntrace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"";
const UUID_BYTES: usize = 36;
const ENVIRONMENT: &str = "\nenv {\n";
const CLOCK: &str = "\nclock {\n";
const END: &str = "\n};\n";

/// Entry that the host adds to a trace's environment: a name and a number.
pub type Entry = (String, i64);

/// Reason why the metadata cannot be rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescribeProblem {
    /// The text does not have the form that Strata's recorder writes, for this reason.
    Foreign(&'static str),
    /// The text is not valid metadata.
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

/// Returns the UUID that the trace has in the guest.
///
/// # Errors
/// The text does not begin in the way of Strata's metadata.
pub fn uuid_of(text: &str) -> Result<Uuid, DescribeProblem> {
    let number = text.strip_prefix(BEGIN).and_then(|rest| rest.get(..UUID_BYTES));
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or(DescribeProblem::Foreign("they do not begin so"))
}

/// Rewrites a trace's metadata with the UUID `uuid`, the clock `clock`, and these entries in its environment.
///
/// # Errors
/// The text cannot be rewritten.
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

    let schema = metadata::parse(out.as_bytes());
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

/// Rewrites a trace's metadata like [`in_host_time`], so that the text keeps its size if it is rewritten with other
/// numbers later: numbers are padded, and existing entries are replaced. Whoever has read the text so far can
/// continue where it was.
///
/// # Errors
/// The text cannot be rewritten.
pub fn in_host_time_again(
    text: &str,
    clock: &ClockClass,
    entries: &[Entry],
) -> Result<String, DescribeProblem> {
    let uuid = uuid_of(text)?;
    let plain = in_host_time(&without(text, entries), uuid, clock, entries)?;
    let begin = plain.find(CLOCK).map_or(0, |at| at + 1);
    let end = plain.get(begin..).and_then(|rest| rest.find(END)).map_or(begin, |at| begin + at);
    let is_entry = |line: &str| {
        let name = line.strip_prefix('\t').and_then(|line| line.split_once(" = "));
        name.is_some_and(|(name, _)| entries.iter().any(|(entry, _)| entry == name))
    };
    let numbers = ["\tfreq = ", "\tprecision = ", "\toffset_s = ", "\toffset = "];
    let (mut out, mut at) = (String::with_capacity(plain.len() + 256), 0);
    for line in plain.split_inclusive('\n') {
        let is_of_clock =
            (begin..end).contains(&at) && numbers.iter().any(|it| line.starts_with(it));
        let is_padded = is_of_clock || (at < begin && is_entry(line));
        match line.strip_suffix(";\n").filter(|_| is_padded) {
            Some(line) => {
                let _ = writeln!(out, "{line:PADDED$};");
            }
            None => out.push_str(line),
        }
        at += line.len();
    }
    Ok(out)
}

/// Width of a line with a number that may change: a name of 17 letters, and the longest number.
const PADDED: usize = 44;

/// Returns the text without these entries in its environment.
fn without(text: &str, entries: &[Entry]) -> String {
    let begin = text.find(ENVIRONMENT).map_or(text.len(), |at| at + ENVIRONMENT.len());
    let end = text.get(begin..).and_then(|rest| rest.find("};\n")).map_or(begin, |at| begin + at);
    let is_kept = |line: &&str| {
        let name = line.strip_prefix('\t').and_then(|line| line.split_once(" = "));
        !name.is_some_and(|(name, _)| entries.iter().any(|(entry, _)| entry == name))
    };
    let kept = text.get(begin..end).unwrap_or_default().split_inclusive('\n').filter(is_kept);
    let mut out = text.get(..begin).unwrap_or_default().to_owned();
    out.extend(kept);
    out.push_str(text.get(end..).unwrap_or_default());
    out
}

/// Formats a clock as `strata_ctf` does, but with an offset of both seconds and cycles, since some readers calculate in
/// doubles.
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
    use strata_ctf::read::metadata::parse;
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
        let (before, after) = (parse(text.as_bytes()), parse(out.as_bytes()));
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
            (good.clone() + clock_of_guest, "is not described"),
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

    #[test]
    fn metadata_keep_their_size_when_the_clock_is_known_better() {
        let text = metadata::write(&trace(vec![("hostname".into(), "web1".into())]));
        let entries = |uncertainty| vec![("clock_uncertainty".to_owned(), uncertainty)];
        let first = in_host_time_again(&text, &clock(), &entries(i64::MAX)).unwrap();
        let better = ClockClass { precision: 7, offset_cycles: 0, offset_s: -3, ..clock() };
        let second = in_host_time_again(&first, &better, &entries(7)).unwrap();
        assert_eq!(first.len(), second.len());
        for (text, clock, uncertainty) in [(&first, clock(), i64::MAX), (&second, better, 7)] {
            let found = parse(text.as_bytes()).unwrap();
            assert_eq!(found.clocks, [clock]);
            assert_eq!(found.environment("clock_uncertainty"), Some(&uncertainty.into()));
            assert_eq!(found.environment("hostname"), Some(&"web1".into()));
        }
        assert_eq!(uuid_of(&second), uuid_of(&text));
        // Text of the class is never taken for the clock's or an entry.
        let more = format!("{second}/*\n\tfreq = 1;\n\tclock_uncertainty = 1;\n*/\n");
        let again = in_host_time_again(&more, &clock(), &entries(9)).unwrap();
        assert!(again.ends_with("/*\n\tfreq = 1;\n\tclock_uncertainty = 1;\n*/\n"));
        assert!(in_host_time_again("trace {};", &clock(), &[]).is_err());
    }
}
