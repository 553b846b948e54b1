//! Samples of what each CPU does, taken by a timer, with the stack of the interrupted thread
//! (`probe/kernel/sample.bpf.c`).
//!
//! The timer is perf's `cpu-clock`, which every kernel has, even in a virtual machine. It has the same rate on each
//! CPU, whatever runs there; samples of processes that are not followed are not recorded.

use crate::decide::contexts::Contexts;
use crate::decide::event::{FieldSource, KernelEvent, Probe};
use crate::discover::cpus;
use crate::error::Error;
use libbpf_sys::{perf_event_attr, PERF_COUNT_SW_CPU_CLOCK, PERF_TYPE_SOFTWARE};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use strata_model::{Base, Field, FieldClass, Integer};

/// Recorded name of the event for samples of CPUs: perf's name (cpu-clock), in a form that filters can use.
pub const NAME: &str = "cpu_clock";

/// The subsystem of the event for samples of CPUs.
pub const SYSTEM: &str = "perf";

/// The highest rate of samples on each CPU \[Hz\].
pub const RATE_MAX: u32 = 10_000;

/// Fields of fixed size in the payload: name, size \[byte\], whether signed, and base; as in `struct sample_payload`.
const FIXED: [(&str, u8, bool, Base); 4] = [
    ("ip", 8, false, Base::Sixteen),
    ("period", 8, false, Base::Ten),
    ("unasked", 8, false, Base::Ten),
    ("pid", 4, true, Base::Ten),
];

/// Describes the event for samples of CPUs. Samples are recorded only while a followed process runs.
#[must_use]
pub fn event(rate: u32) -> KernelEvent {
    let mut offset = 0;
    let source = |&(name, bytes, is_signed, _): &(&str, u8, bool, Base)| {
        let source =
            FieldSource { field: name.to_owned(), offset, bytes, is_signed, labels: Vec::new() };
        offset += u16::from(bytes);
        source
    };
    let sources = FIXED.iter().map(source).collect();
    KernelEvent {
        name: NAME.to_owned(),
        system: SYSTEM.to_owned(),
        kernel_name: "cpu-clock".to_owned(),
        fields: fields(&Contexts::default()),
        exit_fields: Vec::new(),
        probe: Probe::Sample { rate },
        is_followed: true,
        sources,
        exit_sources: Vec::new(),
    }
}

/// Returns the fields of the payload. `contexts`: the contexts that all records have. Call stacks that are not among
/// them follow at the end of the payload.
pub(crate) fn fields(contexts: &Contexts) -> Vec<Field> {
    let fixed = FIXED.iter().map(|&(name, bytes, signed, base)| {
        let class = Integer { signed, base, ..Integer::unsigned(bytes) };
        Field::new(name, FieldClass::Integer(class))
    });
    let stacks: Vec<Field> = contexts.missing_stacks().fields().collect();
    fixed.chain(stacks).collect()
}

/// Checks that the kernel allows this rate of samples.
///
/// # Errors
/// [`Error::SampleRate`] if the kernel would leave out some of the samples.
pub fn check_rate(rate: u32) -> Result<(), Error> {
    // Where it may not be read, nothing is known.
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    let limit = text.ok().and_then(|text| text.trim().parse::<u32>().ok());
    match limit.filter(|limit| *limit < rate) {
        Some(limit) => Err(Error::SampleRate { found: rate, limit }),
        None => Ok(()),
    }
}

/// Opens a CPU's timer, which stops for good when the CPU goes offline.
///
/// # Errors
/// The error of the kernel.
pub(crate) fn open(rate: u32, cpu: u32) -> io::Result<OwnedFd> {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>() as u32,
        config: PERF_COUNT_SW_CPU_CLOCK.into(),
        ..Default::default()
    };
    // A period, not a rate: the kernel makes this of a rate, too.
    attr.__bindgen_anon_1.sample_period = 1_000_000_000 / u64::from(rate.clamp(1, RATE_MAX));
    cpus::open_event(&attr, cpu)
}

/// Attaches the program to the timer.
///
/// # Errors
/// The error of the kernel.
pub(crate) fn run(timer: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    // _IOW('$', 8, __u32) and _IO('$', 0) of the kernel's linux/perf_event.h
    const SET_BPF: libc::Ioctl = 0x4004_2408;
    const ENABLE: libc::Ioctl = 0x2400;
    let done = |result| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: it takes a number, and no memory of ours.
    done(unsafe { libc::ioctl(timer.as_raw_fd(), SET_BPF, program.as_raw_fd()) })?;
    // SAFETY: likewise.
    done(unsafe { libc::ioctl(timer.as_raw_fd(), ENABLE, 0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_has_the_stacks_that_are_no_contexts() {
        let names = |contexts: &[&str]| {
            let fields = fields(&Contexts::parse(contexts).unwrap());
            fields.into_iter().skip(FIXED.len()).map(|field| field.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["pid"]), ["callstack_kernel", "callstack_user"]);
        assert_eq!(names(&["callstack_kernel"]), ["callstack_user"]);
        assert_eq!(names(&["callstack_user", "callstack_kernel"]), [""; 0]);
    }

    #[test]
    fn sources_lie_one_behind_the_other_as_the_program_writes_them() {
        let event = event(99);
        let offsets: Vec<u16> = event.sources.iter().map(|source| source.offset).collect();
        assert_eq!(offsets, [0, 8, 16, 24]);
        assert!(event.is_followed);
    }
}
