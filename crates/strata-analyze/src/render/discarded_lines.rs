//! Lines that stand for discarded event records.

use strata_ctf::read::{Discarded, DiscardedKind};

use super::escape::tame_text;

/// Writes a line such as `--- 2 event records discarded between 22:13:21 and 22:13:22, stream 's1' ---`.
pub fn write(out: &mut Vec<u8>, discarded: &Discarded<'_>, time: &dyn Fn(i64) -> String) {
    let (count, plural) = (discarded.count, if discarded.count == 1 { "" } else { "s" });
    let what = match discarded.kind {
        DiscardedKind::Records => "event record",
        DiscardedKind::Packets => "packet",
    };
    let when = match (discarded.at_begin, discarded.from, discarded.to) {
        (true, ..) => " before the stream's first packet".to_owned(),
        (false, Some(from), Some(to)) => format!(" between {} and {}", time(from), time(to)),
        _ => String::new(),
    };
    out.extend_from_slice(
        format!("--- {count} {what}{plural} discarded{when}, stream '").as_bytes(),
    );
    tame_text(out, discarded.stream.name().as_bytes());
    out.extend_from_slice(b"' ---");
}
