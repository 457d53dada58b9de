//! The syntax of ACL rules: the arguments of SETUSER and the output of LIST.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::digest::sha256_hex;
use crate::specification::keys::Access;
use crate::users::{User, every_command, known};

const SYNTAX: &str = "Syntax error";
const UNKNOWN: &str = "Unknown command or category name in ACL";
const KEYS_AFTER_ALL: &str = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not \
                              valid and does not have any effect. Try 'resetkeys' to start with \
                              an empty list of patterns";
const CHANNELS_AFTER_ALL: &str = "Adding a pattern after the * pattern (or the 'allchannels' \
                                  flag) is not valid and does not have any effect. Try \
                                  'resetchannels' to start with an empty list of channels";
const NO_HASH: &str = "The password hash must be exactly 64 characters and contain only lowercase \
                       hexadecimal characters";
const NO_PASSWORD: &str = "The password you are trying to remove from the user does not exist";

/// Categories in Redis's order.
pub const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Full names of the commands in a category.
pub fn members(category: &str) -> Option<BTreeSet<&'static str>> {
    let category = CATEGORIES.iter().find(|known| known.eq_ignore_ascii_case(category))?;
    let belongs = |categories: &str| {
        categories.split(',').any(|word| word.strip_prefix('@') == Some(category))
    };
    Some(known().filter(|(_, categories)| belongs(categories)).map(|(name, _)| name).collect())
}

impl User {
    /// Applies one rule.
    ///
    /// # Errors
    /// Redis's error text for an invalid rule.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), &'static str> {
        match rule.to_ascii_lowercase().as_slice() {
            b"on" => self.on = true,
            b"off" => self.on = false,
            b"nopass" => (self.no_password, self.passwords) = (true, Vec::new()),
            b"resetpass" => (self.no_password, self.passwords) = (false, Vec::new()),
            b"sanitize-payload" => self.sanitize = Some(true),
            b"skip-sanitize-payload" => self.sanitize = Some(false),
            b"reset" => *self = User { sanitize: Some(true), ..User::default() },
            b"allkeys" | b"~*" => (self.all_keys, self.keys) = (true, Vec::new()),
            b"resetkeys" => (self.all_keys, self.keys) = (false, Vec::new()),
            b"allchannels" | b"&*" => (self.all_channels, self.channels) = (true, Vec::new()),
            b"resetchannels" => (self.all_channels, self.channels) = (false, Vec::new()),
            b"allcommands" | b"+@all" => (self.future, self.commands) = (true, every_command()),
            b"nocommands" | b"-@all" => (self.future, self.commands) = (false, Arc::default()),
            b"clearselectors" => {}
            _ => return self.apply_with_text(rule),
        }
        Ok(())
    }

    fn apply_with_text(&mut self, rule: &[u8]) -> Result<(), &'static str> {
        let Some((sign, text)) = rule.split_first() else { return Err(SYNTAX) };
        match sign {
            b'>' => self.add_password(sha256_hex(text)),
            b'#' => self.add_password(checked_hash(text)?),
            b'<' => self.remove_password(&sha256_hex(text))?,
            b'!' => self.remove_password(&checked_hash(text)?)?,
            b'~' => self.add_keys(Access::BOTH, text)?,
            b'%' if self.all_keys => return Err(KEYS_AFTER_ALL),
            b'%' => {
                let at = text.iter().position(|byte| *byte == b'~').ok_or(SYNTAX)?;
                let access = Access::of_letters(&text[..at]).ok_or(SYNTAX)?;
                self.add_keys(access, &text[at + 1..])?;
            }
            b'&' if self.all_channels => return Err(CHANNELS_AFTER_ALL),
            b'&' => {
                let pattern = Bytes::copy_from_slice(text);
                if !self.channels.contains(&pattern) {
                    self.channels.push(pattern);
                }
            }
            b'+' | b'-' => {
                let text = std::str::from_utf8(text).map_err(|_| UNKNOWN)?;
                self.allow(text, *sign == b'+')?;
            }
            _ => return Err(SYNTAX),
        }
        Ok(())
    }

    fn add_password(&mut self, hash: String) {
        self.no_password = false;
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
    }

    fn remove_password(&mut self, hash: &str) -> Result<(), &'static str> {
        let at = self.passwords.iter().position(|own| own == hash).ok_or(NO_PASSWORD)?;
        self.passwords.remove(at);
        Ok(())
    }

    fn add_keys(&mut self, access: Access, pattern: &[u8]) -> Result<(), &'static str> {
        if self.all_keys {
            return Err(KEYS_AFTER_ALL);
        }
        if access == Access::BOTH && pattern == b"*" {
            (self.all_keys, self.keys) = (true, Vec::new());
            return Ok(());
        }
        match self.keys.iter_mut().find(|(_, own)| own == pattern) {
            Some((own, _)) => *own = own.and(access),
            None => self.keys.push((access, Bytes::copy_from_slice(pattern))),
        }
        Ok(())
    }

    /// Allows or forbids a command with its subcommands, one subcommand, or a category.
    fn allow(&mut self, text: &str, allowed: bool) -> Result<(), &'static str> {
        let names = match text.strip_prefix('@') {
            Some(category) => members(category).ok_or(UNKNOWN)?,
            None => {
                let lower = text.to_ascii_lowercase();
                let own = |name: &str| {
                    name.strip_prefix(&lower)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
                };
                known().map(|(name, _)| name).filter(|name| own(name)).collect()
            }
        };
        if names.is_empty() && !text.starts_with('@') {
            return Err(UNKNOWN);
        }
        if allowed {
            Arc::make_mut(&mut self.commands).extend(names);
        } else {
            Arc::make_mut(&mut self.commands).retain(|name| !names.contains(name));
        }
        Ok(())
    }

    /// The names of its flags.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut words = vec![if self.on { "on" } else { "off" }];
        words.extend(self.no_password.then_some("nopass"));
        words.extend(
            self.sanitize.map(
                |sanitizes| {
                    if sanitizes { "sanitize-payload" } else { "skip-sanitize-payload" }
                },
            ),
        );
        words
    }

    /// Its patterns of keys.
    pub fn key_rules(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let rule =
            |(access, pattern): &(Access, Bytes)| [access.prefix().as_bytes(), pattern].concat();
        self.keys.iter().map(rule).collect::<Vec<_>>().join(&b' ')
    }

    /// Its patterns of channels.
    pub fn channel_rules(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let rule = |pattern: &Bytes| [&b"&"[..], pattern].concat();
        self.channels.iter().map(rule).collect::<Vec<_>>().join(&b' ')
    }

    /// Rules that produce its commands: best fitting categories first, then single commands.
    pub fn command_rules(&self) -> String {
        let adds = !self.future;
        let mut rules = vec![if adds { "-@all" } else { "+@all" }.to_owned()];
        let mut covered = if adds { BTreeSet::new() } else { BTreeSet::clone(&every_command()) };
        let mut left = BTreeSet::clone(&self.commands);
        while let Some((category, members)) = best_category(&left, adds) {
            rules.push(format!("{}@{category}", if adds { '+' } else { '-' }));
            if adds {
                left.retain(|name| !members.contains(name));
                covered.extend(members);
            } else {
                covered.retain(|name| !members.contains(name));
                left.extend(members);
            }
        }
        for (name, _) in known() {
            let (allowed, expected) = (self.commands.contains(name), covered.contains(name));
            if allowed != expected {
                rules.push(format!("{}{name}", if allowed { '+' } else { '-' }));
                let parts = known().map(|(part, _)| part);
                let own = |part: &&str| *part == name || is_part(part, name);
                for part in parts.filter(own) {
                    if allowed {
                        covered.insert(part)
                    } else {
                        covered.remove(part)
                    };
                }
            }
        }
        rules.join(" ")
    }
}

fn is_part(part: &str, container: &str) -> bool {
    part.strip_prefix(container).is_some_and(|rest| rest.starts_with('|'))
}

fn checked_hash(text: &[u8]) -> Result<String, &'static str> {
    let digits = text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match std::str::from_utf8(text) {
        Ok(text) if digits && text.len() == 64 => Ok(text.to_owned()),
        _ => Err(NO_HASH),
    }
}

/// The category that shares more with the remaining commands than it differs; fewest differences
/// first, then most in common.
fn best_category(
    left: &BTreeSet<&'static str>,
    adds: bool,
) -> Option<(&'static str, BTreeSet<&'static str>)> {
    let mut best = None;
    let (mut fewest, mut most) = (usize::MAX, 0);
    for category in CATEGORIES {
        let members = members(category)?;
        let on = members.intersection(left).count();
        let off = members.len() - on;
        let (same, differs) = if adds { (on, off) } else { (off, on) };
        if same > differs && (differs < fewest || differs == fewest && same > most) {
            (fewest, most) = (differs, same);
            best = Some((category, members));
        }
    }
    best
}
