//! How the tasks of one node wait for each other: a signal that is raised, and the first of two.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::task::{Poll, Waker};

/// Something that happens again and again. Who waits says how often he has seen it happen.
#[derive(Default)]
pub struct Signal {
    raised: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Signal {
    /// Makes it happen: everybody who waits goes on.
    pub fn raise(&self) {
        self.raised.set(self.raised.get() + 1);
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// How often it has happened.
    pub fn count(&self) -> u64 {
        self.raised.get()
    }

    /// Waits until it has happened more often than `seen`.
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

/// Which of two came first.
pub enum First<A, B> {
    /// The one that is looked at first, also if both are ready.
    This(A),
    /// The other.
    That(B),
}

/// Runs two futures until one of them is done; the other is dropped.
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
