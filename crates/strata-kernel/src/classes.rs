//! The event record classes of a recording: they grow while it records, and none is ever another one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strata_model::{EventClass, Field, StreamClass};

/// What the records are. A class is in it before there is a record of it; clones are the same.
#[derive(Clone, Debug)]
pub struct Classes {
    stream: Arc<Mutex<StreamClass>>,
    /// How many there are, without the lock.
    len: Arc<AtomicUsize>,
}

impl Classes {
    /// These, for now.
    #[must_use]
    pub fn new(stream: StreamClass) -> Classes {
        let len = Arc::new(AtomicUsize::new(stream.events.len()));
        Classes { stream: Arc::new(Mutex::new(stream)), len }
    }

    fn lock(&self) -> MutexGuard<'_, StreamClass> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As they are now.
    #[must_use]
    pub fn stream_class(&self) -> StreamClass {
        self.lock().clone()
    }

    /// Those behind the first `known`.
    #[must_use]
    pub fn since(&self, known: usize) -> Vec<EventClass> {
        if self.len.load(Ordering::Acquire) <= known {
            return Vec::new();
        }
        self.lock().events.get(known..).unwrap_or_default().to_vec()
    }

    /// Adds some, with what `add` returns. It must leave those as they are that are there.
    pub fn add<R>(&self, add: impl FnOnce(&mut StreamClass) -> R) -> R {
        let mut stream = self.lock();
        let result = add(&mut stream);
        // Release pairs with the acquire above.
        self.len.store(stream.events.len(), Ordering::Release);
        result
    }
}

/// The class' id in `events`; that of another place of the same event is the same.
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
