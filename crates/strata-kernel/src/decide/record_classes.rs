//! The event record classes of a recording. Classes may be added while it records, and never change.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strata_model::{EventClass, Field, StreamClass};

/// The event record classes of a session. A class is added before any record of it is written; clones share the list.
#[derive(Clone, Debug)]
pub struct Classes {
    stream: Arc<Mutex<StreamClass>>,
    /// The number of classes, which can be read without the lock.
    len: Arc<AtomicUsize>,
}

impl Classes {
    /// Makes the list from the classes of a stream.
    #[must_use]
    pub fn new(stream: StreamClass) -> Classes {
        let len = Arc::new(AtomicUsize::new(stream.events.len()));
        Classes { stream: Arc::new(Mutex::new(stream)), len }
    }

    fn lock(&self) -> MutexGuard<'_, StreamClass> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the stream class with all event classes added so far.
    #[must_use]
    pub fn stream_class(&self) -> StreamClass {
        self.lock().clone()
    }

    /// Returns the classes after the first `known`.
    #[must_use]
    pub fn since(&self, known: usize) -> Vec<EventClass> {
        if self.len.load(Ordering::Acquire) <= known {
            return Vec::new();
        }
        self.lock().events.get(known..).unwrap_or_default().to_vec()
    }

    /// Calls `add` to add classes, and returns its result. `add` must not change existing classes.
    pub fn add<R>(&self, add: impl FnOnce(&mut StreamClass) -> R) -> R {
        let mut stream = self.lock();
        let result = add(&mut stream);
        // Release pairs with the acquire above.
        self.len.store(stream.events.len(), Ordering::Release);
        result
    }
}

/// Returns the id of the class in `events`, which is added if it is new. Probes at several places that record the
/// same event share a class.
pub(crate) fn id_of(
    events: &mut Vec<EventClass>,
    name: &str,
    context: Vec<Field>,
    fields: Vec<Field>,
) -> u32 {
    let same = |class: &&EventClass| {
        class.name == name && class.fields == fields && class.context == context
    };
    if let Some(class) = events.iter().find(same) {
        return class.id;
    }
    let id = events.len() as u32;
    events.push(EventClass {
        id,
        provider: String::new(),
        name: name.to_owned(),
        loglevel: None,
        emf_uri: None,
        context,
        fields,
    });
    id
}
