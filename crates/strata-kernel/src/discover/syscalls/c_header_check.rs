//! Compares the names of values with the C headers of the machine.

use super::table_parser;
use super::values::VALUES;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Headers of the kernel that define values.
const KERNEL: &[&str] = &[
    "asm/fcntl.h asm/prctl.h asm/signal.h linux/bpf.h linux/close_range.h linux/eventpoll.h",
    "linux/fadvise.h linux/falloc.h linux/fcntl.h linux/fs.h linux/fsmap.h linux/futex.h",
    "linux/inotify.h linux/io_uring.h linux/ioprio.h linux/ipc.h linux/kcmp.h linux/keyctl.h",
    "linux/landlock.h linux/membarrier.h linux/memfd.h linux/mman.h linux/module.h linux/mount.h",
    "linux/msg.h linux/net.h linux/perf_event.h linux/pidfd.h linux/prctl.h linux/ptrace.h",
    "linux/random.h linux/resource.h linux/sched.h linux/seccomp.h linux/sem.h linux/shm.h",
    "linux/signalfd.h linux/stat.h linux/time.h linux/timerfd.h linux/userfaultfd.h linux/wait.h",
    "linux/version.h linux/xattr.h",
];

/// Headers of the C library for names that the kernel's headers lack. A separate program includes them, since some
/// headers of both define the same names.
const LIBRARY: &[&str] = &[
    "fcntl.h netinet/in.h sched.h signal.h sys/epoll.h sys/eventfd.h sys/file.h sys/inotify.h",
    "sys/ipc.h sys/mman.h sys/mount.h sys/msg.h sys/ptrace.h sys/random.h sys/resource.h sys/sem.h",
    "sys/shm.h sys/signalfd.h sys/socket.h sys/stat.h sys/timerfd.h sys/wait.h sys/xattr.h time.h",
    "unistd.h linux/rtnetlink.h netinet/tcp.h netinet/udp.h",
];

/// Names that are newer than the headers of Linux 6.1 and the C library of that time, which define all others.
const NEWER: &[&str] = &[
    "ARCH_SHSTK_DISABLE ARCH_SHSTK_ENABLE ARCH_SHSTK_LOCK ARCH_SHSTK_STATUS ARCH_SHSTK_UNLOCK",
    "AT_HANDLE_FID BPF_TOKEN_CREATE FSCONFIG_CMD_CREATE_EXCL F_CREATED_QUERY F_DUPFD_QUERY",
    "LANDLOCK_RULE_NET_PORT MADV_GUARD_INSTALL MADV_GUARD_REMOVE MAP_ABOVE4G MAP_DROPPABLE",
    "MEMBARRIER_CMD_GET_REGISTRATIONS MFD_EXEC MFD_NOEXEC_SEAL PIDFD_THREAD PR_GET_AUXV PR_GET_MDWE",
    "PR_GET_MEMORY_MERGE PR_SET_MDWE PR_SET_MEMORY_MERGE RWF_ATOMIC RWF_DONTCACHE RWF_NOAPPEND",
    "SCHED_EXT STATX_DIO_READ_ALIGN STATX_MNT_ID_UNIQUE STATX_SUBVOL STATX_WRITE_ATOMIC",
];

fn program(headers: &[&str], names: &BTreeSet<&str>) -> String {
    let mut text = String::from("#define _GNU_SOURCE\n#include <stdio.h>\n");
    for header in headers.iter().flat_map(|line| line.split(' ')) {
        text += &format!("#if __has_include(<{header}>)\n#include <{header}>\n#endif\n");
    }
    text += "int main(void)\n{\n";
    for name in names {
        text += &format!("printf(\"%lld {name}\\n\", (long long)({name}));\n");
    }
    text + "}\n"
}

/// Compiles a C program to get the values of names, as far as the headers define them.
fn values(headers: &[&str], mut names: BTreeSet<&str>, folder: &Path) -> BTreeMap<String, i64> {
    let (source, built) = (folder.join("values.c"), folder.join("values"));
    for _ in 0..4 {
        std::fs::write(&source, program(headers, &names)).expect("a source");
        let done = Command::new("cc")
            .args(["-w", "-o"])
            .args([&built, &source])
            .env("LC_ALL", "C")
            .output()
            .expect("a compiler was there");
        if done.status.success() {
            let done = Command::new(&built).output().expect("it was built");
            let text = String::from_utf8(done.stdout).expect("text");
            let pairs = text.lines().filter_map(|line| line.split_once(' '));
            let pair = |(value, name): (&str, &str)| (name.to_owned(), value.parse().expect("one"));
            return pairs.map(pair).collect();
        }
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let unknown: BTreeSet<&str> = said
            .lines()
            .filter(|line| line.contains("undeclared"))
            .filter_map(|line| line.split('\'').nth(1))
            .collect();
        assert!(!unknown.is_empty(), "{said}");
        names.retain(|name| !name.split('|').any(|part| unknown.contains(part)));
    }
    panic!("there is always another name that is not known");
}

#[test]
fn names_of_values_have_the_values_of_the_installed_headers() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: no C compiler (cc)");
        return;
    }
    let all: Vec<_> =
        table_parser::values(VALUES).flatten().flat_map(|values| values.labels).collect();
    // Those that are no names of C: what the kernel calls 0, and signals that have only a number.
    let is_of_c = |name: &str| name != "none" && !name.starts_with("SIGRT_");
    let names = all.iter().map(|label| &*label.label).filter(|name| is_of_c(name));
    let names: BTreeSet<&str> = names.chain(["LINUX_VERSION_CODE"]).collect();
    let folder = std::env::temp_dir().join(format!("strata-values-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut known = values(LIBRARY, names.clone(), &folder);
    known.extend(values(KERNEL, names.clone(), &folder));
    std::fs::remove_dir_all(&folder).expect("it was ours");
    for label in all.iter().filter(|label| is_of_c(&label.label)) {
        if let Some(value) = known.get(&label.label) {
            assert_eq!(label.from, *value, "{}", label.label);
        }
    }
    let (compared, version) = (known.len(), known.get("LINUX_VERSION_CODE").copied());
    eprintln!("{compared} names compared with headers of Linux {:#x}", version.unwrap_or(0));
    let newer: Vec<&str> = NEWER.iter().flat_map(|line| line.split(' ')).collect();
    let is_known = |name: &&str| known.contains_key(*name) || newer.contains(name);
    let unknown: Vec<_> = names.iter().filter(|name| !is_known(name)).collect();
    if version.is_some_and(|version| version >= 0x6_01_00) {
        assert!(unknown.is_empty(), "no header has {unknown:?}");
    }
    assert!(compared > 500, "{compared} compared");
}
