//! Background tasks of a lock that end with their grants: what a watchdog needs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use lockstorm_platform::host::Host;

/// Tells the tasks of a grant that it has ended. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Rc<Cancelled>);

#[derive(Debug, Default)]
struct Cancelled {
    is_cancelled: Cell<bool>,
    /// Who waits in [`Cancellation::run_until_cancelled`].
    waiting: RefCell<Vec<Waker>>,
}

impl Cancellation {
    /// Cancels: it stays cancelled.
    pub fn cancel(&self) {
        self.0.is_cancelled.set(true);
        self.0.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Whether it was cancelled. A task checks this after each await: a fault may have delayed it
    /// there.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.get()
    }

    /// Runs `work` until it is done or this is cancelled; then `work` is dropped, and the result is
    /// `None`. If `work` is [`Setting::extending`](crate::lock::Setting::extending), its extend is
    /// recorded with an unknown outcome: its request may have been executed.
    pub async fn run_until_cancelled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|cx| {
            if self.is_cancelled() {
                return Poll::Ready(None);
            }
            let polled = work.as_mut().poll(cx).map(Some);
            // Taken out first: what is done must not be woken when its grant ends.
            let mut waiting = self.0.waiting.borrow_mut();
            waiting.retain(|waker| !waker.will_wake(cx.waker()));
            if polled.is_pending() {
                waiting.push(cx.waker().clone());
            }
            polled
        })
        .await
    }
}

/// The background tasks of a lock, one for each grant, by the grant's token.
#[derive(Debug, Default)]
pub struct GrantTasks(BTreeMap<String, Cancellation>);

impl GrantTasks {
    /// Starts a task for the grant with this token. It receives what tells it that the grant has
    /// ended: it has to end by itself then.
    pub fn spawn<F>(&mut self, host: &Host, token: &str, task: impl FnOnce(Cancellation) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        let cancellation = Cancellation::default();
        self.0.insert(token.to_owned(), cancellation.clone());
        host.spawn(task(cancellation));
    }

    /// Ends the task of the grant with this token, if there is one. Call it before the request of a
    /// release is sent, so that no renewal starts after it.
    pub fn end(&mut self, token: &str) {
        if let Some(cancellation) = self.0.remove(token) {
            cancellation.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, pending, poll_fn, ready};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use super::Cancellation;

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Counter(AtomicU32);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn work_runs_until_it_is_done_or_cancelled() {
        let (cancellation, woken) = (Cancellation::default(), Arc::new(Counter::default()));
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let mut polls = 0;
        let twice = poll_fn(|_| {
            polls += 1;
            if polls == 2 { Poll::Ready(1) } else { Poll::Pending }
        });
        let mut done = pin!(cancellation.run_until_cancelled(twice));
        assert!(done.as_mut().poll(&mut cx).is_pending());
        assert_eq!(done.poll(&mut cx), Poll::Ready(Some(1)));
        assert!(cancellation.0.waiting.borrow().is_empty(), "it is woken no more");
        let mut endless = pin!(cancellation.run_until_cancelled(pending::<u32>()));
        assert!(endless.as_mut().poll(&mut cx).is_pending());
        assert!(endless.as_mut().poll(&mut cx).is_pending());
        assert!(!cancellation.is_cancelled());
        cancellation.clone().cancel();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert_eq!(endless.poll(&mut cx), Poll::Ready(None));
        let late = pin!(cancellation.run_until_cancelled(ready(2)));
        assert_eq!(late.poll(&mut cx), Poll::Ready(None));
    }
}
