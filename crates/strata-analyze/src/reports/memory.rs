//! The report on memory: page faults, mappings, allocations by their call sites, and allocations that were not freed.
//!
//! The report joins three sources, of which a trace may have any:
//!
//! | records | what they give |
//! |---|---|
//! | the kernel's page faults and calls of mmap(), brk(), munmap() | faults by process and by the mapping they touched |
//! | `libc` and `libc_sum` events of `strata record --libc malloc` | allocations by call site, and what was not freed |
//! | the kernel's kmem events | allocations of the kernel itself |
//!
//! A [`MemoryCounter`] is an observer of the timeline. It needs records from before the time of the report: an
//! allocation that is freed in that time was made earlier. Only allocations made in that time can be reported as not
//! freed.
//!
//! Addresses are matched exactly. If an address is allocated twice without a free in between, the record of the free is
//! missing, and the first allocation is removed. Mappings are kept as ranges per process, from which later calls cut
//! pieces, so that a fault can be attributed to the heap, a file, a stack or anonymous memory.
//!
//! The number of live allocations, sites and mappings is limited by the constants at the top of the file; the report
//! says how many were left out. Call sites are named at the end of the pass, when all objects of the process are known.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use strata_ctf::read::{Event, EventClass, FieldRef, Scope, TimeRange, Value};
use strata_timeline::{is_kernel, Call, Observer, ThreadId, World};

use super::frames::{FrameId, Frames};
use super::malloc_sums::{AllocationSum, SumFields, Sums};
use crate::debug_info::Source;
use strata_report::Label;

/// The most live allocations at one time that are kept; each takes some 64 bytes.
const LIVE_MAX: usize = 1 << 21;
/// The most call sites that are distinguished, over all processes.
const SITES_MAX: usize = 1 << 17;
/// The most mappings that are kept for each process.
const MAPPINGS_MAX: usize = 1 << 14;
const PAGE: u64 = 4096;

/// The kind of a mapping, as far as the trace has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Region {
    /// The heap, whose end `brk` sets.
    Heap,
    /// Anonymous memory that `mmap` mapped.
    Anonymous,
    /// A file that `mmap` mapped.
    File,
    /// A mapping of unknown kind.
    Unknown,
}

impl Region {
    /// Returns the name that reports use in text and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Region::Heap => "heap",
            Region::Anonymous => "anonymous",
            Region::File => "file",
            Region::Unknown => "unknown",
        }
    }
}

/// The allocations of a process, or of one of its call sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// The number of allocations.
    pub count: u64,
    /// The bytes that the allocations asked for.
    pub bytes: u64,
    /// The number of allocations that were not freed.
    pub live: u64,
    /// The bytes of allocations that were not freed.
    pub live_bytes: u64,
    /// The most bytes that were allocated at one time.
    pub peak_bytes: u64,
}

impl Allocated {
    fn add(&mut self, size: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(size);
        self.put_back(size);
    }

    fn put_back(&mut self, size: u64) {
        self.live += 1;
        self.live_bytes = self.live_bytes.saturating_add(size);
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }

    fn remove(&mut self, size: u64) {
        self.live = self.live.saturating_sub(1);
        self.live_bytes = self.live_bytes.saturating_sub(size);
    }
}

/// The memory of one process.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub label: Label,
    /// The number of page faults in the program.
    pub faults: u64,
    /// The number of page faults in the kernel, by the process' threads.
    pub kernel_faults: u64,
    /// The number of page faults in the program, by the kind of mapping.
    pub regions: Vec<(Region, u64)>,
    /// The change of the heap's end \[byte\].
    pub heap_growth: i64,
    /// The bytes that the process mapped.
    pub mapped: u64,
    /// The bytes of these mappings that the process unmapped.
    pub unmapped: u64,
    /// The allocations of the process by libc.
    pub allocated: Allocated,
    /// The number of calls of free() for blocks whose allocation is not in the trace.
    pub unknown_frees: u64,
    pub failed: u64,
}

/// A call site that allocates.
#[derive(Clone, Debug)]
pub struct AllocationSite {
    /// The process; `None` for allocations by the kernel.
    pub label: Option<Label>,
    /// The function and line that allocated, or the address.
    pub site: String,
    pub allocated: Allocated,
}

/// A place in the code that caused page faults.
#[derive(Clone, Debug)]
pub struct FaultSite {
    pub label: Label,
    /// The function that caused the faults, or the address.
    pub site: String,
    /// The number of faults.
    pub count: u64,
}

#[derive(Clone, Debug, Default)]
pub struct MemoryReport {
    /// The rows, by falling bytes that were not freed, then by allocated bytes and by faults.
    pub rows: Vec<Row>,
    /// The call sites, by falling bytes that were not freed, then by falling bytes.
    pub sites: Vec<AllocationSite>,
    /// The places that caused page faults, by falling count.
    pub faults: Vec<FaultSite>,
    /// The calls that were counted in the program, instead of being recorded one by one.
    pub sums: Vec<AllocationSum>,
    /// The kernel's allocations by kmalloc and its caches.
    pub kernel: Allocated,
    /// The numbers of pages that the kernel has allocated, and freed.
    pub pages: (u64, u64),
    /// The number of allocations that were not followed, because too many allocations were live at the time.
    pub left_out: u64,
}

#[derive(Debug)]
enum MemoryEvent {
    Nothing,
    Fault { ip: Option<FieldRef>, address: Option<FieldRef>, in_kernel: bool },
    Map { length: FieldRef, descriptor: Option<FieldRef>, flags: Option<FieldRef> },
    Unmap { address: FieldRef, length: FieldRef },
    Remap { address: FieldRef, old: FieldRef, new: FieldRef },
    Alloc { ptr: FieldRef, size: FieldRef, times: Option<FieldRef>, site: Option<FieldRef> },
    ReallocBegin { from: FieldRef },
    Realloc { from: FieldRef, ptr: FieldRef, size: FieldRef, site: Option<FieldRef> },
    Free { ptr: FieldRef },
    KernelAlloc { ptr: FieldRef, size: FieldRef, site: Option<FieldRef> },
    KernelFree { ptr: FieldRef },
    Pages { order: Option<FieldRef>, gives: bool },
    Sum(SumFields),
}

impl MemoryEvent {
    fn of(class: &EventClass, is_kernel: bool) -> MemoryEvent {
        let find = |name: &str| class.find_in(Scope::Payload, name);
        let sum = || SumFields::of(class).map(MemoryEvent::Sum);
        let kind = match is_kernel {
            true => kernel(class.name(), &find),
            false => libc(class.name(), &find).or_else(sum),
        };
        kind.unwrap_or(MemoryEvent::Nothing)
    }
}

fn kernel(name: &str, find: &dyn Fn(&str) -> Option<FieldRef>) -> Option<MemoryEvent> {
    let either = |one: &str, other: &str| find(one).or_else(|| find(other));
    let name = ["kmem:", "exceptions:", "syscalls:"]
        .iter()
        .find_map(|it| name.strip_prefix(it))
        .unwrap_or(name);
    Some(match name {
        _ if name.ends_with("page_fault_user") || name.ends_with("page_fault_kernel") => {
            MemoryEvent::Fault {
                ip: find("ip"),
                address: find("address"),
                in_kernel: name.ends_with("kernel"),
            }
        }
        "syscall_entry_mmap" | "sys_enter_mmap" => MemoryEvent::Map {
            length: either("len", "length")?,
            descriptor: find("fd"),
            flags: find("flags"),
        },
        "syscall_entry_munmap" | "sys_enter_munmap" => {
            MemoryEvent::Unmap { address: find("addr")?, length: either("len", "length")? }
        }
        "syscall_entry_mremap" | "sys_enter_mremap" => MemoryEvent::Remap {
            address: find("addr")?,
            old: find("old_len")?,
            new: find("new_len")?,
        },
        "kmem_kmalloc"
        | "kmalloc"
        | "kmem_cache_alloc"
        | "kmalloc_node"
        | "kmem_cache_alloc_node" => {
            let size = either("bytes_alloc", "bytes_req")?;
            MemoryEvent::KernelAlloc { ptr: find("ptr")?, size, site: find("call_site") }
        }
        "kmem_kfree" | "kfree" | "kmem_cache_free" => MemoryEvent::KernelFree { ptr: find("ptr")? },
        "kmem_mm_page_alloc" | "mm_page_alloc" => {
            MemoryEvent::Pages { order: find("order"), gives: true }
        }
        "kmem_mm_page_free" | "mm_page_free" => {
            MemoryEvent::Pages { order: find("order"), gives: false }
        }
        _ => return None,
    })
}

fn libc(name: &str, find: &dyn Fn(&str) -> Option<FieldRef>) -> Option<MemoryEvent> {
    let short = ["libc:", "lttng_ust_libc:"].iter().find_map(|it| name.strip_prefix(it))?;
    let site = || find("caller");
    Some(match short {
        "malloc" | "calloc" | "memalign" | "aligned_alloc" | "valloc" | "pvalloc" => {
            MemoryEvent::Alloc {
                ptr: find("ptr")?,
                size: find("size")?,
                times: find("nmemb"),
                site: site(),
            }
        }
        "posix_memalign" => MemoryEvent::Alloc {
            ptr: find("ptr").or_else(|| find("out_ptr"))?,
            size: find("size")?,
            times: None,
            site: site(),
        },
        "realloc_begin" => MemoryEvent::ReallocBegin { from: find("in_ptr")? },
        "realloc_end" | "realloc" => MemoryEvent::Realloc {
            from: find("in_ptr")?,
            ptr: find("ptr")?,
            size: find("size")?,
            site: site(),
        },
        "free" => MemoryEvent::Free { ptr: find("ptr")? },
        _ => return None,
    })
}

#[derive(Clone, Copy, Debug)]
struct Live {
    size: u64,
    site: usize,
}

/// A system call that changes mappings, between its entry and its return.
#[derive(Clone, Copy, Debug)]
enum MemoryCall {
    Map { length: u64, region: Region },
    Unmap { address: u64, length: u64 },
    Remap { address: u64, old: u64, new: u64 },
}

#[derive(Debug, Default)]
struct ProcessMemory {
    row: Row,
    regions: HashMap<Region, u64>,
    /// The begin and the end of the heap, if the trace has them.
    heap: Option<(u64, u64)>,
    /// The mappings by their begin, each with its end and kind.
    mappings: BTreeMap<u64, (u64, Region)>,
    faults: HashMap<FrameId, u64>,
}

impl ProcessMemory {
    /// Removes a range from the mappings. Returns how many bytes of it were mapped.
    fn carve(&mut self, from: u64, to: u64) -> u64 {
        let mut taken = 0;
        loop {
            let found = self.mappings.range(..to).next_back().map(|(&begin, &it)| (begin, it));
            let Some((begin, (end, region))) = found.filter(|(_, (end, _))| *end > from) else {
                return taken;
            };
            self.mappings.remove(&begin);
            taken += end.min(to) - begin.max(from);
            if end > to {
                self.mappings.insert(to, (end, region));
            }
            if begin < from {
                self.mappings.insert(begin, (from, region));
                return taken;
            }
        }
    }

    fn map(&mut self, from: u64, length: u64, region: Region) {
        let length = length.div_ceil(PAGE).saturating_mul(PAGE);
        let Some(to) = from.checked_add(length).filter(|&to| to > from) else { return };
        let replaced = self.carve(from, to);
        self.row.unmapped = self.row.unmapped.saturating_add(replaced);
        self.row.mapped = self.row.mapped.saturating_add(length);
        if self.mappings.len() < MAPPINGS_MAX {
            self.mappings.insert(from, (to, region));
        }
    }

    fn unmap(&mut self, from: u64, length: u64) {
        let length = length.div_ceil(PAGE).saturating_mul(PAGE);
        let taken = self.carve(from, from.saturating_add(length));
        self.row.unmapped = self.row.unmapped.saturating_add(taken);
    }

    fn region(&self, address: u64) -> Region {
        if self.heap.is_some_and(|(from, to)| (from..to).contains(&address)) {
            return Region::Heap;
        }
        let found = self.mappings.range(..=address).next_back();
        found.filter(|(_, (end, _))| address < *end).map_or(Region::Unknown, |(_, it)| it.1)
    }
}

/// Counts page faults, mappings and allocations.
#[derive(Debug)]
pub struct MemoryCounter {
    range: TimeRange,
    frames: Frames,
    kinds: Vec<Option<MemoryEvent>>,
    kernels: Vec<Option<bool>>,
    processes: HashMap<ThreadId, ProcessMemory>,
    /// The allocations that are not freed, by process and address. The process `None` is the kernel.
    live: HashMap<(Option<ThreadId>, u64), Live>,
    sites: HashMap<(Option<ThreadId>, FrameId), usize>,
    counted: Vec<(Option<ThreadId>, FrameId, Allocated)>,
    /// For each thread that is in a call of realloc(), the old block with its address.
    moving: HashMap<ThreadId, (u64, Live)>,
    asked: HashMap<ThreadId, MemoryCall>,
    sums: Sums,
    kernel: Allocated,
    pages: (u64, u64),
    left_out: u64,
}

impl MemoryCounter {
    /// Makes a counter for `range`. It must see earlier records too, since memory that is freed in `range` may have
    /// been allocated before.
    #[must_use]
    pub fn new(range: TimeRange, source: Source) -> MemoryCounter {
        let frames = Frames::new(source);
        MemoryCounter {
            range,
            frames,
            kinds: Vec::new(),
            kernels: Vec::new(),
            processes: HashMap::new(),
            live: HashMap::new(),
            sites: HashMap::new(),
            counted: Vec::new(),
            moving: HashMap::new(),
            asked: HashMap::new(),
            sums: Sums::default(),
            kernel: Allocated::default(),
            pages: (0, 0),
            left_out: 0,
        }
    }

    fn allocate(&mut self, process: Option<ThreadId>, ptr: u64, size: u64, frame: FrameId) {
        // Its free was not recorded.
        self.free(process, ptr);
        if self.live.len() >= LIVE_MAX {
            self.left_out += 1;
            return;
        }
        let frame = if self.sites.len() < SITES_MAX { frame } else { 0 };
        let next = self.counted.len();
        let site = *self.sites.entry((process, frame)).or_insert(next);
        if site == next {
            self.counted.push((process, frame, Allocated::default()));
        }
        self.each(process, site, |it| it.add(size));
        self.live.insert((process, ptr), Live { size, site });
    }

    fn free(&mut self, process: Option<ThreadId>, ptr: u64) -> Option<Live> {
        let live = self.live.remove(&(process, ptr))?;
        self.each(process, live.site, |it| it.remove(live.size));
        Some(live)
    }

    /// Applies `change` to the counts of a call site and of its process.
    fn each(&mut self, process: Option<ThreadId>, site: usize, change: impl Fn(&mut Allocated)) {
        if let Some((_, _, of_site)) = self.counted.get_mut(site) {
            change(of_site);
        }
        change(match process {
            Some(process) => &mut self.processes.entry(process).or_default().row.allocated,
            None => &mut self.kernel,
        });
    }

    fn site(&mut self, world: &World, process: ThreadId, address: Option<u64>) -> FrameId {
        let pid = world.threads.get(process).map_or(0, |thread| thread.tid.into());
        match address {
            Some(address) => self.frames.site(pid, address),
            None => self.frames.of("[unknown]"),
        }
    }

    fn apply(
        &mut self,
        world: &World,
        event: &Event<'_>,
        who: Option<ThreadId>,
        kind: &MemoryEvent,
    ) {
        let number = |field: &FieldRef| match event.value(field)? {
            Value::Unsigned(value) => Some(value),
            Value::Signed(value) => Some(value as u64),
            _ => None,
        };
        let ask = |field: &Option<FieldRef>| number(field.as_ref()?);
        let is_there = event.time().is_some_and(|time| self.range.contains(time));
        let process = who.map(|who| world.process_of(who));
        match (kind, who.zip(process)) {
            (MemoryEvent::KernelAlloc { ptr, size, site }, _) => {
                let (Some(ptr), Some(size)) = (number(ptr), number(size)) else { return };
                let frame = ask(site).map_or(0, |site| self.frames.kernel(event, site, true));
                if ptr != 0 {
                    self.allocate(None, ptr, size, frame);
                }
            }
            (MemoryEvent::KernelFree { ptr }, _) => {
                if let Some(ptr) = number(ptr) {
                    self.free(None, ptr);
                }
            }
            (MemoryEvent::Pages { order, gives }, _) if is_there => {
                let order = ask(order).and_then(|order| u32::try_from(order).ok()).unwrap_or(0);
                let pages = 1_u64.checked_shl(order).unwrap_or(0);
                let sum = if *gives { &mut self.pages.0 } else { &mut self.pages.1 };
                *sum = sum.saturating_add(pages);
            }
            (MemoryEvent::Fault { ip, address, in_kernel }, Some((_, process))) if is_there => {
                if *in_kernel {
                    self.processes.entry(process).or_default().row.kernel_faults += 1;
                    return;
                }
                let pid = world.threads.get(process).map_or(0, |thread| thread.tid.into());
                let frame = ask(ip).map_or(0, |ip| self.frames.user(pid, ip, false));
                let known = self.processes.entry(process).or_default();
                known.row.faults += 1;
                let region = ask(address).map_or(Region::Unknown, |address| known.region(address));
                *known.regions.entry(region).or_default() += 1;
                let is_full = known.faults.len() >= SITES_MAX && !known.faults.contains_key(&frame);
                *known.faults.entry(if is_full { 0 } else { frame }).or_default() += 1;
            }
            (MemoryEvent::Map { length, descriptor, flags }, Some((who, _))) => {
                let Some(length) = number(length) else { return };
                // MAP_ANONYMOUS, of which the descriptor means nothing.
                let is_anonymous = ask(flags).is_some_and(|flags| flags & 0x20 != 0);
                let is_file = ask(descriptor).is_some_and(|it| i64::from(it as u32 as i32) >= 0);
                let region =
                    if is_file && !is_anonymous { Region::File } else { Region::Anonymous };
                self.asked.insert(who, MemoryCall::Map { length, region });
            }
            (MemoryEvent::Unmap { address, length }, Some((who, _))) => {
                if let Some((address, length)) = number(address).zip(number(length)) {
                    self.asked.insert(who, MemoryCall::Unmap { address, length });
                }
            }
            (MemoryEvent::Remap { address, old, new }, Some((who, _))) => {
                if let (Some(address), Some(old), Some(new)) =
                    (number(address), number(old), number(new))
                {
                    self.asked.insert(who, MemoryCall::Remap { address, old, new });
                }
            }
            (MemoryEvent::Alloc { ptr, size, times, site }, Some((_, process))) => {
                let (Some(ptr), Some(size)) = (number(ptr), number(size)) else { return };
                if ptr == 0 {
                    self.processes.entry(process).or_default().row.failed += 1;
                    return;
                }
                let size = size.saturating_mul(ask(times).unwrap_or(1));
                let frame = self.site(world, process, ask(site));
                self.allocate(Some(process), ptr, size, frame);
            }
            (MemoryEvent::ReallocBegin { from }, Some((who, process))) => {
                self.moving.remove(&who);
                let Some(from) = number(from).filter(|&from| from != 0) else { return };
                match self.free(Some(process), from) {
                    Some(live) => drop(self.moving.insert(who, (from, live))),
                    None => self.processes.entry(process).or_default().row.unknown_frees += 1,
                }
            }
            (MemoryEvent::Realloc { from, ptr, size, site }, Some((who, process))) => {
                let (Some(from), Some(ptr), Some(size)) = (number(from), number(ptr), number(size))
                else {
                    return;
                };
                let moved = self.moving.remove(&who).filter(|(begun, _)| *begun == from);
                if ptr != 0 {
                    if moved.is_none() && from != 0 {
                        self.free(Some(process), from);
                    }
                    let frame = self.site(world, process, ask(site));
                    self.allocate(Some(process), ptr, size, frame);
                } else if size > 0 {
                    // It has failed, and left what was there.
                    self.processes.entry(process).or_default().row.failed += 1;
                    if let Some((from, live)) = moved {
                        self.each(Some(process), live.site, |it| it.put_back(live.size));
                        self.live.insert((Some(process), from), live);
                    }
                }
            }
            (MemoryEvent::Sum(fields), Some((_, process))) if is_there => {
                let pid = world.threads.get(process).map_or(0, |thread| thread.tid.into());
                let counts = self.sums.add(event, fields, (process, pid), &mut self.frames);
                let row = &mut self.processes.entry(process).or_default().row;
                if let Some([count, bytes, failed]) = counts {
                    row.allocated.count = row.allocated.count.saturating_add(count);
                    row.allocated.bytes = row.allocated.bytes.saturating_add(bytes);
                    row.failed = row.failed.saturating_add(failed);
                }
            }
            (MemoryEvent::Free { ptr }, Some((_, process))) => {
                let Some(ptr) = number(ptr).filter(|&ptr| ptr != 0) else { return };
                if self.free(Some(process), ptr).is_none() {
                    self.processes.entry(process).or_default().row.unknown_frees += 1;
                }
            }
            _ => {}
        }
    }

    /// Returns the report.
    #[must_use]
    pub fn finish(mut self, world: &World) -> MemoryReport {
        let mut faults: Vec<FaultSite> = Vec::new();
        let mut rows: Vec<Row> = Vec::new();
        for (process, mut of) in std::mem::take(&mut self.processes) {
            let label = Label::process(world, process);
            faults.extend(of.faults.into_iter().map(|(frame, count)| FaultSite {
                label: label.clone(),
                site: self.frames.name(frame).to_owned(),
                count,
            }));
            of.row.regions = of.regions.into_iter().collect();
            of.row.regions.sort_by_key(|&(region, count)| (Reverse(count), region));
            of.row.label = label;
            rows.push(of.row);
        }
        rows.retain(|row| {
            let calls = row.mapped > 0 || row.heap_growth != 0;
            row.faults + row.kernel_faults + row.allocated.count + row.unknown_frees > 0 || calls
        });
        rows.sort_by_cached_key(|row| {
            let weight = (row.allocated.live_bytes, row.allocated.bytes, row.faults, row.mapped);
            (Reverse(weight), row.label.clone())
        });
        faults.sort_by_cached_key(|it| (Reverse(it.count), it.site.clone(), it.label.clone()));
        let sites = self.counted.iter().map(|&(process, frame, allocated)| AllocationSite {
            label: process.map(|process| Label::process(world, process)),
            site: self.frames.name(frame).to_owned(),
            allocated,
        });
        let mut sites: Vec<AllocationSite> = sites.collect();
        sites.sort_by_cached_key(|it| {
            (Reverse((it.allocated.live_bytes, it.allocated.bytes)), it.site.clone())
        });
        let sums = std::mem::take(&mut self.sums).finish(world, &self.frames);
        let (kernel, pages, left_out) = (self.kernel, self.pages, self.left_out);
        MemoryReport { rows, sites, faults, sums, kernel, pages, left_out }
    }
}

impl Observer for MemoryCounter {
    const STATES: bool = false;
    const RECORDS: bool = true;

    fn record(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>, _: bool) {
        self.frames.learn(event);
        if event.time().is_some_and(|time| time > self.range.to) {
            return;
        }
        let (trace, class) = (event.stream().trace(), event.class().index());
        if self.kernels.len() <= trace.index() {
            self.kernels.resize(trace.index() + 1, None);
        }
        if self.kinds.len() <= class {
            self.kinds.resize_with(class + 1, || None);
        }
        let Some(of_kernel) = self.kernels.get_mut(trace.index()) else { return };
        let of_kernel = *of_kernel.get_or_insert_with(|| is_kernel(trace.schema()));
        let Some(slot) = self.kinds.get_mut(class) else { return };
        let kind = slot.take().unwrap_or_else(|| MemoryEvent::of(event.class(), of_kernel));
        if !matches!(kind, MemoryEvent::Nothing) {
            self.apply(world, event, who, &kind);
        }
        if let Some(slot) = self.kinds.get_mut(class) {
            *slot = Some(kind);
        }
    }

    fn call(&mut self, world: &World, call: &Call) {
        let asked = self.asked.remove(&call.thread);
        let Some(result) = call.result else { return };
        let process = world.process_of(call.thread);
        let address = result as u64;
        if call.end > self.range.to {
            return;
        }
        match (asked, world.calls.name(call.call)) {
            (Some(MemoryCall::Map { length, region }), "mmap") if call.error().is_none() => {
                self.processes.entry(process).or_default().map(address, length, region);
            }
            (Some(MemoryCall::Unmap { address, length }), "munmap") if result == 0 => {
                self.processes.entry(process).or_default().unmap(address, length);
            }
            (Some(MemoryCall::Remap { address: from, old, new }), "mremap")
                if call.error().is_none() =>
            {
                let of = self.processes.entry(process).or_default();
                let region = of.region(from);
                of.unmap(from, old);
                of.map(address, new, region);
            }
            (_, "brk") if address > 0 && call.error().is_none() => {
                let of = self.processes.entry(process).or_default();
                let (begin, end) = of.heap.get_or_insert((address, address));
                let growth = i64::try_from(i128::from(address) - i128::from(*end)).unwrap_or(0);
                of.row.heap_growth = of.row.heap_growth.saturating_add(growth);
                (*begin, *end) = ((*begin).min(address), address);
            }
            (_, "execve" | "execveat") if result == 0 => {
                // All that was there is gone.
                let of = self.processes.entry(process).or_default();
                of.heap = None;
                of.mappings.clear();
            }
            _ => {}
        }
    }
}
