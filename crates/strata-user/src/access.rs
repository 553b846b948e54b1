//! Which users may connect to a socket of ours: an access list on its name, which the kernel heeds. A
//! connection that was never made need not be closed.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rustix::fs::{lsetxattr, XattrFlags};

/// The attribute that has the list, in the kernel's `POSIX_ACL_XATTR_VERSION`.
const NAME: &str = "system.posix_acl_access";
const VERSION: u32 = 2;

/// `ACL_USER_OBJ` and so on, in the order in which the kernel wants them.
const OWNER: u16 = 1;
const USER: u16 = 2;
const GROUP: u16 = 4;
const MASK: u16 = 16;
const OTHERS: u16 = 32;
/// Who has no number.
const NOBODY: u32 = u32::MAX;

/// To read and write: what it takes to connect.
const ALL: u16 = 6;

/// Users that one list can have; the kernel's limit of an attribute is eight times as many.
pub(crate) const USERS_MAX: usize = 1024;

/// Who may connect.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access<'a> {
    AllBut(&'a BTreeSet<u32>),
    Only(&'a BTreeSet<u32>),
}

/// Lets these connect to the socket of this name, which is ours, and nobody else.
///
/// # Errors
/// What the system said: this file system may have no such lists.
pub(crate) fn set_access(path: &Path, access: Access<'_>) -> io::Result<()> {
    Ok(lsetxattr(path, NAME, &list(access), XattrFlags::empty())?)
}

fn list(access: Access<'_>) -> Vec<u8> {
    let (users, theirs, of_others) = match access {
        Access::AllBut(users) => (users, 0, ALL),
        Access::Only(users) => (users, ALL, 0),
    };
    let mut list = VERSION.to_le_bytes().to_vec();
    let mut add = |tag: u16, rights: u16, id: u32| {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    };
    add(OWNER, ALL, NOBODY);
    for uid in users.iter().take(USERS_MAX) {
        add(USER, theirs, *uid);
    }
    add(GROUP, of_others, NOBODY);
    add(MASK, ALL, NOBODY);
    add(OTHERS, of_others, NOBODY);
    list
}
