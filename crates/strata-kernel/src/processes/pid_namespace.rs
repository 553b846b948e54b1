//! Converts process numbers. In a PID namespace that is not the machine's first, processes have other numbers than in
//! the kernel's events. A program in the kernel reports the pairs, so that no process can forge them.

use crate::attach::bpf_objects::Object;
use crate::attach::loader::{Loader, Wanted};
use crate::attach::program::{attach, AttachPoint, Attached};
use crate::error::{Error, Refusal};
use crate::processes::follow::scan_once;
use crate::read::statedump::namespace_of;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::path::Path;
use std::sync::Arc;

/// A conversion from process ids in this process's PID namespace to those in the kernel's events. Knows processes
/// that began after this value was created, and those that existed at the last scan.
#[derive(Debug)]
pub struct Numbers {
    map: MapHandle,
    scan: Attached,
    /// Programs that report new processes.
    _newcomers: Vec<Attached>,
    level: u32,
}

impl Numbers {
    /// Starts the conversion; `None` if the kernel's numbers are those of this process' namespace.
    ///
    /// # Errors
    /// [`Error::Load`].
    pub(crate) fn begin(loader: &Loader) -> Result<Option<Arc<Numbers>>, Error> {
        if is_first_namespace() {
            return Ok(None);
        }
        let error = |reason| Error::Load { what: "numbers of processes", reason };
        let programs = &["strata_number", "strata_numbers"];
        let wanted = Wanted { programs, constants: &[], nr_sampled: 0 };
        let open = loader.open(Object::Numbers, &wanted);
        let object = open.and_then(|open| loader.load(open)).map_err(error)?;
        let (mut scan, mut newcomers) = (None, Vec::new());
        for one in attach(&object, &AttachPoint::Own).map_err(error)? {
            match one.is_iterator() {
                true => scan = Some(one),
                false => newcomers.push(one),
            }
        }
        let map = |name: &str| {
            let found = object.maps().find(|map| map.name() == name);
            let found = found.and_then(|map| MapHandle::try_from(&map).ok());
            found.ok_or_else(|| error(Refusal(format!("they have no map {name}"))))
        };
        let scan = scan.ok_or_else(|| error(Refusal("they have no scan".to_owned())))?;
        let mut numbers = Numbers { map: map("numbers")?, scan, _newcomers: newcomers, level: 0 };
        scan_once(&numbers.scan).map_err(error)?;
        let here = map(".data.here")?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        // Behind the namespace's address.
        let level = here.and_then(|here| here.get(8..12)?.try_into().ok());
        numbers.level = level.map_or(0, u32::from_ne_bytes);
        Ok(Some(Arc::new(numbers)))
    }

    /// Returns the number that a process or thread has in the kernel's events; `None` if it does not exist, or was not
    /// seen.
    #[must_use]
    pub fn of(&self, here: u32) -> Option<u32> {
        let found = self.map.lookup(&here.to_ne_bytes(), MapFlags::ANY).ok()??;
        Some(u32::from_ne_bytes(found.get(..4)?.try_into().ok()?))
    }

    /// Scans all processes that exist now, so that their numbers are known.
    pub fn scan(&self) {
        // Then it knows those that it knew.
        let _ = scan_once(&self.scan);
    }

    /// Returns the number of levels between this process's PID namespace and the machine's first one.
    #[must_use]
    pub fn level(&self) -> u32 {
        self.level
    }
}

/// Inode number of the machine's first PID namespace: PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h.
const FIRST_NAMESPACE: u32 = 0xeffffffc;

/// Returns whether this process sees the same process ids as the kernel's events have, as far as it can find out.
#[must_use]
pub fn is_first_namespace() -> bool {
    is_first_namespace_of(Path::new("/"))
}

/// Returns whether process numbers are the kernel's, according to `root`/proc.
pub(crate) fn is_first_namespace_of(root: &Path) -> bool {
    matches!(namespace_of(&root.join("proc/self")), FIRST_NAMESPACE | 0)
}

/// Returns the process' number in the kernel's events: converted by `numbers`, or unchanged without; 0 if it is not
/// known.
#[must_use]
pub fn number_of(numbers: Option<&Numbers>, here: u32) -> u32 {
    match numbers {
        Some(numbers) => numbers.of(here).unwrap_or(0),
        None => here,
    }
}
