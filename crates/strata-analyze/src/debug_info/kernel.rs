//! What a record of a kernel's trace says of the code that a process has mapped.

use strata_ctf::read::{Event, FieldRef, Value};

use super::classes::{
    number, CodeEventFields, CodeEventKind, MappedObject, ProcessObjects, BUILD_ID,
};

/// Objects of a process that are remembered: a trace may say anything.
pub(super) const OBJECTS: usize = 1 << 12;

/// What a record says.
#[derive(Clone, Debug)]
pub(super) struct ProcessNews {
    /// Whose code it is.
    pub pid: i64,
    /// A thread of that.
    pub tid: Option<i64>,
    pub what: ProcessChange,
}

#[derive(Clone, Debug)]
pub(super) enum ProcessChange {
    /// It has mapped this, or has it.
    Mapped(MappedObject),
    /// What it had is gone.
    Executed,
    /// It has what this other process has.
    Forked { parent: i64 },
    /// Nothing of its code.
    Thread,
}

impl ProcessNews {
    /// `None`: the record lacks what matters, or is of another kind.
    pub fn of(
        kind: CodeEventKind,
        fields: &CodeEventFields,
        event: &Event<'_>,
    ) -> Option<ProcessNews> {
        let ask = |field: &Option<FieldRef>| number(event.value(field.as_ref()?));
        let pid = ask(&fields.ids[0])? as i64;
        let tid = ask(&fields.ids[1]).map(|tid| tid as i64);
        let what = match kind {
            CodeEventKind::Executed => ProcessChange::Executed,
            CodeEventKind::Forked => {
                // The kernel's own event has the parent's process, or only its thread.
                let parent = ask(&fields.parents[0]).or_else(|| ask(&fields.parents[1]));
                match parent.map(|parent| parent as i64) {
                    Some(parent) if parent != pid => ProcessChange::Forked { parent },
                    _ => ProcessChange::Thread,
                }
            }
            CodeEventKind::Mapped => {
                mapped(fields, event).map_or(ProcessChange::Thread, ProcessChange::Mapped)
            }
            CodeEventKind::Thread => ProcessChange::Thread,
            _ => return None,
        };
        Some(ProcessNews { pid, tid, what })
    }
}

fn mapped(fields: &CodeEventFields, event: &Event<'_>) -> Option<MappedObject> {
    let ask = |field: &Option<FieldRef>| number(event.value(field.as_ref()?));
    let text = |field: &Option<FieldRef>| match event.value(field.as_ref()?)? {
        Value::Text(bytes) => Some(bytes.to_vec()),
        _ => None,
    };
    let (begin, end) = (ask(&fields.begin)?, ask(&fields.end)?);
    (end > begin).then(|| MappedObject {
        begin,
        bytes: end - begin,
        path: text(&fields.path).unwrap_or_default(),
        is_pic: true,
        build_id: unhex(&text(&fields.text_id).unwrap_or_default()),
        offset: ask(&fields.offset),
        ..MappedObject::default()
    })
}

/// What was there at its addresses is there no more; of one that it covers in part, nothing is known any more.
pub(super) fn map(process: &mut ProcessObjects, object: MappedObject) {
    let end = object.begin.saturating_add(object.bytes);
    let gone: Vec<u64> = under(process, object.begin, end).collect();
    gone.iter().for_each(|begin| drop(process.remove(begin)));
    if process.len() < OBJECTS {
        process.insert(object.begin, object);
    }
}

/// The begins of what a process has between these addresses.
pub(super) fn under(
    process: &ProcessObjects,
    begin: u64,
    end: u64,
) -> impl Iterator<Item = u64> + '_ {
    let is_under = |other: &MappedObject| other.begin.saturating_add(other.bytes) > begin;
    let before = process.range(..begin).next_back().filter(|(_, it)| is_under(it));
    let first = before.map_or(begin, |(begin, _)| *begin);
    process.range(first..end).map(|(begin, _)| *begin)
}

fn unhex(text: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pair = |pair: &[u8]| Some((digit(pair.first()?)? << 4 | digit(pair.get(1)?)?) as u8);
    text.chunks(2).take(BUILD_ID).map_while(pair).collect()
}
