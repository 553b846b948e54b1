//! Functions of C++ and Rust by the names that they have in the source, such as `app::Shop::pay`.
//!
//! The names have no parameters, so that a name may stand for several functions. The pieces that a compiler moves out of
//! a function (`.cold`, `.part.0`) have its name, and are not called: no name stands for them.

use crate::discover::elf::{Elf, ElfError, Matching};
use strata_filter::Pattern;
use strata_text::demangled;

/// Returns the functions that have this name in the source or as symbols. With a `*`, the name is a pattern.
///
/// # Errors
/// [`ElfError::Damaged`].
pub(crate) fn matching<'e>(elf: &'e Elf, name: &str) -> Result<Matching<'e>, ElfError> {
    let pattern = name.contains('*').then(|| Pattern::glob(name));
    let is_it = |found: &[u8]| match &pattern {
        Some(pattern) => pattern.matches(found),
        None => found == name.as_bytes(),
    };
    elf.matching(|symbol| is_it(symbol) || of_source(symbol).is_some_and(|name| is_it(&name)))
}

/// Returns the name in the source of a symbol of a whole function; `None` if it has no other name there.
fn of_source(symbol: &[u8]) -> Option<Vec<u8>> {
    let is_piece = [&b".cold"[..], b".part."]
        .iter()
        .any(|piece| symbol.windows(piece.len()).any(|part| part == *piece));
    demangled(symbol).filter(|_| !is_piece)
}

/// Returns the name of a symbol as it is shown: that in the source, if it has one.
pub(crate) fn shown(symbol: &str) -> String {
    let name = of_source(symbol.as_bytes()).and_then(|name| String::from_utf8(name).ok());
    name.unwrap_or_else(|| symbol.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_name_is_that_in_the_source_but_of_pieces() {
        assert_eq!(shown("_ZN3app4Shop3payEi"), "app::Shop::pay");
        assert_eq!(shown("_ZN3app4Shop3payEi.isra.0"), "app::Shop::pay");
        assert_eq!(shown("_ZN3app4Shop3payEi.cold"), "_ZN3app4Shop3payEi.cold");
        assert_eq!(shown("_ZN3app4Shop3pay17h0123456789abcdefE"), "app::Shop::pay");
        assert_eq!(shown("main.(*Server).Handle"), "main.(*Server).Handle");
    }
}
