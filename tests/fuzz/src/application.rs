//! The memory that an application shares, and how it announces itself.

mod session;

use rustix::fs::{fcntl_add_seals, ftruncate, memfd_create, MemfdFlags, SealFlags};
use rustix::io::pwrite;
use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{waitid, Pid, WaitId, WaitIdOptions};
use std::io::IoSlice;
use std::mem::{offset_of, MaybeUninit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::OnceLock;
use strata_abi::{ring, user};
use strata_model::EventClass;
use strata_user::{Application, Launch, Received};

/// A process that has ended, and has a number as long as this program runs: nobody's code is touched, whatever the
/// memory says of it.
fn nobody() -> u32 {
    static NOBODY: OnceLock<Child> = OnceLock::new();
    let ended = || {
        let child = Command::new("/bin/true").spawn().expect("a process");
        // Its number is its own until somebody asks for its status, and nobody does.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), look).expect("its end");
        child
    };
    NOBODY.get_or_init(ended).id()
}

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

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn grow(&self, bytes: u64) {
        ftruncate(&self.fd, bytes).expect("memory to share");
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
        self.put_u32(offset_of!(user::Control, pid), 1);
        self.put_u32(offset_of!(user::Control, publish), ring::BY_COMMIT);
        self.put_u32(offset_of!(user::Control, nr_cpus), 1);
        self.put(offset_of!(user::Control, started_ns), &u64::MAX.to_ne_bytes());
    }
}

/// Bytes that a state is made of: where its description is and how long, where its sites are and how many.
const STATE_BYTES: usize = 8;

/// A flag byte; the number of states; states; descriptions. With the flag's lowest bit, bytes of the control page
/// in front of all that. With the next but one there is a session, and what is written to it: 20 bytes before it is
/// taken over, 20 afterwards. With the one behind, 16 bytes that the process announces itself with.
pub fn run(input: &[u8]) {
    let [flag, nr_states, rest @ ..] = input else { return };
    let shared = Shared::new();
    shared.fill();
    let mut rest = rest;
    let mut take = |wanted: bool, bytes: usize| {
        let (taken, behind) = rest.split_at(if wanted { rest.len().min(bytes) } else { 0 });
        rest = behind;
        taken
    };
    let has_session = flag & 4 != 0;
    let (writes, later) = (take(has_session, 20), take(has_session, 20));
    let announcement = take(flag & 8 != 0, size_of::<user::Announcement>());
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
    if has_session {
        session::fill(&shared, nr_states);
        session::write(&shared, writes);
    }
    let fd = match flag & 8 != 0 {
        true => announced(&shared, announcement),
        false => Some(shared.fd.try_clone().expect("a descriptor")),
    };
    let Some(application) = fd.and_then(look) else { return };
    if has_session {
        session::take_over(&shared, &application, later);
    }
}

/// The memory as it comes with this message, or nothing: then that is counted.
fn announced(shared: &Shared, text: &[u8]) -> Option<OwnedFd> {
    let launch = Launch::new().expect("sockets");
    let theirs = launch.child_fd().try_clone_to_owned().expect("a descriptor");
    let mut ours = launch.started();
    let (fds, mut space) =
        ([shared.fd()], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(&theirs, &[IoSlice::new(text)], &mut control, SendFlags::empty()).expect("a socket");
    drop(theirs);
    let received = ours.receive().expect("no fault of this program");
    let counters = ours.counters();
    let ignored = counters.malformed + counters.other_version + counters.bad_descriptor;
    match received {
        Received::Process { fd, sender, announcement } => {
            assert_eq!((sender.pid(), counters.received, ignored), (std::process::id(), 1, 0));
            assert_eq!((announcement.magic, announcement.version), (user::MAGIC, user::VERSION));
            Some(fd)
        }
        Received::Absent { .. } => panic!("an absence has no descriptor"),
        // An empty message has a sender, too, and counts: it is not the end.
        Received::Nothing | Received::End => {
            assert_eq!((counters.received, ignored), (0, 1));
            None
        }
    }
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
fn look(fd: OwnedFd) -> Option<Application> {
    let application = match Application::open(fd, nobody()) {
        Ok(application) => application,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    assert!(!application.name().is_empty());
    assert!(!application.name().chars().any(char::is_control), "{:?}", application.name());
    let _ = application.refused_tracepoints();
    let _ = (application.session_generations(), application.failed_sessions());
    let _ = application.sites_by_flag();
    match application.tracepoints() {
        Ok(tracepoints) => {
            assert!(tracepoints.iter().all(|tracepoint| tracepoint.level() <= 14));
            let events: Vec<EventClass> = tracepoints.into_iter().map(|it| it.event).collect();
            session::described(&application, events.len() > 31, &events);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    Some(application)
}
