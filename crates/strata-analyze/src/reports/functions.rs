//! The functions of a flame graph, each with its own weight and its weight with all functions that it called; and the
//! heaviest stacks.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::flame::{Flame, Profile};
use super::frames::short;
use strata_report::Label;

/// A function in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub label: Label,
    /// The function's name in the form of flame graphs.
    pub name: String,
    /// The weight of the stacks in which the function is the innermost frame.
    pub own: u64,
    /// The weight of the stacks that contain the function, each stack counted once.
    pub total: u64,
}

/// A stack of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    pub label: Label,
    /// A few of the stack's frames as text.
    pub name: String,
    /// The frames, the innermost first.
    pub frames: Vec<Rc<str>>,
    /// The sum of the weights.
    pub weight: u64,
}

/// Returns all functions by falling own weight.
#[must_use]
pub fn functions(flame: &Flame) -> Vec<Function> {
    let mut all: Vec<Function> = flame.profiles.iter().flat_map(of_profile).collect();
    all.sort_by(|one, other| {
        let key = |it: &Function| (Reverse(it.own), Reverse(it.total));
        let of_same = || (&one.name, &one.label).cmp(&(&other.name, &other.label));
        key(one).cmp(&key(other)).then_with(of_same)
    });
    all
}

fn of_profile(profile: &Profile) -> impl Iterator<Item = Function> + '_ {
    let mut found: HashMap<&str, (u64, u64)> = HashMap::new();
    let mut there = HashSet::new();
    for (frames, weight) in &profile.stacks {
        there.clear();
        // One that has called itself is in a stack several times.
        for frame in frames.iter().filter(|frame| there.insert(&***frame)) {
            let total = &mut found.entry(frame).or_default().1;
            *total = total.saturating_add(*weight);
        }
        if let Some(innermost) = frames.last() {
            let own = &mut found.entry(innermost).or_default().0;
            *own = own.saturating_add(*weight);
        }
    }
    found.into_iter().map(|(name, (own, total))| Function {
        label: profile.label.clone(),
        name: name.to_owned(),
        own,
        total,
    })
}

/// Returns the `most` heaviest stacks.
#[must_use]
pub fn heaviest<'f>(flame: &'f Flame, most: usize) -> Vec<Stack> {
    let stacks = |profile: &'f Profile| {
        profile.stacks.iter().map(move |(frames, weight)| (&profile.label, frames, *weight))
    };
    let mut all: Vec<(&Label, &Vec<Rc<str>>, u64)> =
        flame.profiles.iter().flat_map(stacks).collect();
    // Those of one weight stay in their order.
    all.sort_by_key(|(_, _, weight)| Reverse(*weight));
    all.truncate(most);
    let stack = |(label, frames, weight): (&Label, &Vec<Rc<str>>, u64)| {
        let frames: Vec<Rc<str>> = frames.iter().rev().cloned().collect();
        Stack { label: label.clone(), name: short(&frames), frames, weight }
    };
    all.into_iter().map(stack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flame() -> Flame {
        let stack = |frames: &str, weight| (frames.split(' ').map(Rc::from).collect(), weight);
        let profile = |pid, stacks| Profile {
            label: Label { process: "app".to_owned(), pid: Some(pid), ..Label::default() },
            stacks,
            ..Profile::default()
        };
        let first = vec![stack("main", 1), stack("main f", 10), stack("main f g f", 100)];
        let second = vec![stack("main g", 50), stack("[others]", 7)];
        Flame {
            profiles: vec![profile(5, first), profile(6, second)],
            total: 168,
            ..Flame::default()
        }
    }

    #[test]
    fn function_weighs_what_it_is_innermost_in_and_each_stack_that_it_is_in_once() {
        let all = functions(&flame());
        let rows: Vec<_> = all
            .iter()
            .map(|it| (it.label.pid.unwrap(), it.name.as_str(), it.own, it.total))
            .collect();
        let wanted = [
            (5, "f", 110, 110),
            (6, "g", 50, 50),
            (6, "[others]", 7, 7),
            (5, "main", 1, 111),
            (5, "g", 0, 100),
            (6, "main", 0, 50),
        ];
        assert_eq!(rows, wanted);
        assert_eq!(all.iter().map(|it| it.own).sum::<u64>(), flame().total);
    }

    #[test]
    fn heaviest_stacks_are_those_of_all_processes_the_innermost_frame_first() {
        let found = heaviest(&flame(), 2);
        let rows: Vec<_> = found.iter().map(|it| (it.weight, it.name.as_str())).collect();
        assert_eq!(rows, [(100, "f < g < f < main"), (50, "g < main")]);
        assert_eq!(found[0].frames, ["f", "g", "f", "main"].map(Rc::from));
        assert!(heaviest(&Flame::default(), 5).is_empty());
    }
}
