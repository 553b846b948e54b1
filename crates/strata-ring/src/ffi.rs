//! Mirrors `shim.h` and `producer.c`.

use std::ffi::{c_char, c_int, c_void, CStr};

// What calls return, negated.
pub(crate) const ENOMEM: i32 = 12;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const ENOSPC: i32 = 28;
pub(crate) const ENODATA: i32 = 61;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const EPROTO: i32 = 71;

/// Mirrors `STRATA_SHIM_RECORDS` of shim.h.
pub(crate) const RECORDS: u64 = 1;
/// Mirrors `STRATA_SHIM_END` of shim.h.
pub(crate) const END: u64 = 2;

/// `struct strata_shim`, whose content only the C code uses.
#[repr(C)]
pub(crate) struct Shim {
    opaque: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attr {
    pub subbuf_bytes: u64,
    pub nr_subbufs: u64,
    pub start_position: u64,
    pub loss_mode: u32,
    pub publish: u32,
    pub nr_cpus: u32,
    pub reserved: u32,
}
const _: () = assert!(std::mem::size_of::<Attr>() == 40);

/// Mirrors `struct strata_shim_layout` of shim.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout {
    pub stride_bytes: u64,
    pub frames_offset: u64,
    pub data_offset: u64,
    pub nr_streams: u64,
}
const _: () = assert!(std::mem::size_of::<Layout>() == 32);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub data: *const u8,
    pub position: u64,
    pub header_bytes: u64,
    pub content_bytes: u64,
    pub timestamp_begin: u64,
    pub timestamp_end: u64,
    pub records: u64,
    pub discarded: u64,
    pub unpublished_bytes: u64,
    pub known: u64,
}
const _: () = assert!(std::mem::size_of::<Packet>() == 80);

impl Default for Packet {
    fn default() -> Self {
        Self {
            data: std::ptr::null(),
            position: 0,
            header_bytes: 0,
            content_bytes: 0,
            timestamp_begin: 0,
            timestamp_end: 0,
            records: 0,
            discarded: 0,
            unpublished_bytes: 0,
            known: 0,
        }
    }
}

/// Mirrors `struct strata_shim_before` of shim.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    pub packets: u64,
    pub overwritten_packets: u64,
    pub overwritten_records: u64,
    pub records: u64,
}
const _: () = assert!(std::mem::size_of::<Before>() == 32);

/// Mirrors `struct strata_ring_counters`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub written: u64,
    pub discarded_full: u64,
    pub discarded_too_big: u64,
    pub discarded_nested: u64,
    pub discarded_no_stream: u64,
    pub overwritten_records: u64,
    pub overwritten_packets: u64,
    pub cancelled: u64,
}

/// Mirrors `struct strata_ring_error`.
#[repr(C)]
pub(crate) struct Text {
    text: [c_char; 256],
}

impl Text {
    pub(crate) fn new() -> Self {
        Self { text: [0; 256] }
    }

    pub(crate) fn get(&self) -> String {
        // Unsigned on some machines, signed on others.
        let bytes: Vec<u8> = self.text.iter().map(|c| c.to_ne_bytes()[0]).collect();
        match CStr::from_bytes_until_nul(&bytes) {
            Ok(text) => text.to_string_lossy().into_owned(),
            Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
        }
    }
}

extern "C" {
    pub(crate) fn strata_shim_map(
        fd: c_int,
        offset: u64,
        bytes: u64,
        memory: *mut *mut c_void,
    ) -> c_int;
    pub(crate) fn strata_shim_map_streams(
        fd: c_int,
        layout: *const Layout,
        value_bytes: u64,
        memory: *mut *mut c_void,
    ) -> c_int;
    pub(crate) fn strata_shim_unmap(memory: *mut c_void, bytes: u64);
    pub(crate) fn strata_shim_channel_bytes(
        attr: *const Attr,
        bytes: *mut u64,
        error: *mut Text,
    ) -> c_int;
    pub(crate) fn strata_shim_layout_of(
        attr: *const Attr,
        layout: *mut Layout,
        error: *mut Text,
    ) -> c_int;
    pub(crate) fn strata_shim_format(
        attr: *const Attr,
        memory: *mut c_void,
        bytes: u64,
        out: *mut *mut Shim,
        error: *mut Text,
    ) -> c_int;
    pub(crate) fn strata_shim_adopt(
        attr: *const Attr,
        memory: *mut c_void,
        bytes: u64,
        out: *mut *mut Shim,
        error: *mut Text,
    ) -> c_int;
    pub(crate) fn strata_shim_open(
        memory: *mut c_void,
        bytes: u64,
        out: *mut *mut Shim,
        error: *mut Text,
    ) -> c_int;
    pub(crate) fn strata_shim_again(
        shim: *const Shim,
        out: *mut *mut Shim,
        error: *mut Text,
    ) -> c_int;
    pub(crate) fn strata_shim_close(shim: *mut Shim);
    pub(crate) fn strata_shim_header(shim: *const Shim, header: *mut strata_abi::ring::Channel);
    pub(crate) fn strata_shim_set_barrier(shim: *mut Shim, fd: c_int, request: u64);
    pub(crate) fn strata_shim_begin(shim: *mut Shim, stream: u32) -> c_int;
    pub(crate) fn strata_shim_view(shim: *mut Shim, stream: u32);
    pub(crate) fn strata_shim_poll(shim: *const Shim, stream: u32) -> c_int;
    pub(crate) fn strata_shim_backlog(shim: *const Shim, stream: u32) -> u64;
    pub(crate) fn strata_shim_next(shim: *mut Shim, stream: u32, packet: *mut Packet) -> c_int;
    pub(crate) fn strata_shim_put(shim: *mut Shim, stream: u32);
    pub(crate) fn strata_shim_put_back(shim: *mut Shim, stream: u32);
    pub(crate) fn strata_shim_partial(
        shim: *mut Shim,
        stream: u32,
        dst: *mut u8,
        bytes: u64,
        packet: *mut Packet,
    ) -> c_int;
    pub(crate) fn strata_shim_pins(slots: u32) -> c_int;
    pub(crate) fn strata_shim_pin(fd: c_int, slot: u32, address: *mut c_void, bytes: u64) -> c_int;
    pub(crate) fn strata_shim_pins_close(fd: c_int);
    pub(crate) fn strata_shim_flush(shim: *mut Shim, stream: u32, clock_adds: i64) -> c_int;
    pub(crate) fn strata_shim_rest(shim: *mut Shim, stream: u32, packet: *mut Packet) -> c_int;
    pub(crate) fn strata_shim_scan(shim: *mut Shim, stream: u32, newest_first: c_int);
    pub(crate) fn strata_shim_scan_copy(
        shim: *mut Shim,
        dst: *mut u8,
        bytes: u64,
        packet: *mut Packet,
        before: *mut Before,
    ) -> c_int;
    pub(crate) fn strata_shim_scan_look(shim: *mut Shim, packet: *mut Packet) -> c_int;
    pub(crate) fn strata_shim_scan_holds(shim: *const Shim) -> c_int;
    pub(crate) fn strata_shim_scan_pass(shim: *mut Shim);
    pub(crate) fn strata_shim_counters(shim: *const Shim, stream: u32, counters: *mut Counters);
    pub(crate) fn strata_shim_copy(dst: *mut u8, src: *const u8, bytes: u64);
    pub(crate) fn strata_shim_write(
        fd: c_int,
        at: u64,
        header: *const u8,
        header_bytes: u64,
        body: *const u8,
        body_bytes: u64,
    ) -> c_int;
}

pub(crate) mod producer {
    //! Mirror of `producer.c`.
    use std::ffi::{c_int, c_void};

    /// Mirrors `struct strata_producer` of producer.c.
    #[repr(C)]
    pub(crate) struct Producer {
        opaque: [u8; 0],
    }

    extern "C" {
        pub(crate) fn strata_producer_has_rseq() -> c_int;
        pub(crate) fn strata_producer_open(memory: *mut c_void, large: c_int) -> *mut Producer;
        pub(crate) fn strata_producer_close(producer: *mut Producer);
        pub(crate) fn strata_producer_stamp(now: u64);
        pub(crate) fn strata_producer_record(
            producer: *const Producer,
            id: u32,
            payload: *const c_void,
            bytes: u32,
        ) -> c_int;
        pub(crate) fn strata_producer_flush(producer: *const Producer);
        pub(crate) fn strata_producer_abandon(producer: *const Producer, bytes: u32) -> c_int;
        pub(crate) fn strata_producer_spawn(
            producer: *const Producer,
            nr: u64,
            words: u32,
            progress: *mut *mut u64,
        ) -> c_int;
        pub(crate) fn strata_producer_published(progress: *const u64) -> u64;
        pub(crate) fn strata_producer_stop(pid: c_int);
        pub(crate) fn strata_producer_free(pid: c_int, progress: *mut u64);
    }
}
