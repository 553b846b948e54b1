//! What a guest's recorder says to the host's: frames, messages, packets, metadata, and what time it is.

use strata_ctf::kernel_symbols::KernelSymbols;
use strata_ctf::read::metadata;
use strata_model::{ClockClass, Uuid};
use strata_relay::{
    in_host_time, Bound, Bounds, Exchange, Frames, FromGuest, Line, Streams, ToGuest, CPUS_MAX,
    FRAME_BYTES_MAX, NAME_BYTES_MAX, STREAMS_MAX,
};

/// The first byte says in pieces of which size the rest comes.
pub fn run(input: &[u8]) {
    let Some((step, said)) = input.split_first() else { return };
    let (mut frames, mut bounds, mut streams) =
        (Frames::default(), Bounds::default(), Streams::default());
    let mut host = 1_000_000_000;
    for piece in said.chunks(1 + usize::from(*step)) {
        frames.push(piece);
        loop {
            match frames.next_frame() {
                Ok(None) => break,
                Ok(Some((kind, payload))) => {
                    assert!(payload.len() <= FRAME_BYTES_MAX);
                    host += 1_000_000;
                    message(kind, payload, &mut bounds, &mut streams, host);
                }
                Err(problem) => {
                    assert!(problem.to_string().len() < 200);
                    let held = frames.held();
                    assert!(held > 0 && frames.pass() == held - frames.held());
                }
            }
        }
    }
    for number in 0..bounds.epochs().len() {
        let before = bounds.epochs()[number].span();
        bounds.refine(number, &[any_bound(said, before.0)]);
        assert_eq!(bounds.epochs()[number].span(), before);
    }
    for epoch in bounds.epochs() {
        let (first, last) = epoch.span();
        assert!(first <= last);
        let span = streams.span();
        let line = Line::through(epoch, span).expect("something is known");
        let inside = Line::through(epoch, None).expect("something is known");
        assert!(line.uncertainty_ns >= inside.uncertainty_ns / 2, "{line:?} {inside:?}");
        assert!(line.frequency.abs_diff(1_000_000_000) <= 100_100, "{line:?}");
    }
}

/// What the last bytes say, near a time of which something is known.
fn any_bound(said: &[u8], near: u64) -> Bound {
    let mut words = said
        .rchunks_exact(8)
        .map(|word| word.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes)));
    let mut word = || words.next();
    let at = near.wrapping_add(word().unwrap_or(0) as u64 % 1_000_000);
    Bound { at, low: word(), high: word() }
}

fn message(kind: u16, payload: &[u8], bounds: &mut Bounds, streams: &mut Streams, host: u64) {
    if let Ok(said) = ToGuest::decode(kind, payload) {
        assert_eq!(said.encode()[12..], *payload);
    }
    let Ok(said) = FromGuest::decode(kind, payload) else { return };
    match &said {
        FromGuest::Hello(hello) => assert!(hello.hostname.len() <= 3 * NAME_BYTES_MAX),
        FromGuest::Pong { received_ns, sent_ns, .. } => {
            let (received, sent) = (*received_ns, *sent_ns);
            bounds.add(&Exchange { asked: host, received, sent, answered: host + 90_000 });
        }
        FromGuest::Packet { stream, packet, .. } => {
            let (header, bytes) = (packet.header, packet.body.len() as u64);
            let before = streams.span();
            if streams.take(header.uuid, *stream, &header, bytes).is_ok() {
                assert!(*stream < STREAMS_MAX && header.stream_instance == u64::from(*stream));
                assert!(header.cpu_id == *stream || header.cpu_id == 0);
                assert!(header.cpu_id < CPUS_MAX && header.content_bits == header.packet_bits);
                assert!(header.timestamp_begin <= header.timestamp_end);
            } else {
                assert_eq!(streams.span(), before);
            }
        }
        FromGuest::Metadata { text, .. } => described(text),
        FromGuest::Symbols { bytes, .. } => {
            // All of them are found again, by names that can be shown.
            let symbols = KernelSymbols::read(bytes);
            let (name, _) = symbols.find(u64::MAX).expect("there is one");
            assert!(name.iter().all(|byte| matches!(byte, b' '..=b'~')));
        }
        _ => {}
    }
    // What was understood is said again in the same words; texts that were not UTF-8 are not.
    let is_text = std::str::from_utf8(payload).is_ok();
    if is_text && !matches!(said, FromGuest::Hello(_)) {
        assert_eq!(said.encode()[12..], *payload, "{said:?}");
    }
}

/// Metadata that are taken have the host's number, clock and entry, and no other ones.
fn described(text: &str) {
    let clock = ClockClass {
        frequency: 1_000_000_007,
        precision: 55_000,
        ..ClockClass::monotonic(Some(Uuid([3; 16])), 1_700_000_000_000_000_001)
    };
    let (uuid, entry) = (Uuid([7; 16]), ("clock_uncertainty".to_owned(), 55_000));
    let Ok(out) = in_host_time(text, uuid, &clock, &[entry]) else { return };
    let schema = metadata::parse(out.as_bytes()).expect("it was read when it was made");
    assert_eq!((schema.uuid, &schema.clocks[..]), (Some(uuid), &[clock][..]));
    let said = schema.environment.iter().filter(|(name, _)| name == "clock_uncertainty");
    assert_eq!(said.count(), 1);
}
