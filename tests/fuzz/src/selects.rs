//! A filter of tests, as libstrata takes it over from shared memory: by libstrata's own headers.

use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

use strata_abi::{filter as abi, user};

/// `struct strata_field`
#[repr(C)]
struct Field {
    name: *const c_char,
    enumeration: *const Enumeration,
    count: u32,
    kind: u8,
    element: u8,
    bytes: u8,
    flags: u8,
    base: u8,
    length_bytes: u8,
    reserved: [u8; 2],
}

/// `struct strata_enumeration`
#[repr(C)]
struct Enumeration {
    name: *const c_char,
    labels: *const Label,
    nr_labels: u32,
}

/// `struct strata_label`
#[repr(C)]
struct Label {
    label: *const c_char,
    from: i64,
    to: i64,
    automatic: u32,
}

/// `struct strata_tracepoint`
#[repr(C)]
struct Tracepoint {
    enabled: *const u32,
    state: *const c_void,
    provider: *const c_char,
    name: *const c_char,
    file: *const c_char,
    fields: *const Field,
    line: u32,
    nr_fields: u16,
    level: u8,
    filtered: u8,
    next: *const c_void,
}

extern "C" {
    fn strata_user_filter_check(filter: *const u8, bytes: u32) -> i32;
    fn strata_user_filter_program_bytes(filter: *const u8) -> u64;
    fn strata_user_filter_ask(
        filter: *const u8,
        tracepoint: *const Tracepoint,
        payload: *const u8,
        bytes: u64,
        has_vtid: i32,
        program: *mut c_void,
        is_whole: i32,
    ) -> i32;
}

/// Bytes in front of memory that cannot be touched: who reads or writes beyond their end is killed.
struct Guarded {
    pages: *mut c_void,
    size: usize,
    at: *mut u8,
}

impl Guarded {
    /// They begin at a multiple of `align`, and less than that are between them and the end.
    fn new(bytes: usize, align: usize) -> Guarded {
        use rustix::mm::{mmap_anonymous, mprotect, MapFlags, MprotectFlags, ProtFlags};
        let page = rustix::param::page_size();
        let room = bytes.next_multiple_of(align).next_multiple_of(page).max(page);
        let size = room + page;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: new memory, which nobody else knows.
        let pages = unsafe { mmap_anonymous(null_mut(), size, prot, flags) }.expect("memory");
        // SAFETY: within the pages: one is behind the room.
        let last = unsafe { pages.cast::<u8>().add(room) };
        // SAFETY: the last page.
        unsafe { mprotect(last.cast(), page, MprotectFlags::empty()) }
            .expect("a page that cannot be touched");
        // SAFETY: within the pages: the size is rounded up to what they hold.
        let at = unsafe { pages.cast::<u8>().add(room - bytes.next_multiple_of(align)) };
        Guarded { pages, size, at }
    }

    fn of(bytes: &[u8], align: usize) -> Guarded {
        let made = Guarded::new(bytes.len(), align);
        // SAFETY: as many bytes are there.
        unsafe { made.at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        made
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: what new() has mapped.
        let _ = unsafe { rustix::mm::munmap(self.pages, self.size) };
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |two| u16::from_ne_bytes([two[0], two[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

/// What strata/abi/filter.h says of a filter, written a second time.
fn is_sound(bytes: &[u8]) -> bool {
    let (head, size) = (size_of::<abi::Filter>(), size_of::<abi::Test>());
    let nr = u32_at(bytes, 12) as usize;
    if bytes.len() < head
        || u32_at(bytes, 0) != abi::MAGIC
        || u32_at(bytes, 4) != abi::VERSION
        || u32_at(bytes, 8) as usize != bytes.len()
        || nr == 0
        || nr > abi::TESTS_MAX as usize
        || head + nr * size > bytes.len()
    {
        return false;
    }
    let leads = |from: usize, to: u16| {
        to == abi::PASS || to == abi::REJECT || (from + 1..nr).contains(&usize::from(to))
    };
    let is_term = |at: usize, is_pattern: bool| {
        let (subject, length) = (u16_at(bytes, at), usize::from(u16_at(bytes, at + 2)));
        (is_pattern || (abi::NAME..=abi::CONTEXT).contains(&subject))
            && length <= abi::TEXT_MAX as usize
            && u32_at(bytes, at + 4) as usize + length <= bytes.len()
    };
    (0..nr).all(|number| {
        let at = head + number * size;
        let (kind, op) = (bytes[at], bytes[at + 1]);
        (abi::NUMBER..=abi::PAIR).contains(&kind)
            && op <= abi::GREATER_OR_EQUAL
            && u16_at(bytes, at + 2) & !abi::NEGATED == 0
            && leads(number, u16_at(bytes, at + 4))
            && leads(number, u16_at(bytes, at + 6))
            && is_term(at + 8, false)
            && is_term(at + 32, kind != abi::PAIR)
    })
}

/// The first two bytes: has the session threads, and how long a payload is, which is behind them; the rest is the filter.
pub fn run(input: &[u8]) {
    let Some((&[flags, length], rest)) = input.split_first_chunk::<2>() else { return };
    let (payload, filter) = rest.split_at(usize::from(length).min(rest.len()));
    if filter.len() > abi::BYTES as usize {
        return;
    }
    let memory = Guarded::of(filter, 8);
    // SAFETY: as many bytes are there, aligned.
    let is_good = unsafe { strata_user_filter_check(memory.at, filter.len() as u32) } != 0;
    assert_eq!(is_good, is_sound(filter), "whether it may be asked");
    if !is_good {
        return;
    }
    let label = Label { label: c"LOW".as_ptr(), from: 0, to: 9, automatic: 0 };
    let enumeration = Enumeration { name: c"how".as_ptr(), labels: &label, nr_labels: 1 };
    let field = |name: &'static std::ffi::CStr, kind, bytes, flags| Field {
        name: name.as_ptr(),
        enumeration: null(),
        count: 0,
        kind,
        element: 0,
        bytes,
        flags,
        base: 10,
        length_bytes: 0,
        reserved: [0; 2],
    };
    let signed = user::FIELD_SIGNED;
    let number = |name, bytes, flags| field(name, user::INTEGER, bytes, flags);
    let fields = [
        number(c"a", 4, signed),
        number(c"b", 8, 0),
        Field { enumeration: &enumeration, ..number(c"e", 2, 0) },
        field(c"f", user::FLOAT, 8, 0),
        Field { count: 6, element: user::TEXT, bytes: 1, ..field(c"t", user::ARRAY, 1, 0) },
        field(c"s", user::STRING, 0, 0),
        Field {
            element: user::INTEGER,
            bytes: 2,
            length_bytes: 4,
            ..field(c"q", user::SEQUENCE, 2, signed)
        },
        number(c"z", 4, user::FIELD_NETWORK),
    ];
    let enabled = 1;
    let tracepoint = Tracepoint {
        enabled: &enabled,
        state: null(),
        provider: c"shop".as_ptr(),
        name: c"paid".as_ptr(),
        file: c"shop.c".as_ptr(),
        fields: fields.as_ptr(),
        line: 1,
        nr_fields: fields.len() as u16,
        level: 6,
        filtered: 1,
        next: null(),
    };
    // Behind it is STRATA_USER_TAILROOM.
    let whole = [payload, &[0xa5; 8]].concat();
    let whole = Guarded::of(&whole, 1);
    // SAFETY: a filter that was checked.
    let room = unsafe { strata_user_filter_program_bytes(memory.at) };
    let program = Guarded::new(room as usize, 8);
    // SAFETY: a filter that was checked; all else lives.
    let answer = unsafe {
        strata_user_filter_ask(
            memory.at,
            &tracepoint,
            whole.at,
            payload.len() as u64,
            (flags & 1).into(),
            program.at.cast(),
            0,
        )
    };
    assert!(answer >= 0, "the ways of asking do not agree");
}
