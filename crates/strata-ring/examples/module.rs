//! Reads what the ring in a kernel module has (`ring/module`): the reader of `tests/vm/module`.
//!
//! `module DEVICE` reads each CPU's stream until its standard input ends, then what is left, and checks every record:
//! the numbers that were tried, their time and their bytes. Prints what it found, in lines of names and numbers.
//! `module DEVICE wrong` maps it with sizes that it does not have, reads a little, and leaves while it is being written.
#![allow(missing_docs)]

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use strata_ring::{stream_layout, Attr, Channel, LossMode, Mapping, Publish, StreamLayout};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// `_IO('S', 1)` of `ring/module/device.c`.
const BARRIER: u64 = (b'S' as u64) << 8 | 1;
/// An id of 5 bits and 27 bits of the time; or 31, and both whole.
const EXTENDED: u32 = 31;
const PAYLOAD: usize = 24;
const NAMES: [&str; 5] = ["", "thread", "timer", "nested", "switch"];

/// Reads the device's status file into a map by name.
fn status(device: &str) -> Result<HashMap<String, u64>> {
    let mut text = String::new();
    File::open(device)?.read_to_string(&mut text)?;
    let line = |line: &str| {
        Some((line.rsplit_once(' ')?.0.to_owned(), line.rsplit_once(' ')?.1.parse().ok()?))
    };
    Ok(text.lines().filter(|line| !line.starts_with("cost ")).filter_map(line).collect())
}

fn attr(said: &HashMap<String, u64>) -> Attr {
    Attr {
        loss_mode: if said["overwrite"] == 0 { LossMode::Discard } else { LossMode::Overwrite },
        publish: Publish::ByCommit,
        subbuf_bytes: said["subbuf_bytes"],
        nr_subbufs: said["nr_subbufs"],
        nr_cpus: said["nr_streams"] as u32,
        start_position: 0,
    }
}

fn open(device: &str) -> Result<Channel> {
    let attr = attr(&status(device)?);
    let file = OpenOptions::new().read(true).write(true).open(device)?;
    let layout = stream_layout(&attr)?;
    let mapping = Mapping::of_streams(file.as_fd(), &layout, layout.stride_bytes)?;
    let mut channel = Channel::adopt(mapping, &attr)?;
    channel.order_by(file.into(), BARRIER);
    Ok(channel)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Records found in the stream of one CPU.
#[derive(Default)]
struct FoundRecords {
    /// Marks each sequence number that was found.
    seen: Vec<bool>,
    records: u64,
    packets: u64,
    by_id: [u64; 5],
    last: [Option<u64>; 5],
    last_time: u64,
}

impl FoundRecords {
    /// Checks the records of a packet; the error says which one is wrong.
    fn packet(&mut self, bytes: &[u8], begin: u64, end: u64, records: u64) -> Result<()> {
        let (mut at, mut time, mut number) = (0, begin, 0);
        if begin < self.last_time {
            return Err(format!(
                "packet begins at {begin}, the last record was at {}",
                self.last_time
            )
            .into());
        }
        while at < bytes.len() {
            let wrong = |what: &str| format!("record {number} at byte {at}: {what}");
            let word = u32_at(bytes, at).ok_or_else(|| wrong("no header"))?;
            let (mut id, mut size) = (word & 31, 4);
            if id == EXTENDED {
                id = u32_at(bytes, at + 1).ok_or_else(|| wrong("no header"))?;
                time = u64_at(bytes, at + 5).ok_or_else(|| wrong("no header"))?;
                size = 13;
            } else {
                time += (u64::from(word >> 5).wrapping_sub(time)) & 0x7ff_ffff;
            }
            let field =
                |i: usize| u64_at(bytes, at + size + 8 * i).ok_or_else(|| wrong("no payload"));
            let (sequence, value, check) = (field(0)?, field(1)?, field(2)?);
            let sum = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ value.wrapping_add(time).wrapping_mul(0xff51_afd7_ed55_8ccd)
                ^ u64::from(id);
            if !(1..=4).contains(&id) || check != sum {
                return Err(
                    wrong(&format!("id {id}, time {time}, sum {check:#x}, not {sum:#x}")).into()
                );
            }
            if time < self.last_time || time > end {
                return Err(
                    wrong(&format!("time {time} is not from {} to {end}", self.last_time)).into()
                );
            }
            // Nested records are in front of those that they interrupt, whose number is lower; of one source none is.
            if self.last[id as usize].is_some_and(|last| sequence <= last) {
                return Err(wrong(&format!(
                    "number {sequence} of {} goes back",
                    NAMES[id as usize]
                ))
                .into());
            }
            self.last[id as usize] = Some(sequence);
            let place = usize::try_from(sequence)?;
            if place >= 1 << 26 {
                return Err(wrong(&format!("number {sequence}")).into());
            }
            if self.seen.len() <= place {
                self.seen.resize(place + 1, false);
            }
            if std::mem::replace(&mut self.seen[place], true) {
                return Err(wrong(&format!("number {sequence} twice")).into());
            }
            self.last_time = time;
            self.by_id[id as usize] += 1;
            self.records += 1;
            number += 1;
            at += (size + PAYLOAD).next_multiple_of(4);
        }
        if number != records {
            return Err(format!("packet of {number} records says {records}").into());
        }
        self.packets += 1;
        Ok(())
    }
}

/// Consumes every packet that the channel holds.
fn drain(
    channel: &mut Channel,
    cpu: u32,
    found: &mut FoundRecords,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let mut stream = channel.stream(cpu)?;
    while let Some(packet) = stream.next()? {
        let info = *packet.info();
        bytes.clear();
        packet.copy_to(info.header_bytes, bytes)?;
        packet.put();
        let end = info.timestamp_end.unwrap_or(u64::MAX);
        found.packet(bytes, info.timestamp_begin, end, info.records.unwrap_or(0))?;
    }
    Ok(())
}

fn read(device: &str) -> Result<bool> {
    let mut channel = open(device)?;
    let cpus = channel.nr_streams();
    let mut found: Vec<FoundRecords> = (0..cpus).map(|_| FoundRecords::default()).collect();
    let (mut bytes, ended) = (Vec::new(), AtomicBool::new(false));
    println!("ready");
    std::thread::scope(|scope| -> Result<()> {
        scope.spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            ended.store(true, Ordering::Release);
        });
        loop {
            let last = ended.load(Ordering::Acquire);
            for cpu in 0..cpus {
                drain(&mut channel, cpu, &mut found[cpu as usize], &mut bytes)?;
            }
            if last {
                return Ok(());
            }
            // Nobody wakes a reader here: it looks again (Lockless alg. 8).
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    })?;
    let mut commands = OpenOptions::new().write(true).open(device)?;
    for cpu in 0..cpus {
        commands.write_all(format!("flush {cpu}").as_bytes())?;
        drain(&mut channel, cpu, &mut found[cpu as usize], &mut bytes)?;
    }
    let (said, mut good) = (status(device)?, true);
    for (cpu, found) in found.iter().enumerate() {
        let counters = channel.stream(cpu as u32)?.counters();
        let tried = said[&format!("tried {cpu}")];
        let missing = tried - found.seen.iter().filter(|seen| **seen).count() as u64;
        let gone = counters.discarded() + counters.overwritten_records;
        good &= tried == counters.written + counters.discarded()
            && found.records == counters.written - counters.overwritten_records
            && missing == gone;
        println!(
            "cpu {cpu} tried {tried} read {} discarded {} nested {} overwritten {} missing {missing} packets {}",
            found.records,
            counters.discarded(),
            counters.discarded_nested,
            counters.overwritten_records,
            found.packets
        );
        for (name, records) in NAMES.iter().zip(found.by_id).skip(1) {
            println!("cpu {cpu} {name} {records}");
        }
    }
    Ok(good)
}

/// Returns true if the device refuses to map with sizes and at places that are not a stream's.
fn wrong(device: &str) -> Result<bool> {
    let said = status(device)?;
    let right = stream_layout(&attr(&said))?;
    let file = OpenOptions::new().read(true).write(true).open(device)?;
    let sizes = [
        StreamLayout { stride_bytes: right.stride_bytes - 4096, ..right },
        StreamLayout { stride_bytes: right.stride_bytes + 4096, ..right },
        StreamLayout { nr_streams: right.nr_streams + 1, ..right },
    ];
    for layout in &sizes {
        if Mapping::of_streams(file.as_fd(), layout, layout.stride_bytes).is_ok() {
            println!("mapped {layout:?}");
            return Ok(false);
        }
    }
    if Mapping::of_streams(file.as_fd(), &right, right.stride_bytes + 4096).is_ok() {
        println!("mapped at other places");
        return Ok(false);
    }
    let mut channel = open(device)?;
    for cpu in 0..channel.nr_streams() {
        // Taken, and never put.
        std::mem::forget(channel.stream(cpu)?.next()?);
    }
    println!("left");
    Ok(true)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, device] => read(device),
        [_, device, "wrong"] => wrong(device),
        _ => Err("usage: module DEVICE [wrong]".into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            println!("does not add up");
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("module: {error}");
            ExitCode::from(2)
        }
    }
}
