//! Opcodes of tracepoints in the code of another process: `strata/abi/user.h`, "Where a tracepoint is".
//!
//! A process can map its code from a file system that never answers, so that reading the code may block for ever.
//! Separate threads do that: see `blocking_queries.rs`.

use std::io;

use strata_abi::user;

use crate::error::Error;

/// The sites of one tracepoint, to be patched.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    /// Index of the tracepoint.
    pub index: u32,
    pub sites: Vec<user::Site>,
}

/// Why a site was not changed.
#[derive(Debug)]
pub(crate) enum Cause {
    Differs([u8; 5]),
    System(io::Error),
}

/// A tracepoint's code site that was not changed, with the reason.
#[derive(Debug)]
pub(crate) struct Failure {
    pub index: u32,
    pub site: user::Site,
    pub cause: Cause,
}

/// The code of another process.
pub(crate) trait Code: Send + Sync {
    /// Makes sure that the code can be read and written, and belongs to the right process. Must be called before the
    /// other methods; does nothing the second time.
    fn open(&self) -> Result<(), Error>;
    fn read_exact_at(&self, bytes: &mut [u8], address: u64) -> io::Result<()>;
    fn write_all_at(&self, bytes: &[u8], address: u64) -> io::Result<()>;
}

/// Writes `opcode` to all sites of these tracepoints. After a failure, the remaining sites of the tracepoint are left
/// alone. Returns the failures.
///
/// Blocks for as long as the process likes: call it in an [`Errand`](crate::processes::blocking_queries::Errand).
pub(crate) fn set_opcodes(code: &dyn Code, patches: &[Patch], opcode: u8) -> Vec<Failure> {
    let mut failures = Vec::new();
    for patch in patches {
        for site in &patch.sites {
            if let Err(cause) = set_opcode(code, site, opcode) {
                failures.push(Failure { index: patch.index, site: *site, cause });
                break;
            }
        }
    }
    failures
}

/// Reads the five bytes of a site, and replaces the first one if they are as expected.
fn set_opcode(code: &dyn Code, site: &user::Site, opcode: u8) -> Result<(), Cause> {
    let mut found = [0; 5];
    code.read_exact_at(&mut found, site.address).map_err(Cause::System)?;
    let [first, displacement @ ..] = found;
    if !matches!(first, user::SITE_DORMANT | user::SITE_ON)
        || i32::from_ne_bytes(displacement) != site.displacement
    {
        return Err(Cause::Differs(found));
    }
    if first != opcode {
        code.write_all_at(&[opcode], site.address).map_err(Cause::System)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Text;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    struct OwnCode(File);

    impl Code for OwnCode {
        fn open(&self) -> Result<(), Error> {
            Ok(())
        }

        fn read_exact_at(&self, bytes: &mut [u8], address: u64) -> io::Result<()> {
            self.0.read_exact_at(bytes, address)
        }

        fn write_all_at(&self, bytes: &[u8], address: u64) -> io::Result<()> {
            self.0.write_all_at(bytes, address)
        }
    }

    fn own_code() -> OwnCode {
        let mem = std::fs::OpenOptions::new().read(true).write(true).open("/proc/self/mem");
        OwnCode(mem.unwrap())
    }

    fn set(text: &Text, opcode: u8) -> Vec<Failure> {
        let patch = Patch { index: 5, sites: text.sites.clone() };
        set_opcodes(&own_code(), &[patch], opcode)
    }

    #[test]
    fn set_opcodes_writes_the_first_byte_of_each_site_only() {
        let text = Text::new(3);
        assert!(set(&text, user::SITE_ON).is_empty());
        assert_eq!(text.opcodes(), [user::SITE_ON; 3]);
        assert!(set(&text, user::SITE_ON).is_empty());
        assert!(set(&text, user::SITE_DORMANT).is_empty());
        assert_eq!(text.opcodes(), [user::SITE_DORMANT; 3]);
    }

    #[test]
    fn set_opcodes_of_other_code_leaves_it_and_says_what_is_there() {
        let text = Text::new(2);
        text.set(0, 0, 0xcc);
        text.set(1, 4, 0xcc);
        for _ in 0..2 {
            let failures = set(&text, user::SITE_ON);
            let [Failure { index: 5, cause: Cause::Differs(found), .. }] = &failures[..] else {
                panic!("{failures:?}");
            };
            assert!(found.contains(&0xcc));
            assert!(!text.opcodes().contains(&user::SITE_ON));
            text.set(0, 0, 0x90);
            text.set(0, 1, 0xcc);
        }
    }

    #[test]
    fn set_opcodes_of_an_address_that_is_not_mapped_says_what_the_system_reports() {
        for address in [0, 8, 1 << 62, u64::MAX - 2] {
            let text = Text::new(1);
            let site = user::Site { address, ..text.sites[0] };
            let patch = Patch { index: 0, sites: vec![site] };
            let failures = set_opcodes(&own_code(), &[patch], user::SITE_ON);
            assert!(matches!(failures[..], [Failure { cause: Cause::System(_), .. }]));
        }
    }
}
