//! The memory that an application shares.

use rustix::fs::{fcntl_add_seals, ftruncate, memfd_create, MemfdFlags, SealFlags};
use rustix::io::pwrite;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use strata_abi::{ring, user};
use strata_user::Application;

/// The memory is made once; a state's description and its sites are where the input says.
struct Shared {
    fd: OwnedFd,
}

impl Shared {
    fn new() -> Shared {
        let fd = memfd_create("strata-fuzz", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .expect("memory to share");
        ftruncate(&fd, user::CHANNELS_OFFSET.into()).expect("memory to share");
        fcntl_add_seals(&fd, SealFlags::SHRINK).expect("memory to share");
        Shared { fd }
    }

    fn put(&self, offset: usize, bytes: &[u8]) {
        let written = pwrite(&self.fd, bytes, offset as u64).expect("memory to share");
        assert_eq!(written, bytes.len());
    }

    fn put_u32(&self, offset: usize, value: u32) {
        self.put(offset, &value.to_ne_bytes());
    }

    /// As an honest process has it.
    fn fill(&self) {
        self.put(offset_of!(user::Control, magic), &user::MAGIC.to_ne_bytes());
        self.put_u32(offset_of!(user::Control, version), user::VERSION);
        self.put_u32(offset_of!(user::Control, pid), std::process::id());
        self.put_u32(offset_of!(user::Control, publish), ring::BY_COMMIT);
        self.put_u32(offset_of!(user::Control, nr_cpus), 1);
        self.put(offset_of!(user::Control, started_ns), &u64::MAX.to_ne_bytes());
    }
}

/// Bytes that a state is made of: where its description is and how long, where its sites are and how many.
const STATE_BYTES: usize = 8;

/// A flag byte; the number of states; states; descriptions. With the flag's lowest bit, bytes of the control page
/// in front of all that.
pub fn run(input: &[u8]) {
    let [flag, nr_states, rest @ ..] = input else { return };
    let shared = Shared::new();
    shared.fill();
    let mut rest = rest;
    if flag & 1 != 0 {
        let (control, behind) = rest.split_at(rest.len().min(256));
        shared.put(0, control);
        rest = behind;
    }
    let nr_states = usize::from(*nr_states % 16).min(rest.len() / STATE_BYTES);
    let (states, descriptions) = rest.split_at(nr_states * STATE_BYTES);
    for (index, state) in states.chunks_exact(STATE_BYTES).enumerate() {
        put_state(&shared, index, state);
    }
    let descriptions = &descriptions[..descriptions.len().min(user::DESCRIPTIONS_BYTES as usize)];
    shared.put(user::DESCRIPTIONS_OFFSET as usize, descriptions);
    if flag & 2 == 0 {
        shared.put_u32(offset_of!(user::Control, nr_states), nr_states as u32);
        let bytes = descriptions.len() as u32;
        shared.put_u32(offset_of!(user::Control, descriptions_bytes), bytes);
    }
    look(shared.fd);
}

fn put_state(shared: &Shared, index: usize, state: &[u8]) {
    let at = user::STATES_OFFSET as usize + index * size_of::<user::State>();
    let half = |at: usize| u32::from(u16::from_le_bytes([state[at], state[at + 1]]));
    shared.put_u32(at + offset_of!(user::State, flags), half(6) >> 8);
    shared.put_u32(at + offset_of!(user::State, description), half(0));
    shared.put_u32(at + offset_of!(user::State, description_bytes), half(2));
    shared.put_u32(at + offset_of!(user::State, sites), half(4));
    shared.put_u32(at + offset_of!(user::State, nr_sites), half(6) & 0xff);
}

/// All that a tracer asks before it records. What is described can be described in a trace.
fn look(fd: OwnedFd) {
    let application = match Application::open(fd, std::process::id()) {
        Ok(application) => application,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(!application.name().is_empty());
    assert!(!application.name().chars().any(char::is_control), "{:?}", application.name());
    let _ = application.refused_tracepoints();
    let _ = (application.session_generations(), application.failed_sessions());
    let _ = application.sites_by_flag();
    match application.tracepoints() {
        Ok(tracepoints) => {
            for tracepoint in tracepoints {
                assert!(tracepoint.level() <= 14);
                tracepoint.event.validate().expect("a tracepoint that was read is valid");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
