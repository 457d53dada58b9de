//! Waits for several futures at once. It is no scheduler: the order of polls is always the same.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use lockstorm_platform::host::LocalFuture;

/// Runs all of `parts` concurrently and returns their results in the order of the parts.
pub async fn all<T>(parts: Vec<LocalFuture<'_, T>>) -> Vec<T> {
    until(parts, |_| false).await.into_iter().flatten().collect()
}

/// Runs all of `parts` concurrently until `is_enough` accepts the results so far, or all are done:
/// a lock that goes on at the first quorum of replies does not wait for a slow node. Returns a
/// result, or `None`, for each part in their order. The parts that are not done are dropped, so the
/// outcome of their requests is unknown. A part is polled again only after its waker was woken.
pub async fn until<T>(
    parts: Vec<LocalFuture<'_, T>>,
    is_enough: impl Fn(&[Option<T>]) -> bool,
) -> Vec<Option<T>> {
    let mut results: Vec<Option<T>> = parts.iter().map(|_| None).collect();
    let mut parts: Vec<Joined<T>> = parts.into_iter().map(Joined::new).collect();
    poll_fn(|cx| {
        for (part, result) in parts.iter_mut().zip(&mut results) {
            if result.is_none()
                && let Poll::Ready(done) = part.poll_if_woken(cx)
            {
                *result = Some(done);
            }
        }
        let is_over = results.iter().all(Option::is_some) || is_enough(&results);
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results
}

/// One of several futures in a task. It is polled only if it was woken: a reply of one node does
/// not look at the requests to all the others.
struct Joined<'a, T> {
    future: LocalFuture<'a, T>,
    /// `None` before the first poll.
    bell: Option<(Arc<Bell>, Waker)>,
}

/// Notes that a part was woken, and wakes its task.
struct Bell {
    task: Waker,
    has_rung: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Bell>) {
        self.has_rung.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl<'a, T> Joined<'a, T> {
    fn new(future: LocalFuture<'a, T>) -> Joined<'a, T> {
        Joined { future, bell: None }
    }

    fn poll_if_woken(&mut self, cx: &Context<'_>) -> Poll<T> {
        // The first poll, or a poll by another task: what would wake the former one is void.
        let known = self.bell.take().filter(|(bell, _)| bell.task.will_wake(cx.waker()));
        let (bell, waker) = self.bell.insert(known.unwrap_or_else(|| {
            let bell = Arc::new(Bell { task: cx.waker().clone(), has_rung: true.into() });
            (Arc::clone(&bell), Waker::from(bell))
        }));
        if !bell.has_rung.swap(false, Ordering::Acquire) {
            return Poll::Pending;
        }
        self.future.as_mut().poll(&mut Context::from_waker(waker))
    }
}

/// The winner of a [`race`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Winner<A, B> {
    /// The first future, with its result.
    Left(A),
    /// The second future, with its result.
    Right(B),
}

/// Runs two futures concurrently and returns the result of the one that is done first; the other is
/// dropped. If both are done at the same instant, the first wins.
pub async fn race<A, B>(
    left: impl Future<Output = A>,
    right: impl Future<Output = B>,
) -> Winner<A, B> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|cx| match left.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Winner::Left(done)),
        Poll::Pending => right.as_mut().poll(cx).map(Winner::Right),
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};

    use lockstorm_platform::host::LocalFuture;

    use super::{Winner, all, race, until};

    /// Returns its number at the nth poll; it wakes itself until then.
    fn slow(number: u32, mut polls: u32) -> LocalFuture<'static, u32> {
        Box::pin(poll_fn(move |cx| {
            polls -= 1;
            if polls == 0 {
                return Poll::Ready(number);
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
    }

    #[test]
    fn a_part_is_polled_only_if_it_was_woken_or_another_task_polls() {
        let polls = Cell::new(0);
        let asleep: LocalFuture<'_, u32> = Box::pin(poll_fn(|_| {
            polls.set(polls.get() + 1);
            Poll::Pending
        }));
        let mut joined = pin!(all(vec![slow(1, 3), asleep]));
        let tasks = [Waker::noop().clone(), Waker::from(Arc::new(OtherTask))];
        let polled = [0, 0, 0, 1].map(|task| {
            assert!(joined.as_mut().poll(&mut Context::from_waker(&tasks[task])).is_pending());
            polls.get()
        });
        assert_eq!(polled, [1, 1, 1, 2]);
    }

    struct OtherTask;

    impl Wake for OtherTask {
        fn wake(self: Arc<OtherTask>) {}
    }

    #[test]
    fn results_keep_the_order_of_the_parts_and_none_is_polled_after_its_end() {
        let mut joined = pin!(all(vec![slow(1, 3), slow(2, 1), slow(3, 2)]));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(joined.as_mut().poll(&mut cx).is_pending());
        assert!(joined.as_mut().poll(&mut cx).is_pending());
        assert_eq!(joined.as_mut().poll(&mut cx), Poll::Ready(vec![1, 2, 3]));
    }

    #[test]
    fn what_is_not_done_when_the_results_are_enough_is_dropped() {
        let enough = |results: &[Option<u32>]| results.iter().flatten().count() == 2;
        let mut first = pin!(until(vec![slow(1, 3), slow(2, 1), slow(3, 2)], enough));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut cx).is_pending());
        assert_eq!(first.as_mut().poll(&mut cx), Poll::Ready(vec![None, Some(2), Some(3)]));
    }

    #[test]
    fn a_race_is_won_by_the_first_and_a_tie_by_the_left() {
        let result = |left, right| {
            let mut cx = Context::from_waker(Waker::noop());
            let mut race = pin!(race(slow(1, left), slow(2, right)));
            loop {
                if let Poll::Ready(won) = race.as_mut().poll(&mut cx) {
                    return won;
                }
            }
        };
        assert_eq!(result(2, 3), Winner::Left(1));
        assert_eq!(result(3, 2), Winner::Right(2));
        assert_eq!(result(2, 2), Winner::Left(1));
    }
}
