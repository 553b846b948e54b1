//! Conditions to the jump graph of tests.

use strata_abi::kernel::{Filter, Test, EARLY_MAX, PASS, REJECT, TESTS_MAX};

use super::Compiled;

/// A condition of one event. Unknown is not in it: it does not select.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// True of no record.
    Never,
    /// True of each.
    Always,
    /// All of them.
    All(Vec<Node>),
    /// One of them at least.
    Any(Vec<Node>),
    /// What the test says; where it leads is not chosen yet.
    Test(Test),
    /// The contrary of what the test says.
    Not(Test),
}

impl Node {
    pub(super) fn certain(value: bool) -> Node {
        if value {
            Node::Always
        } else {
            Node::Never
        }
    }

    /// What the test says, or the contrary.
    pub(super) fn test(test: Test, negated: bool) -> Node {
        if negated {
            Node::Not(test)
        } else {
            Node::Test(test)
        }
    }

    /// All of the parts, or any of them; constants are folded. An error counts only if no other part
    /// decides.
    pub(super) fn join<E>(
        all: bool,
        parts: impl Iterator<Item = Result<Node, E>>,
    ) -> Result<Node, E> {
        let (mut left, mut error) = (Vec::new(), None);
        for part in parts {
            match (part, all) {
                (Ok(Node::Never), true) => return Ok(Node::Never),
                (Ok(Node::Always), false) => return Ok(Node::Always),
                (Ok(Node::Always), true) | (Ok(Node::Never), false) => (),
                (Ok(node), _) => left.push(node),
                (Err(found), _) => error = error.or(Some(found)),
            }
        }
        if let Some(error) = error {
            return Err(error);
        }
        Ok(match left.len() {
            0 => Node::certain(all),
            1 => left.swap_remove(0),
            _ if all => Node::All(left),
            _ => Node::Any(left),
        })
    }

    /// The parts of which one that does not hold is enough to reject.
    fn into_conditions(self) -> Vec<Node> {
        match self {
            Node::All(parts) => parts.into_iter().flat_map(Node::into_conditions).collect(),
            node => vec![node],
        }
    }

    fn all_tests(&self, is: &impl Fn(&Test) -> bool) -> bool {
        match self {
            Node::Never | Node::Always => true,
            Node::All(parts) | Node::Any(parts) => parts.iter().all(|part| part.all_tests(is)),
            Node::Test(test) | Node::Not(test) => is(test),
        }
    }

    fn nr_tests(&self) -> usize {
        match self {
            Node::Never | Node::Always => 0,
            Node::All(parts) | Node::Any(parts) => parts.iter().map(Node::nr_tests).sum(),
            Node::Test(_) | Node::Not(_) => 1,
        }
    }
}

/// Where a test leads.
#[derive(Clone, Copy)]
enum Target {
    Pass,
    Reject,
    /// The test with so many behind it.
    Before(usize),
}

/// The tests, or how many there would be if these are too many. `is_early`: can be made before anything else.
pub(super) fn emit(node: Node, is_early: impl Fn(&Test) -> bool) -> Result<Compiled, usize> {
    match node {
        Node::Never => return Ok(Compiled::Never),
        Node::Always => return Ok(Compiled::Always),
        _ => (),
    }
    let nr_tests = node.nr_tests();
    if nr_tests > TESTS_MAX {
        return Err(nr_tests);
    }
    // The order does not matter: no condition has an effect, and none is unknown.
    let (mut early, mut others, mut nr_early) = (Vec::new(), Vec::new(), 0);
    for part in node.into_conditions() {
        if part.all_tests(&is_early) && nr_early + part.nr_tests() <= EARLY_MAX {
            nr_early += part.nr_tests();
            early.push(part);
        } else {
            others.push(part);
        }
    }
    let mut emitter = Emitter { tests: [Test::default(); TESTS_MAX], nr_tests, done: 0 };
    for part in [others, early] {
        emitter.node(&Node::All(part), Target::Pass, Target::Reject);
    }
    Ok(Compiled::Tests(Filter {
        nr_tests: nr_tests as u32,
        nr_early: nr_early as u32,
        test: emitter.tests,
    }))
}

/// From the last test to the first: where a test leads is there already.
struct Emitter {
    tests: [Test; TESTS_MAX],
    nr_tests: usize,
    done: usize,
}

impl Emitter {
    /// Where the condition begins.
    fn node(&mut self, node: &Node, yes: Target, no: Target) -> Target {
        match node {
            Node::Always => yes,
            Node::Never => no,
            Node::All(parts) => {
                parts.iter().rev().fold(yes, |next, part| self.node(part, next, no))
            }
            Node::Any(parts) => {
                parts.iter().rev().fold(no, |next, part| self.node(part, yes, next))
            }
            Node::Test(test) => self.test(test, yes, no),
            Node::Not(test) => self.test(test, no, yes),
        }
    }

    fn test(&mut self, test: &Test, yes: Target, no: Target) -> Target {
        let (yes, no) = (self.number(yes), self.number(no));
        self.done += 1;
        if let Some(slot) = self.tests.get_mut(self.nr_tests - self.done) {
            *slot = Test { yes, no, ..*test };
        }
        Target::Before(self.done - 1)
    }

    fn number(&self, target: Target) -> u8 {
        match target {
            Target::Pass => PASS,
            Target::Reject => REJECT,
            // Fewer than TESTS_MAX.
            Target::Before(behind) => (self.nr_tests - 1 - behind) as u8,
        }
    }
}
