//! Limit on connections: a connection that has shown the token is kept, any other one makes room for new ones.
//!
//! Every user of the machine can connect to a port of 127.0.0.1. If connections waited for a free place, a user with
//! many connections could keep the page out. So a new connection is always accepted. If there are too many, the oldest
//! one that has not shown the token is ended; if all have shown it, the oldest of all.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::AbortHandle;

/// The most connections at the same time.
pub const CONNECTIONS: usize = 64;

/// True if the connection has shown the token.
#[derive(Debug, Default)]
pub struct Standing(AtomicBool);

impl Standing {
    /// Notes that a request on this connection had the token.
    pub fn has_token(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Connection {
    standing: Arc<Standing>,
    task: AbortHandle,
}

/// All connections, the oldest first.
#[derive(Debug, Default)]
pub struct Connections(Mutex<VecDeque<Connection>>);

impl Connections {
    /// Begins the task of a new connection, and ends another one if there are too many. Must be called in a runtime.
    pub fn begin<F: Future<Output = ()> + Send + 'static>(
        &self,
        serve: impl FnOnce(Arc<Standing>) -> F,
    ) {
        let standing = Arc::new(Standing::default());
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= CONNECTIONS {
            let unknown = open.iter().position(|connection| !connection.standing.is_known());
            if let Some(connection) = open.remove(unknown.unwrap_or(0)) {
                connection.task.abort();
            }
        }
        let task = tokio::spawn(serve(Arc::clone(&standing)));
        open.push_back(Connection { standing, task: task.abort_handle() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// Counts connections that have ended.
    struct Ended(Arc<AtomicUsize>);

    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn connections_without_the_token_end_first_and_those_with_it_stay() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let connections = Connections::default();
            let (known, unknown) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let begin = |has_token: bool| {
                let ended = Ended(Arc::clone(if has_token { &known } else { &unknown }));
                connections.begin(|standing| async move {
                    if has_token {
                        standing.has_token();
                    }
                    let _ended = ended;
                    std::future::pending::<()>().await;
                });
            };
            for number in 0..1000 {
                begin(number == 3 || number == 700);
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
            assert_eq!(known.load(Ordering::Relaxed), 0);
            assert_eq!(unknown.load(Ordering::Relaxed), 1000 - CONNECTIONS);
            for _ in 0..2 * CONNECTIONS {
                begin(true);
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
            assert_eq!(unknown.load(Ordering::Relaxed), 998);
            assert_eq!(known.load(Ordering::Relaxed), 2 + CONNECTIONS);
        });
    }
}
