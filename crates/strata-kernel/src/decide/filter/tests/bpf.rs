//! Runs the same tests by the BPF program, `probe/kernel/filter.bpf.h`, in this machine's kernel.

use std::fs;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use strata_random::Random;

use libbpf_rs::{Object, ObjectBuilder, ProgramInput};
use rustix::thread::{gettid, sched_setaffinity, set_name, CpuSet};
use strata_abi::kernel;
use strata_filter::Filter;

use super::super::{cgroup, compile, Compiled, SyscallEnd};
use super::random::{record, Writer};
use super::world::{event, event_of_call, passes, Record, Task};

/// Compilers that the programs are built with; if none is installed, the one that is.
const CLANGS: [&str; 2] = ["clang-14", "clang-19"];

/// Has the thread on CPU 0 from now on, with a name that filters have.
fn this_task() -> Result<Task, String> {
    // PROC_PID_INIT_INO of the kernel's linux/proc_ns.h.
    let namespace = fs::read_link("/proc/self/ns/pid").map_err(|error| error.to_string())?;
    if namespace != Path::new("pid:[4026531836]") {
        return Err("the process ids here are not those that the kernel's programs see".to_string());
    }
    let mut cpus = CpuSet::new();
    cpus.set(0);
    sched_setaffinity(None, &cpus).map_err(|error| format!("CPU 0: {error}"))?;
    set_name(c"abcdefghijklmno").map_err(|error| error.to_string())?;
    let mut comm = [0; 16];
    comm[..15].copy_from_slice(b"abcdefghijklmno");
    let groups = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let id = |path: &str| cgroup::id(path.as_bytes(), String::new).ok();
    Ok(Task {
        pid: std::process::id(),
        tid: gettid().as_raw_nonzero().get() as u32,
        cpu: 0,
        cgroup: group.and_then(id).ok_or("no control group of version 2")?,
        root_cgroup: id("/"),
        comm,
    })
}

/// CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN.
fn may_load() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = capabilities.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    let has = |number: u32| bits.is_some_and(|bits| bits >> number & 1 != 0);
    has(21) || (has(38) && has(39))
}

/// The program compiled, or why it cannot be.
fn object(clang: &str, folder: &Path) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = folder.join(format!("{clang}.o"));
    let mut command = Command::new(clang);
    command.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-ffreestanding"]);
    command.arg(match std::env::consts::ARCH {
        "aarch64" => "-D__TARGET_ARCH_arm64",
        _ => "-D__TARGET_ARCH_x86",
    });
    command.args(["-Wall", "-Wextra", "-Werror", "-c"]);
    command.arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH));
    for include in ["abi/include", "ring/include", "probe/kernel"] {
        command.arg(format!("-I{}", root.join(include).display()));
    }
    command.arg(root.join("crates/strata-kernel/tests/filter/filter.bpf.c"));
    let found =
        command.arg("-o").arg(&out).output().map_err(|_| format!("missing tool {clang}"))?;
    assert!(found.status.success(), "{clang}: {}", String::from_utf8_lossy(&found.stderr));
    Ok(out)
}

/// The programs with the filter as their constant.
fn load(object: &Path, filter: &kernel::Filter) -> Object {
    let mut open = ObjectBuilder::default().open_file(object).expect("an object of clang");
    let mut maps = open.maps_mut();
    let mut constants =
        maps.find(|map| map.name().to_string_lossy().ends_with(".rodata")).expect(".rodata");
    let memory = constants.initial_value_mut().expect("memory of .rodata");
    let at = offset_of!(kernel::Event, filter);
    // SAFETY: plain integers without padding, and lives as long as the slice.
    let bytes = unsafe {
        std::slice::from_raw_parts(
            std::ptr::from_ref(filter).cast::<u8>(),
            size_of::<kernel::Filter>(),
        )
    };
    memory[at..at + bytes.len()].copy_from_slice(bytes);
    drop(maps);
    open.load().unwrap_or_else(|error| panic!("{filter:?}: {error:?}"))
}

/// Instructions verified, and left, of each program.
fn sizes(object: &Object) -> Vec<(String, u32, u32)> {
    let mut sizes = Vec::new();
    for program in object.progs() {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut bytes = size_of_val(&info) as u32;
        // SAFETY: the size is that of the memory.
        let result = unsafe {
            libbpf_sys::bpf_obj_get_info_by_fd(
                program.as_fd().as_raw_fd(),
                std::ptr::from_mut(&mut info).cast(),
                &mut bytes,
            )
        };
        assert_eq!(result, 0, "bpf_obj_get_info_by_fd");
        let name = program.name().to_string_lossy().into_owned();
        sizes.push((name, info.verified_insns, info.xlated_prog_len / 8));
    }
    sizes
}

/// Runs the filter on all records. `is_call` chooses the program that reads the fields as a system call's.
fn verify(object: &Object, filter: &kernel::Filter, is_call: bool, text: &str, records: &[Record]) {
    for program in object.progs_mut().filter(|program| is_call == (program.name() == "from_call")) {
        for record in records {
            let mut context = record.bytes;
            let input = ProgramInput { context_in: Some(&mut context), ..Default::default() };
            let found = program.test_run(input).expect("a run").return_value;
            let wanted = u32::from(passes(filter, record));
            assert_eq!(found, wanted, "{text}\n{:?}\n{record:?}\n{filter:?}", program.name());
        }
    }
}

/// Returns the filter with comparisons that the compiler never makes.
fn with_or_equal(mut filter: kernel::Filter) -> kernel::Filter {
    for test in &mut filter.test {
        test.comparison = match test.comparison {
            kernel::LESS => kernel::LESS_OR_EQUAL,
            kernel::LESS_SIGNED => kernel::LESS_EQ_SIGNED,
            other => other,
        };
    }
    filter
}

/// Folder, compiled programs, and the task that they are run in; says why not.
fn setup() -> Option<(tempfolder::Folder, Vec<PathBuf>, Task)> {
    if !may_load() {
        eprintln!("skip: loading BPF needs root, or CAP_BPF and CAP_PERFMON");
        return None;
    }
    let task = this_task().map_err(|why| eprintln!("skip: {why}")).ok()?;
    let folder = tempfolder::Folder::new();
    let compile = |clang| object(clang, &folder.0).map_err(|why| eprintln!("skip: {why}")).ok();
    let mut objects: Vec<PathBuf> = CLANGS.into_iter().filter_map(compile).collect();
    if objects.is_empty() {
        objects.extend(compile("clang"));
    }
    (!objects.is_empty()).then_some((folder, objects, task))
}

mod tempfolder {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    static NUMBER: AtomicU32 = AtomicU32::new(0);

    /// Removed at the end of the test.
    pub struct Folder(pub PathBuf);

    impl Folder {
        pub fn new() -> Folder {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("strata-filter-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).expect("a folder for temporary files");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

#[test]
fn program_with_random_filters_gives_the_verdicts_of_the_tests() {
    let Some((_folder, objects, task)) = setup() else { return };
    let random = &mut Random::new();
    let events = [event(), event_of_call()];
    let (mut nr_filters, mut nr_early, mut verdicts) = (0, [0; 2], [0_u32; 2]);
    // Chance may write few early tests.
    while nr_filters < 64 || (nr_filters < 640 && nr_early.iter().any(|count| *count <= 5)) {
        let ids = vec![task.pid.into(), task.tid.into(), task.cpu.into(), task.cgroup];
        let has_cgroups = task.root_cgroup.is_some();
        let depth = random.below(4);
        let text = Writer { random, ids, has_cgroups, anything: false }.filter(depth);
        let filter = Filter::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let is_call = nr_filters % 2 == 1;
        let Ok(Compiled::Tests(filter)) =
            compile(&filter, &events[usize::from(is_call)], SyscallEnd::Entry)
        else {
            continue;
        };
        nr_early[usize::from(is_call)] += usize::from(filter.nr_early > 0);
        let filter = if nr_filters % 4 < 2 { filter } else { with_or_equal(filter) };
        nr_filters += 1;
        let records: Vec<Record> = (0..20).map(|_| record(random, task)).collect();
        for record in &records {
            verdicts[usize::from(passes(&filter, record))] += 1;
        }
        for object in &objects {
            verify(&load(object, &filter), &filter, is_call, &text, &records);
        }
    }
    println!("{nr_filters} filters, {nr_early:?} early: rejected and passed {verdicts:?}");
    assert!(nr_early.iter().all(|count| *count > 5), "{nr_early:?}");
    assert!(verdicts.iter().all(|count| *count > 200), "{verdicts:?}");
}

#[test]
fn program_with_as_many_tests_as_there_can_be_is_verified() {
    let Some((_folder, objects, task)) = setup() else { return };
    let random = &mut Random::new();
    let each = |count: usize, part: &dyn Fn(usize) -> String, between: &str| {
        (0..count).map(part).collect::<Vec<_>>().join(between)
    };
    let texts = [
        format!("odd in {{{}}}", each(24, &|i| (i * 3).to_string(), ", ")),
        each(24, &|i| format!("odd_ret != {i}"), " && "),
        format!("ret in {{{}}}", each(12, &|i| format!("{} ... {}", i * 30, i * 30 + 9), ", ")),
        each(12, &|i| format!("(half == \"a*\" || short != \"{i}\")"), " && "),
        each(12, &|i| format!("half == \"abcdefghijklmno\" && prev_comm != \"{i}\""), " && "),
        each(8, &|i| format!("(comm == \"a*\" && cgroup < {} || pid > {i})", i + 1), " || "),
        each(6, &|i| format!("(len > {i} && prio < {i} || tid & 1 == 1 && cpu == 0)"), " && "),
    ];
    let event = event();
    for text in &texts {
        let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let Ok(Compiled::Tests(filter)) = compile(&filter, &event, SyscallEnd::Entry) else {
            panic!("{text}: {:?}", compile(&filter, &event, SyscallEnd::Entry));
        };
        assert_eq!(filter.nr_tests as usize, kernel::TESTS_MAX, "{text}");
        let records: Vec<Record> = (0..200).map(|_| record(random, task)).collect();
        for path in &objects {
            let object = load(path, &filter);
            verify(&object, &filter, false, text, &records);
            for (program, verified, left) in sizes(&object) {
                println!("{:?} {program}: {verified} verified, {left} left", path.file_name());
                // The limit is a million.
                assert!(verified < 20_000, "{text}: {verified} instructions verified");
                assert!(left < 2_000, "{text}: {left} instructions left");
            }
        }
    }
    for path in &objects {
        let sizes = sizes(&load(path, &kernel::Filter::default()));
        println!("no filter: {sizes:?}");
        let left = sizes.iter().find(|(name, ..)| name == "from_context").map(|size| size.2);
        assert!(left.is_some_and(|left| left < 20), "{sizes:?}: nothing of the filter is left");
    }
}
