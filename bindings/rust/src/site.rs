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
    class: OnceLock<Option<(T, &'static AtomicU32)>>,
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
        self.class.get().copied().flatten().map(|(class, _)| class)
    }

    fn register(
        &self,
        names: &Names,
        fields: &[(&str, FieldType)],
        make: impl FnOnce(Provider, &Class<'_>) -> Option<(T, &'static AtomicU32)>,
    ) -> bool {
        self.registered(|| {
            let class = Class { name: names.event, level: names.level, fields, place: names.place };
            make(Provider::new(names.provider).ok()?, &class)
        })
    }

    /// Registers the site by `make`, or waits until another thread has. Returns whether somebody records it.
    fn registered(&self, make: impl FnOnce() -> Option<(T, &'static AtomicU32)>) -> bool {
        let word = self.class.get_or_init(make).map_or(&OFF, |(_, word)| word);
        // Each thread that has waited stores the same word, and need not wait once more for the one that registered.
        self.enabled.store(std::ptr::from_ref(word).cast_mut(), Ordering::Release);
        word.load(Ordering::Relaxed) != 0
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn site_that_many_threads_meet_for_the_first_time_is_on_for_all_of_them() {
        static ON: AtomicU32 = AtomicU32::new(1);
        const THREADS: usize = 4;
        for _ in 0..500 {
            let (site, barrier) = (Site::<u8>::new(), Barrier::new(THREADS));
            let meets = || {
                barrier.wait();
                let is_on = site.registered(|| {
                    thread::yield_now();
                    Some((7, &ON))
                });
                (is_on, site.is_on(), site.class())
            };
            thread::scope(|scope| {
                let all: Vec<_> = (0..THREADS).map(|_| scope.spawn(meets)).collect();
                for one in all {
                    assert_eq!(one.join().unwrap(), (true, Some(true), Some(7)));
                }
            });
        }
    }

    #[test]
    fn site_that_cannot_be_registered_stays_off() {
        let site = Site::<u8>::new();
        assert!(!site.registered(|| None));
        assert_eq!((site.is_on(), site.class()), (Some(false), None));
    }
}
