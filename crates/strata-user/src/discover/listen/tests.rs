use super::folder::NEW_AGE;
use super::*;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::CWD;
use rustix::net::{bind, connect, SocketAddrUnix};
use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// A folder of this test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir();
        Folder(path.join(format!("strata-listen-{}-{name}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0).or_else(|_| fs::remove_file(&self.0));
    }
}

fn connect_to(path: &Path) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

fn announce(socket: &OwnedFd) {
    let fake = crate::testing::Fake::new();
    let mut text = user::MAGIC.to_ne_bytes().to_vec();
    text.extend(user::VERSION.to_ne_bytes());
    text.extend(7u32.to_ne_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fake.fd.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(socket, &[IoSlice::new(&text)], &mut control, SendFlags::empty()).unwrap();
}

fn readable(listener: &ProgramListener) -> bool {
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

/// Tells whether nothing comes any more. A process that another test begins holds all that is open up to its execve, so
/// that a connection closed here still exists until then.
fn falls_silent(listener: &ProgramListener) -> bool {
    let limit = Instant::now() + Duration::from_secs(60);
    while readable(listener) && Instant::now() < limit {
        std::thread::yield_now();
    }
    !readable(listener)
}

#[test]
fn no_room_is_reported_when_as_many_wait_as_the_kernel_has_room_for() {
    let folder = Folder::new("room");
    let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
    assert!((1..=4096).contains(&listener.room));
    listener.room = 8;
    for (waiting, said) in [(7, false), (7, false), (8, true)] {
        let clients: Vec<OwnedFd> = (0..waiting).map(|_| connect_to(listener.path())).collect();
        assert!(matches!(listener.receive().unwrap(), Received::Nothing));
        assert_eq!(listener.had_no_room(), said);
        drop(clients);
    }
}

#[test]
fn receive_of_processes_that_connect_send_and_close() {
    let folder = Folder::new("receive");
    let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
    listener.patience = Duration::from_secs(3600);
    assert!(!readable(&listener));
    // Connected and silent; then some that are quick.
    let silent = connect_to(listener.path());
    for _ in 0..3 {
        announce(&connect_to(listener.path()));
    }
    assert!(readable(&listener));
    for _ in 0..3 {
        let Received::Process { sender, .. } = listener.receive().unwrap() else { panic!("none") };
        assert_eq!(sender.pid(), std::process::id());
    }
    assert!(matches!(listener.receive().unwrap(), Received::Nothing));
    assert!(falls_silent(&listener));
    announce(&silent);
    assert!(readable(&listener));
    assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
    assert_eq!(listener.counters().received, 4);
}

fn connect_by_name(listener: &ProgramListener) -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let name = SocketAddrUnix::new_abstract_name(listener.name()?.as_bytes()).unwrap();
    connect(&socket, &name).ok().map(|()| socket)
}

/// A listener with an abstract name, in a folder of the test's own, or in none.
fn named_in(folder: Option<&Path>) -> ProgramListener {
    let mut listener = match folder {
        Some(folder) => ProgramListener::in_folder(folder).unwrap(),
        None => ProgramListener::without_folder().unwrap(),
    };
    listener.listen_by(NamedSocket::new().unwrap()).unwrap();
    listener
}

#[test]
fn receive_by_an_abstract_name_hears_those_who_have_connected_and_then_nobody() {
    let folder = Folder::new("named");
    for folder in [Some(&folder.0), None] {
        let mut listener = named_in(folder.map(PathBuf::as_path));
        let first = connect_by_name(&listener).unwrap();
        announce(&first);
        assert!(readable(&listener));
        let Received::Process { sender, .. } = listener.receive().unwrap() else { panic!() };
        assert_eq!(sender.pid(), std::process::id());
        let second = connect_by_name(&listener).unwrap();
        let name = listener.name().unwrap().to_owned();
        listener.take_no_more();
        announce(&second);
        assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
        assert!(matches!(listener.receive().unwrap(), Received::Nothing));
        assert!(listener.name().is_none() && name.starts_with("strata-"));
    }
}

/// The kernel keeps nobody from connecting by the abstract name: repeated connections end that name, and nothing else.
#[test]
fn malicious_connections_by_the_name_end_it_and_the_folders_goes_on() {
    if !geteuid().is_root() {
        return;
    }
    let folder = Folder::new("strangers");
    let mut listener = named_in(Some(&folder.0));
    let uid = 61_031;
    listener.bad.insert(person(uid), BAD_MAX);
    let name = listener.name().unwrap().to_owned();
    let connects = |listener: &mut ProgramListener| {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: no memory is involved; of this thread only.
                assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) }, 0);
                let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let mut number = 0;
                while number < 512 {
                    let socket =
                        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
                    if connect(socket.unwrap(), &address).is_err() {
                        break;
                    }
                    number += 1;
                }
                number
            });
            thread.join().unwrap()
        });
        assert!(matches!(listener.receive().unwrap(), Received::Nothing));
    };
    let mut rounds = 0;
    while listener.name().is_some() {
        connects(&mut listener);
        rounds += 1;
        assert!(rounds < 50, "the name is not given up");
    }
    assert!(rounds > 1 && connect_by_name(&listener).is_none());
    announce(&connect_to(listener.path()));
    assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
}

#[test]
fn take_no_more_hears_those_who_have_connected_and_nobody_else() {
    let folder = Folder::new("no-more");
    let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
    listener.ask_for(7, &crate::testing::spec(&["*"]), &Clock::new()).unwrap();
    let (silent, path) = (connect_to(listener.path()), listener.path().to_owned());
    announce(&connect_to(&path));
    assert!(request_text::beside(&path).exists());
    listener.take_no_more();
    assert!(!path.exists() && !request_text::beside(&path).exists());
    assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
    assert!(matches!(listener.receive().unwrap(), Received::Nothing));
    // Its name is another's now, who keeps it, whatever happens here.
    let mut other = ProgramListener::in_folder(&folder.0).unwrap();
    assert_eq!(other.path(), path);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    let before = mode(&path);
    listener.close_to_unknown();
    assert_eq!(mode(&path), before);
    listener.give_socket_up(4711);
    announce(&silent);
    assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
    assert!(matches!(listener.receive().unwrap(), Received::Nothing));
    drop(listener);
    announce(&connect_to(&path));
    assert!(matches!(other.receive().unwrap(), Received::Process { .. }));
    drop(other);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
}

/// Connections of one user do not cause those of others to be closed.
#[test]
fn malicious_silent_connections_of_one_person_close_only_their_own() {
    if !geteuid().is_root() {
        return;
    }
    let folder = Folder::new("share");
    let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
    listener.connections_max = 32;
    let honest = connect_to(listener.path());
    let path = listener.path().to_owned();
    let silent: Vec<OwnedFd> =
        (0..100).map(|_| as_user(61_021, &path, |socket| socket).unwrap()).collect();
    for _ in 0..10 {
        assert!(matches!(listener.receive().unwrap(), Received::Nothing));
    }
    announce(&honest);
    assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
    drop(silent);
}

#[test]
fn malicious_connections_that_stay_silent_do_not_keep_others_out() {
    let folder = Folder::new("silent");
    let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
    let most = listener.connections_max;
    let silent: Vec<OwnedFd> = (0..most + 10).map(|_| connect_to(listener.path())).collect();
    announce(&connect_to(listener.path()));
    let received = (0..3).map(|_| listener.receive().unwrap());
    let processes = received.filter(|r| matches!(r, Received::Process { .. })).count();
    assert_eq!(processes, 1);
    assert!(listener.connections.len() < most);
    drop(silent);
}

/// More than are looked at together: none of them is let go of before it was asked.
#[test]
fn receive_of_more_processes_than_wait_at_once_drops_none() {
    let folder = Folder::new("crowd");
    let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
    listener.connections_max = 4;
    let silent: Vec<OwnedFd> = (0..3).map(|_| connect_to(listener.path())).collect();
    (0..20).for_each(|_| announce(&connect_to(listener.path())));
    for number in 0..20 {
        let received = listener.receive().unwrap();
        assert!(matches!(received, Received::Process { .. }), "{number}: {received:?}");
    }
    assert!(matches!(listener.receive().unwrap(), Received::Nothing));
    drop(silent);
}

/// Sends a message with these descriptors, which are no memory.
fn send_bad(socket: &OwnedFd, fds: &[BorrowedFd<'_>]) {
    let mut text = user::MAGIC.to_ne_bytes().to_vec();
    text.extend(user::VERSION.to_ne_bytes());
    text.extend(7u32.to_ne_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    sendmsg(socket, &[IoSlice::new(&text)], &mut control, SendFlags::empty()).unwrap();
}

#[test]
fn malicious_messages_of_a_user_silence_that_user_and_are_reported_once() {
    // Where nobody else sends descriptors that wait to be closed.
    let test = "discover::listen::tests::alone_messages_that_are_none";
    crate::testing::run_alone(test, || Ok(()));
}

#[test]
#[ignore = "run by malicious_messages_of_a_user_silence_that_user_and_are_reported_once"]
fn alone_messages_that_are_none() {
    let folder = Folder::new("silenced");
    let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
    let file = fs::File::open("/proc/self/exe").unwrap();
    for _ in 0..BAD_MAX - 1 {
        send_bad(&connect_to(listener.path()), &[file.as_fd()]);
    }
    assert!(matches!(listener.receive().unwrap(), Received::Nothing));
    assert!(listener.silenced().is_empty());
    // Not yet too many.
    announce(&connect_to(listener.path()));
    assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
    for _ in 0..10 {
        send_bad(&connect_to(listener.path()), &[file.as_fd()]);
    }
    assert!(matches!(listener.receive().unwrap(), Received::Nothing));
    assert_eq!(listener.silenced(), [geteuid().as_raw()]);
    announce(&connect_to(listener.path()));
    assert!(matches!(listener.receive().unwrap(), Received::Nothing));
    assert_eq!((listener.counters().received, listener.silenced()), (1, vec![]));
    assert_eq!(listener.counters().bad_descriptor, u64::from(BAD_MAX));
}

/// Connects as another user, and sends what `send` sends.
fn as_user<R: Send>(uid: u32, path: &Path, send: impl FnOnce(OwnedFd) -> R + Send) -> Option<R> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: no memory is involved; of this thread only.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) }, 0);
            let flags = SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
            let socket = socket.unwrap();
            let connected = connect(&socket, &SocketAddrUnix::new(path).unwrap());
            connected.is_ok().then(|| send(socket))
        });
        thread.join().unwrap()
    })
}

#[test]
fn malicious_user_whose_descriptors_hang_is_kept_out_and_others_are_heard() {
    if geteuid().is_root() {
        let test = "discover::listen::tests::alone_descriptors_of_a_user_that_hang";
        crate::testing::run_alone(test, || Ok(()));
    }
}

#[test]
#[ignore = "run by malicious_user_whose_descriptors_hang_is_kept_out_and_others_are_heard"]
fn alone_descriptors_of_a_user_that_hang() {
    const MALLORY: u32 = 61_011;
    const ALICE: u32 = 61_012;
    let folder = Folder::new("hang");
    let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
    if !listener.set_access(listener.path()) {
        eprintln!("no access lists in {}", folder.0.display());
        return;
    }
    let (hangs, _other_end) = crate::discover::descriptor_closer::tests::lingering();
    let file = fs::File::open("/proc/self/exe").unwrap();
    // The first one hangs, and so those behind it are not closed either.
    as_user(MALLORY, listener.path(), |socket| send_bad(&socket, &[hangs.as_fd()])).unwrap();
    // Who closes the last one waits: that is not to be this thread.
    drop(hangs);
    assert!(matches!(listener.receive().unwrap(), Received::Nothing));
    // More than this user's share, and more than that of all.
    let first = listener.path().to_owned();
    let mut refused = 0;
    for _ in 0..40 {
        for _ in 0..40 {
            let fds = [file.as_fd(); 100];
            let sent = as_user(MALLORY, listener.path(), |socket| send_bad(&socket, &fds));
            refused += u32::from(sent.is_none());
        }
        assert!(matches!(listener.receive().unwrap(), Received::Nothing));
    }
    assert!(refused > 1000, "{refused}");
    assert_eq!((listener.silenced(), listener.only_known()), (vec![MALLORY], false));
    assert!(descriptor_closer::has_too_many(MALLORY) && !descriptor_closer::is_full());
    // Others are heard, on whichever socket.
    as_user(ALICE, listener.path(), |socket| announce(&socket)).unwrap();
    assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
    // With the backlog full of its connections the socket itself is given up.
    listener.give_socket_up(MALLORY);
    let second = listener.path().to_owned();
    assert!(second != first && !first.exists() && !listener.only_known());
    assert!(as_user(MALLORY, &second, drop).is_none());
    assert!(as_user(MALLORY + 5, &second, drop).is_some());
    // And once more, as another number of the same person would do it: who was heard is heard.
    listener.give_socket_up(MALLORY);
    assert!(listener.only_known() && !second.exists());
    assert!(as_user(MALLORY + 5, listener.path(), drop).is_none());
    as_user(ALICE, listener.path(), |socket| announce(&socket)).unwrap();
    assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
}

#[test]
fn malicious_second_message_on_a_connection_is_not_closed_here() {
    let folder = Folder::new("second");
    let mut listener = ProgramListener::in_folder(&folder.0).unwrap();
    let socket = connect_to(listener.path());
    let file = fs::File::open("/proc/self/exe").unwrap();
    announce(&socket);
    send_bad(&socket, &[file.as_fd(); 8]);
    assert!(matches!(listener.receive().unwrap(), Received::Process { .. }));
    assert_eq!(listener.bad.get(&geteuid().as_raw()), Some(&1));
}

#[test]
fn folder_and_socket_have_the_modes_that_processes_check() {
    let folder = Folder::new("modes");
    let listener = ProgramListener::in_folder(&folder.0).unwrap();
    let root = geteuid().is_root();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&folder.0), if root { 0o755 } else { 0o700 });
    assert_eq!(mode(listener.path()), if root { 0o666 } else { 0o600 });
    let name = format!("{}.sock", std::process::id());
    assert_eq!(listener.path(), folder.0.join(name));
    let path = listener.path().to_owned();
    let second = ProgramListener::in_folder(&folder.0).unwrap();
    assert_ne!(second.path(), path);
    drop((listener, second));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn stale_sockets_are_removed_and_live_ones_stay() {
    let folder = Folder::new("stale");
    let live = ProgramListener::in_folder(&folder.0).unwrap();
    let stale = folder.0.join("1.sock");
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(&stale).unwrap()).unwrap();
    drop(socket);
    fs::write(folder.0.join("notes"), "").unwrap();
    let _second = ProgramListener::in_folder(&folder.0).unwrap();
    assert!(!stale.exists() && live.path().exists() && folder.0.join("notes").exists());
}

/// The name of a tracer stays while others begin; the name of one that was killed is removed.
#[test]
fn socket_on_which_somebody_is_about_to_listen_is_not_stale() {
    let folder = Folder::new("about");
    let first = ProgramListener::in_folder(&folder.0).unwrap();
    let left = folder.0.join("1.sock.new");
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(&left).unwrap()).unwrap();
    drop(socket);
    let (socket, path) = listen_in(&folder.0, |new| {
        remove_stale(&folder.0, first.path());
        assert!(new.exists() && new != first.path() && left.exists());
    })
    .unwrap();
    remove_stale(&folder.0, first.path());
    assert!(path.exists() && path != first.path() && path.extension().unwrap() == "sock");
    connect_to(&path);
    // A process that another test begins holds it, up to its execve.
    rustix::net::shutdown(&socket, rustix::net::Shutdown::Both).unwrap();
    drop(socket);
    let old = std::time::SystemTime::now() - 2 * NEW_AGE;
    let old = rustix::fs::Timespec {
        tv_sec: old.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64,
        tv_nsec: 0,
    };
    let times = rustix::fs::Timestamps { last_access: old, last_modification: old };
    rustix::fs::utimensat(CWD, &left, &times, rustix::fs::AtFlags::empty()).unwrap();
    remove_stale(&folder.0, first.path());
    assert!(!left.exists() && !path.exists() && first.path().exists());
}

#[test]
fn folder_that_others_can_write_to_or_that_is_none_is_refused() {
    let refused = |path: &Path| match ProgramListener::in_folder(path) {
        Err(Error::Folder { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let folder = Folder::new("refused");
    fs::create_dir(&folder.0).unwrap();
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o770)).unwrap();
    assert!(refused(&folder.0).contains("770"));
    let link = Folder::new("link");
    std::os::unix::fs::symlink("/tmp", &link.0).unwrap();
    assert!(refused(&link.0).contains("no folder"));
    assert!(refused(Path::new("/proc/strata")).contains("cannot be made"));
    if geteuid().is_root() {
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(&folder.0, Some(65534), None).unwrap();
        assert!(refused(&folder.0).contains("65534"));
    }
}
