//! Tests of names: each is kept once for its kind, cut, and not kept beyond the limit.

use super::*;

#[test]
fn names_of_one_text_are_one_of_each_kind() {
    let mut names = Names::default();
    let file = names.of(b"pipe");
    let pipe = names.of_kind(NameKind::Pipe, b"pipe");
    assert_ne!(file, pipe);
    assert_eq!((names.of(b"pipe"), names.of_kind(NameKind::Pipe, b"pipe")), (file, pipe));
    assert_eq!((names.text(file), names.text(pipe)), ("pipe".into(), "pipe".into()));
    assert_eq!((names.kind(file), names.kind(pipe)), (NameKind::Given, NameKind::Pipe));
    assert!(file.is_some() && pipe.is_some() && !Name::NONE.is_some());
    for kind in [NameKind::Given, NameKind::Socket, NameKind::Nameless] {
        assert_eq!(names.of_kind(kind, b""), Name::NONE);
    }
    let unknown = Name(77);
    assert_eq!((names.text(unknown), names.kind(unknown)), (String::new(), NameKind::Given));
}

#[test]
fn malicious_names_are_cut_made_text_and_not_kept_beyond_the_limit() {
    let mut names = Names::default();
    let long = vec![b'x'; 1 << 20];
    let name = names.of(&long);
    assert_eq!((names.text(name).len(), names.of(&long[..NAME_BYTES_MAX])), (NAME_BYTES_MAX, name));
    let odd = names.of(b"a\xff\x00b");
    assert_eq!(names.text(odd), "a\u{fffd}\0b");
    for number in 0_u32..1 << 18 {
        names.of(&number.to_le_bytes());
    }
    let left_out = names.left_out();
    assert!(left_out >= 3, "{left_out}");
    assert_eq!((names.of(b"another"), names.of(b"a\xff\x00b")), (Name::NONE, odd));
    assert_eq!(names.left_out(), left_out + 1);
}
