//! Opens objects, sets their constants, and loads them; keeps the maps that they share.

use crate::attach::bpf_objects::Object;
use crate::attach::sample_counts::{SAMPLED, SECONDS};
use crate::decide::contexts::Contexts;
use crate::decide::count::CountSpec;
use crate::discover::btf::Types;
use crate::error::{Error, Refusal};
use crate::persist::pins::{info, ChannelPins, SHARED};
use libbpf_rs::{MapCore, MapHandle, MapMut, ObjectBuilder, OpenMapMut, OpenObject, PrintLevel};
use libbpf_sys as sys;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use strata_abi::count::{Key, Value};
use strata_abi::kernel;
use strata_ring::{Attr, LossMode, StreamLayout};

/// The most bytes of libbpf's messages that are kept for an error. The kernel's log is among them, and long \[byte\].
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The farthest offset into a map's value that the verifier admits \[byte\] (BPF_MAX_VAR_OFF).
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

/// Redirects libbpf's messages from stderr to this module, which keeps those of each thread separately.
pub(crate) fn quiet() {
    libbpf_rs::set_print(Some((PrintLevel::Info, listen)));
}

/// Discards the messages of libbpf that were kept so far.
pub(crate) fn begin_listening() {
    MESSAGES.with_borrow_mut(String::clear);
}

/// Returns the error, with the last messages of libbpf and the kernel about it.
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

/// Sizes and offsets of a stream, as the programs know them (`struct strata_sizes`).
#[repr(C)]
#[derive(Debug)]
struct BufferSizes {
    buffer_bytes: u64,
    subbuf_bytes: u64,
    frames_offset: u64,
    data_offset: u64,
    subbuf_shift: u64,
    argv_bytes: u64,
}

/// Returns the size of a value of the map `rings` \[byte\]: a stream's buffer, and room after it for the largest
/// record, since the verifier needs that room.
pub(crate) fn value_bytes(layout: &StreamLayout) -> u64 {
    layout.stride_bytes + 2 * u64::from(kernel::SLACK) + u64::from(kernel::COPY_SLACK)
}

/// Returns whether the map has rings for `nr_cpus` CPUs, in values of `value_bytes` bytes.
pub(crate) fn are_rings(info: &sys::bpf_map_info, nr_cpus: u32, value_bytes: u64) -> bool {
    info.type_ == sys::BPF_MAP_TYPE_ARRAY
        && (info.max_entries, u64::from(info.value_size)) == (nr_cpus, value_bytes)
        && info.map_flags & sys::BPF_F_MMAPABLE != 0
}

/// The loader of a session's BPF objects, with the settings and maps that all of them share.
#[derive(Debug)]
pub(crate) struct Loader {
    mode: LossMode,
    sizes: BufferSizes,
    nr_cpus: u32,
    value_bytes: u32,
    shared: HashMap<&'static str, OwnedFd>,
    tracked: Option<MapHandle>,
    counts: Option<MapHandle>,
    /// The number of elements in the map of counts, and the size of a key and of a value \[byte\]; `None` if nothing
    /// is counted.
    count_sizes: Option<(u32, u32, u32)>,
    contexts: Contexts,
    types: Option<Types>,
    /// The folder in which loaded objects are pinned; `None` to pin none.
    pins: Option<Arc<ChannelPins>>,
}

/// Returns the bytes of a structure.
///
/// # Safety
/// `T` is `repr(C)`, made of integers only, and has no padding.
pub(crate) unsafe fn bytes_of<T>(value: &T) -> &[u8] {
    // SAFETY: the caller's promise; the slice is as long as the value, and lives no longer.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Constants of one object, each with the name of its map.
pub(crate) type Constants<'c> = [(&'static str, &'c [u8])];

/// The programs of an object that are to be loaded, with their constants.
pub(crate) struct Wanted<'w> {
    pub(crate) programs: &'w [&'w str],
    pub(crate) constants: &'w Constants<'w>,
    /// Number of events of which samples are counted; 0: the programs take no samples.
    pub(crate) nr_sampled: u32,
}

impl Loader {
    /// Makes a loader for buffers of this layout.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub(crate) fn new(
        attr: &Attr,
        layout: &StreamLayout,
        contexts: Contexts,
        argv_bytes: u32,
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
                argv_bytes: argv_bytes.clamp(kernel::TEXT_MAX, kernel::ARGV_MAX).into(),
            },
            nr_cpus: layout.nr_streams,
            // Less than VALUE_BYTES_MAX.
            value_bytes: value_bytes as u32,
            shared: HashMap::new(),
            tracked: None,
            counts: None,
            count_sizes: None,
            contexts,
            types: Types::of_this_kernel(),
            pins: None,
        })
    }

    /// Sets the sizes of the map of counts, for programs that count events as `spec` says.
    pub(crate) fn count_in(&mut self, spec: &CountSpec) {
        let key = offset_of!(Key, part) + spec.keys.len() * size_of::<[u64; 2]>();
        let value = match (&spec.value, spec.spread) {
            (None, _) => offset_of!(Value, sum),
            (Some(_), false) => offset_of!(Value, bucket),
            (Some(_), true) => size_of::<Value>(),
        };
        self.count_sizes = Some((spec.rows_max, key as u32, value as u32));
    }

    /// Returns the map of counts, if a program that counts is loaded.
    pub(crate) fn take_counts(&mut self) -> Option<MapHandle> {
        self.counts.take()
    }

    /// Pins all objects that are loaded from now on.
    pub(crate) fn pin_in(&mut self, pins: Arc<ChannelPins>) {
        self.pins = Some(pins);
    }

    pub(crate) fn pins(&self) -> Option<&Arc<ChannelPins>> {
        self.pins.as_ref()
    }

    /// Uses the maps that another process has made and pinned, which `found` checks and opens.
    ///
    /// # Errors
    /// [`Error::Pins`].
    pub(crate) fn adopt(
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

    /// Returns the size of each value of `rings` \[byte\].
    pub(crate) fn value_bytes(&self) -> u32 {
        self.value_bytes
    }

    /// Returns a shared map, if an object that has it is loaded.
    pub(crate) fn shared(&self, name: &str) -> Option<BorrowedFd<'_>> {
        self.shared.get(name).map(AsFd::as_fd)
    }

    /// Fills the only value of the shared map `name` with zeroes.
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

    /// Opens an object, of whose programs only the wanted ones will be loaded.
    ///
    /// # Errors
    /// The error of libbpf.
    pub(crate) fn open(&self, object: Object, wanted: &Wanted<'_>) -> Result<OpenObject, Refusal> {
        let programs = wanted.programs;
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
            let is_wanted = programs.contains(&name.as_str());
            program.set_autoload(is_wanted);
            found += usize::from(is_wanted);
        }
        if found < programs.len() {
            return Err(Refusal(format!(
                "not all of the programs {} are there",
                programs.join(", ")
            )));
        }
        for mut map in open.maps_mut() {
            self.configure(&mut map, wanted).map_err(|error| reason(&error))?;
        }
        Ok(open)
    }

    fn configure(&self, map: &mut OpenMapMut<'_>, wanted: &Wanted<'_>) -> libbpf_rs::Result<()> {
        let name = map.name().to_string_lossy().into_owned();
        if let Some(fd) = self.shared.get(name.as_str()) {
            return map.reuse_fd(fd.as_fd());
        }
        match name.as_str() {
            "rings" => {
                map.set_max_entries(self.nr_cpus)?;
                map.set_value_size(self.value_bytes)?;
            }
            "counts" => {
                let (rows, key, value) = self.count_sizes.unwrap_or((1, 8, 8));
                map.set_max_entries(rows)?;
                map.set_key_size(key)?;
                map.set_value_size(value)?;
            }
            "counters" => {
                map.set_max_entries(self.nr_cpus * kernel::COUNTERS)?;
                // Else they go with this process.
                if self.pins.is_some() {
                    map.set_map_flags(sys::BPF_F_PRESERVE_ELEMS)?;
                }
            }
            // The verifier leaves out what reads a map that is not made.
            SAMPLED | SECONDS if wanted.nr_sampled == 0 => map.set_autocreate(false)?,
            SAMPLED | SECONDS => map.set_max_entries(wanted.nr_sampled)?,
            // SAFETY: as it says.
            ".rodata.sizes" => map.set_initial_value(unsafe { bytes_of(&self.sizes) })?,
            _ => {}
        }
        match wanted.constants.iter().find(|(constant, _)| *constant == name) {
            Some((_, bytes)) => map.set_initial_value(bytes),
            None => Ok(()),
        }
    }

    /// Loads an opened object.
    ///
    /// # Errors
    /// The errors of libbpf and the verifier.
    pub(crate) fn load(&self, open: OpenObject) -> Result<libbpf_rs::Object, Refusal> {
        begin_listening();
        open.load().map_err(|error| reason(&error))
    }

    /// Loads an opened object, and keeps its maps for others to share.
    ///
    /// # Errors
    /// The errors of libbpf and the verifier.
    pub(crate) fn load_first(&mut self, open: OpenObject) -> Result<libbpf_rs::Object, Refusal> {
        let mut object = self.load(open)?;
        for map in object.maps_mut() {
            self.keep(&map).map_err(|error| reason(&error))?;
        }
        Ok(object)
    }

    /// Returns the contexts that the records of all programs have.
    pub(crate) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// Returns the map of tracked processes, if an object is loaded.
    pub(crate) fn tracked(&self) -> Option<&MapHandle> {
        self.tracked.as_ref()
    }

    fn keep(&mut self, map: &MapMut<'_>) -> libbpf_rs::Result<()> {
        let name = map.name().to_string_lossy().into_owned();
        if name == "tracked" && self.tracked.is_none() {
            self.tracked = Some(MapHandle::try_from(map)?);
        }
        if name == "counts" && self.counts.is_none() {
            self.counts = Some(MapHandle::try_from(map)?);
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
