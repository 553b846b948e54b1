//! Converts conditions to the jump graph of tests.

use strata_abi::kernel::{Filter, Test, EARLY_MAX, PASS, REJECT, TESTS_MAX};
use strata_filter::lower::{self, Branch};

/// A filter compiled for one event.
#[derive(Clone, Debug, PartialEq, Eq)]
// There is one for each event that is attached, and it is copied into the program's constants.
#[allow(clippy::large_enum_variant)]
pub enum Compiled {
    /// The filter selects no record of the event, so that its program need not be attached.
    Never,
    /// The filter selects all records.
    Always,
    /// The filter selects records that pass these tests.
    Tests(strata_abi::kernel::Filter),
}

/// A condition for one event, as a tree of tests.
pub(super) type TestNode = lower::Node<TestLeaf>;

/// A test, perhaps negated, whose jump targets are not chosen yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TestLeaf {
    pub test: Test,
    pub negated: bool,
}

/// Creates a node from a test, which is negated if `negated`.
pub(super) fn node_of(test: Test, negated: bool) -> TestNode {
    TestNode::Leaf(TestLeaf { test, negated })
}

/// Converts a condition to a list of tests. If there would be too many, the error is their number. `is_early`:
/// function that returns whether a test is possible before a record is reserved.
pub(super) fn emit(node: TestNode, is_early: impl Fn(&Test) -> bool) -> Result<Compiled, usize> {
    match node {
        TestNode::Never => return Ok(Compiled::Never),
        TestNode::Always => return Ok(Compiled::Always),
        _ => (),
    }
    let nr_tests = node.nr_leaves();
    if nr_tests > TESTS_MAX {
        return Err(nr_tests);
    }
    // The order does not matter: no condition has an effect, and none is unknown.
    let (mut early, mut others, mut nr_early) = (Vec::new(), Vec::new(), 0);
    for part in node.into_conditions() {
        let is_early = |leaf: &TestLeaf| is_early(&leaf.test);
        if part.all_leaves(&is_early) && nr_early + part.nr_leaves() <= EARLY_MAX {
            nr_early += part.nr_leaves();
            early.push(part);
        } else {
            others.push(part);
        }
    }
    let mut filter = Filter {
        nr_tests: nr_tests as u32,
        nr_early: nr_early as u32,
        test: [Test::default(); TESTS_MAX],
    };
    // Who passes the early tests goes on with the others.
    let mut slots = filter.test.iter_mut();
    for (begin, part) in [(0, early), (nr_early, others)] {
        for (jump, slot) in lower::graph(TestNode::All(part)).into_iter().zip(slots.by_ref()) {
            let (yes, no) = match jump.leaf.negated {
                false => (jump.yes, jump.no),
                true => (jump.no, jump.yes),
            };
            let (yes, no) = (number(yes, begin), number(no, begin));
            *slot = Test { yes, no, ..jump.leaf.test };
        }
    }
    Ok(Compiled::Tests(filter))
}

fn number(target: Branch, begin: usize) -> u8 {
    match target {
        Branch::Pass => PASS,
        Branch::Reject => REJECT,
        // Fewer than TESTS_MAX.
        Branch::Test(index) => (begin + index) as u8,
    }
}
