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
/// [`Test::kind`]: it is like a pattern.
pub const TEXT: u8 = 2;
/// [`Test::kind`]: it is there.
pub const HAS: u8 = 3;
/// [`Test::kind`]: both sides are compared.
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

/// [`Test::flags`]: the contrary is meant.
pub const NEGATED: u16 = 1;

/// [`Term::subject`]: the event's name.
pub const NAME: u16 = 1;
/// [`Term::subject`]: its log level.
pub const LOGLEVEL: u16 = 2;
/// [`Term::subject`]: the CPU.
pub const CPU: u16 = 3;
/// [`Term::subject`]: a field of the payload, else of the context.
pub const FIELD: u16 = 4;
/// [`Term::subject`]: a field of the payload.
pub const PAYLOAD: u16 = 5;
/// [`Term::subject`]: a field of the context.
pub const CONTEXT: u16 = 6;

/// [`Term::index`]: no element of it.
pub const WHOLE: u64 = u64::MAX;

/// What has a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Term {
    /// [`NAME`] to [`CONTEXT`].
    pub subject: u16,
    /// Size of a field's name or of a pattern \[byte\].
    pub text_bytes: u16,
    /// Where it is, from the start of the filter \[byte\].
    pub text: u32,
    /// Of an array's or sequence's element, or [`WHOLE`].
    pub index: u64,
    /// Only these bits; 0: all of it.
    pub mask: u64,
}

/// A test.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Test {
    /// [`NUMBER`] to [`PAIR`].
    pub kind: u8,
    /// [`EQUAL`] to [`GREATER_OR_EQUAL`].
    pub op: u8,
    /// [`NEGATED`].
    pub flags: u16,
    /// Where it leads if it holds.
    pub yes: u16,
    /// And if not.
    pub no: u16,
    /// What is compared.
    pub left: Term,
    /// With what, or a pattern.
    pub right: Term,
    /// The range of what is signed.
    pub least: i64,
    /// Its end.
    pub greatest: i64,
    /// The range of what is not signed.
    pub from: u64,
    /// Its end.
    pub to: u64,
    /// The range of floating-point numbers.
    pub low: f64,
    /// Its end.
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
    /// At least 1.
    pub nr_tests: u32,
}
