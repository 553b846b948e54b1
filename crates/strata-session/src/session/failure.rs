//! Messages about failures to write a trace.

use std::error::Error as _;

/// Returns a message of one line that says why a trace cannot be written, or why a process's memory cannot be read.
pub(crate) fn failure_text(error: &strata_collect::Error) -> String {
    use strata_collect::Error as E;
    let mut text = error.to_string();
    // Some messages already contain the error of the system, which is not repeated.
    let said = matches!(error, E::NoSpace { .. } | E::TooLarge { .. } | E::Gone { .. });
    let mut cause = error.source().filter(|_| !said);
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

/// Returns advice on a failure to write the trace.
pub(crate) fn advice(error: &strata_collect::Error) -> &'static str {
    use strata_collect::Error as E;
    match error {
        E::NoSpace { .. } => ". Make room, or use -o with a folder on another file system",
        E::TooLarge { .. } => ". Raise the limit, or record less with --user",
        E::ReadOnly { .. } => ". Use -o with a folder that can be written to",
        E::Gone { .. } => ". Leave the folder alone while it is recorded to",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::path::PathBuf;

    #[test]
    fn failure_to_write_says_which_file_why_and_what_to_do() {
        let path = || PathBuf::from("a/b");
        let system = io::Error::from_raw_os_error;
        let no_space =
            strata_collect::Error::NoSpace { path: path(), source: system(libc::ENOSPC) };
        assert_eq!(failure_text(&no_space), "a/b: no space left on its file system");
        let read_only =
            strata_collect::Error::ReadOnly { path: path(), source: system(libc::EROFS) };
        assert!(failure_text(&read_only).contains("Read-only file system"));
        let gone = strata_collect::Error::Gone { path: path(), source: system(libc::ENOENT) };
        let large =
            strata_collect::Error::TooLarge { path: path(), bytes: 7, source: system(libc::EFBIG) };
        for (error, part) in
            [(no_space, "Make room"), (read_only, "Use -o"), (gone, "alone"), (large, "--user")]
        {
            assert!(!error.is_of_the_source() && advice(&error).contains(part), "{error}");
        }
    }

    #[test]
    fn failure_text_has_each_cause_once_and_no_advice_where_there_is_none() {
        let path = || PathBuf::from("a/b");
        let system = io::Error::from_raw_os_error;
        let write = strata_collect::Error::Write { path: path(), source: system(libc::EIO) };
        assert_eq!(failure_text(&write), format!("a/b: cannot be written: {}", system(libc::EIO)));
        let none = strata_collect::Error::NoMetadata { path: path() };
        assert_eq!(failure_text(&none), "a/b: no metadata yet for packets to be written");
        // What the message says already is not said again.
        let twice = io::Error::other("a/b: cannot be written");
        let twice = strata_collect::Error::Write { path: path(), source: twice };
        assert_eq!(failure_text(&twice), "a/b: cannot be written");
        let exists = strata_collect::Error::Exists { path: path(), source: system(libc::EEXIST) };
        for error in [&write, &none, &exists] {
            assert_eq!(advice(error), "", "{error}");
            assert!(!error.is_of_the_source(), "{error}");
        }
    }
}
