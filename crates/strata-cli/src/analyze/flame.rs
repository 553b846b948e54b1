//! The report `strata analyze flame`: folded stacks, and speedscope's JSON. functions.rs has the other layouts.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::num::NonZeroUsize;

use anyhow::{bail, Result};
use clap::{Args, ValueEnum};
use serde_json::{json, Value};
use strata_analyze::reports::flame::{has_stacks, Flame, FlameMaker, Weigh};
use strata_session::stop::Stop;
use strata_timeline::Timeline;

use super::functions;
use super::process_selection::{MineFlags, Whose, BY_OF};
use super::report_command::{nothing, Format, NamesFlags, PairFlags, TraceFlags, EXIT_STATUS};
use super::report_text::in_format;
use crate::reading::selection::{OfFlags, SYNTAX};
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stdout;
use crate::units::{clean, counted};

/// Limit on the events that the text of the report names.
const EVENTS: usize = 3;

const STACKS: &str = "\
Stacks:
  records   each record with a call stack (contexts callstack_user and
            callstack_kernel) weighs 1. Where there are samples, only
            they count; otherwise those that --filter selects
  offcpu    each record of sched_switch with a call stack weighs as
            many nanoseconds as its thread was blocked from there on
  offwake   the same, and behind each stack '--', the stack with
            which its waker ended the wait, from the inside out, and
            who that was: a process, or [timer], [disk], [network]
  spans     spans of programs in each other, with the nanoseconds in
            each that are in none within it
  Without --by: records where there are stacks, else spans.

Formats (text on a terminal, else folded; with --top text):
  text        a table: what each function weighs by itself, and with
              all that it has called; and the heaviest stacks
  folded      'program;outer;inner 12' on a line for each stack, as
              flamegraph.pl and inferno take it; of the kernel:
              'name_[k]'
  speedscope  a JSON file for https://www.speedscope.app, which opens
              it in the browser and sends it nowhere
  json        one object; see the guide
  csv         the table of functions
";

/// Flags of `strata analyze flame`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{STACKS}\n{SYNTAX}\n{EXIT_STATUS}"))]
pub struct FlameFlags {
    #[command(flatten)]
    common: TraceFlags,

    #[command(flatten)]
    pairs: PairFlags,

    /// The weight of a stack [default: records where there are stacks, else spans]
    #[arg(long, value_enum)]
    by: Option<ByFlag>,

    #[command(flatten)]
    mine: MineFlags,

    #[command(flatten)]
    of: OfFlags,

    /// Only the N heaviest functions and stacks, of text, JSON and CSV [default: 20 and 5 in text, else all]
    #[arg(long, value_name = "N")]
    top: Option<NonZeroUsize>,

    /// Layout of the report [default: text on a terminal, else folded]
    #[arg(long, value_enum)]
    format: Option<FormatFlag>,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    #[command(flatten)]
    names: NamesFlags,
}

/// The value of `--by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// Records with call stacks
    Records,
    /// The time for which threads were blocked, by the stacks with which they left their CPUs
    Offcpu,
    /// The same time, by these stacks and those with which others woke the threads
    Offwake,
    /// The time in spans
    Spans,
}

/// The value of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatFlag {
    /// A table of functions, for people
    Text,
    /// A line for each stack, with its weight
    Folded,
    /// A JSON file for https://www.speedscope.app
    Speedscope,
    /// One JSON object; see the guide
    Json,
    /// The functions, a line for each
    Csv,
}

impl FlameFlags {
    fn layout(&self) -> Result<FormatFlag> {
        let is_for_people = self.top.is_some() || stdout::is_terminal();
        let default = if is_for_people { FormatFlag::Text } else { FormatFlag::Folded };
        let asked = if self.json { Some(FormatFlag::Json) } else { self.format };
        let format = asked.unwrap_or(default);
        if self.top.is_some() && matches!(format, FormatFlag::Folded | FormatFlag::Speedscope) {
            bail!("analyze flame: --top is of --format text, json and csv; a flame graph is made of all stacks. Leave one of the two out");
        }
        Ok(format)
    }
}

/// Makes the report, and returns the exit status.
pub fn run(flags: &FlameFlags, stop: &Stop) -> Result<u8> {
    let format = flags.layout()?;
    let (reader, range) = flags.common.open()?;
    let weigh = match flags.by {
        Some(ByFlag::Records) => Weigh::Records,
        Some(ByFlag::Offcpu) => Weigh::OffCpu,
        Some(ByFlag::Offwake) => Weigh::OffWake,
        Some(ByFlag::Spans) => Weigh::Spans,
        None if has_stacks(&reader) => Weigh::Records,
        None => Weigh::Spans,
    };
    if weigh == Weigh::Spans && flags.common.selection.filter().is_some() {
        bail!("analyze flame: --filter selects records with call stacks, and these are spans. Use --from and --until");
    }
    let whose = Whose::read(flags.of.words(), &flags.mine, &reader, ("flame", BY_OF), stop)?;
    let mut maker = FlameMaker::new(range, weigh, flags.names.source(&reader));
    let timeline = Timeline::with_spans(&reader, flags.pairs.roles(&reader));
    let Some(made) = flags.common.pass_on(timeline, &reader, range, &mut maker, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    flags.names.say_left_out();
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let flame = maker.finish(world, &|label| wanted.has(label));
    say(&flame, weigh);
    let is_empty = flame.total == 0;
    let table = |format| {
        let document = functions::document(&flame, weigh, &made, (flags.top, format));
        in_format(format, "flame", &made, &document, flags.common.selection.zone())
    };
    flags.common.write(&match format {
        FormatFlag::Text => table(Format::Text),
        FormatFlag::Json => table(Format::Json),
        FormatFlag::Csv => table(Format::Csv),
        FormatFlag::Folded => folded(&flame),
        FormatFlag::Speedscope => speedscope(&flame, weigh, &flags.common.traces.words()),
    })?;
    if is_empty {
        nothing(match (weigh, whose.is_any() || flags.common.selection.is_any()) {
            (_, true) => "no call stack or span matches what was asked for",
            (Weigh::Spans, _) => {
                "the traces have neither call stacks nor spans of programs. Record stacks: strata record \
                 --stack -k sched_switch -- COMMAND"
            }
            (Weigh::Records, _) => {
                "no record has a call stack. Record some: strata record --stack -k sched_switch -- \
                 COMMAND"
            }
            (Weigh::OffCpu | Weigh::OffWake, _) => {
                "no blocked thread has a call stack of the moment when it left its CPU. Record them: strata record \
                 --stack -k sched_switch,sched_waking -- COMMAND"
            }
        });
    }
    Ok(made.status(is_empty))
}

fn say(flame: &Flame, weigh: Weigh) {
    let note = |text| stderr::message(&Message { weight: Weight::Warning, text });
    if weigh == Weigh::Records && flame.events.len() > 1 {
        let mut most: Vec<&(String, u64)> = flame.events.iter().collect();
        most.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let most =
            most.iter().take(EVENTS).map(|(name, count)| format!("{} ({count})", clean(name)));
        note(format!(
            "records of {} events are added up, most of them {}. Choose by --filter",
            flame.events.len(),
            most.collect::<Vec<_>>().join(", ")
        ));
    }
    if flame.empty > 0 {
        note(format!("{} without an address: '[no stack]'", counted(flame.empty, "call stack")));
    }
    if flame.elsewhere > 0 {
        note(format!(
            "{} not shown: they begin and end in different threads, so that nothing tells which spans contain them",
            counted(flame.elsewhere, "span")
        ));
    }
    if flame.left_out > 0 {
        note(format!(
            "{} of more stacks than are told apart: in '[others]' of their process",
            counted(flame.left_out, "record")
        ));
    }
}

/// Converts a frame's name to one that folded stacks can contain.
fn word(name: &str) -> String {
    let name = clean(name);
    name.chars().map(|it| if it == ';' { ':' } else { it }).collect()
}

/// Returns the weight of each stack as `program;outer;inner`. Stacks of several processes with one name are added up.
pub fn folded_weights(flame: &Flame) -> HashMap<String, u64> {
    let mut lines: HashMap<String, u64> = HashMap::new();
    for profile in &flame.profiles {
        let process = word(&profile.name);
        for (frames, weight) in &profile.stacks {
            let mut line = process.clone();
            for frame in frames {
                line.push(';');
                line.push_str(&word(frame));
            }
            let known = lines.entry(line).or_default();
            *known = known.saturating_add(*weight);
        }
    }
    lines
}

fn folded(flame: &Flame) -> String {
    let mut out = String::new();
    let mut lines: Vec<(String, u64)> = folded_weights(flame).into_iter().collect();
    lines.sort();
    for (line, weight) in lines {
        let _ = writeln!(out, "{line} {weight}");
    }
    out
}

fn speedscope(flame: &Flame, weigh: Weigh, traces: &str) -> String {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut frames: Vec<Value> = Vec::new();
    let unit = if weigh == Weigh::Records { "none" } else { "nanoseconds" };
    let mut profiles: Vec<Value> = Vec::new();
    for profile in &flame.profiles {
        let mut samples: Vec<Vec<usize>> = Vec::new();
        let mut weights: Vec<u64> = Vec::new();
        for (stack, weight) in &profile.stacks {
            let sample = stack.iter().map(|name| {
                *numbers.entry(name).or_insert_with(|| {
                    frames.push(json!({ "name": **name }));
                    frames.len() - 1
                })
            });
            samples.push(sample.collect());
            weights.push(*weight);
        }
        let number = profile.pid.map_or(String::new(), |pid| format!(" ({pid})"));
        profiles.push(json!({
            "type": "sampled",
            "name": format!("{}{number}", profile.name),
            "unit": unit,
            "startValue": 0,
            "endValue": weights.iter().copied().fold(0, u64::saturating_add),
            "samples": samples,
            "weights": weights,
        }));
    }
    let object = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("strata ", env!("CARGO_PKG_VERSION")),
        "name": traces,
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": profiles,
    });
    strata_text::json::compact(&object) + "\n"
}
