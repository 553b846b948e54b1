//! Writes fields of event records as debug annotations: what Perfetto shows as arguments of a slice.
//!
//! ```text
//! Event::visit ── Annotations: Visit ── protobuf bytes in the writer's buffer
//!                  unsigned(), signed(), text() ...   a leaf: name and value
//!                  begin(), end()                     a dictionary or array, whose length is filled in at its end
//! ```
//!
//! An [`Annotations`] lives for one event, while the writer has that event's packet open: [`Annotations::new`], the
//! visit, additions that are no fields (the functions of addresses, a note), and [`Annotations::finish`]. Nothing is
//! collected in between: each field is encoded where it will lie.
//!
//! - Names of fields are interned: an annotation has a number, which the writer explains once. Names that are not
//!   known to it are written as text.
//! - Fields of a context that have the names of payload fields are written apart, and put into one annotation around
//!   them.
//! - The addresses of a call stack become the texts of their frames, if the caller gives a function that looks them
//!   up.
//! - Limits bound the number, depth and size of what one event can have. The last annotation says how many were left
//!   out.

use std::borrow::Cow;
use std::io::Write;

use strata_ctf::read::{FieldInfo, Visit};
use strata_model::Base;

use super::encode::{self, LengthMark};
use super::frames::text_of;
use super::writer::PacketWriter;
use strata_analyze::debug_info::{NamedFunction, StackFrame, Stacks};
use strata_analyze::render::line::{Lines, TextSink};
use strata_analyze::render::number;
use strata_analyze::stack_copy;
use strata_model::schema::Schema;

/// The most annotations of one event, including elements and members. Readers show far fewer on a screen, while a
/// sequence in a file may have millions of elements.
const ANNOTATIONS_MAX: usize = 4096;
/// The most bytes of one text.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// The deepest nesting of structures, arrays and variants. Protobuf readers stop at 100 messages.
const DEPTH_MAX: usize = 40;
/// The most labels of one value that are shown, if they are not flags.
const LABELS_MAX: usize = 8;
/// The most bytes of a blob that are shown.
const BLOB_BYTES_MAX: usize = 1024;

/// The number of the field `TrackEvent.debug_annotations`.
const ANNOTATION: u32 = 4;
/// The numbers of the fields of `DebugAnnotation`.
const NAME: u32 = 1;
const BOOL: u32 = 2;
const UNSIGNED: u32 = 3;
const SIGNED: u32 = 4;
const REAL: u32 = 5;
const TEXT: u32 = 6;
const POINTER: u32 = 7;
const TEXT_NUMBER: u32 = 17;
const INLINE_NAME: u32 = 10;
const DICT_ENTRY: u32 = 11;
const ARRAY_VALUE: u32 = 12;

/// The annotation with the functions whose addresses are in fields.
pub(super) const DEBUG_INFO: &str = "debug_info";

/// The named frames of a call stack whose addresses are being visited.
struct ToldFrames {
    frames: std::vec::IntoIter<StackFrame>,
    /// The number of addresses before these frames that are not shown.
    passed_over: usize,
    /// The number of open fields around each address.
    depth: usize,
}

/// Writes the name of an annotation: by its number, or as text if it has none. No new number is assigned here, since
/// only the share that writes the block would know it.
#[inline]
fn put_name(out: &mut Lines, number: Option<u64>, name: &str) {
    match number {
        Some(number) => encode::number(out, NAME, number),
        None => encode::bytes(out, INLINE_NAME, name.as_bytes()),
    }
}

/// Writes the fields of the event that the writer has begun as annotations.
pub(super) struct Annotations<'w, W> {
    writer: &'w mut PacketWriter<W>,
    /// The numbers of the names, sorted, whose fields are written apart from the others.
    shared: &'w [u64],
    is_apart: bool,
    /// The number of open compounds that are not written, because they are nested too deep or there are too many.
    ignored: usize,
    left: usize,
    /// The number of annotations for which there was no room.
    omitted: u64,
    /// Returns the frames of the record's call stacks. It is called at most once.
    ask: Option<&'w mut dyn FnMut() -> Option<Stacks>>,
    stacks: Stacks,
    calls: Option<ToldFrames>,
    /// The description of the event's trace; `None` if that does not matter.
    trace: Option<&'w Schema>,
}

impl<'w, W: Write> Annotations<'w, W> {
    #[inline]
    pub(super) fn new(writer: &'w mut PacketWriter<W>) -> Annotations<'w, W> {
        Annotations {
            writer,
            shared: &[],
            is_apart: false,
            ignored: 0,
            left: ANNOTATIONS_MAX,
            omitted: 0,
            ask: None,
            stacks: Stacks::default(),
            calls: None,
            trace: None,
        }
    }

    /// Leaves out copies of a program's stack, if the event's trace may have them.
    #[inline]
    pub(super) fn leave_out_copies(&mut self, trace: &'w Schema) {
        self.trace = Some(trace);
    }

    /// Shows the addresses of call stacks with names, which `ask` returns.
    #[inline]
    pub(super) fn name_frames(&mut self, ask: &'w mut dyn FnMut() -> Option<Stacks>) {
        self.ask = Some(ask);
    }

    /// From now on, writes the fields with these names apart from the others. `shared` has the numbers of the names,
    /// sorted.
    #[inline]
    pub(super) fn put_apart(&mut self, shared: &'w [u64]) {
        self.shared = shared;
    }

    /// Puts the fields that were written to the separate buffer into one annotation of this name.
    #[inline]
    pub(super) fn wrap(&mut self, name: &str) {
        self.shared = &[];
        self.is_apart = false;
        if self.writer.apart.is_empty() {
            return;
        }
        let number = self.writer.known_annotation(name);
        let PacketWriter { buffer, apart, .. } = &mut *self.writer;
        let all = encode::begin(buffer, ANNOTATION);
        put_name(buffer, number, name);
        buffer.extend_from_slice(apart.as_bytes());
        encode::end(buffer, all);
        apart.clear();
    }

    /// Adds a number that is not a field to the annotations written apart.
    pub(super) fn add_apart(&mut self, name: &str, value: u64) {
        let number = self.writer.known_annotation(name);
        let out = &mut self.writer.apart;
        let mark = encode::begin(out, DICT_ENTRY);
        put_name(out, number, name);
        encode::number(out, UNSIGNED, value);
        encode::end(out, mark);
    }

    /// Adds a number that is not a field.
    #[inline]
    pub(super) fn add(&mut self, name: &str, value: u64) {
        self.fact(name, |out| encode::number(out, UNSIGNED, value));
    }

    /// Adds the names of functions whose addresses are in fields, under the fields' names.
    pub(super) fn name_functions(&mut self, functions: &[NamedFunction]) {
        for (name, function) in functions {
            let number = self.writer.known_annotation(name);
            let out = &mut self.writer.apart;
            let mark = encode::begin(out, DICT_ENTRY);
            put_name(out, number, name);
            encode::bytes(out, TEXT, text(function).as_bytes());
            encode::end(out, mark);
        }
        self.wrap(DEBUG_INFO);
    }

    /// Adds a text that is not a field.
    pub(super) fn add_text(&mut self, name: &str, text: &str) {
        self.fact(name, |out| encode::bytes(out, TEXT, text.as_bytes()));
    }

    /// Ends the fields, with a note on the number of those left out.
    #[inline]
    pub(super) fn finish(mut self) {
        if self.omitted > 0 {
            self.add("values not exported", self.omitted);
        }
    }

    #[inline]
    fn fact(&mut self, name: &str, put: impl FnOnce(&mut Lines)) {
        let number = self.writer.known_annotation(name);
        let out = &mut self.writer.buffer;
        let mark = encode::begin(out, ANNOTATION);
        put_name(out, number, name);
        put(out);
        encode::end(out, mark);
    }

    #[inline]
    fn out(&mut self) -> &mut Lines {
        match self.is_apart {
            true => &mut self.writer.apart,
            false => &mut self.writer.buffer,
        }
    }

    #[inline]
    fn begin_one(&mut self, field: &FieldInfo) -> LengthMark {
        let is_inside = !self.writer.open.is_empty();
        if field.is_element {
            let out = self.out();
            return encode::begin(out, if is_inside { ARRAY_VALUE } else { ANNOTATION });
        }
        let number = self.writer.annotation_of(&field.name);
        if !is_inside && !self.shared.is_empty() {
            self.is_apart = number.is_some_and(|number| self.shared.binary_search(&number).is_ok());
        }
        let is_entry = is_inside || self.is_apart;
        let out = self.out();
        let mark = encode::begin(out, if is_entry { DICT_ENTRY } else { ANNOTATION });
        put_name(out, number, &field.name);
        mark
    }

    #[inline]
    fn leaf(&mut self, field: &FieldInfo, put: impl FnOnce(&mut Lines)) {
        if self.left == 0 || self.ignored > 0 {
            self.omitted = self.omitted.saturating_add(1);
            return;
        }
        self.left -= 1;
        let mark = self.begin_one(field);
        let out = self.out();
        put(out);
        encode::end(out, mark);
    }

    fn begin(&mut self, field: &FieldInfo) {
        if self.ignored > 0 || self.left == 0 || self.writer.open.len() >= DEPTH_MAX {
            self.ignored += 1;
            return;
        }
        self.left -= 1;
        let mark = self.begin_one(field);
        self.writer.open.push(mark);
    }

    fn end(&mut self) {
        if self.ignored > 0 {
            self.ignored -= 1;
        } else if let Some(mark) = self.writer.open.pop() {
            encode::end(self.out(), mark);
        }
    }

    /// Begins an array, which may be a call stack.
    fn begin_calls(&mut self, field: &FieldInfo) {
        let is_kernel = match field.name() {
            "callstack_kernel" => true,
            "callstack_user" => false,
            _ => return,
        };
        if let Some(ask) = self.ask.take() {
            self.stacks = ask().unwrap_or_default();
        }
        let (stack, passed_over) = match is_kernel {
            true => (self.stacks.kernel.take(), self.stacks.of_recorder),
            false => (self.stacks.user.take(), 0),
        };
        if self.ignored == 0 {
            let depth = self.writer.open.len();
            let calls = |frames: Vec<StackFrame>| ToldFrames {
                frames: frames.into_iter(),
                passed_over,
                depth,
            };
            self.calls = stack.map(calls);
        }
    }

    /// Writes an address of a call stack as the text of its frame. Returns false if the address is not one, or there is
    /// no room.
    #[inline(never)]
    fn frame(&mut self, field: &FieldInfo, address: u64) -> bool {
        let Some(calls) = &mut self.calls else { return false };
        if self.left == 0 || self.ignored > 0 || self.writer.open.len() != calls.depth {
            return false;
        }
        if calls.passed_over > 0 {
            calls.passed_over -= 1;
            return true;
        }
        let Some(frame) = calls.frames.next().filter(|frame| frame.address == address) else {
            return false;
        };
        let text = text_of(&frame);
        match self.writer.text(&text) {
            Some(number) => self.leaf(field, |out| encode::number(out, TEXT_NUMBER, number)),
            None => self.leaf(field, |out| encode::bytes(out, TEXT, text.as_bytes())),
        }
        true
    }

    #[inline]
    fn integer(&mut self, field: &FieldInfo, value: i128, plain: impl FnOnce(&mut Lines)) {
        match field.labels {
            Some(_) if has_label(field, value) => self.leaf(field, |out| {
                let text = encode::begin(out, TEXT);
                label(out, field, value);
                encode::end(out, text);
            }),
            _ => self.leaf(field, plain),
        }
    }
}

fn has_label(field: &FieldInfo, value: i128) -> bool {
    field.flags_of(value).is_some() || field.labels_of(value).next().is_some()
}

/// Writes the value of an enumeration with its label, as `RUNNING (2)`.
fn label(out: &mut Lines, field: &FieldInfo, value: i128) {
    let mut is_first = true;
    let mut add = |out: &mut Lines, label: &str| {
        if !std::mem::replace(&mut is_first, false) {
            out.extend_from_slice(b" | ");
        }
        out.extend_from_slice(label.as_bytes());
    };
    match field.flags_of(value) {
        Some(mut flags) => {
            flags.by_ref().for_each(|label| add(out, label));
            if flags.rest() != 0 {
                add(out, &format!("{:#x}", flags.rest()));
            }
        }
        None => field.labels_of(value).take(LABELS_MAX).for_each(|label| add(out, label)),
    }
    out.extend_from_slice(b" (");
    match u64::try_from(value) {
        Ok(value) => number::unsigned(out, value),
        Err(_) => number::signed(out, i64::try_from(value).unwrap_or(i64::MIN)),
    }
    out.push(b')');
}

/// Returns bytes as text, without invalid UTF-8.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match bytes.get(..TEXT_BYTES_MAX) {
        Some(kept) if bytes.len() > TEXT_BYTES_MAX => {
            let kept = String::from_utf8_lossy(kept);
            format!("{kept}… ({} bytes)", bytes.len()).into()
        }
        _ => String::from_utf8_lossy(bytes),
    }
}

impl<W: Write> Visit for Annotations<'_, W> {
    #[inline]
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        if self.calls.is_some() && self.frame(field, value) {
            return;
        }
        let kind = match field.base {
            _ if field.is_bool => BOOL,
            Base::Sixteen => POINTER,
            _ => UNSIGNED,
        };
        let plain = if kind == BOOL { u64::from(value != 0) } else { value };
        self.integer(field, value.into(), |out| encode::number(out, kind, plain));
    }

    #[inline]
    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.integer(field, value.into(), |out| match field.is_bool {
            true => encode::number(out, BOOL, u64::from(value != 0)),
            false => encode::signed(out, SIGNED, value),
        });
    }

    fn real(&mut self, field: &FieldInfo, value: f64) {
        self.leaf(field, |out| encode::real(out, REAL, value));
    }

    #[inline]
    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.leaf(field, |out| encode::bytes(out, TEXT, text(bytes).as_bytes()));
    }

    fn blob(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.leaf(field, |out| {
            let mark = encode::begin(out, TEXT);
            for byte in bytes.iter().take(BLOB_BYTES_MAX) {
                let digits = [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
                digits.into_iter().flatten().for_each(|digit| out.push(digit as u8));
            }
            if bytes.len() > BLOB_BYTES_MAX {
                out.extend_from_slice(format!("… ({} bytes)", bytes.len()).as_bytes());
            }
            encode::end(out, mark);
        });
    }

    fn begin_structure(&mut self, field: &FieldInfo) {
        self.begin(field);
    }

    fn end_structure(&mut self, _: &FieldInfo) {
        self.end();
    }

    fn begin_array(&mut self, field: &FieldInfo, _: u64) {
        // Its numbers are in the stack that is unwound from them.
        if stack_copy::is_name(field.name()) && self.trace.is_some_and(stack_copy::may_be_in) {
            self.ignored += 1;
            return;
        }
        self.begin(field);
        if self.ask.is_some() || self.stacks != Stacks::default() {
            self.begin_calls(field);
        }
    }

    fn end_array(&mut self, _: &FieldInfo) {
        self.end();
        if self.calls.as_ref().is_some_and(|calls| calls.depth > self.writer.open.len()) {
            self.calls = None;
        }
    }

    fn begin_variant(&mut self, field: &FieldInfo, _: &str) {
        self.begin(field);
    }

    fn end_variant(&mut self, _: &FieldInfo) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::super::proto::{
        AnnotationValue, DebugAnnotation, PacketData, TracePacket, CLOCK_REALTIME,
    };
    use super::*;
    use prost::Message as _;
    use std::sync::Arc;
    use strata_ctf::read::FieldKind;
    use strata_model::schema::{Label, Range};
    use strata_model::Flags;

    fn field(name: &str, kind: FieldKind) -> FieldInfo {
        FieldInfo {
            name: name.into(),
            kind,
            is_element: name.is_empty(),
            base: Base::Ten,
            is_bool: false,
            signed: false,
            bits: 64,
            labels: None,
            flags: None,
            is_bit_map: false,
        }
    }

    /// Returns the annotations that a visitor makes.
    fn annotations(tell: impl FnOnce(&mut Annotations<'_, &mut Vec<u8>>)) -> Vec<DebugAnnotation> {
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, CLOCK_REALTIME);
        assert_eq!(writer.annotation("n"), 1);
        let begun = writer.begin_event();
        let mut annotations = Annotations::new(&mut writer);
        tell(&mut annotations);
        annotations.finish();
        writer.end_event(begun, 0).unwrap();
        writer.finish().unwrap();
        let packet = TracePacket::decode_length_delimited(&bytes[1..]).unwrap();
        let Some(PacketData::TrackEvent(event)) = packet.data else { panic!("{packet:?}") };
        event.debug_annotations
    }

    fn total(all: &[DebugAnnotation]) -> usize {
        let below = |one: &DebugAnnotation| total(&one.dict_entries) + total(&one.array_values);
        all.iter().map(|one| 1 + below(one)).sum()
    }

    #[test]
    fn annotations_of_nested_fields_are_nested() {
        let (array, structure) = (field("a", FieldKind::Array), field("", FieldKind::Structure));
        let number = field("n", FieldKind::Integer);
        let all = annotations(|to| {
            to.begin_array(&array, 2);
            for value in [1, 2] {
                to.begin_structure(&structure);
                to.unsigned(&number, value);
                to.end_structure(&structure);
            }
            to.end_array(&array);
            to.real(&field("r", FieldKind::Real), 0.5);
        });
        let [array, real] = all.as_slice() else { panic!("{all:?}") };
        let values: Vec<_> =
            array.array_values.iter().map(|one| &one.dict_entries[0].value).collect();
        assert_eq!(
            values,
            [&Some(AnnotationValue::Unsigned(1)), &Some(AnnotationValue::Unsigned(2))]
        );
        assert_eq!(real.value, Some(AnnotationValue::Real(0.5)));
    }

    #[test]
    fn annotation_of_an_enumeration_has_label_and_number() {
        let label =
            |name: &str, from, to| Label { name: name.into(), ranges: vec![Range { from, to }] };
        let labels: Arc<[Label]> = Arc::from(vec![label("LOW", 0, 5), label("FIVE", 5, 5)]);
        let level = FieldInfo { labels: Some(labels), ..field("level", FieldKind::Integer) };
        let all = annotations(|to| {
            to.unsigned(&level, 5);
            to.signed(&level, -1);
        });
        let values: Vec<_> = all.into_iter().map(|one| one.value.unwrap()).collect();
        let text = AnnotationValue::Text("LOW | FIVE (5)".into());
        assert_eq!(values, [text, AnnotationValue::Signed(-1)]);
    }

    #[test]
    fn annotation_of_flags_has_all_of_them() {
        let label =
            |name: &str, at| Label { name: name.into(), ranges: vec![Range { from: at, to: at }] };
        let labels: Arc<[Label]> = Arc::from(vec![label("A", 1), label("B", 2)]);
        let flags = Some(Flags::default());
        let field = FieldInfo { labels: Some(labels), flags, ..field("f", FieldKind::Integer) };
        let all =
            annotations(|to| [1, 3, 11].into_iter().for_each(|value| to.unsigned(&field, value)));
        let values: Vec<_> = all.into_iter().map(|one| one.value.unwrap()).collect();
        let texts = ["A (1)", "A | B (3)", "A | B | 0x8 (11)"];
        assert_eq!(values, texts.map(|text| AnnotationValue::Text(text.into())));
    }

    #[test]
    fn malicious_array_of_millions_is_cut_and_that_is_reported() {
        let (array, element) = (field("a", FieldKind::Array), field("", FieldKind::Integer));
        let all = annotations(|to| {
            to.begin_array(&array, 3_000_000);
            (0..3_000_000).for_each(|value| to.unsigned(&element, value));
            to.end_array(&array);
        });
        assert_eq!(total(&all), ANNOTATIONS_MAX + 1);
        let omitted = 3_000_001 - ANNOTATIONS_MAX as u64;
        assert_eq!(all.last().unwrap().value, Some(AnnotationValue::Unsigned(omitted)));
    }

    #[test]
    fn malicious_depth_stays_below_what_readers_take() {
        let structure = field("s", FieldKind::Structure);
        let all = annotations(|to| {
            (0..10_000).for_each(|_| to.begin_structure(&structure));
            to.unsigned(&field("n", FieldKind::Integer), 1);
            (0..10_000).for_each(|_| to.end_structure(&structure));
            to.unsigned(&field("behind", FieldKind::Integer), 2);
        });
        assert!(total(&all) <= DEPTH_MAX + 2, "{}", total(&all));
        assert!(all.iter().any(|one| one.value == Some(AnnotationValue::Unsigned(2))));
    }

    #[test]
    fn malicious_text_is_cut_and_made_text() {
        let long = text(&[b'x'; 1 << 20]).into_owned();
        assert!(
            long.len() < TEXT_BYTES_MAX + 40 && long.ends_with("… (1048576 bytes)"),
            "{}",
            long.len()
        );
        assert_eq!(text(b"a\xffb"), "a\u{fffd}b");
        let all = annotations(|to| to.blob(&field("b", FieldKind::Blob), &[0xab; 5000]));
        let Some(AnnotationValue::Text(hex)) = &all[0].value else { panic!("{all:?}") };
        assert!(hex.starts_with("abab") && hex.ends_with("… (5000 bytes)"));
    }

    #[test]
    fn addresses_of_call_stacks_are_texts_where_they_are_what_was_asked_for() {
        let frame = |address| StackFrame { address, ..StackFrame::default() };
        let (user, none) = (field("callstack_user", FieldKind::Array), field("", FieldKind::Array));
        let (kernel, other) =
            (field("callstack_kernel", FieldKind::Array), field("other", FieldKind::Array));
        let element = field("", FieldKind::Integer);
        let mut asked = 0;
        let mut ask = || {
            asked += 1;
            let user = Some(vec![frame(1), frame(2), frame(3)]);
            Some(Stacks { user, kernel: Some(vec![frame(9)]), of_recorder: 2 })
        };
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, CLOCK_REALTIME);
        let begun = writer.begin_event();
        let mut to = Annotations::new(&mut writer);
        to.name_frames(&mut ask);
        // Not what was asked for; in another array; behind the last one; behind two of the recorder; of another field.
        for (array, values) in [(&user, &[1, 7, 3, 4][..]), (&kernel, &[5, 6, 9]), (&other, &[1])] {
            to.begin_array(array, values.len() as u64);
            to.begin_array(&none, 1);
            to.unsigned(&element, 1);
            to.end_array(&none);
            values.iter().for_each(|&value| to.unsigned(&element, value));
            to.end_array(array);
        }
        to.unsigned(&element, 2);
        to.finish();
        writer.end_event(begun, 0).unwrap();
        writer.finish().unwrap();
        let packet = TracePacket::decode_length_delimited(&bytes[1..]).unwrap();
        let told = packet.interned_data.unwrap().debug_annotation_string_values;
        let told: Vec<_> = told.into_iter().map(|it| (it.iid, it.str.unwrap())).collect();
        let wanted = [(1, "0x1"), (2, "0x3"), (3, "0x9")];
        assert_eq!(told, wanted.map(|(iid, text)| (Some(iid), text.as_bytes().to_vec())));
        let Some(PacketData::TrackEvent(event)) = packet.data else { panic!("no event") };
        let values = |one: &DebugAnnotation| {
            let values = one.array_values.iter().map(|one| one.value.clone());
            values.collect::<Vec<_>>()
        };
        let all: Vec<_> = event.debug_annotations.iter().map(values).collect();
        let plain = |value| Some(AnnotationValue::Unsigned(value));
        let text = |iid| Some(AnnotationValue::Interned(iid));
        assert_eq!(all[0], [None, text(1), plain(7), text(2), plain(4)]);
        assert_eq!((&all[1], &all[2]), (&vec![None, text(3)], &vec![None, plain(1)]));
        assert_eq!(event.debug_annotations[3].value, plain(2));
        assert_eq!(asked, 1);
    }

    #[test]
    fn names_of_a_block_get_no_numbers_that_shares_of_other_blocks_do_not_give() {
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, CLOCK_REALTIME);
        let begun = writer.begin_event();
        let mut to = Annotations::new(&mut writer);
        to.add("new fact", 1);
        to.add_text("new text", "1");
        to.add_apart("new entry", 1);
        to.name_functions(&[("handler".into(), b"main".to_vec())]);
        to.finish();
        writer.end_event(begun, 0).unwrap();
        assert_eq!(writer.annotation("n"), 1, "the first number is still to be given");
    }

    #[test]
    fn annotations_that_are_shared_are_wrapped() {
        let number = field("n", FieldKind::Integer);
        let own = field("own", FieldKind::Integer);
        let all = annotations(|to| {
            to.put_apart(&[1]);
            to.unsigned(&number, 1);
            to.begin_array(&own, 1);
            to.unsigned(&number, 2);
            to.end_array(&own);
            to.unsigned(&number, 3);
            to.wrap("end");
            to.unsigned(&number, 4);
        });
        let [own, end, last] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((own.name_iid, own.name.as_deref()), (None, Some("own")), "it has no number");
        assert_eq!(own.dict_entries.len(), 1, "what is in another one stays there");
        let values: Vec<_> = end.dict_entries.iter().map(|one| one.value.clone()).collect();
        let number = |value| Some(AnnotationValue::Unsigned(value));
        assert_eq!((values, &last.value), (vec![number(1), number(3)], &number(4)));
    }
}
