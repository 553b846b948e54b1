//! Names of threads and files, each kept once: what is counted and compared is a number.

use std::collections::HashMap;

/// Names that are kept. A trace may have any number of them.
pub const NAMES_MAX: usize = 1 << 18;
/// Bytes of a name that are kept.
pub const NAME_BYTES_MAX: usize = 512;

/// A name, by its number in [`Names`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

impl Name {
    /// No name is known.
    pub const NONE: Name = Name(0);

    /// Whether there is one.
    #[must_use]
    pub fn is_some(self) -> bool {
        self != Name::NONE
    }

    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// What has a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NameKind {
    /// A thread, a file: the text is of the trace.
    #[default]
    Given,
    /// A socket: its address, as far as that is known.
    Socket,
    /// A pipe.
    Pipe,
    /// What has a descriptor, and neither path nor address.
    Nameless,
}

const KINDS: usize = 4;

/// All names.
#[derive(Debug)]
pub struct Names {
    texts: Vec<(NameKind, Box<[u8]>)>,
    /// By kind: a file may be called like a socket.
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
    /// The number of a text; that of none if it is empty, or if there are too many.
    pub fn of(&mut self, text: &[u8]) -> Name {
        self.of_kind(NameKind::Given, text)
    }

    /// The same, of another kind.
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

    /// The text; empty if there is none.
    #[must_use]
    pub fn text(&self, name: Name) -> String {
        String::from_utf8_lossy(self.bytes(name)).into_owned()
    }

    /// The text as it is in the trace.
    #[must_use]
    pub fn bytes(&self, name: Name) -> &[u8] {
        let found = usize::try_from(name.0).ok().and_then(|at| self.texts.get(at));
        found.map_or(&[], |(_, text)| text)
    }

    /// What has it.
    #[must_use]
    pub fn kind(&self, name: Name) -> NameKind {
        let found = usize::try_from(name.0).ok().and_then(|at| self.texts.get(at));
        found.map(|&(kind, _)| kind).unwrap_or_default()
    }

    /// How often a name was not kept, since there were too many.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests;
