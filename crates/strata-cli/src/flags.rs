//! The command line: one definition for parsing, help, completions and man pages.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use strata_analyze::length::parse_duration;
use strata_filter::Filter;
use strata_kernel::hypervisor;
use strata_session::options::{
    Contexts, GuestOptions, KernelOptions, Options, Place, PlaceProblem, Version, NR_SUBBUFS,
    SUBBUF_BYTES,
};
use strata_session::plan::LayerOf;
use strata_session::preload::{self, PreloadPart};
use strata_session::report::LossMode;
use strata_session::{processes_of, ContextError, EventContexts, NameError, Rules};

use crate::analyze::AnalyzeFlags;
use crate::export::ExportFlags;
use crate::reading::selection::parse_filter;
use crate::record::advised::AdviceKey;
use crate::stats::StatsFlags;
use crate::talk::units::parse_size;
use crate::view::ViewFlags;
use answer::AnswerFlags;
use boot::{BootInitFlags, InstallBootFlags, SettleFlags};
use guest::parse_guest;
use rules::{parse_kernel_rules, parse_rules};
use sessions::{
    AddContextFlags, CreateFlags, DestroyFlags, DisableChannelFlags, DisableEventFlags,
    EnableChannelFlags, EnableEventFlags, LoadFlags, OfSession, OneFlags, RotateFlags, SaveFlags,
    StartFlags, StopFlags, TrackFlags,
};
use triggers::{AddTriggerFlags, RemoveTriggerFlags};

mod accounts;
pub mod answer;
pub mod boot;
pub mod generate;
mod guest;
pub mod kept;
mod probes;
mod rules;
pub mod sessions;
pub mod triggers;

/// The largest number that a process can have: `pid_t` is signed.
const PID_MAX: u32 = i32::MAX as u32;

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

/// All commands, by what they are about.
const COMMANDS: &str = "\
Traces:
  record           Record a command, running processes, the kernel, or everything
  view             Show the events of traces
  stats            Count what is in traces, and say what is missing
  analyze          Say where the time went: calls, waits, files, locks, CPUs
  export           Write traces for other tools

Sessions, which stay until they are destroyed:
  create           Make one; with --snapshot a flight recorder
  start, stop      Record, and record nothing for now
  destroy          End one, and say what it has recorded
  status           Say how they are, with all that is missing
  top              Show their rates, again and again
  rotate           Complete what is written so far, and go on in a new part
  install-boot     Have one begin at each boot, before any other service
  settle           Write what that has held in memory to the disk, and go on there
  snapshot         Save what one holds in its buffers, while it goes on
  save, load       Write what one records to a file, and make one of a file

Channels and events of sessions, at any time:
  enable-event     Record more events: -u of applications, -k of the kernel
  disable-event    Record fewer
  enable-channel   Make buffers with sizes and a loss mode of their own
  disable-channel  Record nothing into them
  add-context      Record more with each event
  track, untrack   Record only some processes

What sessions do by themselves:
  add-trigger      Save a snapshot, rotate, start, stop, or run a command when something happens
  list-triggers    Show triggers, and how often they have fired
  remove-trigger   Take one away

This machine:
  list             Show sessions, tracepoints, the kernel's events, or what is in a trace
  doctor           Say what this machine can record, and why not
  completions      Print a completion script for a shell
  help             Say more of a command";

/// Records applications, the kernel and guests, at a cost so low that they run as if not traced.
#[derive(Debug, Parser)]
#[command(name = "strata", version, arg_required_else_help = true, max_term_width = 100)]
#[command(help_template = format!(
    "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{COMMANDS}\n\nOptions:\n{{options}}{{after-help}}"
))]
#[command(after_help = "Start with:  strata record -- ./your-program")]
pub struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Record a command, running processes, the kernel, or everything, into a CTF trace
    Record(Box<RecordFlags>),
    /// Show running applications and their tracepoints, the kernel's events, or what a trace describes
    List(ListFlags),
    /// Say what this machine can record, of programs and of the kernel, and why not
    Doctor(DoctorFlags),
    /// Show the events of traces, of any tracer that writes CTF
    View(Box<ViewFlags>),
    /// Make a session, which stays until it is destroyed; it records nothing before it is started
    Create(CreateFlags),
    /// Record, from now on or again
    Start(StartFlags),
    /// Record nothing for now; a session of record --background ends, and says what it has recorded
    Stop(StopFlags),
    /// End a session, and say what it has recorded
    Destroy(DestroyFlags),
    /// Say how sessions are: their channels and rules, and what is missing
    Status(StatusFlags),
    /// Save what a session holds in its buffers (create --snapshot), while it goes on
    Snapshot(SnapshotFlags),
    /// Have a session go on in a new part of its trace; the part before is complete, and a trace by itself
    Rotate(OneFlags),
    /// Have a session that began at boot go on on the disk, with what it has held in memory
    Settle(SettleFlags),
    /// Have a session begin at each boot before any other service, held in memory until the disk is there
    InstallBoot(Box<InstallBootFlags>),
    /// Begin the session of this name as the machine's first process, and execute init
    #[command(hide = true)]
    BootInit(BootInitFlags),
    /// Show sessions again and again: their rates, and what is missing
    Top(TopFlags),
    /// Add a channel to a session, or enable one again: buffers with sizes and a loss mode of their own
    EnableChannel(EnableChannelFlags),
    /// Record nothing into a channel
    DisableChannel(DisableChannelFlags),
    /// Add event rules to a session
    EnableEvent(EnableEventFlags),
    /// Record no events of these rules any more
    DisableEvent(DisableEventFlags),
    /// Add contexts to the records of a session
    AddContext(AddContextFlags),
    /// Record only some processes
    Track(TrackFlags),
    /// Record some processes no more
    Untrack(TrackFlags),
    /// Have a session do something by itself, such as save a snapshot, when something happens
    AddTrigger(Box<AddTriggerFlags>),
    /// Show the triggers of a session, and how often they have fired
    ListTriggers(OfSession),
    /// Take a trigger away from a session
    RemoveTrigger(RemoveTriggerFlags),
    /// Write what a session records, its plan, to a file
    Save(SaveFlags),
    /// Make a session of a plan in a file
    Load(LoadFlags),
    /// Count what is in traces, and say what is missing
    Stats(StatsFlags),
    /// Say where the time went: in system calls, running, waiting, and for whom
    Analyze(AnalyzeFlags),
    /// Write traces for other tools
    Export(ExportFlags),
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
#[command(mut_arg("json", |json| json.requires("background").help("With --background: print as JSON which session records")))]
#[command(mut_arg("format", |format| format.requires("background")))]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{RULES}\n{SIGNALS}\n{EXIT_STATUS}"))]
pub struct RecordFlags {
    /// Record the tracepoints of applications that RULE selects, such as 'myapp:*@warning', and of the
    /// kernel only what is named [default: *:*, or none with --kernel]
    #[arg(short, long = "user", value_name = "RULE", value_parser = parse_rules)]
    user: Vec<String>,

    /// Record the kernel's events that RULES select, such as 'sched_*,syscalls,irq_*'; may be repeated
    /// [default: system calls, scheduling and more, where that is allowed; none with --user]
    #[arg(short, long = "kernel", value_name = "RULES", value_parser = parse_kernel_rules)]
    kernel: Vec<String>,

    /// Record a function or USDT probe of a program or library, such as
    /// 'uprobe:./server:handle(request:u64)' or 'usdt:libc.so.6:libc:*'; may be repeated
    #[arg(long, value_name = "PROBE")]
    probe: Vec<String>,

    /// Record what a hypervisor does for its guest: KVM's tracepoints, where there are any, and functions of QEMU (the file
    /// QEMU) that enter and leave the guest, and are its devices. Of the processes that are recorded; functions that it
    /// does not have are said
    #[arg(long, value_name = "QEMU", num_args = 0..=1, require_equals = true, default_missing_value = "qemu-system-x86_64")]
    pub hypervisor: Option<String>,

    /// Record what the COMMAND does in libc, whoever made it: malloc, malloc:sum (counted by call site), pthread
    /// (what is waited for), pthread-all (each call), io, io-all (each character), dl, functions
    /// (-finstrument-functions); like -u, nothing else. With --background and no COMMAND: programs that are started with the
    /// objects that `strata list --libc PARTS` names
    #[arg(long, value_name = "PARTS", value_delimiter = ',', requires = "programs",
        value_parser = PreloadPart::parse)]
    pub libc: Vec<PreloadPart>,

    /// Record no events of the kernel, but for those of --sample; -u '*:*' is the same
    #[arg(long, conflicts_with_all = ["kernel", "probe", "hypervisor", "all_processes", "lttng_env", "kernel_context",
                                      "kernel_subbuf_size", "kernel_num_subbuf"])]
    no_kernel: bool,

    /// Record only those events that EXPRESSION selects, such as 'myapp:request && size > 4096' or
    /// 'ret < 0'; asked where they happen, in applications and in the kernel
    #[arg(short, long, value_name = "EXPRESSION", value_parser = parse_filter)]
    filter: Option<Filter>,

    /// Record system calls, page faults and signals of every process, not only of those asked for
    #[arg(long)]
    all_processes: bool,

    /// Let records of the kernel's events say more of the thread that they happened in, such as
    /// 'pid,procname,callstack_kernel', or of its CPU, 'perf:cpu:instructions'; tid is always there, and 'help' lists them
    #[arg(long, value_name = "LIST")]
    kernel_context: Vec<String>,

    /// Ask what each CPU does so many times in a second, such as 99, besides the events that are recorded: where the
    /// command or --pid was interrupted, with its call stacks. With --no-kernel no other event of the kernel
    #[arg(long, value_name = "RATE")]
    sample: Option<u32>,

    /// Record with each event who called whom: --kernel-context callstack_kernel,callstack_user and --context
    /// callstack_user
    #[arg(long)]
    stack: bool,

    /// Let the kernel's trace say that LTTng recorded it, as Trace Compass' kernel analyses want it
    #[arg(long)]
    lttng_env: bool,

    /// Write the trace to DIR, which must be new or empty [default: strata-trace-DATE-TIME]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,

    /// Version of CTF in which the trace is described; its packets are the same in both
    #[arg(long, value_enum, value_name = "VERSION", default_value_t = CtfFlag::One)]
    ctf: CtfFlag,

    /// What to do with a record when the buffers are full
    #[arg(long, value_enum, default_value_t = ModeFlag::Discard)]
    mode: ModeFlag,

    /// Size of a sub-buffer, a power of two such as 512K or 2M [default: 1M, less with many CPUs or little memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    subbuf_size: Option<u64>,

    /// Sub-buffers for each CPU of each process, a power of two [default: 8, fewer with very many CPUs]
    #[arg(long, value_name = "N", alias = "subbufs")]
    num_subbuf: Option<u32>,

    /// The same of the kernel alone [default: as --subbuf-size]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    kernel_subbuf_size: Option<u64>,

    /// Sub-buffers of the kernel for each CPU [default: as --num-subbuf]
    #[arg(long, value_name = "N")]
    kernel_num_subbuf: Option<u32>,

    /// Use the sizes that would have prevented the losses of the last recording of this COMMAND, or of this NAME
    /// (--background), as its report has estimated them
    #[arg(long, conflicts_with_all = ["subbuf_size", "num_subbuf", "kernel_subbuf_size", "kernel_num_subbuf"])]
    pub auto: bool,

    /// Leave the thread (`vtid`) out of applications' records: 4 bytes less each, but nobody can tell threads
    /// apart
    #[arg(long)]
    no_vtid: bool,

    /// Let applications' records say more of their moment, such as 'procname,callstack_user'; may be repeated; 'help'
    /// lists what there is
    #[arg(long, value_name = "LIST", value_parser = parse_contexts)]
    context: Vec<String>,

    /// Write what is in the buffers at least this often, such as 100ms; 0: only when a sub-buffer is full
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    flush: Duration,

    /// Stop after this time, such as 500ms, 10s or 2m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,

    /// End when the trace's files have so many bytes, such as 500M; what is in the buffers then is still
    /// written
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,

    #[command(flatten)]
    rotate: RotateFlags,

    /// Record a virtual machine, too, whose own recorder (--relay) is at CHANNEL: the unix socket that QEMU has made of a
    /// virtio-serial port, tcp:HOST:PORT, or vsock:CID:PORT, where this one listens; its traces are in the folder NAME. pid=PID: the process that
    /// runs the machine, where it does not listen at CHANNEL itself, as with libvirt; qmp=PATH: QEMU's control socket, which
    /// says which thread runs which virtual CPU; memory=FILE: the guest's memory, of which its last records are read if its
    /// kernel panics; max-size=SIZE: what the traces may take [default: 4G]; may be repeated
    #[arg(long, value_name = "NAME=CHANNEL[,pid=PID][,qmp=PATH][,memory=FILE][,max-size=SIZE]", value_parser = parse_guest)]
    guest: Vec<GuestOptions>,

    /// Let the host's recorder (--guest) write the trace, of the virtual machine that this is: CHANNEL is a device such as
    /// /dev/virtio-ports/NAME, a unix socket, tcp:HOST:PORT, or vsock:2:PORT. Recording begins when the host's recorder is there, and
    /// ends when that one ends
    #[arg(long, value_name = "CHANNEL", value_parser = parse_place, conflicts_with_all = ["output", "guest"])]
    relay: Option<Place>,

    /// Let the buffers of all programs and the kernel take no more memory than this together, such as 2G: a
    /// program whose buffers do not fit is not recorded, and named at the end
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_memory: Option<u64>,

    /// Record the running process PID, or all of this NAME (of the process or of its program's file); may
    /// be repeated
    #[arg(short, long, value_name = "PID|NAME", value_delimiter = ',', conflicts_with = "command",
        value_parser = parse_process)]
    pid: Vec<AskedProcess>,

    /// Record all programs and the kernel; with a COMMAND until that ends [default without COMMAND and
    /// --pid]
    #[arg(short, long, conflicts_with = "pid")]
    all: bool,

    /// Record until all that the command has started has ended, too, such as a server that goes into the
    /// background
    #[arg(long, requires = "command")]
    wait_descendants: bool,

    /// Record by a process of its own, named NAME, which outlives this command and the terminal: a session as those of
    /// `strata create`, started, until `strata stop`
    #[arg(long, value_name = "NAME")]
    pub background: Option<String>,

    /// Write nothing but keep the last records in the buffers (--mode=overwrite), until `strata snapshot NAME`
    /// saves them: a flight recorder
    #[arg(long, requires = "background", conflicts_with_all = ["output", "max_size", "flush", "rotate_size", "rotate_time", "rotate_count"])]
    pub snapshot: bool,

    /// Have the kernel go on recording when the session's process is killed, until `strata start NAME` makes the session
    /// again, as `strata create --keep` does; root only
    #[arg(long, requires = "background")]
    pub keep: bool,

    /// Let members of GROUP ask how this session of root is: `strata status NAME`. Nothing else is open to them
    #[arg(long, value_name = "GROUP", requires = "background")]
    pub group: Option<String>,

    /// This is the process of its own
    #[arg(long, hide = true, requires = "background")]
    pub of_session: bool,

    #[command(flatten)]
    pub answer: AnswerFlags,

    /// Exit with 1 if anything is missing: a record was discarded, overwritten before it was written, or cannot be read, a
    /// rule matched nothing, nothing passed its filter, a program was not reached, or reached late
    #[arg(long)]
    pub strict: bool,

    /// Say nothing but what went wrong
    #[arg(short, long)]
    pub quiet: bool,

    /// The command to run, recorded with all its descendants from their first event; without it and
    /// --pid, every process is recorded until Ctrl-C, as with --all
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// `strata status`.
#[derive(Debug, Args)]
pub struct StatusFlags {
    /// The session [default: all of this user]
    pub name: Option<String>,

    /// Exit with 1 if anything is missing: a record was discarded, a rule has matched nothing, a program was not reached,
    /// or reached late
    #[arg(long)]
    pub strict: bool,

    #[command(flatten)]
    answer: AnswerFlags,
}

impl StatusFlags {
    /// Whether JSON is wanted.
    pub fn is_json(&self) -> bool {
        self.answer.is_json()
    }
}

/// `strata snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotFlags {
    /// The session [default: the only one there is]
    pub name: Option<String>,

    /// The same, as `lttng snapshot record -s SESSION` has it
    #[arg(short, long, value_name = "SESSION", hide = true)]
    pub session: Option<String>,

    /// What LTTng has behind its second word
    #[arg(hide = true)]
    pub more: Vec<String>,

    /// Write the snapshot to DIR, which must be new or empty [default: strata-snapshot-NAME-DATE-TIME]; -: as a
    /// tar file to the standard output
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,

    /// Save only the last TIME, such as 10s: packets that end before are left out, all others are whole
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub last: Option<Duration>,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `strata top`.
#[derive(Debug, Args)]
pub struct TopFlags {
    /// The session [default: all of this user]
    pub name: Option<String>,

    /// Look again after TIME
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub period: Duration,

    /// Look N times [default: until Ctrl-C]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub number: Option<u64>,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `strata list`.
#[derive(Debug, Args)]
pub struct ListFlags {
    /// Show the sessions of this user only
    #[arg(long, conflicts_with_all = ["kernel", "probes", "names", "named"])]
    pub sessions: bool,

    /// Show the kernel's events; with EVENT, the fields of those
    #[arg(short, long)]
    pub kernel: bool,

    /// Show running applications and their tracepoints only
    #[arg(short, long, alias = "userspace", conflicts_with_all = ["sessions", "kernel", "probes", "libc", "names", "named"])]
    pub user: bool,

    /// Nothing: fields are always shown
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

    /// Print names only, of all that a rule may name
    #[arg(long, requires = "kernel", conflicts_with_all = ["json", "format", "named"])]
    pub names: bool,

    #[command(flatten)]
    answer: AnswerFlags,

    /// Show what the metadata of TRACE describe: environment, clocks, streams, events and their fields; the status of
    /// SESSION, as `strata status` does; or, with --kernel, EVENT of the kernel, as in `strata record -k`
    #[arg(value_name = "TRACE|EVENT|SESSION", value_hint = ValueHint::DirPath, conflicts_with = "probes")]
    pub named: Vec<OsString>,
}

impl ListFlags {
    /// Whether JSON is wanted.
    pub fn is_json(&self) -> bool {
        self.answer.is_json()
    }

    /// The session that is named, if it may be one: it is a name, and nothing has this path.
    pub fn session(&self) -> Option<&str> {
        match &self.named[..] {
            [name] => name.to_str().filter(|name| {
                strata_control::is_name(name) && Path::new(name).symlink_metadata().is_err()
            }),
            _ => None,
        }
    }

    /// The traces that are named.
    pub fn traces(&self) -> Vec<PathBuf> {
        self.named.iter().map(PathBuf::from).collect()
    }

    /// The rules for events of the kernel that are named.
    ///
    /// # Errors
    /// One is not well formed.
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

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `--ctf`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum CtfFlag {
    /// CTF 1.8, which all readers know
    #[value(name = "1.8")]
    One,
    /// CTF 2, for readers such as babeltrace2 from 2.1 on
    #[value(name = "2")]
    Two,
}

/// `--mode`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeFlag {
    /// Discard the new record, and count it
    Discard,
    /// Overwrite the oldest packet that is not on disk yet: gaps are in the past, and not at the end. All that
    /// is read goes to disk in both modes
    Overwrite,
}

/// `--relay`.
fn parse_place(text: &str) -> Result<Place, PlaceProblem> {
    Place::parse(text)
}

/// What lists the contexts, in the place of one.
const CONTEXT_HELP: &str = "help";

fn parse_contexts(text: &str) -> Result<String, ContextError> {
    match text {
        CONTEXT_HELP => Ok(text.to_owned()),
        _ => EventContexts::parse(&[text]).map(|_| text.to_owned()),
    }
}

/// `--pid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedProcess {
    /// By its number.
    Number(u32),
    /// All of this name.
    Name(String),
}

/// The number of a process, 0 is none; or a name, which has something else in it than digits.
fn parse_process(text: &str) -> Result<AskedProcess, String> {
    if !text.is_empty() && !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(AskedProcess::Name(text.to_owned()));
    }
    let pid = text.parse().ok().filter(|pid| (1..=PID_MAX).contains(pid));
    pid.map(AskedProcess::Number).ok_or_else(|| {
        format!("'{text}' is no number of a process, 1 to {PID_MAX}, and no name of one")
    })
}

impl RecordFlags {
    /// Whether there is a command to run.
    pub fn has_command(&self) -> bool {
        !self.command.is_empty()
    }

    /// `--context help`, `--kernel-context help`: nothing is to be recorded.
    pub fn asks_for_contexts(&self) -> Option<LayerOf> {
        let asks = |contexts: &[String]| contexts.iter().any(|text| text == CONTEXT_HELP);
        match (asks(&self.context), asks(&self.kernel_context)) {
            (true, _) => Some(LayerOf::User),
            (false, true) => Some(LayerOf::Kernel),
            (false, false) => None,
        }
    }

    /// The processes that are asked for, with the name of those that were named, each once.
    ///
    /// # Errors
    /// There is none of a name.
    pub fn processes(&self) -> Result<Vec<(Option<&str>, u32)>, NameError> {
        let mut found: Vec<(Option<&str>, u32)> = Vec::new();
        for asked in &self.pid {
            let of_it = match asked {
                AskedProcess::Number(pid) => vec![(None, *pid)],
                AskedProcess::Name(name) => {
                    let pids = processes_of(name)?;
                    pids.into_iter().map(|pid| (Some(name.as_str()), pid)).collect()
                }
            };
            for one in of_it {
                if found.iter().all(|(_, pid)| *pid != one.1) {
                    found.push(one);
                }
            }
        }
        Ok(found)
    }

    /// What the session is asked to do, of these processes.
    ///
    /// # Errors
    /// The rules are too long together, or flags make no sense together.
    pub fn options(&self, pids: Vec<u32>) -> anyhow::Result<Options> {
        let texts = [self.user.clone(), preload::rules(&self.libc, &self.user)].concat();
        let rules = match texts.as_slice() {
            [] => None,
            texts => Some(Rules::parse(texts)?),
        };
        Ok(Options {
            rules,
            filter: self.filter.clone(),
            kernel: self.kernel_options()?,
            output: self.output.clone(),
            relay: self.relay.clone(),
            guests: self.guest.clone(),
            version: match self.ctf {
                CtfFlag::One => Version::One,
                CtfFlag::Two => Version::Two,
            },
            mode: match self.mode {
                // What is not written is of use as long as it is the newest.
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
            flush: self.flush,
            duration: self.duration,
            max_bytes: self.max_size,
            goes_on: false,
            is_early: false,
            rotation: self.rotate.rotation(),
            max_memory: self.max_memory,
            pids,
            everyone: self.all,
            libc: self.libc.clone(),
            wait_descendants: self.wait_descendants,
            command: self.command.clone(),
        })
    }

    /// What `--hypervisor` stands for, in the place of it. Returns what of it is not recorded.
    ///
    /// # Errors
    /// It cannot be looked up, or there is nothing of it.
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

    /// Those of applications' records.
    fn contexts(&self) -> anyhow::Result<EventContexts> {
        let mut texts = self.context.clone();
        let records_applications = !self.user.is_empty() || !self.names_kernel();
        if self.stack && records_applications {
            texts.push("callstack_user".to_owned());
        }
        Ok(EventContexts::parse(&texts)?)
    }

    /// Of what its report is kept, for `--auto`.
    pub fn key(&self) -> AdviceKey<'_> {
        match (&self.background, self.command.first()) {
            (Some(name), _) => AdviceKey::Session(name),
            (None, command) => AdviceKey::Command(command.map_or(OsStr::new(""), |name| name)),
        }
    }

    /// Who names nothing gets both layers; else what was named.
    fn kernel_options(&self) -> anyhow::Result<Option<KernelOptions>> {
        let is_named = self.names_kernel();
        let has_none = self.no_kernel || !self.user.is_empty() || !self.libc.is_empty();
        let samples_only = !is_named && has_none && self.sample.is_some();
        let contexts = Contexts::parse(&self.kernel_context)?;
        if is_named || samples_only || !has_none {
            return Ok(Some(KernelOptions {
                probes: self.probe.clone(),
                rules: self.kernel.clone(),
                filter: self.filter.clone(),
                all_processes: self.all_processes,
                as_lttng: self.lttng_env,
                contexts: if self.stack { contexts.with_stacks() } else { contexts },
                sample: self.sample,
                samples_only,
                subbuf_bytes: self.kernel_subbuf_size,
                nr_subbufs: self.kernel_num_subbuf,
            }));
        }
        let flags = [
            ("--all-processes", self.all_processes),
            ("--lttng-env", self.lttng_env),
            ("--kernel-context", !self.kernel_context.is_empty()),
            ("--kernel-subbuf-size", self.kernel_subbuf_size.is_some()),
            ("--kernel-num-subbuf", self.kernel_num_subbuf.is_some()),
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
