//! The end of a statement that is typed line by line.

use std::ffi::CString;

use rusqlite::ffi;

/// Returns true if `text` ends with a semicolon that ends a statement: one that is in no text and in no comment. Spaces and
/// comments may follow.
#[must_use]
pub fn ends_statement(text: &str) -> bool {
    // SQLite's function reads all of the text.
    if !text.contains(';') {
        return false;
    }
    let Ok(text) = CString::new(text) else { return true };
    // SAFETY: the text ends with NUL, and lives until the function returns, which only reads it.
    unsafe { ffi::sqlite3_complete(text.as_ptr()) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semicolon_in_a_text_or_a_comment_ends_no_statement() {
        for whole in [
            "select 1;",
            "select 1; ",
            "select 1; -- one",
            "select 1; /* ; */\n",
            "select ';';",
            "-- a; b\nselect 1;",
            "select \"a;\";",
            "select 1; select 2;",
            ";",
        ] {
            assert!(ends_statement(whole), "{whole}");
        }
        for part in [
            "",
            "select 1",
            "select ';",
            "select ';'",
            "select 1 -- one;",
            "select 1 /* ; ",
            "-- How many?;\n",
            "select 1; select 2",
            "select \"a;",
        ] {
            assert!(!ends_statement(part), "{part}");
        }
        assert!(ends_statement("select '\0';"), "no text has NUL: the query says so");
    }
}
