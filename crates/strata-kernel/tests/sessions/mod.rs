//! Sessions of the kernel's layer, as the tests beside this folder begin them.

use strata_kernel::{
    Contexts, Error, KernelEvent, KernelSession, RecordingSpec, SelectedEvent, UnrecordedEvent,
};

/// All that there is of an event.
pub fn selected(event: KernelEvent) -> SelectedEvent {
    SelectedEvent {
        event,
        entry: true,
        exit: true,
        filter: None,
        exit_filter: None,
        contexts: Contexts::default(),
    }
}

/// One in which all is recorded. `None`, and says why, where the kernel cannot be recorded.
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
