//! A recording in a guest, whose traces go to the host's recorder: it begins when that one is there, and ends when that
//! one says so.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use strata_collect::{Guest, Listener, Relay};
use strata_relay::{CounterPair, Place};

use crate::error::SessionError;
use crate::output::describe::{new_uuid, Machine};
use crate::report::Notice;
use crate::session::lock::lock;
use crate::session::shared::Shared;
use crate::session::stop::Stop;

/// This CPU's counter and the clock.
pub(crate) fn counter_pair() -> CounterPair {
    let (before, at_ns, behind) = strata_user::counter_pair().unwrap_or_default();
    CounterPair { before, at_ns, behind }
}

/// The host's recorder, from when it is there.
pub(crate) struct Relayed {
    pub(crate) output: Arc<Mutex<Relay>>,
    place: Place,
    listener: Option<Listener>,
    listening: Option<JoinHandle<io::Result<()>>>,
}

impl Relayed {
    /// Waits for it, until somebody asks to stop.
    ///
    /// # Errors
    /// Who waits is to stop, or the channel is none.
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

    /// Hears it from now on: it may ask this recording to stop.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn listen(&mut self, stop: &Stop, shared: &Arc<Shared>) -> io::Result<()> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let (stop, shared, place) = (stop.clone(), Arc::clone(shared), self.place.to_string());
        let listen = move || {
            // It reads a descriptor that is open.
            crate::session::privileges::give_up_rights();
            let ended = listener.listen(&mut || {
                // A command that runs on is not waited for.
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

    /// All was written; until the host has it, or says nothing.
    pub(crate) fn end(self, shared: &Shared) {
        let said = lock(&self.output).end();
        if let (Err(error), false) = (said, shared.has_failed()) {
            shared.fail_to_write(&error);
        }
        if let Some(listening) = self.listening {
            // What it has to say was said.
            let _ = listening.join();
        }
    }
}
