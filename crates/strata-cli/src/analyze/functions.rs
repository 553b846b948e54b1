//! The report `strata analyze flame` as a table of functions and stacks.

use std::num::NonZeroUsize;

use strata_analyze::reports::flame::{Flame, Weigh};
use strata_analyze::reports::frames::OTHERS;
use strata_analyze::reports::functions::{functions, heaviest, Function, Stack};
use strata_report::{Columns, Document, Part, Unit, Value};

use super::report_command::{Format, Made, ROWS};
use super::rows::length;
use crate::units::counted;

/// Default limit on the stacks of a text.
const STACKS: usize = 5;
/// The keys of a function's own weight and of a weight with calls: of counts, and of times.
const OWN_KEYS: (&str, &str) = ("own_count", "own_ns");
const WEIGHT_KEYS: (&str, &str) = ("count", "total_ns");

/// Makes the document of the functions and the heaviest stacks.
pub fn document(
    flame: &Flame,
    weigh: Weigh,
    made: &Made,
    (top, format): (Option<NonZeroUsize>, Format),
) -> Document {
    let all = functions(flame);
    let most = |of_text| match (top, format) {
        (Some(top), _) => top.get(),
        (None, Format::Text) => of_text,
        (None, Format::Json | Format::Csv) => usize::MAX,
    };
    let what = match weigh {
        Weigh::Records => format!("{} with call stacks", counted(flame.total, "record")),
        Weigh::OffCpu => format!("{} of waits with call stacks", length(flame.total)),
        Weigh::OffWake => {
            format!("{} of waits with call stacks of both sides", length(flame.total))
        }
        Weigh::Spans => format!("{} in spans", length(flame.total)),
    };
    let known = all.iter().filter(|function| function.name != OTHERS).count();
    let others = if known < all.len() { " and others" } else { "" };
    let (time, number) = (length(made.nanos()), counted(known as u64, "function"));
    let mut document = Document::new(format!("{what} in {time}, {number}{others}"));
    document.fact("by", by(weigh));
    document.fact(weight_key(weigh), flame.total);
    document.fact("empty_stacks", flame.empty);
    document.fact("spans_elsewhere", flame.elsewhere);
    document.fact("stacks_left_out", flame.left_out);
    let share = |part: u64, all: u64| Value::Float(part as f64 / all.max(1) as f64);
    let heaviest_own = all.first().map_or(0, |row| row.own);
    let columns = weights(Columns::new(), weigh, "itself", OWN_KEYS, |row: &Function| row.own)
        .both("share", "share", Unit::Share, |row| share(row.own, flame.total))
        .shown("", Unit::Bar, |row| share(row.own, heaviest_own));
    let columns = weights(columns, weigh, "with calls", WEIGHT_KEYS, |row| row.total)
        .both("function", "name", Unit::Text, |row| Value::text(&row.name))
        .both("process", "", Unit::Label, |row| Value::label(&row.label));
    let shown = all.get(..most(ROWS)).unwrap_or(&all);
    document.rows(columns.rows(shown), all.len());
    let stacks = heaviest(flame, most(STACKS));
    let columns =
        weights(Columns::new(), weigh, "weight", WEIGHT_KEYS, |stack: &Stack| stack.weight)
            .shown("share", Unit::Share, |stack| share(stack.weight, flame.total))
            .both("process", "", Unit::Label, |stack| Value::label(&stack.label))
            .both("stack, the innermost first", "name", Unit::Text, |stack| {
                Value::text(&stack.name)
            })
            .nested("frames", |stack| stack.frames.iter().map(|frame| &**frame).collect());
    document.push(Part::section("The heaviest stacks", "stacks", columns.rows(&stacks)));
    document
}

/// Returns the key in JSON for the sum of all weights: a number of records, or a time.
fn weight_key(weigh: Weigh) -> &'static str {
    match weigh {
        Weigh::Records => WEIGHT_KEYS.0,
        Weigh::OffCpu | Weigh::OffWake | Weigh::Spans => WEIGHT_KEYS.1,
    }
}

/// Adds a column for weights, under the first of two keys if they are counts and under the second if they are times. A
/// row has one of the keys; CSV has both columns, since without `--by` the trace decides on the weight.
fn weights<'a, R: 'a>(
    columns: Columns<'a, R>,
    weigh: Weigh,
    title: &'static str,
    (of_counts, of_times): (&'static str, &'static str),
    get: impl Fn(&R) -> u64 + 'a,
) -> Columns<'a, R> {
    let get = move |row: &R| get(row).into();
    match weigh {
        Weigh::Records => {
            columns.both(title, of_counts, Unit::Count, get).some_key(of_times, |_| Value::None)
        }
        Weigh::OffCpu | Weigh::OffWake | Weigh::Spans => {
            columns.some_key(of_counts, |_| Value::None).both(title, of_times, Unit::Nanos, get)
        }
    }
}

/// Returns the value of `--by` for a weight.
fn by(weigh: Weigh) -> &'static str {
    match weigh {
        Weigh::Records => "records",
        Weigh::OffCpu => "offcpu",
        Weigh::OffWake => "offwake",
        Weigh::Spans => "spans",
    }
}
