//! Which records of an event several rules want together.

use strata_filter::Filter;

use crate::error::SessionError;

/// Of one event, which records of an end are recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum EndRecords {
    #[default]
    None,
    /// Those that one of these selects.
    Some(Vec<String>),
    All,
}

impl EndRecords {
    /// Those that pass, too; `None`: all.
    pub(super) fn add(&mut self, filter: Option<&Filter>) {
        match (&mut *self, filter) {
            (EndRecords::All, _) => {}
            (_, None) => *self = EndRecords::All,
            (EndRecords::None, Some(filter)) => {
                *self = EndRecords::Some(vec![filter.text().to_owned()])
            }
            (EndRecords::Some(texts), Some(filter)) => {
                if !texts.iter().any(|text| text == filter.text()) {
                    texts.push(filter.text().to_owned());
                }
            }
        }
    }

    /// `None`: all of them.
    pub(super) fn filter(&self) -> Result<Option<Filter>, SessionError> {
        let EndRecords::Some(texts) = self else { return Ok(None) };
        let text = match &texts[..] {
            [text] => text.clone(),
            texts => texts.iter().map(|text| format!("({text})")).collect::<Vec<_>>().join(" || "),
        };
        Filter::parse(&text).map(Some).map_err(|error| SessionError::Filters(Box::new(error)))
    }
}
