//! The objects that a process has mapped, by address.
//!
//! A forked process has the same objects as its parent, and mostly changes few of them. So objects are in leaves, and
//! processes share those leaves that neither has changed since.

use std::rc::Rc;
use std::sync::Arc;

use super::lookup_limits::{size, Budget, Charge, BYTES_MAX};
use super::stack_fields::MappedObject;

/// The most objects in one leaf of the map of a process's objects.
const LEAF: usize = 32;
/// The memory that a leaf takes \[byte\].
const LEAF_BYTES: u64 = (LEAF * size_of::<MappedObject>()) as u64 + 128;
const PLACE_BYTES: u64 = 8;
const LIST_BYTES: u64 = 128;

/// A leaf of the map of a process's objects: at least one object, sorted by begin.
#[derive(Debug)]
struct Leaf {
    of: Vec<MappedObject>,
    /// The memory of the leaf, which is returned when no process has the leaf.
    _charge: Charge,
}

#[derive(Debug)]
struct Leaves {
    of: Vec<Rc<Leaf>>,
    charge: Charge,
}

/// The objects of a process. A copy takes no memory until one of the two changes.
#[derive(Clone, Debug)]
pub(super) struct ProcessObjects {
    leaves: Rc<Leaves>,
    count: usize,
}

impl ProcessObjects {
    pub fn new(budget: &Arc<Budget>) -> ProcessObjects {
        let leaves = Leaves { of: Vec::new(), charge: Charge::new(budget) };
        ProcessObjects { leaves: Rc::new(leaves), count: 0 }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the last object that begins at or before an address.
    pub fn before(&self, address: u64) -> Option<&MappedObject> {
        let leaf = self.leaves.of.get(self.leaf_of(address))?;
        let behind = leaf.of.partition_point(|it| it.begin <= address);
        leaf.of.get(behind.checked_sub(1)?)
    }

    /// Returns the object that begins at this address.
    pub fn get(&self, begin: u64) -> Option<&MappedObject> {
        self.before(begin).filter(|it| it.begin == begin)
    }

    /// Returns the objects that begin at an address or above.
    pub fn from(&self, begin: u64) -> impl Iterator<Item = &MappedObject> + '_ {
        let leaves = self.leaves.of.get(self.leaf_of(begin)..).unwrap_or_default();
        leaves.iter().flat_map(|leaf| &leaf.of).skip_while(move |it| it.begin < begin)
    }

    /// Returns the index of the leaf to which an address belongs.
    fn leaf_of(&self, address: u64) -> usize {
        let begins = |leaf: &Rc<Leaf>| leaf.of.first().is_some_and(|it| it.begin <= address);
        self.leaves.of.partition_point(begins).saturating_sub(1)
    }

    /// Changes the objects of a leaf, which is split if it gets too large and removed if it gets empty. Returns false
    /// if there is no room.
    fn change(&mut self, number: usize, change: &mut dyn FnMut(&mut Vec<MappedObject>)) -> bool {
        let budget = Arc::clone(self.leaves.charge.budget());
        let mut objects = self.leaves.of.get(number).map(|leaf| leaf.of.clone());
        let objects = objects.get_or_insert_default();
        let before = objects.len();
        change(objects);
        let parts = match objects.len() {
            0..=LEAF => objects.chunks(LEAF),
            all => objects.chunks(all.div_ceil(2)),
        };
        let mut new = Vec::new();
        for part in parts {
            let mut charge = Charge::new(&budget);
            if !charge.add(LEAF_BYTES) {
                return self.no_room();
            }
            new.push(Rc::new(Leaf { of: part.to_vec(), _charge: charge }));
        }
        if Rc::get_mut(&mut self.leaves).is_none() {
            let mut charge = Charge::new(&budget);
            if !charge.add(LIST_BYTES + PLACE_BYTES * self.leaves.of.len() as u64) {
                return self.no_room();
            }
            self.leaves = Rc::new(Leaves { of: self.leaves.of.clone(), charge });
        }
        let count = (self.count + objects.len()).saturating_sub(before);
        let Some(leaves) = Rc::get_mut(&mut self.leaves) else { return false };
        if new.len() > 1 && !leaves.charge.add(PLACE_BYTES) {
            return self.no_room();
        }
        let end = leaves.of.len().min(number + 1);
        leaves.of.splice(number.min(end)..end, new);
        self.count = count;
        true
    }

    fn no_room(&self) -> bool {
        self.leaves.charge.budget().remark(format!(
            "what processes have mapped takes more than what is left of the {} for all files and processes: some of their \
             functions have no names",
            size(BYTES_MAX)
        ));
        false
    }

    /// Adds or replaces an object. Returns false if there is no room for it.
    pub fn insert(&mut self, object: MappedObject) -> bool {
        self.change(self.leaf_of(object.begin), &mut |objects| {
            let at = objects.partition_point(|it| it.begin < object.begin);
            match objects.get_mut(at).filter(|it| it.begin == object.begin) {
                Some(known) => *known = object,
                None => objects.insert(at, object),
            }
        })
    }

    /// Removes the object that begins at this address. If there is no room for the change, all objects of the process
    /// are forgotten.
    pub fn remove(&mut self, begin: u64) {
        let is_there = self.get(begin).is_some();
        let mut out = |objects: &mut Vec<MappedObject>| objects.retain(|it| it.begin != begin);
        if is_there && !self.change(self.leaf_of(begin), &mut out) {
            *self = ProcessObjects::new(self.leaves.charge.budget());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use strata_random::Random;

    fn object(begin: u64, bytes: u64) -> MappedObject {
        MappedObject { begin, bytes, ..MappedObject::default() }
    }

    #[test]
    fn objects_of_processes_that_change_apart_are_what_two_maps_would_have() {
        let budget = Arc::new(Budget::of(1 << 20, 0));
        let mut both = [ProcessObjects::new(&budget), ProcessObjects::new(&budget)];
        let mut maps = [BTreeMap::new(), BTreeMap::new()];
        let mut random = Random::from_seed(1);
        for turn in 0..20_000u64 {
            let (begin, which) = (random.below(512), random.below(2_usize));
            match random.below(8) {
                0 if turn % 50 == 0 => {
                    both[which] = both[1 - which].clone();
                    maps[which] = maps[1 - which].clone();
                }
                0..=4 => {
                    assert!(both[which].insert(object(begin, turn)));
                    maps[which].insert(begin, turn);
                }
                _ => {
                    both[which].remove(begin);
                    maps[which].remove(&begin);
                }
            }
            let (found, map) = (&both[which], &maps[which]);
            assert_eq!(found.len(), map.len());
            let last = found.before(begin).map(|it| (it.begin, it.bytes));
            assert_eq!(last, map.range(..=begin).next_back().map(|(at, bytes)| (*at, *bytes)));
            let next = found.from(begin).next().map(|it| (it.begin, it.bytes));
            assert_eq!(next, map.range(begin..).next().map(|(at, bytes)| (*at, *bytes)));
        }
        for (found, map) in both.iter().zip(&maps) {
            let all: Vec<u64> = found.from(0).map(|it| it.begin).collect();
            assert_eq!(all, map.keys().copied().collect::<Vec<u64>>());
        }
        drop(both);
        assert!(Charge::new(&budget).add(1 << 20), "all is given back");
    }

    #[test]
    fn children_that_change_one_object_each_take_a_leaf_and_a_list_each() {
        let budget = Arc::new(Budget::of(8 << 20, 0));
        let mut parent = ProcessObjects::new(&budget);
        assert!((0..4096).all(|at| parent.insert(object(at * 16, 16))));
        let mut children = vec![parent.clone(); 1000];
        assert!(children.iter_mut().all(|child| child.insert(object(8, 1))));
        assert!(parent.get(8).is_none() && children[999].get(8).is_some());
    }

    #[test]
    fn object_beyond_the_limit_is_not_there_and_that_is_reported_once() {
        let budget = Arc::new(Budget::of(64 << 10, 0));
        let mut process = ProcessObjects::new(&budget);
        let kept = (0..4096).take_while(|at| process.insert(object(at * 16, 16))).count();
        assert!((100..4096).contains(&kept) && process.len() == kept);
        assert!(!process.insert(object(1 << 40, 16)));
        assert_eq!(budget.remarks().len(), 1);
    }
}
