//! Token-lua on a replicated master, then WAIT: a grant counts once enough replicas have it. With
//! `fsync`, WAITAOF: a grant counts once it is on the node's own disk and on enough replicas'
//! disks.
//!
//! WAIT counts the replicas that have acknowledged the last write of *its own connection*, and it
//! rolls nothing back: with too few, the lock releases the key and refuses. It does not determine
//! which replica will be promoted.

use async_trait::async_trait;
use lockstorm_platform::time::{Nanos, SECOND};
use lockstorm_redis::frame::Reply;

use crate::lock::algorithm::Algorithm;
use crate::lock::algorithm::token_lua::{TOO_LATE, TokenLua};
use crate::lock::client::{Client, milliseconds};
use crate::lock::config::{LockConfig, WaitShape};
use crate::lock::defaults::LEASE;
use crate::lock::{Acquired, Extended, Grant, Lock, Released, Setting, assumptions, lease};
use crate::promise::{Model, Promise, Work, exclusive};

/// The algorithm's row of the catalogue.
pub const ALGORITHM: Algorithm = Algorithm {
    about: "token-lua on a replicated master, granted when WAIT counts enough replicas",
    waits_for_replicas: true,
    promise,
    ..Algorithm::lease("wait-replicas", |setting| Box::new(WaitReplicas::new(setting)))
};

/// The lock of one caller.
pub struct WaitReplicas {
    setting: Setting,
    lock: TokenLua,
    /// The client that sends WAIT if the connection that wrote does not.
    other: Client,
}

impl WaitReplicas {
    /// The lock on the first node of `setting`.
    pub fn new(setting: Setting) -> WaitReplicas {
        let (lock, other) =
            (TokenLua::new(setting.clone()), Client::of(&setting, &setting.nodes[0]));
        WaitReplicas { lock, other, setting }
    }

    /// Whether enough replicas have the last write; `None` if unknown.
    async fn is_acknowledged(&mut self) -> Option<bool> {
        let config = &self.setting.config;
        self.setting.host.step("waiting-for-replicas").await;
        let (acks, within) = (acks(config), ack_timeout(config));
        let (count, ms) = (acks.to_string(), milliseconds(within));
        let args: [&[u8]; 3] = [b"1", count.as_bytes(), ms.as_bytes()];
        let (command, args) =
            if config.fsync { ("WAITAOF", &args[..]) } else { ("WAIT", &args[1..]) };
        // The node may reply late, by up to one tick of its cron.
        let timeout = within + LEASE.settle(config).timeout;
        let call = self.setting.call.get();
        let client = match config.wait {
            WaitShape::OtherConnection => &mut self.other,
            WaitShape::Own | WaitShape::NotOnExtend => self.lock.client(),
        };
        let reply = client.request(call, timeout, command, args).await.ok()?;
        let enough = |count: i64| count >= i64::from(acks);
        match reply {
            Reply::Integer(count) => Some(enough(count)),
            Reply::Array(counts) => match counts[..] {
                [Reply::Integer(own), Reply::Integer(count)] => Some(own > 0 && enough(count)),
                _ => None,
            },
            _ => None,
        }
    }

    async fn confirm(&mut self, grant: Grant) -> Acquired {
        let is_acknowledged = self.is_acknowledged().await;
        // Checked after WAIT, which may have used up the rest of the lease.
        let is_over = lease::is_over(&self.setting.host, grant.deadline);
        match (is_acknowledged, is_over) {
            (Some(true), false) => Acquired::Granted(grant),
            (None, _) => Acquired::Unknown(grant),
            (Some(enough), _) => {
                self.lock.release(&grant).await;
                let why = if enough { TOO_LATE } else { "too few have acknowledged" };
                Acquired::Refused(why.to_owned())
            }
        }
    }
}

#[async_trait(?Send)]
impl Lock for WaitReplicas {
    async fn acquire(&mut self) -> Acquired {
        match self.lock.take(false).await {
            Acquired::Granted(grant) => self.confirm(grant).await,
            other => other,
        }
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        let extended = self.lock.extend(grant).await;
        let kept = matches!(extended, Extended::Kept(_));
        if !kept || self.setting.config.wait == WaitShape::NotOnExtend {
            return extended;
        }
        match self.is_acknowledged().await {
            Some(true) => extended,
            _ => Extended::Unknown,
        }
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.lock.release(grant).await
    }
}

/// How many replicas must acknowledge: one by default, or none if the node's own disk must.
pub fn acks(config: &LockConfig) -> u32 {
    config.acks.unwrap_or(u32::from(!config.fsync))
}

/// The maximum time that WAIT waits, ns.
fn ack_timeout(config: &LockConfig) -> Nanos {
    config.ack_timeout.unwrap_or_else(|| (LEASE.settle(config).ttl / 10).min(SECOND))
}

/// The promise of token-lua with a lease that is shorter by the time that WAIT takes. It still
/// assumes that there is no failover: the lock is lost if a replica is promoted that was not among
/// those that acknowledged.
fn promise(config: &LockConfig, work: Work) -> Promise {
    let choices = LEASE.settle(config);
    let waits = ack_timeout(config).saturating_add(choices.timeout);
    let work = Work { lasts: work.lasts.saturating_add(waits), ..work };
    exclusive(Model::Lease, assumptions::of_lease(config, &choices, choices.drift_ppm(), work))
}
