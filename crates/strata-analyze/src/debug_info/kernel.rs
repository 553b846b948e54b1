//! What a kernel's records say about the code that processes have mapped.

use strata_ctf::read::{Event, FieldRef, Value};

use super::process_objects::ProcessObjects;
use super::stack_fields::{
    number, CodeEventFields, CodeEventKind, CodeFile, CodeFiles, MappedObject, BUILD_ID,
};

/// The most objects (programs and libraries) of a process that are kept, since traces are not trusted.
pub(super) const OBJECTS: usize = 1 << 12;

/// A change that a record reports about a process.
#[derive(Clone, Debug)]
pub(super) struct ProcessNews {
    /// The number of the process.
    pub pid: i64,
    /// The number of a thread of the process.
    pub tid: Option<i64>,
    pub what: ProcessChange,
}

#[derive(Clone, Debug)]
pub(super) enum ProcessChange {
    /// The process maps this object, or has mapped it before.
    Mapped(MappedObject),
    /// The process executes another program, and loses its objects.
    Executed,
    /// The process was forked, and has the objects of its parent.
    Forked { parent: i64 },
    /// The thread belongs to the process. The record has nothing about code.
    Thread,
}

impl ProcessNews {
    /// Returns what a record reports; `None` if the record lacks a field, or is of another kind.
    pub fn of(
        kind: CodeEventKind,
        fields: &CodeEventFields,
        event: &Event<'_>,
        files: &mut CodeFiles,
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
                mapped(fields, event, files).map_or(ProcessChange::Thread, ProcessChange::Mapped)
            }
            CodeEventKind::Thread => ProcessChange::Thread,
            _ => return None,
        };
        Some(ProcessNews { pid, tid, what })
    }
}

fn mapped(
    fields: &CodeEventFields,
    event: &Event<'_>,
    files: &mut CodeFiles,
) -> Option<MappedObject> {
    let ask = |field: &Option<FieldRef>| number(event.value(field.as_ref()?));
    let text = |field: &Option<FieldRef>| match event.value(field.as_ref()?)? {
        Value::Text(bytes) => Some(bytes),
        _ => None,
    };
    let (begin, end) = (ask(&fields.begin)?, ask(&fields.end)?);
    (end > begin).then(|| MappedObject {
        begin,
        bytes: end - begin,
        file: files.number(CodeFile {
            path: text(&fields.path).unwrap_or_default().into(),
            build_id: unhex(text(&fields.text_id).unwrap_or_default()).into(),
            ..CodeFile::default()
        }),
        is_pic: true,
        offset: ask(&fields.offset),
    })
}

/// Adds an object. Objects that overlap it are removed, also those that it covers only in part.
pub(super) fn map(process: &mut ProcessObjects, object: MappedObject) {
    let end = object.begin.saturating_add(object.bytes);
    let gone: Vec<u64> = under(process, object.begin, end).collect();
    gone.iter().for_each(|begin| process.remove(*begin));
    if process.len() < OBJECTS {
        process.insert(object);
    }
}

/// Returns the begins of those objects of a process that begin between two addresses.
pub(super) fn under(
    process: &ProcessObjects,
    begin: u64,
    end: u64,
) -> impl Iterator<Item = u64> + '_ {
    let is_under = |other: &&MappedObject| other.begin.saturating_add(other.bytes) > begin;
    let last = begin.checked_sub(1).and_then(|last| process.before(last));
    let first = last.filter(is_under).map_or(begin, |it| it.begin);
    process.from(first).map(|it| it.begin).take_while(move |begin| *begin < end)
}

fn unhex(text: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pair = |pair: &[u8]| Some((digit(pair.first()?)? << 4 | digit(pair.get(1)?)?) as u8);
    text.chunks(2).take(BUILD_ID).map_while(pair).collect()
}
