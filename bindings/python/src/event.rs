//! An event record, for Python.

use std::sync::Arc;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use strata_ctf::read::{Event as Record, EventClass, FieldInfo, Reader, Scope, Visit};

/// A step through the fields of a record, in the order in which a reader visits them. Texts and bytes are ranges of
/// [`EventBatch::bytes`].
#[derive(Clone, Debug)]
enum Token {
    Unsigned(Arc<str>, u64),
    Signed(Arc<str>, i64),
    Truth(Arc<str>, bool),
    Real(Arc<str>, f64),
    Text(Arc<str>, usize, usize),
    Blob(Arc<str>, usize, usize),
    Absent(Arc<str>),
    /// Begin of a structure, or of a variant, whose only member has the option's name.
    BeginStructure(Arc<str>),
    BeginArray(Arc<str>),
    End,
}

/// Part of a record that does not depend on its class.
#[derive(Clone, Debug)]
struct Head {
    time: Option<i64>,
    trace: usize,
    /// Index of the class among those of its trace.
    class: usize,
    cpu: Option<u64>,
    /// Ends of the tokens of the fields, and of those of the contexts.
    fields_end: usize,
    end: usize,
}

/// Decoded event records, independent of their reader.
#[derive(Debug, Default)]
pub(crate) struct EventBatch {
    heads: Vec<Head>,
    tokens: Vec<Token>,
    bytes: Vec<u8>,
}

impl EventBatch {
    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Size of all texts and bytes \[byte\].
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a record of the reader; `class` is the index of its class among those of its trace.
    pub(crate) fn push(&mut self, event: &Record<'_>, class: usize) {
        let mut writer = TokenWriter { batch: self };
        event.visit(Scope::Payload, &mut writer);
        let fields_end = writer.batch.tokens.len();
        for scope in [Scope::CommonContext, Scope::SpecificContext] {
            event.visit(scope, &mut writer);
        }
        let head = Head {
            time: event.time(),
            trace: event.stream().trace().index(),
            class,
            cpu: event.packet().cpu,
            fields_end,
            end: self.tokens.len(),
        };
        self.heads.push(head);
    }

    fn tokens_of(&self, index: usize, is_context: bool) -> &[Token] {
        let Some(head) = self.heads.get(index) else { return &[] };
        let before = index.checked_sub(1).and_then(|before| self.heads.get(before));
        let begin = before.map_or(0, |before| before.end);
        let range = if is_context { head.fields_end..head.end } else { begin..head.fields_end };
        self.tokens.get(range).unwrap_or_default()
    }
}

/// Converts the fields that a reader visits to tokens.
struct TokenWriter<'b> {
    batch: &'b mut EventBatch,
}

impl TokenWriter<'_> {
    fn keep(&mut self, bytes: &[u8]) -> (usize, usize) {
        let from = self.batch.bytes.len();
        self.batch.bytes.extend_from_slice(bytes);
        (from, self.batch.bytes.len())
    }

    fn add(&mut self, token: Token) {
        self.batch.tokens.push(token);
    }
}

impl Visit for TokenWriter<'_> {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        let name = Arc::clone(&field.name);
        self.add(match field.is_bool {
            true => Token::Truth(name, value != 0),
            false => Token::Unsigned(name, value),
        });
    }
    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.add(Token::Signed(Arc::clone(&field.name), value));
    }
    fn real(&mut self, field: &FieldInfo, value: f64) {
        self.add(Token::Real(Arc::clone(&field.name), value));
    }
    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        let (from, to) = self.keep(bytes);
        self.add(Token::Text(Arc::clone(&field.name), from, to));
    }
    fn blob(&mut self, field: &FieldInfo, bytes: &[u8]) {
        let (from, to) = self.keep(bytes);
        self.add(Token::Blob(Arc::clone(&field.name), from, to));
    }
    fn begin_structure(&mut self, field: &FieldInfo) {
        self.add(Token::BeginStructure(Arc::clone(&field.name)));
    }
    fn end_structure(&mut self, _field: &FieldInfo) {
        self.add(Token::End);
    }
    fn begin_array(&mut self, field: &FieldInfo, _length: u64) {
        self.add(Token::BeginArray(Arc::clone(&field.name)));
    }
    fn end_array(&mut self, _field: &FieldInfo) {
        self.add(Token::End);
    }
    fn begin_variant(&mut self, field: &FieldInfo, _option: &str) {
        self.add(Token::BeginStructure(Arc::clone(&field.name)));
    }
    fn end_variant(&mut self, _field: &FieldInfo) {
        self.add(Token::End);
    }
    fn absent(&mut self, field: &FieldInfo) {
        self.add(Token::Absent(Arc::clone(&field.name)));
    }
}

/// The Python object that receives the next value.
enum Container<'py> {
    Members(Bound<'py, PyDict>),
    Elements(Bound<'py, PyList>),
}

impl<'py> Container<'py> {
    fn put(&self, py: Python<'py>, name: &str, value: Bound<'py, PyAny>) -> PyResult<()> {
        match self {
            Container::Members(all) => all.set_item(PyString::intern(py, name), value),
            Container::Elements(all) => all.append(value),
        }
    }
}

fn dictionary<'py>(
    py: Python<'py>,
    tokens: &[Token],
    bytes: &[u8],
) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    let mut open = vec![Container::Members(all.clone())];
    let part = |from: usize, to: usize| bytes.get(from..to).unwrap_or_default();
    for token in tokens {
        let Some(into) = open.last() else { break };
        match token {
            Token::Unsigned(name, value) => {
                into.put(py, name, value.into_pyobject(py)?.into_any())?
            }
            Token::Signed(name, value) => {
                into.put(py, name, value.into_pyobject(py)?.into_any())?
            }
            Token::Truth(name, value) => {
                into.put(py, name, value.into_pyobject(py)?.to_owned().into_any())?
            }
            Token::Real(name, value) => into.put(py, name, value.into_pyobject(py)?.into_any())?,
            Token::Text(name, from, to) => {
                let text = String::from_utf8_lossy(part(*from, *to));
                into.put(py, name, PyString::new(py, &text).into_any())?;
            }
            Token::Blob(name, from, to) => {
                into.put(py, name, PyBytes::new(py, part(*from, *to)).into_any())?
            }
            Token::Absent(name) => into.put(py, name, py.None().into_bound(py))?,
            Token::BeginStructure(name) => {
                let inner = PyDict::new(py);
                into.put(py, name, inner.clone().into_any())?;
                open.push(Container::Members(inner));
            }
            Token::BeginArray(name) => {
                let inner = PyList::empty(py);
                into.put(py, name, inner.clone().into_any())?;
                open.push(Container::Elements(inner));
            }
            Token::End => drop(open.pop()),
        }
    }
    Ok(all)
}

/// An event record of a trace: its time, its name, and its fields by name.
#[pyclass(module = "strata", frozen, mapping)]
pub(crate) struct Event {
    reader: Arc<Reader>,
    batch: Arc<EventBatch>,
    index: usize,
    fields: std::sync::OnceLock<Py<PyDict>>,
}

impl Event {
    pub(crate) fn new(reader: &Arc<Reader>, batch: &Arc<EventBatch>, index: usize) -> Event {
        let (reader, batch) = (Arc::clone(reader), Arc::clone(batch));
        Event { reader, batch, index, fields: std::sync::OnceLock::new() }
    }

    fn head(&self) -> Option<&Head> {
        self.batch.heads.get(self.index)
    }

    fn class(&self) -> Option<&EventClass> {
        let head = self.head()?;
        self.reader.traces().get(head.trace)?.event_classes().nth(head.class)
    }

    fn made<'py>(&self, py: Python<'py>, is_context: bool) -> PyResult<Bound<'py, PyDict>> {
        dictionary(py, self.batch.tokens_of(self.index, is_context), &self.batch.bytes)
    }
}

#[pymethods]
impl Event {
    /// Nanoseconds since 1970; None if the record has no time.
    #[getter]
    fn time_ns(&self) -> Option<i64> {
        self.head()?.time
    }

    /// The event's name, such as 'sched_switch'.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        PyString::intern(py, self.class().map_or("", EventClass::name))
    }

    /// The number of the CPU that made the record, if the trace has it.
    #[getter]
    fn cpu(&self) -> Option<u64> {
        self.head()?.cpu
    }

    /// The number of the record's trace in `Trace.traces`.
    #[getter]
    fn trace(&self) -> usize {
        self.head().map_or(0, |head| head.trace)
    }

    /// The level, 0 (emergency) to 14 (debug), if the trace has it.
    #[getter]
    fn loglevel(&self) -> Option<i64> {
        self.class()?.loglevel()
    }

    /// The fields, by name: int, bool, float, str, bytes, list, dict, or None where an optional one is absent.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if let Some(made) = self.fields.get() {
            return Ok(made.bind(py).clone());
        }
        let made = self.made(py, false)?;
        Ok(self.fields.get_or_init(|| made.unbind()).bind(py).clone())
    }

    /// What the tracer added to the record, such as 'vtid' or 'vpid', by name.
    #[getter]
    fn context<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.made(py, true)
    }

    /// The labels that an enumeration's value has, in order.
    fn labels(&self, py: Python<'_>, field: &str) -> PyResult<Vec<String>> {
        let missing = || PyKeyError::new_err(field.to_owned());
        let class = self.class().ok_or_else(missing)?;
        let found = class.find(field).ok_or_else(missing)?;
        let value: i128 = self.__getitem__(py, field)?.extract()?;
        let info = found.info();
        Ok(match info.flags_of(value) {
            Some(flags) => flags.map(str::to_owned).collect(),
            None => info.labels_of(value).map(str::to_owned).collect(),
        })
    }

    /// A field, or a context, by its name.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        if let Some(value) = self.fields(py)?.get_item(name)? {
            return Ok(value);
        }
        let value = self.context(py)?.get_item(name)?;
        value.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        Ok(self.fields(py)?.contains(name)? || self.context(py)?.contains(name)?)
    }

    /// The same as event[name], or `default` where the event has no such field.
    #[pyo3(signature = (name, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let Some(value) = self.fields(py)?.get_item(name)? {
            return Ok(Some(value));
        }
        Ok(self.context(py)?.get_item(name)?.or(default))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let time = self.time_ns().map_or("None".to_owned(), |time| time.to_string());
        let name = self.name(py).repr()?;
        Ok(format!("<strata.Event {name} time_ns={time} fields={}>", self.fields(py)?.repr()?))
    }
}
