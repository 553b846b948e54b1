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
const ALL: [(&str, Kind, &str, u32); 20] = [
    ("pid", Kind::Signed, "process", kernel::CONTEXT_PID),
    ("ppid", Kind::Signed, "its parent", kernel::CONTEXT_PPID),
    ("procname", Kind::Name, "name of the thread", kernel::CONTEXT_PROCNAME),
    ("uid", Kind::Unsigned(4), "real user", kernel::CONTEXT_UID),
    ("gid", Kind::Unsigned(4), "real group", kernel::CONTEXT_GID),
    ("prio", Kind::Signed, "priority; 20 is nice 0", kernel::CONTEXT_PRIO),
    ("cgroup_id", Kind::Unsigned(8), "number of its control group", kernel::CONTEXT_CGROUP),
    ("vpid", Kind::Signed, "process, in its own PID namespace", kernel::CONTEXT_VPID),
    ("vtid", Kind::Signed, "thread, likewise", kernel::CONTEXT_VTID),
    ("vppid", Kind::Signed, "parent, likewise; 0: it is outside of it", kernel::CONTEXT_VPPID),
    (
        "cgroup_ns",
        Kind::Unsigned(4),
        "number of the control group namespace",
        kernel::CONTEXT_CGROUP_NS,
    ),
    ("ipc_ns", Kind::Unsigned(4), "of the IPC namespace", kernel::CONTEXT_IPC_NS),
    ("mnt_ns", Kind::Unsigned(4), "of the mount namespace", kernel::CONTEXT_MNT_NS),
    ("net_ns", Kind::Unsigned(4), "of the network namespace", kernel::CONTEXT_NET_NS),
    ("pid_ns", Kind::Unsigned(4), "of the PID namespace", kernel::CONTEXT_PID_NS),
    ("time_ns", Kind::Unsigned(4), "of the time namespace", kernel::CONTEXT_TIME_NS),
    ("user_ns", Kind::Unsigned(4), "of the user namespace", kernel::CONTEXT_USER_NS),
    ("uts_ns", Kind::Unsigned(4), "of the UTS namespace", kernel::CONTEXT_UTS_NS),
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
#[error("kernel context '{name}': {}", hint(.name))]
pub struct ContextError {
    /// As it was written.
    name: String,
}

fn hint(name: &str) -> String {
    if name.starts_with("perf:") {
        return "counters are not recorded with the kernel's events. `perf stat -a` counts them; `--sample 99` shows \
                where CPUs spend their time"
            .to_owned();
    }
    let names = ALL.map(|(name, ..)| name).join(", ");
    format!("there is none. There are tid, which each record has, {names}")
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

    /// These and those.
    #[must_use]
    pub fn with(self, others: Contexts) -> Contexts {
        Contexts(self.0 | others.0)
    }

    /// These but for those.
    pub(crate) fn without(self, others: Contexts) -> Contexts {
        Contexts(self.0 & !others.0)
    }

    /// Those of a session, of which programs have these bits.
    pub(crate) fn of_bits(bits: u32) -> Contexts {
        Contexts(bits & ((1 << ALL.len()) - 1))
    }

    /// Those that records have behind the session's, of which programs have these bits.
    pub(crate) fn own_of_bits(bits: u64) -> Contexts {
        Contexts::of_bits((bits >> kernel::CONTEXT_OWN) as u32)
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

    /// The same of a record that has `own` besides, behind these.
    pub(crate) fn bits_with(self, own: Contexts) -> u64 {
        u64::from(self.0) | u64::from(own.without(self).0) << kernel::CONTEXT_OWN
    }

    fn chosen(self) -> impl Iterator<Item = (&'static str, Kind)> {
        let is_chosen = move |&(.., bit): &(_, _, _, u32)| self.0 >> bit & 1 != 0;
        ALL.into_iter().filter(is_chosen).map(|(name, kind, ..)| (name, kind))
    }

    /// Of what one event's records have alone: its context, and what begins its payload. The stacks are there, since
    /// babeltrace2 2.0 ends itself where a sequence is in an event's own context; they come last anyway.
    pub(crate) fn own_fields(self) -> (Vec<Field>, Vec<Field>) {
        let stacks = Contexts(self.0 & STACKS);
        (self.without(stacks).fields().collect(), stacks.fields().collect())
    }

    /// Behind the thread in the context of each record.
    pub(crate) fn fields(self) -> impl Iterator<Item = Field> {
        self.chosen().map(|(name, kind)| Field::new(name, class(kind)))
    }

    /// What this process' own records have there: those of what runs already. `number`: what the kernel calls a process.
    #[must_use]
    pub fn of_this_process(self, number: &dyn Fn(u32) -> u32) -> Vec<u8> {
        let (pid, ppid) = (std::process::id(), std::os::unix::process::parent_id());
        let bytes_of = |here| number(here).to_ne_bytes();
        let namespace = |name| rustix::fs::stat(format!("/proc/thread-self/ns/{name}"));
        let mut bytes = Vec::new();
        for (name, kind) in self.chosen() {
            match (name, kind) {
                ("pid", _) => bytes.extend(bytes_of(pid)),
                ("ppid", _) => bytes.extend(bytes_of(ppid)),
                // Its first thread, as in `tid`.
                ("vpid" | "vtid", _) => bytes.extend(pid.to_ne_bytes()),
                ("vppid", _) => bytes.extend(ppid.to_ne_bytes()),
                ("uid", _) => bytes.extend(rustix::process::getuid().as_raw().to_ne_bytes()),
                ("gid", _) => bytes.extend(rustix::process::getgid().as_raw().to_ne_bytes()),
                (_, Kind::Name) => {
                    let mut name = std::fs::read("/proc/thread-self/comm").unwrap_or_default();
                    name.truncate(15);
                    name.retain(|byte| *byte != b'\n');
                    name.resize(16, 0);
                    bytes.extend(name);
                }
                (name, Kind::Unsigned(4)) => {
                    let kind = name.strip_suffix("_ns").unwrap_or(name);
                    let number = namespace(kind).map_or(0, |found| found.st_ino as u32);
                    bytes.extend(number.to_ne_bytes());
                }
                // Nobody has called it: it is not an event. What is not known is 0.
                (_, Kind::Addresses | Kind::Signed) => bytes.extend([0; 4]),
                (_, Kind::Unsigned(size)) => bytes.extend(vec![0; usize::from(size)]),
            }
        }
        bytes
    }

    /// What records of another process have there of which the kernel has told no more than the number: all else is 0, or
    /// empty. Nobody's numbers stand for its.
    pub(crate) fn of_process(self, pid: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, kind) in self.chosen() {
            match (name, kind) {
                ("pid", _) => bytes.extend(pid.to_ne_bytes()),
                // Of a stack, how many addresses.
                (_, Kind::Signed | Kind::Addresses) => bytes.extend([0; 4]),
                (_, Kind::Unsigned(size)) => bytes.resize(bytes.len() + usize::from(size), 0),
                (_, Kind::Name) => bytes.resize(bytes.len() + 16, 0),
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
        let error = Contexts::parse(&["pid,vipd"]).unwrap_err().to_string();
        assert!(error.starts_with("kernel context 'vipd'") && error.contains("ppid"), "{error}");
        let error = Contexts::parse(&["perf:cpu:cycles"]).unwrap_err().to_string();
        assert!(error.contains("`perf stat -a`") && !error.contains("ppid"), "{error}");
    }

    #[test]
    fn own_contexts_are_behind_those_of_all_and_none_is_there_twice() {
        let all = Contexts::parse(&["pid", "callstack_user"]).unwrap();
        let own = Contexts::parse(&["pid", "uid", "callstack_kernel"]).unwrap();
        let bits = all.bits_with(own);
        let (user_stack, stack) = (kernel::CONTEXT_USER_STACK, kernel::CONTEXT_STACK);
        assert_eq!(bits as u32, 1 | 1 << user_stack);
        assert_eq!(bits >> kernel::CONTEXT_OWN, 1 << 3 | 1 << stack);
        assert_eq!(Contexts::own_of_bits(all.bits_with(own)), own.without(all));
        let (context, begin) = own.without(all).own_fields();
        let names = |fields: Vec<Field>| fields.into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(
            (names(context), names(begin)),
            (vec!["uid".into()], vec!["callstack_kernel".into()])
        );
    }

    #[test]
    fn bits_are_in_the_order_of_a_record_and_all_of_this_process_has_their_sizes() {
        assert!(ALL.iter().enumerate().all(|(at, (.., bit))| at == *bit as usize));
        let names: Vec<&str> = Contexts::all().map(|(name, _)| name).collect();
        // Four bytes each, but for the name and the group; stacks without an address.
        assert_eq!(
            Contexts::parse(&names).unwrap().of_this_process(&|pid| pid).len(),
            16 * 4 + 16 + 8 + 2 * 4
        );
        let pid = Contexts::parse(&["pid"]).unwrap().of_this_process(&|pid| pid);
        assert_eq!(pid, std::process::id().to_ne_bytes());
        // Of others the number is known, and nothing else.
        let others = Contexts::parse(&names).unwrap().of_process(77);
        assert_eq!(others.len(), 16 * 4 + 16 + 8 + 2 * 4);
        assert_eq!(
            (&others[..4], others.iter().filter(|byte| **byte != 0).count()),
            (&77u32.to_ne_bytes()[..], 1)
        );
    }
}
