//! Shutdown of a live world by a user: Ctrl-C, or SIGTERM from a parent process.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for a stop signal. A task of a live world must await it; from the first call on, the
/// signals no longer stop the process on their own.
pub async fn requested() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    let (mut interrupt, mut terminate) = (pin!(interrupt.recv()), pin!(terminate.recv()));
    std::future::poll_fn(|cx| match interrupt.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => terminate.as_mut().poll(cx).map(drop),
    })
    .await;
}
