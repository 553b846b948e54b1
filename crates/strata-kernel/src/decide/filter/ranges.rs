//! Converts sets of integers to tests.

use strata_abi::kernel::{Test, EQUAL, LESS, LESS_SIGNED, TESTS_MAX};
use strata_filter::lower::{apart, IntegerSpan};

use super::emit::{node_of, TestNode};

/// An integer that can be tested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TestedInteger {
    /// Test of the integer, to which the compared values are still to be added.
    pub test: Test,
    /// The values that the integer can have.
    pub domain: IntegerSpan,
}

impl TestedInteger {
    /// Restricts the integer to the bits of `mask`.
    pub(super) fn masked(self, mask: u64) -> TestedInteger {
        // A negative value is in two's complement of 64 bits, so that all bits of the mask can be there.
        let most = if self.domain.0 < 0 { u64::MAX } else { self.domain.1 as u64 };
        let test = Test { mask, ..self.test };
        TestedInteger { test, domain: (0, i128::from(mask & most)) }
    }

    /// Returns a test that the integer is in one of the spans, or with `outside` in none of them. The error is the
    /// number of tests, if there would be too many.
    pub(super) fn among(&self, spans: Vec<IntegerSpan>, outside: bool) -> Result<TestNode, usize> {
        let mut stretches = self.stretches(spans, outside);
        let mut single = Vec::new();
        // A value alone between two others is one test, and its neighbours become one; as a stretch it
        // has two ends.
        let mut index = 1;
        while index + 1 < stretches.len() {
            let Stretch { from, to, inside } = stretches[index];
            if from == to {
                single.push(Stretch { from, to, inside });
                stretches[index - 1].to = stretches[index + 1].to;
                stretches.drain(index..=index + 1);
            } else {
                index += 1;
            }
        }
        let last = stretches.pop().is_some_and(|last| last.inside);
        let nr_tests = stretches.len() + single.len();
        if nr_tests > TESTS_MAX {
            return Err(nr_tests);
        }
        let ends = stretches.iter().rev().map(|stretch| (self.at_most(stretch), stretch.inside));
        let values = single.iter().rev().map(|stretch| (self.equal(stretch.from), stretch.inside));
        let tests = ends.chain(values);
        Ok(tests.fold(TestNode::certain(last), |rest, (test, inside)| either(test, inside, rest)))
    }

    /// Divides all values that the integer can have into consecutive stretches. Each stretch is entirely inside or
    /// entirely outside of the spans.
    fn stretches(&self, mut spans: Vec<IntegerSpan>, outside: bool) -> Vec<Stretch> {
        let (least, most) = self.domain;
        spans.retain(|&(from, to)| from < to || self.has_bits(from));
        let mut stretches: Vec<Stretch> = Vec::new();
        let mut next = least;
        for (from, to) in apart(spans) {
            let (from, to) = (from.max(next), to.min(most));
            if from > to {
                continue;
            }
            if from > next {
                push(&mut stretches, Stretch { from: next, to: from - 1, inside: outside });
            }
            push(&mut stretches, Stretch { from, to, inside: !outside });
            next = to + 1;
        }
        if next <= most {
            push(&mut stretches, Stretch { from: next, to: most, inside: outside });
        }
        stretches
    }

    /// Returns whether the value has only bits of the mask.
    fn has_bits(&self, value: i128) -> bool {
        self.domain.0 < 0 || value as u64 & !self.test.mask == 0
    }

    fn equal(&self, value: i128) -> Test {
        // The lower half of an i128 is the value in two's complement of 64 bits.
        Test { comparison: EQUAL, value: value as u64, ..self.test }
    }

    /// Returns the test that the integer is in this stretch or below it.
    fn at_most(&self, stretch: &Stretch) -> Test {
        if stretch.to == self.domain.0 {
            return self.equal(stretch.to);
        }
        let comparison = if self.domain.0 < 0 { LESS_SIGNED } else { LESS };
        Test { comparison, value: (stretch.to + 1) as u64, ..self.test }
    }
}

/// A range of integers that are all accepted by a comparison, or all refused.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: i128,
    to: i128,
    inside: bool,
}

fn push(stretches: &mut Vec<Stretch>, stretch: Stretch) {
    match stretches.last_mut() {
        Some(last) if last.inside == stretch.inside => last.to = stretch.to,
        _ => stretches.push(stretch),
    }
}

/// Returns a node that is `inside` if the test is true, and otherwise the result of `rest`.
fn either(test: Test, inside: bool, rest: TestNode) -> TestNode {
    let test = node_of(test, !inside);
    let first = |parts: Vec<TestNode>| std::iter::once(test.clone()).chain(parts).collect();
    match (inside, rest) {
        (true, TestNode::Never) | (false, TestNode::Always) => test,
        (true, TestNode::Any(parts)) => TestNode::Any(first(parts)),
        (false, TestNode::All(parts)) => TestNode::All(first(parts)),
        (true, rest) => TestNode::Any([test, rest].into()),
        (false, rest) => TestNode::All([test, rest].into()),
    }
}
