//! Results of parsing a part of the text.

use std::ops::Range;

use crate::error::Problem;

pub(crate) type TextSpan = Range<usize>;
pub(super) type Result<T> = std::result::Result<T, (Problem, TextSpan)>;
