//! `cjson.decode`: JSON, and the extensions of C's number parser, as a Lua value.

use mlua::{Lua, Table, Value};

use crate::float::leading_number;
use crate::script::arguments::ScriptArguments;
use crate::script::cjson::settings::{CjsonSettings, MAX_LEVELS};

/// `cjson.decode(text)`.
pub fn decode(arguments: &ScriptArguments, settings: CjsonSettings) -> mlua::Result<Value> {
    if arguments.count() != 1 {
        return Err(arguments.refuse(1, "expected 1 argument"));
    }
    let text = arguments.text(1)?;
    let text = text.as_bytes();
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(arguments.complain("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut parser = Parser { arguments, settings, text: &text, at: 0, levels: Vec::new() };
    let value = parser.document()?;
    let (token, at) = parser.token();
    if token != Token::End {
        return Err(parser.unexpected("the end", &token, at));
    }
    Ok(value)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Wrong(&'static str),
}

impl Token {
    /// Its name in an error.
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Wrong(why) => why,
        }
    }
}

/// An array or object being parsed.
struct DecodeLevel {
    table: Table,
    place: DecodePlace,
}

/// The position of the next value.
enum DecodePlace {
    Index(usize),
    Key(Vec<u8>),
}

impl DecodeLevel {
    fn put(&mut self, lua: &Lua, value: Value) -> mlua::Result<()> {
        match &mut self.place {
            DecodePlace::Index(index) => {
                self.table.raw_seti(*index, value)?;
                *index += 1;
                Ok(())
            }
            DecodePlace::Key(key) => self.table.raw_set(lua.create_string(key)?, value),
        }
    }
}

struct Parser<'a> {
    arguments: &'a ScriptArguments<'a>,
    settings: CjsonSettings,
    text: &'a [u8],
    at: usize,
    levels: Vec<DecodeLevel>,
}

impl Parser<'_> {
    /// Parses one value, nested ones included.
    fn document(&mut self) -> mlua::Result<Value> {
        let lua = self.arguments.lua;
        let (mut token, mut at) = self.token();
        loop {
            let mut value = match token {
                Token::ObjectBegin => {
                    let table = self.descend()?;
                    (token, at) = self.token();
                    if token != Token::ObjectEnd {
                        let key = self.key(token, at)?;
                        self.levels.push(DecodeLevel { table, place: DecodePlace::Key(key) });
                        (token, at) = self.token();
                        continue;
                    }
                    Value::Table(table)
                }
                Token::ArrayBegin => {
                    let table = self.descend()?;
                    (token, at) = self.token();
                    if token != Token::ArrayEnd {
                        self.levels.push(DecodeLevel { table, place: DecodePlace::Index(1) });
                        continue;
                    }
                    Value::Table(table)
                }
                Token::Text(text) => Value::String(lua.create_string(text)?),
                Token::Number(number) => Value::Number(number),
                Token::Boolean(value) => Value::Boolean(value),
                Token::Null => Value::NULL,
                other => return Err(self.unexpected("value", &other, at)),
            };
            loop {
                let Some(mut level) = self.levels.pop() else { return Ok(value) };
                level.put(lua, value)?;
                (token, at) = self.token();
                let (end, expected) = match level.place {
                    DecodePlace::Index(_) => (Token::ArrayEnd, "comma or array end"),
                    DecodePlace::Key(_) => (Token::ObjectEnd, "comma or object end"),
                };
                if token == end {
                    value = Value::Table(level.table);
                    continue;
                }
                if token != Token::Comma {
                    return Err(self.unexpected(expected, &token, at));
                }
                (token, at) = self.token();
                if let DecodePlace::Key(key) = &mut level.place {
                    *key = self.key(token, at)?;
                    (token, at) = self.token();
                }
                self.levels.push(level);
                break;
            }
        }
    }

    /// Takes a token as the key of an object, with its colon.
    fn key(&mut self, token: Token, at: usize) -> mlua::Result<Vec<u8>> {
        let Token::Text(key) = token else {
            return Err(self.unexpected("object key string", &token, at));
        };
        let (token, at) = self.token();
        if token != Token::Colon {
            return Err(self.unexpected("colon", &token, at));
        }
        Ok(key)
    }

    /// Opens a table one level deeper.
    fn descend(&mut self) -> mlua::Result<Table> {
        let depth = self.levels.len() + 1;
        if depth > self.settings.decode_max_depth.min(MAX_LEVELS) as usize {
            let at = self.at;
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return Err(self.arguments.complain(&text));
        }
        self.arguments.lua.create_table()
    }

    fn unexpected(&self, expected: &str, token: &Token, at: usize) -> mlua::Error {
        let (found, at) = (token.name(), at + 1);
        let text = format!("Expected {expected} but found {found} at character {at}");
        self.arguments.complain(&text)
    }

    /// A byte ahead; zero beyond the end, as C sees it.
    fn ahead(&self, distance: usize) -> u8 {
        self.text.get(self.at + distance).copied().unwrap_or(0)
    }

    /// The next token and its position.
    fn token(&mut self) -> (Token, usize) {
        while matches!(self.ahead(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let at = self.at;
        let single = match self.ahead(0) {
            0 => return (Token::End, at),
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            _ => {
                let token = self.longer_token();
                let is_wrong = matches!(token, Token::Wrong(_));
                return (token, if is_wrong { self.at } else { at });
            }
        };
        self.at += 1;
        (single, at)
    }

    fn longer_token(&mut self) -> Token {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let word = match self.ahead(0) {
            b'"' => return self.quoted(),
            b'-' | b'0'..=b'9' => {
                if !self.settings.decode_invalid_numbers && is_no_json_number(rest) {
                    return Token::Wrong("invalid number");
                }
                return self.number();
            }
            b't' if rest.starts_with(b"true") => (Token::Boolean(true), 4),
            b'f' if rest.starts_with(b"false") => (Token::Boolean(false), 5),
            b'n' if rest.starts_with(b"null") => (Token::Null, 4),
            b'f' | b'i' | b'I' | b'n' | b'N' | b't' | b'+'
                if self.settings.decode_invalid_numbers && is_no_json_number(rest) =>
            {
                return self.number();
            }
            _ => return Token::Wrong("invalid token"),
        };
        self.at += word.1;
        word.0
    }

    fn number(&mut self) -> Token {
        let Some((number, length)) = leading_number(&self.text[self.at..]) else {
            return Token::Wrong("invalid number");
        };
        self.at += length;
        Token::Number(number)
    }

    fn quoted(&mut self) -> Token {
        let mut text = Vec::new();
        self.at += 1;
        loop {
            match self.ahead(0) {
                b'"' => break,
                0 => return Token::Wrong("unexpected end of string"),
                b'\\' => {
                    let plain = match self.ahead(1) {
                        quoted @ (b'"' | b'\\' | b'/') => quoted,
                        b'b' => 8,
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => 12,
                        b'r' => b'\r',
                        b'u' => match self.unicode() {
                            Some(point) => {
                                push_utf8(&mut text, point);
                                continue;
                            }
                            None => return Token::Wrong("invalid unicode escape code"),
                        },
                        _ => return Token::Wrong("invalid escape code"),
                    };
                    text.push(plain);
                    self.at += 2;
                }
                byte => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Token::Text(text)
    }

    /// The code point of an escape; a surrogate pair is combined.
    fn unicode(&mut self) -> Option<u32> {
        let point = self.four_digits(2)?;
        if point & 0xf800 != 0xd800 {
            self.at += 6;
            return Some(point);
        }
        let is_low = point & 0x400 != 0;
        if is_low || self.ahead(6) != b'\\' || self.ahead(7) != b'u' {
            return None;
        }
        let low = self.four_digits(8)?;
        if low & 0xfc00 != 0xdc00 {
            return None;
        }
        self.at += 12;
        Some(((point & 0x3ff) << 10 | low & 0x3ff) + 0x1_0000)
    }

    fn four_digits(&self, distance: usize) -> Option<u32> {
        (distance..distance + 4).try_fold(0, |sum, at| {
            char::from(self.ahead(at)).to_digit(16).map(|digit| sum << 4 | digit)
        })
    }
}

/// UTF-8 of a code point that is not a surrogate.
fn push_utf8(text: &mut Vec<u8>, point: u32) {
    let letter = char::from_u32(point).expect("halves of pairs were refused");
    text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Whether C would parse a number here that JSON does not have.
fn is_no_json_number(text: &[u8]) -> bool {
    let text = match text {
        [b'+', ..] => return true,
        [b'-', rest @ ..] => rest,
        text => text,
    };
    match text {
        [b'0', second, ..] => second.eq_ignore_ascii_case(&b'x') || second.is_ascii_digit(),
        [first, ..] if *first <= b'9' => false,
        [a, b, c, ..] => {
            let word = [a, b, c].map(u8::to_ascii_lowercase);
            &word == b"inf" || &word == b"nan"
        }
        _ => false,
    }
}
