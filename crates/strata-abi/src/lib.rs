//! Rust mirror of the layouts in `abi/include`: bytes that cross a boundary between programs.
//!
//! The C headers are the source, and say what each field means, who writes it and in which order.
//! `tests/golden.rs` compares every offset, size and constant here with `abi/golden/`, which
//! `make test` compares with the headers.
#![no_std]

pub mod count;
pub mod filter;
pub mod kernel;
pub mod loaded;
pub mod ring;
pub mod user;
