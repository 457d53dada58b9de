//! A lock of one's own on lockstorm's RESP client: SET NX PX, and a compare-and-delete in Lua.
//!
//! `cargo run --example own-lock` hunts for a violation within the lock's assumptions, and finds
//! none; a scenario shows what lies outside of them.
//!
//! A lock with a queue of waiters names its key in the `queue` of its promise. One that takes
//! several keys at once sets `groups` and has `acquire_all`. `docs/own-locks.md` of lockstorm has both.

use std::process::ExitCode;

use lockstorm::own::{
    Acquired, Algorithm, Choices, Client, Extended, Grant, HuntTest, LEASE, Lock, Released,
    Setting, TopologyKind, answer, async_trait, milliseconds, scripts, token,
};

/// The name of the lock in scenarios, and its constructor. It makes the promise of every lease.
const ALGORITHM: Algorithm =
    Algorithm::lease("own-lock", |setting| Box::new(OwnLock::new(setting)));

/// The lock of one caller.
struct OwnLock {
    setting: Setting,
    choices: Choices,
    client: Client,
}

impl OwnLock {
    fn new(setting: Setting) -> OwnLock {
        let client = Client::of(&setting, &setting.nodes[0]);
        OwnLock { choices: LEASE.settle(&setting.config), client, setting }
    }
}

#[async_trait(?Send)]
impl Lock for OwnLock {
    async fn acquire(&mut self) -> Acquired {
        let Setting { host, config, call, .. } = &self.setting;
        let lease = self.choices.lease(config);
        let (token, ttl) = (token::fresh(host, call.get(), 0), milliseconds(lease.ttl));
        let args: [&[u8]; 5] =
            [config.key.as_bytes(), token.as_bytes(), b"NX", b"PX", ttl.as_bytes()];
        // The lease runs from before the request: a slow reply shortens the grant.
        let sent = host.now(lease.clock);
        let answer = self.client.request(call.get(), self.choices.timeout, "SET", &args).await;
        let deadline = Some(lease.deadline(host, sent));
        answer::acquired(&answer, Grant::new(token, deadline))
    }

    async fn extend(&mut self, _grant: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        let Setting { config, call, .. } = &self.setting;
        let (keys, args) = ([config.key.as_bytes()], [grant.token.as_bytes()]);
        let script = scripts::COMPARE_AND_DELETE;
        let timeout = self.choices.timeout;
        answer::released(&self.client.eval(call.get(), timeout, script, &keys, &args).await)
    }
}

/// Every violation within the lock's assumptions is a bug of the lock.
fn quarry() -> HuntTest {
    let hunt = lockstorm::own::hunt_own(ALGORITHM, TopologyKind::Single);
    hunt.within_assumptions().seeds(1..=300)
}

fn main() -> ExitCode {
    quarry().report()
}

#[test]
fn it_keeps_its_promise() {
    assert!(quarry().holds().struck_in_hold > 100);
}

#[test]
fn a_gc_pause_outlives_its_lease() {
    lockstorm::own::scenario("examples/own-lock-gc-pause.toml").lock(ALGORITHM).run();
}
