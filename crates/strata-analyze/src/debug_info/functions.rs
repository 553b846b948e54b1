//! Functions of the kernel whose addresses are in fields of events, such as timers, queued work and callers that
//! allocate memory. Their names are in a file of the trace's folder.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use strata_ctf::kernel_symbols::{self, has_function, KernelSymbols, FUNCTION_BYTES_MAX};
use strata_ctf::read::{Event, EventClass, FieldKind, FieldRef, Reader, Scope};
use strata_text::json::quoted;
use strata_timeline::is_kernel;

use super::elf::open_plain;
use super::files::SourceOptions;
use super::lookup_limits::{size, Budget, Charge, BYTES_MAX};
use super::stack_fields::number;

/// The name of a field, and the function at the address in it.
pub type NamedFunction = (Arc<str>, Vec<u8>);

/// The fields of an event class that may hold addresses of functions, with their names.
type NamedFields = Arc<[(Arc<str>, FieldRef)]>;

/// Returns the field of this name in the payload of an event class, if it may hold the address of a kernel function.
#[must_use]
pub fn function_field(class: &EventClass, name: &str) -> Option<FieldRef> {
    let is_function = has_function(class.name(), name);
    let field = class.find_in(Scope::Payload, name).filter(|_| is_function)?;
    (field.info().kind == FieldKind::Integer).then_some(field)
}

/// Returns the event classes of the traces of kernels.
pub fn kernel_classes(reader: &Reader) -> impl Iterator<Item = &EventClass> {
    let traces = reader.traces().iter().filter(|trace| is_kernel(trace.schema()));
    traces.flat_map(|trace| trace.event_classes())
}

/// Adds functions as one JSON object, such as `{"call_site":"single_open+0x2a"}`.
pub fn functions_json(functions: &[NamedFunction], out: &mut Vec<u8>) {
    for (index, (name, text)) in functions.iter().enumerate() {
        out.push(if index == 0 { b'{' } else { b',' });
        quoted(out, name.as_bytes());
        out.push(b':');
        quoted(out, text);
    }
    if !functions.is_empty() {
        out.push(b'}');
    }
}

/// The functions of the kernels that traces are of. Clones share the functions that were read.
#[derive(Clone)]
pub struct KernelFunctions {
    /// The folder of each trace.
    folders: Arc<[PathBuf]>,
    read: Arc<Mutex<ReadFunctions>>,
    /// The functions of each trace that was looked up so far, by index of the trace.
    known: HashMap<usize, Arc<KernelSymbols>>,
    /// The fields of each event class that may hold addresses of functions.
    fields: Vec<Option<NamedFields>>,
}

/// The functions that were read, by index of the trace, and the memory that they take.
struct ReadFunctions {
    by_trace: HashMap<usize, Arc<KernelSymbols>>,
    charge: Charge,
}

impl std::fmt::Debug for KernelFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelFunctions").field("folders", &self.folders).finish_non_exhaustive()
    }
}

impl KernelFunctions {
    /// Prepares the functions of traces in these folders. Files are read at the first question.
    pub(super) fn in_folders(
        folders: impl Iterator<Item = PathBuf>,
        budget: &Arc<Budget>,
    ) -> KernelFunctions {
        let read = ReadFunctions { by_trace: HashMap::new(), charge: Charge::new(budget) };
        KernelFunctions {
            folders: folders.collect(),
            read: Arc::new(Mutex::new(read)),
            known: HashMap::new(),
            fields: Vec::new(),
        }
    }

    /// Returns the functions of the traces of a reader; `None` if names are not wanted, the traces have no names of
    /// functions, or no event has a field for an address.
    #[must_use]
    pub fn of(reader: &Reader, options: &SourceOptions) -> Option<KernelFunctions> {
        let has_field = || {
            kernel_classes(reader).any(|class| {
                let mut fields = class.fields(Scope::Payload);
                fields.any(|field| function_field(class, field.name()).is_some())
            })
        };
        if options.no_symbols || !KernelFunctions::are_in(reader) || !has_field() {
            return None;
        }
        let folders = reader.traces().iter().map(|trace| trace.path().to_path_buf());
        Some(KernelFunctions::in_folders(folders, &options.files.budget))
    }

    /// Returns true if the folder of any trace has a file with the kernel's functions.
    #[must_use]
    pub fn are_in(reader: &Reader) -> bool {
        reader.traces().iter().any(|trace| trace.path().join(kernel_symbols::FILE).is_file())
    }

    /// Returns the functions at addresses in fields of an event, each with its field's name.
    pub fn named(&mut self, event: &Event<'_>) -> Vec<NamedFunction> {
        let fields = self.fields_of(event);
        if fields.is_empty() {
            return Vec::new();
        }
        let trace = event.stream().trace();
        let symbols = self.of_trace(trace.index(), trace.path());
        let text = |field: &FieldRef| symbols.text(number(event.value(field))?);
        fields.iter().filter_map(|(name, field)| Some((Arc::clone(name), text(field)?))).collect()
    }

    /// Returns the function at the address in a field of an event; `None` if no function is known there.
    pub fn at(&mut self, event: &Event<'_>, field: &FieldRef) -> Option<Vec<u8>> {
        let trace = event.stream().trace();
        let address = number(event.value(field))?;
        self.of_trace(trace.index(), trace.path()).text(address)
    }

    /// Returns the name of the function at an address, from the first trace that has one there.
    pub(super) fn first_at(&mut self, address: u64) -> Option<Vec<u8>> {
        let folders = Arc::clone(&self.folders);
        folders.iter().enumerate().find_map(|(trace, folder)| {
            let symbols = self.of_trace(trace, folder);
            let (name, offset) = symbols.find(address)?;
            (offset < FUNCTION_BYTES_MAX).then(|| name.to_vec())
        })
    }

    /// Returns the functions of the kernel that has recorded a trace.
    pub(super) fn of_trace(&mut self, trace: usize, folder: &Path) -> Arc<KernelSymbols> {
        let shared = &self.read;
        let read = || {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let ReadFunctions { by_trace, charge } = &mut *shared;
            let of_file = || Arc::new(read_file(folder, charge).unwrap_or_default());
            Arc::clone(by_trace.entry(trace).or_insert_with(of_file))
        };
        Arc::clone(self.known.entry(trace).or_insert_with(read))
    }

    fn fields_of(&mut self, event: &Event<'_>) -> NamedFields {
        let class = event.class();
        if class.index() >= self.fields.len() {
            self.fields.resize_with(class.index() + 1, || None);
        }
        let find = || -> NamedFields {
            let names = class.fields(Scope::Payload).map(|field| &*field.name);
            names.filter_map(|name| Some((Arc::from(name), function_field(class, name)?))).collect()
        };
        match self.fields.get_mut(class.index()) {
            Some(found) => Arc::clone(found.get_or_insert_with(find)),
            None => find(),
        }
    }
}

/// Reads the functions of a kernel from the file in the folder of its trace.
fn read_file(folder: &Path, charge: &mut Charge) -> Option<KernelSymbols> {
    let path = folder.join(kernel_symbols::FILE);
    if std::fs::symlink_metadata(&path).ok()?.is_symlink() {
        return None;
    }
    let (file, metadata) = open_plain(&path).ok()?;
    let bytes = metadata.len();
    // In memory a function of a short name takes several times its bytes in the file.
    if bytes > kernel_symbols::BYTES_MAX || !charge.add(bytes.saturating_mul(4)) {
        charge.budget().remark(format!(
            "{}: it has {}, and at most {} are read, within what is left of the {} for all files and processes: functions of \
             the kernel have no names",
            path.display(),
            size(bytes),
            size(kernel_symbols::BYTES_MAX),
            size(BYTES_MAX)
        ));
        return None;
    }
    let mut all = Vec::new();
    file.take(bytes).read_to_end(&mut all).ok()?;
    Some(KernelSymbols::read(&all))
}
