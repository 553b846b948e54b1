//! Tests of requests to layers.

use super::*;

#[test]
fn contexts_and_tracked_processes_are_more_than_rules_and_the_thread_is_not() {
    let wanted = |contexts: &[&str], tracked| Wanted {
        rules: vec![LayerRule { text: "shop:*".into(), ..LayerRule::default() }],
        contexts: contexts.iter().map(|name| (*name).to_owned()).collect(),
        tracked,
    };
    for (contexts, tracked, is_more) in [
        (&[][..], Tracked::default(), false),
        (&["vtid"], Tracked::default(), false),
        (&["vtid", "ip"], Tracked::default(), true),
        (&[], Tracked { pids: Some(vec![1]), ..Tracked::default() }, true),
        // Nobody is a choice, too.
        (&[], Tracked { uids: Some(Vec::new()), ..Tracked::default() }, true),
    ] {
        assert_eq!(wanted(contexts, tracked).is_more_than_rules(), is_more);
    }
}
