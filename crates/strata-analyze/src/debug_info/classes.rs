//! What event records say of what processes have loaded or mapped, and where their call stacks are: found once for each
//! class, by the names of its fields.

use std::collections::BTreeMap;

use strata_ctf::read::{Event, EventClass, FieldRef, Value};

use super::stacks;

/// Bytes of a build id that are read; the usual ones have 20.
pub(super) const BUILD_ID: usize = 32;

/// A program or a library in a process.
#[derive(Clone, Debug, Default)]
pub(super) struct MappedObject {
    pub begin: u64,
    pub bytes: u64,
    pub path: Vec<u8>,
    /// Addresses in its file count from its begin.
    pub is_pic: bool,
    pub build_id: Vec<u8>,
    pub debug_link: Vec<u8>,
    /// Where `begin` is in the file; `None`: addresses in the file are meant, and nothing is known of its parts.
    pub offset: Option<u64>,
}

/// What an event of such a class says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeEventKind {
    /// Of this process, all is told anew.
    Start,
    Loaded,
    Unloaded,
    BuildId,
    DebugLink,
    /// Of the kernel's traces: code that a process has mapped, what it had is gone, it has what its parent had, a
    /// thread of it.
    Mapped,
    Executed,
    Forked,
    Thread,
}

impl CodeEventKind {
    pub fn of(name: &str) -> Option<CodeEventKind> {
        Some(match name {
            "lttng_ust_statedump:start" => CodeEventKind::Start,
            "lttng_ust_statedump:bin_info" | "lttng_ust_dl:dlopen" | "lttng_ust_lib:load" => {
                CodeEventKind::Loaded
            }
            "lttng_ust_lib:unload" => CodeEventKind::Unloaded,
            "lttng_ust_statedump:build_id" | "lttng_ust_lib:build_id" => CodeEventKind::BuildId,
            "lttng_ust_statedump:debug_link" | "lttng_ust_lib:debug_link" => {
                CodeEventKind::DebugLink
            }
            "lttng_statedump_vm_map" => CodeEventKind::Mapped,
            "lttng_statedump_vm_exec" => CodeEventKind::Executed,
            "lttng_statedump_vm_fork" | "sched_process_fork" => CodeEventKind::Forked,
            "lttng_statedump_process_state" => CodeEventKind::Thread,
            _ => return None,
        })
    }
}

/// What is wanted of a class's records.
#[derive(Debug)]
pub(super) struct CodeEventClass {
    pub vpid: Option<FieldRef>,
    pub ip: Option<FieldRef>,
    pub kind: Option<(CodeEventKind, CodeEventFields)>,
    pub stacks: Option<stacks::StackFields>,
}

#[derive(Debug)]
pub(super) struct CodeEventFields {
    pub begin: Option<FieldRef>,
    pub bytes: Option<FieldRef>,
    pub path: Option<FieldRef>,
    pub is_pic: Option<FieldRef>,
    pub build_id: Vec<FieldRef>,
    pub link: Option<FieldRef>,
    /// Of the kernel's: process and thread; those of the parent; end, place in the file, and build id as text.
    pub ids: [Option<FieldRef>; 2],
    pub parents: [Option<FieldRef>; 2],
    pub end: Option<FieldRef>,
    pub offset: Option<FieldRef>,
    pub text_id: Option<FieldRef>,
}

impl CodeEventClass {
    pub fn new(class: &EventClass, event: &Event<'_>) -> CodeEventClass {
        let common = |name: &str| class.find_in(strata_ctf::read::Scope::CommonContext, name);
        let own = |name: &str| class.find_in(strata_ctf::read::Scope::Payload, name);
        let fields = || CodeEventFields {
            begin: own("baddr").or_else(|| own("start")),
            bytes: own("memsz"),
            path: own("path"),
            is_pic: own("is_pic"),
            build_id: (0..BUILD_ID).map_while(|n| own(&format!("build_id[{n}]"))).collect(),
            link: own("filename"),
            ids: [own("child_pid").or_else(|| own("pid")), own("child_tid").or_else(|| own("tid"))],
            parents: [own("parent_pid"), own("parent_tid")],
            end: own("end"),
            offset: own("offset"),
            text_id: own("build_id"),
        };
        let kind = CodeEventKind::of(class.name()).map(|kind| (kind, fields()));
        let stacks = stacks::StackFields::of(class, event);
        CodeEventClass { vpid: common("vpid"), ip: common("ip"), kind, stacks }
    }
}

/// What a process has, by its addresses.
pub(super) type ProcessObjects = BTreeMap<u64, MappedObject>;

/// A number's bits.
pub(super) fn number(value: Option<Value<'_>>) -> Option<u64> {
    match value? {
        Value::Unsigned(value) => Some(value),
        Value::Signed(value) => Some(value as u64),
        _ => None,
    }
}
