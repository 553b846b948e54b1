//! Recording to a relay on another host. While the connection is broken, packets wait in memory, then in the buffers;
//! when these are full, records are discarded and counted.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use strata_ctf::end_mark::{Ending, Losses};
use strata_remote::{
    host_name, recording_name, Destination, FromRecorder, IsOver, Link, LinkLook, Recording,
    RemoteOutput, Target,
};

use crate::error::SessionError;
use crate::guest::guest_recorder::counter_pair;
use crate::options::Options;
use crate::output::describe::{new_uuid, Machine};
use crate::output::relay_parts::RelayParts;
use crate::report::Notice;
use crate::report::SentSoFar;
use crate::session::lock::lock;
use crate::session::privileges::give_up_rights;
use crate::session::shared_state::Shared;
use crate::session::stop::Stop;

/// The longest wait for a relay at the start of a recording that a command begins.
const CONNECT: Duration = Duration::from_secs(5);

/// Advice for the user if no relay answers, as the end of a message.
const BEGIN_RELAY: &str = ". On that host: strata relayd --listen ADDRESS --output DIR";

/// The state of the connection to a relay, in a session's status.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RemoteStatus {
    /// Address of the relay.
    pub relay: String,
    /// True if the relay is connected, or nothing is to be sent to it now; `None` if only snapshots are sent, each over a connection of its own.
    pub is_connected: Option<bool>,
    /// Why the relay is not connected.
    pub problem: Option<String>,
    /// Number of times that the connection broke.
    pub breaks: u64,
    /// Time without a connection \[s\].
    pub away_seconds: f64,
    /// Number of messages that the relay has not acknowledged.
    pub waiting_messages: u64,
    /// Size of these messages \[byte\].
    pub waiting_bytes: u64,
    /// The part of `waiting_bytes` that is in the spool on the disk \[byte\].
    pub spooled_bytes: u64,
    /// Number of event records that the relay has discarded because this host's share of its space is used up.
    pub quota_discarded: u64,
    /// True if the relay discards what is sent now, because this host's share of its space is used up.
    pub is_over_quota: bool,
}

impl RemoteStatus {
    /// Returns the state of a relay that only receives snapshots.
    pub(crate) fn of_snapshots(to: &Destination) -> RemoteStatus {
        RemoteStatus {
            relay: to.address.to_string(),
            is_connected: None,
            problem: None,
            breaks: 0,
            away_seconds: 0.0,
            waiting_messages: 0,
            waiting_bytes: 0,
            spooled_bytes: 0,
            quota_discarded: 0,
            is_over_quota: false,
        }
    }
}

/// Describes a recording of this machine, for a relay. `host`: the name that this machine has at the relay; `None`
/// for its hostname.
///
/// # Errors
/// The error of the system.
pub(crate) fn recording(
    machine: &Machine,
    host: Option<String>,
    name: String,
) -> io::Result<Recording> {
    Ok(Recording {
        uuid: new_uuid()?,
        boot: machine.clock().uuid,
        host: host.unwrap_or_else(|| host_name(&machine.hostname())),
        session: recording_name(&name),
        pair: counter_pair,
        begin: give_up_rights,
        is_later_part: false,
    })
}

fn spool_problem(why: Option<String>) -> Option<String> {
    why.map(|why| format!("the spool cannot be written: {why}"))
}

/// Returns a function that returns whether the user has requested another stop since this call.
pub(crate) fn next_request(stop: &Stop) -> IsOver {
    let (stop, asked) = (stop.clone(), stop.requests());
    Box::new(move || stop.requests() > asked)
}

/// The relay to which a session's trace is sent.
pub(crate) struct RemoteTrace {
    parts: Arc<Mutex<RelayParts>>,
    name: String,
    /// The connection's state that was reported last: whether the relay was connected, and the number of breaks.
    told: RefCell<(bool, u64)>,
    /// True once the user was told that the relay discards what is sent.
    told_full: Cell<bool>,
    has_spool: bool,
}

impl RemoteTrace {
    /// Begins to connect to the relay that the options name, if any. `stamp`: the time, as it appears in names of
    /// folders.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn begin(
        options: &Options,
        machine: &Machine,
        stamp: &str,
    ) -> Result<Option<RemoteTrace>, SessionError> {
        let Some(target) = &options.remote else { return Ok(None) };
        let begun = Self::connect(target, options, machine, stamp);
        let begun =
            begun.map_err(|source| SessionError::System { what: "begin to send", source })?;
        if options.session.is_none() {
            // A user who types a command gets the error at once. A persistent session goes on trying to connect.
            for link in begun.links() {
                let connected = link.wait_connected(CONNECT);
                connected.map_err(|why| {
                    // Who refuses is there.
                    let is_there = link.failure().is_some();
                    let advice = if is_there { "" } else { BEGIN_RELAY };
                    SessionError::Remote { relay: begun.name.clone(), why, advice }
                })?;
            }
        }
        Ok(Some(begun))
    }

    fn connect(
        target: &Target,
        options: &Options,
        machine: &Machine,
        stamp: &str,
    ) -> io::Result<RemoteTrace> {
        let (name, has_spool) = (target.address.to_string(), target.spool.is_some());
        let (to, machine) = (target.clone(), machine.clone());
        let begin = move |name: &str, is_later_part| {
            let recording = recording(&machine, to.host.clone(), name.to_owned())?;
            let recording = Recording { is_later_part, ..recording };
            match is_later_part {
                false => RemoteOutput::begin(to.clone(), recording),
                // Nobody wants a part in which nothing was recorded.
                true => RemoteOutput::begin_with_first_trace(to.clone(), recording),
            }
        };
        let of = options.session.as_deref().unwrap_or("strata-trace");
        let parts = RelayParts::new(Box::new(begin), of, stamp)?;
        let parts = Arc::new(Mutex::new(parts));
        Ok(RemoteTrace {
            parts,
            name,
            told: RefCell::new((true, 0)),
            told_full: Cell::new(false),
            has_spool,
        })
    }

    /// Returns the recordings at the relay into which the trace is split.
    pub(crate) fn parts(&self) -> Arc<Mutex<RelayParts>> {
        Arc::clone(&self.parts)
    }

    /// Returns the links of the recordings that the relay does not have completely.
    fn links(&self) -> Vec<Arc<Link>> {
        lock(&self.parts).links()
    }

    /// Returns the links of the recordings that were begun at the relay, or wait for their turn there.
    fn started_links(&self) -> Vec<Arc<Link>> {
        lock(&self.parts).started_links()
    }

    /// Returns the state of each link. Also returns the number of broken connections, and the time without a
    /// connection, of recordings that the relay has completely.
    fn looks(&self) -> (Vec<LinkLook>, (u64, Duration)) {
        let parts = lock(&self.parts);
        (parts.started_links().iter().map(|link| link.look()).collect(), parts.broken())
    }

    /// Returns the number of event records that the relay has discarded because this host's share of its space was
    /// used up, and whether it discards records now.
    pub(crate) fn quota(&self) -> (u64, bool) {
        let parts = lock(&self.parts);
        let looks: Vec<_> = parts.started_links().iter().map(|link| link.look().quota).collect();
        let records = looks.iter().fold(parts.quota(), |sum, one| sum.saturating_add(one.records));
        (records, looks.iter().any(|one| one.is_full))
    }

    /// Returns why the relay gets nothing more; `None` if it does.
    fn failure(&self) -> Option<String> {
        self.links().iter().find_map(|link| link.failure())
    }

    /// Returns the state of the connection.
    pub(crate) fn status(&self) -> RemoteStatus {
        let (looks, (breaks, away)) = self.looks();
        let sum = |of: fn(&LinkLook) -> u64| looks.iter().map(of).fold(0, u64::saturating_add);
        let away = looks.iter().fold(away, |away, look| away.saturating_add(look.away));
        let problem = || looks.iter().find_map(|look| look.problem.clone());
        let of_spool = || looks.iter().find_map(|look| spool_problem(look.spool_problem.clone()));
        RemoteStatus {
            relay: self.name.clone(),
            is_connected: Some(looks.iter().all(|look| look.is_connected)),
            problem: self.failure().or_else(problem).or_else(of_spool),
            breaks: sum(|look| look.breaks).saturating_add(breaks),
            away_seconds: away.as_secs_f64(),
            waiting_messages: sum(|look| look.messages),
            waiting_bytes: sum(|look| (look.bytes as u64).saturating_add(look.spooled)),
            spooled_bytes: sum(|look| look.spooled),
            quota_discarded: self.quota().0,
            is_over_quota: self.quota().1,
        }
    }

    /// Returns the free space in the queue of messages to the relay, and the size of that queue \[byte\].
    pub(crate) fn room(&self) -> Option<(u64, u64)> {
        self.links().iter().map(|link| link.room()).min()
    }

    /// Returns the relay's address.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Notifies the user about changes of the connection. If the relay refuses the recording, the session fails.
    pub(crate) fn look(&self, shared: &Shared, notify: &mut dyn FnMut(Notice)) {
        if let Some(why) = self.failure() {
            return shared.fail(format!("the relay {}: {why}", self.name));
        }
        let (_, is_full) = self.quota();
        if self.told_full.replace(is_full) != is_full {
            notify(Notice::Remote(match is_full {
                true => format!(
                    "the relay {} discards what is recorded from now on, and counts it: the recordings of this host there \
                     have as many bytes as they may have. Remove some there",
                    self.name
                ),
                false => format!("the relay {} has room again for what is recorded", self.name),
            }));
        }
        let (looks, _) = self.looks();
        let mut told = self.told.borrow_mut();
        let away = looks.iter().filter(|look| !look.is_connected);
        let Some(why) = away.filter_map(|look| look.problem.clone()).next() else {
            let is_connected = looks.iter().all(|look| look.is_connected);
            if is_connected && !std::mem::replace(&mut told.0, true) {
                notify(Notice::Remote(format!("the relay {} is there again", self.name)));
            }
            return;
        };
        if std::mem::replace(&mut told.0, false) {
            notify(Notice::Remote(format!(
                "the relay {} is not there: {why}. It is tried again; what is recorded stays in {} meanwhile",
                self.name,
                self.places()
            )));
        }
        told.1 = looks.iter().map(|look| look.breaks).fold(0, u64::saturating_add);
    }

    /// Returns a text for the user that says where messages wait for the relay.
    fn places(&self) -> &'static str {
        if self.has_spool {
            "memory, in the spool"
        } else {
            "memory"
        }
    }

    /// Sends the end of the recording. Waits until the relay has everything or accepts nothing more, or until
    /// the user requests a stop once more.
    pub(crate) fn end(&self, ending: Ending, losses: Losses, shared: &Shared, stop: &Stop) {
        let last = FromRecorder::Close { ending, losses };
        // A previous part comes first: its traces are complete by now.
        for link in self.started_links() {
            if let Err(why) = link.end(&last, next_request(stop)) {
                shared.fail(format!("the relay {}: {why}", self.name));
            }
        }
    }

    /// Returns a handle to the number of messages that the relay has acknowledged.
    pub(crate) fn sent(&self) -> SentSoFar {
        SentSoFar(self.links())
    }

    /// Prepares the end of the recording. From now on a write waits until the relay takes the data, instead of
    /// discarding them. Another request to stop ends the waiting.
    pub(crate) fn begin_end(&self, stop: &Stop) {
        self.links().iter().for_each(|link| link.begin_end(next_request(stop)));
    }

    /// Returns the remark for the final report about interruptions of the connection; `None` if there were none.
    pub(crate) fn remark(&self) -> Option<String> {
        let (looks, (breaks, away)) = self.looks();
        let breaks = looks.iter().fold(breaks, |sum, look| sum.saturating_add(look.breaks));
        let away = looks.iter().fold(away, |away, look| away.saturating_add(look.away));
        (breaks > 0 || away > Duration::from_secs(1)).then(|| {
            let times = match breaks {
                1 => "once".to_owned(),
                breaks => format!("{breaks} times"),
            };
            format!(
                "The connection to the relay broke {times}; there was none for {:.1} s in all. What came meanwhile stayed \
                 in {} and in the buffers; what these did not take is counted as discarded.",
                away.as_secs_f64(),
                self.places()
            )
        })
    }
}
