//! Combines the requests of several rules for the records of one event.

use strata_filter::Filter;

use crate::error::SessionError;

/// The requested records of an event's entry or exit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum EndRecords {
    #[default]
    None,
    /// Only records that pass at least one of these filters.
    Some(Vec<String>),
    All,
}

impl EndRecords {
    /// Adds the records that pass `filter`, or all records without a filter.
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

    /// Returns the filter that passes all requested records; `None` if it is not needed.
    pub(super) fn filter(&self) -> Result<Option<Filter>, SessionError> {
        let EndRecords::Some(texts) = self else { return Ok(None) };
        let text = match &texts[..] {
            [text] => text.clone(),
            texts => texts.iter().map(|text| format!("({text})")).collect::<Vec<_>>().join(" || "),
        };
        Filter::parse(&text).map(Some).map_err(|error| SessionError::Filters(Box::new(error)))
    }
}
