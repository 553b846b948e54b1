//! Tests of the report on connections, with records of sockets written by hand.

use strata_ctf::read::TimeRange;
use strata_timeline::{pass, Asked};

use super::told::range;
use crate::hand_tests::V::{self, Text, I64, U32, U64, U8};
use crate::hand_tests::{metadata, Hand, Packets};
use crate::reports::network::{By, Fate, NetworkCounter, NetworkReport, Peer, Role};
use crate::reports::program_groups::Common;

const ENDS: &str = "u8 saddr[4]; u8 daddr[4]; u8 saddr_v6[16]; u8 daddr_v6[16];";

fn events() -> Vec<(&'static str, String)> {
    let bytes = "u64 sk; u32 family; u32 protocol; i64 ret; u32 flags;";
    vec![
        (
            "inet_sock_set_state",
            format!(
                "u64 skaddr; i64 oldstate; i64 newstate; u32 sport; u32 dport; u32 family; u32 protocol; {ENDS}"
            ),
        ),
        ("sock_send_length", bytes.to_owned()),
        ("sock_recv_length", bytes.to_owned()),
        ("tcp_retransmit_skb", "u64 skaddr;".to_owned()),
        ("tcp_receive_reset", "u64 skaddr;".to_owned()),
        ("kfree_skb", "enum : u8 { NO_SOCKET = 3, TCP_RESET = 45 } reason;".to_owned()),
        ("lttng_statedump_process_state", "u32 tid; u32 pid; u32 ppid; string name;".to_owned()),
    ]
}

/// Records of sockets, in the order of their times.
#[derive(Default)]
struct Sockets(Vec<(u8, u64, Vec<V>)>);

impl Sockets {
    fn there(mut self, tid: u32, name: &'static str) -> Self {
        self.0.push((6, 1, vec![U32(tid), U32(tid), U32(tid), U32(1), Text(name)]));
        self
    }

    /// Adds a change of a socket's state, of a connection from 10.0.0.1 to 10.0.0.2 by these ports.
    fn state(self, time: u64, tid: u32, socket: u64, states: [i64; 2], ports: [u32; 2]) -> Self {
        self.state_of(6, time, (tid, socket), states, ports)
    }

    /// Adds a change of a socket's state in this protocol.
    fn state_of(
        mut self,
        protocol: u32,
        time: u64,
        (tid, socket): (u32, u64),
        states: [i64; 2],
        ports: [u32; 2],
    ) -> Self {
        let mut values = vec![U32(tid), U64(socket), I64(states[0]), I64(states[1])];
        values.extend([U32(ports[0]), U32(ports[1]), U32(2), U32(protocol)]);
        values.extend([10, 0, 0, 1, 10, 0, 0, 2].map(U8));
        values.extend([U8(0); 32]);
        self.0.push((0, time, values));
        self
    }

    fn bytes(
        mut self,
        time: u64,
        tid: u32,
        socket: u64,
        sends: bool,
        ret: i64,
        flags: u32,
    ) -> Self {
        let values = vec![U32(tid), U64(socket), U32(2), U32(6), I64(ret), U32(flags)];
        self.0.push((if sends { 1 } else { 2 }, time, values));
        self
    }

    fn again(mut self, time: u64, socket: u64) -> Self {
        self.0.push((3, time, vec![U32(0), U64(socket)]));
        self
    }

    fn reset(mut self, time: u64, socket: u64) -> Self {
        self.0.push((4, time, vec![U32(0), U64(socket)]));
        self
    }

    fn drops(mut self, time: u64, reason: u8) -> Self {
        self.0.push((5, time, vec![U32(0), U8(reason)]));
        self
    }

    fn report(&self, range: TimeRange, by: By) -> NetworkReport {
        let (hand, events) = (Hand::new(), events());
        let events: Vec<_> = events.iter().map(|(name, fields)| (*name, fields.as_str())).collect();
        let text = metadata("domain = \"kernel\"; hostname = \"box\";", "u32 tid;", &events);
        let mut records: Vec<_> =
            self.0.iter().map(|(id, time, values)| (*id, *time, &values[..])).collect();
        records.sort_by_key(|(_, time, _)| *time);
        let hand = hand.trace("k", &text, &[Packets::new(0).packet(&records)]).reader();
        let mut counter = NetworkCounter::new(range, by, 9);
        let asked = Asked { range, selection: None };
        let passed = pass(&hand, &asked, &mut counter, &|_| true, &mut |_| {}).unwrap();
        counter.finish(passed.timeline.world(), &|_| true)
    }
}

/// A client (5) that connects to a port, and the server (7) that listens there, in one kernel.
fn pair() -> Sockets {
    Sockets::default()
        .there(5, "client")
        .there(7, "server")
        .state(10, 7, 0x70, [7, 10], [80, 0])
        .state(100, 5, 0x50, [7, 2], [0, 80])
        .state(160, 5, 0x50, [2, 1], [4000, 80])
        // In an interrupt, so in the client.
        .state(170, 5, 0x71, [10, 3], [80, 4000])
        .state(180, 5, 0x71, [3, 1], [80, 4000])
        .bytes(200, 5, 0x50, true, 30, 0)
        .bytes(210, 7, 0x71, false, 30, 2) // MSG_PEEK
        .bytes(220, 7, 0x71, false, 30, 0)
        .again(250, 0x50)
        .bytes(300, 7, 0x71, true, 500, 0)
        .bytes(310, 7, 0x71, true, -11, 0)
        .state(400, 7, 0x71, [1, 4], [80, 4000])
        .state(410, 0, 0x50, [1, 8], [4000, 80])
        .state(420, 0, 0x71, [4, 7], [80, 4000])
        .bytes(430, 5, 0x50, false, 500, 0)
        .state(500, 5, 0x50, [8, 9], [4000, 80])
        .state(510, 0, 0x50, [9, 7], [4000, 80])
}

#[test]
fn both_ends_of_a_connection_have_their_process_bytes_and_times() {
    let report = pair().report(TimeRange::ALL, By::Connection);
    let [client, server] = report.rows.as_slice() else { panic!("{:?}", report.rows) };
    assert_eq!((client.label.pid, client.role), (Some(5), Some(Role::Connects)));
    assert_eq!((server.label.pid, server.role), (Some(7), Some(Role::Accepts)));
    assert_eq!(client.peer, Some(Peer::Address("10.0.0.2:80".parse().unwrap())));
    assert_eq!(client.local, Some("10.0.0.1:4000".parse().unwrap()));
    assert_eq!((client.fate, server.fate), (Some(Fate::ClosedThere), Some(Fate::ClosedHere)));
    let bytes = |row: &crate::reports::network::Row| (row.sums.sent, row.sums.received);
    assert_eq!((bytes(client), bytes(server)), ((30, 500), (500, 30)));
    assert_eq!((client.sums.retransmits, server.sums.retransmits), (1, 0));
    assert_eq!((client.sums.connect.total, server.sums.connect.count), (60, 0));
    assert_eq!((client.sums.lasted.total, server.sums.lasted.total), (410, 250));
    let [slow] = report.slowest.as_slice() else { panic!("{:?}", report.slowest) };
    assert_eq!((slow.nanos, slow.fate, slow.label.tid), (60, Fate::Open, Some(5)));
    assert_eq!((report.all.connections, report.all.open, report.all.failed), (2, 0, 0));
}

#[test]
fn a_connection_that_fails_was_refused_or_not_answered() {
    let report = Sockets::default()
        .there(5, "client")
        .state(100, 5, 0x50, [7, 2], [0, 81])
        .reset(110, 0x50)
        .state(120, 0, 0x50, [2, 7], [4001, 81])
        // The same socket tries again: another connection.
        .state(200, 5, 0x50, [7, 2], [0, 82])
        .again(900, 0x50)
        .state(1200, 0, 0x50, [2, 7], [4002, 82])
        .report(TimeRange::ALL, By::Peer);
    assert_eq!((report.all.connections, report.all.failed, report.all.retransmits), (2, 2, 1));
    assert_eq!(report.rows.len(), 2);
    let slowest: Vec<_> = report.slowest.iter().map(|slow| (slow.nanos, slow.fate)).collect();
    assert_eq!(slowest, [(1000, Fate::Unanswered), (20, Fate::Refused)]);
}

#[test]
fn an_established_connection_is_reset_by_either_end() {
    let of = |is_there: bool| {
        let sockets = pair().there(5, "client").state(600, 5, 0x51, [7, 2], [0, 80]);
        let sockets = sockets.state(610, 5, 0x51, [2, 1], [4003, 80]);
        let sockets = if is_there { sockets.reset(620, 0x51) } else { sockets };
        let report = sockets.state(630, 5, 0x51, [1, 7], [4003, 80]);
        let report = report.report(TimeRange::ALL, By::Connection);
        (report.rows.last().unwrap().fate, report.all.resets)
    };
    assert_eq!(of(true), (Some(Fate::Reset), 1));
    assert_eq!(of(false), (Some(Fate::Aborted), 1));
}

#[test]
fn a_port_of_several_listeners_does_not_say_whose_a_connection_is() {
    let two = pair().state(600, 6, 0x60, [7, 10], [80, 0]);
    let before =
        two.state(700, 5, 0x72, [10, 3], [80, 5000]).state(710, 5, 0x72, [3, 1], [80, 5000]);
    let report = before.report(TimeRange::ALL, By::Connection);
    let unknown = report.rows.iter().find(|row| row.label.pid.is_none()).unwrap();
    assert_eq!((unknown.role, unknown.fate), (Some(Role::Accepts), Some(Fate::Open)));
    // The first who uses the socket is the one.
    let after = pair()
        .state(600, 6, 0x60, [7, 10], [80, 0])
        .state(700, 5, 0x72, [10, 3], [80, 5000])
        .bytes(720, 7, 0x72, false, 1, 0)
        .report(TimeRange::ALL, By::Process);
    assert!(after.rows.iter().all(|row| row.label.pid.is_some()), "{:?}", after.rows);
}

#[test]
fn a_connection_from_before_is_there_without_a_peer_until_its_state_changes() {
    let sockets = Sockets::default().there(7, "server").bytes(100, 7, 0x71, false, 9, 0);
    let report = sockets.report(TimeRange::ALL, By::Peer);
    let [row] = report.rows.as_slice() else { panic!("{:?}", report.rows) };
    assert_eq!((row.peer, row.role, row.sums.received), (None, Some(Role::Unknown), 9));
    let sockets = Sockets::default().there(7, "server").bytes(100, 7, 0x71, false, 9, 0);
    let report = sockets.state(200, 7, 0x71, [1, 4], [80, 4000]).report(TimeRange::ALL, By::Peer);
    assert_eq!(report.rows[0].peer, Some(Peer::Address("10.0.0.2:4000".parse().unwrap())));
}

#[test]
fn a_connection_from_before_that_closes_was_closed_by_the_end_that_its_state_says() {
    for (states, fate) in [
        (&[[4, 5], [5, 7]][..], Fate::ClosedHere),
        (&[[5, 7]], Fate::ClosedHere),
        (&[[11, 7]], Fate::ClosedHere),
        (&[[9, 7]], Fate::ClosedThere),
        (&[[8, 9]], Fate::ClosedThere),
    ] {
        let sockets = (100..).zip(states).fold(Sockets::default(), |sockets, (time, &states)| {
            sockets.state(time, 7, 0x71, states, [80, 4000])
        });
        let report = sockets.report(TimeRange::ALL, By::Connection);
        let [row] = report.rows.as_slice() else { panic!("{:?}", report.rows) };
        let is_open = states.last().is_some_and(|states| states[1] != 7);
        assert_eq!((row.fate, row.sums.open), (Some(fate), u64::from(is_open)), "{states:?}");
    }
}

#[test]
fn states_of_other_protocols_are_not_connections_of_tcp() {
    let sockets = [132, 262].into_iter().fold(pair(), |sockets, protocol| {
        let of = (5, u64::from(protocol));
        let sockets = sockets.state_of(protocol, 600, of, [7, 2], [0, 80]);
        sockets.state_of(protocol, 610, of, [2, 1], [4003, 80])
    });
    let report = sockets.report(TimeRange::ALL, By::Connection);
    assert_eq!((report.all.connections, report.all.connect.count), (2, 1));
}

#[test]
fn what_is_outside_the_time_asked_for_is_not_counted() {
    let report = pair().drops(205, 3).drops(700, 45).report(range(190, 260), By::Connection);
    assert_eq!((report.all.connections, report.all.sent, report.all.received), (2, 30, 30));
    assert_eq!((report.all.connect.count, report.all.lasted.count), (0, 0));
    let drops: Vec<_> = report.drops.iter().map(|it| (it.reason.as_str(), it.count)).collect();
    assert_eq!(drops, [("NO_SOCKET", 1)]);
    assert_eq!(pair().report(range(600, 700), By::Connection).all.connections, 0);
}

#[test]
fn connections_share_a_row_by_peer_and_by_process() {
    let many = || {
        (0..50u64).fold(pair(), |sockets, at| {
            let (time, port) = (1000 + 100 * at, 5000 + at as u32);
            sockets
                .state(time, 5, 0x50, [7, 2], [0, 80])
                .state(time + 10, 5, 0x50, [2, 1], [port, 80])
                .state(time + 11, 5, 0x71, [10, 3], [80, port])
                .bytes(time + 20, 5, 0x50, true, 2, 0)
                .state(time + 30, 5, 0x50, [1, 4], [port, 80])
                .state(time + 40, 5, 0x50, [4, 7], [port, 80])
        })
    };
    let report = many().report(TimeRange::ALL, By::Peer);
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|row| (row.label.pid, row.sums.connections, row.sums.sent))
        .collect();
    assert_eq!(rows, [(Some(5), 51, 130), (Some(7), 51, 500)]);
    let at_port = Peer::AtPort("10.0.0.2".parse().unwrap(), 80);
    assert_eq!(report.rows[1].peer, Some(at_port));
    assert_eq!(many().report(TimeRange::ALL, By::Together(Common::Name)).rows.len(), 2);
    assert_eq!(many().report(TimeRange::ALL, By::Connection).rows.len(), 102);
}
