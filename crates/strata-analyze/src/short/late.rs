//! Texts that are addresses at a call's entry, as they were not in memory then, and come before it returns.

use std::ops::Range;

/// A text that is absent so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unread {
    /// Of the call; the first is 0.
    pub(super) argument: usize,
    /// Where its address is shown \[byte\].
    pub(super) place: Range<usize>,
}

/// Put a text in the place of its address; false: it was not absent.
pub(super) fn put(
    bytes: &mut Vec<u8>,
    unread: &mut Vec<Unread>,
    argument: usize,
    text: &[u8],
) -> bool {
    let Some(at) = unread.iter().position(|one| one.argument == argument) else { return false };
    let place = unread.remove(at).place;
    if bytes.get(place.clone()).is_none() {
        return false;
    }
    for one in unread.iter_mut().filter(|one| one.place.start >= place.end) {
        let moved = |at: usize| at - place.len() + text.len();
        one.place = moved(one.place.start)..moved(one.place.end);
    }
    bytes.splice(place, text.iter().copied());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_takes_its_address_place_and_others_stay_where_they_are() {
        let mut bytes = b"rename(old=\"0x1\", new=\"0x22\"".to_vec();
        let mut unread =
            vec![Unread { argument: 0, place: 11..16 }, Unread { argument: 1, place: 22..28 }];
        assert!(!put(&mut bytes, &mut unread, 2, b"\"z\""));
        assert!(put(&mut bytes, &mut unread, 0, b"\"/a/long/name\""));
        assert!(put(&mut bytes, &mut unread, 1, b"\"b\""));
        assert!(!put(&mut bytes, &mut unread, 1, b"\"c\""));
        assert_eq!(String::from_utf8(bytes).unwrap(), "rename(old=\"/a/long/name\", new=\"b\"");
        let mut outside = vec![Unread { argument: 0, place: 5..9 }];
        assert!(!put(&mut Vec::new(), &mut outside, 0, b"x"));
    }
}
