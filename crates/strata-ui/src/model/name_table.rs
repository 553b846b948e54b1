//! A table of numbered names, so that the page requests each name only once.

use std::collections::HashMap;

/// The most texts with a number of their own; further ones share a number.
const NAMES_MAX: usize = 1 << 18;
/// Limit on the length of a text that is stored \[character\].
const CHARS_MAX: usize = 200;
/// Name that stands for all texts beyond the limit.
const OTHERS: &str = "(other)";

/// The table of names. Number 0 is the empty name.
#[derive(Debug)]
pub struct NameTable {
    texts: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
}

impl Default for NameTable {
    fn default() -> NameTable {
        let texts = vec!["".into(), OTHERS.into()];
        let numbers = [("".into(), 0), (OTHERS.into(), 1)];
        NameTable { texts, numbers: numbers.into() }
    }
}

impl NameTable {
    /// Makes the table of texts in the order of their numbers; `None` if they are none of a table.
    #[must_use]
    pub fn of_texts(texts: Vec<Box<str>>) -> Option<NameTable> {
        let is_table = matches!(texts.as_slice(), [none, others, ..] if none.is_empty() && **others == *OTHERS);
        if !is_table || texts.len() > NAMES_MAX {
            return None;
        }
        let numbers = (0..).zip(&texts).map(|(number, text)| (text.clone(), number)).collect();
        Some(NameTable { texts, numbers })
    }

    /// Returns the number of a text, after adding it if it is new.
    pub fn of(&mut self, text: &str) -> u32 {
        let text = match text.char_indices().nth(CHARS_MAX) {
            Some((end, _)) => text.get(..end).unwrap_or(text),
            None => text,
        };
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        match u32::try_from(self.texts.len()) {
            Ok(number) if self.texts.len() < NAMES_MAX => {
                self.texts.push(text.into());
                self.numbers.insert(text.into(), number);
                number
            }
            _ => 1,
        }
    }

    /// Returns the number of a text in the table; 0 if it is missing.
    #[must_use]
    pub fn find(&self, text: &str) -> u32 {
        self.numbers.get(text).copied().unwrap_or(0)
    }

    /// Returns the text of a number; empty if there is none.
    #[must_use]
    pub fn text(&self, number: u32) -> &str {
        usize::try_from(number).ok().and_then(|at| self.texts.get(at)).map_or("", |text| text)
    }

    /// Returns up to `count` names from number `from` on.
    pub fn after(&self, from: usize, count: usize) -> impl Iterator<Item = &str> {
        self.texts.iter().skip(from).take(count).map(|text| &**text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_same_number_each_time_and_long_ones_are_cut_between_characters() {
        let mut names = NameTable::default();
        let long = "ä".repeat(1_000_000);
        let numbers = [names.of("read"), names.of(&long), names.of("read"), names.of("")];
        assert_eq!(numbers, [2, 3, 2, 0]);
        assert_eq!(names.text(3), "ä".repeat(CHARS_MAX));
        assert_eq!(names.after(2, 10).count(), 2);
        for number in 0..NAMES_MAX + 10 {
            names.of(&number.to_string());
        }
        assert_eq!(names.of("one more"), 1);
        assert_eq!(names.text(1), OTHERS);
        assert_eq!(names.text(u32::MAX), "");
    }
}
