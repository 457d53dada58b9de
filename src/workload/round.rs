//! One round under the lock: the accesses to the guarded resource. The caller may have a reason to
//! skip any of them.

use lockstorm_platform::host::Host;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND};
use lockstorm_redis::frame::Reply;

use crate::history::{OpKind, Outcome, RESOURCE, segment};
use crate::lock::client::Client;
use crate::lock::client::answer::{self, Answer, Said};
use crate::lock::{Extended, lease};
use crate::plan::buggy_caller::BuggyCaller;
use crate::plan::extend::{Extend, Rhythm};
use crate::plan::{FenceOn, Workload};
use crate::workload::addition::{Addition, Word};
use crate::workload::caller::{Caller, Held, Taken, Wish};
use crate::workload::guard::Finished;
use crate::workload::resource::REFUSED;
use crate::workload::{Job, reentry};

/// The minimum time between two extends, ns: without a wait, time might not pass.
const MIN_WAIT: Nanos = MILLISECOND;

/// A caller that holds the lock, with its connection to the resource.
pub struct Round<'a> {
    caller: &'a mut Caller,
    held: &'a mut Held,
    job: &'a Job,
    resource: &'a mut Client,
    /// The reading of the monotonic clock until which the caller relies on a grant without a
    /// deadline.
    term: Nanos,
    /// The number of its period, if rounds follow a clock.
    period: i64,
    /// Whether the caller stopped working because too little of the lease was left.
    is_over: bool,
    /// The segment of the resource that the grant is for, if it is in segments.
    segment: Option<u32>,
    /// Whether the caller looks into another segment if there is nothing in this one.
    has_next: bool,
    /// Whether there was nothing in this one.
    found_nothing: bool,
}

impl<'a> Round<'a> {
    /// A round that begins now.
    pub fn new(
        caller: &'a mut Caller,
        held: &'a mut Held,
        job: &'a Job,
        resource: &'a mut Client,
    ) -> Round<'a> {
        let now = caller.host().now(Clock::Monotonic);
        let term = now.saturating_add(job.config.ttl.unwrap_or(0));
        let of_key = |key: &String| job.keys.iter().position(|own| own == key);
        let is_divided = !job.takes_groups;
        let place = held.grant.keys.first().filter(|_| is_divided).and_then(of_key);
        let segment = place.and_then(|place| u32::try_from(place + 1).ok());
        let (period, is_over, has_next, found_nothing) = (0, false, false, false);
        Round {
            caller,
            held,
            job,
            resource,
            term,
            period,
            is_over,
            segment,
            has_next,
            found_nothing,
        }
    }

    /// The same round, with another segment after it or none.
    #[must_use]
    pub fn with_next(self, has_next: bool) -> Round<'a> {
        Round { has_next, ..self }
    }

    /// Whether its caller goes on to the next segment.
    pub fn goes_on(&self) -> bool {
        self.has_next && self.found_nothing
    }

    /// The same round, as that of a period.
    #[must_use]
    pub fn of_period(self, period: i64) -> Round<'a> {
        Round { period, ..self }
    }

    /// The number of its period; 0 if rounds follow no clock.
    pub fn period(&self) -> i64 {
        self.period
    }

    /// The workload, with its figures.
    pub fn workload(&self) -> &Workload {
        &self.job.workload
    }

    /// The machine of the caller: its clocks and draws.
    pub fn host(&self) -> &Host {
        self.caller.host()
    }

    /// Reads the resource; `None` if the read failed.
    pub async fn read(&mut self) -> Option<i64> {
        let kind = OpKind::Read { grant: Some(self.held.acquire) };
        value(self.access("READ", kind, "").await?)
    }

    /// Writes `value` in place of the value that was `read`, unless the caller holds the lock in
    /// shared mode.
    pub async fn write(&mut self, value: i64, read: i64) {
        if self.held.shared {
            return;
        }
        let kind = OpKind::Write { grant: Some(self.held.acquire), value };
        self.access("WRITE", kind, &format!("{value} {read}")).await;
    }

    /// Appends an entry to the resource's log, unless the caller holds the lock in shared mode.
    pub async fn append(&mut self) {
        if self.held.shared {
            return;
        }
        let kind = OpKind::Append { grant: Some(self.held.acquire) };
        self.access("APPEND", kind, "").await;
    }

    /// Notes that the segment is empty. If the caller looks into no other, its buyer is turned
    /// away, and the resource's log has an entry for that.
    pub async fn finds_nothing(&mut self) {
        self.found_nothing = true;
        if !self.has_next {
            self.append().await;
        }
    }

    /// Adds to the resource's value in one step, unless the caller holds the lock in shared mode.
    /// Returns the result; `None` if the resource refused, or if the addition failed or its outcome
    /// is unknown.
    pub async fn add(&mut self, addition: Addition) -> Option<i64> {
        if self.held.shared {
            return None;
        }
        let kind = OpKind::Add { grant: Some(self.held.acquire), by: addition.by };
        value(self.access("ADD", kind, &addition.to_string()).await?)
    }

    /// Lets the resource's value end after so many ns, unless the caller holds the lock in shared
    /// mode.
    pub async fn expire(&mut self, lasts: Nanos) {
        if self.held.shared {
            return;
        }
        let kind = OpKind::Expire { grant: Some(self.held.acquire) };
        self.access("EXPIRE", kind, &lasts.to_string()).await;
    }

    /// Works for as long as the workload specifies, without accesses to the resource.
    ///
    /// # Errors
    /// If the lock ends the process.
    pub async fn work(&mut self) -> Result<(), Finished> {
        let Workload { hold, extend, reenter, .. } = self.job.workload;
        let rest = (extend != Extend::UntilLost).then_some(hold);
        if !reenter {
            return self.busy(rest).await;
        }
        let inner = self.reenter().await?;
        self.busy(Some(hold / 2)).await?;
        if let Some(inner) = inner.filter(|inner| !self.caller.has_lost(inner)) {
            self.caller.release(&inner).await?;
        }
        self.busy(rest.map(|hold| hold - hold / 2)).await
    }

    /// Re-enters the lock. A lock that is not re-entrant refuses. If it would make its caller wait
    /// for itself, the limit ends that wait.
    async fn reenter(&mut self) -> Result<Option<Held>, Finished> {
        let limit = reentry(&self.job.workload, self.job.config.ttl);
        let Held { grant, shared, .. } = &*self.held;
        let wish = Wish { shared: *shared, keys: grant.keys.clone(), limit: Some(limit) };
        match self.caller.acquire(&wish).await? {
            Taken::Granted(inner) => return Ok(Some(inner)),
            Taken::Unknown(inner) => drop(self.caller.release(&inner).await?),
            Taken::Refused | Taken::GivenUp => {}
        }
        Ok(None)
    }

    /// Works for `length` ns, or until the grant is lost or the workload is to stop; extends the
    /// grant meanwhile.
    async fn busy(&mut self, length: Option<Nanos>) -> Result<(), Finished> {
        let host = self.caller.host().clone();
        let Some(rhythm) = self.job.workload.extend.rhythm() else {
            host.sleep(length.unwrap_or(0)).await;
            return Ok(());
        };
        let until = length.map(|length| host.now(Clock::Monotonic).saturating_add(length));
        let mut wait = self.due_in(rhythm);
        while !self.has_ended() && (length.is_some() || !self.job.stop.get()) {
            let now = host.now(Clock::Monotonic);
            let rest = until.map_or(Nanos::MAX, |until| until.saturating_sub(now));
            if rest <= wait {
                host.sleep(rest).await;
                return Ok(());
            }
            host.sleep(wait).await;
            // Checked again: the grant may have been lost, or have run out, during the sleep.
            if !self.has_ended() && !self.is_running_out(rhythm) {
                wait = self.prolong(rhythm).await?;
            }
        }
        Ok(())
    }

    /// Extends the grant; returns the time until the next extend, ns.
    async fn prolong(&mut self, rhythm: Rhythm) -> Result<Nanos, Finished> {
        // Read before the request leaves: the node renews the lease later, so the term is never too
        // long.
        let sent = self.caller.host().now(Clock::Monotonic);
        Ok(match self.caller.extend(self.held).await? {
            Extended::Kept(_) => {
                self.term = sent.saturating_add(self.job.config.ttl.unwrap_or(0));
                self.due_in(rhythm)
            }
            Extended::Lost => MIN_WAIT,
            // Four retries fit before the reserve begins, and none falls within it.
            Extended::Unknown => {
                let ttl = self.job.config.ttl;
                let reserve = ttl.map_or(SECOND, |ttl| rhythm.reserve(ttl));
                let spare = ttl.map_or(SECOND, |_| self.left().saturating_sub(reserve));
                (reserve / 4).min(spare).max(MIN_WAIT)
            }
        })
    }

    /// The time until the next extend is due, ns. For a lock without a lease it is a share of the
    /// work.
    fn due_in(&self, rhythm: Rhythm) -> Nanos {
        let wait = match self.job.config.ttl {
            Some(ttl) => self.left().saturating_sub(ttl - rhythm.due(ttl)).min(rhythm.due(ttl)),
            None => rhythm.due(self.job.workload.hold.max(SECOND)),
        };
        wait.max(MIN_WAIT)
    }

    /// How long the caller may rely on the grant, ns: to its deadline, or for the lease from its
    /// arrival.
    fn left(&self) -> Nanos {
        let host = self.caller.host();
        match self.held.grant.deadline {
            Some((clock, reading)) => reading.saturating_sub(host.now(clock)),
            None => self.term.saturating_sub(host.now(Clock::Monotonic)),
        }
    }

    /// Whether too little of the lease is left to do anything in time: then the work is over.
    fn is_running_out(&mut self, rhythm: Rhythm) -> bool {
        let ttl = self.job.config.ttl;
        self.is_over |= ttl.is_some_and(|ttl| self.left() <= rhythm.reserve(ttl));
        self.is_over
    }

    /// Whether the caller no longer knows of a grant under which it could work.
    fn has_ended(&self) -> bool {
        let heeds = self.job.workload.buggy_caller != BuggyCaller::IgnoresLoss;
        self.is_over || heeds && self.caller.has_lost(self.held) || self.caller.has_ended()
    }

    /// Whether the caller still believes that it may touch the resource.
    fn may_go_on(&mut self) -> bool {
        let (workload, deadline) = (&self.job.workload, self.held.grant.deadline);
        let over = workload.check_validity && lease::is_over(self.caller.host(), deadline);
        let runs_out = workload.extend.rhythm().is_some_and(|rhythm| self.is_running_out(rhythm));
        !over && !runs_out && !self.has_ended()
    }

    /// One recorded access; `None` if the caller skipped it.
    async fn access(&mut self, command: &'static str, kind: OpKind, rest: &str) -> Option<Outcome> {
        // Checked before the call and not after it: a pause that strikes at the call makes the
        // access late, as in a real client.
        if !self.may_go_on() {
            return None;
        }
        let host = self.caller.host();
        let fence = self.fence_of(&kind);
        let (object, place) = match self.segment {
            Some(nth) => (segment(nth), format!("@{nth}")),
            None => (RESOURCE.to_owned(), String::new()),
        };
        let call = self.job.recorder.call(host, self.caller.name(), &object, kind).await;
        let (name, grant) = (self.caller.name(), self.held.acquire);
        // As [`crate::workload::resource`] reads them.
        let words = format!("{} {name} {grant} {} {place} {rest}", call.op, Word(fence));
        let args: Vec<&[u8]> = words.split_whitespace().map(str::as_bytes).collect();
        let timeout = self.job.workload.timeout;
        let outcome = outcome(&self.resource.request(call, timeout, command, &args).await);
        self.job.recorder.ret(host, call.op, outcome.clone()).await;
        Some(outcome)
    }

    fn fence_of(&self, kind: &OpKind) -> Option<u64> {
        let carried =
            self.job.workload.fence_on == FenceOn::All || !matches!(kind, OpKind::Read { .. });
        self.held.grant.fence.filter(|_| carried)
    }
}

fn value(outcome: Outcome) -> Option<i64> {
    if let Outcome::Value { value } = outcome { Some(value) } else { None }
}

/// The meaning of the resource's reply. A request that was surely not sent is a refusal.
fn outcome(answer: &Answer) -> Outcome {
    match (answer, answer::said(answer)) {
        (Ok(Reply::Integer(value)), _) => Outcome::Value { value: *value },
        (_, Said::Yes | Said::No) => Outcome::Accepted,
        (_, Said::Refused(why)) => {
            let why = why.strip_prefix(REFUSED).unwrap_or(&why).to_owned();
            Outcome::Refused { why }
        }
        (_, Said::Unknown) => Outcome::Unknown,
    }
}
