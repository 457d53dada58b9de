//! The liveness probe: can any client still acquire the lock after the heal?

use lockstorm_platform::host::Host;
use lockstorm_platform::time::Nanos;

use crate::history::PROBE_MARGIN;
use crate::workload::Job;
use crate::workload::caller::{Caller, Taken, Wish};
use crate::workload::client::wait;
use crate::workload::guard::{Ending, Finished};

/// The maximum time between two tries. Several tries fall into the margin within which the probe
/// must be granted, however long clients rest after a refusal.
const MAX_RETRY: Nanos = PROBE_MARGIN / 5;

/// Tries until the lock is granted, releases it, and finishes; the locks of segments one after the
/// other. Each try is an operation.
pub async fn run(host: Host, job: Job) {
    let Ok(mut caller) = Caller::new(&host, host.name(), &job, Ending::default()) else { return };
    // A lock that ends its process has already been recorded.
    let _ = attempt(&mut caller, &job).await;
}

async fn attempt(caller: &mut Caller, job: &Job) -> Result<(), Finished> {
    let wishes = match job.takes_groups || job.keys.is_empty() {
        true => vec![job.keys.clone()],
        false => job.keys.iter().map(|key| vec![key.clone()]).collect(),
    };
    for keys in wishes {
        until_granted(caller, job, &Wish { keys, ..Wish::default() }).await?;
    }
    Ok(())
}

async fn until_granted(caller: &mut Caller, job: &Job, wish: &Wish) -> Result<(), Finished> {
    loop {
        match caller.acquire(wish).await? {
            Taken::Granted(held) => return caller.release(&held).await.map(drop),
            Taken::Unknown(held) => drop(caller.release(&held).await?),
            Taken::Refused | Taken::GivenUp => {}
        }
        wait(caller, job.workload.retry.min(MAX_RETRY)).await;
    }
}
