//! All tests of the crate from outside, as one program: to link one for each file takes longer than to run them.
//! Not with them are those that have an allocator of their own.

mod context;
mod cut;
mod decode;
mod fields;
mod golden;
mod random;
mod read;
mod read_damage;
mod read_support;
mod streams;
mod support;
mod tsdl;
mod tsdl_babeltrace2;
mod walk;
