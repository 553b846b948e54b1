//! Reports as JSON objects.

use serde_json::{json, Map, Value as Json};

use crate::document::{Document, Part};
use crate::label::Label;
use crate::table::Table;
use crate::value::{Record, Value};

/// Returns the members of a report's object: its facts, and an array for each of its tables.
#[must_use]
pub fn members(document: &Document) -> Map<String, Json> {
    let mut object = record_json(&document.facts);
    for part in &document.parts {
        match part {
            Part::Rows { table, all } => {
                object.insert("rows_count".into(), json!(all));
                object.insert("rows".into(), rows(table));
            }
            Part::Section { key: Some(key), table, all, .. } => {
                object.insert((*key).into(), rows(table));
                if let Some(all) = all {
                    object.insert(format!("{key}_count"), json!(all));
                }
            }
            Part::Section { key: None, .. }
            | Part::Histogram { .. }
            | Part::Blank
            | Part::Line(_)
            | Part::Note(_)
            | Part::Exactness => {}
        }
    }
    object
}

fn rows(table: &Table) -> Json {
    let object = |row: &Vec<Value>| {
        let mut map = Map::new();
        for (column, value) in table.columns.iter().zip(row) {
            if let Some(key) = column.key {
                put(&mut map, key, value);
            }
        }
        Json::Object(map)
    };
    table.rows.iter().map(object).collect()
}

/// Returns values as an object by their keys.
#[must_use]
pub fn record_json(record: &Record) -> Map<String, Json> {
    let mut map = Map::new();
    record.iter().for_each(|(key, value)| put(&mut map, key, value));
    map
}

fn put(map: &mut Map<String, Json>, key: &str, value: &Value) {
    match value {
        Value::Label(label) if key.is_empty() => map.extend(label_keys(label)),
        Value::Record(record) if key.is_empty() => {
            record.iter().for_each(|(key, value)| put(map, key, value));
        }
        Value::None if key.is_empty() => {}
        Value::Absent => {}
        value => {
            map.insert(key.into(), one(value));
        }
    }
}

fn one(value: &Value) -> Json {
    match value {
        Value::None | Value::Absent | Value::Strip(_) | Value::Tree(_) => Json::Null,
        Value::Uint(number) => json!(number),
        Value::Int(number) => json!(number),
        Value::Float(number) => json!(number),
        Value::Bool(yes) => json!(yes),
        Value::Text(text) => json!(text),
        Value::Label(label) => Json::Object(label_keys(label)),
        Value::Spread(values) => {
            values.buckets().map(|(first, width, count)| json!([first, width, count])).collect()
        }
        Value::Record(record) => Json::Object(record_json(record)),
        Value::List(records) => {
            records.iter().map(|record| Json::Object(record_json(record))).collect()
        }
        Value::Values(values) => values.iter().map(one).collect(),
    }
}

/// Returns the members that name the process or thread of a label.
#[must_use]
pub fn label_keys(label: &Label) -> Map<String, Json> {
    let mut map = Map::new();
    let process = Some(&label.process).filter(|name| !name.is_empty());
    map.insert("process".into(), json!(process));
    map.insert("pid".into(), json!(label.pid));
    map.insert("thread".into(), json!(label.thread));
    map.insert("tid".into(), json!(label.tid));
    if let Some(machine) = &label.machine {
        map.insert("machine".into(), json!(machine));
    }
    if label.processes > 1 {
        map.insert("processes".into(), json!(label.processes));
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Columns, Figure, Unit};
    use crate::times::Times;

    #[test]
    fn rows_are_objects_by_keys_and_labels_are_spread_over_them() {
        let mut times = Times::default();
        times.add(7);
        let label = Label { process: "shop".into(), pid: Some(3), ..Label::default() };
        let columns = Columns::new()
            .both("process", "", Unit::Label, |row: &(Label, Times)| Value::label(&row.0))
            .shown("seen", Unit::Text, |_| Value::text("by people"))
            .key("woken_by", |_| Value::None)
            .times(&[("total", Figure::Total)], |row| &row.1);
        let mut document = Document::new("1 row");
        document.fact("by", "process");
        document.rows(columns.rows(&[(label, times)]), 5);
        let wanted = json!({
            "by": "process",
            "rows_count": 5,
            "rows": [{
                "process": "shop", "pid": 3, "thread": null, "tid": null, "woken_by": null, "count": 1,
                "total_ns": 7, "avg_ns": 7, "min_ns": 7, "p50_ns": 7, "p99_ns": 7, "max_ns": 7
            }],
        });
        assert_eq!(Json::Object(members(&document)), wanted);
    }
}
