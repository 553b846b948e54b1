//! Decides whether code without a name to which a function jumps is a part of that function or another function.
//!
//! Compilers put rarely executed code elsewhere, under the name `f.cold`. A file without symbols has only its entry in
//! `.eh_frame`, as for any function.

use crate::decide::jump_guard::RANGES_MAX;
use crate::decide::uprobe::instruction::decode;
use crate::discover::code_map::CodeMap;
use iced_x86::{FlowControl, Instruction};
use std::collections::HashSet;
use std::ops::Range;

/// The behaviour of code outside of a function that the function jumps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutsideCode {
    /// The code jumps back into the function, so it is a part of it.
    ComesBack,
    /// The code returns or jumps to a third place, and never jumps back. Jumping to this code leaves the function,
    /// whether or not it is a part of it.
    Leaves,
    /// The code ends in calls of functions that do not return.
    Ends,
}

/// The known code of the function.
pub(crate) struct OwnCode<'e> {
    pub(crate) start: u64,
    /// Ranges of the function and its other pieces.
    pub(crate) pieces: &'e [Range<u64>],
}

impl OwnCode<'_> {
    /// Returns whether the address is within the function but not its begin. Only the function itself jumps to such
    /// an address.
    fn has_behind_begin(&self, address: u64) -> bool {
        address != self.start && self.pieces.iter().any(|piece| piece.contains(&address))
    }
}

/// Examines the behaviour of code outside of the function from address `to` on. `range`: the range of the code's
/// entry in `.eh_frame`.
pub(crate) fn look(
    map: &CodeMap<'_>,
    range: &Range<u64>,
    to: u64,
    own: &OwnCode<'_>,
) -> OutsideCode {
    if !map.take_budget(range.end.saturating_sub(range.start)) {
        return OutsideCode::Leaves;
    }
    let mut work = vec![to];
    if map.frame_of(to).is_some_and(|frame| frame.has_handlers) {
        // No jump leads to a handler of exceptions.
        work.extend(all_of(map, range));
    }
    let (mut seen, mut leaves) = (HashSet::new(), false);
    let mut parts = vec![range.clone()];
    while let Some(at) = work.pop() {
        if own.has_behind_begin(at) {
            return OutsideCode::ComesBack;
        }
        if !seen.insert(at) {
            continue;
        }
        let Some(instruction) =
            part_of(map, &mut parts, at).and_then(|part| decode(map, &part, at))
        else {
            leaves = true;
            continue;
        };
        let (next, to) = (instruction.next_ip(), instruction.near_branch_target());
        match instruction.flow_control() {
            FlowControl::Return | FlowControl::IndirectBranch => leaves = true,
            FlowControl::Exception | FlowControl::Interrupt => {}
            FlowControl::UnconditionalBranch => work.push(to),
            FlowControl::ConditionalBranch => work.extend([to, next]),
            // The last call is one of a function that does not return.
            FlowControl::Call | FlowControl::IndirectCall
                if !parts.iter().any(|part| part.contains(&next)) => {}
            _ => work.push(next),
        }
    }
    match leaves {
        true => OutsideCode::Leaves,
        false => OutsideCode::Ends,
    }
}

/// Returns the range of the part whose code contains `address`. That is a known part, or one without a name, which is
/// added to `parts`.
fn part_of(map: &CodeMap<'_>, parts: &mut Vec<Range<u64>>, address: u64) -> Option<Range<u64>> {
    if let Some(known) = parts.iter().find(|part| part.contains(&address)) {
        return Some(known.clone());
    }
    if parts.len() == RANGES_MAX || map.is_stub(address) || map.function_of(address).is_some() {
        return None;
    }
    let range = map.frame_of(address)?.range.clone();
    let is_allowed = map.take_budget(range.end.saturating_sub(range.start));
    is_allowed.then(|| {
        parts.push(range.clone());
        range
    })
}

/// Returns the addresses of all instructions in the range, one after the other, up to the first invalid one.
fn all_of(map: &CodeMap<'_>, range: &Range<u64>) -> Vec<u64> {
    let first = decode(map, range, range.start);
    let next = |one: &Instruction| decode(map, range, one.next_ip());
    std::iter::successors(first, next).map(|one| one.ip()).collect()
}
