//! The report `strata analyze network`.

use std::net::SocketAddr;

use anyhow::Result;
use clap::{Args, ValueEnum};
use strata_analyze::reports::files::{By as FilesBy, FileCounter, Row as FileRow};
use strata_analyze::reports::network::{
    By, Drops, Fate, NetworkCounter, NetworkReport, Peer, Role, Row, SlowConnect, Sums,
};
use strata_analyze::reports::program_groups::Common;
use strata_analyze::reports::{Times, QUANTILE_ERROR};
use strata_report::{Columns, Document, Figure, Part, Unit, Value};
use strata_session::stop::Stop;

use super::process_selection::{WhoseFlags, OF_PROCESSES};
use super::report_command::{CommonFlags, Made, EXIT_STATUS};
use super::report_text::show;
use super::rows::{by, length};
use crate::reading::number_parser::nr_kept;
use crate::reading::selection::SYNTAX;
use crate::units::{counted, size};

/// The most of the slowest connections that are kept.
const SLOWEST_MAX: usize = 100_000;
/// The rows of tables below the first one in text, without --top.
const SECTION_ROWS: usize = 10;

const COUNTED: &str = "\
What is counted:
  TCP connections, by the kernel's records of their states, of what
  their sockets send and receive, of segments that are sent again and
  of resets: what `-k network` records. Most of these are made in
  interrupts, in whatever thread that hits: record all (-a). With
  --filter, connections of which a record matches.
  A connection on one machine has two ends, and is counted for each.
  Bytes are what programs hand over and get; headers are not in them.
  Dropped packets, and answers that were sent again, are of the whole
  machine, and not shown with --of or --mine. Not each of these packets
  is a fault: NOT_SPECIFIED is said of many that are not.
  Sockets by their system calls are of every kind. They are in the
  trace if system calls were recorded, and have the other end only.
";

/// Flags of `strata analyze network`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{COUNTED}\n{SYNTAX}\n{EXIT_STATUS}"))]
#[command(mut_arg("of", |of| of.help(OF_PROCESSES)))]
pub struct NetworkFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// A row for each process and peer, for each connection, for each process, for each name, for each container or pod
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    #[command(flatten)]
    whose: WhoseFlags,

    /// Show the N connections that took longest to connect, one row for each
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = nr_kept)]
    slowest: usize,
}

/// The value of `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// One row for each process and peer
    #[default]
    Peer,
    /// One row for each connection
    Connection,
    /// One row for each process, with all its connections
    Process,
    /// One row for each name, with all connections of its processes
    #[value(alias = "program")]
    Name,
    /// One row for each container, systemd unit or control group
    #[value(aliases = ["unit", "cgroup"])]
    Container,
    /// One row for each pod of Kubernetes
    Pod,
}

/// Makes the report, and returns the exit status.
pub fn run(flags: &NetworkFlags, stop: &Stop) -> Result<u8> {
    let (reader, range) = flags.common.open()?;
    let whose = flags.whose.read(&reader, "network", stop)?;
    let by = match flags.by {
        ByFlag::Peer => By::Peer,
        ByFlag::Connection => By::Connection,
        ByFlag::Process => By::Process,
        ByFlag::Name => By::Together(Common::Name),
        ByFlag::Container => By::Together(Common::Container),
        ByFlag::Pod => By::Together(Common::Pod),
    };
    let connections = NetworkCounter::new(range, by, whose.kept(flags.slowest, SLOWEST_MAX));
    let mut counter = (connections, FileCounter::new(range, 0));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let (connections, files) = counter;
    let mut report = connections.finish(world, &|label| wanted.has(label));
    let found = report.slowest.len();
    report.slowest.truncate(flags.slowest);
    let tried = report.all.connect.count + report.all.failed;
    whose.say_fewer(found, flags.slowest, SLOWEST_MAX, tried, "slowest connections");
    let mut sockets = files.finish(world, FilesBy::File, &|label| wanted.has(label)).rows;
    sockets.retain(|row| row.kind == "socket");
    if whose.is_any() {
        report.drops.clear();
        (report.synack_retransmits, report.resets_sent) = (0, 0);
    }
    show(&flags.common, "network", &made, &document(&report, &sockets, &made, flags))?;
    let is_empty = report.rows.is_empty() && sockets.is_empty() && report.drops.is_empty();
    let is_asked = whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        is_empty,
        is_asked,
        "no connection, socket or dropped packet matches what was asked for",
        "the trace has no connection, and no system call of a socket. Record some: \
                 strata record -a -k default,network",
    ))
}

/// Adds the columns of sums that each row and the whole report have.
fn sums<'a, R: 'a>(
    columns: Columns<'a, R>,
    get: impl Fn(&R) -> &Sums + Copy + 'a,
) -> Columns<'a, R> {
    columns
        .both("sent", "sent_bytes", Unit::Bytes, move |row| get(row).sent.into())
        .both("received", "received_bytes", Unit::Bytes, move |row| get(row).received.into())
        .both("again", "retransmits", Unit::SomeCount, move |row| get(row).retransmits.into())
        .both("failed", "failed", Unit::SomeCount, move |row| get(row).failed.into())
        .both("resets", "resets", Unit::SomeCount, move |row| get(row).resets.into())
        .key("open", move |row| get(row).open.into())
        .key("connect_count", move |row| get(row).connect.count.into())
        .key("connect_p99_ns", move |row| figure(&get(row).connect, |it| it.quantile(0.99)))
        .key("lasted_p50_ns", move |row| figure(&get(row).lasted, |it| it.quantile(0.5)))
}

/// Returns a statistic of times, such as the median; `null` if there are no times.
fn figure(times: &Times, of: impl Fn(&Times) -> u64) -> Value {
    (times.count > 0).then(|| of(times)).into()
}

fn document(
    report: &NetworkReport,
    sockets: &[FileRow],
    made: &Made,
    flags: &NetworkFlags,
) -> Document {
    let all = &report.all;
    let mut document = Document::new(format!(
        "{} in {}: {} sent, {} received, {} sent again, {} failed",
        counted(all.connections, "connection"),
        length(made.nanos()),
        size(all.sent),
        size(all.received),
        counted(all.retransmits, "segment"),
        all.failed,
    ));
    document.fact("by", by(&flags.by));
    document.fact("quantile_error", QUANTILE_ERROR);
    let whole =
        sums(Columns::new(), |all: &Sums| all).key("connections", |all| all.connections.into());
    document.fact("all", Value::Record(whole.record(all)));
    document.fact("synack_retransmits", report.synack_retransmits);
    document.fact("resets_sent", report.resets_sent);
    document.fact("connections_left_out", report.left_out);
    document.rows(rows(report, flags), report.rows.len());
    if all.connect.count > 0 {
        document.push(Part::lengths("connects", &all.connect.spread));
    }
    notes(&mut document, report);
    document.push(slowest(report));
    document.push(drops(report));
    document.push(of_sockets(sockets, flags));
    document
}

fn rows(report: &NetworkReport, flags: &NetworkFlags) -> strata_report::Table {
    let (is_one, has_peer) =
        (flags.by == ByFlag::Connection, matches!(flags.by, ByFlag::Peer | ByFlag::Connection));
    let mut columns = Columns::new().shown(
        match flags.by {
            ByFlag::Name => "program",
            ByFlag::Container => "container",
            ByFlag::Pod => "pod",
            ByFlag::Peer | ByFlag::Connection | ByFlag::Process => "process",
        },
        Unit::Label,
        |row: &Row| {
            if row.label == Default::default() {
                Value::None
            } else {
                Value::label(&row.label)
            }
        },
    );
    if has_peer {
        columns = columns.shown("peer", Unit::Text, |row| peer_text(row).into());
    }
    columns = match is_one {
        true => columns.shown("state", Unit::Text, |row| row.fate.map(Fate::name).into()),
        false => columns.shown("count", Unit::Count, |row| row.sums.connections.into()),
    };
    let p50 = |row: &Row| figure(&row.sums.connect, |it| it.quantile(0.5));
    let max = |row: &Row| figure(&row.sums.connect, |it| it.max);
    let lasted = |row: &Row| figure(&row.sums.lasted, |it| it.max);
    columns = sums(columns, |row: &Row| &row.sums);
    columns = match is_one {
        true => columns
            .both("connect", "connect_max_ns", Unit::Nanos, max)
            .both("lasted", "lasted_max_ns", Unit::Nanos, lasted)
            .key("connect_p50_ns", p50),
        false => columns
            .both("connect p50", "connect_p50_ns", Unit::Nanos, p50)
            .both("max", "connect_max_ns", Unit::Nanos, max)
            .key("lasted_max_ns", lasted),
    };
    let columns = columns
        .label_keys(|row| Value::label(&row.label))
        .key("connections", |row| row.sums.connections.into())
        .key("role", |row| row.role.map(Role::name).into())
        .key("peer", |row| peer_key(row.peer).into())
        .key("port", |row| match row.peer {
            Some(Peer::AtPort(_, port)) => Value::Uint(port.into()),
            _ => Value::None,
        })
        .key("local", |row| row.local.as_ref().map(SocketAddr::to_string).into())
        .key("state", |row| row.fate.map(Fate::name).into())
        .key("time_ns", |row| row.begin.into());
    let shown = report.rows.get(..flags.common.rows()).unwrap_or(&report.rows);
    columns.rows(shown)
}

/// Returns the other end of a row's connections for people.
fn peer_text(row: &Row) -> String {
    let local = row.local.map(|local| local.port());
    match (row.role, row.peer) {
        (Some(Role::Connects), Some(Peer::Address(peer))) => format!("to {peer}"),
        (Some(Role::Accepts), Some(Peer::Address(peer))) => {
            format!(
                "from {peer}{}",
                local.map(|port| format!(" at port {port}")).unwrap_or_default()
            )
        }
        (_, Some(Peer::AtPort(ip, port))) => format!("from {ip} at port {port}"),
        (_, Some(Peer::Address(peer))) => format!("with {peer}"),
        (_, None) => "not in the trace".to_owned(),
    }
}

/// Returns the other end for programs: address and port, or the address where connections come from many ports.
fn peer_key(peer: Option<Peer>) -> Option<String> {
    peer.map(|peer| match peer {
        Peer::Address(peer) => peer.to_string(),
        Peer::AtPort(ip, _) => ip.to_string(),
    })
}

fn notes(document: &mut Document, report: &NetworkReport) {
    let mut note = |text: String| document.push(Part::Note(text));
    if !report.has_states {
        note(
            "no states of connections were recorded: strata record -a -k default,network. Below is what \
             system calls say"
                .to_owned(),
        );
    } else if !report.has_bytes {
        note(
            "what sockets send and receive was not recorded (sock_send_length and sock_recv_length, from \
             Linux 6.3 on)"
                .to_owned(),
        );
    }
    if report.left_out > 0 {
        note(format!(
            "{} for which there was no room, not in the table",
            counted(report.left_out, "record of connections")
        ));
    }
    let counts = [
        (report.synack_retransmits, "answer", "to those who connect sent again"),
        (report.resets_sent, "reset", "sent"),
    ];
    for (number, noun, what) in counts.into_iter().filter(|(number, ..)| *number > 0) {
        note(format!("{} {what}", counted(number, noun)));
    }
}

fn slowest(report: &NetworkReport) -> Part {
    let columns = Columns::new()
        .both("begin", "time_ns", Unit::Time, |slow: &SlowConnect| slow.begin.into())
        .both("took", "duration_ns", Unit::Nanos, |slow| slow.nanos.into())
        .both("thread", "", Unit::Label, |slow| Value::label(&slow.label))
        .both("to", "peer", Unit::Text, |slow| slow.peer.as_ref().map(SocketAddr::to_string).into())
        .shown("", Unit::Text, |slow| match slow.fate {
            Fate::Open => Value::None,
            fate => fate.name().into(),
        })
        .key("result", |slow| match slow.fate {
            Fate::Open => "established".into(),
            fate => fate.name().into(),
        });
    Part::section("The slowest to connect", "slowest", columns.rows(&report.slowest))
}

fn drops(report: &NetworkReport) -> Part {
    let columns = Columns::new()
        .shown("reason", Unit::Text, |drops: &Drops| {
            let machine = drops.machine.as_ref().map(|machine| format!("{machine}: "));
            let reason = if drops.reason.is_empty() { "not said" } else { &drops.reason };
            format!("{}{reason}", machine.unwrap_or_default()).into()
        })
        .both("packets", "count", Unit::Count, |drops| drops.count.into())
        .both("first", "first_ns", Unit::Time, |drops| drops.first.into())
        .both("last", "last_ns", Unit::Time, |drops| drops.last.into())
        .key("reason", |drops| Value::some_text(drops.reason.as_str()))
        .some_key("machine", |drops| drops.machine.clone().into());
    Part::section("Packets that the kernel has dropped", "drops", columns.rows(&report.drops))
}

fn of_sockets(sockets: &[FileRow], flags: &NetworkFlags) -> Part {
    let columns = Columns::new()
        .both("process", "", Unit::Label, |row: &FileRow| Value::label(&row.label))
        .both("socket", "name", Unit::Text, |row| row.name.as_str().into())
        .shown("calls", Unit::Count, |row| row.times.count.into())
        .both("read", "read_bytes", Unit::Bytes, |row| row.read.into())
        .both("written", "written_bytes", Unit::Bytes, |row| row.written.into())
        .both("errors", "errors", Unit::SomeCount, |row| row.errors.into())
        .times(&[("total", Figure::Total), ("max", Figure::Max)], |row| &row.times);
    let rows = match flags.common.top {
        Some(top) => top.get(),
        None => flags.common.rows().min(SECTION_ROWS),
    };
    let shown = sockets.get(..rows).unwrap_or(sockets);
    Part::section("Sockets, by their system calls", "sockets", columns.rows(shown))
        .of(sockets.len())
}
