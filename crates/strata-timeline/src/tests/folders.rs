//! Tests of working folders that processes share, have of their own, or of which nothing is known.

use super::*;

const CLONE_FS: i64 = 0x200;
const THREAD: i64 = 0x10f00;

/// Adds a call of a thread with a path, and its result.
fn path(machine: &mut Machine, tid: i64, call: &str, path: &'static str, result: i64) {
    let time = machine.engine.world.now + 1;
    let id = machine.engine.world.calls.of(call).unwrap();
    let more = More::Is(path, &[(Part::Flags, 0)]);
    machine.tell(time, 0, tid, Fact::Enter { call: id, elapsed: 0, object: Object::None, more });
    machine.leave(time + 1, 0, tid, call, result);
}

/// Returns the folder in which a path of this thread begins.
fn folder(machine: &mut Machine, tid: i64) -> String {
    let world = &machine.engine.world;
    let thread = world.threads.find(0, tid).unwrap();
    world.folder(thread).map(|name| world.names.text(name)).unwrap_or_default()
}

/// Adds a child of 5, made by a clone() with these flags; `None`: the flags are not recorded.
fn child(machine: &mut Machine, flags: Option<i64>, tid: i64, process: i64) {
    let time = machine.engine.world.now + 1;
    let flags: Vec<(Part, i64)> = flags.map(|flags| (Part::Flags, flags)).into_iter().collect();
    machine.enter_with(time, 0, 5, ("clone", Object::None), &flags);
    machine.fork(time + 1, 5, tid, process).leave(time + 2, 0, 5, "clone", tid);
}

fn at_home() -> Machine {
    let mut machine = Machine::new();
    machine.fork(1, 1, 5, 5);
    path(&mut machine, 5, "chdir", "/srv", 0);
    machine
}

#[test]
fn threads_have_the_folder_of_their_process_and_children_begin_there() {
    let mut machine = at_home();
    child(&mut machine, Some(THREAD), 6, 5);
    child(&mut machine, Some(0), 7, 7);
    // Of a child whose flags are not recorded nobody knows.
    child(&mut machine, None, 8, 8);
    let all = |machine: &mut Machine| [5, 6, 7, 8].map(|tid| folder(machine, tid));
    assert_eq!(all(&mut machine), ["/srv", "/srv", "/srv", ""]);
    path(&mut machine, 6, "chdir", "sub", 0);
    assert_eq!(all(&mut machine), ["/srv/sub", "/srv/sub", "/srv", ""]);
    path(&mut machine, 7, "chdir", "/tmp", 0);
    path(&mut machine, 8, "chdir", "/var", 0);
    path(&mut machine, 5, "chdir", "/gone", -2);
    assert_eq!(all(&mut machine), ["/srv/sub", "/srv/sub", "/tmp", "/var"]);
}

#[test]
fn folder_that_two_processes_change_is_not_known_any_more() {
    let mut machine = at_home();
    child(&mut machine, Some(CLONE_FS), 6, 6);
    assert_eq!((folder(&mut machine, 5), folder(&mut machine, 6)), (String::new(), String::new()));
    path(&mut machine, 5, "chdir", "/a", 0);
    assert_eq!(folder(&mut machine, 6), "", "it may have changed it since");
    // One that leaves it has its own from where it goes then.
    let time = machine.engine.world.now + 1;
    machine.enter_with(time, 0, 6, ("unshare", Object::None), &[(Part::Flags, CLONE_FS)]);
    machine.leave(time + 1, 0, 6, "unshare", 0);
    assert_eq!(folder(&mut machine, 6), "");
    path(&mut machine, 6, "chdir", "/b", 0);
    assert_eq!((folder(&mut machine, 5), folder(&mut machine, 6)), (String::new(), "/b".into()));
}

#[test]
fn thread_that_unshares_goes_its_way_and_of_the_others_nothing_is_known() {
    for (flags, is_own) in [(CLONE_FS, true), (0x20000, true), (0x1000_0000, true), (0x400, false)]
    {
        let mut machine = at_home();
        child(&mut machine, Some(THREAD), 6, 5);
        let time = machine.engine.world.now + 1;
        machine.enter_with(time, 0, 6, ("unshare", Object::None), &[(Part::Flags, flags)]);
        machine.leave(time + 1, 0, 6, "unshare", 0);
        assert_eq!(folder(&mut machine, 6), "/srv", "{flags:#x}");
        path(&mut machine, 6, "chdir", "/own", 0);
        let wanted = if is_own { "/srv" } else { "/own" };
        assert_eq!(
            (folder(&mut machine, 5).as_str(), folder(&mut machine, 6)),
            (wanted, "/own".into()),
            "{flags:#x}"
        );
    }
    // One that fails changes nothing.
    let mut machine = at_home();
    child(&mut machine, Some(THREAD), 6, 5);
    let time = machine.engine.world.now + 1;
    machine.enter_with(time, 0, 6, ("unshare", Object::None), &[(Part::Flags, CLONE_FS)]);
    machine.leave(time + 1, 0, 6, "unshare", -1);
    path(&mut machine, 6, "chdir", "/all", 0);
    assert_eq!((folder(&mut machine, 5), folder(&mut machine, 6)), ("/all".into(), "/all".into()));
}

#[test]
fn fchdir_goes_to_what_its_descriptor_was_opened_for() {
    let mut machine = at_home();
    machine.call("openat", -100, &[(Part::Flags, 0)], 3).call("fchdir", 3, &[], 0);
    assert_eq!(folder(&mut machine, 5), "/etc/file");
    machine.call("fchdir", 9, &[], 0);
    // Which folder that is, is not known, nor where paths begin then.
    assert_ne!(folder(&mut machine, 5), "/srv");
}

#[test]
fn what_is_known_of_folders_is_over_where_records_were_discarded() {
    let mut machine = at_home();
    child(&mut machine, Some(0), 6, 6);
    let now = machine.engine.world.now;
    machine.engine.gap(0, Some(0), now);
    assert_eq!((folder(&mut machine, 5), folder(&mut machine, 6)), (String::new(), String::new()));
    path(&mut machine, 5, "chdir", "sub", 0);
    // From there on it begins where nobody knows.
    assert_eq!(folder(&mut machine, 5), "sub");
    path(&mut machine, 5, "chdir", "/srv", 0);
    assert_eq!(folder(&mut machine, 5), "/srv");
}
