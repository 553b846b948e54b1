//! Tests of values that are written and read again.

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use strata_sql::Cell;

use crate::{FileOrigin, Kind, TableColumn, TableWriter};

fn origin(version: u32, selection: Option<&str>) -> FileOrigin<'_> {
    FileOrigin { version, selection }
}

fn column(name: &str, kind: Kind) -> TableColumn {
    TableColumn { name: name.to_owned(), kind }
}

#[test]
fn values_at_the_limits_of_their_types_are_read_as_they_were_written() {
    let columns = vec![
        column("i\"'\n", Kind::Integer),
        column("u", Kind::Unsigned),
        column("r", Kind::Real),
        column("t", Kind::Text),
        column("b", Kind::Blob),
    ];
    let rows = [
        [
            Cell::Integer(i64::MIN),
            Cell::Text(b"18446744073709551615"),
            Cell::Real(f64::MIN_POSITIVE),
            Cell::Text("é\u{fffd}".as_bytes()),
            Cell::Blob(&[0, 255]),
        ],
        [Cell::Null, Cell::Null, Cell::Null, Cell::Null, Cell::Null],
        [
            Cell::Integer(i64::MAX),
            Cell::Integer(0),
            Cell::Text(b"NaN"),
            // What is no UTF-8 must not get into a column of text.
            Cell::Text(b"\xff"),
            Cell::Text(b"\xff"),
        ],
    ];
    let mut writer =
        TableWriter::new(Vec::new(), columns, Some("i\"'\n"), origin(7, Some("from_ns=5")))
            .unwrap();
    for row in &rows {
        writer.push(row).unwrap();
    }
    let (bytes, written) = writer.finish().unwrap();
    assert_eq!(written, 3);
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let metadata = reader.metadata().file_metadata().key_value_metadata().unwrap();
    assert!(metadata
        .iter()
        .any(|pair| pair.key == "strata.schema_version" && pair.value.as_deref() == Some("7")));
    assert!(metadata
        .iter()
        .any(|pair| pair.key == "strata.selection" && pair.value.as_deref() == Some("from_ns=5")));
    let found: Vec<Vec<Field>> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| row.unwrap().into_columns().into_iter().map(|(_, field)| field).collect())
        .collect();
    assert_eq!(found[0][0], Field::Long(i64::MIN));
    assert_eq!(found[0][1].to_string().trim_end_matches('.'), "18446744073709551615");
    assert_eq!(found[0][2], Field::Double(f64::MIN_POSITIVE));
    assert_eq!(found[0][3], Field::Str("é\u{fffd}".to_owned()));
    assert_eq!(found[0][4], Field::Bytes(vec![0, 255].into()));
    assert!(found[1].iter().all(|field| *field == Field::Null));
    assert_eq!(found[2][0], Field::Long(i64::MAX));
    assert_eq!(found[2][1].to_string().trim_end_matches('.'), "0");
    assert!(matches!(found[2][2], Field::Double(value) if value.is_nan()));
    assert_eq!(found[2][3], Field::Str("\u{fffd}".to_owned()));
    assert_eq!(found[2][4], Field::Bytes(vec![255].into()));
}

#[test]
fn a_value_of_another_type_is_refused_with_its_column() {
    let mut writer =
        TableWriter::new(Vec::new(), vec![column("n", Kind::Integer)], None, origin(1, None))
            .unwrap();
    let error = writer.push(&[Cell::Text(b"x")]).unwrap_err();
    assert!(error.to_string().contains("column 'n'"), "{error}");
}

#[test]
fn values_that_engines_compare_have_statistics_and_times_no_dictionary() {
    let columns = vec![
        column("time_ns", Kind::Integer),
        column("name", Kind::Text),
        column("fields", Kind::Text),
        column("dotted.name", Kind::Integer),
    ];
    let mut writer =
        TableWriter::new(Vec::new(), columns, Some("time_ns"), origin(1, None)).unwrap();
    for time in 0..3000 {
        let fields = format!("{{\"n\":{time}}}");
        let name = Cell::Text(if time % 2 == 0 { b"a" } else { b"b" });
        let fields = Cell::Text(fields.as_bytes());
        writer.push(&[Cell::Integer(time), name, fields, Cell::Integer(time % 3)]).unwrap();
    }
    let (bytes, _) = writer.finish().unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let group = reader.metadata().row_group(0);
    let has = |column: usize| {
        let column = group.column(column);
        (column.statistics().is_some(), column.dictionary_page_offset().is_some())
    };
    assert_eq!(
        [has(0), has(1), has(2), has(3)],
        [(true, false), (true, true), (false, true), (true, true)]
    );
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 3000);
    let last: Vec<Field> =
        rows[2999].clone().into_columns().into_iter().map(|(_, field)| field).collect();
    assert_eq!(last[0], Field::Long(2999));
    assert_eq!(last[2], Field::Str("{\"n\":2999}".to_owned()));
}
