//! Tests of packet headers, packet contexts and record headers.

use super::super::header::HeaderKind;
use super::*;
use crate::model::Uuid;
use strata_random::Random;

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

fn number(value: u64, bytes: usize, order: ByteOrder) -> Vec<u8> {
    match order {
        ByteOrder::Little => value.to_le_bytes()[..bytes].to_vec(),
        ByteOrder::Big => value.to_be_bytes()[8 - bytes..].to_vec(),
    }
}

/// Encodes a record header in LTTng's layout; `full` asks for its extended form.
fn header(compact: bool, order: ByteOrder, id: u64, time: u64, full: bool) -> Vec<u8> {
    let mut bytes = match (compact, full, order) {
        (true, false, ByteOrder::Little) => number(id | time << 5, 4, order),
        (true, false, ByteOrder::Big) => number(id << 27 | time & 0x7ff_ffff, 4, order),
        (true, true, ByteOrder::Little) => vec![31],
        (true, true, ByteOrder::Big) => vec![31 << 3],
        (false, false, _) => number(id, 2, order),
        (false, true, _) => vec![255, 255],
    };
    match (compact, full) {
        (true, false) => {}
        (false, false) => bytes.extend(number(time & 0xffff_ffff, 4, order)),
        (_, true) => {
            bytes.extend(number(id, 4, order));
            bytes.extend(number(time, 8, order));
        }
    }
    bytes
}

fn events(order: ByteOrder) -> Vec<EventClass> {
    let byte = || FieldClass::Integer(int(8, 8, false, order));
    let ids = [0, 3, 30, 31, 1000, 70_000];
    ids.into_iter().map(|id| event(id, structure(1, vec![("x", byte())]))).collect()
}

fn is_quick(packet: &Packet<'_>) -> bool {
    !matches!(packet.stream().header, HeaderKind::Other | HeaderKind::Flat(_))
}

#[test]
fn compact_and_large_headers_in_both_orders_and_forms_are_read() {
    for order in ORDERS {
        for compact in [true, false] {
            let mut bytes = Vec::new();
            let mut add = |id, time, full, x| {
                bytes.extend(header(compact, order, id, time, full));
                bytes.push(x);
            };
            add(0, 5, false, 10);
            add(3, 1000, false, 11);
            add(70_000, 0x1_2345_6789_abcd, true, 12);
            // If the 27 or 32 bits are less than before, they belong to the next such time.
            add(30, 7, false, 13);
            add(31, 0x2_0000_0000_0000, true, 14);
            let mut packet =
                Packet::open(schema(Some(split_header(compact, order)), events(order)), &bytes);
            assert!(is_quick(&packet), "{order:?} {compact}");
            let mut found = Vec::new();
            while packet.at < bytes.len() as u64 * 8 {
                let (class, time, fields) = packet.show(Scope::Payload).expect("a record");
                found.push((class, time.expect("a time"), fields[0].to_string()));
            }
            let cycle = if compact { 1u64 << 27 } else { 1 << 32 };
            let before = 0x1_2345_6789_abcd;
            let wrapped = before - before % cycle + cycle + 7;
            let expected = [(0, 5, 10), (1, 1000, 11), (5, before, 12), (2, wrapped, 13)];
            for (found, (class, time, x)) in found.iter().zip(expected) {
                assert_eq!(*found, (class, time, format!("x={x}")), "{order:?} {compact}");
            }
            assert_eq!(found[4], (3, 0x2_0000_0000_0000, "x=14".to_string()));
        }
    }
}

#[test]
fn special_headers_give_what_their_plans_give() {
    let seed = strata_random::seed();
    for round in 0..400 {
        let mut random = Random::from_seed(seed.wrapping_add(round));
        let order = ORDERS[round as usize % 2];
        let compact = random.chance(2);
        let special = schema(Some(split_header(compact, order)), events(order));
        let mut plain = special.clone();
        // A field depends on a length in the header.
        let needs =
            array(of(Scope::EventHeader, &[0]), FieldClass::Structure(structure(1, vec![])));
        plain.streams[0].events.push(event(1 << 40, structure(1, vec![("n", needs)])));
        let mut bytes = Vec::new();
        for _ in 0..10 {
            let id = [0, 3, 30, 31, 1000, 70_000, 5][random.below(7) as usize];
            let full = id > 30 && (compact || id > 65_534) || random.chance(3);
            bytes.extend(header(compact, order, id, random.next() & 0xff_ffff_ffff, full));
            bytes.push(0);
        }
        let end = random.below(bytes.len() as u64 + 1) as usize;
        let mut a = Packet::open(special, &bytes[..end]);
        let mut b = Packet::open(plain, &bytes[..end]);
        assert!(is_quick(&a) && b.stream().header == HeaderKind::Other);
        loop {
            let (left, right) = (a.next(), b.next());
            match (left, right) {
                (Ok(left), Ok(right)) => {
                    assert_eq!((left, a.state.record), (right, b.state.record));
                    if !left {
                        break;
                    }
                }
                (Err(NoRecord::Bad(left)), Err(NoRecord::Bad(right))) => {
                    assert_eq!(left, right);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Returns metadata with the record header `header` as LTTng-UST declares it.
fn metadata(order: &str, header: &str) -> String {
    format!(
        r#"/* CTF 1.8 */
typealias integer {{ size = 5; align = 1; signed = false; }} := uint5_t;
typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 16; align = 8; signed = false; }} := uint16_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;
trace {{ major = 1; minor = 8; byte_order = {order}; }};
clock {{ name = "monotonic"; freq = 1000000000; }};
typealias integer {{ size = 27; align = 1; signed = false; map = clock.monotonic.value; }} := t27;
typealias integer {{ size = 32; align = 8; signed = false; map = clock.monotonic.value; }} := t32;
typealias integer {{ size = 64; align = 8; signed = false; map = clock.monotonic.value; }} := t64;
struct compact {{
    enum : uint5_t {{ compact = 0 ... 30, extended = 31 }} id;
    variant <id> {{
        struct {{ t27 timestamp; }} compact;
        struct {{ uint32_t id; t64 timestamp; }} extended;
    }} v;
}} align(8);
struct large {{
    enum : uint16_t {{ compact = 0 ... 65534, extended = 65535 }} id;
    variant <id> {{
        struct {{ t32 timestamp; }} compact;
        struct {{ uint32_t id; t64 timestamp; }} extended;
    }} v;
}} align(8);
struct flat {{ uint16_t id; t64 timestamp; }};
stream {{ event.header := struct {header}; }};
event {{ name = "a:b"; id = 3; fields := struct {{ uint8_t _x; }}; }};
"#
    )
}

#[test]
fn headers_of_lttngs_metadata_are_the_quick_ones() {
    for (order, byte_order) in [("le", ByteOrder::Little), ("be", ByteOrder::Big)] {
        let kind = |header| {
            let text = metadata(order, header);
            let schema = crate::read::metadata::parse(text.as_bytes()).expect("metadata");
            let bytes = match header {
                "flat" => [number(3, 2, byte_order), number(77, 8, byte_order), vec![9]].concat(),
                _ => {
                    [self::header(header == "compact", byte_order, 3, 77, false), vec![9]].concat()
                }
            };
            let mut packet = Packet::open(schema, &bytes);
            assert_eq!(packet.stream().events()[0].name(), "a:b");
            let (_, time, fields) = packet.show(Scope::Payload).expect("a record");
            assert_eq!((time, fields[0].to_string().as_str()), (Some(77), "x=9"), "{header}");
            packet.stream().header
        };
        let is_big = byte_order == ByteOrder::Big;
        let expected = if is_big { HeaderKind::CompactBe } else { HeaderKind::CompactLe };
        assert_eq!(kind("compact"), expected);
        assert_eq!(kind("large"), if is_big { HeaderKind::LargeBe } else { HeaderKind::LargeLe });
        assert!(matches!(kind("flat"), HeaderKind::Flat(_)));
    }
}

#[test]
fn flat_header_of_id_and_time_is_read_without_its_plan() {
    let order = ByteOrder::Little;
    let header = structure(8, vec![("id", id(8, 8, order)), ("timestamp", time(32, 8, order))]);
    let x = structure(1, vec![("x", unsigned(8))]);
    let bytes = [7, 1, 0, 0, 0, 42, 7, 0, 0, 0, 0, 43];
    let mut packet = Packet::open(schema(Some(header), vec![event(7, x)]), &bytes);
    assert!(matches!(packet.stream().header, HeaderKind::Flat(_)));
    assert_eq!(packet.show(Scope::Payload).expect("a record").1, Some(1));
    let (_, time, fields) = packet.show(Scope::Payload).expect("a record");
    assert_eq!((time, fields[0].to_string().as_str()), (Some(1 << 32), "x=43"));
}

#[test]
fn stream_without_clock_has_no_time_and_without_header_has_class_0() {
    let mut schema = payload(vec![("x", unsigned(8))]);
    schema.streams[0].clock = None;
    let mut packet = Packet::open(schema, &[1, 2]);
    assert_eq!(packet.show(Scope::Payload).expect("a record").1, None);
    assert_eq!(packet.line(), "x=2");
    assert!(matches!(packet.next(), Ok(false)));
}

#[test]
fn clock_in_a_payload_moves_the_time_of_the_next_record() {
    let members = vec![("t", time(64, 8, ByteOrder::Little))];
    let mut bytes = 1000u64.to_le_bytes().to_vec();
    bytes.extend(2000u64.to_le_bytes());
    let mut packet = Packet::open(payload(members), &bytes);
    assert_eq!(packet.show(Scope::Payload).expect("a record").1, Some(0));
    assert_eq!(packet.show(Scope::Payload).expect("a record").1, Some(1000));
    assert_eq!(packet.state.time, 2000);
}

#[test]
fn unknown_id_is_reported_with_its_value_and_place() {
    let order = ByteOrder::Little;
    let bytes = header(true, order, 9, 0, false);
    let schema = schema(Some(split_header(true, order)), events(order));
    let bad = Packet::open(schema, &bytes).bad();
    assert_eq!((bad.kind, bad.at), (BadKind::UnknownId(9), 0));
    let text = "event record header, at bit 0 of the packet: the metadata has no class of id 9";
    assert_eq!(bad.to_string(), text);
}

#[test]
fn packet_header_and_context_say_all_that_a_reader_needs() {
    let mut schema = payload(vec![("x", unsigned(8))]);
    schema.streams[0].id = 5;
    schema.packet_uuid = Some(1);
    let byte = FieldClass::Integer(int(8, 8, false, ByteOrder::Little));
    schema.packet_header = Some(structure(
        8,
        vec![
            ("magic", role(32, Role::PacketMagic)),
            ("uuid", array(Length::Static(16), byte)),
            ("stream_id", role(32, Role::StreamClassId)),
            ("stream_instance_id", role(64, Role::StreamId)),
        ],
    ));
    let end = Integer {
        clock: Some(0),
        role: Some(Role::PacketEndTimestamp),
        ..int(32, 8, false, ByteOrder::Little)
    };
    schema.streams[0].packet_context = Some(structure(
        8,
        vec![
            ("timestamp_begin", time(64, 8, ByteOrder::Little)),
            ("timestamp_end", FieldClass::Integer(end)),
            ("content_size", role(64, Role::PacketContentLength)),
            ("packet_size", role(64, Role::PacketTotalLength)),
            ("packet_seq_num", role(64, Role::PacketSequenceNumber)),
            ("events_discarded", role(32, Role::DiscardedEvents)),
            ("cpu_id", unsigned(32)),
        ],
    ));
    let uuid: [u8; 16] = std::array::from_fn(|index| index as u8);
    let mut bytes = 0xc1fc_1fc1u32.to_le_bytes().to_vec();
    bytes.extend(uuid);
    bytes.extend(5u32.to_le_bytes());
    bytes.extend(77u64.to_le_bytes());
    let begin = 0x5_ffff_fff0u64;
    bytes.extend(begin.to_le_bytes());
    bytes.extend(3u32.to_le_bytes());
    for size in [640u64, 1024, 9] {
        bytes.extend(size.to_le_bytes());
    }
    bytes.extend(4u32.to_le_bytes());
    bytes.extend(2u32.to_le_bytes());

    let decoder = Decoder::new(Arc::new(schema), 10);
    assert_eq!((decoder.classes(), decoder.find_stream(Some(5))), (1, Some(0)));
    assert_eq!((decoder.find_stream(None), decoder.find_stream(Some(1))), (Some(0), None));
    assert_eq!(decoder.stream(0).expect("stream").events()[0].index(), 10);
    let mut state = decoder.state();
    let window = Window::new(&bytes, 0, u64::MAX);
    let header = decoder.packet_header(&window, &mut state).expect("packet header");
    assert_eq!(header.magic, Some(0xc1fc_1fc1));
    assert_eq!(header.uuid, Some(Uuid(uuid)));
    assert_eq!((header.stream_class, header.stream, header.end), (Some(5), Some(77), 256));
    let stream = decoder.stream(0).expect("stream");
    let context = stream.packet_context(&window, header.end, &mut state).expect("context");
    assert_eq!((context.begin, context.end), (Some(begin), Some(0x6_0000_0003)));
    assert_eq!((context.content_bits, context.total_bits), (Some(640), Some(1024)));
    assert_eq!((context.sequence, context.discarded), (Some(9), Some(4)));
    assert_eq!((context.cpu, context.end_bit), (Some(2), bytes.len() as u64 * 8));
    assert_eq!(state.time, begin);

    for cut in 0..bytes.len() {
        let window = Window::new(&bytes[..cut], 0, u64::MAX);
        let mut state = decoder.state();
        let stop = match decoder.packet_header(&window, &mut state) {
            Ok(header) => {
                assert!(cut >= 32);
                stream.packet_context(&window, header.end, &mut state).expect_err("cut")
            }
            Err(stop) => stop,
        };
        assert!(
            matches!(stop, NoRecord::Short { until } if until > cut as u64 * 8),
            "{cut}: {stop:?}"
        );
    }
}

#[test]
fn wrap_time_of_few_bits_in_a_packets_context_goes_on_from_the_packet_before() {
    let mut schema = payload(vec![("x", unsigned(8))]);
    let context = vec![("timestamp_begin", time(16, 8, ByteOrder::Little))];
    schema.streams[0].packet_context = Some(structure(8, context));
    let decoder = Decoder::new(Arc::new(schema), 0);
    let stream = decoder.stream(0).expect("stream");
    let mut state = decoder.state();
    for (bytes, expected) in [([0, 0xff], 0xff00), ([5, 0], 0x1_0005), ([6, 0], 0x1_0006)] {
        let window = Window::new(&bytes, 0, 16);
        let header = decoder.packet_header(&window, &mut state).expect("packet header");
        let context = stream.packet_context(&window, header.end, &mut state).expect("context");
        assert_eq!(context.begin, Some(expected));
    }
}

#[test]
fn text_behind_half_a_byte_begins_with_the_next_byte() {
    let order = ByteOrder::Little;
    let half = FieldClass::Integer(int(4, 1, false, order));
    let texts = event(0, structure(1, vec![("s", FieldClass::String)]));
    let mut schema = schema(Some(split_header(true, order)), vec![texts]);
    schema.streams[0].event_common_context = Some(structure(1, vec![("half", half)]));
    let mut bytes = Vec::new();
    for half in [0, 5] {
        bytes.extend(header(true, order, 0, 1000, false));
        bytes.push(half);
        bytes.extend(b"some text\0");
    }
    // `Packet::next()` fails unless each way of moving to the next record finds the same one.
    let mut packet = Packet::open(schema, &bytes);
    let found = [packet.line(), packet.line()];
    assert_eq!(found, ["s='some text'"; 2]);
    assert_eq!(packet.at, bytes.len() as u64 * 8);
}
