//! Tests of sessions whose programs the kernel refuses.

use super::*;
use crate::decide::event::Probe;
use crate::discover::catalog::Catalog;
use crate::discover::tracefs::Tracefs;

#[test]
fn session_with_a_refused_program_has_the_event_of_the_generic_one() {
    let catalog = match Tracefs::find().and_then(|tracefs| Catalog::load(&tracefs)) {
        Ok(catalog) => catalog,
        Err(error) => return eprintln!("skip: {error}"),
    };
    let mut event = catalog
        .find("sched", "sched_switch")
        .and_then(|name| catalog.describe(name).ok())
        .expect("the kernel has sched_switch");
    let Probe::Hot { program, fallback: Some(generic) } = &mut event.probe else {
        return eprintln!("skip: no program of its own for sched_switch here");
    };
    *program = "refused";
    // Else both may be the same.
    generic.fields.pop();
    let fields = generic.fields.clone();
    let spec = RecordingSpec {
        loss_mode: LossMode::Discard,
        subbuf_bytes: 1 << 16,
        nr_subbufs: 4,
        events: vec![SelectedEvent::all_records(event)],
        follow: Follow::Everyone,
        contexts: Contexts::default(),
        argv_bytes: crate::ARGV_BYTES,
    };
    let session = match KernelSession::begin(spec, None, &mut |_| ControlFlow::Continue(())) {
        Ok(session) => session,
        Err(error @ Error::Rights { .. }) => return eprintln!("skip: {error}"),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(session.problems(), []);
    assert_eq!(session.attached(), 1);
    // Behind that of the refused one.
    let classes = session.classes().since(1);
    assert_eq!(classes.iter().map(|class| &class.fields).collect::<Vec<_>>(), [&fields]);
}
