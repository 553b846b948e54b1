//! The head of a record's line: the recorder, such as the process, and the severity.

use strata_ctf::read::Event;
use strata_model::EnvValue;
use strata_text::json::quoted;

use super::escape::{csv_quote, tame};
use super::number;

/// An item that can be shown before an event's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadItem {
    /// The name of the trace.
    Trace,
    /// The name of the machine.
    Host,
    /// The domain: kernel or applications.
    Domain,
    /// The name of the process.
    Process,
    /// The number of the process.
    Vpid,
    /// The event's log level.
    LogLevel,
    /// The URI of the event's model.
    Emf,
    /// The place in the source code. No CTF trace has it so far.
    Callsite,
}

/// The names of the items in babeltrace2, in the order in which they are shown.
const NAMES: [(&str, HeadItem); 8] = [
    ("trace", HeadItem::Trace),
    ("trace:hostname", HeadItem::Host),
    ("trace:domain", HeadItem::Domain),
    ("trace:procname", HeadItem::Process),
    ("trace:vpid", HeadItem::Vpid),
    ("loglevel", HeadItem::LogLevel),
    ("emf", HeadItem::Emf),
    ("callsite", HeadItem::Callsite),
];

/// The columns that a table has only on request.
const COLUMNS: [(&str, HeadItem); 4] = [
    ("trace", HeadItem::Trace),
    ("domain", HeadItem::Domain),
    ("loglevel", HeadItem::LogLevel),
    ("emf", HeadItem::Emf),
];

/// LTTng's names of log levels, by their numbers from 0 on.
const LEVELS: [&str; 15] = [
    "TRACE_EMERG",
    "TRACE_ALERT",
    "TRACE_CRIT",
    "TRACE_ERR",
    "TRACE_WARNING",
    "TRACE_NOTICE",
    "TRACE_INFO",
    "TRACE_DEBUG_SYSTEM",
    "TRACE_DEBUG_PROGRAM",
    "TRACE_DEBUG_PROCESS",
    "TRACE_DEBUG_MODULE",
    "TRACE_DEBUG_UNIT",
    "TRACE_DEBUG_FUNCTION",
    "TRACE_DEBUG_LINE",
    "TRACE_DEBUG",
];

/// The items that are shown before an event's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    items: Vec<HeadItem>,
}

impl Default for Head {
    /// Returns the default head, which is that of babeltrace2: host, process and process number.
    fn default() -> Head {
        Head { items: vec![HeadItem::Host, HeadItem::Process, HeadItem::Vpid] }
    }
}

impl Head {
    /// Splits a list of names into items of the head and names of fields. Without items, the head is the default one.
    /// `all` stands for all items.
    pub fn split<S: AsRef<str>>(names: &[S]) -> (Head, Vec<String>) {
        let mut items = Vec::new();
        let mut fields = Vec::new();
        for name in names.iter().map(|name| name.as_ref().trim()).filter(|name| !name.is_empty()) {
            match NAMES.iter().find(|(known, _)| *known == name) {
                Some((_, item)) => items.push(*item),
                None if name == "all" => items.extend(NAMES.iter().map(|(_, item)| *item)),
                None => fields.push(name.to_owned()),
            }
        }
        let head = if items.is_empty() { Head::default() } else { Head { items } };
        (head, fields)
    }

    /// Returns true if the item is shown.
    pub fn has(&self, item: HeadItem) -> bool {
        self.items.contains(&item)
    }

    /// Returns the names of the columns that a table has in addition to its usual ones.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> + '_ {
        COLUMNS.iter().filter(|(_, item)| self.has(*item)).map(|(name, _)| *name)
    }
}

/// The recorder of a record, with facts that are the same for all records of its class.
pub struct RecordedBy<'a> {
    head: &'a Head,
    trace: &'a str,
    host: Option<&'a str>,
    domain: Option<&'a str>,
    process: Option<&'a str>,
    vpid: Option<i64>,
    loglevel: Option<i64>,
    emf: Option<&'a str>,
    event: &'a str,
}

impl<'a> RecordedBy<'a> {
    /// Reads the recorder from the record's class.
    pub fn new(event: &Event<'a>, head: &'a Head) -> RecordedBy<'a> {
        let trace = event.stream().trace();
        let text = |name| match trace.schema().environment(name) {
            Some(EnvValue::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let vpid = match trace.schema().environment("vpid") {
            Some(EnvValue::Integer(vpid)) => Some(*vpid),
            _ => None,
        };
        let shown = |item, value| if head.has(item) { value } else { None };
        let schema = event.class().schema();
        RecordedBy {
            head,
            trace: if head.has(HeadItem::Trace) { trace.name() } else { "" },
            host: shown(HeadItem::Host, text("hostname")),
            domain: shown(HeadItem::Domain, text("domain")),
            process: shown(HeadItem::Process, text("procname")),
            vpid: vpid.filter(|_| head.has(HeadItem::Vpid)),
            loglevel: schema.loglevel.filter(|_| head.has(HeadItem::LogLevel)),
            emf: shown(HeadItem::Emf, schema.emf_uri.as_deref()),
            event: match event.class().name() {
                "" => "<unknown>",
                name => name,
            },
        }
    }

    /// Returns the head as text, `host:process:(vpid) name: `.
    pub fn text(&self, is_tame: bool, colour: (&str, &str)) -> Vec<u8> {
        let mut out = Vec::new();
        let add = |out: &mut Vec<u8>, text: &str| match is_tame {
            true => tame(out, text.as_bytes()),
            false => out.extend_from_slice(text.as_bytes()),
        };
        // babeltrace2 has nothing behind it.
        add(&mut out, self.trace);
        let level = self.loglevel.and_then(|level| {
            let name = LEVELS.get(usize::try_from(level).ok()?)?;
            Some(format!("{name} ({level})"))
        });
        let vpid = self.vpid.map(|vpid| format!("({vpid})"));
        let texts =
            [self.host, self.domain, self.process, vpid.as_deref(), level.as_deref(), self.emf];
        let mut any = false;
        for text in texts.into_iter().flatten() {
            if std::mem::replace(&mut any, true) {
                out.push(b':');
            }
            add(&mut out, text);
        }
        if any {
            out.push(b' ');
        }
        out.extend_from_slice(colour.0.as_bytes());
        add(&mut out, self.event);
        out.extend_from_slice(colour.1.as_bytes());
        out.extend_from_slice(b": ");
        out
    }

    /// Returns the head as members of a JSON object, and the event's name.
    pub fn json(&self) -> (Vec<u8>, Vec<u8>) {
        let mut head = Vec::new();
        let trace = Some(self.trace).filter(|_| self.head.has(HeadItem::Trace));
        let texts = [
            ("trace", trace),
            ("host", self.host),
            ("domain", self.domain),
            ("process", self.process),
            ("emf", self.emf),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                head.extend_from_slice(format!("\"{name}\":").as_bytes());
                quoted(&mut head, text.as_bytes());
                head.push(b',');
            }
        }
        for (name, number) in [("vpid", self.vpid), ("loglevel", self.loglevel)] {
            if let Some(value) = number {
                head.extend_from_slice(format!("\"{name}\":").as_bytes());
                number::signed(&mut head, value);
                head.push(b',');
            }
        }
        let mut name = b"\"name\":".to_vec();
        quoted(&mut name, self.event.as_bytes());
        (head, name)
    }

    /// Returns the columns before the event's name, each followed by a comma, and the name after a comma.
    pub fn csv(&self) -> (Vec<u8>, Vec<u8>) {
        let mut head = Vec::new();
        let number = |number: Option<i64>| number.map(|number| number.to_string());
        let (vpid, level) = (number(self.vpid), number(self.loglevel));
        let mut columns = vec![self.host, self.process, vpid.as_deref()];
        let more = [Some(self.trace), self.domain, level.as_deref(), self.emf];
        let asked = COLUMNS.iter().zip(more).filter(|((_, item), _)| self.head.has(*item));
        columns.extend(asked.map(|(_, text)| text));
        for text in columns {
            let begin = head.len();
            head.extend_from_slice(text.unwrap_or_default().as_bytes());
            csv_quote(&mut head, begin);
            head.push(b',');
        }
        let mut name = b",".to_vec();
        name.extend_from_slice(self.event.as_bytes());
        csv_quote(&mut name, 1);
        (head, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_of_a_list_has_what_is_no_field() {
        let (head, fields) = Head::split(&["len", "loglevel", " trace:vpid ", ""]);
        assert_eq!(fields, ["len"]);
        assert_eq!(head.items, [HeadItem::LogLevel, HeadItem::Vpid]);
        let (head, fields) = Head::split(&["len", "payload.loglevel"]);
        assert_eq!((head, fields.len()), (Head::default(), 2));
        let (head, fields) = Head::split(&["all"]);
        assert!(fields.is_empty() && NAMES.iter().all(|(_, item)| head.has(*item)));
        assert_eq!(head.columns().collect::<Vec<_>>(), ["trace", "domain", "loglevel", "emf"]);
    }
}
