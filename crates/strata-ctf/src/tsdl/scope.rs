//! Which names of types mean what, and where; and how much of everything there is so far.

use super::error::{duplicate, too_many, Fault};
use super::limits;
use super::types::Type;
use std::collections::HashMap;
use std::rc::Rc;

/// The clocks' and the types' names, and what is used up of the limits of a whole text.
pub(super) struct TypeNames {
    pub clocks: HashMap<String, usize>,
    /// The top level first; each shadows those before it.
    scopes: Vec<HashMap<String, Rc<Type>>>,
    /// What the schema takes so far \[byte\].
    written: usize,
    /// What the types take that can still be used \[byte\].
    declared: usize,
    /// Names that were looked up for references.
    lookups: u64,
}

/// What an allocation of so many bytes takes, with what the allocator adds \[byte\].
pub(crate) fn heap(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=24 => 32,
        _ => bytes.saturating_add(8 + 15) & !15,
    }
}

/// An entry of a map without its name, and the room that maps keep free \[byte\].
pub(super) const ENTRY: usize = 80;

impl TypeNames {
    pub fn new() -> TypeNames {
        TypeNames {
            clocks: HashMap::new(),
            scopes: vec![HashMap::new()],
            written: 0,
            declared: 0,
            lookups: 0,
        }
    }

    /// Runs `inside` in a scope of its own.
    pub fn scoped<T>(&mut self, inside: impl FnOnce(&mut TypeNames) -> T) -> T {
        self.scopes.push(HashMap::new()); // takes memory only when something is in it
        let result = inside(self);
        self.scopes.pop();
        result
    }

    /// The type of this name. `const` means nothing, unless a type has it in its name.
    pub fn find(&self, name: &str) -> Option<&Rc<Type>> {
        let find = |name: &str| self.scopes.iter().rev().find_map(|scope| scope.get(name));
        find(name).or_else(|| name.strip_prefix("const ").and_then(find))
    }

    /// Declares a type in the innermost scope.
    pub fn declare(&mut self, at: u32, name: &str, class: Rc<Type>) -> Result<(), Fault> {
        self.count_declared(at, ENTRY + heap(name.len()))?;
        if let Some(scope) = self.scopes.last_mut() {
            if scope.contains_key(name) {
                return Err(duplicate(at, "type", name));
            }
            scope.insert(name.to_owned(), class);
        }
        Ok(())
    }

    /// So much more in the schema \[byte\]. What was written in vain counts as well: it took as long.
    pub fn count(&mut self, at: u32, bytes: usize) -> Result<(), Fault> {
        self.written = self.written.saturating_add(bytes);
        self.check(at)
    }

    /// So much more in types \[byte\].
    pub fn count_declared(&mut self, at: u32, bytes: usize) -> Result<(), Fault> {
        self.declared = self.declared.saturating_add(bytes);
        self.check(at)
    }

    /// What types take \[byte\].
    pub fn declared(&self) -> usize {
        self.declared
    }

    /// The types of a block are gone: they take as much as before it.
    pub fn forget(&mut self, declared: usize) {
        self.declared = declared;
    }

    fn check(&self, at: u32) -> Result<(), Fault> {
        match self.written.saturating_add(self.declared) as u64 {
            bytes if bytes > limits::MEMORY => {
                let what = "bytes of memory for all that is described";
                Err(too_many(at, what, bytes, limits::MEMORY))
            }
            _ => Ok(()),
        }
    }

    /// So many names more that were looked up for a reference.
    pub fn count_lookups(&mut self, at: u32, names: u64) -> Result<(), Fault> {
        self.lookups = self.lookups.saturating_add(names);
        match self.lookups {
            names if names > limits::LOOKUPS => {
                Err(too_many(at, "names looked up for references", names, limits::LOOKUPS))
            }
            _ => Ok(()),
        }
    }
}
