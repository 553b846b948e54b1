//! Access list on the name of a socket: the kernel admits only some users, so that connections of others need not be
//! accepted and closed.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rustix::fs::{lsetxattr, XattrFlags};

/// File attribute that holds an access list, in the kernel's format `POSIX_ACL_XATTR_VERSION`.
const NAME: &str = "system.posix_acl_access";
const VERSION: u32 = 2;

/// Tags of entries, `ACL_USER_OBJ` and so on, in the order that the kernel demands.
const OWNER: u16 = 1;
const USER: u16 = 2;
const GROUP: u16 = 4;
const MASK: u16 = 16;
const OTHERS: u16 = 32;
/// User id in an entry that has no user.
const NOBODY: u32 = u32::MAX;

/// Permission to read and write, which connecting takes.
const ALL: u16 = 6;

/// The most users in one list; the kernel's limit on an attribute would allow eight times as many.
pub(crate) const USERS_MAX: usize = 1024;

/// The users who may connect to a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access<'a> {
    AllBut(&'a BTreeSet<u32>),
    Only(&'a BTreeSet<u32>),
}

/// Sets the access list of our socket `path`.
///
/// # Errors
/// The attribute could not be set: the file system may have no access lists.
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
