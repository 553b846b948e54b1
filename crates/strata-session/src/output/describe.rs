//! Describes a process in the metadata of its trace.

use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rustix::time::{clock_gettime, ClockId};
use strata_collect::Kinds;
use strata_ctf::environment::{
    kernel_environment, recorded, user_environment, KernelHost, ProcessKnowledge, UserProcess,
    Whole,
};
use strata_ctf::metadata::{self, Version};
use strata_kernel::Numbers;
use strata_model::{
    ByteOrder, ClockClass, EnvValue, EventClass, Field, FieldClass, Integer, RecordHeader,
    StreamClass, Trace, TraceError, Uuid,
};
use strata_user::{Application, RecordFormat};

use strata_model::LossMode;

use crate::options::Options;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const SECOND: i64 = 1_000_000_000;

/// The properties that all traces of a session share, so that they merge on one timeline.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    hostname: Vec<u8>,
    clock: ClockClass,
    overwrites: bool,
    version: Version,
    /// The process that records a command; `None` if no command is recorded.
    recorder: Option<Recorder>,
    /// Conversion to the kernel's process ids, where these differ from those that this program sees.
    numbers: Arc<OnceLock<Arc<Numbers>>>,
}

/// The process that records a command.
#[derive(Debug, Clone, Copy)]
struct Recorder {
    pid: u32,
    /// True if, of applications, only the command and its descendants are recorded.
    /// `is_alone_in_kernel` is the same for the kernel's events.
    is_alone: bool,
    is_alone_in_kernel: bool,
}

impl Machine {
    /// Creates the properties for this machine, a loss mode, and a CTF version.
    pub(crate) fn new(mode: LossMode, version: Version) -> Machine {
        let hostname = rustix::system::uname().nodename().to_bytes().to_vec();
        // Without /proc/sys (in a container) the clock has no identity, and readers merge it with other clocks without
        // one.
        let boot = std::fs::read_to_string(BOOT_ID).ok().and_then(|text| text.trim().parse().ok());
        let clock = ClockClass::monotonic(boot, wall_offset());
        Machine {
            hostname,
            clock,
            overwrites: mode == LossMode::Overwrite,
            version,
            recorder: None,
            numbers: Arc::default(),
        }
    }

    /// Sets the conversion to the kernel's process ids, because they differ from those that this program sees.
    pub(crate) fn set_numbers(&self, numbers: &Arc<Numbers>) {
        // Another channel may have set the same conversion before.
        let _ = self.numbers.set(Arc::clone(numbers));
    }

    /// Returns the process id in the kernel's events, or `pid` if they are the same or not recorded.
    fn number_of(&self, pid: u32) -> u32 {
        self.numbers.get().and_then(|numbers| numbers.of(pid)).unwrap_or(pid)
    }

    /// Returns the name of the machine.
    pub(crate) fn hostname(&self) -> String {
        String::from_utf8_lossy(&self.hostname).into_owned()
    }

    /// Returns the clock of the session's traces.
    pub(crate) fn clock(&self) -> &ClockClass {
        &self.clock
    }

    /// Sets the properties that depend on the options of this recording.
    pub(crate) fn recording(self, options: &Options) -> Machine {
        let is_alone = !options.everyone;
        let all = options.kernel.as_ref().is_some_and(|kernel| kernel.all_processes);
        let pid = std::process::id();
        let recorder = Recorder { pid, is_alone, is_alone_in_kernel: is_alone && !all };
        Machine { recorder: Some(recorder).filter(|_| !options.command.is_empty()), ..self }
    }

    /// Returns the same properties for a channel with the loss mode `mode`.
    pub(crate) fn of_mode(&self, mode: LossMode) -> Machine {
        Machine { overwrites: mode == LossMode::Overwrite, ..self.clone() }
    }

    /// Returns the metadata of a trace whose classes of event records are all known.
    pub(crate) fn describe(&self, trace: &Trace) -> String {
        metadata::write_as(self.version, trace)
    }

    /// Returns the metadata of a trace with one stream class. The classes with the ids `first` are described from the
    /// beginning, others when a record of them first occurs. `since` returns classes that were added later, see
    /// [`Kinds::new`].
    ///
    /// # Errors
    /// The class is invalid.
    pub(crate) fn kinds(
        &self,
        mut trace: Trace,
        first: &Range<u32>,
        since: impl FnMut(usize) -> Vec<EventClass> + Send + 'static,
    ) -> Result<Kinds, TraceError> {
        let mut class =
            trace.streams.pop().unwrap_or_else(|| stream_class(of_kernel(), Vec::new()));
        let events = std::mem::take(&mut class.events);
        trace.streams.push(class.clone());
        let text = self.describe(&trace);
        let is_first = |at: &usize| first.contains(&events[*at].id);
        let first: Vec<usize> = (0..events.len()).filter(is_first).collect();
        class.events = events;
        let (version, order, id) = (self.version, trace.byte_order, class.id);
        let describe = move |text: &mut String, event: &EventClass| {
            // Appending to a string cannot fail.
            let _ = metadata::append_as(version, text, order, id, std::slice::from_ref(event));
        };
        let mut kinds = Kinds::new(text, class, describe, since)?;
        first.into_iter().for_each(|index| kinds.add(index));
        Ok(kinds)
    }

    /// Returns the metadata of the process's trace with these classes of event records, which are read one at a time
    /// to save memory.
    pub(crate) fn metadata(
        &self,
        process: &ProcessTrace<'_>,
        events: impl Iterator<Item = EventClass>,
    ) -> String {
        let trace = self.trace(process);
        let id = trace.streams.first().map_or(0, |stream| stream.id);
        let mut text = self.describe(&trace);
        for event in events {
            // Appending to a string cannot fail.
            let event = std::slice::from_ref(&event);
            let _ = metadata::append_as(self.version, &mut text, trace.byte_order, id, event);
        }
        text
    }

    /// Returns a description of the process's trace, without its classes of event records.
    fn trace(&self, process: &ProcessTrace<'_>) -> Trace {
        let user = UserProcess {
            hostname: &self.hostname,
            vpid: process.vpid,
            procname: process.name.as_bytes(),
            known: ProcessKnowledge {
                pid: process.known.pid.map(|pid| self.number_of(pid)),
                ..process.known
            },
            created: process.created,
            overwrites: self.overwrites,
        };
        Trace {
            uuid: process.uuid,
            byte_order: ByteOrder::NATIVE,
            environment: self.recorded(user_environment(&user), |by| by.is_alone),
            clock: self.clock.clone(),
            streams: std::iter::once(stream_class(process.format, Vec::new()))
                .chain(process.besides.iter().cloned())
                .collect(),
        }
    }

    /// Adds the recorder to the environment of a trace.
    fn recorded(
        &self,
        mut environment: Vec<(String, EnvValue)>,
        is_alone: impl Fn(&Recorder) -> bool,
    ) -> Vec<(String, EnvValue)> {
        environment.extend(
            self.recorder.iter().flat_map(|by| recorded(self.number_of(by.pid), is_alone(by))),
        );
        environment
    }

    /// Returns a description of the kernel's trace.
    pub(crate) fn kernel_trace(
        &self,
        uuid: Uuid,
        created: &str,
        as_lttng: bool,
        whole: Whole,
        class: StreamClass,
    ) -> Trace {
        let system = rustix::system::uname();
        let host = KernelHost {
            hostname: &self.hostname,
            release: system.release().to_bytes(),
            version: system.version().to_bytes(),
            machine: system.machine().to_bytes(),
            created,
            overwrites: self.overwrites,
            as_lttng,
            whole,
        };
        Trace {
            uuid,
            byte_order: ByteOrder::NATIVE,
            environment: self.recorded(kernel_environment(&host), |by| by.is_alone_in_kernel),
            clock: self.clock.clone(),
            streams: vec![as_analyses_expect(class, as_lttng)],
        }
    }
}

fn as_analyses_expect(mut class: StreamClass, as_lttng: bool) -> StreamClass {
    if as_lttng {
        as_numbers(&mut class.events);
    }
    class
}

/// Converts enumerations to plain integers, because LTTng records plain integers, which analyses of its traces
/// expect: Trace Compass for `prev_state` and `vec`, lttng-analyses for the flags of `open` and the family of
/// `socket`. Readers based on babeltrace 1 would also warn about each value without a label, so about most sets of
/// flags.
pub(crate) fn as_numbers(events: &mut [EventClass]) {
    for field in events.iter_mut().flat_map(|event| &mut event.fields) {
        if let FieldClass::Enumeration(enumeration) = &field.class {
            field.class = FieldClass::Integer(enumeration.integer);
        }
    }
}

/// The properties of one process for the description of its trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessTrace<'a> {
    pub(crate) vpid: u32,
    pub(crate) name: &'a str,
    pub(crate) known: ProcessKnowledge<'a>,
    pub(crate) uuid: Uuid,
    pub(crate) created: &'a str,
    pub(crate) format: RecordFormat,
    /// Stream classes in addition to that of the channel.
    pub(crate) besides: &'a [StreamClass],
}

/// Returns the kernel's facts about a process, and the process's own claims where the kernel has no facts.
pub(crate) fn known(application: &Application) -> ProcessKnowledge<'_> {
    let identity = application.identity();
    let (said, said_name) = (application.inner_pid(), application.said_name());
    ProcessKnowledge {
        pid: Some(application.pid()),
        uid: identity.uid,
        gid: identity.gid,
        comm: identity.comm.as_deref().map(str::as_bytes),
        exe: identity.exe.as_deref().map(str::as_bytes),
        vpid_said: (said != application.vpid()).then_some(said),
        threads: &[],
        procname_said: (identity.confirms(said_name) != Some(true)).then_some(said_name.as_bytes()),
    }
}

/// Returns the format of the kernel's records, which have large headers and no `vtid` context.
pub(crate) fn of_kernel() -> RecordFormat {
    RecordFormat { large_header: true, ..RecordFormat::default() }
}

/// Returns the stream class of the channel in a process's trace.
pub(crate) fn stream_class(format: RecordFormat, events: Vec<EventClass>) -> StreamClass {
    let header = match format.large_header {
        true => RecordHeader::Large,
        false => RecordHeader::Compact,
    };
    // The name and the position are LTTng's, which other tools expect.
    let vtid = format.vtid.then(|| Field::new("vtid", FieldClass::Integer(Integer::signed(4))));
    let others = format.contexts.iter().map(strata_user::EventContext::field);
    let (name, context) = ("channel0".to_owned(), vtid.into_iter().chain(others).collect());
    StreamClass { id: 0, name, header, context, events }
}

/// Returns a random UUID for a trace.
pub(crate) fn new_uuid() -> io::Result<Uuid> {
    let mut bytes = [0; 16];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if got != bytes.len() {
        return Err(io::Error::other("too few random bytes"));
    }
    // Version 4 (random), variant 1.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Uuid(bytes))
}

/// Returns the difference between the wall clock and `CLOCK_MONOTONIC` \[ns\], from the pair of readings that
/// are closest in time.
fn wall_offset() -> i64 {
    let now = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec.saturating_mul(SECOND).saturating_add(time.tv_nsec)
    };
    let reading = |_| {
        let before = now(ClockId::Monotonic);
        let wall = now(ClockId::Realtime);
        let after = now(ClockId::Monotonic);
        (after.saturating_sub(before), wall.saturating_sub(before + (after - before) / 2))
    };
    let offset = (0..10).map(reading).min().map_or(0, |(_, offset)| offset);
    offset.saturating_add(strata_model::time_namespace_adds_ns().0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_model::{Enumeration, Flags, Label};

    #[test]
    fn trace_of_a_process_is_valid_and_says_where_it_comes_from() {
        let event = EventClass {
            id: 0,
            provider: "a".into(),
            name: "b".into(),
            loglevel: Some(6),
            emf_uri: None,
            context: Vec::new(),
            fields: Vec::new(),
        };
        let process = ProcessTrace {
            vpid: 7,
            name: "demo",
            known: ProcessKnowledge::default(),
            uuid: new_uuid().unwrap(),
            created: "20260131T235959+0100",
            format: RecordFormat { large_header: true, vtid: true, ..RecordFormat::default() },
            besides: &[],
        };
        let machine = Machine::new(LossMode::Overwrite, Version::One);
        let mut trace = machine.trace(&process);
        trace.validate().unwrap();
        assert_eq!(trace.streams[0].header, RecordHeader::Large);
        let text = machine.metadata(&process, [event.clone(), event.clone()].into_iter());
        trace.streams[0].events = vec![event.clone(), event];
        assert_eq!(text, strata_ctf::metadata::write(&trace));
        for part in
            ["procname", "demo", "20260131T235959+0100", "a:b", "hostname", "overwrite", "vtid"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn trace_of_the_kernel_merges_with_those_of_processes_and_tells_the_truth_unless_asked() {
        let machine = Machine::new(LossMode::Discard, Version::One);
        let trace = |as_lttng| {
            machine.kernel_trace(
                new_uuid().unwrap(),
                "",
                as_lttng,
                Whole::default(),
                stream_class(of_kernel(), Vec::new()),
            )
        };
        let tracer = |as_lttng| {
            let environment = trace(as_lttng).environment;
            environment.into_iter().find(|(name, _)| name == "tracer_name").map(|(_, value)| value)
        };
        trace(false).validate().unwrap();
        assert_eq!(tracer(false), Some("strata".into()));
        assert_eq!(tracer(true), Some("lttng-modules".into()));
        assert_eq!(trace(false).clock, machine.clock);
        assert!(machine.clock.absolute);
    }

    #[test]
    fn trace_of_the_kernel_as_lttng_has_numbers_where_analyses_want_them() {
        let field = |name: &str| {
            let labels = vec![Label { from: 1, to: 1, label: "S".into() }];
            let (integer, flags) = (Integer::signed(8), Some(Flags { low_bits: 0 }));
            let class = Enumeration { integer, name: String::new(), labels, flags };
            Field::new(name, FieldClass::Enumeration(class))
        };
        let event = EventClass {
            id: 0,
            provider: String::new(),
            name: "sched_switch".into(),
            loglevel: None,
            emf_uri: None,
            context: Vec::new(),
            fields: vec![field("prev_state"), field("flags")],
        };
        let machine = Machine::new(LossMode::Discard, Version::One);
        let fields = |as_lttng| {
            let class = stream_class(of_kernel(), vec![event.clone()]);
            let trace =
                machine.kernel_trace(new_uuid().unwrap(), "", as_lttng, Whole::default(), class);
            trace.streams[0].events[0].fields.clone()
        };
        let number = |name: &str| Field::new(name, FieldClass::Integer(Integer::signed(8)));
        assert_eq!(fields(true), [number("prev_state"), number("flags")]);
        assert_eq!(fields(false), event.fields);
    }

    #[test]
    fn kinds_are_none_but_those_of_the_dump_until_they_happen() {
        let event = |id, name: &str| EventClass {
            id,
            provider: String::new(),
            name: name.into(),
            loglevel: None,
            emf_uri: None,
            context: Vec::new(),
            fields: Vec::new(),
        };
        let machine = Machine::new(LossMode::Discard, Version::One);
        let class =
            stream_class(of_kernel(), vec![event(0, "one"), event(1, "two"), event(2, "dump")]);
        let mut trace =
            machine.kernel_trace(new_uuid().unwrap(), "", false, Whole::default(), class);
        let whole = machine.describe(&trace);
        let mut kinds = machine.kinds(trace.clone(), &(2..3), |_| Vec::new()).unwrap();
        trace.streams[0].events.drain(..2);
        assert_eq!(kinds.text(), machine.describe(&trace));
        kinds.add(0);
        kinds.add(1);
        assert_eq!(kinds.text().len(), whole.len());
    }

    #[test]
    fn wall_offset_leads_from_monotonic_to_now() {
        let now = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec * SECOND + time.tv_nsec
        };
        // Between two readings this thread may stand still.
        let before = now(ClockId::Monotonic);
        let found = now(ClockId::Realtime) - wall_offset();
        let after = now(ClockId::Monotonic);
        assert!((before - SECOND..after + SECOND).contains(&found), "{before} {found} {after}");
    }

    #[test]
    fn uuid_is_another_one_each_time() {
        assert_ne!(new_uuid().unwrap(), new_uuid().unwrap());
    }
}
