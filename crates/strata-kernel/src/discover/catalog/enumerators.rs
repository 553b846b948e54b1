//! Values of the kernel's enumerators. Tables in `print fmt` have some of these names, which the kernel does not
//! replace by values there; its type information (BTF) has them.

use libbpf_rs::btf::types::{Enum, Enum64};
use libbpf_rs::btf::Btf;
use std::collections::hash_map::{Entry, HashMap};
use std::ffi::OsStr;
use std::sync::OnceLock;

/// Returns the value of the C enumerator `name` in this kernel. `None` if no enumerator has the name, or if two
/// with different values have it.
pub(super) fn value(name: &str) -> Option<i128> {
    static ALL: OnceLock<HashMap<Box<str>, Option<i128>>> = OnceLock::new();
    ALL.get_or_init(read).get(name).copied().flatten()
}

/// Reads the values of all enumerators from the kernel's BTF; `None` for a name with several values. Empty if the
/// kernel has no BTF.
fn read() -> HashMap<Box<str>, Option<i128>> {
    let mut all = HashMap::new();
    let Ok(btf) = Btf::from_vmlinux() else { return all };
    let mut add = |name: Option<&OsStr>, value| {
        if let Some(name) = name.and_then(OsStr::to_str) {
            insert(&mut all, name, value);
        }
    };
    for class in btf.type_by_kind::<Enum<'_>>() {
        class.iter().for_each(|member| add(member.name, member.value.into()));
    }
    for class in btf.type_by_kind::<Enum64<'_>>() {
        class.iter().for_each(|member| add(member.name, member.value));
    }
    all
}

fn insert(all: &mut HashMap<Box<str>, Option<i128>>, name: &str, value: i128) {
    match all.entry(name.into()) {
        Entry::Vacant(free) => {
            free.insert(Some(value));
        }
        Entry::Occupied(mut taken) if *taken.get() != Some(value) => {
            taken.insert(None);
        }
        Entry::Occupied(_) => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insert_of_two_values_for_one_name_leaves_none() {
        let mut all = HashMap::new();
        for (name, value) in [("A", 1), ("B", 2), ("A", 1), ("B", 3), ("B", 2)] {
            insert(&mut all, name, value);
        }
        assert_eq!(all.get("A"), Some(&Some(1)));
        assert_eq!(all.get("B"), Some(&None));
    }

    #[test]
    fn value_of_an_enumerator_of_the_running_kernel_is_its_value() {
        if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
            eprintln!("skipped: this kernel does not describe its types");
            return;
        }
        // Part of the interface to programs: the same in every kernel.
        assert_eq!(value("TCP_ESTABLISHED"), Some(1));
        assert_eq!(value("BPF_MAP_TYPE_HASH"), Some(1));
        assert_eq!(value("NO_SUCH_ENUMERATOR"), None);
    }
}
