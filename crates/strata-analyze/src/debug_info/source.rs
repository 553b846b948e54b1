//! From an event's instruction pointer to a place in the source.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use strata_ctf::kernel_symbols::{self, KernelSymbols};
use strata_ctf::read::{Event, Reader};

use super::classes::MappedObject;
use super::objects::Objects;
use super::recorder::{frames_of_recorder, is_sample};
use super::symbols::{KnownAddress, Symbols};

/// Files whose debug information is in memory at once.
const FILES: usize = 64;
/// Places that are remembered.
const PLACES: usize = 1 << 16;
/// What is further behind a function of the kernel is something else, such as a program of BPF \[byte\].
const FUNCTION_BYTES_MAX: u64 = 1 << 20;
/// Where Linux systems have the debug information of their packages.
const SYSTEM: &str = "/usr/lib/debug";

/// Where files are looked for, and how they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceOptions {
    /// Where separate debug information is; `/usr/lib/debug` if not given.
    pub folder: Option<PathBuf>,
    /// The root of the traced system, as it is seen here.
    pub prefix: Option<PathBuf>,
    /// Whole paths instead of names.
    pub full_path: bool,
}

/// A place; what is not known is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedPlace {
    /// `messages+0x1450`, or `messages@0x401450` if the program is always at the same addresses.
    pub binary: Vec<u8>,
    /// `main+0x100`.
    pub function: Vec<u8>,
    /// `main.c:12`.
    pub source: Vec<u8>,
}

/// One address of a call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackFrame {
    /// As it was recorded: where it is, of callers where it goes on.
    pub address: u64,
    /// What is there; of callers, the call.
    pub place: Rc<ResolvedPlace>,
}

impl StackFrame {
    /// `pay+0x7e (shop.c:18)`; without a function its file and place in it; without that the address.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        let mut text = match (&self.place.function[..], &self.place.binary[..]) {
            ([], []) => format!("{:#x}", self.address).into_bytes(),
            ([], binary) => binary.to_vec(),
            (function, _) => function.to_vec(),
        };
        if !self.place.source.is_empty() {
            text = [&text[..], b" (", &self.place.source, b")"].concat();
        }
        text
    }
}

/// The call stacks of an event, the innermost first; `None`: it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// In the kernel, without the frames of who has recorded it.
    pub kernel: Option<Vec<StackFrame>>,
    /// In the program.
    pub user: Option<Vec<StackFrame>>,
    /// How many frames of who has recorded it are left off `kernel`, in front of its first.
    pub of_recorder: usize,
}

/// A program's or library's file, by all that is known of it.
type FileKey = (Vec<u8>, Vec<u8>, Vec<u8>);

/// Finds places.
#[derive(Default)]
pub struct Source {
    options: SourceOptions,
    objects: Objects,
    files: HashMap<FileKey, Rc<[Symbols]>>,
    places: HashMap<(FileKey, u64), Rc<ResolvedPlace>>,
    /// Of each trace of a kernel, its functions.
    kernels: HashMap<usize, Rc<KernelSymbols>>,
}

impl Source {
    /// For these traces, of which what was there before their first events is looked up.
    #[must_use]
    pub fn new(reader: &Reader, options: &SourceOptions) -> Source {
        let objects = Objects::begin(reader);
        Source { options: options.clone(), objects, ..Source::default() }
    }

    /// Learns what an event of the traces tells of objects. All are to be told, in the order of time.
    pub fn learn(&mut self, event: &Event<'_>) {
        let _ = self.objects.event(event);
    }

    /// The same, and says where the event was recorded; `None`: it has no instruction pointer.
    pub fn place(&mut self, event: &Event<'_>) -> Option<Rc<ResolvedPlace>> {
        let (ip, object) = self.objects.event(event)?;
        let Some(object) = object.cloned() else { return Some(Rc::default()) };
        Some(self.of_object(&object, ip))
    }

    /// Where an address of a process is, by what was learned of it in any trace; `None`: nothing was.
    pub fn place_of(&mut self, pid: i64, address: u64) -> Option<Rc<ResolvedPlace>> {
        let object = self.objects.find(pid, address)?.clone();
        Some(self.of_object(&object, address))
    }

    /// The process of a thread of an event's trace, as the trace says it; `None`: nothing does.
    #[must_use]
    pub fn process_of(&self, event: &Event<'_>, tid: i64) -> Option<i64> {
        self.objects.process_of(event.stream().trace().index(), tid)
    }

    /// Another number than before when something was learned: an address may be at another place then.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.objects.version()
    }

    /// The function of the kernel whose trace an event is in at an address, and how far behind its begin that is.
    pub fn kernel_function(&mut self, event: &Event<'_>, address: u64) -> Option<(Vec<u8>, u64)> {
        let trace = event.stream().trace();
        let symbols = self.symbols_of(trace.index(), trace.path());
        let (name, offset) = symbols.find(address)?;
        (offset < FUNCTION_BYTES_MAX).then(|| (name.to_vec(), offset))
    }

    /// Whether an event that was learnt has a call stack with an address in it.
    #[must_use]
    pub fn has_calls(&self, event: &Event<'_>) -> bool {
        let stacks = self.objects.stacks(event).map(|(stacks, _)| stacks);
        stacks.iter().flatten().flatten().any(|stack| !stack.is_empty())
    }

    /// The call stacks of an event that was learnt; `None`: it has none.
    pub fn stacks(&mut self, event: &Event<'_>) -> Option<Stacks> {
        let ([kernel, user], pid) = self.objects.stacks(event)?;
        let trace = event.stream().trace();
        let symbols = match kernel.as_ref().is_some_and(|stack| !stack.is_empty()) {
            true => self.symbols_of(trace.index(), trace.path()),
            false => Rc::default(),
        };
        let mut in_kernel = |(at, address): (usize, u64)| {
            // A caller goes on behind its call, which may be the last that it does.
            let found = symbols.find(address.saturating_sub(u64::from(at > 0)));
            let found = found.filter(|(_, offset)| *offset < FUNCTION_BYTES_MAX);
            let mut place = ResolvedPlace::default();
            if let Some((name, offset)) = found {
                place.function = name.to_vec();
                let _ = write!(place.function, "+{:#x}", offset + u64::from(at > 0));
            }
            StackFrame { address, place: Rc::new(place) }
        };
        let mut of_recorder = 0;
        let kernel = kernel.map(|stack| {
            let mut frames: Vec<StackFrame> =
                stack.into_iter().enumerate().map(&mut in_kernel).collect();
            let mut name = |at: usize| {
                let function = &frames.get(at)?.place.function;
                let name = String::from_utf8_lossy(function);
                name.rsplit_once('+').map(|(name, _)| name.to_owned())
            };
            if !is_sample(event.class().name()) {
                of_recorder = frames_of_recorder(frames.len(), &mut name);
                frames.drain(..of_recorder);
            }
            frames
        });
        let in_program = |(at, address): (usize, u64)| {
            let inside = address.saturating_sub(u64::from(at > 0));
            let object = pid.and_then(|pid| self.objects.at(trace.index(), pid, inside)).cloned();
            let place = object.map(|object| self.of_object(&object, inside)).unwrap_or_default();
            StackFrame { address, place }
        };
        let user = user.map(|stack| stack.into_iter().enumerate().map(in_program).collect());
        Some(Stacks { kernel, user, of_recorder })
    }

    /// Functions of the kernel whose trace this is.
    fn symbols_of(&mut self, trace: usize, folder: &Path) -> Rc<KernelSymbols> {
        let read = || {
            let path = folder.join(kernel_symbols::FILE);
            let is_fine =
                |it: std::fs::Metadata| it.is_file() && it.len() <= kernel_symbols::BYTES_MAX;
            match std::fs::symlink_metadata(&path).is_ok_and(is_fine) {
                true => KernelSymbols::read(&std::fs::read(&path).unwrap_or_default()),
                false => KernelSymbols::default(),
            }
        };
        Rc::clone(self.kernels.entry(trace).or_insert_with(|| Rc::new(read())))
    }

    fn of_object(&mut self, object: &MappedObject, ip: u64) -> Rc<ResolvedPlace> {
        let address = match object.offset {
            Some(offset) => (ip - object.begin).saturating_add(offset),
            None if object.is_pic => ip - object.begin,
            None => ip,
        };
        let key = (object.path.clone(), object.build_id.clone(), object.debug_link.clone());
        if let Some(place) = self.places.get(&(key.clone(), address)) {
            return Rc::clone(place);
        }
        let place = Rc::new(self.look(object, &key, address));
        if self.places.len() >= PLACES {
            self.places.clear();
        }
        self.places.insert((key, address), Rc::clone(&place));
        place
    }

    fn look(&mut self, object: &MappedObject, key: &FileKey, address: u64) -> ResolvedPlace {
        let files = match self.files.get(key) {
            Some(files) => Rc::clone(files),
            None => {
                if self.files.len() >= FILES {
                    self.files.clear();
                }
                let files: Rc<[Symbols]> = self.open(object).into();
                self.files.insert(key.clone(), Rc::clone(&files));
                files
            }
        };
        let mut known = KnownAddress::default();
        // What is separate from a file has its addresses, and not its content.
        let known_at = |file: &Symbols| file.address_of(address);
        let address = match object.offset {
            Some(_) => files.first().and_then(known_at).unwrap_or(address),
            None => address,
        };
        for file in files.iter() {
            let found = file.find(address);
            known.function = found.function.or(known.function);
            known.line = found.line.or(known.line);
        }
        let mut place =
            ResolvedPlace { binary: self.named(&object.path), ..ResolvedPlace::default() };
        let sign = if object.is_pic { '+' } else { '@' };
        // Writing to memory does not fail.
        let _ = write!(place.binary, "{sign}{address:#x}");
        if let Some((name, offset)) = known.function {
            place.function = name;
            let _ = match offset {
                0 => write!(place.function, "+0"),
                offset => write!(place.function, "+{offset:#x}"),
            };
        }
        if let Some((path, line)) = known.line {
            place.source = self.named(&path);
            let _ = write!(place.source, ":{line}");
        }
        place
    }

    fn named(&self, path: &[u8]) -> Vec<u8> {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        if self.options.full_path { path } else { name }.to_vec()
    }

    /// The object's file, and where that has no lines the one with its debug information.
    fn open(&self, object: &MappedObject) -> Vec<Symbols> {
        let path = Path::new(OsStr::from_bytes(&object.path));
        let is_it = |file: &Symbols| {
            object.build_id.is_empty()
                || file.build_id.is_empty()
                || file.build_id == object.build_id
        };
        let open = |path: &Path| Symbols::open(path).ok().filter(is_it);
        let Some(here) = self.here(path) else { return Vec::new() };
        let own = open(&here);
        if own.as_ref().is_some_and(Symbols::has_lines) {
            return own.into_iter().collect();
        }
        let separate = self.separate(object, path).into_iter().find_map(|path| open(&path));
        own.into_iter().chain(separate).collect()
    }

    /// A path of the traced system, as it is seen here. Only whole ones are: no others mean a place.
    fn here(&self, path: &Path) -> Option<PathBuf> {
        let is_whole =
            path.is_absolute() && !path.components().any(|it| it == Component::ParentDir);
        let prefix = self.options.prefix.as_deref().unwrap_or(Path::new("/"));
        is_whole.then(|| prefix.join(path.strip_prefix("/").unwrap_or(path)))
    }

    /// Where its debug information may be.
    fn separate(&self, object: &MappedObject, path: &Path) -> Vec<PathBuf> {
        let folder = match &self.options.folder {
            Some(folder) => folder.clone(),
            None => self.here(Path::new(SYSTEM)).unwrap_or_default(),
        };
        let mut found = Vec::new();
        if let [first, rest @ ..] = &object.build_id[..] {
            let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
            found.push(folder.join(format!(".build-id/{first:02x}/{rest}.debug")));
        }
        let link = Path::new(OsStr::from_bytes(&object.debug_link));
        let is_name = link.file_name() == Some(link.as_os_str());
        if let (true, Some(beside)) = (is_name, path.parent()) {
            let near = [beside.join(link), beside.join(".debug").join(link)];
            found.extend(near.iter().filter_map(|path| self.here(path)));
            found.push(folder.join(beside.strip_prefix("/").unwrap_or(beside)).join(link));
        }
        found
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("options", &self.options).finish_non_exhaustive()
    }
}
