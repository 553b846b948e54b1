//! Reads the counts of all CPUs from the kernel.

use crate::decide::count::resolve::KeyKind;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::collections::HashMap;
use strata_abi::count::{Key, BUCKETS, KEYS_MAX, PART_BYTES};

/// One part of a row's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyValue {
    /// The events of the row have no value for this key.
    Absent,
    /// The name of the event, as the number of its class.
    Name(u32),
    /// A number that is not negative.
    Number(u64),
    /// A number that may be negative.
    Signed(i64),
    /// A text, of which the kernel keeps 16 bytes at most.
    Text(Vec<u8>),
}

/// The counts of a row: number of events, and statistics of the value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountValues {
    /// Number of events.
    pub count: u64,
    /// Sum of the values, modulo 2^64.
    pub sum: i128,
    /// The least value; 0 without values.
    pub least: i128,
    /// The greatest value; 0 without values.
    pub most: i128,
    /// A histogram: the number of negative values, the number of zeroes, and for each n the number of values from 2^n
    /// up to 2^(n+1) - 1.
    pub buckets: Vec<u64>,
}

/// One row: the events that have the same keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountRow {
    /// The keys, in the order in which they were asked for.
    pub keys: Vec<KeyValue>,
    pub values: CountValues,
}

/// The table of counts in the kernel.
#[derive(Debug)]
pub struct CountTable {
    pub(crate) map: MapHandle,
    pub(crate) shape: TableShape,
}

/// The layout of the keys and values in the table.
#[derive(Clone, Debug)]
pub(crate) struct TableShape {
    pub(crate) kinds: Vec<KeyKind>,
    /// True if values may be negative.
    pub(crate) signed: bool,
    pub(crate) has_value: bool,
    pub(crate) spread: bool,
}

/// Iterates over the 64-bit words of an element of one CPU.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
}

impl CountTable {
    /// Reads all rows. While programs count, the number of events in a row may be ahead of the sum of
    /// their values.
    ///
    /// # Errors
    /// The error of libbpf on reading the map.
    pub fn rows(&self) -> Result<Vec<CountRow>, libbpf_rs::Error> {
        let mut rows = HashMap::new();
        for key in self.map.keys() {
            // A key that is listed stays: nothing is removed.
            let Some(values) = self.map.lookup_percpu(&key, MapFlags::ANY)? else { continue };
            // The kernel begins anew where it finds its place no more.
            rows.insert(key, self.shape.values(&values));
        }
        let row = |(key, values): (Vec<u8>, _)| CountRow { keys: self.shape.keys(&key), values };
        Ok(rows.into_iter().filter(|(_, values)| values.count > 0).map(row).collect())
    }
}

impl TableShape {
    fn keys(&self, bytes: &[u8]) -> Vec<KeyValue> {
        let mut key = Key::default();
        let mut all = words(bytes);
        key.absent = all.next().unwrap_or(0);
        let parts: Vec<u64> = all.collect();
        for (to, from) in key.part.iter_mut().zip(parts.chunks_exact(2)) {
            to.copy_from_slice(from);
        }
        let value = |(at, kind): (usize, &KeyKind)| {
            let part = key.part.get(at).copied().unwrap_or_default();
            match kind {
                _ if key.absent >> at & 1 != 0 => KeyValue::Absent,
                KeyKind::Name => KeyValue::Name(part[0] as u32),
                KeyKind::Number(false) => KeyValue::Number(part[0]),
                KeyKind::Number(true) => KeyValue::Signed(part[0] as i64),
                KeyKind::Text => {
                    let bytes: Vec<u8> = part.iter().flat_map(|word| word.to_ne_bytes()).collect();
                    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(PART_BYTES);
                    KeyValue::Text(bytes[..end].to_vec())
                }
            }
        };
        self.kinds.iter().enumerate().take(KEYS_MAX).map(value).collect()
    }

    /// Adds up the elements of all CPUs.
    fn values(&self, cpus: &[Vec<u8>]) -> CountValues {
        let mut all = CountValues::default();
        let sign = if self.signed { 1u64 << 63 } else { 0 };
        let number = |value: u64| match self.signed {
            true => i128::from(value as i64),
            false => i128::from(value),
        };
        let (mut sum, mut extremes) = (0i128, None);
        if self.spread {
            all.buckets = vec![0; BUCKETS];
        }
        for bytes in cpus {
            let mut words = words(bytes);
            let count = words.next().unwrap_or(0);
            all.count += count;
            if !self.has_value || count == 0 {
                continue;
            }
            let [one, least, most] = [(); 3].map(|()| words.next().unwrap_or(0));
            // A CPU whose first event has its count and not its value yet has no extremes either.
            if least == 0 && most == 0 && one == 0 {
                continue;
            }
            sum += number(one);
            let (least, most) = (number(!least ^ sign), number(most ^ sign));
            extremes = Some(match extremes {
                None => (least, most),
                Some((before, after)) => (least.min(before), most.max(after)),
            });
            for (to, from) in all.buckets.iter_mut().zip(words) {
                *to += from;
            }
        }
        (all.least, all.most) = extremes.unwrap_or_default();
        all.sum = sum;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(kinds: &[KeyKind], signed: bool, spread: bool) -> TableShape {
        TableShape { kinds: kinds.to_vec(), signed, has_value: true, spread }
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// The element of a CPU as its program makes it of these values.
    fn element(values: &[i64], signed: bool) -> Vec<u8> {
        let sign = if signed { 1 << 63 } else { 0 };
        let mut words = vec![values.len() as u64, 0, 0, 0];
        words.resize(4 + BUCKETS, 0);
        for &value in values {
            let number = value as u64;
            words[1] = words[1].wrapping_add(number);
            words[2] = words[2].max(!(number ^ sign));
            words[3] = words[3].max(number ^ sign);
            let bucket = match (value, signed) {
                (..0, true) => 0,
                (0, _) => 1,
                _ => 2 + number.ilog2() as usize,
            };
            words[4 + bucket] += 1;
        }
        bytes(&words)
    }

    #[test]
    fn keys_of_all_kinds_are_decoded() {
        let kinds = [KeyKind::Name, KeyKind::Number(false), KeyKind::Number(true), KeyKind::Text];
        let comm = u64::from_ne_bytes(*b"kworker/");
        let key = bytes(&[0, 7, 0, u64::MAX, 0, -9i64 as u64, 0, comm, 0]);
        let text = KeyValue::Text(b"kworker/".to_vec());
        let wanted = [KeyValue::Name(7), KeyValue::Number(u64::MAX), KeyValue::Signed(-9), text];
        assert_eq!(shape(&kinds, false, false).keys(&key), wanted);
        let absent = bytes(&[0b10, 7, 0, 0, 0]);
        let wanted = [KeyValue::Name(7), KeyValue::Absent];
        assert_eq!(shape(&kinds[..2], false, false).keys(&absent), wanted);
        // A text of 16 bytes has no NUL.
        let full = bytes(&[0, comm, comm]);
        let wanted = [KeyValue::Text(b"kworker/kworker/".to_vec())];
        assert_eq!(shape(&[KeyKind::Text], false, false).keys(&full), wanted);
    }

    #[test]
    fn values_of_all_cpus_are_added_up_with_their_signs() {
        let none = element(&[], true);
        let cpus = [element(&[-9, 0, 5], true), none, element(&[-700], true)];
        let found = shape(&[], true, true).values(&cpus);
        assert_eq!((found.count, found.sum, found.least, found.most), (4, -704, -700, 5));
        assert_eq!(found.buckets[..5], [2, 1, 0, 0, 1]);
        let cpus = [element(&[i64::MAX, 3], false), element(&[4], false)];
        let found = shape(&[], false, true).values(&cpus);
        let sum = i128::from(i64::MAX) + 7;
        assert_eq!((found.count, found.sum), (3, sum));
        assert_eq!((found.least, found.most), (3, i64::MAX.into()));
        assert_eq!(found.buckets.iter().sum::<u64>(), 3);
    }

    #[test]
    fn an_event_whose_value_is_not_there_yet_has_no_extremes() {
        let mut begun = element(&[], false);
        begun[..8].copy_from_slice(&1u64.to_ne_bytes());
        let found = shape(&[], false, true).values(&[begun, element(&[6], false)]);
        assert_eq!((found.count, found.sum, found.least, found.most), (2, 6, 6, 6));
        let found = shape(&[], false, false).values(&[element(&[0], false)]);
        assert_eq!((found.count, found.least, found.most), (1, 0, 0));
    }
}
