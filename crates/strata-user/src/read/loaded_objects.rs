//! Objects that a process has loaded, as it reports them: they give the file of each code address.

use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering;

use strata_abi::{loaded, user};

use crate::attach::application::Application;
use crate::attach::shared_memory::{u16_in, u32_in, u64_in};
use crate::error::Error;

/// A program or library that is or was loaded, as its process claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedObject {
    /// Lowest address of the object's segments.
    pub address: u64,
    /// Distance from `address` to the end of the last segment \[byte\]; never 0.
    pub bytes: u64,
    /// True if addresses in the object's file count from [`LoadedObject::address`].
    pub is_pic: bool,
    /// Time at which the process noticed the object, `CLOCK_MONOTONIC` \[ns\].
    pub loaded_ns: u64,
    /// Time at which the process noticed that the object was gone, `CLOCK_MONOTONIC` \[ns\].
    pub unloaded_ns: Option<u64>,
    /// Path of the object's file, without NULs; empty if it is unknown.
    pub path: Vec<u8>,
    /// Build id of the object; may be empty.
    pub build_id: Vec<u8>,
}

impl Application {
    /// Lists the objects that the process has reported, in the order in which it noticed them. The main program's path
    /// is the one that the kernel reports, if it could be read.
    ///
    /// # Errors
    /// [`Error::Value`]: the list is damaged. [`Error::System`].
    pub fn loaded(&self) -> Result<Vec<LoadedObject>, Error> {
        let (pid, memory) = (self.pid(), self.memory());
        // ACQUIRE pairs with the process' RELEASE: the object, and what was described before it, is complete.
        let last = memory.u32(offset_of!(user::Control, objects)).load(Ordering::Acquire);
        if last == 0 {
            return Ok(Vec::new());
        }
        let used =
            memory.u32(offset_of!(user::Control, descriptions_bytes)).load(Ordering::Acquire);
        let used = used.min(user::DESCRIPTIONS_BYTES);
        let all = memory.read(user::DESCRIPTIONS_OFFSET.into(), used as usize)?;
        let error = |what, found: u64, limit: u64| Error::Value { pid, what, found, limit };
        let (mut objects, mut place) = (Vec::new(), last);
        while place != 0 {
            if objects.len() as u64 == u64::from(loaded::NR_MAX) {
                let limit = loaded::NR_MAX.into();
                return Err(error("the number of objects that it has loaded", limit + 1, limit));
            }
            let outside = || error("the place of an object", place.into(), (used / 8).into());
            let begin = (place as usize - 1).saturating_mul(8);
            let head = all.get(begin..).and_then(|rest| rest.get(..size_of::<loaded::Loaded>()));
            let head = head.ok_or_else(outside)?;
            let older = u32_in(head, offset_of!(loaded::Loaded, older));
            // Each object lies after its predecessor, so this loop ends.
            if older >= place {
                return Err(error("the place of an object", older.into(), place.into()));
            }
            let behind = u32_in(head, offset_of!(loaded::Loaded, text)) as usize;
            let sizes = [
                usize::from(u16_in(head, offset_of!(loaded::Loaded, path_bytes))),
                usize::from(head[offset_of!(loaded::Loaded, build_id_bytes)]),
            ];
            let text = all.get(behind..).and_then(|rest| rest.get(..sizes[0] + sizes[1]));
            let (path, build_id) = text.ok_or_else(outside)?.split_at(sizes[0]);
            let flags = head[offset_of!(loaded::Loaded, flags)];
            let is_program = flags & loaded::PROGRAM != 0;
            // A path that is shown with replacement characters cannot be opened.
            let is_exe =
                |exe: &&str| is_program && !exe.contains(['?', char::REPLACEMENT_CHARACTER]);
            let exe = self.identity().exe.as_deref().filter(is_exe);
            let unloaded = u64_in(head, offset_of!(loaded::Loaded, unloaded_ns));
            let object = LoadedObject {
                address: u64_in(head, offset_of!(loaded::Loaded, address)),
                bytes: u64_in(head, offset_of!(loaded::Loaded, bytes)),
                is_pic: flags & loaded::PIC != 0,
                loaded_ns: u64_in(head, offset_of!(loaded::Loaded, loaded_ns)),
                unloaded_ns: (unloaded != 0).then_some(unloaded),
                path: exe.map_or(path, str::as_bytes).to_vec(),
                build_id: build_id.to_vec(),
            };
            let limits = [loaded::PATH_MAX, loaded::BUILD_ID_MAX].map(u64::from);
            if path.len() as u64 > limits[0] || path.contains(&0) {
                return Err(error("the path of an object", path.len() as u64, limits[0]));
            }
            if build_id.len() as u64 > limits[1] {
                return Err(error("the build id of an object", build_id.len() as u64, limits[1]));
            }
            if object.bytes == 0 || object.address.checked_add(object.bytes).is_none() {
                let limit = u64::MAX - object.address;
                return Err(error("the size of an object", object.bytes, limit));
            }
            objects.push(object);
            place = older;
        }
        objects.reverse();
        Ok(objects)
    }

    /// Number of objects for which the process' memory had no room.
    ///
    /// # Errors
    /// [`Error::Value`]: the number is larger than any program's.
    pub fn refused_objects(&self) -> Result<u32, Error> {
        /// The limit on refused objects: 100 times what the memory has room for.
        const LIMIT: u32 = 100 * loaded::NR_MAX;
        let found =
            self.memory().u32(offset_of!(user::Control, objects_refused)).load(Ordering::Relaxed);
        if found <= LIMIT {
            return Ok(found);
        }
        let what = "its number of loaded objects without room";
        Err(Error::Value { pid: self.pid(), what, found: found.into(), limit: LIMIT.into() })
    }

    /// Number of objects that came and went between two scans of the process, and are therefore unknown.
    pub fn unseen_objects(&self) -> u32 {
        self.memory().u32(offset_of!(user::Control, objects_unseen)).load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;

    const OBJECT: usize = size_of::<loaded::Loaded>();

    fn at(place: u32) -> usize {
        user::DESCRIPTIONS_OFFSET as usize + 8 * (place as usize - 1)
    }

    /// Notes an object there, behind `older`.
    fn note(fake: &Fake, place: u32, older: u32, path: &[u8], build_id: &[u8]) {
        let put = |offset, value| fake.put_u64(at(place) + offset, value);
        put(offset_of!(loaded::Loaded, address), u64::from(place) << 20);
        put(offset_of!(loaded::Loaded, bytes), 0x1000);
        put(offset_of!(loaded::Loaded, loaded_ns), 7);
        fake.put_u32(at(place) + offset_of!(loaded::Loaded, older), older);
        let sizes = (path.len() as u16).to_ne_bytes();
        fake.put(at(place) + offset_of!(loaded::Loaded, path_bytes), &sizes);
        let size = [build_id.len() as u8, loaded::PIC];
        fake.put(at(place) + offset_of!(loaded::Loaded, build_id_bytes), &size);
        let text = 8 * (place - 1) + OBJECT as u32;
        fake.put_u32(at(place) + offset_of!(loaded::Loaded, text), text);
        fake.put(at(place) + OBJECT, &[path, build_id].concat());
        fake.put_u32(offset_of!(user::Control, objects), place);
        let used = 8 * (place - 1) + (OBJECT + path.len() + build_id.len()) as u32;
        fake.put_u32(offset_of!(user::Control, descriptions_bytes), used);
    }

    #[test]
    fn loaded_objects_are_reported_in_the_order_in_which_they_came() {
        let fake = Fake::new();
        let app = fake.open();
        assert_eq!(app.loaded().unwrap(), []);
        note(&fake, 1, 0, b"/lib/a", &[1, 2, 3]);
        note(&fake, 11, 1, b"/lib/b", &[]);
        fake.put_u64(at(11) + offset_of!(loaded::Loaded, unloaded_ns), 9);
        let a = LoadedObject {
            address: 1 << 20,
            bytes: 0x1000,
            is_pic: true,
            loaded_ns: 7,
            unloaded_ns: None,
            path: b"/lib/a".to_vec(),
            build_id: vec![1, 2, 3],
        };
        let b = LoadedObject {
            address: 11 << 20,
            unloaded_ns: Some(9),
            path: b"/lib/b".to_vec(),
            build_id: Vec::new(),
            ..a.clone()
        };
        assert_eq!(app.loaded().unwrap(), [a, b]);
        // The kernel's word.
        fake.put(at(1) + offset_of!(loaded::Loaded, flags), &[loaded::PROGRAM]);
        let exe = std::env::current_exe().unwrap();
        let found = app.loaded().unwrap().remove(0);
        assert_eq!(found.path, exe.as_os_str().as_encoded_bytes());
    }

    #[test]
    fn malicious_objects_are_refused_and_end() {
        let whole = || {
            let fake = Fake::new();
            note(&fake, 1, 0, b"/lib/a", &[]);
            note(&fake, 11, 1, b"/lib/b", &[7; 20]);
            fake
        };
        let refused = |what: &str, change: &dyn Fn(&Fake)| {
            let fake = whole();
            change(&fake);
            let found = fake.open().loaded();
            assert!(matches!(found, Err(Error::Value { .. })), "{what}: {found:?}");
        };
        let head = at(11);
        refused("itself", &|fake| fake.put_u32(head + offset_of!(loaded::Loaded, older), 11));
        refused("later", &|fake| fake.put_u32(head + offset_of!(loaded::Loaded, older), u32::MAX));
        refused("outside", &|fake| fake.put_u32(offset_of!(user::Control, objects), u32::MAX));
        refused("cut", &|fake| fake.put_u32(offset_of!(user::Control, descriptions_bytes), 100));
        refused("long path", &|fake| {
            fake.put(head + offset_of!(loaded::Loaded, path_bytes), &[255; 2]);
        });
        refused("long id", &|fake| {
            fake.put_u32(offset_of!(user::Control, descriptions_bytes), 1000);
            fake.put(head + offset_of!(loaded::Loaded, build_id_bytes), &[33]);
        });
        refused("text", &|fake| {
            fake.put_u32(head + offset_of!(loaded::Loaded, text), user::DESCRIPTIONS_BYTES - 1);
        });
        refused("NUL", &|fake| fake.put(head + OBJECT, &[0]));
        refused("empty", &|fake| fake.put_u64(head + offset_of!(loaded::Loaded, bytes), 0));
        refused("huge", &|fake| fake.put_u64(head + offset_of!(loaded::Loaded, bytes), u64::MAX));
        refused("many", &|fake| {
            let many = loaded::NR_MAX + 1;
            for place in 0..many {
                note(fake, 1 + place * 6, (place * 6).saturating_sub(5), b"", &[]);
            }
        });
    }
}
