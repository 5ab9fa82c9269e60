//! JSON (RFC 8259) as a tree in which every value knows its line and column.
//!
//! `serde_json` stops at the first error and forgets positions and duplicate keys; a person wants every problem at once.
//! What is usual in hand-written files (a comment, a comma too many or too few) is reported and read past; the rest of the
//! syntax is strict. Memory grows in proportion to the input, and the depth is limited.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// Both count from 1; the column counts characters, as editors show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub position: Position,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Null,
    Bool(bool),
    /// As written.
    Number(String),
    String(String),
    Array(Vec<Value>),
    /// In the order of the file, duplicates included.
    Object(Vec<Member>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub key: String,
    /// Of the key.
    pub position: Position,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    pub position: Position,
    pub message: String,
}

/// The tree, as far as it could be read, and everything that is not JSON about it; valid JSON gives no errors.
pub fn parse(text: &str) -> (Option<Value>, Vec<SyntaxError>) {
    let mut parser =
        Parser { rest: text.chars().peekable(), position: Position { line: 1, column: 1 }, errors: Vec::new() };
    let value = parser.document().ok();
    (value, parser.errors)
}

impl Kind {
    /// With its article, for "expected a string, found …".
    pub fn noun(&self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool(_) => "true or false",
            Kind::Number(_) => "a number",
            Kind::String(_) => "a string",
            Kind::Array(_) => "a list",
            Kind::Object(_) => "an object",
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The error is in the parser's list already, and reading cannot go on.
struct Lost;

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    position: Position,
    errors: Vec<SyntaxError>,
}

impl Parser<'_> {
    fn document(&mut self) -> Result<Value, Lost> {
        self.blanks();
        if self.rest.peek().is_none() {
            return self.lost("the file is empty: expected { … }");
        }
        let value = self.value(MAX_DEPTH)?;
        self.blanks();
        if self.rest.peek().is_some() {
            self.expected("the end of the file");
        }
        Ok(value)
    }

    fn value(&mut self, depth: usize) -> Result<Value, Lost> {
        self.blanks();
        let position = self.position;
        let Some(depth) = depth.checked_sub(1) else {
            return self.lost("too many levels of { and [");
        };
        let kind = match self.rest.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.array(depth)?,
            Some('"') => Kind::String(self.string()?),
            Some('-' | '0'..='9') => Kind::Number(self.number()?),
            Some('\'') => return self.lost("strings take double quotes"),
            Some(c) if c.is_ascii_alphabetic() => self.word()?,
            Some(_) | None => {
                self.expected("a value");
                return Err(Lost);
            }
        };
        Ok(Value { position, kind })
    }

    fn object(&mut self, depth: usize) -> Result<Kind, Lost> {
        let start = self.position;
        self.next();
        let mut members = Vec::new();
        loop {
            self.blanks();
            let position = self.position;
            match self.rest.peek() {
                Some('}') if members.is_empty() => break,
                Some('"') => {}
                Some('}') => {
                    self.error("no comma may stand after the last field");
                    break;
                }
                Some(_) => {
                    self.expected("a field name in double quotes");
                    return Err(Lost);
                }
                None => return self.lost(format!("the file ends, but the {{ of line {} is still open", start.line)),
            }
            let key = self.string()?;
            self.blanks();
            if self.rest.peek() != Some(&':') {
                self.expected(&format!(": after {}", quoted(&key)));
                return Err(Lost);
            }
            self.next();
            let value = self.value(depth)?;
            members.push(Member { key, position, value });
            self.blanks();
            match self.rest.peek() {
                Some(',') => self.next(),
                Some('}') => break,
                Some('"') => self.error("a comma is missing before this field"),
                Some(_) => {
                    self.expected(", or }");
                    return Err(Lost);
                }
                None => return self.lost(format!("the file ends, but the {{ of line {} is still open", start.line)),
            }
        }
        self.next();
        Ok(Kind::Object(members))
    }

    fn array(&mut self, depth: usize) -> Result<Kind, Lost> {
        let start = self.position;
        self.next();
        let mut values = Vec::new();
        loop {
            self.blanks();
            match self.rest.peek() {
                Some(']') if values.is_empty() => break,
                Some(']') => {
                    self.error("no comma may stand after the last value");
                    break;
                }
                Some(_) => {}
                None => return self.lost(format!("the file ends, but the [ of line {} is still open", start.line)),
            }
            values.push(self.value(depth)?);
            self.blanks();
            match self.rest.peek() {
                Some(',') => self.next(),
                Some(']') => break,
                Some('"' | '{' | '[') => self.error("a comma is missing before this value"),
                Some(_) => {
                    self.expected(", or ]");
                    return Err(Lost);
                }
                None => return self.lost(format!("the file ends, but the [ of line {} is still open", start.line)),
            }
        }
        self.next();
        Ok(Kind::Array(values))
    }

    fn string(&mut self) -> Result<String, Lost> {
        let start = self.position;
        self.next();
        let mut text = String::new();
        loop {
            match self.rest.peek().copied() {
                Some('"') => break self.next(),
                Some('\\') => text.push(self.escape()?),
                Some('\n' | '\r') | None => {
                    self.report(start, "the string that begins here has no closing quote in its line");
                    return Err(Lost);
                }
                Some(c) => {
                    if c < ' ' {
                        self.error(format!("write this control character as \\u{:04x}", u32::from(c)));
                    }
                    text.push(c);
                    self.next();
                }
            }
        }
        Ok(text)
    }

    fn escape(&mut self) -> Result<char, Lost> {
        let start = self.position;
        self.next();
        let letter = self.rest.peek().copied();
        if letter != Some('\n') {
            self.next();
        }
        Ok(match letter {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => return self.unicode_escape(start),
            _ => {
                self.report(start, "expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
                char::REPLACEMENT_CHARACTER
            }
        })
    }

    /// RFC 8259 §7: characters beyond the basic plane are written as a pair of surrogates.
    fn unicode_escape(&mut self, start: Position) -> Result<char, Lost> {
        let first = self.four_digits(start)?;
        let code = if (0xd800..0xdc00).contains(&first) && self.rest.peek() == Some(&'\\') {
            self.next();
            if self.rest.peek() != Some(&'u') {
                self.report(start, "half of a surrogate pair");
                return Err(Lost);
            }
            self.next();
            let second = self.four_digits(start)?;
            match second.checked_sub(0xdc00) {
                Some(low) if low < 0x400 => 0x10000 + ((first - 0xd800) << 10) + low,
                _ => first,
            }
        } else {
            first
        };
        Ok(char::from_u32(code).unwrap_or_else(|| {
            self.report(start, "half of a surrogate pair");
            char::REPLACEMENT_CHARACTER
        }))
    }

    fn four_digits(&mut self, start: Position) -> Result<u32, Lost> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(16)) else {
                self.report(start, "expected four hexadecimal digits after \\u");
                return Err(Lost);
            };
            code = code * 16 + digit;
            self.next();
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<String, Lost> {
        let start = self.position;
        let mut text = String::new();
        self.take_if(&mut text, |c| c == '-');
        if self.take_if(&mut text, |c| c == '0') {
            if self.rest.peek().is_some_and(char::is_ascii_digit) {
                self.report(start, "a number does not begin with 0: JSON has no octal or hexadecimal numbers");
                while self.take_if(&mut text, |c| c.is_ascii_digit()) {}
            } else if matches!(self.rest.peek(), Some('x' | 'X')) {
                self.report(start, "JSON has no hexadecimal numbers: write it in decimal");
                while self.take_if(&mut text, |c| c.is_ascii_alphanumeric()) {}
            }
        } else {
            self.digits(&mut text)?;
        }
        if self.take_if(&mut text, |c| c == '.') {
            self.digits(&mut text)?;
        }
        if self.take_if(&mut text, |c| matches!(c, 'e' | 'E')) {
            self.take_if(&mut text, |c| matches!(c, '+' | '-'));
            self.digits(&mut text)?;
        }
        Ok(text)
    }

    fn digits(&mut self, text: &mut String) -> Result<(), Lost> {
        if !self.take_if(text, |c| c.is_ascii_digit()) {
            self.expected("a digit");
            return Err(Lost);
        }
        while self.take_if(text, |c| c.is_ascii_digit()) {}
        Ok(())
    }

    fn word(&mut self) -> Result<Kind, Lost> {
        let start = self.position;
        let mut text = String::new();
        while self.take_if(&mut text, |c| c.is_ascii_alphanumeric() || c == '_') {}
        Ok(match text.as_str() {
            "true" => Kind::Bool(true),
            "false" => Kind::Bool(false),
            "null" => Kind::Null,
            _ => {
                let hint = match text.to_ascii_lowercase().as_str() {
                    "true" | "yes" | "on" => "write true",
                    "false" | "no" | "off" => "write false",
                    "none" | "nil" | "null" => "write null",
                    _ => "strings take double quotes",
                };
                self.report(start, format!("expected a value, found {}: {hint}", quoted(&text)));
                return Err(Lost);
            }
        })
    }

    /// Blanks, and comments, which are an error but easily read past.
    fn blanks(&mut self) {
        loop {
            match self.rest.peek() {
                Some(' ' | '\t' | '\n' | '\r') => self.next(),
                Some('#') => self.comment(),
                Some('/') => {
                    let mut ahead = self.rest.clone();
                    ahead.next();
                    match ahead.next() {
                        Some('/') => self.comment(),
                        Some('*') => self.long_comment(),
                        _ => return,
                    }
                }
                _ => return,
            }
        }
    }

    fn comment(&mut self) {
        self.error(NO_COMMENTS);
        while self.rest.peek().is_some_and(|&c| c != '\n') {
            self.next();
        }
    }

    fn long_comment(&mut self) {
        self.error(NO_COMMENTS);
        let mut star = false;
        self.next();
        self.next();
        while let Some(&c) = self.rest.peek() {
            self.next();
            if star && c == '/' {
                return;
            }
            star = c == '*';
        }
    }

    fn take_if(&mut self, text: &mut String, wanted: impl Fn(char) -> bool) -> bool {
        match self.rest.peek() {
            Some(&c) if wanted(c) => {
                text.push(c);
                self.next();
                true
            }
            _ => false,
        }
    }

    fn next(&mut self) {
        match self.rest.next() {
            Some('\n') => self.position = Position { line: self.position.line.saturating_add(1), column: 1 },
            Some(_) => self.position.column = self.position.column.saturating_add(1),
            None => {}
        }
    }

    fn expected(&mut self, what: &str) {
        let found = match self.rest.peek() {
            Some(c) => quoted(&c.to_string()),
            None => "the end of the file".to_owned(),
        };
        self.error(format!("expected {what}, found {found}"));
    }

    fn error(&mut self, message: impl Into<String>) {
        self.report(self.position, message);
    }

    fn report(&mut self, position: Position, message: impl Into<String>) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(SyntaxError { position, message: message.into() });
        }
    }

    fn lost<T>(&mut self, message: impl Into<String>) -> Result<T, Lost> {
        self.error(message);
        Err(Lost)
    }
}

/// A value of the user's as it stands in a message: in quotes, without control characters, not too long.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for (index, c) in text.chars().enumerate() {
        if index == MAX_QUOTED {
            out.push('…');
            break;
        }
        if c.is_control() {
            out.extend(c.escape_debug());
        } else {
            out.push(c);
        }
    }
    out.push('"');
    out
}

const MAX_DEPTH: usize = 64;
const MAX_ERRORS: usize = 100;
const MAX_QUOTED: usize = 48;
const NO_COMMENTS: &str = "JSON has no comments: use a \"description\" field";

#[cfg(test)]
mod tests;
