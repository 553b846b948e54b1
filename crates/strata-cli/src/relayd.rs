//! The server `strata relayd`, which writes the traces of other hosts.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use clap::{Args, ValueHint};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use strata_analyze::duration_text::parse_duration;
use strata_remote::{
    make_certificates, Address, AddressProblem, Certificates, KeepRules, Limits, LogLimit, Page,
    PageServer, RelayEvent, Relayd, ViewRights, ViewerServer, METRICS_CONTENT_TYPE,
};
use strata_session::stop::Stop;
use strata_text::clean;

use crate::sessions::service;
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::units::{parse_size, shell_word, size};

const SEE_ALSO: &str = "\
For a first try, on the machine that is to have the traces:
  strata relayd --make-certificates certificates relay.example web1 web2
  strata relayd --listen 0.0.0.0 --output traces \\
    --certificates certificates/relay.example
and on web1, with a copy of certificates/web1:
  strata record --to relay.example,certificates=web1 -- ./server

Traces are in OUTPUT/HOST/RECORDING and are read as any others, also while
they are recorded: strata view --follow OUTPUT/HOST/RECORDING

A recorder continues where it was after the relay was stopped or killed and
started again.

Exit status:
  0  ended by Ctrl-C or SIGTERM
  2  the address, the folder or the certificates cannot be used";

/// Flags of `strata relayd`.
#[derive(Debug, Args)]
#[command(after_help = SEE_ALSO)]
pub struct RelaydFlags {
    /// Listen at this address
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1", value_parser = parse_address)]
    listen: Address,

    /// Write traces below DIR
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath, required_unless_present = "make_certificates")]
    output: Option<PathBuf>,

    /// Read ca.pem, certificate.pem and key.pem in DIR; recorders must present a certificate of that authority, for their name
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    certificates: Option<PathBuf>,

    /// Listen at a network address without TLS: everybody there can read and write traces
    #[arg(long, conflicts_with = "certificates")]
    insecure: bool,

    /// Limit the bytes of all recordings of one host
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64G")]
    max_host_size: u64,

    /// Limit the number of recordings of one host
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    max_host_recordings: u64,

    /// Limit the number of connections
    #[arg(long, value_name = "N", default_value_t = 4096)]
    max_connections: u64,

    /// Force what has come to the disk at least every TIME, and acknowledge it then; never: acknowledge what is written, which
    /// may be missing after a loss of power
    #[arg(long, value_name = "TIME|never", value_parser = parse_sync, default_value = "1s")]
    sync: Sync,

    /// Take no more memory than this for messages that are being received, of all hosts together
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256M")]
    max_memory: u64,

    /// Hand each recording that has ended to CMD, which the shell runs with the folder in $STRATA_PART; again until it exits with
    /// status 0
    #[arg(long, value_name = "CMD", value_hint = ValueHint::CommandString)]
    on_part: Option<String>,

    /// Remove recordings that ended longer ago than TIME; with --on-part only those that it has taken
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    keep_age: Option<Duration>,

    /// Remove the oldest recordings that have ended while all have more than SIZE; with --on-part only those that it has taken
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    keep_size: Option<u64>,

    /// Answer GET /metrics with figures for Prometheus and GET /health with 200 or 503, by HTTP, at this address
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    metrics: Option<Address>,

    /// Let viewers of LTTng's live protocol, such as babeltrace2, read all recordings at this address of the loopback interface
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = parse_live)]
    live: Option<Address>,

    /// Let who presents a certificate for one of these names read all hosts' recordings (strata view --follow
    /// net://RELAY/HOST/RECORDING), or everybody who may connect (all); otherwise each host may read its own
    #[arg(long, value_name = "NAME|all", value_delimiter = ',')]
    viewers: Vec<String>,

    /// Make an authority in DIR, and a folder with certificate and key for each NAME (of the relay and of hosts)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "names")]
    make_certificates: Option<PathBuf>,

    /// Names or addresses for --make-certificates
    #[arg(value_name = "NAME", requires = "make_certificates")]
    names: Vec<String>,
}

fn parse_address(text: &str) -> Result<Address, AddressProblem> {
    Address::parse_local(text)
}

/// Period of checking for counted refusals that are to be reported.
const LOG_PERIOD: Duration = Duration::from_secs(10);

/// Port of LTTng's live protocol.
const LIVE_PORT: u16 = 5344;

fn parse_live(text: &str) -> Result<Address, String> {
    let mut address = Address::parse_local(text).map_err(|problem| problem.to_string())?;
    let has_port =
        text.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    if !has_port {
        address.port = LIVE_PORT;
    }
    Ok(address)
}

/// The value of `--sync`.
#[derive(Clone, Copy, Debug)]
struct Sync(Option<Duration>);

fn parse_sync(text: &str) -> Result<Sync, String> {
    match text {
        "never" => Ok(Sync(None)),
        _ => Ok(Sync(Some(parse_duration(text).map_err(|error| error.to_string())?))),
    }
}

impl RelaydFlags {
    fn view_rights(&self) -> ViewRights {
        match &self.viewers[..] {
            [] => ViewRights::Own,
            names if names.iter().any(|name| name == "all") => ViewRights::All,
            names => ViewRights::Names(names.to_vec()),
        }
    }
}

/// Runs the relay until a signal ends it.
pub fn run(flags: &RelaydFlags) -> Result<u8> {
    if let Some(folder) = &flags.make_certificates {
        for made in make_certificates(folder, &flags.names)? {
            say(Weight::Talk, format!("made {}", shell_word(&made.display().to_string())));
        }
        return Ok(0);
    }
    let Some(output) = &flags.output else { bail!("relayd: name a folder with --output") };
    let address = address_of(&flags.listen)?;
    let tls = match &flags.certificates {
        Some(folder) => Some(Certificates::read(folder)?.server()?),
        None if address.ip().is_loopback() || flags.insecure => None,
        None => bail!(
            "relayd: {address} can be reached from other machines, and without --certificates everybody there could read \
             and write traces. Name a folder of certificates (strata relayd --make-certificates DIR NAME...), or add --insecure"
        ),
    };
    let with_tls = if tls.is_some() { "by TLS" } else { "without TLS" };
    let limits = Limits {
        host_bytes: flags.max_host_size,
        host_sessions: flags.max_host_recordings,
        connections: flags.max_connections,
        sync: flags.sync.0,
        memory: flags.max_memory,
        viewers: flags.view_rights(),
        ..Limits::default()
    };
    raise_descriptors();
    let stop = Stop::on_signals()?;
    stop.outlive_others()?;
    strata_session::give_up_rights();
    let log_limit = Arc::new(LogLimit::default());
    let log = {
        let limit = Arc::clone(&log_limit);
        move |event| {
            if let Some(event) = limit.take(event, Instant::now()) {
                print_event(&event);
            }
        }
    };
    let relayd = Relayd::new(address, output, tls, limits, Box::new(log.clone()));
    let relayd = Arc::new(relayd.map_err(|why| anyhow::anyhow!("relayd: {why}"))?);
    let address = relayd.address().context("relayd: its address is not known")?;
    say(
        Weight::Talk,
        format!(
            "listening at {address} {with_tls}, writing to {}; Ctrl-C stops",
            shell_word(&output.display().to_string())
        ),
    );
    let pages = match &flags.metrics {
        Some(at) => Some(listen_for_monitors(at)?),
        None => None,
    };
    let viewers = match &flags.live {
        Some(at) => Some(listen_for_viewers(at, output, flags.insecure)?),
        None => None,
    };
    service::is_ready();
    let rules =
        KeepRules { on_part: flags.on_part.clone(), age: flags.keep_age, size: flags.keep_size };
    let served = std::thread::scope(|scope| {
        scope.spawn(|| relayd.keep(&rules, &|| stop.requests() > 0));
        if let Some(viewers) = &viewers {
            scope.spawn(|| {
                let has_recorder = |host: &str, folder: &Path| relayd.has_recorder(host, folder);
                viewers.serve(&has_recorder, &log, &|| stop.requests() > 0);
            });
        }
        if let Some(pages) = &pages {
            scope.spawn(|| pages.serve(&|path| page(&relayd, path), &|| stop.requests() > 0));
        }
        let serving = scope.spawn(|| {
            let served = relayd.serve();
            stop.request(0);
            served
        });
        while stop.requests() == 0 {
            stop.wait(Some(LOG_PERIOD));
            log_limit.due(Instant::now(), false).iter().for_each(print_event);
        }
        relayd.stop();
        serving.join()
    });
    log_limit.due(Instant::now(), true).iter().for_each(print_event);
    match served {
        Ok(served) => served.context("relayd: cannot go on")?,
        Err(_) => bail!("relayd: it has panicked"),
    }
    Ok(0)
}

/// Raises the limit on open files as far as this user may: each trace of a recording holds some, and shells allow
/// 1,024.
fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // What is allowed now suffices for some recorders.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Listens for monitors.
fn listen_for_monitors(at: &Address) -> Result<PageServer> {
    let address = address_of(at)?;
    let pages = PageServer::listen(address);
    let pages = pages.with_context(|| format!("relayd: cannot listen at --metrics {address}"))?;
    let address = pages.address().context("relayd: its address is not known")?;
    say(Weight::Talk, format!("metrics and health at http://{address}/metrics and /health"));
    Ok(pages)
}

/// Listens for viewers, which neither authenticate nor encrypt: only on the loopback interface, unless everybody may
/// read.
fn listen_for_viewers(at: &Address, output: &Path, is_insecure: bool) -> Result<ViewerServer> {
    let address = address_of(at)?;
    if !address.ip().is_loopback() && !is_insecure {
        bail!(
            "relayd: --live {address} can be reached from other machines, and LTTng's live protocol knows neither who asks nor \
             encryption. Listen at 127.0.0.1, and reach it by ssh -L {LIVE_PORT}:127.0.0.1:{LIVE_PORT}, or add --insecure"
        );
    }
    let viewers = ViewerServer::listen(address, output);
    let viewers = viewers.with_context(|| format!("relayd: cannot listen at --live {address}"))?;
    let address = viewers.address().context("relayd: its address is not known")?;
    say(
        Weight::Talk,
        format!("viewers: babeltrace2 -i lttng-live net://{address}/host/HOST/RECORDING"),
    );
    Ok(viewers)
}

/// Returns the page for a monitor's request.
fn page(relayd: &Relayd, path: &str) -> Option<Page> {
    let plain = |status, body| Page { status, content_type: "text/plain", body };
    match path {
        "/metrics" => {
            let (content_type, body) = (METRICS_CONTENT_TYPE, relayd.metrics());
            Some(Page { status: 200, content_type, body })
        }
        "/health" => Some(match relayd.health() {
            Ok(()) => plain(200, "it is well\n".to_owned()),
            Err(why) => plain(503, format!("{why}\n")),
        }),
        _ => None,
    }
}

/// Returns the first socket address of an address to listen at.
fn address_of(listen: &Address) -> Result<SocketAddr> {
    let found = (listen.host.as_str(), listen.port).to_socket_addrs();
    let found = found.with_context(|| format!("relayd: --listen {listen}"))?.next();
    found.with_context(|| format!("relayd: --listen {listen}: there is no such address"))
}

fn print_event(event: &RelayEvent) {
    match event {
        RelayEvent::Connected { host, folder, next: 0 } => {
            say(
                Weight::Talk,
                format!("{host}: records to {}", shell_word(&folder.display().to_string())),
            );
        }
        RelayEvent::Connected { host, folder, next } => say(
            Weight::Talk,
            format!(
                "{host}: goes on with message {next} of {}",
                shell_word(&folder.display().to_string())
            ),
        ),
        RelayEvent::Left { host, folder, is_complete, why, bytes } => {
            let folder = shell_word(&folder.display().to_string());
            let bytes = size(*bytes);
            match (is_complete, why) {
                (true, _) => {
                    say(Weight::Talk, format!("{host}: {folder} is complete, {bytes} came"))
                }
                (false, why) => say(
                    Weight::Warning,
                    format!(
                        "{host}: the connection for {folder} has ended, {bytes} came: {}",
                        clean(why.as_deref().unwrap_or("it was closed"))
                    ),
                ),
            }
        }
        RelayEvent::Full { host, is_full: true, most } => say(
            Weight::Warning,
            format!(
                "{host}: its recordings have reached their limit of {}: what comes is discarded and counted (quota). Remove \
                 some of its recordings, or raise --max-host-size",
                size(*most)
            ),
        ),
        RelayEvent::Full { host, is_full: false, .. } => {
            say(Weight::Talk, format!("{host}: there is room again for its recordings"));
        }
        RelayEvent::Refused { peer, why } => {
            say(Weight::Warning, format!("{peer} was refused: {}", clean(why)));
        }
        RelayEvent::Delivered { folder, took } => {
            let folder = shell_word(&folder.display().to_string());
            let took = took.as_secs_f64();
            say(Weight::Talk, format!("{folder} was delivered by --on-part in {took:.1} s"));
        }
        RelayEvent::DeliversAgain { folder, attempt } => {
            let folder = shell_word(&folder.display().to_string());
            let text = format!(
                "--on-part: {folder} is handed over once more (attempt {attempt}): the relay ended during the attempt before, \
                 which may have taken all or some of it"
            );
            say(Weight::Warning, text);
        }
        RelayEvent::NotDelivered { folder, why, pause } => {
            let folder = shell_word(&folder.display().to_string());
            let pause = pause.as_secs();
            let text =
                format!("--on-part: {folder} was not delivered: {why}. Tried again in {pause} s");
            say(Weight::Warning, text);
        }
        RelayEvent::Removed { folder, bytes } => {
            let folder = shell_word(&folder.display().to_string());
            say(Weight::Talk, format!("{folder} was removed, {}", size(*bytes)));
        }
        RelayEvent::Trouble(why) => say(Weight::Failure, clean(why)),
        RelayEvent::Repeated { event, times, within } => {
            let (times, within) = (times_more(*times), within.as_secs());
            match &**event {
                RelayEvent::Refused { peer, why } => say(
                    Weight::Warning,
                    format!("{} was refused {times} within {within} s: {}", peer.ip(), clean(why)),
                ),
                RelayEvent::Trouble(why) => {
                    say(Weight::Failure, format!("{times} within {within} s: {}", clean(why)))
                }
                // Nothing else is only counted.
                _ => {}
            }
        }
        RelayEvent::RefusedOthers { times, within } => {
            let within = within.as_secs();
            let text = format!(
                "{times} connections were refused within {within} s that have no line here: of many addresses, or for many \
                 reasons"
            );
            say(Weight::Warning, text);
        }
    }
}

fn times_more(times: u64) -> String {
    match times {
        1 => "once more".to_owned(),
        _ => format!("{times} more times"),
    }
}

fn say(weight: Weight, text: String) {
    stderr::message(&Message { weight, text });
}
