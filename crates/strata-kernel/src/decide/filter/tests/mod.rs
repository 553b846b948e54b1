//! A filter's tests against what the filter means, and against the BPF program.

mod bpf;
mod cases;
mod messages;
mod random;
mod world;
