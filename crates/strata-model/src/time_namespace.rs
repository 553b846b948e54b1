//! Time namespaces: kernel records have times of the machine's clocks, but programs may read clocks with an offset.

use std::sync::OnceLock;

/// Returns the offsets that this process's time namespace adds to the machine's `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME`
/// \[ns\]. The offsets never change, since only the process itself can move to another namespace.
#[must_use]
pub fn time_namespace_adds_ns() -> (i64, i64) {
    static ADDED: OnceLock<(i64, i64)> = OnceLock::new();
    *ADDED.get_or_init(|| {
        added_by(&std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default())
    })
}

/// Parses the kernel's text. Returns zeros for missing clocks.
fn added_by(text: &str) -> (i64, i64) {
    let of = |clock: &str| {
        let words = text.lines().find_map(|line| line.strip_prefix(clock))?;
        let mut words = words.split_ascii_whitespace();
        let seconds: i64 = words.next()?.parse().ok()?;
        let ns: i64 = words.next()?.parse().ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(ns)
    };
    (of("monotonic").unwrap_or(0), of("boottime").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_by_a_time_namespace_is_read_with_its_sign_and_nanoseconds() {
        let text = "monotonic        -100 500000000\nboottime        86400         7\n";
        assert_eq!(added_by(text), (-99_500_000_000, 86_400_000_000_007));
        assert_eq!(added_by("monotonic           0         0\nboottime  0 0\n"), (0, 0));
        assert_eq!((added_by(""), added_by("monotonic x")), ((0, 0), (0, 0)));
    }
}
