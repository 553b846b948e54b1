//! Examines what this machine can record of programs, and why not more, as `strata_kernel::doctor` does for the kernel.
//!
//! Properties that may differ between programs are examined for this program and for the running ones. Nothing is
//! changed.

use std::fmt::Write as _;
use std::fs;

use rustix::process::{getrlimit, Resource};
use strata_kernel::doctor::Finding;
use strata_kernel::elf::{find, ElfError};
use strata_user::{
    holds_senders, listening_folder, possible_cpus, Clock, ClockKind, WhyNot, COUNTER,
};

use crate::machine::listing::{list, Listing};
use crate::sizes::{kib, BuffersOf, Hardware, NR_SUBBUFS, SUBBUF_BYTES};

/// The number of descriptors that a recorded program takes: two for its memory, its pidfd, the folder of its trace,
/// and a file being written.
const FDS_PER_PROGRAM: u64 = 5;
/// The limit on open files is reported as low if it allows fewer programs at once than this.
const PROGRAMS_FEW: u64 = 200;
/// Memory is reported as scarce if the full buffers of fewer programs than this fit.
const BUFFERS_MIN: u64 = 4;
/// The most reasons that one finding lists.
const REASONS: usize = 3;

/// Returns findings on how well this user can record on this machine.
#[must_use]
pub fn examine() -> Vec<Finding> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let limit = |resource| getrlimit(resource).maximum;
    vec![
        clock(Clock::new().kind(), &cpu),
        rseq(registered_rseq()),
        seccomp(&status),
        listening(),
        senders(holds_senders()),
        memory(buffers(), kib(&meminfo, "MemAvailable:")),
        locked(limit(Resource::Memlock)),
        open_files(limit(Resource::Nofile)),
        lttng(find("liblttng-ust.so").map(|path| path.display().to_string())),
        programs(list().map_err(|error| error.to_string())),
    ]
}

/// Examines the clock of event records.
fn clock(kind: &ClockKind, cpuinfo: &str) -> Finding {
    const WHAT: &str = "user: clock";
    let why = match kind {
        ClockKind::Vdso(why) => why,
        ClockKind::Tsc => {
            let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
            let has = |flag: &&str| flags.split_ascii_whitespace().any(|one| one == *flag);
            let flags: Vec<&str> =
                ["constant_tsc", "nonstop_tsc"].into_iter().filter(has).collect();
            let flags = match flags.is_empty() {
                true => String::new(),
                false => format!(" ({})", flags.join(", ")),
            };
            return Finding::good(
                WHAT,
                format!("the CPU's cycle counter{flags}, read by {}", COUNTER.1),
            );
        }
    };
    let remedy = match why {
        WhyNot::Clocksource(_) => format!(
            "echo {} >/sys/devices/system/clocksource/clocksource0/current_clocksource, where that is available",
            COUNTER.0
        ),
        WhyNot::NotInvariant | WhyNot::Unsteady => {
            "On a virtual machine: have its host hand on an invariant counter (constant_tsc, nonstop_tsc)".into()
        }
        _ => "Nothing needs to be done: times are right".to_owned(),
    };
    let detail = format!("{why}: each event record costs a call of clock_gettime() (vDSO)");
    Finding::limited(WHAT, detail, remedy)
}

/// Returns whether the C library has registered restartable sequences for this thread.
fn registered_rseq() -> bool {
    // SAFETY: looks up a name, which is a text that ends with a NUL.
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()) };
    // SAFETY: if glibc defines this name, it is an unsigned int.
    !size.is_null() && unsafe { size.cast::<libc::c_uint>().read() } > 0
}

/// Reports the way in which records are written: with restartable sequences (rseq) or without.
fn rseq(is_registered: bool) -> Finding {
    const WHAT: &str = "user: restartable sequences";
    match is_registered {
        true => Finding::good(WHAT, "registered by the C library: records are written without atomics"),
        false => Finding::limited(
            WHAT,
            "not registered by the C library: each event record is committed by atomic operations, at about \
             twice the cost",
            "Use glibc 2.35 or later, without GLIBC_TUNABLES=glibc.pthread.rseq=0",
        ),
    }
}

/// Examines whether this program runs under a system-call filter, as in a container.
fn seccomp(status: &str) -> Finding {
    const WHAT: &str = "user: seccomp";
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(str::trim);
    match mode {
        None | Some("0") => Finding::good(WHAT, "no filter over this program"),
        Some(_) => Finding::limited(
            WHAT,
            "a filter is over this program: running programs cannot be prepared, nor found by their memory, \
             where it forbids pidfd_open(), or to read and write /proc/PID/mem",
            "Run outside of the container, or with --security-opt seccomp=unconfined",
        ),
    }
}

/// Examines the folder in which starting programs announce themselves.
fn listening() -> Finding {
    const WHAT: &str = "user: announcements";
    match listening_folder() {
        Ok(folder) => Finding::good(
            WHAT,
            format!("programs that start find a recorder in {}", folder.display()),
        ),
        Err(error) => Finding::limited(
            WHAT,
            format!("{error}; new programs are found by searching, up to some seconds late"),
            "Make that folder your own, or record a command: its descendants announce themselves to it",
        ),
    }
}

/// Examines whether the sender of an announcement can be identified.
fn senders(are_held: bool) -> Finding {
    const WHAT: &str = "user: SO_PASSPIDFD";
    match are_held {
        true => Finding::good(WHAT, "a process that announces itself is held by a pidfd of the kernel"),
        false => Finding::limited(
            WHAT,
            "not in this kernel: who announces itself is known by its number and the time of its start, so \
             that one that ends at once may be passed over",
            "Use Linux 6.5 or later where programs live for milliseconds",
        ),
    }
}

/// Returns the most memory that the default buffers of one program take \[byte\].
fn buffers() -> u64 {
    let (size, number) = Hardware::here().fit(BuffersOf::Program, (SUBBUF_BYTES, NR_SUBBUFS));
    (size * u64::from(number)).saturating_mul(possible_cpus().into())
}

/// Examines the memory for buffers.
fn memory(buffers: u64, available: Option<u64>) -> Finding {
    const WHAT: &str = "user: memory";
    let mib = |bytes: u64| bytes >> 20;
    let each = format!("up to {} MiB of buffers for each recorded program", mib(buffers));
    match available {
        Some(available) if available / BUFFERS_MIN < buffers => Finding::limited(
            WHAT,
            format!("{each}, and {} MiB are available", mib(available)),
            "Use smaller buffers: --subbuf-size 64K",
        ),
        Some(available) => {
            Finding::good(WHAT, format!("{each}; {} MiB are available", mib(available)))
        }
        None => Finding::good(WHAT, each),
    }
}

/// Examines the limit on locked memory. Buffers are not locked, but a program that locks everything it maps locks them
/// as well. Few programs do, and most limits are small.
fn locked(limit: Option<u64>) -> Finding {
    const WHAT: &str = "user: locked memory";
    let Some(bytes) = limit else { return Finding::good(WHAT, "not limited") };
    let whose = "of no consequence but for programs that lock all they map (mlockall)";
    let more = match bytes < buffers() {
        true => format!(
            ", whose buffers ({} KiB) do not fit: for those ulimit -l unlimited",
            buffers() >> 10
        ),
        false => String::new(),
    };
    Finding::good(WHAT, format!("at most {} KiB: {whose}{more}", bytes >> 10))
}

fn open_files(limit: Option<u64>) -> Finding {
    const WHAT: &str = "user: open files";
    match limit.map(|limit| limit / FDS_PER_PROGRAM) {
        None => Finding::good(WHAT, "not limited"),
        Some(programs) if programs >= PROGRAMS_FEW => {
            Finding::good(WHAT, format!("enough for about {programs} programs at once"))
        }
        Some(programs) => Finding::limited(
            WHAT,
            format!("enough for about {programs} programs at once; more are not recorded"),
            "ulimit -Hn 1048576, as root",
        ),
    }
}

/// Reports whether LTTng's library is installed, which Strata does not need.
fn lttng(found: Result<String, ElfError>) -> Finding {
    const WHAT: &str = "user: LTTng's library";
    let path = match found {
        Ok(path) => path,
        Err(ElfError::SeveralLibraries { paths, .. }) => paths.join(", "),
        Err(_) => {
            return Finding::good(
                WHAT,
                "not installed, and not needed: LTTng-UST's sources compile with `pkg-config strata-lttng`",
            )
        }
    };
    Finding::good(
        WHAT,
        format!("{path}: programs linked with it are recorded by LTTng, and by strata once they are linked with \
                 `pkg-config --libs strata-lttng`"),
    )
}

/// Reports on the running programs.
fn programs(listing: Result<Listing, String>) -> Finding {
    const WHAT: &str = "user: running programs";
    let listing = match listing {
        Ok(listing) => listing,
        Err(error) => {
            return Finding::limited(
                WHAT,
                format!("{error}; only a command that strata starts can be recorded"),
                "mount -t proc proc /proc",
            )
        }
    };
    let number = |number: usize| match number {
        1 => "1 program".to_owned(),
        number => format!("{number} programs"),
    };
    let mut detail = match listing.processes.len() {
        0 => "none has Strata's library and can be recorded; see `strata record -- COMMAND`"
            .to_owned(),
        some => format!("{} with Strata's library can be recorded", number(some)),
    };
    if !listing.of_lttng.is_empty() {
        let _ = write!(detail, "; {} with LTTng's alone", number(listing.of_lttng.len()));
    }
    if listing.not_reached.is_empty() {
        return Finding::good(WHAT, detail);
    }
    let _ = write!(detail, "; {} cannot: ", number(listing.not_reached.len()));
    let reasons: Vec<String> = listing
        .not_reached
        .iter()
        .take(REASONS)
        .map(|one| match one.reason.contains(&one.pid.to_string()) {
            true => one.reason.clone(),
            false => format!("{} ({}): {}", one.name, one.pid, one.reason),
        })
        .collect();
    detail += &reasons.join("; ");
    Finding::limited(WHAT, detail, "`strata list` says of each why, and what to do")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::listing::ListedProcess;
    use crate::report::NotReached;
    use strata_kernel::doctor::Readiness;

    fn check(finding: &Finding, state: Readiness, parts: &[&str]) {
        assert_eq!(finding.state, state, "{finding:?}");
        assert!(finding.what.starts_with("user: "), "{finding:?}");
        assert_eq!(finding.remedy.is_none(), state == Readiness::Good, "{finding:?}");
        let text = format!("{} {}", finding.detail, finding.remedy.as_deref().unwrap_or_default());
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn examine_of_this_machine_says_each_thing_once_with_a_remedy_unless_good() {
        let found = examine();
        for finding in &found {
            check(finding, finding.state, &[]);
            assert!(!finding.detail.contains('\n'), "{finding:?}");
            assert_eq!(found.iter().filter(|one| one.what == finding.what).count(), 1);
            // A program's own tracepoints can be recorded wherever strata runs.
            assert_ne!(finding.state, Readiness::Missing, "{finding:?}");
        }
        assert_eq!(found.len(), 10);
    }

    #[test]
    fn clock_says_what_stamps_and_what_that_costs() {
        let cpu = "processor\t: 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc x\n";
        let good = clock(&ClockKind::Tsc, cpu);
        check(
            &good,
            Readiness::Good,
            &[&format!("(constant_tsc, nonstop_tsc), read by {}", COUNTER.1)],
        );
        check(&clock(&ClockKind::Tsc, "flags : tsc"), Readiness::Good, &["counter, read"]);
        let hpet = ClockKind::Vdso(WhyNot::Clocksource("hpet".into()));
        check(
            &clock(&hpet, cpu),
            Readiness::Limited,
            &[&format!("'hpet', not {}", COUNTER.0), "vDSO", &format!("echo {}", COUNTER.0)],
        );
        let guest = ClockKind::Vdso(WhyNot::NotInvariant);
        check(&clock(&guest, cpu), Readiness::Limited, &["not invariant", "its host"]);
    }

    #[test]
    fn machine_that_is_less_than_it_could_be_is_limited_with_the_consequence() {
        check(&rseq(true), Readiness::Good, &["without atomics"]);
        check(&rseq(false), Readiness::Limited, &["atomic operations", "glibc 2.35"]);
        check(&seccomp("Name:\tx\nSeccomp:\t0\n"), Readiness::Good, &[]);
        check(&seccomp("Seccomp:\t2\n"), Readiness::Limited, &["/proc/PID/mem", "unconfined"]);
        check(&senders(true), Readiness::Good, &["pidfd"]);
        check(&senders(false), Readiness::Limited, &["6.5"]);
        let meminfo = "MemTotal:  100 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(kib(meminfo, "MemAvailable:"), Some(2 << 20));
        assert_eq!(kib(meminfo, "MemOther:"), None);
        check(&memory(16 << 20, Some(1 << 30)), Readiness::Good, &["up to 16 MiB", "1024 MiB"]);
        check(&memory(16 << 20, Some(63 << 20)), Readiness::Limited, &["63 MiB", "--subbuf-size"]);
        check(&locked(None), Readiness::Good, &["not limited"]);
        check(&locked(Some(64 << 10)), Readiness::Good, &["64 KiB", "mlockall", "ulimit -l"]);
        assert!(!locked(Some(u64::MAX)).detail.contains("ulimit"));
        check(&open_files(Some(1024)), Readiness::Good, &["204 programs"]);
        check(&open_files(Some(100)), Readiness::Limited, &["20 programs", "ulimit -Hn"]);
    }

    #[test]
    fn programs_that_cannot_be_recorded_are_counted_with_their_reasons() {
        let mut listing = Listing::default();
        check(&programs(Ok(listing.clone())), Readiness::Good, &["none has Strata's library"]);
        listing.processes = vec![ListedProcess::default(); 2];
        let lttng = NotReached { pid: 5, name: "x".into(), reason: "LTTng".into() };
        listing.of_lttng = vec![lttng];
        check(
            &programs(Ok(listing.clone())),
            Readiness::Good,
            &["2 programs with Strata's library can be recorded", "1 program with LTTng's alone"],
        );
        let unreached = |pid: u32| NotReached {
            pid,
            name: "app".into(),
            reason: if pid == 7 { "process 7: denied".into() } else { "has no memory".into() },
        };
        listing.not_reached = (7..12).map(unreached).collect();
        check(
            &programs(Ok(listing)),
            Readiness::Limited,
            &["5 programs cannot: process 7: denied; app (8): has no memory; ", "strata list"],
        );
        check(&programs(Err("no /proc".into())), Readiness::Limited, &["no /proc", "mount"]);
    }

    #[test]
    fn library_of_lttng_is_reported_and_no_fault_in_any_case() {
        check(
            &lttng(Ok("/usr/lib/liblttng-ust.so.1".into())),
            Readiness::Good,
            &["/usr/lib/liblttng"],
        );
        let none = ElfError::NotFound { name: "x".into() };
        check(&lttng(Err(none)), Readiness::Good, &["not installed", "strata-lttng"]);
    }

    #[test]
    fn numbers_of_the_machine_that_are_none_or_too_large_are_not_known() {
        for (meminfo, wanted) in [
            ("", None),
            ("MemAvailable:", None),
            ("MemAvailable: much kB", None),
            ("MemAvailable: -1 kB", None),
            ("MemAvailable: 18446744073709551615 kB", None),
            ("MemAvailable:\t3 kB\nMemAvailable: 9 kB", Some(3072)),
            (" MemAvailable: 3 kB", None),
        ] {
            assert_eq!(kib(meminfo, "MemAvailable:"), wanted, "{meminfo:?}");
        }
        check(&memory(16 << 20, None), Readiness::Good, &["up to 16 MiB"]);
        check(&memory(16 << 20, Some(0)), Readiness::Limited, &["0 MiB are available"]);
        check(&memory(u64::MAX, Some(u64::MAX)), Readiness::Limited, &["--subbuf-size"]);
        check(&memory(0, Some(0)), Readiness::Good, &["up to 0 MiB"]);
    }

    #[test]
    fn limits_are_good_from_the_number_on_that_is_enough() {
        check(&open_files(None), Readiness::Good, &["not limited"]);
        check(&open_files(Some(1000)), Readiness::Good, &["200 programs"]);
        check(
            &open_files(Some(999)),
            Readiness::Limited,
            &["199 programs", "more are not recorded"],
        );
        check(&open_files(Some(0)), Readiness::Limited, &["0 programs"]);
        check(&memory(10, Some(40)), Readiness::Good, &[]);
        check(&memory(10, Some(39)), Readiness::Limited, &[]);
        assert!(!locked(Some(buffers())).detail.contains("do not fit"));
        check(&locked(Some(buffers() - 1)), Readiness::Good, &["do not fit"]);
    }

    #[test]
    fn seccomp_and_clocks_of_all_kinds_are_distinguished() {
        for (status, state) in [
            ("", Readiness::Good),
            ("Seccomp:\t0\n", Readiness::Good),
            ("Seccomp:\t1\n", Readiness::Limited),
            ("NoNewPrivs:\t0\nSeccomp_filters:\t0\n", Readiness::Good),
            ("Seccomp: x\n", Readiness::Limited),
        ] {
            assert_eq!(seccomp(status).state, state, "{status:?}");
        }
        let clock = |why| clock(&ClockKind::Vdso(why), "");
        check(&clock(WhyNot::Unsteady), Readiness::Limited, &["vDSO", "its host"]);
        check(&clock(WhyNot::Architecture), Readiness::Limited, &["Nothing needs to be done"]);
        check(
            &clock(WhyNot::Clocksource(String::new())),
            Readiness::Limited,
            &["is not known", &format!("echo {}", COUNTER.0)],
        );
        // Flags are words: none is a part of another one.
        let flags = "flags : xconstant_tsc nonstop_tsc_s3";
        assert!(!super::clock(&ClockKind::Tsc, flags).detail.contains('('));
        let several = ElfError::SeveralLibraries {
            name: "liblttng-ust.so".into(),
            paths: vec!["/a".into(), "/b".into()],
        };
        check(&lttng(Err(several)), Readiness::Good, &["/a, /b: programs"]);
    }
}
