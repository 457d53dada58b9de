//! Users: authentication, and the permissions of each.
//!
//! Values only: the session keeps its own user. Selectors in parentheses and first arguments
//! (`+get|key`) are not supported: SETUSER refuses them.

pub mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use crate::digest::sha256_hex;
use crate::frame::word;
use crate::glob::matches;
use crate::specification::flags::Flags;
use crate::specification::keys::{Access, keys_of};
use crate::specification::{Command, facts};

/// The initial user of every connection.
pub const DEFAULT: &[u8] = b"default";
/// Maximum number of denials in the log: `acllog-max-len`.
const MAX_LOG_LEN: usize = 128;
/// Denials that differ only in their time are counted together for this long.
const SAME_FOR_MS: u64 = 60_000;

/// One user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Whether it may authenticate.
    pub on: bool,
    /// Whether it accepts every password.
    pub no_password: bool,
    /// SHA256 of its passwords in lower-case hexadecimal.
    pub passwords: Vec<String>,
    /// Whether `sanitize-payload` (true) or `skip-sanitize-payload` was set.
    pub sanitize: Option<bool>,
    /// Full names, in lower case, of the commands that it may run.
    pub commands: Arc<BTreeSet<&'static str>>,
    /// Whether it may run commands that later versions add.
    pub future: bool,
    /// Whether it may access every key.
    pub all_keys: bool,
    /// Patterns of keys, with the permitted access.
    pub keys: Vec<(Access, Bytes)>,
    /// Whether it may use every channel.
    pub all_channels: bool,
    /// Patterns of channels.
    pub channels: Vec<Bytes>,
}

/// Why a user is denied a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The command is not permitted.
    Command,
    /// This key is not permitted.
    Key(Bytes),
    /// This channel is not permitted.
    Channel(Bytes),
}

impl Denial {
    /// The error text of later servers: it names the user, or only a key or a channel.
    pub fn later_text(&self, user: &[u8], command: &str) -> String {
        match self {
            Denial::Command => {
                let user = String::from_utf8_lossy(user);
                format!("User {user} has no permissions to run the '{command}' command")
            }
            Denial::Key(_) => "No permissions to access a key".to_owned(),
            Denial::Channel(_) => "No permissions to access a channel".to_owned(),
        }
    }

    /// The error text.
    pub fn text(&self, command: &str) -> String {
        match self {
            Denial::Command => {
                format!("NOPERM this user has no permissions to run the '{command}' command")
            }
            Denial::Key(_) => "NOPERM this user has no permissions to access one of the keys used \
                               as arguments"
                .to_owned(),
            Denial::Channel(_) => "NOPERM this user has no permissions to access one of the \
                                   channels used as arguments"
                .to_owned(),
        }
    }
}

/// One entry of ACL LOG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclLogEntry {
    /// How often it happened.
    pub count: i64,
    /// `command`, `key`, `channel` or `auth`.
    pub reason: &'static str,
    /// `toplevel`, `multi` or `lua`.
    pub context: &'static str,
    /// The command, key or channel that was refused.
    pub object: Bytes,
    /// The user.
    pub user: Bytes,
    /// When it last happened, in Unix milliseconds.
    pub at_ms: u64,
    /// The connection, as CLIENT INFO reports it.
    pub client: Bytes,
}

/// All users of a node.
#[derive(Clone, Debug)]
pub struct Users {
    users: BTreeMap<Bytes, User>,
    /// Whether any user has restrictions: otherwise nothing is checked.
    restricted: bool,
    /// Denials, the latest first.
    pub log: Vec<AclLogEntry>,
}

impl Default for Users {
    fn default() -> Users {
        let default = User {
            on: true,
            no_password: true,
            future: true,
            commands: every_command(),
            all_keys: true,
            all_channels: true,
            ..User::default()
        };
        let users = BTreeMap::from([(word("default"), default)]);
        Users { users, restricted: false, log: Vec::new() }
    }
}

const OTHERS: &str = include_str!("users/others.txt");

/// Every command that a rule can name, with its categories, by name.
fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    let others = OTHERS.lines().filter(|line| !line.starts_with('#'));
    facts().chain(others.filter_map(|line| line.split_once(' ')))
}

/// Full names of all commands.
fn every_command() -> Arc<BTreeSet<&'static str>> {
    Arc::clone(&EVERY)
}

/// Shared, because every node starts with a user that has all permissions.
static EVERY: LazyLock<Arc<BTreeSet<&'static str>>> =
    LazyLock::new(|| Arc::new(known().map(|(name, _)| name).collect()));

impl Users {
    /// Users by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &User)> {
        self.users.iter()
    }

    /// A user by name.
    pub fn get(&self, name: &[u8]) -> Option<&User> {
        self.users.get(name)
    }

    /// Sets the user of a name.
    pub fn set(&mut self, name: &[u8], user: User) {
        self.users.insert(Bytes::copy_from_slice(name), user);
        self.restricted = self.users.values().any(|user| !user.may_everything());
    }

    /// Removes a user; whether it existed.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let gone = self.users.remove(name).is_some();
        self.restricted = self.users.values().any(|user| !user.may_everything());
        gone
    }

    /// Gives the default user only this password, or none if it is empty: `requirepass`.
    pub fn require(&mut self, password: &[u8]) {
        let Some(user) = self.users.get_mut(DEFAULT) else { return };
        user.no_password = password.is_empty();
        user.passwords.clear();
        if !password.is_empty() {
            user.passwords.push(sha256_hex(password));
        }
    }

    /// Whether AUTH is required.
    pub fn requires_password(&self) -> bool {
        self.users.get(DEFAULT).is_none_or(|user| !user.no_password || !user.on)
    }

    /// Whether this password is one of the user's.
    pub fn authenticates(&self, name: &[u8], password: &[u8]) -> bool {
        self.users.get(name).is_some_and(|user| {
            user.on && (user.no_password || user.passwords.contains(&sha256_hex(password)))
        })
    }

    /// Why a user may not run this request, if it may not.
    pub fn denies(&self, name: &[u8], command: &Command, args: &[Bytes]) -> Option<Denial> {
        if !self.restricted {
            return None;
        }
        self.users.get(name)?.denial(command, args)
    }

    /// Adds a denial to ACL LOG.
    pub fn note(&mut self, refusal: AclLogEntry) {
        let same = |old: &AclLogEntry| {
            (old.reason, old.context, &old.object, &old.user)
                == (refusal.reason, refusal.context, &refusal.object, &refusal.user)
                && refusal.at_ms.saturating_sub(old.at_ms) <= SAME_FOR_MS
        };
        let count = match self.log.iter().position(same) {
            Some(at) => self.log.remove(at).count + 1,
            None => 1,
        };
        self.log.insert(0, AclLogEntry { count, ..refusal });
        self.log.truncate(MAX_LOG_LEN);
    }
}

impl User {
    fn may_everything(&self) -> bool {
        self.all_keys && self.all_channels && self.commands.len() == known().count()
    }

    /// Why this user may not run this request, if it may not.
    pub fn denial(&self, command: &Command, args: &[Bytes]) -> Option<Denial> {
        if !command.flags.intersects(Flags::NO_AUTH) && !self.may_run(command) {
            return Some(Denial::Command);
        }
        if !self.all_keys {
            let found = keys_of(command, args);
            let denied = found.iter().find(|key| !self.may_access(&args[key.at], key.access));
            if let Some(key) = denied {
                return Some(Denial::Key(args[key.at].clone()));
            }
        }
        if self.all_channels {
            return None;
        }
        let names = channels_of(command, args);
        let denied = names.iter().find(|name| !self.may_use(name, command.name == "PSUBSCRIBE"));
        denied.map(|name| Denial::Channel(Bytes::clone(name)))
    }

    /// Rules know the commands of Redis 7.0.15: later ones are allowed to a user with all future
    /// commands.
    fn may_run(&self, command: &Command) -> bool {
        self.commands.contains(command.lower) || command.since.is_some() && self.future
    }

    fn may_access(&self, key: &[u8], access: Access) -> bool {
        let fits = |(own, pattern): &(Access, Bytes)| own.covers(access) && matches(pattern, key);
        self.keys.iter().any(fits)
    }

    /// A pattern is allowed if it equals one of the user's patterns.
    fn may_use(&self, channel: &[u8], is_pattern: bool) -> bool {
        let fits = |own: &Bytes| if is_pattern { own == channel } else { matches(own, channel) };
        self.channels.iter().any(fits)
    }
}

/// The channels that a request publishes or subscribes to.
fn channels_of<'a>(command: &Command, args: &'a [Bytes]) -> &'a [Bytes] {
    match command.name {
        "SUBSCRIBE" | "SSUBSCRIBE" | "PSUBSCRIBE" => &args[1..],
        "PUBLISH" | "SPUBLISH" => &args[1..2],
        _ => &[],
    }
}
