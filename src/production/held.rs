//! A grant in the hands of a service: how much of it is left, and when it is lost.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use lockstorm_platform::time::Nanos;
use tokio::sync::watch::{Receiver, Sender};

use crate::lock::client::join::{Winner, race};
use crate::lock::{Deadline, Grant};
use crate::production::system_clock;
use crate::production::system_host::HoldTasks;

/// A lock that is held.
///
/// A holder that drops it without a release lets its lease run out: nothing renews it any more, and
/// nobody else has the lock before that. It is what the death of the process would do.
pub struct HeldLock {
    pub(crate) grant: Grant,
    status: Rc<Sender<GrantStatus>>,
    tasks: HoldTasks,
    /// Set if this is dropped while its lock counts on it.
    has_dropped: Rc<Cell<bool>>,
}

/// What is known of a grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GrantStatus {
    /// Until when it is valid; `None` if it never expires.
    pub(crate) deadline: Option<Deadline>,
    /// Whether the lock has reported its loss, or an extend has found it.
    pub(crate) is_lost: bool,
}

/// Why a holder has to stop its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The lock has found that the grant is gone: its key was deleted, or belongs to another.
    Reported,
    /// The lease is over, and no extend has prolonged it in time.
    Over,
    /// Nothing was lost: the holder has released the lock, or dropped its grant.
    Released,
}

impl HeldLock {
    /// A grant with the tasks that its acquire has started.
    pub(crate) fn new(
        grant: Grant,
        status: Rc<Sender<GrantStatus>>,
        tasks: HoldTasks,
        has_dropped: Rc<Cell<bool>>,
    ) -> HeldLock {
        HeldLock { grant, status, tasks, has_dropped }
    }

    /// The owner value that the lock's key holds.
    pub fn token(&self) -> &str {
        &self.grant.token
    }

    /// The increasing number, if the lock gives one: send it with each write to a resource that
    /// refuses smaller ones.
    pub fn fence(&self) -> Option<u64> {
        self.grant.fence
    }

    /// How much of the lease is left: zero once the grant is lost, `None` if it never expires.
    /// Renewals lengthen it.
    pub fn left(&self) -> Option<Duration> {
        let status = *self.status.borrow();
        status.left().map(Duration::from_nanos)
    }

    /// Whether the holder has to stop: the grant is lost, or its lease is over.
    pub fn is_lost(&self) -> bool {
        self.status.borrow().is_over()
    }

    /// Waits until the holder has to stop, and returns why. The future may go to another thread,
    /// and it does not borrow the grant: race it against the work.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        wait_for_loss(self.status.subscribe())
    }

    /// Moves the deadline: an extend was granted.
    pub(crate) fn prolong(&mut self, deadline: Option<Deadline>) {
        self.grant.deadline = deadline;
        self.status.send_modify(|status| status.deadline = deadline);
    }

    /// Notes that an extend found the grant gone.
    pub(crate) fn lose(&self) {
        self.status.send_modify(|status| status.is_lost = true);
    }

    /// Ends it after its release. What the lock has under way ends by itself.
    pub(crate) fn end(mut self) {
        self.tasks.let_go();
        self.has_dropped = Rc::default();
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // A lock that has reported the loss does not count on the grant.
        let is_counted_on = !self.status.borrow().is_lost;
        self.has_dropped.set(self.has_dropped.get() || is_counted_on);
    }
}

impl GrantStatus {
    /// How much of the lease is left, ns; `None` if it never expires.
    fn left(self) -> Option<Nanos> {
        if self.is_lost {
            return Some(0);
        }
        let (clock, reading) = self.deadline?;
        Some(reading.saturating_sub(system_clock::now(clock)))
    }

    fn is_over(self) -> bool {
        self.left() == Some(0)
    }
}

/// It ends with the lease at the latest, also if the task that renews has died and reports nothing.
async fn wait_for_loss(mut status: Receiver<GrantStatus>) -> Loss {
    loop {
        let known = *status.borrow_and_update();
        if known.is_lost {
            return Loss::Reported;
        }
        if known.is_over() {
            return Loss::Over;
        }
        let changed = match known.deadline {
            None => status.changed().await,
            Some((clock, reading)) => {
                match race(status.changed(), system_clock::sleep_until(clock, reading)).await {
                    Winner::Left(changed) => changed,
                    Winner::Right(()) => Ok(()),
                }
            }
        };
        if changed.is_err() {
            return Loss::Released;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use lockstorm_platform::time::{Clock, SECOND};
    use tokio::sync::watch::Sender;

    use super::{GrantStatus, Loss, wait_for_loss};
    use crate::production::system_clock::now;

    fn polled(status: &Sender<GrantStatus>) -> Poll<Loss> {
        pin!(wait_for_loss(status.subscribe())).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_grant_is_lost_when_it_is_reported_and_when_its_lease_is_over() {
        let endless = Sender::new(GrantStatus::default());
        assert_eq!(polled(&endless), Poll::Pending);
        endless.send_modify(|status| status.is_lost = true);
        assert_eq!(polled(&endless), Poll::Ready(Loss::Reported));
        let ended = Some((Clock::Monotonic, now(Clock::Monotonic)));
        let over = Sender::new(GrantStatus { deadline: ended, is_lost: false });
        assert_eq!(polled(&over), Poll::Ready(Loss::Over));
    }

    #[test]
    fn who_waits_is_woken_by_a_loss_and_by_a_release() {
        let mut cx = Context::from_waker(Waker::noop());
        let wall = GrantStatus { deadline: None, is_lost: false };
        let (lost, released) = (Sender::new(wall), Sender::new(wall));
        let mut first = pin!(wait_for_loss(lost.subscribe()));
        let mut second = pin!(wait_for_loss(released.subscribe()));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        lost.send_modify(|status| status.is_lost = true);
        drop(released);
        assert_eq!(first.poll(&mut cx), Poll::Ready(Loss::Reported));
        assert_eq!(second.poll(&mut cx), Poll::Ready(Loss::Released));
    }

    #[test]
    fn what_is_left_of_a_lost_lease_is_nothing() {
        let deadline = Some((Clock::Monotonic, now(Clock::Monotonic) + 60 * SECOND));
        let kept = GrantStatus { deadline, is_lost: false };
        assert!(kept.left().is_some_and(|left| left > 50 * SECOND) && !kept.is_over());
        assert!(GrantStatus { is_lost: true, ..kept }.is_over());
        assert_eq!(GrantStatus::default().left(), None);
    }
}
