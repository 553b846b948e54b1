use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread;
use strata_random::Random;

use super::*;
use crate::bench_tests::Bench;

/// Makes one end of a socket, and the other one, which tells whether anybody still has the first.
fn pair() -> (OwnedFd, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    (one.into(), other)
}

/// Waits until no process holds the other end any more.
fn wait_until_let_go(mut other: UnixStream) {
    assert_eq!(other.read(&mut [0]).unwrap(), 0);
}

#[test]
fn what_a_session_held_is_there_for_the_next_one_and_gone_with_its_end() {
    let bench = Bench::new("fdstore-next");
    let claim = bench.folder.claim("one").unwrap();
    assert!(claim.connect_fdstore().unwrap().is_none());
    let fdstore = claim.new_fdstore().unwrap();
    thread::scope(|scope| {
        let serving = scope.spawn(move || fdstore.serve());
        let (fdstore, held) = claim.connect_fdstore().unwrap().unwrap();
        assert!(held.is_empty());
        let ((first, of_first), (second, of_second), (third, of_third)) = (pair(), pair(), pair());
        fdstore.hold(7, b"seven", &[first.as_fd(), second.as_fd()]).unwrap();
        fdstore.hold(8, b"", &[third.as_fd()]).unwrap();
        drop((first, second, third));
        fdstore.let_go(8).unwrap();
        wait_until_let_go(of_third);
        // It is killed.
        drop(fdstore);
        let (fdstore, held) = claim.connect_fdstore().unwrap().unwrap();
        let [one] = &held[..] else { panic!("{held:?}") };
        assert_eq!((one.number, &*one.facts, one.fds.len()), (7, &b"seven"[..], 2));
        File::from(one.fds[1].try_clone().unwrap()).write_all(b"x").unwrap();
        let mut byte = [0];
        (&of_second).read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        drop(held);
        fdstore.end();
        serving.join().unwrap();
        wait_until_let_go(of_first);
        wait_until_let_go(of_second);
    });
    assert!(claim.connect_fdstore().unwrap().is_none());
}

#[test]
fn many_are_held_and_all_of_them_are_reported() {
    let bench = Bench::new("fdstore-many");
    let claim = bench.folder.claim("one").unwrap();
    let fdstore = claim.new_fdstore().unwrap();
    let (fd, _other) = pair();
    thread::scope(|scope| {
        scope.spawn(move || fdstore.serve());
        let (fdstore, _) = claim.connect_fdstore().unwrap().unwrap();
        // More than find room on their way at once.
        for number in 0..300 {
            while let Err(errno) = fdstore.hold(number, &[7; FACTS_BYTES_MAX], &[fd.as_fd()]) {
                assert!([Errno::AGAIN, Errno::NOBUFS, Errno::TOOMANYREFS].contains(&errno));
                thread::yield_now();
            }
        }
        // Another one with a number that is there takes its place.
        while fdstore.hold(299, b"new", &[fd.as_fd()]).is_err() {
            thread::yield_now();
        }
        drop(fdstore);
        let (fdstore, held) = claim.connect_fdstore().unwrap().unwrap();
        assert_eq!(
            held.iter().map(|one| one.number).collect::<Vec<_>>(),
            (0..300).collect::<Vec<_>>()
        );
        assert_eq!((held[0].facts.len(), &*held[299].facts), (FACTS_BYTES_MAX, &b"new"[..]));
        fdstore.end();
    });
}

#[test]
fn fdstore_ends_when_it_holds_nothing_and_when_nobody_can_find_it() {
    let bench = Bench::new("fdstore-bound");
    let claim = bench.folder.claim("one").unwrap();
    for is_empty in [true, false] {
        let fdstore = claim.new_fdstore().unwrap();
        let (fd, other) = pair();
        thread::scope(|scope| {
            let serving = scope.spawn(move || fdstore.serve());
            let (fdstore, _) = claim.connect_fdstore().unwrap().unwrap();
            if !is_empty {
                fdstore.hold(1, b"", &[fd.as_fd()]).unwrap();
                fs::unlinkat(claim.folder(), "one.fdstore", AtFlags::empty()).unwrap();
            }
            drop((fd, fdstore));
            serving.join().unwrap();
            wait_until_let_go(other);
        });
    }
}

#[test]
fn fdstore_of_a_session_that_was_killed_ends_when_what_is_left_is_removed() {
    let bench = Bench::new("fdstore-removed");
    let claim = bench.folder.claim("one").unwrap();
    claim.keep(crate::PLAN, "{}").unwrap();
    let fdstore = claim.new_fdstore().unwrap();
    let (fd, other) = pair();
    thread::scope(|scope| {
        let serving = scope.spawn(move || fdstore.serve());
        let (fdstore, _) = claim.connect_fdstore().unwrap().unwrap();
        fdstore.hold(1, b"", &[fd.as_fd()]).unwrap();
        drop((fd, fdstore, claim));
        assert_eq!(bench.folder.killed().unwrap(), ["one"]);
        assert_eq!(bench.folder.remove("one").unwrap(), ["plan", "fdstore"]);
        serving.join().unwrap();
        wait_until_let_go(other);
    });
    assert_eq!(std::fs::read_dir(bench.folder.path()).unwrap().count(), 0);
}

fn bytes(magic: u64, kind: u64, number: u64, facts: &[u8]) -> Vec<u8> {
    [&[magic, kind, number].map(u64::to_le_bytes).concat()[..], facts].concat()
}

/// Returns invalid messages, with the number of descriptors in each.
fn nonsense() -> Vec<(Vec<u8>, usize)> {
    let hold = |facts: &[u8]| bytes(MAGIC, HOLD.into(), 1, facts);
    let bare = |kind: u32| bytes(MAGIC, kind.into(), 1, b"");
    vec![
        (b"x".to_vec(), 0),
        (b"x".to_vec(), 1),
        (hold(b"")[..HEADER_BYTES - 1].to_vec(), 1),
        (hold(b""), 0),
        (hold(b"facts"), FDS_MAX + 1),
        (hold(b"facts"), 8),
        (hold(&[0; FACTS_BYTES_MAX + 1]), 1),
        (bytes(0, HOLD.into(), 1, b""), 1),
        (bytes(MAGIC + (1 << 56), HOLD.into(), 1, b""), 1),
        (bytes(u64::MAX, END.into(), 0, b""), 0),
        (bytes(MAGIC, 0, 1, b""), 0),
        (bytes(MAGIC, 5, 1, b""), 0),
        (bytes(MAGIC, u64::MAX, 1, b""), 0),
        (bytes(MAGIC, (1 << 32) + u64::from(END), 1, b""), 0),
        (bare(DROP), 1),
        (bare(END), 1),
        (bare(ALL), 2),
        (bytes(MAGIC, DROP.into(), 1, b"x"), 0),
        (bytes(MAGIC, END.into(), 1, b"x"), 0),
    ]
}

#[test]
fn malicious_messages_change_nothing_and_leave_no_descriptor() {
    let bench = Bench::new("fdstore-nonsense");
    let claim = bench.folder.claim("one").unwrap();
    let fdstore = claim.new_fdstore().unwrap();
    let (kept, _other) = pair();
    thread::scope(|scope| {
        scope.spawn(move || fdstore.serve());
        let (fdstore, _) = claim.connect_fdstore().unwrap().unwrap();
        fdstore.hold(1, b"kept", &[kept.as_fd()]).unwrap();
        for (text, nr_fds) in nonsense() {
            let (fd, other) = pair();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let fds = vec![fd.as_fd(); nr_fds];
            assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(&fds)));
            let sent =
                sendmsg(&fdstore.0, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL);
            assert_eq!(sent, Ok(text.len()));
            drop(fd);
            wait_until_let_go(other);
        }
        // What it says itself is not for it.
        say(fdstore.0.as_fd(), (ALL, 0), &[], &[], SendFlags::empty()).unwrap();
        drop(fdstore);
        let (fdstore, held) = claim.connect_fdstore().unwrap().unwrap();
        let [one] = &held[..] else { panic!("{held:?}") };
        assert_eq!((one.number, &*one.facts), (1, &b"kept"[..]));
        fdstore.end();
    });
}

#[test]
fn what_does_not_find_room_here_is_reported_and_stays_held() {
    let bench = Bench::new("fdstore-cut");
    let claim = bench.folder.claim("one").unwrap();
    let fdstore = claim.new_fdstore().unwrap();
    let (fd, mut other) = pair();
    thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let session = accept_with(&fdstore.listener, SocketFlags::CLOEXEC).unwrap();
            // To the other end it is as if it could have fewer open: there is no room for the last ones.
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let fds = [fd.as_fd(); 8];
            assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
            let text = bytes(MAGIC, HOLD.into(), 1, b"facts");
            sendmsg(&session, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL).unwrap();
            let _ = say(session.as_fd(), (ALL, 0), &[], &[], SendFlags::empty());
            fd
        });
        let error = claim.connect_fdstore().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::MFILE.raw_os_error()), "{error}");
        // Nobody but the fdstore has it.
        drop(serving.join().unwrap());
    });
    assert_eq!(other.read(&mut [0]).unwrap(), 0);
}

#[test]
fn bytes_that_are_anything_never_make_a_message_panic() {
    let mut random = Random::from_seed(1);
    let whole: Vec<Vec<u8>> = [HOLD, DROP, END, ALL]
        .iter()
        .map(|kind| bytes(MAGIC, (*kind).into(), 9, b"facts"))
        .collect();
    let (mut understood, mut others) = (0, 0);
    for number in 0..20_000 {
        let mut text = whole[number % whole.len()].clone();
        for _ in 0..number % 3 {
            let at = random.below(text.len());
            text[at] = random.next() as u8;
        }
        text.truncate(match number % 5 {
            0 => random.below(text.len() + 1),
            1 => HEADER_BYTES,
            _ => text.len(),
        });
        let fds = match number % 7 {
            0 => vec![pair().0],
            _ => Vec::new(),
        };
        match FdStoreMessage::decode(&text, fds, number % 11 == 0) {
            FdStoreMessage::Nonsense | FdStoreMessage::Cut => others += 1,
            _ => understood += 1,
        }
    }
    assert!(understood > 100 && others > 1000, "{understood} {others}");
}
