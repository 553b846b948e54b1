//! In a PID namespace that is not the machine's first, processes have other numbers than in the kernel's events. Which ones,
//! a program in the kernel says: nothing that a process could change is believed.

use crate::attach::{attach, AttachPoint, Attached};
use crate::error::{Error, Refusal};
use crate::follow::once;
use crate::load::Loader;
use crate::object::Object;
use crate::statedump::namespace_of;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::path::Path;
use std::sync::Arc;

/// What the kernel calls those that this process sees. It knows of all that have begun since it was made, and of those that
/// were there when it has walked last.
#[derive(Debug)]
pub struct Numbers {
    map: MapHandle,
    walk: Attached,
    /// Notes those that begin.
    _newcomers: Vec<Attached>,
    level: u32,
}

impl Numbers {
    /// `None`: the kernel calls them as this process does.
    ///
    /// # Errors
    /// [`Error::Load`].
    pub(crate) fn begin(loader: &Loader) -> Result<Option<Arc<Numbers>>, Error> {
        if is_first_namespace() {
            return Ok(None);
        }
        let error = |reason| Error::Load { what: "numbers of processes", reason };
        let open = loader.open(Object::Numbers, &["strata_number", "strata_numbers"], &[]);
        let object = open.and_then(|open| loader.load(open)).map_err(error)?;
        let (mut walk, mut newcomers) = (None, Vec::new());
        for one in attach(&object, &AttachPoint::Own).map_err(error)? {
            match one.is_iterator() {
                true => walk = Some(one),
                false => newcomers.push(one),
            }
        }
        let map = |name: &str| {
            let found = object.maps().find(|map| map.name() == name);
            let found = found.and_then(|map| MapHandle::try_from(&map).ok());
            found.ok_or_else(|| error(Refusal(format!("they have no map {name}"))))
        };
        let walk = walk.ok_or_else(|| error(Refusal("they have no walk".to_owned())))?;
        let mut numbers = Numbers { map: map("numbers")?, walk, _newcomers: newcomers, level: 0 };
        once(&numbers.walk).map_err(error)?;
        let here = map(".data.here")?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        // Behind the namespace's address.
        let level = here.and_then(|here| here.get(8..12)?.try_into().ok());
        numbers.level = level.map_or(0, u32::from_ne_bytes);
        Ok(Some(Arc::new(numbers)))
    }

    /// The number in the kernel's events of a process or thread; `None`: there is none, or it was not seen.
    #[must_use]
    pub fn of(&self, here: u32) -> Option<u32> {
        let found = self.map.lookup(&here.to_ne_bytes(), MapFlags::ANY).ok()??;
        Some(u32::from_ne_bytes(found.get(..4)?.try_into().ok()?))
    }

    /// Looks at all that are there.
    pub fn walk(&self) {
        // Then it knows those that it knew.
        let _ = once(&self.walk);
    }

    /// How deep the namespace lies below the machine's first.
    #[must_use]
    pub fn level(&self) -> u32 {
        self.level
    }
}

/// The machine's first PID namespace: PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h.
const FIRST_NAMESPACE: u32 = 0xeffffffc;

/// Whether processes have the numbers here by which the kernel's events know them, as far as it may be known.
#[must_use]
pub fn is_first_namespace() -> bool {
    is_first_namespace_of(Path::new("/"))
}

/// The same by `root`/proc.
pub(crate) fn is_first_namespace_of(root: &Path) -> bool {
    matches!(namespace_of(&root.join("proc/self")), FIRST_NAMESPACE | 0)
}

/// The number in the kernel's events, where it is another one than here; 0: not known.
#[must_use]
pub fn number_of(numbers: Option<&Numbers>, here: u32) -> u32 {
    match numbers {
        Some(numbers) => numbers.of(here).unwrap_or(0),
        None => here,
    }
}
