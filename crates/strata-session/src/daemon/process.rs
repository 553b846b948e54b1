//! The process of a persistent session: sets up everything that [`daemon::run`] needs from the session's files, and
//! cleans up at the end.
//!
//! ```text
//! main thread       daemon::run: layers, plan, traces
//! strata-control    the server of the control protocol, see server.rs
//! fdstore           a separate process, which holds programs' memory in case this process is killed
//! ```
//!
//! The files from which the session would be restored are removed when it ends properly. They stay if another process
//! can still take over: after a kill, or if a restored session could not begin.

use std::sync::Arc;
use std::thread;

use rustix::io::Errno;
use rustix::process::{getrlimit, Resource};
use strata_control::{Claim, FOLDERS, KERNEL, PLAN, SLOTS};

use crate::daemon::fdstore::FdStore;
use crate::daemon::fdstore_process::open_fdstore;
use crate::daemon::persistent_kernel::PersistentKernel;
use crate::daemon::restore_plan::RestorePlan;
use crate::daemon::server::{ControlServer, Warn};
use crate::daemon::slot_file::Slots;
use crate::daemon::{self, AtOnce, LeftByKilled};
use crate::error::SessionError;
use crate::output::retention::KeptFolders;
use crate::record::command::Inherited;
use crate::report::{Notice, Report};
use crate::session::control::controls;
use crate::session::privileges::give_up_rights;
use crate::session::stop::Stop;

/// Runs the session whose name is claimed, until somebody ends it. Calls `hear` from this thread, `warn` from any thread,
/// and `end` with the final report. The name is released only when `end` has returned: a client of `strata destroy` takes
/// that for the end, and then reads what `end` has printed.
///
/// # Errors
/// [`SessionError`]: the session could not be created, or, with `at_once`, not be started.
pub fn stand(
    claim: Claim,
    RestorePlan { plan, group, stop_ends, file, goes_on, before: written }: RestorePlan,
    at_once: Option<&AtOnce>,
    warn: Warn,
    hear: &mut dyn FnMut(Notice),
    end: &mut dyn FnMut(&Report),
) -> Result<Report, SessionError> {
    let system = |what| move |source| SessionError::System { what, source };
    let name = claim.name().to_owned();
    if plan.keep {
        strata_kernel::prepare_pins().map_err(|error| SessionError::Pins(Box::new(error)))?;
    }
    let is_new = claim.kept(PLAN).is_err();
    let before = claim.kept(SLOTS).unwrap_or_default();
    let of_kernel = claim.kept(KERNEL).unwrap_or_default();
    let saved_in = claim.kept(FOLDERS).unwrap_or_default();
    let stop = Stop::on_signals().map_err(system("prepare for signals"))?;
    stop.outlive_others().map_err(system("prepare for signals"))?;
    let (controls, orders) = controls();
    let group = group.as_deref();
    let server = ControlServer::open(claim, stop_ends, controls, &stop, (group, file), warn)?;
    let noting = Arc::clone(&server);
    let write = move |text: &str| noting.keep_open(SLOTS, text);
    // A session that is not restored leaves nothing for another one.
    let is_restored = plan.transient.is_none();
    let slots = is_restored.then(|| Slots::new(Box::new(write), &before).ok()).flatten();
    // Everything that the fdstore holds is open in this process too.
    let inherited = Inherited::prepare().map_err(system("prepare this program"))?;
    // This must happen while there are no other threads.
    let fdstore = match &slots {
        Some(_) => fdstore(&name, &server, warn)?,
        None => None,
    };
    let slots = match &fdstore {
        Some(fdstore) => slots.map(|slots| slots.with_fdstore(fdstore)),
        None => slots,
    };
    let keeper = Arc::clone(&server);
    let write = move |text: &str| match is_restored {
        true => keeper.keep(FOLDERS, text),
        false => Ok(()),
    };
    let folders = KeptFolders::new(&saved_in, Box::new(write));
    let keeper = Arc::clone(&server);
    let write = move |text: &str| keeper.keep(KERNEL, text);
    let kept = plan.keep.then(|| PersistentKernel::new(&name, &of_kernel, Box::new(write)));
    let result = thread::scope(|scope| {
        // However this ends: the scope waits for the thread that serves.
        let closed = Closed(&server);
        let serve = || {
            // The server only answers requests, and needs no rights.
            give_up_rights();
            server.serve();
        };
        thread::Builder::new()
            .name("strata-control".to_owned())
            .spawn_scoped(scope, serve)
            .map_err(system("make a thread"))?;
        let keep = |plan| server.keep_this(plan);
        let inherited = Some(inherited);
        let is_again = !is_new;
        let left =
            LeftByKilled { slots, kept, inherited, goes_on, is_again, before: written, folders };
        let result = daemon::run(&name, plan, left, (at_once, &keep), &stop, &orders, hear);
        // Later requests are answered that the session is over, and do not wait.
        drop(orders);
        drop(closed);
        Ok::<_, SessionError>(result)
    });
    let result = result?;
    if is_new || result.is_ok() {
        // Otherwise the session can still be restored, by a process that takes over the remains of the killed one. The
        // files are removed before the fdstore ends: if the fdstore cannot be reached, their absence shows it that
        // nobody will come.
        server.forget();
        if let Some(fdstore) = fdstore {
            fdstore.end();
        }
    }
    let report = result?.report;
    server.keep_verdict(&report);
    end(&report);
    Ok(report)
}

/// Closes the server at the end of its own life.
struct Closed<'s>(&'s ControlServer);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Starts the process that holds the memory of programs, in case the session is killed.
///
/// # Errors
/// An fdstore exists, and this process cannot open all that it holds: this session would abandon it for good.
fn fdstore(
    name: &str,
    server: &ControlServer,
    warn: Warn,
) -> Result<Option<Arc<FdStore>>, SessionError> {
    match open_fdstore(server.claim()) {
        Ok(fdstore) => Ok(Some(Arc::new(fdstore))),
        Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            Err(SessionError::FdStore { name: name.to_owned(), limit })
        }
        Err(error) => {
            warn(format!(
                "session '{name}': no process can hold programs' memory: {error}. If the session is killed, what programs \
                 that have ended had recorded, and nobody had written, is gone"
            ));
            Ok(None)
        }
    }
}
