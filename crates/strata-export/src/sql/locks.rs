//! Rows for waits for locks.

use strata_timeline::{Waker, World};

use super::batch::{Batch, SqlCell};
use super::schema::InsertStatement;
use strata_analyze::reports::lock_waits::LockWait;
use strata_analyze::reports::threads::ended_by;

/// Adds a row for a wait for a lock.
pub(super) fn row(batch: &mut Batch, world: &World, wait: &LockWait) {
    let (kind, address) = wait.lock;
    let (waker, is_sure) = match wait.waker {
        Waker::Thread { thread, is_sure } => (Some(thread), Some(is_sure)),
        _ => (None, None),
    };
    let process = world.process_of(wait.thread);
    let cells = [
        SqlCell::from(wait.thread.index() as u64),
        SqlCell::from(process.index() as u64),
        kind.name().into(),
        // As a number, by which those of one lock are found; no program has addresses above 2^63.
        SqlCell::Integer(address as i64),
        wait.from.into(),
        wait.from.saturating_add_unsigned(wait.nanos).into(),
        ended_by(wait.waker).into(),
        waker.map(|waker| waker.index() as u64).into(),
        is_sure.into(),
    ];
    batch.row(InsertStatement::LockWait, &cells);
}
