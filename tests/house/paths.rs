//! The paths in Rust code, read from its text. The reader knows only words, comments, literals and
//! brackets. Code that is compiled only for tests is left out.

/// The tokens before an item that is compiled only for tests.
const FOR_TESTS: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

/// A path, word by word.
pub type Path<'a> = Vec<&'a str>;

/// The paths of a file.
#[derive(Default)]
pub struct Code<'a> {
    /// The paths of its `use` lines: one for each name.
    pub imports: Vec<Path<'a>>,
    /// The paths of more than one word in all other lines.
    pub inline: Vec<Path<'a>>,
    /// The modules that it declares only for tests.
    pub tests: Vec<&'a str>,
}

impl<'a> Code<'a> {
    /// Reads a file.
    pub fn read(text: &'a str) -> Code<'a> {
        let mut code = Code::default();
        let tokens = code.without_tests(&tokens(text));
        let mut at = 0;
        while at < tokens.len() {
            // In a type, `use<'a>` imports nothing.
            if tokens[at] == "use" && tokens.get(at + 1) != Some(&"<") {
                at += 1;
                import(&tokens, &mut at, &[], &mut code.imports);
                continue;
            }
            let goes_on = at > 0 && matches!(tokens[at - 1], "::" | ".");
            let path = path(&tokens[at..]);
            at += (2 * path.len()).saturating_sub(1).max(1);
            if path.len() > 1 && !goes_on {
                code.inline.push(path);
            }
        }
        code
    }

    /// The tokens without items for tests. Records the modules among those items.
    fn without_tests(&mut self, tokens: &[&'a str]) -> Vec<&'a str> {
        let (mut kept, mut at) = (Vec::new(), 0);
        while at < tokens.len() {
            if !tokens[at..].starts_with(&FOR_TESTS) {
                kept.push(tokens[at]);
                at += 1;
                continue;
            }
            at += FOR_TESTS.len();
            let item = &tokens[at..at + item_length(&tokens[at..])];
            let module = item.iter().position(|token| *token == "mod");
            self.tests.extend(module.map(|place| item[place + 1]));
            at += item.len();
        }
        kept
    }
}

/// The number of tokens of an item, a field or a statement.
fn item_length(tokens: &[&str]) -> usize {
    let mut depth = 0_u32;
    for (place, token) in tokens.iter().enumerate() {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return place,
            ")" | "]" => depth -= 1,
            "}" if depth == 1 => return place + 1,
            "}" => depth -= 1,
            ";" | "," if depth == 0 => return place + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Reads one branch of a `use` tree from `at` on, and adds a path for each name in it.
fn import<'a>(tokens: &[&'a str], at: &mut usize, before: &[&'a str], found: &mut Vec<Path<'a>>) {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(*at) {
        match *token {
            ";" | "," | "}" => break,
            "as" => *at += 1,
            "::" | "*" => {}
            "{" => {
                *at += 1;
                while tokens[*at] != "}" {
                    import(tokens, at, &path, found);
                    *at += usize::from(tokens[*at] == ",");
                }
                *at += 1;
                return;
            }
            word => path.push(word),
        }
        *at += 1;
    }
    if path.last() == Some(&"self") {
        path.pop();
    }
    found.push(path);
}

/// The path that begins with the first token; empty if that token is no word.
fn path<'a>(tokens: &[&'a str]) -> Path<'a> {
    let mut path = Path::new();
    for pair in tokens.chunks(2) {
        if !pair[0].starts_with(is_of_word) {
            break;
        }
        path.push(pair[0]);
        if pair.get(1) != Some(&"::") {
            break;
        }
    }
    path
}

/// Words, `::` and single characters, without comments and literals.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| literal(rest));
        let length = skipped.unwrap_or_else(|| match first {
            _ if is_of_word(first) => rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()),
            _ if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        });
        if skipped.is_none() && !first.is_whitespace() {
            tokens.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    tokens
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the comment at the start of the text, if there is one.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    text.starts_with("/*").then(|| text.find("*/").map_or(text.len(), |end| end + 2))
}

/// The length of the string or character literal at the start of the text, if there is one.
fn literal(text: &str) -> Option<usize> {
    let plain = text.strip_prefix('b').unwrap_or(text);
    if let Some(raw) = plain.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inner = raw[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let length = inner.find(&end).map_or(inner.len(), |at| at + end.len());
        return Some(text.len() - inner.len() + length);
    }
    let quote = plain.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    let mut chars = plain.char_indices().skip(1);
    let (mut length, mut is_escaped) = (0, false);
    while let Some((at, c)) = chars.next() {
        length += 1;
        match c {
            '\\' => is_escaped = chars.next().is_some(),
            _ if c == quote => return Some(text.len() - plain.len() + at + 1),
            // A quote without a closing quote right after one character begins a lifetime.
            _ if quote == '\'' && length > 1 && !is_escaped => return None,
            _ => {}
        }
    }
    None
}
