//! The tables of event records, and their columns.

use std::collections::{HashMap, HashSet};

use strata_analyze::debug_info::{function_field, kernel_classes};
use strata_ctf::read::{EventClass, FieldInfo, FieldKind, FieldRef, Reader, Scope};

/// The most tables of event classes; records of further names are only in `events`.
const TABLES_MAX: usize = 10_000;
/// Names in addition to those of a timeline and of event classes: tables of this crate, and functions of this crate and of
/// SQLite that return rows, which an event of the same name would replace.
pub(crate) const OWN_NAMES: [&str; 14] = [
    "events",
    "event_counts",
    "events_by_name",
    "schema_version",
    "span_join",
    "json_each",
    "json_tree",
    "jsonb_each",
    "jsonb_tree",
    "pragma_table_info",
    "pragma_table_xinfo",
    "pragma_table_list",
    "pragma_function_list",
    "pragma_user_version",
];
/// The most columns of a table, of the 2,000 that SQLite allows; further fields are only in `fields`.
const COLUMNS_MAX: usize = 1_000;

/// The part of a record that a column shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Time,
    Trace,
    Cpu,
    Pid,
    Process,
    Tid,
    Thread,
    Name,
    Fields,
    Context,
    /// Functions of the kernel at the addresses in the record's fields.
    Functions,
    /// The function at the address in the field with this number.
    FunctionAt(usize),
    /// Field with this number among those for which the table has columns.
    Field(usize),
}

impl Source {
    /// Returns true if the value needs facts that another pass over the traces collects.
    pub(crate) fn is_of_facts(self) -> bool {
        matches!(self, Source::Pid | Source::Process | Source::Tid | Source::Thread)
    }

    /// Returns true if the value is the name of a function of the kernel.
    pub(crate) fn is_of_functions(self) -> bool {
        matches!(self, Source::Functions | Source::FunctionAt(_))
    }
}

/// A column of a table of event records.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: String,
    pub source: Source,
    /// Type that SQLite uses for comparisons.
    pub affinity: &'static str,
}

/// Columns that all tables of event records have.
const FIXED: [(&str, Source, &str); 11] = [
    ("time_ns", Source::Time, "INTEGER"),
    ("trace", Source::Trace, "INTEGER"),
    ("cpu", Source::Cpu, "INTEGER"),
    ("pid", Source::Pid, "INTEGER"),
    ("process", Source::Process, "TEXT"),
    ("tid", Source::Tid, "INTEGER"),
    ("thread", Source::Thread, "TEXT"),
    ("name", Source::Name, "TEXT"),
    ("fields", Source::Fields, "TEXT"),
    ("context", Source::Context, "TEXT"),
    ("functions", Source::Functions, "TEXT"),
];

/// The field of one event class whose values a column shows.
#[derive(Clone, Debug)]
pub(crate) struct ColumnField {
    pub scope: Scope,
    pub name: String,
    pub field: FieldRef,
}

/// A table of event records: all records, or those of one name.
#[derive(Debug)]
pub(crate) struct EventTable {
    pub name: String,
    pub columns: Vec<Column>,
    /// Name of the event whose records the table has; `None` for all events.
    pub event: Option<String>,
    /// Fields for [`Source::Field`], by index of the event class.
    fields: HashMap<usize, Vec<Option<ColumnField>>>,
}

impl EventTable {
    /// Returns the fields of an event class, by number of [`Source::Field`].
    #[inline]
    pub(crate) fn fields_of(&self, class: usize) -> &[Option<ColumnField>] {
        self.fields.get(&class).map_or(&[], Vec::as_slice)
    }

    /// Returns the statement that declares the columns to SQLite.
    pub(crate) fn declaration(&self) -> String {
        let columns = self.columns.iter();
        let columns = columns.map(|column| format!("{} {}", quoted(&column.name), column.affinity));
        format!("CREATE TABLE x({})", columns.collect::<Vec<_>>().join(", "))
    }
}

/// Returns a name of the trace as a text of a row, which has no NUL.
pub(crate) fn text(name: &str) -> String {
    name.replace('\0', "\u{fffd}")
}

/// Quotes a name as an identifier in a statement.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// All tables of event records.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// Tables; the first has all records.
    pub tables: Vec<EventTable>,
    /// Names of events, by index of the event class.
    pub names: Vec<String>,
    /// Number of event names without a table of their own, since there are too many.
    pub left_out: usize,
}

/// Names that are in use, regardless of case, and the last number that was tried for each.
struct Names(HashSet<String>, HashMap<String, u32>);

impl Names {
    /// Returns the name, or if it is in use, a free name with `prefix` and perhaps a number. The name is then in use.
    fn take(&mut self, name: &str, prefix: &str) -> String {
        let name = text(name);
        let is_free = |names: &Names, name: &str| {
            !name.is_empty()
                && !name.to_ascii_lowercase().starts_with("sqlite_")
                && !names.0.contains(&name.to_ascii_lowercase())
        };
        let mut found = name.clone();
        // Very many events may have names that differ only in case: each search continues where the last one ended.
        let key = name.to_ascii_lowercase();
        let mut number = self.1.get(&key).copied().unwrap_or(1);
        while !is_free(self, &found) {
            found = match number {
                1 => format!("{prefix}{name}"),
                _ => format!("{prefix}{name}_{number}"),
            };
            number += 1;
        }
        self.0.insert(found.to_ascii_lowercase());
        if number > 1 {
            self.1.insert(key, number);
        }
        found
    }
}

fn fixed_columns() -> Vec<Column> {
    let fixed = FIXED.iter();
    fixed
        .map(|&(name, source, affinity)| Column { name: name.to_owned(), source, affinity })
        .collect()
}

/// Parts of a record whose fields have columns, each with the prefix for names that are in use.
const PARTS: [(Scope, &str); 3] = [
    (Scope::Payload, "field_"),
    (Scope::SpecificContext, "context_"),
    (Scope::CommonContext, "context_"),
];

impl Catalog {
    /// Makes the tables for the traces. `taken` are the names of other tables.
    pub(crate) fn new(reader: &Reader, taken: impl Iterator<Item = &'static str>) -> Catalog {
        let classes = || reader.traces().iter().flat_map(|trace| trace.event_classes());
        let mut names = vec![String::new(); reader.event_classes()];
        for class in classes() {
            if let Some(name) = names.get_mut(class.index()) {
                *name = text(class.name());
            }
        }
        let mut order: Vec<&str> = Vec::new();
        let mut by_name: HashMap<&str, Vec<&EventClass>> = HashMap::new();
        for class in classes() {
            let Some(name) = names.get(class.index()) else { continue };
            let of_name = by_name.entry(name).or_default();
            if of_name.is_empty() {
                order.push(name);
            }
            of_name.push(class);
        }
        let kernels: HashSet<usize> = kernel_classes(reader).map(EventClass::index).collect();
        let all = EventTable {
            name: "events".to_owned(),
            columns: fixed_columns(),
            event: None,
            fields: HashMap::new(),
        };
        let mut tables = vec![all];
        let mut taken = Names(taken.map(str::to_ascii_lowercase).collect(), HashMap::new());
        taken.0.insert("events".to_owned());
        for event in order.iter().take(TABLES_MAX) {
            let name = taken.take(event, "event_");
            let classes = by_name.get(event).map_or(&[][..], Vec::as_slice);
            tables.push(table(name, event, classes, &kernels));
        }
        let left_out = order.len().saturating_sub(TABLES_MAX);
        Catalog { tables, names, left_out }
    }

    /// Returns which event classes belong to a table and have one of the names; `None` for all.
    pub(crate) fn classes_of(&self, table: usize, names: Option<&[String]>) -> Option<Vec<bool>> {
        let table = self.tables.get(table)?;
        if table.event.is_none() && names.is_none() {
            return None;
        }
        let is_wanted = |name: &String| {
            table.event.as_ref().is_none_or(|event| event == name)
                && names.is_none_or(|names| names.contains(name))
        };
        Some(self.names.iter().map(is_wanted).collect())
    }
}

/// Returns the type of a field's column. SQLite treats `UNSIGNED BIGINT` as INTEGER; to others it shows that a value
/// may be an integer above 2^63 - 1, which is a text.
fn affinity(field: &FieldInfo) -> &'static str {
    match field.kind {
        FieldKind::Integer if !field.signed && (field.bits == 0 || field.bits >= 64) => {
            "UNSIGNED BIGINT"
        }
        FieldKind::Integer => "INTEGER",
        FieldKind::Real => "REAL",
        FieldKind::Blob => "BLOB",
        _ => "TEXT",
    }
}

/// Makes the table of the event classes with one name, which may have different fields in different traces.
/// `kernels` has the indexes of the classes of kernels.
fn table(
    name: String,
    event: &str,
    classes: &[&EventClass],
    kernels: &HashSet<usize>,
) -> EventTable {
    let mut columns = fixed_columns();
    let taken = columns.iter().map(|column| column.name.clone()).collect();
    let mut taken = Names(taken, HashMap::new());
    let mut wanted: Vec<(Scope, String)> = Vec::new();
    let mut functions = Vec::new();
    let is_of_function = |name: &str| {
        let mut of_kernels = classes.iter().filter(|class| kernels.contains(&class.index()));
        of_kernels.any(|class| function_field(class, name).is_some())
    };
    for (scope, prefix) in PARTS {
        let mut known: HashSet<&str> = HashSet::new();
        for field in classes.iter().flat_map(|class| class.fields(scope)) {
            if columns.len() >= COLUMNS_MAX {
                break;
            }
            if !known.insert(field.name()) {
                continue;
            }
            let mut of_classes =
                classes.iter().filter_map(|class| class.find_in(scope, field.name()));
            let affinity = affinity(field);
            // The classes of several traces may disagree; the column then has no type, and values of several types.
            let is_agreed = of_classes.all(|other| self::affinity(other.info()) == affinity);
            let affinity = if is_agreed { affinity } else { "" };
            let source = Source::Field(wanted.len());
            let name = taken.take(field.name(), prefix);
            if scope == Scope::Payload && is_of_function(field.name()) {
                functions.push((format!("{name}_name"), Source::FunctionAt(wanted.len())));
            }
            columns.push(Column { name, source, affinity });
            wanted.push((scope, field.name().to_owned()));
        }
    }
    // Behind all fields, so that none of them gives its name to a function.
    for (name, source) in functions.into_iter().take(COLUMNS_MAX.saturating_sub(columns.len())) {
        columns.push(Column { name: taken.take(&name, "field_"), source, affinity: "TEXT" });
    }
    let of_class = |class: &&EventClass| {
        let field = |(scope, name): &(Scope, String)| {
            let field = class.find_in(*scope, name)?;
            Some(ColumnField { scope: *scope, name: name.clone(), field })
        };
        (class.index(), wanted.iter().map(field).collect())
    };
    let fields = classes.iter().map(of_class).collect();
    EventTable { name, columns, event: Some(event.to_owned()), fields }
}
