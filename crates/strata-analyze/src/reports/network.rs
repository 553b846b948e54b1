//! The report on connections: who is connected to whom, what was sent and received, how long it took to connect,
//! what had to be sent again, and packets that the kernel has dropped.
//!
//! ```text
//! inet_sock_set_state ──▶ a connection begins, is established, ends      ┐
//! sock_send_length, sock_recv_length ──▶ its bytes, and whose it is      ├─ by the socket's address in the kernel
//! tcp_retransmit_skb, tcp_receive_reset ──▶ sent again, reset            ┘
//! tcp_retransmit_synack, tcp_send_reset, kfree_skb ──▶ sums of the whole machine
//! ```
//!
//! The kernel reuses the memory of a socket, so a connection is known from the record with which it begins until
//! another one begins at the same address: records may still follow its end. When it is replaced it is added to
//! the row that it belongs to, so that a trace of many short connections needs memory for those of a time only.
//!
//! Whose a connection is: of the one that connects, the thread that ran when it began. What is accepted begins in
//! an interrupt, in whatever thread that hits. It belongs to whom the listening socket belongs, if the trace has
//! its begin and no other process listens at this port; else to the first thread that sends, receives or closes.
//!
//! What became of a connection ([`Fate`]) follows from the states that it leaves: a connection that leaves
//! `SYN_SENT` without having been established was refused (a reset came) or unanswered, and which end closed
//! first is the difference between `FIN_WAIT1` and `CLOSE_WAIT`.
//!
//! [`NetworkCounter`] is an [`Observer`] of one pass; it asks for records only, since it needs no states of
//! threads. Its tables are bounded (`CONNECTIONS_MAX`, `ROWS_MAX`), and what had no room is counted in the
//! report.
//!
//! Source: `include/trace/events/{sock,tcp,skb}.h` of Linux; the states are those of `include/net/tcp_states.h`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use strata_ctf::read::{Event, EventClass, FieldRef, Scope, TimeRange};
use strata_timeline::{kernel_name, Observer, ThreadId, World};

use super::longest::{Longest, LongestLimit};
use super::program_groups::{Common, Programs};
use strata_report::{Label, Times};

/// The most connections that are tracked at one time; each takes some 200 bytes.
const CONNECTIONS_MAX: usize = 1 << 16;
/// The most rows of the report while the trace is read; each takes some 2 KiB.
const ROWS_MAX: usize = 1 << 15;
/// The most reasons for dropped packets; the kernel has some 130.
const REASONS_MAX: usize = 1 << 10;

/// The states of a TCP socket.
mod state {
    pub const ESTABLISHED: i64 = 1;
    pub const SYN_SENT: i64 = 2;
    pub const SYN_RECV: i64 = 3;
    pub const FIN_WAIT1: i64 = 4;
    pub const FIN_WAIT2: i64 = 5;
    pub const CLOSE: i64 = 7;
    pub const CLOSE_WAIT: i64 = 8;
    pub const LAST_ACK: i64 = 9;
    pub const LISTEN: i64 = 10;
    pub const CLOSING: i64 = 11;
}

const AF_INET: i64 = 2;
const AF_INET6: i64 = 10;
const IPPROTO_TCP: i64 = 6;
/// A flag of recv(): the data stays, and is received again.
const MSG_PEEK: i64 = 2;

/// The choice of what one row of the report stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A row has all connections of a process with one peer: those to an address and port, or those accepted at a port
    /// from an address.
    #[default]
    Peer,
    /// A row has one connection.
    Connection,
    /// A row has all connections of a process.
    Process,
    /// A row has all connections of all processes that have this in common.
    Together(Common),
}

/// The role of this end of a connection when the connection was established.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// This end has called connect().
    Connects,
    /// This end has called accept().
    Accepts,
    /// It is not known, because the connection existed before the trace began.
    #[default]
    Unknown,
}

impl Role {
    /// Returns the role's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Connects => "connects",
            Role::Accepts => "accepts",
            Role::Unknown => "unknown",
        }
    }
}

/// The state of a connection at the end of the trace, or the way in which it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The connection is established at the end of the trace.
    #[default]
    Open,
    /// The connection is not yet established at the end of the trace.
    Connecting,
    /// This end has closed the connection first.
    ClosedHere,
    /// The other end has closed the connection first.
    ClosedThere,
    /// The other end has reset the connection.
    Reset,
    /// This end has reset the connection, or has given it up.
    Aborted,
    /// The other end has answered connect() with a reset: no program listens there.
    Refused,
    /// The other end has not answered connect().
    Unanswered,
}

impl Fate {
    /// Returns the fate's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fate::Open => "open",
            Fate::Connecting => "connecting",
            Fate::ClosedHere => "closed",
            Fate::ClosedThere => "closed by peer",
            Fate::Reset => "reset by peer",
            Fate::Aborted => "aborted",
            Fate::Refused => "refused",
            Fate::Unanswered => "unanswered",
        }
    }
}

/// Counts and sums over several connections.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// The number of connections.
    pub connections: u64,
    /// Connections that were open or not yet established at the end of the trace.
    pub open: u64,
    /// Connections that connect() did not establish: refused or unanswered.
    pub failed: u64,
    /// Connections that one of both ends has reset.
    pub resets: u64,
    /// Bytes that the program has handed to the socket.
    pub sent: u64,
    /// Bytes that the program has got from the socket.
    pub received: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// The times from connect() to the peer's answer, of connections that were established.
    pub connect: Times,
    /// The times from the begin to the end, of connections whose begin and end are both in the trace.
    pub lasted: Times,
}

impl Sums {
    fn merge(&mut self, other: &Sums) {
        self.connections += other.connections;
        self.open += other.open;
        self.failed += other.failed;
        self.resets += other.resets;
        self.sent = self.sent.saturating_add(other.sent);
        self.received = self.received.saturating_add(other.received);
        self.retransmits += other.retransmits;
        self.connect.merge(&other.connect);
        self.lasted.merge(&other.lasted);
    }
}

/// A row: one connection, or several with something in common.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The process; empty if the trace does not say whose the connection is.
    pub label: Label,
    /// The role of this end of the connections; `None` if rows are by process.
    pub role: Option<Role>,
    /// The other end: its address, and its port, if the port belongs to a service and was not chosen for one
    /// connection.
    pub peer: Option<Peer>,
    /// The address of this end, for rows of one connection.
    pub local: Option<SocketAddr>,
    /// The fate of the connection, for rows of one connection.
    pub fate: Option<Fate>,
    /// The time at which the connection began \[ns since 1970\], for rows of one connection.
    pub begin: Option<i64>,
    pub sums: Sums,
}

/// The other end of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    /// An address and a port.
    Address(SocketAddr),
    /// Any port of this address, for connections that were made to this port of this end.
    AtPort(IpAddr, u16),
}

/// One of the connections that took longest to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowConnect {
    /// The thread that called connect().
    pub label: Label,
    /// The other end of the connection.
    pub peer: Option<SocketAddr>,
    /// The time of connect() \[ns since 1970\].
    pub begin: i64,
    /// The time until the answer, or until the kernel gave up \[ns\].
    pub nanos: u64,
    /// The result: [`Fate::Open`] if the connection was established.
    pub fate: Fate,
}

/// Packets that the kernel has dropped for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drops {
    /// The name of the machine, if the traces are of several.
    pub machine: Option<String>,
    /// The reason as the kernel names it, or its number; empty if the kernel says none (before Linux 5.17).
    pub reason: String,
    pub count: u64,
    /// The time of the first of these dropped packets \[ns since 1970\].
    pub first: i64,
    /// The time of the last of these dropped packets \[ns since 1970\].
    pub last: i64,
}

#[derive(Clone, Debug, Default)]
pub struct NetworkReport {
    /// The rows, by falling number of bytes, then by falling number of connections.
    pub rows: Vec<Row>,
    /// The sum of all rows.
    pub all: Sums,
    /// The connections that took longest to connect, by falling time.
    pub slowest: Vec<SlowConnect>,
    /// Dropped packets of the machine, by falling number.
    pub drops: Vec<Drops>,
    /// The number of answers (SYN-ACK) to other machines' connect() that were sent again.
    pub synack_retransmits: u64,
    /// The number of resets that were sent, for connections or for packets that belong to none.
    pub resets_sent: u64,
    /// Connections for which there was no room.
    pub left_out: u64,
    /// True if a record of a connection's state was in the traces.
    pub has_states: bool,
    /// True if a record of what a socket sends or receives was in the traces.
    pub has_bytes: bool,
}

/// A connection: its two ends and its begin, as far as they are known from records.
#[derive(Clone, Debug, Default)]
struct Connection {
    /// The process.
    who: Option<ThreadId>,
    /// The thread that has called connect().
    caller: Option<ThreadId>,
    role: Role,
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    /// The times of the state's changes \[ns since 1970\].
    began: Option<i64>,
    established: Option<i64>,
    ended: Option<i64>,
    fate: Fate,
    is_reset: bool,
    /// True if a record of the connection was in the requested time range and selection.
    is_wanted: bool,
    sent: u64,
    received: u64,
    retransmits: u64,
    /// The time from connect() to the answer \[ns\], if the answer is in the requested time range.
    connect: Option<u64>,
    /// The time from the connection's begin to its end \[ns\], if the end is in the requested time range.
    lasted: Option<u64>,
}

impl Connection {
    fn sums(&self) -> Sums {
        let mut sums = Sums {
            connections: 1,
            open: u64::from(self.ended.is_none()),
            failed: u64::from(matches!(self.fate, Fate::Refused | Fate::Unanswered)),
            resets: u64::from(matches!(self.fate, Fate::Reset | Fate::Aborted)),
            sent: self.sent,
            received: self.received,
            retransmits: self.retransmits,
            ..Sums::default()
        };
        if let Some(nanos) = self.connect {
            sums.connect.add(nanos);
        }
        if let Some(nanos) = self.lasted {
            sums.lasted.add(nanos);
        }
        sums
    }
}

/// The key of a row: the process and the peer, or one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RowKey {
    who: Option<ThreadId>,
    role: Role,
    peer: Option<Peer>,
    /// The number of the connection; 0 for rows of several connections.
    one: u64,
}

/// The kinds of event records that the report uses.
#[derive(Clone, Debug)]
enum NetworkEvent {
    Nothing,
    State {
        socket: FieldRef,
        old: FieldRef,
        new: FieldRef,
        protocol: Option<FieldRef>,
        ends: Box<Ends>,
    },
    Bytes {
        socket: FieldRef,
        family: FieldRef,
        protocol: FieldRef,
        bytes: FieldRef,
        flags: Option<FieldRef>,
        sends: bool,
    },
    Retransmit {
        socket: FieldRef,
    },
    RetransmitSynack,
    ResetReceived {
        socket: FieldRef,
    },
    ResetSent,
    Drop {
        reason: Option<FieldRef>,
    },
}

/// The fields with the addresses of a connection.
#[derive(Clone, Debug)]
struct Ends {
    family: FieldRef,
    ports: [FieldRef; 2],
    v4: [Vec<FieldRef>; 2],
    v6: [Vec<FieldRef>; 2],
}

impl Ends {
    fn of(class: &EventClass) -> Option<Ends> {
        let find = |name: &str| class.find_in(Scope::Payload, name);
        let array = |name: &str, length: usize| -> Option<Vec<FieldRef>> {
            (0..length).map(|at| find(&format!("{name}[{at}]"))).collect()
        };
        Some(Ends {
            family: find("family")?,
            ports: [find("sport")?, find("dport")?],
            v4: [array("saddr", 4)?, array("daddr", 4)?],
            v6: [array("saddr_v6", 16)?, array("daddr_v6", 16)?],
        })
    }

    /// Returns the local and the remote address of a record.
    fn read(&self, event: &Event<'_>) -> Option<[SocketAddr; 2]> {
        let family = event.integer(&self.family)?;
        let end = |at: usize| -> Option<SocketAddr> {
            let port = u16::try_from(event.integer(self.ports.get(at)?)?).ok()?;
            let ip = match family {
                AF_INET => IpAddr::V4(Ipv4Addr::from(bytes::<4>(event, self.v4.get(at)?)?)),
                AF_INET6 => {
                    // A socket for both, by the address that people write.
                    IpAddr::V6(Ipv6Addr::from(bytes::<16>(event, self.v6.get(at)?)?)).to_canonical()
                }
                _ => return None,
            };
            Some(SocketAddr::new(ip, port))
        };
        Some([end(0)?, end(1)?])
    }
}

fn bytes<const LENGTH: usize>(event: &Event<'_>, fields: &[FieldRef]) -> Option<[u8; LENGTH]> {
    let mut all = [0; LENGTH];
    for (to, field) in all.iter_mut().zip(fields) {
        *to = u8::try_from(event.integer(field)? & 0xff).ok()?;
    }
    Some(all)
}

impl NetworkEvent {
    fn of(class: &EventClass) -> NetworkEvent {
        NetworkEvent::known(class).unwrap_or(NetworkEvent::Nothing)
    }

    fn known(class: &EventClass) -> Option<NetworkEvent> {
        let find = |name: &str| class.find_in(Scope::Payload, name);
        Some(match kernel_name(class.name()) {
            "inet_sock_set_state" => NetworkEvent::State {
                socket: find("skaddr")?,
                old: find("oldstate")?,
                new: find("newstate")?,
                protocol: find("protocol"),
                ends: Box::new(Ends::of(class)?),
            },
            name @ ("sock_send_length" | "sock_recv_length") => NetworkEvent::Bytes {
                socket: find("sk")?,
                family: find("family")?,
                protocol: find("protocol")?,
                bytes: find("ret")?,
                flags: find("flags"),
                sends: name == "sock_send_length",
            },
            "tcp_retransmit_skb" => NetworkEvent::Retransmit { socket: find("skaddr")? },
            "tcp_retransmit_synack" => NetworkEvent::RetransmitSynack,
            "tcp_receive_reset" => NetworkEvent::ResetReceived { socket: find("skaddr")? },
            "tcp_send_reset" => NetworkEvent::ResetSent,
            "kfree_skb" => NetworkEvent::Drop { reason: find("reason") },
            _ => return None,
        })
    }
}

/// Returns true if records of this class are about connections or packets.
#[must_use]
pub fn is_of_network(class: &str) -> bool {
    matches!(
        kernel_name(class),
        "inet_sock_set_state" | "sock_send_length" | "sock_recv_length" | "tcp_retransmit_skb"
    )
}

/// The listener at a port: one process, or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listener {
    One(ThreadId),
    Several,
}

/// Counts connections and what they send.
#[derive(Debug)]
pub struct NetworkCounter {
    range: TimeRange,
    by: By,
    kinds: Vec<Option<NetworkEvent>>,
    /// The connections by their sockets' machine and address in its kernel.
    known: HashMap<(u8, u64), Connection>,
    /// The listeners, by machine and port.
    listeners: HashMap<(u8, u16), Listener>,
    rows: HashMap<RowKey, (Connection, Sums)>,
    slowest: Longest<(Option<ThreadId>, Option<SocketAddr>, Fate)>,
    drops: HashMap<(u8, i64), Drops>,
    report: NetworkReport,
    /// The number of the next connection that has a row of its own.
    next: u64,
}

impl NetworkCounter {
    /// Creates a counter for connections within `range`, with rows `by` this unit. It keeps the `slowest` slowest
    /// calls of connect().
    #[must_use]
    pub fn new(range: TimeRange, by: By, slowest: impl Into<LongestLimit>) -> NetworkCounter {
        NetworkCounter {
            range,
            by,
            kinds: Vec::new(),
            known: HashMap::new(),
            listeners: HashMap::new(),
            rows: HashMap::new(),
            slowest: Longest::new(slowest.into()),
            drops: HashMap::new(),
            report: NetworkReport::default(),
            next: 1,
        }
    }

    fn apply(
        &mut self,
        world: &World,
        event: &Event<'_>,
        who: Option<ThreadId>,
        selected: bool,
        kind: &NetworkEvent,
    ) {
        let Some(time) = event.time() else { return };
        let machine = world.told.machine;
        let is_there = self.range.contains(time) && selected;
        let process = who.map(|who| world.process_of(who));
        let address = |field: &FieldRef| event.integer(field).map(|address| address as u64);
        match kind {
            NetworkEvent::Nothing => {}
            NetworkEvent::State { socket, old, new, protocol, ends } => {
                self.report.has_states = true;
                // SCTP has states by the same numbers, and MPTCP one more socket over those of TCP.
                let protocol = protocol.as_ref().and_then(|protocol| event.integer(protocol));
                if protocol.is_some_and(|protocol| protocol != IPPROTO_TCP) {
                    return;
                }
                let (Some(socket), Some(old), Some(new)) =
                    (address(socket), event.integer(old), event.integer(new))
                else {
                    return;
                };
                let ends = ends.read(event);
                let change = Change { old, new, time, ends, thread: who, process, is_there };
                self.change(world, (machine, socket), &change);
            }
            NetworkEvent::Bytes { socket, family, protocol, bytes, flags, sends } => {
                self.report.has_bytes = true;
                let family = event.integer(family).unwrap_or(0);
                let is_peek = flags
                    .as_ref()
                    .and_then(|flags| event.integer(flags))
                    .is_some_and(|flags| flags & MSG_PEEK != 0);
                if ![AF_INET, AF_INET6].contains(&family)
                    || event.integer(protocol) != Some(IPPROTO_TCP)
                    || is_peek && !sends
                {
                    return;
                }
                let Some(socket) = address(socket) else { return };
                let bytes = event.integer(bytes).and_then(|bytes| u64::try_from(bytes).ok());
                let Some(of) = self.connection((machine, socket)) else { return };
                of.who = of.who.or(process);
                if is_there {
                    of.is_wanted = true;
                    let sum = if *sends { &mut of.sent } else { &mut of.received };
                    *sum = sum.saturating_add(bytes.unwrap_or(0));
                }
            }
            NetworkEvent::Retransmit { socket } => {
                let Some(socket) = address(socket) else { return };
                let Some(of) = self.connection((machine, socket)) else { return };
                if is_there {
                    of.is_wanted = true;
                    of.retransmits += 1;
                }
            }
            NetworkEvent::ResetReceived { socket } => {
                let Some(socket) = address(socket) else { return };
                let Some(of) = self.connection((machine, socket)) else { return };
                of.is_reset = true;
                of.is_wanted |= is_there;
            }
            NetworkEvent::RetransmitSynack => {
                self.report.synack_retransmits += u64::from(is_there);
            }
            NetworkEvent::ResetSent => self.report.resets_sent += u64::from(is_there),
            NetworkEvent::Drop { reason } if is_there => {
                self.drop_packet(world, event, time, reason.as_ref());
            }
            NetworkEvent::Drop { .. } => {}
        }
    }

    /// Returns the connection of a socket, and adds the connection if it was not known; `None` if there is no room
    /// for it.
    fn connection(&mut self, key: (u8, u64)) -> Option<&mut Connection> {
        if self.known.len() >= CONNECTIONS_MAX && !self.known.contains_key(&key) {
            self.report.left_out += 1;
            return None;
        }
        Some(self.known.entry(key).or_default())
    }

    fn drop_packet(
        &mut self,
        world: &World,
        event: &Event<'_>,
        time: i64,
        reason: Option<&FieldRef>,
    ) {
        let machine = world.told.machine;
        let number = reason.and_then(|reason| event.integer(reason));
        let key = (machine, number.unwrap_or(-1));
        if self.drops.len() >= REASONS_MAX && !self.drops.contains_key(&key) {
            return;
        }
        let drops = self.drops.entry(key).or_insert_with(|| {
            let label = reason.zip(number).and_then(|(reason, number)| {
                reason.info().labels_of(number.into()).next().map(str::to_owned)
            });
            let text = || number.map(|number| number.to_string()).unwrap_or_default();
            let reason = label.unwrap_or_else(text);
            Drops {
                machine: machine_name(world, machine),
                reason,
                count: 0,
                first: time,
                last: time,
            }
        });
        drops.count += 1;
        drops.last = time;
    }

    /// Updates a connection by a change of its socket's state.
    fn change(&mut self, world: &World, key: (u8, u64), change: &Change) {
        let Change { old, new, time, ends, process, is_there, .. } = *change;
        let port = ends.map(|[local, _]| local.port());
        // A socket that listens is not a connection.
        if let (true, Some(port)) = (old == state::LISTEN && new == state::CLOSE, port) {
            self.listeners.remove(&(key.0, port));
            return;
        }
        if new == state::LISTEN {
            if let (Some(port), Some(process)) = (port, process) {
                self.listens((key.0, port), process);
            }
            return;
        }
        let begins = match new {
            state::SYN_SENT => Some(Role::Connects),
            state::SYN_RECV => Some(Role::Accepts),
            _ => None,
        };
        if let Some(role) = begins {
            if let Some(before) = self.known.remove(&key) {
                self.finish_one(world, before);
            }
            let listener = port.and_then(|port| self.listeners.get(&(key.0, port)));
            let who = match (role, listener) {
                (Role::Connects, _) => process,
                (_, Some(Listener::One(process))) => Some(*process),
                _ => None,
            };
            let Some(of) = self.connection(key) else { return };
            of.role = role;
            of.who = who;
            of.caller = change.thread.filter(|_| role == Role::Connects);
            of.began = Some(time);
            of.fate = Fate::Connecting;
        }
        let Some(of) = self.connection(key) else { return };
        of.is_wanted |= is_there;
        if let Some([local, peer]) = ends.filter(|[_, peer]| peer.port() != 0) {
            (of.local, of.peer) = (Some(local), Some(peer));
        }
        // Of a connection whose first records are not in the trace, the state that it leaves says which end has closed it.
        if of.fate == Fate::Open {
            of.fate = match old {
                state::FIN_WAIT1 | state::FIN_WAIT2 | state::CLOSING => Fate::ClosedHere,
                state::CLOSE_WAIT | state::LAST_ACK => Fate::ClosedThere,
                _ => Fate::Open,
            };
        }
        let mut tried = None;
        match (old, new) {
            (_, state::ESTABLISHED) => {
                of.established = Some(time);
                of.fate = Fate::Open;
                if old == state::SYN_SENT {
                    of.role = Role::Connects;
                    tried = of.began;
                    of.connect = tried.filter(|_| is_there).map(|from| time.abs_diff(from));
                }
            }
            // Only close() and shutdown() do this, in the process that has the socket.
            (state::ESTABLISHED, state::FIN_WAIT1) => {
                of.fate = Fate::ClosedHere;
                of.who = of.who.or(process);
            }
            (state::ESTABLISHED, state::CLOSE_WAIT) => of.fate = Fate::ClosedThere,
            (state::CLOSE_WAIT, state::LAST_ACK) => of.who = of.who.or(process),
            (state::SYN_SENT, state::CLOSE) => {
                of.fate = if of.is_reset { Fate::Refused } else { Fate::Unanswered };
                tried = of.began;
            }
            (_, state::CLOSE) if of.is_reset => of.fate = Fate::Reset,
            (state::ESTABLISHED | state::SYN_RECV, state::CLOSE) => of.fate = Fate::Aborted,
            _ => {}
        }
        if new == state::CLOSE {
            of.ended = Some(time);
            let began = of.began.filter(|_| of.established.is_some() && is_there);
            of.lasted = began.map(|from| time.abs_diff(from));
        }
        if let Some(from) = tried.filter(|_| is_there) {
            let (caller, peer, fate) = (of.caller, of.peer, of.fate);
            self.slowest.add(time.abs_diff(from), from, caller, (caller, peer, fate));
        }
    }

    fn listens(&mut self, key: (u8, u16), process: ThreadId) {
        let is_full = self.listeners.len() >= CONNECTIONS_MAX;
        match self.listeners.get_mut(&key) {
            Some(Listener::One(known)) if *known == process => {}
            // Another namespace, another address, or the same port for several: who accepts is not known by it.
            Some(listener) => *listener = Listener::Several,
            None if is_full => {}
            None => {
                self.listeners.insert(key, Listener::One(process));
            }
        }
    }

    /// Adds a connection that has ended, or was cut off by the end of the trace, to its row.
    fn finish_one(&mut self, world: &World, of: Connection) {
        if !of.is_wanted {
            return;
        }
        let who = of.who.map(|who| world.process_of(who));
        let (role, peer) = match self.by {
            By::Process | By::Together(_) => (Role::Unknown, None),
            By::Peer => (of.role, peer_of(&of)),
            By::Connection => (of.role, of.peer.map(Peer::Address)),
        };
        let mut one = 0;
        if self.by == By::Connection {
            one = self.next;
            self.next += 1;
        }
        let key = RowKey { who, role, peer, one };
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            self.report.left_out += 1;
            return;
        }
        let sums = of.sums();
        let (_, all) = self.rows.entry(key).or_insert_with(|| (of, Sums::default()));
        all.merge(&sums);
    }

    /// Returns the report, with rows of processes that `is_wanted` accepts.
    #[must_use]
    pub fn finish(mut self, world: &World, is_wanted: &dyn Fn(&Label) -> bool) -> NetworkReport {
        let mut known: Vec<_> = self.known.drain().collect();
        known.sort_unstable_by_key(|(key, _)| *key);
        for (_, of) in known {
            self.finish_one(world, of);
        }
        let mut programs = Programs::default();
        let mut rows: HashMap<RowKey, Row> = HashMap::new();
        for (key, (of, sums)) in self.rows {
            let label = key.who.map(|who| Label::process(world, who)).unwrap_or_default();
            if !is_wanted(&label) {
                continue;
            }
            self.report.all.merge(&sums);
            let who = match self.by {
                By::Together(common) => key.who.map(|who| programs.of(world, common, who)),
                _ => key.who,
            };
            let row = rows.entry(RowKey { who, ..key }).or_default();
            row.sums.merge(&sums);
            row.label = label;
            row.peer = key.peer;
            row.role = matches!(self.by, By::Peer | By::Connection).then_some(key.role);
            if self.by == By::Connection {
                (row.local, row.fate, row.begin) = (of.local, Some(of.fate), of.began);
            }
        }
        if let By::Together(common) = self.by {
            for (key, row) in &mut rows {
                row.label =
                    key.who.map(|who| programs.label(world, common, who)).unwrap_or_default();
            }
        }
        let mut rows: Vec<Row> = rows.into_values().collect();
        rows.sort_by(|one, other| {
            let bytes = |row: &Row| row.sums.sent.saturating_add(row.sums.received);
            let key = |row: &Row| (row.label.clone(), row.peer, row.begin, row.local);
            (bytes(other).cmp(&bytes(one)))
                .then_with(|| other.sums.connections.cmp(&one.sums.connections))
                .then_with(|| key(one).cmp(&key(other)))
        });
        self.report.rows = rows;
        let slowest = self.slowest.finish().map(|(nanos, begin, (thread, peer, fate))| {
            let label = thread.map(|thread| Label::thread(world, thread)).unwrap_or_default();
            SlowConnect { label, peer, begin, nanos, fate }
        });
        self.report.slowest = slowest.filter(|slow| is_wanted(&slow.label)).collect();
        self.report.drops = self.drops.into_values().collect();
        self.report.drops.sort_by(|one, other| {
            let key = |drops: &Drops| (drops.reason.clone(), drops.machine.clone());
            other.count.cmp(&one.count).then_with(|| key(one).cmp(&key(other)))
        });
        self.report
    }
}

/// A change of a socket's state.
#[derive(Clone, Copy, Debug)]
struct Change {
    old: i64,
    new: i64,
    time: i64,
    /// The local and the remote address.
    ends: Option<[SocketAddr; 2]>,
    thread: Option<ThreadId>,
    process: Option<ThreadId>,
    is_there: bool,
}

/// Returns the peer by which connections share a row.
fn peer_of(of: &Connection) -> Option<Peer> {
    let peer = of.peer?;
    match (of.role, of.local) {
        (Role::Accepts, Some(local)) => Some(Peer::AtPort(peer.ip(), local.port())),
        _ => Some(Peer::Address(peer)),
    }
}

fn machine_name(world: &World, machine: u8) -> Option<String> {
    let many = world.machines.len() > 1;
    world.machines.get(usize::from(machine)).filter(|_| many).cloned()
}

impl Observer for NetworkCounter {
    const STATES: bool = false;
    const INTERRUPTS: bool = false;
    const CALLS: bool = false;
    const RECORDS: bool = true;

    fn record(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>, selected: bool) {
        let class = event.class().index();
        if self.kinds.len() <= class {
            self.kinds.resize_with(class + 1, || None);
        }
        let Some(slot) = self.kinds.get_mut(class) else { return };
        let kind = slot.take().unwrap_or_else(|| NetworkEvent::of(event.class()));
        if !matches!(kind, NetworkEvent::Nothing) {
            self.apply(world, event, who, selected, &kind);
        }
        if let Some(slot) = self.kinds.get_mut(class) {
            *slot = Some(kind);
        }
    }
}
