//! The kinds of records in a state dump, and of later changes to that state. Names and fields are LTTng's where LTTng
//! has such an event. The changes have names of the same form: `vm_fork` (from then on, the process has the code of
//! another one), `vm_exec` (the process has none of its old code any more), `process_cgroup`, `mount`, `code_name`; `vm_map` has
//! more fields than LTTng's.

use super::process_files::CodeMapping;
use strata_model::{Array, Base, Element, EventClass, Field, FieldClass, FieldOrder, Integer};

/// Size of a thread's name, with its NUL (`TASK_COMM_LEN`) \[byte\].
pub const NAME_BYTES: usize = 16;

/// Properties that all records of a state dump have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpStamp<'c> {
    /// Time of CLOCK_MONOTONIC at which /proc was read \[ns\].
    pub now_ns: u64,
    /// The thread that writes the records, which is recorded as their context.
    pub tid: u32,
    /// Contexts after the thread; see [`crate::Contexts::of_this_process`].
    pub contexts: &'c [u8],
    /// Id of the first of the classes that [`event_classes`] returns.
    pub first_id: u32,
    /// True if the records' packet may have begun much earlier.
    pub is_later: bool,
}

/// Id in a record's header which means that the full id and time follow.
const EXTENDED: u16 = u16::MAX;

/// The kinds of records in a state dump. The id of a kind's class is `first_id` plus the kind's number.
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
    CodeName,
}

/// Number of classes that [`event_classes`] returns.
pub const NR_CLASSES: u32 = DumpRecordKind::CodeName as u32 + 1;

/// The type of a field.
#[derive(Clone, Copy)]
enum Is {
    I32,
    U8,
    U16,
    U32,
    U64,
    /// A 32-bit number that is shown in hexadecimal.
    Hex32,
    Hex64,
    /// A number in network byte order.
    Network,
    Text,
    /// A thread's name.
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

/// Name and fields of each kind, in the order of [`DumpRecordKind`]. Fields are in the order of a record.
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
            // What follows is Strata's.
            ("state", Is::Text),
            ("call", Is::Text),
            ("fd", Is::I32),
            ("address", Is::Hex64),
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
        &[
            ("pid", Is::I32),
            ("path", Is::Text),
            ("cgroup_id", Is::U64),
            ("container", Is::Text),
            ("pod", Is::Text),
        ],
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
    (
        "code_name",
        &[
            ("pid", Is::I32),
            ("start", Is::Hex64),
            ("size", Is::U64),
            // The greatest age of the name [ns].
            ("age_max", Is::U64),
            ("name", Is::Text),
        ],
    ),
];

/// Returns the classes of all kinds of records, with ids from `first_id` on.
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

/// A record of a state dump that is being encoded, field by field.
pub(crate) struct DumpRecord<'o>(&'o mut Vec<u8>);

impl<'o> DumpRecord<'o> {
    /// Begins a record: a header of the "large" kind, and the context (u32 tid, then the contexts of the stamp).
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

    /// Appends a text, up to its first NUL, and a NUL.
    pub(crate) fn text(self, text: &[u8]) -> DumpRecord<'o> {
        self.0.extend(text.iter().take_while(|byte| **byte != 0));
        self.0.push(0);
        self
    }

    /// Appends the fields of a [`DumpRecordKind::VmMap`].
    pub(crate) fn map(self, pid: i32, map: &CodeMapping) -> DumpRecord<'o> {
        self.u32s(&[pid as u32])
            .u64s(&[map.start, map.end, map.offset, map.inode])
            .text(&map.path)
            .text(map.build_id.as_bytes())
    }
}
