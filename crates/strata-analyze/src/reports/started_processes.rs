//! The processes that began during the trace, by program. They show a storm of children that each live for
//! milliseconds.

use std::cmp::Reverse;
use std::collections::HashMap;

use strata_ctf::read::TimeRange;
use strata_timeline::{ThreadId, World};

use strata_report::Label;

/// The most ancestors of a process that are searched for the process that started its program.
const DEPTH_MAX: usize = 32;

/// Processes of one program that began during the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunProgram {
    /// The last name that the processes had.
    pub name: String,
    /// The number of processes that began.
    pub count: u64,
    /// The process of another program that began most of these processes.
    pub starter: Option<Label>,
}

/// All processes that began during the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BegunProcesses {
    /// The number of processes that began.
    pub count: u64,
    /// The programs, those with the most processes first.
    pub programs: Vec<BegunProgram>,
}

impl BegunProcesses {
    /// Counts the processes that began within `range` and that the report wants.
    #[must_use]
    pub fn new(
        world: &World,
        range: TimeRange,
        is_wanted: &dyn Fn(&Label) -> bool,
    ) -> BegunProcesses {
        let mut programs: HashMap<String, HashMap<Option<ThreadId>, u64>> = HashMap::new();
        for (id, thread) in world.threads.iter() {
            let is_process = thread.main == Some(id);
            let is_begun = thread.born.is_some_and(|born| range.contains(born));
            if is_process && is_begun && is_wanted(&Label::process(world, id)) {
                let name = world.process_name(id);
                let starter = starter(world, id, &name);
                *programs.entry(name).or_default().entry(starter).or_default() += 1;
            }
        }
        let programs = programs.into_iter().map(|(name, starters)| {
            let count = starters.values().sum();
            let most = starters.into_iter().max_by_key(|&(id, count)| (count, Reverse(id)));
            let starter = most.and_then(|(id, _)| id).map(|id| Label::process(world, id));
            BegunProgram { name, count, starter }
        });
        let mut programs: Vec<_> = programs.collect();
        programs.sort_by(|one, other| (other.count, &one.name).cmp(&(one.count, &other.name)));
        BegunProcesses { count: programs.iter().map(|it| it.count).sum(), programs }
    }
}

/// Returns the nearest ancestor of a process that has another name than `name`.
fn starter(world: &World, id: ThreadId, name: &str) -> Option<ThreadId> {
    let mut at = id;
    for _ in 0..DEPTH_MAX {
        let parent = world.threads.get(at)?.parent?;
        at = world.process_of(parent);
        if world.process_name(at) != name {
            return Some(at);
        }
    }
    None
}
