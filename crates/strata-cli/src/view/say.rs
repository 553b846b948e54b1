//! What `strata view` says on stderr, and when: not on a screen that a pager has.

use std::collections::HashSet;
use std::time::Duration;

use strata_analyze::pipeline::{PipelineSummary, Remark};
use strata_analyze::render::{time_text, ClockStyle, FieldList, Format, Options, TimeZone};
use strata_ctf::read::{DiscardedKind, NoteKey, Reader};

use crate::reading::ending;
use crate::reading::selection::SelectionFlags;
use crate::talk;
use crate::talk::messages::{Message, Weight};
use crate::talk::progress::ReadingLine;
use crate::talk::units::{clean, count, counted, time};

/// Messages of one kind that are said one by one.
const SHOWN: u64 = 20;

/// Says things when it is time.
pub struct Speaker {
    style: ClockStyle,
    zone: TimeZone,
    /// Until the pager has ended.
    kept: Option<Vec<Message>>,
    damage: u64,
    discarded: u64,
    /// Streams of which a note was said.
    noted: HashSet<NoteKey>,
    /// What was discarded is a line in the text.
    is_in_text: bool,
    line: ReadingLine,
}

impl Speaker {
    /// Times are shown as the events' are. With a pager, nothing is said before its end.
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

    /// Say it now, or when it may be said.
    pub fn say(&mut self, weight: Weight, text: String) {
        let message = Message { weight, text };
        match &mut self.kept {
            Some(kept) => kept.push(message),
            None => self.line.say(&message),
        }
    }

    /// What is known before the first event.
    pub fn opened(
        &mut self,
        reader: &Reader,
        selection: &SelectionFlags,
        fields: Option<&FieldList>,
        thread_names: bool,
    ) {
        for message in ending::messages(reader) {
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

    /// What a trace says besides its events.
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

    /// So many bytes were read.
    pub fn progress(&self, bytes: u64) {
        self.line.set(bytes);
    }

    /// Take the progress line away.
    pub fn clear(&self) {
        self.line.clear();
    }

    /// What was kept, and how much was not said.
    pub fn end(&mut self, summary: &PipelineSummary) {
        for message in self.kept.take().unwrap_or_default() {
            talk::message(&message);
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

    /// Of so many events it is not known whether they were before one of another machine.
    pub fn unsure(&mut self, events: u64, uncertainty: u64) {
        if events == 0 {
            return;
        }
        let text = format!(
            "{} marked '~' may have been before one of another machine that is in front of it: clocks of guests are \
             known to {} here",
            counted(events, "event"),
            time(Duration::from_nanos(uncertainty))
        );
        self.say(Weight::Warning, text);
    }
}
