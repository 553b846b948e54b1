//! The process or thread that a row of a report is about.

use strata_filter::means_process;
use strata_timeline::{ThreadId, World};

/// The names and numbers of a process, or of a thread in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// The name of the process, empty if it is unknown, or the row is about all processes.
    pub process: String,
    /// The file name of the process' program, if the trace has it.
    pub program: String,
    pub pid: Option<i32>,
    /// The thread's name, if the row is about a thread.
    pub thread: Option<String>,
    /// The thread's number, if the row is about a thread.
    pub tid: Option<i32>,
    /// The name of the machine, if the traces are of several.
    pub machine: Option<String>,
    /// The process' first thread, which distinguishes processes that had the same number at different times.
    pub home: Option<ThreadId>,
    /// The number of processes of this name that share the row, if several; such a row has no `pid`.
    pub processes: usize,
}

impl Label {
    /// Returns the label of a thread.
    #[must_use]
    pub fn thread(world: &World, id: ThreadId) -> Label {
        let found = world.threads.get(id);
        Label {
            thread: Some(world.thread_name(id)),
            tid: found.map(|thread| thread.tid),
            ..Label::process(world, id)
        }
    }

    /// Returns the label of a thread's process.
    #[must_use]
    pub fn process(world: &World, id: ThreadId) -> Label {
        let found = world.threads.get(id);
        let main = found.and_then(|thread| thread.main).and_then(|main| world.threads.get(main));
        let machine = found.filter(|_| world.machines.len() > 1);
        let machine = machine.and_then(|it| world.machines.get(usize::from(it.machine)).cloned());
        Label {
            process: world.process_name(id),
            program: main.map(|main| world.names.text(main.program)).unwrap_or_default(),
            pid: main.map(|main| main.tid),
            machine,
            home: Some(world.process_of(id)),
            ..Label::default()
        }
    }

    /// Returns the number of processes or threads that the row is about.
    #[must_use]
    pub fn stands_for(&self) -> u64 {
        u64::try_from(self.processes).unwrap_or(u64::MAX).max(1)
    }

    /// Returns true if `words` is the number or name of the thread, its process or its process' program. Names match by
    /// the rule of `strata record -p`.
    #[must_use]
    pub fn is_of(&self, words: &str) -> bool {
        let number = words.parse::<i32>().ok();
        let names = [Some(&self.process), Some(&self.program), self.thread.as_ref()];
        let is_named = |name: &String| !name.is_empty() && means_process(words, name.as_bytes());
        number.is_some() && (self.pid == number || self.tid == number)
            || names.into_iter().flatten().any(is_named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_is_named_by_process_program_thread_and_number() {
        let label = Label {
            process: "shop".into(),
            program: "shop-server".into(),
            pid: Some(40),
            thread: Some("worker".into()),
            tid: Some(41),
            ..Label::default()
        };
        for words in ["shop", "shop-server", "wor*", "40", "41"] {
            assert!(label.is_of(words), "{words}");
        }
        for words in ["", "sho", "workers", "4", "042x"] {
            assert!(!label.is_of(words), "{words}");
        }
        assert!(!Label::default().is_of("") && !Label::default().is_of("*"));
    }
}
