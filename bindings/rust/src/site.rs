//! Events and spans of one line of source, for the macros.

use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::OnceLock;

use crate::class::{Class, Event, Level, Provider, SpanClass};
use crate::value::{FieldType, Words};

/// The word of a site that cannot be registered.
static OFF: AtomicU32 = AtomicU32::new(0);

/// One place in the source. It is registered when the program is there for the first time.
#[doc(hidden)]
pub struct Site<T: 'static> {
    enabled: AtomicPtr<AtomicU32>,
    class: OnceLock<Option<T>>,
}

/// The names, the level and the place with which a site is registered.
#[doc(hidden)]
pub struct Names {
    pub provider: &'static str,
    pub event: &'static str,
    pub level: Level,
    pub place: (&'static str, u32),
}

impl<T: Copy> Site<T> {
    /// Makes a site that is not registered yet.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a site is a static variable")]
    pub const fn new() -> Site<T> {
        Site { enabled: AtomicPtr::new(null_mut()), class: OnceLock::new() }
    }

    /// Returns whether somebody records the site; `None` before it is registered.
    #[inline(always)]
    pub fn is_on(&self) -> Option<bool> {
        // ACQUIRE pairs with the RELEASE of whoever registered the site.
        let enabled = self.enabled.load(Ordering::Acquire);
        if enabled.is_null() {
            return None;
        }
        // SAFETY: the address is that of a static variable, or of a class, which stays until the process ends.
        Some(unsafe { &*enabled }.load(Ordering::Relaxed) != 0)
    }

    /// Returns the class of a site that is on.
    #[inline]
    pub fn class(&self) -> Option<T> {
        self.class.get().copied().flatten()
    }

    fn register(
        &self,
        names: &Names,
        fields: &[(&str, FieldType)],
        make: impl FnOnce(Provider, &Class<'_>) -> Option<(T, &'static AtomicU32)>,
    ) -> bool {
        let mut enabled = &OFF;
        self.class.get_or_init(|| {
            let class = Class { name: names.event, level: names.level, fields, place: names.place };
            let provider = Provider::new(names.provider).ok()?;
            let (class, word) = make(provider, &class)?;
            enabled = word;
            // Before the class, so that whoever finds the site on finds the class, too.
            Some(class)
        });
        // Another thread may have registered the site: only one of the two stores its word.
        let word: *const AtomicU32 = enabled;
        if self.class().is_none() || !std::ptr::eq(word, &OFF) {
            self.enabled.store(word.cast_mut(), Ordering::Release);
        }
        self.is_on() == Some(true)
    }
}

impl Site<Event> {
    /// Registers the site as a class. Returns whether somebody records it.
    #[cold]
    pub fn register_event(&self, names: &Names, fields: &[(&str, FieldType)]) -> bool {
        self.register(names, fields, |provider, class| {
            let event = provider.event(class).ok()?;
            Some((event, event.enabled))
        })
    }
}

impl Site<SpanClass> {
    /// Registers the site as a class. Returns whether somebody records it.
    #[cold]
    pub fn register_span(&self, names: &Names, fields: &[(&str, FieldType)]) -> bool {
        self.register(names, fields, |provider, class| {
            let span = provider.span(class, false).ok()?;
            Some((span, span.enabled))
        })
    }
}

/// A span of this thread that ends with the scope of its guard.
#[must_use = "the span ends with the scope of its guard: let _span = …"]
pub struct SpanGuard {
    span: Option<SpanClass>,
    /// A span ends in the thread in which it began.
    of_thread: PhantomData<*const ()>,
}

impl SpanGuard {
    #[doc(hidden)]
    pub fn none() -> SpanGuard {
        SpanGuard { span: None, of_thread: PhantomData }
    }

    #[doc(hidden)]
    #[inline]
    pub fn begin(span: Option<SpanClass>, values: &Words<'_>) -> SpanGuard {
        SpanGuard { span: span.filter(|span| span.begin(values)), of_thread: PhantomData }
    }
}

impl Drop for SpanGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(span) = &self.span {
            span.end();
        }
    }
}
