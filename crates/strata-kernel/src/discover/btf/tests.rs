//! Compares what libbpf finds in the cut types and in the kernel's own.

use super::*;
use crate::attach::bpf_objects::Object;
use libbpf_rs::btf::types::{Array, Composite};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize};
use object::{Object as _, ObjectSection};
use strata_ring::LossMode;

/// A field of a structure: name, bit, kind and size \[byte\].
type Field = (String, u32, BtfKind, usize);

/// Its kind and size, without names that it has on the way.
fn kind_and_size(of: BtfType<'_>) -> (BtfKind, usize) {
    let of = of.skip_mods_and_typedefs();
    let size = match of.kind() {
        BtfKind::Ptr => 8,
        BtfKind::Array => {
            let array: Array<'_> = of.try_into().expect("an array");
            array.capacity() * kind_and_size(array.contained_type()).1
        }
        kind => match Composite::try_from(of) {
            Ok(composite) => composite.size(),
            Err(_) => return (kind, 0),
        },
    };
    (of.kind(), size)
}

/// Its fields, those of nameless parts included, and in the end its own size.
fn fields(btf: &Btf<'_>, of: BtfType<'_>, at: u32, into: &mut Vec<Field>) {
    use libbpf_rs::btf::types::MemberAttr::{BitField, Normal};
    let composite: Composite<'_> = of.try_into().expect("a structure");
    for member in composite.iter() {
        let (Normal { offset } | BitField { offset, .. }) = member.attr;
        let part: BtfType<'_> = btf.type_by_id(member.ty).expect("a member's type");
        match member.name {
            Some(name) => {
                let (kind, size) = kind_and_size(part);
                into.push((name.to_string_lossy().into_owned(), at + offset, kind, size));
            }
            None => fields(btf, part.skip_mods_and_typedefs(), at + offset, into),
        }
    }
    into.push((String::new(), at, composite.kind(), composite.size()));
}

fn structures_of(btf: &Btf<'_>, names: &HashSet<&[u8]>) -> Vec<(String, Vec<Field>)> {
    let all = btf.type_by_kind::<Composite<'_>>().filter_map(|composite| {
        let name = composite.name()?.to_str()?.to_owned();
        names.contains(essential(name.as_bytes())).then(|| {
            let mut all = Vec::new();
            fields(btf, *composite, 0, &mut all);
            (name, all)
        })
    });
    all.filter(|(_, fields)| fields.len() > 1).collect()
}

#[test]
fn types_of_this_kernel_when_cut_have_all_fields_where_the_whole_has_them() {
    let (Some(types), Ok(whole)) = (Types::of_this_kernel(), Btf::from_vmlinux()) else {
        println!("this kernel does not describe its types");
        return;
    };
    let names = structures();
    let cut = Btf::from_path(types.path()).expect("libbpf reads it");
    let (of_cut, mut of_whole) = (structures_of(&cut, &names), structures_of(&whole, &names));
    assert!(of_cut.iter().any(|(name, _)| name == "task_struct"));
    assert!(cut.len() * 50 < whole.len(), "{} of {} types", cut.len(), whole.len());
    let mut of_cut = of_cut;
    of_cut.sort_by(|one, other| one.0.cmp(&other.0));
    of_whole.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(of_cut, of_whole);
}

#[test]
fn structures_when_objects_have_flavours_are_named_without() {
    let all = structures();
    assert!(all.contains(b"task_struct".as_slice()));
    assert!(!all.iter().any(|name| name.windows(3).any(|part| part == b"___")));
    assert_eq!(essential(b"task_struct___old_cpu"), b"task_struct");
    assert_eq!(essential(b"___x"), b"___x");
    assert_eq!(essential(b"a____b"), b"a____b");
}

#[test]
fn cut_when_bytes_are_missing_or_wrong_gives_nothing_and_ends() {
    let object = object::File::parse(Object::Hot.bytes(LossMode::Discard)).expect("an object");
    let whole = object.section_by_name(".BTF").expect("types").data().expect("bytes");
    let names = HashSet::from([b"task_struct".as_slice(), b"pid"]);
    assert!(cut(whole, &names).is_some());
    for end in (0..whole.len()).step_by(7) {
        assert!(cut(&whole[..end], &names).is_none());
    }
    // Each byte of the types wrong once: what comes of it may be anything, but comes.
    for at in 0..whole.len() {
        let mut wrong = whole.to_vec();
        wrong[at] ^= 0xff;
        let _ = cut(&wrong, &names);
    }
}
