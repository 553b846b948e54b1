//! Makes text from outside (names of programs, files, hosts and events, values, messages) safe for people, terminals
//! and scripts to read.
//!
//! A terminal, an editor or a script acts on some characters instead of showing them; [`controls_display`] is the only
//! list of these characters. [`clean`] escapes them in a text for people, [`clean_lines`] in a text of several lines
//! with colours, and [`json`] writes all JSON that leaves the program. [`demangled`] returns names of functions as their
//! authors wrote them.
//!
//! ```
//! assert_eq!(strata_text::clean("nginx\u{9b}2J"), "nginx\\u{9b}2J");
//! assert_eq!(strata_text::json::compact(&"nginx\u{9b}2J"), r#""nginx\u009b2J""#);
//! ```
//!
//! | who prints | function | what it leaves |
//! |---|---|---|
//! | a message, a table, a list | [`clean`] | one line without control characters, and without those that reverse or hide text |
//! | text that we have coloured | [`clean_lines`] | line breaks and our own colours |
//! | an answer for programs | [`json`] | valid JSON, in ASCII where a terminal could act on it |
//!
//! All functions are pure, borrow their text if nothing is to be escaped, and may be called from any thread.
//! Every crate that prints uses them: a second list of dangerous characters would differ from this one
//! (docs/decisions/0049).
#![forbid(unsafe_code)]

mod demangle;
mod display;
pub mod json;

pub use demangle::demangled;
pub use display::{clean, clean_lines, controls_display};
