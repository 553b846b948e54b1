//! A hash that has the same value in every version and on every machine, for checksums, marks and names in files. It is no
//! protection from somebody who looks for two texts with one value.

/// The hash of no bytes, with which others begin.
pub const STABLE_HASH_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues the hash `hash` with further bytes, and returns the result: FNV-1a of 64 bits, by
/// <http://www.isthe.com/chongo/tech/comp/fnv/>.
#[must_use]
#[inline]
pub fn stable_hash(hash: u64, bytes: &[u8]) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(hash, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_published_vectors() {
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(stable_hash(STABLE_HASH_OF_NOTHING, text.as_bytes()), hash, "{text}");
        }
        let foo = stable_hash(STABLE_HASH_OF_NOTHING, b"foo");
        assert_eq!(stable_hash(foo, b"bar"), 0x8594_4171_f739_67e8);
    }
}
