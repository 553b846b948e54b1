//! Parses users and groups on a command line, given by number or by name.

use std::fs;

use crate::units::clean;

/// Returns the id of a user that is given by name or number.
///
/// # Errors
/// No user has this name.
pub fn user(text: &str) -> Result<u32, String> {
    number(text, "user", "/etc/passwd")
}

/// Returns the id of a group that is given by name or number.
///
/// # Errors
/// No group has this name.
pub fn group(text: &str) -> Result<u32, String> {
    number(text, "group", "/etc/group")
}

/// Parses a process id.
///
/// # Errors
/// The text is no process id.
pub fn process(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "not a number. Processes of a name: --name".to_owned())
}

fn number(text: &str, what: &str, file: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let accounts = fs::read(file).map_err(|error| format!("not a number, and {file}: {error}"))?;
    // Other lines may contain bytes that are no text.
    number_in(&String::from_utf8_lossy(&accounts), text).ok_or_else(|| {
        let text = clean(text);
        format!("neither a number nor a {what} in {file}. `getent {} {text}` knows others: use the number", of(file))
    })
}

/// Returns the id in the line `NAME:x:NUMBER:…` of the name; both files have such lines.
fn number_in(accounts: &str, name: &str) -> Option<u32> {
    let numbers = accounts.lines().filter_map(|line| {
        let mut words = line.split(':');
        (words.next()? == name).then(|| words.nth(1)?.parse().ok())?
    });
    numbers.into_iter().next()
}

fn of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_numbers_or_names_that_are_there() {
        assert_eq!((user("0"), user("root"), user("4711")), (Ok(0), Ok(0), Ok(4711)));
        assert_eq!((group("0"), group("root")), (Ok(0), Ok(0)));
        let text = user("no such user").unwrap_err();
        assert!(
            text.contains("nor a user in /etc/passwd") && text.contains("getent passwd"),
            "{text}"
        );
        assert!(group("").unwrap_err().contains("nor a group in /etc/group"));
        assert!(user("-1").is_err() && user("4294967296").is_err());
        assert_eq!(process("7"), Ok(7));
        assert!(process("nginx").unwrap_err().contains("--name"));
    }

    #[test]
    fn lines_that_are_none_are_passed_over() {
        let text = "# comment\nshop\nshop:x\nshop:x:many\n:x:1\nshop:x:70:70::/:\nshop:x:71\n";
        assert_eq!(number_in(text, "shop"), Some(70));
        assert_eq!(number_in(text, "sho"), None);
    }
}
