//! Attaches programs, and detaches them.
//!
//! A program is attached as long as this process has its file descriptor open: a killed process leaves nothing
//! attached, unless the session is persistent (`persist::pins`).

use crate::attach::cpu_samples;
use crate::attach::loader::{begin_listening, reason};
use crate::decide::jump_guard::Guard;
use crate::discover::cpus::{CpuWatch, OfCpus};
use crate::discover::elf::Binary;
use crate::error::Refusal;
use crate::persist::pins::info;
use libbpf_rs::{Link, MapCore, Object, ProgramMut, UprobeOpts};
use libbpf_sys::{perf_event_attr, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_TRACEPOINT};
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use rustix::param::page_size;
use rustix::thread::{capabilities, set_capabilities, CapabilitySet, CapabilitySets};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::null_mut;

/// Prefix of the names of the programs for page faults.
const PAGE_FAULT: &[u8] = b"page_fault_";

/// The map of waited_calls.bpf.h through which the kernel runs functions in tasks. The kernel does so only while a
/// process has the map open, or the map is pinned.
pub(crate) const AWAITED: &str = "awaited";

/// The kernel event that a program is attached to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AttachPoint {
    /// The event that the program's section names.
    Own,
    /// A tracepoint of the kernel.
    Tracepoint {
        /// Number of the tracepoint, from its `format` file. libbpf would look for that file in a place where tracefs
        /// may not be mounted.
        id: u32,
    },
    /// A timer of each CPU.
    Timer {
        /// Rate of the timer \[Hz\].
        rate: u32,
    },
    /// Instructions in a file.
    Uprobe {
        binary: Binary,
        /// Offsets of the instructions in the file \[byte\].
        offsets: Vec<u64>,
        /// Condition under which the instruction counts as a hit; the program tests it by its constants.
        guard: Option<Guard>,
        /// Offset of the probe's reference count in the file \[byte\].
        semaphore: Option<u64>,
    },
}

/// One attached program, and its links.
#[derive(Debug)]
pub(crate) struct Attached {
    link: AttachedBy,
    program: OwnedFd,
    is_iterator: bool,
    /// Thread that attaches the program on new CPUs.
    _later: Option<CpuWatch>,
    /// Links of the program to further instructions.
    _more: Vec<Link>,
    /// The map [`AWAITED`], if the program has it.
    _awaited: Option<OwnedFd>,
}

/// The link that keeps a program attached. Closing the link detaches the program, unless the link is pinned.
#[derive(Debug)]
enum AttachedBy {
    Made(Link),
    /// A link that another process has pinned.
    Found(OwnedFd),
}

impl Attached {
    /// Wraps a program that another process has attached.
    pub(crate) fn found(program: OwnedFd, link: OwnedFd) -> Attached {
        Attached {
            link: AttachedBy::Found(link),
            program,
            is_iterator: false,
            _later: None,
            _more: vec![],
            // Its pin keeps it open.
            _awaited: None,
        }
    }

    /// Returns the link, if this process has created it.
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

    /// Returns whether the program is an iterator, which runs when it is read.
    pub(crate) fn is_iterator(&self) -> bool {
        self.is_iterator
    }

    /// Returns the number of events for which the program was not run, because it was running on that CPU already, or
    /// another program of type tp was.
    ///
    /// The kernel enters a page fault with interrupts disabled, and the program runs before they are enabled. Only the
    /// program itself, when it walks the stack, and a profiler's NMI can cause a fault there. Such faults of tracers
    /// are no events (fault.bpf.h).
    pub(crate) fn nested(&self) -> u64 {
        let info: io::Result<libbpf_sys::bpf_prog_info> = info(self.program.as_fd());
        info.map_or(0, |info| match is_of_page_faults(&info.name) {
            true => 0,
            false => info.recursion_misses,
        })
    }
}

/// Returns whether the name is that of a program in hot.bpf.c for page faults. The kernel keeps 15 bytes of it.
fn is_of_page_faults(name: &[std::ffi::c_char]) -> bool {
    let name = name.iter().map(|byte| *byte as u8);
    name.take(PAGE_FAULT.len()).eq(PAGE_FAULT.iter().copied())
}

/// Attaches the loaded programs of an object.
///
/// # Errors
/// The errors of libbpf and the kernel; none of the programs is attached then.
pub(crate) fn attach(object: &Object, target: &AttachPoint) -> Result<Vec<Attached>, Refusal> {
    begin_listening();
    let mut all = Vec::new();
    let map = object.maps().find(|map| map.name() == AWAITED);
    let mut awaited = map
        .map(|map| map.as_fd().try_clone_to_owned())
        .transpose()
        .map_err(|error| reason(&error))?;
    for program in object.progs_mut().filter(|program| program.autoload()) {
        if let AttachPoint::Timer { rate } = target {
            all.extend(attach_timers(&program, *rate).map_err(|error| reason(&error))?);
            continue;
        }
        let mut links = links(&program, target)?;
        let Some(link) = links.pop() else { continue };
        let is_iterator = program.section().to_string_lossy().starts_with("iter/");
        let program = program.as_fd().try_clone_to_owned().map_err(|error| reason(&error))?;
        all.push(Attached {
            link: AttachedBy::Made(link),
            program,
            is_iterator,
            _later: None,
            _more: links,
            _awaited: awaited.take(),
        });
    }
    Ok(all)
}

/// Attaches a timer program to each online CPU, and to CPUs that come online later.
fn attach_timers(program: &ProgramMut<'_>, rate: u32) -> libbpf_rs::Result<Vec<Attached>> {
    let mut all = Vec::new();
    let mut timers = OfCpus::make(|cpu| {
        let timer = cpu_samples::open(rate, cpu)?;
        let link = program
            .attach_perf_event(timer.try_clone()?.into_raw_fd())
            .map_err(io::Error::other)?;
        let program = program.as_fd().try_clone_to_owned()?;
        all.push(Attached {
            link: AttachedBy::Made(link),
            program,
            is_iterator: false,
            _later: None,
            _more: vec![],
            _awaited: None,
        });
        Ok(timer)
    })?;
    if let Some(first) = all.first_mut() {
        let program = program.as_fd().try_clone_to_owned()?;
        let make = move |cpu| {
            let timer = cpu_samples::open(rate, cpu)?;
            cpu_samples::run(&timer, &program).map(|()| timer)
        };
        first._later = Some(CpuWatch::begin(move || timers.look(&make))?);
    }
    Ok(all)
}

/// Attaches the program, and returns at least one link.
fn links(program: &ProgramMut<'_>, target: &AttachPoint) -> Result<Vec<Link>, Refusal> {
    match target {
        AttachPoint::Own | AttachPoint::Timer { .. } => {
            program.attach().map(|link| vec![link]).map_err(|error| reason(&error))
        }
        AttachPoint::Tracepoint { id } => {
            let event = open_tracepoint(*id).map_err(|error| reason(&error))?;
            let link = program.attach_perf_event(event.as_raw_fd());
            let link = link.map_err(|error| reason(&error))?;
            // The link's by now, which closes it.
            let _ = event.into_raw_fd();
            Ok(vec![link])
        }
        AttachPoint::Uprobe { binary, offsets, semaphore, guard: _ } => {
            // Not by its name, which whoever has the folder may have given to another file since the offset
            // was read.
            let path = binary.held_path();
            let attach = |offset: &u64| {
                let _mapped = MappedPage::of(binary, *offset);
                let ref_ctr_offset = semaphore.unwrap_or(0) as usize;
                let opts = UprobeOpts { ref_ctr_offset, ..Default::default() };
                let made = program.attach_uprobe_with_opts(-1, &path, *offset as usize, opts);
                made.map_err(|error| uprobe_refusal(&error, binary, *offset))
            };
            as_admin(|| offsets.iter().map(attach).collect())
        }
    }
}

/// A page of a program's file, mapped into this process and never read.
///
/// The kernel checks an instruction when a process has mapped it. If it cannot probe the instruction, the error goes to
/// the process that attaches the probe, but to nobody if the page is mapped later. So this process maps the page before
/// it attaches the probe.
struct MappedPage(*mut c_void);

impl MappedPage {
    /// Maps the page with this offset. Returns `None` if the file cannot be mapped; an instruction that cannot be
    /// probed is then not noticed.
    fn of(binary: &Binary, offset: u64) -> Option<MappedPage> {
        let (page, flags) = (page_size() as u64, MapFlags::PRIVATE);
        let begin = offset - offset % page;
        // SAFETY: it is new memory, wherever the kernel puts it.
        let mapped =
            unsafe { mmap(null_mut(), page_size(), ProtFlags::READ, flags, binary.file(), begin) };
        mapped.ok().map(MappedPage)
    }
}

impl Drop for MappedPage {
    fn drop(&mut self) {
        // SAFETY: nobody else has its address.
        let _ = unsafe { munmap(self.0, page_size()) };
    }
}

/// Returns why a probe at byte `offset` of a file is refused.
fn uprobe_refusal(error: &libbpf_rs::Error, binary: &Binary, offset: u64) -> Refusal {
    // ENOTSUPP, which has no name outside the kernel: the instruction cannot be run elsewhere than in its place. ENOEXEC: it
    // is none.
    let text = format!("{error:#}");
    if !["(os error 524)", "(os error 8)"].iter().any(|number| text.contains(number)) {
        return reason(error);
    }
    Refusal(format!(
        "the kernel cannot probe the instruction at byte {offset:#x} of {}, such as one with a `lock` prefix. Probe another one \
         with SYMBOL+OFFSET",
        binary.path().display()
    ))
}

/// Calls `work` with CAP_SYS_ADMIN in effect, if that is among this thread's permitted capabilities. Since Linux
/// 6.17, the kernel demands CAP_SYS_ADMIN for writing a breakpoint into a program.
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

/// Opens the perf event by which a program is attached to a tracepoint. It is for all processes and CPUs, although it
/// names one CPU.
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
