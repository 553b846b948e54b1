//! Scopes of type names, and the memory that a text has taken so far.

use super::types::Type;
use crate::read::metadata::error::{duplicate, too_many, Fault};
use crate::read::metadata::heap::heap;
use crate::read::metadata::limits;
use std::collections::HashMap;
use std::rc::Rc;

/// Names of clocks and types, and how far a text has used the limits.
pub(super) struct TypeNames {
    pub clocks: HashMap<String, usize>,
    /// The scopes, the top level first. Each scope shadows the ones before it. The value is `None` for a name that is
    /// declared in two ways.
    scopes: Vec<HashMap<String, Option<Rc<Type>>>>,
    /// Memory of the schema so far \[byte\].
    written: usize,
    /// Memory of the types that can still be used \[byte\].
    declared: usize,
    /// Number of names that were looked up for references.
    lookups: u64,
}

/// Size of a map's entry without its name, and with the room that maps keep free \[byte\].
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

    /// Returns the type with this name. `const` is ignored, unless it is part of a type's name.
    pub fn find(&self, name: &str) -> Option<&Rc<Type>> {
        let find = |name: &str| self.scopes.iter().rev().find_map(|scope| scope.get(name));
        find(name).or_else(|| name.strip_prefix("const ").and_then(find))?.as_ref()
    }

    /// Declares a type in the innermost scope. A name that is declared already as another type becomes unusable.
    pub fn declare(&mut self, at: u32, name: &str, class: Rc<Type>) -> Result<(), Fault> {
        self.count_declared(at, ENTRY + heap(name.len()))?;
        if let Some(scope) = self.scopes.last_mut() {
            if let Some(before) = scope.get_mut(name) {
                if !before.as_ref().is_some_and(|before| before.is_same(&class)) {
                    *before = None;
                }
                return Err(duplicate(at, "type", name));
            }
            scope.insert(name.to_owned(), Some(class));
        }
        Ok(())
    }

    /// Counts memory of the schema \[byte\]. Parts that were discarded later count as well, since they took as much
    /// time.
    pub fn count(&mut self, at: u32, bytes: usize) -> Result<(), Fault> {
        self.written = self.written.saturating_add(bytes);
        self.check(at)
    }

    /// Counts memory of types \[byte\].
    pub fn count_declared(&mut self, at: u32, bytes: usize) -> Result<(), Fault> {
        self.declared = self.declared.saturating_add(bytes);
        self.check(at)
    }

    /// Returns the memory of the declared types \[byte\].
    pub fn declared(&self) -> usize {
        self.declared
    }

    /// Resets the memory of declared types to an earlier value, after the types of a block were released.
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

    /// Counts names that were looked up for a reference.
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
