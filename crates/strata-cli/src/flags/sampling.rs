//! The flags that have rules record a sample of their events.

use clap::Args;
use strata_session::plan::EnableEvents;

/// The share of events that is recorded.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct SamplingFlags {
    /// Record one of N events (-k, --probe), and count the others
    ///
    /// The first on each CPU, and each Nth after it, of each event by itself. Of system calls one of N calls, with both ends, when it returns.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub every: Option<u32>,

    /// Record N events a second (-k, --probe), such as 100/s
    ///
    /// The first ones of each second, of each event by itself, on all CPUs together. The others are counted. With --every, of those that it selects.
    #[arg(long, value_name = "N/s", value_parser = parse_rate)]
    pub at_most: Option<u32>,
}

impl SamplingFlags {
    /// Returns `events` with the shares and rates of records that these flags give.
    pub fn of(self, events: EnableEvents) -> EnableEvents {
        EnableEvents { every: self.every, at_most: self.at_most, ..events }
    }

    /// Returns the first flag that is given.
    pub fn first(self) -> Option<&'static str> {
        let every = self.every.map(|_| "--every");
        every.or(self.at_most.map(|_| "--at-most"))
    }
}

/// Parses a number of events a second.
fn parse_rate(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number.parse::<u32>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("not a number of events a second from 1 to 4,294,967,295. Write 100/s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_rate;

    #[test]
    fn rate_is_a_number_with_or_without_its_unit() {
        assert_eq!((parse_rate("100/s"), parse_rate("7")), (Ok(100), Ok(7)));
        for wrong in ["0/s", "", "/s", "1/m", "-1", "4294967296/s", "1 /s"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
