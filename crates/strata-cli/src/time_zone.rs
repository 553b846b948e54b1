//! Finds the user's time zone. If its name is known, its file is read directly: the library would search the whole
//! database of 20 folders, which takes longer than to show a small trace.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use strata_analyze::render::TimeZone;

/// Folder of the time zone database, unless `TZDIR` names another one.
const DATABASE: &str = "/usr/share/zoneinfo";

/// Returns the time zone of `TZ`, otherwise that of the machine.
pub fn local() -> TimeZone {
    let link = || std::fs::read_link("/etc/localtime").ok();
    std::env::var_os("TZDIR")
        .is_none()
        .then(|| by_name(std::env::var_os("TZ"), link))
        .flatten()
        .unwrap_or_else(TimeZone::system)
}

/// Finds a zone by its name in the database; `None` for other forms, which the library parses.
fn by_name(tz: Option<OsString>, link: impl Fn() -> Option<PathBuf>) -> Option<TimeZone> {
    let name = match tz {
        Some(tz) => tz.into_string().ok()?,
        None => link()?.strip_prefix(DATABASE).ok()?.to_str()?.to_owned(),
    };
    if name == "UTC" {
        return Some(TimeZone::UTC);
    }
    // A name of an area and a place. Other names may also be rules, such as EST5EDT.
    let parts = Path::new(&name).components();
    if parts.clone().count() < 2 || !parts.clone().all(|part| matches!(part, Component::Normal(_)))
    {
        return None;
    }
    let data = std::fs::read(Path::new(DATABASE).join(&name)).ok()?;
    TimeZone::tzif(&name, &data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_of_a_name_is_that_of_the_database() {
        assert_eq!(by_name(Some("UTC".into()), || None), Some(TimeZone::UTC));
        for name in ["Asia/Kolkata", "America/St_Johns", "America/Argentina/Ushuaia"] {
            // Where there is no database, there are no names.
            let wanted =
                TimeZone::get(name).ok().filter(|_| Path::new(DATABASE).join(name).exists());
            assert_eq!(by_name(Some(name.into()), || None), wanted, "{name}");
            assert_eq!(by_name(None, || Some(Path::new(DATABASE).join(name))), wanted, "{name}");
        }
    }

    #[test]
    fn what_is_no_plain_name_is_left_to_the_library() {
        for name in [
            "",
            "EST5EDT",
            "IST-5:30",
            ":Europe/Berlin",
            "/etc/localtime",
            "../../etc/passwd",
            "moon/x",
        ] {
            assert_eq!(by_name(Some(name.into()), || None), None, "{name}");
        }
        assert_eq!(by_name(None, || Some("../elsewhere/Europe/Berlin".into())), None);
        assert_eq!(by_name(None, || None), None);
    }
}
