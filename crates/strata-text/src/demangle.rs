//! Names of C++ and Rust functions and variables, as in the source. The mangled names come from foreign files, so time
//! and memory are limited.

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};

/// The most bytes of a mangled name, and of the demangled one.
const BYTES_MAX: usize = 4096;
/// The deepest nesting of a name's parts.
const DEPTH: u32 = 96;
/// The most template parameters with arguments in a name that has a conversion operator. The parser reads each of them
/// twice there, to see what follows it, and nested ones twice as often again.
const LOOKAHEADS_MAX: usize = 10;

/// Returns the name that a compiler has mangled as `name`, without the parameters of a C++ function and without the
/// hash of a Rust name. Returns `None` if `name` is not mangled, or is too long.
#[must_use]
pub fn demangled(name: &[u8]) -> Option<Vec<u8>> {
    let name = std::str::from_utf8(name).ok().filter(|name| name.len() <= BYTES_MAX)?;
    // A version, as the table of symbols has it.
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    if !name.starts_with("_Z") && !name.starts_with("_R") {
        return None;
    }
    if name.contains("cv") && lookaheads(name) > LOOKAHEADS_MAX {
        return None;
    }
    let mut out = BoundedText(String::new());
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        write!(out, "{rust:#}").ok()?;
        return Some(out.0.into_bytes());
    }
    let parse = ParseOptions::default().recursion_limit(DEPTH);
    let (symbol, rest) = BorrowedSymbol::with_tail_and_options(name.as_bytes(), &parse).ok()?;
    let options = DemangleOptions::new().no_params().no_return_type().recursion_limit(DEPTH);
    symbol.structured_demangle(&mut out, &options).ok()?;
    // `.cold` and `.isra.0` are parts of the same function.
    (rest.is_empty() || rest.starts_with(b".")).then(|| out.0.into_bytes())
}

/// Returns the number of template parameters with arguments in a name, such as `T_I` and `T0_I`.
fn lookaheads(name: &str) -> usize {
    let is_parameter =
        |before: &&str| before.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with('T');
    let parts = name.matches("_I").count();
    name.split("_I").take(parts).filter(is_parameter).count()
}

/// A text of limited length. Writing more is an error.
struct BoundedText(String);

impl Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> Option<String> {
        demangled(name.as_bytes()).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn names_of_cpp_and_rust_are_those_of_the_source() {
        for (mangled, wanted) in [
            ("_ZN4shop5Order3payEl", "shop::Order::pay"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backEOi",
                "std::vector<int, std::allocator<int> >::push_back",
            ),
            ("_ZN4shop5Order3payEl.cold", "shop::Order::pay"),
            ("_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator() const"),
            ("_ZSt4cout@@GLIBCXX_3.4", "std::cout"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvCskwGfYPst2Cb_3foo3bar", "foo::bar"),
        ] {
            assert_eq!(text(mangled).as_deref(), Some(wanted), "{mangled}");
        }
        for name in ["main", "_ZN", "_Zebra", "_R", "_start", "", "__libc_start_main@@GLIBC_2.34"] {
            assert_eq!(text(name), None, "{name}");
        }
    }

    #[test]
    fn names_that_unfold_without_end_are_left_as_they_are() {
        // Each substitution doubles what is before it.
        let mut name = "_Z1f".to_owned();
        name.push_str("St4pairIii");
        (0..200).for_each(|_| name.push_str("S_I"));
        let _ = text(&name);
        assert_eq!(text(&format!("_Z{}", "P".repeat(4000))), None);
        assert_eq!(text(&format!("_ZN{}E", "1a".repeat(3000))), None);
        let nested = (0..27).fold("i".to_owned(), |inner, _| format!("T_I{inner}EIE"));
        assert_eq!(text(&format!("_ZN1AcvT_I{nested}EIiEEv")), None);
        assert_eq!(lookaheads("_ZN1AcvT_IiES0_IiET12_IiE_I"), 2);
        let begun = std::time::Instant::now();
        let doubled = "_Z1fI1AIiiE1AIS0_S0_E1AIS1_S1_E1AIS2_S2_E1AIS3_S3_E1AIS4_S4_E1AIS5_S5_E1AIS6_S6_E1AIS7_S7_E1AIS8_S8_E1AIS9_S9_E1AISA_SA_E1AISB_SB_E1AISC_SC_EEvv";
        let _ = text(doubled);
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
    }
}
