//! A client: acquires the lock, works at the resource, releases the lock, rests, and repeats.
//!
//! Unless the workload says otherwise, a client is a well-behaved caller: it releases what an
//! unknown acquire may have left, and stops all accesses once it is notified that its grant is
//! lost.

use std::sync::Arc;

use lockstorm_platform::host::Host;
use lockstorm_platform::rng::{Purpose, below};
use lockstorm_platform::time::{MILLISECOND, Nanos};

use crate::history::RESOURCE;
use crate::lock::{Grant, client, lease, token};
use crate::plan::buggy_caller::BuggyCaller;
use crate::plan::host_name::caller_name;
use crate::workload::Job;
use crate::workload::caller::{Caller, Held, Taken, Wish};
use crate::workload::critical_section::CriticalSection;
use crate::workload::firing;
use crate::workload::guard::{Ending, Finished};
use crate::workload::round::Round;

/// The process of the client that starts as number `index`, counted from 0, with all its callers
/// and their work of each round. A restarted process begins anew.
pub async fn run(host: Host, job: Job, section: Arc<dyn CriticalSection>, index: u32) {
    let callers = job.workload.callers;
    let ending = Ending::default();
    let name = |nth: u32| caller_name(host.name(), nth + 1, callers);
    for nth in 1..callers {
        let (own, name, job, section) =
            (host.clone(), name(nth), job.clone(), Arc::clone(&section));
        let (start, ending) = (index * callers + nth, ending.clone());
        host.spawn(async move { call(&own, &name, &job, &*section, (start, ending)).await });
    }
    call(&host, &name(0), &job, &*section, (index * callers, ending)).await;
}

/// One caller, which starts as number `start` of all callers.
async fn call(
    host: &Host,
    name: &str,
    job: &Job,
    section: &dyn CriticalSection,
    (start, ending): (u32, Ending),
) {
    host.sleep(job.workload.stagger.saturating_mul(Nanos::from(start))).await;
    let Ok(mut caller) = Caller::new(host, name, job, ending) else { return };
    // A lock that ends its process has already been recorded.
    let _ = rounds(&mut caller, job, section).await;
}

async fn rounds(
    caller: &mut Caller,
    job: &Job,
    section: &dyn CriticalSection,
) -> Result<(), Finished> {
    let host = caller.host().clone();
    let mut resource = client::Client::new(host.clone(), RESOURCE);
    'rounds: for _ in 0..job.workload.rounds {
        let wishes = wishes(caller, job);
        for (nth, wish) in wishes.iter().enumerate() {
            let (taken, period) = match job.workload.period {
                0 => (take(caller, job, wish).await?, 0),
                length => take_in_period(caller, job, length).await?,
            };
            if taken.is_none() && job.stop.get() {
                return Ok(());
            }
            let Some(mut held) = taken else { continue 'rounds };
            let round = Round::new(caller, &mut held, job, &mut resource).of_period(period);
            let mut round = round.with_next(nth + 1 < wishes.len());
            section.run(&mut round).await?;
            let goes_on = round.goes_on();
            if !caller.has_lost(&held) {
                caller.release(&held).await?;
            }
            if !goes_on {
                break;
            }
        }
        host.sleep(drawn(caller, job.workload.rest)).await;
    }
    Ok(())
}

/// How a caller acquires the lock in its next round: of a stock in segments, one after the other
/// from a drawn one on, until it finds something.
fn wishes(caller: &Caller, job: &Job) -> Vec<Wish> {
    if job.keys.is_empty() || job.takes_groups {
        // Drawn once: a client that draws again after each refusal would end as a reader.
        let (shared, keys) = (job.shares && is_reader(caller), group(caller, job));
        return vec![Wish { shared, keys, limit: None }];
    }
    let all = job.keys.len();
    let ordinal = token::ordinal(caller.last_call(), 3);
    let first = below(caller.host().draw(Purpose::Workload, ordinal), all as u64) as usize;
    let looks = if job.workload.buggy_caller == BuggyCaller::OneSegment { 1 } else { all };
    let keys = (0..looks).map(|nth| vec![job.keys[(first + nth) % all].clone()]);
    keys.map(|keys| Wish { keys, ..Wish::default() }).collect()
}

/// Waits for the next period and tries the lock once; no grant if another caller has it, if the
/// caller missed the beginning of the period, or if the workload is to stop.
async fn take_in_period(
    caller: &mut Caller,
    job: &Job,
    length: Nanos,
) -> Result<(Option<Held>, i64), Finished> {
    let host = caller.host().clone();
    let fired = firing::fire(&host, length).await;
    let Some(period) = fired.filter(|_| !job.stop.get()) else { return Ok((None, 0)) };
    Ok((attempt(caller, job, &Wish::default()).await?, period))
}

/// Acquires until the lock is granted; `None` once the workload is to stop. A client that checks
/// deadlines releases a grant that is already over when it arrives.
async fn take(caller: &mut Caller, job: &Job, wish: &Wish) -> Result<Option<Held>, Finished> {
    while !job.stop.get() {
        let taken = attempt(caller, job, wish).await?;
        if taken.is_some() {
            return Ok(taken);
        }
        wait(caller, job.workload.retry).await;
    }
    Ok(None)
}

/// Acquires once.
async fn attempt(caller: &mut Caller, job: &Job, wish: &Wish) -> Result<Option<Held>, Finished> {
    match caller.acquire(wish).await? {
        Taken::Granted(held) if is_too_late(caller, &held, job) => {
            caller.release(&held).await?;
        }
        Taken::Granted(held) => return Ok(Some(held)),
        Taken::Unknown(held) => drop(caller.release(&held).await?),
        Taken::Refused => return after_refusal(caller, job, wish).await,
        Taken::GivenUp => {}
    }
    Ok(None)
}

/// What a refused caller goes on with: nothing, unless it does not heed the answer.
async fn after_refusal(
    caller: &mut Caller,
    job: &Job,
    wish: &Wish,
) -> Result<Option<Held>, Finished> {
    match job.workload.buggy_caller {
        BuggyCaller::None | BuggyCaller::IgnoresLoss | BuggyCaller::OneSegment => {}
        BuggyCaller::ReleasesRefused => drop(caller.release(&refused(caller, wish)).await?),
        BuggyCaller::IgnoresRefusal => return Ok(Some(refused(caller, wish))),
    }
    Ok(None)
}

/// The grant that a refused caller takes itself to have: with an owner value that no lock gave.
fn refused(caller: &Caller, wish: &Wish) -> Held {
    let acquire = caller.last_call().op;
    let token = format!("{}-was-refused-{acquire}", caller.name());
    let grant = Grant { keys: wish.keys.clone(), ..Grant::new(token, None) };
    Held { grant, acquire, shared: wish.shared }
}

/// Whether a caller only reads in its next round: every other time, as drawn for its last
/// operation.
fn is_reader(caller: &Caller) -> bool {
    let ordinal = token::ordinal(caller.last_call(), 1);
    below(caller.host().draw(Purpose::Workload, ordinal), 2) == 0
}

/// The group of keys of a caller's next round, as drawn for its last operation: neighbours in
/// either direction, so that groups overlap and are acquired in opposite orders. Empty if the lock
/// takes no groups.
fn group(caller: &Caller, job: &Job) -> Vec<String> {
    let all = job.keys.len() as u64;
    if all == 0 {
        return Vec::new();
    }
    let ordinal = token::ordinal(caller.last_call(), 2);
    let drawn = below(caller.host().draw(Purpose::Workload, ordinal), 2 * all * all);
    let (first, count, is_back) = (drawn % all, drawn / all % all + 1, drawn / (all * all) == 1);
    let step = if is_back { all - 1 } else { 1 };
    let places = (0..count).map(|nth| (first + nth * step) % all);
    places.map(|place| job.keys[place as usize].clone()).collect()
}

fn is_too_late(caller: &Caller, held: &Held, job: &Job) -> bool {
    job.workload.check_validity && lease::is_over(caller.host(), held.grant.deadline)
}

/// Waits before the next try, up to `longest` ns.
pub async fn wait(caller: &Caller, longest: Nanos) {
    // The wait is never zero: a lock that refuses at once could be tried for ever in one instant.
    caller.host().sleep(MILLISECOND + drawn(caller, longest)).await;
}

/// A length up to `longest` ns, drawn for the caller's last operation.
fn drawn(caller: &Caller, longest: Nanos) -> Nanos {
    let ordinal = token::ordinal(caller.last_call(), 0);
    below(caller.host().draw(Purpose::Workload, ordinal), longest.saturating_add(1))
}
