//! What a recorder says to a relay and a relay to a recorder: frames, messages, and metadata in the relay's time.

use strata_ctf::read::metadata;
use strata_model::{ClockClass, Uuid};
use strata_relay::{
    in_host_time_again, uuid_of, Entry, Frames, FromGuest, FromRecorder, ToRecorder,
    FRAME_BYTES_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX,
};

/// The first byte says in pieces of which size the rest comes.
pub fn run(input: &[u8]) {
    let Some((step, said)) = input.split_first() else { return };
    let mut frames = Frames::default();
    for piece in said.chunks(1 + usize::from(*step)) {
        frames.push(piece);
        loop {
            match frames.next_frame() {
                Ok(None) => break,
                Ok(Some((kind, payload))) => {
                    assert!(payload.len() <= FRAME_BYTES_MAX);
                    of_recorder(kind, payload);
                    of_relay(kind, payload);
                }
                // A relay ends the connection here; the fuzzer looks at the rest, too.
                Err(_) => assert!(frames.pass() > 0),
            }
            assert!(frames.coming().is_none_or(|bytes| bytes <= FRAME_BYTES_MAX + 12));
        }
        frames.shrink(1 << 10);
        assert!(frames.held() <= said.len());
    }
}

/// Returns kind and payload of an encoded message.
fn parts(frame: &[u8]) -> (u16, &[u8]) {
    (u16::from_le_bytes([frame[4], frame[5]]), &frame[12..])
}

fn of_recorder(kind: u16, payload: &[u8]) {
    let Ok(said) = FromRecorder::decode(kind, payload) else { return };
    let frame = said.encode();
    let (again_kind, again) = parts(&frame);
    assert_eq!(kind, again_kind);
    let again = FromRecorder::decode(again_kind, again);
    match &said {
        FromRecorder::Open(open) => {
            assert!(open.host.len() <= NAME_BYTES_MAX && open.session.len() <= NAME_BYTES_MAX);
            let mut open = open.clone();
            // The other order is only told, and never written.
            open.is_of_our_order = true;
            assert_eq!(again, Ok(FromRecorder::Open(open)));
            assert!(!said.is_numbered());
        }
        FromRecorder::Data(FromGuest::Metadata { text, .. }) => {
            assert_eq!(again.as_ref(), Ok(&said));
            in_time_of_relay(text);
        }
        _ => assert_eq!(again.as_ref(), Ok(&said)),
    }
}

fn of_relay(kind: u16, payload: &[u8]) {
    let Ok(said) = ToRecorder::decode(kind, payload) else { return };
    let frame = said.encode();
    assert_eq!(parts(&frame), (kind, payload));
    if let ToRecorder::Refuse { why } | ToRecorder::Later { why } = &said {
        assert!(why.len() <= TEXT_BYTES_MAX);
    }
}

/// Metadata that can be rewritten have the relay's clock and no other, and keep their size when they are rewritten again.
fn in_time_of_relay(text: &str) {
    let entries = |number| -> [Entry; 1] { [("clock_uncertainty".to_owned(), number)] };
    let clock = |precision, offset_cycles| ClockClass {
        precision,
        offset_cycles,
        ..ClockClass::monotonic(Some(Uuid([7; 16])), 1_700_000_000_123_456_789)
    };
    let (first, second) = (clock(u64::MAX, 999_999_999), clock(3, 0));
    let Ok(once) = in_host_time_again(text, &first, &entries(i64::MAX)) else { return };
    let twice = in_host_time_again(&once, &second, &entries(3)).expect("it was rewritten before");
    assert_eq!(once.len(), twice.len());
    assert_eq!(uuid_of(text), uuid_of(&twice));
    for (text, clock, number) in [(&once, first, i64::MAX), (&twice, second, 3)] {
        let schema = metadata::parse(text.as_bytes()).expect("it is parsed when it is rewritten");
        assert_eq!(schema.clocks, [clock]);
        let mut said = schema.environment.iter().filter(|(name, _)| name == "clock_uncertainty");
        assert_eq!(said.next().map(|(_, value)| value.clone()), Some(number.into()));
        assert!(said.next().is_none());
    }
}
