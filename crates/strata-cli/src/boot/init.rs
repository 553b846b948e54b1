//! Runs as the machine's first process, if the kernel's command line names it: begins the session, and then executes
//! the usual first process. Whatever fails, the machine boots.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use rustix::mount::{mount, MountFlags};

use super::PLANS;
use crate::flags::boot::BootInitFlags;
use crate::stderr;

/// Period at which the session is checked for its end.
const LOOK: Duration = Duration::from_millis(50);
/// Programs that the kernel tries as the first process.
const INITS: [&str; 4] = ["/sbin/init", "/etc/init", "/bin/init", "/bin/sh"];

/// Runs `strata boot-init`. Returns only if there is no program to execute.
pub fn run(flags: &BootInitFlags) -> Result<u8> {
    if std::process::id() != 1 {
        bail!(
            "boot-init: is the machine's first process, and this one is {}. Add to the kernel's command line: \
             init=/usr/bin/strata -- boot-init {}",
            std::process::id(),
            flags.name
        );
    }
    let (name, patience) = (flags.name.clone(), flags.timeout);
    let begun = std::panic::catch_unwind(move || begin(&name, patience));
    match begun {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            stderr::failure(&format!(
                "session '{}' does not record the boot: {error:#}",
                flags.name
            ));
        }
        Err(_) => stderr::failure("the boot is not recorded"),
    }
    let inits: Vec<OsString> = INITS.map(OsString::from).to_vec();
    let (first, arguments) = match flags.init.split_first() {
        Some((init, arguments)) => (vec![init.clone()], arguments),
        None => (inits, &[][..]),
    };
    let mut why = String::new();
    for init in first {
        let error = Command::new(&init).args(arguments).exec();
        why = format!("{}: {error}", init.to_string_lossy());
    }
    bail!("boot-init: nothing to go on with: {why}")
}

/// Mounts the file systems that a session needs, and starts the session; the boot waits for it at most for `patience`.
fn begin(name: &str, patience: Duration) -> Result<()> {
    let none = MountFlags::NOSUID | MountFlags::NODEV;
    let is_there = |path: &str| Path::new(path).exists();
    let make = |kind: &str, path: &str, flags: MountFlags, data: Option<&std::ffi::CStr>| {
        mount(kind, path, kind, flags, data).with_context(|| format!("mount {path}"))
    };
    if !is_there("/proc/self") {
        make("proc", "/proc", none | MountFlags::NOEXEC, None)?;
    }
    if !is_there("/sys/kernel") {
        make("sysfs", "/sys", none | MountFlags::NOEXEC, None)?;
    }
    if !is_there("/dev/null") {
        make("devtmpfs", "/dev", MountFlags::NOSUID, None)?;
    }
    let device = |path: &str| fs::metadata(path).map(|found| found.dev());
    if device("/run").context("find /run")? == device("/").context("find /")? {
        // If these are missing, systemd makes its own.
        make("tmpfs", "/run", none, Some(c"mode=0755,size=20%"))?;
    }
    let address = format!("strata-boot-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&address)?)?;
    socket.set_read_timeout(Some(LOOK))?;
    let log = || match OpenOptions::new().write(true).open("/dev/kmsg") {
        Ok(file) => Stdio::from(file),
        Err(_) => Stdio::null(),
    };
    let mut child = Command::new(std::env::current_exe().context("find this program")?)
        .args(["load", name, "--foreground", "--input", &format!("/{PLANS}/{name}.json")])
        .env("NOTIFY_SOCKET", format!("@{address}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log())
        .process_group(0)
        .spawn()
        .context("start the session's process")?;
    let begin = Instant::now();
    while begin.elapsed() < patience {
        let mut said = [0; 64];
        if socket.recv(&mut said).is_ok_and(|bytes| said[..bytes].starts_with(b"READY=1")) {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            bail!("its process ended with {status}; its messages are in the kernel's log (dmesg)");
        }
    }
    bail!("it has not started after {patience:?}; the boot continues without it")
}
