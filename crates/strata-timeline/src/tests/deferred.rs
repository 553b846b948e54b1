//! Tests of deferred arguments, which are recorded after their call's entry.

use super::*;
use crate::records::facts::{CopiedFields, SocketAddress};

const UNREAD: &str = "0x55d0c0de";
const LOCALHOST: [u8; 4] = [127, 0, 0, 1];

/// Adds the entry of a call of thread 5 whose path cannot be read then.
fn enter(machine: &mut Machine, call: &str, parts: &[(Part, i64)]) {
    let time = machine.engine.world.now + 1;
    let call = machine.engine.world.calls.of(call).unwrap();
    let more = More::Is(UNREAD, parts);
    let object = parts.iter().find(|(part, _)| *part == Part::First);
    let object = object.map_or(Object::None, |(_, number)| Object::Descriptor(*number as i32));
    machine.tell(time, 0, 5, Fact::Enter { call, elapsed: 0, object, more });
}

fn later(machine: &mut Machine, tid: i64, call: &str, kept: &CopiedFields) {
    let time = machine.engine.world.now + 1;
    let call = machine.engine.world.calls.of(call).unwrap();
    machine.tell(time, 0, tid, Fact::Deferred { call, more: More::Copied(kept) });
}

fn leave(machine: &mut Machine, call: &str, result: i64) {
    let time = machine.engine.world.now + 1;
    machine.leave(time, 0, 5, call, result);
}

fn file(machine: &Machine, descriptor: i32) -> String {
    let world = &machine.engine.world;
    let thread = world.threads.find(0, 5).unwrap();
    world.file(thread, descriptor).map(|name| world.names.text(name)).unwrap_or_default()
}

fn path(text: &str) -> CopiedFields {
    CopiedFields::of_argument(Some(text.into()), [], None)
}

#[test]
fn descriptor_has_the_name_that_came_later() {
    let mut machine = Machine::new();
    machine.fork(1, 1, 5, 5);
    enter(&mut machine, "openat", &[(Part::Folder, -100)]);
    later(&mut machine, 5, "openat", &path("/srv/data"));
    leave(&mut machine, "openat", 3);
    assert_eq!(file(&machine, 3), "/srv/data");
    // In the folder that the entry has.
    enter(&mut machine, "openat", &[(Part::Folder, 3)]);
    later(&mut machine, 5, "openat", &path("file"));
    leave(&mut machine, "openat", 4);
    assert_eq!(file(&machine, 4), "/srv/data/file");
    enter(&mut machine, "memfd_create", &[]);
    later(&mut machine, 5, "memfd_create", &path("shared"));
    leave(&mut machine, "memfd_create", 5);
    assert_eq!(file(&machine, 5), "memfd:shared");
    enter(&mut machine, "chdir", &[]);
    later(&mut machine, 5, "chdir", &path("/opt"));
    leave(&mut machine, "chdir", 0);
    machine.enter_with(100, 0, 5, ("openat", Object::None), &[]);
    later(&mut machine, 5, "openat", &path("x"));
    leave(&mut machine, "openat", 6);
    assert_eq!(file(&machine, 6), "/opt/x");
}

#[test]
fn socket_has_the_address_that_came_later() {
    let mut machine = Machine::new();
    machine.fork(1, 1, 5, 5);
    enter(&mut machine, "socket", &[(Part::Family, 2), (Part::Type, 1)]);
    leave(&mut machine, "socket", 3);
    enter(&mut machine, "connect", &[(Part::First, 3)]);
    let address = SocketAddress::new(2, 80, LOCALHOST.to_vec());
    later(&mut machine, 5, "connect", &CopiedFields::of_argument(None, [], Some(address)));
    leave(&mut machine, "connect", 0);
    assert_eq!(file(&machine, 3), "tcp 127.0.0.1:80");
}

#[test]
fn flags_that_came_later_say_whether_exec_closes_what_was_opened() {
    for (flags, wanted) in [(0o2_000_000, ""), (0, "/a")] {
        let mut machine = Machine::new();
        machine.fork(1, 1, 5, 5);
        enter(&mut machine, "openat2", &[(Part::Folder, -100), (Part::Flags, 0)]);
        later(&mut machine, 5, "openat2", &path("/a"));
        later(
            &mut machine,
            5,
            "openat2",
            &CopiedFields::of_argument(None, [(Part::Flags, flags)], None),
        );
        leave(&mut machine, "openat2", 3);
        let time = machine.engine.world.now + 1;
        machine.tell(time, 0, 5, Fact::Exec { program: RecordText::None, old: None });
        assert_eq!(file(&machine, 3), wanted, "{flags:o}");
    }
}

#[test]
fn what_came_later_is_of_the_thread_and_of_its_call() {
    let mut machine = Machine::new();
    machine.fork(1, 1, 5, 5).fork(2, 1, 6, 6);
    enter(&mut machine, "openat", &[]);
    later(&mut machine, 6, "openat", &path("/of/another/thread"));
    later(&mut machine, 5, "unlinkat", &path("/of/another/call"));
    leave(&mut machine, "openat", 3);
    assert_eq!(file(&machine, 3), "");
    // The call is over.
    later(&mut machine, 5, "openat", &path("/too/late"));
    assert_eq!(file(&machine, 3), "");
}
