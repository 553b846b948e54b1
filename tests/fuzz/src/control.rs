//! What is said to a session, and what a session answers, over real sockets.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Mutex, OnceLock};

use rustix::io::Errno;
use rustix::net::{
    accept_with, bind, connect, listen, recv, send, sendmsg, shutdown, socket_with, AddressFamily,
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType,
};
use serde_json::Value;
use strata_control::{
    ask, ControlError, Folder, Reply, Request, SessionListener, MESSAGE_BYTES_MAX,
};

/// A session that answers with what it was asked, and one that says whatever it is told to.
struct Both {
    folder: Folder,
    path: PathBuf,
    honest: SessionListener,
    says: Mutex<(Sender<Vec<u8>>, Receiver<()>)>,
}

fn socket() -> OwnedFd {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .expect("a socket")
}

fn both() -> &'static Both {
    static BOTH: OnceLock<Both> = OnceLock::new();
    BOTH.get_or_init(|| {
        let above = std::env::temp_dir().join(format!("strata-control-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&above);
        std::fs::create_dir(&above).expect("a folder");
        let folder = Folder::open_in(&above).expect("a folder for sessions");
        let honest =
            SessionListener::new(folder.claim("honest").expect("a name")).expect("a session");
        let path = folder.path().to_owned();
        let liar = socket();
        bind(&liar, &SocketAddrUnix::new(path.join("liar.sock")).expect("an address"))
            .and_then(|()| listen(&liar, 4))
            .expect("a socket that listens");
        let (says, told) = channel::<Vec<u8>>();
        let (over, is_over) = channel();
        std::thread::spawn(move || {
            let mut asked = vec![0; MESSAGE_BYTES_MAX];
            for answer in told {
                let Ok(one) = accept_with(&liar, SocketFlags::CLOEXEC) else { continue };
                let _ = recv(&one, &mut asked[..], RecvFlags::empty());
                let _ = send(&one, &answer, SendFlags::NOSIGNAL);
                drop(one);
                let _ = over.send(());
            }
        });
        Both { folder, path, honest, says: Mutex::new((says, is_over)) }
    })
}

/// The lowest number that is free: it grows with every descriptor that somebody keeps.
fn free_number() -> i32 {
    use std::os::fd::AsRawFd as _;
    both().honest_path().as_raw_fd()
}

impl Both {
    fn honest_path(&self) -> OwnedFd {
        rustix::fs::open(&self.path, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty())
            .expect("a descriptor")
    }
}

/// Says what it was asked: what it understood.
fn echo(request: Request, heard: &mut Option<Request>) -> Reply {
    let words = format!("{request:?}");
    *heard = Some(request);
    Ok([("asked".to_owned(), Value::String(words))].into_iter().collect())
}

/// The first byte: how many descriptors go along, and how the one who asks goes away. What is behind the first NUL, if
/// there is one, is a session's answer.
pub fn run(input: &[u8]) {
    let Some((&ways, rest)) = input.split_first() else { return };
    let (request, answer) = match rest.iter().position(|&byte| byte == 0) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    decoded(request);
    let before = free_number();
    asked(ways, request);
    if let Some(answer) = answer.filter(|answer| !answer.is_empty()) {
        answered(answer);
    }
    assert_eq!(free_number(), before, "a descriptor was kept");
}

/// What is understood can be said again, and means the same.
fn decoded(bytes: &[u8]) {
    match Request::decode(bytes) {
        Ok(request) => {
            if let Request::Snapshot { output, .. } = &request {
                assert!(output.is_absolute(), "{}", output.display());
            }
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        Err(why) => shown(&why),
    }
}

fn shown(why: &str) {
    assert!(!why.is_empty() && why.len() < 5000, "{} bytes", why.len());
}

fn asked(ways: u8, request: &[u8]) {
    let both = both();
    let socket = socket();
    let address = SocketAddrUnix::new(both.path.join("honest.sock")).expect("an address");
    connect(&socket, &address).expect("a session");
    let given = both.honest_path();
    let given: Vec<BorrowedFd<'_>> = (0..ways & 7).map(|_| given.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    if !given.is_empty() {
        assert!(along.push(SendAncillaryMessage::ScmRights(&given)));
    }
    sendmsg(&socket, &[IoSlice::new(request)], &mut along, SendFlags::NOSIGNAL).expect("to ask");
    if ways & 8 != 0 {
        // A second one, which nobody waits for.
        let _ = send(&socket, request, SendFlags::NOSIGNAL);
    }
    let is_there = match ways >> 4 & 3 {
        0 => {
            drop(socket);
            None
        }
        1 => {
            let _ = shutdown(&socket, Shutdown::Write);
            Some(socket)
        }
        _ => Some(socket),
    };
    let mut heard = None;
    both.honest.serve(&mut |request| echo(request, &mut heard)).expect("a socket that listens");
    assert_eq!(heard, Request::decode(request).ok());
    let Some(socket) = is_there else { return };
    let mut reply = vec![0; MESSAGE_BYTES_MAX + 1];
    let bytes = match recv(&socket, &mut reply[..], RecvFlags::empty()) {
        Ok((bytes, _)) => bytes,
        // What was said twice is not read twice: the system says so, and no longer gives the answer.
        Err(Errno::CONNRESET) if ways & 8 != 0 => return,
        Err(errno) => panic!("no answer: {errno}"),
    };
    let reply: Value = serde_json::from_slice(&reply[..bytes]).expect("an answer of JSON");
    match (reply.get("ok"), reply.get("error")) {
        (Some(Value::Object(_)), None) => assert!(heard.is_some()),
        (None, Some(Value::String(_))) => assert!(heard.is_none()),
        _ => panic!("neither an answer nor an error: {reply}"),
    }
    assert_eq!(reply.get("strata"), Some(&1.into()));
}

fn answered(answer: &[u8]) {
    let both = both();
    let liar = both.says.lock().expect("one at a time");
    liar.0.send(answer.to_vec()).expect("a liar");
    let answer = ask(&both.folder, "liar", &Request::Status);
    liar.1.recv().expect("a liar that has let go");
    match answer {
        Ok(_) => {}
        Err(error @ (ControlError::Refused { .. } | ControlError::Message { .. })) => {
            let words = error.to_string();
            assert!(!words.chars().any(char::is_control), "{words:?}");
            shown(&words);
        }
        Err(error) => panic!("{error}"),
    }
}
