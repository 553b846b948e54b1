//! The status of a session, which each request for it gets anew.

use super::event_status::event_status;
use super::made_channel::MadeChannel;
use super::Engine;
use crate::plan::{Channel, LayerOf};
use crate::report::advice::advise;
use crate::report::gaps::{losses, FoundGaps};
use crate::report::{Counts, EVERY_TRACEPOINT};
use crate::session::clock::wall_ns;
use crate::session::layer::LayerStatus;
use crate::session::state::SessionState;
use crate::session::status::{
    ChannelStatus, EventStatus, FlushStatus, Status, StatusFacts, TriggerStatus,
};

/// The most losses by CPU in the status of a running session.
const LOSSES_SHOWN: usize = 96;

impl Engine<'_> {
    /// Returns the status of the session, which runs `command`.
    pub(super) fn status(&self, command: Option<u32>) -> Status {
        let layers = self.session.statuses();
        // The whole status must fit a message.
        let most = (LOSSES_SHOWN / self.plan.channels.len().max(1)).max(1);
        let channels: Vec<ChannelStatus> = self
            .plan
            .channels
            .iter()
            .map(|channel| self.channel_status(channel, &layers, most))
            .collect();
        let on = channels.iter().filter(|one| one.enabled).flat_map(|one| &one.events);
        let events: Vec<&EventStatus> = on.filter(|event| event.enabled).collect();
        let triggers = self.trigger_statuses();
        let gaps = FoundGaps {
            rules: events
                .iter()
                .any(|event| event.matched == Some(0) && event.rule != EVERY_TRACEPOINT),
            filters: events.iter().any(|event| event.is_never),
            triggers: triggers.iter().any(|one| one.report().is_some()),
            discarded: channels.iter().any(|one| !one.discards.is_empty()),
            ..FoundGaps::default()
        };
        let facts = StatusFacts {
            state: self.state,
            age: self.since.map(|since| self.time().elapsed(since)),
            command,
            holds: self.plan.snapshot,
            settle: self.settle().map(|settle| FlushStatus {
                folder: settle.folder.to_string_lossy().into_owned(),
                size: settle.size,
                is_full: self.resources.context.shared.must_wait(),
            }),
            retention: self.resources.retention(!self.plan.snapshot_folders().is_empty()),
            channels,
            tracked: self.plan.tracked.clone(),
            triggers,
            remarks: &self.remarks,
            gaps,
        };
        facts.status(&self.resources, &layers)
    }

    fn channel_status(
        &self,
        channel: &Channel,
        layers: &[LayerStatus],
        most: usize,
    ) -> ChannelStatus {
        let is_of = |one: &MadeChannel| one.layer == channel.layer && one.channel == channel.name;
        let made = self.made.iter().find(|one| is_of(one));
        let status = made.and_then(|made| layers.get(made.index));
        let counted = status.map(|status| Counts {
            discarded: status.losses.discarded,
            demand: status.losses.demand,
            ..Counts::default()
        });
        let options = self.plan.fixed(channel);
        // A restored layer, or one whose buffers were too large for this kernel, has other sizes than planned.
        let sizes = status.map(|status| (status.buffers.subbuf_bytes, status.buffers.nr_subbufs));
        let (subbuf_size, num_subbuf) = sizes
            .filter(|(size, _)| *size > 0)
            .unwrap_or((options.subbuf_bytes, options.nr_subbufs));
        ChannelStatus {
            figures: status.map(|status| status.figures).unwrap_or_default(),
            layer: channel.layer,
            channel: channel.name.clone(),
            enabled: channel.enabled,
            is_made: made.is_some(),
            loss: match options.mode {
                strata_model::LossMode::Discard => "discard",
                strata_model::LossMode::Overwrite => "overwrite",
            },
            subbuf_size,
            num_subbuf,
            contexts: self.plan.contexts(channel),
            fill: status.map(|status| status.fill),
            history_seconds: status.and_then(|status| status.history_seconds),
            discards: status
                .zip(counted.as_ref())
                .map(|(status, counted)| losses(counted, &status.losses.streams, wall_ns(), most))
                .unwrap_or_default(),
            advice: status
                .zip(counted.as_ref())
                .and_then(|(status, counted)| advise(counted, &status.buffers)),
            events: channel.events.iter().map(|event| event_status(event, status)).collect(),
        }
    }

    /// Returns the status of each trigger.
    pub(super) fn trigger_statuses(&self) -> Vec<TriggerStatus> {
        let has_programs = self.made.iter().any(|one| one.layer == LayerOf::User);
        self.triggers.statuses(self.state != SessionState::Created && !has_programs)
    }
}
