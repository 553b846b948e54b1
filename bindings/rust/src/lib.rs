//! Trace events and spans of Rust programs, recorded by Strata.
//!
//! ```
//! use strata_events::{event, span, Level};
//!
//! fn sell(number: u32, customer: &str) {
//!     let _span = span!("shop", "sell", Level::Info, number = number);
//!     event!("shop", "sold", Level::Info, number = number, customer = customer);
//! }
//! # sell(1, "Ada");
//! ```
//!
//! A program with these lines runs unchanged where Strata is not installed: libstrata is loaded by `dlopen()` when the first
//! of them is reached, and without it they do nothing. [`availability`] says why. While nobody records an event, its line
//! is two loads, and its values are not evaluated. No value is formatted.
//!
//! Fields are numbers, `bool`, texts, and arrays and slices of numbers ([`Field`]). Texts and slices are passed by
//! reference. Names are those of the C interface (`strata/events.h`); an event that it refuses
//! is not recorded, and [`Provider::event`] says why.
//!
//! Events whose names the program learns when it runs are made by [`Provider`].
#![deny(missing_docs)]

mod class;
mod library;
mod site;
mod value;

use std::path::Path;

pub use class::{Class, Error, Event, Level, Provider, SpanClass};
pub use site::SpanGuard;
#[doc(hidden)]
pub use site::{Names, Site};
#[doc(hidden)]
pub use value::TypeProbe;
pub use value::{Field, FieldType, Scalar, Words};

/// Returns an error that says why events of this process cannot be recorded, if libstrata is not there.
///
/// # Errors
/// [`Error::NoLibrary`].
pub fn availability() -> Result<(), Error> {
    library::library().map(drop).map_err(|why| Error::NoLibrary(why.to_owned()))
}

/// Loads libstrata from a file, for programs that know where it is. Later events use it if none was used before.
///
/// # Errors
/// [`Error::NoLibrary`]: the loader's words.
pub fn load_library(file: &Path) -> Result<(), Error> {
    library::load_file(file).map_err(Error::NoLibrary)
}

/// Records an event with typed fields: `event!(PROVIDER, EVENT, LEVEL, FIELD = VALUE, …)`. The names are constants.
#[macro_export]
macro_rules! event {
    ($provider:expr, $event:expr, $level:expr $(, $field:ident = $value:expr)* $(,)?) => {{
        static SITE: $crate::Site<$crate::Event> = $crate::Site::new();
        if SITE.is_on().unwrap_or_else(|| {
            let names = $crate::Names {
                provider: $provider,
                event: $event,
                level: $level,
                place: (::core::file!(), ::core::line!()),
            };
            SITE.register_event(
                &names,
                &[$((::core::stringify!($field), $crate::field_type!($value))),*],
            )
        }) {
            if let ::core::option::Option::Some(event) = SITE.class() {
                #[allow(unused_mut, reason = "an event without fields adds no value")]
                let mut words = $crate::Words::new();
                $crate::record_values!(words, [$($value),*], event.record(&words));
            }
        }
    }};
}

/// Begins a span that ends with the scope of the returned [`SpanGuard`]: `let _span = span!(PROVIDER, SPAN, LEVEL, FIELD =
/// VALUE, …)`. The names are constants.
#[macro_export]
macro_rules! span {
    ($provider:expr, $span:expr, $level:expr $(, $field:ident = $value:expr)* $(,)?) => {{
        static SITE: $crate::Site<$crate::SpanClass> = $crate::Site::new();
        if SITE.is_on().unwrap_or_else(|| {
            let names = $crate::Names {
                provider: $provider,
                event: $span,
                level: $level,
                place: (::core::file!(), ::core::line!()),
            };
            SITE.register_span(
                &names,
                &[$((::core::stringify!($field), $crate::field_type!($value))),*],
            )
        }) {
            #[allow(unused_mut, reason = "a span without fields adds no value")]
            let mut words = $crate::Words::new();
            $crate::record_values!(words, [$($value),*], $crate::SpanGuard::begin(SITE.class(), &words))
        } else {
            $crate::SpanGuard::none()
        }
    }};
}

/// Returns the type of a value that is not evaluated.
#[doc(hidden)]
#[macro_export]
macro_rules! field_type {
    ($value:expr) => {{
        let probe = $crate::TypeProbe::new();
        let _ = || probe.is_of(&$value);
        probe.field_type()
    }};
}

/// Evaluates each value once, in order, and keeps all of them until `$then` has run.
#[doc(hidden)]
#[macro_export]
macro_rules! record_values {
    ($words:ident, [], $then:expr) => {
        $then
    };
    ($words:ident, [$first:expr $(, $value:expr)*], $then:expr) => {
        match &$first {
            value => {
                $words.push(value);
                $crate::record_values!($words, [$($value),*], $then)
            }
        }
    };
}
