//! Metadata of all shapes, and for most of them a stream that is intact.

/// How a trace is described.
pub struct Shape {
    /// TSDL.
    pub metadata: &'static [u8],
    /// Whole packets of one stream; of some there are none.
    pub stream: &'static [u8],
}

macro_rules! made {
    ($name:literal) => {
        Shape {
            metadata: include_bytes!(concat!("../shapes/", $name, ".tsdl")),
            stream: include_bytes!(concat!("../shapes/", $name, ".stream")),
        }
    };
}

macro_rules! described {
    ($path:literal) => {
        Shape {
            metadata: include_bytes!(concat!("../../../crates/strata-ctf/tests/", $path)),
            stream: &[],
        }
    };
}

/// Of all shapes.
pub const COUNT: usize = 28;

/// The first byte of an input is an index into this. `run` reads the names here, in this order.
pub static SHAPES: [Shape; COUNT] = [
    made!("header_none"),
    made!("packet_header_none"),
    made!("header_compact_1"),
    made!("header_flat_3_61_1"),
    made!("time_wraps_8_from_0"),
    made!("sequences"),
    made!("scopes_tag_packet_context"),
    made!("integers_byte_order_odd_widths"),
    made!("random_33"),
    made!("packets_with_gaps"),
    made!("lttng_s_own"),
    made!("packet_context_none"),
    made!("packet_context_sizes_only"),
    made!("header_large_8"),
    made!("header_flat_5_27_1"),
    made!("variants"),
    made!("structures_in_arrays"),
    made!("variants_in_variants"),
    made!("text_arrays"),
    made!("packet_context_own_members"),
    made!("random_39"),
    made!("dimensions"),
    described!("tsdl/babeltrace2.tsdl"),
    described!("tsdl/constructs.tsdl"),
    described!("tsdl/lttng-ust.metadata"),
    described!("tsdl/perf.tsdl"),
    described!("golden/process.tsdl"),
    described!("golden/streams.tsdl"),
];
