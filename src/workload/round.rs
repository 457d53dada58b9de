//! One time under the lock: the accesses to the resource, each of which the caller may have
//! reason to leave out.

use lockstorm_sim::redis::frame::Reply;

use crate::history::{OpId, OpKind, Outcome};
use crate::lock::Call;
use crate::lock::answer::{self, Answer, Said};
use crate::lock::client::Client;
use crate::lock::lease;
use crate::plan::{FenceOn, Workload};
use crate::workload::RESOURCE;
use crate::workload::caller::{Caller, Held};
use crate::workload::recorder::Recorder;
use crate::workload::resource::{NONE, REFUSED};

/// A caller that holds the lock, and the resource in its reach.
pub struct Round<'a> {
    /// Who holds the lock.
    pub caller: &'a Caller,
    /// What it holds.
    pub held: &'a Held,
    /// What it is to do.
    pub workload: &'a Workload,
    /// Where its accesses are written down.
    pub recorder: &'a Recorder,
    /// Its connection to the resource.
    pub resource: &'a mut Client,
}

impl Round<'_> {
    /// Reads the resource; `None` if that came to nothing.
    pub async fn read(&mut self) -> Option<i64> {
        let kind = OpKind::Read { grant: Some(self.held.acquire) };
        match self.access("READ", kind, &[]).await? {
            Outcome::Value { value } => Some(value),
            _ => None,
        }
    }

    /// Puts `value` in the place of the value that was `read`.
    pub async fn write(&mut self, value: i64, read: i64) {
        let kind = OpKind::Write { grant: Some(self.held.acquire), value };
        self.access("WRITE", kind, &[value, read]).await;
    }

    /// Appends an entry to the resource's log.
    pub async fn append(&mut self) {
        let kind = OpKind::Append { grant: Some(self.held.acquire) };
        self.access("APPEND", kind, &[]).await;
    }

    /// Works for as long as the workload says, with nothing to be seen of it.
    pub async fn work(&self) {
        self.caller.host().sleep(self.workload.hold).await;
    }

    /// Whether the caller still believes that it may touch the resource.
    fn may_go_on(&self) -> bool {
        let deadline = self.held.grant.deadline;
        let over = self.workload.check_validity && lease::is_over(self.caller.host(), deadline);
        !over && !self.caller.was_told_of_loss(self.held)
    }

    /// One access, written down; `None` if the caller left it out.
    async fn access(
        &mut self,
        command: &'static str,
        kind: OpKind,
        numbers: &[i64],
    ) -> Option<Outcome> {
        if !self.may_go_on() {
            return None;
        }
        let host = self.caller.host();
        let fence = self.fence_of(&kind);
        let call = self.recorder.call(host, self.caller.name(), RESOURCE, kind).await;
        let words = words(call, self.caller.name(), self.held.acquire, fence, numbers);
        let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let timeout = self.workload.timeout;
        let outcome = outcome(&self.resource.request(call, timeout, command, &args).await);
        self.recorder.ret(host, call.op, outcome.clone()).await;
        Some(outcome)
    }

    fn fence_of(&self, kind: &OpKind) -> Option<u64> {
        let carried =
            self.workload.fence_on == FenceOn::All || !matches!(kind, OpKind::Read { .. });
        self.held.grant.fence.filter(|_| carried)
    }
}

/// The arguments of a request, as [`crate::workload::resource`] reads them.
fn words(
    call: Call,
    caller: &str,
    grant: OpId,
    fence: Option<u64>,
    numbers: &[i64],
) -> Vec<String> {
    let fence = fence.map_or_else(|| NONE.to_owned(), |fence| fence.to_string());
    let mut words = vec![call.op.to_string(), caller.to_owned(), grant.to_string(), fence];
    words.extend(numbers.iter().map(i64::to_string));
    words
}

/// What the resource's answer means. What was surely not sent had no effect, as if refused.
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
