//! The kinds of records of a dump, and of what changes of it while it is recorded: LTTng's names and fields where it has
//! such an event. What follows has names of the same kind: `vm_fork` (a process has from then on what another one has),
//! `vm_exec` (it has nothing of it any more), `process_cgroup`, `mount`; and more fields of `vm_map`.

use super::held::CodeMapping;
use strata_model::{Array, Base, Element, EventClass, Field, FieldClass, FieldOrder, Integer};

/// Bytes of a thread's name, with its NUL (`TASK_COMM_LEN`).
pub const NAME_BYTES: usize = 16;

/// What all records of a dump have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpStamp<'c> {
    /// CLOCK_MONOTONIC, when /proc was read \[ns\].
    pub now_ns: u64,
    /// The thread that writes them: their context.
    pub tid: u32,
    /// What is behind it; see [`crate::Contexts::of_this_process`].
    pub contexts: &'c [u8],
    /// Of [`event_classes`].
    pub first_id: u32,
    /// Their packet may have begun long before.
    pub is_later: bool,
}

/// The header's id that says: the id and the whole time follow.
const EXTENDED: u16 = u16::MAX;

/// What a record is; its class' id is so far behind the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum DumpRecordKind {
    Start,
    ProcessState,
    End,
    VmMap,
    VmFork,
    VmExec,
    FileDescriptor,
    ProcessCgroup,
    Interrupt,
    BlockDevice,
    NetworkInterface,
    CpuTopology,
    Mount,
}

/// Event record classes that [`event_classes`] makes.
pub const NR_CLASSES: u32 = DumpRecordKind::Mount as u32 + 1;

/// What a field is.
#[derive(Clone, Copy)]
enum Is {
    I32,
    U8,
    U16,
    U32,
    U64,
    /// Bits, or an address.
    Hex32,
    Hex64,
    /// In the network's order.
    Network,
    Text,
    /// A thread's.
    Name,
}

impl Is {
    fn class(self) -> FieldClass {
        let integer = match self {
            Is::I32 => Integer::signed(4),
            Is::U8 => Integer::unsigned(1),
            Is::U16 => Integer::unsigned(2),
            Is::U32 => Integer::unsigned(4),
            Is::U64 => Integer::unsigned(8),
            Is::Hex32 => Integer { base: Base::Sixteen, ..Integer::unsigned(4) },
            Is::Hex64 => Integer { base: Base::Sixteen, ..Integer::unsigned(8) },
            Is::Network => {
                Integer { base: Base::Sixteen, byte_order: FieldOrder::Big, ..Integer::unsigned(4) }
            }
            Is::Text => return FieldClass::String,
            Is::Name => {
                let count = NAME_BYTES as u32;
                return FieldClass::Array(Array { element: Element::Text, count });
            }
        };
        FieldClass::Integer(integer)
    }
}

/// In the order of [`DumpRecordKind`], and of a record.
const KINDS: [(&str, &[(&str, Is)]); NR_CLASSES as usize] = [
    ("start", &[]),
    (
        "process_state",
        &[
            ("tid", Is::I32),
            ("vtid", Is::I32),
            ("pid", Is::I32),
            ("vpid", Is::I32),
            ("ppid", Is::I32),
            ("vppid", Is::I32),
            ("name", Is::Name),
            ("type", Is::I32),
            ("mode", Is::I32),
            ("submode", Is::I32),
            ("status", Is::I32),
            ("ns_level", Is::I32),
            ("ns_inum", Is::U32),
            ("cpu", Is::U32),
        ],
    ),
    ("end", &[]),
    (
        "vm_map",
        &[
            ("pid", Is::I32),
            ("start", Is::Hex64),
            ("end", Is::Hex64),
            ("offset", Is::Hex64),
            ("inode", Is::U64),
            ("path", Is::Text),
            ("build_id", Is::Text),
        ],
    ),
    (
        "vm_fork",
        &[
            ("parent_pid", Is::I32),
            ("parent_tid", Is::I32),
            ("child_pid", Is::I32),
            ("child_tid", Is::I32),
        ],
    ),
    ("vm_exec", &[("pid", Is::I32), ("tid", Is::I32), ("name", Is::Text)]),
    (
        "file_descriptor",
        &[
            ("pid", Is::I32),
            ("fd", Is::I32),
            ("flags", Is::Hex32),
            ("fmode", Is::Hex32),
            ("filename", Is::Text),
        ],
    ),
    (
        "process_cgroup",
        &[("pid", Is::I32), ("path", Is::Text), ("cgroup_id", Is::U64), ("container", Is::Text)],
    ),
    ("interrupt", &[("irq", Is::U32), ("name", Is::Text), ("action", Is::Text)]),
    ("block_device", &[("dev", Is::U32), ("diskname", Is::Text)]),
    ("network_interface", &[("name", Is::Text), ("address_ipv4", Is::Network)]),
    (
        "cpu_topology",
        &[
            ("architecture", Is::Text),
            ("cpu_id", Is::U32),
            ("vendor", Is::Text),
            ("family", Is::U8),
            ("model", Is::U8),
            ("model_name", Is::Text),
            ("physical_id", Is::U16),
            ("core_id", Is::U16),
            ("cores", Is::U16),
        ],
    ),
    ("mount", &[("device", Is::Text), ("type", Is::Text), ("path", Is::Text)]),
];

/// The kinds of records of a dump, with ids from `first_id` on.
pub fn event_classes(first_id: u32) -> Vec<EventClass> {
    let class = |at: usize, name: &str, fields: &[(&str, Is)]| EventClass {
        id: first_id.saturating_add(at as u32),
        provider: String::new(),
        name: format!("lttng_statedump_{name}"),
        loglevel: None,
        emf_uri: None,
        context: Vec::new(),
        fields: fields.iter().map(|(name, is)| Field::new(*name, is.class())).collect(),
    };
    KINDS.iter().enumerate().map(|(at, (name, fields))| class(at, name, fields)).collect()
}

/// One that is being written: the fields in their order.
pub(crate) struct DumpRecord<'o>(&'o mut Vec<u8>);

impl<'o> DumpRecord<'o> {
    /// A header of the "large" kind, and the context (u32 tid, and what the stamp has).
    pub(crate) fn begin(
        out: &'o mut Vec<u8>,
        stamp: &DumpStamp<'_>,
        kind: DumpRecordKind,
    ) -> DumpRecord<'o> {
        let id = stamp.first_id.saturating_add(kind as u32);
        match u16::try_from(id) {
            // The packet begins at this time: its low half tells all of it.
            Ok(id) if id != EXTENDED && !stamp.is_later => {
                out.extend(id.to_ne_bytes());
                out.extend((stamp.now_ns as u32).to_ne_bytes());
            }
            _ => {
                out.extend(EXTENDED.to_ne_bytes());
                out.extend(id.to_ne_bytes());
                out.extend(stamp.now_ns.to_ne_bytes());
            }
        }
        out.extend(stamp.tid.to_ne_bytes());
        out.extend(stamp.contexts);
        DumpRecord(out)
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> DumpRecord<'o> {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u32s(self, numbers: &[u32]) -> DumpRecord<'o> {
        self.0.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        self
    }

    pub(crate) fn u64s(self, numbers: &[u64]) -> DumpRecord<'o> {
        self.0.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        self
    }

    /// Up to its first NUL.
    pub(crate) fn text(self, text: &[u8]) -> DumpRecord<'o> {
        self.0.extend(text.iter().take_while(|byte| **byte != 0));
        self.0.push(0);
        self
    }

    /// The fields of a [`DumpRecordKind::VmMap`].
    pub(crate) fn map(self, pid: i32, map: &CodeMapping) -> DumpRecord<'o> {
        self.u32s(&[pid as u32])
            .u64s(&[map.start, map.end, map.offset, map.inode])
            .text(&map.path)
            .text(map.build_id.as_bytes())
    }
}
