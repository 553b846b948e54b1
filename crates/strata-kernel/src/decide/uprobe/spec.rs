//! Parses the text of a `--probe`.

use crate::decide::uprobe::error::{ProbeError, ProbeProblem};
use crate::decide::uprobe::register;
use strata_abi::kernel::{REGISTER, STRING, TEXT_MAX};
use strata_model::{is_identifier, Base, Element, FieldClass, Integer, Sequence, UNREAD_FIELD};

const FUNCTION_FORM: &str = "uprobe:BINARY:SYMBOL or uprobe:BINARY:SYMBOL(NAME:TYPE,...)";
const RETURN_FORM: &str = "uretprobe:BINARY:SYMBOL or uretprobe:BINARY:SYMBOL(NAME:TYPE)";
const USDT_FORM: &str = "usdt:BINARY:PROVIDER:NAME or usdt:BINARY:PROVIDER:NAME(NAME:TYPE,...)";
const ANY_FORM: &str = "uprobe:BINARY:SYMBOL, uretprobe:BINARY:SYMBOL or usdt:BINARY:PROVIDER:NAME";

/// The parsed text of one `--probe`; all parts are slices of the text.
#[derive(Debug)]
pub(crate) struct ProbeSpec<'a> {
    pub(crate) text: &'a str,
    /// The event's name, if one was given.
    pub(crate) name: Option<&'a str>,
    pub(crate) binary: &'a str,
    /// The list of arguments with its parentheses; empty if there is none.
    pub(crate) list: &'a str,
    pub(crate) target: ProbeTarget<'a>,
}

/// The places that one `--probe` means within its file.
#[derive(Debug)]
pub(crate) enum ProbeTarget<'a> {
    Function { place: FunctionPlace<'a>, arguments: Vec<ProbeArgument<'a>>, is_return: bool },
    Usdt(Usdt<'a>),
}

/// USDT probes, selected by patterns.
#[derive(Debug)]
pub(crate) struct Usdt<'a> {
    pub(crate) provider: &'a str,
    pub(crate) name: &'a str,
    /// The arguments to record; `None` for all that the file describes.
    pub(crate) arguments: Option<Vec<ProbeArgument<'a>>>,
}

/// A place in the file's code.
#[derive(Debug)]
pub(crate) struct FunctionPlace<'a> {
    /// The place as it was written.
    pub(crate) text: &'a str,
    pub(crate) symbol: Option<&'a str>,
    /// The offset from the symbol; without a symbol, the address \[byte\].
    pub(crate) offset: u64,
}

/// An argument or returned value.
#[derive(Debug)]
pub(crate) struct ProbeArgument<'a> {
    pub(crate) name: &'a str,
    /// The type; `None` if a USDT probe takes it from the file.
    pub(crate) class: Option<ArgumentClass>,
    /// The text's length; `None` if it ends at a NUL.
    pub(crate) length: Option<TextLength<'a>>,
}

/// The length of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextLength<'a> {
    /// A fixed number of bytes.
    Bytes(u16),
    /// The value of another argument in the list.
    Argument(&'a str),
}

impl ProbeArgument<'_> {
    /// Returns whether the argument is recorded: its name is not `_`.
    pub(crate) fn is_recorded(&self) -> bool {
        self.name != "_"
    }
}

/// The type of an argument, as it is recorded.
#[derive(Clone, Debug)]
pub(crate) struct ArgumentClass {
    /// The way in which the value is read: `REGISTER`, `STRING`.
    pub(crate) kind: u8,
    pub(crate) bytes: u8,
    pub(crate) field: FieldClass,
}

/// Size of the longest text that is recorded \[byte\].
const TEXT_BYTES: u16 = TEXT_MAX as u16 - 1;

/// Class of a text that is recorded with its length.
pub(crate) const TEXT: FieldClass =
    FieldClass::Sequence(Sequence { element: Element::Text, length_bytes: 2 });

/// Returns the class of an unsigned number that is shown in hexadecimal.
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
        let (_, list) = split_list(whole, rest);
        Ok(ProbeSpec { text, name, binary, list, target })
    }

    /// Makes an error for the wrong slice `part` of the text.
    pub(crate) fn error(&self, part: &str, problem: ProbeProblem) -> ProbeError {
        error(self.text, part, problem)
    }
}

/// Returns the empty slice at the end of the text.
fn end(text: &str) -> &str {
    text.get(text.len()..).unwrap_or_default()
}

/// Makes an error for the slice `part` of the text.
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

/// Splits off the list in parentheses at the end of the text. Returns what precedes it, and the list.
fn split_list<'a>(whole: &'a str, rest: &'a str) -> (&'a str, &'a str) {
    // Go's methods have a type in parentheses, main.(*Server).Handle, and C++ has namespaces without a name.
    let is_name =
        |list: &str| ["(*", "(anonymous namespace)"].iter().any(|it| list.starts_with(it));
    let is_list = |(at, _): &(usize, &str)| !rest.get(*at..).is_some_and(is_name);
    match rest.match_indices('(').find(is_list) {
        Some((at, _)) => rest.split_at(at),
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
        // A text and its length are returned in two registers.
        let has_length = arguments
            .iter()
            .any(|argument| matches!(argument.length, Some(TextLength::Argument(_))));
        if arguments.len() > 1 + usize::from(has_length) {
            return Err(error(whole, list, ProbeProblem::Returns { found: arguments.len() }));
        }
        if arguments.iter().any(|argument| !argument.is_recorded()) {
            return Err(error(whole, list, ProbeProblem::Nothing));
        }
    } else if arguments.len() > register::here().go.len() {
        return Err(error(
            whole,
            list,
            ProbeProblem::TooMany { found: arguments.len(), limit: register::here().go.len() },
        ));
    } else if behind > 0 && !arguments.is_empty() {
        return Err(error(whole, list, ProbeProblem::Within(behind)));
    }
    no_twins(whole, &arguments, if is_return { "ret_ip" } else { "ip" })?;
    Ok(ProbeTarget::Function { place, arguments, is_return })
}

/// Checks that no two arguments have the same name, or the name `own` of the field that every record has.
fn no_twins(whole: &str, arguments: &[ProbeArgument<'_>], own: &str) -> Result<(), ProbeError> {
    for (index, argument) in arguments.iter().enumerate().filter(|(_, one)| one.is_recorded()) {
        let before = arguments.get(..index).unwrap_or_default();
        let is_taken = argument.name == own || argument.name == UNREAD_FIELD;
        if is_taken || before.iter().any(|one| one.name == argument.name) {
            return Err(error(whole, argument.name, ProbeProblem::Twice(argument.name.to_owned())));
        }
    }
    Ok(())
}

/// Parses `SYMBOL`, `SYMBOL+OFFSET` or `0xADDRESS`.
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

/// Parses `(a:u32, _, b:str)`; an empty text and `()` have no arguments.
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
    let all = inside.split(',').map(|text| argument(whole, text.trim(), with_types));
    let all = all.collect::<Result<Vec<_>, _>>()?;
    for one in &all {
        let Some(TextLength::Argument(name)) = one.length else { continue };
        let is_length = |other: &ProbeArgument<'_>| {
            let is_number = |class: &ArgumentClass| class.kind == REGISTER;
            other.name == name && other.class.as_ref().is_none_or(is_number)
        };
        if name == "_" || !all.iter().any(is_length) {
            return Err(error(whole, name, ProbeProblem::NoLength(name.to_owned())));
        }
    }
    Ok(all)
}

fn argument<'a>(
    whole: &'a str,
    text: &'a str,
    with_types: bool,
) -> Result<ProbeArgument<'a>, ProbeError> {
    if text == "_" || !with_types && is_identifier(text) {
        return Ok(ProbeArgument { name: text, class: None, length: None });
    }
    let Some((name, class)) = text.split_once(':') else {
        return Err(error(whole, text, ProbeProblem::NoType(text.to_owned())));
    };
    let (name, class) = (name.trim(), class.trim());
    if !is_identifier(name) {
        return Err(error(whole, name, ProbeProblem::Name(name.to_owned())));
    }
    let (class, length) = match class.strip_prefix("str(").map(|rest| rest.strip_suffix(')')) {
        Some(Some(length)) => ("str", Some(text_length(whole, length.trim())?)),
        Some(None) => return Err(error(whole, class, ProbeProblem::Type(class.to_owned()))),
        None => (class, None),
    };
    match class_of(class) {
        Some(class) => Ok(ProbeArgument { name, class: Some(class), length }),
        None if matches!(class, "float" | "double" | "f32" | "f64") => {
            Err(error(whole, class, ProbeProblem::Float(class.to_owned())))
        }
        None => Err(error(whole, class, ProbeProblem::Type(class.to_owned()))),
    }
}

/// Parses a text's length: the name of an argument, or a number of bytes.
fn text_length<'a>(whole: &'a str, text: &'a str) -> Result<TextLength<'a>, ProbeError> {
    if is_identifier(text) {
        return Ok(TextLength::Argument(text));
    }
    let found = number(whole, text)?;
    match u16::try_from(found) {
        Ok(bytes) if (1..=TEXT_BYTES).contains(&bytes) => Ok(TextLength::Bytes(bytes)),
        _ => Err(error(whole, text, ProbeProblem::Length { found, limit: TEXT_BYTES })),
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
