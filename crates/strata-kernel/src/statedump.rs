//! What was there before the first event: all threads, for readers that name and place them; of those that are recorded
//! what they have open and which code they have mapped; and what the machine has.
//!
//! The tracer writes it, not a program in the kernel, as events of LTTng's names and fields: so its readers
//! find in it what they look for.

mod held;
mod kinds;
mod machine;
mod proc;
#[cfg(test)]
mod tests;

pub use held::{BuildIds, CodeMapping, OpenFile};
pub use kinds::{event_classes, DumpStamp, NAME_BYTES, NR_CLASSES};
pub(crate) use kinds::{DumpRecord, DumpRecordKind};
pub use machine::MachineState;
pub(crate) use proc::namespace_of;
pub use proc::{numbers_of_processes, process, states, DumpedProcess};

use crate::container::container_of;

/// `lttng_thread_type`.
const KERNEL_THREAD: i32 = 1;

/// `LTTNG_MODE_UNKNOWN` and `LTTNG_UNKNOWN`: where in its code a thread is, /proc does not say.
const MODE_UNKNOWN: i32 = 5;
const SUBMODE_UNKNOWN: i32 = 1;

/// How a thread was; the numbers are LTTng's `lttng_process_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum ThreadStatus {
    /// Stopped, traced, or in a state that has no number here.
    Unnamed = 0,
    /// Runs, or could run.
    WaitCpu = 2,
    /// Ended; its parent has not asked yet.
    Zombie = 4,
    /// Sleeps.
    Wait = 5,
    /// Being taken away.
    Dead = 7,
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessState {
    /// Its number, as all records of the kernel's trace have it.
    pub tid: i32,
    /// Its number in its own PID namespace.
    pub vtid: i32,
    /// Its process.
    pub pid: i32,
    /// Likewise, in its own PID namespace.
    pub vpid: i32,
    /// Its process' parent; 0: none.
    pub ppid: i32,
    /// Likewise, in the thread's PID namespace; 0: it is outside of it.
    pub vppid: i32,
    /// As the kernel has it, NUL behind it.
    pub name: [u8; NAME_BYTES],
    /// A thread of the kernel.
    pub is_kernel: bool,
    /// What it did.
    pub status: ThreadStatus,
    /// How deep its PID namespace lies below the one that /proc shows.
    pub ns_level: i32,
    /// Its PID namespace; 0: not allowed to know.
    pub ns_inum: u32,
    /// Where it ran last.
    pub cpu: u32,
}

/// The records of a dump, and how many they are, for a packet of the kernel's stream class. In native byte order; all of
/// one time. What `machine` has is said if it is there.
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
            record.text(container_of(&process.group).as_bytes());
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
        .u32s(&[state.ns_inum, state.cpu]);
}
