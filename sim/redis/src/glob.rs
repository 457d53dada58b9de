//! Patterns of names, as in KEYS, PSUBSCRIBE and ACL rules.

/// Redis's glob: `*`, `?`, `[a-z]`, `[^a]`, `\x`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            retry = Some((at + 1, seen));
            at += 1;
            continue;
        }
        let step = text.get(seen).and_then(|byte| matches_one(&pattern[at..], *byte));
        if let Some(length) = step {
            at += length;
            seen += 1;
        } else if at == pattern.len() && seen == text.len() {
            return true;
        } else {
            let Some((star, from)) = retry.filter(|(_, from)| *from < text.len()) else {
                return false;
            };
            retry = Some((star, from + 1));
            (at, seen) = (star, from + 1);
        }
    }
}

/// How much of the pattern matches the byte, if it does.
fn matches_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => matches_class(rest, byte).map(|length| length + 1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [plain, ..] => (*plain == byte).then_some(1),
    }
}

fn matches_class(class: &[u8], byte: u8) -> Option<usize> {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &class[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                let (low, high) = (from.min(to), from.max(to));
                found |= (low..=high).contains(&&byte);
                at += 3;
            }
            [plain, ..] => {
                found |= *plain == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("*a*b", "xaxxab", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[a-e]llo", "hello", true),
            ("h[^e]llo", "hello", false),
            ("h\\*", "h*", true),
            ("h\\*", "hx", false),
            ("abc", "ab", false),
            ("ab", "abc", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
