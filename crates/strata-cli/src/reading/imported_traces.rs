//! Files of other tracers, such as perf.data: rewritten as traces, which are there for as long as the command runs.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Error, Result};
use strata_ctf::kernel_symbols;
use strata_ctf::model::{stable_hash, temporary_folder, Uuid, STABLE_HASH_OF_NOTHING};
use strata_import::{convert, ImportError, Imported, Origin};
use strata_remote::PrivateCopy;
use strata_session::stop::latest_signal;

use crate::stderr;
use crate::units::{clean, count};

/// The traces that were made from files of other tracers, until [`remove_all`].
static COPIES: Mutex<Vec<ImportedTrace>> = Mutex::new(Vec::new());

/// A trace that was made from a file of another tracer.
struct ImportedTrace {
    copy: PrivateCopy,
    /// The process that removes the copy if this process is killed.
    remover: Option<Child>,
    /// Path of the file, as the user has named it.
    file: PathBuf,
}

/// A shell's script: waits until nobody has the other end of the pipe, and removes a folder.
const REMOVE: &str = "trap '' HUP INT QUIT TERM; while read -r line; do :; done; rm -rf -- \"$1\"";

/// Returns the trace that is made of a file of another tracer; any other path as it is.
pub fn readable(path: PathBuf) -> Result<PathBuf> {
    let Some(origin) = Origin::of(&path) else { return Ok(path) };
    let above = temporary_folder();
    let why = || {
        format!(
            "{}: cannot keep a copy of it, as a trace, in {}. TMPDIR=DIR names another folder",
            clean(&path.display().to_string()),
            above.display()
        )
    };
    let copy = PrivateCopy::make(&above).with_context(why)?;
    let folder = copy.path().join(path.file_name().unwrap_or_default());
    std::fs::create_dir(&folder).with_context(why)?;
    let remover = remover(copy.path());
    let made = ImportedTrace { copy, remover, file: path.clone() };
    COPIES.lock().unwrap_or_else(PoisonError::into_inner).push(made);
    let is_stopped = || latest_signal().is_some();
    let imported = convert(origin, &path, &folder, uuid_of(&path)?, &is_stopped);
    let imported = imported.map_err(|error| {
        let is_of_copy = matches!(&error, ImportError::System { path, .. } if *path == folder);
        match is_of_copy {
            true => Error::new(error).context(why()),
            false => error.into(),
        }
    })?;
    if let Some(symbols) = own_kernel_symbols(&imported) {
        std::fs::write(folder.join(kernel_symbols::FILE), symbols).with_context(why)?;
    }
    let name = clean(&path.display().to_string());
    for remark in &imported.remarks {
        stderr::warn(format!("{name}: {}", clean(remark)));
    }
    if imported.discarded > 0 {
        let discarded = count(imported.discarded);
        stderr::warn(format!(
            "{name}: the tracer has discarded {discarded} records, by its own count"
        ));
    }
    Ok(folder)
}

/// Returns the path of the file from which the trace in this folder was made; the path itself of any other trace.
pub fn original(folder: &Path) -> PathBuf {
    let copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let found = copies.iter().find(|one| folder.starts_with(one.copy.path()));
    found.map_or(folder, |one| &one.file).to_owned()
}

/// Removes all traces that were made from files of other tracers.
pub fn remove_all() {
    let copies = std::mem::take(&mut *COPIES.lock().unwrap_or_else(PoisonError::into_inner));
    for ImportedTrace { copy, remover, .. } in copies {
        drop(copy);
        if let Some(mut remover) = remover {
            drop(remover.stdin.take());
            let _ = remover.wait();
        }
    }
}

/// Starts a process that removes the folder once this one is gone, however it ends: a copy may have gigabytes, and `strata ui` ends by
/// Ctrl-C only. Without a shell, the next command that makes a copy removes it.
fn remover(folder: &Path) -> Option<Child> {
    let folder = std::path::absolute(folder).ok()?;
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", REMOVE, "sh"]).arg(folder).current_dir("/");
    shell.env_clear().env("PATH", "/usr/bin:/bin");
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // Signals of the terminal are for this process.
    shell.process_group(0).spawn().ok()
}

/// Returns a UUID that is the same for the same file, so that data that were stored about the trace can be used
/// again.
fn uuid_of(path: &Path) -> Result<Uuid> {
    let about = path.metadata().with_context(|| path.display().to_string())?;
    let words = [about.dev(), about.ino(), about.len(), about.mtime() as u64];
    let bytes: Vec<u8> = words
        .iter()
        .chain([&(about.mtime_nsec() as u64)])
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    let first = stable_hash(STABLE_HASH_OF_NOTHING, &bytes);
    let second = stable_hash(first, &bytes);
    let mut uuid = [0; 16];
    uuid.iter_mut()
        .zip([first, second].iter().flat_map(|hash| hash.to_ne_bytes()))
        .for_each(|(to, from)| *to = from);
    // Version 8 (own), variant 1.
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(Uuid(uuid))
}

/// Returns the functions of the kernel that runs here, if the file was recorded in this boot of it.
fn own_kernel_symbols(imported: &Imported) -> Option<Vec<u8>> {
    imported.kernel_symbol.as_ref()?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let text = std::fs::read("/proc/kallsyms").ok()?;
    let text = String::from_utf8_lossy(&text);
    is_of(imported, release.trim_end(), &text).then(|| kernel_symbols::of_kallsyms(&text))?
}

/// Returns true if the file is of the kernel with this release and these symbols, and of this boot, as far as the address of a symbol
/// tells. Kernels that do not choose an address by chance all have one address.
fn is_of(imported: &Imported, release: &str, symbols: &str) -> bool {
    let Some((symbol, address)) = &imported.kernel_symbol else { return false };
    let is_release = imported.kernel_release.as_deref() == Some(release);
    // The kernel shows 0 to those who may not see addresses.
    let is_known = is_release && *address != 0;
    is_known
        && symbols.lines().any(|line| {
            let mut words = line.split_ascii_whitespace();
            let found = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
            found == Some(*address) && words.nth(1) == Some(symbol)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_of_a_kernel_whose_release_and_address_it_has() {
        let symbols =
            "ffffffff81000000 T _text\nffffffff81000040 t start\n0000000000000000 T none\n";
        let of = |release: Option<&str>, symbol: &str, address| {
            let kernel_symbol = Some((symbol.to_owned(), address));
            let kernel_release = release.map(str::to_owned);
            is_of(
                &Imported { kernel_symbol, kernel_release, ..Imported::default() },
                "6.1",
                symbols,
            )
        };
        let text = 0xffff_ffff_8100_0000;
        assert!(of(Some("6.1"), "_text", text));
        // Without a random address, that of each kernel is the same.
        assert!(!of(Some("6.2"), "_text", text) && !of(None, "_text", text));
        assert!(!of(Some("6.1"), "_text", text + 1) && !of(Some("6.1"), "_stext", text));
        assert!(!of(Some("6.1"), "none", 0));
        assert!(!is_of(&Imported::default(), "6.1", symbols));
    }
}
