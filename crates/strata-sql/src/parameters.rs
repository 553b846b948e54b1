//! Values of a query's parameters.

use rusqlite::types::Value;

use crate::error::SqlError;

/// Values of parameters, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(Vec<(String, Value)>);

impl Parameters {
    /// Makes the values of texts: an integer or a number where the whole text is one, the text between single quotes, and
    /// otherwise the text itself.
    ///
    /// # Errors
    /// A name is given twice, or is none that a query can have.
    pub fn from_texts(texts: &[(String, String)]) -> Result<Parameters, SqlError> {
        let mut all = Parameters::default();
        for (name, text) in texts {
            let unquoted = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
            let value = match (unquoted, text.parse::<i64>(), text.parse::<f64>()) {
                (Some(text), ..) => Value::Text(text.to_owned()),
                (None, Ok(number), _) => Value::Integer(number),
                (None, _, Ok(number)) if number.is_finite() => Value::Real(number),
                _ => Value::Text(text.clone()),
            };
            all.add(name, value)?;
        }
        Ok(all)
    }

    /// Adds a value.
    ///
    /// # Errors
    /// The name has a value, or is none that a query can have.
    pub fn add(&mut self, name: &str, value: Value) -> Result<(), SqlError> {
        let name = name.strip_prefix([':', '@', '$']).unwrap_or(name);
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_allowed) {
            return Err(SqlError::Query(format!(
                "'{name}' can be no parameter: letters, digits and '_'"
            )));
        }
        if self.0.iter().any(|(known, _)| known == name) {
            return Err(SqlError::Query(format!("the parameter '{name}' is given twice")));
        }
        self.0.push((name.to_owned(), value));
        Ok(())
    }

    /// Returns the parameter that a statement calls so, and its value.
    ///
    /// # Errors
    /// It has none.
    pub(crate) fn of(&self, name: Option<&str>) -> Result<(&str, &Value), SqlError> {
        let Some(name) = name else {
            return Err(SqlError::Query(
                "the query has a parameter without a name ('?'). Name it, as in ':name', and give it a value: --set name=VALUE"
                    .to_owned(),
            ));
        };
        let plain = name.get(1..).unwrap_or_default();
        let found = self.0.iter().find(|(known, _)| known == plain);
        let found = found.ok_or_else(|| {
            SqlError::Query(format!(
                "the query has the parameter '{name}', which has no value: --set {plain}=VALUE"
            ))
        })?;
        Ok((&found.0, &found.1))
    }

    /// Returns an error if a value is for no parameter of the query.
    pub(crate) fn check_used(&self, used: &[String]) -> Result<(), SqlError> {
        match self.0.iter().find(|(name, _)| !used.contains(name)) {
            None => Ok(()),
            Some((name, _)) => Err(SqlError::Query(format!(
                "the query has no parameter ':{name}', for which there is a value"
            ))),
        }
    }
}
