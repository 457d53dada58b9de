//! The settings of a server. They are checked before anything starts.

use std::fmt;

use bytes::Bytes;
use lockstorm_redis::compat::Compat;
use lockstorm_redis::node::{Append, Node, NodeConfig};

use crate::local_request::query;

/// The maximum number of replicas.
const MAX_REPLICAS: usize = 16;

/// Parameters that a builder cannot set with CONFIG SET, and what to write instead.
const INSTEAD: [(&str, &str); 6] = [
    ("port", "the system chooses a free port"),
    ("appendonly", "write .append(Append::Everysec)"),
    ("appendfsync", "write .append(Append::Everysec)"),
    ("replicaof", "write .replicas(1)"),
    ("requirepass", "write .password(\"...\")"),
    ("masterauth", "replicas know the password"),
];

/// The settings of a server; the default is Redis 7.0 without a configuration file.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    pub(crate) config: NodeConfig,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) replicas: usize,
    pub(crate) seed: u64,
}

/// A refused setting: which one, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSetting(String);

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadSetting {}

impl Builder {
    /// Clients must send AUTH with this password; it is part of the URL.
    #[must_use]
    pub fn password(mut self, password: &str) -> Builder {
        self.config.password = Bytes::copy_from_slice(password.as_bytes());
        self
    }

    /// The server and version that it emulates; the default is Redis 7.0.15.
    #[must_use]
    pub fn compat(mut self, compat: Compat) -> Builder {
        self.config.compat = compat;
        self
    }

    /// The number of replicas.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Builder {
        self.replicas = replicas;
        self
    }

    /// Whether it keeps an append-only file, and when it syncs it. This decides what survives a
    /// crash and a loss of power. The file is in memory.
    #[must_use]
    pub fn append(mut self, append: Append) -> Builder {
        self.config.append = append;
        self
    }

    /// The classes of keyspace notifications that it publishes: `"Kx"` are those of expired keys.
    #[must_use]
    pub fn notify(self, classes: &str) -> Builder {
        self.config("notify-keyspace-events", classes)
    }

    /// Sets a parameter of `redis.conf` at every start, in the words of CONFIG SET.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Builder {
        self.parameters.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The seed of its draws, such as those of RANDOMKEY and SPOP. In a simulation the same seed
    /// gives the same draws; on real sockets the time of day also enters the draws.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Builder {
        self.seed = seed;
        self
    }

    /// Validates the settings.
    pub(crate) fn check(&self) -> Result<(), BadSetting> {
        if self.replicas > MAX_REPLICAS {
            let what = format!("replicas({}): at most {MAX_REPLICAS} are run", self.replicas);
            return Err(BadSetting(what));
        }
        let mut node = Node::new(self.config.clone(), 0, [0; 3]);
        for (name, value) in &self.parameters {
            let refused =
                |why: &str| Err(BadSetting(format!("config({name:?}, {value:?}): {why}")));
            let instead = INSTEAD.iter().find(|(bad, _)| name.eq_ignore_ascii_case(bad));
            if let Some((_, instead)) = instead {
                return refused(instead);
            }
            if let Some(error) = query(&mut node, &["CONFIG", "SET", name, value]).error() {
                return refused(&error);
            }
            // The link of a replica counts as a client; without room for it, it would never follow.
            let is_full = value.parse().is_ok_and(|clients: usize| clients <= self.replicas);
            if name.eq_ignore_ascii_case("maxclients") && is_full {
                let least = self.replicas + 1;
                return refused(&format!("each replica is a client: write at least {least}"));
            }
        }
        Ok(())
    }

    /// Validates the settings of a server in a user's own simulation.
    #[cfg(feature = "turmoil")]
    pub(crate) fn check_in_sim(&self) -> Result<(), BadSetting> {
        if self.replicas > 0 {
            let what = format!("replicas({}): a server in a simulation has none", self.replicas);
            return Err(BadSetting(what));
        }
        self.check()
    }

    /// Sets the parameters that have no field in the configuration on a starting node.
    pub(crate) fn configure(&self, node: &mut Node) {
        for (name, value) in &self.parameters {
            query(node, &["CONFIG", "SET", name, value]);
        }
        if !self.config.password.is_empty() {
            let password = String::from_utf8_lossy(&self.config.password);
            query(node, &["CONFIG", "SET", "masterauth", &password]);
        }
    }

    /// The URL of a server at this address.
    pub(crate) fn url(&self, address: &str) -> String {
        if self.config.password.is_empty() {
            return format!("redis://{address}");
        }
        let escaped = |byte: &u8| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        let password: String = self.config.password.iter().map(escaped).collect();
        format!("redis://:{password}@{address}")
    }
}

#[cfg(test)]
mod tests {
    use super::Builder;

    fn refusal(builder: &Builder) -> String {
        builder.check().expect_err("it is refused").to_string()
    }

    #[test]
    fn bad_settings_are_refused_with_what_to_write_instead() {
        let builder = Builder::default;
        assert_eq!(refusal(&builder().replicas(17)), "replicas(17): at most 16 are run");
        assert_eq!(
            refusal(&builder().config("port", "6379")),
            "config(\"port\", \"6379\"): the system chooses a free port"
        );
        assert_eq!(
            refusal(&builder().config("maxmemory", "much")),
            "config(\"maxmemory\", \"much\"): ERR CONFIG SET failed (possibly related to argument \
             'maxmemory') - argument must be a memory value"
        );
        assert_eq!(
            refusal(&builder().config("max-memory", "1mb")),
            "config(\"max-memory\", \"1mb\"): ERR Unknown option or number of arguments for CONFIG \
             SET - 'max-memory'"
        );
        assert_eq!(
            refusal(&builder().replicas(2).config("maxclients", "2")),
            "config(\"maxclients\", \"2\"): each replica is a client: write at least 3"
        );
        assert!(refusal(&builder().notify("Q")).starts_with("config(\"notify-keyspace-events\""));
        let good = builder().password("x").replicas(2).notify("Kx").config("maxmemory", "1mb");
        assert_eq!(good.check(), Ok(()));
    }

    #[test]
    fn a_password_is_part_of_the_url() {
        let url = Builder::default().password("p@ss").url("127.0.0.1:1");
        assert_eq!(url, "redis://:p%40ss@127.0.0.1:1");
        assert_eq!(Builder::default().url("redis:6379"), "redis://redis:6379");
    }
}
