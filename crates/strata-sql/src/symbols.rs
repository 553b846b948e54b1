//! Names of functions at addresses, for queries.
//!
//! Records of the trace contain what a process had loaded. A thread reads them at the first question of a query, and
//! answers questions from then on, so that its data stay in one thread.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use strata_analyze::debug_info::Source;
use strata_ctf::read::{Message, TimeRange, Trace};
use strata_model::EnvValue;

use crate::shared_data::Shared;

/// Number of messages between two checks for a request to stop.
const LOOK_INTERVAL: u32 = 4096;

/// A question for the name at an address.
#[derive(Debug)]
struct Question {
    address: u64,
    /// Process id; `None` for the only process of the traces.
    pid: Option<i64>,
    to_answer: SyncSender<Option<String>>,
}

/// The thread that finds names. It ends with this value.
#[derive(Debug)]
pub(crate) struct SymbolThread {
    shared: Arc<Shared>,
    to_ask: Mutex<Option<Sender<Question>>>,
    /// Exists as long as this value, so that the thread notices the end.
    alive: Arc<()>,
}

impl SymbolThread {
    /// Prepares a thread for these traces, which starts at the first question.
    pub(crate) fn new(shared: &Arc<Shared>) -> SymbolThread {
        let shared = Arc::clone(shared);
        SymbolThread { shared, to_ask: Mutex::new(None), alive: Arc::new(()) }
    }

    /// Returns the name of the function at an address, or of the file that contains it. `pid` is the process; `None`
    /// stands for the only process of the traces. Returns `None` if the name is unknown, or the query was stopped.
    pub(crate) fn name(&self, address: u64, pid: Option<i64>) -> Option<String> {
        let (to_answer, answer) = sync_channel(1);
        let mut question = Question { address, pid, to_answer };
        let mut to_ask = self.to_ask.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that was stopped before it had read everything has ended: start another one.
        loop {
            let is_new = to_ask.is_none();
            if is_new {
                *to_ask = Some(self.begin()?);
            }
            match to_ask.as_ref()?.send(question) {
                Ok(()) => break,
                Err(_) if is_new => return None,
                Err(back) => {
                    question = back.0;
                    *to_ask = None;
                }
            }
        }
        drop(to_ask);
        answer.recv().ok()?
    }

    fn begin(&self) -> Option<Sender<Question>> {
        let (to_ask, asked) = channel::<Question>();
        let shared = Arc::clone(&self.shared);
        let alive = Arc::downgrade(&self.alive);
        let run = move || answer(&shared, &asked, &alive);
        thread::Builder::new().name("symbols".to_owned()).spawn(run).ok()?;
        Some(to_ask)
    }
}

/// Reads what the traces contain about processes, and answers questions.
fn answer(shared: &Shared, asked: &Receiver<Question>, alive: &Weak<()>) {
    let reader = &shared.reader;
    let mut source = Source::new(reader, &shared.names);
    let mut left = LOOK_INTERVAL;
    let end = reader.events(TimeRange::ALL).run(|message| {
        left -= 1;
        if left == 0 {
            left = LOOK_INTERVAL;
            if (shared.stop)() || alive.strong_count() == 0 {
                return ControlFlow::Break(());
            }
        }
        if let Message::Event(event) = message {
            source.learn(&event);
        }
        ControlFlow::Continue(())
    });
    if end.is_break() {
        return;
    }
    let of_process = |trace: &Arc<Trace>| match trace.schema().environment("vpid") {
        Some(&EnvValue::Integer(pid)) => Some(pid),
        _ => None,
    };
    let processes: BTreeSet<i64> = reader.traces().iter().filter_map(of_process).collect();
    let only = processes.first().copied().filter(|_| processes.len() == 1);
    for question in asked {
        let name = name(&mut source, question.address, question.pid.or(only));
        // The query that asked may have been stopped.
        let _ = question.to_answer.send(name);
    }
}

fn name(source: &mut Source, address: u64, pid: Option<i64>) -> Option<String> {
    // The upper half of all addresses belongs to the kernel.
    if address >> 63 != 0 {
        return source.kernel_name(address).map(|name| String::from_utf8_lossy(&name).into_owned());
    }
    let place = source.place_of(pid?, address)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let function = text(&place.function);
    if let Some((name, _)) = function.rsplit_once('+').filter(|(name, _)| !name.is_empty()) {
        return Some(name.to_owned());
    }
    let binary = text(&place.binary);
    let file = binary.rsplit_once(['+', '@']).map_or(&*binary, |(name, _)| name);
    match file {
        "" => None,
        file if file.starts_with('[') => Some(file.to_owned()),
        file => Some(format!("[{file}]")),
    }
}
