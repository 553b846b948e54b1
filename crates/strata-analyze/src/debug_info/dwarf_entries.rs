//! Reads entries of debug information, and charges the steps that they take: a text within an entry is searched for its
//! end, however long it is, whenever the entry is read.

use gimli::{
    constants as dw, Attribute, AttributeSpecification, EndianSlice, EntriesRaw, Reader as _,
    RunTimeEndian, UnitHeader,
};

use super::lookup_limits::Budget;

/// The most bytes of a unit's table of abbreviations, and of the header of its line program.
pub(super) const TABLE_MAX: u64 = 1 << 20;
/// The size up to which reading an attribute costs no steps of the time budget \[byte\].
const SHORT: u64 = 16;

pub(super) type Bytes<'l> = EndianSlice<'l, RunTimeEndian>;

/// The reason why a lookup in debug information has no result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Not {
    /// The debug information is damaged, or does not have the answer.
    Said,
    /// The function is nested more deeply than entries are read.
    Shallow,
    /// A table is larger than [`TABLE_MAX`].
    Small,
    /// The limit on memory is reached.
    Room,
    /// The inlined calls at an address have more bytes of names than are kept.
    Long,
    /// The search takes too long.
    Time,
}

impl From<gimli::Error> for Not {
    fn from(_: gimli::Error) -> Not {
        Not::Said
    }
}

/// Charges the steps of reading a text of this size: one for each byte.
pub(super) fn charge_text(bytes: u64, budget: &Budget) -> Result<(), Not> {
    match bytes <= SHORT || budget.steps(bytes) {
        true => Ok(()),
        false => Err(Not::Time),
    }
}

/// Charges the steps for reading a unit from an offset up to the next entry. If reading has failed, charges them up
/// to the unit's end, which was then searched.
fn charge(
    from: usize,
    to: Option<usize>,
    unit: &UnitHeader<Bytes<'_>>,
    budget: &Budget,
) -> Result<(), Not> {
    let to = to.unwrap_or_else(|| unit.length_including_self());
    charge_text(to.saturating_sub(from) as u64, budget)
}

/// Reads an attribute of an entry.
pub(super) fn read_attribute<'l>(
    entries: &mut EntriesRaw<'_, '_, Bytes<'l>>,
    specification: AttributeSpecification,
    unit: &UnitHeader<Bytes<'l>>,
    budget: &Budget,
) -> Result<Attribute<Bytes<'l>>, Not> {
    let from = entries.next_offset().0;
    let found = entries.read_attribute(specification);
    charge(from, found.is_ok().then(|| entries.next_offset().0), unit, budget)?;
    Ok(found?)
}

/// Skips the attributes of an entry.
pub(super) fn skip_attributes(
    entries: &mut EntriesRaw<'_, '_, Bytes<'_>>,
    attributes: &[AttributeSpecification],
    unit: &UnitHeader<Bytes<'_>>,
    budget: &Budget,
) -> Result<(), Not> {
    let from = entries.next_offset().0;
    let found = entries.skip_attributes(attributes);
    charge(from, found.is_ok().then(|| entries.next_offset().0), unit, budget)?;
    Ok(found?)
}

/// Returns the number of bytes that were read of a table of abbreviations, and an error if the table does not end
/// there.
pub(super) fn abbreviations_bytes(section: &Bytes<'_>, at: usize) -> (u64, Result<(), Not>) {
    let mut rest = *section;
    if rest.skip(at).is_err() {
        return (0, Err(Not::Said));
    }
    let all = rest.len();
    let found = skip_abbreviations(&mut rest);
    ((all - rest.len()) as u64, found)
}

/// Advances `rest` to the end of the table of abbreviations with which it begins. Fails if the table is larger than
/// [`TABLE_MAX`].
fn skip_abbreviations(rest: &mut Bytes<'_>) -> Result<(), Not> {
    let all = rest.len();
    let used = |rest: &Bytes<'_>| (all - rest.len()) as u64;
    while used(rest) <= TABLE_MAX {
        if rest.is_empty() || rest.read_uleb128()? == 0 {
            return Ok(());
        }
        rest.read_uleb128()?;
        rest.skip(1)?;
        while used(rest) <= TABLE_MAX {
            let (name, form) = (rest.read_uleb128()?, rest.read_uleb128()?);
            if form == u64::from(dw::DW_FORM_implicit_const.0) {
                rest.read_sleb128()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
        }
    }
    Err(Not::Small)
}
