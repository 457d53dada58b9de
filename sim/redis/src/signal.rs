//! How tasks of one node wait for each other: a repeatable signal, and the first of two futures.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::task::{Poll, Waker};

/// A repeatable event. A waiter passes the count that it read before its check, so that no raise in
/// between is lost.
#[derive(Default)]
pub struct Signal {
    raised: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Signal {
    /// Raises it: every waiter resumes.
    pub fn raise(&self) {
        self.raised.set(self.raised.get() + 1);
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// How often it was raised.
    pub fn count(&self) -> u64 {
        self.raised.get()
    }

    /// Waits until it was raised more often than `seen`.
    pub async fn past(&self, seen: u64) {
        std::future::poll_fn(|cx| {
            if self.raised.get() > seen {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

/// Which of two futures was ready first.
pub enum First<A, B> {
    /// The one that is polled first; it wins if both are ready.
    This(A),
    /// The other.
    That(B),
}

/// Runs two futures until one of them is ready; the other is dropped.
pub async fn first<A, B>(
    this: impl Future<Output = A>,
    that: impl Future<Output = B>,
) -> First<A, B> {
    let (mut this, mut that) = (pin!(this), pin!(that));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(done) = this.as_mut().poll(cx) {
            return Poll::Ready(First::This(done));
        }
        that.as_mut().poll(cx).map(First::That)
    })
    .await
}
