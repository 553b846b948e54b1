//! Points in time and lengths, as text for people.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

fn zoned(nanos: i64, zone: &TimeZone) -> Option<Zoned> {
    let timestamp = Timestamp::from_nanosecond(i128::from(nanos)).ok()?;
    Some(timestamp.to_zoned(zone.clone()))
}

/// Returns a time \[ns since 1970\] as `2026-11-22 02:26:46.622882482 +0000`.
#[must_use]
pub fn date_time(nanos: i64, zone: &TimeZone) -> String {
    zoned(nanos, zone).map_or_else(
        || format!("{nanos} ns"),
        |time| time.strftime("%Y-%m-%d %H:%M:%S.%9f %z").to_string(),
    )
}

/// Returns a time of day \[ns since 1970\] as `02:26:46.622882482`.
#[must_use]
pub fn time_of_day(nanos: i64, zone: &TimeZone) -> String {
    zoned(nanos, zone)
        .map_or_else(|| format!("{nanos} ns"), |time| time.strftime("%H:%M:%S.%9f").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_any_number_is_text_in_its_zone() {
        let zone = TimeZone::posix("IST-5:30").unwrap();
        for nanos in [i64::MIN, -1, 0, 1_795_314_406_622_882_482, i64::MAX] {
            let text = date_time(nanos, &zone);
            assert!(text.starts_with(|c: char| c.is_ascii_digit()), "{nanos}");
            assert!(time_of_day(nanos, &zone).contains('.'), "{nanos}");
        }
        let nanos = 1_795_314_406_622_882_482;
        assert_eq!(date_time(nanos, &TimeZone::UTC), "2026-11-22 02:26:46.622882482 +0000");
        assert_eq!(date_time(nanos, &zone), "2026-11-22 07:56:46.622882482 +0530");
        assert_eq!(time_of_day(nanos, &zone), "07:56:46.622882482");
    }
}
