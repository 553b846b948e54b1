//! The functions of libstrata, which is loaded when the first event is registered.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::OnceLock;

/// Name of the library, as the loader finds it.
const NAME: &CStr = c"libstrata.so.0";

/// The variable that names the library's file where the loader does not find it.
const VARIABLE: &CStr = c"STRATA_LIBRARY";

/// The C structure `strata_event_field`.
#[repr(C)]
pub(crate) struct RawField {
    pub name: *const c_char,
    pub enumeration: *const c_void,
    pub count: u32,
    pub kind: u8,
    pub shape: u8,
    pub base: u8,
    pub reserved: u8,
}

/// The C structure `strata_event_class`.
#[repr(C)]
pub(crate) struct RawClass {
    pub bytes: u32,
    pub field_bytes: u32,
    pub name: *const c_char,
    pub fields: *const RawField,
    pub nr_fields: u32,
    pub level: u32,
    pub file: *const c_char,
    pub line: u32,
    pub reserved: u32,
}

/// `struct strata_event`, of which only the first member is public.
#[repr(C)]
pub(crate) struct RawEvent {
    pub enabled: *const u32,
}

/// `struct strata_provider` and `struct strata_span`, which are opaque.
pub(crate) type Opaque = c_void;

type RegisterProvider =
    unsafe extern "C" fn(*const c_char, *mut *mut Opaque, *mut c_char, usize) -> c_int;
type RegisterEvent = unsafe extern "C" fn(
    *mut Opaque,
    *const RawClass,
    *mut *mut RawEvent,
    *mut c_char,
    usize,
) -> c_int;
type RegisterSpan = unsafe extern "C" fn(
    *mut Opaque,
    *const RawClass,
    u32,
    *mut *mut Opaque,
    *mut c_char,
    usize,
) -> c_int;

type Record = unsafe extern "C" fn(*mut RawEvent, *const u64, u32) -> c_int;
type SpanEnabled = unsafe extern "C" fn(*const Opaque) -> *const u32;
type Begin = unsafe extern "C" fn(*mut Opaque, *const u64, u32) -> c_int;
type End = unsafe extern "C" fn(*mut Opaque) -> c_int;
type BeginKey = unsafe extern "C" fn(*mut Opaque, u64, *const u64, u32) -> c_int;
type EndKey = unsafe extern "C" fn(*mut Opaque, u64) -> c_int;
type NewKey = unsafe extern "C" fn() -> u64;

/// The functions of `strata/events.h` that this crate calls.
pub(crate) struct Library {
    pub register_provider: RegisterProvider,
    pub register_event: RegisterEvent,
    pub register_span: RegisterSpan,
    pub record: Record,
    pub span_enabled: SpanEnabled,
    pub begin: Begin,
    pub end: End,
    pub begin_key: BeginKey,
    pub end_key: EndKey,
    pub new_key: NewKey,
}

/// Returns the library's functions, or why there are none. The library is looked for once.
pub(crate) fn library() -> Result<&'static Library, &'static str> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(|| load(variable().as_deref())).as_ref().map_err(String::as_str)
}

/// Loads the library from `file` before anything else in the process has loaded another one.
pub(crate) fn load_file(file: &Path) -> Result<(), String> {
    let name = CString::new(file.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    open(&name).map(drop)
}

extern "C" {
    fn secure_getenv(name: *const c_char) -> *mut c_char;
}

/// Returns the value of [`VARIABLE`], which a program with more rights than its caller ignores.
fn variable() -> Option<CString> {
    // SAFETY: the name is a C string. The value is copied at once; a program that changes its environment in another
    // thread has a race with every reader of it, which is why Rust's own functions for that are unsafe.
    let value = unsafe { secure_getenv(VARIABLE.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv() returns a C string.
    Some(unsafe { CStr::from_ptr(value) }.to_owned())
}

fn open(name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the name is a C string. The library's constructors are sound: it makes no thread and no lock of ours.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: the text is this thread's until its next call of the loader.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return Err(format!("{} cannot be loaded", name.to_string_lossy()));
    }
    // SAFETY: dlerror() returns a C string.
    Err(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

fn load(file: Option<&CStr>) -> Result<Library, String> {
    let handle = open(file.unwrap_or(NAME))?;
    let symbol = |name: &CStr| {
        // SAFETY: the handle is the loader's, and is never closed.
        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
        if found.is_null() {
            return Err(format!("libstrata is too old: it has no {}", name.to_string_lossy()));
        }
        Ok(found)
    };
    macro_rules! function {
        ($name:literal, $kind:ty) => {{
            let found = symbol($name)?;
            // SAFETY: strata/events.h declares the function with this type, and a function's type never changes there.
            unsafe { std::mem::transmute::<*mut c_void, $kind>(found) }
        }};
    }
    Ok(Library {
        register_provider: function!(c"strata_provider_register", RegisterProvider),
        register_event: function!(c"strata_event_register", RegisterEvent),
        register_span: function!(c"strata_span_register", RegisterSpan),
        record: function!(c"strata_event_record", Record),
        span_enabled: function!(c"strata_span_enabled", SpanEnabled),
        begin: function!(c"strata_span_begin", Begin),
        end: function!(c"strata_span_end", End),
        begin_key: function!(c"strata_span_begin_key", BeginKey),
        end_key: function!(c"strata_span_end_key", EndKey),
        new_key: function!(c"strata_span_new_key", NewKey),
    })
}
