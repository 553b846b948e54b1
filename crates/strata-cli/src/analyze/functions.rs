//! The report `strata analyze flame` as a table of functions and stacks.

use std::num::NonZeroUsize;

use strata_analyze::reports::flame::{Flame, Weigh};
use strata_analyze::reports::functions::{functions, heaviest, Function, Stack};
use strata_report::{Columns, Document, Part, Unit, Value};

use super::common::{Format, Made, ROWS};
use super::rows::length;
use crate::talk::units::counted;

/// Default limit on the stacks of a text.
const STACKS: usize = 5;

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
        Weigh::Spans => format!("{} in spans", length(flame.total)),
    };
    let (time, number) = (length(made.nanos()), counted(all.len() as u64, "function"));
    let mut document = Document::new(format!("{what} in {time}, {number}"));
    // Stacks that are weighed by time have no count.
    let (weight, own_key, weight_key) = match weigh {
        Weigh::Records => (Unit::Count, "own_count", "count"),
        Weigh::OffCpu | Weigh::Spans => (Unit::Nanos, "own_ns", "total_ns"),
    };
    document.fact("by", by(weigh));
    document.fact(weight_key, flame.total);
    document.fact("empty_stacks", flame.empty);
    document.fact("spans_elsewhere", flame.elsewhere);
    document.fact("stacks_left_out", flame.left_out);
    let share = |part: u64, all: u64| Value::Float(part as f64 / all.max(1) as f64);
    let heaviest_own = all.first().map_or(0, |row| row.own);
    let columns = Columns::new()
        .both("itself", own_key, weight, |row: &Function| row.own.into())
        .both("share", "share", Unit::Share, |row| share(row.own, flame.total))
        .shown("", Unit::Bar, |row| share(row.own, heaviest_own))
        .both("with calls", weight_key, weight, |row| row.total.into())
        .both("function", "name", Unit::Text, |row| Value::text(&row.name))
        .both("process", "", Unit::Label, |row| Value::label(&row.label));
    let shown = all.get(..most(ROWS)).unwrap_or(&all);
    document.rows(columns.rows(shown), all.len());
    let stacks = heaviest(flame, most(STACKS));
    let columns = Columns::new()
        .both("weight", weight_key, weight, |stack: &Stack| stack.weight.into())
        .shown("share", Unit::Share, |stack| share(stack.weight, flame.total))
        .both("process", "", Unit::Label, |stack| Value::label(&stack.label))
        .both("stack, the innermost first", "name", Unit::Text, |stack| Value::text(&stack.name))
        .key("frames", |stack| stack.frames.iter().map(|frame| &**frame).collect());
    document.push(Part::section("The heaviest stacks", "stacks", columns.rows(&stacks)));
    document
}

/// Returns the value of `--by` for a weight.
fn by(weigh: Weigh) -> &'static str {
    match weigh {
        Weigh::Records => "records",
        Weigh::OffCpu => "offcpu",
        Weigh::Spans => "spans",
    }
}
