//! Formats and parses sizes, times and numbers. `strata_analyze::duration_text` parses durations.

use std::time::Duration;

use strata_analyze::duration_text::parse_duration;

pub use strata_session::options::flag_size;
use strata_session::plan::SLOWER_NS;
use strata_session::MinFree;
pub use strata_text::clean;

/// Parses a size such as `65536`, `512K`, `2M` or `1GiB`, with units that are powers of 1024 \[byte\].
///
/// # Errors
/// The text is no size; the error shows how to write one.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(format!("'{text}' is no size; write bytes, or 512K, 2M, 1G")),
    };
    let number: u64 =
        number.parse().map_err(|_| format!("'{text}' is no size; write bytes, or 512K, 2M, 1G"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("'{text}' is more than 64 bits hold"))
}

/// Parses the space that must stay free on a disk: `5%`, or a size such as `2G`.
pub fn parse_min_free(text: &str) -> Result<MinFree, String> {
    match text.ends_with('%') {
        true => text.parse(),
        false => parse_size(text).map(MinFree::Bytes).map_err(|why| format!("{why}, or 5%")),
    }
}

/// Parses the shortest duration of system calls that are recorded, such as `1ms` \[ns\].
///
/// # Errors
/// The duration is outside of the limits for system calls.
pub fn parse_slower(text: &str) -> Result<u64, String> {
    let bound = parse_duration(text).map_err(|error| error.to_string())?;
    let nanos = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX).saturating_mul(1000);
    SLOWER_NS.contains(&nanos).then_some(nanos).ok_or_else(|| {
        "from 1us to 1h are possible. Use a time such as 1ms, or leave it out for all system calls".into()
    })
}

/// Formats a number: `1204331` as `1,204,331`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with its noun: `1 record`, `2 records`, `2 processes`.
pub fn counted(number: u64, what: &str) -> String {
    let plural = match (number, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {what}{plural}", count(number))
}

/// Formats a size: `14903412` bytes as `14.2 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be printed as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Parses `--argv-bytes`, and adds the final NUL.
pub fn parse_argv_bytes(text: &str) -> Result<u32, String> {
    let (least, most) = (strata_kernel::ARGV_BYTES - 1, strata_kernel::ARGV_BYTES_MAX - 1);
    let bytes = parse_size(text)?;
    let found = u32::try_from(bytes).ok().filter(|bytes| (least..=most).contains(bytes));
    found.map(|bytes| bytes + 1).ok_or_else(|| {
        format!("{bytes} bytes of a program's arguments, possible are {least} to {most}")
    })
}

/// Formats a duration in the unit that fits: `1.998 s`, `12.345 ms`, `4 min 05 s`, `2 h 04 min`.
pub fn time(time: Duration) -> String {
    let (seconds, nanos) = (time.as_secs(), time.as_nanos());
    match nanos {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.3} µs", nanos as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.3} ms", nanos as f64 / 1e6),
        _ if seconds < 60 => format!("{:.3} s", time.as_secs_f64()),
        _ if seconds < 3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats a rate with few digits: `950`, `12.3 k`, `4.56 M`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        rate if !rate.is_finite() || rate < 0.0 => "0".to_owned(),
        rate if rate < 1e3 => format!("{rate:.0}"),
        rate if rate < 1e6 => format!("{:.1} k", rate / 1e3),
        rate if rate < 1e9 => format!("{:.2} M", rate / 1e6),
        rate => format!("{:.2} G", rate / 1e9),
    }
}

/// Formats a path as it is typed in a shell.
pub fn typed(path: &std::path::Path) -> String {
    shell_word(&clean(&path.display().to_string()))
}

/// Quotes a text so that it is one word of a shell's command line.
pub fn shell_word(text: &str) -> String {
    let plain =
        |character: char| character.is_ascii_alphanumeric() || "/._+-:=@%,".contains(character);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_in_every_unit_is_bytes() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65_536),
            ("512K", 512 << 10),
            ("2M", 2 << 20),
            ("2mb", 2 << 20),
            ("1GiB", 1 << 30),
            ("7B", 7),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn size_that_is_none_says_how_to_write_it() {
        for text in ["", "M", "1.5M", "-1", "2 M", "1T", "0x10", "1MM"] {
            assert!(parse_size(text).unwrap_err().contains("512K"), "{text}");
        }
        for text in ["18446744073709551615G", "99999999999G"] {
            assert!(parse_size(text).unwrap_err().contains("64 bits"), "{text}");
        }
    }

    #[test]
    fn count_gets_a_comma_every_three_digits() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_204_331, "1,204,331")] {
            assert_eq!(count(number), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(counted(1, "process"), "1 process");
        assert_eq!(counted(0, "process"), "0 processes");
        assert_eq!(counted(1234, "event record"), "1,234 event records");
    }

    #[test]
    fn size_is_shown_in_the_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (14_903_412, "14.2 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn flag_size_is_read_back_as_it_was() {
        for bytes in [0, 1, 4096, 524_288, 1 << 20, 3 << 20, 1 << 30, 1 << 33, 1_000_000] {
            assert_eq!(parse_size(&flag_size(bytes)), Ok(bytes));
        }
        assert_eq!(flag_size(524_288), "512K");
    }

    #[test]
    fn time_is_shown_in_the_unit_that_fits() {
        for (nanos, text) in [
            (0, "0 s"),
            (17, "17 ns"),
            (1_500, "1.500 µs"),
            (12_345_000, "12.345 ms"),
            (1_998_000_000, "1.998 s"),
            (245_000_000_000, "4 min 05 s"),
            (7_440_000_000_000, "2 h 04 min"),
        ] {
            assert_eq!(time(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn rate_is_shown_with_few_digits() {
        for (value, text) in
            [(0.0, "0"), (950.4, "950"), (12_345.0, "12.3 k"), (4.56e6, "4.56 M"), (2e9, "2.00 G")]
        {
            assert_eq!(rate(value), text);
        }
        assert_eq!(rate(f64::INFINITY), "0");
    }

    #[test]
    fn malicious_name_with_terminal_commands_is_shown_as_text() {
        assert_eq!(clean("a\x1b[2Jb\n\u{202e}ü"), "a\\u{1b}[2Jb\\n\\u{202e}ü");
    }

    #[test]
    fn path_with_spaces_or_quotes_is_one_word_for_a_shell() {
        assert_eq!(shell_word("strata-trace-1/x"), "strata-trace-1/x");
        assert_eq!(shell_word("my trace"), "'my trace'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("~x"), "'~x'");
    }
}
