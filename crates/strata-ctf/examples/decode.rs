//! Decodes every field of every event record, and sums them up: what `bench/read/run` measures.
//!
//! ```text
//! decode TRACE [THREADS]
//! ```

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Mutex;
use std::{env, error, thread};

use strata_ctf::model::schema::Scope;
use strata_ctf::read::{Event, Events, FieldInfo, Message, Reader, TimeRange, Visit};

/// Size of the slice that a thread takes at once \[byte\]. Slices are not smaller because packets with records on both
/// sides of a slice's end are read twice.
const SLICE_BYTES: u64 = 64 << 20;

/// Something that depends on every field, so that none is left out.
#[derive(Clone, Copy, Debug, Default)]
struct DecodedSum {
    // What changes together is not side by side: as one vector of two numbers, it would be slower.
    events: u64,
    fields: u64,
    /// The sum of all records' times.
    times: u64,
    damage: u64,
    /// The sum of all integer fields' values.
    sum: u64,
}

impl DecodedSum {
    #[inline(always)]
    fn take(&mut self, value: u64) {
        self.fields = self.fields.wrapping_add(1);
        self.sum = self.sum.wrapping_add(value);
    }

    fn add(&mut self, other: DecodedSum) {
        self.events += other.events;
        self.times = self.times.wrapping_add(other.times);
        self.fields += other.fields;
        self.sum = self.sum.wrapping_add(other.sum);
        self.damage += other.damage;
    }

    #[inline(always)]
    fn event(&mut self, event: &Event<'_>) {
        self.events += 1;
        self.times = self.times.wrapping_add(event.time().unwrap_or(0) as u64);
        event.visit(Scope::CommonContext, self);
        event.visit(Scope::SpecificContext, self);
        event.visit(Scope::Payload, self);
    }

    fn all(&mut self, mut events: Events<'_>) {
        let _ = events.run(|message| {
            match message {
                Message::Event(event) => self.event(&event),
                Message::Damage(damage) => {
                    eprintln!("decode: {damage}");
                    self.damage += 1;
                }
                _ => (),
            }
            ControlFlow::<()>::Continue(())
        });
    }
}

impl Visit for DecodedSum {
    #[inline(always)]
    fn unsigned(&mut self, _: &FieldInfo, value: u64) {
        self.take(value);
    }

    #[inline(always)]
    fn signed(&mut self, _: &FieldInfo, value: i64) {
        self.take(value as u64);
    }

    #[inline(always)]
    fn real(&mut self, _: &FieldInfo, value: f64) {
        self.take(value.to_bits());
    }

    #[inline(always)]
    fn text(&mut self, _: &FieldInfo, bytes: &[u8]) {
        self.take(bytes.len() as u64);
    }

    #[inline(always)]
    fn blob(&mut self, _: &FieldInfo, bytes: &[u8]) {
        self.take(bytes.len() as u64);
    }
}

fn decode(path: &str, threads: usize) -> Result<DecodedSum, Box<dyn error::Error>> {
    let reader = Reader::open(&[path])?;
    let mut sum = DecodedSum::default();
    if threads < 2 {
        sum.all(reader.events(TimeRange::ALL));
        return Ok(sum);
    }
    let slices = Mutex::new(reader.slices(TimeRange::ALL, SLICE_BYTES));
    let work = || {
        let mut sum = DecodedSum::default();
        loop {
            let slice = slices.lock().ok().and_then(|mut slices| slices.next());
            match slice {
                Some(slice) => sum.all(reader.events_of(&slice)),
                None => return sum,
            }
        }
    };
    thread::scope(|scope| {
        let others: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for other in others {
            match other.join() {
                Ok(other) => sum.add(other),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    Ok(sum)
}

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("decode: no trace is named. Use: decode TRACE [THREADS]");
        return ExitCode::from(2);
    };
    let threads = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    match decode(&path, threads) {
        Ok(sum) => {
            let all = sum.sum.wrapping_add(sum.times);
            println!("{} events, {} fields, sum {:#x}", sum.events, sum.fields, all);
            ExitCode::from(if sum.damage > 0 { 2 } else { 0 })
        }
        Err(error) => {
            eprintln!("decode: {error}");
            ExitCode::from(2)
        }
    }
}
