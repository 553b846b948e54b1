//! The state dump: what existed before the first event. It has all threads, so that readers can name and place
//! them; open files and mapped code of recorded processes; and the state of the machine.
//!
//! ```text
//! /proc/PID/task/TID/...   proc            threads, processes, ids, namespaces
//! /proc/PID/fd, maps       process_files   open files, mapped code; only of processes whose files are wanted
//! /proc, /sys              machine         interrupts, CPUs, devices, mounts, sockets
//! a command to start       command         the state with which it will begin, before it exists
//!    └──▶ kinds: records with LTTng's names and fields (lttng_statedump_*)
//! ```
//!
//! The tracer writes the dump, not a program in the kernel, so a dump takes time while the machine goes on: each
//! record has its own time, and what has ended meanwhile is left out. Readers put both together
//! (`strata_timeline`, "state before"). Readers for LTTng's traces find what they look for, since names and
//! fields are LTTng's.
//!
//! The dump of a command is special: it must be there at the command's first event, and so it is predicted from
//! the process that will execute it, which has the same descriptors and namespaces (`command`).
//!
//! This module reads and encodes, and holds no state. When a dump is written, and to which stream, is decided by
//! the session (`strata_session::kernel::statedump`), which writes it in the thread of the kernel's pump. The
//! build ids of files are remembered ([`BuildIds`]), so that a library that a hundred processes map is read once.

mod command;
mod kinds;
mod machine;
mod proc;
mod process_files;
#[cfg(test)]
mod tests;

pub use command::CommandState;
pub use kinds::{event_classes, DumpStamp, NAME_BYTES, NR_CLASSES};
pub(crate) use kinds::{DumpRecord, DumpRecordKind};
pub use machine::MachineState;
pub(crate) use proc::namespace_of;
pub use proc::{numbers_of_processes, process, states, ticks_since_boot, DumpedProcess};
pub(crate) use process_files::code_mapping;
pub use process_files::{BuildIds, CodeMapping, OpenFile};

use crate::read::container_name::container_of;

/// The value of a kernel thread in `lttng_thread_type`.
const KERNEL_THREAD: i32 = 1;

/// Values `LTTNG_MODE_UNKNOWN` and `LTTNG_UNKNOWN`, since /proc does not show where in its code a thread is.
const MODE_UNKNOWN: i32 = 5;
const SUBMODE_UNKNOWN: i32 = 1;

/// The state of a thread. The numbers are LTTng's `lttng_process_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum ThreadStatus {
    /// The thread is stopped, traced, or in a state without a number here.
    Unnamed = 0,
    /// The thread runs, or could run.
    WaitCpu = 2,
    /// The thread has ended, and its parent has not waited for it yet.
    Zombie = 4,
    /// The thread sleeps.
    Wait = 5,
    /// The thread is being removed.
    Dead = 7,
}

/// The system call in which a thread sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingCall {
    /// Name of the call; empty if the thread is in none, or if this process may not know.
    pub name: &'static str,
    /// First argument of the call, if it is a descriptor.
    pub descriptor: Option<i32>,
    /// First argument of a call that waits for a change in memory: the address of that memory; 0 for other calls.
    pub address: u64,
}

/// The state of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessState {
    /// Number of the thread, as in all records of the kernel's trace.
    pub tid: i32,
    /// Number of the thread in its own PID namespace.
    pub vtid: i32,
    /// The number of the thread's process.
    pub pid: i32,
    /// The process' number in its own PID namespace.
    pub vpid: i32,
    /// The number of the process' parent; 0 if it has none.
    pub ppid: i32,
    /// The parent's number in the thread's PID namespace; 0 if it is outside of that.
    pub vppid: i32,
    /// The thread's name in the kernel, filled up with NULs.
    pub name: [u8; NAME_BYTES],
    /// True for a kernel thread.
    pub is_kernel: bool,
    /// The thread's state.
    pub status: ThreadStatus,
    /// Letter of the thread's state in /proc: `S`, `D`, `R`; `?` if the thread began while /proc was read.
    pub letter: u8,
    /// The system call in which the thread waits.
    pub call: WaitingCall,
    /// Depth of the thread's PID namespace below the one that /proc shows.
    pub ns_level: i32,
    /// Number of the thread's PID namespace; 0 if this process may not know it.
    pub ns_inum: u32,
    /// Start time of the thread, in clock ticks since the boot.
    pub start_ticks: u64,
    /// The CPU on which the thread ran last.
    pub cpu: u32,
}

/// Encodes the records of a dump, for a packet of the kernel's stream class. Returns them and their number. All have
/// one time, and are in native byte order. The state of the machine is added if `machine` is given.
pub fn records(
    processes: &[DumpedProcess],
    machine: Option<&MachineState>,
    stamp: &DumpStamp<'_>,
) -> (Vec<u8>, u64) {
    let states = states(processes);
    let mut writer =
        DumpWriter { out: Vec::with_capacity((states.len() + 2) * 96), count: 0, stamp: *stamp };
    writer.begin(DumpRecordKind::Start);
    if let Some(machine) = machine {
        writer.machine(machine);
    }
    for state in &states {
        put(writer.begin(DumpRecordKind::ProcessState), state);
    }
    for process in processes {
        writer.process(process, machine);
    }
    writer.begin(DumpRecordKind::End);
    (writer.out, writer.count)
}

/// Encodes the state of a command alone, without the machine's, to precede other records.
pub fn command_records(process: &DumpedProcess, stamp: &DumpStamp<'_>) -> (Vec<u8>, u64) {
    records(std::slice::from_ref(process), None, stamp)
}

struct DumpWriter<'s> {
    out: Vec<u8>,
    count: u64,
    stamp: DumpStamp<'s>,
}

impl DumpWriter<'_> {
    fn begin(&mut self, kind: DumpRecordKind) -> DumpRecord<'_> {
        self.count += 1;
        DumpRecord::begin(&mut self.out, &self.stamp, kind)
    }

    fn process(&mut self, process: &DumpedProcess, machine: Option<&MachineState>) {
        for map in &process.maps {
            self.begin(DumpRecordKind::VmMap).map(process.pid, map);
        }
        for file in &process.files {
            // FMODE_READ and FMODE_WRITE.
            let mode = (file.flags & 3) + 1;
            let name = machine.map_or_else(|| file.name.clone(), |it| it.named(&file.name));
            let numbers = [process.pid as u32, file.fd as u32, file.flags, mode];
            self.begin(DumpRecordKind::FileDescriptor).u32s(&numbers).text(&name);
        }
        if !process.group.is_empty() {
            let record = self.begin(DumpRecordKind::ProcessCgroup).u32s(&[process.pid as u32]);
            let record = record.text(&process.group).u64s(&[process.group_id]);
            let record = record.text(container_of(&process.group).as_bytes());
            record.text(process.pod.as_bytes());
        }
    }

    fn machine(&mut self, machine: &MachineState) {
        for (number, chip, action) in &machine.interrupts {
            let record = self.begin(DumpRecordKind::Interrupt).u32s(&[*number]);
            record.text(chip.as_bytes()).text(action.as_bytes());
        }
        for (number, name) in &machine.disks {
            self.begin(DumpRecordKind::BlockDevice).u32s(&[*number]).text(name.as_bytes());
        }
        for (name, address) in &machine.networks {
            self.begin(DumpRecordKind::NetworkInterface).text(name.as_bytes()).bytes(address);
        }
        for cpu in &machine.cpus {
            let record =
                self.begin(DumpRecordKind::CpuTopology).text(std::env::consts::ARCH.as_bytes());
            let record = record.u32s(&[cpu.number]).text(cpu.vendor.as_bytes());
            let record = record.bytes(&[cpu.family, cpu.model]).text(cpu.model_name.as_bytes());
            [cpu.package, cpu.core, cpu.cores]
                .iter()
                .fold(record, |record, number| record.bytes(&number.to_ne_bytes()));
        }
        for (device, kind, path) in &machine.mounts {
            let record = self.begin(DumpRecordKind::Mount);
            [device, kind, path].iter().fold(record, |record, text| record.text(text.as_bytes()));
        }
    }
}

fn put(record: DumpRecord<'_>, state: &ProcessState) {
    let ids = [state.tid, state.vtid, state.pid, state.vpid, state.ppid, state.vppid];
    let kind = if state.is_kernel { KERNEL_THREAD } else { 0 };
    let how = [kind, MODE_UNKNOWN, SUBMODE_UNKNOWN, state.status as i32, state.ns_level];
    record
        .u32s(&ids.map(|id| id as u32))
        .bytes(&state.name)
        .u32s(&how.map(|number| number as u32))
        .u32s(&[state.ns_inum, state.cpu])
        .text(&[state.letter])
        .text(state.call.name.as_bytes())
        .u32s(&[state.call.descriptor.unwrap_or(-1) as u32])
        .u64s(&[state.call.address]);
}
