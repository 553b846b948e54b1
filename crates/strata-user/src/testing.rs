//! A fake process for tests, which shares memory as in `strata/abi/user.h`: this process, or a child.

use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::fs::{fcntl_add_seals, ftruncate, memfd_create, MemfdFlags, SealFlags};
use rustix::io::{fcntl_setfd, pread, pwrite, FdFlags};
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use strata_abi::{ring, user};

use crate::attach::application::Application;
use crate::attach::shared_memory::{session, state};
use crate::{HeaderChoice, LossMode, Rules, SessionSpec};

/// A tracepoint that a fake process describes.
pub(crate) struct Described<'a> {
    pub provider: &'a str,
    pub name: &'a str,
    pub level: u8,
    pub fields: Vec<Vec<u8>>,
}

impl<'a> Described<'a> {
    pub fn new(provider: &'a str, name: &'a str, level: u8) -> Described<'a> {
        Described { provider, name, level, fields: vec![integer("value")] }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.level, 0];
        bytes.extend((self.fields.len() as u16).to_ne_bytes());
        bytes.extend(42u32.to_ne_bytes());
        for text in [self.provider, self.name, "fake.c"] {
            string(&mut bytes, text);
        }
        bytes.extend(self.fields.concat());
        bytes
    }
}

pub(crate) fn string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u16).to_ne_bytes());
    bytes.extend(text.as_bytes());
}

/// Encodes a field: `fixed` has type, element, bytes, flags, base and length bytes; `count` is the number of elements.
pub(crate) fn field(fixed: [u8; 6], count: u32, name: &str) -> Vec<u8> {
    let mut bytes = fixed.to_vec();
    bytes.extend(0u16.to_ne_bytes());
    bytes.extend(count.to_ne_bytes());
    string(&mut bytes, name);
    bytes
}

pub(crate) fn integer(name: &str) -> Vec<u8> {
    field([user::INTEGER, 0, 8, 0, 10, 0], 0, name)
}

/// The memory of a process, as the process itself sees it.
pub(crate) struct Fake {
    pub fd: OwnedFd,
    pub pid: u32,
    child: Option<Child>,
    forked: bool,
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        if self.forked {
            // SAFETY: a child that only this knows of, and nobody has waited for.
            let _ = unsafe { libc::kill(self.pid as i32, libc::SIGKILL) };
            // SAFETY: the same; nothing is to be stored.
            let _ = unsafe { libc::waitpid(self.pid as i32, std::ptr::null_mut(), 0) };
        }
    }
}

impl Fake {
    /// Makes the memory of this process, without tracepoints, under a name that other tracers do not look for.
    pub fn new() -> Fake {
        Fake::named("strata-test")
    }

    /// Makes the memory of this process, with the memfd name `name`.
    pub fn named(name: &str) -> Fake {
        let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, user::CHANNELS_OFFSET.into()).unwrap();
        fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
        let fake = Fake { fd, pid: std::process::id(), child: None, forked: false };
        fake.put(offset_of!(user::Control, version), &user::VERSION.to_ne_bytes());
        fake.put(offset_of!(user::Control, pid), &fake.pid.to_ne_bytes());
        fake.put(offset_of!(user::Control, publish), &ring::BY_COMMIT.to_ne_bytes());
        fake.put(offset_of!(user::Control, nr_cpus), &1u32.to_ne_bytes());
        let started = crate::Clock::monotonic_ns();
        fake.put(offset_of!(user::Control, started_ns), &started.to_ne_bytes());
        fake.put(offset_of!(user::Control, name), b"fake\n\0garbage");
        fake.put(offset_of!(user::Control, magic), &user::MAGIC.to_ne_bytes());
        fake
    }

    /// Starts a `sleep` that has the memory open, under the name by which tracers find it.
    pub fn spawned() -> Fake {
        Fake::spawned_with(Fake::named(user::MEMFD))
    }

    /// Starts a `sleep` that has the memory open, under a name that tracers do not find.
    pub fn spawned_unseen() -> Fake {
        Fake::spawned_with(Fake::new())
    }

    /// Forks a child that has mapped the memory and does nothing, under a name that tracers do not find.
    pub fn forked() -> Fake {
        Fake::forked_with(Fake::new(), false)
    }

    /// Forks a child as [`forked`](Self::forked) does, under the name that tracers find, with all descriptors
    /// inherited.
    pub fn forked_seen() -> Fake {
        Fake::forked_with(Fake::named(user::MEMFD), true)
    }

    fn forked_with(mut fake: Fake, inherits: bool) -> Fake {
        let bytes = user::CHANNELS_OFFSET as usize;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: at an address that the kernel chooses; nothing refers to it.
        let mapped =
            unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, &fake.fd, 0) };
        let mapped = mapped.unwrap();
        // SAFETY: the child makes system calls only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends with the thread of the test, whatever that ends by.
            let _ = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            if !inherits {
                // Those of tests beside this one, which wait until nobody has them.
                // SAFETY: the child has no more use of any.
                let _ = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
            }
            loop {
                // SAFETY: waits for a signal.
                let _ = unsafe { libc::pause() };
            }
        }
        // SAFETY: what was mapped above; the child has its own.
        unsafe { munmap(mapped, bytes) }.unwrap();
        fake.pid = u32::try_from(child).unwrap();
        fake.forked = true;
        fake.put(offset_of!(user::Control, pid), &fake.pid.to_ne_bytes());
        // Who says that it began before the kernel says so is another one.
        let started = crate::Clock::monotonic_ns();
        fake.put(offset_of!(user::Control, started_ns), &started.to_ne_bytes());
        fake
    }

    fn spawned_with(mut fake: Fake) -> Fake {
        let mut command = Command::new("sleep");
        let number = fake.fd.try_clone().unwrap();
        command.arg("1000");
        // SAFETY: one system call.
        unsafe {
            command.pre_exec(move || Ok(fcntl_setfd(number.as_fd(), FdFlags::empty())?));
        }
        let child = command.spawn().unwrap();
        fake.pid = child.id();
        fake.put(offset_of!(user::Control, pid), &fake.pid.to_ne_bytes());
        let started = crate::Clock::monotonic_ns();
        fake.put(offset_of!(user::Control, started_ns), &started.to_ne_bytes());
        fake.child = Some(child);
        fake
    }

    pub fn kill(&mut self) {
        let child = self.child.as_mut().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub fn open(&self) -> Application {
        Application::open(self.fd.try_clone().unwrap(), self.pid).unwrap()
    }

    pub fn put(&self, offset: usize, bytes: &[u8]) {
        assert_eq!(pwrite(&self.fd, bytes, offset as u64), Ok(bytes.len()));
    }

    pub fn get<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut bytes = [0; N];
        assert_eq!(pread(&self.fd, &mut bytes[..], offset as u64), Ok(N));
        bytes
    }

    pub fn copy(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let mut copy = vec![0; bytes];
        assert_eq!(pread(&self.fd, &mut copy[..], offset as u64), Ok(bytes));
        copy
    }

    pub fn u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.get(offset))
    }

    pub fn u64(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.get(offset))
    }

    pub fn put_u32(&self, offset: usize, value: u32) {
        self.put(offset, &value.to_ne_bytes());
    }

    pub fn put_u64(&self, offset: usize, value: u64) {
        self.put(offset, &value.to_ne_bytes());
    }

    pub fn enabled(&self, index: u32) -> u32 {
        self.u32(state(index) + offset_of!(user::State, enabled))
    }

    pub fn id_at(index: u32, slot: u32) -> usize {
        state(index) + offset_of!(user::State, ids) + 2 * slot as usize
    }

    pub fn id(&self, index: u32, slot: u32) -> u16 {
        u16::from_ne_bytes(self.get(Self::id_at(index, slot)))
    }

    pub fn session_u32(&self, slot: u32, field: usize) -> u32 {
        self.u32(session(slot) + field)
    }

    pub fn session_u64(&self, slot: u32, field: usize) -> u64 {
        self.u64(session(slot) + field)
    }

    /// Describes a tracepoint, as a constructor in a program does. Returns the tracepoint's index.
    pub fn add(&self, described: &Described<'_>, flags: u32, sites: &[user::Site]) -> u32 {
        self.add_bytes(&described.bytes(), flags, sites)
    }

    pub fn add_bytes(&self, bytes: &[u8], flags: u32, sites: &[user::Site]) -> u32 {
        let used_at = offset_of!(user::Control, descriptions_bytes);
        let begin = self.u32(used_at) as usize;
        let base = user::DESCRIPTIONS_OFFSET as usize;
        self.put(base + begin, bytes);
        let sites_at = (begin + bytes.len()).next_multiple_of(8);
        for (number, site) in sites.iter().enumerate() {
            let at = base + sites_at + number * size_of::<user::Site>();
            self.put_u64(at, site.address);
            self.put(at + 8, &site.displacement.to_ne_bytes());
        }
        let end = sites_at + size_of_val(sites);
        self.put_u32(used_at, end as u32);
        let nr_at = offset_of!(user::Control, nr_states);
        let index = self.u32(nr_at);
        self.put_u32(state(index) + offset_of!(user::State, description), begin as u32);
        let bytes = bytes.len() as u32;
        self.put_u32(state(index) + offset_of!(user::State, description_bytes), bytes);
        self.put_u32(state(index) + offset_of!(user::State, sites), sites_at as u32);
        self.put_u32(state(index) + offset_of!(user::State, nr_sites), sites.len() as u32);
        self.put(Self::id_at(index, 0), &[0xff; 2 * user::NR_SESSIONS as usize]);
        self.put_u32(nr_at, index + 1);
        let present = flags | user::STATE_PRESENT;
        self.put_u32(state(index) + offset_of!(user::State, flags), present);
        let generation_at = offset_of!(user::Control, generation);
        self.put_u64(generation_at, self.u64(generation_at) + 1);
        index
    }

    /// Makes a process with three tracepoints that test a flag: `app:start` (4), `app:work` (7), `other:thing` (7).
    pub fn with_tracepoints() -> Fake {
        Fake::new().described()
    }

    pub fn described(self) -> Fake {
        for (provider, name, level) in
            [("app", "start", 4), ("app", "work", 7), ("other", "thing", 7)]
        {
            self.add(&Described::new(provider, name, level), user::STATE_FLAG, &[]);
        }
        self
    }
}

/// Code of this process with call sites in it; never freed, since others may write to it.
pub(crate) struct Text {
    bytes: &'static [AtomicU8],
    pub sites: Vec<user::Site>,
}

impl Text {
    /// Makes code with `sites` dormant sites, 16 bytes apart.
    pub fn new(sites: usize) -> Text {
        let bytes: Vec<AtomicU8> = (0..sites * 16).map(|_| AtomicU8::new(0x90)).collect();
        let bytes: &'static [AtomicU8] = Vec::leak(bytes);
        let sites = bytes.chunks_exact(16).enumerate().map(|(number, code)| {
            let displacement = 0x1234_5600 + number as i32;
            code[0].store(user::SITE_DORMANT, Ordering::Relaxed);
            for (at, byte) in code[1..].iter().zip(displacement.to_ne_bytes()) {
                at.store(byte, Ordering::Relaxed);
            }
            user::Site { address: code.as_ptr() as u64, displacement, reserved: 0 }
        });
        Text { sites: sites.collect(), bytes }
    }

    pub fn set(&self, site: usize, byte: usize, value: u8) {
        self.bytes[site * 16 + byte].store(value, Ordering::Relaxed);
    }

    pub fn opcodes(&self) -> Vec<u8> {
        self.bytes.chunks_exact(16).map(|code| code[0].load(Ordering::Relaxed)).collect()
    }
}

/// Makes a session's request with small buffers.
pub(crate) fn spec(rules: &[&str]) -> SessionSpec {
    SessionSpec {
        rules: Rules::parse(rules).unwrap(),
        filter: None,
        loss_mode: LossMode::Discard,
        subbuf_bytes: 4096,
        nr_subbufs: 2,
        header: HeaderChoice::Auto,
        vtid: true,
        contexts: Default::default(),
        inherit: true,
    }
}

/// Runs one ignored test of this program in a separate process, which `change` prepares.
pub(crate) fn run_alone(
    test: &str,
    change: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static,
) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    // SAFETY: the callers make system calls only.
    unsafe { command.pre_exec(change) };
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
}

/// Changes to another user in a process of [`run_alone`]; works only for root.
pub(crate) fn become_nobody() -> std::io::Result<()> {
    // SAFETY: no memory is involved.
    let group = unsafe { libc::setgid(65534) };
    // SAFETY: no memory is involved.
    let user = unsafe { libc::setuid(65534) };
    match (group, user) {
        (0, 0) => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
