//! Tests of the properties that follow from the names of system calls.

use super::*;

#[test]
fn calls_of_other_spellings_and_of_32_bits_do_the_same() {
    use CallKind as K;
    for (names, wanted) in [
        (&["nanosleep", "clock_nanosleep", "clock_nanosleep_time64"][..], K::Sleep),
        (
            &[
                "poll",
                "compat_ppoll_time64",
                "select",
                "pselect6_time32",
                "epoll_pwait2",
                "io_getevents",
            ],
            K::Poll,
        ),
        (&["open", "openat", "openat2", "creat", "compat_openat"], K::Open),
        (&["socket", "accept4", "memfd_create", "io_uring_setup", "pidfd_open"], K::Make),
        (&["pipe", "pipe2", "socketpair", "compat_pipe2"], K::Pair),
        (&["close", "compat_close"], K::Close),
        (&["dup", "dup2", "dup3"], K::Duplicate),
        (&["fcntl", "fcntl64", "compat_fcntl64", "ioctl"], K::Control),
        (&["close_range"], K::CloseRange),
        (&["bind", "connect"], K::Address),
        (&["getsockname"], K::Ask),
        (&["chdir", "fchdir"], K::Folder),
        (
            &["futex", "futex_time64", "compat_futex_time32", "futex_wait", "futex_requeue"],
            K::Futex,
        ),
        (&["fork", "vfork", "clone", "clone3"], K::Fork),
        (&["execve", "execveat", "compat_execve"], K::Exec),
        (&["exit", "exit_group"], K::Exit),
        (&["read", "futex_waitv", "compat_", "_time64", "", "opendir", "closed"], K::Other),
    ] {
        for name in names {
            assert_eq!(kind(name), wanted, "{name}");
        }
    }
}

#[test]
fn bytes_move_to_or_from_the_program_or_between_two_descriptors() {
    for (names, wanted) in [
        (
            &["read", "preadv2", "recvmsg", "compat_readv", "mq_timedreceive_time64"][..],
            Moves::Reads,
        ),
        (&["write", "pwrite64", "sendto", "compat_writev"], Moves::Writes),
        (&["sendfile64", "copy_file_range", "splice", "tee"], Moves::Copies),
        // Their results are numbers of messages, or of something else.
        (
            &["recvmmsg_time64", "sendmmsg", "vmsplice", "mq_timedsend", "io_uring_enter"],
            Moves::Unsaid,
        ),
        (&["openat", "mmap", "readahead", "", "compat_"], Moves::Nothing),
    ] {
        for name in names {
            assert_eq!(moves(name), wanted, "{name}");
        }
    }
}

#[test]
fn descriptor_is_closed_by_exec_as_each_call_s_flags_say() {
    let cloexec = 0o2_000_000;
    for (name, flags, wanted) in [
        ("openat", Some(cloexec), Some(true)),
        ("openat", Some(cloexec | 1), Some(true)),
        ("openat", Some(1), Some(false)),
        ("openat", None, None),
        ("compat_openat", Some(cloexec), Some(true)),
        // These have no flags, and those always do it.
        ("creat", Some(cloexec), Some(false)),
        ("dup2", None, Some(false)),
        ("compat_pipe", None, Some(false)),
        ("pidfd_open", Some(0), Some(true)),
        ("io_uring_setup", None, Some(true)),
        // Other bits.
        ("memfd_create", Some(1), Some(true)),
        ("memfd_create", Some(cloexec), Some(false)),
        ("perf_event_open", Some(8), Some(true)),
        ("perf_event_open", Some(7), Some(false)),
    ] {
        assert_eq!(is_closed_by_exec(name, flags), wanted, "{name} {flags:?}");
    }
}

#[test]
fn numbers_of_names_are_given_once_and_not_beyond_the_limit() {
    let mut calls = Calls::default();
    let read = calls.of("read").unwrap();
    assert_eq!((calls.of("read"), calls.name(read)), (Some(read), "read"));
    for number in 1..CALLS_MAX {
        assert!(calls.of(&format!("syscall_{number}")).is_some());
    }
    // A trace may have any number of them.
    assert_eq!((calls.of("write"), calls.of("read")), (None, Some(read)));
    let unknown = CallId(u32::MAX);
    assert_eq!((calls.name(unknown), calls.kind(unknown)), ("", CallKind::Other));
    assert_eq!(calls.moves(unknown), Moves::Nothing);
}
