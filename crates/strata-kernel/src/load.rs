//! Objects opened, given their constants, and loaded; the maps that they share.

use crate::contexts::Contexts;
use crate::error::{Error, Refusal};
use crate::object::Object;
use crate::pins::{info, ChannelPins, SHARED};
use crate::types::Types;
use libbpf_rs::{MapCore, MapHandle, MapMut, ObjectBuilder, OpenMapMut, OpenObject, PrintLevel};
use libbpf_sys as sys;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use strata_abi::kernel;
use strata_ring::{Attr, LossMode, StreamLayout};

/// Lines that libbpf says before an error; the kernel's log is one of them, and long.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// How far a program may go into a value for its verifier \[byte\] (BPF_MAX_VAR_OFF).
const VALUE_BYTES_MAX: u64 = 1 << 29;

thread_local! {
    static MESSAGES: RefCell<String> = const { RefCell::new(String::new()) };
}

fn listen(_: PrintLevel, text: String) {
    MESSAGES.with_borrow_mut(|all| {
        if all.len() < MESSAGE_BYTES_MAX {
            all.push_str(&text);
        }
    });
}

/// Has libbpf tell this module, not stderr, what is wrong. Messages are the thread's that called it.
pub(crate) fn quiet() {
    libbpf_rs::set_print(Some((PrintLevel::Info, listen)));
}

/// Forgets what was said so far.
pub(crate) fn begin_listening() {
    MESSAGES.with_borrow_mut(String::clear);
}

/// The error, and what libbpf and the kernel said about it last.
pub(crate) fn reason(error: &dyn std::fmt::Display) -> Refusal {
    let text = MESSAGES.with_borrow(|all| {
        let lines = || all.lines().map(|line| line.trim().trim_start_matches("libbpf: "));
        // The verifier's objection is the last line in front of its statistics.
        let verifier = lines()
            .take_while(|line| {
                !line.starts_with("processed ") && !line.contains("END PROG LOAD LOG")
            })
            .filter(|line| !line.is_empty())
            .last()
            .filter(|_| all.contains("BEGIN PROG LOAD LOG"));
        let said = verifier.or_else(|| {
            lines().rfind(|line| !line.is_empty() && !line.starts_with("failed to load object"))
        });
        said.map(str::to_owned)
    });
    match text {
        Some(text) => Refusal(format!("{error}: {text}")),
        None => Refusal(error.to_string()),
    }
}

/// Where a record goes, as the programs know it (`struct strata_sizes`).
#[repr(C)]
#[derive(Debug)]
struct BufferSizes {
    buffer_bytes: u64,
    subbuf_bytes: u64,
    frames_offset: u64,
    data_offset: u64,
    subbuf_shift: u64,
}

/// Of a value of `rings`: a stream, and room for the largest record behind it; one with contexts, which may come
/// later, seems to end later.
pub(crate) fn value_bytes(layout: &StreamLayout) -> u64 {
    layout.stride_bytes + 2 * u64::from(kernel::SLACK)
}

/// Is it a map of so many rings, in values of so many bytes?
pub(crate) fn are_rings(info: &sys::bpf_map_info, nr_cpus: u32, value_bytes: u64) -> bool {
    info.type_ == sys::BPF_MAP_TYPE_ARRAY
        && (info.max_entries, u64::from(info.value_size)) == (nr_cpus, value_bytes)
        && info.map_flags & sys::BPF_F_MMAPABLE != 0
}

/// What all objects of one session are given.
#[derive(Debug)]
pub(crate) struct Loader {
    mode: LossMode,
    sizes: BufferSizes,
    nr_cpus: u32,
    value_bytes: u32,
    shared: HashMap<&'static str, OwnedFd>,
    tracked: Option<MapHandle>,
    contexts: Contexts,
    types: Option<Types>,
    /// Where what is loaded is pinned.
    pins: Option<Arc<ChannelPins>>,
}

/// The bytes of a plain structure without padding that matters.
///
/// # Safety
/// `T` is `repr(C)`, made of integers only, and has no padding.
pub(crate) unsafe fn bytes_of<T>(value: &T) -> &[u8] {
    // SAFETY: the caller's promise; the slice is as long as the value, and lives no longer.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Constants of one object, by the name of their map.
pub(crate) type Constants<'c> = [(&'static str, &'c [u8])];

impl Loader {
    /// # Errors
    /// [`Error::TooLarge`].
    pub(crate) fn new(
        attr: &Attr,
        layout: &StreamLayout,
        contexts: Contexts,
    ) -> Result<Loader, Error> {
        let value_bytes = value_bytes(layout);
        if value_bytes >= VALUE_BYTES_MAX {
            return Err(Error::TooLarge {
                found: attr.subbuf_bytes * attr.nr_subbufs,
                limit: VALUE_BYTES_MAX / 2,
            });
        }
        Ok(Loader {
            mode: attr.loss_mode,
            sizes: BufferSizes {
                buffer_bytes: attr.subbuf_bytes * attr.nr_subbufs,
                subbuf_bytes: attr.subbuf_bytes,
                frames_offset: layout.frames_offset,
                data_offset: layout.data_offset,
                subbuf_shift: u64::from(attr.subbuf_bytes.trailing_zeros()),
            },
            nr_cpus: layout.nr_streams,
            // Less than VALUE_BYTES_MAX.
            value_bytes: value_bytes as u32,
            shared: HashMap::new(),
            tracked: None,
            contexts,
            types: Types::of_this_kernel(),
            pins: None,
        })
    }

    /// What is loaded from now on is pinned there.
    pub(crate) fn pin_in(&mut self, pins: Arc<ChannelPins>) {
        self.pins = Some(pins);
    }

    pub(crate) fn pins(&self) -> Option<&Arc<ChannelPins>> {
        self.pins.as_ref()
    }

    /// The maps that another process had made and pinned, each `found` if it is as it is to be.
    ///
    /// # Errors
    /// [`Error::Pins`].
    pub(crate) fn take_up(
        &mut self,
        pins: Arc<ChannelPins>,
        found: impl Fn(usize, &dyn Fn(&sys::bpf_map_info) -> bool) -> Result<Option<OwnedFd>, Error>,
    ) -> Result<(), Error> {
        for (at, name) in SHARED.into_iter().enumerate() {
            let is_right = |info: &sys::bpf_map_info| match name {
                "rings" => are_rings(info, self.nr_cpus, self.value_bytes.into()),
                ".data.control" => {
                    info.type_ == sys::BPF_MAP_TYPE_ARRAY
                        && info.value_size as usize == size_of::<kernel::Control>()
                        && info.map_flags & sys::BPF_F_MMAPABLE != 0
                }
                "counters" => {
                    info.type_ == sys::BPF_MAP_TYPE_PERF_EVENT_ARRAY
                        && info.max_entries == self.nr_cpus * kernel::COUNTERS
                }
                _ => true,
            };
            let Some(fd) = found(at, &is_right)? else { continue };
            if name == "tracked" {
                let handle = pins.map(&format!("m{at}"));
                self.tracked = Some(handle.map_err(|error| pins.failed(name, error))?);
            }
            self.shared.insert(name, fd);
        }
        self.pins = Some(pins);
        Ok(())
    }

    /// Bytes of each value of `rings`.
    pub(crate) fn value_bytes(&self) -> u32 {
        self.value_bytes
    }

    /// A shared map, once an object that has it is loaded.
    pub(crate) fn shared(&self, name: &str) -> Option<BorrowedFd<'_>> {
        self.shared.get(name).map(AsFd::as_fd)
    }

    /// Makes the only value of a shared map zeroes.
    pub(crate) fn clear(&self, name: &str) {
        let Some(fd) = self.shared(name) else { return };
        let info: std::io::Result<sys::bpf_map_info> = info(fd);
        let bytes = info.map_or(0, |info| (info.value_size as usize).next_multiple_of(8));
        let (key, zeroes) = (0u32, vec![0u8; bytes]);
        if bytes > 0 {
            // SAFETY: a key and a value of the map's sizes, which live longer than the call.
            unsafe {
                sys::bpf_map_update_elem(
                    fd.as_raw_fd(),
                    std::ptr::from_ref(&key).cast(),
                    zeroes.as_ptr().cast(),
                    u64::from(sys::BPF_ANY),
                )
            };
        }
    }

    /// Opens an object; of its programs only those that `wanted` names are loaded.
    ///
    /// # Errors
    /// What libbpf says.
    pub(crate) fn open(
        &self,
        object: Object,
        wanted: &[&str],
        constants: &Constants<'_>,
    ) -> Result<OpenObject, Refusal> {
        begin_listening();
        let mut builder = ObjectBuilder::default();
        if let Some(types) = &self.types {
            builder.btf_custom_path(types.path()).map_err(|error| reason(&error))?;
        }
        let mut open =
            builder.open_memory(object.bytes(self.mode)).map_err(|error| reason(&error))?;
        let mut found = 0;
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let is_wanted = wanted.contains(&name.as_str());
            program.set_autoload(is_wanted);
            found += usize::from(is_wanted);
        }
        if found < wanted.len() {
            return Err(Refusal(format!(
                "not all of the programs {} are there",
                wanted.join(", ")
            )));
        }
        for mut map in open.maps_mut() {
            self.configure(&mut map, constants).map_err(|error| reason(&error))?;
        }
        Ok(open)
    }

    fn configure(
        &self,
        map: &mut OpenMapMut<'_>,
        constants: &Constants<'_>,
    ) -> libbpf_rs::Result<()> {
        let name = map.name().to_string_lossy().into_owned();
        if let Some(fd) = self.shared.get(name.as_str()) {
            return map.reuse_fd(fd.as_fd());
        }
        match name.as_str() {
            "rings" => {
                map.set_max_entries(self.nr_cpus)?;
                map.set_value_size(self.value_bytes)?;
            }
            "counters" => {
                map.set_max_entries(self.nr_cpus * kernel::COUNTERS)?;
                // Else they go with this process.
                if self.pins.is_some() {
                    map.set_map_flags(sys::BPF_F_PRESERVE_ELEMS)?;
                }
            }
            // SAFETY: as it says.
            ".rodata.sizes" => map.set_initial_value(unsafe { bytes_of(&self.sizes) })?,
            _ => {}
        }
        match constants.iter().find(|(constant, _)| *constant == name) {
            Some((_, bytes)) => map.set_initial_value(bytes),
            None => Ok(()),
        }
    }

    /// Loads it.
    ///
    /// # Errors
    /// What libbpf and the verifier say.
    pub(crate) fn load(&self, open: OpenObject) -> Result<libbpf_rs::Object, Refusal> {
        begin_listening();
        open.load().map_err(|error| reason(&error))
    }

    /// Loads it, and keeps the maps that others will share.
    ///
    /// # Errors
    /// What libbpf and the verifier say.
    pub(crate) fn load_first(&mut self, open: OpenObject) -> Result<libbpf_rs::Object, Refusal> {
        let mut object = self.load(open)?;
        for map in object.maps_mut() {
            self.keep(&map).map_err(|error| reason(&error))?;
        }
        Ok(object)
    }

    /// What the records of all programs have.
    pub(crate) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// The map of who is tracked, once an object is loaded.
    pub(crate) fn tracked(&self) -> Option<&MapHandle> {
        self.tracked.as_ref()
    }

    fn keep(&mut self, map: &MapMut<'_>) -> libbpf_rs::Result<()> {
        let name = map.name().to_string_lossy().into_owned();
        if name == "tracked" && self.tracked.is_none() {
            self.tracked = Some(MapHandle::try_from(map)?);
        }
        if let Some(name) = SHARED.into_iter().find(|shared| *shared == name) {
            if !self.shared.contains_key(name) {
                let fd = map.as_fd().try_clone_to_owned()?;
                let at = SHARED.iter().position(|shared| *shared == name).unwrap_or(0);
                if let Some(pins) = &self.pins {
                    let name = format!("m{at}");
                    pins.pin(&name, fd.as_fd()).map_err(|error| {
                        let what =
                            format!("{} cannot be pinned (--keep): {error}", pins.path(&name));
                        io::Error::new(error.kind(), what)
                    })?;
                }
                self.shared.insert(name, fd);
            }
        }
        Ok(())
    }
}
