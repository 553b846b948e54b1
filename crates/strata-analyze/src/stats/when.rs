//! Times as people read them, in the zone of the machine that shows them.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

fn zoned(nanos: i64) -> Option<Zoned> {
    let timestamp = Timestamp::from_nanosecond(i128::from(nanos)).ok()?;
    Some(timestamp.to_zoned(TimeZone::system()))
}

/// `2026-11-22 02:26:46.622882482 +0000`; \[ns since 1970\].
#[must_use]
pub fn date_time(nanos: i64) -> String {
    zoned(nanos).map_or_else(
        || format!("{nanos} ns"),
        |time| time.strftime("%Y-%m-%d %H:%M:%S.%9f %z").to_string(),
    )
}

/// `02:26:46.622882482`; \[ns since 1970\].
#[must_use]
pub fn time_of_day(nanos: i64) -> String {
    zoned(nanos)
        .map_or_else(|| format!("{nanos} ns"), |time| time.strftime("%H:%M:%S.%9f").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_any_number_is_text() {
        for nanos in [i64::MIN, -1, 0, 1_795_314_406_622_882_482, i64::MAX] {
            assert!(date_time(nanos).starts_with(|c: char| c.is_ascii_digit()), "{nanos}");
            assert!(time_of_day(nanos).contains('.'), "{nanos}");
        }
        // Zones differ by whole minutes today: what is below them is the same in all.
        assert!(date_time(1_795_314_406_622_882_482).contains(":46.622882482 "));
        assert!(time_of_day(1_795_314_406_622_882_482).ends_with(":46.622882482"));
    }
}
