//! Maps user ids to persons: a person may have 65,536 ids (subordinate users, `/etc/subuid`), and must not get a larger
//! share of a recorder with all of them than with one. Limits by user are therefore limits by person.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

/// The most bytes that are read of each file; both files belong to root \[byte\].
const BYTES_MAX: u64 = 16 << 20;

/// Number of user ids that root assigns together, to a container.
const BLOCK: u32 = 65_536;

/// A range of user ids that belong to one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UserRange {
    first: u32,
    last: u32,
    owner: Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Person(u32),
    /// The owner is root, and the ids belong to containers: each block of [`BLOCK`] ids counts as one person.
    Blocks,
}

/// Returns the user who owns this id as a subordinate one, or the id itself. For ids that root has assigned to
/// containers, returns the first id of the block. Uses `/etc/subuid` as of the first call.
pub(crate) fn person(uid: u32) -> u32 {
    static RANGES: OnceLock<Vec<UserRange>> = OnceLock::new();
    let ranges = RANGES.get_or_init(|| ranges(&text_of("/etc/subuid"), &text_of("/etc/passwd")));
    person_in(ranges, uid)
}

/// Returns the users with an account in `/etc/passwd`, which only root can make.
pub(crate) fn accounts() -> Vec<u32> {
    let passwd = text_of("/etc/passwd");
    let mut users: Vec<u32> = accounts_in(&passwd).map(|(_, uid)| uid).collect();
    users.retain(|uid| person(*uid) == *uid);
    users
}

fn accounts_in(passwd: &str) -> impl Iterator<Item = (&str, u32)> {
    passwd.lines().filter_map(|line| {
        let mut words = line.split(':');
        let (name, uid) = (words.next()?, words.nth(1)?);
        Some((name, uid.parse().ok()?))
    })
}

fn person_in(ranges: &[UserRange], uid: u32) -> u32 {
    let range = ranges.iter().find(|range| (range.first..=range.last).contains(&uid));
    match range {
        None => uid,
        Some(UserRange { owner: Owner::Person(owner), .. }) => *owner,
        Some(UserRange { first, owner: Owner::Blocks, .. }) => uid - (uid - first) % BLOCK,
    }
}

fn text_of(path: &str) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
    read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses `/etc/subuid`: lines of `NAME-OR-NUMBER:FIRST:COUNT`. An owner without an account is identified by the first
/// id of its first range.
fn ranges(subuid: &str, passwd: &str) -> Vec<UserRange> {
    let mut owners: HashMap<&str, u32> = HashMap::new();
    for (name, uid) in accounts_in(passwd) {
        owners.entry(name).or_insert(uid);
    }
    let mut ranges = Vec::new();
    for line in subuid.lines() {
        let mut words = line.trim().splitn(3, ':');
        let (Some(name), Some(first), Some(count)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (Ok(first), Ok(count)) = (first.parse::<u32>(), count.parse::<u32>()) else { continue };
        // Root's ids are nobody's subordinates.
        if first == 0 || count == 0 {
            continue;
        }
        let last = first.saturating_add(count - 1);
        let owner = *owners.entry(name).or_insert_with(|| name.parse().unwrap_or(first));
        let owner = if owner == 0 { Owner::Blocks } else { Owner::Person(owner) };
        ranges.push(UserRange { first, last, owner });
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subordinate_users_are_their_owner_and_those_of_root_are_one_for_each_container() {
        let passwd = "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\nbroken\n:::\n";
        let subuid =
            "ann:100000:65536\n1001:165536:65536\nann:400000:10\nroot:1000000:1000000000\n\
                      elsewhere:300000:65536\nelsewhere:500000:5\nwrong\nx:y:z\nann:0:9\nann:7:0\n";
        let ranges = ranges(subuid, passwd);
        for (uid, wanted) in [
            (0, 0),
            (7, 7),
            (1000, 1000),
            (99_999, 99_999),
            (100_000, 1000),
            (165_535, 1000),
            (165_536, 1001),
            (400_009, 1000),
            (400_010, 400_010),
            (300_001, 300_000),
            (500_004, 300_000),
            (1_000_000, 1_000_000),
            (1_065_535, 1_000_000),
            (1_065_536, 1_065_536),
            (u32::MAX, u32::MAX),
        ] {
            assert_eq!(person_in(&ranges, uid), wanted, "{uid}");
        }
    }
}
