//! The liveness probe: after the heal, can anybody still get the lock?

use lockstorm_sim::platform::Host;

use crate::workload::Job;
use crate::workload::caller::{Caller, Taken};
use crate::workload::client::wait;

/// Asks until the lock is granted, gives it back, and is done. Each try is an operation.
pub async fn run(host: Host, job: Job) {
    let mut caller = Caller::new(&host, host.name(), &job);
    loop {
        match caller.acquire().await {
            Taken::Granted(held) => {
                caller.release(&held).await;
                return;
            }
            Taken::Unknown(held) => drop(caller.release(&held).await),
            Taken::Refused => {}
        }
        wait(&caller, job.workload.retry).await;
    }
}
