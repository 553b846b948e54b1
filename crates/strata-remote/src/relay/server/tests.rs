//! A relay on the loopback interface, whose recorders say what the tests tell them.

use std::io::{Read as _, Write as _};

use super::disconnected_recordings::PARKED;
use super::*;
use crate::testing::Scratch;
use strata_model::Uuid;

const RECORDING: Uuid = Uuid([9; 16]);

/// A relay that serves as long as the value lives.
struct Served {
    relayd: Arc<Relayd>,
    thread: Option<std::thread::JoinHandle<()>>,
    scratch: Scratch,
}

impl Served {
    fn new(limits: Limits, change: impl FnOnce(&mut Shared)) -> Served {
        let scratch = Scratch::new("server");
        let (address, log) = (([127, 0, 0, 1], 0).into(), Box::new(|_| ()));
        let mut relayd = Relayd::new(address, &scratch.0, None, limits, log).unwrap();
        change(Arc::get_mut(&mut relayd.shared).unwrap());
        let relayd = Arc::new(relayd);
        let serving = Arc::clone(&relayd);
        let thread = Some(std::thread::spawn(move || serving.serve().unwrap()));
        Served { relayd, thread, scratch }
    }

    /// Connects, and opens the recording.
    fn recorder(&self, host: &str, first: u64) -> Recorder {
        self.opened(opening(host, first))
    }

    fn opened(&self, open: Open) -> Recorder {
        let socket = TcpStream::connect(self.relayd.address().unwrap()).unwrap();
        let mut recorder = Recorder { socket, frames: Frames::default() };
        recorder.say(&FromRecorder::Open(open));
        recorder
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.relayd.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

fn opening(host: &str, first: u64) -> Open {
    Open {
        version: REMOTE_VERSION,
        is_of_our_order: true,
        recording: RECORDING,
        boot: Uuid::default(),
        first,
        host: host.to_owned(),
        session: "s".to_owned(),
    }
}

/// The other end of a connection.
struct Recorder {
    socket: TcpStream,
    frames: Frames,
}

impl Recorder {
    fn say(&mut self, said: &FromRecorder<'_>) {
        self.socket.write_all(&said.encode()).unwrap();
    }

    /// Waits for what the relay says next; `None`: it has ended the connection.
    fn hear(&mut self) -> Option<ToRecorder> {
        loop {
            if let Some((kind, payload)) = self.frames.next_frame().unwrap() {
                return Some(ToRecorder::decode(kind, payload).unwrap());
            }
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(bytes) => self.frames.push(&buffer[..bytes]),
            }
        }
    }

    /// Sends a message, after which the relay has `next`. Returns why the relay refuses it, if it does.
    fn refused(&mut self, said: &FromRecorder<'_>, next: u64) -> Option<String> {
        self.say(said);
        loop {
            match self.hear() {
                Some(ToRecorder::Ack { next: has }) if has == next => return None,
                Some(ToRecorder::Refuse { why }) => return Some(why),
                Some(ToRecorder::Discarded { .. }) => {}
                Some(ToRecorder::Ack { .. } | ToRecorder::Ping { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn resumed(&mut self) -> u64 {
        match self.hear() {
            Some(ToRecorder::Resume { next, .. }) => next,
            other => panic!("{other:?}"),
        }
    }
}

fn connected(socket: TcpStream) -> Connected {
    Connected { socket, waiting_since: None }
}

fn begin() -> FromRecorder<'static> {
    FromRecorder::Begin { id: 0, layer: "kernel".into(), process: None }
}

#[test]
fn resume_acknowledges_nothing_that_could_not_be_forced_to_the_disk() {
    let is_failing = Arc::new(AtomicBool::new(true));
    let fails = Arc::clone(&is_failing);
    let force = move || match fails.load(Ordering::Relaxed) {
        true => Err(io::Error::from(ErrorKind::InvalidData)),
        false => Ok(()),
    };
    let limits = Limits { sync: Some(Duration::ZERO), ..Limits::default() };
    let served = Served::new(limits, |shared| {
        shared.durable.take().unwrap().end();
        shared.durable = Some(Durable::begin_by(Box::new(force)).unwrap());
    });
    let mut recorder = served.recorder("box", 0);
    assert_eq!(recorder.resumed(), 0);
    recorder.say(&begin());
    assert_eq!(recorder.hear(), None);
    is_failing.store(false, Ordering::Relaxed);
    let mut recorder = served.recorder("box", 0);
    assert_eq!(recorder.resumed(), 0);
    recorder.say(&begin());
    assert_eq!(recorder.hear(), Some(ToRecorder::Ack { next: 1 }));
}

#[test]
fn connection_takes_the_place_of_the_one_of_its_recording_at_the_limit() {
    let limits = Limits { host_connections: 1, ..Limits::default() };
    let served = Served::new(limits, |_| ());
    let mut first = served.recorder("box", 0);
    assert_eq!(first.resumed(), 0);
    let mut second = served.recorder("box", 0);
    assert_eq!(second.resumed(), 0);
    assert_eq!(first.hear(), None);
    let mut other = TcpStream::connect(served.relayd.address().unwrap()).unwrap();
    let open = Open { recording: Uuid([8; 16]), ..opening("box", 0) };
    other.write_all(&FromRecorder::Open(open).encode()).unwrap();
    let mut other = Recorder { socket: other, frames: Frames::default() };
    let said = other.hear();
    // There is room when the other one has gone.
    assert!(matches!(said, Some(ToRecorder::Later { .. })), "{said:?}");
}

#[test]
fn recorder_may_come_again_to_a_relay_that_is_slow_or_stops() {
    let served = Served::new(Limits::default(), |_| ());
    let shared = &served.relayd.shared;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let connection = Connection::plain(socket()).unwrap();
    let why = || match register(shared, &connection, &opening("box", 0), Duration::ZERO) {
        Err(End::Broken(why)) => why,
        Err(End::Refused(why) | End::Later(why)) => panic!("it is told: {why}"),
        Ok(_) => panic!("it is registered"),
    };
    // Its thread waits for the disk.
    let key = ("box".to_owned(), RECORDING);
    shared.registry().recorders.insert(key.clone(), connected(socket()));
    assert!(why().contains("does not end"));
    shared.registry().recorders.remove(&key);
    shared.is_stopping.store(true, Ordering::Release);
    assert!(why().contains("being stopped"));
}

#[test]
fn space_of_recordings_that_were_removed_is_free_again() {
    let limits = Limits { host_bytes: 10_000, ..Limits::default() };
    let served = Served::new(limits, |_| ());
    let folder = served.scratch.0.join("box/old");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("channel0_0"), [7; 10_000]).unwrap();
    let said = served.recorder("box", 0).hear();
    assert!(matches!(said, Some(ToRecorder::Refuse { .. })), "{said:?}");
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(served.recorder("box", 0).resumed(), 0);
}

/// Text of the metadata of a trace whose UUID is that of the recording.
fn metadata() -> String {
    strata_ctf::metadata::write(&strata_model::Trace {
        uuid: RECORDING,
        byte_order: strata_model::ByteOrder::NATIVE,
        environment: Vec::new(),
        clock: strata_model::ClockClass::monotonic(None, 0),
        streams: Vec::new(),
    })
}

/// A packet of the only stream, of 40,000 bytes and so many records.
fn packet(sequence: u64, body: &[u8], records: u64) -> FromRecorder<'_> {
    let times = (sequence * 10, sequence * 10 + 5);
    let (timestamp_begin, timestamp_end) = times;
    let header = strata_ctf::packet::Header {
        uuid: RECORDING,
        sequence,
        timestamp_begin,
        timestamp_end,
        ..Default::default()
    };
    let header = header.with_content_bytes(body.len() as u64);
    let packet = strata_relay::PacketBytes { header, body };
    FromRecorder::Data(FromGuest::Packet { id: 0, stream: 0, upto: records, packet })
}

#[test]
fn packets_without_room_for_their_host_are_counted_and_the_recording_goes_on() {
    let limits = Limits { host_bytes: 150_000, sync: None, ..Limits::default() };
    let served = Served::new(limits, |shared| shared.recount_period = Duration::ZERO);
    let old = served.scratch.0.join("box/old");
    std::fs::create_dir_all(&old).unwrap();
    std::fs::write(old.join("channel0_0"), [7; 70_000]).unwrap();
    let mut recorder = served.recorder("box", 0);
    assert_eq!(recorder.resumed(), 0);
    let (text, body) = (metadata(), vec![0; 40_000]);
    // What the relay says of a message until it has it: what is left out, if it says so.
    let mut sent = 0;
    let mut say = |recorder: &mut Recorder, said: &FromRecorder<'_>| {
        recorder.say(said);
        sent += 1;
        let mut left_out = None;
        loop {
            match recorder.hear() {
                Some(ToRecorder::Discarded { records, is_full }) => {
                    left_out = Some((records, is_full))
                }
                Some(ToRecorder::Ack { next }) if next == sent => return left_out,
                Some(ToRecorder::Ack { .. } | ToRecorder::Ping { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    say(&mut recorder, &begin());
    say(&mut recorder, &FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 0, text: &text }));
    assert_eq!(say(&mut recorder, &packet(0, &body, 100)), None);
    assert_eq!(say(&mut recorder, &packet(1, &body, 100)), Some((0, true)));
    assert_eq!(say(&mut recorder, &packet(2, &body, 100)), Some((100, true)));
    // The end of what was left out, and a count that no packet of its size can have.
    let end = FromRecorder::SetEnd { id: 0, stream: 0, sequence: 2, end_ns: 24 };
    assert_eq!(say(&mut recorder, &end), None);
    assert_eq!(say(&mut recorder, &packet(3, &body, u64::MAX)), Some((10_100, true)));
    // Another recording is refused, and this one goes on, also over another connection.
    let mut other = TcpStream::connect(served.relayd.address().unwrap()).unwrap();
    let open = Open { recording: Uuid([8; 16]), ..opening("box", 0) };
    other.write_all(&FromRecorder::Open(open).encode()).unwrap();
    let refused = Recorder { socket: other, frames: Frames::default() }.hear();
    assert!(matches!(refused, Some(ToRecorder::Refuse { .. })), "{refused:?}");
    drop(recorder);
    let mut recorder = served.recorder("box", 7);
    assert_eq!(recorder.resumed(), 7);
    assert_eq!(recorder.hear(), Some(ToRecorder::Discarded { records: 10_100, is_full: true }));
    assert_eq!(say(&mut recorder, &packet(4, &body, 7)), Some((10_107, true)));
    // There is room again, which is looked for some time after the last look.
    std::fs::remove_dir_all(&old).unwrap();
    let (mut sequence, mut all) = (5, 10_107);
    loop {
        all += 3;
        let said = say(&mut recorder, &packet(sequence, &body, 3));
        sequence += 1;
        assert!([(all, true), (all, false)].map(Some).contains(&said), "{said:?}, {all}");
        if said == Some((all, false)) {
            break;
        }
    }
    assert_eq!(say(&mut recorder, &packet(sequence, &body, 3)), None);
    let ended = strata_ctf::end_mark::Ending::Ended;
    say(&mut recorder, &FromRecorder::Close { ending: ended, losses: Default::default() });
    let mark = std::fs::read(served.scratch.0.join("box/s/.strata-end")).unwrap();
    let mark = strata_ctf::end_mark::EndMark::decode(&mark).unwrap();
    assert_eq!((mark.ending, mark.quota, mark.losses.unwritten), (ended, all, all));
    let file = std::fs::read(served.scratch.0.join("box/s/kernel/channel0_0")).unwrap();
    let (mut at, mut found) = (0, Vec::new());
    while at < file.len() {
        let header = file[at..].first_chunk().and_then(strata_ctf::packet::Header::decode).unwrap();
        found.push(header.sequence);
        at += header.packet_bits as usize / 8;
    }
    assert_eq!(found, [0, 1, sequence]);
    let metrics = served.relayd.metrics();
    let counted = format!("strata_relay_host_quota_discarded_total{{host=\"box\"}} {all}\n");
    assert!(metrics.contains(&counted), "{metrics}");
}

#[test]
fn recorder_of_version_1_is_refused_where_it_cannot_be_told_what_is_left_out() {
    let limits = Limits { host_bytes: 100_000, sync: None, ..Limits::default() };
    let served = Served::new(limits, |_| ());
    let mut recorder = served.opened(Open { version: REMOTE_VERSION_MIN, ..opening("box", 0) });
    let said = recorder.hear();
    let resumed = ToRecorder::Resume { version: REMOTE_VERSION_MIN, recording: RECORDING, next: 0 };
    assert_eq!(said, Some(resumed));
    let (text, body) = (metadata(), vec![0; 60_000]);
    let described = FromRecorder::Data(FromGuest::Metadata { id: 0, keep: 0, text: &text });
    for (said, next) in [(begin(), 1), (described, 2), (packet(0, &body, 0), 3)] {
        assert_eq!(recorder.refused(&said, next), None);
    }
    let why = recorder.refused(&packet(1, &body, 0), 4).unwrap();
    assert!(why.contains("limit of 100000"), "{why}");
    let mark = std::fs::read(served.scratch.0.join("box/s/.strata-end")).unwrap();
    let mark = strata_ctf::end_mark::EndMark::decode(&mark).unwrap();
    assert_eq!((mark.ending, mark.quota), (strata_ctf::end_mark::Ending::Failed, 0));
    for version in [0, REMOTE_VERSION + 1] {
        let said = served.opened(Open { version, ..opening("box", 0) }).hear();
        assert!(matches!(said, Some(ToRecorder::Refuse { .. })), "{said:?}");
    }
}

#[test]
fn descriptions_count_what_they_have_and_find_no_room_again_on_another_connection() {
    let limits = Limits { host_bytes: 100_000, sync: None, ..Limits::default() };
    // The files are added up once, and then only before something is refused.
    let long = Duration::from_secs(3600);
    let served = Served::new(limits, |shared| shared.recount_period = long);
    let mut recorder = served.recorder("box", 0);
    assert_eq!(recorder.resumed(), 0);
    let (text, body) = (metadata(), vec![0; 2 << 20]);
    let header = strata_ctf::packet::Header { uuid: RECORDING, ..Default::default() };
    let header = header.with_content_bytes(body.len() as u64);
    let mut next = 0;
    // A trace that has a description of 2 MiB, so many times.
    let mut described = |id: u32, times: u32| {
        let process = Some((id, "app".to_owned()));
        let begin = FromRecorder::Begin { id, layer: "user".into(), process };
        let metadata = FromRecorder::Data(FromGuest::Metadata { id, keep: 0, text: &text });
        let packet = strata_relay::PacketBytes { header, body: &body };
        let dump = FromRecorder::Data(FromGuest::Stream { id, name: "dump_0", packet });
        let dumps = std::iter::repeat_n(dump, times as usize);
        [begin, metadata].into_iter().chain(dumps).find_map(|said| {
            next += 1;
            recorder.refused(&said, next)
        })
    };
    // 24 MiB were written, 2 of them are there.
    assert_eq!(described(0, 12), None);
    let why = (1..9).find_map(|id| described(id, 1));
    assert!(why.is_some_and(|why| why.contains("limit of 100000")));
    // Who comes again and again would write more each time.
    for first in [1, 2] {
        let said = served.recorder("box", first).hear();
        assert!(matches!(said, Some(ToRecorder::Refuse { .. })), "{said:?}");
    }
}

#[test]
fn memory_goes_to_who_waits_when_a_message_has_come() {
    let memory = Memory::new(10);
    let mut frames = Frames::default();
    let mut part = Some(memory.take(10, &mut || Ok(())).unwrap());
    begin_next(&mut frames, &mut part);
    assert!(part.is_some());
    let waiting = Arc::clone(&memory);
    let thread = std::thread::spawn(move || waiting.take(10, &mut || Ok(())).unwrap().bytes());
    while memory.look().1 == 0 {
        std::thread::yield_now();
    }
    begin_next(&mut frames, &mut part);
    assert!(part.is_none());
    assert_eq!(thread.join().unwrap(), 10);
}

#[test]
fn lag_of_a_host_is_that_of_its_slowest_recording() {
    let served = Served::new(Limits::default(), |_| ());
    let shared = &served.relayd.shared;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let key = |number| ("box".to_owned(), Uuid([number; 16]));
    for number in [1, 2] {
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        shared.registry().recorders.insert(key(number), connected(socket));
        shared.set_waiting(&key(number), true);
    }
    let since = shared.registry().recorders[&key(1)].waiting_since.unwrap();
    // More messages of it, and an acknowledgement of the other one.
    shared.set_waiting(&key(1), true);
    shared.set_waiting(&key(2), false);
    let lag = Duration::from_secs(7);
    assert_eq!(metrics::lags(&shared.registry(), since + lag)["box"], lag);
    shared.set_waiting(&key(1), false);
    assert!(metrics::lags(&shared.registry(), since + lag).is_empty());
    shared.registry().recorders.clear();
}

#[test]
fn recording_whose_connection_broke_is_parked_for_a_while() {
    let served = Served::new(Limits { host_connections: 1, ..Limits::default() }, |_| ());
    let shared = &served.relayd.shared;
    let key = ("box".to_owned(), RECORDING);
    let is_parked = || shared.registry().parked.contains(&key);
    drop(served.recorder("box", 0));
    while !is_parked() {
        std::thread::yield_now();
    }
    let mut recorder = served.recorder("box", 0);
    assert_eq!((recorder.resumed(), is_parked()), (0, false));
    drop(recorder);
    while !is_parked() {
        std::thread::yield_now();
    }
    shared.look_at_parked(Instant::now());
    assert!(is_parked());
    let parked = shared.registry().parked.remove(&key).unwrap();
    // As many as connections: the oldest gives way.
    let other = ("box".to_owned(), Uuid([1; 16]));
    shared.park(&key, parked);
    let folder = host_folder(&shared.root, "box").unwrap();
    let two = RecordingWriter::open(&folder, "two", (other.1, 0), 9, FilesState::Written).unwrap();
    shared.park(&other, two.park());
    assert!(!is_parked() && shared.registry().parked.contains(&other));
    shared.look_at_parked(Instant::now() + PARKED + LOOK_PERIOD);
    assert!(!shared.registry().parked.contains(&other));
}

#[test]
fn relay_whose_disk_is_full_is_not_healthy() {
    let served = Served::new(Limits::default(), |_| ());
    assert_eq!(served.relayd.health(), Ok(()));
    let problem = Problem::from(io::Error::from(rustix::io::Errno::NOSPC));
    note_failure(&served.relayd.shared, &problem);
    assert_eq!(served.relayd.health(), Err(problem.why));
    // What a recorder does wrong is no trouble of the relay.
    *served.relayd.shared.failed.lock().unwrap() = None;
    note_failure(&served.relayd.shared, &"it opens a second recording".into());
    assert_eq!(served.relayd.health(), Ok(()));
}

/// Says these messages to a relay that lets everybody read. Returns what it answers until it ends the connection.
fn viewed(said: &[Vec<u8>], viewers: ViewRights) -> Vec<(u16, Vec<u8>)> {
    let served = Served::new(Limits { viewers, ..Limits::default() }, |_| ());
    let mut recorder = served.recorder("box", 0);
    assert!(matches!(recorder.hear(), Some(ToRecorder::Resume { .. })));
    recorder.say(&FromRecorder::Begin { id: 0, layer: "user".into(), process: None });
    let losses = strata_ctf::end_mark::Losses::default();
    recorder.say(&FromRecorder::Close { ending: strata_ctf::end_mark::Ending::Ended, losses });
    while recorder.hear().is_some() {}
    let mut socket = TcpStream::connect(served.relayd.address().unwrap()).unwrap();
    for said in said {
        // The relay may have ended the connection.
        let _ = socket.write_all(said);
    }
    let (mut frames, mut heard, mut buffer) = (Frames::default(), Vec::new(), [0; 4096]);
    while let Ok(bytes @ 1..) = socket.read(&mut buffer) {
        frames.push(&buffer[..bytes]);
        while let Some((kind, payload)) = frames.next_frame().unwrap() {
            heard.push((kind, payload.to_vec()));
        }
    }
    heard
}

fn watch(host: &str, session: &str) -> Vec<u8> {
    let (host, session) = (host.to_owned(), session.to_owned());
    let version = strata_relay::VIEW_VERSION;
    FromViewer::Watch(Watch { version, is_of_our_order: true, host, session }).encode()
}

#[test]
fn viewer_is_sent_a_recording_to_its_end_if_it_may_read_it() {
    use strata_relay::ToViewer;
    let heard = viewed(&[watch("box", ""), FromViewer::Ready.encode()], ViewRights::All);
    let last = heard.last().map(|(kind, payload)| ToViewer::decode(*kind, payload).unwrap());
    assert!(matches!(last, Some(Some(ToViewer::Looked { is_recorded: false, .. }))), "{heard:?}");
    let first = ToViewer::decode(heard[0].0, &heard[0].1).unwrap();
    assert!(matches!(first, Some(ToViewer::Shown { session, .. }) if session == "s"));
    // Without TLS nobody has a name.
    for viewers in [ViewRights::Own, ViewRights::Names(vec!["box".into()])] {
        let heard = viewed(&[watch("box", ""), FromViewer::Ready.encode()], viewers);
        let [(kind, payload)] = &heard[..] else { panic!("{heard:?}") };
        let said = ToRecorder::decode(*kind, payload).unwrap();
        assert!(matches!(said, ToRecorder::Refuse { why } if why.contains("--viewers")));
    }
}

#[test]
fn malicious_viewers_are_let_go() {
    let have = FromViewer::Have { id: 0, stream: 0, sequence: 0 }.encode();
    let open = FromRecorder::Open(opening("box", 0)).encode();
    for (said, answers) in [
        (vec![watch("../box", "")], 1),
        (vec![watch("box", "..")], 1),
        (vec![watch("other", "")], 1),
        (vec![have], 0),
        // What is no message of a viewer behind its first one.
        (vec![watch("box", ""), open], 2),
        (vec![watch("box", ""), watch("box", "")], 1),
    ] {
        let heard = viewed(&said, ViewRights::All);
        let is_shown =
            |(kind, payload): &(u16, Vec<u8>)| FromRecorder::decode(*kind, payload).is_ok();
        assert!(heard.len() == answers && !heard.iter().any(is_shown), "{said:?}: {heard:?}");
    }
    let flood: Vec<u8> = (0..crate::recording_folder::recording_writer::STREAMS_MAX as u32 + 2)
        .flat_map(|stream| FromViewer::Have { id: 0, stream, sequence: 0 }.encode())
        .collect();
    let heard = viewed(&[watch("box", ""), flood], ViewRights::All);
    assert!(heard.len() == 1, "{heard:?}");
}
