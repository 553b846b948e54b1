//! Exports with several threads, which take turns in writing blocks of records.
//!
//! How a record is exported depends on all records before it. Following these is fast, and writing is slow. So each
//! thread sees all records, and writes its share of the blocks.

use std::io::{self, Write};
use std::panic::resume_unwind;
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::thread;

use super::Summary;

/// The most chunks of a share that wait to be written.
const WAITING: usize = 8;

/// The blocks that an exporter writes: every `of`th block, beginning with block `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShare {
    /// The number of the first block.
    pub number: usize,
    /// The number of shares.
    pub of: usize,
}

impl BlockShare {
    pub const ALL: BlockShare = BlockShare { number: 0, of: 1 };
}

/// The output for a share.
#[derive(Debug)]
pub struct ShareSink {
    /// The channel to which chunks of blocks are sent; `None` ends a block.
    to: SyncSender<Option<Vec<u8>>>,
    /// The channel on which written chunks come back, to be used again.
    free: Receiver<Vec<u8>>,
}

impl ShareSink {
    fn send(&self, chunk: Option<Vec<u8>>) -> io::Result<()> {
        self.to.send(chunk).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for ShareSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut chunk = self.free.try_recv().unwrap_or_default();
        chunk.clear();
        chunk.extend_from_slice(bytes);
        self.send(Some(chunk))?;
        Ok(bytes.len())
    }

    /// Ends the block that is being written.
    fn flush(&mut self) -> io::Result<()> {
        self.send(None)
    }
}

/// The writer's ends of a share's channels: the chunks, and their way back.
type ShareEnd = (Receiver<Option<Vec<u8>>>, Sender<Vec<u8>>);

/// Exports with `shares` threads. Each thread calls `export` with its share and its output, and returns its
/// counts. Returns `None` if any thread was stopped.
///
/// # Errors
/// Returns an error if `out` cannot be written, if `export` fails, or if the shares have different results.
pub fn together(
    out: &mut impl Write,
    shares: usize,
    export: &(dyn Fn(BlockShare, ShareSink) -> io::Result<Option<Summary>> + Sync),
) -> io::Result<Option<Summary>> {
    thread::scope(|scope| {
        let mut ends = Vec::new();
        let mut workers = Vec::new();
        for number in 0..shares {
            let (to, from) = sync_channel(WAITING);
            let (back, free) = channel();
            let share = BlockShare { number, of: shares };
            workers.push(scope.spawn(move || export(share, ShareSink { to, free })));
            ends.push((from, back));
        }
        let written = write(out, &ends);
        // Who still waits to be written is told.
        drop(ends);
        let found =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|it| resume_unwind(it)));
        let found: Vec<io::Result<Option<Summary>>> = found.collect();
        combined(written?, found)
    })
}

/// Writes the blocks of all shares in turn, until a share has no more. Returns the number of bytes.
fn write(out: &mut impl Write, ends: &[ShareEnd]) -> io::Result<u64> {
    let mut bytes = 0u64;
    for (from, back) in ends.iter().cycle() {
        loop {
            match from.recv() {
                Ok(Some(chunk)) => {
                    out.write_all(&chunk)?;
                    bytes = bytes.saturating_add(chunk.len() as u64);
                    // Whoever has ended needs none.
                    let _ = back.send(chunk);
                }
                Ok(None) => break,
                Err(_) => {
                    out.flush()?;
                    return Ok(bytes);
                }
            }
        }
    }
    Ok(bytes)
}

fn combined(bytes: u64, found: Vec<io::Result<Option<Summary>>>) -> io::Result<Option<Summary>> {
    let unlike = || io::Error::other("the traces have changed while they were read");
    if found.iter().any(|one| matches!(one, Ok(None))) {
        return Ok(None);
    }
    let mut all: Option<Summary> = None;
    for one in found {
        let one = match one {
            // The other shares had less.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(unlike()),
            one => one?.map(|summary| Summary { bytes, ..summary }),
        };
        if all.is_some() && all != one {
            return Err(unlike());
        }
        all = one;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(events: u64) -> io::Result<Option<Summary>> {
        Ok(Some(Summary { events, ..Summary::default() }))
    }

    #[test]
    fn blocks_of_all_shares_are_written_in_turn() {
        for shares in [1, 2, 3] {
            let mut out = Vec::new();
            let found = together(&mut out, shares, &|share, mut part| {
                for block in
                    (0..50u8).filter(|&block| usize::from(block) % share.of == share.number)
                {
                    for _ in 0..block {
                        part.write_all(&[block])?;
                    }
                    part.flush()?;
                }
                summary(7)
            });
            let wanted: Vec<u8> = (0..50).flat_map(|block| vec![block; block.into()]).collect();
            assert!(out == wanted, "{shares}: {out:?}");
            let bytes = wanted.len() as u64;
            assert_eq!(found.unwrap(), Some(Summary { events: 7, bytes, ..Summary::default() }));
        }
    }

    #[test]
    fn failure_of_one_share_or_of_the_output_ends_all() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let endless = |_: BlockShare, mut part: ShareSink| loop {
            part.write_all(b"x")?;
            part.flush()?;
        };
        let error = together(&mut Full, 2, &endless).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let error = together(&mut Vec::new(), 2, &|share, part| match share.number {
            0 => endless(share, part),
            _ => Err(io::ErrorKind::OutOfMemory.into()),
        });
        assert_eq!(error.unwrap_err().to_string(), "the traces have changed while they were read");
        let found = together(&mut Vec::new(), 2, &|share, _| summary(share.number as u64));
        assert!(found.unwrap_err().to_string().contains("changed while they were read"));
        let found = together(&mut Vec::new(), 2, &|share, part| match share.number {
            0 => endless(share, part),
            _ => Ok(None),
        });
        assert_eq!(found.unwrap(), None, "stopped");
    }
}
