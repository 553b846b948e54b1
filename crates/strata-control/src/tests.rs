//! Both ends of the socket, honest and not.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use strata_random::Random;

use rustix::fs::{flock, FlockOperation};
use rustix::net::{
    connect, recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};

use crate::bench_tests::Bench;
use crate::socket::ask_within;
use crate::{ask, ControlError, Reply, Request, SessionListener, MESSAGE_BYTES_MAX, PLAN};

impl Bench {
    /// Makes a listener with long patience, for clients that have no CPU between connecting and asking.
    fn listener(&self, name: &str) -> SessionListener {
        let mut listener = SessionListener::new(self.folder.claim(name).unwrap()).unwrap();
        listener.patience = Duration::from_secs(60);
        listener
    }

    /// Sends the bytes and returns the reply.
    fn say(&self, name: &str, bytes: &[u8]) -> String {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let socket = socket.unwrap();
        let address = self.above.join("strata-sessions").join(format!("{name}.sock"));
        connect(&socket, &SocketAddrUnix::new(address).unwrap()).unwrap();
        send(&socket, bytes, SendFlags::NOSIGNAL).unwrap();
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let (read, _) = recv(&socket, &mut buffer[..], RecvFlags::empty()).unwrap();
        String::from_utf8(buffer[..read].to_vec()).unwrap()
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// Says what it was asked.
fn echo(request: Request) -> Reply {
    match request {
        Request::Stop => Err("no\nmore".into()),
        request => Ok([("asked".to_owned(), format!("{request:?}").into())].into_iter().collect()),
    }
}

#[test]
fn request_is_answered_and_a_refusal_is_reported_in_one_line() {
    let bench = Bench::new("ask");
    let listener = bench.listener("one");
    thread::scope(|scope| {
        scope.spawn(|| (0..3).for_each(|_| listener.serve(&mut echo).unwrap()));
        let facts = ask(&bench.folder, "one", &Request::Status).unwrap();
        assert_eq!(facts.get("asked").and_then(|asked| asked.as_str()), Some("Status"));
        let output = PathBuf::from("/a b/ä");
        let facts = ask(
            &bench.folder,
            "one",
            &Request::Snapshot {
                output,
                to: Some("web1@relay".into()),
                last: Some(Duration::from_millis(1500)),
            },
        )
        .unwrap();
        let asked = facts["asked"].as_str().unwrap();
        assert!(asked.contains("/a b/ä") && asked.contains("Some(1.5s)"), "{asked}");
        let error = ask(&bench.folder, "one", &Request::Stop).unwrap_err();
        assert_eq!(error.to_string(), "session 'one': no?more");
    });
}

#[test]
fn who_waits_for_an_answer_or_says_nothing_keeps_nobody_else_from_theirs() {
    let bench = Bench::new("at-once");
    let listener = bench.listener("one");
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let silent =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let silent = silent.unwrap();
    let address = bench.above.join("strata-sessions/one.sock");
    thread::scope(|scope| {
        connect(&silent, &SocketAddrUnix::new(address).unwrap()).unwrap();
        let mut first = listener.accept().unwrap().unwrap();
        // Time: that is let go of then.
        first.patience = Duration::from_secs(2);
        scope.spawn(move || first.answer(&mut echo));
        scope.spawn(|| ask(&bench.folder, "one", &Request::Stop).unwrap_err());
        let second = listener.accept().unwrap().unwrap();
        scope.spawn(move || {
            second.answer(&mut |request| {
                wait.recv().unwrap();
                echo(request)
            });
        });
        let third = scope.spawn(|| ask(&bench.folder, "one", &Request::Status).unwrap());
        listener.serve(&mut echo).unwrap();
        assert!(third.join().unwrap().contains_key("asked"));
        done.send(()).unwrap();
    });
}

#[test]
fn connection_that_is_closed_without_an_answer_is_no_answer() {
    let bench = Bench::new("closed");
    let listener = bench.listener("one");
    let folder = &bench.folder;
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask(folder, "one", &Request::Status).unwrap_err());
        drop(listener.accept().unwrap());
        let error = asked.join().unwrap();
        assert!(error.to_string().contains("closed the connection without an answer"), "{error}");
        let asked = scope.spawn(|| ask(folder, "one", &Request::Status).unwrap_err());
        let connection = listener.accept().unwrap();
        drop(listener);
        drop(connection);
        let error = asked.join().unwrap();
        assert!(matches!(&error, ControlError::Absent { name } if name == "one"), "{error}");
    });
}

#[test]
fn name_is_one_session_s_until_it_ends() {
    let bench = Bench::new("claim");
    let listener = bench.listener("one");
    let error = bench.folder.claim("one").unwrap_err();
    let pid = std::process::id();
    assert!(matches!(error, ControlError::Exists { pid: found, .. } if found == pid), "{error}");
    let entries = bench.folder.entries().unwrap();
    assert_eq!(entries.iter().map(|one| (&*one.name, one.pid)).collect::<Vec<_>>(), [("one", pid)]);
    drop(listener);
    assert_eq!(bench.folder.entries().unwrap(), []);
    let error = ask(&bench.folder, "one", &Request::Status).unwrap_err();
    assert!(matches!(error, ControlError::Absent { .. }), "{error}");
    // One that was killed leaves its files; a file that nobody has locked is no session.
    std::fs::write(bench.folder.path().join("one.lock"), "77").unwrap();
    std::fs::write(bench.folder.path().join("one.sock"), "").unwrap();
    assert_eq!(bench.folder.entries().unwrap(), []);
    drop(bench.listener("one"));
}

#[test]
fn name_that_is_only_looked_at_is_waited_for() {
    let bench = Bench::new("looked-at");
    let look = std::fs::File::create(bench.folder.path().join("one.lock")).unwrap();
    flock(&look, FlockOperation::LockShared).unwrap();
    thread::scope(|scope| {
        let claiming = scope.spawn(|| bench.folder.claim("one").map(drop));
        // Time: longer than a session's name is asked for.
        thread::sleep(Duration::from_millis(100));
        drop(look);
        claiming.join().unwrap().unwrap();
    });
}

#[test]
fn nonsense_is_refused_and_the_next_one_is_heard() {
    let bench = Bench::new("nonsense");
    let listener = bench.listener("one");
    let nonsense: [(&[u8], &str); 14] = [
        (br#"{"strata":1,"do":"snapshot","output":"/a","last_ns":-1}"#, "'last_ns' is no number"),
        (b"x", "not JSON"),
        (b"[]", "not an object"),
        (b"{}", "no 'strata'"),
        (br#"{"strata":2,"do":"stop"}"#, "version 2"),
        (br#"{"strata":1}"#, "no 'do'"),
        (br#"{"strata":1,"do":"fly\u001b[0m"}"#, "fly?[0m"),
        (br#"{"strata":1,"do":"snapshot","output":"a/b"}"#, "no absolute path"),
        (br#"{"strata":1,"do":"stop","force":true}"#, "'force' is not known"),
        (br#"{"strata":1,"do":"destroy","output":"/a"}"#, "'output' is not known"),
        (br#"{"strata":1,"do":"change"}"#, "'change' is no object"),
        (br#"{"strata":1,"do":"change","change":[1]}"#, "'change' is no object"),
        (br#"{"strata":1,"do":"change","change":{},"output":"/a"}"#, "'output' is not known"),
        (&[b' '; MESSAGE_BYTES_MAX + 1], "at most"),
    ];
    thread::scope(|scope| {
        scope.spawn(|| (0..=nonsense.len()).for_each(|_| listener.serve(&mut echo).unwrap()));
        for (bytes, said) in nonsense {
            let reply = bench.say("one", bytes);
            assert!(reply.contains("error") && reply.contains(said), "{said}: {reply}");
        }
        assert!(ask(&bench.folder, "one", &Request::Status).is_ok());
    });
}

#[test]
fn bytes_that_are_anything_never_make_a_request_panic() {
    let mut random = Random::from_seed(1);
    let change = serde_json::json!({ "enable-event": { "rules": ["a:*"], "layer": "user" } });
    let change = change.as_object().unwrap().clone();
    let whole = [
        Request::Snapshot { output: "/a".into(), to: None, last: None }.encode(),
        Request::Change { change }.encode(),
        Request::Settle { folder: Some("/a".into()) }.encode(),
    ];
    for number in 0..20_000 {
        let mut bytes = whole[number % 3].clone();
        for _ in 0..3 {
            let at = random.below(bytes.len());
            bytes[at] = random.next() as u8;
        }
        if let Ok(request) = Request::decode(&bytes) {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
    }
}

#[test]
fn what_a_killed_session_leaves_is_found_and_removed_and_nothing_else() {
    let bench = Bench::new("left");
    let folder = bench.above.join("strata-sessions");
    let write = |file: &str| std::fs::write(folder.join(file), "x").unwrap();
    // As SIGKILL leaves it: the kernel gives back the lock, and nothing else.
    for file in [
        "one.lock",
        "one.sock",
        "one.plan",
        "one.log",
        "ended.log",
        "a.plan.lock",
        "odd",
        "-x.plan",
    ] {
        write(file);
    }
    std::os::unix::fs::symlink("one.plan", folder.join("link.plan")).unwrap();
    let listener = bench.listener("two");
    listener.claim().keep(PLAN, "first").unwrap();
    listener.claim().keep(PLAN, "second").unwrap();
    assert_eq!(bench.folder.text("two", PLAN).unwrap(), "second");
    let left = bench.folder.left().unwrap();
    let names: Vec<&str> = left.iter().map(|left| left.name.as_str()).collect();
    assert_eq!(names, ["a.plan", "ended", "one"]);
    assert!(left[1].is_ended() && !left[1].is_killed() && left[2].is_killed());
    assert_eq!(bench.folder.killed().unwrap(), ["one"]);
    assert!(!bench.folder.is_killed("two"), "it runs");
    let error = ask(&bench.folder, "one", &Request::Status).unwrap_err();
    assert!(matches!(error, ControlError::Killed { .. }), "{error}");
    assert!(matches!(bench.folder.remove("two"), Err(ControlError::Exists { .. })));
    assert_eq!(bench.folder.remove("one").unwrap(), ["plan", "log", "lock"]);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let wanted = [
        "-x.plan",
        "a.plan.lock",
        "ended.log",
        "link.plan",
        "odd",
        "two.lock",
        "two.plan",
        "two.sock",
    ];
    assert_eq!(files, wanted);
    // The next command removes what is of a killed session's process.
    for file in ["gone.sock", "gone.lock", "made.plan", "made.sock", "made.lock"] {
        write(file);
    }
    for file in ["begins.lock", "said.log", "said.lock"] {
        write(file);
    }
    let empty = |file: &str| std::fs::write(folder.join(file), "").unwrap();
    ["gone.log", "made.log", "begins.log", "takes.log", "takes.lock"]
        .iter()
        .for_each(|file| empty(file));
    let now = std::time::SystemTime::now();
    for (file, time) in [
        ("gone", now + HOUR),
        ("made", now + HOUR),
        ("said", now + HOUR),
        ("takes", now + HOUR),
        ("begins", now - HOUR),
    ] {
        let lock = std::fs::File::options().write(true).open(folder.join(format!("{file}.lock")));
        lock.unwrap().set_modified(time).unwrap();
    }
    bench.folder.tidy();
    let there = |file: &str| folder.join(file).exists();
    assert!(
        !there("gone.sock") && !there("gone.lock") && !there("made.sock") && !there("made.lock")
    );
    // A file system may not know when a file was made; then logs stay.
    let knows_times = std::fs::metadata(folder.join("made.log")).unwrap().created().is_ok();
    assert_eq!(there("gone.log"), !knows_times);
    assert!(there("made.plan") && there("made.log"), "it can be made again");
    assert!(there("said.log") && !there("said.lock"), "nobody has read its messages");
    for file in ["begins.log", "takes.log"] {
        assert!(there(file), "{file}: of a session that is about to take the name");
    }
    assert!(there("two.lock") && there("two.sock"), "it runs");
    // One that ends takes its plan with it.
    assert_eq!(listener.claim().forget(false), ["plan", "sock"]);
    drop(listener);
    assert!(bench.folder.text("two", PLAN).is_err() && bench.folder.text("link", PLAN).is_err());
}

#[test]
fn session_that_does_not_answer_is_reported_with_its_process() {
    let bench = Bench::new("silent");
    let _listener = bench.listener("still");
    let asked = || {
        let patience = Duration::from_millis(1);
        ask_within(&bench.folder, "still", &Request::Status, patience).unwrap_err()
    };
    // More than may wait to be heard: to connect waits, too.
    let mut waiting = Vec::new();
    for _ in 0..40 {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let address = bench.above.join("strata-sessions/still.sock");
        let _ = connect(&socket, &SocketAddrUnix::new(address).unwrap());
        waiting.push(socket);
        if waiting.len() == 1 || waiting.len() == 40 {
            let error = asked();
            let ours = std::process::id();
            assert!(matches!(error, ControlError::Silent { pid, .. } if pid == ours), "{error}");
        }
    }
}

#[test]
fn what_is_in_the_way_of_a_session_is_named_and_stays() {
    let bench = Bench::new("way");
    let at = |file: &str| bench.above.join("strata-sessions").join(file);
    let fifo = |path: &PathBuf| {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
    };
    for file in ["x.lock", "x.sock"] {
        for (kind, what) in
            [("fifo", "is a FIFO"), ("folder", "is a folder"), ("link", "is a link")]
        {
            let path = at(file);
            match kind {
                "fifo" => fifo(&path).unwrap(),
                "folder" => std::fs::create_dir(&path).unwrap(),
                _ => std::os::unix::fs::symlink("/dev/zero", &path).unwrap(),
            }
            let error = bench.folder.claim("x").unwrap_err();
            assert!(matches!(&error, ControlError::InTheWay { .. }), "{file} {kind}: {error}");
            let text = error.to_string();
            assert!(text.contains(file) && text.contains(what), "{text}");
            assert!(path.symlink_metadata().is_ok());
            std::fs::remove_dir(&path).or_else(|_| std::fs::remove_file(&path)).unwrap();
        }
    }
    std::fs::create_dir(at("x.log")).unwrap();
    let error = bench.folder.log("x").unwrap_err();
    assert!(error.to_string().contains("is a folder"), "{error}");
    // What is no file of a session is no killed session.
    fifo(&at("x.plan")).unwrap();
    assert!(!bench.folder.is_killed("x") && bench.folder.killed().unwrap().is_empty());
    assert!(bench.folder.text("x", PLAN).is_err());
}
