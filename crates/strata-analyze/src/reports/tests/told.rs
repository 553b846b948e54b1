//! A kernel's trace that tests write record by record, by the names of its events.

use strata_ctf::read::{Reader, TimeRange};
use strata_timeline::Observer;

use crate::hand_tests::V::{Text, I64, U32, U64};
use crate::hand_tests::{metadata, Hand, Packets, Record, ORIGIN, V};
use strata_timeline::{pass, Asked, Passed};

const EVENTS: [(&str, &str); 62] = [
    (
        "sched_switch",
        "string prev_comm; u32 prev_tid; i64 prev_state; string next_comm; u32 next_tid;",
    ),
    ("sched_waking", "string comm; u32 tid;"),
    ("sched_process_fork", "u32 parent_tid; u32 child_tid; u32 child_pid; string child_comm;"),
    ("sched_process_exit", "string comm; u32 tid;"),
    ("lttng_statedump_process_state", "u32 tid; u32 pid; u32 ppid; string name;"),
    ("syscall_entry_openat", "i64 dfd; string filename; u32 flags;"),
    ("syscall_exit_openat", "i64 ret;"),
    ("syscall_entry_read", "u32 fd; u64 count;"),
    ("syscall_exit_read", "i64 ret;"),
    ("syscall_entry_write", "u32 fd; u64 count;"),
    ("syscall_exit_write", "i64 ret;"),
    ("syscall_entry_sendmmsg", "u32 fd;"),
    ("syscall_exit_sendmmsg", "i64 ret;"),
    ("syscall_entry_pipe2", "u32 flags;"),
    ("syscall_exit_pipe2", "i64 ret; u32 fildes_0; u32 fildes_1;"),
    ("syscall_entry_futex", "u64 uaddr; u32 op;"),
    ("syscall_exit_futex", "i64 ret;"),
    ("syscall_entry_futex_wake", "u64 uaddr;"),
    ("syscall_exit_futex_wake", "i64 ret;"),
    ("syscall_entry_clock_nanosleep", "u32 which_clock;"),
    ("syscall_exit_clock_nanosleep", "i64 ret;"),
    ("syscall_entry_mmap", "u64 addr; u64 len; u32 flags; u32 fd;"),
    ("syscall_exit_mmap", "i64 ret;"),
    ("syscall_entry_munmap", "u64 addr; u64 len;"),
    ("syscall_exit_munmap", "i64 ret;"),
    ("syscall_entry_mremap", "u64 addr; u64 old_len; u64 new_len;"),
    ("syscall_exit_mremap", "i64 ret;"),
    ("syscall_entry_brk", "u64 brk;"),
    ("syscall_exit_brk", "i64 ret;"),
    ("syscall_entry_execve", "string filename;"),
    ("syscall_exit_execve", "i64 ret;"),
    ("exceptions_page_fault_user", "u64 address; u64 ip;"),
    ("exceptions_page_fault_kernel", "u64 address; u64 ip;"),
    ("kmem_kmalloc", "u64 call_site; u64 ptr; u64 bytes_req; u64 bytes_alloc;"),
    ("kmem_kfree", "u64 ptr;"),
    ("kmem_mm_page_alloc", "u32 order;"),
    ("kmem_mm_page_free", "u32 order;"),
    ("irq_handler_entry", "u32 irq; string name;"),
    ("irq_handler_exit", "u32 irq;"),
    ("irq_softirq_entry", "u32 vec;"),
    ("irq_softirq_exit", "u32 vec;"),
    ("syscall_entry_epoll_wait", "u32 epfd; i64 timeout;"),
    ("syscall_exit_epoll_wait", "i64 ret;"),
    ("block_rq_insert", "u32 dev; u64 sector; u32 nr_sector; string rwbs;"),
    ("block_rq_issue", "u32 dev; u64 sector; u32 nr_sector; string rwbs;"),
    ("block_rq_complete", "u32 dev; u64 sector; u32 nr_sector; i64 error; string rwbs;"),
    ("lttng_statedump_block_device", "u32 dev; string diskname;"),
    ("lttng_statedump_file_descriptor", "u32 pid; u32 fd; u32 flags; string filename;"),
    ("syscall_entry_close", "u32 fd;"),
    ("syscall_exit_close", "i64 ret;"),
    ("syscall_entry_futex_wait", "u64 uaddr; u64 val;"),
    ("syscall_exit_futex_wait", "i64 ret;"),
    ("syscall_entry_poll", "u32 _ufds_fd_length; u32 ufds_fd[_ufds_fd_length]; i64 timeout_msecs;"),
    ("syscall_exit_poll", "i64 ret; u32 _ufds_fd_length; u32 ufds_fd[_ufds_fd_length];"),
    ("syscall_entry_pselect6", "u32 _inp_length; u32 inp[_inp_length]; u64 tsp;"),
    ("syscall_exit_pselect6", "i64 ret; u32 _inp_length; u32 inp[_inp_length];"),
    ("syscall_entry_socket", "u32 family; u32 type;"),
    ("syscall_exit_socket", "i64 ret;"),
    (
        "syscall_entry_connect",
        "u32 fd; u32 uservaddr_family; u32 uservaddr_port; u32 _uservaddr_addr_length; \
         u8 uservaddr_addr[_uservaddr_addr_length];",
    ),
    ("syscall_exit_connect", "i64 ret;"),
    ("syscall_entry_kill", "i64 pid; i64 sig;"),
    ("syscall_exit_kill", "i64 ret;"),
];

/// The records of one CPU, packet by packet.
#[derive(Default)]
struct Cpu {
    packets: Vec<Packet>,
}

/// A packet: the number of records discarded before it, and its records.
type Packet = (u64, Vec<(u8, u64, Vec<V>)>);

/// A trace that is written record by record, with as many CPUs as are named.
#[derive(Default)]
pub(in crate::reports) struct Told {
    cpus: Vec<Cpu>,
    /// The CPU of the next record.
    cpu: usize,
}

impl Told {
    /// Begins a trace with these threads, each given by number and process. A thread's name is `tNUMBER`, and a process
    /// has the name of its first thread.
    pub(in crate::reports) fn new(threads: &[(u32, u32)]) -> Told {
        const NAMES: [&str; 10] = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"];
        let mut told = Told::default();
        for &(tid, pid) in threads {
            let name = Text(NAMES[tid as usize]);
            told.tell(1, 1, "lttng_statedump_process_state", &[U32(tid), U32(pid), U32(1), name]);
        }
        told
    }

    /// Makes the next records those of this CPU.
    pub(in crate::reports) fn on(&mut self, cpu: usize) -> &mut Told {
        self.cpu = cpu;
        self
    }

    fn now(&mut self) -> &mut Cpu {
        if self.cpus.len() <= self.cpu {
            self.cpus.resize_with(self.cpu + 1, Cpu::default);
        }
        let cpu = &mut self.cpus[self.cpu];
        if cpu.packets.is_empty() {
            cpu.packets.push((0, Vec::new()));
        }
        cpu
    }

    /// Adds a record of this thread.
    pub(in crate::reports) fn tell(
        &mut self,
        time: u64,
        tid: u32,
        event: &str,
        values: &[V],
    ) -> &mut Told {
        let id = EVENTS.iter().position(|(name, _)| *name == event).unwrap();
        let record = (id as u8, time, [&[U32(tid)], values].concat());
        self.now().packets.last_mut().unwrap().1.push(record);
        self
    }

    /// Discards `records` records at this point.
    pub(in crate::reports) fn lose(&mut self, records: u64) -> &mut Told {
        self.now().packets.push((records, Vec::new()));
        self
    }

    pub(in crate::reports) fn switch(
        &mut self,
        time: u64,
        prev: u32,
        state: i64,
        next: u32,
    ) -> &mut Told {
        let values = [Text(""), U32(prev), I64(state), Text(""), U32(next)];
        self.tell(time, prev, "sched_switch", &values)
    }

    pub(in crate::reports) fn wake(&mut self, time: u64, by: u32, tid: u32) -> &mut Told {
        self.tell(time, by, "sched_waking", &[Text(""), U32(tid)])
    }

    /// A system call from then to then, of which nothing else tells.
    pub(in crate::reports) fn call(
        &mut self,
        (from, to): (u64, u64),
        tid: u32,
        call: &str,
        values: &[V],
        result: i64,
    ) -> &mut Told {
        self.tell(from, tid, &format!("syscall_entry_{call}"), values);
        self.tell(to, tid, &format!("syscall_exit_{call}"), &[I64(result)])
    }

    pub(in crate::reports) fn enter(
        &mut self,
        time: u64,
        tid: u32,
        call: &str,
        values: &[V],
    ) -> &mut Told {
        self.tell(time, tid, &format!("syscall_entry_{call}"), values)
    }

    pub(in crate::reports) fn leave(
        &mut self,
        time: u64,
        tid: u32,
        call: &str,
        result: i64,
    ) -> &mut Told {
        self.tell(time, tid, &format!("syscall_exit_{call}"), &[I64(result)])
    }

    pub(in crate::reports) fn fault(&mut self, time: u64, tid: u32, address: u64) -> &mut Told {
        self.tell(time, tid, "exceptions_page_fault_user", &[U64(address), U64(0x77)])
    }

    /// Calls `ask` with a reader of the trace, and returns its result.
    pub(in crate::reports) fn with<T>(&self, ask: impl FnOnce(&Reader) -> T) -> T {
        let hand = Hand::new();
        let about = "domain = \"kernel\"; hostname = \"box\"; strata_version = \"0.2.0\";";
        let text = metadata(about, "u32 tid;", &EVENTS);
        let mut streams = Vec::new();
        for (number, cpu) in self.cpus.iter().enumerate() {
            let mut stream = Packets::new(number as u64);
            for (discarded, records) in &cpu.packets {
                let records: Vec<Record<'_>> =
                    records.iter().map(|(id, time, values)| (*id, *time, &values[..])).collect();
                assert!(records.is_sorted_by_key(|(_, time, _)| *time), "{records:?}");
                stream = stream.discards(*discarded).packet(&records);
            }
            streams.push(stream);
        }
        ask(&hand.trace("t", &text, &streams).reader())
    }

    /// Passes the records of a time range to an observer. Returns the observer and the state at the end.
    pub(in crate::reports) fn seen<O: Observer>(
        &self,
        range: TimeRange,
        mut seen: O,
    ) -> (O, Passed) {
        let passed = self.with(|reader| {
            let asked = Asked { range, selection: None };
            pass(reader, &asked, &mut seen, &|_| true, &mut |_| {}).unwrap()
        });
        (seen, passed)
    }
}

/// Returns the time range between two times of records.
pub(in crate::reports) fn range(from: u64, to: u64) -> TimeRange {
    TimeRange { from: ORIGIN + from as i64, to: ORIGIN + to as i64 }
}
