//! Values of fields, and the types that the library is told of.

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldType {
    pub(crate) kind: u8,
    pub(crate) shape: u8,
    pub(crate) count: u32,
}

const SCALAR: u8 = 0;
const ARRAY: u8 = 1;
const SEQUENCE: u8 = 2;

impl FieldType {
    /// A signed integer of 64 bits.
    pub const I64: FieldType = scalar(4);
    /// An unsigned integer of 64 bits.
    pub const U64: FieldType = scalar(8);
    /// A floating-point number of 64 bits.
    pub const F64: FieldType = scalar(10);
    /// A truth value of one byte.
    pub const BOOL: FieldType = scalar(11);
    /// A text of any length.
    pub const TEXT: FieldType = FieldType { kind: 13, shape: SEQUENCE, count: 0 };
}

const fn scalar(kind: u8) -> FieldType {
    FieldType { kind, shape: SCALAR, count: 0 }
}

/// The most words of the values of one record: two for each of 64 fields.
const WORDS_MAX: usize = 128;

/// The values of one record, as the library takes them. What they refer to must live until they are recorded.
pub struct Words<'v> {
    words: [std::mem::MaybeUninit<u64>; WORDS_MAX],
    len: u32,
    values: std::marker::PhantomData<&'v ()>,
}

impl Default for Words<'_> {
    fn default() -> Self {
        Words::new()
    }
}

impl<'v> Words<'v> {
    /// Makes an empty list of values.
    #[must_use]
    #[inline]
    pub fn new() -> Words<'v> {
        let words = [const { std::mem::MaybeUninit::uninit() }; WORDS_MAX];
        Words { words, len: 0, values: std::marker::PhantomData }
    }

    /// Adds the value of the next field. A record has at most 64; more are left out, and the library refuses the record.
    #[inline]
    pub fn push<F: Field + ?Sized>(&mut self, value: &'v F) {
        value.put(self);
    }

    /// Adds the value of the next field, which is a number or a truth value.
    #[inline]
    pub fn push_scalar<S: Scalar>(&mut self, value: S) {
        value.put(self);
    }

    #[inline]
    fn word(&mut self, word: u64) {
        if let Some(place) = self.words.get_mut(self.len as usize) {
            place.write(word);
            self.len += 1;
        }
    }

    #[inline]
    fn slice<T>(&mut self, elements: &[T]) {
        self.word(elements.as_ptr() as usize as u64);
        self.word(elements.len() as u64);
    }

    pub(crate) fn as_ptr(&self) -> *const u64 {
        self.words.as_ptr().cast()
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}

/// A value that a field can have: numbers, `bool`, `str`, slices and arrays of numbers, and references to them.
pub trait Field {
    /// Type of the field.
    const TYPE: FieldType;

    /// Adds the value to those of a record.
    fn put(&self, words: &mut Words<'_>);
}

/// A number or a truth value, which refers to nothing.
pub trait Scalar: Field + Copy + 'static {}

impl Scalar for bool {}

impl<F: Field + ?Sized> Field for &F {
    const TYPE: FieldType = F::TYPE;

    #[inline]
    fn put(&self, words: &mut Words<'_>) {
        (**self).put(words);
    }
}

macro_rules! number {
    ($($type:ty, $kind:literal, $word:expr;)*) => {$(
        impl Field for $type {
            const TYPE: FieldType = scalar($kind);

            #[inline]
            fn put(&self, words: &mut Words<'_>) {
                let word: fn($type) -> u64 = $word;
                words.word(word(*self));
            }
        }

        impl Scalar for $type {}

        impl Field for [$type] {
            const TYPE: FieldType = FieldType { kind: $kind, shape: SEQUENCE, count: 0 };

            #[inline]
            fn put(&self, words: &mut Words<'_>) {
                words.slice(self);
            }
        }

        impl<const N: usize> Field for [$type; N] {
            const TYPE: FieldType = FieldType { kind: $kind, shape: ARRAY, count: N as u32 };

            #[inline]
            fn put(&self, words: &mut Words<'_>) {
                words.word(self.as_ptr() as usize as u64);
            }
        }
    )*};
}

number! {
    i8, 1, |x| x as u64;
    i16, 2, |x| x as u64;
    i32, 3, |x| x as u64;
    i64, 4, |x| x as u64;
    u8, 5, u64::from;
    u16, 6, u64::from;
    u32, 7, u64::from;
    u64, 8, |x| x;
    f32, 9, |x| f64::from(x).to_bits();
    f64, 10, f64::to_bits;
    isize, 4, |x| x as u64;
    usize, 8, |x| x as u64;
}

impl Field for bool {
    const TYPE: FieldType = FieldType::BOOL;

    #[inline]
    fn put(&self, words: &mut Words<'_>) {
        words.word((*self).into());
    }
}

impl Field for str {
    const TYPE: FieldType = FieldType::TEXT;

    #[inline]
    fn put(&self, words: &mut Words<'_>) {
        words.slice(self.as_bytes());
    }
}

impl Field for String {
    const TYPE: FieldType = FieldType::TEXT;

    #[inline]
    fn put(&self, words: &mut Words<'_>) {
        words.slice(self.as_bytes());
    }
}

/// The type of an expression that is not evaluated: a closure which nobody calls gives it to [`TypeProbe::is_of`].
#[doc(hidden)]
pub struct TypeProbe<F: ?Sized>(std::marker::PhantomData<F>);

impl<F: Field + ?Sized> TypeProbe<F> {
    #[must_use]
    #[allow(clippy::new_without_default, reason = "only the macros make one")]
    pub fn new() -> TypeProbe<F> {
        TypeProbe(std::marker::PhantomData)
    }

    pub fn is_of(&self, _: &F) {}

    #[must_use]
    pub fn field_type(&self) -> FieldType {
        F::TYPE
    }
}
