//! Waits for several requests at once. It is no scheduler: the order of polls is always the same.

use std::future::poll_fn;
use std::task::Poll;

use lockstorm_platform::host::LocalFuture;

/// Runs all of `parts` concurrently and returns their results in the order of the parts.
pub async fn all<T>(mut parts: Vec<LocalFuture<'_, T>>) -> Vec<T> {
    let mut results: Vec<Option<T>> = parts.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (part, result) in parts.iter_mut().zip(&mut results) {
            if result.is_none()
                && let Poll::Ready(done) = part.as_mut().poll(cx)
            {
                *result = Some(done);
            }
        }
        if results.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use lockstorm_platform::host::LocalFuture;

    use super::all;

    /// Returns its number at the nth poll.
    fn slow(number: u32, mut polls: u32) -> LocalFuture<'static, u32> {
        Box::pin(poll_fn(move |_| {
            polls -= 1;
            if polls == 0 { Poll::Ready(number) } else { Poll::Pending }
        }))
    }

    #[test]
    fn results_keep_the_order_of_the_parts_and_none_is_polled_after_its_end() {
        let mut joined = pin!(all(vec![slow(1, 3), slow(2, 1), slow(3, 2)]));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(joined.as_mut().poll(&mut cx).is_pending());
        assert!(joined.as_mut().poll(&mut cx).is_pending());
        assert_eq!(joined.as_mut().poll(&mut cx), Poll::Ready(vec![1, 2, 3]));
    }
}
