//! Tests of the work that debug information by hand causes: whatever is read again, costs steps again.

use super::*;

/// The number of units in the files of these tests.
const UNITS: usize = 100;

/// Returns debug information with these sections, and these limits on steps.
fn lines(sections: &[(SectionId, &[u8])], steps: u64) -> Lines {
    let budget = Arc::new(Budget::of(BYTES_MAX, steps));
    let of = |id: SectionId| {
        let found = sections.iter().find(|(one, _)| *one == id);
        found.map_or_else(Vec::new, |(_, bytes)| bytes.to_vec())
    };
    let sections = SECTIONS.into_iter().map(|id| Arc::new(of(id))).collect();
    let charge = Charge::new(&budget);
    let mut lines = Lines::of("file".to_owned(), RunTimeEndian::Little, sections, None, charge);
    if let Err(not) = lines.read_units() {
        lines.say(not);
    }
    lines
}

/// Returns a unit of version 4, whose first entry this is.
fn unit(entry: &[u8]) -> Vec<u8> {
    let head = [4, 0, 0, 0, 0, 0, 8];
    let bytes = u32::try_from(head.len() + entry.len()).unwrap();
    [&bytes.to_le_bytes(), &head[..], entry].concat()
}

/// Returns the number of units of a file that are read before its steps are used up.
fn units_within(steps: u64, entry: &[u8], sections: &[(SectionId, &[u8])]) -> usize {
    let info = unit(entry).repeat(UNITS);
    let sections = [&[(SectionId::DebugInfo, info.as_slice())], sections].concat();
    let lines = lines(&sections, steps);
    assert_eq!(lines.is_over, !lines.budget.remarks().is_empty());
    lines.units.len()
}

#[test]
fn a_unit_costs_a_step_for_each_attribute_also_with_a_table_that_is_kept() {
    // 1,000 times DW_AT_external, DW_FORM_flag_present.
    let table = [&[1, 0x11, 0][..], &[0x3f, 0x19].repeat(1000), &[0, 0, 0]].concat();
    let sections = [(SectionId::DebugAbbrev, table.as_slice())];
    assert_eq!(units_within(1 << 20, &[1], &sections), UNITS);
    assert!(units_within(20_000, &[1], &sections) < UNITS / 4);
}

#[test]
fn a_table_that_is_too_large_or_damaged_costs_its_bytes_for_each_unit() {
    let large = [&[1, 0x11, 0][..], &[0x3f, 0x19].repeat(1 << 17), &[0, 0, 0]].concat();
    // It ends within a number.
    let damaged = [&[1, 0x11, 0][..], &[0x3f, 0x19].repeat(1000), &[0x80]].concat();
    for (table, steps) in [(large, 10 << 17), (damaged, 20_000)] {
        let sections = [(SectionId::DebugAbbrev, table.as_slice())];
        assert_eq!(units_within(1 << 30, &[1], &sections), UNITS);
        assert!(units_within(steps, &[1], &sections) < UNITS / 4);
    }
}

#[test]
fn a_list_of_ranges_costs_a_step_for_each_entry_that_is_no_range() {
    // DW_AT_ranges, DW_FORM_sec_offset.
    let table = [1, 0x11, 0, 0x55, 0x17, 0, 0, 0];
    let base = [[0xff; 8], [0; 8]].concat();
    let ranges = [base.repeat(1000), vec![0; 16]].concat();
    let sections =
        [(SectionId::DebugAbbrev, &table[..]), (SectionId::DebugRanges, ranges.as_slice())];
    assert_eq!(units_within(1 << 20, &[1, 0, 0, 0, 0], &sections), UNITS);
    assert!(units_within(20_000, &[1, 0, 0, 0, 0], &sections) < UNITS / 4);
}

#[test]
fn a_string_is_read_up_to_the_limit_and_none_if_its_section_cuts_it_off() {
    let strings = [b"short\0".as_slice(), &vec![b'n'; 2 * NAME_MAX], b"\0cut"].concat();
    let table = [1, 0x11, 0, 0, 0, 0];
    let info = unit(&[1]);
    let sections = [
        (SectionId::DebugInfo, info.as_slice()),
        (SectionId::DebugAbbrev, &table[..]),
        (SectionId::DebugStr, strings.as_slice()),
    ];
    let lines = lines(&sections, 1 << 20);
    let dwarf = lines.dwarf();
    let head = lines.unit(&dwarf, 0).unwrap();
    let bytes = |at: usize| {
        let value = AttributeValue::DebugStrRef(gimli::DebugStrOffset(at));
        lines.string(&dwarf, &head.unit, value).map(|string| string.len())
    };
    let end = 6 + 2 * NAME_MAX;
    assert_eq!([bytes(0), bytes(6), bytes(end - 3)], [Some(5), Some(NAME_MAX), Some(3)]);
    assert_eq!([bytes(end + 1), bytes(end + 9)], [None, None]);
}

#[test]
fn a_text_within_an_entry_costs_steps_for_its_bytes_each_time() {
    // A text that ends, and one that the unit cuts off: it is searched for an end all the same.
    let table = [1, 0x11, 0, 3, 8, 0, 0, 0];
    let sections = [(SectionId::DebugAbbrev, &table[..])];
    for end in [&b"\0"[..], b""] {
        let entry = [&[1][..], &[b'n'; 2 << 10], end].concat();
        assert_eq!(units_within(1 << 20, &entry, &sections), UNITS);
        assert!(units_within(40_000, &entry, &sections) < UNITS / 4);
    }
}
