//! Compiles the BPF programs of `probe/kernel`, each once for each loss mode, for `src/object.rs` to embed.
//!
//! `CLANG` names the compiler; else the newest of those below that is there. Nothing of this is needed on
//! the machine that records.

use std::path::{Path, PathBuf};
use std::process::{exit, Command};

const PROGRAMS: [&str; 5] = ["follow", "hot", "syscalls", "tracepoint", "uprobe"];
/// Also for events with early tests; see record.bpf.h.
const EARLY: [&str; 3] = ["hot", "syscalls", "tracepoint"];
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
    let here = std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    let clang = if here { clang() } else { String::new() };
    let plain = PROGRAMS.into_iter().map(|program| (program, false));
    for (program, is_early) in plain.chain(EARLY.into_iter().map(|program| (program, true))) {
        for mode in MODES {
            let kind = if is_early { ".early" } else { "" };
            let object = out.join(format!("{program}{kind}.{mode}.bpf.o"));
            if !here {
                // `KernelSession::begin` says so.
                write(&object);
                continue;
            }
            compile(&clang, program, mode, is_early, &object);
            strip(&clang, &object);
        }
    }
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    exit(1)
}

fn write(object: &Path) {
    if let Err(error) = std::fs::write(object, []) {
        fail(&format!("{}: {error}", object.display()));
    }
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
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

/// libbpf's own headers, and those of the system for its `linux/bpf.h`.
fn includes() -> Vec<String> {
    let mut all = vec!["-I../../ring/include".to_owned(), "-I../../abi/include".to_owned()];
    if let Ok(path) = std::env::var("DEP_BPF_INCLUDE") {
        all.push(format!("-I{path}"));
    }
    // Debian keeps asm/ there; clang has no such default when it compiles for BPF.
    let multiarch = "/usr/include/x86_64-linux-gnu";
    if Path::new(multiarch).exists() {
        all.push(format!("-I{multiarch}"));
    }
    all
}

fn compile(clang: &str, program: &str, mode: &str, is_early: bool, object: &Path) {
    let source = format!("../../probe/kernel/{program}.bpf.c");
    let mut command = Command::new(clang);
    command
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-ffreestanding", "-std=gnu11"])
        .args([
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-Werror=implicit-function-declaration",
        ])
        .arg("-D__TARGET_ARCH_x86")
        .arg(format!("-DSTRATA_KERNEL_LOSS_MODE=STRATA_RING_{}", mode.to_uppercase()))
        .args(includes())
        .args(is_early.then_some("-DSTRATA_KERNEL_EARLY"))
        .args(["-c", &source, "-o"])
        .arg(object);
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => fail(&format!(
            "{clang} cannot compile {source} ({mode}):\n{}",
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => fail(&format!("{clang}: {error}")),
    }
}

/// Takes out what only a debugger reads; the type information that libbpf needs stays. Half a megabyte less,
/// and no more than that.
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
