//! Checks the packets of a guest's trace. Readers accept any bytes; these checks refuse packets that would make a trace
//! larger than what arrived, let it go back in time, or name thousands of CPUs.

use std::collections::BTreeMap;
use std::fmt;

use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_model::Uuid;

/// The most CPUs of a guest.
pub const CPUS_MAX: u32 = 4096;
/// The most streams of a trace with more than one packet: those of CPUs, and some without a CPU.
pub const STREAMS_MAX: u32 = CPUS_MAX + 16;

/// Reason why a packet cannot be in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketProblem {
    /// The packet's header names another trace.
    OtherTrace,
    /// The packet carries the number of a CPU beyond the limit.
    Cpu(u32),
    /// The packet claims another stream or CPU than the stream with this number has.
    Stream(u32),
    /// The packet claims another size than it has.
    Size {
        /// Size in the packet's header \[bit\].
        said: u64,
        /// Size of the packet that arrived, header included \[byte\].
        came: u64,
    },
    /// The packet ends before it begins, or begins before the last packet of its stream ends.
    Time,
    /// The packet's sequence number is not greater than that of the last packet of its stream.
    Sequence,
    /// The packet has a smaller count of discarded records than the last one.
    Discarded,
}

impl fmt::Display for PacketProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketProblem::OtherTrace => f.write_str("a packet is of another trace"),
            PacketProblem::Cpu(cpu) => {
                write!(f, "a packet is of CPU {cpu}, at most {} are possible", CPUS_MAX - 1)
            }
            PacketProblem::Stream(stream) => {
                write!(
                    f,
                    "a packet of stream {stream} says that it is of another one, or of a CPU that is not the stream's; \
                     numbers of streams are below {STREAMS_MAX}"
                )
            }
            PacketProblem::Size { said, came } => {
                write!(f, "a packet says that it has {said} bits, and has {came} bytes")
            }
            PacketProblem::Time => f.write_str("the times of a packet go back"),
            PacketProblem::Sequence => f.write_str("a packet came twice, or behind a later one"),
            PacketProblem::Discarded => {
                f.write_str("a packet's count of discarded records goes back")
            }
        }
    }
}

/// State of a stream after its last packet.
#[derive(Clone, Copy, Debug)]
pub struct Last {
    /// Begin of the packet by the guest's clock \[ns\].
    pub begin: u64,
    /// End of the packet by the guest's clock \[ns\].
    pub end: u64,
    pub sequence: u64,
    /// Number of discarded records of the stream until that end.
    pub discarded: u64,
}

/// The states of the streams of one trace, for checking packets that arrive.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    last: BTreeMap<u32, Last>,
    /// Number of streams that have only one packet each.
    others: u64,
    span: Option<(u64, u64)>,
}

impl Streams {
    /// Checks that this packet can be the next one of its stream, in the trace with this UUID; `bytes` of records
    /// arrived with it. Streams of CPUs must have the CPU's number; streams without a CPU must claim CPU 0, as they
    /// always do.
    ///
    /// # Errors
    /// The reason why the packet cannot be in the trace.
    pub fn take(
        &mut self,
        uuid: Uuid,
        stream: u32,
        header: &Header,
        bytes: u64,
    ) -> Result<(), PacketProblem> {
        check(uuid, header, bytes)?;
        let is_of_cpu = header.cpu_id == stream || header.cpu_id == 0;
        if stream >= STREAMS_MAX || header.stream_instance != u64::from(stream) || !is_of_cpu {
            return Err(PacketProblem::Stream(stream));
        }
        if let Some(last) = self.last.get(&stream) {
            if header.timestamp_begin < last.end {
                return Err(PacketProblem::Time);
            }
            if header.sequence <= last.sequence {
                return Err(PacketProblem::Sequence);
            }
            if header.discarded < last.discarded {
                return Err(PacketProblem::Discarded);
            }
        }
        let &Header { timestamp_begin: begin, timestamp_end: end, sequence, discarded, .. } =
            header;
        self.last.insert(stream, Last { begin, end, sequence, discarded });
        self.widen(header);
        Ok(())
    }

    /// Checks that this packet can be a stream by itself, in the trace with this UUID.
    ///
    /// # Errors
    /// The reason why the packet cannot be in the trace.
    pub fn take_other(
        &mut self,
        uuid: Uuid,
        header: &Header,
        bytes: u64,
    ) -> Result<(), PacketProblem> {
        check(uuid, header, bytes)?;
        self.others += 1;
        self.widen(header);
        Ok(())
    }

    /// Sets the state of a stream whose packets are in a file and were checked by another program.
    pub fn restore(&mut self, stream: u32, last: Last) {
        self.last.insert(stream, last);
    }

    /// Returns the number of the last packet of each stream with more than one.
    pub fn lasts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.last.iter().map(|(stream, last)| (*stream, last.sequence))
    }

    fn widen(&mut self, header: &Header) {
        let &Header { timestamp_begin, timestamp_end, .. } = header;
        let span = self.span.get_or_insert((timestamp_begin, timestamp_end));
        *span = (span.0.min(timestamp_begin), span.1.max(timestamp_end));
    }

    /// Corrects the end of the stream's last packet. A packet that was sent while it was being filled may have too late
    /// an end.
    ///
    /// # Errors
    /// [`PacketProblem::Time`] if the stream has no packet, or if the packet begins after this end.
    pub fn set_end(&mut self, stream: u32, end: u64) -> Result<(), PacketProblem> {
        let last = self.last.get_mut(&stream).filter(|last| last.begin <= end);
        last.ok_or(PacketProblem::Time)?.end = end;
        if let Some(span) = &mut self.span {
            span.1 = span.1.max(end);
        }
        Ok(())
    }

    /// Returns the state of the stream after its last packet.
    #[must_use]
    pub fn last(&self, stream: u32) -> Option<Last> {
        self.last.get(&stream).copied()
    }

    /// Returns the begin of the first packet and the end of the last one, by the guest's clock \[ns\].
    #[must_use]
    pub fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    /// Returns the number of streams.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.last.len() as u64 + self.others
    }

    /// Returns the number of discarded records of all streams together. The number of a stream is the count in
    /// its last packet, which is cumulative.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.last.values().fold(0, |sum, last| sum.saturating_add(last.discarded))
    }
}

/// Checks the packet by itself, without the ones before it.
pub(crate) fn check(uuid: Uuid, header: &Header, bytes: u64) -> Result<(), PacketProblem> {
    if header.uuid != uuid {
        return Err(PacketProblem::OtherTrace);
    }
    if header.cpu_id >= CPUS_MAX {
        return Err(PacketProblem::Cpu(header.cpu_id));
    }
    let came = bytes.saturating_add(HEADER_BYTES as u64);
    let content = header.content_bits;
    if content % 8 != 0 || content / 8 != came || header.packet_bits != content {
        return Err(PacketProblem::Size { said: content, came });
    }
    match header.timestamp_begin <= header.timestamp_end {
        true => Ok(()),
        false => Err(PacketProblem::Time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: Uuid = Uuid(*b"0123456789abcdef");

    fn header(sequence: u64, begin: u64, end: u64) -> Header {
        Header {
            uuid: UUID,
            sequence,
            timestamp_begin: begin,
            timestamp_end: end,
            discarded: sequence,
            ..Header::default()
        }
        .with_content_bytes(100)
    }

    #[test]
    fn packets_in_their_order_are_taken() {
        let mut streams = Streams::default();
        for (sequence, begin, end) in [(0, 10, 20), (1, 20, 20), (5, 30, 40)] {
            streams.take(UUID, 0, &header(sequence, begin, end), 100).unwrap();
        }
        let other = Header { cpu_id: 1, stream_instance: 1, ..header(0, 5, 6) };
        streams.take(UUID, 1, &other, 100).unwrap();
        // Of no CPU, which packets call 0: neither its times nor its numbers are that CPU's.
        let behind = Header { stream_instance: 3, ..header(0, 15, 16) };
        streams.take(UUID, 3, &behind, 100).unwrap();
        assert_eq!((streams.span(), streams.count(), streams.discarded()), (Some((5, 40)), 3, 5));
        streams.set_end(0, 35).unwrap();
        streams.take(UUID, 0, &header(6, 36, 40), 100).unwrap();
        streams.set_end(0, 50).unwrap();
        assert_eq!(streams.span(), Some((5, 50)));
    }

    #[test]
    fn malicious_packets_are_refused_and_change_nothing() {
        let mut streams = Streams::default();
        streams.take(UUID, 0, &header(3, 10, 20), 100).unwrap();
        let next = header(4, 20, 30);
        for (bad, bytes, why) in [
            (Header { uuid: Uuid([0; 16]), ..next }, 100, PacketProblem::OtherTrace),
            (Header { cpu_id: CPUS_MAX, ..next }, 100, PacketProblem::Cpu(CPUS_MAX)),
            (next, 99, PacketProblem::Size { said: 184 * 8, came: 183 }),
            (
                Header { packet_bits: u64::MAX, ..next },
                100,
                PacketProblem::Size { said: 184 * 8, came: 184 },
            ),
            (Header { timestamp_begin: 31, ..next }, 100, PacketProblem::Time),
            (Header { timestamp_begin: 19, ..next }, 100, PacketProblem::Time),
            (Header { sequence: 3, ..next }, 100, PacketProblem::Sequence),
            (Header { discarded: 2, ..next }, 100, PacketProblem::Discarded),
        ] {
            assert_eq!(streams.take(UUID, 0, &bad, bytes), Err(why), "{bad:?}");
        }
        let of = |stream: u64, cpu_id| Header { stream_instance: stream, cpu_id, ..next };
        for (stream, bad) in [
            (1, next),
            (0, of(1, 0)),
            (2, of(2, 1)),
            (STREAMS_MAX, of(STREAMS_MAX.into(), 0)),
            (0, of(1 << 32, 0)),
        ] {
            let found = streams.take(UUID, stream, &bad, 100);
            assert_eq!(found, Err(PacketProblem::Stream(stream)), "{bad:?}");
        }
        assert_eq!(streams.set_end(0, 9), Err(PacketProblem::Time));
        assert_eq!(streams.set_end(1, 99), Err(PacketProblem::Time));
        streams.take(UUID, 0, &next, 100).unwrap();
    }
}
