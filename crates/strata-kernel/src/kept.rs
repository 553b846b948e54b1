//! What makes a session's kernel part again after its process was killed: which programs it had in the kernel, and what
//! their records are. What can be asked of the kernel is asked there, and compared with this; nothing of it is believed
//! where the two differ.

use crate::attach::AttachPoint;
use crate::contexts::Contexts;
use crate::counter::Counter;
use crate::counters::PlacedCounters;
use crate::error::Error;
use crate::filter::Compiled;
use crate::key::ProgramKey;
use crate::object::Object;
use crate::pins::{info, ChannelPins, SHARED};
use crate::plan::PairAbilities;
use crate::running::RunningPrograms;
use libbpf_sys as sys;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use strata_abi::kernel::{Event, Filter};
use strata_model::EventClass;
use strata_ring::{Attr, LossMode};

/// Of this description, and of everything that the programs and this program share. What is added to it has a default: an
/// older one is then refused as that, and not taken for none.
const VERSION: u32 = 3;

/// What is kept of a session outside of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    version: u32,
    /// The boot that it is of.
    boot: String,
    overwrites: bool,
    subbuf_bytes: u64,
    nr_subbufs: u64,
    contexts: u32,
    /// The counters that its records have, by their places.
    #[serde(default)]
    counters: Vec<String>,
    /// The kernel's numbers of the maps that all share, in their order; 0: there is none.
    maps: Vec<u32>,
    pub(crate) classes: Vec<EventClass>,
    pub(crate) units: Vec<KeptUnit>,
    /// Events whose programs did not run, of programs that are gone.
    pub(crate) nested: u64,
}

/// Programs of one event, or of system calls with the same filters.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptUnit {
    /// Its switch, and its pins' number.
    pub(crate) at: u32,
    object: Object,
    programs: Vec<String>,
    payload: Option<(u32, u32)>,
    /// Of a tracepoint, its number; `None`: what the program's section names.
    tracepoint: Option<u32>,
    /// Of samples, how often.
    #[serde(default)]
    rate: Option<u32>,
    pub(crate) events: Vec<String>,
    pub(crate) attached: Vec<KeptProgram>,
    pub(crate) calls: Option<KeptCalls>,
    pub(crate) not_run_before: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptProgram {
    program: u32,
    /// A hash of its instructions, which the kernel makes.
    tag: u64,
    link: u32,
}

/// See [`PairAbilities`]; of tests only that there are some: the program's constants have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptCalls {
    /// 0: none of its records, 1: all, 2: those that pass the tests.
    entry: u8,
    exit: u8,
    has_entry: bool,
    has_exit: bool,
    reads_again: bool,
}

impl KeptProgram {
    /// # Errors
    /// What the system says.
    pub(crate) fn of(program: BorrowedFd<'_>, link: BorrowedFd<'_>) -> io::Result<KeptProgram> {
        let of_program: sys::bpf_prog_info = info(program)?;
        let of_link: sys::bpf_link_info = info(link)?;
        if of_link.prog_id != of_program.id {
            return Err(io::Error::other("its link is that of another program"));
        }
        let tag = u64::from_ne_bytes(of_program.tag);
        Ok(KeptProgram { program: of_program.id, tag, link: of_link.id })
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

impl KeptCalls {
    pub(crate) fn held(self, event: &Event) -> PairAbilities {
        PairAbilities {
            contexts: event.contexts,
            entry: compiled(self.entry, &event.filter[0]),
            exit: compiled(self.exit, &event.filter[1]),
            has_entry: self.has_entry,
            has_exit: self.has_exit,
            reads_again: self.reads_again,
        }
    }
}

impl KeptUnit {
    /// `None`: nothing is attached of it, or it cannot be taken up.
    fn of(running: &RunningPrograms) -> Option<KeptUnit> {
        let (tracepoint, rate) = match running.key.target {
            AttachPoint::Own => (None, None),
            AttachPoint::Tracepoint { id } => (Some(id), None),
            AttachPoint::Timer { rate } => (None, Some(rate)),
            AttachPoint::Uprobe { .. } => return None,
        };
        let attached: io::Result<Vec<KeptProgram>> = running
            .attached
            .iter()
            .map(|one| KeptProgram::of(one.program(), one.link_fd()))
            .collect();
        let calls = running.calls.as_ref().map(|calls| KeptCalls {
            entry: code_of(&calls.held.entry),
            exit: code_of(&calls.held.exit),
            has_entry: calls.held.has_entry,
            has_exit: calls.held.has_exit,
            reads_again: calls.held.reads_again,
        });
        Some(KeptUnit {
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

    /// What it was wanted as; `event` are its program's constants.
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

/// What is the same for the whole session.
pub(crate) struct KeptSession<'s> {
    pub(crate) attr: &'s Attr,
    pub(crate) contexts: u32,
    pub(crate) counters: &'s [Counter],
    pub(crate) nested: u64,
    pub(crate) classes: Vec<EventClass>,
}

impl Kept {
    pub(crate) fn of<'r>(
        whole: KeptSession<'_>,
        shared: impl Fn(&str) -> Option<u32>,
        running: impl Iterator<Item = &'r RunningPrograms>,
    ) -> Kept {
        Kept {
            version: VERSION,
            boot: boot(),
            overwrites: whole.attr.loss_mode == LossMode::Overwrite,
            subbuf_bytes: whole.attr.subbuf_bytes,
            nr_subbufs: whole.attr.nr_subbufs,
            contexts: whole.contexts,
            counters: whole.counters.iter().map(|one| one.name().to_owned()).collect(),
            maps: SHARED.iter().map(|name| shared(name).unwrap_or(0)).collect(),
            classes: whole.classes,
            units: running.filter_map(KeptUnit::of).collect(),
            nested: whole.nested,
        }
    }

    /// Is it of this boot of the machine? What another one had in its kernel is gone.
    #[must_use]
    pub fn is_of_this_boot(&self) -> bool {
        self.boot == boot()
    }

    /// The size of its sub-buffers \[byte\], and how many each CPU has.
    #[must_use]
    pub fn sizes(&self) -> (u64, u64) {
        (self.subbuf_bytes, self.nr_subbufs)
    }

    /// What all its records have; what was added to it some have besides.
    pub(crate) fn contexts(&self, counters: &PlacedCounters) -> Contexts {
        Contexts::of_bits(self.contexts, counters.places())
    }

    /// # Errors
    /// One of them is none, or there are too many.
    pub(crate) fn counters(&self, pins: &ChannelPins) -> Result<PlacedCounters, Error> {
        let mut counters = PlacedCounters::default();
        let known = Contexts::parse(&self.counters);
        let known = known.map_err(|error| pins.failed("it cannot be taken up", error))?;
        counters.place(&known)?;
        Ok(counters)
    }

    /// # Errors
    /// It is not what is to be made again.
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

    /// One of the maps that all share, if it is the one that was pinned; `None`: there was none.
    ///
    /// # Errors
    /// It is not there, or another one.
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
