//! A key on one node that holds its owner's token: how it is released and extended.
//!
//! The node compares and changes the key in one atomic step. The two switches that break this on
//! purpose (blind, revive) act here.

use lockstorm_platform::time::{Nanos, SECOND};
use lockstorm_redis::frame::Reply;

use crate::lock::client::answer::{self, Answer};
use crate::lock::client::{Client, RequestError, is_noscript, milliseconds, scripts};
use crate::lock::config::{AcquireShape, ExtendShape, LockConfig, ReleaseShape};
use crate::lock::lease::Lease;
use crate::lock::{Call, Extended, Released, Setting};

/// The key of a lock on one node, with its own connection.
pub struct OwnedKey {
    client: Client,
    setting: Setting,
    timeout: Nanos,
    lacks_script: bool,
}

/// The name of a key's fence counter. Its braces put it into the slot of the key: a script that
/// touches both requires that. A key with braces already names its slot.
fn counter(key: &str) -> String {
    if key.contains('{') { format!("{key}:fence") } else { format!("{{{key}}}:fence") }
}

impl OwnedKey {
    /// The key on the first node of `setting`, with this timeout for each request.
    pub fn new(setting: Setting, timeout: Nanos) -> OwnedKey {
        OwnedKey {
            client: Client::of(&setting, &setting.nodes[0]),
            setting,
            timeout,
            lacks_script: false,
        }
    }

    /// Sets the key to the token unless it exists.
    pub async fn set(&mut self, call: Call, token: &str, ttl: Nanos, unit: Nanos) -> Answer {
        let config = &self.setting.config;
        set(&mut self.client, call, self.timeout, config, token, (ttl, unit)).await
    }

    /// SET key token NX PX ttl and INCR of the key's fence counter, in one script.
    pub async fn set_and_fence(&mut self, call: Call, token: &str, ttl: Nanos) -> Answer {
        let ttl = milliseconds(ttl);
        let counter = counter(&self.setting.config.key);
        let keys = [self.setting.config.key.as_bytes(), counter.as_bytes()];
        let args = [token.as_bytes(), ttl.as_bytes()];
        self.client.eval(call, self.timeout, scripts::SET_AND_FENCE, &keys, &args).await
    }

    /// The client that connects to the key's node.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Deletes the key if it holds the token.
    pub async fn release(&mut self, call: Call, token: &str) -> Released {
        let config = &self.setting.config;
        answer::released(&delete(&mut self.client, call, self.timeout, config, token).await)
    }

    /// Sets the key's time to live to `left` ns if it holds the token; a blind release compares
    /// nothing.
    pub async fn keep(&mut self, call: Call, token: &str, left: Nanos) -> Released {
        let (key, left) = (self.setting.config.key.as_bytes(), milliseconds(left));
        let answer = match self.setting.config.release {
            ReleaseShape::Own => {
                let args = [token.as_bytes(), left.as_bytes()];
                let script = scripts::COMPARE_AND_PEXPIRE;
                self.client.eval(call, self.timeout, script, &[key], &args).await
            }
            ReleaseShape::Blind => {
                let args = [key, left.as_bytes()];
                self.client.request(call, self.timeout, "PEXPIRE", &args).await
            }
        };
        answer::released(&answer)
    }

    /// Whether the last [`OwnedKey::extend`] failed because the node no longer has its script.
    pub fn lacks_script(&self) -> bool {
        self.lacks_script
    }

    /// Sets the key's time to live to `lease.ttl` if it holds the token. Waits at most `within` ns.
    pub async fn extend(
        &mut self,
        call: Call,
        token: &str,
        lease: &Lease,
        within: Nanos,
    ) -> Extended {
        let host = &self.setting.host;
        // Read before the request leaves: the node sets the expiry later, so the holder's deadline
        // is never after that expiry.
        let sent = host.now(lease.clock);
        let timeout = self.timeout.min(within);
        let config = &self.setting.config;
        let answer = prolong(&mut self.client, call, timeout, config, token, lease.ttl).await;
        self.lacks_script = answer.as_ref().is_ok_and(is_noscript);
        answer::extended(&answer, lease.deadline(host, sent))
    }
}

/// Sets the lock's key on one node to the token, with the request that the configuration
/// prescribes. The time to live is sent in that unit.
pub async fn set(
    client: &mut Client,
    call: Call,
    timeout: Nanos,
    config: &LockConfig,
    token: &str,
    (ttl, unit): (Nanos, Nanos),
) -> Answer {
    let key = config.key.as_bytes();
    if config.acquire == AcquireShape::AbsentOrOwn {
        let (script, ttl) = (scripts::SET_IF_ABSENT_OR_OWN, milliseconds(ttl));
        let args = [token.as_bytes(), ttl.as_bytes()];
        return client.eval(call, timeout, script, &[key], &args).await;
    }
    let (word, ttl): (&[u8], _) = match unit {
        SECOND => (b"EX", (ttl / SECOND).to_string()),
        _ => (b"PX", milliseconds(ttl)),
    };
    let args: [&[u8]; 5] = [key, token.as_bytes(), b"NX", word, ttl.as_bytes()];
    client.request(call, timeout, "SET", &args).await
}

/// Deletes the lock's key on one node, with the request that the configuration prescribes.
pub async fn delete(
    client: &mut Client,
    call: Call,
    timeout: Nanos,
    config: &LockConfig,
    token: &str,
) -> Result<Reply, RequestError> {
    let key = config.key.as_bytes();
    match config.release {
        ReleaseShape::Own => {
            let script = scripts::COMPARE_AND_DELETE;
            client.eval(call, timeout, script, &[key], &[token.as_bytes()]).await
        }
        ReleaseShape::Blind => client.request(call, timeout, "DEL", &[key]).await,
    }
}

/// Extends the lock's key on one node by `ttl` from now, with the request that the configuration
/// prescribes.
pub async fn prolong(
    client: &mut Client,
    call: Call,
    timeout: Nanos,
    config: &LockConfig,
    token: &str,
    ttl: Nanos,
) -> Result<Reply, RequestError> {
    let (key, ttl) = (config.key.as_bytes(), milliseconds(ttl));
    let script = match config.extend {
        ExtendShape::Own => scripts::COMPARE_AND_PEXPIRE,
        ExtendShape::Revive => scripts::PEXPIRE_OR_REVIVE,
        ExtendShape::Blind => {
            return client.request(call, timeout, "PEXPIRE", &[key, ttl.as_bytes()]).await;
        }
    };
    client.eval(call, timeout, script, &[key], &[token.as_bytes(), ttl.as_bytes()]).await
}
