//! A lock of this crate in a service, on a real Redis: acquire, work, extend, release, and what to
//! do if the lock is lost.
//!
//! `cargo run --example production -- 127.0.0.1:6379`. While it works, delete its key
//! (`redis-cli DEL orders`): it stops its work.

use std::error::Error;
use std::time::Duration;

use lockstorm::own::{Extended, Winner, join};
use lockstorm::production::{HeldLock, LockBuilder, Loss, NotAcquired, RedisLock};

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:6379".to_owned());
    let builder = LockBuilder::of("token-lua-renewed")
        .key("orders")
        .ttl(Duration::from_secs(3))
        .hold(Duration::from_secs(1))
        .node(&address);
    println!("The lock keeps its promise as long as this is true:");
    for assumption in builder.assumptions()? {
        println!("- {assumption}");
    }
    // A lock stays on its thread, and renews its lease in a task there.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = tokio::task::LocalSet::new().block_on(&runtime, serve(&builder))?;
    println!("{outcome}");
    Ok(())
}

/// One round of a service, and what came of it.
async fn serve(builder: &LockBuilder) -> Result<String, Box<dyn Error>> {
    let mut lock = builder.open()?;
    let mut held = match lock.acquire().await {
        Ok(held) => held,
        Err(NotAcquired::Refused(why)) => return Ok(format!("not now: {why}")),
        Err(NotAcquired::Unknown) => return Ok("no reply in time: try again later".to_owned()),
    };
    println!("acquired; {:?} left", held.left());
    if let Some(loss) = guarded(&held, work()).await {
        // Somebody else may have the lock by now: touch nothing, and release nothing.
        return Ok(format!("stopped: the lock is lost ({loss:?})"));
    }
    if !has_more_time(&mut lock, &mut held).await {
        return Ok("stopped: the lock could not be extended".to_owned());
    }
    Ok(format!("done; {:?}", lock.release(held).await))
}

/// Works until the work is done or the lock is lost; then the work is dropped at its next await.
async fn guarded(held: &HeldLock, work: impl Future<Output = ()>) -> Option<Loss> {
    match join::race(held.lost(), work).await {
        Winner::Left(loss) => Some(loss),
        Winner::Right(()) => None,
    }
}

/// Extends the lease before the last part of the work. A lock that renews does so by itself too.
async fn has_more_time(lock: &mut RedisLock, held: &mut HeldLock) -> bool {
    match lock.extend(held).await {
        Extended::Kept(_) => true,
        // Without a reply, what is left of the lease still counts.
        Extended::Unknown => held.left().is_none_or(|left| left > Duration::from_millis(500)),
        Extended::Lost => false,
    }
}

/// What must not happen twice at a time.
#[expect(clippy::disallowed_methods, reason = "a service works in real time")]
async fn work() {
    for part in 1..=5 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        println!("part {part} of 5 is done");
    }
}
