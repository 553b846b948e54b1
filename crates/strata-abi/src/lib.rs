//! Rust mirror of the layouts in `abi/include`: bytes that cross a boundary between programs.
//!
//! | module | between |
//! |---|---|
//! | [`ring`] | who writes a ring and who reads it: control, sub-buffers, packet headers |
//! | [`user`], [`loaded`], [`filter`] | an application and the tracer: the shared memory, its objects, compiled filters |
//! | [`kernel`], [`count`] | BPF programs and the tracer: constants of programs, parts of records, tables of counts |
//!
//! The C headers are the source, and say what each field means, who writes it and in which order. A comment here says what
//! Rust code has to know besides. `tests/golden.rs` compares every offset, size and constant here with `abi/golden/`, which
//! `make test` compares with the headers; so a field that is added in one place only fails a test.
//!
//! The crate has no code beyond constants and structures, no `std`, and no dependency: everything else may use it. To read a structure
//! from memory that another program can write, copy its bytes first (`strata_ring`, `strata_user`); nothing here is a reference to
//! shared memory.
//!
//! To change a layout: the header and its version, the structure here, `tools/gate/golden --write`, and the
//! constants' users. A field's offset is never computed twice: use `core::mem::offset_of!` on these structures.
//!
//! ```text
//! offset_of!(user::Session, rules_version)      an offset to read at; then the copy is validated
//! ```
#![no_std]

pub mod count;
pub mod filter;
pub mod kernel;
pub mod loaded;
pub mod ring;
pub mod user;
