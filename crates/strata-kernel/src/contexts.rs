//! Contexts of the kernel's records: what they say of the thread beside its number.

use strata_abi::kernel;
use strata_model::{Array, Base, Element, Field, FieldClass, Integer, Sequence};
use thiserror::Error;

/// What a context is in a record.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Signed,
    Unsigned(u8),
    Name,
    Addresses,
}

/// LTTng's names where it has such a context; in the order of a record, which is that of the bits.
const ALL: [(&str, Kind, &str, u32); 9] = [
    ("pid", Kind::Signed, "process", kernel::CONTEXT_PID),
    ("ppid", Kind::Signed, "its parent", kernel::CONTEXT_PPID),
    ("procname", Kind::Name, "name of the thread", kernel::CONTEXT_PROCNAME),
    ("uid", Kind::Unsigned(4), "real user", kernel::CONTEXT_UID),
    ("gid", Kind::Unsigned(4), "real group", kernel::CONTEXT_GID),
    ("prio", Kind::Signed, "priority; 20 is nice 0", kernel::CONTEXT_PRIO),
    ("cgroup_id", Kind::Unsigned(8), "number of its control group", kernel::CONTEXT_CGROUP),
    (
        "callstack_kernel",
        Kind::Addresses,
        "who called whom in the kernel, up to 64",
        kernel::CONTEXT_STACK,
    ),
    (
        "callstack_user",
        Kind::Addresses,
        "the program's site and callers, up to 64",
        kernel::CONTEXT_USER_STACK,
    ),
];

const STACKS: u32 = 1 << kernel::CONTEXT_STACK | 1 << kernel::CONTEXT_USER_STACK;

/// Every record has it: it may be asked for all the same.
const THREAD: &str = "tid";

/// There is none of this name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "kernel context '{name}': there is none. There are tid, which each record has, {}",
    names()
)]
pub struct ContextError {
    /// As it was written.
    name: String,
}

fn names() -> String {
    ALL.map(|(name, ..)| name).join(", ")
}

/// Those of a session, besides the thread that each record has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contexts(u32);

impl Contexts {
    /// Those of these names, of which each text may have several, separated by commas.
    ///
    /// # Errors
    /// There is none of a name.
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Contexts, ContextError> {
        let mut contexts = Contexts::default();
        for name in texts.iter().flat_map(|text| text.as_ref().split(',')).map(str::trim) {
            match ALL.iter().find(|(known, ..)| *known == name) {
                Some((.., bit)) => contexts.0 |= 1 << bit,
                None if name == THREAD => {}
                None => return Err(ContextError { name: name.to_owned() }),
            }
        }
        Ok(contexts)
    }

    /// All that there are: names, and what they say.
    pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
        ALL.into_iter().map(|(name, _, about, _)| (name, about))
    }

    /// Both call stacks, the process whose the program's addresses are, and these.
    #[must_use]
    pub fn with_stacks(self) -> Contexts {
        Contexts(self.0 | 1 << kernel::CONTEXT_PID | STACKS)
    }

    /// Call stacks that are not among these.
    pub(crate) fn missing_stacks(self) -> Contexts {
        Contexts(STACKS & !self.0)
    }

    /// Whether there is a call stack among them.
    #[must_use]
    pub fn has_stack(self) -> bool {
        self.0 & STACKS != 0
    }

    /// As programs have it.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    fn chosen(self) -> impl Iterator<Item = (&'static str, Kind)> {
        let is_chosen = move |&(.., bit): &(_, _, _, u32)| self.0 >> bit & 1 != 0;
        ALL.into_iter().filter(is_chosen).map(|(name, kind, ..)| (name, kind))
    }

    /// Behind the thread in the context of each record.
    pub(crate) fn fields(self) -> impl Iterator<Item = Field> {
        self.chosen().map(|(name, kind)| Field::new(name, class(kind)))
    }

    /// What this process' own records have there: those of what runs already.
    #[must_use]
    pub fn of_this_process(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, kind) in self.chosen() {
            match (name, kind) {
                ("pid", _) => bytes.extend(std::process::id().to_ne_bytes()),
                ("ppid", _) => bytes.extend(std::os::unix::process::parent_id().to_ne_bytes()),
                ("uid", _) => bytes.extend(rustix::process::getuid().as_raw().to_ne_bytes()),
                ("gid", _) => bytes.extend(rustix::process::getgid().as_raw().to_ne_bytes()),
                (_, Kind::Name) => {
                    let mut name = std::fs::read("/proc/thread-self/comm").unwrap_or_default();
                    name.truncate(15);
                    name.retain(|byte| *byte != b'\n');
                    name.resize(16, 0);
                    bytes.extend(name);
                }
                // Nobody has called it: it is not an event. What is not known is 0.
                (_, Kind::Addresses | Kind::Signed) => bytes.extend([0; 4]),
                (_, Kind::Unsigned(size)) => bytes.extend(vec![0; usize::from(size)]),
            }
        }
        bytes
    }
}

fn class(kind: Kind) -> FieldClass {
    let address = Integer { base: Base::Sixteen, ..Integer::unsigned(8) };
    match kind {
        Kind::Signed => FieldClass::Integer(Integer::signed(4)),
        Kind::Unsigned(bytes) => FieldClass::Integer(Integer::unsigned(bytes)),
        Kind::Name => FieldClass::Array(Array { element: Element::Text, count: 16 }),
        Kind::Addresses => {
            FieldClass::Sequence(Sequence { element: Element::Integer(address), length_bytes: 4 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_those_named_each_once_in_the_order_of_a_record() {
        let contexts = Contexts::parse(&["uid, tid", "callstack_user,pid,uid"]).unwrap();
        let names: Vec<String> = contexts.fields().map(|field| field.name).collect();
        assert_eq!(names, ["pid", "uid", "callstack_user"]);
        assert_eq!(Contexts::parse::<&str>(&[]).unwrap(), Contexts::default());
        let error = Contexts::parse(&["pid,vpid"]).unwrap_err().to_string();
        assert!(error.starts_with("kernel context 'vpid'") && error.contains("ppid"), "{error}");
    }

    #[test]
    fn bits_are_in_the_order_of_a_record_and_all_of_this_process_has_their_sizes() {
        assert!(ALL.iter().enumerate().all(|(at, (.., bit))| at == *bit as usize));
        let names: Vec<&str> = Contexts::all().map(|(name, _)| name).collect();
        // Four bytes each, but for the name and the group; stacks without an address.
        assert_eq!(
            Contexts::parse(&names).unwrap().of_this_process().len(),
            5 * 4 + 16 + 8 + 2 * 4
        );
        let pid = Contexts::parse(&["pid"]).unwrap().of_this_process();
        assert_eq!(pid, std::process::id().to_ne_bytes());
    }
}
