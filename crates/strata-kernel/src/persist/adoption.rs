//! The description by which a session's kernel part is adopted after its process was killed: its programs in the kernel
//! and the classes of their records. What the kernel reports about its objects is compared with it, and what differs is
//! not used.

use crate::attach::attached_programs::RunningPrograms;
use crate::attach::bpf_objects::Object;
use crate::attach::counters::PlacedCounters;
use crate::attach::program::AttachPoint;
use crate::attach::sample_counts::sampling_of;
use crate::decide::contexts::Contexts;
use crate::decide::filter::Compiled;
use crate::decide::program_key::ProgramKey;
use crate::decide::program_plan::PairAbilities;
use crate::discover::counter_names::Counter;
use crate::error::Error;
use crate::persist::pins::{info, ChannelPins, SHARED};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use libbpf_sys as sys;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use strata_abi::kernel::{Event, Filter, SLOWER_NONE};
use strata_model::EventClass;
use strata_ring::{Attr, LossMode};

/// Version of the saved description, and of all data that BPF programs share with this crate. New members must
/// have a default, so that an older description is refused for its version and not for its syntax.
const VERSION: u32 = 5;

/// The saved description of a session's kernel part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdoptionRecord {
    version: u32,
    /// Id of the boot during which the description was made.
    boot: String,
    overwrites: bool,
    subbuf_bytes: u64,
    nr_subbufs: u64,
    contexts: u32,
    /// Names of the hardware and software counters in records, by their places.
    #[serde(default)]
    counters: Vec<String>,
    /// The kernel's ids of the shared maps, in a fixed order; 0 for one that does not exist.
    maps: Vec<u32>,
    pub(crate) classes: Vec<EventClass>,
    pub(crate) units: Vec<SavedUnit>,
    /// Number of events for which programs that are now gone did not run.
    pub(crate) nested: u64,
    /// For each event, the number that sampling left out in programs that no longer exist.
    #[serde(default)]
    pub(crate) left_out: Vec<(String, u64)>,
}

/// The saved description of the programs of one event, or of system calls with the same filters.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedUnit {
    /// Index of the programs' switch, which is also the number in the names of their pins.
    pub(crate) at: u32,
    object: Object,
    programs: Vec<String>,
    payload: Option<(u32, u32)>,
    /// Number of the tracepoint; `None` if the program's section names the place to which it is attached.
    tracepoint: Option<u32>,
    /// Rate of samples \[Hz\].
    #[serde(default)]
    rate: Option<u32>,
    pub(crate) events: Vec<String>,
    pub(crate) attached: Vec<SavedProgram>,
    pub(crate) calls: Option<SavedCalls>,
    pub(crate) not_run_before: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedProgram {
    program: u32,
    /// Hash of the program's instructions, as the kernel computes it.
    tag: u64,
    link: u32,
}

/// The saved [`PairAbilities`]. The tests of a filter are not saved: they are in the program's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedCalls {
    /// The recorded entries: 0 none, 1 all, 2 those that pass the tests.
    entry: u8,
    exit: u8,
    has_entry: bool,
    has_exit: bool,
    reads_again: bool,
    /// See [`PairAbilities::waited`].
    #[serde(default)]
    waited: bool,
}

impl SavedProgram {
    /// Describes a program and its link.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn of(program: BorrowedFd<'_>, link: BorrowedFd<'_>) -> io::Result<SavedProgram> {
        let of_program: sys::bpf_prog_info = info(program)?;
        let of_link: sys::bpf_link_info = info(link)?;
        if of_link.prog_id != of_program.id {
            return Err(io::Error::other("its link is that of another program"));
        }
        let tag = u64::from_ne_bytes(of_program.tag);
        Ok(SavedProgram { program: of_program.id, tag, link: of_link.id })
    }
}

fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

fn code_of(compiled: &Compiled) -> u8 {
    match compiled {
        Compiled::Never => 0,
        Compiled::Always => 1,
        Compiled::Tests(_) => 2,
    }
}

fn compiled(code: u8, tests: &Filter) -> Compiled {
    match code {
        0 => Compiled::Never,
        1 => Compiled::Always,
        _ => Compiled::Tests(*tests),
    }
}

impl SavedCalls {
    pub(crate) fn held(self, event: &Event) -> PairAbilities {
        PairAbilities {
            contexts: event.contexts,
            entry: compiled(self.entry, &event.filter[0]),
            exit: compiled(self.exit, &event.filter[1]),
            has_entry: self.has_entry,
            has_exit: self.has_exit,
            reads_again: self.reads_again,
            slower: match event.slower {
                SLOWER_NONE => 0,
                slower => u64::from(slower) * 1000,
            },
            waited: self.waited,
            sampling: sampling_of(event),
        }
    }
}

impl SavedUnit {
    /// Describes running programs; `None` if none of them is attached, or if they cannot be adopted.
    fn of(running: &RunningPrograms) -> Option<SavedUnit> {
        let (tracepoint, rate) = match running.key.target {
            AttachPoint::Own => (None, None),
            AttachPoint::Tracepoint { id } => (Some(id), None),
            AttachPoint::Timer { rate } => (None, Some(rate)),
            AttachPoint::Uprobe { .. } => return None,
        };
        let attached: io::Result<Vec<SavedProgram>> = running
            .attached
            .iter()
            .map(|one| SavedProgram::of(one.program(), one.link_fd()))
            .collect();
        let calls = running.calls.as_ref().map(|calls| SavedCalls {
            entry: code_of(&calls.held.entry),
            exit: code_of(&calls.held.exit),
            has_entry: calls.held.has_entry,
            has_exit: calls.held.has_exit,
            reads_again: calls.held.reads_again,
            waited: calls.held.waited,
        });
        Some(SavedUnit {
            at: running.switch.at(),
            object: running.key.object,
            programs: running.key.programs.clone(),
            payload: running.key.payload,
            tracepoint,
            rate,
            events: running.events.clone(),
            attached: attached.ok().filter(|all| !all.is_empty())?,
            calls,
            not_run_before: running.not_run_before,
        })
    }

    /// Returns the key of the programs that were requested. `event`: the constants of the running programs.
    pub(crate) fn key(&self, event: &Event) -> ProgramKey {
        ProgramKey {
            object: self.object,
            programs: self.programs.clone(),
            event: Event { switch_at: 0, ..*event },
            payload: self.payload,
            target: match (self.tracepoint, self.rate) {
                (Some(id), _) => AttachPoint::Tracepoint { id },
                (None, Some(rate)) => AttachPoint::Timer { rate },
                (None, None) => AttachPoint::Own,
            },
        }
    }
}

/// Reads the constants of a program, which nobody can change any more.
pub(crate) fn event_in(map: &MapHandle) -> Result<Event, String> {
    if map.value_size() as usize != size_of::<Event>() {
        return Err(format!(
            "{} bytes of constants, wanted {}",
            map.value_size(),
            size_of::<Event>()
        ));
    }
    let value =
        map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(|error| error.to_string())?;
    let value = value.filter(|value| value.len() >= size_of::<Event>()).ok_or("it is empty")?;
    // SAFETY: so many bytes, and an Event is made of integers, which have any.
    Ok(unsafe { std::ptr::read_unaligned(value.as_ptr().cast()) })
}

/// The part of the description that is the same for the whole session.
pub(crate) struct SavedSession<'s> {
    pub(crate) attr: &'s Attr,
    pub(crate) contexts: u32,
    pub(crate) counters: &'s [Counter],
    pub(crate) nested: u64,
    pub(crate) left_out: Vec<(String, u64)>,
    pub(crate) classes: Vec<EventClass>,
}

impl AdoptionRecord {
    pub(crate) fn of<'r>(
        whole: SavedSession<'_>,
        shared: impl Fn(&str) -> Option<u32>,
        running: impl Iterator<Item = &'r RunningPrograms>,
    ) -> AdoptionRecord {
        AdoptionRecord {
            version: VERSION,
            boot: boot(),
            overwrites: whole.attr.loss_mode == LossMode::Overwrite,
            subbuf_bytes: whole.attr.subbuf_bytes,
            nr_subbufs: whole.attr.nr_subbufs,
            contexts: whole.contexts,
            counters: whole.counters.iter().map(|one| one.name().to_owned()).collect(),
            maps: SHARED.iter().map(|name| shared(name).unwrap_or(0)).collect(),
            classes: whole.classes,
            units: running.filter_map(SavedUnit::of).collect(),
            nested: whole.nested,
            left_out: whole.left_out,
        }
    }

    /// Returns whether the description is of this boot. The kernel objects of an earlier one do not exist any more.
    #[must_use]
    pub fn is_of_this_boot(&self) -> bool {
        self.boot == boot()
    }

    /// Returns the size of the sub-buffers \[byte\], and their number for each CPU.
    #[must_use]
    pub fn sizes(&self) -> (u64, u64) {
        (self.subbuf_bytes, self.nr_subbufs)
    }

    /// Returns the contexts that all records have. Contexts that were added later are in some records only.
    pub(crate) fn contexts(&self, counters: &PlacedCounters) -> Contexts {
        Contexts::of_bits(self.contexts, counters.places())
    }

    /// Returns the saved counters at their places.
    ///
    /// # Errors
    /// A name is no counter, or there are too many counters.
    pub(crate) fn counters(&self, pins: &ChannelPins) -> Result<PlacedCounters, Error> {
        let mut counters = PlacedCounters::default();
        let known = Contexts::parse(&self.counters);
        let known = known.map_err(|error| pins.failed("it cannot be taken up", error))?;
        counters.place(&known)?;
        Ok(counters)
    }

    /// Checks that the description has this version, is from this boot, and has buffers of these
    /// sizes.
    ///
    /// # Errors
    /// The description differs from what is to be recorded.
    pub(crate) fn check(&self, pins: &ChannelPins, attr: &Attr) -> Result<(), Error> {
        let found = (self.overwrites, self.subbuf_bytes, self.nr_subbufs);
        let overwrites = attr.loss_mode == LossMode::Overwrite;
        let wanted = (overwrites, attr.subbuf_bytes, attr.nr_subbufs);
        let why = match () {
            () if self.version != VERSION => {
                format!("it is of version {}, and this is {VERSION}", self.version)
            }
            () if found != wanted => format!(
                "it was made with (overwrites, bytes, sub-buffers) {found:?}, and {wanted:?} are planned"
            ),
            () => return Ok(()),
        };
        Err(pins.failed("it cannot be taken up", why))
    }

    /// Opens a shared map, and checks that it is the described one; `None` if the session has no such map.
    ///
    /// # Errors
    /// The map does not exist, or is another one.
    pub(crate) fn shared(
        &self,
        pins: &ChannelPins,
        at: usize,
        is_right: &dyn Fn(&sys::bpf_map_info) -> bool,
    ) -> Result<Option<OwnedFd>, Error> {
        let Some(&id) = self.maps.get(at).filter(|id| **id != 0) else { return Ok(None) };
        let name = format!("m{at}");
        let wrong = |why: &str| pins.failed(&format!("{name} ({})", SHARED[at]), why);
        let found = pins.get(&name).map_err(|error| wrong(&error.to_string()))?;
        let fd = found.ok_or_else(|| wrong("it is not there any more"))?;
        let info: sys::bpf_map_info =
            info(fd.as_fd()).map_err(|error| wrong(&error.to_string()))?;
        match info.id == id && is_right(&info) {
            true => Ok(Some(fd)),
            false => Err(wrong(&format!(
                "it is map {} of type {}, {} values of {} bytes, and not what was pinned",
                info.id, info.type_, info.max_entries, info.value_size
            ))),
        }
    }
}
