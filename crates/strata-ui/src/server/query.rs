//! Parses the query of an address, the part after its question mark.

/// The names and values of a query.
#[derive(Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a text such as `from=1&q=a%20b`.
    #[must_use]
    pub fn new(text: &str) -> Query {
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(name), decoded(value))
        };
        Query(text.split('&').filter(|part| !part.is_empty()).map(pair).collect())
    }

    /// Returns the value of a name; empty if the name is missing.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Returns the value of a name as a number; `None` if it is missing or no number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<i64> {
        self.text(name).parse().ok()
    }

    /// Returns the value as an index; 0 if it is missing.
    #[must_use]
    pub fn index(&self, name: &str) -> usize {
        self.text(name).parse().unwrap_or(0)
    }

    /// Returns the value as a list of numbers that are separated by commas.
    #[must_use]
    pub fn numbers(&self, name: &str) -> Vec<u32> {
        self.text(name).split(',').filter_map(|number| number.parse().ok()).collect()
    }
}

/// Decodes escapes such as `%20`.
fn decoded(text: &str) -> String {
    let mut bytes = text.as_bytes().iter();
    let mut out = Vec::new();
    while let Some(&byte) = bytes.next() {
        let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
        let ahead = bytes.as_slice();
        match (byte, digit(ahead.first()), digit(ahead.get(1))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                bytes.nth(1);
            }
            (b'+', ..) => out.push(b' '),
            _ => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_and_decoded_whatever_stands_there() {
        let query =
            Query::new("from=-5&q=a%20%26%26+b%3d%C3%A4&tracks=1,2,x,4294967296,3&bad=%zz%4&&=");
        assert_eq!(query.number("from"), Some(-5));
        assert_eq!(query.text("q"), "a && b=ä");
        assert_eq!(query.numbers("tracks"), [1, 2, 3]);
        assert_eq!(query.text("bad"), "%zz%4");
        assert_eq!((query.text("none"), query.number("q"), query.index("q")), ("", None, 0));
    }
}
