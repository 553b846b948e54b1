//! Programs attached, and detached again.
//!
//! A program is attached as long as a file descriptor of this process says so: a process that is killed leaves nothing
//! behind, unless it was asked to (pins.rs).

use crate::cpus::{CpuWatch, OfCpus};
use crate::elf::Binary;
use crate::error::Refusal;
use crate::load::{begin_listening, reason};
use crate::pins::info;
use crate::sample;
use libbpf_rs::{Link, Object, ProgramMut, UprobeOpts};
use libbpf_sys::{perf_event_attr, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_TRACEPOINT};
use rustix::thread::{capabilities, set_capabilities, CapabilitySet, CapabilitySets};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

/// What a program is attached to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AttachPoint {
    /// What its section names.
    Own,
    /// A tracepoint.
    Tracepoint {
        /// As its `format` file has it: libbpf would look for the number where tracefs may not be mounted.
        id: u32,
    },
    /// A timer of each CPU.
    Timer {
        /// How often it comes \[Hz\].
        rate: u32,
    },
    /// An instruction of a file.
    Uprobe {
        /// The file.
        binary: Binary,
        /// Where \[byte\].
        offset: u64,
        /// At the function's return.
        is_return: bool,
        /// Its reference count \[byte\].
        semaphore: Option<u64>,
    },
}

/// One attached program.
#[derive(Debug)]
pub(crate) struct Attached {
    link: AttachedBy,
    program: OwnedFd,
    is_iterator: bool,
    /// Attaches it to CPUs that come.
    _later: Option<CpuWatch>,
}

/// What attaches a program, until it is let go of; unless it is pinned, too.
#[derive(Debug)]
enum AttachedBy {
    Made(Link),
    /// Found where another process had pinned it.
    Found(OwnedFd),
}

impl Attached {
    /// One that another process has attached.
    pub(crate) fn found(program: OwnedFd, link: OwnedFd) -> Attached {
        Attached { link: AttachedBy::Found(link), program, is_iterator: false, _later: None }
    }

    /// Its link, if it was made here.
    pub(crate) fn link(&self) -> Option<&Link> {
        match &self.link {
            AttachedBy::Made(link) => Some(link),
            AttachedBy::Found(_) => None,
        }
    }

    pub(crate) fn link_fd(&self) -> BorrowedFd<'_> {
        match &self.link {
            AttachedBy::Made(link) => link.as_fd(),
            AttachedBy::Found(fd) => fd.as_fd(),
        }
    }

    pub(crate) fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// Whether it is run by reading, not by events.
    pub(crate) fn is_iterator(&self) -> bool {
        self.is_iterator
    }

    /// How often it was not run because it, or one of type tp, was running on that CPU already.
    pub(crate) fn nested(&self) -> u64 {
        let info: io::Result<libbpf_sys::bpf_prog_info> = info(self.program.as_fd());
        info.map_or(0, |info| info.recursion_misses)
    }
}

/// Attaches those programs of an object that were loaded.
///
/// # Errors
/// What libbpf and the kernel say; then none of them is attached.
pub(crate) fn attach(object: &Object, target: &AttachPoint) -> Result<Vec<Attached>, Refusal> {
    begin_listening();
    let mut all = Vec::new();
    for program in object.progs_mut().filter(|program| program.autoload()) {
        if let AttachPoint::Timer { rate } = target {
            all.extend(attach_timers(&program, *rate).map_err(|error| reason(&error))?);
            continue;
        }
        let link = link(&program, target).map_err(|error| reason(&error))?;
        let is_iterator = program.section().to_string_lossy().starts_with("iter/");
        let program = program.as_fd().try_clone_to_owned().map_err(|error| reason(&error))?;
        all.push(Attached { link: AttachedBy::Made(link), program, is_iterator, _later: None });
    }
    Ok(all)
}

/// To each CPU that is online, and to those that come.
fn attach_timers(program: &ProgramMut<'_>, rate: u32) -> libbpf_rs::Result<Vec<Attached>> {
    let mut all = Vec::new();
    let mut timers = OfCpus::make(|cpu| {
        let timer = sample::open(rate, cpu)?;
        let link = program
            .attach_perf_event(timer.try_clone()?.into_raw_fd())
            .map_err(io::Error::other)?;
        let program = program.as_fd().try_clone_to_owned()?;
        all.push(Attached {
            link: AttachedBy::Made(link),
            program,
            is_iterator: false,
            _later: None,
        });
        Ok(timer)
    })?;
    if let Some(first) = all.first_mut() {
        let program = program.as_fd().try_clone_to_owned()?;
        let make = move |cpu| {
            let timer = sample::open(rate, cpu)?;
            sample::run(&timer, &program).map(|()| timer)
        };
        first._later = Some(CpuWatch::begin(move || timers.look(&make))?);
    }
    Ok(all)
}

fn link(program: &ProgramMut<'_>, target: &AttachPoint) -> libbpf_rs::Result<Link> {
    match target {
        AttachPoint::Own | AttachPoint::Timer { .. } => program.attach(),
        AttachPoint::Tracepoint { id } => {
            let event = open_tracepoint(*id)?;
            let link = program.attach_perf_event(event.as_raw_fd())?;
            // The link's by now, which closes it.
            let _ = event.into_raw_fd();
            Ok(link)
        }
        AttachPoint::Uprobe { binary, offset, is_return, semaphore } => {
            let opts = UprobeOpts {
                ref_ctr_offset: semaphore.unwrap_or(0) as usize,
                retprobe: *is_return,
                ..Default::default()
            };
            // Not by its name, which whoever has the folder may have given to another file since the offset
            // was read.
            as_admin(|| {
                program.attach_uprobe_with_opts(-1, binary.held_path(), *offset as usize, opts)
            })
        }
    }
}

/// With CAP_SYS_ADMIN in effect, where this thread has it in reserve: from Linux 6.17 on the kernel asks for it before it
/// writes a breakpoint into a program.
fn as_admin<T>(work: impl FnOnce() -> T) -> T {
    let admin = CapabilitySet::SYS_ADMIN;
    let in_reserve =
        |now: &CapabilitySets| now.permitted.contains(admin) && !now.effective.contains(admin);
    let before = capabilities(None).ok().filter(in_reserve);
    if let Some(before) = before {
        // Without it the kernel says what is missing.
        let _ = set_capabilities(
            None,
            CapabilitySets { effective: before.effective | admin, ..before },
        );
    }
    let done = work();
    if let Some(before) = before {
        // To have less is always allowed.
        let _ = set_capabilities(None, before);
    }
    done
}

/// The perf event that a program is attached to a tracepoint by; of all processes, whatever CPU it names.
fn open_tracepoint(id: u32) -> io::Result<OwnedFd> {
    let attr = perf_event_attr {
        type_: PERF_TYPE_TRACEPOINT,
        size: size_of::<perf_event_attr>() as u32,
        config: id.into(),
        ..Default::default()
    };
    // SAFETY: the kernel reads the structure, which says how long it is, and gives a new descriptor or an error.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(&attr),
            -1,
            0,
            -1,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: nobody else has it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
