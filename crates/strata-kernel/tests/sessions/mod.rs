//! Sessions of the kernel's layer, as the tests beside this folder begin them.

use strata_kernel::{
    Contexts, Error, KernelEvent, KernelSession, RecordingSpec, SelectedEvent, UnrecordedEvent,
};

/// Selects all records of an event.
pub fn selected(event: KernelEvent) -> SelectedEvent {
    SelectedEvent {
        event,
        entry: true,
        exit: true,
        filter: None,
        exit_filter: None,
        slower: 0,
        waited: false,
        contexts: Contexts::default(),
    }
}

/// Begins a session. Returns `None`, with a message, if the kernel cannot be recorded.
pub fn begin(spec: RecordingSpec) -> Option<KernelSession> {
    let what = format!("{:?}, {:?}", spec.loss_mode, spec.contexts);
    match KernelSession::begin(spec, None, &mut |_| std::ops::ControlFlow::Continue(())) {
        Ok(session) => {
            assert_eq!(session.problems(), [] as [UnrecordedEvent; 0], "{what}");
            Some(session)
        }
        Err(error @ (Error::Rights { .. } | Error::NoBtf | Error::Machine { .. })) => {
            eprintln!("skip: {error}");
            None
        }
        Err(error) => panic!("{what}: {error}"),
    }
}
