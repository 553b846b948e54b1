//! Prints the messages of `strata view` to stderr, but not while a pager has the screen.

use std::collections::HashSet;
use std::time::Duration;

use strata_analyze::pipeline::{PipelineSummary, Remark};
use strata_analyze::render::{time_text, ClockStyle, FieldList, Format, Options, TimeZone};
use strata_ctf::read::{DiscardedKind, NoteKey, Reader};

use crate::reading::incomplete_traces;
use crate::reading::selection::SelectionFlags;
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stderr::progress::ReadingLine;
use crate::units::{clean, count, counted, time};

/// Limit on the messages of one kind that are shown one by one.
const SHOWN: u64 = 20;

/// Prints messages at once, or keeps them until a pager has ended.
pub struct Speaker {
    style: ClockStyle,
    zone: TimeZone,
    /// Messages that are kept until the pager has ended; `None` without a pager.
    kept: Option<Vec<Message>>,
    damage: u64,
    discarded: u64,
    /// Streams about which a note was printed.
    noted: HashSet<NoteKey>,
    /// True if losses are lines in the text.
    is_in_text: bool,
    line: ReadingLine,
}

impl Speaker {
    /// Makes the speaker. Times are shown as those of events. With a pager, messages are kept until its end.
    pub fn new(options: &Options, is_pager: bool, line: ReadingLine) -> Speaker {
        let style = match options.clock {
            None | Some(ClockStyle::None | ClockStyle::Cycles) => ClockStyle::Time,
            Some(style) => style,
        };
        let kept = is_pager.then(Vec::new);
        let is_in_text = options.losses && matches!(options.format, Format::Text | Format::Short);
        let zone = options.zone.clone();
        Speaker {
            style,
            zone,
            kept,
            damage: 0,
            discarded: 0,
            is_in_text,
            noted: HashSet::new(),
            line,
        }
    }

    /// Prints the message, or keeps it until the pager has ended.
    pub fn say(&mut self, weight: Weight, text: String) {
        let message = Message { weight, text };
        match &mut self.kept {
            Some(kept) => kept.push(message),
            None => self.line.say(&message),
        }
    }

    /// Reports the facts that are known before the first event.
    pub fn opened(
        &mut self,
        reader: &Reader,
        selection: &SelectionFlags,
        fields: Option<&FieldList>,
        thread_names: bool,
    ) {
        for message in incomplete_traces::messages(reader) {
            self.say(message.weight, message.text);
        }
        for damage in reader.damage() {
            self.remark(&Remark::Damage(damage.clone()));
        }
        for hint in selection.hints(reader) {
            self.say(Weight::Warning, hint);
        }
        let unknown = fields.map(|fields| fields.unknown(reader)).unwrap_or_default();
        for name in unknown.into_iter().filter(|name| !(thread_names && *name == "thread_name")) {
            let text = format!(
                "--fields: no event has a field '{}'. `strata view` without --fields shows what \
                 there is",
                clean(name)
            );
            self.say(Weight::Warning, text);
        }
    }

    /// Reports damage or a loss of the trace.
    pub fn remark(&mut self, remark: &Remark) {
        match remark {
            Remark::Damage(damage) if damage.is_note() && !self.noted.insert(damage.note_key()) => {
            }
            Remark::Damage(damage) if damage.is_remark() => {
                self.say(Weight::Warning, clean(&damage.to_string()));
            }
            Remark::Damage(damage) => {
                self.damage += 1;
                if self.damage <= SHOWN {
                    self.say(Weight::Failure, clean(&damage.to_string()));
                }
            }
            Remark::Discarded { trace, stream, count: number, kind, at_begin, between } => {
                self.discarded += 1;
                if self.is_in_text || self.discarded > SHOWN {
                    return;
                }
                let what = match kind {
                    DiscardedKind::Records => counted(*number, "event record"),
                    DiscardedKind::Packets => counted(*number, "packet"),
                };
                let text = match (at_begin, between) {
                    (true, _) => format!(
                        "{what} discarded before its first packet, or before the recording began"
                    ),
                    (false, (Some(from), Some(to))) => format!(
                        "{what} discarded between {} and {}",
                        time_text(self.style, &self.zone, *from),
                        time_text(self.style, &self.zone, *to),
                    ),
                    _ => format!("{what} discarded; when is not known"),
                };
                let text = format!("trace '{}', stream '{}': {text}", clean(trace), clean(stream));
                self.say(Weight::Warning, text);
            }
        }
    }

    /// Sets the number of bytes that were read.
    pub fn progress(&self, bytes: u64) {
        self.line.set(bytes);
    }

    /// Removes the progress line.
    pub fn clear(&self) {
        self.line.clear();
    }

    /// Prints the kept messages, and the numbers of those that were left out.
    pub fn end(&mut self, summary: &PipelineSummary) {
        for message in self.kept.take().unwrap_or_default() {
            stderr::message(&message);
        }
        let damage = (self.damage + summary.damage_untold).saturating_sub(SHOWN);
        if damage > 0 {
            let text = format!("{} more damaged places. `strata stats` has more", count(damage));
            self.say(Weight::Failure, text);
        }
        if self.discarded > SHOWN || self.is_in_text && self.discarded > 0 {
            let text = format!(
                "{} event records discarded in all. `strata stats` says when, in each stream",
                count(summary.discarded)
            );
            self.say(Weight::Warning, text);
        }
    }

    /// Reports how many events may have happened before an event of another machine that is shown before them.
    pub fn unsure(&mut self, events: u64, uncertainty: u64) {
        if events == 0 {
            return;
        }
        let text = format!(
            "{} marked '~' may have been before one of another machine that is in front of it: clocks of machines are \
             known to {} here",
            counted(events, "event"),
            time(Duration::from_nanos(uncertainty))
        );
        self.say(Weight::Warning, text);
    }
}
