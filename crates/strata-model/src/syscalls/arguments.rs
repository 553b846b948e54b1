//! Finds the fields of a system call's entry that belong to each argument.
//!
//! Most arguments are one field. A socket's address or a structure has a field for each member. Only the names show
//! that such fields belong together: `uservaddr_family`, `uservaddr_port`, `uservaddr_addr`.

use crate::schema::{FieldClass, Length, Location, Member, Scope, Structure};

/// Name endings of the fields of a socket's address.
const ADDRESS: &[&str] = &["_family", "_port", "_addr"];

/// Name endings of the fields of each structure.
const STRUCTURES: &[&[&str]] = &[
    &["_0_sec", "_0_nsec", "_1_sec", "_1_nsec"],
    &["_0_sec", "_0_usec", "_1_sec", "_1_usec"],
    &["_interval_sec", "_interval_nsec", "_value_sec", "_value_nsec"],
    &["_interval_sec", "_interval_usec", "_value_sec", "_value_usec"],
    &["_sec", "_nsec"],
    &["_sec", "_usec"],
    &["_actime", "_modtime"],
    &["_cur", "_max"],
    &["_events", "_data"],
    &["_events", "_padding", "_data"],
    &["_flags", "_mode", "_resolve"],
    &[
        "_flags",
        "_pidfd",
        "_child_tid",
        "_parent_tid",
        "_exit_signal",
        "_stack",
        "_stack_size",
        "_tls",
    ],
    &["_size", "_policy", "_flags", "_nice", "_priority", "_runtime", "_deadline", "_period"],
    &["_handler", "_flags", "_restorer", "_mask"],
];

/// Name endings of two list fields that together represent one argument.
const LISTS: &[&str] = &["_fd", "_events"];

/// The kind of an argument, as far as its fields show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A number, a list, or any other single field.
    Single,
    /// A single field with a text.
    Text,
    /// The address of a socket: family, port, bytes.
    Address,
    /// The members of a structure.
    Structure,
}

/// An argument of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentFields {
    /// Kind of the argument.
    pub kind: ArgumentKind,
    /// Indexes of the argument's fields in the payload, in order. Lengths of lists and texts are left out, and so is a
    /// pointer before the members of a structure.
    pub members: Vec<usize>,
}

/// Returns the arguments in the payload of a system call's entry, in order.
#[must_use]
pub fn arguments(payload: &Structure) -> Vec<ArgumentFields> {
    let lengths: Vec<usize> = payload.members.iter().filter_map(length_of).collect();
    let fields: Vec<Candidate<'_>> = (payload.members.iter().enumerate())
        .filter(|(at, _)| !lengths.contains(at))
        .map(|(at, member)| Candidate { at, member })
        .collect();
    let mut found = Vec::new();
    let mut rest = fields.as_slice();
    while let [first, behind @ ..] = rest {
        let (kind, skipped, count) = match first.member.class {
            FieldClass::String | FieldClass::Text { .. } => (ArgumentKind::Text, 0, 1),
            _ => several(rest).unwrap_or((ArgumentKind::Single, 0, 1)),
        };
        let members = rest.iter().skip(skipped).take(count).map(|field| field.at).collect();
        found.push(ArgumentFields { kind, members });
        rest = rest.get(skipped + count..).unwrap_or(behind);
    }
    found
}

/// A member that is not the length of another one.
struct Candidate<'p> {
    at: usize,
    member: &'p Member,
}

/// Returns the member of the payload that gives the length of this one.
fn length_of(member: &Member) -> Option<usize> {
    let length = match &member.class {
        FieldClass::Text { length } => length,
        FieldClass::Array(array) => &array.length,
        _ => return None,
    };
    match length {
        Length::Dynamic(Location { scope: Scope::Payload, path, .. }) => match path.as_slice() {
            [at] => usize::try_from(*at).ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether the first fields form one argument: its kind, the number of fields before its members, and the
/// number of its members.
fn several(fields: &[Candidate<'_>]) -> Option<(ArgumentKind, usize, usize)> {
    if begins(fields, None, ADDRESS) {
        return Some((ArgumentKind::Address, 0, ADDRESS.len()));
    }
    let is_list = |field: &Candidate<'_>| matches!(field.member.class, FieldClass::Array(_));
    if begins(fields, None, LISTS) && fields.first().is_some_and(is_list) {
        return Some((ArgumentKind::Single, 0, LISTS.len()));
    }
    let (first, behind) = fields.split_first()?;
    STRUCTURES.iter().find_map(|ends| {
        // The fields are `utime`, `utime_sec`, `utime_nsec`: the pointer, then the members.
        let skipped = match begins(fields, None, ends) {
            true => 0,
            false if begins(behind, Some(&first.member.name), ends) => 1,
            false => return None,
        };
        Some((ArgumentKind::Structure, skipped, ends.len()))
    })
}

/// Returns whether the first fields have the names of one argument with these endings. `name` is the argument's name,
/// if it is known.
fn begins(fields: &[Candidate<'_>], name: Option<&str>, ends: &[&str]) -> bool {
    if fields.len() < ends.len() {
        return false;
    }
    let mut names = fields.iter().zip(ends).map(|(field, end)| field.member.name.strip_suffix(end));
    let Some(first) = names.next().flatten() else { return false };
    names.all(|other| other == Some(first)) && name.is_none_or(|name| name == first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Array;

    fn payload(names: &[&str]) -> Structure {
        let member = |name: &&str| Member {
            name: (*name).to_owned(),
            class: match *name {
                "path" => FieldClass::String,
                _ => FieldClass::Structure(Structure::default()),
            },
        };
        Structure { align: 1, members: names.iter().map(member).collect() }
    }

    fn of(payload: &Structure) -> Vec<(ArgumentKind, Vec<usize>)> {
        let found = arguments(payload).into_iter();
        found.map(|argument| (argument.kind, argument.members)).collect()
    }

    /// Returns whether each argument has one field.
    fn are_single(names: &[&str]) -> bool {
        let found = of(&payload(names));
        found.iter().enumerate().all(|(at, one)| *one == (ArgumentKind::Single, vec![at]))
    }

    #[test]
    fn fields_of_one_argument_are_those_whose_names_begin_alike() {
        use ArgumentKind::{Address, Single, Structure, Text};
        let socket = payload(&["fd", "addr_family", "addr_port", "addr_addr", "addrlen"]);
        let wanted = [(Single, vec![0]), (Address, vec![1, 2, 3]), (Single, vec![4])];
        assert_eq!(of(&socket), wanted);
        let names = ["dfd", "path", "how_flags", "how_mode", "how_resolve", "usize"];
        let wanted =
            [(Single, vec![0]), (Text, vec![1]), (Structure, vec![2, 3, 4]), (Single, vec![5])];
        assert_eq!(of(&payload(&names)), wanted);
        let futex = ["uaddr", "op", "val", "utime", "utime_sec", "utime_nsec", "uaddr2"];
        let wanted = [(Structure, vec![4, 5]), (Single, vec![6])];
        assert_eq!(of(&payload(&futex))[3..], wanted);
        assert!(are_single(&["a_sec", "b_nsec"]) && are_single(&["a_family", "a_port"]));
        assert!(are_single(&["a", "b_sec", "b", "b_nsec"]) && are_single(&[]));
    }

    #[test]
    fn length_of_a_list_is_no_argument() {
        let mut socket = payload(&["fd", "a_family", "a_port", "_a_addr_length", "a_addr", "len"]);
        let path = vec![3];
        let length = Length::Dynamic(Location::at(Scope::Payload, path));
        let element = Box::new(FieldClass::String);
        socket.members[4].class = FieldClass::Array(Array { align: 1, length, element });
        let found = of(&socket);
        assert_eq!(
            found[1..],
            [(ArgumentKind::Address, vec![1, 2, 4]), (ArgumentKind::Single, vec![5])]
        );
    }
}
