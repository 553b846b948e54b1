//! Sessions that begin at boot.
//!
//! ```text
//! install-boot   writes a plan, and two units of systemd: one begins the session before any other service and holds in
//!                memory what it records; the other one runs `strata settle` once the disks are there     boot/files.rs
//! settle         what was held is written to the disk, and recording continues there
//! boot-init      the same without systemd, or before it: the kernel starts this program first, which begins the session and
//!                executes the real init                                                        boot/init.rs
//! ```
//!
//! The files of root are written so that no other user can redirect them: through no link, and only over files that
//! are marked as ours. `install-boot --remove` takes back exactly these.
//!
//! Nothing here records. The units run the same commands that a user types (`strata load`, `strata settle`), with a
//! plan whose `settle` part says how much memory the held trace may take and where it goes.
//!
//! # States of a session that begins at boot
//! ```text
//! boot unit: strata load ─▶ records into memory ── settle unit: strata settle ─▶ records to disk ─▶ an ordinary session
//! ```
//!
//! Whatever fails, the machine boots: the units are wanted and not required, and the first process executes the
//! real init in any case. `install-boot` checks all it can when it is typed (paths that systemd can mount, a
//! program that only root can change), since at boot nobody reads a message. docs/guide/boot.md describes this
//! for users; `tests/vm/boot` boots a machine with it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{bail, Context as _, Result};
use serde_json::{json, Map, Value};
use strata_control::{ask, is_name, ControlError, Request};
use strata_session::plan::Plan;

use crate::flags::boot::{InstallBootFlags, SettleFlags};
use crate::sessions::status_fields::{number, text};
use crate::sessions::{done, one_of};
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stdout;
use crate::units::{clean, counted, shell_word, size};
use files::SystemRoot;

mod files;
mod init;

pub use init::run as init;

/// Folder of the plans of sessions that begin at boot, below the root.
pub const PLANS: &str = "etc/strata/boot";
const UNITS: &str = "etc/systemd/system";
/// Folder of the links to the units that begin first.
const WANTS: &str = "etc/systemd/system/sysinit.target.wants";

/// Paths below the root of the files and links that are installed for a session name, in the order in which they are
/// created.
struct Installed {
    files: Vec<(String, String)>,
    links: Vec<(String, String)>,
}

impl Installed {
    fn new(name: &str, program: &str, folder: &str, init: bool) -> Installed {
        let boot = format!("strata-boot-{name}");
        let settle = format!("strata-settle-{name}");
        let mut all = Installed { files: Vec::new(), links: Vec::new() };
        if !init {
            all.files.push((format!("{UNITS}/{boot}.service"), boot_unit(name, program)));
            let own = format!("{UNITS}/{boot}.service.d/{boot}.conf");
            all.files.push((own, format!("{}# It is not ordered behind itself.\n", files::MARK)));
            let order = format!("{UNITS}/service.d/{boot}.conf");
            all.files.push((order, order_text(name)));
            all.links.push((format!("{WANTS}/{boot}.service"), format!("../{boot}.service")));
        }
        let unit = settle_unit(name, program, folder, init);
        all.files.push((format!("{UNITS}/{settle}.service"), unit));
        all.links.push((format!("{WANTS}/{settle}.service"), format!("../{settle}.service")));
        all
    }
}

/// Quotes a path for a unit of systemd, so that it may contain any character. systemd expands no '$' in the path of a
/// program or a mount.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '%' => out.push_str("%%"),
            '"' | '\\' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out + "\""
}

fn boot_unit(name: &str, program: &str) -> String {
    let (mark, program) = (files::MARK, quoted(program));
    format!(
        "{mark}[Unit]
Description=Strata session {name}, from boot on
Documentation=man:strata-install-boot(1)
DefaultDependencies=no
Before=sysinit.target shutdown.target
Conflicts=shutdown.target
IgnoreOnIsolate=yes

[Service]
# It says when it records: only then the next service begins.
Type=notify
ExecStart={program} load {name} --foreground --input /{PLANS}/{name}.json
# Whatever goes wrong, the boot goes on.
TimeoutStartSec=20
# SIGTERM completes the trace. The rest of it only detaches, or holds the memory of programs where the session was killed.
KillMode=process
TimeoutStopSec=120
OOMPolicy=continue
LimitNOFILE=1024:1048576
LimitMEMLOCK=infinity
"
    )
}

/// Returns the unit text that makes other services wait for the session.
fn order_text(name: &str) -> String {
    format!("{}[Unit]\nAfter=strata-boot-{name}.service\n", files::MARK)
}

fn settle_unit(name: &str, program: &str, folder: &str, init: bool) -> String {
    let (mark, program, folder) = (files::MARK, quoted(program), quoted(folder));
    let of_unit = match init {
        true => String::new(),
        false => format!("Requires=strata-boot-{name}.service\nAfter=strata-boot-{name}.service\n"),
    };
    format!(
        "{mark}[Unit]
Description=Strata session {name} goes on on the disk
Documentation=man:strata-settle(1)
DefaultDependencies=no
{of_unit}After=local-fs.target systemd-remount-fs.service
RequiresMountsFor={folder}
Before=shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={program} settle {name}
# Before its disk is unmounted.
ExecStop=-{program} destroy {name}
TimeoutStopSec=120
"
    )
}

/// Runs `strata install-boot`.
pub fn install(flags: &InstallBootFlags) -> Result<u8> {
    let name = &flags.name;
    if !is_name(name) {
        return Err(ControlError::Name { name: clean(name) }.into());
    }
    let root_path = flags.root.as_deref().unwrap_or(Path::new("/"));
    if flags.root.is_none() && !rustix::process::geteuid().is_root() {
        bail!("install-boot: what is begun at boot is root's. Run this as root, or name an image's root folder by --root");
    }
    let root = SystemRoot::open(root_path)?;
    if flags.remove {
        return remove(flags, &root);
    }
    let plan = flags.plan()?;
    let folder = absolute(&flags.output, "-o")?;
    let program = program(flags)?;
    let installed = Installed::new(name, &program, &folder, flags.init);
    let plan_file = format!("{PLANS}/{name}.json");
    // An existing file of one of these names that is not ours belongs to somebody else.
    for (path, _) in &installed.files {
        root.check_ours(path)?;
    }
    for (path, target) in &installed.links {
        root.check_link(path, target)?;
    }
    root.write(&plan_file, &plan.to_json())?;
    for (path, text) in &installed.files {
        root.write(path, text)?;
    }
    for (path, target) in &installed.links {
        root.link(path, target)?;
    }
    let made: Vec<&String> = [&plan_file]
        .into_iter()
        .chain(installed.files.iter().map(|(path, _)| path))
        .chain(installed.links.iter().map(|(path, _)| path))
        .collect();
    let shown: Vec<PathBuf> = made.iter().map(|path| root_path.join(path)).collect();
    if flags.answer.is_json() {
        let facts = json!({ "session": name, "installed": shown, "output": folder });
        stdout::json("install-boot", &facts)?;
        return Ok(0);
    }
    for path in &shown {
        tell(format!("made {}", shell_word(&path.display().to_string())));
    }
    tell(describe(name, &plan, &folder, flags, &program));
    Ok(0)
}

fn tell(text: String) {
    stderr::message(&Message { weight: Weight::Talk, text });
}

/// Describes what will happen at the next boot, and what to type.
fn describe(
    name: &str,
    plan: &Plan,
    folder: &str,
    flags: &InstallBootFlags,
    program: &str,
) -> String {
    let limit = plan.settle.as_ref().map_or(0, |settle| settle.size);
    let begins = match flags.init {
        true => format!(
            "session '{name}' begins at boot once the kernel's command line has: init={program} -- boot-init {name}\n"
        ),
        false => format!("session '{name}' begins at the next boot, before any other service\n"),
    };
    format!(
        "{begins}strata: it holds up to {} in memory ({}), and goes on in {folder} once that is mounted\n\
         strata: after the boot: strata status {name}; strata view -s {name}; strata destroy {name} completes the trace; \
         strata install-boot {name} --remove",
        size(limit),
        plan.output.as_deref().unwrap_or(Path::new("")).display(),
    )
}

/// Returns an absolute path as one line of text. Paths with `..` are refused, since systemd would not find their mount.
fn absolute(path: &Path, flag: &str) -> Result<String> {
    let path = std::path::absolute(path).context("find the working directory")?;
    let goes_up = path.components().any(|step| step == Component::ParentDir);
    match path.to_str() {
        Some(text) if !goes_up && !text.chars().any(char::is_control) => Ok(text.to_owned()),
        _ => bail!(
            "{flag}: '{}': a unit of systemd cannot have this path. Use one without '..' and control characters",
            clean(&path.to_string_lossy())
        ),
    }
}

/// Returns the path of the program that root runs at boot, after checking that only root can change it.
fn program(flags: &InstallBootFlags) -> Result<String> {
    let path = match (&flags.program, &flags.root) {
        (Some(path), _) => path.clone(),
        (None, Some(_)) => PathBuf::from("/usr/bin/strata"),
        (None, None) => std::env::current_exe().context("find this program")?,
    };
    let text = absolute(&path, "--program")?;
    if flags.root.is_some() {
        return Ok(text);
    }
    let real = fs::canonicalize(&path)
        .with_context(|| format!("program '{text}' cannot be run at boot"))?;
    for part in real.ancestors() {
        let found = fs::symlink_metadata(part).with_context(|| part.display().to_string())?;
        if found.uid() != 0 || found.mode() & 0o022 != 0 {
            bail!(
                "program '{text}': is to be run as root at each boot, and others than root can change '{}' (user {}, mode \
                 {:o}). Install strata (make install), or name that one by --program",
                part.display(),
                found.uid(),
                found.mode() & 0o7777
            );
        }
    }
    let dev = |path: &Path| fs::metadata(path).map(|found| found.dev());
    if dev(&real).ok() != dev(Path::new("/")).ok() && !real.starts_with("/usr") {
        let text = format!(
            "program '{text}': is on another file system than /, and may not be there so early"
        );
        stderr::message(&Message { weight: Weight::Warning, text });
    }
    Ok(text)
}

fn remove(flags: &InstallBootFlags, root: &SystemRoot) -> Result<u8> {
    let name = &flags.name;
    let mut removed = Vec::new();
    // However it was installed.
    let installed = Installed::new(name, "", "", false);
    for (path, target) in &installed.links {
        if root.remove_link(path, target)? {
            removed.push(path.clone());
        }
    }
    for (path, _) in &installed.files {
        if root.remove_ours(path)? {
            removed.push(path.clone());
        }
    }
    let plan = format!("{PLANS}/{name}.json");
    if root.remove(&plan)? {
        removed.push(plan);
    }
    root.remove_folder(&format!("{UNITS}/strata-boot-{name}.service.d"))?;
    if removed.is_empty() {
        bail!(
            "session '{name}': nothing is installed under this name in '{}'",
            root.path().display()
        );
    }
    let facts: Map<String, Value> = [("removed".to_owned(), json!(removed))].into_iter().collect();
    let text = format!(
        "{} removed; the session, if it runs, goes on: strata destroy {name}",
        counted(removed.len() as u64, "file")
    );
    Ok(done(&flags.answer, name, facts, text))
}

/// Runs `strata settle`.
pub fn settle(flags: &SettleFlags) -> Result<u8> {
    let (folder, name) = one_of(flags.name.as_deref())?;
    let above = flags.output.as_deref().map(|path| absolute(path, "-o")).transpose()?;
    let request = Request::Settle { folder: above.map(PathBuf::from) };
    let facts = ask(&folder, &name, &request)?;
    let part = facts.get("chunk").or(facts.get("part")).and_then(Value::as_object);
    let held = part.map_or_else(String::new, |part| {
        let path = shell_word(&clean(text(part, "folder")));
        format!(
            ", with what was held in {path} ({})",
            counted(number(part, "records"), "event record")
        )
    });
    let present = shell_word(&clean(text(&facts, "present")));
    Ok(done(&flags.answer, &name, facts, format!("session '{name}' goes on in {present}{held}")))
}

#[cfg(test)]
mod tests;
