//! Defines the command line once for parsing, help, completions and man pages.
//!
//! ```text
//! flags.rs            Flags, Action: one variant for each command; the flags of record, list, status, top, view
//! ├─ sessions.rs      create, start, enable-event and the other commands of sessions, with LTTng's names
//! ├─ triggers.rs, snapshot.rs, boot.rs, relay.rs, live.rs     further commands, and flags of one topic
//! ├─ probes.rs, rules.rs, guest.rs, processes.rs, users_and_groups.rs     parsers of values
//! ├─ auto.rs         the flag --auto of earlier versions
//! ├─ output_format.rs --json or text, for all commands that answer
//! ├─ examples.rs      examples of each command, for help and man pages; a new command needs a row
//! ├─ record_help.rs   the long help of `record`, in groups
//! └─ completions.rs   shell completions and man pages, from the same definitions
//! ```
//!
//! A struct of flags only parses: a value that can be judged by itself is refused while parsing (`value_parser`), with
//! the value, the limit and what to write instead. What depends on the machine or on a session is checked by the
//! command. So `strata COMMAND --help`, a typo and a shell completion never open a file.
//!
//! To add a flag, add a field with a doc comment: its first line is the help text (at most 72 columns, no full stop),
//! the further ones are the long help and the man page. A unit test compares the help of all commands with these rules.
//! Flags that two commands share are a struct of their own and flattened into both, so that they cannot differ.
//!
//! Words that other tools use for the same thing are no aliases: `stderr::messages::mistakes` answers them with the
//! command to type.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::{
    Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum, ValueHint,
};
use strata_analyze::duration_text::parse_duration;
use strata_filter::Filter;
use strata_kernel::event_rules::{has_default, or_default};
use strata_kernel::{hypervisor, CallStacks};
use strata_remote::Destination;
use strata_session::options::{
    Contexts, GuestOptions, KernelOptions, Options, Version, NR_SUBBUFS, SUBBUF_BYTES,
};
use strata_session::plan::LayerOf;
use strata_session::preload::{self, PreloadPart};
use strata_session::report::LossMode;
use strata_session::{ContextError, EventContexts, MinFree, NameError, Rules};

use crate::analyze::AnalyzeFlags;
use crate::count::CountFlags;
use crate::emit::EmitFlags;
use crate::export::ExportFlags;
use crate::reading::selection::parse_filter;
use crate::stats::StatsFlags;
use crate::units::{parse_argv_bytes, parse_min_free, parse_size, parse_slower};
use crate::view::ViewFlags;
use crate::{relayd::RelaydFlags, sql::SqlFlags, ui::UiFlags};
use auto::AutoFlags;
use boot::{BootInitFlags, InstallBootFlags, SettleFlags};
use groups::GroupFlags;
use guest::parse_guest;
use live::LiveFlags;
use output_format::AnswerFlags;
use processes::{parse_process, AskedProcess};
use relay::RelayFlags;
use rotation::{ClearFlags, DisableRotationFlags, EnableRotationFlags};
use rules::{parse_kernel_rules, parse_rules};
use sampling::SamplingFlags;
use sessions::{
    AddContextFlags, CreateFlags, DestroyFlags, DisableChannelFlags, DisableEventFlags,
    EnableChannelFlags, EnableEventFlags, LoadFlags, OfSession, OneFlags, RotateFlags, SaveFlags,
    StartFlags, StopFlags, TrackFlags,
};
use triggers::{AddTriggerFlags, RemoveTriggerFlags};

mod auto;
pub mod boot;
pub mod completions;
mod examples;
mod groups;
mod guest;
pub mod live;
pub mod output_format;
mod probes;
pub mod processes;
mod record_help;
pub mod record_plan;
pub mod relay;
pub mod rotation;
pub mod rules;
mod sampling;
pub mod sessions;
pub mod snapshot;
pub mod triggers;
mod users_and_groups;

// Lines of at most 72 characters: with man's margin they fit a terminal of 80.
const EXIT_STATUS: &str = "\
Exit status:
  With a command, the command's own (128+N if signal N ended it, 127 if
  it is not found, 126 if it cannot be run). Where that is 0, or there
  is no command:
  0  done
  1  nothing was recorded, a rule matched nothing, a program was not
     reached; with --strict also: records were discarded or cannot be
     read, or a program was reached late
  2  the recording failed, or the rules for the kernel select no event
  128+N  signal N stopped it before recording began, or before the
     command ended";

const SIGNALS: &str = "\
Signals:
  SIGINT (Ctrl-C), SIGTERM, SIGHUP and SIGXCPU stop the recording; the
  trace is whole. With a command, the first one waits for the command
  to end, and a second one stops recording at once: the command runs
  on. SIGTERM is passed on to the command, once; Ctrl-C and a terminal
  that is closed reach it by themselves. What a process group or a
  control group gets as a whole (systemd's KillMode=control-group), the
  command gets twice; KillMode=mixed is meant for this.
  Before recording begins, each of them stops it, and there is no trace.
  SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR,
  SIGSTKFLT, SIGPIPE and those of real time have no effect; SIGQUIT and
  SIGKILL end the recorder at once, with what is in the buffers.
  A signal that it was started to ignore (nohup) is ignored.
";

const RULES: &str = "\
What is recorded:
  Without -u, -k and --probe: all tracepoints of applications, and of
  the kernel what shows why a program waits: its system calls, page
  faults and signals, and the machine's scheduling, interrupts and new
  processes. Where the kernel may not or cannot be recorded,
  applications are, and one line says why.
  With any of them: what they name, and nothing else. --no-kernel is
  -u '*:*'.

What a program does in libc (--libc):
  malloc       each call of malloc() and its family: libc:malloc ...
  malloc:sum   the same counted, by call site and size: libc_sum:calls
  pthread      waits for locks and conditions: pthread:mutex_lock_begin
  pthread-all  and each call that takes or gives back a lock
  io           open, read, write, close, also of stdio: printf ...
  io-all       and each character: fputc, getc ...
  dl           dlopen, dlclose
  functions    code compiled with -finstrument-functions
    strata record --libc malloc,pthread -- ./server
  Objects that lie beside strata are preloaded (LD_PRELOAD) into the
  command and what it starts; what was there already stays. Programs
  that are linked statically, and set-user-ID ones, preload nothing.
  Rules, filters and contexts apply to these events as to others.

Rules:
  PROVIDER:EVENT, each with '*' for any text and '?' for one character;
  '!' in front excludes;
  '@LEVEL' behind selects that log level and worse ones, '@=LEVEL' that
  one only. Levels: emerg, alert, crit, err, warning, notice, info,
  debug_system, debug_program, debug_process, debug_module, debug_unit,
  debug_function, debug_line, debug; or 0 to 14.
    -u 'myapp:*'                    all of a provider
    -u 'myapp:*' -u '!myapp:poll*'  all but some
    -u '*:*@warning'                warnings and worse, of any provider

Rules for the kernel (-k):
  The name of an event, with '*' for any text; '!' in front excludes;
  SYSTEM:NAME is the kernel's own name; 'syscalls' is all system calls,
  the name of a system call is its entry and its exit, and so is a
  pattern of names. A pattern such as 'sched_*', which begins with the
  name of a system and '_' and matches tracepoints, is these alone;
  'syscalls:sched_*' are the calls. `strata list -k` shows all,
  `strata list -k NAME` the fields.
    -k 'sched_*,irq_*,syscalls'   what runs when, interrupts, all calls
    -k openat,close,read          three system calls
    -k 'syscalls,!epoll*'         all calls but some
    -k 'block:*,!block_touch*'    a subsystem, without some of it
    -k syscalls -f 'ret < 0'      calls that fail: the filter is applied
                                  in the kernel
  System calls, page faults and signals are recorded of the command and
  its descendants, or of --pid; all else (sched, irq, timer, block ...)
  of the whole machine.
  Needs root, or CAP_BPF and CAP_PERFMON; `strata doctor` says what this
  machine can do.

Probes (--probe), recorded as system calls are:
  [NAME=]uprobe:FILE:FUNCTION[+OFFSET][(ARGUMENT:TYPE, ...)]
      when the function is called
  [NAME=]uretprobe:FILE:FUNCTION[(ret:TYPE)]
      when it returns
  [NAME=]usdt:FILE:PROVIDER:PROBE[(ARGUMENT[:TYPE], ...)]
      where the program has a USDT probe
  FUNCTION, PROVIDER and PROBE may have '*': what fits is recorded, and
  what does not is said.
  FILE is a path, a command in PATH, or a library.
  `strata list --probes FILE` shows what there is.

Trace Compass gives its kernel analyses to traces of LTTng's modules
only; --lttng-env says that this is one. `strata_version` in the trace
tells the truth.
";

/// Limit on the width of a help text \[column\].
const HELP_COLUMNS: usize = 100;

/// Lists all commands by subject, for the help.
const COMMANDS: &str = "\
Traces:
  record           Record a command, running processes, the kernel, or everything
  count            Count events in the kernel, and show a table of them
  view             Show the events of traces
  stats            Count the events of traces, and report what is missing
  analyze          Report where the time went: calls, waits, files, locks, CPUs
  export           Convert traces for other tools
  sql              Query traces in SQL
  ui               Show traces as a timeline in a browser
  emit             Record one event from a shell script
  relayd           Write traces that other hosts record

Sessions, which run in the background until they are destroyed:
  create           Make a session; with --snapshot a flight recorder
  start, stop      Start recording, and pause it
  destroy          End a session, and report what it has recorded
  status           Show channels and rules, and what is missing
  top              Show the rates of sessions periodically
  rotate           Complete the present part of the trace, and start a new one
  enable-rotation, disable-rotation  Start new parts by size or time, and no more
  clear            Remove what was recorded so far, and go on
  install-boot     Start a session at each boot, before any other service
  settle           Move the trace of such a session from memory to disk
  snapshot         Save what the buffers hold, while recording continues
  save, load       Write a session's plan to a file, and make a session from it

Channels and events of sessions, at any time:
  enable-event     Record more events: -u of programs, -k of the kernel
  disable-event    Record fewer events
  enable-channel   Add buffers with their own sizes and loss mode
  disable-channel  Stop recording into them
  add-context      Add fields to each event
  track, untrack   Record only some processes

Triggers of sessions:
  add-trigger      Save a snapshot, rotate, start, stop, or run a command when something happens
  list-triggers    Show triggers, and how often they have fired
  remove-trigger   Remove a trigger

This machine:
  list             Show sessions, tracepoints, the kernel's events, or what is in a trace
  doctor           Report what this machine can record, and what is missing
  completions      Print a completion script for a shell
  help             Explain a command";

/// Records applications, the kernel and guests, at a cost so low that they run as if not traced.
#[derive(Debug, Parser)]
#[command(name = "strata", version, arg_required_else_help = true, max_term_width = HELP_COLUMNS)]
#[command(help_template = format!(
    "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{COMMANDS}\n\nOptions:\n{{options}}{{after-help}}"
))]
#[command(after_help = "Start with:  strata record -- ./your-program")]
pub struct Flags {
    /// The action to take.
    #[command(subcommand)]
    pub action: Action,
}

/// The command, with its flags.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Record a command, running processes, the kernel, or everything, into a CTF trace
    Record(Box<RecordFlags>),
    /// Count events in the kernel by keys, without a trace: a table of counts, sums and histograms
    Count(Box<CountFlags>),
    /// Show running applications and their tracepoints, the kernel's events, or what a trace describes
    List(ListFlags),
    /// Report what this machine can record, of programs and of the kernel, and what is missing
    Doctor(DoctorFlags),
    /// Show the events of traces, of any tracer that writes CTF
    View(Box<ViewFlags>),
    /// Make a session, which runs in the background until it is destroyed; it records nothing before it is started
    Create(CreateFlags),
    /// Start recording, or resume it
    Start(StartFlags),
    /// Pause recording; a session of record --background ends, and reports what it has recorded
    Stop(StopFlags),
    /// End a session, and report what it has recorded
    Destroy(DestroyFlags),
    /// Show the state of sessions: their channels and rules, and what is missing
    Status(StatusFlags),
    /// Save what a flight recorder (create --snapshot) holds in its buffers, while it continues
    Snapshot(snapshot::SnapshotFlags),
    /// Start a new part of a session's trace; the previous part is then complete, and a trace by itself
    Rotate(OneFlags),
    /// Start new parts of a session's trace by size or time from now on
    EnableRotation(EnableRotationFlags),
    /// Start no new parts by themselves any more
    DisableRotation(DisableRotationFlags),
    /// Remove what a session has recorded so far, such as a warm-up: the present part, or what a flight recorder holds
    Clear(ClearFlags),
    /// Move the trace of a session that began at boot from memory to disk, and continue there
    Settle(SettleFlags),
    /// Start a session at each boot before any other service, in memory until the disk is mounted
    InstallBoot(Box<InstallBootFlags>),
    /// Begin the session of this name as the machine's first process, and execute init
    #[command(hide = true)]
    BootInit(BootInitFlags),
    /// Show the rates of sessions periodically, and what is missing
    Top(TopFlags),
    /// Add a channel (buffers with their own sizes and loss mode) to a session, or enable one again
    EnableChannel(EnableChannelFlags),
    /// Stop recording into a channel
    DisableChannel(DisableChannelFlags),
    /// Add event rules to a session
    EnableEvent(EnableEventFlags),
    /// Stop recording events of these rules
    DisableEvent(DisableEventFlags),
    /// Add contexts to the records of a session
    AddContext(AddContextFlags),
    /// Record only some processes
    Track(TrackFlags),
    /// Stop recording some processes
    Untrack(TrackFlags),
    /// Let a session act when something happens, such as save a snapshot
    AddTrigger(Box<AddTriggerFlags>),
    /// Show the triggers of a session, and how often they have fired
    ListTriggers(OfSession),
    /// Remove a trigger from a session
    RemoveTrigger(RemoveTriggerFlags),
    /// Write a session's plan to a file
    Save(SaveFlags),
    /// Make a session from a plan in a file
    Load(LoadFlags),
    /// Count the events of traces, and report what is missing
    Stats(StatsFlags),
    /// Report where the time went: in system calls, running, waiting, and for which thread
    Analyze(AnalyzeFlags),
    /// Convert traces for other tools
    Export(ExportFlags),
    /// Query traces in SQL, without an import
    Sql(SqlFlags),
    /// Show traces as a timeline in a browser, from this machine itself
    Ui(UiFlags),
    /// Record one event from a shell script
    Emit(EmitFlags),
    /// Write traces that other hosts record (record --to)
    Relayd(RelaydFlags),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages
    #[command(hide = true)]
    Man {
        /// A folder for one file each; without, strata(1) to stdout
        #[arg(value_hint = ValueHint::DirPath)]
        folder: Option<PathBuf>,
    },
}

/// `strata record`.
#[derive(Debug, Args)]
#[command(override_usage = "strata record [OPTIONS] [-- COMMAND [ARGUMENT]...]")]
#[command(group(clap::ArgGroup::new("programs").multiple(true).args(["command", "background"])))]
#[command(mut_arg("json", |json| json.help("Print as JSON what was recorded").long_help("Print as JSON what was recorded, after what the command prints; with --background, which session records")))]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{RULES}\n{SIGNALS}\n{EXIT_STATUS}"))]
pub struct RecordFlags {
    /// Record tracepoints of applications, such as 'myapp:*@warning', and of the kernel only what is named [default: *:*,
    /// or none with --kernel]
    #[arg(short, long = "user", value_name = "RULE", value_parser = parse_rules)]
    user: Vec<String>,

    /// Record events of the kernel, such as 'sched_*,syscalls' or 'default,block_rq_*' [default: system calls, scheduling
    /// and more, where that is allowed; none with --user]
    ///
    /// May be repeated.
    #[arg(short, long = "kernel", value_name = "RULES", value_parser = parse_kernel_rules)]
    kernel: Vec<String>,

    /// Record a function or USDT probe, such as 'uprobe:./server:handle' or 'usdt:libc.so.6:libc:*'
    ///
    /// With arguments: 'uprobe:./server:handle(request:u64)'. May be repeated.
    #[arg(long, value_name = "PROBE")]
    probe: Vec<String>,

    /// Record what a hypervisor does for its guest
    ///
    /// KVM's tracepoints, where there are any, and functions of QEMU (the file QEMU) that enter and leave the guest, and
    /// are its devices. Of the processes that are recorded; functions that it does not have are said.
    #[arg(long, value_name = "QEMU", num_args = 0..=1, require_equals = true, default_missing_value = "qemu-system-x86_64")]
    pub hypervisor: Option<String>,

    /// Record what the COMMAND does in libc: malloc, malloc:sum, pthread, pthread-all, io, io-all, dl, functions
    ///
    /// Whoever made the program: malloc, malloc:sum (counted by call site), pthread (what is waited for), pthread-all (each
    /// call), io, io-all (each character), dl, functions (-finstrument-functions). Like -u, nothing else is recorded. With
    /// --background and no COMMAND: programs that are started with the objects that `strata list --libc PARTS` names.
    #[arg(long, value_name = "PARTS", value_delimiter = ',', requires = "programs",
        value_parser = PreloadPart::parse)]
    pub libc: Vec<PreloadPart>,

    /// Record no events of the kernel, as -u '*:*' does
    ///
    /// But for those of --sample.
    #[arg(long, conflicts_with_all = ["kernel", "probe", "hypervisor", "all_processes", "lttng_env", "kernel_context",
                                      "kernel_subbuf_size", "kernel_num_subbuf"])]
    no_kernel: bool,

    /// Record only events that EXPRESSION selects, such as 'ret < 0'
    ///
    /// It is asked where they happen, in applications and in the kernel: 'myapp:request && size > 4096'.
    #[arg(short, long, value_name = "EXPRESSION", value_parser = parse_filter)]
    filter: Option<Filter>,

    /// Record a system call, or a span of a program, only if it takes at least TIME, such as 1ms
    ///
    /// Both ends are recorded at its end. Faster ones write nothing. Other events are recorded as ever.
    #[arg(long, value_name = "TIME", value_parser = parse_slower)]
    slower: Option<u64>,

    #[command(flatten)]
    sampling: SamplingFlags,

    /// Record system calls, page faults and signals of every process, not only of those asked for
    #[arg(long)]
    all_processes: bool,

    /// Add to each record of the kernel, such as 'pid,procname,callstack_kernel'; 'help' lists what there is
    ///
    /// Of the thread that the event happened in, or of its CPU: 'perf:cpu:instructions'. tid is always there.
    #[arg(long, value_name = "LIST")]
    kernel_context: Vec<String>,

    /// Record up to BYTES bytes of each executed program's arguments, up to 8191 [default: 1023]
    #[arg(long, value_name = "BYTES", value_parser = parse_argv_bytes)]
    argv_bytes: Option<u32>,

    /// Sample the call stack of each CPU RATE times per second, such as 99
    ///
    /// Samples are of the command or --pid, in addition to the events that are recorded.
    /// With --no-kernel no other event of the kernel is recorded.
    #[arg(long, value_name = "RATE")]
    sample: Option<u32>,

    /// Record the call stack with each event; 'dwarf' also of programs without frame pointers
    ///
    /// The same as --kernel-context callstack_kernel,callstack_user and --context callstack_user. With --stack=dwarf
    /// samples, sched_switch and the kernel's events that you name also have a copy of the program's stack, of BYTES
    /// bytes at most [default: 8192].
    #[arg(long, value_name = "fp|dwarf[,BYTES]", value_parser = CallStacks::parse, num_args = 0..=1,
        require_equals = true, default_missing_value = "fp")]
    stack: Option<CallStacks>,

    /// Name LTTng as the kernel's recorder, for Trace Compass' analyses
    #[arg(long)]
    lttng_env: bool,

    /// Write to DIR, new or empty [default: strata-trace-DATE-TIME]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,

    #[command(flatten)]
    pub live: LiveFlags,

    /// Version of CTF in which the trace is described
    ///
    /// Its packets are the same in both.
    #[arg(long, value_enum, value_name = "VERSION", default_value_t = CtfFlag::One)]
    ctf: CtfFlag,

    /// What to do with a new record when the buffers are full
    #[arg(long, value_enum, default_value_t = ModeFlag::Discard)]
    mode: ModeFlag,

    /// Size of a sub-buffer, a power of two such as 512K or 2M [default: 1M, less with many CPUs or little memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    subbuf_size: Option<u64>,

    /// Sub-buffers for each CPU of each process, a power of two [default: 8, fewer with very many CPUs]
    #[arg(long, value_name = "N", alias = "subbufs")]
    num_subbuf: Option<u32>,

    /// Size of the kernel's sub-buffers [default: as --subbuf-size]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    kernel_subbuf_size: Option<u64>,

    /// Sub-buffers of the kernel for each CPU [default: as --num-subbuf]
    #[arg(long, value_name = "N")]
    kernel_num_subbuf: Option<u32>,

    /// Leave the thread (`vtid`) out of user records
    ///
    /// Each record then has 4 bytes less, but threads cannot be distinguished.
    #[arg(long)]
    no_vtid: bool,

    /// Add to each record of applications, such as 'procname,callstack_user'; 'help' lists what there is
    ///
    /// May be repeated.
    #[arg(long, value_name = "LIST", value_parser = parse_contexts)]
    context: Vec<String>,

    /// Write what is in the buffers at least this often; 0: only when a sub-buffer is full
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    flush: Duration,

    /// Stop after this time, such as 500ms, 10s or 2m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,

    /// End when the trace's files have SIZE bytes, such as 500M
    ///
    /// What is in the buffers then is still written.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,

    /// End when less of the trace's file system is free, such as 5% or 2G; 0: when it is full
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = parse_min_free, default_value = "5%", env = "STRATA_MIN_FREE", hide_env_values = true)]
    min_free: MinFree,

    #[command(flatten)]
    rotate: RotateFlags,

    /// Also record a virtual machine, whose recorder (--relay) is at CHANNEL
    ///
    /// CHANNEL is the unix socket that QEMU has made of a virtio-serial port, tcp:HOST:PORT, or vsock:CID:PORT, where this one listens; its traces are in the folder NAME. pid=PID: the process that
    /// runs the machine, where it does not listen at CHANNEL itself, as with libvirt; qmp=PATH: QEMU's control socket, which
    /// says which thread runs which virtual CPU; memory=FILE: the guest's memory, of which its last records are read if its
    /// kernel panics; max-size=SIZE: what the traces may take [default: 4G]. May be
    /// repeated.
    #[arg(long, value_name = "NAME=CHANNEL[,pid=PID][,qmp=PATH][,memory=FILE][,max-size=SIZE]", value_parser = parse_guest)]
    guest: Vec<GuestOptions>,

    #[command(flatten)]
    relay: RelayFlags,

    /// Limit the memory of all buffers together, such as 2G
    ///
    /// A program whose buffers do not fit is not recorded, and named at the end.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_memory: Option<u64>,

    /// Record the running process PID, or all processes of this NAME
    ///
    /// The name of a process, a thread, a program or a script. May be repeated.
    #[arg(short, long, value_name = "PID|NAME", value_delimiter = ',', conflicts_with = "command",
        value_parser = parse_process)]
    pid: Vec<AskedProcess>,

    #[command(flatten)]
    groups: GroupFlags,

    /// Record all programs and the kernel [default without COMMAND and --pid]
    ///
    /// With a COMMAND until that ends.
    #[arg(short, long, conflicts_with = "pid")]
    all: bool,

    /// Record until everything that the command has started has ended
    ///
    /// Such as a server that goes into the background.
    #[arg(long, requires = "command")]
    wait_descendants: bool,

    /// Record as a session, until `strata stop NAME`
    ///
    /// The session is like one of `strata create`, and started.
    #[arg(long, value_name = "NAME")]
    pub background: Option<String>,

    /// A flight recorder, saved by `strata snapshot NAME`
    ///
    /// The last records stay in the buffers until then. Nothing is written before that (--mode=overwrite).
    #[arg(long, requires = "background", conflicts_with_all = ["output", "max_size", "flush", "rotate_size", "rotate_time", "rotate_count"])]
    pub snapshot: bool,

    /// Keep the newest N of all that the session leaves; 0: all [default: all, but 32 snapshots of triggers]
    ///
    /// Parts of the trace, snapshots, and traces from before it was killed.
    #[arg(long, value_name = "N", requires = "background")]
    keep_count: Option<u64>,

    /// Keep the newest of all these, at most SIZE together, such as 2G
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "background")]
    keep_size: Option<u64>,

    /// Keep the kernel recording after a kill; root only
    ///
    /// Until `strata start NAME` makes the session again, as `strata create --keep` does.
    #[arg(long, requires = "background")]
    pub keep: bool,

    /// Let members of GROUP see the status; root only
    ///
    /// By `strata status NAME`, and nothing else.
    #[arg(long, value_name = "GROUP", requires = "background")]
    pub group: Option<String>,

    /// This is the process of its own
    #[arg(long, hide = true, requires = "background")]
    pub of_session: bool,

    #[command(flatten)]
    auto: AutoFlags,

    #[command(flatten)]
    pub answer: AnswerFlags,

    /// Exit with 1 if anything is missing
    ///
    /// A record was discarded, overwritten before it was written, or cannot be read, a rule matched nothing, nothing
    /// passed its filter, a program was not reached, or reached late.
    #[arg(long)]
    pub strict: bool,

    /// Print only errors
    #[arg(short, long)]
    pub quiet: bool,

    /// The command to run, recorded with all its descendants from their first event
    ///
    /// Without it and --pid, every process is recorded until Ctrl-C, as with --all.
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// `strata status`.
#[derive(Debug, Args)]
pub struct StatusFlags {
    /// Name of the session [default: all of this user]
    pub name: Option<String>,

    /// Exit with 1 also if anything is missing: a record was discarded, a rule has matched nothing, a program was not
    /// reached, or reached late. Without it, with 1 if a session was killed, does not answer, or has no space to write
    #[arg(long)]
    pub strict: bool,

    /// Print the figures in Prometheus' format, or answer GET /metrics and /health by HTTP at an address
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "",
        conflicts_with_all = ["json", "strict"])]
    pub metrics: Option<String>,

    #[command(flatten)]
    answer: AnswerFlags,
}

/// Returns the width of help texts: that of the terminal, between 60 and [`HELP_COLUMNS`] \[column\].
fn help_columns() -> usize {
    let of_variable = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    of_variable
        .or_else(crate::stdout::terminal_columns)
        .unwrap_or(HELP_COLUMNS)
        .clamp(60, HELP_COLUMNS)
}

impl Flags {
    /// Parses this program's command line.
    ///
    /// # Errors
    /// The command line is wrong, or asks for help or the version.
    pub fn of_command_line() -> Result<Flags, clap::Error> {
        let mut command = examples::with_examples(record_help::with_groups(Flags::command()));
        let words = std::env::args_os().skip(1).take_while(|word| word != "--");
        let words: Vec<OsString> = words.collect();
        let is_of_record = |word: Option<&OsString>| word.is_some_and(|word| word == "record");
        let is_long = match words.first() {
            Some(first) if first == "help" => is_of_record(words.get(1)),
            first => is_of_record(first) && words.iter().any(|word| word == "--help"),
        };
        if is_long {
            command = command.mut_subcommand("record", |record| {
                let after = format!("{}\n\n{EXIT_STATUS}", examples::text_of("record"));
                let help = record_help::long_help(&record, help_columns(), &after);
                record.override_help(help)
            });
        }
        let words = std::env::args_os().collect();
        Flags::from_arg_matches(
            &command.try_get_matches_from(crate::sql::queries_as_values(words))?,
        )
    }

    /// Returns the message about a flag that is accepted without effect, from the process that the user has started.
    pub fn remark(&self) -> Option<&'static str> {
        match &self.action {
            Action::Record(flags) if !flags.of_session && !flags.quiet => flags.auto.remark(),
            Action::Create(flags) if !flags.of_session => flags.auto.remark(),
            Action::Start(flags) if !flags.of_session => flags.auto.remark(),
            _ => None,
        }
    }
}

impl StatusFlags {
    /// Returns true if the output is to be JSON.
    pub fn is_json(&self) -> bool {
        self.answer.is_json()
    }
}

/// `strata top`.
#[derive(Debug, Args)]
pub struct TopFlags {
    /// Name of the session [default: all of this user]
    pub name: Option<String>,

    /// Update every TIME
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub period: Duration,

    /// Print N tables [default: until Ctrl-C]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub number: Option<u64>,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `strata list`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("layer").args(["kernel", "user", "sessions"])))]
pub struct ListFlags {
    /// Show the sessions of this user only
    #[arg(long, conflicts_with_all = ["kernel", "probes", "named"])]
    pub sessions: bool,

    /// Show the kernel's events; with EVENT, the fields of those
    #[arg(short, long)]
    pub kernel: bool,

    /// Show running applications and their tracepoints only
    #[arg(short, long, alias = "userspace", conflicts_with_all = ["sessions", "kernel", "probes", "libc", "named"])]
    pub user: bool,

    /// No effect: fields are always shown
    #[arg(short, long, hide = true)]
    fields: bool,

    /// Show the functions and USDT probes of the program or library FILE, for `record --probe`
    #[arg(long, value_name = "FILE", conflicts_with = "kernel", value_hint = ValueHint::AnyPath)]
    pub probes: Option<String>,

    /// Print the environment that a program is to be started with whose calls of libc a session records: env "$(strata
    /// list --libc malloc)" ./server
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_parser = PreloadPart::parse,
        conflicts_with_all = ["sessions", "kernel", "probes", "names", "named"])]
    pub libc: Vec<PreloadPart>,

    /// With --kernel, --user or --sessions: print names only, of all that a rule may name, or of sessions
    #[arg(long, requires = "layer", conflicts_with_all = ["json", "format", "named"])]
    pub names: bool,

    #[command(flatten)]
    answer: AnswerFlags,

    /// Show what the metadata of TRACE describe: environment, clocks, streams, events and their fields; the status of
    /// SESSION, as `strata status` does; or, with --kernel, EVENT of the kernel, as in `strata record -k`
    #[arg(value_name = "TRACE|EVENT|SESSION", value_hint = ValueHint::DirPath, conflicts_with = "probes")]
    pub named: Vec<OsString>,
}

impl ListFlags {
    /// Returns true if the output is to be JSON.
    pub fn is_json(&self) -> bool {
        self.answer.is_json()
    }

    /// Returns the session that is named. `None` if the argument is no name of a session, or there is a file of this
    /// name.
    pub fn session(&self) -> Option<&str> {
        match &self.named[..] {
            [name] => name.to_str().filter(|name| {
                strata_control::is_name(name) && Path::new(name).symlink_metadata().is_err()
            }),
            _ => None,
        }
    }

    /// Returns the arguments as paths of traces.
    pub fn traces(&self) -> Vec<PathBuf> {
        self.named.iter().map(PathBuf::from).collect()
    }

    /// Returns the arguments as rules for events of the kernel.
    ///
    /// # Errors
    /// An argument is no well-formed rule.
    pub fn rules(&self) -> anyhow::Result<Vec<String>> {
        let texts = self.named.iter().map(|name| name.to_string_lossy().into_owned());
        texts.map(|text| Ok(parse_kernel_rules(&text)?)).collect()
    }
}

/// `strata doctor`.
#[derive(Debug, Args)]
pub struct DoctorFlags {
    /// Remove what sessions have left that do not run any more: plans, locks, sockets, and what they have said
    #[arg(long)]
    pub clean: bool,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// The value of `--ctf`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum CtfFlag {
    /// CTF 1.8, which all readers know
    #[value(name = "1.8")]
    One,
    /// CTF 2, for readers such as babeltrace2 from 2.1 on
    #[value(name = "2")]
    Two,
}

/// The value of `--mode`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeFlag {
    /// Discard the new record, and count it
    Discard,
    /// Overwrite the oldest packet that is not on disk yet: gaps are in the past, and not at the end. All that
    /// is read goes to disk in both modes
    Overwrite,
}

/// Value of `--context` that lists all contexts.
const CONTEXT_HELP: &str = "help";

fn parse_contexts(text: &str) -> Result<String, ContextError> {
    match text {
        CONTEXT_HELP => Ok(text.to_owned()),
        _ => EventContexts::parse(&[text]).map(|_| text.to_owned()),
    }
}

impl RecordFlags {
    /// Returns true if there is a command to run.
    pub fn has_command(&self) -> bool {
        !self.command.is_empty()
    }

    /// Returns the layer whose contexts `--context help` or `--kernel-context help` lists; `None` if something is to be
    /// recorded.
    pub fn asks_for_contexts(&self) -> Option<LayerOf> {
        let asks = |contexts: &[String]| contexts.iter().any(|text| text == CONTEXT_HELP);
        match (asks(&self.context), asks(&self.kernel_context)) {
            (true, _) => Some(LayerOf::User),
            (false, true) => Some(LayerOf::Kernel),
            (false, false) => None,
        }
    }

    /// Returns the processes of `--pid`, each once, with the name for those that were given by name.
    ///
    /// # Errors
    /// No process has one of the names.
    pub fn processes(&self) -> Result<Vec<(Option<&str>, u32)>, NameError> {
        processes::found(&self.pid)
    }

    /// Returns the options of a session that records the processes `pids`.
    ///
    /// # Errors
    /// The rules together are too long, or flags contradict each other.
    pub fn options(&self, pids: Vec<u32>) -> anyhow::Result<Options> {
        let texts = [self.user.clone(), preload::rules(&self.libc, &self.user)].concat();
        let rules = match texts.as_slice() {
            [] => None,
            texts => Some(Rules::parse(texts)?),
        };
        Ok(Options {
            rules,
            filter: self.filter.clone(),
            spans_slower: self.slower.unwrap_or(0),
            kernel: self.kernel_options()?,
            output: self.output.clone(),
            relay: self.relay.relay.clone(),
            remote: self.relay.to()?.as_ref().map(Destination::target).transpose()?,
            guests: self.guest.clone(),
            version: match self.ctf {
                CtfFlag::One => Version::One,
                CtfFlag::Two => Version::Two,
            },
            mode: match self.mode {
                // A flight recorder needs the newest records.
                _ if self.snapshot => LossMode::Overwrite,
                ModeFlag::Discard => LossMode::Discard,
                ModeFlag::Overwrite => LossMode::Overwrite,
            },
            hold: self.snapshot,
            subbuf_bytes: self.subbuf_size.unwrap_or(SUBBUF_BYTES),
            nr_subbufs: self.num_subbuf.unwrap_or(NR_SUBBUFS),
            is_size_given: self.subbuf_size.is_some() || self.num_subbuf.is_some(),
            vtid: !self.no_vtid,
            contexts: self.contexts()?,
            flush: self.live.flush(self.flush),
            duration: self.duration,
            max_bytes: self.max_size,
            min_free: self.min_free,
            goes_on: false,
            is_early: false,
            rotation: self.rotate.rotation(),
            retention: self.retention(),
            session: None,
            max_memory: self.max_memory,
            pids,
            everyone: self.all,
            libc: self.libc.clone(),
            wait_descendants: self.wait_descendants,
            command: self.command.clone(),
        })
    }

    /// Replaces `--hypervisor` by its rules and probes. Returns a message on functions that cannot be recorded.
    ///
    /// # Errors
    /// The hypervisor cannot be examined, or nothing of it can be recorded.
    pub fn add_hypervisor(&self, options: &mut Options) -> anyhow::Result<Option<String>> {
        let (Some(qemu), Some(kernel)) = (&self.hypervisor, &mut options.kernel) else {
            return Ok(None);
        };
        let rules = hypervisor::rules(qemu)?;
        if rules.probes.is_empty() {
            bail!("--hypervisor={qemu}: it has none of QEMU's functions. Name the file of QEMU that runs the guest");
        }
        kernel.rules.extend(rules.kernel);
        kernel.probes.extend(rules.probes);
        let missing = rules.missing.join(", ");
        Ok((!missing.is_empty())
            .then(|| format!("--hypervisor: {qemu} has no function {missing}: not recorded")))
    }

    fn names_kernel(&self) -> bool {
        !self.kernel.is_empty() || !self.probe.is_empty() || self.hypervisor.is_some()
    }

    /// Returns true if events of the kernel are named, and the default events are not among them.
    fn names_kernel_alone(&self) -> bool {
        self.names_kernel() && !has_default(&or_default(&self.kernel))
    }

    /// Returns the contexts of applications' records.
    fn contexts(&self) -> anyhow::Result<EventContexts> {
        let mut texts = self.context.clone();
        let records_applications = !self.user.is_empty() || !self.names_kernel_alone();
        if self.stack.is_some() && records_applications {
            texts.push("callstack_user".to_owned());
        }
        Ok(EventContexts::parse(&texts)?)
    }

    /// Returns the options of the kernel's layer. Without any rule both layers are recorded, otherwise only those that
    /// rules name.
    fn kernel_options(&self) -> anyhow::Result<Option<KernelOptions>> {
        let is_named = self.names_kernel();
        let has_none = self.no_kernel || !self.user.is_empty() || !self.libc.is_empty();
        let samples_only = !is_named && has_none && self.sample.is_some();
        let contexts = Contexts::parse(&self.kernel_context)?;
        if is_named || samples_only || !has_none {
            return Ok(Some(KernelOptions {
                probes: self.probe.clone(),
                rules: or_default(&self.kernel),
                filter: self.filter.clone(),
                all_processes: self.all_processes,
                as_lttng: self.lttng_env,
                contexts: self
                    .stack
                    .map_or(CallStacks::None, CallStacks::without_copy)
                    .added_to(&contexts),
                stack: self.stack.unwrap_or_default(),
                slower: self.slower,
                sample: self.sample,
                samples_only,
                subbuf_bytes: self.kernel_subbuf_size,
                nr_subbufs: self.kernel_num_subbuf,
                argv_bytes: self.argv_bytes,
            }));
        }
        let flags = [
            ("--all-processes", self.all_processes),
            ("--lttng-env", self.lttng_env),
            ("--kernel-context", !self.kernel_context.is_empty()),
            ("--kernel-subbuf-size", self.kernel_subbuf_size.is_some()),
            ("--kernel-num-subbuf", self.kernel_num_subbuf.is_some()),
            ("--argv-bytes", self.argv_bytes.is_some()),
        ];
        if let Some((flag, _)) = flags.into_iter().find(|(_, is_given)| *is_given) {
            bail!(
                "{flag}: no event of the kernel is recorded, since --user or --libc names events of \
                 applications. Name events with --kernel or --probe, or leave it out"
            );
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
