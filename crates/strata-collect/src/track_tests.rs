//! What a packet must say, whatever its producer says.

use crate::stream_file::{PacketWriting, StreamTrack};
use strata_model::{Demand, DiscardReason};
use strata_ring::{Counters, Info};

const NOW: u64 = 1_000_000_000_000;

fn info(position: u64, content_bytes: u64, begin: u64, end: u64) -> Info {
    Info {
        position,
        header_bytes: 0,
        content_bytes,
        timestamp_begin: begin,
        timestamp_end: Some(end),
        records: Some(content_bytes / 12),
        discarded: 0,
        unpublished_bytes: 0,
    }
}

fn overwritten(overwritten_records: u64) -> Counters {
    Counters { overwritten_records, ..Counters::default() }
}

/// Plans, and carries out.
fn take(
    track: &mut StreamTrack,
    info: &Info,
    whole: bool,
    counters: Counters,
) -> Result<PacketWriting, String> {
    let plan = track.plan(info, whole, || counters, || NOW)?;
    track.written(plan.clone(), plan.body_bytes > 0, 0);
    Ok(plan)
}

fn whole(track: &mut StreamTrack, info: &Info) -> PacketWriting {
    take(track, info, true, Counters::default()).unwrap()
}

fn part(track: &mut StreamTrack, info: &Info) -> PacketWriting {
    take(track, info, false, Counters::default()).unwrap()
}

fn track() -> StreamTrack {
    StreamTrack::new(3, 4096, false)
}

#[test]
fn plan_of_parts_writes_each_byte_once_and_begins_where_the_last_ended() {
    let mut t = track();
    let one = part(&mut t, &info(0, 120, 100, 200));
    assert_eq!((one.from, one.body_bytes, one.begin, one.end), (0, 120, 100, 200));
    let same = part(&mut t, &info(0, 120, 100, 200));
    assert_eq!(same.body_bytes, 0);
    let two = part(&mut t, &info(0, 240, 100, 300));
    assert_eq!((two.from, two.body_bytes, two.begin, two.end), (120, 120, 200, 300));
    let rest = whole(&mut t, &info(0, 1200, 100, 400));
    assert_eq!((rest.from, rest.body_bytes, rest.begin, rest.end), (240, 960, 300, 400));
    let next = whole(&mut t, &info(4096, 1200, 500, 600));
    assert_eq!((next.from, next.body_bytes, next.begin, next.end), (0, 1200, 500, 600));
    assert_eq!((t.stats.records, t.stats.packets, t.stats.damaged), (200, 4, 0));
    assert_eq!((t.stats.first_timestamp, t.stats.last_timestamp), (Some(100), Some(600)));
}

#[test]
fn plan_of_a_packet_cut_to_its_end_writes_nothing_more() {
    let mut t = track();
    part(&mut t, &info(0, 120, 100, 200));
    assert_eq!(whole(&mut t, &info(0, 120, 100, 900)).body_bytes, 0);
    assert_eq!((t.stats.records, t.stats.packets, t.end()), (10, 1, 200));
    assert_eq!(whole(&mut t, &info(4096, 12, 950, 960)).begin, 950);
}

#[test]
fn plan_leaves_the_reserved_header_out() {
    let mut t = track();
    let reserved = Info { header_bytes: 64, ..info(0, 184, 1, 2) };
    let plan = whole(&mut t, &reserved);
    assert_eq!((plan.from, plan.body_bytes), (64, 120));
}

#[test]
fn plan_that_was_not_carried_out_changes_nothing() {
    let t = track();
    for _ in 0..3 {
        let plan = t.plan(&info(0, 120, 9, 5), true, Counters::default, || NOW).unwrap();
        assert!(plan.damage.is_some());
    }
    assert_eq!((t.stats.damaged, t.stats.packets, t.end()), (0, 0, 0));
}

#[test]
fn malicious_position_that_goes_back_is_refused() {
    let mut t = track();
    whole(&mut t, &info(8192, 120, 1, 2));
    for position in [0, 4096, 8192] {
        let what = take(&mut t, &info(position, 120, 3, 4), true, Counters::default()).unwrap_err();
        assert!(what.contains("stream 3") && what.contains("read already"), "{what}");
    }
    whole(&mut t, &info(12288, 120, 3, 4));
}

#[test]
fn wrap_of_positions_is_not_going_back() {
    let mut t = track();
    let last = 0u64.wrapping_sub(4096);
    whole(&mut t, &info(last, 120, 1, 2));
    whole(&mut t, &info(0, 120, 3, 4));
    assert!(take(&mut t, &info(last, 120, 5, 6), true, Counters::default()).is_err());
}

#[test]
fn malicious_content_that_shrinks_is_refused() {
    let mut t = track();
    part(&mut t, &info(0, 240, 1, 2));
    let what = take(&mut t, &info(0, 120, 1, 2), true, Counters::default()).unwrap_err();
    assert!(what.contains("120 bytes, and 240 were there"), "{what}");
}

#[test]
fn malicious_times_are_put_in_order_and_counted() {
    let mut t = track();
    whole(&mut t, &info(0, 12, 100, 200));
    let plan = whole(&mut t, &info(4096, 12, 150, 300));
    assert_eq!((plan.begin, plan.end, t.stats.damaged), (200, 300, 1));
    let plan = whole(&mut t, &info(8192, 12, 400, 350));
    assert_eq!((plan.begin, plan.end, t.stats.damaged), (400, 400, 2));
    let plan = whole(&mut t, &info(12288, 12, 500, u64::MAX));
    assert_eq!((plan.begin, plan.end, t.stats.damaged), (500, NOW + 1_000_000_000, 3));
    let plan = whole(&mut t, &info(16384, 12, u64::MAX, u64::MAX));
    assert_eq!((plan.begin, plan.end), (NOW + 1_000_000_000, NOW + 1_000_000_000));
    let plan = whole(&mut t, &info(20480, 12, 600, 700));
    assert!(plan.begin == NOW + 1_000_000_000 && plan.end == plan.begin);
    assert_eq!(t.stats.damaged, 5);
    assert!(t.stats.damage.as_ref().unwrap().contains("stream 3, packet at position 4096"));
}

#[test]
fn malicious_record_count_is_held_to_what_fits() {
    let mut t = track();
    whole(&mut t, &Info { records: Some(u64::MAX), ..info(0, 120, 1, 2) });
    assert_eq!((t.stats.records, t.stats.damaged), (30, 1));
    part(&mut t, &info(4096, 120, 3, 4));
    whole(&mut t, &Info { records: Some(0), ..info(4096, 240, 3, 5) });
    assert_eq!(t.stats.records, 40);
}

#[test]
fn malicious_discarded_count_never_goes_down() {
    let mut t = track();
    let says = [(5, 5), (3, 5), (6, 6), (u64::MAX, u64::MAX), (7, u64::MAX)];
    for (i, (discarded, written)) in says.into_iter().enumerate() {
        let info = Info { discarded, ..info(i as u64 * 4096, 12, 1, 1) };
        assert_eq!(whole(&mut t, &info).discarded, written);
    }
}

#[test]
fn plan_by_commit_mends_the_end_that_a_flush_from_outside_has_stamped() {
    let mut t = StreamTrack::new(0, 4096, true);
    whole(&mut t, &info(0, 12, 100, 2000));
    let plan = whole(&mut t, &info(4096, 12, 150, 300));
    assert_eq!((plan.mend, plan.begin, plan.end, t.stats.damaged), (Some(150), 150, 300, 0));
    // Before the begin of the packet before: no clock of an honest process does that.
    let plan = whole(&mut t, &info(8192, 12, 140, 400));
    assert_eq!((plan.mend, plan.begin, t.stats.damaged), (None, 300, 1));
}

#[test]
fn plan_without_an_end_ends_now() {
    let mut t = track();
    let plan = whole(&mut t, &Info { timestamp_end: None, records: None, ..info(0, 12, 100, 0) });
    assert_eq!((plan.begin, plan.end), (100, NOW));
    assert_eq!((t.stats.records, t.stats.uncounted_packets, t.stats.damaged), (0, 1, 0));
}

#[test]
fn loss_of_packets_in_between_is_reported_with_the_next_one() {
    let mut t = track();
    let plan = take(&mut t, &info(0, 12, 1, 2), true, overwritten(0)).unwrap();
    assert_eq!(plan.discarded, 0);
    // The next one in order: what is overwritten behind it is not its matter.
    let plan = take(&mut t, &info(4096, 12, 3, 4), true, overwritten(50)).unwrap();
    assert_eq!(plan.discarded, 0);
    let later = Info { discarded: 3, ..info(16384, 12, 5, 6) };
    let plan = take(&mut t, &later, true, overwritten(50)).unwrap();
    assert_eq!((plan.discarded, t.discarded()), (53, 53));
}

#[test]
fn loss_of_a_packet_that_was_cut_counts_what_was_not_written_of_it() {
    let mut t = track();
    take(&mut t, &info(0, 120, 1, 2), false, overwritten(0)).unwrap();
    // It had 100 records when it was overwritten, and 10 of them are in the file.
    let plan = take(&mut t, &info(8192, 12, 5, 6), true, overwritten(100)).unwrap();
    assert_eq!(plan.discarded, 90);
    assert_eq!(t.overwritten(&overwritten(100)), 90);
}

#[test]
fn cut_of_a_stream_goes_on_where_it_was_and_counts_from_there() {
    let mut t = track();
    let counted = |mut info: Info, discarded| {
        info.discarded = discarded;
        info
    };
    whole(&mut t, &counted(info(0, 1200, 100, 200), 5));
    part(&mut t, &counted(info(4096, 120, 300, 350), 7));
    t.cut();
    assert_eq!((t.stats.records, t.stats.packets, t.all().records), (0, 0, 110));
    assert_eq!((t.counted(t.discarded()), t.counted(9), t.spans_from()), (0, 2, None));
    // The rest of what was cut goes to the next trace, and begins where it was cut.
    let rest = whole(&mut t, &counted(info(4096, 240, 300, 400), 9));
    assert_eq!((rest.from, rest.body_bytes, rest.begin, rest.end), (120, 120, 350, 400));
    assert_eq!((t.stats.records, t.all().records, t.all().packets), (10, 120, 3));
    assert_eq!((t.counted(t.discarded()), t.discarded()), (2, 9));
    // What was written of both is not in the buffers.
    let counters = Counters { written: 130, ..Counters::default() };
    assert_eq!(t.unwritten(&counters, 1 << 20), 10);
}

/// Writes a packet after losses: so many before it was closed, and, for two reasons, until it was examined.
fn lossy(track: &mut StreamTrack, info: Info, closed: u64, full: u64, nested: u64) {
    let counters =
        Counters { discarded_full: full, discarded_nested: nested, ..Counters::default() };
    take(track, &Info { discarded: closed, ..info }, true, counters).unwrap();
}

#[test]
fn times_of_losses_are_between_the_ends_of_packets_or_up_to_the_look() {
    let mut t = track();
    whole(&mut t, &info(0, 1200, 100, 200));
    assert_eq!(t.stats.times.of(DiscardReason::Full), None);
    // All that was counted when the packet was closed is between both ends.
    lossy(&mut t, info(4096, 1200, 300, 400), 5, 5, 0);
    assert_eq!(t.stats.times.of(DiscardReason::Full), Some((200, 400)));
    whole(&mut t, &Info { discarded: 5, ..info(8192, 1200, 500, 600) });
    // More came since: until it was looked at.
    lossy(&mut t, info(12_288, 1200, 700, 800), 6, 6, 2);
    let times = (t.stats.times.of(DiscardReason::Full), t.stats.times.of(DiscardReason::Nested));
    assert_eq!(times, (Some((200, NOW)), Some((600, NOW))));
    assert_eq!(t.stats.times.of(DiscardReason::TooBig), None);
    // What no packet tells of is known at the end.
    let at_end = Counters { discarded_too_big: 1, ..Counters::default() };
    t.losses_until(&at_end, NOW + 5);
    assert_eq!(t.stats.times.of(DiscardReason::TooBig), Some((800, NOW + 5)));
    // Without a packet nobody knows since when.
    let mut empty = track();
    empty.losses_until(&at_end, NOW);
    assert_eq!(empty.stats.times.of(DiscardReason::TooBig), None);
}

#[test]
fn losses_of_a_stream_that_was_cut_are_reported_once_with_the_times_of_all_traces() {
    let mut t = track();
    whole(&mut t, &info(0, 1200, 100, 200));
    lossy(&mut t, info(4096, 1200, 300, 400), 5, 5, 0);
    (t.stats.records, t.stats.bytes) = (100, 3_000);
    t.taken(5, 4096, 50);
    let demand = t.stats.demand;
    assert_eq!(demand, Demand { bytes: 4096 + 150, late_ns: 50 });
    // What is discarded behind the last packet is the complete trace's.
    let at_cut = Counters { discarded_full: 7, ..Counters::default() };
    t.losses_until(&at_cut, NOW - 10);
    t.cut();
    let full = |t: &StreamTrack| {
        (t.stats.times.of(DiscardReason::Full), t.all().times.of(DiscardReason::Full))
    };
    assert_eq!(full(&t), (None, Some((200, NOW - 10))));
    assert_eq!((t.stats.demand, t.all().demand), (Demand::default(), demand));
    // The next packet counts it, and it is no news; what comes then was not before the last packet's end.
    lossy(&mut t, info(8192, 1200, 500, 600), 7, 7, 0);
    assert_eq!(full(&t), (None, Some((200, NOW - 10))));
    t.cut();
    lossy(&mut t, info(12_288, 1200, 700, 800), 9, 9, 0);
    assert_eq!(full(&t), (Some((600, 800)), Some((200, NOW - 10))));
    t.cut();
    // It goes on piling up, of records as large as those that were written.
    let all = t.all();
    assert!(t.stats.records == 0 && all.bytes / all.records > 4);
    t.taken(105, 4096, 30);
    let bytes = 4096 + 105 * (all.bytes / all.records);
    assert_eq!(t.all().demand, Demand { bytes, late_ns: 80 });
    // A trace without a packet, behind others.
    t.losses_until(&Counters { discarded_full: 10, ..Counters::default() }, NOW);
    assert_eq!(full(&t), (Some((800, NOW)), Some((200, NOW))));
}

#[test]
fn stream_that_goes_on_says_nothing_of_when_was_discarded_what_is_counted_already() {
    let mut t = track();
    t.go_on(5, &Counters { discarded_full: 7, ..Counters::default() });
    lossy(&mut t, info(0, 1200, 100, 200), 7, 7, 0);
    assert_eq!(t.stats.times.of(DiscardReason::Full), None);
    lossy(&mut t, info(4096, 1200, 300, 400), 8, 8, 0);
    assert_eq!((t.counted(8), t.stats.times.of(DiscardReason::Full)), (3, Some((200, 400))));
}

#[test]
fn demand_is_what_a_buffer_was_full_of_until_all_was_taken_in_time() {
    let mut t = track();
    (t.stats.records, t.stats.bytes) = (100, 2_000);
    t.taken(0, 4096, 7);
    assert_eq!(t.stats.demand, Demand::default());
    // Ten records of 20 bytes, then thirty more before it has recovered.
    t.taken(10, 4096, 50);
    assert_eq!(t.stats.demand, Demand { bytes: 4096 + 200, late_ns: 50 });
    t.taken(40, 4096, 60);
    assert_eq!(t.stats.demand, Demand { bytes: 4096 + 800, late_ns: 110 });
    t.taken(40, 4096, 70);
    // A smaller one is no news, and a lie stops at the largest number.
    t.taken(41, 4096, 9);
    assert_eq!(t.stats.demand, Demand { bytes: 4096 + 800, late_ns: 110 });
    t.taken(u64::MAX, 4096, 1);
    assert_eq!(t.stats.demand.bytes, u64::MAX);
}
