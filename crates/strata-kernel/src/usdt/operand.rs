//! One argument of a USDT probe, `SIZE@OPERAND` in the assembler's words, x86-64.

use crate::uprobe::register::{self, Register};
use strata_abi::kernel::{Part, CONSTANT, MEMORY, REGISTER};
use strata_model::{FieldClass, FieldOrder, Float, Integer};
use thiserror::Error;

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// So many bytes, and whether signed.
    Integer {
        /// 1, 2, 4 or 8.
        bytes: u8,
        /// Two's complement.
        signed: bool,
    },
    /// So many bytes, 4 or 8.
    Float {
        /// 4 or 8.
        bytes: u8,
    },
}

/// Where an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// `$5`, `$symbol`
    Constant(Value),
    /// `%edi`
    Register(Register),
    /// `-8(%rbp)`; without a register it is an address.
    Memory { value: Value, base: Option<Register> },
}

/// `symbol+4`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Value {
    symbol: Option<String>,
    number: i64,
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// What it is.
    pub class: Class,
    place: Place,
}

/// What the file's symbols are.
pub struct Symbols<'a> {
    /// The address of one.
    pub find: &'a dyn Fn(&str) -> Option<u64>,
    /// Addresses are those of the running program.
    pub is_fixed: bool,
    /// The probe's own address.
    pub at: u64,
}

/// Why an argument is not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OperandError {
    /// No `SIZE@`.
    #[error("its size is not said")]
    NoSize,
    /// Another size.
    #[error("its size is '{0}', and 1, 2, 4 and 8 bytes can be recorded")]
    Size(String),
    /// A vector register, or one of another machine.
    #[error("the register %{0} cannot be recorded")]
    Register(String),
    /// A register that is smaller than the argument.
    #[error("%{register} has {found} bytes, and the argument {wanted}")]
    Small {
        /// Which.
        register: String,
        /// Its size \[byte\].
        found: u8,
        /// The argument's \[byte\].
        wanted: u8,
    },
    /// `(%rax,%rbx,4)`.
    #[error("an address made of two registers cannot be recorded")]
    Index,
    /// `%fs:8`.
    #[error("thread-local memory cannot be recorded")]
    Segment,
    /// `16(%rip)`.
    #[error("an address relative to %rip without a symbol says not to which instruction")]
    Rip,
    /// A symbol that is not in the file, or twice.
    #[error("the symbol {0} is not found in the file")]
    Symbol(String),
    /// An address that is known when the program runs only.
    #[error("it is the address of {0}, known only when the program runs")]
    Address(String),
    /// Not understood.
    #[error("it is not understood")]
    Syntax,
}

impl Class {
    /// As `--probe` writes types.
    pub fn name(self) -> &'static str {
        match self {
            Class::Integer { bytes: 1, signed: true } => "s8",
            Class::Integer { bytes: 2, signed: true } => "s16",
            Class::Integer { bytes: 4, signed: true } => "s32",
            Class::Integer { signed: true, .. } => "s64",
            Class::Integer { bytes: 1, .. } => "u8",
            Class::Integer { bytes: 2, .. } => "u16",
            Class::Integer { bytes: 4, .. } => "u32",
            Class::Integer { .. } => "u64",
            Class::Float { bytes: 4 } => "f32",
            Class::Float { .. } => "f64",
        }
    }

    /// Its size \[byte\].
    pub fn bytes(self) -> u8 {
        match self {
            Class::Integer { bytes, .. } | Class::Float { bytes } => bytes,
        }
    }

    pub(crate) fn field_class(self) -> FieldClass {
        match self {
            Class::Integer { bytes, signed: true } => FieldClass::Integer(Integer::signed(bytes)),
            Class::Integer { bytes, .. } => FieldClass::Integer(Integer::unsigned(bytes)),
            Class::Float { bytes } => {
                FieldClass::Float(Float { bytes, byte_order: FieldOrder::Native })
            }
        }
    }
}

impl Operand {
    /// `-4@%edi`
    ///
    /// # Errors
    /// Why it is not recorded.
    pub fn parse(text: &str) -> Result<Operand, OperandError> {
        let (size, place) = text.split_once('@').ok_or(OperandError::NoSize)?;
        Ok(Operand { class: class(size)?, place: place_of(place)? })
    }

    /// How it is recorded.
    ///
    /// # Errors
    /// Why it is not.
    pub fn part(&self, symbols: &Symbols<'_>) -> Result<Part, OperandError> {
        let bytes = self.class.bytes();
        let (kind, offset, addend) = match &self.place {
            Place::Constant(value) => (CONSTANT, 0, self.constant(value, symbols)?),
            Place::Register(register) => {
                if matches!(self.class, Class::Float { .. }) {
                    return Err(OperandError::Syntax);
                }
                // What is written to the lower half of a register clears its upper half.
                if bytes > register.bytes && register.bytes < 4 {
                    let (found, wanted) = (register.bytes, bytes);
                    let register = register.name.to_owned();
                    return Err(OperandError::Small { register, found, wanted });
                }
                (REGISTER, register.offset, 0)
            }
            Place::Memory { value, base } => self.memory(value, base.as_ref(), symbols)?,
        };
        Ok(Part { kind, offset, bytes: bytes.into(), addend, ..Part::default() })
    }

    fn constant(&self, value: &Value, symbols: &Symbols<'_>) -> Result<i64, OperandError> {
        match &value.symbol {
            None => Ok(value.number),
            Some(symbol) if symbols.is_fixed => {
                Ok(symbols.address(symbol)?.wrapping_add(value.number as u64) as i64)
            }
            Some(symbol) => Err(OperandError::Address(symbol.clone())),
        }
    }

    fn memory(
        &self,
        value: &Value,
        base: Option<&Register>,
        symbols: &Symbols<'_>,
    ) -> Result<(u8, u16, i64), OperandError> {
        let is_rip = base.is_none_or(|base| base.offset == register::RIP);
        let address = match (&value.symbol, is_rip) {
            (Some(symbol), _) => Some(symbols.address(symbol)?.wrapping_add(value.number as u64)),
            (None, true) if base.is_some() => return Err(OperandError::Rip),
            (None, true) if !symbols.is_fixed => return Err(OperandError::Syntax),
            (None, true) => Some(value.number as u64),
            (None, false) => None,
        };
        match (address, base) {
            // Wherever the file is loaded, it is as far from the probe.
            (Some(address), _) if is_rip => {
                Ok((MEMORY, register::RIP, address.wrapping_sub(symbols.at) as i64))
            }
            (Some(address), Some(base)) if symbols.is_fixed => {
                Ok((MEMORY, base.offset, address as i64))
            }
            (None, Some(base)) => Ok((MEMORY, base.offset, value.number)),
            _ => Err(OperandError::Index),
        }
    }
}

impl Symbols<'_> {
    fn address(&self, symbol: &str) -> Result<u64, OperandError> {
        (self.find)(symbol).ok_or_else(|| OperandError::Symbol(symbol.to_owned()))
    }
}

/// `-4`, `8`, `8f`
fn class(size: &str) -> Result<Class, OperandError> {
    let other = || OperandError::Size(size.to_owned());
    if size.is_empty() {
        return Err(OperandError::NoSize);
    }
    let (signed, digits) = match size.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, size),
    };
    let (is_float, digits) = match digits.strip_suffix('f') {
        Some(digits) => (true, digits),
        None => (false, digits),
    };
    let bytes = match digits {
        "1" => 1,
        "2" => 2,
        "4" => 4,
        "8" => 8,
        _ => return Err(other()),
    };
    match is_float {
        true if bytes >= 4 => Ok(Class::Float { bytes }),
        true => Err(other()),
        false => Ok(Class::Integer { bytes, signed }),
    }
}

fn place_of(text: &str) -> Result<Place, OperandError> {
    if let Some(constant) = text.strip_prefix('$') {
        return Ok(Place::Constant(value(constant)?));
    }
    if text.contains(':') {
        return Err(OperandError::Segment);
    }
    if text.starts_with('%') {
        return Ok(Place::Register(register(text)?));
    }
    let Some((before, inside)) = text.strip_suffix(')').and_then(|text| text.rsplit_once('('))
    else {
        return Ok(Place::Memory { value: value(text)?, base: None });
    };
    // `(symbol+4)(%rip)`
    let before = before.trim_start_matches('(').trim_end_matches(')');
    let value = if before.is_empty() { Value::default() } else { value(before)? };
    let mut parts = inside.split(',').map(str::trim);
    let base = parts.next().filter(|base| !base.is_empty()).map(register).transpose()?;
    if parts.next().is_some() {
        return Err(OperandError::Index);
    }
    if base.as_ref().is_some_and(|base| base.bytes != 8) {
        return Err(OperandError::Syntax);
    }
    Ok(Place::Memory { value, base })
}

fn register(text: &str) -> Result<Register, OperandError> {
    let name = text.strip_prefix('%').ok_or(OperandError::Syntax)?;
    register::find(name).ok_or_else(|| OperandError::Register(name.to_owned()))
}

/// `-8`, `0x10`, `symbol`, `symbol+4`, `4+symbol`, `symbol-4+8`
fn value(text: &str) -> Result<Value, OperandError> {
    let mut value = Value::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (negative, term) = match rest.split_at_checked(1) {
            Some(("-", term)) => (true, term),
            Some(("+", term)) => (false, term),
            _ => (false, rest),
        };
        let end = term.find(['+', '-']).unwrap_or(term.len());
        let (term, behind) = term.split_at(end);
        rest = behind;
        if let Some(number) = number(term) {
            let number = if negative { number.wrapping_neg() } else { number };
            value.number = value.number.wrapping_add(number);
        } else if !negative && value.symbol.is_none() && is_symbol(term) {
            value.symbol = Some(term.to_owned());
        } else {
            return Err(OperandError::Syntax);
        }
    }
    if text.is_empty() {
        return Err(OperandError::Syntax);
    }
    Ok(value)
}

/// Two's complement: 18446744073709551615 is -1.
fn number(text: &str) -> Option<i64> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.ok().filter(|_| !text.contains('+')).map(|number| number as i64)
}

fn is_symbol(text: &str) -> bool {
    text.starts_with(|char: char| char.is_ascii_alphabetic() || "_.".contains(char))
        && text.chars().all(|char| char.is_ascii_alphanumeric() || "_.$@".contains(char))
}
