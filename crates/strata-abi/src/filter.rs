//! `strata/abi/filter.h`: a session's filter as a program sees it.

/// First field of a filter.
pub const MAGIC: u32 = 0x544c_4953;
/// Version of its layout; any other is refused.
pub const VERSION: u32 = 1;
/// Room for one filter \[byte\].
pub const BYTES: u32 = 16_384;
/// The longest name or pattern \[byte\].
pub const TEXT_MAX: u32 = 4096;
/// Tests that a filter has at most.
pub const TESTS_MAX: u32 = 157;

/// [`Test::yes`], [`Test::no`]: the event is recorded.
pub const PASS: u16 = 0xffff;
/// [`Test::yes`], [`Test::no`]: the event is not recorded.
pub const REJECT: u16 = 0xfffe;

/// [`Test::kind`]: the left side is in a range.
pub const NUMBER: u8 = 1;
/// [`Test::kind`]: the left side matches a text pattern.
pub const TEXT: u8 = 2;
/// [`Test::kind`]: the record has the field of the left side.
pub const HAS: u8 = 3;
/// [`Test::kind`]: the values of both sides are compared.
pub const PAIR: u8 = 4;

/// [`Test::op`]: `==`
pub const EQUAL: u8 = 0;
/// [`Test::op`]: `!=`
pub const NOT_EQUAL: u8 = 1;
/// [`Test::op`]: `<`
pub const LESS: u8 = 2;
/// [`Test::op`]: `<=`
pub const LESS_OR_EQUAL: u8 = 3;
/// [`Test::op`]: `>`
pub const GREATER: u8 = 4;
/// [`Test::op`]: `>=`
pub const GREATER_OR_EQUAL: u8 = 5;

/// [`Test::flags`]: the result of the test is inverted.
pub const NEGATED: u16 = 1;

/// [`Term::subject`]: the event's name.
pub const NAME: u16 = 1;
/// [`Term::subject`]: the log level of the event.
pub const LOGLEVEL: u16 = 2;
/// [`Term::subject`]: the CPU.
pub const CPU: u16 = 3;
/// [`Term::subject`]: a field of the payload, or if there is none of that name, of the context.
pub const FIELD: u16 = 4;
/// [`Term::subject`]: a field of the payload.
pub const PAYLOAD: u16 = 5;
/// [`Term::subject`]: a field of the context.
pub const CONTEXT: u16 = 6;

/// [`Term::index`]: the whole field, and no element of it.
pub const WHOLE: u64 = u64::MAX;

/// A side of a test: a field, a context, a constant or a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Term {
    /// [`NAME`] to [`CONTEXT`].
    pub subject: u16,
    /// Size of a field's name or of a pattern \[byte\].
    pub text_bytes: u16,
    /// Offset of the name or text from the start of the filter \[byte\].
    pub text: u32,
    /// The array or sequence element to take, or [`WHOLE`].
    pub index: u64,
    /// The bits to compare, as an unsigned integer; 0 compares the whole value.
    pub mask: u64,
}

/// `struct strata_abi_filter_test`: compares [`Test::left`] and jumps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Test {
    /// [`NUMBER`] to [`PAIR`].
    pub kind: u8,
    /// [`EQUAL`] to [`GREATER_OR_EQUAL`].
    pub op: u8,
    /// [`NEGATED`].
    pub flags: u16,
    /// Index of the next test if this one holds.
    pub yes: u16,
    /// Index of the next test if this one does not hold.
    pub no: u16,
    pub left: Term,
    /// The other side of a [`PAIR`], or the pattern of a [`TEXT`].
    pub right: Term,
    /// The lower bound for signed values.
    pub least: i64,
    /// The last value of the signed range.
    pub greatest: i64,
    /// The lower bound for unsigned values.
    pub from: u64,
    /// The last value of the unsigned range.
    pub to: u64,
    /// The range of floating-point numbers.
    pub low: f64,
    /// The last value of the floating-point range.
    pub high: f64,
}

/// The beginning of a filter; tests and text follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Filter {
    /// [`MAGIC`].
    pub magic: u32,
    /// [`VERSION`].
    pub version: u32,
    /// Size of all of it \[byte\].
    pub bytes: u32,
    /// Number of tests in use, at least 1.
    pub nr_tests: u32,
}
