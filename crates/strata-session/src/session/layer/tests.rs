//! What a plain layer says that it cannot do.

use super::*;

#[test]
fn what_is_asked_besides_rules_is_named_and_the_thread_is_no_such_thing() {
    let wanted = |contexts: &[&str], tracked| Wanted {
        rules: vec![LayerRule { text: "shop:*".into(), ..LayerRule::default() }],
        contexts: contexts.iter().map(|name| (*name).to_owned()).collect(),
        tracked,
    };
    let one = Some(vec![1]);
    let texts = || Some(vec!["a".to_owned()]);
    for (contexts, tracked, said) in [
        (&[][..], Tracked::default(), &[][..]),
        (&["vtid"], Tracked::default(), &[]),
        (&["vtid", "ip", "vpid"], Tracked::default(), &["context 'ip'", "context 'vpid'"]),
        (&[], Tracked { pids: one.clone(), ..Tracked::default() }, &["processes by numbers"]),
        // Nobody is a choice, too.
        (&[], Tracked { uids: Some(Vec::new()), ..Tracked::default() }, &["processes by users"]),
        (
            &["ip"],
            Tracked { gids: one.clone(), names: texts(), cgroups: texts(), ..Tracked::default() },
            &["context 'ip'", "processes by groups", "processes by names", "processes by cgroups"],
        ),
    ] {
        assert_eq!(wanted(contexts, tracked).besides_rules(), said);
    }
}
