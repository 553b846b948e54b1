//! Events and spans of `tracing` in the layer of Strata. Says how many records they make.
//!
//! `layered bench` prints what an event costs.

use std::time::Instant;

use tracing::{debug, error, info, info_span, instrument, trace, warn};
use tracing_subscriber::prelude::*;

#[instrument]
fn sell(number: u32, customer: &str) {
    info!(number, customer, price = 1.5, paid = true, "sold");
    if number % 2 == 1 {
        warn!(number, "odd");
    }
}

/// A span of the same name, with other fields.
fn sell_all() {
    let span = info_span!("sell", items = 3u64);
    let _entered = span.enter();
    debug!(left = -1, "inside");
}

fn bench() {
    const EVENTS: u32 = 20_000;
    let round = |_| {
        let begin = Instant::now();
        for number in 0..u64::from(EVENTS) {
            info!(number = std::hint::black_box(number), other = number);
        }
        begin.elapsed().as_nanos() as f64 / f64::from(EVENTS)
    };
    let lowest = (0..20).map(round).fold(f64::INFINITY, f64::min);
    println!("ns an event of two numbers, lowest: {lowest:.1}");
}

fn main() {
    tracing_subscriber::registry().with(strata_tracing::layer()).init();
    if std::env::args().nth(1).as_deref() == Some("bench") {
        bench();
        return;
    }
    let threads: Vec<_> = (0..2)
        .map(|thread| {
            std::thread::spawn(move || {
                let parent = info_span!("thread", thread);
                let _entered = parent.enter();
                (0..100).for_each(|number| sell(number, "Ada"));
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a thread that sells");
    }
    sell_all();
    error!(name: "closing", "the shop closes with {} left", 0);
    trace!(target: "elsewhere::deep", answer = 42);
    // Each thread: its span, 100 spans and events, 50 warnings; then a span with one event, and two events.
    println!("{} records", 2 * (2 + 100 * 3 + 50) + 2 + 1 + 2);
}
