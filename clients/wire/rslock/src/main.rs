//! rslock, driven by words on the standard input: `acquire`, `extend`, `release`. Each is answered
//! by a line, as `clients/wire/rslock.py` reports it.

use std::time::Duration;

use rslock::{Lock, LockManager};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

const LEASE: Duration = Duration::from_secs(10);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let nodes = std::env::args().skip(1).collect();
    let locks = LockManager::new::<String>(nodes);
    let mut held = None;
    let mut words = BufReader::new(stdin()).lines();
    while let Ok(Some(word)) = words.next_line().await {
        println!("{}", obey(&locks, &mut held, &word).await);
    }
}

async fn obey(locks: &LockManager, held: &mut Option<Lock>, word: &str) -> &'static str {
    let lock = match (word, held.as_ref()) {
        ("acquire", _) => locks.lock("job".as_bytes(), LEASE).await,
        ("extend", Some(lock)) => locks.extend(lock, LEASE).await,
        (_, Some(lock)) => {
            locks.unlock(lock).await;
            return "returned";
        }
        (_, None) => return "raised nothing is held",
    };
    match lock {
        Ok(lock) => {
            *held = Some(lock);
            "granted"
        }
        Err(rslock::LockError::Unavailable) => "raised Unavailable",
        Err(rslock::LockError::TtlExceeded) => "raised TtlExceeded",
        Err(_) => "raised another error",
    }
}
