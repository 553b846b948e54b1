//! The text of a `--probe`, taken apart.

use crate::uprobe::error::{ProbeError, ProbeProblem};
use strata_abi::kernel::{REGISTER, STRING};
use strata_model::{is_identifier, Base, Element, FieldClass, Integer, Sequence};

const FUNCTION_FORM: &str = "uprobe:BINARY:SYMBOL or uprobe:BINARY:SYMBOL(NAME:TYPE,...)";
const RETURN_FORM: &str = "uretprobe:BINARY:SYMBOL or uretprobe:BINARY:SYMBOL(NAME:TYPE)";
const USDT_FORM: &str = "usdt:BINARY:PROVIDER:NAME or usdt:BINARY:PROVIDER:NAME(NAME:TYPE,...)";
const ANY_FORM: &str = "uprobe:BINARY:SYMBOL, uretprobe:BINARY:SYMBOL or usdt:BINARY:PROVIDER:NAME";

/// One `--probe`. All parts are of its text.
#[derive(Debug)]
pub(crate) struct ProbeSpec<'a> {
    pub(crate) text: &'a str,
    /// The event's name, where one was given.
    pub(crate) name: Option<&'a str>,
    pub(crate) binary: &'a str,
    pub(crate) target: ProbeTarget<'a>,
}

/// What in the file.
#[derive(Debug)]
pub(crate) enum ProbeTarget<'a> {
    Function { place: FunctionPlace<'a>, arguments: Vec<ProbeArgument<'a>>, is_return: bool },
    Usdt(Usdt<'a>),
}

/// USDT probes, by patterns.
#[derive(Debug)]
pub(crate) struct Usdt<'a> {
    pub(crate) provider: &'a str,
    pub(crate) name: &'a str,
    /// Which arguments; `None`: all, as the file says.
    pub(crate) arguments: Option<Vec<ProbeArgument<'a>>>,
}

/// Where in the file.
#[derive(Debug)]
pub(crate) struct FunctionPlace<'a> {
    /// As it was written.
    pub(crate) text: &'a str,
    pub(crate) symbol: Option<&'a str>,
    /// Behind the symbol, or without one the address.
    pub(crate) offset: u64,
}

/// An argument or returned value.
#[derive(Debug)]
pub(crate) struct ProbeArgument<'a> {
    pub(crate) name: &'a str,
    /// Of USDT probes it may be left to the file.
    pub(crate) class: Option<ArgumentClass>,
}

impl ProbeArgument<'_> {
    /// It is not `_`.
    pub(crate) fn is_recorded(&self) -> bool {
        self.name != "_"
    }
}

/// How it is recorded.
#[derive(Clone, Debug)]
pub(crate) struct ArgumentClass {
    /// A kind of part: `REGISTER`, `STRING`.
    pub(crate) kind: u8,
    pub(crate) bytes: u8,
    pub(crate) field: FieldClass,
}

/// Text that is recorded with its length.
pub(crate) const TEXT: FieldClass =
    FieldClass::Sequence(Sequence { element: Element::Text, length_bytes: 2 });

/// An unsigned number, shown in hexadecimal.
pub(crate) fn hexadecimal(bytes: u8) -> FieldClass {
    FieldClass::Integer(Integer { base: Base::Sixteen, ..Integer::unsigned(bytes) })
}

impl<'a> ProbeSpec<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<ProbeSpec<'a>, ProbeError> {
        let whole = text;
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let (name, kind) = match kind.split_once('=') {
            Some((name, kind)) => (Some(name), kind),
            None => (None, kind),
        };
        let error = |part: &str, problem| error(whole, part, problem);
        if let Some(name) = name.filter(|name| !is_identifier(name)) {
            return Err(error(name, ProbeProblem::Name(name.to_owned())));
        }
        let form = match kind {
            "uprobe" => FUNCTION_FORM,
            "uretprobe" => RETURN_FORM,
            "usdt" => USDT_FORM,
            "" => {
                return Err(error(
                    kind,
                    ProbeProblem::Missing { what: "the kind of probe", form: ANY_FORM },
                ))
            }
            _ => return Err(error(kind, ProbeProblem::Kind(kind.to_owned()))),
        };
        let (binary, rest) = rest.split_once(':').unwrap_or((rest, end(whole)));
        let missing = |part: &str, what| error(part, ProbeProblem::Missing { what, form });
        if binary.is_empty() {
            return Err(missing(
                if rest.is_empty() { end(whole) } else { binary },
                "the program or library",
            ));
        }
        let target = if kind == "usdt" {
            usdt(whole, rest)?
        } else {
            function(whole, rest, kind == "uretprobe", form)?
        };
        Ok(ProbeSpec { text, name, binary, target })
    }

    /// `part` of the text is wrong.
    pub(crate) fn error(&self, part: &str, problem: ProbeProblem) -> ProbeError {
        error(self.text, part, problem)
    }
}

/// The empty end of it.
fn end(text: &str) -> &str {
    text.get(text.len()..).unwrap_or_default()
}

/// `part` is a slice of the text.
fn error(text: &str, part: &str, problem: ProbeProblem) -> ProbeError {
    let start = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    let start = if start <= text.len() { start } else { 0 };
    let end = (start + part.len()).min(text.len());
    ProbeError { spec: text.to_owned(), span: start..end, problem: Box::new(problem) }
}

fn usdt<'a>(whole: &'a str, rest: &'a str) -> Result<ProbeTarget<'a>, ProbeError> {
    let (names, list) = split_list(whole, rest);
    let (provider, name) =
        names.split_once(':').unwrap_or((names, names.get(names.len()..).unwrap_or_default()));
    for (part, what) in [(provider, "the provider"), (name, "the probe's name")] {
        if part.is_empty() {
            return Err(error(whole, part, ProbeProblem::Missing { what, form: USDT_FORM }));
        }
    }
    let arguments = if list.is_empty() { None } else { Some(arguments(whole, list, false)?) };
    no_twins(whole, arguments.as_deref().unwrap_or_default(), "ip")?;
    Ok(ProbeTarget::Usdt(Usdt { provider, name, arguments }))
}

/// What is in front of the parentheses, and they.
fn split_list<'a>(whole: &'a str, rest: &'a str) -> (&'a str, &'a str) {
    match rest.find('(') {
        Some(at) => rest.split_at(at),
        None => (rest, end(whole)),
    }
}

fn function<'a>(
    whole: &'a str,
    rest: &'a str,
    is_return: bool,
    form: &'static str,
) -> Result<ProbeTarget<'a>, ProbeError> {
    let (place, list) = split_list(whole, rest);
    let place = place_of(whole, place, form)?;
    let arguments = arguments(whole, list, true)?;
    let behind = if place.symbol.is_some() { place.offset } else { 0 };
    if is_return {
        if behind > 0 {
            return Err(error(whole, place.text, ProbeProblem::ReturnWithin(behind)));
        }
        if arguments.len() > 1 {
            return Err(error(whole, list, ProbeProblem::Returns { found: arguments.len() }));
        }
        if arguments.iter().any(|argument| !argument.is_recorded()) {
            return Err(error(whole, list, ProbeProblem::Nothing));
        }
    } else if arguments.len() > 6 {
        return Err(error(whole, list, ProbeProblem::TooMany { found: arguments.len() }));
    } else if behind > 0 && !arguments.is_empty() {
        return Err(error(whole, list, ProbeProblem::Within(behind)));
    }
    no_twins(whole, &arguments, if is_return { "ret_ip" } else { "ip" })?;
    Ok(ProbeTarget::Function { place, arguments, is_return })
}

/// `own` is the field that every record has.
fn no_twins(whole: &str, arguments: &[ProbeArgument<'_>], own: &str) -> Result<(), ProbeError> {
    for (index, argument) in arguments.iter().enumerate().filter(|(_, one)| one.is_recorded()) {
        let before = arguments.get(..index).unwrap_or_default();
        if argument.name == own || before.iter().any(|one| one.name == argument.name) {
            return Err(error(whole, argument.name, ProbeProblem::Twice(argument.name.to_owned())));
        }
    }
    Ok(())
}

/// `SYMBOL`, `SYMBOL+OFFSET`, `0xADDRESS`
fn place_of<'a>(
    whole: &'a str,
    text: &'a str,
    form: &'static str,
) -> Result<FunctionPlace<'a>, ProbeError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(error(whole, text, ProbeProblem::Missing { what: "the function", form }));
    }
    if text.starts_with("0x") || text.starts_with("0X") {
        return Ok(FunctionPlace { text, symbol: None, offset: number(whole, text)? });
    }
    let Some((symbol, offset)) = text.split_once('+') else {
        return Ok(FunctionPlace { text, symbol: Some(text), offset: 0 });
    };
    if symbol.is_empty() {
        return Err(error(whole, symbol, ProbeProblem::Missing { what: "the function", form }));
    }
    Ok(FunctionPlace { text, symbol: Some(symbol), offset: number(whole, offset)? })
}

fn number(whole: &str, text: &str) -> Result<u64, ProbeError> {
    let number = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    // Rust's own numbers may have a '+' in front.
    let is_digits = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    number
        .ok()
        .filter(|_| is_digits)
        .ok_or_else(|| error(whole, text, ProbeProblem::Number(text.to_owned())))
}

/// `(a:u32, _, b:str)`; nothing and `()` are none.
fn arguments<'a>(
    whole: &'a str,
    list: &'a str,
    with_types: bool,
) -> Result<Vec<ProbeArgument<'a>>, ProbeError> {
    if list.is_empty() {
        return Ok(vec![]);
    }
    let inside = list.strip_prefix('(').and_then(|list| list.trim_end().strip_suffix(')'));
    let inside = inside.ok_or_else(|| error(whole, list, ProbeProblem::Open))?;
    if inside.trim().is_empty() {
        return Ok(vec![]);
    }
    inside.split(',').map(|text| argument(whole, text.trim(), with_types)).collect()
}

fn argument<'a>(
    whole: &'a str,
    text: &'a str,
    with_types: bool,
) -> Result<ProbeArgument<'a>, ProbeError> {
    if text == "_" || !with_types && is_identifier(text) {
        return Ok(ProbeArgument { name: text, class: None });
    }
    let Some((name, class)) = text.split_once(':') else {
        return Err(error(whole, text, ProbeProblem::NoType(text.to_owned())));
    };
    let (name, class) = (name.trim(), class.trim());
    if !is_identifier(name) {
        return Err(error(whole, name, ProbeProblem::Name(name.to_owned())));
    }
    match class_of(class) {
        Some(class) => Ok(ProbeArgument { name, class: Some(class) }),
        None if matches!(class, "float" | "double" | "f32" | "f64") => {
            Err(error(whole, class, ProbeProblem::Float(class.to_owned())))
        }
        None => Err(error(whole, class, ProbeProblem::Type(class.to_owned()))),
    }
}

fn class_of(name: &str) -> Option<ArgumentClass> {
    let register = |bytes, field| Some(ArgumentClass { kind: REGISTER, bytes, field });
    let (kind, bits) = match name {
        "ptr" => return register(8, hexadecimal(8)),
        "str" => return Some(ArgumentClass { kind: STRING, bytes: 0, field: TEXT }),
        _ => name.split_at_checked(1)?,
    };
    let bytes = match bits {
        "8" => 1,
        "16" => 2,
        "32" => 4,
        "64" => 8,
        _ => return None,
    };
    match kind {
        "u" => register(bytes, FieldClass::Integer(Integer::unsigned(bytes))),
        "s" => register(bytes, FieldClass::Integer(Integer::signed(bytes))),
        "x" => register(bytes, hexadecimal(bytes)),
        _ => None,
    }
}
