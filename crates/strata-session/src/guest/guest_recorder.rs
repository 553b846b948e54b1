//! A recording in a guest that sends its traces to the host's recorder. It begins when the host's recorder connects,
//! and ends when that recorder asks for it.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use strata_collect::{Guest, Listener, Relay};
use strata_relay::{CounterPair, Place};

use crate::error::SessionError;
use crate::output::describe::{new_uuid, Machine};
use crate::report::Notice;
use crate::session::lock::lock;
use crate::session::shared_state::Shared;
use crate::session::stop::Stop;

/// Reads this CPU's counter and, at the same moment, the clock.
pub(crate) fn counter_pair() -> CounterPair {
    let (before, at_ns, behind) = strata_user::counter_pair().unwrap_or_default();
    CounterPair { before, at_ns, behind }
}

/// The connection of a guest's recorder to the host's recorder.
pub(crate) struct Relayed {
    pub(crate) output: Arc<Mutex<Relay>>,
    place: Place,
    listener: Option<Listener>,
    listening: Option<JoinHandle<io::Result<()>>>,
}

impl Relayed {
    /// Waits until the host's recorder connects, or until a stop is requested.
    ///
    /// # Errors
    /// A stop was requested, or the channel cannot be used.
    pub(crate) fn meet(
        place: &Place,
        machine: &Machine,
        stop: &Stop,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Relayed, SessionError> {
        notify(Notice::WaitingForHost { channel: place.to_string() });
        let failed = |source| SessionError::Relay { channel: place.to_string(), source };
        let guest = Guest {
            recording: new_uuid().map_err(failed)?,
            boot: machine.clock().uuid,
            hostname: machine.hostname(),
            pair: counter_pair,
        };
        let met = Relay::meet(place, &guest, &mut || stop.flow().is_break());
        let (relay, listener) = met.map_err(|error| match stop.flow().is_break() {
            true => SessionError::Stopped(stop.signal()),
            false => failed(error),
        })?;
        Ok(Relayed {
            output: Arc::new(Mutex::new(relay)),
            place: place.clone(),
            listener: Some(listener),
            listening: None,
        })
    }

    /// Begins to listen to the host's recorder, which may ask this recording to stop.
    ///
    /// # Errors
    /// A thread cannot be created.
    pub(crate) fn listen(&mut self, stop: &Stop, shared: &Arc<Shared>) -> io::Result<()> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let (stop, shared, place) = (stop.clone(), Arc::clone(shared), self.place.to_string());
        let listen = move || {
            // Listening only reads an open descriptor, which needs no rights.
            crate::session::privileges::give_up_rights();
            let ended = listener.listen(&mut || {
                // The recording ends even if a command still runs.
                stop.request(0);
                stop.request(0);
            });
            if let Err(error) = &ended {
                shared.fail(format!("the host's recorder, {place}: {error}"));
            }
            ended
        };
        let thread = std::thread::Builder::new().name("strata-relay".to_owned());
        self.listening = Some(thread.spawn(listen)?);
        Ok(())
    }

    /// Waits, after everything was written, until the host has received it or no longer answers.
    pub(crate) fn end(self, shared: &Shared) {
        let said = lock(&self.output).end();
        if let (Err(error), false) = (said, shared.has_failed()) {
            shared.fail_to_write(&error);
        }
        if let Some(listening) = self.listening {
            // The thread's result was already reported.
            let _ = listening.join();
        }
    }
}
