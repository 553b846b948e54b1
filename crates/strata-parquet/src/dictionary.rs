//! Columns whose values repeat: each value once, and for each row its number.
//!
//! The crate `parquet` makes a dictionary when it encodes a column, value by value, which takes most of the time of an export.
//! Here a value gets its number when its row comes: mostly it is the value of the row before, or an event's name, of which the
//! number is known. Least and greatest value are those of the dictionary. The pages are as the format has them: a
//! dictionary, and data with the numbers (`RLE_DICTIONARY`).

use std::hash::{BuildHasher as _, RandomState};

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, PageType, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, OffsetIndexBuilder, PageEncodingStats};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

/// The most values of a dictionary, and the most bytes of all of them.
const VALUES_MAX: usize = 1 << 16;
const BYTES_MAX: usize = 1 << 20;
/// Number of rows in a page.
const PAGE_ROWS: usize = 1 << 16;
/// The longest least and greatest value that is written \[byte\].
const BOUND_BYTES: usize = 64;

/// The values that a column of a row group has, each with its number.
#[derive(Debug)]
pub(crate) struct Dictionary {
    /// All values, one after the other, and the end of each.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// Numbers of values by hash, each one too high; 0 for none. A power of two of them, of which at most half are used.
    slots: Vec<u32>,
    /// What no trace can foresee.
    seed: u64,
    last: usize,
}

/// Multiplies, and mixes the halves of the result.
#[inline]
fn mixed(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Dictionary {
    pub(crate) fn new() -> Dictionary {
        let seed = RandomState::new().hash_one(0_u8) | 1;
        let (bytes, ends, slots) = (Vec::new(), Vec::new(), vec![0; 64]);
        Dictionary { bytes, ends, slots, seed, last: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns how much memory the values take \[byte\].
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.ends)
    }

    /// Returns the value with a number.
    #[inline]
    pub(crate) fn value(&self, number: usize) -> &[u8] {
        let end = self.ends.get(number).copied().unwrap_or_default() as usize;
        let before = number.checked_sub(1).and_then(|before| self.ends.get(before));
        let from = before.copied().unwrap_or_default() as usize;
        self.bytes.get(from..end).unwrap_or_default()
    }

    #[inline]
    fn hash(&self, value: &[u8]) -> u64 {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut hash = self.seed ^ value.len() as u64;
        let mut parts = value.chunks_exact(8);
        for part in parts.by_ref() {
            let word = part.try_into().map_or(0, u64::from_le_bytes);
            hash = mixed(hash ^ word, FACTOR);
        }
        let mut rest = [0; 8];
        parts.remainder().iter().zip(&mut rest).for_each(|(from, to)| *to = *from);
        mixed(hash ^ u64::from_le_bytes(rest), FACTOR ^ self.seed)
    }

    /// Returns the slot of a value: where it is, or where it has room.
    #[inline]
    fn slot(&self, value: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = self.hash(value) as usize & mask;
        loop {
            match self.slots.get(slot) {
                None | Some(0) => return slot,
                Some(&number) if self.value(number as usize - 1) == value => return slot,
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    /// Returns the number of a value that the dictionary has.
    #[inline]
    pub(crate) fn find(&mut self, value: &[u8]) -> Option<usize> {
        if self.last < self.ends.len() && self.value(self.last) == value {
            return Some(self.last);
        }
        let slot = self.slot(value);
        let number = self.slots.get(slot).copied().unwrap_or_default() as usize;
        self.last = number.checked_sub(1)?;
        Some(self.last)
    }

    /// Adds a value that it does not have. Returns its number; `None` if there is no room.
    #[cold]
    pub(crate) fn add(&mut self, value: &[u8]) -> Option<usize> {
        if self.ends.len() >= VALUES_MAX || self.bytes.len() + value.len() > BYTES_MAX {
            return None;
        }
        if (self.ends.len() + 1) * 2 > self.slots.len() {
            self.slots = vec![0; self.slots.len() * 4];
            for number in 0..self.ends.len() {
                let slot = self.slot(self.value(number));
                if let Some(slot) = self.slots.get_mut(slot) {
                    *slot = number as u32 + 1;
                }
            }
        }
        let slot = self.slot(value);
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len() as u32);
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = self.ends.len() as u32;
        }
        self.last = self.ends.len() - 1;
        Some(self.last)
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.slots.fill(0);
        self.last = 0;
    }

    fn values(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|number| self.value(number))
    }

    /// Returns the dictionary's page. Texts have their length in front of them, integers have none.
    fn page(&self, are_texts: bool) -> Vec<u8> {
        let mut page = Vec::with_capacity(self.bytes.len() + 4 * self.len());
        for value in self.values() {
            if are_texts {
                page.extend_from_slice(&(value.len() as u32).to_le_bytes());
            }
            page.extend_from_slice(value);
        }
        page
    }

    fn statistics(&self, are_texts: bool, nulls: u64) -> Statistics {
        if are_texts {
            let bound = |value: Option<&[u8]>| {
                let value = value.filter(|value| value.len() <= BOUND_BYTES);
                value.map(|value| ByteArray::from(value.to_vec()))
            };
            let (least, most) = (bound(self.values().min()), bound(self.values().max()));
            let (least, most) = least.zip(most).unzip();
            return Statistics::byte_array(least, most, None, Some(nulls), false);
        }
        let numbers = || self.values().map(integer);
        Statistics::int64(numbers().min(), numbers().max(), None, Some(nulls), false)
    }
}

/// Returns the integer of a value.
pub(crate) fn integer(value: &[u8]) -> i64 {
    value.try_into().map_or(0, i64::from_le_bytes)
}

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Encodes numbers of `width` bits as runs of equal ones, and groups of eight others.
fn runs(out: &mut Vec<u8>, numbers: &[u32], width: u32) {
    let bytes = width.div_ceil(8) as usize;
    let run_at = |at: usize| {
        let first = numbers.get(at);
        numbers.iter().skip(at).take_while(|number| Some(*number) == first).count()
    };
    let (mut at, mut run) = (0, run_at(0));
    while at < numbers.len() {
        if run >= 8 {
            varint(out, run << 1);
            let value = numbers.get(at).copied().unwrap_or_default().to_le_bytes();
            out.extend_from_slice(value.get(..bytes).unwrap_or(&value));
            at += run;
            run = run_at(at);
            continue;
        }
        let begin = at;
        while at < numbers.len() && run < 8 {
            at += 8;
            run = if at < numbers.len() { run_at(at) } else { 0 };
        }
        let groups = (at - begin) / 8;
        varint(out, groups << 1 | 1);
        let (mut bits, mut count) = (0_u64, 0);
        for index in begin..at {
            bits |= u64::from(numbers.get(index).copied().unwrap_or_default()) << count;
            count += width;
            while count >= 8 {
                out.push(bits as u8);
                bits >>= 8;
                count -= 8;
            }
        }
    }
}

/// A column of a row group as pages, and the description of them.
pub(crate) struct Chunk {
    pub pages: Bytes,
    pub close: ColumnCloseResult,
}

/// Encodes a column. `levels` has 1 for each row with a value, whose number is the next of `numbers`, and 0 for each NULL.
///
/// # Errors
/// A page cannot be compressed.
pub(crate) fn chunk(
    descr: ColumnDescPtr,
    dictionary: &Dictionary,
    levels: &[i16],
    numbers: &[u32],
    is_compared: bool,
) -> Result<Chunk> {
    let are_texts = descr.physical_type() == parquet::basic::Type::BYTE_ARRAY;
    let level = ZstdLevel::default();
    let failed = |error: std::io::Error| ParquetError::External(Box::new(error));
    let mut compressor = zstd::bulk::Compressor::new(level.compression_level()).map_err(failed)?;
    let mut pages = TrackedWrite::new(Vec::new());
    let mut offsets = OffsetIndexBuilder::new();
    let mut uncompressed = 0;
    let mut data_offset = None;
    let mut count = 0;

    let bytes = dictionary.page(are_texts);
    let page = Page::DictionaryPage {
        buf: compressor.compress(&bytes).map_err(failed)?.into(),
        num_values: dictionary.len() as u32,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    let spec =
        SerializedPageWriter::new(&mut pages).write_page(CompressedPage::new(page, bytes.len()))?;
    uncompressed += spec.uncompressed_size;

    let width = (usize::BITS - dictionary.len().saturating_sub(1).leading_zeros()).max(1);
    let mut rest = numbers;
    let (mut data, mut part, mut bits) = (Vec::new(), Vec::new(), Vec::new());
    for levels in levels.chunks(PAGE_ROWS) {
        let has_value = levels.iter().filter(|level| **level > 0).count();
        let (some, others) = rest.split_at(has_value.min(rest.len()));
        rest = others;
        data.clear();
        part.clear();
        bits.clear();
        bits.extend(levels.iter().map(|level| u32::from(*level > 0)));
        runs(&mut part, &bits, 1);
        data.extend_from_slice(&(part.len() as u32).to_le_bytes());
        data.extend_from_slice(&part);
        data.push(width as u8);
        runs(&mut data, some, width);
        let page = Page::DataPage {
            buf: compressor.compress(&data).map_err(failed)?.into(),
            num_values: levels.len() as u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let spec = SerializedPageWriter::new(&mut pages)
            .write_page(CompressedPage::new(page, data.len()))?;
        uncompressed += spec.uncompressed_size;
        data_offset.get_or_insert(spec.offset);
        offsets.append_row_count(levels.len() as i64);
        offsets.append_offset_and_size(spec.offset as i64, spec.compressed_size as i32);
        count += 1;
    }
    let pages = Bytes::from(pages.into_inner()?);
    let stats = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
    let mut metadata = ColumnChunkMetaData::builder(descr)
        .set_compression(Compression::ZSTD(level))
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
        .set_page_encoding_stats(vec![
            stats(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1),
            stats(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY, count),
        ])
        .set_total_compressed_size(pages.len() as i64)
        .set_total_uncompressed_size(uncompressed as i64)
        .set_num_values(levels.len() as i64)
        .set_dictionary_page_offset(Some(0))
        .set_data_page_offset(data_offset.unwrap_or_default() as i64);
    if is_compared {
        let nulls = levels.len() - numbers.len().min(levels.len());
        metadata = metadata.set_statistics(dictionary.statistics(are_texts, nulls as u64));
    }
    let close = ColumnCloseResult {
        bytes_written: pages.len() as u64,
        rows_written: levels.len() as u64,
        metadata: metadata.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: Some(offsets.build()),
    };
    Ok(Chunk { pages, close })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes what `runs` has encoded, by the format's description.
    fn decoded(mut bytes: &[u8], width: u32, count: usize) -> Vec<u32> {
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let (mut head, mut shift) = (0_usize, 0);
            loop {
                let byte = bytes[0];
                bytes = &bytes[1..];
                head |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            if head & 1 == 0 {
                let size = width.div_ceil(8) as usize;
                let mut value = [0; 4];
                value[..size].copy_from_slice(&bytes[..size]);
                bytes = &bytes[size..];
                out.extend(std::iter::repeat_n(u32::from_le_bytes(value), head >> 1));
                continue;
            }
            let size = (head >> 1) * width as usize;
            for index in 0..(head >> 1) * 8 {
                let bit = |bit: usize| {
                    let at = index * width as usize + bit;
                    u32::from(bytes[at / 8] >> (at % 8) & 1) << bit
                };
                out.push((0..width as usize).map(bit).sum());
            }
            bytes = &bytes[size..];
        }
        assert!(out.len() >= count && out.len() < count + 8, "{} {count}", out.len());
        assert!(out[count..].iter().all(|number| *number == 0));
        out.truncate(count);
        out
    }

    #[test]
    fn runs_and_groups_of_every_width_are_decoded_to_the_same_numbers() {
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        for width in 1..=16 {
            for lengths in [1, 4, 7, 8, 9, 40, 700] {
                let mut numbers = Vec::new();
                while numbers.len() < 1000 {
                    let number = random() & ((1 << width) - 1);
                    let length = random() as usize % lengths + 1;
                    numbers.extend(std::iter::repeat_n(number, length));
                }
                for count in [0, 1, 7, 8, 9, 16, 17, numbers.len()] {
                    let mut out = Vec::new();
                    runs(&mut out, &numbers[..count], width);
                    assert_eq!(decoded(&out, width, count), numbers[..count], "{width} {lengths}");
                }
            }
        }
    }

    #[test]
    fn a_dictionary_has_each_value_once_until_it_is_full() {
        let mut dictionary = Dictionary::new();
        let value = |number: usize| format!("{number}").repeat(number % 3).into_bytes();
        let mut all: Vec<Vec<u8>> = Vec::new();
        for number in (0..3000).chain(0..3000) {
            let value = value(number);
            let known = all.iter().position(|other| *other == value);
            assert_eq!(dictionary.find(&value), known, "{number}");
            if known.is_none() {
                assert_eq!(dictionary.add(&value), Some(all.len()));
                all.push(value);
            }
        }
        assert!(dictionary.values().eq(all.iter().map(Vec::as_slice)));
        dictionary.clear();
        assert_eq!(dictionary.find(b"1"), None);
        assert_eq!(dictionary.find(b""), None);
        assert!(dictionary.add(&vec![0; BYTES_MAX + 1]).is_none());
        assert_eq!(dictionary.add(b""), Some(0));
        assert_eq!(dictionary.find(b""), Some(0));
        for number in 1..VALUES_MAX {
            assert_eq!(dictionary.add(&(number as i64).to_le_bytes()), Some(number));
        }
        assert!(dictionary.add(b"more").is_none());
        assert_eq!(dictionary.find(&700_i64.to_le_bytes()), Some(700));
    }
}
