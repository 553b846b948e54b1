//! All integration tests of the crate, in one program: to link one for each file takes longer than to run them. Tests
//! with an allocator of their own are not among them.

mod context;
mod cut;
mod decode;
mod fields;
mod golden;
mod packet_records;
mod random;
mod read;
mod read_damage;
mod read_draft;
mod read_overrun;
mod read_support;
mod read_unread;
mod read_unreadable;
mod read_wrapped;
mod streams;
mod support;
mod tsdl;
mod tsdl_babeltrace2;
