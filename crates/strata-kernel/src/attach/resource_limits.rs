//! Resource limits. Those of this process are raised while programs are loaded, and then restored, since programs that
//! it starts inherit them. Buffers are made to fit the limits of the kernel's maps.

use crate::attach::loader::value_bytes;
use crate::error::{Error, Refusal};
use libbpf_sys as sys;
use rustix::fs::{open, Mode, OFlags};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use strata_ring::{stream_layout, Attr};

/// Number of open files that are allowed for in addition to those of attached programs.
const OTHERS: u64 = 256;

/// Number of open files for one attached program: the program, its link, and for some types one more.
const FILES_OF_A_PROGRAM: u64 = 3;

/// Descriptors count as used up if fewer than this are free, since loading an object takes some for a moment.
const SHORT: u64 = 24;

/// Size of the largest map value before Linux 6.0, which is the most that kmalloc() returns \[byte\].
const OLD_VALUE_BYTES_MAX: u64 = 4 << 20;

/// Size below which sub-buffers are not reduced; instead, their number is reduced \[byte\].
const SUBBUF_BYTES_KEPT: u64 = 64 << 10;

/// The limits of this process on open files and locked memory, raised as long as this value lives.
pub(crate) struct Limits {
    before: Vec<(Resource, Rlimit)>,
    /// Descriptors that occupy numbers below the former limit, so that programs get higher ones. They are closed
    /// later, and the low numbers are free for others.
    low: Vec<OwnedFd>,
    /// Number of files that have to be open at the same time.
    needed: u64,
}

impl Limits {
    /// Raises the limits as far as this process may. A limit that stays too low makes a later call fail.
    pub(crate) fn raise(nr_programs: usize) -> Limits {
        let needed = OTHERS + FILES_OF_A_PROGRAM * nr_programs as u64;
        let mut limits = Limits { before: vec![], low: vec![], needed };
        let now = getrlimit(Resource::Nofile);
        if let Some(current) = now.current.filter(|current| *current < needed) {
            let wanted = current + needed;
            let maximum = now.maximum.map(|maximum| maximum.max(wanted));
            if limits.set(Resource::Nofile, now, Rlimit { current: Some(wanted), maximum }) {
                limits.take_low(current);
            } else {
                limits.set(Resource::Nofile, now, Rlimit { current: now.maximum, ..now });
            }
        }
        if counts_locked_memory() {
            let now = getrlimit(Resource::Memlock);
            limits.set(Resource::Memlock, now, Rlimit { current: None, maximum: None });
        }
        limits
    }

    /// Returns `reason`, unless a limit was reached: then returns a text that names the limit and what helps.
    pub(crate) fn explain(&self, reason: Refusal) -> Refusal {
        // Whoever says the error's name or number; an object that cannot be opened says neither.
        let is_said = ["EMFILE", "(os error 24)"].iter().any(|name| reason.0.contains(name));
        let is_opening = reason.0.contains("failed to open object");
        if !(is_said || is_opening && self.is_short()) {
            return reason;
        }
        let limit = match getrlimit(Resource::Nofile).current {
            Some(limit) => limit.to_string(),
            None => "unlimited".to_owned(),
        };
        Refusal(format!(
            "no file descriptor was free, and this program may have {limit}. Record fewer events, or raise \
             the limit: `ulimit -n {}`, or LimitNOFILE= of a service",
            self.needed
        ))
    }

    /// Returns whether hardly any descriptors are left. Other threads may use some as well.
    fn is_short(&self) -> bool {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let used = std::fs::read_dir("/proc/self/fd").map_or(limit, |all| all.count() as u64);
        limit < self.needed && used.saturating_add(SHORT) >= limit
    }

    fn set(&mut self, resource: Resource, before: Rlimit, wanted: Rlimit) -> bool {
        let is_set = setrlimit(resource, wanted).is_ok();
        if is_set {
            self.before.push((resource, before));
        }
        is_set
    }

    fn take_low(&mut self, limit: u64) {
        use std::os::fd::AsRawFd;
        while let Ok(fd) = open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            if fd.as_raw_fd() as u64 >= limit {
                break;
            }
            self.low.push(fd);
        }
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        self.low.clear();
        for (resource, before) in self.before.drain(..) {
            // To less than before is always allowed.
            let _ = setrlimit(resource, before);
        }
    }
}

/// Returns whether maps count as locked memory, as they do before Linux 5.11.
fn counts_locked_memory() -> bool {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) < (5, 11),
        _ => false,
    }
}

/// Checks whether the kernel creates a map for rings with values of this size.
pub(crate) fn try_value(bytes: u32) -> io::Result<()> {
    let options = sys::bpf_map_create_opts {
        sz: size_of::<sys::bpf_map_create_opts>() as sys::size_t,
        map_flags: sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    // SAFETY: all of it lives longer than the call.
    let fd = unsafe {
        sys::bpf_map_create(sys::BPF_MAP_TYPE_ARRAY, c"strata_try".as_ptr(), 4, bytes, 1, &options)
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: it was made just now, and nobody else knows it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

/// Returns the requested buffers, or smaller ones with a remark if the kernel's maps cannot hold them. The remark is a
/// whole message.
///
/// # Errors
/// The sizes are not possible on any kernel.
pub(crate) fn fit_buffers(asked: &Attr) -> Result<(Attr, Option<String>), Error> {
    let bytes = value_bytes(&stream_layout(asked)?);
    if bytes > OLD_VALUE_BYTES_MAX && u32::try_from(bytes).is_ok_and(is_refused) {
        make_smaller(asked)
    } else {
        Ok((*asked, None))
    }
}

/// Returns whether the kernel's maps hold buffers of twice this size.
pub(crate) fn holds_twice(attr: &Attr) -> bool {
    let twice = Attr { nr_subbufs: attr.nr_subbufs.saturating_mul(2), ..*attr };
    match stream_layout(&twice) {
        // A little more than an old kernel takes is enough to know which one it is.
        Ok(layout) => {
            value_bytes(&layout) <= OLD_VALUE_BYTES_MAX
                || !is_refused(OLD_VALUE_BYTES_MAX as u32 + 4096)
        }
        Err(_) => false,
    }
}

/// Returns whether a value of this size is too large for this kernel's maps.
fn is_refused(bytes: u32) -> bool {
    try_value(bytes).is_err_and(|error| error.raw_os_error() == Some(libc::E2BIG))
}

fn make_smaller(asked: &Attr) -> Result<(Attr, Option<String>), Error> {
    let mut attr = *asked;
    while value_bytes(&stream_layout(&attr)?) > OLD_VALUE_BYTES_MAX {
        if attr.subbuf_bytes > SUBBUF_BYTES_KEPT {
            attr.subbuf_bytes /= 2;
        } else {
            attr.nr_subbufs /= 2;
        }
    }
    let remark = format!(
        "the kernel's buffers have {} sub-buffers of {} KiB for each CPU instead of {} of {} KiB: before 6.0 a \
         kernel's maps hold at most {} MiB",
        attr.nr_subbufs,
        attr.subbuf_bytes >> 10,
        asked.nr_subbufs,
        asked.subbuf_bytes >> 10,
        OLD_VALUE_BYTES_MAX >> 20
    );
    Ok((attr, Some(remark)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_ring::{LossMode, Publish};

    fn attr(subbuf_bytes: u64, nr_subbufs: u64) -> Attr {
        Attr {
            loss_mode: LossMode::Discard,
            publish: Publish::ByCommit,
            subbuf_bytes,
            nr_subbufs,
            nr_cpus: 0,
            start_position: 0,
        }
    }

    #[test]
    fn make_smaller_of_any_size_fits_an_old_map_and_says_both() {
        for (asked, wanted) in [
            ((1 << 20, 8), (256 << 10, 8)),
            ((64 << 20, 2), (1 << 20, 2)),
            ((4096, 32_768), (4096, 512)),
        ] {
            let (made, remark) = make_smaller(&attr(asked.0, asked.1)).unwrap();
            assert_eq!((made.subbuf_bytes, made.nr_subbufs), wanted);
            assert!(value_bytes(&stream_layout(&made).unwrap()) <= OLD_VALUE_BYTES_MAX);
            let remark = remark.unwrap();
            assert!(remark.contains(&format!("{} of {} KiB", asked.1, asked.0 >> 10)), "{remark}");
        }
    }

    #[test]
    fn holds_twice_is_what_fit_buffers_makes_of_it() {
        assert!(holds_twice(&attr(128 << 10, 8)));
        assert!(!holds_twice(&attr(1 << 30, 1 << 32)));
        // The largest of an old kernel: whether there is more depends on which one this is.
        let (made, _) = fit_buffers(&attr(512 << 10, 8)).unwrap();
        assert_eq!(holds_twice(&attr(256 << 10, 8)), made.subbuf_bytes == 512 << 10);
    }

    #[test]
    fn fit_buffers_that_fit_every_kernel_leaves_them() {
        let asked = attr(256 << 10, 8);
        let (made, remark) = fit_buffers(&asked).unwrap();
        assert_eq!((made.subbuf_bytes, made.nr_subbufs, remark), (256 << 10, 8, None));
    }

    #[test]
    fn explain_names_the_limit_where_files_are_what_is_missing() {
        let limits = Limits { before: vec![], low: vec![], needed: 733 };
        let other = Refusal("no room".into());
        assert_eq!(limits.explain(other.clone()), other);
        // There are enough of them.
        let plenty = Limits { before: vec![], low: vec![], needed: 0 };
        let opening = Refusal("failed to open object from memory".into());
        assert_eq!(plenty.explain(opening.clone()), opening);
        for text in ["x: failed to create: -EMFILE", "Too many open files (os error 24)"] {
            let found = limits.explain(Refusal(text.into())).0;
            assert!(found.contains("may have ") && found.contains("`ulimit -n 733`"), "{found}");
        }
    }

    #[test]
    fn raise_for_more_than_allowed_is_put_back_and_leaves_low_numbers_free() {
        // In a process of its own: what it changes of that is nobody else's.
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let test = "attach::resource_limits::tests::alone_raise_for_more_than_allowed";
        command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
    }

    #[test]
    #[ignore = "run by raise_for_more_than_allowed_is_put_back_and_leaves_low_numbers_free"]
    fn alone_raise_for_more_than_allowed() {
        use std::os::fd::AsRawFd;
        let before = getrlimit(Resource::Nofile);
        let small = Rlimit { current: Some(300), ..before };
        setrlimit(Resource::Nofile, small).unwrap();
        let limits = Limits::raise(1000);
        let is_raised = getrlimit(Resource::Nofile).current.unwrap() > 3000;
        let high = open("/", OFlags::PATH, Mode::empty()).unwrap();
        drop(limits);
        let low = open("/", OFlags::PATH, Mode::empty()).unwrap();
        assert_eq!(getrlimit(Resource::Nofile), small);
        assert!(low.as_raw_fd() < 300);
        // Without the right to raise it there is nothing to see.
        assert!(!is_raised || high.as_raw_fd() >= 300);
        setrlimit(Resource::Nofile, before).unwrap();
    }
}
