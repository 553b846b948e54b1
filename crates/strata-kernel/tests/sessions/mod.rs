//! Sessions of the kernel's layer, as the tests beside this folder begin them.

use strata_kernel::{Error, KernelSession, RecordingSpec, UnrecordedEvent};

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
