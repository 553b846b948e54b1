//! Compiles the BPF programs of `probe/kernel`, each once for each loss mode, for `src/attach/bpf_objects.rs` to embed.
//!
//! ```text
//! probe/kernel/NAME.bpf.c ── clang, llvm-strip ── NAME.KIND.MODE.bpf.o ─┬─ without lines, deflated ── ….packed
//!                                                                       └─ names of structures ────── structures
//! ```
//!
//! An object names the line of source of each instruction, which takes more than half of it. Only the log of the
//! kernel's verifier and debuggers show them, so they are not shipped. What is left is a tenth when it is deflated.
//!
//! `CLANG` names the compiler; else the newest of those below that is there. Nothing of this is needed on
//! the machine that records.
//!
//! Cargo runs this anew for each profile and for each compiler driver; what was compiled for one of them is kept in
//! `target/bpf`, by what clang was given, and taken from there.

use encoding::{essential, All};
use miniz_oxide::deflate::compress_to_vec;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{exit, Command, Output};
use std::sync::Mutex;

/// Reading of BTF type information, for this build script. Other parts of the module are for the crate.
#[allow(dead_code)]
#[path = "src/discover/btf/encoding.rs"]
mod encoding;

const PROGRAMS: [&str; 7] =
    ["follow", "hot", "numbers", "sample", "syscalls", "tracepoint", "uprobe"];
/// BPF objects that are also built in a variant for events with early tests; see record.bpf.h.
const EARLY: [&str; 3] = ["hot", "syscalls", "tracepoint"];
/// BPF objects that are also built in a variant that counts events instead of recording them; see count.bpf.h.
const COUNT: [&str; 4] = ["hot", "syscalls", "tracepoint", "uprobe"];
/// BPF objects that are also built in a variant for system calls that waited; see waited_calls.bpf.h.
const WAITED: [&str; 1] = ["syscalls"];
/// BPF objects that are also built in a variant whose programs may wait for user memory; see uprobe.bpf.c.
const SLEEPABLE: [&str; 1] = ["uprobe"];
/// Machines of the kernel layer: the compiler's name and libbpf's, as in `src/arch` and `probe/kernel/arch`.
const MACHINES: [(&str, &str); 2] = [("x86_64", "x86"), ("aarch64", "arm64")];
const MODES: [&str; 2] = ["discard", "overwrite"];
const CLANGS: [&str; 8] =
    ["clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14", "clang"];

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-env-changed=LLVM_STRIP");
    for folder in ["../../probe/kernel", "../../abi/include", "../../ring/include"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    let here = machine().is_some();
    let clang = if here { clang() } else { String::new() };
    let version = if here { version(&clang) } else { Vec::new() };
    let kept = kept(&out);
    let plain = PROGRAMS.into_iter().map(|program| (program, ""));
    let early = EARLY.into_iter().map(|program| (program, "early"));
    let sleepable = SLEEPABLE.into_iter().map(|program| (program, "sleepable"));
    let waited = WAITED.into_iter().map(|program| (program, "waited"));
    let waiting = SLEEPABLE.into_iter().map(|program| (program, "sleepable.count"));
    let counting = COUNT.into_iter().map(|program| (program, "count")).chain(waiting);
    let mut variants: Vec<Variant<'_>> =
        counting.map(|(program, kind)| (program, MODES[0], kind)).collect();
    for (program, kind) in plain.chain(early).chain(waited).chain(sleepable) {
        variants.extend(MODES.map(|mode| (program, mode, kind)));
    }
    let left = Mutex::new(variants.into_iter());
    let structures = Mutex::new(BTreeSet::new());
    let work = || loop {
        let Some(variant) = left.lock().ok().and_then(|mut left| left.next()) else { return };
        let (program, mode, kind) = variant;
        let dot = if kind.is_empty() { "" } else { "." };
        let object = out.join(format!("{program}{dot}{kind}.{mode}.bpf.o"));
        if here {
            make(&clang, &version, kept.as_deref(), variant, &object);
            let mut bytes = std::fs::read(&object).unwrap_or_else(|error| broken(&object, &error));
            if bytes.is_empty() {
                // A compiler that makes none, as tests/fuzz/run has one.
                write(&packed(&object), &[]);
                continue;
            }
            let names =
                names(&bytes).unwrap_or_else(|| broken(&object, &"it has no type information"));
            if let Ok(mut structures) = structures.lock() {
                structures.extend(names);
            }
            if remove_lines(&mut bytes).is_none() {
                broken(&object, &"its table of lines is not as clang writes it");
            }
            write(&packed(&object), &pack(&bytes));
        } else {
            // `KernelSession::begin` says so.
            write(&packed(&object), &[]);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    let names = structures.into_inner().unwrap_or_default();
    write(&out.join("structures"), names.into_iter().collect::<Vec<_>>().join("\n").as_bytes());
}

/// Returns the path of the packed form of an object, which is embedded into the crate.
fn packed(object: &Path) -> PathBuf {
    object.with_extension("packed")
}

/// Returns the packed form of an object: its size, then its bytes, deflated.
fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::from((bytes.len() as u64).to_le_bytes());
    all.extend(compress_to_vec(bytes, 9));
    all
}

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<usize> {
    let mut all = [0; 8];
    all[..BYTES].copy_from_slice(bytes.get(at..at.checked_add(BYTES)?)?);
    usize::try_from(u64::from_le_bytes(all)).ok()
}

/// Returns the range of bytes that a section has in a 64-bit ELF file; `None` if the file has no such section.
fn section(elf: &[u8], wanted: &str) -> Option<Range<usize>> {
    let header = |at: usize| Some(number::<8>(elf, 0x28)? + 64 * at);
    let place = |header: usize| {
        let begin = number::<8>(elf, header + 24)?;
        Some(begin..begin + number::<8>(elf, header + 32)?)
    };
    let names = place(header(number::<2>(elf, 0x3e)?)?)?;
    let is_wanted = |header: &usize| {
        let name = || elf.get(names.start + number::<4>(elf, *header)?..names.end);
        let name = name().unwrap_or_default();
        name.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    };
    let all = (0..number::<2>(elf, 0x3c)?).filter_map(header);
    place(all.into_iter().find(is_wanted)?)
}

/// Returns the names of the structures that the object's programs refer to.
fn names(elf: &[u8]) -> Option<Vec<String>> {
    let all = All::read(elf.get(section(elf, ".BTF")?)?)?;
    let named = all.types.iter().filter(|of| of.is_composite()).filter_map(|of| all.name(of));
    let names = named.map(essential).filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8(name.to_vec()).ok()).collect()
}

/// Overwrites with zeroes the line information in an object's `.BTF.ext`, and the relocations of this section and of
/// `.BTF`. libbpf uses neither.
fn remove_lines(elf: &mut [u8]) -> Option<()> {
    for name in [".rel.BTF", ".rel.BTF.ext"] {
        if let Some(place) = section(elf, name) {
            elf.get_mut(place)?.fill(0);
        }
    }
    // The header has its own size at 4, and the place and size of the lines at 16 and 20 (struct btf_ext_header).
    let header = section(elf, ".BTF.ext")?.start;
    let begin = header + number::<4>(elf, header + 4)? + number::<4>(elf, header + 16)?;
    let bytes = number::<4>(elf, header + 20)?;
    elf.get_mut(begin..begin + bytes)?.fill(0);
    elf.get_mut(header + 20..header + 24)?.fill(0);
    Some(())
}

/// Returns the folder `target/bpf`, in which compiled objects are kept. `out`:
/// `target/PROFILE/build/strata-kernel-HASH/out` or a folder one level below; tests have a target folder within
/// the target folder.
fn kept(out: &Path) -> Option<PathBuf> {
    let is_target = |folder: &&Path| folder.join("CACHEDIR.TAG").exists();
    let target = out.ancestors().find(is_target)?;
    let target = target.parent().filter(is_target).unwrap_or(target);
    let kept = target.join("bpf");
    std::fs::create_dir_all(&kept).ok()?;
    Some(kept)
}

/// The variant of a BPF object: its source's name, its loss mode, and its purpose: "", "count", "early", "sleepable"
/// or "sleepable.count".
type Variant<'a> = (&'a str, &'a str, &'a str);

/// Compiles a BPF object into the file `object`, or copies it from `kept` if the same source was compiled before.
fn make(clang: &str, version: &[u8], kept: Option<&Path>, variant: Variant<'_>, object: &Path) {
    let command = |last: &[&str]| {
        let mut command = compiler(clang, variant);
        command.args(last).output()
    };
    // What the preprocessor makes of it has all headers in it, and their paths, but that of libbpf's is of this build.
    let text = command(&["-E", "-o", "-"])
        .ok()
        .filter(|text| text.status.success() && !text.stdout.is_empty());
    let kept = kept.zip(text).map(|(kept, text)| {
        let libbpf = std::env::var("DEP_BPF_INCLUDE").unwrap_or_else(|_| "-".to_owned());
        let text = String::from_utf8_lossy(&text.stdout).replace(&libbpf, "LIBBPF");
        let mut hasher = DefaultHasher::new();
        (version, text, flags(variant), std::env::var_os("LLVM_STRIP")).hash(&mut hasher);
        let name = object.file_name().unwrap_or_default().to_string_lossy();
        kept.join(format!("{:016x}-{name}", hasher.finish()))
    });
    if kept.as_ref().is_some_and(|kept| std::fs::copy(kept, object).is_ok()) {
        return;
    }
    compile(clang, variant, object);
    strip(clang, object);
    // Another build may be at the same, so that it comes to its name whole.
    if let Some(kept) = kept {
        let new = kept.with_extension(std::process::id().to_string());
        let copied = std::fs::copy(object, &new).and_then(|_| std::fs::rename(&new, &kept));
        if copied.is_err() {
            let _ = std::fs::remove_file(&new);
        }
    }
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    exit(1)
}

fn broken(file: &Path, error: &dyn Display) -> ! {
    fail(&format!("{}: {error}", file.display()))
}

fn write(file: &Path, bytes: &[u8]) {
    if let Err(error) = std::fs::write(file, bytes) {
        broken(file, &error);
    }
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns the version text of clang, so that a cached object of another compiler is not used.
fn version(clang: &str) -> Vec<u8> {
    Command::new(clang)
        .arg("--version")
        .output()
        .map(|Output { stdout, .. }| stdout)
        .unwrap_or_default()
}

fn clang() -> String {
    if let Ok(clang) = std::env::var("CLANG") {
        if runs(&clang) {
            return clang;
        }
        fail(&format!(
            "CLANG is '{clang}', which does not run. Name a clang of version 14 or later"
        ));
    }
    CLANGS.into_iter().find(|clang| runs(clang)).map_or_else(
        || {
            fail(
                "the kernel's programs are compiled with clang, version 14 or later, and there is none. \
                 Install it (Debian, Ubuntu: apt install clang; Fedora: dnf install clang), or set CLANG",
            )
        },
        str::to_owned,
    )
}

/// Returns the folders of header files: those of libbpf, and those of the system for `linux/bpf.h`.
fn includes() -> Vec<String> {
    let mut all = vec!["-I../../ring/include".to_owned(), "-I../../abi/include".to_owned()];
    if let Ok(path) = std::env::var("DEP_BPF_INCLUDE") {
        all.push(format!("-I{path}"));
    }
    // Debian keeps asm/ there; clang has no such default when it compiles for BPF. That of the machine that compiles: the
    // few types that are needed are the same on all.
    let folders = MACHINES.map(|(name, _)| format!("/usr/include/{name}-linux-gnu"));
    all.extend(
        folders.iter().find(|folder| Path::new(folder).exists()).map(|it| format!("-I{it}")),
    );
    all
}

/// Returns the name that libbpf's headers use for the machine on which the programs will run; `None` if the kernel
/// layer does not support that machine.
fn machine() -> Option<&'static str> {
    let target = std::env::var("CARGO_CFG_TARGET_ARCH").ok()?;
    MACHINES.into_iter().find(|(name, _)| *name == target).map(|(_, name)| name)
}

fn flags((_, mode, kind): Variant<'_>) -> Vec<String> {
    let mut all: Vec<_> =
        ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-ffreestanding", "-std=gnu11"]
            .into_iter()
            .chain([
                "-Wall",
                "-Wextra",
                "-Wno-unused-parameter",
                "-Werror=implicit-function-declaration",
            ])
            .map(str::to_owned)
            .collect();
    all.extend(machine().map(|name| format!("-D__TARGET_ARCH_{name}")));
    all.push(format!("-DSTRATA_KERNEL_LOSS_MODE=STRATA_RING_{}", mode.to_uppercase()));
    let kinds = kind.split('.').filter(|kind| !kind.is_empty());
    all.extend(kinds.map(|kind| format!("-DSTRATA_KERNEL_{}", kind.to_uppercase())));
    // One object for events with early tests and for those without.
    if kind.ends_with("count") {
        all.push("-DSTRATA_KERNEL_EARLY".to_owned());
    }
    all
}

fn source((program, ..): Variant<'_>) -> String {
    format!("../../probe/kernel/{program}.bpf.c")
}

fn compiler(clang: &str, variant: Variant<'_>) -> Command {
    let mut command = Command::new(clang);
    command.args(flags(variant)).args(includes()).arg(source(variant));
    command
}

fn compile(clang: &str, variant: Variant<'_>, object: &Path) {
    match compiler(clang, variant).args(["-c", "-o"]).arg(object).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => fail(&format!(
            "{clang} cannot compile {} ({}):\n{}",
            source(variant),
            variant.1,
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => fail(&format!("{clang}: {error}")),
    }
}

/// Removes debug information from an object, which saves half a megabyte. The type information that libbpf
/// needs stays.
fn strip(clang: &str, object: &Path) {
    let beside =
        clang.rfind("clang").map(|at| format!("{}llvm-strip{}", &clang[..at], &clang[at + 5..]));
    let tool = std::env::var("LLVM_STRIP").ok().or(beside).unwrap_or_else(|| "llvm-strip".into());
    for tool in [tool.as_str(), "llvm-strip"] {
        let output = Command::new(tool).arg("-g").arg(object).output();
        if output.is_ok_and(|output| output.status.success()) {
            return;
        }
    }
}
