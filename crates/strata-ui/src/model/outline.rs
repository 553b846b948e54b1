//! The outline of a trace, from the headers of its packets: how long it is, and where its bytes are. It is there long
//! before the trace is read.

use std::ops::ControlFlow;
use std::sync::{PoisonError, RwLock};

use strata_ctf::read::{Packet, Reader};

/// The most pieces of an outline. Beyond that, neighbouring packets of a stream are joined to one piece.
const PACKETS_MAX: usize = 1 << 15;
/// Number of columns of the outline.
pub const COLUMNS: usize = 1024;
/// Number of packets after which the outline is shown.
const STEP: usize = 512;

/// Consecutive packets of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    stream: usize,
    from: i64,
    to: i64,
    bytes: u64,
}

/// What the headers of packets have said so far.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    pieces: Vec<Piece>,
    /// Number of packets that one piece of the outline stands for.
    per_piece: usize,
    in_last: usize,
    span: Option<(i64, i64)>,
    is_whole: bool,
}

impl Outline {
    fn add(&mut self, packet: &Packet) {
        let (Some(from), Some(to)) = (packet.begin.or(packet.end), packet.end.or(packet.begin))
        else {
            return;
        };
        let (from, to) = (from.min(to), from.max(to));
        let (first, last) = self.span.unwrap_or((from, to));
        self.span = Some((first.min(from), last.max(to)));
        let bytes = packet.packet_bits / 8;
        let per_piece = self.per_piece.max(1);
        match self.pieces.last_mut() {
            Some(last) if last.stream == packet.stream && self.in_last < per_piece => {
                last.join(from, to, bytes);
                self.in_last += 1;
            }
            _ => {
                self.pieces.push(Piece { stream: packet.stream, from, to, bytes });
                self.in_last = 1;
            }
        }
        if self.pieces.len() > PACKETS_MAX {
            self.halve();
        }
    }

    /// Joins each two neighbouring pieces to one, also those of different streams with one packet each.
    fn halve(&mut self) {
        let mut joined: Vec<Piece> = Vec::with_capacity(self.pieces.len() / 2 + 1);
        for pair in self.pieces.chunks(2) {
            let mut pieces = pair.iter();
            let Some(mut first) = pieces.next().copied() else { continue };
            for second in pieces {
                first.join(second.from, second.to, second.bytes);
                first.stream = second.stream;
            }
            joined.push(first);
        }
        self.pieces = joined;
        self.per_piece = self.per_piece.max(1) * 2;
        self.in_last = self.per_piece;
    }

    /// Returns the first and the last time of all packets; `None` if no packet had a time so far.
    #[must_use]
    pub fn span(&self) -> Option<(i64, i64)> {
        self.span
    }

    /// Returns the begin of the first column \[ns since 1970\], the width of each \[ns\], and the bytes of each. The bytes of a
    /// packet are spread over its time.
    #[must_use]
    pub fn columns(&self) -> (i64, i64, Vec<u64>) {
        let Some((first, last)) = self.span else { return (0, 1, Vec::new()) };
        let count = i64::try_from(COLUMNS).unwrap_or(i64::MAX);
        let width = last.saturating_sub(first) / count + 1;
        let mut columns = vec![0.0; COLUMNS];
        let place = |time: i64| time.saturating_sub(first) as f64 / width as f64;
        for piece in &self.pieces {
            let (from, to) = (place(piece.from), place(piece.to).max(place(piece.from) + 1e-6));
            let density = piece.bytes as f64 / (to - from);
            let cells = columns.iter_mut().enumerate().skip(from as usize);
            for (at, column) in cells.take_while(|(at, _)| (*at as f64) < to) {
                let part = to.min(at as f64 + 1.0) - from.max(at as f64);
                *column += density * part.max(0.0);
            }
        }
        (first, width, columns.into_iter().map(|bytes: f64| bytes.round() as u64).collect())
    }
}

impl Piece {
    fn join(&mut self, from: i64, to: i64, bytes: u64) {
        (self.from, self.to) = (self.from.min(from), self.to.max(to));
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// An outline that requests can read while it is built.
#[derive(Debug, Default)]
pub struct SharedOutline(RwLock<Outline>);

impl SharedOutline {
    /// Reads the headers of all packets.
    pub fn read(&self, reader: &Reader) {
        let mut outline = Outline::default();
        let mut count = 0_usize;
        for stream in reader.streams() {
            reader.packets_of(stream, &mut |packet| {
                outline.add(packet);
                count += 1;
                if count % STEP == 0 {
                    self.set(&outline);
                }
                ControlFlow::Continue(())
            });
        }
        outline.is_whole = true;
        self.set(&outline);
    }

    fn set(&self, outline: &Outline) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clone_from(outline);
    }

    /// Returns a copy of the outline as far as it is built.
    #[must_use]
    pub fn look(&self) -> Outline {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the first and the last time so far; `None` if no packet had a time.
    #[must_use]
    pub fn span(&self) -> Option<(i64, i64)> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).span()
    }

    /// Returns true if all headers were read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_whole
    }
}

/// Returns the time of the first packet, from the first packet of each stream; `None` if packets have no times.
#[must_use]
pub fn begin_of(reader: &Reader) -> Option<i64> {
    let mut begin = None;
    for stream in reader.streams() {
        reader.packets_of(stream, &mut |packet| {
            let time = packet.begin.or(packet.end);
            begin = begin.into_iter().chain(time).min();
            match time {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        });
    }
    begin
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_random::Random;

    fn packet(stream: usize, from: i64, to: i64, bytes: u64) -> Packet {
        Packet {
            stream,
            begin: Some(from),
            end: Some(to),
            packet_bits: bytes * 8,
            ..Packet::default()
        }
    }

    #[test]
    fn outline_has_all_bytes_where_they_are_however_many_packets_there_are() {
        let mut random = Random::from_seed(3);
        for count in [1, 2, 1000, 3 * PACKETS_MAX] {
            let (mut outline, mut all) = (Outline::default(), 0);
            for stream in 0..3 {
                let mut time = -1_000_000;
                for _ in 0..count / 3 + 1 {
                    let to = time + random.below(1000_i64);
                    let bytes = random.below(5000);
                    outline.add(&packet(stream, time, to, bytes));
                    all += bytes;
                    time = to;
                }
            }
            assert!(outline.pieces.len() <= PACKETS_MAX);
            let (from, width, columns) = outline.columns();
            let (first, last) = outline.span().unwrap();
            assert!(from == first && first == -1_000_000 && columns.len() == COLUMNS);
            assert!(first + width * i64::try_from(COLUMNS).unwrap() > last);
            let sum: u64 = columns.iter().sum();
            assert!(sum.abs_diff(all) <= COLUMNS as u64, "{sum} bytes, wanted {all}");
        }
    }

    #[test]
    fn bytes_of_a_packet_are_spread_over_its_time_and_absent_where_nothing_was_recorded() {
        let mut outline = Outline::default();
        outline.add(&packet(0, 0, 1024, 1 << 20));
        outline.add(&packet(0, 9 * 1024, 10 * 1024, 1 << 20));
        let (_, width, columns) = outline.columns();
        assert_eq!(width, 11);
        assert!(columns[50] > 10_000 && columns[500] == 0 && columns[900] > 10_000);
    }

    #[test]
    fn packets_without_times_or_with_absurd_ones_are_no_reason_to_fail() {
        let mut outline = Outline::default();
        outline.add(&Packet::default());
        assert_eq!((outline.span(), outline.columns().2.len()), (None, 0));
        outline.add(&packet(0, i64::MAX, i64::MIN, u64::MAX / 8));
        outline.add(&packet(1, i64::MIN, i64::MIN, 1));
        assert_eq!(outline.columns().2.len(), COLUMNS);
    }
}
