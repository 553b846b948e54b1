//! Finds out, once for each class, what its records say about code that processes have loaded or mapped, and which
//! fields hold their call stacks. Fields are identified by their names.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use strata_ctf::read::{Event, EventClass, FieldRef, Value};

use super::lookup_limits::{size, Budget, Charge, BYTES_MAX};
use super::stacks;

/// The most bytes of a build id that are read. Usual build ids have 20.
pub(super) const BUILD_ID: usize = 32;
/// The event that ends a state dump.
pub(super) const DUMP_END: &str = "lttng_statedump_end";
/// The most bytes of a path.
const PATH_MAX: usize = 4096;
/// The memory of a file in addition to its texts \[byte\].
const FILE_BYTES: u64 = 256;

/// The file of a program or library, as a trace describes that file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CodeFile {
    pub path: Arc<[u8]>,
    pub build_id: Arc<[u8]>,
    pub debug_link: Arc<[u8]>,
}

/// The number of a file in [`CodeFiles`].
pub(super) type FileNumber = u32;

/// A program or a library in a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MappedObject {
    pub begin: u64,
    pub bytes: u64,
    pub file: FileNumber,
    /// True if addresses in the object's file are relative to the object's begin.
    pub is_pic: bool,
    /// The offset of `begin` in the file; `None` if only addresses in the file are known, and not offsets.
    pub offset: Option<u64>,
}

/// All files that traces name, each kept once.
#[derive(Debug)]
pub(super) struct CodeFiles {
    files: Vec<CodeFile>,
    numbers: HashMap<CodeFile, FileNumber>,
    charge: Charge,
}

impl CodeFiles {
    /// Creates a table with one entry, which stands for code without a file.
    pub fn new(budget: &Arc<Budget>) -> CodeFiles {
        let none = CodeFile::default();
        let numbers = HashMap::from([(none.clone(), 0)]);
        CodeFiles { files: vec![none], numbers, charge: Charge::new(budget) }
    }

    /// Returns the number of a file, which is added if it is new. Returns 0, for no file, if a path is too long or
    /// there is no room.
    pub fn number(&mut self, file: CodeFile) -> FileNumber {
        if let Some(&number) = self.numbers.get(&file) {
            return number;
        }
        let bytes = file.path.len() + file.build_id.len() + file.debug_link.len();
        if file.path.len() > PATH_MAX || file.debug_link.len() > PATH_MAX {
            self.charge.budget().remark(format!(
                "a trace names a file by {bytes} bytes, and a path has at most {PATH_MAX}: what is in it has no names"
            ));
            return 0;
        }
        let next = u32::try_from(self.files.len()).unwrap_or(0);
        if next == 0 || !self.charge.add(bytes as u64 + FILE_BYTES) {
            self.charge.budget().remark(format!(
                "the traces name more than {} files, for which {} are not enough: the others have no names",
                self.files.len(),
                size(BYTES_MAX)
            ));
            return 0;
        }
        self.files.push(file.clone());
        self.numbers.insert(file, next);
        next
    }

    pub fn budget(&self) -> &Arc<Budget> {
        self.charge.budget()
    }

    /// Returns the file with this number.
    pub fn get(&self, number: FileNumber) -> &CodeFile {
        static NONE: OnceLock<CodeFile> = OnceLock::new();
        let file = self.files.get(number as usize);
        file.unwrap_or_else(|| NONE.get_or_init(CodeFile::default))
    }
}

/// The kind of a record's statement about code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeEventKind {
    /// The process is about to report all of its objects anew.
    Start,
    Loaded,
    Unloaded,
    BuildId,
    DebugLink,
    /// In a kernel's trace: a process has mapped code.
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

/// The fields of a class whose records have statements about code, an instruction pointer, or call stacks.
#[derive(Debug)]
pub(super) struct CodeEventClass {
    pub vpid: Option<FieldRef>,
    pub ip: Option<FieldRef>,
    pub kind: Option<(CodeEventKind, CodeEventFields)>,
    pub stacks: Option<stacks::StackFields>,
    /// True if records of the class end a state dump.
    pub ends_dump: bool,
}

#[derive(Debug)]
pub(super) struct CodeEventFields {
    pub begin: Option<FieldRef>,
    pub bytes: Option<FieldRef>,
    pub path: Option<FieldRef>,
    pub is_pic: Option<FieldRef>,
    pub build_id: Vec<FieldRef>,
    pub link: Option<FieldRef>,
    /// The fields with the process and the thread, which only a kernel's trace has.
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
        let ends_dump = class.name() == DUMP_END;
        CodeEventClass { vpid: common("vpid"), ip: common("ip"), kind, stacks, ends_dump }
    }
}

/// Returns an integer as its 64 bits.
pub(super) fn number(value: Option<Value<'_>>) -> Option<u64> {
    match value? {
        Value::Unsigned(value) => Some(value),
        Value::Signed(value) => Some(value as u64),
        _ => None,
    }
}
