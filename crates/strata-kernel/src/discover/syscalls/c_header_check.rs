//! Compares the names of values, and the members of structures, with the C headers of each machine.

use super::table_parser;
use super::values::VALUES;
use crate::arch::{self, Machine};
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

/// The tools that compile a C program for a machine, and run that program on this machine.
struct Tools {
    compiler: String,
    /// The emulator that runs programs of that machine; `None` if they run on this machine directly.
    emulator: Option<String>,
}

impl Tools {
    /// Returns the tools for a machine; `None` if one is missing.
    fn of(machine: &Machine) -> Option<Tools> {
        let name = machine.name;
        let tools = match name == std::env::consts::ARCH {
            true => Tools { compiler: "cc".to_owned(), emulator: None },
            false => Tools {
                compiler: format!("{name}-linux-gnu-gcc"),
                emulator: Some(format!("qemu-{name}")),
            },
        };
        let is_there = |tool: &String| Command::new(tool).arg("--version").output().is_ok();
        (is_there(&tools.compiler) && tools.emulator.iter().all(is_there)).then_some(tools)
    }

    /// Compiles the program. Returns its output, or the messages of the compiler as the error.
    fn run(&self, source: &Path) -> Result<String, String> {
        let built = source.with_extension("");
        let mut compile = Command::new(&self.compiler);
        // An emulator would look for the other machine's libraries.
        compile.args(self.emulator.iter().map(|_| "-static"));
        let done = compile.args(["-w", "-o"]).args([&built, source]).env("LC_ALL", "C");
        let done = done.output().expect("a compiler was there");
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into_owned());
        }
        let mut run = match &self.emulator {
            None => Command::new(&built),
            Some(emulator) => {
                let mut run = Command::new(emulator);
                run.arg(&built);
                run
            }
        };
        let done = run.output().expect("it was built");
        Ok(String::from_utf8(done.stdout).expect("text"))
    }
}

/// Compiles a C program to get the values of names, as far as the headers define them.
fn values(
    tools: &Tools,
    headers: &[&str],
    mut names: BTreeSet<&str>,
    folder: &Path,
) -> BTreeMap<String, i64> {
    let source = folder.join("values.c");
    for _ in 0..4 {
        std::fs::write(&source, program(headers, &names)).expect("a source");
        let said = match tools.run(&source) {
            Ok(text) => {
                let pairs = text.lines().filter_map(|line| line.split_once(' '));
                let pair =
                    |(value, name): (&str, &str)| (name.to_owned(), value.parse().expect("one"));
                return pairs.map(pair).collect();
            }
            Err(said) => said,
        };
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
    for machine in arch::ALL {
        let name = machine.name;
        match Tools::of(machine) {
            Some(tools) => names_have_the_values_of_headers(machine, &tools),
            None => eprintln!("skipped: missing tool: a C compiler for {name}, or qemu-{name}"),
        }
    }
}

fn names_have_the_values_of_headers(machine: &'static Machine, tools: &Tools) {
    let all = table_parser::values(VALUES, machine.values).flatten();
    let all: Vec<_> = all.flat_map(|values| values.labels).collect();
    // Those that are no names of C: what the kernel calls 0, and signals that have only a number.
    let is_of_c = |name: &str| name != "none" && !name.starts_with("SIGRT_");
    let names = all.iter().map(|label| &*label.label).filter(|name| is_of_c(name));
    let names: BTreeSet<&str> = names.chain(["LINUX_VERSION_CODE"]).collect();
    let folder =
        std::env::temp_dir().join(format!("strata-values-{}-{}", machine.name, std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut known = values(tools, LIBRARY, names.clone(), &folder);
    known.extend(values(tools, KERNEL, names.clone(), &folder));
    std::fs::remove_dir_all(&folder).expect("it was ours");
    for label in all.iter().filter(|label| is_of_c(&label.label)) {
        if let Some(value) = known.get(&label.label) {
            assert_eq!(label.from, *value, "{} on {}", label.label, machine.name);
        }
    }
    let (compared, version) = (known.len(), known.get("LINUX_VERSION_CODE").copied());
    let version_text = version.unwrap_or(0);
    eprintln!(
        "{compared} names compared with {}'s headers of Linux {version_text:#x}",
        machine.name
    );
    let newer: Vec<&str> = NEWER.iter().flat_map(|line| line.split(' ')).collect();
    let is_known = |name: &&str| known.contains_key(*name) || newer.contains(name);
    let unknown: Vec<_> = names.iter().filter(|name| !is_known(name)).collect();
    // Others lack a few that the table has for x86-64.
    if machine.name == arch::X86_64.name && version.is_some_and(|version| version >= 0x6_01_00) {
        assert!(unknown.is_empty(), "no header has {unknown:?}");
    }
    assert!(compared > 500, "{compared} compared");
}

/// The members of structures that differ between machines, by C's names.
const MEMBERS: [(&str, &str); 6] = [
    ("_ino", "st_ino"),
    ("_mode", "st_mode"),
    ("_uid", "st_uid"),
    ("_gid", "st_gid"),
    ("_size", "st_size"),
    ("_mtime_sec", "st_mtim.tv_sec"),
];

#[test]
fn structures_of_every_machine_are_those_of_its_headers() {
    for machine in arch::ALL {
        let Some(tools) = Tools::of(machine) else {
            eprintln!("skipped: missing tool: a C compiler for {}, or an emulator", machine.name);
            continue;
        };
        let folder = std::env::temp_dir();
        let folder = folder.join(format!("strata-members-{}-{}", machine.name, std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut text = String::from(
            "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <stddef.h>\n#include <stdio.h>\n\
             #include <sys/epoll.h>\n#include <sys/stat.h>\nint main(void)\n{\n",
        );
        for (_, member) in MEMBERS {
            text += &format!(
                "printf(\"%zu %zu\\n\", offsetof(struct stat, {member}), sizeof((struct stat){{0}}.{member}));\n"
            );
        }
        text += "printf(\"%zu\\n\", offsetof(struct epoll_event, data));\n\
                 printf(\"%d\\n\", O_DIRECTORY);\n}\n";
        let source = folder.join("members.c");
        std::fs::write(&source, text).expect("a source");
        let printed = tools.run(&source);
        std::fs::remove_dir_all(&folder).expect("it was ours");
        let of_stat = MEMBERS.map(|(name, _)| {
            let member = machine.stat.iter().find(|member| member.name == name).expect("a member");
            format!("{} {}\n", member.at, member.item.bytes())
        });
        let data = if machine.is_epoll_packed { 4 } else { 8 };
        let wanted = format!("{}{data}\n{}\n", of_stat.concat(), machine.o_directory);
        assert_eq!(printed, Ok(wanted), "{}", machine.name);
    }
}
