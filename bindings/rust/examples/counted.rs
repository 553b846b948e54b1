//! Events and spans from four threads, and classes made at run time. Says how many were recorded: "N events, evaluated E".
//!
//! `counted bench` prints what an event costs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use strata_events::{event, span, Class, FieldType, Level, Provider, Words};

static EVENTS: AtomicU64 = AtomicU64::new(0);
static EVALUATED: AtomicU64 = AtomicU64::new(0);

fn evaluated(number: u32) -> u32 {
    EVALUATED.fetch_add(1, Ordering::Relaxed);
    number
}

fn work(thread: u32, number: u32) {
    let _span = span!("rust", "work", Level::Info, thread = thread);
    let text = format!("{thread}/{number}");
    event!("rust", "step", Level::Debug, number = evaluated(number), text = text.as_str());
    EVENTS.fetch_add(3, Ordering::Relaxed);
    if number % 2 == 0 {
        return;
    }
    event!("rust", "odd", Level::Notice, number = number);
    EVENTS.fetch_add(1, Ordering::Relaxed);
}

fn values() {
    let array = [i16::MIN, 0, i16::MAX];
    event!(
        "rust",
        "values",
        Level::Warning,
        least = i8::MIN,
        most = u64::MAX,
        half = 0.5f32,
        third = 1.0 / 3.0,
        yes = true,
        text = "é\"",
        owned = &String::from("owned"),
        array = array,
        slice = &array[1..],
        none = "",
    );
    event!("rust", "empty", Level::Emerg);
    EVENTS.fetch_add(2, Ordering::Relaxed);
}

fn at_run_time() -> Result<(), strata_events::Error> {
    let provider = Provider::new("rust")?;
    for name in ["one", "two"] {
        let fields = [("number", FieldType::I64), ("text", FieldType::TEXT)];
        let class = Class { name, level: Level::Info, fields: &fields, place: ("", 0) };
        let event = provider.event(&class)?;
        if event.is_on() {
            let mut words = Words::new();
            words.push_scalar(-1i64);
            words.push(name);
            event.record(&words);
        }
        EVENTS.fetch_add(1, Ordering::Relaxed);
    }
    let bad = Class { name: "bad\n", level: Level::Info, fields: &[], place: ("", 0) };
    let refused = provider.event(&bad).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("control character"), "{refused}");
    let class = Class { name: "job", level: Level::Info, fields: &[], place: ("", 0) };
    let span = provider.span(&class, true)?;
    let key = span.new_key();
    if span.begin_key(key, &Words::new()) {
        std::thread::spawn(move || span.end_key(key)).join().expect("a thread that ends a span");
    }
    EVENTS.fetch_add(2, Ordering::Relaxed);
    Ok(())
}

fn bench() {
    const ROUNDS: u32 = 20;
    const EVENTS: u32 = 20_000;
    let time = |each: fn(u64)| {
        let round = |_| {
            let begin = Instant::now();
            for number in 0..u64::from(EVENTS) {
                each(std::hint::black_box(number));
            }
            begin.elapsed().as_nanos() as f64 / f64::from(EVENTS)
        };
        (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
    };
    let empty = time(|_| ());
    let number = time(|n| event!("bench", "number", Level::Info, a = n));
    let pair = time(|n| event!("bench", "pair", Level::Info, a = n, b = n));
    let text = time(|n| {
        event!("bench", "text", Level::Info, a = n, text = "thirty-one characters and more.")
    });
    println!("ns an event, lowest: empty {empty:.2}, u64 {number:.2}, two u64 {pair:.2}, u64 and text {text:.2}");
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("bench") {
        bench();
        return;
    }
    if let Err(error) = strata_events::availability() {
        println!("{error}");
    }
    let threads: Vec<_> = (0..4)
        .map(|thread| std::thread::spawn(move || (0..500).for_each(|number| work(thread, number))))
        .collect();
    for thread in threads {
        thread.join().expect("a thread that works");
    }
    values();
    if strata_events::availability().is_ok() {
        at_run_time().expect("classes made at run time");
    }
    println!(
        "{} events, evaluated {}",
        EVENTS.load(Ordering::Relaxed),
        EVALUATED.load(Ordering::Relaxed)
    );
}
