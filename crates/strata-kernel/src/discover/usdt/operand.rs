//! Parses an argument of a USDT probe: `SIZE@OPERAND`, with the operand in the syntax of the machine's assembler.

use crate::arch::{self, Instructions};
use crate::decide::uprobe::register::{self, Register};
use strata_abi::kernel::{Part, CONSTANT, MEMORY, NO_REGISTER, REGISTER};
use strata_model::{FieldClass, FieldOrder, Float, Integer};
use thiserror::Error;

/// The type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandClass {
    /// An integer.
    Integer {
        /// Size of the integer: 1, 2, 4 or 8 \[byte\].
        bytes: u8,
        /// True if the integer is signed.
        signed: bool,
    },
    /// A floating-point number.
    Float {
        /// Size of the number, 4 or 8 \[byte\].
        bytes: u8,
    },
}

/// The place of an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OperandPlace {
    /// A constant: `$5`, `$symbol`.
    Constant(SymbolOffset),
    /// A register: `%edi`.
    Register(Register),
    /// Memory: `-8(%rbp)`, `8(%rax,%rbx,4)`; without a register, `value` is the address.
    Memory { value: SymbolOffset, base: Option<Register>, index: Option<IndexRegister> },
}

/// An index register and its scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IndexRegister {
    register: Register,
    scale: u8,
}

/// A symbol with an offset: `symbol+4`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SymbolOffset {
    symbol: Option<String>,
    number: i64,
}

/// A parsed operand of a USDT probe, such as `-4@%edi`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsdtOperand {
    pub class: OperandClass,
    place: OperandPlace,
}

/// The addresses by which symbols in the operands of a file's probes are resolved.
pub struct OperandSymbols<'a> {
    /// Function that returns the address of a symbol.
    pub find: &'a dyn Fn(&str) -> Option<u64>,
    /// True if addresses in the file are those in the running program.
    pub is_fixed: bool,
    /// The probe's own address.
    pub at: u64,
}

/// The reason why an argument of a USDT probe is not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OperandError {
    /// The operand does not begin with `SIZE@`.
    #[error("its size is not said")]
    NoSize,
    /// The size in the operand is not 1, 2, 4 or 8 bytes.
    #[error("its size is '{0}', and 1, 2, 4 and 8 bytes can be recorded")]
    Size(String),
    /// The register is unknown, or cannot be recorded.
    #[error("the register %{0} cannot be recorded")]
    Register(String),
    /// The operand is in a vector register.
    #[error(
        "it is in the floating-point register %{0}, which the kernel does not keep for probes"
    )]
    Vector(String),
    /// The register is smaller than the argument.
    #[error("%{register} has {found} bytes, and the argument {wanted}")]
    Small {
        /// The register's name in the assembler.
        register: String,
        /// The register's size \[byte\].
        found: u8,
        /// The argument's size, from the `SIZE@` of its operand \[byte\].
        wanted: u8,
    },
    /// The operand combines a symbol with a register, as in `global(%rax)`, in a program whose load address is not
    /// known.
    #[error("an address made of a symbol and a register is known only when the program runs")]
    Moved,
    /// The index register or the scale is not possible, as in `(%rax,%rbx,3)` and `(%rax,%rsp)`.
    #[error("its address has no such index")]
    Index,
    /// The operand is relative to a segment: `%fs:8`.
    #[error("thread-local memory cannot be recorded")]
    Segment,
    /// The operand is relative to the instruction pointer: `16(%rip)`.
    #[error("an address relative to %rip without a symbol says not to which instruction")]
    Rip,
    /// The symbol is not in the file, or there are several.
    #[error("the symbol {0} is not found in the file")]
    Symbol(String),
    /// The operand's address is known only when the program runs.
    #[error("it is the address of {0}, known only when the program runs")]
    Address(String),
    /// The operand is not understood.
    #[error("it is not understood")]
    Syntax,
}

impl OperandClass {
    /// Returns the name that the type has in the syntax of `--probe`.
    pub fn name(self) -> &'static str {
        match self {
            OperandClass::Integer { bytes: 1, signed: true } => "s8",
            OperandClass::Integer { bytes: 2, signed: true } => "s16",
            OperandClass::Integer { bytes: 4, signed: true } => "s32",
            OperandClass::Integer { signed: true, .. } => "s64",
            OperandClass::Integer { bytes: 1, .. } => "u8",
            OperandClass::Integer { bytes: 2, .. } => "u16",
            OperandClass::Integer { bytes: 4, .. } => "u32",
            OperandClass::Integer { .. } => "u64",
            OperandClass::Float { bytes: 4 } => "f32",
            OperandClass::Float { .. } => "f64",
        }
    }

    /// Returns the operand's size \[byte\].
    pub fn bytes(self) -> u8 {
        match self {
            OperandClass::Integer { bytes, .. } | OperandClass::Float { bytes } => bytes,
        }
    }

    pub(crate) fn field_class(self) -> FieldClass {
        match self {
            OperandClass::Integer { bytes, signed: true } => {
                FieldClass::Integer(Integer::signed(bytes))
            }
            OperandClass::Integer { bytes, .. } => FieldClass::Integer(Integer::unsigned(bytes)),
            OperandClass::Float { bytes } => {
                FieldClass::Float(Float { bytes, byte_order: FieldOrder::Native })
            }
        }
    }
}

impl UsdtOperand {
    /// Parses an operand, such as `-4@%edi`.
    ///
    /// # Errors
    /// The reason why the operand cannot be recorded.
    pub fn parse(text: &str) -> Result<UsdtOperand, OperandError> {
        let (size, place) = text.split_once('@').ok_or(OperandError::NoSize)?;
        let place = match arch::here_or_any().instructions {
            Instructions::X86 => place_of(place)?,
            Instructions::A64 => place_of_a64(place, arch::here_or_any().registers.find)?,
        };
        Ok(UsdtOperand { class: class(size)?, place })
    }

    /// Returns the description by which a BPF program reads the operand for a record.
    ///
    /// # Errors
    /// The reason why the operand cannot be recorded.
    pub fn part(&self, symbols: &OperandSymbols<'_>) -> Result<Part, OperandError> {
        let bytes = self.class.bytes();
        let part = |kind, offset, addend| Part { kind, offset, addend, ..Part::default() };
        let part = match &self.place {
            OperandPlace::Constant(_) if matches!(self.class, OperandClass::Float { .. }) => {
                return Err(OperandError::Syntax);
            }
            OperandPlace::Constant(value) => part(CONSTANT, 0, self.constant(value, symbols)?),
            OperandPlace::Register(register) => {
                // What is written to the lower half of a register clears its upper half.
                if bytes > register.bytes && register.bytes < 4 {
                    let (found, wanted) = (register.bytes, bytes);
                    let register = register.name.to_owned();
                    return Err(OperandError::Small { register, found, wanted });
                }
                part(REGISTER, register.offset, 0)
            }
            OperandPlace::Memory { value, base, index } => {
                self.memory(value, base.as_ref(), *index, symbols)?
            }
        };
        Ok(Part { bytes: bytes.into(), ..part })
    }

    fn constant(
        &self,
        value: &SymbolOffset,
        symbols: &OperandSymbols<'_>,
    ) -> Result<i64, OperandError> {
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
        value: &SymbolOffset,
        base: Option<&Register>,
        index: Option<IndexRegister>,
        symbols: &OperandSymbols<'_>,
    ) -> Result<Part, OperandError> {
        let (scale, register) = index.map_or((0, 0), |index| (index.scale, index.register.offset));
        let at = |offset, addend| Part {
            kind: MEMORY,
            offset,
            addend,
            scale,
            index: register,
            ..Part::default()
        };
        let is_rip = base.is_some_and(|base| base.offset == register::here().ip);
        let is_address = base.is_none() && index.is_none();
        let address = match &value.symbol {
            Some(symbol) => symbols.address(symbol)?.wrapping_add(value.number as u64),
            None if is_rip => return Err(OperandError::Rip),
            None if is_address && !symbols.is_fixed => return Err(OperandError::Syntax),
            None => value.number as u64,
        };
        // Wherever the file is loaded, it is as far from the probe.
        if is_rip || is_address {
            return Ok(at(register::here().ip, address.wrapping_sub(symbols.at) as i64));
        }
        if value.symbol.is_some() && !symbols.is_fixed {
            return Err(OperandError::Moved);
        }
        Ok(at(base.map_or(NO_REGISTER, |base| base.offset), address as i64))
    }
}

impl OperandSymbols<'_> {
    fn address(&self, symbol: &str) -> Result<u64, OperandError> {
        (self.find)(symbol).ok_or_else(|| OperandError::Symbol(symbol.to_owned()))
    }
}

/// Parses the type of an operand: `-4`, `8`, `8f`.
fn class(size: &str) -> Result<OperandClass, OperandError> {
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
        true if bytes >= 4 => Ok(OperandClass::Float { bytes }),
        true => Err(other()),
        false => Ok(OperandClass::Integer { bytes, signed }),
    }
}

fn place_of(text: &str) -> Result<OperandPlace, OperandError> {
    if let Some(constant) = text.strip_prefix('$') {
        return Ok(OperandPlace::Constant(value(constant)?));
    }
    if text.contains(':') {
        return Err(OperandError::Segment);
    }
    if text.starts_with('%') {
        return Ok(OperandPlace::Register(register(text)?));
    }
    let Some((before, inside)) = text.strip_suffix(')').and_then(|text| text.rsplit_once('('))
    else {
        return Ok(OperandPlace::Memory { value: value(text)?, base: None, index: None });
    };
    // `(symbol+4)(%rip)`
    let before = before.trim_start_matches('(').trim_end_matches(')');
    let value = if before.is_empty() { SymbolOffset::default() } else { value(before)? };
    let mut parts = inside.split(',').map(str::trim);
    let base = parts.next().filter(|base| !base.is_empty()).map(register).transpose()?;
    let index = match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => None,
        (Some(index), scale, None) => Some(index_of(index, scale.unwrap_or("1"))?),
        _ => return Err(OperandError::Syntax),
    };
    let is_rip = |base: &Register| base.offset == register::here().ip;
    let is_wrong = |base: Register| base.bytes != 8 || (index.is_some() && is_rip(&base));
    if base.is_some_and(is_wrong) {
        return Err(OperandError::Syntax);
    }
    Ok(OperandPlace::Memory { value, base, index })
}

/// Parses an operand of AArch64: `x0`, `w1`, `5`, `[sp, 12]`, `[x1, x2, lsl 3]`; a number may have a `#` in front. `find`
/// returns the registers of that machine.
fn place_of_a64(
    text: &str,
    find: fn(&str) -> Option<Register>,
) -> Result<OperandPlace, OperandError> {
    let plain = |text: &str| text.trim().trim_start_matches('#').to_owned();
    let Some(inside) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
        if let Some(register) = find(text) {
            return Ok(OperandPlace::Register(register));
        }
        let number = text.strip_prefix(['d', 's', 'q', 'v', 'h', 'b']).unwrap_or_default();
        return match text {
            "xzr" | "wzr" => Ok(OperandPlace::Constant(SymbolOffset::default())),
            _ if number.parse::<u8>().is_ok_and(|number| number < 32) => {
                Err(OperandError::Vector(text.to_owned()))
            }
            _ => Ok(OperandPlace::Constant(value(&plain(text))?)),
        };
    };
    let whole = |name: &str| {
        let found = find(name.trim()).ok_or_else(|| OperandError::Register(name.to_owned()))?;
        let is_whole = found.bytes == 8;
        is_whole.then_some(found).ok_or(OperandError::Syntax)
    };
    let parts: Vec<&str> = inside.split(',').map(str::trim).collect();
    let (base, rest) = parts.split_first().ok_or(OperandError::Syntax)?;
    let base = Some(whole(base)?);
    let none = SymbolOffset::default();
    let place = |value, index| OperandPlace::Memory { value, base, index };
    match rest {
        [] => Ok(place(none, None)),
        [index] if find(index).is_some() => {
            Ok(place(none, Some(IndexRegister { register: whole(index)?, scale: 1 })))
        }
        [distance] => {
            let distance = value(&plain(distance))?;
            // `:lo12:symbol` and the like are known to the linker only.
            distance.symbol.is_none().then(|| place(distance, None)).ok_or(OperandError::Syntax)
        }
        [index, shift] => {
            let shift = shift.strip_prefix("lsl").map(plain).and_then(|it| it.parse::<u8>().ok());
            let scale = shift.filter(|shift| *shift <= 3).map(|shift| 1 << shift);
            let scale = scale.ok_or(OperandError::Index)?;
            Ok(place(none, Some(IndexRegister { register: whole(index)?, scale })))
        }
        _ => Err(OperandError::Syntax),
    }
}

/// Parses an index register and its scale. The processor cannot use %rsp or %rip as an index.
fn index_of(text: &str, scale: &str) -> Result<IndexRegister, OperandError> {
    let register = register(text)?;
    if register.bytes != 8 || [register::here().sp, register::here().ip].contains(&register.offset)
    {
        return Err(OperandError::Index);
    }
    match scale.parse() {
        Ok(scale @ (1 | 2 | 4 | 8)) => Ok(IndexRegister { register, scale }),
        _ => Err(OperandError::Index),
    }
}

fn register(text: &str) -> Result<Register, OperandError> {
    let name = text.strip_prefix('%').ok_or(OperandError::Syntax)?;
    register::find(name).ok_or_else(|| {
        let is_vector = ["xmm", "ymm", "zmm"].iter().any(|vector| name.starts_with(vector));
        match is_vector {
            true => OperandError::Vector(name.to_owned()),
            false => OperandError::Register(name.to_owned()),
        }
    })
}

/// Parses a number or symbol with offsets: `-8`, `0x10`, `symbol`, `symbol+4`, `4+symbol`, `symbol-4+8`.
fn value(text: &str) -> Result<SymbolOffset, OperandError> {
    let mut value = SymbolOffset::default();
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

/// Parses a number in two's complement, so that 18446744073709551615 is -1.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As gcc and clang write them for AArch64.
    #[test]
    fn operands_of_aarch64_are_registers_numbers_and_memory() {
        let machine = arch::ALL.into_iter().find(|one| one.name == "aarch64").unwrap();
        let find = machine.registers.find;
        let of = |text: &str| place_of_a64(text, find);
        let register = |name: &str| find(name).unwrap();
        let number = |number| SymbolOffset { symbol: None, number };
        let memory = |base: &str, value, index: Option<(&str, u8)>| OperandPlace::Memory {
            value: number(value),
            base: Some(register(base)),
            index: index.map(|(name, scale)| IndexRegister { register: register(name), scale }),
        };
        for (text, wanted) in [
            ("x0", OperandPlace::Register(register("x0"))),
            ("w30", OperandPlace::Register(register("w30"))),
            ("wzr", OperandPlace::Constant(number(0))),
            ("5", OperandPlace::Constant(number(5))),
            ("#-1", OperandPlace::Constant(number(-1))),
            ("[sp]", memory("sp", 0, None)),
            ("[sp,28]", memory("sp", 28, None)),
            ("[x29, #-8]", memory("x29", -8, None)),
            ("[x1,x2]", memory("x1", 0, Some(("x2", 1)))),
            ("[x1, x2, lsl #3]", memory("x1", 0, Some(("x2", 8)))),
        ] {
            assert_eq!(of(text), Ok(wanted), "{text}");
        }
        assert_eq!(of("d8"), Err(OperandError::Vector("d8".into())));
        for text in [
            "[",
            "[]",
            "[w0]",
            "[x0,:lo12:a]",
            "[x0,x1,lsl 4]",
            "[x0,w1,sxtw]",
            "[x0,1,2,3]",
            "%rax",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
