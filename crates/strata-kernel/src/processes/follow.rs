//! Restricts recording to certain processes, in the kernel.

use crate::attach::bpf_objects::Object;
use crate::attach::loader::{begin_listening, reason, Constants, Loader, Wanted};
use crate::attach::program::{attach, AttachPoint, Attached};
use crate::error::{Error, Refusal};
use libbpf_rs::{Iter, MapCore, MapFlags};
use std::io::Read;

/// The choice of processes whose events are recorded. Events of the tracer itself are never recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Follow {
    /// All processes.
    Everyone,
    /// Processes that this process starts while the session exists, from their execve on, and their descendants.
    Children,
    /// Processes with these numbers in the PID namespace of this process, with their threads and descendants.
    Processes(Vec<u32>),
}

/// The most scans for tasks that exist already. Scanning ends earlier if a scan finds no new task.
const SCANS_MAX: usize = 32;

/// Loads the object that follows processes, which creates the shared maps, and finds the processes that run already.
///
/// # Errors
/// [`Error::Load`].
pub(crate) fn begin(loader: &mut Loader, follow: &Follow) -> Result<libbpf_rs::Object, Error> {
    let error = |reason| Error::Load { what: "following processes", reason };
    let children = u32::from(*follow == Follow::Children).to_ne_bytes();
    let wanted: &[&str] = match follow {
        Follow::Everyone => &["strata_walk"],
        _ => &["strata_walk", "strata_fork", "strata_exec"],
    };
    let roots = match follow {
        Follow::Processes(roots) => roots.as_slice(),
        _ => &[],
    };
    let constants: &Constants<'_> = &[(".rodata.children", &children)];
    let wanted = Wanted { programs: wanted, constants, nr_sampled: 0 };
    let mut open = loader.open(Object::Follow, &wanted).map_err(error)?;
    for mut map in open.maps_mut() {
        if map.name() == "roots" {
            map.set_max_entries(roots.len().max(1) as u32).map_err(|e| error(reason(&e)))?;
        }
    }
    let object = loader.load_first(open).map_err(error)?;
    for map in object.maps() {
        for root in roots.iter().filter(|_| map.name() == "roots") {
            let one = 1u32.to_ne_bytes();
            map.update(&root.to_ne_bytes(), &one, MapFlags::ANY).map_err(|e| error(reason(&e)))?;
        }
    }
    Ok(object)
}

/// Attaches the program that follows forks, then scans for tasks that exist already. A task that is
/// created during a scan is found by this scan or the next one.
///
/// # Errors
/// [`Error::Load`].
pub(crate) fn attach_and_scan(object: &libbpf_rs::Object) -> Result<Vec<Attached>, Error> {
    let error = |reason| Error::Load { what: "following processes", reason };
    let (mut attached, mut scan) = (Vec::new(), None);
    for one in attach(object, &AttachPoint::Own).map_err(error)? {
        if one.is_iterator() {
            scan = Some(one);
        } else {
            attached.push(one);
        }
    }
    let Some(scan) = scan else { return Ok(attached) };
    let mut before = None;
    for _ in 0..SCANS_MAX {
        scan_once(&scan).map_err(error)?;
        let now = found(object);
        if now.is_none() || before == now || now == Some(0) {
            break;
        }
        before = now;
    }
    Ok(attached)
}

/// Runs an iterator over all tasks once.
///
/// # Errors
/// The error of the kernel.
pub(crate) fn scan_once(scan: &Attached) -> Result<(), Refusal> {
    begin_listening();
    let Some(link) = scan.link() else { return Ok(()) };
    let mut iterator = Iter::new(link).map_err(|error| reason(&error))?;
    let mut nothing = [0; 64];
    while iterator.read(&mut nothing).map_err(|error| reason(&error))? > 0 {}
    Ok(())
}

/// Returns the number of tasks found so far.
fn found(object: &libbpf_rs::Object) -> Option<u64> {
    let map = object.maps().find(|map| map.name() == ".data.found")?;
    let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
    Some(u64::from_ne_bytes(value.get(..8)?.try_into().ok()?))
}
