use super::*;
use crate::scratch_tests::{wait_until_unlocked, Scratch};
use std::os::unix::fs::PermissionsExt;

#[test]
fn folder_that_is_not_there_is_made_for_its_owner_only() {
    let scratch = Scratch::new("made");
    let path = scratch.0.join("a/b");
    let folder = TraceFolder::create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(folder.remove_if_empty());
    assert!(!path.exists());
}

#[test]
fn folder_that_is_empty_is_used_and_kept() {
    let scratch = Scratch::new("empty");
    let folder = TraceFolder::create(&scratch.0).unwrap();
    assert!(!folder.remove_if_empty());
    assert!(scratch.0.exists());
}

#[test]
fn folder_with_something_in_it_is_refused() {
    let scratch = Scratch::new("full");
    fs::write(scratch.0.join("x"), "y").unwrap();
    let error = TraceFolder::create(&scratch.0).unwrap_err();
    assert!(matches!(error, FolderError::NotEmpty { .. }));
    assert!(error.to_string().contains("is not empty, and nothing is overwritten"));
}

#[test]
fn folder_that_is_a_file_is_refused() {
    let scratch = Scratch::new("file");
    let path = scratch.0.join("x");
    fs::write(&path, "y").unwrap();
    let error = TraceFolder::create(&path).unwrap_err();
    assert!(matches!(error, FolderError::NotFolder { .. }), "{error}");
    let error = TraceFolder::create(&path.join("y")).unwrap_err();
    assert!(matches!(error, FolderError::System { .. }), "{error}");
    assert!(error.to_string().contains("cannot make"), "{error}");
}

#[test]
fn folder_by_time_that_is_there_gets_a_number() {
    let scratch = Scratch::new("time");
    let first = TraceFolder::create_by_time(&scratch.0, "20260131-235959").unwrap();
    let second = TraceFolder::create_by_time(&scratch.0, "20260131-235959").unwrap();
    assert_eq!(first.path(), scratch.0.join("strata-trace-20260131-235959"));
    assert_eq!(second.path(), scratch.0.join("strata-trace-20260131-235959-2"));
    let error = TraceFolder::create_by_time(&scratch.0.join("gone"), "x").unwrap_err();
    assert!(matches!(error, FolderError::System { .. }));
}

#[test]
fn folder_by_time_when_all_are_taken_is_refused() {
    let scratch = Scratch::new("taken");
    // Each try looks at all that are taken: but for the last one they are made here.
    fs::create_dir(scratch.0.join("strata-trace-x")).unwrap();
    for number in 2..TRIES {
        fs::create_dir(scratch.0.join(format!("strata-trace-x-{number}"))).unwrap();
    }
    let last = TraceFolder::create_by_time(&scratch.0, "x").unwrap();
    assert_eq!(last.path(), scratch.0.join(format!("strata-trace-x-{TRIES}")));
    let error = TraceFolder::create_by_time(&scratch.0, "x").unwrap_err();
    assert!(matches!(error, FolderError::AllTaken { .. }));
}

#[test]
fn folder_of_a_process_has_a_clean_and_unique_name() {
    let scratch = Scratch::new("names");
    let mut folder = TraceFolder::create(&scratch.0).unwrap();
    let mut name = |name: &[u8], pid| {
        let made = folder.process("user", name, pid).unwrap();
        made.path().file_name().unwrap().to_str().unwrap().to_owned()
    };
    assert_eq!(name(b"my app/../x\x1b", 7), "my_app_.._x_-7");
    assert_eq!(name(b"../../etc", 8), "_._.._etc-8");
    assert_eq!(name(b"", 9), "unnamed-9");
    assert_eq!(name(b"a", 1), "a-1");
    for number in 2..70 {
        assert_eq!(name(b"a", 1), format!("a-1-{number}"));
    }
    assert_eq!(name(b"a-1", 2), "a-1-2-2");
    assert_eq!(name(&[b'n'; 300], 1).len(), 66);
}

#[test]
fn folder_in_use_is_refused_until_its_recorder_has_gone() {
    let scratch = Scratch::new("use");
    let path = scratch.0.join("new");
    let first = TraceFolder::create(&path).unwrap();
    let error = TraceFolder::create(&path).unwrap_err();
    assert!(matches!(error, FolderError::InUse { .. }), "{error}");
    assert!(path.is_dir());
    drop(first);
    wait_until_unlocked(&path);
    // What is left of a recorder that was killed before it wrote anything.
    let again = TraceFolder::create(&path).unwrap();
    assert!(!again.remove_if_empty());
}

#[test]
fn folder_is_taken_by_one_of_many_at_once() {
    let scratch = Scratch::new("once");
    for round in 0..50 {
        let path = scratch.0.join(round.to_string());
        if round % 2 == 0 {
            fs::create_dir(&path).unwrap();
        }
        let start = std::sync::Barrier::new(4);
        let taken = std::thread::scope(|scope| {
            let one = || {
                start.wait();
                TraceFolder::create(&path)
            };
            let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            let all: Vec<_> = all.into_iter().map(|one| one.join().unwrap()).collect();
            all.iter().filter(|one| one.is_ok()).count()
        });
        assert_eq!(taken, 1, "round {round}");
    }
}

#[test]
fn malicious_swap_of_the_folder_leads_nothing_elsewhere() {
    let scratch = Scratch::new("swap");
    let (path, moved, victim) =
        (scratch.0.join("trace"), scratch.0.join("moved"), scratch.0.join("victim"));
    fs::create_dir(&victim).unwrap();
    let mut folder = TraceFolder::create(&path).unwrap();
    fs::rename(&path, &moved).unwrap();
    std::os::unix::fs::symlink(&victim, &path).unwrap();
    let directory = folder.process("user", b"x", 1).unwrap();
    directory.set_metadata("m").unwrap();
    assert_eq!(fs::read(moved.join("user/x-1/metadata")).unwrap(), b"m");
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    assert!(!folder.remove_if_empty());
    assert!(victim.is_dir() && moved.is_dir());
}

#[test]
fn malicious_link_in_place_of_a_layer_is_not_followed() {
    let scratch = Scratch::new("layer");
    let mut folder = TraceFolder::create(&scratch.0.join("trace")).unwrap();
    fs::create_dir(scratch.0.join("victim")).unwrap();
    std::os::unix::fs::symlink("../victim", scratch.0.join("trace/user")).unwrap();
    let error = folder.process("user", b"x", 1).unwrap_err();
    assert!(matches!(error, strata_collect::Error::Exists { .. }), "{error}");
    assert_eq!(fs::read_dir(scratch.0.join("victim")).unwrap().count(), 0);
}

#[test]
fn folder_that_everybody_can_write_to_is_refused_or_reported() {
    let scratch = Scratch::new("open");
    let open = |mode| fs::set_permissions(&scratch.0, fs::Permissions::from_mode(mode)).unwrap();
    open(0o777);
    let error = TraceFolder::create(&scratch.0).unwrap_err();
    assert!(matches!(error, FolderError::OpenToAll { mode: 0o777, .. }), "{error}");
    let remark = |name| TraceFolder::create(&scratch.0.join(name)).unwrap().remark();
    assert!(remark("open").is_some_and(|text| text.contains("in its place")));
    open(0o1777);
    assert_eq!(remark("sticky"), None);
    open(0o755);
    assert_eq!(remark("own"), None);
}

#[test]
fn folder_through_a_link_of_this_user_is_used() {
    let scratch = Scratch::new("link");
    fs::create_dir(scratch.0.join("real")).unwrap();
    std::os::unix::fs::symlink("real", scratch.0.join("link")).unwrap();
    let mut folder = TraceFolder::create(&scratch.0.join("link")).unwrap();
    folder.process("user", b"x", 1).unwrap();
    assert!(scratch.0.join("real/user/x-1").is_dir());
}

#[test]
fn time_stamp_is_a_file_name_and_iso_8601() {
    let stamp = TimeStamp::now().unwrap();
    assert_eq!((stamp.name.len(), stamp.iso.len()), (15, 20), "{stamp:?}");
    assert!(stamp.name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'), "{stamp:?}");
    assert_eq!(stamp.name.replace('-', "T"), stamp.iso[..15]);
}

#[test]
fn folder_that_a_killed_recording_left_with_its_mark_alone_is_used_again() {
    let scratch = Scratch::new("mark-alone");
    let path = scratch.0.join("t");
    let folder = TraceFolder::create(&path).unwrap();
    folder.begin().unwrap();
    assert!(path.join(FILE).exists());
    drop(folder);
    wait_until_unlocked(&path);
    let folder = TraceFolder::create(&path).unwrap();
    // It is not one that this session made, and stays; the mark goes.
    assert!(!folder.remove_if_empty());
    assert!(path.is_dir() && !path.join(FILE).exists());
}

#[test]
fn folder_with_a_trace_is_kept_with_its_mark() {
    let scratch = Scratch::new("kept");
    let path = scratch.0.join("t");
    let mut folder = TraceFolder::create(&path).unwrap();
    folder.begin().unwrap();
    folder.process("user", b"x", 1).unwrap();
    assert!(!folder.remove_if_empty());
    assert!(path.join(FILE).exists() && path.join("user/x-1").is_dir());
    folder.end(&EndMark::default()).unwrap();
    let mark = EndMark::decode(&fs::read(path.join(FILE)).unwrap()).unwrap();
    assert_eq!(mark, EndMark::default());
}

#[test]
fn folder_named_by_no_name_of_its_own_is_the_one_that_is_there() {
    let scratch = Scratch::new("dots");
    fs::create_dir_all(scratch.0.join("a/b")).unwrap();
    let folder = TraceFolder::create(&scratch.0.join("a/b/..")).unwrap_err();
    // b is in it.
    assert!(matches!(folder, FolderError::NotEmpty { .. }), "{folder}");
    fs::remove_dir(scratch.0.join("a/b")).unwrap();
    fs::create_dir(scratch.0.join("b")).unwrap();
    wait_until_unlocked(&scratch.0.join("a"));
    let folder = TraceFolder::create(&scratch.0.join("b/../a/.")).unwrap();
    assert!(!folder.remove_if_empty());
    let gone = TraceFolder::create(&scratch.0.join("no/..")).err().map(|error| error.to_string());
    // Its parent is made on the way.
    assert!(gone.is_some_and(|text| text.contains("is not empty")));
}

#[test]
fn names_of_processes_are_clean_names_of_files() {
    for (name, clean) in [
        (&b"plain"[..], &b"plain"[..]),
        (b"", b"unnamed"),
        (b".hidden", b"_hidden"),
        (b"-rf", b"_rf"),
        (b"..", b"_."),
        (b"/", b"_"),
        (b"a/b c\n\x00\xff", b"a_b_c___"),
        ("\u{fc}".as_bytes(), b"__"),
        (b"c++_1.2-x", b"c++_1.2-x"),
    ] {
        assert_eq!(sanitised(name), clean, "{name:?}");
    }
    let long = [b'x'; 100];
    assert_eq!(sanitised(&long).len(), NAME_BYTES_MAX);
    assert_eq!(sanitised(&long[..NAME_BYTES_MAX]).len(), NAME_BYTES_MAX);
}

#[test]
fn link_to_nothing_and_link_to_a_file_are_no_folders() {
    let scratch = Scratch::new("links");
    fs::write(scratch.0.join("file"), "x").unwrap();
    for (name, target) in
        [("to-file", "file"), ("to-nothing", "nothing"), ("to-itself", "to-itself")]
    {
        let path = scratch.0.join(name);
        std::os::unix::fs::symlink(target, &path).unwrap();
        let error = TraceFolder::create(&path).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with(&format!("output folder '{}': ", path.display())), "{said}");
        assert_eq!(matches!(error, FolderError::NotFolder { .. }), name != "to-nothing", "{said}");
    }
    assert_eq!(fs::read(scratch.0.join("file")).unwrap(), b"x");
}

#[test]
fn folder_of_another_user_is_none_that_was_written_to() {
    let scratch = Scratch::new("is-own");
    let path = |name: &str| scratch.0.join(name);
    std::fs::create_dir(path("own")).unwrap();
    std::fs::write(path("file"), b"x").unwrap();
    std::os::unix::fs::symlink("own", path("link")).unwrap();
    assert!(is_own(&path("own")) && is_own(&path("link")));
    assert!(!is_own(&path("file")) && !is_own(&path("absent")));
    if !geteuid().is_root() {
        assert!(!is_own(Path::new("/")));
        return;
    }
    std::fs::create_dir(path("other")).unwrap();
    std::os::unix::fs::chown(path("other"), Some(1), None).unwrap();
    std::os::unix::fs::lchown(path("link"), Some(1), None).unwrap();
    assert!(!is_own(&path("other")) && !is_own(&path("link")));
}

#[test]
fn traces_of_a_process_are_found_by_its_number_in_the_parts_the_last_one_first() {
    let scratch = Scratch::new("traces-of");
    let names = |paths: Vec<PathBuf>| -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        paths.iter().map(name).collect()
    };
    let own = scratch.0.file_name().unwrap().to_string_lossy().into_owned();
    // What is not there has nothing.
    assert_eq!(names(parts_of(&scratch.0)), [own.as_str()]);
    assert!(traces_of(&scratch.0, 7).is_empty());
    for name in ["0001-20260131-120000", "0002-20260131-130000", "user", "0001-x"] {
        std::fs::create_dir_all(scratch.0.join(name)).unwrap();
    }
    let parts = ["0002-20260131-130000", "0001-20260131-120000", own.as_str()];
    assert_eq!(names(parts_of(&scratch.0)), parts);
    let user = scratch.0.join("user");
    for name in ["shop-7", "shop-7-2", "shop-7-10", "a-7-b-7", "shop-17", "shop-7-x", "7", "-7-2-3"]
    {
        std::fs::create_dir(user.join(name)).unwrap();
    }
    assert_eq!(names(traces_of(&user, 7)), ["shop-7-10", "shop-7-2", "shop-7", "a-7-b-7"]);
}
