//! Tests of addresses in records before the state dump that says which objects they are in.

use strata_ctf::state_dump;

use super::*;

#[test]
fn address_before_the_dump_has_the_name_that_the_dump_tells() {
    let hand = Hand::new();
    let events = [
        ("a_hit", ""),
        ("lttng_statedump_vm_map", "u32 pid; u64 start; u64 end; u64 offset; string path;"),
        ("lttng_statedump_process_state", "u32 tid; u32 pid; string name;"),
    ];
    let context = "u32 tid; u32 depth; u64 callstack_user[depth];";
    let text = metadata("domain = \"kernel\";", context, &events);
    let header = "byte_order = le; packet.header := struct { u64 stream_instance_id; };";
    hand.trace("k", &text.replace("byte_order = le;", header), &[]);
    let hit = [U32(7), U32(1), U64(0x1004)];
    let map = [U32(1), U32(0), U32(7), U64(0x1000), U64(0x1100), U64(0), Text("/no/liba")];
    let state = [U32(1), U32(0), U32(7), U32(7), Text("app")];
    let dump: [Record<'_>; 2] = [(1, 100, &map), (2, 100, &state)];
    let (changes, behind) = (4 + state_dump::CHANGES_BEHIND, 5_u64);
    for (name, number, records) in [
        ("channel0_0", 0_u64, &[(0, 10, &hit[..])][..]),
        (state_dump::FILE, 4, &dump[..]),
        ("channel0_5", changes, &[][..]),
    ] {
        let mut bytes = Packets::new(0).packet(records).bytes;
        // The sizes of content and packet, which have the number in front now.
        for place in [16, 24] {
            let size: [u8; 8] = bytes[place..place + 8].try_into().unwrap();
            let size = u64::from_le_bytes(size) + 64;
            bytes[place..place + 8].copy_from_slice(&size.to_le_bytes());
        }
        if number == changes {
            // It is watched from then on, and nothing found no room.
            bytes[..8].copy_from_slice(&behind.to_le_bytes());
            bytes[8..16].copy_from_slice(&behind.to_le_bytes());
            bytes[32..40].copy_from_slice(&0_u64.to_le_bytes());
        }
        let bytes = [&number.to_le_bytes()[..], &bytes].concat();
        std::fs::write(hand.0.join("k").join(name), bytes).unwrap();
    }
    let reader = hand.reader();
    let mut exporter = Exporter::new(Vec::new(), &reader, Options::default()).unwrap();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        if let Message::Event(event) = message {
            exporter.event(&event).unwrap();
        }
    }
    let (bytes, _) = exporter.finish().unwrap();
    let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("liba+0x4") && !has("0x1004") && !has("nothing+0x4"));
}
