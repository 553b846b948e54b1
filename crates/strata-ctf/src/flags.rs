//! Sets of flags in metadata of CTF 1.8, which has no such type: the name of an enumeration marks it as a set of flags.
//!
//! `enum flagsN_FIELD : integer { ... } { "A" = 1, "B" = 2, ... }`, where N is the number of low bits that are one
//! number ([`Flags::low_bits`]). The name belongs to the scope of the structure with the field, and FIELD makes it
//! unique there. Other readers see an ordinary enumeration.

use strata_model::Flags;

/// Prefix of the name of an enumeration of flags, before the number of bits.
const BEGIN: &str = "flags";

/// Returns the name for an enumeration that marks the values of a structure's member as flags.
pub(crate) fn tag(flags: Flags, member: &str) -> String {
    format!("{BEGIN}{}_{member}", flags.low_bits)
}

/// Parses the name of an enumeration. Returns `None` if the name does not mark flags.
pub(crate) fn of_tag(tag: &str) -> Option<Flags> {
    let (bits, _) = tag.strip_prefix(BEGIN)?.split_once('_')?;
    let is_number = matches!(bits.len(), 1..=2) && bits.bytes().all(|byte| byte.is_ascii_digit());
    let low_bits = bits.parse().ok().filter(|low_bits| is_number && *low_bits < 64)?;
    Some(Flags { low_bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_tag_of_a_tag_is_what_it_was_made_of() {
        for low_bits in [0, 2, 63] {
            let flags = Flags { low_bits };
            assert_eq!(of_tag(&tag(flags, "_x")), Some(flags));
        }
        assert_eq!(tag(Flags { low_bits: 2 }, "_mode"), "flags2__mode");
    }

    #[test]
    fn of_tag_of_another_name_is_none() {
        for name in
            ["", "flags", "flags_x", "flags2", "flag2_x", "flags64_x", "flags+2_x", "flags002_x"]
        {
            assert_eq!(of_tag(name), None, "{name}");
        }
    }
}
