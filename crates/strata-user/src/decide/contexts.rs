//! The contexts that applications' records may have in addition to their thread: their names, and their fields in a
//! record.

use strata_abi::user;
use strata_filter::{distance_within, similar_or_longer};
use strata_model::{Array, Base, Element, Field, FieldClass, Integer, Sequence};

/// A context that records can have.
#[derive(Debug, PartialEq, Eq)]
pub struct EventContext {
    /// Name of the context, which is LTTng's.
    pub name: &'static str,
    /// Description of the context in a few words.
    pub about: &'static str,
    number: u32,
    kind: UserContextKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UserContextKind {
    Signed(u8),
    Unsigned(u8),
    Address,
    Name,
    Addresses,
}

const fn context(
    number: u32,
    name: &'static str,
    kind: UserContextKind,
    about: &'static str,
) -> EventContext {
    EventContext { name, about, number, kind }
}

/// All contexts, in the order in which they are shown.
pub const EVENT_CONTEXTS: &[EventContext] = &[
    context(
        user::CTX_VPID,
        "vpid",
        UserContextKind::Signed(4),
        "process, in its own PID namespace",
    ),
    context(
        user::CTX_PROCNAME,
        "procname",
        UserContextKind::Name,
        "name of the process, at that moment",
    ),
    context(user::CTX_THREADNAME, "threadname", UserContextKind::Name, "name of the thread"),
    context(
        user::CTX_PTHREAD_ID,
        "pthread_id",
        UserContextKind::Unsigned(8),
        "what pthread_self() says",
    ),
    context(
        user::CTX_CPU_ID,
        "cpu_id",
        UserContextKind::Signed(4),
        "CPU, when the contexts were asked for",
    ),
    context(user::CTX_IP, "ip", UserContextKind::Address, "address of the tracepoint's site"),
    context(
        user::CTX_CALLSTACK,
        "callstack_user",
        UserContextKind::Addresses,
        "site and callers, by frame pointers, up to 16",
    ),
    context(
        user::CTX_VUID,
        "vuid",
        UserContextKind::Unsigned(4),
        "real user, in its own user namespace",
    ),
    context(user::CTX_VUID + 1, "veuid", UserContextKind::Unsigned(4), "effective user"),
    context(user::CTX_VUID + 2, "vsuid", UserContextKind::Unsigned(4), "saved user"),
    context(user::CTX_VUID + 3, "vgid", UserContextKind::Unsigned(4), "real group"),
    context(user::CTX_VUID + 4, "vegid", UserContextKind::Unsigned(4), "effective group"),
    context(user::CTX_VSGID, "vsgid", UserContextKind::Unsigned(4), "saved group"),
    context(
        user::CTX_CGROUP_NS,
        "cgroup_ns",
        UserContextKind::Unsigned(8),
        "number of the thread's cgroup namespace",
    ),
    context(
        user::CTX_CGROUP_NS + 1,
        "ipc_ns",
        UserContextKind::Unsigned(8),
        "of its IPC namespace",
    ),
    context(
        user::CTX_CGROUP_NS + 2,
        "mnt_ns",
        UserContextKind::Unsigned(8),
        "of its mount namespace",
    ),
    context(
        user::CTX_CGROUP_NS + 3,
        "net_ns",
        UserContextKind::Unsigned(8),
        "of its network namespace",
    ),
    context(
        user::CTX_CGROUP_NS + 4,
        "pid_ns",
        UserContextKind::Unsigned(8),
        "of its PID namespace",
    ),
    context(
        user::CTX_CGROUP_NS + 5,
        "time_ns",
        UserContextKind::Unsigned(8),
        "of its time namespace",
    ),
    context(
        user::CTX_CGROUP_NS + 6,
        "user_ns",
        UserContextKind::Unsigned(8),
        "of its user namespace",
    ),
    context(user::CTX_UTS_NS, "uts_ns", UserContextKind::Unsigned(8), "of its UTS namespace"),
    context(
        user::CTX_CGROUP,
        "cgroup_id",
        UserContextKind::Unsigned(8),
        "number of the process' control group of version 2",
    ),
    context(
        user::CTX_PAGE_FAULT,
        "perf:thread:page-fault",
        UserContextKind::Unsigned(8),
        "page faults of the thread so far",
    ),
    context(
        user::CTX_MINOR,
        "perf:thread:minor-faults",
        UserContextKind::Unsigned(8),
        "those without input",
    ),
    context(
        user::CTX_MAJOR,
        "perf:thread:major-faults",
        UserContextKind::Unsigned(8),
        "those with input",
    ),
    context(
        user::CTX_SWITCHES,
        "perf:thread:context-switches",
        UserContextKind::Unsigned(8),
        "how often the thread was switched out so far",
    ),
    context(
        user::CTX_TASK_CLOCK,
        "perf:thread:task-clock",
        UserContextKind::Unsigned(8),
        "CPU time of the thread so far [ns]",
    ),
];

/// Name of the context that every record has unless it is left out. It may be requested, without effect.
const THREAD: &str = "vtid";

/// Contexts of LTTng that applications do not have, each with advice on where to find its value.
const ELSEWHERE: &[(&str, &str)] = &[
    ("pid", "a program knows `vpid`; the trace's environment has its `pid` outside"),
    ("tid", "a program knows `vtid`, which each record has; the kernel's events have `tid`"),
    ("ppid", "of the kernel's events only"),
    ("vppid", "of the kernel's events only"),
    ("hostname", "it is in the trace's environment"),
    ("callstack_kernel", "of the kernel's events only"),
    ("interruptible", "of the kernel's events only"),
    ("preemptible", "of the kernel's events only"),
    ("migratable", "of the kernel's events only"),
    ("need_reschedule", "of the kernel's events only"),
    ("nice", "of the kernel's events only"),
    ("prio", "of the kernel's events only"),
];

/// Prefix of the names of a thread's counters.
const COUNTERS_OF_THREAD: &str = "perf:thread:";

/// Other names that perf or LTTng have for a thread's counters, each with ours.
const SAME_COUNTERS: &[(&str, &str)] = &[
    ("faults", "perf:thread:page-fault"),
    ("page-faults", "perf:thread:page-fault"),
    ("cs", "perf:thread:context-switches"),
    ("cpu-clock", "perf:thread:task-clock"),
];

/// Why a context is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// No context has this name.
    #[error("context '{name}': {}", hint(.name))]
    Unknown {
        /// Name that was given.
        name: String,
    },
}

fn hint(name: &str) -> String {
    if let Some((_, advice)) = ELSEWHERE.iter().find(|(other, _)| *other == name) {
        return format!("not of applications' records: {advice}");
    }
    if name.starts_with("perf:") {
        return counter_hint(name);
    }
    match similar_or_longer(name, names(), true).first() {
        Some(near) => {
            format!("there is none. Do you mean '{near}'? `strata add-context -u --list` shows all")
        }
        None => "there is none. `strata add-context -u --list` shows all".to_owned(),
    }
}

/// Hint for a counter that does not exist.
fn counter_hint(name: &str) -> String {
    let counters = || names().filter(|name| name.starts_with(COUNTERS_OF_THREAD));
    let Some(counter) = name.strip_prefix(COUNTERS_OF_THREAD) else {
        return "a counter of a CPU is of all that runs there: the kernel's events have it (--kernel-context), and no \
                program's"
            .to_owned();
    };
    let same = SAME_COUNTERS.iter().find(|(other, _)| *other == counter);
    let near = || counters().find(|known| distance_within(name, known, 2).is_some());
    if let Some(known) = same.map(|(_, known)| *known).or_else(near) {
        return format!("there is none. Do you mean '{known}'?");
    }
    let known: Vec<&str> = counters().collect();
    format!(
        "it is read through a descriptor in each thread (perf_event_open), and Strata opens none in a program. \
         `perf stat -p PID` counts it; `--sample 99` shows where CPUs spend their time. Without a descriptor a \
         thread has {}",
        known.join(", ")
    )
}

fn names() -> impl Iterator<Item = &'static str> {
    EVENT_CONTEXTS.iter().map(|context| context.name)
}

impl EventContext {
    /// Returns whether filters in programs can test the context. Values that change at any moment, such as counters
    /// and the CPU, cannot be tested.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        let is_of_moment = matches!(
            self.number,
            user::CTX_PTHREAD_ID | user::CTX_CPU_ID | user::CTX_IP | user::CTX_CALLSTACK
        );
        let is_counter = (user::CTX_PAGE_FAULT..=user::CTX_TASK_CLOCK).contains(&self.number);
        !is_of_moment && !is_counter
    }

    /// Returns the field of an event record that holds the context.
    #[must_use]
    pub fn field(&self) -> Field {
        let address = Integer { base: Base::Sixteen, ..Integer::unsigned(8) };
        let class = match self.kind {
            UserContextKind::Signed(bytes) => FieldClass::Integer(Integer::signed(bytes)),
            UserContextKind::Unsigned(bytes) => FieldClass::Integer(Integer::unsigned(bytes)),
            UserContextKind::Address => FieldClass::Integer(address),
            UserContextKind::Name => {
                FieldClass::Array(Array { element: Element::Text, count: user::COMM_BYTES })
            }
            UserContextKind::Addresses => FieldClass::Sequence(Sequence {
                element: Element::Integer(address),
                length_bytes: 4,
            }),
        };
        // LTTng names the fields of counters like that.
        Field::new(self.name.replace([':', '-'], "_"), class)
    }
}

/// Contexts of a session, each once, in the order in which records have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventContexts {
    nr: u32,
    numbers: [u8; user::CONTEXTS_MAX as usize],
}

impl EventContexts {
    /// Finds contexts by names; each text may have several, separated by commas.
    ///
    /// # Errors
    /// A name is unknown.
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<EventContexts, ContextError> {
        let mut contexts = EventContexts::default();
        for name in texts.iter().flat_map(|text| text.as_ref().split(',')).map(str::trim) {
            let found = EVENT_CONTEXTS.iter().find(|context| context.name == name);
            match found {
                Some(context) => contexts.add(context),
                None if name == THREAD => (),
                None => return Err(ContextError::Unknown { name: name.to_owned() }),
            }
        }
        Ok(contexts)
    }

    /// Returns the contexts that a slot lists. The slot may contain anything: returns `None` if a context is invalid or
    /// listed twice, or if there are too many.
    pub(crate) fn of_slot(nr: u32, numbers: &[u8]) -> Option<EventContexts> {
        let mut contexts = EventContexts::default();
        for number in numbers.get(..usize::try_from(nr).ok()?)? {
            let known = |context: &&EventContext| context.number == u32::from(*number);
            contexts.add(EVENT_CONTEXTS.iter().find(known)?);
        }
        (contexts.nr == nr).then_some(contexts)
    }

    fn add(&mut self, context: &EventContext) {
        let Ok(number) = u8::try_from(context.number) else { return };
        if self.bytes().contains(&number) {
            return;
        }
        if let Some(place) = self.numbers.get_mut(self.nr as usize) {
            *place = number;
            self.nr += 1;
        }
    }

    /// Returns true if the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nr == 0
    }

    /// Returns true if the control group is among the contexts.
    pub(crate) fn has_group(&self) -> bool {
        self.bytes().iter().any(|number| u32::from(*number) == user::CTX_CGROUP)
    }

    /// Iterates over the contexts.
    pub fn iter(&self) -> impl Iterator<Item = &'static EventContext> + '_ {
        let of = |number: &u8| {
            EVENT_CONTEXTS.iter().find(|context| context.number == u32::from(*number))
        };
        self.bytes().iter().filter_map(of)
    }

    /// Encoding for the shared memory and a command's environment.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.numbers[..self.nr as usize]
    }

    /// Encoding of full length for the shared memory, with the unused bytes.
    pub(crate) fn all_bytes(&self) -> &[u8] {
        &self.numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_each_context_of_the_shared_memory_once_and_room_for_all() {
        let mut numbers: Vec<u32> = EVENT_CONTEXTS.iter().map(|context| context.number).collect();
        numbers.sort_unstable();
        let all: Vec<u32> = (user::CTX_VPID..=user::CTX_CGROUP).collect();
        assert_eq!(numbers, all);
        assert!(EVENT_CONTEXTS.len() <= user::CONTEXTS_MAX as usize);
        for context in EVENT_CONTEXTS {
            context.field().validate().unwrap();
        }
        let every: Vec<&str> = names().collect();
        assert_eq!(EventContexts::parse(&every).unwrap().iter().count(), every.len());
    }

    #[test]
    fn contexts_of_a_slot_are_those_that_were_written_or_none() {
        let written = EventContexts::parse(&["ip", "vpid", "procname"]).unwrap();
        assert_eq!(EventContexts::of_slot(3, written.all_bytes()), Some(written));
        assert_eq!(EventContexts::of_slot(0, written.all_bytes()), Some(EventContexts::default()));
        for (nr, numbers) in
            [(2, [1, 1, 0, 0]), (1, [0, 0, 0, 0]), (1, [255, 0, 0, 0]), (5, [1, 2, 3, 4])]
        {
            assert_eq!(EventContexts::of_slot(nr, &numbers), None, "{nr} of {numbers:?}");
        }
        assert_eq!(EventContexts::of_slot(u32::MAX, written.all_bytes()), None);
    }

    #[test]
    fn contexts_that_filters_name_in_programs_are_what_holds_for_a_moment() {
        let not: Vec<&str> = EVENT_CONTEXTS
            .iter()
            .filter(|context| !context.is_asked_for())
            .map(|context| context.name)
            .filter(|name| !name.starts_with("perf:"))
            .collect();
        assert_eq!(not, ["pthread_id", "cpu_id", "ip", "callstack_user"]);
        assert!(EVENT_CONTEXTS
            .iter()
            .all(|one| !one.name.starts_with("perf:") || !one.is_asked_for()));
        let group = EventContexts::parse(&["vpid,cgroup_id"]).unwrap();
        assert!(group.has_group() && !EventContexts::parse(&["cgroup_ns"]).unwrap().has_group());
    }

    #[test]
    fn contexts_are_in_their_order_each_once_and_the_thread_is_there_anyway() {
        let contexts = EventContexts::parse(&["ip,vpid", "vtid, ip", "perf:thread:page-fault"]);
        let contexts = contexts.unwrap();
        let fields: Vec<String> = contexts.iter().map(|context| context.field().name).collect();
        assert_eq!(fields, ["ip", "vpid", "perf_thread_page_fault"]);
        assert_eq!(contexts.bytes(), [12, 1, 22]);
        assert!(EventContexts::parse::<&str>(&[]).unwrap().is_empty());
        assert!(EventContexts::parse(&["vtid"]).unwrap().is_empty());
    }

    #[test]
    fn contexts_that_cannot_be_had_are_refused_with_what_to_do() {
        for (name, advice) in [
            ("vpdi", "'vpid'"),
            ("uid", "'vuid'"),
            ("cgroup", "'cgroup_id'"),
            ("pid", "environment"),
            ("nice", "kernel's events only"),
            ("perf:cpu:instructions", "of all that runs there"),
            ("perf:", "of all that runs there"),
            ("perf:thread:instructions", "perf_event_open"),
            ("perf:thread:instructions", "perf:thread:context-switches"),
            ("perf:thread:raw:r013c:x86unhalted", "`perf stat -p PID`"),
            ("perf:thread:cpu-migrations", "perf_event_open"),
            ("perf:thread:page-faults", "'perf:thread:page-fault'"),
            ("perf:thread:cs", "'perf:thread:context-switches'"),
            ("perf:thread:task-clok", "'perf:thread:task-clock'"),
            ("", "strata add-context -u --list"),
        ] {
            let error = EventContexts::parse(&["ip", name]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("context '{name}': ")), "{error}");
            assert!(error.contains(advice), "{error}");
        }
    }
}
