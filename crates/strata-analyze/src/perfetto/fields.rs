//! Fields to debug annotations.

use std::borrow::Cow;
use std::io::Write;

use strata_ctf::read::{FieldInfo, Visit};
use strata_model::Base;

use super::proto::{AnnotationValue, DebugAnnotation};
use super::writer::Writer;

/// Annotations of one event, elements and members included. What a reader shows on a screen is far less;
/// a sequence in a file may have millions of elements.
const ANNOTATIONS_MAX: usize = 4096;
/// Bytes of one text.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Structures, arrays and variants in each other. Protobuf readers stop at 100 messages.
const DEPTH_MAX: usize = 40;

/// Makes annotations of the fields that it is told.
pub(super) struct Annotations<'w, W> {
    writer: &'w mut Writer<W>,
    done: Vec<DebugAnnotation>,
    open: Vec<DebugAnnotation>,
    /// Compounds that are not kept: too deep, or too many.
    ignored: usize,
    left: usize,
    /// Annotations that there was no room for.
    omitted: u64,
}

impl<'w, W: Write> Annotations<'w, W> {
    pub(super) fn new(writer: &'w mut Writer<W>) -> Annotations<'w, W> {
        Annotations {
            writer,
            done: Vec::new(),
            open: Vec::new(),
            ignored: 0,
            left: ANNOTATIONS_MAX,
            omitted: 0,
        }
    }

    /// A fact that is no field.
    pub(super) fn add(&mut self, name: &str, value: AnnotationValue) {
        let annotation = self.named(name, Some(value));
        self.done.push(annotation);
    }

    /// Put those so far that are wanted in one of this name.
    pub(super) fn wrap(&mut self, name: &str, wanted: impl Fn(u64) -> bool) {
        let all = std::mem::take(&mut self.done);
        let (inside, outside): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|found| found.name_iid.is_some_and(&wanted));
        self.done = outside;
        if !inside.is_empty() {
            let mut all = self.named(name, None);
            all.dict_entries = inside;
            self.done.push(all);
        }
    }

    /// All of them.
    pub(super) fn finish(mut self) -> Vec<DebugAnnotation> {
        if self.omitted > 0 {
            self.add("values not exported", AnnotationValue::Unsigned(self.omitted));
        }
        self.done
    }

    fn named(&mut self, name: &str, value: Option<AnnotationValue>) -> DebugAnnotation {
        let name_iid = Some(self.writer.annotation(name));
        DebugAnnotation { name_iid, value, ..DebugAnnotation::default() }
    }

    fn leaf(&mut self, field: &FieldInfo, value: AnnotationValue) {
        if self.left == 0 || self.ignored > 0 {
            self.omitted = self.omitted.saturating_add(1);
            return;
        }
        self.left -= 1;
        let annotation = match field.is_element() {
            true => DebugAnnotation { value: Some(value), ..DebugAnnotation::default() },
            false => self.named(field.name(), Some(value)),
        };
        self.push(annotation);
    }

    fn push(&mut self, annotation: DebugAnnotation) {
        match self.open.last_mut() {
            // What has no name is an element.
            Some(open) if annotation.name_iid.is_none() => open.array_values.push(annotation),
            Some(open) => open.dict_entries.push(annotation),
            None => self.done.push(annotation),
        }
    }

    fn begin(&mut self, field: &FieldInfo) {
        if self.ignored > 0 || self.left == 0 || self.open.len() >= DEPTH_MAX {
            self.ignored += 1;
            return;
        }
        self.left -= 1;
        let annotation = match field.is_element() {
            true => DebugAnnotation::default(),
            false => self.named(field.name(), None),
        };
        self.open.push(annotation);
    }

    fn end(&mut self) {
        if self.ignored > 0 {
            self.ignored -= 1;
        } else if let Some(done) = self.open.pop() {
            self.push(done);
        }
    }

    fn integer(&mut self, field: &FieldInfo, value: i128, plain: AnnotationValue) {
        let labels = label(field, value);
        self.leaf(field, labels.map_or(plain, AnnotationValue::Text));
    }
}

/// An enumeration's value as its label: `RUNNING (2)`. None if it has none.
fn label(field: &FieldInfo, value: i128) -> Option<String> {
    field.labels.as_ref()?;
    if let Some(mut flags) = field.flags_of(value) {
        let mut texts: Vec<String> = flags.by_ref().map(str::to_owned).collect();
        if flags.rest() != 0 {
            texts.push(format!("{:#x}", flags.rest()));
        }
        return Some(format!("{} ({value})", texts.join(" | ")));
    }
    let mut labels = field.labels_of(value);
    let first = labels.next()?;
    let mut text = first.to_owned();
    for label in labels.take(7) {
        text.push_str(" | ");
        text.push_str(label);
    }
    Some(format!("{text} ({value})"))
}

/// Text of any bytes as text.
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
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        let plain = match field.base {
            _ if field.is_bool => AnnotationValue::Bool(value != 0),
            Base::Sixteen => AnnotationValue::Pointer(value),
            _ => AnnotationValue::Unsigned(value),
        };
        self.integer(field, value.into(), plain);
    }

    fn signed(&mut self, field: &FieldInfo, value: i64) {
        let plain = match field.is_bool {
            true => AnnotationValue::Bool(value != 0),
            false => AnnotationValue::Signed(value),
        };
        self.integer(field, value.into(), plain);
    }

    fn real(&mut self, field: &FieldInfo, value: f64) {
        self.leaf(field, AnnotationValue::Real(value));
    }

    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.leaf(field, AnnotationValue::Text(text(bytes).into_owned()));
    }

    fn blob(&mut self, field: &FieldInfo, bytes: &[u8]) {
        const SHOWN: usize = 1024;
        let mut hex = String::with_capacity(2 * bytes.len().min(SHOWN));
        for byte in bytes.iter().take(SHOWN) {
            let digits = [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
            hex.extend(digits.into_iter().flatten());
        }
        if bytes.len() > SHOWN {
            hex.push_str(&format!("… ({} bytes)", bytes.len()));
        }
        self.leaf(field, AnnotationValue::Text(hex));
    }

    fn begin_structure(&mut self, field: &FieldInfo) {
        self.begin(field);
    }

    fn end_structure(&mut self, _: &FieldInfo) {
        self.end();
    }

    fn begin_array(&mut self, field: &FieldInfo, _: u64) {
        self.begin(field);
    }

    fn end_array(&mut self, _: &FieldInfo) {
        self.end();
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
    use super::*;
    use crate::perfetto::proto::CLOCK_REALTIME;
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

    /// What becomes of what the visitor is told.
    fn annotations(tell: impl FnOnce(&mut Annotations<'_, Vec<u8>>)) -> Vec<DebugAnnotation> {
        let mut writer = Writer::new(Vec::new(), CLOCK_REALTIME);
        let mut annotations = Annotations::new(&mut writer);
        tell(&mut annotations);
        annotations.finish()
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
    fn malicious_array_of_millions_is_cut_and_that_is_said() {
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
    fn annotations_that_are_shared_are_wrapped() {
        let number = field("n", FieldKind::Integer);
        let own = field("own", FieldKind::Integer);
        let all = annotations(|to| {
            to.unsigned(&number, 1);
            to.unsigned(&own, 2);
            // The first name has the number 1.
            to.wrap("end", |name| name == 1);
        });
        let [own, end] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(own.value, Some(AnnotationValue::Unsigned(2)));
        assert_eq!(end.dict_entries.len(), 1);
    }
}
