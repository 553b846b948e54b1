//! The mirror and `abi/golden/` say the same, line by line.

use std::fmt::Write;
use std::mem::{align_of, size_of, size_of_val};

use strata_abi::ring;

/// Appends what the golden file says of a struct. Lists each field, as the C program does.
macro_rules! layout {
    ($out:expr, $c_name:literal, $struct:ty, $($field:ident)*) => {{
        let value = <$struct>::default();
        let begin = &value as *const $struct as usize;
        writeln!($out, "struct {} size {} align {}", $c_name, size_of::<$struct>(),
            align_of::<$struct>()).unwrap();
        $(
            let offset = &value.$field as *const _ as usize - begin;
            writeln!($out, "field {}.{} offset {} size {}", $c_name, stringify!($field), offset,
                size_of_val(&value.$field)).unwrap();
        )*
    }};
}

/// Appends the constants of the module `ring`, under their names in C.
macro_rules! constants {
    ($out:expr, $($name:ident)*) => {
        $(writeln!($out, "constant STRATA_ABI_RING_{} {}", stringify!($name), ring::$name).unwrap();)*
    };
}

fn mirror() -> String {
    let mut out = String::new();
    writeln!(out, "version {}", ring::VERSION).unwrap();
    constants!(out, MAGIC PAGE SUBBUF_BYTES_MIN SUBBUF_BYTES_MAX NR_SUBBUFS_MIN NR_SUBBUFS_MAX
        NR_STREAMS_MAX TAIL_BYTES DISCARD OVERWRITE BY_COMMIT BY_POSITION ENTRY_FRAME ENTRY_HELD
        ENTRY_TAG_SHIFT);
    layout!(out, "strata_abi_ring_channel", ring::Channel,
        magic version loss_mode publish nr_streams subbuf_bytes nr_subbufs header_bytes
        stream_stride total_bytes record_align global start_position);
    layout!(out, "strata_abi_ring_stream", ring::Stream,
        write_count records full_timestamp last_timestamp reserved0 discarded_full
        discarded_too_big discarded_nested overwritten_records overwritten_packets cancelled
        discarded_no_stream reserved1 read_count waiting wake_sequence finalized reclaimed_records reclaimed_packets reserved2);
    layout!(out, "strata_abi_ring_subbuf", ring::Subbuf, commit published entry committed);
    layout!(out, "strata_abi_ring_frame", ring::Frame,
        position timestamp_begin timestamp_end content_bytes records records_before discarded
        reserved);
    out
}

#[test]
fn ring_layout_is_that_of_the_golden_file() {
    let golden = include_str!("../../../abi/golden/ring.txt");
    let wanted: Vec<&str> = golden.lines().filter(|line| !line.starts_with('#')).collect();
    let mirror = mirror();
    let found: Vec<&str> = mirror.lines().collect();

    let missing: Vec<_> = wanted.iter().filter(|line| !found.contains(line)).collect();
    let surplus: Vec<_> = found.iter().filter(|line| !wanted.contains(line)).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "crates/strata-abi/src/ring.rs differs from abi/golden/ring.txt.\n\
         Only in the golden file: {missing:#?}\nOnly in the mirror: {surplus:#?}\n\
         The C header is the source: correct the mirror, and list new fields in this test."
    );
    assert_eq!(wanted, found, "the same facts, in another order");
}
