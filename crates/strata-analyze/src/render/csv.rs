//! Event records as CSV: a header, and a column for each selected field.

use strata_ctf::read::{Event, FieldInfo, FieldRef, Value, Visit as _};
use strata_model::Base;
use strata_text::json::quoted;

use super::clock::ClockStyle;
use super::escape::{csv_quote, hex};
use super::field_selection::{scope, FieldList, RecordPart, ShownPart};
use super::json::JsonFields;
use super::line_head::Head;
use super::number;
use super::part_json::part_fields;
use super::plan::LazyTable;

/// The selected columns of a CSV table, with the sources of their values.
#[derive(Debug)]
pub struct CsvColumns {
    items: Option<Vec<String>>,
    /// The columns with items of the head, such as the process.
    heads: Vec<&'static str>,
    /// The sources of each class' cells, by class and then by column.
    cells: LazyTable<Vec<CsvCell>>,
}

/// The source of a column's value in the records of a class.
#[derive(Debug)]
enum CsvCell {
    Nothing,
    /// The name of the thread.
    ThreadName,
    Field(FieldRef),
    /// A whole part of the record, such as the payload, as JSON.
    Part(RecordPart, ShownPart),
    /// A compound member of a part, as JSON.
    Member(RecordPart, ShownPart, BytesAround),
}

/// The bytes before and after a member in the JSON of its part, such as `"a":{"b":` and `}`, which are left out of the
/// column.
#[derive(Clone, Copy, Debug)]
struct BytesAround {
    before: usize,
    behind: usize,
}

impl BytesAround {
    /// Returns the bytes around the member at this path.
    fn of(path: &str) -> BytesAround {
        let mut before = Vec::new();
        let mut behind = 0;
        for (depth, name) in path.split('.').enumerate() {
            if depth > 0 {
                before.push(b'{');
                behind += 1;
            }
            quoted(&mut before, name.as_bytes());
            before.push(b':');
        }
        BytesAround { before: before.len(), behind }
    }
}

impl CsvColumns {
    pub fn new(fields: Option<&FieldList>, head: &Head) -> CsvColumns {
        let items = fields.map(|fields| fields.items().to_vec());
        CsvColumns { items, heads: head.columns().collect(), cells: LazyTable::default() }
    }

    /// Writes the first row, which has the names of columns.
    pub fn head(&self, out: &mut Vec<u8>, clock: ClockStyle) {
        if clock != ClockStyle::None {
            out.extend_from_slice(b"time,");
        }
        out.extend_from_slice(b"host,process,vpid");
        for column in &self.heads {
            out.push(b',');
            out.extend_from_slice(column.as_bytes());
        }
        out.extend_from_slice(b",cpu,name");
        match &self.items {
            None => out.extend_from_slice(b",fields"),
            Some(items) => {
                for item in items {
                    out.push(b',');
                    let begin = out.len();
                    out.extend_from_slice(item.as_bytes());
                    csv_quote(out, begin);
                }
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Writes the columns of one event record, each after a comma, and the end of the row.
    pub fn row(&mut self, event: &Event<'_>, thread_name: Option<&[u8]>, out: &mut Vec<u8>) {
        let items = self.items.as_deref().unwrap_or_default();
        let cells = self.cells.get(event.class().index(), || {
            items.iter().map(|item| CsvCell::new(event, item)).collect()
        });
        for cell in cells.iter() {
            out.push(b',');
            let begin = out.len();
            cell.write(event, thread_name, out);
            csv_quote(out, begin);
        }
        out.extend_from_slice(b"\r\n");
    }
}

impl CsvCell {
    fn new(event: &Event<'_>, item: &str) -> CsvCell {
        let trace = event.stream().trace().schema();
        let structure = |part| match part {
            RecordPart::Packet => event.stream().class().packet_context.as_ref(),
            RecordPart::Common => event.stream().class().event_common_context.as_ref(),
            RecordPart::Context => event.class().schema().specific_context.as_ref(),
            RecordPart::Payload => event.class().schema().payload.as_ref(),
        };
        if let Some(part) = RecordPart::ALL.into_iter().find(|part| part.name() == item) {
            return match ShownPart::of(structure(part), part, None, trace) {
                ShownPart::Nothing => CsvCell::Nothing,
                shown => CsvCell::Part(part, shown),
            };
        }
        // A name without a part is the payload's, before it is a context's.
        for part in RecordPart::ALL.into_iter().rev() {
            let inside = item.strip_prefix(part.name()).and_then(|rest| rest.strip_prefix('.'));
            for name in [Some(item), inside].into_iter().flatten() {
                let Some(field) = event.class().find_in(scope(part), name) else { continue };
                if event.value(&field) != Some(Value::Compound) {
                    return CsvCell::Field(field);
                }
                let list = FieldList::new(&[name]);
                return match ShownPart::of(structure(part), part, Some(&list), trace) {
                    ShownPart::Nothing => CsvCell::Nothing,
                    shown => CsvCell::Member(part, shown, BytesAround::of(name)),
                };
            }
        }
        match item {
            "thread_name" => CsvCell::ThreadName,
            _ => CsvCell::Nothing,
        }
    }

    fn write(&self, event: &Event<'_>, thread_name: Option<&[u8]>, out: &mut Vec<u8>) {
        match self {
            CsvCell::ThreadName => {
                let name = thread_name.unwrap_or_default();
                out.extend_from_slice(String::from_utf8_lossy(name).as_bytes());
            }
            CsvCell::Nothing => {}
            CsvCell::Field(field) => match event.value(field) {
                Some(Value::Unsigned(value)) => {
                    integer(out, field.info(), i128::from(value), |out| {
                        number::unsigned(out, value)
                    });
                }
                Some(Value::Signed(value)) => {
                    integer(out, field.info(), i128::from(value), |out| number::signed(out, value));
                }
                Some(Value::Real(value)) => JsonFields::new(out).real(&bare(field), value),
                Some(Value::Text(text)) => {
                    out.extend_from_slice(String::from_utf8_lossy(text).as_bytes());
                }
                Some(Value::Wide(text)) => out.extend_from_slice(text.to_text().as_bytes()),
                Some(Value::Blob(bytes)) => hex(out, bytes),
                Some(Value::Compound) | None => {}
            },
            CsvCell::Part(part, shown) => {
                out.push(b'{');
                part_fields(event, *part, shown, out);
                out.push(b'}');
            }
            CsvCell::Member(part, shown, around) => {
                let begin = out.len();
                part_fields(event, *part, shown, out);
                out.truncate(out.len().saturating_sub(around.behind).max(begin));
                out.drain(begin..(begin + around.before).min(out.len()));
            }
        }
    }
}

/// Writes an integer: its labels if the field is an enumeration that has some, otherwise the number.
fn integer(out: &mut Vec<u8>, field: &FieldInfo, value: i128, write: impl FnOnce(&mut Vec<u8>)) {
    if let Some(mut flags) = field.flags_of(value) {
        joined(out, &mut flags);
        if flags.rest() != 0 {
            out.push(b'|');
            number::in_base(out, Base::Sixteen, flags.rest(), 64, false);
        }
        return;
    }
    let mut labels = field.labels_of(value).peekable();
    if labels.peek().is_none() {
        return write(out);
    }
    joined(out, labels);
}

fn joined<'l>(out: &mut Vec<u8>, labels: impl Iterator<Item = &'l str>) {
    for (index, label) in labels.enumerate() {
        if index > 0 {
            out.push(b'|');
        }
        out.extend_from_slice(label.as_bytes());
    }
}

/// Returns a field's description without its name.
fn bare(field: &FieldRef) -> FieldInfo {
    FieldInfo { is_element: true, ..field.info().clone() }
}
