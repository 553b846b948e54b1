//! A session that a process says it has made, taken over.

use super::Shared;
use std::mem::offset_of;
use std::sync::OnceLock;
use strata_abi::user;
use strata_ctf::environment::{user_environment, ProcessKnowledge, UserProcess};
use strata_ctf::{metadata, read};
use strata_model::{ByteOrder, ClockClass, EventClass, RecordHeader, StreamClass, Trace, Uuid};
use strata_ring::{channel_bytes, Attr, Channel, LossMode, Mapping, Publish};
use strata_user::{AppSession, Application, Clock, HeaderChoice, Rules, SessionSpec};

/// Of the session.
const GENERATION: u64 = 7;
const SLOT: u32 = 3;
const CHANNEL: Attr = Attr {
    loss_mode: LossMode::Discard,
    publish: Publish::ByCommit,
    subbuf_bytes: 4096,
    nr_subbufs: 2,
    nr_cpus: 1,
    start_position: 0,
};

/// What a process writes at some moment: a byte that says where, another one, and eight.
const WRITE_BYTES: usize = 10;

fn slot() -> usize {
    user::SESSIONS_OFFSET as usize + SLOT as usize * size_of::<user::Session>()
}

fn id(index: usize) -> usize {
    let state = user::STATES_OFFSET as usize + index * size_of::<user::State>();
    state + offset_of!(user::State, ids) + 2 * SLOT as usize
}

/// As an honest process makes it: each tracepoint has an id.
pub fn fill(shared: &Shared, nr_states: usize) {
    let bytes = channel_bytes(&CHANNEL).expect("valid attributes");
    shared.grow(u64::from(user::CHANNELS_OFFSET) + bytes);
    let mapping = Mapping::new(shared.fd(), user::CHANNELS_OFFSET.into(), bytes);
    Channel::format(mapping.expect("memory to share"), &CHANNEL).expect("a channel");
    for (field, value) in [
        (offset_of!(user::Session, generation), GENERATION),
        (offset_of!(user::Session, channel_offset), user::CHANNELS_OFFSET.into()),
        (offset_of!(user::Session, channel_bytes), bytes),
    ] {
        shared.put(slot() + field, &value.to_ne_bytes());
    }
    shared.put_u32(slot() + offset_of!(user::Session, status), user::SESSION_ACTIVE);
    shared.put_u32(slot() + offset_of!(user::Session, next_id), nr_states as u32);
    (0..nr_states).for_each(|index| shared.put(id(index), &(index as u16).to_ne_bytes()));
}

/// Into the session's slot, a tracepoint's id, the channel's header or the control page.
pub fn write(shared: &Shared, bytes: &[u8]) {
    for write in bytes.chunks_exact(WRITE_BYTES) {
        let (kind, place, value) = (write[0], usize::from(write[1]), &write[2..]);
        match kind % 4 {
            0 => shared.put(slot() + place % 32 * 8, value),
            1 => shared.put(id(place % 16), &value[..2]),
            2 => shared.put(user::CHANNELS_OFFSET as usize + place % 9 * 8, value),
            _ => shared.put(place % 64 * 8, value),
        }
    }
}

/// What a tracer does with it, while the process writes on.
pub fn take_over(shared: &Shared, application: &Application, later: &[u8]) {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    let clock = CLOCK.get_or_init(Clock::new);
    let spec = SessionSpec {
        contexts: strata_user::EventContexts::default(),
        rules: Rules::parse(&["*"]).expect("a rule"),
        filter: None,
        loss_mode: CHANNEL.loss_mode,
        subbuf_bytes: CHANNEL.subbuf_bytes,
        nr_subbufs: CHANNEL.nr_subbufs,
        header: HeaderChoice::Auto,
        vtid: true,
        inherit: true,
    };
    let mut session = match AppSession::adopt(application, GENERATION, &spec, clock) {
        Ok(session) => session,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    described(application, session.large_header(), &session.events().collect::<Vec<_>>());
    write(shared, later);
    if let Err(error) = session.update() {
        assert!(!error.to_string().is_empty());
    }
    described(application, session.large_header(), &session.events().collect::<Vec<_>>());
    let _ = (session.tick(clock), session.counters(), session.problems());
    drop(session.take_channel());
    if let Err(error) = session.release() {
        assert!(!error.to_string().is_empty());
    }
}

/// A trace of these event records can be read, and they have the names that the process gave them.
pub fn described(application: &Application, large_header: bool, events: &[EventClass]) {
    let host = UserProcess {
        hostname: b"h",
        vpid: application.inner_pid(),
        procname: application.name().as_bytes(),
        known: ProcessKnowledge::default(),
        created: "2026-01-01T00:00:00+00:00",
        overwrites: false,
    };
    let trace = Trace {
        uuid: Uuid(*b"0123456789abcdef"),
        byte_order: ByteOrder::NATIVE,
        environment: user_environment(&host),
        clock: ClockClass::monotonic(None, 0),
        streams: vec![StreamClass {
            id: 0,
            name: "channel0".to_owned(),
            header: if large_header { RecordHeader::Large } else { RecordHeader::Compact },
            context: Vec::new(),
            events: events.to_vec(),
        }],
    };
    trace.validate().expect("what was announced is valid");
    let text = metadata::write(&trace);
    let schema =
        read::metadata::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    let found = &schema.streams[0].events;
    assert_eq!(found.len(), events.len(), "{text}");
    for (found, event) in found.iter().zip(events) {
        assert_eq!((found.id, &found.name), (event.id.into(), &event.full_name()), "{text}");
        let members = found.payload.as_ref().map_or(&[][..], |payload| &payload.members);
        let names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
        for field in &event.fields {
            assert!(names.contains(&field.name.as_str()), "{} of {names:?}: {text}", field.name);
        }
    }
}
