//! Checks the names of sockets, pipes and things without a path, and the folders in which paths begin.

use super::*;
use crate::ids::names::Names;
use crate::world::threads::Thread;

fn address(family: u64, port: u64, bytes: &[u8]) -> SocketAddress {
    let mut address = SocketAddress::default();
    (address.family, address.port, address.bytes) = (family, port, bytes.to_vec());
    address
}

#[test]
fn addresses_are_written_as_people_write_them_or_not_at_all() {
    let six = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let text = |text: &str| Some(text.to_owned());
    for (address, with_port, without) in [
        (address(AF_INET, 80, &[127, 0, 0, 1]), text("127.0.0.1:80"), text("127.0.0.1")),
        (address(AF_INET6, 443, &six), text("[2001:db8::1]:443"), text("2001:db8::1")),
        // Fewer bytes than an address has, or more.
        (address(AF_INET, 80, &[127, 0, 0]), None, None),
        (address(AF_INET, 80, &six), None, None),
        (address(AF_INET6, 80, &[1, 2, 3, 4]), None, None),
        (address(AF_NETLINK, 0, &[0; 10]), None, None),
        (address(0, 0, &[]), None, None),
        (address(AF_UNIX, 0, b"/run/a"), text("/run/a"), text("/run/a")),
        // One without a file begins with a NUL; what is behind the end of a path is none of it.
        (address(AF_UNIX, 0, b"\0name"), text("@name"), text("@name")),
        (address(AF_UNIX, 0, b"/run/a\0"), text("/run/a"), text("/run/a")),
        (address(AF_UNIX, 0, b"/run/a\0\0\0\0"), text("/run/a"), text("/run/a")),
        (address(AF_UNIX, 0, b"/run/a\0garbage"), text("/run/a"), text("/run/a")),
        (address(AF_UNIX, 0, b"\0\0\0"), None, None),
        (address(AF_UNIX, 0, b""), None, None),
    ] {
        assert_eq!(text_of(&address, true), with_port, "{address:?}");
        assert_eq!(text_of(&address, false), without, "{address:?}");
    }
}

/// Returns a world with process 5.
fn world() -> (World, ThreadId) {
    let mut world = World::default();
    let thread = world.threads.add(Thread::new(0, 5, 0, 0)).unwrap();
    (world, thread)
}

#[test]
fn things_without_a_path_are_called_by_the_call_that_makes_them() {
    let (mut world, _) = world();
    let mut name = |call: &str, parts: &[(Part, i64)]| {
        let call = world.calls.of(call).unwrap();
        let name = made(&mut world, call, More::Is("shm", parts));
        (world.names.kind(name), world.names.text(name))
    };
    for (call, wanted) in [
        ("epoll_create1", "epoll"),
        ("eventfd2", "eventfd"),
        ("timerfd_create", "timerfd"),
        ("inotify_init1", "inotify"),
        ("signalfd4", "signalfd"),
        ("pidfd_open", "pidfd"),
        ("io_uring_setup", "io_uring"),
        ("perf_event_open", "perf_event"),
        ("compat_eventfd2", "eventfd"),
        ("memfd_create", "memfd:shm"),
    ] {
        assert_eq!(name(call, &[]), (NameKind::Nameless, wanted.to_owned()), "{call}");
    }
    for (family, kind, wanted) in [
        (2, 1, "tcp"),
        (10, 0o4001, "tcp"),
        (2, 2 | 0o2_000_000, "udp"),
        (2, 3, "socket"),
        (1, 1, "unix"),
        (16, 3, "netlink"),
        (-1, 1, "socket"),
    ] {
        let parts = [(Part::Family, family), (Part::Type, kind)];
        assert_eq!(
            name("socket", &parts),
            (NameKind::Socket, wanted.to_owned()),
            "{family} {kind}"
        );
    }
    assert_eq!(name("socket", &[]).1, "socket");
}

#[test]
fn what_was_open_before_is_named_as_proc_does_unless_more_is_known() {
    let (mut world, who) = world();
    for (number, path) in [
        (0, "/dev/null"),
        (1, "pipe:[123]"),
        (2, "socket:[45]"),
        (3, "anon_inode:[eventpoll]"),
        (4, "anon_inode:"),
        (5, ""),
        (-1, "/no"),
        (1 << 40, "/no"),
    ] {
        there(&mut world, who, number, Some(O_CLOEXEC), RecordText::Is(path));
    }
    // It was told already.
    there(&mut world, who, 0, None, RecordText::Is("/dev/other"));
    there(&mut world, who, 9, None, RecordText::None);
    let known = (0..10).filter_map(|number| {
        let name = world.file(who, number)?;
        Some((number, world.names.kind(name), world.names.text(name)))
    });
    let named = |number, kind, text: &str| (number, kind, text.to_owned());
    let wanted = [
        named(0, NameKind::Given, "/dev/null"),
        named(1, NameKind::Pipe, "pipe"),
        named(2, NameKind::Socket, "socket:[45]"),
        named(3, NameKind::Nameless, "[eventpoll]"),
    ];
    assert_eq!(known.collect::<Vec<_>>(), wanted);
    assert_eq!(world.opened(who, 0).unwrap().by_exec, Some(true));
}

#[test]
fn paths_begin_in_the_folder_that_the_call_or_the_process_says() {
    let (mut world, who) = world();
    let mut open = |number: i32, path: &str| {
        let name = world.names.of(path.as_bytes());
        world.open(who, number, OpenedFor { name, by_exec: None });
    };
    open(7, "/srv/data/");
    open(8, "/");
    let home = world.names.of(b"/opt");
    let mut name = |call: &str, at: &'static str, folder: Option<i64>| {
        let call = world.calls.of(call).unwrap();
        let parts: Vec<(Part, i64)> = folder.map(|at| (Part::Folder, at)).into_iter().collect();
        let mut open = OpenCall::of(call);
        begin(&mut world, who, &mut open, Object::None, More::Is(at, &parts), true);
        world.names.text(open.arguments().path)
    };
    for (at, folder, wanted) in [
        ("/a", None, "/a"),
        ("/a", Some(7), "/a"),
        ("a", None, "a"),
        ("a", Some(-100), "a"),
        ("a/b", Some(7), "/srv/data/a/b"),
        ("a", Some(8), "/a"),
        // The descriptor itself, as with AT_EMPTY_PATH.
        ("", Some(7), "/srv/data/"),
        // Of a folder that is not known the path is what is left.
        ("a", Some(9), "a"),
        ("a", Some(1 << 40), "a"),
        // The address of a text that could not be read.
        ("0x7ffd1234", None, ""),
        ("0x7ffd1234", Some(7), ""),
        ("0xyz", None, "0xyz"),
        ("", None, ""),
    ] {
        assert_eq!(name("openat", at, folder), wanted, "{at:?} {folder:?}");
    }
    world.enter_folder(who, home);
    let mut name = |call: &str, at: &'static str| {
        let call = world.calls.of(call).unwrap();
        let mut open = OpenCall::of(call);
        begin(&mut world, who, &mut open, Object::None, More::Is(at, &[]), true);
        world.names.text(open.arguments().path)
    };
    assert_eq!((name("openat", "a"), name("unlink", "a")), ("/opt/a".into(), "/opt/a".into()));
    assert_eq!((name("symlink", "a"), name("mq_open", "q")), ("a".into(), "q".into()));
}

#[test]
fn connections_are_called_by_who_listens_and_who_came() {
    let (mut world, who) = world();
    let mut of = |text: &str| Object::File(world.names.of_kind(NameKind::Socket, text.as_bytes()));
    let (tcp, listens) = (of("tcp"), of("tcp 0.0.0.0:80"));
    let peer = || Some(address(AF_INET, 5555, &[10, 0, 0, 9]));
    let mut text = |name: &dyn Fn(&mut World) -> Name| {
        let name = name(&mut world);
        world.names.text(name)
    };
    assert_eq!(
        text(&|world| socket_name(world, tcp, peer(), NameKind::Socket)),
        "tcp 10.0.0.9:5555"
    );
    assert_eq!(
        text(&|world| socket_name(world, listens, peer(), NameKind::Socket)),
        "tcp 10.0.0.9:5555"
    );
    assert_eq!(
        text(&|world| socket_name(world, Object::None, peer(), NameKind::Socket)),
        "socket 10.0.0.9:5555"
    );
    assert_eq!(text(&|world| socket_name(world, tcp, None, NameKind::Socket)), "");
    // The port of who came is any.
    assert_eq!(text(&|world| accepted(world, listens, peer())), "tcp 0.0.0.0:80 from 10.0.0.9");
    assert_eq!(text(&|world| accepted(world, listens, None)), "tcp 0.0.0.0:80");
    let unix = || Some(address(AF_UNIX, 0, b"/run/a"));
    assert_eq!(text(&|world| accepted(world, Object::Descriptor(3), unix())), "socket");
    let _ = who;
}

#[test]
fn socket_of_any_port_has_the_one_that_it_was_given() {
    let (mut world, who) = world();
    let ask = |world: &mut World, bound: &str, found: Option<SocketAddress>| {
        let name = world.names.of_kind(NameKind::Socket, bound.as_bytes());
        world.open(who, 3, OpenedFor { name, by_exec: Some(true) });
        let call = world.calls.of("getsockname").unwrap();
        let mut open = OpenCall { object: Object::File(name), ..OpenCall::of(call) };
        open.arguments_mut().descriptor = Some(3);
        asked(world, who, &open, found);
        let opened = world.opened(who, 3).unwrap();
        assert_eq!(opened.by_exec, Some(true));
        world.names.text(opened.name)
    };
    let found = || Some(address(AF_INET, 4711, &[0, 0, 0, 0]));
    assert_eq!(ask(&mut world, "tcp 0.0.0.0:0", found()), "tcp 0.0.0.0:4711");
    assert_eq!(ask(&mut world, "tcp 0.0.0.0:80", found()), "tcp 0.0.0.0:80");
    assert_eq!(ask(&mut world, "tcp 0.0.0.0:0", None), "tcp 0.0.0.0:0");
    // A file may be called so, too.
    let name = Names::of(&mut world.names, b"x:0");
    world.open(who, 4, OpenedFor { name, by_exec: None });
    let call = world.calls.of("getsockname").unwrap();
    let mut open = OpenCall { object: Object::File(name), ..OpenCall::of(call) };
    open.arguments_mut().descriptor = Some(4);
    asked(&mut world, who, &open, found());
    assert_eq!(world.file(who, 4), Some(name));
}
