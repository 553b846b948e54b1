use super::*;
use std::fs;
use std::path::PathBuf;

/// Below it, what the kernel would show. Taken away at the end.
struct Root(PathBuf);

impl Root {
    /// An ordinary machine, as root.
    fn new(name: &str) -> Root {
        let path =
            std::env::temp_dir().join(format!("strata-doctor-{name}-{}", std::process::id()));
        let root = Root(path);
        root.put("proc/self/status", "CapEff:\t000001ffffffffff\n");
        root.put("proc/self/uid_map", "         0          0 4294967295\n");
        root.put("sys/kernel/btf/vmlinux", [0; 4096]);
        root.put("sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
        root.put("proc/sys/kernel/unprivileged_bpf_disabled", "2\n");
        root.put("proc/sys/kernel/perf_event_paranoid", "2\n");
        root.put("proc/sys/kernel/yama/ptrace_scope", "1\n");
        root.put("proc/sys/net/core/bpf_jit_enable", "1\n");
        root.put("sys/bus/event_source/devices/uprobe/type", "9\n");
        root.put(&clock("current"), "tsc\n");
        root.put(&clock("available"), "tsc hpet acpi_pm\n");
        root.put("sys/devices/system/cpu/possible", "0-3\n");
        root.put("sys/devices/system/cpu/online", "0-1,3\n");
        root.events(
            "sched:sched_switch\nraw_syscalls:sys_enter\nraw_syscalls:sys_exit\nftrace:print\n",
        );
        root
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.0.join(path)).unwrap();
    }

    fn events(&self, text: &str) {
        self.put("sys/kernel/tracing/available_events", text);
    }

    fn machine(&self) -> ExaminedMachine<'_> {
        ExaminedMachine {
            root: &self.0,
            release: "6.1.0-56-cloud-amd64".into(),
            machine: "x86_64".into(),
            capabilities: Capabilities::read(&self.0),
        }
    }

    /// Gives the process these effective capabilities.
    fn may(&self, effective: u64) -> ExaminedMachine<'_> {
        self.put("proc/self/status", format!("CapEff:\t{effective:016x}\n"));
        self.machine()
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn clock(which: &str) -> String {
    format!("sys/devices/system/clocksource/clocksource0/{which}_clocksource")
}

/// Everything but what asks the running kernel.
fn all(machine: &ExaminedMachine<'_>) -> Vec<Finding> {
    let mut all = files::kernel(machine);
    all.extend(rights::findings(machine));
    all.extend(files::tracing(machine));
    all.extend(files::switches(machine));
    all.extend([host::clock(machine), host::cpus(machine)]);
    all
}

/// The finding about it is of this state, and its line and its remedy have these words in them.
fn check(findings: &[Finding], what: &str, state: Readiness, words: [&str; 2]) {
    let found: Vec<_> = findings.iter().filter(|finding| finding.what == what).collect();
    assert_eq!(found.len(), 1, "{what}: {findings:?}");
    assert_eq!(found[0].state, state, "{:?}", found[0]);
    assert!(found[0].detail.contains(words[0]), "{:?}", found[0]);
    assert_eq!(found[0].remedy.is_none(), state == Readiness::Good, "{:?}", found[0]);
    assert!(found[0].remedy.as_deref().unwrap_or_default().contains(words[1]), "{:?}", found[0]);
}

#[test]
fn ordinary_machine_as_root_is_good_in_everything() {
    let root = Root::new("ordinary");
    for finding in all(&root.machine()) {
        assert_eq!(finding.state, Readiness::Good, "{finding:?}");
        assert_eq!(finding.remedy, None, "{finding:?}");
        assert!(!finding.detail.contains('\n'), "{finding:?}");
    }
}

#[test]
fn kernel_that_is_too_old_is_missing() {
    let root = Root::new("old");
    let with = |release: &str| {
        files::kernel(&ExaminedMachine { release: release.into(), ..root.machine() })
    };
    check(
        &with("5.10.0-28-amd64"),
        "kernel",
        Readiness::Missing,
        ["older than 5.15", "newer kernel"],
    );
    check(&with("5.15.0"), "kernel", Readiness::Good, ["5.15.0", ""]);
    check(&with("7.0-rc1"), "kernel", Readiness::Good, ["7.0", ""]);
    check(&with("mine"), "kernel", Readiness::Limited, ["'mine'", "5.15"]);
}

#[test]
fn machine_of_another_architecture_is_missing() {
    let root = Root::new("arm");
    let machine = ExaminedMachine { machine: "riscv64".into(), ..root.machine() };
    check(&files::kernel(&machine), "machine", Readiness::Missing, ["riscv64", "--kernel"]);
    // Nothing is loaded on it.
    check(&bpf::findings(&machine), "BPF programs", Readiness::Limited, ["not tried", "root"]);
}

#[test]
fn type_information_that_is_absent_is_missing() {
    let root = Root::new("btf");
    root.remove("sys/kernel/btf/vmlinux");
    let found = all(&root.machine());
    check(&found, "type information", Readiness::Missing, ["btf", "CONFIG_DEBUG_INFO_BTF"]);
    fs::remove_dir_all(root.0.join("sys")).unwrap();
    check(&all(&root.machine()), "type information", Readiness::Missing, ["btf", "mount -t sysfs"]);
}

#[test]
fn rights_without_capabilities_name_those_that_are_missing() {
    let root = Root::new("rights");
    let found = all(&root.may(1 << 39));
    check(&found, "rights", Readiness::Missing, ["no CAP_PERFMON", "setcap"]);
    assert!(!found[3].detail.contains("CAP_BPF"), "{:?}", found[3]);
    check(
        &all(&root.may(0)),
        "rights",
        Readiness::Missing,
        ["no CAP_BPF, no CAP_PERFMON", "setcap"],
    );
    let found = all(&root.may(1 << 39 | 1 << 38));
    check(&found, "rights", Readiness::Good, ["CAP_BPF and CAP_PERFMON", ""]);
    check(&found, "files of root", Readiness::Limited, ["CAP_DAC_READ_SEARCH", "setcap"]);
    check(
        &bpf::findings(&root.may(0)),
        "BPF programs",
        Readiness::Limited,
        ["not tried", "as root"],
    );
}

#[test]
fn rights_in_a_user_namespace_are_missing() {
    let root = Root::new("namespace");
    root.put("proc/self/uid_map", "0 1000 1\n");
    check(&all(&root.machine()), "rights", Readiness::Missing, ["user namespace", "outside"]);
}

#[test]
fn tracefs_not_mounted_is_missing_with_the_command_to_mount_it() {
    let root = Root::new("tracefs");
    root.remove("sys/kernel/tracing/available_events");
    let found = all(&root.machine());
    check(
        &found,
        "tracefs",
        Readiness::Missing,
        ["neither", "mount -t tracefs nodev /sys/kernel/tracing"],
    );
    assert!(found.iter().all(|finding| finding.what != "tracepoints"), "{found:?}");
    root.put("sys/kernel/debug/tracing/available_events", "sched:sched_switch\n");
    check(&all(&root.machine()), "tracefs", Readiness::Good, ["debug/tracing", ""]);
}

#[test]
fn tracefs_that_cannot_be_read_is_missing_with_the_reason() {
    let root = Root::new("refused");
    root.remove("sys/kernel/tracing/available_events");
    // A loop of links cannot be opened, whoever tries.
    let path = root.0.join("sys/kernel/tracing/available_events");
    std::os::unix::fs::symlink(&path, &path).unwrap();
    check(&all(&root.machine()), "tracefs", Readiness::Missing, ["available_events: ", "remount"]);
}

#[test]
fn system_calls_beyond_the_table_are_named() {
    let root = Root::new("calls");
    let raw = "raw_syscalls:sys_enter\nraw_syscalls:sys_exit\n";
    let calls =
        "syscalls:sys_enter_openat\nsyscalls:sys_exit_openat\nsyscalls:sys_enter_brandnew\n";
    root.events(&format!("{raw}{calls}"));
    let found = all(&root.machine());
    check(&found, "system calls", Readiness::Limited, ["1 kinds; 1 new ones", "newer version"]);
    check(&found, "system calls", Readiness::Limited, ["brandnew", ""]);
    check(&found, "tracepoints", Readiness::Missing, ["none", "CONFIG_FTRACE"]);
    root.events("sched:sched_switch\n");
    check(
        &all(&root.machine()),
        "system calls",
        Readiness::Limited,
        ["no tracepoints", "SYSCALLS"],
    );
}

#[test]
fn lockdown_confidentiality_is_missing_and_integrity_is_good() {
    let root = Root::new("lockdown");
    let with = |text: &str| {
        root.put("sys/kernel/security/lockdown", text);
        all(&root.machine())
    };
    let found = with("none integrity [confidentiality]\n");
    check(&found, "lockdown", Readiness::Missing, ["confidentiality", "lockdown=integrity"]);
    check(
        &with("none [integrity] confidentiality\n"),
        "lockdown",
        Readiness::Good,
        ["integrity", ""],
    );
    check(&with("maybe\n"), "lockdown", Readiness::Limited, ["'maybe'", "not"]);
    root.remove("sys/kernel/security/lockdown");
    check(&all(&root.machine()), "lockdown", Readiness::Good, ["not in this kernel", ""]);
}

#[test]
fn switches_that_are_off_are_named_with_their_sysctl() {
    let root = Root::new("switches");
    root.put("proc/sys/net/core/bpf_jit_enable", "0\n");
    check(&all(&root.machine()), "BPF compiler", Readiness::Limited, ["off", "bpf_jit_enable=1"]);
    root.put("proc/sys/net/core/bpf_jit_enable", "2\n");
    check(&all(&root.machine()), "BPF compiler", Readiness::Limited, ["log", "bpf_jit_enable=1"]);
    root.remove("proc/sys/net/core/bpf_jit_enable");
    check(&all(&root.machine()), "BPF compiler", Readiness::Good, ["cannot be read", ""]);
    root.remove("sys/bus/event_source/devices/uprobe/type");
    check(
        &all(&root.machine()),
        "uprobes",
        Readiness::Limited,
        ["--probe", "CONFIG_UPROBE_EVENTS"],
    );
    root.remove("proc/sys/kernel/unprivileged_bpf_disabled");
    check(
        &all(&root.machine()),
        "unprivileged BPF",
        Readiness::Missing,
        ["bpf()", "CONFIG_BPF_SYSCALL"],
    );
    root.put("proc/sys/kernel/unprivileged_bpf_disabled", "0\n");
    check(&all(&root.machine()), "unprivileged BPF", Readiness::Good, ["allowed", ""]);
}

#[test]
fn perf_event_paranoid_3_is_limited_without_sys_admin_only() {
    let root = Root::new("paranoid");
    root.put("proc/sys/kernel/perf_event_paranoid", "3\n");
    check(&all(&root.machine()), "perf events", Readiness::Good, ["3", ""]);
    let found = all(&root.may(1 << 38 | 1 << 39));
    check(&found, "perf events", Readiness::Limited, ["paranoid 3", "perf_event_paranoid=2"]);
    root.remove("proc/sys/kernel/perf_event_paranoid");
    check(
        &all(&root.machine()),
        "perf events",
        Readiness::Missing,
        ["not there", "CONFIG_PERF_EVENTS"],
    );
}

#[test]
fn running_programs_depend_on_yama_and_on_the_capability() {
    let root = Root::new("yama");
    let scope = |scope: &str, capabilities| {
        root.put("proc/sys/kernel/yama/ptrace_scope", scope);
        all(&root.may(capabilities))
    };
    check(&scope("1\n", 1 << 19), "running programs", Readiness::Good, ["every user", ""]);
    check(&scope("3\n", 1 << 19), "running programs", Readiness::Limited, ["scope 3", "sysctl.d"]);
    check(&scope("3\n", 0), "running programs", Readiness::Limited, ["scope 3", "sysctl.d"]);
    check(&scope("1\n", 0), "running programs", Readiness::Limited, ["scope 1", "ptrace_scope=0"]);
    check(&scope("0\n", 0), "running programs", Readiness::Good, ["your own", ""]);
    root.remove("proc/sys/kernel/yama/ptrace_scope");
    check(&all(&root.may(0)), "running programs", Readiness::Good, ["your own", ""]);
}

#[test]
fn clock_that_needs_a_system_call_is_limited() {
    let root = Root::new("clock");
    root.put(&clock("current"), "hpet\n");
    check(&all(&root.machine()), "clock", Readiness::Limited, ["hpet", "echo tsc"]);
    root.put(&clock("available"), "hpet acpi_pm\n");
    check(&all(&root.machine()), "clock", Readiness::Limited, ["hpet", "tsc=reliable"]);
    root.remove(&clock("current"));
    check(&all(&root.machine()), "clock", Readiness::Limited, ["does not say", "mount -t sysfs"]);
}

#[test]
fn cpus_far_more_possible_than_online_are_limited() {
    let root = Root::new("cpus");
    check(&all(&root.machine()), "CPUs", Readiness::Good, ["3 online, 4 possible", ""]);
    root.put("sys/devices/system/cpu/possible", "0-127\n");
    check(&all(&root.machine()), "CPUs", Readiness::Limited, ["128 possible", "possible_cpus=3"]);
    assert_eq!(host::count("0-3,8"), Some(5));
    assert_eq!(host::count("3-1"), None);
    assert_eq!(host::count(""), None);
}

#[test]
fn limits_of_locked_memory_count_on_old_kernels_only() {
    let root = Root::new("limits");
    let old = ExaminedMachine { release: "5.10.0".into(), ..root.machine() };
    assert_eq!(host::locked(&root.machine(), Some(65_536)), None);
    let found: Vec<_> = host::locked(&old, Some(65_536)).into_iter().collect();
    check(&found, "locked memory", Readiness::Limited, ["64 KiB", "ulimit -l"]);
    let found: Vec<_> = host::locked(&old, None).into_iter().collect();
    check(&found, "locked memory", Readiness::Good, ["not limited", ""]);
    check(&[host::open_files(Some(1024))], "open files", Readiness::Limited, ["341", "ulimit -Hn"]);
    check(
        &[host::open_files(Some(1 << 20))],
        "open files",
        Readiness::Good,
        ["kinds of events", ""],
    );
    check(&[host::open_files(None)], "open files", Readiness::Good, ["not limited", ""]);
}

#[test]
fn examine_of_this_machine_says_each_thing_once_with_a_remedy_unless_good() {
    let found = examine();
    for finding in &found {
        assert_eq!(found.iter().filter(|one| one.what == finding.what).count(), 1, "{finding:?}");
        assert_eq!(finding.remedy.is_none(), finding.state == Readiness::Good, "{finding:?}");
        assert!(!finding.detail.contains('\n'), "{finding:?}");
        println!("{finding:?}");
    }
    let release = rustix::system::uname();
    assert!(found[1].detail.contains(&*release.release().to_string_lossy()), "{:?}", found[1]);
}

#[test]
fn programs_on_a_machine_with_the_rights_are_loaded() {
    let machine = ExaminedMachine {
        root: Path::new("/"),
        release: String::new(),
        machine: rustix::system::uname().machine().to_string_lossy().into_owned(),
        capabilities: Capabilities::of_this_process(),
    };
    let found = bpf::findings(&machine);
    if found.len() == 1 || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        eprintln!("skip: needs CAP_BPF and CAP_PERFMON, x86_64, and a kernel with BTF");
        return;
    }
    assert_eq!(found.len(), 6);
    // Kernels before 6.0 have no large ones.
    for finding in found.iter().filter(|finding| finding.what != "BPF: large rings") {
        assert_eq!(finding.state, Readiness::Good, "{finding:?}");
    }
}
