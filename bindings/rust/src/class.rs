//! Providers, event classes and spans that a program registers by itself.

use std::ffi::{c_char, CStr, CString};
use std::ptr::{null, null_mut, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::library::{library, Library, Opaque, RawClass, RawEvent, RawField};
use crate::value::{FieldType, Words};

/// Severity of an event class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the levels of syslog(3), and LTTng's finer ones for debugging")]
pub enum Level {
    Emerg = 0,
    Alert = 1,
    Crit = 2,
    Err = 3,
    Warning = 4,
    Notice = 5,
    Info = 6,
    DebugSystem = 7,
    DebugProgram = 8,
    DebugProcess = 9,
    DebugModule = 10,
    DebugUnit = 11,
    DebugFunction = 12,
    DebugLine = 13,
    Debug = 14,
}

/// Reason why something cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// libstrata is not there, or too old: nothing of this process is recorded.
    NoLibrary(String),
    /// The library refuses it: a number as in `errno`, and a sentence.
    Refused(i32, String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::NoLibrary(why) => write!(f, "events cannot be recorded: {why}"),
            Error::Refused(_, why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

/// Description of an event class.
#[derive(Clone, Copy, Debug)]
pub struct Class<'c> {
    /// Name, which follows that of the provider and a colon.
    pub name: &'c str,
    /// Severity.
    pub level: Level,
    /// Names and types of the fields.
    pub fields: &'c [(&'c str, FieldType)],
    /// File and line in the source; empty and 0 if there is no such place.
    pub place: (&'c str, u32),
}

/// Memory for the sentence by which the library says what is wrong.
type Why = [c_char; 256];

fn refused(code: i32, why: &Why) -> Error {
    // SAFETY: the library ends what it writes with a NUL, and an array that it did not write to is all NULs.
    let text = unsafe { CStr::from_ptr(why.as_ptr()) };
    Error::Refused(-code, text.to_string_lossy().into_owned())
}

fn c_string(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::Refused(libc::EINVAL, format!("{text:?} has a NUL")))
}

fn functions() -> Result<&'static Library, Error> {
    library().map_err(|why| Error::NoLibrary(why.to_owned()))
}

/// A class in the form that the library reads, with all that its pointers lead to.
struct Prepared {
    raw: RawClass,
    _fields: Vec<RawField>,
    _texts: Vec<CString>,
}

fn prepare(class: &Class<'_>) -> Result<Prepared, Error> {
    let mut texts = vec![c_string(class.name)?, c_string(class.place.0)?];
    for (name, _) in class.fields {
        texts.push(c_string(name)?);
    }
    let names = texts.iter().skip(2);
    let fields: Vec<RawField> = names
        .zip(class.fields)
        .map(|(name, (_, field))| RawField {
            name: name.as_ptr(),
            enumeration: null(),
            count: field.count,
            kind: field.kind,
            shape: field.shape,
            base: 0,
            reserved: 0,
        })
        .collect();
    let raw = RawClass {
        bytes: size_of::<RawClass>() as u32,
        field_bytes: size_of::<RawField>() as u32,
        name: texts[0].as_ptr(),
        fields: fields.as_ptr(),
        nr_fields: fields.len() as u32,
        level: class.level as u32,
        file: texts[1].as_ptr(),
        line: class.place.1,
        reserved: 0,
    };
    Ok(Prepared { raw, _fields: fields, _texts: texts })
}

/// The word that the library sets while somebody records a class.
///
/// # Safety
/// `enabled` is an address that the library has given for a class: it stays valid until the process ends.
unsafe fn word(enabled: *const u32) -> &'static AtomicU32 {
    // SAFETY: the caller's promise. The library and recorders change the word atomically.
    unsafe { &*enabled.cast::<AtomicU32>() }
}

/// A group of events, which are called `provider:event`. Registered until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct Provider(NonNull<Opaque>);

// SAFETY: the library's functions take a provider in any thread.
unsafe impl Send for Provider {}
// SAFETY: as above.
unsafe impl Sync for Provider {}

impl Provider {
    /// Registers a provider of this name. The same name gives the same provider.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new(name: &str) -> Result<Provider, Error> {
        let library = functions()?;
        let name = c_string(name)?;
        let (mut provider, mut why): (*mut Opaque, Why) = (null_mut(), [0; 256]);
        let text = why.as_mut_ptr();
        // SAFETY: all pointers are to memory of this function, of the sizes that are given.
        let code =
            unsafe { (library.register_provider)(name.as_ptr(), &mut provider, text, why.len()) };
        NonNull::new(provider).map(Provider).ok_or_else(|| refused(code, &why))
    }

    /// Registers a class of events. The same class gives the same event.
    ///
    /// # Errors
    /// [`Error`].
    pub fn event(&self, class: &Class<'_>) -> Result<Event, Error> {
        let library = functions()?;
        let class = prepare(class)?;
        let (mut event, mut why): (*mut RawEvent, Why) = (null_mut(), [0; 256]);
        let (provider, text) = (self.0.as_ptr(), why.as_mut_ptr());
        // SAFETY: as above; the class and what it points to live as long as `class`.
        let code =
            unsafe { (library.register_event)(provider, &class.raw, &mut event, text, why.len()) };
        let event = NonNull::new(event).ok_or_else(|| refused(code, &why))?;
        // SAFETY: the library returned this handle, which stays in memory.
        let enabled = unsafe { event.as_ref() }.enabled;
        // SAFETY: the address is that of a class.
        let enabled = unsafe { word(enabled) };
        Ok(Event { event, enabled, library })
    }

    /// Registers a class of spans, whose events are called `NAME_begin` and `NAME_end`. Spans with a key may end in
    /// another thread, and overlap.
    ///
    /// # Errors
    /// [`Error`].
    pub fn span(&self, class: &Class<'_>, keyed: bool) -> Result<SpanClass, Error> {
        let library = functions()?;
        let class = prepare(class)?;
        let (mut span, mut why): (*mut Opaque, Why) = (null_mut(), [0; 256]);
        let (provider, text) = (self.0.as_ptr(), why.as_mut_ptr());
        // SAFETY: as for an event.
        let code = unsafe {
            (library.register_span)(provider, &class.raw, keyed.into(), &mut span, text, why.len())
        };
        let span = NonNull::new(span).ok_or_else(|| refused(code, &why))?;
        // SAFETY: the library returned this handle, which stays in memory.
        let enabled = unsafe { (library.span_enabled)(span.as_ptr()) };
        // SAFETY: the address is that of a class.
        let enabled = unsafe { word(enabled) };
        Ok(SpanClass { span, enabled, library })
    }
}

/// A class of events.
#[derive(Clone, Copy)]
pub struct Event {
    event: NonNull<RawEvent>,
    pub(crate) enabled: &'static AtomicU32,
    library: &'static Library,
}

// SAFETY: the library's functions take an event in any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Returns true while somebody records the event.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.enabled.load(Ordering::Relaxed) != 0
    }

    /// Records one event in each session that wants it. Nothing happens unless there is one value for each field.
    #[inline]
    pub fn record(&self, values: &Words<'_>) {
        // SAFETY: the values are as many as are said; those that refer to memory do so for their own lifetime.
        unsafe { (self.library.record)(self.event.as_ptr(), values.as_ptr(), values.len()) };
    }
}

/// A class of spans.
#[derive(Clone, Copy)]
pub struct SpanClass {
    span: NonNull<Opaque>,
    pub(crate) enabled: &'static AtomicU32,
    library: &'static Library,
}

// SAFETY: the library's functions take a span in any thread.
unsafe impl Send for SpanClass {}
// SAFETY: as above.
unsafe impl Sync for SpanClass {}

impl SpanClass {
    /// Returns true while somebody records begins of the span.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.enabled.load(Ordering::Relaxed) != 0
    }

    /// Begins a span of this thread. Returns whether it has to be ended.
    #[inline]
    pub fn begin(&self, values: &Words<'_>) -> bool {
        // SAFETY: as for an event.
        let code =
            unsafe { (self.library.begin)(self.span.as_ptr(), values.as_ptr(), values.len()) };
        code == 1
    }

    /// Ends the innermost span of this thread.
    #[inline]
    pub fn end(&self) {
        // SAFETY: the handle is the library's.
        unsafe { (self.library.end)(self.span.as_ptr()) };
    }

    /// Begins the span `key`, which no other span of this class has that has not ended. Returns whether it has to be
    /// ended.
    #[inline]
    pub fn begin_key(&self, key: u64, values: &Words<'_>) -> bool {
        let (span, words) = (self.span.as_ptr(), values.as_ptr());
        // SAFETY: as for an event.
        let code = unsafe { (self.library.begin_key)(span, key, words, values.len()) };
        code == 1
    }

    /// Ends the span `key`, in any thread.
    #[inline]
    pub fn end_key(&self, key: u64) {
        // SAFETY: the handle is the library's.
        unsafe { (self.library.end_key)(self.span.as_ptr(), key) };
    }

    /// Returns a key that this process has not been given before.
    #[must_use]
    pub fn new_key(&self) -> u64 {
        // SAFETY: the function takes nothing.
        unsafe { (self.library.new_key)() }
    }
}
