//! What is to be done with each kind of event records: found once, by the names of its fields.

use std::collections::HashSet;
use std::io::Write;

use strata_ctf::read::{EventClass, FieldKind, FieldRef, Scope};
use strata_filter::Pattern;
use strata_model::schema::{FieldClass, Schema, Structure};
use strata_model::{EnvValue, LEVEL_NAMES};

use super::encode;
use super::kernel::Kernel;
use super::pairs::{kernel_name, PairRole, Pairs};
use super::proto::{track_event, EventType};
use super::tracks::Machine;
use super::writer::Writer;
use crate::render::line::{Lines, Piece};

/// Members that are looked at for counters, of one kind of records.
const MEMBERS_MAX: usize = 4096;
/// Structures in each other that are looked at for counters.
const DEPTH_MAX: usize = 32;

/// A numeric field that the user wants to see as a counter: `EVENT.FIELD`, or `FIELD` of any event, with
/// `*` for any text and `?` for one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterRule {
    text: String,
    pattern: Pattern,
}

impl std::str::FromStr for CounterRule {
    type Err = CounterRuleError;

    fn from_str(text: &str) -> Result<CounterRule, CounterRuleError> {
        if text.is_empty() {
            return Err(CounterRuleError);
        }
        Ok(CounterRule { text: text.to_owned(), pattern: Pattern::glob(text) })
    }
}

impl CounterRule {
    /// `name` is the event's; `path` the field's, `a.b` in a structure.
    fn matches(&self, name: &str, path: &str) -> bool {
        let short = name.rsplit(':').next().unwrap_or(name);
        self.pattern.matches(path.as_bytes())
            || self.pattern.matches(format!("{name}.{path}").as_bytes())
            || self.pattern.matches(format!("{short}.{path}").as_bytes())
    }
}

impl std::fmt::Display for CounterRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Text that is no counter.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("'' is no counter; write EVENT.FIELD or FIELD, as in 'myapp:queue.length'")]
pub struct CounterRuleError;

/// What a trace says of all its events.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub machine: Machine,
    pub kernel: bool,
    /// Its priorities are LTTng's.
    pub lttng: bool,
    pub pid: Option<i64>,
    /// Its id in its own PID namespace, if that is another one than that of `pid`.
    pub inner_pid: Option<i64>,
    pub procname: Option<String>,
}

impl Origin {
    pub(super) fn new(schema: &Schema, machine: Machine) -> Origin {
        let text = |name| match schema.environment(name) {
            Some(EnvValue::Text(text)) if !text.is_empty() => Some(text.as_str()),
            _ => None,
        };
        let number = |name| match schema.environment(name) {
            Some(&EnvValue::Integer(number)) => Some(number),
            _ => None,
        };
        let vpid = number("vpid");
        // Strata's own: by this one the kernel's events know it.
        let pid = vpid.and_then(|_| number("pid")).or(vpid);
        // Not every tracer says so: perf has no environment.
        let mut events = schema.streams.iter().flat_map(|stream| &stream.events);
        let kernel = text("domain") == Some("kernel")
            || pid.is_none() && events.any(|event| kernel_name(&event.name) == "sched_switch");
        Origin {
            machine,
            kernel,
            // Strata may say that it is LTTng, but has the kernel's priorities.
            lttng: text("tracer_name") == Some("lttng-modules") && text("strata_version").is_none(),
            pid,
            inner_pid: vpid.filter(|_| vpid != pid),
            procname: text("procname").map(str::to_owned),
        }
    }
}

impl Origin {
    /// The id by which the kernel's events know the thread that its process knows by `tid`, or that id if it is one
    /// of another PID namespace.
    pub(super) fn thread(&self, tid: Option<i64>) -> (Option<i64>, Option<i64>) {
        match self.inner_pid {
            None => (tid, None),
            // The first thread has its process' id, in each of them.
            Some(_) if self.inner_pid == tid => (self.pid, None),
            Some(_) => (None, tid),
        }
    }
}

/// What tells an event's thread.
#[derive(Debug, Default)]
pub(super) struct Who {
    pub tid: Option<FieldRef>,
    pub pid: Option<FieldRef>,
    pub procname: Option<FieldRef>,
    pub cpu: Option<FieldRef>,
}

impl Who {
    fn new(class: &EventClass) -> Who {
        let context = |names: &[&str]| {
            let scopes = [Scope::SpecificContext, Scope::CommonContext, Scope::EventHeader];
            // The names in turn: a machine's own id before that within a container.
            names
                .iter()
                .find_map(|name| scopes.iter().find_map(|&scope| class.find_in(scope, name)))
        };
        // perf and trace-cmd have them among the fields.
        let field =
            |names: &[&str]| names.iter().find_map(|name| class.find_in(Scope::Payload, name));
        Who {
            tid: context(&["tid", "vtid", "perf_tid"])
                .or_else(|| field(&["perf_tid", "common_pid"])),
            pid: context(&["pid", "vpid", "perf_pid"]).or_else(|| field(&["perf_pid"])),
            procname: context(&["procname"]),
            cpu: context(&["cpu_id"]),
        }
    }
}

/// What an event says of threads and processes.
#[derive(Debug)]
pub(super) enum News {
    /// A process or thread that was there when recording began.
    State { tid: FieldRef, pid: FieldRef, ppid: Option<FieldRef>, name: Option<FieldRef> },
    /// A new one.
    Fork {
        parent_tid: Option<FieldRef>,
        parent_pid: Option<FieldRef>,
        tid: FieldRef,
        pid: Option<FieldRef>,
        name: Option<FieldRef>,
    },
    /// It ends.
    Exit { tid: FieldRef },
    /// A thread of the process has a new name.
    Name { tid: FieldRef, name: FieldRef },
}

impl News {
    fn new(class: &EventClass) -> Option<News> {
        let find = |name: &str| class.find_in(Scope::Payload, name);
        match kernel_name(class.name()) {
            "lttng_statedump_process_state" => Some(News::State {
                tid: find("tid")?,
                pid: find("pid")?,
                ppid: find("ppid"),
                name: find("name"),
            }),
            // The kernel's own has a thread's id in what it calls pid, and says nothing of its process.
            "sched_process_fork" => Some(match find("child_tid") {
                Some(tid) => News::Fork {
                    parent_tid: find("parent_tid"),
                    parent_pid: find("parent_pid"),
                    tid,
                    pid: find("child_pid"),
                    name: find("child_comm"),
                },
                None => News::Fork {
                    parent_tid: None,
                    parent_pid: None,
                    tid: find("child_pid")?,
                    pid: None,
                    name: find("child_comm"),
                },
            }),
            "strata:thread_name" => Some(News::Name { tid: find("tid")?, name: find("name")? }),
            "sched_process_exit" => Some(News::Exit { tid: find("tid").or_else(|| find("pid"))? }),
            _ => None,
        }
    }
}

/// A field that is shown as a counter.
#[derive(Debug)]
pub(super) struct Counter {
    pub field: FieldRef,
    /// `event.field`.
    pub name: String,
}

/// What an end has to know of its begin, and a begin of itself.
#[derive(Debug)]
pub(super) struct Slice {
    pub role: PairRole,
    /// Of a begin: its type and its name.
    pub begin: Piece,
    pub key: Option<FieldRef>,
    /// Numbers of the names of fields that the begin has too, in order.
    pub shared: Vec<u64>,
}

/// What is to be done with a kind of event records.
#[derive(Debug)]
pub(super) struct Plan {
    /// Of an instant: its type and its name.
    pub instant: Piece,
    pub categories: Piece,
    pub who: Who,
    pub news: Option<News>,
    pub kernel: Option<Kernel>,
    pub slice: Option<Slice>,
    pub counters: Vec<Counter>,
}

/// What plans are made of.
#[derive(Debug)]
pub(super) struct Plans<'p> {
    pub pairs: &'p Pairs,
    pub counters: &'p [CounterRule],
}

impl Plans<'_> {
    pub(super) fn plan<W: Write>(
        &self,
        class: &EventClass,
        origin: &Origin,
        schema: &Schema,
        writer: &mut Writer<W>,
    ) -> Plan {
        let kernel = Kernel::new(class, origin.lttng);
        Plan {
            instant: of_name(EventType::Instant, writer.name(class.name())),
            categories: self.categories(class, origin, writer),
            who: Who::new(class),
            news: News::new(class),
            slice: self.slice(class, schema, writer),
            kernel,
            counters: self.counters(class),
        }
    }

    /// The provider and the level, so that readers can choose by them.
    fn categories<W: Write>(
        &self,
        class: &EventClass,
        origin: &Origin,
        writer: &mut Writer<W>,
    ) -> Piece {
        let provider = match class.name().split_once(':') {
            Some((provider, _)) => provider,
            None if self.pairs.role(class.name()).is_some_and(|role| role.syscall) => "syscall",
            None if origin.kernel => "kernel",
            None => "",
        };
        let mut categories = Lines::default();
        let mut add = |name: &str| {
            encode::number(&mut categories, track_event::CATEGORY, writer.category(name));
        };
        if !provider.is_empty() {
            add(provider);
        }
        if let Some(level) = class.loglevel() {
            add(&level_name(level));
        }
        Piece::new(categories.as_bytes())
    }

    fn slice<W: Write>(
        &self,
        class: &EventClass,
        schema: &Schema,
        writer: &mut Writer<W>,
    ) -> Option<Slice> {
        let role = self.pairs.role(class.name())?.clone();
        let mut shared = Vec::new();
        if !role.begins {
            let begins: HashSet<&str> = self.pairs.begins_of(role.pair).collect();
            let events = schema.streams.iter().flat_map(|stream| &stream.events);
            let begins = events.filter(|event| begins.contains(event.name.as_str()));
            let members = begins.filter_map(|event| event.payload.as_ref());
            for member in members.flat_map(|payload| &payload.members) {
                shared.push(writer.annotation(&member.name));
            }
            shared.sort_unstable();
            shared.dedup();
        }
        let key = role.key.as_deref().and_then(|key| class.find(key));
        let begin = of_name(EventType::SliceBegin, writer.name(&role.name));
        Some(Slice { begin, role, key, shared })
    }

    fn counters(&self, class: &EventClass) -> Vec<Counter> {
        if self.counters.is_empty() {
            return Vec::new();
        }
        let event = class.schema();
        let mut found = Vec::new();
        let scopes = [
            (Scope::Payload, event.payload.as_ref()),
            (Scope::SpecificContext, event.specific_context.as_ref()),
        ];
        for (scope, structure) in scopes {
            let mut paths = Vec::new();
            numbers(structure, "", 0, &mut paths);
            for path in paths {
                if !self.counters.iter().any(|rule| rule.matches(class.name(), &path)) {
                    continue;
                }
                let Some(field) = class.find_in(scope, &path) else { continue };
                if matches!(field.info().kind, FieldKind::Integer | FieldKind::Real) {
                    found.push(Counter { field, name: format!("{}.{path}", class.name()) });
                }
            }
        }
        found
    }
}

/// The type of an event on a track, and the number of its name.
fn of_name(kind: EventType, name: u64) -> Piece {
    let mut fields = Lines::default();
    encode::number(&mut fields, track_event::TYPE, kind as u64);
    encode::number(&mut fields, track_event::NAME, name);
    Piece::new(fields.as_bytes())
}

/// Rules that select no field in any of the traces.
pub(super) fn counters_without_field<'r>(
    schemas: &[&Schema],
    rules: &'r [CounterRule],
) -> Vec<&'r CounterRule> {
    let mut idle: Vec<&CounterRule> = rules.iter().collect();
    let streams = schemas.iter().flat_map(|schema| &schema.streams);
    for event in streams.flat_map(|stream| &stream.events) {
        if idle.is_empty() {
            break;
        }
        let mut paths = Vec::new();
        numbers(event.payload.as_ref(), "", 0, &mut paths);
        numbers(event.specific_context.as_ref(), "", 0, &mut paths);
        idle.retain(|rule| !paths.iter().any(|path| rule.matches(&event.name, path)));
    }
    idle
}

/// The paths of all numbers in a structure, and in those in it.
fn numbers(structure: Option<&Structure>, prefix: &str, depth: usize, paths: &mut Vec<String>) {
    let members = structure.map_or(&[][..], |structure| &structure.members);
    for member in members {
        if paths.len() >= MEMBERS_MAX || depth >= DEPTH_MAX {
            return;
        }
        let path = format!("{prefix}{}", member.name);
        match &member.class {
            FieldClass::Integer(_) | FieldClass::Real(_) => paths.push(path),
            FieldClass::Structure(inner) => {
                numbers(Some(inner), &format!("{path}."), depth + 1, paths);
            }
            _ => {}
        }
    }
}

/// LTTng's names of its log levels, which are those of syslog and eight kinds of debugging.
fn level_name(level: i64) -> String {
    let known = usize::try_from(level).ok().and_then(|level| LEVEL_NAMES.get(level));
    known.map_or_else(|| format!("level {level}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_of_another_pid_namespace_is_nobody_elses() {
        let origin = |environment: &[(&str, i64)]| {
            let entry = |&(name, number): &(&str, i64)| (name.to_owned(), number.into());
            let environment = environment.iter().map(entry).collect();
            Origin::new(&Schema { environment, ..Schema::default() }, 0)
        };
        let here = origin(&[("vpid", 40), ("pid", 40)]);
        assert_eq!((here.pid, here.thread(Some(41))), (Some(40), (Some(41), None)));
        let elsewhere = origin(&[("vpid", 7), ("pid", 40)]);
        assert_eq!((elsewhere.pid, elsewhere.thread(Some(7))), (Some(40), (Some(40), None)));
        assert_eq!(elsewhere.thread(Some(8)), (None, Some(8)));
        assert_eq!(elsewhere.thread(None), (None, None));
        // LTTng's.
        assert_eq!(origin(&[("vpid", 7)]).thread(Some(8)), (Some(8), None));
    }

    #[test]
    fn counter_rule_names_a_field_of_one_event_or_of_any() {
        for (rule, event, path, wanted) in [
            ("len", "a:b", "len", true),
            ("a:b.len", "a:b", "len", true),
            ("b.len", "a:b", "len", true),
            ("a:*.len", "a:b", "len", true),
            ("*", "a:b", "x.y", true),
            ("x.y", "a:b", "x.y", true),
            ("c.len", "a:b", "len", false),
            ("le", "a:b", "len", false),
        ] {
            let found = rule.parse::<CounterRule>().unwrap();
            assert_eq!(found.matches(event, path), wanted, "{rule}");
        }
        let error = "".parse::<CounterRule>().unwrap_err();
        assert!(error.to_string().contains("EVENT.FIELD"));
    }

    #[test]
    fn origin_of_a_process_trace_has_its_id_and_name() {
        let schema = Schema {
            environment: vec![
                ("domain".into(), "ust".into()),
                ("vpid".into(), 42.into()),
                ("procname".into(), "demo".into()),
            ],
            ..Schema::default()
        };
        let origin = Origin::new(&schema, 3);
        assert_eq!((origin.machine, origin.pid), (3, Some(42)));
        assert_eq!(origin.procname.as_deref(), Some("demo"));
        assert!(!origin.kernel);
    }

    #[test]
    fn origin_of_a_kernel_trace_has_lttngs_priorities_only_if_lttng_recorded_it() {
        let origin = |tracer: &str, strata: bool| {
            let mut environment =
                vec![("domain".into(), "kernel".into()), ("tracer_name".into(), tracer.into())];
            if strata {
                environment.push(("strata_version".into(), "0.1.0".into()));
            }
            Origin::new(&Schema { environment, ..Schema::default() }, 0)
        };
        assert!(origin("lttng-modules", false).lttng);
        assert!(!origin("lttng-modules", true).lttng);
        assert!(!origin("strata", true).lttng);
        assert!(origin("lttng-modules", true).kernel && origin("strata", true).kernel);
    }

    #[test]
    fn level_without_a_name_is_its_number() {
        assert_eq!(level_name(6), "info");
        assert_eq!(level_name(-1), "level -1");
        assert_eq!(level_name(99), "level 99");
    }
}
