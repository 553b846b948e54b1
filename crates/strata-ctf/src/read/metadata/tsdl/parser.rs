//! Parses the tokens of one block into its syntax, by recursive descent with limits on depth and parts.

use super::blocks::{Block, BlockKind};
use super::lexer::{long_name, mark, unescape, Lexer, Token};
use super::syntax::*;
use crate::read::metadata::error::{too_deep, too_many, Fault, MetadataProblem};
use crate::read::metadata::limits;
use std::borrow::Cow;

type ParseResult<T> = Result<T, Fault>;

/// Words that are types or parts of the names of types, as in C.
const TYPE_WORDS: [&str; 13] = [
    "void",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "_Bool",
    "_Complex",
    "_Imaginary",
    "const",
];

/// Parses the statements of a block. A declaration is a single statement.
pub(super) fn parse<'t>(text: &'t [u8], block: &Block) -> ParseResult<Vec<Statement<'t>>> {
    let mut lexer = Lexer::new(text, block.begin as usize, block.end as usize);
    let (token, at) = lexer.next()?;
    let mut parser = Parser { lexer, token, at, depth: 0, parts: 0 };
    if block.kind == BlockKind::Declaration {
        let declaration = parser.declaration()?;
        parser.end()?;
        return Ok(vec![Statement::Declaration(declaration)]);
    }
    parser.advance()?; // the keyword
    parser.expect(b'{', "'{'")?;
    let mut statements = Vec::new();
    while !parser.skip(b'}')? {
        parser.count()?;
        statements.push(parser.statement()?);
    }
    parser.expect(b';', "';'")?;
    parser.end()?;
    Ok(statements)
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    /// The current token, and its position.
    token: Token<'t>,
    at: u32,
    depth: u32,
    parts: u32,
}

impl<'t> Parser<'t> {
    fn advance(&mut self) -> ParseResult<Token<'t>> {
        let (token, at) = self.lexer.next()?;
        self.at = at;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn expected<T>(&self, expected: &'static str) -> ParseResult<T> {
        let found = self.token.show();
        Err(Fault::new(self.at, MetadataProblem::Expected { expected, found }))
    }

    fn is(&self, mark: u8) -> bool {
        self.token == Token::Mark(mark)
    }

    fn skip(&mut self, mark: u8) -> ParseResult<bool> {
        let found = self.is(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, mark: u8, expected: &'static str) -> ParseResult<()> {
        match self.skip(mark)? {
            true => Ok(()),
            false => self.expected(expected),
        }
    }

    fn end(&self) -> ParseResult<()> {
        match self.token {
            Token::End => Ok(()),
            _ => self.expected("the end of the block"),
        }
    }

    /// Counts one more part against the limit.
    fn count(&mut self) -> ParseResult<()> {
        self.count_parts(1)
    }

    fn count_parts(&mut self, parts: u32) -> ParseResult<()> {
        self.parts = self.parts.saturating_add(parts);
        match self.parts {
            parts if parts > limits::BLOCK_PARTS => {
                Err(too_many(self.at, "parts of a block", parts.into(), limits::BLOCK_PARTS.into()))
            }
            _ => Ok(()),
        }
    }

    /// Decodes a string token. A long string counts as several parts, since it may take three times its bytes.
    fn string(&mut self, text: &'t [u8]) -> ParseResult<Cow<'t, str>> {
        self.count_parts(u32::try_from(text.len() / 64).unwrap_or(u32::MAX))?;
        Ok(unescape(text))
    }

    /// Runs `inside` one level deeper.
    fn deeper<T>(&mut self, inside: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.depth >= limits::DEPTH {
            return Err(self.too_deep(self.depth + 1));
        }
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        result
    }

    fn too_deep(&self, levels: u32) -> Fault {
        too_deep(self.at, levels)
    }

    fn identifier(&mut self, expected: &'static str) -> ParseResult<&'t str> {
        match self.token {
            Token::Word(word) => {
                self.advance()?;
                Ok(word)
            }
            _ => self.expected(expected),
        }
    }

    fn word_is(&self, word: &str) -> bool {
        self.token == Token::Word(word)
    }

    /// Parses `name = value;`, `name := type;` or a declaration.
    fn statement(&mut self) -> ParseResult<Statement<'t>> {
        let at = self.at;
        match self.token {
            Token::Word("typealias" | "typedef" | "struct" | "variant" | "enum") => {
                return Ok(Statement::Declaration(self.declaration()?));
            }
            Token::Word(_) | Token::Text(_) => (),
            _ => return self.expected("an attribute's name, a declaration or '}'"),
        }
        let name = self.attribute_name()?;
        match self.token {
            Token::Mark(b'=') => {
                self.advance()?;
                let value = self.value()?;
                self.expect(b';', "';'")?;
                Ok(Statement::Attribute(Attribute { at, name, value }))
            }
            Token::Mark(mark::DEFINE) => {
                self.advance()?;
                let class = self.class()?;
                let shape = self.shape()?;
                self.expect(b';', "';'")?;
                Ok(Statement::Definition { at, name, class: Shaped { class, shape } })
            }
            _ => self.expected("'=' or ':='"),
        }
    }

    /// Parses an attribute's name: identifiers with dots between them, as one text.
    fn attribute_name(&mut self) -> ParseResult<Cow<'t, str>> {
        if let Token::Text(text) = self.token {
            let name = self.string(text)?;
            self.advance()?;
            return Ok(name);
        }
        let first = self.identifier("a name")?;
        if !self.dot()? {
            return Ok(Cow::Borrowed(first));
        }
        Ok(Cow::Owned(self.path(first)?.parts.join(".")))
    }

    /// Skips the mark between the names of a reference. Returns whether there was one.
    fn dot(&mut self) -> ParseResult<bool> {
        Ok(self.skip(b'.')? || self.skip(mark::ARROW)?)
    }

    /// Parses the rest of a reference, after its first name and a dot.
    fn path(&mut self, first: &'t str) -> ParseResult<DottedPath<'t>> {
        let at = self.at;
        let mut parts = vec![Cow::Borrowed(first)];
        loop {
            let part = match self.token {
                Token::Word(word) => Cow::Borrowed(word),
                Token::Text(text) if text.len() > limits::NAME_BYTES => {
                    return Err(long_name(self.at, text.len()));
                }
                Token::Text(text) => self.string(text)?,
                _ => return self.expected("a name"),
            };
            self.advance()?;
            self.count()?;
            if parts.len() >= limits::PATH_PARTS {
                let (found, limit) = (parts.len() as u64 + 1, limits::PATH_PARTS as u64);
                return Err(too_many(at, "names of a reference", found, limit));
            }
            parts.push(part);
            if !self.dot()? {
                return Ok(DottedPath { at, parts });
            }
        }
    }

    /// Parses a reference to a field: identifiers with dots between them.
    fn reference(&mut self) -> ParseResult<DottedPath<'t>> {
        let at = self.at;
        let first = self.identifier("a name")?;
        if !self.dot()? {
            return Ok(DottedPath { at, parts: vec![Cow::Borrowed(first)] });
        }
        Ok(DottedPath { at, ..self.path(first)? })
    }

    /// Parses a number, a string or a name with dots, with signs and parentheses around it.
    fn value(&mut self) -> ParseResult<AttributeValue<'t>> {
        let at = self.at;
        let what = match self.token {
            Token::Mark(sign @ (b'-' | b'+')) => {
                self.advance()?;
                match self.deeper(Parser::value)?.what {
                    ValueKind::Number(number) if sign == b'-' => ValueKind::Number(-number),
                    ValueKind::Number(number) => ValueKind::Number(number),
                    _ => return self.expected("a number behind the sign"),
                }
            }
            Token::Mark(b'(') => {
                self.advance()?;
                let value = self.deeper(Parser::value)?;
                self.expect(b')', "')'")?;
                value.what
            }
            Token::Number(number) => {
                self.advance()?;
                ValueKind::Number(number.into())
            }
            Token::Text(text) => {
                let text = self.string(text)?;
                self.advance()?;
                ValueKind::Text(text)
            }
            Token::Word(word) => {
                self.advance()?;
                match self.dot()? {
                    true => ValueKind::Path(DottedPath { at, ..self.path(word)? }),
                    false => ValueKind::Word(word),
                }
            }
            _ => return self.expected("a number, a string or a name"),
        };
        Ok(AttributeValue { at, what })
    }

    fn label_value(&mut self) -> ParseResult<i128> {
        let value = self.value()?;
        match value.what {
            ValueKind::Number(number) => Ok(number),
            _ => Err(Fault::value(value.at, "a label's value", value.show(), "a number")),
        }
    }

    /// Parses `typealias … := …;`, `typedef …;`, or a named type with `;`.
    fn declaration(&mut self) -> ParseResult<Declaration<'t>> {
        self.count()?;
        let declaration = match self.token {
            Token::Word("typealias") => {
                self.advance()?;
                let class = self.class()?;
                let shape = self.shape()?;
                self.expect(mark::DEFINE, "':='")?;
                let at = self.at;
                Declaration::Alias { class: Shaped { class, shape }, name: self.new_name()?, at }
            }
            Token::Word("typedef") => {
                self.advance()?;
                let class = self.class()?;
                Declaration::Typedef { class, declarators: self.declarators()? }
            }
            Token::Word("struct" | "variant" | "enum") => Declaration::Type(self.class()?),
            _ => return self.expected("a block or a declaration"),
        };
        self.expect(b';', "';'")?;
        Ok(declaration)
    }

    /// Parses the new name of an alias: words, and stars after them.
    fn new_name(&mut self) -> ParseResult<Cow<'t, str>> {
        let name = self.type_name()?;
        Ok(with_stars(name, self.stars()?))
    }

    /// Parses a type's name: one identifier, or the words of C with one space between them.
    fn type_name(&mut self) -> ParseResult<Cow<'t, str>> {
        let mut name = Cow::Borrowed("");
        let mut complete = false;
        while let Token::Word(word) = self.token {
            let is_type_word = TYPE_WORDS.contains(&word);
            if complete && !is_type_word {
                break;
            }
            complete |= word != "const";
            self.count()?;
            self.advance()?;
            if name.is_empty() {
                name = Cow::Borrowed(word);
            } else {
                let name = name.to_mut();
                name.push(' ');
                name.push_str(word);
                if name.len() > limits::NAME_BYTES {
                    return Err(long_name(self.at, name.len()));
                }
            }
            if !is_type_word && !self.word_is("const") {
                break;
            }
        }
        match name.is_empty() {
            true => self.expected("a type"),
            false => Ok(name),
        }
    }

    /// Counts the stars of pointers, which may be `const`.
    fn stars(&mut self) -> ParseResult<u32> {
        let mut stars = 0;
        while self.is(b'*') {
            if stars >= limits::DEPTH {
                return Err(self.too_deep(stars + 1));
            }
            self.advance()?;
            stars += 1;
            while self.word_is("const") {
                self.advance()?;
            }
        }
        Ok(stars)
    }

    fn lengths(&mut self) -> ParseResult<Vec<WrittenLength<'t>>> {
        let mut lengths = Vec::new();
        while self.skip(b'[')? {
            self.count()?;
            if lengths.len() >= limits::DEPTH as usize {
                return Err(self.too_deep(limits::DEPTH + 1));
            }
            let value = self.value()?;
            lengths.push(match value.what {
                ValueKind::Path(path) => WrittenLength::Dynamic(path),
                ValueKind::Word(word) => WrittenLength::Dynamic(DottedPath {
                    at: value.at,
                    parts: vec![Cow::Borrowed(word)],
                }),
                ValueKind::Number(number) => match u64::try_from(number) {
                    Ok(number) => WrittenLength::Static(number),
                    Err(_) => {
                        let expected = "0 to 18446744073709551615";
                        return Err(Fault::value(
                            value.at,
                            "an array's length",
                            number.to_string(),
                            expected,
                        ));
                    }
                },
                ValueKind::Text(text) => {
                    let expected = "a number or a field's name";
                    return Err(Fault::value(value.at, "an array's length", text.into(), expected));
                }
            });
            self.expect(b']', "']'")?;
        }
        Ok(lengths)
    }

    fn shape(&mut self) -> ParseResult<DeclaratorShape<'t>> {
        Ok(DeclaratorShape { stars: self.stars()?, lengths: self.lengths()? })
    }

    fn declarators(&mut self) -> ParseResult<Vec<Declarator<'t>>> {
        let mut declarators = Vec::with_capacity(1); // nearly always
        loop {
            self.count()?;
            let stars = self.stars()?;
            let at = self.at;
            let name = self.identifier("a name")?;
            declarators.push(Declarator {
                at,
                name,
                shape: DeclaratorShape { stars, lengths: self.lengths()? },
            });
            if !self.skip(b',')? {
                return Ok(declarators);
            }
        }
    }

    /// Parses a type.
    fn class(&mut self) -> ParseResult<WrittenType<'t>> {
        self.count()?;
        while self.word_is("const") && self.structured_follows() {
            self.advance()?;
        }
        let at = self.at;
        let Token::Word(word) = self.token else {
            return self.expected("a type");
        };
        let kind = match word {
            "integer" => {
                self.advance()?;
                ClassKind::Integer(self.attributes()?)
            }
            "floating_point" => {
                self.advance()?;
                ClassKind::Real(self.attributes()?)
            }
            "string" => {
                self.advance()?;
                ClassKind::Text(if self.is(b'{') { self.attributes()? } else { Vec::new() })
            }
            "struct" => self.structure()?,
            "variant" => self.variant()?,
            "enum" => self.enumeration()?,
            _ => ClassKind::Named(self.type_name()?),
        };
        Ok(WrittenType { at, kind })
    }

    /// Returns whether the token after `const` begins a structured type.
    fn structured_follows(&self) -> bool {
        const STRUCTURED: [&str; 6] =
            ["integer", "floating_point", "string", "struct", "variant", "enum"];
        matches!(self.lexer.clone().next(), Ok((Token::Word(word), _)) if STRUCTURED.contains(&word))
    }

    fn attributes(&mut self) -> ParseResult<Vec<Attribute<'t>>> {
        self.expect(b'{', "'{'")?;
        let mut attributes = Vec::new();
        while !self.skip(b'}')? {
            self.count()?;
            let at = self.at;
            let name = self.attribute_name()?;
            self.expect(b'=', "'='")?;
            let value = self.value()?;
            self.expect(b';', "';'")?;
            attributes.push(Attribute { at, name, value });
        }
        Ok(attributes)
    }

    fn optional_name(&mut self) -> ParseResult<Option<&'t str>> {
        match self.token {
            Token::Word(name) => {
                self.advance()?;
                Ok(Some(name))
            }
            _ => Ok(None),
        }
    }

    fn structure(&mut self) -> ParseResult<ClassKind<'t>> {
        self.advance()?;
        let name = self.optional_name()?;
        let body = self.body(name.is_some())?;
        let mut align = None;
        if body.is_some() && self.word_is("align") {
            self.advance()?;
            self.expect(b'(', "'('")?;
            align = Some(self.value()?);
            self.expect(b')', "')'")?;
        }
        Ok(ClassKind::Structure { name, body, align })
    }

    fn variant(&mut self) -> ParseResult<ClassKind<'t>> {
        self.advance()?;
        let name = self.optional_name()?;
        let mut tag = None;
        if self.skip(b'<')? {
            tag = Some(self.reference()?);
            self.expect(b'>', "'>'")?;
        }
        let body = self.body(name.is_some())?;
        Ok(ClassKind::Variant { name, tag, body })
    }

    /// Parses the fields and declarations between braces.
    fn body(&mut self, may_be_absent: bool) -> ParseResult<Option<Vec<MemberLine<'t>>>> {
        if !self.is(b'{') {
            return match may_be_absent {
                true => Ok(None),
                false => self.expected("'{'"),
            };
        }
        self.deeper(|parser| {
            parser.advance()?;
            let mut items = Vec::new();
            while !parser.skip(b'}')? {
                items.push(parser.item()?);
            }
            Ok(Some(items))
        })
    }

    fn item(&mut self) -> ParseResult<MemberLine<'t>> {
        if let Token::Word("typealias" | "typedef") = self.token {
            return Ok(MemberLine::Declaration(self.declaration()?));
        }
        let class = self.class()?;
        if self.is(b';') {
            if let ClassKind::Named(_)
            | ClassKind::Integer(_)
            | ClassKind::Real(_)
            | ClassKind::Text(_) = class.kind
            {
                return self.expected("a name");
            }
            self.advance()?;
            return Ok(MemberLine::Declaration(Declaration::Type(class)));
        }
        let declarators = self.declarators()?;
        self.expect(b';', "';'")?;
        Ok(MemberLine::Fields { class, declarators })
    }

    fn enumeration(&mut self) -> ParseResult<ClassKind<'t>> {
        self.advance()?;
        let name = self.optional_name()?;
        let mut container = None;
        if self.skip(b':')? {
            container = Some(Box::new(self.deeper(Parser::class)?));
        }
        let mut body = None;
        if self.skip(b'{')? {
            body = Some(self.enumerators()?);
        } else if name.is_none() {
            return self.expected("'{'");
        }
        Ok(ClassKind::Enumeration { name, container, body })
    }

    /// Parses enumerators up to the closing brace, which a comma may precede.
    fn enumerators(&mut self) -> ParseResult<Vec<Enumerator<'t>>> {
        let mut enumerators = Vec::new();
        while !self.skip(b'}')? {
            self.count()?;
            let at = self.at;
            let label = match self.token {
                Token::Word(word) => Cow::Borrowed(word),
                Token::Text(text) => self.string(text)?,
                _ => return self.expected("a label or '}'"),
            };
            self.advance()?;
            let (mut from, mut to) = (None, None);
            if self.skip(b'=')? {
                from = Some(self.label_value()?);
                to = from;
                if self.skip(mark::ELLIPSIS)? {
                    to = Some(self.label_value()?);
                }
            }
            enumerators.push(Enumerator { at, label, from, to });
            if !self.skip(b',')? {
                self.expect(b'}', "',' or '}'")?;
                break;
            }
        }
        Ok(enumerators)
    }
}

/// Returns the name of a pointer to a type: the type's name with `stars` stars.
pub(super) fn with_stars(name: Cow<'_, str>, stars: u32) -> Cow<'_, str> {
    if stars == 0 {
        return name;
    }
    let mut name = name.into_owned();
    for _ in 0..stars {
        name.push_str(" *");
    }
    Cow::Owned(name)
}
