//! Names of threads and files, each kept once and referred to by number.
//!
//! A trace has millions of records and few names. A [`Name`] is a number of 4 bytes, which states, threads and
//! descriptors can hold, and which is compared instead of the text. [`Names`] is the table: `of` adds a name or finds
//! it, `text` gives it back.
//!
//! The same text may be the name of a thread, of a socket or of a pipe. These are different names ([`NameKind`]),
//! since a reader shows them differently.
//!
//! Names come from traces, so their number and length are limited. A name for which there is no room is
//! [`Name::NONE`], as is an empty one. The text is bytes, as in the trace; [`Names::text`] replaces what is not
//! UTF-8.
//!
//! One engine has one table, and [`World`](crate::World) lends it to observers: a report keeps numbers and asks
//! for texts when it is printed. Numbers mean nothing in another timeline.

use std::collections::HashMap;

/// The most names that are kept. A trace may have any number of names.
pub const NAMES_MAX: usize = 1 << 18;
/// The most bytes of a name that are kept.
pub const NAME_BYTES_MAX: usize = 512;

/// A name, by its number in [`Names`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

impl Name {
    /// The name of a thing that has none, or whose name is unknown.
    pub const NONE: Name = Name(0);

    /// Returns true unless this is [`Name::NONE`].
    #[must_use]
    pub fn is_some(self) -> bool {
        self != Name::NONE
    }

    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// The kind of thing that a name is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NameKind {
    /// A thread or a file, with the text of the trace.
    #[default]
    Given,
    /// A socket, by its own address if that is known.
    Socket,
    /// A socket that this end has connected, by the address of the other end.
    Connected,
    /// A pipe or a FIFO from pipe().
    Pipe,
    /// Something with a descriptor and neither path nor address, such as an epoll.
    Nameless,
}

const KINDS: usize = 5;

/// The most bytes of a thread's name that the kernel keeps.
const THREAD_NAME_BYTES: usize = 15;

/// Returns the name that the kernel gives a thread that executes this file.
pub(crate) fn of_program(path: &[u8]) -> &[u8] {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    name.get(..THREAD_NAME_BYTES).unwrap_or(name)
}

/// The table of all names.
#[derive(Clone, Debug)]
pub struct Names {
    texts: Vec<(NameKind, Box<[u8]>)>,
    /// The names by text, one map for each kind, since a file may have the same name as a socket.
    known: [HashMap<Box<[u8]>, Name>; KINDS],
    left_out: u64,
}

impl Default for Names {
    fn default() -> Names {
        let none = (NameKind::Given, Box::default());
        Names { texts: vec![none], known: Default::default(), left_out: 0 }
    }
}

impl Names {
    /// Returns the name with this text, which is added if it is new; [`Name::NONE`] if the text is empty, or there are
    /// too many names.
    pub fn of(&mut self, text: &[u8]) -> Name {
        self.of_kind(NameKind::Given, text)
    }

    /// Returns the name with this text for a thing of this kind, which is added if it is new.
    pub fn of_kind(&mut self, kind: NameKind, text: &[u8]) -> Name {
        let text = text.get(..NAME_BYTES_MAX).unwrap_or(text);
        if text.is_empty() {
            return Name::NONE;
        }
        let Some(known) = self.known.get_mut(kind as usize) else { return Name::NONE };
        if let Some(&name) = known.get(text) {
            return name;
        }
        match u32::try_from(self.texts.len()) {
            Ok(number) if self.texts.len() < NAMES_MAX => {
                self.texts.push((kind, text.into()));
                known.insert(text.into(), Name(number));
                Name(number)
            }
            _ => {
                self.left_out = self.left_out.saturating_add(1);
                Name::NONE
            }
        }
    }

    /// Returns the name of this kind and text, if it is known.
    #[must_use]
    pub fn find(&self, kind: NameKind, text: &[u8]) -> Option<Name> {
        self.known.get(kind as usize)?.get(text).copied()
    }

    /// Returns a name's text; empty for [`Name::NONE`]. Invalid UTF-8 is replaced.
    #[must_use]
    pub fn text(&self, name: Name) -> String {
        String::from_utf8_lossy(self.bytes(name)).into_owned()
    }

    /// Returns the bytes of the text as they are in the trace.
    #[must_use]
    #[inline]
    pub fn bytes(&self, name: Name) -> &[u8] {
        let found = usize::try_from(name.0).ok().and_then(|at| self.texts.get(at));
        found.map_or(&[], |(_, text)| text)
    }

    /// Returns the kind of thing that the name is for.
    #[must_use]
    #[inline]
    pub fn kind(&self, name: Name) -> NameKind {
        let found = usize::try_from(name.0).ok().and_then(|at| self.texts.get(at));
        found.map(|&(kind, _)| kind).unwrap_or_default()
    }

    /// Returns the number of times that a name was refused because there were too many.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests;
